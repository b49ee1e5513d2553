//! How a process takes part in a meeting: it does what [`weft_plan::meeting`] says, with simulated contacts
//! and segments and a real engine, and then agrees on a context with the processes of both groups.

use super::plan::{Act, Fault, Side};
use super::process::{ALONE, Comm, Ctx, WORLD, process_of, route};
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_core::meeting::{self, End};
use weft_core::process::ProcessName;
use weft_core::reduce::Op;
use weft_engine::arguments::CollectiveScope;
use weft_engine::error::{Error, ErrorClass};
use weft_engine::group::{Group, PeerId};
use weft_engine::peers::NewPeer;
use weft_plan::contexts::{FAREWELL_CONTEXT, Proposal, Reserved, Serial, named};
use weft_plan::meeting::{ClassWord, Due, Failure, Meeting, Member, Relation, SegmentKey, Told, jobs};
use weft_random::mix;

/// The class of all errors that processes tell each other here.
const CLASS: ClassWord = 3;

/// The contact of a leader: its number, the end, and the messages.
struct Contact {
    number: usize,
    end: usize,
    messages: meeting::Contact,
}

/// What an attempt has made.
#[derive(Default)]
struct Attempt {
    added: Vec<PeerId>,
    place: Option<SegmentKey>,
}

/// What is due, for people.
fn summary(due: &Due) -> String {
    match due {
        Due::Gather(words) => format!("gathers {} words", words.len()),
        Due::Swap(words) => format!("exchanges {} words", words.len()),
        Due::HandOn(words) => format!("hands {} words on", words.len()),
        due => format!("{due:?}"),
    }
}

impl Ctx {
    /// Forgets the processes of other jobs that have said farewell or are dead.
    pub(super) fn forget_strangers(&self) {
        let (mut proc, mut world) = (self.proc(), self.world());
        proc.progress();
        let connected = proc.connected();
        let over = proc.engine.forget_strangers(FAREWELL_CONTEXT, &connected);
        proc.forget_facts_of(&over, &mut world);
    }

    /// Takes part in a meeting. Afterwards this process has a communicator, or nothing of the meeting.
    pub(super) async fn meet(&self, number: usize) {
        self.pause().await;
        let [accepts, connects] = self.plan.sides(number);
        let is_acceptor = accepts.members(&self.plan).contains(&self.process);
        let side = if is_acceptor { accepts } else { connects };
        self.forget_strangers();
        self.check_forgotten();
        let before = self.known();
        let mut attempt = Attempt::default();
        let met = match self.round_up(number, side, is_acceptor, &mut attempt).await {
            Ok(meeting) => self.make_communicator(number, &meeting).await,
            Err(failure) => Err(format!("{failure:?}")),
        };
        if let Err(what) = &met {
            self.note(|| format!("act {number}: {what}"));
            self.settle(&mut attempt, false);
            let after = self.known();
            if after != before {
                let kept: Vec<_> = after.difference(&before).collect();
                self.world()
                    .fail(self.process, || format!("act {number}: the meeting has failed, and it keeps {kept:?}"));
            }
        }
        self.world().conclude(number, self.process, met.is_ok());
    }

    /// The processes and jobs that this process knows beside its own, and how many segments it maps.
    pub(super) fn known(&self) -> BTreeSet<String> {
        let proc = self.proc();
        let strangers = proc.engine.strangers();
        let names = strangers.into_iter().filter_map(|peer| proc.engine.name_of(peer));
        let peers = names.map(|name| format!("process {}", process_of(&self.plan, name)));
        let jobs = proc.engine.jobs_met().into_iter().map(|job| format!("job {:x}", job.0));
        let segments = (0..self.world.borrow().mapped_by(self.process)).map(|number| format!("segment {number}"));
        let agreements = proc.contexts.under_way();
        let numbers = (agreements > 0).then(|| format!("{agreements} context numbers"));
        peers.chain(jobs).chain(segments).chain(numbers).collect()
    }

    /// The rounds of a meeting.
    async fn round_up(
        &self,
        number: usize,
        side: Side,
        is_acceptor: bool,
        attempt: &mut Attempt,
    ) -> Result<Meeting, Failure> {
        let which = if matches!(side, Side::World { .. }) { WORLD } else { ALONE };
        let size = side.members(&self.plan).len();
        let leader = side.leader() as u32;
        let is_leader = self.world.borrow().leader(number, usize::from(!is_acceptor)) == self.process;
        let mine = {
            let proc = self.proc();
            let names = proc.engine.strangers().into_iter().filter_map(|peer| proc.engine.name_of(peer));
            let knows = names.fold(0, |all, name| all ^ mix(name.job.0 ^ u64::from(name.number) << 48));
            let job_size = self.plan.jobs[proc.job].size as u32;
            Member { name: proc.name, job_size, node: self.plan.nodes[self.process], knows }
        };
        let mut meeting = Meeting::new(mine.name, size, is_leader, self.plan.share_max);
        let mut contact: Option<Contact> = None;
        let mut is_first = true;
        let mut due = meeting.begin(Ok(mine));
        let verdict = loop {
            self.step().await;
            self.note(|| format!("act {number}: {}", summary(&due)));
            due = match due {
                Due::Gather(words) => {
                    let scope = self.scope(which).expect("it is there");
                    let gathered = self.gather_all(scope, &words, |_| false).await;
                    meeting.gathered(gathered.map_err(|_| CLASS))
                }
                Due::Swap(words) => {
                    if std::mem::take(&mut is_first) {
                        contact = self.make_contact(number, is_acceptor).await;
                    }
                    let heard = match &mut contact {
                        Some(contact) => self.swap(contact, &words).await,
                        None => Err(CLASS),
                    };
                    if heard.is_err() {
                        self.hang_up(contact.take());
                    }
                    meeting.swapped(heard, contact.as_ref().map_or(0, |contact| contact.messages.number()))
                }
                Due::HandOn(mut words) => {
                    let scope = self.scope(which).expect("it is there");
                    let handed = self.broadcast(scope, leader, &mut words).await;
                    meeting.handed_on(handed.map(|()| words).map_err(|_| CLASS))
                }
                Due::SayFailed => {
                    if let Some(contact) = &mut contact {
                        contact.messages.send(&[]);
                        let mut left = usize::MAX;
                        while contact.messages.outgoing().len() < left {
                            left = contact.messages.outgoing().len();
                            self.flush(contact).ok();
                        }
                    }
                    meeting.said()
                }
                Due::GiveUp { collectives, both } => {
                    let error = Error::new(ErrorClass::ProcAborted, "it has failed");
                    let scopes = (0..collectives).filter_map(|_| self.scope(which)).collect::<Vec<_>>();
                    let named = self.named_scope(&meeting).ok().map(|(scope, _, _)| scope).filter(|_| both);
                    let engine = &mut self.proc().engine;
                    scopes.iter().chain(&named).for_each(|scope| engine.give_up(scope, &error));
                    meeting.given_up()
                }
                Due::Tell => meeting.told(self.tell(number, &meeting, attempt)),
                Due::Add => meeting.added(self.add(number, &meeting, attempt)),
                Due::Settle { keeps } => {
                    if !keeps {
                        // Others may have begun to agree on the communicator.
                        let context = self.names(&meeting).1;
                        self.proc().discard_contexts_that_are_over(Some(context));
                    }
                    self.settle(attempt, keeps);
                    meeting.settled()
                }
                Due::Over(verdict) => break verdict,
            };
        };
        self.hang_up(contact);
        if is_leader && is_acceptor {
            self.world().close_port(number);
        }
        verdict.map(|()| meeting)
    }

    fn fault(&self, number: usize, fault: Fault) -> bool {
        self.plan.faults.contains(&(number, self.process, fault))
    }

    /// Makes the contact, by accepting or connecting; `None`: the other leader does not come.
    async fn make_contact(&self, number: usize, is_acceptor: bool) -> Option<Contact> {
        let other = self.world.borrow().leader(number, usize::from(is_acceptor));
        let found = if is_acceptor {
            self.world().open_port(number);
            if let Act::Meet { connects: Side::World { job, .. }, spawns: true, .. } = self.plan.acts[number] {
                self.world().start(job);
            }
            let accepted = self.until("a process at its port", |this| {
                let mut world = this.world();
                match world.accept(number, this.process) {
                    Some(contact) => Some(Some(contact)),
                    None => world.has_failed(number, other).then_some(None),
                }
            });
            accepted.await
        } else {
            let opened = self.until("a port", |this| {
                let world = this.world.borrow();
                world.is_open(number).then_some(true).or(world.has_failed(number, other).then_some(false))
            });
            if !opened.await {
                return None;
            }
            self.world().call(number, self.process);
            let until = self.world().now() + self.plan.connect_patience_ns;
            self.world().alarm(until, self.process);
            let accepted = self.until("a port to accept", |this| {
                let world = this.world.borrow();
                match world.accepted(number) {
                    Some(contact) => Some(Some(contact)),
                    None => (world.has_failed(number, other) || world.now() >= until).then_some(None),
                }
            });
            let accepted = accepted.await;
            if accepted.is_none() {
                self.world().hang_up(number);
            }
            accepted
        };
        let end = usize::from(!is_acceptor);
        let messages = meeting::Contact::new(
            &[number as u8; meeting::LENGTH],
            &[self.plan.seed as u8; meeting::LENGTH],
            &[2; meeting::LENGTH],
            if is_acceptor { End::Acceptor } else { End::Connector },
        );
        found.map(|number| Contact { number, end, messages })
    }

    /// Sends what the connection takes. Returns whether everything has left.
    fn flush(&self, contact: &mut Contact) -> Result<bool, ()> {
        if !contact.messages.outgoing().is_empty() {
            let sent = self.world().send(contact.number, contact.end, contact.messages.outgoing())?;
            contact.messages.have_left(sent);
        }
        Ok(contact.messages.outgoing().is_empty())
    }

    fn hang_up(&self, contact: Option<Contact>) {
        if let Some(Contact { number, end, .. }) = contact {
            self.world().close(number, end, false);
        }
    }

    /// Exchanges words with the other leader.
    async fn swap(&self, contact: &mut Contact, words: &[i64]) -> Result<Vec<i64>, ClassWord> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        contact.messages.send(&bytes);
        let heard = self.until("the other leader", |this| {
            let mut is_over = this.flush(contact).is_err();
            loop {
                match contact.messages.next_message(is_over) {
                    Ok(Some(message)) => return Some(Ok(message)),
                    Err(_) => return Some(Err(())),
                    Ok(None) => {}
                }
                match this.world().receive(contact.number, contact.end) {
                    Err(()) if !is_over => is_over = true,
                    Ok(Some(bytes)) => contact.messages.receive(&bytes),
                    _ => return is_over.then_some(Err(())),
                }
            }
        });
        let heard = heard.await.map_err(|()| CLASS)?;
        let (words, rest) = heard.as_chunks();
        if !rest.is_empty() {
            self.world().fail(self.process, || "the other leader sends no words".into());
        }
        Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
    }

    fn knows(&self, name: ProcessName) -> bool {
        self.proc().engine.find_process(name).is_some()
    }

    fn tell(&self, number: usize, meeting: &Meeting, attempt: &mut Attempt) -> Result<Told, ClassWord> {
        let needs = meeting.needs(|name| self.knows(name));
        let mut segment = None;
        if needs.creates.is_some() && !self.fault(number, Fault::Share) {
            let key = {
                let random = &mut self.proc().random;
                [random.next(), random.next()]
            };
            self.world().map(key, self.process, true);
            (attempt.place, segment) = (Some(key), Some(key));
        }
        if self.fault(number, Fault::Tell) {
            return Err(CLASS);
        }
        let mut proc = self.proc();
        let own = proc.name;
        let mut relations = Vec::new();
        for (job, size) in jobs(&meeting.groups().theirs) {
            let first = match proc.engine.index_of_job(job) {
                Some(first) => first,
                None => proc.engine.meet_job(job, size).map_err(|_| CLASS)?,
            };
            relations.push(if job == own.job {
                Relation::default()
            } else {
                Relation { first, half: meeting::half(&proc.secret, job) }
            });
        }
        let card = format!("process {}", self.process);
        Ok(Told { is_crowded: false, knows_all: needs.knows_all, segment, relations, card })
    }

    fn add(&self, number: usize, meeting: &Meeting, attempt: &mut Attempt) -> Result<bool, ClassWord> {
        if let Some((key, _)) = meeting.segment()
            && attempt.place.is_none()
            && !self.fault(number, Fault::Share)
            && self.world().map(key, self.process, false)
        {
            attempt.place = Some(key);
        }
        if attempt.place.is_none() && meeting.misses_near(|name| self.knows(name)) {
            return Ok(false);
        }
        let Some(newcomers) = meeting.newcomers(|name| self.knows(name)) else {
            self.world().fail(self.process, || "what another process has told makes no sense".into());
            return Err(CLASS);
        };
        for newcomer in newcomers {
            let name = newcomer.member.name;
            let other = process_of(&self.plan, name);
            if newcomer.told.card != format!("process {other}") {
                let told = newcomer.told.card.clone();
                self.world().fail(self.process, || format!("process {other} has told that it is {told}"));
            }
            let mut proc = self.proc();
            let own_half = meeting::half(&proc.secret, name.job);
            let secret = meeting::common((proc.name.job, own_half), (name.job, newcomer.half));
            proc.engine.agree_with_job(name.job, secret);
            let (own_index, route) = (newcomer.own_index, route(&self.plan, other));
            let peer = proc.engine.add_peer(NewPeer { name, own_index, route, process: 0, host: None });
            if let (Some(key), Some(_)) = (attempt.place, newcomer.place) {
                proc.near.insert(peer, key);
            }
            attempt.added.push(peer);
            if self.fault(number, Fault::Add) {
                return Err(CLASS);
            }
        }
        Ok(true)
    }

    /// Ends an attempt.
    fn settle(&self, attempt: &mut Attempt, keeps: bool) {
        let (mut proc, mut world) = (self.proc(), self.world());
        if !keeps {
            let added = std::mem::take(&mut attempt.added);
            let is_over = |peer: &PeerId| proc.engine.forget_stranger(FAREWELL_CONTEXT, *peer);
            let over: Vec<PeerId> = added.into_iter().filter(is_over).collect();
            proc.forget_facts_of(&over, &mut world);
            proc.engine.part_from_jobs();
        }
        if let Some(key) = attempt.place.take()
            && !proc.near.values().any(|other| *other == key)
        {
            world.unmap(key, self.process);
        }
    }

    /// The names of both groups in their common order, and the context and tag in which they agree.
    fn names(&self, meeting: &Meeting) -> (Vec<ProcessName>, u32, i32) {
        let groups = meeting.groups();
        let names = |members: &[Member]| members.iter().map(|member| member.name).collect::<Vec<_>>();
        let (own, theirs) = (names(&groups.own), names(&groups.theirs));
        let is_first = own.first() < theirs.first();
        let (first, second) = if is_first { (&own, &theirs) } else { (&theirs, &own) };
        let both: Vec<ProcessName> = first.iter().chain(second).copied().collect();
        let (context, tag) = named(&meeting.common_name(), both.iter().copied());
        (both, context, tag)
    }

    /// The scope in which both groups agree, and the two groups.
    fn named_scope(&self, meeting: &Meeting) -> Result<(CollectiveScope, Arc<Group>, Arc<Group>), String> {
        let groups = meeting.groups();
        let names = |members: &[Member]| members.iter().map(|member| member.name).collect::<Vec<_>>();
        let (own, theirs) = (names(&groups.own), names(&groups.theirs));
        let (both_names, context, tag) = self.names(meeting);
        let proc = self.proc();
        let group = |names: &[ProcessName]| -> Result<Arc<Group>, String> {
            let found = names.iter().map(|name| proc.engine.find_process(*name));
            let members = found.collect::<Option<Vec<_>>>().ok_or("a process is unknown")?;
            Ok(Group::new(members, proc.engine.peers.own()))
        };
        let (local, remote, both) = (group(&own)?, group(&theirs)?, group(&both_names)?);
        let rank = both.rank.ok_or("it is in no group")?;
        let scope = CollectiveScope { communicator: 0, context, tag, group: both, rank, sources: None, turn: None };
        Ok((scope, local, remote))
    }

    /// Agrees with both groups on a context, and makes the communicator.
    async fn make_communicator(&self, number: usize, meeting: &Meeting) -> Result<(), String> {
        let (scope, local, remote) = self.named_scope(meeting)?;
        let (context, both) = (scope.context, scope.group.clone());
        let made = self.agree_on_context(scope).await;
        self.proc().engine.messages.release_contexts(context..context + 1);
        let serial = made.map_err(|error| {
            // What others have said of the communicator, or in it, would keep them known.
            self.proc().discard_contexts_that_are_over(Some(context));
            error.to_string()
        })?;
        let comm = Comm { remote: Some(remote), ..Comm::new(serial.context(), local, both) };
        self.proc().comms.insert(number, comm);
        Ok(())
    }

    /// Agrees on a context, as `weft-mpi` does (`communicator/agreement.rs`).
    pub(super) async fn agree_on_context(&self, scope: CollectiveScope) -> Result<Serial, Error> {
        let key = u64::from(scope.context) << 32 | u64::from(scope.tag as u32);
        let mut met = 0;
        loop {
            let (offer, reserved) = {
                let contexts = &mut self.proc().contexts;
                let offer = contexts.offer(key, met).expect("there are enough");
                let reserved = if met == 0 { contexts.reserve(offer, true) } else { Reserved::Taken };
                (offer, reserved)
            };
            let release = |serial: Serial, reserved: Reserved| {
                if reserved == Reserved::Ours {
                    self.proc().contexts.release(serial);
                }
            };
            let proposal = Proposal::numbers(Some(offer), reserved);
            let highest = match self.reduce(scope.clone(), &proposal, Op::Max).await {
                Ok(highest) => highest,
                Err(error) => {
                    release(offer, reserved);
                    self.proc().contexts.withdraw(offer);
                    return Err(error);
                }
            };
            let (serial, reserved) = match Proposal::of(&highest) {
                Proposal::Agreed { .. } => (offer, Reserved::Ours),
                Proposal::Highest(serial) => {
                    release(offer, reserved);
                    let reserved = self.proc().contexts.reserve(serial, true);
                    match self.reduce(scope.clone(), &[reserved as i64], Op::Min).await {
                        Ok(lowest) if lowest[0] >= Reserved::OursWithoutSlot as i64 => (serial, Reserved::Ours),
                        refused => {
                            release(serial, reserved);
                            self.proc().contexts.withdraw(offer);
                            refused?;
                            met += 1;
                            continue;
                        }
                    }
                }
                Proposal::NoneLeft => unreachable!("there are enough"),
            };
            debug_assert_eq!(reserved, Reserved::Ours);
            let contexts = &mut self.proc().contexts;
            contexts.begin_use(serial);
            contexts.withdraw(offer);
            return Ok(serial);
        }
    }
}
