//! `docs/status.md`: which procedures are implemented.

use super::scan::{Implemented, implementation_name};
use super::spec::{Procedure, Spec};
use std::fmt::Write as _;

/// A procedure is implemented when the C boundary calls something: its own function, or the one of the procedure that
/// it is another name of.
fn is_implemented(implemented: &Implemented, procedure: &Procedure) -> bool {
    let source = procedure.same_as.as_ref().unwrap_or(&procedure.name);
    implemented.contains_key(&implementation_name(source))
}

pub(super) fn status(spec: &Spec, implemented: &Implemented) -> String {
    write_status(spec, implemented).expect("writing to a string cannot fail")
}

fn write_status(spec: &Spec, implemented: &Implemented) -> Result<String, std::fmt::Error> {
    let all = spec.procedures().count();
    let done = spec.procedures().filter(|procedure| is_implemented(implemented, procedure)).count();
    let mut out = format!(
        "<!-- {} from spec/ and crates/weft-abi/src/calls/; do not edit. -->\n\n# What is implemented\n\n\
         Weft exports every procedure of MPI 5.0. {done} of {all} procedures are implemented; the others return \
         `MPI_ERR_UNSUPPORTED_OPERATION` through the error handler.\n\
         A procedure's large-count form (`_c`) is implemented with it.\n\n\
         | chapter | implemented | of |\n|---|---:|---:|\n",
        super::MARKER
    );
    let chapters = || spec.chapters.iter().filter(|chapter| chapter.procedures.iter().any(|p| !p.callback));
    for chapter in chapters() {
        let count = chapter.procedures.iter().filter(|p| is_implemented(implemented, p)).count();
        writeln!(out, "| {}. {} | {count} | {} |", chapter.number, chapter.title, chapter.procedures.len())?;
    }
    writeln!(out, "| all | {done} | {all} |")?;
    for chapter in chapters() {
        writeln!(out, "\n## {}. {}", chapter.number, chapter.title)?;
        let (yes, no): (Vec<_>, Vec<_>) = chapter.procedures.iter().partition(|p| is_implemented(implemented, p));
        for (title, list) in [("Implemented", yes), ("Not yet", no)] {
            if !list.is_empty() {
                let names: Vec<String> = list.iter().map(|p| format!("`{}`", p.name)).collect();
                writeln!(out, "\n{title}: {}", names.join(", "))?;
            }
        }
    }
    Ok(out)
}
