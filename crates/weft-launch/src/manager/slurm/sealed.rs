//! The connection between a task and the first task: frames that are encrypted and authenticated. Nobody on
//! the network can read or change them, repeat one, or leave one out.
//!
//! ```text
//! length (4 bytes) │ kind (1 byte), content │ seal (16 bytes)
//!                  └──── encrypted ─────┘
//! ```
//!
//! AES-128-GCM (NIST SP 800-38D) with the number of the frame as nonce. Each direction of each connection has
//! a key of its own, derived from the job's secret and a random number of each side.

use crate::JobSecret;
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::{AeadInPlace, Aes128Gcm, KeyInit};
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

/// The random number of one side.
pub(super) type Challenge = [u8; 16];

/// The most bytes of content in a frame.
pub(super) const CONTENT_MAX: usize = 64 * 1024;
const LENGTH_BYTES: usize = 4;
const SEAL_BYTES: usize = 16;
/// The most bytes of a frame.
pub(super) const FRAME_MAX: usize = LENGTH_BYTES + 1 + CONTENT_MAX + SEAL_BYTES;

/// The meaning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sender knows the secret. The first frame of each side.
    Proof,
    /// Bytes of the conversation with the process manager.
    Talk,
    /// The job ends; the content is the exit code.
    Abort,
    /// The others cannot be waited for; the content says why.
    Lost,
}

const KINDS: [Kind; 4] = [Kind::Proof, Kind::Talk, Kind::Abort, Kind::Lost];

/// A side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The first task, which serves the others.
    Server,
    Task,
}

/// The ciphers of one side of a connection.
pub(super) struct Sealed {
    seal: Aes128Gcm,
    open: Aes128Gcm,
    sent: u64,
    received: u64,
}

/// The bytes are no frame of the other side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl Sealed {
    /// The ciphers of `side` of a connection, for which the task has drawn one challenge and the server the
    /// other.
    pub(super) fn new(secret: &JobSecret, side: Side, of_task: &Challenge, of_server: &Challenge) -> Self {
        let cipher = |sender: u8| {
            let mut key = [0; 16];
            for (which, half) in (0u8..).zip(key.chunks_exact_mut(8)) {
                let mut hasher = SipHasher24::new_with_key(secret.expose());
                // Keys of packets are derived from the same secret with other words.
                hasher.write(b"weft step");
                hasher.write(of_task);
                hasher.write(of_server);
                hasher.write(&[sender, which]);
                half.copy_from_slice(&hasher.finish().to_le_bytes());
            }
            Aes128Gcm::new(&key.into())
        };
        let (by_server, by_task) = (cipher(0), cipher(1));
        let (seal, open) = if side == Side::Server { (by_server, by_task) } else { (by_task, by_server) };
        Self { seal, open, sent: 0, received: 0 }
    }

    /// Appends a frame to `out`. `content` has at most [`CONTENT_MAX`] bytes.
    pub(super) fn seal(&mut self, kind: Kind, content: &[u8], out: &mut Vec<u8>) {
        assert!(content.len() <= CONTENT_MAX, "content is cut before it is sealed");
        let length = (1 + content.len() + SEAL_BYTES) as u32;
        out.extend_from_slice(&length.to_le_bytes());
        let at = out.len();
        out.push(kind as u8);
        out.extend_from_slice(content);
        let seal = self.seal.encrypt_in_place_detached(&nonce(self.sent), &[], &mut out[at..]);
        out.extend_from_slice(&seal.expect("a frame is far below the limit of the mode"));
        self.sent += 1;
    }

    /// Takes the first frame out of the bytes that have arrived. `None`: it has not arrived whole.
    ///
    /// # Errors
    /// The bytes are no frame, or not the next one of the other side.
    pub(super) fn open(&mut self, inbox: &mut Vec<u8>) -> Result<Option<(Kind, Vec<u8>)>, Damaged> {
        let Some(head) = inbox.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if !(1 + SEAL_BYTES..=FRAME_MAX - LENGTH_BYTES).contains(&length) {
            return Err(Damaged);
        }
        let Some(frame) = inbox.get(LENGTH_BYTES..LENGTH_BYTES + length) else { return Ok(None) };
        let (sealed, seal) = frame.split_at(length - SEAL_BYTES);
        let mut content = sealed.to_vec();
        let seal = GenericArray::from_slice(seal);
        self.open.decrypt_in_place_detached(&nonce(self.received), &[], &mut content, seal).map_err(|_| Damaged)?;
        self.received += 1;
        inbox.drain(..LENGTH_BYTES + length);
        let kind = KINDS.get(usize::from(content.remove(0))).copied().ok_or(Damaged)?;
        Ok(Some((kind, content)))
    }
}

/// The nonce of the frame with this number: no number comes again with one key.
fn nonce(number: u64) -> GenericArray<u8, aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    GenericArray::from(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(secret_of_task: u8) -> (Sealed, Sealed) {
        let secret = |byte| JobSecret::new([byte; 16]);
        let (one, other) = ([1; 16], [2; 16]);
        (
            Sealed::new(&secret(7), Side::Server, &one, &other),
            Sealed::new(&secret(secret_of_task), Side::Task, &one, &other),
        )
    }

    #[test]
    fn frames_arrive_in_order_and_whole_however_they_are_cut() {
        let (mut server, mut task) = pair(7);
        let mut bytes = Vec::new();
        task.seal(Kind::Proof, b"", &mut bytes);
        task.seal(Kind::Talk, b"cmd=init", &mut bytes);
        task.seal(Kind::Talk, &vec![b'x'; CONTENT_MAX], &mut bytes);
        assert!(!bytes.windows(8).any(|part| part == b"cmd=init"), "nobody can read it");
        let (mut inbox, mut found) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(7) {
            inbox.extend_from_slice(piece);
            while let Some((kind, content)) = server.open(&mut inbox).expect("sound") {
                found.push((kind, content.len()));
            }
        }
        assert_eq!(found, [(Kind::Proof, 0), (Kind::Talk, 8), (Kind::Talk, CONTENT_MAX)]);
    }

    #[test]
    fn what_is_changed_repeated_left_out_or_of_another_secret_is_noticed() {
        let first = |change: &dyn Fn(&mut Vec<u8>)| {
            let (mut server, mut task) = pair(7);
            let mut bytes = Vec::new();
            task.seal(Kind::Talk, b"one", &mut bytes);
            change(&mut bytes);
            server.open(&mut bytes)
        };
        assert_eq!(first(&|_| ()), Ok(Some((Kind::Talk, b"one".to_vec()))));
        for at in 0..24 {
            let changed = first(&|bytes| bytes[at] ^= 1);
            // A longer length waits for more bytes.
            assert!(matches!(changed, Err(Damaged) | Ok(None)), "byte {at}: {changed:?}");
        }
        let (mut server, mut task) = pair(7);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        task.seal(Kind::Talk, b"one", &mut one);
        task.seal(Kind::Talk, b"two", &mut two);
        let again = one.clone();
        assert_eq!(server.open(&mut two), Err(Damaged), "the first frame was left out");
        let (mut server, _) = pair(7);
        assert!(server.open(&mut one).is_ok());
        assert_eq!(server.open(&mut again.clone()), Err(Damaged), "a frame came again");
        let (mut server, mut stranger) = pair(8);
        let mut bytes = Vec::new();
        stranger.seal(Kind::Proof, b"", &mut bytes);
        assert_eq!(server.open(&mut bytes), Err(Damaged));
        let (mut server, _) = pair(7);
        let mut own = Vec::new();
        server.seal(Kind::Proof, b"", &mut own);
        assert_eq!(server.open(&mut own), Err(Damaged), "a frame was sent back");
        for length in [0u32, 16, u32::MAX, (FRAME_MAX - LENGTH_BYTES + 1) as u32] {
            assert_eq!(server.open(&mut length.to_le_bytes().to_vec()), Err(Damaged), "length {length}");
        }
    }
}
