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
        Case::new(
            "copies that are believed to cost something else: no message waits for a rank outside of MPI",
            outside,
        ),
        Case::new("costs that an earlier job kept are believed, and mended if copies take another time", mended_costs),
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

/// Writes costs, a text for each name, to files of these names with `.costs` in the suite's directory.
fn write_costs(context: &Context, costs: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, text) in costs {
        std::fs::write(context.work.join(format!("{name}.costs")), text)?;
    }
    Ok(())
}

/// Lets a rank of each pair wait outside of MPI for what the other one does behind its message. By one set of
/// costs the kernel copies nearly for nothing, by the other a ring whose two ends copy at the same time.
/// Expect: the messages go on without that rank.
fn outside(context: &Context) -> Outcome {
    const COSTS: [(&str, &str); 2] = [
        ("quick-kernel", "kernel_copy_ps 0\nkernel_copy_per_byte_ps 1\nring_in_turn_per_byte_ps 900\n"),
        ("quick-ring", "ring_near_per_byte_ps 1\nring_far_per_byte_ps 1\n"),
    ];
    for (name, _) in COSTS {
        for ranks in [2, 4, 8] {
            let attempt = || {
                write_costs(context, &COSTS)?;
                let costs = context.work.join(format!("{name}.costs"));
                let run = context.mpiexec(ranks).arg(context.compile("tests/c/outside.c")?);
                run.env("WEFT_COSTS", &costs).limit(END).finish()
            };
            let outcome = Expected::code(0).judge(attempt());
            if !matches!(outcome, Outcome::Passed) {
                return outcome;
            }
        }
    }
    Outcome::Passed
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
        write_costs(context, &COSTS)?;
        let here = context.work.display();
        let script = format!(
            "[ $((PMI_RANK % 2)) = 0 ] && c=kernel || c=ring; WEFT_COSTS={here}/$c.costs exec {}",
            context.compile("tests/c/sizes.c")?.display()
        );
        context.mpiexec(3).args(["sh", "-c", &script]).limit(END).finish()
    };
    Expected::code(0).judge(attempt())
}

/// Lets a job find kept costs by which a copy by the kernel takes milliseconds.   Expect: `weft info` shows
/// them and their file. The job sends its messages, and leaves costs by which copies are quicker.
fn mended_costs(context: &Context) -> Outcome {
    let attempt = || {
        let directory = context.work.join("kept-costs");
        std::fs::create_dir_all(&directory)?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let file = directory.join(format!("weft.costs.{}", rustix::process::geteuid().as_raw()));
        let version = Run::new(context.bin("weft")).arg("-V").finish()?.output;
        let head = format!("# {}, boot {}", version.trim(), boot.trim());
        std::fs::write(&file, format!("{head}\nkernel_copy_ps 9876543210\nkernel_copy_per_byte_ps 54321\n"))?;
        let said = Run::new(context.bin("weft")).args(["info", "--json"]).env("WEFT_SHM_DIR", &directory).finish()?;
        let origin = format!("measured as a job started, {}", file.display());
        anyhow::ensure!(said.output.contains(&origin), "{origin:?} is not in\n{}", said.report());
        anyhow::ensure!(said.output.contains("9876543210"), "the costs of the file are not in\n{}", said.report());
        let program = context.compile("tests/c/kept_costs.c")?;
        let finished = context.mpiexec(2).arg(program).env("WEFT_SHM_DIR", &directory).limit(END).finish()?;
        if !said.output.contains("\"allowed\": true") {
            return Ok(Err(finished));
        }
        let kept = std::fs::read_to_string(&file)?;
        let is_mended = kept.contains(&head) && kept.contains("kernel_copy_ps") && !kept.contains("9876543210");
        anyhow::ensure!(finished.code != Some(0) || is_mended, "the costs were not mended:\n{kept}");
        Ok(Ok(finished))
    };
    match attempt() {
        Ok(Ok(finished)) => Expected::code(0).judge(Ok(finished)),
        Ok(Err(_)) => Outcome::Skipped("this machine does not let processes copy from each other".into()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
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
