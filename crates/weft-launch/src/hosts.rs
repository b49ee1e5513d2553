//! The hosts of a job, the ranks that each shall hold, and the host of each rank. `mpiexec/plan.rs` uses it.

/// The longest host name that is accepted, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The most slots of one host.
const SLOTS_MAX: u32 = 1 << 16;

/// A host as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// The name, used only for the agent's command and messages.
    pub(crate) name: String,
    /// The number of ranks that it shall hold, when the user said so.
    pub(crate) slots: Option<u32>,
    /// The most ranks that it may hold, when the user said so.
    pub(crate) slots_max: Option<u32>,
    /// The network interface of its ranks, when the user named one.
    pub(crate) interface: Option<String>,
    /// The name by which the agent's command reaches the host, where it is another one than `name`.
    pub(crate) reached_as: Option<String>,
}

impl Host {
    /// A host of which only the name and perhaps the slots are known.
    pub(crate) fn new(name: impl Into<String>, slots: Option<u32>) -> Self {
        Self { name: name.into(), slots, slots_max: None, interface: None, reached_as: None }
    }
}

/// The order in which ranks are dealt to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Fill one host, then the next.
    BySlot,
    /// Give one rank to each host in turn.
    ByHost,
}

/// Reads hosts from the words of `--hosts h0,h1:2`.
///
/// # Errors
/// One sentence about the word that is wrong.
pub(crate) fn parse_list(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        add(&mut hosts, parse_host(item)?);
    }
    if hosts.is_empty() { Err(format!("`{text}` names no host")) } else { Ok(hosts) }
}

/// Reads hosts from the lines of a hostfile in the forms of Open MPI (`h0 slots=2 max_slots=4`), of MPICH and
/// of Intel (`h0:2 ifname=eth1`), with comments after `#`. Also returns notes on words that have no effect.
///
/// # Errors
/// One sentence that names the line.
pub(crate) fn parse_file(text: &str) -> Result<(Vec<Host>, Vec<String>), String> {
    let (mut hosts, mut notes) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let explain = |why: String| format!("line {number}: {why}");
        let mut host = parse_host(first).map_err(explain)?;
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key.replace('-', "_").as_str() {
                "slots" | "cpu" | "cpus" | "count" | "maxprocs" => {
                    host.slots = Some(parse_slots(value).map_err(explain)?);
                }
                "max_slots" | "slots_max" | "max_cpus" | "cpus_max" | "max_count" | "count_max" => {
                    host.slots_max = Some(parse_slots(value).map_err(explain)?);
                }
                "user" | "username" | "user_name" if !value.is_empty() => {
                    let reached_as = format!("{value}@{}", host.name);
                    host.reached_as = Some(parse_host(&reached_as).map_err(explain)?.name);
                }
                "ifname" if !value.is_empty() => host.interface = Some(value.to_owned()),
                // Hydra's `map=` and other words follow in the same field.
                "binding" => {
                    notes
                        .push(format!("line {number}: `{word}` has no effect; --bind-to says what ranks are bound to"));
                }
                // Hydra's name for the address of the host, which changes nothing here.
                "ifhn" => {}
                _ => return Err(explain(format!("`{word}` is not understood; write `{} slots=2`", host.name))),
            }
        }
        if let (Some(slots), Some(most)) = (host.slots, host.slots_max)
            && slots > most
        {
            return Err(explain(format!("{slots} slots are more than max_slots={most}")));
        }
        add(&mut hosts, host);
    }
    if hosts.is_empty() { Err("it names no host".into()) } else { Ok((hosts, notes)) }
}

/// Adds a host. A host that is named again gets that many more slots.
pub(crate) fn add(hosts: &mut Vec<Host>, host: Host) {
    match hosts.iter_mut().find(|other| other.name == host.name) {
        Some(other) => {
            other.slots = Some(other.slots.unwrap_or(1) + host.slots.unwrap_or(1));
            other.slots_max = match (other.slots_max, host.slots_max) {
                (Some(one), Some(more)) => Some(one.saturating_add(more)),
                (one, more) => one.or(more),
            };
            other.interface = host.interface.or(other.interface.take());
            other.reached_as = host.reached_as.or(other.reached_as.take());
        }
        None => hosts.push(host),
    }
}

fn parse_host(text: &str) -> Result<Host, String> {
    // An IPv6 address has colons of its own and needs brackets to have slots.
    let (name, slots) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, rest)) => (address, rest.strip_prefix(':')),
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(name, slots)| (name, Some(slots))),
    };
    let plain = |letter: char| letter.is_alphanumeric() || "._-:%@+".contains(letter);
    // A name with a dash in front would be an option of the agent's command.
    if name.is_empty() || name.starts_with('-') || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        return Err(format!("`{text}` is no host name"));
    }
    Ok(Host::new(name, slots.map(parse_slots).transpose()?))
}

pub(crate) fn parse_slots(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(slots) if (1..=SLOTS_MAX).contains(&slots) => Ok(slots),
        _ => Err(format!("`{text}` is no number of slots between 1 and {SLOTS_MAX}")),
    }
}

/// The number of ranks that fill the hosts: one for a host without slots.
pub(crate) fn filled(hosts: &[Host]) -> u32 {
    hosts.iter().fold(0, |sum: u32, host| sum.saturating_add(host.slots.unwrap_or(1)))
}

/// The number of ranks that the hosts hold before they are oversubscribed; `None` when no host has slots.
pub(crate) fn capacity(hosts: &[Host]) -> Option<u32> {
    hosts.iter().any(|host| host.slots.is_some()).then(|| hosts.iter().map(|host| host.slots.unwrap_or(1)).sum())
}

/// The most ranks that the hosts may hold; `None` when some host has no limit.
pub(crate) fn room(hosts: &[Host]) -> Option<u32> {
    hosts.iter().try_fold(0, |sum: u32, host| Some(sum.saturating_add(host.slots_max?)))
}

/// The host of each of `count` ranks, as an index into `hosts`. There must be [`room`] for them.
///
/// Where no host has slots, ranks are spread evenly in blocks. Where some have slots, a host without slots
/// counts as one, and ranks beyond all slots begin again at the first host with the same numbers. A host that
/// holds its most ranks is left out.
pub(crate) fn place(hosts: &[Host], count: u32, order: Order) -> Vec<usize> {
    assert!(!hosts.is_empty(), "ranks need a host");
    assert!(room(hosts).is_none_or(|room| count <= room), "there is room for all ranks");
    let shares = shares(hosts, count);
    let round: Vec<usize> = match order {
        Order::BySlot => {
            let all = shares.iter().enumerate();
            all.flat_map(|(host, &share)| std::iter::repeat_n(host, share as usize)).collect()
        }
        Order::ByHost => {
            let rounds = shares.iter().copied().max().unwrap_or(1);
            let turns = (0..rounds).flat_map(|round| (0..shares.len()).map(move |host| (round, host)));
            turns.filter(|&(round, host)| round < shares[host]).map(|(_, host)| host).collect()
        }
    };
    let mut held = vec![0; hosts.len()];
    let has_room = |&host: &usize| {
        held[host] += 1;
        hosts[host].slots_max.is_none_or(|most| held[host] <= most)
    };
    round.iter().copied().cycle().filter(has_room).take(count as usize).collect()
}

/// The number of ranks that each host takes in one round.
fn shares(hosts: &[Host], count: u32) -> Vec<u32> {
    if capacity(hosts).is_some() {
        return hosts.iter().map(|host| host.slots.unwrap_or(1)).collect();
    }
    let number = u32::try_from(hosts.len()).expect("fewer hosts than 2^32");
    (0..number).map(|host| count / number + u32::from(host < count % number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<Host> {
        parse_list(text).expect("hosts")
    }

    fn named(name: &str, slots: Option<u32>) -> Host {
        Host::new(name, slots)
    }

    #[test]
    fn lists_and_files_name_hosts() {
        assert_eq!(hosts("h0, h1:2"), [named("h0", None), named("h1", Some(2))]);
        assert_eq!(hosts("fe80::1,[::1]:3,[::2]"), [named("fe80::1", None), named("::1", Some(3)), named("::2", None)]);
        assert_eq!(hosts("h0,h0,h1"), [named("h0", Some(2)), named("h1", None)]);
        let file = "# all\nh0 slots=2 max_slots=4\n\nh1:3 # two\nh2\n";
        let first = Host { slots_max: Some(4), ..named("h0", Some(2)) };
        let listed = vec![first, named("h1", Some(3)), named("h2", None)];
        assert_eq!(parse_file(file), Ok((listed, Vec::new())));
        let file = "h0:2 ifname=eth1 binding=user:0,1\nh1 ifname=eth2\nh1\nh2 maxprocs=3\n";
        let (hosts, notes) = parse_file(file).expect("hosts");
        let interfaces: Vec<_> = hosts.iter().map(|host| host.interface.as_deref()).collect();
        assert_eq!(interfaces, [Some("eth1"), Some("eth2"), None]);
        assert_eq!(filled(&hosts), 7);
        assert!(matches!(&notes[..], [note] if note.contains("line 1") && note.contains("--bind-to")), "{notes:?}");
    }

    /// Host files as each launcher's own documentation and Kubernetes' MPI Operator write them.
    #[test]
    fn files_of_other_launchers_are_read() {
        let shown = |text: &str| {
            let (hosts, notes) = parse_file(text).expect(text);
            let show = |host: &Host| {
                let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
                let other = host.reached_as.as_deref().or(host.interface.as_deref()).unwrap_or("-");
                format!("{} {} {} {other}", host.name, number(host.slots), number(host.slots_max))
            };
            (hosts.iter().map(show).collect::<Vec<_>>(), notes.len())
        };
        let open_mpi = "# a comment\nfoo.example.com\nbar.example.com slots=2\nyow.example.com slots=4 max-slots=4\n\
                        deb.example.com cpus=3 user=bob # another\n";
        let expected = [
            "foo.example.com - - -",
            "bar.example.com 2 - -",
            "yow.example.com 4 4 -",
            "deb.example.com 3 - bob@deb.example.com",
        ];
        assert_eq!(shown(open_mpi), (expected.map(String::from).to_vec(), 0));
        let mpich = "donner\t# the first\r\nfoo:3 binding=user:0,1,2 ifname=eth1\nshakey:2 user=me\nfoo:1\n";
        assert_eq!(
            shown(mpich),
            (["donner - - -", "foo 4 - eth1", "shakey 2 - me@shakey"].map(String::from).into(), 1)
        );
        let intel = "node1:2\n[fe80::2]:4\nfe80::3\nme@10.0.0.7:1\n";
        let expected = ["node1 2 - -", "fe80::2 4 - -", "fe80::3 - - -", "me@10.0.0.7 1 - -"];
        assert_eq!(shown(intel), (expected.map(String::from).to_vec(), 0));
        let operator = "pi-worker-0.pi.default.svc slots=1\npi-worker-1.pi.default.svc slots=1\n";
        let expected = ["pi-worker-0.pi.default.svc 1 - -", "pi-worker-1.pi.default.svc 1 - -"];
        assert_eq!(shown(operator), (expected.map(String::from).to_vec(), 0));
        let operator = "pi-worker-0.pi.default.svc:1\npi-worker-1.pi.default.svc:1\n";
        assert_eq!(shown(operator), (expected.map(String::from).to_vec(), 0));
    }

    #[test]
    fn nonsense_is_named() {
        for text in ["", ",", "-oProxyCommand=x", "h0:0", "h0:x", "a b", "h0;reboot", "$(x)"] {
            assert!(parse_list(text).is_err(), "{text}");
        }
        assert!(parse_file("h0\nh1 speed=3\n").expect_err("unknown word").starts_with("line 2:"));
        assert!(parse_file("# nothing\n").is_err());
        for line in ["h0 slots=2 max_slots=1", "h0 slots=x", "h0 max_slots=0", "h0 user=", "h0 user=-x", "h0 slots"] {
            assert!(parse_file(line).is_err_and(|why| why.starts_with("line 1:")), "{line}");
        }
    }

    #[test]
    fn blocks_are_even_without_slots() {
        assert_eq!(place(&hosts("a,b"), 4, Order::BySlot), [0, 0, 1, 1]);
        assert_eq!(place(&hosts("a,b"), 5, Order::BySlot), [0, 0, 0, 1, 1]);
        assert_eq!(place(&hosts("a,b,c"), 2, Order::BySlot), [0, 1]);
        assert_eq!(place(&hosts("a,b"), 5, Order::ByHost), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn slots_are_filled_then_filled_again() {
        assert_eq!(place(&hosts("a:2,b:1"), 3, Order::BySlot), [0, 0, 1]);
        assert_eq!(place(&hosts("a:2,b:1"), 7, Order::BySlot), [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(place(&hosts("a:2,b"), 3, Order::BySlot), [0, 0, 1]);
        assert_eq!(place(&hosts("a:3,b:1"), 6, Order::ByHost), [0, 1, 0, 0, 0, 1]);
        assert_eq!(capacity(&hosts("a:3,b")), Some(4));
        assert_eq!(capacity(&hosts("a,b")), None);
    }

    #[test]
    fn a_host_holds_its_most_ranks_and_no_more() {
        let (hosts, _) = parse_file("a slots=1 max_slots=2\nb slots=1\n").expect("hosts");
        assert_eq!(place(&hosts, 6, Order::BySlot), [0, 1, 0, 1, 1, 1]);
        assert_eq!(room(&hosts), None);
        let (hosts, _) = parse_file("a slots=1 max_slots=2\nb max_slots=1\n").expect("hosts");
        assert_eq!((room(&hosts), place(&hosts, 3, Order::ByHost)), (Some(3), vec![0, 1, 0]));
        assert_eq!(place(&hosts, 0, Order::BySlot), []);
    }

    #[test]
    fn every_rank_has_a_host_and_no_slot_stays_empty() {
        for count in 1..=12 {
            for text in ["a", "a,b", "a:3,b:2", "a,b,c:4"] {
                let hosts = hosts(text);
                for order in [Order::BySlot, Order::ByHost] {
                    let placed = place(&hosts, count, order);
                    assert_eq!(placed.len(), count as usize);
                    if let Some(capacity) = capacity(&hosts).filter(|&capacity| capacity >= count) {
                        for (index, host) in hosts.iter().enumerate() {
                            let held = placed.iter().filter(|&&other| other == index).count();
                            assert!(held as u32 <= host.slots.unwrap_or(1), "{text} {count} {capacity}");
                        }
                    }
                }
            }
        }
    }
}
