//! Datatypes made once more, of basic types with other sizes: as they are in a file whose representation is
//! not that of memory (MPI-5.0 §14.5).

use weft_core::layout::Layout;

use super::{
    Darray, Old, Subarray, contiguous, darray, hindexed, hindexed_block, hvector, indexed, indexed_block, resized,
    structure, subarray, vector,
};
use crate::constants::*;
use crate::error::{Error, Result, internal};
use crate::object::{Constituent, Recipe};
use crate::predefined;

/// The layout that the datatype has when each predefined type in it has the layout that `leaf` returns for
/// its handle. Displacements that were given in bytes stay; those in items are in items of the other size.
///
/// # Errors
/// Of `leaf`; `MPI_ERR_ARG` when the datatype becomes too large.
pub fn rebuilt(of: &Constituent, leaf: &dyn Fn(usize) -> Result<Layout>) -> Result<Layout> {
    let description = match of {
        Constituent::Predefined(handle) => return leaf(*handle),
        Constituent::Derived(description) => description,
    };
    let recipe = &description.recipe;
    let inner: Vec<Old> = recipe
        .types
        .iter()
        .map(|of| Ok(Old { layout: rebuilt(of, leaf)?, constituent: of.clone() }))
        .collect::<Result<_>>()?;
    if recipe.combiner == MPI_COMBINER_STRUCT {
        let Arguments { numbers, addresses } = Arguments::of(recipe, 1 + inner.len());
        return Ok(structure(&numbers[1..], addresses, &inner, recipe.large)?.layout);
    }
    let Some(of) = inner.into_iter().next() else {
        // Fortran's parametrised types.
        return leaf(description.element.map_or(MPI_DATATYPE_NULL, predefined::handle_of));
    };
    Ok(again(recipe, of)?.layout)
}

/// The arguments of a constructor: in the small form `numbers` are integers and `addresses` are addresses, in
/// the large form both are counts.
struct Arguments<'a> {
    numbers: &'a [i64],
    addresses: &'a [i64],
}

impl<'a> Arguments<'a> {
    fn of(recipe: &'a Recipe, numbers: usize) -> Self {
        if recipe.large {
            let (numbers, addresses) = recipe.counts.split_at(numbers.min(recipe.counts.len()));
            Self { numbers, addresses }
        } else {
            Self { numbers: &recipe.integers, addresses: &recipe.addresses }
        }
    }
}

/// Calls the constructor of `recipe`, which has one constituent, with `of` in its place.
fn again(recipe: &Recipe, of: Old) -> Result<crate::object::Description> {
    let large = recipe.large;
    let first = |numbers: usize| Arguments::of(recipe, numbers);
    let unknown = || internal("a recipe of a datatype does not have the arguments of its constructor");
    let blocks = first(1).numbers.first().map_or(0, |count| *count as usize);
    match recipe.combiner {
        MPI_COMBINER_DUP => super::duplicate(of),
        MPI_COMBINER_CONTIGUOUS => {
            let [count] = *first(1).numbers else { return Err(unknown()) };
            contiguous(count, of, large)
        }
        MPI_COMBINER_VECTOR => {
            let [count, length, stride] = *first(3).numbers else { return Err(unknown()) };
            vector(count, length, stride, of, large)
        }
        MPI_COMBINER_HVECTOR => {
            let Arguments { numbers: &[count, length], addresses: &[stride] } = first(2) else { return Err(unknown()) };
            hvector(count, length, stride, of, large)
        }
        MPI_COMBINER_INDEXED => {
            let numbers = first(1 + 2 * blocks).numbers;
            let lists = numbers.get(1..).filter(|lists| lists.len() == 2 * blocks).ok_or_else(unknown)?;
            indexed(&lists[..blocks], &lists[blocks..], of, large)
        }
        MPI_COMBINER_HINDEXED => {
            let Arguments { numbers, addresses } = first(1 + blocks);
            hindexed(numbers.get(1..).ok_or_else(unknown)?, addresses, of, large)
        }
        MPI_COMBINER_INDEXED_BLOCK => {
            let [_, length, ref displacements @ ..] = *first(2 + blocks).numbers else { return Err(unknown()) };
            indexed_block(length, displacements, of, large)
        }
        MPI_COMBINER_HINDEXED_BLOCK => {
            let Arguments { numbers: &[_, length], addresses } = first(2) else { return Err(unknown()) };
            hindexed_block(length, addresses, of, large)
        }
        MPI_COMBINER_RESIZED => {
            let Arguments { addresses: &[lb, extent], .. } = first(0) else { return Err(unknown()) };
            resized(lb, extent, of, large)
        }
        MPI_COMBINER_SUBARRAY => again_subarray(recipe, of).ok_or_else(unknown)?,
        MPI_COMBINER_DARRAY => again_darray(recipe, of).ok_or_else(unknown)?,
        other => Err(Error::new(MPI_ERR_TYPE, format!("a datatype with combiner {other} has no other representation"))),
    }
}

fn again_subarray(recipe: &Recipe, of: Old) -> Option<Result<crate::object::Description>> {
    let (dimensions, rest) = recipe.integers.split_first()?;
    let (order, lists) = rest.split_last()?;
    let lists = if recipe.large { &recipe.counts[..] } else { lists };
    let dimensions = usize::try_from(*dimensions).ok().filter(|n| Some(lists.len()) == n.checked_mul(3))?;
    let (sizes, rest) = lists.split_at(dimensions);
    let (subsizes, starts) = rest.split_at(dimensions);
    Some(subarray(of, &Subarray { sizes, subsizes, starts, order: i32::try_from(*order).ok()? }, recipe.large))
}

fn again_darray(recipe: &Recipe, of: Old) -> Option<Result<crate::object::Description>> {
    let [size, rank, dimensions, ref rest @ ..] = *recipe.integers else { return None };
    let dimensions = usize::try_from(dimensions).ok()?;
    let (gsizes, rest) = if recipe.large { (&recipe.counts[..], rest) } else { rest.split_at_checked(dimensions)? };
    let small: Vec<i32> = rest.iter().map(|value| i32::try_from(*value).ok()).collect::<Option<_>>()?;
    let (distribs, small) = small.split_at_checked(dimensions)?;
    let (dargs, small) = small.split_at_checked(dimensions)?;
    let (psizes, order) = small.split_at_checked(dimensions)?;
    let [order] = *order else { return None };
    let (size, rank) = (i32::try_from(size).ok()?, i32::try_from(rank).ok()?);
    Some(darray(of, &Darray { size, rank, gsizes, distribs, dargs, psizes, order }, recipe.large))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_core::layout::Element;

    fn double() -> Old {
        Old { layout: Layout::element(Element::Float64), constituent: Constituent::Predefined(MPI_DOUBLE) }
    }

    fn derived(description: crate::object::Description) -> Old {
        let layout = description.layout.clone();
        Old { layout, constituent: Constituent::Derived(Arc::new(description)) }
    }

    fn runs(layout: &Layout) -> Vec<(i64, usize)> {
        let mut runs = Vec::new();
        layout.runs(1, 0..layout.size(), &mut |offset, length| runs.push((offset, length)));
        runs
    }

    /// Each constructor in both forms, made again of the same basic type, and of one of half its size.
    /// Expect: the same runs and extent; half of all offsets, but for those that were given in bytes.
    #[test]
    fn every_constructor_is_called_again() {
        for large in [false, true] {
            let subarrays = Subarray { sizes: &[4, 6], subsizes: &[2, 3], starts: &[1, 2], order: MPI_ORDER_C };
            let (block, cyclic) = (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC);
            let darrays = Darray {
                size: 4,
                rank: 3,
                gsizes: &[6, 8],
                distribs: &[block, cyclic],
                dargs: &[MPI_DISTRIBUTE_DFLT_DARG, 2],
                psizes: &[2, 2],
                order: MPI_ORDER_FORTRAN,
            };
            let in_items = [
                contiguous(3, double(), large).unwrap(),
                vector(3, 2, 4, double(), large).unwrap(),
                indexed(&[1, 2, 3], &[0, 4, 9], double(), large).unwrap(),
                indexed_block(2, &[1, 5, 8], double(), large).unwrap(),
                subarray(double(), &subarrays, large).unwrap(),
                darray(double(), &darrays, large).unwrap(),
                super::super::duplicate(derived(vector(2, 1, 3, double(), large).unwrap())).unwrap(),
            ];
            let in_bytes = [
                hvector(3, 1, 24, double(), large).unwrap(),
                hindexed(&[1, 2], &[8, 40], double(), large).unwrap(),
                hindexed_block(1, &[8, 40, 64], double(), large).unwrap(),
                resized(0, 80, double(), large).unwrap(),
                structure(&[1, 2], &[0, 32], &[double(), double()], large).unwrap(),
            ];
            let same = |_| Ok(Layout::element(Element::Float64));
            let half = |_| Ok(Layout::element(Element::Float32));
            for (description, of_items) in
                in_items.into_iter().map(|one| (one, true)).chain(in_bytes.into_iter().map(|one| (one, false)))
            {
                let combiner = description.recipe.combiner;
                let old = derived(description);
                let again = rebuilt(&old.constituent, &same).unwrap();
                assert_eq!((runs(&again), again.extent()), (runs(&old.layout), old.layout.extent()), "{combiner}");
                let halved = rebuilt(&old.constituent, &half).unwrap();
                assert_eq!(halved.size() * 2, old.layout.size(), "{combiner}");
                if of_items {
                    let expected: Vec<_> =
                        runs(&old.layout).iter().map(|(offset, length)| (offset / 2, length / 2)).collect();
                    assert_eq!((runs(&halved), halved.extent() * 2), (expected, old.layout.extent()), "{combiner}");
                } else {
                    let starts = |layout| runs(layout).into_iter().map(|(offset, _)| offset).collect::<Vec<_>>();
                    assert_eq!(starts(&halved), starts(&old.layout), "{combiner}");
                }
            }
        }
    }
}
