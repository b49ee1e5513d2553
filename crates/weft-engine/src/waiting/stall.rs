//! The patience of a sender with a receiver of its node that takes no frames (`engine/stalls.rs`).

/// The number of looks in vain after which the receiver's thread is woken: 10 to 20 µs, if nothing else
/// happens. A thread that wakes costs the receiver's program about as much.
const LOOKS_BEFORE_RING: u16 = 200;
/// The number of rings after which the sender gives up until the receiver takes a frame. One ring is enough
/// for a thread that is there.
const RINGS_MAX: u16 = 3;

/// The looks at a receiver for which messages of this process stand still.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// The bytes that the receiver had taken; `None`: nothing stood still at the last look.
    taken: Option<u64>,
    /// The looks since the last ring.
    looks: u16,
    rings: u16,
}

impl Stall {
    /// Notes a look at the receiver, which has `taken` so many bytes; `None`: nothing stands still. Returns
    /// whether its progress thread is to be woken.
    pub(crate) fn note(&mut self, taken: Option<u64>) -> bool {
        if taken.is_none() || self.taken != taken {
            *self = Self { taken, ..Self::default() };
            return false;
        }
        self.looks += u16::from(self.looks_on());
        let rings = self.looks == LOOKS_BEFORE_RING;
        if rings {
            (self.looks, self.rings) = (0, self.rings + 1);
        }
        rings
    }

    /// Returns whether a further look may wake the thread, though nothing arrives until then.
    pub(crate) fn looks_on(&self) -> bool {
        self.taken.is_some() && self.rings < RINGS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver takes nothing for a long time, then takes a frame, and takes nothing again.   Expect: its
    /// thread is woken a few times, and again after the frame. A receiver that takes frames now and then is
    /// left alone.
    #[test]
    fn a_receiver_that_takes_nothing_is_woken_a_few_times() {
        let mut stall = Stall::default();
        let mut rings = |taken: u64, looks: u16| (0..looks).filter(|_| stall.note(Some(taken))).count();
        assert_eq!([rings(0, LOOKS_BEFORE_RING), rings(0, 1)], [0, 1]);
        assert_eq!(rings(0, 100 * LOOKS_BEFORE_RING), RINGS_MAX as usize - 1);
        assert_eq!(rings(64, 100 * LOOKS_BEFORE_RING), RINGS_MAX as usize);
        assert_eq!((2..100).map(|frame| rings(64 * frame, LOOKS_BEFORE_RING)).sum::<usize>(), 0);
        assert!(stall.looks_on());
        assert!(!stall.note(None) && !stall.looks_on());
    }
}
