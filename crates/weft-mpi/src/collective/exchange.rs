//! Messages between the processes of an operation that is no schedule: how many there are, and of which
//! sizes, depends on data of all processes.

use weft_core::matching::Envelope;

use super::CollectiveScope;
use crate::error::Error;
use crate::memory::UserData;
use crate::process::{Exchange, Process};
use crate::request::{Mode, Receive, Send};

/// A message to or from the process with this rank in the scope.
pub(crate) type Message = (u32, UserData);

impl Process {
    /// Sends and receives messages to and from other processes of `scope`, as a step of the operation of
    /// `request`, then goes on with the first error.
    /// A message without bytes is not sent. Two messages between the same processes arrive in the order in
    /// which they were sent.
    pub(crate) fn exchange_then(
        &mut self,
        request: usize,
        scope: &CollectiveScope,
        sends: Vec<Message>,
        receives: Vec<Message>,
        then: impl FnOnce(&mut Self, Option<Error>) + std::marker::Send + 'static,
    ) {
        let mut requests = Vec::with_capacity(sends.len() + receives.len());
        let mut failed = None;
        let with_bytes = |messages: Vec<Message>| messages.into_iter().filter(|(_, data)| !data.is_empty());
        // Receives come first, so that no message has to wait for its receive.
        for (rank, data) in with_bytes(receives) {
            let peer = Some(scope.group.members[rank as usize]);
            let (context, tag) = (Some(scope.context), Some(scope.tag));
            let receive = Receive { context, source: Some(rank), peer, tag, data, blocking: false };
            match self.start_receive(receive, scope.communicator) {
                Ok(request) => requests.push(request),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        for (rank, data) in with_bytes(sends) {
            let peer = Some(scope.group.members[rank as usize]);
            let envelope = Envelope { context: scope.context, source: scope.rank, tag: scope.tag };
            let send = Send { peer, envelope, data, mode: Mode::Standard, blocking: false };
            match self.start_send(send, scope.communicator) {
                // The message has left, and the handle says only that.
                Ok(request) if self.has_sent(request) => {}
                Ok(request) => requests.push(request),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let (Some(error), Ok(engine)) = (&failed, self.engine()) {
            engine.give_up(scope, error);
        }
        let then = Box::new(move |process: &mut Self, error: Option<Error>| then(process, failed.or(error)));
        self.exchanges.under_way.push(Exchange { request, scope: scope.clone(), requests, then });
        self.advance_exchanges();
    }

    /// Returns whether this is the handle of all messages that have left at once.
    fn has_sent(&self, request: usize) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.messages.sent == request)
    }

    /// Goes on with the operations whose messages have all come and gone.
    pub(super) fn advance_exchanges(&mut self) {
        if std::mem::replace(&mut self.exchanges.is_searched, true) {
            return;
        }
        let mut index = 0;
        while index < self.exchanges.under_way.len() {
            match self.end_of_exchange(index) {
                Some(error) => {
                    let exchange = self.exchanges.under_way.swap_remove(index);
                    (exchange.then)(self, error);
                    // What goes on may have begun further exchanges, and ended waits of others.
                    index = 0;
                }
                None => index += 1,
            }
        }
        self.exchanges.is_searched = false;
    }

    /// Whether an exchange is over: then its first error, if there was one.
    fn end_of_exchange(&mut self, index: usize) -> Option<Option<Error>> {
        let Self { engine: Some(engine), exchanges, .. } = self else { return Some(None) };
        let Exchange { scope, requests, .. } = &exchanges.under_way[index];
        let is_open = requests.iter().any(|request| engine.messages.is_under_way(*request));
        if !is_open {
            let errors: Vec<Error> =
                requests.iter().filter_map(|request| engine.messages.take_error(*request)).collect();
            return Some(errors.into_iter().next());
        }
        let error = engine.given_up(scope)?;
        for request in requests {
            engine.abandon(*request);
        }
        Some(Some(error))
    }
}
