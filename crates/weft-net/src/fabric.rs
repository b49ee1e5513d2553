//! Endpoints of libfabric, over any network that its provider leads to.
//!
//! Datagrams (`FI_EP_DGRAM`) are unreliable on purpose, like UDP: the core's flow numbers, acknowledges and
//! retransmits, as the usNIC transport of Open MPI does above the same interface. Where a provider has no
//! datagrams, its reliable messages (`FI_EP_RDM`) carry the packets. The flow then finds nothing to
//! retransmit, and costs a header, a tag and an acknowledgement.
//!
//! The library is opened when the link is: a program that does not name the link does not need the library.

mod api;
mod choice;
mod endpoint;
mod packets;
mod placement;
mod rails;

use std::io;
use std::ops::Range;

use weft_core::rails::RAILS_MAX;
use weft_engine::memory::UserData;

use crate::Error;
use crate::carrier::{
    Address, Arrival, Begun, Carrier, CarrierAttributes, Delivery, Diagnostics, FabricAddress, Look, Outcome,
    Placement, Proof, Registration, RemoteMemory, RemoteMemoryAccess, send_one_by_one, wrong_address,
};
use crate::udp::{self, PACKET_SIZE_MIN};
use api::Library;
use choice::{Choice, choose};
use endpoint::{ADDRESS_BYTES_MAX, Endpoint, Offers, Sent};
pub use endpoint::{Kind, Offer};
pub use rails::FabricRails;
use weft_engine::regions::AccessKind;

/// Fewest packets of a window.
const WINDOW_PACKETS_MIN: u32 = 4;

/// Settings by which the endpoint is made.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The provider (`WEFT_FABRIC_PROVIDER`). None: the first that the library offers and that leads to other
    /// hosts.
    pub provider: Option<String>,
    /// Interfaces, named as for UDP, for providers whose addresses are those of interfaces.
    pub interfaces: Option<String>,
    /// True if the provider does not write to memory of peers, even if it could.
    pub without_placement: bool,
}

/// The word by which an endpoint address says that packets arrive once and in order.
const ORDERED: &str = "ordered";
const UNORDERED: &str = "packets";
/// The word for an ordered endpoint that also writes large messages to the receiver's memory.
const PLACING: &str = "placing";

/// Smallest message that is written to the receiver's memory. A smaller message is as quick as packets: an
/// announced message needs a key to be told, and a frame at the end.
const PLACED_MIN: u64 = 32 << 10;
/// Smallest one-sided operation that the provider does. From this size on, an operation is slower as a
/// message of its own, which is announced first (docs/design/fabric.md).
const ONE_SIDED_MIN: u64 = 32 << 10;

/// The endpoint address of this end: the facts that peers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAddress {
    /// The provider. Only the same provider understands the address.
    pub provider: String,
    /// True if the provider delivers every packet once and in order, and no faults are injected: a connection
    /// will do, without a flow.
    pub ordered: bool,
    /// True if the provider writes to memory of peers by itself, and lets theirs write to memory here.
    pub has_remote_memory: bool,
    /// Bytes of a packet.
    pub packet_size: u16,
    /// Packets that may be on their way to this end.
    pub window_packets: u32,
    /// Index of the interface among those that are offered, from 0; without addresses of IP, the index of the
    /// endpoint.
    pub rail: u8,
    /// The address, in the provider's form.
    pub address: Vec<u8>,
}

impl EndpointAddress {
    /// Encodes the address as peers are told it: without commas and spaces.
    pub fn encode(&self) -> String {
        use std::fmt::Write;
        let Self { provider, ordered, has_remote_memory, packet_size, window_packets, rail, address } = self;
        let kind = match (ordered, has_remote_memory) {
            (true, true) => PLACING,
            (true, false) => ORDERED,
            (false, _) => UNORDERED,
        };
        let mut text = format!("{provider}:{kind}:{packet_size}:{window_packets}:{rail}:");
        // Writing to a string cannot fail.
        address.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        text
    }

    /// Decodes an endpoint address. The text is a peer's: nothing in it is trusted.
    ///
    /// # Errors
    /// The text is no endpoint address.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Peer(format!("'{text}' is no address of libfabric"));
        let mut parts = text.rsplitn(6, ':');
        let mut part = || parts.next().ok_or_else(wrong);
        let (address, rail, window) = (part()?, part()?, part()?);
        let (size, kind, provider) = (part()?, part()?, part()?);
        let (ordered, has_remote_memory) = match kind {
            PLACING => (true, true),
            ORDERED => (true, false),
            UNORDERED => (false, false),
            _ => return Err(wrong()),
        };
        let packet_size = size.parse().map_err(|_| wrong())?;
        let window_packets = window.parse().map_err(|_| wrong())?;
        let rail = rail.parse().map_err(|_| wrong())?;
        if address.len() % 2 != 0 || address.len() > 2 * ADDRESS_BYTES_MAX || !address.is_ascii() {
            return Err(wrong());
        }
        let byte = |at| u8::from_str_radix(&address[at..at + 2], 16).map_err(|_| wrong());
        let address = (0..address.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
        let fits = usize::from(packet_size) >= PACKET_SIZE_MIN && window_packets >= WINDOW_PACKETS_MIN;
        fits.then(|| Self {
            provider: provider.to_owned(),
            ordered,
            has_remote_memory,
            packet_size,
            window_packets,
            rail,
            address,
        })
        .ok_or_else(wrong)
    }
}

/// The libfabric of this machine, and the choice that the link would make.
#[derive(Clone, Debug)]
pub struct Considered {
    /// Major and minor version of the library.
    pub version: (u32, u32),
    /// The offers of its providers, in the library's order.
    pub offers: Vec<Offer>,
    /// Indices of the offers that would be used, one for each rail, the better ones first; or why none would
    /// be.
    pub chosen: Result<Vec<usize>, String>,
    /// The reason why usable interfaces are not used, if there are any.
    pub left_out: Option<String>,
    /// The writes that the provider does to the receiver's memory, or why it does none.
    pub placement: Result<Placement, &'static str>,
}

/// Returns the libfabric of this machine, and the choice that the settings would make.
///
/// # Errors
/// There is no libfabric, or it has no such provider: a sentence.
pub fn consider(settings: &Settings) -> Result<Considered, Error> {
    let library = library()?;
    let lists = offers(library, settings)?;
    let offers: Vec<Offer> = lists.iter().flat_map(Offers::iter).map(|(offer, _)| offer).collect();
    let (chosen, left_out) = match choose(settings, &offers) {
        Ok(Choice { rails, left_out }) => (Ok(rails.iter().map(|rail| rail.index).collect()), left_out),
        Err(error) => (Err(error.to_string()), None),
    };
    let placement = match chosen.as_ref().map(|indices: &Vec<usize>| &offers[indices[0]]) {
        Ok(offer) if offer.kind != Kind::Ordered => Err("it does not keep the order of messages"),
        Ok(_) if settings.without_placement => Err("WEFT_FABRIC_PLACEMENT or WEFT_SEALED says so"),
        Ok(offer) if Offers::placing(library, offer).is_none() => Err("it has no remote writes (FI_RMA)"),
        Ok(offer) => Ok(placing(offer)),
        Err(_) => Err("no provider is chosen"),
    };
    Ok(Considered { version: library.version(), offers, chosen, left_out, placement })
}

/// Returns what the endpoints of this provider place by themselves, if it has remote writes and keeps the
/// order of messages.
fn placing(offer: &Offer) -> Placement {
    Placement {
        writes: true,
        reads: true,
        bytes_max: offer.message_max as u64,
        bytes_min: PLACED_MIN,
        // Over `tcp` nothing is gained below the limit that all links have (docs/design/rdma.md).
        eager_max: u64::MAX,
        one_sided_min: ONE_SIDED_MIN,
        proof: Proof::Answer,
        tells: false,
        unasked: false,
    }
}

fn library() -> Result<&'static Library, Error> {
    let missing = |why| {
        Error::Unavailable(format!(
            "libfabric is not to be had ({why}): install it (Debian: libfabric1), or name another link in WEFT_LINK"
        ))
    };
    Library::get().map_err(missing)
}

/// Returns the library's offers, datagrams first: over them the flow sees a loss, and retransmits within
/// microseconds.
fn offers(library: &'static Library, settings: &Settings) -> Result<Vec<Offers>, Error> {
    let provider = settings.provider.as_deref();
    let list = |kind| Offers::new(library, kind, provider);
    let reliable = list(Kind::Ordered).or_else(|_| list(Kind::Reliable));
    let (lists, refusals): (Vec<_>, Vec<_>) = [list(Kind::Datagrams), reliable].into_iter().partition(Result::is_ok);
    let lists: Vec<Offers> = lists.into_iter().flatten().collect();
    if !lists.is_empty() {
        return Ok(lists);
    }
    let why = refusals.into_iter().find_map(Result::err).unwrap_or_default();
    let (whose, not) = match provider {
        Some(name) => (format!("libfabric's provider '{name}'"), "has no"),
        None => ("no provider of libfabric".to_owned(), "has"),
    };
    Err(Error::Unavailable(format!(
        "{whose} {not} endpoints here ({why}): `fi_info` shows what there is, and WEFT_FABRIC_PROVIDER chooses"
    )))
}

/// Returns the most bytes of a packet. A packet that is not cut on its way costs less the longer it is. But a
/// layer such as `ofi_rxm` asks the receiver first when a message is longer than its buffers of 16 KiB.
fn longest_packet(offer: &Offer) -> usize {
    match offer.kind {
        Kind::Ordered | Kind::Reliable if !offer.provider.contains(';') => weft_core::flow::PACKET_SIZE_MAX,
        Kind::Ordered | Kind::Reliable | Kind::Datagrams => udp::PACKET_SIZE_MAX,
    }
}

/// Opens the endpoint of an offer so that it also writes to memory of peers. `None`: it cannot, or the
/// settings forbid it.
fn open_placing(library: &'static Library, settings: &Settings, chosen: &Offer, longest: usize) -> Option<Endpoint> {
    if chosen.kind != Kind::Ordered || settings.without_placement {
        return None;
    }
    let placing = Offers::placing(library, chosen)?;
    let offer = placing.iter().find(|(offer, _)| offer == chosen)?;
    Endpoint::open(library, offer, longest, true).ok()
}

/// The link over one open endpoint of libfabric.
pub struct Fabric {
    endpoint: Endpoint,
    attributes: CarrierAttributes,
    window_packets: u32,
    /// Number of this endpoint among those of the process.
    number: u8,
    /// Index of the interface that the endpoint is on.
    rail: u8,
}

impl Fabric {
    /// Opens the best of the endpoints that the settings name.
    ///
    /// # Errors
    /// There is no libfabric or no provider for it, or the provider fails: a sentence that names it and the
    /// call.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let mut all = Self::open_most(settings, 1)?;
        Ok(all.remove(0))
    }

    /// Opens all endpoints that the settings name, at least one: one on each rail, the better ones first.
    ///
    /// # Errors
    /// As for [`Fabric::open`].
    pub fn open_all(settings: &Settings) -> Result<Vec<Self>, Error> {
        Self::open_most(settings, RAILS_MAX)
    }

    fn open_most(settings: &Settings, most: usize) -> Result<Vec<Self>, Error> {
        let library = library()?;
        let lists = offers(library, settings)?;
        let all: Vec<Offer> = lists.iter().flat_map(Offers::iter).map(|(offer, _)| offer).collect();
        let rails = choose(settings, &all)?.rails;
        let open = |(chosen, number): (&choice::Rail, u8)| {
            let offer = lists.iter().flat_map(Offers::iter).nth(chosen.index).expect("it is one of them");
            Self::open_on(library, settings, offer, number, chosen.rail)
        };
        rails.iter().take(most).zip(0..).map(open).collect()
    }

    fn open_on(
        library: &'static Library,
        settings: &Settings,
        offer: (Offer, *mut api::Info),
        number: u8,
        rail: u8,
    ) -> Result<Self, Error> {
        let longest = longest_packet(&offer.0);
        let endpoint = open_placing(library, settings, &offer.0, longest)
            .map_or_else(|| Endpoint::open(library, offer, longest, false), Ok)
            .map_err(Error::Unavailable)?;
        if endpoint.packet_size < PACKET_SIZE_MIN {
            let (size, provider) = (endpoint.packet_size, &endpoint.offer.provider);
            return Err(Error::Unavailable(format!(
                "libfabric's provider {provider} takes packets of {size} bytes, and {PACKET_SIZE_MIN} is the least"
            )));
        }
        let window_packets = endpoint.receives().max(WINDOW_PACKETS_MIN);
        let attributes = CarrierAttributes {
            delivery: if endpoint.offer.kind == Kind::Ordered { Delivery::Ordered } else { Delivery::Unreliable },
            descriptor: endpoint.descriptor,
            remote_memory: endpoint.has_remote_memory().then(|| placing(&endpoint.offer)),
            ..CarrierAttributes::packets("fabric", endpoint.packet_size, Look::SystemCall)
        };
        Ok(Self { endpoint, attributes, window_packets, number, rail })
    }

    /// Returns the endpoint address that peers need.
    pub fn endpoint_address(&self) -> EndpointAddress {
        EndpointAddress {
            provider: self.endpoint.offer.provider.clone(),
            ordered: self.attributes.delivery == Delivery::Ordered,
            has_remote_memory: self.attributes.remote_memory.is_some(),
            packet_size: self.endpoint.packet_size as u16,
            window_packets: self.window_packets,
            rail: self.rail,
            address: self.endpoint.address.clone(),
        }
    }

    /// Returns the address of this end.
    pub fn own_address(&self) -> Address {
        Address::Fabric(FabricAddress { endpoint: self.number, name: 0, ip: self.endpoint.own_ip() })
    }

    /// Returns the index of the interface that the endpoint is on, among those that are offered.
    pub fn rail(&self) -> u8 {
        self.rail
    }

    /// Returns the provider's offer that is used.
    pub fn offer(&self) -> &Offer {
        &self.endpoint.offer
    }

    /// Returns whether there is a descriptor to sleep on. Without one a waiter looks again and again.
    pub fn can_sleep(&self) -> bool {
        self.endpoint.descriptor.is_some()
    }

    /// Returns a warning that the user should read, if there is one.
    pub fn warning(&self) -> Option<String> {
        let provider = &self.endpoint.offer.provider;
        let what = "has nothing to sleep on: whoever waits uses its processor";
        (!self.can_sleep()).then(|| format!("libfabric's provider {provider} {what}"))
    }

    /// Learns the address of a peer.
    ///
    /// # Errors
    /// The provider does not understand the address: a sentence.
    pub fn address_of(&mut self, peer: &EndpointAddress) -> Result<Address, Error> {
        let own = self.endpoint.offer.provider.clone();
        if peer.provider != own {
            let theirs = &peer.provider;
            return Err(Error::Peer(format!(
                "libfabric's provider is {own} here and {theirs} there: WEFT_FABRIC_PROVIDER must name one that both have"
            )));
        }
        match self.endpoint.insert(&peer.address) {
            Ok((name, ip)) => Ok(Address::Fabric(FabricAddress { endpoint: self.number, name, ip })),
            Err(why) => Err(Error::Peer(format!("libfabric's provider {own} does not take the peer's address: {why}"))),
        }
    }
}

impl Carrier for Fabric {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Fabric(to) = to else { return Err(wrong_address()) };
        if packet.len() > self.endpoint.packet_size {
            return Ok(Outcome::TooLarge);
        }
        Ok(match self.endpoint.send(to.name, packet) {
            Sent::Taken => Outcome::Sent,
            Sent::Full => Outcome::WouldBlock,
            Sent::Lost | Sent::Refused => Outcome::Dropped,
        })
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.endpoint.receive(&mut |packet| on_arrival(Arrival::packet(packet)), limit)
    }

    fn prepare_sleep(&mut self) -> bool {
        self.endpoint.arm()
    }

    fn diagnostics(&self) -> Diagnostics {
        let describe = |(call, error)| {
            let (provider, why) = (&self.endpoint.offer.provider, self.endpoint.describe(error));
            format!("libfabric's provider {provider}, {call}: {why}")
        };
        let last_refusal = self.endpoint.last_error.map(describe);
        Diagnostics { rejected: self.endpoint.errors, last_refusal, ..Diagnostics::default() }
    }

    fn under_way(&self, to: &Address) -> usize {
        match to {
            Address::Fabric(to) => self.endpoint.under_way(to.name),
            _ => 0,
        }
    }

    fn take_broken(&mut self) -> Option<Address> {
        let name = self.endpoint.take_broken()?;
        let ip = self.endpoint.ip_of(name);
        Some(Address::Fabric(FabricAddress { endpoint: self.number, name, ip }))
    }

    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        if self.attributes.remote_memory.is_some() { Some(self) } else { None }
    }
}

impl RemoteMemoryAccess for Fabric {
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        self.endpoint.expose(data, length)
    }

    fn deregister(&mut self, registration: Registration) {
        self.endpoint.conceal(registration);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, there: RemoteMemory, number: u64) -> Begun {
        let Address::Fabric(to) = to else { return Begun::Never };
        self.endpoint.access(to.name, AccessKind::Write, data, range, there, number)
    }

    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, there: RemoteMemory, number: u64) -> Begun {
        let Address::Fabric(to) = to else { return Begun::Never };
        self.endpoint.access(to.name, AccessKind::Read, data, range, there, number)
    }

    fn poll_completion(&mut self) -> Option<u64> {
        self.endpoint.poll_placed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::receive_packets;
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(20);

    /// Opens two endpoints over loopback that send nothing at once, as with a provider whose limit for that
    /// is 0; none without libfabric.
    fn pair(provider: &str) -> Option<[Fabric; 2]> {
        let settings =
            Settings { provider: Some(provider.into()), interfaces: Some("lo".into()), ..Settings::default() };
        if let Err(why) = consider(&settings) {
            eprintln!("left out: {why}");
            return None;
        }
        Some([(); 2].map(|()| {
            let mut fabric = Fabric::open(&settings).expect("an endpoint");
            fabric.endpoint.without_inject();
            fabric
        }))
    }

    #[test]
    fn packets_that_do_not_leave_at_once_keep_their_bytes_until_they_have() {
        for provider in ["udp", "tcp"] {
            let Some([mut near, mut far]) = pair(provider) else { continue };
            let to = near.address_of(&far.endpoint_address()).expect("an address");
            let (mut sent, mut arrived, began) = (0_u32, Vec::new(), Instant::now());
            while arrived.len() < 1000 {
                assert!(began.elapsed() < LIMIT, "{provider}: {} of {sent} packets have arrived", arrived.len());
                // The contents of the sender's buffer change at once.
                let mut packet = [sent.to_le_bytes(), (!sent).to_le_bytes()].concat();
                if sent < 1000 && sent - (arrived.len() as u32) < 100 {
                    match near.send(&to, &packet).expect("a verdict") {
                        Outcome::Sent => sent += 1,
                        Outcome::WouldBlock => assert_eq!(near.diagnostics().last_refusal, None, "{provider}"),
                        // The packet is dropped before packets for other peers are held up for long.
                        Outcome::Dropped => {
                            assert!(near.diagnostics().last_refusal.is_some_and(|why| why.contains("fi_send")))
                        }
                        Outcome::TooLarge => panic!("{provider}: eight bytes are not too many"),
                    }
                    packet.fill(0xee);
                }
                receive_packets(&mut near, &mut |_| panic!("nobody sends here"), 16);
                receive_packets(&mut far, &mut |packet| arrived.push(packet.to_vec()), 16);
            }
            let expected: Vec<Vec<u8>> =
                (0..1000_u32).map(|number| [number.to_le_bytes(), (!number).to_le_bytes()].concat()).collect();
            assert_eq!(arrived, expected, "{provider}");
        }
    }
}
