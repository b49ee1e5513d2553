//! The ring of hosts, as `mpiexec` sees it. It alone decides who is excluded, so two hosts that accuse each
//! other never both go on.
//!
//! A host that its watcher does not hear is suspected only. A *round* follows: all hosts ask one of them, the
//! *anchor*, over the same network. A suspected host that does not hear the anchor in time is lost. One that
//! `mpiexec` still reaches must miss the anchor twice: the *repetition* shows that neither of the two was
//! only stopped meanwhile. If the anchor says nothing, or if fewer than half of the hosts that `mpiexec`
//! reaches hear the anchor, another one is asked.

use super::Pace;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What `mpiexec` has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// Tell the member its place in the ring.
    Place { member: u32, next: Option<u32>, watched: Option<u32>, is_audible: bool },
    /// Tell the member to ask the anchor.
    Ask { member: u32, round: u32, anchor: u32 },
    /// The member is lost, and must be told so.
    Lost { member: u32 },
    /// `by` does not hear `of`, although both are reached by others.
    Deaf { by: u32, of: u32 },
}

/// The policy of `mpiexec`. Times count from any moment, the same for all calls.
#[derive(Debug)]
pub(crate) struct Ring {
    pace: Pace,
    members: BTreeMap<u32, State>,
    /// The host of `mpiexec` itself, if it has ranks: the first anchor.
    home: Option<u32>,
    round: Option<Round>,
    rounds: u32,
    looked_at: Duration,
}

/// What is known of a member.
#[derive(Debug, Clone)]
struct State {
    /// The host before it has been heard by it: datagrams come through. Nobody else is ever excluded.
    is_audible: bool,
    /// The host that watches it, and the time since which it hears nothing from it.
    suspected: Option<(u32, Duration)>,
    /// It has lived although its watcher heard nothing, and was not heard since.
    was_cleared: bool,
    /// The last round of which it has said that it asks, and when.
    asks_in: u32,
    asked_at: Duration,
    /// The last round in which it has heard the anchor.
    heard_in: u32,
    /// The last round in which it was reached and did not hear the anchor.
    missed_in: u32,
}

#[derive(Debug)]
struct Round {
    anchor: u32,
    started_at: Duration,
    /// The anchors that few have heard, with the number of those that have.
    tried: Vec<(u32, usize)>,
    /// The anchor is asked a second time.
    is_repetition: bool,
    /// No other anchor is left: those that hear this one go on, however few they are.
    is_last: bool,
    /// The suspected members that have heard an anchor, each behind its watcher.
    cleared: BTreeSet<(u32, u32)>,
}

/// What a round has shown of a member.
enum Finding {
    /// It has heard the anchor, or still has time.
    Open,
    /// It is reached, and has not heard the anchor.
    Missed,
    Lost,
}

impl State {
    /// Judges what a member has said in a round, when the anchor has answered at `anchor_at`.
    fn judge(&self, now: Duration, pace: Pace, round: &Round, number: u32, anchor_at: Duration) -> Finding {
        if !self.is_audible || self.heard_in == number {
            return Finding::Open;
        }
        if self.asks_in == number {
            let at = self.suspected.map_or(self.asked_at, |(_, at)| at.max(self.asked_at));
            // Both were there at the same time.
            let were_prompt = self.asked_at.max(anchor_at) <= round.started_at + pace.exchange();
            return match round.is_repetition {
                true if now < self.asked_at + pace.exchange() => Finding::Open,
                true if were_prompt && self.missed_in + 1 == number => Finding::Lost,
                false if now < at + pace.answer() => Finding::Open,
                _ => Finding::Missed,
            };
        }
        let end = match self.suspected {
            // Its silence began long before.
            Some((_, at)) if self.asked_at <= at => at + pace.answer(),
            // It may have been stopped when this round began.
            _ => round.started_at + pace.limit() + pace.exchange(),
        };
        if now >= end { Finding::Lost } else { Finding::Open }
    }
}

impl Ring {
    /// A ring of these members, and their places in it.
    pub(crate) fn new(pace: Pace, members: &[u32], home: Option<u32>, now: Duration) -> (Self, Vec<Ruling>) {
        let state = State {
            is_audible: false,
            suspected: None,
            was_cleared: false,
            asks_in: 0,
            asked_at: now,
            heard_in: 0,
            missed_in: 0,
        };
        let members: BTreeMap<u32, State> = members.iter().map(|&member| (member, state.clone())).collect();
        let ring = Self { pace, members, home, round: None, rounds: 0, looked_at: now };
        let places = ring.members.keys().map(|&member| ring.place(member, false)).collect();
        (ring, places)
    }

    /// Notes that a member hears the one before it, for the first time or again.
    pub(crate) fn handle_audible(&mut self, by: u32) {
        if let Some(state) = self.members.get_mut(&by) {
            state.is_audible = true;
        }
        if let Some(state) = self.before(by).and_then(|of| self.members.get_mut(&of)) {
            (state.suspected, state.was_cleared) = (None, false);
        }
    }

    /// Handles the word of a member that it hears nothing of the one before it, which is `of`.
    pub(crate) fn handle_silence(&mut self, now: Duration, by: u32, of: u32) -> Vec<Ruling> {
        // Words about a place that the member has no more are of no use.
        if !self.members.contains_key(&by) || self.before(by) != Some(of) {
            return Vec::new();
        }
        let Some(state) = self.members.get_mut(&of) else { return Vec::new() };
        state.suspected.get_or_insert((by, now));
        if self.round.is_some() {
            return Vec::new();
        }
        self.looked_at = now;
        self.start_first(now)
    }

    /// Handles the word of a member that it asks the anchor of this round.
    pub(crate) fn handle_asking(&mut self, now: Duration, member: u32, round: u32) {
        if let Some(state) = self.members.get_mut(&member).filter(|_| round == self.rounds) {
            (state.asks_in, state.asked_at) = (round, now);
        }
    }

    /// Handles the word of a member that it has heard the anchor of this round.
    pub(crate) fn handle_heard(&mut self, now: Duration, member: u32, round: u32) {
        let Some(state) = self.members.get_mut(&member).filter(|_| round == self.rounds) else { return };
        if state.asks_in != round {
            state.asked_at = now;
        }
        (state.asks_in, state.heard_in) = (round, round);
        if let Some(((by, _), round)) = state.suspected.take().zip(self.round.as_mut()) {
            round.cleared.insert((by, member));
        }
    }

    /// Lets a member go whose ranks have ended, or that is known to be lost.
    pub(crate) fn remove(&mut self, now: Duration, member: u32) -> Vec<Ruling> {
        let mut rulings = self.close_gap(member);
        if self.round.as_ref().is_some_and(|round| round.anchor == member) {
            rulings.extend(self.start_next(now));
        }
        rulings
    }

    /// Decides what can be decided.
    pub(crate) fn poll(&mut self, now: Duration) -> Vec<Ruling> {
        let was_stopped = now.saturating_sub(self.looked_at) >= self.pace.stop();
        self.looked_at = now;
        let Some(round) = &mut self.round else { return Vec::new() };
        if was_stopped {
            // What was said meanwhile has not been heard here.
            round.started_at = now;
            self.members.values_mut().filter_map(|state| state.suspected.as_mut()).for_each(|(_, at)| *at = now);
            return Vec::new();
        }
        if self.all_have_heard() {
            return self.end_round(now);
        }
        let Some(round) = &self.round else { return Vec::new() };
        let (anchor, age) = (round.anchor, now.saturating_sub(round.started_at));
        let wait = if round.is_repetition { self.pace.repetition() } else { self.pace.answer() };
        let (asking, hearing) = (self.count(|state| state.asks_in), self.count(|state| state.heard_in));
        // If no host is reached from here, that says nothing about the network of the ranks.
        if age < wait || asking == 0 {
            return Vec::new();
        }
        let is_heard = |state: &&State| state.heard_in == self.rounds;
        let answered_at = self.members.get(&anchor).filter(is_heard).map(|state| state.asked_at);
        let is_early = match answered_at {
            Some(at) => now < at + self.pace.exchange(),
            None => age < self.pace.answer(),
        };
        if is_early {
            return Vec::new();
        }
        let Some(anchor_at) = answered_at.filter(|_| round.is_last || 2 * hearing >= asking) else {
            return self.start_next(now);
        };
        let (mut lost, mut is_missed) = (Vec::new(), false);
        for (&member, state) in &mut self.members {
            match state.judge(now, self.pace, round, self.rounds, anchor_at) {
                Finding::Open => {}
                Finding::Lost => lost.push(member),
                Finding::Missed => (state.missed_in, is_missed) = (self.rounds, true),
            }
        }
        let mut rulings: Vec<Ruling> = lost.iter().map(|&member| Ruling::Lost { member }).collect();
        for member in lost {
            rulings.extend(self.close_gap(member));
        }
        if self.all_have_heard() {
            rulings.extend(self.end_round(now));
        } else if let Some(round) = self.round.take_if(|_| is_missed) {
            rulings.extend(self.start(Round { started_at: now, is_repetition: true, ..round }));
        }
        rulings
    }

    /// The time of the next call of [`poll`](Self::poll), if it is needed.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.round.as_ref().map(|_| self.looked_at + self.pace.beat())
    }

    /// The members that have said something in the present round.
    fn count(&self, of: impl Fn(&State) -> u32) -> usize {
        self.members.values().filter(|state| state.is_audible && of(state) == self.rounds).count()
    }

    fn all_have_heard(&self) -> bool {
        self.members.values().all(|state| state.heard_in == self.rounds || !state.is_audible)
    }

    /// The anchor of a round: the host of `mpiexec`, else one that nobody suspects and that suspects nobody.
    fn choose_anchor(&self, may: impl Fn(u32) -> bool) -> Option<u32> {
        let accusers: Vec<u32> = self.members.values().filter_map(|state| state.suspected).map(|(by, _)| by).collect();
        let rank = |(member, state): &(&u32, &State)| {
            let is_doubtful = state.suspected.is_some() || accusers.contains(member);
            (Some(**member) != self.home, is_doubtful, **member)
        };
        let possible = self.members.iter().filter(|(member, state)| state.is_audible && may(**member));
        possible.min_by_key(rank).map(|(member, _)| *member)
    }

    /// Begins a round for the members that are suspected.
    fn start_first(&mut self, now: Duration) -> Vec<Ruling> {
        let Some(anchor) = self.choose_anchor(|_| true) else { return Vec::new() };
        let (started_at, tried, cleared) = (now, Vec::new(), BTreeSet::new());
        self.start(Round { anchor, started_at, is_repetition: false, tried, is_last: false, cleared })
    }

    fn start(&mut self, round: Round) -> Vec<Ruling> {
        self.rounds += 1;
        let (anchor, number) = (round.anchor, self.rounds);
        self.round = Some(round);
        self.members.keys().map(|&member| Ruling::Ask { member, round: number, anchor }).collect()
    }

    /// Begins a round with another anchor.
    fn start_next(&mut self, now: Duration) -> Vec<Ruling> {
        let hearing = self.count(|state| state.heard_in);
        let Some(mut round) = self.round.take() else { return Vec::new() };
        round.tried.push((round.anchor, hearing));
        let is_new = |member: u32| round.tried.iter().all(|(tried, _)| *tried != member);
        let reached = |member: u32| self.members.get(&member).is_some_and(|state| state.asks_in == self.rounds);
        let next = self.choose_anchor(|member| is_new(member) && reached(member));
        // Of the anchors that answer the one that most have heard, of these the first.
        let best = || {
            let left = round.tried.iter().rev().filter(|(tried, _)| reached(*tried));
            left.max_by_key(|(_, hearing)| *hearing).map(|(tried, _)| *tried)
        };
        let is_last = next.is_none();
        // If no host is reached from here, the present round goes on until one is.
        let Some(anchor) = next.or_else(best) else {
            round.tried.pop();
            self.round = Some(round);
            return Vec::new();
        };
        self.start(Round { anchor, started_at: now, is_last, is_repetition: false, ..round })
    }

    /// Ends the rounds, because all have heard the anchor. Members that were cleared get another chance to be
    /// heard, and the second time their watcher listens to them no more.
    fn end_round(&mut self, now: Duration) -> Vec<Ruling> {
        let Some(round) = self.round.take() else { return Vec::new() };
        let mut rulings = Vec::new();
        for (by, of) in round.cleared {
            if !self.members.contains_key(&by) || self.before(by) != Some(of) {
                continue;
            }
            let Some(state) = self.members.get_mut(&of) else { continue };
            let is_deaf = std::mem::replace(&mut state.was_cleared, true);
            if is_deaf {
                rulings.push(Ruling::Deaf { by, of });
            }
            rulings.push(self.place(by, !is_deaf));
        }
        // A member may have fallen silent after it had heard the anchor.
        if self.members.values().any(|state| state.suspected.is_some()) {
            rulings.extend(self.start_first(now));
        }
        rulings
    }

    /// Takes a member out of the ring, and gives its neighbours their new places.
    fn close_gap(&mut self, member: u32) -> Vec<Ruling> {
        if self.members.remove(&member).is_none() {
            return Vec::new();
        }
        if self.members.len() < 2 {
            self.round = None;
        }
        let mut neighbours = vec![self.before(member), self.after(member)];
        neighbours.dedup();
        let is_audible = |member: u32| self.members.get(&member).is_some_and(|state| state.is_audible);
        let place = |neighbour: u32| {
            let both = is_audible(neighbour) && self.before(neighbour).is_some_and(is_audible);
            self.place(neighbour, both)
        };
        neighbours.into_iter().flatten().map(place).collect()
    }

    fn place(&self, member: u32, is_audible: bool) -> Ruling {
        let other = |found: Option<u32>| found.filter(|&found| found != member);
        Ruling::Place { member, next: other(self.after(member)), watched: other(self.before(member)), is_audible }
    }

    /// The member before this place of the ring, which may be the only one.
    fn before(&self, place: u32) -> Option<u32> {
        self.members.range(..place).next_back().or_else(|| self.members.iter().next_back()).map(|(member, _)| *member)
    }

    /// The member behind this place of the ring, which may be the only one.
    fn after(&self, place: u32) -> Option<u32> {
        self.members.range(place + 1..).chain(&self.members).next().map(|(member, _)| *member)
    }
}
