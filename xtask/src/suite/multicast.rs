//! Tests of broadcasts and other operations by multicast on four and eight virtual hosts, under hardship:
//! each receiver loses packets of its own, or stops for a while or for good.

use super::context::{Context, EXIT_NO_HOSTS, Expected, no_hosts};
use super::process::{Finished, Run};
use super::{Case, Outcome};

const LIMIT_SECONDS: u64 = 100;
/// The scheme of two levels of acknowledgements: each co-root looks after the other receivers of its half.
const CO_ROOTS: &str = "coroot-2+aggregate-3";
/// The shares of packets that every receiver loses on its own, among packets to all as well as among packets
/// to it alone.
const LOSSES: [&str; 4] = ["0.1%", "1%", "5%", "10%"];
/// The exit code of `hardship gone`.
const HEARD: i32 = 42;

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for loss in LOSSES {
        for scheme in ["basic", "window", CO_ROOTS] {
            let name =
                |what: &str| format!("{what}, {scheme}, each of 4 hosts loses {loss}, with reordering and duplication");
            let faults = format!("drop={loss},reorder=2%,duplicate=1%,seed=3");
            let settings = move || vec![("WEFT_BCAST", scheme.to_owned()), ("WEFT_FAULTS", faults.clone())];
            let again = settings.clone();
            cases.push(Case::new(name("broadcasts"), move |context| {
                judge(&multicast(), on_hosts(context, 4, "multicast", &[], &settings()))
            }));
            cases.push(Case::new(name("interleaved"), move |context| {
                judge(&multicast(), on_hosts(context, 4, "hardship", &["interleaved"], &again()))
            }));
        }
    }
    others(&mut cases);
    for scheme in ["basic", "window", CO_ROOTS] {
        cases.push(Case::new(format!("a receiver is stopped for two seconds, {scheme}"), move |context| {
            judge(&multicast(), on_hosts(context, 4, "hardship", &["paused"], &[("WEFT_BCAST", scheme.to_owned())]))
        }));
        cases.push(Case::new(format!("a receiver or co-root is gone, {scheme}: the root is told"), move |context| {
            // A rank is told by its own timeout, or by another host whose timeout has given the broadcast up.
            let settings = [("WEFT_BCAST", scheme.to_owned()), ("WEFT_PEER_TIMEOUT", "2".to_owned())];
            let expected = Expected::code(HEARD).says("rank 0 was told").says("MPI_ERR_PROC_ABORTED");
            judge(&expected, on_hosts(context, 4, "hardship", &["gone"], &settings))
        }));
    }
    hardships_together(&mut cases);
    for hosts in [2, 8] {
        let name = format!("the root sends one frame for each broadcast to {hosts} hosts, counted by the bridge");
        cases.push(Case::new(name, move |context| frames_counted(context, hosts)));
    }
    cases.push(Case::new("a switch that filters multicast while it is in use: trees take over", |context| {
        // The program makes the file in the middle, and goes on when the file is gone.
        let file = context.work.join("multicast-filtered");
        let wait = format!("while kill -0 $job && ! [ -e '{0}' ]; do sleep 0.05; done", file.display());
        let script =
            format!("rm -f '{0}'; {SWITCH}; {RUN} & job=$!; {wait}; {FILTER}; rm '{0}'; wait $job", file.display());
        let expected = multicast().says("groups-given-up");
        let words = ["stream", "2500", "2000", &file.display().to_string()];
        judge(&expected, scripted(context, 4, &script, "hardship", &words, &[]))
    }));
    cases.push(Case::new("the same, of nonblocking and persistent broadcasts: the root sends to each", |context| {
        let file = context.work.join("multicast-filtered-nonblocking");
        let wait = format!("while kill -0 $job && ! [ -e '{0}' ]; do sleep 0.05; done", file.display());
        let script =
            format!("rm -f '{0}'; {SWITCH}; {RUN} & job=$!; {wait}; {FILTER}; rm '{0}'; wait $job", file.display());
        // The root sends a whole window of packets before a receiver can ask for the first one, and judges
        // by up to three requests. So several windows (1024 packets each) follow behind the filter.
        let words = ["nonblocking", "2000", "2000", &file.display().to_string()];
        judge(&multicast().says("messages-sent-to-each"), scripted(context, 4, &script, "hardship", &words, &[]))
    }));
    cases.push(Case::new("weft info --live tells of a running job that it multicasts", |context| {
        let file = context.work.join("multicast-shown");
        let wait = format!("while kill -0 $job && ! [ -e '{0}' ]; do sleep 0.05; done", file.display());
        let show = "\"$(dirname \"$0\")/weft\" info --live $job --once";
        let script = format!("rm -f '{0}'; {RUN} & job=$!; {wait}; {show}; rm '{0}'; wait $job", file.display());
        let words = ["stream", "400", "2000", &file.display().to_string()];
        let expected =
            multicast().says("multicast: the network carries it").says("MPI_COMM_WORLD, 4 hosts, aggregate-10: ");
        judge(&expected, scripted(context, 4, &script, "hardship", &words, &[]))
    }));
    cases.push(Case::new("a switch that filters multicast from the start: trees, without a word", |context| {
        let script = format!("{SWITCH}; {FILTER}; {RUN}");
        let expected = Expected::code(0).never_says("packets multicast: ");
        judge(&expected, scripted(context, 4, &script, "hardship", &["stream", "200", "2000"], &[]))
    }));
    for (what, querier) in [("with a querier", "1"), ("without a querier", "0")] {
        cases.push(Case::new(format!("a bridge with IGMP snooping, {what}"), move |context| {
            let snoop =
                format!("ip netns exec $switch ip link set br0 type bridge mcast_snooping 1 mcast_querier {querier}");
            let script = format!("{SWITCH}; {snoop}; {RUN}");
            // Hosts send reports of the groups that they join, so that multicast works either way as long as
            // the bridge remembers.
            judge(&multicast(), scripted(context, 4, &script, "multicast", &[], &[("WEFT_BCAST", "window".into())]))
        }));
    }
    carriers(&mut cases);
    cases.push(Case::new("by table, three hosts and more are reached by multicast", |context| {
        judge(&multicast(), on_hosts(context, 4, "hardship", &["stream", "200", "2000"], &[]))
    }));
    cases.push(Case::new("WEFT_BCAST=tree: nothing is multicast", |context| {
        let settings = [("WEFT_BCAST", "tree".to_owned())];
        let expected = Expected::code(0).never_says("packets multicast: ");
        judge(&expected, on_hosts(context, 4, "hardship", &["stream", "200", "2000"], &settings))
    }));
    cases.push(Case::new("the hint weft_bcast says it of one communicator", |context| {
        let settings = [("WEFT_BCAST", "tree".to_owned())];
        judge(&multicast(), on_hosts(context, 2, "hardship", &["hint", "coroot-1+aggregate-3"], &settings))
    }));
    cases
}

/// The cases of ranks that stop, for a while or for good, while the network loses packets; and of as many
/// hosts as there are.
fn hardships_together(cases: &mut Vec<Case>) {
    let lossy = ("WEFT_FAULTS", "drop=5%,reorder=2%,duplicate=1%,seed=3".to_owned());
    for scheme in ["window", CO_ROOTS] {
        let settings = vec![("WEFT_BCAST", scheme.to_owned()), lossy.clone()];
        let again = settings.clone();
        cases.push(Case::new(
            format!("a receiver is stopped for two seconds, {scheme}, each of 4 hosts loses 5%"),
            move |context| judge(&multicast(), on_hosts(context, 4, "hardship", &["paused"], &settings)),
        ));
        cases.push(Case::new(
            format!("a receiver or co-root is gone, {scheme}, each of 4 hosts loses 5%: the root is told"),
            move |context| {
                let timeout = ("WEFT_PEER_TIMEOUT", "2".to_owned());
                let settings: Vec<_> = again.iter().cloned().chain([timeout]).collect();
                let expected = Expected::code(HEARD).says("rank 0 was told").says("MPI_ERR_PROC_ABORTED");
                judge(&expected, on_hosts(context, 4, "hardship", &["gone"], &settings))
            },
        ));
    }
    for scheme in ["auto", CO_ROOTS] {
        let settings = vec![("WEFT_BCAST", scheme.to_owned()), lossy.clone()];
        cases.push(Case::new(format!("interleaved, {scheme}, each of 8 hosts loses 5%"), move |context| {
            judge(&multicast(), on_hosts(context, 8, "hardship", &["interleaved"], &settings))
        }));
    }
}

/// The cases of each way by which packets go to a group, alone; and of IPv6, behind bridges that snoop on
/// MLD.
fn carriers(cases: &mut Vec<Case>) {
    const WAYS: [(&str, &str); 3] = [
        ("UDP alone", "shared,udp"),
        ("frames alone", "shared,ethernet"),
        ("UDP, and frames received by AF_XDP", "auto,xdp"),
    ];
    for (what, links) in WAYS {
        cases.push(Case::new(format!("{what}: interleaved, each of 4 hosts loses 1%"), move |context| {
            let faults = ("WEFT_FAULTS", "drop=1%,reorder=2%,duplicate=1%,seed=3".to_owned());
            let settings = [("WEFT_BCAST", "window".to_owned()), ("WEFT_LINK", links.to_owned()), faults];
            judge(&multicast(), on_hosts(context, 4, "hardship", &["interleaved"], &settings))
        }));
    }
    for (what, querier) in [("with a querier", "1"), ("without a querier", "0")] {
        cases.push(Case::new(format!("IPv6: a bridge with MLD snooping, {what}"), move |context| {
            let snoop =
                format!("ip netns exec $switch ip link set br0 type bridge mcast_snooping 1 mcast_querier {querier}");
            let script = format!("{SWITCH}; {snoop}; {ONLY_IPV6}; {RUN}");
            let settings = [("WEFT_BCAST", "window".to_owned()), ("WEFT_LINK", "shared,udp".to_owned())];
            judge(&multicast(), scripted(context, 4, &script, "multicast", &[], &settings))
        }));
    }
}

/// The operations other than the broadcast that may be multicast: their settings, and the program's words for
/// them.
const OTHERS: [(&str, &str); 4] = [
    ("WEFT_BARRIER", "barrier"),
    ("WEFT_ALLREDUCE", "allreduce"),
    ("WEFT_ALLGATHER", "allgather"),
    // The agreement on a new communicator is a reduction.
    ("WEFT_ALLREDUCE", "duplicate"),
];

/// The settings that multicast all of [`OTHERS`].
fn all_of_them() -> Vec<(&'static str, String)> {
    OTHERS.map(|(setting, _)| (setting, "multicast".to_owned())).to_vec()
}

/// The cases of operations other than the broadcast.
fn others(cases: &mut Vec<Case>) {
    const PROGRAM: &str = "multicast_others";
    for (setting, word) in OTHERS {
        cases.push(Case::new(format!("{setting}=multicast alone: {word}"), move |context| {
            let settings = [(setting, "multicast".to_owned()), ("WEFT_BCAST", "tree".to_owned())];
            judge(&multicast(), on_hosts(context, 4, PROGRAM, &[word], &settings))
        }));
    }
    for loss in LOSSES {
        let name = format!("barriers, allreduce, allgather, new communicators: each of 4 hosts loses {loss}");
        cases.push(Case::new(name, move |context| {
            let faults = ("WEFT_FAULTS", format!("drop={loss},reorder=2%,duplicate=1%,seed=3"));
            let settings: Vec<_> = all_of_them().into_iter().chain([faults]).collect();
            judge(&multicast(), on_hosts(context, 4, PROGRAM, &["all"], &settings))
        }));
    }
    cases.push(Case::new("the same between 3 hosts with two ranks each", |context| {
        let run = RUN.replace("-n $count -ppn 1", "-n $((2 * count)) -ppn 2");
        judge(&multicast(), scripted(context, 3, &run, PROGRAM, &["all"], &all_of_them()))
    }));
    cases.push(Case::new("the same by table", |context| {
        judge(&multicast(), on_hosts(context, 4, PROGRAM, &["all"], &[]))
    }));
    cases.push(Case::new("a rank is gone in the middle of barriers and reductions: another one is told", |context| {
        let settings: Vec<_> = all_of_them().into_iter().chain([("WEFT_PEER_TIMEOUT", "2".to_owned())]).collect();
        let expected = Expected::code(HEARD).says("rank 0 was told").says("MPI_ERR_PROC_ABORTED");
        judge(&expected, on_hosts(context, 4, PROGRAM, &["gone"], &settings))
    }));
    cases.push(Case::new("a switch that filters multicast: they go by trees, without a word", |context| {
        let script = format!("{SWITCH}; {FILTER}; {RUN}");
        let expected = Expected::code(0).never_says("packets multicast: ");
        judge(&expected, scripted(context, 4, &script, PROGRAM, &["all"], &all_of_them()))
    }));
}

/// The script's variable with the namespace of the bridge between the hosts.
const SWITCH: &str = "first=${WEFT_HOSTS%%,*}; switch=${first%-0}-switch";
/// A command by which the bridge passes no packet to a multicast address on to the second host.
const FILTER: &str = "ip netns exec $switch ip link set p1-0 type bridge_slave mcast_flood off";
/// A command that takes the hosts' IPv4 addresses away, and gives them IPv6 addresses.
const ONLY_IPV6: &str = "number=1; for host in $(echo \"$WEFT_HOSTS\" | tr , ' '); do ip netns exec \"$host\" sh -c \
    \"ip -4 addr flush dev e0; echo 0 >/proc/sys/net/ipv6/conf/e0/disable_ipv6; ip -6 addr add fd77::$number/64 dev e0 nodad\" || exit 1; \
    number=$((number + 1)); done";
const RUN: &str = "\"$0\" -n $count -ppn 1 --stats --hosts \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\" \"$@\"";
/// The number of counted broadcasts, and the most multicast frames that hosts send by themselves: they join
/// groups, and ask for each other's addresses.
const COUNTED: u64 = 2000;
const FRAMES_OF_HOSTS: u64 = 100;

/// Checks that the root multicasts each broadcast once, with two hosts as with eight. The only other
/// multicast frames on the bridge are the root's questions which packets have arrived; it asks now and then
/// on a busy machine.
fn frames_counted(context: &Context, hosts: u32) -> anyhow::Result<Outcome> {
    let count = "ip netns exec $switch cat /sys/class/net/br0/statistics/multicast";
    let script = format!("{SWITCH}; before=$({count}); {RUN} || exit 1; echo frames $(($({count}) - before))");
    let settings = [("WEFT_BCAST", "window".to_owned())];
    let words = ["stream", &COUNTED.to_string(), "1000"];
    let finished = scripted(context, hosts, &script, "hardship", &words, &settings)?;
    let output = finished.output.clone();
    let frames = output.lines().find_map(|line| line.strip_prefix("frames ")?.parse::<u64>().ok()).unwrap_or(0);
    let [data, probes, repairs] = ["data", "probes", "sent-again-to-all"].map(|what| packets(&output, what));
    let most = COUNTED + probes + repairs + FRAMES_OF_HOSTS;
    match judge(&multicast().says("frames "), Ok(finished)) {
        Outcome::Passed if data != COUNTED || !(COUNTED..=most).contains(&frames) => Ok(Outcome::Failed(format!(
            "{COUNTED} broadcasts were {data} packets, and {frames} frames at the bridge\n{output}"
        ))),
        outcome => Ok(outcome),
    }
}

/// The number of packets of one kind in the line of `--stats` about multicast.
fn packets(output: &str, what: &str) -> u64 {
    let line = output.lines().find_map(|line| line.split_once("packets multicast: "));
    let kinds = line.map(|(_, kinds)| kinds.split(", ")).into_iter().flatten();
    let count = |kind: &str| kind.split_once(' ').filter(|(_, name)| *name == what)?.0.parse::<u64>().ok();
    kinds.filter_map(count).sum()
}

/// The expectation that broadcasts were multicast: correct contents do not show how they came.
fn multicast() -> Expected {
    Expected::code(0).says("packets multicast: ")
}

/// Runs a program with one rank on each of `count` virtual hosts.
pub(super) fn on_hosts(
    context: &Context,
    count: u32,
    program: &str,
    words: &[&str],
    settings: &[(&str, String)],
) -> anyhow::Result<Finished> {
    scripted(context, count, RUN, program, words, settings)
}

/// Runs a program within a script: `$count` hosts, and [`RUN`] in it.
fn scripted(
    context: &Context,
    count: u32,
    script: &str,
    program: &str,
    words: &[&str],
    settings: &[(&str, String)],
) -> anyhow::Result<Finished> {
    let script = format!("count={count}; {script}");
    let run =
        Run::new(context.bin("weft")).args(["hosts", "run", "--count", &count.to_string(), "--", "sh", "-c", &script]);
    let run = run.arg(context.bin("mpiexec")).arg(context.compile(&format!("tests/c/{program}.c"))?).args(words);
    settings.iter().fold(run, |run, (name, value)| run.env(name, value)).limit(LIMIT_SECONDS).finish()
}

pub(super) fn judge(expected: &Expected, finished: anyhow::Result<Finished>) -> Outcome {
    match &finished {
        Ok(Finished { code: Some(EXIT_NO_HOSTS), output, .. }) => no_hosts(output),
        _ => expected.judge(finished),
    }
}
