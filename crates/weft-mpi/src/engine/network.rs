//! The network: packets in and out of the flows.

use weft_core::flow::{Deliver, Event, Failure, Flow, Regions};
use weft_core::time::Instant;
use weft_core::wire;
use weft_net::datagrams::Outcome;

use super::{Engine, FRAMES_PER_PASS, PACKETS_PER_PASS, Path, PeerMemory};
use crate::messages::Messages;
use crate::request::State;

struct Adapter<'a> {
    peer: u32,
    messages: &'a mut Messages,
    memory: &'a mut PeerMemory,
}

impl Deliver for Adapter<'_> {
    fn message(&mut self, body: &[u8]) {
        self.messages.handle_frame(self.peer, body, self.memory);
    }

    fn data(&mut self, sink: u32, offset: u64, bytes: &[u8]) {
        self.messages.handle_data(self.peer, sink, offset, bytes);
    }
}

struct Sources<'a>(&'a Messages);

impl Regions for Sources<'_> {
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]) {
        let request = self.0.requests.from_wire(region).and_then(|handle| self.0.requests.get(handle));
        match request.map(|request| &request.state) {
            Some(State::Sending { send, .. }) => send.data.read(offset, out),
            // The receiver has everything already, or the send has failed: what it gets is never looked at.
            _ => out.fill(0),
        }
    }
}

impl Engine {
    pub(super) fn poll_network(&mut self, now: Instant) {
        let Self { datagrams, messages, memory, links, active, secret, rank, foreign, .. } = self;
        let Some(datagrams) = datagrams else { return };
        let mut on_packet = |bytes: &[u8]| {
            let sender = wire::peek_sender(bytes).filter(|peer| (*peer as usize) < links.len());
            let Some(peer) = sender else {
                *foreign += 1;
                return;
            };
            let Path::Remote(remote) = &mut links[peer as usize].path else {
                *foreign += 1;
                return;
            };
            let flow = remote.flow.get_or_insert_with(|| Box::new(Flow::new(&remote.settings, *secret, *rank, peer)));
            flow.handle_packet(now, bytes, &mut Adapter { peer, messages, memory });
            if !std::mem::replace(&mut remote.active, true) {
                active.push(peer);
            }
        };
        datagrams.receive(&mut on_packet, FRAMES_PER_PASS);
    }

    /// The flow to `peer`, made on first use, and due to be looked at.
    pub(super) fn flow(&mut self, peer: u32) -> &mut Flow {
        let Path::Remote(remote) = &mut self.links[peer as usize].path else {
            unreachable!("only remote peers have flows")
        };
        if !std::mem::replace(&mut remote.active, true) {
            self.active.push(peer);
        }
        remote.flow.get_or_insert_with(|| Box::new(Flow::new(&remote.settings, self.secret, self.rank, peer)))
    }

    pub(super) fn transmit(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.active.len() {
            let peer = self.active[at];
            self.transmit_to(peer, now);
            self.collect_events(peer);
            match &mut self.links[peer as usize].path {
                Path::Remote(remote) if remote.flow.as_ref().is_some_and(|flow| !flow.is_idle()) => at += 1,
                Path::Remote(remote) => {
                    remote.active = false;
                    self.active.swap_remove(at);
                }
                // It has failed just now, and is no longer among the active ones.
                _ => {}
            }
        }
    }

    pub(super) fn transmit_to(&mut self, peer: u32, now: Instant) {
        let Self { links, messages, datagrams, packet, stalled, .. } = self;
        let Some(datagrams) = datagrams else { return };
        if let Some((address, bytes)) = stalled {
            if matches!(datagrams.send(address, bytes), Ok(Outcome::WouldBlock)) {
                return;
            }
            *stalled = None;
        }
        let Path::Remote(remote) = &mut links[peer as usize].path else { return };
        let Some(flow) = &mut remote.flow else { return };
        for _ in 0..PACKETS_PER_PASS {
            let Some(length) = flow.poll_transmit(now, &mut Sources(messages), packet) else { break };
            // An error of the kernel counts as a lost packet: the flow repairs it or reports the peer.
            if matches!(datagrams.send(&remote.address, &packet[..length]), Ok(Outcome::WouldBlock)) {
                *stalled = Some((remote.address, packet[..length].to_vec()));
                break;
            }
        }
    }

    pub(super) fn collect_events(&mut self, peer: u32) {
        loop {
            let Path::Remote(remote) = &mut self.links[peer as usize].path else { return };
            match remote.flow.as_mut().and_then(|flow| flow.poll_event()) {
                Some(Event::Acknowledged { region, bytes }) => self.messages.handle_acknowledged(region, bytes),
                Some(Event::PeerFailed { reason }) => self.peer_failed(peer, describe(reason)),
                None => return,
            }
        }
    }
}

fn describe(reason: Failure) -> &'static str {
    match reason {
        Failure::Silent => "it has not answered for longer than WEFT_PEER_TIMEOUT",
    }
}
