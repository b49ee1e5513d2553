//! Attributes and their keys (MPI-5.0 §7.7).
//!
//! Copy and delete functions are the program's and may call MPI, so they run while the process lock is free.
//! While one of them runs, its object cannot be freed, and an attribute that is being deleted can be neither
//! deleted nor set: either would call the same function for ever. The call returns the code that a function
//! returned (docs/design/boundary.md).

use crate::arguments::*;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Win};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use weft_mpi::callbacks::*;
use weft_mpi::constants::*;
use weft_mpi::error::Error;
use weft_mpi::object::{Attributes, Callback, Class, Copying, Keyval, Objects};
use weft_mpi::process;
use weft_mpi::window::Window;

/// Copies the attributes `from` of `old`, an object of `class`, for a duplicate. Copy functions are called in
/// the order in which the attributes were set. The keyvals are held for the result.
///
/// # Errors
/// The code that a copy function returned; the copies made so far are dropped.
pub(crate) fn copy_attributes(from: &Attributes, old: usize, class: Class) -> Result<Attributes, Error> {
    let mut copies = Attributes::new();
    for (number, value) in from {
        let outcome = process::with(|process| process.objects.keyval(*number, class))
            .and_then(|keyval| copy_one(&keyval, old, *number, *value));
        match outcome {
            Ok(Some(copy)) => {
                process::with(|process| process.objects.retain_keyval(*number));
                copies.push((*number, copy));
            }
            Ok(None) => {}
            Err(error) => {
                release(&copies);
                return Err(error);
            }
        }
    }
    Ok(copies)
}

/// The copied value, or `None` when this attribute is not copied.
fn copy_one(keyval: &Keyval, old: usize, number: i32, value: usize) -> Result<Option<usize>, Error> {
    let function = match keyval.copy {
        Copying::Nothing => return Ok(None),
        Copying::Value => return Ok(Some(value)),
        Copying::By(function) => function,
    };
    let (mut copy, mut flag) = (0_usize, 0);
    let state = keyval.extra_state as *mut c_void;
    let _running = Running::begin(Callback { class: keyval.class, handle: old, keyval: number, deletes: false })?;
    // SAFETY: the program gave the function for this call (MPI-5.0 §7.7.2); both values can be written.
    let code = unsafe { function(old, number, state, value as *mut c_void, (&raw mut copy).cast(), &raw mut flag) };
    if code != MPI_SUCCESS {
        return Err(Error::returned(code, format!("the copy function of keyval {number} returned {code}")));
    }
    Ok((flag != 0).then_some(copy))
}

fn release(attributes: &Attributes) {
    process::with(|process| attributes.iter().for_each(|(number, _)| process.objects.release_keyval(*number)));
}

/// Takes all attributes off the object `handle` of `class`, the latest first, as MPI-5.0 §11.2.4 demands for
/// MPI_COMM_SELF. Delete functions are called.
///
/// # Errors
/// The code that a delete function returned: that attribute and those set before it are still there.
/// `MPI_ERR_COMM`, `MPI_ERR_TYPE`, `MPI_ERR_WIN` when a function of the program runs for the object, which
/// must not go meanwhile.
pub(crate) fn delete_attributes(handle: usize, class: Class) -> Result<(), Error> {
    process::with(|process| check_at_rest(&process.objects, handle, class))?;
    // A delete function may set further attributes, but not forever.
    let mut left = DELETIONS_MAX;
    while let Some((number, value)) =
        process::with(|process| Ok(attributes(&mut process.objects, handle, class)?.last().copied()))?
    {
        left -= 1;
        if left == 0 {
            return Err(Error::new(MPI_ERR_OTHER, "delete functions set new attributes again and again"));
        }
        delete_one(handle, class, number, value)?;
    }
    Ok(())
}

/// The most attributes that one object may lose in one go.
const DELETIONS_MAX: u32 = 1 << 24;

/// Calls the delete function of an attribute, then removes the attribute.
fn delete_one(handle: usize, class: Class, number: i32, value: usize) -> Result<(), Error> {
    let keyval = process::with(|process| process.objects.keyval(number, class))?;
    if let Some(function) = keyval.delete {
        let _running = Running::begin(Callback { class, handle, keyval: number, deletes: true })?;
        // SAFETY: the program gave the function for this call (MPI-5.0 §7.7.2).
        let code = unsafe { function(handle, number, value as *mut c_void, keyval.extra_state as *mut c_void) };
        if code != MPI_SUCCESS {
            return Err(Error::returned(code, format!("the delete function of keyval {number} returned {code}")));
        }
    }
    process::with(|process| {
        let attributes = attributes(&mut process.objects, handle, class)?;
        if let Some(index) = attributes.iter().position(|(present, _)| *present == number) {
            attributes.remove(index);
            process.objects.release_keyval(number);
        }
        Ok(())
    })
}

/// The most calls of a function for one attribute of one object that may be nested. A copy function may copy
/// its object, but not for ever.
const CALLS_WITHIN_MAX: usize = 64;

/// A function of the program that runs; while this value lives, [`Objects::callbacks`] lists the function.
struct Running(Callback);

impl Running {
    fn begin(callback: Callback) -> Result<Self, Error> {
        let Callback { keyval, deletes, .. } = callback;
        process::with(|process| {
            let callbacks = &mut process.objects.callbacks;
            let within = callbacks.iter().filter(|running| **running == callback).count();
            if deletes && within > 0 {
                let sentence = format!("the attribute of keyval {keyval} is being deleted: its delete function runs");
                return Err(Error::new(MPI_ERR_KEYVAL, sentence));
            }
            if within >= CALLS_WITHIN_MAX {
                let sentence = format!(
                    "the copy function of keyval {keyval} has copied its own object {within} times within itself"
                );
                return Err(Error::new(MPI_ERR_OTHER, sentence));
            }
            callbacks.push(callback);
            Ok(Self(callback))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        process::with(|process| {
            let callbacks = &mut process.objects.callbacks;
            if let Some(index) = callbacks.iter().rposition(|running| *running == self.0) {
                callbacks.swap_remove(index);
            }
        });
    }
}

/// Checks that no copy or delete function runs for an object that is to be freed.
fn check_at_rest(objects: &Objects, handle: usize, class: Class) -> Result<(), Error> {
    let Some(running) = objects.callbacks.iter().find(|running| running.handle == handle && running.class == class)
    else {
        return Ok(());
    };
    let (error, what) = match class {
        Class::Communicator => (MPI_ERR_COMM, "communicator"),
        Class::Datatype => (MPI_ERR_TYPE, "datatype"),
        Class::Window => (MPI_ERR_WIN, "window"),
        Class::File => (MPI_ERR_FILE, "file"),
        Class::Session => (MPI_ERR_SESSION, "session"),
    };
    let (kind, keyval) = (if running.deletes { "delete" } else { "copy" }, running.keyval);
    let sentence =
        format!("the {kind} function of keyval {keyval} runs for this {what}, which cannot be freed meanwhile");
    Err(Error::new(error, sentence))
}

/// Checks that no copy or delete function runs for any object: the objects are about to go.
///
/// # Errors
/// `MPI_ERR_OTHER`.
pub(crate) fn check_all_at_rest(objects: &Objects) -> Result<(), Error> {
    match objects.callbacks.first() {
        None => Ok(()),
        Some(Callback { keyval, deletes, .. }) => {
            let kind = if *deletes { "delete" } else { "copy" };
            let sentence = format!("called while the {kind} function of keyval {keyval} runs, which may not end MPI");
            Err(Error::new(MPI_ERR_OTHER, sentence))
        }
    }
}

/// The attributes of an object.
fn attributes(objects: &mut Objects, handle: usize, class: Class) -> Result<&mut Attributes, Error> {
    match class {
        Class::Communicator => Ok(&mut objects.communicator_mut(handle)?.attributes),
        Class::Datatype => Ok(&mut objects.datatype_mut(handle)?.attributes),
        Class::Window => Ok(&mut objects.window_mut(handle)?.attributes),
        Class::File | Class::Session => {
            Err(Error::new(MPI_ERR_UNSUPPORTED_OPERATION, "objects of this kind have no attributes yet"))
        }
    }
}

fn create_keyval(
    class: Class,
    copy: Option<MPI_Comm_copy_attr_function>,
    delete: Option<MPI_Comm_delete_attr_function>,
    number: Out<c_int>,
    extra_state: *mut c_void,
) -> Result<(), Error> {
    let keyval =
        Keyval { class, copy: copy.into(), delete, extra_state: extra_state as usize, references: 1, freed: false };
    let added = process::with(|process| process.objects.add_keyval(keyval));
    number.set(added);
    Ok(())
}

fn free_keyval(class: Class, number: InOut<c_int>) -> Result<(), Error> {
    refuse_predefined(number.get())?;
    process::with(|process| process.objects.free_keyval(number.get(), class))?;
    number.set(MPI_KEYVAL_INVALID);
    Ok(())
}

fn set(handle: usize, class: Class, number: c_int, value: *mut c_void) -> Result<(), Error> {
    refuse_predefined(number)?;
    let present = process::with(|process| {
        process.objects.keyval(number, class)?;
        Ok(find(attributes(&mut process.objects, handle, class)?, number))
    })?;
    if let Some(old) = present {
        // The old value is deleted first (MPI-5.0 §7.7.2).
        delete_one(handle, class, number, old)?;
    }
    process::with(|process| {
        // The delete function may have freed the keyval or the object.
        process.objects.keyval(number, class)?;
        attributes(&mut process.objects, handle, class)?.push((number, value as usize));
        process.objects.retain_keyval(number);
        Ok(())
    })
}

fn get(handle: usize, class: Class, number: c_int, value: Out<usize>, flag: Out<c_int>) -> Result<(), Error> {
    let found = process::with(|process| {
        attributes(&mut process.objects, handle, class)?;
        if class == Class::Communicator && (MPI_TAG_UB..=MPI_UNIVERSE_SIZE).contains(&number) {
            return Ok(predefined(process, number));
        }
        if class == Class::Window && (MPI_WIN_BASE..=MPI_WIN_MODEL).contains(&number) {
            return process.objects.window(handle).map(|window| predefined_of_window(window, number));
        }
        let attributes = self::attributes(&mut process.objects, handle, class)?;
        let found = find(attributes, number);
        process.objects.keyval(number, class)?;
        Ok(found)
    })?;
    flag.set(c_int::from(found.is_some()));
    if let Some(found) = found {
        value.set(found);
    }
    Ok(())
}

fn delete(handle: usize, class: Class, number: c_int) -> Result<(), Error> {
    refuse_predefined(number)?;
    let present = process::with(|process| {
        process.objects.keyval(number, class)?;
        Ok(find(attributes(&mut process.objects, handle, class)?, number))
    })?;
    match present {
        Some(value) => delete_one(handle, class, number, value),
        // MPI-5.0 §7.7.2 names no error for this case, MPICH returns none, and programs (libsc) rely on that.
        None => Ok(()),
    }
}

fn find(attributes: &Attributes, number: i32) -> Option<usize> {
    attributes.iter().find(|(present, _)| *present == number).map(|(_, value)| *value)
}

fn is_predefined(number: i32) -> bool {
    (MPI_TAG_UB..=MPI_UNIVERSE_SIZE).contains(&number) || (MPI_WIN_BASE..=MPI_WIN_MODEL).contains(&number)
}

fn refuse_predefined(number: i32) -> Result<(), Error> {
    if is_predefined(number) {
        return Err(Error::new(MPI_ERR_KEYVAL, format!("keyval {number} is predefined: it can only be read")));
    }
    Ok(())
}

static TAG_UB: AtomicI32 = AtomicI32::new(i32::MAX);
static HOST: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
/// The attribute `MPI_IO`: every process can do input and output.
static IO: AtomicI32 = AtomicI32::new(MPI_ANY_SOURCE);
static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(0);
static APPNUM: AtomicI32 = AtomicI32::new(0);
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(0);
static LAST_USED_CODE: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

/// The address of the integer of a predefined attribute of communicators (MPI-5.0 §9.1.2, §7.7.3).
fn predefined(process: &process::Process, number: i32) -> Option<usize> {
    let integer = match number {
        MPI_TAG_UB => &TAG_UB,
        MPI_HOST => &HOST,
        MPI_IO => &IO,
        MPI_WTIME_IS_GLOBAL => &WTIME_IS_GLOBAL,
        MPI_APPNUM => update(&APPNUM, process.job.as_ref()?.appnum?),
        MPI_UNIVERSE_SIZE => update(&UNIVERSE_SIZE, process.job.as_ref()?.universe_size?),
        MPI_LASTUSEDCODE => update(&LAST_USED_CODE, crate::error_codes::with(|codes| codes.last())),
        _ => return None,
    };
    Some(integer.as_ptr() as usize)
}

/// The address that a predefined attribute of windows has as its value, or points to (MPI-5.0 §12.2.6).
fn predefined_of_window(window: &Window, number: i32) -> Option<usize> {
    let facts = &*window.facts;
    match number {
        // For a dynamic window it is MPI_BOTTOM.
        MPI_WIN_BASE => Some(window.parts[window.rank as usize].here),
        MPI_WIN_SIZE => Some((&raw const facts.size).addr()),
        MPI_WIN_DISP_UNIT => Some((&raw const facts.disp_unit).addr()),
        MPI_WIN_CREATE_FLAVOR => Some((&raw const facts.flavor).addr()),
        MPI_WIN_MODEL => Some((&raw const facts.model).addr()),
        _ => None,
    }
}

fn update(integer: &'static AtomicI32, value: i32) -> &'static AtomicI32 {
    integer.store(value, Ordering::Relaxed);
    integer
}

/// MPI_Comm_create_keyval (MPI-5.0 §7.7.2).
pub(crate) fn comm_create_keyval(
    comm_copy_attr_fn: Option<MPI_Comm_copy_attr_function>,
    comm_delete_attr_fn: Option<MPI_Comm_delete_attr_function>,
    comm_keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Result<(), Error> {
    create_keyval(Class::Communicator, comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval, extra_state)
}

/// MPI_Comm_free_keyval (MPI-5.0 §7.7.2).
pub(crate) fn comm_free_keyval(comm_keyval: InOut<c_int>) -> Result<(), Error> {
    free_keyval(Class::Communicator, comm_keyval)
}

/// MPI_Comm_set_attr (MPI-5.0 §7.7.2).
pub(crate) fn comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void) -> Result<(), Error> {
    set(comm.0, Class::Communicator, comm_keyval, attribute_val)
}

/// MPI_Comm_get_attr (MPI-5.0 §7.7.2).
pub(crate) fn comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: Out<usize>,
    flag: Out<c_int>,
) -> Result<(), Error> {
    get(comm.0, Class::Communicator, comm_keyval, attribute_val, flag)
}

/// MPI_Comm_delete_attr (MPI-5.0 §7.7.2).
pub(crate) fn comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) -> Result<(), Error> {
    delete(comm.0, Class::Communicator, comm_keyval)
}

/// MPI_Type_create_keyval (MPI-5.0 §7.7.4).
pub(crate) fn type_create_keyval(
    type_copy_attr_fn: Option<MPI_Type_copy_attr_function>,
    type_delete_attr_fn: Option<MPI_Type_delete_attr_function>,
    type_keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Result<(), Error> {
    create_keyval(Class::Datatype, type_copy_attr_fn, type_delete_attr_fn, type_keyval, extra_state)
}

/// MPI_Type_free_keyval (MPI-5.0 §7.7.4).
pub(crate) fn type_free_keyval(type_keyval: InOut<c_int>) -> Result<(), Error> {
    free_keyval(Class::Datatype, type_keyval)
}

/// MPI_Type_set_attr (MPI-5.0 §7.7.4).
pub(crate) fn type_set_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<(), Error> {
    set(datatype.0, Class::Datatype, type_keyval, attribute_val)
}

/// MPI_Type_get_attr (MPI-5.0 §7.7.4).
pub(crate) fn type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: Out<usize>,
    flag: Out<c_int>,
) -> Result<(), Error> {
    get(datatype.0, Class::Datatype, type_keyval, attribute_val, flag)
}

/// MPI_Type_delete_attr (MPI-5.0 §7.7.4).
pub(crate) fn type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) -> Result<(), Error> {
    delete(datatype.0, Class::Datatype, type_keyval)
}

/// MPI_Win_create_keyval (MPI-5.0 §7.7.3).
pub(crate) fn win_create_keyval(
    win_copy_attr_fn: Option<MPI_Win_copy_attr_function>,
    win_delete_attr_fn: Option<MPI_Win_delete_attr_function>,
    win_keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Result<(), Error> {
    create_keyval(Class::Window, win_copy_attr_fn, win_delete_attr_fn, win_keyval, extra_state)
}

/// MPI_Win_free_keyval (MPI-5.0 §7.7.3).
pub(crate) fn win_free_keyval(win_keyval: InOut<c_int>) -> Result<(), Error> {
    free_keyval(Class::Window, win_keyval)
}

/// MPI_Win_set_attr (MPI-5.0 §7.7.3).
pub(crate) fn win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) -> Result<(), Error> {
    set(win.0, Class::Window, win_keyval, attribute_val)
}

/// MPI_Win_get_attr (MPI-5.0 §7.7.3).
pub(crate) fn win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: Out<usize>,
    flag: Out<c_int>,
) -> Result<(), Error> {
    get(win.0, Class::Window, win_keyval, attribute_val, flag)
}

/// MPI_Win_delete_attr (MPI-5.0 §7.7.3).
pub(crate) fn win_delete_attr(win: MPI_Win, win_keyval: c_int) -> Result<(), Error> {
    delete(win.0, Class::Window, win_keyval)
}

/// MPI_Keyval_create, deprecated (MPI-5.0 §16.1).
pub(crate) fn keyval_create(
    copy_fn: Option<MPI_Copy_function>,
    delete_fn: Option<MPI_Delete_function>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Result<(), Error> {
    create_keyval(Class::Communicator, copy_fn, delete_fn, keyval, extra_state)
}

/// MPI_Keyval_free, deprecated (MPI-5.0 §16.1).
pub(crate) fn keyval_free(keyval: InOut<c_int>) -> Result<(), Error> {
    free_keyval(Class::Communicator, keyval)
}

/// MPI_Attr_put, deprecated (MPI-5.0 §16.1).
pub(crate) fn attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) -> Result<(), Error> {
    set(comm.0, Class::Communicator, keyval, attribute_val)
}

/// MPI_Attr_get, deprecated (MPI-5.0 §16.1).
pub(crate) fn attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: Out<usize>,
    flag: Out<c_int>,
) -> Result<(), Error> {
    get(comm.0, Class::Communicator, keyval, attribute_val, flag)
}

/// MPI_Attr_delete, deprecated (MPI-5.0 §16.1).
pub(crate) fn attr_delete(comm: MPI_Comm, keyval: c_int) -> Result<(), Error> {
    delete(comm.0, Class::Communicator, keyval)
}
