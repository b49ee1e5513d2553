//! Leaving the World Model (MPI-5.0 §11.2.2), and the job.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use weft_core::time::Duration;
use weft_net::clock;

use super::{costs, other, warn};
use crate::blocking::wait;
use crate::check::Call;
use crate::collective::{CollectiveScope, run};
use crate::communicator::highest;
use crate::constants::MPI_COMM_WORLD;
use crate::context::FINALIZE_CONTEXT;
use crate::engine::{Engine, RailTraffic};
use crate::error::{Error, Result};
use crate::farewell::{await_farewells, say_farewell};
use crate::files::workers;
use crate::job::Job;
use crate::object::Group;
use crate::process::{self, Phase, Process};
use crate::recovery::GOES_ON;

/// The longest time for which a process that ends waits until processes of other jobs have acknowledged its
/// farewell.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// Ends the World Model.
///
/// Everything that is on its way arrives first. All processes of the job do this together, in a context that
/// nothing else uses, so that no operation of another process is taken for it.
///
/// # Errors
/// A peer is gone, or the launcher is.
pub fn finalize() -> Result<()> {
    // Accesses whose requests the program has freed end as well (MPI-5.0 §11.2.2).
    process::block_until(|process| (process.file_jobs == 0).then_some(()));
    // Multicast packets come by another way than the messages of the barrier, which tell the others that
    // nothing more comes.
    process::block_until(|process| {
        process.engine().map_or(Some(()), |engine| engine.groups.have_sent_all().then_some(()))
    });
    let (scope, used) = process::with(|process| {
        process.begin_finalizing();
        let used = process.had_sessions;
        let Some(job) = &process.job else { return Err(other("MPI is not initialised")) };
        let group = Group::new(job.members.clone(), process.own());
        let (communicator, rank) = (MPI_COMM_WORLD, job.rank);
        Ok((
            CollectiveScope { communicator, context: FINALIZE_CONTEXT, tag: 0, group, rank, sources: None, turn: None },
            used,
        ))
    })?;
    if GOES_ON.load(Ordering::Relaxed) {
        return leave_with_those_that_live(scope, used);
    }
    // The barrier comes first: its messages go straight to processes that may wait for this one.
    let mut told = [i64::from(used), 0];
    meet(scope.clone())
        .and_then(|()| {
            told[1] = i64::from(process::with(|process| !process.unfinished().is_empty()));
            highest(CollectiveScope { tag: 1, ..scope.clone() }, &mut told)
        })
        .and_then(|()| if told[1] == 0 { Ok(()) } else { settle(scope) })
        // The World Model ends wherever the error is reported.
        .map_err(Error::of_the_call)?;
    part_from_other_jobs();
    wait_until_quiet();
    if told[0] == 0 { leave() } else { stay() }
}

/// Says farewell to processes of other jobs, and waits for those that are connected (MPI-5.0 §11.10.4).
fn part_from_other_jobs() {
    process::with(|process| process.ports.close_all());
    let mut told = HashSet::new();
    process::block_until(|process| say_farewell(process, &mut told));
    process::block_until(await_farewells);
}

/// Waits until everything that this process has sent is there.
fn wait_until_quiet() {
    let since = clock::now();
    process::block_until(|process| {
        let Ok(engine) = process.engine() else { return Some(()) };
        // A process of another job that has said farewell may be gone, and its last acknowledgement lost.
        let is_late = !engine.jobs_met().is_empty() && clock::now().since(since) > FAREWELL_LIMIT;
        (engine.is_quiet() || is_late).then_some(())
    });
}

/// Ends the World Model where processes may have failed: the processes that live meet in the barrier of the
/// process manager, which waits for no process that is lost. Then each waits for its own operations.
fn leave_with_those_that_live(scope: CollectiveScope, used: bool) -> Result<()> {
    wait_for_the_others(process::lock())?;
    let given_up = process::block_until(Process::settle);
    let sentences = process::with(|process| process.describe_unfinished(&given_up));
    sentences.iter().for_each(|sentence| warn(scope.rank, sentence));
    part_from_other_jobs();
    wait_until_quiet();
    if used { stay() } else { leave() }
}

/// Waits for the operations that some process has left to MPI and that are under way. All processes wait for
/// theirs, and for each other, since both sides of a message must be there.
fn settle(scope: CollectiveScope) -> Result<()> {
    let given_up = process::block_until(Process::settle);
    let sentences = process::with(|process| process.describe_unfinished(&given_up));
    sentences.iter().for_each(|sentence| warn(scope.rank, sentence));
    highest(CollectiveScope { tag: 2, ..scope }, &mut [0])
}

/// Runs a barrier in `scope`; with `WEFT_CHECK`, once all processes are found to make the same call.
fn meet(scope: CollectiveScope) -> Result<()> {
    let mut process = process::lock();
    let barrier = process.planner.by_messages(|| process.barrier(&scope));
    if !process.checks_calls {
        return run(process, scope, barrier);
    }
    let comparison = process.collective_scope(MPI_COMM_WORLD)?;
    let request = process.start_checked(comparison, scope, barrier, Call::default())?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

/// Leaves the job, and ends the World Model with that: no process needs this one any more.
fn leave() -> Result<()> {
    workers::dismiss();
    let mut process = process::lock();
    if let Some(thread) = process.dismiss_progress_thread() {
        drop(process);
        // The thread can only have panicked, which has been reported; nothing depends on it any more.
        let _ = thread.join();
        process = process::lock();
    }
    let result = wait_for_the_others(process);
    let mut process = process::lock();
    let said = say_goodbye(&mut process);
    process.manager = process.job.take().map(|job| job.manager);
    process.detach_engine();
    end_world(&mut process);
    result.and(said)
}

/// Ends the World Model, but stays in the job: sessions may be open, and may be opened.
fn stay() -> Result<()> {
    let result = wait_for_the_others(process::lock());
    let mut process = process::lock();
    end_world(&mut process);
    let said = if process.objects.sessions.is_empty() { say_goodbye(&mut process) } else { Ok(()) };
    result.and(said)
}

fn end_world(process: &mut Process) {
    process.objects.end_world();
    process.end_finalizing();
    process.phase = Phase::After;
    process::ACTIVE.store(!process.objects.sessions.is_empty(), Ordering::Relaxed);
}

/// Tells the launcher and the processes of this node that they need not miss this one any more. The first
/// time it also sends the launcher the statistics.
///
/// # Errors
/// The launcher is gone.
pub(super) fn say_goodbye(process: &mut Process) -> Result<()> {
    let Process { job: Some(job), engine: Some(engine), .. } = process else { return Ok(()) };
    engine.say_left(true);
    let Job { manager, rank, interfaces, has_reported, shm_dir, .. } = job;
    costs::keep_refined(engine, shm_dir.as_deref());
    let observer = manager.observer().filter(|observer| observer.wants_stats());
    if let Some(observer) = observer.filter(|_| !std::mem::replace(has_reported, true)) {
        observer.report_stats(&stats(*rank, engine, interfaces)).map_err(|error| other(error.to_string()))?;
    }
    manager.finalize().map_err(|error| other(error.to_string()))
}

/// Waits in the launcher's barrier at the end, where there are peers on other hosts, or processes may have
/// failed and others ask this one for what they have agreed upon. Meanwhile this process
/// answers packets of peers that are not done yet.
fn wait_for_the_others(mut process: process::Guard) -> Result<()> {
    // The launcher's barrier is of the job, of which other jobs know nothing.
    let is_awaited = GOES_ON.load(Ordering::Relaxed) || process.job.as_ref().is_some_and(|job| job.spans_hosts);
    if !is_awaited {
        return Ok(());
    }
    let Some(mut job) = process.job.take() else { return Ok(()) };
    drop(process);
    let (job, result) = process::block_beside("weft-finalize", move || {
        let result = job.manager.fence();
        (job, result)
    })?;
    process::lock().job = Some(job);
    result.map_err(|error| other(error.to_string()))
}

/// The statistics of the traffic; `names` are those of the interfaces.
fn stats(rank: u32, engine: &Engine, names: &[String]) -> String {
    use std::fmt::Write as _;
    let mut report = String::new();
    for row in engine.traffic() {
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{rank} {} {} {} {} {}", row.peer, row.link, row.messages, row.bytes, row.resends);
    }
    for (cause, packets) in engine.dropped() {
        let _ = writeln!(report, "{rank} dropped {cause} {packets}");
    }
    for (link, messages) in engine.messages_to_other_jobs() {
        let _ = writeln!(report, "{rank} other-jobs {link} {messages}");
    }
    for (way, times) in engine.path_mtu_changes() {
        let _ = writeln!(report, "{rank} path-mtu {way} {times}");
    }
    for (kind, packets) in engine.groups.packets() {
        let _ = writeln!(report, "{rank} multicast {kind} {packets}");
    }
    for rail in engine.rail_traffic() {
        let name = names.get(usize::from(rail.interface)).map_or("?", |name| name.as_str());
        let RailTraffic { peer, packets, bytes, failures, has_failed, .. } = rail;
        let state = if has_failed { "down" } else { "up" };
        let _ = writeln!(report, "rail {rank} {peer} {name} {packets} {bytes} {failures} {state}");
    }
    report
}
