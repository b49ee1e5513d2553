//! The addresses of this host.

use super::check;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// An address of a network interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    pub(crate) is_loopback: bool,
}

/// All addresses of all interfaces of this network namespace that are up, in the kernel's order.
///
/// # Errors
/// An error of the system.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `head` is a list that is ours until freeifaddrs.
    check(unsafe { libc::getifaddrs(&mut head) })?;
    let mut list = Vec::new();
    let mut next = head;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, not freed yet.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let has = |flag: libc::c_int| entry.ifa_flags & flag as u32 != 0;
        // SAFETY: the address is null or a sockaddr of the list, as long as its family says.
        let ip = unsafe { ip_of(entry.ifa_addr) };
        if let Some(ip) = ip.filter(|_| has(libc::IFF_UP)) {
            // SAFETY: the name of an entry is a terminated string.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            list.push(Interface { name, ip, is_loopback: has(libc::IFF_LOOPBACK) });
        }
    }
    // SAFETY: `head` came from getifaddrs, and nothing above keeps a pointer into it.
    unsafe { libc::freeifaddrs(head) };
    Ok(list)
}

/// Returns the IP address behind a pointer; none for another family.
///
/// # Safety
/// `address` is null or points to a sockaddr that is as large as its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, so the family can be read; then the type that the family names.
    unsafe {
        match libc::c_int::from((*address).sa_family) {
            libc::AF_INET => {
                let found = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(found))))
            }
            libc::AF_INET6 => {
                let found = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                Some(IpAddr::V6(Ipv6Addr::from(found)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_an_address_to_itself() {
        let found = interfaces().expect("a list");
        assert!(found.iter().all(|interface| interface.is_loopback || !interface.ip.is_loopback()));
    }
}
