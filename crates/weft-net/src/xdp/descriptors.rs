//! Descriptors handed from one process to another over a unix socket: unix(7), SCM_RIGHTS.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use crate::sys::check;

/// Descriptors that travel together.
pub(super) const COUNT: usize = 3;

/// A control message, laid out as cmsg(3) does.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    descriptors: [RawFd; COUNT],
    _padding: RawFd,
}

/// Bytes of a control message without its padding.
const CONTROL_BYTES: usize = size_of::<libc::cmsghdr>() + size_of::<[RawFd; COUNT]>();

/// Sends one byte, and with it the descriptors.
pub(super) fn send(stream: &UnixStream, descriptors: [BorrowedFd<'_>; COUNT]) -> io::Result<()> {
    let mut byte = 1_u8;
    let mut vector = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
    // SAFETY: a cmsghdr of zeros is valid.
    let head = unsafe { std::mem::zeroed() };
    let mut control = Control { head, descriptors: descriptors.map(|fd| fd.as_raw_fd()), _padding: 0 };
    control.head.cmsg_len = CONTROL_BYTES as _;
    control.head.cmsg_level = libc::SOL_SOCKET;
    control.head.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: a header of zeros is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(&mut control).cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: everything the header points to lives until the call returns; the kernel only reads.
    check(unsafe { libc::sendmsg(stream.as_raw_fd(), &header, libc::MSG_NOSIGNAL) } as libc::c_int)
}

/// Receives the descriptors; none when the other side has closed, or has sent something else.
pub(super) fn receive(stream: &UnixStream) -> io::Result<Option<[OwnedFd; COUNT]>> {
    let mut byte = 0_u8;
    let mut vector = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
    // SAFETY: a control message of zeros is valid: it says nothing.
    let mut control: Control = unsafe { std::mem::zeroed() };
    // SAFETY: a header of zeros is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(&mut control).cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: everything the header points to lives until the call returns.
    let length = unsafe { libc::recvmsg(stream.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
    check(length as libc::c_int)?;
    let head = size_of::<libc::cmsghdr>();
    let is_rights = header.msg_controllen as usize >= head
        && (control.head.cmsg_level, control.head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    let count = if is_rights { (control.head.cmsg_len as usize - head) / size_of::<RawFd>() } else { 0 };
    // SAFETY: the kernel has put so many new descriptors there, and nobody else has them.
    let owned = |&fd: &RawFd| unsafe { OwnedFd::from_raw_fd(fd) };
    let received: Vec<OwnedFd> = control.descriptors.iter().take(count).map(owned).collect();
    Ok(if length == 1 { received.try_into().ok() } else { None })
}

/// The user on the other side.
pub(super) fn user(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of_val(&peer) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the value is a ucred, and the size says so.
    check(unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, ptr::from_mut(&mut peer).cast(), &mut size) })?;
    Ok(peer.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_arrive_and_are_what_they_were() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        send(&near, [other.as_fd(), near.as_fd(), far.as_fd()]).unwrap();
        let [received, ..] = receive(&far).unwrap().unwrap();
        drop(other);
        UnixStream::from(received).write_all(b"hello").unwrap();
        let mut text = String::new();
        one.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert_eq!(user(&far).unwrap(), crate::sys::user());
    }

    #[test]
    fn bytes_alone_bring_nothing() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&[1]).unwrap();
        assert!(receive(&far).unwrap().is_none());
        drop(near);
        assert!(receive(&far).unwrap().is_none(), "closed");
    }
}
