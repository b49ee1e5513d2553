//! The traffic that one process owes another, and the part that has arrived, checked byte by byte as it
//! arrives.

use crate::grants::Control;
use crate::plan::Traffic;
use crate::witness::Witness;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use weft_core::flow::{Deliver, Flow, Regions};
use weft_core::time::{Duration, Instant};
use weft_core::wire::Key;
use weft_random::{fill, mix};

/// The first remote key of a sink. Regions are numbered from 0, so that a check notices a sink that is taken
/// for a region.
const REMOTE_KEY_OFFSET: u32 = 1000;

/// Size of a control message, bytes.
const CONTROL_BYTES: usize = 24;

/// The kind of a message on its way.
#[derive(Debug)]
enum Note {
    /// The workload's message of this number.
    Message(u32),
    /// A control message, with its number. Only its receiver may look at its content.
    Control(u32, Control),
}

/// The name of the noise that is the content of message `index`, or region `index`, from one process to
/// another.
fn key(seed: u64, from: u32, to: u32, kind: u64, index: u32) -> u64 {
    mix(mix(seed ^ kind << 56 ^ u64::from(from) << 32 ^ u64::from(to)) ^ u64::from(index))
}

/// The bytes of a remote key that have arrived: the begin and end of each piece, neighbours joined.
#[derive(Debug, Default)]
struct Places(BTreeMap<u64, u64>);

impl Places {
    /// Adds a piece. Returns false if some of it is there already.
    fn add(&mut self, begin: u64, end: u64) -> bool {
        let before = self.0.range(..=begin).next_back().map(|(&b, &e)| (b, e));
        let after = self.0.range(begin..).next().map(|(&b, &e)| (b, e));
        if before.is_some_and(|(_, e)| e > begin) || after.is_some_and(|(b, _)| b < end) {
            return false;
        }
        let (mut begin, mut end) = (begin, end);
        if let Some((b, _)) = before.filter(|(_, e)| *e == begin) {
            begin = b;
        }
        if let Some((b, e)) = after.filter(|(b, _)| *b == end) {
            self.0.remove(&b);
            end = e;
        }
        self.0.insert(begin, end);
        true
    }
}

/// Times from submission to delivery.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Times of messages.
    pub messages: Vec<Duration>,
    /// Times of ranges of bulk data, until all of the range was there.
    pub transfers: Vec<Duration>,
}

/// The traffic of one direction of one pair.
#[derive(Debug)]
pub struct Conversation {
    seed: u64,
    /// The messages and bulk data to be sent.
    pub traffic: Traffic,
    frame_max: usize,
    /// The fate of the conversation's packets.
    pub witness: Witness,
    /// The key that opens the conversation's packets, for the witness and the trace.
    pub key: Key,
    // The sender's side.
    messages_sent: u32,
    bulk_begun: usize,
    /// Bytes acknowledged, by region.
    acknowledged: Vec<u64>,
    next_turn: Instant,
    /// Messages that have not arrived, with the time of their submission.
    submitted: VecDeque<(Instant, Note)>,
    /// Control messages that are to be sent.
    pub controls: VecDeque<Control>,
    controls_sent: u32,
    /// Ranges that the peer has granted and that are to be sent.
    pub granted: VecDeque<(u32, Range<u64>)>,
    /// The time when the newest message was submitted.
    pub last_submitted: Option<Instant>,
    bulk_submitted: Vec<Instant>,
    // The receiver's side.
    /// The number of messages that arrived.
    pub messages_received: u32,
    /// Control messages that arrived, for the receiver to take.
    pub heard: Vec<Control>,
    arrived: Vec<Places>,
    placed: Vec<u64>,
    /// Granted data that arrived, by region, for the receiver to take.
    pub arrivals: Vec<(u32, u64)>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// The true time of the next delivery.
    pub now: Instant,
    /// The time when the last payload arrived.
    pub delivered_at: Instant,
    /// The durations of messages and transfers.
    pub times: Times,
    /// The first error.
    pub violation: Option<String>,
    scratch: Vec<u8>,
}

impl Conversation {
    /// Begins a conversation; no message has been sent yet.
    pub fn new(seed: u64, traffic: Traffic, frame_max: usize, key: Key) -> Self {
        let regions = traffic.bulk.len();
        Self {
            seed,
            traffic,
            frame_max,
            witness: Witness::default(),
            key,
            messages_sent: 0,
            bulk_begun: 0,
            acknowledged: vec![0; regions],
            next_turn: Instant(0),
            submitted: VecDeque::new(),
            controls: VecDeque::new(),
            controls_sent: 0,
            granted: VecDeque::new(),
            last_submitted: None,
            bulk_submitted: Vec::new(),
            messages_received: 0,
            heard: Vec::new(),
            arrivals: Vec::new(),
            arrived: Vec::new(),
            placed: vec![0; regions],
            bytes: 0,
            now: Instant(0),
            delivered_at: Instant(0),
            times: Times::default(),
            violation: None,
            scratch: Vec::new(),
        }
    }

    fn key(&self, kind: u64, index: u32) -> u64 {
        key(self.seed, self.traffic.from, self.traffic.to, kind, index)
    }

    fn message_size(&self, index: u32) -> usize {
        let (low, high) = self.traffic.sizes;
        ((low + self.key(3, index) % (high - low + 1)) as usize).min(self.frame_max)
    }

    /// Submits the messages and bulk data that may be submitted, given the number of messages that came back.
    pub fn submit(&mut self, now: Instant, flow: &mut Flow, received: u32) {
        if now >= self.next_turn.max(self.traffic.begin) {
            self.take_turn(now, flow, received);
        }
        while let Some(control) = self.controls.pop_front() {
            let number = self.controls_sent;
            let mut body = [0; CONTROL_BYTES];
            fill(self.key(4, number), 0, &mut body);
            flow.submit_message(&body, &[]);
            self.submitted.push_back((now, Note::Control(number, control)));
            self.controls_sent += 1;
        }
        while let Some((region, range)) = self.granted.pop_front() {
            flow.submit_data(region + REMOTE_KEY_OFFSET, region, range);
        }
    }

    fn take_turn(&mut self, now: Instant, flow: &mut Flow, received: u32) {
        let mut turn = 0;
        let mut body = std::mem::take(&mut self.scratch);
        while self.may_send(received) && turn < self.traffic.per_turn && flow.can_accept() {
            let index = self.messages_sent;
            body.resize(self.message_size(index), 0);
            fill(self.key(1, index), 0, &mut body);
            let (head, payload) = body.split_at(body.len() / 3);
            flow.submit_message(head, payload);
            self.messages_sent += 1;
            self.submitted.push_back((now, Note::Message(index)));
            turn += 1;
        }
        self.scratch = body;
        if turn > 0 {
            self.last_submitted = Some(now);
            self.next_turn = now + self.traffic.gap;
        }
        while self.may_begin_bulk() {
            let region = self.bulk_begun as u32;
            if self.traffic.fetched {
                self.controls.push_back(Control::Announce(region));
            } else {
                self.granted.push_back((region, 0..self.traffic.bulk[self.bulk_begun]));
            }
            self.bulk_submitted.push(now);
            self.bulk_begun += 1;
        }
    }

    fn may_send(&self, received: u32) -> bool {
        self.messages_sent < self.traffic.messages
            && self.traffic.lead.is_none_or(|lead| self.messages_sent < received.saturating_add(lead))
    }

    /// Returns whether a further range of bulk data may begin: bulk data is spread over the messages.
    fn may_begin_bulk(&self) -> bool {
        let total = self.traffic.bulk.len();
        let begun = self.bulk_begun;
        if begun == total
            || u64::from(self.messages_sent) * total as u64 >= begun as u64 * u64::from(self.traffic.messages)
        {
            let open = (0..begun).filter(|&i| self.acknowledged[i] < self.traffic.bulk[i]).count();
            return begun < total && open < self.traffic.bulk_open;
        }
        false
    }

    /// The time when `submit` would do something if nothing arrives.
    pub fn next_turn(&self, flow: &Flow, received: u32) -> Option<Instant> {
        (self.may_send(received) && flow.can_accept() || self.may_begin_bulk())
            .then(|| self.next_turn.max(self.traffic.begin))
    }

    /// Notes an acknowledgement of bytes of a region: they must have arrived.
    pub fn acknowledged(&mut self, region: u32, bytes: u64) -> Result<(), String> {
        let Traffic { from, to, .. } = self.traffic;
        let Some(total) = self.acknowledged.get_mut(region as usize) else {
            return Err(format!("{from} was told of region {region}, which it never sent to {to}"));
        };
        *total += bytes;
        let placed = self.placed[region as usize];
        if *total > placed {
            return Err(format!(
                "{from} was told that {total} bytes of region {region} are at {to}, which has {placed}"
            ));
        }
        Ok(())
    }

    /// Returns whether every message and every byte is submitted, has arrived, and is acknowledged.
    pub fn is_complete(&self) -> bool {
        self.messages_sent == self.traffic.messages
            && self.messages_received == self.traffic.messages
            && self.bulk_begun == self.traffic.bulk.len()
            && self.placed == self.traffic.bulk
            && self.acknowledged == self.traffic.bulk
    }

    /// Returns whether everything has arrived.
    pub fn has_arrived(&self) -> bool {
        self.messages_received == self.traffic.messages && self.placed == self.traffic.bulk
    }

    /// Describes the part of the traffic that has arrived.
    pub fn progress(&self) -> String {
        let (placed, bulk): (u64, u64) = (self.placed.iter().sum(), self.traffic.bulk.iter().sum());
        let Traffic { from, to, messages, .. } = self.traffic;
        format!("from {from} to {to}: {} of {messages} messages, {placed} of {bulk} bytes", self.messages_received)
    }

    fn wrong(&mut self, what: String) {
        let (from, to) = (self.traffic.from, self.traffic.to);
        self.violation.get_or_insert(format!("from {from} to {to}: {what}"));
    }

    fn arrived(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.delivered_at = self.now;
    }

    /// Returns whether these bytes are the noise of this name.
    fn is_noise(&mut self, key: u64, offset: u64, bytes: &[u8]) -> bool {
        self.scratch.resize(bytes.len(), 0);
        fill(key, offset, &mut self.scratch);
        bytes == self.scratch
    }
}

impl Regions for Conversation {
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]) {
        let length = self.traffic.bulk[region as usize];
        assert!(offset + out.len() as u64 <= length, "the flow reads beyond the end of a region");
        fill(self.key(2, region), offset, out);
    }
}

impl Deliver for Conversation {
    fn message(&mut self, body: &[u8]) {
        let Some((at, note)) = self.submitted.pop_front() else {
            return self.wrong("more messages arrive than were sent".into());
        };
        let (key, size) = match note {
            Note::Message(index) => (self.key(1, index), self.message_size(index)),
            Note::Control(number, _) => (self.key(4, number), CONTROL_BYTES),
        };
        if body.len() != size || !self.is_noise(key, 0, body) {
            return self.wrong(format!("{note:?} is damaged, repeated or out of order"));
        }
        match note {
            Note::Message(_) => {
                self.messages_received += 1;
                self.arrived(body.len());
                self.times.messages.push(self.now.since(at));
            }
            Note::Control(_, control) => self.heard.push(control),
        }
    }

    fn data(&mut self, remote_key: u32, offset: u64, bytes: &[u8]) {
        let Some(region) =
            remote_key.checked_sub(REMOTE_KEY_OFFSET).filter(|region| (*region as usize) < self.bulk_begun)
        else {
            return self.wrong(format!("data for sink {remote_key} that nobody offered"));
        };
        let (index, end) = (region as usize, offset + bytes.len() as u64);
        if end > self.traffic.bulk[index] {
            return self.wrong(format!("data beyond the end of sink {remote_key}"));
        }
        if !self.is_noise(self.key(2, region), offset, bytes) {
            return self.wrong(format!("damaged data at {offset} of sink {remote_key}"));
        }
        if self.arrived.len() <= index {
            self.arrived.resize_with(index + 1, Places::default);
        }
        if !self.arrived[index].add(offset, end) {
            return self.wrong(format!("data at {offset} of sink {remote_key} arrives twice"));
        }
        self.placed[index] += bytes.len() as u64;
        if self.traffic.fetched {
            self.arrivals.push((region, bytes.len() as u64));
        }
        self.arrived(bytes.len());
        if self.placed[index] == self.traffic.bulk[index] {
            self.arrived[index] = Places::default();
            // A byte that arrives again now lies beyond the acknowledged ones, and `placed` would show it.
            self.arrived[index].add(0, self.traffic.bulk[index]);
            self.times.transfers.push(self.now.since(self.bulk_submitted[index]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::process::ProcessName;

    fn conversation() -> Conversation {
        let traffic = Traffic { messages: 3, sizes: (10, 10), bulk: vec![100], ..Traffic::between(0, 1) };
        let mut conversation = Conversation::new(
            1,
            traffic,
            1000,
            Key::derive(
                &weft_core::wire::Secret::new([1; 16]),
                ProcessName::of_only_job(0),
                ProcessName::of_only_job(1),
            ),
        );
        (conversation.messages_sent, conversation.bulk_begun) = (3, 1);
        conversation.submitted.extend((0..3).map(|index| (Instant(0), Note::Message(index))));
        conversation.bulk_submitted.push(Instant(0));
        conversation
    }

    fn message(conversation: &Conversation, index: u32) -> Vec<u8> {
        let mut body = vec![0; 10];
        fill(conversation.key(1, index), 0, &mut body);
        body
    }

    fn data(conversation: &mut Conversation, offset: u64, length: usize) {
        let mut bytes = vec![0; length];
        conversation.read(0, offset, &mut bytes);
        conversation.data(REMOTE_KEY_OFFSET, offset, &bytes);
    }

    #[test]
    fn what_is_right_is_taken() {
        let mut conversation = conversation();
        for index in 0..3 {
            let body = message(&conversation, index);
            conversation.message(&body);
        }
        for offset in [50, 0, 75, 25] {
            data(&mut conversation, offset, 25);
        }
        conversation.acknowledged(0, 100).expect("all have arrived");
        assert_eq!(conversation.violation, None);
        assert!(conversation.is_complete() && conversation.bytes == 130);
    }

    #[test]
    fn what_is_wrong_is_noticed() {
        type Wrong = fn(&mut Conversation);
        let wrongs: [(Wrong, &str); 7] = [
            (|c| c.message(&message(c, 1)), "out of order"),
            (|c| [0, 0].iter().for_each(|&i| c.message(&message(c, i))), "out of order"),
            (|c| c.message(&message(c, 0)[..9]), "damaged"),
            (|c| [10, 30, 29].iter().for_each(|&at| data(c, at, 10)), "twice"),
            (|c| [(0, 100), (99, 1)].iter().for_each(|&(at, length)| data(c, at, length)), "twice"),
            (|c| c.data(REMOTE_KEY_OFFSET, 0, &[0; 10]), "damaged data"),
            (|c| c.data(REMOTE_KEY_OFFSET + 1, 0, &[0; 10]), "nobody offered"),
        ];
        for (wrong, what) in wrongs {
            let mut conversation = conversation();
            wrong(&mut conversation);
            let violation = conversation.violation.expect(what);
            assert!(violation.contains(what), "{violation}");
        }
        let mut early = conversation();
        data(&mut early, 0, 50);
        assert!(early.acknowledged(0, 51).is_err() && early.acknowledged(1, 1).is_err());
    }
}
