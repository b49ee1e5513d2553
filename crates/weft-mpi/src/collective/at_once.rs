//! Blocking collectives of small messages: without requests, as long as nothing has to wait but a receive.

use weft_core::collective::{Schedule, Transfer};

use super::{Arguments, Running, check_scratch};
use crate::blocking;
use crate::engine::Engine;
use crate::error::Result;
use crate::object::Operation;
use crate::process::{self, Guard};
use crate::request::{Receive, State};

/// Runs `schedule` on the communicator `communicator` and waits for its end. The rounds that can do without are run without requests:
/// their messages leave at once, and one receive is waited for at most. From the first other one on it is a collective like any other.
///
/// # Errors
/// As for [`process::Process::start_collective`]; what went wrong with one of its messages.
pub fn run(mut process: Guard, communicator: usize, schedule: Schedule, arguments: Arguments) -> Result<()> {
    let place = process.collective_place(communicator)?;
    check_scratch(&schedule)?;
    let mut running = Running::new(place, schedule, arguments);
    loop {
        if running.round == running.schedule.rounds.len() {
            process.signal();
            return Ok(());
        }
        if !running.is_simple() || !running.send_at_once(process.engine()?) {
            break;
        }
        if let Some(receive) = running.take_receive() {
            blocking::receive(process, receive, communicator)?.error.map_or(Ok(()), Err)?;
            process = process::lock();
        }
        for step in 0..running.schedule.rounds[running.round].local.len() {
            running.do_local(step)?;
        }
        running.round += 1;
    }
    let request = process.messages()?.add(State::Collective, communicator)?;
    running.request = request;
    process.go_on(running);
    blocking::wait(process, request)?.error.map_or(Ok(()), Err)
}

impl Running {
    /// Whether this round waits for one receive at most, and does nothing that needs the lock to be free.
    fn is_simple(&self) -> bool {
        let transfers = &self.schedule.rounds[self.round].transfers;
        let receives = transfers.iter().filter(|transfer| matches!(transfer, Transfer::Receive { .. })).count();
        receives <= 1 && !matches!(self.arguments.operation, Some(Operation::User(_)))
    }

    /// Sends what this round sends, if all of it can leave at once; what is left of the transfers stays with the round.
    fn send_at_once(&mut self, engine: &mut Engine) -> bool {
        let mut transfers = std::mem::take(&mut self.schedule.rounds[self.round].transfers);
        let mut stuck = false;
        transfers.retain(|transfer| match transfer {
            Transfer::Send { to, slice } if !stuck => {
                stuck = !engine.submit_now(&self.send_of(*to, slice));
                stuck
            }
            _ => true,
        });
        self.schedule.rounds[self.round].transfers = transfers;
        !stuck
    }

    /// The only transfer that is left of this round.
    fn take_receive(&mut self) -> Option<Receive> {
        match self.schedule.rounds[self.round].transfers.pop() {
            Some(Transfer::Receive { from, slice }) => Some(self.receive_of(from, &slice)),
            _ => None,
        }
    }
}
