//! Intercommunicators (MPI-5.0 §7.6).

use crate::arguments::*;
use crate::calls::creation::{compared, create, create_between};
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::communicator::{Creation, gather_all, open_creation};
use weft_mpi::error::{Error, Result};
use weft_mpi::intercommunicator::{self, Bridge, Meeting};
use weft_mpi::process::with;

/// MPI_Comm_test_inter (MPI-5.0 §7.6.1).
pub(crate) fn comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) -> Result<()> {
    let is_inter = with(|process| Ok(process.objects.communicator(comm.0)?.inter.is_some()))?;
    flag.set(c_int::from(is_inter));
    Ok(())
}

/// MPI_Comm_remote_size (MPI-5.0 §7.6.1).
pub(crate) fn comm_remote_size(comm: MPI_Comm, size: Out<c_int>) -> Result<()> {
    let members = with(|process| Ok(process.objects.communicator(comm.0)?.remote()?.0.size()))?;
    size.set(members as c_int);
    Ok(())
}

/// MPI_Comm_remote_group (MPI-5.0 §7.6.1).
pub(crate) fn comm_remote_group(comm: MPI_Comm, group: Out<MPI_Group>) -> Result<()> {
    let handle = with(|process| {
        let remote = Arc::clone(process.objects.communicator(comm.0)?.remote()?.0);
        process.objects.add_group(remote)
    })?;
    group.set(MPI_Group(handle));
    Ok(())
}

/// MPI_Intercomm_create (MPI-5.0 §7.6.2).
pub(crate) fn intercomm_create(
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: Out<MPI_Comm>,
) -> Result<()> {
    compared(local_comm)?;
    let bridge = Bridge { communicator: peer_comm.0, remote_leader, tag };
    let Meeting { scope, remote, is_first } = intercommunicator::meet(local_comm.0, local_leader, bridge)?;
    let local = with(|process| Ok::<_, Error>(process.objects.communicator(local_comm.0)?.group.clone()))?;
    create_between(Creation::Intercommunicator, scope, local, remote, is_first, newintercomm)
}

/// MPI_Intercomm_merge (MPI-5.0 §7.6.2). Where both groups give the same value, the first of the two comes
/// first.
pub(crate) fn intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>) -> Result<()> {
    with(|process| process.objects.communicator(intercomm.0)?.remote().map(drop))?;
    compared(intercomm)?;
    let (scope, firsts) = with(|process| {
        let object = process.objects.communicator(intercomm.0)?;
        let (remote, inter) = object.remote()?;
        let firsts = if inter.is_first { object.group.size() } else { remote.size() };
        Ok::<_, Error>((process.agreement_scope(intercomm.0)?, firsts as usize))
    })?;
    open_creation(scope, Creation::Merge, Ok(()))?;
    let highs = gather_all(with(|process| process.agreement_scope(intercomm.0))?, &[i64::from(high != 0)])?;
    let (first, second) = highs.split_at(firsts);
    if let Some(group) = [first, second].iter().find(|group| group.iter().any(|high| *high != group[0])) {
        let message = format!("the {} processes of one group must all give the same value of high", group.len());
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    let scope = with(|process| process.agreement_scope(intercomm.0))?;
    let (first_members, second_members) = scope.group.members.split_at(firsts);
    let swapped = first[0] > second[0];
    let (low, high) = if swapped { (second_members, first_members) } else { (first_members, second_members) };
    let own = scope.group.members[scope.rank as usize];
    let members = low.iter().chain(high).copied().collect();
    let group = scope.group.derive(members, own);
    create(Creation::Merge, scope, group, newintracomm, |_| ())
}
