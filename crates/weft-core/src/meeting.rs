//! Secrets of jobs that meet (MPI-5.0 §11.8, §11.9): what the leaders of two groups say to each other is
//! sealed, and packets between two jobs have a secret of these two jobs.
//!
//! A port has a token, which is a part of its name. Only a process that knows the name can meet the process
//! that has opened the port. Both ends choose a nonce for each contact, so that nothing of one contact fits
//! another.
//!
//! The secret of two jobs is made of two halves. Each job makes its half of its own secret and the name of
//! the other job. So all processes of a job make the same half at any time, and a third job that has met both
//! cannot make either.

use alloc::vec::Vec;
use core::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::process::{JobId, ProcessName};
use crate::wire::{Ciphers, Key, SEAL_SIZE, Secret};

/// The bytes of a token, of a nonce, and of half a secret.
pub const LENGTH: usize = 16;

/// Random bytes of a port: who knows them may come.
pub type Token = [u8; LENGTH];
/// Random bytes of one end of a contact.
pub type Nonce = [u8; LENGTH];
/// The part of one job in the secret of two.
pub type Half = [u8; LENGTH];

/// The bytes that stand before a sealed message in the buffer in which it is made.
const AT: usize = crate::wire::TAG_SIZE;

/// Sixteen bytes derived from `key` for a purpose.
fn derive(key: &[u8; LENGTH], purpose: &[u8], parts: &[&[u8]]) -> [u8; LENGTH] {
    let mut derived = [0; LENGTH];
    for (which, half) in (0u8..).zip(derived.chunks_exact_mut(8)) {
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(purpose);
        parts.iter().for_each(|part| hasher.write(part));
        hasher.write(&[which]);
        half.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    derived
}

/// The proof that the maker of `nonce` knows the token of the port.
pub fn proof(token: &Token, nonce: &Nonce) -> [u8; LENGTH] {
    derive(token, b"weft port", &[nonce])
}

/// The name under which the port with this token is known on its host. It does not reveal the token.
pub fn near_name(token: &Token) -> [u8; LENGTH] {
    derive(token, b"weft near", &[])
}

/// The end of a contact at which a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The process that has opened the port.
    Acceptor,
    /// The process that came.
    Connector,
}

/// The longest message, in bytes: the cards of tens of thousands of processes fit.
pub const MESSAGE_MAX: usize = 1 << 28;
/// The bytes of the length in front of what was sealed, little-endian.
const LENGTH_BYTES: usize = size_of::<u32>();

/// What came over a contact is no message of the other leader, or not its next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign;

/// A contact of two leaders, seen from one end: messages to bytes and back. Each message is sealed, and opens
/// only at its place in the order of messages. The caller moves the bytes, over a connection that keeps their
/// order.
#[derive(Debug)]
pub struct Contact {
    ciphers: Ciphers,
    number: u64,
    sealed: u64,
    opened: u64,
    /// The bytes that have not left, and those that have come of messages that are not whole.
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Contact {
    /// The contact of the ends with these nonces at a port, seen from `end`.
    pub fn new(token: &Token, acceptor: &Nonce, connector: &Nonce, end: End) -> Self {
        let secret = Secret::new(derive(token, b"weft contact", &[acceptor, connector]));
        let [there, back] = [(0, 1), (1, 0)]
            .map(|(from, to)| Key::derive(&secret, ProcessName::of_only_job(from), ProcessName::of_only_job(to)));
        let (seal, open) = if end == End::Acceptor { (there, back) } else { (back, there) };
        let (outgoing, incoming) = (Vec::new(), Vec::new());
        let number = derive(token, b"weft meeting", &[acceptor, connector]);
        let number = u64::from_le_bytes(core::array::from_fn(|byte| number[byte]));
        Self { ciphers: Ciphers::new(&seal, &open), number, sealed: 0, opened: 0, outgoing, incoming }
    }

    /// A number that both ends know, and that other contacts do not have.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes bytes leave as they are, in front of all messages: the answer of the acceptor.
    pub fn greet(&mut self, greeting: &[u8]) {
        self.outgoing.extend_from_slice(greeting);
    }

    /// Makes a message leave.
    pub fn send(&mut self, message: &[u8]) {
        let sealed = self.seal(message);
        self.outgoing.extend_from_slice(&(sealed.len() as u32).to_le_bytes());
        self.outgoing.extend(sealed);
    }

    /// The bytes that have not left yet.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// The first `count` of these bytes have left.
    pub fn have_left(&mut self, count: usize) {
        self.outgoing.drain(..count);
    }

    /// Takes in bytes that have come.
    pub fn receive(&mut self, bytes: &[u8]) {
        // The memory grows with what has come, whatever the length says.
        self.incoming.extend_from_slice(bytes);
    }

    /// The next message of the other end, once all of it is here, and all that this end has to say has left:
    /// whoever has heard the last word may end the contact. `is_over`: nothing leaves any more.
    ///
    /// # Errors
    /// The bytes are no such message.
    pub fn next_message(&mut self, is_over: bool) -> Result<Option<Vec<u8>>, Foreign> {
        if !self.outgoing.is_empty() && !is_over && !cfg!(weft_mutant = "meeting_contact_left_early") {
            return Ok(None);
        }
        let Some((length, rest)) = self.incoming.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MESSAGE_MAX {
            return Err(Foreign);
        }
        let Some(sealed) = rest.get(..length) else { return Ok(None) };
        let sealed = sealed.to_vec();
        let message = self.open(&sealed).ok_or(Foreign)?;
        self.incoming.drain(..LENGTH_BYTES + length);
        Ok(Some(message))
    }

    /// Seals the next message.
    fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let mut buffer = alloc::vec![0; AT + message.len() + SEAL_SIZE];
        buffer[AT..AT + message.len()].copy_from_slice(message);
        self.ciphers.seal(self.sealed, 0, AT, AT + message.len(), &mut buffer);
        self.sealed += 1;
        buffer.split_off(AT)
    }

    /// Opens the next message; `None`: the other end did not seal it, or not as its next one.
    fn open(&mut self, sealed: &[u8]) -> Option<Vec<u8>> {
        let packet = [&[0; AT], sealed].concat();
        let opened = self.ciphers.open_at(self.opened, 0, AT, &packet)?;
        self.opened += 1;
        Some(opened[AT..].to_vec())
    }
}

/// The half of a job with this secret for its packets to and from job `other`.
pub fn half(own: &Secret, other: JobId) -> Half {
    derive(own.bytes(), b"weft half", &[&other.0.to_le_bytes()])
}

/// The secret of two jobs, of which these are the halves; the same whichever comes first.
pub fn common(one: (JobId, Half), other: (JobId, Half)) -> Secret {
    let (low, high) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    Secret::new(derive(&low.1, b"weft common", &[&high.1, &low.0.0.to_le_bytes(), &high.0.0.to_le_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(tokens: [u8; 2]) -> [Contact; 2] {
        [(tokens[0], End::Acceptor), (tokens[1], End::Connector)]
            .map(|(token, end)| Contact::new(&[token; LENGTH], &[1; LENGTH], &[2; LENGTH], end))
    }

    #[test]
    fn messages_of_both_ends_open_once_and_in_order() {
        let [mut acceptor, mut connector] = ends([7, 7]);
        let (first, second) = (acceptor.seal(b"names"), acceptor.seal(b""));
        let back = connector.seal(b"names");
        assert!(first != back && !first.windows(5).any(|word| word == b"names"));
        assert_eq!(connector.open(&second), None);
        assert_eq!(connector.open(&first).as_deref(), Some(&b"names"[..]));
        assert_eq!(connector.open(&first), None);
        assert_eq!(connector.open(&second).as_deref(), Some(&b""[..]));
        assert_eq!(acceptor.open(&back).as_deref(), Some(&b"names"[..]));
        // What this end has sealed does not open here.
        let own = acceptor.seal(b"x");
        assert_eq!(acceptor.open(&own), None);
    }

    #[test]
    fn each_bit_counts_and_strangers_open_nothing() {
        let [mut acceptor, mut connector] = ends([7, 7]);
        let sealed = acceptor.seal(b"half a secret");
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 0x20;
            assert_eq!(connector.open(&damaged), None, "byte {at}");
        }
        for length in 0..sealed.len() {
            assert_eq!(connector.open(&sealed[..length]), None, "{length} bytes");
        }
        let [mut acceptor, mut stranger] = ends([7, 8]);
        assert_eq!(stranger.open(&acceptor.seal(b"x")), None);
        assert!(proof(&[7; LENGTH], &[2; LENGTH]) != proof(&[8; LENGTH], &[2; LENGTH]));
        assert!(proof(&[7; LENGTH], &[2; LENGTH]) != proof(&[7; LENGTH], &[3; LENGTH]));
    }

    #[test]
    fn two_jobs_make_the_same_secret_and_a_third_job_makes_another() {
        let secrets = [1, 2, 3].map(|byte| Secret::new([byte; LENGTH]));
        let jobs = [11, 12, 13].map(JobId);
        let half_of = |own: usize, other: usize| (jobs[own], half(&secrets[own], jobs[other]));
        let of = |one: usize, other: usize| *common(half_of(one, other), half_of(other, one)).bytes();
        assert_eq!(of(0, 1), of(1, 0));
        assert!(of(0, 1) != of(0, 2) && of(0, 1) != of(1, 2) && of(0, 2) != of(1, 2));
        // The third job has only halves that were made for it.
        assert!(of(0, 1) != *common(half_of(0, 2), half_of(1, 2)).bytes());
    }
}
