//! The C interfaces of libibverbs and librdmacm, as far as the link uses them, as rdma-core 44 declares them.
//!
//! Their layouts are part of an ABI that later versions keep. The libraries are opened at run time.
//!
//! An inline function of the headers is an entry of a context's table of operations.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libc::sockaddr;

const VERBS: &CStr = c"libibverbs.so.1";
const CM: &CStr = c"librdmacm.so.1";

pub(super) const IBV_QPT_RC: c_int = 2;
pub(super) const IBV_QPT_UD: c_int = 4;
pub(super) const IBV_TRANSPORT_IB: c_int = 0;
pub(super) const IBV_TRANSPORT_IWARP: c_int = 1;
pub(super) const IBV_LINK_LAYER_ETHERNET: u8 = 2;
pub(super) const IBV_PORT_ACTIVE: c_int = 4;
pub(super) const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub(super) const IBV_ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(super) const IBV_ACCESS_REMOTE_READ: c_int = 1 << 2;
pub(super) const IBV_WR_RDMA_WRITE: c_int = 0;
pub(super) const IBV_WR_SEND: c_int = 2;
pub(super) const IBV_WR_RDMA_READ: c_int = 4;
pub(super) const IBV_SEND_SIGNALED: c_uint = 1 << 1;
pub(super) const IBV_SEND_INLINE: c_uint = 1 << 3;
pub(super) const IBV_WC_SUCCESS: c_int = 0;
/// Status of an operation that was still to be done when the queue pair was closed.
pub(super) const IBV_WC_WR_FLUSH_ERR: c_int = 5;
/// A datagram's first bytes are a header of the network.
pub(super) const IBV_WC_GRH: c_uint = 1;
pub(super) const RDMA_PS_TCP: c_int = 0x0106;
pub(super) const RDMA_PS_UDP: c_int = 0x0111;
pub(super) const EVENT_ADDR_RESOLVED: c_int = 0;
pub(super) const EVENT_ADDR_ERROR: c_int = 1;
pub(super) const EVENT_ROUTE_RESOLVED: c_int = 2;
pub(super) const EVENT_ROUTE_ERROR: c_int = 3;
pub(super) const EVENT_CONNECT_REQUEST: c_int = 4;
pub(super) const EVENT_CONNECT_ERROR: c_int = 6;
pub(super) const EVENT_UNREACHABLE: c_int = 7;
pub(super) const EVENT_REJECTED: c_int = 8;
pub(super) const EVENT_ESTABLISHED: c_int = 9;
pub(super) const EVENT_DISCONNECTED: c_int = 10;
pub(super) const EVENT_DEVICE_REMOVAL: c_int = 11;
pub(super) const EVENT_MULTICAST_JOIN: c_int = 12;
pub(super) const EVENT_MULTICAST_ERROR: c_int = 13;

/// A function that the link does not call: only its place in the table matters.
type Unused = *const c_void;

#[repr(C)]
pub(super) struct Device {
    operations: [Unused; 2],
    node_type: c_int,
    pub(super) transport: c_int,
    pub(super) name: [c_char; 64],
}

#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut Device,
    operations: [Unused; 11],
    pub(super) poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Completion) -> c_int,
    pub(super) req_notify_cq: unsafe extern "C" fn(*mut Cq, c_int) -> c_int,
    more: [Unused; 7],
    pub(super) post_srq_recv: unsafe extern "C" fn(*mut Srq, *mut Receive, *mut *mut Receive) -> c_int,
    others: [Unused; 4],
    pub(super) post_send: unsafe extern "C" fn(*mut Qp, *mut Send, *mut *mut Send) -> c_int,
    pub(super) post_recv: unsafe extern "C" fn(*mut Qp, *mut Receive, *mut *mut Receive) -> c_int,
}

#[repr(C)]
pub(super) struct DeviceFacts {
    pub(super) firmware: [c_char; 64],
    guids: [u64; 2],
    pub(super) max_mr_size: u64,
    page_size_cap: u64,
    vendor: [u32; 3],
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    flags: c_uint,
    pub(super) max_sge: c_int,
    max_sge_rd: c_int,
    max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    max_ee_rd_atom: c_int,
    max_res_rd_atom: c_int,
    pub(super) max_qp_init_rd_atom: c_int,
    max_ee_init_rd_atom: c_int,
    pub(super) atomic_cap: c_int,
    unused: [c_int; 11],
    pub(super) max_srq: c_int,
    pub(super) max_srq_wr: c_int,
    max_srq_sge: c_int,
    max_pkeys: u16,
    local_ca_ack_delay: u8,
    pub(super) ports: u8,
}

#[repr(C)]
pub(super) struct PortFacts {
    pub(super) state: c_int,
    max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gids: c_int,
    flags: u32,
    pub(super) max_message: u32,
    counters: [u32; 2],
    table: u16,
    pub(super) lid: u16,
    sm_lid: u16,
    bytes: [u8; 8],
    pub(super) link_layer: u8,
    more_flags: u8,
    flags_2: u16,
    // An older library knows fewer fields; a newer one may know more.
    reserve: [u8; 16],
}

#[repr(C)]
pub(super) struct Pd {
    context: *mut Context,
    handle: u32,
}

#[repr(C)]
pub(super) struct Mr {
    context: *mut Context,
    pd: *mut Pd,
    address: *mut c_void,
    pub(super) length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

#[repr(C)]
pub(super) struct CompletionChannel {
    context: *mut Context,
    pub(super) fd: c_int,
}

#[repr(C)]
pub(super) struct Cq {
    pub(super) context: *mut Context,
}

#[repr(C)]
pub(super) struct Srq {
    pub(super) context: *mut Context,
}

#[repr(C)]
pub(super) struct Qp {
    pub(super) context: *mut Context,
    qp_context: *mut c_void,
    pd: *mut Pd,
    cqs: [*mut Cq; 2],
    srq: *mut Srq,
    handle: u32,
    pub(super) number: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct SrqWish {
    context: usize,
    pub(super) max_wr: u32,
    pub(super) max_sge: u32,
    limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QpCapacity {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

#[repr(C)]
pub(super) struct QpWish {
    pub(super) context: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut Srq,
    pub(super) capacity: QpCapacity,
    pub(super) kind: c_int,
    pub(super) signal_all: c_int,
}

#[repr(C)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

#[repr(C)]
pub(super) struct Receive {
    pub(super) id: u64,
    pub(super) next: *mut Receive,
    pub(super) pieces: *mut Piece,
    pub(super) count: c_int,
}

#[repr(C)]
pub(super) struct Send {
    pub(super) id: u64,
    pub(super) next: *mut Send,
    pub(super) pieces: *mut Piece,
    pub(super) count: c_int,
    pub(super) operation: c_int,
    pub(super) flags: c_uint,
    pub(super) immediate: u32,
    pub(super) remote_address: u64,
    pub(super) remote_key: u32,
    pub(super) unused: [u64; 9],
}

/// A [`Send`] of a datagram, which has its destination with it.
#[repr(C)]
pub(super) struct Datagram {
    pub(super) id: u64,
    pub(super) next: *mut Send,
    pub(super) pieces: *mut Piece,
    pub(super) count: c_int,
    pub(super) operation: c_int,
    pub(super) flags: c_uint,
    pub(super) immediate: u32,
    pub(super) to: *mut Ah,
    pub(super) qp: u32,
    pub(super) qkey: u32,
    pub(super) unused: [u64; 9],
}

/// An address handle.
#[repr(C)]
pub(super) struct Ah {
    context: *mut Context,
}

/// The address of a datagram.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct AhWish {
    pub(super) gid: [u64; 2],
    flow_label: u32,
    pub(super) own_gid: u8,
    hops_and_class: [u8; 2],
    lid: u16,
    bytes: [u8; 5],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) status: c_int,
    pub(super) operation: c_int,
    pub(super) vendor_error: u32,
    pub(super) length: u32,
    immediate: u32,
    pub(super) qp: u32,
    pub(super) source: u32,
    pub(super) flags: c_uint,
    rest: [u16; 3],
}

#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

#[repr(C)]
pub(super) struct CmId {
    pub(super) verbs: *mut Context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: *mut c_void,
    pub(super) qp: *mut Qp,
    route: [u64; 39],
    port_space: c_int,
    pub(super) port: u8,
}

#[repr(C)]
pub(super) struct ConnectionWish {
    pub(super) private_data: *const c_void,
    pub(super) private_bytes: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retries: u8,
    pub(super) rnr_retries: u8,
    pub(super) srq: u8,
    pub(super) qp_number: u32,
}

#[repr(C)]
pub(super) struct CmEvent {
    pub(super) id: *mut CmId,
    pub(super) listener: *mut CmId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) connection: ConnectionWish,
    rest: [u64; 4],
}

/// A [`CmEvent`] of a group.
#[repr(C)]
pub(super) struct GroupEvent {
    id: *mut CmId,
    listener: *mut CmId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    /// The data that the caller gave when it joined the group.
    pub(super) given: *const c_void,
    given_bytes: u8,
    pub(super) address: AhWish,
    pub(super) qp: u32,
    pub(super) qkey: u32,
}

macro_rules! functions {
    ($($field:ident: $name:literal of $library:ident, fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that the libraries export.
        pub(super) struct Library {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn open() -> Result<Self, String> {
                let (verbs, cm) = (load(VERBS)?, load(CM)?);
                $(let $field = symbol(if stringify!($library) == "cm" { cm } else { verbs }, $name)?;)*
                // SAFETY: the headers declare the functions of these names so, and pointers to functions are
                // as large as others.
                unsafe {
                    Ok(Self {
                        $($field: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>($field),)*
                    })
                }
            }
        }
    };
}

functions! {
    get_device_list: c"ibv_get_device_list" of verbs, fn(*mut c_int) -> *mut *mut Device;
    free_device_list: c"ibv_free_device_list" of verbs, fn(*mut *mut Device);
    open_device: c"ibv_open_device" of verbs, fn(*mut Device) -> *mut Context;
    close_device: c"ibv_close_device" of verbs, fn(*mut Context) -> c_int;
    query_device: c"ibv_query_device" of verbs, fn(*mut Context, *mut DeviceFacts) -> c_int;
    query_port: c"ibv_query_port" of verbs, fn(*mut Context, u8, *mut PortFacts) -> c_int;
    query_gid: c"ibv_query_gid" of verbs, fn(*mut Context, u8, c_int, *mut [u8; 16]) -> c_int;
    alloc_pd: c"ibv_alloc_pd" of verbs, fn(*mut Context) -> *mut Pd;
    dealloc_pd: c"ibv_dealloc_pd" of verbs, fn(*mut Pd) -> c_int;
    reg_mr: c"ibv_reg_mr" of verbs, fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    dereg_mr: c"ibv_dereg_mr" of verbs, fn(*mut Mr) -> c_int;
    create_comp_channel: c"ibv_create_comp_channel" of verbs, fn(*mut Context) -> *mut CompletionChannel;
    destroy_comp_channel: c"ibv_destroy_comp_channel" of verbs, fn(*mut CompletionChannel) -> c_int;
    create_cq: c"ibv_create_cq" of verbs, fn(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut Cq;
    destroy_cq: c"ibv_destroy_cq" of verbs, fn(*mut Cq) -> c_int;
    get_cq_event: c"ibv_get_cq_event" of verbs, fn(*mut CompletionChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ack_cq_events: c"ibv_ack_cq_events" of verbs, fn(*mut Cq, c_uint);
    create_srq: c"ibv_create_srq" of verbs, fn(*mut Pd, *mut SrqWish) -> *mut Srq;
    destroy_srq: c"ibv_destroy_srq" of verbs, fn(*mut Srq) -> c_int;
    status_str: c"ibv_wc_status_str" of verbs, fn(c_int) -> *const c_char;
    create_event_channel: c"rdma_create_event_channel" of cm, fn() -> *mut EventChannel;
    destroy_event_channel: c"rdma_destroy_event_channel" of cm, fn(*mut EventChannel);
    create_id: c"rdma_create_id" of cm, fn(*mut EventChannel, *mut *mut CmId, *mut c_void, c_int) -> c_int;
    destroy_id: c"rdma_destroy_id" of cm, fn(*mut CmId) -> c_int;
    bind_addr: c"rdma_bind_addr" of cm, fn(*mut CmId, *mut sockaddr) -> c_int;
    resolve_addr: c"rdma_resolve_addr" of cm, fn(*mut CmId, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    resolve_route: c"rdma_resolve_route" of cm, fn(*mut CmId, c_int) -> c_int;
    create_qp: c"rdma_create_qp" of cm, fn(*mut CmId, *mut Pd, *mut QpWish) -> c_int;
    destroy_qp: c"rdma_destroy_qp" of cm, fn(*mut CmId);
    connect: c"rdma_connect" of cm, fn(*mut CmId, *mut ConnectionWish) -> c_int;
    listen: c"rdma_listen" of cm, fn(*mut CmId, c_int) -> c_int;
    accept: c"rdma_accept" of cm, fn(*mut CmId, *mut ConnectionWish) -> c_int;
    reject: c"rdma_reject" of cm, fn(*mut CmId, *const c_void, u8) -> c_int;
    disconnect: c"rdma_disconnect" of cm, fn(*mut CmId) -> c_int;
    get_cm_event: c"rdma_get_cm_event" of cm, fn(*mut EventChannel, *mut *mut CmEvent) -> c_int;
    ack_cm_event: c"rdma_ack_cm_event" of cm, fn(*mut CmEvent) -> c_int;
    get_src_port: c"rdma_get_src_port" of cm, fn(*mut CmId) -> u16;
    create_ah: c"ibv_create_ah" of verbs, fn(*mut Pd, *mut AhWish) -> *mut Ah;
    destroy_ah: c"ibv_destroy_ah" of verbs, fn(*mut Ah) -> c_int;
    join_multicast: c"rdma_join_multicast" of cm, fn(*mut CmId, *mut sockaddr, *mut c_void) -> c_int;
    leave_multicast: c"rdma_leave_multicast" of cm, fn(*mut CmId, *mut sockaddr) -> c_int;
}

impl Library {
    /// Returns the libraries, which are opened once for the process. The error is the loader's sentence.
    pub(super) fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    /// Returns whether registered memory stays this process's own when it forks: the kernel copies it for the
    /// child then. Libraries that cannot tell are older than kernels that copy it.
    pub(super) fn copies_at_fork(&self) -> bool {
        const IBV_FORK_UNNEEDED: c_int = 2;
        let Ok(function) = load(VERBS).and_then(|library| symbol(library, c"ibv_is_fork_initialized")) else {
            return false;
        };
        // SAFETY: the header declares the function of this name so, and pointers to functions are as large as
        // others.
        let function: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
        // SAFETY: no arguments.
        unsafe { function() == IBV_FORK_UNNEEDED }
    }

    /// Returns the meaning of a completion's status.
    pub(super) fn describe(&self, status: c_int) -> String {
        // SAFETY: any number is allowed, and the text is static.
        unsafe { text((self.status_str)(status)) }
    }
}

fn load(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the name ends with a zero. The library's constructors run; it stays open for ever.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: a call has just failed, so there is a sentence, which is valid until the next call.
        return Err(unsafe { text(libc::dlerror()) });
    }
    Ok(library)
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is open, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    if symbol.is_null() { Err(format!("there is no {}", name.to_string_lossy())) } else { Ok(symbol) }
}

/// Copies a text; a null pointer gives an empty one.
///
/// # Safety
/// A pointer that is not null ends with a zero, and stays while this runs.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::process::Command;

    /// Each expression of C, and its value here.
    const LAYOUTS: &[(&str, usize)] = &[
        ("sizeof(struct ibv_device_attr)", size_of::<DeviceFacts>()),
        ("offsetof(struct ibv_device_attr, max_mr_size)", offset_of!(DeviceFacts, max_mr_size)),
        ("offsetof(struct ibv_device_attr, max_qp)", offset_of!(DeviceFacts, max_qp)),
        ("offsetof(struct ibv_device_attr, max_sge)", offset_of!(DeviceFacts, max_sge)),
        ("offsetof(struct ibv_device_attr, max_cqe)", offset_of!(DeviceFacts, max_cqe)),
        ("offsetof(struct ibv_device_attr, max_qp_rd_atom)", offset_of!(DeviceFacts, max_qp_rd_atom)),
        ("offsetof(struct ibv_device_attr, max_qp_init_rd_atom)", offset_of!(DeviceFacts, max_qp_init_rd_atom)),
        ("offsetof(struct ibv_device_attr, atomic_cap)", offset_of!(DeviceFacts, atomic_cap)),
        ("offsetof(struct ibv_device_attr, max_srq)", offset_of!(DeviceFacts, max_srq)),
        ("offsetof(struct ibv_device_attr, max_srq_wr)", offset_of!(DeviceFacts, max_srq_wr)),
        ("offsetof(struct ibv_device_attr, phys_port_cnt)", offset_of!(DeviceFacts, ports)),
        ("sizeof(struct ibv_port_attr) - 2", offset_of!(PortFacts, reserve)),
        ("offsetof(struct ibv_port_attr, active_mtu)", offset_of!(PortFacts, active_mtu)),
        ("offsetof(struct ibv_port_attr, gid_tbl_len)", offset_of!(PortFacts, gids)),
        ("offsetof(struct ibv_port_attr, max_msg_sz)", offset_of!(PortFacts, max_message)),
        ("offsetof(struct ibv_port_attr, lid)", offset_of!(PortFacts, lid)),
        ("offsetof(struct ibv_port_attr, link_layer)", offset_of!(PortFacts, link_layer)),
        ("sizeof(struct ibv_wc)", size_of::<Completion>()),
        ("offsetof(struct ibv_wc, byte_len)", offset_of!(Completion, length)),
        ("offsetof(struct ibv_wc, qp_num)", offset_of!(Completion, qp)),
        ("offsetof(struct ibv_mr, lkey)", offset_of!(Mr, lkey)),
        ("offsetof(struct ibv_mr, rkey)", offset_of!(Mr, rkey)),
        ("sizeof(struct ibv_srq_init_attr)", size_of::<SrqWish>()),
        ("offsetof(struct ibv_srq_init_attr, attr)", offset_of!(SrqWish, max_wr)),
        ("sizeof(struct ibv_qp_init_attr)", size_of::<QpWish>()),
        ("offsetof(struct ibv_qp_init_attr, cap)", offset_of!(QpWish, capacity)),
        ("offsetof(struct ibv_qp_init_attr, qp_type)", offset_of!(QpWish, kind)),
        ("sizeof(struct ibv_sge)", size_of::<Piece>()),
        ("sizeof(struct ibv_send_wr)", size_of::<Send>()),
        ("offsetof(struct ibv_send_wr, opcode)", offset_of!(Send, operation)),
        ("offsetof(struct ibv_send_wr, wr.rdma.remote_addr)", offset_of!(Send, remote_address)),
        ("offsetof(struct ibv_send_wr, wr.rdma.rkey)", offset_of!(Send, remote_key)),
        ("sizeof(struct ibv_recv_wr)", size_of::<Receive>()),
        ("sizeof(struct ibv_send_wr)", size_of::<Datagram>()),
        ("offsetof(struct ibv_send_wr, wr.ud.ah)", offset_of!(Datagram, to)),
        ("offsetof(struct ibv_send_wr, wr.ud.remote_qpn)", offset_of!(Datagram, qp)),
        ("offsetof(struct ibv_send_wr, wr.ud.remote_qkey)", offset_of!(Datagram, qkey)),
        ("sizeof(struct ibv_ah_attr)", size_of::<AhWish>()),
        ("offsetof(struct ibv_ah_attr, grh.dgid)", offset_of!(AhWish, gid)),
        ("offsetof(struct ibv_ah_attr, grh.sgid_index)", offset_of!(AhWish, own_gid)),
        ("offsetof(struct rdma_cm_event, status)", offset_of!(GroupEvent, status)),
        ("offsetof(struct rdma_cm_event, param.ud.private_data)", offset_of!(GroupEvent, given)),
        ("offsetof(struct rdma_cm_event, param.ud.ah_attr)", offset_of!(GroupEvent, address)),
        ("offsetof(struct rdma_cm_event, param.ud.qp_num)", offset_of!(GroupEvent, qp)),
        ("offsetof(struct rdma_cm_event, param.ud.qkey)", offset_of!(GroupEvent, qkey)),
        ("sizeof(struct rdma_cm_event)", size_of::<GroupEvent>()),
        ("offsetof(struct ibv_wc, src_qp)", offset_of!(Completion, source)),
        ("offsetof(struct ibv_wc, wc_flags)", offset_of!(Completion, flags)),
        ("IBV_QPT_UD", IBV_QPT_UD as usize),
        ("IBV_WC_GRH", IBV_WC_GRH as usize),
        ("RDMA_PS_UDP", RDMA_PS_UDP as usize),
        ("RDMA_CM_EVENT_MULTICAST_JOIN", EVENT_MULTICAST_JOIN as usize),
        ("RDMA_CM_EVENT_MULTICAST_ERROR", EVENT_MULTICAST_ERROR as usize),
        ("offsetof(struct ibv_qp, qp_num)", offset_of!(Qp, number)),
        ("offsetof(struct ibv_comp_channel, fd)", offset_of!(CompletionChannel, fd)),
        ("offsetof(struct ibv_context, ops.poll_cq)", offset_of!(Context, poll_cq)),
        ("offsetof(struct ibv_context, ops.req_notify_cq)", offset_of!(Context, req_notify_cq)),
        ("offsetof(struct ibv_context, ops.post_srq_recv)", offset_of!(Context, post_srq_recv)),
        ("offsetof(struct ibv_context, ops.post_send)", offset_of!(Context, post_send)),
        ("offsetof(struct ibv_context, ops.post_recv)", offset_of!(Context, post_recv)),
        ("offsetof(struct ibv_device, transport_type)", offset_of!(Device, transport)),
        ("offsetof(struct ibv_device, name)", offset_of!(Device, name)),
        ("offsetof(struct rdma_cm_id, qp)", offset_of!(CmId, qp)),
        ("offsetof(struct rdma_cm_id, ps)", offset_of!(CmId, port_space)),
        ("offsetof(struct rdma_cm_id, port_num)", offset_of!(CmId, port)),
        ("sizeof(struct rdma_conn_param)", size_of::<ConnectionWish>()),
        ("offsetof(struct rdma_conn_param, srq)", offset_of!(ConnectionWish, srq)),
        ("offsetof(struct rdma_conn_param, qp_num)", offset_of!(ConnectionWish, qp_number)),
        ("offsetof(struct rdma_cm_event, event)", offset_of!(CmEvent, event)),
        ("offsetof(struct rdma_cm_event, param)", offset_of!(CmEvent, connection)),
        ("sizeof(struct rdma_cm_event)", size_of::<CmEvent>()),
        ("IBV_LINK_LAYER_ETHERNET", IBV_LINK_LAYER_ETHERNET as usize),
        ("IBV_WC_WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR as usize),
        ("IBV_SEND_INLINE", IBV_SEND_INLINE as usize),
        ("RDMA_PS_TCP", RDMA_PS_TCP as usize),
        ("RDMA_CM_EVENT_REJECTED", EVENT_REJECTED as usize),
        ("RDMA_CM_EVENT_DEVICE_REMOVAL", EVENT_DEVICE_REMOVAL as usize),
    ];

    /// Checks these layouts against their values on machines with 64 bits, with or without headers.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_layouts_are_those_of_rdma_core_44() {
        let known = [
            (size_of::<DeviceFacts>(), 232),
            (offset_of!(DeviceFacts, max_srq), 212),
            (offset_of!(PortFacts, link_layer), 46),
            (size_of::<Completion>(), 48),
            (size_of::<Send>(), 128),
            (offset_of!(Context, post_recv), 216),
            (offset_of!(CmId, port), 348),
            (size_of::<CmEvent>(), 80),
        ];
        known.iter().for_each(|(here, there)| assert_eq!(here, there));
    }

    #[test]
    fn the_layouts_are_those_of_the_headers_of_this_machine() {
        let directory = std::env::temp_dir().join(format!("weft-verbs-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let (source, program) = (directory.join("layout.c"), directory.join("layout"));
        let mut code = "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\nint main(void) {\n".to_owned();
        LAYOUTS.iter().for_each(|(what, _)| code += &format!("    printf(\"%zu\\n\", (size_t)({what}));\n"));
        std::fs::write(&source, code + "    return 0;\n}\n").expect("a file");
        let compiled = Command::new("cc").arg(&source).arg("-o").arg(&program).output();
        if !compiled.is_ok_and(|output| output.status.success()) {
            eprintln!("left out: no compiler, or no headers (Debian: libibverbs-dev, librdmacm-dev)");
            _ = std::fs::remove_dir_all(&directory);
            return;
        }
        let said = Command::new(&program).output().expect("it runs").stdout;
        _ = std::fs::remove_dir_all(&directory);
        let said = String::from_utf8(said).expect("numbers");
        assert_eq!(said.lines().count(), LAYOUTS.len());
        for ((what, here), there) in LAYOUTS.iter().zip(said.lines()) {
            assert_eq!(here.to_string(), there, "{what}");
        }
    }
}
