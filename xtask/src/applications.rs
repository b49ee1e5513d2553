//! `cargo xtask applications [NAME …]`: runs programs that others wrote. Each is fetched by package name,
//! built unmodified with the installed Weft, and run with its own tests on one host and on two.
//! `tests/applications/run.sh` does each step; this module prints the results as a table, and as JSON.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::json;

use crate::suite::context::EXIT_NO_HOSTS;
use crate::suite::process::{self, Finished, Run};

const HOW: &str = "usage: cargo xtask applications [--prefix DIR] [--json FILE] [--hosts 1|2] [--list] [NAME …]";
const SCRIPTS: &str = "tests/applications";
const FETCH_LIMIT_SECONDS: u64 = 600;
const BUILD_LIMIT_SECONDS: u64 = 45 * 60;
const VERIFY_LIMIT_SECONDS: u64 = 60 * 60;
const INSTALL_LIMIT_SECONDS: u64 = 600;

/// A program, as its script describes it.
#[derive(Debug, PartialEq, Eq)]
struct Application {
    name: String,
    source: String,
    needs: Vec<String>,
    uses: String,
    proves: String,
}

impl Application {
    fn parse(name: &str, script: &str) -> anyhow::Result<Application> {
        let field = |word: &str| {
            let mut lines = script.lines();
            let first = lines.find_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(' '));
            let first = first.with_context(|| format!("{SCRIPTS}/{name}.sh does not say what it `{word}`"))?;
            let further = lines.map_while(|line| line.strip_prefix("#   "));
            anyhow::Ok(std::iter::once(first).chain(further).collect::<Vec<_>>().join(" "))
        };
        let needs = field("needs")?.split_whitespace().map(str::to_owned).collect();
        Ok(Application {
            name: name.to_owned(),
            source: field("source")?,
            needs,
            uses: field("uses")?,
            proves: field("proves")?,
        })
    }
}

/// The place where a program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    OneHost,
    TwoHosts,
}

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Place::OneHost => "one host",
            Place::TwoHosts => "two hosts",
        }
    }
}

/// The results of one program at one place, or of the attempt to build it.
#[derive(Default, Debug, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Counts {
    /// Counts the lines that `run.sh verify` prints.
    fn read(output: &str) -> Counts {
        let mut counts = Counts::default();
        for line in output.lines() {
            if let Some(why) = line.strip_prefix("FAILED ") {
                counts.failed.push(why.to_owned());
            } else if let Some(why) = line.strip_prefix("skip ") {
                counts.skipped.push(why.to_owned());
            } else if line.starts_with("ok ") {
                counts.passed += 1;
            }
        }
        counts
    }
}

struct Row {
    name: String,
    version: String,
    place: &'static str,
    counts: Counts,
    seconds: f64,
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let Counts { passed, failed, skipped } = &self.counts;
        json!({"program": self.name, "version": self.version, "place": self.place, "passed": passed, "failed": failed,
               "skipped": skipped, "seconds": (self.seconds * 10.0).round() / 10.0})
    }
}

/// The command line.
struct Options {
    prefix: PathBuf,
    json: Option<PathBuf>,
    places: Vec<Place>,
    names: Vec<String>,
}

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let root = crate::generate::project_root();
    let all = read_all(&root)?;
    let mut options = Options {
        prefix: "build/prefix".into(),
        json: None,
        places: vec![Place::OneHost, Place::TwoHosts],
        names: Vec::new(),
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{argument} needs a value; {HOW}"));
        match argument.as_str() {
            "--prefix" => options.prefix = value()?.into(),
            "--json" => options.json = Some(value()?.into()),
            "--hosts" => match value()?.as_str() {
                "1" => options.places = vec![Place::OneHost],
                "2" => options.places = vec![Place::TwoHosts],
                other => anyhow::bail!("--hosts is 1 or 2, not {other}; without it both"),
            },
            "--list" => {
                for Application { name, source, uses, proves, .. } in &all {
                    println!("{name} ({source})\n  uses   {uses}\n  proves {proves}");
                }
                return Ok(());
            }
            name if all.iter().any(|known| known.name == name) => options.names.push(name.to_owned()),
            name => {
                let known: Vec<&str> = all.iter().map(|known| known.name.as_str()).collect();
                anyhow::bail!("there is no program {name}; there are {}\n{HOW}", known.join(", "));
            }
        }
    }
    let wanted: Vec<&Application> =
        all.iter().filter(|known| options.names.is_empty() || options.names.contains(&known.name)).collect();
    verify_all(&root, &options, &wanted)
}

/// All scripts, by name.
fn read_all(root: &Path) -> anyhow::Result<Vec<Application>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root.join(SCRIPTS)).with_context(|| SCRIPTS.to_owned())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "sh") && name != "run" {
            all.push(Application::parse(&name, &std::fs::read_to_string(&path)?)?);
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

fn verify_all(root: &Path, options: &Options, wanted: &[&Application]) -> anyhow::Result<()> {
    let prefix = root.join(&options.prefix);
    anyhow::ensure!(
        prefix.join("bin/mpiexec").exists(),
        "there is no {}/bin/mpiexec; run `make own`",
        prefix.display()
    );
    process::catch_interrupts()?;
    let workshop = Workshop { root, prefix: &prefix, kept: root.join("build/applications") };
    let mut rows = Vec::new();
    for application in wanted {
        println!("{}: {}", application.name, application.proves);
        match workshop.prepare(application) {
            Ok(()) => rows.extend(options.places.iter().map(|place| workshop.verify(application, *place))),
            Err(counts) => {
                rows.push(Row {
                    name: application.name.clone(),
                    version: workshop.version(application),
                    place: "nowhere",
                    counts,
                    seconds: 0.0,
                });
                tell(rows.last().context("just pushed")?);
            }
        }
    }
    print_table(&rows);
    if let Some(path) = &options.json {
        let lines: Vec<String> = rows.iter().map(|row| row.json().to_string()).collect();
        std::fs::write(path, lines.join("\n") + "\n").with_context(|| path.display().to_string())?;
    }
    let failed: usize = rows.iter().map(|row| row.counts.failed.len()).sum();
    let passed: usize = rows.iter().map(|row| row.counts.passed).sum();
    let skipped: usize = rows.iter().map(|row| row.counts.skipped.len()).sum();
    println!("\napplications: {passed} passed, {failed} failed, {skipped} skipped");
    anyhow::ensure!(failed == 0, "some checks failed; what they said is in build/applications/NAME/said");
    anyhow::ensure!(passed > 0, "nothing was checked");
    Ok(())
}

/// The directories where programs are fetched and built.
struct Workshop<'a> {
    root: &'a Path,
    prefix: &'a Path,
    kept: PathBuf,
}

impl Workshop<'_> {
    fn step(&self, application: &Application, step: &str, place: Place, limit: u64) -> anyhow::Result<Finished> {
        let script = self.root.join(SCRIPTS).join("run.sh");
        let run = match place {
            Place::OneHost => Run::new(script),
            Place::TwoHosts => {
                Run::new(self.prefix.join("bin/weft")).args(["hosts", "run", "--count", "2", "--"]).arg(script)
            }
        };
        let run = run.args([&application.name, step]).env("APPLICATIONS_PREFIX", self.prefix);
        run.env("APPLICATIONS_KEPT", &self.kept).limit(limit).finish()
    }

    /// Builds a program; the error says what is missing or what went wrong.
    fn prepare(&self, application: &Application) -> Result<(), Counts> {
        if let Err(why) = install(&application.needs) {
            return Err(Counts { skipped: vec![why], ..Counts::default() });
        }
        for (step, limit) in [("fetch", FETCH_LIMIT_SECONDS), ("build", BUILD_LIMIT_SECONDS)] {
            let began = Instant::now();
            let finished = self.step(application, step, Place::OneHost, limit);
            match finished {
                Ok(Finished { code: Some(0), .. }) => println!("  {step} {:.0} s", began.elapsed().as_secs_f64()),
                Ok(finished) => return Err(failure(step, finished.report())),
                Err(error) => return Err(failure(step, format!("{error:#}"))),
            }
        }
        Ok(())
    }

    fn verify(&self, application: &Application, place: Place) -> Row {
        let began = Instant::now();
        let counts = match self.step(application, "verify", place, VERIFY_LIMIT_SECONDS) {
            Ok(finished) if finished.code == Some(EXIT_NO_HOSTS) && place == Place::TwoHosts => {
                Counts { skipped: vec!["no virtual hosts can be made here".to_owned()], ..Counts::default() }
            }
            Ok(finished) => {
                let mut counts = Counts::read(&finished.output);
                if finished.code != Some(0) || (counts.passed == 0 && counts.failed.is_empty()) {
                    counts.failed.push(format!("verify did not come to its end:\n{}", finished.report()));
                } else if !finished.leftovers.is_empty() {
                    counts.failed.push(format!("left behind: {}", finished.leftovers.join("; ")));
                }
                if !counts.failed.is_empty() {
                    println!("{}", indented(&finished.output));
                }
                counts
            }
            Err(error) => failure("verify", format!("{error:#}")),
        };
        let row = Row {
            name: application.name.clone(),
            version: self.version(application),
            place: place.name(),
            counts,
            seconds: began.elapsed().as_secs_f64(),
        };
        tell(&row);
        row
    }

    fn version(&self, application: &Application) -> String {
        let path = self.kept.join(&application.name).join("version");
        std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }
}

fn failure(step: &str, why: String) -> Counts {
    println!("{}", indented(&why));
    Counts { failed: vec![format!("{step}: {}", why.lines().last().unwrap_or_default())], ..Counts::default() }
}

/// Installs missing Debian packages as root; other users are told the command to type.
fn install(packages: &[String]) -> Result<(), String> {
    let is_missing = |package: &&String| {
        let finished = Run::new("dpkg").args(["-s", package.as_str()]).finish();
        !finished.is_ok_and(|finished| finished.code == Some(0))
    };
    let missing: Vec<&String> = packages.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(format!("it needs packages: sudo apt-get install -y {names}"));
    }
    println!("  installing {names}");
    let script = format!("apt-get update -q && apt-get install -q -y --no-install-recommends {names}");
    let run = Run::new("sh").args(["-c", &script]).env("DEBIAN_FRONTEND", "noninteractive");
    match run.limit(INSTALL_LIMIT_SECONDS).finish() {
        Ok(Finished { code: Some(0), .. }) => Ok(()),
        _ => Err(format!("apt-get could not install {names}")),
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}\n")).collect()
}

fn tell(row: &Row) {
    let Counts { passed, failed, skipped } = &row.counts;
    println!(
        "  {}: {passed} passed, {} failed, {} skipped, {:.0} s",
        row.place,
        failed.len(),
        skipped.len(),
        row.seconds
    );
    failed.iter().for_each(|why| println!("    FAILED {why}"));
    skipped.iter().for_each(|why| println!("    skip   {why}"));
}

fn print_table(rows: &[Row]) {
    println!("\n| program | version | where | passed | failed | skipped | s |\n|---|---|---|---:|---:|---:|---:|");
    for row in rows {
        let Counts { passed, failed, skipped } = &row.counts;
        let (failed, skipped, seconds) = (failed.len(), skipped.len(), row.seconds);
        println!("| {} | {} | {} | {passed} | {failed} | {skipped} | {seconds:.0} |", row.name, row.version, row.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_is() {
        let all = read_all(&crate::generate::project_root()).unwrap();
        assert!(all.len() >= 3);
        let page = std::fs::read_to_string(crate::generate::project_root().join("docs/book/applications.md")).unwrap();
        for Application { name, source, proves, .. } in &all {
            let kind = source.split(' ').next().unwrap_or_default();
            assert!(["apt", "cargo", "deb", "pip", "wheel"].contains(&kind), "{name}: {source}");
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(
                row.is_some_and(|row| row.contains(proves.as_str())),
                "docs/book/applications.md: no row of {name} with \"{proves}\""
            );
        }
    }

    #[test]
    fn results_are_counted() {
        let counts =
            Counts::read("ok a b\nFAILED c: it ended with 1\n  | ok not counted\nskip d: no files\nok e\nnoise\n");
        assert_eq!(
            (counts.passed, counts.failed, counts.skipped),
            (2, vec!["c: it ended with 1".to_owned()], vec!["d: no files".to_owned()])
        );
        assert!(Application::parse("x", "# source apt x\n# needs gcc\n# uses nothing\n").is_err());
    }
}
