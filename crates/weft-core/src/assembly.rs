//! Assembly of packets that arrive in pieces because their path does not carry them whole: the receiver puts
//! them together before it takes them.

use crate::wire::Number;
use alloc::vec;
use alloc::vec::Vec;

/// Most packets whose pieces wait for others at a receiver. If there are more, the newest are forgotten: they
/// are sent again.
pub(crate) const ASSEMBLIES_MAX: usize = 64;

/// A packet of which some bytes have arrived.
#[derive(Debug)]
struct Assembly {
    number: Number,
    payload: Vec<u8>,
    /// The bytes of it that have arrived: ranges that do not touch, in order.
    here: Vec<(u16, u16)>,
}

/// All packets in assembly.
#[derive(Debug, Default)]
pub(crate) struct Assemblies(Vec<Assembly>);

impl Assemblies {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes bytes that belong at byte `at` of the `whole` bytes of a packet that has not arrived. Returns
    /// the whole payload once all of it is here.
    ///
    /// All transmissions of a packet have the same bytes, so it does not matter which transmission a piece is
    /// of.
    pub(crate) fn take(&mut self, number: Number, whole: u16, at: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        let known = self.0.iter().position(|one| one.number == number);
        let index = known.or_else(|| self.begin(number, whole))?;
        let one = &mut self.0[index];
        if one.payload.len() != usize::from(whole) {
            return None;
        }
        let end = at + bytes.len() as u16;
        one.payload[usize::from(at)..usize::from(end)].copy_from_slice(bytes);
        one.add(at, end);
        let is_whole = one.here == [(0, whole)];
        #[cfg(weft_mutant = "pieces_taken_for_the_packet")]
        let is_whole = is_whole || end == whole;
        is_whole.then(|| self.0.swap_remove(index).payload)
    }

    /// Makes room for a packet. If there are too many, the newest packet is forgotten: it is sent again, and
    /// others wait for the oldest one.
    fn begin(&mut self, number: Number, whole: u16) -> Option<usize> {
        if self.0.len() >= ASSEMBLIES_MAX {
            let newest = (0..self.0.len()).max_by_key(|index| self.0[*index].number.since(number))?;
            if !self.0[newest].number.is_after(number) {
                return None;
            }
            self.0.swap_remove(newest);
        }
        self.0.push(Assembly { number, payload: vec![0; usize::from(whole)], here: Vec::new() });
        Some(self.0.len() - 1)
    }

    /// Forgets the packets before this one, which have arrived in some way.
    pub(crate) fn forget_before(&mut self, expected: Number) {
        self.0.retain(|one| !expected.is_after(one.number));
    }

    /// Forgets a packet that has arrived as a whole.
    pub(crate) fn forget(&mut self, number: Number) {
        self.0.retain(|one| one.number != number);
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |one: &Assembly| one.payload.capacity() + one.here.capacity() * size_of::<(u16, u16)>();
        self.0.capacity() * size_of::<Assembly>() + self.0.iter().map(of).sum::<usize>()
    }
}

impl Assembly {
    fn add(&mut self, mut start: u16, mut end: u16) {
        self.here.retain(|&(from, until)| {
            let touches = from <= end && start <= until;
            if touches {
                (start, end) = (start.min(from), end.max(until));
            }
            !touches
        });
        let at = self.here.partition_point(|&(from, _)| from < start);
        self.here.insert(at, (start, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NUMBER: Number = Number(9);

    proptest! {
        #[test]
        fn pieces_of_any_transmissions_make_the_packet_once(
            length in 1usize..2000,
            sizes in prop::collection::vec(1usize..700, 1..5),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let payload: Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
            let cut = |size: &usize| (0..length).step_by(*size).map(|at| (at, (at + size).min(length))).collect::<Vec<_>>();
            let mut pieces: Vec<(usize, usize)> = sizes.iter().flat_map(cut).collect();
            for (i, index) in order.iter().enumerate() {
                let (a, b) = (i % pieces.len(), index.index(pieces.len()));
                pieces.swap(a, b);
            }
            let mut assemblies = Assemblies::default();
            let mut here = vec![false; length];
            for (from, until) in pieces {
                let whole = assemblies.take(NUMBER, length as u16, from as u16, &payload[from..until]);
                here[from..until].fill(true);
                if here.iter().all(|here| *here) {
                    prop_assert_eq!(whole, Some(payload));
                    prop_assert!(assemblies.is_empty());
                    return Ok(());
                }
                prop_assert_eq!(whole, None);
            }
        }
    }

    #[test]
    fn what_pieces_occupy_is_bounded_and_the_oldest_stay() {
        let mut assemblies = Assemblies::default();
        for number in (0..1000).rev() {
            assert_eq!(assemblies.take(Number(number), 100, 0, &[1; 50]), None);
        }
        assert_eq!(assemblies.0.len(), ASSEMBLIES_MAX);
        assert_eq!(assemblies.take(Number(999), 100, 50, &[1; 50]), None);
        assert_eq!(assemblies.take(Number(0), 100, 50, &[1; 50]), Some(vec![1; 100]));
        // A piece with another length contradicts the others.
        assert_eq!(assemblies.take(Number(1), 90, 50, &[1; 40]), None);
        assemblies.forget_before(Number(ASSEMBLIES_MAX as u32 - 1));
        assert_eq!(assemblies.0.len(), 1);
        assert!(assemblies.memory_bytes() >= 100);
    }
}
