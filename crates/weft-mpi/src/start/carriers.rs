//! The carriers to other nodes as the engine uses them: with the capture and the faults that the user asks
//! for.

use weft_net::fabric::{Fabric, FabricRails};
use weft_net::faults::{self, Faults};

use super::links::{Bulk, Opened};
use super::{capture, other, raw};
use crate::engine::{BoxedCarrier, Carriers, Route};
use crate::error::Result;
use crate::settings::Settings;

/// The carriers as the engine uses them on these routes, in the order of their names ([`Opened::frames_on`],
/// [`Opened::bulk_id`], [`Opened::writer_id`]), with the capture and the faults that the user asks for. The
/// capture is next to the carrier, so it does not show packets that a fault drops.
pub(super) fn carriers(settings: &Settings, host: &raw::Host<'_>, paths: &[Route], links: Opened) -> Result<Carriers> {
    let capture = capture::CaptureFile::new(settings.capture.as_deref(), host.rank, paths, &links);
    let bulk = match links.bulk {
        Some(Bulk::Udp(udp)) => Some(udp as BoxedCarrier),
        Some(Bulk::Fabric(endpoints)) => by_fabric(endpoints)?,
        Some(Bulk::Verbs(devices)) => Some(devices as BoxedCarrier),
        Some(Bulk::Tcp(tcp)) => Some(tcp as BoxedCarrier),
        None => None,
    };
    let frames = raw::carriers(settings, host, links.raw, links.refusal.as_deref());
    let writer = links.writer.map(|tcp| tcp as BoxedCarrier);
    let mut all: Vec<BoxedCarrier> = frames.into_iter().chain(bulk).chain(writer).collect();
    if let Some(capture) = capture {
        all = capture.around(all);
    }
    let with_faults = |(carrier, index)| with_faults(settings, host.rank, index, carrier);
    Ok(Carriers::new(all.into_iter().zip(0..).map(with_faults).collect()))
}

/// A carrier with the faults that the user asks for. Every rank, and every carrier, loses different packets;
/// `index` tells the carriers of a rank apart.
pub(super) fn with_faults(settings: &Settings, rank: u32, index: u64, carrier: BoxedCarrier) -> BoxedCarrier {
    if settings.faults.is_clean() {
        return carrier;
    }
    let seed = settings.faults.seed.wrapping_add(u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let seed = seed.wrapping_add((index + 1) << 32);
    Box::new(Faults::new(carrier, faults::Plan { seed, ..settings.faults }))
}

/// libfabric's endpoints as one carrier.
fn by_fabric(mut endpoints: Vec<Fabric>) -> Result<Option<BoxedCarrier>> {
    Ok(match endpoints.len() {
        0 | 1 => endpoints.pop().map(|only| Box::new(only) as BoxedCarrier),
        _ => Some(Box::new(FabricRails::new(endpoints).map_err(|error| other(error.to_string()))?)),
    })
}
