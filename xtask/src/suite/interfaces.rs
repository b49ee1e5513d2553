//! Hosts whose interfaces do not all lead to the others: a job finds those that do, and `weft doctor` says
//! which, and why not the others.
//!
//! Each case makes two virtual hosts, changes their interfaces by `ip`, and runs a job that would fail after
//! [`PEER_TIMEOUT`] if it waited for an interface that leads nowhere.

use super::context::{Context, Expected};
use super::process::Run;
use super::virtual_hosts::{judge, namespaces};
use super::{Case, Outcome};

const LIMIT_SECONDS: u64 = 60;
/// The seconds after which a silent peer counts as gone.
const PEER_TIMEOUT: &str = "8";
/// The exit code of a script whose kernel lacks a kind of interface.
const EXIT_LACKS: i32 = 78;

/// The words that scripts use. `on COMMAND…` runs `ip` in both hosts, with `@` in the place of the host's
/// number, 1 or 2. `bridge NAME ADDRESS` gives both hosts a bridge to nowhere, as Docker and libvirt do.
const WORDS: &str = r#"
h0=${WEFT_HOSTS%%,*} h1=${WEFT_HOSTS##*,} switch=${WEFT_HOSTS%%-0,*}-switch
on() { for n in 1 2; do
    case $n in 1) host=$h0 ;; *) host=$h1 ;; esac
    ip -n $host $(echo "$*" | sed "s/@/$n/g") || { echo "lacks: ip $*"; exit 78; }
done; }
bridge() {
    on link add $1 type bridge; on link add port type veth peer name guest
    on link set port master $1; on link set port up; on link set guest up
    on address add $2 dev $1; on link set $1 up
}
nowhere() {
    on link add $1 type veth peer name guest; on link set guest up; on link set $1 up
    on address add $2 dev $1
}
# The switch becomes a router between two subnets: each host has its own.
routed() {
    alone; on address add 10.@.0.1/24 dev e0
    for n in 1 2; do
        port=p$((n - 1))-0
        ip -n $switch link set $port nomaster; ip -n $switch address add 10.$n.0.254/24 dev $port
    done
    ip netns exec $switch sysctl -qw net.ipv4.ip_forward=1
    on route add default via 10.@.0.254
}
alone() { on address flush dev e0; on -6 address flush dev e0; }
"#;

/// A story: what the interfaces are, and what the doctor says of them.
struct Story {
    name: &'static str,
    /// The number of interfaces that each host begins with.
    interfaces: u32,
    script: &'static str,
    /// What `weft doctor` says of the interfaces that lead there; `None`: it is not asked, since it says what
    /// it says in another story.
    says: Option<&'static str>,
}

const STORIES: &[Story] = &[
    Story {
        name: "a bridge with the same address on every host",
        interfaces: 1,
        script: "bridge docker0 172.17.0.1/16",
        says: Some("arrive, 198.18.0.1 to 198.18.0.2"),
    },
    Story {
        name: "a bridge with a subnet of its own that seems to be common",
        interfaces: 1,
        script: "bridge virbr0 192.168.122.@/24",
        says: Some("arrive, 198.18.0.1 to 198.18.0.2"),
    },
    Story {
        name: "such a bridge whose subnet is smaller than that of the network",
        interfaces: 1,
        script: "alone; on address add 10.0.0.@/8 dev e0; bridge virbr0 192.168.122.@/30",
        says: None,
    },
    Story {
        name: "an interface to nowhere whose subnet seems to be common",
        interfaces: 1,
        script: "nowhere x0 192.168.122.@/24",
        says: Some("arrive, 198.18.0.1 to 198.18.0.2"),
    },
    Story {
        name: "such an interface whose subnet is smaller than that of the network",
        interfaces: 1,
        script: "alone; on address add 10.0.0.@/8 dev e0; nowhere x0 192.168.122.@/30",
        says: Some("arrive, 10.0.0.1 to 10.0.0.2"),
    },
    Story {
        name: "a router between two subnets, and such an interface",
        interfaces: 1,
        script: "routed; nowhere x0 192.168.122.@/24",
        says: Some("arrive, 10.1.0.1 to 10.2.0.1"),
    },
    Story {
        name: "two addresses, of which one leads nowhere",
        interfaces: 1,
        script: "on address add 10.@.0.1/24 dev e0",
        says: Some("arrive, 198.18.0.1 to 198.18.0.2"),
    },
    Story {
        name: "IPv6 only",
        interfaces: 1,
        script: "alone; on address add fd00:77::@/64 dev e0 nodad",
        says: Some("arrive, fd00:77::1 to [fd00:77::2]"),
    },
    Story {
        name: "a router between two subnets",
        interfaces: 1,
        script: "routed",
        says: Some("arrive, 10.1.0.1 to 10.2.0.1"),
    },
    Story {
        name: "a router between two subnets, and a bridge that seems to be common",
        interfaces: 1,
        script: "routed; bridge virbr0 192.168.122.@/24",
        says: None,
    },
    Story {
        name: "a VLAN",
        interfaces: 1,
        script: "alone; on link add link e0 name e0.7 type vlan id 7; on address add 10.7.0.@/24 dev e0.7; on link set e0.7 up",
        says: Some("arrive, 10.7.0.1 to 10.7.0.2"),
    },
    Story {
        name: "a tunnel with a small MTU",
        interfaces: 1,
        script: "alone; on link set e0 mtu 1280; on address add 10.8.0.@/24 dev e0",
        says: Some("packets of 64 and 1252 bytes arrive, 10.8.0.1 to 10.8.0.2"),
    },
    Story {
        name: "a tunnel with a small MTU beside the network",
        interfaces: 2,
        script: "on link set e1 mtu 1280",
        says: Some("arrive, 198.18.0.1 to 198.18.0.2"),
    },
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for story in STORIES {
        cases.push(Case::new(story.name, move |context| {
            let program = match context.compile("examples/ring.c") {
                Ok(program) => program,
                Err(error) => return Outcome::Failed(format!("{error:#}")),
            };
            let run = hosts(context, story, "\"$mpiexec\" --hosts $WEFT_HOSTS -ppn 2 -n 4 \"$program\"");
            finish(run.env("program", program), Expected::code(0).says("over 4 ranks").says("(right)"))
        }));
        if let Some(says) = story.says {
            cases.push(Case::new(format!("doctor: {}", story.name), move |context| {
                finish(hosts(context, story, "\"$weft\" doctor $h0 $h1"), Expected::code(0).says(says))
            }));
        }
    }
    cases
}

fn hosts(context: &Context, story: &Story, command: &str) -> Run {
    let run = Run::new(context.bin("weft")).env("weft", context.bin("weft")).env("mpiexec", context.bin("mpiexec"));
    let run = run.env("WEFT_PEER_TIMEOUT", PEER_TIMEOUT);
    let script = format!("{WORDS}\n{}\n{command}", story.script);
    let run = run.args(["hosts", "run", "--count", "2", "--interfaces", &story.interfaces.to_string(), "--"]);
    run.args(["sh", "-c", &script]).limit(LIMIT_SECONDS)
}

fn finish(run: Run, expected: Expected) -> Outcome {
    let finished = run.finish();
    match &finished {
        Ok(finished) if finished.code == Some(EXIT_LACKS) => {
            let line = finished.output.lines().find(|line| line.starts_with("lacks")).unwrap_or("lacks it").to_owned();
            Outcome::Skipped(format!("this kernel {line}"))
        }
        _ => judge(&namespaces(), finished, expected),
    }
}
