//! Generates `docs/status.md`: the list of implemented procedures.

use super::rust::implementation;
use super::scan::Implemented;
use super::spec::{Chapter, Form, Procedure, Spec, Standing};
use std::fmt::Write as _;

/// The longest line, in characters.
const WIDTH: usize = 110;

/// The progress of a procedure: implemented in all its forms, in some, or in none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    All,
    Some,
    None,
}

/// The progress of a procedure: a form is implemented when its function in the C boundary calls an
/// implementation.
fn progress(spec: &Spec, implemented: &Implemented, procedure: &Procedure) -> Progress {
    let source = procedure.same_as.as_ref().and_then(|(base, _)| spec.procedure(base).ok()).unwrap_or(procedure);
    let has = |form: &Form| implementation(implemented, source, *form).is_some();
    match (source.forms().iter().all(has), source.forms().iter().any(has)) {
        (true, _) => Progress::All,
        (_, true) => Progress::Some,
        _ => Progress::None,
    }
}

/// Breaks a paragraph at its blanks into lines of at most [`WIDTH`] characters.
fn broken(paragraph: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split(' ') {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= WIDTH) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

pub(super) fn status(spec: &Spec, implemented: &Implemented) -> String {
    write_status(spec, implemented).expect("writing to a string cannot fail")
}

fn write_status(spec: &Spec, implemented: &Implemented) -> Result<String, std::fmt::Error> {
    let chapters = || {
        let is_listed = |chapter: &&Chapter| {
            chapter.standing == Standing::Standard && chapter.procedures.iter().any(|p| !p.callback)
        };
        spec.chapters.iter().filter(is_listed)
    };
    let all = chapters().map(|chapter| chapter.procedures.len()).sum::<usize>();
    let is_done = |procedure: &&Procedure| progress(spec, implemented, procedure) == Progress::All;
    let done = chapters().flat_map(|chapter| &chapter.procedures).filter(is_done).count();
    let mut out = format!(
        "<!-- {} from spec/ and crates/weft-abi/src/calls/; do not edit. -->\n\n# What is implemented\n\n\
         Weft exports every procedure of MPI 5.0. {done} of {all} procedures are implemented.\n\
         A procedure counts as implemented together with its large-count form (`_c`).\n\n\
         | chapter | implemented | of |\n|---|---:|---:|\n",
        super::MARKER
    );
    for chapter in chapters() {
        let count = chapter.procedures.iter().filter(is_done).count();
        writeln!(out, "| {}. {} | {count} | {} |", chapter.number, chapter.title, chapter.procedures.len())?;
    }
    writeln!(out, "| all | {done} | {all} |")?;
    for chapter in chapters() {
        writeln!(out, "\n## {}. {}", chapter.number, chapter.title)?;
        let lists = [("Implemented", Progress::All), ("Only in one form", Progress::Some), ("Not yet", Progress::None)];
        for (title, wanted) in lists {
            let list = chapter.procedures.iter().filter(|p| progress(spec, implemented, p) == wanted);
            let names: Vec<String> = list.map(|procedure| format!("`{}`", procedure.name)).collect();
            if !names.is_empty() {
                writeln!(out, "\n{}", broken(&format!("{title}: {}", names.join(", "))))?;
            }
        }
    }
    Ok(out)
}
