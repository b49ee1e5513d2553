//! The messages of a collective operation, as messages from one process to another.

use weft_core::matching::Envelope;

use crate::arguments::CollectiveScope;
use crate::memory::UserData;
use crate::request::{Mode, Receive, Send};

impl CollectiveScope {
    /// The source in the envelopes of rank `rank`.
    fn source(&self, rank: u32) -> u32 {
        self.sources.as_ref().map_or(rank, |sources| sources[rank as usize])
    }

    /// A message from this process to rank `to`. The caller that starts it waits for its end.
    pub fn send(&self, to: u32, data: UserData) -> Send {
        Send {
            peer: Some(self.group.members[to as usize]),
            envelope: Envelope { context: self.context, source: self.source(self.rank), tag: self.tag },
            data,
            mode: Mode::Standard,
            blocking: true,
        }
    }

    /// A message from this process to one rank of each other node.
    pub fn multicast(&self, data: UserData) -> Send {
        Send {
            peer: None,
            envelope: Envelope { context: self.context, source: self.source(self.rank), tag: self.tag },
            data,
            mode: Mode::Standard,
            blocking: true,
        }
    }

    /// The receive of a message from rank `from`.
    pub fn receive(&self, from: u32, data: UserData) -> Receive {
        Receive {
            context: Some(self.context),
            source: Some(self.source(from)),
            peer: Some(self.group.members[from as usize]),
            tag: Some(self.tag),
            data,
            blocking: true,
        }
    }
}
