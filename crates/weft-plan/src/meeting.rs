//! The meeting of two groups whose leaders have a contact (MPI-5.0 §11.8 to §11.10), as one process takes
//! part in it.
//!
//! In each round the processes of a group gather what they have to tell, the leaders exchange it, and each
//! leader hands the other group's words on:
//!
//! 1. the names of the processes, the sizes of their jobs, and their nodes;
//! 2. of each process its card, the index by which it knows each job's first process, and its job's halves of
//!    the secrets with these jobs;
//! 3. that everybody has made everybody a peer, or that it cannot share memory.
//!
//! Processes that know each other already need fewer rounds. If the second round tells that no process had to
//! add a peer, there is no third round. Groups of a single job have no second round.
//!
//! The processes of one node share a segment of memory. The first of these processes by name creates the
//! segment. It tells the segment's name in the second round. After that round the other processes map it. If
//! a process cannot create or map it, all processes say so in the third round. Then the second and the third
//! round come again, and messages between the two groups take the network.
//!
//! A group may have processes of several jobs. Each process tells what only its own job knows. The leaders
//! exchange in each round whether a process of their group has failed. If one has, the meeting fails in all
//! processes of both groups, and each process removes the peers that it has added.
//!
//! A process that dies makes a collective fail at some processes only. The others may wait for those in a
//! later collective: of their group, or of both groups, which agree on a communicator after the last round.
//! So whoever leaves a meeting tells them first. All know the other group by then, because the last round
//! follows the names.
//!
//! [`Meeting`] says what is to be done next ([`Due`]) and takes in what has come of it. It does nothing
//! itself: `weft-mpi` (`processes/meeting.rs`) has collectives, sockets and peers, and the simulator has its
//! own.

mod words;

use alloc::vec;
use alloc::vec::Vec;
use weft_core::meeting::Half;
use weft_core::process::ProcessName;

pub use words::{Member, Relation, SegmentKey, Told, jobs, reread_words, word_seeds};
use words::{all_told, members};

/// The words of a process, and of a group, that are passed on by one collective; longer ones take another.
const GATHERED_WORDS: usize = 64;
const HANDED_ON_WORDS: usize = 256;
/// The words in front of them: the error class of a process that has failed, the number of words, and where
/// they are handed on the number of the contact.
const HEAD_WORDS: usize = 2;
const HAND_ON_HEAD: usize = 3;
/// The words of the third round: this process has made all others peers, or cannot share memory with one.
const MET: i64 = 1;
const CANNOT_SHARE: i64 = 2;

/// The number of an error class, as it is sent. 0 is none.
pub type ClassWord = u32;

/// The class of errors that have no other one, as it is sent: no class has this number.
pub const OTHER: ClassWord = ClassWord::MAX;

/// What a process has to do next in a meeting. Where it fails, the caller keeps the error and says its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Gather these words of all processes of the group, which have equally many, by rank:
    /// [`Meeting::gathered`].
    Gather(Vec<i64>),
    /// Only for the leader: send these words to the other leader, and wait for those of the other leader:
    /// [`Meeting::swapped`]. In the first round make the contact before.
    Swap(Vec<i64>),
    /// Broadcast these words from the leader: [`Meeting::handed_on`].
    HandOn(Vec<i64>),
    /// Only for the leader: send the other leader a message without words: [`Meeting::said`].
    SayFailed,
    /// Meet the jobs of the other group, and say what to tell: [`Meeting::told`].
    Tell,
    /// Make the processes of the other group peers: [`Meeting::added`].
    Add,
    /// The meeting has failed here, and others may wait for this process in a later collective. Tell them
    /// that this process takes no part in the next so many collectives of the group, and that of both groups
    /// if it is known: [`Meeting::given_up`].
    GiveUp {
        /// The number of collectives of the group.
        collectives: u32,
        /// The processes of both groups may agree on a communicator already.
        both: bool,
    },
    /// Keep the peers that were added, or forget them; then give up what nobody needs: [`Meeting::settled`].
    Settle {
        /// The peers stay.
        keeps: bool,
    },
    /// The meeting is over.
    Over(Result<(), Failure>),
}

/// Why a meeting has failed for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This process's part has failed; the caller has the error.
    Own,
    /// The part of another process of the group has failed, with this class.
    Group(ClassWord),
    /// The leader could not meet the other group, with this class.
    NotMet(ClassWord),
    /// The leader has lost the leader of the other group, with this class.
    Lost(ClassWord),
    /// A process of the other group has failed.
    Others,
    /// The other leader has said something that makes no sense.
    Nonsense,
    /// A process is in both groups.
    Common,
}

/// A process of the other group that becomes a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer<'a> {
    /// Its name, and the size of its job.
    pub member: Member,
    /// The index by which it knows this process.
    pub own_index: u32,
    /// Its job's half of the secret with the job of this process.
    pub half: Half,
    /// What it has told.
    pub told: &'a Told,
    /// Its number in the segment, if it is of the node of this process.
    pub place: Option<usize>,
}

/// What a process needs to know the other group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// It knows all processes of the other group.
    pub knows_all: bool,
    /// It creates the segment of so many processes of its node.
    pub creates: Option<usize>,
    /// A process that it does not know is on another node.
    pub network: bool,
}

/// The processes of the two groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// The group of this process, by rank.
    pub own: Vec<Member>,
    /// The other group.
    pub theirs: Vec<Member>,
    /// Processes of one node share memory, if they are no more than this.
    share_max: usize,
}

impl Groups {
    /// Returns whether all processes are of one job, and so know each other.
    fn are_of_one_job(&self) -> bool {
        self.own.iter().chain(&self.theirs).all(|member| member.name.job == self.own[0].name.job)
    }

    /// Returns whether a process is in both groups.
    fn have_common(&self) -> bool {
        let mut names: Vec<ProcessName> = self.own.iter().chain(&self.theirs).map(|member| member.name).collect();
        weft_ordered::sort(&mut names);
        names.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The processes of the node of `own` that share a segment if they meet, in order of their names. There
    /// are none if all of them are of one job, there are too many, or memory cannot be shared.
    fn neighbours(&self, own: ProcessName) -> Vec<ProcessName> {
        let all = || self.own.iter().chain(&self.theirs);
        let node = all().find(|member| member.name == own).map_or(0, |own| own.node);
        let mut names: Vec<_> = all().filter(|member| member.node == node && node != 0).map(|one| one.name).collect();
        weft_ordered::sort(&mut names);
        let shares = names.iter().any(|name| name.job != own.job) && names.len() <= self.share_max;
        if shares { names } else { Vec::new() }
    }
}

/// The number of a round, as it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Names,
    Cards,
    Last,
}

/// The step of a round that is under way.
#[derive(Debug)]
enum Step {
    /// The first words of all processes are gathered; these are the words of this process behind them.
    Gather { end: Vec<i64> },
    /// The rest of the words is gathered, `longest` of each process; these were the first words.
    GatherRest { first: Vec<i64>, longest: usize },
    /// The leader exchanges words with the other leader.
    Swap,
    /// The leader hands the head on, and the first words. It has heard all of the words.
    HandOn { heard: Vec<i64> },
    /// The leader hands the rest on: all of the words, of which the first have come.
    HandOnRest { words: Vec<i64> },
    /// Something else is due.
    Between,
}

/// A meeting, as one process takes part in it.
#[derive(Debug)]
pub struct Meeting {
    name: ProcessName,
    is_leader: bool,
    /// The number of processes of this group.
    size: usize,
    groups: Groups,
    round: Round,
    step: Step,
    /// This process's part in the round has failed.
    own_failed: bool,
    /// What is known to be wrong with the words of the other group.
    nonsense: bool,
    /// The words that were gathered in the round.
    gathered: Vec<i64>,
    /// The leader has a contact.
    has_contact: bool,
    /// A number of the contact, which both groups know.
    contact: u64,
    /// What all processes of both groups have told, once they have.
    all_told: (Vec<Told>, Vec<Told>),
    /// The end of an attempt that has not been settled.
    verdict: Option<Result<(), Failure>>,
}

impl Meeting {
    /// A meeting in which `name` takes part, one of `size` processes of its group. `share_max`: the most
    /// processes of a node that can share memory.
    pub fn new(name: ProcessName, size: usize, is_leader: bool, share_max: usize) -> Self {
        Self {
            name,
            is_leader,
            size,
            groups: Groups { share_max, ..Groups::default() },
            round: Round::Names,
            step: Step::Between,
            own_failed: false,
            nonsense: false,
            gathered: Vec::new(),
            has_contact: false,
            contact: 0,
            all_told: (Vec::new(), Vec::new()),
            verdict: None,
        }
    }

    /// The processes of the two groups, as far as they are known.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The name under which both groups agree on a communicator. No other meeting has it, so nothing that is
    /// left of another one counts.
    pub fn common_name(&self) -> Vec<u8> {
        [&b"meeting "[..], &self.contact.to_le_bytes()].concat()
    }

    /// Begins: this process tells this of itself.
    pub fn begin(&mut self, mine: Result<Member, ClassWord>) -> Due {
        self.gather(mine.map(|mine| mine.to_words().to_vec()))
    }

    fn gather(&mut self, mine: Result<Vec<i64>, ClassWord>) -> Due {
        self.own_failed = mine.is_err();
        let class = mine.as_ref().err().copied().unwrap_or(0);
        let words = mine.unwrap_or_default();
        let (begin, end) = words.split_at(words.len().min(GATHERED_WORDS));
        let mut first = vec![0; HEAD_WORDS + GATHERED_WORDS];
        (first[0], first[1]) = (i64::from(class), words.len() as i64);
        first[HEAD_WORDS..][..begin.len()].copy_from_slice(begin);
        self.step = Step::Gather { end: end.to_vec() };
        Due::Gather(first)
    }

    /// The words of all processes of the group have been gathered; or they could not be.
    pub fn gathered(&mut self, words: Result<Vec<i64>, ClassWord>) -> Due {
        let Ok(words) = words else { return self.give_up() };
        match core::mem::replace(&mut self.step, Step::Between) {
            Step::Gather { end } => {
                let all = || words.chunks(HEAD_WORDS + GATHERED_WORDS);
                if let Some(one) = all().find(|one| one[0] != 0) {
                    let failure = if self.own_failed { Failure::Own } else { Failure::Group(one[0] as ClassWord) };
                    self.verdict = Some(Err(failure));
                    // The other group learns of the failure, if its leader lives.
                    return if self.has_contact { Due::SayFailed } else { self.said() };
                }
                let longest = all().map(|one| (one[1] as usize).saturating_sub(GATHERED_WORDS)).max().unwrap_or(0);
                if longest == 0 {
                    return self.have_gathered(&words, &[], 0);
                }
                let mut padded = end;
                padded.resize(longest, 0);
                self.step = Step::GatherRest { first: words, longest };
                Due::Gather(padded)
            }
            Step::GatherRest { first, longest } => self.have_gathered(&first, &words, longest),
            _ => self.fail(Failure::Nonsense),
        }
    }

    fn have_gathered(&mut self, first: &[i64], ends: &[i64], longest: usize) -> Due {
        let mut words = Vec::new();
        for (rank, one) in first.chunks(HEAD_WORDS + GATHERED_WORDS).enumerate() {
            let length = one[1] as usize;
            words.extend(&one[HEAD_WORDS..][..length.min(GATHERED_WORDS)]);
            words.extend(&ends[rank * longest..][..length.saturating_sub(GATHERED_WORDS)]);
        }
        self.gathered = words;
        if self.is_leader {
            self.step = Step::Swap;
            return Due::Swap(self.gathered.clone());
        }
        self.hand_on(Ok(Vec::new()))
    }

    /// The leaders have exchanged words over the contact with this number; or they could not.
    pub fn swapped(&mut self, heard: Result<Vec<i64>, ClassWord>, contact: u64) -> Due {
        if heard.is_ok() {
            self.contact = contact;
        }
        self.has_contact = heard.is_ok();
        self.own_failed = heard.is_err();
        if self.own_failed && cfg!(weft_mutant = "meeting_leader_leaves_its_group") {
            return self.fail(Failure::Own);
        }
        self.hand_on(heard)
    }

    fn hand_on(&mut self, heard: Result<Vec<i64>, ClassWord>) -> Due {
        let class = heard.as_ref().err().copied().unwrap_or(0);
        let heard = heard.unwrap_or_default();
        let mut first = vec![0; HAND_ON_HEAD + HANDED_ON_WORDS];
        (first[0], first[1], first[2]) = (i64::from(class), heard.len() as i64, self.contact as i64);
        let begin = heard.len().min(HANDED_ON_WORDS);
        first[HAND_ON_HEAD..][..begin].copy_from_slice(&heard[..begin]);
        self.step = Step::HandOn { heard };
        if self.size == 1 { self.handed_on(Ok(first)) } else { Due::HandOn(first) }
    }

    /// The leader has handed words on; or it could not.
    pub fn handed_on(&mut self, words: Result<Vec<i64>, ClassWord>) -> Due {
        let Ok(words) = words else { return self.give_up() };
        match core::mem::replace(&mut self.step, Step::Between) {
            Step::HandOn { heard } => {
                let (class, length) = (words[0] as ClassWord, words[1] as usize);
                self.contact = words[2] as u64;
                if class != 0 {
                    self.verdict = Some(Err(match (self.own_failed, self.round) {
                        (true, _) => Failure::Own,
                        (false, Round::Names) => Failure::NotMet(class),
                        (false, _) => Failure::Lost(class),
                    }));
                    // The other group may have heard the last word of this one.
                    return self.tell_both(0, true);
                }
                if length == 0 {
                    return self.fail(Failure::Others);
                }
                let begin = length.min(HANDED_ON_WORDS);
                let mut all = heard;
                all.resize(length, 0);
                all[..begin].copy_from_slice(&words[HAND_ON_HEAD..][..begin]);
                if length <= HANDED_ON_WORDS || self.size == 1 {
                    return self.have_heard(&all);
                }
                let rest = all[HANDED_ON_WORDS..].to_vec();
                self.step = Step::HandOnRest { words: all };
                Due::HandOn(rest)
            }
            Step::HandOnRest { words: mut all } => {
                all.truncate(HANDED_ON_WORDS);
                all.extend(words);
                self.have_heard(&all)
            }
            _ => self.fail(Failure::Nonsense),
        }
    }

    /// All words of both groups in this round are here.
    fn have_heard(&mut self, heard: &[i64]) -> Due {
        match self.round {
            Round::Names => {
                let (Some(own), Some(theirs)) = (members(&self.gathered), members(heard)) else {
                    return self.fail(Failure::Nonsense);
                };
                (self.groups.own, self.groups.theirs) = (own, theirs);
                if self.groups.have_common() {
                    return self.fail(Failure::Common);
                }
                if self.groups.are_of_one_job() {
                    // Nobody becomes a peer, and whoever agrees on a communicator knows that all know with
                    // whom.
                    self.round = Round::Last;
                    return self.added(Ok(true));
                }
                self.round = Round::Cards;
                Due::Tell
            }
            Round::Cards => {
                let Groups { own, theirs, .. } = &self.groups;
                let own_told = all_told(&self.gathered, own.len(), jobs(theirs).len());
                let (Some(own), Some(theirs)) = (own_told, all_told(heard, theirs.len(), jobs(own).len())) else {
                    self.round = Round::Last;
                    self.nonsense = true;
                    return self.gather(Err(OTHER));
                };
                if own.iter().chain(&theirs).all(|told| told.knows_all) {
                    return self.settle(Ok(()));
                }
                self.all_told = (own, theirs);
                self.round = Round::Last;
                Due::Add
            }
            Round::Last => {
                let cannot_share = self.gathered.iter().chain(heard).any(|word| *word == CANNOT_SHARE);
                if !cannot_share {
                    return self.settle(Ok(()));
                }
                let share_max = self.groups.share_max;
                if share_max == 0 {
                    // Nobody shares memory now, so nobody who is honest says again that it cannot be shared.
                    return self.settle(Err(Failure::Nonsense));
                }
                self.groups.share_max = if cfg!(weft_mutant = "meeting_shares_memory_again") { share_max } else { 0 };
                self.round = Round::Cards;
                Due::Settle { keeps: false }
            }
        }
    }

    /// This process tells this of itself.
    pub fn told(&mut self, told: Result<Told, ClassWord>) -> Due {
        self.gather(told.map(|told| told.to_words()))
    }

    /// This process has made the processes of the other group peers, or it cannot share memory (`false`).
    pub fn added(&mut self, added: Result<bool, ClassWord>) -> Due {
        self.gather(added.map(|is_met| vec![if is_met { MET } else { CANNOT_SHARE }]))
    }

    /// The other leader has been told of a failure.
    pub fn said(&mut self) -> Due {
        let failure = match self.verdict.take() {
            Some(Err(failure)) => failure,
            _ => Failure::Own,
        };
        self.fail(failure)
    }

    /// A collective has failed here. Others may be in a later one, up to the next gathering.
    fn give_up(&mut self) -> Due {
        let (collectives, both) = match core::mem::replace(&mut self.step, Step::Between) {
            Step::HandOnRest { .. } => (1, true),
            Step::HandOn { .. } => (2, true),
            _ => (3, false),
        };
        self.verdict = Some(Err(Failure::Own));
        self.tell_both(collectives, both)
    }

    /// Tells those who may wait for this process that the meeting has failed for it.
    fn tell_both(&mut self, collectives: u32, both: bool) -> Due {
        let both = both && !self.groups.theirs.is_empty();
        let is_silent = cfg!(weft_mutant = "meeting_left_without_a_word");
        if is_silent || collectives == 0 && !both {
            return self.given_up();
        }
        Due::GiveUp { collectives, both }
    }

    /// The others have been told that this process takes no part any more.
    pub fn given_up(&mut self) -> Due {
        self.said()
    }

    fn fail(&mut self, failure: Failure) -> Due {
        let failure = if failure == Failure::Own && self.nonsense { Failure::Nonsense } else { failure };
        if self.round == Round::Names { Due::Over(Err(failure)) } else { self.settle(Err(failure)) }
    }

    fn settle(&mut self, verdict: Result<(), Failure>) -> Due {
        self.verdict = Some(verdict);
        Due::Settle { keeps: verdict.is_ok() || cfg!(weft_mutant = "meeting_keeps_peers_of_a_failed_one") }
    }

    /// Peers are kept or forgotten, as was due.
    pub fn settled(&mut self) -> Due {
        match self.verdict.take() {
            Some(verdict) => Due::Over(verdict),
            None => Due::Tell,
        }
    }

    /// The processes of the node of this one that share a segment if they meet, in order of their names.
    pub fn neighbours(&self) -> Vec<ProcessName> {
        self.groups.neighbours(self.name)
    }

    /// Returns whether a process is of another job, and no peer yet.
    fn is_new(&self, name: ProcessName, knows: impl Fn(ProcessName) -> bool) -> bool {
        name.job != self.name.job && !knows(name)
    }

    /// What this process needs to know the other group, of which it `knows` some.
    pub fn needs(&self, knows: impl Fn(ProcessName) -> bool) -> Needs {
        let Groups { own, theirs, .. } = &self.groups;
        let neighbours = self.neighbours();
        let is_near = |name: &ProcessName| neighbours.contains(name);
        let names = theirs.iter().map(|member| member.name);
        let missing: Vec<ProcessName> = names.filter(|name| self.is_new(*name, &knows)).collect();
        let creates = neighbours.first() == Some(&self.name) && {
            // Others of this group that know the same processes miss none, either.
            let known = own.iter().find(|member| member.name == self.name).map_or(0, |own| own.knows);
            let differs = own.iter().any(|member| is_near(&member.name) && member.knows != known);
            differs || missing.iter().any(is_near)
        };
        Needs {
            knows_all: missing.is_empty(),
            creates: creates.then_some(neighbours.len()),
            network: missing.iter().any(|name| !is_near(name)),
        }
    }

    /// The segment that the processes of this node share, and the number of this process there; `None`: there
    /// is none.
    pub fn segment(&self) -> Option<(SegmentKey, usize)> {
        let neighbours = self.neighbours();
        let members = self.groups.own.iter().chain(&self.groups.theirs);
        let mut told = members.zip(self.all_told.0.iter().chain(&self.all_told.1));
        let (_, creator) = told.find(|(one, _)| Some(&one.name) == neighbours.first())?;
        creator.segment.zip(neighbours.iter().position(|one| *one == self.name))
    }

    /// Returns whether a neighbour becomes a peer of this process, which `knows` some.
    pub fn misses_near(&self, knows: impl Fn(ProcessName) -> bool) -> bool {
        let neighbours = self.neighbours();
        let mut near = self.groups.theirs.iter().filter(|member| neighbours.contains(&member.name));
        near.any(|member| self.is_new(member.name, &knows))
    }

    /// The processes of the other group that become peers of this one, which `knows` some; `None`: what they
    /// have told makes no sense.
    pub fn newcomers(&self, knows: impl Fn(ProcessName) -> bool) -> Option<Vec<Newcomer<'_>>> {
        let neighbours = self.neighbours();
        let own_job = jobs(&self.groups.own).keys().position(|job| *job == self.name.job)?;
        let all = self.groups.theirs.iter().zip(&self.all_told.1);
        all.filter(|(member, _)| self.is_new(member.name, &knows))
            .map(|(member, told)| {
                let Relation { first, half } = *told.relations.get(own_job)?;
                let own_index = first.checked_add(self.name.number)?;
                let place = neighbours.iter().position(|one| *one == member.name);
                Some(Newcomer { member: *member, own_index, half, told, place })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
