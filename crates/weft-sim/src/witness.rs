//! Knows what became of every packet of one flow in the network, and so whether a resend was necessary.

use crate::nuisance::Cause;
use std::collections::VecDeque;
use weft_core::flow::FAR_PACKETS_MAX;

/// Why a packet was sent again, as somebody knows who sees the whole network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resends {
    /// All earlier transmissions were lost on the way.
    pub lost: u64,
    /// … were damaged.
    pub damaged: u64,
    /// … found a full queue in a switch.
    pub queue: u64,
    /// … found a full socket.
    pub socket: u64,
    /// … were on a cable that was cut.
    pub cut: u64,
    /// For nothing: an earlier one was still on its way, or waited in the socket.
    pub late: u64,
    /// For nothing: an earlier one had arrived, and the acknowledgement had not.
    pub arrived: u64,
}

impl Resends {
    /// Resends that nobody needed.
    pub const fn spurious(&self) -> u64 {
        self.late + self.arrived
    }

    /// All resends.
    pub const fn total(&self) -> u64 {
        self.lost + self.damaged + self.queue + self.socket + self.cut + self.spurious()
    }
}

#[derive(Clone, Copy, Debug)]
struct Fate {
    /// Copies in the network or in the receiver's socket.
    alive: u16,
    arrived: bool,
    cause: Cause,
}

/// The numbered packets of one direction of one pair.
#[derive(Debug, Default)]
pub struct Witness {
    /// Number of the first fate.
    base: Option<u32>,
    /// Of packets from `base` on; those before have arrived.
    fates: VecDeque<Fate>,
}

/// Numbers that a flow may be ahead of the oldest that has not arrived; more is a defect.
const SPAN_MAX: usize = FAR_PACKETS_MAX as usize;

impl Witness {
    /// A packet leaves. Returns an error if its number makes no sense.
    pub fn departed(&mut self, number: u32, resends: &mut Resends) -> Result<(), String> {
        let base = *self.base.get_or_insert(number);
        let index = number.wrapping_sub(base) as i32;
        if index < 0 {
            resends.arrived += 1;
            return Ok(());
        }
        let index = index as usize;
        if index < self.fates.len() {
            let fate = &mut self.fates[index];
            let count = match *fate {
                Fate { arrived: true, .. } => &mut resends.arrived,
                Fate { alive: 1.., .. } => &mut resends.late,
                Fate { cause: Cause::Loss, .. } => &mut resends.lost,
                Fate { cause: Cause::Damage, .. } => &mut resends.damaged,
                Fate { cause: Cause::Queue, .. } => &mut resends.queue,
                Fate { cause: Cause::Socket, .. } => &mut resends.socket,
                Fate { cause: Cause::Cut, .. } => &mut resends.cut,
            };
            *count += 1;
            fate.alive = fate.alive.saturating_add(1);
            return Ok(());
        }
        if index > self.fates.len() || index >= SPAN_MAX {
            return Err(format!(
                "packet {number} was sent where {} was due",
                base.wrapping_add(self.fates.len() as u32)
            ));
        }
        self.fates.push_back(Fate { alive: 1, arrived: false, cause: Cause::Loss });
        Ok(())
    }

    fn fate(&mut self, number: u32) -> Option<&mut Fate> {
        let index = usize::try_from(number.wrapping_sub(self.base?) as i32).ok()?;
        self.fates.get_mut(index)
    }

    /// The network made another copy.
    pub fn copied(&mut self, number: u32) {
        if let Some(fate) = self.fate(number) {
            fate.alive = fate.alive.saturating_add(1);
        }
    }

    /// A copy is gone.
    pub fn gone(&mut self, number: u32, cause: Cause) {
        if let Some(fate) = self.fate(number) {
            fate.alive = fate.alive.saturating_sub(1);
            fate.cause = cause;
        }
    }

    /// A copy has been given to the flow at the other end.
    pub fn arrived(&mut self, number: u32) {
        if let Some(fate) = self.fate(number) {
            fate.alive = fate.alive.saturating_sub(1);
            fate.arrived = true;
        }
        while self.fates.front().is_some_and(|fate| fate.arrived) {
            self.fates.pop_front();
            self.base = self.base.map(|base| base.wrapping_add(1));
        }
        if self.fates.is_empty() {
            self.fates = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resend_is_judged_by_what_happened() {
        let (mut witness, mut resends) = (Witness::default(), Resends::default());
        let first = u32::MAX - 1;
        let number = |i: u32| first.wrapping_add(i);
        for i in 0..5 {
            witness.departed(number(i), &mut resends).expect("in order");
        }
        // Receive 0 and 3, lose 1, drop 2; 4 is under way.
        witness.arrived(number(0));
        witness.gone(number(1), Cause::Loss);
        witness.gone(number(2), Cause::Queue);
        witness.arrived(number(3));
        assert_eq!(resends, Resends::default());
        for i in 0..5 {
            witness.departed(number(i), &mut resends).expect("a resend");
        }
        // Expect: one of each, and two that had arrived.
        assert_eq!(resends, Resends { lost: 1, queue: 1, late: 1, arrived: 2, ..Resends::default() });
        assert_eq!((resends.total(), resends.spurious()), (5, 3));
        // The second copy of 1 is lost too, and it was duplicated.   Expect: a third is late while the other copy lives.
        witness.copied(number(1));
        witness.gone(number(1), Cause::Damage);
        witness.departed(number(1), &mut resends).expect("a resend");
        assert_eq!(resends.late, 2);
    }

    #[test]
    fn a_number_out_of_turn_is_noticed() {
        let (mut witness, mut resends) = (Witness::default(), Resends::default());
        witness.departed(7, &mut resends).expect("the first may be any");
        assert!(witness.departed(9, &mut resends).is_err());
    }
}
