//! Handles: the numbers that the program holds instead of objects (MPI-5.0 §2.5.1, §20.3).
//!
//! Predefined handles are integers below 4096. A handle that Weft makes carries its kind, an index into a
//! table and the generation of that table's entry. So a stale, foreign or invented handle is recognised,
//! never followed.
//!
//! The message layer keeps its requests in such a table, the windows their answers, and `weft-mpi` the other
//! objects of the program.

/// The kind of an object; part of its handle. Objects of the program have the lower half of the numbers.
/// Objects that never leave the library have the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `MPI_Comm`.
    Communicator = 1,
    /// `MPI_Group`.
    Group = 2,
    /// `MPI_Request`.
    Request = 3,
    /// `MPI_Datatype`.
    Datatype = 4,
    /// `MPI_Op`.
    Operation = 5,
    /// `MPI_Errhandler`.
    ErrorHandler = 6,
    /// `MPI_Info`.
    Info = 7,
    /// `MPI_Message`.
    Message = 8,
    /// `MPI_Session`.
    Session = 9,
    /// `MPI_Win`.
    Window = 10,
    /// `MPI_File`.
    File = 11,
    /// Unexpected messages.
    Unexpected = 128,
    /// Running collectives.
    Collective = 129,
    /// Answers for which one-sided operations wait.
    Answer = 130,
    /// Puts and gets that a carrier does.
    Placed = 131,
}

/// The most entries of one table: an index and 8 bits of generation must fit in 32 bits on the wire.
pub const ENTRIES_MAX: usize = 1 << 24;

/// The first handle that is not predefined: the object of a predefined handle is always there.
pub const HANDLES_PREDEFINED: usize = 4096;

struct Entry<T> {
    /// The object's handle while it is alive. Otherwise it has the generation of that handle's successor, and
    /// the index of another entry, so that no handle that leads here equals it.
    handle: usize,
    /// The object. In an entry that is not alive: an object that may be used again, if it was put back.
    value: Option<T>,
}

/// What tells the handle of an entry that is not alive from that of its next object.
const NOT_ALIVE: usize = 1 << KIND_BITS;

impl<T> Entry<T> {
    const fn generation(&self) -> u32 {
        (self.handle >> 32) as u32
    }

    /// Returns whether the object of the entry with this index is alive.
    const fn is_alive(&self, index: usize) -> bool {
        index_of(self.handle) == index
    }
}

/// A table of objects of one kind.
pub struct Slab<T> {
    kind: Kind,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    len: usize,
    /// The generation after which the first one comes again.
    generation_last: u32,
}

/// The lower half of a handle: 8 bits of the kind, 24 of the index. The upper half is the generation, from 1
/// on.
const KIND_BITS: u32 = 8;
const INDEX_BITS: u32 = 24;
const _: () = assert!(KIND_BITS + INDEX_BITS == u32::BITS && ENTRIES_MAX == 1 << INDEX_BITS);

/// Returns whether `handle` is one that Weft makes for objects of this kind, there or not.
#[inline]
pub const fn is_of_kind(handle: usize, kind: Kind) -> bool {
    handle >= HANDLES_PREDEFINED && handle & ((1 << KIND_BITS) - 1) == kind as usize
}

/// The index of a handle's object in the table of its kind.
#[inline]
pub const fn index_of(handle: usize) -> usize {
    (handle & 0xffff_ffff) >> KIND_BITS
}

/// The bit that is set in the integers of handles that Weft makes.
const INTEGER_MADE: u32 = 1 << 30;
/// The bits below that one: 24 of the index, 6 of the generation.
const INTEGER_MASK: u32 = INTEGER_MADE - 1;

/// The sign of a [short handle](shorten): no predefined handle of MPICH's ABI for a request has it.
const SHORT_MADE: u32 = 1 << 31;
/// The latest generation that a short handle can have.
pub const SHORT_GENERATION_LAST: u32 = (SHORT_MADE >> INDEX_BITS) - 1;

/// The integer of 32 bits for a handle, whose kind must be known otherwise. It stands for no other handle of
/// a table whose generations [are limited](Slab::limit_generations) to [`SHORT_GENERATION_LAST`].
#[inline(always)]
pub const fn shorten(handle: usize) -> i32 {
    ((handle >> KIND_BITS) as u32 | SHORT_MADE) as i32
}

/// The handle of an integer that [`shorten`] made of it; `None` for other integers.
#[inline(always)]
pub const fn lengthen(integer: i32, kind: Kind) -> Option<usize> {
    let name = (integer as u32 & !SHORT_MADE) as usize;
    if integer < 0 { Some(name << KIND_BITS | kind as usize) } else { None }
}

impl<T> Slab<T> {
    /// Makes an empty table.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, entries: Vec::new(), free: Vec::new(), len: 0, generation_last: u32::MAX }
    }

    /// Stores `value` and returns its handle; `None` when [`ENTRIES_MAX`] objects exist already.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> Option<usize> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < ENTRIES_MAX => {
                let index = self.entries.len() as u32;
                self.entries.push(Entry { handle: handle_of(self.kind, index, 1) ^ NOT_ALIVE, value: None });
                index
            }
            None => return None,
        };
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        entry.handle ^= NOT_ALIVE;
        self.len += 1;
        Some(entry.handle)
    }

    /// Returns the object that was [put back](Self::put_back) last, under a new handle and as it was then;
    /// `None` when there is none to be had at once.
    #[inline(always)]
    pub fn take_up(&mut self) -> Option<(usize, &mut T)> {
        let index = *self.free.last()?;
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.as_mut()?;
        self.free.pop();
        self.len += 1;
        entry.handle ^= NOT_ALIVE;
        Some((entry.handle, value))
    }

    /// Makes the handle of an object stale; the object stays for [`Self::take_up`].
    #[inline(always)]
    pub fn put_back(&mut self, handle: usize) {
        if let Some(index) = self.position(handle) {
            self.vacate(index);
        }
    }

    /// From now on no new handle has a later generation than `last`, which is 1 or more. Handles that are
    /// there stay as they are.
    pub fn limit_generations(&mut self, last: u32) {
        self.generation_last = last;
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !entry.is_alive(index) && entry.generation() > last {
                entry.handle = handle_of(self.kind, index as u32, 1) ^ NOT_ALIVE;
            }
        }
    }

    #[inline]
    fn position(&self, handle: usize) -> Option<usize> {
        let index = index_of(handle);
        (self.entries.get(index)?.handle == handle).then_some(index)
    }

    /// The object of `handle`, if the handle is one of this table and the object is still alive.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        let entry = self.entries.get(index_of(handle))?;
        if entry.handle == handle { entry.value.as_ref() } else { None }
    }

    /// The object of `handle`, to change it.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        let entry = self.entries.get_mut(index_of(handle))?;
        if entry.handle == handle { entry.value.as_mut() } else { None }
    }

    /// Takes the object out; the handle is stale from now on.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        let index = self.position(handle)?;
        let value = self.entries[index].value.take()?;
        self.vacate(index);
        Some(value)
    }

    #[inline]
    fn vacate(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        let generation = if entry.generation() < self.generation_last { entry.generation() + 1 } else { 1 };
        entry.handle = handle_of(self.kind, index as u32, generation) ^ NOT_ALIVE;
        self.free.push(index as u32);
        self.len -= 1;
    }

    /// The name of `handle` on the wire: its index and the low byte of its generation.
    pub fn wire(&self, handle: usize) -> u32 {
        let index = ((handle & 0xffff_ffff) >> KIND_BITS) as u32;
        index | (((handle >> 32) as u32) << INDEX_BITS)
    }

    /// The handle that `wire` names, if that object is still alive.
    pub fn from_wire(&self, wire: u32) -> Option<usize> {
        let index = wire & ((1 << INDEX_BITS) - 1);
        let entry = self.entries.get(index as usize)?;
        let right = entry.is_alive(index as usize) && entry.generation() & 0xff == wire >> INDEX_BITS;
        right.then_some(entry.handle)
    }

    /// The integer that stands for `handle` in languages without pointers (MPI-5.0 §19.3.4): its index, some
    /// bits of its generation, and a bit that tells it from predefined handles. `None` when the object is
    /// gone.
    pub fn integer(&self, handle: usize) -> Option<i32> {
        self.get(handle)?;
        Some((INTEGER_MADE | (self.wire(handle) & INTEGER_MASK)) as i32)
    }

    /// The handle that `integer` stands for, if its object is still alive.
    pub fn from_integer(&self, integer: i32) -> Option<usize> {
        let name = u32::try_from(integer).ok().filter(|name| name & INTEGER_MADE != 0)? & INTEGER_MASK;
        let index = name & ((1 << INDEX_BITS) - 1);
        let handle = self.entries.get(index as usize)?.handle;
        (self.get(handle).is_some() && self.wire(handle) & INTEGER_MASK == name).then_some(handle)
    }

    /// Number of objects alive.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no object is alive.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Visits every object.
    pub fn for_each_mut(&mut self, visit: &mut dyn FnMut(&mut T)) {
        let entries = self.entries.iter_mut().enumerate().filter(|(index, entry)| entry.is_alive(*index));
        entries.filter_map(|(_, entry)| entry.value.as_mut()).for_each(visit);
    }

    /// Handles and objects, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let entries = self.entries.iter().enumerate().filter(|(index, entry)| entry.is_alive(*index));
        entries.filter_map(|(_, entry)| Some((entry.handle, entry.value.as_ref()?)))
    }
}

const fn handle_of(kind: Kind, index: u32, generation: u32) -> usize {
    ((generation as usize) << 32) | ((index as usize) << KIND_BITS) | kind as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_or_foreign_handle_is_not_followed() {
        let mut numbers = Slab::new(Kind::Group);
        let mut others = Slab::new(Kind::Info);
        let one = numbers.insert(1).unwrap();
        let foreign = others.insert(1).unwrap();
        assert!(one >= 4096);
        assert_eq!(numbers.get(one), Some(&1));
        assert_eq!(numbers.get(foreign), None);
        assert_eq!(numbers.remove(one), Some(1));
        let two = numbers.insert(2).unwrap();
        assert_eq!(numbers.get(one), None);
        assert_eq!(numbers.get(two), Some(&2));
        assert_eq!(numbers.remove(one), None);
        assert_eq!((numbers.get(two), numbers.len()), (Some(&2), 1));
        assert_eq!(numbers.remove(two), Some(2));
        assert_eq!((numbers.get(two), numbers.len()), (None, 0));
        assert_eq!(numbers.get(usize::MAX), None);
        assert_eq!(numbers.get(0), None);
    }

    /// Expect: no handle finds an object that was put back, not even one that guesses its next generation,
    /// until the object is taken up again. It then has a new handle and its old contents.
    #[test]
    fn what_is_put_back_is_taken_up_under_a_new_handle() {
        let mut table = Slab::new(Kind::Request);
        assert!(table.take_up().is_none());
        let first = table.insert(String::from("kept")).unwrap();
        let wire = table.wire(first);
        table.put_back(first);
        let guessed = first + (1 << 32);
        assert_eq!((table.get(first), table.get(guessed), table.len()), (None, None, 0));
        assert_eq!(
            (table.from_wire(wire), table.from_wire(table.wire(guessed)), table.iter().count()),
            (None, None, 0)
        );
        table.put_back(first);
        table.for_each_mut(&mut |value| panic!("{value} is not alive"));
        let (second, value) = table.take_up().unwrap();
        assert_eq!(value, "kept");
        assert_eq!((second, table.get(first), table.len()), (guessed, None, 1));
        assert!(table.take_up().is_none());
        table.remove(second);
        assert!(table.take_up().is_none());
        assert_eq!(table.insert(String::from("new")), Some(second + (1 << 32)));
    }

    #[test]
    fn a_wire_name_leads_back_to_its_handle_only_while_it_lives() {
        let mut table = Slab::new(Kind::Request);
        let handle = table.insert('a').unwrap();
        let wire = table.wire(handle);
        assert_eq!(table.from_wire(wire), Some(handle));
        table.remove(handle);
        assert_eq!(table.from_wire(wire), None);
        table.insert('b').unwrap();
        assert_eq!(table.from_wire(wire), None);
    }

    #[test]
    fn an_integer_leads_back_to_its_handle_only_while_it_lives() {
        let mut table = Slab::new(Kind::Info);
        let first = table.insert(0).unwrap();
        let handle = table.insert(1).unwrap();
        let integer = table.integer(handle).unwrap();
        assert!(integer >= 4096 && table.integer(first).unwrap() != integer);
        assert_eq!(table.from_integer(integer), Some(handle));
        table.remove(handle);
        assert_eq!((table.integer(handle), table.from_integer(integer)), (None, None));
        table.insert(2).unwrap();
        assert_eq!(table.from_integer(integer), None);
        assert_eq!((table.from_integer(-1), table.from_integer(5), table.from_integer(i32::MAX)), (None, None, None));
    }

    /// Expect: after the limit every new handle has a short form that leads back to it, also where the table
    /// had later generations; a handle that was there before stays valid.
    #[test]
    fn short_handles_lead_back_to_handles_of_a_limited_table() {
        let mut table = Slab::new(Kind::Request);
        let kept = table.insert('a').unwrap();
        for _ in 0..1000 {
            let late = table.insert('b').unwrap();
            table.remove(late);
        }
        let late = table.insert('c').unwrap();
        assert!(lengthen(shorten(late), Kind::Request) != Some(late));
        table.limit_generations(SHORT_GENERATION_LAST);
        assert_eq!((table.get(kept), table.get(late)), (Some(&'a'), Some(&'c')));
        table.remove(late);
        let mut before = late;
        for _ in 0..3 * SHORT_GENERATION_LAST {
            let handle = table.insert('d').unwrap();
            assert_eq!(lengthen(shorten(handle), Kind::Request), Some(handle));
            assert_eq!(table.get(before), None);
            before = handle;
            table.remove(handle);
        }
        assert_eq!((lengthen(0, Kind::Request), lengthen(0x2c00_0000, Kind::Request)), (None, None));
    }

    /// Expect: entries that are free when the limit comes have no later generation either.
    #[test]
    fn free_entries_are_limited_too() {
        let mut table = Slab::new(Kind::Request);
        for _ in 0..1000 {
            let late = table.insert(()).unwrap();
            table.remove(late);
        }
        table.limit_generations(SHORT_GENERATION_LAST);
        let handle = table.insert(()).unwrap();
        assert_eq!(lengthen(shorten(handle), Kind::Request), Some(handle));
    }
}
