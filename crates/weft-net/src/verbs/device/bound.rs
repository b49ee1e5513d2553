//! The way from an address of this machine to a device, and the port where the device listens.

use std::ffi::c_int;
use std::io;
use std::net::SocketAddr;
use std::ptr;

use super::super::api::{CmId, Context, EventChannel, Library, RDMA_PS_TCP, text};
use super::{failed, socket_address};

/// Requests for connections that the kernel keeps.
const BACKLOG: c_int = 1024;
/// Most ports that are tried for listening.
const PORTS_TRIED_MAX: usize = 64;

/// Returns the interface of an address that only its link has; 0 for any other address.
pub(super) fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// An identifier that is bound to an address of this machine, and so to a device.
pub(in crate::verbs) struct Bound {
    pub(super) library: &'static Library,
    pub(super) address: SocketAddr,
    pub(super) channel: *mut EventChannel,
    pub(super) id: *mut CmId,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: an identifier or channel that is not null is open, and no other code closes it.
        unsafe {
            if !self.id.is_null() {
                (self.library.destroy_id)(self.id);
            }
            if !self.channel.is_null() {
                (self.library.destroy_event_channel)(self.channel);
            }
        }
    }
}

impl Bound {
    /// Finds the device behind an address of this machine. The error says why there is none.
    pub(in crate::verbs) fn new(library: &'static Library, address: SocketAddr) -> Result<Self, String> {
        let mut this = Self { library, address, channel: ptr::null_mut(), id: ptr::null_mut() };
        // SAFETY: no memory is involved.
        this.channel = unsafe { (library.create_event_channel)() };
        if this.channel.is_null() {
            return Err(failed("rdma_create_event_channel"));
        }
        this.id = this.identifier()?;
        Ok(this)
    }

    /// Makes an identifier that is bound to the address, with a port that the kernel chooses.
    pub(super) fn identifier(&self) -> Result<*mut CmId, String> {
        let (library, ip) = (self.library, self.address.ip());
        let mut address = socket_address((ip, 0).into(), scope_of(self.address));
        let mut id = ptr::null_mut();
        // SAFETY: the arguments live while the calls run, and the channel as long as its identifiers.
        unsafe {
            if (library.create_id)(self.channel, &raw mut id, ptr::null_mut(), RDMA_PS_TCP) != 0 {
                return Err(failed("rdma_create_id"));
            }
            let why = if (library.bind_addr)(id, (&raw mut address).cast()) != 0 {
                failed(&format!("rdma_bind_addr to {ip}"))
            } else if (*id).verbs.is_null() {
                format!("no RDMA device has the address {ip}")
            } else {
                return Ok(id);
            };
            (library.destroy_id)(id);
            Err(why)
        }
    }

    /// Accepts connections from now on, and returns the port. The ports of iWARP are those of TCP, and the
    /// kernel's RDMA CM chooses one without asking whether TCP uses it: then another one is tried. No peer
    /// has been told of the port before.
    pub(super) fn listen(&mut self) -> Result<u16, String> {
        // Each identifier keeps its port, so that the next one gets another.
        let mut taken = Vec::new();
        let outcome = loop {
            // SAFETY: the identifier is bound; its port is read while it is open.
            unsafe {
                if (self.library.listen)(self.id, BACKLOG) == 0 {
                    break Ok(u16::from_be((self.library.get_src_port)(self.id)));
                }
            }
            let is_taken = io::Error::last_os_error().kind() == io::ErrorKind::AddrInUse;
            let why = failed("rdma_listen");
            if !is_taken || taken.len() == PORTS_TRIED_MAX {
                break Err(why);
            }
            match self.identifier() {
                Ok(id) => taken.push(std::mem::replace(&mut self.id, id)),
                Err(why) => break Err(why),
            }
        };
        // SAFETY: each identifier was made here, and nothing else has it. The one that listens keeps the
        // device open, which they share.
        taken.into_iter().for_each(|id| unsafe {
            (self.library.destroy_id)(id);
        });
        outcome
    }

    pub(super) fn context(&self) -> *mut Context {
        // SAFETY: the identifier is open, and bound to a device.
        unsafe { (*self.id).verbs }
    }

    /// Returns the device's name and its port.
    pub(in crate::verbs) fn device(&self) -> (String, u8) {
        // SAFETY: as above; names end with a zero.
        unsafe { (text((*(*self.context()).device).name.as_ptr()), (*self.id).port) }
    }
}
