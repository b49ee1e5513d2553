//! Makes a program that fails smaller, as long as it still fails: leaves out roles, blocks and operations,
//! makes messages shorter and plainer, and takes away faults.

use super::program::{Block, How, Message, Program, Role};
use super::shape::Shape;
use weft_core::multicast::Scheme;
use weft_engine::request::Mode;

/// The most programs that are tried.
const TRIES_MAX: u32 = 3_000;

/// Finds the smallest program that still fails. Returns the program and the number of programs that were
/// tried.
pub(super) fn shrink(program: &Program, fails: &mut dyn FnMut(&Program) -> bool) -> (Program, u32) {
    let mut best = program.clone();
    let mut tries = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best) {
            if tries >= TRIES_MAX {
                return (best, tries);
            }
            tries += 1;
            if fails(&candidate) {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(smaller) => best = smaller,
            None => return (best, tries),
        }
    }
}

/// The programs that are one step smaller, the largest steps first.
fn candidates(program: &Program) -> impl Iterator<Item = Program> + use<> {
    let mut found: Vec<Program> = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut other = program.clone();
        change(&mut other);
        found.push(other);
    };
    for role in 0..program.roles.len() {
        if program.roles.len() > 1 {
            with(&|other| drop(other.roles.remove(role)));
        }
        for block in 0..program.roles[role].blocks.len() {
            with(&|other| drop(other.roles[role].blocks.remove(block)));
        }
    }
    for at in 0..program.machine.wires.nuisances.len() {
        with(&|other| drop(other.machine.wires.nuisances.remove(at)));
    }
    for (role, Role { blocks, .. }) in program.roles.iter().enumerate() {
        for (at, block) in blocks.iter().enumerate() {
            let parts = parts(block);
            // Leave out halves, quarters and so on, then each operation alone.
            let mut length = parts / 2;
            while length > 0 {
                for start in (0..parts).step_by(length) {
                    let end = (start + length).min(parts);
                    with(&|other| remove(&mut other.roles[role].blocks[at], start, end));
                }
                length /= 2;
            }
        }
    }
    settings(program, &mut with);
    for (role, Role { blocks, .. }) in program.roles.iter().enumerate() {
        for (at, block) in blocks.iter().enumerate() {
            for message in 0..messages(block).map_or(0, <[Message]>::len) {
                for change in PLAINER {
                    with(&|other| {
                        if let Some(messages) = messages_mut(&mut other.roles[role].blocks[at]) {
                            change(&mut messages[message]);
                        }
                    });
                }
            }
        }
    }
    let before = format!("{program:?}");
    found.into_iter().filter(move |other| format!("{other:?}") != before)
}

/// A step that makes a program smaller.
type Change<'a> = &'a dyn Fn(&mut Program);

/// Tries the changes that make a machine plainer.
fn settings(program: &Program, with: &mut dyn FnMut(Change<'_>)) {
    with(&|other| other.machine.turns = 0);
    with(&|other| other.machine.contended = 0);
    with(&|other| (other.machine.habits.refused, other.machine.habits.delay_max) = (0, 0));
    with(&|other| other.machine.habits.entries = 64);
    with(&|other| (other.machine.wires.refused, other.machine.wires.joins) = (0, false));
    with(&|other| other.machine.sealed = false);
    with(&|other| other.machine.single_copy = false);
    with(&|other| (other.machine.raw, other.machine.has_udp) = (0, true));
    with(&|other| other.machine.wires.multicast = None);
    with(&|other| other.machine.wires.multicast.iter_mut().for_each(|multicast| multicast.scheme = Scheme::WINDOW));
    with(&|other| other.machine.wires.ordered = None);
    with(&|other| other.machine.wires.ordered.iter_mut().for_each(|ordered| ordered.breaks = None));
    with(&|other| other.machine.wires.ordered.iter_mut().for_each(|ordered| ordered.stalls = None));
    with(&|other| other.machine.wires.ordered.iter_mut().for_each(|ordered| ordered.room = 256));
    with(&|other| other.machine.wires.ordered.iter_mut().for_each(|ordered| ordered.placing = None));
    with(&|other| other.pace.pause = None);
    with(&|other| other.pace.stop = None);
    with(&|other| other.pace.helps = false);
    with(&|other| other.pace.spins_max = 0);
    with(&|other| other.pace.spins_like_the_library = false);
    if program.death.is_some() {
        with(&|other| other.death = None);
    }
}

/// The changes that make a message plainer.
const PLAINER: [fn(&mut Message); 7] = [
    |message| (message.send_shape, message.receive_shape) = (Shape::Plain, Shape::Plain),
    |message| message.compute = (0, 0),
    |message| message.mode = Mode::Standard,
    |message| (message.bytes, message.room) = (message.bytes / 2, message.bytes / 2),
    |message| message.room = message.bytes,
    |message| (message.send, message.receive) = (How::Later(0), How::Later(0)),
    |message| message.any_tag = false,
];

fn messages(block: &Block) -> Option<&[Message]> {
    match block {
        Block::Ordered(messages) | Block::Persistent { messages, .. } | Block::Wild { messages, .. } => Some(messages),
        Block::Cancelled(_) | Block::Collectives { .. } | Block::Window(_) => None,
    }
}

fn messages_mut(block: &mut Block) -> Option<&mut Vec<Message>> {
    match block {
        Block::Ordered(messages) | Block::Persistent { messages, .. } | Block::Wild { messages, .. } => Some(messages),
        Block::Cancelled(_) | Block::Collectives { .. } | Block::Window(_) => None,
    }
}

/// The number of operations that can be left out.
fn parts(block: &Block) -> usize {
    match block {
        Block::Wild { messages, receives, .. } => messages.len() + receives.len(),
        Block::Collectives { list, .. } => list.len(),
        Block::Window(block) => block.acts(),
        _ => messages(block).map_or(0, <[Message]>::len),
    }
}

/// Leaves out the operations from `start` to `end`.
fn remove(block: &mut Block, start: usize, end: usize) {
    match block {
        Block::Wild { messages, receives, .. } => {
            let count = messages.len();
            receives.drain(start.max(count) - count..end.max(count) - count);
            messages.drain(start.min(count)..end.min(count));
        }
        Block::Collectives { list, .. } => drop(list.drain(start..end)),
        Block::Window(block) => block.remove(start, end),
        _ => {
            if let Some(messages) = messages_mut(block) {
                messages.drain(start..end);
            }
        }
    }
}
