//! Endpoints of one provider on several interfaces, as a single link. A peer's address says through which
//! endpoint the peer is reached, as the address of the destination does for UDP.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::Fabric;
use crate::carrier::{
    Address, Arrival, Carrier, CarrierAttributes, Delivery, Diagnostics, Look, Outcome, send_one_by_one, wrong_address,
};
use crate::{Error, watch};

/// Looks in vain at an endpoint after which it is looked at less often, since each look is a system call.
const QUIET: u32 = 256;
/// Number of looks in which an endpoint without arrivals is looked at once. A power of two.
const QUIET_EVERY: u32 = 8;

/// Two or more endpoints, as a single link.
pub struct FabricRails {
    endpoints: Vec<Fabric>,
    /// Looks in vain at each endpoint.
    in_vain: Vec<u32>,
    looks: u32,
    /// Descriptor that is readable when the descriptor of one of the endpoints is; none where an endpoint has
    /// none.
    _wake: Option<OwnedFd>,
    attributes: CarrierAttributes,
}

impl FabricRails {
    /// Makes a link of endpoints, at least one, in the order of their numbers.
    ///
    /// # Errors
    /// There are no descriptors left to sleep on.
    pub fn new(endpoints: Vec<Fabric>) -> Result<Self, Error> {
        let descriptors: Option<Vec<RawFd>> =
            endpoints.iter().map(|endpoint| endpoint.attributes().descriptor).collect();
        let wake = descriptors.map(|descriptors| watch::any_of(&descriptors)).transpose();
        let wake = wake.map_err(|cause| Error::system("watch endpoints of libfabric", cause))?;
        let packet_size = endpoints.iter().map(|endpoint| endpoint.attributes().packet_size).max().unwrap_or(0);
        let attributes = CarrierAttributes {
            delivery: endpoints.first().map_or(Delivery::Unreliable, |first| first.attributes().delivery),
            descriptor: wake.as_ref().map(AsRawFd::as_raw_fd),
            // A key would have to hold the keys of all endpoints.
            remote_memory: None,
            ..CarrierAttributes::packets("fabric", packet_size, Look::SystemCall)
        };
        Ok(Self { in_vain: vec![0; endpoints.len()], looks: 0, _wake: wake, attributes, endpoints })
    }

    fn of(&self, to: &Address) -> Option<&Fabric> {
        let Address::Fabric(to) = to else { return None };
        self.endpoints.get(usize::from(to.endpoint))
    }
}

/// Returns whether an endpoint is looked at in this pass.
fn is_due(in_vain: u32, looks: u32) -> bool {
    in_vain < QUIET || looks.is_multiple_of(QUIET_EVERY)
}

impl Carrier for FabricRails {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Fabric(fabric) = to else { return Err(wrong_address()) };
        let endpoint = self.endpoints.get_mut(usize::from(fabric.endpoint)).ok_or_else(wrong_address)?;
        endpoint.send(to, packet)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.looks = self.looks.wrapping_add(1);
        let (mut packets, count) = (0, self.endpoints.len());
        // Each look begins with another endpoint, so that none goes short.
        let first = self.looks as usize % count.max(1);
        for rail in (first..count).chain(0..first) {
            let in_vain = &mut self.in_vain[rail];
            if packets >= limit || !is_due(*in_vain, self.looks) {
                continue;
            }
            let found = self.endpoints[rail].receive(on_arrival, limit - packets);
            *in_vain = if found > 0 { 0 } else { in_vain.saturating_add(1) };
            packets += found;
        }
        packets
    }

    fn prepare_sleep(&mut self) -> bool {
        // A caller that was woken, or may not sleep, looks at all endpoints.
        self.in_vain.fill(0);
        self.endpoints.iter_mut().all(Carrier::prepare_sleep)
    }

    fn diagnostics(&self) -> Diagnostics {
        let all = || self.endpoints.iter().map(Carrier::diagnostics);
        Diagnostics {
            rejected: all().map(|one| one.rejected).sum(),
            written: 0,
            last_refusal: all().find_map(|one| one.last_refusal),
        }
    }

    fn under_way(&self, to: &Address) -> usize {
        self.of(to).map_or(0, |endpoint| endpoint.under_way(to))
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.endpoints.iter_mut().find_map(Carrier::take_broken)
    }
}
