//! Processes of other jobs (MPI-5.0 §11.8 to §11.10): ports at which jobs meet, and jobs that this one
//! spawns. The boundary calls this module.
//!
//! However two groups come together, their leaders have one [`port::Contact`], and `meeting` does the rest.
//! A spawned job finds its parents at a port that they have opened for it.
//!
//! Two processes that have met know each other until one of them ends: it says so in `MPI_Finalize`
//! (`crate::farewell`). So the same jobs may connect and disconnect as often as they like.

mod meeting;
mod spawning;

use std::os::fd::RawFd;
use std::sync::Arc;

use weft_core::time::Duration;
use weft_launch::LaunchError;
pub use weft_launch::SpawnProgram;
pub use weft_net::port::Contact;
use weft_net::port::{self, Acceptance, Call, Port, Refused};
use weft_net::udp;
use weft_net::wait::Interest;

pub use meeting::{MakesContact, Newcomers, give_up_next, meet, reread_words, word_seeds};
pub use spawning::{Spawning, meet_parent, spawn};

use crate::constants::*;
use crate::error::{Error, ErrorClass, Result};
use crate::process::{Outside, Process, block_beside, block_outside, with};

/// The longest time for which two jobs wait for each other, where the program does not say: MPI_Comm_connect
/// and spawned processes until the other side accepts, and parents for their children where the launcher does
/// not tell that a job has ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest wait that the program says (info key `timeout`, in seconds), else [`PATIENCE`].
fn patience<'a>(info: impl IntoIterator<Item = &'a (String, String)>) -> Duration {
    let said = info.into_iter().find(|(key, _)| key == "timeout").and_then(|(_, seconds)| seconds.trim().parse().ok());
    said.map_or(PATIENCE, Duration::from_secs)
}

fn refused(refused: Refused) -> Error {
    match refused {
        Refused::NoPort(sentence) | Refused::NotAccepted(sentence) => Error::new(MPI_ERR_PORT, sentence),
    }
}

/// The addresses at which this process opens ports, and from which it connects to ports. The first call asks
/// the system for these addresses, and later calls return the same ones.
fn candidates() -> Result<Vec<udp::Candidate>> {
    let missing = || Error::new(MPI_ERR_OTHER, "MPI is not initialised");
    let known = with(|process| {
        let introduction = &process.job.as_ref().ok_or_else(missing)?.introduction;
        let link = introduction.link.as_ref().map(|link| &link.candidates);
        let interfaces = introduction.settings.interface.clone();
        Ok::<_, Error>(link.or(introduction.candidates.as_ref()).cloned().ok_or(interfaces))
    })?;
    let interfaces = match known {
        Ok(candidates) => return Ok(candidates),
        Err(interfaces) => interfaces,
    };
    let wanted = udp::Settings { interfaces, packet_size_max: None };
    let candidates = udp::candidates(&wanted).map_err(|error| Error::new(MPI_ERR_OTHER, error.to_string()))?;
    with(|process| {
        process.job.as_mut().ok_or_else(missing)?.introduction.candidates = Some(candidates.clone());
        Ok(candidates)
    })
}

/// Opens a port (MPI-5.0 §11.9.2) and returns its name.
///
/// # Errors
/// `MPI_ERR_OTHER`: the system has no socket, or this host has no address.
pub fn open_port() -> Result<String> {
    let port = Port::open(&candidates()?).map_err(|error| Error::new(MPI_ERR_OTHER, error.to_string()))?;
    let name = port.name().to_owned();
    with(|process| process.ports.add(port));
    Ok(name)
}

/// Closes a port (MPI-5.0 §11.9.2).
///
/// # Errors
/// `MPI_ERR_PORT`: this process has not opened it.
pub fn close_port(name: &str) -> Result<()> {
    if with(|process| process.ports.close(name)) { Ok(()) } else { Err(not_open()) }
}

fn not_open() -> Error {
    Error::new(MPI_ERR_PORT, "port_name is no port that this process has opened and not closed")
}

/// Waits for a process of another group at a port of this process (MPI-5.0 §11.9.2). Only the root of
/// `MPI_Comm_accept` calls it.
///
/// # Errors
/// `MPI_ERR_PORT`: this process has not opened the port, or another thread has closed it.
pub fn accept(name: &str) -> Result<Contact> {
    let port = with(|process| process.ports.find(name)).ok_or_else(not_open)?;
    accept_at(port, |_| Ok(()))
}

/// Waits for a process at `port`, as long as `ask` finds no reason why nobody can come any more. It is asked
/// now and then.
fn accept_at(port: Arc<Port>, ask: impl FnMut(&mut Process) -> Result<()>) -> Result<Contact> {
    block_outside(&mut Guest { acceptance: Acceptance::at(port), ask })
}

/// A process that comes to a port.
struct Guest<A> {
    acceptance: Acceptance,
    ask: A,
}

impl<A: FnMut(&mut Process) -> Result<()>> Outside for Guest<A> {
    type Found = Result<Contact>;

    fn look(&mut self) -> Option<Self::Found> {
        self.acceptance.look().map_err(|error| closed(&error)).transpose()
    }

    fn ask(&mut self, process: &mut Process) -> Option<Self::Found> {
        (self.ask)(process).err().map(Err)
    }

    fn sockets(&self) -> Vec<(RawFd, Interest)> {
        self.acceptance.sockets().collect()
    }
}

/// The answer to a call of this process at a port.
struct Answer(Call);

impl Outside for Answer {
    type Found = Result<Contact>;

    fn look(&mut self) -> Option<Self::Found> {
        self.0.look().map_err(refused).transpose()
    }

    fn ask(&mut self, _: &mut Process) -> Option<Self::Found> {
        None
    }

    fn sockets(&self) -> Vec<(RawFd, Interest)> {
        self.0.sockets().collect()
    }
}

fn closed(error: &std::io::Error) -> Error {
    let reason = match error.kind() {
        std::io::ErrorKind::Interrupted => "the port has been closed meanwhile".to_owned(),
        _ => weft_net::reason(error),
    };
    Error::new(MPI_ERR_PORT, format!("no process was accepted: {reason}"))
}

/// Goes to the port of this name and waits until its process accepts (MPI-5.0 §11.9.3). Only the root of
/// `MPI_Comm_connect` calls it. The key `timeout` of `info` is the longest wait in seconds.
///
/// # Errors
/// `MPI_ERR_PORT`: a sentence with the reason.
pub fn connect(name: &str, info: &[(String, String)]) -> Result<Contact> {
    connect_within(name, patience(info))
}

fn connect_within(name: &str, patience: Duration) -> Result<Contact> {
    let call = match port::call_near(name, patience).map_err(refused)? {
        Some(call) => call,
        None => {
            let (name, candidates) = (name.to_owned(), candidates()?);
            block_beside("weft-connect", move || port::call(&name, &candidates, patience))?.map_err(refused)?
        }
    };
    block_outside(&mut Answer(call))
}

/// An error of the launcher with a service of names, as `class`.
fn of_names(class: ErrorClass, error: &LaunchError) -> Error {
    match error {
        LaunchError::Gone | LaunchError::Connection(_) => Error::new(MPI_ERR_OTHER, error.to_string()),
        _ => Error::new(class, error.to_string()),
    }
}

/// Uses the service of names of the launcher.
fn with_names<T>(
    class: ErrorClass,
    ask: impl FnOnce(&mut dyn weft_launch::Names) -> std::result::Result<T, LaunchError>,
) -> Result<T> {
    with(|process| {
        let manager = process.job.as_mut().map(|job| &mut job.manager);
        let names = manager.and_then(|manager| manager.names());
        let names = names.ok_or_else(|| {
            Error::new(class, "the launcher of this job has no service of names: start the job with Weft's mpiexec")
        })?;
        ask(names).map_err(|error| of_names(class, &error))
    })
}

/// Makes a port known by the name of a service (MPI-5.0 §11.9.4).
///
/// # Errors
/// `MPI_ERR_SERVICE`: the name is taken, or the launcher has no service of names.
pub fn publish(service: &str, port: &str) -> Result<()> {
    with_names(MPI_ERR_SERVICE, |names| names.publish(service, port))
}

/// Withdraws the name of a service (MPI-5.0 §11.9.4).
///
/// # Errors
/// `MPI_ERR_SERVICE`: the name is not published, or with another port.
pub fn unpublish(service: &str, port: &str) -> Result<()> {
    let published = with_names(MPI_ERR_SERVICE, |names| names.look_up(service))?;
    if published.as_deref() != Some(port) {
        let sentence = format!("no service is published as \"{service}\" with this port");
        return Err(Error::new(MPI_ERR_SERVICE, sentence));
    }
    with_names(MPI_ERR_SERVICE, |names| names.unpublish(service))
}

/// The port that is known by the name of a service (MPI-5.0 §11.9.4).
///
/// # Errors
/// `MPI_ERR_NAME`: there is none.
pub fn look_up(service: &str) -> Result<String> {
    let found = with_names(MPI_ERR_NAME, |names| names.look_up(service))?;
    found.ok_or_else(|| Error::new(MPI_ERR_NAME, format!("no service is published as \"{service}\"")))
}

/// Lets the owners of two ends of a connected socket meet (MPI-5.0 §11.10.5, `MPI_Comm_join`): over the
/// socket, each tells the other a port. The socket can be used again afterwards.
///
/// # Errors
/// `MPI_ERR_OTHER`: the socket is broken, or the other side does not call `MPI_Comm_join`.
pub fn join(socket: impl std::io::Read + std::io::Write) -> Result<Contact> {
    let name = open_port()?;
    let contact = swap_names(socket, &name).and_then(|theirs| match name < theirs {
        true => accept(&name),
        false => connect_within(&theirs, PATIENCE),
    });
    close_port(&name)?;
    contact
}

/// The bytes of a port's name as it is exchanged over a socket, filled up with zeros.
const NAME_BYTES: usize = 1024;

fn swap_names(mut socket: impl std::io::Read + std::io::Write, own: &str) -> Result<String> {
    let broken = |error: std::io::Error| {
        Error::new(MPI_ERR_OTHER, format!("the socket of MPI_Comm_join is broken: {}", weft_net::reason(&error)))
    };
    let mut bytes = [0; NAME_BYTES];
    let Some(place) = bytes.get_mut(..own.len()) else {
        return Err(Error::new(MPI_ERR_OTHER, "this process has too many addresses for the name of a port"));
    };
    place.copy_from_slice(own.as_bytes());
    socket.write_all(&bytes).map_err(broken)?;
    socket.read_exact(&mut bytes).map_err(broken)?;
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    String::from_utf8(bytes[..length].to_vec()).map_err(|_| {
        Error::new(MPI_ERR_OTHER, "the other end of the socket has not called MPI_Comm_join of this library")
    })
}
