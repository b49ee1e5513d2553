//! Raw frames, and their reception: by packet sockets, or on the first interface by AF_XDP together with the
//! other ranks of the host.

use weft_net::ethernet::{self, Ethernet};
use weft_net::xdp::{Group, RING_FRAMES, Xdp};

use super::{BusinessCard, warn};
use crate::engine::BoxedCarrier;
use crate::settings::Settings;

/// The addresses of the links for peers. At most as many frames may be on their way to a link as the smallest
/// of its rings holds.
pub(super) fn addresses(settings: &Settings, links: &[Ethernet]) -> Vec<ethernet::EndpointAddress> {
    let mut addresses: Vec<ethernet::EndpointAddress> = links.iter().map(Ethernet::endpoint_address).collect();
    if let Some(first) = addresses.first_mut().filter(|_| settings.links.xdp) {
        first.window_packets = first.window_packets.min(RING_FRAMES);
    }
    addresses
}

/// The ranks of this host.
pub(super) struct Host<'a> {
    pub(super) rank: u32,
    pub(super) locals: &'a [u32],
    pub(super) cards: &'a [BusinessCard],
    /// The key for names of what these ranks share.
    pub(super) key: String,
}

impl Host<'_> {
    /// The ranks whose first interface is this one.
    fn group(&self, own: &ethernet::EndpointAddress) -> Group {
        let at_same = |&rank: &u32| {
            let address =
                self.cards[rank as usize].raw.first().filter(|address| address.address.mac == own.address.mac)?;
            Some((rank, address.address.port))
        };
        let members: Vec<(u32, u16)> = self.locals.iter().filter_map(at_same).collect();
        Group {
            key: self.key.clone(),
            member: members.iter().position(|(rank, _)| *rank == self.rank).unwrap_or(0),
            ports: members.iter().map(|(_, port)| *port).collect(),
        }
    }
}

/// Sets up the links as the settings want them; AF_XDP receives at the first. Where there is no link,
/// `refusal` has the reason. A wish of the user that cannot be met is reported once on each host.
pub(super) fn carriers(
    settings: &Settings,
    host: &Host<'_>,
    links: Vec<Ethernet>,
    refusal: Option<&str>,
) -> Vec<BoxedCarrier> {
    if let (true, Some(why), Some(first)) = (settings.links.xdp, refusal, host.locals.first())
        && *first == host.rank
    {
        warn(host.rank, &format!("there is no AF_XDP without raw frames, and UDP carries everything: {why}"));
    }
    let carrier = |(place, link): (usize, Ethernet)| match settings.links.xdp && place == 0 {
        true => by_xdp(host, link),
        false => Box::new(link),
    };
    links.into_iter().enumerate().map(carrier).collect()
}

fn by_xdp(host: &Host<'_>, link: Ethernet) -> BoxedCarrier {
    let group = host.group(&link.endpoint_address());
    match Xdp::open(link, &group) {
        Ok(link) => {
            link.warning().iter().for_each(|sentence| warn(host.rank, sentence));
            Box::new(link)
        }
        Err(refused) => {
            if let Some(why) = refused.why {
                warn(host.rank, &format!("{why}; small messages go as raw frames without it"));
            }
            refused.ethernet
        }
    }
}
