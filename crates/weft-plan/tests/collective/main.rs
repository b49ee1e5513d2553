//! Every collective operation, every algorithm, all ranks, compared with a naive result (MPI-5.0 chapter 6).

mod best;
mod clusters;
mod interpreter;
mod movement;
mod neighbours;
mod points;
mod reduction;
mod scale;

use interpreter::Type;
use weft_plan::collective::select::{Tree, WHOLE};

/// Returns whether every case is played (`make collectives`), or only those that are drawn by their names.
fn is_every_case_played() -> bool {
    std::env::var_os("WEFT_EVERY_COLLECTIVE").is_some_and(|value| !value.is_empty())
}

/// The number of cases of which one is played.
const DRAWN_OF: u64 = 8;

/// Returns whether a case is played: the same cases each time.
fn is_played(label: &str) -> bool {
    let draw = label
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |state: u64, byte| (state ^ byte as u64).wrapping_mul(0x100_0000_01B3));
    (draw >> 32) % DRAWN_OF == 0 || is_every_case_played()
}

/// Sizes of groups: all small ones, and sizes around larger powers of two.
fn sizes() -> impl Iterator<Item = u32> {
    let every = is_every_case_played();
    (1..=33).filter(move |size| every || *size <= 17 || *size == 24 || *size >= 31)
}

/// All roots of small groups, some of larger ones.
fn roots(size: u32) -> Vec<u32> {
    if size <= 9 {
        return (0..size).collect();
    }
    vec![0, 1, size / 2, size - 1]
}

/// Trees of every kind.
const TREES: [Tree; 6] = [
    Tree::BINOMIAL,
    Tree::Linear,
    Tree::Chain,
    Tree::KNomial { radix: 3 },
    Tree::KAry { arity: 2 },
    Tree::DoubleBinary,
];

/// Bytes of a segment: all, and few.
const SEGMENTS: [u64; 2] = [WHOLE, 13];

/// Returns whether a tree keeps the order of ranks.
fn is_ordered(tree: Tree) -> bool {
    !matches!(tree, Tree::KAry { .. } | Tree::DoubleBinary)
}

/// Datatypes of 4 packed bytes that differ in everything else.
fn types() -> Vec<Type> {
    vec![
        Type { blocks: vec![(0, 4)], extent: 4 },
        // Holes.
        Type { blocks: vec![(0, 2), (4, 2)], extent: 8 },
        // Far above its base.
        Type { blocks: vec![(100, 4)], extent: 5 },
        // Contiguous, but not at its base.
        Type { blocks: vec![(-12, 4)], extent: 4 },
        // Items downwards in memory.
        Type { blocks: vec![(0, 4)], extent: -6 },
        // Without holes, but in another order.
        Type { blocks: vec![(2, 2), (0, 2)], extent: 4 },
        // Items interleaved.
        Type { blocks: vec![(0, 2), (8500, 2)], extent: 2 },
    ]
}

/// A type of 8 packed bytes, so that two items of the other types describe the same data.
fn double() -> Type {
    Type { blocks: vec![(1, 3), (8, 5)], extent: 16 }
}

/// Bytes that differ from place to place.
fn pattern(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    weft_random::fill(weft_random::mix(seed + 1), 0, &mut bytes);
    bytes
}

/// No reduction belongs here.
fn no_op(_: &[u8], _: &mut [u8]) {
    panic!("a reduction in a collective operation that only moves data");
}
