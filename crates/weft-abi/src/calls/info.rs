//! Info objects (MPI-5.0 §10). They work before initialisation and after finalisation.

use crate::arguments::*;
use crate::types::MPI_Info;
use std::ffi::{c_char, c_int};
use weft_mpi::constants::*;
use weft_mpi::error::{Error, ErrorClass, Result};
use weft_mpi::object::{Info, full};
use weft_mpi::predefined::environment;
use weft_mpi::process::with;

/// Reads the string `text`, which must be UTF-8. Otherwise returns an error of `class` that names the
/// argument `name`.
fn exact<'call>(text: InString<'call>, name: &str, class: ErrorClass) -> Result<&'call str> {
    let wrong = |_| Error::new(class, format!("{name} is not valid UTF-8: {text}"));
    text.as_c_str().to_str().map_err(wrong)
}

/// Checks a key of the program: not empty, and short enough (MPI-5.0 §10).
fn key(key: InString<'_>) -> Result<&str> {
    let key = exact(key, "key", MPI_ERR_INFO_KEY)?;
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
fn value_of(info: MPI_Info, key: InString) -> Result<Option<String>> {
    let key = self::key(key)?;
    with(|process| Ok(find(process.objects.info(info.0)?, key).map(str::to_owned)))
}

/// Makes an info object for the program, which frees it.
pub(crate) fn give(object: Info, info: Out<MPI_Info>) -> Result<()> {
    let handle = with(|process| process.objects.infos.insert(object)).ok_or_else(|| full("info objects"))?;
    info.set(MPI_Info(handle));
    Ok(())
}

/// MPI_Info_create (MPI-5.0 §10).
pub(crate) fn info_create(info: Out<MPI_Info>) -> Result<()> {
    give(Info::new(), info)
}

/// MPI_Info_create_env (MPI-5.0 §10): the contents of MPI_INFO_ENV, with the arguments of `main` where they
/// are given.
pub(crate) unsafe fn info_create_env(argc: c_int, argv: *mut *mut c_char, info: Out<MPI_Info>) -> Result<()> {
    let mut arguments = Vec::new();
    if !argv.is_null() {
        for index in 0..usize::try_from(argc).unwrap_or(0) {
            // SAFETY: `main` gets `argc` strings, and a null pointer after them.
            let argument = unsafe { *argv.add(index) };
            if argument.is_null() {
                break;
            }
            // SAFETY: as above.
            arguments.push(unsafe { InString::new(argument) }.to_string());
        }
    }
    let object = environment(&arguments);
    give(object, info)
}

/// MPI_Info_dup (MPI-5.0 §10).
pub(crate) fn info_dup(info: MPI_Info, newinfo: Out<MPI_Info>) -> Result<()> {
    let copy = with(|process| process.objects.info(info.0).cloned())?;
    give(copy, newinfo)
}

/// MPI_Info_free (MPI-5.0 §10).
pub(crate) fn info_free(info: InOut<MPI_Info>) -> Result<()> {
    let handle = info.get().0;
    with(|process| {
        process.objects.info_mut(handle)?;
        process.objects.infos.remove(handle);
        Ok(())
    })?;
    info.set(MPI_Info::NULL);
    Ok(())
}

/// MPI_Info_set (MPI-5.0 §10). An info object holds values as UTF-8.
pub(crate) fn info_set(info: MPI_Info, key: InString, value: InString) -> Result<()> {
    let key = self::key(key)?;
    let value = exact(value, "value", MPI_ERR_INFO_VALUE)?;
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

/// Sets the value of a key, whether or not it has one.
pub(super) fn put(object: &mut Info, key: &str, value: &str) {
    match object.iter_mut().find(|(present, _)| present == key) {
        Some((_, present)) => value.clone_into(present),
        None => object.push((key.to_owned(), value.to_owned())),
    }
}

/// MPI_Info_delete (MPI-5.0 §10).
pub(crate) fn info_delete(info: MPI_Info, key: InString) -> Result<()> {
    let key = self::key(key)?;
    with(|process| {
        let object = process.objects.info_mut(info.0)?;
        let Some(index) = object.iter().position(|(present, _)| present == key) else {
            return Err(Error::new(MPI_ERR_INFO_NOKEY, format!("the info object has no key {key}")));
        };
        object.remove(index);
        Ok(())
    })
}

/// MPI_Info_get, deprecated (MPI-5.0 §16.3): `valuelen` characters and a zero byte fit in `value`.
pub(crate) unsafe fn info_get(
    info: MPI_Info,
    key: InString,
    valuelen: c_int,
    value: *mut c_char,
    flag: Out<c_int>,
) -> Result<()> {
    let found = value_of(info, key)?;
    flag.set(c_int::from(found.is_some()));
    let Some(found) = found else { return Ok(()) };
    let Ok(room) = usize::try_from(valuelen) else {
        return Err(Error::new(MPI_ERR_ARG, format!("valuelen is {valuelen}; it must not be negative")));
    };
    // SAFETY: the standard demands room for `valuelen` characters and the zero byte, and `value` is not null.
    unsafe { OutString::new(value, room + 1) }.set(&found);
    Ok(())
}

/// MPI_Info_get_valuelen, deprecated (MPI-5.0 §16.3).
pub(crate) fn info_get_valuelen(info: MPI_Info, key: InString, valuelen: Out<c_int>, flag: Out<c_int>) -> Result<()> {
    let found = value_of(info, key)?;
    flag.set(c_int::from(found.is_some()));
    if let Some(found) = found {
        valuelen.set(found.len() as c_int);
    }
    Ok(())
}

/// MPI_Info_get_string (MPI-5.0 §10): `buflen` bytes fit in `value`, including the zero byte. With 0 only the
/// length is asked for.
pub(crate) unsafe fn info_get_string(
    info: MPI_Info,
    key: InString,
    buflen: InOut<c_int>,
    value: *mut c_char,
    flag: Out<c_int>,
) -> Result<()> {
    let found = value_of(info, key)?;
    flag.set(c_int::from(found.is_some()));
    let Some(found) = found else { return Ok(()) };
    let room = buflen.get();
    if room > 0 {
        // SAFETY: `buflen` says how much room there is.
        let Some(value) = (unsafe { OutString::if_wanted(value, room as usize) }) else {
            return Err(Error::new(MPI_ERR_ARG, format!("value is a null pointer, but buflen is {room}")));
        };
        value.set(&found);
    }
    buflen.set(found.len() as c_int + 1);
    Ok(())
}

/// MPI_Info_get_nkeys (MPI-5.0 §10).
pub(crate) fn info_get_nkeys(info: MPI_Info, nkeys: Out<c_int>) -> Result<()> {
    let count = with(|process| Ok(process.objects.info(info.0)?.len()))?;
    nkeys.set(count as c_int);
    Ok(())
}

/// MPI_Info_get_nthkey (MPI-5.0 §10).
pub(crate) fn info_get_nthkey(info: MPI_Info, n: c_int, key: OutString) -> Result<()> {
    let found = with(|process| {
        let object = process.objects.info(info.0)?;
        let found = usize::try_from(n).ok().and_then(|n| object.get(n));
        let missing = || Error::new(MPI_ERR_ARG, format!("n is {n}, but the info object has {} keys", object.len()));
        Ok(found.ok_or_else(missing)?.0.clone())
    })?;
    key.set(&found);
    Ok(())
}
