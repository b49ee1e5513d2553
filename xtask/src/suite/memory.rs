//! Tests of messages of one host where memory is short, where the kernel forbids copies between processes,
//! and between containers.

use super::context::{Context, Expected};
use super::process::Run;
use super::{Case, Outcome};

const END: u64 = 60;
/// The words of `unshare` when this user may make no namespaces, and those of `mount`.
const REFUSED: [&str; 2] = ["unshare: unshare failed", "Operation not permitted"];
const NO_COPIES: &str = "refuses copies between ranks of this host";
const DIVIDED: &str = "ranks of this host cannot all share memory";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("/dev/shm has 1 MiB: smaller rings, said in a line", |context| {
            with_shm(context, "1m", "rings between local ranks have", "")
        }),
        Case::new("/dev/shm is full: another directory, said in a line", |context| {
            with_shm(context, "4k", "shared memory between local ranks is in", "")
        }),
        Case::new("the same, and no copies between processes", |context| {
            with_shm(context, "1m", "rings between local ranks have", "WEFT_SINGLE_COPY=0")
        }),
        Case::new("copies between processes are refused: said in a line", refused),
        Case::new("each rank in a user namespace of its own: no copies, said in a line", |context| {
            contained(context, "-n 3 unshare -r \"$SIZES\"", NO_COPIES)
        }),
        Case::new("two of three in user namespaces: some copies are refused, said in a line", |context| {
            contained(context, "-n 1 \"$SIZES\" : -n 2 unshare -r \"$SIZES\"", NO_COPIES)
        }),
        Case::new("a rank in a pid namespace of its own: over the network, said in a line", |context| {
            contained(context, "-n 2 \"$SIZES\" : -n 1 unshare --pid --fork \"$SIZES\"", DIVIDED)
        }),
        Case::new("a rank with a /dev/shm of its own: over the network, said in a line", |context| {
            let own = "sh -c 'mount -t tmpfs tmpfs /dev/shm && exec \"$SIZES\"'";
            contained(context, &format!("-n 1 unshare --mount {own} : -n 2 \"$SIZES\""), DIVIDED)
        }),
        Case::new("shared memory only, and none between two ranks: an error, no hang", divided),
        Case::new("copies that are believed to cost something else: the same messages", other_costs),
    ]
}

/// Sends messages of all sizes between 3 ranks, with `size` of memory in /dev/shm.
fn with_shm(context: &Context, size: &str, says: &'static str, variable: &str) -> Outcome {
    let attempt = || {
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs /dev/shm && exec env {variable} '{}' -n 3 '{}'",
            context.bin("mpiexec").display(),
            context.compile("tests/c/sizes.c")?.display()
        );
        as_root(&["unshare", "--mount", "sh", "-c", &script]).limit(END).finish()
    };
    let finished = attempt();
    if finished.as_ref().is_ok_and(|finished| REFUSED.iter().any(|text| finished.output.contains(text))) {
        return Outcome::Skipped("no privilege to mount".into());
    }
    Expected::code(0).says(says).judge(finished)
}

/// Sends messages of all sizes between ranks that choose protocols by costs of no real machine. By one set of
/// costs the kernel copies nearly for nothing, by the other a ring does; each rank believes one of the two.
fn other_costs(context: &Context) -> Outcome {
    const COSTS: [(&str, &str); 2] = [
        (
            "kernel",
            "kernel_copy_ps 0\nkernel_copy_per_byte_ps 1\ncooperative_copy_ps 100 # both sides\nring_in_turn_per_byte_ps 900\n",
        ),
        (
            "ring",
            "ring_in_turn_per_byte_ps 1\nring_near_per_byte_ps 0\nring_far_per_byte_ps 0\nring_answer_ps 0\nanswer_ps 1000\n",
        ),
    ];
    let attempt = || {
        for (name, text) in COSTS {
            std::fs::write(context.work.join(format!("{name}.costs")), text)?;
        }
        let here = context.work.display();
        let script = format!(
            "[ $((PMI_RANK % 2)) = 0 ] && c=kernel || c=ring; WEFT_COSTS={here}/$c.costs exec {}",
            context.compile("tests/c/sizes.c")?.display()
        );
        context.mpiexec(3).args(["sh", "-c", &script]).limit(END).finish()
    };
    Expected::code(0).judge(attempt())
}

/// Runs a command as root: an ordinary user is root in a user namespace.
fn as_root(command: &[&str]) -> Run {
    match rustix::process::geteuid().is_root() {
        true => Run::new(command[0]).args(&command[1..]),
        false => Run::new("unshare").arg("--map-root-user").args(command),
    }
}

fn refused(context: &Context) -> Outcome {
    let attempt = || {
        let (forbid, sizes) = (context.compile("tests/launcher/forbid.c")?, context.compile("tests/c/sizes.c")?);
        context.mpiexec(3).arg(forbid).arg(sizes).limit(END).finish()
    };
    Expected::code(0).says(NO_COPIES).judge(attempt())
}

/// Runs `$SIZES`, messages of all sizes, on one host by `mpiexec` with these arguments, which put some of the
/// ranks into containers.
fn contained(context: &Context, arguments: &str, says: &'static str) -> Outcome {
    let attempt = || {
        let script = format!("exec '{}' {arguments}", context.bin("mpiexec").display());
        let sizes = context.compile("tests/c/sizes.c")?.display().to_string();
        as_root(&["sh", "-c", &script]).env("SIZES", sizes).limit(END).finish()
    };
    let finished = attempt();
    if finished.as_ref().is_ok_and(|finished| finished.output.contains(REFUSED[0])) {
        return Outcome::Skipped("no privilege to make namespaces".into());
    }
    Expected::code(0).says(says).judge(finished)
}

fn divided(context: &Context) -> Outcome {
    let attempt = || {
        let program = context.compile("examples/hello.c")?;
        let node = |name: &str| format!("WEFT_NODE={name}");
        let first = context.mpiexec(1).arg("env").arg(node("a")).arg(&program);
        let both = first.args([":", "-n", "1", "env"]).arg(node("b")).arg(&program);
        both.env("WEFT_LINK", "shared").limit(END).finish()
    };
    Expected::failure().says("no link leads there: WEFT_LINK allows none that does").judge(attempt())
}
