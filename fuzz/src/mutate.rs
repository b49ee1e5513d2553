//! Bytes changed for the worse, by chance from a seed.

/// Random numbers from a seed, in the form that mutations need.
#[derive(Clone, Debug)]
pub struct Random(weft_random::Random);

impl Random {
    /// A generator that repeats itself for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(weft_random::Random::new(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    /// An element of the list. Panics if the list is empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Numbers at which lengths, counts and offsets go wrong.
const BOUNDARIES: [u64; 12] = [0, 1, 63, 64, 255, 256, 65_535, 1 << 16, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX];
/// The most changes made to one input.
const CHANGES_MAX: usize = 8;
/// The size beyond which inputs do not grow, bytes.
const BYTES_MAX: usize = 1 << 16;

/// Flips between 1 and 8 bits.
pub fn flip_bits(bytes: &mut [u8], random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
}

/// Makes one to `CHANGES_MAX` changes: flipped bits, cuts, insertions, repetitions, numbers at their
/// limits, pieces of `other`.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(CHANGES_MAX) {
        let at = random.below(bytes.len() + 1);
        let count = random.below(16) + 1;
        match random.below(8) {
            0 => flip_bits(bytes, random),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..(at + count).min(bytes.len()))),
            3 => insert(bytes, at, &random.next_u64().to_le_bytes()[..count.min(8)]),
            4 => {
                let piece = bytes[at..(at + count).min(bytes.len())].to_vec();
                insert(bytes, at, &piece.repeat(random.below(4) + 1));
            }
            5 => {
                let number = random.pick(&BOUNDARIES).wrapping_add(random.below(3) as u64).wrapping_sub(1);
                overwrite(bytes, at, &number.to_le_bytes()[..*random.pick(&[1, 2, 4, 8])]);
            }
            6 => overwrite(bytes, at, &[*random.pick(b"0123456789-=,;:. \n\t\"\\{}[]%/\0\xff")]),
            _ => {
                let from = random.below(other.len() + 1);
                insert(bytes, at, &other[from..(from + 4 * count).min(other.len())]);
            }
        }
    }
    bytes.truncate(BYTES_MAX);
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(piece) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_bytes_and_they_differ_from_what_was_given() {
        let (mut changed, seed) = (0, b"0123456789".to_vec());
        for number in 0..200 {
            let make = || {
                let mut bytes = seed.clone();
                mutate(&mut bytes, b"other", &mut Random::new(number));
                bytes
            };
            assert_eq!(make(), make());
            changed += usize::from(make() != seed);
        }
        assert!(changed > 150);
    }
}
