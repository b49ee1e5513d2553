//! The links to other nodes: opens them, and says as what the engine uses them.

use weft_net::ethernet::Ethernet;
use weft_net::fabric::{self, Fabric};
use weft_net::tcp::{self, Tcp};
use weft_net::udp::{self, Udp};
use weft_net::verbs::{self, VerbsRails};

use super::{other, warn};
use crate::engine::CarrierId;
use crate::error::Result;
use crate::settings::{self, Settings};

/// The most connections by TCP beside UDP: an eighth of the descriptors that a process has by most systems'
/// defaults.
const CONNECTIONS_BESIDE_MAX: usize = 128;

/// The link that carries bulk data: a process opens one at most.
pub(super) enum Bulk {
    Udp(Box<Udp>),
    /// Endpoints of libfabric, one for each rail; never empty.
    Fabric(Vec<Fabric>),
    Verbs(Box<VerbsRails>),
    Tcp(Box<Tcp>),
}

/// The links to other nodes, as they were opened.
#[derive(Default)]
pub(super) struct Opened {
    /// The link that carries bulk data.
    pub(super) bulk: Option<Bulk>,
    /// TCP beside UDP, which only writes large messages.
    pub(super) writer: Option<Box<Tcp>>,
    /// The links that carry raw frames, one for each interface, the better ones first.
    pub(super) raw: Vec<Ethernet>,
    /// The reason why there are no raw frames.
    pub(super) refusal: Option<String>,
    /// The addresses by which interfaces of two ends are matched.
    pub(super) candidates: Vec<udp::Candidate>,
}

impl Opened {
    /// Returns whether any link was opened.
    pub(super) fn any(&self) -> bool {
        self.bulk.is_some() || !self.raw.is_empty()
    }

    /// The name of the carrier of frames on the interface at this index.
    pub(super) fn frames_on(index: usize) -> CarrierId {
        CarrierId(index as u8)
    }

    /// The name of the carrier for bulk data.
    pub(super) fn bulk_id(&self) -> CarrierId {
        CarrierId(self.raw.len() as u8)
    }

    /// The name of the carrier that only writes.
    pub(super) fn writer_id(&self) -> CarrierId {
        CarrierId(self.bulk_id().0 + u8::from(self.bulk.is_some()))
    }

    /// The endpoints of libfabric, if there are any.
    pub(super) fn fabric(&self) -> &[Fabric] {
        if let Some(Bulk::Fabric(endpoints)) = &self.bulk { endpoints } else { &[] }
    }

    /// Names of the interfaces by their number.
    pub(super) fn interfaces(&self) -> Vec<String> {
        if self.candidates.is_empty() {
            return self.fabric().iter().map(|fabric| fabric.offer().domain.clone()).collect();
        }
        let mut names = Vec::new();
        for candidate in &self.candidates {
            if usize::from(candidate.rail) == names.len() {
                names.push(candidate.interface_name());
            }
        }
        names
    }

    /// The addresses of libfabric's endpoints for peers. A carrier with injected faults promises nothing.
    pub(super) fn fabric_addresses(&self, settings: &Settings) -> Vec<fabric::EndpointAddress> {
        let is_clean = settings.faults.is_clean();
        let of = |fabric: &Fabric| {
            let address = fabric.endpoint_address();
            fabric::EndpointAddress { ordered: address.ordered && is_clean, ..address }
        };
        self.fabric().iter().map(of).collect()
    }

    /// The addresses of the RDMA devices for peers.
    pub(super) fn verbs_address(&self) -> Option<verbs::EndpointAddress> {
        if let Some(Bulk::Verbs(devices)) = &self.bulk { Some(devices.endpoint_address()) } else { None }
    }

    /// The address for connections by TCP, for peers.
    pub(super) fn tcp_address(&self) -> Option<tcp::EndpointAddress> {
        match (&self.bulk, &self.writer) {
            (Some(Bulk::Tcp(tcp)), _) | (_, Some(tcp)) => Some(tcp.endpoint_address()),
            _ => None,
        }
    }

    /// The addresses at which peers can reach this process, by UDP or not.
    pub(super) fn addresses(&self) -> Option<udp::EndpointAddress> {
        let address = match &self.bulk {
            Some(Bulk::Udp(udp)) => udp.endpoint_address(),
            _ => udp::EndpointAddress { candidates: self.candidates.clone(), window_packets: 0 },
        };
        Some(address).filter(|address| !address.candidates.is_empty())
    }
}

/// Opens the links that the settings allow. Raw frames are left out where they cannot be had and UDP can.
/// Then rank 0 tells the reason if the user has named them, else `weft info` tells it.
pub(super) fn open(settings: &Settings, rank: u32) -> Result<Opened> {
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    let bulk = open_bulk(settings, &wanted)?;
    if let Some(Bulk::Fabric(endpoints)) = &bulk
        && rank == 0
        && let Some(what) = endpoints.iter().find_map(Fabric::warning)
    {
        warn(rank, &what);
    }
    let port = if let Some(Bulk::Udp(udp)) = &bulk { udp.candidates().first().map(|first| first.port) } else { None };
    let netd = settings.netd.as_deref();
    let (raw, refusal) = match settings.links.ethernet.then(|| Ethernet::open_all(&wanted, port, netd)) {
        None => (Vec::new(), None),
        Some(Ok(raw)) => (raw, None),
        Some(Err(error)) if bulk.is_none() => return Err(other(error.to_string())),
        Some(Err(error)) => (Vec::new(), Some(error.to_string())),
    };
    // A user who asked for AF_XDP is told once on each host, elsewhere.
    if let Some(why) = refusal.as_ref().filter(|_| settings.links.named && !settings.links.xdp && rank == 0) {
        warn(rank, why);
    }
    let all = || udp::candidates(&wanted).map_err(|error| other(error.to_string()));
    let candidates = match &bulk {
        Some(Bulk::Udp(udp)) => udp.candidates().to_vec(),
        // A device of libfabric has an interface only if it has an IP address.
        Some(Bulk::Fabric(endpoints))
            if raw.is_empty() && endpoints.iter().all(|one| one.offer().address.is_none()) =>
        {
            Vec::new()
        }
        // The ports of TCP are on a card of their own.
        Some(Bulk::Tcp(tcp)) => tcp.candidates().iter().map(|one| udp::Candidate { port: 0, ..*one }).collect(),
        None if raw.is_empty() => Vec::new(),
        _ => all()?,
    };
    let writer = open_writer(settings, bulk.as_ref());
    Ok(Opened { bulk, writer, raw, refusal, candidates })
}

/// Opens TCP beside UDP. Packets do without it where it cannot be had, or could not keep what the user asks
/// for: sealed data, or faults that the user has not asked of TCP.
fn open_writer(settings: &Settings, bulk: Option<&Bulk>) -> Option<Box<Tcp>> {
    let Some(Bulk::Udp(udp)) = bulk else { return None };
    let is_spared = !settings.faults.is_clean() && !settings.links.named;
    if !settings.links.tcp || settings.sealed || is_spared {
        return None;
    }
    let tcp = Tcp::listen(udp.candidates().to_vec(), false).ok()?;
    Some(Box::new(tcp.with_connections_max(CONNECTIONS_BESIDE_MAX)))
}

/// Opens the link for bulk data that the settings name; they name at most one.
fn open_bulk(settings: &Settings, wanted: &udp::Settings) -> Result<Option<Bulk>> {
    let links = &settings.links;
    Ok(if links.fabric {
        let endpoints = Fabric::open_all(&settings::fabric(settings)).map_err(|error| other(error.to_string()))?;
        (!endpoints.is_empty()).then_some(Bulk::Fabric(endpoints))
    } else if links.verbs {
        let devices = VerbsRails::open(&settings::verbs(settings)).map_err(|error| other(error.to_string()))?;
        Some(Bulk::Verbs(Box::new(devices)))
    } else if links.tcp && !links.udp {
        let tcp = Tcp::open(wanted, settings.sealed).map_err(|error| other(error.to_string()))?;
        Some(Bulk::Tcp(Box::new(tcp)))
    } else if links.udp {
        Some(Bulk::Udp(Box::new(Udp::bind(wanted).map_err(|error| other(error.to_string()))?)))
    } else {
        None
    })
}
