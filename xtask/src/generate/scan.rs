//! Finds the implemented procedures by a scan of `crates/weft-abi/src/calls/`.

use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The implementations, by name (`comm_dup`).
pub(super) type Implemented = BTreeMap<String, Function>;

/// An implementation.
#[derive(Debug)]
pub(super) struct Function {
    /// The path of the function's module (`calls::communicators`).
    pub(super) module: String,
    /// Says whether the first parameter is `form`: the function then serves the blocking, the nonblocking and
    /// the persistent procedure.
    pub(super) takes_form: bool,
    /// Says whether the first parameter is `transfer`: the function then serves the blocking and the
    /// nonblocking access to a file, and gets the status or the request with it.
    pub(super) takes_transfer: bool,
    /// Says whether the function has parameters that stand for groups of arguments.
    pub(super) takes_groups: bool,
}

/// The types of such parameters, which are in `crates/weft-abi/src/arguments/parts.rs`.
const GROUPS: [&str; 4] = [": Part", ": Parts", ": TypedParts", ": Target"];

/// Finds every `pub(crate) [unsafe] fn NAME(` that starts a line of a file below `calls` and has one of the
/// `names`.
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
            let text = std::fs::read_to_string(&path)?;
            for (function, parameters) in functions(&text).filter(|(name, _)| names.contains(*name)) {
                let of_group = |parameter: &str| GROUPS.iter().any(|group| parameter.ends_with(group));
                let found = Function {
                    module: module.clone(),
                    takes_form: parameters.starts_with("form: Form,"),
                    takes_transfer: parameters.starts_with("transfer: Transfer,"),
                    takes_groups: parameters.split(',').any(of_group),
                };
                if let Some(other) = implemented.insert(function.to_owned(), found) {
                    bail!("{function} is in {} and in {module}: the generator cannot choose", other.module);
                }
            }
        }
    }
    Ok(())
}

/// The names and the parameters of the functions in a file.
fn functions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = text.match_indices("pub(crate) ").map(|(at, _)| at);
    starts.filter(|&at| at == 0 || text[..at].ends_with('\n')).filter_map(|at| {
        let rest = text[at..].strip_prefix("pub(crate) ")?;
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let parameters = rest[end..].trim_start_matches('(').trim_start();
        Some((&rest[..end], parameters.split_once(')').map_or(parameters, |(inside, _)| inside)))
    })
}

/// The name of a symbol's implementation: `MPI_Comm_dup` → `comm_dup`, `MPI_Send_c` → `send_c`.
pub(super) fn implementation_name(symbol: &str) -> String {
    symbol.trim_start_matches("MPIX_").trim_start_matches("MPI_").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn finds_functions_at_the_start_of_a_line_only() {
        let text = "pub(crate) unsafe fn send(\n    pub(crate) fn inner() {}\npub(crate) fn wtime() -> f64 {\nfn private() {}\n\
                    pub(crate) unsafe fn generic<T>(\n// pub(crate) fn comment(\npub(crate) struct X;\n\
                    pub(crate) unsafe fn bcast(\n    form: Form,\n    part: Part) -> Result<()> {";
        let found: Vec<_> = functions(text).collect();
        assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["send", "wtime", "generic", "bcast"]);
        assert_eq!((found[1].1, found[3].1), ("", "form: Form,\n    part: Part"));
    }
}
