//! Sessions and process sets (MPI-5.0 §11.3).

use crate::arguments::*;
use crate::caller;
use crate::calls::communicators::info_of;
use crate::calls::info::give;
use crate::constants::*;
use crate::types::*;
use std::ffi::{c_char, c_int};
use weft_mpi::error::{Error, Result};
use weft_mpi::job::Job;
use weft_mpi::object::Group;
use weft_mpi::process::{Process, with};
use weft_mpi::session::Session;
use weft_mpi::start;

/// MPI_Session_init (MPI-5.0 §11.3.1).
pub(crate) fn session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: Out<MPI_Session>) -> Result<()> {
    let wanted = with(|process| Session::new(&info_of(process, info)?, errhandler.0))?;
    let handle = start::open_session(wanted, caller::names())?;
    session.set(MPI_Session(handle));
    Ok(())
}

/// MPI_Session_finalize (MPI-5.0 §11.3.1).
pub(crate) fn session_finalize(session: InOut<MPI_Session>) -> Result<()> {
    start::close_session(session.get().0)?;
    session.set(MPI_Session::NULL);
    Ok(())
}

/// The job, for a session that must exist.
fn job(process: &Process, session: MPI_Session) -> Result<&Job> {
    process.objects.session(session.0)?;
    process.job.as_ref().ok_or_else(|| Error::new(MPI_ERR_OTHER, "this process is in no job"))
}

/// MPI_Session_get_info (MPI-5.0 §11.3.3).
pub(crate) fn session_get_info(session: MPI_Session, info_used: Out<MPI_Info>) -> Result<()> {
    let info = with(|process| Ok::<_, Error>(process.objects.session(session.0)?.info()))?;
    give(info, info_used)
}

/// MPI_Session_get_num_psets (MPI-5.0 §11.3.3).
pub(crate) fn session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: Out<c_int>) -> Result<()> {
    let count = with(|process| {
        info_of(process, info)?;
        Ok::<_, Error>(job(process, session)?.process_sets().len())
    })?;
    npset_names.set(count as c_int);
    Ok(())
}

/// MPI_Session_get_nth_pset (MPI-5.0 §11.3.3): `pset_len` bytes fit in `pset_name`, including the zero byte.
/// With 0 only the length is asked for.
pub(crate) unsafe fn session_get_nth_pset(
    session: MPI_Session,
    info: MPI_Info,
    n: c_int,
    pset_len: InOut<c_int>,
    pset_name: *mut c_char,
) -> Result<()> {
    let name = with(|process| {
        info_of(process, info)?;
        let mut names = job(process, session)?.process_sets();
        let count = names.len();
        match usize::try_from(n).ok().filter(|n| *n < count) {
            Some(n) => Ok(names.swap_remove(n)),
            None => Err(Error::new(MPI_ERR_ARG, format!("n is {n}, but there are {count} process sets"))),
        }
    })?;
    let room = pset_len.get();
    if room > 0 {
        // SAFETY: `pset_len` says how much room there is.
        let Some(pset_name) = (unsafe { OutString::if_wanted(pset_name, room as usize) }) else {
            return Err(Error::new(MPI_ERR_ARG, format!("pset_name is a null pointer, but pset_len is {room}")));
        };
        pset_name.set(&name);
    }
    pset_len.set(name.len() as c_int + 1);
    Ok(())
}

/// MPI_Session_get_pset_info (MPI-5.0 §11.3.3).
pub(crate) fn session_get_pset_info(session: MPI_Session, pset_name: InString, info: Out<MPI_Info>) -> Result<()> {
    let name = pset_name.to_string();
    let size = with(|process| Ok::<_, Error>(job(process, session)?.members_of_set(&name)?.len()))?;
    give(vec![("mpi_size".to_owned(), size.to_string())], info)
}

/// MPI_Group_from_session_pset (MPI-5.0 §7.3.2).
pub(crate) fn group_from_session_pset(
    session: MPI_Session,
    pset_name: InString,
    newgroup: Out<MPI_Group>,
) -> Result<()> {
    let name = pset_name.to_string();
    let handle = with(|process| {
        let members = job(process, session)?.members_of_set(&name)?;
        let group = Group::of_session(members, process.own(), Some(session.0));
        process.objects.add_group(group)
    })?;
    newgroup.set(MPI_Group(handle));
    Ok(())
}
