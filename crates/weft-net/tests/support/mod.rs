//! Support for tests with real processes: a test starts its own binary again in a role. A role is an ignored
//! test, so that it runs only then.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weft_net::carrier::{Address, Carrier, receive_packets};
use weft_net::wait::{Interest, wait};

/// Longest time that any test may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A pair of virtual interfaces, `d0` and `d1`, for the preparation of a role.
pub(crate) const PAIR: &str = "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                    && ip addr add 10.77.0.1/24 dev d0 && ip addr add 10.77.0.2/24 dev d1";

/// Prefix of the lines from a role to its test, because the test harness prints to the same place.
const MARK: &str = "role says: ";

/// The signals that a test sends to a role.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Stop,
    Kill,
}

/// A role as a process. Killed when dropped.
pub(crate) struct Role {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Role {
    pub(crate) fn start(role: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_by(&mut Command::new(std::env::current_exe().unwrap()), role, environment)
    }

    /// Starts a role in new namespaces, after a line of shell, e.g. `unshare -m` and a mount.
    pub(crate) fn start_unshared(flags: &str, preparation: &str, role: &str, environment: &[(&str, &str)]) -> Self {
        // The program is opened before the preparation, which may mount something over its directory.
        let script = format!("exec 3<\"$0\"; {{ {preparation}; }} >&2 || exit 99; exec /proc/self/fd/3 \"$@\"");
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", &script]).arg(std::env::current_exe().unwrap());
        Self::start_by(&mut command, role, environment)
    }

    fn start_by(command: &mut Command, role: &str, environment: &[(&str, &str)]) -> Self {
        command.args(["--ignored", "--exact", role, "--nocapture", "--test-threads=1"]);
        command.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = read_lines(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line that the role says.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).expect("the role says something in time")
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Stop => "-STOP",
            Signal::Kill => "-KILL",
        };
        let sent = Command::new("kill").args([name, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {name}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the role's success.
    pub(crate) fn finish(mut self) {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "the role failed: {status}");
                return;
            }
            assert!(Instant::now() < deadline, "the role does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(output: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The harness may print the test's name on the same line first.
            if let Some((_, said)) = line.split_once(MARK)
                && sender.send(said.to_owned()).is_err()
            {
                break;
            }
        }
    });
    receiver
}

/// Says a line to the test, for roles.
pub(crate) fn say(line: &str) {
    println!("\n{MARK}{line}");
}

/// Returns the next line from the test, for roles.
pub(crate) fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// Returns whether namespaces can be made here; tests that need them say so when they are skipped.
pub(crate) fn can_unshare() -> bool {
    let is_able = Command::new("unshare").args(["-mn", "true"]).status().is_ok_and(|status| status.success());
    if !is_able {
        eprintln!("skipped: needs the right to make namespaces");
    }
    is_able
}

/// Sends until the other end hears it: the interfaces came up a moment ago.
pub(crate) fn meet(near: &mut dyn Carrier, far: &mut dyn Carrier, to: &Address) {
    let deadline = Instant::now() + LIMIT / 3;
    while receive_packets(far, &mut |_| (), 8) == 0 {
        near.send(to, b"are you there").unwrap();
        let pause = weft_core::time::Duration::from_millis(20);
        wait(&[(far.attributes().descriptor.expect("something to sleep on"), Interest::Read)], Some(pause)).unwrap();
        assert!(Instant::now() < deadline, "nothing arrives");
    }
    while receive_packets(far, &mut |_| (), 8) > 0 {}
}

pub(crate) fn receive(link: &mut dyn Carrier, count: usize) -> Vec<Vec<u8>> {
    let (mut packets, deadline) = (Vec::new(), Instant::now() + LIMIT / 3);
    while packets.len() < count {
        let missing = count - packets.len();
        receive_packets(link, &mut |packet| packets.push(packet.to_vec()), missing);
        assert!(Instant::now() < deadline, "{} of {count} packets arrived", packets.len());
    }
    packets
}

/// Waits for a descriptor, at most so long, and returns whether it is readable.
pub(crate) fn is_readable(descriptor: std::os::fd::RawFd, longest: Duration) -> bool {
    let longest = weft_core::time::Duration::from_micros(longest.as_micros() as u64);
    !wait(&[(descriptor, Interest::Read)], Some(longest)).unwrap().is_empty()
}
