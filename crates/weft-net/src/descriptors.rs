//! Descriptors that one process hands to another over a unix socket, and the user at the other end: unix(7).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use crate::sys::check;

/// A control message with descriptors (SCM_RIGHTS), laid out as cmsg(3) does.
#[repr(C)]
struct Rights<const N: usize> {
    head: libc::cmsghdr,
    descriptors: [RawFd; N],
}

impl<const N: usize> Rights<N> {
    /// Bytes of the message without padding behind it: there must be no room for another descriptor.
    const BYTES: usize = size_of::<libc::cmsghdr>() + size_of::<[RawFd; N]>();
}

/// Sends bytes, and with them the descriptors, to the socket's other end, without waiting.
///
/// # Errors
/// Those of sendmsg(2).
pub fn send<const N: usize>(socket: &impl AsRawFd, bytes: &[u8], descriptors: [BorrowedFd<'_>; N]) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: a cmsghdr of zeros is valid.
    let head = unsafe { std::mem::zeroed() };
    let mut control = Rights { head, descriptors: descriptors.map(|fd| fd.as_raw_fd()) };
    control.head.cmsg_len = Rights::<N>::BYTES as _;
    control.head.cmsg_level = libc::SOL_SOCKET;
    control.head.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: a header of zeros is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(&mut control).cast();
    header.msg_controllen = Rights::<N>::BYTES as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: everything the header points to lives until the call returns; the kernel only reads.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &header, flags) } as libc::c_int)
}

/// Receives bytes, and the descriptors that came with them. The kernel closes descriptors beyond `N`.
///
/// # Errors
/// Those of recvmsg(2).
pub fn receive<const N: usize>(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a control message of zeros is valid, and has no contents.
    let mut control: Rights<N> = unsafe { std::mem::zeroed() };
    // SAFETY: a header of zeros is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(&mut control).cast();
    header.msg_controllen = Rights::<N>::BYTES as _;
    // SAFETY: everything the header points to lives until the call returns.
    let length = unsafe { libc::recvmsg(stream.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
    check(length as libc::c_int)?;
    let head = size_of::<libc::cmsghdr>();
    let is_rights = header.msg_controllen as usize >= head
        && (control.head.cmsg_level, control.head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    let count = if is_rights { (control.head.cmsg_len as usize - head) / size_of::<RawFd>() } else { 0 };
    // SAFETY: the kernel has put so many new descriptors there, and no other value owns them.
    let owned = |&fd: &RawFd| unsafe { OwnedFd::from_raw_fd(fd) };
    Ok((length as usize, control.descriptors.iter().take(count).map(owned).collect()))
}

/// Returns the user at the other end, as it was at the connection: SO_PEERCRED.
///
/// # Errors
/// Those of getsockopt(2).
pub fn user(stream: &UnixStream) -> io::Result<u32> {
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
        send(&near, &[1], [other.as_fd(), near.as_fd(), far.as_fd()]).unwrap();
        let (length, received) = receive::<3>(&far, &mut [0]).unwrap();
        let [received, ..] = <[OwnedFd; 3]>::try_from(received).unwrap();
        assert_eq!(length, 1);
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
        assert!(matches!(receive::<3>(&far, &mut [0]), Ok((1, none)) if none.is_empty()));
        drop(near);
        assert!(matches!(receive::<3>(&far, &mut [0]), Ok((0, none)) if none.is_empty()), "closed");
    }

    #[test]
    fn more_than_were_asked_for_are_closed() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        // Three descriptors leave padding that a fourth would fit into.
        send(&near, &[1], [near.as_fd(), near.as_fd(), near.as_fd(), other.as_fd()]).unwrap();
        drop(other);
        let (_, received) = receive::<3>(&far, &mut [0]).unwrap();
        assert_eq!(received.len(), 3);
        assert_eq!(one.read(&mut [0]).unwrap(), 0, "nobody has the fourth");
    }
}
