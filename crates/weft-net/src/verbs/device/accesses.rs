//! Accesses: memory that peers may access, and accesses to memory of peers.
#![allow(unsafe_code)]

use super::{ACCESSED, Device, OPERATIONS_RESERVED, number, post};
use crate::carrier::{Begun, Registration, RemoteMemory};
use crate::sys;
use crate::verbs::api::{IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, Send};
use crate::verbs::limits::{self};
use crate::verbs::pairing::{Event, State};
use std::io;
use std::ops::Range;
use std::ptr;
use weft_engine::memory::UserData;
use weft_engine::regions::AccessKind;

impl Device {
    /// Lets peers access memory.
    pub(in crate::verbs) fn expose(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        let memory = (data.program_run(&(0..length))?, length as usize);
        // SAFETY: the maker of `data` promised that its memory stays until the operation is complete. The
        // engine has the memory concealed before it reports that.
        let exposed = unsafe { self.placing.as_mut()?.expose(memory) };
        exposed.map_err(|error| self.note_registration(memory.1, &error)).ok()
    }

    pub(super) fn note_registration(&mut self, bytes: usize, error: &io::Error) {
        let why = limits::locked_memory(error.raw_os_error(), sys::locked_memory_max());
        let device = &self.device;
        self.last_error = Some(format!("{device} does not register {bytes} bytes (ibv_reg_mr): {error}{why}"));
    }

    /// Ends the exposure of memory: no access that begins from now on succeeds.
    pub(in crate::verbs) fn conceal(&mut self, exposure: Registration) {
        if let Some(placing) = &mut self.placing {
            placing.conceal(exposure);
        }
    }

    /// Starts an access to memory of a peer.
    pub(in crate::verbs) fn access(
        &mut self,
        to: usize,
        access: AccessKind,
        data: &UserData,
        range: Range<u64>,
        there: RemoteMemory,
        number_of_access: u64,
    ) -> Begun {
        let (Some(peer), Some(placing)) = (self.peers.get_mut(to), &mut self.placing) else { return Begun::Never };
        match peer.pair.state() {
            State::Ready if !peer.gone => {}
            State::Lost => return Begun::Never,
            State::Apart => {
                self.event(to, Event::Wanted, None);
                return Begun::NotNow;
            }
            _ => return Begun::NotNow,
        }
        let reserved = OPERATIONS_RESERVED.min(self.limits.operations / 2);
        if peer.operations >= self.limits.operations - reserved || !peer.says.is_empty() {
            return Begun::NotNow;
        }
        let Some(memory) = data.program_run(&range) else { return Begun::Never };
        let (Ok(remote_key), Ok(length)) = (u32::try_from(there.key), u32::try_from(range.end - range.start)) else {
            return Begun::Never;
        };
        // SAFETY: as for `expose`: the operation is open until the engine has been told that the access is
        // complete.
        let (index, mut piece) =
            match unsafe { placing.begin((to, number_of_access), access, (memory, length as usize)) } {
                Ok(Some(begun)) => begun,
                Ok(None) => return Begun::NotNow,
                Err(error) => {
                    self.note_registration(length as usize, &error);
                    return Begun::Never;
                }
            };
        let operation = if access == AccessKind::Write { IBV_WR_RDMA_WRITE } else { IBV_WR_RDMA_READ };
        let is_inline = access == AccessKind::Write && length as usize <= self.inline_max;
        let mut send = Send {
            id: number(ACCESSED, peer.epoch, index),
            next: ptr::null_mut(),
            pieces: &raw mut piece,
            count: 1,
            operation,
            flags: IBV_SEND_SIGNALED | if is_inline { IBV_SEND_INLINE } else { 0 },
            immediate: 0,
            remote_address: there.address,
            remote_key,
            unused: [0; 9],
        };
        // SAFETY: the pair is ready, so its identifier has a queue pair.
        if let Err(error) = unsafe { post(peer.id, &mut send) } {
            placing.end(index, false);
            return if error == libc::ENOMEM || error == libc::EAGAIN { Begun::NotNow } else { Begun::Never };
        }
        peer.operations += 1;
        peer.held += 1;
        self.clock += 1;
        peer.used = self.clock;
        Begun::Yes
    }

    /// Returns an access that is complete.
    #[inline]
    pub(in crate::verbs) fn poll_placed(&mut self) -> Option<u64> {
        self.placing.as_mut()?.poll()
    }
}
