//! Memory of this process that peers may write to.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use weft_engine::memory::UserData;

use super::wire::Write;
use crate::carrier::{Registration, RemoteMemory, Written};

/// Most pieces of memory that are registered at a time.
const REGISTERED_MAX: usize = 1 << 16;

/// Memory that peers may write to: one run.
struct Exposed {
    data: UserData,
    length: u64,
    key: u64,
}

/// Memory that a peer is likely to write to next: one run, of which nothing has been written.
pub(super) struct Expected {
    pub(super) data: UserData,
    /// The bytes that are registered.
    pub(super) length: u64,
    pub(super) key: u64,
}

/// The registered memory. Keys cannot be guessed: only a process that was told a key can write.
#[derive(Default)]
pub(super) struct Memory {
    /// The secret of this process, of which keys are made.
    secret: RandomState,
    /// The number of keys that were made.
    made: u64,
    /// By the numbers of registrations.
    exposed: Vec<Option<Exposed>>,
    free: Vec<u32>,
    by_key: HashMap<u64, u32>,
    /// Data of writes that has arrived, and of which nobody has been told.
    written: VecDeque<Written>,
}

impl Memory {
    /// Lets peers write to the first `length` bytes of `data`; `None` where that is no run of memory, or
    /// cannot be done at present.
    pub(super) fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        data.program_run(&(0..length))?;
        if self.by_key.len() >= REGISTERED_MAX {
            return None;
        }
        self.made += 1;
        let key = self.secret.hash_one(self.made);
        if self.by_key.contains_key(&key) {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.exposed.push(None);
            self.exposed.len() as u32 - 1
        });
        self.exposed[number as usize] = Some(Exposed { data: data.clone(), length, key });
        self.by_key.insert(key, number);
        Some((Registration(number), RemoteMemory { key, address: 0 }))
    }

    /// Ends the registration: nothing is written there any more.
    pub(super) fn deregister(&mut self, Registration(number): Registration) {
        if let Some(exposed) = self.exposed.get_mut(number as usize).and_then(Option::take) {
            self.by_key.remove(&exposed.key);
            // Other memory may get the number.
            self.written.retain(|written| written.registration.0 != number);
            self.free.push(number);
        }
    }

    /// Notes that the data of `write` is in its place.
    pub(super) fn note_written(&mut self, write: &Write) {
        let Some(&number) = self.by_key.get(&write.key) else { return };
        let written = Written { registration: Registration(number), offset: write.address, length: write.bytes };
        match self.written.back_mut() {
            Some(last) if last.registration == written.registration && last.offset + last.length == written.offset => {
                last.length += written.length;
            }
            _ => self.written.push_back(written),
        }
    }

    /// Takes a part of a write that has arrived.
    pub(super) fn take_written(&mut self) -> Option<Written> {
        self.written.pop_front()
    }

    /// Returns whether there is such a part.
    pub(super) fn has_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// The first of these registrations that has not ended; those before it are taken out.
    pub(super) fn expected_from(&self, expected: &mut VecDeque<Registration>) -> Option<Expected> {
        while let Some(Registration(first)) = expected.front() {
            if let Some(Some(Exposed { data, length, key })) = self.exposed.get(*first as usize) {
                return Some(Expected { data: data.clone(), length: *length, key: *key });
            }
            expected.pop_front();
        }
        None
    }

    /// The memory that `write` is for, if all of it is registered.
    pub(super) fn target(&self, write: &Write) -> Option<&UserData> {
        let exposed = self.exposed.get(*self.by_key.get(&write.key)? as usize)?.as_ref()?;
        let end = write.address.checked_add(write.bytes)?;
        (end <= exposed.length).then_some(&exposed.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of writes arrive, and memory is given back.   Expect: parts that follow each other are told as
    /// one, and none of memory that is registered no more.
    #[test]
    fn what_has_arrived_is_told_as_long_as_its_memory_is_registered() {
        let (mut memory, data) = (Memory::default(), UserData::leaked(100));
        let [one, other] = [(); 2].map(|()| memory.register(&data, 100).expect("there is room"));
        for (there, address, bytes) in [(&one, 0, 10), (&one, 10, 5), (&other, 15, 1), (&one, 50, 2), (&one, 52, 3)] {
            memory.note_written(&Write { key: there.1.key, address, bytes });
        }
        memory.note_written(&Write { key: !one.1.key, address: 0, bytes: 1 });
        let told = |registration, offset, length| Some(Written { registration, offset, length });
        assert_eq!(memory.take_written(), told(one.0, 0, 15));
        memory.deregister(other.0);
        assert!(memory.has_written());
        assert_eq!(memory.take_written(), told(one.0, 50, 5));
        assert_eq!((memory.take_written(), memory.has_written()), (None, false));
    }

    #[test]
    fn only_what_is_registered_is_a_target() {
        let (mut memory, data) = (Memory::default(), UserData::leaked(100));
        let (first, there) = memory.register(&data, 60).expect("there is room");
        let write = |key, address, bytes| Write { key, address, bytes };
        assert!(memory.target(&write(there.key, 0, 60)).is_some());
        assert!(memory.target(&write(there.key, 59, 1)).is_some());
        for (key, address, bytes) in [(there.key, 1, 60), (there.key, u64::MAX, 2), (!there.key, 0, 1)] {
            assert!(memory.target(&write(key, address, bytes)).is_none());
        }
        memory.deregister(first);
        assert!(memory.target(&write(there.key, 0, 1)).is_none());
        let (second, again) = memory.register(&data, 100).expect("there is room");
        assert_eq!(first, second, "numbers are used again");
        assert_ne!(there.key, again.key, "and keys are not");
    }
}
