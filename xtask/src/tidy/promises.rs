//! Counts the comments in the implementations of MPI's procedures that say why unsafe code is sound.
//!
//! Pointers that C hands over are made into values where they arrive (`crates/weft-abi/src/arguments.rs`), so
//! that few functions of `calls/` need a promise of their own. The number must not grow back; a change that
//! brings it down lowers the limit.

use super::Findings;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The folder whose files are counted.
const CALLS: &str = "crates/weft-abi/src/calls";
/// The most comments there that say why unsafe code is sound.
const PROMISES_MAX: usize = 58;

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let mut found = 0;
    for path in files.iter().filter(|path| path.starts_with(CALLS)) {
        found += count(&std::fs::read_to_string(root.join(path))?);
    }
    findings.broken.extend(judge(found));
    Ok(())
}

fn count(text: &str) -> usize {
    text.lines().filter(|line| line.trim_start().starts_with("// SAFETY:")).count()
}

fn judge(found: usize) -> Option<String> {
    let message = format!(
        "{CALLS} has {found} comments that begin with SAFETY, and may have {PROMISES_MAX}: let the generator make a value of what C hands over \
         (crates/weft-abi/src/arguments.rs)"
    );
    (found > PROMISES_MAX).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_counted_and_one_too_many_is_told() {
        assert_eq!(count("// SAFETY: a\n    // SAFETY: b\n// no SAFETY: here\n"), 2);
        assert_eq!(judge(PROMISES_MAX), None);
        assert!(judge(PROMISES_MAX + 1).is_some_and(|why| why.contains("may have")));
    }
}
