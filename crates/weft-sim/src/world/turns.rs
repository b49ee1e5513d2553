//! A process's turn: it takes the packets that have arrived, begins the conversations that are due, grants,
//! and sends.

use super::World;
use crate::agenda::Happening;
use crate::grants::Control;
use crate::nuisance::Flight;
use crate::process::Peer;
use crate::violation::Violation;
use weft_core::flow::{Counters, Event, Flow};
use weft_core::path_validation::{self, Ends, Keys};
use weft_core::process::Parties;
use weft_core::rails::{Handled, RailCarrier, Rails, Role};
use weft_core::time::{Duration, Instant};
use weft_core::wire;

/// The most packets that a process handles, and the most that it sends, before it looks at the rest of its
/// work.
const BATCH: usize = 64;
/// The packets for one peer before the next peer has its turn.
const TURN: usize = 16;
/// The time after which a flow is asked again that wants to be asked at once and had nothing: virtual time
/// must move on.
const MOMENT: Duration = Duration(100);
/// The end of a peer's turn to send.
enum Turn {
    /// The flow has no more to send now, after this number of packets.
    Done(usize),
    /// The flow sent this number of packets, at least `TURN`.
    Over(usize),
    /// The host's queue is full, after this number of packets.
    NoRoom(usize),
}

/// The carriers of `count` networks: raw frames and UDP through each.
fn rails(count: u8) -> Rails {
    let carriers = |rail| [Role::SmallMessages, Role::BulkData].map(|carrier| (carrier, rail));
    let carrier =
        |(carrier, rail)| RailCarrier { role: carrier, rail, ends: Ends { own: rail, peer: rail }, standby: false };
    Rails::new(&(0..count).flat_map(carriers).map(carrier).collect::<Vec<_>>())
}

impl World<'_> {
    /// Makes sure that a process runs at `at`, or before.
    pub(crate) fn wake(&mut self, own: u32, at: Instant) {
        let process = &mut self.processes[own as usize];
        let at = at.max(process.busy_until).max(self.now);
        if process.wake_at.is_none_or(|planned| at < planned) {
            process.wake_at = Some(at);
            self.agenda.add(at, Happening::Wake(own));
        }
    }

    /// Returns whether the process is to run now; an earlier wake-up may have made this one obsolete.
    pub(crate) fn is_due(&self, own: u32) -> bool {
        self.processes[own as usize].wake_at == Some(self.now)
    }

    pub(crate) fn run_process(&mut self, own: u32) -> Result<(), Violation> {
        let process = &mut self.processes[own as usize];
        process.wake_at = None;
        if let Some(until) = process.away_until(self.now) {
            self.wake(own, until);
            return Ok(());
        }
        let handled = self.handle_arrivals(own)?;
        self.begin(own);
        self.grant(own);
        let sent = self.send(own)?;
        let process = &mut self.processes[own as usize];
        process.busy_until = self.now + Duration((handled + sent) as u64 * process.packet_cost.0);
        self.plan_wake(own);
        Ok(())
    }

    /// The peer of a process; made now, if the two have traffic and there is no peer yet.
    fn peer(&mut self, own: u32, other: u32) -> Option<usize> {
        if let Some(&peer) = self.processes[own as usize].by_index.get(&other) {
            return Some(peer);
        }
        let (&there, &back) = (self.pairs.get(&(own, other))?, self.pairs.get(&(other, own))?);
        let flow = Flow::new(self.settings.clone(), &self.secret, &Parties::of_only_job(own, other));
        let has_lanes = self.fabrics.len() > 1 || self.plan.host.frames;
        let rails = has_lanes.then(|| rails(self.fabrics.len() as u8));
        let process = &mut self.processes[own as usize];
        process.by_index.insert(other, process.peers.len());
        let (past, rests) = (Counters::default(), 0);
        process.peers.push(Peer { flow, past, rests, rails, other, there, back, active: false, timer: None });
        Some(process.peers.len() - 1)
    }

    fn handle_arrivals(&mut self, own: u32) -> Result<usize, Violation> {
        let mut count = 0;
        for index in self.processes[own as usize].looks() {
            for _ in 0..BATCH {
                let socket = &mut self.processes[own as usize].sockets[index];
                let Some(entry) = socket.slots.pop_front() else { break };
                let flight = self.packets.take(entry);
                socket.bytes -= flight.bytes.len() as u64;
                self.handle(own, &flight)?;
                self.spare.push(flight.bytes);
                count += 1;
            }
        }
        Ok(count)
    }

    fn handle(&mut self, own: u32, flight: &Flight) -> Result<(), Violation> {
        self.capture(own, false, flight);
        let sender = wire::peek_sender(&flight.bytes);
        let Some(index) = sender.and_then(|from| self.peer(own, from)) else {
            self.report.strangers += 1;
            return Ok(());
        };
        if self.is_answered(own, index, flight) {
            return Ok(());
        }
        let process = &mut self.processes[own as usize];
        let peer = &mut process.peers[index];
        let (there, back) = (peer.there, peer.back);
        let conversation = &mut self.conversations[back];
        let (messages, arrived) = (conversation.messages_received, conversation.bytes);
        conversation.now = self.now;
        let (bytes, now) = (&flight.bytes, process.clock.read(self.now));
        peer.flow.handle_train(now, bytes, bytes.len(), flight.marked, conversation);
        if let Some(number) = flight.number {
            conversation.witness.arrived(number);
        }
        if let Some(violation) = &conversation.violation {
            return Err(Violation(violation.clone()));
        }
        let answered = conversation.messages_received > messages;
        self.report.deliver(self.now, conversation.bytes - arrived);
        // The program waits for the data that is still to come.
        peer.flow.watch(!conversation.has_arrived());
        let sending = &self.conversations[there];
        if let (true, Some(_), Some(at)) = (answered, sending.traffic.lead, sending.last_submitted) {
            self.report.round_trips.push(self.now.since(at));
        }
        self.note_memory(own, index)?;
        self.take_events(own, index)?;
        self.hear(own, index);
        self.processes[own as usize].activate(index);
        Ok(())
    }

    /// Returns whether the packet is about the paths; answers a question about them.
    fn is_answered(&mut self, own: u32, index: usize, flight: &Flight) -> bool {
        let process = &mut self.processes[own as usize];
        let now = process.clock.read(self.now);
        let peer = &mut process.peers[index];
        let (there, other) = (peer.there, peer.other);
        let Some(rails) = peer.rails.as_mut().filter(|_| path_validation::is_path_frame(&flight.bytes)) else {
            return false;
        };
        let keys = || Keys::new(&self.secret, &Parties::of_only_job(own, other));
        match rails.handle(flight.carrier, &flight.bytes, keys) {
            Handled::Answer(carrier, answer) => {
                let carrier = rails.named(carrier);
                self.say(there, own, other, carrier, &answer);
            }
            Handled::PeerLives => peer.flow.heard_beside(now),
            Handled::Nothing => {}
        }
        true
    }

    fn say(&mut self, conversation: usize, own: u32, other: u32, carrier: RailCarrier, sentence: &[u8]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(sentence);
        let RailCarrier { role: carrier, rail, .. } = carrier;
        self.launch(
            conversation,
            Flight { from: own, to: other, bytes, number: None, marked: false, path: 0, rail, carrier },
        );
    }

    /// Sends the questions about paths that are due.
    fn ask(&mut self, own: u32, index: usize) {
        let now = self.processes[own as usize].clock.read(self.now);
        for carrier in 0..2 * self.fabrics.len() {
            let peer = &mut self.processes[own as usize].peers[index];
            let (there, other) = (peer.there, peer.other);
            let Some(rails) = &mut peer.rails else { return };
            if let Some(question) =
                rails.poll_challenge(carrier, now, || Keys::new(&self.secret, &Parties::of_only_job(own, other)))
            {
                let carrier = rails.named(carrier);
                self.say(there, own, other, carrier, &question);
            }
        }
    }

    /// Takes the peer's announcements and grants, and notes the arrival of data that was granted to it.
    fn hear(&mut self, own: u32, index: usize) {
        let process = &mut self.processes[own as usize];
        let Peer { there, back, ref flow, .. } = process.peers[index];
        let round_trip = flow.shortest_round_trip();
        let conversation = &mut self.conversations[back];
        let now = process.clock.read(self.now);
        for (region, bytes) in conversation.arrivals.drain(..) {
            process.granting.arrived(now, index, region, bytes, round_trip);
        }
        for control in std::mem::take(&mut conversation.heard) {
            match control {
                Control::Announce(region) => {
                    let bytes = self.conversations[back].traffic.bulk[region as usize];
                    process.granting.announced(index, region, bytes);
                }
                Control::Grant(region, range) => self.conversations[there].granted.push_back((region, range)),
            }
        }
    }

    /// Sends the grants that are due.
    fn grant(&mut self, own: u32) {
        let process = &mut self.processes[own as usize];
        let now = process.clock.read(self.now);
        while let Some((peer, grant)) = process.granting.poll(now) {
            self.conversations[process.peers[peer].there].controls.push_back(grant);
            process.activate(peer);
        }
    }

    fn note_memory(&mut self, own: u32, peer: usize) -> Result<(), Violation> {
        let peer = &self.processes[own as usize].peers[peer];
        let held = peer.flow.memory_bytes();
        self.report.flow_bytes_max = self.report.flow_bytes_max.max(held);
        if held > self.flow_bytes_allowed {
            return Err(Violation(format!("the flow from {own} to {} holds {held} bytes", peer.other)));
        }
        Ok(())
    }

    /// Takes the events of a flow: only bytes that have arrived may be acknowledged, and no peer may fail.
    fn take_events(&mut self, own: u32, peer: usize) -> Result<(), Violation> {
        let peer = &mut self.processes[own as usize].peers[peer];
        while let Some(event) = peer.flow.poll_event() {
            match event {
                Event::Acknowledged { region, bytes } => {
                    self.conversations[peer.there].acknowledged(region, bytes).map_err(Violation)?;
                }
                Event::PeerFailed { reason } => {
                    return Err(Violation(format!("{own} takes {} for failed: {reason:?}", peer.other)));
                }
            }
        }
        peer.rest(own, &self.settings, &self.secret);
        Ok(())
    }

    /// Begins the conversations and timers whose time has come.
    fn begin(&mut self, own: u32) {
        while let Some(&(at, conversation)) = self.processes[own as usize].to_begin.last() {
            if at > self.now {
                break;
            }
            self.processes[own as usize].to_begin.pop();
            let other = self.conversations[conversation].traffic.to;
            if let Some(peer) = self.peer(own, other) {
                self.processes[own as usize].activate(peer);
            }
        }
        let process = &mut self.processes[own as usize];
        while let Some(&(at, peer)) = process.timers.first() {
            if at > self.now {
                break;
            }
            process.set_timer(peer, None);
            process.activate(peer);
        }
    }

    /// Sends for each peer in turn while the host's queue has room.
    fn send(&mut self, own: u32) -> Result<usize, Violation> {
        let mut sent = 0;
        while sent < BATCH {
            let Some(index) = self.processes[own as usize].active.pop_front() else { break };
            let turn = self.send_to(own, index)?;
            let process = &mut self.processes[own as usize];
            match turn {
                Turn::Done(count) => {
                    sent += count;
                    process.peers[index].active = false;
                    self.rearm(own, index);
                }
                Turn::Over(count) => {
                    sent += count;
                    process.active.push_back(index);
                }
                Turn::NoRoom(count) => {
                    process.active.push_front(index);
                    return Ok(sent + count);
                }
            }
        }
        Ok(sent)
    }

    fn has_room(&mut self, own: u32) -> bool {
        let now = self.now;
        self.fabrics.iter_mut().all(|fabric| fabric.host_waiting_bytes(now, own) <= self.plan.host.send_bytes)
    }

    fn send_to(&mut self, own: u32, index: usize) -> Result<Turn, Violation> {
        let mut count = 0;
        self.ask(own, index);
        while count < TURN {
            if !self.has_room(own) {
                return Ok(Turn::NoRoom(count));
            }
            let process = &mut self.processes[own as usize];
            let peer = &mut process.peers[index];
            let (there, other) = (peer.there, peer.other);
            let received = self.conversations[peer.back].messages_received;
            let conversation = &mut self.conversations[there];
            conversation.submit(self.now, &mut peer.flow, received);
            let local = process.clock.read(self.now);
            let packets_max = self.plan.host.train_packets;
            let train = peer.flow.poll_train(local, conversation, &mut self.packet, packets_max);
            let (mut rail, mut carrier) = (0, Role::BulkData);
            if let Some(rails) = &mut peer.rails {
                RailCarrier { rail, role: carrier, .. } =
                    rails.named(rails.carrier(train.map_or(0, |train| train.path)));
                rails.steer(&mut peer.flow);
            }
            let Some(train) = train else {
                self.note_memory(own, index)?;
                self.take_events(own, index)?;
                return Ok(Turn::Done(count));
            };
            for start in (0..train.bytes).step_by(train.segment) {
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.clear();
                bytes.extend_from_slice(&self.packet[start..(start + train.segment).min(train.bytes)]);
                let (number, marked, path) = (None, false, 0);
                self.depart(there, Flight { from: own, to: other, bytes, number, marked, path, rail, carrier })?;
                count += 1;
            }
            let peer = &mut self.processes[own as usize].peers[index];
            if !train.more && self.settings.bulk_paths == 0 {
                let next = peer.flow.poll_train(local, &mut self.conversations[there], &mut self.packet, packets_max);
                assert!(next.is_none(), "a train that was to be the last is followed by {next:?}");
            }
        }
        Ok(Turn::Over(count))
    }

    fn rearm(&mut self, own: u32, index: usize) {
        let process = &mut self.processes[own as usize];
        let peer = &process.peers[index];
        let received = self.conversations[peer.back].messages_received;
        let turn = self.conversations[peer.there].next_turn(&peer.flow, received);
        let question = peer.rails.as_ref().filter(|_| !peer.flow.is_idle()).and_then(Rails::next_timeout);
        let timeout = [peer.flow.next_timeout(), question].into_iter().flatten().min();
        let timeout = timeout.map(|at| process.clock.reaches(at));
        let next = [turn, timeout].into_iter().flatten().min();
        process.set_timer(index, next.map(|at| at.max(self.now + MOMENT)));
    }

    fn plan_wake(&mut self, own: u32) {
        let process = &self.processes[own as usize];
        let waits = process.sockets.iter().any(|socket| !socket.slots.is_empty());
        let mut next = waits.then_some(self.now);
        let timer = process.timers.first().map(|(at, _)| *at);
        let begin = process.to_begin.last().map(|(at, _)| *at);
        let granting = process.granting.next_timeout().map(|at| process.clock.reaches(at));
        next = [next, timer, begin, granting].into_iter().flatten().min();
        if !process.active.is_empty() {
            // The process is woken when there is room for a batch, not for one packet, and so less often.
            let room = self.plan.host.send_bytes;
            let room = if self.has_room(own) { room } else { room / 4 * 3 };
            let now = self.now;
            let free =
                self.fabrics.iter_mut().map(|fabric| fabric.host_waits_at_most(now, own, room)).max().unwrap_or(now);
            next = Some(next.map_or(free, |at| at.min(free)));
        }
        if let Some(at) = next {
            let busy = self.processes[own as usize].busy_until;
            // Even a process that costs nothing takes a moment between two looks.
            self.wake(own, if busy > self.now { at } else { at.max(self.now + MOMENT) });
        }
    }
}
