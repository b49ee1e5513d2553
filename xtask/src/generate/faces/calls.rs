//! The C sources of the functions: one file for each chapter.
//!
//! Each function takes the arguments of its ABI, converts them by the kinds of the parameters, calls the
//! standard's function, and converts what comes back. The conversions are in `faces/library/face.h` and in
//! the header of the ABI.

use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;

use super::super::Output;
use super::super::spec::{Chapter, Direction, Form, Parameter, Procedure, Spec};
use super::{CALLS, HEAD, LIBRARY, SHORT_REQUEST, SHORT_STATUS, is_special};

pub(super) fn sources(spec: &Spec) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for chapter in &spec.chapters {
        let mut text = format!("/* {}. {HEAD} See face.h. */\n#include \"face.h\"\n", chapter.title);
        let mut any = false;
        for procedure in chapter.procedures.iter().filter(|one| !one.callback && !is_special(one)) {
            for &form in procedure.forms() {
                let function = Function { spec, chapter, procedure, form };
                function.write(&mut text).with_context(|| procedure.symbol(form))?;
                any = true;
            }
        }
        if any {
            outputs.push((format!("{LIBRARY}/{CALLS}{}.c", chapter.module), text));
        }
    }
    Ok(outputs)
}

/// The list of all functions of the standard: the members of the table by which a face calls the library.
pub(super) fn functions(spec: &Spec) -> String {
    let symbols = spec.procedures().flat_map(|one| one.forms().iter().map(|&form| one.symbol(form)));
    let rows: Vec<String> = symbols.map(|symbol| format!(" \\\n    X({symbol})")).collect();
    format!("/* The functions of the standard. {HEAD} */\n#define FUNCTIONS(X){}\n", rows.concat())
}

/// What a parameter becomes.
#[derive(Clone, Default)]
struct Shape {
    declaration: String,
    /// Statements before the call.
    before: String,
    argument: String,
    /// Statements after a call that succeeded.
    success: String,
    /// Statements after any call.
    after: String,
    /// What it becomes where its value is a usual one, if that takes less.
    usual: Option<(Test, Box<Shape>)>,
}

/// The test whether a value is usual.
#[derive(Clone)]
enum Test {
    Holds(String),
    /// This number is not negative: signs of several arguments are tested at once.
    NotNegative(String),
    /// A status is ignored. One that is not is usual, too, but needs room.
    Ignored(String),
}

/// The kinds of handles: the kind of the parameter, the word of the conversions, and the type in C.
const HANDLES: [(&str, &str, &str); 11] = [
    ("COMMUNICATOR", "comm", "Comm"),
    ("DATATYPE", "datatype", "Datatype"),
    ("ERRHANDLER", "errhandler", "Errhandler"),
    ("FILE", "file", "File"),
    ("GROUP", "group", "Group"),
    ("INFO", "info", "Info"),
    ("MESSAGE", "message", "Message"),
    ("OPERATION", "op", "Op"),
    ("REQUEST", "request", "Request"),
    ("SESSION", "session", "Session"),
    ("WINDOW", "win", "Win"),
];

/// The kinds of integers whose values differ between ABIs: the kind, and the word of the conversions.
const VALUES: [(&str, &str); 25] = [
    ("ACCESS_MODE", "access_mode"),
    ("ASSERT", "assertion"),
    ("BIND_TYPE", "bind"),
    ("CALLBACK_SAFETY", "callback_safety"),
    ("COMBINER", "combiner"),
    ("COMM_COMPARISON", "comparison"),
    ("ERROR_CLASS", "error"),
    ("ERROR_CODE", "error"),
    ("GROUP_COMPARISON", "comparison"),
    ("KEYVAL", "keyval"),
    ("LOCK_TYPE", "lock"),
    ("ORDER", "order"),
    ("PVAR_CLASS", "pvar_class"),
    ("RANK", "rank"),
    ("RANK_NNI", "rank"),
    ("SOURCE_ORDERING", "source_order"),
    ("SPLIT_TYPE", "split_type"),
    ("TAG", "tag"),
    ("THREAD_LEVEL", "thread"),
    ("TOOL_VAR_VERBOSITY", "verbosity"),
    ("TOPOLOGY_TYPE", "topology"),
    ("TYPECLASS", "typeclass"),
    ("UPDATE_MODE", "whence"),
    ("VARIABLE_SCOPE", "scope"),
    ("PVAR", "pvar"),
];

/// The kinds of handles that have a conversion without a call for usual handles, by the word of it.
const QUICK: [&str; 5] = ["comm", "datatype", "op", "request", "win"];

struct Function<'a> {
    spec: &'a Spec,
    chapter: &'a Chapter,
    procedure: &'a Procedure,
    form: Form,
}

impl Function<'_> {
    fn write(&self, out: &mut String) -> Result<()> {
        let symbol = self.procedure.symbol(self.form);
        let parameters: Vec<&Parameter> =
            self.procedure.parameters.iter().filter(|one| one.in_form(self.form)).collect();
        let mut shapes = Vec::new();
        for parameter in &parameters {
            let shape = self.shape(parameter, &shapes).with_context(|| parameter.name.clone())?;
            shapes.push(shape);
        }
        let declarations: Vec<&str> = shapes.iter().map(|shape| shape.declaration.as_str()).collect();
        let declarations = if declarations.is_empty() { "void".to_owned() } else { declarations.join(", ") };
        if let Some(kind) = &self.procedure.returns {
            let c_type = &self.spec.kinds[kind].c_type;
            let arguments: Vec<&str> = shapes.iter().map(|shape| shape.argument.as_str()).collect();
            let call = format!("library.{symbol}({})", arguments.join(", "));
            writeln!(out, "\n{c_type} face_{symbol}({declarations}) {{ return {call}; }}\nEXPORT({symbol})")?;
            return Ok(());
        }
        let body = self.body("library", &shapes.iter().collect::<Vec<_>>());
        match self.test(&parameters, &shapes) {
            None => writeln!(out, "\nint face_{symbol}({declarations}) {{\n{body}}}")?,
            Some(test) => {
                writeln!(out, "\nstatic UNUSUAL_CALL int unusual_{symbol}({declarations}) {{\n{body}}}")?;
                let (mut usual, mut short, mut other) = (String::new(), None, "unusual");
                if let Some(shapes) = with_status(&shapes) {
                    let test = self.test(&parameters, &shapes).context("a test")?;
                    let function = |word, library, shapes: &[Shape]| {
                        let function = self.usual_function(word, library, &test, "unusual", &parameters, shapes);
                        function.replace("comm_is_usual", "comm_is_known").replace("comm_usual_c", "comm_known_c")
                    };
                    // A function without room for a status needs no frame, so one with a status is another.
                    usual = format!("static UNUSUAL_CALL {}", function("with_status", "library", &shapes));
                    other = "with_status";
                    if SHORT_STATUS.contains(&symbol.as_str()) {
                        short = Some(function("face", "short_calls", &short_statuses(&parameters, &shapes)));
                    } else {
                        out.push_str(&std::mem::take(&mut usual));
                    }
                }
                usual += &self.usual_function("face", "library", &test, other, &parameters, &shapes);
                if SHORT_REQUEST.contains(&symbol.as_str()) {
                    let shapes = short_requests(&parameters, &shapes);
                    let test = self.test(&parameters, &shapes).context("a test")?;
                    short = Some(self.usual_function("face", "short_calls", &test, other, &parameters, &shapes));
                }
                match short {
                    Some(short) => writeln!(out, "#ifdef HAS_SHORT_CALLS\n{short}#else\n{usual}#endif")?,
                    None => out.push_str(&usual),
                }
            }
        }
        writeln!(out, "EXPORT({symbol})")?;
        Ok(())
    }

    /// The function `word` for usual arguments, for which the test holds. It leaves others to the function
    /// `other`.
    fn usual_function(
        &self,
        word: &str,
        library: &str,
        test: &str,
        other: &str,
        parameters: &[&Parameter],
        shapes: &[Shape],
    ) -> String {
        let symbol = self.procedure.symbol(self.form);
        let declarations: Vec<&str> = shapes.iter().map(|shape| shape.declaration.as_str()).collect();
        let names: Vec<&str> = parameters.iter().map(|one| one.name.as_str()).collect();
        let usual: Vec<&Shape> =
            shapes.iter().map(|shape| shape.usual.as_ref().map_or(shape, |(_, usual)| usual)).collect();
        format!(
            "int {word}_{symbol}({}) {{\n    if (!LIKELY({test})) {{\n        return {other}_{symbol}({});\n    }}\n{}}}\n",
            declarations.join(", "),
            names.join(", "),
            self.body(library, &usual)
        )
    }

    /// The statements that convert, call, and convert back.
    fn body(&self, library: &str, shapes: &[&Shape]) -> String {
        let all = |part: fn(&Shape) -> &String| shapes.iter().map(|one| part(one).as_str()).collect::<String>();
        let arguments: Vec<&str> =
            shapes.iter().map(|one| one.argument.as_str()).filter(|argument| !argument.is_empty()).collect();
        let call = format!("{library}.{}({})", self.procedure.symbol(self.form), arguments.join(", "));
        let (before, success, after) = (all(|one| &one.before), all(|one| &one.success), all(|one| &one.after));
        let result = if self.returns_codes_of_all() { "code" } else { "error_f(code)" };
        if success.is_empty() && after.is_empty() {
            return format!("{before}    return {};\n", result.replace("code", &call));
        }
        let mut body = format!("{before}    int code = {call};\n");
        if !success.is_empty() {
            body += &format!("    if (LIKELY(code == MPI_SUCCESS)) {{\n{success}");
            // Nothing is left to do then, so the code need not be kept.
            if after.is_empty() && !success.contains("code = ") && result != "code" {
                body += "        return MPI_SUCCESS;\n";
            }
            body += "    }\n";
        }
        body + &format!("{after}    return {result};\n")
    }

    /// Whether all codes that the function returns are the same in every ABI: those of errors that the
    /// library finds itself have sentences (`crates/weft-abi/src/error_codes.rs`). Bare classes are returned
    /// by functions that complete several requests, which are in special.c, and by those of the tool
    /// interface. Codes of the program are returned by functions that call a function of the program.
    fn returns_codes_of_all(&self) -> bool {
        const CALL_THE_PROGRAM: &[&str] =
            &["_attr", "_errhandler", "Cancel", "_cancel", "_free", "Wait", "Test", "get_status"];
        self.moves_data() && !CALL_THE_PROGRAM.iter().any(|part| self.procedure.name.contains(part))
    }

    fn moves_data(&self) -> bool {
        matches!(self.chapter.module.as_str(), "point_to_point" | "collectives" | "one_sided")
    }

    /// The test whether all arguments are usual ones, so that they can be converted without a call. A
    /// function that calls nothing before need not save its arguments, and one that does nothing afterwards
    /// need not come back. So that is done for functions that move data.
    fn test(&self, parameters: &[&Parameter], shapes: &[Shape]) -> Option<String> {
        if !self.moves_data() {
            return None;
        }
        let is_copied = |one: &&&Parameter| one.kind == "STRING" || one.kind == "DATATYPE" && !one.lengths.is_empty();
        if parameters.iter().any(|one| is_copied(&one)) {
            return None;
        }
        let mut conditions = Vec::new();
        let mut signs = Vec::new();
        for (test, _) in shapes.iter().filter_map(|shape| shape.usual.as_ref()) {
            match test {
                // A status costs least to look at, and is given most often.
                Test::Ignored(condition) => conditions.insert(0, condition.clone()),
                Test::Holds(condition) => conditions.push(condition.clone()),
                Test::NotNegative(number) => signs.push(number.as_str()),
            }
        }
        // Without a handle, nothing that costs a call is converted.
        if !parameters.iter().any(|one| HANDLES.iter().any(|(kind, ..)| *kind == one.kind)) || conditions.is_empty() {
            return None;
        }
        // Numbers come before addresses, which are wider.
        signs.sort_by_key(|sign| sign.contains('('));
        if !signs.is_empty() {
            conditions.push(format!("({}) >= 0", signs.join(" | ")));
        }
        // The communicator is often another, unless a status is given more often.
        if !conditions.iter().any(|condition| condition.contains("ignored")) {
            conditions.sort_by_key(|condition| !condition.starts_with("comm_is_usual"));
        }
        Some(conditions.join(" && "))
    }

    fn shape(&self, parameter: &Parameter, earlier: &[Shape]) -> Result<Shape> {
        let name = &parameter.name;
        if let Some((_, word, c_type)) = HANDLES.into_iter().find(|(kind, ..)| *kind == parameter.kind) {
            return if parameter.lengths.is_empty() {
                Ok(handle(parameter, word, c_type))
            } else {
                self.handles(parameter, word, c_type, earlier)
            };
        }
        if let Some((_, word)) = VALUES.into_iter().find(|(kind, _)| *kind == parameter.kind) {
            return if parameter.lengths.is_empty() {
                Ok(self.value(parameter, word))
            } else {
                self.values(parameter, word, earlier)
            };
        }
        let plain = Shape { declaration: self.declaration(parameter), argument: name.clone(), ..Shape::default() };
        Ok(match parameter.kind.as_str() {
            // The address of a constant is its own.
            "BUFFER" if name == "location" => plain,
            "BUFFER" => {
                // MPI_IN_PLACE is usual in collectives, and otherwise wrong.
                let usual = (self.chapter.module != "collectives").then(|| {
                    let test = Test::NotNegative(format!("BUFFER_SIGN({name})"));
                    (test, Box::new(Shape { argument: name.clone(), ..Shape::default() }))
                });
                Shape { argument: format!("in_place_c({name})"), usual, ..plain }
            }
            "DISTRIB_ENUM" => self.values(parameter, "distribution", earlier)?,
            "DTYPE_DISTRIBUTION" => self.values(parameter, "distribution_argument", earlier)?,
            "OFFSET" if name == "disp" && parameter.direction == Direction::In => {
                Shape { argument: format!("displacement_c({name})"), ..plain }
            }
            "STATUS" => status(parameter)?,
            "STRING" if parameter.direction != Direction::In => self.string(parameter)?.unwrap_or(plain),
            "WEIGHT" => Shape { argument: format!("weights_c({name})"), ..plain },
            _ => plain,
        })
    }

    /// The declaration of a parameter that is the same in every ABI.
    fn declaration(&self, parameter: &Parameter) -> String {
        super::super::header::declaration(self.spec, parameter, self.form)
    }

    fn value(&self, parameter: &Parameter, word: &str) -> Shape {
        let name = &parameter.name;
        let c_type = self.spec.c_type(parameter, self.form).to_owned();
        // A tag that is sent is never a constant that another ABI has otherwise.
        let is_sent = parameter.kind == "TAG" && parameter.direction == Direction::In && !self.receives(parameter);
        match parameter.direction {
            Direction::In if is_sent => {
                Shape { declaration: format!("{c_type} {name}"), argument: name.clone(), ..Shape::default() }
            }
            Direction::In => Shape {
                declaration: format!("{c_type} {name}"),
                argument: format!("{word}_c({name})"),
                // Only the constants are negative.
                usual: matches!(word, "rank" | "tag").then(|| {
                    let usual = Shape { argument: name.clone(), ..Shape::default() };
                    (Test::NotNegative(name.clone()), Box::new(usual))
                }),
                ..Shape::default()
            },
            Direction::Out => Shape {
                declaration: format!("{c_type} *{name}"),
                argument: name.clone(),
                success: format!("        if ({name}) {{\n            *{name} = {word}_f(*{name});\n        }}\n"),
                ..Shape::default()
            },
            Direction::InOut => Shape {
                declaration: format!("{c_type} *{name}"),
                before: format!("    if ({name}) {{\n        *{name} = {word}_c(*{name});\n    }}\n"),
                argument: name.clone(),
                after: format!("    if ({name}) {{\n        *{name} = {word}_f(*{name});\n    }}\n"),
                ..Shape::default()
            },
        }
    }

    /// Whether a tag is one of a receive or of a status, and so perhaps MPI_ANY_TAG.
    fn receives(&self, parameter: &Parameter) -> bool {
        self.procedure.name == "MPI_Status_set_tag"
            || parameter.name != "sendtag" && self.procedure.parameters.iter().any(|one| one.name == "source")
    }

    /// An array of values. Ranks of members are the same in every ABI. Only MPI_Group_translate_ranks
    /// takes and gives other ones.
    fn values(&self, parameter: &Parameter, word: &str, earlier: &[Shape]) -> Result<Shape> {
        let name = &parameter.name;
        let declaration = self.declaration(parameter);
        let is_rank = word == "rank";
        if is_rank && self.procedure.name != "MPI_Group_translate_ranks" {
            return Ok(Shape { declaration, argument: name.clone(), ..Shape::default() });
        }
        let number = self.number(parameter)?;
        if parameter.direction == Direction::In {
            return Ok(copied(name, declaration, "int", &format!("{word}_c"), &number, earlier));
        }
        ensure!(is_rank && parameter.direction == Direction::Out, "no rule for an array of this kind");
        Ok(Shape {
            declaration,
            argument: name.clone(),
            success: format!(
                "        for (int i = 0; i < {number}; i++) {{\n            {name}[i] = rank_f({name}[i]);\n        }}\n"
            ),
            ..Shape::default()
        })
    }

    fn handles(&self, parameter: &Parameter, word: &str, c_type: &str, earlier: &[Shape]) -> Result<Shape> {
        let name = &parameter.name;
        ensure!(parameter.direction == Direction::In, "only arrays of handles that go in have a rule");
        let constness = if parameter.constant { "const " } else { "" };
        let number = self.number(parameter)?;
        let declaration = format!("{constness}F_{c_type} {name}[]");
        let mut shape = copied(name, declaration, &format!("MPI_{c_type}"), &format!("{word}_c"), &number, earlier);
        if name == "sendtypes" {
            let neighbors = self.chapter.module == "topologies";
            let peers = format!(
                "    int sources = 0, destinations = 0, known = peers(comm_c(comm), {neighbors}, &sources, &destinations);\n    \
                 if (known != MPI_SUCCESS) {{\n        return error_f(known);\n    }}\n    if (in_place_c(sendbuf) == \
                 MPI_IN_PLACE) {{\n        destinations = 0;\n    }}\n"
            );
            shape.before.insert_str(0, &peers);
        }
        Ok(shape)
    }

    /// The number of elements of an array: a parameter, or the number of peers.
    fn number(&self, parameter: &Parameter) -> Result<String> {
        Ok(match (parameter.lengths[0].as_str(), parameter.name.as_str()) {
            ("*", "sendtypes") => "destinations".to_owned(),
            ("*", "recvtypes") => "sources".to_owned(),
            ("*", _) => bail!("the length of the array is not known"),
            (length, _) => length.to_owned(),
        })
    }

    /// A string whose room has the size of a constant, which differs between ABIs. Nothing: the length is an
    /// argument.
    fn string(&self, parameter: &Parameter) -> Result<Option<Shape>> {
        let (name, procedure) = (&parameter.name, self.procedure.name.as_str());
        let size = match name.as_str() {
            "comm_name" | "type_name" | "win_name" => "OBJECT_NAME",
            "port_name" => "PORT_NAME",
            "key" => "INFO_KEY",
            "datarep" => "DATAREP_STRING",
            "version" => "LIBRARY_VERSION_STRING",
            _ if procedure == "MPI_Get_processor_name" => "PROCESSOR_NAME",
            _ => return Ok(None),
        };
        let has_length = self.procedure.parameters.iter().any(|one| one.name == "resultlen");
        let length = if has_length { "resultlen" } else { "NULL" };
        let give = if size == "PORT_NAME" { "port_f" } else { "text_f" };
        Ok(Some(Shape {
            declaration: format!("char *{name}"),
            before: format!("    char c_{name}[MPI_MAX_{size} + 1] = \"\";\n"),
            argument: format!("{name} ? c_{name} : NULL"),
            // A name that was not found leaves the string as it was.
            success: format!("        code = {give}({name}, F_MPI_MAX_{size}, c_{name}, {length});\n"),
            ..Shape::default()
        }))
    }
}

fn handle(parameter: &Parameter, word: &str, c_type: &str) -> Shape {
    let name = &parameter.name;
    match (parameter.direction, parameter.pointer) {
        (Direction::In, false) => Shape {
            declaration: format!("F_{c_type} {name}"),
            argument: format!("{word}_c({name})"),
            usual: QUICK.contains(&word).then(|| {
                let usual = Shape { argument: format!("{word}_usual_c({name})"), ..Shape::default() };
                (Test::Holds(format!("{word}_is_usual({name})")), Box::new(usual))
            }),
            ..Shape::default()
        },
        (Direction::In, true) => Shape {
            declaration: format!("F_{c_type} *{name}"),
            before: format!("    MPI_{c_type} c_{name} = {name} ? {word}_c(*{name}) : NULL;\n"),
            argument: format!("{name} ? &c_{name} : NULL"),
            ..Shape::default()
        },
        (Direction::Out, _) if word == "request" => Shape {
            declaration: format!("F_{c_type} *{name}"),
            before: format!("    REQUEST_ROOM({name});\n"),
            argument: format!("HANDLE_AT(MPI_{c_type}, {name})"),
            success: format!("        REQUEST_DONE({name});\n"),
            ..Shape::default()
        },
        (Direction::InOut, _) if word == "request" => Shape {
            declaration: format!("F_{c_type} *{name}"),
            before: format!("    HANDLE_ROOM(MPI_{c_type}, {name});\n    HANDLE_START({word}, {name});\n"),
            argument: format!("HANDLE_AT(MPI_{c_type}, {name})"),
            after: format!("    REQUEST_CHANGED({name});\n"),
            usual: {
                let usual = Shape {
                    before: format!("    REQUEST_START({name});\n"),
                    argument: format!("HANDLE_AT(MPI_{c_type}, {name})"),
                    after: format!("    REQUEST_CHANGED({name});\n"),
                    ..Shape::default()
                };
                Some((Test::Holds(format!("{name} && request_is_made(*{name})")), Box::new(usual)))
            },
            ..Shape::default()
        },
        (Direction::Out, _) => Shape {
            declaration: format!("F_{c_type} *{name}"),
            before: format!("    HANDLE_ROOM(MPI_{c_type}, {name});\n"),
            argument: format!("HANDLE_AT(MPI_{c_type}, {name})"),
            success: format!("        HANDLE_DONE({word}, {name});\n"),
            ..Shape::default()
        },
        (Direction::InOut, _) => Shape {
            declaration: format!("F_{c_type} *{name}"),
            before: format!("    HANDLE_ROOM(MPI_{c_type}, {name});\n    HANDLE_START({word}, {name});\n"),
            argument: format!("HANDLE_AT(MPI_{c_type}, {name})"),
            after: format!("    HANDLE_DONE({word}, {name});\n"),
            ..Shape::default()
        },
    }
}

/// The same shapes, where requests are passed as they are, and ignored statuses are not passed.
fn short_requests(parameters: &[&Parameter], shapes: &[Shape]) -> Vec<Shape> {
    let mut passed = as_they_are("REQUEST", |name| name.to_owned(), parameters, shapes);
    for shape in &mut passed {
        if let Some((Test::Ignored(_), usual)) = &mut shape.usual {
            **usual = Shape::default();
        }
    }
    passed
}

/// The same shapes, where a status is passed as it is.
fn short_statuses(parameters: &[&Parameter], shapes: &[Shape]) -> Vec<Shape> {
    as_they_are("STATUS", |name| format!("is_ignored({name}) ? NULL : {name}"), parameters, shapes)
}

/// The same shapes, where `argument` passes parameters of one kind without a conversion.
fn as_they_are(
    kind: &str,
    argument: impl Fn(&str) -> String,
    parameters: &[&Parameter],
    shapes: &[Shape],
) -> Vec<Shape> {
    let passed = |(parameter, shape): (&&Parameter, &Shape)| match parameter.kind == kind {
        true => {
            Shape { declaration: shape.declaration.clone(), argument: argument(&parameter.name), ..Shape::default() }
        }
        false => shape.clone(),
    };
    parameters.iter().zip(shapes).map(passed).collect()
}

/// The same shapes, where a status is not ignored, and so source and tag are often wildcards. Nothing: the
/// function has no status.
fn with_status(shapes: &[Shape]) -> Option<Vec<Shape>> {
    let is_handle = |(test, _): &(Test, Box<Shape>)| matches!(test, Test::Holds(_));
    let given = |shape: &Shape| Shape { usual: shape.usual.clone().filter(is_handle), ..shape.clone() };
    let has_status = shapes.iter().any(|shape| matches!(shape.usual, Some((Test::Ignored(_), _))));
    has_status.then(|| shapes.iter().map(given).collect())
}

fn status(parameter: &Parameter) -> Result<Shape> {
    let name = &parameter.name;
    ensure!(parameter.lengths.is_empty(), "arrays of statuses have no rule");
    let constness = if parameter.constant { "const " } else { "" };
    let declaration = format!("{constness}F_Status *{name}");
    Ok(match parameter.direction {
        Direction::Out => Shape {
            declaration,
            before: format!("    STATUS_ROOM({name});\n"),
            argument: format!("STATUS_AT({name})"),
            after: format!("    STATUS_DONE({name});\n"),
            usual: {
                let usual = Shape { argument: "MPI_STATUS_IGNORE".to_owned(), ..Shape::default() };
                Some((Test::Ignored(format!("is_ignored({name})")), Box::new(usual)))
            },
            ..Shape::default()
        },
        direction => Shape {
            declaration,
            before: format!("    MPI_Status c_{name};\n"),
            argument: format!("status_c({name}, &c_{name})"),
            success: match direction {
                Direction::In => String::new(),
                _ => format!(
                    "        status_f(&c_{name}, {name});\n        {name}->MPI_ERROR = error_f(c_{name}.MPI_ERROR);\n"
                ),
            },
            ..Shape::default()
        },
    })
}

/// An array that goes in as a copy of converted elements, in a room that the function has.
fn copied(name: &str, declaration: String, c_type: &str, convert: &str, number: &str, earlier: &[Shape]) -> Shape {
    let close: String = earlier
        .iter()
        .map(|shape| shape.after.replace("    ", "        "))
        .filter(|text| text.contains("room_close"))
        .collect();
    Shape {
        declaration,
        before: format!(
            "    struct room {name}_room;\n    MPI_Count {name}_count = elements({name}, {number});\n    {c_type} *c_{name} = \
             room_open(&{name}_room, {name}_count, sizeof *c_{name});\n    if (!c_{name}) {{\n{close}        return \
             no_memory();\n    }}\n    for (MPI_Count i = 0; i < {name}_count; i++) {{\n        c_{name}[i] = \
             {convert}({name}[i]);\n    }}\n"
        ),
        argument: format!("{name} ? c_{name} : NULL"),
        after: format!("    room_close(&{name}_room);\n"),
        ..Shape::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expect: a tag is converted where MPI_ANY_TAG may be given, and nowhere else.
    #[test]
    fn tags_of_receives_are_converted() {
        let spec = Spec::read(&crate::generate::project_root().join("spec")).unwrap();
        let chapter = spec.chapters.iter().find(|chapter| chapter.module == "point_to_point").unwrap();
        for (name, converted) in
            [("MPI_Send", ""), ("MPI_Recv", "tag"), ("MPI_Sendrecv", "recvtag"), ("MPI_Iprobe", "tag")]
        {
            let procedure = spec.procedure(name).unwrap();
            let mut text = String::new();
            Function { spec: &spec, chapter, procedure, form: Form::Small }.write(&mut text).unwrap();
            let mut found: Vec<&str> =
                text.match_indices("tag_c(").map(|(at, _)| text[at + 6..].split(')').next().unwrap()).collect();
            // Functions that have a second body for unusual handles convert in both.
            found.dedup();
            assert_eq!(found.join(","), converted, "{name}");
        }
    }
}
