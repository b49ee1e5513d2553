//! Generates the types of the functions that programs hand over (MPI-5.0 §7.7.2, §9.3, §13.2, §15.3.8), for
//! the inside of the library.

use super::MARKER;
use super::spec::{Direction, Form, Parameter, Procedure, Spec};
use super::tables::HANDLES;
use anyhow::{Result, bail};
use std::fmt::Write as _;

/// The line width that rustfmt.toml allows.
const WIDTH: usize = 120;

pub(super) fn types(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
// {MARKER} from `spec/`; do not edit.

//! The types of the functions that a program hands over, under their names in C.
//!
//! A handle is a number as wide as a pointer, so the functions of communicators, datatypes and windows have
//! the same type. A status is a `void *`, because only the C boundary has its type.
#![allow(missing_docs, non_camel_case_types)]

use std::ffi::{{c_int, c_void}};

"
    );
    for callback in spec.chapters.iter().flat_map(|chapter| &chapter.procedures).filter(|p| p.callback) {
        for &form in callback.forms() {
            out.push_str(&alias(spec, callback, form)?);
        }
    }
    Ok(out)
}

/// The alias of one type, broken as rustfmt would break it.
fn alias(spec: &Spec, callback: &Procedure, form: Form) -> Result<String> {
    let mut parameters = Vec::new();
    for parameter in &callback.parameters {
        parameters.push(rust_type(spec, parameter, form)?);
    }
    let result = if callback.returns.is_none() { " -> c_int" } else { "" };
    let (name, parameters) = (callback.symbol(form), parameters.join(", "));
    let function = format!("unsafe extern \"C\" fn({parameters}){result};");
    let start = format!("pub type {name} =");
    let is_long = start.len() + 1 + function.len() > WIDTH;
    let mut out = String::new();
    writeln!(out, "{start}{}{function}", if is_long { "\n    " } else { " " })?;
    Ok(out)
}

fn rust_type(spec: &Spec, parameter: &Parameter, form: Form) -> Result<String> {
    let scalar = match spec.c_type(parameter, form) {
        "..." => return Ok("...".to_owned()),
        "void*" => return Ok("*mut c_void".to_owned()),
        "int" | "MPI_T_cb_safety" => "c_int",
        "MPI_Aint" => "isize",
        "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Status" => "c_void",
        handle if HANDLES.contains(&handle) => "usize",
        other => bail!("no Rust type for {other} in a callback"),
    };
    let is_pointer = parameter.pointer || (parameter.direction != Direction::In && !parameter.value);
    Ok(if is_pointer { format!("*mut {scalar}") } else { scalar.to_owned() })
}
