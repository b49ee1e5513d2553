//! Takes in the packets that arrive at a flow.

use super::acknowledged::Heard;
use super::incoming::{Arrival, Arriving, BareArrival, Cause};
use super::{AckScheme, Deliver, Event, Flow};
use crate::time::Instant;
use crate::wire::{Kind, Lane, Packet, peek_number};

impl Flow {
    /// Takes a datagram that claims to be from this flow's peer (`wire::peek_sender`).
    /// Nothing but its length and its number are looked at before its tag is verified.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8], sink: &mut dyn Deliver) {
        self.handle_one(now, bytes, false, sink);
    }

    /// Takes several datagrams that claim to be from this flow's peer: `bytes` holds them one after the other, each `segment`
    /// bytes long, only the last may be shorter. `marked`: the network marked at least one as having met congestion (RFC 3168).
    pub fn handle_train(&mut self, now: Instant, bytes: &[u8], segment: usize, marked: bool, sink: &mut dyn Deliver) {
        if bytes.len() <= segment {
            return self.handle_one(now, bytes, marked, sink);
        }
        for packet in bytes.chunks(segment.max(1)) {
            self.handle_one(now, packet, marked, sink);
        }
    }

    fn handle_one(&mut self, now: Instant, bytes: &[u8], marked: bool, sink: &mut dyn Deliver) {
        if self.failed {
            return;
        }
        self.pauses.look(now);
        let Some((number, numbered)) = peek_number(bytes) else {
            self.counters.forged += 1;
            return;
        };
        let epoch = self.incoming.epoch(number, numbered);
        let is_right = self.verify.verify(epoch, bytes);
        #[cfg(weft_mutant = "damaged_acknowledgement_believed")]
        let is_right = is_right || !numbered;
        if !is_right {
            self.counters.forged += 1;
            return;
        }
        if !(self.settings.sealed && numbered) {
            return self.handle_authentic(now, bytes, marked, sink);
        }
        self.ciphers();
        let Some(mut ciphers) = self.ciphers.take() else { return };
        match ciphers.open(epoch, bytes) {
            Some(opened) => self.handle_authentic(now, opened, marked, sink),
            None => self.counters.unsealed += 1,
        }
        self.ciphers = Some(ciphers);
    }

    fn handle_authentic(&mut self, now: Instant, bytes: &[u8], marked: bool, sink: &mut dyn Deliver) {
        let Some((packet, payload)) = Packet::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let numbered = matches!(packet.kind, Kind::Numbered { .. });
        self.counters.packets_received += 1;
        let mut map: &[u8] = &[];
        // What was there before may have been recorded and be sent again by anybody: no proof that the peer lives.
        let mut is_new = true;
        match packet.kind {
            Kind::Numbered { .. } => is_new = self.handle_numbered(now, &packet, payload, sink),
            Kind::Acknowledgement(number) | Kind::Probe(number) => {
                let arrival = self.incoming.bare_arrives(number);
                if arrival != BareArrival::New {
                    self.counters.replayed += 1;
                    // Acknowledgements of another lane may have overtaken a probe that waited long in its socket. An answer does no
                    // harm, and without one the lane would seem dead.
                    if packet.kind == Kind::Probe(number) && arrival == BareArrival::Old {
                        self.counters.probes_received += 1;
                        self.incoming.probed(now, number, self.pauses.away());
                    }
                    return;
                }
                if packet.kind == Kind::Probe(number) {
                    self.counters.probes_received += 1;
                    self.incoming.probed(now, number, self.pauses.away());
                }
                map = payload;
            }
        }
        if is_new {
            self.outgoing.heard(now);
        }
        if marked {
            self.counters.marks += 1;
            // An acknowledgement that was marked is not answered: its answer might be marked too.
            if numbered {
                self.incoming.marked();
            }
        }
        self.handle_acknowledgement(now, &packet, map);
    }

    /// Whether the packet is taken: for the first time, and its turn may come.
    fn handle_numbered(&mut self, now: Instant, packet: &Packet, payload: &[u8], sink: &mut dyn Deliver) -> bool {
        let Kind::Numbered { number, transmission, order, lane } = packet.kind else { return false };
        match self.incoming.classify(number, self.settings.window_packets) {
            Arrival::Outside => {
                self.counters.out_of_window += 1;
                return false;
            }
            Arrival::Duplicate => {
                self.counters.duplicates += 1;
                self.incoming.hurry(Cause::Duplicate);
                return false;
            }
            Arrival::New => {}
        }
        if let Lane::Messages { first } = lane
            && !self.incoming.expects_messages(first, self.settings.window_packets)
        {
            self.counters.malformed += 1;
            return false;
        }
        self.counters.data_packets_received += 1;
        let more_follows = matches!(lane, Lane::Data { end: false, .. });
        let messages = matches!(lane, Lane::Messages { .. });
        let (way, away) = (packet.way, self.pauses.away());
        let arriving = Arriving { number, transmission, order, way, messages, more_follows, away };
        let late = self.incoming.arrive(now, &arriving, &self.settings);
        self.counters.reordered += u64::from(late);
        let mut ends = false;
        match lane {
            Lane::Messages { first } => {
                let (messages, bytes) = self.incoming.messages(first, payload, &mut |body| sink.message(body));
                self.counters.messages_received += messages;
                self.counters.bytes_received += bytes;
            }
            Lane::Data { sink: name, offset, end } => {
                sink.data(name, offset, payload);
                self.counters.bytes_received += payload.len() as u64;
                ends = end;
            }
        }
        if packet.request && messages {
            self.incoming.asked(now);
        } else if packet.request || ends && self.settings.ack_scheme == AckScheme::Immediate {
            self.incoming.hurry(Cause::Request);
        }
        true
    }

    fn handle_acknowledgement(&mut self, now: Instant, packet: &Packet, map: &[u8]) {
        let &Packet { acknowledged: first_missing, selective, echo, marked, .. } = packet;
        let heard = Heard { first_missing, selective, map, echo, marked, away: self.pauses.away() };
        if self.outgoing.is_known(&heard) {
            return;
        }
        let events = &mut self.events;
        let mut acknowledged = |region: u32, bytes: u64| match events.back_mut() {
            Some(Event::Acknowledged { region: last, bytes: sum }) if *last == region => *sum += bytes,
            _ => events.push_back(Event::Acknowledged { region, bytes }),
        };
        let progress = self.outgoing.acknowledge(now, &heard, &self.settings, &mut acknowledged);
        self.count_progress(&progress);
    }
}
