//! How two processes come to one connection, as a pure state machine: what happens, and what is to be done.
//!
//! RDMA CM has clients and servers, and MPI has peers. Whoever has something to send first connects. When
//! both do at once, the connection of the one with the *higher* name (address and port of where it listens)
//! is kept: the lower one accepts it and drops its own attempt, and the higher one refuses the other's,
//! saying so. So of a pair whose attempts cross, the lower one listens and the higher one connects.
//!
//! On iWARP the client must send the first message. So the client sends a message without contents at once,
//! and the server sends nothing before that has come. The kernel's `siw` may not notice what arrives at a
//! server in the moment in which it accepts, until something more arrives (its `siw_accept` answers the
//! client before it has the socket call it). So a client that hears nothing *nudges*: it writes zero bytes,
//! which needs neither a key nor a receive.

use weft_core::time::{Duration, Instant};

/// An attempt takes no longer …
const ATTEMPT: Duration = Duration::from_millis(10_000);
/// … and a client whose attempt gave way waits no longer for the other's. A server waits for the client's
/// first message as long as there is a connection, and so does who closes one for the answer: who drops it by
/// itself may drop what is on its way …
const TURN: Duration = Duration::from_millis(5_000);
/// … after a refusal the next attempt begins after so long, times how many there have been …
const PAUSE: Duration = Duration::from_millis(20);
/// … and after so many that were refused or failed the peer is lost.
const ATTEMPTS_MAX: u32 = 20;
/// A client that has heard nothing from its server nudges it after so long, and again after twice as long
/// each time …
const NUDGE: Duration = Duration::from_millis(50);
/// … up to this.
const NUDGE_MAX: Duration = Duration::from_millis(3_200);

/// Why a peer refuses an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its own is under way, and is the one that is kept.
    GiveWay,
    /// It cannot take one now.
    Later,
    /// It did not say, or nobody listens.
    Other,
}

/// How far a pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// There is no connection, and nobody wants one.
    Apart,
    /// This end connects.
    Connecting,
    /// The peer connects: it has refused our attempt for its own.
    Awaiting,
    /// This end has been refused, and tries again after a while.
    Pausing,
    /// This end has accepted, and waits for the client's first message.
    Accepted,
    /// Both may send.
    Ready,
    /// The connection is being closed since nobody has used it for long.
    Leaving,
    /// Nothing helps.
    Lost,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// There is something to send.
    Wanted,
    /// The peer wants to connect.
    Request,
    /// The attempt of this end succeeds.
    Established,
    /// The client's first message has come.
    FirstMessage,
    /// The attempt of this end is refused.
    Refused(Reason),
    /// It fails for another reason.
    Failed,
    /// The connection is gone; `held`: packets that were taken have not been delivered.
    Disconnected {
        /// What was taken is lost.
        held: bool,
    },
    /// It has not been used for long.
    Unused,
    /// The peer closes it: all that it has sent has been taken.
    PeerCloses,
    /// The deadline has passed.
    Late,
    /// This end wants no connection to the peer any more, nor tells of its loss.
    Abandoned,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Begin an attempt; an earlier one is dropped.
    Connect,
    /// Accept the peer's; an attempt of this end is dropped.
    Accept,
    /// Refuse the peer's.
    Refuse(Reason),
    /// Send the first message: this end may send from now on.
    Greet,
    /// Ask the peer to close the connection, as soon as nothing is on its way to it.
    Close,
    /// Answer that, likewise.
    Answer,
    /// Drop what there is of a connection or an attempt.
    Drop,
    /// Drop it, and tell that the peer is lost.
    Lose,
}

/// One of two ends.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// Its name is the higher one.
    is_higher: bool,
    state: State,
    deadline: Option<Instant>,
    attempts: u32,
    /// A client's server has not been heard: it is nudged then, and after so long again.
    unheard: Option<(Instant, Duration)>,
}

impl Pair {
    pub(super) fn new(is_higher: bool) -> Self {
        Self { is_higher, state: State::Apart, deadline: None, attempts: 0, unheard: None }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Something is to happen by then.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// The earliest time at which something is to happen.
    pub(super) fn next(&self) -> Option<Instant> {
        let nudge = self.unheard.map(|(at, _)| at);
        self.deadline.into_iter().chain(nudge).min()
    }

    /// Whether this end is a client that has heard nothing from its server.
    pub(super) fn is_unheard(&self) -> bool {
        self.unheard.is_some()
    }

    /// Something has come from the peer.
    pub(super) fn note_heard(&mut self) {
        self.unheard = None;
    }

    /// Whether the server is to be nudged now.
    pub(super) fn must_nudge(&mut self, now: Instant) -> bool {
        match &mut self.unheard {
            Some((at, pause)) if *at <= now => {
                *pause = Duration(2 * pause.0).min(NUDGE_MAX);
                *at = now + *pause;
                true
            }
            _ => false,
        }
    }

    /// There is a connection to be, and there is none yet.
    pub(super) fn is_beginning(&self) -> bool {
        matches!(self.state, State::Connecting | State::Awaiting | State::Pausing | State::Accepted)
    }

    fn go(&mut self, state: State, limit: Option<Duration>, now: Instant) {
        (self.state, self.deadline) = (state, limit.map(|limit| now + limit));
        // What closes it waits for the peer, too.
        if !matches!(state, State::Ready | State::Leaving) {
            self.unheard = None;
        }
    }

    fn retry(&mut self, now: Instant) -> Action {
        self.attempts += 1;
        if self.attempts >= ATTEMPTS_MAX {
            self.go(State::Lost, None, now);
            return Action::Lose;
        }
        let pause = Duration(PAUSE.0 * u64::from(self.attempts));
        self.go(State::Pausing, Some(pause), now);
        Action::Drop
    }

    /// What an event leads to.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Action {
        match (self.state, event) {
            (State::Apart, Event::Wanted) | (State::Pausing, Event::Late) => {
                self.go(State::Connecting, Some(ATTEMPT), now);
                Action::Connect
            }
            (State::Connecting, Event::Request) if self.is_higher => Action::Refuse(Reason::GiveWay),
            (State::Apart | State::Awaiting | State::Pausing | State::Connecting, Event::Request) => {
                self.go(State::Accepted, None, now);
                Action::Accept
            }
            // Nothing is on its way when a connection is closed: whoever asks for another one has dropped the
            // last.
            (State::Leaving, Event::Request) => {
                self.go(State::Accepted, None, now);
                Action::Accept
            }
            // The peer may know earlier that a connection is gone.
            (State::Accepted | State::Ready, Event::Request) => Action::Refuse(Reason::Later),
            (State::Lost, Event::Request) => Action::Refuse(Reason::Other),
            (State::Connecting, Event::Established) => {
                self.attempts = 0;
                self.go(State::Ready, None, now);
                self.unheard = Some((now + NUDGE, NUDGE));
                Action::Greet
            }
            (State::Accepted, Event::FirstMessage) => {
                self.attempts = 0;
                self.go(State::Ready, None, now);
                Action::Nothing
            }
            // Only a client sends it, and only once.
            (State::Ready | State::Leaving, Event::FirstMessage) => {
                self.go(State::Lost, None, now);
                Action::Lose
            }
            (State::Connecting, Event::Refused(Reason::GiveWay)) if !self.is_higher => {
                self.go(State::Awaiting, Some(TURN), now);
                Action::Drop
            }
            // Somebody who computes answers late, or looks late at what has come of an earlier connection:
            // how long that may last is for whoever watches over peers to say.
            (State::Connecting | State::Awaiting, Event::Late) | (State::Connecting, Event::Refused(Reason::Later)) => {
                self.go(State::Pausing, Some(PAUSE), now);
                Action::Drop
            }
            (State::Connecting, Event::Refused(_) | Event::Failed | Event::Disconnected { .. }) => self.retry(now),
            (State::Accepted, Event::Failed | Event::Disconnected { .. }) => {
                self.go(State::Apart, None, now);
                Action::Drop
            }
            (State::Ready, Event::Disconnected { held: false }) | (State::Leaving, Event::Disconnected { .. }) => {
                self.go(State::Apart, None, now);
                Action::Drop
            }
            (State::Ready, Event::Disconnected { held: true } | Event::Failed) => {
                self.go(State::Lost, None, now);
                Action::Lose
            }
            (State::Lost, Event::Abandoned) => Action::Nothing,
            (_, Event::Abandoned) => {
                self.go(State::Lost, None, now);
                Action::Drop
            }
            (State::Ready, Event::Unused) => {
                self.go(State::Leaving, None, now);
                Action::Close
            }
            // Also if this end has asked for the same: a connection is dropped by who has been answered, and
            // the answer says that all was taken.
            (State::Ready | State::Leaving, Event::PeerCloses) => {
                self.go(State::Leaving, None, now);
                Action::Answer
            }
            _ => Action::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const NOW: Instant = Instant(1_000_000_000);

    /// What travels between two ends, each in its own time; what one end sends to the other keeps its order.
    #[derive(Clone, Copy, Debug)]
    enum Travels {
        /// The attempt of this number begins.
        Request(u32),
        Accepted(u32),
        Refused(u32, Reason),
        First(u32),
        /// The sender has dropped this attempt.
        Gone(u32),
    }

    #[derive(Clone)]
    struct World {
        pairs: [Pair; 2],
        /// To each end.
        ways: [VecDeque<Travels>; 2],
        /// The attempt or connection that each end has.
        attempts: [Option<u32>; 2],
        wants: [bool; 2],
        made: u32,
        now: Instant,
    }

    impl World {
        fn act(&mut self, end: usize, action: Action, request: Option<u32>) {
            let other = 1 - end;
            match action {
                Action::Nothing => {}
                Action::Connect => {
                    self.drop_attempt(end);
                    self.made += 1;
                    self.attempts[end] = Some(self.made);
                    self.ways[other].push_back(Travels::Request(self.made));
                }
                Action::Accept => {
                    self.drop_attempt(end);
                    self.attempts[end] = request;
                    self.ways[other].push_back(Travels::Accepted(request.expect("a request")));
                }
                Action::Refuse(reason) => {
                    self.ways[other].push_back(Travels::Refused(request.expect("a request"), reason));
                }
                Action::Greet => {
                    let number = self.attempts[end].expect("a connection");
                    self.ways[other].push_back(Travels::First(number));
                }
                Action::Drop => self.drop_attempt(end),
                Action::Lose | Action::Close | Action::Answer => panic!("nobody is lost or leaves here"),
            }
        }

        fn drop_attempt(&mut self, end: usize) {
            if let Some(number) = self.attempts[end].take() {
                self.ways[1 - end].push_back(Travels::Gone(number));
            }
        }

        fn deliver(&mut self, end: usize) {
            let travels = self.ways[end].pop_front().expect("something to deliver");
            let own = |number| self.attempts[end] == Some(number);
            let (event, request) = match travels {
                Travels::Request(number) => (Event::Request, Some(number)),
                Travels::Accepted(number) if own(number) => (Event::Established, None),
                Travels::Refused(number, reason) if own(number) => (Event::Refused(reason), None),
                Travels::First(number) if own(number) => (Event::FirstMessage, None),
                Travels::Gone(number) if own(number) => (Event::Disconnected { held: false }, None),
                _ => return,
            };
            let action = self.pairs[end].on(event, self.now);
            self.act(end, action, request);
        }

        /// Every order in which things can happen; how many ends there were.
        fn explore(self, depth: u32) -> u32 {
            assert!(depth < 60, "it does not end: {:?}", self.pairs);
            let mut ends = 0;
            for end in 0..2 {
                if self.wants[end] {
                    let mut next = self.clone();
                    next.wants[end] = false;
                    let action = next.pairs[end].on(Event::Wanted, next.now);
                    next.act(end, action, None);
                    ends += next.explore(depth + 1);
                }
                if !self.ways[end].is_empty() {
                    let mut next = self.clone();
                    next.deliver(end);
                    ends += next.explore(depth + 1);
                }
            }
            if ends > 0 {
                return ends;
            }
            // Nothing travels: either both are ready, by the same connection, or one of them pauses and tries
            // again.
            let states = [0, 1].map(|end| self.pairs[end].state());
            if states == [State::Ready; 2] {
                assert_eq!(self.attempts[0], self.attempts[1]);
                assert!(self.attempts[0].is_some());
                return 1;
            }
            let mut next = self;
            next.now = next.now + Duration::from_millis(60_000);
            let late = (0..2).find(|end| next.pairs[*end].is_late(next.now)).expect("somebody goes on");
            let action = next.pairs[late].on(Event::Late, next.now);
            next.act(late, action, None);
            next.explore(depth + 1)
        }
    }

    fn world(wants: [bool; 2]) -> World {
        World {
            pairs: [Pair::new(false), Pair::new(true)],
            ways: [VecDeque::new(), VecDeque::new()],
            attempts: [None; 2],
            wants,
            made: 0,
            now: NOW,
        }
    }

    #[test]
    fn whoever_begins_and_in_whatever_order_things_happen_both_end_with_the_same_connection() {
        assert_eq!(world([true, false]).explore(0), 1);
        assert_eq!(world([false, true]).explore(0), 1);
        assert!(world([true, true]).explore(0) > 10, "there are many orders");
    }

    /// What is sent by a connection of this number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Message {
        First(u32),
        Packet(u32),
        Close(u32),
        Closed(u32),
    }

    impl Message {
        fn connection(self) -> u32 {
            let (Self::First(number) | Self::Packet(number) | Self::Close(number) | Self::Closed(number)) = self;
            number
        }
    }

    /// Two ends that send packets, and close the connection meanwhile. What RDMA CM tells of and what is sent
    /// have orders of their own.
    #[derive(Clone)]
    struct Closing {
        world: World,
        /// Messages on their way to each end, packets that each is still to send, and how often it is still
        /// to close.
        messages: [VecDeque<Message>; 2],
        to_send: [u32; 2],
        closes: [u32; 2],
        received: [u32; 2],
    }

    impl Closing {
        fn act(&mut self, end: usize, action: Action, request: Option<u32>) {
            let before = self.world.attempts[end];
            let number = before.unwrap_or(0);
            let other = 1 - end;
            match action {
                Action::Greet => self.messages[other].push_back(Message::First(number)),
                Action::Close => self.messages[other].push_back(Message::Close(number)),
                Action::Answer => self.messages[other].push_back(Message::Closed(number)),
                _ => self.world.act(end, action, request),
            }
            // Whoever drops a connection may drop what is on its way in it, to this end and from it: that may
            // be no packet.
            if let Some(number) = before.filter(|_| self.world.attempts[end] != before) {
                for messages in &mut self.messages {
                    assert!(!messages.contains(&Message::Packet(number)), "a packet is dropped with its connection");
                }
            }
        }

        fn event(&mut self, end: usize, event: Event, request: Option<u32>) {
            let action = self.world.pairs[end].on(event, self.world.now);
            self.act(end, action, request);
        }

        fn tell(&mut self, end: usize) {
            let Some(travels) = self.world.ways[end].pop_front() else { return };
            let is_own = |number| self.world.attempts[end] == Some(number);
            match travels {
                Travels::Request(number) => self.event(end, Event::Request, Some(number)),
                Travels::Accepted(number) if is_own(number) => self.event(end, Event::Established, None),
                Travels::Refused(number, reason) if is_own(number) => self.event(end, Event::Refused(reason), None),
                // What came before that is taken first.
                Travels::Gone(number) if is_own(number) => {
                    while self.messages[end].iter().any(|message| message.connection() == number) {
                        self.take(end);
                    }
                    if self.world.attempts[end] == Some(number) {
                        self.event(end, Event::Disconnected { held: false }, None);
                    }
                }
                _ => {}
            }
        }

        fn take(&mut self, end: usize) {
            let Some(message) = self.messages[end].pop_front() else { return };
            if self.world.attempts[end] != Some(message.connection()) {
                return assert!(!matches!(message, Message::Packet(_)), "a packet comes too late");
            }
            match message {
                Message::First(_) => self.event(end, Event::FirstMessage, None),
                Message::Packet(_) => self.received[end] += 1,
                Message::Close(_) => self.event(end, Event::PeerCloses, None),
                Message::Closed(_) => self.event(end, Event::Disconnected { held: false }, None),
            }
        }

        fn send(&mut self, end: usize) {
            match (self.world.pairs[end].state(), self.world.attempts[end]) {
                (State::Ready, Some(number)) => {
                    self.to_send[end] -= 1;
                    self.messages[1 - end].push_back(Message::Packet(number));
                }
                (State::Apart, _) => self.event(end, Event::Wanted, None),
                _ => {}
            }
        }

        fn key(&self) -> String {
            let World { pairs, ways, attempts, .. } = &self.world;
            // Only which connections are the same counts, and not how many there have been.
            let first = attempts.iter().flatten().min().copied().unwrap_or(0);
            let pairs: Vec<_> = pairs.iter().map(|pair| (pair.state, pair.deadline.is_some())).collect();
            format!("{pairs:?}{ways:?}{attempts:?}{:?}{:?}{:?}{first}", self.messages, self.to_send, self.closes)
        }

        /// Every order in which things can happen: each must end with all packets received.
        fn explore(self) -> usize {
            let (mut seen, mut todo) = (std::collections::HashSet::new(), vec![self]);
            let mut ends = 0;
            while let Some(world) = todo.pop() {
                assert!(seen.len() < 2_000_000, "there are too many states");
                if !seen.insert(world.key()) {
                    continue;
                }
                let mut next = Vec::new();
                for end in 0..2 {
                    let mut play = |happens: bool, what: fn(&mut Self, usize)| {
                        if happens {
                            let mut one = world.clone();
                            what(&mut one, end);
                            next.push(one);
                        }
                    };
                    let state = world.world.pairs[end].state();
                    let may_send = matches!(state, State::Ready | State::Apart);
                    play(world.to_send[end] > 0 && may_send, Self::send);
                    play(world.closes[end] > 0 && state == State::Ready, |one, end| {
                        one.closes[end] -= 1;
                        one.event(end, Event::Unused, None);
                    });
                    play(!world.world.ways[end].is_empty(), Self::tell);
                    play(!world.messages[end].is_empty(), Self::take);
                }
                if next.is_empty() {
                    let late = world.world.now + Duration::from_millis(60_000);
                    let waits = (0..2).find(|end| world.world.pairs[*end].is_late(late));
                    match waits {
                        Some(end) => {
                            let mut one = world;
                            let action = one.world.pairs[end].on(Event::Late, late);
                            one.act(end, action, None);
                            next.push(one);
                        }
                        None => {
                            let states = [0, 1].map(|end| world.world.pairs[end].state());
                            assert_eq!(world.to_send, [0, 0], "{states:?}: nobody goes on");
                            assert!(states == [State::Ready; 2] || states == [State::Apart; 2], "{states:?}");
                            ends += 1;
                        }
                    }
                }
                todo.extend(next);
            }
            ends
        }
    }

    /// Both ends may close at once, and want to send again meanwhile.
    #[test]
    fn however_connections_are_closed_and_made_again_no_packet_is_dropped_and_nobody_waits_for_ever() {
        for (to_send, closes) in
            [([2, 0], [1, 0]), ([2, 0], [0, 1]), ([1, 1], [1, 0]), ([2, 1], [1, 1]), ([2, 2], [1, 1])]
        {
            let world = world([false, false]);
            let messages = [VecDeque::new(), VecDeque::new()];
            let closing = Closing { world, messages, to_send, closes, received: [0, 0] };
            assert!(closing.explore() > 0);
        }
    }

    #[test]
    fn a_server_is_not_ready_before_the_first_message_of_its_client() {
        let mut server = Pair::new(true);
        assert_eq!(server.on(Event::Request, NOW), Action::Accept);
        assert_eq!(server.on(Event::Wanted, NOW), Action::Nothing);
        assert_eq!(server.on(Event::Established, NOW), Action::Nothing, "what RDMA CM says of it does not count");
        assert_eq!(server.state(), State::Accepted);
        assert_eq!(server.on(Event::FirstMessage, NOW), Action::Nothing);
        assert_eq!(server.state(), State::Ready);
        assert_eq!(server.on(Event::FirstMessage, NOW), Action::Lose, "a second one is no peer's");
    }

    #[test]
    fn a_client_greets_as_soon_as_it_is_connected() {
        let mut client = Pair::new(false);
        assert_eq!(client.on(Event::Wanted, NOW), Action::Connect);
        assert_eq!(client.on(Event::Established, NOW), Action::Greet);
        assert_eq!(client.state(), State::Ready);
    }

    #[test]
    fn a_client_nudges_its_server_until_it_hears_something_or_the_connection_is_gone() {
        let mut now = NOW;
        let mut client = Pair::new(false);
        client.on(Event::Wanted, now);
        assert!(!client.must_nudge(now + ATTEMPT), "there is no connection yet");
        client.on(Event::Established, now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let at = client.next().expect("it waits");
            assert!(!client.must_nudge(now) && client.must_nudge(at));
            pauses.push((at - Duration(now.0)).0 / 1_000_000);
            now = at;
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 3200]);
        // What closes the connection may lie there unseen as well.
        let mut closing = client.clone();
        closing.on(Event::Unused, now);
        assert!(closing.must_nudge(now + NUDGE_MAX));
        closing.on(Event::Disconnected { held: false }, now);
        assert_eq!((closing.is_unheard(), closing.next()), (false, None));
        client.note_heard();
        assert_eq!((client.is_unheard(), client.next(), client.state()), (false, None, State::Ready));
        let mut server = Pair::new(false);
        server.on(Event::Request, NOW);
        server.on(Event::FirstMessage, NOW);
        assert!(!server.is_unheard());
    }

    #[test]
    fn an_attempt_that_is_refused_again_and_again_ends_and_one_that_pauses_accepts() {
        let (mut pair, mut now, mut attempts) = (Pair::new(true), NOW, 1);
        assert_eq!(pair.on(Event::Wanted, now), Action::Connect);
        while pair.on(Event::Refused(Reason::Other), now) == Action::Drop {
            now = now + Duration::from_millis(1000);
            assert!(pair.is_late(now));
            assert_eq!(pair.on(Event::Late, now), Action::Connect);
            attempts += 1;
        }
        assert_eq!((pair.state(), attempts), (State::Lost, ATTEMPTS_MAX));
        assert_eq!(pair.on(Event::Request, now), Action::Refuse(Reason::Other));
        let mut pair = Pair::new(true);
        pair.on(Event::Wanted, NOW);
        pair.on(Event::Failed, NOW);
        assert_eq!(pair.on(Event::Request, NOW), Action::Accept);
    }

    #[test]
    fn who_is_abandoned_is_dropped_without_a_word_and_never_accepted_again() {
        let mut pair = Pair::new(true);
        pair.on(Event::Wanted, NOW);
        pair.on(Event::Established, NOW);
        assert_eq!(pair.on(Event::Abandoned, NOW), Action::Drop);
        assert_eq!((pair.state(), pair.on(Event::Abandoned, NOW)), (State::Lost, Action::Nothing));
        assert_eq!(pair.on(Event::Request, NOW), Action::Refuse(Reason::Other));
        assert_eq!(pair.on(Event::Wanted, NOW), Action::Nothing);
    }

    #[test]
    fn a_connection_that_goes_with_packets_in_it_is_a_loss_and_without_them_none() {
        for (held, action, state) in [(true, Action::Lose, State::Lost), (false, Action::Drop, State::Apart)] {
            let mut pair = Pair::new(true);
            pair.on(Event::Wanted, NOW);
            pair.on(Event::Established, NOW);
            assert_eq!(pair.on(Event::Request, NOW), Action::Refuse(Reason::Later));
            assert_eq!(pair.on(Event::Disconnected { held }, NOW), action);
            assert_eq!(pair.state(), state);
        }
    }
}
