//! The processes of a job that share an interface. The first process makes everything, and hands a *seat* to
//! each of the others.
//!
//! The kernel gives a receive queue to one set of AF_XDP sockets with common memory, and an interface has one
//! program. So the first process opens the sockets of all processes, and the others need no privilege. A seat
//! is three descriptors: the socket, the memory, and the link that attaches the program to the interface. The
//! link lasts until the last of the processes has ended, however that happens.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::bpf::{self, Mode};
use super::memory::{Geometry, Memory};
use super::program::{self, Plan};
use super::socket::{self, QueueBinding, Receiver};
use super::{CHUNK, FRAME_MAX, GIVE_BATCH, RING_FRAMES};
use crate::Error;
use crate::carrier::EthernetAddress;
use crate::descriptors;
use crate::wait::{Interest, wait};

/// Most processes that can share an interface: as many as share memory on a host.
const MEMBERS_MAX: usize = 1024;
/// Keys of the map: one for each port number.
const PORTS: u32 = 1 << 16;
/// The receive queue of all sockets. Frames without an IP header have nothing to be spread by, and cards put
/// them into this queue.
pub(super) const QUEUE: u32 = 0;
/// Drivers of virtual interfaces for which the program runs behind the driver. Their own hook for programs
/// costs all traffic its segmentation offload, and is no quicker.
const GENERIC_DRIVERS: [&str; 1] = ["veth"];
/// Longest time for which a process waits for the others of its group.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that another process may take to say which member it is.
const PATIENCE_ONE: Duration = Duration::from_secs(1);
/// Longest time for which a queue may stay busy: the kernel takes a while to free the queue of closed
/// sockets.
const BUSY_MAX: Duration = Duration::from_secs(2);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The processes that share an interface.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the group on its host: it cannot be guessed, and is the same in all processes of the group.
    pub key: String,
    /// Index of this process in the group.
    pub member: usize,
    /// The port of each process.
    pub ports: Vec<u16>,
}

impl Group {
    /// Makes a group of this process alone.
    pub fn alone(port: u16) -> Self {
        Self { key: String::new(), member: 0, ports: vec![port] }
    }

    fn geometry(&self) -> Geometry {
        // A process holds no more chunks than its ring and its batch, so the others always find theirs.
        Geometry { chunk: CHUNK, chunks: self.ports.len() * (RING_FRAMES as usize + 2 * GIVE_BATCH) }
    }

    /// Returns the entries of the ring of free chunks: room for all chunks.
    fn fill_entries(&self) -> u32 {
        (self.geometry().chunks as u32).next_power_of_two()
    }

    fn address(&self, interface: u32) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(format!("weft-xdp-{}-{interface}", self.key))
    }
}

/// The seat of a process: the descriptors that it needs to receive.
pub(super) struct Seat {
    pub(super) receiver: Receiver,
    pub(super) memory: Memory,
    /// The descriptor that keeps the program attached.
    pub(super) link: OwnedFd,
    /// True if the driver takes no programs, so that the program runs behind the driver. The first process
    /// knows.
    pub(super) is_second_best: bool,
}

/// The reason why there is no seat.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A reason of this process.
    Because(Error),
    /// The first process of the group has a reason, and tells the user.
    First,
}

/// Takes this process's seat at `interface`, which has the address `address`. The first process of the group
/// and the others wait for each other.
pub(super) fn join(group: &Group, interface: &str, address: EthernetAddress) -> Result<Seat, Refusal> {
    if group.ports.len() > MEMBERS_MAX || group.ports.get(group.member) != Some(&address.port) {
        let count = group.ports.len();
        let why =
            format!("{count} processes cannot share {interface} by AF_XDP: {MEMBERS_MAX} can, each with its port");
        return Err(Refusal::Because(Error::Invalid(why)));
    }
    let index = socket::index(interface)
        .map_err(|cause| Refusal::Because(Error::system(format!("find the interface {interface}"), cause)))?;
    let binding = QueueBinding { interface: index, queue: QUEUE, entries: RING_FRAMES };
    if group.member > 0 {
        return take_seat(group, interface, &binding);
    }
    // The name is there before the work begins, so that the others wait, and do not ask again and again.
    let name = |cause| Refusal::Because(Error::system("offer AF_XDP to the other processes of this host", cause));
    let listener = match group.ports.len() {
        1 => None,
        _ => Some(group.address(index).and_then(|name| UnixListener::bind_addr(&name)).map_err(name)?),
    };
    let found = found(group, interface, address.mac, &binding);
    match (found, listener) {
        (Ok((seat, others)), Some(listener)) => {
            serve(&listener, &seat, others);
            Ok(seat)
        }
        (Ok((seat, _)), None) => Ok(seat),
        (Err(why), listener) => {
            // A process that comes later would ask until its patience ends.
            listener.iter().for_each(|listener| turn_away(listener, group.ports.len() - 1));
            Err(Refusal::Because(why))
        }
    }
}

/// Makes what a lone process would need, up to the point where others would notice, and drops it.
pub(super) fn rehearse(group: &Group, interface: &str) -> Result<(), Error> {
    let index =
        socket::index(interface).map_err(|cause| Error::system(format!("find the interface {interface}"), cause))?;
    let binding = QueueBinding { interface: index, queue: QUEUE, entries: RING_FRAMES };
    prepare(group, interface, [0; 6], &binding).map(drop)
}

/// The objects that exist before the program is attached.
struct Prepared {
    first: OwnedFd,
    memory: Memory,
    map: OwnedFd,
    program: OwnedFd,
}

fn prepare(group: &Group, interface: &str, mac: [u8; 6], binding: &QueueBinding) -> Result<Prepared, Error> {
    let explain = |step: Step| move |cause| step.explain(interface, cause);
    let first = socket::create().map_err(explain(Step::Socket))?;
    let memory = Memory::create(group.geometry()).map_err(explain(Step::Memory))?;
    socket::register(first.as_fd(), &memory, group.fill_entries(), binding).map_err(explain(Step::Memory))?;
    let map = bpf::create_map(PORTS).map_err(explain(Step::Program))?;
    let plan = Plan { map: map.as_raw_fd(), mac, queue: binding.queue, frame_max: FRAME_MAX };
    let program = bpf::load(&program::redirecting(&plan)).map_err(explain(Step::Program))?;
    Ok(Prepared { first, memory, map, program })
}

/// Makes everything: the seat of this process, and the sockets of the others.
fn found(group: &Group, interface: &str, mac: [u8; 6], binding: &QueueBinding) -> Result<(Seat, Vec<OwnedFd>), Error> {
    let explain = |step: Step| move |cause| step.explain(interface, cause);
    let Prepared { first, memory, map, program } = prepare(group, interface, mac, binding)?;
    // From here on the interface has this program, or another program has it. No frame takes a new way while
    // the map is empty.
    let (link, is_second_best) = attach(&program, interface, binding).map_err(explain(Step::Attach))?;
    bind(&first, binding).map_err(explain(Step::Bind))?;
    let others = (1..group.ports.len()).map(|_| socket::create_beside(first.as_fd(), binding));
    let others: Vec<OwnedFd> = others.collect::<io::Result<_>>().map_err(explain(Step::Bind))?;
    let sockets = std::iter::once(first.as_fd()).chain(others.iter().map(|socket| socket.as_fd()));
    for (socket, port) in sockets.zip(&group.ports) {
        bpf::put(map.as_fd(), u32::from(*port), socket).map_err(explain(Step::Program))?;
    }
    let mut receiver = Receiver::open(first, group.fill_entries(), binding).map_err(explain(Step::Memory))?;
    let geometry = memory.geometry();
    let mut chunks = (0..geometry.chunks as u64).map(|at| at * geometry.chunk as u64).collect();
    let lock = memory.try_lock().ok_or_else(|| Error::Peer("new memory is locked by somebody".into()))?;
    receiver.give(&mut chunks, &lock);
    drop(lock);
    Ok((Seat { receiver, memory, link, is_second_best }, others))
}

/// Attaches the program where it costs least, and returns whether that is the second-best place.
fn attach(program: &OwnedFd, interface: &str, binding: &QueueBinding) -> io::Result<(OwnedFd, bool)> {
    let attach = |mode| bpf::attach(program.as_fd(), binding.interface, mode);
    if GENERIC_DRIVERS.contains(&socket::driver(interface).as_str()) {
        return Ok((attach(Mode::Generic)?, false));
    }
    match attach(Mode::Native) {
        Ok(link) => Ok((link, false)),
        // No process may attach here, or another program is attached already.
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EPERM | libc::EBUSY | libc::EEXIST)) => Err(cause),
        // The driver has no hook for programs, or not with these settings.
        Err(cause) => Ok((attach(Mode::Generic).map_err(|_| cause)?, true)),
    }
}

/// Binds the first socket once the queue is free.
fn bind(socket: &OwnedFd, binding: &QueueBinding) -> io::Result<()> {
    let deadline = Instant::now() + BUSY_MAX;
    loop {
        match socket::bind_first(socket.as_fd(), binding) {
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// Hands the other processes their seats, until each has its own or the time is over. A process that has not
/// come in time does without.
fn serve(listener: &UnixListener, seat: &Seat, others: Vec<OwnedFd>) {
    let deadline = Instant::now() + PATIENCE;
    let mut others: Vec<Option<OwnedFd>> = others.into_iter().map(Some).collect();
    while others.iter().any(Option::is_some) {
        let Some((stream, member)) = next(listener, deadline) else { return };
        let Some(slot) = others.get_mut(member) else { continue };
        let sent = slot.as_ref().is_some_and(|socket| {
            descriptors::send(&stream, &[1], [socket.as_fd(), seat.memory.fd(), seat.link.as_fd()]).is_ok()
        });
        if sent {
            *slot = None;
        }
    }
}

/// Tells `others` other processes that there are no seats, by closing their connections.
fn turn_away(listener: &UnixListener, others: usize) {
    let deadline = Instant::now() + PATIENCE;
    let mut came = vec![false; others];
    while came.contains(&false) {
        let Some((_, member)) = next(listener, deadline) else { return };
        if let Some(came) = came.get_mut(member) {
            *came = true;
        }
    }
}

/// Waits for the next other process that comes and says which member it is, counted from 0. A process that
/// says nothing, or nonsense, gets no seat.
fn next(listener: &UnixListener, deadline: Instant) -> Option<(UnixStream, usize)> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let span = weft_core::time::Duration(left.as_nanos() as u64);
        let ready = wait(&[(listener.as_raw_fd(), Interest::Read)], Some(span));
        if left.is_zero() || ready.is_err() {
            return None;
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        if let Ok(Some(member)) = hear(&stream) {
            return Some((stream, member));
        }
    }
}

fn hear(mut stream: &UnixStream) -> io::Result<Option<usize>> {
    if descriptors::user(stream)? != crate::sys::user() {
        return Ok(None);
    }
    stream.set_read_timeout(Some(PATIENCE_ONE))?;
    let mut member = [0; 4];
    stream.read_exact(&mut member)?;
    Ok((u32::from_le_bytes(member) as usize).checked_sub(1))
}

/// Takes a seat from the first process.
fn take_seat(group: &Group, interface: &str, binding: &QueueBinding) -> Result<Seat, Refusal> {
    let failed = |cause| {
        let what = format!("take part in AF_XDP on {interface}, which this host's first process of the job offers");
        Refusal::Because(Error::system(what, cause))
    };
    let stream = connect(&group.address(binding.interface).map_err(failed)?).map_err(failed)?;
    let Some([socket, memory, link]) = ask(&stream, group.member).map_err(failed)? else { return Err(Refusal::First) };
    let memory = Memory::attach(memory, group.geometry()).map_err(failed)?;
    let receiver = Receiver::open(socket, group.fill_entries(), binding).map_err(failed)?;
    Ok(Seat { receiver, memory, link, is_second_best: false })
}

fn ask(mut stream: &UnixStream, member: usize) -> io::Result<Option<[OwnedFd; 3]>> {
    if descriptors::user(stream)? != crate::sys::user() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user answers in its place"));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&(member as u32).to_le_bytes())?;
    match descriptors::receive::<3>(stream, &mut [0]) {
        Ok((1, received)) => Ok(received.try_into().ok()),
        // The first process has closed the connection, or its listening socket, without an answer.
        Ok(_) => Ok(None),
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Connects once the first process is there.
fn connect(name: &SocketAddr) -> io::Result<UnixStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect_addr(name) {
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// The step at which the first process failed.
#[derive(Clone, Copy, Debug)]
enum Step {
    Socket,
    Memory,
    Program,
    Attach,
    Bind,
}

impl Step {
    /// Explains the failure in a sentence for the user.
    fn explain(self, interface: &str, cause: io::Error) -> Error {
        let code = cause.raw_os_error().unwrap_or(0);
        let why = match (self, code) {
            (Self::Socket, libc::EPERM) => "it needs the privilege CAP_NET_RAW",
            (Self::Socket, libc::EAFNOSUPPORT) => "this kernel was built without it",
            (Self::Program, libc::EPERM | libc::EACCES) => "it needs the privileges CAP_BPF and CAP_NET_ADMIN",
            (Self::Attach, libc::EPERM) => "it needs the privilege CAP_NET_ADMIN",
            (Self::Memory, libc::ENOBUFS) => {
                "it needs more locked memory than `ulimit -l` allows (`* - memlock unlimited` in /etc/security/limits.conf)"
            }
            (Self::Attach, libc::EBUSY | libc::EEXIST) => "another XDP program is attached, perhaps of another job",
            (Self::Attach, libc::EINVAL) => "it needs Linux 5.9 or newer",
            (Self::Attach, libc::ERANGE) => "the driver takes no program at this MTU",
            (Self::Bind, libc::EBUSY) => "another program's sockets have its receive queue",
            _ => return Error::system(format!("use AF_XDP on {interface} ({self:?})"), cause),
        };
        Error::Unavailable(format!("AF_XDP cannot be used on {interface}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_to_a_first_process_that_has_no_seats_hears_so_at_once() {
        let key = format!("test-{}", std::process::id());
        let group = Group { key, member: 0, ports: vec![1, 2, 3] };
        let name = group.address(1).expect("a name");
        let listener = UnixListener::bind_addr(&name).expect("a socket");
        let began = Instant::now();
        std::thread::scope(|scope| {
            let others = [1, 2].map(|member| {
                let name = &name;
                scope.spawn(move || {
                    // A process comes, asks nonsense, and comes again; each comes when it likes.
                    let nonsense = connect(name).expect("somebody is there");
                    assert!(ask(&nonsense, 77).expect("an answer").is_none());
                    ask(&connect(name).expect("somebody is there"), member).expect("an answer").is_none()
                })
            });
            turn_away(&listener, 2);
            drop(listener);
            assert_eq!(others.map(|other| other.join().expect("no panic")), [true, true]);
        });
        assert!(began.elapsed() < PATIENCE, "nobody waits until the end");
    }
}
