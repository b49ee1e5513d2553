//! Names of processes, wherever they were started.

/// A job: processes that were started together. All processes that know the job know it by this number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u64);

impl JobId {
    /// A job that knows no other, and so needs no name.
    pub const ONLY: Self = Self(0);
}

/// The name of a process: its job, and its number in that job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessName {
    /// The job.
    pub job: JobId,
    /// The process's number in the job, from 0 on.
    pub number: u32,
}

impl ProcessName {
    /// The process with this number of a job that knows no other.
    pub const fn of_only_job(number: u32) -> Self {
        Self { job: JobId::ONLY, number }
    }

    /// The bytes from which keys are derived: no two processes give the same bytes.
    pub(crate) fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.job.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }
}

/// The two processes between which packets travel, as one of them sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parties {
    /// The name of this process.
    pub own: ProcessName,
    /// The name of the other process.
    pub peer: ProcessName,
    /// The index by which the other process knows this one, below 2²⁴. Packets to the other process carry it.
    /// Within a job it is the number; a process of another job gives an index that is free in its table.
    pub own_index: u32,
}

impl Parties {
    /// Two processes of a job that knows no other.
    pub const fn of_only_job(own: u32, peer: u32) -> Self {
        Self { own: ProcessName::of_only_job(own), peer: ProcessName::of_only_job(peer), own_index: own }
    }
}
