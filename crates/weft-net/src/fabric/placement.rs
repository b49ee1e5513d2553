//! Memory of the program that a provider writes and reads by itself (`FI_RMA`): regions that are registered
//! for peers, and accesses under way.
//!
//! No registration outlives its operation: memory that the program frees and maps again gets another one, so
//! no registration can be stale. Providers for which registering is dear keep pages registered themselves,
//! and watch the program's memory for that (`FI_MR_CACHE_MONITOR`).
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::ffi::{c_int, c_void};
use std::hash::BuildHasher;
use std::ptr;

use weft_engine::regions::AccessKind;

use super::api::{
    Domain, Ep, FI_ENABLE, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ, FI_REMOTE_READ,
    FI_REMOTE_WRITE, FI_WRITE, Fid, Mr,
};
use super::packets::Packets;
use crate::carrier::{Registration, RemoteMemory};

/// Most regions that may be exposed at a time. A receive that finds no room among them is sent packets.
const EXPOSURES_MAX: usize = 4096;
/// Most keys that are tried for a region: a key that is taken already is a coincidence of 64 bits.
const KEYS_TRIED: u32 = 4;

/// Returns the name of the function that begins an access of this kind, for messages about its failures.
pub(super) const fn call_of(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Write => "fi_write",
        AccessKind::Read => "fi_read",
    }
}

/// An access under way.
#[derive(Clone, Copy)]
struct UnderWay {
    /// The caller's number of the access.
    number: u64,
    access: AccessKind,
    /// The peer's number.
    to: usize,
    /// The registration of this end's memory, where the provider needs one.
    registered: *mut Mr,
}

/// The accesses of an endpoint to memory of peers, and the memory that it exposes.
pub(super) struct Placing {
    registration: c_int,
    key_bytes: usize,
    exposures: Vec<*mut Mr>,
    free_exposures: Vec<u32>,
    keys: RandomState,
    keys_made: u64,
    /// A context for each access.
    contexts: Packets,
    under_way: Vec<Option<UnderWay>>,
    free: Vec<usize>,
    done: VecDeque<u64>,
}

impl Placing {
    /// Makes room for `accesses` accesses at a time. `registration` and `key_bytes`: what the provider says
    /// of registered memory.
    pub(super) fn new(accesses: usize, registration: c_int, key_bytes: usize) -> Self {
        Self {
            registration,
            key_bytes,
            exposures: Vec::new(),
            free_exposures: Vec::new(),
            keys: RandomState::new(),
            keys_made: 0,
            contexts: Packets::new(accesses, 0),
            under_way: vec![None; accesses],
            free: (0..accesses).collect(),
            done: VecDeque::new(),
        }
    }

    /// Returns a key that no process can guess, so that only a process that was told it reaches the memory.
    fn key(&mut self) -> u64 {
        self.keys_made += 1;
        let key = self.keys.hash_one(self.keys_made);
        if self.key_bytes < 8 { key & ((1 << (8 * self.key_bytes)) - 1) } else { key }
    }

    /// Registers memory.
    ///
    /// # Safety
    /// Domain and endpoint are open. The memory stays until the registration is closed.
    unsafe fn register(
        &mut self,
        (domain, ep): (*mut Domain, *mut Ep),
        memory: (*mut u8, usize),
        access: u64,
    ) -> *mut Mr {
        let mut made: *mut Mr = ptr::null_mut();
        for _ in 0..if self.registration & FI_MR_PROV_KEY != 0 { 1 } else { KEYS_TRIED } {
            let key = self.key();
            // SAFETY: as promised; the provider fills in what it makes.
            let code = unsafe {
                let reg = (*(*domain).mr).reg;
                reg(domain.cast(), memory.0.cast(), memory.1, access, 0, key, 0, &raw mut made, ptr::null_mut())
            };
            if code == 0 {
                break;
            }
            made = ptr::null_mut();
        }
        if !made.is_null() && self.registration & FI_MR_ENDPOINT != 0 {
            // SAFETY: the registration has just been made, and the endpoint is open.
            let bound = unsafe {
                let (fid, ops) = (made.cast::<Fid>(), (*made).fid.ops);
                ((*ops).bind)(fid, ep.cast(), 0) == 0 && ((*ops).control)(fid, FI_ENABLE, ptr::null_mut()) == 0
            };
            if !bound {
                close(made);
                return ptr::null_mut();
            }
        }
        made
    }

    /// Lets peers write to memory and read it. `None`: the provider does not register the memory now.
    ///
    /// # Safety
    /// As for [`Self::register`]: the memory stays until it is concealed.
    pub(super) unsafe fn expose(
        &mut self,
        objects: (*mut Domain, *mut Ep),
        memory: (*mut u8, usize),
    ) -> Option<(Registration, RemoteMemory)> {
        if self.free_exposures.is_empty() && self.exposures.len() == EXPOSURES_MAX {
            return None;
        }
        // SAFETY: as promised.
        let made = unsafe { self.register(objects, memory, FI_REMOTE_WRITE | FI_REMOTE_READ) };
        // SAFETY: the provider has made it, if it is not null.
        let key = unsafe { made.as_ref() }?.key;
        let address = if self.registration & FI_MR_VIRT_ADDR != 0 { memory.0 as u64 } else { 0 };
        let index = match self.free_exposures.pop() {
            Some(index) => {
                self.exposures[index as usize] = made;
                index
            }
            None => {
                self.exposures.push(made);
                self.exposures.len() as u32 - 1
            }
        };
        Some((Registration(index), RemoteMemory { key, address }))
    }

    /// Ends the exposure of memory: no access that begins from now on succeeds.
    pub(super) fn conceal(&mut self, Registration(index): Registration) {
        let Some(exposed) = self.exposures.get_mut(index as usize) else { return };
        let exposed = std::mem::replace(exposed, ptr::null_mut());
        if !exposed.is_null() {
            close(exposed);
            self.free_exposures.push(index);
        }
    }

    /// Starts an access to `there` of the peer `to`, which the provider calls `name`. Returns the provider's
    /// answer, or none if there is no room.
    ///
    /// # Safety
    /// As for [`Self::register`]: the memory stays until the access is complete, or its peer lost.
    pub(super) unsafe fn start(
        &mut self,
        (domain, ep): (*mut Domain, *mut Ep),
        (to, name): (usize, u64),
        access: AccessKind,
        memory: (*mut u8, usize),
        there: RemoteMemory,
        number: u64,
    ) -> Option<isize> {
        let index = self.free.pop()?;
        let mut registered = ptr::null_mut();
        if self.registration & FI_MR_LOCAL != 0 {
            let right = if access == AccessKind::Write { FI_WRITE } else { FI_READ };
            // SAFETY: as promised.
            registered = unsafe { self.register((domain, ep), memory, right) };
            if registered.is_null() {
                self.free.push(index);
                return Some(-(libc::ENOMEM as isize));
            }
        }
        // SAFETY: an open registration.
        let described = unsafe { registered.as_ref() }.map_or(ptr::null_mut(), |registered| registered.desc);
        let context = self.contexts.context(index);
        // SAFETY: the endpoint was opened for this, so it has these functions; the memory and the context
        // stay.
        let code = unsafe {
            let rma = &*(*ep).rma;
            let ((bytes, length), RemoteMemory { key, address }) = (memory, there);
            match access {
                AccessKind::Write => (rma.write)(ep, bytes.cast(), length, described, name, address, key, context),
                AccessKind::Read => (rma.read)(ep, bytes.cast(), length, described, name, address, key, context),
            }
        };
        if code == 0 {
            self.under_way[index] = Some(UnderWay { number, access, to, registered });
        } else {
            self.free.push(index);
            if !registered.is_null() {
                close(registered);
            }
        }
        Some(code)
    }

    /// Ends the access of this context, and returns its peer and its kind; none if the context is of no
    /// access.
    pub(super) fn end(&mut self, context: *mut c_void, succeeded: bool) -> Option<(usize, AccessKind)> {
        let index = self.contexts.index_of(context)?;
        let UnderWay { number, access, to, registered } = self.under_way[index].take()?;
        if !registered.is_null() {
            close(registered);
        }
        self.free.push(index);
        if succeeded {
            self.done.push_back(number);
        }
        Some((to, access))
    }

    /// Returns an access that is complete.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// Closes all registrations. To be called once the endpoint is closed.
    pub(super) fn close(&mut self) {
        let own = self.under_way.iter_mut().filter_map(|access| Some(access.take()?.registered));
        let all = self.exposures.drain(..).chain(own);
        all.filter(|registered| !registered.is_null()).for_each(close);
    }
}

fn close(registered: *mut Mr) {
    // SAFETY: an open registration, which the caller forgets.
    unsafe { ((*(*registered).fid.ops).close)(registered.cast()) };
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weft_engine::memory::UserData;

    use super::super::{Fabric, Settings, consider};
    use crate::carrier::{Address, Begun, Carrier, Outcome, RemoteMemory, RemoteMemoryAccess, receive_packets};

    const LIMIT: Duration = Duration::from_secs(20);
    const BYTES: usize = 1 << 20;

    /// Memory of the program, mapped at the same place as the memory before, if that place is free.
    struct Mapped(*mut u8);

    impl Mapped {
        fn new(wish: *mut u8) -> Self {
            // SAFETY: new memory, wherever there is room.
            let at = unsafe {
                let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                libc::mmap(wish.cast(), BYTES, rights, kind, -1, 0)
            };
            assert_ne!(at, libc::MAP_FAILED);
            Self(at.cast())
        }

        fn data(&self) -> UserData {
            // SAFETY: the memory stays mapped until this is dropped, and each test drops it after its last
            // use.
            unsafe { UserData::from_bytes(self.0, BYTES as u64) }
        }

        fn has(&self, byte: u8) -> bool {
            self.data().run(0, BYTES as u64).is_some_and(|bytes| bytes.iter().all(|other| *other == byte))
        }

        fn fill(&self, byte: u8) {
            self.data().write(0, &vec![byte; BYTES]);
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: it was mapped with this length.
            unsafe { libc::munmap(self.0.cast(), BYTES) };
        }
    }

    /// Opens two endpoints that place, and returns the address of the second; none where the provider has
    /// none.
    fn pair() -> Option<(Fabric, Fabric, Address)> {
        let settings = Settings { provider: Some("tcp".into()), interfaces: Some("lo".into()), ..Settings::default() };
        if !consider(&settings).is_ok_and(|found| found.chosen.is_ok() && found.placement.is_ok()) {
            eprintln!("left out: no provider that writes to memory of peers");
            return None;
        }
        let [mut near, mut far] = [(); 2].map(|()| Fabric::open(&settings).expect("an endpoint"));
        let (to, back) = (near.address_of(&far.endpoint_address()), far.address_of(&near.endpoint_address()));
        let (to, back) = (to.expect("an address"), back.expect("an address"));
        // The first packet makes the connection.
        let began = Instant::now();
        let (mut sent, mut arrived) = (false, 0);
        while arrived == 0 {
            assert!(began.elapsed() < LIMIT);
            sent = sent || matches!(near.send(&to, &[1; 100]), Ok(Outcome::Sent));
            receive_packets(&mut near, &mut |_| {}, 16);
            arrived += receive_packets(&mut far, &mut |_| {}, 16);
        }
        let _ = back;
        Some((near, far, to))
    }

    /// Waits until the access is complete, or the connection is broken, and returns whether it is complete.
    fn finish((near, far): (&mut Fabric, &mut Fabric), number: u64) -> bool {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < LIMIT, "an access does not end");
            receive_packets(near, &mut |_| {}, 16);
            receive_packets(far, &mut |_| {}, 16);
            if let Some(done) = near.poll_completion() {
                assert_eq!(done, number);
                return true;
            }
            if near.take_broken().is_some() {
                return false;
            }
        }
    }

    fn start(near: &mut Fabric, to: &Address, data: &UserData, there: RemoteMemory, number: u64, reads: bool) {
        let (began, all) = (Instant::now(), 0..BYTES as u64);
        loop {
            assert!(began.elapsed() < LIMIT);
            let begun = match reads {
                true => near.read(to, data, all.clone(), there, number),
                false => near.write(to, data, all.clone(), there, number),
            };
            match begun {
                Begun::Yes => return,
                Begun::NotNow => _ = receive_packets(near, &mut |_| {}, 16),
                Begun::Never => panic!("{:?}", near.diagnostics().last_refusal),
            }
        }
    }

    /// Memory is written and read, freed, and mapped again at the same place, several times.   Expect:
    /// written bytes are in the memory that is there now, and an earlier key leads nowhere.
    #[test]
    fn memory_that_was_freed_and_mapped_again_is_written_and_an_earlier_key_leads_nowhere() {
        let Some((mut near, mut far, to)) = pair() else { return };
        let source = Mapped::new(std::ptr::null_mut());
        let (mut index, mut earlier) = (std::ptr::null_mut(), None);
        for round in 1..20_u8 {
            let there = Mapped::new(index);
            index = there.0;
            let (exposure, target) = far.register(&there.data(), BYTES as u64).expect("a registration");
            assert_ne!(Some(target.key), earlier.map(|earlier: RemoteMemory| earlier.key));
            source.fill(round);
            start(&mut near, &to, &source.data(), target, round.into(), false);
            assert!(finish((&mut near, &mut far), round.into()));
            let began = Instant::now();
            while !there.has(round) {
                assert!(began.elapsed() < LIMIT, "what was written does not arrive");
                receive_packets(&mut far, &mut |_| {}, 16);
            }
            there.fill(!round);
            start(&mut near, &to, &source.data(), target, 1000, true);
            assert!(finish((&mut near, &mut far), 1000));
            assert!(source.has(!round), "what was read is what was there");
            far.deregister(exposure);
            earlier = Some(target);
        }
        let there = Mapped::new(index);
        there.fill(7);
        start(&mut near, &to, &source.data(), earlier.expect("a key"), 2000, false);
        // The provider may report the access only once it finds the connection closed.
        finish((&mut near, &mut far), 2000);
        (0..100).for_each(|_| _ = receive_packets(&mut far, &mut |_| {}, 16));
        assert!(there.has(7), "memory that is exposed no more was written");
    }
}
