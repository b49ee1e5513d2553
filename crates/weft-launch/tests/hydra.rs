//! Tests a program of Weft under the launchers of MPICH and of Open MPI.

mod common;

use common::{Run, peer};
use std::process::Command;

/// A job of two ranks under this launcher that spawns three processes of two programs.
fn spawns(mut launcher: Command) {
    let spawn = "0@spawn=env:=A=1 2 PEER parent env=A meet done + 1 PEER parent meet done".replace("PEER", &peer());
    launcher.args(["-n", "2"]).args([&peer(), "parent", "meet", &spawn, "barrier", "done"]);
    let outcome = Run::start(launcher, b"").wait().expect(0);
    assert_eq!(outcome.out.matches("parent None\n").count(), 2, "{outcome:?}");
    assert_eq!(outcome.out.matches("parent Some(\"the port\")\n").count(), 3, "{outcome:?}");
    assert_eq!(outcome.out.matches("of 3 met all").count(), 3, "{outcome:?}");
    assert_eq!(outcome.out.matches("appnum Some(1)").count(), 1, "{outcome:?}");
}

#[test]
#[ignore = "needs Hydra: WEFT_TEST_HYDRA names its mpiexec"]
fn ranks_of_hydra_spawn() {
    spawns(Command::new(std::env::var("WEFT_TEST_HYDRA").expect("WEFT_TEST_HYDRA names Hydra's mpiexec")));
}

#[test]
#[ignore = "needs Open MPI: WEFT_TEST_MPIRUN names its mpirun"]
fn ranks_of_a_pmix_launcher_spawn() {
    let mpirun = std::env::var("WEFT_TEST_MPIRUN").expect("WEFT_TEST_MPIRUN names Open MPI's mpirun");
    let mut command = Command::new(&mpirun);
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    command.args(["--map-by", ":OVERSUBSCRIBE"]);
    spawns(command);
    // A program that does not exist is an outcome.
    let mut command = Command::new(&mpirun);
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    let outcome = Run::start(
        {
            command.args(["-n", "1", &peer(), "spawn=2 /no/such", "done"]);
            command
        },
        b"",
    )
    .wait();
    assert!(outcome.out.contains("process 1: the launcher says PMIX_ERR_"), "{outcome:?}");
}

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
