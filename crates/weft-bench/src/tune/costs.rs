//! `weft tune --costs`: measures each protocol of large messages between two ranks of this node, and writes
//! the costs by which Weft chooses between them (`WEFT_COSTS`).
//!
//! Each protocol has a job of its own, with made-up costs by which the library takes no other. Half a round
//! trip of each size, less that of a small message, is the cost of the protocol. A straight line through
//! these costs gives the fixed part, and the part of each byte.

use std::path::{Path, PathBuf};
use std::time::Instant;

use weft_mpi::engine::protocols::{COST_PS_MAX, Cost, CostModel, Explained};

use super::{Arguments, Job, LIMIT_SECONDS};
use crate::measure::library::Mpi;
use crate::measure::progress::Progress;

/// The sizes to which lines are fitted, in bytes.
const LARGE: [u64; 7] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// The size whose time is no cost of a byte, and two sizes that go through a ring in one piece, in bytes.
const SMALL: [u64; 3] = [8, 1 << 10, 8 << 10];
/// A cost for each byte by which no other protocol is dearer.
const DEAR_PER_BYTE: u64 = 1_000_000;
/// Picoseconds of a microsecond.
const PS: f64 = 1e6;

/// A protocol that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measured {
    /// Through a ring, without a question.
    Pipeline,
    /// Through a ring, asked for.
    ClearToSend,
    /// Copied by the kernel for the receiver.
    Fetch,
    /// Copied by the kernel for both sides.
    Cooperate,
}

impl Measured {
    const ALL: [Self; 4] = [Self::Pipeline, Self::ClearToSend, Self::Fetch, Self::Cooperate];

    const fn name(self) -> &'static str {
        match self {
            Self::Pipeline => "through the ring",
            Self::ClearToSend => "through the ring, asked for",
            Self::Fetch => "copied by the receiver",
            Self::Cooperate => "copied by both sides",
        }
    }

    /// Costs by which two ranks that wait for each other take this protocol, and the eager limit with it.
    fn forced(self) -> (CostModel, Option<u64>) {
        let ring = |per_byte_ps| CostModel {
            // The kernel may copy, so that both sides know of each other.
            kernel_copy_ps: 0,
            kernel_copy_per_byte_ps: DEAR_PER_BYTE,
            cooperative_copy_ps: COST_PS_MAX,
            cooperative_copy_per_byte_ps: DEAR_PER_BYTE,
            ring_in_turn_per_byte_ps: DEAR_PER_BYTE + 1,
            ring_near_per_byte_ps: per_byte_ps,
            ring_far_per_byte_ps: per_byte_ps,
            ring_ahead_per_byte_ps: 0,
            ring_answer_ps: COST_PS_MAX,
            ..CostModel::BUILT_IN
        };
        let kernel = CostModel { kernel_copy_per_byte_ps: 1, ..ring(DEAR_PER_BYTE) };
        match self {
            Self::Pipeline => (ring(1), None),
            Self::ClearToSend => {
                (CostModel { ring_ahead_per_byte_ps: DEAR_PER_BYTE, ring_answer_ps: 0, ..ring(1) }, Some(0))
            }
            Self::Fetch => (kernel, None),
            Self::Cooperate => (CostModel { cooperative_copy_ps: 0, cooperative_copy_per_byte_ps: 0, ..kernel }, None),
        }
    }
}

/// The microseconds of half a round trip, by size.
type Times = Vec<(u64, f64)>;

/// Measures all protocols, and writes the costs. `program` is the measuring program.
///
/// # Errors
/// One sentence: a protocol could not be measured, or the file not written.
pub(super) fn tune(arguments: &Arguments, mpi: &Mpi, program: &Path, output: &Path) -> Result<(), String> {
    let progress = Progress::new(Measured::ALL.len(), arguments.quiet);
    let mut times = Vec::new();
    for protocol in Measured::ALL {
        progress.begin(protocol.name());
        let began = Instant::now();
        let measured = measure(arguments, mpi, program, protocol);
        progress.end(protocol.name(), began.elapsed(), measured.as_ref().err().map(String::as_str));
        times.push(measured.map_err(|why| format!("{}: {why}", protocol.name()))?);
    }
    progress.finish();
    let [pipeline, clear_to_send, fetch, cooperate] = &times[..] else { unreachable!("one for each protocol") };
    let model = model(pipeline, clear_to_send, fetch, cooperate)?;
    let machine = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = machine.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("").trim();
    let text = format!(
        "# Written by `weft tune --costs` on {}: picoseconds of moving messages on one node.\n{}",
        processor.trim_start_matches(':').trim(),
        Explained(&model)
    );
    // The library must be able to read what is written.
    text.parse::<CostModel>().map_err(|why| format!("the costs would not be understood: {why}"))?;
    std::fs::write(output, text).map_err(|error| format!("{}: {error}", output.display()))?;
    if !arguments.quiet {
        let file = output.display();
        crate::out::say!("WEFT_COSTS={file} uses them; `weft info` then says which protocol each size takes");
    }
    Ok(())
}

/// A file of costs that is removed again.
struct Forced(PathBuf);

impl Forced {
    fn write(model: &CostModel) -> Result<Self, String> {
        let file = crate::measure::cache()?.join(format!("costs-{}", std::process::id()));
        std::fs::write(&file, model.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self(file))
    }
}

impl Drop for Forced {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn measure(arguments: &Arguments, mpi: &Mpi, program: &Path, protocol: Measured) -> Result<Times, String> {
    let (costs, eager_limit) = protocol.forced();
    let costs = Forced::write(&costs)?;
    let mut settings = vec![("WEFT_COSTS".to_owned(), costs.0.display().to_string())];
    settings.extend(eager_limit.map(|limit| ("WEFT_EAGER_LIMIT".to_owned(), limit.to_string())));
    let sizes: Vec<u64> = SMALL.into_iter().chain(LARGE).collect();
    let job = Job { ranks: 2, limit_seconds: LIMIT_SECONDS, what: "pingpong", sizes: &sizes, settings };
    let (place, times) = super::measure(arguments, mpi, program, &job)?;
    if (place.ranks, place.nodes) != (2, 1) {
        return Err("the two ranks are not on one node".into());
    }
    Ok(times)
}

/// The costs that follow from the times of each protocol.
///
/// # Errors
/// A size is missing.
fn model(pipeline: &Times, clear_to_send: &Times, fetch: &Times, cooperate: &Times) -> Result<CostModel, String> {
    let at = |times: &Times, bytes: u64| {
        let found = times.iter().find(|(size, _)| *size == bytes);
        found.map(|(_, time)| *time).ok_or_else(|| format!("the time of {bytes} bytes is missing"))
    };
    let least = at(pipeline, SMALL[0])?;
    let costs = |times: &Times| -> Result<Vec<(f64, f64)>, String> {
        LARGE.iter().map(|bytes| Ok((*bytes as f64, (at(times, *bytes)? - least).max(0.0)))).collect()
    };
    let (kernel, cooperative) = (line(&costs(fetch)?), line(&costs(cooperate)?));
    let (asked, ahead) = (line(&costs(clear_to_send)?), slope(&costs(pipeline)?));
    let in_turn = (at(pipeline, SMALL[2])? - at(pipeline, SMALL[1])?) / (SMALL[2] - SMALL[1]) as f64;
    let built_in = CostModel::BUILT_IN;
    let near = asked.per_byte_ps;
    Ok(CostModel {
        kernel_copy_ps: kernel.fixed_ps,
        kernel_copy_per_byte_ps: kernel.per_byte_ps,
        cooperative_copy_ps: cooperative.fixed_ps,
        cooperative_copy_per_byte_ps: cooperative.per_byte_ps,
        // Both copies are made whatever the order.
        ring_in_turn_per_byte_ps: ps(in_turn).max(near),
        ring_near_per_byte_ps: near,
        // The two ranks have shown one kind of pair.
        ring_far_per_byte_ps: near * built_in.ring_far_per_byte_ps / built_in.ring_near_per_byte_ps,
        ring_ahead_per_byte_ps: ps(ahead).saturating_sub(near),
        ring_answer_ps: asked.fixed_ps,
        ..built_in
    })
}

fn ps(microseconds: f64) -> u64 {
    (microseconds.max(0.0) * PS).round() as u64
}

/// The line that is nearest to these costs, of (bytes, microseconds), as ratios go. None of its parts is
/// below zero.
fn line(costs: &[(f64, f64)]) -> Cost {
    let sum = |of: fn(f64, f64) -> f64| costs.iter().map(|&(x, y)| of(x, y) / (y * y).max(f64::MIN_POSITIVE)).sum();
    let (w, x, y): (f64, f64, f64) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (xx, xy): (f64, f64) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let fixed = (xx * y - x * xy) / (w * xx - x * x);
    if fixed.is_finite() && fixed > 0.0 {
        let per_byte = (xy - fixed * x) / xx;
        if per_byte > 0.0 {
            return Cost { fixed_ps: ps(fixed), per_byte_ps: ps(per_byte) };
        }
    }
    Cost { fixed_ps: 0, per_byte_ps: ps(slope(costs)) }
}

/// The microseconds of a byte by the line through zero that is nearest to these costs, as ratios go.
fn slope(costs: &[(f64, f64)]) -> f64 {
    let ratios: (f64, f64) = costs.iter().fold((0.0, 0.0), |(up, down), &(x, y)| {
        let y = y.max(f64::MIN_POSITIVE);
        (up + x / y, down + (x / y) * (x / y))
    });
    if ratios.1 > 0.0 { ratios.0 / ratios.1 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use weft_mpi::engine::protocols::{Choices, PeerClass, Protocol, RouteClass, Situation};

    use super::*;

    /// Two ranks that wait for each other, on a wide ring.
    fn taken(costs: CostModel, bytes: u64, eager_limit: u64) -> Protocol {
        let route = RouteClass::Ring { frame_max: 1 << 20, is_near: true, is_copied: true };
        let situation = Situation::BOTH_WAIT;
        let class = PeerClass { route, eager_limit };
        let ranges = Choices::new(costs).ranges(&class, &situation).to_vec();
        ranges.iter().find(|range| bytes <= range.bytes_max).expect("the last range has no end").protocol
    }

    #[test]
    fn each_protocol_can_be_forced() {
        for (protocol, expected) in Measured::ALL.into_iter().zip([
            Protocol::Pipeline,
            Protocol::ClearToSend,
            Protocol::Fetch,
            Protocol::Cooperate,
        ]) {
            let (costs, limit) = protocol.forced();
            assert_eq!(costs.to_string().parse(), Ok(costs), "a file can say it");
            for bytes in LARGE {
                let found = taken(costs, bytes, limit.unwrap_or(64 << 10));
                // What fits goes through the ring in the same way, under the other name.
                let found = if found == Protocol::Eager { Protocol::Pipeline } else { found };
                assert_eq!(found, expected, "{bytes} bytes");
            }
        }
    }

    /// Half round trips of a machine: a fixed part and a part for each byte, beyond 0.3 µs.
    fn times(fixed: f64, per_byte_ps: f64) -> Times {
        let sizes = SMALL.into_iter().chain(LARGE);
        sizes
            .map(|bytes| (bytes, 0.3 + if bytes > 8 { fixed } else { 0.0 } + bytes as f64 * per_byte_ps / PS))
            .collect()
    }

    /// Machines of two kinds, as they were measured.   Expect: their costs, and on each the quicker protocol.
    #[test]
    fn the_costs_of_a_machine_are_found() {
        let amd = model(&times(0.0, 44.0), &times(4.2, 36.0), &times(1.0, 84.0), &times(3.4, 48.0)).unwrap();
        assert_eq!((amd.kernel_copy_per_byte_ps, amd.ring_near_per_byte_ps, amd.ring_ahead_per_byte_ps), (84, 36, 8));
        let fixed =
            [(amd.kernel_copy_ps, 1_000_000), (amd.cooperative_copy_ps, 3_400_000), (amd.ring_answer_ps, 4_200_000)];
        assert!(fixed.iter().all(|(found, known)| found.abs_diff(*known) < 1_000), "{fixed:?}");
        let intel = model(&times(0.0, 62.0), &times(3.0, 62.0), &times(0.4, 33.0), &times(3.0, 33.0)).unwrap();
        for bytes in LARGE {
            assert_ne!(taken(amd, bytes, 64 << 10), Protocol::Fetch, "{bytes} bytes");
            assert_eq!(taken(intel, bytes, 64 << 10), Protocol::Fetch, "{bytes} bytes");
        }
    }

    #[test]
    fn a_line_has_no_part_below_zero() {
        assert_eq!(line(&[(1000.0, 1.0), (2000.0, 2.0), (4000.0, 4.0)]), Cost { fixed_ps: 0, per_byte_ps: 1000 });
        assert_eq!(line(&[(1000.0, 1.0), (2000.0, 3.0), (4000.0, 7.0)]).fixed_ps, 0);
        assert_eq!(
            line(&[(1000.0, 3.0), (2000.0, 4.0), (4000.0, 6.0)]),
            Cost { fixed_ps: 2_000_000, per_byte_ps: 1000 }
        );
        assert_eq!(line(&[(1000.0, 0.0), (2000.0, 0.0)]).fixed_ps, 0);
        assert!(model(&Times::new(), &Times::new(), &Times::new(), &Times::new()).is_err());
    }
}
