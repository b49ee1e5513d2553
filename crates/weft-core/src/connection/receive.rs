//! The receiving half of a connection: packets that are taken at once, packets that wait for earlier ones,
//! and messages and data that are handed on.

use super::{
    ALIVE, Connection, DATA, DATA_PREFIX, EARLY_BYTES_MAX, EARLY_MAX, HEADER_SIZE, MESSAGES, NUMBER_AT, PROBE, Silence,
};
use crate::flow::{Deliver, Failure};
use crate::wire::{Ciphers, FRAME_PREFIX, Number};
use alloc::boxed::Box;

impl Connection {
    /// Takes a packet that claims to be from this peer (`wire::peek_sender`). Only its number is looked at
    /// before its tag is verified.
    pub fn handle_packet(&mut self, bytes: &[u8], deliver: &mut dyn Deliver) {
        if self.failed {
            return;
        }
        let Some(number) = self.verified(bytes) else {
            self.counters.forged += 1;
            return;
        };
        if number < self.expected {
            self.counters.duplicates += 1;
            return;
        }
        if number > self.expected {
            return self.keep_early(number, bytes, deliver);
        }
        self.take(number, bytes, deliver);
        if !self.early.packets.is_empty() {
            self.take_early(deliver);
        }
    }

    /// Takes the packet that is expected.
    #[inline]
    fn take(&mut self, number: u64, bytes: &[u8], deliver: &mut dyn Deliver) {
        self.expected += 1;
        self.silence = Silence { looked: self.silence.looked, ..Silence::default() };
        self.open(number, bytes, deliver);
    }

    /// Hands on the content of an authentic packet.
    fn open(&mut self, number: u64, bytes: &[u8], deliver: &mut dyn Deliver) {
        self.counters.packets_received += 1;
        let kind = bytes[11];
        if !self.settings.sealed || kind > DATA {
            return self.handle_body(kind, &bytes[HEADER_SIZE..], deliver);
        }
        let at = if kind == DATA { HEADER_SIZE + DATA_PREFIX } else { HEADER_SIZE };
        let (own, peer) = (&self.tag_key, &self.peer_tag_key);
        let mut ciphers = self.ciphers.take().unwrap_or_else(|| Box::new(Ciphers::new(own, peer)));
        match ciphers.open_at(number, 1, at, bytes) {
            Some(opened) => self.handle_body(kind, &opened[HEADER_SIZE..], deliver),
            None => self.counters.unsealed += 1,
        }
        self.ciphers = Some(ciphers);
    }

    /// Keeps a packet before which another one is missing. Bulk data is put in its place; messages wait.
    #[cold]
    fn keep_early(&mut self, number: u64, bytes: &[u8], deliver: &mut dyn Deliver) {
        if self.early.packets.contains_key(&number) {
            self.counters.duplicates += 1;
            return;
        }
        let is_data = bytes[11] == DATA;
        let kept = if is_data { 0 } else { bytes.len() };
        if self.early.packets.len() >= EARLY_MAX || self.early.bytes + kept > EARLY_BYTES_MAX {
            return self.fail(Failure::Lost);
        }
        self.early.bytes += kept;
        self.early.packets.insert(number, (!is_data).then(|| bytes.to_vec()));
        if is_data {
            self.open(number, bytes, deliver);
        }
    }

    /// Takes the packets that have waited for the one that has just been taken.
    #[cold]
    fn take_early(&mut self, deliver: &mut dyn Deliver) {
        while let Some(packet) = self.early.packets.remove(&self.expected) {
            match packet {
                Some(bytes) => {
                    self.early.bytes -= bytes.len();
                    self.take(self.expected, &bytes, deliver);
                }
                None => self.expected += 1,
            }
        }
    }

    /// The whole number of an authentic packet.
    fn verified(&self, bytes: &[u8]) -> Option<u64> {
        let low = u32::from_le_bytes(*bytes.get(NUMBER_AT..HEADER_SIZE)?.first_chunk()?);
        // The number with these low bits that is nearest to the expected one.
        let away = Number(low).since(Number(self.expected as u32));
        let number = self.expected.checked_add_signed(away.into())?;
        self.peer_tag_key.verify((number >> 32) as u32, bytes).then_some(number)
    }

    fn handle_body(&mut self, kind: u8, body: &[u8], deliver: &mut dyn Deliver) {
        match kind {
            MESSAGES => self.handle_messages(body, deliver),
            DATA => {
                let Some((prefix, payload)) = body.split_first_chunk::<DATA_PREFIX>() else {
                    self.counters.malformed += 1;
                    return;
                };
                let (key, offset) = prefix.split_at(4);
                let remote_key = key.first_chunk().map_or(0, |key| u32::from_le_bytes(*key));
                let offset = offset.first_chunk().map_or(0, |offset| u64::from_le_bytes(*offset));
                self.counters.data_packets_received += 1;
                self.counters.bytes_received += payload.len() as u64;
                deliver.data(remote_key, offset, payload);
            }
            PROBE if body.is_empty() => {
                self.counters.probes_received += 1;
                self.owes_answer = true;
            }
            ALIVE if body.is_empty() => {}
            _ => self.counters.malformed += 1,
        }
    }

    fn handle_messages(&mut self, body: &[u8], deliver: &mut dyn Deliver) {
        self.counters.data_packets_received += 1;
        let mut rest = body;
        while let Some((length, after)) = rest.split_first_chunk() {
            let Some((message, after)) = after.split_at_checked(usize::from(u16::from_le_bytes(*length))) else {
                break;
            };
            self.counters.messages_received += 1;
            self.counters.bytes_received += (FRAME_PREFIX + message.len()) as u64;
            deliver.message(message);
            rest = after;
        }
        self.counters.malformed += u64::from(!rest.is_empty());
    }
}
