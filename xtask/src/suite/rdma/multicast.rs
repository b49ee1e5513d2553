//! Tests of broadcasts by datagrams of a device, between guests. Over iWARP, which has no datagrams,
//! broadcasts go down trees.

use super::{Device, LIMIT, MODES, Mode, PEER_TIMEOUT, Settings, mpiexec, on, variables};
use crate::suite::Case;
use crate::suite::context::{Context, Expected};
use crate::suite::guests::Guests;
use crate::suite::process::Finished;

/// The schemes by which broadcasts are made reliable, one of each kind.
const SCHEMES: [(&str, &[(&str, &str)]); 4] = [
    ("broadcasts, auto", &[]),
    ("broadcasts, basic", &[("WEFT_BCAST", "basic")]),
    ("broadcasts, window", &[("WEFT_BCAST", "window")]),
    ("broadcasts, two levels", &[("WEFT_BCAST", CO_ROOTS)]),
];
/// The scheme of two levels of acknowledgements.
const CO_ROOTS: &str = "coroot-2+aggregate-3";
/// The faults at each receiver's datagrams; connections are spared.
const FAULTS: (&str, &str) = ("WEFT_FAULTS", "drop=5%,reorder=2%,duplicate=1%,corrupt=1%,seed=3");
/// The exit code of `hardship gone`.
const HEARD: i32 = 42;
/// The words of `mpiexec --stats` where packets were multicast: correct broadcasts do not show how they came.
const COUNTED: &str = "packets multicast: ";
/// The words of `mpiexec --stats` about acknowledgements that were written.
const WRITTEN_COUNTED: &str = "written-acknowledgements";

pub(super) fn cases(device: Device) -> Vec<Case> {
    let Some(mode) = MODES.iter().find(|mode| mode.name == "verbs, auto") else { return Vec::new() };
    let case = |what: &str, guests: u32, ranks: u32, words: &'static [&'static str], settings, expected| {
        case(device, *mode, what, (guests, ranks), words, settings, expected)
    };
    if device == Device::Siw {
        let trees = || Expected::code(0).never_says(COUNTED);
        return vec![
            case("asked for: trees", 4, 4, &["multicast"], &[("WEFT_BCAST", "window")], trees()),
            case("by table: trees", 3, 3, &["hardship", "stream", "200", "2000"], &[], trees()),
        ];
    }
    let counted = || Expected::code(0).says(COUNTED);
    let written = || counted().says(WRITTEN_COUNTED);
    let sent = || counted().never_says(WRITTEN_COUNTED);
    let schemes = SCHEMES.iter().map(|(what, settings)| case(what, 4, 4, &["multicast"], settings, counted()));
    let mut cases: Vec<Case> = schemes.collect();
    const LOSSY: &[(&str, &str)] = &[("WEFT_BCAST", "window"), FAULTS];
    const LOSSY_CO_ROOTS: &[(&str, &str)] = &[("WEFT_BCAST", CO_ROOTS), FAULTS];
    const GONE: &[(&str, &str)] = &[("WEFT_BCAST", "window"), ("WEFT_PEER_TIMEOUT", PEER_TIMEOUT)];
    const BARRIERS: &[(&str, &str)] = &[("WEFT_BARRIER", "multicast")];
    const OTHERS: &[(&str, &str)] = &[("WEFT_ALLREDUCE", "multicast"), ("WEFT_ALLGATHER", "multicast")];
    const WRITTEN: &[(&str, &str)] = &[("WEFT_BCAST", "written")];
    const WRITTEN_LOSSY: &[(&str, &str)] = &[("WEFT_BCAST", "written"), FAULTS];
    const WRITTEN_GONE: &[(&str, &str)] = &[("WEFT_BCAST", "written"), ("WEFT_PEER_TIMEOUT", PEER_TIMEOUT)];
    const NOT_WRITTEN: &[(&str, &str)] = &[("WEFT_BCAST", "written"), ("WEFT_VERBS_MODE", "sendrecv")];
    let told = || Expected::code(HEARD).says("rank 0 was told").says("MPI_ERR_PROC_ABORTED");
    cases.extend([
        case("interleaved, each guest loses 5%", 4, 4, &["hardship", "interleaved"], LOSSY, counted()),
        case("the same by two levels", 4, 4, &["hardship", "interleaved"], LOSSY_CO_ROOTS, counted()),
        case("a receiver is stopped for two seconds", 3, 3, &["hardship", "paused"], &[], counted()),
        case("a receiver is gone: the root is told", 3, 3, &["hardship", "gone"], GONE, told()),
        case("two ranks on each guest", 3, 6, &["hardship", "interleaved"], &[("WEFT_BCAST", "window")], counted()),
        // The program's own test of barriers compares clocks, and each guest has its own clock.
        case("barriers among broadcasts", 3, 3, &["hardship", "stream", "200", "2000"], BARRIERS, counted()),
        case("reductions", 3, 3, &["multicast_others", "allreduce"], OTHERS, counted()),
        case("allgather", 3, 3, &["multicast_others", "allgather"], OTHERS, counted()),
        case("acknowledgements are written", 4, 4, &["multicast"], WRITTEN, written()),
        case("the same, each guest loses 5%", 4, 4, &["hardship", "interleaved"], WRITTEN_LOSSY, written()),
        case("a receiver that writes is stopped for two seconds", 3, 3, &["hardship", "paused"], WRITTEN, written()),
        case("a receiver that writes is gone: the root is told", 3, 3, &["hardship", "gone"], WRITTEN_GONE, told()),
        case("without remote writes they are sent", 3, 3, &["hardship", "interleaved"], NOT_WRITTEN, sent()),
    ]);
    cases
}

fn case(
    device: Device,
    mode: Mode,
    what: &str,
    (guests, ranks): (u32, u32),
    words: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
    expected: Expected,
) -> Case {
    Case::new(format!("{}, multicast: {what}", device.name()), move |context| {
        let settings: Vec<_> = mode.settings.iter().chain(settings).copied().collect();
        let outcome = on(context, device, guests, &expected, |guests| run(context, guests, ranks, words, &settings));
        if settings.iter().any(|(name, _)| *name == "WEFT_PEER_TIMEOUT") {
            // A process that was stopped for good may be there still.
            context.turn_guests_off();
        }
        outcome
    })
}

fn run(
    context: &Context,
    guests: &Guests,
    ranks: u32,
    words: &[&str],
    settings: Settings<'_>,
) -> anyhow::Result<Finished> {
    let (program, words) = words.split_first().ok_or_else(|| anyhow::anyhow!("no program"))?;
    let program = context.compile(&format!("tests/c/{program}.c"))?.to_string_lossy().into_owned();
    let line = mpiexec(context, guests, ranks).into_iter().chain(["--stats".to_owned(), program]);
    let line = line.chain(words.iter().map(|word| (*word).to_owned()));
    guests.start(1, &context.work, &variables(settings), line)?.finish(LIMIT)
}
