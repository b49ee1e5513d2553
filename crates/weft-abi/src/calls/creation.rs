//! The common part of the constructors of communicators (MPI-5.0 §7.4): all processes agree on a context, and
//! a process whose part has failed tells the others.

use crate::arguments::*;
use crate::types::*;
use std::sync::Arc;
use weft_mpi::check::{Call, check_now};
use weft_mpi::collective::CollectiveScope;
use weft_mpi::communicator::{Creation, agree_on_context, gather_all, needed, open_creation};
use weft_mpi::error::{Error, Result};
use weft_mpi::object::{Communicator, Group, PeerId};
use weft_mpi::process::{lock, with};

/// Agrees with the processes of `scope` on the context of a new communicator of `group`, which `fill`
/// completes, and stores its handle; MPI_COMM_NULL when this process is not in `group`.
pub(super) fn create(
    creation: Creation,
    scope: CollectiveScope,
    group: Arc<Group>,
    newcomm: Out<MPI_Comm>,
    fill: impl FnOnce(&mut Communicator),
) -> Result<()> {
    let handle = add(&scope, group, fill);
    agree_on_context(scope, handle.clone(), creation)?;
    newcomm.set(handle?.map_or(MPI_Comm::NULL, MPI_Comm));
    Ok(())
}

/// Adds a new communicator without a context; `None` when this process is not in `group`.
pub(super) fn add(
    scope: &CollectiveScope,
    group: Arc<Group>,
    fill: impl FnOnce(&mut Communicator),
) -> Result<Option<usize>> {
    if group.rank.is_none() {
        return Ok(None);
    }
    with(|process| {
        let handle = process.add_communicator(group, scope.communicator)?;
        fill(process.objects.communicator_mut(handle)?);
        Ok(Some(handle))
    })
}

/// Agrees with the processes of `scope` on the context of a new intercommunicator between `local` and
/// `remote`, and stores its handle; MPI_COMM_NULL when this process is not in `local`, or one of the groups
/// is empty (MPI-5.0 §7.4.2).
pub(super) fn create_between(
    creation: Creation,
    scope: CollectiveScope,
    local: Arc<Group>,
    remote: Arc<Group>,
    is_first: bool,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let nobody = || Arc::new(Group { members: Vec::new(), rank: None, session: None });
    let local = if remote.members.is_empty() { nobody() } else { local };
    let context = scope.context;
    let created = create(creation, scope, local, newcomm, |object| object.connect(remote, is_first));
    with(|process| process.end_context(context));
    created
}

/// Carries out MPI_Comm_create for an intercommunicator. `group` is the part of the local group that is in
/// the new one; `scope` is that of an agreement of all its processes.
pub(super) fn create_part_between(
    comm: MPI_Comm,
    scope: CollectiveScope,
    group: Result<Arc<Group>>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    // Each process of the other group has to know the members of the new group, and their ranks.
    const OUTSIDE: i64 = -1;
    let group = open_creation(scope, Creation::Create, group)?;
    let scope = with(|process| process.agreement_scope(comm.0))?;
    let ranks = gather_all(scope, &[group.rank.map_or(OUTSIDE, i64::from)])?;
    let (scope, (remote, remote_begin, is_first, own)) = with(|process| {
        let scope = process.agreement_scope(comm.0)?;
        let object = process.objects.communicator(comm.0)?;
        let (remote, inter) = object.remote()?;
        let begin = if inter.is_first { object.group.members.len() } else { 0 };
        Ok::<_, Error>((scope, (remote.clone(), begin, inter.is_first, process.own())))
    })?;
    let mut chosen: Vec<(i64, PeerId)> =
        ranks[remote_begin..].iter().copied().zip(remote.members.iter().copied()).collect();
    chosen.retain(|(rank, _)| *rank != OUTSIDE);
    weft_ordered::sort(&mut chosen);
    let remote = remote.derive(chosen.into_iter().map(|(_, member)| member).collect(), own);
    create_between(Creation::Create, scope, group, remote, is_first, newcomm)
}

/// Compares the calls of all processes of the communicator, with `WEFT_CHECK`. Nonblocking calls are not
/// compared: they would wait.
pub(super) fn compared(comm: MPI_Comm) -> Result<()> {
    let mut process = lock();
    if !process.checks_calls {
        return Ok(());
    }
    let scope = process.agreement_scope(comm.0)?;
    check_now(process, scope, Call::default()).map(drop)
}

/// Checks the arguments of a constructor before anything is done. If they are wrong, the other processes of
/// `comm` are told: they come to the same call and would wait for this process there
/// (docs/design/boundary.md).
pub(crate) fn told(comm: MPI_Comm, creation: Creation, checks: impl FnOnce() -> Result<()>) -> Result<()> {
    checks().inspect_err(|error| refuse(comm, creation, error))
}

#[cold]
fn refuse(comm: MPI_Comm, creation: Creation, error: &Error) {
    let has_compared = || if creation == Creation::Window { Ok(()) } else { compared(comm) };
    // A process that is in no such communicator has no others to tell.
    let scope = has_compared().and_then(|()| with(|process| process.agreement_scope(comm.0)));
    scope.and_then(|scope| needed::<()>(&scope, creation, Err(error.clone()))).ok();
}

/// Checks the arguments of a constructor that waits for no process, as [`told`] does.
pub(crate) fn told_at_once(comm: MPI_Comm, creation: Creation, checks: impl FnOnce() -> Result<()>) -> Result<()> {
    checks().inspect_err(|error| {
        with(|process| {
            let scope = process.agreement_scope(comm.0)?;
            process.start_refusal(scope, creation, error)
        })
        .ok();
    })
}
