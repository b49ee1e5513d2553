//! The message protocol: the frames that two ranks exchange, on any link, to move MPI messages.
//!
//! | frame | when |
//! |---|---|
//! | `Eager` | a whole small message, sent at once within the receiver's credit |
//! | `EagerFirst`, `EagerMore` | such a message in pieces that follow one another on the ordered channel |
//! | `Rendezvous` | announces a large message; the data stays with the sender |
//! | `ClearToSend` | CTS: a buffer is ready; send to this remote key, up to a limit that later CTS raise |
//! | `Data` | a piece of granted data, placed at its offset, in any order |
//! | `ClearToPlace` | CTS to a sender whose carrier writes remote memory: the carrier's key (`placement`) |
//! | `Placed` | the sender's carrier has written such a piece |
//! | `Fin` | FIN: the receiver has matched (synchronous send) or fetched (single copy) the message |
//! | `Credit` | eager bytes that the receiver has consumed since the last such frame |
//! | `Retract`, `Retracted` | the sender cancels an announcement; the receiver answers if it was in time |
//! | `GivenUp` | the sender's part in a collective operation has failed: no more of its messages will come |
//! | `Revoked` | a communicator has been revoked (`MPIX_Comm_revoke`) |
//!
//! The envelope is that of MPI-5.0 §3.2.3. All integers are little-endian; a frame is a head of at most
//! [`HEAD_MAX`] bytes and, for the first three and `Data`, the payload after it.

use crate::matching::Envelope;
use crate::placement::RemoteMemory;

/// The largest head, in bytes.
pub const HEAD_MAX: usize = 40;

/// The fault that the parser found in a frame: such a frame is counted and dropped, never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame ends before its head does.
    Truncated,
    /// The first byte is no kind of this protocol.
    UnknownKind(u8),
}

/// A receiver's invitation to the sender of an announced message, to let its carrier write the message. The
/// first `total` bytes of the sender's `request` go to `target`, which the receiver calls `remote_key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The sender's request.
    pub request: u32,
    /// The receiver's name for the memory.
    pub remote_key: u32,
    /// The bytes that the receiver takes.
    pub total: u64,
    /// The memory, as the carrier names it.
    pub target: RemoteMemory,
    /// Set when the receiver will send a FIN as soon as it has the message, however it came. Only the
    /// receiver decides on this: the two processes may know their routes for different kinds.
    pub with_fin: bool,
}

/// A frame with its parts read out; the payload is still where it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's sentence names its fields")]
pub enum Frame<'a> {
    /// A whole message. `acknowledge` names the sender's request that waits for the match (synchronous mode).
    Eager { envelope: Envelope, acknowledge: Option<u32>, payload: &'a [u8] },
    /// The first piece of a message of `total` bytes.
    EagerFirst { envelope: Envelope, acknowledge: Option<u32>, total: u64, payload: &'a [u8] },
    /// The next piece of the message that the last `EagerFirst` on this carrier began.
    EagerMore { payload: &'a [u8] },
    /// `total` bytes wait in the sender's `request`; `address` is where they lie, when they are one run of
    /// memory.
    Rendezvous { envelope: Envelope, request: u32, total: u64, address: Option<u64> },
    /// `total` bytes of the sender's `request` follow: its carrier writes them without an invitation.
    EagerWrite { envelope: Envelope, request: u32, total: u64 },
    /// The receiver takes the first `total` bytes of `request` at `remote_key`; those before `limit` may be
    /// sent now.
    ClearToSend { request: u32, remote_key: u32, limit: u64, total: u64 },
    /// The sender's carrier may write a message to the receiver's memory.
    ClearToPlace(Invitation),
    /// The sender's carrier has written `length` bytes of the data that was granted at `remote_key`, from
    /// `offset` on.
    Placed { remote_key: u32, offset: u64, length: u64 },
    /// Bytes of the data that was granted at `remote_key`, from `offset` on.
    Data { remote_key: u32, offset: u64, payload: &'a [u8] },
    /// The sender's `request` is complete.
    Fin { request: u32 },
    /// The receiver has consumed `bytes` of eager payload.
    Credit { bytes: u64 },
    /// The sender wants `request` back.
    Retract { context: u32, request: u32 },
    /// The receiver's answer to `Retract`: `forgotten` if it had not matched the message yet, and has
    /// forgotten it.
    Retracted { request: u32, forgotten: bool },
    /// The sender has given up the collective operation that has these messages, for an error of `class`.
    GivenUp { context: u32, tag: i32, class: u32, finalized: Option<u32> },
    /// The communicator that has this first context has been revoked.
    Revoked { context: u32 },
}

const EAGER: u8 = 1;
const EAGER_FIRST: u8 = 2;
const EAGER_MORE: u8 = 3;
const RENDEZVOUS: u8 = 4;
const CLEAR_TO_SEND: u8 = 5;
const DATA: u8 = 6;
const FIN: u8 = 7;
const CREDIT: u8 = 8;
const RETRACT: u8 = 9;
const RETRACTED: u8 = 10;
const CLEAR_TO_PLACE: u8 = 11;
const PLACED: u8 = 12;
const GIVEN_UP: u8 = 13;
const REVOKED: u8 = 14;
const EAGER_WRITE: u8 = 15;

/// Bit of the second byte: the optional field of the frame is present.
const WITH_OPTION: u8 = 1;

/// The bytes of a frame before its payload.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEAD_MAX],
    length: u8,
}

impl Head {
    /// The encoded head.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    #[inline]
    fn new(kind: u8, option: bool) -> Self {
        let mut bytes = [0; HEAD_MAX];
        bytes[0] = kind;
        bytes[1] = if option { WITH_OPTION } else { 0 };
        Self { bytes, length: 4 }
    }

    #[inline]
    fn u32(mut self, value: u32) -> Self {
        let at = usize::from(self.length);
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.length += 4;
        self
    }

    #[inline]
    fn u64(mut self, value: u64) -> Self {
        let at = usize::from(self.length);
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self.length += 8;
        self
    }

    #[inline]
    fn envelope(self, envelope: Envelope) -> Self {
        self.u32(envelope.context).u32(envelope.source).u32(envelope.tag as u32)
    }

    /// Head of a whole message.
    #[inline(always)]
    pub fn eager(envelope: Envelope, acknowledge: Option<u32>) -> Self {
        // Written out, because every small message has one: at constant places this is a few stores.
        let mut bytes = [0; HEAD_MAX];
        bytes[0] = EAGER;
        bytes[1] = if acknowledge.is_some() { WITH_OPTION } else { 0 };
        bytes[4..8].copy_from_slice(&envelope.context.to_le_bytes());
        bytes[8..12].copy_from_slice(&envelope.source.to_le_bytes());
        bytes[12..16].copy_from_slice(&envelope.tag.to_le_bytes());
        bytes[16..20].copy_from_slice(&acknowledge.unwrap_or(0).to_le_bytes());
        Self { bytes, length: 20 }
    }

    /// Head of the first piece of a message of `total` bytes.
    pub fn eager_first(envelope: Envelope, acknowledge: Option<u32>, total: u64) -> Self {
        Self::new(EAGER_FIRST, acknowledge.is_some()).envelope(envelope).u32(acknowledge.unwrap_or(0)).u64(total)
    }

    /// Head of a further piece.
    pub fn eager_more() -> Self {
        Self::new(EAGER_MORE, false)
    }

    /// Head that announces a large message.
    pub fn rendezvous(envelope: Envelope, request: u32, total: u64, address: Option<u64>) -> Self {
        Self::new(RENDEZVOUS, address.is_some()).envelope(envelope).u32(request).u64(total).u64(address.unwrap_or(0))
    }

    /// Head of a message whose data the sender's carrier writes without an invitation.
    pub fn eager_write(envelope: Envelope, request: u32, total: u64) -> Self {
        Self::new(EAGER_WRITE, false).envelope(envelope).u32(request).u64(total)
    }

    /// Head that permits the bytes before `limit`, of the `total` that are wanted, to be sent.
    pub fn clear_to_send(request: u32, remote_key: u32, limit: u64, total: u64) -> Self {
        Self::new(CLEAR_TO_SEND, false).u32(request).u32(remote_key).u64(limit).u64(total)
    }

    /// Head that lets the sender's carrier write a message to the receiver's memory.
    pub fn clear_to_place(invitation: &Invitation) -> Self {
        let Invitation { request, remote_key, total, target, with_fin } = *invitation;
        let head = Self::new(CLEAR_TO_PLACE, with_fin).u32(request).u32(remote_key).u64(total);
        head.u64(target.key).u64(target.address)
    }

    /// Head that tells that a piece has been written.
    pub fn placed(remote_key: u32, offset: u64, length: u64) -> Self {
        Self::new(PLACED, false).u32(remote_key).u64(offset).u64(length)
    }

    /// Head of a piece of granted data, on links that carry it as a frame.
    pub fn data(remote_key: u32, offset: u64) -> Self {
        Self::new(DATA, false).u32(remote_key).u64(offset)
    }

    /// Head that tells that the sender's request is complete.
    pub fn fin(request: u32) -> Self {
        Self::new(FIN, false).u32(request)
    }

    /// Head that returns credit for consumed eager bytes.
    pub fn credit(bytes: u64) -> Self {
        Self::new(CREDIT, false).u64(bytes)
    }

    /// Head that asks to forget an announced message.
    pub fn retract(context: u32, request: u32) -> Self {
        Self::new(RETRACT, false).u32(context).u32(request)
    }

    /// Returns whether the head answers a wish to forget an announced message.
    pub fn is_retracted(&self) -> bool {
        self.bytes[0] == RETRACTED
    }

    /// Head that answers a wish to forget an announced message.
    pub fn retracted(request: u32, forgotten: bool) -> Self {
        Self::new(RETRACTED, forgotten).u32(request)
    }

    /// Head that tells that a collective operation has failed here with an error of `class`. If the cause is
    /// that a process has called MPI_Finalize, it has the number of that process.
    pub fn given_up(context: u32, tag: i32, class: u32, finalized: Option<u32>) -> Self {
        let finalized = finalized.map_or(0, |number| number.saturating_add(1));
        Self::new(GIVEN_UP, false).u32(context).u32(tag as u32).u32(class).u32(finalized)
    }

    /// Head that tells that the communicator with this first context has been revoked.
    pub fn revoked(context: u32) -> Self {
        Self::new(REVOKED, false).u32(context)
    }
}

/// Reads integers off the front of a frame.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn u32(&mut self) -> Result<u32, FrameError> {
        let (head, rest) = self.0.split_first_chunk::<4>().ok_or(FrameError::Truncated)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*head))
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or(FrameError::Truncated)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*head))
    }

    #[inline]
    fn envelope(&mut self) -> Result<Envelope, FrameError> {
        Ok(Envelope { context: self.u32()?, source: self.u32()?, tag: self.u32()? as i32 })
    }
}

impl<'a> Frame<'a> {
    /// The envelope and the payload of a frame that is a whole message and asks for no acknowledgement, as
    /// most frames are.
    #[inline]
    pub fn whole(bytes: &'a [u8]) -> Option<(Envelope, &'a [u8])> {
        let (start, rest) = bytes.split_first_chunk::<4>()?;
        if start[0] != EAGER || start[1] & WITH_OPTION != 0 {
            return None;
        }
        let mut reader = Reader(rest);
        let envelope = reader.envelope().ok()?;
        reader.u32().ok()?;
        Some((envelope, reader.0))
    }

    /// Reads a frame; the payload is the bytes behind the head.
    ///
    /// # Errors
    /// A [`FrameError`] when the bytes are no frame of this protocol.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (start, rest) = bytes.split_first_chunk::<4>().ok_or(FrameError::Truncated)?;
        let with_option = start[1] & WITH_OPTION != 0;
        let mut reader = Reader(rest);
        let r = &mut reader;
        Ok(match start[0] {
            EAGER => {
                let (envelope, request) = (r.envelope()?, r.u32()?);
                Self::Eager { envelope, acknowledge: with_option.then_some(request), payload: r.0 }
            }
            EAGER_FIRST => {
                let (envelope, request, total) = (r.envelope()?, r.u32()?, r.u64()?);
                Self::EagerFirst { envelope, acknowledge: with_option.then_some(request), total, payload: r.0 }
            }
            EAGER_MORE => Self::EagerMore { payload: r.0 },
            RENDEZVOUS => {
                let (envelope, request, total, address) = (r.envelope()?, r.u32()?, r.u64()?, r.u64()?);
                Self::Rendezvous { envelope, request, total, address: with_option.then_some(address) }
            }
            EAGER_WRITE => Self::EagerWrite { envelope: r.envelope()?, request: r.u32()?, total: r.u64()? },
            CLEAR_TO_SEND => {
                Self::ClearToSend { request: r.u32()?, remote_key: r.u32()?, limit: r.u64()?, total: r.u64()? }
            }
            CLEAR_TO_PLACE => {
                let (request, remote_key, total) = (r.u32()?, r.u32()?, r.u64()?);
                let target = RemoteMemory { key: r.u64()?, address: r.u64()? };
                Self::ClearToPlace(Invitation { request, remote_key, total, target, with_fin: with_option })
            }
            PLACED => Self::Placed { remote_key: r.u32()?, offset: r.u64()?, length: r.u64()? },
            DATA => Self::Data { remote_key: r.u32()?, offset: r.u64()?, payload: r.0 },
            FIN => Self::Fin { request: r.u32()? },
            CREDIT => Self::Credit { bytes: r.u64()? },
            RETRACT => Self::Retract { context: r.u32()?, request: r.u32()? },
            RETRACTED => Self::Retracted { request: r.u32()?, forgotten: with_option },
            GIVEN_UP => {
                let (context, tag, class) = (r.u32()?, r.u32()? as i32, r.u32()?);
                Self::GivenUp { context, tag, class, finalized: r.u32()?.checked_sub(1) }
            }
            REVOKED => Self::Revoked { context: r.u32()? },
            kind => return Err(FrameError::UnknownKind(kind)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const ENVELOPE: Envelope = Envelope { context: 7, source: 3, tag: -9 };
    const INVITATION: Invitation = Invitation {
        request: 1,
        remote_key: 2,
        total: 3,
        target: RemoteMemory { key: u64::MAX, address: 1 << 47 },
        with_fin: true,
    };

    fn round_trip(head: Head, payload: &[u8]) -> Vec<u8> {
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn every_frame_survives_the_round_trip() {
        let cases = [
            (
                round_trip(Head::eager(ENVELOPE, Some(5)), b"abc"),
                Frame::Eager { envelope: ENVELOPE, acknowledge: Some(5), payload: b"abc" },
            ),
            (
                round_trip(Head::eager(ENVELOPE, None), b"defg"),
                Frame::Eager { envelope: ENVELOPE, acknowledge: None, payload: b"defg" },
            ),
            (
                round_trip(Head::eager_first(ENVELOPE, None, 99), b"x"),
                Frame::EagerFirst { envelope: ENVELOPE, acknowledge: None, total: 99, payload: b"x" },
            ),
            (round_trip(Head::eager_more(), b"yz"), Frame::EagerMore { payload: b"yz" }),
            (
                round_trip(Head::rendezvous(ENVELOPE, 1, 1 << 40, Some(77)), b""),
                Frame::Rendezvous { envelope: ENVELOPE, request: 1, total: 1 << 40, address: Some(77) },
            ),
            (
                round_trip(Head::eager_write(ENVELOPE, 1, 1 << 16), b""),
                Frame::EagerWrite { envelope: ENVELOPE, request: 1, total: 1 << 16 },
            ),
            (
                round_trip(Head::clear_to_send(1, 2, 3, 4), b""),
                Frame::ClearToSend { request: 1, remote_key: 2, limit: 3, total: 4 },
            ),
            (round_trip(Head::clear_to_place(&INVITATION), b""), Frame::ClearToPlace(INVITATION)),
            (round_trip(Head::placed(2, 1 << 33, 9), b""), Frame::Placed { remote_key: 2, offset: 1 << 33, length: 9 }),
            (round_trip(Head::data(2, 1 << 33), b"d"), Frame::Data { remote_key: 2, offset: 1 << 33, payload: b"d" }),
            (round_trip(Head::fin(8), b""), Frame::Fin { request: 8 }),
            (round_trip(Head::credit(1 << 20), b""), Frame::Credit { bytes: 1 << 20 }),
            (round_trip(Head::retract(7, 8), b""), Frame::Retract { context: 7, request: 8 }),
            (round_trip(Head::retracted(8, true), b""), Frame::Retracted { request: 8, forgotten: true }),
            (
                round_trip(Head::given_up(7, -9, 15, None), b""),
                Frame::GivenUp { context: 7, tag: -9, class: 15, finalized: None },
            ),
            (
                round_trip(Head::given_up(7, -9, 16, Some(0)), b""),
                Frame::GivenUp { context: 7, tag: -9, class: 16, finalized: Some(0) },
            ),
            (round_trip(Head::revoked(16), b""), Frame::Revoked { context: 16 }),
        ];
        for (bytes, frame) in cases {
            assert_eq!(Frame::parse(&bytes), Ok(frame));
            let whole = match frame {
                Frame::Eager { envelope, acknowledge: None, payload } => Some((envelope, payload)),
                _ => None,
            };
            assert_eq!(Frame::whole(&bytes), whole);
        }
    }

    #[test]
    fn a_frame_cut_anywhere_in_its_head_is_refused() {
        for head in
            [Head::eager(ENVELOPE, None), Head::rendezvous(ENVELOPE, 1, 2, None), Head::clear_to_send(1, 2, 3, 4)]
        {
            for length in 0..head.as_bytes().len() {
                assert_eq!(Frame::parse(&head.as_bytes()[..length]), Err(FrameError::Truncated));
                assert_eq!(Frame::whole(&head.as_bytes()[..length]), None);
            }
        }
        assert_eq!(Frame::parse(&[200, 0, 0, 0]), Err(FrameError::UnknownKind(200)));
    }
}
