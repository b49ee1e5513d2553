//! Heartbeats between the hosts, where the user asks for them. Who is excluded is decided in
//! [`crate::heartbeat`].

use super::Running;
use crate::control::{FromMember, Listener, Order, ToMember};
use crate::heartbeat::{Pace, Ring, Ruling};
use crate::mpiexec::reach::Stage;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The ring of hosts, and where each agent listens.
pub(super) struct Heartbeats {
    pace: Pace,
    listeners: BTreeMap<u32, Vec<SocketAddr>>,
    /// `None`: not all agents have told yet where they listen.
    ring: Option<Ring>,
    /// Pairs of hosts of which the first has never heard the second. The user is told when the second one
    /// answers.
    unheard: Vec<(u32, u32)>,
    started_at: Instant,
}

impl Heartbeats {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            pace: Pace::new(limit),
            listeners: BTreeMap::new(),
            ring: None,
            unheard: Vec::new(),
            started_at: Instant::now(),
        }
    }

    fn now(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// The time at which something is due, if anything is.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        Some(self.started_at + self.ring.as_ref()?.next_timeout()?)
    }

    fn listener(&self, member: u32) -> Listener {
        Listener { member, addresses: self.listeners.get(&member).cloned().unwrap_or_default() }
    }
}

impl Running {
    /// Handles a word of an agent about heartbeats.
    pub(super) fn handle_heartbeat(&mut self, index: usize, word: FromMember) {
        let Some(heartbeats) = &mut self.heartbeats else { return };
        let (now, from) = (heartbeats.now(), number(index));
        let Some(ring) = &mut heartbeats.ring else {
            if let FromMember::Listens(addresses) = word {
                heartbeats.listeners.insert(from, addresses);
                self.form_ring();
            }
            return;
        };
        match word {
            FromMember::Listens(_) => {}
            FromMember::Audible => ring.handle_audible(from),
            FromMember::Unheard { member } => heartbeats.unheard.push((from, member)),
            FromMember::Silent { member } => {
                let rulings = ring.handle_silence(now, from, member);
                self.obey(rulings);
            }
            FromMember::Asking { round } => ring.handle_asking(now, from, round),
            FromMember::Heard { round } => ring.handle_heard(now, from, round),
            FromMember::Leaves => self.leave_ring(index),
        }
    }

    /// Forms the ring as soon as all hosts have told where they listen.
    fn form_ring(&mut self) {
        let hosts = self.agents.len();
        let Some(heartbeats) = self.heartbeats.as_mut().filter(|beats| hosts > 1 && beats.listeners.len() == hosts)
        else {
            return;
        };
        let members: Vec<u32> = (0..hosts).map(number).collect();
        let home = self.agents.iter().position(|agent| !agent.remote).map(number);
        let (ring, places) = Ring::new(heartbeats.pace, &members, home, heartbeats.now());
        heartbeats.ring = Some(ring);
        self.obey(places);
    }

    /// Tells the user which hosts hear no heartbeats of one that has answered `mpiexec` since the last
    /// question. A host that does not answer either has failed, and the user is told that instead.
    pub(super) fn say_unheard(&mut self, now: Instant) {
        let Self { heartbeats: Some(heartbeats), agents, .. } = self else { return };
        heartbeats.unheard.retain(|(_, of)| agents[*of as usize].is_working());
        let has_answered =
            |of: u32| agents[of as usize].watch.as_ref().is_none_or(|watch| watch.silence(now) == Duration::ZERO);
        let all = std::mem::take(&mut heartbeats.unheard).into_iter();
        let (due, waiting): (Vec<_>, Vec<_>) = all.partition(|(_, of)| has_answered(*of));
        heartbeats.unheard = waiting;
        for (by, of) in due {
            let text = format!(
                "{} hears no heartbeats of {} (do the hosts let UDP through?): mpiexec alone watches it",
                self.host(by),
                self.host(of)
            );
            self.note(&text);
        }
    }

    /// Decides about hosts that may be lost.
    pub(super) fn judge_heartbeats(&mut self) {
        let Some(heartbeats) = &mut self.heartbeats else { return };
        let now = heartbeats.now();
        let rulings = heartbeats.ring.as_mut().map(|ring| ring.poll(now));
        self.obey(rulings.unwrap_or_default());
    }

    /// Takes a host out of the ring whose ranks have ended, or that is lost.
    pub(super) fn leave_ring(&mut self, index: usize) {
        let Some(heartbeats) = &mut self.heartbeats else { return };
        let now = heartbeats.now();
        let rulings = heartbeats.ring.as_mut().map(|ring| ring.remove(now, number(index)));
        self.obey(rulings.unwrap_or_default());
    }

    fn obey(&mut self, rulings: Vec<Ruling>) {
        for ruling in rulings {
            let Some(heartbeats) = &self.heartbeats else { return };
            match ruling {
                Ruling::Place { member, next, watched, is_audible } => {
                    let next = next.map(|next| heartbeats.listener(next));
                    self.tell_member(member, ToMember::Place { next, watched, is_audible });
                }
                Ruling::Ask { member, round, anchor } => {
                    let anchor = heartbeats.listener(anchor);
                    self.tell_member(member, ToMember::Ask { round, anchor });
                }
                Ruling::Lost { member } => self.exclude(member as usize),
                Ruling::Deaf { by, of } => {
                    let text = format!(
                        "{} hears no heartbeats of {}, although other hosts reach both: the way between these two has failed",
                        self.host(by),
                        self.host(of)
                    );
                    self.note(&text);
                }
            }
        }
    }

    fn tell_member(&mut self, member: u32, word: ToMember) {
        let agent = &mut self.agents[member as usize];
        if agent.is_working() {
            let fits = agent.order(&Order::Heartbeat(word));
            assert!(fits, "a host has few addresses");
        }
    }

    /// Goes on without a host, or ends the job. The host is told, and ends its ranks as soon as it hears of
    /// it; if it never does, it ends them because it hears nothing.
    fn exclude(&mut self, index: usize) {
        let Some(heartbeats) = &self.heartbeats else { return };
        let limit = heartbeats.pace.limit().as_secs_f64();
        let host = self.agents[index].host.clone();
        let why = format!(
            "the host {host} is excluded from the job because the other hosts have not heard it for {limit} s \
             (--heartbeat): ending its ranks"
        );
        self.tell_member(number(index), ToMember::Excluded(why));
        (self.agents[index].stage, self.agents[index].is_excluded) = (Stage::Done, true);
        let clause = format!("the host {host} has sent no heartbeat for {limit} s: it or the way to it has failed");
        self.lose_host(index, clause);
        self.close_behind(index);
    }

    fn host(&self, member: u32) -> &str {
        &self.agents[member as usize].host
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer hosts than ranks")
}
