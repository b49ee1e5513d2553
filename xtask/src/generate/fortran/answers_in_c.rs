//! The program of [`super::answers`] in C: it calls the same procedures with the same arguments, so it must
//! get the same answers.

use anyhow::Result;
use std::fmt::Write as _;

use super::super::header;
use super::super::spec::{Form, Parameter, Procedure, Spec};
use super::answers::{CLASSES, is_called};
use super::{HEAD, handle, procedures};

/// The length of the arrays of handles and of the strings that are arguments.
const HANDLES: usize = 8;
const LETTERS: usize = 8192;

pub(super) fn program(spec: &Spec) -> Result<String> {
    let mut out = format!("/* Calls every procedure of MPI once and prints its answer. {HEAD} */\n");
    out.push_str("#include <mpi.h>\n#include <stdio.h>\n#include <string.h>\n\n");
    // What other arguments lead to: a choice buffer, numbers, statuses and logicals.
    out.push_str("static long long zeros[4096];\nstatic void answer(const char *name, int code);\n\n");
    let mut calls = String::new();
    for (_, procedure) in procedures(spec).filter(|(_, procedure)| is_called(procedure)) {
        for prefix in ["", "P"] {
            for &form in procedure.forms() {
                let symbol = format!("{prefix}{}", procedure.symbol(form));
                writeln!(out, "static void call_{symbol}(void) {{")?;
                let arguments = arguments(spec, procedure, form, &mut out)?;
                writeln!(out, "  answer(\"{symbol}\", {symbol}({}));\n}}", arguments.join(", "))?;
                writeln!(calls, "  call_{symbol}();")?;
            }
        }
    }
    out.push_str("static void answer(const char *name, int code) {\n  int class = -1;\n");
    out.push_str("  memset(zeros, 0, sizeof zeros);\n  MPI_Error_class(code, &class);\n");
    for class in CLASSES {
        let constant = if *class == "SUCCESS" { "MPI_SUCCESS".to_owned() } else { format!("MPI_ERR_{class}") };
        writeln!(out, "  if (class == {constant}) {{ printf(\"%s {class}\\n\", name); return; }}")?;
    }
    out.push_str("  printf(\"%s another class\\n\", name);\n}\n\nint main(void) {\n  MPI_Init(NULL, NULL);\n");
    for comm in ["WORLD", "SELF"] {
        writeln!(out, "  MPI_Comm_set_errhandler(MPI_COMM_{comm}, MPI_ERRORS_RETURN);")?;
    }
    write!(out, "{calls}  return MPI_Finalize();\n}}\n")?;
    Ok(out)
}

/// The arguments of a call; what they lead to is declared in `out`.
fn arguments(spec: &Spec, procedure: &Procedure, form: Form, out: &mut String) -> Result<Vec<String>> {
    let visible = procedure.parameters.iter().filter(|parameter| parameter.in_form(form));
    visible.map(|parameter| argument(&header::declaration(spec, parameter, form), parameter, out)).collect()
}

fn argument(declared: &str, parameter: &Parameter, out: &mut String) -> Result<String> {
    let levels = declared.matches(['*', '[']).count();
    let name = &parameter.name;
    Ok(match (handle(&parameter.kind), levels) {
        (Some((_, c_type)), 0) => format!("{}_NULL", c_type.to_ascii_uppercase()),
        (Some((_, c_type)), _) => {
            let null = format!("{}_NULL", c_type.to_ascii_uppercase());
            writeln!(out, "  {c_type} {name}[] = {{{}}};", vec![null; HANDLES].join(", "))?;
            name.clone()
        }
        (None, 0) => "0".to_owned(),
        (None, 1) if declared.contains("char ") => {
            writeln!(out, "  char {name}[{LETTERS}] = \"no-such-thing\";")?;
            name.clone()
        }
        _ => "(void *)zeros".to_owned(),
    })
}
