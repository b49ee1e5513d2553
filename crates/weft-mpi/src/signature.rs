//! Type signatures: the sequence of basic datatypes that items of a datatype are (MPI-5.0 §5.1), in a form that can be compared across
//! processes however long it is: its length, its bytes, and a polynomial of its elements, which concatenation and repetition compute
//! from those of the parts (Karp and Rabin, 1987).

use std::sync::Arc;

use crate::constants::{MPI_BYTE, MPI_COMBINER_STRUCT, MPI_PACKED};
use crate::description::{Constituent, Description};

/// A prime, so that different sequences rarely meet: 2^61 - 1.
const PRIME: u128 = (1 << 61) - 1;
/// Any number.
const BASE: u64 = 0x0123_4567_89ab_cdef;
/// How deep datatypes are looked at.
const NESTING_MAX: u32 = 64;

/// A sequence of basic datatypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Bytes of data.
    pub bytes: u64,
    /// Basic datatypes.
    pub length: u64,
    /// Their polynomial.
    pub hash: u64,
    /// `MPI_BYTE` or `MPI_PACKED` is among them, which stand for anything of so many bytes here: programs do that, and nothing is harmed.
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
    /// That of `count` items of a datatype, predefined by the handle where it is one.
    pub fn of(handle: usize, description: &Description, count: u64) -> Self {
        item(handle, description, 0).repeated(count)
    }

    /// One basic datatype.
    fn basic(code: u64, bytes: u64, is_opaque: bool) -> Self {
        Self { bytes, length: 1, hash: code % (PRIME as u64), is_opaque }
    }

    /// This one and then the other.
    pub fn then(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            length: self.length.saturating_add(other.length),
            hash: plus(times(self.hash, power(other.length)), other.hash),
            is_opaque: self.is_opaque || other.is_opaque,
        }
    }

    /// This one so many times.
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

    /// Whether data of the one may be taken for the other.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.bytes == other.bytes
            && (self.is_opaque || other.is_opaque || (self.length, self.hash) == (other.length, other.hash))
    }
}

/// One item.
fn item(handle: usize, description: &Description, depth: u32) -> Signature {
    let bytes = description.layout.size();
    let recipe = &description.recipe;
    let opaque = Signature::basic(0, bytes, true);
    if depth > NESTING_MAX {
        return opaque;
    }
    let constituent = |at: usize| match recipe.types.get(at)? {
        Constituent::Predefined(handle) => {
            let datatype = crate::predefined::datatype(*handle)?;
            Some(item(*handle, &datatype.description, depth + 1))
        }
        Constituent::Derived(inner) => Some(item(0, inner, depth + 1)),
    };
    if recipe.types.is_empty() {
        // Types of the same element are the same data: MPI_INT and MPI_INT32_T.
        let code = description.element.map_or(handle as u64 + 1000, |element| element as u64 + 1);
        return Signature::basic(code, bytes, handle == MPI_BYTE || handle == MPI_PACKED);
    }
    if recipe.combiner == MPI_COMBINER_STRUCT {
        let lengths = if recipe.large { &recipe.counts } else { &recipe.integers };
        let blocks = (0..recipe.types.len()).map(|at| {
            let length = lengths.get(at + 1).and_then(|length| u64::try_from(*length).ok())?;
            Some(constituent(at)?.repeated(length))
        });
        let whole = blocks
            .collect::<Option<Vec<Signature>>>()
            .map(|blocks| blocks.into_iter().fold(Signature::default(), Signature::then));
        return whole.filter(|whole| whole.bytes == bytes).unwrap_or(opaque);
    }
    // All others repeat one type, in whatever places.
    match constituent(0) {
        Some(one) if one.bytes > 0 && bytes.is_multiple_of(one.bytes) => one.repeated(bytes / one.bytes),
        Some(one) if bytes == 0 => one.repeated(0),
        _ => opaque,
    }
}

/// Some items of a datatype, as they are compared and told.
#[derive(Clone, Debug)]
pub struct Items {
    /// How many.
    pub count: u64,
    /// Their signature.
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
