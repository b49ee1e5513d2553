//! The links of the library as the doctor sees them. Each link offers an endpoint address to peers, chooses
//! the addresses to use with a peer, and gives the reasons why it refuses.

use crate::doctor::protocol::{FABRIC, FABRIC_ON, LinkPath, UDP_ON_OTHERS};
use weft_mpi::settings::Settings;
use weft_net::carrier::{Address, Carrier};
use weft_net::ethernet::{self, Ethernet};
use weft_net::fabric::{self, Fabric};
use weft_net::tcp::{self, Tcp};
use weft_net::udp::{self, EndpointAddress, Udp};
use weft_net::verbs::{self, VerbsRails};
use weft_net::xdp;

/// The link of an RDMA device.
pub(super) const VERBS: &str = "verbs";

/// An opened link.
pub(super) trait Link {
    /// The name of the link as in `WEFT_LINK`, with the interface where there are several. Links with the
    /// same name at both ends belong together.
    fn name(&self) -> &str;
    /// The address that peers need to reach this link.
    fn endpoint_address(&self) -> String;
    fn warnings(&self) -> Vec<String>;
    /// The path to the peer with this endpoint address, and the address for its packets.
    fn path(&mut self, endpoint_address: &str) -> Result<(LinkPath, Address), String>;
    fn carrier(&mut self) -> &mut dyn Carrier;
    /// The reason why the machine last refused a packet.
    fn refusal(&self) -> String;
    /// The bytes of the longest packet that the link's device multicasts, or the reason why it does not;
    /// `None` where sockets do that.
    fn multicast(&mut self) -> Option<Result<usize, String>> {
        None
    }
}

/// UDP between the first pair of interfaces, or between the second one.
struct UdpLink {
    udp: Udp,
    is_second: bool,
}

impl Link for UdpLink {
    fn name(&self) -> &str {
        if self.is_second { UDP_ON_OTHERS } else { "udp" }
    }

    fn endpoint_address(&self) -> String {
        self.udp.endpoint_address().encode()
    }

    fn warnings(&self) -> Vec<String> {
        // What holds for one socket holds for the other.
        if self.is_second { Vec::new() } else { self.udp.warnings().to_vec() }
    }

    fn path(&mut self, endpoint_address: &str) -> Result<(LinkPath, Address), String> {
        let peer = EndpointAddress::decode(endpoint_address).map_err(|error| error.to_string())?;
        let own = self.udp.candidates();
        let pairs = udp::pair_rails(own, &peer.candidates, true)?;
        let pair = match self.is_second {
            false => pairs[0],
            true => {
                let second = pairs.get(1).copied();
                let standby = || udp::standby_pair(&pairs, own, &peer.candidates, true);
                second.or_else(standby).ok_or("one pair of interfaces leads there")?
            }
        };
        let path = LinkPath {
            own: pair.own.ip.to_string(),
            peer: pair.to.to_string(),
            own_bytes: usize::from(pair.own.packet_size),
            peer_bytes: usize::from(pair.peer.packet_size),
            packet_bytes: pair.packet_size,
        };
        Ok((path, pair.to.into()))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.udp
    }

    fn refusal(&self) -> String {
        self.udp.diagnostics().last_refusal.unwrap_or_default()
    }
}

struct EthernetLink(Ethernet);

impl Link for EthernetLink {
    fn name(&self) -> &str {
        "ethernet"
    }

    fn endpoint_address(&self) -> String {
        self.0.endpoint_address().encode()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn path(&mut self, endpoint_address: &str) -> Result<(LinkPath, Address), String> {
        let (own, peer) = (
            self.0.endpoint_address(),
            ethernet::EndpointAddress::decode(endpoint_address).map_err(|error| error.to_string())?,
        );
        let path = LinkPath {
            own: own.address.to_string(),
            peer: peer.address.to_string(),
            own_bytes: usize::from(own.packet_size),
            peer_bytes: usize::from(peer.packet_size),
            packet_bytes: usize::from(own.packet_size.min(peer.packet_size)),
        };
        Ok((path, peer.address.into()))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.0
    }

    fn refusal(&self) -> String {
        "the interface takes no frame just now".to_owned()
    }
}

struct VerbsLink(VerbsRails);

/// The addresses of rails; the rail for packets comes first.
fn by_rdma<'ways>(ends: impl Iterator<Item = &'ways std::net::SocketAddr>) -> String {
    let all: Vec<String> = ends.map(ToString::to_string).collect();
    format!("{} by RDMA", all.join(" and "))
}

impl Link for VerbsLink {
    fn name(&self) -> &str {
        VERBS
    }

    fn endpoint_address(&self) -> String {
        self.0.endpoint_address().encode()
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warning().into_iter().collect()
    }

    fn path(&mut self, endpoint_address: &str) -> Result<(LinkPath, Address), String> {
        let peer = verbs::EndpointAddress::decode(endpoint_address).map_err(|error| error.to_string())?;
        let to = self.0.address_of(&peer, 0).map_err(|error| error.to_string())?;
        let (own, ways) = (self.0.endpoint_address(), self.0.paths(&to));
        let path = LinkPath {
            own: by_rdma(ways.iter().map(|(own, _)| own)),
            peer: by_rdma(ways.iter().map(|(_, peer)| peer)),
            own_bytes: usize::from(own.packet_size),
            peer_bytes: usize::from(peer.packet_size),
            packet_bytes: usize::from(own.packet_size.min(peer.packet_size)),
        };
        Ok((path, to))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.0
    }

    fn refusal(&self) -> String {
        self.0.diagnostics().last_refusal.unwrap_or_default()
    }

    fn multicast(&mut self) -> Option<Result<usize, String>> {
        Some(self.0.multicast())
    }
}

struct FabricLink {
    name: String,
    fabric: Fabric,
}

impl Link for FabricLink {
    fn name(&self) -> &str {
        &self.name
    }

    fn endpoint_address(&self) -> String {
        self.fabric.endpoint_address().encode()
    }

    fn warnings(&self) -> Vec<String> {
        self.fabric.warning().into_iter().collect()
    }

    fn path(&mut self, endpoint_address: &str) -> Result<(LinkPath, Address), String> {
        let peer = fabric::EndpointAddress::decode(endpoint_address).map_err(|error| error.to_string())?;
        let to = self.fabric.address_of(&peer).map_err(|error| error.to_string())?;
        let own = self.fabric.endpoint_address();
        let path = LinkPath {
            own: self.fabric.own_address().to_string(),
            peer: to.to_string(),
            own_bytes: usize::from(own.packet_size),
            peer_bytes: usize::from(peer.packet_size),
            packet_bytes: usize::from(own.packet_size.min(peer.packet_size)),
        };
        Ok((path, to))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.fabric
    }

    fn refusal(&self) -> String {
        self.fabric.diagnostics().last_refusal.unwrap_or_default()
    }
}

struct TcpLink(Tcp);

impl Link for TcpLink {
    fn name(&self) -> &str {
        "tcp"
    }

    fn endpoint_address(&self) -> String {
        self.0.endpoint_address().encode()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn path(&mut self, endpoint_address: &str) -> Result<(LinkPath, Address), String> {
        let peer = tcp::EndpointAddress::decode(endpoint_address).map_err(|error| error.to_string())?;
        let pair = udp::choose_peer_address(self.0.candidates(), &peer.candidates)?;
        let packet_bytes = self.0.attributes().packet_size;
        let path = LinkPath {
            own: pair.own.ip.to_string(),
            peer: pair.to.to_string(),
            own_bytes: packet_bytes,
            peer_bytes: packet_bytes,
            packet_bytes,
        };
        Ok((path, self.0.address_of(pair.to, peer.token)))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.0
    }

    fn refusal(&self) -> String {
        self.0.diagnostics().last_refusal.unwrap_or_default()
    }
}

/// A link, or the reason why it cannot be used here.
pub(super) type Opened = Result<Box<dyn Link>, String>;

pub(super) fn open_all(settings: &Settings) -> Vec<(String, Opened)> {
    let mut all = Vec::new();
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    if settings.links.udp {
        let open = |is_second| Udp::bind(&wanted).map(|udp| UdpLink { udp, is_second });
        let opened = open(false).map_err(|error| error.to_string());
        let has_more = opened.as_ref().is_ok_and(|link| link.udp.candidates().iter().any(|one| one.rail > 0));
        all.push(("udp".to_owned(), opened.map(|link| Box::new(link) as Box<dyn Link>)));
        if has_more && let Ok(link) = open(true) {
            all.push((UDP_ON_OTHERS.to_owned(), Ok(Box::new(link))));
        }
    }
    if settings.links.fabric {
        all.extend(open_fabric(settings, &wanted));
    }
    if settings.links.tcp {
        let opened = Tcp::open(&wanted, settings.sealed).map(|tcp| Box::new(TcpLink(tcp)) as Box<dyn Link>);
        all.push(("tcp".to_owned(), opened.map_err(|error| error.to_string())));
    }
    if settings.links.verbs {
        let opened = VerbsRails::open(&weft_mpi::settings::verbs(settings))
            .map(|verbs| Box::new(VerbsLink(verbs)) as Box<dyn Link>);
        all.push((VERBS.to_owned(), opened.map_err(|error| error.to_string())));
    }
    if settings.links.ethernet {
        let opened = Ethernet::open(&wanted, None, settings.netd.as_deref());
        // Where AF_XDP is available, its frames are those of the raw link, and no other frames are tried.
        let xdp = opened.as_ref().ok().filter(|_| settings.links.xdp).map(xdp::outlook);
        let opened = opened.map(|link| Box::new(EthernetLink(link)) as Box<dyn Link>);
        all.push(("ethernet".to_owned(), opened.map_err(|error| error.to_string())));
        all.extend(xdp.and_then(Result::err).map(|why| ("xdp".to_owned(), Err(why.to_string()))));
    }
    all
}

/// Opens libfabric's best endpoint on a host that has one. Where there are several endpoints, each is opened
/// as well, under a name that both ends share ([`FABRIC_ON`]). Programs pair endpoints in a
/// common subnet, and devices without IP addresses by their order.
fn open_fabric(settings: &Settings, wanted: &udp::Settings) -> Vec<(String, Opened)> {
    let settings = weft_mpi::settings::fabric(settings);
    let link = |name: String, opened: Result<Fabric, weft_net::Error>| {
        let made = |fabric| Box::new(FabricLink { name: name.clone(), fabric }) as Box<dyn Link>;
        let opened = opened.map(made).map_err(|error| error.to_string());
        (name, opened)
    };
    let mut all = vec![link(FABRIC.to_owned(), Fabric::open(&settings))];
    let several = Fabric::open_all(&settings).unwrap_or_default();
    if several.len() > 1 {
        let candidates = udp::candidates(wanted).unwrap_or_default();
        for fabric in several {
            let on = candidates.iter().find(|candidate| Some(candidate.ip) == fabric.offer().address);
            let on = on.map_or_else(|| format!("device {}", fabric.rail() + 1), udp::Candidate::subnet);
            all.push(link(format!("{FABRIC_ON}{on}"), Ok(fabric)));
        }
    }
    all
}
