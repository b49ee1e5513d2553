//! The tool information interface (MPI-5.0 §15.3): control variables, performance variables, categories.
//! Weft's variables have no enumerations; events are in `tools/events.rs`.

pub(crate) mod events;

use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::error::{Error, Result};
use weft_mpi::settings::TABLE;
use weft_mpi::tools::events::EVENTS;
use weft_mpi::tools::{self, CATEGORIES, Change, Class, VALUE_LENGTH, VARIABLES, with};

/// Writes a value where the tool wants it.
fn set<T: Copy>(to: Option<Out<T>>, value: T) {
    if let Some(to) = to {
        to.set(value);
    }
}

fn needed<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(Error::new(MPI_T_ERR_INVALID, format!("{name} is a null pointer")));
    }
    Ok(())
}

/// Copies as many of `from` as the tool has room for.
fn set_indices(to: Option<OutArray<c_int>>, length: c_int, from: impl Iterator<Item = usize>) {
    let Some(to) = to else { return };
    to.fill(from.take(usize::try_from(length).unwrap_or(0)).map(|index| index as c_int));
}

/// MPI_T_init_thread (MPI-5.0 §15.3.4). Every level is provided: tools' calls exclude each other.
pub(crate) fn t_init_thread(required: c_int, provided: Out<c_int>) -> Result<()> {
    tools::enter();
    provided.set(required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE));
    Ok(())
}

/// MPI_T_finalize (MPI-5.0 §15.3.4).
pub(crate) fn t_finalize() -> Result<()> {
    tools::leave()
}

/// MPI_T_cvar_get_num (MPI-5.0 §15.3.6).
pub(crate) fn t_cvar_get_num(num_cvar: Out<c_int>) -> Result<()> {
    with(|_| {
        num_cvar.set(TABLE.len() as c_int);
        Ok(())
    })
}

/// MPI_T_cvar_get_info (MPI-5.0 §15.3.6). Values are text, as in the environment.
pub(crate) fn t_cvar_get_info(
    cvar_index: c_int,
    name: OutText,
    verbosity: Option<Out<c_int>>,
    datatype: Option<Out<MPI_Datatype>>,
    enumtype: Option<Out<MPI_T_enum>>,
    desc: OutText,
    bind: Option<Out<c_int>>,
    scope: Option<Out<c_int>>,
) -> Result<()> {
    with(|_| {
        let setting = tools::control(cvar_index)?;
        name.set(setting.name);
        set(verbosity, MPI_T_VERBOSITY_USER_BASIC);
        set(datatype, MPI_CHAR);
        set(enumtype, MPI_T_ENUM_NULL);
        desc.set(&format!("{}; it may say {}", setting.meaning, setting.allowed));
        set(bind, MPI_T_BIND_NO_OBJECT);
        // The processes of the job must agree on the settings of their communication.
        set(scope, if tools::is_settable(setting) { MPI_T_SCOPE_ALL_EQ } else { MPI_T_SCOPE_CONSTANT });
        Ok(())
    })
}

/// MPI_T_cvar_get_index (MPI-5.0 §15.3.6).
pub(crate) fn t_cvar_get_index(name: InString, cvar_index: Out<c_int>) -> Result<()> {
    with(|_| {
        cvar_index.set(tools::find(&name.to_string(), TABLE.iter().map(|setting| setting.name))?);
        Ok(())
    })
}

/// MPI_T_cvar_handle_alloc (MPI-5.0 §15.3.6).
pub(crate) fn t_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: Out<MPI_T_cvar_handle>,
    count: Out<c_int>,
) -> Result<()> {
    with(|tools| {
        let number = tools.take_control(cvar_index)?;
        handle.set(MPI_T_cvar_handle(number));
        count.set(VALUE_LENGTH as c_int);
        Ok(())
    })
}

/// MPI_T_cvar_handle_free (MPI-5.0 §15.3.6).
pub(crate) fn t_cvar_handle_free(handle: InOut<MPI_T_cvar_handle>) -> Result<()> {
    with(|tools| {
        tools.drop_control(handle.get().0)?;
        handle.set(MPI_T_CVAR_HANDLE_NULL);
        Ok(())
    })
}

/// MPI_T_cvar_read (MPI-5.0 §15.3.6).
pub(crate) fn t_cvar_read(handle: MPI_T_cvar_handle, buf: Buffer) -> Result<()> {
    needed(buf.as_ptr(), "buf")?;
    with(|tools| {
        let value = tools.read_control(handle.0)?;
        // SAFETY: the handle's count is VALUE_LENGTH characters, and `buf` is not null.
        unsafe { OutString::new(buf.as_ptr().cast(), VALUE_LENGTH) }.set(&value);
        Ok(())
    })
}

/// MPI_T_cvar_write (MPI-5.0 §15.3.6).
pub(crate) fn t_cvar_write(handle: MPI_T_cvar_handle, buf: Buffer) -> Result<()> {
    needed(buf.as_ptr(), "buf")?;
    // SAFETY: the handle's count is VALUE_LENGTH characters; a string of the tool may be shorter, and ends
    // with a zero byte.
    let value = unsafe { InString::new(buf.as_ptr().cast()) }.to_string();
    with(|tools| tools.write_control(handle.0, &value))
}

/// MPI_T_pvar_get_num (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_get_num(num_pvar: Out<c_int>) -> Result<()> {
    with(|_| {
        num_pvar.set(VARIABLES.len() as c_int);
        Ok(())
    })
}

fn class_number(class: Class) -> c_int {
    match class {
        Class::Level => MPI_T_PVAR_CLASS_LEVEL,
        Class::Counter => MPI_T_PVAR_CLASS_COUNTER,
    }
}

/// MPI_T_pvar_get_info (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_get_info(
    pvar_index: c_int,
    name: OutText,
    verbosity: Option<Out<c_int>>,
    var_class: Option<Out<c_int>>,
    datatype: Option<Out<MPI_Datatype>>,
    enumtype: Option<Out<MPI_T_enum>>,
    desc: OutText,
    bind: Option<Out<c_int>>,
    readonly: Option<Out<c_int>>,
    continuous: Option<Out<c_int>>,
    atomic: Option<Out<c_int>>,
) -> Result<()> {
    with(|_| {
        let variable = tools::variable(pvar_index)?;
        let is_level = c_int::from(variable.class == Class::Level);
        name.set(&variable.name);
        set(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
        set(var_class, class_number(variable.class));
        set(datatype, MPI_UNSIGNED_LONG_LONG);
        set(enumtype, MPI_T_ENUM_NULL);
        desc.set(&variable.meaning);
        set(bind, MPI_T_BIND_NO_OBJECT);
        set(readonly, is_level);
        set(continuous, is_level);
        set(atomic, 1 - is_level);
        Ok(())
    })
}

/// MPI_T_pvar_get_index (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_get_index(name: InString, var_class: c_int, pvar_index: Out<c_int>) -> Result<()> {
    with(|_| {
        let name = name.to_string();
        let index = tools::find(&name, VARIABLES.iter().map(|variable| variable.name.as_str()))?;
        if class_number(tools::variable(index)?.class) != var_class {
            return Err(Error::new(MPI_T_ERR_INVALID_NAME, format!("{name} is of another class")));
        }
        pvar_index.set(index);
        Ok(())
    })
}

/// MPI_T_pvar_session_create (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_session_create(pe_session: Out<MPI_T_pvar_session>) -> Result<()> {
    with(|tools| {
        pe_session.set(MPI_T_pvar_session(tools.open_session()?));
        Ok(())
    })
}

/// MPI_T_pvar_session_free (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_session_free(pe_session: InOut<MPI_T_pvar_session>) -> Result<()> {
    with(|tools| {
        tools.close_session(pe_session.get().0)?;
        pe_session.set(MPI_T_PVAR_SESSION_NULL);
        Ok(())
    })
}

/// MPI_T_pvar_handle_alloc (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_handle_alloc(
    pe_session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: Out<MPI_T_pvar_handle>,
    count: Out<c_int>,
) -> Result<()> {
    with(|tools| {
        let number = tools.take_variable(pe_session.0, pvar_index)?;
        handle.set(MPI_T_pvar_handle(number));
        count.set(1);
        Ok(())
    })
}

/// MPI_T_pvar_handle_free (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_handle_free(pe_session: MPI_T_pvar_session, handle: InOut<MPI_T_pvar_handle>) -> Result<()> {
    with(|tools| {
        tools.drop_variable(pe_session.0, handle.get().0)?;
        handle.set(MPI_T_PVAR_HANDLE_NULL);
        Ok(())
    })
}

/// MPI_T_pvar_start (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_start(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<()> {
    with(|tools| tools.change_variables(pe_session.0, handle.0, Change::Start))
}

/// MPI_T_pvar_stop (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_stop(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<()> {
    with(|tools| tools.change_variables(pe_session.0, handle.0, Change::Stop))
}

/// MPI_T_pvar_reset (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_reset(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<()> {
    with(|tools| tools.change_variables(pe_session.0, handle.0, Change::Set(0)))
}

/// MPI_T_pvar_write (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_write(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: Buffer) -> Result<()> {
    needed(buf.as_ptr(), "buf")?;
    // SAFETY: `Buffer::new` was promised a value of the variable's type, and it is not null.
    let value = unsafe { buf.as_ptr().cast::<u64>().read_unaligned() };
    with(|tools| tools.change_variables(pe_session.0, handle.0, Change::Set(value)))
}

/// Gives the tool the value of a performance variable, which `read` returns.
fn give_value(buf: Buffer, read: impl FnOnce() -> Result<u64>) -> Result<()> {
    needed(buf.as_ptr(), "buf")?;
    let value = read()?;
    // SAFETY: `Buffer::new` was promised room for a value of the variable's type, and it is not null.
    unsafe { buf.as_ptr().cast::<u64>().write_unaligned(value) };
    Ok(())
}

/// MPI_T_pvar_read (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_read(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: Buffer) -> Result<()> {
    give_value(buf, || with(|tools| tools.read_variable(pe_session.0, handle.0)))
}

/// MPI_T_pvar_readreset (MPI-5.0 §15.3.7).
pub(crate) fn t_pvar_readreset(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: Buffer) -> Result<()> {
    give_value(buf, || with(|tools| tools.read_and_reset(pe_session.0, handle.0)))
}

/// MPI_T_category_get_num (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_num(num_cat: Out<c_int>) -> Result<()> {
    with(|_| {
        num_cat.set(CATEGORIES.len() as c_int);
        Ok(())
    })
}

fn members(category: usize) -> impl Iterator<Item = usize> {
    VARIABLES.iter().enumerate().filter(move |(_, variable)| variable.category == category).map(|(index, _)| index)
}

fn controls(category: usize) -> std::ops::Range<usize> {
    0..if category == tools::SETTINGS { TABLE.len() } else { 0 }
}

/// MPI_T_category_get_info (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_info(
    cat_index: c_int,
    name: OutText,
    desc: OutText,
    num_cvars: Option<Out<c_int>>,
    num_pvars: Option<Out<c_int>>,
    num_categories: Option<Out<c_int>>,
) -> Result<()> {
    with(|_| {
        let (index, title, meaning) = tools::category(cat_index)?;
        name.set(title);
        desc.set(meaning);
        set(num_cvars, controls(index).len() as c_int);
        set(num_pvars, members(index).count() as c_int);
        set(num_categories, 0);
        Ok(())
    })
}

/// MPI_T_category_get_index (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_index(name: InString, cat_index: Out<c_int>) -> Result<()> {
    with(|_| {
        cat_index.set(tools::find(&name.to_string(), CATEGORIES.iter().map(|category| category.0))?);
        Ok(())
    })
}

/// MPI_T_category_get_cvars (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_cvars(cat_index: c_int, len: c_int, indices: Option<OutArray<c_int>>) -> Result<()> {
    with(|_| {
        let (index, ..) = tools::category(cat_index)?;
        set_indices(indices, len, controls(index));
        Ok(())
    })
}

/// MPI_T_category_get_pvars (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_pvars(cat_index: c_int, len: c_int, indices: Option<OutArray<c_int>>) -> Result<()> {
    with(|_| {
        let (index, ..) = tools::category(cat_index)?;
        set_indices(indices, len, members(index));
        Ok(())
    })
}

/// MPI_T_category_get_categories (MPI-5.0 §15.3.9): categories hold variables, no categories.
pub(crate) fn t_category_get_categories(
    cat_index: c_int,
    _len: c_int,
    _indices: Option<OutArray<c_int>>,
) -> Result<()> {
    with(|_| tools::category(cat_index).map(|_| ()))
}

fn events_of(category: usize) -> impl Iterator<Item = usize> {
    EVENTS.iter().enumerate().filter(move |(_, event)| event.category == category).map(|(index, _)| index)
}

/// MPI_T_category_get_num_events (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_num_events(cat_index: c_int, num_events: Out<c_int>) -> Result<()> {
    with(|_| {
        let (index, ..) = tools::category(cat_index)?;
        num_events.set(events_of(index).count() as c_int);
        Ok(())
    })
}

/// MPI_T_category_get_events (MPI-5.0 §15.3.9).
pub(crate) fn t_category_get_events(cat_index: c_int, len: c_int, indices: Option<OutArray<c_int>>) -> Result<()> {
    with(|_| {
        let (index, ..) = tools::category(cat_index)?;
        set_indices(indices, len, events_of(index));
        Ok(())
    })
}

/// MPI_T_category_changed (MPI-5.0 §15.3.9): variables and categories never change.
pub(crate) fn t_category_changed(update_number: Out<c_int>) -> Result<()> {
    with(|_| {
        update_number.set(0);
        Ok(())
    })
}

/// MPI_T_enum_get_info (MPI-5.0 §15.3.5): no variable and no event has an enumeration, so no handle can be
/// valid.
pub(crate) fn t_enum_get_info(_enumtype: MPI_T_enum, _num: Option<Out<c_int>>, _name: OutText) -> Result<()> {
    with(|_| Err(no_enumeration()))
}

/// MPI_T_enum_get_item (MPI-5.0 §15.3.5): as for MPI_T_enum_get_info.
pub(crate) fn t_enum_get_item(_enumtype: MPI_T_enum, _index: c_int, _value: Out<c_int>, _name: OutText) -> Result<()> {
    with(|_| Err(no_enumeration()))
}

fn no_enumeration() -> Error {
    Error::new(MPI_T_ERR_INVALID_HANDLE, "the handle is no enumeration: no variable has one")
}
