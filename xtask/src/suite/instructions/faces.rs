//! Counts the instructions that the library for programs of another MPI's ABI adds to a call.
//!
//! The program is the one that counts the library's own instructions, compiled with the other MPI's wrapper.
//! Callgrind says for each instruction which file it is from: those of the face are added. The program of the
//! standard's ABI is counted in the same run, because all others must be as many in both. Where a face calls
//! other functions of the library than such a program, what those take more is added, too.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Context as _;

use super::super::context::Context;
use super::super::faces::{Face, compile};
use super::LIMIT;
use super::count::{self, Count, Mode, Place};

/// The calls that are counted: at the first rank, and at the second.
pub(super) const CALLS: [(Mode, [&str; 2]); 4] = [
    (Mode::Blocking, ["MPI_Send", "MPI_Recv"]),
    (Mode::Statuses, ["MPI_Send on a communicator of the program", "MPI_Recv there with a status"]),
    (Mode::Single, ["MPI_Isend and MPI_Wait", "MPI_Irecv and MPI_Wait"]),
    (Mode::Completion, ["MPI_Waitall of 64 sends, a request", "MPI_Waitall of 64 receives, a request"]),
];

/// All counts: of each face, for each pair of calls.
pub(super) fn kinds() -> impl Iterator<Item = (Face, usize)> {
    Face::ALL.into_iter().flat_map(|face| (0..CALLS.len()).map(move |calls| (face, calls)))
}

/// Counts the calls of this index in [`CALLS`].
///
/// # Errors
/// A program does not build, fails, or needs other instructions of the library itself.
pub(super) fn count(context: &Context, face: Face, calls: usize) -> anyhow::Result<[Count; 2]> {
    let (mode, sides) = CALLS[calls];
    let run = |program: PathBuf, abi: &str| {
        let directory = format!("{abi}-{}", mode.name());
        count::profiles(context, Place::Node, mode, &program, &directory)?.context("a node was not there")
    };
    let native = run(count::build(context)?, "standard")?;
    let other = run(compile(context, face, count::SOURCE, "", &["-O2", "-g"])?, face.word())?;
    let side = |rank: usize| {
        let [alone, _] = count::per_message(&native[rank])?;
        let [all, _] = count::per_message(&other[rank])?;
        let of_face = other[rank].iter().map(|profile| of_file(profile, face.library()));
        let of_face = of_face.collect::<anyhow::Result<Vec<u64>>>()?;
        let of_face = count::median(&of_face) as f64 / count::MESSAGES as f64;
        let others = all - of_face;
        // The library has functions of its own for requests and statuses of MPICH's ABI. What those take more
        // is counted, too.
        let is_own = matches!(mode, Mode::Blocking | Mode::Single | Mode::Statuses);
        let of_library = if is_own { (others - alone).max(0.0) } else { 0.0 };
        let instructions = of_face + of_library;
        anyhow::ensure!(
            others <= alone * LIMIT && alone <= others * LIMIT,
            "{}, {}: {others:.0} instructions outside of {}, and {alone:.0} by the standard's ABI",
            face.name(),
            sides[rank],
            face.library()
        );
        let (place, mode, side) = (face.name().to_owned(), mode.name().to_owned(), sides[rank].to_owned());
        Ok(Count { place, mode, side, instructions, system_calls: 0.0 })
    };
    Ok([side(0)?, side(1)?])
}

/// The C compiler that made the installed face, as notes in the library say.
///
/// # Errors
/// There is no library, or no such note.
pub(super) fn compiler(context: &Context, face: Face) -> anyhow::Result<String> {
    let library = face.file(context);
    let bytes = std::fs::read(&library).with_context(|| library.display().to_string())?;
    noted_compiler(&bytes).with_context(|| format!("{} does not say which compiler made it", library.display()))
}

/// The first compiler that a library notes, if several made parts of it: clang before GCC, which made the
/// parts of the C library.
fn noted_compiler(library: &[u8]) -> Option<String> {
    let note = |name: &[u8]| {
        let start = library.windows(name.len()).position(|window| window == name)?;
        let rest = &library[start..];
        Some(String::from_utf8_lossy(&rest[..rest.iter().position(|byte| *byte == 0)?]).into_owned())
    };
    note(b"clang version ").or_else(|| note(b"GCC: ("))
}

/// The instructions of a file in a profile, without those of the functions that it calls.
///
/// # Errors
/// The profile has another form than expected.
pub(in crate::suite) fn of_file(profile: &str, file: &str) -> anyhow::Result<u64> {
    let mut names: HashMap<&str, bool> = HashMap::new();
    let (mut is_here, mut is_call, mut sum) = (false, false, 0);
    for line in profile.lines() {
        let object = line.strip_prefix("ob=").or_else(|| line.strip_prefix("cob="));
        if let Some(object) = object {
            // A number stands for a name, which follows where it occurs first.
            let (number, name) = object.split_once(' ').unwrap_or((object, ""));
            let found = *names.entry(number).or_insert_with(|| name.rsplit('/').next() == Some(file));
            if line.starts_with("ob=") {
                is_here = found;
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            // The line of source, then the instructions.
            let cost = line.split(' ').nth(1).context("a line without a cost")?;
            if !std::mem::take(&mut is_call) && is_here {
                sum += cost.parse::<u64>().context("a cost that is no number")?;
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::instructions::{TABLE, Table};

    const PROFILE: &str = "version: 1\npositions: line\nevents: Ir sysCount\n\nob=(1) /program\nfn=(1) counted\n10 3\n\
        cob=(2) /lib/libmpi.so.12\ncfn=(2) MPI_Send\ncalls=1 0\n+1 500\n* 2\n\nob=(2)\nfn=(2)\n0 12\ncob=(3) /lib/libmpi_abi.so.1\n\
        cfn=(3) send\ncalls=1 0\n0 488\n-2 1\n\nob=(3)\nfn=(3)\n0 488\ntotals: 506\n";

    #[test]
    fn calls_are_not_of_the_file_that_makes_them() {
        assert_eq!(of_file(PROFILE, "libmpi.so.12").unwrap(), 13);
        assert_eq!(of_file(PROFILE, "program").unwrap(), 5);
        assert_eq!(of_file(PROFILE, "libmpi.so.40").unwrap(), 0);
        assert!(of_file("ob=(1) /program\nfn=(1) f\n10\n", "program").is_err());
    }

    #[test]
    fn the_compiler_of_the_sources_is_named() {
        assert_eq!(noted_compiler(b"\0GCC: (Debian 12) 12.2.0\0").unwrap(), "GCC: (Debian 12) 12.2.0");
        assert_eq!(noted_compiler(b"\0GCC: (D) 12\0clang version 19.1\0").unwrap(), "clang version 19.1");
        assert_eq!(noted_compiler(b"GCC: (D) 12"), None);
    }

    /// Expect: the page says the counts of the table, each rounded to a whole number.
    #[test]
    fn the_book_says_the_counts_of_the_table() {
        let root = crate::generate::project_root();
        let page = std::fs::read_to_string(root.join("docs/book/faces.md")).unwrap();
        let table = Table::read(&root.join(TABLE)).unwrap();
        for call in CALLS.iter().flat_map(|(_, sides)| sides) {
            let of = |face: Face| {
                let count = table.counts.iter().find(|count| count.place == face.name() && count.side == *call);
                format!("{:.0}", count.unwrap_or_else(|| panic!("no count of {call} in {}", face.name())).instructions)
            };
            let row = format!("| {} | {} | {} |", call.replace("MPI_", "`MPI_"), of(Face::Mpich), of(Face::OpenMpi));
            let plain = page.replace("`", "");
            assert!(plain.contains(&row.replace('`', "")), "docs/book/faces.md has no row: {row}");
        }
    }
}
