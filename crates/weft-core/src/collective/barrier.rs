//! Barrier by dissemination (Hensgen, Finkel, Manber, 1988): in round `k` everybody signals the rank `2^k` further on and
//! waits for that `2^k` before; after ⌈log₂ n⌉ rounds everybody has heard, directly or not, of everybody.

use super::Barrier;
use super::plan::Plan;
use super::tree::cyclic;

pub(super) fn dissemination(plan: &mut Plan, arguments: &Barrier) {
    let Barrier { rank, size } = *arguments;
    let (here, n) = (rank as u64, size as u64);
    let mut distance = 1;
    while distance < n {
        plan.signal(cyclic(here + distance, size));
        plan.await_signal(cyclic(here + n - distance, size));
        plan.fence();
        distance *= 2;
    }
}
