//! A program for each binding that calls every procedure once, with handles that stand for no object, and
//! says what each one answers: the class of the error, or success. Compiled for another library's ABI and
//! for the standard's, it must say the same.

use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::spec::{Direction, Form, Parameter, Procedure, Spec};
use super::conformance::{Call, Variable};
use super::{HEAD, handle, has_choice, has_own_interface, is_choice, is_without_f08, procedures};

/// The classes of errors that every version of the ABIs has. Others have no name here.
pub(super) const CLASSES: &[&str] = &[
    "SUCCESS",
    "BUFFER",
    "COUNT",
    "TYPE",
    "TAG",
    "COMM",
    "RANK",
    "REQUEST",
    "ROOT",
    "GROUP",
    "OP",
    "TOPOLOGY",
    "DIMS",
    "ARG",
    "UNKNOWN",
    "TRUNCATE",
    "OTHER",
    "INTERN",
    "PENDING",
    "IN_STATUS",
    "ACCESS",
    "AMODE",
    "ASSERT",
    "BAD_FILE",
    "BASE",
    "DISP",
    "DUP_DATAREP",
    "FILE_EXISTS",
    "FILE_IN_USE",
    "FILE",
    "INFO_KEY",
    "INFO_NOKEY",
    "INFO_VALUE",
    "INFO",
    "IO",
    "KEYVAL",
    "LOCKTYPE",
    "NAME",
    "NO_MEM",
    "NOT_SAME",
    "NO_SPACE",
    "NO_SUCH_FILE",
    "PORT",
    "READ_ONLY",
    "RMA_CONFLICT",
    "RMA_SYNC",
    "SERVICE",
    "SIZE",
    "SPAWN",
    "UNSUPPORTED_DATAREP",
    "UNSUPPORTED_OPERATION",
    "WIN",
];

/// Procedures that the program calls otherwise, or that no answer comes back from: they would end the
/// program, wait for others, or take memory that is none.
const LEFT_OUT: &[&str] = &[
    "MPI_Abort",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Finalize",
    "MPI_Comm_join",
    "MPI_Free_mem",
    "MPI_Buffer_attach",
    "MPI_Session_init",
    "MPI_Add_error_string",
    "MPI_Remove_error_string",
    "MPI_Get_hw_resource_info",
    // What ranks publish and withdraw by one name depends on who comes first.
    "MPI_Publish_name",
    "MPI_Unpublish_name",
    "MPI_Lookup_name",
];

/// The programs, with the names of the bindings. `known` has the symbols of the other library, if one is
/// asked for: a procedure that it does not have is not called.
pub(super) fn programs(spec: &Spec, known: Option<&BTreeSet<String>>) -> Result<Vec<(&'static str, String)>> {
    let bindings = [("mpif", "include 'mpif.h'"), ("mpi", "use mpi"), ("mpi_f08", "use mpi_f08")];
    bindings.into_iter().map(|(name, access)| Ok((name, program(spec, name, access, known)?))).collect()
}

fn program(spec: &Spec, name: &str, access: &str, known: Option<&BTreeSet<String>>) -> Result<String> {
    let f08 = name == "mpi_f08";
    let (uses, includes) = if name == "mpif" { ("", access) } else { (access, "") };
    let mut out = format!("! Calls every procedure of MPI once and prints its answer. {HEAD}\nprogram every_answer\n");
    writeln!(out, "  use, intrinsic :: iso_c_binding, only: c_ptr\n  {uses}\n  implicit none\n  {includes}")?;
    out.push_str(
        "  integer :: failure\n  call MPI_Init(failure)\n\
         \x20 call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, failure)\n\
         \x20 call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, failure)\n",
    );
    let (mut callers, mut number) = (String::new(), 0);
    for (_, procedure) in procedures(spec).filter(|(_, procedure)| is_called(procedure)) {
        if f08 && is_without_f08(&procedure.name) {
            continue;
        }
        let forms = if f08 { procedure.forms() } else { &[Form::Small] };
        for prefix in ["", "P"] {
            for &form in forms {
                if known.is_some_and(|known| !is_known(procedure, form, f08, known)) {
                    continue;
                }
                let call = Call { spec, procedure, form, f08, prefix };
                let variable = |parameter: &Parameter, name: &str| variable(procedure, parameter, f08, name);
                let after = format!("  call answer('{prefix}{}', ierror)\n", procedure.symbol(form));
                call.write(variable, &after, &mut callers)?;
                writeln!(out, "  call {}()", call.caller())?;
                number += 1;
            }
        }
    }
    writeln!(out, "  print '(a, i0)', 'procedures called: ', {number}\n  call MPI_Finalize(failure)\ncontains")?;
    out.push_str("subroutine answer(name, code)\n  character(*), intent(in) :: name\n  integer, intent(in) :: code\n");
    out.push_str("  integer :: class, failure\n  class = -1\n  call MPI_Error_class(code, class, failure)\n");
    for class in CLASSES {
        let constant = if *class == "SUCCESS" { "MPI_SUCCESS".to_owned() } else { format!("MPI_ERR_{class}") };
        writeln!(out, "  if (class == {constant}) then\n    print '(4a)', name, ' {class}'\n    return\n  end if")?;
    }
    out.push_str("  print '(2a)', name, ' another class'\nend subroutine answer\n");
    writeln!(out, "{callers}end program every_answer")?;
    Ok(out)
}

pub(super) fn is_called(procedure: &Procedure) -> bool {
    !LEFT_OUT.contains(&procedure.name.as_str())
        && !has_own_interface(&procedure.name)
        && procedure.parameters.iter().all(|parameter| parameter.function.is_none() && parameter.kind != "SESSION")
}

/// Whether the other library has the procedure, by any of the names that libraries give to the module's.
fn is_known(procedure: &Procedure, form: Form, f08: bool, known: &BTreeSet<String>) -> bool {
    let small = procedure.name.to_ascii_lowercase();
    let endings: &[&str] = match (f08, form) {
        (false, _) => &["_"],
        (true, Form::Small) if has_choice(procedure) => &["_f08ts_", "_f08_"],
        (true, Form::Small) => &["_f08_"],
        (true, Form::Large) => &["_c_f08ts_", "_c_f08_", "_f08ts_large_", "_f08_large_"],
    };
    endings.iter().any(|ending| known.contains(&format!("{small}{ending}")))
}

/// A variable that stands for nothing.
fn variable(procedure: &Procedure, parameter: &Parameter, f08: bool, name: &str) -> Variable {
    let comes_back = parameter.kind == "STRING" && parameter.direction == Direction::Out;
    let declaration = comes_back.then(|| format!("character(len={}) :: {name}", length(procedure, parameter)));
    Variable { declaration, value: value(parameter, f08) }
}

/// The length of a string that comes back: some modules take no other.
fn length(procedure: &Procedure, parameter: &Parameter) -> &'static str {
    match (procedure.name.as_str(), parameter.name.as_str()) {
        (_, "comm_name" | "type_name" | "win_name") => "MPI_MAX_OBJECT_NAME",
        (_, "port_name") => "MPI_MAX_PORT_NAME",
        (_, "version") => "MPI_MAX_LIBRARY_VERSION_STRING",
        ("MPI_Error_string", _) => "MPI_MAX_ERROR_STRING",
        ("MPI_Get_processor_name", _) => "MPI_MAX_PROCESSOR_NAME",
        _ => "80",
    }
}

/// What a variable is before the call, if it is not left as it is.
fn value(parameter: &Parameter, f08: bool) -> Option<String> {
    if is_choice(parameter) {
        return Some("0".to_owned());
    }
    if let Some((_, c_type)) = handle(&parameter.kind) {
        return Some(format!("{}_NULL", c_type.to_ascii_uppercase()));
    }
    match parameter.kind.as_str() {
        "STATUS" if f08 => None,
        "LOGICAL" => Some(".false.".to_owned()),
        "STRING" => Some("'no-such-thing'".to_owned()),
        // A blank string ends the arguments of a program.
        "STRING_ARRAY" | "STRING_2DARRAY" => Some("' '".to_owned()),
        "C_BUFFER" | "C_BUFFER2" => None,
        _ => Some("0".to_owned()),
    }
}
