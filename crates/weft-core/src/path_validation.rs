//! Path validation: small packets beside the flow ask, and answer, whether one carrier to one peer carries
//! packets.
//!
//! Two processes may have several carriers between them, such as raw frames and UDP, on several interfaces. A
//! carrier at both ends need not join them: the ends may be on different segments, or a device between them
//! may pass one kind of packet and not the other. A carrier is used once a response has come back over it. It
//! is used no longer when a challenge that was sent in doubt has not been answered.
//!
//! A response proves both directions, but only to the process that asked. A process that hears nothing says
//! so in its challenge. Then the other end asks too, for perhaps its answers get lost.
//!
//! A busy peer answers on no carrier, so silence alone proves nothing. With each challenge on a carrier that
//! is in doubt, a *check* asks the peer on each proved carrier, too. Suppose that the peer answers a check,
//! and not the challenge that left before it. Then the peer looked and found nothing, so the doubted carrier
//! is silent.
//!
//! ```text
//!  0  tag       8   keyed hash, with a key that makes no tags of the flow
//!  8  sender    3   index by which the receiver knows the sender
//! 11  mark      1   0xff: no packet of a flow
//! 12  kind      1   1 challenge, 2 response, 3 challenge of one that hears nothing
//! 13  own       1   number of the sender's interface
//! 14  peer      1   number of the receiver's interface
//! 15  zero      1
//! 16  number    4   of the challenge
//! 20  zero      8
//! ```

use crate::process::{Parties, ProcessName};
use crate::time::{Duration, Instant};
use crate::wire::Secret;
use core::hash::Hasher;
use siphasher::sip::{SipHasher13, SipHasher24};

/// Bytes of a challenge or a response.
pub const SIZE: usize = 28;
/// Challenges, each after twice the time, before a carrier counts as useless.
pub const CHALLENGES_MAX: u32 = 8;
/// Time from the first challenge to the second.
pub const CHALLENGE_TIMEOUT: Duration = Duration::from_millis(1);
/// Time from the last challenge to one more, as long as there is traffic: a carrier may come back.
pub const AGAIN: Duration = Duration::from_secs(1);
/// Unanswered challenges before a carrier counts as silent, each followed by a check that the peer answered
/// on another carrier.
///
/// They take 7 ms at least. A peer that is kept from running between two looks at its carriers misses one of
/// them.
pub const SILENT_AFTER: u32 = 3;

const MARK: u8 = 0xff;
const CHALLENGE: u8 = 1;
const RESPONSE: u8 = 2;
const CHALLENGE_IN_DOUBT: u8 = 3;

/// The interfaces that a carrier joins, each by its number at its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ends {
    /// The interface of this process.
    pub own: u8,
    /// The interface of the peer.
    pub peer: u8,
}

/// The kind of a packet for which [`is_path_frame`] is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFrameKind {
    /// A challenge, to be answered over the same carrier.
    Challenge {
        /// The peer hears nothing from this process, or believes so.
        doubts: bool,
    },
    /// A response to a challenge of this process.
    Response,
}

/// An authentic challenge or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReply {
    /// The kind of the packet.
    pub kind: PathFrameKind,
    /// The interfaces between which it travelled, as this process sees them.
    pub ends: Ends,
    number: u32,
}

/// A challenge that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    doubts: bool,
    number: u32,
}

/// Returns whether these bytes claim to be a challenge or a response, and not a packet of a flow.
#[inline]
pub fn is_path_frame(bytes: &[u8]) -> bool {
    bytes.len() == SIZE && bytes[11] == MARK
}

/// The keys of one pair of processes, and the names of the two.
#[derive(Clone)]
pub struct Keys {
    own_index: u32,
    own: [u64; 2],
    peer: [u64; 2],
}

impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    /// Derives the keys for packets between two processes whose jobs have `secret` in common.
    pub fn new(secret: &Secret, parties: &Parties) -> Self {
        let key = |sender: ProcessName, receiver: ProcessName| {
            [0, 1].map(|half: u8| {
                let mut hasher = SipHasher24::new_with_key(secret.bytes());
                // Keys of flows are derived with another word.
                hasher.write(b"weft reach");
                hasher.write(&sender.bytes());
                hasher.write(&receiver.bytes());
                hasher.write(&[half]);
                hasher.finish()
            })
        };
        let Parties { own, peer, own_index } = *parties;
        Self { own_index, own: key(own, peer), peer: key(peer, own) }
    }

    /// A challenge as it travels.
    pub fn challenge(&self, challenge: &Challenge, ends: Ends) -> [u8; SIZE] {
        self.write(if challenge.doubts { CHALLENGE_IN_DOUBT } else { CHALLENGE }, ends, challenge.number)
    }

    /// The answer to a challenge, as it travels.
    pub fn response(&self, to: &PathReply) -> [u8; SIZE] {
        self.write(RESPONSE, to.ends, to.number)
    }

    /// Opens bytes for which [`is_path_frame`] is true; None if the peer has not made them, or they make no
    /// sense.
    pub fn open(&self, bytes: &[u8]) -> Option<PathReply> {
        if !is_path_frame(bytes) || !self.verify(bytes) {
            return None;
        }
        let kind = match bytes[12] {
            CHALLENGE => PathFrameKind::Challenge { doubts: false },
            CHALLENGE_IN_DOUBT => PathFrameKind::Challenge { doubts: true },
            RESPONSE => PathFrameKind::Response,
            _ => return None,
        };
        let ends = Ends { own: bytes[14], peer: bytes[13] };
        Some(PathReply { kind, ends, number: u32::from_le_bytes(*bytes[16..].first_chunk()?) })
    }

    fn write(&self, kind: u8, ends: Ends, number: u32) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        out[8..12].copy_from_slice(&self.own_index.to_le_bytes());
        out[11..15].copy_from_slice(&[MARK, kind, ends.own, ends.peer]);
        out[16..20].copy_from_slice(&number.to_le_bytes());
        let tag = tag(self.own, &out);
        out[..8].copy_from_slice(&tag.to_le_bytes());
        out
    }

    /// Returns whether the peer made the packet; in constant time.
    fn verify(&self, bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|claimed| tag(self.peer, bytes) ^ u64::from_le_bytes(*claimed) == 0)
    }
}

/// SipHash-1-3 of everything behind the tag.
fn tag([k0, k1]: [u64; 2], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    hasher.write(&bytes[8..]);
    hasher.finish()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No challenge has been sent; `doubted`: although the carrier was in use.
    Untried { doubted: bool },
    /// A challenge has been sent `times` times; the next is due at `next`.
    Asked { times: u32, next: Instant },
    /// A response has come back.
    Proved,
}

/// The question to the peer on a proved carrier, asked because another carrier is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Nothing,
    Due,
    Asked,
}

/// The state of one carrier to one peer.
#[derive(Clone, Debug)]
pub struct Validation {
    state: State,
    /// The number of the last challenge.
    number: u32,
    /// The first challenge since the carrier was in doubt: a response to it or a later one proves it, however
    /// late it comes.
    first: u32,
    /// The peer has answered a check on another carrier since the last challenge.
    was_checked: bool,
    /// Challenges that were not answered, although the peer answered a check on another carrier after them.
    missed: u32,
    check: Check,
}

/// The meaning of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// No meaning: no open challenge or check has this number.
    Nothing,
    /// A proof that the carrier leads to the peer; it was not proved before.
    Proof,
    /// A sign that the peer looks, which matters to the other carriers.
    Check,
}

impl Validation {
    /// A carrier of which no fact is known.
    pub const fn unknown() -> Self {
        Self::new(State::Untried { doubted: false })
    }

    /// A carrier that counts as proved until there is a doubt.
    pub const fn assumed() -> Self {
        Self::new(State::Proved)
    }

    const fn new(state: State) -> Self {
        Self { state, number: 0, first: 1, was_checked: false, missed: 0, check: Check::Nothing }
    }

    /// Returns whether the carrier may be used.
    #[inline]
    pub fn is_proved(&self) -> bool {
        self.state == State::Proved
    }

    /// Returns whether the carrier is proved and no check is due: until that changes no challenge is due.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.is_proved() && self.check != Check::Due
    }

    /// Returns whether all challenges have gone unanswered.
    pub fn is_useless(&self) -> bool {
        matches!(self.state, State::Asked { times, .. } if times > CHALLENGES_MAX)
    }

    /// Returns whether the peer has answered so often on other carriers that this carrier's response should
    /// have come.
    pub fn is_silent(&self) -> bool {
        !self.is_proved() && self.missed >= SILENT_AFTER
    }

    /// Makes a check due on this carrier, if it is proved, because another carrier is in doubt.
    pub fn check(&mut self) {
        if self.is_proved() {
            self.check = Check::Due;
        }
    }

    /// Notes that the peer has answered a check on another carrier, sent after the last challenge on this
    /// one.
    pub fn was_checked(&mut self) {
        self.was_checked = matches!(self.state, State::Asked { .. });
    }

    /// Makes a challenge due at once, because another carrier has just answered: if this one leads to the
    /// peer, the peer answers now.
    pub fn ask_again(&mut self) {
        if matches!(self.state, State::Asked { .. }) && !self.is_useless() {
            self.state = State::Untried { doubted: false };
        }
    }

    /// Puts the carrier in doubt, because there is no sign that data sent over it arrived. The peer must
    /// answer on it before it is used again.
    pub fn doubt(&mut self) {
        if self.is_proved() {
            self.begin(true);
        }
    }

    /// Ends the doubt, because data sent over the carrier has arrived.
    pub fn believe(&mut self) {
        if !self.is_proved() {
            self.prove();
        }
    }

    /// Puts the carrier in doubt because the peer doubts it: the peer must answer on it too, and knows that.
    pub fn doubt_with_peer(&mut self) {
        if self.is_proved() {
            self.begin(false);
        }
    }

    fn begin(&mut self, doubted: bool) {
        let number = self.number;
        *self = Self { number, first: number.wrapping_add(1), ..Self::new(State::Untried { doubted }) };
    }

    fn prove(&mut self) {
        *self = Self { number: self.number, first: self.first, ..Self::new(State::Proved) };
    }

    /// The challenge to send now, if one is due.
    pub fn poll_challenge(&mut self, now: Instant) -> Option<Challenge> {
        let (times, doubts) = match self.state {
            State::Untried { doubted } => (0, doubted),
            State::Asked { times, next } if next <= now => (times, false),
            State::Proved if self.check == Check::Due => {
                self.check = Check::Asked;
                self.number = self.number.wrapping_add(1);
                return Some(Challenge { doubts: false, number: self.number });
            }
            _ => return None,
        };
        self.missed += u32::from(core::mem::take(&mut self.was_checked));
        if times == 0 {
            self.number = self.number.wrapping_add(1);
        }
        let wait = if times < CHALLENGES_MAX { Duration(CHALLENGE_TIMEOUT.0 << times) } else { AGAIN };
        self.state = State::Asked { times: (times + 1).min(CHALLENGES_MAX + 1), next: now + wait };
        Some(Challenge { doubts, number: self.number })
    }

    /// The time at which the next challenge is due, while the outcome is open.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Asked { next, .. } if !self.is_useless() => Some(next),
            State::Proved if self.check == Check::Due => Some(Instant(0)),
            _ => None,
        }
    }

    /// Takes a response. A response to a challenge that is no longer open means nothing.
    pub fn handle_response(&mut self, response: &PathReply) -> Answered {
        match self.state {
            State::Proved if self.check == Check::Asked && response.number == self.number => {
                self.check = Check::Nothing;
                Answered::Check
            }
            // A new round of challenges may have begun since.
            State::Untried { .. } | State::Asked { .. }
                if response.number.wrapping_sub(self.first) <= self.number.wrapping_sub(self.first)
                    && self.number.wrapping_add(1) != self.first =>
            {
                self.prove();
                Answered::Proof
            }
            _ => Answered::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new([9; 16])
    }

    fn keys() -> (Keys, Keys) {
        (Keys::new(&secret(), &Parties::of_only_job(3, 70_000)), Keys::new(&secret(), &Parties::of_only_job(70_000, 3)))
    }

    const ENDS: Ends = Ends { own: 2, peer: 1 };

    fn ask(validation: &mut Validation, now: Instant) -> Option<[u8; SIZE]> {
        validation.poll_challenge(now).map(|challenge| keys().0.challenge(&challenge, ENDS))
    }

    /// The answer of the other end.
    fn response(challenge: &[u8]) -> Option<[u8; SIZE]> {
        keys().1.open(challenge).map(|reply| keys().1.response(&reply))
    }

    fn take(validation: &mut Validation, response: &[u8]) -> bool {
        let reply = keys().0.open(response).unwrap();
        assert_eq!((reply.kind, reply.ends), (PathFrameKind::Response, ENDS));
        validation.handle_response(&reply) == Answered::Proof
    }

    #[test]
    fn a_lane_is_used_once_it_has_answered() {
        let mut near = Validation::unknown();
        let challenge = ask(&mut near, Instant(5)).unwrap();
        assert!(is_path_frame(&challenge) && !near.is_proved());
        assert_eq!(crate::wire::peek_sender(&challenge), Some(3));
        let reply = response(&challenge).unwrap();
        assert!(take(&mut near, &reply) && near.is_proved());
        assert!(near.poll_challenge(Instant(u64::MAX / 2)).is_none());
        // The same response again, replayed after a doubt, proves nothing.
        near.doubt();
        ask(&mut near, Instant(6)).unwrap();
        assert!(!take(&mut near, &reply) && !near.is_proved());
    }

    #[test]
    fn only_the_first_question_after_a_doubt_says_so() {
        let mut near = Validation::assumed();
        let doubts = |challenge: Option<[u8; SIZE]>| match keys().1.open(&challenge?)?.kind {
            PathFrameKind::Challenge { doubts } => Some(doubts),
            PathFrameKind::Response => None,
        };
        near.doubt();
        assert_eq!(doubts(ask(&mut near, Instant(0))), Some(true));
        assert_eq!(doubts(ask(&mut near, Instant(0) + CHALLENGE_TIMEOUT)), Some(false));
        let (mut with_peer, mut first) = (Validation::assumed(), Validation::unknown());
        with_peer.doubt_with_peer();
        assert!(!with_peer.is_proved());
        assert_eq!([doubts(ask(&mut with_peer, Instant(0))), doubts(ask(&mut first, Instant(0)))], [Some(false); 2]);
    }

    #[test]
    fn a_silent_lane_is_asked_a_bounded_number_of_times_and_then_rarely() {
        let mut validation = Validation::unknown();
        let (mut now, mut asked) = (Instant(0), 0);
        while validation.poll_challenge(now).is_some() {
            asked += 1;
            let Some(next) = validation.next_timeout() else { break };
            assert!(validation.poll_challenge(Instant(next.0 - 1)).is_none());
            now = next;
        }
        assert_eq!(asked, CHALLENGES_MAX + 1);
        assert!(validation.is_useless() && now <= Instant(0) + Duration::from_millis(256));
        assert!(validation.poll_challenge(now + Duration(AGAIN.0 - 1)).is_none());
        assert!(validation.poll_challenge(now + AGAIN).is_some() && validation.is_useless());
    }

    #[test]
    fn a_late_answer_still_proves_the_lane() {
        let mut near = Validation::unknown();
        let first = ask(&mut near, Instant(0)).unwrap();
        assert!(ask(&mut near, Instant(0) + AGAIN).is_some());
        assert!(take(&mut near, &response(&first).unwrap()) && near.is_proved());
    }

    /// A challenge on one carrier and a check on another behind it; returns the challenge. `looks`: the peer
    /// answers the check.
    fn ask_with_check(near: &mut Validation, other: &mut Validation, now: Instant, looks: bool) -> Option<[u8; SIZE]> {
        let challenge = ask(near, now)?;
        other.check();
        let check = ask(other, now).expect("a check is due");
        let reply = keys().0.open(&response(&check).unwrap()).unwrap();
        if looks {
            assert_eq!(other.handle_response(&reply), Answered::Check);
            near.was_checked();
        }
        // Once only.
        assert!(!looks || other.handle_response(&reply) == Answered::Nothing);
        Some(challenge)
    }

    #[test]
    fn a_lane_is_silent_only_if_the_peer_looks() {
        for looks in [false, true] {
            let (mut near, mut other) = (Validation::assumed(), Validation::assumed());
            near.doubt();
            let mut now = Instant(0);
            for missed in 0..=SILENT_AFTER {
                assert!(!near.is_silent(), "{missed}");
                ask_with_check(&mut near, &mut other, now, looks).unwrap();
                now = near.next_timeout().unwrap();
            }
            assert_eq!(near.is_silent(), looks);
            assert!(other.is_proved(), "who is asked for the sake of another is not in doubt");
        }
    }

    #[test]
    fn an_answer_that_comes_late_proves_the_lane_though_it_was_asked_anew() {
        let mut near = Validation::assumed();
        near.doubt();
        let first = ask(&mut near, Instant(0)).unwrap();
        near.ask_again();
        let second = ask(&mut near, Instant(0)).unwrap();
        assert_ne!(first, second);
        assert!(take(&mut near, &response(&first).unwrap()) && near.is_proved());
        // A challenge from before the doubt proves nothing about it.
        near.doubt();
        assert!(!take(&mut near, &response(&second).unwrap()));
        ask(&mut near, Instant(1)).unwrap();
        assert!(!take(&mut near, &response(&second).unwrap()) && !near.is_proved());
    }

    #[test]
    fn forged_and_damaged_questions_are_not_answered() {
        let challenge = ask(&mut Validation::unknown(), Instant(0)).unwrap();
        for at in 0..SIZE {
            let mut bad = challenge;
            bad[at] ^= 1;
            assert_eq!(response(&bad), None, "byte {at} differs");
        }
        assert_eq!(response(&challenge[..SIZE - 1]), None);
        // A challenge to another process, and one of another job.
        assert_eq!(Keys::new(&secret(), &Parties::of_only_job(4, 3)).open(&challenge), None);
        assert_eq!(Keys::new(&Secret::new([8; 16]), &Parties::of_only_job(70_000, 3)).open(&challenge), None);
    }
}
