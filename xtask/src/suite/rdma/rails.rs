//! Tests of guests with two interfaces, each with an RDMA device: both carry large messages. When one goes
//! down, only the peers whose packets it carried notice. Also tests of guests that have only IPv6 addresses.

use super::{
    Breaking, DEVICES, LIMIT, PEER_TIMEOUT, START, Settings, VERBS, do_on, on_like, out_of_reach, start, start_program,
};
use crate::suite::Case;
use crate::suite::context::{Context, Expected};
use crate::suite::guests::{Device, Guests, Machine};
use crate::suite::process::Finished;

/// The number of guests.
const COUNT: u32 = 2;
/// The setting by which packets of ranks 0 and 1 go by the first of two rails.
const FIRST_RAIL: (&str, &str) = ("WEFT_INTERFACE", "eth0,eth1");
/// The setting in which the other interface is the first one: the launcher's connections are on the one that
/// stays.
const OTHER_FIRST: (&str, &str) = ("WEFT_INTERFACE", "eth1,eth0");
/// The arguments for messages of 1 MiB for this number of seconds, at least ten messages.
const BULK: [&str; 2] = ["bulk", "3"];
/// The least number of bytes on each of two rails.
const CARRIED_MIN: &str = "4000000";
/// The arguments for traffic that goes on for this number of seconds after something breaks.
const BULK_LONG: [&str; 2] = ["bulk", "15"];
/// The setting that uses only addresses that a link has by itself.
const LINK_LOCAL: (&str, &str) = ("WEFT_INTERFACE", "fe80::/10");

/// Programs of `tests/c` with their arguments.
const PROGRAMS: &[(&str, u32, &[&str])] = &[
    ("point_to_point", 2, &[]),
    ("sizes", 2, &[]),
    ("collectives", 4, &[]),
    ("windows", 2, &["101", "5", "262144"]),
    ("window_oracles", 2, &["101", "5", "262144"]),
    ("window_passive", 2, &[]),
];
/// The programs that run by IPv6 addresses.
const PROGRAMS_V6: &[(&str, u32, &[&str])] =
    &[("point_to_point", 2, &[]), ("sizes", 2, &[]), ("collectives", 4, &[]), ("windows", 2, &["101", "5", "262144"])];

fn two_rails() -> Machine {
    Machine { interfaces: 2, ..Machine::default() }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &device in DEVICES {
        for &(program, ranks, words) in PROGRAMS {
            cases.push(program_on(device, two_rails(), "two rails", &[VERBS], (program, ranks, words)));
        }
        cases.push(both_carry(device));
        cases.push(told(device));
        let case = |what, settings, run, expected| breaking(device, what, settings, run, expected);
        let goes_on = Expected::code(0).says("under way");
        let what = "one goes down under traffic, and the job goes on";
        cases.push(case(what, &[VERBS, FIRST_RAIL], interface_down, goes_on));
        let what = "that of packets goes down under traffic";
        let answered = Expected::failure().says("of the job, on host");
        cases.push(case(what, &[VERBS, OTHER_FIRST], interface_down, answered));
        let v6 = Machine { is_v6: true, ..Machine::default() };
        for &(program, ranks, words) in PROGRAMS_V6 {
            cases.push(program_on(device, v6, "IPv6 only", &[VERBS], (program, ranks, words)));
        }
        let words = ("point_to_point", 2, &[][..]);
        cases.push(program_on(device, v6, "link-local addresses", &[VERBS, LINK_LOCAL], words));
        let both = Machine { is_v6: true, ..two_rails() };
        let words = ("sizes", 2, &[][..]);
        cases.push(program_on(device, both, "two rails, link-local addresses", &[VERBS, LINK_LOCAL], words));
    }
    cases
}

fn program_on(
    device: Device,
    machine: Machine,
    what: &str,
    settings: Settings<'static>,
    (program, ranks, words): (&'static str, u32, &'static [&'static str]),
) -> Case {
    Case::new(format!("{}, {what}: {program}", device.name()), move |context| {
        let run = |guests: &Guests| start_program(context, guests, settings, ranks, &[], program, words)?.finish(LIMIT);
        on_like(context, (device, COUNT, machine), &Expected::code(0), run)
    })
}

/// A case that reads the interfaces' own counters, which do not depend on Weft.
fn both_carry(device: Device) -> Case {
    Case::new(format!("{}, two rails: both carry bytes of large messages", device.name()), move |context| {
        let run = |guests: &Guests| {
            let program = context.compile("tests/c/rails.c")?.to_string_lossy().into_owned();
            let words = super::mpiexec(context, guests, 2).into_iter().chain([program]);
            let words: Vec<String> = words.chain(BULK.map(str::to_owned)).collect();
            let counts = "count() { cat /sys/class/net/eth$1/statistics/tx_bytes; }; zero=$(count 0); one=$(count 1); \"$@\" || exit; \
                for i in 0 1; do now=$(count $i); before=$([ $i = 0 ] && echo $zero || echo $one); \
                echo \"eth$i carried $((now - before)) bytes\"; [ $((now - before)) -ge $LEAST ] || exit 9; done; echo both carried";
            let script = format!("LEAST={CARRIED_MIN}; {counts}");
            let all: Vec<&str> =
                ["sh", "-c", &script, "sh"].into_iter().chain(words.iter().map(String::as_str)).collect();
            start(context, guests, 1, &[VERBS], &all)?.finish(LIMIT)
        };
        on_like(context, (device, COUNT, two_rails()), &Expected::code(0).says("both carried"), run)
    })
}

/// A case in which `weft info` names both devices, and the doctor the addresses of both.
fn told(device: Device) -> Case {
    Case::new(format!("{}, two rails: weft info and weft doctor name both", device.name()), move |context| {
        let run = |guests: &Guests| {
            let weft = context.bin("weft").to_string_lossy().into_owned();
            let script = format!("{weft} info && {weft} doctor node1 node2");
            start(context, guests, 1, &[VERBS], &["sh", "-c", &script])?.finish(LIMIT)
        };
        let (one, other) = match device {
            Device::Siw => ("by siw0 port 1", "and siw1 port 1"),
            Device::Rxe => ("by rxe0 port 1", "and rxe1 port 1"),
        };
        let expected = Expected::code(0).says(one).says(other).says("packets of 64 and").says(" 0 faults");
        on_like(context, (device, COUNT, two_rails()), &expected.says("and 198.51.100.2:"), run)
    })
}

fn breaking(
    device: Device,
    what: &'static str,
    settings: Settings<'static>,
    run: Breaking,
    expected: Expected,
) -> Case {
    Case::new(format!("{}, two rails: {what}", device.name()), move |context| {
        let settings: Vec<_> = settings.iter().copied().chain([("WEFT_PEER_TIMEOUT", PEER_TIMEOUT)]).collect();
        let outcome =
            on_like(context, (device, COUNT, two_rails()), &expected, |guests| run(context, guests, &settings));
        // The guests' network has changed.
        context.turn_guests_off();
        outcome
    })
}

/// Takes the second interface of one of the guests down while large messages are on their way to it.
fn interface_down(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    let session = start_program(context, guests, settings, 2, &[], "rails", &BULK_LONG)?;
    if session.says("under way", START) {
        do_on(context, guests, 2, &["busybox", "ip", "link", "set", "eth1", "down"])?;
    }
    session.finish(LIMIT).map(out_of_reach)
}
