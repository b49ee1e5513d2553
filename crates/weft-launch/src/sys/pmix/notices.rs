//! The notices that libpmix gives of processes of the job that have failed.
//!
//! libpmix calls [`handle`] in a thread of its own, which may hold locks of the library. So the handler takes
//! no lock, allocates nothing and cannot panic: it writes records to a pipe that never blocks the writer, and
//! whoever reads the pipe does the work.

use super::{Info, PROCESS, Process, Status, Value};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// The length of a record: the status of the event and the rank, four bytes each.
pub(crate) const RECORD_BYTES: usize = 8;

/// An array of values of one kind (`pmix_data_array_t`).
const ARRAY: u16 = 39;
/// The most processes of one notice that are believed.
const AFFECTED_MAX: usize = 1 << 20;

/// The statuses by which OpenPMIx and its launchers tell, in versions 3 to 6, that a process is gone, and
/// what has become of it.
const REASONS: [(Status, &str); 9] = [
    (-7, "it was aborted"),
    (ABORTED, "it called MPI_Abort"),
    (-200, "it ended without MPI_Finalize"),
    (-231, "its node is down"),
    (-400, "the launcher was told to kill it"),
    (-401, "it could not be started"),
    (-402, "it was ended by a signal"),
    (-403, "it exceeded a limit of the launcher"),
    (-404, "it ended with an exit code that is not 0"),
];

/// The status of an event that tells of a process that has called `PMIx_Abort`.
pub(crate) const ABORTED: Status = -8;

/// The statuses of an event that concerns no other process, but the connection to the server.
const LOSSES_OF_SERVER: [Status; 2] = [-61, -101];

/// Returns whether an event tells that the server is gone.
pub(crate) fn is_loss_of_server(status: i32) -> bool {
    LOSSES_OF_SERVER.contains(&status)
}

/// What has become of the process of an event.
pub(crate) fn reason(status: i32) -> &'static str {
    REASONS.iter().find(|(known, _)| *known == status).map_or("it has failed", |(_, reason)| reason)
}

/// The end of the pipe to which [`handle`] writes; -1: notices are not wanted.
static WRITER: AtomicI32 = AtomicI32::new(-1);
/// This process, by whose namespace the processes of the job are known.
static OWN: OnceLock<Process> = OnceLock::new();

/// An array of values (`pmix_data_array_t`).
#[repr(C)]
struct Array {
    kind: u16,
    length: usize,
    first: *const Process,
}

type Confirm = unsafe extern "C" fn(Status, *mut Info, usize, *const c_void, *mut c_void, *mut c_void);
type Handler = unsafe extern "C" fn(
    usize,
    Status,
    *const Process,
    *const Info,
    usize,
    *const Info,
    usize,
    Option<Confirm>,
    *mut c_void,
);
type Registered = unsafe extern "C" fn(Status, usize, *mut c_void);
pub(super) type RegisterHandler = unsafe extern "C" fn(
    *const Status,
    usize,
    *const Info,
    usize,
    Option<Handler>,
    Option<Registered>,
    *mut c_void,
) -> Status;

/// Asks for notices, once in the life of this process. Returns the end of the pipe from which records are
/// read, [`RECORD_BYTES`] each. [`end`] writes the last one, which is all zeros.
///
/// # Errors
/// There are notices already, there is no descriptor left, or the library refuses: the library's status.
pub(super) fn begin(register: RegisterHandler, own: &Process) -> Result<File, Status> {
    const NO_RESOURCE: Status = -30;
    OWN.set(*own).map_err(|_| NO_RESOURCE)?;
    let mut ends: [c_int; 2] = [0; 2];
    // SAFETY: the kernel writes two descriptors to the array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(NO_RESOURCE);
    }
    // SAFETY: the call has succeeded, so both are open and nobody else's.
    let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: the descriptor is open; a writer that waits would hold libpmix up.
    if unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(NO_RESOURCE);
    }
    WRITER.store(writer.into_raw_fd(), Ordering::Release);
    let codes: Vec<Status> = REASONS.iter().map(|(code, _)| *code).chain(LOSSES_OF_SERVER).collect();
    // SAFETY: the library copies the codes, and calls both functions with what `pmix_common.h` declares.
    let status =
        unsafe { register(codes.as_ptr(), codes.len(), null(), 0, Some(handle), Some(registered), null_mut()) };
    if status < 0 {
        end();
        return Err(status);
    }
    Ok(File::from(reader))
}

/// Ends the notices. The descriptor stays open: a call of the handler may be under way, and another file must
/// not get its number.
pub(super) fn end() {
    let writer = WRITER.swap(-1, Ordering::AcqRel);
    if writer >= 0 {
        write(writer, [0; RECORD_BYTES]);
    }
}

fn write(writer: c_int, record: [u8; RECORD_BYTES]) {
    // SAFETY: the bytes are valid, and the descriptor is never closed. Writes of this length are never cut:
    // pipe(7).
    unsafe { libc::write(writer, record.as_ptr().cast(), RECORD_BYTES) };
}

/// Does nothing: the server has registered the handler, or it will never be called.
unsafe extern "C" fn registered(_status: Status, _reference: usize, _data: *mut c_void) {}

/// Hands an event on, and tells the library that its next handler may be called.
unsafe extern "C" fn handle(
    _reference: usize,
    status: Status,
    source: *const Process,
    infos: *const Info,
    info_count: usize,
    _results: *const Info,
    _result_count: usize,
    confirm: Option<Confirm>,
    data: *mut c_void,
) {
    // SAFETY: the library passes an array of that many, or null, which stay valid until it is told below.
    let infos = if infos.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(infos, info_count) } };
    let mut found = false;
    for info in infos {
        // SAFETY: as above; the values are of the kinds that they name.
        for process in unsafe { affected(info) } {
            found = true;
            tell(status, process);
        }
    }
    // SAFETY: the library passes a process, or null.
    if let Some(source) = unsafe { source.as_ref() }
        && !found
    {
        tell(status, source);
    }
    if let Some(confirm) = confirm {
        // SAFETY: `data` is what the library wants to see again; there are no results.
        unsafe { confirm(0, null_mut(), 0, null(), null_mut(), data) };
    }
}

/// The processes that an information names as affected.
///
/// # Safety
/// The value is of the kind that it names, and valid as long as the information.
unsafe fn affected(info: &Info) -> &[Process] {
    let value: &Value = &info.value;
    let address = std::ptr::with_exposed_provenance::<c_void>(value.data[0] as usize);
    if address.is_null() {
        return &[];
    }
    if has_key(info, b"pmix.evproc") && value.kind == PROCESS {
        // SAFETY: a value of this kind holds the address of a process.
        return unsafe { std::slice::from_raw_parts(address.cast(), 1) };
    }
    if has_key(info, b"pmix.evaffected") && value.kind == ARRAY {
        // SAFETY: a value of this kind holds the address of an array.
        let array = unsafe { &*address.cast::<Array>() };
        if array.kind == PROCESS && !array.first.is_null() && array.length <= AFFECTED_MAX {
            // SAFETY: it is an array of that many processes.
            return unsafe { std::slice::from_raw_parts(array.first, array.length) };
        }
    }
    &[]
}

fn has_key(info: &Info, key: &[u8]) -> bool {
    let zero_ended = key.iter().copied().chain([0]);
    info.key.iter().zip(zero_ended).all(|(found, wanted)| *found == wanted as c_char)
}

/// Writes a record, if the process is one of this job. A pipe that is full loses it: the processes then find
/// out by the silence of the peer.
fn tell(status: Status, process: &Process) {
    let writer = WRITER.load(Ordering::Acquire);
    let is_ours = OWN.get().is_some_and(|own| own.namespace == process.namespace);
    if writer < 0 || !(is_ours || is_loss_of_server(status)) {
        return;
    }
    let [a, b, c, d] = status.to_ne_bytes();
    let [e, f, g, h] = process.rank.to_ne_bytes();
    write(writer, [a, b, c, d, e, f, g, h]);
}

#[cfg(test)]
mod tests {
    use super::super::{KEY_BYTES, NAMESPACE_BYTES, fixed};
    use super::*;
    use std::io::Read;

    fn process(namespace: &str, rank: u32) -> Process {
        let mut process = Process { namespace: [0; NAMESPACE_BYTES], rank };
        for (to, from) in process.namespace.iter_mut().zip(namespace.bytes()) {
            *to = from as c_char;
        }
        process
    }

    fn info(key: &str, kind: u16, address: *const c_void) -> Info {
        let value = Value { kind, data: [address.expose_provenance() as u64, 0, 0] };
        Info { key: fixed(key).expect("short"), flags: 0, value }
    }

    /// The library's part of an event.
    fn happens(status: Status, source: &Process, infos: &[Info]) {
        // SAFETY: everything is valid during the call.
        unsafe { handle(1, status, source, infos.as_ptr(), infos.len(), null(), 0, None, null_mut()) };
    }

    /// One test, because a process has one handler.
    #[test]
    fn records_name_the_affected_processes_of_this_job_and_nothing_else() {
        const _: () = assert!(KEY_BYTES > 16 && size_of::<Array>() == 24);
        unsafe extern "C" fn agrees(
            _codes: *const Status,
            _count: usize,
            _infos: *const Info,
            _info_count: usize,
            _handler: Option<Handler>,
            _registered: Option<Registered>,
            _data: *mut c_void,
        ) -> Status {
            0
        }
        let mut reader = begin(agrees, &process("job", 0)).expect("a pipe");
        assert!(begin(agrees, &process("job", 0)).is_err(), "one handler is enough");
        let (one, stranger) = (process("job", 3), process("job2", 4));
        // The process that the information names, and not the source.
        happens(-402, &process("job", 9), &[info("pmix.evproc", PROCESS, (&raw const one).cast())]);
        // A process of another job.
        happens(-402, &stranger, &[info("pmix.evproc", PROCESS, (&raw const stranger).cast())]);
        // Several, in an array; a value of another kind; a null.
        let several = [process("job", 5), process("job", 6)];
        let array = Array { kind: PROCESS, length: 2, first: several.as_ptr() };
        let strange = Array { kind: PROCESS, length: usize::MAX, first: several.as_ptr() };
        happens(
            -231,
            &stranger,
            &[
                info("pmix.evaffected", ARRAY, (&raw const array).cast()),
                info("pmix.evaffected", ARRAY, (&raw const strange).cast()),
                info("pmix.evaffected", PROCESS, (&raw const array).cast()),
                info("pmix.evproc", PROCESS, null()),
                info("pmix.evproc.longer", PROCESS, (&raw const one).cast()),
            ],
        );
        // No information: the source. The loss of the server concerns every job.
        happens(-7, &process("job", 7), &[]);
        happens(-61, &stranger, &[]);
        end();
        happens(-7, &process("job", 8), &[]);
        let mut bytes = [0; 6 * RECORD_BYTES];
        reader.read_exact(&mut bytes).expect("six records");
        let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        let records: Vec<_> =
            bytes.chunks(RECORD_BYTES).map(|record| (number(&record[..4]), number(&record[4..]))).collect();
        assert_eq!(records, [(-402, 3), (-231, 5), (-231, 6), (-7, 7), (-61, 4), (0, 0)]);
    }
}
