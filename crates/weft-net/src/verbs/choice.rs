//! The choice of devices: those behind the interfaces that UDP would use, the better ones first, one for each
//! interface.

use std::net::SocketAddr;

use super::api::Library;
use super::device::Bound;
use super::{RAILS_MAX, Settings, library, status};
use crate::Error;
use crate::udp::{self, Candidate};

/// A device that would be used, with its port and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The device's name, e.g. `mlx5_0`.
    pub device: String,
    /// The port of the device, from 1.
    pub port: u8,
    /// The interface of the port.
    pub interface: String,
    /// The address that peers connect to. An address that only its own link has comes with its interface.
    pub address: SocketAddr,
    /// The same interface as UDP has it. Its rail is the index among the used devices.
    pub(super) candidate: Candidate,
}

/// A chosen device, with the identifier that is bound to it.
pub(super) struct Found {
    pub(super) chosen: Chosen,
    pub(super) bound: Bound,
}

/// Returns the first address of each interface behind which there is a device, at most [`RAILS_MAX`] of them.
pub(super) fn choose(library: &'static Library, settings: &Settings) -> Result<Vec<Found>, Error> {
    let wanted = udp::Settings { interfaces: settings.interfaces.clone(), packet_size_max: None };
    let mut refusals = Vec::new();
    let mut found: Vec<Found> = Vec::new();
    for candidate in udp::candidates(&wanted)? {
        let is_known = found.iter().any(|one| one.chosen.candidate.interface == candidate.interface);
        if is_known || found.len() == RAILS_MAX {
            continue;
        }
        let (interface, address) = (candidate.interface_name(), candidate.socket_address());
        match Bound::new(library, address) {
            Ok(bound) => {
                let (device, port) = bound.device();
                let candidate = Candidate { rail: found.len() as u8, ..candidate };
                found.push(Found { chosen: Chosen { device, port, interface, address, candidate }, bound });
            }
            Err(why) => refusals.push(format!("{interface}: {why}")),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let why = refusals.join("; ");
    let has = status::summary(library);
    Err(Error::Unavailable(format!(
        "no interface that may be used leads to an RDMA device ({why}); {has}: WEFT_INTERFACE chooses among interfaces, and an RDMA device needs an \
         interface with an address of IP"
    )))
}

/// Returns the devices that would be used with these settings, the better ones first.
///
/// # Errors
/// There are no libraries, or there is no device: a sentence.
pub fn consider(settings: &Settings) -> Result<Vec<Chosen>, Error> {
    Ok(choose(library()?, settings)?.into_iter().map(|found| found.chosen).collect())
}
