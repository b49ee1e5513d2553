//! Messages that are announced although they could be sent eagerly: their receives may come at any moment,
//! and then the kernel copies them, once. A message whose receive does not come is relocated: its sender goes
//! on with a copy (`engine/single_copy/relocation.rs`). So a sender waits no longer for its receiver than a
//! copy takes (Karlin et al., Competitive snoopy caching, 1988), and ever more rarely where receives come
//! late.

use super::{CostModel, Facts, RouteClass, rows};

/// The time of a pass that looks whether the receive has come, in picoseconds.
const LOOK_PS: u64 = 20_000;
/// The time for a message to be fetched, as a multiple of the time that its copy takes: its receiver may be
/// on the way.
const PATIENCE: u128 = 2;
/// The most messages that are sent eagerly after one that was relocated, before another one is announced.
const PAUSE_MAX: u32 = 256;
/// The part of its cost as an eager message that the announcement of a message must save, as a divisor.
const LEAST_SAVING: u128 = 8;

/// The announcements to one peer of messages that could be sent eagerly.
#[derive(Debug, Default)]
pub(crate) struct EarlyAnnouncements {
    /// The messages that are sent eagerly before another one is announced.
    skip: u32,
    /// The value of `skip` after the last message that was relocated.
    pause: u32,
}

impl EarlyAnnouncements {
    /// Notes a message that is better announced; returns whether it is.
    pub(crate) fn take(&mut self) -> bool {
        self.skip = self.skip.saturating_sub(1);
        self.skip == 0
    }

    /// Notes that a message has been fetched in time.
    pub(crate) fn note_fetched(&mut self) {
        self.pause /= 4;
    }

    /// Notes that a message has been relocated, and its announcement was in vain.
    pub(crate) fn note_relocated(&mut self) {
        self.pause = (self.pause * 2).clamp(2, PAUSE_MAX);
        self.skip = self.pause;
    }
}

/// Returns the looks after which the message with these facts is relocated, if it is better announced than
/// sent eagerly; the sender knows no receive for it.
pub(super) fn looks(facts: &Facts, costs: &CostModel) -> Option<u64> {
    let Facts { bytes, class, situation } = facts;
    let is_possible = matches!(class.route, RouteClass::Ring { is_copied: true, .. })
        && situation.is_contiguous
        && !situation.is_synchronous
        && !situation.receiver.is_known()
        && *bytes > costs.awaited_eager_max();
    let eager = rows::eager(class, situation, costs).filter(|offer| is_possible && offer.sizes.contains(bytes))?;
    let eager = eager.cost.of(*bytes);
    let copy = costs.kernel_copy().of(*bytes);
    // As for messages of windows: an announcement and its FIN.
    let fetched = copy + u128::from(costs.ring_answer_ps / 2);
    (fetched + eager / LEAST_SAVING < eager)
        .then(|| u64::try_from(PATIENCE * fetched).map_or(1, |time| time / LOOK_PS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::{PeerClass, Receiver, Situation};
    use crate::transport::Candidate;

    /// A processor whose kernel copies more quickly than a ring (an Intel Xeon of 2025).
    const QUICK_KERNEL: CostModel = CostModel {
        kernel_copy_ps: 630_000,
        kernel_copy_per_byte_ps: 50,
        ring_in_turn_per_byte_ps: 154,
        ring_near_per_byte_ps: 77,
        ring_far_per_byte_ps: 77,
        ring_answer_ps: 1_380_000,
        ..CostModel::BUILT_IN
    };

    fn facts(bytes: u64) -> Facts {
        let route = RouteClass::Ring { frame_max: 1 << 20, is_near: true, is_copied: true };
        let situation = Situation { receiver: Receiver::UNKNOWN, ..Situation::BOTH_WAIT };
        Facts { bytes, class: PeerClass { route, eager_limit: 64 << 10 }, situation }
    }

    /// Expect: a message is announced early where the kernel is quicker, above the sizes for which receivers
    /// wait unseen, and within the eager limit; not to a receiver that is known, and not where the kernel is
    /// slow. The looks take as long as the message is expected to take.
    #[test]
    fn where_the_kernel_is_quicker_messages_are_announced_early() {
        let announced = |facts: &Facts| looks(facts, &QUICK_KERNEL);
        assert_eq!(announced(&facts(16 << 10)), None);
        assert_eq!(announced(&facts(32 << 10)), Some(2 * (630_000 + 32_768 * 50 + 690_000) / LOOK_PS + 1));
        assert!(announced(&facts(64 << 10)).is_some());
        assert_eq!(announced(&facts((64 << 10) + 1)), None);
        let known = Receiver { posted: Candidate::Posted, ..Receiver::UNKNOWN };
        let situations = [
            Situation { receiver: known, ..facts(0).situation },
            Situation { is_synchronous: true, ..facts(0).situation },
            Situation { is_contiguous: false, ..facts(0).situation },
            Situation { has_credit: false, ..facts(0).situation },
        ];
        for situation in situations {
            assert_eq!(announced(&Facts { situation, ..facts(64 << 10) }), None, "{situation:?}");
        }
        let slow = CostModel { kernel_copy_per_byte_ps: 140, ..QUICK_KERNEL };
        assert_eq!(looks(&facts(64 << 10), &slow), None);
    }

    /// Receives that never come in time, and then such as always do.   Expect: ever fewer messages are
    /// announced, and then all again.
    #[test]
    fn who_is_never_fetched_from_announces_ever_more_rarely() {
        let mut early = EarlyAnnouncements::default();
        let in_vain: Vec<u32> = (0..100)
            .filter(|_| {
                let taken = early.take();
                if taken {
                    early.note_relocated();
                }
                taken
            })
            .collect();
        assert_eq!(in_vain, [0, 2, 6, 14, 30, 62]);
        let fetched = (0..1_000).filter(|_| {
            let taken = early.take();
            if taken {
                early.note_fetched();
            }
            taken
        });
        assert!(fetched.count() > 900);
    }
}
