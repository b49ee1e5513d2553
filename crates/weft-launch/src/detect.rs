//! Which launcher started this process, judged by its environment variables.

use crate::LaunchError;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No launcher: a singleton.
    Nothing,
    /// PMI-1.1 over an inherited descriptor.
    Descriptor { fd: i32, rank: u32, size: u32 },
    /// PMI-1.1 over a connection that this process makes.
    Port { address: String, id: String },
}

/// Looks at the environment through `variable`.
///
/// # Errors
/// A job of several tasks without PMI-1.1: never run as that many silent singletons.
pub(crate) fn look(variable: &dyn Fn(&str) -> Option<String>) -> Result<Found, LaunchError> {
    let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(fd) = filled("PMI_FD") {
        let fd = number("PMI_FD", &fd)?;
        let required = |name: &str| match filled(name) {
            Some(value) => number::<u32>(name, &value),
            None => Err(LaunchError::Environment(format!("PMI_FD is set but {name} is not"))),
        };
        let (rank, size) = (required("PMI_RANK")?, required("PMI_SIZE")?);
        if rank >= size {
            return Err(LaunchError::Environment(format!("PMI_RANK={rank} is not below PMI_SIZE={size}")));
        }
        return Ok(Found::Descriptor { fd, rank, size });
    }
    if let (Some(address), Some(id)) = (filled("PMI_PORT"), filled("PMI_ID")) {
        return Ok(Found::Port { address, id });
    }
    let count = |name: &str| filled(name).and_then(|value| value.parse::<u64>().ok());
    no_singletons(&filled, &count).map(|()| Found::Nothing)
}

/// Refuses jobs of several tasks whose launcher cannot introduce them to each other.
fn no_singletons(
    filled: &dyn Fn(&str) -> Option<String>,
    count: &dyn Fn(&str) -> Option<u64>,
) -> Result<(), LaunchError> {
    // A batch script is not a task of a step; Slurm gives it SLURM_PROCID=0 and the tasks of the whole job.
    let in_batch_script = filled("ENVIRONMENT").as_deref() == Some("BATCH");
    let slurm_tasks = match (count("SLURM_STEP_NUM_TASKS"), in_batch_script) {
        (Some(tasks), _) => Some(tasks),
        (None, true) => None,
        (None, false) => count("SLURM_NTASKS"),
    };
    let in_slurm_task = filled("SLURM_PROCID").is_some();
    let advice_mpiexec = "start the program with Weft's mpiexec";
    let advice_slurm = "type `srun --mpi=pmi2 …` or start the program with Weft's mpiexec";
    let several = |tasks: Option<u64>| tasks.filter(|&tasks| tasks > 1);
    if filled("PMIX_RANK").is_some() || filled("PMIX_NAMESPACE").is_some() {
        let known = count("OMPI_COMM_WORLD_SIZE").or(slurm_tasks);
        if let Some(tasks) = several(Some(known.unwrap_or(2))) {
            let (launcher, advice) = if in_slurm_task {
                ("Slurm's srun with PMIx", advice_slurm)
            } else {
                ("a PMIx launcher (Open MPI's mpirun or prterun)", advice_mpiexec)
            };
            return Err(LaunchError::NoProcessManager { launcher, tasks: known.map_or(0, |_| tasks), advice });
        }
        return Ok(());
    }
    if let Some(tasks) = several(count("OMPI_COMM_WORLD_SIZE")) {
        let launcher = "Open MPI's mpirun";
        return Err(LaunchError::NoProcessManager { launcher, tasks, advice: advice_mpiexec });
    }
    if let Some(tasks) = several(slurm_tasks).filter(|_| in_slurm_task) {
        return Err(LaunchError::NoProcessManager { launcher: "Slurm's srun", tasks, advice: advice_slurm });
    }
    if let Some(tasks) = several(count("PMI_SIZE")).filter(|_| filled("PMI_RANK").is_some()) {
        let launcher = "a launcher that sets PMI_RANK but not PMI_FD";
        return Err(LaunchError::NoProcessManager { launcher, tasks, advice: advice_mpiexec });
    }
    Ok(())
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, LaunchError> {
    value.parse().map_err(|_| LaunchError::Environment(format!("{name}={value:?} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Found, LaunchError> {
        look(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn pmi1_is_preferred_to_everything() {
        let found = with(&[("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "3"), ("SLURM_PROCID", "1")]);
        assert_eq!(found, Ok(Found::Descriptor { fd: 7, rank: 1, size: 3 }));
        let found = with(&[("PMI_PORT", "10.0.0.1:99"), ("PMI_ID", "4")]);
        assert_eq!(found, Ok(Found::Port { address: "10.0.0.1:99".into(), id: "4".into() }));
    }

    #[test]
    fn nonsense_is_named() {
        for variables in [
            &[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")][..],
            &[("PMI_FD", "7"), ("PMI_RANK", "3"), ("PMI_SIZE", "3")],
            &[("PMI_FD", "7"), ("PMI_RANK", "0")],
        ] {
            assert!(matches!(with(variables), Err(LaunchError::Environment(text)) if text.contains("PMI_")));
        }
    }

    #[test]
    fn several_tasks_without_a_process_manager_are_refused() {
        let refused = |variables: &[(&str, &str)]| {
            let error = with(variables).expect_err("several tasks");
            assert!(matches!(error, LaunchError::NoProcessManager { .. }), "{error}");
            error.to_string()
        };
        assert!(refused(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]).contains("srun --mpi=pmi2"));
        assert!(
            refused(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("ENVIRONMENT", "BATCH")]).contains("4")
        );
        assert!(refused(&[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")]).contains("Open MPI"));
        assert!(refused(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x")]).contains("PMIx"));
        assert!(refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).contains("PMI_FD"));
    }

    #[test]
    fn a_single_task_and_a_batch_script_are_singletons() {
        for variables in [
            &[][..],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("ENVIRONMENT", "BATCH")],
            &[("SLURM_NTASKS", "8")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")],
        ] {
            assert_eq!(with(variables), Ok(Found::Nothing), "{variables:?}");
        }
    }
}
