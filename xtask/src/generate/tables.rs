//! The enumeration of functions, the constants and the list of symbols.

use super::MARKER;
use super::spec::{Constant, Form, Procedure, Spec};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Types of handles: pointers to incomplete structures in C, numbers here.
pub(super) const HANDLES: &[&str] = &[
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
    "MPI_T_enum",
    "MPI_T_cvar_handle",
    "MPI_T_pvar_handle",
    "MPI_T_pvar_session",
    "MPI_T_event_registration",
    "MPI_T_event_instance",
];

/// `MPI_Comm_dup` → `CommDup`, `MPI_T_init_thread` → `TInitThread`.
pub(super) fn variant(symbol: &str) -> String {
    let words = symbol.strip_prefix("MPI_").unwrap_or(symbol).split('_');
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

/// All procedures' symbols, in alphabetical order.
fn all_symbols(spec: &Spec) -> Vec<String> {
    let symbols = spec.procedures().flat_map(|p: &Procedure| p.forms().iter().map(|&form: &Form| p.symbol(form)));
    let mut symbols: Vec<String> = symbols.collect();
    symbols.sort();
    symbols
}

/// What `nm -D` must show: one symbol a line.
pub(super) fn symbols(spec: &Spec) -> String {
    let mut out = String::new();
    for prefix in ["", "P"] {
        for symbol in all_symbols(spec) {
            writeln!(out, "{prefix}{symbol}").expect("writing to a string cannot fail");
        }
    }
    out
}

pub(super) fn functions(spec: &Spec) -> Result<String> {
    let symbols = all_symbols(spec);
    let variants: BTreeSet<String> = symbols.iter().map(|symbol| variant(symbol)).collect();
    ensure!(variants.len() == symbols.len(), "two symbols have the same variant of Function");
    let mut out = format!(
        "\
//! {MARKER} from `spec/`; do not edit.

/// The functions of the C boundary. The numbers are those of `NAMES`; they are the same within one build only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
#[allow(dead_code)]
pub(crate) enum Function {{
"
    );
    for symbol in &symbols {
        writeln!(out, "    {},", variant(symbol))?;
    }
    write!(
        out,
        "\
}}

impl Function {{
    /// How many functions there are.
    #[allow(dead_code)]
    pub(crate) const COUNT: usize = {count};

    /// The function's name in C.
    pub(crate) fn name(self) -> &'static str {{
        NAMES[self as usize]
    }}
}}

/// The names of all functions, in the order of `Function`.
pub(crate) const NAMES: [&str; {count}] = [
",
        count = symbols.len()
    )?;
    for symbol in &symbols {
        writeln!(out, "    \"{symbol}\",")?;
    }
    out.push_str("];\n");
    Ok(out)
}

/// Constants for the library's inside: numbers, with handles and addresses as `usize`.
pub(super) fn library_constants(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
//! {MARKER} from `spec/`; do not edit.
//!
//! The constants of MPI-5.0 with their values in the standard ABI (§20). Handles and special addresses are `usize`.
#![allow(missing_docs)]
"
    );
    for category in &spec.categories {
        write!(out, "\n// {}\n", category.title)?;
        for constant in &category.constants {
            let rust = number_type(constant);
            writeln!(out, "pub const {}: {rust} = {};", constant.name, constant.value)?;
        }
    }
    out.push_str("\n/// Error classes: value, name, and the sentence that MPI_Error_string gives (MPI-5.0 §9.4).\n");
    out.push_str("pub const ERROR_CLASS_NAMES: &[(i32, &str, &str)] = &[\n");
    for (name, sentence) in &spec.errors {
        writeln!(out, "    ({name}, \"{name}\", \"{sentence}\"),")?;
    }
    out.push_str("];\n");
    Ok(out)
}

/// Constants for the boundary: handles have their own types.
pub(super) fn boundary_constants(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
//! {MARKER} from `spec/`; do not edit.
//!
//! The constants of MPI-5.0 with their values in the standard ABI (§20). Handles have their types.
#![allow(dead_code)]

use crate::types::*;
"
    );
    for category in &spec.categories {
        write!(out, "\n// {}\n", category.title)?;
        for constant in &category.constants {
            let Constant { name, value, c_type } = constant;
            if HANDLES.contains(&c_type.as_str()) {
                writeln!(out, "pub(crate) const {name}: {c_type} = {c_type}({value});")?;
            } else {
                writeln!(out, "pub(crate) const {name}: {} = {value};", number_type(constant))?;
            }
        }
    }
    Ok(out)
}

fn number_type(constant: &Constant) -> &'static str {
    match constant.c_type.as_str() {
        // An offset in a file view, though the table calls it an int (MPI-5.0 §14.3).
        _ if constant.name == "MPI_DISPLACEMENT_CURRENT" => "i64",
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "i32",
        _ => "usize",
    }
}
