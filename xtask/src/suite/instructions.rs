//! `cargo xtask instructions`, and the suite of that name: counts the instructions of user space that a
//! message of 8 bytes costs.
//!
//! Times on a shared machine differ by tens of percent from run to run, these counts by less than one percent
//! (docs/design/measuring.md). The command prints them for one installed Weft or compares several; the suite
//! compares with `tests/instructions/counts.json`, which `--save` writes. The same is done for what the
//! libraries for programs of other ABIs add to a call ([`faces`]).

mod count;
mod faces;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::context::Context;
use super::faces::{Face, unless_missing};
use super::process;
use super::{Case, Outcome};
pub(super) use count::missing;
use count::{Count, MESSAGES, Mode, Place, kinds};
pub(super) use faces::of_file;

/// The largest cost of a change when two trees are compared, as a ratio.
const LIMIT: f64 = 1.03;
/// The largest ratio to the committed table, which need not be written anew for each small change.
const LIMIT_OF_TABLE: f64 = 1.05;
/// The system calls per message that may differ unseen: a call that is made once in a window, or for an
/// acknowledgement, may fall into another block.
const SYSTEM_CALLS_UNSEEN: f64 = 0.05;
/// The most counts before one that is too high fails: whatever else the machine does adds looks and sleeps of
/// ranks that wait for each other, and takes none away.
const ATTEMPTS: u32 = 3;
const TABLE: &str = "tests/instructions/counts.json";
const USAGE: &str =
    "usage: cargo xtask instructions [--prefix DIR]... [--against FILE] [--limit RATIO] [--save FILE] [--json]
  --prefix DIR    an installed Weft (build/prefix); the later ones are compared with the first
  --against FILE  compare with what --save wrote
  --limit RATIO   how many times as many instructions are accepted (1.03)
  --save FILE     write the counts of the last prefix
  --json          print JSON instead of a table";

/// The counts of one installed Weft.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    /// The compiler of the library: other compilers make other counts.
    compiler: String,
    /// The compiler of the faces, which are in C.
    faces_compiler: String,
    architecture: String,
    counts: Vec<Count>,
}

/// A count beside the same count of another Weft.
struct Pair<'a> {
    before: Option<&'a Count>,
    after: &'a Count,
}

#[derive(Default)]
struct Options {
    prefixes: Vec<PathBuf>,
    against: Option<PathBuf>,
    limit: Option<f64>,
    save: Option<PathBuf>,
    json: bool,
}

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::parse(arguments)?;
    if let Some(why) = count::missing() {
        anyhow::bail!("{why}");
    }
    process::catch_interrupts()?;
    let stored = options.against.as_deref().map(Table::read).transpose()?;
    let mut measured = Vec::new();
    for prefix in &options.prefixes {
        let context = Context::new(None, prefix, None)?;
        measured.push(Table::measure(&context)?);
    }
    let before = stored.as_ref().or(measured.first().filter(|_| measured.len() > 1));
    let from = usize::from(stored.is_none() && measured.len() > 1);
    let limit = options.limit.unwrap_or(LIMIT);
    let mut exceeded = Vec::new();
    for (after, prefix) in measured[from..].iter().zip(&options.prefixes[from..]) {
        let pairs = after.beside(before);
        exceeded.extend(exceeding(&pairs, limit));
        if !options.json {
            println!("{}\n\n{}", prefix.display(), markdown(&pairs));
        }
        if let Some(before) = before {
            anyhow::ensure!(pairs.iter().any(|pair| pair.before.is_some()), "nothing could be compared");
            if before.compiler != after.compiler {
                eprintln!("not the same compiler: {} and {}", before.compiler, after.compiler);
            }
        }
    }
    if options.json {
        let tables = stored.iter().chain(&measured).map(Table::to_json).collect();
        println!("{:#}", Value::Array(tables));
    }
    if let (Some(path), Some(table)) = (&options.save, measured.last()) {
        std::fs::write(path, format!("{:#}\n", table.to_json())).with_context(|| path.display().to_string())?;
    }
    anyhow::ensure!(exceeded.is_empty(), "more than {limit} times what it was:\n{}", exceeded.join("\n"));
    Ok(())
}

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let case = |(place, mode): (Place, Mode)| {
        let name = format!("{}, {}: as many as in the table", place.name(), mode.name());
        Case::new(name, move |context| guard(context, place, mode))
    };
    let of_face = |(face, calls): (Face, usize)| {
        let name = format!("{} adds as many as in the table to {}", face.name(), faces::CALLS[calls].1.join(", "));
        Case::new(name, move |context| unless_missing(context, face, |context| guard_face(context, face, calls)))
    };
    kinds().map(case).chain(faces::kinds().map(of_face)).collect()
}

fn guard(context: &Context, place: Place, mode: Mode) -> anyhow::Result<Outcome> {
    let table = Table::read(&context.root.join(TABLE))?;
    let compiler = count::compiler(&context.prefix)?;
    if let Some(why) = incomparable(&table, &compiler, &table.compiler) {
        return Ok(Outcome::Skipped(why));
    }
    if std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CARGO_PROFILE_RELEASE_")) {
        return Ok(Outcome::Skipped("the environment changes the release profile".into()));
    }
    let mut outcome = Outcome::Passed;
    for _ in 0..ATTEMPTS {
        let Some(counts) = count::count(context, place, mode)? else {
            return Ok(Outcome::Skipped("no privilege for network namespaces".into()));
        };
        outcome = judge(&table, counts)?;
        if matches!(outcome, Outcome::Passed) {
            break;
        }
    }
    Ok(outcome)
}

fn guard_face(context: &Context, face: Face, calls: usize) -> anyhow::Result<Outcome> {
    let table = Table::read(&context.root.join(TABLE))?;
    let compiler = faces::compiler(context, face)?;
    match incomparable(&table, &compiler, &table.faces_compiler) {
        Some(why) => Ok(Outcome::Skipped(why)),
        None => judge(&table, faces::count(context, face, calls)?),
    }
}

/// The reason why nothing can be counted here, or compared with the table.
fn incomparable(table: &Table, compiler: &str, of_table: &str) -> Option<String> {
    let architecture = std::env::consts::ARCH;
    count::missing().or_else(|| {
        let is_other = (compiler, architecture) != (of_table, table.architecture.as_str());
        let theirs = format!("{of_table}, {}", table.architecture);
        is_other.then(|| format!("the table is of {theirs}; this is {compiler}, {architecture}"))
    })
}

fn judge(table: &Table, counts: [Count; 2]) -> anyhow::Result<Outcome> {
    let measured = Table { counts: counts.into(), ..table.clone() };
    let pairs = measured.beside(Some(table));
    let absent = pairs.iter().any(|pair| pair.before.is_none());
    anyhow::ensure!(!absent, "{TABLE} lacks this; `cargo xtask instructions --save {TABLE}` writes it");
    let exceeded = exceeding(&pairs, LIMIT_OF_TABLE);
    Ok(match exceeded.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(format!(
            "{}\nWhere they are: callgrind_annotate --auto=no --threshold=100 build/instructions/*/rank-0.2 ({MESSAGES} messages). \
             If they are worth it:\n\
             cargo xtask instructions --save {TABLE}",
            exceeded.join("\n")
        )),
    })
}

/// The sentences about counts that are more than `limit` times their former value.
fn exceeding(pairs: &[Pair<'_>], limit: f64) -> Vec<String> {
    let mut found = Vec::new();
    for Pair { before, after } in pairs {
        let Some(before) = before else { continue };
        let what = format!("{}, {}, {}", after.place, after.mode, after.side);
        let (few, many) = (before.instructions, after.instructions);
        if many > few * limit {
            found.push(format!("{what}: {many:.1} instructions beside {few:.1}: {:.3} times", many / few));
        }
        let (few, many) = (before.system_calls, after.system_calls);
        if many > few * limit + SYSTEM_CALLS_UNSEEN {
            found.push(format!("{what}: {many:.3} system calls beside {few:.3}"));
        }
    }
    found
}

fn markdown(pairs: &[Pair<'_>]) -> String {
    let compares = pairs.iter().any(|pair| pair.before.is_some());
    let mut text = String::from("| where | how | side | instructions | system calls |");
    text += if compares { " before | ratio |\n" } else { "\n" };
    text += if compares { "|---|---|---|--:|--:|--:|--:|\n" } else { "|---|---|---|--:|--:|\n" };
    for Pair { before, after } in pairs {
        let Count { place, mode, side, instructions, system_calls } = after;
        // Writing to a string cannot fail.
        let _ = write!(text, "| {place} | {mode} | {side} | {instructions:.0} | {system_calls:.2} |");
        let _ = match before {
            Some(before) => {
                let ratio = instructions / before.instructions;
                writeln!(text, " {:.0}, {:.2} | {ratio:.3} |", before.instructions, before.system_calls)
            }
            None if compares => writeln!(text, " | |"),
            None => writeln!(text),
        };
    }
    text
}

impl Options {
    fn parse(arguments: &[String]) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
            match argument.as_str() {
                "--prefix" => options.prefixes.push(value()?.into()),
                "--against" => options.against = Some(value()?.into()),
                "--limit" => {
                    let limit = value()?.parse().ok().filter(|limit: &f64| limit.is_finite() && *limit > 0.0);
                    options.limit = Some(limit.context("--limit needs a positive number")?);
                }
                "--save" => options.save = Some(value()?.into()),
                "--json" => options.json = true,
                _ => anyhow::bail!("{USAGE}"),
            }
        }
        if options.prefixes.is_empty() {
            options.prefixes.push("build/prefix".into());
        }
        Ok(options)
    }
}

impl Table {
    fn measure(context: &Context) -> anyhow::Result<Table> {
        let compiler = count::compiler(&context.prefix)?;
        let mut counts = Vec::new();
        for (place, mode) in kinds() {
            counts.extend(count::count(context, place, mode)?.into_iter().flatten());
        }
        let faces_compiler = faces::compiler(context, Face::Mpich)?;
        for (face, calls) in faces::kinds().filter(|(face, _)| face.is_here(context)) {
            counts.extend(faces::count(context, face, calls)?);
        }
        Ok(Table { compiler, faces_compiler, architecture: std::env::consts::ARCH.into(), counts })
    }

    /// The counts, each with the same count of `before` where `before` has it.
    fn beside<'a>(&'a self, before: Option<&'a Table>) -> Vec<Pair<'a>> {
        let same =
            |one: &Count, other: &Count| (&one.place, &one.mode, &one.side) == (&other.place, &other.mode, &other.side);
        let find = |after: &Count| before.and_then(|table| table.counts.iter().find(|count| same(count, after)));
        self.counts.iter().map(|after| Pair { before: find(after), after }).collect()
    }

    fn to_json(&self) -> Value {
        // Callgrind's figures have no more digits worth keeping.
        let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
        let count = |count: &Count| {
            json!({
                "place": count.place, "mode": count.mode, "side": count.side,
                "instructions": rounded(count.instructions), "system_calls": rounded(count.system_calls),
            })
        };
        let counts: Vec<Value> = self.counts.iter().map(count).collect();
        json!({
            "compiler": self.compiler, "faces_compiler": self.faces_compiler, "architecture": self.architecture,
            "counts": counts,
        })
    }

    fn read(path: &Path) -> anyhow::Result<Table> {
        let read = || Table::from_json(&serde_json::from_str(&std::fs::read_to_string(path)?)?);
        read().with_context(|| path.display().to_string())
    }

    fn from_json(value: &Value) -> anyhow::Result<Table> {
        fn text(value: &Value, name: &str) -> anyhow::Result<String> {
            Ok(value[name].as_str().with_context(|| format!("no text {name}"))?.to_owned())
        }
        fn number(value: &Value, name: &str) -> anyhow::Result<f64> {
            value[name].as_f64().filter(|number| *number >= 0.0).with_context(|| format!("no number {name}"))
        }
        let count = |value: &Value| {
            Ok::<_, anyhow::Error>(Count {
                place: text(value, "place")?,
                mode: text(value, "mode")?,
                side: text(value, "side")?,
                instructions: number(value, "instructions")?,
                system_calls: number(value, "system_calls")?,
            })
        };
        let counts = value["counts"].as_array().context("no list of counts")?;
        Ok(Table {
            compiler: text(value, "compiler")?,
            faces_compiler: text(value, "faces_compiler")?,
            architecture: text(value, "architecture")?,
            counts: counts.iter().map(count).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(instructions: f64, system_calls: f64) -> Table {
        let [place, mode, side] = ["one node", "blocking", "sender"].map(str::to_owned);
        let counts = vec![Count { place, mode, side, instructions, system_calls }];
        let [compiler, faces_compiler] = ["rustc version 1.88.0", "GCC: (Debian) 12.2.0"].map(str::to_owned);
        Table { compiler, faces_compiler, architecture: "x86_64".into(), counts }
    }

    fn exceeded(before: &Table, after: &Table, limit: f64) -> usize {
        exceeding(&after.beside(Some(before)), limit).len()
    }

    #[test]
    fn more_than_the_limit_is_said_of_instructions_and_of_system_calls() {
        let before = table(1000.0, 0.1);
        assert_eq!(exceeded(&before, &table(1030.0, 0.1), 1.03), 0);
        assert_eq!(exceeded(&before, &table(1031.0, 0.1), 1.03), 1);
        assert_eq!(exceeded(&before, &table(900.0, 0.2), 1.03), 1);
        assert_eq!(exceeded(&table(1000.0, 0.0), &table(1000.0, 0.04), 1.03), 0);
        assert_eq!(exceeded(&table(1000.0, 0.0), &table(1100.0, 1.0), 1.03), 2);
    }

    #[test]
    fn what_the_other_table_lacks_is_shown_and_not_judged() {
        let mut after = table(2000.0, 0.0);
        after.counts[0].place = "elsewhere".into();
        let before = table(1000.0, 0.0);
        let pairs = after.beside(Some(&before));
        assert!(pairs[0].before.is_none() && exceeding(&pairs, 1.03).is_empty());
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let written = table(351.5, 0.063);
        assert_eq!(Table::from_json(&written.to_json()).unwrap(), written);
        assert!(Table::from_json(&json!({ "compiler": "x", "architecture": "y", "counts": [{}] })).is_err());
    }
}
