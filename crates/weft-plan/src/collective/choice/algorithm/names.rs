//! The names of operations and algorithms in tables and settings.

use super::{Algorithm, Operation};
use crate::collective::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tree, WHOLE,
};
use alloc::format;
use alloc::string::{String, ToString};

impl Operation {
    /// The operation's name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scan => "scan",
        }
    }

    /// The algorithms of the operation, as a table names them: K is a number, S a segment's bytes.
    pub const fn algorithms(self) -> &'static str {
        match self {
            Self::Barrier => {
                "dissemination, binomial, k-nomial:K, k-ary:K, chain, linear, shared, multicast or two-level"
            }
            Self::Bcast => {
                "binomial, k-nomial:K, k-ary:K, chain, linear or double-tree, each with /S; scatter-dissemination, scatter-ring, shared, single-copy, multicast or two-level"
            }
            Self::Reduce => {
                "binomial, k-nomial:K, k-ary:K, chain, linear or double-tree, each with /S; halving, shared, single-copy or two-level"
            }
            Self::Allreduce => {
                "doubling, multiplying:K, halving, ring, shared, shared-shares, single-copy, multicast or two-level:K; binomial, k-nomial:K, k-ary:K, chain, linear or double-tree, each with /S"
            }
            Self::Gather | Self::Scatter => "linear, binomial or k-nomial:K",
            Self::Allgather => {
                "dissemination, doubling, ring, neighbour-exchange, linear, shared, single-copy, multicast or two-level"
            }
            Self::Alltoall => "bruck, pairwise:K, shared or single-copy",
            Self::ReduceScatter => "halving, pairwise or single-copy",
            Self::Scan => "doubling or chain/S",
        }
    }

    /// The algorithms worth comparing, of all that [`Self::algorithms`] allows. Where a candidate is not
    /// possible, the table's choice runs instead.
    pub const fn candidates(self) -> &'static [&'static str] {
        match self {
            Self::Barrier => &["dissemination", "binomial", "k-nomial:4", "linear", "two-level", "shared"],
            Self::Bcast => &[
                "binomial",
                "k-nomial:4",
                "k-nomial:8",
                "linear",
                "chain/16K",
                "chain/64K",
                "k-ary:2/16K",
                "double-tree/16K",
                "double-tree/64K",
                "scatter-dissemination",
                "scatter-ring",
                "two-level",
                "shared",
                "single-copy",
            ],
            Self::Reduce => &[
                "binomial",
                "k-nomial:4",
                "linear",
                "chain/16K",
                "chain/64K",
                "double-tree/16K",
                "double-tree/64K",
                "halving",
                "two-level",
                "shared",
                "single-copy",
            ],
            Self::Allreduce => &[
                "doubling",
                "multiplying:4",
                "multiplying:8",
                "halving",
                "ring",
                "linear",
                "binomial",
                "chain/64K",
                "double-tree/16K",
                "double-tree/64K",
                "two-level",
                "two-level:2",
                "two-level:4",
                "shared",
                "shared-shares",
                "single-copy",
            ],
            Self::Gather | Self::Scatter => &["linear", "binomial", "k-nomial:4", "k-nomial:8"],
            Self::Allgather => &[
                "dissemination",
                "doubling",
                "ring",
                "neighbour-exchange",
                "linear",
                "two-level",
                "shared",
                "single-copy",
            ],
            Self::Alltoall => &["bruck", "pairwise:1", "pairwise:4", "pairwise:32", "shared", "single-copy"],
            Self::ReduceScatter => &["halving", "pairwise", "single-copy"],
            Self::Scan => &["doubling", "chain/16K", "chain/64K"],
        }
    }

    /// The algorithm of a name.
    ///
    /// # Errors
    /// When there is no algorithm of this name: a sentence.
    pub fn parse(self, name: &str) -> Result<Algorithm, String> {
        let found = Written::parse(name).and_then(|written| self.of(written));
        found.ok_or_else(|| format!("there is no algorithm {name} of {}: it may be {}", self.name(), self.algorithms()))
    }

    fn of(self, written: Written<'_>) -> Option<Algorithm> {
        if let ("two-level", None) = (written.name, written.segment) {
            return match (self, written.number) {
                (Self::Barrier | Self::Bcast | Self::Reduce | Self::Allreduce | Self::Allgather, None) => {
                    Some(Algorithm::TwoLevel { leaders: 1 })
                }
                (Self::Allreduce, Some(leaders @ 1..=64)) => Some(Algorithm::TwoLevel { leaders }),
                _ => None,
            };
        }
        let plain = (written.number.is_none() && written.segment.is_none()).then_some(written.name);
        Some(match self {
            Self::Barrier => Algorithm::Barrier(match plain {
                Some("shared") => BarrierAlgorithm::Shared,
                Some("dissemination") => BarrierAlgorithm::Dissemination,
                Some("multicast") => BarrierAlgorithm::Multicast,
                _ if written.segment.is_none() => {
                    BarrierAlgorithm::Tree(written.tree().filter(|tree| *tree != Tree::DoubleBinary)?)
                }
                _ => return None,
            }),
            Self::Bcast => Algorithm::Bcast(match plain {
                Some("shared") => BcastAlgorithm::Shared,
                Some("single-copy") => BcastAlgorithm::SingleCopy,
                Some("scatter-dissemination") => BcastAlgorithm::ScatterDissemination,
                Some("scatter-ring") => BcastAlgorithm::ScatterRing,
                Some("multicast") => BcastAlgorithm::Multicast,
                _ => BcastAlgorithm::Tree { tree: written.tree()?, segment_bytes: written.segment_bytes() },
            }),
            Self::Reduce => Algorithm::Reduce(match plain {
                Some("shared") => ReduceAlgorithm::Shared,
                Some("single-copy") => ReduceAlgorithm::SingleCopy,
                Some("halving") => ReduceAlgorithm::Halving,
                _ => ReduceAlgorithm::Tree { tree: written.tree()?, segment_bytes: written.segment_bytes() },
            }),
            Self::Allreduce => Algorithm::Allreduce(match (plain, written.name, written.number) {
                (Some("shared"), ..) => AllreduceAlgorithm::Shared,
                (Some("single-copy"), ..) => AllreduceAlgorithm::SingleCopy,
                (Some("shared-shares"), ..) => AllreduceAlgorithm::SharedShares,
                (Some("doubling"), ..) => AllreduceAlgorithm::Doubling,
                (Some("multicast"), ..) => AllreduceAlgorithm::Multicast,
                (Some("halving"), ..) => AllreduceAlgorithm::Halving,
                (Some("ring"), ..) => AllreduceAlgorithm::Ring,
                (_, "multiplying", Some(radix @ 2..=64)) if written.segment.is_none() => {
                    AllreduceAlgorithm::Multiplying { radix }
                }
                _ => AllreduceAlgorithm::Tree { tree: written.tree()?, segment_bytes: written.segment_bytes() },
            }),
            Self::Gather | Self::Scatter => Algorithm::Gather(match (written.segment, written.tree()?) {
                (None, Tree::KNomial { radix }) => GatherAlgorithm::Tree { radix },
                (None, Tree::Linear) => GatherAlgorithm::Linear,
                _ => return None,
            }),
            Self::Allgather => Algorithm::Allgather(match plain? {
                "shared" => AllgatherAlgorithm::Shared,
                "single-copy" => AllgatherAlgorithm::SingleCopy,
                "dissemination" => AllgatherAlgorithm::Dissemination,
                "doubling" => AllgatherAlgorithm::Doubling,
                "ring" => AllgatherAlgorithm::Ring,
                "neighbour-exchange" => AllgatherAlgorithm::NeighbourExchange,
                "linear" => AllgatherAlgorithm::Linear,
                "multicast" => AllgatherAlgorithm::Multicast,
                _ => return None,
            }),
            Self::Alltoall => Algorithm::Alltoall(match (plain, written.name, written.number) {
                (Some("shared"), ..) => AlltoallAlgorithm::Shared,
                (Some("single-copy"), ..) => AlltoallAlgorithm::SingleCopy,
                (Some("bruck"), ..) => AlltoallAlgorithm::Bruck,
                (_, "pairwise", Some(outstanding @ 1..=1024)) if written.segment.is_none() => {
                    AlltoallAlgorithm::Exchange { outstanding: outstanding as usize }
                }
                _ => return None,
            }),
            Self::ReduceScatter => Algorithm::ReduceScatter(match plain? {
                "halving" => ReduceScatterAlgorithm::Halving,
                "pairwise" => ReduceScatterAlgorithm::Pairwise,
                "single-copy" => ReduceScatterAlgorithm::SingleCopy,
                _ => return None,
            }),
            Self::Scan => Algorithm::Scan(match (plain, written.name, written.number, written.segment) {
                (Some("doubling"), ..) => ScanAlgorithm::Doubling,
                (_, "chain", None, Some(segment_bytes)) => ScanAlgorithm::Chain { segment_bytes },
                _ => return None,
            }),
        })
    }
}

/// An algorithm as it is written: `name:number/segment`.
struct Written<'a> {
    name: &'a str,
    number: Option<u32>,
    segment: Option<u64>,
}

impl<'a> Written<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (text, segment) = match text.split_once('/') {
            Some((before, segment)) => (before, Some(size(segment).filter(|&bytes| bytes > 0)?)),
            None => (text, None),
        };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { name, number, segment })
    }

    fn tree(&self) -> Option<Tree> {
        Some(match (self.name, self.number) {
            ("binomial", None) => Tree::BINOMIAL,
            ("linear", None) => Tree::Linear,
            ("chain", None) => Tree::Chain,
            ("double-tree", None) => Tree::DoubleBinary,
            ("k-nomial", Some(radix @ 2..=1024)) => Tree::KNomial { radix },
            ("k-ary", Some(arity @ 1..=1024)) => Tree::KAry { arity },
            _ => return None,
        })
    }

    fn segment_bytes(&self) -> u64 {
        self.segment.unwrap_or(WHOLE)
    }
}

/// A number, with K or M behind it.
pub(in crate::collective::choice) fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()?.checked_mul(unit))?
}

/// Writes the algorithm as a table does.
impl core::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let tree = |tree: Tree| match tree {
            Tree::Linear => "linear".to_string(),
            Tree::Chain => "chain".to_string(),
            Tree::BINOMIAL => "binomial".to_string(),
            Tree::KNomial { radix } => format!("k-nomial:{radix}"),
            Tree::KAry { arity } => format!("k-ary:{arity}"),
            Tree::DoubleBinary => "double-tree".to_string(),
        };
        let segmented = |name: String, bytes: u64| if bytes == WHOLE { name } else { format!("{name}/{bytes}") };
        let text = match *self {
            Self::Barrier(BarrierAlgorithm::Shared)
            | Self::Bcast(BcastAlgorithm::Shared)
            | Self::Reduce(ReduceAlgorithm::Shared)
            | Self::Allreduce(AllreduceAlgorithm::Shared)
            | Self::Allgather(AllgatherAlgorithm::Shared)
            | Self::Alltoall(AlltoallAlgorithm::Shared) => "shared".to_string(),
            Self::Allreduce(AllreduceAlgorithm::SharedShares) => "shared-shares".to_string(),
            Self::Bcast(BcastAlgorithm::SingleCopy)
            | Self::Reduce(ReduceAlgorithm::SingleCopy)
            | Self::Allreduce(AllreduceAlgorithm::SingleCopy)
            | Self::Allgather(AllgatherAlgorithm::SingleCopy)
            | Self::Alltoall(AlltoallAlgorithm::SingleCopy)
            | Self::ReduceScatter(ReduceScatterAlgorithm::SingleCopy) => "single-copy".to_string(),
            Self::Barrier(BarrierAlgorithm::Dissemination) => "dissemination".to_string(),
            Self::Barrier(BarrierAlgorithm::Tree(one)) => tree(one),
            Self::Bcast(BcastAlgorithm::ScatterDissemination) => "scatter-dissemination".to_string(),
            Self::Bcast(BcastAlgorithm::ScatterRing) => "scatter-ring".to_string(),
            Self::Barrier(BarrierAlgorithm::Multicast)
            | Self::Bcast(BcastAlgorithm::Multicast)
            | Self::Allreduce(AllreduceAlgorithm::Multicast)
            | Self::Allgather(AllgatherAlgorithm::Multicast) => "multicast".to_string(),
            Self::Bcast(BcastAlgorithm::Tree { tree: one, segment_bytes })
            | Self::Reduce(ReduceAlgorithm::Tree { tree: one, segment_bytes })
            | Self::Allreduce(AllreduceAlgorithm::Tree { tree: one, segment_bytes }) => {
                segmented(tree(one), segment_bytes)
            }
            Self::Gather(GatherAlgorithm::Linear) | Self::Allgather(AllgatherAlgorithm::Linear) => "linear".to_string(),
            Self::Gather(GatherAlgorithm::Tree { radix }) => tree(Tree::KNomial { radix }),
            Self::Allgather(AllgatherAlgorithm::Dissemination) => "dissemination".to_string(),
            Self::Allgather(AllgatherAlgorithm::Doubling)
            | Self::Allreduce(AllreduceAlgorithm::Doubling)
            | Self::Scan(ScanAlgorithm::Doubling) => "doubling".to_string(),
            Self::Allgather(AllgatherAlgorithm::Ring) | Self::Allreduce(AllreduceAlgorithm::Ring) => "ring".to_string(),
            Self::Allgather(AllgatherAlgorithm::NeighbourExchange) => "neighbour-exchange".to_string(),
            Self::Alltoall(AlltoallAlgorithm::Bruck) => "bruck".to_string(),
            Self::Alltoall(AlltoallAlgorithm::Exchange { outstanding }) => format!("pairwise:{outstanding}"),
            Self::Reduce(ReduceAlgorithm::Halving)
            | Self::Allreduce(AllreduceAlgorithm::Halving)
            | Self::ReduceScatter(ReduceScatterAlgorithm::Halving) => "halving".to_string(),
            Self::Allreduce(AllreduceAlgorithm::Multiplying { radix }) => format!("multiplying:{radix}"),
            Self::ReduceScatter(ReduceScatterAlgorithm::Pairwise) => "pairwise".to_string(),
            Self::Scan(ScanAlgorithm::Chain { segment_bytes }) => segmented("chain".to_string(), segment_bytes),
            Self::TwoLevel { leaders: 1 } => "two-level".to_string(),
            Self::TwoLevel { leaders } => format!("two-level:{leaders}"),
        };
        f.write_str(&text)
    }
}
