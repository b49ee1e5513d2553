//! The C sources of the procedures: one file for each chapter.
//!
//! Each procedure is a body that takes Fortran's arguments and calls the C binding, with the procedures of
//! the bindings around it. `mpi_send_` is that of mpif.h and of the module `mpi`. `mpi_send_f08ts_` and
//! `mpi_send_c_f08ts_` are those of the module `mpi_f08`, whose buffers are descriptors.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::Output;
use super::super::spec::{Direction, Form, Parameter, Procedure, Spec};
use super::{
    CALLS, HEAD, LIBRARY, Use, handle, has_choice, is_choice, is_special, is_without_f08, parameters, procedures,
    use_of,
};

pub(super) fn sources(spec: &Spec) -> Result<Vec<Output>> {
    let mut chapters: BTreeMap<&str, String> = BTreeMap::new();
    for (module, procedure) in procedures(spec).filter(|(_, procedure)| !is_special(&procedure.name)) {
        let text = chapters
            .entry(module)
            .or_insert_with(|| format!("/* {HEAD} See fortran.h. */\n#include \"fortran.h\"\n#include <stdlib.h>\n"));
        for &form in procedure.forms() {
            let source = Source { spec, module, procedure, form };
            source.write(text).with_context(|| procedure.symbol(form))?;
        }
    }
    Ok(chapters.into_iter().map(|(module, text)| (format!("{LIBRARY}/{CALLS}{module}.c"), text)).collect())
}

/// What a parameter becomes in the body.
#[derive(Default)]
struct Shape {
    /// The declaration of Fortran's argument.
    declaration: String,
    /// Statements before the call.
    before: String,
    argument: String,
    /// Statements after a call that succeeded.
    success: String,
    /// Statements after any call.
    after: String,
    /// Says whether a length of a string follows the arguments.
    has_length: bool,
}

struct Source<'a> {
    spec: &'a Spec,
    module: &'a str,
    procedure: &'a Procedure,
    form: Form,
}

impl Source<'_> {
    fn name(&self) -> String {
        self.procedure.symbol(self.form).to_ascii_lowercase()
    }

    fn write(&self, out: &mut String) -> Result<()> {
        let parameters = parameters(self.procedure, self.form);
        let shapes = parameters.iter().map(|parameter| self.shape(parameter)).collect::<Result<Vec<_>>>()?;
        self.body(&shapes, out)?;
        let name = self.name();
        let declarations: Vec<&str> = shapes.iter().map(|shape| shape.declaration.as_str()).collect();
        let lengths: Vec<String> = parameters
            .iter()
            .zip(&shapes)
            .filter(|(_, shape)| shape.has_length)
            .map(|(parameter, _)| format!("{}_length", parameter.name))
            .collect();
        let names: Vec<String> =
            parameters.iter().map(|parameter| parameter.name.clone()).chain(lengths.iter().cloned()).collect();
        let mut arguments: Vec<String> = declarations.iter().map(|text| (*text).to_owned()).collect();
        arguments.push("int *ierror".to_owned());
        arguments.extend(lengths.iter().map(|length| format!("size_t {length}")));
        let (arguments, call) = (arguments.join(", "), format!("{name}_body({})", names.join(", ")));
        let choice = has_choice(self.procedure);
        if self.form == Form::Small && choice {
            writeln!(out, "void F({name})({arguments}) {{ GIVE_IN_MPIF(ierror, {call}); }}")?;
        } else if self.form == Form::Small {
            writeln!(out, "void F({name})({arguments}) {{ give(ierror, {call}); }}")?;
            if !is_without_f08(&self.procedure.name) {
                writeln!(out, "SAME_IN_F08({name});")?;
            }
        } else if !choice {
            writeln!(out, "void F08({name})({arguments}) {{ give(ierror, {call}); }}")?;
        }
        if self.form == Form::Small && self.gives_address() {
            writeln!(out, "ALSO({name}_cptr, {name});")?;
        }
        if choice { self.with_descriptors(&parameters, &shapes, out) } else { Ok(()) }
    }

    /// Whether the procedure of the module `mpi` is overloaded with one whose address is a C_PTR.
    fn gives_address(&self) -> bool {
        self.procedure.parameters.iter().any(|parameter| parameter.kind == "C_BUFFER")
    }

    fn body(&self, shapes: &[Shape], out: &mut String) -> Result<()> {
        let parameters = parameters(self.procedure, self.form);
        let mut declarations: Vec<String> = shapes.iter().map(|shape| shape.declaration.clone()).collect();
        for (parameter, shape) in parameters.iter().zip(shapes) {
            if shape.has_length {
                declarations.push(format!("size_t {}_length", parameter.name));
            }
        }
        let declarations = if declarations.is_empty() { "void".to_owned() } else { declarations.join(", ") };
        let arguments: Vec<&str> = shapes.iter().map(|shape| shape.argument.as_str()).collect();
        let call = format!("C({})({})", self.procedure.symbol(self.form), arguments.join(", "));
        let is_plain =
            shapes.iter().all(|shape| shape.before.is_empty() && shape.success.is_empty() && shape.after.is_empty());
        if is_plain && has_choice(self.procedure) {
            return self.quick_body(&parameters, shapes, &declarations, &call, out);
        }
        writeln!(out, "\nstatic inline int {}_body({declarations}) {{", self.name())?;
        if is_plain {
            writeln!(out, "    return {call};\n}}")?;
            return Ok(());
        }
        for shape in shapes {
            out.push_str(&shape.before);
        }
        writeln!(out, "    int code = {call};")?;
        if shapes.iter().any(|shape| !shape.success.is_empty()) {
            writeln!(out, "    if (code == MPI_SUCCESS) {{")?;
            for shape in shapes {
                out.push_str(&shape.success);
            }
            writeln!(out, "    }}")?;
        }
        for shape in shapes {
            out.push_str(&shape.after);
        }
        writeln!(out, "    return code;\n}}")?;
        Ok(())
    }

    /// The body of a procedure where instructions count. One test tells predefined handles and buffers that
    /// are no constants from all others. What the others need is elsewhere, and gets the handles as they were
    /// read: a pointer that lives on costs an instruction.
    fn quick_body(
        &self,
        parameters: &[&Parameter],
        shapes: &[Shape],
        declarations: &str,
        call: &str,
        out: &mut String,
    ) -> Result<()> {
        let name = self.name();
        let (mut handles, mut tests) = (Vec::new(), Vec::new());
        let (mut quick, mut read, mut any) = (Vec::new(), Vec::new(), Vec::new());
        let mut call = call.to_owned();
        for (at, (parameter, shape)) in parameters.iter().zip(shapes).enumerate() {
            let own = &parameter.name;
            if let Some((word, c_type)) = handle(&parameter.kind) {
                handles.push(own.as_str());
                quick.push(format!("({c_type})(uintptr_t)(unsigned)*{own}"));
                call = call.replace(&format!("{word}_c(*{own})"), &format!("{word}_c({own})"));
                read.push(format!("*{own}"));
                any.push(format!("int {own}"));
                continue;
            }
            if !is_choice(parameter) {
                quick.push(shape.argument.clone());
            } else {
                if !self.has_data(parameters, at) {
                    tests.push(format!("!needs_{}", shape.argument));
                }
                quick.push(own.clone());
            }
            read.push(own.clone());
            any.push(shape.declaration.clone());
        }
        let datatypes = parameters.iter().filter(|parameter| parameter.kind == "DATATYPE").count();
        tests.insert(0, are_predefined(&handles, datatypes));
        writeln!(out, "\nstatic COLD int {name}_any({}) {{\n    return {call};\n}}", any.join(", "))?;
        writeln!(out, "\nstatic inline int {name}_body({declarations}) {{")?;
        writeln!(out, "    if (LIKELY({})) {{", tests.join(" && "))?;
        let symbol = self.procedure.symbol(self.form);
        writeln!(out, "        return C({symbol})({});\n    }}", quick.join(", "))?;
        writeln!(out, "    return {name}_any({});\n}}", read.join(", "))?;
        Ok(())
    }

    /// Whether the buffer at `at` cannot be MPI_BOTTOM where its datatype is predefined: the data would lie
    /// at the address 0, where no program has any. Without data, each address is as good. Collectives know
    /// MPI_IN_PLACE too.
    fn has_data(&self, parameters: &[&Parameter], at: usize) -> bool {
        let kind = |at: usize| parameters.get(at).map_or("", |parameter| parameter.kind.as_str());
        matches!(self.module, "point_to_point" | "one_sided" | "partitioned" | "files")
            && use_of(self.procedure) != Use::Contiguous
            && kind(at + 1).starts_with("POLYXFER_NUM_ELEM")
            && kind(at + 2) == "DATATYPE"
    }

    fn shape(&self, parameter: &Parameter) -> Result<Shape> {
        let name = &parameter.name;
        if is_choice(parameter) {
            let translate = match (self.module, use_of(self.procedure)) {
                (_, Use::Contiguous) => "attached_c",
                ("collectives" | "topologies", _) => "buffer_or_in_place_c",
                _ => "buffer_c",
            };
            let argument = format!("{translate}({name})");
            return Ok(Shape { declaration: format!("void *{name}"), argument, ..Shape::default() });
        }
        if let Some((word, c_type)) = handle(&parameter.kind) {
            return if parameter.lengths.is_empty() {
                Ok(scalar_handle(parameter, word, c_type))
            } else {
                self.datatypes(parameter)
            };
        }
        let is_array = !parameter.lengths.is_empty();
        match parameter.kind.as_str() {
            "STATUS" if !is_array => Ok(Shape {
                declaration: format!("void *{name}"),
                argument: if parameter.direction == Direction::Out {
                    format!("status_c({name})")
                } else {
                    name.clone()
                },
                ..Shape::default()
            }),
            "LOGICAL" if !is_array && parameter.direction == Direction::Out => Ok(Shape {
                declaration: format!("int *{name}"),
                before: format!("    int c_{name} = 0;\n"),
                argument: format!("&c_{name}"),
                success: format!("        *{name} = c_{name} != 0;\n"),
                ..Shape::default()
            }),
            "LOGICAL" if !is_array => Ok(Shape {
                declaration: format!("const int *{name}"),
                argument: format!("*{name} != 0"),
                ..Shape::default()
            }),
            "STRING" => self.string(parameter),
            "WEIGHT" => Ok(Shape {
                declaration: format!("int *{name}"),
                argument: format!("weights_c({name})"),
                ..Shape::default()
            }),
            "C_BUFFER" => {
                Ok(Shape { declaration: format!("void *{name}"), argument: name.clone(), ..Shape::default() })
            }
            _ => self.number(parameter),
        }
    }

    /// A number, or an array of numbers: Fortran's are C's.
    fn number(&self, parameter: &Parameter) -> Result<Shape> {
        const NUMBERS: [&str; 5] = ["int", "MPI_Aint", "MPI_Count", "MPI_Offset", "double"];
        let (name, c_type) = (&parameter.name, self.spec.c_type(parameter, self.form));
        if !NUMBERS.contains(&c_type) {
            bail!("kind {} has no rule here, and the procedure is not in special.c", parameter.kind);
        }
        let is_in = parameter.direction == Direction::In;
        let is_constant = is_in && (parameter.lengths.is_empty() || parameter.constant);
        let constant = if is_constant { "const " } else { "" };
        let argument = match (parameter.lengths.len(), is_in) {
            (0, true) => format!("*{name}"),
            (2, _) => format!("({c_type}(*)[{}]){name}", parameter.lengths[1]),
            _ => name.clone(),
        };
        Ok(Shape { declaration: format!("{constant}{c_type} *{name}"), argument, ..Shape::default() })
    }

    fn string(&self, parameter: &Parameter) -> Result<Shape> {
        let name = &parameter.name;
        if parameter.direction == Direction::In {
            // The standard strips leading blanks only from keys and values (MPI-5.0 §10).
            let both = self.module == "info" || name == "key";
            return Ok(Shape {
                declaration: format!("const char *{name}"),
                before: format!(
                    "    struct text {name}_text;\n    const char *c_{name} = text_open(&{name}_text, {name}, \
                     {name}_length, {both});\n    if (!c_{name}) {{\n        return fail(MPI_ERR_NO_MEM, \
                     \"there is no memory for a copy of the string {name}\");\n    }}\n"
                ),
                argument: format!("c_{name}"),
                after: format!("    text_close(&{name}_text);\n"),
                has_length: true,
                ..Shape::default()
            });
        }
        let procedure = self.procedure.name.as_str();
        let size = match name.as_str() {
            "comm_name" | "type_name" | "win_name" => "MPI_MAX_OBJECT_NAME",
            "port_name" => "MPI_MAX_PORT_NAME",
            "key" => "MPI_MAX_INFO_KEY",
            "datarep" => "MPI_MAX_DATAREP_STRING",
            "version" => "MPI_MAX_LIBRARY_VERSION_STRING",
            _ if procedure == "MPI_Error_string" => "MPI_MAX_ERROR_STRING",
            _ if procedure == "MPI_Get_processor_name" => "MPI_MAX_PROCESSOR_NAME",
            _ => bail!("the size of the string {name} is not known"),
        };
        // Names that MPI_Lookup_name and MPI_Info_get_nthkey do not find leave the string as it was.
        Ok(Shape {
            declaration: format!("char *{name}"),
            before: format!("    char c_{name}[{size} + 1] = \"\";\n"),
            argument: format!("c_{name}"),
            success: format!("        text_give({name}, {name}_length, c_{name});\n"),
            has_length: true,
            ..Shape::default()
        })
    }

    /// An array of datatypes: those of a structure, or of MPI_Alltoallw and its like, one for each peer.
    fn datatypes(&self, parameter: &Parameter) -> Result<Shape> {
        let name = &parameter.name;
        if parameter.kind != "DATATYPE" || parameter.direction != Direction::In {
            bail!("{name}: only arrays of datatypes that go in have a rule");
        }
        let mut shape =
            Shape { declaration: format!("const int *{name}"), argument: format!("c_{name}"), ..Shape::default() };
        let is_for_peers = parameter.lengths[0] == "*";
        let number = match (is_for_peers, name.as_str()) {
            (false, _) => format!("*{}", parameter.lengths[0]),
            (true, "sendtypes") => "destinations".to_owned(),
            (true, _) => "sources".to_owned(),
        };
        if is_for_peers && name == "sendtypes" {
            write!(
                shape.before,
                "    int sources = 0, destinations = 0, known = peers(comm_c(*comm), {}, &sources, &destinations);\n    \
                 if (known != MPI_SUCCESS) {{\n        return known;\n    }}\n    if (buffer_or_in_place_c(sendbuf) == \
                 MPI_IN_PLACE) {{\n        destinations = 0;\n    }}\n",
                self.module == "topologies"
            )?;
        }
        let free_others = if name == "recvtypes" { "        free(c_sendtypes);\n" } else { "" };
        write!(
            shape.before,
            "    MPI_Datatype *c_{name} = calloc((size_t)({number} > 0 ? {number} : 0) + 1, sizeof *c_{name});\n    \
             if (!c_{name}) {{\n{free_others}        return fail(MPI_ERR_NO_MEM, \"there is no memory for an array \
             of datatypes\");\n    }}\n    for (MPI_Count i = 0; i < {number}; i++) {{\n        c_{name}[i] = \
             datatype_c({name}[i]);\n    }}\n"
        )?;
        shape.after = match use_of(self.procedure) {
            // MPI may read the array until the request completes (MPI-5.0 §6.12).
            Use::Nonblocking | Use::Persistent => format!(
                "    if (code != MPI_SUCCESS) {{\n        free(c_{name});\n    }} else {{\n        code = \
                 keep_memory(*request, c_{name}, {});\n    }}\n",
                use_of(self.procedure) == Use::Persistent
            ),
            _ => format!("    free(c_{name});\n"),
        };
        Ok(shape)
    }

    /// The procedure whose buffers are descriptors.
    fn with_descriptors(&self, parameters: &[&Parameter], shapes: &[Shape], out: &mut String) -> Result<()> {
        let (name, uses) = (self.name(), use_of(self.procedure));
        let mut declarations = Vec::new();
        let (mut plain, mut opened, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        let (mut parts, mut conditions) = (Vec::new(), Vec::new());
        // The part whose count and datatype come next.
        let mut described: Option<usize> = None;
        let mut hidden = String::new();
        for (at, (parameter, shape)) in parameters.iter().zip(shapes).enumerate() {
            let own = &parameter.name;
            if is_choice(parameter) {
                declarations.push(format!("const struct descriptor *{own}"));
                plain.push(format!("{own}->base"));
                opened.push(format!("parts[{}].at", parts.len()));
                conditions.push(format!("contiguous({own})"));
                let writes = parameter.direction != Direction::In;
                described = self.describes(parameters, at).then_some(parts.len());
                parts.push(match described {
                    Some(_) => format!(
                        "{{.section = {own}, .writes = {writes}, .described = true, .count = *{}, .datatype = *{}}}",
                        parameters[at + 1].name,
                        parameters[at + 2].name
                    ),
                    None => format!("{{.section = {own}, .writes = {writes}}}"),
                });
            } else if shape.has_length {
                declarations.push(format!("STRING_IN_F08({own})"));
                hidden.push_str(&format!(" STRING_LENGTH_IN_F08({own})"));
                lengths.push(format!("LENGTH_OF({own})"));
                plain.push(format!("STRING_OF({own})"));
                opened.push(format!("STRING_OF({own})"));
            } else {
                declarations.push(shape.declaration.clone());
                plain.push(own.clone());
                opened.push(match (described, parameter.kind.as_str()) {
                    (Some(part), "DATATYPE") => {
                        described = None;
                        format!("&parts[{part}].datatype")
                    }
                    (Some(part), _) if self.form == Form::Small => format!("&parts[{part}].small_count"),
                    (Some(part), _) => format!("&parts[{part}].count"),
                    (None, _) => own.clone(),
                });
            }
        }
        let declarations = declarations.join(", ");
        let call = |arguments: &[String]| {
            let all: Vec<&str> = arguments.iter().chain(&lengths).map(String::as_str).collect();
            format!("{name}_body({})", all.join(", "))
        };
        let head = format!("({declarations}, int *ierror{hidden})");
        if uses == Use::Address {
            writeln!(out, "void F08TS({name}){head} {{\n    give(ierror, {});\n}}", call(&plain))?;
            return Ok(());
        }
        let request = if matches!(uses, Use::Nonblocking | Use::Persistent) { "request" } else { "NULL" };
        let (number, constant) = (parts.len(), uses.constant());
        writeln!(out, "static COLD void {name}_sections{head} {{")?;
        writeln!(out, "    struct part parts[] = {{{}}};", parts.join(", "))?;
        writeln!(out, "    int code = parts_open(parts, {number}, {constant});")?;
        writeln!(out, "    if (code == MPI_SUCCESS) {{\n        code = {};", call(&opened))?;
        writeln!(out, "        code = parts_close(parts, {number}, {constant}, code, {request});\n    }}")?;
        writeln!(out, "    give(ierror, code);\n}}")?;
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let passed = hidden.replace("STRING_LENGTH_IN_F08", "PASS_LENGTH");
        writeln!(out, "void F08TS({name}){head} {{\n    if (LIKELY({})) {{", conditions.join(" && "))?;
        writeln!(out, "        give(ierror, {});\n    }} else {{", call(&plain))?;
        writeln!(out, "        {name}_sections({}, ierror{passed});\n    }}\n}}", names.join(", "))?;
        Ok(())
    }

    /// Whether the buffer at `at` is described by the count and the datatype that follow it, so that another
    /// datatype may take their place. Collectives place parts of their buffers by themselves.
    fn describes(&self, parameters: &[&Parameter], at: usize) -> bool {
        let kind = |at: usize| parameters.get(at).map_or("", |parameter| parameter.kind.as_str());
        matches!(self.module, "point_to_point" | "one_sided" | "files")
            && !matches!(use_of(self.procedure), Use::Blocking | Use::Contiguous)
            && kind(at + 1).starts_with("POLYXFER_NUM_ELEM")
            && kind(at + 2) == "DATATYPE"
    }
}

/// The test whether handles are predefined. The sum is below 1024 only if each of them is, and takes one
/// instruction less. Two datatypes have a higher sum, and would always go the long way, which is as right.
fn are_predefined(handles: &[&str], datatypes: usize) -> String {
    if handles.len() > 1 && datatypes <= 1 {
        let all: Vec<String> = handles.iter().map(|name| format!("(uint64_t)(unsigned)*{name}")).collect();
        return format!("are_predefined_by_sum({})", all.join(" + "));
    }
    let all: Vec<String> = handles.iter().map(|name| format!("*{name}")).collect();
    format!("are_predefined({})", if all.is_empty() { "0".to_owned() } else { all.join(" | ") })
}

fn scalar_handle(parameter: &Parameter, word: &str, c_type: &str) -> Shape {
    let name = &parameter.name;
    if parameter.direction == Direction::In && !parameter.pointer {
        return Shape {
            declaration: format!("const int *{name}"),
            argument: format!("{word}_c(*{name})"),
            ..Shape::default()
        };
    }
    let null = format!("{}_NULL", c_type.to_ascii_uppercase());
    let start = if parameter.direction == Direction::Out { null } else { format!("{word}_c(*{name})") };
    let success = if parameter.direction == Direction::In {
        String::new()
    } else {
        format!("        *{name} = {word}_f(c_{name});\n")
    };
    let constant = if parameter.direction == Direction::In { "const " } else { "" };
    Shape {
        declaration: format!("{constant}int *{name}"),
        before: format!("    {c_type} c_{name} = {start};\n"),
        argument: format!("&c_{name}"),
        success,
        ..Shape::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_tested_by_their_sum_but_for_two_datatypes() {
        let sum = "are_predefined_by_sum((uint64_t)(unsigned)*datatype + (uint64_t)(unsigned)*comm)";
        assert_eq!(are_predefined(&["datatype", "comm"], 1), sum);
        assert_eq!(
            are_predefined(&["sendtype", "recvtype", "comm"], 2),
            "are_predefined(*sendtype | *recvtype | *comm)"
        );
        assert_eq!(are_predefined(&["request"], 0), "are_predefined(*request)");
        assert_eq!(are_predefined(&[], 0), "are_predefined(0)");
        let root = crate::generate::project_root();
        let spec = Spec::read(&root.join("spec")).unwrap();
        let all = || spec.categories.iter().flat_map(|category| &category.constants);
        let largest = |kind: &str| all().filter(|one| one.c_type == kind).map(|one| one.value).max().unwrap();
        assert!(largest("MPI_Datatype") + largest("MPI_Comm") < 1024);
    }
}
