//! The meeting of two groups whose leaders have a contact (MPI-5.0 §11.8 to §11.10).
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
//! add a peer, there is no third round. Groups of a single job need the first round only.
//!
//! The processes of one node share a segment of memory. The first of these processes by name creates the
//! segment. It tells the segment's name in the second round. After that round the other processes map it. If
//! a process cannot create or map it, all processes say so in the third round. Then the second and the third
//! round come again, and messages between the two groups take the network.
//!
//! A group may have processes of several jobs. Each process tells what only its own job knows. The leaders
//! exchange in each round whether a process of their group has failed. If one has, the meeting fails in all
//! processes of both groups, and each process removes the peers that it has added.

use std::os::fd::RawFd;
use weft_ordered::Map;

use weft_core::meeting::{Half, LENGTH};
use weft_core::process::{JobId, ProcessName};
use weft_net::port::Contact;
use weft_net::shared::{LINK_SIZE_MAX, new_key};
use weft_net::wait::Interest;

use crate::collective::CollectiveScope;
use crate::communicator::{broadcast, gather_all};
use crate::constants::{MPI_ERR_COMM, MPI_ERR_OTHER, MPI_ERR_ROOT};
use crate::error::{Error, ErrorClass, Result};
use crate::intercommunicator::{Meeting, introduce, meeting};
use crate::object::PeerId;
use crate::process::{Outside, Process, block_outside, with};
use crate::start::introduction::{NearPlace, Stranger, join_near, open_link, say_that_no_memory_is_shared};

/// The words of a process, and of a group, that are passed on by one collective; longer ones take another.
const GATHERED_WORDS: usize = 64;
const HANDED_ON_WORDS: usize = 256;
/// The words in front of them: the error class of a process that has failed, and the number of words.
const HEAD_WORDS: usize = 2;
/// The words of the third round: this process has made all others peers, or cannot share memory with one.
const MET: i64 = 1;
const CANNOT_SHARE: i64 = 2;
/// The most processes of a group that is met.
const MEMBERS_MAX: usize = 1 << 20;

/// A process of a group, as it tells of itself in the first round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    name: ProcessName,
    /// The number of processes of its job.
    job_size: u32,
    /// Its node, equal for processes that can share memory; 0 if it shares none.
    node: u64,
    /// A number for the processes of other jobs that it knows.
    knows: u64,
}

impl Member {
    const WORDS: usize = 5;

    fn to_words(self) -> [i64; Self::WORDS] {
        let Self { name, job_size, node, knows } = self;
        [name.job.0 as i64, i64::from(name.number), i64::from(job_size), node as i64, knows as i64]
    }

    fn from_words(words: &[i64; Self::WORDS]) -> Option<Self> {
        let [job, number, job_size, node, knows] = *words;
        let (number, job_size) = (u32::try_from(number).ok()?, u32::try_from(job_size).ok()?);
        let name = ProcessName { job: JobId(job as u64), number };
        (number < job_size).then_some(Self { name, job_size, node: node as u64, knows: knows as u64 })
    }
}

/// The members in these words; `None`: the words make no sense.
fn members(words: &[i64]) -> Option<Vec<Member>> {
    let (members, rest) = words.as_chunks();
    let members: Vec<Member> = members.iter().map(Member::from_words).collect::<Option<_>>()?;
    let mut names: Vec<ProcessName> = members.iter().map(|member| member.name).collect();
    weft_ordered::sort(&mut names);
    names.dedup();
    let jobs = jobs(&members);
    let is_sound = rest.is_empty()
        && (1..=MEMBERS_MAX).contains(&members.len())
        && names.len() == members.len()
        && members.iter().all(|member| jobs.get(&member.name.job) == Some(&member.job_size));
    is_sound.then_some(members)
}

/// The jobs of these processes, and their sizes.
fn jobs(members: &[Member]) -> Map<JobId, u32> {
    members.iter().map(|member| (member.name.job, member.job_size)).collect()
}

/// What a process tells in the second round.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    is_crowded: bool,
    /// It knows all processes of the other group.
    knows_all: bool,
    /// The name of the segment that it has created for the processes of its node.
    segment: Option<SegmentKey>,
    /// Its relation to each job of the other group, in order of the jobs.
    relations: Vec<Relation>,
    card: String,
}

/// The random name of a segment.
type SegmentKey = [u64; 2];

/// The index by which a process knows the first process of another job, and its own job's half of the secret
/// with that job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Relation {
    first: u32,
    half: Half,
}

impl Relation {
    const WORDS: usize = 1 + LENGTH / 8;

    fn to_words(self) -> [i64; Self::WORDS] {
        let [low, high] = [0, 8].map(|at| i64::from_le_bytes(std::array::from_fn(|byte| self.half[at + byte])));
        [i64::from(self.first), low, high]
    }

    fn from_words(words: &[i64; Self::WORDS]) -> Option<Self> {
        let [first, low, high] = *words;
        let mut half = [0; LENGTH];
        half[..8].copy_from_slice(&low.to_le_bytes());
        half[8..].copy_from_slice(&high.to_le_bytes());
        Some(Self { first: u32::try_from(first).ok()?, half })
    }
}

impl Told {
    /// The words in front of the relations: the number of all words, what holds of the process, the length of
    /// its card, and the name of its segment.
    const HEAD: usize = 5;

    fn to_words(&self) -> Vec<i64> {
        let (flags, [one, two]) = (
            i64::from(self.is_crowded) | i64::from(self.knows_all) << 1 | i64::from(self.segment.is_some()) << 2,
            self.segment.unwrap_or_default(),
        );
        let mut words = vec![0, flags, self.card.len() as i64, one as i64, two as i64];
        words.extend(self.relations.iter().flat_map(|relation| relation.to_words()));
        words.extend(self.card.as_bytes().chunks(8).map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            i64::from_le_bytes(bytes)
        }));
        words[0] = words.len() as i64;
        words
    }

    /// Reads the words of one process, which knows `jobs` jobs of this group, and returns those behind.
    fn from_words(words: &[i64], jobs: usize) -> Option<(Self, &[i64])> {
        let length = usize::try_from(*words.first()?).ok()?;
        let (own, rest) = words.split_at_checked(length)?;
        let (head, own) = own.split_at_checked(Self::HEAD)?;
        let (relations, text) = own.split_at_checked(jobs * Relation::WORDS)?;
        let relations = relations.as_chunks().0.iter().map(Relation::from_words).collect::<Option<_>>()?;
        let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        let card = bytes.get(..usize::try_from(head[2]).ok()?)?.to_vec();
        let [is_crowded, knows_all, has_segment] = [1, 2, 4].map(|flag| head[1] & flag != 0);
        let segment = has_segment.then_some([head[3] as u64, head[4] as u64]);
        Some((Self { is_crowded, knows_all, segment, relations, card: String::from_utf8(card).ok()? }, rest))
    }
}

/// Reads what a leader of unknown origin has said, for `weft-fuzz`. Members that can be read are the same
/// after they are written and read again, and so is what processes tell.
pub fn reread_words(words: &[i64]) {
    if let Some(members) = members(words) {
        let written: Vec<i64> = members.iter().flat_map(|member| member.to_words()).collect();
        assert_eq!(written, words);
    }
    for (count, jobs) in [(1, 0), (1, 1), (2, 1), (3, 2)] {
        if let Some(all) = all_told(words, count, jobs) {
            let written: Vec<i64> = all.iter().flat_map(Told::to_words).collect();
            assert_eq!(all_told(&written, count, jobs), Some(all));
        }
    }
}

/// What leaders say, for [`reread_words`] to begin with.
pub fn word_seeds() -> Vec<Vec<i64>> {
    let relation = |first| Relation { first, half: [7; LENGTH] };
    let told = |first| Told {
        is_crowded: true,
        knows_all: false,
        segment: Some([1, 2]),
        relations: vec![relation(first)],
        card: "weft-card".to_owned(),
    };
    vec![vec![7, 1, 3, 5, 0, 9, 0, 1, 5, 6], told(5).to_words(), [told(5).to_words(), told(6).to_words()].concat()]
}

/// The words of all processes of a group, and what they mean.
fn all_told(words: &[i64], members: usize, jobs: usize) -> Option<Vec<Told>> {
    let (mut rest, mut all) = (words, Vec::new());
    for _ in 0..members {
        let (told, behind) = Told::from_words(rest, jobs)?;
        all.push(told);
        rest = behind;
    }
    rest.is_empty().then_some(all)
}

fn nonsense() -> Error {
    Error::new(
        MPI_ERR_OTHER,
        "the leader of the other group said something that makes no sense: do both use the same version of Weft?",
    )
}

/// The words of the other leader, as they come.
impl Outside for Contact {
    type Found = std::io::Result<Vec<u8>>;

    fn look(&mut self) -> Option<Self::Found> {
        Contact::look(self).transpose()
    }

    fn ask(&mut self, _: &mut Process) -> Option<Self::Found> {
        None
    }

    fn sockets(&self) -> Vec<(RawFd, Interest)> {
        Contact::sockets(self).collect()
    }
}

/// A group on its way to a meeting.
struct Side {
    communicator: usize,
    leader: u32,
    /// The leader has it, or the reason why it has none.
    contact: Option<Result<Contact>>,
}

impl Side {
    fn scope(&self) -> Result<CollectiveScope> {
        with(|process| process.collective_scope(self.communicator))
    }

    /// Gathers the words of all processes of this group, by rank. `mine` is an error if this process's part
    /// has failed: then the other group is told.
    fn gather(&mut self, mine: Result<Vec<i64>>) -> Result<Vec<i64>> {
        let words = mine.as_deref().unwrap_or(&[]);
        let (begin, end) = words.split_at(words.len().min(GATHERED_WORDS));
        let mut first = vec![0; HEAD_WORDS + GATHERED_WORDS];
        first[0] = i64::from(ErrorClass::to_wire(mine.as_ref().err().map(|error| error.class)));
        first[1] = words.len() as i64;
        first[HEAD_WORDS..][..begin.len()].copy_from_slice(begin);
        let first = gather_all(self.scope()?, &first)?;
        let all = || first.chunks(HEAD_WORDS + GATHERED_WORDS);
        if let Some(class) = all().find_map(|one| ErrorClass::from_wire(one[0] as u32)) {
            if let Some(Ok(contact)) = &mut self.contact {
                // The other group learns of the failure by a message without words, if its leader lives.
                contact.send(&[]).ok();
            }
            mine?;
            let sentence = "another process of this group cannot do its part, as its own call says";
            return Err(Error::new(class, sentence.to_owned()));
        }
        let rest = |one: &[i64]| (one[1] as usize).saturating_sub(GATHERED_WORDS);
        let longest = all().map(rest).max().unwrap_or(0);
        let mut padded = end.to_vec();
        padded.resize(longest, 0);
        let ends = if longest > 0 { gather_all(self.scope()?, &padded)? } else { Vec::new() };
        let mut words = Vec::new();
        for (rank, one) in all().enumerate() {
            words.extend(&one[HEAD_WORDS..][..(one[1] as usize).min(GATHERED_WORDS)]);
            words.extend(&ends[rank * longest..][..rest(one)]);
        }
        Ok(words)
    }

    /// Exchanges words with the other group. All processes of this group have the same words. `failed` says
    /// what has happened if this group's leader cannot exchange words.
    fn exchange(&mut self, words: &[i64], failed: &str) -> Result<Vec<i64>> {
        let heard = match self.contact.take() {
            None => Ok(Vec::new()),
            Some(contact) => contact.and_then(|contact| swap(contact, words)).map(|(contact, words)| {
                self.contact = Some(Ok(contact));
                words
            }),
        };
        let (class, mut words) = match &heard {
            Ok(words) => (None, words.clone()),
            Err(error) => (Some(error.class), Vec::new()),
        };
        let mut first = vec![0; HEAD_WORDS + HANDED_ON_WORDS];
        (first[0], first[1]) = (i64::from(ErrorClass::to_wire(class)), words.len() as i64);
        let begin = words.len().min(HANDED_ON_WORDS);
        first[HEAD_WORDS..][..begin].copy_from_slice(&words[..begin]);
        let scope = self.scope()?;
        let is_alone = scope.group.size() == 1;
        if !is_alone {
            broadcast(scope, self.leader, &mut first)?;
        }
        heard?;
        if let Some(class) = ErrorClass::from_wire(first[0] as u32) {
            return Err(Error::new(class, failed.to_owned()));
        }
        let length = first[1] as usize;
        if length == 0 {
            return Err(Error::new(MPI_ERR_OTHER, "a process of the other group cannot do its part"));
        }
        if is_alone {
            return Ok(words);
        }
        if length > HANDED_ON_WORDS {
            words.resize(length, 0);
            broadcast(self.scope()?, self.leader, &mut words[HANDED_ON_WORDS..])?;
        }
        words.resize(length, 0);
        let begin = length.min(HANDED_ON_WORDS);
        words[..begin].copy_from_slice(&first[HEAD_WORDS..][..begin]);
        Ok(words)
    }
}

const LOST: &str = "the leader of this group has lost the leader of the other group";

/// Exchanges words with the other leader.
fn swap(mut contact: Contact, words: &[i64]) -> Result<(Contact, Vec<i64>)> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let lost = |error: std::io::Error| {
        let sentence = format!("the leader of the other group is gone: {}", weft_net::reason(&error));
        Error::new(MPI_ERR_OTHER, sentence)
    };
    contact.send(&bytes).map_err(lost)?;
    let heard = block_outside(&mut contact).map_err(lost)?;
    let (words, rest) = heard.as_chunks();
    if !rest.is_empty() {
        return Err(nonsense());
    }
    Ok((contact, words.iter().map(|word| i64::from_le_bytes(*word)).collect()))
}

/// Lets the group of `communicator`, an intracommunicator, meet the group beyond the contact that rank
/// `leader` makes: only that rank gives a `contact`.
///
/// # Errors
/// `MPI_ERR_ROOT`; the leader's error, at all processes of the group; `MPI_ERR_COMM`: the groups have a
/// process in common; `MPI_ERR_OTHER`: the other group is gone, or a process of it cannot be reached.
pub fn meet(communicator: usize, leader: u32, contact: Option<impl FnOnce() -> Result<Contact>>) -> Result<Meeting> {
    with(|process| process.forget_strangers());
    let mut side = Side { communicator, leader, contact: None };
    let scope = side.scope()?;
    if leader >= scope.group.size() {
        return Err(Error::new(MPI_ERR_ROOT, format!("root is {leader}, but the communicator has fewer processes")));
    }
    let mine = with(|process| {
        let (name, job_size) = process.own_name()?;
        Ok(Member { name, job_size, node: process.near_node()?, knows: process.known_strangers() })
    });
    let gathered = side.gather(mine.map(|mine: Member| mine.to_words().to_vec()))?;
    side.contact = contact.map(|make| make());
    let failed = format!("rank {leader}, the root, could not meet the other group, as its own call says");
    let heard = side.exchange(&gathered, &failed)?;
    let (own, theirs) = (members(&gathered).ok_or_else(nonsense)?, members(&heard).ok_or_else(nonsense)?);
    let mut groups = Groups { own, theirs, share: true };
    let names = |members: &[Member]| members.iter().map(|member| member.name).collect::<Vec<_>>();
    let news = introduce(b"meeting", &names(&groups.own), &names(&groups.theirs), MPI_ERR_COMM)?;
    if !groups.are_of_one_job() {
        acquaint(&mut side, &mut groups)?;
    }
    meeting(&scope, &news)
}

/// The processes of the two groups.
struct Groups {
    own: Vec<Member>,
    theirs: Vec<Member>,
    /// Processes of one node share memory.
    share: bool,
}

impl Groups {
    /// Returns whether all processes are of one job, and so know each other.
    fn are_of_one_job(&self) -> bool {
        let job = self.own[0].name.job;
        self.own.iter().chain(&self.theirs).all(|member| member.name.job == job)
    }

    /// The processes of the node of `own` that share a segment if they meet, in order of their names. There
    /// are none if all of them are of one job, there are too many, or memory cannot be shared.
    fn neighbours(&self, own: ProcessName) -> Vec<ProcessName> {
        let all = || self.own.iter().chain(&self.theirs);
        let node = all().find(|member| member.name == own).map_or(0, |own| own.node);
        let mut names: Vec<_> = all().filter(|member| member.node == node && node != 0).map(|one| one.name).collect();
        weft_ordered::sort(&mut names);
        let shares = self.share && names.iter().any(|name| name.job != own.job) && names.len() <= LINK_SIZE_MAX;
        if shares { names } else { Vec::new() }
    }
}

/// A segment of the processes of a node: what this process tells of it, and its place there.
#[derive(Default)]
struct Segment {
    told: Option<SegmentKey>,
    place: Option<NearPlace>,
}

impl Segment {
    /// Takes a place. If there is none, the user is told why.
    fn take_place(&mut self, key: SegmentKey, own: usize, size: usize) {
        match join_near(&file_key(key), own, size) {
            Ok(place) => self.place = Some(place),
            Err(error) => say_that_no_memory_is_shared(&error.to_string()),
        }
    }
}

/// The second and the third round: makes the processes of the other group peers of this one. If processes of
/// one node cannot share memory, the two rounds come again without.
fn acquaint(side: &mut Side, groups: &mut Groups) -> Result<()> {
    if attempt(side, groups)? {
        return Ok(());
    }
    groups.share = false;
    // Nobody shares memory now, so nobody who is honest says again that memory cannot be shared.
    if attempt(side, groups)? { Ok(()) } else { Err(nonsense()) }
}

/// The two rounds; returns false if the processes of a node cannot share memory. Then all processes know, and
/// none has added a peer.
fn attempt(side: &mut Side, groups: &Groups) -> Result<bool> {
    let mut segment = Segment::default();
    let mut added = Vec::new();
    let done = acquaint_with(side, groups, &mut segment, &mut added);
    if !matches!(done, Ok(true)) {
        with(|process| process.forget_added(&added));
    }
    if let Some(place) = segment.place {
        place.leave_unused();
    }
    done
}

fn acquaint_with(side: &mut Side, groups: &Groups, segment: &mut Segment, added: &mut Vec<PeerId>) -> Result<bool> {
    let mine = tell(groups, segment).map(|told| told.to_words());
    let gathered = side.gather(mine)?;
    let heard = side.exchange(&gathered, LOST)?;
    let read = || {
        let own = all_told(&gathered, groups.own.len(), jobs(&groups.theirs).len())?;
        Some((own, all_told(&heard, groups.theirs.len(), jobs(&groups.own).len())?))
    };
    let told = read().ok_or_else(nonsense);
    if told.as_ref().is_ok_and(|(own, theirs)| own.iter().chain(theirs).all(|told| told.knows_all)) {
        return Ok(true);
    }
    let done = told.and_then(|(own, theirs)| add(groups, (own, theirs), segment, added));
    // All processes of both groups have all others as peers, or none goes on.
    let gathered = side.gather(done.map(|is_met| vec![if is_met { MET } else { CANNOT_SHARE }]))?;
    let heard = side.exchange(&gathered, LOST)?;
    Ok(!gathered.iter().chain(&heard).any(|word| *word == CANNOT_SHARE))
}

/// Returns whether `name` is of another job than process `own`, and no peer yet.
fn is_new(process: &mut Process, own: ProcessName, name: ProcessName) -> bool {
    name.job != own.job && !process.knows(name)
}

/// Meets the jobs of the other group, and writes what this process tells in the second round.
fn tell(groups: &Groups, segment: &mut Segment) -> Result<Told> {
    let Groups { own: ours, theirs, .. } = groups;
    let (own, _) = with(|process| process.own_name())?;
    let neighbours = groups.neighbours(own);
    let missing: Vec<ProcessName> =
        with(|process| theirs.iter().map(|member| member.name).filter(|name| is_new(process, own, *name)).collect());
    let is_near = |name: &ProcessName| neighbours.contains(name);
    if neighbours.first() == Some(&own) {
        // Others of this group that know the same processes miss none, either.
        let knows = ours.iter().find(|member| member.name == own).map_or(0, |own| own.knows);
        let differs = ours.iter().any(|member| is_near(&member.name) && member.knows != knows);
        if differs || missing.iter().any(is_near) {
            let key = new_key().map_err(|error| Error::new(MPI_ERR_OTHER, error.to_string()))?;
            segment.take_place(key, 0, neighbours.len());
            segment.told = segment.place.as_ref().map(|_| key);
        }
    }
    if missing.iter().any(|name| !is_near(name)) {
        open_link()?;
    }
    with(|process| {
        let mut relations = Vec::new();
        for (job, size) in jobs(theirs) {
            relations.push(if job == own.job {
                Relation::default()
            } else {
                Relation { first: process.meet_job(job, size)?, half: process.half_for(job)? }
            });
        }
        let (is_crowded, card) = (process.is_crowded, process.own_card()?);
        Ok(Told { is_crowded, knows_all: missing.is_empty(), segment: segment.told, relations, card })
    })
}

fn file_key([one, two]: SegmentKey) -> String {
    format!("{one:016x}{two:016x}")
}

/// Makes the processes of the other group peers of this one: both groups have told this. Those that are new
/// are in `added`. Returns false, and adds none, if this process cannot share memory with a new one.
fn add(
    groups: &Groups,
    (ours, theirs): (Vec<Told>, Vec<Told>),
    segment: &mut Segment,
    added: &mut Vec<PeerId>,
) -> Result<bool> {
    let (name, size) = with(|process| process.own_name())?;
    let neighbours = groups.neighbours(name);
    let members = || groups.own.iter().chain(&groups.theirs);
    let creator = members().zip(ours.iter().chain(&theirs)).find(|(one, _)| Some(&one.name) == neighbours.first());
    if let Some(key) = creator.and_then(|(_, told)| told.segment)
        && segment.place.is_none()
    {
        let own = neighbours.iter().position(|one| *one == name).ok_or_else(nonsense)?;
        segment.take_place(key, own, neighbours.len());
    }
    let is_near = |member: &&Member| neighbours.contains(&member.name);
    let misses_near = |process: &mut Process| {
        let mut near = groups.theirs.iter().filter(is_near);
        near.any(|member| is_new(process, name, member.name))
    };
    if segment.place.is_none() && with(misses_near) {
        return Ok(false);
    }
    let own_job = jobs(&groups.own).keys().position(|job| *job == name.job).ok_or_else(nonsense)?;
    with(|process| {
        for (member, told) in groups.theirs.iter().zip(theirs) {
            if !is_new(process, name, member.name) {
                continue;
            }
            let Told { is_crowded, relations, card, .. } = told;
            process.agree_with(member.name.job, relations[own_job].half)?;
            let own_index = relations[own_job].first.checked_add(name.number).ok_or_else(nonsense)?;
            let place = neighbours.iter().position(|one| *one == member.name);
            let near = segment.place.as_ref().zip(place);
            let stranger = Stranger { name: member.name, own_index, card, is_crowded, near };
            added.push(process.add_stranger(&stranger, size.saturating_add(member.job_size))?);
        }
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(job: u64, number: u32, job_size: u32) -> Member {
        let name = ProcessName { job: JobId(job), number };
        Member { name, job_size, node: job % 5, knows: u64::MAX - job }
    }

    #[test]
    fn members_come_back_and_nonsense_does_not() {
        let words = |all: &[Member]| all.iter().flat_map(|member| member.to_words()).collect::<Vec<_>>();
        let all = [member(7, 1, 3), member(u64::MAX, 0, 1), member(7, 0, 3)];
        assert_eq!(members(&words(&all)).as_deref(), Some(&all[..]));
        assert_eq!(jobs(&all).into_iter().collect::<Vec<_>>(), [(JobId(7), 3), (JobId(u64::MAX), 1)]);
        // No process; one twice; a number beyond its job; two sizes of one job; a word too many.
        for wrong in [&[][..], &[all[0], all[0]], &[member(7, 3, 3)], &[member(7, 0, 3), member(7, 1, 2)]] {
            assert_eq!(members(&words(wrong)), None, "{wrong:?}");
        }
        assert_eq!(members(&[words(&all), vec![1]].concat()), None);
        assert_eq!(members(&[7, -1, 3, 0, 0]), None);
    }

    #[test]
    fn processes_of_one_node_and_several_jobs_share_a_segment() {
        let at = |job, number, node| Member { node, ..member(job, number, 9) };
        let groups = Groups {
            own: vec![at(4, 1, 7), at(4, 0, 7), at(4, 2, 8), at(4, 3, 0), at(4, 4, 6)],
            theirs: vec![at(3, 5, 7), at(3, 6, 6), at(3, 7, 0), at(3, 8, 9)],
            share: true,
        };
        let name = |job, number| ProcessName { job: JobId(job), number };
        let of = |job, number| groups.neighbours(name(job, number));
        let three = [name(3, 5), name(4, 0), name(4, 1)];
        assert!([of(4, 0), of(4, 1), of(3, 5)].iter().all(|names| names == &three));
        assert_eq!((of(4, 4), of(3, 6)), (vec![name(3, 6), name(4, 4)], vec![name(3, 6), name(4, 4)]));
        // Alone on its node, with its own job only, or without shared memory.
        assert!([of(4, 2), of(3, 8), of(4, 3), of(3, 7)].iter().all(Vec::is_empty));
        let many = |job| (0..65).map(|number| Member { node: 7, ..member(job, number, 65) }).collect();
        let groups = Groups { own: many(1), theirs: many(2), share: true };
        assert!(groups.neighbours(name(1, 0)).is_empty());
        let two = |share| Groups { own: vec![at(4, 0, 7)], theirs: vec![at(3, 5, 7)], share };
        assert_eq!([true, false].map(|share| two(share).neighbours(name(4, 0)).len()), [2, 0]);
    }

    #[test]
    fn what_processes_tell_comes_back_and_any_cut_is_noticed() {
        let told = |card: &str, firsts: &[u32]| Told {
            is_crowded: card.len() > 3,
            knows_all: firsts[0] == 1,
            segment: (firsts[0] == 7).then_some([3, u64::MAX]),
            relations: firsts.iter().map(|first| Relation { first: *first, half: [*first as u8; LENGTH] }).collect(),
            card: card.into(),
        };
        let all = [told("", &[1, 2]), told("card é", &[7, 1 << 24]), told("12345678", &[0, 200])];
        let words: Vec<i64> = all.iter().flat_map(Told::to_words).collect();
        assert_eq!(all_told(&words, 3, 2).as_deref(), Some(&all[..]));
        for length in 0..words.len() {
            assert_eq!(all_told(&words[..length], 3, 2), None, "{length} words");
        }
        assert_eq!(all_told(&words, 2, 2), None);
        for (at, wrong) in [(0, -1), (0, i64::MAX), (2, 1 << 40), (2, -5), (Told::HEAD, -1)] {
            let mut words = words.clone();
            words[at] = wrong;
            assert_eq!(all_told(&words, 3, 2), None, "word {at} is {wrong}");
        }
    }
}
