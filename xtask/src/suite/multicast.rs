//! Broadcasts by multicast on four and eight virtual hosts, under hardship: each receiver loses packets of its own, stops for a while or for good.

use super::context::{Context, EXIT_NO_HOSTS, Expected, no_hosts};
use super::process::{Finished, Run};
use super::{Case, Outcome};

const LIMIT_SECONDS: u64 = 100;
/// Two levels of acknowledgements: each co-root looks after the others of its half.
const CO_ROOTS: &str = "coroot-2+aggregate-3";
/// Shares of packets that every receiver loses on its own, of what goes to all as well as of what goes to it alone.
const LOSSES: [&str; 3] = ["0.1%", "1%", "10%"];
/// What `hardship gone` ends with.
const HEARD: i32 = 42;

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for loss in LOSSES {
        for scheme in ["window", CO_ROOTS] {
            let name =
                |what: &str| format!("{what}, {scheme}, each of 4 hosts loses {loss}, with reordering and duplication");
            let faults = format!("drop={loss},reorder=2%,duplicate=1%,seed=3");
            let settings = move || vec![("WEFT_MULTICAST", scheme.to_owned()), ("WEFT_FAULTS", faults.clone())];
            let again = settings.clone();
            cases.push(Case::new(name("broadcasts"), move |context| {
                judge(&multicast(), on_hosts(context, 4, "multicast", &[], &settings()))
            }));
            cases.push(Case::new(name("interleaved"), move |context| {
                judge(&multicast(), on_hosts(context, 4, "hardship", &["interleaved"], &again()))
            }));
        }
    }
    for scheme in ["basic", "window", CO_ROOTS] {
        cases.push(Case::new(format!("a receiver is stopped for two seconds, {scheme}"), move |context| {
            judge(&multicast(), on_hosts(context, 4, "hardship", &["paused"], &[("WEFT_MULTICAST", scheme.to_owned())]))
        }));
        cases.push(Case::new(format!("a receiver or co-root is gone, {scheme}: the root is told"), move |context| {
            let settings = [("WEFT_MULTICAST", scheme.to_owned()), ("WEFT_PEER_TIMEOUT", "2".to_owned())];
            let expected = Expected::code(HEARD).says("rank 0 was told").says("WEFT_PEER_TIMEOUT");
            judge(&expected, on_hosts(context, 4, "hardship", &["gone"], &settings))
        }));
    }
    cases
}

/// That the broadcasts are right says nothing of how they came.
fn multicast() -> Expected {
    Expected::code(0).says("packets multicast: ")
}

/// Runs a program with one rank on each of so many virtual hosts.
fn on_hosts(
    context: &Context,
    count: u32,
    program: &str,
    words: &[&str],
    settings: &[(&str, String)],
) -> anyhow::Result<Finished> {
    let script =
        format!("exec \"$0\" -n {count} -ppn 1 --stats --hosts \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\" \"$@\"");
    let run =
        Run::new(context.bin("weft")).args(["hosts", "run", "--count", &count.to_string(), "--", "sh", "-c", &script]);
    let run = run.arg(context.bin("mpiexec")).arg(context.compile(&format!("tests/c/{program}.c"))?).args(words);
    let run = run.env("WEFT_BCAST", "multicast");
    settings.iter().fold(run, |run, (name, value)| run.env(name, value)).limit(LIMIT_SECONDS).finish()
}

fn judge(expected: &Expected, finished: anyhow::Result<Finished>) -> Outcome {
    match &finished {
        Ok(Finished { code: Some(EXIT_NO_HOSTS), output, .. }) => no_hosts(output),
        _ => expected.judge(finished),
    }
}
