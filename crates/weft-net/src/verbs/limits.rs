//! Limits: the sizes that a device is asked for, and the window that a peer begins with. Pure functions of
//! what the device has.

use super::credits::{RESERVE, WINDOW_FIRST, WINDOW_MAX};

/// Bytes of a message: the header and a packet.
pub(super) const MESSAGE_BYTES: usize = 4096;
/// Most rings of a process; the other peers' packets are sent. Each look finds most rings empty: a handful of
/// them costs less than a completion.
pub(super) const RINGS_MAX: usize = 16;
/// Receives by which the windows of all peers together grow beyond the two that each peer has: 2 MiB.
const GROWTH: u32 = 512;
/// Most receives of all peers together: 16 MiB.
const RECEIVES_MAX: u32 = 4096;
/// Receives that are made at a time.
pub(super) const CHUNK: u32 = 64;
/// Most packets of all peers together that wait to leave.
pub(super) const SENDS_MAX: usize = 256;
/// Most operations of a peer that the device has: packets, accesses, and messages that this end has to send
/// by itself.
const OPERATIONS_MAX: u32 = 48;
/// Bytes of a packet that the device is asked to copy at once (inline data).
pub(super) const INLINE_WANTED: u32 = 256;
/// Least bytes of inline data that are of use. A device that refuses is asked for half as many, and so on.
pub(super) const INLINE_LEAST: u32 = 32;
/// Most reads of memory that an end asks the other end for at a time.
const READS_MAX: i32 = 16;
/// Most connections that are open at a time, by default. Another one closes the connection that was not used
/// for longest.
pub const CONNECTIONS_MAX: u32 = 1024;

/// The facts of a device that the limits depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) max_qp: i32,
    pub(super) max_qp_wr: i32,
    pub(super) max_cqe: i32,
    pub(super) max_srq: i32,
    pub(super) max_srq_wr: i32,
    pub(super) max_reads: i32,
}

/// The sizes that a device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// True if all peers share the receives.
    pub(super) shared: bool,
    /// Receives of all peers together; then those of them by which windows grow.
    pub(super) receives: u32,
    pub(super) growth: u32,
    /// Operations of a peer.
    pub(super) operations: u32,
    /// Entries of the completion queue.
    pub(super) completions: u32,
    pub(super) connections: u32,
    pub(super) reads: u8,
}

fn positive(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// Returns the sizes to ask a device for; `connections` is what the user allows.
pub(super) fn limits(device: &Device, accesses: usize, connections: u32) -> Result<Limits, String> {
    let shared = device.max_srq > 0 && device.max_srq_wr > 0;
    let operations = OPERATIONS_MAX.min(positive(device.max_qp_wr));
    let others = (SENDS_MAX + accesses) as u32;
    let most = RECEIVES_MAX.min(positive(device.max_cqe).saturating_sub(others));
    let most = if shared { most.min(positive(device.max_srq_wr)) } else { most };
    let connections = connections.min(most / least()).min(positive(device.max_qp).saturating_sub(1));
    // Two receives for each connection, and one more for each that uses a ring. The rest is for windows that
    // grow.
    let firm = connections * least() + RINGS_MAX as u32;
    let receives = most.min(firm + GROWTH);
    let growth = receives.saturating_sub(firm);
    if operations < 4 || connections == 0 {
        let Device { max_qp, max_qp_wr, max_cqe, max_srq_wr, .. } = device;
        return Err(format!(
            "the device is too small: {max_qp} queue pairs (max_qp) of {max_qp_wr} operations (max_qp_wr), {max_cqe} completions (max_cqe), \
             {max_srq_wr} shared receives (max_srq_wr)"
        ));
    }
    let reads = device.max_reads.clamp(1, READS_MAX) as u8;
    Ok(Limits { shared, receives, growth, operations, completions: receives + others, connections, reads })
}

/// Returns the window with which the connections of `peers` peers begin. With shared receives the window
/// grows later; a receive queue of its own has a fixed size.
pub(super) fn first_window(limits: &Limits, peers: u32) -> u16 {
    if limits.shared {
        return WINDOW_FIRST;
    }
    let share = (limits.growth / peers.max(1)).min(limits.operations.saturating_sub(RESERVE));
    WINDOW_FIRST.max(share.min(u32::from(WINDOW_MAX)) as u16)
}

/// Returns the fewest receives that a connection works with.
pub(super) const fn least() -> u32 {
    WINDOW_FIRST as u32 + RESERVE
}

/// Returns the cause of a refusal to register memory, as the end of a sentence.
pub(super) fn locked_memory(code: Option<i32>, limit: Option<u64>) -> String {
    match (code, limit) {
        (Some(libc::ENOMEM | libc::EPERM), Some(limit)) => format!(
            "; a process may lock {} KiB here (`ulimit -l`), and RDMA takes more: `ulimit -l unlimited`, or `* - memlock unlimited` in \
             /etc/security/limits.conf",
            limit / 1024
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Device = Device {
        max_qp: 131_072,
        max_qp_wr: 16_384,
        max_cqe: 4_194_303,
        max_srq: 65_536,
        max_srq_wr: 16_383,
        max_reads: 128,
    };

    #[test]
    fn what_a_device_does_not_have_is_not_asked_for() {
        let of = |device: &Device| limits(device, 64, CONNECTIONS_MAX);
        let large = of(&LARGE).expect("limits");
        assert_eq!((large.receives, large.connections, large.reads, large.shared), (2576, 1024, 16, true));
        assert!(large.completions >= large.receives + 320);
        let small = of(&Device { max_cqe: 1024, max_srq_wr: 100, max_qp: 9, max_reads: 0, ..LARGE }).expect("limits");
        assert_eq!((small.receives, small.growth, small.connections, small.reads), (100, 68, 8, 1));
        assert!(!of(&Device { max_srq: 0, ..LARGE }).expect("limits").shared);
        let why = of(&Device { max_qp_wr: 1, ..LARGE }).expect_err("too small");
        assert!(why.contains("max_qp_wr"), "{why}");
        assert!(limits(&Device { max_cqe: -1, ..LARGE }, 64, 10).is_err());
    }

    #[test]
    fn all_connections_have_their_first_receives_whatever_windows_have_grown_by() {
        for connections in [1, 64, 512, CONNECTIONS_MAX, u32::MAX] {
            let limits = limits(&LARGE, 64, connections).expect("limits");
            assert!(limits.connections * least() + limits.growth <= limits.receives, "{limits:?}");
            assert!(limits.receives <= RECEIVES_MAX);
            assert_eq!(first_window(&limits, 1), 1);
        }
        let few = limits(&LARGE, 64, 64).expect("limits");
        assert_eq!((few.receives, few.growth), (128 + 16 + GROWTH, GROWTH));
        let own = limits(&Device { max_srq: 0, ..LARGE }, 64, 10).expect("limits");
        for peers in [1, 10, 1000] {
            assert!(u32::from(first_window(&own, peers)) + RESERVE <= own.operations);
        }
        assert_eq!((first_window(&own, 1), first_window(&own, 1000)), (47, 1));
    }

    #[test]
    fn a_limit_of_locked_memory_comes_with_what_to_do() {
        let says = locked_memory(Some(libc::ENOMEM), Some(64 << 10));
        assert!(says.contains("64 KiB") && says.contains("`ulimit -l unlimited`"), "{says}");
        assert_eq!(locked_memory(Some(libc::ENOMEM), None), "");
        assert_eq!(locked_memory(Some(libc::EINVAL), Some(1)), "");
    }
}
