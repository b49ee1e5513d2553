//! One-sided operations that a carrier does by itself: it writes to the target's memory or reads it
//! ([`crate::transport::Placement`]), without the target's processor.
//!
//! A process has its part of a window registered by its carrier as long as the window is open. It tells the
//! others what their carriers need to reach that memory.
//!
//! Records to a target wait until all writes under way there have been made: then the records arrive behind
//! them. So the answer to a flush, and the record that ends an epoch at the target, need not know of the
//! writes.

use std::ops::Range;

use weft_core::one_sided::{Record, TargetLocation};
use weft_core::placement::{PIECE_MAX, UNDER_WAY_MAX};

use super::{OneSided, byte, description::TargetItems};
use crate::engine::placement::OF_A_WINDOW;
use crate::error::{Error, ErrorClass, Result};
use crate::memory::UserData;
use crate::transport::{Begun, Platform, Proof, RemoteMemory};
use crate::windows::{Answer, ExposedMemory, Placed, Reach, Window};

/// The size up to which operations are small, in bytes: many of them are collected in one message.
const SMALL: u64 = 4096;
/// The number of operations under way to a target from which on small ones are records: work requests are
/// dearer than their share of a message.
const SMALL_AT_A_TIME: usize = 16;

impl<P: Platform> OneSided<'_, P> {
    /// Lets carriers of peers access the memory that this process exposes in a window, if our carrier can do
    /// that. Returns what the peers need for it.
    pub fn expose_window(&mut self, index: usize) -> Option<RemoteMemory> {
        let window = self.windows.get_mut(index)?;
        let ExposedMemory::Whole(exposed) = &window.exposed_memory else { return None };
        let bytes = exposed.len();
        if bytes == 0 || !window.group.members.iter().any(|member| self.link.placement(*member).is_some()) {
            return None;
        }
        let data = exposed.items(0, bytes, byte())?;
        let (registered, memory) = self.link.register(&data, bytes)?;
        window.registered = Some(registered);
        Some(memory)
    }

    /// Notes that `rank` lets our carrier access its part of a window, which has `bytes` bytes.
    pub fn place_at(&mut self, index: usize, rank: u32, memory: RemoteMemory, bytes: u64) {
        let Some(window) = self.windows.get_mut(index) else { return };
        let is_placed = self.link.placement(window.member(rank)).is_some();
        let reach = &mut window.targets[rank as usize].reach;
        if matches!(reach, Reach::Records) && is_placed {
            *reach = Reach::Placed { memory, bytes };
        }
    }

    pub(super) fn conceal_window(&mut self, index: usize) {
        if let Some(registered) = self.windows.get_mut(index).and_then(|window| window.registered.take()) {
            self.link.deregister(registered);
        }
    }

    /// Leaves an access to the carrier, and returns its request, if one is wanted; `None`: the carrier does
    /// not do this one.
    pub(super) fn place(
        &mut self,
        (index, window): (usize, &mut Window),
        access: &TargetItems<'_>,
        data: &UserData,
        writes: bool,
        wanted: bool,
    ) -> Result<Option<Option<usize>>> {
        let Reach::Placed { memory, bytes } = *window.reach(access.target) else { return Ok(None) };
        let peer = window.member(access.target);
        let Some(placement) = self.link.placement(peer) else { return Ok(None) };
        let Some((first, length)) = access.layout.single_run(access.count) else { return Ok(None) };
        // An access outside the window is left to the target, which names the error, as always.
        let Some(offset) = access.offset.checked_add_signed(first) else { return Ok(None) };
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= bytes);
        let is_whole = length == data.len() && length >= placement.one_sided_min.max(1) && data.address().is_some();
        let are_many = length <= SMALL && window.targets[access.target as usize].placed.len() >= SMALL_AT_A_TIME;
        if !is_inside || !is_whole || are_many {
            return Ok(None);
        }
        let there = RemoteMemory { key: memory.key, address: memory.address.wrapping_add(offset) };
        let target = access.target;
        let request = if wanted { Some(self.one_sided_request(window.communicator)?) } else { None };
        let state = &mut window.targets[target as usize];
        if writes {
            state.note_written(placement.proof);
        }
        let number = state.begin_placed(writes);
        let placed = Placed {
            window: index,
            target,
            peer,
            number,
            data: data.clone(),
            range: 0..length,
            offset,
            there,
            writes,
            under_way: 0,
            waits: false,
            refused: false,
            request,
            proof: None,
        };
        self.begin_placed(window, placed)?;
        Ok(Some(request))
    }

    fn begin_placed(&mut self, window: &mut Window, placed: Placed) -> Result<()> {
        let Placed { target, peer, number, writes, .. } = placed;
        let Some(handle) = self.windows.placed.insert(placed) else {
            window.targets[target as usize].end_placed(number, writes);
            let message = "too many puts and gets are under way (limit 16777216): flush some first";
            return Err(Error::new(ErrorClass::NoMem, message));
        };
        window.note_busy(target);
        // This process has to look at the carrier until the access is complete.
        self.link.look_after(peer);
        if self.windows.unbegun.is_empty() {
            self.begin_pieces(handle);
            self.end_if_over(window, handle);
        } else {
            self.windows.unbegun.push_back(handle);
            self.windows.placed.get_mut(handle).into_iter().for_each(|placed| placed.waits = true);
        }
        Ok(())
    }

    /// The kind of proof that the carrier's writes at `target` are in place; `None` where it writes nothing.
    pub(super) fn proof(&self, window: &Window, target: u32) -> Option<Proof> {
        if !matches!(window.reach(target), Reach::Placed { .. }) {
            return None;
        }
        Some(self.link.placement(window.member(target))?.proof)
    }

    /// Makes sure that the carrier's writes at `target` are in place when the next mark is reached.
    pub(super) fn prove(&mut self, (index, window): (usize, &mut Window), target: u32) -> Result<()> {
        let proof = self.proof(window, target);
        let state = &mut window.targets[target as usize];
        state.is_written = false;
        // Where the carrier writes no more, the data that it did not write is answered, behind the data that
        // it did.
        if proof != Some(Proof::Read) || cfg!(weft_mutant = "flushed_when_it_has_left") {
            return Ok(());
        }
        state.proofs += 1;
        window.note_busy(target);
        self.begin_proof((index, window), target)
    }

    /// Begins a read behind all writes at `target`, if one is wanted and all writes have left.
    fn begin_proof(&mut self, (index, window): (usize, &mut Window), target: u32) -> Result<()> {
        let state = &mut window.targets[target as usize];
        if state.writes > 0 || state.proofs_begun == state.proofs {
            return Ok(());
        }
        state.proofs_begun = state.proofs;
        let Reach::Placed { memory: there, .. } = state.reach else {
            return self.prove_by_answer(window, target);
        };
        let (number, proof) = (state.begin_placed(false), Some(state.proofs));
        let placed = Placed {
            window: index,
            target,
            peer: window.member(target),
            number,
            data: self.windows.proof_data.get_or_insert_with(|| UserData::leaked(1)).clone(),
            range: 0..1,
            offset: 0,
            there,
            writes: false,
            under_way: 0,
            waits: false,
            refused: false,
            request: None,
            proof,
        };
        self.begin_placed(window, placed)
    }

    /// Proves the writes by a record and its answer.
    fn prove_by_answer(&mut self, window: &mut Window, target: u32) -> Result<()> {
        let reply = self.await_answer(window, Answer::of(target, None, None))?;
        let state = &mut window.targets[target as usize];
        (state.refused, state.proofs_ended) = (state.asked, state.proofs_begun);
        self.record(window, target, &Record::Flush { reply });
        Ok(())
    }

    /// Gives the carrier as many pieces as it has room for. The rest is tried again.
    fn begin_pieces(&mut self, handle: usize) {
        let Self { windows, link } = self;
        let name = OF_A_WINDOW | u64::from(windows.placed.wire(handle));
        let Some(placed) = windows.placed.get_mut(handle) else { return };
        // A peer that is gone is dealt with elsewhere.
        if link.has_failed(placed.peer) {
            return;
        }
        let placement = link.placement(placed.peer);
        let (Some((rma, to)), Some(placement)) = (link.remote_memory(placed.peer), placement) else {
            placed.refused = true;
            return;
        };
        placed.waits = false;
        let (mut begun, mut outcome) = (0, Begun::Yes);
        while !placed.range.is_empty() && (placed.under_way as usize) < UNDER_WAY_MAX {
            let Range { start, end } = placed.range.clone();
            let end = end.min(start + placement.bytes_max.clamp(1, PIECE_MAX));
            let address = placed.there.address.wrapping_add(start);
            let there = RemoteMemory { address, ..placed.there };
            outcome = match placed.writes {
                true => rma.write(&to, &placed.data, start..end, there, name),
                false => rma.read(&to, &placed.data, start..end, there, name),
            };
            if !matches!(outcome, Begun::Yes) {
                break;
            }
            (placed.range.start, placed.under_way) = (end, placed.under_way + 1);
            begun += 1;
        }
        match outcome {
            Begun::Yes => {}
            Begun::NotNow => {
                placed.waits = true;
                windows.unbegun.push_front(handle);
            }
            Begun::Never => placed.refused = true,
        }
        link.count_remote(placed.writes, begun);
    }

    /// Offers the waiting pieces to the carrier, which may have room now.
    pub(super) fn begin_unbegun(&mut self) {
        while let Some(handle) = self.windows.unbegun.pop_front() {
            self.begin_pieces(handle);
            self.end_in_its_window(handle);
            if self.windows.unbegun.front() == Some(&handle) {
                return;
            }
        }
    }

    /// Goes on with puts and gets of which the carrier has completed pieces.
    pub(super) fn end_pieces(&mut self) {
        for at in 0..self.windows.pieces_done.len() {
            let windows = &mut *self.windows;
            let Some(handle) = windows.placed.from_wire(windows.pieces_done[at]) else { continue };
            // The target is gone, and another operation may have the place in the table.
            let Some(placed) = windows.placed.get_mut(handle).filter(|placed| placed.under_way > 0) else { continue };
            placed.under_way -= 1;
            if !placed.refused && !placed.waits {
                self.begin_pieces(handle);
            }
            self.end_in_its_window(handle);
        }
        self.windows.pieces_done.clear();
    }

    fn end_in_its_window(&mut self, handle: usize) {
        if let Some(index) = self.windows.placed.get(handle).map(|placed| placed.window) {
            let ended = self.with_window(index, |this, window| {
                this.end_if_over(window, handle);
                Ok(())
            });
            debug_assert!(ended.is_ok(), "a window is closed when nothing is under way in it");
        }
    }

    /// Ends an operation of which the carrier has nothing and will get nothing: it is over, or goes another
    /// way.
    fn end_if_over(&mut self, window: &mut Window, handle: usize) {
        let is_over = |placed: &Placed| placed.under_way == 0 && (placed.range.is_empty() || placed.refused);
        if !self.windows.placed.get(handle).is_some_and(is_over) {
            return;
        }
        let Some(placed) = self.windows.placed.remove(handle) else { return };
        let Placed { window: index, target, number, data, range, offset, writes, request, proof, .. } = placed;
        let state = &mut window.targets[target as usize];
        state.end_placed(number, writes);
        if let Some(proof) = proof {
            match range.is_empty() {
                true => state.proofs_ended = state.proofs_ended.max(proof),
                false => {
                    state.reach = Reach::Records;
                    let proved = self.prove_by_answer(window, target);
                    self.note_unproved(window, target, proved);
                }
            }
        } else if range.is_empty() {
            if let Some(request) = request {
                self.link.complete(request);
            }
        } else {
            state.reach = Reach::Records;
            // Waiting records were to follow the operation: its own record comes before them.
            let (mut held, batch) = (std::mem::take(&mut state.held), std::mem::take(&mut state.batch));
            let location = TargetLocation { offset: offset + range.start, items: None };
            let rest = data.part(range);
            let begun = rest.and_then(|rest| match writes {
                true => {
                    self.put_by_message(window, target, location, &rest, (request, false))?;
                    // A caller that has flushed already does not know of this put.
                    let reply = self.await_answer(window, Answer::of(target, None, None))?;
                    let state = &mut window.targets[target as usize];
                    state.refused = state.asked;
                    self.record(window, target, &Record::Flush { reply });
                    Ok(())
                }
                false => self.get_by_message(window, target, location, &rest, (request, false)),
            });
            match (begun, request) {
                (Err(error), Some(request)) => self.link.fail(request, error),
                (Err(error), None) => _ = window.targets[target as usize].error.get_or_insert(error),
                (Ok(()), _) => window.advance_last_transfer(target, request.is_some()),
            }
            let state = &mut window.targets[target as usize];
            let own = std::mem::replace(&mut state.batch, batch);
            if !own.is_empty() {
                held.push_front(own);
            }
            state.held = held;
        }
        self.link.notify();
        let proved = self.begin_proof((index, window), target);
        self.note_unproved(window, target, proved);
        self.send_batch(window, target);
    }

    /// Notes the error of a proof that could not begin, for the caller that waits for it.
    fn note_unproved(&mut self, window: &mut Window, target: u32, proved: Result<()>) {
        let state = &mut window.targets[target as usize];
        if let Err(error) = proved {
            state.proofs_ended = state.proofs_begun;
            state.error.get_or_insert(error);
        }
    }

    /// Ends the carrier's operations at `rank`, which is gone, with `error`; returns whether there were any.
    pub(super) fn abandon_placed(&mut self, (index, window): (usize, &mut Window), rank: u32, error: &Error) -> bool {
        let is_there = |placed: &Placed| placed.window == index && placed.target == rank;
        let found: Vec<usize> = match window.targets[rank as usize].placed.is_empty() {
            true => Vec::new(),
            false => {
                self.windows.placed.iter().filter(|(_, placed)| is_there(placed)).map(|(handle, _)| handle).collect()
            }
        };
        for handle in &found {
            if let Some(Placed { request: Some(request), .. }) = self.windows.placed.remove(*handle) {
                self.link.fail(request, error.clone());
            }
        }
        self.windows.unbegun.retain(|handle| !found.contains(handle));
        let state = &mut window.targets[rank as usize];
        state.placed.clear();
        state.writes = 0;
        (state.proofs_begun, state.proofs_ended, state.refused) = (state.proofs, state.proofs, 0);
        !found.is_empty()
    }
}
