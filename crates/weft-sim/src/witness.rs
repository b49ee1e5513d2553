//! Knows the fate of every packet of one flow in the network, and so whether a retransmission was necessary.

use crate::nuisance::Cause;
use std::collections::VecDeque;
use weft_core::flow::FAR_PACKETS_MAX;

/// The causes of retransmissions, as an observer of the whole network knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resends {
    /// Retransmissions of a packet whose last copy was lost on the way.
    pub lost: u64,
    /// Retransmissions of a packet whose last copy was damaged.
    pub damaged: u64,
    /// Retransmissions of a packet whose last copy found a full queue in a switch.
    pub queue: u64,
    /// Retransmissions of a packet whose last copy found a full socket.
    pub socket: u64,
    /// Retransmissions of a packet whose last copy was on a cable that was cut.
    pub cut: u64,
    /// Needless retransmissions: an earlier copy was still on its way, or waited in the socket.
    pub late: u64,
    /// Needless retransmissions: an earlier copy had arrived, and its acknowledgement had not.
    pub arrived: u64,
}

impl Resends {
    /// The number of retransmissions that were not necessary.
    pub const fn spurious(&self) -> u64 {
        self.late + self.arrived
    }

    /// The number of all retransmissions.
    pub const fn total(&self) -> u64 {
        self.lost + self.damaged + self.queue + self.socket + self.cut + self.spurious()
    }
}

#[derive(Clone, Copy, Debug)]
struct PacketHistory {
    /// The copies in the network or in the receiver's socket.
    alive: u16,
    arrived: bool,
    cause: Cause,
}

/// The numbered packets of one direction of one pair.
#[derive(Debug, Default)]
pub struct Witness {
    /// The number of the first history.
    base: Option<u32>,
    /// The histories of packets from `base` on; all packets before have arrived.
    histories: VecDeque<PacketHistory>,
    /// The packet and the transmission of which pieces left last. All pieces of a transmission leave before
    /// those of another one.
    in_pieces: Option<(u32, u8)>,
}

/// The most numbers by which a flow may be ahead of the oldest packet that has not arrived; more is a defect.
const SPAN_MAX: usize = FAR_PACKETS_MAX as usize;

impl Witness {
    /// Notes that a piece leaves; returns whether it is the first of this transmission of the packet.
    pub fn is_first_piece(&mut self, number: u32, transmission: u8) -> bool {
        self.in_pieces.replace((number, transmission)) != Some((number, transmission))
    }

    /// Notes that a packet leaves. Returns an error if its number makes no sense.
    pub fn note_departure(&mut self, number: u32, resends: &mut Resends) -> Result<(), String> {
        let base = *self.base.get_or_insert(number);
        let index = number.wrapping_sub(base) as i32;
        if index < 0 {
            resends.arrived += 1;
            return Ok(());
        }
        let index = index as usize;
        if index < self.histories.len() {
            let history = &mut self.histories[index];
            let count = match *history {
                PacketHistory { arrived: true, .. } => &mut resends.arrived,
                PacketHistory { alive: 1.., .. } => &mut resends.late,
                PacketHistory { cause: Cause::Loss, .. } => &mut resends.lost,
                PacketHistory { cause: Cause::Damage, .. } => &mut resends.damaged,
                PacketHistory { cause: Cause::Queue, .. } => &mut resends.queue,
                PacketHistory { cause: Cause::Socket, .. } => &mut resends.socket,
                PacketHistory { cause: Cause::Cut, .. } => &mut resends.cut,
            };
            *count += 1;
            history.alive = history.alive.saturating_add(1);
            return Ok(());
        }
        if index > self.histories.len() || index >= SPAN_MAX {
            return Err(format!(
                "packet {number} was sent where {} was due",
                base.wrapping_add(self.histories.len() as u32)
            ));
        }
        self.histories.push_back(PacketHistory { alive: 1, arrived: false, cause: Cause::Loss });
        Ok(())
    }

    fn history(&mut self, number: u32) -> Option<&mut PacketHistory> {
        let index = usize::try_from(number.wrapping_sub(self.base?) as i32).ok()?;
        self.histories.get_mut(index)
    }

    /// Notes that the network made another copy.
    pub fn copied(&mut self, number: u32) {
        if let Some(history) = self.history(number) {
            history.alive = history.alive.saturating_add(1);
        }
    }

    /// Notes that a copy is gone.
    pub fn gone(&mut self, number: u32, cause: Cause) {
        if let Some(history) = self.history(number) {
            history.alive = history.alive.saturating_sub(1);
            history.cause = cause;
        }
    }

    /// Notes that a copy has been given to the flow at the other end.
    pub fn arrived(&mut self, number: u32) {
        if let Some(history) = self.history(number) {
            history.alive = history.alive.saturating_sub(1);
            history.arrived = true;
        }
        while self.histories.front().is_some_and(|history| history.arrived) {
            self.histories.pop_front();
            self.base = self.base.map(|base| base.wrapping_add(1));
        }
        if self.histories.is_empty() {
            self.histories = VecDeque::new();
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
            witness.note_departure(number(i), &mut resends).expect("in order");
        }
        // Receive 0 and 3, lose 1, drop 2; packet 4 is under way.
        witness.arrived(number(0));
        witness.gone(number(1), Cause::Loss);
        witness.gone(number(2), Cause::Queue);
        witness.arrived(number(3));
        assert_eq!(resends, Resends::default());
        for i in 0..5 {
            witness.note_departure(number(i), &mut resends).expect("a resend");
        }
        // Expect: one of each, and two that had arrived.
        assert_eq!(resends, Resends { lost: 1, queue: 1, late: 1, arrived: 2, ..Resends::default() });
        assert_eq!((resends.total(), resends.spurious()), (5, 3));
        // The second copy of 1 is lost too, and it was duplicated.   Expect: a third is late while the other
        // copy lives.
        witness.copied(number(1));
        witness.gone(number(1), Cause::Damage);
        witness.note_departure(number(1), &mut resends).expect("a resend");
        assert_eq!(resends.late, 2);
    }

    #[test]
    fn a_number_out_of_turn_is_noticed() {
        let (mut witness, mut resends) = (Witness::default(), Resends::default());
        witness.note_departure(7, &mut resends).expect("the first may be any");
        assert!(witness.note_departure(9, &mut resends).is_err());
    }
}
