//! Parts of multidimensional arrays: subarrays (MPI-5.0 §5.1.3) and distributed arrays (§5.1.4).

use weft_core::layout::{Layout, Overflow};

use super::{Old, describe, nested, overflow};
use crate::constants::*;
use crate::error::{Error, Result};
use crate::object::Description;

/// The arguments of `MPI_Type_create_subarray`.
pub struct Subarray<'a> {
    /// Items of the whole array in each dimension.
    pub sizes: &'a [i64],
    /// Items of the part in each dimension.
    pub subsizes: &'a [i64],
    /// The first item of the part in each dimension.
    pub starts: &'a [i64],
    /// `MPI_ORDER_C` or `MPI_ORDER_FORTRAN`.
    pub order: i32,
}

/// The arguments of `MPI_Type_create_darray`.
pub struct Darray<'a> {
    /// Processes.
    pub size: i32,
    /// The process whose part it is.
    pub rank: i32,
    /// Items of the whole array in each dimension.
    pub gsizes: &'a [i64],
    /// `MPI_DISTRIBUTE_*` in each dimension.
    pub distribs: &'a [i32],
    /// The arguments of these distributions, or `MPI_DISTRIBUTE_DFLT_DARG`.
    pub dargs: &'a [i32],
    /// Processes in each dimension.
    pub psizes: &'a [i32],
    /// `MPI_ORDER_C` or `MPI_ORDER_FORTRAN`.
    pub order: i32,
}

fn wrong(message: String) -> Error {
    Error::new(MPI_ERR_ARG, message)
}

/// The dimensions, from the one whose items are adjacent to the one whose items are farthest apart.
fn inside_out(dimensions: usize, order: i32) -> Result<Vec<usize>> {
    match order {
        MPI_ORDER_C => Ok((0..dimensions).rev().collect()),
        MPI_ORDER_FORTRAN => Ok((0..dimensions).collect()),
        _ => Err(wrong(format!("order is {order}, which is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN"))),
    }
}

fn times(one: i64, other: i64) -> Result<i64> {
    one.checked_mul(other).ok_or_else(|| overflow(Overflow::Bytes))
}

/// The items of one dimension that belong to the part: `blocks` blocks of `length` items, with starts `step`
/// items apart, and after them a block of `rest` items.
struct Pattern {
    first: i64,
    blocks: i64,
    length: i64,
    step: i64,
    rest: i64,
}

/// The items of `pattern` along one dimension, with `stride` bytes from item to item.
fn spread(item: &Layout, pattern: &Pattern, stride: i64) -> Result<Layout> {
    let step = times(pattern.step, stride)?;
    let whole = Layout::vector(pattern.blocks as u64, pattern.length as u64, step, item).map_err(overflow)?;
    let start = times(pattern.first, stride)?;
    let after = start.checked_add(times(pattern.blocks, step)?).ok_or_else(|| overflow(Overflow::Bytes))?;
    Layout::structure(&[(start, 1, whole), (after, pattern.rest as u64, item.clone())]).map_err(overflow)
}

/// The part of an array of `sizes` that `patterns` choose. Its extent is that of the whole array.
fn part(sizes: &[i64], patterns: &[Pattern], order: &[usize], of: &Old) -> Result<Layout> {
    let mut stride = of.layout.extent();
    let mut layout = of.layout.clone();
    for &dimension in order {
        layout = spread(&layout, &patterns[dimension], stride)?;
        stride = times(stride, sizes[dimension])?;
        // A whole line of this dimension is one item of the next.
        layout = Layout::resized(&layout, 0, stride).map_err(overflow)?;
    }
    Ok(layout)
}

/// Describes the datatype of `MPI_Type_create_subarray` (MPI-5.0 §5.1.3).
///
/// # Errors
/// `MPI_ERR_ARG` when the part is not inside the array, or the array is too large to be described.
pub fn subarray(of: Old, arguments: &Subarray<'_>, large: bool) -> Result<Description> {
    let Subarray { sizes, subsizes, starts, order } = *arguments;
    let dimensions = sizes.len();
    let mut patterns = Vec::with_capacity(dimensions);
    for dimension in 0..dimensions {
        let (size, subsize, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
        if size < 1 || subsize < 1 || start < 0 || subsize > size || start > size - subsize {
            return Err(wrong(format!(
                "in dimension {dimension} the subarray has {subsize} items from item {start} on, the array has {size}"
            )));
        }
        patterns.push(Pattern { first: start, blocks: 1, length: subsize, step: subsize, rest: 0 });
    }
    let layout = part(sizes, &patterns, &inside_out(dimensions, order)?, &of)?;
    let mut recipe = nested(MPI_COMBINER_SUBARRAY, &[of])?;
    recipe.large = large;
    if large {
        recipe.integers = vec![dimensions as i64, i64::from(order)];
        recipe.counts = [sizes, subsizes, starts].concat();
    } else {
        recipe.integers = [&[dimensions as i64], sizes, subsizes, starts, &[i64::from(order)]].concat();
    }
    describe(Ok(layout), recipe)
}

/// Describes the datatype of `MPI_Type_create_darray` (MPI-5.0 §5.1.4).
///
/// # Errors
/// `MPI_ERR_ARG` when the arguments contradict each other, or the array is too large to be described.
pub fn darray(of: Old, arguments: &Darray<'_>, large: bool) -> Result<Description> {
    let Darray { size, rank, gsizes, distribs, dargs, psizes, order } = *arguments;
    if psizes.iter().any(|processes| *processes < 1) {
        return Err(wrong("an element of array_of_psizes is less than 1".to_owned()));
    }
    if psizes.iter().try_fold(1_i64, |product, processes| product.checked_mul(i64::from(*processes)))
        != Some(i64::from(size))
    {
        return Err(wrong(format!("size is {size}, but that is not the product of array_of_psizes")));
    }
    if !(0..size).contains(&rank) {
        return Err(wrong(format!("rank is {rank}, but size is {size}")));
    }
    // The grid of processes is in row-major order, whatever the order of the array.
    let (mut left, mut position) = (i64::from(size), i64::from(rank));
    let mut patterns = Vec::with_capacity(gsizes.len());
    for (dimension, &processes) in psizes.iter().enumerate() {
        left /= i64::from(processes);
        let coordinate = position / left;
        position %= left;
        let share = Share {
            dimension,
            items: gsizes[dimension],
            processes: i64::from(processes),
            coordinate,
            argument: dargs[dimension],
        };
        patterns.push(share.pattern(distribs[dimension])?);
    }
    let layout = part(gsizes, &patterns, &inside_out(gsizes.len(), order)?, &of)?;
    let mut recipe = nested(MPI_COMBINER_DARRAY, &[of])?;
    recipe.large = large;
    recipe.integers = vec![i64::from(size), i64::from(rank), gsizes.len() as i64];
    if large {
        recipe.counts = gsizes.to_vec();
    } else {
        recipe.integers.extend(gsizes);
    }
    recipe.integers.extend([distribs, dargs, psizes, &[order]].concat().into_iter().map(i64::from));
    describe(Ok(layout), recipe)
}

/// A dimension of a distributed array, seen from one process.
struct Share {
    dimension: usize,
    items: i64,
    processes: i64,
    coordinate: i64,
    argument: i32,
}

impl Share {
    fn pattern(&self, distribution: i32) -> Result<Pattern> {
        let Self { dimension, items, processes, coordinate, argument } = *self;
        if items < 1 {
            return Err(wrong(format!("array_of_gsizes[{dimension}] is {items}; it must be at least 1")));
        }
        let given = (argument != MPI_DISTRIBUTE_DFLT_DARG).then_some(i64::from(argument));
        if distribution != MPI_DISTRIBUTE_NONE && given.is_some_and(|argument| argument < 1) {
            return Err(wrong(format!("array_of_dargs[{dimension}] is {argument}; it must be at least 1")));
        }
        match distribution {
            MPI_DISTRIBUTE_NONE if processes != 1 => {
                Err(wrong(format!("dimension {dimension} is not distributed, but its psize is {processes}")))
            }
            MPI_DISTRIBUTE_NONE => Ok(Pattern { first: 0, blocks: 1, length: items, step: items, rest: 0 }),
            MPI_DISTRIBUTE_BLOCK => {
                let block = given.unwrap_or((items - 1) / processes + 1);
                if block.saturating_mul(processes) < items {
                    return Err(wrong(format!(
                        "array_of_dargs[{dimension}] is {block}: {processes} such blocks do not hold {items} items"
                    )));
                }
                let first = block.saturating_mul(coordinate).min(items);
                let length = block.min(items - first);
                Ok(Pattern { first, blocks: 1, length, step: length, rest: 0 })
            }
            MPI_DISTRIBUTE_CYCLIC => {
                let block = given.unwrap_or(1);
                // Products stay below 2^62: both factors came as integers.
                let (round, first) = (block * processes, block * coordinate);
                let rounds = items / round;
                let rest = (items % round - first).clamp(0, block);
                Ok(Pattern { first, blocks: rounds, length: block, step: round, rest })
            }
            other => {
                Err(wrong(format!("array_of_distribs[{dimension}] is {other}, which is no MPI_DISTRIBUTE constant")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Constituent;
    use weft_core::layout::Element;

    fn old() -> Old {
        Old { layout: Layout::element(Element::Int32), constituent: Constituent::Predefined(MPI_INT) }
    }

    /// The indices of the items in one item of `layout`, in order.
    fn items(layout: &Layout) -> Vec<i64> {
        let mut found = Vec::new();
        layout.runs(1, 0..layout.size(), &mut |offset, length| {
            found.extend((0..length as i64 / 4).map(|item| offset / 4 + item));
        });
        found
    }

    #[test]
    fn a_subarray_is_the_items_inside_in_the_order_of_memory() {
        let (sizes, subsizes, starts) = ([4, 5, 6], [2, 3, 2], [1, 0, 3]);
        for order in [MPI_ORDER_C, MPI_ORDER_FORTRAN] {
            let arguments = Subarray { sizes: &sizes, subsizes: &subsizes, starts: &starts, order };
            let layout = subarray(old(), &arguments, false).unwrap().layout;
            let mut expected = Vec::new();
            for (x, y, z) in (0..4).flat_map(|x| (0..5).flat_map(move |y| (0..6).map(move |z| (x, y, z)))) {
                if (1..3).contains(&x) && y < 3 && (3..5).contains(&z) {
                    expected.push(if order == MPI_ORDER_C { (x * 5 + y) * 6 + z } else { (z * 5 + y) * 4 + x });
                }
            }
            expected.sort_unstable();
            assert_eq!(items(&layout), expected);
            assert_eq!((layout.lb(), layout.extent()), (0, 4 * 120));
        }
    }

    /// The owner of item `index`, from the definition of each distribution (MPI-5.0 §5.1.4).
    fn owner(distribution: i32, argument: i32, items: i64, processes: i64, index: i64) -> i64 {
        let argument = i64::from(argument);
        let default = argument == i64::from(MPI_DISTRIBUTE_DFLT_DARG);
        match distribution {
            MPI_DISTRIBUTE_NONE => 0,
            MPI_DISTRIBUTE_BLOCK => index / if default { (items + processes - 1) / processes } else { argument },
            _ => index / if default { 1 } else { argument } % processes,
        }
    }

    #[test]
    fn a_distributed_array_gives_each_item_to_the_process_that_the_definition_names() {
        let kinds = [
            (MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_DFLT_DARG, 1),
            (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, 3),
            (MPI_DISTRIBUTE_BLOCK, 5, 3),
            (MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, 2),
            (MPI_DISTRIBUTE_CYCLIC, 3, 2),
            (MPI_DISTRIBUTE_CYCLIC, 40, 2),
        ];
        let gsizes = [7, 10];
        for (one, two) in kinds.iter().flat_map(|one| kinds.iter().map(move |two| (one, two))) {
            for order in [MPI_ORDER_C, MPI_ORDER_FORTRAN] {
                for rank in 0..one.2 * two.2 {
                    let arguments = Darray {
                        size: one.2 * two.2,
                        rank,
                        gsizes: &gsizes,
                        distribs: &[one.0, two.0],
                        dargs: &[one.1, two.1],
                        psizes: &[one.2, two.2],
                        order,
                    };
                    let layout = darray(old(), &arguments, false).unwrap().layout;
                    let mut expected = Vec::new();
                    for (x, y) in (0..7).flat_map(|x| (0..10).map(move |y| (x, y))) {
                        let row = owner(one.0, one.1, 7, i64::from(one.2), x);
                        let column = owner(two.0, two.1, 10, i64::from(two.2), y);
                        if row * i64::from(two.2) + column == i64::from(rank) {
                            expected.push(if order == MPI_ORDER_C { x * 10 + y } else { y * 7 + x });
                        }
                    }
                    expected.sort_unstable();
                    assert_eq!(items(&layout), expected, "{one:?} {two:?} {order} {rank}");
                    assert_eq!((layout.lb(), layout.extent()), (0, 4 * 70));
                }
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let darray = |size, rank, distribution, argument, processes| {
            let arguments = Darray {
                size,
                rank,
                gsizes: &[10],
                distribs: &[distribution],
                dargs: &[argument],
                psizes: &[processes],
                order: MPI_ORDER_C,
            };
            darray(old(), &arguments, false).map(|description| description.layout.size())
        };
        assert_eq!(darray(2, 1, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, 2).unwrap(), 20);
        assert!(darray(2, 2, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, 2).is_err());
        assert!(darray(3, 1, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, 2).is_err());
        assert!(darray(2, 1, MPI_DISTRIBUTE_BLOCK, 4, 2).is_err());
        assert!(darray(2, 1, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_DFLT_DARG, 2).is_err());
        assert!(darray(2, 1, MPI_DISTRIBUTE_CYCLIC, 0, 2).is_err());
        assert!(darray(2, 1, 99, 1, 2).is_err());
    }
}
