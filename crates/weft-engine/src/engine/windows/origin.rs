//! One-sided operations at their origin: the way of each operation, and the requests to targets.
//!
//! `weft-mpi` calls it from `one_sided.rs`.

use weft_core::bytes;
use weft_core::layout::Element;
use weft_core::matching::Envelope;
use weft_core::one_sided::{RECORD_MAX, Record, TargetLocation};
use weft_core::reduce::Op;

use super::description::{Part, TargetItems, out_of_range};
use super::{ACCUMULATE_BYTES, ACCUMULATE_BYTES_MAX, COMPUTED_BYTES, FEW_BYTES, OneSided, packed};
use crate::error::Result;
use crate::memory::{self, Exposed, UserData};
use crate::request::{Mode, Receive, Send, State};
use crate::transport::Platform;
use crate::windows::{Answer, ForRequest, Reach, Window};

impl<P: Platform> OneSided<'_, P> {
    /// Makes the request of an operation that waits for something.
    pub(super) fn one_sided_request(&mut self, communicator: usize) -> Result<usize> {
        self.link.add_lasting(State::OneSided, communicator)
    }

    /// Begins `MPI_Put`, of the packed bytes of `origin`. Returns its request, if one is wanted: it completes
    /// when `origin` may be used again.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_RANGE`; too many requests; the target is gone.
    pub fn put(
        &mut self,
        index: usize,
        access: TargetItems<'_>,
        origin: &UserData,
        wanted: bool,
    ) -> Result<Option<usize>> {
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
            let is_alone = !std::mem::replace(&mut window.targets[access.target as usize].is_dirty, true);
            let limits = this.limits(window, access.target);
            let most = if is_alone { limits.lone_put } else { limits.record };
            let is_record = |part: &Part| !part.is_part && part.bytes() <= most;
            let mut request = wanted.then_some(this.link.complete_request());
            let begun = this.for_each_part(window, &access, 1, &mut |this, window, part| {
                if is_record(&part) {
                    let data = packed(origin, 0, part.bytes());
                    this.record(window, access.target, &Record::Put { location: part.location(0), data: &data });
                    return Ok(());
                }
                let location = part.location(part.range.start);
                let data = origin.part(part.range)?;
                let waits = this.request_of_parts(window, &mut request)?;
                this.put_by_message(window, access.target, location, &data, (waits, part.is_part))
            });
            this.conclude_access(window, access.target, begun, request)
        })
    }

    /// Returns the program's result for an access of which all has `begun`, or not. If not, the request is
    /// freed, and ends with the parts that have begun.
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

    /// Returns the request that messages of an access complete, if one is wanted: it is made for the first of
    /// them.
    fn request_of_parts(&mut self, window: &Window, request: &mut Option<usize>) -> Result<Option<usize>> {
        if *request == Some(self.link.complete_request()) {
            *request = Some(self.one_sided_request(window.communicator)?);
        }
        Ok(*request)
    }

    /// Puts by a message of its own, which goes straight to the other side's memory.
    pub(super) fn put_by_message(
        &mut self,
        window: &mut Window,
        target: u32,
        location: TargetLocation,
        origin: &UserData,
        request: ForRequest,
    ) -> Result<()> {
        let (tag, bytes) = (window.take_tag(false), origin.len());
        let handle = self.add_send(window, target, tag, origin.clone())?;
        self.record(window, target, &Record::PutLarge { location, bytes, tag });
        self.link.precede(true);
        self.send_batch(window, target);
        self.link.precede(false);
        window.add_transfer(target, handle, request, 0);
        self.link.start_send(handle);
        Ok(())
    }

    /// Makes the request of a message that carries `data` to `target`. It is made before a record announces
    /// the message: a target that waited for a message that could not be sent would wait for ever.
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

    /// Begins `MPI_Get`, to the packed bytes of `result`. Returns its request, if one is wanted: it completes
    /// when the bytes are there.
    ///
    /// # Errors
    /// As for [`OneSided::put`].
    pub fn get(
        &mut self,
        index: usize,
        access: TargetItems<'_>,
        result: &UserData,
        wanted: bool,
    ) -> Result<Option<usize>> {
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
            let most = this.limits(window, access.target).record;
            let is_record = |part: &Part| !part.is_part && part.bytes() <= most;
            let request = if wanted { Some(this.one_sided_request(window.communicator)?) } else { None };
            let begun = this.for_each_part(window, &access, 1, &mut |this, window, part| {
                if !is_record(&part) {
                    let location = part.location(part.range.start);
                    let data = result.part(part.range)?;
                    return this.get_by_message(window, access.target, location, &data, (request, part.is_part));
                }
                let bytes = part.bytes();
                let answer = Answer::of(access.target, Some((result.clone(), 0, bytes)), request);
                let reply = this.await_answer(window, answer)?;
                let record = Record::Get { location: part.location(0), bytes: bytes as u32, reply };
                this.record(window, access.target, &record);
                if wanted {
                    this.send_batch(window, access.target);
                }
                Ok(())
            });
            this.conclude_access(window, access.target, begun, request)
        })
    }

    /// Gets by a message of its own, which comes straight from the other side's memory.
    pub(super) fn get_by_message(
        &mut self,
        window: &mut Window,
        target: u32,
        location: TargetLocation,
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
        self.record(window, target, &Record::GetLarge { location, bytes, tag });
        self.send_batch(window, target);
        Ok(())
    }

    /// Begins `MPI_Accumulate`, or with a `result` `MPI_Get_accumulate`, of packed elements at `origin`,
    /// which is empty where the operation uses none. Returns its request, if one is wanted.
    ///
    /// # Errors
    /// As for [`OneSided::put`].
    pub fn accumulate(
        &mut self,
        index: usize,
        access: TargetItems<'_>,
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
            let small = whole((this.limits(window, target).batch.saturating_sub(RECORD_MAX)) as u64);
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
                    // Operands and results arrive in order: with the last one all are there.
                    let waits = request.filter(|_| wanted && piece.end == total);
                    let location = part.location(at);
                    window.targets[target as usize].is_dirty = true;
                    at = piece.end;
                    if is_large {
                        this.accumulate_large(window, (target, location), operation, &origin.part(piece)?, waits)?;
                        continue;
                    }
                    let (start, length) = (piece.start, piece.end - piece.start);
                    let data = if op == Op::NoOp { Vec::new() } else { packed(origin, start, length) };
                    let data = &data;
                    let Some(result) = result else {
                        this.record(window, target, &Record::Accumulate { location, op, element, data });
                        continue;
                    };
                    let whole = Answer::of(target, Some((result.clone(), start, length)), request.filter(|_| wanted));
                    let answer = Answer { is_last: piece.end == total, ..whole };
                    let reply = this.await_answer(window, answer)?;
                    let bytes = length as u32;
                    this.record(window, target, &Record::GetAccumulate { location, op, element, bytes, reply, data });
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
        (target, location): (u32, TargetLocation),
        (op, element): (Op, Element),
        data: &UserData,
        request: Option<usize>,
    ) -> Result<()> {
        let (tag, bytes) = (window.take_tag(false), data.len());
        let handle = self.add_send(window, target, tag, data.clone())?;
        self.record(window, target, &Record::AccumulateLarge { location, op, element, bytes, tag });
        self.send_batch(window, target);
        window.add_transfer(target, handle, (request, false), 0);
        self.link.start_send(handle);
        Ok(())
    }

    /// Begins `MPI_Compare_and_swap` of one element.
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

    pub(super) fn check_target(&self, window: &Window, target: u32) -> Result<()> {
        match &window.revoked {
            Some(error) => Err(error.clone()),
            None => self.link.check_peer(window.member(target)),
        }
    }

    /// Copies between `data` and a target whose memory can be copied; returns `false` if it cannot.
    fn copy_between(&mut self, window: &mut Window, access: &TargetItems<'_>, data: &UserData, writes: bool) -> bool {
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
    let step = (COMPUTED_BYTES / element.size() * element.size()) as u64;
    let mut skip = 0;
    let mut previous = Vec::new();
    while skip < target.len() {
        let length = step.min(target.len() - skip);
        let copied;
        let data = match origin {
            _ if op == Op::NoOp => &[],
            // MPI wants the two buffers apart; a program that does not obey gets numbers all the same.
            origin => match origin.run(skip, length).filter(|run| exposed.is_apart(run)) {
                Some(run) => run,
                None => {
                    copied = packed(origin, skip, length);
                    &copied[..]
                }
            },
        };
        let wanted = result.map(|_| {
            bytes::resize(&mut previous, length as usize);
            &mut previous[..]
        });
        exposed.accumulate(target, skip, operation, data, length as usize, wanted);
        if let Some(result) = result {
            result.write(skip, &previous);
        }
        skip += length;
    }
}
