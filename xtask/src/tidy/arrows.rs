//! Compares the table of crates in ARCHITECTURE.md with `cargo metadata` and with the sources.
//!
//! The table is the one whose header's first cell is `crate`; it has the columns `may use` and `unsafe`.
//! - `may use`: names of workspace crates, with or without `weft-`, between commas; `–` for none. A remark
//!   may follow a semicolon. Dependencies of tests do not count.
//! - `unsafe`: `forbidden` (the crate's root must say so to the compiler), `everywhere`, or files and
//!   directories below the crate's `src` in backquotes (`memory.rs`, `shared/`), the only places where the
//!   word may appear.

use super::Findings;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Row {
    may_use: BTreeSet<String>,
    unsafety: Unsafety,
}

#[derive(Debug, PartialEq)]
enum Unsafety {
    Forbidden,
    Everywhere,
    Only(Vec<String>),
}

/// A workspace crate as cargo sees it.
pub(super) struct Package {
    directory: PathBuf,
    pub(super) uses: BTreeSet<String>,
    /// The first files of the crate's library and its programs, from the project's top.
    pub(super) roots: Vec<PathBuf>,
}

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let Ok(document) = std::fs::read_to_string(root.join(DOCUMENT)) else {
        findings.broken.push(format!("{DOCUMENT} is missing"));
        return Ok(());
    };
    let packages = packages(root)?;
    let names: BTreeSet<&str> = packages.keys().map(String::as_str).collect();
    let rows = match parse_table(&document, &names) {
        Ok(rows) => rows,
        Err(error) => {
            findings.broken.push(format!("{DOCUMENT}: {error:#}"));
            return Ok(());
        }
    };
    for (name, package) in &packages {
        let Some(row) = rows.get(name) else {
            findings.broken.push(format!("{DOCUMENT}: no row for {name}"));
            continue;
        };
        for used in package.uses.difference(&row.may_use) {
            findings.broken.push(format!("{name} uses {used}: that arrow is not in {DOCUMENT}"));
        }
        for unused in row.may_use.difference(&package.uses) {
            findings.broken.push(format!("{DOCUMENT}: {name} may use {unused}, but does not"));
        }
        check_unsafety(root, files, name, package, &row.unsafety, findings)?;
    }
    for name in rows.keys().filter(|name| !packages.contains_key(*name)) {
        findings.broken.push(format!("{DOCUMENT}: {name} is not a crate of the workspace"));
    }
    Ok(())
}

/// The workspace's packages and the arrows between them.
pub(super) fn packages(root: &Path) -> Result<BTreeMap<String, Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(root);
    let output = command.output().context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let list = metadata["packages"].as_array().context("no packages")?;
    let name_of = |package: &serde_json::Value| package["name"].as_str().map(str::to_owned);
    let names: BTreeSet<String> = list.iter().filter_map(name_of).collect();
    let mut packages = BTreeMap::new();
    for package in list {
        let manifest = Path::new(package["manifest_path"].as_str().context("no manifest path")?);
        let top = root.canonicalize()?;
        let below = |path: &Path| path.strip_prefix(&top).unwrap_or(path).to_owned();
        let directory = below(manifest.parent().context("a manifest without a directory")?);
        let targets = package["targets"].as_array().context("no targets")?;
        let is_kept = |target: &&serde_json::Value| {
            let kinds = target["kind"].as_array().into_iter().flatten();
            kinds.filter_map(|kind| kind.as_str()).any(|kind| kind == "bin" || kind.ends_with("lib"))
        };
        let sources = targets.iter().filter(is_kept).filter_map(|target| target["src_path"].as_str());
        let roots = sources.map(|source| below(Path::new(source))).collect();
        let dependencies = package["dependencies"].as_array().context("no dependencies")?;
        // `kind` is null for ordinary dependencies, else "dev" or "build".
        let real = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        let uses = real.filter_map(name_of).filter(|name| names.contains(name)).collect();
        packages.insert(name_of(package).context("no name")?, Package { directory, uses, roots });
    }
    Ok(packages)
}

fn parse_table(document: &str, names: &BTreeSet<&str>) -> Result<BTreeMap<String, Row>> {
    let mut rows = BTreeMap::new();
    let mut lines = document.lines().map(cells).skip_while(|cells| cells.first().is_none_or(|cell| cell != "crate"));
    let header = lines.next().context("no table whose header starts with `crate`")?;
    let column = |title: &str| {
        let found = header.iter().position(|cell| cell == title);
        found.with_context(|| format!("the table of crates has no column `{title}`"))
    };
    let (may_use, unsafety) = (column("may use")?, column("unsafe")?);
    for row in lines.skip(1).take_while(|cells| !cells.is_empty()) {
        let cell = |index: usize| row.get(index).with_context(|| format!("a row has too few cells: {row:?}"));
        let name = row[0].trim_matches('`').to_owned();
        let may_use = parse_uses(cell(may_use)?, names).with_context(|| name.clone())?;
        let unsafety = parse_unsafety(cell(unsafety)?).with_context(|| name.clone())?;
        ensure!(rows.insert(name.clone(), Row { may_use, unsafety }).is_none(), "{name} has two rows");
    }
    Ok(rows)
}

/// The cells of a line of a table; empty for any other line.
fn cells(line: &str) -> Vec<String> {
    match line.trim().strip_prefix('|') {
        Some(rest) => rest.trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect(),
        None => Vec::new(),
    }
}

fn parse_uses(cell: &str, names: &BTreeSet<&str>) -> Result<BTreeSet<String>> {
    let list = cell.split(';').next().unwrap_or_default().trim();
    if matches!(list, "" | "–" | "-" | "—") {
        return Ok(BTreeSet::new());
    }
    let word = |word: &str| {
        let word = word.trim().trim_matches('`');
        let full = [word.to_owned(), format!("weft-{word}")].into_iter().find(|name| names.contains(name.as_str()));
        full.with_context(|| format!("`may use` names {word:?}, which is not a crate of the workspace"))
    };
    list.split(',').map(word).collect()
}

fn parse_unsafety(cell: &str) -> Result<Unsafety> {
    let cell = cell.split(';').next().unwrap_or_default().trim();
    match cell {
        "forbidden" => return Ok(Unsafety::Forbidden),
        "everywhere" => return Ok(Unsafety::Everywhere),
        _ => {}
    }
    let paths: Vec<String> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    ensure!(!paths.is_empty(), "`unsafe` is {cell:?}: say forbidden, everywhere, or name files in backquotes");
    Ok(Unsafety::Only(paths))
}

fn check_unsafety(
    root: &Path,
    files: &[PathBuf],
    name: &str,
    package: &Package,
    unsafety: &Unsafety,
    findings: &mut Findings,
) -> Result<()> {
    let sources = package.directory.join("src");
    match unsafety {
        Unsafety::Everywhere => {}
        Unsafety::Forbidden => {
            let roots = ["lib.rs", "main.rs"].map(|file| sources.join(file));
            for file in roots.iter().filter(|file| root.join(file).exists()) {
                if !std::fs::read_to_string(root.join(file))?.contains("#![forbid(unsafe_code)]") {
                    findings.broken.push(format!("{}: {name} must have #![forbid(unsafe_code)]", file.display()));
                }
            }
        }
        Unsafety::Only(paths) => {
            for path in paths.iter().filter(|path| !root.join(&sources).join(path).exists()) {
                findings.broken.push(format!("{DOCUMENT}: {name} has no src/{path}"));
            }
            for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
                let Ok(inside) = file.strip_prefix(&sources) else { continue };
                if paths.iter().any(|path| inside.starts_with(path)) {
                    continue;
                }
                let text = std::fs::read_to_string(root.join(file))?;
                for (number, _) in text.lines().enumerate().filter(|(_, line)| says_unsafe(line)) {
                    let at = format!("{}:{}", file.display(), number + 1);
                    findings.broken.push(format!("{at}: unsafe code outside the places that {DOCUMENT} names"));
                }
            }
        }
    }
    Ok(())
}

/// Returns whether a line of Rust has the keyword `unsafe` in code. Comments do not count, nor attributes
/// that turn lints on, nor types of functions, which do nothing by themselves.
fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"');
    code.match_indices("unsafe").any(|(start, word)| {
        let (before, after) = (&code[..start], &code[start + word.len()..]);
        let is_type = after.starts_with(" extern \"C\" fn(");
        !is_part(before.chars().next_back()) && !is_part(after.chars().next()) && !is_type
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> BTreeSet<&'static str> {
        ["weft-core", "weft-net", "weft-mpi", "xtask"].into()
    }

    #[test]
    fn reads_the_table() {
        let document = "# Map\n\n| other | table |\n|---|---|\n| a | b |\n\n\
            | crate | role | may use | unsafe |\n|---|---|---|---|\n\
            | `weft-core` | pure | – ; no_std | forbidden |\n\
            | `weft-mpi` | objects | core, `weft-net` | `memory.rs`, `sys/` |\n\nText | with | bars\n";
        let rows = parse_table(document, &names()).expect("a good table");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows["weft-core"], Row { may_use: BTreeSet::new(), unsafety: Unsafety::Forbidden });
        assert_eq!(rows["weft-mpi"].may_use, ["weft-core".to_owned(), "weft-net".to_owned()].into());
        assert_eq!(rows["weft-mpi"].unsafety, Unsafety::Only(vec!["memory.rs".to_owned(), "sys/".to_owned()]));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let head = "| crate | may use | unsafe |\n|---|---|---|\n";
        for row in ["| `weft-mpi` | core and net | forbidden |", "| `weft-mpi` | core | one module |", "| `weft-mpi` |"]
        {
            assert!(parse_table(&format!("{head}{row}\n"), &names()).is_err(), "{row}");
        }
        assert!(parse_table("no table\n", &names()).is_err());
    }

    #[test]
    fn tells_the_keyword_from_words_that_contain_it() {
        assert!(says_unsafe("    unsafe { read() }"));
        assert!(says_unsafe("pub(crate) unsafe fn read()"));
        assert!(says_unsafe("pub unsafe extern \"C\" fn read()"));
        assert!(!says_unsafe("type Read = unsafe extern \"C\" fn(usize);"));
        assert!(!says_unsafe("// unsafe is not needed here"));
        assert!(!says_unsafe("#![forbid(unsafe_code)]"));
        assert!(!says_unsafe("let not_unsafe = 1;"));
    }
}
