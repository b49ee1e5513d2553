//! Weft's open packet sockets on this host, found by their filters: sock_diag(7), linux/packet_diag.h.

use std::io;

use rustix::net::AddressFamily;
use weft_net::ethernet::Filter;

use crate::sys;

/// Most messages of the kernel's answer: some sockets each.
const ANSWERS_MAX: usize = 1 << 14;
/// Times that the question is asked anew because sockets came and went meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// linux/netlink.h, linux/sock_diag.h
const DUMP_REQUEST: u16 = 0x301;
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Flag: the list changed while it was made.
const INTERRUPTED: u16 = 0x10;
const HEAD: usize = 16;
/// struct packet_diag_msg, and the attribute with the filter.
const SOCKET: usize = 16;
const FILTER: u16 = 7;
/// PACKET_SHOW_FILTER
const SHOW_FILTER: u32 = 0x20;

/// Returns the filters of Weft among those of all packet sockets.
///
/// # Errors
/// The kernel lacks packet_diag, or the list never stood still.
pub(crate) fn filters() -> io::Result<Vec<Filter>> {
    let socket = sys::diag_socket()?;
    for _ in 0..ATTEMPTS_MAX {
        sys::send(&socket, &question())?;
        let mut list = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        let mut changed = false;
        for answer in 0.. {
            if answer == ANSWERS_MAX {
                return Err(io::Error::other("its list has no end"));
            }
            let length = sys::receive(&socket, &mut buffer)?;
            let part = parse(&buffer[..length], &mut list)?;
            changed |= part.changed;
            if part.done {
                break;
            }
        }
        if !changed {
            return Ok(list);
        }
    }
    Err(io::Error::other("its list never stood still"))
}

/// Makes the question, struct nlmsghdr and struct packet_diag_req: all packet sockets, with their filters.
fn question() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + 20);
    bytes.extend((HEAD as u32 + 20).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([AddressFamily::PACKET.as_raw() as u8, 0, 0, 0]);
    bytes.extend([0; 4]);
    bytes.extend(SHOW_FILTER.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    done: bool,
    changed: bool,
}

/// Reads the messages of an answer.
fn parse(mut bytes: &[u8], list: &mut Vec<Filter>) -> io::Result<Part> {
    let wrong = || io::Error::other("its answer makes no sense");
    let mut part = Part::default();
    while bytes.len() >= HEAD {
        let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let body = bytes.get(HEAD..length).ok_or_else(wrong)?;
        part.changed |= half(bytes, 6) & INTERRUPTED != 0;
        match half(bytes, 4) {
            BY_FAMILY => list.extend(body.get(SOCKET..).and_then(filter_among)),
            DONE => part.done = true,
            ERROR => {
                let code = body.first_chunk().ok_or_else(wrong)?;
                return Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(*code)));
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(part)
}

/// Returns the filter among the attributes of a socket, if it is Weft's.
fn filter_among(mut attributes: &[u8]) -> Option<Filter> {
    while attributes.len() >= 4 {
        let length = usize::from(half(attributes, 0));
        let value = attributes.get(4..length)?;
        if half(attributes, 2) == FILTER {
            return Filter::read(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEAD as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn answers_end_and_other_sockets_are_passed_over() {
        // A socket with an attribute of five bytes, and a socket with a filter that is not Weft's.
        let mut body = vec![0; SOCKET];
        body.extend([9, 0, 5, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
        body.extend([12, 0, 7, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        let mut list = Vec::new();
        let bytes = [message(BY_FAMILY, 0, &body), message(DONE, INTERRUPTED, &[0; 4])].concat();
        assert_eq!(parse(&bytes, &mut list).unwrap(), Part { done: true, changed: true });
        assert!(list.is_empty());
        let refused = message(ERROR, 0, &(-2_i32).to_ne_bytes());
        assert_eq!(parse(&refused, &mut list).unwrap_err().raw_os_error(), Some(2));
    }

    #[test]
    fn answers_cut_anywhere_end_as_well() {
        let whole = [message(BY_FAMILY, 0, &[7; 64]), message(DONE, 0, &[0; 4])].concat();
        for end in 0..whole.len() {
            let _ = parse(&whole[..end], &mut Vec::new());
            let mut short = whole.clone();
            short[0] = end as u8;
            let _ = parse(&short, &mut Vec::new());
        }
    }
}
