//! Connections: the events of RDMA CM, and the queues of each connection.
#![allow(unsafe_code)]

use super::{Device, Peer, failed, make_queue_pair, socket_address};
use crate::clock;
use crate::verbs::api::{
    CmEvent, CmId, ConnectionWish, EVENT_ADDR_ERROR, EVENT_ADDR_RESOLVED, EVENT_CONNECT_ERROR, EVENT_CONNECT_REQUEST,
    EVENT_DEVICE_REMOVAL, EVENT_DISCONNECTED, EVENT_ESTABLISHED, EVENT_REJECTED, EVENT_ROUTE_ERROR,
    EVENT_ROUTE_RESOLVED, EVENT_UNREACHABLE, IBV_QPT_RC, RDMA_PS_TCP,
};
use crate::verbs::credits::{Credits, Grants, RESERVE};
use crate::verbs::limits::{self, CHUNK, INLINE_LEAST, INLINE_WANTED};
use crate::verbs::pairing::{Action, Event, Reason, State};
use crate::verbs::wire::{GREETING, Greeting, Kind};
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use weft_core::time::Duration;

/// Most events that a look takes.
const EVENTS_MAX: usize = 64;
/// Longest time, in milliseconds, for resolving an address or a route. The pair tries again.
const RESOLVE_MS: c_int = 5000;
/// Retry count by which a busy receiver is asked again for ever: with room granted it is never busy for long.
const RNR_FOREVER: u8 = 7;

impl Device {
    pub(super) fn event(&mut self, peer: usize, event: Event, request: Option<(*mut CmId, Greeting, (u8, u8))>) {
        let now = clock::now();
        match self.peers[peer].pair.on(event, now) {
            Action::Nothing => {}
            Action::Connect => {
                self.drop_connection(peer);
                if let Err(why) = self.connect(peer) {
                    self.fail(peer, Event::Failed, &why);
                }
            }
            Action::Accept => {
                self.drop_connection(peer);
                let Some(request) = request else { return };
                if let Err(why) = self.accept(peer, request) {
                    self.fail(peer, Event::Failed, &why);
                }
            }
            Action::Refuse(reason) => {
                if let Some((id, ..)) = request {
                    self.refuse(id, self.peers[peer].token, reason);
                }
            }
            Action::Greet => {
                // Only iWARP needs nudges.
                if !self.is_iwarp {
                    self.peers[peer].pair.note_heard();
                }
                self.say(peer, Kind::First);
            }
            Action::Close => self.say(peer, Kind::Close),
            Action::Answer => self.say(peer, Kind::Closed),
            Action::Drop => self.drop_connection(peer),
            Action::Lose => self.lose(peer),
        }
        if !self.changing.contains(&peer) && self.is_changing(peer) {
            self.changing.push(peer);
        }
    }

    pub(super) fn is_changing(&self, peer: usize) -> bool {
        let Peer { pair, gone, .. } = &self.peers[peer];
        pair.is_beginning() || pair.state() == State::Leaving || pair.is_unheard() || *gone
    }

    /// Takes an event, with a sentence that the user reads if no later failure follows.
    pub(super) fn fail(&mut self, peer: usize, event: Event, why: &str) {
        self.peers[peer].warned = Some(why.to_owned());
        self.event(peer, event, None);
    }

    /// Ends the connection to a peer, or an attempt, for good.
    pub(in crate::verbs) fn abandon(&mut self, peer: usize) {
        if peer < self.peers.len() {
            self.event(peer, Event::Abandoned, None);
        }
    }

    /// Returns a peer that says it has dropped its ends of other connections, with a bit for each.
    #[inline]
    pub(in crate::verbs) fn poll_dropped(&mut self) -> Option<(u32, u16)> {
        self.dropped.pop_front()
    }

    pub(super) fn lose(&mut self, peer: usize) {
        self.drop_connection(peer);
        let (own, device) = (self.name, &self.device);
        let Peer { name, warned, broken, .. } = &mut self.peers[peer];
        let why = warned.take().unwrap_or_else(|| "it was closed while packets were in it".to_owned());
        self.last_error = Some(format!("the RDMA connection from {own} ({device}) to {name} is lost: {why}"));
        if !std::mem::replace(broken, true) {
            self.broken.push_back(peer);
        }
    }

    pub(super) fn connect(&mut self, peer: usize) -> Result<(), String> {
        let library = self.library;
        let mut from = socket_address((self.name.ip(), 0).into(), self.scope);
        let mut to = socket_address(self.peers[peer].name, self.scope);
        let mut id = ptr::null_mut();
        // SAFETY: the channel is open, and the addresses live while the calls run.
        unsafe {
            let context = (peer + 1) as *mut c_void;
            if (library.create_id)(self.bound.channel, &raw mut id, context, RDMA_PS_TCP) != 0 {
                return Err(failed("rdma_create_id"));
            }
            self.peers[peer].id = id;
            let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
            if (library.resolve_addr)(id, from, to, RESOLVE_MS) != 0 {
                return Err(failed("rdma_resolve_addr"));
            }
        }
        Ok(())
    }

    /// Takes receives from those that are there, or makes more; then makes the queue pair.
    pub(super) fn make_queues(&mut self, peer: usize, id: *mut CmId) -> Result<(), String> {
        // SAFETY: the identifier is open.
        if unsafe { (*id).verbs } != self.bound.context() {
            return Err("its address is reached by another RDMA device".to_owned());
        }
        self.close_unused();
        let left = self.limits.receives.saturating_sub(self.given);
        if left < limits::least() {
            return Err("there are too many connections at a time".to_owned());
        }
        let window = limits::first_window(&self.limits, self.peers.len() as u32).min((left - RESERVE) as u16);
        let grants = Grants::new(window);
        let receives = grants.receives();
        self.reserve(receives)?;
        let own_receives = if self.limits.shared { 0 } else { receives };
        let first = if self.inline_max > 0 { self.inline_max as u32 } else { INLINE_WANTED };
        let less = |inline: &u32| (*inline > 0).then_some(if *inline > INLINE_LEAST { *inline / 2 } else { 0 });
        let inlines = std::iter::successors(Some(first), less);
        let room = (self.limits.operations, own_receives);
        // SAFETY: all objects are open and of this device.
        let granted =
            unsafe { make_queue_pair(self.library, (id, self.pd), IBV_QPT_RC, (self.cq, self.srq), room, inlines) };
        self.inline_max = granted.ok_or_else(|| failed("rdma_create_qp"))? as usize;
        // SAFETY: it has just been made.
        let qp = unsafe { (*(*id).qp).number };
        self.by_qp.insert(qp, peer);
        self.connections += 1;
        self.given += receives;
        let state = &mut self.peers[peer];
        (state.receives, state.grants) = (receives, grants);
        (state.operations, state.held) = (0, 0);
        (state.lost, state.gone) = (false, false);
        state.says.clear();
        if !self.limits.shared {
            for _ in 0..receives {
                let Some(receive) = self.free_receives.pop() else { break };
                self.post_receive(receive, peer);
            }
        }
        Ok(())
    }

    /// Makes sure that `receives` more receives exist, up to the limit.
    pub(super) fn reserve(&mut self, receives: u32) -> Result<(), String> {
        while (self.chunks.len() as u32 * CHUNK) < (self.given + receives).min(self.limits.receives) {
            let first = self.chunks.len() * CHUNK as usize;
            let packets = self.packets(CHUNK as usize)?;
            let count = packets.count();
            self.chunks.push(packets);
            self.posted_to.resize(first + count, usize::MAX);
            for index in first..first + count {
                if !self.limits.shared || index >= self.limits.receives as usize {
                    self.free_receives.push(index);
                } else {
                    self.post_receive(index, usize::MAX);
                }
            }
        }
        Ok(())
    }

    /// Makes room for another connection: asks the peer of the connection that was not used for longest to
    /// close it.
    pub(super) fn close_unused(&mut self) {
        if self.connections < self.limits.connections {
            return;
        }
        let is_unused = |peer: &&Peer| {
            peer.pair.state() == State::Ready
                && peer.held == 0
                && peer.says.is_empty()
                && peer.credits.left() > 0
                && !peer.gone
        };
        let longest = self.peers.iter().filter(is_unused).map(|peer| peer.used).min();
        let Some(peer) =
            longest.and_then(|used| self.peers.iter().position(|peer| peer.used == used && is_unused(&peer)))
        else {
            return;
        };
        self.event(peer, Event::Unused, None);
    }

    pub(super) fn greeting(&self, peer: usize) -> [u8; GREETING] {
        let Peer { token, grants, .. } = &self.peers[peer];
        Greeting { name: self.name, token: *token, window: grants.window(), refusal: None }.encode()
    }

    pub(super) fn wish(&self, private: &[u8], (responder_resources, initiator_depth): (u8, u8)) -> ConnectionWish {
        ConnectionWish {
            private_data: private.as_ptr().cast(),
            private_bytes: private.len() as u8,
            responder_resources: responder_resources.min(self.limits.reads),
            initiator_depth: initiator_depth.min(self.limits.reads),
            flow_control: 1,
            retries: 7,
            rnr_retries: RNR_FOREVER,
            srq: u8::from(self.limits.shared),
            qp_number: 0,
        }
    }

    pub(super) fn request(&mut self, peer: usize) -> Result<(), String> {
        let id = self.peers[peer].id;
        self.make_queues(peer, id)?;
        let private = self.greeting(peer);
        let mut wish = self.wish(&private, (u8::MAX, u8::MAX));
        // SAFETY: the identifier has a queue pair; the greeting lives while the call runs.
        match unsafe { (self.library.connect)(id, &raw mut wish) } {
            0 => Ok(()),
            _ => Err(failed("rdma_connect")),
        }
    }

    pub(super) fn accept(
        &mut self,
        peer: usize,
        (id, greeting, reads): (*mut CmId, Greeting, (u8, u8)),
    ) -> Result<(), String> {
        self.peers[peer].id = id;
        // SAFETY: it is a request's, and open.
        unsafe { (*id).context = (peer + 1) as *mut c_void };
        self.make_queues(peer, id)?;
        self.peers[peer].credits = Credits::new(greeting.window);
        let private = self.greeting(peer);
        let mut wish = self.wish(&private, reads);
        // SAFETY: as for a request.
        match unsafe { (self.library.accept)(id, &raw mut wish) } {
            0 => Ok(()),
            _ => Err(failed("rdma_accept")),
        }
    }

    pub(super) fn refuse(&mut self, id: *mut CmId, token: u64, reason: Reason) {
        let private = Greeting { name: self.name, token, window: 0, refusal: Some(reason) }.encode();
        // SAFETY: this end has not accepted the request, and forgets it here.
        unsafe {
            (self.library.reject)(id, private.as_ptr().cast(), private.len() as u8);
            (self.library.destroy_id)(id);
        }
    }

    /// Closes a connection, if there is one. All buffers that the device has for it come back.
    pub(super) fn drop_connection(&mut self, peer: usize) {
        let id = std::mem::replace(&mut self.peers[peer].id, ptr::null_mut());
        if id.is_null() {
            return;
        }
        let library = self.library;
        // SAFETY: the identifier is this peer's, and forgotten.
        unsafe {
            let qp = (*id).qp;
            if !qp.is_null() {
                let number = (*qp).number;
                self.by_qp.remove(&number);
                (library.disconnect)(id);
                // Some providers throw completions away with their queue pair, and with them the receives of
                // these completions. Other providers keep the completions.
                self.find_completions();
                (library.destroy_qp)(id);
                self.find_completions();
                self.forget_completions(number);
                self.connections -= 1;
            }
            (library.destroy_id)(id);
        }
        let epoch = self.peers[peer].epoch;
        for (index, leaving) in self.leaving.iter_mut().enumerate() {
            if !leaving.is_free && (leaving.peer, leaving.epoch) == (peer, epoch) {
                leaving.is_free = true;
                self.free_sends.push(index);
            }
        }
        if let Some(placing) = &mut self.placing {
            placing.end_all(peer);
        }
        self.drop_rings(peer);
        if !self.limits.shared {
            for (index, owner) in self.posted_to.iter_mut().enumerate() {
                if *owner == peer {
                    *owner = usize::MAX;
                    self.free_receives.push(index);
                }
            }
        }
        let state = &mut self.peers[peer];
        self.given -= std::mem::take(&mut state.receives);
        self.grown -= std::mem::take(&mut state.grown);
        self.reclaimed = self.reclaimed.filter(|other| *other != peer);
        state.epoch = (state.epoch + 1) & 0x00ff_ffff;
        (state.operations, state.held, state.credits) = (0, 0, Credits::default());
        (state.gone, state.lost) = (false, false);
        state.says.clear();
    }

    /// Takes the events of RDMA CM.
    pub(super) fn take_events(&mut self) {
        for _ in 0..EVENTS_MAX {
            let mut event: *mut CmEvent = ptr::null_mut();
            // SAFETY: the channel is open, and does not block.
            if unsafe { (self.library.get_cm_event)(self.bound.channel, &raw mut event) } != 0 {
                return;
            }
            // SAFETY: the library has made the event, which stays until it is given back, with the data that
            // came along.
            let (id, kind, status, reads, private) = unsafe {
                let CmEvent { id, event: kind, status, connection, .. } = &*event;
                let told = !connection.private_data.is_null() && connection.private_bytes > 0;
                let private = match *kind {
                    EVENT_CONNECT_REQUEST | EVENT_ESTABLISHED | EVENT_REJECTED if told => {
                        let bytes = connection.private_data.cast::<u8>();
                        std::slice::from_raw_parts(bytes, connection.private_bytes.into()).to_vec()
                    }
                    _ => Vec::new(),
                };
                (*id, *kind, *status, (connection.responder_resources, connection.initiator_depth), private)
            };
            // SAFETY: the event is given back once, and not looked at again.
            unsafe { (self.library.ack_cm_event)(event) };
            self.take_event(id, kind, status, reads, Greeting::decode(&private));
        }
    }

    pub(super) fn take_event(
        &mut self,
        id: *mut CmId,
        kind: c_int,
        status: c_int,
        reads: (u8, u8),
        greeting: Option<Greeting>,
    ) {
        if kind == EVENT_CONNECT_REQUEST {
            let Some(greeting) = greeting.filter(|greeting| greeting.token == self.token) else {
                self.rejected += 1;
                return self.refuse(id, 0, Reason::Other);
            };
            return match self.by_name.get(&greeting.name) {
                Some(peer) => self.event(*peer, Event::Request, Some((id, greeting, reads))),
                // This end has still to read the peer's endpoint address.
                None => self.refuse(id, 0, Reason::Later),
            };
        }
        if kind == EVENT_DEVICE_REMOVAL {
            let all: Vec<usize> = self.by_qp.values().copied().collect();
            all.into_iter().for_each(|peer| self.fail(peer, Event::Failed, "the device is gone"));
            return;
        }
        // SAFETY: the library reports events of open identifiers only.
        let Some(peer) = (unsafe { (*id).context } as usize).checked_sub(1) else { return };
        if self.peers.get(peer).is_none_or(|peer| peer.id != id) {
            return;
        }
        let said = io::Error::from_raw_os_error(status.saturating_abs());
        match kind {
            EVENT_ADDR_RESOLVED => {
                // SAFETY: the identifier is open.
                let code = unsafe { (self.library.resolve_route)(id, RESOLVE_MS) };
                let refusal = (code != 0).then(|| failed("rdma_resolve_route"));
                refusal.into_iter().for_each(|why| self.fail(peer, Event::Failed, &why));
            }
            EVENT_ROUTE_RESOLVED => {
                if let Err(why) = self.request(peer) {
                    self.fail(peer, Event::Failed, &why);
                }
            }
            EVENT_ESTABLISHED => {
                if self.peers[peer].pair.state() == State::Connecting {
                    // The acceptance says how many packets may be sent.
                    let Some(greeting) = greeting else {
                        return self.fail(peer, Event::Failed, "what listens there is no process of this job");
                    };
                    self.peers[peer].credits = Credits::new(greeting.window);
                }
                self.event(peer, Event::Established, None);
            }
            EVENT_REJECTED => {
                let reason = greeting.and_then(|greeting| greeting.refusal).unwrap_or(Reason::Other);
                self.fail(peer, Event::Refused(reason), &format!("it was refused (status {status})"));
            }
            EVENT_ADDR_ERROR | EVENT_ROUTE_ERROR | EVENT_CONNECT_ERROR | EVENT_UNREACHABLE => {
                let (what, is_late) = match kind {
                    EVENT_ADDR_ERROR => ("its address is not resolved", false),
                    EVENT_ROUTE_ERROR => ("there is no route", false),
                    EVENT_CONNECT_ERROR => ("it cannot be established", false),
                    _ => ("it is not reached", status.saturating_abs() == libc::ETIMEDOUT),
                };
                let event = if is_late { Event::Late } else { Event::Failed };
                self.fail(peer, event, &format!("{what}: {said}"));
            }
            EVENT_DISCONNECTED => self.note_gone(peer),
            _ => {}
        }
    }

    pub(super) fn note_gone(&mut self, peer: usize) {
        self.peers[peer].gone = true;
        if !self.changing.contains(&peer) {
            self.changing.push(peer);
        }
    }

    /// Returns the time until the next deadline of a connection.
    pub(super) fn quiet(&self) -> Option<Duration> {
        let next = self.changing.iter().filter_map(|peer| self.peers[*peer].pair.next()).min()?;
        let now = clock::now();
        Some(Duration(next.0.saturating_sub(now.0)))
    }

    /// Acts on deadlines, and on connections that are gone and whose messages have all been taken.
    pub(super) fn look_after_changing(&mut self) {
        let now = clock::now();
        let mut index = 0;
        while let Some(peer) = self.changing.get(index).copied() {
            if self.peers[peer].gone {
                self.peers[peer].gone = false;
                let Peer { held, lost, .. } = &self.peers[peer];
                let held = *held > 0 || *lost;
                self.event(peer, Event::Disconnected { held }, None);
            }
            if self.peers[peer].pair.is_late(now) {
                self.event(peer, Event::Late, None);
            }
            if self.peers[peer].pair.must_nudge(now) {
                self.nudge(peer);
            }
            if self.is_changing(peer) {
                index += 1;
            } else {
                self.changing.swap_remove(index);
            }
        }
    }
}
