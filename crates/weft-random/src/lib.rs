//! Random numbers from a seed, the same on every machine: for simulations, for requested faults, and for
//! tests. They can be guessed, so they are no numbers for secrets.
#![no_std]
#![forbid(unsafe_code)]

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins a generator; the same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, any of 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 {
            return 0;
        }
        ((self.next() as u128 * limit as u128) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true `per_million` times in a million.
    pub const fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < per_million as u64
    }

    /// Returns a number from 0, included, to 1, excluded.
    pub const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns one of the choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Returns a number that looks like noise, the same for the same input.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `out` with the bytes from `offset` of the endless noise called `key`.
pub fn fill(key: u64, offset: u64, out: &mut [u8]) {
    let word = |index: u64| mix(key ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
    let mut index = offset / 8;
    // Up to the first whole word, then whole words, which take most of the time, then the rest.
    let skip = (offset % 8) as usize;
    let head = out.len().min((8 - skip) % 8);
    let (front, rest) = out.split_at_mut(head);
    if skip > 0 {
        front.copy_from_slice(&word(index)[skip..skip + head]);
        index += 1;
    }
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(index));
        index += 1;
    }
    let tail = words.into_remainder();
    tail.copy_from_slice(&word(index)[..tail.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_the_same_wherever_one_begins() {
        let mut whole = [0; 100];
        fill(7, 0, &mut whole);
        for start in 0..50 {
            let mut part = [0; 30];
            fill(7, start as u64, &mut part);
            assert_eq!(part, whole[start..start + 30]);
        }
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!((3..=9).contains(&random.between(3, 9)));
            assert!(!random.chance(0) && random.chance(1_000_000));
        }
        assert_eq!(random.below(0), 0);
    }
}
