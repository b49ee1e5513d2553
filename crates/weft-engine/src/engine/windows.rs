//! Moves one-sided operations (`crate::windows`): begins them at their origin, does at their target what others ask for, and ends what is answered.

use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::message::HEAD_MAX;
use weft_core::one_sided::{Claim, Items, Place, RECORD_MAX, Record, Records};
use weft_core::reduce::Op;

use super::Engine;
use crate::error::{Error, NO_MEMORY, OTHER, PEER_GONE, RMA_RANGE, Result};
use crate::group::PeerId;
use crate::memory::{self, Exposed, SharedBuffer, UserData};
use crate::messages::{self, PeerAccess};
use crate::peers::Route;
use crate::request::{Mode, Receive, Send, State};
use crate::transport::Platform;
use crate::windows::{
    Accumulating, Answer, BATCH_TAG, Batch, Exposure, LAYOUTS_MAX, Mark, NewWindow, Reach, Transfer, Window,
};

/// A batch that another process sends is no longer than this: the description of a datatype is the longest record.
const BATCH_BYTES_MAX: u64 = 64 << 20;
/// Batches and records of this length leave, where the route does not say less.
const BATCH_BYTES: usize = 8 << 10;
/// Accumulates of more bytes travel as messages of their own …
const ACCUMULATE_BYTES: u64 = 64 << 10;
/// … of which each has so many bytes at most: the target keeps one of each origin.
const ACCUMULATE_BYTES_MAX: u64 = 1 << 20;
/// As little as this goes into a batch always.
const BATCH_BYTES_MIN: usize = 512;
/// Looks for what has arrived while what had arrived was done, in one pass.
const TURNS_MAX: u32 = 8;
/// Records of a program that calls MPI no more leave after so many nanoseconds.
const COLLECTED_DUE_NS: u64 = 50_000;
/// Elements of so many bytes are computed without memory of their own.
const FEW_BYTES: usize = 32;
/// Stands for an answer that nobody waits for.
const NO_ANSWER: u32 = u32::MAX;

/// Items of the target's memory (MPI-5.0 §12.3).
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// The target's rank in the window's group.
    pub target: u32,
    /// Bytes from the beginning of its window to the base of the first item; in a dynamic window, its address.
    pub offset: u64,
    /// How many items.
    pub count: u64,
    /// Their datatype.
    pub layout: &'a Layout,
}

impl Access<'_> {
    /// The items, if they lie in this memory.
    fn within(&self, exposed: &Exposed) -> Result<UserData> {
        exposed.items(self.offset, self.count, self.layout).ok_or_else(|| {
            let touched = self.layout.touched(self.count);
            out_of_range(self.offset, touched.start, touched.end, exposed.len())
        })
    }
}

#[cold]
fn out_of_range(offset: u64, low: i64, high: i64, bytes: u64) -> Error {
    let (low, high) = (i128::from(offset) + i128::from(low), i128::from(offset) + i128::from(high));
    Error::new(RMA_RANGE, format!("bytes {low} to {high} of the target are not in its window, which has {bytes} bytes"))
}

/// How a record says where.
enum Told {
    /// Bytes from here on.
    Run(u64),
    /// Items of the datatype that has this number there.
    Items { offset: u64, layout: u32, count: u64 },
}

impl Told {
    fn place(&self, skip: u64) -> Place {
        match *self {
            Self::Run(offset) => Place { offset: offset + skip, items: None },
            Self::Items { offset, layout, count } => Place { offset, items: Some(Items { layout, count, skip }) },
        }
    }
}

impl<P: Platform> Engine<P> {
    /// A new window; its index.
    pub fn open_window(&mut self, new: NewWindow) -> usize {
        let index = self.windows.open(new);
        self.progress_windows();
        index
    }

    /// The window `index` is gone.
    pub fn close_window(&mut self, index: usize) {
        self.windows.close(index);
    }

    /// Where the memory of the process `peer` of this node is, of which `bytes` bytes from `address` on are in a window; records where it lets
    /// nobody copy.
    pub fn neighbour_reach(&self, peer: PeerId, address: u64, bytes: u64) -> Reach {
        match self.peers.get(peer) {
            Some(peer) if peer.process != 0 && matches!(peer.route, Route::Shared(_)) => {
                Reach::Neighbour { process: peer.process, address, bytes }
            }
            _ => Reach::Records,
        }
    }

    /// Whether the memory of `peer` can be shared with this process.
    pub fn is_near(&self, peer: PeerId) -> bool {
        self.peers.are_near(&[peer])
    }

    /// Runs `operation` on a window, which is not in the table meanwhile.
    fn with_window<R>(
        &mut self,
        index: usize,
        operation: impl FnOnce(&mut Self, &mut Window) -> Result<R>,
    ) -> Result<R> {
        let taken = self.windows.table.get_mut(index).and_then(Option::take);
        let Some(mut window) = taken else { return Err(Error::new(OTHER, "the window is gone")) };
        let result = operation(self, &mut window);
        self.windows.table[index] = Some(window);
        result
    }

    /// The request of an operation that waits for something, or of one that is complete.
    fn one_sided_request(&mut self, communicator: usize) -> Result<usize> {
        let request = self.messages.add(State::OneSided, communicator)?;
        if let Some(added) = self.messages.requests.get_mut(request) {
            added.cancellation = crate::request::Cancellation::Excluded;
        }
        Ok(request)
    }

    /// `MPI_Put`, of the packed bytes of `origin`. The request of it, if one is wanted: it completes when `origin` may be used again.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_RANGE`; too many requests; the target is gone.
    pub fn put(&mut self, index: usize, access: Access<'_>, origin: &UserData, wanted: bool) -> Result<Option<usize>> {
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| window.reach(access.target)) {
            memory::copy(origin, &access.within(exposed)?);
            return Ok(wanted.then_some(self.messages.sent));
        }
        self.with_window(index, |engine, window| {
            if engine.copy_between(window, &access, origin, true) {
                return Ok(wanted.then_some(engine.messages.sent));
            }
            engine.check_target(window, access.target)?;
            let told = engine.describe_target(window, &access);
            let bytes = origin.len();
            if bytes + RECORD_MAX as u64 <= engine.batch_bytes(window, access.target) as u64 {
                let data = packed(origin, 0, bytes);
                engine.record(window, access.target, &Record::Put { place: told.place(0), data: &data });
                window.targets[access.target as usize].is_dirty = true;
                return Ok(wanted.then_some(engine.messages.sent));
            }
            let tag = window.take_tag();
            engine.record(window, access.target, &Record::PutLarge { place: told.place(0), bytes, tag });
            window.targets[access.target as usize].is_dirty = true;
            engine.send_batch(window, access.target);
            let request = if wanted { Some(engine.one_sided_request(window.communicator)?) } else { None };
            let send = Send {
                peer: Some(window.member(access.target)),
                envelope: Envelope { context: window.context, source: window.rank, tag },
                data: origin.clone(),
                mode: Mode::Standard,
                blocking: false,
            };
            let handle = engine.messages.add(State::Queued(send), window.communicator)?;
            window.add_transfer(access.target, handle, request);
            engine.start_send(handle);
            Ok(request)
        })
    }

    /// `MPI_Get`, to the packed bytes of `result`. The request of it, if one is wanted: it completes when they are there.
    ///
    /// # Errors
    /// As for [`Engine::put`].
    pub fn get(&mut self, index: usize, access: Access<'_>, result: &UserData, wanted: bool) -> Result<Option<usize>> {
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| window.reach(access.target)) {
            memory::copy(&access.within(exposed)?, result);
            return Ok(wanted.then_some(self.messages.sent));
        }
        self.with_window(index, |engine, window| {
            if engine.copy_between(window, &access, result, false) {
                return Ok(wanted.then_some(engine.messages.sent));
            }
            engine.check_target(window, access.target)?;
            let told = engine.describe_target(window, &access);
            let bytes = result.len();
            let request = if wanted { Some(engine.one_sided_request(window.communicator)?) } else { None };
            if bytes + RECORD_MAX as u64 <= engine.batch_bytes(window, access.target) as u64 {
                let answer = Answer { target: access.target, data: Some((result.clone(), 0, bytes)), request };
                let reply = engine.await_answer(window, answer)?;
                let record = Record::Get { place: told.place(0), bytes: bytes as u32, reply };
                engine.record(window, access.target, &record);
                if wanted {
                    engine.send_batch(window, access.target);
                }
                return Ok(request);
            }
            let tag = window.take_tag();
            let receive = Receive {
                context: Some(window.context),
                source: Some(access.target),
                peer: Some(window.member(access.target)),
                tag: Some(tag),
                data: result.clone(),
                blocking: false,
            };
            let handle = engine.messages.add(State::Posted(receive), window.communicator)?;
            window.add_transfer(access.target, handle, request);
            engine.start_receive(handle);
            engine.record(window, access.target, &Record::GetLarge { place: told.place(0), bytes, tag });
            engine.send_batch(window, access.target);
            Ok(request)
        })
    }

    /// `MPI_Accumulate`, and with a `result` `MPI_Get_accumulate`, of packed elements at `origin`, which is empty where the operation uses none.
    /// The request of it, if one is wanted.
    ///
    /// # Errors
    /// As for [`Engine::put`].
    pub fn accumulate(
        &mut self,
        index: usize,
        access: Access<'_>,
        operation: (Op, Element),
        origin: &UserData,
        result: Option<&UserData>,
        wanted: bool,
    ) -> Result<Option<usize>> {
        let (op, element) = operation;
        let total = access.layout.packed_size(access.count).unwrap_or(0);
        if op == Op::NoOp && result.is_none() {
            return Ok(wanted.then_some(self.messages.sent));
        }
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| *window.reach(access.target)) {
            let target = access.within(&exposed)?;
            compute(&exposed, &target, operation, origin, result);
            return Ok(wanted.then_some(self.messages.sent));
        }
        self.with_window(index, |engine, window| {
            engine.check_target(window, access.target)?;
            let told = engine.describe_target(window, &access);
            let most = engine.batch_bytes(window, access.target).saturating_sub(RECORD_MAX);
            let step = (most / element.size() * element.size()).max(element.size()) as u64;
            let request = match result {
                Some(_) if wanted && total > 0 => Some(engine.one_sided_request(window.communicator)?),
                _ => wanted.then_some(engine.messages.sent),
            };
            if result.is_none() && total > ACCUMULATE_BYTES {
                let step = ACCUMULATE_BYTES_MAX / element.size() as u64 * element.size() as u64;
                return engine.accumulate_large(window, (access.target, &told), operation, origin, step, wanted);
            }
            let mut skip = 0;
            while skip < total {
                let length = step.min(total - skip);
                let data = if op == Op::NoOp { Vec::new() } else { packed(origin, skip, length) };
                let place = told.place(skip);
                match result {
                    Some(result) => {
                        // Answers come in the order of their records: with the last one all are there.
                        let last = skip + length == total;
                        let data_to = Some((result.clone(), skip, length));
                        let answer = Answer {
                            target: access.target,
                            data: data_to,
                            request: request.filter(|_| last && wanted),
                        };
                        let reply = engine.await_answer(window, answer)?;
                        let bytes = length as u32;
                        let record = Record::GetAccumulate { place, op, element, bytes, reply, data: &data };
                        engine.record(window, access.target, &record);
                    }
                    None => {
                        engine.record(window, access.target, &Record::Accumulate { place, op, element, data: &data })
                    }
                }
                window.targets[access.target as usize].is_dirty = true;
                skip += length;
            }
            if wanted {
                engine.send_batch(window, access.target);
            }
            Ok(request)
        })
    }

    fn accumulate_large(
        &mut self,
        window: &mut Window,
        (target, told): (u32, &Told),
        (op, element): (Op, Element),
        origin: &UserData,
        step: u64,
        wanted: bool,
    ) -> Result<Option<usize>> {
        let request = if wanted { Some(self.one_sided_request(window.communicator)?) } else { None };
        let mut skip = 0;
        while skip < origin.len() {
            let bytes = step.min(origin.len() - skip);
            let tag = window.take_tag();
            let record = Record::AccumulateLarge { place: told.place(skip), op, element, bytes, tag };
            self.record(window, target, &record);
            window.targets[target as usize].is_dirty = true;
            self.send_batch(window, target);
            let send = Send {
                peer: Some(window.member(target)),
                envelope: Envelope { context: window.context, source: window.rank, tag },
                data: origin.part(skip..skip + bytes)?,
                mode: Mode::Standard,
                blocking: false,
            };
            let handle = self.messages.add(State::Queued(send), window.communicator)?;
            skip += bytes;
            // The parts arrive in their order: with the last one all have left.
            window.add_transfer(target, handle, request.filter(|_| skip == origin.len()));
            self.start_send(handle);
        }
        Ok(request)
    }

    /// `MPI_Compare_and_swap` of one element.
    ///
    /// # Errors
    /// As for [`Engine::put`].
    pub fn compare_and_swap(
        &mut self,
        index: usize,
        (target, offset): (u32, u64),
        element: Element,
        compare: &UserData,
        value: &UserData,
        result: &UserData,
    ) -> Result<()> {
        let size = element.size() as u64;
        let mut values = packed(compare, 0, size);
        values.extend(packed(value, 0, size));
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| *window.reach(target)) {
            let mut previous = Vec::with_capacity(size as usize);
            let (compare, value) = values.split_at(size as usize);
            if !exposed.compare_and_swap(offset, element, compare, value, &mut previous) {
                return Err(out_of_range(offset, 0, size as i64, exposed.len()));
            }
            result.write(0, &previous);
            return Ok(());
        }
        self.with_window(index, |engine, window| {
            engine.check_target(window, target)?;
            let answer = Answer { target, data: Some((result.clone(), 0, size)), request: None };
            let reply = engine.await_answer(window, answer)?;
            engine.record(window, target, &Record::CompareAndSwap { offset, element, reply, data: &values });
            window.targets[target as usize].is_dirty = true;
            Ok(())
        })
    }

    /// Asks `target` to say when all is done that this process has begun there: it is when the mark [is reached](Window::has_reached).
    ///
    /// # Errors
    /// Too many operations; the target is gone.
    pub fn flush_target(&mut self, index: usize, target: u32) -> Result<Mark> {
        self.with_window(index, |engine, window| {
            let state = &window.targets[target as usize];
            if state.is_dirty {
                engine.check_target(window, target)?;
                let reply = engine.await_answer(window, Answer { target, data: None, request: None })?;
                window.targets[target as usize].is_dirty = false;
                engine.record(window, target, &Record::Flush { reply });
            }
            engine.send_batch(window, target);
            Ok(window.mark(target))
        })
    }

    /// Sends what has been collected for `target`: when the mark is reached, the program may use the buffers again of what it has begun.
    ///
    /// # Errors
    /// The window is gone.
    pub fn send_collected(&mut self, index: usize, target: u32) -> Result<Mark> {
        self.with_window(index, |engine, window| {
            engine.send_batch(window, target);
            Ok(window.mark(target))
        })
    }

    /// Asks for the lock of `target`. It is given when nothing is waited for of it.
    ///
    /// # Errors
    /// As for [`Engine::flush_target`].
    pub fn lock_target(&mut self, index: usize, target: u32, exclusive: bool) -> Result<()> {
        self.with_window(index, |engine, window| {
            engine.check_target(window, target)?;
            let reply = engine.await_answer(window, Answer { target, data: None, request: None })?;
            if target == window.rank {
                if window.lock.request(Claim { rank: target, exclusive, reply }) {
                    engine.end_answer(window, target, reply, None, 0);
                }
                return Ok(());
            }
            engine.record(window, target, &Record::Lock { exclusive, reply });
            engine.send_batch(window, target);
            Ok(())
        })
    }

    /// Gives the lock of `target` back, after all that this process has begun there: that is done when nothing is waited for.
    ///
    /// # Errors
    /// As for [`Engine::flush_target`].
    pub fn unlock_target(&mut self, index: usize, target: u32) -> Result<()> {
        self.with_window(index, |engine, window| {
            if target == window.rank {
                engine.release_lock(window, target);
                return Ok(());
            }
            engine.check_target(window, target)?;
            let reply = if window.targets[target as usize].is_dirty {
                engine.await_answer(window, Answer { target, data: None, request: None })?
            } else {
                NO_ANSWER
            };
            window.targets[target as usize].is_dirty = false;
            engine.record(window, target, &Record::Unlock { reply });
            engine.send_batch(window, target);
            Ok(())
        })
    }

    /// Tells `target` that this process exposes its memory to it (`MPI_Win_post`).
    ///
    /// # Errors
    /// The target is gone.
    pub fn post_to(&mut self, index: usize, target: u32) -> Result<()> {
        self.tell_of(index, target, &Record::Post)
    }

    /// Tells `target` that this process has begun there all that it will (`MPI_Win_complete`).
    ///
    /// # Errors
    /// The target is gone.
    pub fn complete_at(&mut self, index: usize, target: u32) -> Result<()> {
        self.tell_of(index, target, &Record::Complete)
    }

    fn tell_of(&mut self, index: usize, target: u32, record: &Record<'_>) -> Result<()> {
        self.with_window(index, |engine, window| {
            engine.check_target(window, target)?;
            if target == window.rank {
                let own = &mut window.sources[target as usize];
                match record {
                    Record::Post => own.posts += 1,
                    _ => own.completes += 1,
                }
                engine.messages.completions += 1;
                return Ok(());
            }
            if matches!(record, Record::Complete) {
                // It is counted there when all that came before it is done: no answer need be waited for.
                window.targets[target as usize].is_dirty = false;
            }
            engine.record(window, target, record);
            engine.send_batch(window, target);
            Ok(())
        })
    }

    /// Why nothing comes of operations at `target`, if it is gone.
    ///
    /// # Errors
    /// `MPI_ERR_PROC_FAILED`, in our words.
    pub fn check_window_peer(&self, index: usize, rank: u32) -> Result<()> {
        match self.windows.get(index) {
            Some(window) => self.check_target(window, rank),
            None => Ok(()),
        }
    }

    fn check_target(&self, window: &Window, target: u32) -> Result<()> {
        let peer = window.member(target);
        if self.peers.has_failed(peer) { Err(messages::failure(peer, &self.peers)) } else { Ok(()) }
    }

    /// Copies between `data` and a target whose memory can be copied; `false`: it cannot.
    fn copy_between(&mut self, window: &mut Window, access: &Access<'_>, data: &UserData, writes: bool) -> bool {
        let Reach::Neighbour { process, address, bytes } = *window.reach(access.target) else { return false };
        let Some((first, length)) = access.layout.single_run(access.count) else { return false };
        let begin = i128::from(access.offset) + i128::from(first);
        if begin < 0
            || begin + i128::from(length) > i128::from(bytes)
            || self.peers.has_failed(window.member(access.target))
        {
            return false;
        }
        let at = address.wrapping_add(begin as u64);
        let range = 0..length.min(data.len());
        let near = &mut self.peers.near;
        let copied = if writes {
            memory::deliver(&near.memory, process, at, data, range, &mut near.bounce)
        } else {
            memory::fetch(&near.memory, process, at, data, range, &mut near.bounce)
        };
        if copied.is_err() {
            // The system does not allow it, or that process is gone, which others find out.
            window.targets[access.target as usize].reach = Reach::Records;
        }
        copied.is_ok()
    }

    /// How records say where `access` is; its datatype is told if it has not been.
    fn describe_target(&mut self, window: &mut Window, access: &Access<'_>) -> Told {
        let &Access { target, offset, count, layout } = access;
        if let Some((first, _)) = layout.single_run(count) {
            return Told::Run(offset.wrapping_add_signed(first));
        }
        let state = &mut window.targets[target as usize];
        if let Some(number) = state.layouts.iter().position(|known| known.is_same(layout)) {
            return Told::Items { offset, layout: number as u32, count };
        }
        let number = state.layout_next;
        state.layout_next = (number + 1) % LAYOUTS_MAX;
        if number < state.layouts.len() {
            state.layouts[number] = layout.clone();
        } else {
            state.layouts.push(layout.clone());
        }
        let mut description = Vec::new();
        layout.describe(&mut description);
        self.record(window, target, &Record::Layout { number: number as u32, description: &description });
        Told::Items { offset, layout: number as u32, count }
    }

    /// Bytes of a batch that fits what the route to `target` carries at once.
    fn batch_bytes(&mut self, window: &Window, target: u32) -> usize {
        let peer = window.member(target);
        let whole = match self.peers[peer].route {
            Route::Shared(_) => self.immediate_max as usize,
            Route::Remote(_) => self.submission(peer).frame_max().saturating_sub(HEAD_MAX),
            _ => BATCH_BYTES,
        };
        whole.min(self.eager_limit as usize).clamp(BATCH_BYTES_MIN, BATCH_BYTES)
    }

    /// Adds a record to what is collected for `target`; a full batch leaves.
    fn record(&mut self, window: &mut Window, target: u32, record: &Record<'_>) {
        let most = self.batch_bytes(window, target);
        let batch = &mut window.targets[target as usize].batch;
        let before = batch.len();
        record.write(batch);
        if before > 0 && batch.len() > most {
            let last = batch.split_off(before);
            self.send_batch(window, target);
            window.targets[target as usize].batch = last;
        }
        self.windows.has_collected = true;
        window.note_busy(target);
    }

    fn await_answer(&mut self, window: &mut Window, answer: Answer) -> Result<u32> {
        let target = answer.target;
        let full = || {
            Error::new(NO_MEMORY, "too many one-sided operations wait for answers (limit 16777216): flush some first")
        };
        let handle = window.answers.insert(answer).ok_or_else(full)?;
        window.targets[target as usize].asked += 1;
        window.note_busy(target);
        Ok(window.answers.wire(handle))
    }

    /// An answer has come: what waits for it ends.
    fn end_answer(&mut self, window: &mut Window, target: u32, reply: u32, data: Option<&[u8]>, class: i32) {
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
        let error = (class != 0).then(|| refused_there(class, window.group.members[target as usize], &self.peers));
        if let (Some(data), Some((to, at, _))) = (data, &answer.data) {
            to.write(*at, data);
        }
        match (answer.request, error) {
            (Some(request), Some(error)) => self.messages.fail(request, error),
            (Some(request), None) => self.messages.complete(request),
            (None, Some(error)) => _ = state.error.get_or_insert(error),
            (None, None) => {}
        }
        self.messages.completions += 1;
    }

    /// What has been collected for `target` leaves.
    fn send_batch(&mut self, window: &mut Window, target: u32) {
        let state = &mut window.targets[target as usize];
        if state.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut state.batch);
        let peer = window.group.members[target as usize];
        if self.peers.has_failed(peer) {
            return;
        }
        let envelope = Envelope { context: window.context, source: window.rank, tag: BATCH_TAG };
        let room = self.windows.outgoing.take().filter(|room| room.len() >= batch.len());
        let room = room.unwrap_or_else(|| SharedBuffer::new(batch.len().max(BATCH_BYTES + RECORD_MAX)));
        room.write(0, &batch);
        let data = room.describe(0, batch.len() as u64, byte());
        if self.send_now(peer, envelope, &data) {
            self.windows.outgoing = Some(room);
        } else {
            let send = Send { peer: Some(peer), envelope, data, mode: Mode::Standard, blocking: false };
            match self.messages.add(State::Queued(send), window.communicator) {
                Ok(handle) => {
                    let requests = &self.messages.requests;
                    self.windows.leaving.retain(|(handle, _)| requests.get(*handle).is_some_and(|r| !r.is_over()));
                    self.windows.leaving.push((handle, room));
                    if let Some(request) = self.messages.requests.get_mut(handle) {
                        request.freed = true;
                    }
                    self.start_send(handle);
                }
                Err(error) => _ = window.targets[target as usize].error.get_or_insert(error),
            }
        }
        batch.clear();
        let state = &mut window.targets[target as usize];
        if state.batch.is_empty() {
            state.batch = batch;
        }
    }

    /// `rank` gives the lock of this process's memory back; those that have it then hear of it.
    fn release_lock(&mut self, window: &mut Window, rank: u32) {
        let mut granted = Vec::new();
        window.lock.release(rank, |claim| granted.push(claim));
        self.grant(window, granted);
    }

    fn grant(&mut self, window: &mut Window, granted: Vec<Claim>) {
        for claim in granted {
            if claim.rank == window.rank {
                self.end_answer(window, claim.rank, claim.reply, None, 0);
            } else {
                self.record(window, claim.rank, &Record::Done { reply: claim.reply, class: 0 });
                self.send_batch(window, claim.rank);
            }
        }
    }

    /// Does what others have asked for, and ends what has been answered.
    #[inline]
    pub(super) fn progress_windows(&mut self) {
        if !self.windows.is_empty() {
            if std::mem::take(&mut self.windows.has_collected) {
                self.send_all_collected();
            }
            if self.windows.seen != self.messages.completions {
                self.serve_windows();
            }
        }
    }

    #[inline(never)]
    fn send_all_collected(&mut self) {
        for index in 0..self.windows.table.len() {
            let Some(mut window) = self.windows.table[index].take() else { continue };
            for place in 0..window.busy.len() {
                let rank = window.busy[place];
                self.send_batch(&mut window, rank);
            }
            self.windows.table[index] = Some(window);
        }
    }

    /// In how many nanoseconds records leave that have been collected.
    pub(super) fn windows_due(&self) -> Option<u64> {
        self.windows.has_collected.then_some(COLLECTED_DUE_NS)
    }

    /// Whether there may be something to do for windows.
    #[inline]
    pub(super) fn has_news_for_windows(&self) -> bool {
        !self.windows.is_empty() && (self.windows.has_collected || self.windows.seen != self.messages.completions)
    }

    #[inline(never)]
    fn serve_windows(&mut self) {
        let mut turns = 0;
        while self.windows.seen != self.messages.completions && turns < TURNS_MAX {
            self.windows.seen = self.messages.completions;
            let failed = std::mem::take(&mut self.windows.failed);
            for index in 0..self.windows.table.len() {
                let Some(mut window) = self.windows.table[index].take() else { continue };
                self.take_batches(&mut window);
                self.end_failed(&mut window, &failed);
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

    /// Takes the batches that have arrived out of the unexpected queue.
    fn take_batches(&mut self, window: &mut Window) {
        while let Some((envelope, unexpected)) = self.messages.matcher.extract(window.context, None, Some(BATCH_TAG)) {
            let Some(message) = self.messages.unexpected.get(unexpected) else { continue };
            let (peer, total, source) = (message.peer, message.total, envelope.source);
            let known = window.group.members.get(source as usize) == Some(&peer) && total <= BATCH_BYTES_MAX;
            let batch = match self.messages.take_whole(unexpected, &mut self.peers) {
                Some(bytes) => Batch::Whole(bytes),
                None => {
                    // What is not for us must be received all the same: its sender keeps it until then.
                    let buffer = SharedBuffer::new(if known { total as usize } else { 0 });
                    let receive = Receive {
                        context: Some(window.context),
                        source: Some(source),
                        peer: Some(peer),
                        tag: Some(BATCH_TAG),
                        data: buffer.describe_all(),
                        blocking: false,
                    };
                    let Ok(handle) = self.messages.add(State::Posted(receive), window.communicator) else { continue };
                    self.claim(handle, envelope, unexpected);
                    Batch::Arriving(handle, buffer)
                }
            };
            if !known {
                self.windows.refused += 1;
                continue;
            }
            window.sources[source as usize].batches.push_back(batch);
            window.note_asking(source);
        }
        self.flush();
    }

    /// Ends transfers that are complete.
    fn settle(&mut self, window: &mut Window) {
        let mut at = 0;
        while at < window.busy.len() {
            let rank = window.busy[at];
            let target = &mut window.targets[rank as usize];
            let messages = &mut self.messages;
            let mut failed = None;
            target.transfers.retain(|Transfer { handle, request, .. }| {
                if messages.requests.get(*handle).is_some_and(|request| !request.is_complete()) {
                    return true;
                }
                let error = messages.take_error(*handle);
                match (*request, error) {
                    (Some(request), Some(error)) => messages.fail(request, error),
                    (Some(request), None) => messages.complete(request),
                    (None, Some(error)) => failed = Some(error),
                    (None, None) => messages.completions += 1,
                }
                false
            });
            if let Some(error) = failed {
                target.error.get_or_insert(error);
                messages.completions += 1;
            }
            if target.is_idle() {
                target.is_busy = false;
                window.busy.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Does what the process `rank` has asked for, as far as that can be done now.
    fn serve(&mut self, window: &mut Window, rank: u32) {
        let source = &mut window.sources[rank as usize];
        let mut class = 0;
        let messages = &mut self.messages;
        source.transfers.retain(|handle| {
            if messages.requests.get(*handle).is_some_and(|request| !request.is_complete()) {
                return true;
            }
            if let Some(error) = messages.take_error(*handle) {
                class = error.class;
            }
            false
        });
        if class != 0 {
            source.class = class;
        }
        self.end_accumulate(window, rank);
        while let Some(batch) = window.sources[rank as usize].batches.front_mut() {
            let bytes = match batch {
                Batch::Whole(bytes) => std::mem::take(bytes),
                Batch::Arriving(handle, buffer) => {
                    let (handle, buffer) = (*handle, buffer.clone());
                    if self.messages.requests.get(handle).is_some_and(|request| !request.is_complete()) {
                        break;
                    }
                    if self.messages.take_error(handle).is_some() {
                        // Its sender is gone.
                        window.sources[rank as usize].batches.pop_front();
                        continue;
                    }
                    let mut bytes = vec![0; buffer.len()];
                    buffer.read(0, &mut bytes);
                    bytes
                }
            };
            let read = window.sources[rank as usize].read;
            let done = self.serve_batch(window, rank, &bytes[read..]);
            let source = &mut window.sources[rank as usize];
            if let Some(more) = done {
                // The next record waits for a transfer.
                source.read = read + more;
                source.batches[0] = Batch::Whole(bytes);
                break;
            }
            source.read = 0;
            source.batches.pop_front();
            self.messages.put_aside(bytes);
        }
        self.send_batch(window, rank);
    }

    /// Does what the records of a batch say; `Some`: up to this byte, because the next one waits for a transfer.
    fn serve_batch(&mut self, window: &mut Window, rank: u32, batch: &[u8]) -> Option<usize> {
        let mut records = Records::new(batch);
        loop {
            let at = batch.len() - records.left();
            let record = match records.next() {
                None => return None,
                Some(Err(_)) => {
                    self.windows.refused += 1;
                    return None;
                }
                Some(Ok(record)) => record,
            };
            let waits = matches!(record, Record::Flush { .. } | Record::Unlock { .. } | Record::Complete);
            let source = &window.sources[rank as usize];
            if source.accumulating.is_some() || waits && !source.transfers.is_empty() {
                return Some(at);
            }
            self.serve_record(window, rank, &record);
        }
    }

    fn serve_record(&mut self, window: &mut Window, rank: u32, record: &Record<'_>) {
        match *record {
            Record::Put { place, data } => match locate(window, rank, &place, data.len() as u64) {
                Some((_, target, skip)) => target.write(skip, data),
                None => self.refuse(window, rank),
            },
            Record::PutLarge { place, bytes, tag } => {
                let found =
                    locate(window, rank, &place, bytes).filter(|(_, target, skip)| target.len() == bytes && *skip == 0);
                let data = match found {
                    Some((_, target, _)) => target,
                    None => {
                        // It is under way, and must be received.
                        self.refuse(window, rank);
                        UserData::empty()
                    }
                };
                let receive = Receive {
                    context: Some(window.context),
                    source: Some(rank),
                    peer: Some(window.member(rank)),
                    tag: Some(tag),
                    data,
                    blocking: false,
                };
                match self.messages.add(State::Posted(receive), window.communicator) {
                    Ok(handle) => {
                        window.sources[rank as usize].transfers.push(handle);
                        window.note_asking(rank);
                        self.start_receive(handle);
                    }
                    Err(_) => self.refuse(window, rank),
                }
            }
            Record::Get { place, bytes, reply } => {
                let found = locate(window, rank, &place, u64::from(bytes));
                match found {
                    Some((_, target, skip)) => {
                        let data = packed(&target, skip, u64::from(bytes));
                        self.record(window, rank, &Record::Data { reply, data: &data });
                    }
                    None => self.refuse_answer(window, rank, reply),
                }
            }
            Record::GetLarge { place, bytes, tag } => {
                let found =
                    locate(window, rank, &place, bytes).filter(|(_, target, skip)| target.len() == bytes && *skip == 0);
                let data = match found {
                    Some((_, target, _)) => target,
                    None => {
                        self.refuse(window, rank);
                        UserData::empty()
                    }
                };
                let send = Send {
                    peer: Some(window.member(rank)),
                    envelope: Envelope { context: window.context, source: window.rank, tag },
                    data,
                    mode: Mode::Standard,
                    blocking: false,
                };
                match self.messages.add(State::Queued(send), window.communicator) {
                    Ok(handle) => {
                        window.sources[rank as usize].transfers.push(handle);
                        window.note_asking(rank);
                        self.start_send(handle);
                    }
                    Err(_) => self.refuse(window, rank),
                }
            }
            Record::Accumulate { place, op, element, data } => {
                let whole = data.len().is_multiple_of(element.size());
                match locate(window, rank, &place, data.len() as u64).filter(|_| whole) {
                    Some((exposed, target, skip)) => {
                        exposed.accumulate(&target, skip, (op, element), data, data.len(), None);
                    }
                    None => self.refuse(window, rank),
                }
            }
            Record::AccumulateLarge { place, op, element, bytes, tag } => {
                // What is too long, or does not go where it shall, is received all the same.
                let room = if bytes <= ACCUMULATE_BYTES_MAX { bytes as usize } else { 0 };
                let buffer = SharedBuffer::new(room);
                let receive = Receive {
                    context: Some(window.context),
                    source: Some(rank),
                    peer: Some(window.member(rank)),
                    tag: Some(tag),
                    data: buffer.describe_all(),
                    blocking: false,
                };
                let Ok(handle) = self.messages.add(State::Posted(receive), window.communicator) else {
                    return self.refuse(window, rank);
                };
                let accumulating = Accumulating { handle, buffer, place, operation: (op, element) };
                window.sources[rank as usize].accumulating = Some(accumulating);
                window.note_asking(rank);
                self.start_receive(handle);
                self.end_accumulate(window, rank);
            }
            Record::GetAccumulate { place, op, element, bytes, reply, data } => {
                let length = bytes as usize;
                let whole = length.is_multiple_of(element.size()) && (op == Op::NoOp || data.len() == length);
                match locate(window, rank, &place, u64::from(bytes)).filter(|_| whole) {
                    Some((exposed, target, skip)) => {
                        let mut previous = vec![0; length];
                        exposed.accumulate(&target, skip, (op, element), data, length, Some(&mut previous));
                        self.record(window, rank, &Record::Data { reply, data: &previous });
                    }
                    None => self.refuse_answer(window, rank, reply),
                }
            }
            Record::CompareAndSwap { offset, element, reply, data } => {
                let size = element.size();
                let mut previous = Vec::with_capacity(size);
                let place = Place { offset, items: None };
                let swapped = data.len() == 2 * size
                    && locate(window, rank, &place, size as u64).is_some_and(|(exposed, target, _)| {
                        let at = target.address().map_or(u64::MAX, |address| address - exposed.address());
                        exposed.compare_and_swap(at, element, &data[..size], &data[size..], &mut previous)
                    });
                if swapped {
                    self.record(window, rank, &Record::Data { reply, data: &previous });
                } else {
                    self.refuse_answer(window, rank, reply);
                }
            }
            Record::Layout { number, description } => {
                let layouts = &mut window.sources[rank as usize].layouts;
                let number = number as usize;
                match Layout::from_description(description) {
                    Ok(layout) if number < LAYOUTS_MAX => {
                        if number >= layouts.len() {
                            layouts.resize(number + 1, None);
                        }
                        layouts[number] = Some(layout);
                    }
                    _ => self.windows.refused += 1,
                }
            }
            Record::Flush { reply } => self.done(window, rank, reply),
            Record::Lock { exclusive, reply } => {
                if window.lock.request(Claim { rank, exclusive, reply }) {
                    self.record(window, rank, &Record::Done { reply, class: 0 });
                }
            }
            Record::Unlock { reply } => {
                if reply != NO_ANSWER {
                    self.done(window, rank, reply);
                }
                self.release_lock(window, rank);
            }
            Record::Post => {
                window.sources[rank as usize].posts += 1;
                self.messages.completions += 1;
            }
            Record::Complete => {
                window.sources[rank as usize].completes += 1;
                self.messages.completions += 1;
            }
            Record::Data { reply, data } => self.end_answer(window, rank, reply, Some(data), 0),
            Record::Done { reply, class } => self.end_answer(window, rank, reply, None, class as i32),
        }
    }

    /// Computes with what has arrived of a large accumulate, if all of it has.
    fn end_accumulate(&mut self, window: &mut Window, rank: u32) {
        let Some(Accumulating { handle, .. }) = window.sources[rank as usize].accumulating else { return };
        if self.messages.requests.get(handle).is_some_and(|request| !request.is_complete()) {
            return;
        }
        let arrived = self.messages.requests.get(handle).map_or(0, |request| request.status.bytes);
        let error = self.messages.take_error(handle);
        let Some(Accumulating { buffer, place, operation, .. }) = window.sources[rank as usize].accumulating.take()
        else {
            return;
        };
        let bytes = buffer.len() as u64;
        let whole = error.is_none() && arrived == bytes && buffer.len().is_multiple_of(operation.1.size());
        match locate(window, rank, &place, bytes).filter(|_| whole) {
            Some((exposed, target, skip)) => buffer.with_bytes(|data| {
                exposed.accumulate(&target, skip, operation, data, data.len(), None);
            }),
            None => self.refuse(window, rank),
        }
    }

    /// All that `rank` has asked for before is done.
    fn done(&mut self, window: &mut Window, rank: u32, reply: u32) {
        let class = std::mem::take(&mut window.sources[rank as usize].class);
        self.record(window, rank, &Record::Done { reply, class: class as u32 });
    }

    /// An operation named what is not exposed: its origin hears of it when it asks whether all is done.
    #[cold]
    fn refuse(&mut self, window: &mut Window, rank: u32) {
        self.windows.refused += 1;
        window.sources[rank as usize].class = RMA_RANGE;
    }

    #[cold]
    fn refuse_answer(&mut self, window: &mut Window, rank: u32, reply: u32) {
        self.windows.refused += 1;
        self.record(window, rank, &Record::Done { reply, class: RMA_RANGE as u32 });
    }

    /// `peer` is gone: what waits for it fails, and what it has is free.
    pub(super) fn leave_windows(&mut self, peer: PeerId) {
        if !self.windows.is_empty() {
            // A window may be in use just now.
            self.windows.failed.push(peer);
            self.messages.completions += 1;
        }
    }

    fn end_failed(&mut self, window: &mut Window, failed: &[PeerId]) {
        for peer in failed {
            if let Some(rank) = window.group.members.iter().position(|member| member == peer) {
                self.leave_window(window, rank as u32);
            }
        }
    }

    fn leave_window(&mut self, window: &mut Window, rank: u32) {
        let error = messages::failure(window.member(rank), &self.peers);
        let waiting: Vec<usize> =
            window.answers.iter().filter(|(_, answer)| answer.target == rank).map(|(handle, _)| handle).collect();
        for handle in &waiting {
            if let Some(Answer { request: Some(request), .. }) = window.answers.remove(*handle) {
                self.messages.fail(request, error.clone());
            }
        }
        let target = &mut window.targets[rank as usize];
        let lost = target.is_dirty || !waiting.is_empty() || !target.batch.is_empty();
        target.answered = target.asked;
        target.is_dirty = false;
        target.batch.clear();
        if lost {
            target.error.get_or_insert(error);
        }
        // Its transfers fail with the messages that they are.
        window.note_busy(rank);
        let mut granted = Vec::new();
        window.lock.forget(rank, |claim| granted.push(claim));
        self.grant(window, granted);
        self.messages.completions += 1;
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

/// The memory that `rank` means by `length` packed bytes at `place`: where they are, and the packed byte at which they begin. `None`: it is not
/// exposed.
fn locate(window: &Window, rank: u32, place: &Place, length: u64) -> Option<(Exposed, UserData, u64)> {
    let in_memory = |exposed: &Exposed, offset: u64| -> Option<(Exposed, UserData, u64)> {
        match place.items {
            None => Some((*exposed, exposed.bytes(offset, length)?, 0)),
            Some(Items { layout, count, skip }) => {
                let layout = window.sources[rank as usize].layouts.get(layout as usize)?.as_ref()?;
                layout.packed_size(count).ok()?;
                let target = exposed.items(offset, count, layout)?;
                (skip.checked_add(length)? <= target.len()).then_some((*exposed, target, skip))
            }
        }
    };
    match &window.exposure {
        Exposure::Whole(exposed) => in_memory(exposed, place.offset),
        Exposure::Attached(parts) => {
            parts.runs().iter().find_map(|part| in_memory(part, place.offset.checked_sub(part.address())?))
        }
    }
}

/// Combines `origin` with memory of this address space.
fn compute(
    exposed: &Exposed,
    target: &UserData,
    operation: (Op, Element),
    origin: &UserData,
    result: Option<&UserData>,
) {
    let (op, element) = operation;
    let length = target.len() as usize;
    if length <= FEW_BYTES {
        let (mut data, mut previous) = ([0; FEW_BYTES], [0; FEW_BYTES]);
        let input = &mut data[..if op == Op::NoOp { 0 } else { length }];
        origin.read(0, input);
        let wanted = result.is_some().then_some(&mut previous[..length]);
        exposed.accumulate(target, 0, operation, input, length, wanted);
        if let Some(result) = result {
            result.write(0, &previous[..length]);
        }
        return;
    }
    let step = (BATCH_BYTES / element.size() * element.size()) as u64;
    let mut skip = 0;
    let mut previous = Vec::new();
    while skip < target.len() {
        let length = step.min(target.len() - skip);
        let data = if op == Op::NoOp { Vec::new() } else { packed(origin, skip, length) };
        previous.resize(length as usize, 0);
        let wanted = result.is_some().then_some(&mut previous[..]);
        exposed.accumulate(target, skip, operation, &data, length as usize, wanted);
        if let Some(result) = result {
            result.write(skip, &previous);
        }
        skip += length;
    }
}

/// The error of an operation that its target has refused.
#[cold]
fn refused_there(class: i32, peer: PeerId, peers: &impl PeerAccess) -> Error {
    let number = if peers.is_known(peer) { peers.number(peer).to_string() } else { "(which has left)".to_owned() };
    let why = match class {
        RMA_RANGE => "what it names is not in the window there: not in its range, or not attached",
        PEER_GONE => "a process that it needed is gone",
        _ => "it could not be done there",
    };
    Error::new(class, format!("process {number} of the job has refused a one-sided operation: {why}"))
}
