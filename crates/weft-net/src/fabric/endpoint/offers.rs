//! Offers of providers, and what each offer promises.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use super::super::api::{
    FI_CONTEXT, FI_CONTEXT2, FI_EP_DGRAM, FI_EP_RDM, FI_MR_BASIC_BITS, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MSG,
    FI_MSG_PREFIX, FI_ORDER_SAS, FI_ORDER_SAW, FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA, FI_SEND,
    FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_THREAD_DOMAIN, FI_WRITE, Info, Library, VERSION, text,
};

/// The promise of a provider about an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Packets may be lost (`FI_EP_DGRAM`).
    Datagrams,
    /// No packet is lost (`FI_EP_RDM`), and packets arrive in the order of sending (`FI_ORDER_SAS`).
    Ordered,
    /// No packet is lost, but packets may overtake each other.
    Reliable,
}

impl Kind {
    fn endpoint(self) -> c_int {
        match self {
            Self::Datagrams => FI_EP_DGRAM,
            Self::Ordered | Self::Reliable => FI_EP_RDM,
        }
    }
}

/// A provider's offer, for people and for the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The promise about the endpoint.
    pub kind: Kind,
    /// The provider, e.g. `udp`.
    pub provider: String,
    /// The provider's version.
    pub version: (u32, u32),
    /// The domain: the device or the interface.
    pub domain: String,
    /// The fabric: the network.
    pub fabric: String,
    /// Bytes of the largest message.
    pub message_max: usize,
    /// The address of this end, where it is one of IP.
    pub address: Option<IpAddr>,
}

/// Describes the offer for people.
impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Datagrams => "datagrams",
            Kind::Ordered => "reliable messages",
            Kind::Reliable => "reliable messages that may overtake each other",
        };
        write!(f, "{} on {} ({kind})", self.provider, self.domain)
    }
}

/// A list of offers, as the library made it.
pub(in crate::fabric) struct Offers {
    library: &'static Library,
    kind: Kind,
    first: *mut Info,
}

impl Drop for Offers {
    fn drop(&mut self) {
        // SAFETY: the library made the list, and no other code frees it.
        unsafe { (self.library.freeinfo)(self.first) };
    }
}

impl Offers {
    /// Asks for the endpoints of a kind; `provider` is the name of a provider, or none for all.
    pub(in crate::fabric) fn new(
        library: &'static Library,
        kind: Kind,
        provider: Option<&str>,
    ) -> Result<Self, String> {
        Self::with(library, kind, provider, false)
    }

    /// Asks for endpoints as [`Self::new`] does. It can ask only for those that write to memory of peers and
    /// read it (`FI_RMA`), and that deliver a later send behind an earlier write.
    fn with(
        library: &'static Library,
        kind: Kind,
        provider: Option<&str>,
        has_remote_memory: bool,
    ) -> Result<Self, String> {
        let provider = provider.map(CString::new).transpose().map_err(|_| "its name has a zero in it".to_owned())?;
        let accesses = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        let (more, order) = if has_remote_memory { (accesses, FI_ORDER_SAW) } else { (0, 0) };
        // SAFETY: without an info to copy the library makes one, with all its parts.
        let hints = unsafe { (library.dupinfo)(ptr::null()) };
        if hints.is_null() {
            return Err("there is no memory".to_owned());
        }
        let hints = Self { library, kind, first: hints };
        // SAFETY: as said. The parts are ours to change until the info is freed. The name is freed with it,
        // by free(3).
        unsafe {
            let info = &mut *hints.first;
            info.caps = FI_MSG | FI_SEND | FI_RECV | more;
            info.mode = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX;
            (*info.ep_attr).kind = kind.endpoint();
            if kind == Kind::Ordered {
                (*info.tx_attr).msg_order = FI_ORDER_SAS | order;
                (*info.rx_attr).msg_order = FI_ORDER_SAS | order;
            }
            (*info.domain_attr).threading = FI_THREAD_DOMAIN;
            (*info.domain_attr).mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_BASIC_BITS;
            if let Some(name) = &provider {
                (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
        }
        let mut found = ptr::null_mut();
        // SAFETY: neither node nor service; the hints stay while this runs.
        let code = unsafe { (library.getinfo)(VERSION, ptr::null(), ptr::null(), 0, hints.first, &raw mut found) };
        match code {
            0 => Ok(Self { library, kind, first: found }),
            code => Err(library.describe(code.into())),
        }
    }

    /// Asks for the endpoint that was chosen, as one that can place as well.
    pub(in crate::fabric) fn placing(library: &'static Library, chosen: &Offer) -> Option<Self> {
        let this = Self::with(library, chosen.kind, Some(&chosen.provider), true).ok()?;
        let has_it = this.iter().any(|(offer, _)| offer == *chosen);
        has_it.then_some(this)
    }

    /// Returns each offer.
    pub(in crate::fabric) fn iter(&self) -> impl Iterator<Item = (Offer, *mut Info)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let this = next;
            // SAFETY: the list ends with a null pointer, and lives as long as this borrow.
            let info = unsafe { this.as_ref() }?;
            next = info.next;
            Some((offer(self.kind, info), this))
        })
    }
}

fn offer(kind: Kind, info: &Info) -> Offer {
    // SAFETY: the library fills in all parts of what it offers.
    let (domain, fabric, endpoint) = unsafe { (&*info.domain_attr, &*info.fabric_attr, &*info.ep_attr) };
    let name = |name| {
        // SAFETY: names end with a zero, and stay as long as the offer.
        unsafe { text(name) }.unwrap_or_default()
    };
    let address = (!info.src_addr.is_null()).then(|| {
        // SAFETY: the library says how long the address is.
        unsafe { std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) }
    });
    Offer {
        kind,
        provider: name(fabric.prov_name),
        version: (fabric.prov_version >> 16, fabric.prov_version & 0xffff),
        domain: name(domain.name),
        fabric: name(fabric.name),
        message_max: endpoint.max_msg_size,
        address: address.and_then(|bytes| Some(socket_address(info.addr_format, bytes)?.ip())),
    }
}

/// Reads an address of the formats that are addresses of IP.
pub(in crate::fabric) fn socket_address(format: u32, bytes: &[u8]) -> Option<SocketAddr> {
    let family = c_int::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match (format, family) {
        (FI_SOCKADDR_IN | 1, libc::AF_INET) => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        (FI_SOCKADDR_IN6 | 1, libc::AF_INET6) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some((ip, port).into())
}
