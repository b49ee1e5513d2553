//! Finds predefined datatypes by their contents: by size (MPI-5.0 §19.1.9), by Fortran's precision and range,
//! or by the parts of a pair (§6.9.4).

use std::sync::atomic::AtomicUsize;

use weft_core::layout::{Element, Layout};

use super::Old;
use crate::constants::*;
use crate::error::{Error, Result};
use crate::object::{Constituent, Description, Objects, Recipe};

/// Carries out `MPI_Type_match_size`: finds the predefined datatype of `class` with `size` bytes.
///
/// There are two reals of 16 bytes, C's `long double` and Fortran's `REAL*16`; reductions know only the
/// first, so the first is returned.
///
/// # Errors
/// `MPI_ERR_ARG` when there is none.
pub fn match_size(class: i32, size: i32) -> Result<usize> {
    Ok(match (class, size) {
        (MPI_TYPECLASS_INTEGER, 1) => MPI_INTEGER1,
        (MPI_TYPECLASS_INTEGER, 2) => MPI_INTEGER2,
        (MPI_TYPECLASS_INTEGER, 4) => MPI_INTEGER4,
        (MPI_TYPECLASS_INTEGER, 8) => MPI_INTEGER8,
        (MPI_TYPECLASS_INTEGER, 16) => MPI_INTEGER16,
        (MPI_TYPECLASS_REAL, 2) => MPI_REAL2,
        (MPI_TYPECLASS_REAL, 4) => MPI_REAL4,
        (MPI_TYPECLASS_REAL, 8) => MPI_REAL8,
        (MPI_TYPECLASS_REAL, 16) => MPI_LONG_DOUBLE,
        (MPI_TYPECLASS_COMPLEX, 4) => MPI_COMPLEX4,
        (MPI_TYPECLASS_COMPLEX, 8) => MPI_COMPLEX8,
        (MPI_TYPECLASS_COMPLEX, 16) => MPI_COMPLEX16,
        (MPI_TYPECLASS_COMPLEX, 32) => MPI_C_LONG_DOUBLE_COMPLEX,
        (MPI_TYPECLASS_INTEGER | MPI_TYPECLASS_REAL | MPI_TYPECLASS_COMPLEX, _) => {
            return Err(Error::new(MPI_ERR_ARG, format!("size is {size}, and no datatype of that class has it")));
        }
        _ => {
            let message = format!("typeclass is {class}, which is no MPI_TYPECLASS constant");
            return Err(Error::new(MPI_ERR_ARG, message));
        }
    })
}

/// Returns whether a datatype is predefined without a name, so that it cannot be freed.
pub fn is_unnamed_predefined(recipe: &Recipe) -> bool {
    matches!(recipe.combiner, MPI_COMBINER_F90_REAL | MPI_COMBINER_F90_COMPLEX | MPI_COMBINER_F90_INTEGER)
}

/// Decimal digits and exponent range of the real kinds, with their elements: the real, and the complex number
/// of two.
const REALS: [(i32, i32, Element, Element); 3] = [
    (6, 37, Element::Float32, Element::ComplexFloat32),
    (15, 307, Element::Float64, Element::ComplexFloat64),
    // C's `long double` of x86, in the x87 format.
    (18, 4931, Element::LongDouble, Element::ComplexLongDouble),
];

/// Decimal digits of the integer kinds.
const INTEGERS: [(i32, Element); 5] =
    [(2, Element::Int8), (4, Element::Int16), (9, Element::Int32), (18, Element::Int64), (38, Element::Int128)];

fn real(p: i32, r: i32) -> Result<(Element, Element)> {
    if p == MPI_UNDEFINED && r == MPI_UNDEFINED {
        return Err(Error::new(MPI_ERR_ARG, "p and r are both MPI_UNDEFINED"));
    }
    for (name, digits) in [("p", p), ("r", r)] {
        if digits < 0 && digits != MPI_UNDEFINED {
            return Err(negative(name, digits));
        }
    }
    let fits = |wanted: i32, has: i32| wanted == MPI_UNDEFINED || wanted <= has;
    let found = REALS.iter().find(|(digits, range, ..)| fits(p, *digits) && fits(r, *range));
    found.map(|(.., real, complex)| (*real, *complex)).ok_or_else(|| {
        Error::new(MPI_ERR_ARG, format!("p is {p} and r is {r}: no datatype has such a precision and range"))
    })
}

fn negative(name: &str, digits: i32) -> Error {
    Error::new(MPI_ERR_ARG, format!("{name} is {digits}; it must not be negative"))
}

/// The handle of the datatype of `MPI_Type_create_f90_real` (MPI-5.0 §19.1.9).
///
/// # Errors
/// `MPI_ERR_ARG` when no datatype has precision `p` and range `r`.
pub fn real_type(objects: &mut Objects, p: i32, r: i32) -> Result<usize> {
    objects.unnamed_type(MPI_COMBINER_F90_REAL, &[p, r], real(p, r)?.0)
}

/// The handle of the datatype of `MPI_Type_create_f90_complex` (MPI-5.0 §19.1.9).
///
/// # Errors
/// As for [`real_type`].
pub fn complex_type(objects: &mut Objects, p: i32, r: i32) -> Result<usize> {
    objects.unnamed_type(MPI_COMBINER_F90_COMPLEX, &[p, r], real(p, r)?.1)
}

/// The handle of the datatype of `MPI_Type_create_f90_integer` (MPI-5.0 §19.1.9).
///
/// # Errors
/// `MPI_ERR_ARG` when no datatype has range `r`.
pub fn integer_type(objects: &mut Objects, r: i32) -> Result<usize> {
    if r < 0 {
        return Err(negative("r", r));
    }
    let found = INTEGERS.iter().find(|(digits, _)| r <= *digits);
    let (_, element) =
        found.ok_or_else(|| Error::new(MPI_ERR_ARG, format!("r is {r}: no datatype has such a range")))?;
    objects.unnamed_type(MPI_COMBINER_F90_INTEGER, &[r], *element)
}

impl Objects {
    /// Returns the handle for these arguments, always the same one (MPI-5.0 §19.1.9).
    fn unnamed_type(&mut self, combiner: i32, arguments: &[i32], element: Element) -> Result<usize> {
        let key = (combiner, arguments[0], arguments.get(1).copied().unwrap_or(0));
        if let Some(handle) = self.unnamed.get(&key) {
            return Ok(*handle);
        }
        let integers = arguments.iter().copied().map(i64::from).collect();
        let description = Description {
            layout: Layout::element(element),
            element: Some(element),
            recipe: Recipe { combiner, integers, ..Recipe::default() },
            handle: AtomicUsize::new(MPI_DATATYPE_NULL),
        };
        let handle = self.add_datatype_again(std::sync::Arc::new(description), true)?;
        self.unnamed.insert(key, handle);
        Ok(handle)
    }

    /// The handle of a constituent for `MPI_Type_get_contents`. A predefined datatype keeps its handle;
    /// another one gets a new handle, which the program frees (MPI-5.0 §5.1.13).
    ///
    /// # Errors
    /// Too many datatypes.
    pub fn constituent_handle(&mut self, constituent: &Constituent) -> Result<usize> {
        match constituent {
            Constituent::Predefined(handle) => Ok(*handle),
            Constituent::Derived(description) if is_unnamed_predefined(&description.recipe) => {
                Ok(description.handle.load(std::sync::atomic::Ordering::Relaxed))
            }
            Constituent::Derived(description) => self.add_datatype_again(std::sync::Arc::clone(description), true),
        }
    }
}

/// The datatypes of value and index, and of the pair of both (MPI-5.0 §6.9.4).
const PAIRS: [(usize, usize, usize); 9] = [
    (MPI_FLOAT, MPI_INT, MPI_FLOAT_INT),
    (MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT),
    (MPI_LONG, MPI_INT, MPI_LONG_INT),
    (MPI_INT, MPI_INT, MPI_2INT),
    (MPI_SHORT, MPI_INT, MPI_SHORT_INT),
    (MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT),
    (MPI_REAL, MPI_REAL, MPI_2REAL),
    (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION),
    (MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER),
];

/// Carries out `MPI_Type_get_value_index` (MPI-5.0 §6.9.4): finds the predefined pair of two predefined
/// types, or `MPI_DATATYPE_NULL`.
///
/// # Errors
/// `MPI_ERR_TYPE` when one of them is not predefined.
pub fn pair_type(value: &Old, index: &Old) -> Result<usize> {
    let (Constituent::Predefined(value), Constituent::Predefined(index)) = (&value.constituent, &index.constituent)
    else {
        return Err(Error::new(MPI_ERR_TYPE, "value_type and index_type must be predefined"));
    };
    let found = PAIRS.iter().find(|(one, other, _)| one == value && other == index);
    Ok(found.map_or(MPI_DATATYPE_NULL, |(.., pair)| *pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortran_kinds_are_found_once() {
        let mut objects = Objects::new();
        let double = real_type(&mut objects, 10, MPI_UNDEFINED).unwrap();
        assert_eq!(real_type(&mut objects, 10, MPI_UNDEFINED).unwrap(), double);
        assert_eq!(objects.datatype(double).unwrap().description.element, Some(Element::Float64));
        let single = real_type(&mut objects, MPI_UNDEFINED, 37).unwrap();
        assert_eq!(objects.datatype(single).unwrap().description.element, Some(Element::Float32));
        let extended = real_type(&mut objects, 16, 0).unwrap();
        assert_eq!(objects.datatype(extended).unwrap().description.element, Some(Element::LongDouble));
        assert_eq!(real_type(&mut objects, 18, 4931).map(|handle| handle == extended).ok(), Some(false));
        assert!(real_type(&mut objects, 19, 0).is_err() && real_type(&mut objects, 18, 4932).is_err());
        assert!(real_type(&mut objects, MPI_UNDEFINED, MPI_UNDEFINED).is_err());
        let integer = integer_type(&mut objects, 10).unwrap();
        assert_eq!(objects.datatype(integer).unwrap().description.element, Some(Element::Int64));
        assert!(integer_type(&mut objects, 39).is_err());
    }

    /// Every size that C's types of a class have is found. Expect: the datatype has the size that was asked
    /// for.
    #[test]
    fn a_datatype_is_found_by_its_size() {
        let mut objects = Objects::new();
        objects.begin();
        let classes = [
            (MPI_TYPECLASS_INTEGER, &[1, 2, 4, 8, 16][..]),
            (MPI_TYPECLASS_REAL, &[2, 4, 8, 16]),
            (MPI_TYPECLASS_COMPLEX, &[4, 8, 16, 32]),
        ];
        for (class, sizes) in classes {
            for size in -1..=64 {
                match match_size(class, size) {
                    Ok(handle) => {
                        assert!(sizes.contains(&size), "{class} {size}");
                        assert_eq!(objects.datatype(handle).unwrap().description.layout.size(), size as u64);
                    }
                    Err(error) => assert!(!sizes.contains(&size) && error.class == MPI_ERR_ARG, "{class} {size}"),
                }
            }
        }
        assert_eq!(match_size(0, 4).expect_err("no class").class, MPI_ERR_ARG);
    }
}
