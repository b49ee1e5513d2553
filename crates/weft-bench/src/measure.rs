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
pub(crate) mod kind;
mod launch;
pub(crate) mod library;
pub(crate) mod output;
mod place;
mod process;
pub(crate) mod progress;
mod reached;
mod session;
mod verdict;
mod work;

use std::path::PathBuf;

pub(crate) use session::{Ended, Refused, Selection, run};
pub(crate) use work::Work;

/// The directory of fetched peers and built programs, which are worth keeping between runs.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || named("HOME").map(|home| home.join(".cache"));
    let directory = named("XDG_CACHE_HOME").or_else(home).map(|directory| directory.join("weft"));
    // Programs in the directory are run, so it must not be a place where others may write, such as /tmp.
    directory.ok_or_else(|| {
        "there is no place for the programs that are built: neither HOME nor XDG_CACHE_HOME is an absolute path; set one of them".into()
    })
}
