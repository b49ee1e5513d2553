//! The state of partitioned operations: what sender and receiver have agreed on, and how far an epoch has
//! come. `crate::partitioned` moves the operations on, and explains how they work.

use weft_ordered::Map;

use weft_core::matching::Envelope;

use crate::constants::{MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_TRUNCATE, MPI_ERR_TYPE};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::{Divisible, SharedBuffer};
use crate::object::PeerId;
use crate::request::{Mode, Receive, Request, Send, State, Status};
use crate::signature::{self, Items};

/// The most messages of one operation in an epoch. With more partitions than that, each message covers
/// several consecutive partitions, and leaves when all of them are ready.
pub(crate) const MESSAGES_MAX: u32 = 1 << 16;

/// The plan that a sender tells its receiver, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The sender's partitions.
    pub(crate) partitions: u32,
    /// Bytes in each partition.
    pub(crate) bytes_each: u64,
    /// Messages in an epoch. Message `k` covers the partitions from `k * partitions / messages` on, up to the
    /// beginning of the next message.
    pub(crate) messages: u32,
    /// The tag of the first message; the tags of the others follow.
    pub(crate) tag: i32,
}

impl Plan {
    const WORDS: usize = 4;
    /// Words of the message that carries the plan. The contents of the partitions are known only where calls
    /// are compared (`WEFT_CHECK`).
    pub(crate) const MESSAGE_WORDS: usize = Self::WORDS + signature::ITEMS;

    /// The words of the message that carries the plan.
    pub(crate) fn message(&self, items: Option<&Items>) -> Vec<i64> {
        let mut words = self.words().to_vec();
        signature::put_items(&mut words, items);
        words
    }

    fn words(&self) -> [i64; Self::WORDS] {
        [i64::from(self.partitions), self.bytes_each as i64, i64::from(self.messages), i64::from(self.tag)]
    }

    /// Reads the plan that a peer has sent; `None` when the words are no valid plan.
    fn parse(words: &[i64]) -> Option<Self> {
        let &[partitions, bytes_each, messages, tag] = words else { return None };
        let plan = Self {
            partitions: u32::try_from(partitions).ok()?,
            bytes_each: u64::try_from(bytes_each).ok()?,
            messages: u32::try_from(messages).ok()?,
            tag: i32::try_from(tag).ok().filter(|tag| *tag >= 0)?,
        };
        let is_counted =
            bytes_each.checked_mul(partitions).is_some() && plan.tag.checked_add_unsigned(plan.messages).is_some();
        let covers = plan.messages <= plan.partitions.min(MESSAGES_MAX) && (plan.messages > 0 || plan.partitions == 0);
        (is_counted && covers).then_some(plan)
    }

    /// The first partition of message `message`.
    pub(crate) fn first(&self, message: u32) -> u32 {
        (u64::from(message) * u64::from(self.partitions) / u64::from(self.messages)) as u32
    }

    /// The message that covers partition `partition`.
    fn message_of(&self, partition: u32) -> u32 {
        (((u64::from(partition) + 1) * u64::from(self.messages) - 1) / u64::from(self.partitions)) as u32
    }

    /// The bytes of message `message`: the first, and one past the last.
    fn bytes(&self, message: u32) -> (u64, u64) {
        let at = |message| u64::from(self.first(message)) * self.bytes_each;
        (at(message), at(message + 1))
    }

    fn total(&self) -> u64 {
        u64::from(self.partitions) * self.bytes_each
    }

    /// The messages that carry partition `index` of a receiver with `partitions` of `each` bytes. Where
    /// partitions are empty and messages only say that they are ready, these are the messages of the same
    /// share of the sender's partitions.
    fn messages_for(&self, index: u32, partitions: u32, each: u64) -> std::ops::Range<usize> {
        let index = u64::from(index);
        if each > 0 && self.bytes_each > 0 {
            return self.messages_with(index * each, (index + 1) * each);
        }
        if self.partitions == 0 {
            return 0..0;
        }
        let (mine, theirs) = (u64::from(partitions), u64::from(self.partitions));
        let (first, end) = (index * theirs / mine, ((index + 1) * theirs).div_ceil(mine));
        self.message_of(first as u32) as usize..self.message_of((end - 1) as u32) as usize + 1
    }

    /// The messages that carry the bytes from `start` up to `end`.
    fn messages_with(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let end = end.min(self.total());
        if start >= end {
            return 0..0;
        }
        let of = |byte: u64| self.message_of((byte / self.bytes_each) as u32) as usize;
        of(start)..of(end - 1) + 1
    }
}

/// The messages of an epoch.
#[derive(Default)]
pub(crate) struct Transfers {
    /// The request of each message; `None` when the message is complete.
    pub(crate) requests: Vec<Option<usize>>,
    /// The number of messages, from the first on, that are known to be complete.
    pub(crate) complete: usize,
    pub(crate) error: Option<Error>,
}

impl Transfers {
    /// Returns whether message `index` is complete.
    pub(crate) fn is_complete(&mut self, index: usize, engine: &mut Engine) -> bool {
        let Some(handle) = self.requests[index] else { return true };
        if !engine.messages.requests.get(handle).is_none_or(Request::is_complete) {
            return false;
        }
        self.requests[index] = None;
        if let Some(error) = engine.messages.take_error(handle) {
            self.error.get_or_insert(error);
        }
        true
    }

    /// Returns whether all messages are complete.
    pub(crate) fn are_complete(&mut self, engine: &mut Engine) -> bool {
        while self.complete < self.requests.len() {
            if !self.is_complete(self.complete, engine) {
                return false;
            }
            self.complete += 1;
        }
        true
    }
}

/// A buffer that is divided, as the program describes it: one side of a partitioned operation.
pub struct Side {
    /// All partitions.
    pub data: Divisible,
    /// The number of partitions.
    pub partitions: u32,
    /// The communicator's handle.
    pub communicator: usize,
    /// The rank on the other side.
    pub rank: i32,
    /// The program's tag.
    pub tag: i32,
    /// The contents of all partitions, where calls are compared.
    pub items: Option<Items>,
}

pub(crate) struct Sending {
    pub(crate) peer: Option<PeerId>,
    pub(crate) envelope: Envelope,
    pub(crate) data: Divisible,
    pub(crate) communicator: usize,
    pub(crate) plan: Plan,
    /// Says of each partition whether it is ready, in this epoch.
    pub(crate) is_ready: Vec<bool>,
    /// The number of partitions of each message that are not ready.
    pub(crate) missing: Vec<u32>,
    /// Messages that have partitions which are not ready.
    pub(crate) open: u32,
    pub(crate) transfers: Transfers,
}

/// The state of a receiver's plan.
pub(crate) enum Agreement {
    /// The plan has not been seen yet. Holds the receive that it comes with, and the buffer for it.
    Awaited {
        request: usize,
        words: SharedBuffer,
    },
    Known(Plan),
    /// The other side is `MPI_PROC_NULL`: no plan comes.
    Nothing,
    /// The plan cannot come.
    Failed(Error),
}

pub(crate) struct Receiving {
    pub(crate) peer: Option<PeerId>,
    pub(crate) context: u32,
    pub(crate) rank: i32,
    pub(crate) tag: i32,
    pub(crate) data: Divisible,
    pub(crate) partitions: u32,
    pub(crate) communicator: usize,
    pub(crate) agreement: Agreement,
    /// The contents of all partitions, here and at the sender, where calls are compared.
    pub(crate) items: [Option<Items>; 2],
    /// The receives of this epoch have been posted.
    pub(crate) is_posted: bool,
    pub(crate) transfers: Transfers,
}

pub(crate) enum Operation {
    Send(Sending),
    Receive(Receiving),
}

/// All partitioned operations of the process, by their requests.
#[derive(Default)]
pub(crate) struct Partitioned {
    pub(crate) operations: Map<usize, Operation>,
    /// Receives that have been started before their plan has been seen.
    pub(crate) expecting: Vec<usize>,
    /// Receives for the plans of operations that the program has freed. They keep the order in which later
    /// plans meet their operations.
    pub(crate) absorbing: Vec<(usize, SharedBuffer)>,
    /// The next tag in each context of messages.
    pub(crate) tags: Map<u32, i32>,
}

impl Partitioned {
    /// A table without operations.
    pub(crate) const fn new() -> Self {
        Self { operations: Map::new(), expecting: Vec::new(), absorbing: Vec::new(), tags: Map::new() }
    }

    /// Returns whether a started receive waits for its plan.
    #[inline]
    pub(crate) fn expects(&self) -> bool {
        !self.expecting.is_empty()
    }

    pub(crate) fn take_tags(&mut self, context: u32, count: u32) -> Result<i32> {
        let next = self.tags.entry(context).or_insert(0);
        let first = *next;
        *next = first.checked_add_unsigned(count).ok_or_else(|| {
            Error::new(
                MPI_ERR_NO_MEM,
                "the communicator has had 2^31 messages of partitioned operations: make another one",
            )
        })?;
        Ok(first)
    }
}

fn out_of_range(name: &str, partition: i32, partitions: u32) -> Error {
    let sentence = match partitions {
        0 => format!("{name} is {partition}, but the operation has no partitions"),
        _ => format!("{name} is {partition}, but the partitions of the operation are 0 to {}", partitions - 1),
    };
    Error::new(MPI_ERR_ARG, sentence)
}

pub(crate) fn partition(name: &str, partition: i32, partitions: u32) -> Result<u32> {
    let found = u32::try_from(partition).ok().filter(|index| *index < partitions);
    found.ok_or_else(|| out_of_range(name, partition, partitions))
}

impl Sending {
    /// Marks partition `index` as ready, and sends its message if all partitions of the message are ready.
    pub(crate) fn mark(&mut self, index: u32, engine: &mut Engine) -> Result<()> {
        self.is_ready[index as usize] = true;
        let message = self.plan.message_of(index);
        let missing = &mut self.missing[message as usize];
        *missing -= 1;
        if *missing > 0 {
            return Ok(());
        }
        self.open -= 1;
        if self.peer.is_none() {
            return Ok(());
        }
        let (start, end) = self.plan.bytes(message);
        let envelope = Envelope { tag: self.plan.tag + message as i32, ..self.envelope };
        let data = self.data.part(start, end)?;
        let send = Send { peer: self.peer, envelope, data, mode: Mode::Standard, blocking: false };
        if !engine.submit_now(&send) {
            let request = engine.messages.add(State::Queued(send), self.communicator)?;
            self.transfers.requests[message as usize] = Some(request);
            engine.start_send(request);
        }
        Ok(())
    }
}

impl Receiving {
    /// Posts the receives of this epoch if the plan is known. Returns `false` when it is not.
    pub(crate) fn post(&mut self, engine: &mut Engine) -> bool {
        if let Agreement::Awaited { request, words } = &self.agreement {
            if !engine.messages.requests.get(*request).is_none_or(Request::is_complete) {
                return false;
            }
            let words = words.values();
            let (plan, items) = words.split_at(Plan::WORDS);
            self.items[1] = signature::items(items);
            self.agreement = match (engine.messages.take_error(*request), Plan::parse(plan)) {
                (Some(error), _) => Agreement::Failed(error),
                (None, Some(plan)) => Agreement::Known(plan),
                (None, None) => Agreement::Failed(Error::new(
                    MPI_ERR_OTHER,
                    "the other side's plan of the operation makes no sense",
                )),
            };
        }
        self.is_posted = true;
        if let Agreement::Known(plan) = self.agreement
            && let Err(error) = self.post_all(plan, engine)
        {
            self.transfers.error.get_or_insert(error);
        }
        true
    }

    fn post_all(&mut self, plan: Plan, engine: &mut Engine) -> Result<()> {
        let (sent, expected) = (plan.total(), self.data.len());
        if sent != expected {
            let class = if sent > expected { MPI_ERR_TRUNCATE } else { MPI_ERR_COUNT };
            let message = format!(
                "the sender has {} partitions of {} bytes, {sent} bytes, but the {} partitions of the receiver have {expected}; both must be the \
                 same (MPI-5.0 section 4.2)",
                plan.partitions, plan.bytes_each, self.partitions
            );
            self.transfers.error = Some(Error::new(class, message).on(self.communicator));
        } else if let [Some(own), Some(sent)] = &self.items
            && !sent.signature.agrees_with(&own.signature)
        {
            let (sent, own) = (signature::told(Some(sent)), signature::told(Some(own)));
            let message = format!("WEFT_CHECK: the partitions of the sender are {sent}, those of the receiver {own}");
            self.transfers.error = Some(Error::new(MPI_ERR_TYPE, message).on(self.communicator));
        }
        for message in 0..plan.messages {
            let (start, end) = plan.bytes(message);
            let receive = Receive {
                context: Some(self.context),
                source: u32::try_from(self.rank).ok(),
                peer: self.peer,
                tag: Some(plan.tag + message as i32),
                data: self.data.part(start, end)?,
                blocking: false,
            };
            let handle = engine.messages.add(State::Posted(receive), self.communicator)?;
            self.transfers.requests.push(Some(handle));
            engine.start_receive(handle);
        }
        Ok(())
    }

    /// Returns status and error when all messages are there.
    pub(crate) fn result(&mut self, engine: &mut Engine) -> Option<(Status, Option<Error>)> {
        if !self.is_posted || !self.transfers.are_complete(engine) {
            return None;
        }
        let bytes = match &self.agreement {
            Agreement::Nothing => return Some((Status::PROC_NULL, None)),
            Agreement::Known(plan) => plan.total().min(self.data.len()),
            Agreement::Failed(_) | Agreement::Awaited { .. } => 0,
        };
        let failed = if let Agreement::Failed(error) = &self.agreement { Some(error.clone()) } else { None };
        let status = Status { source: self.rank, tag: self.tag, error: 0, bytes, cancelled: false };
        Some((status, self.transfers.error.take().or(failed)))
    }

    pub(crate) fn has_arrived(&mut self, index: u32, engine: &mut Engine) -> bool {
        let messages = match &self.agreement {
            _ if !self.is_posted => return false,
            Agreement::Known(plan) => {
                plan.messages_for(index, self.partitions, self.data.len() / u64::from(self.partitions))
            }
            _ => return true,
        };
        // A message whose receive could not be posted has not arrived.
        messages.end <= self.transfers.requests.len()
            && messages.into_iter().all(|message| self.transfers.is_complete(message, engine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_is_covered_once_and_found_again() {
        for partitions in 1..40_u32 {
            for messages in 1..=partitions {
                let plan = Plan { partitions, bytes_each: 3, messages, tag: 0 };
                assert_eq!((plan.first(0), plan.first(messages)), (0, partitions));
                for message in 0..messages {
                    let covered = plan.first(message)..plan.first(message + 1);
                    assert!(!covered.is_empty());
                    assert!(covered.clone().all(|partition| plan.message_of(partition) == message));
                }
                for (start, end) in [(0, 1), (2, 4), (0, plan.total()), (plan.total() - 1, plan.total() + 9)] {
                    let found = plan.messages_with(start, end);
                    let touches = |k: usize| plan.bytes(k as u32).0 < end && start < plan.bytes(k as u32).1;
                    assert!(
                        (0..messages as usize).all(|k| found.contains(&k) == touches(k)),
                        "{plan:?} {start}..{end}"
                    );
                }
            }
        }
    }

    #[test]
    fn partitions_without_data_wait_for_the_same_share_of_the_senders() {
        let plan = |partitions, messages| Plan { partitions, bytes_each: 0, messages, tag: 0 };
        assert_eq!((0..3).map(|k| plan(3, 3).messages_for(k, 3, 0)).collect::<Vec<_>>(), [0..1, 1..2, 2..3]);
        assert_eq!((0..2).map(|k| plan(4, 4).messages_for(k, 2, 0)).collect::<Vec<_>>(), [0..2, 2..4]);
        assert_eq!((0..2).map(|k| plan(3, 3).messages_for(k, 2, 0)).collect::<Vec<_>>(), [0..2, 1..3]);
        assert_eq!((0..4).map(|k| plan(2, 1).messages_for(k, 4, 0)).collect::<Vec<_>>(), vec![0..1; 4]);
        assert_eq!(plan(0, 0).messages_for(1, 4, 0), 0..0);
        // With data, the bytes decide.
        let plan = Plan { partitions: 4, bytes_each: 6, messages: 4, tag: 0 };
        assert_eq!((0..3).map(|k| plan.messages_for(k, 3, 8)).collect::<Vec<_>>(), [0..2, 1..3, 2..4]);
    }

    #[test]
    fn a_plan_that_cannot_be_is_not_believed() {
        let good = Plan { partitions: 7, bytes_each: 1 << 40, messages: 7, tag: 12 };
        assert_eq!(Plan::parse(&good.words()), Some(good));
        assert_eq!(Plan::parse(&[0, 0, 0, 0]), Some(Plan { partitions: 0, bytes_each: 0, messages: 0, tag: 0 }));
        for wrong in [
            [7, 8, 8, 0],
            [7, 8, 0, 0],
            [-1, 8, 1, 0],
            [7, -8, 7, 0],
            [7, 8, 7, -1],
            [7, i64::MAX, 7, 0],
            [7, 8, 7, i64::from(i32::MAX)],
            [1 << 33, 8, 7, 0],
            [1 << 20, 8, 1 << 20, 0],
        ] {
            assert_eq!(Plan::parse(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn tags_are_given_once_in_a_context_and_run_out_with_a_sentence() {
        let mut partitioned = Partitioned::new();
        assert_eq!((partitioned.take_tags(5, 3).unwrap(), partitioned.take_tags(5, 1).unwrap()), (0, 3));
        assert_eq!(partitioned.take_tags(13, 3).unwrap(), 0);
        partitioned.tags.insert(5, i32::MAX - 1);
        assert_eq!(partitioned.take_tags(5, 2).unwrap_err().class, MPI_ERR_NO_MEM);
    }
}
