//! Carries out `WEFT_CAPTURE`: every carrier to other nodes writes its packets to this rank's file.

use std::path::PathBuf;

use weft_net::capture::{Capture, Ends, Recorder, SharedRecorder};
use weft_net::carrier::Address;

use super::links::{Bulk, Opened};
use super::warn;
use crate::engine::{BoxedCarrier, CarrierId, Route};
use crate::settings::{CAPTURE, CAPTURE_RANK};

/// The file, and the addresses at both ends of the paths to every peer.
pub(super) struct CaptureFile {
    recorder: SharedRecorder,
    /// The ends by carrier.
    ends: Vec<Vec<Vec<Ends>>>,
}

impl CaptureFile {
    /// Makes the capture at the setting's path for this rank. `None` without a path, or, with a warning,
    /// where the file cannot be made.
    pub(super) fn new(path: Option<&str>, rank: u32, paths: &[Route], links: &Opened) -> Option<Self> {
        let path = PathBuf::from(path?.replace(CAPTURE_RANK, &rank.to_string()));
        let on_problem = move |sentence: &str| warn(rank, &format!("{}: {sentence}", CAPTURE.name));
        let recorder = match Recorder::create(&path, Box::new(on_problem)) {
            Ok(recorder) => recorder,
            Err(why) => {
                let path = path.display();
                warn(rank, &format!("{}: {path} cannot be made ({why}): no packets are captured", CAPTURE.name));
                return None;
            }
        };
        let all = |id: u8| paths.iter().map(|path| ends(path, CarrierId(id), links)).collect();
        Some(Self { recorder, ends: (0..=links.writer_id().0).map(all).collect() })
    }

    /// The carriers, in the order of their names, with the capture around each.
    pub(super) fn around(self, carriers: Vec<BoxedCarrier>) -> Vec<BoxedCarrier> {
        let Self { recorder, ends } = self;
        let around = |(carrier, ends)| Box::new(Capture::new(carrier, &recorder, ends)) as BoxedCarrier;
        carriers.into_iter().zip(ends).map(around).collect()
    }
}

/// The addresses at both ends of the paths to a peer by this carrier.
fn ends(path: &Route, carrier: CarrierId, links: &Opened) -> Vec<Ends> {
    let Route::Remote(remote) = path else { return Vec::new() };
    let own = |rail: u8| {
        let is_writer = links.writer.is_some() && carrier == links.writer_id();
        if carrier != links.bulk_id() && !is_writer {
            return Some(Address::from(links.raw.get(usize::from(carrier.0))?.endpoint_address().address));
        }
        if let Some(fabric) = links.fabric().iter().find(|fabric| fabric.rail() == rail) {
            return Some(fabric.own_address());
        }
        if let Some(Bulk::Verbs(devices)) = &links.bulk {
            return Some(devices.own_address());
        }
        if let (Some(Bulk::Tcp(tcp)), _) | (_, Some(tcp)) = (&links.bulk, links.writer.as_ref().filter(|_| is_writer)) {
            return Some(tcp.own_address());
        }
        let own = links.candidates.iter().find(|candidate| candidate.rail == rail)?;
        Some(Address::Udp((own.ip, own.port).into()))
    };
    let carrier_paths = remote.carrier_paths().filter(|(_, carrier_path)| carrier_path.carrier == carrier);
    carrier_paths.filter_map(|(ends, carrier_path)| Some(Ends { own: own(ends.own)?, peer: carrier_path.to })).collect()
}
