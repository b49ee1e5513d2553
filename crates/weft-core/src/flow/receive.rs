//! Takes in the packets that arrive at a flow.

use super::acknowledged::AckInfo;
use super::incoming::{Arrival, Arriving, BareArrival, Cause};
use super::{AckScheme, Deliver, Event, Flow};
use crate::time::Instant;
use crate::wire::{Channel, Kind, Map, Packet, Piece, is_payload, peek_number, piece_at};

impl Flow {
    /// Takes a datagram that claims to be from this flow's peer (`wire::peek_sender`). Only its length and
    /// its number are looked at before its tag is verified.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8], deliver: &mut dyn Deliver) {
        self.handle_one(now, bytes, false, deliver);
    }

    /// Takes several datagrams that claim to be from this flow's peer: `bytes` holds them one after the
    /// other, each `segment` bytes long, only the last may be shorter. `marked`: the network marked at least
    /// one as having met congestion (RFC 3168).
    pub fn handle_train(
        &mut self,
        now: Instant,
        bytes: &[u8],
        segment: usize,
        marked: bool,
        deliver: &mut dyn Deliver,
    ) {
        if bytes.len() <= segment {
            return self.handle_one(now, bytes, marked, deliver);
        }
        for packet in bytes.chunks(segment.max(1)) {
            self.handle_one(now, packet, marked, deliver);
        }
    }

    fn handle_one(&mut self, now: Instant, bytes: &[u8], marked: bool, deliver: &mut dyn Deliver) {
        if self.failed {
            return;
        }
        self.host_delay.look(now);
        let Some((number, numbered)) = peek_number(bytes) else {
            self.counters.forged += 1;
            return;
        };
        let epoch = self.incoming.epoch(number, numbered);
        let is_right = self.peer_tag_key.verify(epoch, bytes);
        #[cfg(weft_mutant = "damaged_acknowledgement_believed")]
        let is_right = is_right || !numbered;
        if !is_right {
            self.counters.forged += 1;
            return;
        }
        let piece = if self.settings.sealed && !numbered { piece_at(bytes) } else { None };
        if !(self.settings.sealed && numbered) && piece.is_none() {
            return self.handle_authentic(now, bytes, marked, deliver);
        }
        self.ciphers();
        let Some(mut ciphers) = self.ciphers.take() else { return };
        let opened = match piece {
            // As the sender seals pieces.
            Some(at) => ciphers.open_at(u64::from(epoch) << 32 | u64::from(number.0), 0, at, bytes),
            None => ciphers.open(epoch, bytes),
        };
        match opened {
            Some(opened) => self.handle_authentic(now, opened, marked, deliver),
            None => self.counters.unsealed += 1,
        }
        self.ciphers = Some(ciphers);
    }

    fn handle_authentic(&mut self, now: Instant, bytes: &[u8], marked: bool, deliver: &mut dyn Deliver) {
        let Some((packet, payload)) = Packet::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        self.counters.packets_received += 1;
        let mut map: &[u8] = &[];
        // A copy of an earlier packet may have been recorded and sent again by anybody: it does not prove
        // that the peer lives.
        let mut is_new = true;
        match packet.kind {
            Kind::Numbered { .. } => is_new = self.handle_numbered(now, &packet, payload, deliver),
            Kind::Piece(number) => {
                is_new = self.incoming.bare_arrives(number) == BareArrival::New;
                self.handle_piece(now, &packet, payload, deliver);
            }
            Kind::Acknowledgement(number) | Kind::Probe(number) => {
                let arrival = self.incoming.bare_arrives(number);
                if arrival != BareArrival::New {
                    self.counters.replayed += 1;
                    // Acknowledgements of another carrier may have overtaken a probe that waited long in its
                    // socket. An answer does no harm, and without one the carrier would seem dead.
                    if packet.kind == Kind::Probe(number) && arrival == BareArrival::Old {
                        self.counters.probes_received += 1;
                        self.incoming.probed(now, number, self.host_delay.current());
                    }
                    return;
                }
                if packet.kind == Kind::Probe(number) {
                    self.counters.probes_received += 1;
                    self.incoming.probed(now, number, self.host_delay.current());
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
            match packet.kind {
                Kind::Numbered { .. } => self.incoming.marked(),
                // The packet is acknowledged once it is whole.
                Kind::Piece(_) => self.incoming.note_mark(),
                Kind::Acknowledgement(_) | Kind::Probe(_) => {}
            }
        }
        self.handle_acknowledgement(now, &packet, map);
    }

    /// Takes a piece of a packet. The last piece completes the packet, which is then taken as if it had come
    /// whole. A piece that has come before does no harm.
    #[cold]
    fn handle_piece(&mut self, now: Instant, packet: &Packet, payload: &[u8], deliver: &mut dyn Deliver) {
        let Some((piece, bytes)) = Piece::parse(payload).filter(|(piece, bytes)| piece.holds(bytes)) else {
            self.counters.malformed += 1;
            return;
        };
        match self.incoming.classify(piece.number, &self.settings) {
            Arrival::Outside => self.counters.out_of_window += 1,
            Arrival::Duplicate => {
                self.counters.duplicates += 1;
                self.incoming.ack_now(Cause::Duplicate);
            }
            Arrival::New if usize::from(piece.whole) > self.settings.longest() => self.counters.malformed += 1,
            Arrival::New => {
                let Some(whole) = self.incoming.assemble(&piece, bytes) else { return };
                if !is_payload(&piece.channel, &whole) {
                    self.counters.malformed += 1;
                    return;
                }
                let Piece { number, transmission, order, channel, request, .. } = piece;
                let kind = Kind::Numbered { number, transmission, order, channel };
                self.handle_numbered(now, &Packet { kind, request, ..*packet }, &whole, deliver);
            }
        }
    }

    /// Returns whether the packet is taken: for the first time, and its turn may come.
    #[inline]
    fn handle_numbered(&mut self, now: Instant, packet: &Packet, payload: &[u8], deliver: &mut dyn Deliver) -> bool {
        let Kind::Numbered { number, transmission, order, channel } = packet.kind else { return false };
        match self.incoming.classify(number, &self.settings) {
            Arrival::Outside => {
                self.counters.out_of_window += 1;
                return false;
            }
            Arrival::Duplicate => {
                self.counters.duplicates += 1;
                self.incoming.ack_now(Cause::Duplicate);
                return false;
            }
            Arrival::New => {}
        }
        if let Channel::Messages { first } = channel
            && !payload.is_empty()
            && !self.incoming.expects_messages(first, payload.len(), &self.settings)
        {
            self.counters.malformed += 1;
            return false;
        }
        self.counters.data_packets_received += 1;
        let more_follows = matches!(channel, Channel::Data { end: false, .. });
        let messages = matches!(channel, Channel::Messages { .. });
        let (path, host_delay) = (packet.path, self.host_delay.current());
        let arriving = Arriving { number, transmission, order, path, messages, more_follows, host_delay };
        let late = self.incoming.arrive(now, &arriving, &self.settings);
        self.counters.reordered += u64::from(late);
        let mut ends = false;
        match channel {
            // A question whether the path carries such a packet.
            Channel::Messages { .. } if payload.is_empty() => {}
            Channel::Messages { first } => {
                let (messages, bytes) = self.incoming.messages(first, payload, &mut |body| deliver.message(body));
                self.counters.messages_received += messages;
                self.counters.bytes_received += bytes;
            }
            Channel::Data { remote_key, offset, end } => {
                deliver.data(remote_key, offset, payload);
                self.counters.bytes_received += payload.len() as u64;
                ends = end;
            }
        }
        if packet.request && messages {
            self.incoming.asked(now);
        } else if packet.request || ends && self.settings.ack_scheme == AckScheme::Immediate {
            self.incoming.ack_now(Cause::Request);
        }
        true
    }

    fn handle_acknowledgement(&mut self, now: Instant, packet: &Packet, map: &[u8]) {
        let &Packet { acknowledged: first_missing, selective, echo, marked, .. } = packet;
        let map = Map(map);
        let ack = AckInfo { first_missing, selective, map, echo, marked, host_delay: self.host_delay.current() };
        if self.outgoing.is_known(&ack) {
            return;
        }
        let events = &mut self.events;
        let mut acknowledged = |region: u32, bytes: u64| match events.back_mut() {
            Some(Event::Acknowledged { region: last, bytes: sum }) if *last == region => *sum += bytes,
            _ => events.push_back(Event::Acknowledged { region, bytes }),
        };
        let progress = self.outgoing.acknowledge(now, &ack, &self.settings, &mut acknowledged);
        self.count_progress(&progress);
    }
}
