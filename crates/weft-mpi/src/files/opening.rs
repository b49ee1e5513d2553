//! Opening and closing files, and the other operations that all processes of a file do together (MPI-5.0
//! §14.2, §14.3, §14.6).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::file_view::{View, WrongView};
use weft_core::reduce::Op;
use weft_core::two_phase::{Policy, Wish};
use weft_net::files::{self, File as Body};

use super::conversion::layout;
use super::failure::{self, Failure, WORDS};
use crate::communicator::{broadcast, gather_all};
use crate::constants::*;
use crate::datatypes::Old;
use crate::description::Info;
use crate::error::{Error, Result};
use crate::file::hints::Hints;
use crate::file::mode::Mode;
use crate::file::representation::Representation;
use crate::file::{File, FileView};
use crate::object::{Class, full};
use crate::one_sided::{self, fetch_and_op};
use crate::process::with;

/// The prefixes by which ROMIO lets programs name a file system; they mean nothing here.
const PREFIXES: [&str; 8] = ["ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:", "pvfs2:", "testfs:"];

/// The policy of collective accesses where no hint says otherwise. The times are those of a local file
/// system's cache, and of a file system that other hosts serve (docs/design/files.md).
const LOCAL: Policy = Policy {
    wish: Wish::Automatic,
    run_ns: 700,
    exchanged_per_us: 2000,
    exchange_ns: 50_000,
    aggregators_of_node: 4,
    aggregators_max: u32::MAX,
    window: 4 << 20,
    stripe: 4096,
};
const REMOTE: Policy = Policy { run_ns: 200_000, aggregators_of_node: 1, window: 16 << 20, stripe: 1 << 20, ..LOCAL };

/// The arguments of `MPI_File_open`, checked.
pub struct Wanted {
    path: PathBuf,
    mode: Mode,
    hints: Hints,
}

impl Wanted {
    /// Checks the arguments of `MPI_File_open`.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE`; `MPI_ERR_INFO`.
    pub fn new(path: &Path, mode: i32, info: Result<Info>) -> Result<Self> {
        Ok(Self { path: system_path(path), mode: Mode::new(mode)?, hints: Hints::of(&info?) })
    }
}

/// The path that a file name of the program means.
fn system_path(name: &Path) -> PathBuf {
    let text = name.as_os_str().as_encoded_bytes();
    let prefix = PREFIXES.iter().find(|prefix| text.starts_with(prefix.as_bytes()));
    match (prefix, name.to_str()) {
        (Some(prefix), Some(text)) => PathBuf::from(&text[prefix.len()..]),
        _ => name.to_owned(),
    }
}

/// The rank that creates the file, and has the shared pointer.
pub(super) const OWNER: u32 = 0;

/// Gathers the `values` of all processes of an open file.
pub(super) fn gather(file: usize, values: &[i64]) -> Result<Vec<i64>> {
    let scope = with(|process| {
        let communicator = process.objects.file(file)?.communicator;
        process.agreement_scope(communicator)
    })?;
    gather_all(scope, values)
}

/// Sets the shared pointer of the file with this window. The process that has it calls this.
pub(super) fn set_shared(window: usize, to: u64) -> Result<()> {
    let too_far = |_| Error::new(MPI_ERR_IO, "the shared file pointer would move past the offset 2^63 - 1");
    fetch_and_op(window, OWNER, Op::Replace, i64::try_from(to).map_err(too_far)?).map(drop)
}

/// Waits until all processes of an open file have called this.
pub(super) fn meet(file: usize) -> Result<()> {
    gather(file, &[0]).map(drop)
}

/// Tells all processes of an open file what rank 0 has done: its number, or its failure.
pub(super) fn told_by_rank_0(file: usize, outcome: std::result::Result<u64, Failure>) -> Result<u64> {
    let (communicator, path) = with(|process| {
        let found = process.objects.file(file)?;
        Ok::<_, Error>((found.communicator, found.body.path().to_owned()))
    })?;
    told_by_rank_0_of(communicator, &path, outcome)
}

fn told_by_rank_0_of(communicator: usize, path: &Path, outcome: std::result::Result<u64, Failure>) -> Result<u64> {
    let scope = with(|process| process.agreement_scope(communicator))?;
    let rank = scope.rank;
    let number = *outcome.as_ref().unwrap_or(&0) as i64;
    let mut words = [&failure::words(&outcome)[..], &[number]].concat();
    broadcast(scope, OWNER, &mut words)?;
    match outcome {
        Err(failure) if rank == OWNER => Err(failure.error),
        _ => failure::told(&words, OWNER as usize, path).map_or(Ok(words[WORDS] as u64), Err),
    }
}

/// Tells all processes of the communicator whether all of them have been successful.
fn agree<T>(communicator: usize, path: &Path, outcome: std::result::Result<T, Failure>) -> Result<T> {
    let scope = with(|process| process.agreement_scope(communicator))?;
    let all = gather_all(scope, &failure::words(&outcome));
    let value = outcome.map_err(|failure| failure.error)?;
    failure::first(&all?, WORDS, path).map_or(Ok(value), Err)
}

/// Tells all processes of an open file whether all of them have been successful.
fn agree_on<T>(file: usize, outcome: std::result::Result<T, Failure>) -> Result<T> {
    let (communicator, path) = with(|process| {
        let found = process.objects.file(file)?;
        Ok::<_, Error>((found.communicator, found.body.path().to_owned()))
    })?;
    agree(communicator, &path, outcome)
}

/// The words by which rank 0 tells the policy of a file.
fn policy_words(policy: &Policy, hints: &Hints) -> [i64; 6] {
    let wish = |wish| match wish {
        Wish::Automatic => 0,
        Wish::Always => 1,
        Wish::Never => 2,
    };
    let local = i64::from(policy.run_ns == LOCAL.run_ns);
    let (window, stripe) = (hints.window as i64, hints.stripe as i64);
    [local, wish(hints.write), wish(hints.read), i64::from(hints.aggregators), window, stripe]
}

/// The policy that rank 0 has told, and the hints that go with it.
fn told_policy(words: &[i64], hints: &mut Hints) -> Policy {
    let wish = |word: i64| match word {
        0 => Wish::Automatic,
        1 => Wish::Always,
        _ => Wish::Never,
    };
    let [local, write, read, aggregators, window, stripe] = *words else { return LOCAL };
    (hints.write, hints.read) = (wish(write), wish(read));
    (hints.aggregators, hints.window, hints.stripe) = (aggregators as u32, window as u64, stripe as u64);
    let mut policy = if local != 0 { LOCAL } else { REMOTE };
    if aggregators > 0 {
        policy.aggregators_max = aggregators as u32;
        policy.aggregators_of_node = aggregators as u32;
    }
    if window > 0 {
        policy.window = window as u64;
    }
    if stripe > 0 {
        policy.stripe = stripe as u64;
    }
    policy
}

/// A file that is being opened.
pub struct Opening {
    wanted: Result<Wanted>,
    /// What rank 0 has opened or created, with the size if the file is appended to.
    first: Option<std::result::Result<(Body, u64), Failure>>,
}

/// Begins to open a file: rank 0 of the communicator opens it, and creates it if it has to. All processes of
/// the communicator call [`open`] after that, and another operation of all of them comes in between: then the
/// file is there for all.
///
/// # Errors
/// `MPI_ERR_COMM`. All other errors are those of [`open`].
pub fn begin_open(comm: usize, wanted: Result<Wanted>) -> Result<Opening> {
    let rank = with(|process| Ok::<_, Error>(process.objects.communicator(comm)?.intra()?.rank))?;
    let open = |wanted: &Wanted| {
        let body = Body::open(&wanted.path, wanted.mode.first_access(wanted.hints.permissions))?;
        let size = if wanted.mode.appends() { body.size()? } else { 0 };
        Ok::<_, Failure>((body, size))
    };
    let checked = || wanted.as_ref().map_err(|error| Failure::from(error.clone()));
    let first = (rank == OWNER).then(|| checked().and_then(open));
    Ok(Opening { wanted, first })
}

/// The words in which a process tells what it has opened: what it failed at, the policy, the size and the
/// mode.
const OPENED_WORDS: usize = WORDS + 8;

/// Opens a file for the processes of `window`, a window with one number at rank 0 (MPI-5.0 §14.2.1). All of
/// them call this, and those whose arguments are wrong tell the others. Returns the handle of the file.
///
/// # Errors
/// As the kernel says, at all processes; `MPI_ERR_AMODE`; `MPI_ERR_NOT_SAME`: the access modes differ; too
/// many files. Then the window is gone.
pub fn open(window: usize, opening: Opening) -> Result<usize> {
    let opened = open_in(window, opening);
    if opened.is_err() {
        one_sided::discard(window);
    }
    opened
}

fn open_in(window: usize, opening: Opening) -> Result<usize> {
    let communicator = with(|process| Ok::<_, Error>(process.objects.window(window)?.communicator))?;
    let scope = with(|process| process.agreement_scope(communicator))?;
    let rank = scope.rank;
    let Opening { wanted, first } = opening;
    let path = wanted.as_ref().map_or_else(|_| PathBuf::from("the file"), |wanted| wanted.path.clone());
    let opened = match (first, &wanted) {
        (Some(first), _) => first,
        (None, Ok(wanted)) => {
            Body::open(&wanted.path, wanted.mode.later_access()).map(|body| (body, 0)).map_err(Failure::from)
        }
        (None, Err(error)) => Err(Failure::from(error.clone())),
    };
    let mut words = vec![0; OPENED_WORDS];
    words[..WORDS].copy_from_slice(&failure::words(&opened));
    if let (Ok((body, size)), Ok(wanted)) = (&opened, &wanted) {
        let policy = if rank == OWNER && body.is_remote() { REMOTE } else { LOCAL };
        words[WORDS..WORDS + 6].copy_from_slice(&policy_words(&policy, &wanted.hints));
        words[WORDS + 6..].copy_from_slice(&[*size as i64, i64::from(wanted.mode.bits())]);
    }
    let all = gather_all(scope, &words);
    if rank != OWNER
        && let Ok(all) = &all
        && let Some(error) = failure::told(all, OWNER as usize, &path)
    {
        // What this process has met follows from that: the file is not there.
        return Err(error);
    }
    let (body, _) = opened.map_err(|failure| failure.error)?;
    let all = all?;
    if let Some(error) = failure::first(&all, OPENED_WORDS, &path) {
        return Err(error);
    }
    let Wanted { mode, mut hints, .. } = wanted?;
    if all.chunks_exact(OPENED_WORDS).any(|words| words[WORDS + 7] != i64::from(mode.bits())) {
        return Err(Error::new(MPI_ERR_NOT_SAME, "the processes have given different access modes"));
    }
    let policy = told_policy(&all[WORDS..WORDS + 6], &mut hints);
    let position = all[WORDS + 6] as u64;
    let view = with(|process| default_view(process))?;
    one_sided::lock_all(window, MPI_MODE_NOCHECK)?;
    if rank == OWNER && position > 0 {
        set_shared(window, position)?;
    }
    let made = with(|process| {
        let error_handler = process.objects.file_error_handler;
        process.objects.retain_error_handler(error_handler, Some(Class::File))?;
        let file = File {
            window,
            communicator,
            body: Arc::new(body),
            mode,
            error_handler,
            view: Arc::new(view),
            position,
            is_atomic: false,
            hints: Arc::new(hints),
            policy,
            split: None,
        };
        process.objects.files.insert(file).ok_or_else(|| full("files"))
    });
    if position == 0 {
        return made;
    }
    // The shared pointer has been set when any process goes on.
    agree(communicator, &path, made.map_err(Failure::from))
}

fn default_view(process: &crate::process::Process) -> Result<FileView> {
    let byte = process.objects.old_type(MPI_BYTE)?;
    Ok(FileView {
        view: View::default(),
        displacement: 0,
        etype: byte.clone(),
        filetype: byte,
        representation: Representation::Native,
    })
}

/// Closes a file (MPI-5.0 §14.2.2). All its processes call this.
///
/// # Errors
/// `MPI_ERR_FILE`; `MPI_ERR_IO`: a split collective access is open; as the kernel says. Then the file is
/// closed all the same, unless it was none or an access is open.
pub fn close(file: usize) -> Result<()> {
    let (window, communicator, body, mode, rank) = with(|process| {
        process.objects.file(file)?.check_no_split()?;
        let gone = process.objects.files.remove(file).ok_or_else(|| full("files"))?;
        process.objects.release_error_handler(gone.error_handler);
        let rank = process.objects.communicator(gone.communicator)?.rank;
        Ok::<_, Error>((gone.window, gone.communicator, gone.body, gone.mode, rank))
    })?;
    let path = body.path().to_owned();
    // Accesses that the program has not completed keep the file open until they end.
    let closed = Arc::into_inner(body).map_or(Ok(()), |body| body.close().map_err(Failure::from));
    let mut outcome = agree(communicator, &path, closed);
    if mode.is_deleted_on_close() {
        let removed = if rank == OWNER { files::remove(&path).map_err(Failure::from) } else { Ok(()) };
        outcome = outcome.and(told_by_rank_0_of(communicator, &path, removed.map(|()| 0)).map(drop));
    }
    one_sided::discard(window);
    outcome
}

/// Removes a file (`MPI_File_delete`, MPI-5.0 §14.2.3).
///
/// # Errors
/// As the kernel says.
pub fn delete(path: &Path) -> Result<()> {
    files::remove(&system_path(path)).map_err(|error| Failure::from(error).error)
}

/// The size of a file in bytes (MPI-5.0 §14.2.6).
///
/// # Errors
/// `MPI_ERR_FILE`; as the kernel says.
pub fn size(file: usize) -> Result<i64> {
    let body = with(|process| Ok::<_, Error>(process.objects.file(file)?.body.clone()))?;
    body.size().map(|size| size as i64).map_err(|error| Failure::from(error).error)
}

/// Has rank 0 change the size of a file, with a number that is the same at all processes.
fn resize(file: usize, size: i64, change: impl FnOnce(&Body, u64) -> files::Result<()>) -> Result<()> {
    let checked = with(|process| {
        let found = process.objects.file(file)?;
        found.check_changes()?;
        found.check_positions()?;
        found.check_no_split()?;
        let wrong = || Error::new(MPI_ERR_ARG, format!("size is {size}; it must not be negative"));
        let rank = process.objects.communicator(found.communicator)?.rank;
        Ok::<_, Error>((found.body.clone(), u64::try_from(size).map_err(|_| wrong())?, rank))
    });
    with(|process| process.objects.file(file).map(drop))?;
    let outcome = checked.as_ref().map(drop).map_err(|error| Failure::from(error.clone()));
    let all = gather(file, &[&failure::words(&outcome)[..], &[size]].concat())?;
    let (body, bytes, rank) = checked?;
    if let Some(error) = failure::first(&all, WORDS + 1, body.path()) {
        return Err(error);
    }
    if all.chunks_exact(WORDS + 1).any(|words| words[WORDS] != size) {
        return Err(Error::new(MPI_ERR_NOT_SAME, "the processes of the file have given different sizes"));
    }
    let changed = if rank == OWNER { change(&body, bytes).map_err(Failure::from) } else { Ok(()) };
    told_by_rank_0(file, changed.map(|()| 0)).map(drop)
}

/// Sets the size of a file (MPI-5.0 §14.2.4).
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_READ_ONLY`, `MPI_ERR_ARG`, `MPI_ERR_NOT_SAME`; as the kernel says, at all
/// processes.
pub fn set_size(file: usize, size: i64) -> Result<()> {
    resize(file, size, Body::set_size)
}

/// Reserves room for a file (MPI-5.0 §14.2.5).
///
/// # Errors
/// As for [`set_size`].
pub fn preallocate(file: usize, size: i64) -> Result<()> {
    resize(file, size, Body::preallocate)
}

/// Brings what has been written to the device, and shows this process what others have brought there (MPI-5.0
/// §14.6.1).
///
/// # Errors
/// `MPI_ERR_FILE`; as the kernel says, at all processes.
pub fn sync(file: usize) -> Result<()> {
    let (body, writes) = with(|process| {
        let found = process.objects.file(file)?;
        Ok::<_, Error>((found.body.clone(), found.mode.writes()))
    })?;
    let split = with(|process| process.objects.file(file)?.check_no_split()).map_err(Failure::from);
    let synced = split.and_then(|()| if writes { body.sync().map_err(Failure::from) } else { Ok(()) });
    agree_on(file, synced)
}

/// Sets the atomic mode (MPI-5.0 §14.6.1).
///
/// # Errors
/// `MPI_ERR_FILE`; `MPI_ERR_NOT_SAME`; `MPI_ERR_UNSUPPORTED_OPERATION`: the file system has no locks.
pub fn set_atomicity(file: usize, is_atomic: bool) -> Result<()> {
    let (body, communicator) = with(|process| {
        let found = process.objects.file(file)?;
        Ok::<_, Error>((found.body.clone(), found.communicator))
    })?;
    let alone = with(|process| Ok::<_, Error>(process.objects.communicator(communicator)?.group.size() == 1))?;
    let locks = |body: &Body| {
        if !is_atomic || body.is_stream() || alone {
            return Ok(());
        }
        body.lock(false, 0, 1).or_else(|_| body.lock(true, 0, 1)).map(drop).map_err(Failure::from)
    };
    let outcome = locks(&body);
    let all = gather(file, &[&failure::words(&outcome)[..], &[i64::from(is_atomic)]].concat())?;
    outcome.map_err(|failure| failure.error)?;
    if let Some(error) = failure::first(&all, WORDS + 1, body.path()) {
        return Err(error);
    }
    if all.chunks_exact(WORDS + 1).any(|words| words[WORDS] != i64::from(is_atomic)) {
        return Err(Error::new(MPI_ERR_NOT_SAME, "the processes of the file have given different flags"));
    }
    with(|process| {
        process.objects.file_mut(file)?.is_atomic = is_atomic;
        Ok(())
    })
}

/// Sets hints (MPI-5.0 §14.2.8). Those that all processes must follow alike are those of rank 0.
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_INFO`.
pub fn set_info(file: usize, info: Result<Info>) -> Result<()> {
    with(|process| process.objects.file(file).map(drop))?;
    follow_hints(file, info, Ok(()))
}

/// Agrees on an `outcome`, and follows the hints that rank 0 has been given.
fn follow_hints(file: usize, info: Result<Info>, outcome: Result<()>) -> Result<()> {
    let (mut hints, policy, path) = with(|process| {
        let found = process.objects.file(file)?;
        Ok::<_, Error>((Hints::clone(&found.hints), found.policy, found.body.path().to_owned()))
    })?;
    let taken = info.map(|info| hints.update(&info));
    let outcome = outcome.and(taken).map_err(Failure::from);
    let all = gather(file, &[&failure::words(&outcome)[..], &policy_words(&policy, &hints)].concat())?;
    outcome.map_err(|failure| failure.error)?;
    if let Some(error) = failure::first(&all, WORDS + 6, &path) {
        return Err(error);
    }
    let policy = told_policy(all.get(WORDS..WORDS + 6).unwrap_or(&[]), &mut hints);
    with(|process| {
        let found = process.objects.file_mut(file)?;
        (found.hints, found.policy) = (Arc::new(hints), policy);
        Ok(())
    })
}

/// The arguments of `MPI_File_set_view`.
pub struct WantedView {
    /// Bytes of the file before the view, or `MPI_DISPLACEMENT_CURRENT`.
    pub displacement: i64,
    /// The etype.
    pub etype: Result<Old>,
    /// The filetype.
    pub filetype: Result<Old>,
    /// The name of the representation.
    pub representation: String,
    /// Hints.
    pub info: Result<Info>,
}

/// Sets the view of this process, and all pointers to its begin (MPI-5.0 §14.3). All processes call this.
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_ARG`, `MPI_ERR_TYPE`, `MPI_ERR_UNSUPPORTED_DATAREP`, of any process;
/// `MPI_ERR_NOT_SAME`: the etypes have different sizes.
pub fn set_view(file: usize, wanted: WantedView) -> Result<()> {
    let info = wanted.info.clone();
    let (window, rank) = with(|process| {
        let found = process.objects.file(file)?;
        Ok::<_, Error>((found.window, process.objects.communicator(found.communicator)?.rank))
    })?;
    let view = new_view(file, wanted);
    let etype = view.as_ref().map_or(0, |view| view.view.etype_size() as i64);
    let representation = view.as_ref().map_or(0, |view| number_of(view.representation.name()));
    let outcome = view.as_ref().map(drop).map_err(Error::clone);
    // Where a process is wrong, its sentence matters more than sizes that differ for that reason.
    follow_hints(file, info, outcome)?;
    let view = view?;
    let told = gather(file, &[etype, representation])?;
    if let Some(other) = told.chunks_exact(2).position(|words| words != [etype, representation]) {
        let message = format!(
            "the etype of rank {other} has another size than that of rank {rank}, or the representation is another"
        );
        return Err(Error::new(MPI_ERR_NOT_SAME, message));
    }
    with(|process| {
        let found = process.objects.file_mut(file)?;
        (found.view, found.position) = (Arc::new(view), 0);
        Ok::<_, Error>(())
    })?;
    // All processes are here, and have ended their accesses by the shared pointer.
    let reset = if rank == OWNER { set_shared(window, 0).map_err(Failure::from) } else { Ok(()) };
    told_by_rank_0(file, reset.map(|()| 0)).map(drop)
}

/// A number for the name of a representation, by which processes compare theirs (FNV-1a).
fn number_of(name: &str) -> i64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        as i64
}

/// The error of a wrong view: of a wrong argument, or of a datatype that no file can have (as MPICH's tests
/// of files expect).
fn wrong_view(why: WrongView) -> Error {
    let class = match why {
        WrongView::Displacement(_) | WrongView::NotWhole { .. } | WrongView::TooFar => MPI_ERR_ARG,
        WrongView::BeforeOrigin(_) | WrongView::GoesBack(_) | WrongView::Extent(_) => MPI_ERR_IO,
    };
    Error::new(class, why.to_string())
}

fn new_view(file: usize, wanted: WantedView) -> Result<FileView> {
    let WantedView { displacement, etype, filetype, representation, .. } = wanted;
    let (etype, filetype) = (etype?, filetype?);
    let (representation, is_sequential, writes) = with(|process| {
        let representation = process.representations.find(&representation)?;
        let found = process.objects.file(file)?;
        found.check_no_split()?;
        Ok::<_, Error>((representation, found.mode.is_sequential(), found.mode.writes()))
    })?;
    let displacement = match displacement {
        MPI_DISPLACEMENT_CURRENT if is_sequential => current_displacement(file)?,
        MPI_DISPLACEMENT_CURRENT => {
            let message = "disp is MPI_DISPLACEMENT_CURRENT, which is for files opened with MPI_MODE_SEQUENTIAL only";
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        _ if is_sequential => {
            let message = "disp must be MPI_DISPLACEMENT_CURRENT for a file opened with MPI_MODE_SEQUENTIAL";
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        given => given,
    };
    let (of_etype, of_filetype) = (layout(&representation, &etype)?, layout(&representation, &filetype)?);
    let view = View::new(displacement, &of_etype, &of_filetype).map_err(wrong_view)?;
    if writes && view.overlaps() {
        let message = "etype or filetype have a byte of the file twice, which is for files opened with MPI_MODE_RDONLY";
        return Err(Error::new(MPI_ERR_IO, message));
    }
    Ok(FileView { view, displacement, etype, filetype, representation })
}

/// The byte of the file at which the shared pointer is: the displacement that `MPI_DISPLACEMENT_CURRENT`
/// names.
fn current_displacement(file: usize) -> Result<i64> {
    let window = with(|process| Ok::<_, Error>(process.objects.file(file)?.window))?;
    let etypes = fetch_and_op(window, OWNER, Op::NoOp, 0)?;
    with(|process| {
        let view = &process.objects.file(file)?.view.view;
        let byte = view.data(etypes as u64).and_then(|data| view.byte_offset(data));
        byte.map(|byte| byte as i64).map_err(|why| Error::new(MPI_ERR_IO, why.to_string()))
    })
}

/// Sets the error handler of a file (MPI-5.0 §9.3.3).
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_ERRHANDLER`.
pub fn set_error_handler(file: usize, handler: usize) -> Result<()> {
    with(|process| {
        let old = process.objects.file(file)?.error_handler;
        process.objects.retain_error_handler(handler, Some(Class::File))?;
        process.objects.file_mut(file)?.error_handler = handler;
        process.objects.release_error_handler(old);
        Ok(())
    })
}
