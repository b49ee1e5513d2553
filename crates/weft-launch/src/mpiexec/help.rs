//! The text of `mpiexec --help`, and the page of the book, made from the table of options.

use super::table::{Action, Entry, OPTIONS, Section, Takes};
use super::variables::VARIABLES;

/// The column where the texts of options begin.
const COLUMN: usize = 27;
/// The longest line.
const WIDTH: usize = 110;

const INTRODUCTION: &str = "\
mpiexec starts the ranks of an MPI job, on this host or on several.

  mpiexec -n 4 ./program ARGUMENT…
  mpiexec --hosts h0,h1 -n 8 ./program
  mpiexec -n 1 ./first : -n 3 ./second          several programs, one MPI_COMM_WORLD

One dash or two may stand before the name of any option.
";

const VARIABLES_TITLE: &str = "Variables of other launchers";
const VARIABLES_REMARK: &str = "mpiexec reads them as those launchers do. An option counts more than a variable. Of two \
                                variables that say the same the first one here counts, and -v says which was taken.";

/// What the variables of other launchers say, each with the names of those that say it.
fn by_meaning() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in VARIABLES {
        let meaning = row.meaning.text();
        match lines.iter_mut().find(|(known, _)| *known == meaning) {
            Some((_, names)) => names.push(row.name),
            None => lines.push((meaning, vec![row.name])),
        }
    }
    lines
}

/// A test which options are shown.
type Filter = fn(&Entry) -> bool;

/// The lists of options that do nothing here, with their titles in `--help`.
const LISTS: [(&str, Filter); 2] =
    [("Accepted, without effect", is_ignored), ("Not here: what is used instead is said", is_elsewhere)];

/// What `--help` says, in parts that a page of a manual is made of.
#[derive(Debug)]
pub struct Manual {
    /// What the program does, with examples in lines that begin with blanks.
    pub introduction: &'static str,
    /// The sections in their order.
    pub sections: Vec<ManualSection>,
}

/// A section of a [`Manual`].
#[derive(Debug)]
pub struct ManualSection {
    /// The title.
    pub title: &'static str,
    /// The options or variables.
    pub rows: Vec<ManualRow>,
    /// What holds without any option; empty: nothing.
    pub remark: &'static str,
}

/// An option with its names, or a word about variables of other launchers with the names of those.
#[derive(Debug)]
pub struct ManualRow {
    /// All names, options with their dashes.
    pub names: Vec<&'static str>,
    /// The value as it stands behind a name: ` N`, `[=FORMAT]`, or nothing.
    pub value: String,
    /// The effect, or why there is none.
    pub text: &'static str,
    /// An option that has an effect here.
    pub works: bool,
}

/// What `--help` says, as a manual shows it.
pub fn manual() -> Manual {
    let row = |works: bool| {
        move |entry: &'static Entry| ManualRow {
            names: entry.names.to_vec(),
            value: value(entry),
            text: entry.text,
            works,
        }
    };
    let mut sections: Vec<ManualSection> = Section::ALL
        .into_iter()
        .map(|section| ManualSection {
            title: section.title(),
            rows: of(section, works).map(row(true)).collect(),
            remark: section.remark(),
        })
        .collect();
    let said = |(text, names)| ManualRow { names, value: String::new(), text, works: false };
    let rows = by_meaning().into_iter().map(said).collect();
    sections.push(ManualSection { title: VARIABLES_TITLE, rows, remark: VARIABLES_REMARK });
    for (title, is_wanted) in LISTS {
        let rows = Section::ALL.into_iter().flat_map(|section| of(section, is_wanted)).map(row(false)).collect();
        sections.push(ManualSection { title, rows, remark: "" });
    }
    Manual { introduction: INTRODUCTION, sections }
}

/// The text of `mpiexec --help`.
pub(crate) fn text() -> String {
    let mut out = INTRODUCTION.to_owned();
    for section in Section::ALL {
        out.push_str(&format!("\n{}\n", section.title()));
        for entry in of(section, works) {
            let names = format!("  {}", label(entry));
            // Names that do not fit get their own line.
            let is_short = names.chars().count() + 1 < COLUMN;
            let begin = if is_short { format!("{names:COLUMN$}") } else { format!("{names}\n{:COLUMN$}", "") };
            out.push_str(&format!("{begin}{}\n", broken(entry.text, COLUMN)));
        }
        out.push_str(&format!("{:COLUMN$}{}\n", "", broken(section.remark(), COLUMN)));
    }
    out.push_str(&format!("\n{VARIABLES_TITLE}\n"));
    for (meaning, names) in by_meaning() {
        out.push_str(&format!("  {meaning}\n{:COLUMN$}{}\n", "", broken(&names.join(" "), COLUMN)));
    }
    out.push_str(&format!("{:COLUMN$}{}\n", "", broken(VARIABLES_REMARK, COLUMN)));
    for (title, is_wanted) in LISTS {
        let names = Section::ALL.into_iter().flat_map(|section| of(section, is_wanted)).flat_map(|entry| entry.names);
        let names: Vec<&str> = names.copied().collect();
        out.push_str(&format!("\n{title}\n{:COLUMN$}{}\n", "", broken(&names.join(" "), COLUMN)));
    }
    out
}

/// The page of the book.
#[cfg(test)]
pub(crate) fn page() -> String {
    let mut out = String::from(
        "# Options of `mpiexec`\n\n\
         You know what `mpiexec` should do, and look for the option; or you look up an option of another launcher.\n\n\
         Each option is below with all its names. One dash or two may stand before any name. A value follows its\n\
         option, or stands behind `=`. [Running programs](run.md) explains hosts, processors and output.\n\n\
         `mpiexec --help` prints the same options: `mpiexec` reads its arguments by the table from which both are made.\n",
    );
    let escaped = |text: &str| text.replace('|', "\\|");
    let row = |entry: &Entry| {
        let names: Vec<String> = entry.names.iter().map(|name| format!("`{name}`")).collect();
        format!("| {}{} | {} |\n", names.join(", "), escaped(&value(entry)), escaped(entry.text))
    };
    for section in Section::ALL {
        out.push_str(&format!("\n## {}\n\n| option | what it does |\n|---|---|\n", section.title()));
        of(section, works).for_each(|entry| out.push_str(&row(entry)));
        out.push_str(&format!("\n{}\n", broken(section.remark(), 0)));
    }
    out.push_str(&format!("\n## {VARIABLES_TITLE}\n\n| what they say | variables |\n|---|---|\n"));
    for (meaning, names) in by_meaning() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        out.push_str(&format!("| {meaning} | {} |\n", names.join(", ")));
    }
    out.push_str(&format!("\n{}\n", broken(VARIABLES_REMARK, 0)));
    let lists: [(&str, &str, Filter); 2] = [
        ("Accepted, without effect", "why", is_ignored),
        ("Refused, because the job would be another one", "what is used instead", is_elsewhere),
    ];
    for (title, column, is_wanted) in lists {
        out.push_str(&format!("\n## {title}\n\n| option | {column} |\n|---|---|\n"));
        Section::ALL.into_iter().flat_map(|section| of(section, is_wanted)).for_each(|entry| out.push_str(&row(entry)));
    }
    out
}

fn of(section: Section, is_wanted: Filter) -> impl Iterator<Item = &'static Entry> {
    OPTIONS.iter().filter(move |entry| entry.section == section && is_wanted(entry))
}

fn works(entry: &Entry) -> bool {
    !is_ignored(entry) && !is_elsewhere(entry)
}

fn is_ignored(entry: &Entry) -> bool {
    matches!(entry.action, Action::Ignored(_))
}

fn is_elsewhere(entry: &Entry) -> bool {
    entry.action == Action::Instead
}

/// The names of an option, with the value that follows.
fn label(entry: &Entry) -> String {
    format!("{}{}", entry.names.join(", "), value(entry))
}

fn value(entry: &Entry) -> String {
    match entry.takes {
        Takes::Nothing => String::new(),
        Takes::Maybe => format!("[={}]", entry.value),
        Takes::One | Takes::Two | Takes::Pair => format!(" {}", entry.value),
    }
}

/// Breaks the text into lines that begin at the column `from`.
fn broken(text: &str, from: usize) -> String {
    let mut out = String::new();
    let mut at = from;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if at > from && at + 1 + length > WIDTH {
            out.push_str(&format!("\n{:from$}", ""));
            at = from;
        } else if at > from {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += length;
    }
    out
}
