//! Decides whether a request gets a packet socket, and makes that socket.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use weft_net::ethernet::{self, Filter};

use crate::{diag, sys};

/// Most sockets that a user may have at a time on this host: ranks times interfaces.
pub(crate) const USER_SOCKETS_MAX: usize = 1024;
/// Most ports that are tried when others have the first.
const PORTS_TRIED_MAX: usize = 8;

/// The sockets that are handed out.
pub(crate) struct Grant {
    pub(crate) socket: OwnedFd,
    /// The UDP socket that keeps the port from every process that asks the kernel for one.
    pub(crate) holder: UdpSocket,
    pub(crate) port: u16,
}

/// Makes a socket on the interface with this index for `user`. `allowed`: names of interfaces; empty: all.
///
/// # Errors
/// The reason why not, in a sentence for the user.
pub(crate) fn grant(interface: u32, user: u32, allowed: &[String]) -> Result<Grant, String> {
    let name = sys::interface_name(interface).ok_or(format!("there is no interface {interface} on this host"))?;
    if !allowed.is_empty() && !allowed.contains(&name) {
        return Err(format!("{name} is not among the interfaces it was started for"));
    }
    match ethernet::hardware_address(&name) {
        Ok(Some(_)) => {}
        Ok(None) => return Err(format!("{name} is not Ethernet")),
        Err(error) => return Err(format!("{name}: {error}")),
    }
    for _ in 0..PORTS_TRIED_MAX {
        let (holder, port) = ethernet::take_port().map_err(|error| format!("cannot take a port: {error}"))?;
        let filter = Filter { interface, port, user, groups: None };
        let socket = ethernet::open_filtered(&filter, true)
            .map_err(|error| format!("cannot open a packet socket on {name}: {error}"))?;
        let open =
            diag::filters().map_err(|error| format!("the kernel does not say which ports are taken: {error}"))?;
        match judge(&open, &filter)? {
            Verdict::Free => return Ok(Grant { socket, holder, port }),
            Verdict::Taken => {}
        }
    }
    Err(format!("{PORTS_TRIED_MAX} ports were all taken"))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Free,
    /// The port is taken: a process has kept a socket for this port longer than the port itself.
    Taken,
}

/// Judges a request. `open`: the filters of all packet sockets, the one for `own` included.
fn judge(open: &[Filter], own: &Filter) -> Result<Verdict, String> {
    if !open.contains(own) {
        return Err("the kernel does not show the filters of packet sockets, which needs CAP_NET_ADMIN".into());
    }
    if open.iter().filter(|filter| filter.user == own.user).count() > USER_SOCKETS_MAX {
        return Err(format!("user {} has {USER_SOCKETS_MAX} packet sockets already, which is the limit", own.user));
    }
    let same = open.iter().filter(|filter| filter.port == own.port).count();
    Ok(if same == 1 { Verdict::Free } else { Verdict::Taken })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Filter = Filter { interface: 2, port: 7, user: 1000, groups: None };

    #[test]
    fn a_port_goes_to_one_socket_whatever_the_interface_and_user() {
        let free = [OWN, Filter { port: 8, ..OWN }];
        assert_eq!(judge(&free, &OWN), Ok(Verdict::Free));
        for other in [OWN, Filter { interface: 3, ..OWN }, Filter { user: 0, ..OWN }] {
            assert_eq!(judge(&[OWN, other], &OWN), Ok(Verdict::Taken));
        }
    }

    #[test]
    fn a_user_has_a_limited_number_and_others_are_not_hurt_by_it() {
        let many: Vec<Filter> = (0..USER_SOCKETS_MAX as u16).map(|i| Filter { port: 100 + i, ..OWN }).collect();
        assert!(judge(&[&many[..], &[OWN]].concat(), &OWN).unwrap_err().contains("limit"));
        assert_eq!(judge(&[&many[1..], &[OWN]].concat(), &OWN), Ok(Verdict::Free));
        let other = Filter { user: 1001, ..OWN };
        assert_eq!(judge(&[&many[..], &[other]].concat(), &other), Ok(Verdict::Free));
    }

    #[test]
    fn who_cannot_see_its_own_socket_sees_nothing() {
        assert!(judge(&[], &OWN).unwrap_err().contains("CAP_NET_ADMIN"));
    }
}
