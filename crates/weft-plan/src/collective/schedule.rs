//! The parts of a schedule: slices of memory, steps, and the graph of which step waits for which.

use alloc::vec::Vec;

/// Alignment in bytes of the memory behind [`Buffer::Scratch`]; items in scratch are based at multiples of
/// it.
pub const SCRATCH_ALIGNMENT: u64 = 64;

/// The memory a slice is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The user's send buffer; only read.
    Send,
    /// The user's receive buffer, or the only buffer of `bcast`.
    Receive,
    /// Working memory of [`Schedule::scratch`] bytes.
    Scratch,
}

/// The datatype of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Packed bytes: size and extent 1.
    Bytes,
    /// The datatype given for the send buffer.
    Send,
    /// The datatype given for the receive buffer; the only datatype of `bcast`, of reductions and of scans.
    Receive,
    /// `sendtypes[i]` of `alltoallw`.
    SendOf(u32),
    /// `recvtypes[i]` of `alltoallw`.
    ReceiveOf(u32),
}

/// Some consecutive items of one datatype in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The memory.
    pub buffer: Buffer,
    /// Bytes from the buffer's base to the base of the first item (to its lower bound 0, not to its first
    /// byte).
    pub offset: i64,
    /// Number of items.
    pub count: u64,
    /// The datatype of an item.
    pub kind: Kind,
}

/// A step of a rank: one thing that the rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Sends the slice to rank `to` of the group.
    Send {
        /// Rank in the group; never this rank.
        to: u32,
        /// The data to send.
        slice: Slice,
    },
    /// Sends the slice to one rank of each other node. Where the network can, one packet serves all of them.
    /// Those ranks receive the slices from this rank in the order in which they are sent. This schedule sends
    /// nothing else to these ranks.
    Multicast {
        /// The data to send.
        slice: Slice,
    },
    /// Receives exactly the slice from rank `from` of the group.
    Receive {
        /// Rank in the group; never this rank.
        from: u32,
        /// The place for the received data.
        slice: Slice,
    },
    /// Packs `from` and unpacks it into `to`; they do not overlap, and their numbers of packed bytes are
    /// equal.
    Copy {
        /// Source.
        from: Slice,
        /// Destination.
        to: Slice,
    },
    /// `inout[i] = input[i] op inout[i]`: the input is the *left* operand, as in a user's function (MPI-5.0
    /// §6.9.5). Equal counts, kind [`Kind::Receive`], no overlap.
    Reduce {
        /// Left operand, unchanged.
        input: Slice,
        /// Right operand, replaced by the result.
        inout: Slice,
    },
    /// Packs the slice into this process's memory for the phase, which the others on its node can read: no
    /// message. Without items the step tells only that this process has come to the phase.
    Publish {
        /// Number of the phase in the operation, from 0 on.
        phase: u32,
        /// The data to publish.
        slice: Slice,
    },
    /// Unpacks the data that rank `from` of this node has published for the phase, from byte `at` on, as soon
    /// as the data is there. Without items the step only waits.
    Collect {
        /// Number of the phase in the operation.
        phase: u32,
        /// Rank in the group; it may be this rank.
        from: u32,
        /// The first of the published bytes that is taken.
        at: u64,
        /// Number of bytes published, as far as this rank knows.
        of: u64,
        /// The place for these bytes.
        slice: Slice,
    },
    /// `inout[i] = published[i] op inout[i]`: as [`Self::Reduce`], with an input as for [`Self::Collect`].
    /// The packed bytes of `inout` are one run of memory, and so are its items in memory.
    Combine {
        /// Number of the phase in the operation.
        phase: u32,
        /// Rank in the group; it may be this rank.
        from: u32,
        /// The first of the published bytes that is an operand.
        at: u64,
        /// Right operand, replaced by the result.
        inout: Slice,
    },
    /// Tells the others on this node where the packed bytes of the slice are in this process's memory; they
    /// are one run. The bytes stay there unchanged until all ranks that need them have published something in
    /// a later phase.
    Expose {
        /// Number of the phase in the operation, from 0 on.
        phase: u32,
        /// The data to expose.
        slice: Slice,
    },
    /// Unpacks the data that rank `from` of this node has exposed for the phase, from byte `at` on, as soon
    /// as it is exposed, by one copy from that process's memory.
    Fetch {
        /// Number of the phase in the operation.
        phase: u32,
        /// Rank in the group; never this rank.
        from: u32,
        /// The first of the exposed bytes that is taken.
        at: u64,
        /// Number of bytes exposed, as far as this rank knows.
        of: u64,
        /// The place for these bytes.
        slice: Slice,
    },
    /// Tells the ranks of the node that this rank needs no more of the data that they published in this phase
    /// and earlier ones. They may publish other data there. A rank without this step tells it at the end of
    /// the operation.
    Finish {
        /// Number of the phase in the operation.
        phase: u32,
    },
    /// Does nothing: many steps wait for this step, instead of for all the steps that it waits for.
    Join,
}

impl Step {
    /// The memory that the step reads, and the memory that it writes (and reads, if it reduces).
    pub fn slices(&self) -> (Option<&Slice>, Option<&Slice>) {
        match self {
            Self::Send { slice, .. }
            | Self::Multicast { slice }
            | Self::Publish { slice, .. }
            | Self::Expose { slice, .. } => (Some(slice), None),
            Self::Receive { slice, .. } | Self::Collect { slice, .. } | Self::Fetch { slice, .. } => {
                (None, Some(slice))
            }
            Self::Combine { inout, .. } => (None, Some(inout)),
            Self::Copy { from, to } => (Some(from), Some(to)),
            Self::Reduce { input, inout } => (Some(input), Some(inout)),
            Self::Finish { .. } | Self::Join => (None, None),
        }
    }

    /// Returns whether the step is a message, and not work within the process.
    pub fn is_transfer(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Multicast { .. } | Self::Receive { .. })
    }

    /// The phase in which the step publishes, or reads what another process of the node publishes.
    #[inline]
    pub fn phase(&self) -> Option<u32> {
        match self {
            Self::Publish { phase, .. }
            | Self::Collect { phase, .. }
            | Self::Combine { phase, .. }
            | Self::Expose { phase, .. }
            | Self::Fetch { phase, .. }
            | Self::Finish { phase } => Some(*phase),
            _ => None,
        }
    }
}

/// A step, the number of events for which it waits, and the places of the steps that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) step: Step,
    /// Events that must come before: beginnings and ends of other steps.
    pub(super) waits: u32,
    /// The place in [`Schedule::successors`] of the first step that waits for the beginning of this one.
    pub(super) at_start: u32,
    /// The place there of the first step that waits for its end. The last such step is before the next node's
    /// first.
    pub(super) at_end: u32,
}

/// The part of one rank in one collective operation: steps, in the order in which they were planned. A step
/// may wait for steps before it. No steps: nothing to do.
///
/// A schedule is a few flat arrays that never change: any number of runs share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub(super) nodes: Vec<Node>,
    pub(super) successors: Vec<u32>,
    /// Bytes of working memory needed.
    pub scratch: u64,
    /// Phases in which processes of the node publish data; the same number at each process.
    pub phases: u32,
}

impl Schedule {
    /// A schedule of steps one after the other, with `scratch` bytes of working memory.
    pub fn in_order(steps: impl IntoIterator<Item = Step>, scratch: u64) -> Self {
        let nodes = steps.into_iter().enumerate().map(|(number, step)| {
            // Each step but the last has one successor, which is the next.
            Node { step, waits: u32::from(number > 0), at_start: number as u32, at_end: number as u32 }
        });
        let nodes: Vec<Node> = nodes.collect();
        let successors = (1..nodes.len() as u32).collect();
        Self { nodes, successors, scratch, phases: 0 }
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A step by its number.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn step(&self, number: u32) -> &Step {
        &self.nodes[number as usize].step
    }

    /// All steps, by their numbers.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &Step> {
        self.nodes.iter().map(|node| &node.step)
    }

    /// The number of events for which a step waits: one for each step that lists it in [`Self::after_start`]
    /// or [`Self::after_end`].
    #[inline]
    pub fn waits(&self, number: u32) -> u32 {
        self.nodes[number as usize].waits
    }

    /// The steps that wait until this one has begun.
    #[inline]
    pub fn after_start(&self, number: u32) -> &[u32] {
        let node = &self.nodes[number as usize];
        &self.successors[node.at_start as usize..node.at_end as usize]
    }

    /// The steps that wait until this one is complete.
    #[inline]
    pub fn after_end(&self, number: u32) -> &[u32] {
        let next = self.nodes.get(number as usize + 1).map_or(self.successors.len(), |next| next.at_start as usize);
        &self.successors[self.nodes[number as usize].at_end as usize..next]
    }
}
