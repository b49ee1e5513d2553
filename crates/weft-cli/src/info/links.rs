//! The links, addresses and memory that programs would use here, and the reasons against the others: as the
//! library decides.

use serde::Serialize;
use weft_mpi::engine::Placement;
use weft_mpi::settings::{self, LINKS, Said, Settings};
use weft_net::carrier::Carrier;
use weft_net::ethernet::Ethernet;
use weft_net::tcp::Tcp;
use weft_net::xdp::{self, Outlook};
use weft_net::{fabric, node, shared, udp, verbs};

use super::amounts::counted;
use super::machine::Machine;

/// Numbers of ranks on one host for which the shared memory is shown, in addition to the number of
/// processors.
const LOCAL_SIZES: [usize; 3] = [2, 16, 64];

/// A link of the library.
#[derive(Debug, Serialize)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) built_in: bool,
    pub(crate) used: bool,
    /// The way in which the link would be used, or the reason why not.
    pub(crate) why: String,
    /// The messages that the link writes to their receivers' memory by itself.
    pub(crate) written: Option<Written>,
}

/// The messages that a link writes to the memory of their receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Written {
    /// The least size of an announced message that the link writes.
    pub(crate) bytes_min: u64,
    /// The size above which the link writes all messages: they are announced.
    pub(crate) eager_max: u64,
}

impl Written {
    fn of(placement: Placement) -> Written {
        Written { bytes_min: placement.bytes_min, eager_max: placement.eager_max }
    }
}

/// The way in which a link would be used.
struct Use {
    how: String,
    written: Option<Written>,
}

impl From<String> for Use {
    fn from(how: String) -> Use {
        Use { how, written: None }
    }
}

/// The addresses of this machine.
#[derive(Debug, Serialize)]
pub(crate) struct Addresses {
    pub(crate) list: Vec<Address>,
    /// The reason why the addresses are not known.
    pub(crate) fault: Option<String>,
    /// The bytes of the largest packet.
    pub(crate) packet_size: usize,
    /// Two numbers, hexadecimal: `node` is equal on processes that share memory, `network` on processes that
    /// share loopback.
    pub(crate) node: String,
    pub(crate) network: String,
}

/// An address of this machine.
#[derive(Debug, Serialize)]
pub(crate) struct Address {
    pub(crate) interface: String,
    pub(crate) address: String,
    pub(crate) mtu: u32,
    pub(crate) offered: bool,
    /// The index of the interface among those in use, from 0: the first carries messages, all carry bulk
    /// data.
    pub(crate) rail: Option<u8>,
    /// The speed in Mb/s; 0 when the interface does not tell it.
    pub(crate) speed: u32,
    /// The reason why the address is not offered.
    pub(crate) why: String,
}

impl Addresses {
    pub(crate) fn of(settings: &Settings) -> Addresses {
        let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
        let (all, fault) = match udp::consider(&wanted) {
            Ok(all) => (all, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let sizes = all.iter().filter_map(|one| Some(usize::from(one.verdict.as_ref().ok()?.packet_size)));
        let address = |one: &udp::Considered| Address {
            interface: one.interface.clone(),
            address: format!("{}/{}", one.ip, one.prefix),
            mtu: one.mtu,
            offered: one.verdict.is_ok(),
            rail: one.verdict.as_ref().ok().map(|candidate| candidate.rail),
            speed: one.verdict.as_ref().map_or(0, |candidate| candidate.speed),
            why: one.verdict.as_ref().err().cloned().unwrap_or_default(),
        };
        Addresses {
            packet_size: sizes.max().unwrap_or(0),
            list: all.iter().map(address).collect(),
            fault,
            node: format!("{:016x}", node::identity(settings.node.as_deref(), settings.shm_dir.as_deref()).0),
            network: format!("{:08x}", node::network()),
        }
    }

    /// The addresses that are offered, for people.
    fn offered(&self) -> Result<String, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let offered = self.list.iter().filter(|address| address.offered);
        let names: Vec<String> =
            offered.map(|address| format!("{} ({})", address.address, address.interface)).collect();
        if names.is_empty() { Err("no address can be offered".into()) } else { Ok(names.join(", ")) }
    }
}

/// All links; links of this version come first.
pub(crate) fn all(settings: &Settings, machine: &Machine, addresses: &Addresses) -> Vec<Link> {
    let built_in = LINKS.iter().map(|&(name, what)| {
        let verdict = match name {
            "shared" => judge_shared(settings, machine).map(Use::from),
            "udp" => judge_udp(settings, addresses).map(Use::from),
            "ethernet" => judge_ethernet(settings).map(Use::from),
            "xdp" => judge_xdp(settings).map(Use::from),
            "fabric" => judge_fabric(settings),
            "verbs" => judge_verbs(settings),
            "tcp" => judge_tcp(settings, addresses),
            _ => judge_other(name).map(Use::from),
        };
        let used = verdict.is_ok();
        let Use { how: why, written } = verdict.unwrap_or_else(Use::from);
        Link { name, what, built_in: true, used, why, written }
    });
    built_in.collect()
}

/// Judges a link of which this command knows only whether the user asks for it.
fn judge_other(name: &str) -> Result<String, String> {
    let asked = Said::here().ok().and_then(|said| said.value(settings::LINK.name)).unwrap_or_default();
    let is_named = asked.split(',').any(|word| word.trim() == name);
    if is_named { Ok("WEFT_LINK names it".into()) } else { Err("it is used only where WEFT_LINK names it".into()) }
}

fn judge_shared(settings: &Settings, machine: &Machine) -> Result<String, String> {
    if !settings.links.shared {
        return Err("WEFT_LINK does not name it".into());
    }
    let copies = match (settings.single_copy, machine.single_copy.allowed) {
        (true, true) => "large messages are copied once, directly between processes".to_owned(),
        (true, false) => format!("large messages go through the rings: {}", machine.single_copy.why),
        (false, _) => "large messages go through the rings, as WEFT_SINGLE_COPY says".to_owned(),
    };
    let wanted = shared::Settings { directory: settings.shm_dir.clone(), ..shared::Settings::default() };
    let directories: Vec<String> = shared::directories(&wanted).iter().map(|path| path.display().to_string()).collect();
    Ok(format!("between ranks of this host; memory in the first that has room of {}; {copies}", directories.join(", ")))
}

/// The most endpoints of libfabric that are named; further ones are counted.
const OFFERS_SHOWN: usize = 6;

fn judge_fabric(settings: &Settings) -> Result<Use, String> {
    let wanted = weft_mpi::settings::fabric(settings);
    let found = fabric::consider(&wanted).map_err(|error| error.to_string());
    if !settings.links.fabric {
        let has = found.map_or_else(
            |_| "no libfabric with endpoints was found".to_owned(),
            |found| {
                let (major, minor) = found.version;
                let mut offers: Vec<String> = found.offers.iter().map(fabric::Offer::to_string).collect();
                offers.dedup();
                let more = counted(offers.len().saturating_sub(OFFERS_SHOWN), "other");
                offers.truncate(OFFERS_SHOWN);
                let more = if more.starts_with("0 ") { String::new() } else { format!(", and {more}") };
                format!("libfabric {major}.{minor} has endpoints of {}{more}", offers.join(", "))
            },
        );
        return Err(format!("it is used only where WEFT_LINK names it; {has}"));
    }
    let found = found?;
    let (major, minor) = found.version;
    let chosen = found.chosen?;
    let first = &found.offers[chosen[0]];
    let others: Vec<&str> = chosen[1..].iter().map(|index| found.offers[*index].domain.as_str()).collect();
    let others = if others.is_empty() { String::new() } else { format!(" and on {}", others.join(", ")) };
    let left_out = found.left_out.map(|why| format!("; {why}")).unwrap_or_default();
    let written = found.placement.ok().map(Written::of);
    let large = match found.placement.map(|placement| placement.bytes_min) {
        Ok(least) => format!("; the provider writes large ones, from {least} bytes on, to the receiver's memory"),
        Err(why) => format!("; large ones are cut into packets, since {why}"),
    };
    // The endpoint is opened for a moment, as a rank would open it.
    let opened = fabric::Fabric::open(&wanted).map_err(|error| error.to_string())?;
    let awake = opened.warning().map(|why| format!("; {why}")).unwrap_or_default();
    let how = format!(
        "to ranks of other hosts, in the place of UDP, by libfabric {major}.{minor}, provider {first}{others}, messages of up to {} bytes\
         {large}{left_out}{awake}",
        first.message_max
    );
    Ok(Use { how, written })
}

fn judge_verbs(settings: &Settings) -> Result<Use, String> {
    let devices = match verbs::status() {
        Ok(devices) if devices.is_empty() => "this machine has no RDMA device".to_owned(),
        Ok(devices) => {
            let all: Vec<String> = devices.iter().map(ToString::to_string).collect();
            format!("this machine has {}", all.join(", "))
        }
        Err(error) => error.to_string(),
    };
    if !settings.links.verbs {
        return Err(format!("it is used only where WEFT_LINK names it; {devices}"));
    }
    // The device is opened for a moment, as a rank would open it.
    let wanted = weft_mpi::settings::verbs(settings);
    let mut opened = verbs::VerbsRails::open(&wanted).map_err(|error| error.to_string())?;
    let multicast = match opened.multicast() {
        Ok(bytes) => format!("multicast of datagrams of up to {bytes} bytes"),
        Err(why) => format!("no multicast, since {why}"),
    };
    let written = opened.written().map(Written::of);
    let large = match written {
        Some(Written { bytes_min, .. }) => {
            format!("large messages, from {bytes_min} bytes on, are written to the receiver's memory")
        }
        None => "large messages are cut into packets, as WEFT_VERBS_MODE or WEFT_SEALED says".to_owned(),
    };
    let locked = match verbs::locked_memory() {
        None => "memory may be locked without a limit".to_owned(),
        Some(bytes) => format!("{} KiB of memory may be locked (`ulimit -l`)", bytes / 1024),
    };
    let (what, kept) = (opened.describe(), opened.registration_cache());
    let how = format!(
        "to ranks of other hosts, in the place of UDP, by {what}; {large}; {multicast}; {kept}; {locked}; {devices}"
    );
    Ok(Use { how, written })
}

fn judge_udp(settings: &Settings, addresses: &Addresses) -> Result<String, String> {
    if let Some(name) = settings.links.in_place_of_udp().next() {
        return Err(format!("WEFT_LINK names {name}, which takes its place"));
    }
    if !settings.links.udp {
        return Err("WEFT_LINK does not name it".into());
    }
    Ok(format!(
        "to ranks of other hosts, packets of up to {} bytes, at {}",
        addresses.packet_size,
        addresses.offered()?
    ))
}

fn judge_tcp(settings: &Settings, addresses: &Addresses) -> Result<Use, String> {
    if let Some(name) = settings.links.in_place_of_udp().find(|name| *name != "tcp") {
        return Err(format!("WEFT_LINK names {name}, which takes its place"));
    }
    if !settings.links.tcp {
        return Err("WEFT_LINK does not name it".into());
    }
    let is_beside = settings.links.udp;
    if is_beside && settings.sealed {
        return Err("it does not seal what it writes, as WEFT_SEALED demands: UDP takes its place".into());
    }
    // The socket is opened for a moment, as a rank would open it.
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    let opened = Tcp::open(&wanted, settings.sealed).map_err(|error| error.to_string())?;
    let written = opened.attributes().remote_memory.map(Written::of);
    let large = match written {
        Some(Written { bytes_min, .. }) => {
            format!("large messages, from {bytes_min} bytes on, go straight to the receiver's memory")
        }
        None => "large messages are cut into packets, as WEFT_SEALED says".to_owned(),
    };
    let how = match is_beside {
        true => format!("to ranks of other hosts, at {}; {large} where that is quicker", addresses.offered()?),
        false => format!("to ranks of other hosts, in the place of UDP, at {}; {large}", addresses.offered()?),
    };
    Ok(Use { how, written })
}

/// Opens the interfaces for a moment, as a rank would; returns at least one.
fn open_ethernet(settings: &Settings) -> Result<Vec<Ethernet>, String> {
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    Ethernet::open_all(&wanted, None, settings.netd.as_deref()).map_err(|error| error.to_string())
}

/// Tries the steps of AF_XDP up to the point where the interface's other traffic would notice.
fn judge_xdp(settings: &Settings) -> Result<String, String> {
    if !settings.links.xdp {
        return Err("it is used only where WEFT_LINK names it, as in auto,xdp".into());
    }
    let links = open_ethernet(settings)?;
    let link = &links[0];
    let Outlook { queues, queue, packet_size } = xdp::outlook(link).map_err(|error| error.to_string())?;
    let interface = link.interface();
    let only = if links.len() > 1 { ", the first," } else { "" };
    let more = if queues > 1 {
        format!(
            "; of its {queues} receive queues only frames of queue {queue} gain by it (`ethtool -L {interface} combined 1`)"
        )
    } else {
        String::new()
    };
    Ok(format!("receives packets of up to {packet_size} bytes at {interface}{only} in place of ethernet{more}"))
}

fn judge_ethernet(settings: &Settings) -> Result<String, String> {
    if !settings.links.ethernet {
        return Err("WEFT_LINK does not name it".into());
    }
    let links = open_ethernet(settings)?;
    let name = |link: &Ethernet| {
        let mac = link.endpoint_address().address.to_string();
        format!("{} ({})", link.interface(), mac.split(' ').next().unwrap_or_default())
    };
    let packet_size = links.iter().map(|link| link.endpoint_address().packet_size).max().unwrap_or(0);
    let names: Vec<String> = links.iter().map(name).collect();
    Ok(format!(
        "small messages to ranks of hosts that answer, packets of up to {packet_size} bytes, on {}",
        names.join(", else ")
    ))
}

/// The memory that messages can take.
#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    /// Shared memory by number of ranks on this host.
    pub(crate) shared: Vec<SharedMemory>,
    /// The most that one peer on another host can make a rank use, bytes.
    pub(crate) remote_peer: RemotePeer,
}

#[derive(Debug, Serialize)]
pub(crate) struct SharedMemory {
    pub(crate) ranks: usize,
    /// The bytes of one ring; each ordered pair of ranks has one.
    pub(crate) ring_bytes: usize,
    pub(crate) segment_bytes: usize,
    /// Says whether a ring takes memory only once it is used.
    pub(crate) on_first_use: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct RemotePeer {
    pub(crate) queue_bytes: u64,
    pub(crate) ahead_bytes: u64,
    pub(crate) unexpected_bytes: u64,
}

impl Memory {
    pub(crate) fn of(settings: &Settings, machine: &Machine, addresses: &Addresses) -> Memory {
        let wanted = shared::Settings { directory: settings.shm_dir.clone(), ..shared::Settings::default() };
        let mut sizes: Vec<usize> = LOCAL_SIZES.into_iter().chain([machine.processors_usable.max(2)]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let row = |ranks: usize| {
            let shared::Memory { ring_bytes, segment_bytes, on_first_use, .. } = shared::memory(ranks, &wanted)?;
            Some(SharedMemory { ranks, ring_bytes, segment_bytes, on_first_use })
        };
        let settings::PeerMemory { queue_bytes, ahead_bytes, unexpected_bytes } =
            settings::memory_of_peer(addresses.packet_size);
        Memory {
            shared: sizes.into_iter().filter_map(row).collect(),
            remote_peer: RemotePeer { queue_bytes, ahead_bytes, unexpected_bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(link: &str, single_copy: &str) -> Vec<Link> {
        let settings = Settings::read(|name| match name {
            "WEFT_LINK" => Some(link.to_owned()),
            "WEFT_SINGLE_COPY" => Some(single_copy.to_owned()),
            _ => None,
        });
        let settings = settings.unwrap();
        all(&settings, &Machine::default(), &Addresses::of(&settings))
    }

    #[test]
    fn what_a_setting_forbids_is_not_used_and_says_so() {
        let links = link("udp", "1");
        assert!(!links[0].used && links[0].why.contains("WEFT_LINK"));
        let links = link("shared", "0");
        assert!(links[0].used && links[0].why.contains("WEFT_SINGLE_COPY"));
        assert!(!links[1].used);
    }

    #[test]
    fn every_link_is_named_once_and_an_rdma_device_is_used_only_where_it_is_named() {
        let links = link("auto", "1");
        let verbs = links.iter().find(|link| link.name == "verbs").unwrap();
        assert!(!verbs.used && verbs.why.contains("WEFT_LINK"));
        let mut names: Vec<&str> = links.iter().map(|link| link.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), links.len());
    }

    #[test]
    fn more_ranks_do_not_take_more_memory_without_bound() {
        let settings = Settings::read(|_| None).unwrap();
        let machine = Machine { processors_usable: 500, ..Machine::default() };
        let memory = Memory::of(&settings, &machine, &Addresses::of(&settings));
        assert_eq!(memory.shared.iter().map(|row| row.ranks).collect::<Vec<_>>(), [2, 16, 64, 500]);
        assert!(memory.shared.iter().all(|row| row.segment_bytes >= row.ring_bytes * row.ranks * (row.ranks - 1)));
        assert!(memory.shared[3].on_first_use && !memory.shared[0].on_first_use);
    }
}
