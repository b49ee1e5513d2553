//! The links to other nodes: which are opened, and as what the engine uses them.

use weft_net::ethernet::Ethernet;
use weft_net::fabric::{self, Fabric};
use weft_net::udp::{self, Udp};
use weft_net::verbs::{self, VerbsRails};

use super::{other, warn};
use crate::engine::CarrierId;
use crate::error::Result;
use crate::settings::{self, Settings};

/// The links to other nodes, as they were opened.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) udp: Option<Udp>,
    /// For bulk data in the place of UDP, one for each rail.
    pub(super) fabric: Vec<Fabric>,
    /// In the place of UDP, too.
    pub(super) verbs: Option<VerbsRails>,
    /// One for each interface, the better ones first.
    pub(super) raw: Vec<Ethernet>,
    /// Why there are no raw frames.
    pub(super) refusal: Option<String>,
    /// The addresses by which interfaces of two ends are matched.
    pub(super) candidates: Vec<udp::Candidate>,
}

impl Opened {
    /// Whether any was opened.
    pub(super) fn any(&self) -> bool {
        self.udp.is_some() || !self.fabric.is_empty() || self.verbs.is_some() || !self.raw.is_empty()
    }

    /// The name of the carrier of frames on the interface at this index.
    pub(super) fn frames_on(index: usize) -> CarrierId {
        CarrierId(index as u8)
    }

    /// The name of the carrier for bulk data: UDP, or what is in its place.
    pub(super) fn bulk(&self) -> CarrierId {
        CarrierId(self.raw.len() as u8)
    }

    /// Names of the interfaces by their number.
    pub(super) fn interfaces(&self) -> Vec<String> {
        if self.candidates.is_empty() {
            return self.fabric.iter().map(|fabric| fabric.offer().domain.clone()).collect();
        }
        let mut names = Vec::new();
        for candidate in &self.candidates {
            if usize::from(candidate.rail) == names.len() {
                names.push(candidate.interface_name());
            }
        }
        names
    }

    /// What peers are told of the endpoints of libfabric. A carrier into which faults are injected keeps no promise.
    pub(super) fn fabric_addresses(&self, settings: &Settings) -> Vec<fabric::EndpointAddress> {
        let is_clean = settings.faults.is_clean();
        let of = |fabric: &Fabric| {
            let address = fabric.endpoint_address();
            fabric::EndpointAddress { ordered: address.ordered && is_clean, ..address }
        };
        self.fabric.iter().map(of).collect()
    }

    /// What peers are told of the RDMA devices.
    pub(super) fn verbs_address(&self) -> Option<verbs::EndpointAddress> {
        self.verbs.as_ref().map(VerbsRails::endpoint_address)
    }

    /// What peers are told of where this process can be reached, by UDP or not.
    pub(super) fn addresses(&self) -> Option<udp::EndpointAddress> {
        let without = || udp::EndpointAddress { candidates: self.candidates.clone(), window_packets: 0 };
        let address = self.udp.as_ref().map_or_else(without, Udp::endpoint_address);
        Some(address).filter(|address| !address.candidates.is_empty())
    }
}

/// Opens what the settings allow. Raw frames are left out where they cannot be had and UDP can; rank 0 says why if the user has named
/// them, else `weft info` does.
pub(super) fn open(settings: &Settings, rank: u32) -> Result<Opened> {
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    let udp = match settings.links.udp {
        true => Some(Udp::bind(&wanted).map_err(|error| other(error.to_string()))?),
        false => None,
    };
    let fabric = match settings.links.fabric {
        true => Fabric::open_all(&settings::fabric(settings)).map_err(|error| other(error.to_string()))?,
        false => Vec::new(),
    };
    let verbs = match settings.links.verbs {
        true => Some(VerbsRails::open(&settings::verbs(settings)).map_err(|error| other(error.to_string()))?),
        false => None,
    };
    if let Some(what) = fabric.iter().filter(|_| rank == 0).find_map(Fabric::warning) {
        warn(rank, &what);
    }
    let port = udp.as_ref().and_then(|udp| Some(udp.candidates().first()?.port));
    let netd = settings.netd.as_deref();
    let (raw, refusal) = match settings.links.ethernet.then(|| Ethernet::open_all(&wanted, port, netd)) {
        None => (Vec::new(), None),
        Some(Ok(raw)) => (raw, None),
        Some(Err(error)) if udp.is_none() && fabric.is_empty() && verbs.is_none() => {
            return Err(other(error.to_string()));
        }
        Some(Err(error)) => (Vec::new(), Some(error.to_string())),
    };
    // Who wants AF_XDP is told once a host.
    if let Some(why) = refusal.as_ref().filter(|_| settings.links.named && !settings.links.xdp && rank == 0) {
        warn(rank, why);
    }
    let candidates = match &udp {
        Some(udp) => udp.candidates().to_vec(),
        // A device of libfabric has an interface only if it has an address of IP.
        None if raw.is_empty() && verbs.is_none() && fabric.iter().all(|fabric| fabric.offer().address.is_none()) => {
            Vec::new()
        }
        None => udp::candidates(&wanted).map_err(|error| other(error.to_string()))?,
    };
    Ok(Opened { udp, fabric, verbs, raw, refusal, candidates })
}
