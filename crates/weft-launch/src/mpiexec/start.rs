//! The starts of `mpiexec` that no user types: for a spawned job, and for a process without a launcher that
//! spawns.

use super::family::{Start, ToSpawned};
use super::job::{self, Parent, Singleton};
use super::options::{self, Request};
use super::plan::{self, Job};
use super::settings::Settings;
use super::spawned::{self, Refusal};
use super::verdict::STATUS_LAUNCHER;
use crate::control::{Channel, State};
use crate::sys::{self, Fork, Poll};
use std::io;

/// Runs the spawned job that comes over the connection with this number, and returns the exit status of this
/// process.
pub(super) fn spawned(descriptor: i32) -> i32 {
    match receive(descriptor) {
        Ok(Some((channel, start))) => run(channel, start),
        // The family has ended meanwhile.
        Ok(None) => STATUS_LAUNCHER,
        Err(error) => complain(&error),
    }
}

/// The first message of the connection; `None` when it ends before.
fn receive(descriptor: i32) -> io::Result<Option<(Channel, Start)>> {
    let file = sys::adopt(descriptor)?;
    let mut channel = Channel::new(file.try_clone()?, file)?;
    loop {
        let state = channel.state();
        match channel.next_frame().map(|frame| frame.map(ToSpawned::decode)) {
            Ok(Some(Some(ToSpawned::Start(start)))) => return Ok(Some((channel, *start))),
            Ok(Some(Some(ToSpawned::End { .. }))) => return Ok(None),
            Ok(None) if state == State::Closed => return Ok(None),
            Ok(None) => {
                let mut poll = Poll::default();
                let entries = channel.wait_in(&mut poll);
                let ready = poll.wait(None)?;
                channel.handle(&ready, entries);
            }
            Ok(Some(_)) | Err(()) => return Err(io::Error::other("the first message is not to start a job")),
        }
    }
}

fn run(channel: Channel, Start { number, settings, spawn }: Start) -> i32 {
    let mut parent = Parent::new(channel, number, spawn.clone());
    let read = |file: &str| std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"));
    let job = spawned::settings(number, settings, &spawn, &read)
        .and_then(|settings| plan::make(settings).map_err(|reason| Refusal { program: None, reason }));
    let job = match job {
        Ok(job) => job,
        Err(refusal) => {
            parent.refuse(&refusal);
            parent.part(0);
            return 0;
        }
    };
    job::run_spawned(job, parent).unwrap_or_else(|text| {
        crate::say(&format!("mpiexec: {text}"));
        STATUS_LAUNCHER
    })
}

/// Serves the process `pid`, which no launcher has started and which spawns, over the connection with this
/// number.
pub(super) fn for_singleton(descriptor: i32, pid: i32) -> i32 {
    // Nothing else that the process has open is for the jobs that it spawns.
    sys::close_all_but(descriptor);
    match sys::fork() {
        // The process waits for this one only, and never has another child than its own.
        Ok(Fork::Parent(_)) => return 0,
        Ok(Fork::Child) => sys::new_group(),
        Err(error) => return complain(&error),
    }
    let settings = match options::parse(vec!["singleton".into()], &|name| std::env::var_os(name)) {
        Ok(Request::Run(settings)) => *settings,
        Ok(_) => Settings::new(),
        Err(text) => {
            crate::say(&format!("mpiexec: {text}"));
            return STATUS_LAUNCHER;
        }
    };
    let settings = Settings { time_limit: None, ..settings };
    let singleton = match Singleton::adopt(descriptor, pid) {
        Ok(singleton) => singleton,
        Err(error) => return complain(&error),
    };
    job::run_for_singleton(Job::without_ranks(settings), singleton).unwrap_or_else(|text| {
        crate::say(&format!("mpiexec: {text}"));
        STATUS_LAUNCHER
    })
}

fn complain(error: &io::Error) -> i32 {
    crate::say(&format!("mpiexec: no process can be spawned: {}", sys::reason(error)));
    STATUS_LAUNCHER
}
