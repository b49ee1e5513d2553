//! The costs by which the ranks of a node choose protocols: those that the user has given, or those of this
//! machine. An earlier job has kept the machine's costs, or the first two ranks of the node measure them now.

use std::path::Path;

use weft_engine::transport::NodeCosts as _;
use weft_net::shared::{self, KeptCosts, Node};

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
            if let Some(costs) = costs_of_machine(wanted, node) {
                node.share(&costs.values().collect::<Vec<_>>());
            }
            node.end_calibration();
        }
        1 => node.help_calibrate(),
        _ => {}
    }
}

/// The costs that earlier jobs have kept, or that this one measures. `None`: there are none yet.
fn costs_of_machine(wanted: &shared::Settings, node: &Node) -> Option<CostModel> {
    let kept = shared::kept_costs(wanted);
    let measured = if kept.as_ref().is_none_or(KeptCosts::is_due) { measure(node) } else { None };
    match measured {
        Some(measured) => Some(keep(wanted, kept.as_ref(), measured)),
        None => kept.map(|kept| kept.costs),
    }
}

/// Keeps the costs of the node for the next job if they have turned out to be others than an earlier job
/// kept, or than the built-in ones where nothing was kept: the machine may never let a job measure them.
pub(super) fn keep_refined(engine: &Engine, shm_dir: Option<&Path>) {
    let Some(costs) = engine.costs_of_node() else { return };
    let wanted = shared::Settings { directory: shm_dir.map(Path::to_path_buf), ..shared::Settings::default() };
    let kept = shared::kept_costs(&wanted);
    if kept.as_ref().map_or(CostModel::BUILT_IN, |kept| kept.costs) != costs {
        // Where they cannot be kept, the next job finds out again.
        let _ = shared::keep_costs(&wanted, &costs, kept.map_or(0, |kept| kept.measurements));
    }
}

/// Measures the costs of this machine with local rank 1. `None` where the ranks have no processor each, or
/// were disturbed: the next job measures again.
fn measure(node: &Node) -> Option<CostModel> {
    node.calibrate().ok()?.costs(&CostModel::BUILT_IN).ok()
}

/// Keeps costs that were measured, and returns the lowest of them and of those that were measured before.
fn keep(wanted: &shared::Settings, kept: Option<&KeptCosts>, measured: CostModel) -> CostModel {
    // Costs that copies have shown are built-in ones in all other parts.
    let before = kept.filter(|kept| kept.measurements > 0);
    let costs = before.map_or(measured, |kept| kept.costs.lowest(&measured));
    // Without a place for them they count for this job only.
    let _ = shared::keep_costs(wanted, &costs, before.map_or(0, |kept| kept.measurements).saturating_add(1));
    costs
}
