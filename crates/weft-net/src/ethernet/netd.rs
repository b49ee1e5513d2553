//! Packet sockets from `weft-netd`, the helper that has the privilege: its request, its answers, and the call
//! that asks it.
//!
//! ```text
//! request   0  "weftnet1"   8
//!           8  interface    4   its index, little-endian
//! granted   0  "weftnet1"   8   and two descriptors: the packet socket, the UDP socket that holds its port
//!           8  port         2   little-endian
//! refused   0  "weftnot1"   8
//!           8  a sentence   at most `REASON_MAX` bytes of UTF-8
//! ```
//!
//! A connection carries one request; the helper closes it behind its answer.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use crate::Error;
use crate::{descriptors, sys};

/// Path where the helper listens by default.
pub const SOCKET: &str = "/run/weft/netd.sock";
/// Bytes of a request.
pub const REQUEST_SIZE: usize = 12;
/// Most bytes of the sentence by which the helper refuses.
pub const REASON_MAX: usize = 200;
/// Longest time that the helper may take for each step.
const PATIENCE: Duration = Duration::from_secs(1);

const MAGIC: &[u8; 8] = b"weftnet1";
const REFUSED: &[u8; 8] = b"weftnot1";
const GRANTED_SIZE: usize = 10;

/// Returns the bytes that ask for a socket on the interface with this index.
pub fn request(interface: u32) -> [u8; REQUEST_SIZE] {
    let mut bytes = [0; REQUEST_SIZE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..].copy_from_slice(&interface.to_le_bytes());
    bytes
}

/// Returns the index of the interface that a request names; none when the bytes are no request.
pub fn parse_request(bytes: &[u8]) -> Option<u32> {
    let (magic, index) = bytes.split_first_chunk::<8>()?;
    (magic == MAGIC).then(|| index.try_into().ok().map(u32::from_le_bytes))?
}

/// Returns the bytes that go with the two descriptors.
pub fn granted(port: u16) -> [u8; GRANTED_SIZE] {
    let mut bytes = [0; GRANTED_SIZE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..].copy_from_slice(&port.to_le_bytes());
    bytes
}

/// Returns the bytes that refuse, with as much of the sentence as there is room for.
pub fn refused(reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(REASON_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    [REFUSED, &reason.as_bytes()[..end]].concat()
}

/// Returns the port that an answer grants.
///
/// # Errors
/// There is none: the helper's sentence says why.
pub fn parse_answer(bytes: &[u8]) -> Result<u16, String> {
    match bytes.split_first_chunk::<8>() {
        Some((MAGIC, &[low, high])) => Ok(u16::from_le_bytes([low, high])),
        Some((REFUSED, reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
        _ => Err("its answer makes no sense".into()),
    }
}

/// A socket and a port that the helper gives.
#[derive(Debug)]
pub struct Granted {
    /// A packet socket on the interface that gets the frames for `port`, and no others.
    pub socket: OwnedFd,
    /// The process's number on its host.
    pub port: u16,
    /// The UDP socket that keeps the port from every other process.
    pub holder: OwnedFd,
}

/// Asks the helper behind `path` for a socket on the interface with this index.
///
/// # Errors
/// The helper is not there, does not answer in time, or refuses: the sentence says which.
pub fn ask(path: &Path, interface: u32) -> Result<Granted, Error> {
    let unavailable = |why: String| Error::Unavailable(format!("weft-netd at {}: {why}", path.display()));
    let failed = |cause: io::Error| unavailable(cause.to_string());
    let mut stream = sys::connect_unix(path, PATIENCE).map_err(failed)?;
    stream.write_all(&request(interface)).map_err(failed)?;
    let mut bytes = [0; 8 + REASON_MAX];
    let (length, received) = descriptors::receive::<2>(&stream, &mut bytes).map_err(failed)?;
    let port = parse_answer(&bytes[..length]).map_err(unavailable)?;
    match <[OwnedFd; 2]>::try_from(received) {
        Ok([socket, holder]) => Ok(Granted { socket, port, holder }),
        Err(_) => Err(unavailable("its answer makes no sense".into())),
    }
}

/// Checks that a helper listens behind `path` and that this process may ask it.
///
/// # Errors
/// The reason why not.
pub fn listens(path: &Path) -> io::Result<()> {
    sys::connect_unix(path, PATIENCE).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_they_were_written() {
        assert_eq!(parse_request(&request(70_000)), Some(70_000));
        assert_eq!(parse_answer(&granted(0xfedc)), Ok(0xfedc));
        assert_eq!(parse_answer(&refused("nobody may")), Err("nobody may".into()));
        let long = "ä".repeat(REASON_MAX);
        assert_eq!(parse_answer(&refused(&long)), Err("ä".repeat(REASON_MAX / 2)));
    }

    #[test]
    fn what_is_cut_or_foreign_is_neither() {
        for end in 0..REQUEST_SIZE {
            assert_eq!(parse_request(&request(3)[..end]), None);
        }
        for end in 0..GRANTED_SIZE {
            assert!(parse_answer(&granted(3)[..end]).is_err());
        }
        assert_eq!(parse_request(&[0; REQUEST_SIZE]), None);
        assert_eq!(parse_request(&[&request(3)[..], b"x"].concat()), None);
    }
}
