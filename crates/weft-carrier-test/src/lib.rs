//! The promises of every carrier (`weft_engine::transport::Carrier`), as one list of tests that know no
//! carrier.
//!
//! The owner of a carrier or a wrapper says how two ends of it are made, and [`check`] tests all promises.
//!
//! | promise | carriers that make it |
//! |---|---|
//! | it can do what it says that it can do, and no more | all |
//! | packets of every length arrive whole, and longer ones never | all |
//! | packets are handed over as asked for, and counted | all |
//! | each packet arrives once and in order | those with [`Delivery::Ordered`] |
//! | nothing arrives that was not sent | all |
//! | a train is its packets, however many it has | all |
//! | a sender that finds it full is told or loses packets, and it goes on | all |
//! | an end does not sleep while a packet is there, and is woken by one | those with a descriptor |
//! | addresses of other carriers are refused | all |
//! | registered memory is written and read, in its limits, until deregistered | those with remote memory |
//! | a packet to a group reaches the members, and not its sender | those with multicast |
#![forbid(unsafe_code)]

mod groups;
mod memory;
mod packets;

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

#[cfg(doc)]
use weft_engine::transport::Delivery;
use weft_engine::transport::{Address, Arrival, Carrier};

/// Time after which an event that has not come counts as never coming.
const LIMIT: Duration = Duration::from_secs(60);

/// An end of a carrier, with the address of the other end.
pub struct End {
    /// The carrier.
    pub carrier: Box<dyn Carrier>,
    /// The other end's address, as this end knows it.
    pub peer: Address,
}

/// Two ends that lead to each other.
pub struct Pair {
    /// The end that mostly sends.
    pub near: End,
    /// The end that mostly receives.
    pub far: End,
}

impl Pair {
    /// Makes a pair of two ends, each given with its own address.
    pub fn new<N: Carrier + 'static, F: Carrier + 'static>(near: (N, Address), far: (F, Address)) -> Self {
        Self {
            near: End { carrier: Box::new(near.0), peer: far.1 },
            far: End { carrier: Box::new(far.0), peer: near.1 },
        }
    }
}

/// The way by which the tests get a carrier, and the time that passes while they wait.
pub struct Kit<'a> {
    make: Box<dyn FnMut() -> Pair + 'a>,
    pass: Box<dyn FnMut() + 'a>,
    is_readable: fn(RawFd, Duration) -> bool,
    loses: bool,
}

impl<'a> Kit<'a> {
    /// Makes a kit from a function that makes pairs of ends. `is_readable` waits for a descriptor, at most so
    /// long.
    pub fn new(make: impl FnMut() -> Pair + 'a, is_readable: fn(RawFd, Duration) -> bool) -> Self {
        Self { make: Box::new(make), pass: Box::new(std::thread::yield_now), is_readable, loses: false }
    }

    /// Lets time pass by `pass`, for carriers with a time of their own, such as a simulator's.
    #[must_use]
    pub fn with_time(self, pass: impl FnMut() + 'a) -> Self {
        Self { pass: Box::new(pass), ..self }
    }

    /// Says that packets are lost on purpose, also where there is room for them.
    #[must_use]
    pub fn that_loses(self) -> Self {
        Self { loses: true, ..self }
    }

    fn pair(&mut self) -> Pair {
        (self.make)()
    }

    /// Lets both ends look and hand over arrived packets, and returns how many the far end handed over.
    fn look(&mut self, pair: &mut Pair, on_far: &mut dyn FnMut(Arrival<'_>)) -> usize {
        (self.pass)();
        pair.near.carrier.receive(&mut |_| {}, LOOK);
        pair.far.carrier.receive(on_far, LOOK)
    }

    /// Looks until `is_so` returns true.
    ///
    /// # Panics
    /// When that has not happened after a minute.
    fn until(&mut self, pair: &mut Pair, what: &str, mut is_so: impl FnMut(&mut Kit<'a>, &mut Pair) -> bool) {
        let began = Instant::now();
        while !is_so(self, pair) {
            assert!(began.elapsed() < LIMIT, "{}: {what}, and it did not within {} s", name(pair), LIMIT.as_secs());
            (self.pass)();
        }
    }
}

/// Most packets that a look takes.
const LOOK: usize = 64;

fn name(pair: &Pair) -> &'static str {
    pair.far.carrier.attributes().name
}

/// A promise. The function returns whether this carrier makes it, and checks that it keeps it.
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

/// Checks all promises of a carrier, and returns those that it makes.
///
/// # Panics
/// When a promise is not kept: the sentence says which, and by which carrier.
pub fn check(mut kit: Kit<'_>) -> Vec<&'static str> {
    PROMISES.iter().filter(|(_, keeps)| keeps(&mut kit)).map(|(promise, _)| *promise).collect()
}
