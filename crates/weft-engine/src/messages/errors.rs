//! The errors that messages end with, and their sentences.

use weft_core::matching::Envelope;

use super::PeerAccess;
use crate::error::{Error, ErrorClass};
use crate::group::PeerId;
use crate::request::Status;

/// The error of an operation with a peer that is gone.
#[cold]
pub fn failure(peer: PeerId, peers: &impl PeerAccess) -> Error {
    if !peers.is_known(peer) {
        return Error::new(
            ErrorClass::ProcAborted,
            "a process that has left the job cannot be reached: stop talking to it",
        );
    }
    let state = peers.peer(peer);
    let reason = state.failed.as_deref().unwrap_or("it is gone");
    let host = state.host.as_ref().map_or_else(String::new, |host| format!(", on host {host},"));
    let number = peers.number(peer);
    Error::new(ErrorClass::ProcAborted, format!("process {number} of the job{host} cannot be reached: {reason}"))
}

#[cold]
pub(super) fn too_many() -> Error {
    Error::new(ErrorClass::NoMem, "too many requests are active (limit 16777216): complete some with MPI_Wait first")
}

#[cold]
pub(super) fn too_many_regions() -> Error {
    Error::new(
        ErrorClass::NoMem,
        "too many large messages are under way (limit 1048576): complete some with MPI_Wait first",
    )
}

pub(super) fn status_of(envelope: Envelope, bytes: u64) -> Status {
    Status { source: envelope.source as i32, tag: envelope.tag, error: 0, bytes, cancelled: false }
}

#[cold]
pub(super) fn truncated(envelope: Envelope, total: u64, capacity: u64) -> Error {
    let Envelope { source, tag, .. } = envelope;
    Error::new(
        ErrorClass::Truncate,
        format!(
            "message truncated: {total} bytes from rank {source} with tag {tag} do not fit the {capacity} bytes of the \
             receive buffer"
        ),
    )
}
