//! The parts of a simulated job, and the machine on which it runs.

use super::network::{Medium, Wires};
use super::node::Habits;
use weft_core::time::Duration;
use weft_engine::protocols::CostModel;

/// The parts of a simulated job, and the machine on which it runs.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// The node of each process.
    pub(super) nodes: Vec<usize>,
    pub(super) habits: Habits,
    /// Says whether the processes of a node copy from each other's memory.
    pub(super) single_copy: bool,
    pub(super) eager_limit: u64,
    /// The costs of moving bytes that each process believes.
    pub(super) costs: Vec<CostModel>,
    pub(super) wires: Wires,
    /// Interfaces that carry frames.
    pub(super) raw: u8,
    pub(super) has_udp: bool,
    pub(super) window_packets: u32,
    pub(super) sealed: bool,
    pub(super) peer_timeout: Duration,
    /// The chance that another process makes a pass inside a pass, and that another thread wants the
    /// lock; cases per million.
    pub(super) turns: u32,
    pub(super) contended: u32,
    pub(super) ticks_per_look: u64,
}

impl Machine {
    pub(super) fn ranks(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn is_alone(&self) -> bool {
        self.nodes.iter().all(|node| *node == self.nodes[0])
    }

    pub(super) fn media(&self) -> Vec<Medium> {
        let streams = self.wires.ordered.filter(|ordered| ordered.beside).map(|_| Medium::Streams);
        (0..self.raw).map(Medium::Frames).chain(self.has_udp.then_some(Medium::Udp)).chain(streams).collect()
    }
}

/// The nodes of these processes, numbered as they come.
pub(super) fn members(nodes: &[usize], processes: &[usize]) -> Vec<u32> {
    let mut known: Vec<usize> = Vec::new();
    let number = |process: &usize| {
        let node = nodes[*process];
        known.iter().position(|of| *of == node).unwrap_or_else(|| {
            known.push(node);
            known.len() - 1
        }) as u32
    };
    processes.iter().map(number).collect()
}
