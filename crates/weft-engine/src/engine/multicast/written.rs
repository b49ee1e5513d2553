//! Acknowledgements that go from the receivers' carriers straight into the root's memory
//! (`weft_core::multicast`, scheme `written`): eight bytes for each member, at which the root looks while it
//! waits.
//!
//! Memory that a peer may write to is never given back: a late writer writes to memory that nobody reads.

use weft_core::multicast::{Receiver, SLOT_BYTES, Sender, StreamId};
use weft_core::placement::RemoteMemory;
use weft_core::refusal::Refusal;
use weft_core::time::Instant;

use crate::carriers::{CarrierId, Carriers, Remote};
use crate::engine::placement::OF_A_STREAM;
use crate::memory::UserData;
use crate::transport::Begun;

/// The most writes of all streams that may be under way, one of each stream.
const WRITES_MAX: usize = 64;

/// The memory to which the receivers of this process's stream write.
pub(super) struct Slots {
    memory: UserData,
    target: RemoteMemory,
}

impl Slots {
    /// Hands the written acknowledgements to the sender.
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

/// The acknowledgements that this process writes, and the memory in which others write theirs.
#[derive(Default)]
pub(super) struct Written {
    under_way: Vec<UnderWay>,
    /// The memory of complete writes, and slots of groups that are no more.
    words: Vec<UserData>,
    slots: Vec<Slots>,
    numbers: u32,
    /// Set once the carrier has refused a write of this pass.
    refusal: Option<Refusal>,
    /// The refusals of the passes before this one, since the carrier last took a write.
    before: Option<Refusal>,
}

impl Written {
    /// Opens slots for this many members, in memory that peers may write to; `None` where the carrier does
    /// not allow that.
    pub(super) fn open(&mut self, members: u32, carrier: CarrierId, carriers: &mut Carriers) -> Option<Slots> {
        let bytes = u64::from(members) * SLOT_BYTES;
        if let Some(at) = self.slots.iter().position(|slots| slots.memory.len() >= bytes) {
            return Some(self.slots.swap_remove(at));
        }
        carriers.get(carrier)?.attributes().remote_memory.filter(|placement| placement.writes)?;
        let memory = UserData::leaked(bytes as usize);
        let (_, target) = carriers.register(carrier, &memory, bytes)?;
        Some(Slots { memory, target })
    }

    /// Takes slots back to which no process writes any more: they are for another group.
    pub(super) fn close(&mut self, slots: Slots) {
        slots.memory.write(0, &vec![0; slots.memory.len() as usize]);
        self.slots.push(slots);
    }

    /// Writes a receiver's acknowledgement to its root.
    pub(super) fn write(
        &mut self,
        now: Instant,
        stream: StreamId,
        receiver: &mut Receiver,
        root: &Remote,
        carriers: &mut Carriers,
    ) {
        let Some((target, word)) = receiver.to_write() else { return };
        // The next write says more.
        if self.under_way.iter().any(|under_way| under_way.stream == stream) {
            return;
        }
        let carrier_path = root.accessing().map(|access| access.carrier_path);
        let Some((rma, to)) = carrier_path.and_then(|path| Some((carriers.rma(path.carrier)?, path.to))) else {
            return receiver.cannot_write();
        };
        if self.under_way.len() >= WRITES_MAX {
            self.refusal = Some(Refusal::after(self.before, now));
            return;
        }
        let memory = self.words.pop().unwrap_or_else(|| UserData::leaked(SLOT_BYTES as usize));
        memory.write(0, &word.to_ne_bytes());
        let number = self.numbers;
        match rma.write(&to, &memory, 0..SLOT_BYTES, target, OF_A_STREAM | u64::from(number)) {
            Begun::Yes => {
                self.numbers = number.wrapping_add(1);
                receiver.begun();
                self.before = None;
                self.under_way.push(UnderWay { number, stream, word: memory });
            }
            Begun::NotNow => {
                self.words.push(memory);
                self.refusal = Some(Refusal::after(self.before, now));
            }
            Begun::Never => {
                self.words.push(memory);
                receiver.cannot_write();
            }
        }
    }

    /// Notes that a write is complete.
    pub(super) fn ended(&mut self, number: u32) {
        if let Some(at) = self.under_way.iter().position(|under_way| under_way.number == number) {
            self.words.push(self.under_way.swap_remove(at).word);
        }
    }

    /// Forgets the writes of these streams: their root is gone, and its carrier reports no write any more.
    pub(super) fn forget(&mut self, is_of: impl Fn(&StreamId) -> bool) {
        self.under_way.retain(|under_way| !is_of(&under_way.stream));
    }

    /// Begins a pass, which offers every write again.
    pub(super) fn begin(&mut self) {
        self.before = self.refusal.take();
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.refusal.map(|refusal| refusal.retry_at())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::Range;
    use std::sync::{Arc, Mutex};

    use weft_core::flow::Settings as FlowSettings;
    use weft_core::multicast::{Destination, Scheme, Settings};
    use weft_core::path_validation::Ends;
    use weft_core::rails::{RailCarrier, Role};
    use weft_core::refusal::RETRY_MIN;
    use weft_core::time::Duration;
    use weft_core::wire::Secret;

    use super::*;
    use crate::carriers::CarrierPath;
    use crate::transport::{
        Address, Arrival, Carrier, CarrierAttributes, Diagnostics, Look, Outcome, Placement, Proof, Registration,
        RemoteMemoryAccess, send_one_by_one,
    };

    const STREAM: StreamId = StreamId { context: 5, first: 2, generation: 77, root: 0 };
    const EXPOSED: RemoteMemory = RemoteMemory { key: 9, address: 4096 };

    /// The writes so far, with their numbers, and the outcome of the next write.
    struct Seen {
        written: Vec<(RemoteMemory, u64, u64)>,
        next: fn() -> Begun,
        exposed: u32,
    }

    struct FakeCarrier(Arc<Mutex<Seen>>);

    impl Carrier for FakeCarrier {
        fn attributes(&self) -> &CarrierAttributes {
            &ATTRIBUTES
        }

        fn send(&mut self, _: &Address, _: &[u8]) -> io::Result<Outcome> {
            Ok(Outcome::Dropped)
        }

        fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
            send_one_by_one(self, to, train, segment)
        }

        fn receive(&mut self, _: &mut dyn FnMut(Arrival<'_>), _: usize) -> usize {
            0
        }

        fn prepare_sleep(&mut self) -> bool {
            false
        }

        fn diagnostics(&self) -> Diagnostics {
            Diagnostics::default()
        }

        fn under_way(&self, _: &Address) -> usize {
            0
        }

        fn take_broken(&mut self) -> Option<Address> {
            None
        }

        fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
            Some(self)
        }
    }

    impl RemoteMemoryAccess for FakeCarrier {
        fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
            assert_eq!(data.address().expect("one run") % 8, 0);
            assert!(data.len() >= length);
            self.0.lock().unwrap().exposed += 1;
            Some((Registration(0), EXPOSED))
        }

        fn deregister(&mut self, _: Registration) {}

        fn write(
            &mut self,
            _: &Address,
            data: &UserData,
            range: Range<u64>,
            target: RemoteMemory,
            number: u64,
        ) -> Begun {
            let (mut word, mut seen) = ([0; 8], self.0.lock().unwrap());
            assert_eq!(range, 0..8);
            let begun = (seen.next)();
            if matches!(begun, Begun::Yes) {
                data.read(0, &mut word);
                seen.written.push((target, u64::from_ne_bytes(word), number));
            }
            begun
        }

        fn read(&mut self, _: &Address, _: &UserData, _: Range<u64>, _: RemoteMemory, _: u64) -> Begun {
            Begun::Never
        }

        fn poll_completion(&mut self) -> Option<u64> {
            None
        }
    }

    const PLACEMENT: Placement = Placement {
        writes: true,
        reads: true,
        bytes_max: 1 << 20,
        bytes_min: 1,
        eager_max: u64::MAX,
        one_sided_min: 1,
        proof: Proof::Completion,
        tells: false,
        unasked: false,
    };
    const ATTRIBUTES: CarrierAttributes = CarrierAttributes {
        remote_memory: Some(PLACEMENT),
        ..CarrierAttributes::packets("test", 1024, Look::SystemCall)
    };

    /// A root and one receiver, which knows the address for its writes.
    struct Pair {
        sender: Sender,
        receiver: Receiver,
        slots: Slots,
        written: Written,
        carriers: Carriers,
        seen: Arc<Mutex<Seen>>,
        root: Remote,
        now: Instant,
    }

    impl Pair {
        fn new() -> Self {
            let seen = Arc::new(Mutex::new(Seen { written: Vec::new(), next: || Begun::Yes, exposed: 0 }));
            let mut carriers = Carriers::new(vec![Box::new(FakeCarrier(Arc::clone(&seen)))]);
            let (scheme, secret) = (Scheme::WRITTEN, Secret::new([3; 16]));
            let peer_timeout = Duration::from_secs(2);
            let settings = Settings { members: 2, packet_size: 304, window: 64, scheme, peer_timeout };
            let carrier_path = CarrierPath { carrier: CarrierId(0), to: Address::Udp(([192, 0, 2, 1], 7).into()) };
            let rail = RailCarrier { role: Role::BulkData, rail: 0, ends: Ends::default(), standby: false };
            let mut written = Written::default();
            let slots = written.open(2, CarrierId(0), &mut carriers).expect("the carrier writes");
            let mut sender = Sender::new(settings, STREAM, 0, &secret);
            sender.open_slots(slots.target());
            let mut pair = Self {
                sender,
                receiver: Receiver::new(settings, STREAM, 0, 1, &secret),
                slots,
                written,
                carriers,
                seen,
                root: Remote::connected(rail, carrier_path, Some(PLACEMENT), FlowSettings::default()),
                now: Instant(1000),
            };
            // The first acknowledgement is a packet, and the answer to it names the address of the next ones.
            pair.broadcast();
            assert!(pair.sender.is_idle() && pair.receiver.to_write().is_none());
            pair
        }

        /// Makes a broadcast, and exchanges the packets of the two.
        fn broadcast(&mut self) {
            self.sender.submit(1, |room| room[0] = 7).expect("there is room");
            self.sender.end_broadcast();
            let mut packet = Vec::new();
            for _ in 0..4 {
                while let Some(to) = self.sender.poll(self.now, &mut packet) {
                    assert_ne!(to, Destination::Member(0));
                    self.receiver.handle(self.now, &packet, &mut |_| ());
                }
                while self.receiver.poll(self.now, &mut packet).is_some() {
                    self.sender.handle(self.now, &packet);
                }
            }
        }

        fn write(&mut self) -> usize {
            let Self { written, receiver, root, carriers, now, .. } = self;
            written.begin();
            written.write(*now, STREAM, receiver, root, carriers);
            self.seen.lock().unwrap().written.len()
        }
    }

    #[test]
    fn one_write_of_a_stream_is_under_way_and_the_next_one_says_all_that_it_did_not() {
        let mut pair = Pair::new();
        pair.broadcast();
        assert_eq!(pair.write(), 1);
        let (target, first, number) = pair.seen.lock().unwrap().written[0];
        assert_eq!(target, RemoteMemory { address: EXPOSED.address + SLOT_BYTES, ..EXPOSED });
        assert_eq!(number, OF_A_STREAM);
        pair.broadcast();
        pair.broadcast();
        assert_eq!(pair.write(), 1, "the first one is under way");
        pair.written.ended(0);
        assert_eq!(pair.write(), 2);
        let (_, second, _) = pair.seen.lock().unwrap().written[1];
        assert_eq!(pair.written.words.len(), 0, "the memory of the first serves the second");
        // The root finds both writes: the first leaves two broadcasts unacknowledged, the second none.
        for (word, is_idle) in [(first, false), (second, true)] {
            pair.slots.memory.write(SLOT_BYTES, &word.to_ne_bytes());
            pair.slots.look(pair.now, &mut pair.sender, 2);
            assert_eq!(pair.sender.is_idle(), is_idle);
        }
    }

    #[test]
    fn a_carrier_without_room_is_asked_again_and_one_that_does_not_write_is_not() {
        let mut pair = Pair::new();
        pair.broadcast();
        pair.seen.lock().unwrap().next = || Begun::NotNow;
        assert_eq!((pair.write(), pair.written.next_timeout()), (0, Some(pair.now + RETRY_MIN)));
        pair.seen.lock().unwrap().next = || Begun::Yes;
        assert_eq!((pair.write(), pair.written.next_timeout()), (1, None));
        pair.written.ended(0);
        pair.broadcast();
        pair.seen.lock().unwrap().next = || Begun::Never;
        assert_eq!(pair.write(), 1);
        let mut packet = Vec::new();
        assert_eq!(pair.receiver.poll(pair.now, &mut packet), Some(Destination::Member(0)));
        pair.sender.handle(pair.now, &packet);
        assert!(pair.sender.is_idle() && pair.receiver.is_idle());
    }

    #[test]
    fn slots_serve_again_with_nothing_in_them() {
        let mut pair = Pair::new();
        pair.slots.memory.write(0, &[0xa5; 16]);
        pair.written.close(pair.slots);
        let again = pair.written.open(2, CarrierId(0), &mut pair.carriers).expect("the carrier writes");
        let mut bytes = [1; 16];
        again.memory.read(0, &mut bytes);
        assert_eq!((bytes, pair.seen.lock().unwrap().exposed), ([0; 16], 1));
        let mut none = Carriers::NONE;
        assert!(pair.written.open(2, CarrierId(0), &mut none).is_none());
    }
}
