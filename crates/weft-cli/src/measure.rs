//! Running measurements: the same programs under several MPI libraries, in turn, in the same places.
//!
//! ```text
//! arguments ─ catalogue, library, place ─ build ─┐
//!                                                session ─ launch · carrier ─ process ─ run file
//!                     fetch (peers, on request) ─┘
//! ```
//!
//! A session knows no statistics: it writes what programs printed, and how each of them ended.

pub(crate) mod arguments;
pub(crate) mod build;
mod carrier;
pub(crate) mod catalogue;
mod condition;
mod fetch;
mod launch;
pub(crate) mod library;
pub(crate) mod output;
mod place;
mod process;
pub(crate) mod progress;
mod session;
mod verdict;

use std::path::PathBuf;

pub(crate) use session::{Ended, Refused, Wanted, run};

/// Where what is worth keeping between runs lies: fetched peers and built programs.
pub(crate) fn cache() -> PathBuf {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || named("HOME").map(|home| home.join(".cache"));
    named("XDG_CACHE_HOME").or_else(home).unwrap_or_else(std::env::temp_dir).join("weft")
}
