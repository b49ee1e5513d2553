//! The agent before its ranks begin and after they have ended. It runs commands for further hosts then, too.

use super::FAREWELL;
use super::relay::Relay;
use crate::control::{Channel, Order, Plan, Report, State};
use crate::sys::{self, Poll, READ, Signals};
use std::io;
use std::time::{Duration, Instant};

/// Waits for the order to start ranks, and runs commands for further hosts meanwhile. `None` when `mpiexec`
/// is gone or needs no ranks here, or this process is told to end. `mpiexec` tells an agent that it has not
/// heard of yet by a signal.
pub(super) fn await_plan(channel: &mut Channel, signals: &mut Signals, relay: &mut Relay) -> io::Result<Option<Plan>> {
    loop {
        loop {
            match channel.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => match Order::decode(frame) {
                    Some(Order::Launch(plan)) => return Ok(Some(plan)),
                    Some(Order::Relay { command, message }) => pass(channel, relay.handle_message(command, message)),
                    // `mpiexec` has cancelled the job before it began.
                    Some(_) => return Ok(None),
                    None => return Err(io::Error::other("the first order is not to start ranks")),
                },
                Err(()) => return Err(io::Error::other("what came from mpiexec is no order")),
            }
        }
        if channel.state() == State::Closed || !turn_without_ranks(channel, signals, relay, None)? {
            relay.kill();
            return Ok(None);
        }
    }
}

/// Stays without ranks until the commands for further hosts have ended and every message has been sent.
pub(super) fn retire(channel: &mut Channel, signals: &mut Signals, relay: &mut Relay) -> io::Result<()> {
    let mut deadline = None;
    loop {
        while let Ok(Some(frame)) = channel.next_frame() {
            // Other orders have come too late.
            if let Some(Order::Relay { command, message }) = Order::decode(frame) {
                pass(channel, relay.handle_message(command, message));
            }
        }
        let is_over = relay.is_idle() && !channel.has_unsent();
        let now = Instant::now();
        let limit = relay.is_idle().then(|| *deadline.get_or_insert(now + FAREWELL));
        if is_over || channel.state() == State::Closed || limit.is_some_and(|limit| now >= limit) {
            return Ok(());
        }
        let pause = limit.map(|limit| limit.saturating_duration_since(now));
        if !turn_without_ranks(channel, signals, relay, pause)? {
            return Ok(());
        }
    }
}

/// Waits for something to happen, and handles what concerns commands for further hosts. Orders stay in the
/// channel. Returns `false` when this process is told to end.
fn turn_without_ranks(
    channel: &mut Channel,
    signals: &mut Signals,
    relay: &mut Relay,
    limit: Option<Duration>,
) -> io::Result<bool> {
    let mut poll = Poll::default();
    let told = poll.add(&*signals, READ);
    let entries = channel.wait_in(&mut poll);
    let streams = relay.wait_in(&mut poll, channel);
    let ready = poll.wait(limit)?;
    channel.handle(&ready, entries);
    pass(channel, relay.handle(&ready, &streams));
    if ready.has(told) {
        while let Some(signal) = signals.next() {
            if signal != libc::SIGCHLD {
                return Ok(false);
            }
        }
        while let Ok(Some((pid, how))) = sys::reap() {
            pass(channel, relay.handle_end(pid, how));
        }
    }
    Ok(true)
}

/// Sends what commands for further hosts have said.
pub(super) fn pass(channel: &mut Channel, reports: impl IntoIterator<Item = Report>) {
    for report in reports {
        let fits = channel.queue(|out| report.encode(out));
        assert!(fits, "a report is a chunk, or a short text");
    }
    channel.flush();
}
