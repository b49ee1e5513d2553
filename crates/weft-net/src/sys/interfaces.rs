//! The network interfaces of this machine, with their addresses.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use super::check;

/// An address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
    /// Bytes of an IP packet, header included; 0 when the interface does not say.
    pub(crate) mtu: u32,
    /// Speed in Mb/s; 0 when the interface does not say.
    pub(crate) speed: u32,
    pub(crate) is_up: bool,
    pub(crate) has_carrier: bool,
    pub(crate) is_loopback: bool,
}

/// Returns all addresses of all interfaces of this network namespace, in the kernel's order.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `head` is a list that is ours until freeifaddrs.
    check(unsafe { libc::getifaddrs(&mut head) })?;
    let probe = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0"));
    let mut list = Vec::new();
    let mut next = head;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, not freed yet.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: both addresses are null or sockaddrs of the list, as long as their family says.
        let (ip, mask) = unsafe { (ip_of(entry.ifa_addr), ip_of(entry.ifa_netmask)) };
        let Some(ip) = ip else { continue };
        // SAFETY: the name of an entry is a terminated string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let has = |flag: libc::c_int| entry.ifa_flags & flag as u32 != 0;
        list.push(Interface {
            name: name.to_string_lossy().into_owned(),
            // SAFETY: `name` is a terminated string.
            index: unsafe { libc::if_nametoindex(name.as_ptr()) },
            ip,
            prefix: mask.map_or(0, prefix_of),
            mtu: probe.as_ref().ok().and_then(|socket| mtu(socket.as_fd(), name)).unwrap_or(0),
            speed: speed(&name.to_string_lossy()),
            is_up: has(libc::IFF_UP),
            has_carrier: has(libc::IFF_RUNNING),
            is_loopback: has(libc::IFF_LOOPBACK),
        });
    }
    // SAFETY: `head` came from getifaddrs and nothing above keeps a pointer into it.
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
    // SAFETY: not null, so at least the family can be read; then the type that the family names.
    unsafe {
        match libc::c_int::from((*address).sa_family) {
            libc::AF_INET => {
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be((*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                Some(IpAddr::V6(Ipv6Addr::from((*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

fn prefix_of(mask: IpAddr) -> u8 {
    let ones = match mask {
        IpAddr::V4(ip) => u32::from(ip).leading_ones(),
        IpAddr::V6(ip) => u128::from(ip).leading_ones(),
    };
    ones as u8
}

/// Returns the name of the interface with this index.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the call asks for.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    // SAFETY: the call succeeded, so there is a terminated string in the buffer.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// Returns the speed that the driver gives for the link, in Mb/s. Virtual interfaces give none, or an
/// invented one.
fn speed(interface: &str) -> u32 {
    let said = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed"));
    // The file has "-1" where the speed is not known.
    said.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn mtu(socket: BorrowedFd<'_>, name: &CStr) -> Option<u32> {
    // SAFETY: an ifreq of zeros is valid; the name is cut so that it stays terminated.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.to_bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name and writes the MTU of this ifreq.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) }).ok()?;
    // SAFETY: the call succeeded, so this member was written.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}
