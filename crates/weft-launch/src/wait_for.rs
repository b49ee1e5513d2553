//! The wait-for graph of a job that does not go on: which ranks keep which waiting (Coffman, Elphick and
//! Shoshani, 1971). For operations of which one is enough, it is the AND-OR graph of Chandy, Misra and Haas,
//! 1983. A pure function of the states of the ranks. `mpiexec` and `weft info --live` print its sentences.
//!
//! A rank waits for all of some ranks, or for any of some ranks. A rank that computes, or works in a call,
//! may go on and release the ranks that wait for it. A rank that has finalized or ended never will. The ranks
//! that can be released are a fixpoint. The others wait for ranks that are gone, or in a circle.

use std::collections::BTreeMap;

use crate::standing::{Names, Needs, Process, Range, processes};

/// The most ranks of a circle that are named one after the other.
const CIRCLE_MAX: usize = 8;
/// The most sentences.
const SENTENCES_MAX: usize = 6;

/// The activity of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The rank may go on by itself. The text is to be read after "which": `is outside MPI calls`.
    Runs(String),
    /// The rank waits in a call, for these ranks and this operation: `receive from rank 1, tag 7`.
    Waits(Needs, String),
    /// The rank waits in `MPI_Finalize`, only for ranks that have not come there.
    Finalizes(Needs),
    /// The rank will do nothing any more: `has finalized`.
    Gone(String),
}

/// Explains why nothing goes on, as far as can be seen, in sentences without a full stop. Empty if there is
/// nothing to say. Ranks of several jobs may wait for each other.
pub fn explain(jobs: &BTreeMap<Process, Doing>, names: Names<'_>) -> Vec<String> {
    let graph = Graph::new(jobs, names);
    let released = graph.released();
    let mut sentences = graph.gone(&released);
    sentences.extend(graph.circles(&released));
    sentences.extend(graph.slow(&released));
    if sentences.len() > SENTENCES_MAX {
        let more = sentences.len() - SENTENCES_MAX;
        sentences.truncate(SENTENCES_MAX);
        sentences.push(format!("and {more} more such groups of ranks"));
    }
    sentences
}

/// The rank, or set of ranks, that a vertex stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vertex {
    /// A rank that waits or runs.
    Rank(Process),
    /// A rank as seen by ranks to which it will never send anything.
    Gone(Process),
    /// Any of a set of ranks: many ranks may wait for the same set.
    Any,
}

/// Ranks that wait, directly or not, for the same ranks.
#[derive(Default)]
struct Part {
    waiting: Vec<Process>,
    /// The ranks that they wait for, by their activity.
    roots: BTreeMap<String, Vec<Process>>,
    /// A rank of the part waits for another rank of the part.
    indirect: bool,
}

struct Graph<'a> {
    jobs: &'a BTreeMap<Process, Doing>,
    names: Names<'a>,
    vertices: Vec<Vertex>,
    /// The vertices that a vertex waits for.
    needs: Vec<Vec<usize>>,
    /// The vertices that wait for a vertex.
    waiters: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(jobs: &'a BTreeMap<Process, Doing>, names: Names<'a>) -> Self {
        let mut graph = Self { jobs, names, vertices: Vec::new(), needs: Vec::new(), waiters: Vec::new() };
        // The vertex of each rank as ranks that finalize see it, and as others see it.
        let mut own_and_others = BTreeMap::new();
        for (&rank, doing) in jobs {
            let own = match doing {
                Doing::Gone(_) => graph.add(Vertex::Gone(rank)),
                _ => graph.add(Vertex::Rank(rank)),
            };
            let others = if let Doing::Finalizes(_) = doing { graph.add(Vertex::Gone(rank)) } else { own };
            own_and_others.insert(rank, (own, others));
        }
        let mut sets: BTreeMap<(Vec<Range>, bool), usize> = BTreeMap::new();
        for (&rank, doing) in jobs {
            let (needs, finalizes) = match doing {
                Doing::Waits(needs, _) => (needs, false),
                Doing::Finalizes(needs) => (needs, true),
                _ => continue,
            };
            let members = |ranges: &[Range]| -> Vec<usize> {
                let found = ranges.iter().filter(|(first, last)| first <= last);
                let found = found.flat_map(|(first, last)| own_and_others.range(first..=last));
                found.map(|(_, &(own, others))| if finalizes { own } else { others }).collect()
            };
            let from = own_and_others[&rank].0;
            match needs {
                Needs::Unknown => {}
                Needs::All(ranges) => members(ranges).into_iter().for_each(|to| graph.link(from, to)),
                Needs::Any(ranges) => {
                    let set = *sets.entry((ranges.clone(), finalizes)).or_insert_with(|| {
                        let set = graph.add(Vertex::Any);
                        members(ranges).into_iter().for_each(|to| graph.link(set, to));
                        set
                    });
                    graph.link(from, set);
                }
            }
        }
        graph
    }

    fn add(&mut self, vertex: Vertex) -> usize {
        self.vertices.push(vertex);
        self.needs.push(Vec::new());
        self.waiters.push(Vec::new());
        self.vertices.len() - 1
    }

    fn link(&mut self, from: usize, to: usize) {
        self.needs[from].push(to);
        self.waiters[to].push(from);
    }

    /// The vertices that may still go on. A rank whose wait is unknown may.
    fn released(&self) -> Vec<bool> {
        let mut left: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let runs = |vertex: &usize| self.vertices[*vertex] != Vertex::Any && self.needs[*vertex].is_empty();
        let free = |vertex: &usize| runs(vertex) && !matches!(self.vertices[*vertex], Vertex::Gone(_));
        let mut queue: Vec<usize> = (0..self.vertices.len()).filter(free).collect();
        let mut released = vec![false; self.vertices.len()];
        queue.iter().for_each(|vertex| released[*vertex] = true);
        while let Some(vertex) = queue.pop() {
            for &waiter in &self.waiters[vertex] {
                left[waiter] -= 1;
                let enough = left[waiter] == 0 || self.vertices[waiter] == Vertex::Any;
                if enough && !released[waiter] {
                    released[waiter] = true;
                    queue.push(waiter);
                }
            }
        }
        released
    }

    /// The vertices that can be reached from `start` against the direction of waiting, through vertices that
    /// `passes` accepts.
    fn behind(&self, start: impl Iterator<Item = usize>, passes: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut seen = vec![false; self.vertices.len()];
        let mut queue: Vec<usize> = start.collect();
        while let Some(vertex) = queue.pop() {
            for &waiter in &self.waiters[vertex] {
                if passes(waiter) && !seen[waiter] {
                    seen[waiter] = true;
                    queue.push(waiter);
                }
            }
        }
        seen
    }

    fn is_gone(&self, vertex: usize) -> bool {
        matches!(self.vertices[vertex], Vertex::Gone(_))
    }

    /// Explains ranks that wait for ranks that will never come, one sentence for each connected part and kind
    /// of end.
    fn gone(&self, released: &[bool]) -> Vec<String> {
        let ends = (0..self.vertices.len()).filter(|vertex| self.is_gone(*vertex));
        let stuck = self.behind(ends, |vertex| !released[vertex]);
        self.parts(|vertex| stuck[vertex], |vertex| self.is_gone(vertex))
    }

    /// Explains ranks that wait for ranks which may go on, but do not come.
    fn slow(&self, released: &[bool]) -> Vec<String> {
        let waits = |vertex: usize| released[vertex] && !self.needs[vertex].is_empty();
        let root = |vertex: usize| released[vertex] && self.needs[vertex].is_empty();
        self.parts(waits, root)
    }

    /// Makes one sentence for each connected part of the vertices that `waits` accepts, about the `root`s
    /// that it leads to.
    fn parts(&self, waits: impl Fn(usize) -> bool, root: impl Fn(usize) -> bool) -> Vec<String> {
        let mut part: Vec<usize> = (0..self.vertices.len()).collect();
        for from in (0..self.vertices.len()).filter(|vertex| waits(*vertex)) {
            for &to in self.needs[from].iter().filter(|to| waits(**to) || root(**to)) {
                let (a, b) = (find(&mut part, from), find(&mut part, to));
                part[a] = b;
            }
        }
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        for vertex in (0..self.vertices.len()).filter(|vertex| waits(*vertex) || root(*vertex)) {
            let Part { waiting, roots, indirect } = parts.entry(find(&mut part, vertex)).or_default();
            match self.vertices[vertex] {
                Vertex::Rank(rank) | Vertex::Gone(rank) if root(vertex) => {
                    roots.entry(self.state(rank)).or_default().push(rank);
                }
                Vertex::Rank(rank) => {
                    waiting.push(rank);
                    *indirect |= self.needs[vertex].iter().any(|to| waits(*to) && self.vertices[*to] != Vertex::Any);
                }
                _ => {}
            }
        }
        let mut sentences: Vec<(Process, String)> = Vec::new();
        for Part { mut waiting, roots, indirect } in parts.into_values() {
            let culprits: Vec<Process> = roots.values().flatten().copied().collect();
            waiting.retain(|rank| !culprits.contains(rank));
            if waiting.is_empty() || culprits.is_empty() {
                continue;
            }
            let verb = if waiting.len() == 1 { "waits" } else { "wait" };
            let through = if indirect && waiting.len() > 1 { ", some through each other," } else { "" };
            let whom = roots.iter().map(|(state, roots)| {
                let state = if roots.len() == 1 { state.clone() } else { plural(state) };
                format!("{}, which {state}", self.words(roots))
            });
            let whom = whom.collect::<Vec<_>>().join("; and for ");
            sentences.push((waiting[0], format!("{} {verb}{through} for {whom}", self.words(&waiting))));
        }
        sentences.sort_unstable();
        sentences.into_iter().map(|(_, sentence)| sentence).collect()
    }

    fn words(&self, members: &[Process]) -> String {
        processes(members, self.names)
    }

    fn state(&self, rank: Process) -> String {
        match &self.jobs[&rank] {
            Doing::Runs(state) | Doing::Gone(state) => state.clone(),
            Doing::Finalizes(_) => "is in MPI_Finalize and sends nothing any more".to_owned(),
            Doing::Waits(_, what) => format!("waits ({what})"),
        }
    }

    /// Explains ranks that wait for each other, and ranks that wait for these.
    fn circles(&self, released: &[bool]) -> Vec<String> {
        let ends = (0..self.vertices.len()).filter(|vertex| self.is_gone(*vertex));
        let explained = self.behind(ends, |vertex| !released[vertex]);
        let stuck = |vertex: usize| !released[vertex] && !explained[vertex] && !self.is_gone(vertex);
        let mut sentences = Vec::new();
        let mut in_circle = vec![false; self.vertices.len()];
        for component in self.components(stuck) {
            let alone = component.len() == 1 && !self.needs[component[0]].contains(&component[0]);
            if alone {
                continue;
            }
            component.iter().for_each(|vertex| in_circle[*vertex] = true);
            sentences.push(self.circle(&component));
        }
        let rest = (0..self.vertices.len()).filter(|vertex| stuck(*vertex) && !in_circle[*vertex]);
        let rest: Vec<Process> = rest.filter_map(|vertex| self.rank(vertex)).collect();
        if !rest.is_empty() && !sentences.is_empty() {
            let verb = if rest.len() == 1 { "waits" } else { "wait" };
            sentences.push(format!("{} {verb} for these", self.words(&rest)));
        }
        sentences
    }

    fn rank(&self, vertex: usize) -> Option<Process> {
        match self.vertices[vertex] {
            Vertex::Rank(rank) | Vertex::Gone(rank) => Some(rank),
            Vertex::Any => None,
        }
    }

    /// The sentence about a set of vertices that all lead to each other.
    fn circle(&self, component: &[usize]) -> String {
        let members: Vec<Process> = component.iter().filter_map(|vertex| self.rank(*vertex)).collect();
        let what = |rank: Process| match &self.jobs[&rank] {
            Doing::Waits(_, what) => what.clone(),
            Doing::Finalizes(_) => "in MPI_Finalize".to_owned(),
            Doing::Runs(state) | Doing::Gone(state) => state.clone(),
        };
        if let [one] = members[..] {
            return format!("{} waits for itself: {}", self.words(&[one]), what(one));
        }
        let is_any = component.iter().any(|vertex| self.vertices[*vertex] == Vertex::Any);
        let path = self.shortest_circle(component);
        if is_any || path.len() > CIRCLE_MAX {
            return format!("{} wait for each other, and nobody else can help them", self.words(&members));
        }
        let steps: Vec<String> =
            path.iter().map(|rank| format!("{} ({})", self.words(&[*rank]), what(*rank))).collect();
        let circle = format!("deadlock: {} → {}", steps.join(" → "), self.words(&path[..1]));
        if path.len() == members.len() {
            return circle;
        }
        format!("{circle}; {} wait for each other", self.words(&members))
    }

    /// The ranks of a shortest circle through the first of a component's vertices.
    fn shortest_circle(&self, component: &[usize]) -> Vec<Process> {
        let inside = |vertex: &usize| component.binary_search(vertex).is_ok();
        let start = component.iter().copied().min().unwrap_or(0);
        let mut from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(vertex) = queue.pop_front() {
            for &next in self.needs[vertex].iter().filter(|next| inside(next)) {
                if next == start {
                    let mut path = vec![vertex];
                    while path[path.len() - 1] != start {
                        path.push(from[&path[path.len() - 1]]);
                    }
                    path.reverse();
                    return path.into_iter().filter_map(|vertex| self.rank(vertex)).collect();
                }
                if next != start && !from.contains_key(&next) {
                    from.insert(next, vertex);
                    queue.push_back(next);
                }
            }
        }
        Vec::new()
    }

    /// The strongly connected components of the vertices that `stuck` accepts (Tarjan, 1972). The stack is on
    /// the heap, since a job may be a long chain.
    fn components(&self, stuck: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let count = self.vertices.len();
        let (mut number, mut low, mut on_stack) = (vec![NEW; count], vec![0; count], vec![false; count]);
        let (mut next, mut stack, mut found) = (0, Vec::new(), Vec::new());
        for root in (0..count).filter(|vertex| stuck(*vertex)) {
            if number[root] != NEW {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some((vertex, edge)) = work.pop() {
                if edge == 0 {
                    (number[vertex], low[vertex]) = (next, next);
                    next += 1;
                    stack.push(vertex);
                    on_stack[vertex] = true;
                }
                let Some(&to) = self.needs[vertex].get(edge) else {
                    if low[vertex] == number[vertex] {
                        let start = stack.iter().rposition(|other| *other == vertex).unwrap_or(0);
                        let mut component = stack.split_off(start);
                        component.iter().for_each(|member| on_stack[*member] = false);
                        component.sort_unstable();
                        found.push(component);
                    }
                    if let Some((parent, _)) = work.last() {
                        low[*parent] = low[*parent].min(low[vertex]);
                    }
                    continue;
                };
                work.push((vertex, edge + 1));
                if !stuck(to) {
                    continue;
                }
                if number[to] == NEW {
                    work.push((to, 0));
                } else if on_stack[to] {
                    low[vertex] = low[vertex].min(number[to]);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

fn find(part: &mut [usize], mut vertex: usize) -> usize {
    while part[vertex] != vertex {
        part[vertex] = part[part[vertex]];
        vertex = part[vertex];
    }
    vertex
}

/// The plural of a state: `is outside` becomes `are outside`.
fn plural(state: &str) -> String {
    for (one, several) in
        [("is ", "are "), ("has ", "have "), ("sends ", "send "), ("waits ", "wait "), ("says ", "say ")]
    {
        if let Some(rest) = state.strip_prefix(one) {
            return format!("{several}{}", rest.replace(" and sends ", " and send "));
        }
    }
    state.to_owned()
}

#[cfg(test)]
#[path = "wait_for_tests.rs"]
mod tests;
