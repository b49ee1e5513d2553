//! Contexts: the numbers that keep the messages of communicators apart (MPI-5.0 §7.1.2).
//! `weft-mpi` carries out the agreement (`communicator/agreement.rs`).
//!
//! All processes of a new communicator must agree on a number that none of them uses. Each process offers a
//! number that is higher than all that it has seen, and the highest offer wins. These numbers give out
//! contexts in turn. So the contexts of a freed communicator are given again only after all others, when none
//! of its messages is under way any more.
//!
//! A process may take part in several agreements at once, with threads or with `MPI_Comm_idup`, and two of
//! them may end with the same number. So in a second step every process says whether the number is still
//! free; if one says no, the agreement is repeated. No process ever waits for another agreement. So
//! agreements cannot block each other, in whatever order processes come to them.
//!
//! Processes that have made all their communicators together offer the same number. So each process reserves
//! its own offer before it tells it, and tells whether it could. Where all have told the same number and have
//! it, the agreement ends there. Elsewhere they give these numbers back, and take the second step.

use alloc::vec::Vec;
use core::hash::Hasher;
use weft_ordered::{Map, Set};

use weft_core::process::ProcessName;

/// The number of contexts that each communicator takes: point-to-point, collectives, groups, leaders of
/// groups, partitioned operations and their messages, agreements that survive failures, and one in reserve.
pub const CONTEXTS_EACH: u32 = 8;

/// The place of the context of agreements that survive failures among those of a communicator.
pub const RECOVERY_CONTEXT: u32 = 6;

/// Context of a communicator that has none yet.
pub const CONTEXT_NONE: u32 = u32::MAX - CONTEXTS_EACH;

/// The highest context that a communicator may get: offers stay below [`CONTEXT_NONE`].
const CONTEXT_MAX: u32 = 1 << 31;

/// The context in which processes leave the World Model together. No operation that a program forgot to
/// complete can be taken for a message in it.
pub const FINALIZE_CONTEXT: u32 = CONTEXT_MAX + CONTEXTS_EACH;

/// The context in which processes of different jobs tell each other that they end.
pub const FAREWELL_CONTEXT: u32 = FINALIZE_CONTEXT + 1;

const _: () = assert!(FINALIZE_CONTEXT >= CONTEXT_MAX + CONTEXTS_EACH && NAMED_FIRST < CONTEXT_NONE);

/// The first context of processes that have no communicator in common yet. The last is below
/// [`CONTEXT_NONE`].
const NAMED_FIRST: u32 = FINALIZE_CONTEXT + CONTEXTS_EACH;

/// The context and tag for processes that make a communicator out of nothing but a name.
///
/// Different names, or different groups, get different ones (to 62 bits of their hash). `members` are the
/// names of the processes in their order.
pub fn named(name: &[u8], members: impl IntoIterator<Item = ProcessName>) -> (u32, i32) {
    // Any key does that all processes share: only the program itself chooses names.
    let mut hasher = siphasher::sip::SipHasher13::new_with_keys(0x7765_6674, 0x6e61_6d65);
    hasher.write(&(name.len() as u64).to_le_bytes());
    hasher.write(name);
    for ProcessName { job, number } in members {
        hasher.write(&job.0.to_le_bytes());
        hasher.write(&number.to_le_bytes());
    }
    let hash = hasher.finish();
    let spread = u64::from(CONTEXT_NONE - NAMED_FIRST);
    (NAMED_FIRST + (((hash >> 32) * spread) >> 32) as u32, (hash & 0x7fff_ffff) as i32)
}

/// Returns whether a context may have come from [`named`].
pub fn is_named(context: u32) -> bool {
    (NAMED_FIRST..CONTEXT_NONE).contains(&context)
}

/// The first context that is agreed upon. `MPI_COMM_WORLD` and `MPI_COMM_SELF` have the contexts before it.
const CONTEXT_FIRST: u32 = 2 * CONTEXTS_EACH;

/// The most communicators that a process can have at a time, beside the predefined ones: more would have no
/// context of their own.
pub const COMMUNICATORS_MAX: u32 = (CONTEXT_MAX - CONTEXT_FIRST) / CONTEXTS_EACH;

/// The most bits over which the offers of a repeated agreement spread.
const SPREAD_BITS_MAX: u32 = 12;

/// The least number of freed communicators after which the process looks which of their contexts are still
/// used. It looks again after twice as many as were still used at the last look. So the look costs each freed
/// communicator little, however many there are.
const FREED_MIN: usize = 64;

/// The number that processes agree on, which only grows. It gives out contexts in turn, and the same context
/// again after [`COMMUNICATORS_MAX`] others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial(pub u64);

impl Serial {
    /// The first context of this number.
    pub fn context(self) -> u32 {
        CONTEXT_FIRST + self.index() * CONTEXTS_EACH
    }

    fn index(self) -> u32 {
        (self.0 % u64::from(COMMUNICATORS_MAX)) as u32
    }

    /// Returns whether another communicator may have had the same contexts before.
    pub fn is_repeated(self) -> bool {
        self.0 >= u64::from(COMMUNICATORS_MAX)
    }
}

/// The answer of a process whether it can take a number. All processes learn the lowest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reserved {
    /// Another agreement has taken the number: the next offers must not meet again.
    Taken,
    /// A communicator has the contexts of the number.
    InUse,
    /// The number is taken, but another communicator has the slot in the node's memory that goes with it.
    OursWithoutSlot,
    /// The number is taken.
    Ours,
}

/// What the proposals of all processes come to, in the first step of an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// A process has as many communicators as it can have.
    NoneLeft,
    /// All have offered the same number and reserved it.
    Agreed {
        /// All have reserved the slot that goes with it, too.
        all_have_slots: bool,
    },
    /// The highest offer. All give back what they have reserved.
    Highest(Serial),
}

impl Proposal {
    /// The numbers in which a process tells its proposal.
    pub const NUMBERS: usize = 3;

    /// The numbers of a process with this offer and this answer; the processes find the highest of each.
    pub fn numbers(offer: Option<Serial>, answer: Reserved) -> [i64; Self::NUMBERS] {
        let number = offer.map_or(i64::MAX, |offer| offer.0 as i64);
        // The highest complement is that of the lowest number.
        [number, !number, !(answer as i64)]
    }

    /// What the highest numbers of all processes say.
    pub fn of(highest: &[i64]) -> Self {
        let [number, opposite, answer, ..] = *highest else { return Self::NoneLeft };
        let (lowest, answer) = (!opposite, !answer);
        if number == i64::MAX {
            Self::NoneLeft
        } else if number == lowest && answer >= Reserved::OursWithoutSlot as i64 {
            Self::Agreed { all_have_slots: answer == Reserved::Ours as i64 }
        } else {
            Self::Highest(Serial(number as u64))
        }
    }
}

/// The contexts of this process.
pub struct Contexts {
    next: Serial,
    /// The most communicators that this process may have.
    limit: u32,
    /// The contexts of communicators, and of communicators that have been freed lately.
    used: Set<u32>,
    /// Communicators that have been freed lately: handle, and index among the contexts.
    freed: Vec<(usize, u32)>,
    /// The number of freed communicators at which [`sweep`](Self::sweep) looks which contexts nothing uses
    /// any more.
    freed_max: usize,
    /// Numbers reserved by agreements, kept as long as an agreement is under way that could end with them.
    taken: Set<Serial>,
    /// Offers of agreements that are under way, each with the number of agreements that made it.
    offers: Map<Serial, u32>,
}

impl Contexts {
    /// The state in which only `MPI_COMM_WORLD` and `MPI_COMM_SELF` have contexts.
    pub const fn new() -> Self {
        Self {
            next: Serial(0),
            limit: COMMUNICATORS_MAX,
            used: Set::new(),
            freed: Vec::new(),
            freed_max: FREED_MIN,
            taken: Set::new(),
            offers: Map::new(),
        }
    }

    /// Limits the communicators that this process may have at a time. Processes may have different limits.
    /// The numbers begin `limit` before the first whose contexts are given again.
    pub fn limit_to(&mut self, limit: u32) {
        self.limit = limit.min(COMMUNICATORS_MAX);
        self.next = self.next.max(Serial(u64::from(COMMUNICATORS_MAX - self.limit)));
    }

    /// Makes the offer of this process in an agreement that has met others `met` times. `key` is the same in
    /// all processes of the agreement and differs from the keys of other agreements. Repeated offers differ
    /// by the key, so that two agreements that met once do not meet for ever. `None` when this process has as
    /// many communicators as it may have.
    pub fn offer(&mut self, key: u64, met: u32) -> Option<Serial> {
        if self.used.len() >= self.limit as usize {
            return None;
        }
        let bits = met.min(SPREAD_BITS_MAX);
        let spread = scramble(key, met) & ((1 << bits) - 1);
        let mut offer = Serial(self.next.0 + spread);
        while self.used.contains(&offer.index()) {
            offer.0 += 1;
        }
        *self.offers.entry(offer).or_insert(0) += 1;
        Some(offer)
    }

    /// Takes `serial`, the highest offer of an agreement, unless another agreement has taken it here or a
    /// communicator has its contexts. `is_clear`: nothing is left of the communicator that had these contexts
    /// before.
    pub fn reserve(&mut self, serial: Serial, is_clear: bool) -> Reserved {
        self.next = self.next.max(Serial(serial.0 + 1));
        if self.used.contains(&serial.index()) || !is_clear {
            return Reserved::InUse;
        }
        if self.taken.iter().any(|taken| taken.index() == serial.index()) {
            return Reserved::Taken;
        }
        self.taken.insert(serial);
        Reserved::Ours
    }

    /// Releases `serial`, which this process could reserve and another process could not.
    pub fn release(&mut self, serial: Serial) {
        self.taken.remove(&serial);
    }

    /// Notes that a communicator of this process has the contexts of `serial`.
    pub fn begin_use(&mut self, serial: Serial) {
        self.used.insert(serial.index());
    }

    /// Notes that the communicator `handle` with these contexts is gone, except for its operations that are
    /// under way. Returns whether it is time to [`sweep`](Self::sweep).
    pub fn end_use(&mut self, handle: usize, context: u32) -> bool {
        // The contexts of predefined communicators, of names, and of no communicator are not given to others.
        if (CONTEXT_FIRST..CONTEXT_MAX).contains(&context) {
            self.freed.push((handle, (context - CONTEXT_FIRST) / CONTEXTS_EACH));
        }
        self.freed.len() >= self.freed_max
    }

    /// The numbers that agreements under way have offered or reserved.
    pub fn under_way(&self) -> usize {
        self.taken.len() + self.offers.len()
    }

    /// The communicators whose contexts are used, those that have been freed lately included.
    pub fn used(&self) -> usize {
        self.used.len()
    }

    /// Returns whether contexts are about to be given again, so that a sweep must find the free ones.
    pub fn is_short(&self) -> bool {
        !self.freed.is_empty() && (self.next.is_repeated() || self.used.len() >= self.limit as usize)
    }

    /// Frees the contexts of freed communicators that nothing uses any more, so that they can be given again.
    pub fn sweep(&mut self, is_busy: impl Fn(usize) -> bool) {
        let used = &mut self.used;
        self.freed.retain(|(handle, index)| {
            let busy = is_busy(*handle);
            if !busy {
                used.remove(index);
            }
            busy
        });
        self.freed_max = FREED_MIN.max(2 * self.freed.len());
    }

    /// Returns whether a communicator had this context, and no communicator has it now or can get it by an
    /// agreement that is under way. No message comes in the context of a communicator before this process has
    /// reserved it. So a message in such a context is left from a communicator that is gone.
    pub fn is_over(&self, context: u32) -> bool {
        let Some(index) = context.checked_sub(CONTEXT_FIRST).map(|distance| distance / CONTEXTS_EACH) else {
            return false;
        };
        context < CONTEXT_MAX && !self.used.contains(&index) && self.taken.iter().all(|taken| taken.index() != index)
    }

    /// Ends the attempt in which this process offered `offer`. Numbers with which no other attempt can end,
    /// because its own offer is higher, are forgotten: all later offers are higher than they are.
    pub fn withdraw(&mut self, offer: Serial) {
        if let Some(count) = self.offers.get_mut(&offer) {
            *count -= 1;
            if *count == 0 && !cfg!(weft_mutant = "meeting_context_number_kept") {
                self.offers.remove(&offer);
            }
        }
        match self.offers.first_key_value() {
            Some((lowest, _)) => self.taken.retain(|serial| serial >= lowest),
            None => self.taken.clear(),
        }
    }
}

impl Default for Contexts {
    fn default() -> Self {
        Self::new()
    }
}

/// Bits that look random (the finalizer of splitmix64).
fn scramble(key: u64, attempt: u32) -> u64 {
    let mut bits = key.wrapping_add(u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::collections::btree_map::Entry;
    use alloc::vec;

    use super::*;
    use weft_core::process::JobId;

    #[test]
    fn a_number_is_given_once() {
        let mut contexts = Contexts::new();
        let (one, other) = (contexts.offer(1, 0).unwrap(), contexts.offer(2, 0).unwrap());
        assert_eq!((one, other), (Serial(0), Serial(0)));
        assert_eq!(contexts.reserve(one, true), Reserved::Ours);
        assert_eq!(contexts.reserve(one, true), Reserved::Taken);
        // The first attempt ends well; the second could still end with the same number, had it been slower.
        contexts.withdraw(one);
        assert_eq!(contexts.reserve(one, true), Reserved::Taken);
        contexts.withdraw(other);
        assert_eq!(contexts.offer(3, 0), Some(Serial(1)));
    }

    #[test]
    fn what_others_could_not_reserve_is_free_again() {
        let mut contexts = Contexts::new();
        let (one, other) = (contexts.offer(1, 0).unwrap(), contexts.offer(2, 0).unwrap());
        assert_eq!(contexts.reserve(Serial(5), true), Reserved::Ours);
        contexts.release(Serial(5));
        contexts.withdraw(one);
        assert_eq!(contexts.reserve(Serial(5), true), Reserved::Ours);
        contexts.withdraw(other);
        assert!(contexts.taken.is_empty() && contexts.offers.is_empty());
    }

    /// Runs one agreement of a single process, and returns the context that it ends with.
    fn agree(contexts: &mut Contexts, is_clear: bool) -> Option<u32> {
        let offer = contexts.offer(1, 0)?;
        let reserved = contexts.reserve(offer, is_clear);
        if reserved == Reserved::Ours {
            contexts.begin_use(offer);
        }
        contexts.withdraw(offer);
        (reserved == Reserved::Ours).then(|| offer.context())
    }

    /// Expect: contexts are given again once all others have been, and once nothing uses them.
    #[test]
    fn contexts_are_given_again_when_nothing_uses_them() {
        let mut contexts = Contexts::new();
        contexts.limit_to(3);
        let [one, two, three] = [(); 3].map(|()| agree(&mut contexts, true).unwrap());
        assert_eq!(three, CONTEXT_FIRST + (COMMUNICATORS_MAX - 1) * CONTEXTS_EACH);
        assert_eq!(agree(&mut contexts, true), None, "as many as there may be");
        contexts.end_use(11, one);
        contexts.end_use(12, two);
        assert!(contexts.is_short());
        contexts.sweep(|handle| handle == 12);
        assert_eq!(agree(&mut contexts, true), Some(CONTEXT_FIRST), "the first of all comes after the last");
        assert_eq!(agree(&mut contexts, true), None, "the other is in use as long as something is under way on it");
        contexts.sweep(|_| false);
        assert_eq!(agree(&mut contexts, false), None, "messages of the one before are still here");
        assert_eq!(agree(&mut contexts, true), Some(CONTEXT_FIRST + 2 * CONTEXTS_EACH));
    }

    /// Proposals of two processes.   Expect: one step where both have the same number and have reserved it;
    /// the highest offer elsewhere; an end where one has no number left.
    #[test]
    fn proposals_that_are_alike_are_an_agreement() {
        use Reserved::{InUse, Ours, OursWithoutSlot, Taken};
        let of = |one: (Option<u64>, Reserved), other: (Option<u64>, Reserved)| {
            let [one, other] = [one, other].map(|(offer, answer)| Proposal::numbers(offer.map(Serial), answer));
            Proposal::of(&[0, 1, 2].map(|at| one[at].max(other[at])))
        };
        let agreed = |all_have_slots| Proposal::Agreed { all_have_slots };
        assert_eq!(of((Some(7), Ours), (Some(7), Ours)), agreed(true));
        assert_eq!(of((Some(0), Ours), (Some(0), OursWithoutSlot)), agreed(false));
        for answer in [Taken, InUse] {
            assert_eq!(of((Some(7), Ours), (Some(7), answer)), Proposal::Highest(Serial(7)));
        }
        assert_eq!(of((Some(7), Ours), (Some(9), Ours)), Proposal::Highest(Serial(9)));
        assert_eq!(of((None, Taken), (Some(9), Ours)), Proposal::NoneLeft);
    }

    #[test]
    fn contexts_of_predefined_communicators_and_of_names_are_not_given() {
        let mut contexts = Contexts::new();
        for context in [0, CONTEXTS_EACH, FINALIZE_CONTEXT, NAMED_FIRST, CONTEXT_NONE] {
            contexts.end_use(1, context);
        }
        assert!(contexts.freed.is_empty());
        assert!(Serial(u64::from(COMMUNICATORS_MAX) - 1).context() + CONTEXTS_EACH <= CONTEXT_MAX);
    }

    /// Expect: the same name gives the same context. It differs from the contexts of all communicators, of
    /// other names, and of Finalize.
    #[test]
    fn names_have_contexts_of_their_own() {
        let name = |job, number| ProcessName { job: JobId(job), number };
        let of = |text: &[u8], members: &[u32]| named(text, members.iter().map(|number| name(7, *number)));
        let one = of(b"a name", &[0, 1, 2]);
        assert_eq!(one, of(b"a name", &[0, 1, 2]));
        let of_another_job = named(b"a name", [0, 1, 2].map(|number| name(8, number)));
        let others =
            [of(b"a name", &[0, 2, 1]), of(b"a name", &[0, 1]), of(b"a nam", &[0, 1, 2]), of(b"", &[]), of_another_job];
        for other in others {
            assert_ne!(one, other);
        }
        for (context, tag) in others.into_iter().chain([one]) {
            assert!(context > FINALIZE_CONTEXT && context < CONTEXT_NONE && tag >= 0);
        }
    }

    /// Expect: a context is over from when nothing uses it any more until an agreement takes it again. Other
    /// contexts never are.
    #[test]
    fn contexts_are_over_when_nothing_uses_them() {
        let mut contexts = Contexts::new();
        let offer = contexts.offer(1, 0).unwrap();
        let context = offer.context() + 3;
        assert_eq!(contexts.reserve(offer, true), Reserved::Ours);
        assert!(!contexts.is_over(context), "it may be agreed upon");
        contexts.begin_use(offer);
        contexts.withdraw(offer);
        assert!(!contexts.is_over(context), "a communicator has it");
        contexts.end_use(5, offer.context());
        contexts.sweep(|handle| handle == 5);
        assert!(!contexts.is_over(context), "something is under way with it");
        contexts.sweep(|_| false);
        assert!(contexts.is_over(context));
        assert!(
            ![0, CONTEXTS_EACH, CONTEXT_FIRST - 1, FINALIZE_CONTEXT, NAMED_FIRST]
                .map(|other| contexts.is_over(other))
                .contains(&true)
        );
    }

    /// Expect: a sweep looks at few communicators for each that is freed, however many freed ones are still
    /// used.
    #[test]
    fn what_is_still_used_is_not_looked_at_each_time() {
        let mut contexts = Contexts::new();
        let (mut sweeps, mut looks) = (0, core::cell::Cell::new(0));
        for handle in 0..10_000 {
            if contexts.end_use(handle, CONTEXT_FIRST + handle as u32 * CONTEXTS_EACH) {
                sweeps += 1;
                contexts.sweep(|_| {
                    looks.set(looks.get() + 1);
                    true
                });
            }
        }
        assert!(sweeps < 10 && *looks.get_mut() < 20_000, "{sweeps} sweeps looked at {}", looks.get());
    }

    /// Two processes run two agreements, each process in its own order. Expect: both agreements end, with
    /// different numbers. All interleavings of the first attempt are tried, and later ones as far as they
    /// come.
    #[test]
    fn concurrent_agreements_end_with_different_numbers() {
        // The order in which each process reserves for the agreements 0 and 1, anew for every attempt.
        for orders in 0..256_u32 {
            let mut processes = [Contexts::new(), Contexts::new()];
            processes[1].next = Serial(4);
            let mut agreed = [None, None];
            for attempt in 0..8 {
                let open: Vec<usize> = (0..2).filter(|index| agreed[*index].is_none()).collect();
                let offers: Vec<[Serial; 2]> = open
                    .iter()
                    .map(|index| [0, 1].map(|p: usize| processes[p].offer(100 + *index as u64, attempt).unwrap()))
                    .collect();
                let mut reserved = vec![[false; 2]; open.len()];
                for (p, process) in processes.iter_mut().enumerate() {
                    let mut sequence: Vec<usize> = (0..open.len()).collect();
                    if orders >> (attempt % 4 * 2 + p as u32) & 1 == 1 {
                        sequence.reverse();
                    }
                    for at in sequence {
                        let serial = offers[at][0].max(offers[at][1]);
                        reserved[at][p] = process.reserve(serial, true) == Reserved::Ours;
                    }
                }
                for (at, index) in open.iter().enumerate() {
                    let context = offers[at][0].max(offers[at][1]);
                    let all = reserved[at] == [true; 2];
                    for (p, process) in processes.iter_mut().enumerate() {
                        if reserved[at][p] && !all {
                            process.release(context);
                        }
                        process.withdraw(offers[at][p]);
                    }
                    agreed[*index] = all.then_some(context);
                }
            }
            let [Some(one), Some(other)] = agreed else { panic!("no agreement with {orders:b}: {agreed:?}") };
            assert_ne!(one, other);
            assert!(processes.iter().all(|process| process.taken.is_empty() && process.next > one.max(other)));
        }
    }

    /// What a member has told in an attempt of an agreement.
    struct Told {
        offer: Serial,
        proposal: [i64; Proposal::NUMBERS],
        /// It has reserved its offer, and has not given it back.
        has_own: bool,
        /// Whether it could reserve the highest offer, once it has tried.
        could: Option<bool>,
    }

    /// An agreement among some processes, with what each has told in every attempt.
    struct Agreement {
        members: Vec<usize>,
        attempts: Vec<BTreeMap<usize, Told>>,
    }

    impl Agreement {
        /// Takes the next step of `member` in `attempt`, if it need not wait for others. Returns the context
        /// once all have it.
        fn step(&mut self, key: u64, member: usize, attempt: &mut usize, contexts: &mut Contexts) -> Option<Serial> {
            if self.attempts.len() == *attempt {
                self.attempts.push(BTreeMap::new());
            }
            let told = &mut self.attempts[*attempt];
            if let Entry::Vacant(place) = told.entry(member) {
                let offer = contexts.offer(key, *attempt as u32).expect("numbers for a test");
                let answer = if *attempt == 0 { contexts.reserve(offer, true) } else { Reserved::Taken };
                let proposal = Proposal::numbers(Some(offer), answer);
                place.insert(Told { offer, proposal, has_own: answer == Reserved::Ours, could: None });
                return None;
            }
            if told.len() < self.members.len() {
                return None;
            }
            let highest: Vec<i64> = (0..Proposal::NUMBERS)
                .map(|at| told.values().map(|told| told.proposal[at]).max().expect("somebody takes part"))
                .collect();
            let own = told.get_mut(&member).expect("it has told its offer");
            let context = match Proposal::of(&highest) {
                Proposal::Agreed { .. } => {
                    contexts.withdraw(own.offer);
                    return Some(own.offer);
                }
                Proposal::Highest(context) => context,
                Proposal::NoneLeft => panic!("there are numbers for a test"),
            };
            let offer = own.offer;
            if own.could.is_none() {
                if core::mem::take(&mut own.has_own) {
                    contexts.release(offer);
                }
                own.could = Some(contexts.reserve(context, true) == Reserved::Ours);
                return None;
            }
            let could = own.could == Some(true);
            if told.values().any(|told| told.could.is_none()) {
                return None;
            }
            let all = told.values().all(|told| told.could == Some(true));
            if !all && could {
                contexts.release(context);
            }
            contexts.withdraw(offer);
            *attempt += 1;
            all.then_some(context)
        }
    }

    /// Many groups of six processes, which overlap and have three threads each to agree in. Expect, in
    /// whatever order steps happen: no process has a number twice, and all members of a group have the same
    /// number.
    #[test]
    fn overlapping_groups_agree_on_numbers_that_differ() {
        const PROCESSES: usize = 6;
        const THREADS: usize = 3;
        const GROUPS: usize = 40;
        for seed in 1..=60_u64 {
            let mut drawn = 0;
            let mut random = |below: usize| {
                drawn += 1;
                (scramble(seed << 32, drawn) % below as u64) as usize
            };
            let group = |mask: usize| (0..PROCESSES).filter(|process| mask >> process & 1 != 0).collect::<Vec<_>>();
            let masks: Vec<usize> = (0..GROUPS).map(|_| 1 + random((1 << PROCESSES) - 1)).collect();
            let mut agreements: Vec<Agreement> =
                masks.iter().map(|mask| Agreement { members: group(*mask), attempts: Vec::new() }).collect();
            let mut processes: Vec<Contexts> = (0..PROCESSES).map(|_| Contexts::new()).collect();
            // For each thread: the index of its next agreement, and of the attempt in it.
            let mut next = [[(0, 0); THREADS]; PROCESSES];
            let mut held: Vec<BTreeMap<Serial, usize>> = vec![BTreeMap::new(); PROCESSES];
            let mut agreed: BTreeMap<usize, Serial> = BTreeMap::new();
            let mut open: usize = agreements.iter().map(|agreement| agreement.members.len()).sum();
            let mut steps = 0;
            while open > 0 {
                steps += 1;
                assert!(steps < 2_000_000, "seed {seed}: no end");
                let (process, thread) = (random(PROCESSES), random(THREADS));
                let (at, attempt) = &mut next[process][thread];
                // The next agreement of this thread in which the process takes part, in the order of the
                // list.
                while *at < GROUPS && (*at % THREADS != thread || !agreements[*at].members.contains(&process)) {
                    *at += 1;
                }
                if *at == GROUPS {
                    continue;
                }
                let key = (thread as u64) << 8;
                let Some(context) = agreements[*at].step(key, process, attempt, &mut processes[process]) else {
                    continue;
                };
                assert_eq!(
                    held[process].insert(context, *at),
                    None,
                    "seed {seed}: process {process} has {context:?} twice"
                );
                assert_eq!(*agreed.entry(*at).or_insert(context), context, "seed {seed}: group {at}");
                (*at, *attempt) = (*at + 1, 0);
                open -= 1;
            }
            assert!(processes.iter().all(|process| process.taken.is_empty() && process.offers.is_empty()));
        }
    }
}
