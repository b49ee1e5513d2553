//! Makes a plan from the settings: the ranks that each host's agent starts, and their programs.

use super::allocation::{self, Allocation};
use super::environment;
use super::settings::{Block, Loudness, RANKS_MAX, Settings};
use crate::control::{Binding, Heartbeat, InputTo, Label, Plan, Program};
use crate::hosts::{self, Host};
use crate::reach::{self, RemoteShell};
use crate::{JobSecret, sys, wire};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// The factor by which an agent waits longer for a silent `mpiexec` than `mpiexec` for a silent host. So
/// `mpiexec` gives up first, and can tell the user why.
const AGENT_PATIENCE: u64 = 4;

/// A job that is ready to be started.
pub(crate) struct Job {
    pub(crate) settings: Settings,
    /// The command template for hosts that are not this one.
    pub(crate) template: String,
    /// The parts of all hosts that have ranks.
    pub(crate) shares: Vec<Share>,
    /// The index into `shares` of every rank.
    pub(crate) share_of_rank: Vec<usize>,
    pub(crate) size: u32,
    /// The hosts that were named; empty: none, so the job is on this host.
    pub(crate) hosts: Vec<Host>,
}

impl Job {
    /// A job without ranks, which exists for the jobs that its family spawns.
    pub(crate) fn without_ranks(settings: Settings) -> Self {
        let template = settings.remote_shell.template();
        Self { settings, template, shares: Vec::new(), share_of_rank: Vec::new(), size: 0, hosts: Vec::new() }
    }
}

/// The part of one host in the job.
pub(crate) struct Share {
    pub(crate) host: String,
    /// The name by which the agent's command reaches the host, where it is another one.
    pub(crate) reached_as: Option<String>,
    pub(crate) remote: bool,
    pub(crate) plan: Plan,
}

/// Makes the plan of a job: places all ranks on hosts.
///
/// # Errors
/// One sentence with the reason why not.
pub(crate) fn make(mut settings: Settings) -> Result<Job, String> {
    let own_name = reach::own_name();
    let full_name = reach::full_name();
    let mut all = Vec::new();
    for host in &settings.hosts {
        hosts::add(&mut all, host.clone());
    }
    if all.is_empty() {
        // Without a list for all, programs without their own hosts use those of the others.
        for host in settings.blocks.iter().flat_map(|block| &block.hosts) {
            hosts::add(&mut all, host.clone());
        }
    }
    let allocation = if all.is_empty() { allocation::of_environment(&settings.remote_shell)? } else { None };
    if let Some(allocation) = &allocation {
        let note = format!("the hosts are those that {} has allocated", allocation.system);
        settings.notes.push((Loudness::Verbose, note));
        all = allocation.hosts.iter().map(|host| Host { reached_as: None, ..host.clone() }).collect();
    }
    let named = !all.is_empty();
    if !named {
        all.push(Host::new(own_name.clone(), None));
    }
    let counts = counts(&settings, &all, named)?;
    let size: u32 = counts.iter().sum();
    if let InputTo::Rank(rank) = settings.input
        && rank >= size
    {
        return Err(format!("standard input cannot go to rank {rank}: there are ranks 0 to {}", size - 1));
    }
    let placed = place(&settings, &all, &counts)?;
    let explicit_agent = settings.agent.is_some();
    let is_remote = |host: &str| named && (explicit_agent || !reach::is_local(host, &full_name));
    let mut shares: Vec<Share> = Vec::new();
    let mut share_of_rank = Vec::new();
    for (rank, (name, block)) in (0..).zip(&placed) {
        let remote = is_remote(name);
        // All names of this host stand for one agent.
        let known = shares.iter().position(|share| if remote { share.host == *name } else { !share.remote });
        let share = known.unwrap_or_else(|| {
            let plan = empty_plan(&settings, name, size);
            let listed = all.iter().chain(settings.blocks.iter().flat_map(|block| &block.hosts));
            let reached_as = listed.filter(|host| host.name == *name).find_map(|host| host.reached_as.clone());
            shares.push(Share { host: name.clone(), reached_as, remote, plan });
            shares.len() - 1
        });
        shares[share].plan.ranks.push((rank, *block));
        share_of_rank.push(share);
    }
    let template = template(&settings, &mut shares, allocation);
    let hosts = if named { all } else { Vec::new() };
    let job = Job { settings, template, shares, share_of_rank, size, hosts };
    complete(job)
}

/// The command template that reaches the hosts: the user's, or that of the batch system whose hosts they are,
/// or that of the remote shell. Notes by which names the batch system reaches them. `known` is the allocation
/// that the hosts come from.
fn template(settings: &Settings, shares: &mut [Share], known: Option<Allocation>) -> String {
    if let Some(agent) = &settings.agent {
        return agent.clone();
    }
    let mut remote: Vec<&mut Share> = shares.iter_mut().filter(|share| share.remote).collect();
    // A user who names a remote shell wants it used, also in an allocation.
    if !remote.is_empty() && settings.remote_shell == RemoteShell::default() {
        let named: Vec<&str> =
            remote.iter().map(|share| share.reached_as.as_ref().unwrap_or(&share.host).as_str()).collect();
        // Where the user has named the hosts, an allocation that cannot be read is no obstacle.
        let allocation = known.or_else(|| allocation::of_environment(&settings.remote_shell).ok().flatten());
        if let Some((template, names)) = allocation.and_then(|allocation| allocation.means(&named)) {
            for (share, name) in remote.iter_mut().zip(names) {
                share.reached_as = Some(name);
            }
            return template;
        }
    }
    settings.remote_shell.template()
}

/// The number of ranks of each program. A single program fills the hosts that are `named`.
fn counts(settings: &Settings, all: &[Host], named: bool) -> Result<Vec<u32>, String> {
    let only = settings.blocks.len() == 1;
    let fill = |hosts: &[Host]| match settings.ranks_per_host {
        Some(each) => each.saturating_mul(u32::try_from(hosts.len()).unwrap_or(RANKS_MAX)),
        None if named => hosts::filled(hosts),
        None => 1,
    };
    let default = |block: &Block| match &block.hosts[..] {
        [] if only => fill(all),
        [] => 1,
        own => fill(own),
    };
    let counts: Vec<u32> = settings.blocks.iter().map(|block| block.count.unwrap_or_else(|| default(block))).collect();
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    if total > u64::from(RANKS_MAX) {
        return Err(format!("{total} ranks are more than {RANKS_MAX}"));
    }
    Ok(counts)
}

/// The host's name and the program's index for every rank.
fn place(settings: &Settings, all: &[Host], counts: &[u32]) -> Result<Vec<(String, u32)>, String> {
    let each = |host: &Host| Host { slots: settings.ranks_per_host.or(host.slots), ..host.clone() };
    let shared: Vec<Host> = all.iter().map(each).collect();
    let own = |block: &Block| -> Vec<Host> { block.hosts.iter().map(each).collect() };
    let shared_count = settings.blocks.iter().zip(counts).filter(|(block, _)| block.hosts.is_empty());
    let shared_count: u32 = shared_count.map(|(_, &count)| count).sum();
    check_capacity(settings, &shared, shared_count)?;
    // Programs without their own hosts go on where the program before has stopped.
    let mut next_shared = hosts::place(&shared, shared_count, settings.order).into_iter();
    let mut placed = Vec::new();
    for (index, (block, &count)) in (0..).zip(settings.blocks.iter().zip(counts)) {
        if block.hosts.is_empty() {
            let taken = next_shared.by_ref().take(count as usize);
            placed.extend(taken.map(|host| (shared[host].name.clone(), index)));
        } else {
            let list = own(block);
            check_capacity(settings, &list, count)?;
            let taken = hosts::place(&list, count, settings.order).into_iter();
            placed.extend(taken.map(|host| (list[host].name.clone(), index)));
        }
    }
    Ok(placed)
}

/// Checks the most ranks of each host, and `--no-oversubscribe`. Without this option more ranks than slots
/// are allowed, as with MPICH.
fn check_capacity(settings: &Settings, list: &[Host], count: u32) -> Result<(), String> {
    if let Some(room) = hosts::room(list).filter(|&room| count > room) {
        return Err(format!("{count} ranks are more than the {room} that max_slots of the hostfile allows"));
    }
    if settings.oversubscribe {
        return Ok(());
    }
    let processors = || std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
    let alone = settings.hosts.is_empty() && list.len() == 1;
    let capacity = hosts::capacity(list).unwrap_or_else(|| if alone { processors() } else { list.len() as u32 });
    if count > capacity {
        return Err(format!(
            "{count} ranks are more than the {capacity} slots there are, and --no-oversubscribe is given"
        ));
    }
    Ok(())
}

/// The variable by which ranks know that they go on when another one fails.
const ON_FAILURE: &[u8] = b"WEFT_ON_FAILURE";

fn empty_plan(settings: &Settings, host: &str, size: u32) -> Plan {
    Plan {
        job: String::new(),
        secret: JobSecret::new([0; JobSecret::LENGTH]),
        size,
        universe: settings.universe.unwrap_or(size),
        spawned: settings.spawned,
        values: settings.values.clone(),
        host: host.to_string(),
        mapping: String::new(),
        stats: settings.stats.is_some(),
        goes_on: settings.keep_others,
        label: Label::None,
        input: settings.input,
        merge: settings.merge,
        binding: Binding {
            to: settings.binding.to(),
            by: settings.binding.by,
            each: settings.binding.each,
            report: settings.binding.report,
            machine_ranks: 0,
        },
        patience_ms: 0,
        heartbeat: None,
        programs: Vec::new(),
        ranks: Vec::new(),
    }
}

/// Fills in the parts that are the same for all hosts, and the programs.
fn complete(mut job: Job) -> Result<Job, String> {
    let mut random = [0; 8];
    let no_random = |error: std::io::Error| format!("the system gives no random numbers: {error}");
    sys::random(&mut random).map_err(no_random)?;
    let secret = JobSecret::filled(sys::random).map_err(no_random)?;
    let name = format!("weft-{}-{}", std::process::id(), wire::to_hex(&random));
    let nodes: Vec<u32> = job.share_of_rank.iter().map(|&share| share as u32).collect();
    let mapping = wire::format_mapping(&nodes);
    let own: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let here = std::env::current_dir().map(|path| path.into_os_string().into_vec()).unwrap_or_default();
    let directory = absolute(&here, job.settings.directory.clone().map(OsString::into_vec));
    let label = match (job.settings.labels, job.shares.len()) {
        (false, _) => Label::None,
        (true, 1) => Label::Rank,
        (true, _) => Label::RankAndHost,
    };
    let milliseconds = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    // Where heartbeats are asked for, a host that is cut off ends its ranks when the others go on, not later.
    let factor = if job.settings.heartbeat.is_some() { 1 } else { AGENT_PATIENCE };
    let patience_ms = job.settings.silence_max().map_or(0, milliseconds).saturating_mul(factor);
    let heartbeat = job.settings.heartbeat.map(milliseconds);
    for (member, share) in (0..).zip(&mut job.shares) {
        let blocks = job.settings.blocks.iter().flat_map(|block| &block.hosts);
        let interface = job.settings.hosts.iter().chain(blocks).find(|host| host.name == share.host);
        let interface = interface.and_then(|host| host.interface.clone());
        let plan = &mut share.plan;
        plan.patience_ms = if share.remote { patience_ms } else { 0 };
        plan.heartbeat = heartbeat.map(|limit_ms| Heartbeat { member, limit_ms });
        plan.job.clone_from(&name);
        plan.secret = secret;
        plan.label = label;
        if mapping.len() <= wire::VALUE_MAX {
            plan.mapping.clone_from(&mapping);
        }
        for (number, block) in (0..).zip(&job.settings.blocks) {
            let (inherit, mut variables) = environment::for_host(&block.environment, &own, share.remote);
            if let Some(interface) = &interface {
                variables.retain(|(name, _)| name != b"WEFT_INTERFACE");
                variables.push((b"WEFT_INTERFACE".to_vec(), interface.clone().into_bytes()));
            }
            if job.settings.keep_others && !variables.iter().any(|(name, _)| name == ON_FAILURE) {
                variables.push((ON_FAILURE.to_vec(), b"continue".to_vec()));
            }
            let words = block.words.iter().map(|word| word.clone().into_vec()).collect();
            let asked = block.directory.clone().map(OsString::into_vec);
            let directory_required = asked.is_some();
            let directory = absolute(&directory, asked);
            let search_path = block.search_path.clone().map(OsString::into_vec).unwrap_or_default();
            plan.programs.push(Program {
                number,
                words,
                inherit,
                variables,
                directory,
                directory_required,
                search_path,
                faces: job.settings.faces,
            });
        }
    }
    Ok(job)
}

/// Makes a directory absolute for ranks of any host: it is relative to where `mpiexec` was started.
fn absolute(own: &[u8], asked: Option<Vec<u8>>) -> Vec<u8> {
    match asked {
        None => own.to_vec(),
        Some(path) if path.starts_with(b"/") => path,
        Some(path) => [own, b"/", &path].concat(),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
