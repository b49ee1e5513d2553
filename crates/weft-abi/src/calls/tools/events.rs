//! Events and their sources (MPI-5.0 §15.3.8).

use super::{needed, set};
use crate::arguments::*;
use crate::calls::info;
use crate::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::callbacks::*;
use weft_mpi::error::{Error, Result};
use weft_mpi::object::Info;
use weft_mpi::tools::events::{self, Delivery, EVENTS, SOURCE, TICKS_PER_SECOND};
use weft_mpi::tools::{self, with};

/// Makes an empty info object for the tool, which frees it: there are no hints about events.
fn give_info(info: Option<Out<MPI_Info>>) -> Result<()> {
    info.map_or(Ok(()), |info| info::give(Info::new(), info))
}

/// Calls a callback. The caller holds no lock of the library.
fn deliver(delivery: &Delivery) {
    let (Delivery::Event { callback, .. } | Delivery::Dropped { callback, .. }) = delivery;
    let user_data = std::ptr::with_exposed_provenance_mut(callback.user_data);
    // SAFETY: the tool has registered the functions for these calls (MPI-5.0 §15.3.8).
    unsafe {
        match delivery {
            Delivery::Event { registration, .. } => {
                (callback.function)(events::telling(), *registration, callback.safety, user_data);
            }
            Delivery::Dropped { registration, function, count, .. } => {
                let count = MPI_Count::try_from(*count).unwrap_or(MPI_Count::MAX);
                function(count, *registration, 0, callback.safety, user_data);
            }
        }
    }
}

/// MPI_T_event_get_num (MPI-5.0 §15.3.8).
pub(crate) fn t_event_get_num(num_events: Out<c_int>) -> Result<()> {
    with(|_| {
        num_events.set(EVENTS.len() as c_int);
        Ok(())
    })
}

/// MPI_T_event_get_info (MPI-5.0 §15.3.8).
pub(crate) unsafe fn t_event_get_info(
    event_index: c_int,
    name: OutText,
    verbosity: Option<Out<c_int>>,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut MPI_Aint,
    num_elements: Option<InOut<c_int>>,
    enumtype: Option<Out<MPI_T_enum>>,
    info: Option<Out<MPI_Info>>,
    desc: OutText,
    bind: Option<Out<c_int>>,
) -> Result<()> {
    with(|_| {
        let event = tools::event(event_index)?;
        name.set(event.name);
        set(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
        if let Some(num_elements) = num_elements {
            let room = i64::from(num_elements.get());
            // SAFETY: an array that is not null has room for as many elements as `num_elements` says (MPI-5.0
            // §15.3.8).
            let (datatypes, displacements) = unsafe {
                (OutArray::if_wanted(array_of_datatypes, room), OutArray::if_wanted(array_of_displacements, room))
            };
            for (at, element) in event.elements.iter().enumerate().take(usize::try_from(room).unwrap_or(0)) {
                if let Some(datatypes) = datatypes {
                    datatypes.set(at, if element.is_wide { MPI_UNSIGNED_LONG_LONG } else { MPI_INT });
                }
                if let Some(displacements) = displacements {
                    displacements.set(at, element.displacement as MPI_Aint);
                }
            }
            num_elements.set(event.elements.len() as c_int);
        }
        set(enumtype, MPI_T_ENUM_NULL);
        desc.set(event.meaning);
        set(bind, MPI_T_BIND_NO_OBJECT);
        Ok(())
    })?;
    give_info(info)
}

/// MPI_T_event_get_index (MPI-5.0 §15.3.8).
pub(crate) fn t_event_get_index(name: InString, event_index: Out<c_int>) -> Result<()> {
    with(|_| {
        event_index.set(tools::find(&name.to_string(), EVENTS.iter().map(|event| event.name))?);
        Ok(())
    })
}

/// MPI_T_event_handle_alloc (MPI-5.0 §15.3.8).
pub(crate) fn t_event_handle_alloc(
    event_index: c_int,
    _obj_handle: *mut c_void,
    _info: MPI_Info,
    event_registration: Out<MPI_T_event_registration>,
) -> Result<()> {
    with(|tools| {
        event_registration.set(MPI_T_event_registration(tools.register_event(event_index)?));
        Ok(())
    })
}

/// MPI_T_event_handle_set_info (MPI-5.0 §15.3.8): no hint is known.
pub(crate) fn t_event_handle_set_info(registration: MPI_T_event_registration, _info: MPI_Info) -> Result<()> {
    with(|tools| tools.check_registration(registration.0))
}

/// MPI_T_event_handle_get_info (MPI-5.0 §15.3.8).
pub(crate) fn t_event_handle_get_info(
    event_registration: MPI_T_event_registration,
    info_used: Option<Out<MPI_Info>>,
) -> Result<()> {
    with(|tools| tools.check_registration(event_registration.0))?;
    give_info(info_used)
}

/// MPI_T_event_register_callback (MPI-5.0 §15.3.8).
pub(crate) fn t_event_register_callback(
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    _info: MPI_Info,
    user_data: *mut c_void,
    event_cb_function: Option<MPI_T_event_cb_function>,
) -> Result<()> {
    events::set_deliver(deliver);
    let user_data = user_data.expose_provenance();
    with(|tools| tools.set_callback(event_registration.0, cb_safety, event_cb_function, user_data))?;
    events::follow();
    Ok(())
}

/// MPI_T_event_callback_set_info (MPI-5.0 §15.3.8): no hint is known.
pub(crate) fn t_event_callback_set_info(
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    _info: MPI_Info,
) -> Result<()> {
    events::check_safety(cb_safety)?;
    with(|tools| tools.check_registration(event_registration.0))
}

/// MPI_T_event_callback_get_info (MPI-5.0 §15.3.8).
pub(crate) fn t_event_callback_get_info(
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info_used: Option<Out<MPI_Info>>,
) -> Result<()> {
    events::check_safety(cb_safety)?;
    with(|tools| tools.check_registration(event_registration.0))?;
    give_info(info_used)
}

/// MPI_T_event_set_dropped_handler (MPI-5.0 §15.3.8).
pub(crate) fn t_event_set_dropped_handler(
    event_registration: MPI_T_event_registration,
    dropped_cb_function: Option<MPI_T_event_dropped_cb_function>,
) -> Result<()> {
    with(|tools| tools.set_dropped_handler(event_registration.0, dropped_cb_function))
}

/// MPI_T_event_handle_free (MPI-5.0 §15.3.8): no event is told any more when it returns, unless another
/// thread is telling one right now.
pub(crate) fn t_event_handle_free(
    event_registration: MPI_T_event_registration,
    user_data: *mut c_void,
    free_cb_function: Option<MPI_T_event_free_cb_function>,
) -> Result<()> {
    with(|tools| tools.drop_registration(event_registration.0))?;
    events::follow();
    if let Some(function) = free_cb_function {
        // SAFETY: the tool gives the function for this call (MPI-5.0 §15.3.8).
        unsafe { function(event_registration.0, MPI_T_CB_REQUIRE_NONE, user_data) };
    }
    Ok(())
}

/// MPI_T_event_read (MPI-5.0 §15.3.8).
pub(crate) unsafe fn t_event_read(
    event_instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: *mut c_void,
) -> Result<()> {
    needed(buffer, "buffer")?;
    let (element, value) = events::current(event_instance.0)?.element(element_index)?;
    // SAFETY: the tool gives room for a value of the element's type (MPI-5.0 §15.3.8).
    unsafe { write(buffer, element.is_wide, value) };
    Ok(())
}

unsafe fn write(to: *mut c_void, is_wide: bool, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_wide {
            to.cast::<u64>().write_unaligned(value);
        } else {
            to.cast::<u32>().write_unaligned(value as u32);
        }
    }
}

/// MPI_T_event_copy (MPI-5.0 §15.3.8): all elements, each at its displacement.
pub(crate) unsafe fn t_event_copy(event_instance: MPI_T_event_instance, buffer: *mut c_void) -> Result<()> {
    needed(buffer, "buffer")?;
    let instance = events::current(event_instance.0)?;
    for at in 0..EVENTS[instance.event].elements.len() {
        let (element, value) = instance.element(at as c_int)?;
        // SAFETY: the buffer has room for all elements at their displacements.
        unsafe { write(buffer.byte_add(element.displacement), element.is_wide, value) };
    }
    Ok(())
}

/// MPI_T_event_get_timestamp (MPI-5.0 §15.3.8).
pub(crate) fn t_event_get_timestamp(
    event_instance: MPI_T_event_instance,
    event_timestamp: Out<MPI_Count>,
) -> Result<()> {
    event_timestamp.set(events::current(event_instance.0)?.time);
    Ok(())
}

/// MPI_T_event_get_source (MPI-5.0 §15.3.8): there is only one.
pub(crate) fn t_event_get_source(event_instance: MPI_T_event_instance, source_index: Out<c_int>) -> Result<()> {
    events::current(event_instance.0)?;
    source_index.set(0);
    Ok(())
}

/// MPI_T_source_get_num (MPI-5.0 §15.3.8).
pub(crate) fn t_source_get_num(num_sources: Out<c_int>) -> Result<()> {
    with(|_| {
        num_sources.set(1);
        Ok(())
    })
}

fn check_source(index: c_int) -> Result<()> {
    if index == 0 {
        return Ok(());
    }
    Err(Error::new(MPI_T_ERR_INVALID_INDEX, format!("source {index} is none: there is one source of events, 0")))
}

/// MPI_T_source_get_info (MPI-5.0 §15.3.8).
pub(crate) fn t_source_get_info(
    source_index: c_int,
    name: OutText,
    desc: OutText,
    ordering: Option<Out<c_int>>,
    ticks_per_second: Option<Out<MPI_Count>>,
    max_ticks: Option<Out<MPI_Count>>,
    info: Option<Out<MPI_Info>>,
) -> Result<()> {
    with(|_| check_source(source_index))?;
    name.set(SOURCE.0);
    desc.set(SOURCE.1);
    set(ordering, MPI_T_SOURCE_ORDERED);
    set(ticks_per_second, TICKS_PER_SECOND);
    set(max_ticks, MPI_Count::MAX);
    give_info(info)
}

/// MPI_T_source_get_timestamp (MPI-5.0 §15.3.8).
pub(crate) fn t_source_get_timestamp(source_index: c_int, timestamp: Out<MPI_Count>) -> Result<()> {
    with(|_| check_source(source_index))?;
    timestamp.set(events::now());
    Ok(())
}
