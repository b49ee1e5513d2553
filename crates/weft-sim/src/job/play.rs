//! Plays a program to its end: gives each process its turns, and checks what must hold.

use super::construct::Carriers;
use super::process::Proc;
use super::program::Program;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use weft_random::{Random, mix};

/// The longest run in virtual time: a process that waits longer waits for ever.
const TIME_MAX_NS: u64 = 120_000_000_000;
/// The most turns of a run.
const TURNS_MAX: u64 = 20_000_000;

/// The counts of events in a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Virtual nanoseconds.
    pub nanoseconds: u64,
    /// Turns of threads.
    pub turns: u64,
    /// Calls of the program.
    pub calls: u64,
    /// Packets that were sent between nodes.
    pub packets: u64,
    /// Packets over carriers that deliver each packet once and in order; `packets` counts them as well.
    pub connected: u64,
    /// Packets on the long paths of flows; `packets` counts them as well.
    pub long: u64,
    /// Packets that were sent to multicast groups.
    pub grouped: u64,
    /// Pieces of messages that carriers have written to memory of peers.
    pub placed: u64,
    /// Messages that carriers have written before their receivers asked for them.
    pub written_eagerly: u64,
    /// Announced messages that were relocated.
    pub relocated: u64,
    /// Messages that were asked for anew, since a carrier beside others did not write them.
    pub anew: u64,
    /// Frames between processes of a node.
    pub frames: u64,
    /// Receives that their senders wrote to.
    pub written: u64,
    /// Pieces of messages that the sender copied while the receiver copied as well.
    pub shared: u64,
    /// Copies between the memory of two processes.
    pub copies: u64,
}

impl Played {
    /// Adds the counts of another job.
    pub fn add(&mut self, other: &Self) {
        self.nanoseconds += other.nanoseconds;
        self.turns += other.turns;
        self.calls += other.calls;
        self.packets += other.packets;
        self.connected += other.connected;
        self.long += other.long;
        self.grouped += other.grouped;
        self.placed += other.placed;
        self.written_eagerly += other.written_eagerly;
        self.relocated += other.relocated;
        self.anew += other.anew;
        self.frames += other.frames;
        self.written += other.written;
        self.shared += other.shared;
        self.copies += other.copies;
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            nanoseconds,
            turns,
            calls,
            packets,
            connected,
            long,
            grouped,
            placed,
            written_eagerly,
            relocated,
            anew,
            frames,
            written,
            shared,
            copies,
        } = self;
        write!(
            f,
            "{calls} calls and {turns} turns in {} us; {packets} packets, {connected} of them over connections, {long} on long paths, {grouped} to groups, {placed} pieces written by carriers, {anew} messages asked for anew, {frames} frames, {copies} single copies, {written} \
             receives written to, {shared} pieces copied from the other side, {relocated} messages relocated, {written_eagerly} written eagerly",
            nanoseconds / 1000
        )
    }
}

/// Returns whether all that a process has sent is there.
fn is_quiet(proc: &Proc) -> bool {
    proc.engine.is_quiet() && !proc.engine.keeps_messages()
}

struct Job {
    procs: Vec<Rc<RefCell<Proc>>>,
    random: Random,
    turns: u64,
    /// The time of each process's next turn, and the thread that has it.
    next: Vec<Option<(u64, usize)>>,
}

/// Plays a program.
///
/// # Errors
/// The first check that failed.
pub(super) fn play(program: &Program, trace: bool) -> Result<Played, String> {
    let carriers = Carriers::new(&program.machine, mix(program.seed ^ 0x6a6f_6273));
    // A panic of the engine is a finding as well.
    let played = catch_unwind(AssertUnwindSafe(|| Job::new(program, &carriers, trace).play(program, &carriers)));
    carriers.moments.end();
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without words")))
    })
}

impl Job {
    fn new(program: &Program, carriers: &Carriers, trace: bool) -> Self {
        let ranks = program.machine.ranks();
        let proc = |rank| Rc::new(RefCell::new(Proc::new(program, carriers, rank, trace)));
        let procs: Vec<Rc<RefCell<Proc>>> = (0..ranks).map(proc).collect();
        let others: Vec<_> = procs.iter().map(Rc::downgrade).collect();
        let clock = carriers.clock.clone();
        carriers.moments.set_turn(Box::new(move |chance| {
            let rank = (chance % others.len() as u64) as usize;
            // A process that is in the middle of its own turn gets none.
            if let Some(mut other) = others[rank].upgrade().as_ref().and_then(|other| other.try_borrow_mut().ok()) {
                other.take_turn();
                clock.touch(rank);
            }
        }));
        (0..ranks).for_each(|rank| carriers.clock.touch(rank));
        let next = vec![None; ranks];
        Self { procs, next, random: Random::new(mix(program.seed ^ 0x7475_726e)), turns: 0 }
    }

    fn play(mut self, program: &Program, carriers: &Carriers) -> Result<Played, String> {
        let mut death = program.death;
        loop {
            let now = carriers.clock.now();
            if let Some(dies) = death.filter(|death| death.at <= now) {
                death = None;
                self.die(dies.rank, program, carriers);
            }
            let touched = carriers.clock.take_touched();
            let mut next: Option<u64> = None;
            let mut ready = Vec::new();
            for (rank, proc) in self.procs.iter().enumerate() {
                if touched >> rank & 1 != 0 {
                    self.next[rank] = proc.borrow().next_turn();
                }
                let Some((at, who)) = self.next[rank] else { continue };
                let at = program.pace.turn_at(rank, at.max(now));
                if at <= now {
                    ready.push((rank, who));
                }
                next = Some(next.map_or(at, |next| next.min(at)));
            }
            if let [only] = ready[..] {
                self.turn(only, carriers)?;
                continue;
            }
            if !ready.is_empty() {
                let chosen = ready[self.random.below(ready.len() as u64) as usize];
                self.turn(chosen, carriers)?;
                continue;
            }
            if self.is_over(carriers)? {
                return self.conclude(program, carriers);
            }
            let next = next.into_iter().chain(death.map(|death| death.at)).min();
            match next {
                Some(at) if at <= TIME_MAX_NS && self.turns <= TURNS_MAX => carriers.clock.set(at),
                Some(_) => return Err(self.hang("it takes too long")),
                None => return Err(self.hang("nobody has anything to do")),
            }
        }
    }

    fn turn(&mut self, (rank, who): (usize, usize), carriers: &Carriers) -> Result<(), String> {
        self.turns += 1;
        carriers.clock.touch(rank);
        let turn = self.procs[rank].borrow_mut().turn(who);
        turn.map_err(|what| format!("process {rank}: {what}"))
    }

    fn die(&mut self, rank: usize, program: &Program, carriers: &Carriers) {
        let mut proc = self.procs[rank].borrow_mut();
        proc.note(|| "dies".into());
        proc.dead = true;
        carriers.clock.touch(rank);
        carriers.network.die(rank);
        carriers.memory.refuse(Carriers::pid(rank));
        carriers.nodes[program.machine.nodes[rank]].borrow_mut().die(carriers.local_ranks[rank]);
    }

    fn living(&self) -> impl Iterator<Item = &Rc<RefCell<Proc>>> {
        self.procs.iter().filter(|proc| !proc.borrow().dead)
    }

    /// Returns whether all processes wait for each other at the end, and no packet is on its way.
    fn is_over(&self, carriers: &Carriers) -> Result<bool, String> {
        for proc in self.living().map(|proc| proc.borrow()).filter(|proc| proc.finalizes && is_quiet(proc)) {
            let waiting = carriers.network.waiting(proc.rank);
            if waiting > 0 {
                return Err(format!(
                    "process {} could end now, though {waiting} of its packets have not left",
                    proc.rank
                ));
            }
        }
        // A send that the program has freed ends here, as in MPI_Finalize: its receiver may owe the copy.
        // A process may end without having heard of a death on another node. Here it stays until it has: what
        // it does for the dead must come to an end.
        let is_at_work = |proc: &Proc| proc.engine.messages.are_under_way();
        Ok(self.living().all(|proc| proc.borrow().finalizes)
            && self.living().all(|proc| is_quiet(&proc.borrow()))
            && !self.living().any(|proc| is_at_work(&proc.borrow()))
            && !self.living().any(|proc| carriers.network.is_expected(proc.borrow().rank))
            && carriers.nodes.iter().all(|node| node.borrow().is_empty()))
    }

    fn hang(&self, why: &str) -> String {
        let stand: Vec<String> = self.living().map(|proc| proc.borrow().stands()).collect();
        format!("{why}:\n    {}", stand.join("\n    "))
    }

    fn conclude(&self, program: &Program, carriers: &Carriers) -> Result<Played, String> {
        let mut played = Played {
            nanoseconds: carriers.clock.now(),
            turns: self.turns,
            packets: carriers.network.packets(),
            long: carriers.network.long(),
            grouped: carriers.network.grouped(),
            placed: carriers.network.placed(),
            copies: carriers.memory.copies(),
            ..Played::default()
        };
        if carriers.network.is_ordered() {
            played.connected = played.packets;
        }
        for node in &carriers.nodes {
            let node = node.borrow();
            played.frames += node.frames;
            played.written += node.taken;
            played.shared += node.shared;
        }
        for proc in &self.procs {
            let proc = &mut *proc.borrow_mut();
            played.calls += proc.calls;
            played.written_eagerly += proc.engine.messages.written_eagerly;
            played.relocated += proc.engine.messages.relocated;
            played.anew += proc.engine.messages.asked_anew;
            if !proc.dead {
                let rank = proc.rank;
                proc.check_end().map_err(|what| format!("process {rank}: {what}"))?;
            }
        }
        self.check_credit()?;
        if played.anew > 0 && !program.may_ask_anew() {
            return Err(format!("{} messages were asked for anew, although nothing broke or stalled", played.anew));
        }
        Ok(played)
    }

    /// Checks the credit of each pair: what the sender may still send and what the receiver has not yet
    /// returned add up to the initial credit.
    fn check_credit(&self) -> Result<(), String> {
        use weft_engine::messages::CREDIT_BYTES;
        for (own, proc) in self.procs.iter().enumerate() {
            for (peer, other) in self.procs.iter().enumerate() {
                let (proc, other) = (proc.borrow(), other.borrow());
                if own == peer || proc.dead || other.dead || proc.mortal == Some(peer) {
                    continue;
                }
                let [_, _, credit] = proc.engine.peers[proc.peer(peer)].traffic();
                let owed = other.engine.peers[other.peer(own)].uncredited();
                if credit + owed != CREDIT_BYTES {
                    return Err(format!("process {own} may send {credit} bytes to {peer}, which owes {owed} more"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::draw::{self, DrawOptions};
    use crate::job::program::{Block, Comm, Death, How, Message, Pace, Role};
    use crate::job::shape::Shape;
    use weft_engine::request::Mode;

    fn message(id: u32, tag: i32, bytes: u64, any_tag: bool) -> Message {
        Message {
            id,
            comm: 0,
            from: 1,
            to: 0,
            tag,
            bytes,
            mode: Mode::Standard,
            send: How::Later(0),
            receive: How::Later(0),
            send_shape: Shape::Plain,
            receive_shape: Shape::Plain,
            room: bytes,
            any_source: false,
            any_tag,
            receive_first: false,
            compute: (0, 0),
        }
    }

    /// A program of two processes on one node: the second sends these messages to the first, and dies while
    /// the first rests.
    fn last_words(messages: Vec<Message>) -> Program {
        let mut program = draw::program(1, DrawOptions { ranks: Some(2) });
        program.machine.nodes = vec![0, 0];
        (program.machine.single_copy, program.machine.eager_limit) = (false, 1000);
        program.machine.habits.refused = 0;
        let pause = Some((100_000_000, 10_000_000));
        program.pace =
            Pace { step_max: 500, spins_max: 0, spins_like_the_library: false, helps: true, pause, stop: None };
        program.death = Some(Death { rank: 1, at: 1_000_000 });
        let comms = vec![Comm { members: vec![0, 1] }];
        program.roles = vec![Role { comms, blocks: vec![Block::Ordered(messages)] }];
        program
    }

    #[test]
    fn what_a_neighbour_has_sent_before_its_end_is_received_in_order() {
        play(&last_words(vec![message(1, 0, 10, false), message(2, 2, 20, true)]), false).unwrap();
    }

    #[test]
    fn what_a_neighbour_has_announced_before_its_end_fails() {
        play(&last_words(vec![message(1, 0, 5000, false)]), false).unwrap();
    }
}
