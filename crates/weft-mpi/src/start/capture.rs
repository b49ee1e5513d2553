//! What `WEFT_CAPTURE` asks for: every link to other nodes writes what passes to this rank's file.

use std::path::PathBuf;

use weft_net::capture::{Capture, Ends, Recorder, SharedRecorder};
use weft_net::datagrams::Address;
use weft_net::udp;

use super::{Card, Opened, warn};
use crate::engine::Device;
use crate::settings::{CAPTURE, CAPTURE_RANK};

/// The file, and both ends of each link for every peer.
pub(super) struct Wanted {
    recorder: SharedRecorder,
    udp: Vec<Option<Ends>>,
    raw: Vec<Option<Ends>>,
}

impl Wanted {
    /// The capture that the setting's path means for this rank; none without one, or, said, where the file cannot be made.
    pub(super) fn new(path: Option<&str>, rank: u32, cards: &[Card], links: &Opened) -> Option<Self> {
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
        let own_candidates = links.udp.as_ref().map_or(&[][..], |udp| udp.candidates());
        let own_raw = links.raw.as_ref().map(|raw| raw.card().address);
        let udp_ends = |card: &Card| {
            let pair = udp::choose_peer_address(own_candidates, &card.udp.as_ref()?.candidates).ok()?;
            Some(Ends { own: Address::Udp((pair.own.ip, pair.own.port).into()), peer: pair.to.into() })
        };
        let raw_ends = |card: &Card| Some(Ends { own: own_raw?.into(), peer: card.raw?.address.into() });
        Some(Self { recorder, udp: cards.iter().map(udp_ends).collect(), raw: cards.iter().map(raw_ends).collect() })
    }

    /// The UDP link with the capture around it.
    pub(super) fn around_udp(&self, link: Device) -> Device {
        Box::new(Capture::new(link, &self.recorder, self.udp.clone()))
    }

    /// The same for raw frames.
    pub(super) fn around_raw(&self, link: Device) -> Device {
        Box::new(Capture::new(link, &self.recorder, self.raw.clone()))
    }
}
