//! Accesses of an endpoint to memory of peers, which the provider writes and reads by itself.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ops::Range;

use weft_engine::memory::UserData;

use super::super::placement::call_of;
use super::Endpoint;
use crate::carrier::{Begun, Registration, RemoteMemory};
use weft_engine::regions::AccessKind;

impl Endpoint {
    /// Ends the access of this context, if it is one, and returns its kind.
    pub(super) fn end_access(&mut self, context: *mut c_void, succeeded: bool) -> Option<AccessKind> {
        let (to, access) = self.placing.as_mut()?.end(context, succeeded)?;
        let peer = self.peers.get_mut(to)?;
        peer.under_way = peer.under_way.saturating_sub(1);
        if !succeeded {
            peer.broken = true;
            self.broken += 1;
        }
        Some(access)
    }

    /// Returns whether the endpoint writes to memory of peers by itself, and reads it.
    pub(in crate::fabric) fn has_remote_memory(&self) -> bool {
        self.placing.is_some()
    }

    /// Lets peers access memory.
    pub(in crate::fabric) fn expose(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        let memory = (data.program_run(&(0..length))?, length as usize);
        let objects = (self.domain.0, self.ep.0);
        // SAFETY: both are open. The maker of `data` promised that its memory stays until the operation is
        // complete; the engine has the memory concealed before it reports that.
        unsafe { self.placing.as_mut()?.expose(objects, memory) }
    }

    /// Ends the exposure of memory: no access that begins from now on succeeds.
    pub(in crate::fabric) fn conceal(&mut self, exposure: Registration) {
        if let Some(placing) = &mut self.placing {
            placing.conceal(exposure);
        }
    }

    /// Starts an access to memory of a peer.
    pub(in crate::fabric) fn access(
        &mut self,
        to: u64,
        access: AccessKind,
        data: &UserData,
        range: Range<u64>,
        there: RemoteMemory,
        number: u64,
    ) -> Begun {
        let objects = (self.domain.0, self.ep.0);
        let (Some(placing), Some(peer)) = (&mut self.placing, self.peers.get_mut(to as usize)) else {
            return Begun::Never;
        };
        let Some(memory) = data.program_run(&range) else { return Begun::Never };
        let memory = (memory, (range.end - range.start) as usize);
        // SAFETY: both are open. As for `expose`: the operation is open until the engine has been told that
        // the access is complete.
        match unsafe { placing.start(objects, (to as usize, peer.name), access, memory, there, number) } {
            Some(0) => {
                peer.under_way += 1;
                Begun::Yes
            }
            None => Begun::NotNow,
            Some(code) if code == -(libc::EAGAIN as isize) => Begun::NotNow,
            Some(code) => {
                self.last_error = Some((call_of(access), code as i64));
                Begun::Never
            }
        }
    }

    /// Returns an access that is complete.
    #[inline]
    pub(in crate::fabric) fn poll_placed(&mut self) -> Option<u64> {
        self.placing.as_mut()?.poll()
    }
}
