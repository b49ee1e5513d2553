//! The choice of algorithms: a table of rules, and pure functions that look into it. The algorithms
//! themselves know nothing of this choice.
//!
//! The choice depends only on numbers that every rank of the operation has, so all ranks choose the same. The
//! head of the built-in table (`choice.table`) says how a table is written.

mod algorithm;
mod facts;
mod table;

use super::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm,
};
pub use algorithm::{Algorithm, Operation};
use alloc::format;
use alloc::vec::Vec;
pub use facts::{Facts, Layout, Multicast, Place};
use table::Rule;
pub use table::Table;
use weft_core::fingerprint;

/// The text of the built-in table of rules.
pub const BUILT_IN: &str = include_str!("choice.table");

/// The source of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A setting asks for the algorithm.
    Forced,
    /// The user's table decides.
    Users,
    /// The built-in table decides.
    BuiltIn,
}

/// The algorithms that settings ask for, the user's table, and the built-in table: in this order.
#[derive(Clone, Debug)]
pub struct Choices {
    forced: Vec<(Operation, Algorithm)>,
    users: Table,
    built_in: Table,
    /// Reductions combine in the same order wherever ranks are.
    same_everywhere: bool,
}

impl Choices {
    /// Choices by the built-in table alone, which is read anew for each choice.
    pub const fn without_settings() -> Self {
        Self {
            forced: Vec::new(),
            users: Table { rules: Vec::new() },
            built_in: Table { rules: Vec::new() },
            same_everywhere: false,
        }
    }

    /// Choices by these algorithms wherever they are possible, and by this table elsewhere.
    ///
    /// # Panics
    /// When the built-in table makes no sense: a test rules this out.
    pub fn new(forced: Vec<(Operation, Algorithm)>, users: Table) -> Self {
        let built_in = Table::parse(BUILT_IN).expect("the built-in table makes sense");
        Self { forced, users, built_in, same_everywhere: false }
    }

    /// Sets whether reductions combine operands in an order that depends on the number of ranks only, and not
    /// on the places of the ranks (MPI-5.0 §6.9.1, advice to implementors).
    pub fn with_one_order(self, same_everywhere: bool) -> Self {
        Self { same_everywhere, ..self }
    }

    /// Returns whether the order of operands depends on the number of ranks and bytes only.
    pub fn has_one_order(&self) -> bool {
        self.same_everywhere
    }

    /// A number that differs where choices could differ, but for an accident of one in 2⁶⁴.
    pub fn digest(&self) -> u64 {
        let text = format!("{:?}{:?}{}{BUILT_IN}", self.forced, self.users, self.same_everywhere);
        fingerprint::add(fingerprint::EMPTY, text.as_bytes())
    }

    /// Returns whether a setting asks for multicast wherever the operation can be multicast.
    pub fn asks_for_multicast(&self, operation: Operation) -> bool {
        self.forced.iter().any(|(of, algorithm)| *of == operation && algorithm.is_multicast())
    }

    /// Returns whether an operation may be multicast, for some length and place.
    pub fn may_multicast(&self, operation: Operation) -> bool {
        let of_table =
            |table: &Table| table.rules.iter().any(|rule| rule.operation == operation && rule.algorithm.is_multicast());
        self.asks_for_multicast(operation) || of_table(&self.users) || of_table(&self.built_in)
    }

    /// The algorithm for a case, and the source of the choice.
    ///
    /// # Panics
    /// When the built-in table has no line for the case: a test rules this out.
    pub fn choose(&self, operation: Operation, facts: &Facts) -> (Algorithm, Source) {
        let apart = Facts { place: Place::apart(facts.ranks), ..*facts };
        let facts = if self.same_everywhere && operation.is_reduction() { &apart } else { facts };
        let multicast = Algorithm::Bcast(BcastAlgorithm::Multicast);
        let is_asked = operation == Operation::Bcast && facts.place.multicast == Multicast::Asked;
        if is_asked && multicast.is_possible(operation, facts) {
            return (multicast, Source::Forced);
        }
        let forced =
            self.forced.iter().find(|(of, algorithm)| *of == operation && algorithm.is_possible(operation, facts));
        if let Some((_, algorithm)) = forced {
            return (*algorithm, Source::Forced);
        }
        if let Some(algorithm) = self.users.choose(operation, facts) {
            return (algorithm, Source::Users);
        }
        (self.built_in.choose(operation, facts).unwrap_or_else(|| built_in(operation, facts)), Source::BuiltIn)
    }
}

/// The algorithm by the built-in table alone, of which only the lines of the operation are read: for rare
/// cases.
pub(super) fn built_in(operation: Operation, facts: &Facts) -> Algorithm {
    let lines = BUILT_IN.lines().filter(|line| line.split_whitespace().next() == Some(operation.name()));
    let mut rules = lines.filter_map(|line| Rule::parse(line).ok().flatten());
    let rule = rules.find(|rule| rule.fits(operation, facts));
    rule.expect("there is a line for every case").algorithm
}

/// Chooses by the built-in table, for processes that are each on a node of their own.
macro_rules! chosen {
    ($operation:ident, $kind:ident, $ranks:expr, $bytes:expr, $commutative:expr) => {
        chosen!(built_in, $operation, $kind, $ranks, $bytes, $commutative)
    };
    ($choose:expr, $operation:ident, $kind:ident, $ranks:expr, $bytes:expr, $commutative:expr) => {{
        let (ranks, bytes, commutative) = ($ranks, $bytes, $commutative);
        let facts = Facts { ranks, bytes, commutative, place: Place::apart(ranks) };
        match $choose(Operation::$operation, &facts) {
            Algorithm::$kind(algorithm) => algorithm,
            other => unreachable!("{other} is for another operation"),
        }
    }};
}

/// The algorithm for messages without contents.
pub fn barrier(size: u32) -> BarrierAlgorithm {
    chosen!(Barrier, Barrier, size, 0, true)
}

/// The algorithm for `bytes` in all.
pub fn bcast(size: u32, bytes: u64) -> BcastAlgorithm {
    chosen!(Bcast, Bcast, size, bytes, true)
}

/// The same choices as those of the functions of these names, by a table that has been read already.
impl Choices {
    fn apart(&self, operation: Operation, facts: &Facts) -> Algorithm {
        self.built_in.choose(operation, facts).unwrap_or_else(|| built_in(operation, facts))
    }

    /// The choice of [`bcast`].
    pub fn bcast_apart(&self, size: u32, bytes: u64) -> BcastAlgorithm {
        chosen!(|operation, facts| self.apart(operation, facts), Bcast, Bcast, size, bytes, true)
    }

    /// The choice of [`allreduce`].
    pub fn allreduce_apart(&self, size: u32, bytes: u64, commutative: bool) -> AllreduceAlgorithm {
        chosen!(|operation, facts| self.apart(operation, facts), Allreduce, Allreduce, size, bytes, commutative)
    }

    /// The choice of [`allgather`].
    pub fn allgather_apart(&self, size: u32, total_bytes: u64) -> AllgatherAlgorithm {
        chosen!(|operation, facts| self.apart(operation, facts), Allgather, Allgather, size, total_bytes, true)
    }
}

/// The algorithm for `bytes` from each rank.
pub fn reduce(size: u32, bytes: u64, commutative: bool) -> ReduceAlgorithm {
    chosen!(Reduce, Reduce, size, bytes, commutative)
}

/// The algorithm for `bytes` from each rank.
pub fn allreduce(size: u32, bytes: u64, commutative: bool) -> AllreduceAlgorithm {
    chosen!(Allreduce, Allreduce, size, bytes, commutative)
}

/// The algorithm for `block_bytes` from each rank.
pub fn gather(size: u32, block_bytes: u64) -> GatherAlgorithm {
    chosen!(Gather, Gather, size, block_bytes, true)
}

/// The algorithm for `block_bytes` to each rank.
pub fn scatter(size: u32, block_bytes: u64) -> GatherAlgorithm {
    chosen!(Scatter, Gather, size, block_bytes, true)
}

/// The algorithm for `total_bytes` at the end at each rank; also for blocks of different lengths.
pub fn allgather(size: u32, total_bytes: u64) -> AllgatherAlgorithm {
    chosen!(Allgather, Allgather, size, total_bytes, true)
}

/// The algorithm for `block_bytes` between each two ranks.
pub fn alltoall(size: u32, block_bytes: u64) -> AlltoallAlgorithm {
    chosen!(Alltoall, Alltoall, size, block_bytes, true)
}

/// The algorithm for `bytes` from each rank; scan and exscan.
pub fn scan(size: u32, bytes: u64) -> ScanAlgorithm {
    chosen!(Scan, Scan, size, bytes, true)
}

/// The algorithm for `total_bytes` from each rank.
pub fn reduce_scatter(size: u32, total_bytes: u64) -> ReduceScatterAlgorithm {
    chosen!(ReduceScatter, ReduceScatter, size, total_bytes, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn facts(ranks: u32, bytes: u64, commutative: bool) -> Facts {
        Facts { ranks, bytes, commutative, place: Place::apart(ranks) }
    }

    #[test]
    fn the_built_in_table_has_a_line_for_every_case() {
        let choices = Choices::new(Vec::new(), Table::default());
        for operation in Operation::ALL {
            for ranks in (1..40).chain([1000, 1 << 20]) {
                for bytes in
                    [0, 1].into_iter().chain((0..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]))
                {
                    for commutative in [false, true] {
                        let facts = facts(ranks, bytes, commutative);
                        let (algorithm, source) = choices.choose(operation, &facts);
                        assert_eq!(source, Source::BuiltIn);
                        assert_eq!(algorithm, built_in(operation, &facts));
                        assert!(commutative || !algorithm.needs_commuting());
                    }
                }
            }
        }
    }

    #[test]
    fn what_an_algorithm_is_called_names_it() {
        let names = [
            (Operation::Barrier, "dissemination binomial k-nomial:4 k-ary:2 chain linear two-level"),
            (
                Operation::Bcast,
                "binomial k-nomial:3/100 double-tree/65536 scatter-ring scatter-dissemination chain/1 linear two-level",
            ),
            (Operation::Reduce, "halving binomial k-ary:2/4096 two-level"),
            (Operation::Allreduce, "doubling multiplying:4 halving ring double-tree/9 linear two-level two-level:4"),
            (Operation::Gather, "linear binomial k-nomial:4"),
            (Operation::Scatter, "linear binomial k-nomial:3"),
            (Operation::Allgather, "dissemination doubling ring neighbour-exchange linear two-level"),
            (Operation::Alltoall, "bruck pairwise:7"),
            (Operation::ReduceScatter, "halving pairwise"),
            (Operation::Scan, "doubling chain/100"),
        ];
        for (operation, names) in names {
            for name in names.split(' ') {
                assert_eq!(operation.parse(name).map(|algorithm| algorithm.to_string()), Ok(name.to_string()));
            }
        }
    }

    #[test]
    fn all_candidates_are_algorithms() {
        for operation in Operation::ALL {
            for name in operation.candidates() {
                // A name with K or M is printed in bytes, so the printed name is not compared.
                assert!(operation.parse(name).is_ok(), "{name} of {}", operation.name());
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_sentence_with_its_line() {
        let cases = [
            ("bcast binomial\n\nbcats linear", "line 3: there is no operation bcats: it may be barrier, bcast,"),
            ("bcast", "line 1: bcast has no algorithm"),
            ("bcast ranks=3 linear", "line 1: ranks=3 is no condition: "),
            ("bcast bytes<4G linear", "line 1: bytes<4G is no condition: "),
            ("bcast bytes<0 linear", "line 1: bytes<0 is no condition: "),
            ("bcast tree", "line 1: there is no algorithm tree of bcast: it may be binomial,"),
            (
                "alltoall pairwise",
                "line 1: there is no algorithm pairwise of alltoall: it may be bruck, pairwise:K, shared or",
            ),
            ("bcast chain/0", "line 1: there is no algorithm chain/0"),
            ("bcast k-nomial:1", "line 1: there is no algorithm k-nomial:1"),
            ("gather linear/4", "line 1: there is no algorithm linear/4"),
            ("reduce k-nomial:99999999999", "line 1: there is no algorithm"),
            ("gather two-level", "line 1: there is no algorithm two-level of gather"),
            ("bcast two-level:2", "line 1: there is no algorithm two-level:2 of bcast"),
        ];
        for (text, sentence) in cases {
            let said = Table::parse(text).map(|_| ()).unwrap_err();
            assert!(said.starts_with(sentence), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_asked_for_comes_before_tables_where_it_is_possible() {
        let ring = Operation::Allreduce.parse("ring").unwrap();
        let users =
            Table::parse("allreduce nodes>=2 ranks/node<=4 linear # few\nbcast commutative ranks>8 chain/1K").unwrap();
        let choices = Choices::new(alloc::vec![(Operation::Allreduce, ring)], users);
        let linear = Operation::Allreduce.parse("linear").unwrap();
        assert_eq!(choices.choose(Operation::Allreduce, &facts(4, 8, true)), (ring, Source::Forced));
        assert_eq!(choices.choose(Operation::Allreduce, &facts(4, 8, false)), (linear, Source::Users));
        assert_eq!(choices.choose(Operation::Bcast, &facts(8, 8, true)).1, Source::BuiltIn);
        assert_eq!(choices.choose(Operation::Bcast, &facts(9, 8, true)).1, Source::Users);
        let one_node = Facts { place: Place { oversubscribed: true, ..Place::together(4) }, ..facts(4, 8, false) };
        assert_eq!(choices.choose(Operation::Allreduce, &one_node), (linear, Source::BuiltIn));
    }

    #[test]
    fn two_levels_are_chosen_only_where_there_are_two_and_the_order_allows_it() {
        let two_level = Operation::Allreduce.parse("two-level:2").unwrap();
        let forced = Operation::ALL.map(|operation| (operation, two_level));
        let choices = Choices::new(forced.to_vec(), Table::default());
        let blocks = Layout::of(alloc::vec![0, 0, 1, 1]);
        let in_turns = Layout::of(alloc::vec![0, 1, 0, 1]);
        let in_order = Facts { place: *blocks.place(), ..facts(4, 8, false) };
        let commutes = Facts { place: *blocks.place(), ..facts(4, 8, true) };
        let mixed = Facts { place: *in_turns.place(), ..facts(4, 8, true) };
        let is_two_level = |operation, facts: &Facts| choices.choose(operation, facts).0 == two_level;
        assert!(is_two_level(Operation::Allreduce, &commutes) && is_two_level(Operation::Allgather, &commutes));
        assert!(is_two_level(Operation::Allreduce, &mixed) && !is_two_level(Operation::Allgather, &mixed));
        assert!(!is_two_level(Operation::Allreduce, &in_order) && is_two_level(Operation::Bcast, &in_order));
        for place in [Place::apart(4), Place::together(4)] {
            assert!(!is_two_level(Operation::Bcast, &Facts { place, ..commutes }), "{place:?}");
        }
        let choices = choices.with_one_order(true);
        assert_ne!(choices.choose(Operation::Allreduce, &commutes).0, two_level);
        assert_eq!(
            choices.choose(Operation::Allreduce, &commutes),
            choices.choose(Operation::Allreduce, &facts(4, 8, true))
        );
    }

    #[test]
    fn choices_that_differ_have_different_digests() {
        let table = |text| Choices::new(Vec::new(), Table::parse(text).unwrap());
        let forced =
            Choices::new(alloc::vec![(Operation::Bcast, Operation::Bcast.parse("chain").unwrap())], Table::default());
        let all =
            [table(""), table("bcast chain"), table("bcast ranks>2 chain"), forced, table("").with_one_order(true)];
        for (i, one) in all.iter().enumerate() {
            assert!(all.iter().enumerate().all(|(j, other)| (i == j) == (one.digest() == other.digest())), "{i}");
        }
        // The notation of a table makes no difference.
        assert_eq!(table("bcast  bytes<1K chain # quick").digest(), table("\nbcast bytes<1024 chain").digest());
    }
}
