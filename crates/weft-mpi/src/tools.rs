//! The tool information interface (MPI-5.0 §15.3): settings as control variables, counters as performance
//! variables. The boundary's MPI_T calls use it.
//!
//! The interface works before MPI_Init and after MPI_Finalize, so its state is apart from the process's.

pub mod events;
mod variables;

use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_ordered::Map;

use crate::constants::*;
use crate::error::{Error, ErrorClass, Result};
use crate::process;
use crate::settings::{self, Said, Setting};

pub use variables::{CATEGORIES, Class, SETTINGS, VARIABLES, Variable};
use variables::{MESSAGES, NETWORK};

/// The most characters of a control variable's value, the zero byte included.
pub const VALUE_LENGTH: usize = 256;
/// The most handles of variables that tools may hold at once.
const HANDLES_MAX: usize = 1 << 16;
/// The most sessions that tools may hold at once.
const SESSIONS_MAX: usize = 1 << 10;

/// A tool's handle of a performance variable.
struct Handle {
    session: usize,
    variable: usize,
    /// The count up to the last stop or reset.
    counted: u64,
    /// The value of the variable when counting began; `None`: stopped.
    began: Option<u64>,
}

impl Handle {
    fn value(&self, now: u64) -> u64 {
        match (VARIABLES[self.variable].class, self.began) {
            (Class::Level, _) => now,
            (Class::Counter, Some(began)) => self.counted.wrapping_add(now.saturating_sub(began)),
            (Class::Counter, None) => self.counted,
        }
    }

    fn set(&mut self, value: u64, now: u64) {
        self.counted = value;
        self.began = self.began.map(|_| now);
    }
}

/// The state of the tool interface: the handles, sessions and callbacks of all tools.
#[derive(Default)]
pub struct Tools {
    /// The number of calls of MPI_T_init_thread without their MPI_T_finalize.
    users: u64,
    /// The last number given out. Numbers are never used twice, so that a stale handle is noticed. 0 and 1
    /// mean "none" and "all".
    last: usize,
    sessions: Vec<usize>,
    controls: Map<usize, usize>,
    handles: Map<usize, Handle>,
    registrations: Map<usize, events::Registration>,
    /// The values that tools wrote to settings, by the index of the setting.
    written: Map<usize, String>,
}

static TOOLS: Mutex<Option<Tools>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Tools>> {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrong(class: ErrorClass, message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(class, message)
}

/// Carries out MPI_T_init_thread: one more use of the tool interface.
pub fn enter() {
    lock().get_or_insert_default().users += 1;
}

/// Carries out MPI_T_finalize. The values that tools wrote to settings stay.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED.
pub fn leave() -> Result<()> {
    with(|tools| {
        tools.users -= 1;
        if tools.users == 0 {
            let written = std::mem::take(&mut tools.written);
            *tools = Tools { last: tools.last, written, ..Tools::default() };
        }
        Ok(())
    })
}

/// Runs a call of a tool.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, or the call's.
pub fn with<R>(call: impl FnOnce(&mut Tools) -> Result<R>) -> Result<R> {
    match lock().as_mut().filter(|tools| tools.users > 0) {
        Some(tools) => call(tools),
        None => Err(wrong(MPI_T_ERR_NOT_INITIALIZED, "called outside of MPI_T_init_thread and MPI_T_finalize")),
    }
}

/// The value that a tool wrote to the setting of this name before MPI_Init.
pub(crate) fn written(name: &str) -> Option<String> {
    let index = settings::TABLE.iter().position(|setting| setting.name == name)?;
    lock().as_ref()?.written.get(&index).cloned()
}

fn index(index: i32, length: usize, what: &str) -> Result<usize> {
    usize::try_from(index)
        .ok()
        .filter(|index| *index < length)
        .ok_or_else(|| wrong(MPI_T_ERR_INVALID_INDEX, format!("index {index} is none of the {length} {what}")))
}

/// The control variable with this index.
///
/// # Errors
/// MPI_T_ERR_INVALID_INDEX.
pub fn control(at: i32) -> Result<&'static Setting> {
    Ok(settings::TABLE[index(at, settings::TABLE.len(), "control variables")?])
}

/// Returns whether a control variable can be set now: one that the library reads, until the library has read
/// it (MPI-5.0 §15.3.6).
pub fn is_settable(setting: &Setting) -> bool {
    setting.reader == settings::Reader::Library && !process::has_started()
}

/// The type of event with this index.
///
/// # Errors
/// MPI_T_ERR_INVALID_INDEX.
pub fn event(at: i32) -> Result<&'static events::EventType> {
    Ok(&events::EVENTS[index(at, events::EVENTS.len(), "events")?])
}

/// The performance variable with this index.
///
/// # Errors
/// MPI_T_ERR_INVALID_INDEX.
pub fn variable(at: i32) -> Result<&'static Variable> {
    Ok(&VARIABLES[index(at, VARIABLES.len(), "performance variables")?])
}

/// The category with this index: its number, name and meaning.
///
/// # Errors
/// MPI_T_ERR_INVALID_INDEX.
pub fn category(at: i32) -> Result<(usize, &'static str, &'static str)> {
    let at = index(at, CATEGORIES.len(), "categories")?;
    Ok((at, CATEGORIES[at].0, CATEGORIES[at].1))
}

/// The index of `name` among `names`.
///
/// # Errors
/// MPI_T_ERR_INVALID_NAME.
pub fn find(name: &str, mut names: impl Iterator<Item = &'static str>) -> Result<i32> {
    let found = names.position(|known| known == name).and_then(|index| i32::try_from(index).ok());
    found.ok_or_else(|| wrong(MPI_T_ERR_INVALID_NAME, format!("nothing is called '{name}'")))
}

impl Tools {
    fn number(&mut self) -> usize {
        self.last = self.last.max(1) + 1;
        self.last
    }

    fn may_take_handle(&self) -> Result<()> {
        if self.controls.len() + self.handles.len() < HANDLES_MAX {
            return Ok(());
        }
        Err(wrong(MPI_T_ERR_OUT_OF_HANDLES, format!("there are {HANDLES_MAX} handles already")))
    }

    /// Carries out MPI_T_cvar_handle_alloc: makes a handle of the control variable `at`.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_OUT_OF_HANDLES.
    pub fn take_control(&mut self, at: i32) -> Result<usize> {
        let at = index(at, settings::TABLE.len(), "control variables")?;
        self.may_take_handle()?;
        let handle = self.number();
        self.controls.insert(handle, at);
        Ok(handle)
    }

    /// Carries out MPI_T_cvar_handle_free.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE.
    pub fn drop_control(&mut self, handle: usize) -> Result<()> {
        self.controls.remove(&handle).map(drop).ok_or_else(stale)
    }

    fn setting(&self, handle: usize) -> Result<usize> {
        self.controls.get(&handle).copied().ok_or_else(stale)
    }

    /// Carries out MPI_T_cvar_read: returns the value that is in effect, or would be, as text of the
    /// environment.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE.
    pub fn read_control(&self, handle: usize) -> Result<String> {
        let at = self.setting(handle)?;
        let setting = settings::TABLE[at];
        // Of files that cannot be read MPI_Init tells.
        let said = || Said::here().ok()?.value(setting.name);
        Ok(self.written.get(&at).cloned().or_else(said).unwrap_or_else(|| setting.default.to_owned()))
    }

    /// Carries out MPI_T_cvar_write, for a variable that [can be set](is_settable).
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_HANDLE; MPI_T_ERR_CVAR_SET_NEVER once the library has started; MPI_T_ERR_INVALID for
    /// a value that is too long, or that the setting may not have.
    pub fn write_control(&mut self, handle: usize, value: &str) -> Result<()> {
        let at = self.setting(handle)?;
        let setting = settings::TABLE[at];
        if !is_settable(setting) {
            let why = format!("{} is read once, when a job or a process starts", setting.name);
            return Err(wrong(MPI_T_ERR_CVAR_SET_NEVER, why));
        }
        if value.len() >= VALUE_LENGTH {
            let why = format!("a value of {} characters; {} are allowed", value.len(), VALUE_LENGTH - 1);
            return Err(wrong(MPI_T_ERR_INVALID, why));
        }
        settings::check(setting, value).map_err(|why| wrong(MPI_T_ERR_INVALID, why))?;
        self.written.insert(at, value.to_owned());
        Ok(())
    }

    /// Carries out MPI_T_pvar_session_create, and returns the session's handle.
    ///
    /// # Errors
    /// MPI_T_ERR_OUT_OF_SESSIONS.
    pub fn open_session(&mut self) -> Result<usize> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(wrong(MPI_T_ERR_OUT_OF_SESSIONS, format!("there are {SESSIONS_MAX} sessions already")));
        }
        let session = self.number();
        self.sessions.push(session);
        Ok(session)
    }

    /// Carries out MPI_T_pvar_session_free: the session's handles are gone as well.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_SESSION.
    pub fn close_session(&mut self, session: usize) -> Result<()> {
        self.check_session(session)?;
        self.sessions.retain(|open| *open != session);
        self.handles.retain(|_, handle| handle.session != session);
        Ok(())
    }

    fn check_session(&self, session: usize) -> Result<()> {
        if self.sessions.contains(&session) {
            return Ok(());
        }
        Err(wrong(MPI_T_ERR_INVALID_SESSION, "the session is none that is open"))
    }

    /// Carries out MPI_T_pvar_handle_alloc. Levels are measured at once, counters when they are started.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_OUT_OF_HANDLES.
    pub fn take_variable(&mut self, session: usize, at: i32) -> Result<usize> {
        self.check_session(session)?;
        let variable = index(at, VARIABLES.len(), "performance variables")?;
        self.may_take_handle()?;
        let handle = self.number();
        self.handles.insert(handle, Handle { session, variable, counted: 0, began: None });
        Ok(handle)
    }

    /// Carries out MPI_T_pvar_handle_free.
    ///
    /// # Errors
    /// As for [`Self::read_variable`].
    pub fn drop_variable(&mut self, session: usize, handle: usize) -> Result<()> {
        self.held(session, handle)?;
        self.handles.remove(&handle);
        Ok(())
    }

    fn held(&mut self, session: usize, handle: usize) -> Result<&mut Handle> {
        self.check_session(session)?;
        self.handles.get_mut(&handle).filter(|held| held.session == session).ok_or_else(stale)
    }

    /// Carries out MPI_T_pvar_read.
    ///
    /// # Errors
    /// MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_INVALID_HANDLE.
    pub fn read_variable(&mut self, session: usize, handle: usize) -> Result<u64> {
        let held = self.held(session, handle)?;
        Ok(held.value(VARIABLES[held.variable].measure()))
    }

    /// Carries out MPI_T_pvar_readreset: returns the value before the reset.
    ///
    /// # Errors
    /// As for [`Self::change_variables`].
    pub fn read_and_reset(&mut self, session: usize, handle: usize) -> Result<u64> {
        let value = self.read_variable(session, handle)?;
        self.change_variables(session, handle, Change::Set(0))?;
        Ok(value)
    }

    /// Starts, stops or sets a handle. MPI_T_PVAR_ALL_HANDLES stands for all handles of the session that
    /// allow it.
    ///
    /// # Errors
    /// As for [`Self::read_variable`]; MPI_T_ERR_PVAR_NO_STARTSTOP or MPI_T_ERR_PVAR_NO_WRITE for a level.
    pub fn change_variables(&mut self, session: usize, handle: usize, change: Change) -> Result<()> {
        if handle == MPI_T_PVAR_ALL_HANDLES {
            self.check_session(session)?;
            let own = self.handles.values_mut().filter(|held| held.session == session);
            own.filter(|held| VARIABLES[held.variable].class == Class::Counter)
                .for_each(|held| change.apply(held, VARIABLES[held.variable].measure()));
            return Ok(());
        }
        let held = self.held(session, handle)?;
        let variable = &VARIABLES[held.variable];
        if variable.class == Class::Level {
            let class = if let Change::Set(_) = change { MPI_T_ERR_PVAR_NO_WRITE } else { MPI_T_ERR_PVAR_NO_STARTSTOP };
            return Err(wrong(class, format!("{} is a level: it is always measured, and only read", variable.name)));
        }
        change.apply(held, variable.measure());
        Ok(())
    }
}

/// The changes that a handle of a counter allows.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Count from now on.
    Start,
    /// Keep what was counted.
    Stop,
    /// Begin again from this value.
    Set(u64),
}

impl Change {
    fn apply(self, held: &mut Handle, now: u64) {
        match self {
            Self::Start => held.began = held.began.or(Some(now)),
            Self::Stop => {
                held.counted = held.value(now);
                held.began = None;
            }
            Self::Set(value) => held.set(value, now),
        }
    }
}

fn stale() -> Error {
    wrong(MPI_T_ERR_INVALID_HANDLE, "the handle is none of this session, or was freed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_begin_with_their_category() {
        for (index, variable) in VARIABLES.iter().enumerate() {
            assert!(variable.name.starts_with(CATEGORIES[variable.category].0), "{}", variable.name);
            assert_eq!(find(&variable.name, VARIABLES.iter().map(|v| v.name.as_str())).unwrap(), index as i32);
        }
    }

    #[test]
    fn a_counter_counts_between_start_and_stop() {
        let mut held = Handle { session: 2, variable: 0, counted: 0, began: None };
        assert_eq!(held.value(100), 0);
        Change::Start.apply(&mut held, 100);
        Change::Start.apply(&mut held, 105);
        assert_eq!(held.value(107), 7);
        Change::Stop.apply(&mut held, 110);
        assert_eq!(held.value(200), 10);
        Change::Start.apply(&mut held, 200);
        assert_eq!(held.value(201), 11);
        Change::Set(5).apply(&mut held, 210);
        assert_eq!(held.value(212), 7);
    }

    #[test]
    fn a_handle_belongs_to_its_session_and_dies_with_it() {
        let mut tools = Tools { users: 1, ..Tools::default() };
        let (a, b) = (tools.open_session().unwrap(), tools.open_session().unwrap());
        let handle = tools.take_variable(a, 0).unwrap();
        assert_eq!(tools.read_variable(b, handle).unwrap_err().class, MPI_T_ERR_INVALID_HANDLE);
        assert_eq!(tools.take_variable(a, VARIABLES.len() as i32).unwrap_err().class, MPI_T_ERR_INVALID_INDEX);
        tools.close_session(a).unwrap();
        assert_eq!(tools.read_variable(a, handle).unwrap_err().class, MPI_T_ERR_INVALID_SESSION);
        assert!(tools.handles.is_empty());
    }

    #[test]
    fn levels_are_only_read() {
        let mut tools = Tools { users: 1, ..Tools::default() };
        let session = tools.open_session().unwrap();
        let level = VARIABLES.iter().position(|variable| variable.class == Class::Level).unwrap();
        let handle = tools.take_variable(session, level as i32).unwrap();
        let start = tools.change_variables(session, handle, Change::Start).unwrap_err();
        assert_eq!(start.class, MPI_T_ERR_PVAR_NO_STARTSTOP);
        let set = tools.change_variables(session, handle, Change::Set(1)).unwrap_err();
        assert_eq!(set.class, MPI_T_ERR_PVAR_NO_WRITE);
        tools.change_variables(session, MPI_T_PVAR_ALL_HANDLES, Change::Start).unwrap();
    }
}
