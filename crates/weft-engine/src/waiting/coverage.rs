//! What the progress thread is left with: as a call leaves MPI, what is armed for what is outstanding; as the
//! thread wakes, what it does.
//!
//! The lock around the process is the right to make progress: a call that leaves MPI with something
//! outstanding, and nobody else waiting inside, arms what the thread watches; one that waits inside MPI
//! disarms it, and watches for itself. Arming wakes nobody.
//!
//! | outstanding as a call leaves | what is armed |
//! |---|---|
//! | nothing | nothing |
//! | packets that are not acknowledged, after blocking calls | the timer, no earlier than [`REPAIR_AFTER`] |
//! | requests | the network, and the timer when something is due |
//! | messages that wait for others to share their packet | the timer |
//! | collectives, or requests where memory is not shared by copies | a look after [`CALLS_PAUSE`], and then the doorbell as well |
//!
//! While the doorbell is armed each frame of a neighbour costs that neighbour a system call, and this process
//! a thread that wakes. A program that waits at once for what it has started, again and again, would pay that
//! each time for nothing. So the doorbell is armed when the thread has looked, and the program has not called
//! MPI since (decision 0196).
//!
//! A program that calls MPI again and again, a window of messages for instance, makes progress itself. The
//! thread would only take its processor and its lock, and send from another processor what the network then
//! carries out of order. So it does nothing if the program calls again within [`CALLS_APART`], or is calling,
//! and looks again after [`CALLS_PAUSE`] (decision 0108). It leaves the program its processor, and the lock
//! after a train (decision 0108).

use weft_core::time::Duration;

/// A program that communicates all the time repairs losses itself: the thread looks no earlier than this.
pub const REPAIR_AFTER: Duration = Duration::from_millis(2);
/// A program that has not called MPI for so long computes.
pub const CALLS_PAUSE: Duration = Duration::from_micros(50);
/// One that starts operations one after the other calls again sooner than that.
pub const CALLS_APART: Duration = Duration::from_micros(8);
/// One that calls all the time, but never waits, may make no progress: the thread leaves it alone so many
/// times in a row.
const DEFERS_MAX: u32 = 8;
/// Passes of the progress loop for one wake-up: the first takes in what has arrived, the second sends what
/// that brought.
const PASSES: u32 = 2;

const _: () = assert!(CALLS_APART.as_nanos() < CALLS_PAUSE.as_nanos());
const _: () = assert!(CALLS_PAUSE.as_nanos() * (DEFERS_MAX as u64) < REPAIR_AFTER.as_nanos());

/// How a process stands as a call leaves MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// There are requests that are not complete.
    pub requests: bool,
    /// There are collectives that are not complete.
    pub collectives: bool,
    /// There are peers on other nodes.
    pub has_network: bool,
    /// Large messages of the node are not copied between memories: they need both sides.
    pub node_needs_help: bool,
}

/// What is outstanding as a call leaves MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Requests that are not complete.
    pub requests: bool,
    /// Something that a neighbour's frame moves on, and that no neighbour moves on itself.
    pub neighbours: bool,
}

impl Outstanding {
    /// The most that may be outstanding, whatever requests and packets there are: what covers this covers all
    /// of it, so the rest of the state need not be looked at.
    #[inline(always)]
    pub fn most(collectives: bool, node_needs_help: bool) -> Self {
        Self { requests: true, neighbours: collectives || node_needs_help }
    }

    /// What of `state` the progress thread must care for; `None`: nothing. `has_deadlines`: packets are not
    /// acknowledged, or messages or grants wait for their time; asked for only if it matters.
    #[inline(always)]
    pub fn of(state: &State, has_deadlines: impl FnOnce() -> bool) -> Option<Self> {
        let neighbours = state.collectives || (state.requests && state.node_needs_help);
        let networked = state.has_network && (state.requests || has_deadlines());
        (networked || neighbours).then_some(Self { requests: state.requests, neighbours })
    }
}

/// What is to be armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    /// The thread wakes when the network has something to read.
    pub network: bool,
    /// The thread wakes when a neighbour rings, who must be told so; [`Armed::arrived`] is whether a frame
    /// has arrived before that.
    pub doorbell: bool,
}

/// What was found when it was armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// A frame has arrived already: no neighbour will ring for it.
    pub arrived: bool,
    /// In how long something is due; asked for only if [`Coverage::wants_due`].
    pub due: Option<Duration>,
    /// Messages wait for others to share their packet, at most so long.
    pub coalescing: Option<Duration>,
}

/// What is to be disarmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeBack {
    /// The network.
    pub network: bool,
    /// The doorbell; neighbours must be told so.
    pub doorbell: bool,
    /// What the timer is to be set to.
    pub timer: Option<Duration>,
}

/// What the thread does when it has been woken, and has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Releases the lock for [`CALLS_APART`], then asks once more.
    LookAgain,
    /// Leaves everything to the program, which keeps calling, and looks again after so long: the timer is to
    /// be set.
    Defer(Duration),
    /// Each of what it watches may be what woke it.
    Act {
        /// Neighbours must be told that nobody watches the doorbell.
        disarm_doorbell: bool,
        /// Passes of the progress loop at most, none if somebody waits inside MPI and makes them. Then
        /// [`after_passes`].
        passes: u32,
    },
}

/// What the thread does as it releases the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Arms again what is outstanding, like a call that leaves MPI.
    HandOver,
    /// Somebody wants the lock, and arms everything as it leaves: the thread need not, and looks again after
    /// so long.
    Pause(Duration),
}

/// The timer as far as is known: it may have run out since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Timer {
    #[default]
    Unset,
    /// For something that is due.
    Set,
    /// For messages that wait for others to share their packet.
    Soon,
}

/// A look of the thread at whether the program calls MPI again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Look {
    #[default]
    None,
    /// The timer is to be set for it.
    Wanted,
    /// The timer is set, to that or to something sooner.
    Timed,
}

/// What is armed for the progress thread of one process; under the process lock.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// There are neighbours that can ring.
    has_doorbell: bool,
    network: bool,
    doorbell: bool,
    /// Whether the thread will look if the doorbell is to be armed.
    look: Look,
    /// The thread has looked, and the program has not called: it computes, and the doorbell is armed at once.
    computes: bool,
    timer: Timer,
    /// Calls that have left MPI with something outstanding …
    calls: u64,
    /// … and how many there were when the network was armed, or the look was decided upon, or when the thread
    /// last woke.
    calls_seen: u64,
    /// Times in a row that the thread left everything to the program.
    defers: u32,
}

impl Coverage {
    /// Nothing is armed.
    pub fn new(has_doorbell: bool) -> Self {
        Self { has_doorbell, ..Self::default() }
    }

    /// A call leaves MPI, and nobody waits inside. Whether all that is `outstanding` is covered already,
    /// messages that are `coalescing` included: then the call has been counted, and there is nothing to do.
    /// It is the way of each small message of a burst but the first.
    #[inline(always)]
    pub fn is_covered(&mut self, outstanding: &Outstanding, coalescing: bool) -> bool {
        let is_armed = (self.network || !outstanding.requests)
            && (!(outstanding.neighbours && self.has_doorbell) || self.doorbell || self.look != Look::None);
        let is_timed = if coalescing { self.timer == Timer::Soon } else { self.timer != Timer::Unset };
        let covered = is_armed && is_timed;
        self.calls = self.calls.wrapping_add(u64::from(covered));
        covered
    }

    /// The same where it is not: what to arm now. Then comes [`Self::set_timer`].
    pub fn hand_over(&mut self, outstanding: Outstanding) -> Arm {
        self.calls = self.calls.wrapping_add(1);
        let network = outstanding.requests && !self.network;
        if network {
            self.network = true;
            self.calls_seen = self.calls;
        }
        let neighbours = outstanding.neighbours && self.has_doorbell && !self.doorbell;
        let doorbell = std::mem::take(&mut self.computes) && neighbours;
        self.doorbell |= doorbell;
        if neighbours && !doorbell && self.look == Look::None {
            self.look = Look::Wanted;
            self.calls_seen = self.calls;
        }
        Arm { network, doorbell }
    }

    /// Whether it matters when something is due; `arrived` as in [`Armed`].
    #[inline]
    pub fn wants_due(&self, arrived: bool) -> bool {
        !arrived && self.timer == Timer::Unset
    }

    /// What has been armed found this. What the timer is to be set to.
    pub fn set_timer(&mut self, outstanding: Outstanding, armed: Armed) -> Option<Duration> {
        let mut span = None;
        if armed.arrived {
            self.timer = self.timer.at_least_set();
            span = Some(Duration::default());
        } else if self.timer == Timer::Unset
            && let Some(due) = armed.due
        {
            self.timer = Timer::Set;
            span = Some(if outstanding.requests { due } else { due.max(REPAIR_AFTER) });
        }
        if self.look == Look::Wanted {
            self.look = Look::Timed;
            if self.timer != Timer::Soon {
                self.timer = Timer::Set;
                span = Some(span.map_or(CALLS_PAUSE, |span: Duration| span.min(CALLS_PAUSE)));
            }
        }
        if let Some(soon) = armed.coalescing
            && self.timer != Timer::Soon
        {
            self.timer = Timer::Soon;
            span = if armed.arrived { span } else { Some(soon) };
        }
        span
    }

    /// Somebody waits inside MPI and watches for itself. A timer that is set may still wake the thread.
    pub fn take_back(&mut self) -> TakeBack {
        let timer = (self.timer == Timer::Soon).then(|| {
            self.timer = Timer::Set;
            // What comes next decides anew.
            self.look = Look::None;
            REPAIR_AFTER
        });
        TakeBack { network: std::mem::take(&mut self.network), doorbell: std::mem::take(&mut self.doorbell), timer }
    }

    /// Whether [`Self::take_back`] has something to do.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.network || self.doorbell || self.timer == Timer::Soon
    }

    /// The thread has been woken, and has the lock. `waits`: somebody waits inside MPI. `coalescing` as in
    /// [`Armed`]. `looked`: it has looked again, as it was told.
    pub fn woken(&mut self, waits: bool, coalescing: bool, looked: bool) -> Woken {
        self.computes = false;
        if !waits {
            let calls = self.calls_go_on();
            if calls && !looked && self.network {
                return Woken::LookAgain;
            }
            if self.defers(calls, coalescing) {
                return Woken::Defer(CALLS_PAUSE);
            }
            self.computes = !calls;
        }
        self.timer = Timer::Unset;
        self.look = Look::None;
        // The network is disarmed only if it was what woke the thread; arming it again does no harm.
        self.network = false;
        Woken::Act { disarm_doorbell: std::mem::take(&mut self.doorbell), passes: if waits { 0 } else { PASSES } }
    }

    /// Whether the program has called MPI since the network was armed, or the look was decided upon: it may
    /// be about to call again. From now on only further calls count.
    fn calls_go_on(&mut self) -> bool {
        (self.network || self.look != Look::None) && std::mem::replace(&mut self.calls_seen, self.calls) != self.calls
    }

    /// Whether the thread leaves everything to the program, which `calls` again and again: what is armed
    /// counts as armed until it looks again.
    fn defers(&mut self, calls: bool, coalescing: bool) -> bool {
        // Messages that wait for others were promised that they leave when the timer runs out.
        let is_urgent = self.timer == Timer::Soon || self.doorbell || coalescing;
        if !calls || is_urgent || self.defers >= DEFERS_MAX {
            self.defers = 0;
            return false;
        }
        self.defers += 1;
        self.timer = self.timer.at_least_set();
        true
    }
}

impl Timer {
    fn at_least_set(self) -> Self {
        if self == Self::Soon { self } else { Self::Set }
    }
}

/// The thread has made its passes. `contended`: another thread wants the lock.
pub fn after_passes(contended: bool) -> Left {
    if contended { Left::Pause(REPAIR_AFTER) } else { Left::HandOver }
}

/// The thread has been woken, and somebody else has the lock: it looks again after so long. `waits`: a call
/// waits inside MPI, which sees to everything.
pub fn when_busy(waits: bool) -> Duration {
    if waits { REPAIR_AFTER } else { CALLS_PAUSE }
}

/// A program that is inside MPI each time the thread looks does without it ever longer, up to
/// [`REPAIR_AFTER`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    pause: Duration,
}

impl Backoff {
    /// The thread is done with what woke it, or was told to look `again` after some time. What its timer is
    /// to be set to.
    pub fn pause(&mut self, again: Option<Duration>) -> Option<Duration> {
        self.pause = again.map_or(Duration::default(), |again| {
            Duration((self.pause.as_nanos() * 2).clamp(again.as_nanos(), REPAIR_AFTER.as_nanos()))
        });
        again.map(|_| self.pause)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOON: Duration = Duration::from_micros(100);
    const DUE: Duration = Duration::from_micros(300);
    const NOTHING: Outstanding = Outstanding { requests: false, neighbours: false };
    const REQUESTS: Outstanding = Outstanding { requests: true, ..NOTHING };
    const NEIGHBOURS: Outstanding = Outstanding { neighbours: true, ..NOTHING };

    fn bits(facts: u32) -> [bool; 5] {
        [1, 2, 4, 8, 16].map(|bit| facts & bit != 0)
    }

    /// All states: nothing outstanding, nothing to care for; and everything that moves on by itself alone is
    /// left out.
    #[test]
    fn what_is_outstanding_for_the_thread_follows_from_the_state() {
        for facts in 0..32 {
            let [requests, collectives, has_network, node_needs_help, deadlines] = bits(facts);
            let state = State { requests, collectives, has_network, node_needs_help };
            let outstanding = Outstanding::of(&state, || deadlines);
            let expected = match (requests, collectives, has_network, node_needs_help, deadlines) {
                (false, false, _, _, false) | (false, false, false, ..) => None,
                (false, false, true, _, true) => Some(NOTHING),
                (true, false, false, false, _) => None,
                (true, false, true, false, _) => Some(REQUESTS),
                (true, false, _, true, _) => Some(Outstanding { requests, neighbours: true }),
                (_, true, ..) => Some(Outstanding { requests, neighbours: true }),
            };
            assert_eq!(outstanding, expected, "{state:?} {deadlines}");
            let most = Outstanding::most(collectives, node_needs_help);
            assert!(
                outstanding.is_none_or(|outstanding| most.requests && (most.neighbours || !outstanding.neighbours))
            );
        }
    }

    #[test]
    fn deadlines_are_asked_for_only_if_they_matter() {
        let quiet = State { requests: false, collectives: false, has_network: true, node_needs_help: false };
        for (state, asked) in [
            (quiet, true),
            (State { requests: true, ..quiet }, false),
            (State { has_network: false, ..quiet }, false),
            (State { collectives: true, ..quiet }, true),
        ] {
            let mut was_asked = false;
            Outstanding::of(&state, || {
                was_asked = true;
                false
            });
            assert_eq!(was_asked, asked, "{state:?}");
        }
    }

    /// The table at the top of this file.
    #[test]
    fn what_is_armed_covers_what_is_outstanding() {
        for facts in 0..32 {
            let [requests, neighbours, arrived, is_due, coalesces] = bits(facts);
            let outstanding = Outstanding { requests, neighbours };
            let mut coverage = of_a_program_that_computes();
            let arm = coverage.hand_over(outstanding);
            assert_eq!(arm, Arm { network: requests, doorbell: neighbours });
            let arrived = arrived && neighbours;
            assert_eq!(coverage.wants_due(arrived), !arrived);
            let due = (is_due && coverage.wants_due(arrived)).then_some(DUE);
            let timer = coverage.set_timer(outstanding, Armed { arrived, due, coalescing: coalesces.then_some(SOON) });
            let expected = match (arrived, coalesces, due) {
                (true, ..) => Some(Duration::default()),
                (false, true, _) => Some(SOON),
                (false, false, due) => due.map(|due| if requests { due } else { REPAIR_AFTER }),
            };
            assert_eq!(timer, expected, "{outstanding:?} {arrived} {is_due} {coalesces}");
            assert_eq!(coverage.is_armed(), requests || neighbours || coalesces);
        }
    }

    #[test]
    fn what_is_armed_is_not_armed_again() {
        let mut coverage = of_a_program_that_computes();
        let both = Outstanding { requests: true, neighbours: true };
        assert_eq!(coverage.hand_over(both), Arm { network: true, doorbell: true });
        let armed = Armed { due: Some(DUE), ..Armed::default() };
        assert_eq!(coverage.set_timer(both, armed), Some(DUE));
        assert_eq!(coverage.hand_over(both), Arm::default());
        assert!(!coverage.wants_due(false));
        assert_eq!(coverage.set_timer(both, Armed::default()), None);
        let coalescing = Armed { coalescing: Some(SOON), ..Armed::default() };
        assert_eq!(coverage.set_timer(both, coalescing), Some(SOON), "these cannot wait for the timer that is set");
        assert_eq!(coverage.set_timer(both, coalescing), None);
    }

    #[test]
    fn without_a_doorbell_there_is_none_to_arm() {
        assert_eq!(Coverage::new(false).hand_over(NEIGHBOURS), Arm::default());
    }

    #[test]
    fn who_waits_inside_takes_back_what_is_armed_and_only_that() {
        for facts in 0..8 {
            let [network, doorbell, soon, ..] = bits(facts);
            let mut coverage = of_a_program_that_computes();
            let outstanding = Outstanding { requests: network, neighbours: doorbell };
            coverage.hand_over(outstanding);
            coverage.set_timer(outstanding, Armed { coalescing: soon.then_some(SOON), ..Armed::default() });
            assert_eq!(coverage.is_armed(), network || doorbell || soon);
            let timer = soon.then_some(REPAIR_AFTER);
            assert_eq!(coverage.take_back(), TakeBack { network, doorbell, timer });
            assert!(!coverage.is_armed());
            assert_eq!(coverage.take_back(), TakeBack::default());
            assert_eq!(
                coverage.hand_over(outstanding),
                Arm { network, doorbell: false },
                "the network is armed again as the next call leaves, the doorbell when the thread has looked"
            );
        }
    }

    /// One whose thread has just found that the program computes.
    fn of_a_program_that_computes() -> Coverage {
        let mut coverage = Coverage::new(true);
        assert_eq!(coverage.woken(false, false, false), ACT);
        coverage
    }

    #[test]
    fn the_doorbell_is_armed_only_when_the_thread_has_looked_and_the_program_has_not_called_since() {
        let mut coverage = Coverage::new(true);
        let nothing = Armed::default();
        for round in 0..3 {
            assert_eq!(coverage.hand_over(NEIGHBOURS), Arm::default(), "{round}");
            assert_eq!(coverage.set_timer(NEIGHBOURS, nothing), Some(CALLS_PAUSE), "{round}");
            for defer in 0..DEFERS_MAX {
                for _ in 0..1000 {
                    // Each call that leaves is covered, and the call that waits for it takes nothing back.
                    assert!(coverage.is_covered(&NEIGHBOURS, false) && !coverage.is_armed(), "{round}, {defer}");
                }
                assert_eq!(coverage.woken(false, false, false), Woken::Defer(CALLS_PAUSE), "{round}, {defer}");
            }
            assert!(coverage.is_covered(&NEIGHBOURS, false));
            assert_eq!(coverage.woken(false, false, false), ACT, "now and then it makes passes all the same");
        }
        coverage.hand_over(NEIGHBOURS);
        assert_eq!(coverage.set_timer(NEIGHBOURS, nothing), Some(CALLS_PAUSE));
        assert_eq!(coverage.woken(false, false, false), ACT);
        assert_eq!(coverage.hand_over(NEIGHBOURS), Arm { network: false, doorbell: true }, "no call came");
        assert_eq!(coverage.set_timer(NEIGHBOURS, nothing), None);
        assert_eq!(coverage.woken(false, false, false), Woken::Act { disarm_doorbell: true, passes: PASSES });
    }

    #[test]
    fn a_look_comes_sooner_than_what_is_due_late_and_is_wanted_again_when_its_timer_was_put_off() {
        let mut coverage = Coverage::new(true);
        let late = Armed { due: Some(Duration::from_micros(900_000)), ..Armed::default() };
        coverage.hand_over(REQUESTS);
        assert_eq!(coverage.set_timer(REQUESTS, late), late.due);
        let both = Outstanding { requests: true, neighbours: true };
        coverage.hand_over(both);
        assert_eq!(coverage.set_timer(both, Armed::default()), Some(CALLS_PAUSE));
        let coalescing = Armed { coalescing: Some(SOON), ..Armed::default() };
        assert_eq!(coverage.set_timer(both, coalescing), Some(SOON));
        assert_eq!(coverage.take_back().timer, Some(REPAIR_AFTER));
        coverage.hand_over(both);
        assert_eq!(coverage.set_timer(both, Armed::default()), Some(CALLS_PAUSE));
    }

    const ACT: Woken = Woken::Act { disarm_doorbell: false, passes: PASSES };

    #[test]
    fn the_thread_leaves_a_program_alone_that_keeps_calling_but_only_so_often() {
        let mut coverage = Coverage::new(true);
        for round in 0..3 {
            assert_eq!(coverage.hand_over(REQUESTS), Arm { network: true, doorbell: false }, "round {round}");
            for defer in 0..DEFERS_MAX {
                // A call before the thread wakes, and one while it looks.
                coverage.hand_over(REQUESTS);
                assert_eq!(coverage.woken(false, false, false), Woken::LookAgain, "{defer}");
                coverage.hand_over(REQUESTS);
                assert_eq!(coverage.woken(false, false, true), Woken::Defer(CALLS_PAUSE), "{defer}");
            }
            coverage.hand_over(REQUESTS);
            assert_eq!(coverage.woken(false, false, false), Woken::LookAgain);
            coverage.hand_over(REQUESTS);
            assert_eq!(coverage.woken(false, false, true), ACT);
        }
    }

    #[test]
    fn a_program_that_computes_is_helped_at_once_or_after_one_more_look() {
        let mut coverage = Coverage::new(true);
        coverage.hand_over(REQUESTS);
        assert_eq!(coverage.woken(false, false, false), ACT, "no call since the network was armed");
        coverage.hand_over(REQUESTS);
        coverage.hand_over(REQUESTS);
        assert_eq!(coverage.woken(false, false, false), Woken::LookAgain);
        assert_eq!(coverage.woken(false, false, true), ACT, "no call since it looked");
    }

    #[test]
    fn messages_that_wait_for_others_and_neighbours_that_ring_are_not_put_off() {
        for (neighbours, soon, coalescing) in [(true, false, false), (false, true, false), (false, false, true)] {
            let mut coverage = of_a_program_that_computes();
            let outstanding = Outstanding { requests: true, neighbours };
            coverage.hand_over(outstanding);
            coverage.set_timer(outstanding, Armed { coalescing: soon.then_some(SOON), ..Armed::default() });
            coverage.hand_over(outstanding);
            assert_eq!(coverage.woken(false, coalescing, false), Woken::LookAgain);
            coverage.hand_over(outstanding);
            let act = Woken::Act { disarm_doorbell: neighbours, passes: PASSES };
            assert_eq!(coverage.woken(false, coalescing, true), act);
        }
    }

    #[test]
    fn who_waits_inside_makes_the_passes_and_the_thread_only_lets_go() {
        let mut coverage = of_a_program_that_computes();
        coverage.hand_over(Outstanding { requests: true, neighbours: true });
        coverage.hand_over(REQUESTS);
        assert_eq!(coverage.woken(true, true, false), Woken::Act { disarm_doorbell: true, passes: 0 });
        assert!(!coverage.is_armed() && coverage.wants_due(false));
    }

    #[test]
    fn the_thread_hands_over_again_unless_somebody_wants_the_lock_who_will() {
        assert_eq!(after_passes(false), Left::HandOver);
        assert_eq!(after_passes(true), Left::Pause(REPAIR_AFTER));
        assert_eq!((when_busy(false), when_busy(true)), (CALLS_PAUSE, REPAIR_AFTER));
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..8).map(|_| backoff.pause(Some(CALLS_PAUSE)).unwrap().as_micros()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(backoff.pause(None), None);
        assert_eq!(backoff.pause(Some(REPAIR_AFTER)), Some(REPAIR_AFTER));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Leave { outstanding: Outstanding, arrived: bool, due: Option<Duration>, coalescing: bool },
        Wait,
        Wake { waits: bool, coalescing: bool },
    }

    fn steps() -> impl Strategy<Value = Step> {
        let flags = (any::<[bool; 4]>(), prop::option::of(0_u64..10_000_000));
        prop_oneof![
            3 => flags.prop_map(|([requests, neighbours, arrived, coalescing], due)| Step::Leave {
                outstanding: Outstanding { requests, neighbours },
                arrived,
                due: due.map(Duration),
                coalescing,
            }),
            1 => Just(Step::Wait),
            1 => any::<[bool; 2]>().prop_map(|[waits, coalescing]| Step::Wake { waits, coalescing }),
        ]
    }

    proptest! {
        /// After any history: what is outstanding as a call leaves is covered by what is armed in the kernel
        /// at that time, where the kernel disarms whatever wakes the thread, and what covers nothing any more
        /// is not armed again.
        #[test]
        fn whatever_came_before_everything_outstanding_is_covered(history in prop::collection::vec(steps(), 1..60)) {
            let mut coverage = Coverage::new(true);
            // What the kernel has armed.
            let (mut network, mut doorbell, mut timer) = (false, false, None);
            let mut defers = 0;
            for step in history {
                match step {
                    Step::Leave { outstanding, arrived, due, coalescing } => {
                        let arm = coverage.hand_over(outstanding);
                        prop_assert!(!arm.network || outstanding.requests);
                        prop_assert!(!arm.doorbell || outstanding.neighbours);
                        network |= arm.network;
                        doorbell |= arm.doorbell;
                        let arrived = arrived && arm.doorbell;
                        let due = due.filter(|_| coverage.wants_due(arrived));
                        let coalescing = coalescing.then_some(SOON);
                        timer = coverage.set_timer(outstanding, Armed { arrived, due, coalescing }).or(timer);
                        prop_assert!(network || !outstanding.requests);
                        let looks = timer.is_some_and(|span| span <= CALLS_PAUSE.max(SOON));
                        prop_assert!(doorbell || looks || !outstanding.neighbours);
                        prop_assert!(!arrived || timer == Some(Duration::default()));
                        prop_assert!(due.is_none() || timer.is_some());
                        prop_assert!(coalescing.is_none() || timer.is_some_and(|span| span <= SOON));
                    }
                    Step::Wait => {
                        let back = coverage.take_back();
                        prop_assert!(back.network == network && back.doorbell == doorbell);
                        (network, doorbell, timer) = (false, false, back.timer.or(timer));
                    }
                    Step::Wake { waits, coalescing } => {
                        let mut woken = coverage.woken(waits, coalescing, false);
                        if woken == Woken::LookAgain {
                            woken = coverage.woken(waits, coalescing, true);
                        }
                        match woken {
                            Woken::LookAgain => prop_assert!(false, "once only"),
                            Woken::Defer(span) => {
                                defers += 1;
                                timer = Some(span);
                                prop_assert!(defers <= DEFERS_MAX && !waits && !coalescing && !doorbell);
                            }
                            Woken::Act { disarm_doorbell, passes } => {
                                defers = 0;
                                prop_assert!(disarm_doorbell == doorbell && (passes == 0) == waits);
                                (network, doorbell, timer) = (false, false, None);
                            }
                        }
                    }
                }
            }
        }
    }
}
