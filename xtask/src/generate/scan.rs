//! Which procedures are implemented: a scan of `crates/weft-abi/src/calls/`.

use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Name of an implementation (`comm_dup`) → path of its module (`calls::communicators`).
pub(super) type Implemented = BTreeMap<String, String>;

/// Every `pub(crate) [unsafe] fn NAME(` that starts a line of a file below `calls` and has one of the `names`.
pub(super) fn scan(calls: &Path, names: &BTreeSet<String>) -> Result<Implemented> {
    let mut implemented = Implemented::new();
    if calls.is_dir() {
        scan_directory(calls, "calls", names, &mut implemented)?;
    }
    Ok(implemented)
}

fn scan_directory(
    directory: &Path,
    module: &str,
    names: &BTreeSet<String>,
    implemented: &mut Implemented,
) -> Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(directory)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            scan_directory(&path, &format!("{module}::{name}"), names, implemented)?;
        } else if let Some(stem) = name.strip_suffix(".rs") {
            let module = if stem == "mod" { module.to_owned() } else { format!("{module}::{stem}") };
            for function in functions(&std::fs::read_to_string(&path)?).filter(|name| names.contains(*name)) {
                if let Some(other) = implemented.insert(function.to_owned(), module.clone()) {
                    bail!("{function} is in {other} and in {module}: the generator cannot choose");
                }
            }
        }
    }
    Ok(())
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub(crate) ")?;
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        Some(&rest[..end])
    })
}

/// `MPI_Comm_dup` → `comm_dup`, `MPI_Send_c` → `send_c`.
pub(super) fn implementation_name(symbol: &str) -> String {
    symbol.strip_prefix("MPI_").unwrap_or(symbol).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn finds_functions_at_the_start_of_a_line_only() {
        let text = "pub(crate) unsafe fn send(\n    pub(crate) fn inner() {}\npub(crate) fn wtime() -> f64 {\nfn private() {}\n\
                    pub(crate) unsafe fn generic<T>(\n// pub(crate) fn comment(\npub(crate) struct X;";
        assert_eq!(functions(text).collect::<Vec<_>>(), ["send", "wtime", "generic"]);
    }
}
