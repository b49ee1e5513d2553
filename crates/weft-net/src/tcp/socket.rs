//! The system calls of the carrier that std lacks or makes otherwise: a connection that is made while the
//! caller goes on, sends without a signal, and receives straight into memory of the program. Linux:
//! socket(7), tcp(7).
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::ptr;

use weft_engine::memory::UserData;

use crate::sys::{SocketName, check, set_option};

/// Opens a listening socket on a free port of all addresses of this family.
pub(super) fn listen(any: &SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(any)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Begins to connect. The socket is writable when the connection is made, or has failed.
pub(super) fn connect(to: &SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(family, kind, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    let stream = unsafe { TcpStream::from_raw_fd(fd) };
    prepare(&stream)?;
    let (name, length) = SocketName::new(to);
    // SAFETY: the name is as long as said, and the kernel only reads it.
    match check(unsafe { libc::connect(fd, ptr::from_ref(&name).cast(), length) }) {
        Err(cause) if cause.raw_os_error() != Some(libc::EINPROGRESS) => Err(cause),
        _ => Ok(stream),
    }
}

/// Sends each packet at once, also a short one behind another that has not been acknowledged.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    set_option(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// Sends as many of these bytes as the kernel takes. A connection that is broken is an error, and no signal.
pub(super) fn send(stream: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: a message of zeros is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An `IoSlice` is an iovec (std promises the same layout); the kernel only reads it.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the message names the parts, which are borrowed until the call returns.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes: the first ones to `head`, the next ones to the bytes from `offset` on of `data`, at most
/// `length` of them, if there is a target, and the others to `buffer`. Returns the number of bytes; 0: the
/// peer sends no more.
pub(super) fn receive(
    stream: &TcpStream,
    head: &mut [u8],
    target: Option<(&UserData, u64, u64)>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 3];
    let mut count = 0;
    if !head.is_empty() {
        parts[0] = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() };
        count = 1;
    }
    if let Some((data, offset, length)) = target
        && let Some(start) = data.program_run(&(offset..offset + length))
    {
        parts[count] = libc::iovec { iov_base: start.cast(), iov_len: length as usize };
        count += 1;
    }
    parts[count] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: head and buffer are borrowed. The maker of `data` promised that its memory can be written until
    // its operation is over; the engine has the memory deregistered before that, and then it is no target.
    let received = unsafe { libc::readv(stream.as_raw_fd(), parts.as_ptr(), count as libc::c_int + 1) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}
