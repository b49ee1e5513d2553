//! The agent's part in heartbeats: its sockets, and a look at ranks that are stopped. What to do, and when,
//! is decided in [`crate::heartbeat`].

use super::{Agent, rank};
use crate::control::{FromMember, Heartbeat, Listener, Plan, Report, ToMember};
use crate::heartbeat::{Act, BEAT_BYTES, Key, Member, Pace};
use crate::sys::{self, Interface, Poll, READ, Ready, Stat};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The most addresses at which an agent listens.
const ADDRESSES_MAX: usize = 8;
/// The most datagrams that are read from a socket in one go.
const DATAGRAMS_MAX: usize = 256;
/// The number of looks at ranks within the limit.
const LOOKS: u32 = 4;

/// The sockets of an agent and its policy.
pub(super) struct Heart {
    member: Member,
    pace: Pace,
    key: Key,
    sockets: Vec<UdpSocket>,
    /// Where the agents of other hosts listen.
    listeners: BTreeMap<u32, Vec<SocketAddr>>,
    started_at: Instant,
    looked_at: Duration,
    /// The stopped processes of ranks, each with the time since which it was seen so.
    stopped: BTreeMap<libc::pid_t, Duration>,
}

impl Heart {
    /// Opens the sockets. Returns where they listen too.
    pub(super) fn new(heartbeat: Heartbeat, plan: &Plan) -> io::Result<(Self, Vec<SocketAddr>)> {
        let pace = Pace::new(Duration::from_millis(heartbeat.limit_ms));
        let wanted = plan.programs.first().and_then(|program| rank::variable(program, "WEFT_INTERFACE"));
        let wanted = wanted.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
        let addresses = choose(&wanted, sys::interfaces()?);
        let (mut sockets, mut listens) = (Vec::new(), Vec::new());
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        for any in any {
            let alike = addresses.iter().filter(|ip| ip.is_ipv4() == any.is_ipv4());
            if alike.clone().next().is_some() {
                let socket = UdpSocket::bind((any, 0))?;
                socket.set_nonblocking(true)?;
                let port = socket.local_addr()?.port();
                listens.extend(alike.map(|&ip| SocketAddr::new(ip, port)));
                sockets.push(socket);
            }
        }
        let member = Member::new(heartbeat.member, pace, Duration::ZERO);
        let (key, listeners, stopped) = (Key::new(plan.secret), BTreeMap::new(), BTreeMap::new());
        let (started_at, looked_at) = (Instant::now(), Duration::ZERO);
        Ok((Self { member, pace, key, sockets, listeners, started_at, looked_at, stopped }, listens))
    }

    fn now(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Adds the sockets to the descriptors that are waited for. The entries are for
    /// [`handle`](Self::handle).
    pub(super) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>) -> Vec<usize> {
        self.sockets.iter().map(|socket| poll.add(socket, READ)).collect()
    }

    /// The time until something is due.
    pub(super) fn next_timeout(&self) -> Duration {
        self.member.next_timeout().min(self.looked_at + self.pace.limit() / LOOKS).saturating_sub(self.now())
    }

    /// Reads what has arrived, and does what is due. Returns what `mpiexec` must hear.
    pub(super) fn handle(&mut self, ready: &Ready, entries: &[usize]) -> Vec<FromMember> {
        let mut words = Vec::new();
        for (which, &entry) in entries.iter().enumerate() {
            if ready.has(entry) {
                self.read(which, &mut words);
            }
        }
        for act in self.member.poll(self.now()) {
            match act {
                Act::Report(word) => words.push(word),
                Act::Send { to, beat } => {
                    let bytes = self.key.seal(&beat);
                    let addresses = self.listeners.get(&to).into_iter().flatten();
                    addresses.for_each(|address| self.send(&bytes, *address));
                }
            }
        }
        words
    }

    fn read(&mut self, which: usize, words: &mut Vec<FromMember>) {
        // One byte more than a datagram has: a longer one is not cut to the right length.
        let mut buffer = [0; BEAT_BYTES + 1];
        for _ in 0..DATAGRAMS_MAX {
            let (length, from) = match self.sockets[which].recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An earlier datagram has found nobody, which says nothing here.
                Err(_) => continue,
            };
            let Some(beat) = self.key.open(&buffer[..length]) else { continue };
            match self.member.handle_beat(self.now(), beat) {
                Some(Act::Report(word)) => words.push(word),
                Some(Act::Send { beat, .. }) => self.send(&self.key.seal(&beat), from),
                None => {}
            }
        }
    }

    /// Sends a datagram. One that cannot leave is lost, as others are on the way.
    fn send(&self, bytes: &[u8], to: SocketAddr) {
        let alike = |socket: &&UdpSocket| socket.local_addr().is_ok_and(|own| own.is_ipv4() == to.is_ipv4());
        if let Some(socket) = self.sockets.iter().find(alike) {
            let _ = socket.send_to(bytes, to);
        }
    }

    fn note(&mut self, listener: Listener) -> u32 {
        self.listeners.insert(listener.member, listener.addresses);
        listener.member
    }

    /// The processes of `ranks` that have been stopped for longer than the limit.
    fn stopped_too_long(&mut self, ranks: impl Iterator<Item = libc::pid_t>) -> Vec<libc::pid_t> {
        let now = self.now();
        if now < self.looked_at + self.pace.limit() / LOOKS {
            return Vec::new();
        }
        // If this agent was stopped itself, other processes may have been stopped for less long.
        let was_stopped = now > self.looked_at + self.pace.limit();
        self.looked_at = now;
        let seen = std::mem::take(&mut self.stopped);
        let is_stopped = |pid: &libc::pid_t| Stat::of(*pid).is_some_and(|stat| stat.is_stopped());
        let since = |pid| seen.get(&pid).copied().filter(|_| !was_stopped).unwrap_or(now);
        self.stopped = ranks.filter(is_stopped).map(|pid| (pid, since(pid))).collect();
        let limit = self.pace.limit();
        self.stopped.iter().filter(|(_, since)| now - **since > limit).map(|(pid, _)| *pid).collect()
    }
}

impl Agent {
    /// Begins to listen, where heartbeats are asked for.
    pub(super) fn start_heart(&mut self, plan: &Plan) -> io::Result<()> {
        if let Some(heartbeat) = plan.heartbeat {
            let (heart, listens) = Heart::new(heartbeat, plan)?;
            self.heart = Some(heart);
            self.report(&Report::Heartbeat(FromMember::Listens(listens)));
        }
        Ok(())
    }

    /// Does what is due for heartbeats.
    pub(super) fn beat(&mut self, ready: &Ready, entries: &[usize]) {
        let Some(heart) = &mut self.heart else { return };
        for word in heart.handle(ready, entries) {
            self.report(&Report::Heartbeat(word));
        }
        self.end_stopped();
    }

    /// Ends ranks that have been stopped for longer than the limit, unless `mpiexec` has stopped them all. So
    /// they do not come back when the others have gone on without them.
    fn end_stopped(&mut self) {
        let Some(heart) = self.heart.as_mut().filter(|_| !self.suspended) else { return };
        let limit = heart.pace.limit().as_secs_f64();
        let stopped = heart.stopped_too_long(self.ranks.iter().filter_map(|rank| rank.pid));
        for pid in stopped {
            if let Some(rank) = self.ranks.iter().find(|rank| rank.pid == Some(pid)) {
                let text =
                    format!("rank {} was stopped for longer than {limit} s (--heartbeat), and is killed", rank.number);
                self.report(&Report::Note(text));
                sys::kill_group(pid, libc::SIGKILL);
            }
        }
    }

    pub(super) fn handle_word(&mut self, word: ToMember) {
        let Some(heart) = &mut self.heart else { return };
        let now = heart.now();
        match word {
            ToMember::Place { next, watched, is_audible } => {
                let next = next.map(|listener| heart.note(listener));
                heart.member.take_place(now, next, watched, is_audible);
            }
            ToMember::Ask { round, anchor } => {
                let anchor = heart.note(anchor);
                let answer = heart.member.ask(now, round, anchor);
                self.report(&Report::Heartbeat(answer));
            }
            ToMember::Excluded(why) => {
                crate::say(&why);
                self.abandon();
            }
        }
    }
}

/// The addresses at which an agent listens: those that `WEFT_INTERFACE` (`wanted`) names, else all. The
/// addresses of the host to itself are of use only where it has no others.
fn choose(wanted: &str, interfaces: Vec<Interface>) -> Vec<IpAddr> {
    let words = || wanted.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (unwanted, named): (Vec<&str>, Vec<&str>) = words().partition(|word| word.starts_with('!'));
    let may = |interface: &Interface| {
        let is = |word: &&str| word.trim_start_matches('!') == interface.name || is_within(interface.ip, word);
        (named.is_empty() || named.iter().any(is)) && !unwanted.iter().any(is)
    };
    let is_usable = |interface: &Interface| match interface.ip {
        IpAddr::V4(ip) => !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    let usable: Vec<Interface> = interfaces.into_iter().filter(is_usable).collect();
    let list = |chosen: &dyn Fn(&&Interface) -> bool| -> Vec<IpAddr> {
        usable.iter().filter(chosen).map(|interface| interface.ip).take(ADDRESSES_MAX).collect()
    };
    let found = list(&|interface| may(interface) && !interface.is_loopback);
    if found.is_empty() { list(&|interface| interface.is_loopback) } else { found }
}

/// Returns whether an address is in a subnet such as `10.1.0.0/16`, perhaps behind `!`.
fn is_within(ip: IpAddr, subnet: &str) -> bool {
    let parsed = subnet
        .trim_start_matches('!')
        .split_once('/')
        .and_then(|(network, prefix)| Some((network.parse::<IpAddr>().ok()?, prefix.parse::<u32>().ok()?)));
    match (ip, parsed) {
        (IpAddr::V4(ip), Some((IpAddr::V4(network), prefix @ 0..=32))) => {
            (ip.to_bits() ^ network.to_bits()).checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), Some((IpAddr::V6(network), prefix @ 0..=128))) => {
            (ip.to_bits() ^ network.to_bits()).checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_the_setting_names() {
        let interface = |name: &str, ip: &str| Interface {
            name: name.into(),
            ip: ip.parse().expect("an address"),
            is_loopback: name == "lo",
        };
        let all = || {
            let list = [("lo", "127.0.0.1"), ("eth0", "10.1.2.3"), ("eth1", "192.168.0.7"), ("eth1", "fd00::7")];
            let mut list: Vec<Interface> = list.map(|(name, ip)| interface(name, ip)).into();
            list.push(interface("eth1", "fe80::1"));
            list
        };
        let chosen = |wanted: &str| -> Vec<String> { choose(wanted, all()).iter().map(ToString::to_string).collect() };
        assert_eq!(chosen(""), ["10.1.2.3", "192.168.0.7", "fd00::7"]);
        assert_eq!(chosen("eth1"), ["192.168.0.7", "fd00::7"]);
        assert_eq!(chosen("10.1.0.0/16"), ["10.1.2.3"]);
        assert_eq!(chosen("!eth1, !fd00::/8"), ["10.1.2.3"]);
        assert_eq!(chosen("fd00::/16"), ["fd00::7"]);
        assert_eq!(chosen("0.0.0.0/0"), ["10.1.2.3", "192.168.0.7"]);
        assert_eq!(chosen("eth7"), ["127.0.0.1"]);
    }
}
