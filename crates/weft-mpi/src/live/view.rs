//! The part of a rank's page about its calls. It says what the rank's current call waits for. It lists the
//! other operations that have not ended, and the unexpected messages.

use weft_engine::engine::GroupStanding;
use weft_launch::standing::{Draft, Operation, Process, job_number};

use super::GROUP;
use crate::awaited::Awaited;
use crate::context::CONTEXTS_EACH;
use crate::engine::Engine;
use crate::multicast::{Carried, Counters as Multicasts, Scheme};
use crate::object::{Objects, PeerId};
use crate::request::{Receive, Request, Send, State};

/// The most requests and messages that are looked at for the page.
const SEEN_MAX: usize = 64;

/// A collective under way.
pub struct Collective<'a> {
    /// The request of the collective.
    pub request: usize,
    /// The requests of its messages that are under way.
    pub transfers: &'a [usize],
    /// The processes of the node that have not published what it waits for.
    pub missing: Vec<PeerId>,
    /// Context of its messages.
    pub context: u32,
}

/// The state that is published.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Communicators.
    pub objects: &'a Objects,
    /// Collectives under way.
    pub collectives: &'a [Collective<'a>],
    /// Messages and peers.
    pub engine: &'a Engine,
    /// The operation that the current call waits for.
    pub awaited: &'a Awaited,
    /// Threads that wait.
    pub threads: u32,
    /// The knowledge whether the network carries multicast.
    pub carried: Carried,
    /// The questions and answers about MPI_Finalize that have arrived. They are counted as completions are,
    /// but nothing has happened in the program.
    pub questions: u64,
}

/// The process that an operation waits for.
enum Told {
    /// This process.
    Of(Process),
    /// Any process of the communicator with this context.
    Anybody(u32),
    /// No process: the operation has ended.
    Complete,
    /// The process cannot be told.
    Unknown,
}

impl View<'_> {
    /// The words of a multicast group.
    pub(super) fn group(&self, group: &GroupStanding) -> [u64; GROUP] {
        let Scheme { blocking, co_roots, aggregate, written } = group.scheme;
        let flags = u64::from(blocking) << 63 | u64::from(written) << 62;
        let scheme = flags | u64::from(aggregate) << 32 | u64::from(co_roots);
        let known = self.communicator(group.context);
        let ranks = known.map_or(0, |(_, object)| object.group.size());
        let Multicasts { packets, repairs_by_multicast, repairs_by_unicast, negative, .. } = group.counters;
        let repairs = repairs_by_multicast + repairs_by_unicast;
        let is_straight = u64::from(group.goes_straight);
        [
            group.members.into(),
            (group.context - group.context % CONTEXTS_EACH).into(),
            ranks.into(),
            scheme,
            is_straight,
            packets,
            repairs,
            negative,
        ]
    }

    /// Writes the operations that the call waits for, and their peers. Returns whether any one of them is
    /// enough, if that is known.
    pub(super) fn tell_awaited(&self, draft: &mut Draft<'_>) -> Option<bool> {
        let (handles, any): (&[usize], bool) = match self.awaited {
            Awaited::Unknown => return None,
            Awaited::One(handle) | Awaited::Access(handle) => (std::slice::from_ref(handle), false),
            Awaited::Both(handles) => (handles, false),
            Awaited::All(handles) => (handles, false),
            Awaited::Any(handles) => (handles, true),
            Awaited::Message { communicator, source, tag } => {
                return self.tell_probe(draft, *communicator, *source, *tag);
            }
        };
        handles.iter().take(SEEN_MAX).for_each(|handle| self.tell_missing(draft, *handle));
        let mut parts = 0;
        handles.iter().take(SEEN_MAX).for_each(|handle| self.each_part(*handle, &mut |_| parts += 1));
        // A receive from any source is one of several ways to go on. Beside other operations that are all
        // needed, it can only be left out.
        let alternatives = any || parts == 1;
        let (mut known, mut from_anybody) = (true, false);
        for handle in handles.iter().take(SEEN_MAX) {
            self.each_part(*handle, &mut |request| match self.tell(draft, request, true) {
                Told::Of(peer) => draft.needs(peer),
                Told::Anybody(context) if alternatives => {
                    from_anybody = true;
                    self.need_any(draft, context);
                }
                Told::Complete => {}
                Told::Anybody(_) | Told::Unknown => known = false,
            });
        }
        if handles.len() > SEEN_MAX || !known {
            draft.cut();
        }
        // With several threads, a thread that waits does not stop the process.
        (self.threads <= 1).then_some(any || from_anybody)
    }

    /// Writes the processes that have not come to a collective that uses memory shared by the node.
    fn tell_missing(&self, draft: &mut Draft<'_>, handle: usize) {
        let Some(running) = self.collectives.iter().find(|running| running.request == handle) else {
            return self.tell_access(draft, handle, true);
        };
        for peer in running.missing.iter().take(SEEN_MAX).filter_map(|peer| self.number(*peer)) {
            draft.wait(Operation::Receive, Some(peer), None, 0, &self.name(running.context), true);
            draft.needs(peer);
        }
    }

    /// Writes an access to a file, if the request is one whose data is being moved: by a system call, for
    /// which no other process is needed.
    fn tell_access(&self, draft: &mut Draft<'_>, handle: usize, is_awaited: bool) {
        let Some(request) = self.engine.messages.requests.get(handle) else { return };
        if request.is_complete() || !matches!(request.state, State::FileAccess | State::Collective) {
            return;
        }
        let Ok(file) = self.objects.file(request.communicator) else { return };
        let name = self.objects.find_communicator(file.communicator).map_or("a file", |found| found.name.as_str());
        draft.wait(Operation::Access, None, None, 0, name, is_awaited);
    }

    /// Writes a probe, which has no request.
    fn tell_probe(&self, draft: &mut Draft<'_>, communicator: usize, source: i32, tag: i32) -> Option<bool> {
        let object = self.objects.find_communicator(communicator)?;
        let member = usize::try_from(source).ok().and_then(|rank| object.partners().members.get(rank));
        let peer = member.and_then(|peer| self.number(*peer));
        let tag = (tag >= 0).then_some(tag);
        draft.wait(Operation::Probe, peer, tag, 0, &self.name(object.context), true);
        match peer {
            Some(peer) => draft.needs(peer),
            None => self.need_any(draft, object.context),
        }
        (self.threads <= 1).then_some(peer.is_none())
    }

    /// Calls `tell` with each request that a request consists of, those of a collective among them.
    fn each_part(&self, handle: usize, tell: &mut dyn FnMut(&Request)) {
        let requests = &self.engine.messages.requests;
        let Some(request) = requests.get(handle) else { return };
        let parts: &[usize] = match &request.state {
            State::Pair { send, receive } => &[*send, *receive],
            State::Flush(parts) => parts,
            State::Collective => {
                let running = self.collectives.iter().find(|running| running.request == handle);
                running.map_or(&[][..], |running| running.transfers)
            }
            _ => return tell(request),
        };
        parts.iter().take(SEEN_MAX).filter_map(|part| requests.get(*part)).for_each(tell);
    }

    /// Writes operations that the call does not wait for, as far as there is room.
    pub(super) fn tell_others(&self, draft: &mut Draft<'_>) {
        let is_awaited = |handle: usize| match self.awaited {
            Awaited::One(one) | Awaited::Access(one) => *one == handle,
            Awaited::Both(handles) => handles.contains(&handle),
            Awaited::All(handles) | Awaited::Any(handles) => handles.contains(&handle),
            Awaited::Unknown | Awaited::Message { .. } => false,
        };
        // The transfers of a collective have been written with it.
        let of_collective = |handle: usize| self.collectives.iter().any(|running| running.transfers.contains(&handle));
        for (handle, request) in self.engine.messages.requests.iter().take(SEEN_MAX) {
            if matches!(request.state, State::FileAccess) && !is_awaited(handle) {
                self.tell_access(draft, handle, false);
            } else if !request.is_complete() && !is_awaited(handle) && !of_collective(handle) {
                self.tell(draft, request, false);
            }
        }
    }

    /// Writes an operation that has not ended.
    fn tell(&self, draft: &mut Draft<'_>, request: &Request, is_awaited: bool) -> Told {
        let peer = |peer: Option<PeerId>| peer.and_then(|peer| self.number(peer));
        let of_send = |send: &Send, bytes| {
            (Operation::Send, peer(send.peer), Some(send.envelope.tag), bytes, send.envelope.context)
        };
        let (operation, peer, tag, bytes, context) = match &request.state {
            State::Posted(Receive { peer: from, tag, data, context, .. }) => {
                (Operation::Receive, peer(*from), *tag, data.len(), context.unwrap_or(0))
            }
            State::Queued(send) | State::Announced(send) if self.engine.waits_for_room(send) => {
                let (_, peer, tag, bytes, context) = of_send(send, send.data.len());
                (Operation::Room, peer, tag, bytes, context)
            }
            State::Queued(send) | State::Announced(send) | State::Multicasting(send) => of_send(send, send.data.len()),
            State::Sending { send, left, .. } => of_send(send, *left),
            State::AwaitingMatch { peer: by, context } => (Operation::Match, peer(Some(*by)), None, 0, *context),
            State::Receiving { peer: from, total, received, .. } => {
                let context = self.objects.find_communicator(request.communicator).map_or(0, |found| found.context);
                (Operation::Data, peer(Some(*from)), None, total - received, context)
            }
            State::Complete | State::Inactive => return Told::Complete,
            State::Pair { .. }
            | State::Labelled { .. }
            | State::Flush(_)
            | State::Collective
            | State::Partitioned
            | State::OneSided
            | State::FileAccess
            | State::Generalized => return Told::Unknown,
        };
        let tag = tag.filter(|_| context % CONTEXTS_EACH == 0);
        draft.wait(operation, peer, tag, bytes, &self.name(context), is_awaited);
        match (peer, operation) {
            (Some(peer), _) => Told::Of(peer),
            (None, Operation::Receive) => Told::Anybody(context),
            (None, _) => Told::Unknown,
        }
    }

    /// Writes that a call waits for any process of a communicator.
    fn need_any(&self, draft: &mut Draft<'_>, context: u32) {
        match self.communicator(context) {
            Some((_, found)) => {
                found
                    .partners()
                    .members
                    .iter()
                    .filter_map(|member| self.number(*member))
                    .for_each(|peer| draft.needs(peer));
            }
            None => draft.cut(),
        }
    }

    /// Writes the first unexpected messages.
    pub(super) fn tell_arrived(&self, draft: &mut Draft<'_>) {
        let messages = &self.engine.messages;
        for (envelope, unexpected) in messages.matcher.unexpected().take(SEEN_MAX) {
            let Some(message) = messages.unexpected.get(*unexpected) else { continue };
            // A message of no communicator of this process is the library's own. Its tag means nothing to a
            // user.
            let is_told = envelope.context % CONTEXTS_EACH == 0 && self.communicator(envelope.context).is_some();
            let tag = Some(envelope.tag).filter(|_| is_told);
            if !draft.arrived(self.number(message.peer), tag, message.total, &self.name(envelope.context)) {
                break;
            }
        }
    }

    /// A peer, as the page names it.
    fn number(&self, peer: PeerId) -> Option<Process> {
        let found = self.engine.peers.get(peer)?;
        let job = if found.is_of_own_job() { 0 } else { job_number(self.engine.name_of(peer)?.job.0) };
        Some(Process { job, rank: found.number() })
    }

    fn communicator(&self, context: u32) -> Option<(usize, &crate::object::Communicator)> {
        let first = context - context % CONTEXTS_EACH;
        self.objects.communicators.iter().find(|(_, found)| found.context == first)
    }

    /// Name of the communicator of a context.
    fn name(&self, context: u32) -> std::borrow::Cow<'_, str> {
        match self.communicator(context) {
            Some((_, found)) if !found.name.is_empty() => found.name.as_str().into(),
            Some((_, found)) => format!("communicator {} of {}", found.context, found.group.size()).into(),
            None => "".into(),
        }
    }
}
