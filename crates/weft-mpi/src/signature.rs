//! Type signatures: the sequence of basic datatypes that items of a datatype consist of (MPI-5.0 §5.1).
//!
//! A signature here has a length, a number of bytes, and a polynomial of its elements, so that processes can
//! compare signatures of any length. The polynomial of a concatenation or repetition follows from those of
//! the parts (Karp and Rabin, 1987). `check.rs` and `labels.rs` compare signatures when `WEFT_CHECK` is set.

use std::sync::Arc;

use crate::constants::{MPI_BYTE, MPI_COMBINER_STRUCT, MPI_PACKED};
use crate::description::{Constituent, Description};

/// A prime, so that different sequences rarely have the same polynomial: 2^61 - 1.
const PRIME: u128 = (1 << 61) - 1;
/// The base of the polynomial; any number does.
const BASE: u64 = 0x0123_4567_89ab_cdef;
/// The depth to which nested datatypes are looked at.
const NESTING_MAX: u32 = 64;

/// A sequence of basic datatypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Bytes of data.
    pub bytes: u64,
    /// Basic datatypes.
    pub length: u64,
    /// The polynomial of the basic datatypes.
    pub hash: u64,
    /// `MPI_BYTE` or `MPI_PACKED` is among the datatypes. Here these stand for anything of as many bytes:
    /// programs use them so, and that harms nothing.
    pub is_opaque: bool,
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % PRIME) as u64
}

fn plus(a: u64, b: u64) -> u64 {
    ((u128::from(a) + u128::from(b)) % PRIME) as u64
}

fn power(mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, BASE);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

impl Signature {
    /// The signature of `count` items of a datatype. The handle names a predefined datatype, where it is one.
    pub fn of(handle: usize, description: &Description, count: u64) -> Self {
        item(handle, description, 0).repeated(count)
    }

    /// The signature of one basic datatype.
    fn basic(code: u64, bytes: u64, is_opaque: bool) -> Self {
        Self { bytes, length: 1, hash: code % (PRIME as u64), is_opaque }
    }

    /// The signature of this sequence followed by `other`.
    pub fn then(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            length: self.length.saturating_add(other.length),
            hash: plus(times(self.hash, power(other.length)), other.hash),
            is_opaque: self.is_opaque || other.is_opaque,
        }
    }

    /// The signature of this sequence repeated `count` times.
    pub fn repeated(self, mut count: u64) -> Self {
        let (mut result, mut doubled) = (Self::default(), self);
        while count > 0 {
            if count & 1 == 1 {
                result = result.then(doubled);
            }
            count >>= 1;
            if count > 0 {
                doubled = doubled.then(doubled);
            }
        }
        result
    }

    /// The signature of the first `length` basic datatypes of `count` items; of fewer where there are no
    /// more.
    pub fn front_of(handle: usize, description: &Description, count: u64, length: u64) -> Self {
        front(handle, description, count, length, 0)
    }

    /// Returns whether data with one signature may be taken for data with the other.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.bytes == other.bytes
            && (self.is_opaque || other.is_opaque || (self.length, self.hash) == (other.length, other.hash))
    }
}

/// The signature of one item.
fn item(handle: usize, description: &Description, depth: u32) -> Signature {
    let bytes = description.layout.size();
    let recipe = &description.recipe;
    let opaque = Signature::basic(0, bytes, true);
    if depth > NESTING_MAX {
        return opaque;
    }
    let constituent = |at: usize| {
        let (handle, inner) = inner(description, at)?;
        Some(item(handle, &inner, depth + 1))
    };
    if recipe.types.is_empty() {
        // Datatypes of the same element are the same data: MPI_INT and MPI_INT32_T.
        let code = description.element.map_or(handle as u64 + 1000, |element| element as u64 + 1);
        return Signature::basic(code, bytes, handle == MPI_BYTE || handle == MPI_PACKED);
    }
    if recipe.combiner == MPI_COMBINER_STRUCT {
        let blocks = (0..recipe.types.len()).map(|at| Some(constituent(at)?.repeated(block_length(description, at)?)));
        let whole = blocks
            .collect::<Option<Vec<Signature>>>()
            .map(|blocks| blocks.into_iter().fold(Signature::default(), Signature::then));
        return whole.filter(|whole| whole.bytes == bytes).unwrap_or(opaque);
    }
    // All other datatypes repeat one type, at whatever places.
    match constituent(0) {
        Some(one) if one.bytes > 0 && bytes.is_multiple_of(one.bytes) => one.repeated(bytes / one.bytes),
        Some(one) if bytes == 0 => one.repeated(0),
        _ => opaque,
    }
}

/// The constituent number `at` of a datatype, with its handle if it is predefined.
fn inner(description: &Description, at: usize) -> Option<(usize, Arc<Description>)> {
    Some(match description.recipe.types.get(at)? {
        Constituent::Predefined(handle) => (*handle, crate::predefined::datatype(*handle)?.description.clone()),
        Constituent::Derived(inner) => (0, inner.clone()),
    })
}

/// The items in block `at` of a structure.
fn block_length(description: &Description, at: usize) -> Option<u64> {
    let recipe = &description.recipe;
    let lengths = if recipe.large { &recipe.counts } else { &recipe.integers };
    lengths.get(at + 1).and_then(|length| u64::try_from(*length).ok())
}

/// The signature of the first `length` basic datatypes of `count` items.
fn front(handle: usize, description: &Description, count: u64, length: u64, depth: u32) -> Signature {
    let one = item(handle, description, depth);
    let length = length.min(one.length.saturating_mul(count));
    if length == 0 {
        return Signature::default();
    }
    let whole = one.repeated(length / one.length);
    let mut left = length % one.length;
    let mut cut = Signature::default();
    let is_structure = description.recipe.combiner == MPI_COMBINER_STRUCT;
    for at in 0.. {
        // All datatypes but structures repeat the first constituent.
        let Some((handle, part)) = inner(description, if is_structure { at } else { 0 }).filter(|_| left > 0) else {
            break;
        };
        let count = if is_structure { block_length(description, at).unwrap_or(0) } else { u64::MAX };
        let found = front(handle, &part, count, left, depth + 1);
        left -= found.length;
        cut = cut.then(found);
        if !is_structure {
            break;
        }
    }
    whole.then(cut)
}

/// Some items of a datatype, as they are compared and shown in messages.
#[derive(Clone, Debug)]
pub struct Items {
    /// The number of items.
    pub count: u64,
    /// The signature of all items.
    pub signature: Signature,
    /// Name of the datatype.
    pub name: String,
}

impl Items {
    /// `count` items of the datatype with this handle, description and name.
    pub fn new(handle: usize, description: &Arc<Description>, name: &str, count: u64) -> Self {
        let name = if name.is_empty() { "a derived datatype".to_owned() } else { name.to_owned() };
        Self { count, signature: Signature::of(handle, description, count), name }
    }

    /// Adds other items, in any order: the sum of data that goes from one process to another in several
    /// pieces.
    pub fn beside(self, other: Self) -> Self {
        let (one, two) = (self.signature, other.signature);
        let signature = Signature {
            bytes: one.bytes.saturating_add(two.bytes),
            length: one.length.saturating_add(two.length),
            hash: plus(one.hash, two.hash),
            is_opaque: one.is_opaque || two.is_opaque,
        };
        let name = if self.name == other.name { self.name } else { format!("{}, {}", self.name, other.name) };
        Self { count: self.count.saturating_add(other.count), signature, name }
    }
}

/// Words that the name of a datatype takes.
pub(crate) const NAME: usize = 5;
/// Words that items take: count, bytes, length, polynomial, flags, name.
pub(crate) const ITEMS: usize = 5 + NAME;
/// The word that stands for no items.
pub(crate) const NONE: i64 = -1;

/// Appends a text as `length` words.
pub(crate) fn put_text(words: &mut Vec<i64>, length: usize, text: &str) {
    let mut chunks = text.as_bytes().chunks(8);
    for _ in 0..length {
        let mut word = [0; 8];
        let chunk = chunks.next().unwrap_or_default();
        word[..chunk.len()].copy_from_slice(chunk);
        words.push(i64::from_le_bytes(word));
    }
}

/// Reads a text from words.
pub(crate) fn text(words: &[i64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

/// Appends items as words.
pub(crate) fn put_items(words: &mut Vec<i64>, items: Option<&Items>) {
    let Some(Items { count, signature, name }) = items else {
        return words.resize(words.len() + ITEMS, NONE);
    };
    let flags = i64::from(signature.is_opaque);
    words.extend([*count as i64, signature.bytes as i64, signature.length as i64, signature.hash as i64, flags]);
    put_text(words, NAME, name);
}

/// Reads items from words, if there are any.
pub(crate) fn items(words: &[i64]) -> Option<Items> {
    let [count, bytes, length, hash, flags] = words[..5].try_into().ok()?;
    let signature = Signature { bytes: bytes as u64, length: length as u64, hash: hash as u64, is_opaque: flags == 1 };
    (flags != NONE).then(|| Items { count: count as u64, signature, name: text(&words[5..]) })
}

/// The items in a message to the user: `4 × MPI_INT (16 bytes)`, or "nothing".
pub(crate) fn told(items: Option<&Items>) -> String {
    items.map_or_else(
        || "nothing".to_owned(),
        |items| format!("{} × {} ({} bytes)", items.count, items.name, items.signature.bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{MPI_FLOAT, MPI_INT};

    fn basic(code: u64) -> Signature {
        Signature::basic(code, 4, false)
    }

    #[test]
    fn a_sequence_is_the_same_however_it_is_put_together() {
        let (a, b) = (basic(3), basic(5));
        let ab = a.then(b);
        assert_eq!(ab.repeated(3), ab.then(ab).then(ab));
        assert_eq!(ab.then(a).then(b), a.then(b.then(a)).then(b));
        assert_eq!(a.repeated(6), a.repeated(2).repeated(3));
        assert_eq!(a.repeated(0).then(b), b);
        assert_eq!(a.repeated(1 << 40).bytes, 1 << 42);
    }

    /// Two integers, and then three structures of a float and an integer.
    fn nested() -> Description {
        use crate::datatypes::{Old, structure};
        let named = |handle: usize| {
            let layout = crate::predefined::datatype(handle).unwrap().description.layout.clone();
            Old { layout, constituent: Constituent::Predefined(handle) }
        };
        let pair = structure(&[1, 1], &[0, 4], &[named(MPI_FLOAT), named(MPI_INT)], false).unwrap();
        let pair = Old { layout: pair.layout.clone(), constituent: Constituent::Derived(Arc::new(pair)) };
        structure(&[2, 3], &[0, 8], &[named(MPI_INT), pair], true).unwrap()
    }

    fn of_predefined(handle: usize) -> Signature {
        Signature::of(handle, &crate::predefined::datatype(handle).unwrap().description, 1)
    }

    #[test]
    fn every_front_of_the_items_is_the_beginning_of_their_sequence() {
        let (float, int) = (of_predefined(MPI_FLOAT), of_predefined(MPI_INT));
        let sequence = [int, int, float, int, float, int, float, int];
        let nested = nested();
        let mut front = Signature::default();
        for length in 0..2 * sequence.len() {
            assert_eq!(Signature::front_of(0, &nested, 2, length as u64), front, "{length}");
            front = front.then(sequence[length % sequence.len()]);
        }
        // There are no more basic datatypes than those of the items.
        assert_eq!(Signature::front_of(0, &nested, 2, 1 << 40), Signature::of(0, &nested, 2));
        assert_eq!(Signature::front_of(0, &nested, 0, 5), Signature::default());
    }

    #[test]
    fn order_length_and_kind_make_a_difference() {
        let (a, b) = (basic(3), basic(5));
        assert!(!a.then(b).agrees_with(&b.then(a)));
        assert!(!a.repeated(2).agrees_with(&a.repeated(3)));
        assert!(!a.repeated(2).agrees_with(&Signature::basic(9, 8, false)));
        // Bytes stand for anything of their size.
        assert!(a.repeated(2).agrees_with(&Signature::basic(1, 8, true)));
        assert!(!a.repeated(3).agrees_with(&Signature::basic(1, 8, true)));
    }
}
