//! The network: packets in and out of the flows.

use std::collections::VecDeque;

use weft_core::flow::{Deliver, Event, Failure, Flow, Regions};
use weft_core::time::Instant;
use weft_core::wire;
use weft_net::datagrams::{Address, Datagrams, Outcome};

use super::direct::PeerMemory;
use super::{Engine, FRAMES_PER_PASS, Path};
use crate::messages::Messages;
use crate::request::State;

/// Packets that one pass sends to one peer before others get their turn.
const PACKETS_PER_PASS: usize = 128;
/// Longest train that is collected before it leaves, in bytes.
const TRAIN_BYTES_MAX: usize = 64 << 10;

/// A train, or the rest of one, that found the link's send buffer full.
pub(super) struct Stalled {
    to: Address,
    bytes: Vec<u8>,
    segment: usize,
}

/// Room for a train.
pub(super) fn train_room(datagrams: &dyn Datagrams) -> Vec<u8> {
    vec![0; TRAIN_BYTES_MAX.min(datagrams.train_bytes()).max(datagrams.packet_size())]
}

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

    /// Sends what the flow of `peer` has for it, consecutive packets of equal size together.
    pub(super) fn transmit_to(&mut self, peer: u32, now: Instant) {
        let Self { links, messages, datagrams, train, stalled, .. } = self;
        let Some(datagrams) = datagrams else { return };
        if !send_stalled(datagrams.as_mut(), stalled) {
            return;
        }
        let Path::Remote(remote) = &mut links[peer as usize].path else { return };
        let Some(flow) = &mut remote.flow else { return };
        let mut packets = 0;
        while packets < PACKETS_PER_PASS {
            let Some(next) = flow.poll_train(now, &mut Sources(messages), train, PACKETS_PER_PASS - packets) else {
                break;
            };
            packets += next.bytes.div_ceil(next.segment);
            if !send_train(datagrams.as_mut(), &remote.address, &train[..next.bytes], next.segment, stalled) {
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

/// Sends a train; `false` when the link has no room, and what is left waits in `stalled`.
fn send_train(
    datagrams: &mut dyn Datagrams,
    to: &Address,
    train: &[u8],
    segment: usize,
    stalled: &mut VecDeque<Stalled>,
) -> bool {
    let taken = take(datagrams, to, train, segment);
    if taken < train.len() {
        stalled.push_back(Stalled { to: *to, bytes: train[taken..].to_vec(), segment });
    }
    taken == train.len()
}

/// Sends what found no room before; `false` when there is none yet.
fn send_stalled(datagrams: &mut dyn Datagrams, stalled: &mut VecDeque<Stalled>) -> bool {
    while let Some(first) = stalled.front_mut() {
        let taken = take(datagrams, &first.to, &first.bytes, first.segment);
        if taken < first.bytes.len() {
            first.bytes.drain(..taken);
            return false;
        }
        stalled.pop_front();
    }
    true
}

/// How many bytes of a train the link takes now.
fn take(datagrams: &mut dyn Datagrams, to: &Address, train: &[u8], segment: usize) -> usize {
    // An error of the kernel counts as lost packets: the flow repairs it or reports the peer.
    if train.len() > segment {
        return datagrams.send_train(to, train, segment).unwrap_or(train.len());
    }
    if matches!(datagrams.send(to, train), Ok(Outcome::WouldBlock)) { 0 } else { train.len() }
}

fn describe(reason: Failure) -> &'static str {
    match reason {
        Failure::Silent => "it has not answered for longer than WEFT_PEER_TIMEOUT",
        Failure::Blocked => {
            "it answers, but a packet does not get through however often it is sent: the network may carry only smaller ones"
        }
    }
}
