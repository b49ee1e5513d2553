//! Calls of the libraries about queue pairs, completion queues and devices, on pointers whose owner is the
//! caller.

use std::ffi::c_int;
use std::ptr;

use super::super::api::{
    CmId, Completion, CompletionChannel, Context, Cq, DeviceFacts, Library, Pd, PortFacts, Qp, QpCapacity, QpWish,
    Send, Srq,
};
use super::{BATCH, failed};

/// Hands an operation to the device. The error is the device's.
///
/// # Safety
/// The identifier is open and has a queue pair. The memory that the operation refers to stays until its
/// completion comes, or the queue pair is closed.
pub(super) unsafe fn post(id: *mut CmId, send: &mut Send) -> Result<(), c_int> {
    let mut bad = ptr::null_mut();
    // SAFETY: as promised.
    let code = unsafe {
        let qp: *mut Qp = (*id).qp;
        if qp.is_null() { libc::ENOTCONN } else { ((*(*qp).context).post_send)(qp, send, &raw mut bad) }
    };
    if code == 0 { Ok(()) } else { Err(code.saturating_abs()) }
}

/// Makes a queue pair for `room.0` sends and `room.1` receives. Its inline data has the first of these
/// numbers of bytes that the device does not refuse: some devices refuse too large a number instead of
/// granting less. Returns the bytes that the device grants; none after the last refusal, which is the
/// system's last error.
///
/// # Safety
/// All objects are open and of one device; there is a shared queue of receives, or none.
pub(super) unsafe fn make_queue_pair(
    library: &Library,
    (id, pd): (*mut CmId, *mut Pd),
    kind: c_int,
    (cq, srq): (*mut Cq, *mut Srq),
    (sends, receives): (u32, u32),
    inlines: impl IntoIterator<Item = u32>,
) -> Option<u32> {
    inlines.into_iter().find_map(|inline| {
        let capacity = QpCapacity {
            max_send_wr: sends,
            max_recv_wr: receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: inline,
        };
        let mut wish =
            QpWish { context: ptr::null_mut(), send_cq: cq, recv_cq: cq, srq, capacity, kind, signal_all: 0 };
        // SAFETY: as promised.
        let code = unsafe { (library.create_qp)(id, pd, &raw mut wish) };
        (code == 0).then_some(wish.capacity.max_inline_data)
    })
}

/// Reads completions of a queue, and returns their number.
///
/// # Safety
/// The queue is open.
pub(super) unsafe fn poll_queue(cq: *mut Cq, completions: &mut [Completion]) -> usize {
    let most = completions.len();
    // SAFETY: as promised, and there is room for so many.
    let read = unsafe { ((*(*cq).context).poll_cq)(cq, most as c_int, completions.as_mut_ptr()) };
    usize::try_from(read).unwrap_or(0).min(most)
}

/// Makes the channel's descriptor readable with the next completion, and not with earlier ones. Returns
/// `false` when that is not possible.
///
/// # Safety
/// The queue and its channel are open, and the channel does not block.
pub(super) unsafe fn arm_queue(library: &Library, channel: *mut CompletionChannel, cq: *mut Cq) -> bool {
    // SAFETY: as promised; each event of the channel is acknowledged.
    unsafe {
        let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
        let mut events = 0;
        while events < BATCH as u32 && (library.get_cq_event)(channel, &raw mut of, &raw mut context) == 0 {
            events += 1;
        }
        if events > 0 {
            (library.ack_cq_events)(cq, events);
        }
        ((*(*cq).context).req_notify_cq)(cq, 0) == 0
    }
}

/// Returns the facts of a device and of a port of it.
pub(super) fn facts(library: &Library, context: *mut Context, port: u8) -> Result<(DeviceFacts, PortFacts), String> {
    // SAFETY: plain numbers, of which zeros are values; the device is open.
    unsafe {
        let (mut device, mut facts): (DeviceFacts, PortFacts) = (std::mem::zeroed(), std::mem::zeroed());
        if (library.query_device)(context, &raw mut device) != 0 {
            return Err(failed("ibv_query_device"));
        }
        if (library.query_port)(context, port, &raw mut facts) != 0 {
            return Err(failed(&format!("ibv_query_port {port}")));
        }
        Ok((device, facts))
    }
}
