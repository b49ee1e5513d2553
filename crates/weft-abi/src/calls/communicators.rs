//! Communicators (MPI-5.0 §7.4).

use crate::arguments::*;
use crate::calls::attributes::{copy_attributes, delete_attributes};
use crate::calls::creation::{add, compared, create, create_between, create_part_between};
use crate::calls::info;
use crate::calls::info::put;
use crate::calls::text;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::collective::CollectiveScope;
use weft_mpi::communicator::{Creation, gather_all, needed, open_creation};
use weft_mpi::error::{Error, Result};
use weft_mpi::object::{Attributes, Class, Communicator, Group, Info, Inter, PeerId};
use weft_mpi::process::{Process, block_until, with};
use weft_mpi::topology::Topology;
use weft_mpi::{hardware, hints};

/// MPI_Comm_size (MPI-5.0 §7.4.1).
pub(crate) fn comm_size(comm: MPI_Comm, size: Out<c_int>) -> Result<()> {
    let members = with(|process| Ok(process.objects.communicator(comm.0)?.group.size()))?;
    size.set(members as c_int);
    Ok(())
}

/// MPI_Comm_rank (MPI-5.0 §7.4.1).
pub(crate) fn comm_rank(comm: MPI_Comm, rank: Out<c_int>) -> Result<()> {
    let own = with(|process| Ok(process.objects.communicator(comm.0)?.rank))?;
    rank.set(own as c_int);
    Ok(())
}

/// MPI_Comm_compare (MPI-5.0 §7.4.1).
pub(crate) fn comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) -> Result<()> {
    let outcome = with(|process| {
        let first = process.objects.communicator(comm1.0)?;
        let second = process.objects.communicator(comm2.0)?;
        // Both groups of intercommunicators are compared (MPI-5.0 §7.6.1).
        let groups = [(&first.group, &second.group), (first.partners(), second.partners())];
        let sorted = |group: &Group| {
            let mut members = group.members.clone();
            weft_ordered::sort(&mut members);
            members
        };
        Ok(if first.context == second.context {
            MPI_IDENT
        } else if first.inter.is_some() != second.inter.is_some() {
            MPI_UNEQUAL
        } else if groups.iter().all(|(one, other)| one.members == other.members) {
            MPI_CONGRUENT
        } else if groups.iter().all(|(one, other)| sorted(one) == sorted(other)) {
            MPI_SIMILAR
        } else {
            MPI_UNEQUAL
        })
    })?;
    result.set(outcome);
    Ok(())
}

/// MPI_Comm_dup (MPI-5.0 §7.4.2): attributes and info are copied.
pub(crate) fn comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) -> Result<()> {
    let info = with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.info.clone()))?;
    duplicate(comm, Ok(info), newcomm)
}

/// MPI_Comm_dup_with_info (MPI-5.0 §7.4.2).
pub(crate) fn comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) -> Result<()> {
    let info = with(|process| info_of(process, info));
    duplicate(comm, info, newcomm)
}

pub(super) fn info_of(process: &Process, info: MPI_Info) -> Result<Info> {
    if info == MPI_Info::NULL { Ok(Info::new()) } else { process.objects.info(info.0).cloned() }
}

/// The processes of a communicator that is duplicated, and its topology.
struct Original {
    group: Arc<Group>,
    addressed: Arc<Group>,
    inter: Option<Inter>,
    topology: Option<Arc<Topology>>,
}

impl Original {
    /// Makes `object`, a new communicator of this group, a duplicate with `attributes` and `info`.
    fn copy_to(self, object: &mut Communicator, attributes: Attributes, info: Info) {
        (object.addressed, object.inter, object.topology) = (self.addressed, self.inter, self.topology);
        (object.attributes, object.info) = (attributes, hints::of(&info));
    }
}

/// The attributes and hints that a duplicate gets of its original, if they can be had.
type Copied = Result<(Attributes, Info)>;

/// Prepares a duplicate: the scope of the agreement, the groups, and copies of the attributes.
fn prepare_duplicate(comm: MPI_Comm, info: Result<Info>) -> Result<(CollectiveScope, Original, Copied)> {
    let attributes = with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.attributes.clone()))?;
    // All processes take part in the agreement, even one whose copy callback fails: the others must not wait
    // for it.
    let copied = info.and_then(|info| {
        let attributes = copy_attributes(&attributes, comm.0, Class::Communicator);
        attributes.map(|attributes| (attributes, info))
    });
    with(|process| {
        let scope = process.agreement_scope(comm.0)?;
        let object = process.objects.communicator(comm.0)?;
        let original = Original {
            group: object.group.clone(),
            addressed: object.partners().clone(),
            inter: object.inter.clone(),
            topology: object.topology.clone(),
        };
        Ok((scope, original, copied))
    })
}

fn duplicate(comm: MPI_Comm, info: Result<Info>, newcomm: Out<MPI_Comm>) -> Result<()> {
    compared(comm)?;
    let (scope, original, copied) = prepare_duplicate(comm, info)?;
    let (attributes, info) = needed(&scope, Creation::Duplicate, copied)?;
    let group = original.group.clone();
    create(Creation::Duplicate, scope, group, newcomm, |object| original.copy_to(object, attributes, info))
}

fn start_duplicate(
    comm: MPI_Comm,
    info: Result<Info>,
    newcomm: Out<MPI_Comm>,
    request: Out<MPI_Request>,
) -> Result<()> {
    let (scope, original, copied) = prepare_duplicate(comm, info)?;
    let handle = copied.and_then(|(attributes, info)| {
        add(&scope, original.group.clone(), |object| original.copy_to(object, attributes, info))
    });
    let handle = match handle {
        Ok(handle) => handle,
        Err(error) => {
            with(|process| process.start_refusal(scope, Creation::Duplicate, &error)).ok();
            return Err(error);
        }
    };
    let started = with(|process| process.start_agreement(scope, Ok(handle), Creation::Duplicate))?;
    request.set(MPI_Request(started));
    newcomm.set(handle.map_or(MPI_Comm::NULL, MPI_Comm));
    Ok(())
}

/// MPI_Comm_idup (MPI-5.0 §7.4.2): the new communicator may be used once the request is complete.
pub(crate) fn comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) -> Result<()> {
    let info = with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.info.clone()))?;
    start_duplicate(comm, Ok(info), newcomm, request)
}

/// MPI_Comm_idup_with_info (MPI-5.0 §7.4.2).
pub(crate) fn comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: Out<MPI_Comm>,
    request: Out<MPI_Request>,
) -> Result<()> {
    let info = with(|process| info_of(process, info));
    start_duplicate(comm, info, newcomm, request)
}

/// MPI_Comm_create (MPI-5.0 §7.4.2).
pub(crate) fn comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) -> Result<()> {
    compared(comm)?;
    let (scope, is_inter, group) = with(|process| {
        let parent = process.objects.communicator(comm.0)?;
        let (is_inter, parent) = (parent.inter.is_some(), parent.group.clone());
        let group = process.objects.group(group.0);
        let group = group.and_then(|group| ranks_in_parent(&group, &parent).map(|_| group));
        Ok::<_, Error>((process.agreement_scope(comm.0)?, is_inter, group))
    })?;
    if is_inter {
        return create_part_between(comm, scope, group, newcomm);
    }
    let group = needed(&scope, Creation::Create, group)?;
    create(Creation::Create, scope, group, newcomm, |_| ())
}

/// The rank in `parent` of each member of `group`, which must be a subset of it.
fn ranks_in_parent(group: &Group, parent: &Group) -> Result<Vec<u32>> {
    parent.ranks_of(&group.members).map_err(|stranger| {
        let message = format!("the group is no subset of the communicator's: its rank {stranger} is not in it");
        Error::new(MPI_ERR_GROUP, message)
    })
}

/// MPI_Comm_create_group (MPI-5.0 §7.4.2): only the members of the group take part.
pub(crate) fn comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>) -> Result<()> {
    if tag < 0 {
        return Err(Error::new(MPI_ERR_TAG, format!("tag is {tag}, but tags are 0 to {}", c_int::MAX)));
    }
    let (context, group, sources) = with(|process| {
        let parent = process.objects.communicator(comm.0)?.intra()?;
        let group = process.objects.group(group.0)?;
        let sources = ranks_in_parent(&group, &parent.group)?;
        Ok::<_, Error>((parent.group_context(), group, sources))
    })?;
    let Some(rank) = group.rank else {
        newcomm.set(MPI_Comm::NULL);
        return Ok(());
    };
    // Overlapping groups agree in this one context. Only the ranks in the parent identify all their members.
    let sources = Some(sources.into());
    let scope = CollectiveScope { communicator: comm.0, context, tag, group: group.clone(), rank, sources, turn: None };
    create(Creation::CreateGroup, scope, group, newcomm, |_| ())
}

/// MPI_Comm_split (MPI-5.0 §7.4.2).
pub(crate) fn comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) -> Result<()> {
    let color = match color {
        MPI_UNDEFINED | 0.. => Ok(i64::from(color)),
        _ => {
            let message = format!("color is {color}; it must not be negative, unless it is MPI_UNDEFINED");
            Err(Error::new(MPI_ERR_ARG, message))
        }
    };
    split(Creation::Split, comm, color, key, newcomm)
}

fn split(creation: Creation, comm: MPI_Comm, color: Result<i64>, key: c_int, newcomm: Out<MPI_Comm>) -> Result<()> {
    compared(comm)?;
    let color = open_creation(with(|process| process.agreement_scope(comm.0))?, creation, color)?;
    let (scope, parent) = with(|process| {
        let scope = process.agreement_scope(comm.0)?;
        let object = process.objects.communicator(comm.0)?;
        // The places where this process's group and the remote one begin among all processes.
        let begins = object.inter.as_ref().map(|inter| match inter.is_first {
            true => (0, object.group.members.len()),
            false => (object.partners().members.len(), 0),
        });
        Ok::<_, Error>((scope, (object.group.clone(), object.partners().clone(), begins)))
    })?;
    let (group, remote, begins) = parent;
    let own = group.members[group.rank.unwrap_or(0) as usize];
    let all = gather_all(scope, &[color, i64::from(key)])?;
    let chosen = |group: &Group, begin: usize| {
        let mut chosen: Vec<(i64, usize)> = all[2 * begin..]
            .chunks_exact(2)
            .take(group.members.len())
            .enumerate()
            .filter(|(_, pair)| pair[0] == color && color != i64::from(MPI_UNDEFINED))
            .map(|(rank, pair)| (pair[1], rank))
            .collect();
        // The rank in the old communicator breaks ties: the pairs are sorted by it, too.
        weft_ordered::sort(&mut chosen);
        group.derive(chosen.iter().map(|(_, rank)| group.members[*rank]).collect(), own)
    };
    let scope = with(|process| process.agreement_scope(comm.0))?;
    let Some((own_begin, remote_begin)) = begins else {
        return create(creation, scope, chosen(&group, 0), newcomm, |_| ());
    };
    let (local, remote) = (chosen(&group, own_begin), chosen(&remote, remote_begin));
    create_between(creation, scope, local, remote, own_begin == 0, newcomm)
}

/// MPI_Comm_split_type (MPI-5.0 §7.4.2). `MPI_COMM_TYPE_SHARED` gives the processes of a node. The other
/// types give parts of a node as well, for processes that are bound to some (`weft_mpi::hardware`). An
/// unguided split reports in `info` the type by which it has divided.
pub(crate) fn comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let own_node = node_of(comm)?;
    let hints = with(|process| info_of(process, info));
    let hint = |key: &str| {
        let hints = hints.as_ref().ok()?;
        hints.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    };
    let bindings = hardware::bindings(own_node);
    let resource = || hint(hardware::RESOURCE_KEY).and_then(|name| hardware::guided(&bindings, name));
    let mut divided_by = None;
    let part = match split_type {
        MPI_COMM_TYPE_SHARED => Ok(Some(bindings[0])),
        MPI_UNDEFINED => Ok(None),
        MPI_COMM_TYPE_HW_GUIDED => Ok(resource()),
        MPI_COMM_TYPE_RESOURCE_GUIDED => match hint(hardware::SET_KEY) {
            Some(name) if hint(hardware::RESOURCE_KEY).is_none() => part_of_set(comm, name),
            _ => Ok(resource()),
        },
        MPI_COMM_TYPE_HW_UNGUIDED => {
            compared(comm)?;
            let needed = hints.as_ref().map(|_| ()).map_err(Error::clone);
            open_creation(with(|process| process.agreement_scope(comm.0))?, Creation::SplitType, needed)?;
            let all = gather_all(with(|process| process.agreement_scope(comm.0))?, &bindings)?;
            let all: Vec<hardware::Bindings> = all.as_chunks().0.to_vec();
            let level = hardware::next_level(&all);
            divided_by = level.map(|(_, name)| name);
            Ok(level.and_then(|(level, _)| hardware::part(&bindings, level)))
        }
        other => {
            let message = format!("split_type is {other}, which is no MPI_COMM_TYPE constant");
            Err(Error::new(MPI_ERR_ARG, message))
        }
    };
    let part = part.and_then(|part| hints.as_ref().map(|_| part).map_err(Error::clone));
    let color = part.clone().map(|part| part.unwrap_or(MPI_UNDEFINED.into()));
    split(Creation::SplitType, comm, color, key, newcomm)?;
    let part = part?;
    if let (Some(name), Some(_), true) = (divided_by, part, info != MPI_Info::NULL) {
        with(|process| {
            put(process.objects.info_mut(info.0)?, hardware::RESOURCE_KEY, name);
            Ok(())
        })?;
    }
    Ok(())
}

/// The number of this process's node: the first rank on it, which all its processes find alike.
fn node_of(comm: MPI_Comm) -> Result<i64> {
    with(|process| {
        let group = process.objects.communicator(comm.0)?.everybody().0.clone();
        let job = process.job.as_ref().ok_or_else(|| Error::new(MPI_ERR_OTHER, "MPI is not initialised"))?;
        let own = process.own();
        let is_near = |member: &PeerId| job.share_node(*member, own);
        Ok(group.members.iter().position(is_near).unwrap_or(0) as i64)
    })
}

/// The part of the processes in the process set `name`: its first rank. `None` for other processes, and if
/// there is no such set.
fn part_of_set(comm: MPI_Comm, name: &str) -> Result<Option<i64>> {
    with(|process| {
        let group = process.objects.communicator(comm.0)?.everybody().0.clone();
        let own = process.own();
        let members = process.job.as_ref().and_then(|job| job.members_of_set(name).ok());
        let members = members.filter(|members| members.contains(&own)).unwrap_or_default();
        Ok(group.members.iter().position(|member| members.contains(member)).map(|rank| rank as i64))
    })
}

/// MPI_Comm_free (MPI-5.0 §7.4.3).
pub(crate) fn comm_free(comm: InOut<MPI_Comm>) -> Result<()> {
    let handle = comm.get();
    if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
        return Err(Error::new(MPI_ERR_COMM, "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed"));
    }
    with(|process| process.objects.communicator(handle.0).map(drop))?;
    delete_attributes(handle.0, Class::Communicator)?;
    weft_mpi::communicator::part_from_multicast(handle.0);
    with(|process| process.remove_communicator(handle.0));
    comm.set(MPI_Comm::NULL);
    Ok(())
}

/// MPI_Comm_disconnect (MPI-5.0 §11.10.4): waits for operations under way on the communicator, also where the
/// program has freed their requests.
pub(crate) fn comm_disconnect(comm: InOut<MPI_Comm>) -> Result<()> {
    let handle = comm.get();
    compared(handle)?;
    let scope = with(|process| process.agreement_scope(handle.0))?;
    block_until(|process| process.messages().map_or(Some(()), |messages| (!messages.is_used(handle.0)).then_some(())));
    weft_mpi::communicator::highest(scope, &mut [0])?;
    comm_free(comm)
}

/// MPI_Comm_set_name (MPI-5.0 §7.8).
pub(crate) fn comm_set_name(comm: MPI_Comm, comm_name: InString) -> Result<()> {
    let name = text::object_name(comm_name);
    with(|process| {
        process.objects.communicator_mut(comm.0)?.name = name;
        Ok(())
    })
}

/// MPI_Comm_get_name (MPI-5.0 §7.8): the null handle has a name as well.
pub(crate) fn comm_get_name(comm: MPI_Comm, comm_name: OutString, resultlen: Out<c_int>) -> Result<()> {
    let name = match comm {
        MPI_Comm::NULL => "MPI_COMM_NULL".to_owned(),
        _ => with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.name.clone()))?,
    };
    resultlen.set(comm_name.set(&name));
    Ok(())
}

/// MPI_Comm_set_info (MPI-5.0 §7.4.4).
pub(crate) fn comm_set_info(comm: MPI_Comm, info: MPI_Info) -> Result<()> {
    with(|process| {
        let info = info_of(process, info)?;
        hints::update(&mut process.objects.communicator_mut(comm.0)?.info, &info);
        process.planner.forget_calls();
        Ok(())
    })
}

/// MPI_Comm_get_info (MPI-5.0 §7.4.4).
pub(crate) fn comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) -> Result<()> {
    info::give(with(|process| Ok::<_, Error>(hints::told(&process.objects.communicator(comm.0)?.info)))?, info_used)
}
