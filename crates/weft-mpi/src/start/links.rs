//! The links to other nodes: which are opened, and as what the engine uses them.

use weft_net::ethernet::Ethernet;
use weft_net::fabric::{self, Fabric};
use weft_net::udp::{self, Udp};

use super::{other, warn};
use crate::error::Result;
use crate::settings::{self, Settings};

/// The links to other nodes, as they were opened.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) udp: Option<Udp>,
    /// In the place of UDP.
    pub(super) fabric: Option<Fabric>,
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
        self.udp.is_some() || self.fabric.is_some() || !self.raw.is_empty()
    }

    /// Names of the interfaces by their number.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let mut names = Vec::new();
        for candidate in &self.candidates {
            if usize::from(candidate.rail) == names.len() {
                names.push(candidate.interface_name());
            }
        }
        names
    }

    /// What peers are told of the endpoint of libfabric. A carrier into which faults are injected keeps no promise.
    pub(super) fn fabric_card(&self, settings: &Settings) -> Option<fabric::Card> {
        let mut card = self.fabric.as_ref().map(Fabric::card)?;
        card.ordered &= settings.faults.is_clean();
        Some(card)
    }

    /// What peers are told of where this process can be reached, by UDP or not.
    pub(super) fn addresses(&self) -> Option<udp::Card> {
        let without = || udp::Card { candidates: self.candidates.clone(), window_packets: 0 };
        let card = self.udp.as_ref().map_or_else(without, Udp::card);
        Some(card).filter(|card| !card.candidates.is_empty())
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
        true => Some(Fabric::open(&settings::fabric(settings)).map_err(|error| other(error.to_string()))?),
        false => None,
    };
    if let Some(what) = fabric.as_ref().filter(|_| rank == 0).and_then(Fabric::warning) {
        warn(rank, &what);
    }
    let port = udp.as_ref().and_then(|udp| Some(udp.candidates().first()?.port));
    let netd = settings.netd.as_deref();
    let (raw, refusal) = match settings.links.ethernet.then(|| Ethernet::open_all(&wanted, port, netd)) {
        None => (Vec::new(), None),
        Some(Ok(raw)) => (raw, None),
        Some(Err(error)) if udp.is_none() && fabric.is_none() => return Err(other(error.to_string())),
        Some(Err(error)) => (Vec::new(), Some(error.to_string())),
    };
    // Who wants AF_XDP is told once a host.
    if let Some(why) = refusal.as_ref().filter(|_| settings.links.named && !settings.links.xdp && rank == 0) {
        warn(rank, why);
    }
    let candidates = match &udp {
        Some(udp) => udp.candidates().to_vec(),
        None if raw.is_empty() => Vec::new(),
        None => udp::candidates(&wanted).map_err(|error| other(error.to_string()))?,
    };
    Ok(Opened { udp, fabric, raw, refusal, candidates })
}
