//! Windows of simulated programs. The calls are drawn from a seed. No order of events makes a process wait
//! for ever, and an oracle knows the allowed values.
//!
//! Each process's part of a window begins with cells on which all processes act atomically. Behind the cells
//! lies a strip for each process, and only that process writes there. In one epoch the process puts to one
//! half of its strip and gets from the other half. A process has one lock at a time. While it has the lock,
//! it waits only for other processes of the window.

mod truth;

use super::shape::Shape;
pub(super) use truth::{Truth, Windows, summand};
use weft_random::Random;

/// The offsets of three cells: the counter from which fetch-and-op takes numbers, the cell that is replaced,
/// and the cell that a lock protects.
pub(super) const COUNTER: u64 = 0;
pub(super) const REPLACED: u64 = 8;
pub(super) const PROTECTED: u64 = 16;
/// The offset of the cells to which values are added, behind these three.
pub(super) const ADDED: u64 = 32;
/// The most puts of one process at another in one epoch, each to a slot of its own.
const SLOTS: u64 = 3;
/// The first id of window operations: no message has an id so high.
const IDS: u32 = 1 << 24;

/// A window and the epochs on it.
#[derive(Clone, Debug)]
pub(super) struct WindowBlock {
    pub(super) id: u32,
    pub(super) comm: usize,
    /// Says whether the processes of a node have each other's memory in their address space.
    pub(super) is_mapped: bool,
    /// The bytes of a slot.
    pub(super) slot: u64,
    /// The number of cells to which values are added.
    pub(super) row: u64,
    pub(super) epochs: Vec<Epoch>,
    /// The barrier before the window is freed; `None` where a process may die: there the window stays.
    pub(super) end: Option<u32>,
}

/// The synchronization that begins and ends an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synchronized {
    Fence,
    /// Each process acts on the process that comes `shift` ranks later.
    Groups {
        shift: usize,
    },
    /// A lock for each act.
    Locks,
    /// A lock of all targets, and flushes.
    LockAll,
}

/// Some acts of all processes.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub(super) synchronized: Synchronized,
    pub(super) acts: Vec<Act>,
    /// The barrier behind the epoch.
    pub(super) barrier: Option<u32>,
}

/// An operation on a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    /// The name that determines the operation's bytes; no other operation of this window has it.
    pub(super) id: u32,
    /// The ranks of the origin and the target in the communicator.
    pub(super) at: usize,
    pub(super) target: usize,
    pub(super) what: What,
    pub(super) here: Shape,
    pub(super) there: Shape,
    pub(super) bytes: u64,
    /// Says whether the operation has a request, which is awaited at once.
    pub(super) requested: bool,
    /// The flush that follows, if one does; `true` if it is local.
    pub(super) flush: Option<bool>,
    /// Says whether the lock is exclusive, where there is one.
    pub(super) exclusive: bool,
    /// Nanoseconds that the program computes before the operation.
    pub(super) compute: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A put to this slot.
    Put {
        slot: u64,
    },
    Get {
        slot: u64,
    },
    /// An accumulate to `count` cells from the cell `first` on; it may fetch their former values.
    Add {
        first: u64,
        count: u64,
        fetches: bool,
    },
    /// Fetch-and-op: every number is given out once.
    Count,
    /// Fetch-and-op that replaces: every value is replaced once.
    Replace,
    /// Compare-and-swap that replaces the same cell.
    CompareAndSwap,
    /// A get of the protected cell and a put of the value plus one, under an exclusive lock.
    Protected,
}

/// A call on a window.
#[derive(Clone, Debug)]
pub(super) enum WindowCall {
    Open(Box<WindowBlock>),
    Act {
        act: Act,
        epoch: usize,
    },
    AwaitRequest(u32),
    WriteProtected(usize),
    Flush {
        target: Option<usize>,
        locally: bool,
    },
    Lock {
        target: usize,
        exclusive: bool,
    },
    Unlock(usize),
    LockAll,
    UnlockAll,
    Post(usize),
    Start(usize),
    Complete(usize),
    /// `MPI_Win_wait` for this origin, at the end of this epoch.
    Wait(usize, usize),
    /// The two halves of `MPI_Win_free`: before its barrier, and behind it.
    Finish,
    Close,
}

/// A step of a process's script: a call on the window, a barrier, or computing.
pub(super) enum WindowStep {
    Call(WindowCall),
    /// The barrier of this number.
    Barrier(u32),
    Compute(u64),
}

impl WindowBlock {
    /// The bytes of each process's part of a window with this number of members.
    pub(super) fn bytes(&self, members: usize) -> u64 {
        self.strip(members)
    }

    /// The place where the strip of a process begins.
    pub(super) fn strip(&self, of: usize) -> u64 {
        ADDED + 8 * self.row + of as u64 * 2 * SLOTS * self.slot
    }

    /// The place of a slot in a process's strip. The process puts to the slots of one half in even epochs,
    /// and gets from them in odd ones.
    pub(super) fn slot_at(&self, of: usize, half: u64, slot: u64) -> u64 {
        self.strip(of) + (half * SLOTS + slot) * self.slot
    }

    /// The steps of the process with rank `own` among `members`.
    pub(super) fn script(&self, own: usize, members: usize) -> Vec<WindowStep> {
        use WindowStep::{Barrier, Call, Compute};
        let mut steps = vec![Call(WindowCall::Open(Box::new(Self { epochs: Vec::new(), ..self.clone() })))];
        for (number, epoch) in self.epochs.iter().enumerate() {
            let locks = epoch.synchronized == Synchronized::Locks;
            let mut peers = None;
            match epoch.synchronized {
                Synchronized::Groups { shift } => {
                    let (to, from) = ((own + shift) % members, (own + members - shift % members) % members);
                    peers = Some((to, from));
                    steps.push(Call(WindowCall::Post(from)));
                    steps.push(Call(WindowCall::Start(to)));
                }
                Synchronized::LockAll => steps.push(Call(WindowCall::LockAll)),
                Synchronized::Fence | Synchronized::Locks => {}
            }
            for act in epoch.acts.iter().filter(|act| act.at == own) {
                let act = Act { target: peers.map_or(act.target, |(to, _)| to), ..*act };
                if act.compute > 0 {
                    steps.push(Compute(act.compute));
                }
                if locks {
                    let exclusive = act.exclusive || act.what == What::Protected;
                    steps.push(Call(WindowCall::Lock { target: act.target, exclusive }));
                }
                steps.push(Call(WindowCall::Act { act, epoch: number }));
                if act.requested {
                    steps.push(Call(WindowCall::AwaitRequest(act.id)));
                }
                let is_passive = locks || epoch.synchronized == Synchronized::LockAll;
                if act.what == What::Protected {
                    steps.push(Call(WindowCall::Flush { target: Some(act.target), locally: true }));
                    steps.push(Call(WindowCall::WriteProtected(act.target)));
                } else if let Some(locally) = act.flush.filter(|_| is_passive) {
                    steps.push(Call(WindowCall::Flush { target: Some(act.target), locally }));
                }
                if locks {
                    steps.push(Call(WindowCall::Unlock(act.target)));
                }
            }
            match (epoch.synchronized, peers) {
                (Synchronized::Fence, _) => steps.push(Call(WindowCall::Flush { target: None, locally: false })),
                (Synchronized::LockAll, _) => steps.push(Call(WindowCall::UnlockAll)),
                (_, Some((to, from))) => {
                    steps.push(Call(WindowCall::Complete(to)));
                    steps.push(Call(WindowCall::Wait(from, number)));
                }
                _ => {}
            }
            steps.extend(epoch.barrier.map(Barrier));
        }
        if let Some(id) = self.end {
            steps.push(Call(WindowCall::Finish));
            steps.push(Barrier(id));
            steps.push(Call(WindowCall::Close));
        }
        steps
    }

    /// The number of acts.
    pub(super) fn acts(&self) -> usize {
        self.epochs.iter().map(|epoch| epoch.acts.len()).sum()
    }

    /// Leaves out the acts from `start` to `end`, and the last epochs if no act remains in them.
    pub(super) fn remove(&mut self, start: usize, end: usize) {
        let mut at = 0;
        for epoch in &mut self.epochs {
            epoch.acts.retain(|_| {
                at += 1;
                !(start..end).contains(&(at - 1))
            });
        }
        // The number of an epoch decides which half the processes put to, so only the last epochs can go.
        while self.epochs.last().is_some_and(|epoch| epoch.acts.is_empty()) {
            self.epochs.pop();
        }
    }
}

/// Draws a window for `members` processes of the communicator `comm`.
pub(super) fn draw(random: &mut Random, id: u32, comm: usize, members: usize, with_death: bool) -> WindowBlock {
    let slot = random.pick(&[64, 600, 5_000, 40_000, 150_000]);
    let row = random.pick(&[4, 300, 3_000, 20_000]);
    let compute_max = random.pick(&[0, 2_000, 100_000]);
    let mut next = IDS + (id << 16);
    let mut take = || {
        next += 1;
        next - 1
    };
    let count = random.between(1, 5);
    let epochs = (0..count).map(|_| {
        let shift = random.below(members as u64) as usize;
        let synchronized = match random.below(if with_death { 2 } else { 4 }) {
            0 => Synchronized::Locks,
            1 => Synchronized::Groups { shift },
            2 => Synchronized::Fence,
            _ => Synchronized::LockAll,
        };
        let mut used = vec![0; members * members];
        let acts = (0..random.between(1, 4 * members as u64)).filter_map(|_| {
            let (at, mut target) = (random.below(members as u64) as usize, random.below(members as u64) as usize);
            if let Synchronized::Groups { shift } = synchronized {
                target = (at + shift) % members;
            }
            let bytes = if random.chance(500_000) { slot / 2 } else { random.below(slot / 2 + 1) };
            let strided = random.pick(&[0, 300_000]);
            let what = match random.below(10) {
                0..=2 => {
                    // Each slot is used once in an epoch.
                    let used = &mut used[at * members + target];
                    *used += 1;
                    if *used > SLOTS {
                        return None;
                    }
                    What::Put { slot: *used - 1 }
                }
                3..=4 => What::Get { slot: random.below(SLOTS) },
                5..=6 => {
                    let first = random.below(row);
                    let few = random.chance(500_000);
                    let count = 1 + random.below(if few { 3.min(row - first) } else { row - first });
                    What::Add { first, count, fetches: random.chance(400_000) }
                }
                7 => What::Count,
                8 if random.chance(500_000) => What::Replace,
                8 => What::CompareAndSwap,
                _ if synchronized == Synchronized::Locks => What::Protected,
                _ => What::Count,
            };
            let is_passive = matches!(synchronized, Synchronized::Locks | Synchronized::LockAll);
            let may_have_request = is_passive && matches!(what, What::Put { .. } | What::Get { .. } | What::Add { .. });
            Some(Act {
                id: take(),
                at,
                target,
                what,
                here: Shape::draw(random, bytes, strided),
                there: Shape::draw(random, bytes, strided),
                bytes,
                requested: may_have_request && random.chance(300_000),
                flush: random.chance(300_000).then(|| random.chance(500_000)),
                exclusive: random.chance(400_000),
                compute: if random.chance(200_000) { random.below(compute_max) } else { 0 },
            })
        });
        let acts: Vec<Act> = acts.collect();
        let barrier = matches!(synchronized, Synchronized::Fence | Synchronized::Groups { .. });
        Epoch { synchronized, acts, barrier: (barrier && !with_death).then(&mut take) }
    });
    let epochs = epochs.collect();
    let end = (!with_death).then(take);
    WindowBlock { id, comm, is_mapped: random.chance(500_000), slot, row, epochs, end }
}
