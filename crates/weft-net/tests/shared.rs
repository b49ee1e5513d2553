//! Ranks of a node as real processes: sleeping, dying, and directories that cannot hold a segment.

mod support;

use std::path::{Path, PathBuf};
use std::time::Instant;
use support::{LIMIT, Role, Signal, can_unshare, listen, say, variable};
use weft_core::time::Duration;
use weft_engine::transport::{Frames as _, Liveness as _, PeerFault, SleepMode, Sleeping as _};
use weft_net::shared::{Node, Settings};
use weft_net::wait::{Interest, wait};
use weft_net::{node, single_copy};
use weft_random::Random;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-tests-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn names(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn join(index: usize, size: usize) -> Node {
    let settings = Settings { directory: Some(variable("DIRECTORY").into()), ..Settings::default() };
    Node::create(&variable("KEY"), index, size, &settings).unwrap()
}

/// Sleeps as a rank does, and returns whether the rank really slept.
fn sleep(node: &mut Node) -> bool {
    let armed = node.arm(SleepMode::Doorbell);
    if armed {
        let ready = wait(&[(node.doorbell_fd(), Interest::Read)], Some(Duration::from_secs(20))).unwrap();
        node.disarm();
        assert!(!ready.is_empty(), "a wake-up was lost");
        node.drain_doorbell();
    }
    armed
}

/// Each rank waits now spinning, now asleep, and pauses at random before sleeping and before sending, so that
/// every order of the four steps of the sleeping protocol comes up.
#[test]
fn no_wake_up_is_lost_in_thousands_of_random_rounds() {
    let directory = Directory::new("wake");
    let key = format!("wake-{}", std::process::id());
    let environment = [("DIRECTORY", directory.text()), ("KEY", &key)];
    let peer = Role::start("role_sleeper", &[environment[0], environment[1], ("INDEX", "1")]);
    let leader = Role::start("role_sleeper", &[environment[0], environment[1], ("INDEX", "0")]);
    leader.finish();
    peer.finish();
    assert_eq!(directory.names(), 0);
}

#[test]
#[ignore = "a role"]
fn role_sleeper() {
    const ROUNDS: u32 = 20_000;
    let index: usize = variable("INDEX").parse().unwrap();
    let mut node = join(index, 2);
    let mut random = Random::new(index as u64 + 1);
    let deadline = Instant::now() + LIMIT;
    let mut sleeps = 0;
    let mut pause = |most: u64| (0..random.below(most)).for_each(|_| std::hint::spin_loop());
    for round in 0..ROUNDS {
        if index == 0 {
            pause(400);
            assert!(node.try_send(1, &round.to_le_bytes(), &[]));
        }
        let mut seen = false;
        while !seen {
            seen = node.poll(1, |_, bytes| assert_eq!(bytes, round.to_le_bytes())) > 0;
            if !seen {
                pause(400);
                sleeps += usize::from(sleep(&mut node));
            }
            assert!(Instant::now() < deadline, "stuck in round {round}");
        }
        if index == 1 {
            pause(400);
            assert!(node.try_send(0, &round.to_le_bytes(), &[]));
        }
    }
    assert_eq!(node.poll_fault(), None);
    eprintln!("rank {index} slept {sleeps} times in {ROUNDS} rounds");
    assert!(sleeps > 100, "the test is about sleeping");
}

#[test]
fn killed_ranks_leave_nothing_and_a_sleeper_that_died_is_noticed() {
    let directory = Directory::new("killed");
    let key = format!("killed-{}", std::process::id());
    let mut peer =
        Role::start("role_sleeps_until_killed", &[("DIRECTORY", directory.text()), ("KEY", &key), ("INDEX", "1")]);
    let settings = Settings { directory: Some(directory.0.clone()), ..Settings::default() };
    let mut node = Node::create(&key, 0, 2, &settings).unwrap();
    assert_eq!(peer.hear(), "asleep");
    assert_eq!(directory.names(), 0, "unlinked as soon as all have attached");
    assert_eq!(node.pid(1), Some(peer.pid() as i32));
    peer.kill();
    node.try_send(1, &[], &[1]);
    let fault = node.poll_fault().expect("the ring at a dead rank is noticed");
    assert!(fault.peer == 1 && fault.reason.contains("died"), "{fault:?}");
}

/// Looks until there is a fault, or the time is over.
fn fault_of(node: &mut Node, patience: std::time::Duration) -> Option<PeerFault> {
    let deadline = Instant::now() + patience;
    loop {
        node.look_for_dead();
        match node.poll_fault() {
            None if Instant::now() < deadline => std::thread::yield_now(),
            result => return result,
        }
    }
}

#[test]
fn whoever_looks_sees_a_neighbour_that_died_and_none_that_is_stopped_or_has_left() {
    const A_WHILE: std::time::Duration = std::time::Duration::from_millis(50);
    let directory = Directory::new("looked-after");
    let key = format!("looked-after-{}", std::process::id());
    let role = |name, index: &str| {
        Role::start(name, &[("DIRECTORY", directory.text()), ("KEY", &key), ("INDEX", index), ("SIZE", "3")])
    };
    let settings = Settings { directory: Some(directory.0.clone()), ..Settings::default() };
    let (mut dies, mut leaves) = (role("role_sleeps_until_killed", "1"), role("role_leaves", "2"));
    let mut node = Node::create(&key, 0, 3, &settings).unwrap();
    assert_eq!((dies.hear(), leaves.hear()), ("asleep".into(), "there".into()));
    dies.signal(Signal::Stop);
    assert_eq!(fault_of(&mut node, A_WHILE), None, "both live");
    leaves.tell("leave");
    leaves.finish();
    assert_eq!(fault_of(&mut node, A_WHILE), None, "nobody needs the one any more");
    // The dead process keeps its number, since no process has asked how it ended.
    dies.signal(Signal::Kill);
    let fault = fault_of(&mut node, LIMIT).expect("a neighbour that is gone is seen");
    assert!(fault.peer == 1 && fault.reason.contains("its process is gone"), "{fault:?}");
    assert_eq!(fault_of(&mut node, A_WHILE), None, "it is told once");
    assert!(!node.try_send(1, &[], &[1]));
}

#[test]
#[ignore = "a role"]
fn role_leaves() {
    let mut node = join(variable("INDEX").parse().unwrap(), 3);
    say("there");
    listen();
    node.say_left(true);
}

#[test]
fn a_leader_killed_before_the_others_came_is_swept_by_the_next() {
    let directory = Directory::new("swept");
    let key = format!("swept-{}", std::process::id());
    let mut leader =
        Role::start("role_sleeps_until_killed", &[("DIRECTORY", directory.text()), ("KEY", &key), ("INDEX", "0")]);
    assert_eq!(leader.hear(), "asleep");
    leader.kill();
    assert_eq!(directory.names(), 1);
    let settings = Settings { directory: Some(directory.0.clone()), ..Settings::default() };
    let next = Node::create(&format!("{key}-next"), 0, 2, &settings).unwrap();
    assert_eq!(directory.names(), 1, "the remains are gone, the new segment is there");
    drop(next);
    assert_eq!(directory.names(), 0);
}

#[test]
#[ignore = "a role"]
fn role_sleeps_until_killed() {
    let size = std::env::var("SIZE").map_or(2, |size| size.parse().unwrap());
    let mut node = join(variable("INDEX").parse().unwrap(), size);
    assert!(node.arm(SleepMode::Doorbell));
    say("asleep");
    listen();
}

/// Returns the shell line that makes `path` a file system that cannot hold the smallest segment.
fn tiny(path: &str) -> String {
    format!("mount -t tmpfs -o size=24k none {path}")
}

#[test]
fn in_a_small_directory_the_rings_are_smaller_and_a_warning_says_so() {
    let directory = Directory::new("small");
    if !can_unshare() {
        return;
    }
    let key = format!("small-{}", std::process::id());
    let preparation = format!("mount -t tmpfs -o size=1m none {}", directory.text());
    let environment = [("DIRECTORY", directory.text()), ("KEY", key.as_str())];
    let mut role = Role::start_unshared("-m", &preparation, "role_reports_warnings", &environment);
    let warning = role.hear();
    assert!(warning.contains(directory.text()) && warning.contains("have 256 KiB, not 2048"), "{warning}");
    role.finish();
}

#[test]
fn a_tiny_directory_is_passed_over_with_a_warning() {
    let directory = Directory::new("tiny");
    if !can_unshare() {
        return;
    }
    let key = format!("tiny-{}", std::process::id());
    let mut role = Role::start_unshared(
        "-m",
        &tiny(directory.text()),
        "role_reports_warnings",
        &[("DIRECTORY", directory.text()), ("KEY", &key)],
    );
    let warning = role.hear();
    assert!(warning.contains(directory.text()) && warning.contains("No space left"), "{warning}");
    role.finish();
}

#[test]
fn without_a_usable_shm_and_tmpdir_the_segment_is_in_tmp() {
    let directory = Directory::new("tmp");
    if !can_unshare() {
        return;
    }
    let key = format!("tmp-{}", std::process::id());
    let preparation = format!("mount -t tmpfs -o ro none /dev/shm && {}", tiny(directory.text()));
    let environment = [("DIRECTORY", "/nowhere"), ("KEY", &key), ("TMPDIR", directory.text())];
    let mut role = Role::start_unshared("-m", &preparation, "role_reports_warnings", &environment);
    let warning = role.hear();
    for expected in ["is in /tmp", "/nowhere: No such file", "/dev/shm: Read-only", directory.text()] {
        assert!(warning.contains(expected), "{warning}");
    }
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_reports_warnings() {
    let directory = variable("DIRECTORY");
    let directory_path = Some(directory.clone().into());
    let settings = Settings { directory: directory_path, ring_bytes_max: 2 << 20, ..Settings::default() };
    let mut leader = Node::create(&variable("KEY"), 0, 2, &settings).unwrap();
    let mut second = Node::create(&variable("KEY"), 1, 2, &settings).unwrap();
    // Touches every page of a ring: a page that is not really there would be a SIGBUS.
    let payload = vec![3; leader.frame_max()];
    for _ in 0..100 {
        assert!(leader.try_send(1, &[], &payload));
        assert_eq!(second.poll(1, |_, bytes| assert_eq!(bytes, payload)), 1);
    }
    assert_eq!(leader.warnings().len(), 1);
    say(&leader.warnings()[0]);
    if Path::new(&directory).is_dir() {
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}

#[test]
fn when_no_directory_can_hold_it_the_error_names_all() {
    if !can_unshare() {
        return;
    }
    let preparation = format!("{} && {}", tiny("/dev/shm"), tiny("/tmp"));
    let environment = [("KEY", "nowhere"), ("TMPDIR", "/tmp"), ("DIRECTORY", "/dev/shm")];
    let mut role = Role::start_unshared("-m", &preparation, "role_finds_no_directory", &environment);
    let error = role.hear();
    for expected in ["no directory can hold", "/dev/shm: No space", "/tmp: No space", "WEFT_SHM_DIR"] {
        assert!(error.contains(expected), "{error}");
    }
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_finds_no_directory() {
    let error = Node::create(&variable("KEY"), 0, 2, &Settings::default()).err().unwrap();
    say(&error.to_string());
    for directory in ["/dev/shm", "/tmp"] {
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0, "a failed attempt leaves nothing in {directory}");
    }
}

#[test]
fn very_many_ranks_reserve_rings_one_by_one_and_a_full_file_system_is_a_fault_not_a_signal() {
    if !can_unshare() {
        return;
    }
    // Enough for the states of 100 ranks and a few rings, not for all of the 10 000.
    let preparation = "mount -t tmpfs -o size=200k none /dev/shm";
    let key = format!("many-{}", std::process::id());
    let environment = [("KEY", key.as_str()), ("TMPDIR", "/nowhere"), ("DIRECTORY", "/dev/shm")];
    let mut role = Role::start_unshared("-m", preparation, "role_one_of_very_many", &environment);
    let fault = role.hear();
    assert!(fault.contains("no memory for its shared ring") && fault.contains("No space"), "{fault}");
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_one_of_very_many() {
    let mut leader = join(0, 100);
    let mut second = join(1, 100);
    assert!(leader.try_send(1, b"a", b"b") && second.poll(9, |_, bytes| assert_eq!(bytes, b"ab")) == 1);
    let unreachable = (2..100).find(|&to| !leader.try_send(to, &[], &[0; 4000])).expect("the file system is full");
    let fault = leader.poll_fault().unwrap();
    assert_eq!(fault.peer, unreachable);
    say(&fault.reason);
}

#[test]
fn memory_is_copied_between_processes_in_both_directions() {
    let mut role = Role::start("role_shows_memory", &[]);
    let pid = role.pid() as i32;
    let address: u64 = role.hear().parse().unwrap();
    if !single_copy::available(pid) {
        eprintln!("skipped: this machine does not let processes copy from each other");
        return;
    }
    let mut seen = vec![0_u8; 100_000];
    // SAFETY: `seen` is ours and that large.
    unsafe { single_copy::read(pid, address, seen.as_mut_ptr(), seen.len()) }.unwrap();
    assert!(seen.iter().enumerate().all(|(i, &byte)| byte == i as u8));
    let news = [9_u8; 1000];
    // SAFETY: the role has given these bytes to us.
    unsafe { single_copy::write(pid, address + 500, news.as_ptr(), news.len()) }.unwrap();
    role.tell("written");
    assert_eq!(role.hear(), "seen");
    let mut byte = 0;
    // SAFETY: the byte is ours; that the remote address is not mapped is what is tested.
    let error = unsafe { single_copy::read(pid, 8, &mut byte, 1) }.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    role.kill();
    assert!(!single_copy::available(pid), "a dead process has no memory");
    assert!(!single_copy::is_refused(pid), "nobody forbids it");
}

#[test]
#[ignore = "a role"]
fn role_shows_memory() {
    let mut memory: Vec<u8> = (0..100_000).map(|i| i as u8).collect();
    single_copy::permit();
    say(&(std::hint::black_box(memory.as_mut_ptr()) as u64).to_string());
    assert_eq!(listen(), "written");
    assert!(std::hint::black_box(&memory)[500..1500].iter().all(|&byte| byte == 9));
    say("seen");
    listen();
}

#[test]
fn processes_of_one_node_agree_on_its_identity_and_a_namespace_makes_another() {
    let here = |role: &mut Role| role.hear();
    let mut role = Role::start("role_says_identity", &[]);
    assert_eq!(here(&mut role), format!("{:x} {:x}", node::identity(None, None).0, node::network()));
    if can_unshare() {
        let mut elsewhere = Role::start_unshared("-n", "true", "role_says_identity", &[]);
        let said = elsewhere.hear();
        let (node_id, network) = said.split_once(' ').unwrap();
        assert_ne!(node_id, format!("{:x}", node::identity(None, None).0));
        assert_ne!(network, format!("{:x}", node::network()));
    }
}

#[test]
#[ignore = "a role"]
fn role_says_identity() {
    say(&format!("{:x} {:x}", node::identity(None, None).0, node::network()));
}
