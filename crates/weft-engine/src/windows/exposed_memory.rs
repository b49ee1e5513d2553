//! The memory that a process exposes in a window.

use crate::memory::Exposed;

/// The memory that a process exposes.
pub enum ExposedMemory {
    /// A single run of memory.
    Whole(Exposed),
    /// The memory that has been attached (MPI-5.0 §12.2.4): offsets are addresses.
    Attached(Attached),
}

/// Memory that has been attached to a dynamic window.
#[derive(Default)]
pub struct Attached {
    /// The parts as the program has attached them, by address.
    parts: Vec<Exposed>,
    /// The parts with adjacent ones joined: an access may reach over several.
    runs: Vec<Exposed>,
}

impl Attached {
    /// Adds memory; returns false if some of it is attached already.
    pub fn attach(&mut self, part: Exposed) -> bool {
        let (begin, end) = (part.address(), part.address() + part.len());
        if self.parts.iter().any(|other| other.address() < end && begin < other.address() + other.len()) {
            return false;
        }
        let index = self.parts.partition_point(|other| other.address() < begin);
        self.parts.insert(index, part);
        self.join();
        true
    }

    /// Removes the memory that begins at this address; returns false if there is none.
    pub fn detach(&mut self, address: u64) -> bool {
        let Some(index) = self.parts.iter().position(|part| part.address() == address) else { return false };
        self.parts.remove(index);
        self.join();
        true
    }

    fn join(&mut self) {
        self.runs.clear();
        for part in &self.parts {
            match self.runs.last_mut().and_then(|last| last.joined(part)) {
                Some(joined) => _ = self.runs.last_mut().map(|last| *last = joined),
                None => self.runs.push(*part),
            }
        }
    }

    /// The attached memory as runs without gaps, by address.
    pub fn runs(&self) -> &[Exposed] {
        &self.runs
    }
}
