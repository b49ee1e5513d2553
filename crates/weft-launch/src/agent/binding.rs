//! Decides which processors each rank of a host gets, once, before the first rank starts.
//!
//! A processor that one rank is bound to is never given to another rank, of this job or of any other job on
//! the machine. A rank that is bound to cores or threads takes them in the registry, all or none. Where that
//! is impossible, no rank of the host is bound, and the reason is reported.

use crate::control::{BindTo, Binding, MapBy};
use crate::processors::{Hold, Load, Registry, Session, Set, Topology, counted};
use std::collections::{BTreeMap, VecDeque};

/// The processors of one rank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The set that the rank is bound to; `None`: all that the agent may use.
    pub(crate) set: Option<Set>,
    pub(crate) load: Load,
    /// The result of the binding, in words.
    pub(crate) words: String,
}

/// The decision for all ranks of a host.
#[derive(Debug)]
pub(crate) struct Bindings {
    /// The binding of each rank of the host, in order.
    pub(crate) ranks: Vec<Bound>,
    /// The reason why a binding that the user asked for was not fulfilled.
    pub(crate) note: Option<String>,
    /// The processors that were taken, held until the job is over.
    pub(crate) hold: Hold,
}

/// The facts about the host.
pub(crate) struct Host<'a> {
    pub(crate) topology: &'a Topology,
    /// The processors that may be used at the same time: the time quota counts.
    pub(crate) usable: usize,
    pub(crate) registry: &'a Registry,
}

/// The registry's answers, for the processors that may be used.
struct Usage {
    taken: BTreeMap<usize, bool>,
    ranks: BTreeMap<usize, usize>,
}

/// Decides which processors `ranks` ranks get.
pub(crate) fn decide(binding: &Binding, ranks: usize, host: &Host<'_>) -> Bindings {
    let mut hold = Hold::default();
    let session = match host.registry.session() {
        Ok(session) => session,
        Err(why) => return without_registry(binding, ranks, host, why),
    };
    let mut usage = Usage::read(&session, host.topology);
    let chosen = choose(binding, ranks, host, &usage).and_then(|choice| take(choice, &session, &mut hold));
    let (choice, reason) = match chosen {
        Ok(choice) => (choice, None),
        Err(why) => (Choice::Free, Some(why)),
    };
    let sets = match choice {
        Choice::Free => vec![None; ranks],
        Choice::Own(sets) | Choice::Shared(sets) => sets.into_iter().map(Some).collect(),
    };
    let all = host.topology.all();
    for set in &sets {
        usage.assign(set.as_ref().unwrap_or(&all), &session, &mut hold);
    }
    let machine_ranks = (binding.machine_ranks as usize).max(ranks);
    let describe = |set: Option<Set>| match set {
        Some(set) => {
            let load = Load { ranks: usage.ranks_on(&set), processors: set.len().min(host.usable) };
            let words = format!("bound to {}", host.topology.describe(&set));
            Bound { set: Some(set), load, words }
        }
        None => {
            let load = Load { ranks: usage.ranks_on(&all).max(machine_ranks), processors: host.usable };
            Bound { set: None, load, words: not_bound(reason.as_deref(), &all) }
        }
    };
    let ranks = sets.into_iter().map(describe).collect();
    let note = reason.as_ref().map(|why| format!("ranks are not bound: {why}"));
    Bindings { ranks, note, hold }
}

/// The decision without a registry: nobody knows which processors other jobs use, so no rank is bound.
fn without_registry(binding: &Binding, ranks: usize, host: &Host<'_>, why: String) -> Bindings {
    let load = Load { ranks: (binding.machine_ranks as usize).max(ranks), processors: host.usable };
    let words = not_bound(Some(&why), &host.topology.all());
    let ranks = (0..ranks).map(|_| Bound { set: None, load, words: words.clone() }).collect();
    let note = (binding.to != BindTo::None).then(|| format!("ranks are not bound: {why}"));
    Bindings { ranks, note, hold: Hold::default() }
}

/// The processors that ranks get.
enum Choice {
    /// No rank is bound.
    Free,
    /// Each rank has its own processors.
    Own(Vec<Set>),
    /// Ranks may have processors in common.
    Shared(Vec<Set>),
}

/// Chooses the processors of each rank. The error is half a sentence why ranks cannot be bound.
fn choose(binding: &Binding, ranks: usize, host: &Host<'_>, usage: &Usage) -> Result<Choice, String> {
    let topology = host.topology;
    match binding.to {
        BindTo::None => Ok(Choice::Free),
        BindTo::Core => own(binding, ranks, host, usage, topology.cores(), "cores").map(Choice::Own),
        BindTo::Thread => own(binding, ranks, host, usage, topology.threads(), "hardware threads").map(Choice::Own),
        BindTo::Socket => shared(binding, ranks, usage, topology, topology.sockets()).map(Choice::Shared),
        BindTo::Numa => shared(binding, ranks, usage, topology, topology.numa_nodes()).map(Choice::Shared),
    }
}

/// Chooses units (cores or threads) of its own for each rank.
fn own(
    binding: &Binding,
    ranks: usize,
    host: &Host<'_>,
    usage: &Usage,
    units: Vec<Set>,
    noun: &str,
) -> Result<Vec<Set>, String> {
    let each = (binding.each as usize).max(1);
    let total = units.len();
    let wanted = (binding.machine_ranks as usize).max(ranks) * each;
    if wanted > total {
        return Err(format!("{wanted} {noun} are wanted on this machine, there are {total}"));
    }
    if wanted > host.usable {
        let quota = counted(host.usable, "processor");
        return Err(format!("{wanted} {noun} are wanted, the time quota allows for {quota}"));
    }
    let free: Vec<Set> = units.into_iter().filter(|unit| unit.iter().all(|number| !usage.taken[&number])).collect();
    if ranks * each > free.len() {
        let busy = total - free.len();
        return Err(format!("other jobs have taken {busy} of {total} {noun}, this one wants {}", ranks * each));
    }
    // Units that ranks of other jobs use without being bound come last.
    let mut free: Vec<(usize, Set)> = free.into_iter().map(|unit| (usage.ranks_on(&unit), unit)).collect();
    free.sort_by_key(|(ranks, _)| *ranks);
    let domains = domains(binding.by, host.topology);
    let mut groups = vec![VecDeque::new(); domains.len()];
    for (_, unit) in free {
        let home = domains.iter().position(|domain| unit.iter().any(|number| domain.contains(number)));
        groups[home.expect("every processor is in a domain")].push_back(unit);
    }
    Ok((0..ranks).map(|rank| pick(&mut groups, rank, each)).collect())
}

/// Takes `each` units for a rank from the group whose turn it is, and from the next groups if that one has
/// not enough.
fn pick(groups: &mut [VecDeque<Set>], rank: usize, each: usize) -> Set {
    let count = groups.len();
    let whole = (0..count).map(|turn| (rank + turn) % count).find(|&group| groups[group].len() >= each);
    let order = (0..count).map(|turn| (whole.unwrap_or(rank) + turn) % count);
    let mut units: Vec<Set> = Vec::with_capacity(each);
    for group in order {
        let there = groups[group].len();
        units.extend(groups[group].drain(..there.min(each - units.len())));
    }
    units.iter().flat_map(Set::iter).collect()
}

/// Chooses domains (sockets or memory nodes), which several ranks may share, without the processors that
/// others have taken.
fn shared(
    binding: &Binding,
    ranks: usize,
    usage: &Usage,
    topology: &Topology,
    domains: Vec<Set>,
) -> Result<Vec<Set>, String> {
    let cores = topology.cores();
    let open = |domain: &Set| -> Set { domain.iter().filter(|number| !usage.taken[number]).collect() };
    let domains: Vec<Set> = domains.iter().map(open).filter(|domain| !domain.is_empty()).collect();
    if domains.is_empty() {
        return Err("all processors are taken by other jobs".into());
    }
    let turns: Vec<usize> = match binding.by {
        // As many ranks go to each domain as it has cores, then the next domain follows.
        MapBy::Slot => {
            let size = |domain: &Set| cores.iter().filter(|core| core.iter().any(|n| domain.contains(n))).count();
            domains.iter().enumerate().flat_map(|(at, domain)| std::iter::repeat_n(at, size(domain))).collect()
        }
        MapBy::Socket | MapBy::Numa => (0..domains.len()).collect(),
    };
    let each = (binding.each as usize).max(1);
    Ok((0..ranks).map(|rank| domains[turns[rank * each % turns.len()]].clone()).collect())
}

/// The groups of processors that take turns.
fn domains(by: MapBy, topology: &Topology) -> Vec<Set> {
    match by {
        MapBy::Slot => vec![topology.all()],
        MapBy::Socket => topology.sockets(),
        MapBy::Numa => topology.numa_nodes(),
    }
}

/// Takes the processors that each rank shall have for itself.
fn take(choice: Choice, session: &Session, hold: &mut Hold) -> Result<Choice, String> {
    if let Choice::Own(sets) = &choice
        && let Some(number) = sets.iter().flat_map(Set::iter).find(|&number| !session.take(number, hold))
    {
        return Err(format!("processor {number} cannot be taken"));
    }
    Ok(choice)
}

impl Usage {
    fn read(session: &Session, topology: &Topology) -> Self {
        let all = topology.all();
        Self {
            taken: all.iter().map(|number| (number, session.is_taken(number))).collect(),
            ranks: all.iter().map(|number| (number, session.ranks_at(number))).collect(),
        }
    }

    /// Gives one more rank its home: the processor of its set with the fewest ranks.
    fn assign(&mut self, set: &Set, session: &Session, hold: &mut Hold) {
        if let Some(home) = set.iter().min_by_key(|number| self.ranks[number]) {
            *self.ranks.entry(home).or_default() += 1;
            session.add_rank(home, hold);
        }
    }

    fn ranks_on(&self, set: &Set) -> usize {
        set.iter().map(|number| self.ranks[&number]).sum()
    }
}

fn not_bound(reason: Option<&str>, all: &Set) -> String {
    let reason = reason.map(|why| format!(" ({why})")).unwrap_or_default();
    format!("not bound{reason}, may run on {}", all.named("processor"))
}

#[cfg(test)]
#[path = "binding_tests.rs"]
mod tests;
