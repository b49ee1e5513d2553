//! The program `mpiexec`: from a command line to a job that has ended.

mod allocation;
mod binding;
mod console;
mod debugger;
mod environment;
mod help;
mod job;
mod options;
mod plan;
mod reach;
mod settings;
mod standings;
pub(crate) mod stats;
mod survey;
mod table;
mod verdict;

pub use debugger::Debugger;

use options::Request;
use std::ffi::OsString;

/// Runs `mpiexec` with these arguments (without the program's own name) and returns its exit status.
/// `debugger` is told of the job.
pub fn run(arguments: Vec<OsString>, debugger: &'static dyn Debugger) -> i32 {
    crate::sys::expect_full_files();
    debugger::use_debugger(debugger);
    match options::parse(arguments, &|name| std::env::var_os(name)) {
        Ok(Request::Help) => {
            crate::print(&help::text());
            0
        }
        Ok(Request::Version) => {
            crate::print(&format!("mpiexec (Weft) {}\n", env!("CARGO_PKG_VERSION")));
            0
        }
        Ok(Request::Agent) => crate::agent::serve_remote(),
        Ok(Request::Run(settings)) => match plan::make(*settings).and_then(job::run) {
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
