//! Sets of processors, by the kernel's numbers.

use crate::sys;
use std::fmt;

/// The bits of a word of the kernel's masks.
const WORD_BITS: usize = u64::BITS as usize;
/// The highest processor number that is trusted: Linux cannot be built for more.
const NUMBER_MAX: usize = 1 << 16;

/// Processors in ascending order, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<usize>);

impl Set {
    /// The processors that this process may run on; only 0 when the kernel does not tell.
    pub(crate) fn allowed() -> Self {
        let words = sys::affinity().unwrap_or_default();
        let bits = (0..words.len() * WORD_BITS).filter(|&bit| words[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1);
        let set = Self(bits.collect());
        if set.is_empty() { Self(vec![0]) } else { set }
    }

    /// Reads a list in the kernel's form, `0-3,8`; `None` when it is no such list.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if last > NUMBER_MAX {
                return None;
            }
            numbers.extend(first..=last);
        }
        Some(numbers.into_iter().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// The set behind a word for its members: `processors 0-3`.
    pub(crate) fn named(&self, noun: &str) -> String {
        format!("{noun}{} {self}", if self.len() == 1 { "" } else { "s" })
    }

    /// The set as a mask for the kernel.
    pub(crate) fn words(&self) -> Vec<u64> {
        let mut words = vec![0; self.0.last().map_or(0, |last| last / WORD_BITS + 1)];
        for number in self.iter() {
            words[number / WORD_BITS] |= 1 << (number % WORD_BITS);
        }
        words
    }
}

impl FromIterator<usize> for Set {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut numbers: Vec<usize> = numbers.into_iter().collect();
        weft_ordered::sort(&mut numbers);
        numbers.dedup();
        Self(numbers)
    }
}

/// Shows a set as `0-3,8`.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut comma = "";
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|(number, wanted)| **number == *wanted).count();
            let last = first + run - 1;
            if run == 1 {
                write!(f, "{comma}{first}")?
            } else {
                write!(f, "{comma}{first}-{last}")?
            }
            (rest, comma) = (&rest[run..], ",");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_the_kernel_writes_them() {
        for text in ["0", "0-3", "0-3,8", "1,3,5-6", "64-127"] {
            assert_eq!(Set::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(Set::parse("3,1,2,2\n").expect("a list").to_string(), "1-3");
        for nonsense in ["x", "1-", "0-99999999", "1;2"] {
            assert_eq!(Set::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn masks_have_a_bit_for_each() {
        let set = Set::parse("0,63-64").expect("a list");
        assert_eq!(set.words(), [1 | 1 << 63, 1]);
        assert!(set.contains(64) && !set.contains(1) && set.len() == 3);
        assert!(!Set::allowed().is_empty());
    }
}
