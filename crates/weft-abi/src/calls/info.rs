//! Info objects (MPI-5.0 §10). They work before initialisation and after finalisation.
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype: strings end with a zero
//! byte, output pointers can be written.

use super::text;
use crate::types::MPI_Info;
use std::ffi::{CStr, c_char, c_int};
use weft_mpi::constants::*;
use weft_mpi::error::{Error, ErrorClass, Result};
use weft_mpi::object::{Info, full};
use weft_mpi::predefined::environment;
use weft_mpi::process::with;

/// The string at `text`, which must be UTF-8; else an error of `class` that names the argument `name`.
///
/// # Safety
/// `text` is a string that does not change while the result is in use.
unsafe fn exact<'a>(text: *const c_char, name: &str, class: ErrorClass) -> Result<&'a str> {
    // SAFETY: the caller's string.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::new(class, format!("{name} is not valid UTF-8: {}", text.to_string_lossy())))
}

/// A key of the program: not empty, and short enough (MPI-5.0 §10).
///
/// # Safety
/// `key` is a string.
unsafe fn key<'a>(key: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's string.
    let key = unsafe { exact(key, "key", MPI_ERR_INFO_KEY) }?;
    match key.len() {
        0 => Err(Error::new(MPI_ERR_INFO_KEY, "key is empty")),
        length if length >= MPI_MAX_INFO_KEY as usize => {
            let message = format!("key has {length} characters, at most {} are allowed", MPI_MAX_INFO_KEY - 1);
            Err(Error::new(MPI_ERR_INFO_KEY, message))
        }
        _ => Ok(key),
    }
}

fn find<'a>(info: &'a Info, key: &str) -> Option<&'a str> {
    info.iter().find(|(present, _)| present == key).map(|(_, value)| value.as_str())
}

/// The value of `key`, if there is one.
///
/// # Safety
/// `key` is a string.
unsafe fn value_of(info: MPI_Info, key: *const c_char) -> Result<Option<String>> {
    // SAFETY: the caller's string.
    let key = unsafe { self::key(key) }?;
    with(|process| Ok(find(process.objects.info(info.0)?, key).map(str::to_owned)))
}

/// # Safety
/// `info` can be written.
unsafe fn add(object: Info, info: *mut MPI_Info) -> Result<()> {
    let handle = with(|process| process.objects.infos.insert(object)).ok_or_else(|| full("info objects"))?;
    // SAFETY: the caller's pointer.
    unsafe { *info = MPI_Info(handle) };
    Ok(())
}

/// MPI_Info_create (MPI-5.0 §10).
pub(crate) unsafe fn info_create(info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { add(Info::new(), info) }
}

/// MPI_Info_create_env (MPI-5.0 §10): what MPI_INFO_ENV holds, with the arguments of `main` where they are given.
pub(crate) unsafe fn info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut MPI_Info) -> Result<()> {
    let mut arguments = Vec::new();
    if !argv.is_null() {
        for place in 0..usize::try_from(argc).unwrap_or(0) {
            // SAFETY: `main` gets `argc` strings.
            let argument = unsafe { *argv.add(place) };
            if argument.is_null() {
                break;
            }
            // SAFETY: as above.
            arguments.push(unsafe { text::take(argument) });
        }
    }
    let object = environment(&arguments);
    // SAFETY: the caller's pointer.
    unsafe { add(object, info) }
}

/// MPI_Info_dup (MPI-5.0 §10).
pub(crate) unsafe fn info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> Result<()> {
    let copy = with(|process| process.objects.info(info.0).cloned())?;
    // SAFETY: the caller's pointer.
    unsafe { add(copy, newinfo) }
}

/// MPI_Info_free (MPI-5.0 §10).
pub(crate) unsafe fn info_free(info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's pointer.
    let info = unsafe { &mut *info };
    with(|process| {
        process.objects.info_mut(info.0)?;
        process.objects.infos.remove(info.0);
        Ok(())
    })?;
    *info = MPI_Info::NULL;
    Ok(())
}

/// MPI_Info_set (MPI-5.0 §10). An info object holds values as UTF-8.
pub(crate) unsafe fn info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> Result<()> {
    // SAFETY: the caller's string.
    let key = unsafe { self::key(key) }?;
    // SAFETY: the caller's string.
    let value = unsafe { exact(value, "value", MPI_ERR_INFO_VALUE) }?;
    if value.len() >= MPI_MAX_INFO_VAL as usize {
        let message =
            format!("the value of {key} has {} characters, at most {} are allowed", value.len(), MPI_MAX_INFO_VAL - 1);
        return Err(Error::new(MPI_ERR_INFO_VALUE, message));
    }
    with(|process| {
        put(process.objects.info_mut(info.0)?, key, value);
        Ok(())
    })
}

/// Gives a key this value, whether it has one or not.
pub(super) fn put(object: &mut Info, key: &str, value: &str) {
    match object.iter_mut().find(|(present, _)| present == key) {
        Some((_, present)) => value.clone_into(present),
        None => object.push((key.to_owned(), value.to_owned())),
    }
}

/// MPI_Info_delete (MPI-5.0 §10).
pub(crate) unsafe fn info_delete(info: MPI_Info, key: *const c_char) -> Result<()> {
    // SAFETY: the caller's string.
    let key = unsafe { self::key(key) }?;
    with(|process| {
        let object = process.objects.info_mut(info.0)?;
        let Some(place) = object.iter().position(|(present, _)| present == key) else {
            return Err(Error::new(MPI_ERR_INFO_NOKEY, format!("the info object has no key {key}")));
        };
        object.remove(place);
        Ok(())
    })
}

/// MPI_Info_get, deprecated (MPI-5.0 §16.3): `valuelen` characters and a zero byte fit in `value`.
pub(crate) unsafe fn info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's string.
    let found = unsafe { value_of(info, key) }?;
    // SAFETY: the caller's pointer.
    unsafe { *flag = c_int::from(found.is_some()) };
    let Some(found) = found else { return Ok(()) };
    let Ok(room) = usize::try_from(valuelen) else {
        return Err(Error::new(MPI_ERR_ARG, format!("valuelen is {valuelen}; it must not be negative")));
    };
    // SAFETY: the room that the standard demands.
    unsafe { text::give(&found, value, room + 1) };
    Ok(())
}

/// MPI_Info_get_valuelen, deprecated (MPI-5.0 §16.3).
pub(crate) unsafe fn info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's string.
    let found = unsafe { value_of(info, key) }?;
    // SAFETY: the caller's pointer.
    unsafe { *flag = c_int::from(found.is_some()) };
    if let Some(found) = found {
        // SAFETY: the caller's pointer.
        unsafe { *valuelen = found.len() as c_int };
    }
    Ok(())
}

/// MPI_Info_get_string (MPI-5.0 §10): `buflen` bytes fit in `value`, the zero byte among them; with 0 only the length
/// is asked for.
pub(crate) unsafe fn info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's string.
    let found = unsafe { value_of(info, key) }?;
    // SAFETY: the caller's pointer.
    unsafe { *flag = c_int::from(found.is_some()) };
    let Some(found) = found else { return Ok(()) };
    // SAFETY: the caller's pointer.
    let buflen = unsafe { &mut *buflen };
    if *buflen > 0 {
        if value.is_null() {
            return Err(Error::new(MPI_ERR_ARG, format!("value is a null pointer, but buflen is {buflen}")));
        }
        // SAFETY: the caller's room.
        unsafe { text::give(&found, value, *buflen as usize) };
    }
    *buflen = found.len() as c_int + 1;
    Ok(())
}

/// MPI_Info_get_nkeys (MPI-5.0 §10).
pub(crate) unsafe fn info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> Result<()> {
    let count = with(|process| Ok(process.objects.info(info.0)?.len()))?;
    // SAFETY: the caller's pointer.
    unsafe { *nkeys = count as c_int };
    Ok(())
}

/// MPI_Info_get_nthkey (MPI-5.0 §10).
pub(crate) unsafe fn info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> Result<()> {
    let found = with(|process| {
        let object = process.objects.info(info.0)?;
        let found = usize::try_from(n).ok().and_then(|n| object.get(n));
        let missing = || Error::new(MPI_ERR_ARG, format!("n is {n}, but the info object has {} keys", object.len()));
        Ok(found.ok_or_else(missing)?.0.clone())
    })?;
    // SAFETY: the room that the standard demands.
    unsafe { text::give(&found, key, MPI_MAX_INFO_KEY as usize) };
    Ok(())
}
