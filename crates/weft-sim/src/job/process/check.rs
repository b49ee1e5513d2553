//! The conditions that every process must meet at all times, and at the end.

use super::{Checked, Proc};
use crate::job::construct::UNEXPECTED_BYTES;
use crate::job::shape::content;
use std::collections::BTreeMap;
use weft_core::connection::Connection;
use weft_core::flow::Counters;
use weft_engine::carriers::Remote;
use weft_engine::group::PeerId;
use weft_engine::messages::CREDIT_BYTES;

/// Turns of a process between two checks of everything that it holds.
const LOOK_EVERY: u64 = 64;
/// The most memory of a flow that is at work, bytes: twice the bytes that its queue may hold before sends
/// wait, with one more message.
const FLOW_BYTES_MAX: usize = 16 << 20;

impl Proc {
    /// Checks that the memory of this process is bounded, and that no peer has sent malformed frames.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub(super) fn check_bounds(&mut self) -> Checked<()> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        if self.engine.messages.malformed_frames > 0 {
            return Err("a process has been sent what makes no sense, by one of its own job".into());
        }
        // What was asked for anew may have been on its way.
        let is_late = |what: &str| what == "region-closed" && self.engine.messages.asked_anew > 0;
        let refused = self.engine.messages.regions.refused().find(|(what, count)| *count > 0 && !is_late(what));
        if let Some((what, count)) = refused {
            return Err(format!("{count} accesses to memory were refused: {what}"));
        }
        self.turns += 1;
        if !self.turns.is_multiple_of(LOOK_EVERY) {
            return Ok(());
        }
        let mut held = BTreeMap::<PeerId, u64>::new();
        for (_, message) in self.engine.messages.unexpected.iter() {
            *held.entry(message.peer).or_default() += message.held_bytes();
        }
        if let Some((peer, bytes)) = held.into_iter().find(|(_, bytes)| *bytes > CREDIT_BYTES + UNEXPECTED_BYTES) {
            return Err(format!("{bytes} bytes of {peer:?} are kept, more than its credit and what is lent"));
        }
        let connections = self.connections().map(Connection::memory_bytes);
        let most = self.engine.flows().map(|flow| flow.memory_bytes()).chain(connections).max().unwrap_or(0);
        if most > FLOW_BYTES_MAX {
            return Err(format!("a flow holds {most} bytes"));
        }
        Ok(())
    }

    /// The connections to peers of other nodes.
    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.engine.remotes().filter_map(Remote::current_connection)
    }

    /// Checks at the end that nothing is left over, and that received bytes are as they were.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub(in crate::job) fn check_end(&mut self) -> Checked<()> {
        self.end_windows()?;
        let messages = &self.engine.messages;
        let requests = messages.requests.len();
        let mut left = Vec::new();
        let mut must_be_none = |what: &str, count: usize| {
            if count > 0 {
                left.push(format!("{count} {what}"));
            }
        };
        // One request stands for all sends that were complete at once.
        must_be_none("requests", requests - 1);
        must_be_none("receives in the matcher", messages.matcher.posted_count());
        must_be_none("operations under way", usize::from(messages.are_under_way()));
        must_be_none("grants", usize::from(!messages.grants.is_empty()));
        must_be_none("bytes granted", messages.grants.under_way() as usize);
        must_be_none("open regions", messages.regions.len());
        must_be_none("sends of the program", self.sends.len());
        must_be_none("receives of the program", self.receives.len());
        must_be_none("collectives", self.running.len());
        // A process that dies may have sent messages that no receive wants any more.
        if self.mortal.is_none() {
            must_be_none("messages that nobody has received", messages.matcher.unexpected_count());
            must_be_none("messages that are kept", messages.unexpected.len());
        }
        if !left.is_empty() {
            return Err(format!("in the end there are {}", left.join(", ")));
        }
        for connection in self.connections() {
            let Counters { malformed, unsealed, duplicates, forged, .. } = connection.counters();
            let repeated = if self.faithful { duplicates + forged } else { 0 };
            if malformed + unsealed + repeated > 0 {
                return Err(format!(
                    "a connection has had {malformed} malformed packets, {unsealed} that could not be decrypted, {forged} forged \
                     ones and {duplicates} twice, over a carrier that delivers each once as it was"
                ));
            }
        }
        for done in &self.received {
            let checked = done.placed.check(content(done.name, done.bytes));
            checked
                .map_err(|what| format!("message {:#x} was changed after it had been received: {what}", done.name))?;
        }
        Ok(())
    }
}
