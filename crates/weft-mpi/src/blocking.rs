//! Blocking point-to-point communication, and what is made of it: no request unless there is something to wait for.

use crate::awaited::Awaited;
use crate::completion::Outcome;
use crate::contention::is_contended;
use crate::engine::Received;
use crate::error::Result;
use crate::memory::UserData;
use crate::process::{self, Guard, Process};
use crate::request::{Receive, Send};
use weft_engine::arguments::CollectiveScope;

/// Looks for the message of a blocking receive before that is posted: what arrives by then needs no request.
const TURNS_MAX: u32 = 64;
/// The same where spinning does not pay.
const TURNS_MIN: u32 = 3;

impl Process {
    #[inline]
    fn receive_now(&mut self, receive: &Receive) -> Option<Received> {
        if !self.collectives.is_empty() {
            return None;
        }
        let turns = if self.may_spin() { TURNS_MAX } else { TURNS_MIN };
        self.engine().ok()?.receive_now(receive, turns, || !is_contended())
    }
}

/// Receives a message, waiting for it.
///
/// # Errors
/// Too many requests.
#[inline]
pub fn receive(mut process: Guard, mut receive: Receive, communicator: usize) -> Result<Received> {
    if let Some(received) = process.receive_now(&receive) {
        process.signal();
        return Ok(received);
    }
    process.expect_wait(receive.data.len());
    receive.blocking = true;
    let request = process.start_receive(receive, communicator)?;
    wait(process, request).map(Outcome::into_received)
}

/// Sends one message and receives another, waiting for both; reports the receive, or the first error of the two.
///
/// # Errors
/// Too many requests.
#[inline]
pub fn exchange(mut process: Guard, mut send: Send, mut receive: Receive, communicator: usize) -> Result<Received> {
    if process.engine()?.submit_now(&send) {
        return self::receive(process, receive, communicator);
    }
    process.expect_wait(receive.data.len());
    (send.blocking, receive.blocking) = (true, true);
    let receive = process.start_receive(receive, communicator)?;
    let send = process.start_send(send, communicator)?;
    let (received, sent) = wait_both(process, receive, send)?;
    let mut received = received.into_received();
    received.error = received.error.or(sent.error);
    Ok(received)
}

/// A barrier (MPI-5.0 §6.3): by dissemination, message for message as `weft_core::collective::barrier` plans it. Where processes take
/// turns on the processors of one node, rank 0 hears of all and tells all: each needs a turn or two then, not one for each round.
///
/// # Errors
/// `MPI_ERR_COMM`; what went wrong with one of its messages.
pub fn barrier(mut process: Guard, communicator: usize) -> Result<()> {
    let place = process.agreement_scope(communicator)?;
    let (size, rank) = (place.group.size(), place.rank);
    if size > 2 && process.are_oversubscribed(&place.group) {
        return barrier_through_root(process, &place);
    }
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let exchanged =
            exchange(process, place.send(to, UserData::empty()), place.receive(from, UserData::empty()), communicator)?;
        exchanged.error.map_or(Ok(()), Err)?;
        process = process::lock();
        distance *= 2;
    }
    process.signal();
    Ok(())
}

fn barrier_through_root(mut process: Guard, place: &CollectiveScope) -> Result<()> {
    if place.rank != 0 {
        let told = exchange(
            process,
            place.send(0, UserData::empty()),
            place.receive(0, UserData::empty()),
            place.communicator,
        )?;
        return told.error.map_or(Ok(()), Err);
    }
    for from in 1..place.group.size() {
        receive(process, place.receive(from, UserData::empty()), place.communicator)?.error.map_or(Ok(()), Err)?;
        process = process::lock();
    }
    for to in 1..place.group.size() {
        let send = place.send(to, UserData::empty());
        if !process.engine()?.submit_now(&send) {
            let request = process.start_send(send, place.communicator)?;
            wait(process, request)?.error.map_or(Ok(()), Err)?;
            process = process::lock();
        }
    }
    process.signal();
    Ok(())
}

/// Waits for `handle` and takes its result.
///
/// # Errors
/// `MPI_ERR_REQUEST`.
#[inline]
pub fn wait(process: Guard, handle: usize) -> Result<Outcome> {
    process::block_for(process, &|| Awaited::One(handle), |process| match process.is_complete(handle) {
        Ok(true) => Some(process.finish(handle)),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    })
}

/// Waits for both of two requests in one go, and takes their results.
///
/// # Errors
/// As for [`wait`].
pub fn wait_both(process: Guard, first: usize, second: usize) -> Result<(Outcome, Outcome)> {
    process::block_for(process, &|| Awaited::Both([first, second]), |process| {
        let complete = process.is_complete(first).and_then(|complete| Ok(complete && process.is_complete(second)?));
        match complete {
            Ok(true) => Some(process.finish(first).and_then(|outcome| Ok((outcome, process.finish(second)?)))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    })
}
