//! The choice of the path of messages that fill several packets: packets as long as the carriers of the flow
//! take, or the flow's long path.
//!
//! The sender measures both ([`crate::measured_choice`]), for all peers together: what a packet costs is a
//! fact of the machine. A message that is sent while the flow is idle has no train to share and nothing to
//! wait for: the time until its acknowledgement counts. Messages that follow before that are a *burst*, and
//! take one path, until the flow is idle or the burst has many messages. There the time counts in which its
//! bytes were acknowledged. Both kinds of messages are chosen apart.

use crate::measured_choice::ChoiceBySize;
use crate::time::Instant;

/// The most messages of a burst: where messages never pause, one burst follows another.
const BURST_MESSAGES_MAX: u32 = 64;

/// The size from which on a message that is sent alone is an eager write, in bytes.
///
/// A half round trip of 16 KB took 14 µs as packets and 15 as an eager write, of 32 KB 20 and 16, of 56 KB 29
/// and 21. An exchange of 16 KB took 14 and 18, of 24 KB 16 and 20, of 32 KB 22 and 22, of 56 KB 33 and 30.
/// (Xeon of the Granite Rapids kind, two virtual hosts.)
pub const EAGER_WRITE_BYTES_MIN: u64 = 32 << 10;
/// The longest message that is an eager write, in bytes: more than the eager limit. A carrier keeps a message
/// without a receive, and a sender has one such message at a time.
pub const EAGER_WRITE_BYTES_MAX: u64 = 128 << 10;

/// The use of the long path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongPathUse {
    /// Messages take the path that was measured to be the quicker one.
    #[default]
    Measured,
    /// All messages that may take the long path do.
    Always,
    /// None does.
    Never,
}

/// What is known of both paths. The long path is the second way of each choice: it is tried first, and its
/// connection is made by that.
#[derive(Clone, Debug, Default)]
pub struct LongPathChoice {
    alone: ChoiceBySize<12, 5>,
    in_burst: ChoiceBySize<12, 5>,
}

/// The messages to a peer that are being measured, of those that may take the long path.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongPathMessages {
    long_path: LongPathUse,
    alone: Option<Alone>,
    burst: Option<Burst>,
    is_last_long: bool,
}

/// A message that was sent while the flow was idle.
#[derive(Clone, Copy, Debug)]
struct Alone {
    began: Instant,
    is_long: bool,
    bytes: u64,
    /// The position in the flow's messages up to which they must be acknowledged.
    until: u32,
}

/// Messages that were sent while others were under way.
#[derive(Clone, Copy, Debug)]
struct Burst {
    began: Instant,
    is_long: bool,
    /// Bytes of the first message.
    bytes: u64,
    messages: u32,
    /// The position up to which messages were acknowledged when it began.
    from: u32,
}

/// The state of a flow, when a message is sent or after an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The present time.
    pub now: Instant,
    /// All that was sent is acknowledged, but for a few frames without data: the word that the last message
    /// of the other direction has arrived may be under way.
    pub is_idle: bool,
    /// The position behind the messages that are acknowledged, in bytes. It wraps.
    pub acknowledged: u32,
    /// The position behind the messages that were submitted, in bytes. It wraps.
    pub submitted: u32,
}

impl LongPathChoice {
    /// Begins a message of `bytes` bytes, which is to be submitted. Returns whether it is for the long path.
    /// If that path takes none, the caller says so by [`LongPathMessages::refused`].
    pub fn begin(&mut self, messages: &mut LongPathMessages, sending: &Sending, bytes: u64) -> bool {
        if messages.long_path != LongPathUse::Measured {
            messages.is_last_long = messages.long_path == LongPathUse::Always;
            return messages.is_last_long;
        }
        let Sending { now: began, acknowledged: from, submitted, .. } = *sending;
        if sending.is_idle {
            // The times at which earlier messages were acknowledged are not known.
            messages.forget();
            let is_long = self.alone.of_mut(bytes).choose();
            let until = submitted.wrapping_add(bytes as u32);
            messages.alone = Some(Alone { began, is_long, bytes, until });
            messages.is_last_long = is_long;
            return is_long;
        }
        if messages.burst.is_some_and(|burst| burst.messages >= BURST_MESSAGES_MAX) {
            self.end_burst(messages, sending);
        }
        let choose = || Burst { began, is_long: self.in_burst.of_mut(bytes).choose(), bytes, messages: 0, from };
        let burst = messages.burst.get_or_insert_with(choose);
        burst.messages += 1;
        messages.is_last_long = burst.is_long;
        burst.is_long
    }

    /// Measures messages that are acknowledged just now.
    pub fn measure(&mut self, messages: &mut LongPathMessages, sending: &Sending) {
        let is_acknowledged = |alone: &Alone| sending.acknowledged.wrapping_sub(alone.until) as i32 >= 0;
        if let Some(Alone { began, is_long, bytes, .. }) = messages.alone.take_if(|alone| is_acknowledged(alone)) {
            self.alone.of_mut(bytes).measure(is_long, sending.now.since(began), bytes);
        }
        if sending.is_idle {
            self.end_burst(messages, sending);
        }
    }

    fn end_burst(&mut self, messages: &mut LongPathMessages, sending: &Sending) {
        let Some(Burst { began, is_long, bytes, from, .. }) = messages.burst.take() else { return };
        let acknowledged = sending.acknowledged.wrapping_sub(from);
        if acknowledged > 0 {
            let time = sending.now.since(began);
            self.in_burst.of_mut(bytes).measure(is_long, time, acknowledged.into());
        }
    }
}

impl LongPathMessages {
    /// Makes the state of a peer to which the long path is used so.
    pub fn new(long_path: LongPathUse) -> Self {
        Self { long_path, ..Self::default() }
    }

    /// Returns whether a message of `bytes` bytes that finds the flow idle is an eager write: the carrier of
    /// the long path writes its data to the receiver's memory at once. Of eager writes nothing is measured.
    ///
    /// `takes_turns`: ranks share processors. There the further looks cost more than packets do: four ranks
    /// on two processors communicated for 0.107 s in NAS CG, and for 0.097 s by packets; in MG for 0.081 and
    /// 0.076 s.
    pub fn is_eager_write(&self, bytes: u64, takes_turns: bool) -> bool {
        bytes <= EAGER_WRITE_BYTES_MAX
            && match self.long_path {
                LongPathUse::Measured => bytes >= EAGER_WRITE_BYTES_MIN && !takes_turns,
                LongPathUse::Always => true,
                LongPathUse::Never => false,
            }
    }

    /// Forgets the messages that are under way: how long they take says nothing of either path.
    pub fn forget(&mut self) {
        (self.alone, self.burst) = (None, None);
    }

    /// Notes that the long path did not take the message that has just begun.
    pub fn refused(&mut self) {
        self.is_last_long = false;
        match (&mut self.burst, &mut self.alone) {
            (Some(Burst { is_long, .. }), _) | (None, Some(Alone { is_long, .. })) => *is_long = false,
            (None, None) => {}
        }
    }

    /// Returns whether the last message took the long path.
    #[inline]
    pub fn is_last_long(&self) -> bool {
        self.is_last_long
    }

    /// Returns whether messages are being measured.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.alone.is_some() || self.burst.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use weft_random::Random;

    #[test]
    fn messages_of_some_sizes_are_eager_writes() {
        let (least, most) = (EAGER_WRITE_BYTES_MIN, EAGER_WRITE_BYTES_MAX);
        let are = |long_path, takes_turns| {
            let messages = LongPathMessages::new(long_path);
            [1, least - 1, least, most, most + 1].map(|bytes| messages.is_eager_write(bytes, takes_turns))
        };
        assert_eq!(are(LongPathUse::Measured, false), [false, false, true, true, false]);
        assert_eq!(are(LongPathUse::Measured, true), [false; 5]);
        for takes_turns in [false, true] {
            assert_eq!(are(LongPathUse::Always, takes_turns), [true, true, true, true, false]);
            assert_eq!(are(LongPathUse::Never, takes_turns), [false; 5]);
        }
    }

    /// The nanoseconds of a message of this many bytes by packets of the usual length, and by the long path.
    type Times = fn(u64) -> [u64; 2];

    /// A machine: the times of a message alone, and those by which one in a burst makes it longer.
    struct Machine {
        name: &'static str,
        alone: Times,
        in_burst: Times,
    }

    const SIZES: [u64; 8] = [7_500, 8_192, 10_000, 12_288, 16_384, 32_768, 50_000, 65_536];

    /// The two machines as they were measured, and some that nobody has.
    const MACHINES: [Machine; 6] = [
        Machine {
            name: "AMD EPYC (Zen 5)",
            alone: |bytes| [5_900 + bytes * 21 / 100, if bytes > 60_000 { 18_500 } else { 10_400 + bytes / 10 }],
            in_burst: |bytes| [1_000 + bytes * 29 / 100, 1_900 + bytes / 5],
        },
        Machine {
            name: "Intel Xeon (Skylake-SP)",
            alone: |bytes| [12_500 + bytes * 74 / 100, 11_000 + bytes / 2],
            in_burst: |bytes| [2_000 + bytes / 2, 8_000 + bytes / 4],
        },
        Machine {
            name: "a sandbox in which a call takes 50 µs",
            alone: |bytes| [100_000 + bytes / 8_000 * 50_000, 100_000 + bytes / 32_000 * 50_000],
            in_burst: |bytes| [50_000 + bytes / 8_000 * 50_000, 60_000],
        },
        Machine { name: "TCP is stuck", alone: |_| [20_000, 200_000_000], in_burst: |_| [10_000, 200_000_000] },
        Machine { name: "UDP is slow", alone: |_| [200_000_000, 20_000], in_burst: |_| [200_000_000, 10_000] },
        Machine { name: "both are alike", alone: |_| [20_000, 20_000], in_burst: |_| [10_000, 10_000] },
    ];

    /// A sender to one peer, and its clock.
    struct Sender {
        choice: LongPathChoice,
        messages: LongPathMessages,
        now: u64,
        acknowledged: u32,
        submitted: u32,
        random: Random,
        /// The nanoseconds that messages have taken, and would have taken by the better path.
        taken: u64,
        best: u64,
    }

    impl Sender {
        fn new() -> Self {
            Self {
                choice: LongPathChoice::default(),
                messages: LongPathMessages::default(),
                now: 1_000_000_000,
                acknowledged: 0,
                submitted: 0,
                random: Random::new(3),
                taken: 0,
                best: 0,
            }
        }

        fn sending(&self) -> Sending {
            let Self { acknowledged, submitted, .. } = *self;
            Sending { now: Instant(self.now), is_idle: acknowledged == submitted, acknowledged, submitted }
        }

        /// Sends a message, and returns the path that it takes.
        fn send(&mut self, bytes: u64) -> bool {
            let sending = self.sending();
            let is_long = self.choice.begin(&mut self.messages, &sending, bytes);
            self.submitted = self.submitted.wrapping_add(bytes as u32);
            is_long
        }

        /// Takes the time of a message, which is acknowledged then. Others on the machine make `late` of a
        /// million messages much later.
        fn acknowledge(&mut self, bytes: u64, times: [u64; 2], is_long: bool, late: u32) {
            let noise = if self.random.chance(late) { self.random.below(1_000_000) } else { self.random.below(500) };
            self.now += times[usize::from(is_long)] + noise;
            self.taken += times[usize::from(is_long)];
            self.best += times[0].min(times[1]);
            self.acknowledged = self.acknowledged.wrapping_add(bytes as u32);
            let sending = self.sending();
            self.choice.measure(&mut self.messages, &sending);
        }

        /// Sends messages, each of which is acknowledged before the next.
        fn send_alone(&mut self, machine: &Machine, bytes: u64, count: u32) {
            for _ in 0..count {
                let is_long = self.send(bytes);
                self.acknowledge(bytes, (machine.alone)(bytes), is_long, 100_000);
            }
        }

        /// Sends messages, of which up to 16 are under way at a time. `pauses`: all are acknowledged before
        /// the next 16 begin.
        fn send_burst(&mut self, machine: &Machine, bytes: u64, count: u32, pauses: bool) {
            let mut under_way = VecDeque::new();
            for number in 0..count {
                under_way.push_back((under_way.is_empty(), self.send(bytes)));
                let left = if pauses && number % 16 == 15 { 0 } else { 15 };
                while under_way.len() > left {
                    let Some((is_alone, is_long)) = under_way.pop_front() else { break };
                    let times = if is_alone { machine.alone } else { machine.in_burst };
                    self.acknowledge(bytes, times(bytes), is_long, 2_000);
                }
            }
        }
    }

    /// Messages of all sizes on machines of several kinds, one after the other or in bursts with pauses and
    /// without.   Expect: within 5 % of the better path at each size, once both are known.
    #[test]
    fn the_better_path_is_taken_on_each_machine_at_each_size() {
        for machine in &MACHINES {
            for bytes in SIZES {
                for burst in [None, Some(true), Some(false)] {
                    let mut sender = Sender::new();
                    for count in [1_000, 20_000] {
                        (sender.taken, sender.best) = (0, 0);
                        match burst {
                            None => sender.send_alone(machine, bytes, count),
                            Some(pauses) => sender.send_burst(machine, bytes, count * 16, pauses),
                        }
                    }
                    let percent = sender.taken * 100 / sender.best;
                    assert!(percent <= 105, "{}, {bytes} bytes, burst {burst:?}: {percent} %", machine.name);
                }
            }
        }
    }

    /// An exchange in which a message on the long path is acknowledged so late that the next one is sent
    /// before that, and one in packets is not.   Expect: packets are taken, though messages in a burst are
    /// quick on the long path.
    #[test]
    fn a_message_that_others_follow_is_measured_as_well() {
        let mut sender = Sender::new();
        let mut long = 0;
        for _ in 0..10_000 {
            let is_long = sender.send(8_192);
            long += u32::from(is_long);
            if is_long {
                sender.now += 12_000;
                let next = sender.send(8_192);
                sender.acknowledge(8_192, [0, 0], true, 0);
                sender.acknowledge(8_192, [9_000, 1_000], next, 0);
            } else {
                sender.acknowledge(8_192, [9_000, 9_000], false, 0);
            }
        }
        assert!(long < 300, "{long} of 10,000");
    }
}
