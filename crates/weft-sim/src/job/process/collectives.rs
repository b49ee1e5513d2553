//! Collective operations of a simulated process: they begin on buffers of their own, and are checked when
//! they are over.

use super::{Checked, Proc};
use crate::job::collectives::{Array, View, item};
use crate::job::construct::{Carriers, SimEngine, Slot};
use crate::job::machine;
use crate::job::program::{Collective, Comm, Kind, Step};
use std::sync::Arc;
use weft_engine::arguments::{Arguments, CollectiveScope, Operation};
use weft_engine::group::Group;
use weft_engine::memory::{Bound, Scratch, SharedBuffer};
use weft_engine::request::State;
use weft_engine::schedules::{Cursor, Progress};
use weft_plan::collective::choice::{Layout as Places, Multicast};

/// A collective under way.
pub(super) struct Running {
    id: u32,
    collective: Collective,
    request: usize,
    cursor: Cursor,
    outcome: Option<Result<(), String>>,
    send: Array,
    receive: Array,
    sent: Vec<(u64, Vec<u8>)>,
    /// The content of the receive buffer at the end; `None` if the standard leaves it open.
    expected: Option<Vec<(u64, Vec<u8>)>>,
}

impl Running {
    /// Advances the collective as far as possible.
    pub(super) fn advance(&mut self, engine: &mut SimEngine) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = match self.cursor.advance(engine) {
            Progress::Waits => return,
            Progress::Complete => Some(Ok(())),
            Progress::Failed(error) => Some(Err(error.to_string())),
        };
        engine.messages.complete(self.request);
    }
}

impl Proc {
    /// The places of the processes of a communicator, and the means by which this process may do a
    /// collective; `None`, at all of them alike, if they plan without their places.
    fn layout(&self, comm: &Comm, slot: Slot) -> Option<Places> {
        let nodes = machine::members(&self.nodes, &comm.members);
        let multicast = self.uses_multicast && nodes.iter().any(|node| *node > 0);
        if !multicast && slot == Slot::None {
            return None;
        }
        let places = Places::of(nodes).with_multicast(if multicast { Multicast::Asked } else { Multicast::No });
        let published_max = slot.number().map(|slot| self.engine.published_max(slot));
        Some(places.with_published_max(published_max).with_copies(self.single_copy))
    }

    /// Begins a collective.
    pub(super) fn start_collective(&mut self, role: usize, step: &Step, collective: &Collective) -> Checked<()> {
        let members: Vec<_> = self.comms[role][step.comm].members.iter().map(|member| self.peer(*member)).collect();
        let part = collective.part.map(|part| part.ranks());
        let members = match &part {
            Some(ranks) => ranks.iter().map(|rank| members[*rank as usize]).collect(),
            None => members,
        };
        let group = Group::new(members, self.peer(self.rank));
        let Some(rank) = group.rank else { return Err("a collective of others".into()) };
        let reduces = !matches!(
            collective.kind,
            Kind::Barrier
                | Kind::Bcast
                | Kind::Gather
                | Kind::Gatherv
                | Kind::Scatter
                | Kind::Scatterv
                | Kind::Allgather
                | Kind::Allgatherv
                | Kind::Alltoall
                | Kind::Alltoallv
                | Kind::Alltoallw
        );
        // A predefined operation has a predefined datatype.
        let collective = Collective { strided: collective.strided && !reduces, ..*collective };
        let slot = self.slots[role][step.comm];
        let places = if part.is_some() { None } else { self.layout(&self.comms[role][step.comm], slot) };
        let view = View::new(collective, rank, group.size(), places);
        let plan = view.plan();
        let send = Array::new(plan.send_items, collective.strided, u64::from(collective.id) | 1 << 58);
        let receive = Array::new(plan.receive_items, collective.strided, u64::from(collective.id) | 1 << 57);
        plan.send.iter().for_each(|(first, packed)| send.put(*first, packed));
        if collective.kind == Kind::Bcast && rank as usize == collective.root {
            plan.expected.iter().flatten().for_each(|(first, packed)| receive.put(*first, packed));
        }
        let scratch = SharedBuffer::new(plan.schedule.scratch as usize);
        for buffer in [&send.buffer, &receive.buffer, &scratch] {
            self.memory.register(Carriers::pid(self.rank), buffer);
        }
        let of = item(collective.strided);
        let arguments = Arguments {
            send: send.address(),
            receive: receive.address(),
            send_type: Some(of.clone()),
            receive_type: Some(of.clone()),
            send_types: vec![of.clone(); group.members.len()],
            receive_types: vec![of; group.members.len()],
            operation: Some(Operation::Predefined(view.op())),
        };
        let scope = CollectiveScope {
            communicator: 0,
            context: step.context + 1,
            // Collectives of whole communicators have the other tags.
            tag: if part.is_some() { 0 } else { collective.id as i32 },
            group,
            rank,
            sources: part.map(Arc::from),
            turn: slot
                .number()
                .filter(|_| plan.schedule.phases > 0)
                .and_then(|slot| self.engine.node_collectives().take_turn(slot, plan.schedule.phases)),
        };
        let request = self.engine.messages.add(State::Collective, 0).map_err(|error| error.to_string())?;
        let cursor = {
            let bound = Arc::new(Bound::shared(plan.schedule, arguments));
            Cursor::in_scratch(scope, bound, Scratch::shared(scratch))
        };
        *self.entered.borrow_mut().entry(collective.id).or_default() += 1;
        let mut running = Running {
            id: collective.id,
            collective,
            request,
            cursor,
            outcome: None,
            send,
            receive,
            sent: plan.send,
            expected: plan.expected,
        };
        running.advance(&mut self.engine);
        self.running.push(running);
        Ok(())
    }

    /// Returns whether a collective is complete; checks its result when it is.
    pub(super) fn end_collective(&mut self, id: u32) -> Checked<bool> {
        let Some(at) = self.running.iter().position(|running| running.id == id) else {
            return Err(format!("collective {id} is gone"));
        };
        if self.running[at].outcome.is_none() {
            return Ok(false);
        }
        let Running { collective, request, cursor, outcome, send, receive, sent, expected, .. } =
            self.running.remove(at);
        self.engine.messages.forget(request);
        let size = cursor.scope().group.size() as usize;
        cursor.abandon(&mut self.engine);
        let wrong = |what: String| format!("{collective:?}: {what}");
        if let Some(Err(error)) = outcome {
            return Err(wrong(error));
        }
        if collective.kind == Kind::Barrier && self.entered.borrow().get(&id) != Some(&size) {
            return Err(wrong("one has left before all have entered".into()));
        }
        send.check(&sent).map_err(|what| wrong(format!("the send buffer: {what}")))?;
        if let Some(expected) = expected {
            receive.check(&expected).map_err(|what| wrong(format!("the receive buffer: {what}")))?;
        }
        Ok(true)
    }
}
