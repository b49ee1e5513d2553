//! Memory of this process that peers may write to.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use weft_core::long_path_choice::EAGER_WRITE_BYTES_MAX;
use weft_engine::memory::UserData;

use super::wire::Write;
use crate::carrier::{Registration, RemoteMemory, Written};

/// Most pieces of memory that are registered at a time.
const REGISTERED_MAX: usize = 1 << 16;

/// Most bytes of unasked writes of a peer that are kept while nobody has named their place: twice as many as
/// a peer sends that keeps to the limit.
const KEPT_BYTES_MAX: usize = 2 * EAGER_WRITE_BYTES_MAX as usize;

/// Memory that peers may write to: one run.
struct Exposed {
    data: UserData,
    length: u64,
    name: Name,
    /// Set once a write has begun here.
    is_begun: bool,
}

/// The name by which a peer writes to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// A key that this process has told.
    Key(u64),
    /// The name of an unasked write of the process with this token.
    Unasked { token: u64, name: u64 },
}

impl Name {
    /// The name of the memory of `write`, which the process with this token makes.
    pub(super) fn of(write: &Write, token: u64) -> Self {
        if write.is_unasked { Self::Unasked { token, name: write.key } } else { Self::Key(write.key) }
    }
}

/// Writes bytes to packed `data` from `address` on, as far as they have room.
pub(super) fn put(data: &UserData, address: u64, bytes: &[u8]) {
    let (begin, bytes) = data.fitting(address, bytes);
    data.write(begin, bytes);
}

/// Returns whether `length` bytes from `address` on can be received where they belong: `data` has them all,
/// in one run of memory.
pub(super) fn is_run(data: &UserData, address: u64, length: u64) -> bool {
    let range = address..address.saturating_add(length);
    range.end <= data.len() && data.program_run(&range).is_some()
}

/// Memory that a peer is likely to write to next: one run, of which nothing has been written.
pub(super) struct Expected {
    pub(super) data: UserData,
    /// The bytes that are registered.
    pub(super) length: u64,
    pub(super) name: Name,
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
    /// The registrations for unasked writes: few at a time.
    unasked: Vec<(Name, u32)>,
    /// What has arrived of unasked writes whose places nobody has named: of each peer one or two.
    kept: Vec<(Name, Vec<u8>)>,
    /// Data of writes that has arrived, and of which nobody has been told.
    written: VecDeque<Written>,
}

impl Memory {
    /// Lets peers write to the first `length` bytes of `data`; `None` where that is no run of memory, or
    /// cannot be done at present.
    pub(super) fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        data.program_run(&(0..length))?;
        self.made += 1;
        let key = self.secret.hash_one(self.made);
        let registration = self.insert(Name::Key(key), data, length)?;
        Some((registration, RemoteMemory { key, address: 0 }))
    }

    /// Puts an unasked write of `length` bytes under this name to `data`, also what has arrived of it; `None`
    /// where that cannot be done at present.
    pub(super) fn register_unasked(&mut self, name: Name, data: &UserData, length: u64) -> Option<Registration> {
        let registration = self.insert(name, data, length)?;
        if let Some(at) = self.kept.iter().position(|(of, _)| *of == name) {
            let (_, kept) = self.kept.swap_remove(at);
            let bytes = &kept[..kept.len().min(length as usize)];
            put(data, 0, bytes);
            self.written.push_back(Written { registration, offset: 0, length: bytes.len() as u64 });
            if let Some(Some(exposed)) = self.exposed.get_mut(registration.0 as usize) {
                exposed.is_begun = true;
            }
        }
        Some(registration)
    }

    /// Keeps data of an unasked write until somebody names its place. Returns `false` where that is more than
    /// a peer may make this process keep.
    pub(super) fn keep(&mut self, token: u64, write: &Write, bytes: &[u8]) -> bool {
        let of_peer = |name: &Name| matches!(name, Name::Unasked { token: of, .. } if *of == token);
        let all: usize = self.kept.iter().filter(|(name, _)| of_peer(name)).map(|(_, kept)| kept.len()).sum();
        if all + bytes.len() > KEPT_BYTES_MAX {
            return false;
        }
        let name = Name::of(write, token);
        if write.address == 0 {
            self.kept.retain(|(of, _)| *of != name);
            self.kept.push((name, bytes.into()));
        } else if let Some((_, kept)) = self.kept.iter_mut().find(|(of, _)| *of == name)
            && kept.len() as u64 == write.address
        {
            kept.extend_from_slice(bytes);
        }
        true
    }

    /// Bytes of unasked writes that are kept.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|(_, kept)| kept.len()).sum()
    }

    /// The number of the registration with this name.
    fn number_of(&self, name: &Name) -> Option<u32> {
        match name {
            Name::Key(key) => self.by_key.get(key).copied(),
            Name::Unasked { .. } => self.unasked.iter().find(|(of, _)| of == name).map(|(_, number)| *number),
        }
    }

    fn insert(&mut self, name: Name, data: &UserData, length: u64) -> Option<Registration> {
        if self.exposed.len() - self.free.len() >= REGISTERED_MAX || self.number_of(&name).is_some() {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.exposed.push(None);
            self.exposed.len() as u32 - 1
        });
        self.exposed[number as usize] = Some(Exposed { data: data.clone(), length, name, is_begun: false });
        match name {
            Name::Key(key) => drop(self.by_key.insert(key, number)),
            Name::Unasked { .. } => self.unasked.push((name, number)),
        }
        Some(Registration(number))
    }

    /// Ends the registration: nothing is written there any more.
    pub(super) fn deregister(&mut self, Registration(number): Registration) {
        if let Some(exposed) = self.exposed.get_mut(number as usize).and_then(Option::take) {
            match exposed.name {
                Name::Key(key) => drop(self.by_key.remove(&key)),
                Name::Unasked { .. } => self.unasked.retain(|(_, of)| *of != number),
            }
            // Other memory may get the number.
            self.written.retain(|written| written.registration.0 != number);
            self.free.push(number);
        }
    }

    /// Notes that the data of `write` by the process with this token is in its place.
    pub(super) fn note_written(&mut self, token: u64, write: &Write) {
        let Some(number) = self.number_of(&Name::of(write, token)) else { return };
        if let Some(Some(exposed)) = self.exposed.get_mut(number as usize) {
            exposed.is_begun = true;
        }
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

    /// The first of these registrations that has not ended, and to which no write has begun; those before it
    /// are taken out.
    pub(super) fn expected_from(&self, expected: &mut VecDeque<Registration>) -> Option<Expected> {
        while let Some(Registration(first)) = expected.front() {
            if let Some(Some(Exposed { data, length, name, is_begun: false })) = self.exposed.get(*first as usize)
                && is_run(data, 0, *length)
            {
                return Some(Expected { data: data.clone(), length: *length, name: *name });
            }
            expected.pop_front();
        }
        None
    }

    /// The memory that `write` by the process with this token is for, if all of it is registered.
    pub(super) fn target(&self, token: u64, write: &Write) -> Option<&UserData> {
        let exposed = self.exposed.get(self.number_of(&Name::of(write, token))? as usize)?.as_ref()?;
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
            memory.note_written(0, &Write { key: there.1.key, address, bytes, is_unasked: false });
        }
        memory.note_written(0, &Write { key: !one.1.key, address: 0, bytes: 1, is_unasked: false });
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
        let write = |key, address, bytes| Write { key, address, bytes, is_unasked: false };
        assert!(memory.target(0, &write(there.key, 0, 60)).is_some());
        assert!(memory.target(0, &write(there.key, 59, 1)).is_some());
        for (key, address, bytes) in [(there.key, 1, 60), (there.key, u64::MAX, 2), (!there.key, 0, 1)] {
            assert!(memory.target(0, &write(key, address, bytes)).is_none());
        }
        memory.deregister(first);
        assert!(memory.target(0, &write(there.key, 0, 1)).is_none());
        let (second, again) = memory.register(&data, 100).expect("there is room");
        assert_eq!(first, second, "numbers are used again");
        assert_ne!(there.key, again.key, "and keys are not");
    }
}
