//! Constructors of datatypes: from arguments to a layout, and to a recipe that reports the arguments again
//! (MPI-5.0 §5.1). The boundary calls the constructors.
//!
//! `large` says that the constructor was called in its large-count form. The recipe then holds counts instead
//! of integers and addresses (MPI-5.0 §5.1.13).

mod arrays;
mod named;
mod rebuilt;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weft_core::layout::{Layout, Overflow};

pub use crate::description::Old;
pub use arrays::{Darray, Subarray, darray, subarray};
pub use rebuilt::rebuilt;

pub use named::{complex_type, integer_type, is_unnamed_predefined, match_size, pair_type, real_type};

use crate::constants::*;
use crate::error::{Error, Result};
use crate::object::{Constituent, Datatype, Description, Objects, Recipe, full};

/// The most datatypes that may be nested in one. Each of them is kept for `MPI_Type_get_contents`, and
/// freeing the outermost one frees all of them: the limit bounds that recursion.
pub const NESTING_MAX: u32 = 1000;

impl Old {
    fn nesting(&self) -> u32 {
        match &self.constituent {
            Constituent::Predefined(_) => 0,
            Constituent::Derived(description) => description.recipe.nesting,
        }
    }

    /// The bytes of `items` extents.
    fn distance(&self, items: i64) -> Result<i64> {
        items.checked_mul(self.layout.extent()).ok_or_else(|| overflow(Overflow::Bytes))
    }
}

impl Objects {
    /// The datatype with this handle, as a part of a new one.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    pub fn old_type(&self, handle: usize) -> Result<Old> {
        let description = &self.datatype(handle)?.description;
        let predefined = description.recipe.combiner == MPI_COMBINER_NAMED;
        let constituent = match predefined {
            true => Constituent::Predefined(handle),
            false => Constituent::Derived(Arc::clone(description)),
        };
        Ok(Old { layout: description.layout.clone(), constituent })
    }

    /// Adds a new datatype, and returns its handle.
    ///
    /// # Errors
    /// Too many datatypes.
    pub fn add_datatype(&mut self, description: Description) -> Result<usize> {
        self.add_datatype_again(Arc::new(description), false)
    }

    /// Adds another handle of a datatype, and returns it.
    ///
    /// # Errors
    /// Too many datatypes.
    pub fn add_datatype_again(&mut self, description: Arc<Description>, committed: bool) -> Result<usize> {
        let datatype =
            Datatype { description: Arc::clone(&description), committed, name: String::new(), attributes: Vec::new() };
        let handle = self.datatypes.insert(datatype).ok_or_else(|| full("datatypes"))?;
        description.handle.store(handle, Ordering::Relaxed);
        Ok(handle)
    }
}

fn overflow(why: Overflow) -> Error {
    Error::new(MPI_ERR_ARG, why.to_string())
}

fn describe(layout: std::result::Result<Layout, Overflow>, recipe: Recipe) -> Result<Description> {
    let layout = layout.map_err(overflow)?;
    Ok(Description { layout, element: None, recipe, handle: AtomicUsize::new(MPI_DATATYPE_NULL) })
}

/// The recipe of most constructors. In the small form `numbers` are integers and `addresses` are addresses;
/// the large form has all of them as counts, in this order.
fn recipe(combiner: i32, large: bool, numbers: Vec<i64>, addresses: Vec<i64>, of: &[Old]) -> Result<Recipe> {
    let mut recipe = nested(combiner, of)?;
    recipe.large = large;
    if large {
        recipe.counts = numbers;
        recipe.counts.extend(addresses);
    } else {
        recipe.integers = numbers;
        recipe.addresses = addresses;
    }
    Ok(recipe)
}

/// The part of a recipe that is about the constituents.
fn nested(combiner: i32, of: &[Old]) -> Result<Recipe> {
    let nesting = 1 + of.iter().map(Old::nesting).max().unwrap_or(0);
    if nesting > NESTING_MAX {
        return Err(Error::new(MPI_ERR_TYPE, format!("the datatype is nested more than {NESTING_MAX} deep")));
    }
    let types = of.iter().map(|old| old.constituent.clone()).collect();
    Ok(Recipe { combiner, types, nesting, ..Recipe::default() })
}

fn natural(name: &str, value: i64) -> Result<u64> {
    let wrong = || Error::new(MPI_ERR_ARG, format!("{name} is {value}; it must not be negative"));
    u64::try_from(value).map_err(|_| wrong())
}

fn lengths(values: &[i64]) -> Result<Vec<u64>> {
    let check = |(index, value): (usize, &i64)| match u64::try_from(*value) {
        Ok(value) => Ok(value),
        Err(_) => {
            let message = format!("array_of_blocklengths[{index}] is {value}; it must not be negative");
            Err(Error::new(MPI_ERR_ARG, message))
        }
    };
    values.iter().enumerate().map(check).collect()
}

/// Describes the datatype of `MPI_Type_contiguous` (MPI-5.0 §5.1.2).
///
/// # Errors
/// `MPI_ERR_ARG` when the datatype is too large to be described; the same for all constructors.
pub fn contiguous(count: i64, of: Old, large: bool) -> Result<Description> {
    let layout = Layout::contiguous(natural("count", count)?, &of.layout);
    describe(layout, recipe(MPI_COMBINER_CONTIGUOUS, large, vec![count], vec![], &[of])?)
}

/// Describes the datatype of `MPI_Type_vector` (MPI-5.0 §5.1.2): the stride is in items.
///
/// # Errors
/// As for [`contiguous`].
pub fn vector(count: i64, block_length: i64, stride: i64, of: Old, large: bool) -> Result<Description> {
    let layout = strided(count, block_length, of.distance(stride)?, &of)?;
    let numbers = vec![count, block_length, stride];
    describe(Ok(layout), recipe(MPI_COMBINER_VECTOR, large, numbers, vec![], &[of])?)
}

/// Describes the datatype of `MPI_Type_create_hvector` (MPI-5.0 §5.1.2): the stride is in bytes.
///
/// # Errors
/// As for [`contiguous`].
pub fn hvector(count: i64, block_length: i64, stride: i64, of: Old, large: bool) -> Result<Description> {
    let layout = strided(count, block_length, stride, &of)?;
    describe(Ok(layout), recipe(MPI_COMBINER_HVECTOR, large, vec![count, block_length], vec![stride], &[of])?)
}

fn strided(count: i64, block_length: i64, stride: i64, of: &Old) -> Result<Layout> {
    let (count, block_length) = (natural("count", count)?, natural("blocklength", block_length)?);
    Layout::vector(count, block_length, stride, &of.layout).map_err(overflow)
}

/// Describes the datatype of `MPI_Type_indexed` (MPI-5.0 §5.1.2): displacements are in items.
///
/// # Errors
/// As for [`contiguous`]; a block length is negative.
pub fn indexed(block_lengths: &[i64], displacements: &[i64], of: Old, large: bool) -> Result<Description> {
    let bytes: Vec<i64> = displacements.iter().map(|items| of.distance(*items)).collect::<Result<_>>()?;
    let layout = blocks(&lengths(block_lengths)?, &bytes, &of);
    let numbers = [&[block_lengths.len() as i64], block_lengths, displacements].concat();
    describe(layout, recipe(MPI_COMBINER_INDEXED, large, numbers, vec![], &[of])?)
}

/// Describes the datatype of `MPI_Type_create_hindexed` (MPI-5.0 §5.1.2): displacements are in bytes.
///
/// # Errors
/// As for [`indexed`].
pub fn hindexed(block_lengths: &[i64], displacements: &[i64], of: Old, large: bool) -> Result<Description> {
    let layout = blocks(&lengths(block_lengths)?, displacements, &of);
    let numbers = [&[block_lengths.len() as i64], block_lengths].concat();
    describe(layout, recipe(MPI_COMBINER_HINDEXED, large, numbers, displacements.to_vec(), &[of])?)
}

fn blocks(lengths: &[u64], bytes: &[i64], of: &Old) -> std::result::Result<Layout, Overflow> {
    let blocks: Vec<(i64, u64)> = bytes.iter().copied().zip(lengths.iter().copied()).collect();
    Layout::indexed(&blocks, &of.layout)
}

/// Describes the datatype of `MPI_Type_create_indexed_block` (MPI-5.0 §5.1.2): displacements are in items.
///
/// # Errors
/// As for [`contiguous`].
pub fn indexed_block(block_length: i64, displacements: &[i64], of: Old, large: bool) -> Result<Description> {
    let bytes: Vec<i64> = displacements.iter().map(|items| of.distance(*items)).collect::<Result<_>>()?;
    let layout = equal_blocks(natural("blocklength", block_length)?, &bytes, &of);
    let numbers = [&[displacements.len() as i64, block_length], displacements].concat();
    describe(layout, recipe(MPI_COMBINER_INDEXED_BLOCK, large, numbers, vec![], &[of])?)
}

/// Describes the datatype of `MPI_Type_create_hindexed_block` (MPI-5.0 §5.1.2): displacements are in bytes.
///
/// # Errors
/// As for [`contiguous`].
pub fn hindexed_block(block_length: i64, displacements: &[i64], of: Old, large: bool) -> Result<Description> {
    let layout = equal_blocks(natural("blocklength", block_length)?, displacements, &of);
    let numbers = vec![displacements.len() as i64, block_length];
    describe(layout, recipe(MPI_COMBINER_HINDEXED_BLOCK, large, numbers, displacements.to_vec(), &[of])?)
}

fn equal_blocks(length: u64, bytes: &[i64], of: &Old) -> std::result::Result<Layout, Overflow> {
    let blocks: Vec<(i64, u64)> = bytes.iter().map(|displacement| (*displacement, length)).collect();
    Layout::indexed(&blocks, &of.layout)
}

/// Describes the datatype of `MPI_Type_create_struct` (MPI-5.0 §5.1.2): displacements are in bytes.
///
/// # Errors
/// As for [`indexed`].
pub fn structure(block_lengths: &[i64], displacements: &[i64], of: &[Old], large: bool) -> Result<Description> {
    let blocks: Vec<(i64, u64, Layout)> = displacements
        .iter()
        .zip(lengths(block_lengths)?)
        .zip(of)
        .map(|((displacement, length), of)| (*displacement, length, of.layout.clone()))
        .collect();
    let numbers = [&[block_lengths.len() as i64], block_lengths].concat();
    let recipe = recipe(MPI_COMBINER_STRUCT, large, numbers, displacements.to_vec(), of)?;
    describe(Layout::structure(&blocks), recipe)
}

/// Describes the datatype of `MPI_Type_create_resized` (MPI-5.0 §5.1.7).
///
/// # Errors
/// As for [`contiguous`].
pub fn resized(lb: i64, extent: i64, of: Old, large: bool) -> Result<Description> {
    let layout = Layout::resized(&of.layout, lb, extent);
    describe(layout, recipe(MPI_COMBINER_RESIZED, large, vec![], vec![lb, extent], &[of])?)
}

/// Describes the datatype of `MPI_Type_dup` (MPI-5.0 §5.1.10).
///
/// # Errors
/// As for [`contiguous`].
pub fn duplicate(of: Old) -> Result<Description> {
    let element = match &of.constituent {
        Constituent::Predefined(handle) => crate::predefined::element(*handle),
        Constituent::Derived(description) => description.element,
    };
    let description = describe(Ok(of.layout.clone()), recipe(MPI_COMBINER_DUP, false, vec![], vec![], &[of])?)?;
    Ok(Description { element, ..description })
}

/// The bytes of the first `elements` basic elements of a message of items of `layout`: the inverse of
/// `MPI_Get_elements` (MPI-5.0 §13.3).
///
/// # Errors
/// `MPI_ERR_ARG` when the datatype has no data, or there are too many elements.
pub fn bytes_of_elements(layout: &Layout, elements: u64) -> Result<u64> {
    if elements == 0 {
        return Ok(0);
    }
    let per_item = layout.elements();
    if per_item == 0 {
        return Err(Error::new(MPI_ERR_ARG, format!("count is {elements}, but the datatype has no data")));
    }
    let whole = layout.packed_size(elements / per_item).map_err(overflow)?;
    let rest = elements % per_item;
    // The further an element's end, the more elements have ended. Search `low..high` for the end of element
    // `rest`.
    let (mut low, mut high) = (0, layout.size());
    while low < high {
        let middle = low + (high - low) / 2;
        // Between two ends of elements there is no answer: look at the next end.
        let end = (middle..high).find_map(|end| Some((end, layout.elements_in(end)?)));
        match end {
            Some((end, found)) if found == rest => return Ok(whole + end),
            Some((end, found)) if found < rest => low = end + 1,
            _ => high = middle,
        }
    }
    unreachable!("every element ends somewhere")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::layout::Element;

    fn old(element: Element) -> Old {
        Old { layout: Layout::element(element), constituent: Constituent::Predefined(MPI_INT) }
    }

    fn derived(description: Description) -> Old {
        let layout = description.layout.clone();
        Old { layout, constituent: Constituent::Derived(Arc::new(description)) }
    }

    #[test]
    fn the_recipe_tells_the_arguments_in_the_order_of_the_standard() {
        let small = hvector(3, 2, 64, old(Element::Int32), false).unwrap();
        assert_eq!((small.recipe.integers, small.recipe.addresses), (vec![3, 2], vec![64]));
        assert!(small.recipe.counts.is_empty());
        let large = hvector(3, 2, 64, old(Element::Int32), true).unwrap();
        assert_eq!(large.recipe.counts, [3, 2, 64]);
        assert!(large.recipe.integers.is_empty() && large.recipe.addresses.is_empty());
        let members = [old(Element::Int8), old(Element::Float64)];
        let structure = structure(&[1, 2], &[0, 8], &members, false).unwrap();
        assert_eq!((structure.recipe.integers, structure.recipe.addresses), (vec![2, 1, 2], vec![0, 8]));
        assert_eq!((structure.recipe.types.len(), structure.layout.size()), (2, 17));
    }

    #[test]
    fn nesting_has_a_limit() {
        let mut of = old(Element::Int8);
        for _ in 0..NESTING_MAX {
            of = derived(duplicate(of).unwrap());
        }
        assert_eq!(duplicate(of).err().map(|error| error.class), Some(MPI_ERR_TYPE));
    }

    #[test]
    fn elements_and_bytes_correspond() {
        let members = [old(Element::Int8), old(Element::Float64), old(Element::DoubleInt)];
        let layout = structure(&[3, 2, 1], &[0, 8, 32], &members, false).unwrap().layout;
        for (elements, bytes) in [(0, 0), (1, 1), (3, 3), (4, 11), (5, 19), (6, 27), (7, 31), (8, 32), (21, 93)] {
            assert_eq!(bytes_of_elements(&layout, elements).unwrap(), bytes, "{elements}");
            assert_eq!(layout.elements_in(bytes), Some(elements));
        }
        let large_first = [old(Element::LongDouble), old(Element::Int8), old(Element::ComplexLongDouble)];
        let layout = structure(&[2, 1, 1], &[0, 32, 48], &large_first, false).unwrap().layout;
        for (elements, bytes) in [(1, 16), (2, 32), (3, 33), (4, 65), (5, 81), (7, 98)] {
            assert_eq!(bytes_of_elements(&layout, elements).unwrap(), bytes, "{elements}");
        }
        let nothing = contiguous(0, old(Element::Int8), false).unwrap().layout;
        assert_eq!(bytes_of_elements(&nothing, 0).unwrap(), 0);
        assert!(bytes_of_elements(&nothing, 1).is_err());
    }
}
