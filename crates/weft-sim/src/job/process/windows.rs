//! Makes the calls on windows at the engine, as `weft-mpi` does, and checks the result of each.

mod acts;

use super::{Checked, Proc};
use crate::job::construct::Carriers;
use crate::job::program::Step;
use crate::job::windows::{Truth, WindowBlock, WindowCall};
use acts::Pending;
use std::fmt;
use weft_engine::error::Error;
use weft_engine::group::Group;
use weft_engine::memory::{Exposed, SharedBuffer};
use weft_engine::windows::{ExposedMemory, Mark, NewWindow, Reach, Window};

/// A window that a process has open.
pub(super) struct LiveWindow {
    index: usize,
    block: Box<WindowBlock>,
    own: usize,
    members: Vec<usize>,
    /// Acts whose buffers still belong to the engine.
    pending: Vec<Pending>,
    /// The values that this process has added to the cells of each other process.
    added: Vec<Vec<u64>>,
    /// The last value of each process's replaced cell that this process has seen, and of the protected cell.
    seen: Vec<u64>,
    protected: u64,
    /// The values that this process has written to replaced cells: the buffers stay as long as the window.
    words: Vec<SharedBuffer>,
}

/// The event on a window that a thread waits for.
#[derive(Clone, Debug)]
pub(super) struct WindowWait {
    key: (usize, u32),
    what: Awaited,
}

#[derive(Clone, Debug)]
enum Awaited {
    /// All these marks. Then the buffers of the acts at this target, or at all targets, belong to the program
    /// again.
    Marks {
        marks: Vec<Mark>,
        target: Option<usize>,
        /// Says whether the bytes that were put there are in place as well.
        flushes: bool,
    },
    Request(u32),
    Post(usize),
    /// `MPI_Win_complete` of this process, for this epoch.
    Complete(usize, usize),
}

/// The event that a call waits for: these marks, of this target or of all.
type Begun = Result<Option<(Vec<Mark>, Option<usize>)>, Error>;

impl fmt::Display for WindowWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {} of role {}: {:?}", self.key.1, self.key.0, self.what)
    }
}

impl Proc {
    fn window(&mut self, key: (usize, u32)) -> Checked<(&mut Window, &mut LiveWindow)> {
        let live = self.windows.get_mut(&key).ok_or("a window is not open")?;
        let window = self.engine.windows.get_mut(live.index).ok_or("the engine does not have a window")?;
        Ok((window, live))
    }

    /// Begins a call. Returns the event that the call waits for, if it waits.
    pub(super) fn begin_on_window(
        &mut self,
        role: usize,
        step: &Step,
        id: u32,
        call: &WindowCall,
    ) -> Checked<Option<WindowWait>> {
        let key = (role, id);
        let flushes = match call {
            WindowCall::Flush { locally, .. } => !locally,
            WindowCall::Finish | WindowCall::Unlock(_) | WindowCall::UnlockAll => true,
            _ => false,
        };
        let begun = match call {
            WindowCall::Open(block) => return self.open_window(role, step, block).map(|()| None),
            WindowCall::Close => return self.close_window(key).map(|()| None),
            WindowCall::Act { act, epoch } => return self.act(key, act, *epoch).map(|()| None),
            WindowCall::AwaitRequest(act) => return Ok(Some(WindowWait { key, what: Awaited::Request(*act) })),
            WindowCall::WriteProtected(target) => return self.write_protected(key, *target).map(|()| None),
            WindowCall::Flush { target, locally } => self.flush_window(key, *target, *locally),
            WindowCall::Finish => {
                self.window(key)?.0.finish_unanswered();
                self.flush_window(key, None, false)
            }
            WindowCall::Lock { target, exclusive } => self.lock_window(key, &[*target], *exclusive),
            WindowCall::LockAll => {
                let all: Vec<usize> = (0..self.window(key)?.1.members.len()).collect();
                self.lock_window(key, &all, false)
            }
            WindowCall::Unlock(target) => self.unlock_window(key, Some(*target)),
            WindowCall::UnlockAll => self.unlock_window(key, None),
            WindowCall::Post(to) => {
                let index = self.window(key)?.1.index;
                self.window(key)?.0.await_ranks(&[*to as u32]);
                self.engine.one_sided().post_to(index, *to as u32).map(|()| None)
            }
            WindowCall::Start(to) => {
                self.window(key)?.0.await_ranks(&[*to as u32]);
                return Ok(Some(WindowWait { key, what: Awaited::Post(*to) }));
            }
            WindowCall::Complete(to) => {
                let index = self.window(key)?.1.index;
                let told = self.engine.one_sided().complete_at(index, *to as u32);
                told.and_then(|()| {
                    Ok(Some((vec![self.engine.one_sided().send_collected(index, *to as u32)?], Some(*to))))
                })
            }
            WindowCall::Wait(from, epoch) => {
                return Ok(Some(WindowWait { key, what: Awaited::Complete(*from, *epoch) }));
            }
        };
        match begun {
            Ok(Some((marks, target))) => Ok(Some(WindowWait { key, what: Awaited::Marks { marks, target, flushes } })),
            Ok(None) => Ok(None),
            Err(error) => {
                self.excuse(&error)?;
                let mortal = self.mortal;
                let live = self.window(key)?.1;
                let dead = live.members.iter().position(|member| Some(*member) == mortal);
                dead.into_iter().for_each(|dead| live.give_up(dead));
                Ok(None)
            }
        }
    }

    fn excuse(&self, error: &Error) -> Checked<()> {
        if self.may_fail(error) { Ok(()) } else { Err(format!("a call on a window fails: {error}")) }
    }

    fn open_window(&mut self, role: usize, step: &Step, block: &WindowBlock) -> Checked<()> {
        let members = self.comms[role][step.comm].members.clone();
        let own = members.iter().position(|member| *member == self.rank).ok_or("a window of others")?;
        let truths = self.truths.clone();
        let mut truths = truths.borrow_mut();
        let truth = truths.entry((role, block.id)).or_insert_with(|| Truth::new(block, members.len()));
        let exposed: Vec<Exposed> = truth.parts.iter().map(|part| Exposed::of_buffer(&part.buffer)).collect();
        self.memory.register(Carriers::pid(self.rank), &truth.parts[own].buffer);
        let reach = |(rank, exposed): (usize, &Exposed)| {
            let near = self.engine.is_near(self.peer(members[rank]));
            if rank == own || block.is_mapped && near {
                Reach::Mapped(*exposed)
            } else {
                let peer = self.peer(members[rank]);
                self.engine.one_sided().neighbour_reach(peer, exposed.address(), exposed.len())
            }
        };
        let reaches = exposed.iter().enumerate().map(reach).collect();
        let group = Group::new(members.iter().map(|member| self.peer(*member)).collect(), self.peer(self.rank));
        let index = self.engine.one_sided().open_window(NewWindow {
            context: step.context,
            communicator: step.context as usize,
            group,
            rank: own as u32,
            exposed_memory: ExposedMemory::Whole(exposed[own]),
            reaches,
        });
        truth.parts[own].remote = self.engine.one_sided().expose_window(index);
        let live = LiveWindow {
            index,
            block: Box::new(block.clone()),
            own,
            pending: Vec::new(),
            added: vec![vec![0; block.row as usize]; members.len()],
            seen: vec![0; members.len()],
            protected: 0,
            words: Vec::new(),
            members,
        };
        self.windows.insert((role, block.id), live);
        Ok(())
    }

    fn close_window(&mut self, key: (usize, u32)) -> Checked<()> {
        self.check_window(key)?;
        let Some(live) = self.windows.remove(&key) else { return Ok(()) };
        let truths = self.truths.borrow();
        self.memory.forget(Carriers::pid(self.rank), &truths[&key].parts[live.own].buffer);
        self.engine.one_sided().close_window(live.index);
        Ok(())
    }

    /// Checks that every act that any process has called on a window has been done.
    fn check_window(&self, key: (usize, u32)) -> Checked<()> {
        let live = &self.windows[&key];
        if !live.pending.is_empty() {
            return Err(format!("window {}: {} acts are not over", key.1, live.pending.len()));
        }
        let dead = self.mortal.and_then(|dead| live.members.iter().position(|member| *member == dead));
        let truths = self.truths.borrow();
        let checked = truths[&key].parts[live.own].check(&live.block, dead);
        checked.map_err(|what| format!("window {}, rank {}: {what}", key.1, live.own))
    }

    /// Checks the windows that are left at the end, and closes those that no process has freed because
    /// another process might have died.
    pub(super) fn end_windows(&mut self) -> Checked<()> {
        if self.engine.windows.refused > 0 && self.mortal.is_none() {
            return Err(format!("{} one-sided operations were refused", self.engine.windows.refused));
        }
        self.windows.keys().try_for_each(|key| self.check_window(*key))?;
        self.windows.values().for_each(|live| self.engine.one_sided().close_window(live.index));
        Ok(())
    }

    fn flush_window(&mut self, key: (usize, u32), target: Option<usize>, locally: bool) -> Begun {
        let Some(live) = self.windows.get(&key) else { return Ok(None) };
        let index = live.index;
        let ranks: Vec<u32> = match target {
            Some(target) => vec![target as u32],
            None => self.engine.windows.get(index).map_or_else(Vec::new, Window::unfinished),
        };
        let mut marks = Vec::new();
        for rank in ranks {
            let mark = if locally {
                self.engine.one_sided().send_collected(index, rank)
            } else {
                self.engine.one_sided().flush_target(index, rank)
            };
            marks.push(mark?);
        }
        Ok(Some((marks, target)))
    }

    fn lock_window(&mut self, key: (usize, u32), targets: &[usize], exclusive: bool) -> Begun {
        let Some(live) = self.windows.get(&key) else { return Ok(None) };
        let index = live.index;
        let mut marks = Vec::new();
        for target in targets {
            self.engine.one_sided().lock_target(index, *target as u32, exclusive)?;
            marks.push(self.engine.one_sided().send_collected(index, *target as u32)?);
        }
        Ok(Some((marks, targets.first().copied())))
    }

    fn unlock_window(&mut self, key: (usize, u32), target: Option<usize>) -> Begun {
        let Some(live) = self.windows.get(&key) else { return Ok(None) };
        let (index, all) = (live.index, live.members.len());
        let targets = target.map_or(0..all, |target| target..target + 1);
        for target in targets {
            self.engine.one_sided().unlock_target(index, target as u32)?;
        }
        self.flush_window(key, target, false)
    }

    /// Checks whether an awaited event has happened. Returns the event if it has not.
    pub(super) fn look_at_window(&mut self, mut wait: WindowWait) -> Checked<Option<WindowWait>> {
        let key = wait.key;
        match &mut wait.what {
            Awaited::Marks { marks, target, flushes } => {
                let (target, flushes) = (*target, *flushes);
                while let Some(mark) = marks.last() {
                    if self.window(key)?.0.has_reached(mark) {
                        marks.pop();
                        continue;
                    }
                    let peer = self.window(key)?.0.member(mark.rank());
                    match self.engine.check_peer(peer) {
                        Ok(()) => return Ok(Some(wait)),
                        Err(error) => {
                            self.excuse(&error)?;
                            self.windows.get_mut(&key).ok_or("a window is not open")?.give_up(mark.rank() as usize);
                            marks.pop();
                        }
                    }
                }
                self.end_acts(key, target)?;
                if flushes {
                    self.check_flushed(key, target)?;
                }
                Ok(None)
            }
            Awaited::Request(id) => self.end_request(key, *id).map(|over| (!over).then_some(wait)),
            Awaited::Post(to) => {
                let to = *to as u32;
                if self.window(key)?.0.has_post_of(to) {
                    self.window(key)?.0.take_post(to);
                } else if !self.is_gone(key, to)? {
                    return Ok(Some(wait));
                }
                self.window(key)?.0.await_no_more(&[to]);
                Ok(None)
            }
            Awaited::Complete(from, epoch) => {
                let (from, epoch) = (*from, *epoch);
                let rank = from as u32;
                if self.window(key)?.0.has_complete_of(rank) {
                    self.window(key)?.0.take_complete(rank);
                    self.check_exposed_to(key, from, epoch)?;
                } else if !self.is_gone(key, rank)? {
                    return Ok(Some(wait));
                }
                self.window(key)?.0.await_no_more(&[rank]);
                Ok(None)
            }
        }
    }

    fn is_gone(&mut self, key: (usize, u32), rank: u32) -> Checked<bool> {
        let peer = self.window(key)?.0.member(rank);
        match self.engine.check_peer(peer) {
            Ok(()) => Ok(false),
            Err(error) => self.excuse(&error).map(|()| true),
        }
    }

    /// Checks that the bytes that this process has put are in the memory of their targets.
    fn check_flushed(&self, key: (usize, u32), target: Option<usize>) -> Checked<()> {
        let live = &self.windows[&key];
        if self.mortal.is_some() {
            return Ok(());
        }
        let truths = self.truths.borrow();
        for target in target.map_or(0..live.members.len(), |target| target..target + 1) {
            let checked = truths[&key].parts[target].check_strip(&live.block, live.own);
            checked.map_err(|what| format!("window {}, rank {target}, after a flush: {what}", key.1))?;
        }
        Ok(())
    }

    /// Checks, after an exposure epoch, that the bytes that its origin has put in it are here.
    fn check_exposed_to(&self, key: (usize, u32), from: usize, epoch: usize) -> Checked<()> {
        let live = &self.windows[&key];
        if self.mortal.is_some() {
            return Ok(());
        }
        let checked = self.truths.borrow()[&key].parts[live.own].check_put(&live.block, from, epoch);
        checked.map_err(|what| format!("window {}, rank {}, after MPI_Win_wait: {what}", key.1, live.own))
    }
}

impl LiveWindow {
    /// Forgets the acts that were begun at a process that is gone.
    fn give_up(&mut self, target: usize) {
        self.pending.retain(|pending| pending.act.target != target);
    }
}
