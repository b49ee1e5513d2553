//! Exchanges lists of numbers, of different lengths, between all processes of a communicator. `placement.rs`
//! uses it for distributed graphs.

use weft_plan::collective::{self, Blocks};

use super::{int64, run};
use crate::collective::{Arguments, Bound};
use crate::error::Result;
use crate::memory::SharedBuffer;
use crate::process::with;

/// Bytes of one number.
const NUMBER_BYTES: u64 = 8;

/// Gives each process of the communicator its list of numbers. Returns the lists that the others have given
/// to this one, by rank. All processes call this.
///
/// # Errors
/// `MPI_ERR_COMM`; a process is gone.
///
/// # Panics
/// There are not as many lists as processes.
pub fn exchange(communicator: usize, lists: &[Vec<i64>]) -> Result<Vec<Vec<i64>>> {
    let counts: Vec<u64> = lists.iter().map(|list| list.len() as u64).collect();
    let numbers: Vec<i64> = counts.iter().map(|count| *count as i64).collect();
    let one_each = vec![1; lists.len()];
    let counts_in = blocks(communicator, &numbers, &one_each, &one_each)?;
    let counts_in: Vec<u64> = counts_in.into_iter().map(|count| count as u64).collect();
    let numbers = blocks(communicator, &lists.concat(), &counts, &counts_in)?;
    let mut rest = &numbers[..];
    let mut take = |count: &u64| {
        let (list, after) = rest.split_at(*count as usize);
        rest = after;
        list.to_vec()
    };
    Ok(counts_in.iter().map(&mut take).collect())
}

/// Exchanges blocks of `numbers`: `counts` go to each rank, and `counts_in` come from each.
fn blocks(communicator: usize, numbers: &[i64], counts: &[u64], counts_in: &[u64]) -> Result<Vec<i64>> {
    let displacements = |counts: &[u64]| -> Vec<i64> {
        let starts = counts.iter().scan(0, |end, count| {
            *end += count * NUMBER_BYTES;
            Some((*end - count * NUMBER_BYTES) as i64)
        });
        starts.collect()
    };
    let (send, receive) = (displacements(counts), displacements(counts_in));
    let (scope, description) =
        with(|process| Ok::<_, crate::error::Error>((process.collective_scope(communicator)?, int64(process)?)))?;
    let shape = collective::Alltoallv {
        rank: scope.rank,
        size: scope.group.size(),
        send: Blocks { counts, displacements: &send, item_size: NUMBER_BYTES },
        receive: Blocks { counts: counts_in, displacements: &receive, item_size: NUMBER_BYTES },
        in_place: false,
    };
    let total = counts_in.iter().sum::<u64>() as usize;
    let (outgoing, incoming) = (SharedBuffer::of_values(numbers), SharedBuffer::of_values(&vec![0; total]));
    let arguments = Arguments {
        send: outgoing.address(0),
        receive: incoming.address(0),
        send_type: Some(description.clone()),
        receive_type: Some(description),
        ..Arguments::none()
    };
    run(scope, Bound::shared(collective::alltoallv(&shape), arguments))?;
    Ok(incoming.values())
}
