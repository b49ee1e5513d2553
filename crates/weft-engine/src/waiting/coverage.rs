//! The work of the progress thread: what is armed for outstanding operations as a call leaves MPI, and what
//! the thread does as it wakes.
//!
//! The lock around the process is the right to make progress. A call that leaves MPI with operations
//! outstanding, while no other call waits inside, arms what the thread watches. A call that waits inside MPI
//! disarms it, and watches for itself. Arming wakes no thread.
//!
//! | outstanding as a call leaves | what is armed |
//! |---|---|
//! | nothing | nothing |
//! | packets that are not acknowledged, after blocking calls | the timer, no earlier than [`REPAIR_AFTER`] |
//! | requests for messages of the node alone | nothing |
//! | other requests | the network, and the timer when something is due; of a program that always waits at once ([`Habit`]) the timer alone |
//! | messages that wait for others to share their packet | the timer |
//! | collectives, or requests where memory is not shared by copies | a look after [`CALLS_PAUSE`], and then the doorbell as well |
//! | messages of neighbours that this process has still to fetch | a look after [`CALLS_PAUSE`] |
//! | messages of neighbours through rings, where others are copied between memories | as where memory is not shared; where ranks share processors, as for those to fetch |
//!
//! While the doorbell is armed each frame of a neighbour costs that neighbour a system call, and this process
//! a thread that wakes. A program that starts operations and waits for them at once, again and again, would
//! pay that each time for nothing. So the doorbell is armed only when the thread has looked and the program
//! has not called MPI since (docs/design/collectives.md).
//!
//! A program that calls MPI again and again, a window of messages for instance, makes progress itself. The
//! thread would only take the program's processor and lock, and its packets, sent from another processor,
//! would arrive out of order. So the thread does nothing if the program calls again within [`CALLS_APART`],
//! or is calling, and looks again after [`CALLS_PAUSE`] (docs/design/progress.md). It leaves the program its
//! processor, and releases the lock after a train (docs/design/progress.md).
//!
//! Where ranks take turns on processors, none is free for the thread. It would take the turn of a rank that
//! computes, and lose its processor while it has the lock. So neither requests nor packets nor messages of
//! neighbours wake the thread there before the program has not called MPI for [`TURNS_PAUSE`].

use weft_core::time::Duration;

use super::habit::Habit;

/// The earliest time for the thread to look at losses: a program that communicates all the time repairs them
/// itself.
pub const REPAIR_AFTER: Duration = Duration::from_millis(2);
/// The time without a call of MPI after which a program counts as computing.
pub const CALLS_PAUSE: Duration = Duration::from_micros(50);
/// The time within which a program that starts operations one after the other calls again.
pub const CALLS_APART: Duration = Duration::from_micros(8);
/// The time without a call of MPI after which the thread acts for a program that takes turns with other ranks
/// on its processor: some turns of programs that compute.
const TURNS_PAUSE: Duration = Duration::from_micros(10_000);
/// The same in ticks at 2.5 GHz.
const TURNS_TICKS: u64 = 25_000_000;
/// The number of times in a row that the thread leaves a calling program alone: a program that calls all the
/// time, but never waits, may make no progress.
const DEFERS_MAX: u32 = 8;
/// The time after which the thread looks at a program that is expected to wait at once: doubled each time
/// that it does, up to the second.
const TRUST_PAUSE: (Duration, Duration) = (Duration::from_micros(100), REPAIR_AFTER);
/// The passes of the progress loop for one wake-up: the first takes in what has arrived, the second sends
/// what results from it.
const PASSES: u32 = 2;

const _: () = assert!(CALLS_APART.as_nanos() < CALLS_PAUSE.as_nanos());
const _: () = assert!(CALLS_PAUSE.as_nanos() * (DEFERS_MAX as u64) < REPAIR_AFTER.as_nanos());

/// The state of a process as a call leaves MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Set if there are requests that are not complete.
    pub requests: bool,
    /// Set if the network may have to move one of them on: not where all their messages stay on the node.
    pub remote: bool,
    /// Set if there are collectives that are not complete.
    pub collectives: bool,
    /// Set if there are peers on other nodes.
    pub has_network: bool,
    /// Set if large messages of the node are not copied between memories, so that they need both sides.
    pub node_needs_help: bool,
    /// Set if a message of the node goes through a ring, and moves on only while both ends make passes. Most
    /// others are copied between memories by one end.
    pub needs_rings: bool,
    /// Set if ranks share processors.
    pub is_crowded: bool,
    /// Set if this process has still to fetch messages of neighbours.
    pub owes_copies: bool,
}

/// The operations that are outstanding as a call leaves MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Set if there are requests that are not complete and that the network may have to move on.
    pub requests: bool,
    /// Set if an operation waits for a neighbour's frame, and the neighbour cannot move it on by itself.
    pub neighbours: bool,
    /// Set if messages of neighbours need passes of this process: it has still to fetch them, or they go
    /// through rings where ranks share processors. No event wakes the thread for them.
    pub copies: bool,
}

impl Outstanding {
    /// The most that may be outstanding, with any requests and packets. What covers this covers all of it, so
    /// the rest of the state need not be looked at. `needs_rings` as in [`State`].
    #[inline(always)]
    pub fn most(neighbours: bool, needs_rings: bool, copies: bool) -> Self {
        Self { requests: true, neighbours: neighbours || needs_rings, copies: copies || needs_rings }
    }

    /// The part of `state` that the progress thread must care for; `None`: nothing. `has_deadlines` says that
    /// packets are not acknowledged, or that messages or grants wait for their time; it is called only if it
    /// matters.
    #[inline(always)]
    pub fn of(state: &State, has_deadlines: impl FnOnce() -> bool) -> Option<Self> {
        // Where ranks share processors a neighbour's frame is no reason to wake the thread.
        let quietly = state.has_network && state.is_crowded;
        let (by_events, by_looks) = (state.needs_rings && !quietly, state.needs_rings && quietly);
        let neighbours = state.collectives || (state.requests && (state.node_needs_help || by_events));
        let networked = state.has_network && (state.remote || has_deadlines());
        let copies = state.owes_copies || by_looks;
        (networked || neighbours || copies).then_some(Self { requests: state.remote, neighbours, copies })
    }
}

/// The circumstances under which a call leaves MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Set if messages wait for others to share their packet.
    pub coalescing: bool,
    /// Set if there is a network, and ranks take turns on processors.
    pub takes_turns: bool,
    /// Set if the program has windows: other processes may access them at any time, so the thread must watch
    /// the network.
    pub has_windows: bool,
}

/// The sources of events that are to be armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    /// Set if the thread is to wake when the network has something to read.
    pub network: bool,
    /// Set if the thread is to wake when a neighbour rings. The neighbours must be told so;
    /// [`Armed::arrived`] says whether a frame has arrived before that.
    pub doorbell: bool,
}

/// The findings at the time of arming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// Set if a frame has arrived already: no neighbour will ring for it.
    pub arrived: bool,
    /// The time until something is due; asked for only if [`Coverage::wants_due`].
    pub due: Option<Duration>,
    /// The longest time for which messages still wait for others to share their packet, if there are such
    /// messages.
    pub coalescing: Option<Duration>,
}

/// The sources of events that are to be disarmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeBack {
    /// Set if the network is to be disarmed.
    pub network: bool,
    /// Set if the doorbell is to be disarmed; neighbours must be told so.
    pub doorbell: bool,
    /// The new time of the timer, if it is to be set.
    pub timer: Option<Duration>,
}

/// The next step of the thread when it has been woken, and has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Release the lock for [`CALLS_APART`], then ask once more.
    LookAgain,
    /// Leave everything to the program, which keeps calling, and look again after this time: the timer is to
    /// be set.
    Defer(Duration),
    /// Act: each source that the thread watches may have woken it.
    Act {
        /// Set if neighbours must be told that no thread watches the doorbell.
        disarm_doorbell: bool,
        /// The most passes of the progress loop to make; none if a call waits inside MPI and makes them. Then
        /// [`after_passes`].
        passes: u32,
    },
}

/// The next step of the thread as it releases the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Arm again for what is outstanding, like a call that leaves MPI.
    HandOver,
    /// Look again after this time: another thread wants the lock and arms everything as it leaves, so this
    /// one need not.
    Pause(Duration),
}

/// The timer as far as is known: it may have run out since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Timer {
    #[default]
    Unset,
    /// The timer is set for something that is due.
    Set,
    /// The timer is set for messages that wait for others to share their packet.
    Soon,
}

/// A look of the thread at whether the program calls MPI again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Look {
    #[default]
    None,
    /// The timer is to be set for it.
    Wanted,
    /// The timer is set, to the look or to something sooner.
    Timed,
}

/// The sources that are armed for the progress thread of one process; under the process lock.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Set if there are neighbours that can ring.
    has_doorbell: bool,
    network: bool,
    doorbell: bool,
    /// The state of the look that the thread takes before the doorbell is armed.
    look: Look,
    /// Set if the look comes after [`TURNS_PAUSE`]: it is for messages, and ranks take turns.
    is_late: bool,
    /// Set when the thread has looked and the program has not called: it computes, and the doorbell is armed
    /// at once.
    computes: bool,
    timer: Timer,
    /// The number of calls that have left MPI with something outstanding.
    calls: u64,
    /// The value of `calls` at the last of these events: the network was armed, the look was decided upon, or
    /// the thread woke.
    calls_seen: u64,
    /// The number of times in a row that the thread left everything to the program.
    defers: u32,
    habit: Habit,
    /// Set if the network is not armed for requests since the program is expected to wait at once.
    trusts: bool,
    /// The time until the thread looks at such a program.
    pause: TrustPause,
    /// Set if the timer was last set for such a look.
    is_pausing: bool,
    /// Set if ranks take turns on processors, and there are no windows.
    takes_turns: bool,
    /// The time at which the last call left MPI, in ticks, where ranks take turns.
    left: u64,
    /// Set when the thread has found that the program has not called MPI for [`TURNS_PAUSE`].
    computes_long: bool,
}

impl Coverage {
    /// Makes a coverage with nothing armed.
    pub fn new(has_doorbell: bool) -> Self {
        Self { has_doorbell, ..Self::default() }
    }

    /// Notes that a call of the program leaves MPI at the time `now`, in ticks. `expects` says whether the
    /// program is to come back for what it leaves: requests, or messages that wait for others.
    #[inline(always)]
    pub fn leave(&mut self, expects: bool, now: impl Fn() -> u64) {
        if self.takes_turns {
            (self.left, self.computes_long) = (now(), false);
        }
        self.habit.leave(expects, now);
    }

    /// Notes that the program has come to a call that may wait, at the time `now`, in ticks.
    #[inline]
    pub fn wait(&mut self, now: impl FnOnce() -> u64) {
        self.habit.wait(now);
        self.trusts &= self.habit.is_trusted();
    }

    /// Returns whether what is outstanding is covered by trust, so that a call that leaves MPI must say
    /// whether there is anything ([`Self::leave`]).
    #[inline]
    pub fn trusts(&self) -> bool {
        self.trusts
    }

    /// Returns whether requests are left to the program since ranks take turns.
    #[inline]
    fn is_patient(&self) -> bool {
        self.takes_turns && !self.computes_long
    }

    /// Returns whether the thread looks soon.
    #[inline]
    fn is_looked_at_soon(&self) -> bool {
        self.look != Look::None && !self.is_late
    }

    /// Returns whether all that is `outstanding` is covered already, messages that are `coalescing` included;
    /// called when a call leaves MPI and no other waits inside.
    ///
    /// If so, the call has been counted, and there is nothing to do. Each small message of a burst but the
    /// first takes this way.
    #[inline(always)]
    pub fn is_covered(&mut self, outstanding: &Outstanding, coalescing: bool) -> bool {
        let is_armed = (self.network || self.trusts || self.is_patient() || !outstanding.requests)
            && (!(outstanding.neighbours && self.has_doorbell) || self.doorbell || self.is_looked_at_soon())
            && (!outstanding.copies || self.look != Look::None);
        let is_timed = if coalescing && !self.trusts { self.timer == Timer::Soon } else { self.timer != Timer::Unset };
        let covered = is_armed && is_timed;
        self.calls = self.calls.wrapping_add(u64::from(covered));
        covered
    }

    /// Returns what to arm now where [`Self::is_covered`] says no. [`Self::set_timer`] comes next.
    pub fn hand_over(&mut self, outstanding: Outstanding, leaving: Leaving) -> Arm {
        self.calls = self.calls.wrapping_add(1);
        self.takes_turns = leaving.takes_turns && !leaving.has_windows;
        let may_trust = !self.network && !leaving.takes_turns && !leaving.has_windows;
        self.trusts = may_trust && (outstanding.requests || leaving.coalescing) && self.habit.is_trusted();
        let network = outstanding.requests && !self.network && !self.trusts && !self.is_patient();
        if network {
            self.network = true;
            self.calls_seen = self.calls;
        }
        let neighbours = outstanding.neighbours && self.has_doorbell && !self.doorbell;
        let doorbell = std::mem::take(&mut self.computes) && neighbours;
        self.doorbell |= doorbell;
        let soon = (neighbours && !doorbell) || (outstanding.copies && !self.is_patient());
        if (soon && !self.is_looked_at_soon()) || (outstanding.copies && self.look == Look::None) {
            (self.look, self.is_late) = (Look::Wanted, !soon);
            self.calls_seen = self.calls;
        }
        Arm { network, doorbell }
    }

    /// Returns whether the time when something is due matters; `arrived` as in [`Armed`].
    #[inline]
    pub fn wants_due(&self, arrived: bool) -> bool {
        !arrived && self.timer == Timer::Unset && !self.trusts
    }

    /// Takes the findings at the time of arming; returns the new time of the timer, if it is to be set.
    pub fn set_timer(&mut self, outstanding: Outstanding, armed: Armed) -> Option<Duration> {
        let mut span = None;
        if armed.arrived {
            self.timer = self.timer.at_least_set();
            span = Some(Duration::default());
        } else if self.trusts && self.look != Look::Timed && (self.timer == Timer::Unset || !self.is_pausing) {
            self.timer = self.timer.at_least_set();
            span = Some(self.pause.0);
        } else if self.timer == Timer::Unset {
            span = match armed.due {
                due if self.is_patient() => {
                    due.map(|due| due.max(TURNS_PAUSE)).or(outstanding.requests.then_some(TURNS_PAUSE))
                }
                due if outstanding.requests => due,
                due => due.map(|due| due.max(REPAIR_AFTER)),
            };
            self.timer = if span.is_some() { Timer::Set } else { Timer::Unset };
        }
        if self.look == Look::Wanted {
            self.look = Look::Timed;
            if self.timer != Timer::Soon {
                self.timer = Timer::Set;
                let pause = if self.is_late { TURNS_PAUSE } else { CALLS_PAUSE };
                span = Some(span.map_or(pause, |span: Duration| span.min(pause)));
            }
        }
        if let Some(soon) = armed.coalescing
            && self.timer != Timer::Soon
            && !self.trusts
        {
            self.timer = Timer::Soon;
            span = if armed.arrived { span } else { Some(soon) };
        }
        if span.is_some() {
            self.is_pausing = self.trusts && span == Some(self.pause.0);
        }
        span
    }

    /// Returns what to disarm when a call waits inside MPI and watches for itself. A timer that is set may
    /// still wake the thread.
    pub fn take_back(&mut self) -> TakeBack {
        let timer = (self.timer == Timer::Soon).then(|| {
            self.timer = Timer::Set;
            // The next call to leave decides anew.
            (self.look, self.is_late) = (Look::None, false);
            (self.trusts, self.is_pausing) = (false, false);
            REPAIR_AFTER
        });
        TakeBack { network: std::mem::take(&mut self.network), doorbell: std::mem::take(&mut self.doorbell), timer }
    }

    /// Returns whether [`Self::take_back`] has something to do.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.network || self.doorbell || self.timer == Timer::Soon
    }

    /// Returns the next step when the thread has been woken, and has the lock. `waits` says that a call waits
    /// inside MPI; `coalescing` as in [`Armed`]; `looked`: the thread has looked again, as it was told; `now`
    /// is the time in ticks.
    pub fn woken(&mut self, waits: bool, coalescing: bool, looked: bool, now: u64) -> Woken {
        self.computes = false;
        if self.trusts && self.look == Look::None {
            let computes = self.habit.computes(now).filter(|_| !waits);
            if computes == Some(true) {
                self.habit.disappoint();
                self.pause = TrustPause::default();
            } else {
                self.pause.double();
            }
            if computes == Some(false) && self.defers(true, coalescing) {
                return Woken::Defer(self.pause.0);
            }
        }
        if self.takes_turns && !waits && (self.look == Look::None || self.is_late) {
            self.computes_long = now.saturating_sub(self.left) >= TURNS_TICKS;
            if self.defers(!self.computes_long, coalescing) {
                return Woken::Defer(TURNS_PAUSE);
            }
        }
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
        (self.look, self.is_late) = (Look::None, false);
        // The network is disarmed only if it was what woke the thread; arming it again does no harm.
        self.network = false;
        (self.trusts, self.is_pausing) = (false, false);
        Woken::Act { disarm_doorbell: std::mem::take(&mut self.doorbell), passes: if waits { 0 } else { PASSES } }
    }

    /// Returns whether the program has called MPI since the network was armed, or the look was decided upon:
    /// it may be about to call again. From now on only further calls count.
    fn calls_go_on(&mut self) -> bool {
        (self.network || self.look != Look::None) && std::mem::replace(&mut self.calls_seen, self.calls) != self.calls
    }

    /// Returns whether the thread leaves everything to the program, which `calls` again and again. Until the
    /// thread looks again, armed sources count as armed.
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

/// The time until the thread looks at a program that is expected to wait at once.
#[derive(Clone, Copy, Debug)]
struct TrustPause(Duration);

impl Default for TrustPause {
    fn default() -> Self {
        Self(TRUST_PAUSE.0)
    }
}

impl TrustPause {
    fn double(&mut self) {
        self.0 = Duration((self.0.as_nanos() * 2).min(TRUST_PAUSE.1.as_nanos()));
    }
}

impl Timer {
    fn at_least_set(self) -> Self {
        if self == Self::Soon { self } else { Self::Set }
    }
}

/// The next step of the thread after its passes. `contended` says that another thread wants the lock.
pub fn after_passes(contended: bool) -> Left {
    if contended { Left::Pause(REPAIR_AFTER) } else { Left::HandOver }
}

/// The time after which the thread looks again when it has been woken and another thread has the lock.
/// `waits` says that a call waits inside MPI, and sees to everything.
pub fn when_busy(waits: bool) -> Duration {
    if waits { REPAIR_AFTER } else { CALLS_PAUSE }
}

/// The growing pauses of a thread that finds the program inside MPI each time it looks, up to
/// [`REPAIR_AFTER`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    pause: Duration,
}

impl Backoff {
    /// Returns the new time of the thread's timer, when the thread is done, or was told to look `again` after
    /// some time.
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
    const QUIET: Leaving = Leaving { coalescing: false, takes_turns: false, has_windows: false };
    const TURNS: Leaving = Leaving { takes_turns: true, ..QUIET };
    const DUE: Duration = Duration::from_micros(300);
    const NOTHING: Outstanding = Outstanding { requests: false, neighbours: false, copies: false };
    const REQUESTS: Outstanding = Outstanding { requests: true, ..NOTHING };
    const NEIGHBOURS: Outstanding = Outstanding { neighbours: true, ..NOTHING };

    fn bits<const N: usize>(facts: u32) -> [bool; N] {
        std::array::from_fn(|bit| facts >> bit & 1 != 0)
    }

    /// All states: nothing outstanding, nothing to care for. An operation that moves on by itself alone is
    /// left out.
    #[test]
    fn what_is_outstanding_for_the_thread_follows_from_the_state() {
        for facts in 0..512 {
            let [
                requests,
                remote,
                collectives,
                has_network,
                node_needs_help,
                owes_copies,
                deadlines,
                asked,
                is_crowded,
            ] = bits(facts);
            if remote && !requests {
                continue;
            }
            let state = State {
                requests,
                remote,
                collectives,
                has_network,
                node_needs_help,
                needs_rings: asked,
                is_crowded,
                owes_copies,
            };
            let outstanding = Outstanding::of(&state, || deadlines);
            let quietly = has_network && is_crowded;
            let neighbours = collectives || (requests && (node_needs_help || (asked && !quietly)));
            let owes_copies = owes_copies || (asked && quietly);
            let expected = match (neighbours || owes_copies, has_network, remote, deadlines) {
                (true, ..) => Some(Outstanding { requests: remote, neighbours, copies: owes_copies }),
                (false, true, true, _) => Some(REQUESTS),
                (false, true, false, true) => Some(NOTHING),
                (false, false, ..) | (false, true, false, false) => None,
            };
            assert_eq!(outstanding, expected, "{state:?} {deadlines}");
            let most = Outstanding::most(collectives || node_needs_help, asked, owes_copies);
            assert!(outstanding.is_none_or(|outstanding| {
                most.requests && (most.neighbours || !outstanding.neighbours) && (most.copies || !outstanding.copies)
            }));
        }
    }

    #[test]
    fn deadlines_are_asked_for_only_if_they_matter() {
        let quiet = State {
            requests: false,
            remote: false,
            collectives: false,
            has_network: true,
            node_needs_help: false,
            needs_rings: false,
            is_crowded: false,
            owes_copies: false,
        };
        for (state, asked) in [
            (quiet, true),
            (State { requests: true, ..quiet }, true),
            (State { requests: true, remote: true, ..quiet }, false),
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
            let outstanding = Outstanding { requests, neighbours, ..NOTHING };
            let mut coverage = of_a_program_that_computes();
            let arm = coverage.hand_over(outstanding, QUIET);
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
        let both = Outstanding { requests: true, neighbours: true, ..NOTHING };
        assert_eq!(coverage.hand_over(both, QUIET), Arm { network: true, doorbell: true });
        let armed = Armed { due: Some(DUE), ..Armed::default() };
        assert_eq!(coverage.set_timer(both, armed), Some(DUE));
        assert_eq!(coverage.hand_over(both, QUIET), Arm::default());
        assert!(!coverage.wants_due(false));
        assert_eq!(coverage.set_timer(both, Armed::default()), None);
        let coalescing = Armed { coalescing: Some(SOON), ..Armed::default() };
        assert_eq!(coverage.set_timer(both, coalescing), Some(SOON), "these cannot wait for the timer that is set");
        assert_eq!(coverage.set_timer(both, coalescing), None);
    }

    #[test]
    fn without_a_doorbell_there_is_none_to_arm() {
        assert_eq!(Coverage::new(false).hand_over(NEIGHBOURS, QUIET), Arm::default());
    }

    /// A program that computes, so that the doorbell is armed for a collective, starts a receive whose
    /// message it has still to fetch, and computes on.   Expect: the thread looks soon, although a doorbell
    /// is armed, and acts. Calls that leave until then arm nothing.
    #[test]
    fn messages_that_are_still_to_be_fetched_bring_a_look_soon_and_arm_nothing() {
        let copies = Outstanding { copies: true, ..NOTHING };
        let mut coverage = of_a_program_that_computes();
        assert_eq!(coverage.hand_over(NEIGHBOURS, QUIET), Arm { network: false, doorbell: true });
        assert_eq!(coverage.set_timer(NEIGHBOURS, Armed::default()), None);
        assert!(!coverage.is_covered(&copies, false), "nobody rings for them");
        assert_eq!(coverage.hand_over(copies, QUIET), Arm::default());
        assert_eq!(coverage.set_timer(copies, Armed::default()), Some(CALLS_PAUSE));
        assert!(coverage.is_covered(&copies, false));
        assert_eq!(coverage.take_back(), TakeBack { doorbell: true, ..TakeBack::default() });
        assert!(coverage.is_covered(&copies, false), "the timer is still set");
        assert_eq!(coverage.woken(false, false, false, 0), Woken::Defer(CALLS_PAUSE), "the program calls");
        assert_eq!(coverage.woken(false, false, false, 0), ACT, "the program has not called since");
        assert!(!coverage.is_covered(&copies, false));
    }

    #[test]
    fn who_waits_inside_takes_back_what_is_armed_and_only_that() {
        for facts in 0..8 {
            let [network, doorbell, soon] = bits(facts);
            let mut coverage = of_a_program_that_computes();
            let outstanding = Outstanding { requests: network, neighbours: doorbell, ..NOTHING };
            coverage.hand_over(outstanding, QUIET);
            coverage.set_timer(outstanding, Armed { coalescing: soon.then_some(SOON), ..Armed::default() });
            assert_eq!(coverage.is_armed(), network || doorbell || soon);
            let timer = soon.then_some(REPAIR_AFTER);
            assert_eq!(coverage.take_back(), TakeBack { network, doorbell, timer });
            assert!(!coverage.is_armed());
            assert_eq!(coverage.take_back(), TakeBack::default());
            assert_eq!(
                coverage.hand_over(outstanding, QUIET),
                Arm { network, doorbell: false },
                "the network is armed again as the next call leaves, the doorbell when the thread has looked"
            );
        }
    }

    /// The coverage of a program whose thread has just found that it computes.
    fn of_a_program_that_computes() -> Coverage {
        let mut coverage = Coverage::new(true);
        assert_eq!(coverage.woken(false, false, false, 0), ACT);
        coverage
    }

    #[test]
    fn the_doorbell_is_armed_only_when_the_thread_has_looked_and_the_program_has_not_called_since() {
        let mut coverage = Coverage::new(true);
        let nothing = Armed::default();
        for round in 0..3 {
            assert_eq!(coverage.hand_over(NEIGHBOURS, QUIET), Arm::default(), "{round}");
            assert_eq!(coverage.set_timer(NEIGHBOURS, nothing), Some(CALLS_PAUSE), "{round}");
            for defer in 0..DEFERS_MAX {
                for _ in 0..1000 {
                    // Each call that leaves is covered, and the call that waits for it takes nothing back.
                    assert!(coverage.is_covered(&NEIGHBOURS, false) && !coverage.is_armed(), "{round}, {defer}");
                }
                assert_eq!(coverage.woken(false, false, false, 0), Woken::Defer(CALLS_PAUSE), "{round}, {defer}");
            }
            assert!(coverage.is_covered(&NEIGHBOURS, false));
            assert_eq!(coverage.woken(false, false, false, 0), ACT, "now and then it makes passes all the same");
        }
        coverage.hand_over(NEIGHBOURS, QUIET);
        assert_eq!(coverage.set_timer(NEIGHBOURS, nothing), Some(CALLS_PAUSE));
        assert_eq!(coverage.woken(false, false, false, 0), ACT);
        assert_eq!(coverage.hand_over(NEIGHBOURS, QUIET), Arm { network: false, doorbell: true }, "no call came");
        assert_eq!(coverage.set_timer(NEIGHBOURS, nothing), None);
        assert_eq!(coverage.woken(false, false, false, 0), Woken::Act { disarm_doorbell: true, passes: PASSES });
    }

    #[test]
    fn a_look_comes_sooner_than_what_is_due_late_and_is_wanted_again_when_its_timer_was_put_off() {
        let mut coverage = Coverage::new(true);
        let late = Armed { due: Some(Duration::from_micros(900_000)), ..Armed::default() };
        coverage.hand_over(REQUESTS, QUIET);
        assert_eq!(coverage.set_timer(REQUESTS, late), late.due);
        let both = Outstanding { requests: true, neighbours: true, ..NOTHING };
        coverage.hand_over(both, QUIET);
        assert_eq!(coverage.set_timer(both, Armed::default()), Some(CALLS_PAUSE));
        let coalescing = Armed { coalescing: Some(SOON), ..Armed::default() };
        assert_eq!(coverage.set_timer(both, coalescing), Some(SOON));
        assert_eq!(coverage.take_back().timer, Some(REPAIR_AFTER));
        coverage.hand_over(both, QUIET);
        assert_eq!(coverage.set_timer(both, Armed::default()), Some(CALLS_PAUSE));
    }

    const ACT: Woken = Woken::Act { disarm_doorbell: false, passes: PASSES };

    #[test]
    fn the_thread_leaves_a_program_alone_that_keeps_calling_but_only_so_often() {
        let mut coverage = Coverage::new(true);
        for round in 0..3 {
            assert_eq!(coverage.hand_over(REQUESTS, QUIET), Arm { network: true, doorbell: false }, "round {round}");
            for defer in 0..DEFERS_MAX {
                // A call before the thread wakes, and one while it looks.
                coverage.hand_over(REQUESTS, QUIET);
                assert_eq!(coverage.woken(false, false, false, 0), Woken::LookAgain, "{defer}");
                coverage.hand_over(REQUESTS, QUIET);
                assert_eq!(coverage.woken(false, false, true, 0), Woken::Defer(CALLS_PAUSE), "{defer}");
            }
            coverage.hand_over(REQUESTS, QUIET);
            assert_eq!(coverage.woken(false, false, false, 0), Woken::LookAgain);
            coverage.hand_over(REQUESTS, QUIET);
            assert_eq!(coverage.woken(false, false, true, 0), ACT);
        }
    }

    #[test]
    fn a_program_that_computes_is_helped_at_once_or_after_one_more_look() {
        let mut coverage = Coverage::new(true);
        coverage.hand_over(REQUESTS, QUIET);
        assert_eq!(coverage.woken(false, false, false, 0), ACT, "no call since the network was armed");
        coverage.hand_over(REQUESTS, QUIET);
        coverage.hand_over(REQUESTS, QUIET);
        assert_eq!(coverage.woken(false, false, false, 0), Woken::LookAgain);
        assert_eq!(coverage.woken(false, false, true, 0), ACT, "no call since it looked");
    }

    #[test]
    fn messages_that_wait_for_others_and_neighbours_that_ring_are_not_put_off() {
        for (neighbours, soon, coalescing) in [(true, false, false), (false, true, false), (false, false, true)] {
            let mut coverage = of_a_program_that_computes();
            let outstanding = Outstanding { requests: true, neighbours, ..NOTHING };
            coverage.hand_over(outstanding, QUIET);
            coverage.set_timer(outstanding, Armed { coalescing: soon.then_some(SOON), ..Armed::default() });
            coverage.hand_over(outstanding, QUIET);
            assert_eq!(coverage.woken(false, coalescing, false, 0), Woken::LookAgain);
            coverage.hand_over(outstanding, QUIET);
            let act = Woken::Act { disarm_doorbell: neighbours, passes: PASSES };
            assert_eq!(coverage.woken(false, coalescing, true, 0), act);
        }
    }

    #[test]
    fn who_waits_inside_makes_the_passes_and_the_thread_only_lets_go() {
        let mut coverage = of_a_program_that_computes();
        coverage.hand_over(Outstanding { requests: true, neighbours: true, ..NOTHING }, QUIET);
        coverage.hand_over(REQUESTS, QUIET);
        assert_eq!(coverage.woken(true, true, false, 0), Woken::Act { disarm_doorbell: true, passes: 0 });
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

    const AT_ONCE: u64 = 5_000;

    /// A program that starts requests, or messages that wait for others, and waits for them at once, again
    /// and again.   Expect: after some waits the network is no longer armed, nor is the timer set each time.
    #[test]
    fn for_a_program_that_always_waits_at_once_nothing_is_armed_but_one_look() {
        for coalescing in [false, true] {
            let outstanding = if coalescing { NOTHING } else { REQUESTS };
            let armed = Armed { coalescing: coalescing.then_some(SOON), due: Some(DUE), ..Armed::default() };
            let mut coverage = Coverage::new(true);
            let mut found = Vec::new();
            for round in 0..20 {
                coverage.leave(true, || round * 10_000);
                if !(coverage.trusts() && coverage.is_covered(&outstanding, coalescing)) {
                    let arm = coverage.hand_over(outstanding, Leaving { coalescing, ..QUIET });
                    found.push((round, arm.network, coverage.set_timer(outstanding, armed)));
                }
                coverage.wait(|| round * 10_000 + AT_ONCE);
                coverage.take_back();
            }
            let last = found.pop().unwrap();
            assert_eq!(last, (4, false, Some(TRUST_PAUSE.0)));
            assert!(found.iter().all(|(_, network, _)| *network != coalescing), "{found:?}");
        }
    }

    /// Ranks take turns on processors. A program starts requests and computes for 4 ms before it waits, again
    /// and again; then it computes for longer.   Expect: the thread looks once in 10 ms, and does nothing as
    /// long as the program calls. When the program has not called for as long, the thread acts, and the
    /// network is armed until the next call.
    #[test]
    fn where_ranks_take_turns_the_thread_acts_for_a_program_that_has_not_called_for_long() {
        const COMPUTES: u64 = 10_000_000;
        let mut coverage = Coverage::new(true);
        let call = |coverage: &mut Coverage, now: u64| {
            coverage.wait(|| now);
            coverage.take_back();
            coverage.leave(true, || now);
            let arm = coverage.hand_over(REQUESTS, TURNS);
            assert!(!arm.network && !arm.doorbell && !coverage.trusts(), "{now}");
            coverage.set_timer(REQUESTS, Armed { due: Some(DUE), ..Armed::default() })
        };
        let mut now = COMPUTES;
        assert_eq!(call(&mut coverage, now), Some(TURNS_PAUSE));
        for look in 0..DEFERS_MAX {
            for _ in 0..3 {
                now += COMPUTES;
                assert_eq!(call(&mut coverage, now), None, "the timer is set already");
                assert!(coverage.is_covered(&REQUESTS, false));
            }
            assert_eq!(coverage.woken(false, false, false, now + COMPUTES), Woken::Defer(TURNS_PAUSE), "{look}");
        }
        assert_eq!(coverage.woken(false, false, false, now + COMPUTES), ACT, "now and then it makes passes");
        assert_eq!(call(&mut coverage, now), Some(TURNS_PAUSE));
        assert_eq!(coverage.woken(false, false, false, now + TURNS_TICKS), ACT);
        assert_eq!(coverage.hand_over(REQUESTS, TURNS), Arm { network: true, doorbell: false });
        assert_eq!(coverage.set_timer(REQUESTS, Armed { due: Some(DUE), ..Armed::default() }), Some(DUE));
        assert_eq!(coverage.woken(false, false, false, now + TURNS_TICKS), ACT);
        assert_eq!(call(&mut coverage, now + TURNS_TICKS), Some(TURNS_PAUSE));
    }

    /// Ranks take turns. A program has still to fetch a message; then it starts a collective too.   Expect:
    /// for messages the thread looks after 10 ms and does nothing while the program calls. It acts when the
    /// program has not called for as long, and looks soon from then on. For a collective it looks soon at
    /// once.
    #[test]
    fn where_ranks_take_turns_looks_for_messages_are_put_off_but_none_for_collectives() {
        let copies = Outstanding { copies: true, ..NOTHING };
        let both = Outstanding { neighbours: true, ..copies };
        let mut coverage = Coverage::new(true);
        let leave = |coverage: &mut Coverage, outstanding: Outstanding, now: u64| {
            coverage.leave(false, || now);
            if coverage.is_covered(&outstanding, false) {
                return None;
            }
            assert_eq!(coverage.hand_over(outstanding, TURNS), Arm::default());
            coverage.set_timer(outstanding, Armed::default())
        };
        assert_eq!(leave(&mut coverage, copies, 0), Some(TURNS_PAUSE));
        assert_eq!(leave(&mut coverage, copies, TURNS_TICKS), None);
        assert_eq!(coverage.woken(false, false, false, TURNS_TICKS + 1), Woken::Defer(TURNS_PAUSE));
        assert_eq!(leave(&mut coverage, both, TURNS_TICKS + 1), Some(CALLS_PAUSE));
        assert_eq!(coverage.woken(false, false, false, TURNS_TICKS + 2), ACT, "the program has not called since");
        let now = 3 * TURNS_TICKS;
        assert_eq!(leave(&mut coverage, copies, now), Some(TURNS_PAUSE));
        assert_eq!(coverage.woken(false, false, false, now + TURNS_TICKS), ACT);
        assert_eq!(coverage.hand_over(copies, TURNS), Arm::default());
        assert_eq!(coverage.set_timer(copies, Armed::default()), Some(CALLS_PAUSE));
    }

    /// Where ranks take turns: packets that are not acknowledged, and nothing else.   Expect: a look after
    /// the same time, and none where nothing is due. Messages that wait for others, and windows, are cared
    /// for as elsewhere.
    #[test]
    fn where_ranks_take_turns_losses_are_repaired_later_but_nothing_else_is_put_off() {
        let due = Armed { due: Some(DUE), ..Armed::default() };
        for (armed, span) in [(due, Some(TURNS_PAUSE)), (Armed::default(), None)] {
            let mut coverage = Coverage::new(true);
            assert_eq!(coverage.hand_over(NOTHING, TURNS), Arm::default());
            assert_eq!(coverage.set_timer(NOTHING, armed), span);
        }
        let mut coverage = Coverage::new(true);
        coverage.hand_over(REQUESTS, Leaving { coalescing: true, ..TURNS });
        assert_eq!(coverage.set_timer(REQUESTS, Armed { coalescing: Some(SOON), ..due }), Some(SOON));
        assert_eq!(coverage.woken(false, true, false, 0), ACT);
        let arm = coverage.hand_over(REQUESTS, Leaving { has_windows: true, ..TURNS });
        assert_eq!((arm, coverage.set_timer(REQUESTS, due)), (Arm { network: true, doorbell: false }, Some(DUE)));
    }

    /// The thread looks at such a program.   Expect: while it calls, the looks come ever later, but not
    /// without end. When it computes, the thread acts, and the network is armed from then on.
    #[test]
    fn who_is_trusted_and_computes_is_found_by_the_look() {
        let trusted = || {
            let mut coverage = Coverage::new(true);
            for round in 0..4 {
                coverage.leave(true, || round);
                coverage.wait(|| round);
            }
            coverage.leave(true, || 100_000);
            assert_eq!(coverage.hand_over(REQUESTS, QUIET), Arm::default());
            assert_eq!(coverage.set_timer(REQUESTS, Armed::default()), Some(TRUST_PAUSE.0));
            coverage
        };
        let mut coverage = trusted();
        let looks: Vec<u64> = (0..DEFERS_MAX)
            .map(|_| match coverage.woken(false, false, false, 100_000 + AT_ONCE) {
                Woken::Defer(span) => span.as_micros(),
                woken => panic!("{woken:?}"),
            })
            .collect();
        assert_eq!(looks, [200, 400, 800, 1_600, 2_000, 2_000, 2_000, 2_000]);
        assert_eq!(coverage.woken(false, false, false, 100_000 + AT_ONCE), ACT, "now and then it makes passes");
        for (now, expects, arms) in [(400_000, true, true), (100_000 + AT_ONCE, false, false)] {
            let mut coverage = trusted();
            coverage.leave(expects, || 100_000);
            assert_eq!(coverage.woken(false, false, false, now), ACT, "it computes, or has nothing to come back for");
            assert_eq!(coverage.hand_over(REQUESTS, QUIET), Arm { network: arms, doorbell: false });
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Leave {
            outstanding: Outstanding,
            arrived: bool,
            due: Option<Duration>,
            coalescing: bool,
        },
        /// The program comes to a call that waits after so many ticks.
        Wait(u64),
        /// The thread is woken after so many ticks.
        Wake {
            after: u64,
            waits: bool,
            coalescing: bool,
        },
    }

    fn steps() -> impl Strategy<Value = Step> {
        let flags = (any::<[bool; 5]>(), prop::option::of(0_u64..10_000_000));
        prop_oneof![
            3 => flags.prop_map(|([requests, neighbours, copies, arrived, coalescing], due)| Step::Leave {
                outstanding: Outstanding { requests, neighbours, copies },
                arrived,
                due: due.map(Duration),
                coalescing,
            }),
            2 => prop_oneof![8 => Just(AT_ONCE), 1 => 0_u64..200_000].prop_map(Step::Wait),
            1 => (any::<[bool; 2]>(), prop_oneof![0_u64..200_000, Just(TURNS_TICKS)])
                .prop_map(|([waits, coalescing], after)| Step::Wake { after, waits, coalescing }),
        ]
    }

    proptest! {
        /// Any history, where the kernel disarms the source that wakes the thread.   Expect: all that is
        /// outstanding as a call leaves is covered by sources that are armed in the kernel at that time. A
        /// source that covers nothing any more is not armed again.
        #[test]
        fn whatever_came_before_everything_outstanding_is_covered(
            history in prop::collection::vec(steps(), 1..120),
            takes_turns: bool,
        ) {
            let mut coverage = Coverage::new(true);
            // The sources that the kernel has armed.
            let (mut network, mut doorbell, mut timer) = (false, false, None);
            let (mut defers, mut now) = (0, 0);
            for step in history {
                match step {
                    Step::Leave { outstanding, arrived, due, coalescing } => {
                        coverage.leave(outstanding.requests || coalescing, || now);
                        let arm = coverage.hand_over(outstanding, Leaving { coalescing, takes_turns, ..QUIET });
                        prop_assert!(!arm.network || outstanding.requests);
                        prop_assert!(!arm.doorbell || outstanding.neighbours);
                        network |= arm.network;
                        doorbell |= arm.doorbell;
                        let arrived = arrived && arm.doorbell;
                        let due = due.filter(|_| coverage.wants_due(arrived));
                        let coalescing = coalescing.then_some(SOON);
                        timer = coverage.set_timer(outstanding, Armed { arrived, due, coalescing }).or(timer);
                        let is_looked_at = coverage.trusts() && timer.is_some_and(|span| span <= TRUST_PAUSE.1);
                        let is_patient = takes_turns && timer.is_some_and(|span| span <= TURNS_PAUSE);
                        prop_assert!(network || is_looked_at || is_patient || !outstanding.requests);
                        let looks = timer.is_some_and(|span| span <= CALLS_PAUSE.max(SOON));
                        prop_assert!(doorbell || looks || !outstanding.neighbours);
                        prop_assert!(looks || is_patient || !outstanding.copies);
                        prop_assert!(!arrived || timer == Some(Duration::default()));
                        prop_assert!(due.is_none() || timer.is_some());
                        prop_assert!(coalescing.is_none() || is_looked_at || timer.is_some_and(|span| span <= SOON));
                    }
                    Step::Wait(gap) => {
                        now += gap;
                        coverage.wait(|| now);
                        let back = coverage.take_back();
                        prop_assert!(back.network == network && back.doorbell == doorbell);
                        (network, doorbell, timer) = (false, false, back.timer.or(timer));
                    }
                    Step::Wake { after, waits, coalescing } => {
                        now += after;
                        let mut woken = coverage.woken(waits, coalescing, false, now);
                        if woken == Woken::LookAgain {
                            woken = coverage.woken(waits, coalescing, true, now);
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
