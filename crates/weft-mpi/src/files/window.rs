//! The bytes of the processes in the window of an aggregator (`weft_plan::two_phase::window`): in messages,
//! or in this process's own memory.

use weft_plan::two_phase::window;

use crate::memory::{SharedBuffer, UserData};

/// The window of an aggregator.
pub(super) type Window = window::Window<Held>;

/// The place of the bytes of one process.
pub(super) enum Held {
    /// They come from the process with this rank, or go there.
    Message(u32, SharedBuffer),
    /// They are this process's own.
    Own(UserData),
}

impl window::Held for Held {
    fn read_with(&self, used: &mut dyn FnMut(&mut window::Read<'_>)) {
        match self {
            Self::Own(data) => used(&mut |at, to| data.read(at, to)),
            Self::Message(_, buffer) => buffer.with_bytes(|from| {
                used(&mut |at, to| to.copy_from_slice(&from[at as usize..][..to.len()]));
            }),
        }
    }

    fn write_with(&self, used: &mut dyn FnMut(&mut window::Write<'_>)) {
        match self {
            Self::Own(data) => used(&mut |at, from| data.write(at, from)),
            Self::Message(_, buffer) => buffer.with_bytes_mut(|to| {
                used(&mut |at, from| to[at as usize..][..from.len()].copy_from_slice(from));
            }),
        }
    }
}

/// The messages from or to the other processes.
pub(super) fn messages(window: &Window) -> Vec<(u32, UserData)> {
    let message = |held: &Held| match held {
        Held::Message(rank, buffer) => Some((*rank, buffer.describe_all())),
        Held::Own(_) => None,
    };
    window.held().filter_map(message).collect()
}

/// The memory of these messages.
pub(super) fn buffers(window: &Window) -> Vec<SharedBuffer> {
    let buffer = |held: &Held| match held {
        Held::Message(_, buffer) => Some(buffer.clone()),
        Held::Own(_) => None,
    };
    window.held().filter_map(buffer).collect()
}
