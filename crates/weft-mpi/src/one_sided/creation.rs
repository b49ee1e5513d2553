//! Making windows: their processes agree on a context and on what each contributes; those of a node also
//! agree on memory that they share.

use weft_net::shared::{self, WindowMemory};

use weft_engine::memory::{self, Exposed, Holder};
use weft_engine::transport::RemoteMemory;
use weft_engine::windows::{ExposedMemory, NewWindow, Reach};

use super::{agree, remove, scope};
use crate::communicator::{Creation, Notes, agree_on_context, agree_with_notes, gather_all};
use crate::constants::*;
use crate::error::{Error, ErrorClass, Result};
use crate::object::{Group, Info, full};
use crate::process::{Process, with};
use crate::window::direct::Direct;
use crate::window::{Facts, OpenEpochs, Part, Window};

/// The bytes between the lock words of the parts of one memory, so that no two locks share a cache line.
const LOCK_STRIDE: usize = 128;
/// The alignment of the parts of a window that need not be contiguous. The first process to touch a page has
/// it near.
const PART_ALIGNMENT: u64 = 4096;

/// The arguments of the program.
pub struct WindowOptions {
    /// The flavor, a value of `MPI_WIN_FLAVOR_*`.
    pub flavor: i32,
    /// Bytes of this process.
    pub size: i64,
    /// Bytes of one step of a displacement.
    pub disp_unit: i64,
    /// Address of memory that the program gives.
    pub base: usize,
    /// The hints of the program, if it gave any.
    pub info: Result<Info>,
}

impl WindowOptions {
    fn check(&self) -> Result<&Info> {
        if self.size < 0 {
            return Err(Error::new(MPI_ERR_SIZE, format!("size is {}; it must not be negative", self.size)));
        }
        if self.disp_unit < 1 {
            return Err(Error::new(MPI_ERR_DISP, format!("disp_unit is {}; it must be at least 1", self.disp_unit)));
        }
        if self.flavor == MPI_WIN_FLAVOR_CREATE && self.size > 0 && self.base == 0 {
            let message = format!("base is a null pointer; it must have {} bytes", self.size);
            return Err(Error::new(MPI_ERR_BASE, message));
        }
        memory::check_size(self.base, self.size as u64, MPI_ERR_SIZE)?;
        self.info.as_ref().map_err(Error::clone)
    }

    fn is_set(&self, key: &str) -> bool {
        self.info.iter().flatten().any(|(name, value)| name == key && value.trim() == "true")
    }
}

/// A window whose processes have agreed on everything. Its memory is still to be described.
pub struct Prepared {
    communicator: usize,
    rank: u32,
    flavor: i32,
    error_handler: usize,
    info: Info,
    /// The part of each process.
    pub parts: Vec<Part>,
    memory: Option<WindowMemory>,
    /// The address of the lock of each process's part in this process; 0 when the part is not here, or no
    /// other process maps it.
    pub locks: Vec<usize>,
    /// As [`Window::is_elsewhere`].
    is_elsewhere: bool,
}

impl Prepared {
    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The handle by which this process takes the locks of parts.
    pub fn holder(&self) -> &'static Holder {
        shared::holder()
    }

    /// Returns whether memory is attached to it later.
    pub fn is_dynamic(&self) -> bool {
        self.flavor == MPI_WIN_FLAVOR_DYNAMIC
    }
}

/// The parts of the processes that share memory with this one, by their places in the memory.
struct Shares {
    /// Ranks on this node, in order.
    near: Vec<u32>,
    /// The offset of each part.
    begins: Vec<u64>,
    /// The offset of the locks.
    locks: usize,
    /// The bytes of the whole memory.
    bytes: usize,
}

impl Shares {
    fn of(near: Vec<u32>, parts: &[Part], contiguous: bool) -> Result<Self> {
        let mut end = 0_u64;
        let mut begins = Vec::with_capacity(near.len());
        let too_large = || Error::new(MPI_ERR_SIZE, "the window's parts on this node are more than 2^63 - 1 bytes");
        for rank in &near {
            if !contiguous {
                end = end.next_multiple_of(PART_ALIGNMENT);
            }
            begins.push(end);
            let size = parts[*rank as usize].size;
            end = end.checked_add(size).filter(|end| *end < 1 << 62).ok_or_else(too_large)?;
        }
        let locks = (end as usize).next_multiple_of(LOCK_STRIDE);
        Ok(Self { bytes: locks + near.len() * LOCK_STRIDE, near, begins, locks })
    }
}

/// The words that each process tells all others first.
const TOLD: usize = 6;
/// The words that each process tells all others last: an error or success, whether carriers may access its
/// part, and the key and the address of the part.
const REMOTE: usize = 4;

/// Makes a window of the processes of `comm`. They agree on its context, and those of a node on its memory.
/// All of them call this.
///
/// # Errors
/// `MPI_ERR_COMM`; a wrong option of any process, at all processes; `MPI_ERR_RMA_SHARED`; no memory; a
/// process is gone.
pub fn prepare(comm: usize, options: WindowOptions) -> Result<Prepared> {
    let (scope, group) = with(|process| {
        let group = process.objects.communicator(comm)?.intra()?.group.clone();
        Ok::<_, Error>((process.agreement_scope(comm)?, group))
    })?;
    let handle = with(|process| process.add_communicator_with(group.clone(), MPI_ERRORS_RETURN));
    agree_on_context(scope, handle.clone().map(Some), Creation::Window)?;
    let handle = handle?;
    let made = prepare_in(handle, &group, options);
    if made.is_err() {
        with(|process| process.remove_communicator(handle));
    }
    made
}

/// Prepares a window with `bytes` bytes at rank 0, and none elsewhere, for the library itself. Its processes
/// agree on nothing but its context. All of them call this. Returns the highest of each of the `notes` of all
/// processes, too.
///
/// # Errors
/// `MPI_ERR_COMM`; `MPI_ERR_NO_MEM`; a process is gone.
pub fn prepare_at_first(comm: usize, bytes: usize, notes: Notes) -> Result<(Prepared, Notes)> {
    let (scope, group) = with(|process| {
        let group = process.objects.communicator(comm)?.intra()?.group.clone();
        Ok::<_, Error>((process.agreement_scope(comm)?, group))
    })?;
    let rank = group.rank.unwrap_or(0);
    let no_memory = |error: weft_net::Error| Error::new(MPI_ERR_NO_MEM, error.to_string());
    let memory = if rank == 0 { WindowMemory::private(bytes).map(Some).map_err(no_memory) } else { Ok(None) };
    let handle = match &memory {
        Ok(_) => with(|process| process.add_communicator_with(group.clone(), MPI_ERRORS_RETURN)),
        Err(error) => Err(error.clone()),
    };
    let highest = agree_with_notes(scope, handle.clone().map(Some), Creation::File, notes)?;
    let (communicator, memory) = (handle?, memory?);
    let here = memory.as_ref().map_or(0, |memory| memory.base().addr());
    let first = Part { size: bytes as u64, disp_unit: 1, base: 0, here };
    let none = Part { size: 0, here: 0, ..first };
    let size = group.size() as usize;
    let prepared = Prepared {
        communicator,
        rank,
        flavor: MPI_WIN_FLAVOR_ALLOCATE,
        error_handler: MPI_ERRORS_ARE_FATAL,
        info: Info::new(),
        parts: std::iter::once(first).chain(std::iter::repeat(none)).take(size).collect(),
        memory,
        locks: vec![0; size],
        is_elsewhere: rank != 0,
    };
    Ok((prepared, highest))
}

/// Opens a window of [`prepare_at_first`] at this process. Its processes wait for one another before they
/// access it. Returns the window's handle.
///
/// # Errors
/// Too many windows. Then the others are told.
pub fn open_at_first(prepared: Prepared, exposed_memory: ExposedMemory, mapped: Vec<Option<Exposed>>) -> Result<usize> {
    let communicator = prepared.communicator;
    with(|process| {
        let opened = open_here(process, prepared, exposed_memory, mapped);
        if let Err(error) = &opened {
            let scope = process.agreement_scope(communicator)?;
            process.engine()?.give_up(&scope, error);
            process.remove_communicator(communicator);
        }
        Ok(opened?.handle)
    })
}

fn prepare_in(handle: usize, group: &Group, options: WindowOptions) -> Result<Prepared> {
    let own_error = options.check().err();
    let wants_noncontiguous = options.is_set("alloc_shared_noncontig") || options.flavor == MPI_WIN_FLAVOR_ALLOCATE;
    let near = with(|process| {
        let engine = process.engine()?;
        let near = (0..group.size()).filter(|rank| engine.is_near(group.members[*rank as usize]));
        Ok::<Vec<u32>, Error>(near.collect())
    })?;
    let class = ErrorClass::to_wire(own_error.as_ref().map(|error| error.class));
    let told: [i64; TOLD] = [
        i64::from(class),
        options.size,
        options.disp_unit,
        options.base as i64,
        i64::from(options.flavor) << 1 | i64::from(wants_noncontiguous),
        near.len() as i64,
    ];
    let all = gather_all(scope(handle)?, &told)?;
    if let Some(error) = own_error {
        return Err(error);
    }
    let each: Vec<&[i64]> = all.chunks_exact(TOLD).collect();
    let refused = |words: &&[i64]| ErrorClass::from_wire(words[0] as u32);
    if let Some((rank, class)) = each.iter().enumerate().find_map(|(rank, words)| Some((rank, refused(words)?))) {
        let message = format!("rank {rank} has called this with an argument that is wrong, and so there is no window");
        return Err(Error::consequence(class, message));
    }
    if let Some(rank) = each.iter().position(|words| words[4] >> 1 != i64::from(options.flavor)) {
        let message = format!("rank {rank} makes a window of another kind: all processes must call the same function");
        return Err(Error::new(MPI_ERR_OTHER, message));
    }
    let size = group.size() as usize;
    if options.flavor == MPI_WIN_FLAVOR_SHARED && each.iter().any(|words| words[5] != size as i64) {
        let message = "the processes of the communicator cannot all share memory: make one of those that can by \
                       MPI_Comm_split_type with MPI_COMM_TYPE_SHARED";
        return Err(Error::new(MPI_ERR_RMA_SHARED, message));
    }
    let part =
        |words: &&[i64]| Part { size: words[1] as u64, disp_unit: words[2] as u64, base: words[3] as u64, here: 0 };
    let mut parts: Vec<Part> = each.iter().map(part).collect();
    let rank = group.rank.unwrap_or(0);
    let mut locks = vec![0; size];
    let allocates = matches!(options.flavor, MPI_WIN_FLAVOR_ALLOCATE | MPI_WIN_FLAVOR_SHARED);
    let memory = if allocates {
        let contiguous = !near.iter().all(|rank| each[*rank as usize][4] & 1 != 0);
        allocate(handle, near, rank, options.flavor, contiguous, &mut parts, &mut locks)?
    } else {
        parts[rank as usize].here = options.base;
        None
    };
    let error_handler = MPI_ERRORS_ARE_FATAL;
    let info = hints(&options);
    let (communicator, flavor, is_elsewhere) = (handle, options.flavor, false);
    Ok(Prepared { communicator, rank, flavor, error_handler, info, parts, memory, locks, is_elsewhere })
}

/// The hints of a window that are in effect, as `MPI_Win_get_info` tells them (MPI-5.0 §12.2.7).
fn hints(options: &WindowOptions) -> Info {
    const DEFAULTS: [(&str, &str); 6] = [
        ("no_locks", "false"),
        ("accumulate_ordering", "rar,raw,war,waw"),
        ("accumulate_ops", "same_op_no_op"),
        ("same_size", "false"),
        ("same_disp_unit", "false"),
        ("alloc_shared_noncontig", "false"),
    ];
    let allocates = matches!(options.flavor, MPI_WIN_FLAVOR_SHARED | MPI_WIN_FLAVOR_ALLOCATE);
    DEFAULTS
        .iter()
        .filter(|(key, _)| allocates || *key != "alloc_shared_noncontig")
        .map(|(key, default)| {
            let given = options.info.iter().flatten().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            ((*key).to_owned(), given.unwrap_or_else(|| (*default).to_owned()))
        })
        .collect()
}

/// Allocates memory in which each process of this node has one part, and which all of them map whole.
fn allocate(
    handle: usize,
    near: Vec<u32>,
    rank: u32,
    flavor: i32,
    contiguous: bool,
    parts: &mut [Part],
    locks: &mut [usize],
) -> Result<Option<WindowMemory>> {
    let shares = match Shares::of(near, parts, contiguous) {
        Ok(shares) => shares,
        // Other nodes wait for the result.
        Err(error) => return agree(handle, &Err::<(), _>(error), no_memory_of).map(|()| None),
    };
    let leads = shares.near.first() == Some(&rank);
    let alone = shares.near.len() < 2;
    let (name, settings) = with(|process| {
        let object = process.objects.communicator(handle)?;
        let (context, first) = (object.context, object.group.members[shares.near[0] as usize]);
        let leader = process.engine()?.peers[first].number();
        let job = process.job.as_ref().ok_or_else(|| Error::new(MPI_ERR_OTHER, "this process is in no job"))?;
        let settings = shared::Settings { directory: job.shm_dir.clone(), ..shared::Settings::default() };
        // Communicators without a common process may have the same context, but then they have different
        // leaders.
        Ok::<_, Error>((job.names.name("window", &[context, leader]), settings))
    })?;
    let no_memory = |error: weft_net::Error| Error::new(MPI_ERR_NO_MEM, error.to_string());
    let mut memory = match (alone, leads) {
        (true, _) => WindowMemory::private(shares.bytes).map(Some),
        (false, true) => WindowMemory::create(&name, shares.bytes, &settings).map(Some),
        (false, false) => Ok(None),
    }
    .map_err(no_memory);
    // Processes that attach must find the memory.
    agree(handle, &memory, no_memory_of)?;
    if memory.as_ref().is_ok_and(Option::is_none) {
        memory = WindowMemory::attach(&name, shares.bytes, &settings).map(Some).map_err(no_memory);
    }
    let agreed = agree(handle, &memory, no_memory_of);
    let mut memory = memory?;
    memory.iter_mut().for_each(WindowMemory::unlink);
    agreed?;
    if let Some(memory) = &memory {
        let base = memory.base().addr();
        for (index, rank) in shares.near.iter().enumerate() {
            // A part of no bytes has an address, too. In contiguous memory it is where the next part begins
            // (MPI-5.0 §12.2.3).
            parts[*rank as usize].here = base + shares.begins[index] as usize;
            if !alone {
                locks[*rank as usize] = base + shares.locks + index * LOCK_STRIDE;
            }
        }
    }
    debug_assert!(flavor == MPI_WIN_FLAVOR_ALLOCATE || shares.near.len() == parts.len());
    Ok(memory)
}

/// The sentence when `rank` has no memory for a window.
fn no_memory_of(rank: usize) -> String {
    format!("rank {rank} has no memory for its part, and so there is no window")
}

/// Opens a prepared window. `exposed_memory` is this process's part, and `mapped` are the parts that are
/// mapped here. All processes call this. Returns the window's handle.
///
/// # Errors
/// Too many windows; a process is gone.
pub fn open(prepared: Prepared, exposed_memory: ExposedMemory, mapped: Vec<Option<Exposed>>) -> Result<usize> {
    let communicator = prepared.communicator;
    let opened = with(|process| open_here(process, prepared, exposed_memory, mapped));
    // No process accesses a window before its target has opened it. So the window holds what the target's
    // program put there before.
    let class = i64::from(ErrorClass::to_wire(opened.as_ref().err().map(|error| error.class)));
    let remote = opened.as_ref().ok().and_then(|opened| opened.remote);
    let own = remote.map_or([class, 0, 0, 0], |memory| [class, 1, memory.key as i64, memory.address as i64]);
    let all = scope(communicator).and_then(|scope| gather_all(scope, &own));
    let why = |rank| {
        let message = format!("rank {rank} could not open its part, and so there is no window");
        Error::consequence(MPI_ERR_NO_MEM, message)
    };
    let all = all.and_then(|all| match all.chunks_exact(REMOTE).position(|words| words[0] != 0) {
        Some(rank) => Err(why(rank)),
        None => Ok(all),
    });
    let Opened { handle, index, .. } = match (opened, &all) {
        (Ok(opened), Ok(_)) => opened,
        (Ok(Opened { handle, .. }), Err(error)) => {
            with(|process| remove(process, handle));
            return Err(error.clone());
        }
        (Err(error), _) => {
            with(|process| process.remove_communicator(communicator));
            return Err(error);
        }
    };
    with(|process| {
        let (objects, engine) = process.parts()?;
        let parts = &objects.window(handle)?.parts;
        for (rank, (words, part)) in all?.chunks_exact(REMOTE).zip(parts).enumerate() {
            if words[1] != 0 {
                let memory = RemoteMemory { key: words[2] as u64, address: words[3] as u64 };
                engine.one_sided().place_at(index, rank as u32, memory, part.size);
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(handle)
}

/// A window that this process has opened: its handle, its number in the engine, and what the carriers of
/// others need to reach it.
struct Opened {
    handle: usize,
    index: usize,
    remote: Option<RemoteMemory>,
}

fn open_here(
    process: &mut Process,
    prepared: Prepared,
    exposed_memory: ExposedMemory,
    mapped: Vec<Option<Exposed>>,
) -> Result<Opened> {
    let Prepared { communicator, rank, flavor, error_handler, info, parts, memory, is_elsewhere, .. } = prepared;
    let object = process.objects.communicator(communicator)?;
    let (context, group) = (object.context, object.group.clone());
    let engine = process.engine()?;
    let reach = |(rank, (part, mapped)): (usize, (&Part, &Option<Exposed>))| match mapped {
        Some(exposed) => Reach::Mapped(*exposed),
        None if flavor == MPI_WIN_FLAVOR_CREATE => {
            engine.one_sided().neighbour_reach(group.members[rank], part.base, part.size)
        }
        None => Reach::Records,
    };
    let reaches = parts.iter().zip(&mapped).enumerate().map(reach).collect();
    let index =
        engine.one_sided().open_window(NewWindow { context, communicator, group, rank, exposed_memory, reaches });
    let remote = engine.one_sided().expose_window(index);
    let own = &parts[rank as usize];
    let facts = Box::new(Facts {
        size: own.size as isize,
        disp_unit: i32::try_from(own.disp_unit).unwrap_or(i32::MAX),
        flavor,
        model: MPI_WIN_UNIFIED,
    });
    let window = Window {
        communicator,
        index,
        rank,
        facts,
        parts,
        epochs: OpenEpochs::default(),
        error_handler,
        name: String::new(),
        attributes: Vec::new(),
        info,
        memory,
        is_elsewhere,
    };
    let Some(handle) = process.objects.windows.insert(window) else {
        process.engine()?.one_sided().close_window(index);
        return Err(full("windows"));
    };
    process.windows_elsewhere += usize::from(is_elsewhere);
    let found = process.objects.window_mut(handle)?;
    found.epochs.tell(Direct::open(handle, &found.parts, &mapped));
    Ok(Opened { handle, index, remote })
}
