//! The helper as a process of its own in a network namespace made for the test, with two interfaces, `d0` and
//! `d1`. The user nobody asks it.

#[path = "../../weft-net/tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use support::{LIMIT, Role, can_unshare, say};
use weft_net::carrier::{Address, Carrier, receive_packets};
use weft_net::ethernet::netd::{self, Granted};
use weft_net::ethernet::{EndpointAddress, Ethernet};
use weft_net::udp::Settings;

const PAIR: &str = "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                    && ip addr add 10.77.0.1/24 dev d0 && ip addr add 10.77.0.2/24 dev d1 && ip link set lo up";
const NOBODY: u32 = 65_534;
const ETHER_TYPE: u16 = 0x88b5;
const EPERM: i32 = libc::EPERM;

fn run(preparation: &str, role: &str, expected: &str) {
    if !can_unshare() {
        return;
    }
    let mut role = Role::start_unshared("-n", preparation, role, &[]);
    assert_eq!(role.hear(), expected);
    role.finish();
}

/// The running helper; ended when dropped.
struct Helper {
    child: Child,
    directory: PathBuf,
}

impl Helper {
    fn start(arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("weft-netd-test-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-netd"));
        let child = command.arg("--socket").arg(directory.join("netd")).args(arguments).spawn().unwrap();
        let helper = Self { child, directory };
        let deadline = Instant::now() + LIMIT / 3;
        while UnixStream::connect(helper.path()).is_err() {
            assert!(Instant::now() < deadline, "the helper does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        helper
    }

    fn path(&self) -> PathBuf {
        self.directory.join("netd")
    }

    /// Starts the helper for the group of nobody.
    fn for_nobody(arguments: &[&str]) -> Self {
        let group = Command::new("getent").args(["group", &NOBODY.to_string()]).output().unwrap().stdout;
        let name = String::from_utf8(group).unwrap().split(':').next().unwrap().to_owned();
        Self::start(&[&["--group", &name], arguments].concat())
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Takes the privileges from this thread; the other threads of the process keep theirs.
fn become_nobody() {
    // SAFETY: no memory is involved. The system calls, unlike the functions, change this thread only.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
    }
}

/// Runs an action as nobody.
fn as_nobody<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_nobody();
            action()
        });
        thread.join().unwrap()
    })
}

fn index(interface: &str) -> u32 {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: the name is terminated.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

fn open(helper: &Helper, interface: &str) -> Ethernet {
    let settings = Settings { interfaces: Some(interface.into()), ..Settings::default() };
    Ethernet::open(&settings, None, Some(&helper.path())).unwrap()
}

fn to(link: &Ethernet) -> Address {
    Address::Ethernet(EndpointAddress::decode(&link.endpoint_address().encode()).unwrap().address)
}

fn receive(link: &mut Ethernet) -> Option<Vec<u8>> {
    let deadline = Instant::now() + Duration::from_millis(200);
    let mut packet = None;
    while packet.is_none() && Instant::now() < deadline {
        receive_packets(link, &mut |bytes| packet = Some(bytes.to_vec()), 1);
    }
    packet
}

#[test]
fn who_has_no_privilege_gets_a_link_with_a_ring_and_its_own_port() {
    run(PAIR, "role_gets_links", "they meet");
}

#[test]
#[ignore = "a role"]
fn role_gets_links() {
    let helper = Helper::for_nobody(&[]);
    as_nobody(|| {
        let (mut near, mut far) = (open(&helper, "d0"), open(&helper, "d1"));
        assert_ne!(near.endpoint_address().address.port, far.endpoint_address().address.port);
        let deadline = Instant::now() + LIMIT / 3;
        loop {
            near.send(&to(&far), b"by a ring").unwrap();
            if receive(&mut far).as_deref() == Some(b"by a ring") {
                break;
            }
            assert!(Instant::now() < deadline, "nothing arrives");
        }
    });
    say("they meet");
}

#[test]
fn a_socket_cannot_be_made_to_get_anything_else() {
    run(PAIR, "role_wants_more", "nothing but its own");
}

#[test]
#[ignore = "a role"]
fn role_wants_more() {
    let helper = Helper::for_nobody(&[]);
    let (d0, d1) = (index("d0"), index("d1"));
    let other = Ethernet::open(&Settings { interfaces: Some("d1".into()), ..Settings::default() }, None, None).unwrap();
    let mut sender =
        Ethernet::open(&Settings { interfaces: Some("d0".into()), ..Settings::default() }, None, None).unwrap();
    let theirs = other.endpoint_address().address;
    // Frames of all kinds for d1: Weft's for other ports, UDP, ARP, broadcast.
    let mut traffic = |port: u16| {
        for port in [port, port ^ 1, theirs.port] {
            let address = weft_net::carrier::EthernetAddress { port, ..theirs };
            sender.send(&address.into(), &port.to_be_bytes()).unwrap();
        }
        let udp = UdpSocket::bind("10.77.0.1:0").unwrap();
        udp.set_broadcast(true).unwrap();
        for to in ["10.77.0.2:9", "10.77.0.255:9", "10.77.0.77:9", "127.0.0.1:9"] {
            let _ = udp.send_to(b"WfWfWfWf", to);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    as_nobody(|| {
        let Granted { socket, port, .. } = netd::ask(&helper.path(), d1).unwrap();
        let everything = (libc::ETH_P_ALL as u16, 0);
        for (protocol, interface) in [(ETHER_TYPE, d1), everything, (libc::ETH_P_ALL as u16, d0), (0x0800, d1)] {
            bind(&socket, protocol, interface);
            assert_eq!(attach_all(&socket).unwrap_err().raw_os_error(), Some(EPERM));
            assert_eq!(set(&socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0), Err(EPERM));
            assert_eq!(set(&socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 0), Err(EPERM));
            promiscuous(&socket, d1);
            traffic(port);
            let frames = drain(&socket);
            // The socket still gets the frames that it may have, where it is bound to them.
            let own = protocol == ETHER_TYPE || (protocol, interface) == everything;
            assert_eq!(frames.len(), usize::from(own), "bound to {protocol:#x} on {interface}: {frames:02x?}");
            assert!(frames.iter().all(|frame| frame[16..18] == port.to_be_bytes()));
        }
    });
    say("nothing but its own");
}

#[test]
fn a_port_is_not_given_away_while_somebody_listens_for_it() {
    // The kernel has two ports to give.
    let two = format!("{PAIR} && sysctl -qw net.ipv4.ip_local_port_range='40000 40001'");
    run(&two, "role_keeps_a_port", "the second, then none, then the first");
}

#[test]
#[ignore = "a role"]
fn role_keeps_a_port() {
    let helper = Helper::for_nobody(&[]);
    let (path, d0, d1) = (helper.path(), index("d0"), index("d1"));
    as_nobody(|| {
        let first = netd::ask(&path, d0).unwrap();
        // To the kernel the port is free again; frames for it still go to the first socket.
        drop(first.holder);
        // The kernel may offer the first port each time that the helper tries: once in 256 requests.
        let second = (0..8).find_map(|_| netd::ask(&path, d1).ok()).expect("the second port");
        assert_ne!(first.port, second.port);
        let error = netd::ask(&path, d0).unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
        drop(first.socket);
        assert_eq!(netd::ask(&path, d0).unwrap().port, first.port);
    });
    say("the second, then none, then the first");
}

#[test]
fn floods_and_nonsense_do_it_no_harm() {
    run(PAIR, "role_floods", "served, and no larger");
}

#[test]
#[ignore = "a role"]
fn role_floods() {
    let helper = Helper::for_nobody(&["--interfaces", "d0"]);
    let (path, d0, d1) = (helper.path(), index("d0"), index("d1"));
    netd::ask(&path, d0).unwrap();
    let before = helper.resident_kib();
    as_nobody(|| {
        let silent: Vec<UnixStream> = (0..900).filter_map(|_| UnixStream::connect(&path).ok()).collect();
        for end in 0..netd::REQUEST_SIZE {
            UnixStream::connect(&path).unwrap().write_all(&netd::request(d0)[..end]).unwrap();
        }
        for i in 0..2000_u32 {
            let mut stream = UnixStream::connect(&path).unwrap();
            // The connection may have been closed already: this user has too many.
            let _ = stream.write_all(&i.to_le_bytes().repeat(50));
        }
        // Root is another user: all that does not delay root for long.
        drop(silent);
    });
    netd::ask(&path, d0).unwrap();
    as_nobody(|| {
        for wrong in [d1, 0, u32::MAX] {
            let error = netd::ask(&path, wrong).unwrap_err().to_string();
            assert!(error.contains("started for") || error.contains("no interface"), "{error}");
        }
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&[0; netd::REQUEST_SIZE]).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(netd::parse_answer(&answer).unwrap_err().contains("no request"));
        // A connection that says nothing is closed after its time.
        let mut silent = UnixStream::connect(&path).unwrap();
        silent.set_read_timeout(Some(LIMIT / 3)).unwrap();
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        netd::ask(&path, d0).unwrap();
    });
    let after = helper.resident_kib();
    assert!(after < before + 4096, "{before} KiB before, {after} KiB afterwards");
    say("served, and no larger");
}

#[test]
fn only_root_and_the_group_may_ask_and_nothing_else_is_kept() {
    run(PAIR, "role_is_no_member", "refused");
}

#[test]
#[ignore = "a role"]
fn role_is_no_member() {
    let helper = Helper::start(&[]);
    let (path, d0) = (helper.path(), index("d0"));
    netd::ask(&path, d0).unwrap();
    let error = as_nobody(|| netd::ask(&path, d0).unwrap_err().to_string());
    assert!(error.contains("Permission denied"), "{error}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", helper.child.id())).unwrap();
    // CAP_NET_RAW and CAP_NET_ADMIN.
    for line in ["Uid:\t65534", "CapPrm:\t0000000000003000", "CapEff:\t0000000000003000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line} in\n{status}");
    }
    say("refused");
}

fn set(socket: &OwnedFd, level: i32, name: i32, value: i32) -> Result<(), i32> {
    let (pointer, size) = (std::ptr::from_ref(&value).cast(), size_of::<i32>() as libc::socklen_t);
    // SAFETY: the value is an int and the size says so.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, size) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

fn bind(socket: &OwnedFd, protocol: u16, interface: u32) {
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    name.sll_family = libc::AF_PACKET as u16;
    name.sll_protocol = protocol.to_be();
    name.sll_ifindex = interface as i32;
    let (pointer, size) = (std::ptr::from_ref(&name).cast(), size_of_val(&name) as libc::socklen_t);
    // SAFETY: the name is a sockaddr_ll and the size says so.
    assert_eq!(unsafe { libc::bind(socket.as_raw_fd(), pointer, size) }, 0);
}

/// Attaches another filter, which lets every frame through.
fn attach_all(socket: &OwnedFd) -> std::io::Result<()> {
    let mut all = libc::sock_filter { code: 6, jt: 0, jf: 0, k: u32::MAX };
    let program = libc::sock_fprog { len: 1, filter: &mut all };
    let (pointer, size) = (std::ptr::from_ref(&program).cast(), size_of_val(&program) as libc::socklen_t);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: the program has one instruction, which lives until the call returns.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, size) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn promiscuous(socket: &OwnedFd, interface: u32) {
    // SAFETY: a packet_mreq of zeros is valid.
    let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
    request.mr_ifindex = interface as i32;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    let (pointer, size) = (std::ptr::from_ref(&request).cast(), size_of_val(&request) as libc::socklen_t);
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
    // SAFETY: the value is a packet_mreq and the size says so. Whether it works does not matter here.
    unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, pointer, size) };
}

/// Returns all frames that have arrived.
fn drain(socket: &OwnedFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let mut frame = vec![0; 2048];
        // SAFETY: the kernel writes within the buffer.
        let length =
            unsafe { libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if length < 0 {
            return frames;
        }
        frame.truncate(length as usize);
        frames.push(frame);
    }
}
