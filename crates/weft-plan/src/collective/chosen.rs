//! Schedules by choice: an algorithm for each operation, chosen by facts that all ranks of a group share, and
//! two levels where those are chosen.

use super::choice::{Algorithm, Choices, Facts, Layout, Multicast, Operation, Place};
use super::plan::Plan;
use super::two_level::{self, Ends};
use super::*;

/// Plans the collectives of one group.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    /// The rules by which algorithms are chosen.
    pub choices: &'a Choices,
    /// The places of the processes of the group; the same at all of them.
    pub layout: &'a Layout,
}

/// A case: how many ranks, where, and the packed bytes as the table counts them.
#[derive(Clone, Copy)]
struct Case {
    ranks: u32,
    place: Place,
    bytes: u64,
    commutative: bool,
}

/// Returns the chosen algorithm, of the kind that the operation has.
macro_rules! chosen {
    ($chosen:expr, $operation:ident, $kind:ident, $case:expr) => {
        match $chosen.choose(Operation::$operation, $case) {
            Algorithm::$kind(algorithm) => algorithm,
            other => unreachable!("{other} is for another operation, or for another place"),
        }
    };
}

impl Chosen<'_> {
    fn choose(&self, operation: Operation, case: Case) -> Algorithm {
        let Case { ranks, place, bytes, commutative } = case;
        self.choices.choose(operation, &Facts { ranks, bytes, commutative, place }).0
    }

    /// The case of the whole group.
    fn whole(&self, ranks: u32, bytes: u64, commutative: bool) -> Case {
        Case { ranks, place: *self.layout.place(), bytes, commutative }
    }

    /// The case of the ranks on the node of `rank`.
    fn within(&self, rank: u32, bytes: u64) -> Case {
        let nodes = self.layout.nodes();
        let ranks = nodes.iter().filter(|node| **node == nodes[rank as usize]).count() as u32;
        let oversubscribed = self.layout.place().oversubscribed;
        let place = Place { oversubscribed, per_node: ranks, ..self.layout.within() };
        Case { ranks, place, bytes, commutative: true }
    }

    /// The case of one rank of each node.
    fn between(&self, bytes: u64) -> Case {
        let Place { nodes, oversubscribed, multicast, .. } = *self.layout.place();
        let place = Place { oversubscribed, multicast, ..Place::apart(nodes) };
        Case { ranks: nodes, place, bytes, commutative: true }
    }

    /// Returns the number of leaders on each node if an operation runs in two levels.
    fn two_level(&self, operation: Operation, case: Case) -> Option<u32> {
        match self.choose(operation, case) {
            Algorithm::TwoLevel { leaders } => Some(leaders),
            _ => None,
        }
    }

    /// Returns whether the choice between nodes is a multicast, and some node has several ranks. Then the
    /// operation goes on within the nodes, whatever is chosen for the whole group.
    fn is_multicast(&self, between: Algorithm) -> bool {
        !self.layout.nodes().is_empty() && between.is_multicast()
    }

    /// Plans the collectives of ranks with this layout.
    fn with<'b>(&'b self, layout: &'b Layout) -> Chosen<'b> {
        Chosen { choices: self.choices, layout }
    }

    /// The clusters of the ranks, if there are several, and the layout of one rank of each.
    fn clusters(&self) -> Option<(&[u32], Layout)> {
        let (clusters, count) = self.layout.clusters()?;
        Some((clusters, Layout::apart(count)))
    }

    /// The clusters, as by [`Self::clusters`], for operations whose operands may change places: clusters
    /// reorder them.
    fn clusters_for_operands(&self, commutative: bool) -> Option<(&[u32], Layout)> {
        self.clusters().filter(|_| commutative && !self.choices.has_one_order())
    }

    /// Plans this rank's part in `MPI_Barrier`.
    pub fn barrier(&self, of: &Barrier) -> Schedule {
        planned(|plan| self.add_barrier(plan, of))
    }

    fn add_barrier(&self, plan: &mut Plan, of: &Barrier) {
        if let Some((clusters, leaders)) = self.clusters() {
            let between = |plan: &mut Plan, of: &Barrier| self.with(&leaders).add_barrier(plan, of);
            let half = |is_up: bool| {
                move |plan: &mut Plan, of: &Barrier, members: &[u32]| {
                    self.with(&self.layout.part(members)).add_half_a_barrier(plan, of, is_up);
                }
            };
            return two_level::add_barrier_by(plan, of, clusters, between, (half(true), half(false)));
        }
        let case = self.whole(of.size, 0, true);
        let between = chosen!(self, Barrier, Barrier, self.between(0));
        if self.two_level(Operation::Barrier, case).is_none() && !self.is_multicast(Algorithm::Barrier(between)) {
            return barrier::add(plan, of, chosen!(self, Barrier, Barrier, case));
        }
        let within = chosen!(self, Barrier, Barrier, self.within(of.rank, 0));
        two_level::add_barrier(plan, of, self.layout.nodes(), (within, between));
    }

    /// Plans half a barrier: rank 0 hears of all (`is_up`), or all hear of rank 0.
    fn add_half_a_barrier(&self, plan: &mut Plan, of: &Barrier, is_up: bool) {
        let half = |plan: &mut Plan, of: &Barrier, algorithm| match is_up {
            true => barrier::add_up(plan, of, algorithm),
            false => barrier::add_down(plan, of, algorithm),
        };
        let case = self.whole(of.size, 0, true);
        if self.two_level(Operation::Barrier, case).is_none() {
            return half(plan, of, chosen!(self, Barrier, Barrier, case));
        }
        let within = chosen!(self, Barrier, Barrier, self.within(of.rank, 0));
        let between = chosen!(self, Barrier, Barrier, self.between(0));
        let within_if = |wanted: bool| {
            move |plan: &mut Plan, of: &Barrier, _: &[u32]| {
                if wanted {
                    half(plan, of, within);
                }
            }
        };
        let between = |plan: &mut Plan, of: &Barrier| half(plan, of, between);
        two_level::add_barrier_by(plan, of, self.layout.nodes(), between, (within_if(is_up), within_if(!is_up)));
    }

    /// Plans this rank's part in `MPI_Bcast`.
    pub fn bcast(&self, of: &Bcast) -> Schedule {
        planned(|plan| self.add_bcast(plan, of))
    }

    fn add_bcast(&self, plan: &mut Plan, of: &Bcast) {
        if let Some((clusters, leaders)) = self.clusters() {
            let between = |plan: &mut Plan, of: &Bcast| self.with(&leaders).add_bcast(plan, of);
            let within = |plan: &mut Plan, of: &Bcast, members: &[u32]| {
                self.with(&self.layout.part(members)).add_bcast(plan, of);
            };
            return two_level::add_bcast_by(plan, of, clusters, between, within);
        }
        let bytes = of.items.bytes();
        let case = self.whole(of.size, bytes, true);
        let between = chosen!(self, Bcast, Bcast, self.between(bytes));
        if self.two_level(Operation::Bcast, case).is_none() && !self.is_multicast(Algorithm::Bcast(between)) {
            return bcast::add(plan, of, chosen!(self, Bcast, Bcast, case));
        }
        let within = chosen!(self, Bcast, Bcast, self.within(of.rank, bytes));
        two_level::add_bcast(plan, of, self.layout.nodes(), (between, within));
    }

    /// Plans this rank's part in `MPI_Gather`.
    pub fn gather(&self, of: &Gather) -> Schedule {
        gather_with(of, chosen!(self, Gather, Gather, self.whole(of.size, of.gathered_bytes(), true)))
    }

    /// Plans this rank's part in `MPI_Scatter`.
    pub fn scatter(&self, of: &Gather) -> Schedule {
        scatter_with(of, chosen!(self, Scatter, Gather, self.whole(of.size, of.scattered_bytes(), true)))
    }

    /// Plans this rank's part in `MPI_Allgather`.
    pub fn allgather(&self, of: &Allgather) -> Schedule {
        if let Some((clusters, leaders)) = self.clusters().filter(|(clusters, _)| follow_each_other(clusters)) {
            let bytes = u64::from(of.size) * of.receive.bytes();
            let ranks = leaders.place().nodes;
            let case = Case { ranks, place: *leaders.place(), bytes, commutative: true };
            let between = chosen!(self, Allgather, Allgather, case);
            let within = |plan: &mut Plan, of: &Bcast, members: &[u32]| {
                self.with(&self.layout.part(members)).add_bcast(plan, of);
            };
            return planned(|plan| two_level::add_allgather_by(plan, of, clusters, between, false, within));
        }
        let bytes = u64::from(of.size) * of.receive.bytes();
        let case = self.whole(of.size, bytes, true);
        let between = chosen!(self, Allgather, Allgather, self.between(bytes));
        let is_multicast = case.place.consecutive && self.is_multicast(Algorithm::Allgather(between));
        if self.two_level(Operation::Allgather, case).is_none() && !is_multicast {
            return allgather_with(of, chosen!(self, Allgather, Allgather, case));
        }
        let within = chosen!(self, Bcast, Bcast, self.within(of.rank, bytes));
        allgather_in_two_levels(of, self.layout.nodes(), (between, within))
    }

    /// Plans this rank's part in `MPI_Allgatherv`.
    pub fn allgatherv(&self, of: &Allgatherv<'_>) -> Schedule {
        let bytes = of.receive.counts.iter().sum::<u64>() * of.receive.item_size;
        let mut case = self.whole(of.size, bytes, true);
        // The blocks lie anywhere, so the blocks of a node do not lie side by side.
        case.place.consecutive = false;
        let largest = of.receive.counts.iter().max().map_or(0, |count| count * of.receive.item_size);
        case.place.published_max = case.place.published_max.filter(|max| largest <= *max);
        allgatherv_with(of, chosen!(self, Allgather, Allgather, case))
    }

    /// Plans this rank's part in `MPI_Alltoall`.
    pub fn alltoall(&self, of: &Allgather) -> Schedule {
        alltoall_with(of, chosen!(self, Alltoall, Alltoall, self.whole(of.size, of.receive.bytes(), true)))
    }

    /// Plans this rank's part in `MPI_Reduce`.
    pub fn reduce(&self, of: &Reduce) -> Schedule {
        planned(|plan| self.add_reduce(plan, of, Ends::of(of)))
    }

    fn add_reduce(&self, plan: &mut Plan, of: &Reduce, ends: Ends) {
        if let Some((clusters, leaders)) = self.clusters_for_operands(of.commutative) {
            let between = |plan: &mut Plan, of: &Reduce, ends: Ends| self.with(&leaders).add_reduce(plan, of, ends);
            let within = |plan: &mut Plan, of: &Reduce, members: &[u32], ends: Ends| {
                self.with(&self.layout.part(members)).add_reduce(plan, of, ends);
            };
            return two_level::add_reduce_by(plan, of, clusters, ends, between, within);
        }
        let bytes = of.items.bytes();
        let case = self.whole(of.size, bytes, of.commutative);
        if self.two_level(Operation::Reduce, case).is_none() {
            let algorithm = chosen!(self, Reduce, Reduce, case);
            return reduce::add_from(plan, of, algorithm, ends.own, ends.result);
        }
        let within = chosen!(self, Reduce, Reduce, self.within(of.rank, bytes));
        let between = chosen!(self, Reduce, Reduce, self.between(bytes));
        let within = |plan: &mut Plan, of: &Reduce, _: &[u32], ends: Ends| {
            reduce::add_from(plan, of, within, ends.own, ends.result);
        };
        let between =
            |plan: &mut Plan, of: &Reduce, ends: Ends| reduce::add_from(plan, of, between, ends.own, ends.result);
        two_level::add_reduce_by(plan, of, self.layout.nodes(), ends, between, within);
    }

    /// Plans this rank's part in `MPI_Allreduce`.
    pub fn allreduce(&self, of: &Allreduce) -> Schedule {
        planned(|plan| self.add_allreduce(plan, of))
    }

    fn add_allreduce(&self, plan: &mut Plan, of: &Allreduce) {
        if let Some((clusters, leaders)) = self.clusters_for_operands(of.commutative) {
            let between = |plan: &mut Plan, of: &Allreduce| self.with(&leaders).add_allreduce(plan, of);
            let up = |plan: &mut Plan, of: &Reduce, members: &[u32]| {
                self.with(&self.layout.part(members)).add_reduce(plan, of, Ends::of(of));
            };
            let down = |plan: &mut Plan, of: &Bcast, members: &[u32]| {
                self.with(&self.layout.part(members)).add_bcast(plan, of);
            };
            return two_level::add_allreduce_by(plan, of, clusters, 1, between, (up, down));
        }
        let bytes = of.items.bytes();
        let case = self.whole(of.size, bytes, of.commutative);
        let leaders = match self.two_level(Operation::Allreduce, case) {
            // Operands change places in two levels.
            _ if of.commutative && self.is_multicast(self.choose(Operation::Allreduce, self.between(bytes))) => 1,
            Some(leaders) => leaders,
            None => return allreduce::add(plan, of, chosen!(self, Allreduce, Allreduce, case)),
        };
        // The approximate share of each leader.
        let share = bytes / u64::from(leaders.max(1));
        let up = chosen!(self, Reduce, Reduce, self.within(of.rank, share));
        let mut between = self.between(share);
        if leaders > 1 {
            // Only one process of each node receives a multicast.
            between.place.multicast = Multicast::No;
        }
        let between = chosen!(self, Allreduce, Allreduce, between);
        let down = chosen!(self, Bcast, Bcast, self.within(of.rank, share));
        two_level::add_allreduce(plan, of, self.layout.nodes(), leaders, (up, between, down));
    }

    /// Plans this rank's part in `MPI_Reduce_scatter_block`.
    pub fn reduce_scatter_block(&self, of: &ReduceScatterBlock) -> Schedule {
        let bytes = u64::from(of.size) * of.items.bytes();
        let case = self.whole(of.size, bytes, of.commutative);
        reduce_scatter_block_with(of, chosen!(self, ReduceScatter, ReduceScatter, case))
    }

    /// Plans this rank's part in `MPI_Reduce_scatter`.
    pub fn reduce_scatter(&self, of: &ReduceScatter<'_>) -> Schedule {
        let bytes = of.counts.iter().sum::<u64>() * of.shape.size;
        let case = self.whole(of.size, bytes, of.commutative);
        reduce_scatter_with(of, chosen!(self, ReduceScatter, ReduceScatter, case))
    }

    /// Plans this rank's part in `MPI_Scan`.
    pub fn scan(&self, of: &Allreduce) -> Schedule {
        scan_with(of, chosen!(self, Scan, Scan, self.whole(of.size, of.items.bytes(), of.commutative)))
    }

    /// Plans this rank's part in `MPI_Exscan`.
    pub fn exscan(&self, of: &Allreduce) -> Schedule {
        exscan_with(of, chosen!(self, Scan, Scan, self.whole(of.size, of.items.bytes(), of.commutative)))
    }

    /// The algorithms by which a group of `ranks` reduces `bytes` bytes, and passes them on.
    pub(super) fn reduce_and_bcast(
        &self,
        ranks: u32,
        bytes: u64,
        commutative: bool,
    ) -> (select::ReduceAlgorithm, select::BcastAlgorithm) {
        let case = Case { ranks, place: Place::apart(ranks), bytes, commutative };
        (chosen!(self, Reduce, Reduce, case), chosen!(self, Bcast, Bcast, case))
    }
}

/// Returns whether the ranks of each cluster follow each other, so that its blocks lie side by side.
fn follow_each_other(clusters: &[u32]) -> bool {
    let changes = clusters.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let count = clusters.iter().collect::<weft_ordered::Set<_>>().len();
    changes < count.max(1)
}
