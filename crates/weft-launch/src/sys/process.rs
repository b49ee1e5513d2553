//! Starting, ending and reaping processes.

use super::{Mask, check};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// The stack of a child between its creation and its `execve`, where it makes only a few system calls.
const CHILD_STACK_BYTES: usize = 64 * 1024;
const STACK_ALIGNMENT: usize = 16;

/// The function that a forked child runs first, once [`on_fork`] was called.
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// Runs `handler` in every child that this process forks from now on, before anything else. Only the first
/// handler counts. It must neither wait nor allocate: the child may hold any lock that the process held when
/// it forked.
pub(crate) fn on_fork(handler: fn()) {
    extern "C" fn in_child() {
        if let Some(handler) = IN_CHILD.get() {
            handler();
        }
    }
    if IN_CHILD.set(handler).is_ok() {
        // SAFETY: the function has the type that is asked for, and lives as long as this library, with which
        // the registration goes.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// A program to be started.
pub(crate) struct Spawn<'a> {
    /// The file to execute; a relative path starts at `directory`.
    pub(crate) file: &'a CStr,
    /// The arguments, the program's name first.
    pub(crate) arguments: &'a [CString],
    /// The environment, `NAME=value` each.
    pub(crate) environment: &'a [CString],
    /// The working directory; `None`: this process's.
    pub(crate) directory: Option<&'a CStr>,
    /// Standard input, output and error.
    pub(crate) streams: [RawFd; 3],
    /// Descriptors that stay open under their own numbers. All others are expected to be close-on-exec.
    pub(crate) keep: &'a [RawFd],
    /// The signal that the child gets when this process dies; 0: none.
    pub(crate) death_signal: i32,
    /// The signals that are blocked in the child.
    pub(crate) mask: &'a Mask,
    /// The processors that the child may run on, a bit for each; empty: those of this process.
    pub(crate) affinity: &'a [u64],
    /// The child gets a session of its own, and no terminal. Otherwise it gets a process group of its own.
    pub(crate) session: bool,
}

/// The step of starting a program that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Prepare,
    Bind,
    Directory,
    Execute,
}

/// The reason why a program could not be started.
#[derive(Debug)]
pub(crate) struct SpawnError {
    pub(crate) step: Step,
    pub(crate) error: io::Error,
}

/// The data of the child. It is made before the child exists, so that the child allocates nothing.
struct Child<'a> {
    spawn: &'a Spawn<'a>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    parent: libc::pid_t,
    failure: Option<(Step, i32)>,
}

/// Starts a program in a process group of its own. The child shares this process's memory until it executes.
/// So the cost does not depend on how much memory this process has, and a failure to execute is known on
/// return.
///
/// # Errors
/// The step that failed, and the system's reason.
pub(crate) fn spawn(spawn: &Spawn<'_>) -> Result<libc::pid_t, SpawnError> {
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let mut child = Child {
        spawn,
        arguments: pointers(spawn.arguments),
        environment: pointers(spawn.environment),
        parent: i32::try_from(std::process::id()).expect("a process id"),
        failure: None,
    };
    let mut stack = vec![0u8; CHILD_STACK_BYTES];
    let used = stack.as_ptr_range().end.addr() % STACK_ALIGNMENT;
    let top = stack.as_mut_ptr().wrapping_add(CHILD_STACK_BYTES - used);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is private and outlives the child's use of it, because CLONE_VFORK suspends this
    // process until the child has executed or exited; `run_child` only makes async-signal-safe calls and
    // writes `failure`.
    let pid = unsafe { libc::clone(run_child, top.cast(), flags, (&raw mut child).cast()) };
    if pid < 0 {
        return Err(SpawnError { step: Step::Prepare, error: io::Error::last_os_error() });
    }
    // SAFETY: a volatile read of a live local; the child may have written it behind the compiler's back.
    match unsafe { (&raw const child.failure).read_volatile() } {
        None => Ok(pid),
        Some((step, number)) => {
            // The child has exited, so this does not block.
            let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
            Err(SpawnError { step, error: io::Error::from_raw_os_error(number) })
        }
    }
}

/// Starts a program with one argument, no input and this process's environment. The standard library can do
/// this too, and takes 30 KB for what is not needed here.
///
/// # Errors
/// The program cannot be started.
pub(crate) fn start(program: &CStr, argument: &CStr) -> io::Result<libc::pid_t> {
    unsafe extern "C" {
        static environ: *const *mut libc::c_char;
    }
    let arguments = [program.as_ptr().cast_mut(), argument.as_ptr().cast_mut(), std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: the structures are made by their own functions before they are used, and given back; all texts
    // are alive and end with a zero; `environ` is the system's. As with any start of a program, no other
    // thread changes the environment meanwhile.
    let result = unsafe {
        let (mut actions, mut attributes) = (std::mem::zeroed(), std::mem::zeroed());
        let (mut none, mut pipe): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut none);
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawnattr_init(&mut attributes);
        libc::posix_spawnattr_setflags(&mut attributes, flags as libc::c_short);
        libc::posix_spawnattr_setsigmask(&mut attributes, &none);
        libc::posix_spawnattr_setsigdefault(&mut attributes, &pipe);
        let input = c"/dev/null".as_ptr();
        libc::posix_spawn_file_actions_addopen(&mut actions, libc::STDIN_FILENO, input, libc::O_RDONLY, 0);
        let result =
            libc::posix_spawn(&mut pid, program.as_ptr(), &actions, &attributes, arguments.as_ptr(), environ.cast());
        libc::posix_spawnattr_destroy(&mut attributes);
        libc::posix_spawn_file_actions_destroy(&mut actions);
        result
    };
    if result == 0 { Ok(pid) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// Waits for the end of a child, unless it is known already.
pub(crate) fn wait(child: libc::pid_t) {
    while matches!(rustix::process::waitpid(Pid::from_raw(child), WaitOptions::empty()), Err(Errno::INTR)) {}
}

/// Runs in the child until `execve`.
extern "C" fn run_child(argument: *mut libc::c_void) -> libc::c_int {
    let child = argument.cast::<Child<'_>>();
    // SAFETY: `spawn` passes a pointer to its local, which nobody else looks at while the child runs.
    let child = unsafe { &mut *child };
    let step = become_program(child);
    let number = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    child.failure = Some((step, number));
    // SAFETY: ends the child at once, without running the parent's exit handlers.
    unsafe { libc::_exit(127) }
}

/// Turns the child into the program. Returns only if a step failed; `errno` then has the reason.
fn become_program(child: &Child<'_>) -> Step {
    let spawn = child.spawn;
    // SAFETY: these calls take numbers or constant, valid pointers and are async-signal-safe.
    unsafe {
        let apart = if spawn.session { libc::setsid() } else { libc::setpgid(0, 0) };
        if apart < 0 || libc::prctl(libc::PR_SET_PDEATHSIG, spawn.death_signal) < 0 {
            return Step::Prepare;
        }
        if libc::getppid() != child.parent {
            *libc::__errno_location() = libc::ESRCH;
            return Step::Prepare;
        }
        for (stream, &fd) in (0..).zip(&spawn.streams) {
            if libc::dup2(fd, stream) < 0 {
                return Step::Prepare;
            }
        }
        for &fd in spawn.keep {
            if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                return Step::Prepare;
            }
        }
        // Rust ignores SIGPIPE, and a shell lets its background jobs ignore SIGINT and SIGQUIT; but a rank
        // must get the signals that mpiexec sends. Handlers of this process do not survive execve anyway.
        for signal in [libc::SIGPIPE, libc::SIGINT, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &spawn.mask.0, std::ptr::null_mut());
        let processors = spawn.affinity;
        if !processors.is_empty()
            && libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(processors), processors.as_ptr()) < 0
        {
            return Step::Bind;
        }
        if let Some(directory) = spawn.directory
            && libc::chdir(directory.as_ptr()) < 0
        {
            return Step::Directory;
        }
        libc::execve(spawn.file.as_ptr(), child.arguments.as_ptr(), child.environment.as_ptr());
    }
    Step::Execute
}

/// The side of a [`fork`].
pub(crate) enum Fork {
    /// The process that called, with the child's id.
    Parent(libc::pid_t),
    /// The new process.
    Child,
}

/// Copies this process, which must have only one thread: the launcher never starts any.
///
/// # Errors
/// An error of the system.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: with one thread there is no lock that another thread could hold in the child.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends this process at once: no exit handlers, nothing flushed.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(status) }
}

/// Puts this process into a process group of its own, out of reach of the terminal's signals.
pub(crate) fn new_group() {
    // A failure (already a leader) changes nothing.
    let _ = rustix::process::setpgid(None, None);
}

/// Makes orphans among this process's descendants its own children.
pub(crate) fn become_subreaper() {
    // After a failure (Linux before 3.4) orphans are not found.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Makes the death of this process's parent send no signal from now on.
pub(crate) fn clear_death_signal() {
    // It cannot fail without a signal number.
    let _ = rustix::process::set_parent_process_death_signal(None);
}

/// Sends a signal to one process. A process that is gone, or a number that is no signal, is no error.
pub(crate) fn kill(pid: libc::pid_t, signal: i32) {
    assert!(pid > 1, "{pid} would mean more than one process");
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to the process group that `leader` leads. A group that is gone, or a number that is no
/// signal, is no error.
pub(crate) fn kill_group(leader: libc::pid_t, signal: i32) {
    assert!(leader > 1, "{leader} would mean more than one process group");
    if let (Some(leader), Some(signal)) = (Pid::from_raw(leader), Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process_group(leader, signal);
    }
}

/// A process that can be signalled even when its number may have been given to another one.
pub(crate) struct Process(OwnedFd);

impl Process {
    /// The process with this number.
    ///
    /// # Errors
    /// There is none, or the kernel is older than Linux 5.3.
    pub(crate) fn open(pid: libc::pid_t) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal. A process that is gone, or a number that is no signal, is no error.
    pub(crate) fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = rustix::process::pidfd_send_signal(&self.0, signal);
        }
    }
}

/// Closes every descriptor of this process but the standard streams and `kept`.
pub(crate) fn close_all_but(kept: RawFd) {
    let close = |first: RawFd, last: u32| {
        if i64::from(first) <= i64::from(last) {
            // SAFETY: it takes numbers only. This process has just begun and uses none of these descriptors.
            // Where the kernel does not know the call (before Linux 5.9) they stay open.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    close(3, u32::try_from(kept - 1).unwrap_or(0));
    close(kept + 1, u32::MAX);
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The process exited with this status.
    Exit(i32),
    /// A signal, with this number, ended the process.
    Signal(i32),
}

/// Reaps the next child of this process that has ended: `Ok(None)` when all children live, `Err(())` when
/// there is none.
pub(crate) fn reap() -> Result<Option<(libc::pid_t, Ended)>, ()> {
    let ended = rustix::process::wait(WaitOptions::NOHANG).map_err(|_| ())?;
    Ok(ended.map(|(pid, status)| {
        let how = match status.terminating_signal() {
            Some(signal) => Ended::Signal(signal),
            None => Ended::Exit(status.exit_status().unwrap_or_default()),
        };
        (pid.as_raw_nonzero().get(), how)
    }))
}

/// Returns whether this process may read from the terminal `fd`: a background process would be stopped. A
/// process may read from a descriptor that is no terminal.
pub(crate) fn is_foreground(fd: &impl AsFd) -> bool {
    match rustix::termios::tcgetpgrp(fd) {
        Ok(owner) => owner == rustix::process::getpgrp(),
        // The terminal belongs to a group that cannot be named here.
        Err(Errno::OPNOTSUPP) => false,
        Err(_) => true,
    }
}
