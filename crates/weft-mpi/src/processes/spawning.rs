//! Jobs that this one spawns (MPI-5.0 §11.8), and the job that has spawned this one.

use std::sync::Arc;

use weft_core::time::Duration;
use weft_launch::{LaunchError, SpawnProgram};
use weft_net::clock;
use weft_net::port::{Contact, Port};

use super::{PATIENCE, accept_at, candidates, connect_within, patience};
use crate::constants::*;
use crate::error::{Error, ErrorClass, Result};
use crate::process::{Process, with};

/// What has become of a spawn at its root.
pub struct Spawning {
    /// The error class of each process that was wanted, in order of the programs; `None`: it runs.
    pub outcomes: Vec<Option<ErrorClass>>,
    /// The contact with the leader of the spawned job, or the reason why there is no such job.
    pub contact: Result<Contact>,
}

/// Spawns a job of these programs (MPI-5.0 §11.8.2, §11.8.3), and waits for its leader. Only the root calls
/// it.
pub fn spawn(programs: &[SpawnProgram]) -> Spawning {
    let wanted: usize = programs.iter().map(|program| program.processes as usize).sum();
    let none = |error: Error| Spawning { outcomes: vec![Some(error.class); wanted], contact: Err(error) };
    let port = match candidates().and_then(|all| Port::open(&all).map_err(|error| failed(&error.to_string()))) {
        Ok(port) => Arc::new(port),
        Err(error) => return none(error),
    };
    let spawned = with(|process| {
        let job = process.job.as_mut().ok_or_else(|| failed("MPI is not initialised"))?;
        job.manager.spawn(programs, port.name()).map_err(|error| of_launcher(&error))
    });
    let spawned = match spawned {
        Ok(spawned) => spawned,
        Err(error) => return none(error),
    };
    let outcomes: Vec<Option<ErrorClass>> =
        spawned.outcomes.iter().map(|outcome| outcome.is_err().then_some(MPI_ERR_SPAWN)).collect();
    // With the key `soft` fewer processes may run. If none does, the first reason counts.
    let runs = spawned.outcomes.iter().any(|outcome| outcome.is_ok());
    if let Some(reason) = spawned.outcomes.iter().find_map(|outcome| outcome.as_ref().err()).filter(|_| !runs) {
        return Spawning { outcomes, contact: Err(failed(&format!("the new job cannot be started: {reason}"))) };
    }
    let number = spawned.number;
    let (began, patience) = (clock::now(), patience(programs.iter().flat_map(|program| &program.info)));
    let contact = accept_at(port, move |process| {
        look_at_child(process, number)?;
        let tells = process.job.as_ref().is_none_or(|job| job.manager.tells_ends());
        if tells || clock::now().since(began) < patience { Ok(()) } else { Err(not_come(patience)) }
    });
    Spawning { outcomes, contact }
}

fn not_come(patience: Duration) -> Error {
    let seconds = patience.as_nanos() / 1_000_000_000;
    failed(&format!(
        "the new job has not called MPI_Init within {seconds} seconds: the launcher has started it, and does not say whether it runs; \
         is the program there on its hosts, and is it a program of MPI? (The info key timeout says how long to wait, in seconds.)"
    ))
}

fn failed(sentence: &str) -> Error {
    Error::new(MPI_ERR_SPAWN, sentence.to_owned())
}

fn of_launcher(error: &LaunchError) -> Error {
    failed(&error.to_string())
}

/// Fails if the spawned job with this number is over.
fn look_at_child(process: &mut Process, number: u32) -> Result<()> {
    let Some(job) = &mut process.job else { return Ok(()) };
    match job.manager.spawned_end(number).map_err(|error| of_launcher(&error))? {
        None => Ok(()),
        Some(end) => {
            Err(failed(&format!("the new job has ended before it has called MPI_Init: {end}; is it a program of MPI?")))
        }
    }
}

/// The contact with the job that has spawned this one; `None`: no job has. All processes of the job call it
/// in `MPI_Init`. Rank 0 makes the contact, and the others get `Some(None)`.
///
/// # Errors
/// The launcher is gone.
pub fn meet_parent() -> Result<Option<Option<Result<Contact>>>> {
    let (rank, port) = with(|process| {
        let Some(job) = &mut process.job else { return Ok((0, None)) };
        let port = job.manager.parent_port().map_err(|error| Error::new(MPI_ERR_OTHER, error.to_string()))?;
        Ok::<_, Error>((job.rank, port))
    })?;
    let Some(port) = port else { return Ok(None) };
    Ok(Some((rank == 0).then(|| connect_within(&port, PATIENCE))))
}
