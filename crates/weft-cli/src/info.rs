//! `weft info`: shows what is built in, what this machine offers, what a program would use and why, and every
//! setting.
//!
//! This module makes no decisions: it asks for addresses, directories, limits and settings from the code that
//! a rank would run.

pub(crate) mod amounts;
mod choices;
pub(crate) mod library;
mod links;
mod live;
pub(crate) mod machine;
pub(crate) mod text;
mod travel;
mod variables;

use std::process::ExitCode;

use serde::Serialize;
use weft_mpi::engine::protocols::{CostModel, Explained};
use weft_mpi::settings::{COSTS, Said, Settings};
use weft_net::shared;

use crate::version;

/// The arguments of `weft info`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A program or a shared object: say only which MPI library it wants, and which one it gets from mpiexec
    #[arg(value_name = "PROGRAM", conflicts_with_all = ["json", "live", "collectives", "costs"])]
    program: Option<std::ffi::OsString>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Show ranks that run on this host: those below the process PID (mpiexec, an agent, the rank itself), or
    /// all of yours
    #[arg(long, value_name = "PID", num_args = 0..=1)]
    live: Option<Option<u32>>,
    /// With --live: show them once instead of again and again
    #[arg(long, requires = "live")]
    once: bool,
    /// Print the table by which algorithms of collectives are chosen: with changes, it is one for
    /// WEFT_COLLECTIVES_TABLE
    #[arg(long)]
    collectives: bool,
    /// Print what parts of moving a message cost, by which protocols are chosen: with changes, it is a file
    /// for WEFT_COSTS
    #[arg(long)]
    costs: bool,
    /// Say by the exit code whether this process may copy from the memory of that one
    #[arg(long, hide = true, value_name = "PID")]
    copy_from: Option<i32>,
}

/// The content of the page.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    weft: Weft,
    library: library::Library,
    machine: machine::Machine,
    links: Vec<links::Link>,
    addresses: links::Addresses,
    memory: links::Memory,
    /// The ways of messages, by kind of peer and situation.
    messages: Vec<travel::Journey>,
    /// The protocols, their costs, and the sizes that follow from the costs.
    protocols: travel::Protocols,
    /// The algorithms of collectives among 8 processes, each on a node of its own.
    collectives: Vec<choices::Choice>,
    settings: Vec<variables::Row>,
    /// Variables that look like settings but are not, each with a sentence.
    unknown_variables: Vec<String>,
    /// The reason why a program would stop in `MPI_Init`: a setting that makes no sense.
    wrong_setting: Option<String>,
}

#[derive(Debug, Serialize)]
struct Weft {
    version: &'static str,
    /// The commit that was built.
    commit: &'static str,
    /// The version of `MPI_Get_version`.
    mpi_standard: String,
    /// The version of `MPI_Abi_get_version`.
    abi: String,
    /// The path of this command's file.
    command: String,
}

/// Collects the information and prints it. The exit code is 1 when programs would not start: a wrong setting,
/// no library, no address.
pub(crate) fn run(options: &Options) -> ExitCode {
    if let Some(program) = &options.program {
        return crate::program::info(program);
    }
    if let Some(pid) = options.copy_from {
        return ExitCode::from(machine::copy_from(pid));
    }
    if let Some(below) = options.live {
        return live::run(below, options.json, options.once);
    }
    if options.collectives {
        weft_bench::out::write(format_args!("{}", weft_mpi::algorithms::choice::BUILT_IN));
        return ExitCode::SUCCESS;
    }
    if options.costs {
        return costs();
    }
    let info = collect();
    let written = if options.json {
        serde_json::to_string_pretty(&info).map(|text| text + "\n").unwrap_or_default()
    } else {
        text::page(&info, text::Style::of_output())
    };
    weft_bench::out::write(format_args!("{written}"));
    ExitCode::from(u8::from(!info.is_usable()))
}

/// Prints the costs that are in effect here.
fn costs() -> ExitCode {
    match Said::here().and_then(|said| said.settings(|_| None)) {
        Ok(settings) => crate::out::write(format_args!("{}", Explained(&costs_here(&settings).0))),
        Err(sentence) => {
            crate::out::say!("weft info: {sentence}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The costs that are in effect here, and their source.
fn costs_here(settings: &Settings) -> (CostModel, String) {
    if let Some(costs) = settings.costs {
        let said = Said::here().ok().and_then(|said| said.value(COSTS.name)).unwrap_or_default();
        return (costs, format!("{}={said}", COSTS.name));
    }
    let shared = shared::Settings { directory: settings.shm_dir.clone(), ..shared::Settings::default() };
    match shared::kept_costs(&shared) {
        Some(kept) => (kept.costs, format!("{}, {}", shared::origin(kept.measurements), kept.path.display())),
        None => (CostModel::BUILT_IN, "built in, until a job with two ranks on this host measures them".to_owned()),
    }
}

fn collect() -> Info {
    // Without the files the rest of the page is that of the environment alone.
    let (said, unread) = match Said::here() {
        Ok(said) => (said.clone(), None),
        Err(sentence) => (Said::default(), Some(sentence)),
    };
    let read = unread.map_or_else(|| said.settings(|_| None), Err);
    let settings = read.clone().unwrap_or_else(|_| Settings::read(|_| None).expect("the defaults make sense"));
    let machine = machine::Machine::here(settings.shm_dir.as_deref());
    let addresses = links::Addresses::of(&settings);
    let links = links::all(&settings, &machine, &addresses);
    let (costs, origin) = costs_here(&settings);
    let here = travel::Here::of(&settings, costs, &machine, &links, &addresses);
    let (mpi_standard, abi) = version::standards();
    Info {
        weft: Weft {
            version: env!("CARGO_PKG_VERSION"),
            commit: version::COMMIT,
            mpi_standard,
            abi,
            command: std::env::current_exe().map_or_else(|_| "?".into(), |path| path.display().to_string()),
        },
        library: library::Library::find(),
        messages: travel::journeys(&here),
        protocols: travel::protocols(&here, origin),
        links,
        memory: links::Memory::of(&settings, &machine, &addresses),
        addresses,
        machine,
        collectives: choices::all(&settings.choices, 8),
        settings: variables::rows(|setting| said.with_origin(setting)),
        unknown_variables: said.unknown(),
        wrong_setting: read.err(),
    }
}

impl Info {
    fn is_usable(&self) -> bool {
        self.wrong_setting.is_none() && self.library.fault.is_none() && self.links.iter().any(|link| link.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_object_have_every_setting_and_every_link() {
        let info = collect();
        let page = text::page(&info, text::Style::Plain);
        let object = serde_json::to_value(&info).unwrap();
        for setting in weft_mpi::settings::TABLE {
            assert!(page.contains(setting.name), "{page}");
        }
        for (name, _) in weft_mpi::settings::LINKS {
            assert!(page.contains(name) && object["links"].to_string().contains(name));
        }
        assert!(!page.contains('\x1b'), "plain text has no colour");
        assert_eq!(object["weft"]["mpi_standard"], "5.0");
    }

    #[test]
    fn every_address_is_offered_or_has_a_reason() {
        let addresses = collect().addresses;
        assert!(!addresses.list.is_empty(), "every machine has loopback");
        assert!(addresses.list.iter().all(|address| address.offered == address.why.is_empty()));
    }
}
