//! The board of a pair of ranks: large receives that one has posted, for the other to write into directly, and the [`Share`] of a message
//! that both are copying.
//!
//! The receiver is the only one that posts, the sender the only one that takes. It lies at the start of the ring from the receiver
//! to the sender, and is read only by who has something large to send: a post wakes nobody.
//!
//! A slot's state word holds its state and a generation that grows with each post, so that a sender that has read a slot takes
//! exactly what it has read, or nothing:
//!
//! ```text
//!          post              take (sender)           finish (sender)
//!  FREE ──────────▶ OPEN ───────────────────▶ TAKEN ─────────────────▶ DONE or FAILED
//!    ▲    withdraw   │                                                        │
//!    └───────────────┴──────────────────── free ──────────────────────────────┘   (receiver)
//! ```
//!
//! OPEN is left by one compare-and-swap: of the sender that takes and the receiver that withdraws one wins, and both know who.
//! The receiver says how many messages of the sender it has handled before it withdraws a receive for one of them, and the sender
//! looks at that number after it has looked at the slots: so the message that is announced and written is never written to the
//! second of two receives because the receiver has just taken the first one for it.
//!
//! Receives stand in the order of posting. The sender looks at no slot that was posted after it began to look, so it never sees a
//! receive without having seen all that were posted before it.
//!
//! Neither side believes the other: what stands on a board can make a copy fail or a message arrive wrong between these two.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::segment::Segment;
use super::share::Share;
use crate::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Receives that stand on one board at most.
const SLOTS: usize = if cfg!(loom) { 2 } else { 31 };
/// Bytes of a board.
pub(super) const BOARD_BYTES: usize = (SLOTS + 2) * 64;

const FREE: u32 = 0;
const OPEN: u32 = 1;
const TAKEN: u32 = 2;
const DONE: u32 = 3;
const FAILED: u32 = 4;
/// Bits of the state in a state word; the generation is above.
const STATE_MASK: u32 = 7;

const WITH_TAG: u32 = 1;
const AWAITED: u32 = 2;

#[repr(C, align(64))]
#[cfg_attr(loom, derive(Default))]
struct Slot {
    state: AtomicU32,
    flags: AtomicU32,
    context: AtomicU32,
    tag: AtomicI32,
    address: AtomicU64,
    length: AtomicU64,
    after: AtomicU32,
    order: AtomicU32,
    // Written by the sender.
    total: AtomicU64,
    message: AtomicU32,
    in_ring: AtomicU32,
    sent_tag: AtomicI32,
}

#[repr(C, align(64))]
#[cfg_attr(loom, derive(Default))]
pub(super) struct Layout {
    /// How many receives have ever been posted here.
    posted: AtomicU32,
    /// How many of the sender's messages the receiver has begun to handle.
    handled: AtomicU32,
    share: Share,
    slots: [Slot; SLOTS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64 && size_of::<Layout>() == BOARD_BYTES);

/// A receive as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Context of the communicator.
    pub context: u32,
    /// Tag, `None` for any.
    pub tag: Option<i32>,
    /// Where the message goes, in the receiver's memory.
    pub address: u64,
    /// Bytes there.
    pub length: u64,
    /// Messages of the sender that the receiver had handled at this time.
    pub after: u32,
    /// Whether the program waits for it in the call that has posted it.
    pub awaited: bool,
}

/// The receiver's name for what it has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: u8,
    word: u32,
}

/// The sender's name for what it has taken, and where the message goes.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    slot: u8,
    word: u32,
    /// In the receiver's memory.
    pub address: u64,
    /// Bytes there.
    pub length: u64,
}

/// What a board wants of a message, as far as one can see without taking anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing that it matches stands there.
    None,
    /// A receive whose process may compute.
    Posted,
    /// Only receives in which processes wait.
    Awaited,
}

/// What has become of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nobody has taken it.
    Open,
    /// The sender is writing. `message`: the number of its message, when that has been announced in the ring as well.
    Taken {
        /// See above.
        message: Option<u32>,
    },
    /// The message has been written, as much of it as has room.
    Done {
        /// As for `Taken`.
        message: Option<u32>,
        /// The message's tag.
        tag: i32,
        /// Its length in bytes, which may be more than there is room for.
        total: u64,
    },
    /// The sender could not write.
    Failed,
}

/// One end of a board.
pub struct Board {
    _segment: Arc<Segment>,
    layout: NonNull<Layout>,
    /// Posts so far, of the receiver's end.
    posted: u32,
}

// SAFETY: a Board is an address in the segment that it keeps mapped; all it does there it does by atomics.
unsafe impl Send for Board {}

impl Board {
    /// The board at the beginning of the ring from `from` to `to`.
    pub(super) fn new(segment: Arc<Segment>, to: usize, from: usize) -> Self {
        let layout = segment.ring(to, from).board().cast();
        Self { _segment: segment, layout, posted: 0 }
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the ring keeps BOARD_BYTES for this at an address aligned to a line, zero when it was new; the segment stays
        // mapped while this value lives; all fields are atomics.
        unsafe { self.layout.as_ref() }
    }

    /// The message that both sides copy at this time; its name is that of the sender's request.
    #[inline]
    pub fn share(&self) -> &Share {
        &self.layout().share
    }

    /// How many receives have ever been posted; for the sender, to see whether there is anything new.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.layout().posted.load(Ordering::SeqCst)
    }

    /// Says that message `handled` of the sender is being handled (receiver): before any receive is withdrawn for it.
    #[inline]
    pub fn advance(&mut self, handled: u32) {
        self.layout().handled.store(handled, Ordering::SeqCst);
    }

    /// Posts a receive (receiver). None: the board is full.
    pub fn post(&mut self, wanted: &Wanted) -> Option<Ticket> {
        self.advance(wanted.after);
        let layout = self.layout();
        let is_free = |slot: &Slot| slot.state.load(Ordering::Relaxed) & STATE_MASK == FREE;
        let at = layout.slots.iter().position(is_free)?;
        let slot = &layout.slots[at];
        let order = self.posted.wrapping_add(1);
        let with_tag = if wanted.tag.is_some() { WITH_TAG } else { 0 };
        let awaited = if wanted.awaited { AWAITED } else { 0 };
        slot.flags.store(with_tag | awaited, Ordering::Relaxed);
        slot.context.store(wanted.context, Ordering::Relaxed);
        slot.tag.store(wanted.tag.unwrap_or(0), Ordering::Relaxed);
        slot.address.store(wanted.address, Ordering::Relaxed);
        slot.length.store(wanted.length, Ordering::Relaxed);
        slot.after.store(wanted.after, Ordering::Relaxed);
        slot.order.store(order, Ordering::Relaxed);
        let generation = (slot.state.load(Ordering::Relaxed) | STATE_MASK).wrapping_add(1);
        let word = generation | OPEN;
        slot.state.store(word, Ordering::SeqCst);
        layout.posted.store(order, Ordering::SeqCst);
        self.posted = order;
        Some(Ticket { slot: at as u8, word })
    }

    /// Takes a post back (receiver). False: the sender has taken it, and [`Self::fate`] says more.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let state = &self.layout().slots[usize::from(ticket.slot)].state;
        let free = ticket.word & !STATE_MASK | FREE;
        state.compare_exchange(ticket.word, free, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// What has become of a post (receiver).
    pub fn fate(&self, ticket: Ticket) -> Fate {
        let slot = &self.layout().slots[usize::from(ticket.slot)];
        let state = slot.state.load(Ordering::Acquire) & STATE_MASK;
        let in_ring = slot.in_ring.load(Ordering::Relaxed) != 0;
        let message = in_ring.then(|| slot.message.load(Ordering::Relaxed));
        match state {
            OPEN => Fate::Open,
            TAKEN => Fate::Taken { message },
            DONE => Fate::Done {
                message,
                tag: slot.sent_tag.load(Ordering::Relaxed),
                total: slot.total.load(Ordering::Relaxed),
            },
            _ => Fate::Failed,
        }
    }

    /// Frees the slot of a post that is done or has failed (receiver).
    pub fn free(&mut self, ticket: Ticket) {
        let state = &self.layout().slots[usize::from(ticket.slot)].state;
        state.store(ticket.word & !STATE_MASK | FREE, Ordering::Relaxed);
    }

    /// Takes the earliest receive that a message of `context` and `tag` matches (sender), if all messages of this sender before the
    /// one it is for, `before` in number, had been handled when that receive was posted, and this one is not being handled now. `message`: the number of this message,
    /// when it has been announced in the ring as well.
    pub fn take(&mut self, context: u32, tag: i32, before: u32, message: Option<u32>) -> Option<Claim> {
        let layout = self.layout();
        let posted = layout.posted.load(Ordering::SeqCst);
        let mut first: Option<(u32, usize, u32)> = None;
        for (at, slot) in layout.slots.iter().enumerate() {
            let word = slot.state.load(Ordering::Acquire);
            if word & STATE_MASK != OPEN || slot.context.load(Ordering::Relaxed) != context {
                continue;
            }
            let any = slot.flags.load(Ordering::Relaxed) & WITH_TAG == 0;
            let age = posted.wrapping_sub(slot.order.load(Ordering::Relaxed));
            // An age of "minus something" is that of a receive posted meanwhile.
            let is_known = age < 1 << 31;
            if is_known && (any || slot.tag.load(Ordering::Relaxed) == tag) && first.is_none_or(|(most, ..)| age > most)
            {
                first = Some((age, at, word));
            }
        }
        let (_, at, word) = first?;
        let slot = &layout.slots[at];
        // In this order: a receive that was passed over because it had been withdrawn for this message has left its mark here.
        if slot.after.load(Ordering::Relaxed) != before || layout.handled.load(Ordering::SeqCst) != before {
            return None;
        }
        let claim = Claim {
            slot: at as u8,
            word,
            address: slot.address.load(Ordering::Relaxed),
            length: slot.length.load(Ordering::Relaxed),
        };
        slot.message.store(message.unwrap_or(0), Ordering::Relaxed);
        slot.in_ring.store(u32::from(message.is_some()), Ordering::Relaxed);
        slot.sent_tag.store(tag, Ordering::Relaxed);
        let taken = word & !STATE_MASK | TAKEN;
        // What was read above belongs to this generation: a later post would have changed the word.
        slot.state.compare_exchange(word, taken, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        Some(claim)
    }

    /// What is posted of `context` that a message with `tag` matches (sender): a hint, nothing is taken.
    pub fn wish(&self, context: u32, tag: i32) -> Wish {
        let mut wish = Wish::None;
        for slot in &self.layout().slots {
            if slot.state.load(Ordering::Acquire) & STATE_MASK != OPEN
                || slot.context.load(Ordering::Relaxed) != context
            {
                continue;
            }
            let flags = slot.flags.load(Ordering::Relaxed);
            if flags & WITH_TAG != 0 && slot.tag.load(Ordering::Relaxed) != tag {
                continue;
            }
            if flags & AWAITED == 0 {
                return Wish::Posted;
            }
            wish = Wish::Awaited;
        }
        wish
    }

    /// The message of `total` bytes has been written, or could not be (sender).
    pub fn finish(&mut self, claim: &Claim, total: u64, written: bool) {
        let slot = &self.layout().slots[usize::from(claim.slot)];
        slot.total.store(total, Ordering::Relaxed);
        let state = if written { DONE } else { FAILED };
        slot.state.store(claim.word & !STATE_MASK | state, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "board_tests.rs"]
mod tests;
