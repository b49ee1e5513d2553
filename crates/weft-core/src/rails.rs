//! The carriers to one peer: which of them lead to the peer, and what each carries.
//!
//! A rail is a pair of interfaces, one at each end. Each rail may have two carriers: raw frames, and UDP with
//! its offloads.
//!
//! - Messages take the first carrier that is proved (`validation`), raw frames before UDP.
//! - Bulk data takes UDP, on all rails at the same time; each rail is one path of the flow.
//! - A standby rail carries nothing as long as another rail leads to the peer.
//! - A carrier that does not answer leaves its work to the others: the other carrier of its rail, or the
//!   other rails.
//!
//! A path whose probes go unanswered is doubted, and its carrier is asked; the proved carriers are asked with
//! it. The packets in flight on the path are sent again only if its carrier stays silent although another
//! carrier answers again and again. A peer that does not look answers on no carrier.

use crate::flow::Flow;
use crate::path_validation::{Answered, Ends, Keys, PathFrameKind, PathReply, SIZE, Validation};
use crate::time::Instant;
use crate::wire::PATHS_MAX;
use alloc::boxed::Box;

/// Most rails to one peer.
pub const RAILS_MAX: usize = 4;

const _: () = assert!(RAILS_MAX < PATHS_MAX);

/// The role of a carrier where several lead to one peer. It follows from the carrier's attributes
/// (`weft_engine::transport`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Small messages: a look for packets costs next to nothing, as with frames on the interface.
    SmallMessages,
    /// Bulk data: the carrier takes many packets at once, and passes routers. Such are UDP, a provider of
    /// libfabric, an RDMA device.
    BulkData,
}

/// A carrier on one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailCarrier {
    /// The role of the carrier.
    pub role: Role,
    /// The number of the rail: 0 is the best; below [`RAILS_MAX`].
    pub rail: u8,
    /// The interfaces at both ends.
    pub ends: Ends,
    /// The rail is used only while no other one leads to the peer. A standby rail has no raw frames, and no
    /// other rail comes after it.
    pub standby: bool,
}

/// A challenge or a response, as it travels.
pub type PathFrame = [u8; SIZE];

/// The outcome of a path frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The frame changes nothing: it is forged, late, or about no carrier of this process.
    Nothing,
    /// The peer asks: the answer leaves over the carrier with this index.
    Answer(usize, PathFrame),
    /// The peer has answered an open challenge or check. So it lives, though none of its flow's packets may
    /// have come.
    PeerLives,
}

#[derive(Debug)]
struct Known {
    carrier: RailCarrier,
    validation: Validation,
}

/// The state of the carriers to one peer. Carriers are named by their index in the list given to
/// [`Rails::new`].
#[derive(Debug)]
pub struct Rails {
    known: Box<[Known]>,
    keys: Option<Box<Keys>>,
    /// The carrier of messages while none is proved: the carrier that was proved last, at first UDP, which
    /// passes routers.
    last_resort: u8,
    /// The carriers of messages, and of the bulk data of each rail. They change only in `change_carriers`, of
    /// which the flow is told.
    messages: u8,
    bulk: [u8; RAILS_MAX],
    /// Challenges and responses that the peer did not make.
    forged: u32,
    /// Rails that are silent while others answer, one bit each; and the number of times that each became
    /// silent.
    failed: u8,
    failures: [u16; RAILS_MAX],
    /// The number of times that bulk data has left UDP because UDP was silent.
    failovers: u16,
    /// A carrier has been proved of which the flow has not been told.
    news: bool,
    /// The state of some carrier has changed since the flow was told.
    is_stale: bool,
}

impl Rails {
    /// Begins with these carriers, at least one, the better ones first. UDP on the first rail that has it
    /// counts as proved before it has answered; a carrier without an alternative always does.
    pub fn new(carriers: &[RailCarrier]) -> Self {
        assert!((1..=2 * RAILS_MAX).contains(&carriers.len()), "one to eight carriers lead to a peer");
        let last_resort = carriers.iter().position(|carrier| carrier.role == Role::BulkData).unwrap_or(0);
        let known = |(index, carrier): (usize, &RailCarrier)| Known {
            carrier: *carrier,
            validation: if index == last_resort { Validation::assumed() } else { Validation::unknown() },
        };
        let on = |rail: usize| move |carrier: &RailCarrier| usize::from(carrier.rail) == rail;
        let bulk = |rail: usize| {
            let udp = carriers.iter().position(|carrier| on(rail)(carrier) && carrier.role == Role::BulkData);
            udp.or_else(|| carriers.iter().position(on(rail))).unwrap_or(last_resort) as u8
        };
        Self {
            messages: last_resort as u8,
            bulk: core::array::from_fn(bulk),
            known: carriers.iter().enumerate().map(known).collect(),
            keys: None,
            last_resort: last_resort as u8,
            forged: 0,
            failed: 0,
            failures: [0; RAILS_MAX],
            failovers: 0,
            news: false,
            is_stale: true,
        }
    }

    /// Gives back memory whose content can be made again.
    pub fn shrink(&mut self) {
        self.keys = None;
    }

    /// Challenges and responses that came and that the peer did not make.
    pub fn forged(&self) -> u32 {
        self.forged
    }

    /// Returns whether there is more than one carrier. With a single carrier nothing is asked or doubted.
    #[inline]
    pub fn is_choice(&self) -> bool {
        self.known.len() > 1
    }

    /// The number of rails.
    pub fn rails(&self) -> usize {
        self.known.iter().map(|known| usize::from(known.carrier.rail) + 1).max().unwrap_or(0)
    }

    /// The number of carriers.
    pub fn carriers(&self) -> usize {
        self.known.len()
    }

    /// The role, the rail and the interfaces of a carrier.
    pub fn named(&self, carrier: usize) -> RailCarrier {
        self.known[carrier].carrier
    }

    /// The number of own paths of bulk data, for the flow to this peer: one for each rail, or none if all
    /// packets take the same path.
    pub fn bulk_paths(&self) -> usize {
        if self.is_choice() { self.rails() } else { 0 }
    }

    /// The carrier of a path of the flow: messages take the best carrier of all, and bulk data of path k that
    /// of rail k − 1.
    pub fn carrier(&self, path: usize) -> usize {
        if let Some(rail) = path.checked_sub(1) {
            return usize::from(self.bulk.get(rail).copied().unwrap_or(self.last_resort));
        }
        usize::from(self.messages)
    }

    /// Chooses carriers anew; returns the paths whose carrier is another one now, one bit each. Messages take
    /// the best carrier that is proved, raw frames before UDP.
    ///
    /// Bulk data of a rail takes UDP where UDP is proved, and leaves it for raw frames once UDP is silent. An
    /// earlier change would let frames overtake the packets under way. Then bulk data stays with raw frames
    /// until UDP has answered; the chance of an answer is not enough.
    fn change_carriers(&mut self) -> u8 {
        let raw = self.first(|known| known.carrier.role == Role::SmallMessages);
        let messages = raw.or_else(|| self.first(|_| true)).unwrap_or(usize::from(self.last_resort)) as u8;
        let mut changed = u8::from(messages != self.messages);
        self.messages = messages;
        for rail in 0..self.rails() {
            let carrier = usize::from(self.bulk[rail]);
            let proved = |role| {
                let is_it = |known: &Known| usize::from(known.carrier.rail) == rail && known.carrier.role == role;
                self.first(is_it)
            };
            let other = || proved(Role::SmallMessages).filter(|_| self.known[carrier].validation.is_silent());
            if let Some(next) = proved(Role::BulkData).or_else(other).filter(|next| *next != carrier) {
                self.failovers =
                    self.failovers.saturating_add(u16::from(self.known[next].carrier.role == Role::SmallMessages));
                self.bulk[rail] = next as u8;
                changed |= 2 << rail;
            }
        }
        changed
    }

    /// Tells the flow to this peer which paths lead to the peer, and learns from the flow which paths to
    /// doubt. To be called after the flow has sent.
    #[inline]
    pub fn steer(&mut self, flow: &mut Flow) {
        if !self.is_choice() {
            return;
        }
        // A challenge may be stuck in the queue of the carrier that it asks. Messages change carriers at any
        // time, so their acknowledgements prove nothing.
        let (doubts, alive) = (flow.take_doubts(), flow.take_alive() & !1);
        if self.is_stale || doubts | alive != 0 {
            self.steer_after_news(flow, doubts, alive);
        }
    }

    fn steer_after_news(&mut self, flow: &mut Flow, doubts: u8, alive: u8) {
        self.is_stale = false;
        // The long path, which comes after the paths of bulk data, has no rail.
        let of_rails = ((2_u32 << self.bulk_paths()) - 1) as u8;
        let (doubts, alive) = (doubts & of_rails, alive & of_rails);
        if core::mem::take(&mut self.news) {
            flow.ask_again();
        }
        for path in (0..PATHS_MAX).filter(|path| doubts & 1 << path != 0) {
            self.doubt(self.carrier(path));
        }
        for path in (1..PATHS_MAX).filter(|path| alive & 1 << path != 0) {
            let carrier = self.carrier(path);
            self.known[carrier].validation.believe();
            self.last_resort = carrier as u8;
        }
        let changed = self.change_carriers();
        for path in (0..PATHS_MAX).filter(|path| changed & 1 << path != 0) {
            flow.changes_carrier(path);
        }
        let rails = self.rails();
        if rails == 1 {
            return;
        }
        let of = |rail: usize| self.known.iter().filter(move |known| usize::from(known.carrier.rail) == rail);
        let (mut usable, mut silent) = (0_u8, 0_u8);
        for rail in 0..rails {
            usable |= u8::from(self.is_proved(self.carrier(rail + 1))) << rail;
            silent |= u8::from(of(rail).all(|known| known.validation.is_silent())) << rail;
        }
        if usable == 0 {
            return;
        }
        flow.use_paths(self.preferred(usable) << 1);
        for rail in (0..rails).filter(|rail| silent & 1 << rail != 0) {
            let failures = &mut self.failures[rail];
            *failures = failures.saturating_add(u16::from(self.failed & 1 << rail == 0));
            if flow.is_silent(rail + 1) {
                flow.give_up(rail + 1);
            }
        }
        self.failed = (self.failed | silent) & !usable;
    }

    /// The rails that carry bulk data, of those that are `usable`, one bit each.
    fn preferred(&self, usable: u8) -> u8 {
        let on_standby = self.known.iter().filter(|known| known.carrier.standby);
        let others = on_standby.fold(usable, |rails, known| rails & !(1 << known.carrier.rail));
        if others == 0 { usable } else { others }
    }

    /// The interfaces that a rail joins; none if there is no such rail.
    pub fn ends(&self, rail: usize) -> Option<Ends> {
        self.known.iter().find(|known| usize::from(known.carrier.rail) == rail).map(|known| known.carrier.ends)
    }

    /// The number of times that a rail became silent while others answered, and whether it is silent now.
    pub fn failures(&self, rail: usize) -> (u16, bool) {
        (self.failures[rail], self.failed & 1 << rail != 0)
    }

    /// The number of times that bulk data has left UDP on some rail because UDP was silent while raw frames
    /// were answered.
    pub fn failovers(&self) -> u16 {
        self.failovers
    }

    /// The first carrier of a kind that is proved.
    fn first(&self, wanted: impl Fn(&Known) -> bool) -> Option<usize> {
        self.known.iter().position(|known| known.validation.is_proved() && wanted(known))
    }

    /// Returns whether a carrier may be used.
    pub fn is_proved(&self, carrier: usize) -> bool {
        self.known[carrier].validation.is_proved()
    }

    /// Takes bytes for which `path_validation::is_path_frame` is true, and which came over a carrier of this
    /// role.
    pub fn handle(&mut self, role: Role, bytes: &[u8], keys: impl FnOnce() -> Keys) -> Handled {
        self.is_stale = true;
        let keys = self.keys.get_or_insert_with(|| Box::new(keys()));
        let Some(reply) = keys.open(bytes) else {
            self.forged = self.forged.wrapping_add(1);
            return Handled::Nothing;
        };
        let is_it = |known: &Known| known.carrier.role == role && known.carrier.ends == reply.ends;
        let Some(carrier) = self.known.iter().position(is_it) else { return Handled::Nothing };
        match reply.kind {
            PathFrameKind::Challenge { doubts } => {
                let response = keys.response(&reply);
                if doubts && self.is_choice() {
                    self.known.iter_mut().for_each(|known| known.validation.doubt_with_peer());
                }
                Handled::Answer(carrier, response)
            }
            // A challenge that comes may be an old one that somebody sends again. A response is none: it
            // names a challenge that is open.
            PathFrameKind::Response if self.answered(carrier, &reply) => Handled::PeerLives,
            PathFrameKind::Response => Handled::Nothing,
        }
    }

    /// Takes a response; returns whether it answers anything.
    fn answered(&mut self, carrier: usize, response: &PathReply) -> bool {
        match self.known[carrier].validation.handle_response(response) {
            Answered::Nothing => return false,
            Answered::Check => self.known.iter_mut().for_each(|known| known.validation.was_checked()),
            Answered::Proof => {
                self.last_resort = carrier as u8;
                self.news = true;
                self.known.iter_mut().for_each(|known| known.validation.ask_again());
            }
        }
        true
    }

    /// The challenge that is due on a carrier.
    #[inline]
    pub fn poll_challenge(&mut self, carrier: usize, now: Instant, keys: impl FnOnce() -> Keys) -> Option<PathFrame> {
        if !self.is_choice() || self.known[carrier].validation.is_settled() {
            return None;
        }
        self.make_challenge(carrier, now, keys)
    }

    #[inline(never)]
    fn make_challenge(&mut self, carrier: usize, now: Instant, keys: impl FnOnce() -> Keys) -> Option<PathFrame> {
        let Known { carrier, validation } = &mut self.known[carrier];
        let (ends, is_check) = (carrier.ends, validation.is_proved());
        let challenge = validation.poll_challenge(now)?;
        if !is_check {
            self.known.iter_mut().for_each(|known| known.validation.check());
        }
        self.is_stale = true;
        Some(self.keys.get_or_insert_with(|| Box::new(keys())).challenge(&challenge, ends))
    }

    /// Notes that the machine has refused a packet for this carrier. Its interface may be down, so the rail's
    /// other carrier must answer, too.
    pub fn refused(&mut self, carrier: usize) {
        let rail = self.known[carrier].carrier.rail;
        for carrier in 0..self.carriers() {
            if self.known[carrier].carrier.rail == rail {
                self.doubt(carrier);
            }
        }
    }

    /// Puts a carrier in doubt, because there is no sign that packets sent over it arrived.
    pub fn doubt(&mut self, carrier: usize) {
        if self.is_choice() {
            self.known[carrier].validation.doubt();
            self.is_stale = true;
        }
    }

    /// The time at which a challenge is due, as long as the outcome is open.
    pub fn next_timeout(&self) -> Option<Instant> {
        if !self.is_choice() {
            return None;
        }
        self.known.iter().filter_map(|known| known.validation.next_timeout()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Deliver, Regions, Settings};
    use crate::process::Parties;
    use crate::time::Duration;
    use crate::wire::Secret;
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    fn carrier(role: Role, rail: u8) -> RailCarrier {
        RailCarrier { role, rail, ends: Ends { own: rail, peer: rail }, standby: false }
    }

    /// Raw frames and UDP on `count` rails.
    fn rails(count: u8) -> Rails {
        let pair = |rail| [carrier(Role::SmallMessages, rail), carrier(Role::BulkData, rail)];
        Rails::new(&(0..count).flat_map(pair).collect::<Vec<_>>())
    }

    fn keys(own: u32, peer: u32) -> Keys {
        Keys::new(&Secret::new([1; 16]), &Parties::of_only_job(own, peer))
    }

    struct Nothing;

    impl Deliver for Nothing {
        fn message(&mut self, _: &[u8]) {}

        fn data(&mut self, _: u32, _: u64, _: &[u8]) {}
    }

    impl Regions for Nothing {
        fn read(&mut self, _: u32, _: u64, out: &mut [u8]) {
            out.fill(0);
        }
    }

    /// Delivers all packets that one flow has for the other.
    fn deliver(now: Instant, from: &mut Flow, to: &mut Flow) {
        let mut out = [0; 600];
        while let Some(length) = from.poll_transmit(now, &mut Nothing, &mut out) {
            to.handle_packet(now, &out[..length], &mut Nothing);
        }
    }

    fn kind(carrier: usize) -> Role {
        [Role::SmallMessages, Role::BulkData][carrier % 2]
    }

    /// The answer to a challenge, and the carrier over which it leaves.
    fn answer(handled: Handled) -> (usize, PathFrame) {
        let Handled::Answer(carrier, frame) = handled else { panic!("a challenge is answered: {handled:?}") };
        (carrier, frame)
    }

    /// Asks over a carrier, and lets the peer answer.
    fn ask(rails: &mut Rails, carrier: usize, now: Instant) {
        let challenge = rails.poll_challenge(carrier, now, || keys(0, 1)).unwrap();
        let (_, response) = answer(self::rails(4).handle(kind(carrier), &challenge, || keys(1, 0)));
        assert_eq!(rails.handle(kind(carrier), &response, || keys(0, 1)), Handled::PeerLives);
        assert_eq!(rails.handle(kind(carrier), &response, || keys(0, 1)), Handled::Nothing, "sent again");
    }

    /// Asks a carrier, which does not answer, though the peer answers on all proved carriers.
    fn be_silent(rails: &mut Rails, carrier: usize) {
        for ms in [0, 1, 3, 7] {
            let now = Instant(0) + Duration::from_millis(ms);
            rails.poll_challenge(carrier, now, || keys(0, 1));
            for other in 0..rails.carriers() {
                if rails.is_proved(other) {
                    ask(rails, other, now);
                }
            }
        }
    }

    /// Asks a carrier, and nothing answers.
    fn be_alone(rails: &mut Rails, carrier: usize) {
        for ms in [0, 1, 3, 7, 15, 31, 63, 127] {
            rails.poll_challenge(carrier, Instant(0) + Duration::from_millis(ms), || keys(0, 1));
        }
    }

    #[test]
    fn a_peer_that_does_not_look_costs_no_lane() {
        let mut rails = rails(2);
        let settings = Settings { bulk_paths: 2, ..Settings::default() };
        let mut flow = Flow::new(Arc::new(settings), &Secret::new([1; 16]), &Parties::of_only_job(0, 1));
        for carrier in [0, 2, 3] {
            ask(&mut rails, carrier, Instant(0));
        }
        rails.steer(&mut flow);
        // Packets are in flight on one path only, and go unanswered for long.   Expect: no carrier is to
        // blame.
        rails.doubt(1);
        be_alone(&mut rails, 1);
        rails.steer(&mut flow);
        assert_eq!((rails.carrier(1), rails.failures(0), rails.change_carriers()), (1, (0, false), 0));
        ask(&mut rails, 1, Instant(0) + Duration::from_secs(1));
        assert!(rails.is_proved(1));
    }

    #[test]
    fn the_raw_lane_is_used_for_what_is_small_once_it_has_answered() {
        let mut rails = rails(1);
        assert_eq!((rails.carrier(0), rails.carrier(1)), (1, 1));
        assert!(rails.poll_challenge(1, Instant(0), || keys(0, 1)).is_none(), "UDP is believed in");
        ask(&mut rails, 0, Instant(0));
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (1, 0, 1));
    }

    #[test]
    fn a_lane_that_does_not_answer_leaves_everything_to_the_other() {
        let mut rails = rails(1);
        ask(&mut rails, 0, Instant(0));
        assert_eq!(rails.change_carriers(), 1);
        rails.doubt(0);
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (1, 1, 1));
        ask(&mut rails, 0, Instant(1));
        // UDP may still answer.   Expect: no frame overtakes the packets under way there.
        rails.doubt(1);
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (1, 0, 1));
        be_silent(&mut rails, 1);
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (2, 0, 0));
        // Frames are doubted and answer, so that UDP is asked once more.   Expect: bulk data does not go back
        // before it has answered.
        rails.doubt(0);
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (0, 0, 0));
        ask(&mut rails, 0, Instant(2));
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (0, 0, 0));
        ask(&mut rails, 1, Instant(0) + crate::path_validation::AGAIN);
        assert_eq!((rails.change_carriers(), rails.carrier(0), rails.carrier(1)), (2, 0, 1));
    }

    #[test]
    fn what_arrived_over_another_lane_does_not_prove_the_one_taken_now() {
        let mut rails = rails(1);
        let settings = Settings { bulk_paths: 1, packet_size: 600, ..Settings::default() };
        let mut flow = Flow::new(Arc::new(settings.clone()), &Secret::new([1; 16]), &Parties::of_only_job(0, 1));
        let mut peer = Flow::new(Arc::new(settings), &Secret::new([1; 16]), &Parties::of_only_job(1, 0));
        let mut now = Instant(1);
        ask(&mut rails, 0, now);
        flow.submit_data(1, 2, 0..100_000);
        // UDP loses everything: bulk data moves to raw frames, and arrives.
        rails.doubt(1);
        be_silent(&mut rails, 1);
        rails.steer(&mut flow);
        assert_eq!(rails.carrier(1), 0);
        for _ in 0..20 {
            deliver(now, &mut flow, &mut peer);
            // Frames are doubted and answer each time, so that UDP is asked once more.
            rails.doubt(0);
            now = now + Duration::from_millis(20);
            ask(&mut rails, 0, now);
            deliver(now, &mut peer, &mut flow);
            rails.steer(&mut flow);
            assert!(!rails.is_proved(1) && rails.carrier(1) == 0);
        }
        assert!(flow.is_idle());
        // UDP answers while data is under way as frames, and is doubted before that data is acknowledged.
        flow.submit_data(3, 4, 0..5_000);
        deliver(now, &mut flow, &mut peer);
        ask(&mut rails, 1, now + crate::path_validation::AGAIN);
        rails.steer(&mut flow);
        assert_eq!(rails.carrier(1), 1);
        rails.doubt(1);
        deliver(now, &mut peer, &mut flow);
        rails.steer(&mut flow);
        assert!(flow.is_idle() && !rails.is_proved(1));
    }

    /// Nothing of the peer's flow arrives any more, since its host looks at its sockets only now and then,
    /// and its answers to the flow's probes are lost.   Expect: an answer to a challenge keeps the peer from
    /// being given up, and the peer is given up one timeout after the last one.
    #[test]
    fn an_answer_to_a_challenge_is_a_sign_of_life() {
        let second = Duration::from_secs(1);
        let settings = Settings { peer_timeout: Duration(2 * second.0), bulk_paths: 1, ..Settings::default() };
        let mut flow = Flow::new(Arc::new(settings), &Secret::new([1; 16]), &Parties::of_only_job(0, 1));
        let mut rails = rails(1);
        let (start, mut out) = (Instant(0) + second, [0; 2000]);
        let mut failed_after = None;
        flow.submit_message(b"is anybody there", &[]);
        for step in 0..100 {
            let now = start + Duration::from_millis(50 * step);
            if step == 30 {
                ask(&mut rails, 0, now);
                flow.heard_beside(now);
            }
            while flow.poll_transmit(now, &mut Nothing, &mut out).is_some() {}
            rails.steer(&mut flow);
            if flow.poll_event().is_some() {
                failed_after = failed_after.or(Some(50 * step));
            }
        }
        let failed_after = failed_after.expect("the peer is given up in the end");
        assert!((3500..4000).contains(&failed_after), "{failed_after} ms");
    }

    #[test]
    fn with_one_lane_nothing_is_asked_or_doubted() {
        for only in [Role::SmallMessages, Role::BulkData] {
            let mut rails = Rails::new(&[carrier(only, 0)]);
            rails.doubt(0);
            assert_eq!((rails.carrier(0), rails.bulk_paths(), rails.next_timeout()), (0, 0, None));
            assert!(rails.is_proved(0) && rails.poll_challenge(0, Instant(0), || keys(0, 1)).is_none());
        }
    }

    #[test]
    fn each_rail_carries_bulk_data_and_the_best_carries_messages() {
        let mut rails = rails(3);
        assert_eq!((rails.rails(), rails.bulk_paths()), (3, 3));
        for carrier in [0, 2, 3, 4, 5] {
            ask(&mut rails, carrier, Instant(0));
        }
        assert_eq!(rails.change_carriers() & 1, 1);
        assert_eq!([0, 1, 2, 3].map(|path| rails.carrier(path)), [0, 1, 3, 5]);
        // The best rail is doubted.   Expect: messages take the next; its bulk data is probed for where it
        // is.
        rails.doubt(0);
        rails.doubt(1);
        assert_eq!(rails.change_carriers(), 1);
        assert_eq!([0, 1, 2, 3].map(|path| rails.carrier(path)), [2, 1, 3, 5]);
        // UDP stays silent on the second.   Expect: its raw frames carry all.
        rails.doubt(3);
        be_silent(&mut rails, 3);
        assert_eq!(rails.change_carriers(), 4);
        assert_eq!([0, 1, 2, 3].map(|path| rails.carrier(path)), [2, 1, 2, 5]);
    }

    #[test]
    fn a_rail_that_is_silent_while_others_answer_has_failed_until_it_answers_again() {
        let mut rails = rails(2);
        let settings = Settings { bulk_paths: 2, ..Settings::default() };
        let mut flow = Flow::new(Arc::new(settings), &Secret::new([1; 16]), &Parties::of_only_job(0, 1));
        for carrier in [0, 2, 3] {
            ask(&mut rails, carrier, Instant(0));
        }
        rails.steer(&mut flow);
        assert_eq!([0, 1].map(|rail| rails.failures(rail)), [(0, false); 2]);
        for carrier in [2, 3] {
            rails.doubt(carrier);
            be_silent(&mut rails, carrier);
        }
        rails.steer(&mut flow);
        rails.steer(&mut flow);
        assert_eq!([0, 1].map(|rail| rails.failures(rail)), [(0, false), (1, true)]);
        ask(&mut rails, 3, Instant(0) + crate::path_validation::AGAIN);
        rails.steer(&mut flow);
        assert_eq!(rails.failures(1), (1, false));
        // The interface of the first goes down: packets for it are refused.
        rails.refused(0);
        assert_eq!([0, 1, 2, 3].map(|carrier| rails.is_proved(carrier)), [false, false, false, true]);
        ask(&mut rails, 0, Instant(0));
        ask(&mut rails, 1, Instant(0));
        rails.steer(&mut flow);
        // No carrier answers: the peer does not look, and no rail is to blame.
        for carrier in 0..4 {
            rails.doubt(carrier);
            be_silent(&mut rails, carrier);
        }
        rails.steer(&mut flow);
        assert_eq!([0, 1].map(|rail| rails.failures(rail)), [(0, false), (1, false)]);
    }

    /// UDP on two rails, of which one is on standby.   Expect: it is proved, and carries nothing until the
    /// other one is silent, and nothing again once that answers.
    #[test]
    fn a_standby_rail_carries_nothing_while_another_one_leads_to_the_peer() {
        let standby = RailCarrier { standby: true, ..carrier(Role::BulkData, 1) };
        let mut rails = Rails::new(&[carrier(Role::BulkData, 0), standby]);
        let settings = Settings { bulk_paths: 2, ..Settings::default() };
        let mut flow = Flow::new(Arc::new(settings), &Secret::new([1; 16]), &Parties::of_only_job(0, 1));
        let respond = |rails: &mut Rails, carrier: usize, now| {
            let challenge = rails.poll_challenge(carrier, now, || keys(0, 1)).unwrap();
            let (_, response) = answer(self::rails(4).handle(Role::BulkData, &challenge, || keys(1, 0)));
            rails.handle(Role::BulkData, &response, || keys(0, 1));
        };
        respond(&mut rails, 1, Instant(0));
        rails.steer(&mut flow);
        assert!(rails.is_proved(0) && rails.is_proved(1));
        assert_eq!((rails.carrier(0), [0b01, 0b10, 0b11].map(|usable| rails.preferred(usable))), (0, [1, 2, 1]));
        rails.doubt(0);
        rails.steer(&mut flow);
        assert_eq!((rails.carrier(0), rails.is_proved(0)), (1, false));
        respond(&mut rails, 0, Instant(0) + crate::path_validation::AGAIN);
        rails.steer(&mut flow);
        assert_eq!((rails.carrier(0), rails.is_proved(0)), (0, true));
    }

    #[test]
    fn a_peers_question_is_answered_over_its_lane_only_if_it_is_authentic_and_there_is_such_a_lane() {
        let mut near = rails(2);
        let challenge = rails(2).poll_challenge(2, Instant(0), || keys(1, 0)).unwrap();
        let (carrier, response) = answer(near.handle(Role::SmallMessages, &challenge, || keys(0, 1)));
        assert_eq!((carrier, response.len()), (2, SIZE));
        assert_eq!(near.handle(Role::SmallMessages, &[0xff; SIZE], || keys(0, 1)), Handled::Nothing);
        assert!(!near.is_proved(2), "the peer's question proves nothing here");
        assert_eq!(rails(1).handle(Role::SmallMessages, &challenge, || keys(0, 1)), Handled::Nothing);
    }

    #[test]
    fn who_is_told_of_doubts_asks_too_and_that_spreads_no_further() {
        let (mut near, mut far) = (rails(1), rails(1));
        ask(&mut near, 0, Instant(0));
        near.doubt(0);
        let challenge = near.poll_challenge(0, Instant(1), || keys(0, 1)).unwrap();
        answer(far.handle(Role::SmallMessages, &challenge, || keys(1, 0)));
        assert!(!far.is_proved(1));
        let challenge = far.poll_challenge(1, Instant(1), || keys(1, 0)).unwrap();
        answer(near.handle(Role::BulkData, &challenge, || keys(0, 1)));
        assert!(near.is_proved(1));
    }
}
