//! Blocking collectives of small messages. They run without requests as long as they wait for nothing but one
//! receive.

use std::sync::Arc;

use weft_engine::memory::Run;
use weft_engine::schedules::{AtOnce, Cursor, InOrder, run_in_order};

use super::{Bound, CollectiveScope};
use crate::blocking;
use crate::contention::is_contended;
use crate::engine::Received;
use crate::error::Result;
use crate::process::{self, Guard, Running};

/// The number of looks for data that another process of the node publishes, before a request is made for it.
const LOOKS_MAX: u32 = 256;
/// The same number where spinning does not pay.
const LOOKS_MIN: u32 = 3;

/// Runs `bound` among the processes of `scope` and waits for its end.
///
/// As long as its messages leave at once and it waits for at most one receive, it runs without requests. From
/// the first other step on it is a collective like any other.
///
/// # Errors
/// As for [`process::Process::start_collective`]; an error of one of its messages.
pub fn run(mut process: Guard, scope: CollectiveScope, bound: Arc<Bound>) -> Result<()> {
    let communicator = scope.communicator;
    let scratch = process.take_part(&scope, Cursor::scratch(&bound))?;
    let mut cursor = if bound.schedule().phases > 0 {
        let run = Run::new(bound, scratch);
        let looks_max = if process.may_spin() { LOOKS_MAX } else { LOOKS_MIN };
        let goes_on = |looks| looks < looks_max && !is_contended();
        match run_in_order(process.engine()?, &scope, &run, goes_on)? {
            InOrder::Complete => {
                process.signal();
                return Ok(());
            }
            InOrder::Stopped { complete, failed } => Cursor::behind(scope, run, complete, failed),
        }
    } else {
        Cursor::in_scratch(scope, bound, scratch)
    };
    loop {
        match cursor.go_without_requests(process.engine()?)? {
            AtOnce::Complete => {
                process.signal();
                return Ok(());
            }
            AtOnce::NeedsRequests => break,
            AtOnce::Receive(receive) => {
                let received = blocking::receive_unless_given_up(process, receive, communicator)?;
                process = process::lock();
                match received {
                    Some(Received { error: None, .. }) => cursor.finish_receive(),
                    failed => {
                        let error = failed.and_then(|received| received.error);
                        return Err(cursor.fail_receive(process.engine()?, error));
                    }
                }
            }
        }
    }
    let request = process.collective_request(cursor.scope())?;
    process.go_on(Running { request, cursor, then: None });
    blocking::wait(process, request)?.error.map_or(Ok(()), Err)
}
