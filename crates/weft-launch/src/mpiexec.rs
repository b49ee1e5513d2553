//! The program `mpiexec`: from a command line to a job that has ended.

mod advice;
mod allocation;
mod binding;
mod console;
mod debugger;
mod environment;
mod family;
mod help;
mod job;
mod options;
mod plan;
mod reach;
mod run;
mod settings;
mod spawned;
mod standings;
mod start;
pub(crate) mod stats;
mod survey;
mod table;
mod tree;
mod variables;
mod verdict;

pub use debugger::Debugger;
pub use help::{Manual, ManualRow, ManualSection, manual};
pub use run::output;

use crate::reach::RemoteShell;
use options::Request;
pub(crate) use options::largest;
use std::cell::OnceCell;
use std::ffi::OsString;
pub(crate) use table::SINGLETON_OPTION;

/// The hosts of an allocation of a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocated {
    /// The names of the hosts.
    pub hosts: Vec<String>,
    /// The command template by which the batch system starts a program on a host; `None`: it has none that
    /// takes these names, or the program for it is not here.
    pub template: Option<String>,
}

/// The allocation of the batch system in which this process runs; `None` where there is none.
///
/// # Errors
/// One sentence about the variable, file or program that is wrong.
pub fn allocated() -> Result<Option<Allocated>, String> {
    let Some(allocation) = allocation::of_environment(&RemoteShell::default())? else { return Ok(None) };
    let own = crate::reach::own_name();
    let takes_names = allocation.hosts.iter().all(|host| host.reached_as.is_none() || host.name == own);
    let template = allocation.agent.filter(|_| takes_names);
    Ok(Some(Allocated { hosts: allocation.hosts.into_iter().map(|host| host.name).collect(), template }))
}

/// Runs `mpiexec` with these arguments (without the program's own name) and returns its exit status.
/// `debugger` is told of the job.
pub fn run(arguments: Vec<OsString>, debugger: &'static dyn Debugger) -> i32 {
    crate::sys::expect_full_files();
    debugger::use_debugger(debugger);
    // Help needs no files.
    let defaults = OnceCell::new();
    let read = || defaults.get_or_init(options::defaults);
    let in_files = |name: &str| Some(read().as_ref().ok()?.find(name)?.value.clone().into());
    match options::parse(arguments, &|name| std::env::var_os(name).or_else(|| in_files(name))) {
        Ok(Request::Help) => {
            crate::print(&help::text());
            0
        }
        Ok(Request::Version) => {
            crate::print(&format!("mpiexec (Weft) {}\n", env!("CARGO_PKG_VERSION")));
            0
        }
        Ok(Request::Agent) => crate::agent::serve_remote(),
        Ok(Request::Spawned(descriptor)) => start::spawned(descriptor),
        Ok(Request::Singleton(descriptor, pid)) => start::for_singleton(descriptor, pid),
        Ok(Request::Run(mut settings)) => match read()
            .clone()
            .map(|defaults| settings.hand_on(&defaults))
            .and_then(|()| plan::make(*settings))
            .and_then(job::run)
        {
            Ok(status) => status,
            Err(text) => complain(&text),
        },
        Err(text) => complain(&text),
    }
}

fn complain(text: &str) -> i32 {
    crate::say(&format!("mpiexec: {text}"));
    verdict::STATUS_USAGE
}
