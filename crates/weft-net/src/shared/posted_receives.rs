//! The table of posted receives: large receives that a rank has posted, so that senders may write into their
//! buffers directly.
//!
//! The table also holds the [`CooperativeCopy`] of a message that both sides are copying.
//!
//! Only the receiver posts. There are two kinds of tables:
//!
//! - A receive that names its source stands on the table of that pair of ranks, at the start of the ring from
//!   the receiver to the sender. Only that sender takes the receive.
//! - A receive from any source stands on the receiver's any-source table, in the place of a ring from the
//!   receiver to itself. Every sender of the node may take the receive.
//!
//! A sender reads tables only when it has a large message to send, so posting wakes nobody.
//!
//! An entry's state word holds three things:
//!
//! - the entry's state;
//! - a generation, which grows with each post: a sender that has read an entry takes exactly the post that it
//!   has read, or fails;
//! - the sender that has taken the entry, and for which message.
//!
//! ```text
//!          post              take (sender)           finish (sender)
//!  FREE ──────────▶ OPEN ───────────────────▶ TAKEN ─────────────────▶ DONE or FAILED
//!    ▲    withdraw   │                                                        │
//!    └───────────────┴──────────────────── free ──────────────────────────────┘   (receiver)
//! ```
//!
//! An entry leaves OPEN by a compare-and-swap. The senders that want the entry and the receiver that
//! withdraws it compete; a single one wins, and the others see that they have lost.
//!
//! A sender must not overtake its own messages. The table of the pair holds two counters: how many of the
//! sender's messages the receiver has begun to handle, and for how many of these messages the receiver has
//! found a receive. A sender takes a receive for a message only if both conditions hold:
//!
//! - Every earlier message had found its receive before the sender looked at the entries: the receiver had
//!   said so, or the sender had written the message to a receive that it had taken. So no earlier message
//!   wanted a receive that the sender saw open.
//! - The receiver had not begun to handle the message after the sender had looked. So the receiver had not
//!   withdrawn an entry, which the sender passed over, for the very message that the sender wants to write.
//!
//! So a sender writes a window of announced messages, one after the other, to a receiver that is outside of
//! MPI. The receiver finds the receive of such a message taken for its number. If the receiver sees the
//! written message before the announcement, it notes the number: all announcements up to this number that it
//! has still to handle are those of written messages.
//!
//! Receives of a rank have one order of posting, whichever table they are on. The sender passes over entries
//! that were posted after it began to look. So the sender never sees a receive without having seen all
//! receives that were posted before.
//!
//! Neither side trusts the other: what stands on a table can make a copy fail, or a message arrive wrong,
//! between these two ranks only.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_engine::transport::{
    Announcements, Candidate, Claim, NUMBER_BITS, Offered, PostState, PostedReceive, PostedTable, RELOCATED_MAX,
    Remainder, Taker, Ticket,
};

use super::cooperative_copy::CooperativeCopy;
use super::segment::Segment;
use super::sizes::POSTED_MAX;
use crate::atomic::{AtomicI32, AtomicU32, AtomicU64, fence};

const FREE: u64 = 0;
const OPEN: u64 = 1;
const TAKEN: u64 = 2;
const DONE: u64 = 3;
const FAILED: u64 = 4;
/// The bits of a state word that hold the state. Above them is the generation; the upper half says which
/// sender has taken the entry, and for which message.
const STATE_MASK: u64 = 7;
const POST_MASK: u64 = 0xffff_ffff;
/// Start of the upper half: the sender's local index, whether its message has been announced in the ring too,
/// and the low bits of the message's number.
const BY_SHIFT: u32 = 32;
const BY_MASK: u64 = 0x3ff;
const ANNOUNCED: u64 = 1 << 42;
const NUMBER_SHIFT: u32 = 43;
const _: () = assert!(super::LOCAL_SIZE_MAX <= BY_MASK as usize + 1 && NUMBER_SHIFT + NUMBER_BITS == u64::BITS);

const WITH_TAG: u32 = 1;
const AWAITED: u32 = 2;

#[repr(C, align(64))]
#[cfg_attr(loom, derive(Default))]
struct Entry {
    state: AtomicU64,
    address: AtomicU64,
    /// Room of the buffer in bytes; once the entry is done, the bytes that the receiver still has to ask for.
    length: AtomicU64,
    flags: AtomicU32,
    context: AtomicU32,
    tag: AtomicI32,
    order: AtomicU32,
    // The sender that has taken the entry writes these.
    total: AtomicU64,
    sent_tag: AtomicI32,
    sent_source: AtomicU32,
    request: AtomicU32,
}

/// An announced message that its sender has relocated.
#[repr(C, align(16))]
#[cfg_attr(loom, derive(Default))]
struct Relocated {
    /// The sender's name for the message, plus [`RELOCATED`]; zero if there is none.
    name: AtomicU64,
    address: AtomicU64,
}

/// The bit of a relocated message's name that tells it from no message.
const RELOCATED: u64 = 1 << 32;

#[repr(C, align(64))]
#[cfg_attr(loom, derive(Default))]
pub(super) struct Layout {
    /// The entries from `first` on and before `limit` are in use, or some of them; no others are.
    first: AtomicU32,
    limit: AtomicU32,
    /// Counters on the table of a pair only. `handled`: the sender's messages that the receiver has begun to
    /// handle. `matched`: those of them whose receive is known, or that are known to have none yet.
    handled: AtomicU32,
    matched: AtomicU32,
    /// The messages of the sender that are announced and not complete ([`Announcements`]). The sender writes
    /// this word, on the table of a pair only.
    announcements: AtomicU32,
    /// Set while the receiver fetches messages of the sender, on the table of a pair only.
    fetching: AtomicU32,
    cooperative_copy: CooperativeCopy,
    /// The announced messages that the sender has relocated, on the table of a pair only. The sender writes
    /// it.
    relocated: [Relocated; RELOCATED_MAX],
    entries: [Entry; POSTED_MAX],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Layout>() == super::sizes::POSTED_TABLE_BYTES);

/// An end of a table of posted receives, the receiver's or a sender's.
pub struct PostedReceives {
    segment: Arc<Segment>,
    receiver: usize,
    sender: usize,
    layout: NonNull<Layout>,
    /// The receiver's any-source table.
    common: NonNull<Layout>,
    /// The entries that are not free, a bit each, and their range as the layout says it. Used at the
    /// receiver's end.
    used: u64,
    range: (u32, u32),
    /// The counters `handled` and `matched` of the layout, at the receiver's end.
    handled: u32,
    matched: u32,
    /// The word `announcements` of the layout, at the sender's end.
    announcements: Announcements,
}

// SAFETY: a PostedReceives is two addresses in the segment that it keeps mapped; all its accesses there are
// atomic.
unsafe impl Send for PostedReceives {}

impl PostedReceives {
    /// The table at the beginning of the ring from `receiver` to `sender`, or the any-source table if both
    /// are the same rank.
    pub(super) fn new(segment: Arc<Segment>, sender: usize, receiver: usize) -> Self {
        let layout = segment.ring(sender, receiver).posted_table().cast();
        let common = segment.ring(receiver, receiver).posted_table().cast();
        Self {
            segment,
            receiver,
            sender,
            layout,
            common,
            used: 0,
            range: (0, 0),
            handled: 0,
            matched: 0,
            announcements: Announcements::One,
        }
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the ring keeps BOARD_BYTES for this at an address aligned to a line, zero when it was new;
        // the segment stays mapped while this value lives; all fields are atomics.
        unsafe { self.layout.as_ref() }
    }

    /// Says in which range entries are in use now. A sender that looks at one of many receives need not look
    /// at those that were withdrawn before. It knows then all that a look at them would have told
    /// (`PostedTable::take`): why they were withdrawn.
    fn publish_range(&mut self) {
        let range = (self.used.trailing_zeros(), u64::BITS - self.used.leading_zeros());
        if std::mem::replace(&mut self.range, range) != range {
            self.layout().first.store(range.0, Ordering::Release);
            self.layout().limit.store(range.1, Ordering::Release);
        }
    }

    /// Returns the receiver's any-source table, once the receiver has made it.
    fn common(&self) -> Option<&Layout> {
        // SAFETY: as for `layout`; the receiver has put memory behind it before it says that it is there.
        let common = unsafe { self.common.as_ref() };
        (self.segment.rank_state(self.receiver).common.load(Ordering::Acquire) != 0).then_some(common)
    }
}

impl PostedTable for PostedReceives {
    type Cooperation = CooperativeCopy;

    #[inline]
    fn cooperative_copy(&self) -> &CooperativeCopy {
        &self.layout().cooperative_copy
    }

    fn note_announcements(&mut self, announcements: Announcements) {
        // The receiver writes to the same line with every message.
        if std::mem::replace(&mut self.announcements, announcements) != announcements {
            self.layout().announcements.store(announcements as u32, Ordering::Relaxed);
        }
    }

    fn sender_awaits_several(&self) -> bool {
        const SEVERAL: u32 = Announcements::Several as u32;
        const WINDOW: u32 = Announcements::Window as u32;
        match self.layout().announcements.load(Ordering::Relaxed) {
            SEVERAL => self.segment.rank_state(self.sender).inside_mpi.load(Ordering::Relaxed) != 0,
            announcements => announcements == WINDOW,
        }
    }

    fn note_relocated(&self, place: usize, relocated: Option<(u32, u64)>) {
        let Some(entry) = self.layout().relocated.get(place) else { return };
        let (name, address) = relocated.map_or((0, 0), |(request, address)| (u64::from(request) | RELOCATED, address));
        if name != 0 {
            entry.address.store(address, Ordering::Relaxed);
        }
        entry.name.store(name, Ordering::Release);
        // The program may write to its memory as soon as this is over.
        fence(Ordering::SeqCst);
    }

    fn relocated(&self, request: u32) -> Option<u64> {
        // The copy came before this.
        fence(Ordering::SeqCst);
        let name = u64::from(request) | RELOCATED;
        let found = self.layout().relocated.iter().find(|entry| entry.name.load(Ordering::Acquire) == name)?;
        Some(found.address.load(Ordering::Relaxed))
    }

    fn note_fetching(&self, fetching: bool) {
        self.layout().fetching.store(u32::from(fetching), Ordering::Relaxed);
    }

    fn is_receiver_fetching(&self) -> bool {
        self.layout().fetching.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn posted(&self) -> u32 {
        self.segment.rank_state(self.receiver).posted.load(Ordering::Acquire)
    }

    #[inline]
    fn advance(&mut self, handled: u32) {
        self.handled = handled;
        self.layout().handled.store(handled, Ordering::Release);
    }

    #[inline]
    fn publish_matched(&mut self) {
        if self.matched != self.handled {
            self.matched = self.handled;
            self.layout().matched.store(self.matched, Ordering::Release);
        }
    }

    fn post(&mut self, receive: &PostedReceive) -> Option<Ticket> {
        let at = self.used.trailing_ones() as usize;
        if at >= POSTED_MAX {
            return None;
        }
        self.used |= 1 << at;
        // A sender that sees the new number of posted receives sees this range, too.
        self.publish_range();
        let entry = &self.layout().entries[at];
        let rank_state = self.segment.rank_state(self.receiver);
        let order = rank_state.posted.load(Ordering::Relaxed).wrapping_add(1);
        let with_tag = if receive.tag.is_some() { WITH_TAG } else { 0 };
        let awaited = if receive.awaited { AWAITED } else { 0 };
        entry.flags.store(with_tag | awaited, Ordering::Relaxed);
        entry.context.store(receive.context, Ordering::Relaxed);
        entry.tag.store(receive.tag.unwrap_or(0), Ordering::Relaxed);
        entry.address.store(receive.address, Ordering::Relaxed);
        entry.length.store(receive.length, Ordering::Relaxed);
        entry.order.store(order, Ordering::Relaxed);
        let before = entry.state.load(Ordering::Relaxed) & POST_MASK;
        let word = ((before | STATE_MASK) + 1) & POST_MASK | OPEN;
        entry.state.store(word, Ordering::Release);
        rank_state.posted.store(order, Ordering::Release);
        Some(Ticket { common: self.sender == self.receiver, entry: at as u8, word: word as u32 })
    }

    fn withdraw(&mut self, ticket: Ticket) -> bool {
        let state = &self.layout().entries[usize::from(ticket.entry)].state;
        let open = u64::from(ticket.word);
        let free = open & !STATE_MASK | FREE;
        let ours = state.compare_exchange(open, free, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if ours {
            self.used &= !(1 << ticket.entry);
            self.publish_range();
        }
        ours
    }

    fn state(&self, ticket: Ticket) -> PostState {
        let entry = &self.layout().entries[usize::from(ticket.entry)];
        let word = entry.state.load(Ordering::Acquire);
        let announced = (word & ANNOUNCED != 0).then_some((word >> NUMBER_SHIFT) as u32);
        let taker = Taker { by: (word >> BY_SHIFT & BY_MASK) as usize, announced };
        match word & STATE_MASK {
            OPEN => PostState::Open,
            TAKEN => PostState::Taken(taker),
            DONE => PostState::Done {
                rest: match entry.length.load(Ordering::Relaxed) {
                    0 => None,
                    bytes => Some(Remainder { bytes, request: entry.request.load(Ordering::Relaxed) }),
                },
                taker,
                source: entry.sent_source.load(Ordering::Relaxed),
                tag: entry.sent_tag.load(Ordering::Relaxed),
                total: entry.total.load(Ordering::Relaxed),
            },
            _ => PostState::Failed,
        }
    }

    fn free(&mut self, ticket: Ticket) {
        let state = &self.layout().entries[usize::from(ticket.entry)].state;
        state.store(u64::from(ticket.word) & !STATE_MASK | FREE, Ordering::Relaxed);
        self.used &= !(1 << ticket.entry);
        self.publish_range();
    }

    fn take(&mut self, message: &Offered) -> Option<Claim> {
        let pair = self.layout();
        if !message.stands_at(pair.matched.load(Ordering::Acquire)) {
            return None;
        }
        let posted = self.posted();
        let mut first: Option<(u32, bool, usize, u64)> = None;
        let posted_tables = [(false, Some(pair)), (true, self.common())];
        for (common, posted_table) in
            posted_tables.into_iter().filter_map(|(common, posted_table)| Some((common, posted_table?)))
        {
            for (at, word) in posted_table.open_entries(message.context, message.tag) {
                let age = posted.wrapping_sub(posted_table.entries[at].order.load(Ordering::Relaxed));
                // A negative age is that of a receive that was posted meanwhile.
                if age < 1 << 31 && first.is_none_or(|(most, ..)| age > most) {
                    first = Some((age, common, at, word));
                }
            }
        }
        let (_, common, at, word) = first?;
        // The order of these steps matters: when a receive was passed over because the receiver had withdrawn
        // it for this message, `handled` shows it here.
        if !message.stands_at(pair.handled.load(Ordering::Acquire)) {
            return None;
        }
        let posted_table = if common { self.common()? } else { pair };
        let entry = &posted_table.entries[at];
        let claim = Claim {
            common,
            entry: at as u8,
            word: word & POST_MASK | (self.sender as u64) << BY_SHIFT | announced(message.number),
            source: message.source,
            tag: message.tag,
            address: entry.address.load(Ordering::Relaxed),
            length: entry.length.load(Ordering::Relaxed),
        };
        let taken = claim.word & !STATE_MASK | TAKEN;
        // The values read above belong to this generation: a later post would have changed the word.
        entry.state.compare_exchange(word, taken, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        Some(claim)
    }

    fn candidate(&self, context: u32, tag: i32) -> Candidate {
        let mut candidate = Candidate::None;
        for posted_table in [Some(self.layout()), self.common()].into_iter().flatten() {
            for (at, _) in posted_table.open_entries(context, tag) {
                if posted_table.entries[at].flags.load(Ordering::Relaxed) & AWAITED == 0 {
                    return Candidate::Posted;
                }
                candidate = Candidate::Awaited;
            }
        }
        candidate
    }

    fn is_wanted(&self) -> bool {
        [Some(self.layout()), self.common()].into_iter().flatten().any(|posted_table| {
            posted_table.entries_in_use().any(|(_, entry)| entry.state.load(Ordering::Relaxed) & STATE_MASK == OPEN)
        })
    }

    fn finish(&mut self, claim: &Claim, total: u64, rest: Option<Remainder>, written: bool) {
        let Some(posted_table) = (if claim.common { self.common() } else { Some(self.layout()) }) else { return };
        let entry = &posted_table.entries[usize::from(claim.entry)];
        entry.total.store(total, Ordering::Relaxed);
        entry.length.store(rest.map_or(0, |rest| rest.bytes), Ordering::Relaxed);
        entry.request.store(rest.map_or(0, |rest| rest.request), Ordering::Relaxed);
        entry.sent_tag.store(claim.tag, Ordering::Relaxed);
        entry.sent_source.store(claim.source, Ordering::Relaxed);
        let state = if written { DONE } else { FAILED };
        entry.state.store(claim.word & !STATE_MASK | state, Ordering::SeqCst);
    }
}

impl Layout {
    /// The entries in the range that the receiver says.
    fn entries_in_use(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let [first, limit] = [&self.first, &self.limit].map(|bound| bound.load(Ordering::Acquire) as usize);
        self.entries.iter().enumerate().take(limit).skip(first)
    }

    /// Returns the open entries that match a message of `context` and `tag`, with the state word of each, as
    /// far as a look without taking can tell. The state words were read first.
    fn open_entries(&self, context: u32, tag: i32) -> impl Iterator<Item = (usize, u64)> {
        self.entries_in_use().filter_map(move |(at, entry)| {
            let word = entry.state.load(Ordering::Acquire);
            let matches = word & STATE_MASK == OPEN
                && entry.context.load(Ordering::Relaxed) == context
                && (entry.flags.load(Ordering::Relaxed) & WITH_TAG == 0 || entry.tag.load(Ordering::Relaxed) == tag);
            matches.then_some((at, word))
        })
    }
}

fn announced(number: Option<u32>) -> u64 {
    number.map_or(0, |number| ANNOUNCED | u64::from(number) << NUMBER_SHIFT)
}

#[cfg(all(test, not(loom)))]
#[path = "posted_receives_tests.rs"]
mod tests;
