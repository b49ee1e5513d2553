//! Files (MPI-5.0 §14): opening, views, pointers, accesses. The boundary calls this module; `file.rs` has the
//! object.
//!
//! | module | what it holds |
//! |---|---|
//! | `opening` | opening and closing, and other operations that all processes of a file do together |
//! | `positions` | the individual and the shared file pointer |
//! | `access` | one access of this process, by system calls |
//! | `collective`, `window` | accesses that all processes make together, and the part of an aggregator |
//! | `conversion` | data as it is in memory, and as it is in the file |
//! | `failure` | the failure of one process, as all hear of it |
//! | `workers` | threads that move data while the program computes |
//!
//! A file has a window of its own, with one number at rank 0: the shared file pointer. The window's
//! communicator keeps the messages of the file apart.

mod access;
mod collective;
mod conversion;
mod failure;
mod opening;
mod positions;
mod window;
pub(crate) mod workers;

use std::sync::Arc;

use weft_plan::two_phase::Policy;

use crate::awaited::Awaited;
use crate::constants::*;
use crate::error::{Error, Result};
use crate::file::{File, FileView, Split, SplitKind};
use crate::memory::UserData;
use crate::process::{self, Guard, Process, block_for, lock, with};
use crate::request::{Cancellation, Hold, State, Status};
use access::{Access, ended};
use collective::Together;
use conversion::{Converted, layout};
use failure::Failure;
use workers::By;

pub use access::Direction;
pub use conversion::{Items, file_extent};
pub use opening::{
    Opening, Wanted, WantedView, begin_open, close, delete, open, preallocate, set_atomicity, set_error_handler,
    set_info, set_size, set_view, size, sync,
};
pub use positions::{byte_offset, position, seek, seek_shared, shared_position};

/// The place in a file at which an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At an offset of the view, in etypes (MPI-5.0 §14.4.2).
    At(i64),
    /// At the individual file pointer, which moves past the data (MPI-5.0 §14.4.3).
    Individual,
    /// At the shared file pointer, which moves past the data (MPI-5.0 §14.4.4).
    Shared,
    /// Where the shared file pointer was when it was moved past the data of all processes.
    Ordered(u64),
}

/// What a call needs to know of a file to access it.
struct Facts {
    body: Arc<weft_net::files::File>,
    view: Arc<FileView>,
    window: usize,
    is_atomic: bool,
    sieve: u64,
}

impl Facts {
    fn of(file: &File, direction: Direction, begin: Begin) -> Result<Self> {
        match direction {
            Direction::Read => file.check_reads()?,
            Direction::Write => file.check_writes()?,
        }
        if matches!(begin, Begin::At(_) | Begin::Individual) {
            file.check_positions()?;
        }
        Ok(Self {
            body: file.body.clone(),
            view: file.view.clone(),
            window: file.window,
            is_atomic: file.is_atomic,
            sieve: if file.hints.sieves { file.hints.read_buffer } else { 0 },
        })
    }

    /// The etypes that the items are in the file.
    fn etypes(&self, items: &Items) -> Result<u64> {
        let item = layout(&self.view.representation, &items.datatype)?.size();
        let bytes = item.checked_mul(items.count);
        let bytes = bytes.ok_or_else(|| Error::new(MPI_ERR_COUNT, "the data has more than 2^63 - 1 bytes"))?;
        let etype = self.view.view.etype_size();
        if !bytes.is_multiple_of(etype) {
            let message = format!("the data has {bytes} bytes in the file, which are no whole etypes of {etype} bytes");
            return Err(Error::new(MPI_ERR_IO, message));
        }
        Ok(bytes / etype)
    }

    /// The access of `items` that begins at `position`, in bytes of the view's data.
    fn access(&self, direction: Direction, position: u64, items: Items) -> Result<(Access, Converted)> {
        let converted = Converted::new(&self.view.representation, items, direction == Direction::Write)?;
        let access = Access {
            file: self.body.clone(),
            view: self.view.clone(),
            data: converted.data(),
            position,
            direction,
            is_atomic: self.is_atomic,
            sieve: self.sieve,
        };
        Ok((access, converted))
    }

    fn data(&self, etypes: u64) -> Result<u64> {
        self.view.view.data(etypes).map_err(|why| Error::new(MPI_ERR_IO, why.to_string()))
    }
}

/// Prepares an access of this process alone: its pointer has moved when this returns (MPI-5.0 §14.4.3).
fn prepare(
    file: usize,
    direction: Direction,
    begin: Begin,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<(Access, Converted)> {
    let (facts, items) = with(|process| {
        let facts = Facts::of(process.objects.file(file)?, direction, begin)?;
        Ok::<_, Error>((facts, items(process)?))
    })?;
    let etypes = facts.etypes(&items)?;
    let first = match begin {
        Begin::At(offset) => positions::natural_offset(offset)?,
        Begin::Individual => positions::advance(file, etypes)?,
        Begin::Shared => positions::advance_shared(facts.window, etypes)?,
        Begin::Ordered(first) => first,
    };
    facts.access(direction, facts.data(first)?, items)
}

/// Accesses a file, and returns when the data has been moved.
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_ACCESS`, `MPI_ERR_READ_ONLY`, `MPI_ERR_UNSUPPORTED_OPERATION`; of `items`; as the
/// kernel says.
pub fn access(
    file: usize,
    direction: Direction,
    begin: Begin,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<Status> {
    let process = lock();
    let items = items(&process)?;
    match access_plain(process, file, direction, begin, &items)? {
        Some(status) => Ok(status),
        None => access_now(prepare(file, direction, begin, |_| Ok(items))?),
    }
}

/// Makes an access, and returns when the data has been moved.
fn access_now((access, converted): (Access, Converted)) -> Result<Status> {
    let moved = access.run().map_err(|failure| failure.error)?;
    ended(&converted, access.direction, moved)
}

/// Accesses a file where data in one run of memory is one run of the file, as it is: most small accesses.
/// `None`, with nothing changed, where it is not.
fn access_plain(
    mut process: Guard,
    file: usize,
    direction: Direction,
    begin: Begin,
    items: &Items,
) -> Result<Option<Status>> {
    let found = process.objects.file_mut(file)?;
    let bytes = items.data.len();
    let Some(etypes) = found.plain_etypes(direction, bytes) else { return Ok(None) };
    let first = match begin {
        Begin::At(offset) => positions::natural_offset(offset)?,
        Begin::Individual => found.position,
        Begin::Shared | Begin::Ordered(_) => return Ok(None),
    };
    let view = &found.view.view;
    let Ok(span) = view.data(first).and_then(|start| view.check(start..start.saturating_add(bytes))) else {
        return Ok(None);
    };
    if items.data.run(0, bytes).is_none() {
        return Ok(None);
    }
    if begin == Begin::Individual {
        found.position = first.saturating_add(etypes);
    }
    let body = found.body.clone();
    // Nothing has begun that other threads would have to hear of.
    drop(process);
    let moved = match direction {
        Direction::Write => body.write_at(items.data.run(0, bytes).unwrap_or(&[]), span.start).map(|()| bytes),
        Direction::Read => {
            body.read_at(items.data.run_mut(0, bytes).unwrap_or(&mut []), span.start).map(|moved| moved as u64)
        }
    };
    let bytes = moved.map_err(|error| Failure::from(error).error)?;
    Ok(Some(Status { bytes, ..Status::EMPTY }))
}

/// Begins an access to a file, and returns its request (MPI-5.0 §14.4.1).
///
/// # Errors
/// As for [`access`]; too many requests.
pub fn start_access(
    file: usize,
    direction: Direction,
    begin: Begin,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<usize> {
    let (access, converted) = prepare(file, direction, begin, items)?;
    if converted.is_by_program() {
        // The functions of the program may call MPI, so no thread of the library calls them.
        return completed(file, access_now((access, converted)));
    }
    with(|process| {
        let request = process.file_request(file)?;
        process.run_aside(
            (By::Thread, request),
            move || access.run(),
            move |process, moved| {
                let status = moved.map_err(|failure| failure.error);
                process.end_file_access(request, status.and_then(|moved| ended(&converted, direction, moved)));
            },
        );
        Ok(request)
    })
}

/// A request of an access that is over.
fn completed(file: usize, status: Result<Status>) -> Result<usize> {
    with(|process| {
        let request = process.file_request(file)?;
        process.end_file_access(request, status);
        Ok(request)
    })
}

/// Begins an access that all processes of a file make together, at offsets that each of them gives or has.
fn start_together(
    file: usize,
    by: By,
    direction: Direction,
    begin: Begin,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<(usize, Converted)> {
    with(|process| process.objects.file(file)?.check_no_split())?;
    // A process that cannot begin takes part all the same: the others wait for it.
    let prepared = prepare(file, direction, begin, items);
    with(|process| {
        let (communicator, policy) = {
            let found = process.objects.file(file)?;
            (found.communicator, found.policy(direction))
        };
        // Every collective call on a file begins with the comparison, where calls are compared.
        let comparison = process.checks_calls.then(|| process.agreement_scope(communicator)).transpose()?;
        let scope = process.agreement_scope(communicator)?;
        let request = match process.messages().and_then(|messages| messages.add_lasting(State::Collective, file)) {
            Ok(request) => request,
            Err(error) => {
                process.engine()?.give_up(comparison.as_ref().unwrap_or(&scope), &error);
                return Err(error);
            }
        };
        let (access, failure) = match prepared {
            Ok(access) => (access, None),
            Err(error) => (process.objects.file(file)?.no_access(direction), Some(Failure::from(error))),
        };
        let converted = access.1.clone();
        let own = failure.as_ref().map(|failure| failure.error.clone());
        let together = Together::new((request, by), scope, access, policy, failure);
        process.begin_checked(comparison, together);
        match own {
            // The caller of a blocking form waits for the end all the same.
            Some(error) if by == By::Thread => {
                process.leave_request(request);
                Err(error)
            }
            _ => Ok((request, converted)),
        }
    })
}

/// Accesses a file together with all its other processes (MPI-5.0 §14.4).
///
/// # Errors
/// As for [`access`], of any process; a process is gone.
pub fn access_all(
    file: usize,
    direction: Direction,
    begin: Begin,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<Status> {
    let (request, converted) = start_together(file, By::Caller, direction, begin, items)?;
    let status = wait_and_work(request)?;
    if converted.is_by_program() { ended(&converted, direction, status.bytes) } else { Ok(status) }
}

/// Begins an access that all processes of a file make together, and returns its request (MPI-5.0 §14.4).
///
/// # Errors
/// As for [`access_all`]; too many requests.
pub fn start_access_all(
    file: usize,
    direction: Direction,
    begin: Begin,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<usize> {
    if with(|process| Ok::<_, Error>(process.objects.file(file)?.view.representation.is_by_program()))? {
        return completed(file, access_all(file, direction, begin, items));
    }
    Ok(start_together(file, By::Thread, direction, begin, items)?.0)
}

/// Accesses a file by the shared file pointer, the processes in the order of their ranks (MPI-5.0 §14.4.4).
///
/// # Errors
/// As for [`access_all`].
pub fn access_ordered(
    file: usize,
    direction: Direction,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<Status> {
    opening::check_call(file, None)?;
    let prepared = with(|process| {
        let found = process.objects.file(file)?;
        found.check_no_split()?;
        Ok::<_, Error>((Facts::of(found, direction, Begin::Shared)?, items(process)?))
    });
    let prepared = prepared.and_then(|(facts, items)| Ok((facts.etypes(&items)?, items)));
    let (etypes, items) = match prepared {
        Ok((etypes, items)) => (etypes, Ok(items)),
        Err(error) => (0, Err(error)),
    };
    let first = positions::advance_ordered(file, etypes)?;
    let is_stream = with(|process| Ok::<_, Error>(process.objects.file(file)?.body.is_stream()))?;
    if is_stream {
        return access_in_turns(file, direction, items);
    }
    // The order of the ranks has been fixed: the access may use any way.
    access_all(file, direction, Begin::Ordered(first), |_| items)
}

/// Accesses a stream, which has no positions, one process after the other.
fn access_in_turns(file: usize, direction: Direction, items: Result<Items>) -> Result<Status> {
    let common = opening::Common::of(file)?;
    let size = with(|process| Ok::<_, Error>(process.objects.communicator(common.communicator)?.group.size()))?;
    let mut items = Some(items);
    let mut outcome = Ok(Status::EMPTY);
    for turn in 0..size {
        if turn == common.rank
            && let Some(items) = items.take()
        {
            outcome =
                items.and_then(|items| prepare(file, direction, Begin::Ordered(0), |_| Ok(items))).and_then(access_now);
        }
        common.meet()?;
    }
    outcome
}

/// Begins a split collective access (MPI-5.0 §14.4.5).
///
/// # Errors
/// As for [`start_access_all`].
pub fn begin_split(
    file: usize,
    kind: SplitKind,
    buffer: usize,
    direction: Direction,
    begin: Option<Begin>,
    items: impl FnOnce(&Process) -> Result<Items>,
) -> Result<()> {
    let request = match begin {
        Some(begin) => start_access_all(file, direction, begin, items)?,
        // The standard lets the call do all of it.
        None => completed(file, Ok(access_ordered(file, direction, items)?))?,
    };
    with(|process| {
        process.objects.file_mut(file)?.split = Some(Split { kind, request, buffer });
        Ok(())
    })
}

/// Ends a split collective access.
///
/// # Errors
/// `MPI_ERR_IO`: another one has begun, or none; as for [`access_all`].
pub fn end_split(file: usize, kind: SplitKind, buffer: usize) -> Result<Status> {
    let request = with(|process| {
        let found = process.objects.file_mut(file)?;
        let wrong = |what: String| Err(Error::new(MPI_ERR_IO, what));
        match found.split {
            Some(split) if split.kind == kind && split.buffer == buffer => {
                found.split = None;
                Ok(split.request)
            }
            Some(split) if split.kind == kind => {
                wrong(format!("the buffer is another one than that of {}_begin", kind.name()))
            }
            Some(split) => wrong(format!("the access was begun by {}_begin", split.kind.name())),
            None => wrong(format!("no {}_begin has begun an access to this file", kind.name())),
        }
    })?;
    wait_and_work(request)
}

/// Waits for the request of an access, and does work that is due for it meanwhile.
fn wait_and_work(request: usize) -> Result<Status> {
    enum Due {
        Work(process::FileJob),
        Over(Result<crate::completion::Outcome>),
    }
    loop {
        let due = block_for(lock(), &|| Awaited::Access(request), |process| {
            let own = process.jobs_of_callers.iter().position(|(of, _)| *of == request);
            if let Some(index) = own {
                return Some(Due::Work(process.jobs_of_callers.swap_remove(index).1));
            }
            match process.is_complete(request) {
                Ok(true) => Some(Due::Over(process.finish(request))),
                Ok(false) => None,
                Err(error) => Some(Due::Over(Err(error))),
            }
        });
        match due {
            Due::Work(job) => {
                let finish = job();
                with(finish);
            }
            Due::Over(outcome) => {
                let outcome = outcome?;
                return match outcome.error {
                    Some(error) => Err(error),
                    None => Ok(outcome.status),
                };
            }
        }
    }
}

impl Process {
    /// Adds the request of an access to a file. It can be freed, but not cancelled.
    fn file_request(&mut self, file: usize) -> Result<usize> {
        let messages = self.messages()?;
        let request = messages.add(State::FileAccess, file)?;
        if let Some(found) = messages.requests.get_mut(request) {
            found.cancellation = Cancellation::OnlyFreed;
        }
        Ok(request)
    }

    /// Leaves a request to the library, which forgets it when it is complete.
    fn leave_request(&mut self, request: usize) {
        let Ok(messages) = self.messages() else { return };
        match messages.requests.get_mut(request) {
            Some(found) if !found.is_complete() => found.hold = Hold::Freed,
            _ => messages.forget(request),
        }
    }

    /// Completes the request of an access.
    fn end_file_access(&mut self, request: usize, outcome: Result<Status>) {
        let Ok(messages) = self.messages() else { return };
        if let Some(found) = messages.requests.get_mut(request) {
            match outcome {
                Ok(status) => found.status = status,
                Err(error) => found.error = Some(error.of_the_call()),
            }
        }
        messages.complete(request);
    }
}

impl File {
    /// The etypes in `bytes` bytes, where the data of the view is one run as it is in memory, and the access
    /// needs neither a lock nor an explanation.
    fn plain_etypes(&self, direction: Direction, bytes: u64) -> Option<u64> {
        let is_allowed = match direction {
            Direction::Read => self.mode.reads(),
            Direction::Write => self.mode.writes(),
        };
        let FileView { view, representation, .. } = &*self.view;
        let is_plain = is_allowed
            && view.is_contiguous()
            && !representation.is_converted()
            && !self.is_atomic
            && !self.mode.is_sequential();
        let etype = view.etype_size();
        (is_plain && bytes.is_multiple_of(etype)).then(|| bytes / etype)
    }

    /// The policy of collective accesses: the same at all processes of the file.
    fn policy(&self, direction: Direction) -> Policy {
        let wish = match direction {
            Direction::Read => self.hints.read,
            Direction::Write => self.hints.write,
        };
        opening::policy(self.home, wish, &self.hints)
    }

    /// The access of a process that moves nothing.
    fn no_access(&self, direction: Direction) -> (Access, Converted) {
        let data = UserData::empty();
        let access = Access {
            file: self.body.clone(),
            view: self.view.clone(),
            data: data.clone(),
            position: 0,
            direction,
            is_atomic: false,
            sieve: 0,
        };
        (access, Converted::Same(data))
    }
}
