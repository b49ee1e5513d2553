//! A process that was not started as a part of a job: it is a job of its own (MPI-5.0 §11.10.5, singleton
//! init). When it spawns for the first time, it starts an `mpiexec` of its own, which serves it from then on.

mod helper;

use super::pmi1::Conversation;
use super::{Names, Notices, Observer, ProcessManager, exit_aborted};
use crate::{JobSecret, LaunchError, SpawnProgram, Spawned, sys, wire};
use weft_ordered::Map;

/// The job of one process.
#[derive(Debug)]
pub(super) struct Singleton {
    job: String,
    secret: JobSecret,
    values: Map<String, String>,
    /// The connection to the `mpiexec` that starts processes for this one, once it does.
    helper: Option<Conversation>,
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
            values: Map::new(),
            helper: None,
        })
    }
}

impl Singleton {
    /// Tells the helper something, if there is one. A helper that is gone has left nothing that could matter.
    fn tell_helper(
        &mut self,
        tell: impl FnOnce(&mut Conversation) -> Result<(), LaunchError>,
    ) -> Result<(), LaunchError> {
        match self.helper.as_mut().map(tell) {
            Some(Err(error)) if error != LaunchError::Gone => Err(error),
            _ => Ok(()),
        }
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
        if let Some(helper) = &mut self.helper {
            helper.abort(&format!("cmd=abort exitcode={code} escaped={}", wire::escape(message)));
        }
        exit_aborted(code)
    }

    fn finalize(&mut self) -> Result<(), LaunchError> {
        self.tell_helper(Conversation::finalize)
    }

    fn can_come_back(&self) -> bool {
        true
    }

    fn come_back(&mut self) -> Result<(), LaunchError> {
        self.tell_helper(|helper| helper.init().map(drop))
    }

    fn spawn(&mut self, programs: &[SpawnProgram], port: &str) -> Result<Spawned, LaunchError> {
        let helper = match self.helper.take() {
            Some(helper) => helper,
            None => helper::start()?,
        };
        let helper = self.helper.insert(helper);
        let spawned = helper.spawn(programs, port, true);
        if spawned == Err(LaunchError::Gone) {
            // The next spawn starts another one.
            self.helper = None;
        }
        spawned
    }

    fn spawned_end(&mut self, number: u32) -> Result<Option<String>, LaunchError> {
        self.helper.as_mut().map_or(Ok(None), |helper| helper.spawned_end(number))
    }

    fn parent_port(&mut self) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    /// Names are known to the family of jobs that this process has spawned, once there is one.
    fn names(&mut self) -> Option<&mut dyn Names> {
        self.helper.as_mut().map(|helper| helper as &mut dyn Names)
    }

    fn notices(&mut self) -> Option<Notices> {
        None
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        None
    }
}
