//! Tasks that Slurm's `srun` has started without a process manager (`--mpi=none`): they find each other by
//! themselves.
//!
//! The first task on the step's first node listens at a port that all tasks derive from the numbers of job
//! and step, and answers the requests of all. A credential of MUNGE, which only processes of the same user
//! can read, carries the secret that tasks need to take part. The conversation is that of Weft's `mpiexec`.

mod client;
mod greeting;
mod member;
mod sealed;
mod server;
mod step;

pub(super) use step::Step;
#[cfg(test)]
pub(super) use step::tests::RECORDED;

use super::link::Link;
use super::pmi1::Conversation;
use super::weft::Weft;
use super::{Names, Notices, Observer, ProcessManager, cannot_spawn, exit_aborted};
use crate::sys::munge::{Munge, MungeError};
use crate::{JobSecret, LaunchError, SpawnProgram, Spawned, sys};
use std::fs::File;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The command to type where tasks cannot find each other.
pub(super) const ADVICE: &str = "type `srun --mpi=pmi2 …` or start the program with Weft's mpiexec";
/// The longest time for all tasks to call `MPI_Init` after the first of them.
const JOIN_LIMIT: Duration = Duration::from_secs(300);
/// The longest time for an abort to be passed on.
const ABORT_LIMIT: Duration = Duration::from_secs(3);
/// The silence after which the system asks whether the other side of a connection lives, the pause between
/// questions, and their number.
const ALIVE_AFTER: Duration = Duration::from_secs(30);
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const ALIVE_QUESTIONS: u32 = 3;
/// The longest time for which data may stay without acknowledgement.
const ACKNOWLEDGED_WITHIN_MS: u32 = 60_000;

/// The configuration of Slurm where no variable names it: the usual place, and that of sites where nodes
/// fetch it.
const CONFIGURATIONS: [&str; 2] = ["/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"];
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// The reason why the conversation has ended, once it has.
type Ending = Arc<OnceLock<String>>;

/// A task of a step without a process manager.
#[derive(Debug)]
pub(super) struct Slurm {
    weft: Weft,
    /// The ranks on this node, as Slurm says.
    neighbours: Option<Vec<u32>>,
    /// This process's end of the conversation, for its time limit.
    near: UnixStream,
    ending: Ending,
}

impl Slurm {
    /// Joins the step: the first task opens its service, the others connect to it.
    ///
    /// # Errors
    /// There is no MUNGE; the first task is not found; it has no free port.
    pub(super) fn join(step: &Step) -> Result<Self, LaunchError> {
        let munge = |error: MungeError| match error {
            MungeError::Absent(why) | MungeError::Refused(why) => no_munge(step, &why),
        };
        let system =
            |error: io::Error| LaunchError::Connection(format!("no thread or descriptor: {}", sys::reason(&error)));
        let ending = Ending::default();
        let near = if step.is_first() {
            // The port comes first: the others may connect while the credential is made.
            let listener = server::listen(step)?;
            let credentials = Munge::open(sys::user(), munge_socket().as_deref()).map_err(munge)?;
            let no_random = |error: io::Error| LaunchError::Environment(format!("no random numbers: {error}"));
            let secret = JobSecret::filled(sys::random).map_err(no_random)?;
            let credential = credentials.encode(&greeting::content(&step.name, &secret)).map_err(munge)?;
            server::start(step, listener, (secret, credential), JOIN_LIMIT, ending.clone()).map_err(system)?
        } else {
            let credentials = Munge::open(sys::user(), munge_socket().as_deref()).map_err(munge)?;
            // Where MUNGE's daemon is missing, this task need not wait for the first one to learn that.
            credentials.encode(&step.name).map_err(munge)?;
            client::connect(step, &|credential| credentials.decode(credential), JOIN_LIMIT, ending.clone())?
        };
        Self::meet(near, step, ending)
    }

    /// Begins the conversation over `near`.
    fn meet(near: UnixStream, step: &Step, ending: Ending) -> Result<Self, LaunchError> {
        let system = |error: io::Error| LaunchError::Connection(format!("no descriptor: {}", sys::reason(&error)));
        let link = Link::over(File::from(OwnedFd::from(near.try_clone().map_err(system)?)));
        let (talk, _) = Conversation::begin(link)?;
        let weft = Weft::meet(talk, step.rank, step.size)?;
        Ok(Self { weft, neighbours: step.neighbours.clone(), near, ending })
    }

    /// Makes a request, unless the conversation has ended. Where it ends now, the error says why.
    fn ask<T>(&mut self, request: impl FnOnce(&mut Weft) -> Result<T, LaunchError>) -> Result<T, LaunchError> {
        let over = |why: &String| LaunchError::Connection(why.clone());
        if let Some(why) = self.ending.get() {
            return Err(over(why));
        }
        request(&mut self.weft).map_err(|error| match self.ending.get() {
            Some(why) if error == LaunchError::Gone => over(why),
            _ => error,
        })
    }
}

/// The error of a task that has no MUNGE.
fn no_munge(step: &Step, why: &str) -> LaunchError {
    LaunchError::Environment(format!(
        "Slurm's srun started {} tasks without a process manager, and MUNGE, by which they would know each other, does \
         not work on this node ({why}); {ADVICE}",
        step.size
    ))
}

/// Sets what every connection between tasks needs: short requests leave at once, and a host that is gone is
/// noticed. Where an option cannot be set, that costs time only.
fn prepare(stream: &TcpStream) {
    use rustix::net::sockopt;
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, ALIVE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(stream, ALIVE_EVERY);
    let _ = sockopt::set_tcp_keepcnt(stream, ALIVE_QUESTIONS);
    let _ = sockopt::set_tcp_user_timeout(stream, ACKNOWLEDGED_WITHIN_MS);
}

/// Ends a conversation with this process. The descriptor stays: a request that is being written gets no
/// SIGPIPE, which would end the program.
fn end_near(near: File) {
    let _ = rustix::net::shutdown(&near, rustix::net::Shutdown::Write);
    std::mem::forget(near);
}

/// The socket of MUNGE's daemon that Slurm's configuration names.
fn munge_socket() -> Option<String> {
    let named = std::env::var("SLURM_CONF").ok().filter(|path| !path.is_empty());
    let files = named.iter().map(String::as_str).chain(CONFIGURATIONS);
    let mut text = String::new();
    for file in files {
        let Ok(file) = File::open(file) else { continue };
        return match file.take(CONFIGURATION_BYTES_MAX).read_to_string(&mut text) {
            Ok(_) => socket_in(&text),
            Err(_) => None,
        };
    }
    None
}

/// The socket in a line such as `AuthInfo=socket=/run/munge/other,ttl=300`.
fn socket_in(configuration: &str) -> Option<String> {
    let mut lines = configuration.lines().filter_map(|line| line.split('#').next()?.trim().split_once('='));
    let (_, options) = lines.rfind(|(name, _)| name.trim().eq_ignore_ascii_case("AuthInfo"))?;
    let options = options.trim().trim_matches('"').split(',');
    options.filter_map(|option| option.trim().strip_prefix("socket=")).map(str::to_owned).next_back()
}

/// Takes apart what strangers may send to a task, for `weft-fuzz`: first lines of both sides, contents of
/// credentials, frames. The first byte says which.
pub(crate) fn take_foreign_apart(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    let secret = JobSecret::new([7; JobSecret::LENGTH]);
    let text = String::from_utf8_lossy(rest);
    match which % 4 {
        0 => drop(greeting::read_hello(rest, "12.0", 4)),
        1 => drop(greeting::read_offer(rest)),
        2 => drop((greeting::read_content(&text, "12.0"), socket_in(&text))),
        _ => {
            let mut sealed = sealed::Sealed::new(&secret, sealed::Side::Server, &[1; 16], &[2; 16]);
            let mut inbox = rest.to_vec();
            while let Ok(Some(_)) = sealed.open(&mut inbox) {}
        }
    }
}

/// Valid inputs of [`take_foreign_apart`].
pub(crate) fn foreign_seeds() -> Vec<Vec<u8>> {
    let secret = JobSecret::new([7; JobSecret::LENGTH]);
    let mut frames = Vec::new();
    let mut sealed = sealed::Sealed::new(&secret, sealed::Side::Task, &[1; 16], &[2; 16]);
    sealed.seal(sealed::Kind::Proof, b"", &mut frames);
    sealed.seal(sealed::Kind::Talk, b"cmd=init", &mut frames);
    let seeds = [
        greeting::hello("12.0", 3, &[1; 16]).into_bytes(),
        greeting::offer(&[2; 16], "MUNGE:AwQDAAB=:").into_bytes(),
        greeting::content("12.0", &secret).into_bytes(),
        frames,
    ];
    (0u8..).zip(seeds).map(|(which, seed)| [&[which][..], &seed].concat()).collect()
}

impl ProcessManager for Slurm {
    fn rank(&self) -> u32 {
        self.weft.rank()
    }

    fn size(&self) -> u32 {
        self.weft.size()
    }

    fn appnum(&self) -> Option<i32> {
        self.weft.appnum()
    }

    fn universe_size(&self) -> Option<i32> {
        self.weft.universe_size()
    }

    fn job_name(&self) -> &str {
        self.weft.job_name()
    }

    fn secret(&self) -> Option<JobSecret> {
        self.weft.secret()
    }

    fn local_ranks(&mut self) -> Option<Vec<u32>> {
        self.neighbours.clone()
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.ask(|weft| weft.put(key, value))
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        self.ask(|weft| weft.get(key))
    }

    fn fence(&mut self) -> Result<(), LaunchError> {
        self.ask(Weft::fence)
    }

    fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError> {
        self.ask(|weft| weft.exchange(card))
    }

    fn abort(&mut self, code: i32, message: &str) -> ! {
        crate::say(&format!("rank {} of {} ends the job with code {code}: {message}", self.rank(), self.size()));
        if self.ending.get().is_none() {
            let _ = self.near.set_read_timeout(Some(ABORT_LIMIT));
            self.weft.pass_abort_on(code, message);
        }
        exit_aborted(code)
    }

    /// Says goodbye. Where the first task has left and ended, nobody needs the goodbye.
    fn finalize(&mut self) -> Result<(), LaunchError> {
        match self.ask(Weft::finalize) {
            Err(_) if self.ending.get().is_some() => Ok(()),
            Err(LaunchError::Gone) => Ok(()),
            result => result,
        }
    }

    fn can_come_back(&self) -> bool {
        self.ending.get().is_none()
    }

    fn come_back(&mut self) -> Result<(), LaunchError> {
        self.ask(Weft::come_back)
    }

    fn spawn(&mut self, _programs: &[SpawnProgram], _port: &str) -> Result<Spawned, LaunchError> {
        cannot_spawn("srun without a process manager")
    }

    fn spawned_end(&mut self, _number: u32) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    fn parent_port(&mut self) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    fn names(&mut self) -> Option<&mut dyn Names> {
        self.weft.names()
    }

    fn notices(&mut self) -> Option<Notices> {
        None
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        None
    }
}

#[cfg(test)]
#[path = "slurm_tests.rs"]
mod tests;
