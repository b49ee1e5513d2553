//! The first lines of a connection between a task and the first task, before either knows the other.
//!
//! ```text
//! task:   weft-step/1 12.0 3 CHALLENGE     its step, its rank, a random number
//! server: CHALLENGE CREDENTIAL             a random number, and a credential of MUNGE that holds
//!                                          `weft-step/1 12.0 SECRET`
//! ```
//!
//! Only processes of the same user can read the credential. Then each side proves by a sealed frame that it
//! knows the secret.

use super::sealed::Challenge;
use crate::{JobSecret, wire};

/// The first word, with the version of all that follows.
const HEAD: &str = "weft-step/1";
/// The most bytes of a task's first line.
pub(super) const HELLO_MAX: usize = 128;
/// The most bytes of the server's first line.
pub(super) const OFFER_MAX: usize = 4096;

/// The first line of the task with this rank.
pub(super) fn hello(step: &str, rank: u32, challenge: &Challenge) -> String {
    format!("{HEAD} {step} {rank} {}\n", wire::to_hex(challenge))
}

/// Reads the first line of a task of `step`, without its newline. `None`: it is no task of this step.
pub(super) fn read_hello(line: &[u8], step: &str, size: u32) -> Option<(u32, Challenge)> {
    let words: Vec<&str> = std::str::from_utf8(line).ok()?.split(' ').collect();
    let [head, named, rank, challenge] = words[..] else { return None };
    let rank = rank.parse().ok().filter(|&rank| rank < size)?;
    (head == HEAD && named == step).then_some((rank, read_challenge(challenge)?))
}

/// The first line of the server.
pub(super) fn offer(challenge: &Challenge, credential: &str) -> String {
    format!("{} {credential}\n", wire::to_hex(challenge))
}

/// Reads the first line of the server, without its newline: its challenge and the credential.
pub(super) fn read_offer(line: &[u8]) -> Option<(Challenge, &str)> {
    let (challenge, credential) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((read_challenge(challenge)?, credential.trim()))
}

/// The content of the credential.
pub(super) fn content(step: &str, secret: &JobSecret) -> String {
    format!("{HEAD} {step} {}", secret.expose_hex())
}

/// Reads the content of a credential. `None`: it is none of this step.
pub(super) fn read_content(text: &str, step: &str) -> Option<JobSecret> {
    let words: Vec<&str> = text.split(' ').collect();
    let [head, named, secret] = words[..] else { return None };
    JobSecret::from_hex(secret).filter(|_| head == HEAD && named == step)
}

/// A challenge is as long as a secret, and is written like one.
fn read_challenge(text: &str) -> Option<Challenge> {
    JobSecret::from_hex(text).map(|challenge| *challenge.expose())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_read_as_they_are_written() {
        let (own, other) = ([7; 16], [9; 16]);
        let line = hello("12.0", 3, &own);
        assert!(line.len() <= HELLO_MAX && hello("4294967295.4294967295", u32::MAX, &own).len() <= HELLO_MAX);
        assert_eq!(read_hello(line.trim_end().as_bytes(), "12.0", 4), Some((3, own)));
        assert_eq!(read_offer(offer(&other, "MUNGE:AwQ=:").trim_end().as_bytes()), Some((other, "MUNGE:AwQ=:")));
        let secret = JobSecret::new([5; 16]);
        assert_eq!(read_content(&content("12.0", &secret), "12.0"), Some(secret));
    }

    #[test]
    fn others_are_refused() {
        let line = hello("12.0", 3, &[7; 16]);
        let line = line.trim_end();
        assert_eq!(read_hello(line.as_bytes(), "12.1", 4), None, "another step");
        assert_eq!(read_hello(line.as_bytes(), "12.0", 3), None, "a rank that the step has not");
        for line in
            ["", "GET / HTTP/1.1", "weft-step/2 12.0 3 07", &line[..line.len() - 1], &line.replace(" 3 ", " -1 ")]
        {
            assert_eq!(read_hello(line.as_bytes(), "12.0", 4), None, "{line}");
        }
        assert_eq!(read_hello(&[0xff; 60], "12.0", 4), None);
        assert_eq!(read_offer(b"SSH-2.0-OpenSSH_9.2p1"), None);
        assert_eq!(read_content("weft-step/1 12.0 07", "12.0"), None);
        assert_eq!(read_content(&content("12.0", &JobSecret::new([5; 16])), "13.0"), None);
    }
}
