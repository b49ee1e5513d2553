//! Opening and closing files, and the other operations that all processes of a file do together (MPI-5.0
//! §14.2, §14.3, §14.6).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::file_view::{View, WrongView};
use weft_core::fingerprint;
use weft_core::reduce::Op;
use weft_net::files::{self, File as Body, Home};
use weft_plan::two_phase::{Policy, Wish};

use super::conversion::layout;
use super::failure::{self, Failure, WORDS};
use crate::check::{Call, check_now};
use crate::communicator::{Notes, broadcast, gather_all, highest_by, tell_root};
use crate::constants::*;
use crate::datatypes::Old;
use crate::description::Info;
use crate::error::{Error, Result};
use crate::file::hints::{Hints, SHARED_WORDS};
use crate::file::mode::Mode;
use crate::file::representation::Representation;
use crate::file::{File, FileView};
use crate::object::{Class, full};
use crate::one_sided::{self, fetch_and_op};
use crate::process::{Guard, lock, with};

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

/// What the operations that all processes do together need of an open file.
pub(super) struct Common {
    pub(super) communicator: usize,
    pub(super) window: usize,
    pub(super) body: Arc<Body>,
    /// The rank of this process.
    pub(super) rank: u32,
}

impl Common {
    pub(super) fn of(file: usize) -> Result<Self> {
        with(|process| {
            let File { communicator, window, body, .. } = process.objects.file(file)?;
            let rank = process.objects.communicator(*communicator)?.rank;
            Ok(Self { communicator: *communicator, window: *window, body: body.clone(), rank })
        })
    }

    /// Does the same for a call that all processes make: `WEFT_CHECK` compares the calls, and the `argument`
    /// that all must give alike, with its words.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`; the calls differ.
    pub(super) fn of_call(file: usize, argument: Option<(i64, String)>) -> Result<Self> {
        check_call(file, argument)?;
        Self::of(file)
    }

    fn path(&self) -> &Path {
        self.body.path()
    }

    /// Gathers the `values` of all processes.
    pub(super) fn gather(&self, values: &[i64]) -> Result<Vec<i64>> {
        gather_all(with(|process| process.agreement_scope(self.communicator))?, values)
    }

    /// Waits until all processes have called this.
    pub(super) fn meet(&self) -> Result<()> {
        self.gather(&[0]).map(drop)
    }

    /// Tells all processes whether all of them have been successful, and gathers their `values`.
    pub(super) fn agree<T>(&self, outcome: Outcome<T>, values: &[i64]) -> Result<(T, Vec<i64>)> {
        agree(self.communicator, self.path(), outcome, values)
    }

    /// Does the same, and refuses `values` that differ among the processes; `what` names them.
    pub(super) fn agree_on<T>(&self, outcome: Outcome<T>, values: &[i64], what: &str) -> Result<T> {
        let (value, all) = self.agree(outcome, values)?;
        match all.chunks_exact(values.len()).position(|other| other != values) {
            None => Ok(value),
            Some(other) => {
                let message = format!("rank {other} has given {what} other than that of rank {}", self.rank);
                Err(Error::new(MPI_ERR_NOT_SAME, message))
            }
        }
    }

    /// Has rank 0 do `work`, and tells all processes its number, or the failure.
    pub(super) fn by_rank_0(&self, work: impl FnOnce() -> Outcome<u64>) -> Result<u64> {
        told_by_rank_0(self.communicator, self.path(), self.rank, work)
    }
}

/// Where `WEFT_CHECK` is set, compares the call that this thread is in with those of the other processes of
/// the file, and the `argument` that all must give alike.
///
/// # Errors
/// `MPI_ERR_FILE`; the calls differ, at all processes.
pub(super) fn check_call(file: usize, argument: Option<(i64, String)>) -> Result<()> {
    let process = lock();
    let communicator = process.objects.file(file)?.communicator;
    compare(process, communicator, argument)
}

/// Does the same for the processes of `communicator`.
fn compare(mut process: Guard, communicator: usize, argument: Option<(i64, String)>) -> Result<()> {
    if !process.checks_calls {
        return Ok(());
    }
    let comparison = process.agreement_scope(communicator)?;
    check_now(process, comparison, Call { argument, ..Call::default() }).map(drop)
}

/// What one process has come to, and tells all others.
type Outcome<T> = std::result::Result<T, Failure>;

/// Sets the shared pointer of the file with this window. The process that has it calls this.
pub(super) fn set_shared(window: usize, to: u64) -> Result<()> {
    let too_far = |_| Error::new(MPI_ERR_IO, "the shared file pointer would move past the offset 2^63 - 1");
    fetch_and_op(window, OWNER, Op::Replace, i64::try_from(to).map_err(too_far)?).map(drop)
}

fn told_by_rank_0(communicator: usize, path: &Path, rank: u32, work: impl FnOnce() -> Outcome<u64>) -> Result<u64> {
    let outcome = if rank == OWNER { work() } else { Ok(0) };
    let scope = with(|process| process.agreement_scope(communicator))?;
    let number = *outcome.as_ref().unwrap_or(&0) as i64;
    let mut words = [&failure::words(&outcome)[..], &[number]].concat();
    broadcast(scope, OWNER, &mut words)?;
    outcome.map_err(|failure| failure.error)?;
    failure::told(&words, OWNER as usize, path).map_or(Ok(words[WORDS] as u64), Err)
}

/// Tells all processes of the communicator whether all of them have been successful, and gathers their
/// `values`.
fn agree<T>(communicator: usize, path: &Path, outcome: Outcome<T>, values: &[i64]) -> Result<(T, Vec<i64>)> {
    let all = tell_all(communicator, &outcome, values);
    let value = outcome.map_err(|failure| failure.error)?;
    let (all, each) = (all?, WORDS + values.len());
    match failure::first(&all, each, path) {
        Some(error) => Err(error),
        None => Ok((value, all.chunks_exact(each).flat_map(|words| &words[WORDS..]).copied().collect())),
    }
}

/// Tells all processes of the communicator what each has come to, and its `values`. Returns the words of all
/// processes: those of the outcome, and the values.
///
/// One small reduction finds whether all have been successful with the same values. Then each process knows
/// the words of all. They are gathered only where that is not so.
fn tell_all<T>(communicator: usize, outcome: &Outcome<T>, values: &[i64]) -> Result<Vec<i64>> {
    let own = [&failure::words(outcome)[..], values].concat();
    let (scope, layout) = with(|process| {
        let scope = process.agreement_scope(communicator)?;
        let layout = process.agreement_layout(&scope);
        Ok::<_, Error>((scope, layout))
    })?;
    let size = scope.group.size() as usize;
    let mut compared = alike::numbers(outcome.is_ok(), &own);
    highest_by(scope, &mut compared, layout.as_ref())?;
    if alike::are(&compared) {
        return Ok(own.repeat(size));
    }
    gather_all(with(|process| process.agreement_scope(communicator))?, &own)
}

/// Whether all processes have come to the same, as the highest of a few numbers of each tells.
mod alike {
    use weft_core::fingerprint;

    /// The numbers of a process.
    pub(super) fn numbers(is_successful: bool, words: &[i64]) -> [i64; 3] {
        let print = words.iter().fold(fingerprint::EMPTY, |print, word| fingerprint::add(print, &word.to_le_bytes()));
        // The highest complement is that of the lowest number.
        [i64::from(!is_successful), print as i64, !(print as i64)]
    }

    /// Returns whether the highest of each number say that all are successful and have the same words.
    pub(super) fn are(&[failed, highest, opposite]: &[i64; 3]) -> bool {
        failed == 0 && highest == !opposite
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Two processes.   Expect: alike where both are successful with the same words, in the same order.
        #[test]
        fn one_reduction_tells_whether_all_are_alike() {
            let of = |one: (bool, &[i64]), other: (bool, &[i64])| {
                let (one, other) = (numbers(one.0, one.1), numbers(other.0, other.1));
                are(&[0, 1, 2].map(|at| one[at].max(other[at])))
            };
            assert!(of((true, &[]), (true, &[])) && of((true, &[1, -2]), (true, &[1, -2])));
            assert!(!of((true, &[1]), (false, &[1])) && !of((false, &[1]), (false, &[1])));
            for other in [&[1, 2][..], &[2, 1, 3], &[1, 2, 4], &[1, 2, 3, 0]] {
                assert!(!of((true, &[1, 2, 3]), (true, other)) && !of((true, other), (true, &[1, 2, 3])));
            }
        }
    }
}

/// The policy of collective accesses to a file with these hints.
pub(super) fn policy(home: Home, wish: Wish, hints: &Hints) -> Policy {
    let mut policy = Policy { wish, ..if home == Home::Remote { REMOTE } else { LOCAL } };
    if hints.aggregators > 0 {
        (policy.aggregators_max, policy.aggregators_of_node) = (hints.aggregators, hints.aggregators);
    }
    if hints.window > 0 {
        policy.window = hints.window;
    }
    if hints.stripe > 0 {
        policy.stripe = hints.stripe;
    }
    policy
}

/// A file that is being opened.
pub struct Opening {
    wanted: Result<Wanted>,
    /// What this process has opened so far, as [`open_for`] returns it.
    opened: Option<Outcome<(Body, u64)>>,
}

impl Opening {
    /// The numbers by which the processes find whether all have opened the same file in the same way: the
    /// operation that comes before [`open`] finds the highest of each.
    pub fn notes(&self) -> Notes {
        match (&self.opened, &self.wanted) {
            (Some(Ok(opened)), Ok(wanted)) => {
                let identity = opened.0.identity().map(|number| number as i64);
                alike::numbers(true, &[&words(opened, wanted)[..], &identity].concat())
            }
            _ => alike::numbers(false, &[]),
        }
    }
}

/// Begins to open a file: rank 0 of the communicator opens it, and creates it if it has to. All processes of
/// the communicator call [`open`] after that, and another operation of all of them comes in between: then the
/// file is there for all.
///
/// The others try to open the file already now. It may not be there yet. It may also be another file that
/// rank 0 is about to replace, since programs remove files at rank 0 alone. So what they open counts only if
/// all have the same file.
///
/// # Errors
/// `MPI_ERR_COMM`. All other errors are those of [`open`].
pub fn begin_open(comm: usize, wanted: Result<Wanted>) -> Result<Opening> {
    let process = lock();
    let rank = process.objects.communicator(comm)?.intra()?.rank;
    let argument = match &wanted {
        Ok(wanted) => (i64::from(wanted.mode.bits()), wanted.mode.words()),
        // The opening itself says which one.
        Err(_) => (-1, "a wrong argument".to_owned()),
    };
    compare(process, comm, Some(argument))?;
    let opened = match &wanted {
        Ok(wanted) if rank == OWNER => Some(open_for(wanted, wanted.mode.first_access(wanted.hints.permissions))),
        // To open a pipe may wait for others, and a file that must be new is not there yet.
        Ok(wanted) if wanted.mode.is_sequential() || wanted.mode.is_exclusive() => None,
        Ok(wanted) => Some(open_for(wanted, wanted.mode.later_access())),
        Err(error) => Some(Err(Failure::from(error.clone()))),
    };
    Ok(Opening { wanted, opened })
}

/// Opens the file at this process. Returns its size, too, if it is appended to.
fn open_for(wanted: &Wanted, access: files::Access) -> Outcome<(Body, u64)> {
    let body = Body::open(&wanted.path, access)?;
    let size = if wanted.mode.appends() { body.size()? } else { 0 };
    Ok((body, size))
}

/// The words in which a process tells what it has opened: the kind of file system, the size, the mode, and
/// the hints. All follow what rank 0 has told, but for the mode.
const OPENED_WORDS: usize = 3 + SHARED_WORDS;

fn words((body, size): &(Body, u64), wanted: &Wanted) -> [i64; OPENED_WORDS] {
    let mut words = [0; OPENED_WORDS];
    words[..3].copy_from_slice(&[body.home().number(), *size as i64, i64::from(wanted.mode.bits())]);
    words[3..].copy_from_slice(&wanted.hints.shared());
    words
}

/// Opens a file for the processes of `window`, a window with one number at rank 0 (MPI-5.0 §14.2.1). All of
/// them call this, and those whose arguments are wrong tell the others. `notes`: the highest of each of
/// [`Opening::notes`]. Returns the handle of the file.
///
/// # Errors
/// As the kernel says, at all processes; `MPI_ERR_AMODE`; `MPI_ERR_NOT_SAME`: the access modes differ; too
/// many files. Then the window is gone.
pub fn open(window: usize, opening: Opening, notes: Notes) -> Result<usize> {
    let opened = open_in(window, opening, alike::are(&notes));
    if opened.is_err() {
        one_sided::discard(window);
    }
    opened
}

fn open_in(window: usize, opening: Opening, are_alike: bool) -> Result<usize> {
    let (communicator, rank, size) = with(|process| {
        let communicator = process.objects.window(window)?.communicator;
        let object = process.objects.communicator(communicator)?;
        Ok::<_, Error>((communicator, object.rank, object.group.size() as usize))
    })?;
    let Opening { wanted, opened } = opening;
    let path = wanted.as_ref().map_or_else(|_| PathBuf::from("the file"), |wanted| wanted.path.clone());
    let opened = match (opened, &wanted) {
        (Some(opened), _) if are_alike || rank == OWNER => opened,
        // Rank 0 has done its part. What was opened before may be another file.
        (_, Ok(wanted)) => open_for(wanted, wanted.mode.later_access()),
        (_, Err(error)) => Err(Failure::from(error.clone())),
    };
    let mut words = [0; OPENED_WORDS];
    if let (Ok(opened), Ok(wanted)) = (&opened, &wanted) {
        words = self::words(opened, wanted);
    }
    let all = match are_alike {
        true => Ok([&failure::words(&opened)[..], &words].concat().repeat(size)),
        false => tell_all(communicator, &opened, &words),
    };
    if rank != OWNER
        && let Ok(all) = &all
        && let Some(error) = failure::told(all, OWNER as usize, &path)
    {
        // What this process has met follows from that: the file is not there.
        return Err(error);
    }
    let (body, _) = opened.map_err(|failure| failure.error)?;
    let all = all?;
    let each = WORDS + OPENED_WORDS;
    if let Some(error) = failure::first(&all, each, &path) {
        return Err(error);
    }
    let Wanted { mode, mut hints, .. } = wanted?;
    if all.chunks_exact(each).any(|words| words[WORDS + 2] != i64::from(mode.bits())) {
        return Err(Error::new(MPI_ERR_NOT_SAME, "the processes have given different access modes"));
    }
    let (home, position) = (Home::of_number(all[WORDS]), all[WORDS + 1] as u64);
    hints.follow(&all[WORDS + 3..each]);
    let view = with(|process| default_view(process))?;
    one_sided::lock_all(window, MPI_MODE_NOCHECK)?;
    if rank == OWNER && position > 0 {
        set_shared(window, position)?;
    }
    name_and_compare(communicator, &body)?;
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
            hints,
            home,
            split: None,
        };
        process.objects.files.insert(file).ok_or_else(|| full("files"))
    });
    if position == 0 {
        return made;
    }
    // The shared pointer has been set when any process goes on.
    agree(communicator, &path, made.map_err(Failure::from), &[]).map(|(file, _)| file)
}

/// Names the communicator of a file, for sentences about it. Where `WEFT_CHECK` is set, compares the files
/// that the processes have opened, too. It can do so on one host, where a file has the same numbers
/// everywhere.
///
/// # Errors
/// The files differ, at all processes.
fn name_and_compare(communicator: usize, body: &Body) -> Result<()> {
    let mut process = lock();
    let name = body.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let object = process.objects.communicator_mut(communicator)?;
    object.name = format!("file {name}");
    if !process.checks_calls {
        return Ok(());
    }
    let members = process.objects.communicator(communicator)?.group.members.clone();
    let is_one_host = process.nodes_of(&members).iter().all(|node| *node == 0);
    let identity =
        body.identity().iter().fold(fingerprint::EMPTY, |print, number| fingerprint::add(print, &number.to_le_bytes()));
    compare(process, communicator, is_one_host.then_some((identity as i64, name)))
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
    with(|process| process.objects.file(file)?.check_no_split())?;
    let Common { communicator, window, body, rank } = Common::of_call(file, None)?;
    let facts = with(|process| {
        let gone = process.objects.files.remove(file)?;
        process.objects.release_error_handler(gone.error_handler);
        Some((gone.mode, gone.home))
    });
    let is_deleted = facts.is_some_and(|(mode, _)| mode.is_deleted_on_close());
    let can_fail = facts.is_none_or(|(_, home)| home != Home::Local);
    let path = body.path().to_owned();
    // Accesses that the program has not completed keep the file open until they end.
    let closed = Arc::into_inner(body).map_or(Ok(()), |body| body.close().map_err(Failure::from));
    // All know alike which of the two it is. Rank 0 keeps the shared pointer until all are here.
    let mut outcome = if can_fail || is_deleted {
        agree(communicator, &path, closed, &[]).map(drop)
    } else {
        let told = with(|process| process.agreement_scope(communicator)).and_then(|scope| tell_root(scope, OWNER));
        closed.map_err(|failure| failure.error).and(told)
    };
    if is_deleted {
        let remove = || files::remove(&path).map(|()| 0).map_err(Failure::from);
        outcome = outcome.and(told_by_rank_0(communicator, &path, rank, remove).map(drop));
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
    let common = Common::of_call(file, Some((size, format!("size {size}"))))?;
    let checked = with(|process| {
        let found = process.objects.file(file)?;
        found.check_changes()?;
        found.check_positions()?;
        found.check_no_split()?;
        let wrong = |_| Error::new(MPI_ERR_ARG, format!("size is {size}; it must not be negative"));
        u64::try_from(size).map_err(wrong)
    });
    let bytes = common.agree_on(checked.map_err(Failure::from), &[size], "a size")?;
    common.by_rank_0(|| change(&common.body, bytes).map(|()| 0).map_err(Failure::from)).map(drop)
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
    let common = Common::of_call(file, None)?;
    let writes = with(|process| {
        let found = process.objects.file(file)?;
        found.check_no_split()?;
        Ok::<_, Error>(found.mode.writes())
    });
    let synced = writes.map_err(Failure::from).and_then(|writes| match writes {
        true => common.body.sync().map_err(Failure::from),
        false => Ok(()),
    });
    common.agree(synced, &[]).map(drop)
}

/// Sets the atomic mode (MPI-5.0 §14.6.1).
///
/// # Errors
/// `MPI_ERR_FILE`; `MPI_ERR_NOT_SAME`; `MPI_ERR_UNSUPPORTED_OPERATION`: the file system has no locks.
pub fn set_atomicity(file: usize, is_atomic: bool) -> Result<()> {
    let common = Common::of_call(file, Some((i64::from(is_atomic), format!("flag {is_atomic}"))))?;
    let alone = with(|process| Ok::<_, Error>(process.objects.communicator(common.communicator)?.group.size() == 1))?;
    let body = &common.body;
    let locks = if !is_atomic || body.is_stream() || alone {
        Ok(())
    } else {
        body.lock(false, 0, 1).or_else(|_| body.lock(true, 0, 1)).map(drop).map_err(Failure::from)
    };
    common.agree_on(locks, &[i64::from(is_atomic)], "a flag")?;
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
    follow_hints(&Common::of_call(file, None)?, file, info, Ok(()), &[]).map(drop)
}

/// Agrees on an `outcome`, follows the hints that rank 0 has been given, and gathers the `values` of all.
fn follow_hints<T>(
    common: &Common,
    file: usize,
    info: Result<Info>,
    outcome: Result<T>,
    values: &[i64],
) -> Result<(T, Vec<i64>)> {
    let mut hints = with(|process| Ok::<_, Error>(process.objects.file(file)?.hints.clone()))?;
    let taken = info.map(|info| hints.update(&info));
    let outcome = outcome.and_then(|value| taken.map(|()| value)).map_err(Failure::from);
    let (value, all) = common.agree(outcome, &[&hints.shared()[..], values].concat())?;
    hints.follow(&all[..SHARED_WORDS]);
    with(|process| {
        process.objects.file_mut(file)?.hints = hints;
        Ok::<_, Error>(())
    })?;
    let others = all.chunks_exact(SHARED_WORDS + values.len()).flat_map(|words| &words[SHARED_WORDS..]);
    Ok((value, others.copied().collect()))
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
    let representation = fingerprint::add(fingerprint::EMPTY, wanted.representation.as_bytes()) as i64;
    let common = Common::of_call(file, Some((representation, format!("datarep {}", wanted.representation))))?;
    let info = wanted.info.clone();
    let view = new_view(file, wanted);
    let compared = view.as_ref().map_or([0, 0], |FileView { view, representation, .. }| {
        let name = fingerprint::add(fingerprint::EMPTY, representation.name().as_bytes());
        [view.etype_size() as i64, name as i64]
    });
    // Where a process is wrong, its sentence matters more than sizes that differ for that reason.
    let (view, told) = follow_hints(&common, file, info, view, &compared)?;
    if let Some(other) = told.chunks_exact(compared.len()).position(|words| words != compared) {
        let message = format!(
            "the etype of rank {other} has another size than that of rank {}, or the representation is another",
            common.rank
        );
        return Err(Error::new(MPI_ERR_NOT_SAME, message));
    }
    with(|process| {
        let found = process.objects.file_mut(file)?;
        (found.view, found.position) = (Arc::new(view), 0);
        Ok::<_, Error>(())
    })?;
    // All processes are here, and have ended their accesses by the shared pointer.
    common.by_rank_0(|| set_shared(common.window, 0).map(|()| 0).map_err(Failure::from)).map(drop)
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
    let etypes = fetch_and_op(Common::of(file)?.window, OWNER, Op::NoOp, 0)?;
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
