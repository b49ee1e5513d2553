//! Tests of the README's commands for an ordinary user: the demonstration, and some of the suites once more,
//! by a user without privilege whose PATH does not lead to administrators' tools. If such a user runs this
//! program, all suites are tests of that kind already.
//!
//! The checkout may lie where others cannot read: the needed files are copied to a directory where that user
//! can.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context as _;

use super::context::{Context, EXIT_NO_HOSTS, Expected, no_hosts};
use super::process::{Finished, Run, search_path};
use super::{Case, Outcome};

/// The prefix of the name of the project's copy; this process's id follows.
const PREFIX: &str = "weft-suite-user-";
/// A user and group that systems give to no user by themselves.
const USER: &str = "47110";
/// The PATH that Debian sets for an ordinary user.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/games";
/// The parts of the project that the demonstration and the suites below use; the last one is there if it has
/// been built.
const USED: &[&str] =
    &["Cargo.toml", "demo", "tests", "examples", "bench", "tools", "build/prefix", "build/venv", "build/mpi4py"];
/// A selection of cases that take hosts or a privilege.
const SELECTION: &[&str] = &[
    "hosts:sizes, 3",
    "hosts:WEFT_LINK=ethernet",
    "faults:WEFT_LINK=ethernet, point",
    "rails:large messages",
    "fabric:point_to_point, 4",
    "fabric:interfaces: large",
    "fabric:doctor",
    "fabric:libfabric",
    "carriers:both carriers",
    "carriers:without privileges",
    "gone:launcher says so",
    "hostile:privilege",
    "hostile:info and doctor",
    "memory:1 MiB",
    "memory:pid namespace",
    "virtual-hosts",
    "doctor:two hosts that are fine",
    "instrument:lose frames",
];
/// The same kinds of cases, where there are only two sets of ranks.
const SELECTION_WITHOUT: &[&str] = &[
    "hosts:WEFT_LINK",
    "faults:point_to_point, 2",
    "rails",
    "carriers",
    "gone:launcher",
    "memory:namespace",
    "virtual-hosts",
];
/// Tools in directories that an ordinary user's PATH lacks, with the package of each.
const PACKAGES: [(&str, &str); 3] = [("ip", "iproute2"), ("nft", "nftables"), ("ethtool", "ethtool")];
/// The permission of a directory.
const OTHERS_MAY_ENTER: u32 = 0o001;
const LIMIT_SECONDS: u64 = 300;

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    if !rustix::process::geteuid().is_root() {
        let skipped = |_: &Context| Outcome::Skipped("the whole run is an ordinary user's".into());
        return vec![Case::new("the demonstration and a selection of the suites", skipped)];
    }
    let user = Rc::new(OnceCell::new());
    let case = |name: &str, run: fn(&User) -> anyhow::Result<Outcome>| able(&user, name, run);
    vec![
        case("nothing is asked for that is there", |user| {
            // A stand-in for Rust, which is no package and would be fetched.
            let bin = user.home().join(".cargo/bin");
            std::fs::create_dir_all(&bin)?;
            std::fs::write(bin.join("cargo"), "#!/bin/sh\necho cargo 99.0.0\n")?;
            let ready = Run::new("chmod").args(["755"]).arg(bin.join("cargo")).finish()?;
            anyhow::ensure!(ready.code == Some(0), "{}", ready.report());
            let finished = user.run(&[], user.tree().join("tools/setup.sh"), ["bench"]).finish();
            std::fs::remove_dir_all(user.home().join(".cargo"))?;
            let path = search_path();
            let is_here = |tool: &str| std::env::split_paths(&path).any(|directory| directory.join(tool).is_file());
            let here = PACKAGES.iter().filter(|(tool, _)| is_here(tool));
            Ok(here.fold(Expected::code(0), |all, (_, package)| all.never_says(package)).judge(finished))
        }),
        case("the demonstration, between hosts in a user namespace", |user| {
            let demo = user.tree().join("demo/demo.sh");
            let finished = user.run(&user.python_in_reach()?, demo, [""; 0]).limit(LIMIT_SECONDS).finish();
            let expected = Expected::code(0).says("in a user namespace, without root").says("byte for byte");
            Ok(expected.says("ethernet+udp").judge(finished))
        }),
        case("hosts where nobody has made any before", |user| {
            // There is no /run/netns; the rest of /run must stay in sight.
            let preparation =
                "mount -t tmpfs none /run && mkdir /run/folder && ln -s folder /run/link && echo inside >/run/file";
            let before =
                ["unshare", "--mount", "sh", "-c", &format!("{preparation} && exec \"$@\""), "sh"].map(str::to_owned);
            let script =
                "test -d /run/folder && test -L /run/link && cat /run/file && $WEFT_AGENT && ls /run/netns | wc -l";
            let script = script.replace(
                "$WEFT_AGENT",
                "eval \"$(echo \"$WEFT_AGENT\" | sed \"s/{host}/${WEFT_HOSTS%%,*}/\") hostname\"",
            );
            let run = user.run(&before, user.weft(), ["hosts", "run", "--count", "2", "--", "sh", "-c", &script]);
            Ok(Expected::code(0).says("inside\n").says("-0\n").says("\n3\n").judge(run.finish()))
        }),
        case("a selection of the suites", |user| Ok(judge(user.suite(&[], SELECTION)?))),
        any("the same where the kernel lets this user have no namespaces: nothing fails", &user, |user| {
            // In a chroot no process may make a user namespace (user_namespaces(7)).
            let new_root = user.directory.join("root");
            std::fs::create_dir(&new_root)?;
            let at = new_root.display();
            let script = format!("mount --rbind / {at} && exec chroot {at} \"$@\"");
            let before = ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned);
            let finished = user.suite(&before, SELECTION_WITHOUT)?;
            let reason = "network namespaces take root or a user namespace, and the kernel refuses a user namespace";
            let mut summary = finished.output.lines().skip_while(|line| *line != "skipped:");
            let is_told = summary.any(|line| line.contains(reason));
            let report = finished.report();
            Ok(match judge(finished) {
                Outcome::Passed if !is_told => {
                    Outcome::Failed(format!("{report}\nit should list what was skipped, and why"))
                }
                outcome => outcome,
            })
        }),
    ]
}

/// The user of all cases, made by the first case.
type Shared = Rc<OnceCell<User>>;

/// A case for which the user must be able to make hosts.
fn able(user: &Shared, name: &str, run: fn(&User) -> anyhow::Result<Outcome>) -> Case {
    any(name, user, move |user| {
        let probe = user.run(&[], user.weft(), ["hosts", "run", "--", "true"]).finish()?;
        if probe.code == Some(EXIT_NO_HOSTS) { Ok(no_hosts(&probe.output)) } else { run(user) }
    })
}

fn any(name: &str, user: &Shared, run: impl Fn(&User) -> anyhow::Result<Outcome> + 'static) -> Case {
    let user = Rc::clone(user);
    Case::new(name, move |context| {
        if user.get().is_none() {
            let _ = user.set(User::new(context)?);
        }
        run(user.get().context("just made")?)
    })
}

/// Judges a run of suites by that user, and prints their result in a line.
fn judge(finished: Finished) -> Outcome {
    if let Some(line) = finished.output.lines().rfind(|line| line.starts_with("suite: ")) {
        println!("  (user {USER}: {line})");
    }
    // A report has room for a few lines: those of the cases that failed come first.
    let failed = failures(&finished.output);
    let finished = if failed.is_empty() { finished } else { Finished { output: failed, ..finished } };
    Expected::code(0).says(" passed, 0 failed, ").judge(Ok(finished))
}

/// The failed cases in the output of a run of suites, each with its own report, and the line of the result.
fn failures(output: &str) -> String {
    let mut is_failure = false;
    let of_failures = output.lines().filter(|line| {
        let is_report = line.starts_with("         |");
        is_failure = line.starts_with("  FAILED") || (is_failure && is_report);
        is_failure || line.starts_with("suite: ")
    });
    let lines: Vec<&str> = of_failures.collect();
    if lines.iter().any(|line| line.starts_with("  FAILED")) { lines.join("\n") } else { String::new() }
}

/// An ordinary user with a copy of the project; both are removed when this is dropped.
struct User {
    directory: PathBuf,
}

impl User {
    fn new(context: &Context) -> anyhow::Result<User> {
        sweep();
        let directory = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        let user = User { directory };
        std::fs::create_dir_all(user.tree().join("build"))?;
        std::fs::create_dir_all(user.home().join("tmp"))?;
        for name in USED.iter().filter(|name| context.root.join(name).exists()) {
            step(
                Run::new("cp")
                    .args(["-R", "--preserve=mode,timestamps,links"])
                    .arg(context.root.join(name))
                    .arg(user.tree().join(name)),
            )?;
        }
        let own = std::env::current_exe().context("this program is a file")?;
        step(Run::new("cp").arg(own).arg(user.xtask()))?;
        step(Run::new("chown").args(["-R", &format!("{USER}:{USER}")]).arg(&user.directory))?;
        Ok(user)
    }

    fn tree(&self) -> PathBuf {
        self.directory.join("tree")
    }

    fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    fn xtask(&self) -> PathBuf {
        self.directory.join("xtask")
    }

    fn weft(&self) -> PathBuf {
        self.tree().join("build/prefix/bin/weft")
    }

    /// The run of a command as this user. `before`: a command that root runs first, and that then becomes the
    /// user's command.
    fn run<T: AsRef<OsStr>>(
        &self,
        before: &[String],
        program: impl AsRef<Path>,
        arguments: impl IntoIterator<Item = T>,
    ) -> Run {
        let become_user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"].map(str::to_owned);
        let unset = ["env", "-u", "XDG_CACHE_HOME", "-u", "XDG_RUNTIME_DIR", "-u", "CARGO_HOME"].map(str::to_owned);
        let path = format!("PATH={PATH}");
        let mut words = before.iter().chain(&become_user).chain(&unset);
        let run = Run::new(words.next().expect("become_user has words"))
            .args(words)
            .arg(path)
            .arg(program.as_ref())
            .args(arguments);
        run.env("HOME", self.home()).env("TMPDIR", self.home().join("tmp")).directory(&self.tree())
    }

    /// The command that root must run before this user can run the Python of `build/venv`. It is empty,
    /// unless Python is in a directory that others may not enter, such as root's home. Then a directory that
    /// holds only Python is mounted over that one.
    fn python_in_reach(&self) -> anyhow::Result<Vec<String>> {
        let ask = ["-c", "import sys; print(sys.base_prefix, end='')"];
        let finished = Run::new(self.tree().join("build/venv/bin/python")).args(ask).finish()?;
        anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
        let prefix = Path::new(&finished.output);
        let is_closed = |path: &&Path| path.metadata().is_ok_and(|data| data.mode() & OTHERS_MAY_ENTER == 0);
        let Some(closed) = prefix.ancestors().filter(is_closed).last() else { return Ok(Vec::new()) };
        let (hold, prefix, closed) = (self.directory.join("python"), prefix.display(), closed.display());
        std::fs::create_dir_all(&hold)?;
        let hold = hold.display();
        let script = format!(
            "mount --bind {prefix} {hold} && mount -t tmpfs -o mode=755 none {closed} && mkdir -p {prefix} && \
             mount --bind {hold} {prefix} && exec \"$@\""
        );
        Ok(["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned).into())
    }

    fn suite(&self, before: &[String], selection: &[&str]) -> anyhow::Result<Finished> {
        let run = self.run(before, self.xtask(), ["suite", "--root"]).arg(self.tree()).args(selection);
        run.limit(LIMIT_SECONDS).finish()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Removes the copies that interrupted runs have left.
fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let creator = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if creator.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn step(run: Run) -> anyhow::Result<()> {
    let finished = run.finish()?;
    anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
    Ok(())
}
