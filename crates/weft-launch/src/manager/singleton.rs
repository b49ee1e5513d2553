//! A process that was not started as a part of a job: it is a job of its own (MPI-5.0 §11.10.5, singleton
//! init).

use super::spawn::cannot_spawn;
use super::{Names, Notices, Observer, ProcessManager, SpawnProgram, Spawned, exit_aborted};
use crate::{JobSecret, LaunchError, sys, wire};
use std::collections::BTreeMap;

/// The job of one process.
#[derive(Debug)]
pub(super) struct Singleton {
    job: String,
    secret: JobSecret,
    values: BTreeMap<String, String>,
}

impl Singleton {
    /// A job with a name and a secret that nobody can guess.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new() -> Result<Self, LaunchError> {
        let no_random = |error: std::io::Error| LaunchError::Environment(format!("no random numbers: {error}"));
        let mut random = [0; 8];
        sys::random(&mut random).map_err(no_random)?;
        Ok(Self {
            job: format!("weft-{}-{}", std::process::id(), wire::to_hex(&random)),
            secret: JobSecret::filled(sys::random).map_err(no_random)?,
            values: BTreeMap::new(),
        })
    }
}

impl ProcessManager for Singleton {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn appnum(&self) -> Option<i32> {
        None
    }

    fn universe_size(&self) -> Option<i32> {
        None
    }

    fn job_name(&self) -> &str {
        &self.job
    }

    fn secret(&self) -> Option<JobSecret> {
        Some(self.secret)
    }

    fn local_ranks(&mut self) -> Option<Vec<u32>> {
        Some(vec![0])
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.values.insert(key.to_string(), value.to_string());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        Ok(self.values.get(key).cloned())
    }

    fn fence(&mut self) -> Result<(), LaunchError> {
        Ok(())
    }

    fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError> {
        Ok(vec![card.to_string()])
    }

    fn abort(&mut self, code: i32, message: &str) -> ! {
        crate::say(&format!("rank 0 of 1 ends the job with code {code}: {message}"));
        exit_aborted(code)
    }

    fn finalize(&mut self) -> Result<(), LaunchError> {
        Ok(())
    }

    fn can_come_back(&self) -> bool {
        true
    }

    fn come_back(&mut self) -> Result<(), LaunchError> {
        Ok(())
    }

    fn spawn(&mut self, _programs: &[SpawnProgram], _port: &str) -> Result<Spawned, LaunchError> {
        cannot_spawn("a process that runs alone")
    }

    fn spawned_end(&mut self, _number: u32) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    fn parent_port(&mut self) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    fn names(&mut self) -> Option<&mut dyn Names> {
        None
    }

    fn notices(&mut self) -> Option<Notices> {
        None
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        None
    }
}
