//! `include/mpi.h`: the types, constants and prototypes of MPI-5.0 with the standard ABI (§20).

mod fortran;

use super::MARKER;
use super::spec::{Category, Direction, Form, Parameter, Procedure, Spec, Standing};
use super::tables::HANDLES;
use anyhow::Result;
use std::fmt::Write as _;

/// The macro that a program defines if it still calls procedures that MPI-3.0 removed.
const REMOVED_NAMES: &str = "WEFT_REMOVED_NAMES";
/// The column before which lines of prototypes are broken.
const WIDTH: usize = 110;

pub(super) fn header(spec: &Spec) -> Result<String> {
    let mut out = format!("/* mpi.h: MPI 5.0 with the standard ABI. {MARKER}; do not edit. */\n{HEAD}");
    let of_type = |category: &Category, part: &str| category.constants.iter().any(|c| c.c_type.contains(part));
    for category in spec.standard_categories() {
        // These categories come after the types that they need.
        if !["MPI_T_cb", "MPI_T_source", "_function"].iter().any(|part| of_type(category, part)) {
            constants(&mut out, category)?;
        }
    }
    for category in spec.standard_categories() {
        enumeration(&mut out, category)?;
    }
    callbacks(&mut out, spec, |_| true)?;
    for class in ["Comm", "File", "Session", "Win"] {
        writeln!(out, "typedef MPI_{class}_errhandler_function MPI_{class}_errhandler_fn;")?;
    }
    for category in spec.categories.iter().filter(|category| of_type(category, "_function")) {
        constants(&mut out, category)?;
    }
    prototypes(&mut out, spec)?;
    fortran::conversions(&mut out, spec)?;
    out.push_str(TAIL);
    Ok(out)
}

/// The types of callbacks and the prototypes of the standard's functions, but for the tool interface: their
/// text is the same for every ABI, whatever its types are.
pub(super) fn called_by_fortran(out: &mut String, spec: &Spec) -> Result<()> {
    let is_called = |procedure: &Procedure| !procedure.name.starts_with("MPI_T_");
    callbacks(out, spec, is_called)?;
    for prefix in ["", "P"] {
        for chapter in spec.chapters.iter().filter(|chapter| chapter.standing == Standing::Standard) {
            for procedure in chapter.procedures.iter().filter(|one| !one.callback && is_called(one)) {
                for &form in procedure.forms() {
                    let start = format!("{} {prefix}{}", returns(spec, procedure), procedure.symbol(form));
                    writeln!(out, "{}", prototype(spec, procedure, form, &start))?;
                }
            }
        }
    }
    Ok(())
}

/// Writes the types of the callbacks that `wanted` chooses.
fn callbacks(out: &mut String, spec: &Spec, wanted: impl Fn(&Procedure) -> bool) -> Result<()> {
    out.push_str("\n/* Types of callbacks. */\n");
    let all = spec.chapters.iter().flat_map(|chapter| &chapter.procedures);
    for procedure in all.filter(|procedure| procedure.callback && wanted(procedure)) {
        for &form in procedure.forms() {
            let name = procedure.symbol(form);
            writeln!(
                out,
                "{}",
                prototype(spec, procedure, form, &format!("typedef {} {name}", returns(spec, procedure)))
            )?;
        }
    }
    Ok(())
}

/// `include/mpi-ext.h`: the constants and prototypes beyond the standard.
pub(super) fn extensions(spec: &Spec) -> Result<String> {
    let mut out = format!("/* mpi-ext.h: MPI beyond the standard. {MARKER}; do not edit. */\n{EXTENSIONS_HEAD}");
    for category in spec.categories.iter().filter(|category| category.standing == Standing::Extension) {
        constants(&mut out, category)?;
    }
    for chapter in spec.chapters.iter().filter(|chapter| chapter.standing == Standing::Extension) {
        for (prefix, what) in [("", ""), ("P", ", profiling names")] {
            writeln!(out, "\n/* {}{what} */", chapter.title)?;
            for procedure in &chapter.procedures {
                let start = format!("{} {prefix}{}", returns(spec, procedure), procedure.name);
                writeln!(out, "{}", prototype(spec, procedure, Form::Small, &start))?;
            }
        }
    }
    out.push_str(TAIL);
    Ok(out)
}

const EXTENSIONS_HEAD: &str = "\
#ifndef MPI_EXT_H_INCLUDED
#define MPI_EXT_H_INCLUDED

#include <mpi.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

/// Writes the prototypes of all procedures, chapter by chapter, with their two names.
fn prototypes(out: &mut String, spec: &Spec) -> Result<()> {
    for prefix in ["", "P"] {
        for chapter in spec.chapters.iter().filter(|chapter| chapter.standing != Standing::Extension) {
            if chapter.procedures.iter().all(|procedure| procedure.callback) {
                continue;
            }
            let profiling = if prefix.is_empty() { "" } else { ", profiling names" };
            if chapter.standing == Standing::Removed {
                writeln!(out, "\n/* {}{profiling} (MPI-3.0, chapter 16) */\n#ifdef {REMOVED_NAMES}", chapter.title)?;
                if prefix.is_empty() {
                    out.push_str("typedef MPI_Comm_errhandler_function MPI_Handler_function;\n");
                }
            } else {
                writeln!(out, "\n/* {}. {}{profiling} */", chapter.number, chapter.title)?;
            }
            for procedure in &chapter.procedures {
                for &form in procedure.forms() {
                    let start = format!("{} {prefix}{}", returns(spec, procedure), procedure.symbol(form));
                    writeln!(out, "{}", prototype(spec, procedure, form, &start))?;
                }
            }
            if chapter.standing == Standing::Removed {
                out.push_str("#endif\n");
            }
        }
    }
    Ok(())
}

const HEAD: &str = "\
#ifndef MPI_H_INCLUDED
#define MPI_H_INCLUDED

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;

typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;

/* Handles are pointers to structures that are never defined. */
typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_ABI_File *MPI_File;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Info *MPI_Info;
typedef struct MPI_ABI_Message *MPI_Message;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Session *MPI_Session;
typedef struct MPI_ABI_Win *MPI_Win;
typedef struct MPI_T_enum_t *MPI_T_enum;
typedef struct MPI_T_cvar_handle_t *MPI_T_cvar_handle;
typedef struct MPI_T_pvar_handle_t *MPI_T_pvar_handle;
typedef struct MPI_T_pvar_session_t *MPI_T_pvar_session;
typedef struct MPI_T_event_registration_t *MPI_T_event_registration;
typedef struct MPI_T_event_instance_t *MPI_T_event_instance;
";

const TAIL: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

fn constants(out: &mut String, category: &Category) -> Result<()> {
    writeln!(out, "\n/* {} */", category.title)?;
    for constant in &category.constants {
        let name = &constant.name;
        let value = match constant.c_type.as_str() {
            // The constant is a position in a file, though the table calls it an int (MPI-5.0 §14.3).
            _ if name == "MPI_DISPLACEMENT_CURRENT" => format!("((MPI_Offset){})", constant.value),
            "int" if constant.value < 0 => format!("({})", constant.value),
            "int" => constant.value.to_string(),
            c_type if HANDLES.contains(&c_type) => format!("(({c_type})0x{:x})", constant.value),
            c_type => format!("(({})0x{:x})", spaced(c_type), constant.value),
        };
        writeln!(out, "#define {name:<34} {value}")?;
    }
    Ok(())
}

/// Puts a blank before the stars: `void*` → `void *`
fn spaced(c_type: &str) -> String {
    let stars = c_type.len() - c_type.trim_end_matches('*').len();
    format!("{} {}", &c_type[..c_type.len() - stars], &c_type[c_type.len() - stars..])
}

/// Writes the two enumerations that are types of their own.
fn enumeration(out: &mut String, category: &Category) -> Result<()> {
    let Some(first) = category.constants.first() else { return Ok(()) };
    if !matches!(first.c_type.as_str(), "MPI_T_cb_safety" | "MPI_T_source_order") {
        return Ok(());
    }
    writeln!(out, "\n/* {} */\ntypedef enum {} {{", category.title, first.c_type)?;
    let lines: Vec<String> = category.constants.iter().map(|c| format!("    {} = {}", c.name, c.value)).collect();
    writeln!(out, "{}\n}} {};", lines.join(",\n"), first.c_type)?;
    Ok(())
}

fn returns<'a>(spec: &'a Spec, procedure: &Procedure) -> &'a str {
    procedure.returns.as_ref().map_or("int", |kind| &spec.kinds[kind].c_type)
}

/// The prototype `start(parameters);`, in lines of reasonable length.
fn prototype(spec: &Spec, procedure: &Procedure, form: Form, start: &str) -> String {
    let visible = procedure.parameters.iter().filter(|parameter| parameter.in_form(form));
    let mut parameters: Vec<String> = visible.map(|parameter| declaration(spec, parameter, form)).collect();
    if parameters.is_empty() {
        parameters.push("void".to_owned());
    }
    let mut out = format!("{start}(");
    let mut column = out.len();
    let last = parameters.len() - 1;
    for (index, parameter) in parameters.iter().enumerate() {
        let text = format!("{parameter}{}", if index == last { ");" } else { "," });
        if index > 0 && column + 1 + text.len() > WIDTH {
            out.push_str("\n    ");
            column = 4;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        column += text.len();
        out.push_str(&text);
    }
    if procedure.deprecated {
        out.push_str(" /* deprecated */");
    }
    out
}

/// The declaration of a parameter in C.
pub(super) fn declaration(spec: &Spec, parameter: &Parameter, form: Form) -> String {
    let name = &parameter.name;
    let constness = if parameter.constant { "const " } else { "" };
    let c_type = spec.c_type(parameter, form);
    match c_type {
        "..." => return "...".to_owned(),
        "fn" => {
            let function = parameter.function.as_deref().unwrap_or_default();
            let suffix = if parameter.is_poly() && form == Form::Large { "_c" } else { "" };
            return format!("{function}{suffix} *{name}");
        }
        // The command line is passed by address to MPI_Init and by value elsewhere.
        "char***" if parameter.kind == "ARGUMENT_LIST" && !parameter.value => return format!("char ***{name}"),
        "char***" if parameter.kind == "ARGUMENT_LIST" => return format!("char *{name}[]"),
        "char***" => return format!("char **{name}[]"),
        "char**" => return format!("char *{name}[]"),
        _ => {}
    }
    if c_type.ends_with('*') {
        return format!("{constness}{}{name}", spaced(c_type));
    }
    if let Some(inner) = parameter.lengths.get(1) {
        return format!("{constness}{c_type} {name}[][{inner}]");
    }
    // For an array the compiler would warn of MPI_UNWEIGHTED, which is an address where no array can be.
    if parameter.kind == "WEIGHT" {
        return format!("{constness}{c_type} *{name}");
    }
    if !parameter.lengths.is_empty() {
        return format!("{constness}{c_type} {name}[]");
    }
    let is_pointer =
        parameter.pointer || (parameter.direction != Direction::In && !parameter.value) || parameter.kind == "STATUS";
    format!("{constness}{c_type} {}{name}", if is_pointer { "*" } else { "" })
}
