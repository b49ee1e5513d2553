//! The bytes that a file and the memory of processes may have after a collective access.

use std::collections::BTreeSet;

use super::Program;
use crate::violation::Violation;

/// The byte of the process `rank` at the place `at` of its data: never that of its neighbour.
pub(super) fn byte(rank: usize, at: u64) -> u8 {
    (at.wrapping_mul(37) as u8).wrapping_add(rank as u8 * 29 + 1)
}

/// Checks the bytes of the file after a write. `all_said_well`: no process has had an error.
pub(super) fn check_file(program: &Program, after: &[u8], all_said_well: bool) -> Result<(), Violation> {
    let mut writers: Vec<BTreeSet<u8>> = vec![BTreeSet::new(); after.len()];
    let mut end = program.before.len() as u64;
    for (rank, part) in program.parts.iter().enumerate() {
        let mut at = 0;
        let mut wrong = None;
        part.view.runs(part.data.clone(), &mut |offset, bytes| {
            for place in offset..offset + bytes {
                match writers.get_mut(place as usize) {
                    Some(of) => _ = of.insert(byte(rank, at)),
                    None => wrong = wrong.or(Some(place)),
                }
                at += 1;
            }
            end = end.max(offset + bytes);
        });
        if let Some(place) = wrong.filter(|_| all_said_well) {
            return Err(Violation(format!("byte {place} of rank {rank} is past the end of the file")));
        }
    }
    if after.len() as u64 > end {
        return Err(Violation(format!("the file has {} bytes, and nobody wrote past {end}", after.len())));
    }
    for (place, (found, of)) in after.iter().zip(&writers).enumerate() {
        let before = program.before.get(place).copied().unwrap_or(0);
        // What was written where, when a process has failed, nobody can tell.
        let is_right =
            if of.is_empty() { *found == before } else { of.contains(found) || (!all_said_well && *found == before) };
        if !is_right {
            return Err(Violation(format!("byte {place} of the file is {found}; {before} before, written: {of:?}")));
        }
    }
    Ok(())
}

/// Checks what the process `rank` has got by a read, and how many bytes it was told.
pub(super) fn check_memory(program: &Program, rank: usize, got: &[u8], bytes: u64) -> Result<(), Violation> {
    let part = &program.parts[rank];
    let wrong = |what: String| Err(Violation(format!("rank {rank}: {what}")));
    let mut expected = Vec::new();
    let mut is_over = false;
    part.view.runs(part.data.clone(), &mut |offset, run| {
        for place in offset..offset + run {
            match program.before.get(place as usize) {
                Some(byte) if !is_over => expected.push(*byte),
                _ => is_over = true,
            }
        }
    });
    if bytes != expected.len() as u64 {
        return wrong(format!("{bytes} bytes were read; {} are there", expected.len()));
    }
    match expected.iter().zip(got).position(|(expected, got)| expected != got) {
        Some(at) => wrong(format!("byte {at} of the data is {}, not {}", got[at], expected[at])),
        // Memory behind the data stays as it was.
        None => match got[expected.len()..].iter().position(|byte| *byte != 0) {
            Some(at) => wrong(format!("memory was written {at} bytes past the data that is there")),
            None => Ok(()),
        },
    }
}
