//! The costs by which the ranks of a node choose protocols: those that the user has given, or those of this
//! machine. An earlier job has kept the machine's costs, or the first two ranks of the node measure them now.

use std::path::Path;

use weft_engine::transport::NodeCosts as _;
use weft_net::shared::{self, Node};

use crate::engine::Engine;
use crate::engine::protocols::CostModel;
use crate::settings::Settings;

/// Gives the node its costs, as the rank with this local rank. Takes about a millisecond in the first job of
/// a user after the machine has booted, and a few microseconds later on.
pub(super) fn settle(settings: &Settings, wanted: &shared::Settings, node: &mut Node, local_rank: usize) {
    if settings.costs.is_some() {
        if local_rank == 0 {
            node.end_calibration();
        }
        return;
    }
    node.share_costs();
    match local_rank {
        0 => {
            let kept = shared::kept_costs(wanted).map(|(costs, _)| costs);
            if let Some(costs) = kept.or_else(|| measure(wanted, node)) {
                node.share(&costs.values().collect::<Vec<_>>());
            }
            node.end_calibration();
        }
        1 => node.help_calibrate(),
        _ => {}
    }
}

/// Keeps the costs of the node for the next job if they have turned out to be others than an earlier job
/// kept.
pub(super) fn keep_refined(engine: &Engine, shm_dir: Option<&Path>) {
    let Some(costs) = engine.costs_of_node() else { return };
    let wanted = shared::Settings { directory: shm_dir.map(Path::to_path_buf), ..shared::Settings::default() };
    if shared::kept_costs(&wanted).is_some_and(|(kept, _)| kept != costs) {
        // The next job finds out again.
        let _ = shared::keep_costs(&wanted, &costs);
    }
}

/// Measures the costs of this machine with local rank 1, and keeps them. `None` where the ranks have no
/// processor each, or were disturbed: the next job measures again.
fn measure(wanted: &shared::Settings, node: &Node) -> Option<CostModel> {
    let costs = node.calibrate().ok()?.costs(&CostModel::BUILT_IN).ok()?;
    // Without a place for them they count for this job only.
    let _ = shared::keep_costs(wanted, &costs);
    Some(costs)
}
