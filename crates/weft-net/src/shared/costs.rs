//! The costs of moving bytes on this machine, as the ranks of the node share them in the segment. The leader
//! writes them as soon as it knows them, and any rank does so when it finds better ones. So both ends of a
//! ring choose alike.

use std::sync::atomic::Ordering;

use weft_engine::protocols::CostModel;
use weft_engine::transport::NodeCosts;

use super::Node;
use crate::atomic::{AtomicU32, AtomicU64};

/// The number of costs of a model.
const COSTS: usize = CostModel::MEANINGS.len();

/// The costs in the segment. They are 0 in a new segment.
#[repr(C)]
#[derive(Default)]
pub(super) struct SharedCosts {
    /// Grows by two with each change, and is odd during a change.
    version: AtomicU32,
    values: [AtomicU64; COSTS],
}

impl SharedCosts {
    /// Writes the costs, unless another rank does so at this moment. If that rank dies meanwhile the costs
    /// stay as each rank knows them.
    fn write(&self, costs: &[u64]) {
        let version = self.version.load(Ordering::SeqCst);
        let during = version.wrapping_add(1);
        let is_free = version.is_multiple_of(2)
            && self.version.compare_exchange(version, during, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if is_free {
            for (value, cost) in self.values.iter().zip(costs) {
                value.store(*cost, Ordering::SeqCst);
            }
            // 0 says that there are no costs.
            self.version.store(during.wrapping_add(1).max(2), Ordering::SeqCst);
        }
    }

    fn read(&self) -> Option<Vec<u64>> {
        let version = self.version.load(Ordering::SeqCst);
        let values = self.values.iter().map(|value| value.load(Ordering::SeqCst)).collect();
        let is_whole = version != 0 && version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version;
        is_whole.then_some(values)
    }
}

impl Node {
    /// Lets the costs of this rank's messages be those that the ranks of the node share, once there are some.
    pub fn share_costs(&mut self) {
        self.shares_costs = true;
    }
}

impl NodeCosts for Node {
    #[inline]
    fn version(&self) -> u32 {
        self.inbox.segment.costs().version.load(Ordering::Acquire)
    }

    fn read(&self) -> Option<Vec<u64>> {
        self.inbox.segment.costs().read()
    }

    fn share(&self, costs: &[u64]) {
        self.inbox.segment.costs().write(costs);
    }
}
