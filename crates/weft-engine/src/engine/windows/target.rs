//! One-sided operations at their target, which carries out the records of other processes in any pass of
//! progress.
//!
//! `engine/windows.rs` calls it in each pass of progress in which something has completed.

use weft_core::layout::Layout;
use weft_core::matching::Envelope;
use weft_core::one_sided::{Claim, Items, Record, Records, TargetLocation};
use weft_core::reduce::Op;

use super::{ACCUMULATE_BYTES_MAX, BATCH_BYTES_MAX, NO_ANSWER, OneSided, PART_LAYOUT, packed};
use crate::engine::Taken;
use crate::error::ErrorClass;
use crate::memory::{Exposed, SharedBuffer, UserData};
use crate::request::{Mode, Receive, Send, State};
use crate::transport::Platform;
use crate::windows::{Accumulating, BATCH_TAG, Batch, ExposedMemory, Window};

impl<P: Platform> OneSided<'_, P> {
    /// Takes the batches that have arrived out of the unexpected queue.
    pub(super) fn take_batches(&mut self, window: &mut Window) {
        while let Some(taken) = self.link.take_unexpected(window.context, BATCH_TAG) {
            let Taken { envelope, unexpected, peer, bytes, whole } = taken;
            let source = envelope.source;
            let known = window.group.members.get(source as usize) == Some(&peer) && bytes <= BATCH_BYTES_MAX;
            let batch = whole.map_or(Batch::Announced { envelope, unexpected, bytes }, Batch::Whole);
            if !known {
                // No process of this library sends such a message. The sender keeps it until it is gone.
                self.windows.refused += 1;
                continue;
            }
            window.sources[source as usize].batches.push_back(batch);
            window.note_asking(source);
        }
        self.link.flush();
    }

    /// Begins to receive a batch that has been announced, if there is room; returns the batch with its
    /// request.
    fn begin_batch(&mut self, window: &Window, envelope: Envelope, unexpected: usize, bytes: u64) -> Option<Batch> {
        if !self.link.has_room_for_large() {
            return None;
        }
        let buffer = SharedBuffer::new(bytes as usize);
        let receive = Receive {
            context: Some(window.context),
            source: Some(envelope.source),
            peer: Some(window.member(envelope.source)),
            tag: Some(BATCH_TAG),
            data: buffer.describe_all(),
            blocking: false,
        };
        let handle = self.link.add(State::Posted(receive), window.communicator).ok()?;
        self.link.claim(handle, envelope, unexpected);
        Some(Batch::Arriving(handle, buffer))
    }

    /// Carries out the operations of the process `rank`, as far as that is possible now.
    pub(super) fn serve(&mut self, window: &mut Window, rank: u32) {
        let source = &mut window.sources[rank as usize];
        while let Some(handle) = source.transfers.front() {
            if self.link.is_under_way(*handle) {
                break;
            }
            if let Some(error) = self.link.take_error(*handle) {
                source.note_class(error.class);
            }
            source.transfers.pop_front();
        }
        self.end_accumulate(window, rank);
        while let Some(batch) = window.sources[rank as usize].batches.front_mut() {
            let bytes = match batch {
                Batch::Whole(bytes) => std::mem::take(bytes),
                &mut Batch::Announced { envelope, unexpected, bytes } => {
                    match self.begin_batch(window, envelope, unexpected, bytes) {
                        Some(batch) => window.sources[rank as usize].batches[0] = batch,
                        // There will be room when another operation is over.
                        None => break,
                    }
                    continue;
                }
                Batch::Arriving(handle, buffer) => {
                    let (handle, buffer) = (*handle, buffer.clone());
                    if self.link.is_under_way(handle) {
                        break;
                    }
                    if self.link.take_error(handle).is_some() {
                        // The sender is gone.
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
            self.link.put_aside(bytes);
        }
        self.send_batch(window, rank);
    }

    /// Carries out the records of a batch. Returns `Some` if it stopped at this byte, because the next record
    /// waits for a transfer.
    fn serve_batch(&mut self, window: &mut Window, rank: u32, batch: &[u8]) -> Option<usize> {
        let mut records = Records::new(batch);
        loop {
            let at = batch.len() - records.left();
            let record = match records.next() {
                None => return None,
                Some(Err(_)) => {
                    // No process of this library sends such a record.
                    self.refuse(window, rank, ErrorClass::Other);
                    return None;
                }
                Some(Ok(record)) => record,
            };
            let waits = matches!(record, Record::Flush { .. } | Record::Unlock { .. } | Record::Complete)
                && !cfg!(weft_mutant = "flush_answered_early");
            let source = &window.sources[rank as usize];
            let accumulates = source.accumulating.is_some() && !cfg!(weft_mutant = "accumulate_overtaken");
            if accumulates || waits && !source.transfers.is_empty() || !self.serve_record(window, rank, &record) {
                return Some(at);
            }
        }
    }

    /// Begins a message that a record announces, or asks for; returns `false` if there are so many requests
    /// that it must wait.
    fn begin_transfer(&mut self, window: &mut Window, rank: u32, state: State) -> bool {
        let sends = matches!(state, State::Queued(_));
        let Ok(handle) = self.link.add(state, window.communicator) else { return false };
        window.sources[rank as usize].transfers.push_back(handle);
        window.note_asking(rank);
        if sends {
            self.link.start_send(handle)
        } else {
            self.link.start_receive(handle)
        }
        true
    }

    /// The receive for the message of `tag` that `rank` sends.
    fn receive_of(window: &Window, rank: u32, tag: i32, data: UserData) -> State {
        State::Posted(Receive {
            context: Some(window.context),
            source: Some(rank),
            peer: Some(window.member(rank)),
            tag: Some(tag),
            data,
            blocking: false,
        })
    }

    /// Carries out a record; returns `false` if it must wait until there is room for a request.
    fn serve_record(&mut self, window: &mut Window, rank: u32, record: &Record<'_>) -> bool {
        match *record {
            Record::Put { location, data } => match locate(window, rank, &location, data.len() as u64) {
                Some((_, target, skip)) => target.write(skip, data),
                None => self.refuse(window, rank, ErrorClass::RmaRange),
            },
            Record::PutLarge { location, bytes, tag } => {
                let found = locate(window, rank, &location, bytes)
                    .filter(|(_, target, skip)| target.len() == bytes && *skip == 0);
                let is_found = found.is_some();
                // A refused message is under way all the same, and must be received.
                let data = found.map_or_else(UserData::empty, |(_, target, _)| target);
                if !self.begin_transfer(window, rank, Self::receive_of(window, rank, tag, data)) {
                    return false;
                }
                if !is_found {
                    self.refuse(window, rank, ErrorClass::RmaRange);
                }
            }
            Record::Get { location, bytes, reply } => {
                let found = locate(window, rank, &location, u64::from(bytes));
                match found {
                    Some((_, target, skip)) => {
                        let data = packed(&target, skip, u64::from(bytes));
                        self.record(window, rank, &Record::Data { reply, data: &data });
                    }
                    None => self.refuse_answer(window, rank, reply),
                }
            }
            Record::GetLarge { location, bytes, tag } => {
                let found = locate(window, rank, &location, bytes)
                    .filter(|(_, target, skip)| target.len() == bytes && *skip == 0);
                let is_found = found.is_some();
                // A refused get brings no data, and so its origin knows.
                let data = found.map_or_else(UserData::empty, |(_, target, _)| target);
                let send = Send {
                    peer: Some(window.member(rank)),
                    envelope: Envelope { context: window.context, source: window.rank, tag },
                    data,
                    mode: Mode::Standard,
                    blocking: false,
                };
                if !self.begin_transfer(window, rank, State::Queued(send)) {
                    return false;
                }
                self.windows.refused += u64::from(!is_found);
            }
            Record::Accumulate { location, op, element, data } => {
                let whole = data.len().is_multiple_of(element.size());
                match locate(window, rank, &location, data.len() as u64).filter(|_| whole) {
                    Some((exposed, target, skip)) => {
                        exposed.accumulate(&target, skip, (op, element), data, data.len(), None);
                    }
                    None => self.refuse(window, rank, ErrorClass::RmaRange),
                }
            }
            Record::AccumulateLarge { location, op, element, bytes, tag } => {
                // A message that is too long, or whose place is not exposed, is received all the same.
                let room = if bytes <= ACCUMULATE_BYTES_MAX { bytes as usize } else { 0 };
                let buffer = SharedBuffer::new(room);
                let receive = Self::receive_of(window, rank, tag, buffer.describe_all());
                let Ok(handle) = self.link.add(receive, window.communicator) else { return false };
                let accumulating = Accumulating { handle, buffer, location, operation: (op, element) };
                window.sources[rank as usize].accumulating = Some(accumulating);
                window.note_asking(rank);
                self.link.start_receive(handle);
                self.end_accumulate(window, rank);
            }
            Record::GetAccumulate { location, op, element, bytes, reply, data } => {
                let length = bytes as usize;
                let whole = length.is_multiple_of(element.size()) && (op == Op::NoOp || data.len() == length);
                match locate(window, rank, &location, u64::from(bytes)).filter(|_| whole) {
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
                let location = TargetLocation { offset, items: None };
                let swapped = data.len() == 2 * size
                    && locate(window, rank, &location, size as u64).is_some_and(|(exposed, target, _)| {
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
                if number > PART_LAYOUT as usize {
                    self.refuse(window, rank, ErrorClass::Other);
                } else {
                    if number >= layouts.len() {
                        layouts.resize(number + 1, None);
                    }
                    // A description that is no layout replaces the layout that had this number: a record that
                    // names it is refused.
                    layouts[number] = Layout::from_description(description).ok();
                    self.windows.refused += u64::from(layouts[number].is_none());
                }
            }
            Record::Flush { reply } => self.done(window, rank, reply),
            Record::Lock { exclusive, reply } => {
                // The last record of a process may arrive behind the news that it is gone: it would keep the
                // lock for ever.
                let is_gone = self.link.has_failed(window.member(rank));
                if is_gone && !cfg!(weft_mutant = "lock_given_to_the_dead") {
                    return true;
                }
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
                self.link.notify();
            }
            Record::Complete => {
                window.sources[rank as usize].completes += 1;
                self.link.notify();
            }
            Record::Data { reply, data } => self.end_answer(window, rank, reply, Some(data), None),
            Record::Done { reply, class } => {
                self.end_answer(window, rank, reply, None, ErrorClass::from_wire(class));
            }
        }
        true
    }

    /// Computes with the data of a large accumulate, if all of it has arrived.
    fn end_accumulate(&mut self, window: &mut Window, rank: u32) {
        let Some(Accumulating { handle, .. }) = window.sources[rank as usize].accumulating else { return };
        if self.link.is_under_way(handle) {
            return;
        }
        let arrived = self.link.request(handle).map_or(0, |request| request.status.bytes);
        let error = self.link.take_error(handle);
        let Some(Accumulating { buffer, location, operation, .. }) = window.sources[rank as usize].accumulating.take()
        else {
            return;
        };
        let bytes = buffer.len() as u64;
        let whole = error.is_none() && arrived == bytes && buffer.len().is_multiple_of(operation.1.size());
        match locate(window, rank, &location, bytes).filter(|_| whole) {
            Some((exposed, target, skip)) => buffer.with_bytes(|data| {
                exposed.accumulate(&target, skip, operation, data, data.len(), None);
            }),
            None => self.refuse(window, rank, error.map_or(ErrorClass::RmaRange, |error| error.class)),
        }
    }

    /// Answers that all is done that `rank` has asked for before.
    fn done(&mut self, window: &mut Window, rank: u32, reply: u32) {
        let class = std::mem::take(&mut window.sources[rank as usize].class);
        self.record(window, rank, &Record::Done { reply, class: ErrorClass::to_wire(class) });
    }

    /// Notes that an operation named memory that is not exposed: its origin is told when it asks whether all
    /// is done.
    #[cold]
    fn refuse(&mut self, window: &mut Window, rank: u32, class: ErrorClass) {
        self.windows.refused += 1;
        window.sources[rank as usize].note_class(class);
    }

    #[cold]
    fn refuse_answer(&mut self, window: &mut Window, rank: u32, reply: u32) {
        self.windows.refused += 1;
        self.record(window, rank, &Record::Done { reply, class: ErrorClass::to_wire(Some(ErrorClass::RmaRange)) });
    }
}

/// Finds the memory that `rank` means by `length` packed bytes at `location`, and the packed byte at which
/// they begin. `None`: it is not exposed.
fn locate(window: &Window, rank: u32, location: &TargetLocation, length: u64) -> Option<(Exposed, UserData, u64)> {
    let in_memory = |exposed: &Exposed, offset: u64| -> Option<(Exposed, UserData, u64)> {
        match location.items {
            None => Some((*exposed, exposed.bytes(offset, length)?, 0)),
            Some(Items { layout, count, skip }) => {
                let layout = window.sources[rank as usize].layouts.get(layout as usize)?.as_ref()?;
                layout.packed_size(count).ok()?;
                let target = exposed.items(offset, count, layout)?;
                (skip.checked_add(length)? <= target.len()).then_some((*exposed, target, skip))
            }
        }
    };
    match &window.exposed_memory {
        ExposedMemory::Whole(exposed) => in_memory(exposed, location.offset),
        ExposedMemory::Attached(parts) => {
            parts.runs().iter().find_map(|part| in_memory(part, location.offset.checked_sub(part.address())?))
        }
    }
}
