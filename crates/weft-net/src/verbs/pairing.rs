//! The way by which two processes come to a single connection, as a pure state machine: each event leads to
//! an action.
//!
//! RDMA CM has clients and servers, and MPI has peers. The end that has something to send first connects.
//! When both ends do so at once, the connection of the end with the *higher* name (address and port where it
//! listens) is kept. The lower end accepts that connection and drops its own attempt. The higher end refuses
//! the lower end's attempt, and gives the reason. So of a pair whose attempts cross, the lower end listens
//! and the higher one connects.
//!
//! On iWARP the client must send the first message. So the client sends a message without contents at once,
//! and the server sends nothing before that message has come. The kernel's `siw` may not notice a message
//! that arrives while the server accepts, until more arrives (its `siw_accept` answers the client before it
//! has the socket call it). So a client that hears nothing *nudges*: it writes zero bytes, which needs
//! neither a key nor a receive.

use weft_core::time::{Duration, Instant};

/// Longest time that an attempt takes.
const ATTEMPT: Duration = Duration::from_millis(10_000);
/// Longest time for which a client whose attempt gave way waits for the peer's attempt. Two waits have no
/// limit while the connection stands: a server waits for the client's first message, and an end that closes
/// waits for the answer. An end that dropped the connection by itself might drop packets on their way.
const TURN: Duration = Duration::from_millis(5_000);
/// Pause after a refusal before the next attempt, times the number of refusals.
const PAUSE: Duration = Duration::from_millis(20);
/// Refused or failed attempts after which the peer is lost.
const ATTEMPTS_MAX: u32 = 20;
/// Time after which a client that has heard nothing from its server nudges it. Each further nudge follows
/// after twice the time.
const NUDGE: Duration = Duration::from_millis(50);
/// Longest time between two nudges.
const NUDGE_MAX: Duration = Duration::from_millis(3_200);

/// The reason for which a peer refuses an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The peer's own attempt is under way, and is the one that is kept.
    GiveWay,
    /// The peer cannot take an attempt now.
    Later,
    /// The peer gave no reason, or no process listens.
    Other,
}

/// The state of a pair at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// No connection, and neither end wants one.
    Apart,
    /// Connecting, by an attempt of this end.
    Connecting,
    /// The peer connects: it has refused this end's attempt for its own.
    Awaiting,
    /// The peer has refused this end, which tries again after a while.
    Pausing,
    /// Accepted by this end, which waits for the client's first message.
    Accepted,
    /// Ready: both ends may send.
    Ready,
    /// The connection is being closed because it has not been used for long.
    Leaving,
    /// The peer is lost for good.
    Lost,
}

/// Events of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A packet or a message waits at this end to be sent.
    Wanted,
    /// The peer wants to connect.
    Request,
    /// The attempt of this end succeeds.
    Established,
    /// The client's first message has come.
    FirstMessage,
    /// The attempt of this end is refused.
    Refused(Reason),
    /// The attempt of this end fails for another reason.
    Failed,
    /// The connection is gone.
    Disconnected {
        /// True if packets that were taken have not been delivered: they are lost.
        held: bool,
    },
    /// The connection has not been used for long.
    Unused,
    /// The peer closes the connection: all that the peer sent has been taken.
    PeerCloses,
    /// The deadline has passed.
    Late,
    /// The link wants no connection to the peer any more, and tells nobody of the loss.
    Abandoned,
}

/// Actions that the events lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Begin an attempt; an earlier attempt is dropped.
    Connect,
    /// Accept the peer's attempt; an attempt of this end is dropped.
    Accept,
    /// Refuse the peer's attempt.
    Refuse(Reason),
    /// Send the first message: this end may send from now on.
    Greet,
    /// Ask the peer to close the connection, as soon as no packet is on its way to the peer.
    Close,
    /// Answer the peer's request to close, as soon as no packet is on its way to the peer.
    Answer,
    /// Drop the connection or the attempt, if there is one.
    Drop,
    /// Drop the connection or the attempt, and say that the peer is lost.
    Lose,
}

/// An end of a pair.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// True if this end's name is the higher one.
    is_higher: bool,
    state: State,
    deadline: Option<Instant>,
    attempts: u32,
    /// Set while a client has not heard its server: the time of the next nudge, and the time until the one
    /// after it.
    unheard: Option<(Instant, Duration)>,
}

impl Pair {
    pub(super) fn new(is_higher: bool) -> Self {
        Self { is_higher, state: State::Apart, deadline: None, attempts: 0, unheard: None }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Returns whether the deadline has passed.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns the earliest time at which the pair has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        let nudge = self.unheard.map(|(at, _)| at);
        self.deadline.into_iter().chain(nudge).min()
    }

    /// Returns whether this end is a client that has heard nothing from its server.
    pub(super) fn is_unheard(&self) -> bool {
        self.unheard.is_some()
    }

    /// Notes that a message or a packet has come from the peer.
    pub(super) fn note_heard(&mut self) {
        self.unheard = None;
    }

    /// Returns whether the client must nudge the server now.
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

    /// Returns whether a connection is being made and does not stand yet.
    pub(super) fn is_beginning(&self) -> bool {
        matches!(self.state, State::Connecting | State::Awaiting | State::Pausing | State::Accepted)
    }

    fn go(&mut self, state: State, limit: Option<Duration>, now: Instant) {
        (self.state, self.deadline) = (state, limit.map(|limit| now + limit));
        // An end that closes the connection waits for the peer, too.
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

    /// Takes an event, and returns the action that it leads to.
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
            // No packet is on its way when a connection is closed: an end that requests another one has
            // dropped the last.
            (State::Leaving, Event::Request) => {
                self.go(State::Accepted, None, now);
                Action::Accept
            }
            // The peer may know earlier than this end that a connection is gone.
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
            // A client sends the first message only once.
            (State::Ready | State::Leaving, Event::FirstMessage) => {
                self.go(State::Lost, None, now);
                Action::Lose
            }
            (State::Connecting, Event::Refused(Reason::GiveWay)) if !self.is_higher => {
                self.go(State::Awaiting, Some(TURN), now);
                Action::Drop
            }
            // The peer computes and answers late, or has not yet looked at the end of an earlier connection.
            // How long that may last is for the code that watches over peers to say.
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
            // This also holds if this end has asked to close: an end drops a connection once it has the
            // answer, which says that all packets were taken.
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

    /// The messages of RDMA CM between two ends. Each takes its own time; messages from one end keep their
    /// order.
    #[derive(Clone, Copy, Debug)]
    enum Travels {
        /// The attempt with this number begins.
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
        /// The messages that travel to each end.
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

        /// Tries every order of events, and returns the number of final states.
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
            // No message travels: either both ends are ready, by the same connection, or an end pauses and
            // tries again.
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

    /// The messages that travel on a connection of this number.
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

    /// Two ends that send packets, and close the connection meanwhile. The events of RDMA CM and the messages
    /// on the connection have orders of their own.
    #[derive(Clone)]
    struct Closing {
        world: World,
        /// Messages on their way to each end, packets that each end still has to send, and closes that each
        /// end still has to do.
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
            // An end that drops a connection may drop the messages on their way in it, to this end and from
            // it: none of them may be a packet.
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
                // The end takes messages that came earlier first.
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
            // Only the equality of connections counts, and not how many there have been.
            let first = attempts.iter().flatten().min().copied().unwrap_or(0);
            let pairs: Vec<_> = pairs.iter().map(|pair| (pair.state, pair.deadline.is_some())).collect();
            format!("{pairs:?}{ways:?}{attempts:?}{:?}{:?}{:?}{first}", self.messages, self.to_send, self.closes)
        }

        /// Tries every order of events: each must end with all packets received.
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

    /// Checks two ends that may close at once, and want to send again meanwhile.
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
        // The message that closes the connection may lie there unseen as well.
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
