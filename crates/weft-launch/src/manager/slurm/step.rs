//! What Slurm tells a task of its step, and what follows from it: where the first task listens.

use crate::LaunchError;
use std::net::IpAddr;

/// The most ports at which the first task may listen.
const PORTS_MAX: usize = 8;
/// The first of the ports that are derived from job and step, and their number. Systems give ports from
/// 32768 on to programs that ask for any.
const PORT_FIRST: u16 = 20_000;
const PORT_RANGE: u16 = 12_000;
const _: () = assert!(PORT_FIRST + PORT_RANGE < 32_768);
/// The most tasks of a step.
pub(super) const TASKS_MAX: u32 = 1 << 16;

/// A step of a job, seen from one of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::manager) struct Step {
    /// The numbers of job and step, `12.0`.
    pub(super) name: String,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// The ranks on this task's node, if Slurm says so.
    pub(super) neighbours: Option<Vec<u32>>,
    /// The name of the first node.
    pub(super) first_node: String,
    /// The number of this task's node in the step, and of this task on its node.
    pub(super) node: u32,
    pub(super) local: u32,
    /// Says that all tasks are on one node.
    pub(super) one_node: bool,
    /// The address of the host with `srun`, which often is the first node.
    pub(super) launcher: Option<IpAddr>,
    /// The ports at which the first task may listen, the preferred one first.
    pub(super) ports: Vec<u16>,
}

impl Step {
    /// Reads the variables of a task. `None`: they are not those of a task of a step, or some are missing.
    ///
    /// # Errors
    /// A variable holds something that Slurm does not write.
    pub(in crate::manager) fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        size: u64,
    ) -> Result<Option<Self>, LaunchError> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (Some(rank), Some(node), Some(local)) = (get("SLURM_PROCID"), get("SLURM_NODEID"), get("SLURM_LOCALID"))
        else {
            return Ok(None);
        };
        let (Some(step), Some(nodes), Some(count)) =
            (get("SLURM_STEP_ID"), get("SLURM_STEP_NODELIST"), get("SLURM_STEP_NUM_NODES"))
        else {
            return Ok(None);
        };
        let Some(job) = get("SLURM_JOB_ID").or_else(|| get("SLURM_JOBID")) else { return Ok(None) };
        let nonsense = |name: &str, value: &str| LaunchError::Environment(format!("{name}={value:?} makes no sense"));
        let number = |name: &str, value: &str| value.parse::<u32>().map_err(|_| nonsense(name, value));
        let (job, step) = (number("SLURM_JOB_ID", &job)?, number("SLURM_STEP_ID", &step)?);
        let (rank, node, local) =
            (number("SLURM_PROCID", &rank)?, number("SLURM_NODEID", &node)?, number("SLURM_LOCALID", &local)?);
        let size = u32::try_from(size).ok().filter(|&size| rank < size && size <= TASKS_MAX);
        let size = size.ok_or_else(|| nonsense("SLURM_PROCID", &format!("{rank}")))?;
        let first_node = first_name(&nodes).ok_or_else(|| nonsense("SLURM_STEP_NODELIST", &nodes))?;
        let one_node = number("SLURM_STEP_NUM_NODES", &count)? == 1;
        let neighbours = get("SLURM_GTIDS").and_then(|list| ranks(&list, size)).filter(|list| list.contains(&rank));
        let neighbours = if one_node { Some((0..size).collect()) } else { neighbours };
        let launcher = get("SLURM_LAUNCH_NODE_IPADDR").and_then(|address| address.parse().ok());
        let reserved = get("SLURM_STEP_RESV_PORTS").and_then(|list| reserved(&list));
        let ports = reserved.unwrap_or_else(|| derived(job, step));
        let name = format!("{job}.{step}");
        Ok(Some(Self { name, rank, size, neighbours, first_node, node, local, one_node, launcher, ports }))
    }

    /// Returns whether this is the first task: the first one on the first node. It is rank 0, unless the user
    /// has placed each task.
    pub(super) fn is_first(&self) -> bool {
        self.node == 0 && self.local == 0
    }

    /// Returns whether the first task runs on this task's node.
    pub(super) fn is_on_first_node(&self) -> bool {
        self.node == 0
    }
}

/// The ranks in `0,1,4`, in order; `None` where it is no list of ranks below `size`.
fn ranks(list: &str, size: u32) -> Option<Vec<u32>> {
    let mut ranks =
        list.split(',').map(|rank| rank.parse().ok().filter(|&rank| rank < size)).collect::<Option<Vec<u32>>>()?;
    weft_ordered::sort(&mut ranks);
    Some(ranks)
}

/// The first name of a list such as `n[08-10,7],login` or `r[1-2]n[1-2]`.
fn first_name(list: &str) -> Option<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let (mut name, mut rest) = (String::new(), list);
    loop {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        name.push_str(&rest[..end]);
        let Some(bracket) = rest[end..].strip_prefix('[') else { break };
        let (numbers, behind) = bracket.split_once(']')?;
        name.push_str(numbers.split([',', '-']).next()?);
        rest = behind;
    }
    Some(name).filter(|name| !name.is_empty() && !name.starts_with('-') && name.chars().all(plain))
}

/// The ports that Slurm has reserved for the step on its nodes: `12000-12003,12010`.
fn reserved(list: &str) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    for item in list.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        ports.extend((first..=last).take(PORTS_MAX - ports.len()));
    }
    (!ports.is_empty() && !ports.contains(&0)).then_some(ports)
}

/// Ports that all tasks of a step derive from its numbers. Another job may use one of them, so there are
/// several.
fn derived(job: u32, step: u32) -> Vec<u16> {
    let mut state = u64::from(job) << 32 | u64::from(step);
    let mut ports = Vec::new();
    while ports.len() < PORTS_MAX {
        // SplitMix64 (Steele, Lea and Flood 2014): neighbouring jobs get ports far apart.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let port = PORT_FIRST + ((mixed ^ (mixed >> 31)) % u64::from(PORT_RANGE)) as u16;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

#[cfg(test)]
pub(in crate::manager) mod tests {
    use super::*;

    /// The variables of task 2 of `srun -N2 -n3`, as Slurm 22.05 writes them.
    pub(in crate::manager) const RECORDED: [(&str, &str); 13] = [
        ("SLURM_JOB_ID", "12"),
        ("SLURM_STEP_ID", "1"),
        ("SLURM_PROCID", "2"),
        ("SLURM_NODEID", "1"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_GTIDS", "2"),
        ("SLURM_NTASKS", "3"),
        ("SLURM_STEP_NUM_TASKS", "3"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_NODELIST", "n[0-1]"),
        ("SLURM_STEP_TASKS_PER_NODE", "2,1"),
        ("SLURM_LAUNCH_NODE_IPADDR", "198.18.0.1"),
        ("SLURM_SRUN_COMM_PORT", "39487"),
    ];

    fn read(changed: &[(&str, &str)]) -> Result<Option<Step>, LaunchError> {
        let variable = |name: &str| {
            let found = changed.iter().chain(&RECORDED).find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Step::read(&variable, 3)
    }

    #[test]
    fn a_task_knows_its_step() {
        let step = read(&[]).expect("sound").expect("a task");
        assert_eq!((step.name.as_str(), step.rank, step.size), ("12.1", 2, 3));
        assert_eq!((step.first_node.as_str(), step.one_node), ("n0", false));
        assert_eq!(step.neighbours, Some(vec![2]));
        assert!(!step.is_on_first_node() && !step.is_first());
        assert_eq!(step.launcher, "198.18.0.1".parse().ok());
        let first = read(&[("SLURM_PROCID", "0"), ("SLURM_NODEID", "0"), ("SLURM_GTIDS", "0,1")]);
        let first = first.expect("sound").expect("a task");
        assert!(first.is_on_first_node() && first.is_first());
        assert_eq!(first.ports, step.ports, "all tasks of a step derive the same ports");
        let alone = read(&[("SLURM_STEP_NUM_NODES", "1"), ("SLURM_GTIDS", "")]).expect("sound").expect("a task");
        assert!(alone.one_node && alone.neighbours == Some(vec![0, 1, 2]));
        // `--distribution=arbitrary`: the list of nodes is in order, but rank 0 is on the second one.
        let placed = read(&[("SLURM_PROCID", "1"), ("SLURM_NODEID", "0"), ("SLURM_GTIDS", "1,2")]);
        assert!(placed.expect("sound").expect("a task").is_first());
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_noticed() {
        assert_eq!(read(&[("SLURM_STEP_ID", "")]), Ok(None));
        assert_eq!(read(&[("SLURM_STEP_NODELIST", "")]), Ok(None));
        for (name, value) in [
            ("SLURM_PROCID", "3"),
            ("SLURM_PROCID", "x"),
            ("SLURM_JOB_ID", "12;reboot"),
            ("SLURM_STEP_NODELIST", "[1-2"),
            ("SLURM_STEP_NODELIST", "-oProxy"),
            ("SLURM_STEP_NUM_NODES", "two"),
            ("SLURM_NODEID", "x"),
        ] {
            let error = read(&[(name, value)]).expect_err("nonsense").to_string();
            assert!(error.starts_with(name), "{error}");
        }
        let step = read(&[("SLURM_GTIDS", "0,7")]).expect("sound").expect("a task");
        assert_eq!(step.neighbours, None, "a list without this task is none");
    }

    #[test]
    fn the_first_node_is_the_first_name_of_the_list() {
        for (list, expected) in [
            ("n0", "n0"),
            ("n[08-10,7],login", "n08"),
            ("login,n[1-2]", "login"),
            ("r[1-2]n[3-4]", "r1n3"),
            ("gpu[5]-ib", "gpu5-ib"),
            ("a.b-c,d", "a.b-c"),
        ] {
            assert_eq!(first_name(list).as_deref(), Some(expected), "{list}");
        }
        assert!(["", ",", "n[1", "a b", "$(x)", "n[;]"].iter().all(|list| first_name(list).is_none()));
    }

    #[test]
    fn ports_are_those_that_are_reserved_or_derived_ones() {
        assert_eq!(
            read(&[("SLURM_STEP_RESV_PORTS", "12000-12001,12005")]).expect("sound").expect("a task").ports,
            [12000, 12001, 12005]
        );
        assert_eq!(reserved("12000-12999").map(|ports| ports.len()), Some(PORTS_MAX));
        assert!([None, Some(Vec::new())].contains(&reserved("12000-11000")) && reserved("0").is_none());
        for (job, step) in [(1, 0), (1, 1), (2, 0), (u32::MAX, u32::MAX)] {
            let ports = derived(job, step);
            assert_eq!(ports.len(), PORTS_MAX);
            assert!(ports.iter().all(|port| (PORT_FIRST..PORT_FIRST + PORT_RANGE).contains(port)), "{ports:?}");
        }
        assert!(derived(1, 0)[0] != derived(1, 1)[0] && derived(1, 0)[0] != derived(2, 0)[0]);
    }
}
