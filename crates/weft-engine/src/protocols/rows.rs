//! The protocols, one row each: when it is possible, and what it costs.
//!
//! The conditions of a row are policy, and hold on every machine. They keep to the receiver's credit and to
//! the limit that the user has set. They leave a nonblocking message that stands alone to one copier: the
//! program on the other side may be computing. The cost of a row is the machine's, and comes from the
//! [`CostModel`].

use std::ops::RangeInclusive;

use super::{
    CostModel, PIPE_FRAME_MIN, PeerClass, Protocol, RING_PIECE_BYTES, Receiver, RouteClass, Situation,
    UNASKED_BYTES_MAX,
};
use crate::protocols::costs::Cost;
use crate::transport::Candidate;

/// A protocol, and the messages that it may carry.
pub struct Row {
    /// The protocol.
    pub protocol: Protocol,
    /// The protocol's name.
    pub name: &'static str,
    /// The condition under which the protocol is possible, for people.
    pub when: &'static str,
    /// The protocol's offer in a situation with a peer of this class; `None`: it is not possible.
    pub(super) offer: fn(&PeerClass, &Situation, &CostModel) -> Option<Offer>,
}

/// The sizes that a protocol may carry, and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The sizes of messages, in bytes.
    pub sizes: RangeInclusive<u64>,
    /// The cost of a message.
    pub cost: Cost,
}

/// All protocols. Of two with the same cost the first is taken.
pub const ROWS: [Row; 6] = [
    Row {
        protocol: Protocol::Pipeline,
        name: "pipeline",
        when: "eagerly through a wide ring, also above the eager limit: both sides wait for this very message, or it is one of a window and its receive is posted",
        offer: pipeline,
    },
    Row {
        protocol: Protocol::ClearToSend,
        name: "clear-to-send",
        when: "announced; its receiver asks for the data, which comes through the ring or in packets",
        offer: clear_to_send,
    },
    Row {
        protocol: Protocol::Cooperate,
        name: "cooperate",
        when: "announced with its address; both sides wait, and each has the kernel copy a part",
        offer: cooperate,
    },
    Row {
        protocol: Protocol::Fetch,
        name: "fetch",
        when: "announced with its address; its receiver has the kernel copy it",
        offer: fetch,
    },
    Row {
        protocol: Protocol::WriteToPosted,
        name: "write",
        when: "its receive is posted where the sender sees it, and the receiver will not fetch it: the sender has the kernel copy it",
        offer: write_to_posted,
    },
    Row {
        protocol: Protocol::Eager,
        name: "eager",
        when: "sent at once, within the eager limit and the receiver's credit; announced first where the kernel copies more quickly",
        offer: eager,
    },
];

impl Receiver {
    /// Returns whether a receive for this message is posted where the sender sees it.
    pub(super) const fn is_known(self) -> bool {
        !matches!(self.posted, Candidate::None)
    }
}

impl Situation {
    /// Returns whether the receiver waits inside MPI, and so fetches an announced message: the program goes
    /// on here.
    const fn would_be_fetched(&self) -> bool {
        self.receiver.is_known() && self.receiver.is_inside && self.is_contiguous
    }

    /// Returns whether the message may be announced as a trial of the kernel's copy, though it is within the
    /// eager limit. Its receive must be posted, so that nobody waits for one.
    pub(crate) const fn may_be_tried(&self) -> bool {
        self.is_contiguous && self.receiver.is_known()
    }

    /// Returns whether both sides wait for this very message.
    pub(super) const fn is_awaited_at_both_ends(&self) -> bool {
        self.is_blocking && self.would_be_fetched() && matches!(self.receiver.posted, Candidate::Awaited)
    }

    /// Returns whether the receiver fetches the message as soon as it is announced. An earlier announcement
    /// keeps the receiver from that for the time of a copy. Only a sender that waits for this message minds.
    pub(super) const fn is_fetched_at_once(&self) -> bool {
        self.would_be_fetched() && !(self.receiver.has_announced && self.is_blocking)
    }

    /// Returns whether the message may be written to the receive that is posted for it.
    const fn may_be_written(&self) -> bool {
        self.receiver.is_known() && !self.would_be_fetched() && !self.write_failed && !self.is_part_of_an_exchange()
    }

    /// Returns whether windows with this message go both ways. Each receiver waits as soon as it has
    /// started its own messages, and fetches. The memory of its receives lies in its own cache, and a write
    /// would have to take it from there.
    const fn is_part_of_an_exchange(&self) -> bool {
        self.is_exchanged && self.waits_behind_others() && self.is_contiguous
    }

    /// Returns whether earlier messages are on their way and the sender does not wait for this one: the
    /// round trip of its announcement passes unnoticed.
    pub(super) const fn waits_behind_others(&self) -> bool {
        self.is_path_busy && !self.is_blocking
    }

    /// Returns whether, as far as is known, the program waits at both ends of the message.
    const fn may_use_both_processors(&self) -> bool {
        self.is_blocking && !matches!(self.receiver.posted, Candidate::Posted)
    }
}

/// The largest message that is sent eagerly because it is short, in bytes.
pub(super) fn eager_max(class: &PeerClass, situation: &Situation) -> u64 {
    match class.route {
        // The answer must not overtake the last piece.
        RouteClass::Ring { frame_max, .. } if situation.is_synchronous => {
            class.eager_limit.min(frame_max).min(RING_PIECE_BYTES)
        }
        _ => class.eager_limit,
    }
}

/// The sizes that may be announced. A message that is short enough for an eager send is sent eagerly, unless
/// it is known that its announcement keeps nobody waiting. A message that may be written to its receive is
/// written, if it is large enough for the kernel to copy it.
fn announced_sizes(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<RangeInclusive<u64>> {
    let most = match situation.may_be_written() && !streams(class, situation, costs) {
        true => costs.single_copy_bytes_min() - 1,
        false => u64::MAX,
    };
    let keeps_nobody_waiting = match class.route {
        RouteClass::Network => situation.waits_behind_others(),
        _ => situation.is_fetched_at_once(),
    };
    if !situation.has_credit || keeps_nobody_waiting {
        return Some(0..=most);
    }
    // The program waits for all messages of a window, and the receiver fetches each as soon as it gets to
    // it. Its receive must be posted: a program may rely on messages within the eager limit not to wait for
    // one.
    let is_copied = matches!(class.route, RouteClass::Ring { is_copied: true, .. });
    if is_copied && situation.receiver.is_known() && is_in_window(class, situation) {
        return Some(eager_max(class, situation).min(UNASKED_BYTES_MAX) + 1..=most);
    }
    eager_max(class, situation).checked_add(1).map(|least| least..=most)
}

/// The cost of a byte through a ring whose two ends copy at the same time.
fn ring_at_once(frame_max: u64, is_near: bool, costs: &CostModel) -> u64 {
    match (frame_max >= PIPE_FRAME_MIN, is_near) {
        // The two ends hinder each other.
        (false, _) => costs.ring_in_turn_per_byte_ps,
        (true, true) => costs.ring_near_per_byte_ps,
        (true, false) => costs.ring_far_per_byte_ps,
    }
}

/// The cost of a byte through such a ring in a window. Where both processes send windows, each processor
/// copies twice: once into a ring, and once out of another one. That counts where copying limits a ring: if
/// plain stores are quick, or processors that share no cache are no worse. Elsewhere lines that the
/// processors exchange limit a ring, and two rings are as quick as one.
fn ring_in_window(frame_max: u64, is_near: bool, is_exchanged: bool, costs: &CostModel) -> u64 {
    let one_way = ring_at_once(frame_max, is_near, costs);
    let is_worse_far = costs.ring_far_per_byte_ps > costs.ring_near_per_byte_ps.saturating_mul(5) / 4;
    if is_exchanged && (is_near || !is_worse_far) { one_way.saturating_mul(2) } else { one_way }
}

/// Whether both ends of a ring copy large data of windows at once, and so move it as quickly as the kernel
/// copies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streams {
    /// To a processor that shares a cache, where windows go one way,
    near: bool,
    /// and where they go both ways.
    near_exchanged: bool,
    /// To a processor that shares none, where windows go one way,
    far: bool,
    /// and where they go both ways.
    far_exchanged: bool,
}

impl Streams {
    /// The answer for rings with frames of at most `frame_max` bytes.
    pub(crate) fn new(frame_max: u64, costs: &CostModel) -> Self {
        let streams = |is_near, is_exchanged| {
            let ring = ring_in_window(frame_max, is_near, is_exchanged, costs);
            frame_max >= PIPE_FRAME_MIN && costs.copies_at_both_ends(ring)
        };
        Self {
            near: streams(true, false),
            near_exchanged: streams(true, true),
            far: streams(false, false),
            far_exchanged: streams(false, true),
        }
    }

    /// The answer for a ring to a peer.
    pub(crate) fn to(self, is_near: bool, is_exchanged: bool) -> bool {
        match (is_near, is_exchanged) {
            (true, false) => self.near,
            (true, true) => self.near_exchanged,
            (false, false) => self.far,
            (false, true) => self.far_exchanged,
        }
    }
}

/// Returns whether a message on a node belongs to a window, and its ring is wide. Then one message is copied
/// at one end while another is copied at the other end.
fn is_in_window(class: &PeerClass, situation: &Situation) -> bool {
    let RouteClass::Ring { frame_max, .. } = class.route else { return false };
    situation.waits_behind_others() && situation.is_contiguous && frame_max >= PIPE_FRAME_MIN
}

/// Returns whether such a message goes through the ring as quickly as the kernel copies it, also where it is
/// too long for an eager message.
fn streams(class: &PeerClass, situation: &Situation, costs: &CostModel) -> bool {
    let RouteClass::Ring { frame_max, is_near, .. } = class.route else { return false };
    is_in_window(class, situation) && Streams::new(frame_max, costs).to(is_near, situation.is_exchanged)
}

fn pipeline(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<Offer> {
    let RouteClass::Ring { frame_max, is_near, .. } = class.route else { return None };
    if !situation.has_credit || situation.is_synchronous || frame_max < PIPE_FRAME_MIN {
        return None;
    }
    if situation.is_awaited_at_both_ends() {
        let per_byte_ps = ring_at_once(frame_max, is_near, costs) + costs.ring_ahead_per_byte_ps;
        return Some(Offer { sizes: 0..=u64::MAX, cost: Cost { fixed_ps: 0, per_byte_ps } });
    }
    if !situation.receiver.is_known() || !streams(class, situation, costs) {
        return None;
    }
    let per_byte_ps = ring_in_window(frame_max, is_near, situation.is_exchanged, costs);
    let least = eager_max(class, situation).checked_add(1)?;
    Some(Offer { sizes: least..=u64::MAX, cost: Cost { fixed_ps: 0, per_byte_ps } })
}

fn clear_to_send(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<Offer> {
    let sizes = announced_sizes(class, situation, costs)?;
    let cost = match class.route {
        // A contiguous message of this process to itself is fetched.
        RouteClass::Myself if situation.is_contiguous => return None,
        RouteClass::Myself => Cost { fixed_ps: 0, per_byte_ps: costs.ring_in_turn_per_byte_ps },
        RouteClass::Ring { frame_max, is_near, is_copied } => {
            // A message that one side can copy alone leaves the other side to compute, unless both wait.
            if is_copied && situation.is_contiguous && !situation.may_use_both_processors() {
                return None;
            }
            Cost { fixed_ps: costs.ring_answer_ps, per_byte_ps: ring_at_once(frame_max, is_near, costs) }
        }
        RouteClass::Network if situation.waits_behind_others() => {
            Cost { fixed_ps: costs.announcement_ps, per_byte_ps: 0 }
        }
        RouteClass::Network => Cost { fixed_ps: costs.announcement_ps + costs.answer_ps, per_byte_ps: 0 },
    };
    Some(Offer { sizes, cost })
}

fn cooperate(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<Offer> {
    let RouteClass::Ring { is_copied: true, .. } = class.route else { return None };
    let is_possible = situation.is_contiguous && situation.may_use_both_processors();
    let sizes = announced_sizes(class, situation, costs).filter(|_| is_possible)?;
    Some(Offer { sizes, cost: costs.cooperative_copy() })
}

fn fetch(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<Offer> {
    let cost = match class.route {
        RouteClass::Myself => Cost::default(),
        // The receiver asks for it if both sides wait by then.
        RouteClass::Ring { is_copied: true, frame_max, is_near } if streams(class, situation, costs) => {
            let per_byte_ps = ring_in_window(frame_max, is_near, situation.is_exchanged, costs);
            Cost { fixed_ps: costs.ring_answer_ps, per_byte_ps }
        }
        RouteClass::Ring { is_copied: true, .. } if is_in_window(class, situation) => costs.fetch_in_window(),
        RouteClass::Ring { is_copied: true, .. } => costs.kernel_copy(),
        _ => return None,
    };
    let sizes = announced_sizes(class, situation, costs).filter(|_| situation.is_contiguous)?;
    Some(Offer { sizes, cost })
}

fn write_to_posted(_: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<Offer> {
    let sizes = costs.single_copy_bytes_min()..=u64::MAX;
    situation.may_be_written().then(|| Offer { sizes, cost: costs.kernel_copy() })
}

pub(super) fn eager(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Option<Offer> {
    let per_byte_ps = match class.route {
        RouteClass::Ring { frame_max, is_near, .. } if is_in_window(class, situation) => {
            ring_in_window(frame_max, is_near, situation.is_exchanged, costs)
        }
        RouteClass::Ring { frame_max, is_near, .. } if situation.is_awaited_at_both_ends() => {
            ring_at_once(frame_max, is_near, costs)
        }
        RouteClass::Ring { .. } | RouteClass::Myself => costs.ring_in_turn_per_byte_ps,
        RouteClass::Network => costs.eager_per_byte_ps,
    };
    let sizes = 0..=eager_max(class, situation);
    situation.has_credit.then_some(Offer { sizes, cost: Cost { fixed_ps: 0, per_byte_ps } })
}
