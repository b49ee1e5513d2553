//! A rank as its agent sees it: a process and the descriptors that lead to it.

use super::binding::Bound;
use super::executable;
use super::lines::Lines;
use super::numbers::{self, Numbers};
use super::search::{self, Unusable};
use crate::control::Loss;
use crate::control::{InputTo, Label, Plan, Program, Stream};
use crate::faces::{self, Faces, LIBRARY_PATH};
use crate::loss::NOTICES_VARIABLE;
use crate::processors::{LOAD_VARIABLE, Set};
use crate::sys::{self, Mask, Spawn, Step};
use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The lowest number of the file by whose end the agent sees at once that a rank ends. Most systems allow
/// 1024 files.
const NUMBER_LAST: i32 = 1000;
/// Variables of other launchers that would mislead a rank of this one.
const STALE_PREFIXES: [&str; 5] = ["PMI_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "MPI_LOCAL"];

/// An output stream of a rank, of two.
pub(crate) struct Output {
    pub(crate) file: File,
    pub(crate) stream: Stream,
    lines: Lines,
}

/// A rank's standard input.
pub(crate) struct Input {
    pub(crate) file: File,
    /// The bytes of the host's input that the rank has taken since the start.
    pub(crate) taken: u64,
}

/// The server's side of a rank's `PMI_FD`.
pub(crate) struct Conversation {
    pub(crate) file: File,
    replies: VecDeque<Rc<[u8]>>,
    /// The bytes of the first reply that have left.
    written: usize,
}

/// A rank and the descriptors that lead to it. A process that has ended, or a descriptor that is closed, is
/// `None`.
pub(crate) struct Rank {
    pub(crate) number: u32,
    pub(crate) pid: Option<libc::pid_t>,
    pub(crate) outputs: [Option<Output>; 2],
    pub(crate) input: Option<Input>,
    pub(crate) conversation: Option<Conversation>,
    /// The pipe that tells it of lost ranks, where it goes on without them.
    pub(crate) notices: Option<File>,
    /// The others have been told that it is lost.
    pub(crate) is_told: bool,
    /// The program that the rank was started with.
    pub(crate) file: PathBuf,
}

/// The state that all ranks of one program share.
pub(crate) struct Starter<'a> {
    plan: &'a Plan,
    program: &'a Program,
    mask: &'a Mask,
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    null: &'a File,
    status_fd: i32,
}

impl<'a> Starter<'a> {
    /// Finds the program, and prepares its arguments and environment. Returns a note when a directory that
    /// nobody asked for does not exist: then the agent's own is taken.
    pub(crate) fn new(
        plan: &'a Plan,
        program: &'a Program,
        mask: &'a Mask,
        null: &'a File,
        status_fd: i32,
    ) -> Result<(Self, Option<String>), Unusable> {
        let (directory, note) = choose_directory(program)?;
        let variables = with_faces(merge_environment(program), program.faces, faces::directory());
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_bytes());
        let own_path = std::env::var_os("PATH");
        let path = path.or(own_path.as_ref().map(|path| path.as_bytes()));
        let first = Some(&program.search_path[..]).filter(|path| !path.is_empty());
        let path =
            first.map(|first| [first, path.unwrap_or(search::PATH_DEFAULT)].join(&b':')).or(path.map(<[u8]>::to_vec));
        let file = search::find(&program.words[0], path.as_deref(), &directory)?;
        if let Some(reason) = executable::truncated(&file) {
            return Err(Unusable { status: search::STATUS_UNUSABLE, reason });
        }
        let text = |bytes: Vec<u8>| {
            let unusable =
                |_| Unusable { status: search::STATUS_UNUSABLE, reason: "a word contains a zero byte".into() };
            CString::new(bytes).map_err(unusable)
        };
        let environment = variables.into_iter().map(|(name, value)| {
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend_from_slice(value.as_bytes());
            text(entry)
        });
        let starter = Self {
            plan,
            program,
            mask,
            file: text(file.into_os_string().into_vec())?,
            arguments: program.words.iter().cloned().map(text).collect::<Result<_, _>>()?,
            environment: environment.collect::<Result<_, _>>()?,
            directory: text(directory.into_os_string().into_vec())?,
            null,
            status_fd,
        };
        Ok((starter, note))
    }

    /// Starts one rank, the `local_rank`th of this host.
    pub(crate) fn start(&mut self, number: u32, local_rank: usize, bound: &Bound) -> Result<Rank, Unusable> {
        let failed = |error: std::io::Error| Unusable {
            status: search::STATUS_UNUSABLE,
            reason: format!("the system refuses to prepare it ({})", sys::reason(&error)),
        };
        let (output, child_output) = pipe().map_err(failed)?;
        let (error, child_error) = pipe().map_err(failed)?;
        let (conversation, child_conversation) = UnixStream::pair().map_err(failed)?;
        let wants_input = match self.plan.input {
            InputTo::Nobody => false,
            InputTo::Rank(rank) => rank == number,
            InputTo::Everybody => true,
        };
        let (child_input, input) =
            if wants_input { pipe().map(|(r, w)| (Some(r), Some(w))).map_err(failed)? } else { (None, None) };
        let conversation = File::from(OwnedFd::from(conversation));
        let (child_notices, notices) = if self.plan.goes_on {
            pipe().map(|(r, w)| (Some(last(r)), Some(w))).map_err(failed)?
        } else {
            (None, None)
        };
        for file in [&output, &error, &conversation].into_iter().chain(&input).chain(&notices) {
            sys::set_nonblocking(file).map_err(failed)?;
        }
        let shared = self.environment.len();
        let numbers = Numbers {
            rank: number,
            size: self.plan.size,
            local_rank: u32::try_from(local_rank).unwrap_or(u32::MAX),
            local_size: u32::try_from(self.plan.ranks.len()).unwrap_or(u32::MAX),
        };
        let descriptor = ("PMI_FD", child_conversation.as_raw_fd().to_string());
        let own = numbers::VARIABLES.iter().map(|&(name, number)| (name, number(&numbers).to_string()));
        for (name, value) in std::iter::once(descriptor).chain(own) {
            self.environment.push(CString::new(format!("{name}={value}")).expect("no zero byte"));
        }
        if self.plan.spawned > 0 {
            // MPICH's programs ask for their parent where they find this variable.
            self.environment.push(c"PMI_SPAWNED=1".to_owned());
        }
        self.environment.push(CString::new(format!("{LOAD_VARIABLE}={}", bound.load)).expect("no zero byte"));
        if let Some(file) = &child_notices {
            let entry = format!("{NOTICES_VARIABLE}={}", file.as_raw_fd());
            self.environment.push(CString::new(entry).expect("no zero byte"));
        }
        let streams = [
            child_input.as_ref().unwrap_or(self.null).as_raw_fd(),
            child_output.as_raw_fd(),
            if self.plan.merge { child_output.as_raw_fd() } else { child_error.as_raw_fd() },
        ];
        let keep = [child_conversation.as_raw_fd(), self.status_fd];
        let keep: Vec<i32> = keep.into_iter().chain(child_notices.as_ref().map(File::as_raw_fd)).collect();
        let affinity = bound.set.as_ref().map_or_else(Vec::new, Set::words);
        let result = self.spawn(streams, &keep, &affinity);
        self.environment.truncate(shared);
        let lines = || Lines::new(&label(self.plan, number), self.plan.size == 1);
        Ok(Rank {
            number,
            pid: Some(result?),
            outputs: [
                Some(Output { file: output, stream: Stream::Output, lines: lines() }),
                Some(Output { file: error, stream: Stream::Error, lines: lines() }),
            ],
            input: input.map(|file| Input { file, taken: 0 }),
            conversation: Some(Conversation::new(conversation)),
            notices,
            is_told: false,
            file: PathBuf::from(OsStr::from_bytes(self.file.as_bytes())),
        })
    }

    fn spawn(&self, streams: [i32; 3], keep: &[i32], affinity: &[u64]) -> Result<libc::pid_t, Unusable> {
        let mut spawn = Spawn {
            file: &self.file,
            arguments: &self.arguments,
            environment: &self.environment,
            directory: Some(&self.directory),
            streams,
            keep,
            death_signal: libc::SIGKILL,
            mask: self.mask,
            affinity,
            session: false,
        };
        let mut result = sys::spawn(&spawn);
        // A script without `#!` is for the shell, as with execvp and every shell.
        let script: Vec<CString>;
        if result.as_ref().is_err_and(|failure| failure.error.raw_os_error() == Some(libc::ENOEXEC)) {
            if let Some(reason) = executable::refused(Path::new(OsStr::from_bytes(self.file.as_bytes()))) {
                return Err(Unusable { status: search::STATUS_UNUSABLE, reason });
            }
            let rest = self.arguments.iter().skip(1).cloned();
            script = [c"sh".to_owned(), self.file.clone()].into_iter().chain(rest).collect();
            (spawn.file, spawn.arguments) = (c"/bin/sh", &script);
            result = sys::spawn(&spawn);
        }
        result.map_err(|failure| self.explain(&failure))
    }

    fn explain(&self, failure: &sys::SpawnError) -> Unusable {
        let (file, error) = (self.file.to_string_lossy(), &failure.error);
        let missing = error.kind() == ErrorKind::NotFound;
        let status = if missing { search::STATUS_MISSING } else { search::STATUS_UNUSABLE };
        let reason = match failure.step {
            Step::Prepare => format!("the system refuses another process ({})", sys::reason(error)),
            Step::Bind => format!("it cannot be bound to its processors ({error})"),
            Step::Directory => {
                format!("the directory {} cannot be entered ({error})", self.directory.to_string_lossy())
            }
            Step::Execute if missing => format!("the interpreter that {file} names does not exist"),
            Step::Execute => format!("{file} cannot be executed ({error})"),
        };
        Unusable { status, reason }
    }

    /// Returns whether this prepares the program with this index.
    pub(crate) fn is_for(&self, program: &Program) -> bool {
        std::ptr::eq(self.program, program)
    }
}

fn label(plan: &Plan, number: u32) -> String {
    let rank = if plan.spawned == 0 { number.to_string() } else { format!("{}:{number}", plan.spawned) };
    match plan.label {
        Label::None => String::new(),
        Label::Rank => format!("[{rank}] "),
        Label::RankAndHost => format!("[{rank} on {}] ", plan.host),
    }
}

/// The directory that a program starts in, and a note when it is not the directory of the plan.
fn choose_directory(program: &Program) -> Result<(PathBuf, Option<String>), Unusable> {
    let wanted = Path::new(OsStr::from_bytes(&program.directory));
    let own = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if wanted.as_os_str().is_empty() {
        return Ok((own(), None));
    }
    if own().join(wanted).is_dir() {
        return Ok((own().join(wanted), None));
    }
    if program.directory_required {
        let reason = format!("there is no directory {}", wanted.display());
        return Err(Unusable { status: search::STATUS_MISSING, reason });
    }
    let note = format!("there is no directory {}; ranks start in {}", wanted.display(), own().display());
    Ok((own(), Some(note)))
}

/// The environment of a program's ranks. It is this process's if that is to be inherited, without the
/// variables of other launchers, plus the variables that were asked for.
fn merge_environment(program: &Program) -> Vec<(OsString, OsString)> {
    let stale = |name: &OsString| {
        name == LOAD_VARIABLE || STALE_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
    };
    let mut merged: Vec<(OsString, OsString)> =
        if program.inherit { std::env::vars_os().filter(|(name, _)| !stale(name)).collect() } else { Vec::new() };
    let set = program.variables.iter().map(|(name, value)| {
        let (name, value) = (name.clone(), value.clone());
        (OsString::from_vec(name), OsString::from_vec(value))
    });
    for (name, value) in set.filter(|(name, _)| name != LOAD_VARIABLE) {
        match merged.iter_mut().find(|(other, _)| *other == name) {
            Some(entry) => entry.1 = value,
            None => merged.push((name, value)),
        }
    }
    merged
}

/// Adds the directory of the libraries for programs of other MPIs, if there is one, to the loader's
/// search path.
fn with_faces(
    mut variables: Vec<(OsString, OsString)>,
    faces: Faces,
    directory: Option<PathBuf>,
) -> Vec<(OsString, OsString)> {
    let at = variables.iter().position(|(name, _)| name == LIBRARY_PATH);
    let own = at.map(|at| variables[at].1.clone());
    let path = directory.and_then(|directory| faces::search_path(own.as_deref(), faces, &directory));
    match (at, path) {
        (_, None) => {}
        (Some(at), Some(path)) => variables[at].1 = path,
        (None, Some(path)) => variables.push((LIBRARY_PATH.into(), path)),
    }
    variables
}

/// The value of a variable in the environment of a program's ranks.
pub(super) fn variable(program: &Program, name: &str) -> Option<OsString> {
    let asked = program.variables.iter().rfind(|(known, _)| known == name.as_bytes());
    let asked = asked.map(|(_, value)| OsString::from_vec(value.clone()));
    asked.or_else(|| std::env::var_os(name).filter(|_| program.inherit))
}

/// Makes a pipe: the end to read from, and the end to write to. Both are closed on exec.
fn pipe() -> std::io::Result<(File, File)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer))))
}

/// Gives the file a number above those of a rank's other files. When a process ends, Linux closes its files
/// from the highest number to the lowest, and takes 20 ms for each socket for raw frames. So this file is
/// closed before them. Its usual number stays where so many are not allowed.
fn last(file: File) -> File {
    sys::duplicate_above(&file, NUMBER_LAST).unwrap_or(file)
}

impl Rank {
    /// Tells the rank that the rank `lost` is lost. A pipe that is full holds thousands of records: a rank
    /// that has read none of them finds out about the next one by its silence. A rank that ends reads
    /// nothing.
    pub(crate) fn tell_of_loss(&mut self, lost: u32, loss: Loss) {
        if let Some(pipe) = self.notices.as_mut().filter(|_| self.number != lost) {
            let _ = pipe.write_all(&loss.record(lost));
        }
    }
}

impl Output {
    /// Reads what is there, at most a buffer full, and appends what may be printed to `out`. `Some(false)`:
    /// the stream has ended. `None`: nothing is there now.
    pub(crate) fn read(&mut self, buffer: &mut [u8], out: &mut Vec<u8>) -> Option<bool> {
        match self.file.read(buffer) {
            Ok(0) => Some(false),
            Ok(count) => {
                self.lines.push(&buffer[..count], out);
                Some(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(_) => Some(false),
        }
    }

    /// Appends the bytes that were held back to `out`.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        self.lines.finish(out);
    }
}

impl Conversation {
    /// A conversation over `file`, which does not block.
    pub(crate) fn new(file: File) -> Self {
        Self { file, replies: VecDeque::new(), written: 0 }
    }

    /// Returns whether replies wait to leave.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Queues a reply, and sends it now if that needs no waiting.
    pub(crate) fn reply(&mut self, bytes: Rc<[u8]>) {
        self.replies.push_back(bytes);
        self.flush();
    }

    /// Sends as much as possible without waiting. A rank that is gone misses nothing.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.replies.front() {
            match self.file.write(&first[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    if self.written == first.len() {
                        self.replies.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.replies.clear();
                    self.written = 0;
                }
            }
        }
    }

    /// Reads what the rank said. `None` when there is nothing now; an empty slice when the rank will never
    /// say more.
    pub(crate) fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        match self.file.read(buffer) {
            Ok(count) => Some(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(_) => Some(&[]),
        }
    }
}
