//! Creating communicators: agreement among processes (MPI-5.0 §7.4.2). The boundary's constructors of
//! communicators call it, and windows and topologies agree by it.

mod agreement;
mod creation;
mod exchange;
mod multicast;
mod operations;
mod topologies;

use std::sync::Arc;

use weft_core::reduce::Op;
use weft_engine::schedules::Cursor;
use weft_plan::collective::choice::Layout;
use weft_plan::collective::{self, Chosen, ElementShape, Items};

use crate::blocking::wait;
use crate::collective::{Arguments, Bound, CollectiveScope};
use crate::constants::MPI_INT64_T;
use crate::context::{CONTEXT_NONE, CONTEXTS_EACH};
use crate::error::{Error, Result};
use crate::memory::SharedBuffer;
use crate::multicast::Multicast;
use crate::object::{Class, Communicator, Group, Operation, full};
use crate::process::{Process, lock, with};

pub use crate::slots::Agreed;
pub use agreement::{agree_on_context, agree_with_notes, needed};
pub use creation::{Creation, Notes, open_creation};
pub use exchange::exchange;
pub use multicast::{part as part_from_multicast, prepare as prepare_multicast};
pub use operations::agree_on_slot;

/// Runs `bound` among the processes of `scope` and waits for the end.
fn run(scope: CollectiveScope, bound: Bound) -> Result<()> {
    let mut process = lock();
    let request = process.collective_request(&scope)?;
    process.start_schedule(request, scope, Arc::new(bound))?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

fn int64(process: &Process) -> Result<Arc<crate::object::Description>> {
    Ok(process.objects.datatype(MPI_INT64_T)?.description.clone())
}

/// The reduction of each of the `values` of all processes of `scope`, into `values`. `layout` is that of
/// [`Process::agreement_layout`], the same at all of them.
fn reduction(
    scope: &CollectiveScope,
    values: &SharedBuffer,
    op: Op,
    process: &Process,
    layout: Option<&Layout>,
) -> Result<Bound> {
    let shape = collective::Allreduce {
        rank: scope.rank,
        size: scope.group.size(),
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
    let schedule = match layout {
        Some(layout) => Chosen { choices: process.choices(), layout }.allreduce(&shape),
        None => {
            let bytes = shape.items.bytes();
            collective::allreduce_with(&shape, process.choices().allreduce_apart(shape.size, bytes, true))
        }
    };
    Ok(Bound::shared(schedule, arguments))
}

/// Finds the highest of each of the `values` of all processes of `scope`.
///
/// # Errors
/// A process is gone.
pub fn highest(scope: CollectiveScope, values: &mut [i64]) -> Result<()> {
    highest_by(scope, values, None)
}

/// Does the same, by the algorithm that is chosen for the places of the processes: those of
/// [`Process::agreement_layout`].
///
/// # Errors
/// A process is gone.
pub(crate) fn highest_by(scope: CollectiveScope, values: &mut [i64], layout: Option<&Layout>) -> Result<()> {
    let found = SharedBuffer::of_values(values);
    run(scope.clone(), with(|process| reduction(&scope, &found, Op::Max, process, layout))?)?;
    values.copy_from_slice(&found.values());
    Ok(())
}

/// The gathering of the `values` of all processes of `scope`, by rank, and the buffer that they come to.
fn gathering(scope: &CollectiveScope, values: &[i64], process: &Process) -> Result<(SharedBuffer, Bound)> {
    let description = int64(process)?;
    let size = scope.group.size();
    let mut all = vec![0_i64; values.len() * size as usize];
    let start = scope.rank as usize * values.len();
    all[start..start + values.len()].copy_from_slice(values);
    let all = SharedBuffer::of_values(&all);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Allgather { rank: scope.rank, size, send: items, receive: items, in_place: true };
    let arguments = Arguments {
        receive: all.address(0),
        receive_type: Some(description.clone()),
        send_type: Some(description),
        ..Arguments::none()
    };
    let algorithm = process.choices().allgather_apart(size, u64::from(size) * items.bytes());
    Ok((all, Bound::shared(collective::allgather_with(&shape, algorithm), arguments)))
}

/// Gathers the `values` of all processes of `scope`, by rank.
///
/// # Errors
/// A process is gone.
pub fn gather_all(scope: CollectiveScope, values: &[i64]) -> Result<Vec<i64>> {
    let (all, bound) = with(|process| gathering(&scope, values, process))?;
    run(scope, bound)?;
    Ok(all.values())
}

impl Process {
    /// Gathers the `values` of all processes of `scope`, by rank, and goes on with them, as a step of the
    /// operation of `request`.
    pub(crate) fn gather_then(
        &mut self,
        request: usize,
        scope: &CollectiveScope,
        values: &[i64],
        then: impl FnOnce(&mut Self, Result<Vec<i64>>) + Send + 'static,
    ) {
        let begun = gathering(scope, values, self)
            .and_then(|(all, bound)| Ok((all, Cursor::new(scope.clone(), Arc::new(bound))?)));
        match begun {
            Ok((all, cursor)) => self.run_then(request, cursor, move |process, error| {
                then(process, error.map_or_else(|| Ok(all.values()), Err));
            }),
            Err(error) => {
                if let Ok(engine) = self.engine() {
                    engine.give_up(scope, &error);
                }
                then(self, Err(error));
            }
        }
    }
}

/// Returns at rank `root` of `scope` when all its processes have called this, and elsewhere when this process
/// has told `root` so.
///
/// # Errors
/// A process is gone.
pub(crate) fn tell_root(scope: CollectiveScope, root: u32) -> Result<()> {
    let (description, layout) = with(|process| Ok::<_, Error>((int64(process)?, process.agreement_layout(&scope))))?;
    let size = scope.group.size();
    let (send, receive) = (SharedBuffer::new(8), SharedBuffer::new(8 * size as usize));
    let items = Items { count: 1, shape: ElementShape::plain(8) };
    let shape = collective::Gather { rank: scope.rank, size, root, send: items, receive: items, in_place: false };
    let arguments = Arguments {
        send: send.address(0),
        receive: receive.address(0),
        receive_type: Some(description.clone()),
        send_type: Some(description),
        ..Arguments::none()
    };
    let schedule = match &layout {
        Some(layout) => with(|process| Chosen { choices: process.choices(), layout }.gather(&shape)),
        None => collective::gather(&shape),
    };
    run(scope, Bound::shared(schedule, arguments))
}

/// Sends the `values` of rank `root` of `scope` to all its processes. Their number is the same everywhere.
///
/// # Errors
/// A process is gone.
pub fn broadcast(scope: CollectiveScope, root: u32, values: &mut [i64]) -> Result<()> {
    let buffer = SharedBuffer::of_values(values);
    let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
    let shape = collective::Bcast { rank: scope.rank, size: scope.group.size(), root, items };
    let (description, algorithm) =
        with(|process| Ok::<_, Error>((int64(process)?, process.choices().bcast_apart(shape.size, items.bytes()))))?;
    let arguments = Arguments { receive: buffer.address(0), receive_type: Some(description), ..Arguments::none() };
    run(scope, Bound::shared(collective::bcast_with(&shape, algorithm), arguments))?;
    values.copy_from_slice(&buffer.values());
    Ok(())
}

impl Process {
    /// Adds a communicator of `group` that has no context yet, and returns its handle. It inherits the error
    /// handler of `parent`.
    ///
    /// # Errors
    /// Too many communicators.
    pub fn add_communicator(&mut self, group: Arc<Group>, parent: usize) -> Result<usize> {
        let error_handler = self.objects.communicator(parent)?.error_handler;
        self.add_communicator_with(group, error_handler)
    }

    /// Adds a communicator of `group` without a context, with this error handler.
    ///
    /// # Errors
    /// Too many communicators; `MPI_ERR_ERRHANDLER` when that is no error handler for communicators.
    pub fn add_communicator_with(&mut self, group: Arc<Group>, error_handler: usize) -> Result<usize> {
        self.objects.retain_error_handler(error_handler, Some(Class::Communicator))?;
        // Multicast packets carry the tags of one job.
        let multicast = if self.has_strangers(&group) { Multicast::Impossible } else { Multicast::default() };
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
            layout: std::sync::OnceLock::new(),
            copies: std::sync::OnceLock::new(),
            slot: None,
            multicast,
            acknowledged: 0,
            revocation: None,
        };
        self.objects.communicators.insert(communicator).ok_or_else(|| full("communicators"))
    }

    /// Removes the communicator with this handle.
    pub fn remove_communicator(&mut self, handle: usize) {
        if let Some(object) = self.objects.communicators.remove(handle) {
            self.objects.release_error_handler(object.error_handler);
            object.slot.into_iter().for_each(|slot| self.slots.release(slot));
            self.free_service(object.context);
            self.temporaries.take_over(object.buffer);
            if let Some(engine) = &mut self.engine {
                engine.messages.recovery.forget_bar(object.context);
                engine.messages.release_contexts(object.context..object.context + CONTEXTS_EACH);
            }
            if self.contexts.end_use(handle, object.context) {
                self.sweep_contexts();
            }
        }
    }
}
