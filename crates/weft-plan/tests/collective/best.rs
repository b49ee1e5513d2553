//! The built-in table chooses the best algorithm, or nearly so, on a simulated network.

use weft_plan::collective::choice::{Choices, Layout, Operation, Table};
use weft_plan::collective::cost::{Case, Network};

use crate::is_every_case_played;

/// Most time, in percent, that the chosen algorithm takes beyond the best known one.
const BEHIND_MAX: u64 = 15;
/// Most steps of all schedules together; larger cases are left out.
const STEPS_MAX: usize = 1 << 20;

const SIZES: [u64; 9] = [0, 8, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20, 8 << 20];

/// Layouts with one rank on each host, and with four.
fn layouts(ranks: u32) -> Vec<Layout> {
    let apart = Layout::apart(ranks);
    if ranks < 8 { vec![apart] } else { vec![apart, Layout::of((0..ranks).map(|rank| rank / 4).collect())] }
}

#[test]
fn the_chosen_algorithm_is_hardly_slower_than_the_best_one_on_a_simulated_network() {
    let every = is_every_case_played();
    let ranks: &[u32] = if every { &[2, 3, 4, 6, 8, 12, 16, 31, 32, 64, 100] } else { &[2, 4, 8, 31] };
    let built_in = Choices::new(Vec::new(), Table::default());
    let mut behind = Vec::new();
    for (operation, &ranks) in
        Operation::ALL.into_iter().flat_map(|operation| ranks.iter().map(move |r| (operation, r)))
    {
        for (layout, bytes) in layouts(ranks).into_iter().flat_map(|layout| SIZES.map(|bytes| (layout.clone(), bytes)))
        {
            // Barriers have no bytes, and blocks for each rank are not as large as whole messages.
            let bytes = match operation {
                Operation::Barrier if bytes > 0 => continue,
                Operation::Barrier => 0,
                Operation::Gather | Operation::Scatter | Operation::Alltoall => bytes / 8,
                // Each rank has a share of these bytes.
                Operation::Allgather | Operation::ReduceScatter => bytes / u64::from(ranks) * u64::from(ranks),
                _ => bytes,
            };
            let case = Case { operation, ranks, bytes };
            let time = |choices: &Choices| case.time(&Network::LEAF_SPINE, choices, &layout, STEPS_MAX);
            let Some(chosen) = time(&built_in) else { continue };
            let candidates = operation.candidates().iter().filter_map(|name| {
                let forced = vec![(operation, operation.parse(name).unwrap())];
                Some((time(&Choices::new(forced, Table::default()))?, *name))
            });
            let Some((best, name)) = candidates.min() else { continue };
            if chosen * 100 > best * (100 + BEHIND_MAX) {
                let (algorithm, nodes) = (case.algorithm(&built_in, &layout), layout.place().nodes);
                behind.push(format!(
                    "{} {bytes} B, {ranks} ranks on {nodes} nodes: {algorithm} takes {chosen} ns, {name} {best}",
                    operation.name()
                ));
            }
        }
    }
    assert!(behind.is_empty(), "{} cases:\n{}", behind.len(), behind.join("\n"));
}
