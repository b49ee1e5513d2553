//! What a schedule is made of: slices of memory, steps, and the graph of what waits for what.

use alloc::vec::Vec;

/// Alignment in bytes that the memory behind [`Buffer::Scratch`] must have; items in scratch are based at
/// multiples of it.
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

/// One thing that a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send the slice to rank `to` of the group.
    Send {
        /// Rank in the group; never this rank.
        to: u32,
        /// What is sent.
        slice: Slice,
    },
    /// Send the slice to one rank of each other node, by one packet for all of them where the network can do
    /// that. Those ranks receive it from this rank, in the order in which they are sent; none of them is sent
    /// anything else by this schedule.
    Multicast {
        /// What is sent.
        slice: Slice,
    },
    /// Receive exactly the slice from rank `from` of the group.
    Receive {
        /// Rank in the group; never this rank.
        from: u32,
        /// Where it goes.
        slice: Slice,
    },
    /// Packs `from` and unpacks it into `to`; they do not overlap and have as many packed bytes.
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
    /// message. No items: it says only that this process has come so far.
    Publish {
        /// Which of the operation's phases, from 0 on.
        phase: u32,
        /// What is published.
        slice: Slice,
    },
    /// Unpacks what rank `from` of this node has published for the phase, from byte `at` of it on, as soon as
    /// that is there. No items: it only waits.
    Collect {
        /// Which of the operation's phases.
        phase: u32,
        /// Rank in the group; it may be this rank.
        from: u32,
        /// The first of the published bytes that is taken,
        at: u64,
        /// of so many, as far as this rank knows.
        of: u64,
        /// Where they go.
        slice: Slice,
    },
    /// `inout[i] = published[i] op inout[i]`: as [`Self::Reduce`], with an input as for [`Self::Collect`].
    /// The packed bytes of `inout` are one run of memory, as its items in memory are.
    Combine {
        /// Which of the operation's phases.
        phase: u32,
        /// Rank in the group; it may be this rank.
        from: u32,
        /// The first of the published bytes that is an operand.
        at: u64,
        /// Right operand, replaced by the result.
        inout: Slice,
    },
    /// Says to the others on this node where in this process's memory the packed bytes of the slice are,
    /// which are one run. They stay there, and as they are, until all that need them have published something
    /// in a later phase.
    Expose {
        /// Which of the operation's phases, from 0 on.
        phase: u32,
        /// What is exposed.
        slice: Slice,
    },
    /// Unpacks what rank `from` of this node has exposed for the phase, from byte `at` of it on, as soon as
    /// that is there, by one copy from that process's memory.
    Fetch {
        /// Which of the operation's phases.
        phase: u32,
        /// Rank in the group; never this rank.
        from: u32,
        /// The first of the exposed bytes that is taken,
        at: u64,
        /// of so many, as far as this rank knows.
        of: u64,
        /// Where they go.
        slice: Slice,
    },
    /// Says to the ranks of the node that this one needs nothing more of what they have published for this
    /// phase and those before it: so they may publish something else there. Where it does not say so, it does
    /// at the end of the operation.
    Finish {
        /// Which of the operation's phases.
        phase: u32,
    },
    /// Nothing: many steps wait for this one, instead of for all that it waits for.
    Join,
}

impl Step {
    /// The memory that it reads, and the memory that it writes (and reads, if it reduces).
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

    /// Whether it is a message, and not work within the process.
    pub fn is_transfer(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Multicast { .. } | Self::Receive { .. })
    }

    /// The phase of what it publishes, or reads of what another process of the node publishes.
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

/// A step, for how many others it waits, and where those stand that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) step: Step,
    /// Events that must come before: beginnings and ends of other steps.
    pub(super) waits: u32,
    /// In [`Schedule::successors`], the first that waits for its beginning;
    pub(super) at_start: u32,
    /// and the first that waits for its end. The last is before the next node's first.
    pub(super) at_end: u32,
}

/// What one rank does in one collective operation: steps, in the order in which they were planned, each of
/// which waits for some before it. No steps: nothing to do.
///
/// A few flat arrays that never change: any number of runs share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub(super) nodes: Vec<Node>,
    pub(super) successors: Vec<u32>,
    /// Bytes of working memory needed.
    pub scratch: u64,
    /// Phases in which processes of the node publish something; as many at each of them.
    pub phases: u32,
}

impl Schedule {
    /// Steps one after the other, with so much working memory.
    pub fn in_order(steps: impl IntoIterator<Item = Step>, scratch: u64) -> Self {
        let nodes = steps.into_iter().enumerate().map(|(number, step)| {
            // Each but the last has one successor, which is the next.
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

    /// Whether there is nothing to do.
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

    /// For how many events a step waits: each step that is named to it by [`Self::after_start`] and
    /// [`Self::after_end`] is one.
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
