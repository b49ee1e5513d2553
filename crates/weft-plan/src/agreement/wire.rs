//! The messages of agreements as bytes. All integers are little-endian; a set of ranks is the number of its
//! words and the words.

use alloc::vec::Vec;

use super::{Ranks, Vote};

/// A message of an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The agreement, and the round of it.
    pub(super) number: u32,
    pub(super) round: u32,
    /// The failures that the sender knows.
    pub(super) failed: Ranks,
    pub(super) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The joined votes of these processes.
    Vote { covered: Covered, vote: Vote },
    /// Asks a process for its vote, or for the decision.
    Question,
    /// The decision.
    Decision(Vote),
}

/// The processes whose votes have been joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Covered {
    /// The sender and all below it in the tree in which nobody has failed.
    Below,
    /// These.
    These(Ranks),
}

const VOTE_BELOW: u32 = 1;
const VOTE: u32 = 2;
const QUESTION: u32 = 3;
const DECISION: u32 = 4;

impl Message {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let kind = match &self.body {
            Body::Vote { covered: Covered::Below, .. } => VOTE_BELOW,
            Body::Vote { .. } => VOTE,
            Body::Question => QUESTION,
            Body::Decision(_) => DECISION,
        };
        put_u32(&mut out, kind);
        put_u32(&mut out, self.number);
        put_u32(&mut out, self.round);
        put_ranks(&mut out, &self.failed);
        match &self.body {
            Body::Vote { covered, vote } => {
                if let Covered::These(ranks) = covered {
                    put_ranks(&mut out, ranks);
                }
                put_vote(&mut out, vote);
            }
            Body::Question => {}
            Body::Decision(vote) => put_vote(&mut out, vote),
        }
        out
    }

    /// Reads a message among `size` processes; `None`: it is none.
    pub(super) fn parse(bytes: &[u8], size: u32) -> Option<Self> {
        let mut reader = Reader { bytes, size };
        let (kind, number, round, failed) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.ranks()?);
        let body = match kind {
            VOTE_BELOW => Body::Vote { covered: Covered::Below, vote: reader.vote()? },
            VOTE => Body::Vote { covered: Covered::These(reader.ranks()?), vote: reader.vote()? },
            QUESTION => Body::Question,
            DECISION => Body::Decision(reader.vote()?),
            _ => return None,
        };
        reader.bytes.is_empty().then_some(Self { number, round, failed, body })
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_ranks(out: &mut Vec<u8>, ranks: &Ranks) {
    put_u32(out, ranks.words().len() as u32);
    ranks.words().iter().for_each(|word| put_u64(out, *word));
}

fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    put_u32(out, vote.flags);
    put_u32(out, vote.open);
    put_u64(out, vote.highest);
    put_u64(out, vote.lowest);
    put_ranks(out, &vote.failed);
    put_ranks(out, &vote.acknowledged);
}

struct Reader<'a> {
    bytes: &'a [u8],
    size: u32,
}

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        Some(u32::from_le_bytes(*head))
    }

    fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.bytes.split_first_chunk::<8>()?;
        self.bytes = rest;
        Some(u64::from_le_bytes(*head))
    }

    fn ranks(&mut self) -> Option<Ranks> {
        let count = self.u32()?;
        if count > self.size.div_ceil(u64::BITS) {
            return None;
        }
        let (words, rest) = self.bytes.split_at_checked(count as usize * 8)?;
        self.bytes = rest;
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().unwrap_or_default());
        Ranks::from_words(words.chunks_exact(8).map(word), self.size)
    }

    fn vote(&mut self) -> Option<Vote> {
        let numbers = [self.u32()?, self.u32()?];
        let bounds = [self.u64()?, self.u64()?];
        Some(Vote::from_parts(numbers, bounds, self.ranks()?, self.ranks()?))
    }
}
