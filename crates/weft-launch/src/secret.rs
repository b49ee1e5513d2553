//! The secret that only the processes of a job know. It cannot be printed by accident: neither `Debug` nor
//! `Display` shows it, and code that needs its bytes must call a function named for that.

use std::fmt;

/// Sixteen random bytes of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobSecret([u8; JobSecret::LENGTH]);

impl JobSecret {
    /// The length in bytes.
    pub const LENGTH: usize = 16;

    /// Makes a secret of these bytes.
    pub const fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Makes a secret of the bytes that `fill` writes.
    ///
    /// # Errors
    /// The errors of `fill`.
    pub fn filled<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut secret = [0; Self::LENGTH];
        fill(&mut secret)?;
        Ok(Self(secret))
    }

    /// The bytes, to derive keys from.
    pub const fn expose(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// The secret as hexadecimal digits, to be sent to processes of the job.
    pub fn expose_hex(&self) -> String {
        crate::wire::to_hex(&self.0)
    }

    /// Reads the digits that [`expose_hex`](Self::expose_hex) returns.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 2 * Self::LENGTH || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut secret = [0; Self::LENGTH];
        for (byte, digits) in secret.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(secret))
    }
}

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_sent_as_hexadecimal_digits_and_never_shown() {
        let secret = JobSecret::new([0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(JobSecret::from_hex(&secret.expose_hex()), Some(secret));
        assert_eq!(JobSecret::from_hex("00"), None);
        assert_eq!(JobSecret::from_hex(&"+1".repeat(16)), None);
        assert_eq!(format!("{secret:?} {:?}", Some(secret)), "JobSecret(..) Some(JobSecret(..))");
    }
}
