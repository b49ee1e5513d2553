//! Who keeps whom waiting: the wait-for graph of a job that does not go on (Coffman, Elphick and Shoshani,
//! 1971; for operations of which one is enough, the AND-OR graph of Chandy, Misra and Haas, 1983). A pure
//! function of how the ranks stand.
//!
//! A rank waits for all of some ranks or for any of some. Who computes, or works in a call, may go on and
//! release those that wait for it; who has finalized or ended never will. What can be released is a fixpoint;
//! the rest waits for ranks that are gone, or in a circle.

use std::collections::BTreeMap;

use crate::standing::{Needs, Range, ranks};

/// Ranks of a circle that are named one after the other.
const CIRCLE_MAX: usize = 8;
/// Sentences that are said.
const SENTENCES_MAX: usize = 6;

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It may go on by itself; what it does, to be read after "which": `is outside MPI calls`.
    Runs(String),
    /// It waits in a call, and this is what it waits for: `receive from rank 1, tag 7`.
    Waits(Needs, String),
    /// It waits in `MPI_Finalize`: for others who wait there too, and for nobody else's sake.
    Finalizes(Needs),
    /// It will do nothing any more: `has finalized`.
    Gone(String),
}

/// Why nothing goes on, as far as can be seen: sentences without a full stop; none if there is nothing to be
/// said.
pub fn explain(job: &BTreeMap<u32, Doing>) -> Vec<String> {
    let graph = Graph::new(job);
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

/// What a vertex stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vertex {
    /// A rank that waits or runs.
    Rank(u32),
    /// A rank as those see it to whom it will never send anything.
    Gone(u32),
    /// Any of a set of ranks: many may wait for the same.
    Any,
}

/// Ranks that wait, directly or not, for the same ones.
#[derive(Default)]
struct Part {
    waiting: Vec<u32>,
    /// Whom they wait for, by what these do.
    roots: BTreeMap<String, Vec<u32>>,
    /// Whether one of them waits for another of them.
    indirect: bool,
}

struct Graph<'a> {
    job: &'a BTreeMap<u32, Doing>,
    vertices: Vec<Vertex>,
    /// Whom a vertex waits for.
    needs: Vec<Vec<usize>>,
    /// Who waits for it.
    waiters: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(job: &'a BTreeMap<u32, Doing>) -> Self {
        let mut graph = Self { job, vertices: Vec::new(), needs: Vec::new(), waiters: Vec::new() };
        // The vertex of each rank in the eyes of those that finalize, and in those of others.
        let mut own_and_others = BTreeMap::new();
        for (&rank, doing) in job {
            let own = match doing {
                Doing::Gone(_) => graph.add(Vertex::Gone(rank)),
                _ => graph.add(Vertex::Rank(rank)),
            };
            let others = if let Doing::Finalizes(_) = doing { graph.add(Vertex::Gone(rank)) } else { own };
            own_and_others.insert(rank, (own, others));
        }
        let mut sets: BTreeMap<(Vec<Range>, bool), usize> = BTreeMap::new();
        for (&rank, doing) in job {
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

    /// Which vertices may still go on. A rank of which nobody knows what it waits for may.
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

    /// Those that can be reached from `start` against the direction of waiting, among the vertices that
    /// `passes`.
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

    /// Ranks that wait for what will never come, one sentence for each connected part and kind of end.
    fn gone(&self, released: &[bool]) -> Vec<String> {
        let ends = (0..self.vertices.len()).filter(|vertex| self.is_gone(*vertex));
        let stuck = self.behind(ends, |vertex| !released[vertex]);
        self.parts(|vertex| stuck[vertex], |vertex| self.is_gone(vertex))
    }

    /// Ranks that wait for some that may go on, but do not come.
    fn slow(&self, released: &[bool]) -> Vec<String> {
        let waits = |vertex: usize| released[vertex] && !self.needs[vertex].is_empty();
        let root = |vertex: usize| released[vertex] && self.needs[vertex].is_empty();
        self.parts(waits, root)
    }

    /// One sentence for each connected part of the vertices that `waits`, about the `root`s that it leads to.
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
        let mut sentences: Vec<(u32, String)> = Vec::new();
        for Part { mut waiting, roots, indirect } in parts.into_values() {
            let culprits: Vec<u32> = roots.values().flatten().copied().collect();
            waiting.retain(|rank| !culprits.contains(rank));
            if waiting.is_empty() || culprits.is_empty() {
                continue;
            }
            let verb = if waiting.len() == 1 { "waits" } else { "wait" };
            let through = if indirect && waiting.len() > 1 { ", some through each other," } else { "" };
            let whom = roots.iter().map(|(state, roots)| {
                let state = if roots.len() == 1 { state.clone() } else { plural(state) };
                format!("{}, which {state}", ranks(roots))
            });
            let whom = whom.collect::<Vec<_>>().join("; and for ");
            sentences.push((waiting[0], format!("{} {verb}{through} for {whom}", ranks(&waiting))));
        }
        sentences.sort_unstable();
        sentences.into_iter().map(|(_, sentence)| sentence).collect()
    }

    fn state(&self, rank: u32) -> String {
        match &self.job[&rank] {
            Doing::Runs(state) | Doing::Gone(state) => state.clone(),
            Doing::Finalizes(_) => "is in MPI_Finalize and sends nothing any more".to_owned(),
            Doing::Waits(_, what) => format!("waits ({what})"),
        }
    }

    /// Ranks that wait for each other, and those that wait for them.
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
        let rest: Vec<u32> = rest.filter_map(|vertex| self.rank(vertex)).collect();
        if !rest.is_empty() && !sentences.is_empty() {
            let verb = if rest.len() == 1 { "waits" } else { "wait" };
            sentences.push(format!("{} {verb} for these", ranks(&rest)));
        }
        sentences
    }

    fn rank(&self, vertex: usize) -> Option<u32> {
        match self.vertices[vertex] {
            Vertex::Rank(rank) | Vertex::Gone(rank) => Some(rank),
            Vertex::Any => None,
        }
    }

    /// The sentence about a set of vertices that all lead to each other.
    fn circle(&self, component: &[usize]) -> String {
        let members: Vec<u32> = component.iter().filter_map(|vertex| self.rank(*vertex)).collect();
        let what = |rank: u32| match &self.job[&rank] {
            Doing::Waits(_, what) => what.clone(),
            Doing::Finalizes(_) => "in MPI_Finalize".to_owned(),
            Doing::Runs(state) | Doing::Gone(state) => state.clone(),
        };
        if let [one] = members[..] {
            return format!("rank {one} waits for itself: {}", what(one));
        }
        let is_any = component.iter().any(|vertex| self.vertices[*vertex] == Vertex::Any);
        let path = self.shortest_circle(component);
        if is_any || path.len() > CIRCLE_MAX {
            return format!("{} wait for each other, and nobody else can help them", ranks(&members));
        }
        let steps: Vec<String> = path.iter().map(|rank| format!("rank {rank} ({})", what(*rank))).collect();
        let circle = format!("deadlock: {} → rank {}", steps.join(" → "), path[0]);
        if path.len() == members.len() {
            return circle;
        }
        format!("{circle}; {} wait for each other", ranks(&members))
    }

    /// The ranks of a shortest circle through the first of a component's vertices.
    fn shortest_circle(&self, component: &[usize]) -> Vec<u32> {
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

    /// The strongly connected components of the vertices that `stuck` (Tarjan, 1972), with a stack of its
    /// own: a job may be a long chain.
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

/// The same of several: `is outside` becomes `are outside`.
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
