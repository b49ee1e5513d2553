//! Groups (MPI-5.0 §7.3).

use crate::arguments::*;
use crate::types::*;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::constants::*;
use weft_mpi::error::{Error, Result};
use weft_mpi::object::PeerId;
use weft_mpi::process::{Process, with};

/// The number of ranks from which on comparing or translating is quicker through a table.
const TABLE_MIN: usize = 16;

/// Makes `newgroup` of the members of `group` that `choose` picks.
fn derive(
    group: MPI_Group,
    newgroup: Out<MPI_Group>,
    choose: impl FnOnce(&Process, &[PeerId]) -> Result<Vec<PeerId>>,
) -> Result<()> {
    let handle = with(|process| {
        let group = process.objects.group(group.0)?;
        let members = choose(process, &group.members)?;
        let own = process.own();
        process.objects.add_group(group.derive(members, own))
    })?;
    newgroup.set(MPI_Group(handle));
    Ok(())
}

/// The rank in `members` of each process.
struct Ranks<'a> {
    members: &'a [PeerId],
    table: Option<HashMap<PeerId, i32>>,
}

impl<'a> Ranks<'a> {
    /// Makes a table if it pays for `lookups` questions.
    fn new(members: &'a [PeerId], lookups: usize) -> Self {
        let large = lookups >= TABLE_MIN && members.len() >= TABLE_MIN;
        let table = large.then(|| members.iter().zip(0..).map(|(member, rank)| (*member, rank)).collect());
        Self { members, table }
    }

    fn of(&self, process: PeerId) -> Option<i32> {
        match &self.table {
            Some(table) => table.get(&process).copied(),
            None => self.members.iter().position(|member| *member == process).map(|rank| rank as i32),
        }
    }

    fn contains(&self, process: PeerId) -> bool {
        self.of(process).is_some()
    }
}

/// Checks ranks of a group of `size`, each at most once, in the order of the list.
fn distinct(ranks: impl IntoIterator<Item = i64>, size: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; size];
    let mut list = Vec::new();
    for rank in ranks {
        let Some(index) = usize::try_from(rank).ok().filter(|rank| *rank < size) else {
            return Err(Error::new(MPI_ERR_RANK, format!("rank {rank} is not in the group, which has {size} members")));
        };
        if std::mem::replace(&mut seen[index], true) {
            return Err(Error::new(MPI_ERR_RANK, format!("rank {rank} is listed twice")));
        }
        list.push(index);
    }
    Ok(list)
}

/// The ranks of `ranges` (first, last, stride) (MPI-5.0 §7.3.2).
fn expand(ranges: &[[c_int; 3]], size: usize) -> Result<Vec<usize>> {
    let mut list = Vec::new();
    for range in ranges {
        let [first, last, stride] = range.map(i64::from);
        if stride == 0 || (last - first).signum() * stride.signum() < 0 {
            let message = format!("the range from {first} to {last} with stride {stride} never gets there");
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        let steps = (last - first) / stride;
        // Both ends are checked before a list of the ranks between them is made.
        distinct([first], size)?;
        distinct([first + steps * stride], size)?;
        list.extend((0..=steps).map(|step| first + step * stride));
    }
    distinct(list, size)
}

fn include(members: &[PeerId], indices: &[usize]) -> Vec<PeerId> {
    indices.iter().map(|index| members[*index]).collect()
}

fn exclude(members: &[PeerId], indices: &[usize]) -> Vec<PeerId> {
    let mut keep = vec![true; members.len()];
    indices.iter().for_each(|index| keep[*index] = false);
    members.iter().zip(keep).filter(|(_, keep)| *keep).map(|(member, _)| *member).collect()
}

/// MPI_Comm_group (MPI-5.0 §7.3.2).
pub(crate) fn comm_group(comm: MPI_Comm, group: Out<MPI_Group>) -> Result<()> {
    let handle = with(|process| {
        let members = Arc::clone(&process.objects.communicator(comm.0)?.group);
        process.objects.add_group(members)
    })?;
    group.set(MPI_Group(handle));
    Ok(())
}

/// MPI_Group_size (MPI-5.0 §7.3.1).
pub(crate) fn group_size(group: MPI_Group, size: Out<c_int>) -> Result<()> {
    let members = with(|process| process.objects.group(group.0))?.size();
    size.set(members as c_int);
    Ok(())
}

/// MPI_Group_rank (MPI-5.0 §7.3.1).
pub(crate) fn group_rank(group: MPI_Group, rank: Out<c_int>) -> Result<()> {
    let own = with(|process| process.objects.group(group.0))?.rank;
    rank.set(own.map_or(MPI_UNDEFINED, |own| own as c_int));
    Ok(())
}

/// MPI_Group_translate_ranks (MPI-5.0 §7.3.1).
pub(crate) fn group_translate_ranks(
    group1: MPI_Group,
    _n: c_int,
    ranks1: InArray<c_int>,
    group2: MPI_Group,
    ranks2: OutArray<c_int>,
) -> Result<()> {
    let (from, to) = with(|process| Ok((process.objects.group(group1.0)?, process.objects.group(group2.0)?)))?;
    let table = Ranks::new(&to.members, ranks1.len());
    // The two arrays may be the same.
    for (index, rank) in ranks1.iter().enumerate() {
        let translated = match usize::try_from(rank).ok().and_then(|rank| from.members.get(rank)) {
            Some(member) => table.of(*member).unwrap_or(MPI_UNDEFINED),
            None if rank == MPI_PROC_NULL => MPI_PROC_NULL,
            None => {
                let message = format!("ranks1[{index}] is {rank}, but group1 has {} members", from.members.len());
                return Err(Error::new(MPI_ERR_RANK, message));
            }
        };
        ranks2.set(index, translated);
    }
    Ok(())
}

/// MPI_Group_compare (MPI-5.0 §7.3.1).
pub(crate) fn group_compare(group1: MPI_Group, group2: MPI_Group, result: Out<c_int>) -> Result<()> {
    let (one, two) = with(|process| Ok((process.objects.group(group1.0)?, process.objects.group(group2.0)?)))?;
    result.set(compare(&one.members, &two.members));
    Ok(())
}

/// Returns MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
fn compare(one: &[PeerId], two: &[PeerId]) -> i32 {
    if one == two {
        return MPI_IDENT;
    }
    let ranks = Ranks::new(two, one.len());
    let similar = one.len() == two.len() && one.iter().all(|member| ranks.contains(*member));
    if similar { MPI_SIMILAR } else { MPI_UNEQUAL }
}

/// MPI_Group_union (MPI-5.0 §7.3.2): the members of the first group, then those members of the second that
/// are not in the first.
pub(crate) fn group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) -> Result<()> {
    let handle = with(|process| {
        let (one, two) = (process.objects.group(group1.0)?, process.objects.group(group2.0)?);
        let ranks = Ranks::new(&one.members, two.members.len());
        let others = two.members.iter().filter(|member| !ranks.contains(**member));
        let members = one.members.iter().chain(others).copied().collect();
        // The empty group comes from no session, and from every session.
        let origin = if one.members.is_empty() { &two } else { &one };
        let group = origin.derive(members, process.own());
        process.objects.add_group(group)
    })?;
    newgroup.set(MPI_Group(handle));
    Ok(())
}

/// MPI_Group_intersection (MPI-5.0 §7.3.2), in the order of the first group.
pub(crate) fn group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) -> Result<()> {
    derive(group1, newgroup, |process, one| {
        let two = process.objects.group(group2.0)?;
        let ranks = Ranks::new(&two.members, one.len());
        Ok(one.iter().copied().filter(|member| ranks.contains(*member)).collect())
    })
}

/// MPI_Group_difference (MPI-5.0 §7.3.2), in the order of the first group.
pub(crate) fn group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) -> Result<()> {
    derive(group1, newgroup, |process, one| {
        let two = process.objects.group(group2.0)?;
        let ranks = Ranks::new(&two.members, one.len());
        Ok(one.iter().copied().filter(|member| !ranks.contains(*member)).collect())
    })
}

/// MPI_Group_incl (MPI-5.0 §7.3.2).
pub(crate) fn group_incl(group: MPI_Group, _n: c_int, ranks: InArray<c_int>, newgroup: Out<MPI_Group>) -> Result<()> {
    derive(group, newgroup, |_, members| Ok(include(members, &distinct(ranks.iter().map(i64::from), members.len())?)))
}

/// MPI_Group_excl (MPI-5.0 §7.3.2).
pub(crate) fn group_excl(group: MPI_Group, _n: c_int, ranks: InArray<c_int>, newgroup: Out<MPI_Group>) -> Result<()> {
    derive(group, newgroup, |_, members| Ok(exclude(members, &distinct(ranks.iter().map(i64::from), members.len())?)))
}

/// MPI_Group_range_incl (MPI-5.0 §7.3.2).
pub(crate) fn group_range_incl(
    group: MPI_Group,
    _n: c_int,
    ranges: InArray<[c_int; 3]>,
    newgroup: Out<MPI_Group>,
) -> Result<()> {
    derive(group, newgroup, |_, members| Ok(include(members, &expand(&ranges.to_vec(), members.len())?)))
}

/// MPI_Group_range_excl (MPI-5.0 §7.3.2).
pub(crate) fn group_range_excl(
    group: MPI_Group,
    _n: c_int,
    ranges: InArray<[c_int; 3]>,
    newgroup: Out<MPI_Group>,
) -> Result<()> {
    derive(group, newgroup, |_, members| Ok(exclude(members, &expand(&ranges.to_vec(), members.len())?)))
}

/// MPI_Group_free (MPI-5.0 §7.3.3). The empty group may be freed, since the functions above return it.
pub(crate) fn group_free(group: InOut<MPI_Group>) -> Result<()> {
    let handle = group.get().0;
    with(|process| {
        process.objects.group(handle)?;
        process.objects.groups.remove(handle);
        Ok(())
    })?;
    group.set(MPI_Group::NULL);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_expand_in_their_order() {
        assert_eq!(expand(&[[1, 8, 3], [6, 3, -3], [0, 0, 5]], 9).expect("right"), [1, 4, 7, 6, 3, 0]);
        assert_eq!(expand(&[[5, 2, -1]], 6).expect("right"), [5, 4, 3, 2]);
        for (range, class) in [
            ([0, 3, 0], MPI_ERR_ARG),
            ([0, 3, -1], MPI_ERR_ARG),
            ([3, 0, 1], MPI_ERR_ARG),
            ([0, 6, 1], MPI_ERR_RANK),
            ([-1, 2, 1], MPI_ERR_RANK),
        ] {
            assert_eq!(expand(&[range], 6).expect_err("wrong").class, class, "{range:?}");
        }
        assert_eq!(expand(&[[0, 2, 1], [4, 2, -1]], 6).expect_err("2 twice").class, MPI_ERR_RANK);
    }

    #[test]
    fn large_and_small_groups_compare_alike() {
        for size in [3, 40] {
            let up: Vec<PeerId> = (0..size).map(|index| PeerId::new(index, 0)).collect();
            let down: Vec<PeerId> = up.iter().rev().copied().collect();
            assert_eq!(compare(&up, &up), MPI_IDENT);
            assert_eq!(compare(&up, &down), MPI_SIMILAR);
            assert_eq!(compare(&up, &down[1..]), MPI_UNEQUAL);
        }
    }
}
