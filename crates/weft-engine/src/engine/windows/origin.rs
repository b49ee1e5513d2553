//! One-sided operations at their origin: how each travels, and what is asked of targets.

use std::ops::Range;

use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::one_sided::{Claim, Items, Place, RECORD_MAX, Record};
use weft_core::reduce::Op;

use super::{
    ACCUMULATE_BYTES, ACCUMULATE_BYTES_MAX, BATCH_BYTES, DESCRIPTION_BYTES_MAX, FEW_BYTES, NO_ANSWER, OneSided,
    PART_LAYOUT, PART_RUNS, packed,
};
use crate::error::{Error, ErrorClass, Result};
use crate::memory::{self, Exposed, UserData};
use crate::request::{Mode, Receive, Send, State};
use crate::transport::{Platform, Proof};
use crate::windows::{Answer, Exposure, ForRequest, LAYOUTS_MAX, Mark, Reach, Window};

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
    Error::new(
        ErrorClass::RmaRange,
        format!("bytes {low} to {high} of the target are not in its window, which has {bytes} bytes"),
    )
}

/// How records say where an access is, or a part of it.
enum Told {
    /// Bytes from here on.
    Run(u64),
    /// Items of the datatype that has this number there.
    Items { offset: u64, layout: u32, count: u64 },
}

/// What records say of an access, and which of its packed bytes that is.
struct Part {
    told: Told,
    range: Range<u64>,
    /// There are others.
    is_part: bool,
}

impl Part {
    /// Where the packed byte `at` of the access is.
    fn place(&self, at: u64) -> Place {
        let skip = at - self.range.start;
        match self.told {
            Told::Run(offset) => Place { offset: offset + skip, items: None },
            Told::Items { offset, layout, count } => Place { offset, items: Some(Items { layout, count, skip }) },
        }
    }

    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl<P: Platform> OneSided<'_, P> {
    /// The request of an operation that waits for something, or of one that is complete.
    pub(super) fn one_sided_request(&mut self, communicator: usize) -> Result<usize> {
        self.link.add_lasting(State::OneSided, communicator)
    }

    /// `MPI_Put`, of the packed bytes of `origin`. The request of it, if one is wanted: it completes when `origin` may be used again.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_RANGE`; too many requests; the target is gone.
    pub fn put(&mut self, index: usize, access: Access<'_>, origin: &UserData, wanted: bool) -> Result<Option<usize>> {
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| window.reach(access.target)) {
            memory::copy(origin, &access.within(exposed)?);
            return Ok(wanted.then_some(self.link.complete_request()));
        }
        self.with_window(index, |this, window| {
            if this.copy_between(window, &access, origin, true) {
                return Ok(wanted.then_some(this.link.complete_request()));
            }
            this.check_target(window, access.target)?;
            if let Some(request) = this.place((index, window), &access, origin, true, wanted)? {
                return Ok(request);
            }
            window.targets[access.target as usize].is_dirty = true;
            let room = this.batch_bytes(window, access.target) as u64;
            let is_record = |part: &Part| !part.is_part && part.bytes() + RECORD_MAX as u64 <= room;
            let mut request = wanted.then_some(this.link.complete_request());
            let begun = this.for_each_part(window, &access, 1, &mut |this, window, part| {
                if is_record(&part) {
                    let data = packed(origin, 0, part.bytes());
                    this.record(window, access.target, &Record::Put { place: part.place(0), data: &data });
                    return Ok(());
                }
                let place = part.place(part.range.start);
                let data = origin.part(part.range)?;
                let waits = this.request_of_parts(window, &mut request)?;
                this.put_by_message(window, access.target, place, &data, (waits, part.is_part))
            });
            this.conclude_access(window, access.target, begun, request)
        })
    }

    /// What the program gets of an access of which all has `begun`, or not: then its request ends with what has.
    fn conclude_access(
        &mut self,
        window: &Window,
        target: u32,
        begun: Result<()>,
        request: Option<usize>,
    ) -> Result<Option<usize>> {
        if let (Err(_), Some(handle)) = (&begun, request.filter(|request| *request != self.link.complete_request())) {
            let waits = window.targets[target as usize].requested.iter().any(|transfer| transfer.request == request);
            self.link.free(handle);
            if !waits {
                self.link.complete(handle);
            }
        }
        begun.map(|()| request)
    }

    /// The request that messages of an access complete, if one is wanted: it is made for the first of them.
    fn request_of_parts(&mut self, window: &Window, request: &mut Option<usize>) -> Result<Option<usize>> {
        if *request == Some(self.link.complete_request()) {
            *request = Some(self.one_sided_request(window.communicator)?);
        }
        Ok(*request)
    }

    /// A put as a message of its own, which goes straight to the other side's memory.
    pub(super) fn put_by_message(
        &mut self,
        window: &mut Window,
        target: u32,
        place: Place,
        origin: &UserData,
        request: ForRequest,
    ) -> Result<()> {
        let (tag, bytes) = (window.take_tag(false), origin.len());
        let handle = self.add_send(window, target, tag, origin.clone())?;
        self.record(window, target, &Record::PutLarge { place, bytes, tag });
        self.send_batch(window, target);
        window.add_transfer(target, handle, request, 0);
        self.link.start_send(handle);
        Ok(())
    }

    /// The request of a message that carries `data` to `target`. It is there before a record says that the message comes: who waits for one that could not
    /// be sent would wait for ever.
    fn add_send(&mut self, window: &Window, target: u32, tag: i32, data: UserData) -> Result<usize> {
        let send = Send {
            peer: Some(window.member(target)),
            envelope: Envelope { context: window.context, source: window.rank, tag },
            data,
            mode: Mode::Standard,
            blocking: false,
        };
        self.link.add(State::Queued(send), window.communicator)
    }

    /// `MPI_Get`, to the packed bytes of `result`. The request of it, if one is wanted: it completes when they are there.
    ///
    /// # Errors
    /// As for [`OneSided::put`].
    pub fn get(&mut self, index: usize, access: Access<'_>, result: &UserData, wanted: bool) -> Result<Option<usize>> {
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| window.reach(access.target)) {
            memory::copy(&access.within(exposed)?, result);
            return Ok(wanted.then_some(self.link.complete_request()));
        }
        self.with_window(index, |this, window| {
            if this.copy_between(window, &access, result, false) {
                return Ok(wanted.then_some(this.link.complete_request()));
            }
            this.check_target(window, access.target)?;
            if let Some(request) = this.place((index, window), &access, result, false, wanted)? {
                return Ok(request);
            }
            let room = this.batch_bytes(window, access.target) as u64;
            let is_record = |part: &Part| !part.is_part && part.bytes() + RECORD_MAX as u64 <= room;
            let request = if wanted { Some(this.one_sided_request(window.communicator)?) } else { None };
            let begun = this.for_each_part(window, &access, 1, &mut |this, window, part| {
                if !is_record(&part) {
                    let place = part.place(part.range.start);
                    let data = result.part(part.range)?;
                    return this.get_by_message(window, access.target, place, &data, (request, part.is_part));
                }
                let bytes = part.bytes();
                let answer = Answer::of(access.target, Some((result.clone(), 0, bytes)), request);
                let reply = this.await_answer(window, answer)?;
                let record = Record::Get { place: part.place(0), bytes: bytes as u32, reply };
                this.record(window, access.target, &record);
                if wanted {
                    this.send_batch(window, access.target);
                }
                Ok(())
            });
            this.conclude_access(window, access.target, begun, request)
        })
    }

    /// The same the other way.
    pub(super) fn get_by_message(
        &mut self,
        window: &mut Window,
        target: u32,
        place: Place,
        result: &UserData,
        request: ForRequest,
    ) -> Result<()> {
        let (tag, bytes) = (window.take_tag(true), result.len());
        let receive = Receive {
            context: Some(window.context),
            source: Some(target),
            peer: Some(window.member(target)),
            tag: Some(tag),
            data: result.clone(),
            blocking: false,
        };
        let handle = self.link.add(State::Posted(receive), window.communicator)?;
        window.add_transfer(target, handle, request, bytes);
        self.link.start_receive(handle);
        self.record(window, target, &Record::GetLarge { place, bytes, tag });
        self.send_batch(window, target);
        Ok(())
    }

    /// `MPI_Accumulate`, and with a `result` `MPI_Get_accumulate`, of packed elements at `origin`, which is empty where the operation uses none.
    /// The request of it, if one is wanted.
    ///
    /// # Errors
    /// As for [`OneSided::put`].
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
            return Ok(wanted.then_some(self.link.complete_request()));
        }
        if let Some(Reach::Mapped(exposed)) = self.windows.get(index).map(|window| *window.reach(access.target)) {
            let target = access.within(&exposed)?;
            compute(&exposed, &target, operation, origin, result);
            return Ok(wanted.then_some(self.link.complete_request()));
        }
        self.with_window(index, |this, window| {
            this.check_target(window, access.target)?;
            let (target, size) = (access.target, element.size() as u64);
            let whole = |most: u64| (most / size * size).max(size);
            let small = whole((this.batch_bytes(window, target).saturating_sub(RECORD_MAX)) as u64);
            let is_large = result.is_none() && total > ACCUMULATE_BYTES;
            let request = match result {
                Some(_) if wanted && total > 0 => Some(this.one_sided_request(window.communicator)?),
                _ if wanted && is_large => Some(this.one_sided_request(window.communicator)?),
                _ => wanted.then_some(this.link.complete_request()),
            };
            let step = if is_large { whole(ACCUMULATE_BYTES_MAX) } else { small };
            let begun = this.for_each_part(window, &access, size, &mut |this, window, part| {
                let mut at = part.range.start;
                while at < part.range.end {
                    let piece = at..part.range.end.min(at + step);
                    // What is computed with, and what it was, arrives in its order: with the last one all is there.
                    let waits = request.filter(|_| wanted && piece.end == total);
                    let place = part.place(at);
                    window.targets[target as usize].is_dirty = true;
                    at = piece.end;
                    if is_large {
                        this.accumulate_large(window, (target, place), operation, &origin.part(piece)?, waits)?;
                        continue;
                    }
                    let (start, length) = (piece.start, piece.end - piece.start);
                    let data = if op == Op::NoOp { Vec::new() } else { packed(origin, start, length) };
                    let data = &data;
                    let Some(result) = result else {
                        this.record(window, target, &Record::Accumulate { place, op, element, data });
                        continue;
                    };
                    let whole = Answer::of(target, Some((result.clone(), start, length)), request.filter(|_| wanted));
                    let answer = Answer { is_last: piece.end == total, ..whole };
                    let reply = this.await_answer(window, answer)?;
                    let bytes = length as u32;
                    this.record(window, target, &Record::GetAccumulate { place, op, element, bytes, reply, data });
                }
                Ok(())
            });
            if wanted {
                this.send_batch(window, target);
            }
            this.conclude_access(window, target, begun, request)
        })
    }

    fn accumulate_large(
        &mut self,
        window: &mut Window,
        (target, place): (u32, Place),
        (op, element): (Op, Element),
        data: &UserData,
        request: Option<usize>,
    ) -> Result<()> {
        let (tag, bytes) = (window.take_tag(false), data.len());
        let handle = self.add_send(window, target, tag, data.clone())?;
        self.record(window, target, &Record::AccumulateLarge { place, op, element, bytes, tag });
        self.send_batch(window, target);
        window.add_transfer(target, handle, (request, false), 0);
        self.link.start_send(handle);
        Ok(())
    }

    /// `MPI_Compare_and_swap` of one element.
    ///
    /// # Errors
    /// As for [`OneSided::put`].
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
        self.with_window(index, |this, window| {
            this.check_target(window, target)?;
            let answer = Answer::of(target, Some((result.clone(), 0, size)), None);
            let reply = this.await_answer(window, answer)?;
            this.record(window, target, &Record::CompareAndSwap { offset, element, reply, data: &values });
            window.targets[target as usize].is_dirty = true;
            Ok(())
        })
    }

    /// Asks `target` to say when all is done that this process has begun there: it is when the mark [is reached](Window::has_reached).
    ///
    /// # Errors
    /// Too many operations; the target is gone.
    pub fn flush_target(&mut self, index: usize, target: u32) -> Result<Mark> {
        self.with_window(index, |this, window| {
            let state = &window.targets[target as usize];
            if state.is_dirty {
                this.check_target(window, target)?;
                let reply = this.await_answer(window, Answer::of(target, None, None))?;
                let state = &mut window.targets[target as usize];
                (state.is_dirty, state.is_written, state.is_unanswered) = (false, false, false);
                this.record(window, target, &Record::Flush { reply });
            } else if state.is_written {
                this.check_target(window, target)?;
                this.prove((index, window), target)?;
            }
            this.send_batch(window, target);
            Ok(window.mark(target))
        })
    }

    /// Sends what has been collected for `target`: when the mark is reached, the program may use the buffers again of what it has begun.
    ///
    /// # Errors
    /// The window is gone.
    pub fn send_collected(&mut self, index: usize, target: u32) -> Result<Mark> {
        self.with_window(index, |this, window| {
            this.send_batch(window, target);
            Ok(window.mark(target))
        })
    }

    /// Asks for the lock of `target`. It is given when nothing is waited for of it.
    ///
    /// # Errors
    /// As for [`OneSided::flush_target`].
    pub fn lock_target(&mut self, index: usize, target: u32, exclusive: bool) -> Result<()> {
        self.with_window(index, |this, window| {
            this.check_target(window, target)?;
            let reply = this.await_answer(window, Answer::of(target, None, None))?;
            if target == window.rank {
                if window.lock.request(Claim { rank: target, exclusive, reply }) {
                    this.end_answer(window, target, reply, None, None);
                }
                return Ok(());
            }
            this.record(window, target, &Record::Lock { exclusive, reply });
            this.send_batch(window, target);
            Ok(())
        })
    }

    /// Gives the lock of `target` back, after all that this process has begun there: that is done when nothing is waited for.
    ///
    /// # Errors
    /// As for [`OneSided::flush_target`].
    pub fn unlock_target(&mut self, index: usize, target: u32) -> Result<()> {
        self.with_window(index, |this, window| {
            if target == window.rank {
                this.release_lock(window, target);
                return Ok(());
            }
            this.check_target(window, target)?;
            let needs_read =
                window.targets[target as usize].is_written && this.proof(window, target) == Some(Proof::Read);
            let reply = if window.targets[target as usize].is_dirty || needs_read {
                this.await_answer(window, Answer::of(target, None, None))
            } else {
                Ok(NO_ANSWER)
            };
            let state = &mut window.targets[target as usize];
            if reply.is_ok() {
                (state.is_dirty, state.is_written) = (false, false);
            }
            state.is_unanswered = *reply.as_ref().unwrap_or(&NO_ANSWER) == NO_ANSWER;
            // Others may wait for the lock, whatever becomes of the answer.
            this.record(window, target, &Record::Unlock { reply: *reply.as_ref().unwrap_or(&NO_ANSWER) });
            this.send_batch(window, target);
            reply.map(|_| ())
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
        self.with_window(index, |this, window| {
            this.check_target(window, target)?;
            if target == window.rank {
                let own = &mut window.sources[target as usize];
                match record {
                    Record::Post => own.posts += 1,
                    _ => own.completes += 1,
                }
                this.link.notify();
                return Ok(());
            }
            this.record(window, target, record);
            let state = &mut window.targets[target as usize];
            if matches!(record, Record::Complete) {
                // It is counted there when all that came before it is done: no answer need be waited for. But what is attached, only the target knows,
                // and the call that ends the epoch says what it has refused.
                if state.is_dirty && matches!(window.exposure, Exposure::Attached(_)) {
                    let reply = this.await_answer(window, Answer::of(target, None, None))?;
                    this.record(window, target, &Record::Flush { reply });
                } else {
                    // Whoever frees the window asks for the rest, such as that it had no memory.
                    state.is_unanswered |= state.is_dirty;
                }
                let state = &mut window.targets[target as usize];
                (state.is_dirty, state.is_written) = (false, false);
            }
            this.send_batch(window, target);
            Ok(())
        })
    }

    fn check_target(&self, window: &Window, target: u32) -> Result<()> {
        self.link.check_peer(window.member(target))
    }

    /// Copies between `data` and a target whose memory can be copied; `false`: it cannot.
    fn copy_between(&mut self, window: &mut Window, access: &Access<'_>, data: &UserData, writes: bool) -> bool {
        let Reach::Neighbour { process, address, bytes } = *window.reach(access.target) else { return false };
        let Some((first, length)) = access.layout.single_run(access.count) else { return false };
        let begin = i128::from(access.offset) + i128::from(first);
        if begin < 0
            || begin + i128::from(length) > i128::from(bytes)
            || self.link.has_failed(window.member(access.target))
        {
            return false;
        }
        let at = address.wrapping_add(begin as u64);
        let range = 0..length.min(data.len());
        let link = &mut self.link;
        let copied = if writes { link.deliver(process, at, data, range) } else { link.fetch(process, at, data, range) };
        if copied.is_err() {
            // The system does not allow it, or that process is gone, which others find out.
            window.targets[access.target as usize].reach = Reach::Records;
        }
        copied.is_ok()
    }

    /// Calls `operation` for `access`, or for each part of it if the description of its datatype is too long for a target to keep. Parts end
    /// between pieces of `grain` packed bytes.
    ///
    /// # Errors
    /// What `operation` says; items are too far apart.
    fn for_each_part(
        &mut self,
        window: &mut Window,
        access: &Access<'_>,
        grain: u64,
        operation: &mut dyn FnMut(&mut Self, &mut Window, Part) -> Result<()>,
    ) -> Result<()> {
        let &Access { target, offset, count, layout } = access;
        if let Some(told) = self.describe_target(window, access) {
            let range = 0..layout.packed_size(count).unwrap_or(0);
            return operation(self, window, Part { told, range, is_part: false });
        }
        let mut outcome = Ok(());
        let cut = layout.cut(count, PART_RUNS, grain, &mut |part, range| {
            self.tell_layout(window, target, PART_LAYOUT, part);
            let told = Told::Items { offset, layout: PART_LAYOUT, count: 1 };
            outcome = operation(self, window, Part { told, range, is_part: true });
            outcome.is_ok()
        });
        outcome?;
        cut.map_err(|error| {
            Error::new(ErrorClass::NoMem, format!("the items cannot be described to their target: {error}"))
        })
    }

    /// How records say where `access` is; its datatype is told if it has not been. `None`: its description is too long.
    fn describe_target(&mut self, window: &mut Window, access: &Access<'_>) -> Option<Told> {
        let &Access { target, offset, count, layout } = access;
        if let Some((first, _)) = layout.single_run(count) {
            return Some(Told::Run(offset.wrapping_add_signed(first)));
        }
        let state = &mut window.targets[target as usize];
        if let Some(number) = state.layouts.iter().position(|known| known.is_same(layout)) {
            return Some(Told::Items { offset, layout: number as u32, count });
        }
        if !layout.is_described_in(DESCRIPTION_BYTES_MAX) {
            return None;
        }
        let number = state.layout_next;
        state.layout_next = (number + 1) % LAYOUTS_MAX;
        if number < state.layouts.len() {
            state.layouts[number] = layout.clone();
        } else {
            state.layouts.push(layout.clone());
        }
        self.tell_layout(window, target, number as u32, layout);
        Some(Told::Items { offset, layout: number as u32, count })
    }

    fn tell_layout(&mut self, window: &mut Window, target: u32, number: u32, layout: &Layout) {
        let mut description = Vec::new();
        layout.describe(&mut description);
        self.record(window, target, &Record::Layout { number, description: &description });
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
        let copied;
        let data = match origin {
            _ if op == Op::NoOp => &[],
            // MPI wants the two apart; a program that does not keep to it gets numbers all the same.
            origin => match origin.run(skip, length).filter(|run| exposed.is_apart(run)) {
                Some(run) => run,
                None => {
                    copied = packed(origin, skip, length);
                    &copied[..]
                }
            },
        };
        let wanted = result.map(|_| {
            previous.resize(length as usize, 0);
            &mut previous[..]
        });
        exposed.accumulate(target, skip, operation, data, length as usize, wanted);
        if let Some(result) = result {
            result.write(skip, &previous);
        }
        skip += length;
    }
}
