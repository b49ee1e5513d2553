//! Generates a call of every procedure that is not implemented, in all its forms, for
//! `tests/c/unimplemented.c`.

use super::MARKER;
use super::rust::implementation;
use super::scan::Implemented;
use super::spec::{Form, Parameter, Procedure, Spec};

/// The header: a function for each call, and the table of all functions.
pub(super) fn calls(spec: &Spec, implemented: &Implemented) -> String {
    let mut functions = String::new();
    let mut rows = String::new();
    for chapter in &spec.chapters {
        for (procedure, form) in chapter.procedures.iter().flat_map(forms_of) {
            let source = procedure.same_as.as_ref().and_then(|(base, form)| Some((spec.procedure(base).ok()?, *form)));
            let (source, source_form) = source.unwrap_or((procedure, form));
            if implementation(implemented, source, source_form).is_some() {
                continue;
            }
            let symbol = procedure.symbol(form);
            let count = source.parameters.iter().filter(|p| p.in_form(source_form) && !is_rest(p)).count();
            // Every parameter of C is a number or a pointer, and 0 is valid for both.
            let zeros = vec!["0"; count].join(", ");
            functions.push_str(&format!("static int call_{symbol}(void) {{ return {symbol}({zeros}); }}\n"));
            rows.push_str(&format!("    {{\"{symbol}\", {}, call_{symbol}}},\n", chapter.number));
        }
    }
    format!(
        "/* {MARKER} from `spec/` and `crates/weft-abi/src/calls/`; do not edit.\n *\n * A call of every procedure that is not implemented: see \
         unimplemented.c. */\n\n{functions}\nstatic const struct call calls[] = {{\n{rows}}};\n"
    )
}

/// The bindings of a procedure that returns an error code.
fn forms_of(procedure: &Procedure) -> impl Iterator<Item = (&Procedure, Form)> {
    let is_called = !procedure.callback && procedure.returns.is_none();
    procedure.forms().iter().filter(move |_| is_called).map(move |&form| (procedure, form))
}

/// Returns whether a parameter stands for the arguments behind the named ones of a variadic function.
fn is_rest(parameter: &Parameter) -> bool {
    parameter.kind == "VARARGS"
}
