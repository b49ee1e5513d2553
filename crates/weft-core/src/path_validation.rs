//! Whether one carrier to one peer carries packets: asked for and answered by small packets of their own,
//! beside the flow.
//!
//! Two processes may have several carriers between them, such as raw frames and UDP, on several interfaces.
//! That both have one does not mean that it joins them: they may be on different segments, or something
//! between them passes one and not the other. A carrier is used once a response has come back over it, and no
//! longer when a doubt has not been answered.
//!
//! A response that comes back proves both directions, but only to who asked. Who hears nothing says so with
//! its challenge: then the other end asks too, for perhaps its answers are what does not arrive.
//!
//! A peer that is busy answers on no carrier, so silence alone proves nothing. With each challenge on a
//! carrier that is in doubt, the carriers that are proved are asked, too (a check): a peer that answered a
//! check, and not the challenge that had left before it, looked and found nothing.
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
/// Challenges asked, each after twice the time, before a carrier counts as useless …
pub const CHALLENGES_MAX: u32 = 8;
/// … the first of these times …
pub const CHALLENGE_TIMEOUT: Duration = Duration::from_millis(1);
/// … and how long after the last challenge one more is asked, as long as there is traffic: a carrier may come
/// back.
pub const AGAIN: Duration = Duration::from_secs(1);
/// Challenges without a response, behind each of which another carrier to the same peer has answered a check,
/// before a carrier counts as silent. They take 7 ms at least; a peer that is kept from running between two
/// looks at its carriers misses one of them.
pub const SILENT_AFTER: u32 = 3;

const MARK: u8 = 0xff;
const CHALLENGE: u8 = 1;
const RESPONSE: u8 = 2;
const CHALLENGE_IN_DOUBT: u8 = 3;

/// The interfaces that a carrier joins, each by its number at its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ends {
    /// Ours.
    pub own: u8,
    /// The peer's.
    pub peer: u8,
}

/// What a packet is that [`is_path_frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFrameKind {
    /// To be answered over the same carrier.
    Challenge {
        /// The peer hears nothing from us, or believes so.
        doubts: bool,
    },
    /// To a challenge of ours.
    Response,
}

/// An authentic challenge or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReply {
    /// Which of them.
    pub kind: PathFrameKind,
    /// Between which interfaces, as we see them.
    pub ends: Ends,
    number: u32,
}

/// A challenge that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    doubts: bool,
    number: u32,
}

/// Whether these bytes claim to be a challenge or a response, and not a packet of a flow.
#[inline]
pub fn is_path_frame(bytes: &[u8]) -> bool {
    bytes.len() == SIZE && bytes[11] == MARK
}

/// The keys of one pair of processes, and who they are.
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
    /// For packets between two processes, whose jobs have `secret` in common.
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

    /// Opens bytes that [`is_path_frame`]; none if the peer has not made them, or they say nothing.
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

    /// Whether the peer made it; in constant time.
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
    /// No challenge has been asked; `doubted`: although the carrier was in use.
    Untried { doubted: bool },
    /// The challenge has been asked so many times; the next time is due then.
    Asked { times: u32, next: Instant },
    /// A response has come back.
    Proved,
}

/// What the peer was asked on a carrier that is proved, because another is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Nothing,
    Due,
    Asked,
}

/// What is known of one carrier to one peer.
#[derive(Clone, Debug)]
pub struct Validation {
    state: State,
    /// Of the last challenge.
    number: u32,
    /// The first challenge since the carrier was in doubt: a response to it or a later one proves it, however
    /// late it comes.
    first: u32,
    /// The peer has answered a check on another carrier since the last challenge.
    was_checked: bool,
    /// Challenges that were followed by such a check, and not answered.
    missed: u32,
    check: Check,
}

/// What a response means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Nothing: it answers nothing that is open.
    Nothing,
    /// The carrier leads to the peer, which was not proved before.
    Proof,
    /// The peer looks, which matters to the other carriers.
    Check,
}

impl Validation {
    /// A carrier of which nothing is known.
    pub const fn unknown() -> Self {
        Self::new(State::Untried { doubted: false })
    }

    /// A carrier that is believed in until there is a doubt.
    pub const fn assumed() -> Self {
        Self::new(State::Proved)
    }

    const fn new(state: State) -> Self {
        Self { state, number: 0, first: 1, was_checked: false, missed: 0, check: Check::Nothing }
    }

    /// Whether the carrier may be used.
    #[inline]
    pub fn is_proved(&self) -> bool {
        self.state == State::Proved
    }

    /// Whether it is proved, and nothing is asked: until that changes no challenge is due.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.is_proved() && self.check != Check::Due
    }

    /// Whether all challenges have gone unanswered.
    pub fn is_useless(&self) -> bool {
        matches!(self.state, State::Asked { times, .. } if times > CHALLENGES_MAX)
    }

    /// Whether the peer has answered on other carriers so often that a response would be here if there was
    /// one.
    pub fn is_silent(&self) -> bool {
        !self.is_proved() && self.missed >= SILENT_AFTER
    }

    /// Another carrier is in doubt: this one, if it is proved, asks whether the peer looks.
    pub fn check(&mut self) {
        if self.is_proved() {
            self.check = Check::Due;
        }
    }

    /// The peer has answered a check on another carrier that left behind the last challenge here.
    pub fn was_checked(&mut self) {
        self.was_checked = matches!(self.state, State::Asked { .. });
    }

    /// Another carrier has just answered: if this one leads to the peer, it answers now.
    pub fn ask_again(&mut self) {
        if matches!(self.state, State::Asked { .. }) && !self.is_useless() {
            self.state = State::Untried { doubted: false };
        }
    }

    /// Something was sent over the carrier and there is no sign that it arrived: it must answer again before
    /// it is used again.
    pub fn doubt(&mut self) {
        if self.is_proved() {
            self.begin(true);
        }
    }

    /// What was sent over the carrier has arrived: there is no doubt any more.
    pub fn believe(&mut self) {
        if !self.is_proved() {
            self.prove();
        }
    }

    /// The peer has doubts: the carrier must answer us too, and the peer knows that.
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

    /// When the next challenge is due, while the outcome is open.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Asked { next, .. } if !self.is_useless() => Some(next),
            State::Proved if self.check == Check::Due => Some(Instant(0)),
            _ => None,
        }
    }

    /// Takes a response. One to a challenge that is not open any more means nothing.
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

    /// The other end's answer.
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

    /// A challenge there, and what the peer answers to a check on another carrier behind it, if it looks.
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
        // What was asked before the next doubt proves nothing of it.
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
        // To another process, and of another job.
        assert_eq!(Keys::new(&secret(), &Parties::of_only_job(4, 3)).open(&challenge), None);
        assert_eq!(Keys::new(&Secret::new([8; 16]), &Parties::of_only_job(70_000, 3)).open(&challenge), None);
    }
}
