//! A carrier through queues in memory: packets that are lost on demand, groups, and remote memory.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use weft_engine::memory::UserData;
use weft_engine::transport::*;

/// Bytes of the largest packet.
const PACKET_BYTES: usize = 1500;
/// The packets that wait for one receiver; a sender of more is told to try again.
const QUEUE_PACKETS_MAX: usize = 256;
/// The carrier where it loses packets. A look costs next to nothing; there is nothing to sleep on.
const LOSSY: CarrierAttributes = CarrierAttributes {
    multicast: Some(MulticastAttributes { packet_size: PACKET_BYTES, receives: Some(QUEUE_PACKETS_MAX) }),
    ..CarrierAttributes::packets("memory", PACKET_BYTES, Look::Memory)
};
/// The carrier where it loses none: each packet arrives once and in order; peers' memory can be reached.
const RELIABLE: CarrierAttributes =
    CarrierAttributes { delivery: Delivery::Ordered, remote_memory: Some(PLACEMENT), ..LOSSY };
/// Messages from 4 KiB on are written to the receiver's memory, and are there when the carrier says so.
const PLACEMENT: Placement = Placement {
    writes: true,
    reads: true,
    bytes_max: 1 << 20,
    bytes_min: 4 << 10,
    eager_max: 4 << 10,
    one_sided_min: 1,
    proof: Proof::Completion,
    tells: false,
    unasked: false,
};

/// The state that all ends share.
#[derive(Default)]
pub(crate) struct Wire {
    /// The packets on their way to each end, each with a mark if it came to a group.
    queues: BTreeMap<usize, VecDeque<(Vec<u8>, bool)>>,
    /// The memory that an end lets the others reach, by its key.
    registered: BTreeMap<u64, (UserData, u64)>,
    /// The ends that hear each group.
    joined: Vec<(Address, usize)>,
    keys: u32,
}

/// An end of the carrier. An address is the number of an end, which stands for a port.
pub(crate) struct MemoryCarrier {
    own: usize,
    wire: Arc<Mutex<Wire>>,
    attributes: CarrierAttributes,
    loss_percent: u64,
    random: u64,
    /// Accesses that are complete.
    done: VecDeque<u64>,
}

impl MemoryCarrier {
    /// Makes the end `own`, which loses this many of a hundred packets that it sends.
    pub(crate) fn new(own: usize, wire: &Arc<Mutex<Wire>>, loss_percent: u64, seed: u64) -> Self {
        let attributes = if loss_percent == 0 { RELIABLE } else { LOSSY };
        let (wire, random) = (wire.clone(), seed ^ own as u64);
        Self { own, wire, attributes, loss_percent, random, done: VecDeque::new() }
    }

    /// Copies between this end's memory and that of a peer; nothing that the peer names is believed.
    fn copy(&mut self, own: (&UserData, Range<u64>), there: RemoteMemory, number: u64, writes: bool) -> Begun {
        let (data, range) = own;
        let (length, wire) = (range.end - range.start, self.wire.lock().expect("whole"));
        let Some((memory, bytes)) = wire.registered.get(&there.key) else { return Begun::Never };
        if there.address.checked_add(length).is_none_or(|end| end > *bytes) {
            return Begun::Never;
        }
        let mut copied = vec![0; length as usize];
        if writes {
            data.read(range.start, &mut copied);
            memory.write(there.address, &copied);
        } else {
            memory.read(there.address, &mut copied);
            data.write(range.start, &copied);
        }
        self.done.push_back(number);
        Begun::Yes
    }
}

impl Carrier for MemoryCarrier {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Ethernet(address) = to else { return Err(wrong_address()) };
        if packet.len() > PACKET_BYTES {
            return Ok(Outcome::TooLarge);
        }
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let is_lost = (self.random >> 33) % 100 < self.loss_percent;
        let mut wire = self.wire.lock().expect("whole");
        let Wire { queues, joined, .. } = &mut *wire;
        if to.is_group() {
            // An end without room loses the packet: a group does not wait.
            for (_, member) in joined.iter().filter(|(group, member)| group == to && *member != self.own) {
                let queue = queues.entry(*member).or_default();
                queue.extend((queue.len() < QUEUE_PACKETS_MAX && !is_lost).then(|| (packet.to_vec(), true)));
            }
            return Ok(Outcome::Sent);
        }
        let queue = queues.entry(address.port.into()).or_default();
        if queue.len() >= QUEUE_PACKETS_MAX {
            return Ok(Outcome::WouldBlock);
        }
        // The sender of a packet that is lost does not learn of it.
        if !is_lost {
            queue.push_back((packet.to_vec(), false));
        }
        Ok(Outcome::Sent)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        for count in 0..limit {
            // The lock is free again before the engine sees the packet: it may answer at once.
            let next = self.wire.lock().expect("whole").queues.get_mut(&self.own).and_then(VecDeque::pop_front);
            let Some((packet, to_group)) = next else { return count };
            on_arrival(Arrival { to_group, ..Arrival::packet(&packet) });
        }
        limit
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
        if self.attributes.remote_memory.is_some() { Some(self) } else { None }
    }

    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        Some(self)
    }
}

impl RemoteMemoryAccess for MemoryCarrier {
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        let mut wire = self.wire.lock().expect("whole");
        wire.keys += 1;
        let key = wire.keys;
        wire.registered.insert(key.into(), (data.clone(), length));
        Some((Registration(key), RemoteMemory { key: key.into(), address: 0 }))
    }

    fn deregister(&mut self, Registration(key): Registration) {
        self.wire.lock().expect("whole").registered.remove(&key.into());
    }

    fn write(&mut self, _: &Address, data: &UserData, range: Range<u64>, there: RemoteMemory, number: u64) -> Begun {
        self.copy((data, range), there, number, true)
    }

    fn read(&mut self, _: &Address, data: &UserData, range: Range<u64>, there: RemoteMemory, number: u64) -> Begun {
        self.copy((data, range), there, number, false)
    }

    fn poll_completion(&mut self) -> Option<u64> {
        self.done.pop_front()
    }
}

impl Multicast for MemoryCarrier {
    fn address(&self, job: u64, group: u64) -> Address {
        let [a, b, c, d, e, f, ..] = (job ^ group.rotate_left(17)).to_le_bytes();
        EthernetAddress { mac: [3, a, b, c, d, e], port: u16::from(f) }.into()
    }

    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        self.wire.lock().expect("whole").joined.extend(receives.then_some((*group, self.own)));
        Ok(())
    }

    fn leave(&mut self, group: &Address) {
        self.wire.lock().expect("whole").joined.retain(|joined| *joined != (*group, self.own));
    }
}
