//! The RDMA devices of this machine, described for people.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::net::Ipv6Addr;

use super::api::{
    Context, Device, DeviceFacts, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE, IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP,
    Library, PortFacts, text,
};
use crate::{Error, sys};

/// Most devices that are described.
const DEVICES_MAX: usize = 64;
/// Most addresses of a port that are described.
const GIDS_MAX: usize = 16;

/// An RDMA device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// The device's name, e.g. `siw0`.
    pub name: String,
    /// The kind: iWARP, RoCE or InfiniBand.
    pub kind: &'static str,
    /// Number of queue pairs.
    pub queue_pairs: i32,
    /// Number of operations of a queue pair.
    pub operations: i32,
    /// Number of shared receive queues.
    pub shared_receives: i32,
    /// The accesses with which the device's atomic operations are atomic.
    pub atomics: &'static str,
    /// The ports of the device.
    pub ports: Vec<PortStatus>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The port's number, from 1.
    pub number: u8,
    /// True if packets pass.
    pub is_active: bool,
    /// The state of a port through which no packets pass.
    pub state: &'static str,
    /// Bytes of a packet on the network; 0 if the port does not say.
    pub mtu: u32,
    /// The port's addresses (GIDs).
    pub gids: Vec<Ipv6Addr>,
}

fn state(number: c_int) -> &'static str {
    match number {
        1 => "down",
        2 => "initialising",
        3 => "armed",
        IBV_PORT_ACTIVE => "active",
        5 => "active, deferred",
        _ => "unknown",
    }
}

/// Names a value of `enum ibv_atomic_cap`.
fn atomics(number: c_int) -> &'static str {
    match number {
        0 => "no atomic operations",
        1 => "operations atomic with its own only",
        2 => "operations atomic with the processor's",
        _ => "atomic operations of a kind that is not known",
    }
}

/// Describes the device for people.
impl std::fmt::Display for DeviceStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, kind, queue_pairs, operations, shared_receives, atomics, ports } = self;
        write!(
            f,
            "{name} ({kind}, {queue_pairs} queue pairs of {operations} operations, {shared_receives} shared receive queues, {atomics}"
        )?;
        for PortStatus { number, state, mtu, gids, .. } in ports {
            write!(f, "; port {number} {state}, MTU {mtu}")?;
            gids.first().map_or(Ok(()), |gid| write!(f, ", GID {gid}"))?;
        }
        f.write_str(")")
    }
}

/// Returns the bytes of memory that a process may lock; none if there is no limit.
pub fn locked_memory() -> Option<u64> {
    sys::locked_memory_max()
}

/// Returns the devices of this machine.
///
/// # Errors
/// The libraries cannot be opened: a sentence.
pub fn status() -> Result<Vec<DeviceStatus>, Error> {
    Ok(devices(super::library()?))
}

/// Describes the devices of this machine in a part of a sentence.
pub(super) fn summary(library: &Library) -> String {
    let all: Vec<String> = devices(library).iter().map(DeviceStatus::to_string).collect();
    match all.is_empty() {
        true => "this machine has no RDMA device (`rdma link show`; a software device on an interface: `rdma link add rxe0 type rxe netdev eth0`)".to_owned(),
        false => format!("this machine has {}", all.join(", ")),
    }
}

fn devices(library: &Library) -> Vec<DeviceStatus> {
    let mut count: c_int = 0;
    // SAFETY: the library makes a list of `count` devices, which is freed once.
    unsafe {
        let list = (library.get_device_list)(&raw mut count);
        if list.is_null() {
            return Vec::new();
        }
        let count = usize::try_from(count).unwrap_or(0).min(DEVICES_MAX);
        let all = std::slice::from_raw_parts(list, count).iter().filter_map(|device| of(library, *device)).collect();
        (library.free_device_list)(list);
        all
    }
}

/// Returns the status of a device.
///
/// # Safety
/// The device is of a list that is not freed yet.
unsafe fn of(library: &Library, device: *mut Device) -> Option<DeviceStatus> {
    // SAFETY: as promised; the opened device is closed; numbers of which zeros are values.
    unsafe {
        let (name, transport) = (text((*device).name.as_ptr()), (*device).transport);
        let context = (library.open_device)(device);
        if context.is_null() {
            return None;
        }
        let mut facts: DeviceFacts = std::mem::zeroed();
        let is_known = (library.query_device)(context, &raw mut facts) == 0;
        let ports: Vec<(PortStatus, u8)> =
            (1..=facts.ports).filter_map(|number| port(library, context, number)).collect();
        (library.close_device)(context);
        let kind = match (transport, ports.first()) {
            (IBV_TRANSPORT_IWARP, _) => "iWARP",
            (IBV_TRANSPORT_IB, Some((_, IBV_LINK_LAYER_ETHERNET))) => "RoCE",
            (IBV_TRANSPORT_IB, _) => "InfiniBand",
            _ => "another transport, which Weft does not use",
        };
        is_known.then(|| DeviceStatus {
            name,
            kind,
            queue_pairs: facts.max_qp,
            operations: facts.max_qp_wr,
            shared_receives: facts.max_srq,
            atomics: atomics(facts.atomic_cap),
            ports: ports.into_iter().map(|(port, _)| port).collect(),
        })
    }
}

/// Returns the status of a port, and its link layer.
///
/// # Safety
/// The device is open.
unsafe fn port(library: &Library, context: *mut Context, number: u8) -> Option<(PortStatus, u8)> {
    // SAFETY: as promised; numbers of which zeros are values.
    unsafe {
        let mut facts: PortFacts = std::mem::zeroed();
        if (library.query_port)(context, number, &raw mut facts) != 0 {
            return None;
        }
        let mut gids = Vec::new();
        for index in 0..facts.gids.clamp(0, GIDS_MAX as c_int) {
            let mut gid = [0_u8; 16];
            if (library.query_gid)(context, number, index, &raw mut gid) == 0 && gid != [0; 16] {
                gids.push(Ipv6Addr::from(gid));
            }
        }
        let mtu = u32::try_from(facts.active_mtu).ok().filter(|mtu| (1..=5).contains(mtu)).map_or(0, |mtu| 128 << mtu);
        let is_active = facts.state == IBV_PORT_ACTIVE;
        Some((PortStatus { number, is_active, state: state(facts.state), mtu, gids }, facts.link_layer))
    }
}
