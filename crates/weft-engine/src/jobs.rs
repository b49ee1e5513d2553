//! The jobs whose processes this one knows: its own, and those that it has met (MPI-5.0 §11.6 to §11.10).
//!
//! A process knows each other process by an index, which that process's packets carry. Processes of its own
//! job have their number as index. For each job that it meets the process keeps a range of free indices, and
//! tells that job where the range begins. So an arriving packet needs one look at one table, however many
//! jobs there are.
//!
//! `engine/point_to_point.rs` adds and forgets jobs. `crate::carriers` asks for the secret with which it
//! makes a flow or connection.

use std::io;

use weft_core::process::{JobId, Parties, ProcessName};
use weft_core::wire::Secret;

/// The number of indices that packets can carry.
const INDICES: u32 = 1 << 24;

/// A known job, by its index in the table of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobKey(u16);

impl JobKey {
    /// The job of this process.
    pub(crate) const OWN: Self = Self(0);
}

/// A process of a known job.
#[derive(Clone, Copy, Default)]
pub(crate) struct Member {
    pub(crate) job: JobKey,
    /// The process's number in its job.
    pub(crate) number: u32,
    /// The index by which the process knows this one.
    pub(crate) own_index: u32,
}

/// A known job.
struct Known {
    id: JobId,
    /// The secret that tags packets between the two jobs, once it is agreed. No other process has it, not
    /// even of a third job that both know.
    secret: Option<Secret>,
    /// The index of the job's process number 0, and the number of its processes.
    first: u32,
    size: u32,
}

/// The table of jobs. It has one entry where no job was spawned, accepted or connected to.
pub(crate) struct Jobs {
    own: ProcessName,
    known: Vec<Option<Known>>,
}

impl Jobs {
    /// Makes a table with only the job of process `own`, whose secret this is.
    pub(crate) fn new(own: ProcessName, secret: Secret) -> Self {
        Self { own, known: vec![Some(Known { id: own.job, secret: Some(secret), first: 0, size: INDICES })] }
    }

    fn get(&self, key: JobKey) -> &Known {
        self.known[usize::from(key.0)].as_ref().expect("a job is known as long as one of its processes is")
    }

    /// The job with this name.
    pub(crate) fn find(&self, id: JobId) -> Option<JobKey> {
        let is_it = |known: &Option<Known>| known.as_ref().is_some_and(|known| known.id == id);
        self.known.iter().position(is_it).map(|index| JobKey(index as u16))
    }

    /// Adds a job of `size` processes, of which no process may be a peer before [`Self::agree`]. Returns the
    /// index of that job's process number 0. The first `used` indices are those of processes of this job.
    ///
    /// # Errors
    /// The job is known already, or has no process; there are too many jobs, or no range of indices is long
    /// enough.
    pub(crate) fn meet(&mut self, id: JobId, size: u32, used: u32) -> io::Result<u32> {
        if self.find(id).is_some() || size == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let first = self.free_range(size, used).ok_or(io::ErrorKind::OutOfMemory)?;
        let index = self.known.iter().position(Option::is_none).unwrap_or(self.known.len());
        if index > usize::from(u16::MAX) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let known = Some(Known { id, secret: None, first, size });
        match self.known.get_mut(index) {
            Some(free) => *free = known,
            None => self.known.push(known),
        }
        Ok(first)
    }

    /// Notes the secret that this process has in common with a job, unless there is one.
    pub(crate) fn agree(&mut self, key: JobKey, secret: Secret) {
        if let Some(known) = &mut self.known[usize::from(key.0)] {
            known.secret.get_or_insert(secret);
        }
    }

    /// Returns whether there is a secret in common with a job.
    pub(crate) fn has_agreed(&self, key: JobKey) -> bool {
        self.get(key).secret.is_some()
    }

    fn secret(&self, key: JobKey) -> &Secret {
        self.get(key).secret.as_ref().expect("a process is a peer only once its job has a secret")
    }

    /// The first of `size` indices that no job has, behind the `used` ones of this job.
    fn free_range(&self, size: u32, used: u32) -> Option<u32> {
        let mut taken: Vec<(u32, u32)> =
            self.known.iter().skip(1).flatten().map(|known| (known.first, known.first + known.size)).collect();
        weft_ordered::sort(&mut taken);
        let mut first = used;
        for (start, end) in taken {
            if first.checked_add(size)? <= start {
                break;
            }
            first = first.max(end);
        }
        (first.checked_add(size)? <= INDICES).then_some(first)
    }

    /// Forgets a job that was met, and of which no process is known any more; its indices are free.
    pub(crate) fn part(&mut self, key: JobKey) {
        assert!(key != JobKey::OWN, "a process leaves its own job only when it ends");
        self.known[usize::from(key.0)] = None;
        while matches!(self.known.last(), Some(None)) {
            self.known.pop();
        }
    }

    /// The jobs that were met.
    pub(crate) fn met(&self) -> impl Iterator<Item = JobId> + '_ {
        self.known.iter().skip(1).flatten().map(|known| known.id)
    }

    /// The index by which this process knows the process with this number of a job; `None`: the job has no
    /// such process.
    pub(crate) fn index(&self, key: JobKey, number: u32) -> Option<u32> {
        let known = self.get(key);
        (number < known.size).then(|| known.first + number)
    }

    /// The name of the process with this number of a job.
    pub(crate) fn name(&self, key: JobKey, number: u32) -> ProcessName {
        ProcessName { job: self.get(key).id, number }
    }

    /// The secret of this process's own job.
    pub(crate) fn own_secret(&self) -> &Secret {
        self.secret(JobKey::OWN)
    }

    /// The secret and the parties for a flow or a connection to a process.
    pub(crate) fn parties(&self, member: Member) -> (&Secret, Parties) {
        let Member { job, number, own_index } = member;
        (self.secret(job), Parties { own: self.own, peer: self.name(job, number), own_index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; 16])
    }

    fn jobs() -> Jobs {
        Jobs::new(ProcessName { job: JobId(7), number: 2 }, secret(7))
    }

    #[test]
    fn each_job_that_is_met_has_a_secret_and_indices_of_its_own() {
        let mut jobs = jobs();
        assert_eq!(jobs.meet(JobId(8), 3, 10).ok(), Some(10));
        assert_eq!(jobs.meet(JobId(9), 2, 10).ok(), Some(13));
        let [eight, nine] = [8, 9].map(|id| jobs.find(JobId(id)).expect("known"));
        assert_eq!(
            (jobs.index(JobKey::OWN, 4), jobs.index(eight, 2), jobs.index(nine, 0)),
            (Some(4), Some(12), Some(13))
        );
        assert_eq!((jobs.index(eight, 3), jobs.find(JobId(6))), (None, None));
        assert!(!jobs.has_agreed(nine));
        jobs.agree(nine, secret(9));
        // A secret stays as long as the job is known.
        jobs.agree(nine, secret(5));
        assert!(jobs.has_agreed(nine) && !jobs.has_agreed(eight));
        let (common, parties) = jobs.parties(Member { job: nine, number: 1, own_index: 55 });
        assert_eq!(common.bytes(), secret(9).bytes());
        let [own, peer] = [(7, 2), (9, 1)].map(|(id, number)| ProcessName { job: JobId(id), number });
        assert_eq!(parties, Parties { own, peer, own_index: 55 });
        assert_eq!((jobs.own_secret().bytes(), jobs.name(nine, 1)), (secret(7).bytes(), peer));
        // The same job is not met twice, nor its own.
        assert!([7, 8].iter().all(|id| jobs.meet(JobId(*id), 1, 10).is_err()));
    }

    #[test]
    fn a_thousand_jobs_one_after_the_other_leave_nothing() {
        let mut jobs = jobs();
        assert_eq!(jobs.meet(JobId(8), 3, 10).ok(), Some(10));
        for id in 100..1100 {
            assert_eq!(jobs.meet(JobId(id), 5, 10).ok(), Some(13));
            jobs.part(jobs.find(JobId(id)).expect("known"));
        }
        assert_eq!(jobs.known.len(), 2);
        // A free range in between is used again, where it is long enough.
        for (id, size, first) in [(20, 5, 13), (21, 5, 18)] {
            assert_eq!(jobs.meet(JobId(id), size, 10).ok(), Some(first));
        }
        jobs.part(jobs.find(JobId(20)).expect("known"));
        for (id, size, first) in [(22, 6, 23), (23, 4, 13), (24, 1, 17)] {
            assert_eq!(jobs.meet(JobId(id), size, 10).ok(), Some(first));
        }
    }

    #[test]
    fn what_packets_cannot_carry_is_refused() {
        let mut jobs = jobs();
        assert!(jobs.meet(JobId(8), INDICES - 9, 10).is_err());
        assert!(jobs.meet(JobId(8), u32::MAX, 10).is_err());
        assert!(jobs.meet(JobId(8), 0, 10).is_err());
        assert_eq!(jobs.meet(JobId(8), INDICES - 10, 10).ok(), Some(10));
        assert!(jobs.meet(JobId(9), 1, 10).is_err());
    }
}
