//! A program for each binding that names every procedure: it shows that interfaces accept the arguments of
//! the standard, and that the library has every procedure.

use anyhow::Result;
use std::fmt::Write as _;

use super::super::spec::{Form, Parameter, Procedure, Spec};
use super::interfaces::{Binding, broken, type_of};
use super::{HEAD, has_own_interface, is_choice, is_without_f08, parameters, procedures};

/// The programs, with the names of the bindings.
pub(super) fn programs(spec: &Spec) -> Result<Vec<(&'static str, String)>> {
    let bindings = [("mpif", "include 'mpif.h'"), ("mpi", "use mpi"), ("mpi_f08", "use mpi_f08")];
    bindings.into_iter().map(|(name, access)| Ok((name, program(spec, name, access)?))).collect()
}

fn program(spec: &Spec, name: &str, access: &str) -> Result<String> {
    let f08 = name == "mpi_f08";
    let mut out =
        format!("! Names every procedure of MPI, and calls none unless it has a thousand arguments.\n! {HEAD}\n");
    // One scope for all calls: the compiler reads the binding once.
    let (uses, includes) = if name == "mpif" { ("", access) } else { (access, "") };
    writeln!(out, "program every_call")?;
    writeln!(out, "  use, intrinsic :: iso_c_binding, only: c_ptr\n  {uses}\n  implicit none\n  {includes}")?;
    let mut calls = Vec::new();
    let mut callers = String::new();
    for (_, procedure) in procedures(spec).filter(|(_, procedure)| !has_own_interface(&procedure.name)) {
        if f08 && is_without_f08(&procedure.name) {
            continue;
        }
        for prefix in ["", "P"] {
            let forms = if f08 { procedure.forms() } else { &[Form::Small] };
            for &form in forms {
                let call = Call { spec, procedure, form, f08, prefix };
                // The variables have no values: the call is compiled and linked, and never runs.
                call.write(|_, _| Variable::default(), "", &mut callers)?;
                calls.push(call.caller());
            }
        }
    }
    writeln!(out, "  integer :: calls\n  calls = {}", calls.len())?;
    writeln!(out, "  if (command_argument_count() > 1000) then")?;
    for call in &calls {
        writeln!(out, "    call {call}()")?;
    }
    writeln!(out, "  end if\n  print '(a, i0)', 'procedures named: ', calls\ncontains")?;
    writeln!(out, "{callers}end program every_call")?;
    Ok(out)
}

/// A call of a procedure, in a subroutine of its own.
pub(super) struct Call<'a> {
    pub(super) spec: &'a Spec,
    pub(super) procedure: &'a Procedure,
    pub(super) form: Form,
    pub(super) f08: bool,
    /// `P` for the name that profilers leave to the library.
    pub(super) prefix: &'a str,
}

/// An argument: its declaration, if it is not that of its kind, and its value before the call, if it has one.
#[derive(Default)]
pub(super) struct Variable {
    pub(super) declaration: Option<String>,
    pub(super) value: Option<String>,
}

impl Call<'_> {
    /// The name of the subroutine.
    pub(super) fn caller(&self) -> String {
        format!("call_{}{}", self.prefix, self.procedure.symbol(self.form))
    }

    /// Writes the subroutine. `variable` gets a parameter and the name of its variable. The statements
    /// `after` the call are about `ierror`.
    pub(super) fn write(
        &self,
        variable: impl Fn(&Parameter, &str) -> Variable,
        after: &str,
        out: &mut String,
    ) -> Result<()> {
        let Call { spec, procedure, form, f08, prefix } = *self;
        let binding = if f08 { Binding::F08 } else { Binding::Mpi };
        writeln!(out, "subroutine {}()", self.caller())?;
        let (mut arguments, mut values) = (Vec::new(), String::new());
        for (at, parameter) in parameters(procedure, form).into_iter().enumerate() {
            let name = format!("a{at}");
            let Variable { declaration, value } = variable(parameter, &name);
            match declaration {
                Some(declaration) => writeln!(out, "  {declaration}")?,
                None => declare(spec, parameter, form, binding, &name, out)?,
            }
            if let Some(value) = value {
                writeln!(values, "  {name} = {value}")?;
            }
            arguments.push(name);
        }
        arguments.push("ierror".to_owned());
        writeln!(out, "  integer :: ierror")?;
        out.push_str(&values);
        if !after.is_empty() {
            writeln!(out, "  ierror = MPI_SUCCESS")?;
        }
        let symbol = if f08 && form == Form::Large && has_name_of_its_own(&procedure.name) {
            procedure.symbol(form)
        } else {
            procedure.name.clone()
        };
        out.push_str(&broken("  ", &format!("call {prefix}{symbol}({})", arguments.join(", "))));
        writeln!(out, "{after}end subroutine {}\n", self.caller())?;
        Ok(())
    }
}

/// The procedures whose large-count form has a name of its own, since no argument tells it from the other.
fn has_name_of_its_own(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "MPI_Op_create",
        "MPI_Register_datarep",
        "MPI_Type_create_resized",
        "MPI_Type_get_extent",
        "MPI_Type_get_true_extent",
    ];
    NAMES.contains(&name)
}

fn declare(
    spec: &Spec,
    parameter: &Parameter,
    form: Form,
    binding: Binding,
    name: &str,
    out: &mut String,
) -> Result<()> {
    let f08 = binding == Binding::F08;
    if is_choice(parameter) || parameter.kind == "C_BUFFER2" && !f08 {
        writeln!(out, "  real :: {name}(100)")?;
    } else if let Some(function) = &parameter.function {
        let large = if parameter.is_poly() && form == Form::Large { "_c" } else { "" };
        let function = function.trim_end_matches("_c");
        let interface = if f08 { format!("{function}{large}") } else { String::new() };
        writeln!(out, "  procedure({interface}), pointer :: {name}")?;
    } else {
        let kind = type_of(spec, parameter, form, binding)?.replace("len=*", "len=80");
        let shape = match (parameter.kind.as_str(), parameter.lengths.len(), f08) {
            ("STATUS", 0, false) => "(MPI_STATUS_SIZE)",
            ("STATUS", _, false) => "(MPI_STATUS_SIZE, 100)",
            ("STRING_ARRAY", _, _) => "(100)",
            ("STRING_2DARRAY", _, _) => "(10, 10)",
            (_, 0, _) => "",
            (_, 2, _) => "(3, 100)",
            _ => "(100)",
        };
        writeln!(out, "  {kind} :: {name}{shape}")?;
    }
    Ok(())
}
