//! Windows of one-sided communication (MPI-5.0 §12): making them, and synchronizing on them. The operations are the engine's
//! (`weft_engine::windows`).
//!
//! A window has a communicator of its own, of the same processes, whose contexts keep its messages apart; the program never sees it.

mod epochs;

use std::sync::atomic::{Ordering, fence};

use weft_net::clock;
use weft_net::shared::{self, WindowMemory};

use crate::awaited::Awaited;
use crate::collective::CollectiveScope;
use crate::communicator::{Creation, agree_on_context, gather_all};
use crate::constants::*;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::object::{Attributes, Class, Group, Info, full};
use crate::process::{Process, block_for, lock, with};

pub use epochs::{Epochs, Held};
pub use weft_engine::engine::Access;
pub use weft_engine::memory::Exposed;
pub use weft_engine::windows::{Attached, Exposure, Mark, NewWindow, Reach};

/// A program may wait for what others do to its window by calls that need nothing from anybody: so often, in ticks of about 2.5 GHz, one of these
/// looks for what has arrived.
const TICKS_PER_LOOK: u64 = 12_500;
/// Bytes between the words that are the locks of the parts of one memory: no two share a cache line.
const LOCK_STRIDE: usize = 128;
/// Parts of a window that need not be contiguous begin at multiples of this: the first process to touch a page has it near.
const PART_ALIGNMENT: u64 = 4096;

/// What one process contributes to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its length in bytes; of a dynamic window, 0.
    pub size: u64,
    /// Bytes of one step of a displacement.
    pub disp_unit: u64,
    /// Its address in the process that has it.
    base: u64,
    /// Its address in this process; 0: it is not here.
    pub here: usize,
}

/// Values that attributes point to (MPI-5.0 §12.2.6).
#[derive(Debug)]
pub struct Facts {
    /// `MPI_WIN_SIZE`.
    pub size: isize,
    /// `MPI_WIN_DISP_UNIT`.
    pub disp_unit: i32,
    /// `MPI_WIN_CREATE_FLAVOR`.
    pub flavor: i32,
    /// `MPI_WIN_MODEL`.
    pub model: i32,
}

/// A window.
pub struct Window {
    /// Handle of its own communicator.
    pub communicator: usize,
    /// Its number in the engine.
    pub index: usize,
    /// This process's rank.
    pub rank: u32,
    /// What attributes point to; it stays where it is.
    pub facts: Box<Facts>,
    /// What each process contributes.
    pub parts: Vec<Part>,
    /// Epochs that are open.
    pub epochs: Epochs,
    /// Handle of its error handler.
    pub error_handler: usize,
    /// Set by `MPI_Win_set_name`.
    pub name: String,
    /// Cached by the program.
    pub attributes: Attributes,
    /// Hints that are in effect.
    pub info: Info,
    /// Memory that goes with it.
    memory: Option<WindowMemory>,
}

impl Window {
    /// What the process `rank` contributes; `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    #[inline]
    pub fn target(&self, rank: i32) -> Result<Option<(u32, &Part)>> {
        match usize::try_from(rank).ok().and_then(|rank| self.parts.get(rank)) {
            Some(part) => Ok(Some((rank as u32, part))),
            None if rank == MPI_PROC_NULL => Ok(None),
            None => Err(wrong_rank(rank, self.parts.len())),
        }
    }

    /// Whether it was made by `MPI_Win_create_dynamic`.
    pub fn is_dynamic(&self) -> bool {
        self.facts.flavor == MPI_WIN_FLAVOR_DYNAMIC
    }
}

#[cold]
fn wrong_rank(rank: i32, size: usize) -> Error {
    let message = format!("the target rank is {rank}, but the ranks of the window are 0 to {}", size - 1);
    Error::new(MPI_ERR_RANK, message)
}

/// What the program asks for.
pub struct Wish {
    /// One of `MPI_WIN_FLAVOR_*`.
    pub flavor: i32,
    /// Bytes of this process.
    pub size: i64,
    /// Bytes of one step of a displacement.
    pub disp_unit: i64,
    /// Address of memory that the program gives.
    pub base: usize,
    /// Hints.
    pub info: Info,
}

impl Wish {
    fn check(&self) -> Result<()> {
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
        Ok(())
    }

    fn is_set(&self, key: &str) -> bool {
        self.info.iter().any(|(name, value)| name == key && value.trim() == "true")
    }
}

/// A window whose processes have agreed on everything; its memory is still to be described.
pub struct Prepared {
    communicator: usize,
    rank: u32,
    flavor: i32,
    error_handler: usize,
    info: Info,
    /// What each process contributes.
    pub parts: Vec<Part>,
    memory: Option<WindowMemory>,
    /// For each process, where the lock of its part is in this process; 0: its part is not here, or nobody else maps it.
    pub locks: Vec<usize>,
}

impl Prepared {
    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Whether memory is attached to it later.
    pub fn is_dynamic(&self) -> bool {
        self.flavor == MPI_WIN_FLAVOR_DYNAMIC
    }
}

/// What the processes that share memory with this one have asked for, by where it begins.
struct Shares {
    /// Ranks on this node, in order.
    near: Vec<u32>,
    /// Where the part of each begins.
    begins: Vec<u64>,
    /// Where their locks begin.
    locks: usize,
    /// Bytes of all.
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

/// Words that each process tells all others first.
const TOLD: usize = 6;

/// Makes a window of the processes of `comm`: they agree on its context, and those of a node on its memory. All of them call this.
///
/// # Errors
/// `MPI_ERR_COMM`; what is wrong with the wish of any process, at all of them; `MPI_ERR_RMA_SHARED`; no memory; a process is gone.
pub fn prepare(comm: usize, wish: Wish) -> Result<Prepared> {
    let (place, group) = with(|process| {
        let group = process.objects.communicator(comm)?.intra()?.group.clone();
        Ok::<_, Error>((process.agreement_scope(comm)?, group))
    })?;
    let handle = with(|process| process.add_communicator_with(group.clone(), MPI_ERRORS_RETURN))?;
    agree_on_context(place, Some(handle), Creation::Window)?;
    let made = prepare_in(handle, &group, wish);
    if made.is_err() {
        with(|process| process.remove_communicator(handle));
    }
    made
}

fn scope(communicator: usize) -> Result<CollectiveScope> {
    with(|process| process.agreement_scope(communicator))
}

fn prepare_in(handle: usize, group: &Group, wish: Wish) -> Result<Prepared> {
    let own_error = wish.check().err();
    let wants_noncontiguous = wish.is_set("alloc_shared_noncontig") || wish.flavor == MPI_WIN_FLAVOR_ALLOCATE;
    let near = with(|process| {
        let engine = process.engine()?;
        let near = (0..group.size()).filter(|rank| engine.is_near(group.members[*rank as usize]));
        Ok::<Vec<u32>, Error>(near.collect())
    })?;
    let class = own_error.as_ref().map_or(0, |error| error.class);
    let told: [i64; TOLD] = [
        i64::from(class),
        wish.size,
        wish.disp_unit,
        wish.base as i64,
        i64::from(wish.flavor) << 1 | i64::from(wants_noncontiguous),
        near.len() as i64,
    ];
    let all = gather_all(scope(handle)?, &told)?;
    if let Some(error) = own_error {
        return Err(error);
    }
    let each: Vec<&[i64]> = all.chunks_exact(TOLD).collect();
    if let Some((rank, words)) = each.iter().enumerate().find(|(_, words)| words[0] != 0) {
        let message = format!("rank {rank} has called this with an argument that is wrong, and so there is no window");
        return Err(Error::new(words[0] as i32, message));
    }
    if let Some(rank) = each.iter().position(|words| words[4] >> 1 != i64::from(wish.flavor)) {
        let message = format!("rank {rank} makes a window of another kind: all processes must call the same function");
        return Err(Error::new(MPI_ERR_OTHER, message));
    }
    let size = group.size() as usize;
    if wish.flavor == MPI_WIN_FLAVOR_SHARED && each.iter().any(|words| words[5] != size as i64) {
        let message = "the processes of the communicator cannot all share memory: make one of those that can by \
                       MPI_Comm_split_type with MPI_COMM_TYPE_SHARED";
        return Err(Error::new(MPI_ERR_RMA_SHARED, message));
    }
    let part =
        |words: &&[i64]| Part { size: words[1] as u64, disp_unit: words[2] as u64, base: words[3] as u64, here: 0 };
    let mut parts: Vec<Part> = each.iter().map(part).collect();
    let rank = group.rank.unwrap_or(0);
    let mut locks = vec![0; size];
    let allocates = matches!(wish.flavor, MPI_WIN_FLAVOR_ALLOCATE | MPI_WIN_FLAVOR_SHARED);
    let memory = if allocates {
        let contiguous = !near.iter().all(|rank| each[*rank as usize][4] & 1 != 0);
        allocate(handle, near, rank, wish.flavor, contiguous, &mut parts, &mut locks)?
    } else {
        parts[rank as usize].here = wish.base;
        None
    };
    let error_handler = MPI_ERRORS_ARE_FATAL;
    let info = hints(&wish);
    Ok(Prepared { communicator: handle, rank, flavor: wish.flavor, error_handler, info, parts, memory, locks })
}

/// The hints of a window that are in effect, as `MPI_Win_get_info` tells (MPI-5.0 §12.2.7).
fn hints(wish: &Wish) -> Info {
    const DEFAULTS: [(&str, &str); 6] = [
        ("no_locks", "false"),
        ("accumulate_ordering", "rar,raw,war,waw"),
        ("accumulate_ops", "same_op_no_op"),
        ("same_size", "false"),
        ("same_disp_unit", "false"),
        ("alloc_shared_noncontig", "false"),
    ];
    let allocates = matches!(wish.flavor, MPI_WIN_FLAVOR_SHARED | MPI_WIN_FLAVOR_ALLOCATE);
    DEFAULTS
        .iter()
        .filter(|(key, _)| allocates || *key != "alloc_shared_noncontig")
        .map(|(key, default)| {
            let given = wish.info.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            ((*key).to_owned(), given.unwrap_or_else(|| (*default).to_owned()))
        })
        .collect()
}

/// Memory of which the processes of this node have one part each, and all have all of it.
fn allocate(
    handle: usize,
    near: Vec<u32>,
    rank: u32,
    flavor: i32,
    contiguous: bool,
    parts: &mut [Part],
    locks: &mut [usize],
) -> Result<Option<WindowMemory>> {
    let shares = Shares::of(near, parts, contiguous)?;
    let leads = shares.near.first() == Some(&rank);
    let alone = shares.near.len() < 2;
    let (name, settings) = with(|process| {
        let context = process.objects.communicator(handle)?.context;
        let job = process.job.as_ref().ok_or_else(|| Error::new(MPI_ERR_OTHER, "this process is in no job"))?;
        let settings = shared::Settings { directory: job.shm_dir.clone(), ..shared::Settings::default() };
        // Windows of other communicators have other contexts; those of this one on other nodes another leader.
        Ok::<_, Error>((format!("{}-w{context:x}-{:x}", job.node_key, shares.near[0]), settings))
    })?;
    let no_memory = |error: weft_net::Error| Error::new(MPI_ERR_NO_MEM, error.to_string());
    let mut memory = match (alone, leads) {
        (true, _) => WindowMemory::private(shares.bytes).map(Some),
        (false, true) => WindowMemory::create(&name, shares.bytes, &settings).map(Some),
        (false, false) => Ok(None),
    }
    .map_err(no_memory);
    // Who attaches must find it.
    agree(handle, &memory)?;
    if memory.as_ref().is_ok_and(Option::is_none) {
        memory = WindowMemory::attach(&name, shares.bytes, &settings).map(Some).map_err(no_memory);
    }
    let agreed = agree(handle, &memory);
    let mut memory = memory?;
    memory.iter_mut().for_each(WindowMemory::unlink);
    agreed?;
    if let Some(memory) = &memory {
        let base = memory.base().addr();
        for (place, rank) in shares.near.iter().enumerate() {
            if parts[*rank as usize].size == 0 {
                continue;
            }
            parts[*rank as usize].here = base + shares.begins[place] as usize;
            if !alone {
                locks[*rank as usize] = base + shares.locks + place * LOCK_STRIDE;
            }
        }
    }
    debug_assert!(flavor == MPI_WIN_FLAVOR_ALLOCATE || shares.near.len() == parts.len());
    Ok(memory)
}

/// Whether all have been successful, which all hear.
fn agree<T>(handle: usize, outcome: &Result<T>) -> Result<()> {
    let class = outcome.as_ref().err().map_or(0, |error| error.class);
    let classes = gather_all(scope(handle)?, &[i64::from(class)])?;
    if let Err(error) = outcome {
        return Err(error.clone());
    }
    match classes.iter().enumerate().find(|(_, class)| **class != 0) {
        None => Ok(()),
        Some((rank, class)) => {
            let message = format!("rank {rank} has no memory for its part, and so there is no window");
            Err(Error::new(*class as i32, message))
        }
    }
}

/// Opens what has been prepared. `exposures` are what `Prepared` says: this process's part, and those parts that are mapped here. All processes call
/// this; the window's handle.
///
/// # Errors
/// Too many windows; a process is gone.
pub fn open(prepared: Prepared, exposure: Exposure, mapped: Vec<Option<Exposed>>) -> Result<usize> {
    let Prepared { communicator, rank, flavor, error_handler, info, parts, memory, .. } = prepared;
    let handle = with(|process| {
        let object = process.objects.communicator(communicator)?;
        let (context, group) = (object.context, object.group.clone());
        let engine = process.engine()?;
        let reach = |(rank, (part, mapped)): (usize, (&Part, &Option<Exposed>))| match mapped {
            Some(exposed) => Reach::Mapped(*exposed),
            None if flavor == MPI_WIN_FLAVOR_CREATE => {
                engine.neighbour_reach(group.members[rank], part.base, part.size)
            }
            None => Reach::Records,
        };
        let reaches = parts.iter().zip(&mapped).enumerate().map(reach).collect();
        let index = engine.open_window(NewWindow { context, communicator, group, rank, exposure, reaches });
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
            epochs: Epochs::default(),
            error_handler,
            name: String::new(),
            attributes: Vec::new(),
            info,
            memory,
        };
        process.objects.windows.insert(window).ok_or_else(|| full("windows"))
    })?;
    // Nobody accesses a window that its target has not opened: what is there is what the target's program put there before.
    gather_all(scope(communicator)?, &[0])?;
    Ok(handle)
}

/// Ranks of the members of `group` in the window (MPI-5.0 §12.5.2).
fn ranks_of(process: &Process, window: usize, group: &Group) -> Result<Vec<u32>> {
    let found = process.objects.window(window)?;
    let members = &process.objects.communicator(found.communicator)?.group.members;
    let rank_of = |member| {
        let rank = members.iter().position(|other| other == member).map(|rank| rank as u32);
        rank.ok_or_else(|| Error::new(MPI_ERR_GROUP, "a process of the group is not in the group of the window"))
    };
    group.members.iter().map(rank_of).collect()
}

impl Process {
    fn window_parts(&mut self, window: usize) -> Result<(&mut Window, &mut Engine)> {
        let (objects, engine) = self.parts()?;
        Ok((objects.window_mut(window)?, engine))
    }

    /// Whether all `marks` have been reached, those of processes that are gone among them; those that have are taken away.
    fn are_reached(&mut self, index: usize, marks: &mut Vec<Mark>) -> Option<Result<()>> {
        let engine = match self.engine() {
            Ok(engine) => engine,
            Err(error) => return Some(Err(error)),
        };
        let window = engine.windows.get(index)?;
        while let Some(mark) = marks.last() {
            if !window.has_reached(mark) {
                return engine.check_window_peer(index, mark.rank()).err().map(Err);
            }
            marks.pop();
        }
        Some(Ok(()))
    }

    /// Whether nothing is under way to this one locked target, which is most often so where it shares memory.
    #[inline]
    fn is_flushed(&mut self, window: usize, rank: Option<i32>) -> Result<bool> {
        let (objects, engine) = self.parts()?;
        let found = objects.window(window)?;
        let Some(Some((rank, _))) = rank.map(|rank| found.target(rank)).transpose()? else { return Ok(false) };
        found.epochs.check_passive(rank)?;
        Ok(engine.windows.get(found.index).is_some_and(|window| window.is_untouched(rank)))
    }

    /// Makes progress if that has not been done for a while; whether it was time.
    #[inline]
    fn progress_if_due(&mut self) -> bool {
        let now = clock::ticks();
        if now.wrapping_sub(self.window_looked) < TICKS_PER_LOOK {
            return false;
        }
        self.window_looked = now;
        if let Some(engine) = &mut self.engine {
            engine.look_at_network();
        }
        self.progress();
        true
    }

    fn take_window_error(&mut self, index: usize, ranks: Option<&[u32]>) -> Result<()> {
        let Some(window) = self.engine()?.windows.get_mut(index) else { return Ok(()) };
        let error = match ranks {
            Some(ranks) => ranks.iter().find_map(|rank| window.take_error(*rank)),
            None => (0..window.size()).find_map(|rank| window.take_error(rank)),
        };
        error.map_or(Ok(()), Err)
    }
}

/// Waits until all is done that this process has begun at `ranks` of the window, or everywhere; or, `locally`, until the program may use its
/// buffers again.
fn finish(index: usize, ranks: Option<&[u32]>, locally: bool) -> Result<()> {
    let mut process = lock();
    let engine = process.engine()?;
    let begun: Vec<u32> = match (ranks, engine.windows.get(index)) {
        (Some(ranks), _) => ranks.to_vec(),
        (None, Some(window)) => window.unfinished(),
        (None, None) => Vec::new(),
    };
    let mut marks = Vec::with_capacity(begun.len());
    for rank in begun {
        let sent = if locally { engine.send_collected(index, rank) } else { engine.flush_target(index, rank) };
        match sent {
            Ok(mark) => marks.push(mark),
            Err(error) => {
                process.signal();
                return Err(error);
            }
        }
    }
    let outcome = match process.are_reached(index, &mut marks) {
        Some(outcome) => {
            process.progress_if_due();
            process.signal();
            outcome.and_then(|()| process.take_window_error(index, ranks))
        }
        None => block_for(process, &|| Awaited::Unknown, |process| {
            let outcome = process.are_reached(index, &mut marks)?;
            Some(outcome.and_then(|()| process.take_window_error(index, ranks)))
        }),
    };
    outcome?;
    // What is shared has been stored to directly.
    fence(Ordering::SeqCst);
    Ok(())
}

/// `MPI_Win_fence` but for the barrier: all that this process has begun is done. Its communicator.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; what went wrong with operations.
pub fn begin_fence(window: usize, assert: i32) -> Result<usize> {
    check_assert(assert, MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED)?;
    let (index, communicator) = with(|process| {
        let found = process.objects.window(window)?;
        found.epochs.check_fence()?;
        Ok::<_, Error>((found.index, found.communicator))
    })?;
    finish(index, None, false)?;
    Ok(communicator)
}

/// The barrier of a fence is over.
///
/// # Errors
/// `MPI_ERR_WIN`.
pub fn end_fence(window: usize, assert: i32) -> Result<()> {
    fence(Ordering::SeqCst);
    with(|process| process.objects.window_mut(window)?.epochs.fence(assert & MPI_MODE_NOSUCCEED == 0))
}

fn check_assert(assert: i32, allowed: i32) -> Result<()> {
    if assert & !allowed == 0 {
        return Ok(());
    }
    let message = format!("assert is {assert}, which has bits that mean nothing to this function");
    Err(Error::new(MPI_ERR_ASSERT, message))
}

/// `MPI_Win_post`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_GROUP`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; a process is gone.
pub fn post(window: usize, group: &Group, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    fence(Ordering::SeqCst);
    with(|process| {
        let ranks = ranks_of(process, window, group)?;
        let (found, engine) = process.window_parts(window)?;
        found.epochs.post(ranks.clone())?;
        if assert & MPI_MODE_NOCHECK == 0 {
            for rank in ranks {
                engine.post_to(found.index, rank)?;
            }
        }
        Ok(())
    })
}

/// `MPI_Win_start`: returns when all targets have posted.
///
/// # Errors
/// As for [`post`].
pub fn start(window: usize, group: &Group, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let mut process = lock();
    let ranks = ranks_of(&process, window, group)?;
    let (found, _) = process.window_parts(window)?;
    found.epochs.start(ranks.clone())?;
    let index = found.index;
    if assert & MPI_MODE_NOCHECK != 0 {
        process.signal();
        return Ok(());
    }
    block_for(process, &|| Awaited::Unknown, |process| {
        await_all(
            process,
            index,
            &ranks,
            |window, rank| window.has_post_of(rank),
            |window, rank| window.take_post(rank),
        )
    })?;
    fence(Ordering::SeqCst);
    Ok(())
}

/// Whether all of `ranks` have done something, which is taken then; an error if one that has not is gone.
fn await_all(
    process: &mut Process,
    index: usize,
    ranks: &[u32],
    has: impl Fn(&weft_engine::windows::Window, u32) -> bool,
    take: impl Fn(&mut weft_engine::windows::Window, u32),
) -> Option<Result<()>> {
    let engine = match process.engine() {
        Ok(engine) => engine,
        Err(error) => return Some(Err(error)),
    };
    let found = engine.windows.get(index)?;
    if let Some(rank) = ranks.iter().find(|rank| !has(found, **rank)) {
        return engine.check_window_peer(index, *rank).err().map(Err);
    }
    let found = engine.windows.get_mut(index)?;
    ranks.iter().for_each(|rank| take(found, *rank));
    Some(Ok(()))
}

/// `MPI_Win_complete`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`; what went wrong with operations; a process is gone.
pub fn complete(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    let (index, own, ranks) = with(|process| {
        let found = process.objects.window_mut(window)?;
        Ok::<_, Error>((found.index, found.rank, found.epochs.complete()?))
    })?;
    if ranks.contains(&own) {
        finish(index, Some(&[own]), false)?;
    }
    with(|process| {
        let engine = process.engine()?;
        ranks.iter().try_for_each(|rank| engine.complete_at(index, *rank))
    })?;
    finish(index, Some(&ranks), true)
}

/// `MPI_Win_wait`, or `MPI_Win_test` if it does not block: whether the exposure epoch is over.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`; a process is gone.
pub fn wait(window: usize, blocks: bool) -> Result<bool> {
    let mut process = lock();
    let (found, _) = process.window_parts(window)?;
    let (index, ranks) = (found.index, found.epochs.exposed_to()?);
    let mut over = |process: &mut Process| {
        await_all(
            process,
            index,
            &ranks,
            |window, rank| window.has_complete_of(rank),
            |window, rank| {
                window.take_complete(rank);
            },
        )
    };
    let outcome = if blocks {
        block_for(process, &|| Awaited::Unknown, over)
    } else {
        // A program that has heard of the end in another way finds it here: what told it may have come by another route.
        process.engine()?.look_at_network();
        drop(process);
        match crate::process::attempt(&mut over) {
            Some(outcome) => outcome,
            None => return Ok(false),
        }
    };
    fence(Ordering::SeqCst);
    with(|process| {
        process.objects.window_mut(window)?.epochs.end_exposure();
        outcome
    })?;
    Ok(true)
}

fn target_rank(process: &Process, window: usize, rank: i32) -> Result<Option<(usize, u32)>> {
    let found = process.objects.window(window)?;
    Ok(found.target(rank)?.map(|(rank, _)| (found.index, rank)))
}

/// `MPI_Win_lock`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_LOCKTYPE`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; the target is gone.
pub fn lock_one(window: usize, lock_type: i32, rank: i32, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    if !matches!(lock_type, MPI_LOCK_EXCLUSIVE | MPI_LOCK_SHARED) {
        let message = format!("lock_type is {lock_type}; it must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
        return Err(Error::new(MPI_ERR_LOCKTYPE, message));
    }
    let unchecked = assert & MPI_MODE_NOCHECK != 0;
    let target = with(|process| {
        let target = target_rank(process, window, rank)?;
        if let Some((index, rank)) = target {
            let (found, engine) = process.window_parts(window)?;
            found.epochs.check_lock(rank)?;
            if !unchecked {
                engine.lock_target(index, rank, lock_type == MPI_LOCK_EXCLUSIVE)?;
            }
        }
        Ok::<_, Error>(target)
    })?;
    let Some((index, rank)) = target else { return Ok(()) };
    finish(index, Some(&[rank]), true)?;
    with(|process| {
        process.objects.window_mut(window)?.epochs.lock(Held { rank, unchecked });
        Ok(())
    })
}

/// `MPI_Win_unlock`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; what went wrong with operations; the target is gone.
pub fn unlock_one(window: usize, rank: i32) -> Result<()> {
    fence(Ordering::SeqCst);
    let target = with(|process| target_rank(process, window, rank))?;
    let Some((index, rank)) = target else { return Ok(()) };
    let held = with(|process| process.objects.window(window)?.epochs.held(rank))?;
    let done = unlock(index, held);
    with(|process| {
        process.objects.window_mut(window)?.epochs.unlock(rank);
        done
    })
}

fn unlock(index: usize, held: Held) -> Result<()> {
    let Held { rank, unchecked } = held;
    let is_own = with(|process| {
        let window = process.engine()?.windows.get(index);
        Ok::<_, Error>(window.is_some_and(|window| window.own_rank() == rank))
    })?;
    if unchecked || is_own {
        finish(index, Some(&[rank]), false)?;
    }
    if !unchecked {
        with(|process| process.engine()?.unlock_target(index, rank))?;
    }
    finish(index, Some(&[rank]), false)
}

/// `MPI_Win_lock_all`.
///
/// # Errors
/// As for [`lock_one`].
pub fn lock_all(window: usize, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let unchecked = assert & MPI_MODE_NOCHECK != 0;
    let index = with(|process| {
        let (found, engine) = process.window_parts(window)?;
        found.epochs.check_lock_all()?;
        if !unchecked {
            (0..found.parts.len() as u32).try_for_each(|rank| engine.lock_target(found.index, rank, false))?;
        }
        Ok::<_, Error>(found.index)
    })?;
    finish(index, None, true)?;
    with(|process| {
        process.objects.window_mut(window)?.epochs.lock_all(unchecked);
        Ok(())
    })
}

/// `MPI_Win_unlock_all`.
///
/// # Errors
/// As for [`unlock_one`].
pub fn unlock_all(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    let (index, gives_back, own) = with(|process| {
        let found = process.objects.window(window)?;
        Ok::<_, Error>((found.index, found.epochs.check_unlock_all()?, found.rank))
    })?;
    let done = finish(index, Some(&[own]), false).and_then(|()| {
        if gives_back {
            with(|process| {
                let (found, engine) = process.window_parts(window)?;
                (0..found.parts.len() as u32).try_for_each(|rank| engine.unlock_target(index, rank))
            })?;
        }
        finish(index, None, false)
    });
    with(|process| {
        process.objects.window_mut(window)?.epochs.unlock_all();
        done
    })
}

/// `MPI_Win_flush` and its relatives: of one rank, or of all that are locked; `locally`: only the program's buffers matter.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; what went wrong with operations; a target is gone.
pub fn flush(window: usize, rank: Option<i32>, locally: bool) -> Result<()> {
    let mut process = lock();
    let is_done = process.is_flushed(window, rank)?;
    if is_done && !process.progress_if_due() {
        fence(Ordering::SeqCst);
        return Ok(());
    }
    drop(process);
    let (index, ranks) = with(|process| {
        let found = process.objects.window(window)?;
        let ranks = match rank {
            None => found.epochs.passive()?,
            Some(rank) => match found.target(rank)? {
                None => Some(Vec::new()),
                Some((rank, _)) => {
                    found.epochs.check_passive(rank)?;
                    Some(vec![rank])
                }
            },
        };
        Ok::<_, Error>((found.index, ranks))
    })?;
    finish(index, ranks.as_deref(), locally)
}

/// `MPI_Win_sync`.
///
/// # Errors
/// `MPI_ERR_WIN`.
pub fn sync(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    // Programs wait for what others store by calling this in a loop.
    crate::process::progress_once();
    with(|process| process.objects.window(window).map(|_| ()))
}

/// `MPI_Win_attach` of `part`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` where some of it is attached already.
pub fn attach(window: usize, part: Exposed) -> Result<()> {
    with(|process| {
        if attached(process, window)?.attach(part) {
            return Ok(());
        }
        Err(Error::new(MPI_ERR_RMA_ATTACH, "some of this memory is attached to the window already"))
    })
}

/// `MPI_Win_detach`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` where no memory that was attached begins at `address`.
pub fn detach(window: usize, address: u64) -> Result<()> {
    with(|process| {
        if attached(process, window)?.detach(address) {
            return Ok(());
        }
        Err(Error::new(MPI_ERR_RMA_ATTACH, format!("nothing is attached to the window at {address:#x}")))
    })
}

fn attached(process: &mut Process, window: usize) -> Result<&mut Attached> {
    let found = process.objects.window(window)?;
    if !found.is_dynamic() {
        let message = "memory can be attached only to windows that MPI_Win_create_dynamic has made";
        return Err(Error::new(MPI_ERR_RMA_FLAVOR, message));
    }
    let index = found.index;
    match process.engine()?.windows.get_mut(index).map(|window| &mut window.exposure) {
        Some(Exposure::Attached(parts)) => Ok(parts),
        _ => Err(Error::new(MPI_ERR_WIN, "the window is gone")),
    }
}

/// Ends a window: all its processes call this. Nothing is accessed any more when it returns.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`: the window is as it was. A process is gone: the window is as well.
pub fn free(window: usize) -> Result<()> {
    let (index, communicator) = with(|process| {
        let found = process.objects.window(window)?;
        found.epochs.check_free()?;
        Ok::<_, Error>((found.index, found.communicator))
    })?;
    let finished = finish(index, None, false);
    let met = scope(communicator).and_then(|scope| gather_all(scope, &[0]).map(|_| ()));
    with(|process| {
        if let Some(gone) = process.objects.windows.remove(window) {
            process.objects.release_error_handler(gone.error_handler);
            if let Ok(engine) = process.engine() {
                engine.close_window(gone.index);
            }
            process.remove_communicator(gone.communicator);
            drop(gone.memory);
        }
        finished.and(met)
    })
}

/// The error handler of a window is another one from now on.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_ERRHANDLER`.
pub fn set_error_handler(process: &mut Process, window: usize, handler: usize) -> Result<()> {
    let old = process.objects.window(window)?.error_handler;
    process.objects.retain_error_handler(handler, Some(Class::Window))?;
    process.objects.window_mut(window)?.error_handler = handler;
    process.objects.release_error_handler(old);
    Ok(())
}
