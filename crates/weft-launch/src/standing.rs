//! The state of a rank, published for readers outside: the current call and its duration, the awaited
//! operations, and the queues.
//!
//! A standing is the front of the [page](crate::page) of a rank, in words of 64 bits. The rank writes it in
//! place by [`Draft`] before it sleeps. The rank's agent and `weft info --live` read it as a [`Standing`].
//! The rest of the page (counters) belongs to the library.

use std::fmt::Write as _;

use crate::wire;

/// The most outstanding operations that are reported one by one.
pub const WAITS_MAX: usize = 8;
/// The most unexpected messages that are reported one by one.
pub const ARRIVED_MAX: usize = 4;
/// The most ranges of ranks that a rank may report to wait for.
const NEEDS_MAX: usize = 16;
/// The least time after which a rank counts as waiting. A rank that has waited for less may just be between
/// two messages.
pub const WAIT_NS_MIN: u64 = 100_000_000;
/// Words of a call's name.
const CALL_WORDS: usize = 6;
/// Words of a communicator's name.
const NAME_WORDS: usize = 5;
/// Words of an outstanding operation, and of an unexpected message.
const ENTRY_WORDS: usize = 4 + NAME_WORDS;

/// The places of the words.
mod at {
    use super::*;

    pub(super) const MAGIC: usize = 0;
    pub(super) const LAYOUT: usize = 1;
    pub(super) const PID: usize = 2;
    pub(super) const RANK: usize = 3;
    pub(super) const SIZE: usize = 4;
    pub(super) const PUBLISHED: usize = 5;
    pub(super) const STILL_SINCE: usize = 6;
    pub(super) const ASLEEP: usize = 7;
    pub(super) const THREADS: usize = 8;
    pub(super) const POSTED: usize = 9;
    pub(super) const UNEXPECTED: usize = 10;
    pub(super) const REQUESTS: usize = 11;
    pub(super) const WAITS: usize = 12;
    pub(super) const ARRIVED: usize = 13;
    pub(super) const NEEDS: usize = 14;
    pub(super) const RANGES: usize = 15;
    pub(super) const JOB: usize = 16;
    pub(super) const CALL: usize = 17;
    pub(super) const RANGE: usize = CALL + CALL_WORDS;
    pub(super) const WAIT: usize = RANGE + 2 * NEEDS_MAX;
    pub(super) const MESSAGE: usize = WAIT + WAITS_MAX * ENTRY_WORDS;
    pub(super) const END: usize = MESSAGE + ARRIVED_MAX * ENTRY_WORDS;
}

/// The words that a standing takes.
pub const WORDS: usize = at::END;

const MAGIC: u64 = u64::from_le_bytes(*b"weftlive");
/// The number of the layout, which changes with the meaning of the words.
const LAYOUT: u64 = 5 << 32 | at::END as u64;
/// The word for any rank, any tag, or an unknown value.
const ANY: u64 = u64::MAX;
/// The mark of an operation that the call waits for.
const AWAITED: u64 = 1 << 32;

/// A process: its rank, and the number of its job. On a page the numbers of jobs are those that
/// [`job_number`] makes, and 0 for the job of the rank that writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The number of its job.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD` of its job.
    pub rank: u32,
}

impl Process {
    /// A process of the own job.
    pub const fn own(rank: u32) -> Self {
        Self { job: 0, rank }
    }

    const fn of_word(word: u64) -> Self {
        Self { job: (word >> 32) as u32, rank: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.job) << 32 | u64::from(self.rank)
    }

    fn comes_behind(self, other: Self) -> bool {
        other.word().checked_add(1) == Some(self.word())
    }
}

/// The number of a job on pages, made from its name.
pub const fn job_number(id: u64) -> u32 {
    match (id ^ id >> 32) as u32 {
        // These say that it is the own job, and that a process is unknown.
        0 | u32::MAX => 1,
        number => number,
    }
}

/// The words for a job behind `rank 3`, such as ` of spawned job 1`; no words for the job that is meant
/// anyway.
pub type Names<'a> = &'a dyn Fn(u32) -> String;

/// The kind of an operation that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A receive without its message.
    Receive,
    /// A send whose data has not left yet.
    Send,
    /// A synchronous send that is not matched.
    Match,
    /// A receive whose data is arriving.
    Data,
    /// A probe.
    Probe,
    /// A small send for which the receiver has no room until it asks for it.
    Room,
    /// Data that moves between memory and a file. It has no peer, and the communicator's name is the file's.
    Access,
}

impl Operation {
    const ALL: [Self; 7] = [Self::Receive, Self::Send, Self::Match, Self::Data, Self::Probe, Self::Room, Self::Access];

    /// The name of the kind, with the word that leads to the peer.
    pub fn words(self) -> &'static str {
        match self {
            Self::Receive => "receive from",
            Self::Send => "send to",
            Self::Match => "match by",
            Self::Data => "data from",
            Self::Probe => "message from",
            Self::Room => "waits for room at",
            Self::Access => "access to",
        }
    }
}

/// An operation that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The kind of operation.
    pub what: &'static str,
    /// The peer; `None` for any peer.
    pub peer: Option<Process>,
    /// The tag; `None` for any tag, an unknown tag, or a collective.
    pub tag: Option<i32>,
    /// The bytes that are to come or to go.
    pub bytes: u64,
    /// The name of the communicator.
    pub communicator: String,
    /// The call that the rank is in waits for it.
    pub is_awaited: bool,
}

/// An unexpected message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The sender; `None`: it is unknown.
    pub peer: Option<Process>,
    /// The tag; `None` for a message of a collective.
    pub tag: Option<i32>,
    /// The length of the message, bytes.
    pub bytes: u64,
    /// The name of the communicator.
    pub communicator: String,
}

/// The first and the last of consecutive ranks of a job.
pub type Range = (Process, Process);

/// The ranks that a rank waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    /// The rank does not say.
    #[default]
    Unknown,
    /// All of these ranks are needed.
    All(Vec<Range>),
    /// Any of these ranks is enough.
    Any(Vec<Range>),
}

/// The state of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The number of the process.
    pub pid: u32,
    /// The index of the rank in the job.
    pub rank: u32,
    /// Processes in the job.
    pub size: u32,
    /// The number of the job.
    pub job: u32,
    /// The time since this was published, ns.
    pub published_ns: u64,
    /// The time for which no operation has completed in the same call, ns.
    pub still_ns: u64,
    /// The rank sleeps in a call until something arrives.
    pub is_asleep: bool,
    /// The threads of the rank that wait in calls.
    pub threads: u32,
    /// The call that the rank is in or was in last; empty when there was none.
    pub call: String,
    /// Receives without a message.
    pub posted: u64,
    /// Messages without a receive.
    pub unexpected: u64,
    /// Requests that exist.
    pub requests: u64,
    /// The ranks that it waits for.
    pub needs: Needs,
    /// The first operations that have not ended, those that the call waits for in front.
    pub waits: Vec<Wait>,
    /// The first messages without a receive.
    pub arrived: Vec<Arrived>,
}

/// The writer of a standing. It writes word by word without memory of its own, because a rank does this each
/// time that it goes to sleep.
pub struct Draft<'a> {
    put: &'a mut dyn FnMut(usize, u64),
    waits: usize,
    arrived: usize,
    ranges: [Range; NEEDS_MAX],
    range_count: usize,
    /// Not all ranks that it waits for could be reported.
    cut: bool,
}

/// The front of a standing.
#[derive(Clone, Copy, Debug)]
pub struct Front<'a> {
    /// The process, its rank, the size of the job, and the job's number.
    pub process: (u32, u32, u32, u32),
    /// The present time, and the time since which nothing has happened, on the machine's clock, ns.
    pub times: (u64, u64),
    /// The rank sleeps.
    pub is_asleep: bool,
    /// The threads that wait.
    pub threads: u32,
    /// The name of the call.
    pub call: &'a str,
    /// Receives without a message, unexpected messages, and requests.
    pub queues: [u64; 3],
}

impl<'a> Draft<'a> {
    /// Begins a standing with its front.
    pub fn new(put: &'a mut dyn FnMut(usize, u64), front: &Front<'_>) -> Self {
        let (pid, rank, size, job) = front.process;
        put(at::MAGIC, MAGIC);
        put(at::LAYOUT, LAYOUT);
        put(at::PID, pid.into());
        put(at::RANK, rank.into());
        put(at::SIZE, size.into());
        put(at::JOB, job.into());
        put(at::PUBLISHED, front.times.0);
        put(at::STILL_SINCE, front.times.1);
        put(at::ASLEEP, front.is_asleep.into());
        put(at::THREADS, front.threads.into());
        for (index, value) in [at::POSTED, at::UNEXPECTED, at::REQUESTS].into_iter().zip(front.queues) {
            put(index, value);
        }
        put_text(put, at::CALL, CALL_WORDS, front.call);
        Self {
            put,
            waits: 0,
            arrived: 0,
            ranges: [(Process::own(0), Process::own(0)); NEEDS_MAX],
            range_count: 0,
            cut: false,
        }
    }

    /// Adds an operation. Returns `false` when there is no room for more.
    pub fn wait(
        &mut self,
        operation: Operation,
        peer: Option<Process>,
        tag: Option<i32>,
        bytes: u64,
        communicator: &str,
        is_awaited: bool,
    ) -> bool {
        if self.waits == WAITS_MAX {
            return false;
        }
        let start = at::WAIT + self.waits * ENTRY_WORDS;
        let code = Operation::ALL.iter().position(|other| *other == operation).unwrap_or(0) as u64;
        let flags = if is_awaited { AWAITED } else { 0 };
        let words =
            [code | flags, peer.map_or(ANY, Process::word), tag.map_or(ANY, |tag| u64::from(tag as u32)), bytes];
        self.entry(start, words, communicator);
        self.waits += 1;
        true
    }

    /// Adds an unexpected message. Returns `false` when there is no room for more.
    pub fn arrived(&mut self, peer: Option<Process>, tag: Option<i32>, bytes: u64, communicator: &str) -> bool {
        if self.arrived == ARRIVED_MAX {
            return false;
        }
        let start = at::MESSAGE + self.arrived * ENTRY_WORDS;
        self.entry(
            start,
            [0, peer.map_or(ANY, Process::word), tag.map_or(ANY, |tag| u64::from(tag as u32)), bytes],
            communicator,
        );
        self.arrived += 1;
        true
    }

    fn entry(&mut self, start: usize, words: [u64; 4], communicator: &str) {
        for (i, word) in words.into_iter().enumerate() {
            (self.put)(start + i, word);
        }
        put_text(self.put, start + words.len(), NAME_WORDS, communicator);
    }

    /// Adds a rank that the call waits for.
    pub fn needs(&mut self, process: Process) {
        let known = &mut self.ranges[..self.range_count];
        if known.iter().any(|(first, last)| (*first..=*last).contains(&process)) {
            return;
        }
        if let Some(range) = known.iter_mut().find(|(_, last)| process.comes_behind(*last)) {
            range.1 = process;
        } else if let Some(range) = known.iter_mut().find(|(first, _)| first.comes_behind(process)) {
            range.0 = process;
        } else if self.range_count < NEEDS_MAX {
            self.ranges[self.range_count] = (process, process);
            self.range_count += 1;
        } else {
            self.cut = true;
        }
    }

    /// Notes that not all ranks that the call waits for are reported.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Ends the standing. `any`: one of the ranks that it waits for is enough; `None`: these ranks are
    /// unknown.
    pub fn finish(self, any: Option<bool>) {
        // If all of them are needed, a part of them is still true; if any is enough, it is not.
        let kind = match any {
            Some(false) if self.range_count > 0 => 1,
            Some(true) if self.range_count > 0 && !self.cut => 2,
            _ => 0,
        };
        (self.put)(at::NEEDS, kind);
        (self.put)(at::RANGES, self.range_count as u64);
        for (i, (first, last)) in self.ranges[..self.range_count].iter().enumerate() {
            (self.put)(at::RANGE + 2 * i, first.word());
            (self.put)(at::RANGE + 2 * i + 1, last.word());
        }
        (self.put)(at::WAITS, self.waits as u64);
        (self.put)(at::ARRIVED, self.arrived as u64);
    }
}

/// Writes to a page that the rank is awake again.
pub fn put_awake(put: &mut dyn FnMut(usize, u64)) {
    put(at::ASLEEP, 0);
}

fn put_text(put: &mut dyn FnMut(usize, u64), start: usize, words: usize, text: &str) {
    let mut chunks = text.as_bytes().chunks(8);
    for i in 0..words {
        let mut word = [0; 8];
        let chunk = chunks.next().unwrap_or_default();
        word[..chunk.len()].copy_from_slice(chunk);
        put(start + i, u64::from_le_bytes(word));
    }
}

fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

impl Standing {
    /// Returns whether the rank waits, as far as one look can tell: it sleeps in its call, and has done so
    /// for at least [`WAIT_NS_MIN`].
    pub fn is_waiting(&self) -> bool {
        self.is_asleep && self.still_ns >= WAIT_NS_MIN
    }

    /// Reads a page at the time `now` of the machine's clock, ns.
    ///
    /// # Errors
    /// One sentence: another version wrote the page, or the page makes no sense.
    pub fn parse(words: &[u64], now: u64) -> Result<Self, String> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        if word(at::MAGIC) != MAGIC {
            return Err("the page is not one of Weft".to_owned());
        }
        if word(at::LAYOUT) != LAYOUT || words.len() < WORDS {
            return Err(
                "another version of Weft wrote it: use the `weft` that was installed with its library".to_owned()
            );
        }
        let known = |value: u64| Some(value).filter(|_| value != ANY);
        let entry = |start: usize| {
            let name = text(&words[start + 4..start + ENTRY_WORDS]);
            (
                words[start],
                known(words[start + 1]).map(Process::of_word),
                known(words[start + 2]).map(|tag| tag as i32),
                words[start + 3],
                name,
            )
        };
        let waits = (0..(word(at::WAITS) as usize).min(WAITS_MAX)).map(|i| {
            let (code, peer, tag, bytes, communicator) = entry(at::WAIT + i * ENTRY_WORDS);
            let what = Operation::ALL.get(code as u32 as usize).map_or("", |operation| operation.words());
            Wait { what, peer, tag, bytes, communicator, is_awaited: code & AWAITED != 0 }
        });
        let arrived = (0..(word(at::ARRIVED) as usize).min(ARRIVED_MAX)).map(|i| {
            let (_, peer, tag, bytes, communicator) = entry(at::MESSAGE + i * ENTRY_WORDS);
            Arrived { peer, tag, bytes, communicator }
        });
        let ranges = (0..(word(at::RANGES) as usize).min(NEEDS_MAX)).map(|i| at::RANGE + 2 * i);
        let ranges = ranges.map(|at| (Process::of_word(word(at)), Process::of_word(word(at + 1))));
        let ranges: Vec<Range> = ranges.collect();
        Ok(Self {
            pid: word(at::PID) as u32,
            rank: word(at::RANK) as u32,
            size: word(at::SIZE) as u32,
            job: word(at::JOB) as u32,
            published_ns: now.saturating_sub(word(at::PUBLISHED)),
            still_ns: now.saturating_sub(word(at::STILL_SINCE)),
            is_asleep: word(at::ASLEEP) != 0,
            threads: word(at::THREADS) as u32,
            call: text(&words[at::CALL..at::CALL + CALL_WORDS]),
            posted: word(at::POSTED),
            unexpected: word(at::UNEXPECTED),
            requests: word(at::REQUESTS),
            needs: match word(at::NEEDS) {
                1 => Needs::All(ranges),
                2 => Needs::Any(ranges),
                _ => Needs::Unknown,
            },
            waits: waits.collect(),
            arrived: arrived.collect(),
        })
    }

    /// Gives the jobs of all processes that are named other numbers: `own` for the job of this rank, and
    /// `number_of` for those of pages.
    pub fn renumber(&mut self, own: u32, number_of: &dyn Fn(u32) -> u32) {
        let renumber = |process: &mut Process| {
            process.job = if process.job == 0 { own } else { number_of(process.job) };
        };
        self.waits.iter_mut().filter_map(|wait| wait.peer.as_mut()).for_each(renumber);
        self.arrived.iter_mut().filter_map(|message| message.peer.as_mut()).for_each(renumber);
        if let Needs::All(ranges) | Needs::Any(ranges) = &mut self.needs {
            for (first, last) in ranges {
                renumber(first);
                renumber(last);
            }
        }
    }

    /// The front of the page, moved to the time `now`.
    pub fn words(&self, now: u64) -> Vec<u64> {
        let mut words = vec![0; WORDS];
        let mut put = |at: usize, value: u64| words[at] = value;
        let front = Front {
            process: (self.pid, self.rank, self.size, self.job),
            times: (now.saturating_sub(self.published_ns), now.saturating_sub(self.still_ns)),
            is_asleep: self.is_asleep,
            threads: self.threads,
            call: &self.call,
            queues: [self.posted, self.unexpected, self.requests],
        };
        let mut draft = Draft::new(&mut put, &front);
        for wait in &self.waits {
            let operation = Operation::ALL.into_iter().find(|operation| operation.words() == wait.what);
            let operation = operation.unwrap_or(Operation::Receive);
            draft.wait(operation, wait.peer, wait.tag, wait.bytes, &wait.communicator, wait.is_awaited);
        }
        for message in &self.arrived {
            draft.arrived(message.peer, message.tag, message.bytes, &message.communicator);
        }
        let (any, ranges) = match &self.needs {
            Needs::Unknown => (None, &[][..]),
            Needs::All(ranges) => (Some(false), &ranges[..]),
            Needs::Any(ranges) => (Some(true), &ranges[..]),
        };
        for (i, range) in ranges.iter().take(NEEDS_MAX).enumerate() {
            draft.ranges[i] = *range;
            draft.range_count = i + 1;
        }
        draft.finish(any);
        words
    }
}

impl Wait {
    /// Describes the operation: `receive from rank 1, tag 7, 100 bytes on MPI_COMM_WORLD`. The caller gives
    /// the text for the peer.
    pub fn describe(&self, peer: &str) -> String {
        if self.what == Operation::Access.words() {
            return format!("{} {}", self.what, self.communicator);
        }
        let mut text = format!("{} {peer}", self.what);
        if let Some(tag) = self.tag {
            let _ = write!(text, ", tag {tag}");
        }
        if self.what != Operation::Match.words() && self.what != Operation::Probe.words() {
            let _ = write!(text, ", {} bytes", self.bytes);
        }
        if !self.communicator.is_empty() {
            let _ = write!(text, " on {}", self.communicator);
        }
        text
    }

    /// The peer in words.
    pub fn peer(&self, names: Names<'_>) -> String {
        self.peer.map_or_else(|| "anybody".to_owned(), |peer| processes(&[peer], names))
    }
}

/// Processes in words, in their order: `rank 3`, or `ranks 0-2,5 and rank 1 of spawned job 1`.
pub fn processes(processes: &[Process], names: Names<'_>) -> String {
    let of_job = |processes: &[Process]| {
        let members: Vec<u32> = processes.iter().map(|process| process.rank).collect();
        ranks(&members) + &names(processes[0].job)
    };
    let texts: Vec<String> = processes.chunk_by(|one, other| one.job == other.job).map(of_job).collect();
    texts.join(" and ")
}

/// The ranks in words: `rank 3` or `ranks 0-2,5`.
pub fn ranks(ranks: &[u32]) -> String {
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, wire::format_ranks(ranks))
}

/// A time as seconds with one digit.
pub fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Standing {
        Standing {
            pid: 9,
            rank: 1,
            size: 4,
            job: 77,
            published_ns: 5,
            still_ns: 70,
            is_asleep: true,
            threads: 1,
            call: "MPI_Recv".into(),
            posted: 1,
            unexpected: 2,
            requests: 3,
            needs: Needs::Any(vec![
                (Process::own(0), Process::own(3)),
                (Process { job: 8, rank: 0 }, Process { job: 8, rank: 0 }),
            ]),
            waits: vec![Wait {
                what: "receive from",
                peer: None,
                tag: Some(-7),
                bytes: 100,
                communicator: "MPI_COMM_WORLD".into(),
                is_awaited: true,
            }],
            arrived: vec![Arrived {
                peer: Some(Process { job: 8, rank: 2 }),
                tag: Some(8),
                bytes: 16,
                communicator: "halo".into(),
            }],
        }
    }

    #[test]
    fn a_standing_is_read_as_it_was_written() {
        assert_eq!(Standing::parse(&standing().words(1000), 1000), Ok(standing()));
        let later = Standing::parse(&standing().words(1000), 1030).unwrap();
        assert_eq!((later.published_ns, later.still_ns), (35, 100));
    }

    #[test]
    fn a_page_of_another_version_or_of_nothing_is_refused_and_a_wrong_one_is_no_danger() {
        let mut words = standing().words(0);
        words[at::LAYOUT] ^= 1;
        assert!(Standing::parse(&words, 0).unwrap_err().contains("another version"));
        assert!(Standing::parse(&[], 0).is_err());
        let mut words = standing().words(0);
        for index in [at::WAITS, at::ARRIVED, at::RANGES, at::NEEDS, at::WAIT, at::MESSAGE] {
            words[index] = u64::MAX;
        }
        assert!(Standing::parse(&words, 0).is_ok());
        for length in 0..words.len() {
            assert!(Standing::parse(&words[..length], 0).is_err());
        }
    }

    #[test]
    fn ranks_that_are_needed_become_ranges_and_too_many_are_said_to_be() {
        let range = |first, last| (Process::own(first), Process::own(last));
        let needs = |ranks: &mut dyn Iterator<Item = u32>, any: bool| {
            let mut words = vec![0; WORDS];
            let mut put = |at: usize, value: u64| words[at] = value;
            let front =
                Front { process: (1, 0, 1, 7), times: (0, 0), is_asleep: false, threads: 0, call: "", queues: [0; 3] };
            let mut draft = Draft::new(&mut put, &front);
            ranks.for_each(|rank| draft.needs(Process::own(rank)));
            draft.finish(Some(any));
            Standing::parse(&words, 0).unwrap().needs
        };
        assert_eq!(needs(&mut [4, 5, 3, 9, 4].into_iter(), false), Needs::All(vec![range(3, 5), range(9, 9)]));
        let many: Vec<Range> = (0..16).map(|i| range(2 * i, 2 * i)).collect();
        assert_eq!(needs(&mut (0..40).map(|i| 2 * i), false), Needs::All(many));
        // Any of some ranks is enough, but not all are known: nothing follows from that.
        assert_eq!(needs(&mut (0..40).map(|i| 2 * i), true), Needs::Unknown);
        assert_eq!(needs(&mut std::iter::empty(), false), Needs::Unknown);
    }

    #[test]
    fn long_names_are_cut_and_there_is_room_for_so_many_operations() {
        let mut long = standing();
        long.call = "x".repeat(100);
        long.waits = vec![long.waits[0].clone(); WAITS_MAX + 3];
        let read = Standing::parse(&long.words(0), 0).unwrap();
        assert_eq!((read.call.len(), read.waits.len()), (8 * CALL_WORDS, WAITS_MAX));
    }
}
