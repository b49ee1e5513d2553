//! Tests of MPI over RDMA: programs between virtual machines whose kernels play a device, `siw` (iWARP) or
//! `rdma_rxe` (RoCE), over each carrier of such a device and in each mode of the carrier. Also tests of the
//! errors when something breaks.

mod multicast;
mod promises;
mod rails;

use std::time::Duration;

use super::context::{Context, Expected};
use super::guests::{self, Device, Guests, Machine, Session};
use super::peers;
use super::process::Finished;
use super::{Case, Outcome};

const DEVICES: &[Device] = &[Device::Siw, Device::Rxe];
/// The time limits: an emulated processor is slower by some ten times, and two guests may share one
/// processor.
const LIMIT: Duration = Duration::from_secs(120);
const MPI4PY_LIMIT: Duration = Duration::from_secs(1800);
const START: Duration = Duration::from_secs(40);
/// The seconds after which a silent peer counts as failed, where a peer is to fail.
const PEER_TIMEOUT: &str = "4";
/// The seconds for which traffic goes on; it is under way when something breaks.
const TRAFFIC_SECONDS: &str = "25";
/// The memory that a rank may lock, in KiB, where that is to be less than an endpoint takes.
const LOCKED_KIB: &str = "64";
/// The memory that is enough for an endpoint, but not for a connection: over libfabric, and over the device
/// itself.
const LOCKED_BY_FABRIC_KIB: &str = "16384";
const LOCKED_BY_VERBS_KIB: &str = "1024";
/// The command that takes away the privilege by which root locks as much as it likes.
const WITHOUT_PRIVILEGE: [&str; 2] = ["setpriv", "--bounding-set=-ipc_lock"];

/// A carrier in one of its modes.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    devices: &'static [Device],
    settings: &'static [(&'static str, &'static str)],
    /// The words by which `fast_path` is told whether small messages are written to memory of their
    /// receivers; none: the carrier has no fast path.
    writes: Option<&'static [&'static str]>,
    /// Says whether the mode also runs mpi4py's modules, four guests, the doctor, and the cases that break
    /// something.
    thorough: bool,
}

const FABRIC: (&str, &str) = ("WEFT_LINK", "shared,fabric");
const PROVIDER: (&str, &str) = ("WEFT_FABRIC_PROVIDER", "verbs;ofi_rxm");
/// The number of peers for which ofi_rxm makes its queues: rxe has no room for the queues of the usual
/// number.
const PEERS: (&str, &str) = ("FI_UNIVERSE_SIZE", "16");

const VERBS: (&str, &str) = ("WEFT_LINK", "shared,verbs");

/// The setting by which the device is used between ranks of one guest as well.
const DEVICE_ONLY: (&str, &str) = ("WEFT_LINK", "verbs");
/// The KiB that an idle peer takes, and the KiB of all idle peers together; the same with a ring for each
/// peer.
const PEER_KIB: &[&str] = &["8", "256"];
const PEER_WITH_RING_KIB: &[&str] = &["64", "256"];

const MODES: &[Mode] = &[
    Mode {
        name: "fabric, remote writes",
        devices: DEVICES,
        settings: &[FABRIC, PROVIDER, PEERS],
        writes: None,
        thorough: true,
    },
    Mode {
        name: "fabric, packets only",
        devices: DEVICES,
        settings: &[FABRIC, PROVIDER, PEERS, ("WEFT_FABRIC_PLACEMENT", "0")],
        writes: None,
        thorough: false,
    },
    // iWARP has no datagrams.
    Mode {
        name: "fabric, datagrams",
        devices: &[Device::Rxe],
        settings: &[FABRIC, ("WEFT_FABRIC_PROVIDER", "verbs")],
        writes: None,
        thorough: false,
    },
    Mode { name: "verbs, auto", devices: DEVICES, settings: &[VERBS], writes: Some(&["any"]), thorough: true },
    Mode {
        name: "verbs, rdma",
        devices: DEVICES,
        settings: &[VERBS, ("WEFT_VERBS_MODE", "rdma")],
        writes: Some(&["yes"]),
        thorough: true,
    },
    Mode {
        name: "verbs, sendrecv",
        devices: DEVICES,
        settings: &[VERBS, ("WEFT_VERBS_MODE", "sendrecv")],
        writes: Some(&["no"]),
        thorough: false,
    },
    Mode {
        name: "verbs, one-sided",
        devices: DEVICES,
        settings: &[VERBS, ("WEFT_VERBS_MODE", "one-sided")],
        writes: Some(&["no"]),
        thorough: false,
    },
];

/// The line of MPICH that names the provider.
const MPICH_PROVIDER: &str = "libfabric provider: verbs;ofi_rxm";

/// Programs of `tests/c` with their ranks and arguments.
const PROGRAMS: &[(&str, u32, &[&str])] = &[
    ("point_to_point", 2, &[]),
    ("requests", 2, &[]),
    ("probe", 2, &[]),
    ("sizes", 2, &[]),
    ("collectives", 4, &[]),
    ("operations", 2, &[]),
    ("windows", 2, &["101", "5", "262144"]),
    ("window_oracles", 2, &["101", "5", "262144"]),
    ("window_access", 2, &[]),
    ("window_epochs", 2, &[]),
    ("window_passive", 2, &[]),
];
/// The modules of mpi4py about messages between two ranks, and about windows.
const MPI4PY: [(&str, &str); 2] = [("point-to-point", "^test_p2p"), ("windows", "^test_(win|rma|rma_nb)\\.py$")];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    all()
}

fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for &device in DEVICES {
        cases.push(bare(device));
        cases.push(promises::case(device));
        cases.push(mpich(device));
        for mode in MODES.iter().filter(|mode| mode.devices.contains(&device)) {
            for &(program, ranks, words) in PROGRAMS {
                cases.push(on_guests(device, *mode, 2, program, ranks, words));
            }
        }
        for mode in MODES {
            if let Some(writes) = mode.writes {
                cases.push(on_guests(device, *mode, 2, "fast_path", 2, writes));
            }
        }
        // Where the device reports a write when it has left, a read behind it shows that it is in place.
        let reads: &[&str] = if device == Device::Siw { &["1"] } else { &["0"] };
        if let Some(mode) = MODES.iter().find(|mode| mode.name == "verbs, one-sided") {
            cases.push(on_guests(device, *mode, 2, "remote_access", 2, reads));
        }
        // Cases of registered memory that is no longer there: in the mode of all operations, and where no
        // registration may be used again.
        for (mode, setting, kept) in KEPT {
            cases.push(registration_cache(device, mode, setting, kept));
        }
        cases.extend(multicast::cases(device));
        cases.extend(peers_of_many(device));
        cases.push(peers::mpi4py_build(&format!("{}: mpi4py is built for it", device.name())));
        for mode in MODES.iter().filter(|mode| mode.thorough) {
            cases.push(on_guests(device, *mode, 4, "collectives", 4, &[]));
            for (what, pattern) in MPI4PY {
                cases.push(mpi4py(device, *mode, what, pattern));
            }
            cases.push(doctor(device, *mode));
            cases.push(info(device, *mode));
            cases.extend(failures(device, *mode));
        }
    }
    cases.extend(rails::cases());
    cases
}

/// The settings of kept registrations: the case's words, the setting, and the program's argument.
const KEPT: [(&str, &str, &str); 2] = [("kept", "16777216", "yes"), ("not kept", "0", "no")];

fn registration_cache(device: Device, what: &str, bytes: &'static str, expected: &'static str) -> Case {
    let name = format!("{}, verbs, auto: registration_cache, registrations are {what}", device.name());
    Case::new(name, move |context| {
        let settings = [VERBS, ("WEFT_REGISTRATION_CACHE", bytes)];
        let run = |guests: &Guests| {
            start_program(context, guests, &settings, 2, &[], "registration_cache", &[expected])?.finish(LIMIT)
        };
        on(context, device, 2, &Expected::code(0), run)
    })
}

/// The names of the cases that `make test` runs: each carrier and each operation on one of the devices, and
/// the death of a rank.
const SELECTED: &[&str] = &[
    "siw: rping of rdma-core",
    "siw: the device keeps what carriers promise",
    "siw, fabric, remote writes: point_to_point, 2 ranks on 2 guests",
    "siw, verbs, auto: point_to_point, 2 ranks on 2 guests",
    "siw, verbs, auto: window_passive, 2 ranks on 2 guests",
    "siw, verbs, rdma: fast_path, 2 ranks on 2 guests",
    "siw, verbs, sendrecv: fast_path, 2 ranks on 2 guests",
    "siw, verbs, one-sided: remote_access, 2 ranks on 2 guests",
    "siw, verbs, one connection at a time: many_peers, 4 ranks on 2 guests",
    "siw, verbs, auto: registration_cache, registrations are kept",
    "siw, verbs, auto: a rank is killed under traffic",
    "rxe, verbs, auto: point_to_point, 2 ranks on 2 guests",
    "rxe, verbs, rdma: fast_path, 2 ranks on 2 guests",
    "rxe, verbs, one-sided: remote_access, 2 ranks on 2 guests",
    "rxe, multicast: interleaved, each guest loses 5%",
];

pub(crate) fn selection(_: &Context) -> Vec<Case> {
    all().into_iter().filter(|case| SELECTED.contains(&case.name())).collect()
}

/// A case without MPI: the device carries a ping-pong, and its connection manager makes a connection.
fn bare(device: Device) -> Case {
    // The client may come before the server listens, and a request that is lost is not repeated.
    let script = "agent=${WEFT_AGENT%% {host\\}}; \
                  $agent node2 sh -c 'until timeout 20 rping -s -C 3 -v; do sleep 0.1; done' & \
                  until timeout 10 rping -c -a 192.0.2.2 -C 3 -v; do sleep 0.2; done; wait && echo connected";
    Case::new(format!("{}: rping of rdma-core", device.name()), move |context| {
        let run = |guests: &Guests| start(context, guests, 1, &[], &["sh", "-c", script])?.finish(LIMIT);
        on(context, device, 2, &Expected::code(0).says("connected"), run)
    })
}

/// A case of MPICH over the same device, by its own libfabric: a failure that it shares is not Weft's alone.
fn mpich(device: Device) -> Case {
    Case::new(format!("{}: MPICH's program and library under Weft's mpiexec, 2 ranks", device.name()), move |context| {
        let run = |guests: &Guests| {
            let program = peers::theirs(context)?.to_string_lossy().into_owned();
            // MPICH prints the provider that it uses.
            let settings =
                [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", PROVIDER.1), PEERS, ("MPIR_CVAR_DEBUG_SUMMARY", "1")];
            let words = mpiexec(context, guests, 2).into_iter().chain([program]);
            guests.start(1, &context.work, &variables(&settings), words)?.finish(LIMIT)
        };
        on(context, device, 2, &Expected::code(0).says(MPICH_PROVIDER).says("(right) on MPICH"), run)
    })
}

fn on_guests(
    device: Device,
    mode: Mode,
    count: u32,
    program: &'static str,
    ranks: u32,
    words: &'static [&'static str],
) -> Case {
    let name = format!("{}, {}: {program}, {ranks} ranks on {count} guests", device.name(), mode.name);
    Case::new(name, move |context| {
        let run =
            |guests: &Guests| start_program(context, guests, mode.settings, ranks, &[], program, words)?.finish(LIMIT);
        on(context, device, count, &Expected::code(0), run)
    })
}

fn mpi4py(device: Device, mode: Mode, what: &str, pattern: &'static str) -> Case {
    Case::new(format!("{}, {}: mpi4py's tests of {what}, 2 ranks", device.name(), mode.name), move |context| {
        let run = |guests: &Guests| {
            let (directory, words) = peers::test_words(context, 2, &["-i", pattern])?;
            let mut variables = variables(mode.settings);
            variables.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
            let words: Vec<String> = mpiexec(context, guests, 2).into_iter().chain(words).collect();
            guests.start(1, &directory, &variables, words)?.finish(MPI4PY_LIMIT)
        };
        on(context, device, 2, &Expected::code(0).says("OK").never_says("FAILED ("), run)
    })
}

/// Cases in which all ranks talk to all others by the device. With few connections, each new one closes
/// another. With a connection for each peer, each peer may take only a bounded amount of registered memory.
fn peers_of_many(device: Device) -> Vec<Case> {
    let mode = |name, settings| Mode { name, devices: DEVICES, settings, writes: None, thorough: false };
    let one = mode("verbs, one connection at a time", &[DEVICE_ONLY, ("WEFT_VERBS_CONNECTIONS", "1")]);
    let two = mode("verbs, two connections at a time", &[DEVICE_ONLY, ("WEFT_VERBS_CONNECTIONS", "2")]);
    let sent = mode("verbs, sendrecv, the device only", &[DEVICE_ONLY, ("WEFT_VERBS_MODE", "sendrecv")]);
    let rings = mode("verbs, rdma, the device only", &[DEVICE_ONLY, ("WEFT_VERBS_MODE", "rdma")]);
    let of = |mode, ranks, words| on_guests(device, mode, 2, "many_peers", ranks, words);
    vec![of(one, 4, &[]), of(two, 4, &[]), of(sent, 12, PEER_KIB), of(rings, 12, PEER_WITH_RING_KIB)]
}

/// A case in which `weft doctor` between the guests finds that packets of all sizes get through.
fn doctor(device: Device, mode: Mode) -> Case {
    Case::new(format!("{}, {}: weft doctor", device.name(), mode.name), move |context| {
        let run = |guests: &Guests| {
            let program = context.bin("weft").to_string_lossy().into_owned();
            start(context, guests, 1, mode.settings, &[&program, "doctor", "node1", "node2"])?.finish(LIMIT)
        };
        on(context, device, 2, &Expected::code(0).says("packets of 64 and").says(" 0 faults"), run)
    })
}

/// A case in which the page of `weft info` shows how messages travel over the device.
fn info(device: Device, mode: Mode) -> Case {
    Case::new(format!("{}, {}: weft info", device.name(), mode.name), move |context| {
        let run = |guests: &Guests| {
            let program = context.bin("weft").to_string_lossy().into_owned();
            start(context, guests, 1, mode.settings, &[&program, "info"])?.finish(LIMIT)
        };
        let expected = Expected::code(0).never_says("no link leads there");
        let expected = match mode.settings.contains(&VERBS) {
            true => expected
                .says("up to 20 KiB     eager: the RDMA device")
                .says("written to where it belongs by the RDMA device"),
            false => expected.says("eager: libfabric"),
        };
        on(context, device, 2, &expected, run)
    })
}

/// The cases of failures under a job: the error must name peer and cause, and no rank may hang.
fn failures(device: Device, mode: Mode) -> Vec<Case> {
    let case = |what: &str, run: Breaking, expected: Expected| {
        Case::new(format!("{}, {}: {what}", device.name(), mode.name), move |context| {
            let settings: Vec<_> = mode.settings.iter().copied().chain([("WEFT_PEER_TIMEOUT", PEER_TIMEOUT)]).collect();
            let outcome = on(context, device, 2, &expected, |guests| run(context, guests, &settings));
            // The guests' network or device has changed.
            context.turn_guests_off();
            outcome
        })
    };
    let names_the_peer = || Expected::failure().says("of the job, on host");
    let mut cases = vec![
        case("a first message after a while", nothing_breaks, Expected::code(0).says("there and back")),
        case("a link goes down under traffic", link_down, names_the_peer()),
        case("a machine dies under traffic", machine_dies, names_the_peer()),
        case("a rank is killed under traffic", rank_killed, Expected::code(128 + 9).says("died by signal 9")),
        case("a device is gone before the first connection", device_gone, names_the_peer()),
        case("no memory may be locked", little_locked, Expected::failure().says("may lock 64 KiB here (`ulimit -l`)")),
        case("locked memory is exhausted by endpoints", exhausted, names_the_peer()),
    ];
    // Packets of RoCE are no packets of the guest's own: its routes let them pass, and its ports are not
    // those of TCP.
    if device == Device::Siw {
        cases.push(case("most ports belong to others", ports_taken, Expected::code(0)));
        cases.push(case("a connection is refused", refused, names_the_peer()));
    }
    cases
}

type Settings<'a> = &'a [(&'a str, &'a str)];
/// A job during which something breaks.
type Breaking = fn(&Context, &Guests, Settings<'_>) -> anyhow::Result<Finished>;

fn nothing_breaks(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    late(context, guests, settings, |_| Ok(()))
}

fn device_gone(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    late(context, guests, settings, |guests| {
        let device = format!("{}0", guests.device().name());
        do_on(context, guests, 2, &["rdma", "link", "delete", &device])
    })
}

/// Makes the first guest's kernel refuse all packets to the second one.
fn refused(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    late(context, guests, settings, |guests| {
        do_on(context, guests, 1, &["busybox", "ip", "route", "add", "prohibit", "192.0.2.2"])
    })
    .map(out_of_reach)
}

/// Gives TCP three quarters of the ports from which the first guest's kernel chooses.
fn ports_taken(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    let take = "echo 40000 40063 >/proc/sys/net/ipv4/ip_local_port_range
        for port in $(seq 40000 40047); do busybox nc -l -p $port </dev/null >/dev/null 2>&1 & done
        until [ $(cat /proc/net/tcp /proc/net/tcp6 | grep -c ':9C[4-6][0-9A-F] [0:]* 0A') -ge 48 ]; do sleep 0.1; done";
    do_on(context, guests, 1, &["sh", "-c", take])?;
    // The listeners stay.
    start_program(context, guests, settings, 4, &[], "many_peers", &[])?.finish(LIMIT).map(out_of_reach)
}

/// Runs two ranks that begin to talk when something has happened.
fn late(
    context: &Context,
    guests: &Guests,
    settings: Settings<'_>,
    happens: impl FnOnce(&Guests) -> anyhow::Result<()>,
) -> anyhow::Result<Finished> {
    let file = format!("/dev/shm/begin-{}", guests.device().name());
    let session = start_program(context, guests, settings, 2, &[], "late", &[&file])?;
    if session.says("idle", START) {
        happens(guests)?;
        do_on(context, guests, 1, &["touch", &file])?;
    }
    session.finish(LIMIT)
}

fn link_down(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    under_traffic(context, guests, settings, |guests| {
        do_on(context, guests, 2, &["busybox", "ip", "link", "set", "eth0", "down"])
    })
    .map(out_of_reach)
}

/// Removes the leftovers from a result: this guest cannot reach the processes on the other guest. The agent
/// there ends them after it has heard nothing for long enough.
fn out_of_reach(finished: Finished) -> Finished {
    Finished { leftovers: Vec::new(), ..finished }
}

fn machine_dies(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    under_traffic(context, guests, settings, |guests| guests.turn_off(2))
}

fn rank_killed(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    under_traffic(context, guests, settings, |guests| {
        do_on(context, guests, 2, &["busybox", "killall", "-KILL", "rails"])
    })
}

fn under_traffic(
    context: &Context,
    guests: &Guests,
    settings: Settings<'_>,
    happens: impl FnOnce(&Guests) -> anyhow::Result<()>,
) -> anyhow::Result<Finished> {
    let session = start_program(context, guests, settings, 2, &[], "rails", &["small", TRAFFIC_SECONDS])?;
    if session.says("under way", START) {
        happens(guests)?;
    }
    session.finish(LIMIT)
}

fn little_locked(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    with_locked(context, guests, settings, LOCKED_KIB)
}

fn exhausted(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    let kib = if settings.contains(&VERBS) { LOCKED_BY_VERBS_KIB } else { LOCKED_BY_FABRIC_KIB };
    with_locked(context, guests, settings, kib)
}

/// Runs a program whose ranks may lock `kib` KiB of memory.
fn with_locked(context: &Context, guests: &Guests, settings: Settings<'_>, kib: &str) -> anyhow::Result<Finished> {
    let limited = format!("ulimit -l {kib}; exec \"$0\" \"$@\"");
    let before: Vec<&str> = WITHOUT_PRIVILEGE.into_iter().chain(["sh", "-c", &limited]).collect();
    start_program(context, guests, settings, 2, &before, "sizes", &[])?.finish(LIMIT)
}

/// Makes a run on `count` guests with this device; if the guests answer no longer, they are turned off.
fn on(
    context: &Context,
    device: Device,
    count: u32,
    expected: &Expected,
    run: impl FnOnce(&Guests) -> anyhow::Result<Finished>,
) -> Outcome {
    on_like(context, (device, count, Machine::default()), expected, run)
}

/// Makes a run on guests with other hardware.
fn on_like(
    context: &Context,
    (device, count, machine): (Device, u32, Machine),
    expected: &Expected,
    run: impl FnOnce(&Guests) -> anyhow::Result<Finished>,
) -> Outcome {
    if let Some(why) = guests::missing() {
        return Outcome::Skipped(why);
    }
    let finished = context.guests(device, count, machine).and_then(|guests| run(&guests));
    if finished.is_err() {
        context.turn_guests_off();
    }
    expected.judge(finished)
}

/// The command `mpiexec -n RANKS`, with the same number of ranks on each guest.
fn mpiexec(context: &Context, guests: &Guests, ranks: u32) -> Vec<String> {
    let per_guest = ranks.div_ceil(guests.count()).to_string();
    let hosts: Vec<String> = (1..=guests.count()).map(|node| format!("node{node}")).collect();
    let program = context.bin("mpiexec").to_string_lossy().into_owned();
    let words = [program.as_str(), "-n", &ranks.to_string(), "-ppn", &per_guest, "--hosts", &hosts.join(",")];
    words.map(str::to_owned).to_vec()
}

/// Starts a program of `tests/c` under `mpiexec`, with other words in front of it.
fn start_program<'guests>(
    context: &Context,
    guests: &'guests Guests,
    settings: Settings<'_>,
    ranks: u32,
    before: &[&str],
    program: &str,
    words: &[&str],
) -> anyhow::Result<Session<'guests>> {
    let program = context.compile(&format!("tests/c/{program}.c"))?.to_string_lossy().into_owned();
    let line = mpiexec(context, guests, ranks).into_iter().chain(before.iter().map(|word| (*word).to_owned()));
    let line = line.chain([program]).chain(words.iter().map(|word| (*word).to_owned()));
    guests.start(1, &context.work, &variables(settings), line)
}

fn variables(settings: Settings<'_>) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn start<'guests>(
    context: &Context,
    guests: &'guests Guests,
    node: u32,
    settings: Settings<'_>,
    words: &[&str],
) -> anyhow::Result<Session<'guests>> {
    guests.start(node, &context.work, &variables(settings), words)
}

/// Runs a command on one guest.
///
/// # Errors
/// The command fails.
fn do_on(context: &Context, guests: &Guests, node: u32, words: &[&str]) -> anyhow::Result<()> {
    let finished = start(context, guests, node, &[], words)?.finish_alone(START)?;
    anyhow::ensure!(finished.code == Some(0), "{} failed on node{node}:\n{}", words.join(" "), finished.report());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_selected_is_there_once() {
        let names: Vec<String> = all().iter().map(|case| case.name().to_owned()).collect();
        for selected in SELECTED {
            assert_eq!(names.iter().filter(|name| name == selected).count(), 1, "{selected}");
        }
    }
}
