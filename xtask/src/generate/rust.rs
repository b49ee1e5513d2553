//! Generates the extern functions: for each symbol a body that checks its arguments and calls the
//! implementation.

mod arguments;

use super::faces::{SHORT_REQUEST, SHORT_STATUS};
use super::scan::{Implemented, implementation_name};
use super::spec::{Chapter, Direction, Form, Parameter, Procedure, Spec};
use super::tables::variant;
use super::{MARKER, Output};
use anyhow::{Context, Result};

/// The line width that rustfmt.toml allows.
const WIDTH: usize = 120;

/// The modules: one file per chapter, and `mod.rs`.
pub(super) fn modules(spec: &Spec, implemented: &Implemented, directory: &str) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    let mut list = Vec::new();
    for chapter in &spec.chapters {
        if chapter.procedures.iter().all(|procedure| procedure.callback) {
            continue;
        }
        list.push(format!("mod {};\n", chapter.module));
        let path = format!("{directory}/{}.rs", chapter.module);
        outputs.push((path, chapter_module(spec, implemented, chapter)?));
    }
    list.push("mod short;\n".to_owned());
    outputs.push((format!("{directory}/short.rs"), short_module(spec, implemented)?));
    list.sort();
    let list = list.concat();
    outputs.push((
        format!("{directory}/mod.rs"),
        format!("// {MARKER} from `spec/`; do not edit.\n\n{MODULE_HEAD}{list}"),
    ));
    Ok(outputs)
}

const MODULE_HEAD: &str = "\
//! The functions of the C boundary, one module per chapter of the standard.
//!
//! Each function has two symbols, `MPI_X` and `PMPI_X` (MPI-5.0 §15.2). Both have a body of their own,
//! because a shared library made of Rust cannot export an alias.

/// Defines an entry of the C boundary: the same function under its two names.
macro_rules! entry {
    ($name:ident $profiling:ident($($parameter:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern \"C\" fn $name($($parameter: $type),*) -> $result $body

        #[unsafe(no_mangle)]
        unsafe extern \"C\" fn $profiling($($parameter: $type),*) -> $result $body
    };
}

";

/// The chapters whose calls processes make together: collectives, communicators, topologies. The calls of the
/// processes are compared on demand.
const TOGETHER: [&str; 3] = ["6", "7", "8"];

fn chapter_module(spec: &Spec, implemented: &Implemented, chapter: &Chapter) -> Result<String> {
    let together = TOGETHER.contains(&chapter.number.as_str());
    let calls = if together { "call_anytime, call_together as call" } else { "call, call_anytime" };
    let mut out = format!(
        "\
// {MARKER} from `spec/`; do not edit.

//! The functions of MPI-5.0 chapter {}: {}.
// The caller keeps the contract of the C prototype (MPI-5.0 §2, §20): a pointer that is not null points to
// data of the type in the prototype. `check` refuses a null pointer before anything is read through it.
#![allow(clippy::undocumented_unsafe_blocks, unused_imports, unused_unsafe, unused_variables)]

use crate::arguments::*;
use crate::boundary::{{{calls}, value}};
use crate::check;
use crate::constants::*;
use crate::functions::Function;
use crate::scope::{{Scope, scope_at}};
use crate::types::*;
use std::ffi::{{c_char, c_int, c_void}};
use weft_mpi::callbacks::*;
",
        chapter.number, chapter.title
    );
    for procedure in chapter.procedures.iter().filter(|procedure| !procedure.callback) {
        for &form in procedure.forms() {
            out.push('\n');
            out.push_str(&entry(spec, implemented, procedure, form).with_context(|| procedure.symbol(form))?);
        }
    }
    Ok(out)
}

const SHORT_HEAD: &str = "\
//! Functions with requests and statuses of MPICH's ABI, which are in no header (`short.rs` of this crate).
// The caller keeps the contract of the C prototype (MPI-5.0 §2, §20), as for the standard's function.
#![allow(clippy::undocumented_unsafe_blocks)]

use crate::arguments::*;
use crate::boundary::call;
use crate::check;
use crate::functions::Function;
use crate::scope::Scope;
use crate::short::{ShortRequest, ShortStatus};
use crate::types::*;
use std::ffi::{c_int, c_void};

/// Defines an entry of the C boundary that has one name.
macro_rules! entry {
    ($name:ident($($parameter:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern \"C\" fn $name($($parameter: $type),*) -> $result $body
    };
}
";

/// The functions with shorter requests, and those with shorter statuses. They check the same as the
/// standard's functions, and call the same implementation. Where that serves several forms, they call the
/// implementation with `_as` behind its name. Those with shorter requests take no status: the library would
/// look for one in vain at each message.
fn short_module(spec: &Spec, implemented: &Implemented) -> Result<String> {
    let mut out = format!("// {MARKER} from `spec/`; do not edit.\n\n{SHORT_HEAD}");
    let requests = SHORT_REQUEST.map(|name| (name, "MPI_Request", "ShortRequest", "None"));
    let statuses = SHORT_STATUS.map(|name| (name, "MPI_Status", "ShortStatus", "InOut::if_wanted(status)"));
    for (name, type_of_standard, short_type, given_status) in requests.into_iter().chain(statuses) {
        let procedure = spec.procedure(name)?;
        let own = entry_of(spec, implemented, procedure, Form::Small)?;
        let Implementation { path, form, takes_groups } = own.implementation;
        let (module, function) = path.rsplit_once("::").context("a path of a function")?;
        let own_function = format!("{}_as", implementation_name(name));
        let function = if form.is_some() { &own_function } else { function };
        let path = format!("{module}::{function}");
        let entry = Entry { implementation: Implementation { path, form: None, takes_groups }, ..own };
        let text = entry.text()?;
        let symbols = format!("{name} P{name}(");
        let short_symbol = format!("weft_short_{}(", implementation_name(name));
        out.push('\n');
        let text = text.replace(&symbols, &short_symbol).replace(type_of_standard, short_type);
        out += &text.replace(", status: *mut MPI_Status", "").replace("InOut::if_wanted(status)", given_status);
    }
    Ok(out)
}

/// The comment on a variadic function: Rust cannot define such a function, and need not do so here.
const VARIADIC_NOTE: &str = "\
// The function is variadic in C, and Weft needs none of the additional arguments. In the calling conventions
// of x86-64 and AArch64 (System V), the caller of a variadic function passes the named arguments as usual,
// and removes the additional arguments itself.
";

/// The description of one symbol: its name, its binding, and its implementation.
struct Entry<'a> {
    spec: &'a Spec,
    symbol: String,
    parameters: &'a [Parameter],
    form: Form,
    returns: Option<&'a str>,
    anytime: bool,
    implementation: Implementation,
}

/// The function that implements a procedure.
pub(super) struct Implementation {
    path: String,
    /// The value of the function's parameter `form` or `transfer`, if it has one. Then it has neither `info`
    /// nor `request`, and with `transfer` no `status`.
    form: Option<&'static str>,
    /// Says whether groups of arguments are one value each.
    takes_groups: bool,
}

fn entry(spec: &Spec, implemented: &Implemented, procedure: &Procedure, form: Form) -> Result<String> {
    entry_of(spec, implemented, procedure, form)?.text()
}

fn entry_of<'a>(spec: &'a Spec, implemented: &Implemented, procedure: &'a Procedure, form: Form) -> Result<Entry<'a>> {
    // `MPI_Type_size_x` is the large form of `MPI_Type_size` under another name.
    let (source, source_form) = match &procedure.same_as {
        Some((base, form)) => (spec.procedure(base)?, *form),
        None => (procedure, form),
    };
    Ok(Entry {
        spec,
        symbol: procedure.symbol(form),
        parameters: &source.parameters,
        form: source_form,
        returns: source.returns.as_deref(),
        anytime: procedure.anytime,
        implementation: implementation(implemented, source, source_form)
            .context("no function of crates/weft-abi/src/calls implements it")?,
    })
}

/// The function that implements one binding. Candidates in their order: the binding's own function
/// (`send_c`), the function for both bindings, and the blocking procedure's function, if it serves all forms.
pub(super) fn implementation(implemented: &Implemented, procedure: &Procedure, form: Form) -> Option<Implementation> {
    let find =
        |name: &str| implemented.get(name).map(|function| (format!("crate::{}::{name}", function.module), function));
    let plain = |name: &str| {
        find(name).map(|(path, function)| Implementation {
            path,
            form: match function {
                function if function.takes_transfer => Some("Transfer::Blocking(InOut::if_wanted(status))"),
                function => function.takes_form.then_some("Form::Blocking"),
            },
            takes_groups: function.takes_groups,
        })
    };
    let own = implementation_name(&procedure.symbol(form));
    let shared = implementation_name(&procedure.name);
    // The type of a callback differs between the bindings, so one implementation cannot serve both.
    let callbacks_differ = procedure.parameters.iter().any(|parameter| parameter.kind == "POLYFUNCTION");
    plain(&own).or_else(|| if callbacks_differ { None } else { plain(&shared) }).or_else(|| {
        if let Some(access) = shared.strip_prefix("file_i") {
            let (path, function) = find(&format!("file_{access}")).filter(|(_, function)| function.takes_transfer)?;
            let form = Some("Transfer::Nonblocking(Out::new(request))");
            return Some(Implementation { path, form, takes_groups: function.takes_groups });
        }
        let (base, form) = match shared.strip_suffix("_init") {
            Some(base) => (base, "Form::Persistent(Out::new(request))"),
            None => (shared.strip_prefix(['i', 'r'])?, "Form::Nonblocking(Out::new(request))"),
        };
        let (path, function) = find(base).filter(|(_, function)| function.takes_form)?;
        Some(Implementation { path, form: Some(form), takes_groups: function.takes_groups })
    })
}

impl Entry<'_> {
    fn text(&self) -> Result<String> {
        let mut signature = Vec::new();
        for parameter in self.c_parameters() {
            if parameter.kind != "VARARGS" {
                signature.push(format!("{}: {}", rust_name(parameter), self.rust_type(parameter)?));
            }
        }
        let result = match self.returns {
            None => "c_int",
            Some(kind) => rust_scalar(&self.spec.kinds[kind].c_type)?,
        };
        let body = if self.returns.is_some() { self.value_body()? } else { self.call_body()? };
        let symbol = &self.symbol;
        let one_line = format!("entry! {{ {symbol} P{symbol}({}) -> {result} {{", signature.join(", "));
        let head = if one_line.len() <= WIDTH {
            one_line
        } else {
            format!("entry! {{ {symbol} P{symbol}(\n    {},\n) -> {result} {{", signature.join(",\n    "))
        };
        let variadic = self.parameters.iter().any(|parameter| parameter.kind == "VARARGS");
        let note = if variadic { VARIADIC_NOTE } else { "" };
        Ok(format!("{note}{head}\n{body}}} }}\n"))
    }

    /// The parameters of this form in C.
    fn c_parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.in_form(self.form))
    }

    fn value_body(&self) -> Result<String> {
        let function = variant(&self.symbol);
        let mut arguments = Vec::new();
        for parameter in self.c_parameters() {
            arguments.push(self.argument(parameter)?);
        }
        let path = &self.implementation.path;
        Ok(format!("    value(Function::{function}, || unsafe {{ {path}({}) }})\n", arguments.join(", ")))
    }

    fn call_body(&self) -> Result<String> {
        let function = variant(&self.symbol);
        let scope = self.scope();
        let Implementation { path, form, takes_groups } = &self.implementation;
        let mut lines = self.checks()?;
        if let Some((creation, communicator)) = creation(&self.symbol)
            && !lines.is_empty()
        {
            // When this process cannot take part in a creation, the other processes hear of it.
            let checks = lines.join("\n            ");
            let at_once = if self.symbol.starts_with("MPI_Comm_idup") { "_at_once" } else { "" };
            let told = format!("crate::calls::creation::told{at_once}");
            let creation = format!("weft_mpi::communicator::Creation::{creation}");
            lines = vec![format!(
                "{told}({communicator}, {creation}, || {{\n            {checks}\n            Ok(())\n        }})?;"
            )];
        }
        let mut arguments: Vec<String> = form.iter().map(|&form| form.to_owned()).collect();
        let mut write_back = Vec::new();
        let in_form = |name: &str| match form {
            Some(form) if form.starts_with("Transfer") => matches!(name, "status" | "request"),
            Some(_) => matches!(name, "info" | "request"),
            None => false,
        };
        let is_own = |p: &&Parameter| p.kind != "VARARGS" && !in_form(&p.name) && !self.is_length_of_text(p);
        let own: Vec<&Parameter> = self.parameters.iter().filter(is_own).collect();
        let mut rest = &own[..];
        while let [parameter, others @ ..] = rest {
            if *takes_groups && let Some((value, length)) = self.group(rest)? {
                arguments.push(value);
                rest = &rest[length..];
                continue;
            }
            rest = others;
            arguments.push(self.argument(parameter)?);
            if let Some((before, after)) = self.wide_local(parameter)? {
                lines.push(before);
                write_back.extend(after);
            }
        }
        let invocation = invocation(path, &arguments);
        if write_back.is_empty() {
            lines.push(invocation);
        } else {
            lines.push(format!("{invocation}?;"));
            lines.extend(write_back);
            lines.push("Ok(())".to_owned());
        }
        let call = if self.anytime { "call_anytime" } else { "call" };
        let start = format!("    {call}(Function::{function}, {scope}, ||");
        Ok(match &lines[..] {
            [line] if start.len() + line.len() + 2 <= WIDTH && !line.contains('\n') => format!("{start} {line})\n"),
            _ => format!("{start} {{\n        {}\n    }})\n", lines.join("\n        ")),
        })
    }

    /// An input number as `i64`.
    pub(super) fn as_wide(&self, parameter: &Parameter, name: &str) -> String {
        match self.spec.c_type(parameter, self.form) {
            "int" => format!("i64::from({name})"),
            "MPI_Aint" => format!("{name} as i64"),
            _ => name.to_owned(),
        }
    }

    fn rust_type(&self, parameter: &Parameter) -> Result<String> {
        let c_type = self.spec.c_type(parameter, self.form);
        if c_type == "fn" {
            let function = parameter.function.as_deref().context("a function without a type")?;
            let suffix = if parameter.is_poly() && self.form == Form::Large { "_c" } else { "" };
            return Ok(format!("Option<{function}{suffix}>"));
        }
        let constness = if parameter.constant { "*const" } else { "*mut" };
        // `void*`, `char*`, `char**`, `char***`: pointers already.
        if let Some(target) = c_type.strip_suffix("***") {
            let stars = if parameter.value { "*mut *mut" } else { "*mut *mut *mut" };
            return Ok(format!("{stars} {}", rust_scalar(target)?));
        } else if let Some(target) = c_type.strip_suffix("**") {
            return Ok(format!("*mut *mut {}", rust_scalar(target)?));
        } else if let Some(target) = c_type.strip_suffix('*') {
            return Ok(format!("{constness} {}", rust_scalar(target)?));
        }
        let scalar = rust_scalar(c_type)?;
        if !parameter.lengths.is_empty() {
            let constness = if parameter.direction == Direction::In { "*const" } else { "*mut" };
            return Ok(match &parameter.lengths[1..] {
                [] => format!("{constness} {scalar}"),
                [inner] => format!("{constness} [{scalar}; {inner}]"),
                _ => anyhow::bail!("{} has too many dimensions", parameter.name),
            });
        }
        Ok(if is_pointer(parameter) { format!("{constness} {scalar}") } else { scalar.to_owned() })
    }

    /// The object whose error handler is called (MPI-5.0 §9.3): the first communicator, window, file or
    /// session.
    fn scope(&self) -> String {
        match self.symbol.as_str() {
            // No file is open yet, or none at all: MPI-5.0 §14.7.
            "MPI_File_open" | "MPI_File_delete" => return "Scope::File(MPI_File::NULL)".to_owned(),
            "MPI_Comm_create_from_group" | "MPI_Intercomm_create_from_groups" | "MPI_Session_init" => {
                return "Scope::Errhandler(errhandler)".to_owned();
            }
            symbol if symbol.starts_with("MPI_T_") => return "Scope::Tool".to_owned(),
            _ => {}
        }
        for parameter in self.c_parameters().filter(|p| p.direction != Direction::Out && p.lengths.is_empty()) {
            let scope = match parameter.kind.as_str() {
                "COMMUNICATOR" => "Comm",
                "WINDOW" => "Win",
                "FILE" => "File",
                "SESSION" => "Session",
                _ => continue,
            };
            let name = rust_name(parameter);
            return if is_pointer(parameter) {
                format!("scope_at(unsafe {{ InOut::if_wanted({name}) }}, Scope::{scope})")
            } else {
                format!("Scope::{scope}({name})")
            };
        }
        "Scope::None".to_owned()
    }

    /// The checks that need to look at no object.
    fn checks(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for parameter in self.c_parameters() {
            // Arguments of the root only are checked where the root is known.
            if !parameter.root
                && let Some(line) = self.check(parameter)?
            {
                lines.push(line);
            }
            lines.extend(room_check(parameter));
        }
        Ok(lines)
    }

    fn check(&self, parameter: &Parameter) -> Result<Option<String>> {
        let name = rust_name(parameter);
        let label = &parameter.name;
        if !parameter.lengths.is_empty() {
            return Ok(self.array_check(parameter));
        }
        if let Some(check) = &self.spec.kinds[&parameter.kind].check
            && parameter.direction == Direction::In
        {
            let condition = self.significance(parameter);
            let call = format!("check::{check}(\"{label}\", {})?;", self.as_wide(parameter, &name));
            return Ok(Some(if condition.is_empty() {
                call
            } else {
                format!("if {condition} {{\n            {call}\n        }}")
            }));
        }
        Ok(self.must_not_be_null(parameter).then(|| format!("check::pointer(\"{label}\", {name})?;")))
    }

    /// The condition under which a parameter is looked at. A collective's count means nothing when its buffer
    /// is MPI_IN_PLACE (MPI-5.0 §6.2.2), nor in the root's group of an intercommunicator where the root is
    /// MPI_ROOT or MPI_PROC_NULL.
    fn significance(&self, parameter: &Parameter) -> String {
        let mut conditions = Vec::new();
        let has = |name: &str| self.parameters.iter().any(|p| p.name == name);
        if has("root") {
            conditions.push("root >= 0".to_owned());
        }
        for side in ["send", "recv"] {
            // Sendrecv has a destination, and this rule is not for it.
            if parameter.name == format!("{side}count") && has(&format!("{side}buf")) && !has("dest") {
                conditions.push(format!("!check::is_in_place({side}buf.addr())"));
            }
        }
        conditions.join(" && ")
    }

    /// Checks that an array is there when its length, another argument, is not zero.
    fn array_check(&self, parameter: &Parameter) -> Option<String> {
        // A program may ignore statuses and error codes, weights may be one of two special addresses, and
        // tools pass null.
        let optional = matches!(parameter.kind.as_str(), "STATUS" | "ERROR_CODE" | "WEIGHT");
        if optional || self.symbol.starts_with("MPI_T_") || self.spec.c_type(parameter, self.form).ends_with('*') {
            return None;
        }
        let length = self.c_parameters().find(|p| p.name == parameter.lengths[0])?;
        let is_number = length.direction == Direction::In && length.lengths.is_empty() && !length.root;
        let (name, count) = (rust_name(parameter), self.as_wide(length, &rust_name(length)));
        is_number.then(|| format!("check::array(\"{}\", {name}, {count})?;", parameter.name))
    }

    fn must_not_be_null(&self, parameter: &Parameter) -> bool {
        let tool = self.symbol.starts_with("MPI_T_");
        match parameter.kind.as_str() {
            // A length of zero asks for the length only, with no place for the value.
            "STRING" if parameter.direction != Direction::In => {
                !tool && !matches!(self.symbol.as_str(), "MPI_Info_get_string" | "MPI_Session_get_nth_pset")
            }
            "STRING" => true,
            "STATUS" => parameter.direction != Direction::Out,
            "BUFFER" | "ARGUMENT_COUNT" | "ARGUMENT_LIST" | "STRING_ARRAY" | "STRING_2DARRAY" | "EXTRA_STATE" => false,
            "LOGICAL_VOID" | "TOOL_MPI_OBJ" => false,
            "C_BUFFER" | "C_BUFFER2" | "ATTRIBUTE_VAL" | "ATTRIBUTE_VAL_10" => parameter.direction == Direction::Out,
            // Tools pass null for values that they do not want to know (MPI-5.0 §15.3.3).
            _ if tool && parameter.direction != Direction::In => !self.symbol.contains("_get_info"),
            _ => is_pointer(parameter),
        }
    }
}

/// The call of the implementation, broken as rustfmt would break it (rustfmt leaves bodies of macros alone).
fn invocation(path: &str, arguments: &[String]) -> String {
    let one_line = format!("unsafe {{ {path}({}) }}", arguments.join(", "));
    if one_line.len() <= WIDTH - 12 {
        return one_line;
    }
    let inner = arguments.join(", ");
    if inner.len() <= WIDTH - 18 {
        return format!("unsafe {{\n            {path}(\n                {inner}\n            )\n        }}");
    }
    format!(
        "unsafe {{\n            {path}(\n                {},\n            )\n        }}",
        arguments.join(",\n                ")
    )
}

/// The check of the room that a program offers, where the call returns the length that it needs.
fn room_check(parameter: &Parameter) -> Option<String> {
    let says_room = matches!(parameter.kind.as_str(), "STRING_LENGTH" | "INFO_VALUE_LENGTH" | "ARRAY_LENGTH_NNI");
    let is_asked = says_room && parameter.direction == Direction::InOut && parameter.lengths.is_empty();
    is_asked.then(|| {
        format!("check::room(\"{}\", unsafe {{ InOut::if_wanted({}) }})?;", parameter.name, rust_name(parameter))
    })
}

/// Returns whether a parameter of a scalar kind is passed by address.
fn is_pointer(parameter: &Parameter) -> bool {
    parameter.pointer
        || (parameter.direction != Direction::In && !parameter.value)
        || (parameter.kind == "STATUS" && parameter.lengths.is_empty())
}

fn rust_name(parameter: &Parameter) -> String {
    match parameter.name.as_str() {
        "type" | "in" | "ref" | "match" | "move" | "box" | "fn" => format!("r#{}", parameter.name),
        name => name.to_owned(),
    }
}

fn rust_scalar(c_type: &str) -> Result<&'static str> {
    Ok(match c_type {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "void" => "c_void",
        "char" => "c_char",
        "double" => "f64",
        "MPI_Aint" => "MPI_Aint",
        "MPI_Count" => "MPI_Count",
        "MPI_Offset" => "MPI_Offset",
        "MPI_Status" => "MPI_Status",
        other => *super::tables::HANDLES
            .iter()
            .find(|&&h| h == other)
            .with_context(|| format!("no Rust type for {other}"))?,
    })
}

/// The library's name of the object that a collective constructor makes, and the parameter that says which
/// processes take part.
fn creation(symbol: &str) -> Option<(&'static str, &'static str)> {
    let name = symbol.strip_suffix("_c").unwrap_or(symbol).strip_prefix("MPI_")?;
    Some(match name {
        "Comm_dup" | "Comm_dup_with_info" | "Comm_idup" | "Comm_idup_with_info" => ("Duplicate", "comm"),
        "Comm_create" => ("Create", "comm"),
        "Comm_split" => ("Split", "comm"),
        "Comm_split_type" => ("SplitType", "comm"),
        "Cart_create" => ("Cartesian", "comm_old"),
        "Cart_sub" => ("CartesianSub", "comm"),
        "Graph_create" => ("Graph", "comm_old"),
        "Dist_graph_create" => ("DistributedGraph", "comm_old"),
        "Dist_graph_create_adjacent" => ("DistributedGraphAdjacent", "comm_old"),
        "Intercomm_merge" => ("Merge", "intercomm"),
        "Win_create" | "Win_allocate" | "Win_allocate_shared" | "Win_create_dynamic" => ("Window", "comm"),
        _ => return None,
    })
}
