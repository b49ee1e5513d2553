//! What the processes of two groups that meet tell of themselves, as words.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use weft_core::meeting::{Half, LENGTH};
use weft_core::process::{JobId, ProcessName};
use weft_ordered::Map;

/// The most processes of a group that is met.
const MEMBERS_MAX: usize = 1 << 20;

/// A process of a group, as it tells of itself in the first round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: ProcessName,
    /// The number of processes of its job.
    pub job_size: u32,
    /// Its node, equal for processes that can share memory; 0 if it shares none.
    pub node: u64,
    /// A number for the processes of other jobs that it knows.
    pub knows: u64,
}

impl Member {
    const WORDS: usize = 5;

    pub(super) fn to_words(self) -> [i64; Self::WORDS] {
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
pub(super) fn members(words: &[i64]) -> Option<Vec<Member>> {
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
pub fn jobs(members: &[Member]) -> Map<JobId, u32> {
    members.iter().map(|member| (member.name.job, member.job_size)).collect()
}

/// What a process tells in the second round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// It takes turns with others on its processors.
    pub is_crowded: bool,
    /// It knows all processes of the other group.
    pub knows_all: bool,
    /// The name of the segment that it has created for the processes of its node.
    pub segment: Option<SegmentKey>,
    /// Its relation to each job of the other group, in order of the jobs.
    pub relations: Vec<Relation>,
    /// Its card.
    pub card: String,
}

/// The random name of a segment.
pub type SegmentKey = [u64; 2];

/// The index by which a process knows the first process of another job, and its own job's half of the secret
/// with that job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Relation {
    /// The index.
    pub first: u32,
    /// The half of the secret.
    pub half: Half,
}

impl Relation {
    const WORDS: usize = 1 + LENGTH / 8;

    fn to_words(self) -> [i64; Self::WORDS] {
        let [low, high] = [0, 8].map(|at| i64::from_le_bytes(core::array::from_fn(|byte| self.half[at + byte])));
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
    pub(super) const HEAD: usize = 5;

    pub(super) fn to_words(&self) -> Vec<i64> {
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

/// The words of all processes of a group, and what they mean.
pub(super) fn all_told(words: &[i64], members: usize, jobs: usize) -> Option<Vec<Told>> {
    let (mut rest, mut all) = (words, Vec::new());
    for _ in 0..members {
        let (told, behind) = Told::from_words(rest, jobs)?;
        all.push(told);
        rest = behind;
    }
    rest.is_empty().then_some(all)
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
