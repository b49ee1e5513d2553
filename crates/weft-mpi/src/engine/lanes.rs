//! The lanes to other nodes: raw frames for what is small, UDP with its offloads for bulk data, both at the same time where both
//! reach a peer. Which packets take which, and what happens when one lane fails.

use std::fmt::Write;

use weft_core::flow::{Flow, Settings as FlowSettings};
use weft_core::reach::{Keys, Reach};
use weft_core::time::Instant;
use weft_net::datagrams::{Address, Datagrams};

/// A link that carries packets.
pub type Device = Box<dyn Datagrams + std::marker::Send>;

/// One thing for each lane there is.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<T> {
    /// Frames on an interface.
    pub raw: Option<T>,
    /// UDP.
    pub udp: Option<T>,
}

/// Which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Raw,
    Udp,
}

/// Both of them.
pub(super) const LANES: [Lane; 2] = [Lane::Raw, Lane::Udp];

impl<T> Lanes<T> {
    /// None at all.
    pub const NONE: Self = Self { raw: None, udp: None };

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.raw.is_none() && self.udp.is_none()
    }

    /// Whether there is a choice.
    pub fn are_two(&self) -> bool {
        self.raw.is_some() && self.udp.is_some()
    }

    /// Those that there are.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.raw, &self.udp].into_iter().flatten()
    }

    pub(super) fn get(&self, lane: Lane) -> Option<&T> {
        match lane {
            Lane::Raw => self.raw.as_ref(),
            Lane::Udp => self.udp.as_ref(),
        }
    }

    pub(super) fn get_mut(&mut self, lane: Lane) -> Option<&mut T> {
        match lane {
            Lane::Raw => self.raw.as_mut(),
            Lane::Udp => self.udp.as_mut(),
        }
    }
}

impl Lanes<Device> {
    /// What to wait on.
    pub(super) fn descriptors(&self) -> [Option<i32>; 2] {
        LANES.map(|lane| self.get(lane).map(|device| device.fd()))
    }
}

/// A lane to one peer.
struct Way {
    address: Address,
    reach: Reach,
}

/// A peer on another node.
pub struct Remote {
    ways: Lanes<Way>,
    keys: Option<Keys>,
    settings: FlowSettings,
    /// Made on first contact.
    pub(super) flow: Option<Box<Flow>>,
    pub(super) active: bool,
    /// Probes of the flow that have been taken for doubts.
    probes: u64,
}

impl Remote {
    /// The peer at these addresses, at least one. Where there are two, the raw one is used once it has proved to lead there.
    pub fn new(addresses: Lanes<Address>, settings: FlowSettings) -> Self {
        let settings = FlowSettings { two_ways: addresses.are_two(), ..settings };
        let first = if addresses.are_two() { Reach::unknown() } else { Reach::assumed() };
        let way = |address, reach| Way { address, reach };
        Self {
            ways: Lanes {
                raw: addresses.raw.map(|address| way(address, first)),
                udp: addresses.udp.map(|address| way(address, Reach::assumed())),
            },
            keys: None,
            settings,
            flow: None,
            active: false,
            probes: 0,
        }
    }

    /// The flow, made on first contact.
    pub(super) fn flow(&mut self, secret: &[u8; 16], own: u32, peer: u32) -> &mut Flow {
        self.flow.get_or_insert_with(|| Box::new(Flow::new(&self.settings, *secret, own, peer)))
    }

    /// Where a packet goes: bulk data by UDP, everything else as raw frames, as long as both lead there.
    pub(super) fn way(&self, bulk: bool) -> Option<(Lane, Address)> {
        let proved = |lane| self.ways.get(lane).is_some_and(|way| way.reach.is_proved());
        let lane = match (proved(Lane::Raw), proved(Lane::Udp)) {
            (true, true) if bulk => Lane::Udp,
            (true, _) => Lane::Raw,
            (false, true) => Lane::Udp,
            (false, false) if self.ways.udp.is_some() => Lane::Udp,
            (false, false) => Lane::Raw,
        };
        self.ways.get(lane).map(|way| (lane, way.address))
    }

    /// Whether small packets and bulk data go different ways at present.
    pub(super) fn uses_both(&self) -> bool {
        self.ways.iter().filter(|way| way.reach.is_proved()).count() == 2
    }

    /// A packet that has come over `lane` and is not the flow's: what to answer, over the same lane.
    pub(super) fn handle_reach(
        &mut self,
        lane: Lane,
        bytes: &[u8],
        keys: impl FnOnce() -> Keys,
    ) -> Option<(Address, Answer)> {
        let way = self.ways.get_mut(lane)?;
        let answer = way.reach.handle(bytes, self.keys.get_or_insert_with(keys))?;
        Some((way.address, answer))
    }

    /// The question that is due on `lane`, and where to ask it. With one lane there is nothing to ask.
    pub(super) fn poll_question(
        &mut self,
        lane: Lane,
        now: Instant,
        keys: impl FnOnce() -> Keys,
    ) -> Option<(Address, Answer)> {
        if !self.ways.are_two() {
            return None;
        }
        let way = self.ways.get_mut(lane)?;
        if way.reach.is_proved() {
            return None;
        }
        let question = way.reach.poll_question(now, self.keys.get_or_insert_with(keys))?;
        Some((way.address, question))
    }

    /// The machine has refused a packet for `lane`.
    pub(super) fn doubt(&mut self, lane: Lane) {
        if self.ways.are_two()
            && let Some(way) = self.ways.get_mut(lane)
        {
            way.reach.doubt();
        }
    }

    /// A flow that probes has heard nothing for what it sent: every lane must answer anew. Meanwhile UDP is used.
    pub(super) fn doubt_after_probes(&mut self) {
        let Some(flow) = &self.flow else { return };
        let probes = flow.counters().probes;
        if std::mem::replace(&mut self.probes, probes) != probes {
            LANES.into_iter().for_each(|lane| self.doubt(lane));
        }
    }

    /// When to look at this peer again though nothing arrives.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let flow = self.flow.as_ref().and_then(|flow| flow.next_timeout());
        let question = if self.ways.are_two() {
            LANES.into_iter().filter_map(|lane| self.ways.get(lane)?.reach.next_timeout()).min()
        } else {
            None
        };
        flow.into_iter().chain(question).min()
    }

    /// Its addresses, for a message to the user.
    pub(super) fn addresses(&self) -> String {
        let mut text = String::new();
        for way in self.ways.iter() {
            let gap = if text.is_empty() { "" } else { " and " };
            write!(text, "{gap}{}", way.address).expect("strings accept all text");
        }
        text
    }

    /// The links in use, for `mpiexec --stats`.
    pub(super) fn links(&self, devices: &Lanes<Device>) -> &'static str {
        let name = |lane| devices.get(lane).map_or("none", |device| device.name());
        match (self.way(false), self.way(true)) {
            (Some((Lane::Raw, _)), Some((Lane::Udp, _))) => match name(Lane::Raw) {
                "xdp" => "xdp+udp",
                _ => "ethernet+udp",
            },
            (Some((lane, _)), _) => name(lane),
            (None, _) => "none",
        }
    }
}

/// A question or an answer, as it travels.
pub(super) type Answer = [u8; weft_core::reach::SIZE];

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::reach::SIZE;
    use weft_net::datagrams::EthernetAddress;

    fn addresses() -> Lanes<Address> {
        let raw = EthernetAddress { mac: [2, 0, 0, 0, 0, 9], port: 7 };
        Lanes { raw: Some(raw.into()), udp: Some(Address::Udp(([10, 0, 0, 9], 7).into())) }
    }

    fn keys(own: u32, peer: u32) -> Keys {
        Keys::new(&[1; 16], own, peer)
    }

    fn lane(remote: &Remote, bulk: bool) -> Option<Lane> {
        remote.way(bulk).map(|(lane, _)| lane)
    }

    /// Asks over `lane`, and lets the peer answer.
    fn ask(remote: &mut Remote, lane: Lane, now: Instant) {
        let (_, question) = remote.poll_question(lane, now, || keys(0, 1)).unwrap();
        let answer = Reach::unknown().handle(&question, &keys(1, 0)).unwrap();
        assert!(remote.handle_reach(lane, &answer, || keys(0, 1)).is_none());
    }

    #[test]
    fn the_raw_lane_is_used_for_what_is_small_once_it_has_answered() {
        let mut remote = Remote::new(addresses(), FlowSettings::default());
        assert_eq!((lane(&remote, false), lane(&remote, true)), (Some(Lane::Udp), Some(Lane::Udp)));
        assert!(!remote.uses_both());
        assert!(remote.poll_question(Lane::Udp, Instant(0), || keys(0, 1)).is_none(), "UDP is believed in");
        ask(&mut remote, Lane::Raw, Instant(0));
        assert_eq!((lane(&remote, false), lane(&remote, true)), (Some(Lane::Raw), Some(Lane::Udp)));
        assert!(remote.uses_both());
    }

    #[test]
    fn a_lane_that_does_not_answer_leaves_everything_to_the_other() {
        let mut remote = Remote::new(addresses(), FlowSettings::default());
        ask(&mut remote, Lane::Raw, Instant(0));
        remote.doubt(Lane::Raw);
        assert_eq!((lane(&remote, false), lane(&remote, true)), (Some(Lane::Udp), Some(Lane::Udp)));
        ask(&mut remote, Lane::Raw, Instant(1));
        remote.doubt(Lane::Udp);
        assert_eq!((lane(&remote, false), lane(&remote, true)), (Some(Lane::Raw), Some(Lane::Raw)));
        // Neither answers: UDP passes routers, frames do not.
        remote.doubt(Lane::Raw);
        assert_eq!(lane(&remote, true), Some(Lane::Udp));
        ask(&mut remote, Lane::Udp, Instant(2));
        ask(&mut remote, Lane::Raw, Instant(2));
        assert_eq!((lane(&remote, false), lane(&remote, true)), (Some(Lane::Raw), Some(Lane::Udp)));
    }

    #[test]
    fn with_one_lane_nothing_is_asked_or_doubted() {
        for addresses in [Lanes { raw: None, ..addresses() }, Lanes { udp: None, ..addresses() }] {
            let mut remote = Remote::new(addresses, FlowSettings::default());
            let only = lane(&remote, true).unwrap();
            remote.doubt(only);
            assert_eq!((lane(&remote, false), remote.next_timeout()), (Some(only), None));
            assert!(LANES.iter().all(|&lane| remote.poll_question(lane, Instant(0), || keys(0, 1)).is_none()));
        }
    }

    #[test]
    fn a_peers_question_is_answered_over_its_lane_only_if_it_is_authentic() {
        let mut remote = Remote::new(addresses(), FlowSettings::default());
        let question = Reach::unknown().poll_question(Instant(0), &keys(1, 0)).unwrap();
        let (to, answer) = remote.handle_reach(Lane::Raw, &question, || keys(0, 1)).unwrap();
        assert_eq!((Some(to), answer.len()), (addresses().raw, SIZE));
        assert!(remote.handle_reach(Lane::Raw, &[0xff; SIZE], || keys(0, 1)).is_none());
        assert_eq!(lane(&remote, false), Some(Lane::Udp), "the peer's question proves nothing here");
    }
}
