//! What plans the collectives of a communicator: what is known of where its processes are.

use std::sync::Arc;

use weft_core::collective::Barrier;
use weft_core::collective::choice::Place;

use super::{Bound, CollectiveScope};
use crate::object::{Communicator, Group};
use crate::planner::Plans;
use crate::process::Process;

impl Process {
    /// What plans collectives of a communicator's own group.
    pub fn plans(&self, communicator: &Communicator) -> Plans<'_> {
        let (nodes, per_node) = *communicator.spread.get_or_init(|| self.spread(&communicator.group));
        let oversubscribed = self.are_oversubscribed(&communicator.group);
        Plans { planner: &self.planner, place: Place { nodes, per_node, oversubscribed } }
    }

    /// The barrier of all processes of `scope`, and the buffers that it has not.
    pub fn barrier(&self, scope: &CollectiveScope) -> Arc<Bound> {
        let barrier = Barrier { rank: scope.rank, size: scope.group.size() };
        let own =
            self.objects.communicator(scope.communicator).ok().filter(|own| Arc::ptr_eq(&own.group, &scope.group));
        let plans = match own {
            Some(communicator) => self.plans(communicator),
            // Both groups of an intercommunicator.
            None => {
                let oversubscribed = self.are_oversubscribed(&scope.group);
                Plans { planner: &self.planner, place: Place { oversubscribed, ..Place::apart(barrier.size) } }
            }
        };
        plans.barrier(barrier)
    }

    /// On how many nodes the processes of a group are, and how many of them share one at most.
    fn spread(&self, group: &Group) -> (u32, u32) {
        let mut ranks = vec![0_u32; group.members.len()];
        self.nodes_of(&group.members).into_iter().for_each(|node| ranks[node as usize] += 1);
        (ranks.iter().filter(|ranks| **ranks > 0).count() as u32, ranks.into_iter().max().unwrap_or(0))
    }
}
