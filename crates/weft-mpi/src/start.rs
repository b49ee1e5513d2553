//! Joining the job and leaving it: `MPI_Init_thread`, `MPI_Session_init`, `MPI_Finalize`, `MPI_Abort`
//! (MPI-5.0 §11.2, §11.3). The boundary calls this module.
//!
//! A process joins once, with its first session or with the World Model, whichever comes first. It leaves
//! with `MPI_Finalize` if no process of the job has had a session. Otherwise it stays, and only says goodbye
//! to the launcher whenever nothing is open. A session that is opened later finds everything as it was
//! (docs/design/launch.md).

mod capture;
mod carriers;
mod costs;
pub(crate) mod introduction;
mod join;
mod leave;
mod links;
mod notices;
mod rails;
mod raw;
mod sessions;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_core::process::ProcessName;
use weft_core::wire::Secret;
use weft_launch::{CallSite, Load, process_manager, say};
use weft_net::checkers::attach_checkers;
use weft_net::single_copy::SingleCopy;
use weft_net::{shared, single_copy};

use crate::business_card::BusinessCard;
use crate::constants::MPI_ERR_OTHER;
use crate::engine::{Carriers, Engine, Machine, NewPeer, Parts, Route};
use crate::error::{Error, Result};
use crate::process::{self, Phase, Process};
use crate::settings::Settings;
use crate::slots::Slots;
use join::{Members, join};
pub use leave::finalize;
use links::Opened;
pub use sessions::{close_session, open_session};

/// Prints a sentence for the user on standard error: nothing has failed, but something is not as it should
/// be.
fn warn(rank: u32, sentence: &str) {
    say(&format!("weft: rank {rank}: {sentence}"));
}

fn other(sentence: impl Into<String>) -> Error {
    Error::new(MPI_ERR_OTHER, sentence.into())
}

/// Notes that the program has entered the call with this number, an index into the names given to
/// [`initialize`].
#[inline]
pub fn note_call(call: u32) {
    CallSite::set(call);
}

/// Notes that the program is outside of MPI again.
#[inline]
pub fn note_return() {
    CallSite::set(CallSite::OUTSIDE);
}

/// Begins the World Model (MPI-5.0 §11.2.1), and joins the job unless a session has done so. `names` are the
/// names of the MPI calls by their number, for the launcher's diagnosis.
///
/// # Errors
/// One sentence: the launcher, a setting, or a link that cannot be used.
pub fn initialize(thread_level: i32, names: &'static [&'static str]) -> Result<()> {
    let mut process = process::lock();
    take_part(&mut process, names)?;
    let Some(job) = &process.job else { return Err(other("this process is in no job")) };
    let (rank, members) = (job.rank, job.members.clone());
    let error_handler = job.introduction.settings.initial_error_handler;
    process.objects.begin_world(rank, members, error_handler);
    let (objects, engine) = process.parts()?;
    if let Some(world) = objects.world_mut() {
        world.slot = Slots::open_world(world.collective_context(), &world.group, engine);
    }
    process.thread_level = thread_level;
    process.main_thread = Some(process::thread_number());
    process.phase = Phase::Active;
    process::ACTIVE.store(true, Ordering::Relaxed);
    Ok(())
}

/// Makes this process take part in its job, if it does not: at its start, or after it said goodbye.
fn take_part(process: &mut Process, names: &'static [&'static str]) -> Result<()> {
    process::watch_for_forks();
    attach_checkers();
    if process.job.is_some() && process::ACTIVE.load(Ordering::Relaxed) {
        return Ok(());
    }
    process.engine.iter_mut().for_each(|engine| engine.say_left(false));
    match &mut process.job {
        None => {}
        // Everything is as it was. A launcher that heard the goodbye and listens no more will not miss this
        // process.
        Some(job) if !job.manager.can_come_back() => return Ok(()),
        Some(job) => return job.manager.come_back().map_err(|error| other(error.to_string())),
    }
    // The manager stays with the process until it belongs to the job. By it the launcher learns why this
    // process could not join, so that one sentence is printed for the whole job. A wrong setting is wrong for
    // all ranks.
    match &mut process.manager {
        Some(manager) => manager.come_back().map_err(|error| other(error.to_string()))?,
        none => *none = Some(process_manager().map_err(|error| other(error.to_string()))?),
    }
    let Some(mut manager) = process.manager.take() else { return Err(other("there is no process manager")) };
    if let Some(observer) = manager.observer() {
        observer.name_calls(names);
    }
    let mut manager = Some(manager);
    let joined = join(process, &mut manager, names);
    process.manager = manager;
    joined
}

/// Finds a route to every process of the job.
fn connect(settings: &Settings, members: &Members, mut links: Opened) -> Result<Engine> {
    let Members { rank, cards, locals, crowded, secret, names, .. } = members;
    let (rank, size) = (*rank, members.size());
    let own = &cards[rank as usize];
    let use_shared = settings.links.shared && locals.len() > 1;
    let node = if use_shared { Some(join_node(settings, members)?) } else { None };
    let mut any_remote = false;
    let mut paths = Vec::with_capacity(size as usize);
    for peer in 0..size {
        let local = locals.iter().position(|local| *local == peer);
        paths.push(match local {
            _ if peer == rank => Route::Myself,
            Some(local) if use_shared => Route::Shared(local),
            _ => {
                let ends = (own, &cards[peer as usize]);
                let take_turns = crowded[rank as usize] || crowded[peer as usize];
                let delay = rails::ack_delay(settings, take_turns);
                let path = rails::remote((settings, delay), size, ends, &mut links, (rank, peer));
                any_remote |= matches!(path, Route::Remote(_));
                path
            }
        });
    }
    let copies = |peer: u32| settings.single_copy && single_copy::available(cards[peer as usize].pid);
    let pids: Vec<i32> = (0..size)
        .map(|peer| match paths[peer as usize] {
            Route::Shared(_) if copies(peer) => cards[peer as usize].pid,
            _ => 0,
        })
        .collect();
    let refused = |peer: &u32| {
        let without = matches!(paths[*peer as usize], Route::Shared(_)) && pids[*peer as usize] == 0;
        without && single_copy::is_refused(cards[*peer as usize].pid)
    };
    let speaks = || node.as_ref().is_some_and(shared::Node::speaks_first);
    if settings.single_copy && locals.iter().any(refused) && speaks() {
        let why =
            "the kernel refuses copies between ranks of this host (seccomp, ptrace_scope or another user namespace)";
        warn(rank, &format!("{why}: large messages go through shared memory"));
    }
    if let Some(links::Bulk::Udp(udp)) = &links.bulk {
        udp.warnings().iter().for_each(|sentence| warn(rank, sentence));
    }
    let host = raw::Host { rank, locals, cards, key: names.name("xdp", &[]) };
    let carriers = if any_remote { carriers::carriers(settings, &host, &paths, links)? } else { Carriers::NONE };
    let (hosts, job) = (hosts(cards), names.job_id());
    let parts = Parts {
        platform: Machine,
        name: ProcessName { job, number: rank },
        host: Some(hosts[rank as usize].clone()),
        node,
        memory: SingleCopy,
        carriers,
        secret: Secret::new(*secret.expose()),
        eager_limit: settings.eager_limit,
        costs: settings.costs.unwrap_or_default(),
        unexpected_bytes: settings.unexpected_bytes,
        peer_timeout: settings.peer_timeout,
    };
    let mut engine = Engine::new(parts);
    for (((number, route), process), host) in (0..).zip(paths).zip(pids).zip(hosts) {
        if number != rank {
            let name = ProcessName { job, number };
            engine.add_peer(NewPeer { name, own_index: rank, route, process, host: Some(host) });
        }
    }
    engine.say_copies();
    Ok(engine)
}

/// The looks, four in a second, that must find a neighbour dead where `mpiexec` ends the job itself: three
/// seconds.
const LOOKS_BEHIND_MPIEXEC: u8 = 12;

fn join_node(settings: &Settings, members: &Members) -> Result<shared::Node> {
    let Members { rank, locals, names, processors, .. } = members;
    let place = locals.iter().position(|local| local == rank).unwrap_or(0);
    let key = names.name("node", &[]);
    let (directory, processors) = (settings.shm_dir.clone(), *processors);
    let wanted = shared::Settings { directory, processors, ..shared::Settings::default() };
    let mut node =
        shared::Node::create(&key, place, locals.len(), &wanted).map_err(|error| other(error.to_string()))?;
    if Load::is_from_mpiexec() {
        node.leave_deaths_to_launcher(LOOKS_BEHIND_MPIEXEC);
    }
    node.warnings().iter().for_each(|sentence| warn(*rank, sentence));
    costs::settle(settings, &wanted, &mut node, place);
    Ok(node)
}

/// The host name of each process. Processes of one host share the string.
fn hosts(cards: &[BusinessCard]) -> Vec<Arc<str>> {
    let mut names: HashMap<&str, Arc<str>> = HashMap::new();
    cards.iter().map(|card| names.entry(&card.host).or_insert_with(|| card.host.as_str().into()).clone()).collect()
}

fn processor_name(node: Option<&str>) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    let machine = if machine.is_empty() { "localhost" } else { machine };
    node.map_or_else(|| machine.to_owned(), |node| format!("{machine}/{node}"))
}

/// Ends a child that was forked from a process of the job, and nothing else.
pub fn end_child() -> ! {
    weft_launch::exit_now(process::CHILD_EXIT_CODE)
}

/// Ends the job with `code` (MPI-5.0 §11.4). Never returns.
pub fn abort(code: i32, message: &str) -> ! {
    let mut process = process::lock();
    let manager = process.job.take().map(|job| job.manager).or_else(|| process.manager.take());
    drop(process);
    match manager {
        Some(mut manager) => manager.abort(code, message),
        None => {
            say(&format!("weft: {message}"));
            std::process::exit(code);
        }
    }
}
