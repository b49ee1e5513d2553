//! Packets of streams that are for one peer: acknowledgements, questions, and what is sent again.
//!
//! Where the carrier to the peer loses packets, one of these may be lost like any other. A carrier with connections (an RDMA device) loses none; it may have no room at the
//! moment, or no connection yet, which takes longer than a stream waits before it asks again. So they wait here, with a bound.

use std::collections::VecDeque;

use weft_core::time::{Duration, Instant};

use crate::carriers::{Devices, Hop};
use crate::transport::{Datagrams, Outcome};

/// Packets that wait, to all peers together: what comes beyond them is lost, and the stream repeats it.
const WAITING_MAX: usize = 256;
/// A packet that the carrier did not take is offered again after this long.
const RETRY: Duration = Duration::from_micros(100);

/// Those that wait for their carriers.
#[derive(Default)]
pub(super) struct Singly {
    waiting: VecDeque<(Hop, Vec<u8>)>,
    /// When they were offered last.
    offered: Instant,
}

impl Singly {
    /// Sends a packet, after those that wait for the same peer.
    pub(super) fn send(&mut self, now: Instant, hop: Hop, packet: &[u8], devices: &mut Devices) {
        let must_wait = self.waiting.iter().any(|(other, _)| other.to == hop.to) || !offer(&hop, packet, devices);
        if must_wait && self.waiting.len() < WAITING_MAX {
            if self.waiting.is_empty() {
                self.offered = now;
            }
            self.waiting.push_back((hop, packet.to_vec()));
        }
    }

    /// Offers what waits. A peer whose carrier has no room does not hold up the others.
    pub(super) fn send_waiting(&mut self, now: Instant, devices: &mut Devices) {
        if self.waiting.is_empty() {
            return;
        }
        self.offered = now;
        let mut full: Vec<Hop> = Vec::new();
        self.waiting.retain(|(hop, packet)| {
            let waits = full.contains(hop) || !offer(hop, packet, devices);
            if waits && !full.contains(hop) {
                full.push(*hop);
            }
            waits
        });
    }

    /// When to offer again what waits.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| self.offered + RETRY)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Whether the carrier has taken the packet, or never will.
fn offer(hop: &Hop, packet: &[u8], devices: &mut Devices) -> bool {
    let outcome = devices.get_mut(hop.slot).map(|device| device.send(&hop.to, packet));
    !matches!(outcome, Some(Ok(Outcome::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::RawFd;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::carriers::Slot;
    use crate::transport::Address;

    /// What has left, in its order, and to whom nothing leaves.
    #[derive(Default)]
    struct Seen {
        sent: Vec<(u16, u8)>,
        full: Vec<u16>,
        lost: Vec<u16>,
    }

    struct Carrier(Arc<Mutex<Seen>>);

    impl Datagrams for Carrier {
        fn name(&self) -> &'static str {
            "test"
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

        fn receive(&mut self, _: &mut dyn FnMut(&[u8]), _: usize) -> usize {
            0
        }

        fn fd(&self) -> RawFd {
            -1
        }

        fn packet_size(&self) -> usize {
            1024
        }
    }

    fn hop(port: u16) -> Hop {
        Hop { slot: Slot::Udp, to: Address::Udp(([192, 0, 2, 1], port).into()) }
    }

    fn carrier() -> (Arc<Mutex<Seen>>, Devices) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let devices = Devices { raw: Vec::new(), udp: Some(Box::new(Carrier(Arc::clone(&seen)))) };
        (seen, devices)
    }

    #[test]
    fn a_peer_without_room_waits_in_order_and_holds_up_nobody() {
        let (seen, mut devices) = carrier();
        let mut singly = Singly::default();
        seen.lock().unwrap().full = vec![1];
        for (port, packet) in [(1, 10), (1, 11), (2, 20), (1, 12)] {
            singly.send(Instant(5), hop(port), &[packet], &mut devices);
        }
        assert_eq!(seen.lock().unwrap().sent, [(2, 20)]);
        assert_eq!(singly.next_timeout(), Some(Instant(5) + RETRY));
        singly.send_waiting(Instant(9), &mut devices);
        assert_eq!((seen.lock().unwrap().sent.len(), singly.next_timeout()), (1, Some(Instant(9) + RETRY)));
        seen.lock().unwrap().full.clear();
        singly.send_waiting(Instant(10), &mut devices);
        assert_eq!(seen.lock().unwrap().sent, [(2, 20), (1, 10), (1, 11), (1, 12)]);
        assert!(singly.is_empty() && singly.next_timeout().is_none());
    }

    #[test]
    fn what_can_never_leave_is_forgotten_and_what_waits_is_bounded() {
        let (seen, mut devices) = carrier();
        let mut singly = Singly::default();
        seen.lock().unwrap().full = vec![1];
        for packet in 0..WAITING_MAX + 100 {
            singly.send(Instant(0), hop(1), &[packet as u8], &mut devices);
        }
        assert_eq!(singly.waiting.len(), WAITING_MAX);
        seen.lock().unwrap().lost = vec![1];
        singly.send_waiting(Instant(1), &mut devices);
        assert!(singly.is_empty() && seen.lock().unwrap().sent.is_empty());
    }
}
