//! The portable data representation `external32`: big-endian IEEE numbers of fixed sizes (MPI-5.0 §5.3,
//! §14.5.2). The boundary's external packing uses it.

use weft_core::layout::{Element, Layout};

use crate::constants::*;
use crate::datatypes::Old;
use crate::error::{Error, Result};
use crate::object::{Constituent, Description};
use crate::predefined;

/// A number as it is in memory and in `external32`.
#[derive(Clone, Copy)]
enum Atom {
    /// The same number of bytes, in the opposite order.
    Same(usize),
    /// A long: 8 bytes here, 4 there.
    Long { signed: bool },
    /// A wide character: 4 bytes here, 2 there.
    Wide,
    /// A long double: the x87 format in 16 bytes here, IEEE binary128 there.
    LongDouble,
}

use Atom::{Long, LongDouble, Same, Wide};

impl Atom {
    const fn native(self) -> usize {
        match self {
            Same(size) => size,
            Long { .. } => 8,
            Wide => 4,
            LongDouble => 16,
        }
    }

    const fn external(self) -> usize {
        match self {
            Same(size) => size,
            Long { .. } => 4,
            Wide => 2,
            LongDouble => 16,
        }
    }

    fn encode(self, native: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Same(_) => out.extend(native.iter().rev()),
            Long { signed: true } => {
                let value = i64::from_le_bytes(fixed(native));
                out.extend(i32::try_from(value).map_err(|_| unfit(&value, "MPI_LONG"))?.to_be_bytes());
            }
            Long { signed: false } => {
                let value = u64::from_le_bytes(fixed(native));
                out.extend(u32::try_from(value).map_err(|_| unfit(&value, "MPI_UNSIGNED_LONG"))?.to_be_bytes());
            }
            Wide => {
                let value = u32::from_le_bytes(fixed(native));
                out.extend(u16::try_from(value).map_err(|_| unfit(&value, "MPI_WCHAR"))?.to_be_bytes());
            }
            LongDouble => out.extend(to_quad(u128::from_le_bytes(fixed(native))).to_be_bytes()),
        }
        Ok(())
    }

    fn decode(self, external: &[u8], out: &mut Vec<u8>) {
        match self {
            Same(_) => out.extend(external.iter().rev()),
            Long { signed: true } => out.extend(i64::from(i32::from_be_bytes(fixed(external))).to_le_bytes()),
            Long { signed: false } => out.extend(u64::from(u32::from_be_bytes(fixed(external))).to_le_bytes()),
            Wide => out.extend(u32::from(u16::from_be_bytes(fixed(external))).to_le_bytes()),
            LongDouble => out.extend(from_quad(u128::from_be_bytes(fixed(external))).to_le_bytes()),
        }
    }
}

// The code below reverses bytes.
const _: () = assert!(cfg!(target_endian = "little"));

/// The bytes of one number; each atom gets exactly as many bytes as it has.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

fn unfit(value: &dyn std::fmt::Display, name: &str) -> Error {
    Error::new(MPI_ERR_CONVERSION, format!("{value} is too large for an {name} in external32"))
}

/// The numbers that a predefined datatype consists of.
fn atoms(handle: usize) -> Result<Vec<Atom>> {
    const INT: Atom = Same(4);
    let signed = Long { signed: true };
    Ok(match handle {
        MPI_LONG => vec![signed],
        MPI_UNSIGNED_LONG => vec![Long { signed: false }],
        MPI_WCHAR => vec![Wide],
        MPI_LONG_DOUBLE => vec![LongDouble],
        MPI_C_FLOAT_COMPLEX | MPI_CXX_FLOAT_COMPLEX | MPI_COMPLEX | MPI_COMPLEX8 | MPI_2REAL => vec![INT; 2],
        MPI_C_DOUBLE_COMPLEX | MPI_CXX_DOUBLE_COMPLEX | MPI_DOUBLE_COMPLEX | MPI_COMPLEX16 => vec![Same(8); 2],
        MPI_COMPLEX4 => vec![Same(2); 2],
        MPI_2DOUBLE_PRECISION => vec![Same(8); 2],
        MPI_C_LONG_DOUBLE_COMPLEX | MPI_CXX_LONG_DOUBLE_COMPLEX => vec![LongDouble; 2],
        MPI_2INT | MPI_2INTEGER | MPI_FLOAT_INT => vec![INT; 2],
        MPI_DOUBLE_INT => vec![Same(8), INT],
        MPI_LONG_INT => vec![signed, INT],
        MPI_SHORT_INT => vec![Same(2), INT],
        MPI_LONG_DOUBLE_INT => vec![LongDouble, INT],
        other => match predefined::element(other) {
            Some(element) => vec![Same(element.size())],
            None => return Err(Error::new(MPI_ERR_TYPE, format!("{other:#x} has no representation in external32"))),
        },
    })
}

/// The contents of one item of a derived datatype, in the order of the type map.
enum Content<'a> {
    /// The contents of this predefined datatype.
    Element(usize),
    /// Items of one datatype, with their number.
    Items(&'a Constituent, u64),
    /// Items of several datatypes, with the number of each.
    Blocks(&'a [Constituent], &'a [i64]),
}

/// The contents of `description`, which is not empty.
fn content(description: &Description) -> Content<'_> {
    let recipe = &description.recipe;
    match recipe.types.first() {
        Some(_) if recipe.combiner == MPI_COMBINER_STRUCT => {
            let numbers = if recipe.large { &recipe.counts } else { &recipe.integers };
            Content::Blocks(&recipe.types, &numbers[1..=recipe.types.len()])
        }
        // All other datatypes repeat one constituent.
        Some(inner) => Content::Items(inner, description.layout.size() / size(inner).max(1)),
        // Fortran's parametrised types.
        None => Content::Element(description.element.map_or(MPI_DATATYPE_NULL, predefined::handle_of)),
    }
}

/// Calls `visit(predefined type, count)` for the contents of `items` items of a datatype, in the order of the
/// type map.
fn walk(of: &Constituent, items: u64, visit: &mut dyn FnMut(usize, u64) -> Result<()>) -> Result<()> {
    let description = match of {
        Constituent::Predefined(handle) => return visit(*handle, items),
        Constituent::Derived(description) if description.layout.size() == 0 => return Ok(()),
        Constituent::Derived(description) => description,
    };
    match content(description) {
        Content::Element(handle) => visit(handle, items),
        Content::Items(inner, times) => walk(inner, items * times, visit),
        Content::Blocks(types, lengths) => {
            for _ in 0..items {
                for (of, length) in types.iter().zip(lengths) {
                    walk(of, *length as u64, visit)?;
                }
            }
            Ok(())
        }
    }
}

fn size(of: &Constituent) -> u64 {
    match of {
        Constituent::Predefined(handle) => predefined::element(*handle).map_or(0, |element| element.size() as u64),
        Constituent::Derived(description) => description.layout.size(),
    }
}

/// The bytes that `count` items take in `external32`.
///
/// # Errors
/// `MPI_ERR_ARG` when there are too many bytes.
pub fn packed_size(of: &Old, count: u64) -> Result<u64> {
    check(&of.layout, count)?;
    // No number takes more bytes than in memory, so this is no larger than the checked product.
    Ok(item_size(&of.constituent)? * count)
}

fn item_size(of: &Constituent) -> Result<u64> {
    let mut bytes = 0;
    let description = match of {
        Constituent::Derived(description) if description.layout.size() == 0 => return Ok(0),
        Constituent::Derived(description) => description,
        Constituent::Predefined(handle) => {
            return Ok(atoms(*handle)?.iter().map(|atom| atom.external() as u64).sum());
        }
    };
    match content(description) {
        Content::Element(handle) => bytes += item_size(&Constituent::Predefined(handle))?,
        Content::Items(inner, times) => bytes += times * item_size(inner)?,
        Content::Blocks(types, lengths) => {
            for (of, length) in types.iter().zip(lengths) {
                bytes += *length as u64 * item_size(of)?;
            }
        }
    }
    Ok(bytes)
}

fn check(layout: &Layout, count: u64) -> Result<u64> {
    layout.packed_size(count).map_err(|why| Error::new(MPI_ERR_COUNT, why.to_string()))
}

/// Converts `count` items, packed as they are in memory, to `external32`.
///
/// # Errors
/// `MPI_ERR_CONVERSION` when a number does not fit.
pub fn encode(of: &Old, count: u64, native: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(native.len());
    let mut rest = native;
    walk(&of.constituent, count, &mut |handle, times| {
        let atoms = atoms(handle)?;
        for _ in 0..times {
            for atom in &atoms {
                let (number, after) = rest.split_at(atom.native());
                atom.encode(number, &mut out)?;
                rest = after;
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// Converts `count` items from `external32`. `external` has as many bytes as [`packed_size`] returns, or
/// fewer: then the numbers that it has whole are converted.
///
/// # Errors
/// `MPI_ERR_TYPE` when the datatype has no such representation.
pub fn decode(of: &Old, count: u64, external: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(check(&of.layout, count)? as usize);
    let mut rest = external;
    walk(&of.constituent, count, &mut |handle, times| {
        let atoms = atoms(handle)?;
        for _ in 0..times {
            for atom in &atoms {
                let Some((number, after)) = rest.split_at_checked(atom.external()) else {
                    rest = &[];
                    return Ok(());
                };
                atom.decode(number, &mut out);
                rest = after;
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// The layout of a datatype in a file in `external32` (MPI-5.0 §14.5.2).
///
/// # Errors
/// `MPI_ERR_TYPE` when it has no such representation.
pub fn layout(of: &Old) -> Result<Layout> {
    if item_size(&of.constituent)? == of.layout.size() && !has_padded_pairs(&of.constituent) {
        return Ok(of.layout.clone());
    }
    crate::datatypes::rebuilt(&of.constituent, &|handle| {
        let bytes = item_size(&Constituent::Predefined(handle))?;
        Layout::contiguous(bytes, &Layout::element(Element::Byte))
            .map_err(|why| Error::new(MPI_ERR_TYPE, why.to_string()))
    })
}

/// Returns whether a predefined pair has bytes between its parts in memory, as it has none in `external32`.
fn has_padded_pairs(of: &Constituent) -> bool {
    match of {
        Constituent::Predefined(handle) => {
            predefined::element(*handle).is_some_and(|element| !Layout::element(element).is_contiguous(2))
        }
        Constituent::Derived(description) => description.recipe.types.iter().any(has_padded_pairs),
    }
}

/// Bits of the fraction of binary128.
const QUAD_FRACTION: u32 = 112;
/// Bits of the significand of the x87 format after the leading one, which it stores.
const X87_FRACTION: u32 = 63;
/// The largest exponent: sign and exponent are the same in both formats.
const EXPONENT_MAX: u128 = 0x7fff;

/// Converts an x87 number (80 bits; the other bits mean nothing) to binary128, exactly.
fn to_quad(x87: u128) -> u128 {
    let sign = (x87 >> 79) & 1;
    let mut exponent = (x87 >> 64) & EXPONENT_MAX;
    let significand = x87 & u128::from(u64::MAX);
    let fraction = significand & ((1 << X87_FRACTION) - 1);
    let quad = fraction << (QUAD_FRACTION - X87_FRACTION);
    if exponent == 0 && significand >> X87_FRACTION == 1 {
        // A "pseudo-denormal" has its leading one in spite of the exponent.
        exponent = 1;
    }
    (sign << 127) | (exponent << QUAD_FRACTION) | quad
}

/// Converts a binary128 number to the x87 format, rounded to the nearest, ties to even.
fn from_quad(quad: u128) -> u128 {
    const DROPPED: u32 = QUAD_FRACTION - X87_FRACTION;
    let sign = quad >> 127;
    let exponent = (quad >> QUAD_FRACTION) & EXPONENT_MAX;
    let fraction = quad & ((1 << QUAD_FRACTION) - 1);
    let leading = u128::from(exponent != 0) << X87_FRACTION;
    if exponent == EXPONENT_MAX {
        // Infinity, or a NaN that must stay one.
        let payload = (fraction >> DROPPED) | u128::from(fraction != 0) << (X87_FRACTION - 1);
        return (sign << 79) | (exponent << 64) | leading | payload;
    }
    let mut significand = leading | (fraction >> DROPPED);
    let (half, rest) = (1_u128 << (DROPPED - 1), fraction & ((1 << DROPPED) - 1));
    significand += u128::from(rest > half || (rest == half && significand & 1 == 1));
    // A carry goes into the exponent; a denormal may become normal.
    if significand >> 64 == 1 {
        return (sign << 79) | ((exponent + 1) << 64) | (1 << X87_FRACTION);
    }
    let exponent = if exponent == 0 && significand >> X87_FRACTION == 1 { 1 } else { exponent };
    (sign << 79) | (exponent << 64) | significand
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatypes;

    fn predefined_type(handle: usize) -> Old {
        let element = predefined::element(handle).unwrap();
        Old { layout: Layout::element(element), constituent: Constituent::Predefined(handle) }
    }

    #[test]
    fn numbers_come_back_from_big_endian() {
        let members = [MPI_LONG, MPI_SHORT, MPI_DOUBLE, MPI_WCHAR].map(predefined_type);
        let description = datatypes::structure(&[1, 2, 1, 1], &[0, 8, 16, 24], &members, false).unwrap();
        let layout = description.layout.clone();
        let of = Old { layout, constituent: Constituent::Derived(std::sync::Arc::new(description)) };
        let mut native = Vec::new();
        for value in [-2_i64, 7] {
            native.extend(value.to_le_bytes());
            native.extend([0x0102_i16, 3].iter().flat_map(|short| short.to_le_bytes()));
            native.extend(1.5_f64.to_le_bytes());
            native.extend(0x263a_u32.to_le_bytes());
        }
        let external = encode(&of, 2, &native).unwrap();
        assert_eq!(external.len() as u64, packed_size(&of, 2).unwrap());
        assert_eq!(external[..8], [0xff, 0xff, 0xff, 0xfe, 1, 2, 0, 3]);
        assert_eq!(external[8..18], [0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0x26, 0x3a]);
        assert_eq!(decode(&of, 2, &external).unwrap(), native);
        let long = predefined_type(MPI_LONG);
        let class = encode(&long, 1, &(1_i64 << 40).to_le_bytes()).err().map(|error| error.class);
        assert_eq!(class, Some(MPI_ERR_CONVERSION));
        assert_eq!(Element::Int64.size(), 8);
    }

    #[test]
    fn long_doubles_have_the_bits_of_the_standard() {
        // One: x87 has exponent 3fff and the leading one; binary128 has only the exponent.
        let one = (0x3fff_u128 << 64) | (1 << 63);
        assert_eq!(to_quad(one), 0x3fff_u128 << 112);
        let infinity = (0xffff_u128 << 64) | (1 << 63);
        assert_eq!(to_quad(infinity), 0xffff_u128 << 112);
        let third = (0x3ffd_u128 << 64) | 0xaaaa_aaaa_aaaa_aaab;
        let smallest = 1_u128;
        for number in [0, 1 << 79, one, infinity, third, smallest, (0x7ffe_u128 << 64) | u128::from(u64::MAX)] {
            assert_eq!(from_quad(to_quad(number)), number, "{number:#x}");
        }
        // A tie goes to the even neighbour, here upwards into the exponent.
        let ones = (0x3fff_u128 << 112) | ((1 << 112) - 1);
        assert_eq!(from_quad(ones), (0x4000_u128 << 64) | (1 << 63));
        let not_a_number = (0x7fff_u128 << 112) | 1;
        assert_ne!(from_quad(not_a_number), (0x7fff_u128 << 64) | (1 << 63));
    }
}
