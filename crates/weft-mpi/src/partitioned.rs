//! Partitioned communication: a persistent message whose parts leave and arrive one by one (MPI-5.0 §4). The
//! boundary calls this module, and the progress loop posts receives by it.
//!
//! The two sides of an operation meet once, when they are made, and in the order in which they are made
//! (§4.2.1). `MPI_Psend_init` sends a `Plan`, as an ordinary message with the program's tag in a context
//! for plans. `MPI_Precv_init` posts a receive for it.
//!
//! The plan says how many messages an epoch has, the partitions that they cover, and their tags. The sender
//! gives these tags to no other operation on this communicator. From then on each epoch is that many ordinary
//! messages. A message is sent as soon as its partitions are ready, and received where the receiver's own
//! partitions have the same bytes. Messages of one tag do not overtake each other, so epochs do not mix. A
//! sender needs no answer of the receiver, and may be as many epochs ahead as sends may.

use weft_core::matching::Envelope;

use crate::constants::{MPI_ERR_ARG, MPI_ERR_REQUEST, MPI_REQUEST_NULL};
use crate::error::{Error, Result};
use crate::memory::SharedBuffer;
use crate::partitions::{
    Agreement, MESSAGES_MAX, Operation, Partitioned, Plan, Receiving, Sending, Transfers, partition,
};
use crate::process::Process;
use crate::request::{Mode, Persistent, Receive, Request, Send, State, Status};

pub use crate::partitions::Side;

impl Process {
    /// Makes a partitioned send (MPI-5.0 §4.2.1), and returns its request, which is inactive.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`; too many requests.
    pub fn make_partitioned_send(&mut self, side: Side) -> Result<usize> {
        let Side { data, partitions, communicator, rank, tag, items } = side;
        let empty = crate::memory::UserData::empty();
        let send = self.make_send(communicator, rank, tag, empty, Mode::Standard)?;
        let object = self.objects.communicator(communicator)?;
        let (setup, context) = (object.partitioned_context(), object.partition_context());
        let messages = partitions.min(MESSAGES_MAX);
        let first = self.partitioned.take_tags(context, messages)?;
        let bytes_each = if partitions == 0 { 0 } else { data.len() / u64::from(partitions) };
        let plan = Plan { partitions, bytes_each, messages, tag: first };
        let request = self.make_persistent(Persistent::Partitioned, communicator)?;
        if send.peer.is_some() {
            let words = SharedBuffer::of_values(&plan.message(items.as_ref()));
            let envelope = Envelope { context: setup, ..send.envelope };
            self.start_copied(Send { envelope, data: words.describe_all(), ..send.clone() }, communicator)?;
        }
        let envelope = Envelope { context, tag: first, ..send.envelope };
        let sending = Sending {
            peer: send.peer,
            envelope,
            data,
            communicator,
            plan,
            is_ready: Vec::new(),
            missing: Vec::new(),
            open: 0,
            transfers: Transfers::default(),
        };
        self.partitioned.operations.insert(request, Operation::Send(sending));
        Ok(request)
    }

    /// Makes a partitioned receive (MPI-5.0 §4.2.1), and returns its request, which is inactive.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`, also for wildcards; too many requests.
    pub fn make_partitioned_receive(&mut self, side: Side) -> Result<usize> {
        let Side { data, partitions, communicator, rank, tag, items } = side;
        let object = self.objects.communicator(communicator)?;
        let (setup, context) = (object.partitioned_context(), object.partition_context());
        let peer = object.peer(rank, "source")?;
        crate::point_to_point::check_tag(tag)?;
        let request = self.make_persistent(Persistent::Partitioned, communicator)?;
        let agreement = match peer {
            None => Agreement::Nothing,
            Some(_) => {
                let words = SharedBuffer::of_values(&[0; Plan::MESSAGE_WORDS]);
                let receive = Receive {
                    context: Some(setup),
                    source: u32::try_from(rank).ok(),
                    peer,
                    tag: Some(tag),
                    data: words.describe_all(),
                    blocking: false,
                };
                Agreement::Awaited { request: self.start_receive(receive, communicator)?, words }
            }
        };
        let receiving = Receiving {
            peer,
            context,
            rank,
            tag,
            data,
            partitions,
            communicator,
            agreement,
            items: [items, None],
            is_posted: false,
            transfers: Transfers::default(),
        };
        self.partitioned.operations.insert(request, Operation::Receive(receiving));
        Ok(request)
    }

    /// Starts an epoch of `handle`, which is inactive.
    ///
    /// # Errors
    /// Too many requests.
    pub(crate) fn start_partitioned(&mut self, handle: usize) -> Result<()> {
        self.messages()?.restart(handle, State::Partitioned);
        match self.partitioned.operations.get_mut(&handle) {
            Some(Operation::Send(sending)) => {
                let plan = sending.plan;
                sending.is_ready.clear();
                sending.is_ready.resize(plan.partitions as usize, false);
                sending.missing.clear();
                sending.missing.extend((0..plan.messages).map(|k| plan.first(k + 1) - plan.first(k)));
                sending.open = plan.messages;
                sending.transfers = Transfers { requests: vec![None; plan.messages as usize], ..Transfers::default() };
            }
            Some(Operation::Receive(receiving)) => {
                receiving.is_posted = false;
                receiving.transfers = Transfers::default();
                self.partitioned.expecting.push(handle);
                self.expect_plans();
            }
            None => {}
        }
        Ok(())
    }

    /// Posts the receives of operations whose plan has come.
    pub(crate) fn expect_plans(&mut self) {
        let Self { partitioned, engine, .. } = self;
        let Some(engine) = engine.as_deref_mut() else { return };
        let Partitioned { operations, expecting, .. } = partitioned;
        expecting.retain(|handle| match operations.get_mut(handle) {
            Some(Operation::Receive(receiving)) => !receiving.post(engine),
            _ => false,
        });
    }

    /// Returns whether `handle`, which is active, is complete. Then the request has its result.
    pub(crate) fn complete_partitioned(&mut self, handle: usize) -> Result<bool> {
        self.expect_plans();
        let Self { partitioned, engine, .. } = self;
        let Some(engine) = engine.as_deref_mut() else { return Ok(false) };
        let (status, error) = match partitioned.operations.get_mut(&handle) {
            Some(Operation::Send(sending)) => {
                if sending.open > 0 || !sending.transfers.are_complete(engine) {
                    return Ok(false);
                }
                (Status::EMPTY, sending.transfers.error.take())
            }
            Some(Operation::Receive(receiving)) => match receiving.result(engine) {
                Some(result) => result,
                None => return Ok(false),
            },
            None => (Status::EMPTY, None),
        };
        if let Some(request) = engine.messages.requests.get_mut(handle) {
            (request.status, request.error) = (status, error);
        }
        engine.messages.complete(handle);
        Ok(true)
    }

    /// Marks the partitions from `low` to `high` of `handle` ready, and sends the messages that this
    /// completes (MPI-5.0 §4.2.1).
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when `handle` is no active partitioned send; `MPI_ERR_ARG` when a partition does not
    /// exist or is ready already, and then none is marked.
    pub fn mark_range(&mut self, handle: usize, low: i32, high: i32) -> Result<()> {
        let plan = self.active_send(handle)?.plan;
        if low > high {
            let sentence =
                format!("partition_low is {low} and partition_high is {high}: the range ends before it begins");
            return Err(self.on_request(handle, Error::new(MPI_ERR_ARG, sentence)));
        }
        let ends = partition("partition_low", low, plan.partitions)
            .and_then(|low| Ok((low, partition("partition_high", high, plan.partitions)?)));
        let (low, high) = ends.map_err(|error| self.on_request(handle, error))?;
        self.mark(handle, low..=high)
    }

    /// Marks the partitions of a list ready, as [`Self::mark_range`] does.
    ///
    /// # Errors
    /// As for [`Self::mark_range`].
    pub fn mark_list(&mut self, handle: usize, list: &[i32]) -> Result<()> {
        let partitions = self.active_send(handle)?.plan.partitions;
        let found: Result<Vec<u32>> = list
            .iter()
            .enumerate()
            .map(|(at, index)| partition(&format!("array_of_partitions[{at}]"), *index, partitions))
            .collect();
        let mut found = found.map_err(|error| self.on_request(handle, error))?;
        weft_ordered::sort(&mut found);
        if let Some(pair) = found.windows(2).find(|pair| pair[0] == pair[1]) {
            let error = Error::new(MPI_ERR_ARG, format!("array_of_partitions names partition {} twice", pair[0]));
            return Err(self.on_request(handle, error));
        }
        self.mark(handle, found)
    }

    fn mark(&mut self, handle: usize, which: impl IntoIterator<Item = u32> + Clone) -> Result<()> {
        let sending = self.active_send(handle)?;
        let communicator = sending.communicator;
        if let Some(index) = which.clone().into_iter().find(|index| sending.is_ready[*index as usize]) {
            let message = format!("partition {index} has been marked ready already since the operation was started");
            return Err(Error::new(MPI_ERR_ARG, message).on(communicator));
        }
        let Self { partitioned, engine, .. } = self;
        let (Some(Operation::Send(sending)), Some(engine)) =
            (partitioned.operations.get_mut(&handle), engine.as_deref_mut())
        else {
            return Ok(());
        };
        let marked = which.into_iter().try_for_each(|index| sending.mark(index, engine));
        // Another thread may wait for a message that left at once.
        self.announce();
        marked.map_err(|error| error.on(communicator))
    }

    /// Returns whether the data of partition `index` of `handle` has arrived (MPI-5.0 §4.2.2). `true` if
    /// `handle` is null or inactive.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when `handle` is no partitioned receive; `MPI_ERR_ARG` when there is no such
    /// partition.
    pub fn has_arrived(&mut self, handle: usize, index: i32) -> Result<bool> {
        if handle == MPI_REQUEST_NULL {
            return Ok(true);
        }
        let request = self.request(handle)?;
        let (is_active, communicator) = (matches!(request.state, State::Partitioned), request.communicator);
        let wrong = || Error::new(MPI_ERR_REQUEST, "the request is not that of a partitioned receive").on(communicator);
        self.expect_plans();
        let Self { partitioned, engine, .. } = self;
        let (Some(Operation::Receive(receiving)), Some(engine)) =
            (partitioned.operations.get_mut(&handle), engine.as_deref_mut())
        else {
            return Err(wrong());
        };
        let index = partition("partition", index, receiving.partitions).map_err(|error| error.on(communicator))?;
        // A request that is complete, but not asked for: all data has arrived.
        Ok(!is_active || receiving.has_arrived(index, engine))
    }

    /// Gives up `handle`, which is inactive.
    pub(crate) fn free_partitioned(&mut self, handle: usize) {
        let Self { partitioned, engine, .. } = self;
        let Some(engine) = engine.as_deref_mut() else { return };
        partitioned.absorbing.retain(|(request, _)| {
            let is_over = engine.messages.requests.get(*request).is_none_or(Request::is_complete);
            if is_over {
                engine.messages.forget(*request);
            }
            !is_over
        });
        let operation = partitioned.operations.remove(&handle);
        if let Some(Operation::Receive(Receiving { agreement: Agreement::Awaited { request, words }, .. })) = operation
        {
            partitioned.absorbing.push((request, words));
        }
    }

    /// The error with the communicator of `handle`, whose error handler gets it (MPI-5.0 §9.3).
    fn on_request(&self, handle: usize, error: Error) -> Error {
        match self.partitioned.operations.get(&handle) {
            Some(
                Operation::Send(Sending { communicator, .. }) | Operation::Receive(Receiving { communicator, .. }),
            ) => error.on(*communicator),
            None => error,
        }
    }

    fn active_send(&mut self, handle: usize) -> Result<&Sending> {
        let request = self.request(handle)?;
        let (is_active, communicator) = (matches!(request.state, State::Partitioned), request.communicator);
        let wrong = |message: &'static str| Err(Error::new(MPI_ERR_REQUEST, message).on(communicator));
        match self.partitioned.operations.get(&handle) {
            Some(Operation::Send(sending)) if is_active => Ok(sending),
            Some(Operation::Send(_)) => {
                wrong("the partitioned send is not active: call MPI_Start before partitions are marked ready")
            }
            _ => wrong("the request is not that of a partitioned send"),
        }
    }
}
