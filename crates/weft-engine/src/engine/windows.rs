//! The part of the engine that carries one-sided operations on windows; their state is in `crate::windows`.
//!
//! [`origin`] begins them. [`placed`] leaves them to a carrier that does them by itself. [`target`] carries
//! out the operations of other processes. This room carries records and answers between origin and target.

mod description;
mod origin;
mod placed;
mod synchronization;
mod target;

use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::one_sided::{Claim, RECORD_MAX, Record};

use super::link::Link;
use crate::error::{Error, ErrorClass, Result};
use crate::group::PeerId;
use crate::memory::{SharedBuffer, UserData};
use crate::request::{Mode, Send, State};
use crate::transport::Platform;
use crate::windows::{Answer, BATCH_TAG, Batch, LAYOUTS_MAX, LEAVING_MIN, NewWindow, Reach, Transfer, Window, Windows};

pub use description::TargetItems;

/// The length limit of a batch from another process, in bytes: the longest record is the description of a
/// datatype, and it may stand behind a batch that was nearly full.
const BATCH_BYTES_MAX: u64 = (DESCRIPTION_BYTES_MAX + RECORD_MAX + BATCH_BYTES) as u64;
/// The longest description of a datatype that targets are told, in bytes. Accesses to items of a datatype
/// with a longer description are cut into parts.
const DESCRIPTION_BYTES_MAX: usize = 4 << 20;
/// The number of runs in a part of a datatype whose description is too long, about. The description of a part
/// is short enough, and the target keeps it until it is told the next part.
const PART_RUNS: usize = (DESCRIPTION_BYTES_MAX - PART_BYTES_MIN) / RUN_BYTES - PART_RUNS_MORE;
/// The most runs of one element: a part ends only between two elements.
const PART_RUNS_MORE: usize = 64;
/// The bytes that a description takes beside its runs, and for each run.
const PART_BYTES_MIN: usize = 64;
const RUN_BYTES: usize = 16;
/// The number under which parts are told, one after the other: it is behind those of whole datatypes.
const PART_LAYOUT: u32 = LAYOUTS_MAX as u32;
/// The length at which batches leave over the network, in bytes: two records of 16 KiB fit, or one of
/// [`LONE_PUT_BYTES`] and a flush.
const BATCH_BYTES: usize = (32 << 10) + 4 * RECORD_MAX;
/// The same on a node, and the longest batch that may leave without a request of its own.
const NODE_BATCH_BYTES: usize = 8 << 10;
/// The size above which a put or a get over the network is a message of its own, in bytes. The message is
/// copied once less at each end; a record needs no message.
const RECORD_BYTES: u64 = 4 << 10;
/// The size up to which a put over the network is a record if nothing else is on its way to the target, in
/// bytes. A program that waits for the put waits for one message, and not for two.
const LONE_PUT_BYTES: u64 = 32 << 10;
/// The bytes that are computed at a time, while others must leave these elements alone.
const COMPUTED_BYTES: usize = 8 << 10;
/// The size above which an accumulate travels as messages of its own, in bytes.
const ACCUMULATE_BYTES: u64 = 64 << 10;
/// The most bytes of a message of an accumulate: the target keeps one message of each origin.
const ACCUMULATE_BYTES_MAX: u64 = 1 << 20;
/// The bytes that fit into a batch on every route, even if the route sets a lower limit.
const BATCH_BYTES_MIN: usize = 512;
/// The most looks, in one pass, for messages that arrived while earlier ones were being served.
const TURNS_MAX: u32 = 8;
/// The size up to which elements are computed without memory of their own, in bytes.
const FEW_BYTES: usize = 32;
/// The number that stands for an answer that no call waits for.
const NO_ANSWER: u32 = u32::MAX;

/// The lengths of batches and records to one target, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// The length at which a batch leaves.
    batch: usize,
    /// The most bytes of a put or a get that is a record.
    record: u64,
    /// The most bytes of a put that is a record where nothing else is on its way to the target.
    lone_put: u64,
}

impl Limits {
    /// The lengths where messages of more than `eager_limit` bytes are announced. `immediate_max` is the
    /// longest message that leaves as a whole on a node; `None` over the network.
    fn new(eager_limit: u64, immediate_max: Option<u64>) -> Self {
        // A batch that needs a few frames leaves as a whole, which costs less than a message for the rest.
        let most = immediate_max.map_or(BATCH_BYTES, |most| (most as usize).min(NODE_BATCH_BYTES));
        let batch = most.min(eager_limit as usize).max(BATCH_BYTES_MIN);
        let whole = batch.saturating_sub(RECORD_MAX) as u64;
        match immediate_max {
            Some(_) => Self { batch, record: whole, lone_put: whole },
            None => Self { batch, record: whole.min(RECORD_BYTES), lone_put: whole.min(LONE_PUT_BYTES) },
        }
    }
}

/// One-sided operations: their windows, and the link to the rest of the engine.
pub struct OneSided<'a, P: Platform> {
    windows: &'a mut Windows,
    link: Link<'a, P>,
}

impl<'a, P: Platform> OneSided<'a, P> {
    #[inline(always)]
    pub(super) fn new(windows: &'a mut Windows, link: Link<'a, P>) -> Self {
        Self { windows, link }
    }
}

impl<P: Platform> OneSided<'_, P> {
    /// Makes a new window; returns its index.
    pub fn open_window(&mut self, new: NewWindow) -> usize {
        let index = self.windows.open(new);
        self.progress();
        index
    }

    /// Closes the window `index`; its memory is gone, and nothing is read from it any more. That holds even
    /// for a packet whose acknowledgement is missing though its data has arrived.
    pub fn close_window(&mut self, index: usize) {
        self.conceal_window(index);
        let taken = self.windows.table.get_mut(index).and_then(Option::take);
        let Some(window) = taken else { return };
        for source in &window.sources {
            let accumulating = source.accumulating.as_ref().map(|accumulating| accumulating.handle);
            for handle in source.transfers.iter().copied().chain(accumulating) {
                self.link.abandon(handle);
            }
            for batch in &source.batches {
                match batch {
                    Batch::Announced { unexpected, .. } => self.link.drop_unexpected(*unexpected),
                    // Its sender has died, and nobody has looked since.
                    Batch::Arriving(handle, _) => self.link.abandon(*handle),
                    Batch::Whole(_) => {}
                }
            }
        }
        self.windows.table[index] = Some(window);
        self.windows.close(index);
    }

    /// The place of memory in a window: `bytes` bytes from `address` on, of the process `peer` of this node.
    /// [`Reach::Records`] where that process lets no other copy.
    pub fn neighbour_reach(&self, peer: PeerId, address: u64, bytes: u64) -> Reach {
        match self.link.neighbour(peer) {
            Some(process) => Reach::Neighbour { process, address, bytes },
            None => Reach::Records,
        }
    }

    /// Runs `operation` on a window, which is not in the table meanwhile.
    pub(super) fn with_window<R>(
        &mut self,
        index: usize,
        operation: impl FnOnce(&mut Self, &mut Window) -> Result<R>,
    ) -> Result<R> {
        let taken = self.windows.table.get_mut(index).and_then(Option::take);
        let Some(mut window) = taken else { return Err(Error::new(ErrorClass::Other, "the window is gone")) };
        let result = operation(self, &mut window);
        self.windows.table[index] = Some(window);
        result
    }

    /// The lengths of batches and records to `target`.
    fn limits(&self, window: &Window, target: u32) -> Limits {
        let (eager_limit, immediate_max) = self.link.eager_max(window.member(target));
        Limits::new(eager_limit, immediate_max)
    }

    /// Adds a record to the batch for `target`; a full batch leaves.
    fn record(&mut self, window: &mut Window, target: u32, record: &Record<'_>) {
        let batch = &mut window.targets[target as usize].batch;
        if batch.capacity() == 0 {
            *batch = std::mem::take(&mut self.windows.spare);
        }
        let before = batch.len();
        record.write(batch);
        let length = batch.len();
        // No limit is lower than the first one, so for most records the route need not be asked.
        if before > 0 && length > BATCH_BYTES_MIN && length > self.limits(window, target).batch {
            let last = window.targets[target as usize].batch.split_off(before);
            if self.send_batch(window, target) {
                window.targets[target as usize].batch = last;
            } else {
                let state = &mut window.targets[target as usize];
                state.held.push_back(std::mem::replace(&mut state.batch, last));
            }
        }
        self.windows.has_collected = true;
        window.note_busy(target);
    }

    fn await_answer(&mut self, window: &mut Window, answer: Answer) -> Result<u32> {
        let target = answer.target;
        let full = || {
            Error::new(
                ErrorClass::NoMem,
                "too many one-sided operations wait for answers (limit 16777216): flush some first",
            )
        };
        let handle = window.answers.insert(answer).ok_or_else(full)?;
        window.targets[target as usize].asked += 1;
        window.note_busy(target);
        Ok(window.answers.wire(handle))
    }

    /// Ends what waits for an answer that has come.
    fn end_answer(
        &mut self,
        window: &mut Window,
        target: u32,
        reply: u32,
        data: Option<&[u8]>,
        class: Option<ErrorClass>,
    ) {
        let found = window.answers.from_wire(reply).filter(|handle| {
            window.answers.get(*handle).is_some_and(|answer| {
                let fits = match (data, &answer.data) {
                    (Some(data), Some((_, _, length))) => data.len() as u64 == *length,
                    (Some(_), None) => false,
                    (None, _) => true,
                };
                answer.target == target && fits
            })
        });
        let Some(answer) = found.and_then(|handle| window.answers.remove(handle)) else {
            self.windows.refused += 1;
            return;
        };
        let state = &mut window.targets[target as usize];
        state.answered += 1;
        let error = class.map(|class| self.refused_there(class, window.group.members[target as usize]));
        if let (Some(data), Some((to, at, _))) = (data, &answer.data) {
            to.write(*at, data);
        }
        match answer.request {
            Some(handle) => {
                if let Some(error) = error {
                    self.link.note_error(handle, error);
                }
                if answer.is_last {
                    self.link.complete(handle);
                }
            }
            None => error.into_iter().for_each(|error| _ = state.error.get_or_insert(error)),
        }
        self.link.notify();
    }

    /// Sends the records that have been collected for `target`.
    ///
    /// Returns `false` if they must wait: until the carrier's writes there have been made, or until there is
    /// room for a request. They leave by themselves then.
    fn send_batch(&mut self, window: &mut Window, target: u32) -> bool {
        let state = &mut window.targets[target as usize];
        if state.writes > 0 && !cfg!(weft_mutant = "records_before_writes") {
            return false;
        }
        while let Some(batch) = window.targets[target as usize].held.pop_front() {
            if !self.send_records(window, target, &batch) {
                window.targets[target as usize].held.push_front(batch);
                return false;
            }
        }
        let mut batch = std::mem::take(&mut window.targets[target as usize].batch);
        let has_left = self.send_records(window, target, &batch);
        if has_left {
            batch.clear();
            if batch.capacity() > NODE_BATCH_BYTES {
                self.windows.spare = std::mem::take(&mut batch);
            }
        }
        window.targets[target as usize].batch = batch;
        has_left
    }

    /// Sends records to `target`; returns `false` if there are so many requests that there is no room for one
    /// more.
    fn send_records(&mut self, window: &mut Window, target: u32, batch: &[u8]) -> bool {
        let peer = window.group.members[target as usize];
        if batch.is_empty() || self.link.has_failed(peer) {
            return true;
        }
        let envelope = Envelope { context: window.context, source: window.rank, tag: BATCH_TAG };
        if batch.len() <= NODE_BATCH_BYTES {
            let room = self.windows.outgoing.get_or_insert_with(|| SharedBuffer::new(NODE_BATCH_BYTES));
            room.write(0, batch);
            let data = room.describe(0, batch.len() as u64, byte());
            if self.link.send_now(peer, envelope, &data) {
                return true;
            }
        }
        // There may be many batches: each has just the memory that it needs.
        let room = SharedBuffer::new(batch.len());
        room.write(0, batch);
        let data = room.describe(0, batch.len() as u64, byte());
        // A batch over the network leaves eagerly onto a busy path as well, like the message of a blocking
        // call. Announced batches would be fetched one after the other.
        let blocking = self.link.eager_max(peer).1.is_none();
        let send = Send { peer: Some(peer), envelope, data, mode: Mode::Standard, blocking };
        let Ok(handle) = self.link.add(State::Queued(send), window.communicator) else {
            // A batch may hold records that other processes wait for: it is not lost, but tried again.
            self.windows.has_collected = true;
            return false;
        };
        self.forget_what_has_left();
        self.windows.leaving.push((handle, room));
        self.link.free(handle);
        self.link.start_send(handle);
        true
    }

    /// Frees the memory of batches that have left. That is seldom done, as there may be many that have not
    /// left.
    fn forget_what_has_left(&mut self) {
        let Self { windows, link } = self;
        if windows.leaving.len() >= windows.leaving_max {
            windows.leaving.retain(|(handle, _)| link.request(*handle).is_some_and(|request| !request.is_over()));
            windows.leaving_max = (2 * windows.leaving.len()).max(LEAVING_MIN);
        }
    }

    /// Gives the lock of this process's memory back for `rank`; the processes that get it are told.
    fn release_lock(&mut self, window: &mut Window, rank: u32) {
        let mut granted = Vec::new();
        window.lock.release(rank, |claim| granted.push(claim));
        self.grant(window, granted);
    }

    fn grant(&mut self, window: &mut Window, granted: Vec<Claim>) {
        for claim in granted {
            if claim.rank == window.rank {
                self.end_answer(window, claim.rank, claim.reply, None, None);
            } else {
                self.record(window, claim.rank, &Record::Done { reply: claim.reply, class: 0 });
                self.send_batch(window, claim.rank);
            }
        }
    }

    /// Carries out the operations of other processes, and ends those of this process that have been answered.
    #[inline]
    pub(super) fn progress(&mut self) {
        if !self.windows.is_empty() {
            if std::mem::take(&mut self.windows.has_collected) {
                self.send_all_collected();
            }
            if self.windows.seen != self.link.completions() {
                self.serve_windows();
            }
            if !self.windows.unbegun.is_empty() {
                self.begin_unbegun();
            }
        }
    }

    #[inline(never)]
    fn send_all_collected(&mut self) {
        for index in 0..self.windows.table.len() {
            let Some(mut window) = self.windows.table[index].take() else { continue };
            for index in 0..window.busy.len() {
                let rank = window.busy[index];
                self.send_batch(&mut window, rank);
            }
            self.windows.table[index] = Some(window);
        }
    }

    #[inline(never)]
    fn serve_windows(&mut self) {
        let mut turns = 0;
        while self.windows.seen != self.link.completions() && turns < TURNS_MAX {
            self.windows.seen = self.link.completions();
            self.end_pieces();
            let failed = std::mem::take(&mut self.windows.failed);
            for index in 0..self.windows.table.len() {
                let Some(mut window) = self.windows.table[index].take() else { continue };
                self.take_batches(&mut window);
                self.end_failed((index, &mut window), &failed);
                self.settle(&mut window);
                let asking = std::mem::take(&mut window.asking);
                for rank in asking {
                    window.sources[rank as usize].is_asking = false;
                    self.serve(&mut window, rank);
                    let source = &window.sources[rank as usize];
                    if !source.batches.is_empty() || !source.transfers.is_empty() || source.accumulating.is_some() {
                        window.note_asking(rank);
                    }
                }
                self.windows.table[index] = Some(window);
            }
            turns += 1;
        }
    }

    /// Ends transfers that are complete.
    fn settle(&mut self, window: &mut Window) {
        let mut at = 0;
        while at < window.busy.len() {
            let rank = window.busy[at];
            // There may be many: a caller that waits for those behind the first waits for the first as well.
            while let Some(first) = window.targets[rank as usize].transfers.front()
                && !self.link.is_under_way(first.handle)
            {
                let ended = window.targets[rank as usize].transfers.pop_front();
                let error = ended.and_then(|ended| self.end_transfer(window, rank, &ended));
                let target = &mut window.targets[rank as usize];
                error.into_iter().for_each(|error| _ = target.error.get_or_insert(error));
                self.link.notify();
            }
            self.settle_requested(window, rank);
            let target = &mut window.targets[rank as usize];
            if target.is_idle() {
                target.is_busy = false;
                window.busy.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Ends complete transfers for which requests of the program wait.
    fn settle_requested(&mut self, window: &mut Window, rank: u32) {
        let requested = &mut window.targets[rank as usize].requested;
        if requested.iter().all(|transfer| self.link.is_under_way(transfer.handle)) {
            return;
        }
        let is_over = |transfer: &mut Transfer| !self.link.is_under_way(transfer.handle);
        let ended: Vec<Transfer> = requested.extract_if(.., is_over).collect();
        for transfer in ended {
            let error = self.end_transfer(window, rank, &transfer);
            let Some(request) = transfer.request else { continue };
            if let Some(error) = error {
                self.link.note_error(request, error);
            }
            // All transfers of an access in parts must be over: the program uses its buffer then.
            let requested = &window.targets[rank as usize].requested;
            if !(transfer.is_part && requested.iter().any(|other| other.request == Some(request))) {
                self.link.complete(request);
            }
        }
    }

    /// Forgets the message of a transfer, and returns its error. A transfer that brought less than was asked
    /// for has been refused.
    fn end_transfer(&mut self, window: &Window, rank: u32, transfer: &Transfer) -> Option<Error> {
        let arrived = self.link.request(transfer.handle).map_or(0, |request| request.status.bytes);
        let error = self.link.take_error(transfer.handle);
        let is_short = arrived < transfer.expected;
        error.or_else(|| is_short.then(|| self.refused_there(ErrorClass::RmaRange, window.member(rank))))
    }

    /// Notes that `peer` is gone: operations that wait for it fail, and its locks are free.
    pub(super) fn leave_peer(&mut self, peer: PeerId) {
        if !self.windows.is_empty() {
            // A window may be in use just now.
            self.windows.failed.push(peer);
            self.link.notify();
        }
    }

    /// Ends everything that waits in the windows of these contexts with `error`: they have been revoked.
    pub fn interrupt(&mut self, contexts: &std::ops::Range<u32>, error: &Error) {
        for index in 0..self.windows.table.len() {
            let Some(mut window) = self.windows.table[index].take_if(|window| contexts.contains(&window.context))
            else {
                continue;
            };
            window.revoked = Some(error.clone());
            for rank in 0..window.size() {
                self.leave_window((index, &mut window), rank, error.clone());
            }
            self.windows.table[index] = Some(window);
        }
    }

    fn end_failed(&mut self, (index, window): (usize, &mut Window), failed: &[PeerId]) {
        for peer in failed {
            if let Some(rank) = window.group.members.iter().position(|member| member == peer) {
                let error = self.link.failure(window.member(rank as u32));
                self.leave_window((index, window), rank as u32, error);
            }
        }
    }

    fn leave_window(&mut self, (index, window): (usize, &mut Window), rank: u32, error: Error) {
        let waiting: Vec<usize> =
            window.answers.iter().filter(|(_, answer)| answer.target == rank).map(|(handle, _)| handle).collect();
        for handle in &waiting {
            if let Some(Answer { request: Some(request), is_last: true, .. }) = window.answers.remove(*handle) {
                self.link.fail(request, error.clone());
            }
        }
        let abandoned = self.abandon_placed((index, window), rank, &error);
        let target = &mut window.targets[rank as usize];
        let lost = target.is_dirty || target.is_written || abandoned || !waiting.is_empty() || !target.batch.is_empty();
        target.answered = target.asked;
        (target.is_dirty, target.is_written, target.is_unanswered) = (false, false, false);
        target.batch.clear();
        target.held.clear();
        if lost {
            target.error.get_or_insert(error);
        }
        // The transfers fail with their messages.
        window.note_busy(rank);
        let mut granted = Vec::new();
        window.lock.forget(rank, |claim| granted.push(claim));
        self.grant(window, granted);
        self.link.notify();
    }

    /// The error of an operation that its target has refused.
    #[cold]
    fn refused_there(&self, class: ErrorClass, peer: PeerId) -> Error {
        let number = self.link.number(peer).map_or_else(|| "(which has left)".to_owned(), |number| number.to_string());
        let why = match class {
            ErrorClass::RmaRange => "what it names is not in the window there: not in its range, or not attached",
            ErrorClass::ProcAborted => "a process that it needed is gone",
            _ => "it could not be done there",
        };
        Error::new(class, format!("process {number} of the job has refused a one-sided operation: {why}"))
    }
}

/// A datatype of which one item is a byte.
fn byte() -> &'static Layout {
    static BYTE: std::sync::LazyLock<Layout> = std::sync::LazyLock::new(|| Layout::element(Element::Byte));
    &BYTE
}

/// The packed bytes of `data` from `offset` on.
fn packed(data: &UserData, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    data.read(offset, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expect: what is a record fits into a batch, a lone put together with the flush that follows it.
    #[test]
    fn records_fit_into_batches_on_every_route() {
        let limits = |batch, record, lone_put| Limits { batch, record, lone_put };
        let eager = 256 << 10;
        for (eager_limit, immediate_max, expected) in [
            (eager, None, limits(BATCH_BYTES, RECORD_BYTES, LONE_PUT_BYTES)),
            (10_000, None, limits(10_000, RECORD_BYTES, 9_952)),
            (1_000, None, limits(1_000, 952, 952)),
            (0, None, limits(512, 464, 464)),
            (eager, Some(65_000), limits(8_192, 8_144, 8_144)),
            (eager, Some(3_000), limits(3_000, 2_952, 2_952)),
            (eager, Some(0), limits(512, 464, 464)),
        ] {
            assert_eq!(Limits::new(eager_limit, immediate_max), expected, "{eager_limit}, {immediate_max:?}");
        }
        assert!(LONE_PUT_BYTES as usize + 2 * RECORD_MAX <= BATCH_BYTES);
    }
}
