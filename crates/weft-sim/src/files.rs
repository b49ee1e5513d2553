//! Collective accesses to a simulated file (MPI-5.0 §14.4.4), by chance from a seed: the steps of
//! `weft_plan::two_phase` are those of a job, and everything around them is simulated.
//!
//! Each process is a state machine that waits for messages, for the others, or for its own system call. A
//! seed draws who goes on next, so messages are as late and system calls as slow as can be. It also draws
//! views and data, and whether calls of one process fail: each of its transfers from one on, with a part of
//! its bytes moved. An oracle knows which bytes the file and the memory of each process may have at the end.

mod oracle;
mod play;

use std::ops::Range;

use weft_core::file_view::View;
use weft_core::layout::{Element, Layout};
use weft_plan::two_phase::{Policy, Wish};
use weft_random::{Random, mix};

pub use play::Played;

use crate::violation::Violation;

/// The most processes, and the most bytes of the data of one.
const PROCESSES_MAX: u64 = 8;
const BYTES_MAX: u64 = 600;
/// The most bytes of the file before the access.
const SIZE_MAX: u64 = 4000;
/// The most pieces of a tile of a view, the most bytes of one, and the most bytes of a hole.
const PIECES_MAX: u64 = 4;
const PIECE_MAX: u64 = 40;
const HOLE_MAX: u64 = 60;
/// One process fails in one of so many accesses, from one of its first transfers on.
const FAILS_PER_MILLION: u32 = 250_000;
const FAILS_BEFORE: u64 = 4;

/// The part of one process.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) view: View,
    /// The range of the view's data.
    pub(crate) data: Range<u64>,
    pub(crate) node: u32,
}

/// A collective access.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) writes: bool,
    pub(crate) is_atomic: bool,
    pub(crate) parts: Vec<Part>,
    /// The bytes of the file before.
    pub(crate) before: Vec<u8>,
    pub(crate) policy: Policy,
    /// The process that fails, and the number of its transfers that do not.
    pub(crate) fails: Option<(usize, u64)>,
    /// A process whose first transfer fails cannot even begin.
    pub(crate) fails_at_begin: bool,
}

impl Program {
    /// The process that cannot even begin.
    pub(crate) fn cannot_begin(&self) -> Option<usize> {
        self.fails.filter(|(_, before)| *before == 0 && self.fails_at_begin).map(|(rank, _)| rank)
    }
}

/// Plays the access of one seed.
///
/// # Errors
/// What it did wrong.
pub fn play_seed(seed: u64) -> Result<Played, Violation> {
    let mut random = Random::new(mix(seed ^ 0x6669_6c65_735f_696f));
    let program = draw(&mut random);
    play::play(&program, &mut random)
}

/// The program of a seed, for people.
pub fn describe(seed: u64) -> String {
    let program = draw(&mut Random::new(mix(seed ^ 0x6669_6c65_735f_696f)));
    let Program { writes, is_atomic, parts, before, policy, fails, .. } = &program;
    let what = if *writes { "write" } else { "read" };
    let mut text = format!(
        "{} processes {what} a file of {} bytes{}; {:?}, windows of {} bytes, stripes of {}; fails: {fails:?}",
        parts.len(),
        before.len(),
        if *is_atomic { " in atomic mode" } else { "" },
        policy.wish,
        policy.window,
        policy.stripe,
    );
    for (rank, part) in parts.iter().enumerate() {
        let mut runs = Vec::new();
        part.view.runs(part.data.clone(), &mut |offset, bytes| runs.push(format!("{offset}+{bytes}")));
        text += &format!("\n  rank {rank} on node {}: data {:?} at {}", part.node, part.data, runs.join(" "));
    }
    text
}

fn draw(random: &mut Random) -> Program {
    let processes = random.between(1, PROCESSES_MAX);
    let writes = random.chance(500_000);
    // Processes that share a pattern, each with its own pieces, are what programs do; the rest is by chance.
    let shares = random.chance(500_000);
    let piece = random.between(1, PIECE_MAX);
    let begin = random.below(HOLE_MAX);
    let nodes = random.between(1, 3);
    let part = |rank: u64, random: &mut Random| {
        let view = if shares { one_of(rank, processes, piece, begin) } else { any_view(random) };
        let bytes = if random.chance(100_000) { 0 } else { random.between(1, BYTES_MAX) };
        let first = if random.chance(500_000) { 0 } else { random.below(BYTES_MAX) };
        Part { view, data: first..first + bytes, node: random.below(nodes) as u32 }
    };
    let parts = (0..processes).map(|rank| part(rank, random)).collect();
    let policy = Policy {
        wish: random.pick(&[Wish::Automatic, Wish::Always, Wish::Always, Wish::Never]),
        run_ns: 700,
        exchanged_per_us: 2000,
        exchange_ns: random.pick(&[1000, 50_000]),
        aggregators_of_node: random.between(1, 4) as u32,
        aggregators_max: random.pick(&[1, 2, u32::MAX]),
        window: random.between(1, 500),
        stripe: random.between(1, 100),
    };
    let mut before = vec![0; random.below(SIZE_MAX) as usize];
    weft_random::fill(random.next(), 0, &mut before);
    let fails =
        random.chance(FAILS_PER_MILLION).then(|| (random.below(processes) as usize, random.below(FAILS_BEFORE)));
    let (is_atomic, fails_at_begin) = (random.chance(200_000), random.chance(300_000));
    Program { writes, is_atomic, parts, before, policy, fails, fails_at_begin }
}

/// The view of the process `rank` of `of`: each has a piece in turn.
fn one_of(rank: u64, of: u64, piece: u64, begin: u64) -> View {
    let layout = Layout::contiguous(piece, &Layout::element(Element::Byte)).expect("it is small");
    let tile = Layout::resized(&layout, 0, (piece * of) as i64).expect("it is small");
    View::new((begin + rank * piece) as i64, &Layout::element(Element::Byte), &tile).expect("it goes forwards")
}

/// A view of some pieces and holes, the last hole before the next tile.
fn any_view(random: &mut Random) -> View {
    let byte = Layout::element(Element::Byte);
    let begin = random.below(SIZE_MAX) as i64;
    if random.chance(300_000) {
        return View::new(begin, &byte, &byte).expect("bytes go forwards");
    }
    let (mut at, mut blocks) = (0, Vec::new());
    for _ in 0..random.between(1, PIECES_MAX) {
        at += random.below(HOLE_MAX);
        let bytes = random.between(1, PIECE_MAX);
        blocks.push((at as i64, bytes));
        at += bytes;
    }
    let tile = Layout::indexed(&blocks, &byte).expect("it is small");
    let tile = Layout::resized(&tile, 0, (at + random.below(HOLE_MAX)) as i64).expect("it is small");
    View::new(begin, &byte, &tile).expect("it goes forwards")
}
