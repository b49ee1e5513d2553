//! The synchronization of windows (MPI-5.0 §12.5): flushes, locks, and epochs of groups.
//!
//! `weft-mpi` calls it for epochs, flushes and locks (`one_sided/`).

use weft_core::one_sided::{Claim, Record};

use super::{NO_ANSWER, OneSided};
use crate::error::Result;
use crate::transport::{Platform, Proof};
use crate::windows::{Answer, ExposedMemory, Mark};

impl<P: Platform> OneSided<'_, P> {
    /// Asks `target` to say when all is done that this process has begun there: that is when the mark
    /// [is reached](crate::windows::Window::has_reached).
    ///
    /// # Errors
    /// Too many operations; the target is gone.
    pub fn flush_target(&mut self, index: usize, target: u32) -> Result<Mark> {
        self.with_window(index, |this, window| {
            let state = &window.targets[target as usize];
            if state.is_dirty {
                this.check_target(window, target)?;
                let reply = this.await_answer(window, Answer::of(target, None, None))?;
                let state = &mut window.targets[target as usize];
                (state.is_dirty, state.is_written, state.is_unanswered) = (false, false, false);
                this.record(window, target, &Record::Flush { reply });
            } else if state.is_written {
                this.check_target(window, target)?;
                this.prove((index, window), target)?;
            }
            this.send_batch(window, target);
            Ok(window.mark(target))
        })
    }

    /// Sends the records that have been collected for `target`. When the mark is reached, the program may use
    /// the buffers of the operations again that it has begun.
    ///
    /// # Errors
    /// The window is gone.
    pub fn send_collected(&mut self, index: usize, target: u32) -> Result<Mark> {
        self.with_window(index, |this, window| {
            this.send_batch(window, target);
            Ok(window.mark(target))
        })
    }

    /// Asks for the lock of `target`. It is given when no answer of the target is waited for any more.
    ///
    /// # Errors
    /// As for [`OneSided::flush_target`].
    pub fn lock_target(&mut self, index: usize, target: u32, exclusive: bool) -> Result<()> {
        self.with_window(index, |this, window| {
            this.check_target(window, target)?;
            let reply = this.await_answer(window, Answer::of(target, None, None))?;
            if target == window.rank {
                if window.lock.request(Claim { rank: target, exclusive, reply }) {
                    this.end_answer(window, target, reply, None, None);
                }
                return Ok(());
            }
            this.record(window, target, &Record::Lock { exclusive, reply });
            this.send_batch(window, target);
            Ok(())
        })
    }

    /// Gives the lock of `target` back, after all that this process has begun there. That is done when no
    /// answer of the target is waited for any more.
    ///
    /// # Errors
    /// As for [`OneSided::flush_target`].
    pub fn unlock_target(&mut self, index: usize, target: u32) -> Result<()> {
        self.with_window(index, |this, window| {
            if target == window.rank {
                this.release_lock(window, target);
                return Ok(());
            }
            this.check_target(window, target)?;
            let needs_read =
                window.targets[target as usize].is_written && this.proof(window, target) == Some(Proof::Read);
            let reply = if window.targets[target as usize].is_dirty || needs_read {
                this.await_answer(window, Answer::of(target, None, None))
            } else {
                Ok(NO_ANSWER)
            };
            let state = &mut window.targets[target as usize];
            if reply.is_ok() {
                (state.is_dirty, state.is_written) = (false, false);
            }
            state.is_unanswered = *reply.as_ref().unwrap_or(&NO_ANSWER) == NO_ANSWER;
            // Other processes may wait for the lock, whatever becomes of the answer.
            this.record(window, target, &Record::Unlock { reply: *reply.as_ref().unwrap_or(&NO_ANSWER) });
            this.send_batch(window, target);
            reply.map(|_| ())
        })
    }

    /// Tells `target` that this process exposes its memory to it (`MPI_Win_post`).
    ///
    /// # Errors
    /// The target is gone.
    pub fn post_to(&mut self, index: usize, target: u32) -> Result<()> {
        self.tell_of(index, target, &Record::Post)
    }

    /// Tells `target` that this process begins nothing more there (`MPI_Win_complete`).
    ///
    /// # Errors
    /// The target is gone.
    pub fn complete_at(&mut self, index: usize, target: u32) -> Result<()> {
        self.tell_of(index, target, &Record::Complete)
    }

    fn tell_of(&mut self, index: usize, target: u32, record: &Record<'_>) -> Result<()> {
        self.with_window(index, |this, window| {
            this.check_target(window, target)?;
            if target == window.rank {
                let own = &mut window.sources[target as usize];
                match record {
                    Record::Post => own.posts += 1,
                    _ => own.completes += 1,
                }
                this.link.notify();
                return Ok(());
            }
            this.record(window, target, record);
            let state = &mut window.targets[target as usize];
            if matches!(record, Record::Complete) {
                // The target counts this record when all before it is done: no answer need be waited for. But
                // only the target knows which memory is attached, and the call that ends the epoch reports
                // the accesses that the target has refused.
                if state.is_dirty && matches!(window.exposed_memory, ExposedMemory::Attached(_)) {
                    let reply = this.await_answer(window, Answer::of(target, None, None))?;
                    this.record(window, target, &Record::Flush { reply });
                } else {
                    // The call that frees the window asks for the other errors, such as that the target had
                    // no memory.
                    state.is_unanswered |= state.is_dirty;
                }
                let state = &mut window.targets[target as usize];
                (state.is_dirty, state.is_written) = (false, false);
            }
            this.send_batch(window, target);
            Ok(())
        })
    }
}
