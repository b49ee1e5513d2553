//! Blocking collectives of small messages: without requests, as long as nothing has to wait but a receive.

use std::sync::Arc;

use weft_engine::schedules::{AtOnce, Cursor};

use super::{Bound, CollectiveScope};
use crate::blocking;
use crate::error::Result;
use crate::process::{self, Guard, Running};

/// Runs `bound` among the processes of `place` and waits for its end. As long as its messages leave at once and one receive is waited
/// for at most, it is run without requests. From the first other step on it is a collective like any other.
///
/// # Errors
/// As for [`process::Process::start_collective`]; what went wrong with one of its messages.
pub fn run(mut process: Guard, place: CollectiveScope, bound: Arc<Bound>) -> Result<()> {
    let communicator = place.communicator;
    let mut cursor = Cursor::new(place, bound)?;
    loop {
        match cursor.go_without_requests(process.engine()?)? {
            AtOnce::Complete => {
                process.signal();
                return Ok(());
            }
            AtOnce::NeedsRequests => break,
            AtOnce::Receive(receive) => {
                blocking::receive(process, receive, communicator)?.error.map_or(Ok(()), Err)?;
                process = process::lock();
                cursor.finish_receive();
            }
        }
    }
    let request = process.messages()?.add_collective(communicator)?;
    process.go_on(Running { request, cursor, then: None });
    blocking::wait(process, request)?.error.map_or(Ok(()), Err)
}
