//! Packets of streams that are for one peer: acknowledgements, questions, and packets that are sent again.
//!
//! Where the carrier to the peer loses packets, one of these may be lost like any other. A carrier with
//! connections (an RDMA device) loses none. But it may have no room at the moment, or no connection yet,
//! which takes longer than a stream waits before it asks again. So these packets wait here, up to a bound.

use std::collections::VecDeque;

use weft_core::refusal::Refusal;
use weft_core::time::Instant;

use crate::carriers::{CarrierPath, Carriers};
use crate::transport::{Carrier, Outcome};

/// The most packets that wait, to all peers together. Packets beyond that are lost, and the stream repeats
/// them.
const WAITING_MAX: usize = 256;

/// Packets that wait for their carriers.
#[derive(Default)]
pub(super) struct Singly {
    waiting: VecDeque<(CarrierPath, Vec<u8>)>,
    /// The offers since the carriers last took one of the packets.
    refusal: Option<Refusal>,
}

impl Singly {
    /// Sends a packet, after the packets that wait for the same peer.
    pub(super) fn send(&mut self, now: Instant, carrier_path: CarrierPath, packet: &[u8], carriers: &mut Carriers) {
        let must_wait = self.waiting.iter().any(|(other, _)| other.to == carrier_path.to)
            || !offer(&carrier_path, packet, carriers);
        if must_wait && self.waiting.len() < WAITING_MAX {
            self.refusal.get_or_insert(Refusal::after(None, now));
            self.waiting.push_back((carrier_path, packet.to_vec()));
        }
    }

    /// Offers the waiting packets. A peer whose carrier has no room does not hold up the others.
    pub(super) fn send_waiting(&mut self, now: Instant, carriers: &mut Carriers) {
        if self.waiting.is_empty() {
            return;
        }
        let before = self.waiting.len();
        let mut full: Vec<CarrierPath> = Vec::new();
        self.waiting.retain(|(carrier_path, packet)| {
            let waits = full.contains(carrier_path) || !offer(carrier_path, packet, carriers);
            if waits && !full.contains(carrier_path) {
                full.push(*carrier_path);
            }
            waits
        });
        let refusal = self.refusal.take().filter(|_| self.waiting.len() == before);
        self.refusal = (!self.waiting.is_empty()).then(|| Refusal::after(refusal, now));
    }

    /// The time at which to offer the waiting packets again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.refusal.map(|refusal| refusal.retry_at())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Offers a packet; returns whether the carrier has taken it, or never will.
fn offer(carrier_path: &CarrierPath, packet: &[u8], carriers: &mut Carriers) -> bool {
    let outcome = carriers.get_mut(carrier_path.carrier).map(|carrier| carrier.send(&carrier_path.to, packet));
    !matches!(outcome, Some(Ok(Outcome::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use weft_core::refusal::RETRY_MIN;

    use super::*;
    use crate::carriers::CarrierId;
    use crate::transport::{Address, Arrival, CarrierAttributes, Diagnostics, Look, send_one_by_one};

    const ATTRIBUTES: CarrierAttributes = CarrierAttributes::packets("test", 1024, Look::SystemCall);

    /// The packets that have left, in order, and the peers to which nothing leaves.
    #[derive(Default)]
    struct Seen {
        sent: Vec<(u16, u8)>,
        full: Vec<u16>,
        lost: Vec<u16>,
    }

    struct FakeCarrier(Arc<Mutex<Seen>>);

    impl Carrier for FakeCarrier {
        fn attributes(&self) -> &CarrierAttributes {
            &ATTRIBUTES
        }

        fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
            let Address::Udp(to) = to else { unreachable!("only these are made") };
            let mut seen = self.0.lock().unwrap();
            if seen.lost.contains(&to.port()) {
                return Ok(Outcome::Dropped);
            }
            if seen.full.contains(&to.port()) {
                return Ok(Outcome::WouldBlock);
            }
            seen.sent.push((to.port(), packet[0]));
            Ok(Outcome::Sent)
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
    }

    fn carrier_path(port: u16) -> CarrierPath {
        CarrierPath { carrier: CarrierId(0), to: Address::Udp(([192, 0, 2, 1], port).into()) }
    }

    fn carrier() -> (Arc<Mutex<Seen>>, Carriers) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let carriers = Carriers::new(vec![Box::new(FakeCarrier(Arc::clone(&seen)))]);
        (seen, carriers)
    }

    #[test]
    fn a_peer_without_room_waits_in_order_and_holds_up_nobody() {
        let (seen, mut carriers) = carrier();
        let mut singly = Singly::default();
        seen.lock().unwrap().full = vec![1];
        for (port, packet) in [(1, 10), (1, 11), (2, 20), (1, 12)] {
            singly.send(Instant(5), carrier_path(port), &[packet], &mut carriers);
        }
        assert_eq!(seen.lock().unwrap().sent, [(2, 20)]);
        assert_eq!(singly.next_timeout(), Some(Instant(5) + RETRY_MIN));
        singly.send_waiting(Instant(9), &mut carriers);
        assert_eq!((seen.lock().unwrap().sent.len(), singly.next_timeout()), (1, Some(Instant(9) + RETRY_MIN)));
        seen.lock().unwrap().full.clear();
        singly.send_waiting(Instant(10), &mut carriers);
        assert_eq!(seen.lock().unwrap().sent, [(2, 20), (1, 10), (1, 11), (1, 12)]);
        assert!(singly.is_empty() && singly.next_timeout().is_none());
    }

    #[test]
    fn what_can_never_leave_is_forgotten_and_what_waits_is_bounded() {
        let (seen, mut carriers) = carrier();
        let mut singly = Singly::default();
        seen.lock().unwrap().full = vec![1];
        for packet in 0..WAITING_MAX + 100 {
            singly.send(Instant(0), carrier_path(1), &[packet as u8], &mut carriers);
        }
        assert_eq!(singly.waiting.len(), WAITING_MAX);
        seen.lock().unwrap().lost = vec![1];
        singly.send_waiting(Instant(1), &mut carriers);
        assert!(singly.is_empty() && seen.lock().unwrap().sent.is_empty());
    }
}
