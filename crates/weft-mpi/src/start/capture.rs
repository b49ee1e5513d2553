//! What `WEFT_CAPTURE` asks for: every link to other nodes writes what passes to this rank's file.

use std::path::PathBuf;

use weft_net::capture::{Capture, Ends, Recorder, SharedRecorder};
use weft_net::datagrams::Address;
use weft_net::fabric::Fabric;
use weft_net::verbs::VerbsRails;

use super::links::Opened;
use super::warn;
use crate::engine::{Device, Route, Slot};
use crate::settings::{CAPTURE, CAPTURE_RANK};

/// The file, and both ends of what leads to every peer.
pub(super) struct Wanted {
    recorder: SharedRecorder,
    /// By UDP.
    udp: Vec<Vec<Ends>>,
    /// From each interface.
    raw: Vec<Vec<Vec<Ends>>>,
}

impl Wanted {
    /// The capture that the setting's path means for this rank; none without one, or, said, where the file cannot be made.
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
        let all = |slot: Slot| paths.iter().map(|path| ends(path, slot, links)).collect();
        let raw = (0..links.raw.len()).map(|place| all(Slot::Raw(place as u8))).collect();
        Some(Self { recorder, udp: all(Slot::Udp), raw })
    }

    /// The UDP link with the capture around it.
    pub(super) fn around_udp(&self, link: Device) -> Device {
        Box::new(Capture::new(link, &self.recorder, self.udp.clone()))
    }

    /// The same for raw frames on the interface at this place.
    pub(super) fn around_raw(&self, place: usize, link: Device) -> Device {
        Box::new(Capture::new(link, &self.recorder, self.raw[place].clone()))
    }
}

/// Both ends of what leads to a peer by this link.
fn ends(path: &Route, slot: Slot, links: &Opened) -> Vec<Ends> {
    let Route::Remote(remote) = path else { return Vec::new() };
    let own = |rail: u8| match slot {
        Slot::Raw(place) => Some(Address::from(links.raw.get(usize::from(place))?.card().address)),
        Slot::Udp if !links.fabric.is_empty() => {
            links.fabric.iter().find(|fabric| fabric.rail() == rail).map(Fabric::own_address)
        }
        Slot::Udp if links.verbs.is_some() => links.verbs.as_ref().map(VerbsRails::own_address),
        Slot::Udp => {
            let own = links.candidates.iter().find(|candidate| candidate.rail == rail)?;
            Some(Address::Udp((own.ip, own.port).into()))
        }
    };
    let hops = remote.hops().filter(|(_, hop)| hop.slot == slot);
    hops.filter_map(|(ends, hop)| Some(Ends { own: own(ends.own)?, peer: hop.to })).collect()
}
