//! Builds the packets that leave a flow: one at a time, or a train of equal size.

use super::acknowledged::Progress;
use super::incoming::Cause;
use super::loss_detection::LossCause;
use super::path_mtu::Cutting;
use super::queue::{Content, Departure};
use super::settings::PACKET_SIZE_MIN;
use super::{Failure, Flow, Regions};
use crate::time::Instant;
use crate::wire::{Channel, DATA_OVERHEAD, ECHO_SIZE, Kind, MESSAGES_OVERHEAD, Number, PIECE_OVERHEAD, Packet, Piece};

/// Consecutive packets, each `segment` bytes long; only the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Bytes of all packets.
    pub bytes: usize,
    /// Bytes of each but the last.
    pub segment: usize,
    /// The path that all packets take, at most `Settings::bulk_paths`. Path 0 is that of messages, and of all
    /// other packets.
    pub path: usize,
    /// More packets may be due at once. Otherwise another look brings at most a probe of another path, which
    /// can wait for the next look.
    pub more: bool,
}

/// A packet that was written.
struct Written {
    length: usize,
    path: usize,
    /// The content of the packet, if it went for the first time.
    fresh: Option<Content>,
}

impl Flow {
    /// Writes the next packet that is due into `out` (at least `packet_size` bytes) and returns its length.
    /// `None`: nothing may leave before something arrives, is submitted, or `next_timeout` passes.
    pub fn poll_transmit(&mut self, now: Instant, regions: &mut dyn Regions, out: &mut [u8]) -> Option<usize> {
        Some(self.poll_one(now, regions, out)?.length)
    }

    /// Writes a train: up to `packets_max` packets of equal size, as many as fit into `out`, one after the
    /// other; otherwise as `poll_transmit`. A train is at most half a window, so that acknowledgements come
    /// while the rest is still to be sent.
    pub fn poll_train(
        &mut self,
        now: Instant,
        regions: &mut dyn Regions,
        out: &mut [u8],
        packets_max: usize,
    ) -> Option<Train> {
        let Written { length, path, fresh } = self.poll_one(now, regions, out)?;
        let mut train = Train { bytes: length, segment: length, path, more: true };
        let Some(content) = fresh.filter(|_| !self.outgoing.is_long(path, &self.settings)) else { return Some(train) };
        let window = self.outgoing.paths[path].congestion.window() as usize;
        let packets_max = packets_max.min(window / 2).min(out.len() / length);
        let packets = self.even(packets_max, content.is_data());
        for packet in 2..=packets {
            if !self.next_extends(now, path, &content, length) {
                break;
            }
            let departure = self.next_new(now, path, content.is_data());
            // The kernel cuts trains into equal packets: a shorter packet ends the train, and each train
            // costs about as much as copying 40 KB.
            let fills = matches!(departure.content, Content::Data { fills: true, .. })
                && !self.settings.sealed
                && packet < packets
                && self.next_extends(now, path, &content, length);
            let least = if fills { length } else { 0 };
            let written = self.emit_numbered(now, &departure, least, regions, &mut out[train.bytes..]);
            train.bytes += written;
            if written < length {
                break;
            }
        }
        // The packets that come before new ones have left, and they carried the acknowledgement.
        train.more = self.outgoing.has_more();
        Some(train)
    }

    /// The length of a train of which one packet is written, at most `most`. Where the queued packets need
    /// two trains, both have one length. The receiver works on the first while the second is made, and no
    /// call is spent on a packet or two.
    fn even(&self, most: usize, data: bool) -> usize {
        let (messages_max, data_max) = self.payload_max();
        let queue = &self.outgoing.queue;
        let whole = 1 + if data { queue.data_packets_left(data_max) } else { queue.message_packets_left(messages_max) };
        if whole > most && whole < 2 * most { whole.div_ceil(2) } else { most }
    }

    fn poll_one(&mut self, now: Instant, regions: &mut dyn Regions, out: &mut [u8]) -> Option<Written> {
        if self.failed {
            return None;
        }
        self.host_delay.look(now);
        let progress = self.outgoing.check_late(now, &self.settings);
        self.count_progress(&progress);
        if self.must_acknowledge_first() {
            return Some(self.emit_acknowledgement(now, out));
        }
        if self.outgoing.mtu.is_some()
            && let Some(written) = self.emit_for_size(now, regions, out)
        {
            return Some(written);
        }
        if let Some((departure, cause)) = self.outgoing.next_resend(now, &self.settings) {
            match cause {
                LossCause::Gap => self.counters.resent_by_gap += 1,
                LossCause::Probe => self.counters.resent_by_probe += 1,
                LossCause::Path => self.counters.resent_by_path += 1,
                LossCause::Denial => self.counters.resent_by_denial += 1,
            }
            if self.begins_cut(&departure) {
                return self.emit_for_size(now, regions, out);
            }
            let length = self.emit_numbered(now, &departure, 0, regions, out);
            return Some(Written { length, path: departure.path, fresh: None });
        }
        if self.outgoing.hopeless {
            self.fail(Failure::Blocked);
            return None;
        }
        let next = self.outgoing.next_path(now, &self.settings);
        let probe = self.outgoing.due_probe(now, self.watched, &self.settings);
        // A packet on another path does not put off a probe.
        if let Some((path, data)) = next.filter(|(path, _)| probe.is_none_or(|probe| probe == *path)) {
            let departure = self.next_new(now, path, data);
            if self.begins_cut(&departure) {
                return self.emit_for_size(now, regions, out);
            }
            let length = self.emit_numbered(now, &departure, 0, regions, out);
            return Some(Written { length, path, fresh: Some(departure.content) });
        }
        if let Some(path) = probe {
            if self.outgoing.peer_is_silent(now, path, &self.settings) {
                self.fail(Failure::Silent);
                return None;
            }
            self.counters.probes += 1;
            self.incoming.acknowledged();
            let number = self.take_control();
            self.outgoing.probe_sent(now, Number(number as u32), path);
            let length = self.emit_control(now, number, Kind::Probe(Number(number as u32)), path, out);
            return Some(Written { length, path, fresh: None });
        }
        if self.incoming.ack_deadline().is_some_and(|due| due <= now) {
            return Some(self.emit_acknowledgement(now, out));
        }
        None
    }

    /// Returns whether a packet is longer than its path carries, and leaves in pieces from now on.
    #[inline]
    fn begins_cut(&mut self, departure: &Departure) -> bool {
        let begins = self.outgoing.begins_cut(departure, &self.settings);
        if begins {
            self.counters.cut += 1;
        }
        begins
    }

    /// Writes the next piece of a packet, or a question whether a path carries packets of some size.
    #[cold]
    fn emit_for_size(&mut self, now: Instant, regions: &mut dyn Regions, out: &mut [u8]) -> Option<Written> {
        let [smaller, larger] = self.outgoing.take_size_changes(now);
        self.counters.packets_smaller += u64::from(smaller);
        self.counters.packets_larger += u64::from(larger);
        if let Some(Cutting { departure, at, size }) = self.outgoing.cutting() {
            let length = self.emit_piece(now, &departure, at, size, regions, out);
            return Some(Written { length, path: departure.path, fresh: None });
        }
        let departure = self.outgoing.next_question(now, &self.settings)?;
        let Content::Question { size } = departure.content else { return None };
        let least = usize::from(size) - self.settings.seal_size();
        let length = self.emit_numbered(now, &departure, least, regions, out);
        Some(Written { length, path: departure.path, fresh: None })
    }

    /// Writes the piece of a packet that follows after `left` bytes of its payload, no longer than `size`
    /// bytes.
    ///
    /// Every other transmission goes from the end of the packet to its beginning. The last pieces of a burst
    /// are those for which a buffer on the way has no room, and they must not be the same ones each time.
    fn emit_piece(
        &mut self,
        now: Instant,
        departure: &Departure,
        left: u16,
        size: u16,
        regions: &mut dyn Regions,
        out: &mut [u8],
    ) -> usize {
        let &Departure { number, transmission, path, order, content, request } = departure;
        let channel = self.channel(&content);
        let whole = content.payload_bytes();
        let room = usize::from(size) - PIECE_OVERHEAD - self.settings.seal_size();
        let bytes = room.min(usize::from(whole - left));
        let until = left + bytes as u16;
        let from = if transmission.is_multiple_of(2) { whole - until } else { left };
        let control = self.take_control();
        let head = self.head(now, Kind::Piece(Number(control as u32)), false, path, true);
        let mut at = head.emit(0, out);
        let number = Number(number as u32);
        at += Piece { number, transmission, order, channel, request, whole, at: from }.emit(&mut out[at..]);
        self.read_content(&content, usize::from(from), regions, &mut out[at..at + bytes]);
        let mut length = at + bytes;
        if self.settings.sealed {
            // Packets with messages or data never have the transmission 0, so no other packet is sealed with
            // this nonce.
            length = self.ciphers().seal(control, 0, at, length, out);
        }
        self.outgoing.cut_until(until, until == whole);
        self.finish((control >> 32) as u32, length, out)
    }

    /// The channel that a packet with this content names for its payload.
    #[inline]
    fn channel(&self, content: &Content) -> Channel {
        match *content {
            Content::Messages { first, .. } => Channel::Messages { first },
            Content::Data { remote_key, offset, end, .. } => Channel::Data { remote_key, offset, end },
            Content::Question { .. } => Channel::Messages { first: self.outgoing.queue.next_message() },
        }
    }

    /// Fills `out` with the bytes of a payload from `from` on.
    #[inline]
    fn read_content(&self, content: &Content, from: usize, regions: &mut dyn Regions, out: &mut [u8]) {
        match *content {
            Content::Messages { start, .. } => {
                let start = start.wrapping_add(from as u32);
                let (low, high) = self.outgoing.queue.frames(start, out.len() as u16);
                out[..low.len()].copy_from_slice(low);
                out[low.len()..].copy_from_slice(high);
            }
            Content::Data { region, offset, .. } => regions.read(region, offset + from as u64, out),
            Content::Question { .. } => {}
        }
    }

    /// Returns whether an acknowledgement goes ahead of bulk data: the data would carry it on a slower path,
    /// or could not carry all of it.
    fn must_acknowledge_first(&self) -> bool {
        let overtakes = self.settings.bulk_paths > 0 && !self.outgoing.queue.has_unsent_messages();
        self.incoming.is_urgent() && (overtakes || self.incoming.wants_map())
    }

    #[inline]
    fn next_new(&mut self, now: Instant, path: usize, data: bool) -> Departure {
        self.counters.data_packets_sent += 1;
        if self.outgoing.is_long(path, &self.settings) {
            self.counters.long_packets_sent += 1;
            return self.outgoing.next_long(now, &self.settings);
        }
        let (messages_max, data_max) = self.payload_max();
        self.outgoing.next_new(now, &self.settings, path, data, if data { data_max } else { messages_max })
    }

    /// Most bytes of messages and of data that the next packet takes. Data leaves room for the echo that goes
    /// with it.
    pub(super) fn payload_max(&self) -> (usize, usize) {
        let packet = self.outgoing.packet_size();
        let echo = if self.incoming.has_echo() { ECHO_SIZE } else { 0 };
        (self.settings.messages_max(packet), packet - self.settings.seal_size() - DATA_OVERHEAD - echo)
    }

    /// Returns whether the next packet is new, of the same kind as `content`, and at most `segment` bytes
    /// long.
    fn next_extends(&mut self, now: Instant, path: usize, content: &Content, segment: usize) -> bool {
        if !self.outgoing.window_is_open(path, content.is_data(), &self.settings)
            || content.is_data() && !self.outgoing.pacing_allows(now, path)
            || self.must_acknowledge_first()
            || self.outgoing.may_resend(now)
        {
            return false;
        }
        let (messages_max, data_max) = self.payload_max();
        let queue = &self.outgoing.queue;
        let echo = if self.incoming.has_echo() { ECHO_SIZE } else { 0 };
        let seal = self.settings.seal_size();
        let messages_wait = queue.has_unsent_messages();
        match content {
            Content::Messages { run, .. } if messages_wait => {
                let without_echo = MESSAGES_OVERHEAD - ECHO_SIZE + queue.peek_messages(messages_max) + seal;
                let echo = if self.has_room_for_echo(without_echo, *run, path) { echo } else { 0 };
                *run == queue.is_run(messages_max) && without_echo + echo <= segment
            }
            // Messages overtake bulk data, unless their own path is full.
            Content::Data { .. } if !messages_wait || !self.outgoing.messages_may_leave(&self.settings) => {
                queue.peek_data(data_max).is_some_and(|length| DATA_OVERHEAD + echo + length + seal <= segment)
            }
            _ => false,
        }
    }

    /// Returns whether a packet of `length` bytes has room for an echo. In a run the full packets do without
    /// an echo, so that all of them have one size.
    fn has_room_for_echo(&self, length: usize, run: bool, path: usize) -> bool {
        let most = self.outgoing.packet_size_on(path, &self.settings);
        length + if run { 2 * ECHO_SIZE } else { ECHO_SIZE } <= most
    }

    /// Writes a packet that is at least `least` bytes long: zeros fill it up.
    ///
    /// A packet that is sent again is as long as with an echo, so it is never shorter than before. Otherwise
    /// a packet that only its echo makes too long for its path would be lost once and would arrive the second
    /// time, again and again, and the flow would not doubt the size.
    fn emit_numbered(
        &mut self,
        now: Instant,
        departure: &Departure,
        least: usize,
        regions: &mut dyn Regions,
        out: &mut [u8],
    ) -> usize {
        self.counters.acks_piggybacked += u64::from(self.incoming.is_ack_pending());
        self.incoming.acknowledged();
        let &Departure { number, transmission, path, order, content, request } = departure;
        let (channel, length) = (self.channel(&content), usize::from(content.payload_bytes()));
        let kind = Kind::Numbered { number: Number(number as u32), transmission, order, channel };
        let run = matches!(content, Content::Messages { run: true, .. });
        let echoes = self.has_room_for_echo(content.packet_bytes() + self.settings.seal_size(), run, path);
        let head = self.head(now, kind, request, path, echoes);
        let at = head.emit(length, out);
        self.read_content(&content, 0, regions, &mut out[at..at + length]);
        let least = match transmission {
            1 => {
                self.counters.bytes_sent += length as u64;
                least
            }
            _ if echoes => content.packet_bytes() + ECHO_SIZE,
            _ => least,
        };
        let mut whole = at + length;
        if whole < least {
            // Zeros, not the bytes that an earlier train has left there.
            out[whole..least].fill(0);
            whole = least;
        }
        if self.settings.sealed {
            whole = self.ciphers().seal(number, transmission, at, whole, out);
        }
        self.finish((number >> 32) as u32, whole, out)
    }

    fn count_acknowledgement(&mut self) {
        let counters = &mut self.counters;
        counters.acks_standalone += 1;
        let by_cause = match self.incoming.cause() {
            Cause::Delay => &mut counters.acks_by_delay,
            Cause::Count => &mut counters.acks_by_count,
            Cause::Disorder => &mut counters.acks_by_disorder,
            Cause::Duplicate => &mut counters.acks_by_duplicate,
            Cause::Request => &mut counters.acks_by_request,
            Cause::Probe => &mut counters.acks_by_probe,
            Cause::Mark => &mut counters.acks_by_mark,
        };
        *by_cause += 1;
    }

    fn emit_acknowledgement(&mut self, now: Instant, out: &mut [u8]) -> Written {
        self.count_acknowledgement();
        let number = self.take_control();
        let head = self.head(now, Kind::Acknowledgement(Number(number as u32)), false, 0, true);
        let at = head.emit(0, out);
        // The peer that asks may have missed an acknowledgement because it was longer.
        let is_asked = self.incoming.cause() == Cause::Probe;
        let room = if is_asked { PACKET_SIZE_MIN } else { self.outgoing.packet_size() };
        let room = room.min(out.len());
        let map = self.incoming.write_map(&mut out[at..room]);
        self.incoming.acknowledged_alone(self.settings.ack_scheme);
        Written { length: self.finish((number >> 32) as u32, at + map, out), path: 0, fresh: None }
    }

    fn emit_control(&mut self, now: Instant, number: u64, kind: Kind, path: usize, out: &mut [u8]) -> usize {
        let length = self.head(now, kind, false, path, true).emit(0, out);
        self.finish((number >> 32) as u32, length, out)
    }

    fn take_control(&mut self) -> u64 {
        let number = self.next_control;
        self.next_control += 1;
        number
    }

    fn head(&mut self, now: Instant, kind: Kind, request: bool, path: usize, echoes: bool) -> Packet {
        let (acknowledged, selective) = self.incoming.state();
        let echo = if echoes { self.incoming.take_echo(now) } else { None };
        let marked = self.incoming.take_mark();
        Packet { sender: self.own_index, acknowledged, selective, echo, request, marked, path: path as u8, kind }
    }

    fn finish(&mut self, epoch: u32, length: usize, out: &mut [u8]) -> usize {
        self.tag_key.write_tag(epoch, &mut out[..length]);
        self.counters.packets_sent += 1;
        length
    }

    #[inline]
    pub(super) fn count_progress(&mut self, progress: &Progress) {
        self.counters.acknowledged_unsent += u64::from(progress.unsent);
        self.counters.lost_by_gap += u64::from(progress.lost_by_gap);
        self.counters.lost_by_probe += u64::from(progress.lost_by_probe);
        self.counters.lost_by_denial += u64::from(progress.lost_by_denial);
        let [loss, mark, delay] = progress.cuts;
        self.counters.window_cuts += u64::from(loss);
        self.counters.window_cuts_by_mark += u64::from(mark);
        self.counters.window_cuts_by_delay += u64::from(delay);
    }
}
