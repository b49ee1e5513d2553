//! Runs the commands of the book's first pages, and compares what they print with the pages.
//!
//! The suite runs each fenced block marked `sh`. It runs no block marked `shell`: these need other hosts, the
//! Internet or a terminal. A block marked `text` is the output of the `sh` block above it, unless a `shell`
//! block stands between them. A line `…` in it stands for any lines.
//!
//! What differs between machines is replaced on both sides before lines are compared ([`normal`]).

use std::path::{Path, PathBuf};

use super::context::{Context, EXIT_NO_HOSTS, no_hosts};
use super::process::Run;
use super::{Case, Outcome};

/// The time limit of a block, in seconds.
const LIMIT_SECONDS: u64 = 120;
/// The name of the host in the pages.
const BOOK_HOST: &str = "node1";
/// The line of a page that stands for any lines.
const ANYTHING: &str = "…";
/// The commands that end with 1 for a fault of the machine, or because no job runs there.
const MAY_END_WITH_1: &[&str] = &["weft doctor", "weft info --live"];
/// The words in front of the processors that a rank is bound to, and the words for a rank that is not bound.
const BINDING: (&str, &str) = ("bound to processor", "not bound");
/// The program that the first pages make and later ones use, with its source.
const PROGRAM: (&str, &str) = ("program", "examples/hello.c");

/// A page of the book.
struct Page {
    name: &'static str,
    compared: Compared,
}

/// The parts of a page's output that must be as they are in the page.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Compared {
    /// All lines, with their numbers.
    Whole,
    /// All lines; numbers vary.
    Lines,
    /// The lines before the first one that begins with `end`, because the rest depends on the machine's
    /// network. No line is compared where the output lacks the words `ability`: the machine does not allow
    /// what the page shows.
    Before { end: &'static str, ability: &'static str },
    /// The names of `weft doctor`'s checks that found nothing, and its last line. On a machine with faults or
    /// warnings, only the last line.
    Verdicts,
}

const PAGES: &[Page] = &[
    Page { name: "install", compared: Compared::Whole },
    Page { name: "run", compared: Compared::Lines },
    Page { name: "settings", compared: Compared::Whole },
    Page { name: "info", compared: Compared::Before { end: "to other hosts", ability: "single copy by the kernel" } },
    Page { name: "doctor", compared: Compared::Verdicts },
    Page { name: "how-weft-works", compared: Compared::Lines },
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    PAGES.iter().map(|page| Case::new(format!("{}.md", page.name), |context| run_page(context, page))).collect()
}

fn run_page(context: &Context, page: &Page) -> anyhow::Result<Outcome> {
    let text = std::fs::read_to_string(context.root.join(format!("docs/book/{}.md", page.name)))?;
    let blocks = blocks(&text);
    anyhow::ensure!(!blocks.is_empty(), "the page has no block that can be run");
    let place = Place::make(context, page, &text)?;
    let mut outcome = Outcome::Passed;
    for block in &blocks {
        let finished = place.run(&block.commands).finish()?;
        let ends_with_1 = finished.code == Some(1) && MAY_END_WITH_1.iter().any(|name| block.commands.contains(name));
        if finished.code == Some(EXIT_NO_HOSTS) {
            outcome = no_hosts(&finished.output);
            continue;
        }
        let at = format!("the block of line {}:\n{}", block.line, block.commands);
        anyhow::ensure!(finished.code == Some(0) || ends_with_1, "{at}{}", finished.report());
        anyhow::ensure!(finished.leftovers.is_empty(), "{at}left behind: {}", finished.leftovers.join("; "));
        block.compare(page.compared, &finished.output)?;
    }
    Ok(outcome)
}

/// The directories in which a page's commands run.
struct Place {
    work: PathBuf,
    home: PathBuf,
    path: String,
}

impl Place {
    /// Makes an empty directory with a link to the examples, and a home with Weft in `weft`.
    fn make(context: &Context, page: &Page, text: &str) -> anyhow::Result<Place> {
        let top = context.work.join("book").join(page.name);
        if top.exists() {
            std::fs::remove_dir_all(&top)?;
        }
        let (work, home) = (top.join("work"), top.join("home"));
        std::fs::create_dir_all(&work)?;
        std::fs::create_dir_all(&home)?;
        let link = |to: &Path, from: PathBuf| std::os::unix::fs::symlink(std::fs::canonicalize(to)?, from);
        link(&context.root.join("examples"), work.join("examples"))?;
        link(&context.prefix, home.join("weft"))?;
        let (program, source) = PROGRAM;
        if !text.contains(&format!("-o {program} ")) {
            std::fs::copy(context.compile(source)?, work.join(program))?;
        }
        let bin = std::fs::canonicalize(context.prefix.join("bin"))?;
        let path = format!("{}:{}", bin.display(), super::process::search_path().to_string_lossy());
        Ok(Place { work, home, path })
    }

    /// The run of some commands in one shell, which ends with the first one that fails.
    fn run(&self, commands: &str) -> Run {
        let run = Run::new("sh").args(["-e", "-c", commands]).directory(&self.work).limit(LIMIT_SECONDS);
        // The pages show the choices by these costs, and no machine's.
        run.env("HOME", &self.home).env("PATH", &self.path).env("WEFT_COSTS", "built-in")
    }
}

/// Commands of a page, and the outputs that it shows of them.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    /// The line of the page in which the block begins.
    pub(super) line: usize,
    pub(super) commands: String,
    pub(super) outputs: Vec<String>,
}

impl Block {
    /// Compares what its commands have printed on this host with what the page shows of it.
    pub(super) fn compare(&self, compared: Compared, output: &str) -> anyhow::Result<()> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
        for shown in &self.outputs {
            let Some(missing) = missing(compared, shown, output, host.trim()) else { continue };
            anyhow::bail!(
                "the block of line {}:\n{}no line \"{missing}\" where it should be\n--- the page:\n{}\n--- today:\n{}",
                self.line,
                self.commands,
                shown.trim_end(),
                output.trim_end()
            );
        }
        Ok(())
    }
}

/// The blocks of a page that are run.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_run = false;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let inner = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let text: String = inner.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
        match (kind, blocks.last_mut()) {
            ("sh", _) => blocks.push(Block { line: number + 1, commands: text, outputs: Vec::new() }),
            ("text", Some(block)) if is_run => block.outputs.push(text),
            _ => {}
        }
        if kind != "text" {
            is_run = kind == "sh";
        }
    }
    blocks
}

/// The first line that a page shows and the output lacks, or has at another place; `None` if they agree.
///
/// The lines between two `…` of the page must stand together in the output, in the page's order.
fn missing(compared: Compared, shown: &str, output: &str, host: &str) -> Option<String> {
    let verdicts = |text: &str| -> Vec<String> { text.lines().filter_map(verdict).collect() };
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let (shown, output) = match compared {
        Compared::Lines if shown.contains(BINDING.0) && output.contains(BINDING.1) => return None,
        Compared::Whole | Compared::Lines => (lines(shown), lines(output)),
        Compared::Before { ability, .. } if !output.contains(ability) => return None,
        Compared::Before { end, .. } => {
            let before = shown.lines().take_while(|line| !line.trim_start().starts_with(end));
            (before.map(str::to_owned).collect(), lines(output))
        }
        Compared::Verdicts => {
            let is_sound = output.contains(" 0 faults, 0 warnings");
            let shown = verdicts(shown).into_iter().filter(|line| is_sound || !line.starts_with("ok "));
            (shown.flat_map(|line| [ANYTHING.to_owned(), line]).collect(), verdicts(output))
        }
    };
    let varies = compared != Compared::Whole;
    let shown = in_order(shown.iter().map(|line| normal(line, BOOK_HOST, varies)).collect());
    let output = in_order(output.iter().map(|line| normal(line, host, varies)).collect());
    let mut rest = &output[..];
    for piece in shown.split(|line| line == ANYTHING).filter(|piece| !piece.is_empty()) {
        match rest.windows(piece.len()).position(|lines| lines == piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => {
                let lacks = piece.iter().find(|line| !rest.contains(line)).or_else(|| piece.first());
                return lacks.cloned();
            }
        }
    }
    None
}

/// The verdict in a line of `weft doctor`, without details: the name of a check that found nothing, or the
/// whole last line. `None` for all other lines.
fn verdict(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (Some("ok"), Some(check)) => Some(format!("ok {check}")),
        _ if line.contains(" fault") && line.contains(" warning") => {
            Some(line.replace("faults", "fault").replace("warnings", "warning").replace("notes", "note"))
        }
        _ => None,
    }
}

/// A line with placeholders for what differs between machines: HOST for the host's name, and `#` for numbers
/// if these vary (figures, versions, times). White space counts as one blank, since columns are as wide as
/// what is in them.
fn normal(line: &str, host: &str, numbers_vary: bool) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let word = |word: &str| {
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        match &word[..end] == host {
            true => format!("HOST{}", &word[end..]),
            false => word.to_owned(),
        }
    };
    let words: Vec<String> = line.split_whitespace().map(word).collect();
    let line = words.join(" ");
    if !numbers_vary {
        return line;
    }
    let mut out = String::new();
    let mut rest = line.split_inclusive(BINDING.0).next().unwrap_or_default();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        out.push('#');
        let number = &rest[at..];
        let is_number = |(at, c): &(usize, char)| {
            c.is_ascii_digit() || (*c == '.' && number[at + 1..].starts_with(|c: char| c.is_ascii_digit()))
        };
        let length = number.char_indices().take_while(is_number).count();
        rest = &number[length..];
    }
    out + rest
}

/// The lines, with those that ranks print in the order of ranks: they come in any order.
fn in_order(mut lines: Vec<String>) -> Vec<String> {
    for together in lines.chunk_by_mut(|one, next| is_of_rank(one) && is_of_rank(next)) {
        if is_of_rank(&together[0]) {
            together.sort();
        }
    }
    lines
}

fn is_of_rank(line: &str) -> bool {
    line.starts_with("hello from rank ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with commands that are run, commands that are not, and outputs of both.
    ///
    /// Expect: an output belongs to the commands that are run, also in an item of a list.
    #[test]
    fn outputs_belong_to_the_commands_above() {
        let page = "```text\npicture\n```\n```sh\na\nb\n```\n- item\n\n  ```text\n  x\n    y\n  ```\n```shell\nc\n```\n\
                    ```text\nz\n```\n```sh\nd\n```\n";
        let run = Block { line: 4, commands: "a\nb\n".to_owned(), outputs: vec!["x\n  y\n".to_owned()] };
        assert_eq!(blocks(page), [run, Block { line: 20, commands: "d\n".to_owned(), outputs: Vec::new() }]);
    }

    #[test]
    fn hosts_numbers_and_blanks_differ_between_machines() {
        assert_eq!(normal("hello from rank 1 of 4 on vm/h0", "vm", false), "hello from rank 1 of 4 on HOST/h0");
        assert_eq!(normal("rank 1 on vm: a vm-2 and vmware", "vm", false), "rank 1 on HOST: a vm-2 and vmware");
        assert_eq!(normal("  1 host in 0.1 s:  0 faults", "vm", true), "# host in # s: # faults");
        assert_eq!(normal("version 5.0.1. end", "vm", true), "version #. end");
        assert_eq!(normal("up to 64 KiB, h0", "h0", true), "up to # KiB, HOST");
        assert_eq!(
            normal("rank 1 on vm: bound to processors 0,4: 1 core", "vm", true),
            "rank # on HOST: bound to processor"
        );
    }

    #[test]
    fn an_output_that_agrees_passes() {
        let shown = "hello from rank 0 of 2 on node1\nhello from rank 1 of 2 on node1\n";
        let output = "first\nhello from rank 1 of 2 on vm\nhello from rank 0 of 2 on vm\nlast\n";
        assert_eq!(missing(Compared::Whole, shown, output, "vm"), None);
        assert_eq!(missing(Compared::Lines, "a 1\n…\nd\n", "a 2.5\nb\nc\nd\n", "vm"), None);
        assert_eq!(
            missing(
                Compared::Before { end: "to other", ability: "copy" },
                "to this\nto other\n",
                "to this\ncopy\n",
                "vm"
            ),
            None
        );
        assert_eq!(
            missing(Compared::Before { end: "to other", ability: "copy" }, "to this\nto other\n", "no such\n", "vm"),
            None
        );
        let doctor = "ok   shm      vm: 1 GiB\nnote x\n\n1 host in 2 s: 0 faults, 0 warnings, 1 note\n";
        let page = "ok shm node1: 7 GiB\n1 host in 0.1 s: 0 faults, 0 warnings, 1 note\n";
        assert_eq!(missing(Compared::Verdicts, page, doctor, "vm"), None);
    }

    #[test]
    fn every_difference_is_found() {
        let missing = |compared, shown, output| missing(compared, shown, output, "vm");
        assert_eq!(missing(Compared::Whole, "a 1\n", "a 2\n").as_deref(), Some("a 1"));
        assert_eq!(missing(Compared::Lines, "a\nb\n", "a\nx\nb\n").as_deref(), Some("a"));
        assert_eq!(missing(Compared::Lines, "a\n…\nb\n", "b\na\n").as_deref(), Some("b"));
        assert_eq!(missing(Compared::Before { end: "c", ability: "a" }, "a\nb\nc\n", "a\nc\n").as_deref(), Some("b"));
        let page = "ok gone node1\n";
        assert!(missing(Compared::Verdicts, page, "ok shm vm\n1 host: 0 faults, 0 warnings, 0 notes\n").is_some());
    }
}
