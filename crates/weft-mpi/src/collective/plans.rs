//! What plans the collectives of a communicator: what is known of where its processes are.

use std::sync::Arc;

use weft_core::collective::Barrier;
use weft_core::collective::choice::{Choices, Layout};

use super::{Bound, CollectiveScope};
use crate::object::{Communicator, Group};
use crate::planner::Plans;
use crate::process::Process;

impl Process {
    /// What plans collectives of a communicator's own group.
    pub fn plans(&self, communicator: &Communicator) -> Plans<'_> {
        let layout = communicator.layout.get_or_init(|| self.layout(&communicator.group)).clone();
        Plans { planner: &self.planner, layout }
    }

    /// The barrier of all processes of `scope`, and the buffers that it has not.
    pub fn barrier(&self, scope: &CollectiveScope) -> Arc<Bound> {
        let barrier = Barrier { rank: scope.rank, size: scope.group.size() };
        let own =
            self.objects.communicator(scope.communicator).ok().filter(|own| Arc::ptr_eq(&own.group, &scope.group));
        let plans = match own {
            Some(communicator) => self.plans(communicator),
            // Both groups of an intercommunicator.
            None => Plans { planner: &self.planner, layout: self.layout(&scope.group) },
        };
        plans.barrier(barrier)
    }

    /// What plans collectives of `size` processes wherever they are.
    pub fn plans_apart(&self, size: u32) -> Plans<'_> {
        Plans { planner: &self.planner, layout: Layout::apart(size) }
    }

    /// How algorithms are chosen where the places of processes make no difference.
    pub fn choices(&self) -> &Choices {
        self.planner.choices()
    }

    /// Where the processes of a group are; the same at all of them.
    fn layout(&self, group: &Group) -> Layout {
        let layout = Layout::of(self.nodes_of(&group.members));
        layout.with_oversubscription(self.are_oversubscribed(group))
    }
}
