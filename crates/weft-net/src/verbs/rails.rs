//! The RDMA devices of a process as one link.
//!
//! | traffic | goes |
//! |---|---|
//! | packets of a peer, small accesses | by one rail, in order; peers are spread over rails ([`table`]) |
//! | large accesses | a stripe by each rail ([`super::stripes`]); complete with the last ([`accesses`]) |
//! | a peer that a rail no longer reaches | by its other rails, if no packet can be lost ([`failures`]) |
//!
//! A packet that is sent after a write has been reported complete arrives behind the write, though another
//! rail carried the write. A device of iWARP reports a write when the write has left. There, a rail that does
//! not carry the peer's packets reads a byte behind each stripe first. So a proof of a write on the rail of
//! the packets proves all stripes.
//!
//! A stripe whose rail has failed is repeated on another rail. A read is repeated at once. A write is
//! repeated when the peer has said that it has dropped its end of the connection: until then the old write
//! might still arrive, and overwrite what is written later.

mod accesses;
mod failures;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use weft_core::time::Duration;
use weft_engine::memory::UserData;
use weft_engine::regions::AccessKind;

use super::choice::{Chosen, choose};
use super::stripes::{STRIPE_MIN, stripes};
use super::{EndpointAddress, GROUP, RAILS_MAX, Settings, Verbs, library};
use crate::carrier::{
    Address, Arrival, Begun, Carrier, CarrierAttributes, Diagnostics, Multicast, Outcome, Placement, Proof,
    Registration, RemoteMemory, RemoteMemoryAccess, VerbsAddress, send_one_by_one, wrong_address,
};
use crate::udp::Candidate;
use crate::{Error, clock, watch};
use accesses::{Accesses, Phase};
use failures::{Gone, Verdict, verdict};
use table::{Path, Peer, Table};

/// Number of looks in which the clock is read once, to find accesses that take too long. A power of two.
const STALLED_EVERY: u32 = 1024;

/// A rail: a carrier that also does what a link of several rails needs. Its peers have numbers of its own.
pub trait Rail: Carrier {
    /// Returns the address where the rail listens.
    fn candidate(&self) -> Candidate;

    /// Learns where a peer's rail listens, and the token that a request for a connection must show.
    fn meet(&mut self, listens: SocketAddr, token: u64) -> VerbsAddress;

    /// Ends the connection to a peer for good, with all accesses: the peer reads and writes no memory of this
    /// process by it any more. The rail tells nobody.
    fn abandon(&mut self, peer: u32);

    /// Tells a peer that this process has dropped its end of these rails of the peer, each a bit of `rails`.
    /// Returns `false` when that is not possible now. A message that was taken arrives, or the connection is
    /// broken.
    fn tell_dropped(&mut self, peer: u32, rails: u16) -> bool;

    /// Returns a peer that says it has dropped rails, and these rails of this process.
    fn poll_dropped(&mut self) -> Option<(u32, u16)>;
}

/// A registration of the same memory on each rail.
type Registrations = [Option<Registration>; RAILS_MAX];

/// The RDMA devices of a process, as a single link.
pub struct VerbsRails<R: Rail = Verbs> {
    rails: Vec<R>,
    table: Table,
    accesses: Accesses,
    /// For each rail, whether the device reports a write as soon as the write has left.
    tells_early: Vec<bool>,
    registered: Vec<Option<Registrations>>,
    free_registered: Vec<u32>,
    /// Peers that this process has to tell of dropped rails.
    telling: Vec<usize>,
    broken: VecDeque<Address>,
    last_error: Option<String>,
    /// The memory that proofs are read to.
    proof: UserData,
    endpoint_address: EndpointAddress,
    access_limit: Duration,
    looks: u32,
    /// Descriptor that is readable when the descriptor of one of several rails is.
    _wake: Option<OwnedFd>,
    attributes: CarrierAttributes,
}

impl VerbsRails {
    /// Opens the devices that the settings name.
    ///
    /// # Errors
    /// No device is there, or the first one cannot do what the link needs: a sentence that names the device
    /// and the call.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let library = library()?;
        // No other process can guess the token.
        let token = RandomState::new().hash_one((std::process::id(), clock::now().0));
        let opened = choose(library, settings)?.into_iter().map(|found| Verbs::open(library, found, settings, token));
        Self::new(opened.collect::<Result<_, _>>()?, token, settings.access_limit)
    }

    /// Returns the devices and their interfaces.
    pub fn chosen(&self) -> impl Iterator<Item = &Chosen> {
        self.rails.iter().map(|rail| &rail.chosen)
    }

    /// Describes in words how the connections are made.
    pub fn describe(&self) -> String {
        let rail = |rail: &Verbs| {
            let Chosen { interface, address, .. } = &rail.chosen;
            format!("{}, on {interface} ({})", rail.describe(), address.ip())
        };
        let all: Vec<String> = self.rails.iter().map(rail).collect();
        let striped =
            format!("; large accesses to memory of peers, from {} KiB on, by all of them", 2 * STRIPE_MIN / 1024);
        all.join(", and ") + if all.len() > 1 { &striped } else { "" }
    }

    /// Says in words that registrations are kept, or why not.
    pub fn registration_cache(&self) -> String {
        self.rails.first().map(Verbs::registration_cache).unwrap_or_default()
    }

    /// Returns why registrations are not kept, if the settings wish for it: for all devices alike.
    pub fn warning(&self) -> Option<String> {
        self.rails.first()?.warning()
    }

    /// Returns the bytes of the longest datagram that the device of the first rail multicasts. It tries
    /// whether the device can multicast.
    ///
    /// # Errors
    /// The device cannot multicast: a clause that says why.
    pub fn multicast(&mut self) -> Result<usize, String> {
        self.rails.first_mut().map_or(Err("there is no device".to_owned()), Verbs::multicast)
    }

    /// Returns which messages are written to the receiver's memory; `None` if none are.
    pub fn written(&self) -> Option<Placement> {
        self.attributes.remote_memory.filter(|placement| placement.bytes_min < u64::MAX)
    }
}

impl<R: Rail> VerbsRails<R> {
    /// Makes a link of these rails, at least one, whose peers show this token.
    fn new(rails: Vec<R>, token: u64, access_limit: Duration) -> Result<Self, Error> {
        let all = || rails.iter().map(|rail| *rail.attributes());
        let descriptors: Option<Vec<RawFd>> = all().map(|attributes| attributes.descriptor).collect();
        let wake = descriptors.filter(|_| rails.len() > 1).map(|descriptors| watch::any_of(&descriptors)).transpose();
        let wake = wake.map_err(|cause| Error::system("watch RDMA devices", cause))?;
        let packet_size = all().map(|attributes| attributes.packet_size).min().unwrap_or(0);
        let placements: Vec<Option<Placement>> = all().map(|attributes| attributes.remote_memory).collect();
        let tells_early = |placement: &Option<Placement>| placement.is_some_and(|one| one.proof == Proof::Read);
        let placement = placements.iter().copied().reduce(|one, other| Some(weaker(one?, other?))).flatten();
        let has_remote_memory = placement.is_some();
        let candidates = rails.iter().map(Rail::candidate).collect();
        let first = rails[0].attributes();
        let attributes = CarrierAttributes {
            name: "verbs",
            packet_size,
            train_bytes: packet_size,
            descriptor: wake.as_ref().map_or(first.descriptor, |wake| Some(wake.as_raw_fd())),
            remote_memory: placement,
            // The first rail multicasts.
            ..*first
        };
        Ok(Self {
            tells_early: placements.iter().map(tells_early).collect(),
            endpoint_address: EndpointAddress {
                rails: candidates,
                token,
                has_remote_memory,
                packet_size: packet_size as u16,
            },
            rails,
            table: Table::default(),
            accesses: Accesses::default(),
            registered: Vec::new(),
            free_registered: Vec::new(),
            telling: Vec::new(),
            broken: VecDeque::new(),
            last_error: None,
            proof: UserData::leaked(1),
            access_limit,
            looks: 0,
            _wake: wake,
            attributes,
        })
    }

    /// Returns the endpoint address that peers need.
    pub fn endpoint_address(&self) -> EndpointAddress {
        self.endpoint_address.clone()
    }

    /// Returns the address of this end, by its first rail.
    pub fn own_address(&self) -> Address {
        let listens = self.endpoint_address.rails[0].socket_address();
        Address::Verbs(VerbsAddress { peer: u32::MAX, listens })
    }

    /// Learns the address of a peer. `spread` says over which rail the peer's packets go: half the sum of the
    /// ranks of both ends.
    ///
    /// # Errors
    /// No rail leads to the peer, or the peer is this process: a sentence.
    pub fn address_of(&mut self, peer: &EndpointAddress, spread: u32) -> Result<Address, Error> {
        let no_way = |why| Error::Peer(format!("no RDMA connection can be made: {why}"));
        if peer.token == self.endpoint_address.token {
            return Err(no_way("the peer is this process".to_owned()));
        }
        let pairs = table::pairs(&self.endpoint_address, peer).map_err(no_way)?;
        let paths: Vec<Path> = pairs
            .iter()
            .map(|pair| {
                let rail = usize::from(pair.own.rail);
                let to = self.rails[rail].meet(pair.to, peer.token);
                let far = usize::from(pair.peer.rail);
                Path { rail, far, to, speed: pair.speed(), is_dead: false, peer_dropped: false }
            })
            .collect();
        if let Some((known, _)) = self.table.behind(paths[0].rail, paths[0].to.peer) {
            return Ok(self.table.peers[known].address);
        }
        let first = table::first(spread, paths.len());
        Ok(self.table.insert(paths, first))
    }

    /// Returns the addresses of both ends of each rail to a peer, those of the packets' rail first; for
    /// people.
    pub fn paths(&self, to: &Address) -> Vec<(SocketAddr, SocketAddr)> {
        let Some(peer) = self.table.find(to) else { return Vec::new() };
        let Peer { paths, first, .. } = &self.table.peers[peer];
        let ends = |path: &Path| (self.endpoint_address.rails[path.rail].socket_address(), path.to.listens);
        let rest = paths.iter().enumerate().filter(|(index, _)| index != first).map(|(_, path)| path);
        std::iter::once(&paths[*first]).chain(rest).map(ends).collect()
    }

    // ---- accesses

    fn access(
        &mut self,
        to: &Address,
        kind: AccessKind,
        (data, range): (&UserData, Range<u64>),
        target: RemoteMemory,
        number: u64,
    ) -> Begun {
        let Some(peer) = self.table.find(to).filter(|peer| !self.table.peers[*peer].is_lost) else {
            return Begun::Never;
        };
        // Stripes that wait go first, so that no more than a few wait.
        if self.accesses.are_waiting() {
            return Begun::NotNow;
        }
        let (mut paths, mut speeds, mut count) = ([0; RAILS_MAX], [0; RAILS_MAX], 0);
        for (path, _) in self.table.peers[peer].paths_to(target.key).take(RAILS_MAX) {
            (paths[count], speeds[count]) = (path, self.table.peers[peer].paths[path].speed);
            count += 1;
        }
        if count == 0 {
            return Begun::Never;
        }
        let parts = stripes(target.address, range.end - range.start, &speeds[..count]);
        let access = self.accesses.open((number, peer), kind, (data.clone(), range.start), target);
        let mut has_begun = false;
        // The rail of packets is last: it also takes a part that another rail does not take now, for example
        // because that rail is not connected yet.
        for index in (0..count).rev().filter(|index| !parts[*index].is_empty() || range.is_empty() && *index == 0) {
            let part = &parts[index];
            let stripe = self.accesses.add(access, part.clone(), paths[index]);
            let mut begun = self.begin(stripe, paths[index]);
            if begun != Begun::Yes && index > 0 {
                begun = self.begin(stripe, paths[0]);
            }
            match begun {
                Begun::Yes => {}
                _ if has_begun => self.accesses.wait(stripe, Phase::Waiting),
                refused => {
                    self.accesses.take_back(stripe);
                    self.accesses.withdraw(access);
                    return refused;
                }
            }
            has_begun = true;
            self.table.peers[peer].stripes += 1;
        }
        Begun::Yes
    }

    /// Gives a stripe to a rail that leads to its peer.
    fn begin(&mut self, stripe: u64, path: usize) -> Begun {
        let Self { table, accesses, rails, access_limit, .. } = self;
        let is_timed = access_limit.0 > 0;
        let Some((found, access)) = accesses.find(stripe) else { return Begun::Never };
        let peer = &mut table.peers[access.peer];
        let Path { rail, far, .. } = peer.paths[path];
        let Some(key) = table::key_of(access.target.key, far) else { return Begun::Never };
        let to = peer.paths[path].address();
        let address = access.target.address.wrapping_add(found.range.start);
        let there = RemoteMemory { key: u64::from(key), address };
        let here = access.start + found.range.start..access.start + found.range.end;
        let begun = match (rails[rail].rma(), access.kind) {
            (Some(rma), AccessKind::Write) => rma.write(&to, &access.data, here, there, stripe),
            (Some(rma), AccessKind::Read) => rma.read(&to, &access.data, here, there, stripe),
            (None, _) => Begun::Never,
        };
        if begun == Begun::Yes {
            let is_first = path == peer.first;
            peer.has_used |= is_first;
            (found.path, found.phase) = (path, Phase::Moving);
            // A failure of the rail of packets is noticed by those that wait for the packets.
            found.since = (is_timed && !is_first).then(clock::now);
        }
        begun
    }

    /// Takes note that a rail has finished the work with this number.
    fn note_over(&mut self, stripe: u64) {
        let Some((found, access)) = self.accesses.find(stripe) else { return };
        let peer = &self.table.peers[access.peer];
        let is_shown = found.phase == Phase::Proving
            || access.kind == AccessKind::Read
            || found.path == peer.first
            || !self.tells_early[peer.paths[found.path].rail];
        if !is_shown || found.phase == Phase::Stranded {
            if found.phase == Phase::Moving {
                self.prove(stripe);
            }
            return;
        }
        if let Some(peer) = self.accesses.end(stripe) {
            self.table.peers[peer].stripes -= 1;
        }
    }

    /// Reads behind a stripe that has been written.
    fn prove(&mut self, stripe: u64) {
        let Some((found, access)) = self.accesses.find(stripe) else { return };
        let path = &self.table.peers[access.peer].paths[found.path];
        let Some(key) = table::key_of(access.target.key, path.far) else { return };
        let address = access.target.address.wrapping_add(found.range.start);
        let there = RemoteMemory { key: u64::from(key), address };
        let rma = self.rails[path.rail].rma();
        match rma.map_or(Begun::Never, |rma| rma.read(&path.address(), &self.proof, 0..1, there, stripe)) {
            Begun::Yes => found.phase = Phase::Proving,
            Begun::NotNow | Begun::Never => self.accesses.wait(stripe, Phase::WaitingToProve),
        }
    }

    /// Gives waiting stripes to rails.
    fn begin_waiting(&mut self) {
        for _ in 0..self.accesses.count_waiting() {
            let Some((stripe, phase)) = self.accesses.next_waiting() else { return };
            if phase == Phase::WaitingToProve {
                self.prove(stripe);
                continue;
            }
            let Some((_, access)) = self.accesses.find(stripe) else { continue };
            let peer = access.peer;
            let key = access.target.key;
            let path = self.table.peers[peer].paths_to(key).next();
            let begun = match path {
                Some((path, _)) => self.begin(stripe, path),
                None => Begun::Never,
            };
            match begun {
                Begun::Yes => {}
                // Stripes that are under way have memory registered, which will be free.
                Begun::Never if !self.accesses.are_under_way() => {
                    let why = self
                        .rails
                        .iter()
                        .find_map(|rail| rail.diagnostics().last_refusal)
                        .unwrap_or_else(|| "no rail is left that may access its memory".to_owned());
                    self.lose(peer, &why);
                }
                Begun::NotNow | Begun::Never => self.accesses.wait(stripe, Phase::Waiting),
            }
        }
    }

    // ---- what fails

    /// Takes a rail's news: connections that are gone, and rails that peers say they have dropped.
    fn look_after(&mut self, rail: usize) {
        while let Some(broken) = self.rails[rail].take_broken() {
            let Address::Verbs(VerbsAddress { peer, .. }) = broken else { continue };
            let Some((peer, path)) = self.table.behind(rail, peer) else { continue };
            let why = self.rails[rail].diagnostics().last_refusal.unwrap_or_default();
            self.end_path(peer, path, &why);
        }
        while let Some((peer, dropped)) = self.rails[rail].poll_dropped() {
            let Some((peer, _)) = self.table.behind(rail, peer) else { continue };
            for path in 0..self.table.peers[peer].paths.len() {
                let Path { rail, .. } = self.table.peers[peer].paths[path];
                if dropped >> rail & 1 == 1 {
                    self.table.peers[peer].paths[path].peer_dropped = true;
                    self.end_path(peer, path, "the peer has dropped its end");
                    self.accesses.strand(peer, path, true);
                }
            }
        }
    }

    /// Ends a path to a peer.
    fn end_path(&mut self, peer: usize, path: usize, why: &str) {
        let entry = &mut self.table.peers[peer];
        let Path { rail, far, to, is_dead, peer_dropped, .. } = entry.paths[path];
        if is_dead || entry.is_lost {
            return;
        }
        entry.paths[path].is_dead = true;
        let other = entry.paths.iter().position(|path| !path.is_dead);
        let gone = Gone { is_first: path == entry.first, has_used: entry.has_used, has_others: other.is_some() };
        match (verdict(gone), other) {
            (Verdict::PeerLost, _) | (_, None) => return self.lose(peer, why),
            (Verdict::Moved, Some(other)) => entry.first = other,
            (Verdict::RailLost, Some(_)) => {}
        }
        let own = self.endpoint_address.rails[rail].interface_name();
        self.last_error = Some(format!("{} is reached by {own} no more: {why}", to.listens));
        // The rail gives back this process's memory before another rail gets it.
        self.rails[rail].abandon(to.peer);
        self.accesses.strand(peer, path, peer_dropped);
        if entry.to_tell == 0 {
            self.telling.push(peer);
        }
        entry.to_tell |= 1 << far;
    }

    /// Gives a peer up: the peer's accesses to this process's memory end, and the engine is told.
    fn lose(&mut self, peer: usize, why: &str) {
        let entry = &mut self.table.peers[peer];
        if std::mem::replace(&mut entry.is_lost, true) {
            return;
        }
        for path in &mut entry.paths {
            path.is_dead = true;
            self.rails[path.rail].abandon(path.to.peer);
        }
        self.accesses.forget(peer);
        (entry.stripes, entry.to_tell) = (0, 0);
        self.broken.push_back(entry.address);
        self.last_error = Some(why.to_owned());
    }

    /// Tells peers of the rails that this process has dropped.
    fn tell(&mut self) {
        let Self { telling, table, rails, .. } = self;
        telling.retain(|peer| {
            let peer = &mut table.peers[*peer];
            let path = &peer.paths[peer.first];
            let is_told = peer.to_tell == 0 || rails[path.rail].tell_dropped(path.to.peer, peer.to_tell);
            if is_told {
                (peer.to_tell, peer.has_used) = (0, true);
            }
            !is_told
        });
    }

    /// Gives up rails that do not finish their work, though no device says so: iWARP asks again for a quarter
    /// of an hour.
    fn look_for_stalled(&mut self) {
        if self.access_limit.0 == 0 || self.rails.len() < 2 {
            return;
        }
        while let Some((peer, path)) = self.accesses.stalled(clock::now() - self.access_limit) {
            let why = format!(
                "what it was given {} ms ago is not done (WEFT_PEER_TIMEOUT)",
                self.access_limit.as_micros() / 1000
            );
            self.end_path(peer, path, &why);
        }
    }
}

/// Returns the abilities that both of two rails have.
fn weaker(one: Placement, other: Placement) -> Placement {
    Placement {
        writes: one.writes && other.writes,
        reads: one.reads && other.reads,
        bytes_max: one.bytes_max.min(other.bytes_max),
        bytes_min: one.bytes_min.max(other.bytes_min),
        eager_max: one.eager_max.max(other.eager_max),
        one_sided_min: one.one_sided_min.max(other.one_sided_min),
        // If the two differ, a completion of one rail proves nothing. It does not matter which rail: stripes
        // that such a rail carries beside the rail of packets are proved by reads of their own.
        proof: if one.proof == other.proof { one.proof } else { Proof::Read },
        tells: one.tells && other.tells,
        unasked: false,
    }
}

impl<R: Rail> Carrier for VerbsRails<R> {
    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let peer = self.table.find(to);
        let (rail, address) = match peer {
            Some(peer) => {
                let path = self.table.peers[peer].first_path();
                (path.rail, path.address())
            }
            // The first rail has the groups.
            None if matches!(to, Address::Verbs(VerbsAddress { peer: GROUP, .. })) => (0, *to),
            None => return Err(wrong_address()),
        };
        let outcome = self.rails[rail].send(&address, packet);
        if let (Some(peer), Ok(Outcome::Sent)) = (peer, &outcome) {
            self.table.peers[peer].has_used = true;
        }
        outcome
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.looks = self.looks.wrapping_add(1);
        let (mut packets, count) = (0, self.rails.len());
        // Each look begins with another rail, so that none goes short.
        let first = self.looks as usize % count.max(1);
        for rail in (first..count).chain(0..first) {
            if packets < limit {
                packets += self.rails[rail].receive(on_arrival, limit - packets);
            }
            self.look_after(rail);
        }
        if !self.telling.is_empty() {
            self.tell();
        }
        if self.looks.is_multiple_of(STALLED_EVERY) {
            self.look_for_stalled();
        }
        packets
    }

    fn prepare_sleep(&mut self) -> bool {
        self.look_for_stalled();
        self.telling.is_empty() && self.broken.is_empty() && self.rails.iter_mut().all(Carrier::prepare_sleep)
    }

    fn diagnostics(&self) -> Diagnostics {
        let all = || self.rails.iter().map(Carrier::diagnostics);
        Diagnostics {
            rejected: all().map(|rail| rail.rejected).sum(),
            written: all().map(|rail| rail.written).sum(),
            last_refusal: self.last_error.clone().or_else(|| all().find_map(|rail| rail.last_refusal)),
        }
    }

    #[inline]
    fn under_way(&self, to: &Address) -> usize {
        let Some(peer) = self.table.find(to) else { return 0 };
        let peer = &self.table.peers[peer];
        let of_path = |path: &Path| self.rails[path.rail].under_way(&path.address());
        let of_rails =
            if peer.paths.len() == 1 { of_path(peer.first_path()) } else { peer.paths.iter().map(of_path).sum() };
        // Stripes that no rail has count, too.
        of_rails.max(peer.stripes)
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.broken.pop_front()
    }

    #[inline]
    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        if self.attributes.remote_memory.is_some() { Some(self) } else { None }
    }

    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        self.rails.first_mut()?.multicast()
    }
}

impl<R: Rail> RemoteMemoryAccess for VerbsRails<R> {
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        let (mut keys, mut parts, mut address) = ([0; RAILS_MAX], Registrations::default(), None);
        for (index, rail) in self.rails.iter_mut().enumerate() {
            let Some(rma) = rail.rma() else { continue };
            let Some((registration, memory)) = rma.register(data, length) else { continue };
            match u32::try_from(memory.key) {
                Ok(key) if key != 0 && address.is_none_or(|known| known == memory.address) => {
                    (keys[index], parts[index], address) = (key, Some(registration), Some(memory.address));
                }
                _ => rma.deregister(registration),
            }
        }
        let memory = RemoteMemory { key: table::join_keys(keys), address: address? };
        let index = match self.free_registered.pop() {
            Some(index) => {
                self.registered[index as usize] = Some(parts);
                index
            }
            None => {
                self.registered.push(Some(parts));
                self.registered.len() as u32 - 1
            }
        };
        Some((Registration(index), memory))
    }

    fn deregister(&mut self, Registration(index): Registration) {
        let Some(parts) = self.registered.get_mut(index as usize).and_then(Option::take) else { return };
        for (rail, part) in self.rails.iter_mut().zip(parts) {
            if let (Some(part), Some(rma)) = (part, rail.rma()) {
                rma.deregister(part);
            }
        }
        self.free_registered.push(index);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        self.access(to, AccessKind::Write, (data, range), target, number)
    }

    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        self.access(to, AccessKind::Read, (data, range), target, number)
    }

    #[inline]
    fn poll_completion(&mut self) -> Option<u64> {
        if self.accesses.are_over() {
            return None;
        }
        if let Some(done) = self.accesses.poll() {
            return Some(done);
        }
        for rail in 0..self.rails.len() {
            while let Some(stripe) = self.rails[rail].rma().and_then(|rma| rma.poll_completion()) {
                self.note_over(stripe);
            }
        }
        if self.accesses.are_waiting() {
            self.begin_waiting();
        }
        self.accesses.poll()
    }
}
