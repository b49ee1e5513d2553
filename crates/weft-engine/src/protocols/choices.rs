//! The choice for each message, by tables of ranges.
//!
//! The rows are compiled into ranges of sizes when a class of peers and a situation are asked for the first
//! time. After that a message costs one look-up.

use super::early_announcements;
use super::rows::{self, Offer, ROWS, Row};
use super::{CostModel, Facts, PeerClass, Protocol, Reason, Receiver, RouteClass, Situation};
use crate::transport::Candidate;

/// The most classes of peers whose ranges are kept; a job has a few. With more, all are compiled anew.
const CLASSES_MAX: usize = 32;
/// The number of situations: each has a number below this.
const SITUATIONS: usize = 1 << 11;

/// A range of sizes whose messages travel in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The largest size, in bytes. The smallest is the one behind the range before.
    pub bytes_max: u64,
    /// The protocol of these messages.
    pub protocol: Protocol,
    /// The reason of the choice.
    pub reason: Reason,
}

/// The choices of protocols for messages, by the costs of this machine.
pub struct Choices {
    costs: CostModel,
    visible_bytes_min: u64,
    awaited_eager_max: u64,
    window_eager_max: [u64; 2],
    classes: Vec<Compiled>,
}

/// The compiled ranges for a class of peers.
struct Compiled {
    class: PeerClass,
    /// The place of each situation's ranges in `ranges`, counted from one; zero: they have not been compiled.
    numbers: Box<[u16; SITUATIONS]>,
    ranges: Vec<Vec<Range>>,
}

impl Choices {
    /// Makes the choices by these costs.
    pub fn new(costs: CostModel) -> Self {
        Self {
            costs,
            visible_bytes_min: costs.visible_bytes_min(),
            awaited_eager_max: costs.awaited_eager_max(),
            window_eager_max: [false, true].map(|is_exchanged| costs.window_eager_max(is_exchanged)),
            classes: Vec::new(),
        }
    }

    /// The costs.
    pub fn costs(&self) -> &CostModel {
        &self.costs
    }

    /// The smallest message whose receiver matters, in bytes ([`CostModel::visible_bytes_min`]).
    #[inline]
    pub fn visible_bytes_min(&self) -> u64 {
        self.visible_bytes_min
    }

    /// The largest message whose receiver waits without being seen, in bytes
    /// ([`CostModel::awaited_eager_max`]).
    #[inline]
    pub fn awaited_eager_max(&self) -> u64 {
        self.awaited_eager_max
    }

    /// The largest message of a window that goes eagerly whatever its receiver does, in bytes
    /// ([`CostModel::window_eager_max`]).
    #[inline]
    pub fn window_eager_max(&self, is_exchanged: bool) -> u64 {
        self.window_eager_max[usize::from(is_exchanged)]
    }

    /// Chooses the protocol that carries a message, and says why.
    pub fn choose(&mut self, facts: &Facts) -> (Protocol, Reason) {
        let ranges = self.ranges(&facts.class, &facts.situation);
        let range = ranges.iter().find(|range| facts.bytes <= range.bytes_max).expect("the last range has no end");
        (range.protocol, range.reason)
    }

    /// Returns the looks after which the message is relocated, if it is better announced than sent eagerly
    /// ([`early_announcements::looks`]).
    pub(crate) fn looks_before_relocation(&self, facts: &Facts) -> Option<u64> {
        early_announcements::looks(facts, &self.costs)
    }

    /// The ranges of messages to a peer of this class, by size and without gaps.
    pub fn ranges(&mut self, class: &PeerClass, situation: &Situation) -> &[Range] {
        let situation = situation.as_known_of(class);
        let at = self.classes.iter().position(|known| known.class == *class).unwrap_or_else(|| {
            if self.classes.len() == CLASSES_MAX {
                self.classes.clear();
            }
            self.classes.push(Compiled { class: *class, numbers: Box::new([0; SITUATIONS]), ranges: Vec::new() });
            self.classes.len() - 1
        });
        let Compiled { numbers, ranges, .. } = &mut self.classes[at];
        let number = &mut numbers[situation.number()];
        if *number == 0 {
            ranges.push(compile(class, &situation, &self.costs));
            *number = ranges.len() as u16;
        }
        &ranges[usize::from(*number) - 1]
    }
}

impl Situation {
    /// Reduces the situation to what is known of a peer of this class. Receives are seen where their memory
    /// may be written, and the load of the path where packets are counted.
    fn as_known_of(self, class: &PeerClass) -> Self {
        match class.route {
            RouteClass::Ring { is_copied: true, .. } => self,
            RouteClass::Ring { .. } | RouteClass::Myself => {
                Self { is_path_busy: false, is_exchanged: false, ..self.of_unknown_receiver() }
            }
            RouteClass::Network => Self { is_exchanged: false, ..self.of_unknown_receiver() },
        }
    }

    /// Reduces the situation to that of a receiver of which nothing is known.
    fn of_unknown_receiver(self) -> Self {
        Self { receiver: Receiver::UNKNOWN, write_failed: false, ..self }
    }

    /// A unique number of the situation, below [`SITUATIONS`].
    fn number(&self) -> usize {
        let Self {
            is_synchronous,
            is_blocking,
            is_contiguous,
            has_credit,
            is_path_busy,
            is_exchanged,
            receiver,
            write_failed,
        } = *self;
        let Receiver { posted, is_inside, has_announced } = receiver;
        let posted = match posted {
            Candidate::None => [false, false],
            Candidate::Posted => [true, false],
            Candidate::Awaited => [false, true],
        };
        let bits = [
            is_synchronous,
            is_blocking,
            is_contiguous,
            has_credit,
            is_path_busy,
            is_exchanged,
            posted[0],
            posted[1],
            is_inside,
            has_announced,
            write_failed,
        ];
        bits.into_iter().fold(0, |number, bit| number * 2 + usize::from(bit))
    }
}

/// The protocols that are possible in a situation with a peer of this class, and what they offer; for large
/// messages, if the receiver is known.
pub fn offers(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Vec<(&'static Row, Offer)> {
    let situation = situation.as_known_of(class);
    ROWS.iter().filter_map(|row| Some((row, (row.offer)(class, &situation, costs)?))).collect()
}

/// Compiles the ranges of a class in a situation. For messages of which senders do not ask for the receiver,
/// the receiver's state does not count.
fn compile(class: &PeerClass, situation: &Situation, costs: &CostModel) -> Vec<Range> {
    let least = costs.visible_bytes_min();
    let mut ranges = Vec::new();
    add_cheapest(&mut ranges, 0..=least - 1, class, &situation.of_unknown_receiver(), costs);
    add_cheapest(&mut ranges, least..=u64::MAX, class, situation, costs);
    ranges
}

/// Adds the ranges for the sizes in `sizes`.
fn add_cheapest(
    ranges: &mut Vec<Range>,
    sizes: std::ops::RangeInclusive<u64>,
    class: &PeerClass,
    situation: &Situation,
    costs: &CostModel,
) {
    let offers = offers(class, situation, costs);
    let eager_max = rows::eager_max(class, situation);
    // Costs are straight lines, so the cheapest offer and the reason change at these sizes only.
    let mut starts = vec![*sizes.start(), eager_max.saturating_add(1)];
    for (_, one) in &offers {
        starts.extend([*one.sizes.start(), one.sizes.end().saturating_add(1)]);
        for (_, other) in &offers {
            starts.extend(one.cost.overtakes(other.cost).into_iter().flat_map(|size| [size, size.saturating_add(1)]));
        }
    }
    starts.retain(|start| sizes.contains(start));
    weft_ordered::sort(&mut starts);
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([*sizes.end()]);
    for (&bytes, bytes_max) in starts.iter().zip(ends) {
        let possible = offers.iter().filter(|(_, offer)| offer.sizes.contains(&bytes));
        // Of several offers with the same cost, `min_by_key` takes the first.
        let (Row { protocol, .. }, _) =
            possible.min_by_key(|(_, offer)| offer.cost.of(bytes)).expect("a message can always be announced");
        let reason = reason(*protocol, class, situation, bytes);
        match ranges.last_mut() {
            Some(last) if (last.protocol, last.reason) == (*protocol, reason) => last.bytes_max = bytes_max,
            _ => ranges.push(Range { bytes_max, protocol: *protocol, reason }),
        }
    }
}

/// The reason why a message of this size takes this protocol.
fn reason(protocol: Protocol, class: &PeerClass, situation: &Situation, bytes: u64) -> Reason {
    match protocol {
        Protocol::Eager => Reason::Fits,
        Protocol::Pipeline => Reason::BothWait,
        Protocol::WriteToPosted => Reason::Posted,
        _ if situation.is_fetched_at_once() => Reason::Fetched,
        _ if bytes > rows::eager_max(class, situation) => Reason::TooLong,
        _ if !situation.has_credit => Reason::NoCredit,
        _ => Reason::Busy,
    }
}
