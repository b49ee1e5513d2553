//! Generates wrong calls from the standard's tables. Each parameter of each procedure in turn gets values
//! that are wrong for its kind, while the other arguments are right. `tests/c/misuse.c` makes the calls and
//! compares the error class.

use super::MARKER;
use super::spec::{Chapter, Direction, Form, Parameter, Procedure, Spec};
use anyhow::Result;

mod objects;

/// Chapters whose procedures are called; those of [`objects`] are called as well.
const CHAPTERS: &[&str] = &["point_to_point", "partitioned", "datatypes", "collectives"];

fn is_called(chapter: &Chapter) -> bool {
    let module = chapter.module.as_str();
    CHAPTERS.contains(&module) || objects::CHAPTERS.contains(&module)
}

/// The libraries that find the error: all, or only a careful one, while others may crash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Everywhere,
    Here,
}

struct Wrong {
    class: &'static str,
    value: String,
    found: Found,
}

fn wrong(class: &'static str, value: &str) -> Wrong {
    Wrong { class, value: value.to_owned(), found: Found::Everywhere }
}

fn wrong_here(class: &'static str, value: &str) -> Wrong {
    Wrong { found: Found::Here, ..wrong(class, value) }
}

/// The header with the calls, a function for each chapter.
pub(super) fn calls(spec: &Spec) -> Result<String> {
    let mut out = format!("/* {MARKER} from `spec/`; do not edit.\n *\n * Wrong calls, by chapter: see misuse.c. */\n");
    for chapter in spec.chapters.iter().filter(|chapter| is_called(chapter)) {
        out.push_str(&format!("\n/* MPI-5.0 chapter {}: {}. */\n", chapter.number, chapter.title));
        out.push_str(&format!("static void misuse_{}(void)\n{{\n", chapter.module));
        let is_wanted = |p: &&Procedure| !p.callback && p.returns.is_none() && objects::is_called(p);
        for procedure in chapter.procedures.iter().filter(is_wanted) {
            // Where no type depends on the form, other libraries have no large-count form.
            let has_large = procedure.parameters.iter().any(|p| p.is_poly() || p.large_only);
            for &form in procedure.forms().iter().filter(|form| has_large || **form == Form::Small) {
                out.push_str(&calls_of(spec, procedure, form));
            }
        }
        out.push_str("}\n");
    }
    Ok(out)
}

fn calls_of(spec: &Spec, procedure: &Procedure, form: Form) -> String {
    let parameters: Vec<&Parameter> = procedure.parameters.iter().filter(|p| p.in_form(form)).collect();
    let values: Vec<Option<String>> = parameters.iter().map(|p| right(spec, procedure, p, form)).collect();
    let mut out = String::new();
    for (at, parameter) in parameters.iter().enumerate() {
        // The other arguments must be right, or the call might find another error first.
        if values.iter().enumerate().any(|(other, value)| other != at && value.is_none()) {
            continue;
        }
        // Other libraries treat wrong windows, and wrong operations on windows, too differently.
        let is_asked_here = objects::is_of_windows(procedure);
        for wrong in wrongs(procedure, parameter, form) {
            let arguments: Vec<&str> = (0..parameters.len())
                .map(|i| if i == at { wrong.value.as_str() } else { values[i].as_deref().unwrap_or_default() })
                .collect();
            let judge = if is_asked_here || wrong.found == Found::Here { "REFUSED_HERE" } else { "REFUSED" };
            let call = format!("{}({})", procedure.symbol(form), arguments.join(", "));
            out.push_str(&format!("    {judge}({}, {call});\n", wrong.class));
        }
    }
    out
}

/// A right value for a parameter, in a communicator of one process; `None` where the call takes more than a
/// value.
fn right(spec: &Spec, procedure: &Procedure, parameter: &Parameter, form: Form) -> Option<String> {
    let is_large = form == Form::Large;
    let array = |small: &str, large: &str| Some(if is_large { large } else { small }.to_owned());
    if !parameter.lengths.is_empty() {
        return match (parameter.kind.as_str(), parameter.direction) {
            ("POLYXFER_NUM_ELEM_NNI", Direction::In) => array("ones", "ones_c"),
            ("POLYDTYPE_NUM_ELEM_NNI" | "POLYDTYPE_NUM_ELEM_PI", Direction::In) => array("ones", "ones_c"),
            ("POLYDISPLACEMENT", Direction::In) => array("zeros", "zeros_a"),
            ("POLYDISPLACEMENT_COUNT", Direction::In) => array("zeros", "zeros_c"),
            ("POLYDISPLACEMENT_AINT_COUNT", Direction::In) => array("zeros_a", "zeros_c"),
            ("DATATYPE", Direction::In) => Some("doubles".to_owned()),
            _ => objects::right_array(parameter).map(str::to_owned),
        };
    }
    let value = match (parameter.kind.as_str(), parameter.direction) {
        ("BUFFER", _) if matches!(parameter.name.as_str(), "sendbuf" | "inbuf") => "out",
        ("BUFFER", _) => "in",
        ("COMMUNICATOR", Direction::In) => return objects::communicator(procedure, parameter).map(str::to_owned),
        // Compare-and-swap takes only integers, logicals and bytes (§12.3.4).
        ("DATATYPE", Direction::In) if procedure.name == "MPI_Compare_and_swap" => "MPI_INT64_T",
        ("DATATYPE", Direction::In) => "MPI_DOUBLE",
        ("DATATYPE", Direction::Out) => "&new_type",
        ("RANK" | "TAG", Direction::In) => "0",
        ("OPERATION", Direction::In) => "MPI_SUM",
        ("INFO", Direction::In) if is_about_info(procedure) => "info",
        ("INFO", Direction::In) => "MPI_INFO_NULL",
        ("REQUEST", Direction::Out) => "&request",
        ("MESSAGE", Direction::Out) => "&message",
        ("STATUS", Direction::Out) => "MPI_STATUS_IGNORE",
        ("LOGICAL", Direction::Out) => "&number",
        ("PARTITION", Direction::In) if parameter.name == "partitions" => "1",
        ("ORDER", Direction::In) => "MPI_ORDER_C",
        ("STRING", Direction::In) if procedure.name.contains("external") => "\"external32\"",
        ("STRING", Direction::In) if procedure.name.contains("pset") => "\"mpi://SELF\"",
        ("STRING", Direction::In) if parameter.name == "key" => "\"present\"",
        ("STRING", Direction::In) => "\"name\"",
        ("POLYDISPLACEMENT_COUNT" | "POLYLOCATION", Direction::InOut) if procedure.name.contains("ack") => {
            return Some(format!("&{}", number(spec.c_type(parameter, form))?));
        }
        (
            "POLYXFER_NUM_ELEM_NNI"
            | "XFER_NUM_ELEM_NNI"
            | "POLYDTYPE_NUM_ELEM_NNI"
            | "POLYDTYPE_NUM_ELEM"
            | "ARRAY_LENGTH_PI",
            Direction::In,
        ) => "1",
        (
            "POLYNUM_BYTES_NNI" | "POLYDTYPE_PACK_SIZE" | "POLYDTYPE_STRIDE_BYTES" | "POLYDISPLACEMENT_AINT_COUNT",
            Direction::In,
        ) => "8",
        (
            "POLYXFER_NUM_ELEM"
            | "POLYNUM_BYTES_NNI"
            | "POLYDTYPE_PACK_SIZE"
            | "POLYDISPLACEMENT_AINT_COUNT"
            | "POLYRMA_DISPLACEMENT",
            Direction::Out,
        ) => {
            return Some(format!("&{}", number(spec.c_type(parameter, form))?));
        }
        _ => return objects::right(procedure, parameter).map(str::to_owned),
    };
    Some(value.to_owned())
}

/// Returns whether a procedure needs an info object; other procedures accept a null handle.
fn is_about_info(procedure: &Procedure) -> bool {
    procedure.name.starts_with("MPI_Info_")
}

fn is_large(form: Form) -> bool {
    form == Form::Large
}

/// The variable of the test program that takes an output number of a C type.
fn number(c_type: &str) -> Option<&'static str> {
    match c_type {
        "int" => Some("number"),
        "MPI_Aint" => Some("address"),
        "MPI_Count" => Some("wide"),
        _ => None,
    }
}

/// The wrong values for a parameter, with the class of each error (MPI-5.0 §9.4).
fn wrongs(procedure: &Procedure, parameter: &Parameter, form: Form) -> Vec<Wrong> {
    let has = |name: &str| procedure.parameters.iter().any(|p| p.name == name);
    let is_one_sided = has("target_rank");
    let is_communication = has("comm") || is_one_sided || procedure.name == "MPI_Reduce_local";
    let kind = parameter.kind.as_str();
    if !parameter.lengths.is_empty() {
        return wrong_arrays(parameter, form);
    }
    let of_objects = objects::wrongs(procedure, parameter);
    if !of_objects.is_empty() {
        return of_objects;
    }
    match (kind, parameter.direction) {
        // A window may expose memory at any address but null (§12.2.1); no list tells whether memory is
        // attached.
        ("BUFFER", _) if procedure.name == "MPI_Win_create" => vec![wrong_here("MPI_ERR_BASE", "NULL")],
        ("BUFFER", _) if procedure.name == "MPI_Win_attach" => vec![wrong_here("MPI_ERR_BASE", "NULL")],
        ("BUFFER", _) if procedure.name == "MPI_Win_detach" => vec![wrong_here("MPI_ERR_RMA_ATTACH", "in")],
        // A program may ask for any address, and may free null memory.
        ("BUFFER", _) if procedure.name == "MPI_Get_address" => Vec::new(),
        ("BUFFER", _) if procedure.name == "MPI_Free_mem" => {
            vec![wrong_here("MPI_ERR_BASE", "(void *)0x1234"), wrong_here("MPI_ERR_BASE", "in")]
        }
        ("RANK" | "TAG", Direction::In) if procedure.name.starts_with("MPI_Status_set") => Vec::new(),
        // All other buffers are the program's data.
        ("BUFFER", _) => wrong_buffers(procedure, parameter),
        ("COMMUNICATOR", Direction::In) => {
            let mut wrongs = vec![wrong_here("MPI_ERR_COMM", "freed_comm")];
            // The null handles have names too (§7.8).
            if !procedure.name.ends_with("_get_name") {
                wrongs.insert(0, wrong("MPI_ERR_COMM", "MPI_COMM_NULL"));
            }
            if !["comm", "intercomm"].contains(&objects::communicator(procedure, parameter).unwrap_or("comm")) {
                wrongs.push(wrong_here("MPI_ERR_TOPOLOGY", "comm"));
            }
            wrongs
        }
        ("DATATYPE", Direction::In) => {
            let mut wrongs = vec![wrong_here("MPI_ERR_TYPE", "freed_type")];
            if !procedure.name.ends_with("_get_name") {
                wrongs.insert(0, wrong("MPI_ERR_TYPE", "MPI_DATATYPE_NULL"));
            }
            if procedure.name == "MPI_Compare_and_swap" {
                wrongs.push(wrong("MPI_ERR_TYPE", "MPI_DOUBLE"));
            }
            let asks_size = procedure.name.ends_with("_size");
            if is_communication && !asks_size {
                wrongs.push(wrong("MPI_ERR_TYPE", "uncommitted"));
            }
            wrongs
        }
        ("RANK", Direction::In) if parameter.name == "root" => {
            vec![wrong("MPI_ERR_ROOT", "1"), wrong("MPI_ERR_ROOT", "-9")]
        }
        ("RANK", Direction::In) => {
            let mut wrongs =
                vec![wrong("MPI_ERR_RANK", "1"), wrong("MPI_ERR_RANK", "-9"), wrong("MPI_ERR_RANK", "INT_MAX")];
            if parameter.name == "dest" || has("partitions") {
                wrongs.push(wrong("MPI_ERR_RANK", "MPI_ANY_SOURCE"));
            }
            wrongs
        }
        ("TAG", Direction::In) => {
            let mut wrongs = vec![wrong("MPI_ERR_TAG", "-5")];
            if parameter.name == "sendtag" || (has("dest") && parameter.name == "tag") || has("partitions") {
                wrongs.push(wrong("MPI_ERR_TAG", "MPI_ANY_TAG"));
            }
            wrongs
        }
        ("OPERATION", Direction::In) => {
            let mut wrongs = vec![wrong("MPI_ERR_OP", "MPI_OP_NULL")];
            if is_one_sided {
                // The wrong operations: bits of a double, and a function of the program's own (§12.3.4).
                wrongs.push(wrong("MPI_ERR_OP", "MPI_BAND"));
                wrongs.push(wrong("MPI_ERR_OP", "own_op"));
            } else if is_communication {
                wrongs.push(wrong("MPI_ERR_OP", "MPI_BAND"));
                wrongs.push(wrong_here("MPI_ERR_OP", "MPI_REPLACE"));
                wrongs.push(wrong_here("MPI_ERR_OP", "MPI_NO_OP"));
            }
            wrongs
        }
        ("INFO", Direction::In) => {
            let mut wrongs = vec![wrong_here("MPI_ERR_INFO", "freed_info")];
            if is_about_info(procedure) {
                wrongs.push(wrong_here("MPI_ERR_INFO", "MPI_INFO_NULL"));
            }
            wrongs
        }
        ("POLYXFER_NUM_ELEM_NNI" | "XFER_NUM_ELEM_NNI", Direction::In) => {
            let mut wrongs = vec![wrong("MPI_ERR_COUNT", "-1")];
            if form == Form::Large || kind == "XFER_NUM_ELEM_NNI" {
                wrongs.push(wrong_here("MPI_ERR_COUNT", "wraps"));
                wrongs.push(wrong_here("MPI_ERR_COUNT", "INT64_MAX"));
            }
            wrongs
        }
        ("POLYDTYPE_NUM_ELEM_NNI" | "POLYDTYPE_NUM_ELEM", Direction::In) if parameter.name.contains("count") => {
            let mut wrongs = vec![wrong("MPI_ERR_COUNT", "-1")];
            wrongs.extend(is_large(form).then(|| wrong_here("MPI_ERR_COUNT", "INT64_MAX")));
            wrongs
        }
        // The size of a room may be any number, but not the size of memory that MPI uses, such as an attached
        // buffer.
        ("POLYNUM_BYTES_NNI", Direction::In) if procedure.name.contains("ttach") && is_large(form) => {
            vec![wrong("MPI_ERR_ARG", "-1"), wrong_here("MPI_ERR_ARG", "INT64_MAX")]
        }
        ("POLYNUM_BYTES_NNI" | "PARTITION", Direction::In) => vec![wrong("MPI_ERR_ARG", "-1")],
        ("POLYDISPLACEMENT_AINT_COUNT", Direction::In) => vec![wrong_here("MPI_ERR_ARG", "INT64_MAX")],
        ("ORDER", Direction::In) => vec![wrong("MPI_ERR_ARG", "-77")],
        ("STRING", Direction::In) => vec![wrong_here("MPI_ERR_ARG", "NULL"), wrong_here("MPI_ERR_ARG", "\"external\"")],
        ("DATATYPE", Direction::InOut) => vec![wrong("MPI_ERR_TYPE", "&null_type"), wrong("MPI_ERR_ARG", "NULL")],
        ("OPERATION", Direction::InOut) => vec![wrong("MPI_ERR_OP", "&null_op"), wrong("MPI_ERR_ARG", "NULL")],
        ("MESSAGE", Direction::InOut) => vec![wrong("MPI_ERR_REQUEST", "&null_message"), wrong("MPI_ERR_ARG", "NULL")],
        ("STATUS", _) => Vec::new(),
        (_, Direction::Out | Direction::InOut) => vec![wrong("MPI_ERR_ARG", "NULL")],
        _ => Vec::new(),
    }
}

/// The wrong buffers: no buffer at all, or MPI_IN_PLACE where it is not allowed (MPI-5.0 §6.1).
fn wrong_buffers(procedure: &Procedure, parameter: &Parameter) -> Vec<Wrong> {
    let is_rooted = procedure.parameters.iter().any(|p| p.name == "root");
    let has_two = procedure.parameters.iter().filter(|p| p.kind == "BUFFER").count() == 2;
    let exchanges = procedure.parameters.iter().any(|p| p.name == "dest" || p.name == "target_rank")
        || procedure.name.contains("ack")
        || procedure.name.contains("local");
    let scatters = procedure.name.to_lowercase().contains("scatter") && is_rooted;
    let may_be_in_place = has_two && !exchanges && parameter.name == if scatters { "recvbuf" } else { "sendbuf" };
    let mut wrongs = vec![wrong("MPI_ERR_BUFFER", "NULL")];
    if !may_be_in_place {
        wrongs.push(wrong_here("MPI_ERR_BUFFER", "MPI_IN_PLACE"));
    }
    // The two buffers of a collective must differ: this value is the other buffer.
    if has_two && !exchanges {
        wrongs.push(wrong("MPI_ERR_BUFFER", if parameter.name == "sendbuf" { "in" } else { "out" }));
    }
    wrongs
}

fn wrong_arrays(parameter: &Parameter, form: Form) -> Vec<Wrong> {
    let negative = if form == Form::Large { "negative_c" } else { "negative" };
    match parameter.kind.as_str() {
        "POLYDTYPE_NUM_ELEM_NNI" | "POLYDTYPE_NUM_ELEM_PI" => {
            let mut wrongs = vec![wrong_here("MPI_ERR_ARG", "NULL")];
            wrongs.extend(is_large(form).then(|| wrong_here("MPI_ERR_ARG", "far_c")));
            wrongs
        }
        "POLYXFER_NUM_ELEM_NNI" => {
            let mut wrongs = vec![wrong_here("MPI_ERR_ARG", "NULL"), wrong("MPI_ERR_COUNT", negative)];
            if form == Form::Large {
                wrongs.push(wrong_here("MPI_ERR_COUNT", "wrapping_c"));
            }
            wrongs
        }
        "POLYDISPLACEMENT" | "POLYDISPLACEMENT_COUNT" | "POLYDISPLACEMENT_AINT_COUNT"
            if parameter.direction == Direction::In =>
        {
            let mut wrongs = vec![wrong_here("MPI_ERR_ARG", "NULL")];
            match parameter.kind.as_str() {
                "POLYDISPLACEMENT_AINT_COUNT" if !is_large(form) => wrongs.push(wrong_here("MPI_ERR_ARG", "far_a")),
                "POLYDISPLACEMENT" if is_large(form) => wrongs.push(wrong_here("MPI_ERR_ARG", "far_a")),
                _ if is_large(form) => wrongs.push(wrong_here("MPI_ERR_ARG", "far_c")),
                _ => {}
            }
            wrongs
        }
        "DATATYPE" => vec![wrong_here("MPI_ERR_ARG", "NULL"), wrong("MPI_ERR_TYPE", "null_types")],
        _ => objects::wrong_arrays(parameter),
    }
}
