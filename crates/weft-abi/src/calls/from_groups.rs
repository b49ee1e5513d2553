//! Communicators made from groups alone, without a communicator to begin with (MPI-5.0 §7.4.2, §7.6.2).

use crate::arguments::*;
use crate::calls::communicators::info_of;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::communicator::{Creation, agree_on_context};
use weft_mpi::error::{Error, Result};
use weft_mpi::intercommunicator::{Meeting, meet_by_name};
use weft_mpi::object::Group;
use weft_mpi::process::with;

/// The name that tells this call from others (MPI-5.0 §7.4.2).
fn name(stringtag: InString) -> Result<Vec<u8>> {
    let name = stringtag.as_c_str().to_bytes().to_vec();
    if name.len() >= MPI_MAX_STRINGTAG_LEN as usize {
        let message =
            format!("stringtag has {} characters, at most {} are allowed", name.len(), MPI_MAX_STRINGTAG_LEN - 1);
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    Ok(name)
}

/// Adds a communicator of `group`, which this process must be in, with neither context nor remote group yet.
fn add(group: &Arc<Group>, info: MPI_Info, errhandler: MPI_Errhandler) -> Result<usize> {
    with(|process| {
        if group.rank.is_none() {
            return Err(Error::new(MPI_ERR_GROUP, "this process is not in the group"));
        }
        let info = info_of(process, info)?;
        let handle = process.add_communicator_with(group.clone(), errhandler.0)?;
        process.objects.communicator_mut(handle)?.info = weft_mpi::hints::of(&info);
        Ok(handle)
    })
}

/// MPI_Comm_create_from_group (MPI-5.0 §7.4.2).
pub(crate) fn comm_create_from_group(
    group: MPI_Group,
    stringtag: InString,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let name = name(stringtag)?;
    let group = with(|process| process.objects.group(group.0))?;
    let handle = if group.members.is_empty() {
        MPI_Comm::NULL.0
    } else {
        let handle = add(&group, info, errhandler);
        let known = *handle.as_ref().unwrap_or(&MPI_Comm::NULL.0);
        let scope = with(|process| process.named_scope(&[b"group ", name.as_slice()].concat(), &group, known))?;
        agree_on_context(scope, handle.clone().map(Some), Creation::FromGroup).map_err(Error::of_the_call)?;
        handle?
    };
    newcomm.set(MPI_Comm(handle));
    Ok(())
}

/// MPI_Intercomm_create_from_groups (MPI-5.0 §7.6.2). Only the leader of `local_group` looks at the remote
/// group.
pub(crate) fn intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: InString,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: Out<MPI_Comm>,
) -> Result<()> {
    let name = name(stringtag)?;
    let local = with(|process| process.objects.group(local_group.0))?;
    if local.members.is_empty() {
        newintercomm.set(MPI_Comm::NULL);
        return Ok(());
    }
    let leader = check_leader("local_leader", local_leader, &local)?;
    let remote = || {
        let remote = with(|process| process.objects.group(remote_group.0))?;
        check_leader("remote_leader", remote_leader, &remote)?;
        Ok(remote)
    };
    let handle = add(&local, info, errhandler);
    let known = *handle.as_ref().unwrap_or(&MPI_Comm::NULL.0);
    let met = meet_by_name(&name, &local, leader, remote(), known).and_then(|Meeting { scope, remote, is_first }| {
        if let Ok(handle) = handle {
            with(|process| process.objects.communicator_mut(handle).map(|object| object.connect(remote, is_first)))?;
        }
        Ok(scope)
    });
    let connected = match met {
        Ok(scope) => agree_on_context(scope, handle.clone().map(Some), Creation::FromGroups),
        Err(error) => {
            handle.iter().for_each(|handle| with(|process| process.remove_communicator(*handle)));
            Err(handle.clone().err().unwrap_or(error))
        }
    };
    connected.map_err(Error::of_the_call)?;
    newintercomm.set(MPI_Comm(handle?));
    Ok(())
}

/// Checks that a leader is a rank of its group.
fn check_leader(name: &str, leader: c_int, group: &Group) -> Result<u32> {
    match u32::try_from(leader) {
        Ok(rank) if rank < group.size() => Ok(rank),
        _ => {
            let message = format!("{name} is {leader}, but its group has {} members", group.size());
            Err(Error::new(MPI_ERR_RANK, message))
        }
    }
}
