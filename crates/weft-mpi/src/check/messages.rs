//! `WEFT_CHECK=1`, point-to-point: compares the datatypes of a message at its sender with those at its
//! receiver (MPI-5.0 §3.3.1).
//!
//! Each message of the program has a [`Label`]: the sender's datatypes and call. The label stands before the
//! data in the same message, so that both are matched as one. A receive has room for a label before the
//! program's buffer, and is a request of its own. The program's request completes with the receive, once the
//! two sides have been compared. By then the data has arrived, so the error only says that the data is not
//! what the program asked for.

use weft_engine::error::ErrorClass;
use weft_launch::CallSite;

use crate::awaited::Awaited;
use crate::constants::{MPI_ERR_OTHER, MPI_ERR_TRUNCATE, MPI_ERR_TYPE, MPI_THREAD_MULTIPLE};
use crate::error::{Error, Result};
use crate::labels::{Expected, Labelled};
use crate::memory::{LABEL_BYTES, Label};
use crate::process::Process;
use crate::request::{Request, State, Status};
use crate::signature::{Items, told};

impl Process {
    /// The contents of a label for `count` items of a datatype.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    pub fn labelled(&self, datatype: usize, count: u64) -> Result<Labelled> {
        let found = self.objects.committed(datatype)?;
        let items = Items::new(datatype, &found.description, &found.name, count);
        Ok(Labelled { handle: datatype, description: found.description.clone(), items, call: self.current_call() })
    }

    /// The name of the call that this process is in. Empty where several threads may be in a call.
    fn current_call(&self) -> String {
        let name = self.call_names.get(CallSite::get() as usize).copied().unwrap_or_default();
        if self.thread_level == MPI_THREAD_MULTIPLE { String::new() } else { name.to_owned() }
    }

    /// The bytes of the label in each message of the program.
    pub(crate) fn label_bytes(&self) -> u64 {
        if self.checks_calls { LABEL_BYTES } else { 0 }
    }

    /// Keeps a label as long as `request` may use it.
    pub fn keep_label(&mut self, request: usize, label: Label) {
        self.sweep_labels();
        self.labels.kept.push((request, label));
    }

    /// Expects a label in the persistent request `handle`, whose receives have room for it.
    pub fn expect_labels(&mut self, handle: usize, label: Label, what: Labelled) {
        self.sweep_labels();
        self.labels.expected.insert(handle, Expected { label, what });
    }

    /// The program's request for `receive`, which has been started with room for a label.
    ///
    /// # Errors
    /// Too many requests.
    pub fn expect_label(&mut self, receive: usize, label: Label, what: Labelled) -> Result<usize> {
        let communicator = self.request(receive)?.communicator;
        let handle = self.messages()?.add(State::Labelled { receive }, communicator)?;
        self.expect_labels(handle, label, what);
        Ok(handle)
    }

    /// Drops labels that are no longer used, now and then.
    fn sweep_labels(&mut self) {
        let Self { labels, engine, .. } = self;
        let Some(engine) = engine.as_deref() else { return };
        if labels.kept.len() + labels.expected.len() < labels.sweep_at {
            return;
        }
        let requests = &engine.messages.requests;
        let sent = engine.messages.sent;
        let is_used = |request: &Request| !request.is_complete() || request.persistent.is_some();
        labels.kept.retain(|(request, _)| *request != sent && requests.get(*request).is_some_and(is_used));
        labels.expected.retain(|request, _| requests.get(*request).is_some());
        labels.sweep_at = 2 * (labels.kept.len() + labels.expected.len()) + 64;
    }

    /// Notes that the program has freed `handle`, whose message comes by `receive`.
    pub(crate) fn free_labelled(&mut self, handle: usize, receive: usize) -> Result<()> {
        if let Some(Expected { label, .. }) = self.labels.expected.remove(&handle) {
            self.keep_label(receive, label);
        }
        let engine = self.engine()?;
        engine.abandon(handle);
        self.free_request(receive).map(|_| ())
    }

    /// Completes `handle` if `receive`, by which its message comes, is complete.
    pub(crate) fn complete_labelled(&mut self, handle: usize, receive: usize) -> Result<bool> {
        let messages = self.messages()?;
        let Some(request) = messages.requests.get(receive).filter(|request| request.is_complete()) else {
            return Ok(false);
        };
        let (mut status, communicator) = (request.status, request.communicator);
        let mut error = messages.take_error(receive);
        if let Some(expected) = self.labels.expected.get(&handle) {
            (status, error) = self.compare_sides(expected, status, error, communicator);
        }
        let messages = self.messages()?;
        if let Some(request) = messages.requests.get_mut(handle) {
            (request.status, request.error) = (status, error);
            if request.persistent.is_none() {
                self.labels.expected.remove(&handle);
            }
        }
        self.messages()?.complete(handle);
        Ok(true)
    }

    /// The result of a receive that ended with `status` and `error`, now that both sides are known.
    fn compare_sides(
        &self,
        expected: &Expected,
        mut status: Status,
        error: Option<Error>,
        communicator: usize,
    ) -> (Status, Option<Error>) {
        let is_cut = error.as_ref().is_some_and(|error| error.class == ErrorClass::Truncate);
        if status.cancelled || status.source < 0 || (error.is_some() && !is_cut) {
            return (status, error);
        }
        let found = (status.bytes >= LABEL_BYTES).then(|| expected.said()).flatten();
        let Some((sent, call)) = found else {
            let message = format!(
                "WEFT_CHECK: a message of rank {} with tag {} says nothing of its datatypes: set WEFT_CHECK for all processes of the job",
                status.source, status.tag
            );
            return (status, Some(Error::new(MPI_ERR_OTHER, message)));
        };
        status.bytes -= LABEL_BYTES;
        if !is_cut && expected.what.takes(&sent.signature) {
            return (status, None);
        }
        let name = self.communicator_name(communicator);
        let own = self.objects.find_communicator(communicator).map_or(0, |object| object.rank);
        let by = |call: &str| if call.is_empty() { String::new() } else { format!(" by {call}") };
        let message = format!(
            "WEFT_CHECK: on {name} rank {} sent {} with tag {}{}, and rank {own} receives it{} as {}",
            status.source,
            told(Some(&sent)),
            status.tag,
            by(&call),
            by(&expected.what.call),
            told(Some(&expected.what.items)),
        );
        let class = if is_cut { MPI_ERR_TRUNCATE } else { MPI_ERR_TYPE };
        (status, Some(Error::new(class, message)))
    }

    /// The operation that a call waits for, with the requests by which messages arrive in place of the
    /// program's.
    pub(crate) fn without_labels(&self, awaited: Awaited) -> Awaited {
        let Some(engine) = self.engine.as_deref().filter(|_| !self.labels.expected.is_empty()) else { return awaited };
        awaited.map(|handle| match engine.messages.requests.get(handle).map(|request| &request.state) {
            Some(State::Labelled { receive }) => *receive,
            _ => handle,
        })
    }
}
