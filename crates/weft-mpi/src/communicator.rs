//! Creating communicators: agreement among processes (MPI-5.0 §7.4.2).

mod exchange;
mod topologies;

use std::sync::Arc;

use weft_core::collective::{self, ElementShape, Items};
use weft_core::reduce::Op;

use weft_engine::schedules::Cursor;

use crate::blocking::wait;
use crate::collective::{Arguments, Bound, CollectiveScope};
use crate::constants::{MPI_ERR_NO_MEM, MPI_INT64_T};
use crate::context::CONTEXT_NONE;
use crate::error::{Error, Result};
use crate::memory::SharedBuffer;
use crate::object::{Class, Communicator, Group, Operation, full};
use crate::process::{Process, lock, with};

pub use exchange::exchange;

/// Attempts to agree on a context before the call gives up. Each failure means that another agreement met this one, and
/// spreads their offers over twice as many numbers.
const ATTEMPTS_MAX: u32 = 200;

/// Runs `bound` among the processes of `place` and waits for it.
fn run(place: CollectiveScope, bound: Bound) -> Result<()> {
    let mut process = lock();
    let request = process.messages()?.add_collective(place.communicator)?;
    process.start_schedule(request, place, Arc::new(bound))?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

fn int64(process: &Process) -> Result<Arc<crate::object::Description>> {
    Ok(process.objects.datatype(MPI_INT64_T)?.description.clone())
}

/// The reduction of each of the `values` of all processes of `place`, into `values`.
fn reduction(place: &CollectiveScope, values: &SharedBuffer, op: Op, process: &Process) -> Result<Bound> {
    let shape = collective::Allreduce {
        rank: place.rank,
        size: place.group.size(),
        items: Items { count: values.len() as u64 / 8, shape: ElementShape::plain(8) },
        commutative: true,
        in_place: true,
    };
    let arguments = Arguments {
        receive: values.address(0),
        receive_type: Some(int64(process)?),
        operation: Some(Operation::Predefined(op)),
        ..Arguments::none()
    };
    Ok(Bound::shared(collective::allreduce(&shape), arguments))
}

/// The highest of each of the `values` of all processes of `place`.
///
/// # Errors
/// A process is gone.
pub fn highest(place: CollectiveScope, values: &mut [i64]) -> Result<()> {
    let found = SharedBuffer::of_values(values);
    run(place.clone(), with(|process| reduction(&place, &found, Op::Max, process))?)?;
    values.copy_from_slice(&found.values());
    Ok(())
}

/// The `values` of all processes of `place`, by rank.
///
/// # Errors
/// A process is gone.
pub fn gather_all(place: CollectiveScope, values: &[i64]) -> Result<Vec<i64>> {
    let description = with(|process| int64(process))?;
    let size = place.group.size();
    let mut all = vec![0_i64; values.len() * size as usize];
    let start = place.rank as usize * values.len();
    all[start..start + values.len()].copy_from_slice(values);
    let all = SharedBuffer::of_values(&all);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Allgather { rank: place.rank, size, send: items, receive: items, in_place: true };
    let arguments = Arguments {
        receive: all.address(0),
        receive_type: Some(description.clone()),
        send_type: Some(description),
        ..Arguments::none()
    };
    run(place, Bound::shared(collective::allgather(&shape), arguments))?;
    Ok(all.values())
}

/// The `values` of rank `root` of `place`, at all its processes; their number is the same everywhere.
///
/// # Errors
/// A process is gone.
pub fn broadcast(place: CollectiveScope, root: u32, values: &mut [i64]) -> Result<()> {
    let description = with(|process| int64(process))?;
    let buffer = SharedBuffer::of_values(values);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Bcast { rank: place.rank, size: place.group.size(), root, items };
    let arguments = Arguments { receive: buffer.address(0), receive_type: Some(description), ..Arguments::none() };
    run(place, Bound::shared(collective::bcast(&shape), arguments))?;
    values.copy_from_slice(&buffer.values());
    Ok(())
}

/// The step that an agreement is in.
enum Step {
    /// The highest offer is being found.
    Offer,
    /// Whether all could reserve it is being found; whether this process could.
    Confirm { reserved: bool },
}

/// An agreement on the context of a new communicator that is under way: two reductions, repeated when it met another.
pub struct Agreement {
    place: CollectiveScope,
    /// Handle of the communicator that gets the context, if this process is a member.
    communicator: Option<usize>,
    /// The one number that the running reduction reads and writes.
    value: SharedBuffer,
    step: Step,
    attempt: u32,
    offer: u32,
    context: u32,
}

impl Agreement {
    fn key(&self) -> u64 {
        u64::from(self.place.context) << 32 | u64::from(self.place.tag as u32)
    }
}

impl Process {
    /// Adds a communicator of `group` that has no context yet; its handle. It inherits the error handler of `parent`.
    ///
    /// # Errors
    /// Too many communicators.
    pub fn add_communicator(&mut self, group: Arc<Group>, parent: usize) -> Result<usize> {
        let error_handler = self.objects.communicator(parent)?.error_handler;
        self.add_communicator_with(group, error_handler)
    }

    /// The same with this error handler.
    ///
    /// # Errors
    /// Too many communicators; `MPI_ERR_ERRHANDLER` when that is no error handler for communicators.
    pub fn add_communicator_with(&mut self, group: Arc<Group>, error_handler: usize) -> Result<usize> {
        self.objects.retain_error_handler(error_handler, Some(Class::Communicator))?;
        let communicator = Communicator {
            context: CONTEXT_NONE,
            rank: group.rank.unwrap_or(0),
            addressed: group.clone(),
            group,
            inter: None,
            error_handler,
            name: String::new(),
            attributes: Vec::new(),
            info: Vec::new(),
            collectives: 0,
            buffer: Default::default(),
            topology: None,
        };
        self.objects.communicators.insert(communicator).ok_or_else(|| full("communicators"))
    }

    /// Starts to agree with all processes of `place` on a context; the communicator of handle `communicator` has it
    /// when the request is complete. After an error that communicator is gone.
    ///
    /// # Errors
    /// Too many requests or communicators: nothing has been started then.
    pub fn start_agreement(&mut self, place: CollectiveScope, communicator: Option<usize>) -> Result<usize> {
        let request = self.messages()?.add_collective(place.communicator)?;
        let agreement = Agreement {
            place,
            communicator,
            value: SharedBuffer::of_values(&[0]),
            step: Step::Offer,
            attempt: 0,
            offer: 0,
            context: 0,
        };
        self.offer_context(request, agreement);
        Ok(request)
    }

    /// Begins an attempt.
    fn offer_context(&mut self, request: usize, mut agreement: Agreement) {
        let offer = self.contexts.offer(agreement.key(), agreement.attempt);
        agreement.offer = offer.unwrap_or(0);
        // Who has no number left still takes part, and all hear of it.
        agreement.value.set_values(&[offer.map_or(i64::MAX, i64::from)]);
        agreement.step = Step::Offer;
        self.reduce_agreement(request, agreement, Op::Max);
    }

    fn reduce_agreement(&mut self, request: usize, agreement: Agreement, op: Op) {
        let place = agreement.place.clone();
        let prepared =
            reduction(&place, &agreement.value, op, self).and_then(|bound| Cursor::new(place, Arc::new(bound)));
        match prepared {
            Ok(cursor) => self.run_then(request, cursor, move |process, error| {
                process.continue_agreement(request, agreement, error);
            }),
            Err(error) => self.end_agreement(request, &agreement, Some(error)),
        }
    }

    /// The reduction of `agreement` is complete: what comes next.
    fn continue_agreement(&mut self, request: usize, mut agreement: Agreement, error: Option<Error>) {
        let value = agreement.value.values()[0];
        let failed = error.is_some();
        match agreement.step {
            _ if failed => self.end_agreement(request, &agreement, error),
            Step::Offer => match u32::try_from(value) {
                Ok(context) => {
                    agreement.context = context;
                    let reserved = self.contexts.reserve(context);
                    agreement.step = Step::Confirm { reserved };
                    agreement.value.set_values(&[i64::from(reserved)]);
                    self.reduce_agreement(request, agreement, Op::Min);
                }
                Err(_) => {
                    let error = Error::new(MPI_ERR_NO_MEM, "this job has created as many communicators as it can");
                    self.end_agreement(request, &agreement, Some(error));
                }
            },
            Step::Confirm { .. } if value != 0 => {
                if let Some(handle) = agreement.communicator
                    && let Ok(communicator) = self.objects.communicator_mut(handle)
                {
                    communicator.context = agreement.context;
                }
                self.end_agreement(request, &agreement, None);
            }
            Step::Confirm { .. } if agreement.attempt + 1 == ATTEMPTS_MAX => {
                let error = Error::new(MPI_ERR_NO_MEM, "no agreement on a context for the new communicator");
                self.end_agreement(request, &agreement, Some(error));
            }
            Step::Confirm { reserved } => {
                if reserved {
                    self.contexts.release(agreement.context);
                }
                self.contexts.withdraw(agreement.offer);
                agreement.attempt += 1;
                self.offer_context(request, agreement);
            }
        }
    }

    fn end_agreement(&mut self, request: usize, agreement: &Agreement, error: Option<Error>) {
        if error.is_some() {
            if let Step::Confirm { reserved: true } = agreement.step {
                self.contexts.release(agreement.context);
            }
            if let Some(handle) = agreement.communicator {
                self.remove_communicator(handle);
            }
        }
        self.contexts.withdraw(agreement.offer);
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(request) {
            request.error = error;
        }
        messages.complete(request);
    }

    /// The communicator of `handle` is gone.
    pub fn remove_communicator(&mut self, handle: usize) {
        if let Some(object) = self.objects.communicators.remove(handle) {
            self.objects.release_error_handler(object.error_handler);
        }
    }
}

/// Agrees with all processes of `place` on a context for the communicator of handle `communicator`.
///
/// # Errors
/// A process is gone: so is the communicator then.
pub fn agree_on_context(place: CollectiveScope, communicator: Option<usize>) -> Result<()> {
    let mut process = lock();
    let request = match process.start_agreement(place, communicator) {
        Ok(request) => request,
        Err(error) => {
            communicator.into_iter().for_each(|handle| process.remove_communicator(handle));
            return Err(error);
        }
    };
    wait(process, request)?.error.map_or(Ok(()), Err)
}
