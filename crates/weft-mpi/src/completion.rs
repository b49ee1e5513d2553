//! The ends of requests: whether they are complete, their results, and how the program gives them up (MPI-5.0
//! §3.7.3, §3.8.4). The boundary's test, wait, free and cancel calls use it.

use crate::constants::{MPI_COMM_SELF, MPI_ERR_REQUEST, MPI_REQUEST_NULL, MPIX_ERR_PROC_FAILED_PENDING};
use crate::engine::Received;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::request::{Cancellation, Generalized, Hold, Persistent, Request, State, Status};

/// The end of an operation.
pub struct Outcome {
    /// The status that it reports.
    pub status: Status,
    /// The error, if it failed.
    pub error: Option<Error>,
    /// The communicator whose error handler is called.
    pub communicator: usize,
    /// The handle that the program holds from now on: null, except for persistent requests.
    pub handle: usize,
    /// The callbacks of a generalized request, to call now that it is complete.
    pub generalized: Option<Box<Generalized>>,
}

impl Outcome {
    /// The outcome of a null or inactive request.
    pub const EMPTY: Self =
        Self { status: Status::EMPTY, error: None, communicator: 0, handle: MPI_REQUEST_NULL, generalized: None };

    /// The part of the outcome that a blocking receive reports.
    #[inline]
    pub fn into_received(self) -> Received {
        Received { status: self.status, error: self.error }
    }

    /// Returns whether it is the outcome of a null or inactive request.
    pub fn is_empty(&self) -> bool {
        self.communicator == 0
    }
}

impl Process {
    /// The request with this handle.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    #[inline]
    pub fn request(&mut self, handle: usize) -> Result<&mut Request> {
        let found = self.messages()?.requests.get_mut(handle);
        found.ok_or_else(|| wrong_request(handle))
    }

    /// Returns whether a wait for `handle` would return at once. Null and inactive requests count as
    /// complete.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    #[inline]
    pub fn is_complete(&mut self, handle: usize) -> Result<bool> {
        if handle == MPI_REQUEST_NULL {
            return Ok(true);
        }
        let messages = self.messages()?;
        if handle == messages.sent {
            return Ok(true);
        }
        let request = messages.requests.get(handle).ok_or_else(|| wrong_request(handle))?;
        if request.is_complete() {
            return Ok(true);
        }
        match request.state {
            State::Pair { send, receive } => self.complete_pair(handle, send, receive),
            State::Labelled { receive } => self.complete_labelled(handle, receive),
            State::Flush(_) => self.complete_flush(handle),
            State::Partitioned => self.complete_partitioned(handle),
            // A wait ends with the warning that a process has failed, and the receive is still posted.
            State::Posted(_) => Ok(request.error.is_some()),
            _ => Ok(false),
        }
    }

    /// Returns whether `handle` is neither null nor inactive.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    pub fn is_active(&mut self, handle: usize) -> Result<bool> {
        if handle == MPI_REQUEST_NULL {
            return Ok(false);
        }
        Ok(!matches!(self.request(handle)?.state, State::Inactive))
    }

    /// Takes the result of a complete request. The request is gone afterwards, or inactive if it is
    /// persistent.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    #[inline]
    pub fn finish(&mut self, handle: usize) -> Result<Outcome> {
        if handle == MPI_REQUEST_NULL {
            return Ok(Outcome::EMPTY);
        }
        let messages = self.messages()?;
        if handle == messages.sent {
            return Ok(Outcome { communicator: MPI_COMM_SELF, ..Outcome::EMPTY });
        }
        let request = messages.requests.get_mut(handle).ok_or_else(|| wrong_request(handle))?;
        if matches!(request.state, State::Inactive) {
            return Ok(Outcome { handle, ..Outcome::EMPTY });
        }
        let mut error = request.error.take();
        if let Some(warning) = error.take_if(|error| error.class == MPIX_ERR_PROC_FAILED_PENDING)
            && !request.is_complete()
        {
            request.error = Some(warning.clone());
            let (error, communicator) = (Some(warning), request.communicator);
            return Ok(Outcome { error, communicator, handle, ..Outcome::EMPTY });
        }
        let outcome = Outcome {
            status: request.status,
            error,
            communicator: request.communicator,
            handle: if request.persistent.is_some() { handle } else { MPI_REQUEST_NULL },
            generalized: request.generalized.take(),
        };
        if request.persistent.is_some() {
            request.state = State::Inactive;
        } else {
            messages.forget(handle);
        }
        Ok(outcome)
    }

    /// Takes the result of a request that [reports nothing but its status](Request::is_over). `None`, with
    /// nothing changed, if the request is null, not complete, or of another kind.
    #[inline(always)]
    pub fn finish_plain(&mut self, handle: usize) -> Option<Status> {
        let messages = &mut self.engine.as_deref_mut()?.messages;
        if handle == MPI_REQUEST_NULL || handle == messages.sent {
            return Some(Status::EMPTY);
        }
        let request = messages.requests.get(handle).filter(|request| request.is_over())?;
        let status = request.status;
        messages.requests.put_back(handle);
        Some(status)
    }

    /// Gives up the program's handle; the operation goes on (MPI-5.0 §3.7.3). Returns the callbacks of a
    /// generalized request that is complete, for the caller to call now.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    pub fn free_request(&mut self, handle: usize) -> Result<Option<Generalized>> {
        let request = self.request(handle)?;
        // "It is erroneous to call MPI_REQUEST_FREE or MPI_CANCEL for a request associated with a nonblocking
        // collective operation" (MPI-5.0 §6.12). But the program may free the request once
        // MPI_Request_get_status has told it of the end (§3.7.6): then it cannot lose sight of a running
        // operation. Without that call the end is a matter of chance, so the free is refused.
        let is_over = matches!(request.state, State::Inactive) || request.hold == Hold::ToldComplete;
        if is_lasting(request) && !is_over {
            let message = "a collective or one-sided operation cannot be freed before the program has been told that it is complete, by a test, a wait or MPI_Request_get_status";
            return Err(Error::new(MPI_ERR_REQUEST, message).on(request.communicator));
        }
        if let Some(Persistent::Partitioned) = request.persistent.as_deref() {
            if !matches!(request.state, State::Inactive) {
                let message = "a partitioned operation cannot be freed before a test or wait has completed it";
                return Err(Error::new(MPI_ERR_REQUEST, message).on(request.communicator));
            }
            self.free_partitioned(handle);
            self.messages()?.forget(handle);
            return Ok(None);
        }
        if request.is_complete() {
            let callbacks = request.generalized.as_deref().copied();
            let slot = match request.persistent.as_deref() {
                Some(Persistent::Collective(operation)) => operation.slot,
                _ => None,
            };
            self.messages()?.forget(handle);
            self.release_slot(slot);
            return Ok(callbacks);
        }
        if let State::Pair { send, receive } = request.state {
            let engine = self.engine()?;
            engine.abandon(handle);
            self.free_request(send)?;
            return self.free_request(receive);
        }
        if let State::Labelled { receive } = request.state {
            return self.free_labelled(handle, receive).map(|()| None);
        }
        if let State::Flush(_) = request.state {
            let engine = self.engine()?;
            engine.abandon(handle);
            return Ok(None);
        }
        request.hold = Hold::Freed;
        Ok(None)
    }

    /// Asks for `handle` to be cancelled (MPI-5.0 §3.8.4). Returns the callbacks of a generalized request,
    /// for the caller to call, and whether the request is complete.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    pub fn cancel(&mut self, handle: usize) -> Result<Option<(Generalized, bool)>> {
        let request = self.request(handle)?;
        if let Some(callbacks) = request.generalized.as_deref().filter(|callbacks| callbacks.cancel.is_some()) {
            return Ok(Some((*callbacks, request.is_complete())));
        }
        let is_partitioned = matches!(request.persistent.as_deref(), Some(Persistent::Partitioned));
        let is_flush = request.cancellation == Cancellation::OnlyFreed;
        if is_partitioned || is_lasting(request) || is_flush || matches!(request.state, State::Inactive) {
            let message = "only active point-to-point operations can be cancelled, and of those no partitioned ones";
            return Err(Error::new(MPI_ERR_REQUEST, message).on(request.communicator));
        }
        let handle = if let State::Labelled { receive } = request.state { receive } else { handle };
        self.engine()?.cancel(handle);
        Ok(None)
    }

    /// Completes a pair if both parts are complete.
    fn complete_pair(&mut self, handle: usize, send: usize, receive: usize) -> Result<bool> {
        for part in [send, receive] {
            // A part that has ended and that nothing keeps has no request any more.
            if self.messages()?.requests.get(part).is_some() && !self.is_complete(part)? {
                return Ok(false);
            }
        }
        let messages = self.messages()?;
        messages.fail_warned(receive);
        let sent = messages.take_error(send);
        let status = messages.requests.get(receive).map(|received| received.status);
        let error = messages.take_error(receive).or(sent);
        if let Some(request) = messages.requests.get_mut(handle) {
            request.status = status.unwrap_or(request.status);
            request.error = error;
        }
        messages.complete(handle);
        Ok(true)
    }

    /// Completes a flush if its messages have left.
    fn complete_flush(&mut self, handle: usize) -> Result<bool> {
        let messages = self.messages()?;
        let Some(State::Flush(waiting)) = messages.requests.get(handle).map(|request| &request.state) else {
            return Ok(false);
        };
        let left = waiting.iter().all(|part| messages.requests.get(*part).is_none_or(Request::is_complete));
        if left {
            messages.complete(handle);
        }
        Ok(left)
    }
}

/// Returns whether it is a collective operation, started or persistent, or a one-sided one. None of these can
/// be given up (MPI-5.0 §6.12, §12.3.5).
fn is_lasting(request: &Request) -> bool {
    match request.persistent.as_deref() {
        Some(operation) => matches!(operation, Persistent::Collective(_)),
        None => request.cancellation == Cancellation::Excluded,
    }
}

#[cold]
fn wrong_request(handle: usize) -> Error {
    let sentence = crate::foreign::explain(handle, MPI_ERR_REQUEST);
    Error::new(
        MPI_ERR_REQUEST,
        sentence.unwrap_or_else(|| format!("{handle:#x} is no request, or one that is complete already")),
    )
}
