//! The datagrams that agents send each other, and their proof.

use crate::JobSecret;
use crate::control::codec::{Decode, Encode, Reader, enumeration};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher as _;

/// The length of the content.
const CONTENT_BYTES: usize = 1 + 4 + 8;
/// The length of the proof.
const TAG_BYTES: usize = 16;
/// The length of a datagram.
pub(crate) const BEAT_BYTES: usize = CONTENT_BYTES + TAG_BYTES;
/// The beginning of everything that is proved here: the secret of the job serves other purposes too.
const PURPOSE: &[u8] = b"weft heartbeat";

/// The kinds of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A heartbeat; the count says how many came before.
    Alive,
    /// A question whether the receiver lives. The count is the number of the round.
    Ask,
    /// The answer, with the count of the question.
    Answer,
}

/// A datagram from one agent to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) kind: Kind,
    /// The member that sends it.
    pub(crate) from: u32,
    pub(crate) count: u64,
}

enumeration!(Kind { Alive, Ask, Answer });

/// The proof that a datagram comes from an agent of the job.
pub(crate) struct Key(JobSecret);

impl Key {
    pub(crate) fn new(secret: JobSecret) -> Self {
        Self(secret)
    }

    fn tag(&self, content: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = SipHasher24::new_with_key(self.0.expose());
        hasher.write(PURPOSE);
        hasher.write(content);
        hasher.finish128().as_bytes()
    }

    /// Writes a datagram.
    pub(crate) fn seal(&self, beat: &Beat) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BEAT_BYTES);
        (beat.kind, beat.from, beat.count).encode(&mut bytes);
        let tag = self.tag(&bytes);
        bytes.extend_from_slice(&tag);
        bytes
    }

    /// Reads a datagram; `None`: it is of nobody of the job.
    pub(crate) fn open(&self, bytes: &[u8]) -> Option<Beat> {
        let (content, tag) = bytes.split_at_checked(CONTENT_BYTES)?;
        if self.tag(content) != *tag {
            return None;
        }
        let mut reader = Reader::new(content);
        let (kind, from, count) = Decode::decode(&mut reader)?;
        reader.is_empty().then_some(Beat { kind, from, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_back_and_others_are_refused() {
        let key = Key::new(JobSecret::new([7; 16]));
        for kind in [Kind::Alive, Kind::Ask, Kind::Answer] {
            let beat = Beat { kind, from: 3, count: 1 << 40 };
            let bytes = key.seal(&beat);
            assert_eq!((bytes.len(), key.open(&bytes)), (BEAT_BYTES, Some(beat)));
            assert_eq!(Key::new(JobSecret::new([8; 16])).open(&bytes), None, "another job");
            for at in 0..bytes.len() {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1;
                assert_eq!(key.open(&wrong), None, "byte {at}");
                assert_eq!(key.open(&bytes[..at]), None, "{at} bytes");
            }
            assert_eq!(key.open(&[bytes, vec![0]].concat()), None);
        }
    }
}
