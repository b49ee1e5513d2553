//! The C interface of libfabric, as far as the link uses it: API 1.17, whose structures later versions of the
//! library keep.
//!
//! The library is opened at run time. Nearly all of its functions are entries of tables that its objects
//! point to.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The version of the interface that is asked for, as `FI_VERSION` makes it.
pub(super) const VERSION: u32 = 1 << 16 | 17;
/// Name under which the loader finds the library.
const LIBRARY: &CStr = c"libfabric.so.1";

pub(super) const FI_MSG: u64 = 1 << 1;
pub(super) const FI_RMA: u64 = 1 << 2;
pub(super) const FI_READ: u64 = 1 << 8;
pub(super) const FI_WRITE: u64 = 1 << 9;
pub(super) const FI_RECV: u64 = 1 << 10;
pub(super) const FI_SEND: u64 = 1 << 11;
pub(super) const FI_REMOTE_READ: u64 = 1 << 12;
pub(super) const FI_REMOTE_WRITE: u64 = 1 << 13;
pub(super) const FI_CONTEXT: u64 = 1 << 59;
pub(super) const FI_CONTEXT2: u64 = 1 << 52;
pub(super) const FI_MSG_PREFIX: u64 = 1 << 58;
/// Flag: sends are delivered in their order.
pub(super) const FI_ORDER_SAS: u64 = 1 << 8;
/// Flag: sends are delivered behind remote writes that were started before them.
pub(super) const FI_ORDER_SAW: u64 = 1 << 7;
pub(super) const FI_EP_DGRAM: c_int = 2;
pub(super) const FI_EP_RDM: c_int = 3;
pub(super) const FI_THREAD_DOMAIN: c_int = 3;
pub(super) const FI_MR_LOCAL: c_int = 1 << 2;
/// Mode bit: registrations are bound to their endpoint.
pub(super) const FI_MR_ENDPOINT: c_int = 1 << 9;
/// Mode bit: a peer names registered memory by its address, not by the distance from its beginning.
pub(super) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
/// Mode bit: the provider chooses keys.
pub(super) const FI_MR_PROV_KEY: c_int = 1 << 6;
/// Mode bits of basic registration, by address, with pages that exist and keys that the provider chooses.
pub(super) const FI_MR_BASIC_BITS: c_int = FI_MR_VIRT_ADDR | 1 << 5 | FI_MR_PROV_KEY;
pub(super) const FI_AV_UNSPEC: c_int = 0;
pub(super) const FI_CQ_FORMAT_MSG: c_int = 2;
pub(super) const FI_WAIT_NONE: c_int = 0;
pub(super) const FI_WAIT_FD: c_int = 3;
pub(super) const FI_GETWAIT: c_int = 5;
pub(super) const FI_ENABLE: c_int = 6;
pub(super) const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub(super) const FI_EAVAIL: c_int = 259;
pub(super) const FI_SOCKADDR_IN: u32 = 2;
pub(super) const FI_SOCKADDR_IN6: u32 = 3;

/// A function that the link does not call: only its place in the table matters.
type Unused = *const c_void;

#[repr(C)]
pub(super) struct TxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    op_flags: u64,
    pub(super) msg_order: u64,
    comp_order: u64,
    pub(super) inject_size: usize,
    pub(super) size: usize,
    iov_limit: usize,
    rma_iov_limit: usize,
    tclass: u32,
}

#[repr(C)]
pub(super) struct RxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    op_flags: u64,
    pub(super) msg_order: u64,
    comp_order: u64,
    total_buffered_recv: usize,
    pub(super) size: usize,
    iov_limit: usize,
}

#[repr(C)]
pub(super) struct EpAttr {
    pub(super) kind: c_int,
    protocol: u32,
    protocol_version: u32,
    pub(super) max_msg_size: usize,
    pub(super) msg_prefix_size: usize,
    max_order_raw_size: usize,
    max_order_war_size: usize,
    max_order_waw_size: usize,
    mem_tag_format: u64,
    tx_ctx_cnt: usize,
    rx_ctx_cnt: usize,
    auth_key_size: usize,
    auth_key: *mut u8,
}

#[repr(C)]
pub(super) struct DomainAttr {
    domain: *mut Domain,
    pub(super) name: *mut c_char,
    pub(super) threading: c_int,
    control_progress: c_int,
    data_progress: c_int,
    resource_mgmt: c_int,
    av_type: c_int,
    pub(super) mr_mode: c_int,
    pub(super) mr_key_size: usize,
    // The link does not look at the fields that follow.
}

#[repr(C)]
pub(super) struct FabricAttr {
    fabric: *mut Fabric,
    pub(super) name: *mut c_char,
    pub(super) prov_name: *mut c_char,
    pub(super) prov_version: u32,
    api_version: u32,
}

#[repr(C)]
pub(super) struct Info {
    pub(super) next: *mut Info,
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) addr_format: u32,
    pub(super) src_addrlen: usize,
    dest_addrlen: usize,
    pub(super) src_addr: *mut c_void,
    dest_addr: *mut c_void,
    handle: *mut Fid,
    pub(super) tx_attr: *mut TxAttr,
    pub(super) rx_attr: *mut RxAttr,
    pub(super) ep_attr: *mut EpAttr,
    pub(super) domain_attr: *mut DomainAttr,
    pub(super) fabric_attr: *mut FabricAttr,
    nic: *mut c_void,
}

#[repr(C)]
pub(super) struct Ops {
    size: usize,
    pub(super) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(super) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(super) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// The head that every object of the library begins with.
#[repr(C)]
pub(super) struct Fid {
    class: usize,
    context: *mut c_void,
    pub(super) ops: *mut Ops,
}

#[repr(C)]
pub(super) struct FabricOps {
    pub(super) size: usize,
    pub(super) domain: unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    passive_ep: Unused,
    eq_open: Unused,
    wait_open: Unused,
    pub(super) trywait: Option<unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int>,
}

#[repr(C)]
pub(super) struct Fabric {
    pub(super) fid: Fid,
    pub(super) ops: *mut FabricOps,
}

#[repr(C)]
pub(super) struct AvAttr {
    pub(super) kind: c_int,
    pub(super) rx_ctx_bits: c_int,
    pub(super) count: usize,
    pub(super) ep_per_node: usize,
    pub(super) name: *const c_char,
    pub(super) map_addr: *mut c_void,
    pub(super) flags: u64,
}

#[repr(C)]
pub(super) struct CqAttr {
    pub(super) size: usize,
    pub(super) flags: u64,
    pub(super) format: c_int,
    pub(super) wait_obj: c_int,
    pub(super) signaling_vector: c_int,
    pub(super) wait_cond: c_int,
    pub(super) wait_set: *mut c_void,
}

#[repr(C)]
pub(super) struct DomainOps {
    size: usize,
    pub(super) av_open: unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub(super) cq_open: unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub(super) endpoint: unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct MrOps {
    size: usize,
    #[allow(clippy::type_complexity)]
    pub(super) reg:
        unsafe extern "C" fn(*mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut Mr, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct Domain {
    pub(super) fid: Fid,
    pub(super) ops: *mut DomainOps,
    pub(super) mr: *mut MrOps,
}

#[repr(C)]
pub(super) struct Mr {
    pub(super) fid: Fid,
    pub(super) desc: *mut c_void,
    pub(super) key: u64,
}

#[repr(C)]
pub(super) struct AvOps {
    size: usize,
    pub(super) insert: unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct Av {
    pub(super) fid: Fid,
    pub(super) ops: *mut AvOps,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CqEntry {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
}

/// A completion with an error.
#[repr(C)]
pub(super) struct CqErrEntry {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
    buf: *mut c_void,
    data: u64,
    tag: u64,
    olen: usize,
    pub(super) err: c_int,
    prov_errno: c_int,
    err_data: *mut c_void,
    err_data_size: usize,
}

#[repr(C)]
pub(super) struct CqOps {
    size: usize,
    pub(super) read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    readfrom: Unused,
    pub(super) readerr: unsafe extern "C" fn(*mut Cq, *mut CqErrEntry, u64) -> isize,
}

#[repr(C)]
pub(super) struct Cq {
    pub(super) fid: Fid,
    pub(super) ops: *mut CqOps,
}

#[repr(C)]
pub(super) struct CmOps {
    size: usize,
    setname: Unused,
    pub(super) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(super) struct MsgOps {
    size: usize,
    pub(super) recv: unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    recvv: Unused,
    recvmsg: Unused,
    pub(super) send: unsafe extern "C" fn(*mut Ep, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    sendv: Unused,
    sendmsg: Unused,
    pub(super) inject: unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64) -> isize,
}

/// A function that starts an access. Its arguments: the endpoint; own memory, its length and its description;
/// the peer; the address there and its key; a context.
type Access = unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize;

#[repr(C)]
pub(super) struct RmaOps {
    size: usize,
    pub(super) read: Access,
    readv: Unused,
    readmsg: Unused,
    pub(super) write: Access,
}

#[repr(C)]
pub(super) struct Ep {
    pub(super) fid: Fid,
    ops: Unused,
    pub(super) cm: *mut CmOps,
    pub(super) msg: *mut MsgOps,
    pub(super) rma: *mut RmaOps,
}

type GetInfo = unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// The functions that the library exports.
pub(super) struct Library {
    pub(super) getinfo: GetInfo,
    pub(super) freeinfo: FreeInfo,
    pub(super) dupinfo: DupInfo,
    pub(super) fabric: OpenFabric,
    strerror: StrError,
    version: Version,
}

impl Library {
    /// Returns the library, which is opened once for the process. The error is the loader's sentence.
    pub(super) fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, String> {
        // SAFETY: the name ends with a zero. The library's constructors run; it stays open for ever.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: a call has just failed, so there is a sentence, which is valid until the next call.
            let why = unsafe { text(libc::dlerror()) };
            return Err(why.unwrap_or_else(|| "it cannot be opened".to_owned()));
        }
        let symbol = |name: &CStr| {
            // SAFETY: the handle is open, and the name ends with a zero.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            if symbol.is_null() { Err(format!("it has no {}", name.to_string_lossy())) } else { Ok(symbol) }
        };
        // SAFETY: `fabric.h` declares the functions of these names so, and pointers to functions are as large
        // as others.
        let library = unsafe {
            Self {
                getinfo: std::mem::transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo")?),
                freeinfo: std::mem::transmute::<*mut c_void, FreeInfo>(symbol(c"fi_freeinfo")?),
                dupinfo: std::mem::transmute::<*mut c_void, DupInfo>(symbol(c"fi_dupinfo")?),
                fabric: std::mem::transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric")?),
                strerror: std::mem::transmute::<*mut c_void, StrError>(symbol(c"fi_strerror")?),
                version: std::mem::transmute::<*mut c_void, Version>(symbol(c"fi_version")?),
            }
        };
        let (major, minor) = library.version();
        if (major, minor) < (VERSION >> 16, VERSION & 0xffff) {
            return Err(format!("it is version {major}.{minor}, and 1.17 is the oldest that Weft uses"));
        }
        Ok(library)
    }

    /// Returns the library's major and minor version.
    pub(super) fn version(&self) -> (u32, u32) {
        // SAFETY: no arguments.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }

    /// Returns the meaning of an error, which functions return negated.
    pub(super) fn describe(&self, error: i64) -> String {
        let code = c_int::try_from(error.unsigned_abs()).unwrap_or(c_int::MAX);
        // SAFETY: any number is allowed, and the text is static.
        let said = unsafe { text((self.strerror)(code)) };
        said.unwrap_or_else(|| format!("error {code}"))
    }
}

/// Copies a text; a null pointer gives none.
///
/// # Safety
/// A pointer that is not null ends with a zero, and stays while this runs.
pub(super) unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: as promised.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
