//! Exchanges with neighbours, and with all processes of another group.

use weft_plan::collective::{
    Blocks, ExchangeBetween, NeighbourExchange, Parts, TypedBlocks, exchange_between, neighbour_exchange,
};
use weft_plan::topology::{Dimension, Grid};

use crate::interpreter::{Memory, Process, Type, run};
use crate::{no_op, pattern, types};

/// The form in which an operation describes its blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
}

const FORMS: [Form; 5] = [Form::Allgather, Form::Allgatherv, Form::Alltoall, Form::Alltoallv, Form::Alltoallw];

/// Items of 4 bytes that travel from index `at` of process `from`.
fn items(form: Form, from: u32, at: usize) -> u64 {
    match form {
        Form::Allgather | Form::Alltoall => 3,
        Form::Allgatherv => u64::from(from % 3),
        Form::Alltoallv | Form::Alltoallw => (from as u64 + at as u64 * 5) % 4,
    }
}

/// The content of these items.
fn content(form: Form, from: u32, at: usize) -> Vec<u8> {
    let index = if matches!(form, Form::Allgather | Form::Allgatherv) { 0 } else { at as u64 };
    pattern(u64::from(from) * 1000 + index, 4 * items(form, from, at))
}

/// Blocks with these numbers of items, and their memory: with these contents, or with room for them.
struct Side {
    types: Vec<Type>,
    counts: Vec<u64>,
    at: Vec<i64>,
    sizes: Vec<u64>,
}

impl Side {
    fn new(form: Form, rank: u32, counts: Vec<u64>) -> Self {
        let all = types();
        let kind = |index: usize| {
            all[if form == Form::Alltoallw { index + rank as usize } else { rank as usize } % all.len()].clone()
        };
        let types: Vec<Type> = (0..counts.len()).map(kind).collect();
        let consecutive = matches!(form, Form::Allgather | Form::Alltoall);
        let at =
            |index: usize| if consecutive { index as i64 * 3 * types[index].extent } else { index as i64 * 20_000 };
        let at = (0..counts.len()).map(at).collect();
        Self { sizes: vec![4; counts.len()], types, counts, at }
    }

    fn parts(&self, form: Form, is_send: bool) -> Parts<'_> {
        let kind = self.types.first().cloned().unwrap_or_else(Type::bytes);
        let blocks = Blocks { counts: &self.counts, displacements: &self.at, item_size: kind.size() };
        match form {
            Form::Allgather | Form::Allgatherv if is_send => {
                Parts::Same(kind.items(self.counts.first().copied().unwrap_or(0)))
            }
            Form::Allgather | Form::Alltoall => Parts::Consecutive(kind.items(3)),
            Form::Allgatherv | Form::Alltoallv => Parts::Listed(blocks),
            Form::Alltoallw => {
                Parts::Typed(TypedBlocks { counts: &self.counts, displacements: &self.at, item_sizes: &self.sizes })
            }
        }
    }

    fn memory(&self, contents: impl Fn(usize) -> Option<Vec<u8>>, same_index: bool) -> Memory {
        let mut memory = Memory::default();
        for index in 0..self.counts.len() {
            let at = if same_index { 0 } else { self.at[index] };
            match contents(index) {
                Some(bytes) => memory.put(&self.types[index], at, self.counts[index], &bytes),
                None => memory.allow(&self.types[index], at, self.counts[index]),
            }
        }
        memory
    }
}

/// The neighbours of one process.
#[derive(Default)]
struct Lists {
    sources: Vec<Option<u32>>,
    destinations: Vec<Option<u32>>,
}

/// Runs one operation in a graph. `arrives(rank, index)` names the block and its sender that belong at an
/// index of the receive buffer.
fn check(
    label: &str,
    form: Form,
    lists: &[Lists],
    is_grid: bool,
    arrives: impl Fn(u32, usize) -> Option<(u32, usize)>,
) {
    let (mut processes, mut expected) = (Vec::new(), Vec::new());
    for (rank, of) in (0..).zip(lists) {
        let sent = (0..of.destinations.len()).map(|at| items(form, rank, at)).collect();
        let send = Side::new(form, rank, sent);
        let received = |index| arrives(rank, index).map_or(3, |(from, at)| items(form, from, at));
        let receive = Side::new(form, rank + 1, (0..of.sources.len()).map(received).collect());
        let arguments = NeighbourExchange {
            rank,
            sources: &of.sources,
            destinations: &of.destinations,
            is_grid,
            send: send.parts(form, true),
            receive: receive.parts(form, false),
        };
        let same = matches!(form, Form::Allgather | Form::Allgatherv);
        let sent = send.memory(|at| Some(content(form, rank, at)), same);
        let room = receive.memory(|_| None, false);
        expected.push(receive.memory(|index| arrives(rank, index).map(|(from, at)| content(form, from, at)), false));
        let first = |side: &Side| side.types.first().cloned().unwrap_or_else(Type::bytes);
        let (send_type, receive_type) = (first(&send), first(&receive));
        let mut process = Process::new(neighbour_exchange(&arguments), (sent, &send_type), (room, &receive_type));
        (process.send_types, process.receive_types) = (send.types, receive.types);
        processes.push(process);
    }
    assert_eq!(run(label, no_op, processes), expected, "{label}");
}

/// Random graphs, in which some edges occur several times and some lead from a process to itself. The k-th
/// edge from one process to another in the sender's list matches the k-th in the receiver's (MPI-5.0 §8.6).
#[test]
fn neighbours_in_any_graph_get_each_others_blocks() {
    for seed in 0..60 {
        let size = 1 + seed % 7;
        let chance = pattern(u64::from(seed), u64::from(size * size) * 3);
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (index, number) in chance.iter().enumerate() {
            if number % 3 == 0 {
                edges.push((index as u32 % size, index as u32 / size % size));
            }
        }
        let mut lists: Vec<Lists> = (0..size).map(|_| Lists::default()).collect();
        edges.iter().for_each(|(from, to)| lists[*from as usize].destinations.push(Some(*to)));
        // The sources are in another order than the destinations.
        edges.sort_by_key(|(from, to)| (chance[(from * size + to) as usize], *from));
        edges.iter().for_each(|(from, to)| lists[*to as usize].sources.push(Some(*from)));
        for form in FORMS {
            let arrives = |rank: u32, index: usize| {
                let from = lists[rank as usize].sources[index]?;
                let before = lists[rank as usize].sources[..index].iter().filter(|other| **other == Some(from)).count();
                let destinations = lists[from as usize].destinations.iter().enumerate();
                let mut to_rank = destinations.filter(|(_, to)| **to == Some(rank)).map(|(at, _)| at);
                Some((from, to_rank.nth(before)?))
            };
            check(&format!("{form:?}, graph {seed} of {size}"), form, &lists, false, arrives);
        }
    }
}

/// Grids with borders, and with periodic dimensions of one, two and three processes: the code in MPI-5.0
/// §8.6.2.
#[test]
fn neighbours_in_a_grid_get_what_was_sent_their_way() {
    let lines: Vec<Dimension> =
        (1..=3).flat_map(|size| [false, true].map(|periodic| Dimension { size, periodic })).collect();
    let pairs = lines.iter().flat_map(|one| lines.iter().map(|other| vec![*one, *other]));
    for dimensions in lines.iter().map(|line| vec![*line]).chain(pairs) {
        let grid = Grid::new(dimensions.clone()).expect("it is small");
        let neighbours = |rank| -> Vec<Option<u32>> {
            let along = |dimension| <[_; 2]>::from(grid.shift(rank, dimension, 1));
            (0..dimensions.len()).flat_map(along).collect()
        };
        let of = |rank| Lists { sources: neighbours(rank), destinations: neighbours(rank) };
        let lists: Vec<Lists> = (0..grid.size()).map(of).collect();
        for form in FORMS {
            let arrives = |rank: u32, index: usize| {
                let (below, above) = grid.shift(rank, index / 2, 1);
                let from = if index.is_multiple_of(2) { below } else { above };
                from.map(|from| (from, index ^ 1))
            };
            check(&format!("{form:?} in {dimensions:?}"), form, &lists, true, arrives);
        }
    }
}

#[test]
fn groups_exchange_blocks_with_each_other() {
    for (first, second) in
        (1..=6).flat_map(|first| (1..=6).map(move |second| (first, second))).chain([(1, 40), (40, 3)])
    {
        for form in FORMS {
            let label = format!("{form:?} between {first} and {second}");
            let (mut processes, mut expected) = (Vec::new(), Vec::new());
            for number in 0..first + second {
                let is_first = number < first;
                let (rank, size, remote_size, others) =
                    if is_first { (number, first, second, first) } else { (number - first, second, first, 0) };
                let all = 0..remote_size as usize;
                let send = Side::new(form, number, all.clone().map(|at| items(form, number, at)).collect());
                let received = |index: usize| items(form, others + index as u32, rank as usize);
                let receive = Side::new(form, number + 1, all.map(received).collect());
                let arguments = ExchangeBetween {
                    rank,
                    size,
                    remote_size,
                    is_first,
                    send: send.parts(form, true),
                    receive: receive.parts(form, false),
                };
                let same = matches!(form, Form::Allgather | Form::Allgatherv);
                let sent = send.memory(|at| Some(content(form, number, at)), same);
                let room = receive.memory(|_| None, false);
                let arrived = |index: usize| Some(content(form, others + index as u32, rank as usize));
                expected.push(receive.memory(arrived, false));
                let schedule = exchange_between(&arguments);
                let mut process = Process::new(schedule, (sent, &send.types[0]), (room, &receive.types[0]));
                (process.send_types, process.receive_types) = (send.types, receive.types);
                processes.push(process);
            }
            assert_eq!(run(&label, no_op, processes), expected, "{label}");
        }
    }
}
