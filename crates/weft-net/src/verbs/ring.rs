//! The fast path: small packets that a peer writes into a ring in this process's memory. The process finds
//! them by looking at that memory.
//!
//! The device does not report such a write, so each cell says by itself when it is whole. The ring relies on
//! no promise about the order in which a device writes.
//!
//! ```text
//! cell   ┌──────────────┬──────────────────────────┬──────────────┬─────────┐
//!        │ header, 8 B  │ length, 16 b; check, 48 b │ packet       │ zeros   │
//!        └──────────────┴──────────────────────────┴──────────────┴─────────┘
//! ```
//!
//! The check covers the header, the packet, and the number of cells that were written before: bytes of an
//! earlier packet never fit. The receiver clears the header of a taken cell. Each message that it sends to
//! the writer tells how many cells it has taken.
//!
//! The device wakes no process for such a write either. So the receiver asks the writer to stop before it
//! sleeps ([`Use`]).
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

use super::limits::MESSAGE_BYTES;
use super::wire::HEADER;

/// Cells of a ring.
pub(super) const CELLS: usize = 32;
/// Bytes of a cell: 16 KiB for each peer.
pub(super) const CELL_BYTES: usize = 512;
/// The largest packet that fits in a cell.
pub(super) const PACKET_MAX: usize = CELL_BYTES - HEAD;
/// Small packets without a sleep of this process between them, after which a peer gets a ring.
pub(super) const AFTER: u32 = 32;
/// Most small packets before the next ring. The number doubles each time that the ring was hardly used before
/// the next sleep.
pub(super) const AFTER_MAX: u32 = 4096;
/// Packets from other peers, while none came by a ring, after which another peer may get the ring.
pub(super) const UNUSED: u64 = 1024;

/// Bytes before the packet.
const HEAD: usize = HEADER + 8;
const WORDS: usize = CELL_BYTES / 8;
/// Bits of the check.
const CHECK: u64 = (1 << 48) - 1;

// A cell is made in the buffer of a message.
const _: () = assert!(CELL_BYTES <= MESSAGE_BYTES && HEADER == 8);

/// Returns the number of small packets after which the next ring begins, if the last one began after `after`
/// and was used `used` times.
pub(super) fn next_after(after: u32, used: u64) -> u32 {
    if used < u64::from(2 * AFTER) { (after * 2).clamp(AFTER, AFTER_MAX) } else { AFTER }
}

/// Returns the check, by which the receiver sees that a cell is whole. A stranger may guess it: packets are
/// proved by their tags.
fn check(header: u64, count: u64, length: usize, words: impl Iterator<Item = u64>) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = (header ^ count.rotate_left(32) ^ length as u64).wrapping_mul(FACTOR);
    let all = words.fold(start, |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR));
    (all ^ all >> 29) & CHECK
}

/// The use that a peer may make of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The peer writes, and this process looks.
    On,
    /// Asked to stop by this process; the peer may not have heard of it.
    Stopping,
    /// The peer has said that it writes no more.
    Off,
}

/// A ring that a peer writes to.
pub(super) struct Ring {
    memory: NonNull<u8>,
    key: u32,
    pub(super) state: Use,
    /// Cells that have been taken.
    taken: u64,
    /// Taken cells that the peer has been told of.
    told: u64,
}

/// The contents of a cell.
pub(super) struct Cell {
    words: [u64; WORDS],
    length: usize,
}

impl Cell {
    pub(super) fn new() -> Self {
        Self { words: [0; WORDS], length: 0 }
    }

    /// Returns the header that every message begins with.
    pub(super) fn header(&self) -> [u8; HEADER] {
        self.words[0].to_ne_bytes()
    }

    pub(super) fn packet(&self) -> &[u8] {
        // SAFETY: the words are initialised, and the length is no more than theirs.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>().add(HEAD), self.length.min(PACKET_MAX)) }
    }
}

impl Ring {
    /// Makes a ring in memory that peers reach by this key.
    ///
    /// # Safety
    /// There are [`CELLS`] cells, aligned for words and all zeros, as long as this lives.
    pub(super) unsafe fn new(memory: NonNull<u8>, key: u32) -> Self {
        Self { memory, key, state: Use::On, taken: 0, told: 0 }
    }

    /// Returns the address where the peer writes, and the key.
    pub(super) fn address_and_key(&self) -> (u64, u32) {
        (self.memory.as_ptr() as u64, self.key)
    }

    /// Begins again, after the peer has said that it writes no more and all its packets were taken.
    pub(super) fn begin_again(&mut self) {
        (self.state, self.taken, self.told) = (Use::On, 0, 0);
    }

    fn cell(&self) -> *mut u64 {
        // SAFETY: inside the memory.
        unsafe { self.memory.as_ptr().add(self.taken as usize % CELLS * CELL_BYTES).cast() }
    }

    /// Returns whether the next cell begins to be written.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        // SAFETY: the cell is this ring's and aligned for words; the device may write it meanwhile.
        unsafe { ptr::read_volatile(self.cell()) != 0 }
    }

    /// Copies the contents of the next cell, if the cell is whole.
    pub(super) fn look(&self, into: &mut Cell) -> bool {
        let cell = self.cell();
        // SAFETY: as for `has_some`; no word after the last of the cell is read.
        let word = |index: usize| unsafe { ptr::read_volatile(cell.add(index)) };
        let header = word(0);
        if header == 0 {
            return false;
        }
        // The processor reads the rest after the header. The check detects bytes that the device has not
        // written yet.
        fence(Ordering::Acquire);
        let second = word(1);
        let length = (second >> 48) as usize;
        if length > PACKET_MAX {
            return false;
        }
        let words = length.div_ceil(8);
        into.words[0] = header;
        for index in 0..words {
            into.words[2 + index] = word(2 + index);
        }
        into.length = length;
        let copied = into.words[2..2 + words].iter().copied();
        second & CHECK == check(header, self.taken, length, copied)
    }

    /// Frees the cell that was looked at.
    pub(super) fn take(&mut self) {
        // SAFETY: as above; the peer writes there only when it is told.
        unsafe { ptr::write_volatile(self.cell(), 0) };
        self.taken += 1;
    }

    /// Returns the number of taken cells, as messages carry it.
    pub(super) fn taken(&self) -> u16 {
        self.taken as u16
    }

    pub(super) fn used(&self) -> u64 {
        self.taken
    }

    /// Notes that a message has told the peer of taken cells.
    pub(super) fn note_told(&mut self) {
        self.told = self.taken;
    }

    /// Returns whether the peer must be told of taken cells, even if nothing else is to be sent.
    pub(super) fn must_tell(&self) -> bool {
        self.taken - self.told > CELLS as u64 / 2
    }
}

/// A ring in the memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Far {
    address: u64,
    key: u32,
    written: u64,
    taken: u64,
}

/// Bytes of a message that offers a ring, behind its header: the address and the key.
pub(super) const OFFER: usize = 16;

/// Returns the contents of a message that offers a ring.
pub(super) fn offer((address, key): (u64, u32)) -> [u8; OFFER] {
    let mut bytes = [0; OFFER];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&key.to_le_bytes());
    bytes
}

impl Far {
    /// Reads the contents of a message that offers a ring.
    pub(super) fn new(offer: &[u8]) -> Option<Self> {
        let offer: &[u8; OFFER] = offer.try_into().ok()?;
        let address = u64::from_le_bytes(<[u8; 8]>::try_from(&offer[..8]).ok()?);
        let key = u32::from_le_bytes(<[u8; 4]>::try_from(&offer[8..12]).ok()?);
        address.checked_add((CELLS * CELL_BYTES) as u64)?;
        Some(Self { address, key, written: 0, taken: 0 })
    }

    /// Returns whether a packet of so many bytes can be written now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= PACKET_MAX && self.written - self.taken < CELLS as u64
    }

    /// Returns the address of the next cell, and the key.
    pub(super) fn address_and_key(&self) -> (u64, u32) {
        (self.address + (self.written as usize % CELLS * CELL_BYTES) as u64, self.key)
    }

    pub(super) fn note_written(&mut self) {
        self.written += 1;
    }

    /// Notes how many cells the peer has taken. Returns `false` when the number is impossible. A sent message
    /// may carry an older number than a packet that was written afterwards.
    pub(super) fn note_taken(&mut self, taken: u16) -> bool {
        let more = taken.wrapping_sub(self.taken as u16);
        if more > u16::MAX / 2 {
            return true;
        }
        let can_be = u64::from(more) <= self.written - self.taken;
        self.taken += if can_be { u64::from(more) } else { 0 };
        can_be
    }

    /// Makes the next cell, and returns its bytes.
    ///
    /// # Safety
    /// There is room for a cell, aligned for words, and no other code writes there.
    pub(super) unsafe fn fill(&self, at: *mut u8, header: [u8; HEADER], packet: &[u8]) -> usize {
        let length = packet.len().min(PACKET_MAX);
        let words = length.div_ceil(8);
        let header = u64::from_ne_bytes(header);
        let cell: *mut u64 = at.cast();
        // SAFETY: as promised: a cell has room for so much.
        unsafe {
            cell.add(2 + words.saturating_sub(1)).write(0);
            ptr::copy_nonoverlapping(packet.as_ptr(), at.add(HEAD), length);
            let made = (0..words).map(|word| cell.add(2 + word).read());
            let sum = check(header, self.written, length, made);
            cell.write(header);
            cell.add(1).write((length as u64) << 48 | sum);
        }
        HEAD + words * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_OF_IT: [u8; HEADER] = [2, 0, 1, 0, 3, 0, 9, 0];

    /// Writes a cell as a device does: it copies the cell to its place, in any order and in any number of
    /// steps.
    fn written(far: &mut Far, packet: &[u8]) -> (usize, Vec<u8>) {
        let mut cell = [0_u64; WORDS];
        // SAFETY: it is a cell's size.
        let bytes = unsafe { far.fill(cell.as_mut_ptr().cast(), HEADER_OF_IT, packet) };
        let (address, _) = far.address_and_key();
        far.note_written();
        let all: Vec<u8> = cell.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect();
        (address as usize, all)
    }

    fn pair() -> (Ring, Far) {
        let memory = NonNull::from(Box::leak(Box::new([[0_u64; WORDS]; CELLS]))).cast();
        // SAFETY: it is never given back, aligned, and all zeros.
        let ring = unsafe { Ring::new(memory, 7) };
        let far = Far::new(&offer(ring.address_and_key())).expect("an offer");
        (ring, far)
    }

    fn copy((address, bytes): &(usize, Vec<u8>), range: std::ops::Range<usize>) {
        let part = &bytes[range.clone()];
        // SAFETY: the address is that of a cell of a ring of this test.
        unsafe { ptr::copy_nonoverlapping(part.as_ptr(), (*address as *mut u8).add(range.start), part.len()) };
    }

    #[test]
    fn packets_of_all_sizes_go_round_and_are_taken_once_each() {
        let (mut ring, mut far) = pair();
        let mut cell = Cell::new();
        assert!(!ring.look(&mut cell));
        for round in 0..200 {
            let packet: Vec<u8> = (0..(round * 37) % (PACKET_MAX + 1)).map(|byte| (byte * 7 + round) as u8).collect();
            assert!(far.has_room(packet.len()));
            let made = written(&mut far, &packet);
            copy(&made, 0..made.1.len());
            assert!(ring.has_some() && ring.look(&mut cell));
            assert_eq!((cell.packet(), cell.header()), (&packet[..], HEADER_OF_IT));
            ring.take();
            assert!(!ring.look(&mut cell), "it is there once");
            if ring.must_tell() {
                assert!(far.note_taken(ring.taken()));
                ring.note_told();
            }
        }
        assert!(!far.has_room(PACKET_MAX + 1));
    }

    /// The device may write the bytes of a cell in any order.   Expect: the cell is not seen before all its
    /// bytes are there.
    #[test]
    fn a_slot_is_seen_when_all_of_it_is_there_in_whatever_order_it_came() {
        let (mut ring, mut far) = pair();
        let mut cell = Cell::new();
        for seed in 0..2000_u64 {
            // No word is zero, or what it was before: otherwise it would be there before it is copied.
            let mix = |byte: u64| (seed * 64 + byte).wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40;
            let packet: Vec<u8> = (0..61).map(|byte| mix(byte) as u8 | 1).collect();
            let made = written(&mut far, &packet);
            let words = made.1.len() / 8;
            // Another order for each seed, by a step that is prime to the number of words.
            let (first, step) = (seed as usize % words, 1 + seed as usize % 7 * 2);
            let step = if words.is_multiple_of(step) && step > 1 { 1 } else { step };
            let order: std::collections::BTreeSet<usize> =
                (0..words).map(|word| (first + word * step) % words).collect();
            assert_eq!(order.len(), words);
            for (number, word) in (0..words).map(|word| (first + word * step) % words).enumerate() {
                assert!(!ring.look(&mut cell), "seed {seed}: {number} of {words} words are there");
                copy(&made, word * 8..word * 8 + 8);
            }
            assert!(ring.look(&mut cell), "seed {seed}");
            assert_eq!(cell.packet(), packet);
            ring.take();
            assert!(far.note_taken(ring.taken()));
        }
    }

    #[test]
    fn a_full_ring_has_no_room_and_a_peer_that_takes_more_than_there_was_is_found_out() {
        let (mut ring, mut far) = pair();
        for _ in 0..CELLS {
            assert!(far.has_room(8));
            written(&mut far, &[1; 8]);
        }
        assert!(!far.has_room(8));
        assert!(!far.note_taken(CELLS as u16 + 1) && !far.has_room(8));
        assert!(far.note_taken(1) && far.has_room(8));
        assert!(far.note_taken(0) && far.has_room(8), "old news");
        assert!(!ring.must_tell());
        ring.taken = CELLS as u64 / 2 + 1;
        assert!(ring.must_tell());
        ring.note_told();
        assert!(!ring.must_tell());
        // At most one message of which the writer has not heard tells of taken cells.
        assert!(CELLS as u64 / (CELLS as u64 / 2 + 1) <= 1);
        ring.begin_again();
        assert_eq!((ring.used(), ring.state), (0, Use::On));
    }

    #[test]
    fn nonsense_in_a_slot_or_an_offer_is_nothing() {
        let (ring, _) = pair();
        let mut cell = Cell::new();
        for second in [0, u64::MAX, 600 << 48, 8 << 48 | 1] {
            // SAFETY: the ring's own cell.
            unsafe {
                ring.cell().write(0x0102);
                ring.cell().add(1).write(second);
            }
            assert!(!ring.look(&mut cell));
        }
        assert_eq!(Far::new(&[0; OFFER - 1]), None);
        assert_eq!(Far::new(&offer((u64::MAX - 100, 1))), None);
    }

    #[test]
    fn rings_that_are_hardly_used_begin_later_and_later() {
        let after = [next_after(0, 3), next_after(AFTER, 3), next_after(AFTER_MAX, 0), next_after(AFTER_MAX, 1000)];
        assert_eq!(after, [AFTER, 2 * AFTER, AFTER_MAX, AFTER]);
    }
}
