//! `cargo xtask tidy`: the house rules that a program can check.
//!
//! - the arrows between crates in ARCHITECTURE.md are those of `cargo metadata`, and unsafe code is where it
//!   says;
//! - the functions of the journeys in ARCHITECTURE.md are there, and their calls only go downwards;
//! - weft-core builds without std;
//! - the implementations of MPI's procedures need few promises of their own;
//! - imports within a crate are without circles, on all levels;
//! - the parts of the engine do not name the rest of it, which they reach through a link;
//! - text: no forgotten marks, no stray white space, generated files have their marker;
//! - the chapters of docs/design name places that are in the code, and stand in their index;
//! - comments name no file that is not there;
//! - links of Markdown files lead to files and headings that are there, and each chart is shown by a page;
//! - lines of prose, in comments and in Markdown, have at most 110 characters;
//! - the glossary names files that are there, and words that stand in them;
//! - the sections of the standard that are cited are there, and procedures where the boundary says;
//! - the numbers of README.md are those of docs/status.md and of docs/performance-amd.md.
//!
//! A rule that is broken fails the command; a file that has grown long is only mentioned.

mod arrows;
mod chapters;
mod circles;
mod core;
mod fields;
mod glossary;
mod journeys;
mod lines;
mod links;
mod mentions;
mod parts;
mod promises;
mod readme;
mod sections;
mod text;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask tidy [--circles CRATE [ROOM ROOM] | --fields [FOLDER STRUCTURE]]";

/// The findings: broken rules, and remarks that do not fail.
#[derive(Default)]
struct Findings {
    broken: Vec<String>,
    remarks: Vec<String>,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let root = crate::generate::project_root();
    let files = project_files(&root)?;
    match arguments.split_first() {
        None => {}
        Some((first, rest)) if first == "--circles" => return circles::show(&root, rest),
        Some((first, rest)) if first == "--fields" => {
            let [folder, structure] = match rest {
                [] => fields::USUAL,
                [folder, structure] => [folder.as_str(), structure.as_str()],
                _ => bail!("{USAGE}"),
            };
            return fields::show(&root, &files, folder, structure);
        }
        Some(_) => bail!("{USAGE}"),
    }
    let mut findings = Findings::default();
    text::check(&root, &files, &mut findings)?;
    chapters::check(&root, &files, &mut findings)?;
    mentions::check(&root, &files, &mut findings)?;
    links::check(&root, &files, &mut findings)?;
    lines::check(&root, &files, &mut findings)?;
    glossary::check(&root, &files, &mut findings)?;
    readme::check(&root, &mut findings)?;
    sections::check(&root, &files, &mut findings)?;
    arrows::check(&root, &files, &mut findings)?;
    journeys::check(&root, &mut findings)?;
    promises::check(&root, &files, &mut findings)?;
    parts::check(&root, &files, &mut findings)?;
    circles::check(&root, &mut findings)?;
    core::check(&root, &mut findings)?;
    for remark in &findings.remarks {
        println!("remark: {remark}");
    }
    for broken in &findings.broken {
        eprintln!("{broken}");
    }
    match findings.broken.len() {
        0 => Ok(()),
        count => bail!("{count} house rules broken"),
    }
}

/// The files of the project, tracked or about to be; paths from its top.
fn project_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(root).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    }
    let list = String::from_utf8(output.stdout)?;
    let files = list.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // A deleted file is in git's list until the deletion is committed.
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}
