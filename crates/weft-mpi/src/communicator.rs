//! Creating communicators: agreement among processes (MPI-5.0 §7.4.2).

use std::sync::Arc;

use weft_core::collective::{self, ElementShape, Items};
use weft_core::reduce::Op;

use crate::collective::{Arguments, Place};
use crate::constants::{MPI_ERR_NO_MEM, MPI_INT64_T};
use crate::error::{Error, Result};
use crate::memory::Address;
use crate::object::{Communicator, Group, Operation, full};
use crate::point_to_point::wait;
use crate::process::{self, Process, lock, with};
use crate::request::{Request, State};

/// Rounds of agreement on a context before the call gives up: each means that other threads were faster.
const AGREEMENTS_MAX: u32 = 1_000_000;

/// Runs `schedule` among the processes of `place` and waits for it.
fn run(place: Place, schedule: collective::Schedule, arguments: Arguments) -> Result<()> {
    let mut process = lock();
    let request = process.messages()?.add(Request::new(State::Collective, place.communicator))?;
    process.start_schedule(request, place, schedule, arguments)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

fn int64(process: &Process) -> Result<Arc<crate::object::Description>> {
    Ok(process.objects.datatype(MPI_INT64_T)?.description.clone())
}

/// The highest of each of the `values` of all processes of `place`.
///
/// # Errors
/// A process is gone.
pub fn highest(place: Place, values: &mut [i64]) -> Result<()> {
    let description = with(|process| int64(process))?;
    let shape = collective::Allreduce {
        rank: place.rank,
        size: place.group.size(),
        items: Items { count: values.len() as u64, shape: ElementShape::plain(8) },
        commutative: true,
        in_place: true,
    };
    let arguments = Arguments {
        receive: Address(values.as_mut_ptr().cast()),
        receive_type: Some(description),
        operation: Some(Operation::Predefined(Op::Max)),
        ..Arguments::none()
    };
    run(place, collective::allreduce(&shape), arguments)
}

/// The `values` of all processes of `place`, by rank.
///
/// # Errors
/// A process is gone.
pub fn gather_all(place: Place, values: &[i64]) -> Result<Vec<i64>> {
    let description = with(|process| int64(process))?;
    let size = place.group.size();
    let mut all = vec![0_i64; values.len() * size as usize];
    let start = place.rank as usize * values.len();
    all[start..start + values.len()].copy_from_slice(values);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Allgather { rank: place.rank, size, send: items, receive: items, in_place: true };
    let arguments = Arguments {
        receive: Address(all.as_mut_ptr().cast()),
        receive_type: Some(description.clone()),
        send_type: Some(description),
        ..Arguments::none()
    };
    run(place, collective::allgather(&shape), arguments)?;
    Ok(all)
}

/// Agrees with all processes of `place` on the context of a new communicator. `place` is asked for the messages of
/// each round.
///
/// # Errors
/// A process is gone.
pub fn agree_on_context(parent: u32, mut place: impl FnMut(&mut Process) -> Result<Place>) -> Result<u32> {
    with(|process| process.contexts.enter(parent));
    for _ in 0..AGREEMENTS_MAX {
        let (offer, place) = with(|process| {
            let place = place(process)?;
            Ok::<_, Error>((process.contexts.offer(parent), place))
        })?;
        let mut values = [i64::from(offer.unwrap_or(0)), i64::from(offer.is_none())];
        let result = highest(place, &mut values);
        let agreed = process::with(|process| match result {
            Ok(()) if values[1] == 0 => {
                process.contexts.commit(parent, values[0] as u32);
                Ok(true)
            }
            Ok(()) => {
                process.contexts.retry(offer.is_some());
                Ok(false)
            }
            Err(error) => {
                process.contexts.retry(offer.is_some());
                process.contexts.leave(parent);
                Err(error)
            }
        })?;
        if agreed {
            return u32::try_from(values[0])
                .ok()
                .filter(|context| *context < u32::MAX - 2 * crate::context::CONTEXTS_EACH)
                .ok_or_else(|| Error::new(MPI_ERR_NO_MEM, "this job has created as many communicators as it can"));
        }
        std::thread::yield_now();
    }
    with(|process| process.contexts.leave(parent));
    Err(Error::new(MPI_ERR_NO_MEM, "no agreement on a context for the new communicator"))
}

impl Process {
    /// Adds a communicator of `group` with `context`; its handle. It inherits the error handler of `parent`.
    ///
    /// # Errors
    /// Too many communicators.
    pub fn add_communicator(&mut self, context: u32, group: Arc<Group>, parent: usize) -> Result<usize> {
        let error_handler = self.objects.communicator(parent)?.error_handler;
        self.objects.retain_error_handler(error_handler, None)?;
        let communicator = Communicator {
            context,
            rank: group.rank.unwrap_or(0),
            group,
            error_handler,
            name: String::new(),
            attributes: Vec::new(),
            info: Vec::new(),
            collectives: 0,
            buffer: Default::default(),
        };
        self.objects.communicators.insert(communicator).ok_or_else(|| full("communicators"))
    }
}
