//! Endpoints of one provider on several interfaces, as one link. An address says through which of them it is reached, as with UDP the address
//! of the destination does.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::Fabric;
use crate::datagrams::{Address, Datagrams, Outcome, wrong_address};
use crate::{Error, watch};

/// A look is a system call, so an endpoint at which nothing was found for so many looks …
const QUIET: u32 = 256;
/// … is looked at once in so many. A power of two.
const QUIET_EVERY: u32 = 8;

/// Two or more endpoints.
pub struct FabricRails {
    endpoints: Vec<Fabric>,
    /// Looks in vain at each.
    in_vain: Vec<u32>,
    looks: u32,
    /// Readable when one of the endpoints' descriptors is; none where one has none.
    wake: Option<OwnedFd>,
    packet_size: usize,
}

impl FabricRails {
    /// One link of endpoints, at least one, in the order of their numbers.
    ///
    /// # Errors
    /// There are no descriptors left to sleep on.
    pub fn new(endpoints: Vec<Fabric>) -> Result<Self, Error> {
        let descriptors: Vec<RawFd> = endpoints.iter().map(Fabric::fd).collect();
        let can_sleep = endpoints.iter().all(Fabric::can_sleep);
        let wake = can_sleep.then(|| watch::any_of(&descriptors)).transpose();
        let wake = wake.map_err(|cause| Error::system("watch endpoints of libfabric", cause))?;
        let packet_size = endpoints.iter().map(Fabric::packet_size).max().unwrap_or(0);
        Ok(Self { in_vain: vec![0; endpoints.len()], looks: 0, wake, packet_size, endpoints })
    }

    fn of(&self, to: &Address) -> Option<&Fabric> {
        let Address::Fabric(to) = to else { return None };
        self.endpoints.get(usize::from(to.endpoint))
    }
}

/// Whether an endpoint is looked at in this pass.
fn is_due(in_vain: u32, looks: u32) -> bool {
    in_vain < QUIET || looks.is_multiple_of(QUIET_EVERY)
}

impl Datagrams for FabricRails {
    fn name(&self) -> &'static str {
        "fabric"
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Fabric(fabric) = to else { return Err(wrong_address()) };
        let endpoint = self.endpoints.get_mut(usize::from(fabric.endpoint)).ok_or_else(wrong_address)?;
        endpoint.send(to, packet)
    }

    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        self.looks = self.looks.wrapping_add(1);
        let (mut packets, count) = (0, self.endpoints.len());
        // Each look begins with another one, so that none goes short.
        let first = self.looks as usize % count.max(1);
        for place in (first..count).chain(0..first) {
            let in_vain = &mut self.in_vain[place];
            if packets >= limit || !is_due(*in_vain, self.looks) {
                continue;
            }
            let found = self.endpoints[place].receive(on_packet, limit - packets);
            *in_vain = if found > 0 { 0 } else { in_vain.saturating_add(1) };
            packets += found;
        }
        packets
    }

    fn fd(&self) -> RawFd {
        self.wake.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn arm(&mut self) -> bool {
        // Who is woken, or may not sleep, looks at all of them.
        self.in_vain.fill(0);
        self.endpoints.iter_mut().all(Datagrams::arm)
    }

    fn under_way(&self, to: &Address) -> usize {
        self.of(to).map_or(0, |endpoint| endpoint.under_way(to))
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.endpoints.iter_mut().find_map(Datagrams::take_broken)
    }

    fn rejected(&self) -> u64 {
        self.endpoints.iter().map(Datagrams::rejected).sum()
    }

    fn last_refusal(&self) -> Option<String> {
        self.endpoints.iter().find_map(Datagrams::last_refusal)
    }

    fn packet_size(&self) -> usize {
        self.packet_size
    }
}
