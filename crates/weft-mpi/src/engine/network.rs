//! The network: packets in and out of the flows.

use std::collections::VecDeque;

use weft_core::flow::{Deliver, Event, Failure, Flow, Regions, Train};
use weft_core::rails::Sentence;
use weft_core::reach::{self, Keys};
use weft_core::time::Instant;
use weft_core::wire;
use weft_net::datagrams::{Address, Datagrams, Outcome};

use super::direct::PeerMemory;
use super::lanes::{Devices, Hop, Remote, Slot};
use super::{Engine, FRAMES_PER_PASS, Path};
use crate::messages::Messages;
use crate::request::State;

/// Packets that one pass sends to one peer before others get their turn.
const PACKETS_PER_PASS: usize = 128;
/// Longest train that is collected before it leaves, in bytes.
const TRAIN_BYTES_MAX: usize = 64 << 10;

/// While raw frames are looked for in memory, UDP is looked at once in so many passes that found nothing: a look is a system call.
pub(super) const UDP_EVERY: u32 = 16;
/// Answers about lanes that one pass gives.
const ANSWERS_MAX: usize = 64;

/// A train, or the rest of one, that found the link's send buffer full.
pub(super) struct Stalled {
    hop: Hop,
    bytes: Vec<u8>,
    segment: usize,
}

/// Room for a train.
pub(super) fn train_room(devices: &Devices) -> Vec<u8> {
    let longest = devices.iter().map(|device| device.train_bytes()).max().unwrap_or(0).min(TRAIN_BYTES_MAX);
    vec![0; devices.iter().map(|device| device.packet_size()).fold(longest, usize::max)]
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
        if !self.devices.raw.is_empty() {
            for place in 0..self.devices.raw.len() {
                self.receive(Slot::Raw(place), now);
            }
            self.udp_looks = self.udp_looks.wrapping_add(1);
            if !self.udp_looks.is_multiple_of(UDP_EVERY) {
                return;
            }
        }
        if self.devices.udp.is_some() && self.receive(Slot::Udp, now) > 0 {
            // Where something was, more will be.
            self.udp_looks = UDP_EVERY - 1;
        }
    }

    fn receive(&mut self, slot: Slot, now: Instant) -> usize {
        let Self { devices, messages, memory, links, active, secret, rank, foreign, .. } = self;
        let mut answers: Vec<(Hop, Sentence)> = Vec::new();
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
            if reach::is_reach(bytes) {
                let answer = remote.handle_reach(slot, bytes, || Keys::new(secret, *rank, peer));
                answers.extend(answer.filter(|_| answers.len() < ANSWERS_MAX));
                return;
            }
            remote.flow(secret, *rank, peer).handle_packet(now, bytes, &mut Adapter { peer, messages, memory });
            if !std::mem::replace(&mut remote.active, true) {
                active.push(peer);
            }
        };
        let Some(device) = devices.get_mut(slot) else { return 0 };
        let count = device.receive(&mut on_packet, FRAMES_PER_PASS);
        for (hop, answer) in &answers {
            say(devices, hop, answer);
        }
        count
    }

    /// The flow to `peer`, made on first use, and due to be looked at.
    pub(super) fn flow(&mut self, peer: u32) -> &mut Flow {
        let Path::Remote(remote) = &mut self.links[peer as usize].path else {
            unreachable!("only remote peers have flows")
        };
        if !std::mem::replace(&mut remote.active, true) {
            self.active.push(peer);
        }
        remote.flow(&self.secret, self.rank, peer)
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
        let Self { links, messages, devices, train, stalled, secret, rank, .. } = self;
        if !send_stalled(devices, stalled) {
            return;
        }
        let Path::Remote(remote) = &mut links[peer as usize].path else { return };
        for lane in 0..remote.lanes() {
            if let Some((hop, question)) = remote.poll_question(lane, now, || Keys::new(secret, *rank, peer)) {
                say(devices, &hop, &question);
            }
        }
        let mut packets = 0;
        while packets < PACKETS_PER_PASS && stalled.is_empty() {
            let Some(flow) = &mut remote.flow else { return };
            let Some(next) = flow.poll_train(now, &mut Sources(messages), train, PACKETS_PER_PASS - packets) else {
                break;
            };
            packets += next.bytes.div_ceil(next.segment);
            send_train(devices, remote, &train[..next.bytes], &next, stalled);
        }
        remote.doubt_after_probes();
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

/// Sends a question or an answer. One that is lost is asked again, or for again.
fn say(devices: &mut Devices, hop: &Hop, sentence: &Sentence) {
    if let Some(device) = devices.get_mut(hop.slot) {
        let _ = device.send(&hop.to, sentence);
    }
}

/// Sends a train over its lane; what the link has no room for waits in `stalled`.
fn send_train(
    devices: &mut Devices,
    remote: &mut Remote,
    bytes: &[u8],
    train: &Train,
    stalled: &mut VecDeque<Stalled>,
) {
    let (lane, hop) = remote.hop(usize::from(train.bulk));
    let Some(device) = devices.get_mut(hop.slot) else { return };
    match take(device.as_mut(), &hop.to, bytes, train.segment) {
        Taken::Bytes(taken) if taken < bytes.len() => {
            stalled.push_back(Stalled { hop, bytes: bytes[taken..].to_vec(), segment: train.segment });
        }
        Taken::Bytes(_) => {}
        Taken::Refused => remote.doubt(lane),
    }
}

/// Sends what found no room before; `false` when there is none yet.
fn send_stalled(devices: &mut Devices, stalled: &mut VecDeque<Stalled>) -> bool {
    while let Some(first) = stalled.front_mut() {
        let Some(device) = devices.get_mut(first.hop.slot) else { return true };
        match take(device.as_mut(), &first.hop.to, &first.bytes, first.segment) {
            Taken::Bytes(taken) if taken < first.bytes.len() => {
                first.bytes.drain(..taken);
                return false;
            }
            _ => stalled.pop_front(),
        };
    }
    true
}

/// What became of a train.
enum Taken {
    /// The link has taken so many bytes; the rest has no room yet.
    Bytes(usize),
    /// The machine refuses packets of this lane, which counts as loss: the flow repairs it or reports the peer.
    Refused,
}

fn take(device: &mut dyn Datagrams, to: &Address, train: &[u8], segment: usize) -> Taken {
    if train.len() > segment {
        return device.send_train(to, train, segment).map_or(Taken::Refused, Taken::Bytes);
    }
    match device.send(to, train) {
        Ok(Outcome::WouldBlock) => Taken::Bytes(0),
        Ok(Outcome::Sent | Outcome::TooLarge) => Taken::Bytes(train.len()),
        Ok(Outcome::Dropped) | Err(_) => Taken::Refused,
    }
}

fn describe(reason: Failure) -> &'static str {
    match reason {
        Failure::Silent => {
            "it has not answered for longer than WEFT_PEER_TIMEOUT: its host or the network may be down, or it was stopped"
        }
        Failure::Blocked => {
            "it answers, but a packet does not get through however often it is sent: the network may carry only smaller ones"
        }
    }
}
