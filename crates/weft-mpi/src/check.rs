//! `WEFT_CHECK=1`: compares the calls of the processes of a communicator before any of them is carried out
//! (MPI-5.0 §6.1: all processes call the same operation in the same order, with matching arguments).
//!
//! Before each collective call, each process sends each other process a [`Call`]: the name of the call, the
//! root, the reduction operation and operands, and the signature of the data that is meant for the receiver.
//! The receiver compares this with its own call. Then each process tells all others what it has found, so
//! that all return from the call with the same sentence. A nonblocking call does this as the first steps of
//! its own schedule.
//!
//! Two processes may wait for each other in this exchange on different communicators. Then they are told so.

mod messages;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_ordered::Map;

use weft_engine::schedules::Cursor;
use weft_launch::CallSite;
use weft_plan::collective::{self, ElementShape};

use crate::awaited::Awaited;
use crate::collective::{Arguments, Bound, CollectiveScope};
use crate::constants::*;
use crate::error::{Error, ErrorClass, Result};
use crate::memory::SharedBuffer;
use crate::process::{Guard, Process, block_for, lock};
use crate::request::{Request, State};
use crate::signature::{ITEMS, Items, NAME, NONE, items, put_items, put_text, text, told};

/// Words of the record that a process sends to another: call, root, operation and its name, another argument
/// and its words, operands, data.
const RECORD: usize = NAME + 1 + 2 * (1 + NAME) + 2 * ITEMS;
/// Words of a sentence.
const SENTENCE: usize = 30;
/// Words of a verdict: a class, or 0, and the sentence.
const VERDICT: usize = 1 + SENTENCE;
/// The root is another process of this one's group. Only the other group knows which, so this process has
/// nothing else to say.
const ABSENT: i64 = -2;

/// The arguments of a call, as far as the processes must agree on them.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The root, if the operation has one.
    pub root: Option<u32>,
    /// The call is between groups, the root is another process of this one's group, and this process has no
    /// part in the call (MPI-5.0 §6.2.3).
    pub is_absent: bool,
    /// The ranks in MPI_COMM_WORLD by which messages to the user name the processes of both groups of an
    /// intercommunicator. Ranks here are positions in this list.
    pub between: Option<Vec<u32>>,
    /// A number that all processes have for the same reduction operation, and its name.
    pub operation: Option<(i64, String)>,
    /// Another argument that all processes must give alike: a number that is the same for the same values,
    /// and its words.
    pub argument: Option<(i64, String)>,
    /// The operands of a reduction, which all processes must have alike.
    pub operands: Option<Items>,
    /// The data that this process sends to each process.
    pub sends: Data,
    /// The data that this process expects of each process.
    pub expects: Data,
}

/// The data of a call, by rank.
#[derive(Clone, Debug, Default)]
pub enum Data {
    /// No data.
    #[default]
    Nothing,
    /// The same data for each rank.
    Alike(Items),
    /// Data of this rank only.
    One(u32, Items),
    /// Data of each rank.
    Each(Vec<Items>),
    /// Data of some ranks.
    Some(Map<u32, Items>),
}

impl Data {
    /// The data that goes to, or comes from, each of `ranks`. A process may be there several times; `None`
    /// stands for no process.
    pub fn among(ranks: impl IntoIterator<Item = Option<u32>>, items: impl IntoIterator<Item = Items>) -> Self {
        let mut all = Map::<u32, Items>::new();
        for (rank, items) in ranks.into_iter().zip(items).filter_map(|(rank, items)| Some((rank?, items))) {
            let items = all.remove(&rank).map_or(items.clone(), |others| others.beside(items));
            all.insert(rank, items);
        }
        Self::Some(all)
    }

    fn of(&self, rank: u32) -> Option<&Items> {
        match self {
            Self::Nothing => None,
            Self::Alike(items) => Some(items),
            Self::One(one, items) => (*one == rank).then_some(items),
            Self::Each(all) => all.get(rank as usize),
            Self::Some(all) => all.get(&rank),
        }
    }
}

/// The record that came from a process.
#[derive(Debug)]
struct Record {
    name: String,
    root: i64,
    operation: (i64, String),
    argument: (i64, String),
    operands: Option<Items>,
    data: Option<Items>,
}

impl Record {
    fn words(name: &str, call: &Call, to: u32) -> Vec<i64> {
        let mut words = Vec::with_capacity(RECORD);
        put_text(&mut words, NAME, name);
        words.push(if call.is_absent { ABSENT } else { call.root.map_or(NONE, i64::from) });
        for told in [&call.operation, &call.argument] {
            let (code, name) = told.clone().unwrap_or((NONE, String::new()));
            words.push(code);
            put_text(&mut words, NAME, &name);
        }
        put_items(&mut words, call.operands.as_ref());
        put_items(&mut words, call.sends.of(to));
        words
    }

    fn parse(words: &[i64]) -> Self {
        let (name, rest) = words.split_at(NAME);
        let (operation, rest) = rest.split_at(2 + NAME);
        let (argument, rest) = rest.split_at(1 + NAME);
        let (operands, data) = rest.split_at(ITEMS);
        Self {
            name: text(name),
            root: operation[0],
            operation: (operation[1], text(&operation[2..])),
            argument: (argument[0], text(&argument[1..])),
            operands: items(operands),
            data: items(data),
        }
    }
}

/// Returns whether the data that is sent fits the data that is expected. Nothing is the same as no bytes.
fn agree(sent: Option<&Items>, expected: Option<&Items>) -> bool {
    match (sent, expected) {
        (Some(sent), Some(expected)) => sent.signature.agrees_with(&expected.signature),
        (one, other) => one.or(other).is_none_or(|items| items.signature.bytes == 0),
    }
}

/// Finds the first difference between the calls of the processes: its class, and one sentence. `records` are
/// by rank, seen from `rank`.
fn compare(call: &Call, records: &[Record], rank: u32) -> Option<(ErrorClass, String)> {
    let told_as = |rank: u32| call.between.as_ref().map_or(rank, |ranks| ranks[rank as usize]);
    if let Some((other, record)) =
        (0..).zip(records).find(|(_, record)| !record.name.eq_ignore_ascii_case(&records[0].name))
    {
        let (other, zero) = (told_as(other), told_as(0));
        let why = format!("rank {other} calls {}, rank {zero} calls {}", record.name, records[0].name);
        return Some((MPI_ERR_OTHER, why));
    }
    let name = &records[0].name;
    let mut present = (0..).zip(records).filter(|(_, record)| record.root != ABSENT);
    let (first_rank, first) = present.next()?;
    let one = told_as(first_rank);
    for (other, record) in present {
        let other = told_as(other);
        if record.root != first.root {
            let root = |record: &Record| u32::try_from(record.root).map_or(record.root, |root| told_as(root).into());
            let (theirs, ours) = (root(record), root(first));
            let why = format!("rank {other} calls {name} with root {theirs}, rank {one} with root {ours}");
            return Some((MPI_ERR_ROOT, why));
        }
        if record.operation != first.operation {
            let (theirs, ours) = (&record.operation.1, &first.operation.1);
            return Some((MPI_ERR_OP, format!("rank {other} calls {name} with {theirs}, rank {one} with {ours}")));
        }
        if record.argument != first.argument {
            let (theirs, ours) = (&record.argument.1, &first.argument.1);
            return Some((
                MPI_ERR_NOT_SAME,
                format!("rank {other} calls {name} with {theirs}, rank {one} with {ours}"),
            ));
        }
        if !agree(record.operands.as_ref(), first.operands.as_ref()) {
            let (theirs, ours) = (told(record.operands.as_ref()), told(first.operands.as_ref()));
            let class = class_of(record.operands.as_ref(), first.operands.as_ref());
            return Some((class, format!("rank {other} calls {name} with {theirs}, rank {one} with {ours}")));
        }
    }
    if let Ok(root) = usize::try_from(first.root)
        && records.get(root).is_some_and(|record| record.root == ABSENT)
    {
        let root = told_as(first.root as u32);
        let why = format!("rank {one} calls {name} with root {root}, which calls it with MPI_PROC_NULL, not MPI_ROOT");
        return Some((MPI_ERR_ROOT, why));
    }
    for (from, record) in (0..).zip(records) {
        let expected = call.expects.of(from);
        if from != rank && !agree(record.data.as_ref(), expected) {
            let (sent, expects) = (told(record.data.as_ref()), told(expected));
            let class = class_of(record.data.as_ref(), expected);
            let (from, rank) = (told_as(from), told_as(rank));
            let why = format!("in {name} rank {from} sends {sent} to rank {rank}, which expects {expects}");
            return Some((class, why));
        }
    }
    None
}

/// The class of a difference between items: in their number or in their kind.
fn class_of(one: Option<&Items>, other: Option<&Items>) -> ErrorClass {
    match (one, other) {
        (Some(one), Some(other)) if one.signature.length == other.signature.length => MPI_ERR_TYPE,
        _ => MPI_ERR_TRUNCATE,
    }
}

/// Calls are compared. For a look without the lock.
static COMPARES: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The collective call that this thread is in. (The launcher is told the latest call of the whole
    /// process.)
    static THREAD_CALL: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Begins or ends to compare calls.
pub(crate) fn compare_calls(compares: bool) {
    COMPARES.store(compares, Ordering::Relaxed);
    crate::memory::label_messages(compares);
}

/// Runs the body of the call with this number.
#[inline(always)]
pub fn in_call<R>(number: u32, body: impl FnOnce() -> R) -> R {
    // The program's function that the call runs may call MPI as well. The second look keeps compilers from
    // making two copies of the body.
    let outer = if COMPARES.load(Ordering::Relaxed) { enter_call(number) } else { None };
    let result = body();
    if COMPARES.load(Ordering::Relaxed) {
        leave_call(outer);
    }
    result
}

/// Says that this thread is in `outer` again.
#[cold]
#[inline(never)]
fn leave_call(outer: Option<u32>) {
    THREAD_CALL.set(outer);
}

/// Says that this thread is in the call with this number, and returns the one that it was in.
#[cold]
#[inline(never)]
fn enter_call(number: u32) -> Option<u32> {
    THREAD_CALL.replace(Some(number))
}

/// The rest of a call, once the calls have been compared.
type Then = dyn FnOnce(&mut Process, Option<Error>) + Send;

impl Process {
    /// Starts `bound` in `scope` as [`Process::start_collective`] does, once the comparison in `comparison`
    /// has found that all processes make the same call.
    ///
    /// # Errors
    /// As for [`Process::start_collective`].
    pub fn start_checked(
        &mut self,
        comparison: CollectiveScope,
        scope: CollectiveScope,
        bound: Arc<Bound>,
        call: Call,
    ) -> Result<usize> {
        let request = self.messages()?.add(State::Collective, scope.communicator)?;
        let then = move |process: &mut Self, error: Option<Error>| {
            let started = match error {
                None => process.start_schedule(request, scope, bound),
                Some(error) => Err(error),
            };
            if let Err(error) = started {
                process.complete_with(request, Some(error));
            }
        };
        self.exchange_calls(request, comparison, call, Box::new(then));
        Ok(request)
    }

    fn complete_with(&mut self, request: usize, error: Option<Error>) {
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(request) {
            request.error = error;
        }
        messages.complete(request);
    }

    /// Compares the calls in `scope`, as the first step of the operation of `request`, and goes on with
    /// `then`.
    pub(crate) fn compare_then(
        &mut self,
        request: usize,
        scope: CollectiveScope,
        call: Call,
        then: impl FnOnce(&mut Self, Option<Error>) + Send + 'static,
    ) {
        self.exchange_calls(request, scope, call, Box::new(then));
    }

    /// Exchanges the calls in `scope`, compares them, and goes on with `then`.
    fn exchange_calls(&mut self, request: usize, scope: CollectiveScope, call: Call, then: Box<Then>) {
        let size = scope.group.size();
        // The large-count forms are the same operation.
        let number = THREAD_CALL.get().unwrap_or_else(CallSite::get);
        let name = self.call_names.get(number as usize).copied().unwrap_or("another call");
        let name = name.strip_suffix("_c").unwrap_or(name);
        let words: Vec<i64> = (0..size).flat_map(|to| Record::words(name, &call, to)).collect();
        let (sent, received) = (SharedBuffer::of_values(&words), SharedBuffer::new(8 * words.len()));
        let items = collective::Items { count: RECORD as u64, shape: ElementShape::plain(8) };
        let shape = collective::Allgather { rank: scope.rank, size, send: items, receive: items, in_place: false };
        let prepared = self.objects.datatype(MPI_INT64_T).map(|int64| int64.description.clone()).and_then(|int64| {
            let arguments = Arguments {
                send: sent.address(0),
                receive: received.address(0),
                send_type: Some(int64.clone()),
                receive_type: Some(int64),
                ..Arguments::none()
            };
            Cursor::new(scope.clone(), Arc::new(Bound::shared(collective::alltoall(&shape), arguments)))
        });
        let cursor = match prepared {
            Ok(cursor) => cursor,
            // The others wait for this process.
            Err(error) => {
                if let Ok(engine) = self.engine() {
                    engine.give_up(&scope, &error);
                }
                return then(self, Some(error));
            }
        };
        self.run_then(request, cursor, move |process, error| {
            // Both buffers live until here.
            drop(sent);
            if error.is_some() {
                return then(process, error);
            }
            let words = received.values();
            let records: Vec<Record> = words.chunks_exact(RECORD).map(Record::parse).collect();
            let found = compare(&call, &records, scope.rank);
            process.tell_difference(request, scope, found, then);
        });
    }

    /// Tells all processes every difference that was found: all report the first.
    fn tell_difference(
        &mut self,
        request: usize,
        scope: CollectiveScope,
        found: Option<(ErrorClass, String)>,
        then: Box<Then>,
    ) {
        let mut words = vec![0; VERDICT * scope.group.size() as usize];
        if let Some((class, why)) = found {
            let mut own = vec![i64::from(ErrorClass::to_wire(Some(class)))];
            put_text(&mut own, SENTENCE, &why);
            words[VERDICT * scope.rank as usize..][..VERDICT].copy_from_slice(&own);
        }
        let name = self.communicator_name(scope.communicator);
        let found = self.objects.find_communicator(scope.communicator);
        let is_between = found.is_some_and(|found| found.inter.is_some());
        let verdicts = SharedBuffer::of_values(&words);
        let prepared = self.gathering(&scope, &verdicts).and_then(|bound| Cursor::new(scope, Arc::new(bound)));
        match prepared {
            Err(error) => then(self, Some(error)),
            Ok(cursor) => self.run_then(request, cursor, move |process, error| {
                let verdicts = verdicts.values();
                let told = |verdict: &[i64]| Some((ErrorClass::from_wire(verdict[0] as u32)?, text(&verdict[1..])));
                let difference = verdicts.chunks_exact(VERDICT).find_map(told).map(|(class, why)| {
                    let ranks = if is_between { " (ranks in MPI_COMM_WORLD)" } else { "" };
                    Error::new(class, format!("WEFT_CHECK: on {name}{ranks} {why}"))
                });
                then(process, error.or(difference));
            }),
        }
    }

    /// The schedule by which each process brings its verdict to all.
    fn gathering(&self, scope: &CollectiveScope, verdicts: &SharedBuffer) -> Result<Bound> {
        let int64 = self.objects.datatype(MPI_INT64_T)?.description.clone();
        let items = collective::Items { count: VERDICT as u64, shape: ElementShape::plain(8) };
        let (rank, size) = (scope.rank, scope.group.size());
        let shape = collective::Allgather { rank, size, send: items, receive: items, in_place: true };
        let arguments = Arguments {
            receive: verdicts.address(0),
            receive_type: Some(int64.clone()),
            send_type: Some(int64),
            ..Arguments::none()
        };
        Ok(Bound::shared(collective::allgather(&shape), arguments))
    }

    fn communicator_name(&self, handle: usize) -> String {
        match self.objects.find_communicator(handle) {
            Some(found) if !found.name.is_empty() => found.name.clone(),
            _ => "a communicator".to_owned(),
        }
    }

    /// Finds a deadlock across two communicators, and returns one sentence about it. This process waits for a
    /// peer in `request` on `communicator`. The peer waits for this process in a blocking call on another
    /// communicator, which this process has not come to. Neither will ever come.
    fn crossed(&mut self, request: usize, communicator: usize) -> Option<String> {
        if self.thread_level == MPI_THREAD_MULTIPLE {
            // Another thread may come to the other call.
            return None;
        }
        let (objects, collectives) = (&self.objects, &self.collectives);
        let engine = self.engine.as_deref()?;
        let running = collectives.iter().find(|(_, running)| running.request == request)?.1;
        let missing = running.cursor.transfers().iter().filter_map(|handle| {
            match &engine.messages.requests.get(*handle)?.state {
                State::Posted(receive) => receive.peer,
                _ => None,
            }
        });
        let missing: Vec<_> = missing.collect();
        for (envelope, unexpected) in engine.messages.matcher.unexpected() {
            let Some(message) = engine.messages.unexpected.get(*unexpected) else { continue };
            let other = objects.communicators.iter().find(|(_, other)| other.collective_context() == envelope.context);
            let Some((_, other)) = other.filter(|(_, other)| other.collectives as i32 == envelope.tag) else {
                continue;
            };
            let mine = objects.find_communicator(communicator)?;
            if other.context == mine.context || !missing.contains(&message.peer) {
                continue;
            }
            let call = called(message.front())?;
            if call.starts_with("MPI_I") && call.as_bytes().get(5).is_some_and(u8::is_ascii_alphabetic) {
                continue;
            }
            let theirs = mine.group.rank_of(message.peer)?;
            let name = |found: &crate::object::Communicator| {
                if found.name.is_empty() {
                    format!("a communicator of {}", found.group.size())
                } else {
                    found.name.clone()
                }
            };
            return Some(format!(
                "WEFT_CHECK: this process waits for rank {theirs} of {}, which is in {call} on {} and waits for this process there: \
                 the communicators are used in different orders",
                name(mine),
                name(other)
            ));
        }
        None
    }
}

/// The name of the call at the front of a record.
fn called(front: &[u8]) -> Option<String> {
    let words: Vec<i64> = front
        .chunks_exact(8)
        .take(NAME)
        .map(|word| i64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    Some(text(&words)).filter(|name| name.starts_with("MPI_"))
}

/// Compares `call` with the calls of all processes of `scope`, and waits for the result.
///
/// # Errors
/// The difference, in one sentence.
pub fn check_now(mut process: Guard, scope: CollectiveScope, call: Call) -> Result<Guard> {
    let communicator = scope.communicator;
    if scope.group.size() == 1 {
        return Ok(process);
    }
    let request = process.messages()?.add(State::Collective, communicator)?;
    let then = move |process: &mut Process, error: Option<Error>| process.complete_with(request, error);
    process.exchange_calls(request, scope, call, Box::new(then));
    let outcome = block_for(process, &|| Awaited::One(request), |process| {
        if process.messages().ok()?.requests.get(request).is_none_or(Request::is_complete) {
            return Some(process.finish(request).and_then(|outcome| outcome.error.map_or(Ok(()), Err)));
        }
        process.crossed(request, communicator).map(|why| Err(Error::new(MPI_ERR_OTHER, why)))
    });
    outcome?;
    Ok(lock())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::Signature;

    fn some(count: u64, code: u64) -> Items {
        let signature = Signature { bytes: 4 * count, length: count, hash: code * count, is_opaque: false };
        Items { count, signature, name: format!("T{code}") }
    }

    fn record(name: &str, call: &Call, to: u32) -> Record {
        let words = Record::words(name, call, to);
        assert_eq!(words.len(), RECORD);
        Record::parse(&words)
    }

    fn compared(calls: &[(&str, Call)], rank: u32) -> Option<(ErrorClass, String)> {
        let records: Vec<Record> = calls.iter().map(|(name, call)| record(name, call, rank)).collect();
        compare(&calls[rank as usize].1, &records, rank)
    }

    #[test]
    fn calls_that_match_pass() {
        let bcast = |root: u32, me: u32| {
            let (sends, expects) = if me == root {
                (Data::Alike(some(3, 1)), Data::Nothing)
            } else {
                (Data::Nothing, Data::One(root, some(3, 1)))
            };
            ("MPI_Bcast", Call { root: Some(root), sends, expects, ..Call::default() })
        };
        for rank in 0..3 {
            assert_eq!(compared(&[bcast(1, 0), bcast(1, 1), bcast(1, 2)], rank), None);
        }
        let (class, why) = compared(&[bcast(1, 0), bcast(1, 1), bcast(0, 2)], 0).unwrap();
        assert_eq!((class, why.as_str()), (MPI_ERR_ROOT, "rank 2 calls MPI_Bcast with root 0, rank 0 with root 1"));
    }

    #[test]
    fn between_groups_the_root_is_known_to_the_other_group_alone() {
        // Ranks 0 and 2 of MPI_COMM_WORLD are one group, ranks 1 and 3 the other; rank 2 of MPI_COMM_WORLD is
        // the root.
        let between = || Some(vec![0, 2, 1, 3]);
        let bcast = |me: u32, root: Option<u32>, count: u64| {
            let (sends, expects) = match root {
                Some(root) if root == me => {
                    (Data::among([Some(0), Some(1)], [some(count, 1), some(count, 1)]), Data::Nothing)
                }
                Some(root) => (Data::Nothing, Data::One(root, some(count, 1))),
                None => (Data::Nothing, Data::Nothing),
            };
            (
                "MPI_Bcast",
                Call { root, is_absent: root.is_none(), between: between(), sends, expects, ..Call::default() },
            )
        };
        let right = [bcast(0, Some(2), 3), bcast(1, Some(2), 3), bcast(2, Some(2), 3), bcast(3, None, 0)];
        assert!((0..4).all(|rank| compared(&right, rank).is_none()));
        let nobody = [bcast(0, Some(3), 3), bcast(1, Some(3), 3), bcast(2, None, 0), bcast(3, None, 0)];
        let why = "rank 0 calls MPI_Bcast with root 3, which calls it with MPI_PROC_NULL, not MPI_ROOT";
        assert_eq!(compared(&nobody, 2).unwrap(), (MPI_ERR_ROOT, why.to_owned()));
        let short = [bcast(0, Some(2), 3), bcast(1, Some(2), 2), bcast(2, Some(2), 3), bcast(3, None, 0)];
        let why = "in MPI_Bcast rank 1 sends 3 × T1 (12 bytes) to rank 2, which expects 2 × T1 (8 bytes)";
        assert_eq!(compared(&short, 1).unwrap().1, why);
        assert_eq!(compared(&short, 0), None);
    }

    #[test]
    fn all_that_goes_from_one_neighbour_to_another_is_one_sequence() {
        let sent = Data::among([Some(1), None, Some(1), Some(2)], [some(1, 1), some(9, 9), some(2, 1), some(4, 1)]);
        assert!(agree(sent.of(1), Some(&some(3, 1))) && agree(sent.of(2), Some(&some(4, 1))));
        assert!(sent.of(0).is_none() && !agree(sent.of(1), Some(&some(2, 1))));
    }

    #[test]
    fn each_difference_has_a_sentence_with_both_sides() {
        let reduce = |code: i64, operands: Items| {
            let operation = Some((code, format!("MPI_OP{code}")));
            ("MPI_Allreduce", Call { operation, operands: Some(operands), ..Call::default() })
        };
        let (class, why) = compared(&[reduce(1, some(2, 1)), reduce(2, some(2, 1))], 1).unwrap();
        assert_eq!((class, why.as_str()), (MPI_ERR_OP, "rank 1 calls MPI_Allreduce with MPI_OP2, rank 0 with MPI_OP1"));
        let (class, why) = compared(&[reduce(1, some(2, 1)), reduce(1, some(3, 1))], 1).unwrap();
        assert_eq!(class, MPI_ERR_TRUNCATE);
        assert_eq!(why, "rank 1 calls MPI_Allreduce with 3 × T1 (12 bytes), rank 0 with 2 × T1 (8 bytes)");
        let (class, _) = compared(&[reduce(1, some(2, 1)), reduce(1, some(2, 5))], 1).unwrap();
        assert_eq!(class, MPI_ERR_TYPE);
        let calls = [("MPI_Barrier", Call::default()), ("MPI_Comm_dup", Call::default())];
        assert_eq!(compared(&calls, 0).unwrap().1, "rank 1 calls MPI_Comm_dup, rank 0 calls MPI_Barrier");
        let open = |amode: i64| {
            ("MPI_File_open", Call { argument: Some((amode, format!("amode {amode}"))), ..Call::default() })
        };
        let why = "rank 1 calls MPI_File_open with amode 9, rank 0 with amode 2";
        assert_eq!(compared(&[open(2), open(9)], 1).unwrap(), (MPI_ERR_NOT_SAME, why.to_owned()));
        assert_eq!(compared(&[open(2), open(2)], 0), None);
        let gather = |me: u32, count| {
            let expects = if me == 0 { Data::Each(vec![some(1, 1), some(count, 1)]) } else { Data::Nothing };
            ("MPI_Gatherv", Call { root: Some(0), sends: Data::One(0, some(4, 1)), expects, ..Call::default() })
        };
        assert_eq!(
            compared(&[gather(0, 2), gather(1, 2)], 0).unwrap().1,
            "in MPI_Gatherv rank 1 sends 4 × T1 (16 bytes) to rank 0, which expects 2 × T1 (8 bytes)"
        );
        assert_eq!(compared(&[gather(0, 2), gather(1, 2)], 1), None);
    }
}
