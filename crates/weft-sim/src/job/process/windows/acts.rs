//! One-sided operations on windows: how each is called at the engine, and its possible results.

use super::{Checked, Proc};
use crate::job::construct::Carriers;
use crate::job::shape::{Placed, Shape, content};
use crate::job::windows::{ADDED, Act, COUNTER, PROTECTED, REPLACED, What, summand};
use weft_core::layout::{Element, Layout};
use weft_core::reduce::Op;
use weft_engine::engine::TargetItems;
use weft_engine::error::Error;
use weft_engine::memory::SharedBuffer;

/// An act whose result is not known yet.
pub(super) struct Pending {
    pub(super) act: Act,
    buffers: Vec<SharedBuffer>,
    request: Option<usize>,
    outcome: Outcome,
}

enum Outcome {
    Put(Placed),
    Gotten(Placed, Vec<u8>),
    /// The least values that cells had.
    Added(Option<(SharedBuffer, Vec<u64>)>),
    Fetched(SharedBuffer),
    /// The value before the compare-and-swap, and the value with which it was compared.
    Swapped(SharedBuffer, u64),
}

/// Bytes of a word.
fn word(value: u64) -> SharedBuffer {
    let buffer = SharedBuffer::new(8);
    buffer.write(0, &value.to_le_bytes());
    buffer
}

fn value(buffer: &SharedBuffer) -> u64 {
    let mut bytes = [0; 8];
    buffer.read(0, &mut bytes);
    u64::from_le_bytes(bytes)
}

fn byte() -> Layout {
    Layout::element(Element::UInt8)
}

impl Proc {
    pub(super) fn act(&mut self, key: (usize, u32), act: &Act, epoch: usize) -> Checked<()> {
        let truths = self.truths.clone();
        let mut truths = truths.borrow_mut();
        let truth = truths.get_mut(&key).ok_or("nothing is known of a window")?;
        let live = self.windows.get_mut(&key).ok_or("a window is not open")?;
        let (block, index, target) = (&live.block, live.index, act.target as u32);
        let part = &mut truth.parts[act.target];
        // No process acts before all have opened the window.
        let bytes = block.bytes(live.members.len());
        part.remote.into_iter().for_each(|memory| self.engine.one_sided().place_at(index, target, memory, bytes));
        let half = epoch as u64 % 2;
        let bytes = byte();
        let cell = |offset| TargetItems { target, offset, count: 8, layout: &bytes };
        let pid = Carriers::pid(self.rank);
        let register = |buffer: &SharedBuffer| self.memory.register(pid, buffer);
        let engine = &mut self.engine;
        let mut buffers = Vec::new();
        let fetch = (Op::Sum, Element::UInt64);
        let (request, outcome) = match act.what {
            What::Put { slot } => {
                let at = block.slot_at(live.own, half, slot);
                let (count, layout) = act.there.items(act.bytes);
                let name = u64::from(act.id);
                let placed = Placed::holding(act.here, act.bytes, name);
                register(&placed.buffer);
                let access = TargetItems { target, offset: at, count, layout: &layout };
                let request = engine.one_sided().put(index, access, &placed.data(), act.requested);
                let begin = (at - block.strip(live.own)) as usize;
                part.put_in[live.own][half as usize] = epoch;
                act.there.put(content(name, act.bytes as usize), &mut part.strips[live.own][begin..]);
                (request, Outcome::Put(placed))
            }
            What::Get { slot } => {
                let at = block.slot_at(live.own, 1 - half, slot);
                let (count, layout) = act.there.items(act.bytes);
                let placed = Placed::new(act.here, act.bytes, u64::from(act.id));
                register(&placed.buffer);
                let access = TargetItems { target, offset: at, count, layout: &layout };
                let request = engine.one_sided().get(index, access, &placed.data(), act.requested);
                let begin = (at - block.strip(live.own)) as usize;
                let expected = act.there.take(act.bytes, &part.strips[live.own][begin..]);
                (request, Outcome::Gotten(placed, expected))
            }
            What::Add { first, count, fetches } => {
                let cells = first..first + count;
                let summands: Vec<u64> = cells.clone().map(|cell| summand(act.id, cell)).collect();
                let origin = SharedBuffer::new(8 * count as usize);
                origin.write(0, &summands.iter().flat_map(|summand| summand.to_le_bytes()).collect::<Vec<u8>>());
                let range = first as usize..(first + count) as usize;
                let least = live.added[act.target][range.clone()].to_vec();
                let result = fetches.then(|| (SharedBuffer::new(8 * count as usize), least));
                let access = TargetItems { target, offset: ADDED + 8 * first, count: 8 * count, layout: &bytes };
                register(&origin);
                result.iter().for_each(|(buffer, _)| register(buffer));
                let into = result.as_ref().map(|(buffer, _)| buffer.describe_all());
                let described = origin.describe_all();
                let request =
                    engine.one_sided().accumulate(index, access, fetch, &described, into.as_ref(), act.requested);
                for (at, summand) in range.zip(summands) {
                    live.added[act.target][at] += summand;
                    part.added[at] += summand;
                }
                buffers.push(origin);
                (request, Outcome::Added(result))
            }
            What::Count | What::Replace => {
                let (one, result) = (word(if act.what == What::Count { 1 } else { act.id.into() }), word(u64::MAX));
                let (at, op) = if act.what == What::Count { (COUNTER, Op::Sum) } else { (REPLACED, Op::Replace) };
                let (origin, into) = (one.describe_all(), result.describe_all());
                let operation = (op, Element::UInt64);
                let request = engine.one_sided().accumulate(index, cell(at), operation, &origin, Some(&into), false);
                if act.what == What::Count {
                    part.counts += 1;
                } else {
                    part.written.insert(act.id.into());
                }
                buffers.push(one);
                (request, Outcome::Fetched(result))
            }
            What::CompareAndSwap => {
                let compared = live.seen[act.target];
                let (compare, new, result) = (word(compared), word(act.id.into()), word(u64::MAX));
                let [one, other, into] = [&compare, &new, &result].map(SharedBuffer::describe_all);
                let place = (target, REPLACED);
                let swapped = engine.one_sided().compare_and_swap(index, place, Element::UInt64, &one, &other, &into);
                // The swap may have happened: the value that is found tells.
                buffers.extend([compare, new]);
                (swapped.map(|()| None), Outcome::Swapped(result, compared))
            }
            What::Protected => {
                let result = word(u64::MAX);
                let request = engine.one_sided().get(index, cell(PROTECTED), &result.describe_all(), false);
                (request, Outcome::Fetched(result))
            }
        };
        match request {
            Ok(request) => {
                live.pending.push(Pending { act: *act, buffers, request, outcome });
                Ok(())
            }
            Err(error) => self.excuse(&error),
        }
    }

    /// Writes to the protected cell its former value plus one.
    pub(super) fn write_protected(&mut self, key: (usize, u32), target: usize) -> Checked<()> {
        let live = self.windows.get_mut(&key).ok_or("a window is not open")?;
        let new = word(live.protected + 1);
        let layout = byte();
        let access = TargetItems { target: target as u32, offset: PROTECTED, count: 8, layout: &layout };
        let written = self.engine.one_sided().put(live.index, access, &new.describe_all(), false);
        if let Err(error) = written {
            return self.excuse(&error);
        }
        self.truths.borrow_mut().get_mut(&key).ok_or("nothing is known of a window")?.parts[target].protected += 1;
        live.words.push(new);
        Ok(())
    }

    /// Returns whether an act with a request is over.
    pub(super) fn end_request(&mut self, key: (usize, u32), id: u32) -> Checked<bool> {
        let pending = &self.windows[&key].pending;
        let Some(at) = pending.iter().position(|pending| pending.act.id == id) else { return Ok(true) };
        if pending[at].request.is_some_and(|request| !self.settled(request)) {
            return Ok(false);
        }
        let live = self.windows.get_mut(&key).ok_or("a window is not open")?;
        let pending = live.pending.remove(at);
        let error = pending.request.and_then(|request| self.conclude(request).1);
        match error {
            Some(error) => self.excuse(&error).map(|()| true),
            None => self.judge(key, pending).map(|()| true),
        }
    }

    /// Ends the acts at a target, or at all targets.
    pub(super) fn end_acts(&mut self, key: (usize, u32), target: Option<usize>) -> Checked<()> {
        let (window, live) = self.window(key)?;
        let is_over = |rank: usize| target.is_none_or(|target| target == rank);
        let (over, pending): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut live.pending).into_iter().partition(|pending| is_over(pending.act.target));
        live.pending = pending;
        let errors: Vec<Error> = (0..live.members.len())
            .filter(|rank| is_over(*rank))
            .filter_map(|rank| window.take_error(rank as u32))
            .collect();
        errors.iter().try_for_each(|error| self.excuse(error))?;
        if !errors.is_empty() {
            return Ok(());
        }
        over.into_iter().try_for_each(|pending| self.judge(key, pending))
    }

    /// Checks the result of an act that is over; its buffers belong to the program again.
    fn judge(&mut self, key: (usize, u32), pending: Pending) -> Checked<()> {
        let Pending { act, buffers, outcome, .. } = pending;
        let truths = self.truths.clone();
        let mut truths = truths.borrow_mut();
        let live = self.windows.get_mut(&key).ok_or("a window is not open")?;
        let part = &mut truths.get_mut(&key).ok_or("nothing is known of a window")?.parts[act.target];
        let wrong = |what: String| Err(format!("window {}: {act:?}: {what}", key.1));
        // The program overwrites its buffers.
        buffers.iter().for_each(|buffer| buffer.write(0, &vec![0xee; buffer.len()]));
        match outcome {
            Outcome::Put(placed) => {
                placed.wipe();
                self.spent.push(placed);
            }
            Outcome::Gotten(placed, expected) => {
                let checked = placed.check(&expected);
                self.spent.push(placed);
                return checked.or_else(wrong);
            }
            Outcome::Added(None) => {}
            Outcome::Added(Some((result, least))) => {
                let What::Add { first, .. } = act.what else { return Ok(()) };
                for (at, least) in least.iter().enumerate() {
                    let mut bytes = [0; 8];
                    result.read(8 * at, &mut bytes);
                    let found = u64::from_le_bytes(bytes);
                    let most = part.added[first as usize + at] - summand(act.id, first + at as u64);
                    if found < *least || found > most {
                        return wrong(format!("cell {at} was {found}, not {least} to {most}"));
                    }
                }
            }
            Outcome::Fetched(result) => {
                let found = value(&result);
                match act.what {
                    What::Protected => live.protected = found,
                    What::Count => {
                        if found >= part.counts || !part.counted.insert(found) {
                            return wrong(format!(
                                "it has got {found}, of {} numbers that were asked for",
                                part.counts
                            ));
                        }
                    }
                    _ => {
                        live.seen[act.target] = act.id.into();
                        if !part.replaced.insert(found) {
                            return wrong(format!("{found:#x} has been replaced twice"));
                        }
                    }
                }
            }
            Outcome::Swapped(result, compared) => {
                let found = value(&result);
                live.seen[act.target] = found;
                if found == compared {
                    live.seen[act.target] = act.id.into();
                    part.written.insert(act.id.into());
                    if !part.replaced.insert(found) {
                        return wrong(format!("{found:#x} has been replaced twice"));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Shape {
    /// The count and the datatype whose items lie in memory like these bytes.
    fn items(self, bytes: u64) -> (u64, Layout) {
        match self {
            Self::Plain => (bytes, self.layout(bytes)),
            _ => (u64::from(bytes > 0), self.layout(bytes)),
        }
    }

    /// Puts packed bytes to their places.
    fn put(self, packed: &[u8], to: &mut [u8]) {
        let mut rest = packed;
        for (at, length) in self.runs(packed.len() as u64) {
            let (piece, left) = rest.split_at(length as usize);
            to[at as usize..][..piece.len()].copy_from_slice(piece);
            rest = left;
        }
    }

    /// Takes packed bytes from their places.
    fn take(self, bytes: u64, from: &[u8]) -> Vec<u8> {
        self.runs(bytes).iter().flat_map(|(at, length)| from[*at as usize..][..*length as usize].to_vec()).collect()
    }
}
