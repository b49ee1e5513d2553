//! The memory that peers can make the message layer keep.

use weft_core::matching::Envelope;
use weft_core::message::Head;
use weft_engine::group::PeerId;
use weft_engine::memory::SharedBuffer;
use weft_engine::messages::{CREDIT_BYTES, CREDIT_PER_MESSAGE, Messages, Peer, Unfinished};
use weft_engine::request::{Mode, Receive, Request, Send, State};

const ENVELOPE: Envelope = Envelope { context: 2, source: 1, tag: 5 };

fn peer() -> PeerId {
    PeerId::new(1, 0)
}

fn arrives((messages, peers): &mut (Messages, Peer), head: Head, payload: &[u8]) {
    messages.handle_frame(peer(), &[head.as_bytes(), payload].concat(), peers);
}

fn receive((messages, peers): &mut (Messages, Peer), buffer: &mut [u8]) -> bool {
    let shared = SharedBuffer::new(buffer.len());
    let data = shared.describe_all();
    let receive =
        Receive { context: Some(2), source: Some(1), peer: Some(peer()), tag: Some(5), data, blocking: false };
    let handle = messages.add(State::Posted(receive), 0).unwrap();
    messages.post(handle, peers);
    shared.read(0, buffer);
    messages.requests.get(handle).is_some_and(Request::is_complete)
}

#[test]
fn a_peer_that_ignores_its_credit_fills_no_memory() {
    let mut messages = (Messages::new(), Peer::new(|| 0));
    let payload = [7; 936];
    let room = CREDIT_BYTES / (payload.len() as u64 + CREDIT_PER_MESSAGE);
    for _ in 0..3 * room {
        arrives(&mut messages, Head::eager(ENVELOPE, None), &payload);
    }
    assert_eq!(messages.0.matcher.unexpected_count() as u64, room);
    assert_eq!(messages.0.malformed_frames, 2 * room);
    // The messages that fitted are as they were, and make room for as many again, not more.
    for _ in 0..room {
        let mut buffer = [0; 936];
        assert!(receive(&mut messages, &mut buffer) && buffer == payload);
    }
    for _ in 0..2 * room {
        arrives(&mut messages, Head::eager(ENVELOPE, None), &payload);
    }
    assert_eq!((messages.0.matcher.unexpected_count() as u64, messages.0.malformed_frames), (room, 3 * room));
}

/// Expect: messages that no receive can match any more make room for messages of the same peer in other
/// contexts. Messages of contexts that are not over stay.
#[test]
fn messages_of_a_context_that_is_over_leave_their_room_behind() {
    let mut messages = (Messages::new(), Peer::new(|| 0));
    let payload = vec![3; CREDIT_BYTES as usize / 2];
    for context in 100..200 {
        let envelope = Envelope { context, ..ENVELOPE };
        arrives(&mut messages, Head::eager(envelope, None), &payload);
        arrives(&mut messages, Head::rendezvous(envelope, 9, 1 << 20, None), &[]);
        messages.0.discard_contexts(|context| context < 100, &mut messages.1);
        assert_eq!(messages.0.matcher.counts_in(context), (0, 2), "it is not over");
        messages.0.discard_contexts(|other| other == context, &mut messages.1);
        let left = (messages.0.matcher.contexts().count(), messages.0.unexpected.len(), messages.0.malformed_frames);
        assert_eq!(left, (0, 0, 0), "context {context}");
    }
}

/// Expect: a message that is still arriving is forgotten when all of it is here.
#[test]
fn a_context_that_is_over_stays_until_its_messages_have_arrived() {
    let mut messages = (Messages::new(), Peer::new(|| 0));
    arrives(&mut messages, Head::eager_first(ENVELOPE, None, 2000), &[1]);
    messages.0.discard_contexts(|_| true, &mut messages.1);
    assert_eq!(messages.0.matcher.unexpected_count(), 1);
    arrives(&mut messages, Head::eager_more(), &[2; 1999]);
    messages.0.discard_contexts(|_| true, &mut messages.1);
    assert_eq!(
        (messages.0.matcher.contexts().count(), messages.0.unexpected.len(), messages.0.malformed_frames),
        (0, 0, 0)
    );
}

/// Expect (MPI-5.0 §3.7.3): requests that the program has freed, or lent a buffer to, are reported until they
/// are complete. The program's other requests are not.
#[test]
fn what_the_program_has_left_is_told_of_until_it_is_complete() {
    let (mut messages, mut peers) = (Messages::new(), Peer::new(|| 0));
    let shared = SharedBuffer::new(16);
    let receive = Receive {
        context: Some(2),
        source: Some(1),
        peer: Some(peer()),
        tag: Some(5),
        data: shared.describe_all(),
        blocking: false,
    };
    let send = Send {
        peer: Some(peer()),
        envelope: ENVELOPE,
        data: shared.describe_all(),
        mode: Mode::Standard,
        blocking: false,
    };
    let freed = messages.add(State::Posted(receive.clone()), 0).unwrap();
    let lent = messages.add(State::Announced(send), 0).unwrap();
    messages.post(freed, &mut peers);
    assert_eq!(messages.unfinished(&[]), [], "the program can complete both");
    messages.requests.get_mut(freed).unwrap().hold = weft_engine::request::Hold::Freed;
    let receives = Unfinished { request: freed, is_send: false, peer: Some(peer()), tag: Some(5), is_unmatched: true };
    let sends = Unfinished { request: lent, is_send: true, ..receives };
    assert_eq!(messages.unfinished(&[lent]), [receives, sends]);
    assert!(!messages.is_receiving_from(peer()));
    // The first piece of the message: it has found its receive, and the rest is on its way.
    messages.handle_frame(peer(), &[Head::eager_first(ENVELOPE, None, 16).as_bytes(), &[1; 8]].concat(), &mut peers);
    assert_eq!(messages.unfinished(&[]), [Unfinished { is_unmatched: false, tag: None, ..receives }]);
    assert!(messages.is_receiving_from(peer()));
    messages.handle_frame(peer(), &[Head::eager_more().as_bytes(), &[1; 8]].concat(), &mut peers);
    assert_eq!(messages.unfinished(&[lent]), [sends]);
    assert!(!messages.is_receiving_from(peer()));
}

#[test]
fn pieces_count_as_the_message_that_they_promise() {
    let mut messages = (Messages::new(), Peer::new(|| 0));
    let total = CREDIT_BYTES / 2;
    for _ in 0..5 {
        arrives(&mut messages, Head::eager_first(ENVELOPE, None, total), &[1]);
        arrives(&mut messages, Head::eager_more(), &vec![2; total as usize - 1]);
    }
    // Two messages would be more than the credit, by the cost of each beside its bytes.
    assert_eq!(messages.0.matcher.unexpected_count(), 1);
    assert_eq!(messages.0.malformed_frames, 8);
    let mut buffer = vec![0; total as usize];
    assert!(receive(&mut messages, &mut buffer) && buffer[1] == 2);
}

#[test]
fn a_message_that_is_taken_back_leaves_its_room_behind() {
    let mut messages = (Messages::new(), Peer::new(|| 0));
    let payload = vec![3; CREDIT_BYTES as usize / 2];
    for round in 0..20 {
        arrives(&mut messages, Head::eager(ENVELOPE, Some(9)), &payload);
        assert_eq!(messages.0.matcher.unexpected_count(), 1, "round {round}");
        arrives(&mut messages, Head::retract(2, 9), &[]);
        assert_eq!(messages.0.matcher.unexpected_count(), 0, "round {round}");
    }
    assert_eq!(messages.0.malformed_frames, 0);
}
