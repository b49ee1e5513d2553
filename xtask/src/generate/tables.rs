//! Generates the enumeration of functions, the constants and the list of symbols.

use super::MARKER;
use super::spec::{Constant, Form, Procedure, Spec};
use anyhow::{Context, Result, ensure};
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

/// The variant of a symbol: `MPI_Comm_dup` → `CommDup`, `MPI_T_init_thread` → `TInitThread`.
pub(super) fn variant(symbol: &str) -> String {
    let words = symbol.trim_start_matches("MPIX_").trim_start_matches("MPI_").split('_');
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

/// The symbols of all procedures, in alphabetical order.
fn all_symbols(spec: &Spec) -> Vec<String> {
    let symbols = spec.procedures().flat_map(|p: &Procedure| p.forms().iter().map(|&form: &Form| p.symbol(form)));
    let mut symbols: Vec<String> = symbols.collect();
    symbols.sort();
    symbols
}

/// The list that `nm -D` must show: one symbol a line.
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
// {MARKER} from `spec/`; do not edit.

//! The functions of the C boundary, by number and by name.

use std::sync::LazyLock;

/// A function of the C boundary, by its index in [`NAMES`]. The index is the same within one build only.
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
    /// The number of functions.
    #[allow(dead_code)]
    pub(crate) const COUNT: usize = {count};

    /// Returns the function's name in C.
    pub(crate) fn name(self) -> &'static str {{
        NAMES[self as usize]
    }}
}}

/// The names of all functions in C, in the order of [`Function`].
pub(crate) static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| TEXT.lines().collect());

/// The names, one in a line: a table of strings would be twice as long, and the loader would fill it.
const TEXT: &str = \"\\
",
        count = symbols.len()
    )?;
    for symbol in &symbols {
        writeln!(out, "{symbol}\\n\\")?;
    }
    out.push_str("\";\n");
    Ok(out)
}

/// The constants for the inside of the library: numbers, with handles and addresses as `usize`.
pub(super) fn library_constants(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
// {MARKER} from `spec/`; do not edit.

//! The constants of MPI-5.0 with their values in the standard ABI (§20). Handles and special addresses are
//! `usize`. Error classes are variants of [`ErrorClass`], and have no number here.
#![allow(missing_docs)]

use weft_engine::error::ErrorClass;
"
    );
    for category in &spec.categories {
        write!(out, "\n// {}\n", category.title)?;
        for constant in &category.constants {
            match error_class(constant) {
                Some(class) => writeln!(out, "pub const {}: ErrorClass = ErrorClass::{class};", constant.name)?,
                None => writeln!(out, "pub const {}: {} = {};", constant.name, number_type(constant), constant.value)?,
            }
        }
    }
    Ok(out)
}

/// The variant of an error class: `MPI_ERR_NO_MEM` → `NoMem`, `MPI_T_ERR_INVALID` → `ToolInvalid`. `None` if
/// the constant is no class of errors.
fn error_class(constant: &Constant) -> Option<String> {
    let known = constant.name.strip_prefix("MPI_ERR_").or_else(|| constant.name.strip_prefix("MPIX_ERR_"));
    let (prefix, name) = match known {
        Some("LASTCODE") => return None,
        Some(name) => ("", name),
        None => ("Tool", constant.name.strip_prefix("MPI_T_ERR_")?),
    };
    let words = name.split('_').map(|word| word[..1].to_owned() + &word[1..].to_ascii_lowercase());
    Some(prefix.to_owned() + &words.collect::<String>())
}

/// The constants that are classes of errors, each with its variant of `ErrorClass`.
fn error_classes(spec: &Spec) -> impl Iterator<Item = (&Constant, String)> {
    let constants = spec.categories.iter().flat_map(|category| &category.constants);
    constants.filter_map(|constant| Some((constant, error_class(constant)?)))
}

/// An error class's name, with the sentence that MPI_Error_string gives for it.
fn sentence<'a>(spec: &'a Spec, class: &str) -> Result<&'a (String, String)> {
    spec.errors.iter().find(|(name, _)| name == class).with_context(|| format!("{class} has no sentence"))
}

/// The classes of errors for the engine: an enumeration without the numbers of the ABI.
pub(super) fn error_class_enumeration(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
// {MARKER} from `spec/`; do not edit.

//! The error classes of MPI, without the numbers of the ABI.

/// The class of an error (MPI-5.0 §9.4, §15.3.10), in the order of the standard. Only the C boundary knows
/// the number that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ErrorClass {{
"
    );
    for (constant, variant) in error_classes(spec) {
        let (name, sentence) = sentence(spec, &constant.name)?;
        writeln!(out, "    /// `{name}`: {sentence}.\n    {variant},")?;
    }
    out.push_str("}\n\nimpl ErrorClass {\n    /// All classes, in their order.\n    pub const ALL: &[Self] = &[\n");
    for (_, variant) in error_classes(spec) {
        writeln!(out, "        Self::{variant},")?;
    }
    out.push_str("    ];\n}\n");
    Ok(out)
}

/// The program's view of each class of errors: its number in the ABI, its name and its sentence.
pub(super) fn error_class_numbers(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
// {MARKER} from `spec/`; do not edit.

//! The error classes as a program sees them: numbers, names and sentences.

use weft_mpi::error::ErrorClass;

/// The error classes, in the order of [`ErrorClass::ALL`]. Each has its number in the standard ABI
/// (MPI-5.0 §20), its name, and the sentence that MPI_Error_string gives (MPI-5.0 §9.4).
pub(crate) const ERROR_CLASSES: &[(ErrorClass, i32, &str, &str)] = &[
"
    );
    for (constant, variant) in error_classes(spec) {
        let (name, sentence) = sentence(spec, &constant.name)?;
        writeln!(out, "    (ErrorClass::{variant}, {}, \"{name}\", \"{sentence}\"),", constant.value)?;
    }
    out.push_str("];\n");
    let (name, sentence) = sentence(spec, "MPI_SUCCESS")?;
    writeln!(
        out,
        "\n/// The name of success, and the sentence that MPI_Error_string gives for it.\npub(crate) const SUCCESS: (&str, &str) = (\"{name}\", \"{sentence}\");"
    )?;
    Ok(out)
}

/// The constants for the boundary: handles have their own types.
pub(super) fn boundary_constants(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "\
// {MARKER} from `spec/`; do not edit.

//! The constants of MPI-5.0 with their values in the standard ABI (§20). Handles have types of their own.
//! Error classes are variants of [`ErrorClass`]; their numbers are in `error_classes.rs`.
#![allow(dead_code)]

use crate::types::*;
use weft_mpi::error::ErrorClass;
"
    );
    for category in &spec.categories {
        write!(out, "\n// {}\n", category.title)?;
        for constant in &category.constants {
            let Constant { name, value, c_type } = constant;
            if let Some(class) = error_class(constant) {
                writeln!(out, "pub(crate) const {name}: ErrorClass = ErrorClass::{class};")?;
            } else if HANDLES.contains(&c_type.as_str()) {
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
        // The constant is an offset in a file view, though the table calls it an int (MPI-5.0 §14.3).
        _ if constant.name == "MPI_DISPLACEMENT_CURRENT" => "i64",
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "i32",
        _ => "usize",
    }
}
