//! The oracle for receives with wildcards: the receives to which each message may have gone (MPI-5.0 §3.5),
//! judged from all that is known of a whole block, without a matcher.
//!
//! 1. Messages of one sender do not overtake each other. When a receive has taken a message, look at each
//!    earlier message of the same sender that matches the receive: it has gone to a receive that was posted
//!    before.
//! 2. Receives do not overtake each other. When a message has gone to a receive, look at each receive that
//!    was posted before and matches the message: it has taken another message.
//!
//! A message that was received by a probe for any message counts as taken by a receive that was posted after
//! all others.

use super::program::Message;
use super::shape::{Placed, content};
use weft_engine::error::{Error, ErrorClass};
use weft_engine::request::Status;

/// A receive of a block that is over, in the order of posting.
pub(super) struct Taken {
    pub(super) id: u32,
    pub(super) source: Option<usize>,
    pub(super) tag: Option<i32>,
    pub(super) placed: Placed,
    pub(super) status: Status,
    pub(super) error: Option<Error>,
    /// The message that the receive has got: its name, and the number of its bytes.
    pub(super) message: Option<(u32, usize)>,
}

impl Taken {
    fn accepts(&self, message: &Message) -> bool {
        self.source.is_none_or(|source| source == message.from) && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

/// Finds out which message each receive has got, and whether the standard allows it. `sent` are all messages
/// to this process, in the order of each sender.
///
/// # Errors
/// The rule that is broken.
pub(super) fn judge(sent: &[Message], receives: &mut [Taken]) -> Result<(), String> {
    let mut receiver = vec![None; sent.len()];
    for (order, receive) in receives.iter_mut().enumerate() {
        if let Some(at) = identify(sent, receive, &receiver)? {
            receiver[at] = Some(order);
        }
    }
    if let Some(lost) = receiver.iter().position(Option::is_none) {
        return Err(format!("message {} has gone to no receive", sent[lost].id));
    }
    for (at, message) in sent.iter().enumerate() {
        let Some(order) = receiver[at] else { continue };
        let id = receives[order].id;
        let earlier = sent[..at].iter().zip(&receiver).filter(|(other, _)| other.from == message.from);
        for (other, went) in earlier {
            if receives[order].accepts(other) && went.is_none_or(|went| went > order) {
                return Err(format!(
                    "receive {id} has message {}, before which message {} was sent",
                    message.id, other.id
                ));
            }
        }
        for earlier in &receives[..order] {
            if earlier.accepts(message) && earlier.message.is_none() {
                return Err(format!("message {} has gone to receive {id}, and not to {}", message.id, earlier.id));
            }
        }
    }
    Ok(())
}

/// The message of this receive, among those that no receive has got yet; the earliest of messages that look
/// alike.
fn identify(sent: &[Message], receive: &mut Taken, receiver: &[Option<usize>]) -> Result<Option<usize>, String> {
    let Taken { id, status, error, placed, .. } = &*receive;
    if status.cancelled {
        placed.check(&[]).map_err(|what| format!("the cancelled receive {id}: {what}"))?;
        return Ok(None);
    }
    let room = placed.room();
    let fits = |at: usize| {
        let message = &sent[at];
        let bytes = message.bytes.min(room);
        let class = (message.bytes > room).then_some(ErrorClass::Truncate);
        let expected = Status { source: message.from as i32, tag: message.tag, error: 0, bytes, cancelled: false };
        receiver[at].is_none()
            && *status == expected
            && error.as_ref().map(|error| error.class) == class
            && placed.check(content(message.id.into(), bytes as usize)).is_ok()
    };
    let Some(at) = (0..sent.len()).find(|at| fits(*at)) else {
        return Err(format!("receive {id} has what nobody has sent, or a message twice: {status:?}, error {error:?}"));
    };
    if !receive.accepts(&sent[at]) {
        return Err(format!("receive {id} has message {}, which it does not match", sent[at].id));
    }
    receive.message = Some((sent[at].id, sent[at].bytes.min(room) as usize));
    Ok(Some(at))
}
