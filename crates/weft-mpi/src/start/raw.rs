//! Raw frames, and how they are received: by a packet socket, or by AF_XDP together with the other ranks of the host.

use weft_net::ethernet::{self, Ethernet};
use weft_net::xdp::{Group, RING_FRAMES, Xdp};

use super::{Card, warn};
use crate::engine::Device;
use crate::settings::Settings;

/// What peers are told of the link: no more may be on their way here than the smallest of its rings holds.
pub(super) fn card(settings: &Settings, link: &Ethernet) -> ethernet::Card {
    let card = link.card();
    let most = if settings.links.xdp { RING_FRAMES } else { card.window_packets };
    ethernet::Card { window_packets: card.window_packets.min(most), ..card }
}

/// The ranks of this host.
pub(super) struct Host<'a> {
    pub(super) rank: u32,
    pub(super) locals: &'a [u32],
    pub(super) cards: &'a [Card],
    /// Names what they share.
    pub(super) key: String,
}

impl Host<'_> {
    /// Those that receive at the same interface as this one.
    fn group(&self, own: &ethernet::Card) -> Group {
        let at_same = |&rank: &u32| {
            let card = self.cards[rank as usize].raw.filter(|card| card.address.mac == own.address.mac)?;
            Some((rank, card.address.port))
        };
        let members: Vec<(u32, u16)> = self.locals.iter().filter_map(at_same).collect();
        Group {
            key: self.key.clone(),
            place: members.iter().position(|(rank, _)| *rank == self.rank).unwrap_or(0),
            ports: members.iter().map(|(_, port)| *port).collect(),
        }
    }
}

/// The link as the settings want it. Where there is none, `refusal` says why. What the user asked for and does not get is said once a host.
pub(super) fn device(
    settings: &Settings,
    host: &Host<'_>,
    link: Option<Ethernet>,
    refusal: Option<&str>,
) -> Option<Device> {
    let Some(link) = link else {
        if let (true, Some(why), Some(first)) = (settings.links.xdp, refusal, host.locals.first())
            && *first == host.rank
        {
            warn(host.rank, &format!("there is no AF_XDP without raw frames, and UDP carries everything: {why}"));
        }
        return None;
    };
    if !settings.links.xdp {
        return Some(Box::new(link));
    }
    let group = host.group(&link.card());
    match Xdp::open(link, &group) {
        Ok(link) => {
            link.warning().iter().for_each(|sentence| warn(host.rank, sentence));
            Some(Box::new(link))
        }
        Err(refused) => {
            if let Some(why) = refused.why {
                warn(host.rank, &format!("{why}; small messages go as raw frames without it"));
            }
            Some(refused.ethernet)
        }
    }
}
