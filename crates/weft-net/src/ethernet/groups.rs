//! Multicast groups on Ethernet: addresses that the interface listens to, and a number in place of the port,
//! which all processes of a job derive from its secret.
//!
//! Bridges that snoop on IGMP and MLD do not know these addresses, and pass such frames on to every port.

use std::io;

use crate::carrier::EthernetAddress;

/// Most groups that a process joins: an interface that listens to many addresses hears everything.
const GROUPS_MAX: usize = 20;

/// The groups that this process has joined.
#[derive(Default)]
pub(super) struct Groups {
    joined: Vec<EthernetAddress>,
}

/// Returns the address of group `group` of job `job`: an address that only the owner of the network
/// administers (IEEE Std 802-2014 §8.2.2).
pub(super) fn address(job: u64, group: u64) -> EthernetAddress {
    let [a, b, c, d, e, ..] = (job.rotate_left(31) ^ group).to_le_bytes();
    EthernetAddress { mac: [3, a, b, c, d, e], port: job as u16 }
}

impl Groups {
    /// Joins a group. `pass` makes the filter pass the group's frames, and `listen` makes the interface take
    /// frames to the group's address.
    pub(super) fn join(
        &mut self,
        group: &EthernetAddress,
        pass: impl FnOnce() -> io::Result<()>,
        listen: impl FnOnce([u8; 6]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.joined.contains(group) {
            return Ok(());
        }
        match self.joined.first() {
            _ if self.joined.len() >= GROUPS_MAX => {
                return Err(io::Error::other(format!("a process joins no more than {GROUPS_MAX} groups")));
            }
            Some(other) if other.port != group.port => return Err(io::ErrorKind::InvalidInput.into()),
            Some(_) => {}
            None => pass()?,
        }
        listen(group.mac)?;
        self.joined.push(*group);
        Ok(())
    }

    /// Leaves a group, and returns whether it had been joined.
    pub(super) fn leave(&mut self, group: &EthernetAddress) -> bool {
        let before = self.joined.len();
        self.joined.retain(|joined| joined != group);
        self.joined.len() < before
    }

    /// Returns whether a frame came to the address of a joined group.
    #[inline]
    pub(super) fn has_joined(&self, frame: &[u8]) -> bool {
        self.joined.iter().any(|group| frame.starts_with(&group.mac))
    }

    /// Returns the number that frames of groups have in place of a port.
    #[inline]
    pub(super) fn port(&self) -> u16 {
        self.joined.first().map_or(0, |group| group.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_job_have_addresses_of_their_own_and_one_number() {
        let mut seen = std::collections::HashSet::new();
        for group in 0..100_u64 {
            let address = address(77, group.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert!(address.mac[0] & 3 == 3 && address.port == 77 && seen.insert(address.mac), "{address}");
        }
    }

    #[test]
    fn a_group_is_joined_once_and_what_comes_to_others_is_told_apart() {
        let (one, other) = (address(77, 1), address(77, 2));
        let mut groups = Groups::default();
        let mut heard = Vec::new();
        for group in [one, one, other] {
            groups
                .join(
                    &group,
                    || Ok(()),
                    |mac| {
                        heard.push(mac);
                        Ok(())
                    },
                )
                .unwrap();
        }
        assert_eq!(heard, [one.mac, other.mac]);
        assert!(groups.join(&address(78, 1), || Ok(()), |_| Ok(())).is_err(), "another job's number");
        assert!(groups.leave(&one) && !groups.leave(&one));
        assert!(groups.has_joined(&other.mac) && !groups.has_joined(&one.mac) && groups.port() == 77);
    }

    #[test]
    fn a_filter_that_is_locked_keeps_this_process_out() {
        let mut groups = Groups::default();
        let refused = groups.join(&address(77, 1), || Err(io::ErrorKind::PermissionDenied.into()), |_| Ok(()));
        assert!(refused.is_err() && !groups.leave(&address(77, 1)));
    }
}
