//! How much a device is asked for, and what is granted to a peer: pure functions of what the device has.

/// Bytes of a message, of which the header and a packet are parts.
pub(super) const MESSAGE_BYTES: usize = 4096;
/// Packets that may be on their way to this end from one peer, at most …
const WINDOW_MAX: u32 = 61;
/// … besides which one message may be that only grants room: it stands for more than half of a window, which is odd, that the peer has not heard of.
const RESERVE: u32 = 1;
/// Receives of all peers together, as long as two are left for each: 4 MiB …
const RECEIVES_SHARED: u32 = 1024;
/// … and at most, with many more peers: 16 MiB. So a peer has 8 KiB at least: one packet, and what grants room.
const RECEIVES_MAX: u32 = 4096;
/// Receives are made so many at a time.
pub(super) const CHUNK: u32 = 64;
/// Packets that wait to leave, of all peers together …
pub(super) const SENDS_MAX: usize = 256;
/// … and operations of one peer that the device has, at most: packets, accesses, and what this end has to say by itself.
const OPERATIONS_MAX: u32 = 48;
/// The device is asked to copy packets of so many bytes at once.
pub(super) const INLINE_WANTED: u32 = 256;
/// … or half as many, and so on; fewer than so many are of no use.
pub(super) const INLINE_LEAST: u32 = 32;
/// Reads of memory that one end asks the other for at a time.
const READS_MAX: i32 = 16;
/// Connections that are open at a time, where nothing else says so: one more closes the one that was not used for longest.
pub const CONNECTIONS_MAX: u32 = 1024;

/// What of a device counts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) max_qp: i32,
    pub(super) max_qp_wr: i32,
    pub(super) max_cqe: i32,
    pub(super) max_srq: i32,
    pub(super) max_srq_wr: i32,
    pub(super) max_reads: i32,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Receives are shared by all peers.
    pub(super) shared: bool,
    /// Receives of all peers together.
    pub(super) receives: u32,
    /// Operations of one peer.
    pub(super) operations: u32,
    /// Entries of the completion queue.
    pub(super) completions: u32,
    pub(super) connections: u32,
    pub(super) reads: u8,
}

fn positive(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// What to ask a device for; `connections` is what the user allows.
pub(super) fn limits(device: &Device, accesses: usize, connections: u32) -> Result<Limits, String> {
    let shared = device.max_srq > 0 && device.max_srq_wr > 0;
    let operations = OPERATIONS_MAX.min(positive(device.max_qp_wr));
    let others = (SENDS_MAX + accesses) as u32;
    let most = RECEIVES_MAX.min(positive(device.max_cqe).saturating_sub(others));
    let receives = if shared { most.min(positive(device.max_srq_wr)) } else { most };
    let connections = connections.min(receives / (RESERVE + 1)).min(positive(device.max_qp).saturating_sub(1));
    if operations < 4 || connections == 0 {
        let Device { max_qp, max_qp_wr, max_cqe, max_srq_wr, .. } = device;
        return Err(format!(
            "the device is too small: {max_qp} queue pairs (max_qp) of {max_qp_wr} operations (max_qp_wr), {max_cqe} completions (max_cqe), \
             {max_srq_wr} shared receives (max_srq_wr)"
        ));
    }
    let reads = device.max_reads.clamp(1, READS_MAX) as u8;
    Ok(Limits { shared, receives, operations, completions: receives + others, connections, reads })
}

/// Receives that a connection of one of so many peers is given: the window and the reserve.
pub(super) fn share(limits: &Limits, peers: u32) -> u32 {
    let most = limits.receives.min(RECEIVES_SHARED);
    let own_queue = if limits.shared { u32::MAX } else { limits.operations };
    (most / peers.max(1)).clamp(least(), WINDOW_MAX + RESERVE).min(own_queue.max(least())) & !1
}

/// The fewest receives that a connection works with.
pub(super) fn least() -> u32 {
    1 + RESERVE
}

/// The window of so many receives.
pub(super) fn window(receives: u32) -> u16 {
    receives.saturating_sub(RESERVE).max(1) as u16
}

/// So many packets have been received and not been told of before a message says so by itself.
pub(super) fn tell_at(window: u16) -> u16 {
    window.div_ceil(2)
}

/// What is behind a refusal to register memory, as the end of a sentence.
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
        assert_eq!((large.receives, large.connections, large.reads, large.shared), (4096, 1024, 16, true));
        assert!(large.completions >= large.receives + 320);
        let small = of(&Device { max_cqe: 1024, max_srq_wr: 100, max_qp: 9, max_reads: 0, ..LARGE }).expect("limits");
        assert_eq!((small.receives, small.connections, small.reads), (100, 8, 1));
        assert!(!of(&Device { max_srq: 0, ..LARGE }).expect("limits").shared);
        let why = of(&Device { max_qp_wr: 1, ..LARGE }).expect_err("too small");
        assert!(why.contains("max_qp_wr"), "{why}");
        assert!(limits(&Device { max_cqe: -1, ..LARGE }, 64, 10).is_err());
    }

    #[test]
    fn shares_of_all_connections_fit_and_few_peers_have_the_largest() {
        let large = limits(&LARGE, 64, CONNECTIONS_MAX).expect("limits");
        assert_eq!(share(&large, 1), 62);
        assert_eq!(share(&large, 100), 10);
        for peers in [1, 2, 17, 100, 341, 1000, 1024] {
            assert!(share(&large, peers) * peers <= large.receives, "{peers}");
        }
        assert_eq!(share(&large, 1_000_000), 2);
        assert_eq!(window(2), 1);
        let own = limits(&Device { max_srq: 0, ..LARGE }, 64, 10).expect("limits");
        assert!(share(&own, 1) <= own.operations);
    }

    /// Messages that only grant room, of which the peer has heard nothing: no more than the reserve.
    #[test]
    fn what_grants_room_always_finds_a_receive() {
        for receives in (2..=WINDOW_MAX + RESERVE).step_by(2) {
            let window = window(receives);
            assert!(u32::from(window / tell_at(window)) <= RESERVE, "{window}");
        }
    }

    #[test]
    fn a_limit_of_locked_memory_comes_with_what_to_do() {
        let says = locked_memory(Some(libc::ENOMEM), Some(64 << 10));
        assert!(says.contains("64 KiB") && says.contains("`ulimit -l unlimited`"), "{says}");
        assert_eq!(locked_memory(Some(libc::ENOMEM), None), "");
        assert_eq!(locked_memory(Some(libc::EINVAL), Some(1)), "");
    }
}
