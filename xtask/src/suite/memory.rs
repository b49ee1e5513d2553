//! Messages of one host where memory is short, or where the kernel lets no process copy from another.

use super::context::{Context, Expected};
use super::process::Run;
use super::{Case, Outcome};

const END: u64 = 60;
/// What `unshare` says when this user may not make mount namespaces.
const REFUSED: &str = "Operation not permitted";

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
    ]
}

/// All sizes of messages between 3 ranks, with so much memory in /dev/shm.
fn with_shm(context: &Context, size: &str, says: &'static str, variable: &str) -> Outcome {
    let attempt = || {
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs /dev/shm && exec env {variable} '{}' -n 3 '{}'",
            context.bin("mpiexec").display(),
            context.compile("tests/c/sizes.c")?.display()
        );
        Run::new("unshare").args(["--mount", "sh", "-c", &script]).limit(END).finish()
    };
    let finished = attempt();
    if finished.as_ref().is_ok_and(|finished| finished.output.contains(REFUSED)) {
        return Outcome::Skipped("no privilege to mount".into());
    }
    Expected::code(0).says(says).judge(finished)
}

fn refused(context: &Context) -> Outcome {
    let attempt = || {
        let (forbid, sizes) = (context.compile("tests/launcher/forbid.c")?, context.compile("tests/c/sizes.c")?);
        context.mpiexec(3).arg(forbid).arg(sizes).limit(END).finish()
    };
    Expected::code(0).says("refuses copies between ranks of this host").judge(attempt())
}
