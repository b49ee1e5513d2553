//! Opening and closing sessions (MPI-5.0 §11.3.1).

use std::sync::atomic::Ordering;

use super::{leave, take_part};
use crate::engine::Engine;
use crate::error::Result;
use crate::object::full;
use crate::process::{self, Phase};
use crate::session::Session;

/// Opens `session`, and joins the job unless the process has done so. Returns the handle. `names` as for
/// [`super::initialize`].
///
/// # Errors
/// As for [`super::initialize`]; too many sessions; `MPI_ERR_ERRHANDLER` when its error handler is none for
/// sessions.
pub fn open_session(session: Session, names: &'static [&'static str]) -> Result<usize> {
    let mut process = process::lock();
    process.objects.retain_error_handler(session.error_handler, Some(crate::object::Class::Session))?;
    let handler = session.error_handler;
    let opened = take_part(&mut process, names)
        .and_then(|()| process.objects.sessions.insert(session).ok_or_else(|| full("sessions")));
    match opened {
        Ok(handle) => {
            process.had_sessions = true;
            process::ACTIVE.store(true, Ordering::Relaxed);
            Ok(handle)
        }
        Err(error) => {
            process.objects.release_error_handler(handler);
            Err(error)
        }
    }
}

/// Closes the session with this handle, when the messages in its buffer have left.
///
/// With the last session, outside of the World Model, everything that is on its way arrives first, and
/// operations that the program has left to MPI are complete (MPI-5.0 §3.7.3).
///
/// # Errors
/// `MPI_ERR_SESSION`; the launcher is gone.
pub fn close_session(handle: usize) -> Result<()> {
    process::with(|process| process.objects.session(handle).map(drop))?;
    process::block_until(|process| {
        process.reclaim_buffers();
        let waits = process.objects.session(handle).is_ok_and(|session| session.buffer.requests().next().is_some());
        (!waits).then_some(())
    });
    let is_last = process::with(|process| {
        if let Some(session) = process.objects.sessions.remove(handle) {
            process.objects.release_error_handler(session.error_handler);
        }
        process.objects.sessions.is_empty() && process.phase != Phase::Active
    });
    if !is_last {
        return Ok(());
    }
    process::block_until(|process| {
        let is_complete = process.unfinished().is_empty();
        let is_quiet = |engine: &mut Engine| engine.is_quiet() && !engine.keeps_messages();
        process.engine().map_or(Some(()), |engine| (is_complete && is_quiet(engine)).then_some(()))
    });
    let mut process = process::lock();
    if process.objects.sessions.is_empty() && process.phase != Phase::Active {
        process::ACTIVE.store(false, Ordering::Relaxed);
        return leave::say_goodbye(&mut process);
    }
    Ok(())
}
