//! Guests with two interfaces, each with an RDMA device: both carry what is large, and one that goes down is
//! missed by nobody but those whose packets it carried. And guests that have addresses of IPv6 only.

use super::{
    Breaking, DEVICES, LIMIT, PEER_TIMEOUT, START, Settings, VERBS, do_on, on_like, out_of_reach, start, start_program,
};
use crate::suite::Case;
use crate::suite::context::{Context, Expected};
use crate::suite::guests::{Device, Guests, Machine};
use crate::suite::process::Finished;

/// Two guests.
const COUNT: u32 = 2;
/// Packets of ranks 0 and 1 go by the first of two rails.
const FIRST_RAIL: (&str, &str) = ("WEFT_INTERFACE", "eth0,eth1");
/// The same when the other interface is the first one: the launcher's connections are on the one that stays.
const OTHER_FIRST: (&str, &str) = ("WEFT_INTERFACE", "eth1,eth0");
/// Messages of 1 MiB for so many seconds, ten of them at least.
const BULK: [&str; 2] = ["bulk", "3"];
/// … which are more than that on each of two rails.
const CARRIED_MIN: &str = "4000000";
/// Traffic that goes on for so many seconds after something breaks.
const BULK_LONG: [&str; 2] = ["bulk", "15"];
/// Only addresses that a link has by itself.
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
/// What is run by addresses of IPv6.
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

/// What the interfaces count, which knows nothing of ours.
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

/// Both devices are named by `weft info`, and by the doctor the addresses of both.
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
        // Their network is not what it was.
        context.turn_guests_off();
        outcome
    })
}

/// The second interface of one of the guests goes down while large messages are on their way to it.
fn interface_down(context: &Context, guests: &Guests, settings: Settings<'_>) -> anyhow::Result<Finished> {
    let session = start_program(context, guests, settings, 2, &[], "rails", &BULK_LONG)?;
    if session.says("under way", START) {
        do_on(context, guests, 2, &["busybox", "ip", "link", "set", "eth1", "down"])?;
    }
    session.finish(LIMIT).map(out_of_reach)
}
