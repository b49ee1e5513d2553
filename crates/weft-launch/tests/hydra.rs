//! Tests a program of Weft under MPICH's launcher.

mod common;

use common::{Run, peer};
use std::process::Command;

#[test]
#[ignore = "needs Hydra: WEFT_TEST_HYDRA names its mpiexec"]
fn our_client_joins_a_job_of_hydra() {
    let mpiexec = std::env::var("WEFT_TEST_HYDRA").expect("WEFT_TEST_HYDRA names Hydra's mpiexec");
    for options in [&["-n", "3"][..], &["-pmi-port", "-n", "3"]] {
        let mut command = Command::new(&mpiexec);
        command.args(options).args([&peer(), "meet", "done"]);
        let outcome = Run::start(command, b"").wait().expect(0);
        assert_eq!(outcome.out.matches("of 3 met all, locals Some([0, 1, 2])").count(), 3, "{outcome:?}");
    }
}
