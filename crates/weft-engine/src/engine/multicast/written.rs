//! Acknowledgements that go from the receivers' carriers straight into the root's memory (`weft_core::multicast`, scheme `written`): eight bytes for each member, at which the root looks
//! while it waits.
//!
//! What a peer may write to is never given back: whoever is late writes to memory that nobody reads.

use weft_core::multicast::{Receiver, SLOT_BYTES, Sender, StreamId};
use weft_core::placement::RemoteMemory;
use weft_core::time::{Duration, Instant};

use crate::carriers::{Devices, Remote, Slot};
use crate::engine::placement::OF_A_STREAM;
use crate::memory::UserData;
use crate::transport::{Begun, Datagrams};

/// Writes of all streams that may be under way; one of each stream.
const WRITES_MAX: usize = 64;
/// What the carrier has no room for is offered again after this long.
const RETRY: Duration = Duration::from_micros(100);

/// Where receivers of this process's stream write.
pub(super) struct Slots {
    memory: UserData,
    target: RemoteMemory,
}

impl Slots {
    /// Hands what has been written to the sender.
    pub(super) fn look(&self, now: Instant, sender: &mut Sender, members: u32) {
        let mut word = [0; SLOT_BYTES as usize];
        for member in 0..members {
            self.memory.read(u64::from(member) * SLOT_BYTES, &mut word);
            sender.handle_written(now, member, u64::from_ne_bytes(word));
        }
    }

    pub(super) fn target(&self) -> RemoteMemory {
        self.target
    }
}

/// A write that the carrier has begun.
struct UnderWay {
    number: u32,
    stream: StreamId,
    word: UserData,
}

/// What this process writes, and where others do.
#[derive(Default)]
pub(super) struct Written {
    under_way: Vec<UnderWay>,
    /// Memory of writes that are complete, and slots of groups that are no more.
    words: Vec<UserData>,
    slots: Vec<Slots>,
    numbers: u32,
    /// When the carrier had no room last, and something waits for it since.
    refused: Option<Instant>,
}

impl Written {
    /// Slots for so many members, in memory that peers may write to; none where the carrier does not let them.
    pub(super) fn open(&mut self, members: u32, slot: Slot, devices: &mut Devices) -> Option<Slots> {
        let bytes = u64::from(members) * SLOT_BYTES;
        if let Some(at) = self.slots.iter().position(|slots| slots.memory.len() >= bytes) {
            return Some(self.slots.swap_remove(at));
        }
        let device = devices.get_mut(slot)?;
        device.placement().filter(|placement| placement.writes)?;
        let memory = UserData::leaked(bytes as usize);
        let (_, target) = device.expose(&memory, bytes)?;
        Some(Slots { memory, target })
    }

    /// Nobody writes to these slots any more: they are for another group.
    pub(super) fn close(&mut self, slots: Slots) {
        slots.memory.write(0, &vec![0; slots.memory.len() as usize]);
        self.slots.push(slots);
    }

    /// Writes what a receiver has to say to its root.
    pub(super) fn write(
        &mut self,
        now: Instant,
        stream: StreamId,
        receiver: &mut Receiver,
        root: &Remote,
        devices: &mut Devices,
    ) {
        let Some((target, word)) = receiver.to_write() else { return };
        // The next one says more.
        if self.under_way.iter().any(|under_way| under_way.stream == stream) {
            return;
        }
        let (_, hop) = root.hop(0);
        let Some(device) = devices.get_mut(hop.slot).filter(|_| root.accessing().is_some()) else {
            return receiver.cannot_write();
        };
        if self.under_way.len() >= WRITES_MAX {
            self.refused = Some(now);
            return;
        }
        let memory = self.words.pop().unwrap_or_else(|| UserData::leaked(SLOT_BYTES as usize));
        memory.write(0, &word.to_ne_bytes());
        let number = self.numbers;
        self.numbers = number.wrapping_add(1);
        match device.write(&hop.to, &memory, 0..SLOT_BYTES, target, OF_A_STREAM | u64::from(number)) {
            Begun::Yes => {
                receiver.begun();
                self.under_way.push(UnderWay { number, stream, word: memory });
            }
            Begun::NotNow => {
                self.words.push(memory);
                self.refused = Some(now);
            }
            Begun::Never => {
                self.words.push(memory);
                receiver.cannot_write();
            }
        }
    }

    /// A write is complete.
    pub(super) fn ended(&mut self, number: u32) {
        if let Some(at) = self.under_way.iter().position(|under_way| under_way.number == number) {
            self.words.push(self.under_way.swap_remove(at).word);
        }
    }

    /// The root of these streams is gone, and its carrier tells of no write any more.
    pub(super) fn forget(&mut self, is_of: impl Fn(&StreamId) -> bool) {
        self.under_way.retain(|under_way| !is_of(&under_way.stream));
    }

    /// A pass begins, which offers everything again.
    pub(super) fn begin(&mut self) {
        self.refused = None;
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.refused.map(|refused| refused + RETRY)
    }
}
