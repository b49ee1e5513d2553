//! The meeting of two groups whose leaders have a contact (MPI-5.0 §11.8 to §11.10).
//!
//! Three rounds bring everything to all processes. In each round the processes of a group gather what they
//! have to tell, the leaders exchange it, and each leader hands the other group's words on:
//!
//! 1. the names of the processes, and the sizes of their jobs;
//! 2. the halves of the secrets that the jobs of both groups have in common;
//! 3. the card of each process, and the index by which it knows each other job's first process.
//!
//! A group may have processes of several jobs. Each process tells what only its own job knows. What one
//! process cannot do fails in all processes of both groups: the leaders exchange in each round whether their
//! group has failed.

use std::collections::BTreeMap;

use weft_core::meeting::{Half, LENGTH};
use weft_core::process::{JobId, ProcessName};
use weft_net::port::Contact;

use crate::collective::CollectiveScope;
use crate::communicator::{broadcast, gather_all, highest};
use crate::constants::{MPI_ERR_COMM, MPI_ERR_OTHER, MPI_ERR_ROOT};
use crate::error::{Error, ErrorClass, Result};
use crate::intercommunicator::{Meeting, gather_round, introduce};
use crate::process::with;
use crate::start::introduction::{Stranger, open_link};

/// The most processes of a group that is met.
const MEMBERS_MAX: usize = 1 << 20;

/// A process of a group, and the number of processes of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    name: ProcessName,
    job_size: u32,
}

impl Member {
    const WORDS: usize = 3;

    fn to_words(self) -> [i64; Self::WORDS] {
        [self.name.job.0 as i64, i64::from(self.name.number), i64::from(self.job_size)]
    }

    fn from_words(words: &[i64; Self::WORDS]) -> Option<Self> {
        let [job, number, job_size] = *words;
        let (number, job_size) = (u32::try_from(number).ok()?, u32::try_from(job_size).ok()?);
        let name = ProcessName { job: JobId(job as u64), number };
        (number < job_size).then_some(Self { name, job_size })
    }
}

/// The members in these words; `None`: the words make no sense.
fn members(words: &[i64]) -> Option<Vec<Member>> {
    let (members, rest) = words.as_chunks();
    let members: Vec<Member> = members.iter().map(Member::from_words).collect::<Option<_>>()?;
    let mut names: Vec<ProcessName> = members.iter().map(|member| member.name).collect();
    names.sort_unstable();
    names.dedup();
    let jobs = jobs(&members);
    let is_sound = rest.is_empty()
        && (1..=MEMBERS_MAX).contains(&members.len())
        && names.len() == members.len()
        && members.iter().all(|member| jobs.get(&member.name.job) == Some(&member.job_size));
    is_sound.then_some(members)
}

/// The jobs of these processes, and their sizes.
fn jobs(members: &[Member]) -> BTreeMap<JobId, u32> {
    members.iter().map(|member| (member.name.job, member.job_size)).collect()
}

/// The half of a job in the secret with another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HalfSecret {
    from: JobId,
    with: JobId,
    half: Half,
}

impl HalfSecret {
    const WORDS: usize = 2 + LENGTH / 8;

    fn to_words(self) -> [i64; Self::WORDS] {
        let [low, high] = [0, 8].map(|at| i64::from_le_bytes(std::array::from_fn(|byte| self.half[at + byte])));
        [self.from.0 as i64, self.with.0 as i64, low, high]
    }

    fn from_words(words: &[i64; Self::WORDS]) -> Self {
        let [from, with, low, high] = *words;
        let mut half = [0; LENGTH];
        half[..8].copy_from_slice(&low.to_le_bytes());
        half[8..].copy_from_slice(&high.to_le_bytes());
        Self { from: JobId(from as u64), with: JobId(with as u64), half }
    }
}

/// What a process tells in the third round.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    is_crowded: bool,
    /// The index by which it knows the first process of each job of the other group, in order of the jobs.
    firsts: Vec<u32>,
    card: String,
}

impl Told {
    /// Writes it as words, whose number comes first.
    fn to_words(&self) -> Vec<i64> {
        let mut words = vec![0, i64::from(self.is_crowded), self.card.len() as i64];
        words.extend(self.firsts.iter().map(|first| i64::from(*first)));
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
        let (head, own) = own.split_at_checked(3)?;
        let (firsts, text) = own.split_at_checked(jobs)?;
        let firsts = firsts.iter().map(|first| u32::try_from(*first).ok()).collect::<Option<_>>()?;
        let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        let card = bytes.get(..usize::try_from(head[2]).ok()?)?.to_vec();
        Some((Self { is_crowded: head[1] != 0, firsts, card: String::from_utf8(card).ok()? }, rest))
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
    let told = |firsts: &[u32]| Told { is_crowded: true, firsts: firsts.to_vec(), card: "weft-card".to_owned() };
    vec![vec![7, 1, 3, 9, 0, 1], told(&[5]).to_words(), [told(&[5]).to_words(), told(&[6]).to_words()].concat()]
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

/// A group on its way to a meeting.
struct Side {
    communicator: usize,
    leader: u32,
    /// The leader has it.
    contact: Option<Contact>,
}

impl Side {
    fn scope(&self) -> Result<CollectiveScope> {
        with(|process| process.collective_scope(self.communicator))
    }

    /// Exchanges words with the other group: those of this process's group are with the leader. `mine` is an
    /// error if this process's part has failed.
    fn exchange(&mut self, mine: Result<Vec<i64>>) -> Result<Vec<i64>> {
        let mut failed = [mine.as_ref().err().map_or(0, |error| i64::from(ErrorClass::to_wire(Some(error.class))))];
        highest(self.scope()?, &mut failed)?;
        let heard = match &mut self.contact {
            None => Ok(Vec::new()),
            Some(contact) => {
                // The other group learns of the failure by a message without words.
                let words = if failed[0] == 0 { mine.as_deref().unwrap_or(&[]) } else { &[] };
                swap(contact, words)
            }
        };
        let mut head = match &heard {
            Ok(words) => [0, words.len() as i64],
            Err(error) => [i64::from(ErrorClass::to_wire(Some(error.class))), 0],
        };
        broadcast(self.scope()?, self.leader, &mut head)?;
        mine?;
        let told = |class: u32, sentence: &str| {
            ErrorClass::from_wire(class).map_or(Ok(()), |class| Err(Error::new(class, sentence.to_owned())))
        };
        told(failed[0] as u32, "another process of this group cannot do its part, as its own call says")?;
        let mut words = heard?;
        told(head[0] as u32, "the leader of this group has lost the leader of the other group")?;
        if head[1] == 0 {
            return Err(Error::new(MPI_ERR_OTHER, "a process of the other group cannot do its part"));
        }
        words.resize(head[1] as usize, 0);
        broadcast(self.scope()?, self.leader, &mut words)?;
        Ok(words)
    }
}

/// Exchanges words with the other leader.
fn swap(contact: &mut Contact, words: &[i64]) -> Result<Vec<i64>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let lost = |error: std::io::Error| {
        let sentence = format!("the leader of the other group is gone: {}", weft_net::reason(&error));
        Error::new(MPI_ERR_OTHER, sentence)
    };
    contact.send(&bytes).map_err(lost)?;
    let heard = contact.receive().map_err(lost)?;
    let (words, rest) = heard.as_chunks();
    if !rest.is_empty() {
        return Err(nonsense());
    }
    Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
}

/// Lets the group of `communicator`, an intracommunicator, meet the group beyond the contact that rank
/// `leader` has made, or has failed to make.
///
/// # Errors
/// `MPI_ERR_ROOT`; the leader's error, at all processes of the group; `MPI_ERR_COMM`: the groups have a
/// process in common; `MPI_ERR_OTHER`: the other group is gone, or a process of it cannot be reached.
pub fn meet(communicator: usize, leader: u32, contact: Option<Result<Contact>>) -> Result<Meeting> {
    let (contact, failed) = match contact {
        None => (None, None),
        Some(Ok(contact)) => (Some(contact), None),
        Some(Err(error)) => (None, Some(error)),
    };
    with(|process| process.forget_strangers());
    let mut side = Side { communicator, leader, contact };
    let scope = side.scope()?;
    if leader >= scope.group.size() {
        return Err(Error::new(MPI_ERR_ROOT, format!("root is {leader}, but the communicator has fewer processes")));
    }
    let mut class = [failed.as_ref().map_or(0, |error| i64::from(ErrorClass::to_wire(Some(error.class))))];
    broadcast(scope.clone(), leader, &mut class)?;
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(class) = ErrorClass::from_wire(class[0] as u32) {
        let sentence = format!("rank {leader}, the root, could not meet the other group, as its own call says");
        return Err(Error::new(class, sentence));
    }
    let (own, theirs) = exchange_names(&mut side)?;
    let halves = exchange_halves(&mut side, &theirs);
    exchange_cards(&mut side, &own, &theirs, halves)?;
    let news = side.contact.is_some().then(|| {
        let names = |members: &[Member]| members.iter().map(|member| member.name).collect::<Vec<_>>();
        introduce(b"meeting", &names(&own), &names(&theirs), MPI_ERR_COMM)
    });
    gather_round(&side.scope()?, leader, news, || side.scope())
}

/// The first round.
fn exchange_names(side: &mut Side) -> Result<(Vec<Member>, Vec<Member>)> {
    let (name, job_size) = with(|process| process.own_name())?;
    let gathered = gather_all(side.scope()?, &Member { name, job_size }.to_words())?;
    let theirs = side.exchange(Ok(gathered.clone()))?;
    let own = members(&gathered).ok_or_else(nonsense)?;
    Ok((own, members(&theirs).ok_or_else(nonsense)?))
}

/// The second round: returns the halves that the other group has told.
fn exchange_halves(side: &mut Side, theirs: &[Member]) -> Result<Vec<HalfSecret>> {
    let words = with(|process| {
        let (own, _) = process.own_name()?;
        let mut words = Vec::new();
        for with in jobs(theirs).into_keys() {
            words.extend(HalfSecret { from: own.job, with, half: process.half_for(with)? }.to_words());
        }
        Ok(words)
    });
    let count = jobs(theirs).len() * HalfSecret::WORDS;
    let gathered = gather_all(side.scope()?, words.as_deref().unwrap_or(&vec![0; count]))?;
    let heard = side.exchange(words.map(|_| once_each(&gathered)))?;
    let (halves, rest) = heard.as_chunks();
    if !rest.is_empty() {
        return Err(nonsense());
    }
    Ok(halves.iter().map(HalfSecret::from_words).collect())
}

/// The halves that several processes have told, each once.
fn once_each(words: &[i64]) -> Vec<i64> {
    let mut halves: Vec<&[i64; HalfSecret::WORDS]> = words.as_chunks().0.iter().collect();
    halves.sort_unstable();
    halves.dedup();
    halves.into_iter().flatten().copied().collect()
}

/// The third round: makes the processes of the other group peers of this one.
fn exchange_cards(side: &mut Side, own: &[Member], theirs: &[Member], halves: Result<Vec<HalfSecret>>) -> Result<()> {
    let told = halves.and_then(|halves| {
        open_link()?;
        tell(theirs, &halves)
    });
    // Cards have different lengths, and a gathering has one for all.
    let words = told.as_ref().map_or(vec![0], Told::to_words);
    let mut longest = [words.len() as i64];
    highest(side.scope()?, &mut longest)?;
    let longest = longest[0] as usize;
    let mut padded = words;
    padded.resize(longest, 0);
    let gathered = gather_all(side.scope()?, &padded)?;
    let all: Vec<i64> = gathered
        .chunks(longest)
        .flat_map(|words| &words[..usize::try_from(words[0]).unwrap_or(0).min(longest)])
        .copied()
        .collect();
    let heard = side.exchange(told.map(|_| all))?;
    let added = add(own, theirs, &heard);
    // All processes of both groups have all others as peers, or none goes on.
    side.exchange(added.map(|()| vec![1])).map(drop)
}

/// Meets the jobs of the other group, and writes what this process tells in the third round.
fn tell(theirs: &[Member], halves: &[HalfSecret]) -> Result<Told> {
    with(|process| {
        let (own, _) = process.own_name()?;
        let mut firsts = Vec::new();
        for (job, size) in jobs(theirs) {
            firsts.push(if job == own.job {
                0
            } else {
                let half = halves.iter().find(|half| half.from == job && half.with == own.job).ok_or_else(nonsense)?;
                process.meet_job(job, size, half.half)?
            });
        }
        Ok(Told { is_crowded: process.is_crowded, firsts, card: process.own_card()? })
    })
}

/// Makes the processes of the other group, which have told these words, peers of this one.
fn add(own: &[Member], theirs: &[Member], words: &[i64]) -> Result<()> {
    let jobs = jobs(own);
    let told = all_told(words, theirs.len(), jobs.len()).ok_or_else(nonsense)?;
    with(|process| {
        let (name, size) = process.own_name()?;
        let place = jobs.keys().position(|job| *job == name.job).ok_or_else(nonsense)?;
        for (member, told) in theirs.iter().zip(told) {
            if member.name.job == name.job {
                continue;
            }
            let own_index = told.firsts[place].checked_add(name.number).ok_or_else(nonsense)?;
            let Told { is_crowded, card, .. } = told;
            let stranger = Stranger { name: member.name, own_index, card, is_crowded };
            process.add_stranger(&stranger, size.saturating_add(member.job_size))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(job: u64, number: u32, job_size: u32) -> Member {
        Member { name: ProcessName { job: JobId(job), number }, job_size }
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
        assert_eq!(members(&[7, -1, 3]), None);
    }

    #[test]
    fn halves_come_back_each_once() {
        let half = |from, with, byte| HalfSecret { from: JobId(from), with: JobId(with), half: [byte; LENGTH] };
        let all = [half(1, 9, 200), half(2, 9, 3), half(1, 9, 200), half(1, 8, 5)];
        let words: Vec<i64> = all.iter().flat_map(|half| half.to_words()).collect();
        let once = once_each(&words);
        let mut back: Vec<HalfSecret> = once.as_chunks().0.iter().map(HalfSecret::from_words).collect();
        back.sort_by_key(|half| (half.from, half.with));
        assert_eq!(back, [half(1, 8, 5), half(1, 9, 200), half(2, 9, 3)]);
    }

    #[test]
    fn what_processes_tell_comes_back_and_any_cut_is_noticed() {
        let told = |card: &str, firsts: &[u32]| Told {
            is_crowded: card.len() > 3,
            firsts: firsts.to_vec(),
            card: card.into(),
        };
        let all = [told("", &[1, 2]), told("card é", &[7, 1 << 24]), told("12345678", &[0, 0])];
        let words: Vec<i64> = all.iter().flat_map(Told::to_words).collect();
        assert_eq!(all_told(&words, 3, 2).as_deref(), Some(&all[..]));
        for length in 0..words.len() {
            assert_eq!(all_told(&words[..length], 3, 2), None, "{length} words");
        }
        assert_eq!(all_told(&words, 2, 2), None);
        for (at, wrong) in [(0, -1), (0, i64::MAX), (2, 1 << 40), (2, -5), (3, -1)] {
            let mut words = words.clone();
            words[at] = wrong;
            assert_eq!(all_told(&words, 3, 2), None, "word {at} is {wrong}");
        }
    }
}
