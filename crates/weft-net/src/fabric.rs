//! Datagram endpoints of libfabric (`FI_EP_DGRAM`): whatever network a provider of it leads to. Unreliable on purpose, like UDP: the
//! core's flow numbers, acknowledges and retransmits, as the usNIC transport of Open MPI does above the same interface.
//!
//! The library is opened when the link is: who does not name it does not need it.

mod api;
mod endpoint;

use std::io;
use std::os::fd::RawFd;

use crate::Error;
use crate::datagrams::{Address, Datagrams, FabricAddress, Outcome, wrong_address};
use crate::udp::{self, PACKET_SIZE_MAX, PACKET_SIZE_MIN};
use api::Library;
pub use endpoint::Offer;
use endpoint::{ADDRESS_BYTES_MAX, Endpoint, Offers, Sent};

/// Fewest packets that a window may have.
const WINDOW_PACKETS_MIN: u32 = 4;

/// How the endpoint is made.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The provider (`WEFT_FABRIC_PROVIDER`). None: the first that the library offers and that leads somewhere.
    pub provider: Option<String>,
    /// As for UDP, for providers whose addresses are those of interfaces.
    pub interfaces: Option<String>,
}

/// What peers need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Only the same provider understands the address.
    pub provider: String,
    /// Bytes of a packet.
    pub packet_size: u16,
    /// Packets that may be on their way to this end.
    pub window_packets: u32,
    /// As the provider has it.
    pub address: Vec<u8>,
}

impl Card {
    /// As it is told to peers: without commas and spaces.
    pub fn encode(&self) -> String {
        use std::fmt::Write;
        let Self { provider, packet_size, window_packets, address } = self;
        let mut text = format!("{provider}:{packet_size}:{window_packets}:");
        // Writing to a string cannot fail.
        address.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        text
    }

    /// The inverse. The text is a peer's: it is believed in nothing.
    ///
    /// # Errors
    /// It says something else.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Peer(format!("'{text}' is no address of libfabric"));
        let mut parts = text.rsplitn(4, ':');
        let mut part = || parts.next().ok_or_else(wrong);
        let (address, window, size, provider) = (part()?, part()?, part()?, part()?);
        let packet_size = size.parse().map_err(|_| wrong())?;
        let window_packets = window.parse().map_err(|_| wrong())?;
        if address.len() % 2 != 0 || address.len() > 2 * ADDRESS_BYTES_MAX || !address.is_ascii() {
            return Err(wrong());
        }
        let byte = |at| u8::from_str_radix(&address[at..at + 2], 16).map_err(|_| wrong());
        let address = (0..address.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
        let fits = usize::from(packet_size) >= PACKET_SIZE_MIN && window_packets >= WINDOW_PACKETS_MIN;
        fits.then(|| Self { provider: provider.to_owned(), packet_size, window_packets, address }).ok_or_else(wrong)
    }
}

/// What a libfabric on this machine has for datagrams.
#[derive(Clone, Debug)]
pub struct Considered {
    /// Major and minor version of the library.
    pub version: (u32, u32),
    /// What its providers offer, in its order.
    pub offers: Vec<Offer>,
    /// Which of them would be used, or why none.
    pub chosen: Result<usize, String>,
}

/// What the settings would make of the libfabric of this machine.
///
/// # Errors
/// There is none, or it has no such provider: one sentence.
pub fn consider(settings: &Settings) -> Result<Considered, Error> {
    let library = library()?;
    let offers = offers(library, settings)?;
    let offers: Vec<Offer> = offers.iter().map(|(offer, _)| offer).collect();
    let chosen = choose(settings, &offers).map_err(|error| error.to_string());
    Ok(Considered { version: library.version(), offers, chosen })
}

fn library() -> Result<&'static Library, Error> {
    let missing = |why| {
        Error::Unavailable(format!(
            "libfabric is not to be had ({why}): install it (Debian: libfabric1), or name another link in WEFT_LINK"
        ))
    };
    Library::get().map_err(missing)
}

fn offers(library: &'static Library, settings: &Settings) -> Result<Offers, Error> {
    let provider = settings.provider.as_deref();
    Offers::new(library, provider).map_err(|why| {
        let whose = provider.map_or_else(|| "no provider of libfabric".to_owned(), |name| format!("libfabric's provider '{name}'"));
        let not = if provider.is_some() { "has no" } else { "has" };
        Error::Unavailable(format!(
            "{whose} {not} datagram endpoints here ({why}): `fi_info -t FI_EP_DGRAM` shows what there is, WEFT_FABRIC_PROVIDER chooses"
        ))
    })
}

/// Which offer is used: the first that has the best of the interfaces that UDP would use, else the first that has no address of IP.
fn choose(settings: &Settings, offers: &[Offer]) -> Result<usize, Error> {
    let wanted = udp::Settings { interfaces: settings.interfaces.clone(), packet_size_max: None };
    let of_networks = offers.iter().position(|offer| offer.address.is_none() && is_large_enough(offer));
    let first_ip = offers.iter().position(|offer| offer.address.is_some());
    // The library puts its faster providers first.
    if let Some(place) = of_networks.filter(|place| first_ip.is_none_or(|ip| *place < ip)) {
        return Ok(place);
    }
    let candidates = udp::candidates(&wanted)?;
    let at = |ip| offers.iter().position(|offer| offer.address == Some(ip) && is_large_enough(offer));
    candidates.iter().find_map(|candidate| at(candidate.ip)).or(of_networks).ok_or_else(|| {
        let has: Vec<String> = offers.iter().map(|offer| format!("{} on {}", offer.provider, offer.domain)).collect();
        Error::Unavailable(format!(
            "libfabric has datagram endpoints, but none on an interface that may be used: {} (WEFT_INTERFACE chooses)",
            has.join(", ")
        ))
    })
}

fn is_large_enough(offer: &Offer) -> bool {
    offer.message_max >= PACKET_SIZE_MIN
}

/// An open datagram endpoint.
pub struct Fabric {
    endpoint: Endpoint,
    window_packets: u32,
    /// The last error that a packet was refused with.
    last_refusal: Option<i64>,
}

impl Fabric {
    /// Opens the endpoint that the settings mean.
    ///
    /// # Errors
    /// There is no libfabric or no provider for it, or the provider fails: one sentence that names it and the call.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let library = library()?;
        let offers = offers(library, settings)?;
        let all: Vec<Offer> = offers.iter().map(|(offer, _)| offer).collect();
        let chosen = choose(settings, &all)?;
        let offer = offers.iter().nth(chosen).expect("it is one of them");
        let endpoint = Endpoint::open(library, offer, PACKET_SIZE_MAX).map_err(Error::Unavailable)?;
        if endpoint.packet_size < PACKET_SIZE_MIN {
            let (size, provider) = (endpoint.packet_size, &endpoint.offer.provider);
            return Err(Error::Unavailable(format!(
                "libfabric's provider {provider} takes packets of {size} bytes, and {PACKET_SIZE_MIN} is the least"
            )));
        }
        let window_packets = endpoint.receives().max(WINDOW_PACKETS_MIN);
        Ok(Self { endpoint, window_packets, last_refusal: None })
    }

    /// What peers need to know.
    pub fn card(&self) -> Card {
        Card {
            provider: self.endpoint.offer.provider.clone(),
            packet_size: self.endpoint.packet_size as u16,
            window_packets: self.window_packets,
            address: self.endpoint.address.clone(),
        }
    }

    /// Where this end is.
    pub fn own_address(&self) -> Address {
        Address::Fabric(FabricAddress { name: 0, ip: self.endpoint.own_ip() })
    }

    /// The provider's offer that is used.
    pub fn offer(&self) -> &Offer {
        &self.endpoint.offer
    }

    /// Whether there is a descriptor to sleep on; without one a waiter looks again and again.
    pub fn can_sleep(&self) -> bool {
        self.endpoint.descriptor.is_some()
    }

    /// Why the provider last refused a packet ([`Outcome::Dropped`]), for a message to the user.
    pub fn last_refusal(&self) -> Option<String> {
        self.last_refusal.map(|error| self.endpoint.describe(error))
    }

    /// Learns where a peer is.
    ///
    /// # Errors
    /// The provider does not understand the address: one sentence.
    pub fn address_of(&mut self, peer: &Card) -> Result<Address, Error> {
        let own = self.endpoint.offer.provider.clone();
        if peer.provider != own {
            let theirs = &peer.provider;
            return Err(Error::Peer(format!(
                "libfabric's provider is {own} here and {theirs} there: WEFT_FABRIC_PROVIDER must name one that both have"
            )));
        }
        match self.endpoint.insert(&peer.address) {
            Ok((name, ip)) => Ok(Address::Fabric(FabricAddress { name, ip })),
            Err(why) => Err(Error::Peer(format!("libfabric's provider {own} does not take the peer's address: {why}"))),
        }
    }
}

impl Datagrams for Fabric {
    fn name(&self) -> &'static str {
        "fabric"
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Fabric(to) = to else { return Err(wrong_address()) };
        if packet.len() > self.endpoint.packet_size {
            return Ok(Outcome::TooLarge);
        }
        Ok(match self.endpoint.send(to.name, packet) {
            Sent::Taken => Outcome::Sent,
            Sent::Full => Outcome::WouldBlock,
            Sent::Refused(error) => {
                self.last_refusal = Some(error);
                Outcome::Dropped
            }
        })
    }

    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        self.endpoint.receive(on_packet, limit)
    }

    fn fd(&self) -> RawFd {
        self.endpoint.descriptor.unwrap_or(-1)
    }

    fn arm(&mut self) -> bool {
        self.endpoint.arm()
    }

    fn rejected(&self) -> u64 {
        self.endpoint.errors
    }

    fn packet_size(&self) -> usize {
        self.endpoint.packet_size
    }
}
