//! Packages: a wheel, Debian and conda packages, built twice, installed where nothing is, used and removed;
//! what an installation brings for manuals and shells; files of defaults.
//!
//! The steps on an installed system are scripts in `packaging/tests`, as they run where nothing but a shell
//! is. The commands of README.md's section on installing are run as well, and what they print is compared.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::book::{self, Block, Compared};
use super::context::{Context, Expected};
use super::needs::{Need, PACKAGES_PYTHON};
use super::process::{Finished, Run};
use super::{Case, Outcome};

/// The time limits of a step, and of building everything twice, in seconds.
const LIMIT_SECONDS: u64 = 900;
const BUILD_LIMIT_SECONDS: u64 = 5400;
/// The largest wheel.
const WHEEL_BYTES_MAX: u64 = 12 << 20;
/// The largest library without its symbols. `cargo xtask size` says which part takes how much.
const LIBRARY_BYTES_MAX: u64 = 4_000_000;
/// The programs of a build, with their places below the prefix.
const PROGRAMS: [(&str, &str); 5] = [
    ("libmpi_abi.so", "lib/libmpi_abi.so.1"),
    ("libmpifort_abi.so", "lib/libmpifort_abi.so.1"),
    ("mpiexec", "bin/mpiexec"),
    ("weft", "bin/weft"),
    ("weft-netd", "sbin/weft-netd"),
];
/// The empty system, which `packaging/base.sh` makes once.
const BASE: &str = "build/base/debian-12.tar.gz";
/// What that system has beside the least that Debian installs: compilers, and Python.
const BASE_PACKAGES: &str =
    "gcc,libc6-dev,gfortran,pkg-config,python3,python3-venv,python3-dev,systemd-standalone-sysusers";
/// What mpi4py is built of on a system without a network.
const MPI4PY: &[&str] = &["cython==3.3.1", "setuptools==80.9.0", "wheel==0.45.1"];
/// What `make` does where the packages have been made.
const MADE: &str = "make() { :; }";
/// How the line begins in which a script says the time of an installation and of a first program.
const FIGURE: &str = "installed, and hello from two ranks: ";
/// The time of all packages that the cases make: 2026-01-01.
const EPOCH: &str = "1767225600";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![
        Case::new("a wheel of the installed programs, twice: the same bytes, and a true tag", |context| {
            let build = installed(context)?;
            let (one, other) = (wheel(context, &build, "one")?, wheel(context, &build, "other")?);
            same(std::slice::from_ref(&one), &[other])?;
            has_at_most(&one, WHEEL_BYTES_MAX)
        }),
        Case::new("the library without its symbols is not larger than the book says", |context| {
            if std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CARGO_PROFILE_RELEASE_")) {
                return Ok(Outcome::Skipped("the environment changes the release profile".into()));
            }
            let library = installed(context)?.join("programs/libmpi_abi.so");
            has_at_most(&library, LIBRARY_BYTES_MAX)?;
            Ok(Outcome::Passed)
        }),
        Case::new("the wheel in an environment, moved, as --user, and removed", |context| {
            let build = installed(context)?;
            let wheel = wheel(context, &build, "tried")?;
            let place = empty(context.work.join("packages/place"))?;
            let script = absolute(context, "packaging/tests/wheel.sh");
            let run = Run::new("sh").arg(script).arg(wheel).arg(absolute(context, "examples")).directory(&place);
            Ok(Expected::code(0).says("and removed").judge(run.limit(LIMIT_SECONDS).finish()))
        }),
        Case::new("README.md: installing from the sources", |context| {
            let root = std::fs::canonicalize(&context.root)?;
            let make = format!("make() {{ (cd '{}' && command make \"$@\"); }}", root.display());
            replay(context, "make install", &make, &empty(context.work.join("packages/readme-sources"))?)
        }),
        Case::new("README.md: installing the wheel", |context| {
            let place = empty(context.work.join("packages/readme-wheel"))?;
            std::fs::create_dir_all(place.join("build/packages"))?;
            copy(&wheel(context, &installed(context)?, "readme")?, &place.join("build/packages"))?;
            replay(context, "make wheel", MADE, &place)
        }),
        Case::new("conda packages of the installed programs: their recipes' tests, and an empty prefix", |context| {
            let build = installed(context)?;
            conda(context, Some(&build), "tried")
        })
        .needs(&[Need::Rattler]),
        Case::new("every program has a page for man, and shells complete mpiexec and weft", pages),
    ];
    cases.push(Case::new("a release writes version, changes and tag, and refuses what is none", release));
    cases.extend(defaults());
    cases
}

pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("two builds in two places: the same programs", |context| {
            // What the other cases make of earlier builds.
            empty(context.work.join("packages/debs"))?;
            for name in ["one", "other"] {
                let tree = copy_of_sources(context, name)?;
                let run = Run::new("sh").arg("packaging/build.sh").arg(built(context, name)).directory(&tree);
                succeed(with_stamp(context, run)?.limit(BUILD_LIMIT_SECONDS).finish())?;
            }
            let programs =
                |name: &str| PROGRAMS.map(|(program, _)| built(context, name).join("programs").join(program));
            same(&programs("one"), &programs("other"))
        }),
        Case::new("two wheels of these builds: the same bytes", |context| {
            let (one, other) =
                (wheel(context, &built(context, "one"), "one")?, wheel(context, &built(context, "other"), "other")?);
            same(std::slice::from_ref(&one), &[other])?;
            has_at_most(&one, WHEEL_BYTES_MAX)
        }),
        Case::new("Debian packages of these builds, twice: the same bytes", |context| {
            same(&debs(context, &built(context, "one"), "one")?, &debs(context, &built(context, "other"), "other")?)
        })
        .needs(&[Need::Debhelper]),
        Case::new("lintian finds nothing", |context| {
            let packages = debs(context, &built(context, "one"), "one")?;
            let run = Run::new("lintian").args(["--fail-on", "error,warning", "--allow-root"]).args(&packages);
            Ok::<_, anyhow::Error>(Expected::code(0).never_says("W: ").judge(run.limit(LIMIT_SECONDS).finish()))
        })
        .needs(&[Need::Debhelper, Need::Lintian]),
        Case::new(
            "the wheel on an empty system, as an ordinary user: hello, heat, mpi4py from source, doctor",
            |context| {
                let shared = empty(context.work.join("packages/shared"))?;
                let wheel = wheel(context, &built(context, "one"), "one")?;
                copy(&wheel, &shared)?;
                archives(context, &shared.join("archives"))?;
                Ok(in_base_timed(context, &shared, "wheel-in-base.sh", "and removed"))
            },
        )
        .needs(&[Need::Debootstrap]),
        Case::new("Debian packages on an empty system: used, upgraded, removed, purged", |context| {
            let shared = empty(context.work.join("packages/shared"))?;
            for package in debs(context, &built(context, "one"), "one")? {
                copy(&package, &shared)?;
            }
            Ok::<_, anyhow::Error>(in_base_timed(context, &shared, "deb-in-base.sh", "nothing is left"))
        })
        .needs(&[Need::Debootstrap, Need::Debhelper]),
        Case::new("README.md: installing the wheel, on an empty system", |context| {
            let shared = empty(context.work.join("packages/shared"))?;
            copy(&wheel(context, &built(context, "one"), "one")?, &shared)?;
            replay_in_base(context, "make wheel", &shared)
        })
        .needs(&[Need::Debootstrap]),
        Case::new("README.md: installing Debian packages, on an empty system", |context| {
            let shared = empty(context.work.join("packages/shared"))?;
            for package in debs(context, &built(context, "one"), "one")? {
                copy(&package, &shared)?;
            }
            replay_in_base(context, "make deb", &shared)
        })
        .needs(&[Need::Debootstrap, Need::Debhelper]),
        Case::new(
            "an image for containers, twice: the same bytes; jobs run in it, and those of examples/kubernetes",
            |context| {
                let (one, other) = (image(context, "one")?, image(context, "other")?);
                same(std::slice::from_ref(&one), &[other])?;
                is_used(context, &one)?;
                let (ring, openmpi) = (Pods::read(context, "ring")?, Pods::read(context, "ring-openmpi")?);
                anyhow::ensure!(ring.worker == openmpi.worker, "{} and {}", ring.worker, openmpi.worker);
                let programs = empty(context.work.join("packages/pod"))?;
                for program in ["hello", "ring"] {
                    copy(&context.compile(&format!("examples/{program}.c"))?, &programs)?;
                }
                let run = Run::new("sh").arg(absolute(context, "packaging/tests/oci.sh")).arg(one).arg(programs);
                let run = run.args([ring.worker, ring.launcher, openmpi.launcher]).limit(LIMIT_SECONDS);
                let finished = succeed(run.finish())?;
                let jobs = finished.output.matches("ring: 100 rounds over 4 ranks, sum 600 (right)").count();
                let all = finished.output.contains("by its ssh server") && jobs == 2;
                anyhow::ensure!(all && finished.leftovers.is_empty(), "{}", finished.report());
                Ok::<_, anyhow::Error>(())
            },
        )
        .needs(&[Need::Debootstrap, Need::Debhelper]),
        Case::new("conda packages from the sources, by the recipe's own build", |context| {
            conda(context, None, "sources")
        })
        .needs(&[Need::Rattler]),
        Case::new("the Spack package: built by Spack from the sources, used, and removed", spack).needs(&[Need::Spack]),
    ]
}

/// A path of the project, for commands that run in other directories.
fn absolute(context: &Context, path: &str) -> PathBuf {
    std::path::absolute(context.root.join(path)).unwrap_or_else(|_| context.root.join(path))
}

/// Makes an empty directory.
fn empty(path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir_all(&path)?;
    Ok(std::fs::canonicalize(path)?)
}

fn succeed(finished: anyhow::Result<Finished>) -> anyhow::Result<Finished> {
    let finished = finished?;
    anyhow::ensure!(finished.code == Some(0), "it failed:\n{}", finished.report());
    Ok(finished)
}

fn copy(file: &Path, into: &Path) -> anyhow::Result<()> {
    let name = file.file_name().ok_or_else(|| anyhow::anyhow!("{} has no name", file.display()))?;
    std::fs::copy(file, into.join(name))?;
    Ok(())
}

/// The command with a time and a commit that do not depend on the repository.
fn with_stamp(context: &Context, run: Run) -> anyhow::Result<Run> {
    let commit = succeed(Run::new("sh").arg(absolute(context, "packaging/commit.sh")).finish())?;
    Ok(run.env("SOURCE_DATE_EPOCH", EPOCH).env("WEFT_COMMIT", commit.output.trim()))
}

/// A build that consists of the installed programs: what packages are made of, without compiling anything.
fn installed(context: &Context) -> anyhow::Result<PathBuf> {
    let build = context.work.join("packages/installed");
    let links = empty(build.join("links"))?;
    for (name, path) in PROGRAMS {
        std::os::unix::fs::symlink(std::fs::canonicalize(context.prefix.join(path))?, links.join(name))?;
    }
    let build = std::fs::canonicalize(build)?;
    let strip = Run::new("sh").arg(absolute(context, "packaging/strip.sh")).arg(links).arg(build.join("programs"));
    succeed(strip.finish())?;
    std::fs::create_dir_all(build.join("components"))?;
    let components = absolute(context, "packaging/components.py");
    succeed(Run::new("python3").arg(components).arg(build.join("components")).limit(LIMIT_SECONDS).finish())?;
    Ok(build)
}

/// The directory of one of two builds.
fn built(context: &Context, name: &str) -> PathBuf {
    let directory = context.work.join("packages/built").join(name);
    std::path::absolute(&directory).unwrap_or(directory)
}

/// Copies the files of the project that git knows to a place of their own.
fn copy_of_sources(context: &Context, name: &str) -> anyhow::Result<PathBuf> {
    let tree = empty(context.work.join("packages/sources").join(name))?;
    let script =
        "git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference -t \"$0\"";
    succeed(
        Run::new("sh").args(["-c", script]).arg(&tree).directory(&absolute(context, "")).limit(LIMIT_SECONDS).finish(),
    )?;
    Ok(tree)
}

/// Makes a wheel of a build.
fn wheel(context: &Context, build: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let into = empty(context.work.join("packages/wheels").join(name))?;
    let run = Run::new("sh").arg(absolute(context, "packaging/wheel.sh")).arg(build).arg(&into);
    succeed(with_stamp(context, run)?.limit(LIMIT_SECONDS).finish())?;
    let mut made = files(&into, "whl")?;
    anyhow::ensure!(made.len() == 1, "{} wheels were made", made.len());
    Ok(made.remove(0))
}

/// Makes the Debian packages of a build.
fn debs(context: &Context, build: &Path, name: &str) -> anyhow::Result<Vec<PathBuf>> {
    let into = context.work.join("packages/debs").join(name);
    if !into.exists() {
        let run = Run::new("sh").arg(absolute(context, "packaging/deb.sh")).arg(build).arg(empty(into.clone())?);
        succeed(with_stamp(context, run)?.limit(LIMIT_SECONDS).finish())?;
    }
    let made = files(&std::fs::canonicalize(into)?, "deb")?;
    anyhow::ensure!(made.len() > 5, "only {} packages were made", made.len());
    Ok(made)
}

/// Makes the image of a build.
fn image(context: &Context, name: &str) -> anyhow::Result<PathBuf> {
    let into = empty(context.work.join("packages/images").join(name))?;
    let run = Run::new("sh").arg(absolute(context, "packaging/oci.sh")).arg(built(context, name)).arg(&into);
    succeed(with_stamp(context, run)?.limit(LIMIT_SECONDS).finish())?;
    let mut made = files(&into, "tar")?;
    anyhow::ensure!(made.len() == 1, "{} images were made", made.len());
    Ok(made.remove(0))
}

/// The commands of the pods of a job in `examples/kubernetes`.
struct Pods {
    launcher: String,
    worker: String,
}

impl Pods {
    /// Reads them in the manifest: the launcher's first, each as a command and its arguments.
    fn read(context: &Context, name: &str) -> anyhow::Result<Pods> {
        let manifest = std::fs::read_to_string(context.root.join(format!("examples/kubernetes/{name}.yaml")))?;
        let lists = |key: &str| -> Vec<Vec<String>> {
            let list = |line: &str| serde_json::from_str(line.trim().strip_prefix(key)?).ok();
            manifest.lines().filter_map(list).collect()
        };
        let (commands, arguments) = (lists("command:"), lists("args:"));
        let pods: Vec<String> =
            commands.iter().zip(&arguments).map(|(words, more)| [words.join(" "), more.join(" ")].join(" ")).collect();
        match <[String; 2]>::try_from(pods) {
            Ok([launcher, worker]) => Ok(Pods { launcher, worker }),
            Err(found) => anyhow::bail!("{name}.yaml should have a launcher and a worker, and has {found:?}"),
        }
    }
}

/// Checks that the Dockerfile of `examples/kubernetes` takes this image, and packages that are made.
fn is_used(context: &Context, image: &Path) -> anyhow::Result<()> {
    let recipe = std::fs::read_to_string(context.root.join("examples/kubernetes/Dockerfile"))?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let image = name(image);
    let version = image.trim_start_matches("weft-").trim_end_matches("-oci.tar");
    for words in [format!("build/packages/{image}\n"), format!("ARG WEFT=weft:{version}\n"), "FROM ${WEFT}\n".into()] {
        anyhow::ensure!(recipe.contains(&words), "examples/kubernetes/Dockerfile does not say {words:?}");
    }
    let made = debs(context, &built(context, "one"), "one")?;
    let taken: Vec<&str> = recipe
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("build/packages/")?.strip_suffix("*.deb"))
        .collect();
    anyhow::ensure!(!taken.is_empty(), "examples/kubernetes/Dockerfile takes no package");
    for package in taken {
        let is_made = made.iter().any(|path| name(path).starts_with(package));
        anyhow::ensure!(is_made, "examples/kubernetes/Dockerfile takes {package}, and there are {made:?}");
    }
    Ok(())
}

fn files(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|one| one == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Checks that files have the same names and bytes.
fn same(some: &[PathBuf], others: &[PathBuf]) -> anyhow::Result<()> {
    let names =
        |paths: &[PathBuf]| paths.iter().map(|path| path.file_name().map(ToOwned::to_owned)).collect::<Vec<_>>();
    anyhow::ensure!(!some.is_empty() && names(some) == names(others), "{some:?} and {others:?}");
    for (one, other) in some.iter().zip(others) {
        anyhow::ensure!(
            std::fs::read(one)? == std::fs::read(other)?,
            "{} and {} differ",
            one.display(),
            other.display()
        );
    }
    Ok(())
}

fn has_at_most(file: &Path, most: u64) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(file)?.len();
    anyhow::ensure!(bytes <= most, "{} has {bytes} bytes, which should be at most {most}", file.display());
    Ok(())
}

/// Fetches what mpi4py is built of.
fn archives(context: &Context, into: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(into)?;
    let pip = |words: &[&str]| {
        let run = Run::new(context.python("python")).args(["-m", "pip", "download", "-q", "--no-deps", "-d"]).arg(into);
        succeed(run.args(words).limit(LIMIT_SECONDS).finish())
    };
    pip(MPI4PY)?;
    pip(&["--no-binary", "mpi4py", "--no-build-isolation", "mpi4py==4.1.2"])?;
    Ok(())
}

/// Runs a script of `packaging/tests` on an empty system that sees the files of `shared`.
fn in_base(context: &Context, shared: &Path, script: &str) -> anyhow::Result<Finished> {
    let base = absolute(context, BASE);
    succeed(
        Run::new("sh")
            .arg(absolute(context, "packaging/base.sh"))
            .arg(&base)
            .arg(BASE_PACKAGES)
            .limit(LIMIT_SECONDS)
            .finish(),
    )?;
    for directory in ["packaging/tests", "examples"] {
        succeed(Run::new("cp").arg("-R").arg(absolute(context, directory)).arg(shared).finish())?;
    }
    let run = Run::new("sh").arg(absolute(context, "packaging/in-base.sh")).arg(base).arg(shared);
    run.args(["sh", &format!("/packages/tests/{script}")]).limit(LIMIT_SECONDS).finish()
}

/// The same for a script that tells how long an installation and a first program took; that is printed.
fn in_base_timed(context: &Context, shared: &Path, script: &str, says: &'static str) -> Outcome {
    let finished = in_base(context, shared, script);
    if let Some(line) = finished.iter().flat_map(|one| one.output.lines()).find(|line| line.starts_with(FIGURE)) {
        println!("  ({script}: {line})");
    }
    Expected::code(0).says(FIGURE).says(says).judge(finished)
}

/// The block of README.md's section on installing that begins with a command.
fn transcript(context: &Context, command: &str) -> anyhow::Result<Block> {
    let text = std::fs::read_to_string(context.root.join("README.md"))?;
    let found = book::blocks(&text).into_iter().find(|block| block.commands.starts_with(command));
    let block = found.ok_or_else(|| anyhow::anyhow!("README.md has no block that begins with `{command}`"))?;
    anyhow::ensure!(!block.outputs.is_empty(), "README.md does not show what the block of `{command}` prints");
    Ok(block)
}

/// Runs such a block in a directory, behind a line that says what `make` does there, and compares what it
/// prints.
fn replay(context: &Context, command: &str, make: &str, place: &Path) -> anyhow::Result<()> {
    let block = transcript(context, command)?;
    std::os::unix::fs::symlink(std::fs::canonicalize(context.root.join("examples"))?, place.join("examples"))?;
    let home = empty(place.join("home"))?;
    let mut run = Run::new("sh").args(["-e", "-c", &format!("{make}\n{}", block.commands)]).directory(place);
    // Rust stays where it is.
    for (name, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let own = std::env::home_dir().unwrap_or_default().join(usual);
        run = run.env(name, std::env::var_os(name).map_or(own, PathBuf::from));
    }
    let finished = succeed(run.env("HOME", home).limit(BUILD_LIMIT_SECONDS).finish())?;
    block.compare(Compared::Whole, &finished.output)
}

/// Runs such a block on an empty system that sees the packages of `shared`, and compares what it prints.
fn replay_in_base(context: &Context, command: &str, shared: &Path) -> anyhow::Result<()> {
    let block = transcript(context, command)?;
    std::fs::write(shared.join("commands"), &block.commands)?;
    let finished = succeed(in_base(context, shared, "readme-in-base.sh"))?;
    block.compare(Compared::Whole, &finished.output)
}

/// Makes conda packages of a build or, without one, from the sources, and installs them in an empty prefix,
/// where a program runs.
fn conda(context: &Context, build: Option<&Path>, name: &str) -> anyhow::Result<()> {
    let place = empty(context.work.join("packages/conda").join(name))?;
    let run = Run::new(absolute(context, PACKAGES_PYTHON)).arg(absolute(context, "packaging/tests/conda.py"));
    let run = run.arg(build.unwrap_or(Path::new("-"))).arg(&place);
    let made = succeed(with_stamp(context, run)?.limit(BUILD_LIMIT_SECONDS).finish())?;
    for package in ["weft-mpi ", "weft-mpi-mpicc ", "weft-mpi-mpicxx ", "weft-mpi-mpifort ", "mpi 1.0.1 weft"] {
        let is_there = made.output.lines().any(|line| line.starts_with(&format!("installed {package}")));
        anyhow::ensure!(is_there, "{package}is not installed:\n{}", made.report());
    }
    let script = "mpicc -O2 -o hello \"$0/hello.c\" && mpiexec -n 2 ./hello";
    let run = Run::new("sh").args(["-c", script]).arg(absolute(context, "examples")).directory(&place);
    let path = format!("{}:{}", place.join("prefix/bin").display(), super::process::search_path().to_string_lossy());
    let said = succeed(run.env("PATH", path).finish())?;
    anyhow::ensure!(said.output.matches("of 2 on").count() == 2, "{}", said.report());
    Ok(())
}

/// Lets Spack build the sources of this tree, and runs a program that the installed wrapper compiles.
fn spack(context: &Context) -> anyhow::Result<()> {
    let tree = copy_of_sources(context, "spack")?;
    let place = empty(context.work.join("packages/spack"))?;
    let run = Run::new("sh").arg(absolute(context, "packaging/tests/spack.sh")).arg(&tree).arg(&place);
    let said = succeed(with_stamp(context, run)?.limit(BUILD_LIMIT_SECONDS).finish())?;
    anyhow::ensure!(said.output.contains("and removed"), "{}", said.report());
    Ok(())
}

/// Makes a release in a clone of the repository, without checks and packages.
fn release(context: &Context) -> anyhow::Result<Outcome> {
    if !context.root.join(".git").exists() {
        return Ok(Outcome::Skipped("the sources are in no repository of git".into()));
    }
    let clone = empty(context.work.join("packages/clone"))?;
    let git = |words: &[&str]| succeed(Run::new("git").args(words).directory(&clone).finish());
    let root = std::fs::canonicalize(&context.root)?;
    git(&["clone", "--quiet", "--depth", "1", &format!("file://{}", root.display()), "."])?;
    git(&["config", "user.name", "Nobody"])?;
    git(&["config", "user.email", "nobody@localhost"])?;
    // What is to be tried may not be committed yet.
    for name in ["packaging/release.sh", "packaging/conda/recipe.yaml", "examples/kubernetes/Dockerfile"] {
        let place = clone.join(name);
        std::fs::create_dir_all(place.parent().unwrap_or(&clone))?;
        std::fs::copy(root.join(name), place)?;
        git(&["add", name])?;
    }
    git(&["commit", "--quiet", "--all", "--allow-empty", "--message", "the script"])?;
    let run = |version: &str| {
        let run = Run::new("sh").args(["packaging/release.sh", version]).directory(&clone).limit(LIMIT_SECONDS);
        run.env("CHECKS", "").env("PACKAGES", "").finish()
    };
    for (version, why) in [("1.0", "no semantic version"), ("0.0.1", "older than"), ("1.0.0-", "no semantic version")] {
        let said = run(version)?;
        anyhow::ensure!(said.code == Some(1) && said.output.contains(why), "{version}:\n{}", said.report());
    }
    succeed(run("900.1.0-rc.1"))?;
    let tag = git(&["describe", "--tags", "--exact-match"])?.output;
    let changes = std::fs::read_to_string(clone.join("CHANGELOG.md"))?;
    let written = changes.contains("## Unreleased\n\n## 900.1.0-rc.1 - 2");
    let cargo = std::fs::read_to_string(clone.join("Cargo.toml"))?.contains("\nversion = \"900.1.0-rc.1\"\n");
    anyhow::ensure!(tag.trim() == "v900.1.0-rc.1" && written && cargo, "{tag}{changes}");
    for (name, words) in [
        ("packaging/conda/recipe.yaml", "  version: \"900.1.0rc1\"\n"),
        ("examples/kubernetes/Dockerfile", "ARG WEFT=weft:900.1.0-rc.1\n"),
        ("docs/book/install.md", "weft-900.1.0-rc.1-oci.tar"),
    ] {
        let text = std::fs::read_to_string(clone.join(name))?;
        anyhow::ensure!(text.contains(words), "{name} does not say {words:?}");
    }
    git(&["diff", "--exit-code", "HEAD"])?;
    // Nothing has changed since.
    let again = run("900.1.0")?;
    anyhow::ensure!(again.code == Some(1) && again.output.contains("lists nothing"), "{}", again.report());
    Ok(Outcome::Passed)
}

fn pages(context: &Context) -> anyhow::Result<()> {
    let share = context.prefix.join("share");
    for directory in ["bin", "sbin"] {
        for entry in std::fs::read_dir(context.prefix.join(directory))? {
            let entry = entry?;
            let (name, section) =
                (entry.file_name().to_string_lossy().into_owned(), if directory == "bin" { 1 } else { 8 });
            if std::fs::metadata(entry.path())?.permissions().mode() & 0o111 == 0 {
                continue;
            }
            let page = share.join(format!("man/man{section}/{name}.{section}"));
            let text = std::fs::read_to_string(&page).unwrap_or_default();
            let is_page = text.contains(".TH ") && text.contains("\n.SH NAME\n");
            anyhow::ensure!(is_page, "{} is no page of {name}", page.display());
        }
    }
    anyhow::ensure!(share.join("man/man5/weft.conf.5").is_file(), "there is no page of weft.conf");
    for (program, word, completed) in [("mpiexec", "--host", "--hostfile"), ("weft", "do", "doctor")] {
        let script = "source \"$0\"; function=$(complete -p \"$1\" | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
                      COMP_WORDS=(\"$1\" \"$2\") COMP_CWORD=1 COMP_LINE=\"$1 $2\"; $function \"$1\" \"$2\" \"$1\"; \
                      printf '%s\\n' \"${COMPREPLY[@]}\"";
        let file = share.join("bash-completion/completions").join(program);
        let finished = succeed(Run::new("bash").args(["-c", script]).arg(file).args([program, word]).finish())?;
        anyhow::ensure!(
            finished.output.lines().any(|line| line == completed),
            "{program} {word}:\n{}",
            finished.report()
        );
    }
    Ok(())
}

/// Writes a file of defaults of a user, and returns the directory for `XDG_CONFIG_HOME`.
fn users_file(context: &Context, text: &str) -> anyhow::Result<PathBuf> {
    let directory = empty(context.work.join("packages/configuration"))?;
    std::fs::write(directory.join("weft.conf"), text)?;
    Ok(directory)
}

fn defaults() -> Vec<Case> {
    /// An agent that reaches "hosts" that are this one, where the user has another file.
    const AGENT: &str = "sh -c 'exec env WEFT_NODE={host} XDG_CONFIG_HOME=/nowhere \"$@\"' sh";
    let bad = |text: &'static str, says: &'static [&'static str]| {
        Case::new(format!("a file of defaults says `{}`: one sentence", text.trim()), move |context| {
            let attempt = || -> anyhow::Result<Finished> {
                let directory = users_file(context, text)?;
                context.mpiexec(2).arg(context.compile("examples/hello.c")?).env("XDG_CONFIG_HOME", directory).finish()
            };
            let expected = says.iter().fold(Expected::failure().says("weft.conf, line 2: "), |all, &one| all.says(one));
            expected.never_says("hello from").judge(attempt())
        })
    };
    vec![
        Case::new("a user's file counts less than the environment, and weft info names the line", |context| {
            let directory = users_file(context, "# a user's\nWEFT_ACK = deferred\nWEFT_NODE = kitchen\n")?;
            let run =
                Run::new(context.bin("weft")).arg("info").env("XDG_CONFIG_HOME", directory).env("WEFT_NODE", "garden");
            let finished = run.finish()?;
            let row = |name: &str| {
                finished.output.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default()
            };
            let (ack, node) = (row("WEFT_ACK "), row("WEFT_NODE "));
            anyhow::ensure!(ack.contains("deferred") && ack.contains("weft.conf, line 2;"), "{}", finished.report());
            anyhow::ensure!(node.contains("garden") && node.contains("from the environment"), "{}", finished.report());
            Ok(())
        }),
        Case::new("mpiexec hands its files to ranks of other hosts, which read none", |context| {
            let attempt = || -> anyhow::Result<Finished> {
                // With raw frames for no peer and UDP for none, ranks of two nodes could not talk.
                let directory = users_file(context, &format!("WEFT_LINK = shared,tcp\nWEFT_AGENT = {AGENT}\n"))?;
                let run = Run::new(context.bin("mpiexec")).args(["--hosts", "here,there", "-n", "2", "--stats"]);
                run.arg(context.compile("examples/ring.c")?).env("XDG_CONFIG_HOME", directory).limit(60).finish()
            };
            Expected::code(0).says("tcp").never_says("udp").judge(attempt())
        }),
        bad("\nWEFT_LINK udp\n", &["sets nothing", "write NAME = VALUE"]),
        bad("\nWEFT_LINK = pigeon\n", &["WEFT_LINK=pigeon", "correct the line, or remove it"]),
        bad("\nWEFT_AGENT = ssh 'x\n", &["WEFT_AGENT is no command", "correct the line, or remove it"]),
        Case::new("a file of defaults has a setting of another version: a note, and the job runs", |context| {
            let attempt = || -> anyhow::Result<Finished> {
                let directory = users_file(context, "WEFT_LINKS = udp\n")?;
                context.mpiexec(2).arg(context.compile("examples/hello.c")?).env("XDG_CONFIG_HOME", directory).finish()
            };
            Expected::code(0)
                .says("line 1: WEFT_LINKS is no setting")
                .says("WEFT_LINK is")
                .says("rank 1 of 2")
                .judge(attempt())
        }),
    ]
}
