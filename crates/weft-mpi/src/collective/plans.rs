//! The planners of a communicator's collectives, with the places of its processes. The boundary asks for them
//! before each collective, and the library before each agreement.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_plan::collective::choice::{self, Choices, Layout};
use weft_plan::collective::{Barrier, Schedule};

use super::{Bound, CollectiveScope};
use crate::multicast::Multicast;
use crate::object::{Communicator, Group};
use crate::planner::{Call, Plans};
use crate::process::Process;
use crate::slots::Slots;

/// The longest wait for the other processes of a node to say whether they may copy from each other's memory.
const COPIES_LIMIT: Duration = Duration::from_secs(20);

impl Process {
    /// The planner of collectives of a communicator's own group.
    pub fn plans(&self, communicator: &Communicator) -> Plans<'_> {
        let layout = communicator.layout.get_or_init(|| self.layout(&communicator.group)).clone();
        let is_one_node = layout.place().nodes == 1;
        let layout = layout.with_published_max(self.published_max(communicator, is_one_node));
        let layout = if layout.publishes() {
            layout.with_copies(*communicator.copies.get_or_init(|| self.all_copy(&communicator.group)))
        } else {
            layout
        };
        let layout = layout.with_multicast(self.uses_multicast(communicator));
        Plans { planner: &self.planner, layout }
    }

    /// Keeps what a blocking call was bound to for later calls with the same arguments, where that is
    /// possible.
    pub fn keep_call(&self, call: &Call, bound: &Arc<Bound>) {
        let Ok(object) = self.objects.communicator(call.communicator) else { return };
        let is_one_node = object.layout.get().is_some_and(|layout| layout.place().nodes == 1);
        if is_one_node && !self.may_try_multicast(object, call.operation) {
            self.planner.keep_call(call, bound);
        }
    }

    /// The multicast that is allowed on a communicator.
    fn uses_multicast(&self, communicator: &Communicator) -> choice::Multicast {
        match communicator.multicast {
            Multicast::Untried(_) | Multicast::Impossible | Multicast::GivenUp => choice::Multicast::No,
            Multicast::Works(_) => self.multicast.allowed(&communicator.info),
        }
    }

    /// The places of the processes of `scope`, for the reductions by which they agree on something. `None` if
    /// they are not those of a communicator: then each counts as on a node of its own. These reductions use
    /// messages: some begin when earlier ones end, in any order.
    pub fn agreement_layout(&self, scope: &CollectiveScope) -> Option<Layout> {
        let communicator = self.objects.communicator(scope.communicator).ok()?;
        let is_whole =
            Arc::ptr_eq(&communicator.group, &scope.group) && communicator.collective_context() == scope.context;
        is_whole.then(|| self.planner.by_messages(|| self.plans(communicator)).layout)
    }

    /// The bytes that each process of a communicator can publish at once for the others on its node.
    fn published_max(&self, communicator: &Communicator, is_one_node: bool) -> Option<u64> {
        if communicator.group.size() == 1 || !self.planner.is_in_memory(is_one_node) {
            return None;
        }
        let engine = self.engine.as_ref()?;
        // All slots of communicators have the same size.
        let slot = if self.planner.is_apart() { Slots::roomiest(engine.slots()) } else { communicator.slot };
        slot.map(|slot| engine.published_max(slot))
    }

    /// Returns whether the processes of this node may all copy from each other's memory. All of them must
    /// give the same answer, so this waits for those that have not found out yet. These are in `MPI_Init`,
    /// past everything that they wait for there. One that dies at that moment delays the others by
    /// [`COPIES_LIMIT`].
    fn all_copy(&self, group: &Group) -> bool {
        let Some(engine) = &self.engine else { return false };
        let begun = Instant::now();
        loop {
            match engine.all_copy(group) {
                Some(all) => return all,
                None if begun.elapsed() > COPIES_LIMIT => return false,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Returns whether some processes of a communicator are on one node, as all of them know alike. Only then
    /// can its operations use shared memory.
    pub(crate) fn shares_memory(&self, communicator: &Communicator) -> bool {
        let layout = communicator.layout.get_or_init(|| self.layout(&communicator.group));
        layout.place().nodes < communicator.group.size()
    }

    /// Gives the collective of `scope` its turn among those that use the node's memory, if `schedule` uses
    /// it.
    pub fn take_turn(&mut self, scope: &mut CollectiveScope, schedule: &Schedule) {
        if schedule.phases > 0
            && let Self { objects, engine: Some(engine), .. } = self
            && let Some(slot) = objects.communicator(scope.communicator).ok().and_then(|object| object.slot)
        {
            scope.turn = engine.node_collectives().take_turn(slot, schedule.phases);
        }
    }

    /// The barrier of all processes of `scope`, bound to no buffers.
    pub fn barrier(&self, scope: &CollectiveScope) -> Arc<Bound> {
        let barrier = Barrier { rank: scope.rank, size: scope.group.size() };
        let own =
            self.objects.communicator(scope.communicator).ok().filter(|own| Arc::ptr_eq(&own.group, &scope.group));
        let plans = match own {
            Some(communicator) => self.plans(communicator),
            // The processes of both groups of an intercommunicator.
            None => Plans { planner: &self.planner, layout: self.layout(&scope.group) },
        };
        plans.barrier(barrier)
    }

    /// The planner of collectives of `size` processes that count as each on a node of its own.
    pub fn plans_apart(&self, size: u32) -> Plans<'_> {
        Plans { planner: &self.planner, layout: Layout::apart(size) }
    }

    /// The rules by which algorithms are chosen where the places of processes make no difference.
    pub fn choices(&self) -> &Choices {
        self.planner.choices()
    }

    /// The places of the processes of a group; all of them get the same.
    fn layout(&self, group: &Group) -> Layout {
        let layout = Layout::of(self.nodes_of(&group.members));
        let layout = layout.with_oversubscription(self.are_oversubscribed(group));
        match self.clusters_of(&group.members) {
            Some(clusters) => layout.with_clusters(&clusters),
            None => layout,
        }
    }
}
