//! Finds the process manager that started this process, by its environment variables.

use super::ProcessManager;
use super::link::Link;
use super::pmi1::{Conversation, Pmi1};
use super::pmix::Pmix;
use super::singleton::Singleton;
use super::slurm::{ADVICE as ADVICE_SLURM, Slurm, Step};
use super::weft::Weft;
use crate::LaunchError;
use crate::processors::LOAD_VARIABLE;

/// A test for one kind of start. `None`: it is another kind, and the next candidate is asked. An error: it is
/// this kind, but it cannot be used.
type Candidate = fn(&Environment<'_>) -> Result<Option<Found>, LaunchError>;

/// All kinds of starts, the preferred ones first.
const CANDIDATES: [Candidate; 8] = [
    pmi1_descriptor,
    pmi1_port,
    weft_without_connection,
    pmix,
    open_mpi,
    slurm_step,
    pmi_rank_without_connection,
    singleton,
];

/// The process manager that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No process manager.
    Singleton,
    /// PMI-1.1 over an inherited descriptor.
    Descriptor { fd: i32, rank: u32, size: u32 },
    /// PMI-1.1 over a connection that this process makes.
    Port { address: String, id: String },
    /// PMIx, by the library of the launcher, which may have said where it is installed. A task that
    /// `is_alone` in its job can do without.
    Pmix { prefix: Option<String>, is_alone: bool },
    /// No process manager, but a step of Slurm whose tasks can find each other.
    SlurmStep(Step),
}

impl Found {
    /// Makes the connection.
    ///
    /// # Errors
    /// The connection cannot be made, or the other side does not speak what it should.
    pub(super) fn connect(self) -> Result<Box<dyn ProcessManager>, LaunchError> {
        let (link, rank, size) = match self {
            Self::Singleton => return Ok(Box::new(Singleton::new()?)),
            Self::Descriptor { fd, rank, size } => (Link::inherit(fd)?, rank, size),
            Self::Port { address, id } => Link::connect(&address, &id)?,
            Self::Pmix { prefix, is_alone } => match Pmix::connect(prefix.as_deref()) {
                Err(_) if is_alone => return Ok(Box::new(Singleton::new()?)),
                manager => return Ok(Box::new(manager?)),
            },
            Self::SlurmStep(step) => return Ok(Box::new(Slurm::join(&step)?)),
        };
        let (talk, is_weft) = Conversation::begin(link)?;
        Ok(match is_weft {
            true => Box::new(Weft::meet(talk, rank, size)?),
            false => Box::new(Pmi1::meet(talk, rank, size)?),
        })
    }
}

/// Returns the answer of the first candidate that has one.
///
/// # Errors
/// A job of several tasks whose process manager cannot be used. It never runs as so many silent singletons.
pub(super) fn look(variable: &dyn Fn(&str) -> Option<String>) -> Result<Found, LaunchError> {
    let environment = Environment { variable };
    for candidate in CANDIDATES {
        if let Some(found) = candidate(&environment)? {
            return Ok(found);
        }
    }
    unreachable!("a singleton is always possible")
}

/// The environment variables. An empty one counts as not set.
struct Environment<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Environment<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The number in a variable that must be set where `because` is set.
    fn required<T: std::str::FromStr>(&self, name: &str, because: &str) -> Result<T, LaunchError> {
        let missing = || LaunchError::Environment(format!("{because} is set but {name} is not"));
        let value = self.get(name).ok_or_else(missing)?;
        value.parse().map_err(|_| LaunchError::Environment(format!("{name}={value:?} is not a number")))
    }

    /// The number in a variable, if it holds one.
    fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The number of tasks that Slurm has started together with this one. A batch script is not a task of a
    /// step; Slurm gives it SLURM_PROCID=0 and the number of tasks of the whole job.
    fn slurm_tasks(&self) -> Option<u64> {
        let in_batch_script = self.get("ENVIRONMENT").as_deref() == Some("BATCH");
        let of_job = || self.count("SLURM_NTASKS").filter(|_| !in_batch_script);
        self.count("SLURM_STEP_NUM_TASKS").or_else(of_job)
    }
}

fn pmi1_descriptor(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    if !environment.has("PMI_FD") {
        return Ok(None);
    }
    let number = |name| environment.required::<u32>(name, "PMI_FD");
    let fd = environment.required("PMI_FD", "PMI_FD")?;
    let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
    if rank >= size {
        return Err(LaunchError::Environment(format!("PMI_RANK={rank} is not below PMI_SIZE={size}")));
    }
    Ok(Some(Found::Descriptor { fd, rank, size }))
}

fn pmi1_port(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    let port = environment.get("PMI_PORT").zip(environment.get("PMI_ID"));
    Ok(port.map(|(address, id)| Found::Port { address, id }))
}

const ADVICE_MPIEXEC: &str = "start the program with Weft's mpiexec";
const ADVICE_DESCRIPTOR: &str =
    "it did, but PMI_FD is gone from the environment: let the script that starts the program keep it";

/// Refuses a launcher with no interface that Weft speaks. A single task of it may be a singleton; several are
/// refused.
fn refuse(launcher: &'static str, tasks: Option<u64>, advice: &'static str) -> Result<Option<Found>, LaunchError> {
    match tasks {
        Some(tasks) if tasks > 1 => Err(LaunchError::NoProcessManager { launcher, tasks: Some(tasks), advice }),
        _ => Ok(None),
    }
}

/// The variables in which a PMIx server says where it listens, by the versions of clients that understand it.
const PMIX_SERVERS: [&str; 6] = [
    "PMIX_SERVER_URI41",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI",
];

/// Weft's `mpiexec` also sets the variables by which scripts know Open MPI and PMIx, but never a namespace. A
/// script that starts a rank without PMI_FD has removed it.
fn weft_without_connection(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    if !environment.has(LOAD_VARIABLE) || environment.has("PMIX_NAMESPACE") || !environment.has("PMI_RANK") {
        return Ok(None);
    }
    let tasks = environment.count("PMI_SIZE");
    refuse("Weft's mpiexec", tasks, ADVICE_DESCRIPTOR)
}

fn pmix(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    if !environment.has("PMIX_RANK") && !environment.has("PMIX_NAMESPACE") {
        return Ok(None);
    }
    let tasks = environment.count("OMPI_COMM_WORLD_SIZE").or_else(|| environment.slurm_tasks());
    let has_server = PMIX_SERVERS.iter().any(|name| environment.has(name));
    if has_server && environment.has("PMIX_RANK") && environment.has("PMIX_NAMESPACE") {
        return Ok(Some(Found::Pmix { prefix: environment.get("PMIX_PREFIX"), is_alone: tasks == Some(1) }));
    }
    let (launcher, advice) = match environment.has("SLURM_PROCID") {
        true => ("Slurm's srun with PMIx", ADVICE_SLURM),
        false => ("a PMIx launcher (Open MPI's mpirun or prterun)", ADVICE_MPIEXEC),
    };
    match tasks {
        // This launcher's variables count, whatever other variables are left from elsewhere.
        Some(tasks) => refuse(launcher, Some(tasks), advice).map(|_| Some(Found::Singleton)),
        None => Err(LaunchError::NoProcessManager { launcher, tasks: None, advice }),
    }
}

fn open_mpi(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    refuse("Open MPI's mpirun", environment.count("OMPI_COMM_WORLD_SIZE"), ADVICE_MPIEXEC)
}

fn slurm_step(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    let tasks = environment.slurm_tasks().filter(|_| environment.has("SLURM_PROCID"));
    if let Some(tasks) = tasks.filter(|&tasks| tasks > 1)
        && let Some(step) = Step::read(environment.variable, tasks)?
    {
        return Ok(Some(Found::SlurmStep(step)));
    }
    refuse("Slurm's srun", tasks, ADVICE_SLURM)
}

fn pmi_rank_without_connection(environment: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    let tasks = environment.count("PMI_SIZE").filter(|_| environment.has("PMI_RANK"));
    refuse("a launcher that sets PMI_RANK but not PMI_FD", tasks, ADVICE_MPIEXEC)
}

fn singleton(_: &Environment<'_>) -> Result<Option<Found>, LaunchError> {
    Ok(Some(Found::Singleton))
}

#[cfg(test)]
mod tests {
    use super::super::slurm::RECORDED;
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
    fn a_pmix_server_is_used_if_there_is_one() {
        let server = [("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "x"), ("PMIX_SERVER_URI4", "x.0;tcp4://127.0.0.1:1")];
        assert_eq!(with(&server), Ok(Found::Pmix { prefix: None, is_alone: false }));
        let open_mpi = [&server[..], &[("PMIX_PREFIX", "/opt"), ("OMPI_COMM_WORLD_SIZE", "2")]].concat();
        assert_eq!(with(&open_mpi), Ok(Found::Pmix { prefix: Some("/opt".into()), is_alone: false }));
        let alone = [&server[..], &[("OMPI_COMM_WORLD_SIZE", "1")]].concat();
        assert_eq!(with(&alone), Ok(Found::Pmix { prefix: None, is_alone: true }));
        assert_eq!(
            with(&alone[..2]),
            Err(LaunchError::NoProcessManager {
                launcher: "a PMIx launcher (Open MPI's mpirun or prterun)",
                tasks: None,
                advice: ADVICE_MPIEXEC
            })
        );
        assert!(with(&server[..2]).is_err(), "without a server nothing can be asked");
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
        // Variables that say nothing of a step: its tasks cannot find each other.
        assert!(refused(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]).contains("srun --mpi=pmi2"));
        assert!(
            refused(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("ENVIRONMENT", "BATCH")]).contains("4")
        );
        assert!(refused(&[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")]).contains("Open MPI"));
        assert!(refused(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x")]).contains("PMIx"));
        assert!(refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).contains("PMI_FD"));
        let own = [("WEFT_LOAD", "2/2"), ("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMIX_RANK", "0")];
        let own = refused(&[&own[..], &[("OMPI_COMM_WORLD_SIZE", "2")]].concat());
        assert!(own.contains("Weft's mpiexec") && own.contains("PMI_FD is gone"), "{own}");
    }

    #[test]
    fn tasks_of_a_step_of_slurm_find_each_other() {
        assert!(matches!(with(&RECORDED), Ok(Found::SlurmStep(_))));
        let by_pmi = [&RECORDED[..], &[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")]].concat();
        assert!(matches!(with(&by_pmi), Ok(Found::Descriptor { .. })), "a process manager is better");
        let alone = [&[("SLURM_STEP_NUM_TASKS", "1")], &RECORDED[..]].concat();
        assert_eq!(with(&alone), Ok(Found::Singleton));
    }

    #[test]
    fn a_single_task_and_a_batch_script_are_singletons() {
        for variables in [
            &[][..],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("ENVIRONMENT", "BATCH")],
            &[("SLURM_NTASKS", "8")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")],
            &[("WEFT_LOAD", "1/2"), ("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("OMPI_COMM_WORLD_SIZE", "1")],
        ] {
            assert_eq!(with(variables), Ok(Found::Singleton), "{variables:?}");
        }
    }
}
