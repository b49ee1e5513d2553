//! Processes of other jobs: ports, names of services, spawned jobs (MPI-5.0 §11.8 to §11.10).

use crate::arguments::*;
use crate::calls::communicators::info_of;
use crate::calls::creation::{compared, create_between};
use crate::constants::*;
use crate::error_codes;
use crate::types::*;
use std::ffi::c_int;
use std::os::unix::net::UnixStream;
use weft_mpi::communicator::{Creation, broadcast};
use weft_mpi::error::{Error, ErrorClass, Result};
use weft_mpi::intercommunicator::Meeting;
use weft_mpi::process::with;
use weft_mpi::processes::{self, MakesContact, SpawnProgram, Spawning};

/// MPI_Open_port (MPI-5.0 §11.9.2).
pub(crate) fn open_port(_info: MPI_Info, port_name: OutString) -> Result<()> {
    port_name.set(&processes::open_port()?);
    Ok(())
}

/// MPI_Close_port (MPI-5.0 §11.9.2).
pub(crate) fn close_port(port_name: InString) -> Result<()> {
    processes::close_port(&port_name.to_string())
}

/// MPI_Publish_name (MPI-5.0 §11.9.4).
pub(crate) fn publish_name(service_name: InString, _info: MPI_Info, port_name: InString) -> Result<()> {
    processes::publish(&service_name.to_string(), &port_name.to_string())
}

/// MPI_Unpublish_name (MPI-5.0 §11.9.4).
pub(crate) fn unpublish_name(service_name: InString, _info: MPI_Info, port_name: InString) -> Result<()> {
    processes::unpublish(&service_name.to_string(), &port_name.to_string())
}

/// MPI_Lookup_name (MPI-5.0 §11.9.4).
pub(crate) fn lookup_name(service_name: InString, _info: MPI_Info, port_name: OutString) -> Result<()> {
    port_name.set(&processes::look_up(&service_name.to_string())?);
    Ok(())
}

/// The name of a port, which only the root gives.
fn port_of(port_name: Option<InString>) -> Result<String> {
    let missing = || Error::new(MPI_ERR_ARG, "port_name is null");
    port_name.map(|name| name.to_string()).ok_or_else(missing)
}

/// MPI_Comm_accept (MPI-5.0 §11.9.2).
pub(crate) fn comm_accept(
    port_name: Option<InString>,
    _info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let root = root_of(comm, root)?;
    let contact = || -> MakesContact<'_> { Box::new(|| processes::accept(&port_of(port_name)?)) };
    meet(comm, root.rank, newcomm, root.is_own.then(contact))
}

/// MPI_Comm_connect (MPI-5.0 §11.9.3). The info key `timeout` is the longest wait in seconds.
pub(crate) fn comm_connect(
    port_name: Option<InString>,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let root = root_of(comm, root)?;
    let contact = || -> MakesContact<'_> {
        Box::new(|| {
            let info = with(|process| info_of(process, info))?;
            processes::connect(&port_of(port_name)?, &info)
        })
    };
    meet(comm, root.rank, newcomm, root.is_own.then(contact))
}

/// MPI_Comm_join (MPI-5.0 §11.10.5). It is an intercommunicator of these two processes.
pub(crate) fn comm_join(fd: InDescriptor, intercomm: Out<MPI_Comm>) -> Result<()> {
    let root = root_of(MPI_COMM_SELF, 0)?;
    let contact = || -> MakesContact<'_> {
        Box::new(|| {
            let wrong = |error| Error::new(MPI_ERR_ARG, format!("fd is no socket that can be used: {error}"));
            processes::join(UnixStream::from(fd.duplicate().map_err(wrong)?))
        })
    };
    meet(MPI_COMM_SELF, root.rank, intercomm, root.is_own.then(contact))
}

/// The root of a call, and the place of this process.
struct Root {
    rank: u32,
    is_own: bool,
}

fn root_of(comm: MPI_Comm, root: c_int) -> Result<Root> {
    compared(comm)?;
    with(|process| {
        let scope = process.collective_scope(comm.0)?;
        let size = scope.group.size();
        let rank = u32::try_from(root).ok().filter(|rank| *rank < size).ok_or_else(|| {
            Error::new(MPI_ERR_ROOT, format!("root is {root}, but the ranks of comm are 0 to {}", size - 1))
        })?;
        Ok(Root { rank, is_own: rank == scope.rank })
    })
}

/// Lets the group of `comm` meet another one. Only the root makes a contact.
fn meet(comm: MPI_Comm, root: u32, newcomm: Out<MPI_Comm>, contact: Option<MakesContact<'_>>) -> Result<()> {
    newcomm.set(MPI_Comm::NULL);
    let (Meeting { scope, remote, is_first }, newcomers) = processes::meet(comm.0, root, contact)?;
    let local = with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.group.clone()))?;
    let created = create_between(Creation::Meeting, scope, local, remote, is_first, newcomm);
    if created.is_err() {
        newcomers.forget();
    }
    created
}

/// Meets the job that has spawned this one, if one has (MPI-5.0 §11.8.2). All processes of the job call it in
/// MPI_Init.
pub(crate) fn meet_parent() -> Result<()> {
    let Some(contact) = processes::meet_parent()? else { return Ok(()) };
    let mut parent = MPI_Comm::NULL;
    meet(
        MPI_COMM_WORLD,
        0,
        Out::from(&mut parent),
        contact.map(|contact| -> MakesContact<'_> { Box::new(|| contact) }),
    )?;
    with(|process| {
        process.objects.communicator_mut(parent.0)?.name = "MPI_COMM_PARENT".to_owned();
        if let Some(job) = &mut process.job {
            job.parent = Some(parent.0);
        }
        Ok(())
    })
}

/// MPI_Comm_get_parent (MPI-5.0 §11.8.2).
pub(crate) fn comm_get_parent(parent: Out<MPI_Comm>) -> Result<()> {
    let handle = with(|process| {
        let parent = process.job.as_ref().and_then(|job| job.parent);
        parent.filter(|handle| process.objects.find_communicator(*handle).is_some())
    });
    parent.set(handle.map_or(MPI_Comm::NULL, MPI_Comm));
    Ok(())
}

/// A program of a spawn.
fn program(command: String, arguments: Vec<String>, maxprocs: c_int, info: MPI_Info) -> Result<SpawnProgram> {
    let processes = u32::try_from(maxprocs).ok().filter(|processes| *processes > 0).ok_or_else(|| {
        Error::new(MPI_ERR_ARG, format!("maxprocs is {maxprocs}, but a program has at least one process"))
    })?;
    if command.is_empty() {
        return Err(Error::new(MPI_ERR_ARG, "command is empty"));
    }
    Ok(SpawnProgram { command, arguments, processes, info: with(|process| info_of(process, info))? })
}

/// MPI_Comm_spawn (MPI-5.0 §11.8.2).
pub(crate) fn comm_spawn(
    command: Option<InString>,
    argv: InStrings,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: Out<MPI_Comm>,
    array_of_errcodes: OutCodes,
) -> Result<()> {
    spawn(comm, root, intercomm, array_of_errcodes, &mut || {
        let command = command.ok_or_else(|| Error::new(MPI_ERR_ARG, "command is null"))?;
        Ok(vec![program(command.to_string(), argv.up_to_null(), maxprocs, info)?])
    })
}

/// MPI_Comm_spawn_multiple (MPI-5.0 §11.8.3).
pub(crate) fn comm_spawn_multiple(
    count: c_int,
    array_of_commands: InStrings,
    array_of_argv: InCommandLines,
    array_of_maxprocs: InArray<c_int>,
    array_of_info: InArray<MPI_Info>,
    root: c_int,
    comm: MPI_Comm,
    intercomm: Out<MPI_Comm>,
    array_of_errcodes: OutCodes,
) -> Result<()> {
    spawn(comm, root, intercomm, array_of_errcodes, &mut || {
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| Error::new(MPI_ERR_ARG, format!("count is {count}, but there is at least one program")))?;
        if array_of_maxprocs.is_missing() || array_of_info.is_missing() {
            return Err(Error::new(MPI_ERR_ARG, "array_of_maxprocs or array_of_info is null"));
        }
        (0..count)
            .map(|index| {
                let missing = || Error::new(MPI_ERR_ARG, format!("array_of_commands[{index}] is null"));
                let command = array_of_commands.at(index).ok_or_else(missing)?;
                program(command, array_of_argv.at(index), array_of_maxprocs.get(index), array_of_info.get(index))
            })
            .collect()
    })
}

/// Spawns the programs that the root gives, and meets their processes.
fn spawn(
    comm: MPI_Comm,
    root: c_int,
    intercomm: Out<MPI_Comm>,
    errcodes: OutCodes,
    programs: &mut dyn FnMut() -> Result<Vec<SpawnProgram>>,
) -> Result<()> {
    let root = root_of(comm, root)?;
    let spawning = root.is_own.then(|| match programs() {
        Ok(programs) => processes::spawn(&programs),
        Err(error) => Spawning { outcomes: Vec::new(), contact: Err(error) },
    });
    let outcomes = spawning.as_ref().map_or(&[][..], |spawning| &spawning.outcomes);
    let mut count = [outcomes.len() as i64];
    let scope = || with(|process| process.collective_scope(comm.0));
    // Others may have come further, and wait for this process in what follows.
    let left = |error: &Error| processes::give_up_next(comm.0, 2, error);
    scope().and_then(|scope| broadcast(scope, root.rank, &mut count)).inspect_err(left)?;
    let mut classes: Vec<i64> = outcomes.iter().map(|class| i64::from(ErrorClass::to_wire(*class))).collect();
    classes.resize(count[0] as usize, 0);
    if !classes.is_empty() {
        scope().and_then(|scope| broadcast(scope, root.rank, &mut classes)).inspect_err(left)?;
    }
    let code = |class: &i64| ErrorClass::from_wire(*class as u32).map_or(MPI_SUCCESS, error_codes::number);
    errcodes.fill(classes.iter().map(code));
    let contact = |spawning: Spawning| -> MakesContact<'_> { Box::new(|| spawning.contact) };
    meet(comm, root.rank, intercomm, spawning.map(contact))
}
