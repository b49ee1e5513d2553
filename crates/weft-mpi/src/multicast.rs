//! Multicast on communicators: what the user wants of it, and what this process knows of the network.
//! `communicator/multicast.rs` uses it to try multicast, and `planner.rs` to choose it.

pub use weft_core::multicast::{Counters, Scheme, model, simulation};
use weft_core::time::Duration;
use weft_engine::engine::GroupPaths;
use weft_engine::transport::AddressKind;
use weft_plan::collective::choice::{self, Choices, Operation};

/// The hint of a communicator that names the multicast scheme of its broadcasts, as `WEFT_BCAST` does for all
/// communicators.
pub const HINT: &str = "weft_bcast";

/// The user's wish for multicast (`WEFT_BCAST`, or the hint of a communicator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BcastSetting {
    /// No multicast (`tree`, or another algorithm).
    Off,
    /// Multicast where it is possible and the table chooses it, by the scheme that fits the group (`auto`).
    Auto,
    /// Multicast wherever it is possible, from the first broadcast on: by the scheme that fits the group
    /// (`multicast`), or by the scheme named here.
    By(Option<Scheme>),
}

impl BcastSetting {
    /// Reads the setting. `None` when the text names something else.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "tree" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "multicast" => Some(Self::By(None)),
            scheme => scheme.parse().ok().map(|scheme| Self::By(Some(scheme))),
        }
    }
}

/// The state of multicast on a communicator, the same at all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multicast {
    /// Multicast has not been tried. The number counts the operations so far that might have tried it.
    Untried(u32),
    /// The network carries multicast, or did at the last review.
    Works(Reviews),
    /// The network does not carry multicast, or not everywhere.
    Impossible,
    /// Multicast worked and then lost too much. Operations that were planned with multicast keep it, new ones
    /// do not use it.
    GivenUp,
}

/// The reviews in which the processes of a communicator look whether the network still carries multicast, all
/// of them in the same operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reviews {
    /// Blocking operations that may be multicast, since the network was found to carry multicast.
    operations: u64,
    /// The operation in which the processes look next.
    next: u64,
    /// The operations between two looks.
    apart: u64,
}

impl Reviews {
    /// Operations before the first look; from then on twice as many each time.
    const FIRST: u64 = 64;
    /// The most operations between two looks while something is multicast.
    const APART_MAX: u64 = 8192;
    /// The most operations between two looks where nothing has been multicast since the last look. In a look
    /// all processes wait for each other, which costs as much as hundreds of small broadcasts in a row.
    const APART_IDLE_MAX: u64 = 1 << 17;

    /// Counts an operation that begins. Returns whether all processes look before it.
    pub(crate) fn count(&mut self) -> bool {
        self.operations += 1;
        self.operations >= self.next
    }

    /// Sets the next look: all processes have looked, and know whether anything was multicast since the last
    /// look.
    pub(crate) fn looked(&mut self, was_used: bool) {
        self.apart = (2 * self.apart).min(if was_used { Self::APART_MAX } else { Self::APART_IDLE_MAX });
        self.next = self.operations + self.apart;
    }
}

impl Default for Reviews {
    fn default() -> Self {
        Self { operations: 0, next: Self::FIRST, apart: Self::FIRST }
    }
}

impl Default for Multicast {
    fn default() -> Self {
        Self::Untried(0)
    }
}

/// The knowledge of a process whether the network carries multicast, and if not, why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carried {
    /// Unknown: multicast has not been tried.
    #[default]
    Unknown,
    /// The network carries multicast.
    Yes,
    /// Some process has no carrier for multicast.
    NoCarrier,
    /// Some host could not join a group.
    NotJoined,
    /// Packets did not reach all hosts.
    NotHeard,
    /// The network carried multicast, and then lost too much.
    LostTooMuch,
}

impl Carried {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Yes, Self::NoCarrier, Self::NotJoined, Self::NotHeard, Self::LostTooMuch];

    /// A clause for people; `None` for `Unknown`.
    pub const fn clause(self) -> Option<&'static str> {
        Some(match self {
            Self::Unknown => return None,
            Self::Yes => "the network carries it",
            Self::NoCarrier => {
                "not used: a rank has neither a UDP interface nor an RDMA device that could; iWARP has none (WEFT_LINK, WEFT_INTERFACE)"
            }
            Self::NotJoined => "not used: a host could not join the group (net.ipv4.igmp_max_memberships; weft doctor)",
            Self::NotHeard => "not used: packets did not reach all hosts (weft doctor says why)",
            Self::LostTooMuch => {
                "used no more: a host had to ask for more than half of the packets (weft doctor says why)"
            }
        })
    }
}

/// The operations that may be multicast.
const OPERATIONS: [Operation; 4] = [Operation::Bcast, Operation::Barrier, Operation::Allreduce, Operation::Allgather];

/// A set of [`OPERATIONS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Operations(u16);

impl Operations {
    fn which(is_meant: impl Fn(Operation) -> bool) -> Self {
        let bits = OPERATIONS.iter().map(|operation| (is_meant(*operation), 1 << *operation as u8));
        Self(bits.filter(|(is_meant, _)| *is_meant).fold(0, |all, (_, bit)| all | bit))
    }

    const fn has(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }
}

/// The knowledge of a process about multicast, on all its communicators together.
pub struct Knowledge {
    /// The operations that a setting asks to be multicast, and those that a line of a table may multicast.
    asked: Operations,
    possible: Operations,
    /// The user's wish where a communicator has no hint.
    setting: BcastSetting,
    /// The silence after which a group member that was asked counts as failed; zero: never.
    pub(crate) peer_timeout: Duration,
    /// Packets are sealed for one receiver, so there is no multicast.
    is_sealed: bool,
    /// Trying has failed once, or the network no longer carries multicast: it is not tried again.
    pub(crate) fails: bool,
    /// The same as `fails`, for each path by which packets go to groups.
    pub(crate) failed: GroupPaths<bool>,
    /// The knowledge whether the network carries multicast.
    pub(crate) carried: Carried,
    /// A number that no group of this process has had.
    pub(crate) next_generation: u32,
}

impl Knowledge {
    /// The state in which nothing is known.
    pub(crate) const fn new(setting: BcastSetting, is_sealed: bool, peer_timeout: Duration) -> Self {
        let (asked, possible) = (Operations(0), Operations(0));
        Self {
            asked,
            possible,
            setting,
            peer_timeout,
            is_sealed,
            fails: false,
            failed: [false; AddressKind::ALL.len()],
            carried: Carried::Unknown,
            next_generation: 0,
        }
    }

    /// The same knowledge, with the operations that `choices` may multicast.
    pub(crate) fn with_choices(self, choices: &Choices) -> Self {
        if self.is_sealed {
            return self;
        }
        let asked = Operations::which(|operation| choices.asks_for_multicast(operation));
        Self { asked, possible: Operations::which(|operation| choices.may_multicast(operation)), ..self }
    }

    /// The number of operations that may be multicast after which an `operation` tries whether the network
    /// carries multicast, on a communicator with these hints. `None`: the operation never tries.
    pub(crate) fn tries_after(&self, operation: Operation, hints: &[(String, String)], patience: u32) -> Option<u32> {
        match self.setting(hints) {
            _ if self.asked.has(operation) => Some(0),
            BcastSetting::Off if operation == Operation::Bcast || self.asked == Operations::default() => None,
            BcastSetting::By(_) if operation == Operation::Bcast => Some(0),
            _ => self.possible.has(operation).then_some(patience),
        }
    }

    /// Returns whether an operation on a communicator with these hints is to be multicast wherever that is
    /// possible.
    pub(crate) fn is_asked_for(&self, hints: &[(String, String)]) -> bool {
        self.asked != Operations::default() || matches!(self.setting(hints), BcastSetting::By(_))
    }

    /// The multicast that is allowed on a communicator with these hints, whose network carries multicast.
    pub(crate) fn allowed(&self, hints: &[(String, String)]) -> choice::Multicast {
        match self.setting(hints) {
            BcastSetting::Off if self.asked == Operations::default() => choice::Multicast::No,
            BcastSetting::Off => choice::Multicast::Others,
            BcastSetting::Auto => choice::Multicast::Possible,
            BcastSetting::By(_) => choice::Multicast::Asked,
        }
    }

    /// The user's wish for a communicator with these hints.
    pub fn setting(&self, hints: &[(String, String)]) -> BcastSetting {
        if self.is_sealed {
            return BcastSetting::Off;
        }
        let hint = hints.iter().find(|(key, _)| key == HINT);
        hint.and_then(|(_, value)| BcastSetting::parse(value)).unwrap_or(self.setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_setting_asks_to_be_multicast_is_tried_at_once_and_by_nobody_who_seals() {
        let barrier = Operation::Barrier.parse("multicast").unwrap();
        let choices = Choices::new(vec![(Operation::Barrier, barrier)], choice::Table::default());
        let knowledge = |setting, sealed| Knowledge::new(setting, sealed, Duration(0)).with_choices(&choices);
        let off = knowledge(BcastSetting::Off, false);
        assert_eq!(off.tries_after(Operation::Barrier, &[], 2), Some(0));
        assert_eq!(off.tries_after(Operation::Bcast, &[], 2), None);
        assert_eq!(off.allowed(&[]), choice::Multicast::Others);
        let auto = knowledge(BcastSetting::Auto, false);
        assert_eq!(auto.tries_after(Operation::Bcast, &[], 2), Some(2));
        assert_eq!(auto.tries_after(Operation::Scan, &[], 2), None);
        let sealed = knowledge(BcastSetting::Auto, true);
        assert_eq!(sealed.tries_after(Operation::Barrier, &[], 2), None);
        assert_eq!(sealed.allowed(&[]), choice::Multicast::No);
    }

    #[test]
    fn looks_become_rare_where_nothing_is_multicast_and_frequent_when_something_is() {
        let mut reviews = Reviews::default();
        let mut looks = |operations: u64, was_used: bool| {
            let mut count = 0;
            for _ in 0..operations {
                if reviews.count() {
                    reviews.looked(was_used);
                    count += 1;
                }
            }
            count
        };
        assert_eq!((looks(63, true), looks(1, true), looks(1000, true)), (0, 1, 3));
        let period = Reviews::APART_MAX;
        assert!(looks(10 * period, true) >= 10);
        assert_eq!(looks(100 * period, true), 100);
        assert!(looks(8 * Reviews::APART_IDLE_MAX, false) < 16);
        // The first look that finds something is as far away as that.
        assert!(looks(Reviews::APART_IDLE_MAX, true) > 0);
        assert_eq!(looks(100 * period, true), 100);
    }

    #[test]
    fn ways_to_broadcast_are_told_from_algorithms() {
        assert_eq!(BcastSetting::parse("tree"), Some(BcastSetting::Off));
        assert_eq!(BcastSetting::parse("auto"), Some(BcastSetting::Auto));
        assert_eq!(BcastSetting::parse("multicast"), Some(BcastSetting::By(None)));
        assert_eq!(BcastSetting::parse("window"), Some(BcastSetting::By(Some(Scheme::WINDOW))));
        assert_eq!(BcastSetting::parse("binomial"), None);
    }
}
