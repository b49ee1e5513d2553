//! The links to other nodes as the engine uses them: with the capture and the faults that are asked for.

use weft_net::fabric::{Fabric, FabricRails};
use weft_net::faults::{self, Faults};

use super::links::Opened;
use super::{capture, other, raw};
use crate::engine::{Device, Devices, Route};
use crate::error::Result;
use crate::settings::Settings;

/// The links as the engine uses them to go these ways, with the capture and the faults that are asked for. The capture is next to
/// the link: what a fault loses is not in it.
pub(super) fn devices(settings: &Settings, host: &raw::Host<'_>, paths: &[Route], links: Opened) -> Result<Devices> {
    let capture = capture::Wanted::new(settings.capture.as_deref(), host.rank, paths, &links);
    // Every rank, and every device, loses packets of its own choice.
    let rank = u64::from(host.rank);
    let mut seed = settings.faults.seed.wrapping_add(rank.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut device = |link: Device| -> Device {
        if settings.faults.is_clean() {
            return link;
        }
        seed = seed.wrapping_add(1 << 32);
        Box::new(Faults::new(link, faults::Plan { seed, ..settings.faults }))
    };
    let verbs = links.verbs.map(|link| Box::new(link) as Device);
    let mut udp = links.udp.map(|link| Box::new(link) as Device).or(by_fabric(links.fabric)?).or(verbs);
    let mut raw = raw::devices(settings, host, links.raw, links.refusal.as_deref());
    if let Some(capture) = capture {
        udp = udp.map(|link| capture.around_udp(link));
        raw = raw.into_iter().enumerate().map(|(place, link)| capture.around_raw(place, link)).collect();
    }
    Ok(Devices { udp: udp.map(&mut device), raw: raw.into_iter().map(&mut device).collect() })
}

/// libfabric's endpoints as one link.
fn by_fabric(mut endpoints: Vec<Fabric>) -> Result<Option<Device>> {
    Ok(match endpoints.len() {
        0 | 1 => endpoints.pop().map(|only| Box::new(only) as Device),
        _ => Some(Box::new(FabricRails::new(endpoints).map_err(|error| other(error.to_string()))?)),
    })
}
