//! Blocking point-to-point communication and operations built on it. They use no request unless they must
//! wait. The boundary's blocking calls use it, and so do agreements among processes.

use crate::awaited::Awaited;
use crate::completion::Outcome;
use crate::contention::is_contended;
use crate::engine::Received;
use crate::error::Result;
use crate::process::{self, Guard, Process};
use crate::request::{Receive, Send};

/// The number of times that a blocking receive looks for its message before it is posted. A message that
/// arrives by then needs no request.
const TURNS_MAX: u32 = 64;
/// The same number where spinning does not pay.
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

    /// Drops a receive if the operation whose messages have this context and tag has been given up. Returns
    /// whether it has.
    #[inline]
    fn give_up_receive(&mut self, handle: usize, (context, tag): (u32, i32)) -> bool {
        let Ok(engine) = self.engine() else { return false };
        if !engine.messages.is_given_up(context, tag) {
            return false;
        }
        engine.abandon_receive(handle);
        true
    }
}

/// Receives a message, and waits for it.
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

/// Receives a message of a collective operation. `None` when another process has given the operation up: then
/// the receive is dropped.
///
/// # Errors
/// As for [`receive`].
#[inline]
pub fn receive_unless_given_up(
    mut process: Guard,
    mut receive: Receive,
    communicator: usize,
) -> Result<Option<Received>> {
    if let Some(received) = process.receive_now(&receive) {
        process.signal();
        return Ok(Some(received));
    }
    process.expect_wait(receive.data.len());
    receive.blocking = true;
    let name = receive.context.zip(receive.tag);
    let handle = process.start_receive(receive, communicator)?;
    process::block_for(process, &|| Awaited::One(handle), |process| match process.is_complete(handle) {
        Ok(true) => Some(process.finish(handle).map(|outcome| Some(outcome.into_received()))),
        Ok(false) => process.give_up_receive(handle, name?).then_some(Ok(None)),
        Err(error) => Some(Err(error)),
    })
}

/// Sends one message and receives another, and waits for both. Reports the receive, or the first error of the
/// two.
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

/// Waits for both of two requests, and takes their results.
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
