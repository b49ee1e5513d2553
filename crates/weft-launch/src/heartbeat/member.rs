//! A host of the ring, as its agent sees it: it sends heartbeats to the next host, hears those of the host
//! before it, and answers questions. It never excludes anybody: it tells `mpiexec` what it hears.

use super::Pace;
use super::beat::{Beat, Kind};
use crate::control::FromMember;
use std::time::Duration;

/// Something that the agent has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Send this to the member.
    Send { to: u32, beat: Beat },
    /// Tell `mpiexec`.
    Report(FromMember),
}

/// The policy of an agent. Times count from any moment, the same for all calls.
#[derive(Debug)]
pub(crate) struct Member {
    number: u32,
    pace: Pace,
    /// The next host of the ring, if there is one.
    next: Option<u32>,
    watched: Option<Watched>,
    asking: Option<Asking>,
    /// The heartbeats that were sent.
    count: u64,
    beat_at: Duration,
    looked_at: Duration,
}

/// The host before this one.
#[derive(Debug)]
struct Watched {
    member: u32,
    /// The count of its last heartbeat, so that a recorded one is worth nothing.
    count: Option<u64>,
    state: Hearing,
}

#[derive(Debug, PartialEq, Eq)]
enum Hearing {
    /// Nothing was heard yet, and perhaps nothing can be, since this time.
    Never { since: Duration },
    /// It was heard at this time.
    At(Duration),
    /// `mpiexec` was told that nothing is heard.
    Told,
}

/// A question whether another member can be reached.
#[derive(Debug)]
struct Asking {
    round: u32,
    anchor: u32,
    ask_at: Duration,
}

impl Member {
    pub(crate) fn new(number: u32, pace: Pace, now: Duration) -> Self {
        Self { number, pace, next: None, watched: None, asking: None, count: 0, beat_at: now, looked_at: now }
    }

    /// Takes a place in the ring: heartbeats go to `next`, and those of `watched` are expected: at once if it
    /// is known that they come through (`is_audible`), else from the first one on.
    pub(crate) fn take_place(&mut self, now: Duration, next: Option<u32>, watched: Option<u32>, is_audible: bool) {
        self.next = next;
        let state = if is_audible { Hearing::At(now) } else { Hearing::Never { since: now } };
        self.watched = watched.map(|member| Watched { member, count: None, state });
        self.beat_at = now;
    }

    /// Begins to ask `anchor` until it answers. The anchor itself has heard itself.
    pub(crate) fn ask(&mut self, now: Duration, round: u32, anchor: u32) -> FromMember {
        if anchor == self.number {
            self.asking = None;
            return FromMember::Heard { round };
        }
        self.asking = Some(Asking { round, anchor, ask_at: now });
        FromMember::Asking { round }
    }

    /// Handles a datagram. Returns the answer to its sender, or a report.
    pub(crate) fn handle_beat(&mut self, now: Duration, beat: Beat) -> Option<Act> {
        let Beat { kind, from, count } = beat;
        match kind {
            Kind::Alive => {
                let watched = self.watched.as_mut().filter(|watched| watched.member == from)?;
                if watched.count.is_some_and(|last| count <= last) {
                    return None;
                }
                let is_news = watched.count.is_none() || watched.state == Hearing::Told;
                (watched.count, watched.state) = (Some(count), Hearing::At(now));
                is_news.then_some(Act::Report(FromMember::Audible))
            }
            Kind::Ask => {
                let beat = Beat { kind: Kind::Answer, from: self.number, count };
                Some(Act::Send { to: from, beat })
            }
            Kind::Answer => {
                let asking = self.asking.take_if(|asking| asking.anchor == from && u64::from(asking.round) == count)?;
                Some(Act::Report(FromMember::Heard { round: asking.round }))
            }
        }
    }

    /// Does what is due. Everything that has arrived must have been handled before.
    pub(crate) fn poll(&mut self, now: Duration) -> Vec<Act> {
        let mut acts = Vec::new();
        let was_stopped = now.saturating_sub(self.looked_at) >= self.pace.stop();
        self.looked_at = now;
        if let Some(to) = self.next.filter(|_| now >= self.beat_at) {
            self.count += 1;
            self.beat_at = now + self.pace.beat();
            acts.push(Act::Send { to, beat: Beat { kind: Kind::Alive, from: self.number, count: self.count } });
        }
        if let Some(asking) = self.asking.as_mut().filter(|asking| now >= asking.ask_at) {
            asking.ask_at = now + self.pace.beat();
            let beat = Beat { kind: Kind::Ask, from: self.number, count: u64::from(asking.round) };
            acts.push(Act::Send { to: asking.anchor, beat });
        }
        if let Some(watched) = &mut self.watched {
            acts.extend(watched.poll(now, self.pace, was_stopped).map(Act::Report));
        }
        acts
    }

    /// The time of the next call of [`poll`](Self::poll).
    pub(crate) fn next_timeout(&self) -> Duration {
        let asking = self.asking.as_ref().map(|asking| asking.ask_at);
        let beat = if self.next.is_some() { self.beat_at } else { self.looked_at + self.pace.beat() };
        asking.map_or(beat, |at| at.min(beat))
    }
}

impl Watched {
    fn poll(&mut self, now: Duration, pace: Pace, was_stopped: bool) -> Option<FromMember> {
        let member = self.member;
        match &mut self.state {
            // An agent that was stopped itself has heard nothing for that reason.
            Hearing::Never { since: at } | Hearing::At(at) if was_stopped => {
                *at = now;
                None
            }
            Hearing::At(at) if now.saturating_sub(*at) >= pace.suspicion() => {
                self.state = Hearing::Told;
                Some(FromMember::Silent { member })
            }
            Hearing::Never { since } if now.saturating_sub(*since) >= pace.limit() => {
                self.state = Hearing::Told;
                Some(FromMember::Unheard { member })
            }
            _ => None,
        }
    }
}
