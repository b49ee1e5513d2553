//! A set of ranks.

use alloc::vec::Vec;

const BITS: u32 = u64::BITS;

/// A set of ranks: a bit for each, without zeros at the end, so that equal sets are equal words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks(Vec<u64>);

impl Ranks {
    /// The empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The set of these ranks.
    pub fn of(ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::new();
        for rank in ranks {
            set.insert(rank);
        }
        set
    }

    /// Adds a rank; returns whether it is new.
    pub fn insert(&mut self, rank: u32) -> bool {
        let (word, bit) = ((rank / BITS) as usize, 1 << (rank % BITS));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Returns whether the set has this rank.
    pub fn contains(&self, rank: u32) -> bool {
        self.0.get((rank / BITS) as usize).is_some_and(|word| word & 1 << (rank % BITS) != 0)
    }

    /// Adds all ranks of another set; returns whether any is new.
    pub fn unite(&mut self, other: &Self) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut any = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            any |= *other & !*own != 0;
            *own |= other;
        }
        any
    }

    /// Removes all ranks that another set has not.
    pub fn intersect(&mut self, other: &Self) {
        self.0.truncate(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Returns whether another set has all these ranks.
    pub fn is_within(&self, other: &Self) -> bool {
        let word = |at: usize| other.0.get(at).copied().unwrap_or(0);
        self.0.iter().enumerate().all(|(at, own)| own & !word(at) == 0)
    }

    /// Returns whether the set has no rank.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of ranks.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The ranks, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.0)
            .flat_map(|(at, word)| (0..BITS).filter(move |bit| word & 1 << bit != 0).map(move |bit| at * BITS + bit))
    }

    /// The words of the set, the lowest ranks first.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// The set with these words; `None`: it has a rank that is not below `size`.
    pub fn from_words(words: impl Iterator<Item = u64>, size: u32) -> Option<Self> {
        let mut set = Self(words.collect());
        set.trim();
        let fits = set.iter().all(|rank| rank < size);
        fits.then_some(set)
    }
}
