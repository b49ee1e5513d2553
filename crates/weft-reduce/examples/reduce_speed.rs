//! Measures the speed of the reductions on this processor: GB/s of results, the best of many repetitions in
//! each size.
//!
//! ```sh
//! cargo run --release -p weft-reduce --example reduce_speed [PART OF "Op Kind"]
//! ```
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::Instant;

use weft_reduce::{Kind, Op, Pair, apply, combine, registers};

/// The bytes of each operand: for the first, second and last cache, and for memory.
const SIZES: [usize; 4] = [8 << 10, 128 << 10, 8 << 20, 64 << 20];
/// The bytes that one sample covers, and the number of samples.
const SAMPLE: usize = 32 << 20;
const SAMPLES: usize = 5;

const KINDS: [Kind; 22] = [
    Kind::Int8,
    Kind::Int16,
    Kind::Int32,
    Kind::Int64,
    Kind::Int128,
    Kind::UInt8,
    Kind::UInt16,
    Kind::UInt32,
    Kind::UInt64,
    Kind::Float16,
    Kind::Float32,
    Kind::Float64,
    Kind::LongDouble,
    Kind::ComplexFloat16,
    Kind::ComplexFloat32,
    Kind::ComplexFloat64,
    Kind::ComplexLongDouble,
    Kind::Pair(Pair::FloatInt),
    Kind::Pair(Pair::DoubleInt),
    Kind::Pair(Pair::TwoInt),
    Kind::Pair(Pair::ShortInt),
    Kind::Pair(Pair::LongDoubleInt),
];

fn best(bytes: usize, mut pass: impl FnMut()) -> f64 {
    let passes = (SAMPLE / bytes).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..passes {
            pass();
        }
        best = best.min(start.elapsed().as_secs_f64() / passes as f64);
    }
    bytes as f64 / best / 1e9
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let largest = *SIZES.last().expect("there are sizes");
    let (input, third) = (vec![0_u8; largest], vec![0_u8; largest]);
    let mut inout = vec![0_u8; largest];
    inout.fill(1);
    inout.fill(0);
    println!("registers: {}; GB/s of results", registers());
    println!("{:34}{:>9}{:>9}{:>9}{:>9}", "bytes of an operand", "8 KB", "128 KB", "8 MB", "64 MB");
    let copied = SIZES.map(|bytes| best(bytes, || black_box(&mut inout[..bytes]).copy_from_slice(&input[..bytes])));
    line("copy", copied);
    for kind in KINDS {
        for op in Op::ALL.into_iter().filter(|op| kind.supports(*op) && !matches!(op, Op::Replace | Op::NoOp)) {
            let name = format!("{op:?} {kind:?}");
            if !name.contains(&wanted) {
                continue;
            }
            line(
                &name,
                SIZES.map(|bytes| best(bytes, || apply(op, kind, &input[..bytes], black_box(&mut inout[..bytes])))),
            );
            if (op, kind) == (Op::Sum, Kind::Float64) {
                let three = SIZES.map(|bytes| {
                    best(bytes, || combine(op, kind, &input[..bytes], &third[..bytes], black_box(&mut inout[..bytes])))
                });
                line(&format!("{name}, three operands"), three);
                let unaligned = SIZES.map(|bytes| {
                    best(bytes, || apply(op, kind, &input[5..bytes - 3], black_box(&mut inout[3..bytes - 5])))
                });
                line(&format!("{name}, unaligned"), unaligned);
            }
        }
    }
}

fn line(name: &str, speeds: [f64; SIZES.len()]) {
    print!("{name:34}");
    for speed in speeds {
        print!("{speed:9.1}");
    }
    println!();
}
