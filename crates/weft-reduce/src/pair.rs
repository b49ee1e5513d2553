//! MINLOC and MAXLOC on value–index pairs (MPI-5.0 §6.9.4).

use crate::fold::{fold, illegal};
use crate::long_double::Extended;
use crate::{Kind, Op, Pair};

/// A member of a pair, read from its bytes.
trait Member: Copy + PartialOrd {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! member {
    ($($number:ty: $size:literal),*) => {$(
        impl Member for $number {
            const SIZE: usize = $size;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let (numbers, _) = bytes.as_chunks::<$size>();
                <$number>::from_ne_bytes(numbers[0])
            }
        }
    )*};
}

member!(i16: 2, i32: 4, i64: 8, f64: 8, Extended: 16);

/// Computes MINLOC or MAXLOC. The caller has checked lengths and legality.
#[inline(always)]
pub(crate) fn apply(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
    match op {
        Op::MinLoc => choose::<false>(kind, input, inout),
        _ => choose::<true>(kind, input, inout),
    }
}

/// Handles pairs whose members have a word each. They are read, compared and chosen as words, which compiles
/// to vector instructions. `$keep_value` has the bits of the first word that belong to its member, and
/// `$keep` the bits of the second word. The remaining bits are padding, and keep their values in inout.
macro_rules! words {
    ($word:ty, $value:expr, $index:expr, $keep_value:expr, $keep:expr, $input:expr, $inout:expr) => {{
        const SIZE: usize = size_of::<$word>();
        let (value, index) = ($value, $index);
        fold::<{ 2 * SIZE }>(
            $input,
            $inout,
            #[inline(always)]
            |left, right| {
                let (left, right) = (left.as_chunks::<SIZE>().0, right.as_chunks::<SIZE>().0);
                let [left_value, left_index] = [<$word>::from_ne_bytes(left[0]), <$word>::from_ne_bytes(left[1])];
                let [right_value, right_index] = [<$word>::from_ne_bytes(right[0]), <$word>::from_ne_bytes(right[1])];
                let (a, b) = (value(left_value), value(right_value));
                let is_better = if LARGER { a > b } else { a < b };
                let is_first = is_better | ((a == b) & (index(left_index) < index(right_index)));
                let value = right_value ^ if is_better { (left_value ^ right_value) & $keep_value } else { 0 };
                let index = right_index ^ if is_first { (left_index ^ right_index) & $keep } else { 0 };
                let mut chosen = [0; 2 * SIZE];
                chosen[..SIZE].copy_from_slice(&value.to_ne_bytes());
                chosen[SIZE..].copy_from_slice(&index.to_ne_bytes());
                chosen
            },
        )
    }};
}

#[inline(always)]
fn to_i32(word: u32) -> i32 {
    word.cast_signed()
}

/// The number in the first four bytes of a word.
#[inline(always)]
fn first_i32(word: u64) -> i32 {
    if cfg!(target_endian = "little") { word as i32 } else { (word >> 32) as i32 }
}

/// The number in the first two bytes of a word.
#[inline(always)]
fn first_i16(word: u32) -> i16 {
    if cfg!(target_endian = "little") { word as i16 } else { (word >> 16) as i16 }
}

#[inline(always)]
fn choose<const LARGER: bool>(kind: Kind, input: &[u8], inout: &mut [u8]) {
    const ALL_32: u32 = u32::MAX;
    const ALL_64: u64 = u64::MAX;
    /// The mask of the first four bytes in memory of a word of 64 bits.
    const FIRST_HALF: u64 = if cfg!(target_endian = "little") { 0xffff_ffff } else { 0xffff_ffff << 32 };
    const FIRST_QUARTER: u32 = if cfg!(target_endian = "little") { 0xffff } else { 0xffff << 16 };
    match kind {
        Kind::Pair(Pair::FloatInt) | Kind::PackedPair(Pair::FloatInt) => {
            words!(u32, f32::from_bits, to_i32, ALL_32, ALL_32, input, inout);
        }
        Kind::Pair(Pair::TwoInt) | Kind::PackedPair(Pair::TwoInt) => {
            words!(u32, to_i32, to_i32, ALL_32, ALL_32, input, inout);
        }
        Kind::Pair(Pair::TwoFloat32) | Kind::PackedPair(Pair::TwoFloat32) => {
            words!(u32, f32::from_bits, f32::from_bits, ALL_32, ALL_32, input, inout);
        }
        Kind::Pair(Pair::TwoFloat64) | Kind::PackedPair(Pair::TwoFloat64) => {
            words!(u64, f64::from_bits, f64::from_bits, ALL_64, ALL_64, input, inout);
        }
        Kind::Pair(Pair::DoubleInt) => words!(u64, f64::from_bits, first_i32, ALL_64, FIRST_HALF, input, inout),
        Kind::Pair(Pair::LongInt) => words!(u64, u64::cast_signed, first_i32, ALL_64, FIRST_HALF, input, inout),
        Kind::Pair(Pair::ShortInt) => words!(u32, first_i16, to_i32, FIRST_QUARTER, ALL_32, input, inout),
        Kind::Pair(Pair::LongDoubleInt) => pairs::<LARGER, 32, 16, Extended, i32>(input, inout),
        Kind::PackedPair(Pair::DoubleInt) => pairs::<LARGER, 12, 8, f64, i32>(input, inout),
        Kind::PackedPair(Pair::LongInt) => pairs::<LARGER, 12, 8, i64, i32>(input, inout),
        Kind::PackedPair(Pair::ShortInt) => pairs::<LARGER, 6, 2, i16, i32>(input, inout),
        Kind::PackedPair(Pair::LongDoubleInt) => pairs::<LARGER, 20, 16, Extended, i32>(input, inout),
        _ => illegal(kind),
    }
}

/// Handles other pairs: `STEP` bytes with the index at `AT`. Both members are chosen without a branch, and
/// padding stays that of inout.
#[inline(always)]
fn pairs<const LARGER: bool, const STEP: usize, const AT: usize, V: Member, I: Member>(input: &[u8], inout: &mut [u8]) {
    fold::<STEP>(
        input,
        inout,
        #[inline(always)]
        |left, right| {
            let (a, b) = (V::read(&left), V::read(&right));
            let (a_index, b_index) = (I::read(&left[AT..]), I::read(&right[AT..]));
            let is_better = if LARGER { a > b } else { a < b };
            let is_first = is_better | ((a == b) & (a_index < b_index));
            let mut chosen = right;
            let value = if is_better { &left } else { &right };
            chosen[..V::SIZE].copy_from_slice(&value[..V::SIZE]);
            let index = if is_first { &left } else { &right };
            chosen[AT..AT + I::SIZE].copy_from_slice(&index[AT..AT + I::SIZE]);
            chosen
        },
    );
}
