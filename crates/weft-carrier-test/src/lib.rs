//! What every carrier promises (`weft_engine::transport::Carrier`), as one list of tests that know no
//! carrier. Whoever has a carrier or a wrapper says how two ends of it are made, and [`check`] keeps it to
//! all of them.
//!
//! | promise | of whom |
//! |---|---|
//! | it can do what it says that it can do, and no more | all |
//! | packets of every length arrive whole, and longer ones never | all |
//! | packets are handed over as asked for, and counted | all |
//! | each packet arrives once and in order | those with [`Delivery::Ordered`] |
//! | nothing arrives that was not sent | all |
//! | a train is its packets, however many it has | all |
//! | whoever finds it full is told or loses packets, and it goes on | all |
//! | nobody sleeps while something has arrived, and whoever sleeps is woken | those with a descriptor |
//! | addresses of other carriers are refused | all |
//! | memory that is registered is written and read, within its limits, until it is deregistered | those with remote memory |
//! | what is sent to a group reaches those who have joined it, and not who sends | those with multicast |
#![forbid(unsafe_code)]

mod groups;
mod memory;
mod packets;

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

#[cfg(doc)]
use weft_engine::transport::Delivery;
use weft_engine::transport::{Address, Arrival, Carrier};

/// What does not happen in this time never will.
const LIMIT: Duration = Duration::from_secs(60);

/// One end of a carrier, and where the other one is.
pub struct End {
    /// The carrier.
    pub carrier: Box<dyn Carrier>,
    /// The other end's address, as this end knows it.
    pub peer: Address,
}

/// Two ends that lead to each other.
pub struct Pair {
    /// The one that mostly sends.
    pub near: End,
    /// The one that mostly receives.
    pub far: End,
}

impl Pair {
    /// Two ends of which each is given with its own address.
    pub fn new<N: Carrier + 'static, F: Carrier + 'static>(near: (N, Address), far: (F, Address)) -> Self {
        Self {
            near: End { carrier: Box::new(near.0), peer: far.1 },
            far: End { carrier: Box::new(far.0), peer: near.1 },
        }
    }
}

/// How the tests come by a carrier, and what passes while they wait.
pub struct Kit<'a> {
    make: Box<dyn FnMut() -> Pair + 'a>,
    pass: Box<dyn FnMut() + 'a>,
    is_readable: fn(RawFd, Duration) -> bool,
    loses: bool,
}

impl<'a> Kit<'a> {
    /// Pairs of ends are made so. `is_readable` waits for a descriptor, at most so long.
    pub fn new(make: impl FnMut() -> Pair + 'a, is_readable: fn(RawFd, Duration) -> bool) -> Self {
        Self { make: Box::new(make), pass: Box::new(std::thread::yield_now), is_readable, loses: false }
    }

    /// Time of its own passes so, such as that of a simulator.
    #[must_use]
    pub fn with_time(self, pass: impl FnMut() + 'a) -> Self {
        Self { pass: Box::new(pass), ..self }
    }

    /// Packets are lost on purpose, also where there is room for them.
    #[must_use]
    pub fn that_loses(self) -> Self {
        Self { loses: true, ..self }
    }

    fn pair(&mut self) -> Pair {
        (self.make)()
    }

    /// Both ends look, and hand over what has arrived; how many packets that were at the far one.
    fn look(&mut self, pair: &mut Pair, on_far: &mut dyn FnMut(Arrival<'_>)) -> usize {
        (self.pass)();
        pair.near.carrier.receive(&mut |_| {}, LOOK);
        pair.far.carrier.receive(on_far, LOOK)
    }

    /// Looks until something is so.
    ///
    /// # Panics
    /// When it is not after a minute.
    fn until(&mut self, pair: &mut Pair, what: &str, mut is_so: impl FnMut(&mut Kit<'a>, &mut Pair) -> bool) {
        let began = Instant::now();
        while !is_so(self, pair) {
            assert!(began.elapsed() < LIMIT, "{}: {what}, and it did not within {} s", name(pair), LIMIT.as_secs());
            (self.pass)();
        }
    }
}

/// Packets that a look takes at most.
const LOOK: usize = 64;

fn name(pair: &Pair) -> &'static str {
    pair.far.carrier.attributes().name
}

/// One promise: whether it was one of this carrier, and kept.
type Promise = fn(&mut Kit<'_>) -> bool;

const PROMISES: [(&str, Promise); 11] = [
    ("it can do what it says, and no more", packets::attributes),
    ("packets of every length arrive whole, and longer ones never", packets::lengths),
    ("packets are handed over as asked for, and counted", packets::limits),
    ("each packet arrives once and in order", packets::order),
    ("nothing arrives that was not sent", packets::content),
    ("a train is its packets", packets::trains),
    ("it goes on after it was full", packets::full),
    ("whoever sleeps is woken", packets::sleep),
    ("addresses of other carriers are refused", packets::addresses),
    ("memory is reached as long as it is registered, and within its limits", memory::access),
    ("what is sent to a group reaches its members", groups::groups),
];

/// Keeps a carrier to all that it promises; the promises that it has made.
///
/// # Panics
/// When one is not kept: the sentence says which, and by what carrier.
pub fn check(mut kit: Kit<'_>) -> Vec<&'static str> {
    PROMISES.iter().filter(|(_, keeps)| keeps(&mut kit)).map(|(promise, _)| *promise).collect()
}
