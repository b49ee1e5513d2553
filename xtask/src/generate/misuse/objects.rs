//! Generates wrong calls of the procedures that manage objects: groups, communicators and their attributes,
//! windows, topologies, error handlers, info, sessions, and the user's generalized requests. Other libraries
//! treat these mistakes more differently than the standard allows, so only a careful library is tested with
//! them.

use super::super::spec::{Direction, Parameter, Procedure};
use super::{Wrong, wrong_here};

/// Chapters whose procedures are called.
pub(super) const CHAPTERS: &[&str] = &[
    "communicators",
    "topologies",
    "environment",
    "info",
    "processes",
    "one_sided",
    "external",
    "deprecated",
    "fortran",
];

/// The procedures that are not called. Some end the process, some call the user's own function for any
/// argument, and those of jobs that meet are not implemented.
const NOT_CALLED: &[&str] = &[
    "MPI_Abort",
    "MPI_Close_port",
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_join",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Lookup_name",
    "MPI_Open_port",
    "MPI_Publish_name",
    "MPI_Unpublish_name",
];

/// Returns whether wrong calls of a procedure are made: not where it takes a file, of which
/// `tests/c/files_errors.c` makes them.
pub(super) fn is_called(procedure: &Procedure) -> bool {
    let takes_file = procedure.parameters.iter().any(|p| p.kind == "FILE");
    !takes_file && !NOT_CALLED.contains(&procedure.name.as_str())
}

/// Returns whether a procedure works on a window, or makes one.
pub(super) fn is_of_windows(procedure: &Procedure) -> bool {
    procedure.parameters.iter().any(|p| p.kind == "WINDOW")
}

/// The window with which a procedure can work: one in an epoch, one in no epoch, or one without memory of its
/// own.
fn window(procedure: &Procedure) -> &'static str {
    let accesses = procedure.parameters.iter().any(|p| p.name == "target_rank");
    match procedure.name.as_str() {
        "MPI_Win_attach" | "MPI_Win_detach" => "dynamic_win",
        "MPI_Win_flush" | "MPI_Win_flush_local" | "MPI_Win_unlock" => "locked_win",
        _ if accesses => "locked_win",
        _ => "win",
    }
}

/// The communicator with which a procedure can work: most take any; procedures of a topology need one with
/// that topology.
pub(super) fn communicator(procedure: &Procedure, parameter: &Parameter) -> Option<&'static str> {
    let name = procedure.name.as_str();
    let is_neighbourly = name.contains("eighbor_") || name.starts_with("MPI_Cart") || name.starts_with("MPI_Graph");
    Some(match parameter.name.as_str() {
        // An intercommunicator takes more than one process.
        "intercomm" => return None,
        "comm" if name.starts_with("MPI_Comm_remote") => return None,
        // Two groups without a common process need two processes.
        "local_comm" | "peer_comm" => "comm",
        "comm" if name.ends_with("_map") || name.ends_with("_create") => "comm",
        "comm" if name.starts_with("MPI_Graph") => "graph",
        "comm" if name.starts_with("MPI_Dist_graph_neighbors") => "dist_graph",
        "comm" if is_neighbourly => "cart",
        _ => "comm",
    })
}

/// A right value for a parameter that is no array; `None` where the call takes more than a value.
pub(super) fn right(procedure: &Procedure, parameter: &Parameter) -> Option<&'static str> {
    let name = procedure.name.as_str();
    Some(match (parameter.kind.as_str(), parameter.direction) {
        ("WINDOW", Direction::In) => window(procedure),
        ("WINDOW", Direction::Out) => "&new_win",
        ("WINDOW_SIZE" | "WIN_ATTACH_SIZE", Direction::In) => "8",
        ("WINDOW_SIZE", Direction::Out) => "&address",
        ("POLYRMA_DISPLACEMENT", Direction::In) => "1",
        ("RMA_DISPLACEMENT_NNI" | "RANK_NNI" | "ASSERT", Direction::In) => "0",
        ("LOCK_TYPE", Direction::In) => "MPI_LOCK_SHARED",
        ("GROUP", Direction::In) => "group",
        ("GROUP", Direction::Out) => "&new_group",
        ("COMMUNICATOR", Direction::Out) => "&new_comm",
        ("INFO", Direction::Out) => "&new_info",
        ("ERRHANDLER", Direction::In) => "MPI_ERRORS_RETURN",
        ("ERRHANDLER", Direction::Out) => "&new_handler",
        ("SESSION", Direction::In) => "session",
        ("SESSION", Direction::Out) => "&new_session",
        ("KEYVAL", Direction::In) if name.starts_with("MPI_Type") => "type_keyval",
        ("KEYVAL", Direction::In) if name.starts_with("MPI_Win") => "win_keyval",
        ("KEYVAL", Direction::In) => "keyval",
        ("ATTRIBUTE_VAL" | "ATTRIBUTE_VAL_10" | "C_BUFFER", Direction::Out) => "&found",
        ("ATTRIBUTE_VAL" | "ATTRIBUTE_VAL_10" | "EXTRA_STATE" | "EXTRA_STATE2", Direction::In) => "NULL",
        ("STRING", Direction::Out) => "text",
        ("STRING_LENGTH" | "INFO_VALUE_LENGTH", Direction::InOut) => "&room",
        ("INFO_VALUE_LENGTH", Direction::In) => "9",
        ("FUNCTION", Direction::In) => return function(procedure, parameter),
        ("STATUS", Direction::InOut) => "&status",
        ("REQUEST", Direction::In) => return None,
        ("SPLIT_TYPE", Direction::In) => "MPI_COMM_TYPE_SHARED",
        ("ERROR_CLASS" | "ERROR_CODE", Direction::In) => "MPI_ERR_OTHER",
        ("TYPECLASS", Direction::In) => "MPI_TYPECLASS_REAL",
        ("TYPECLASS_SIZE", Direction::In) => "8",
        ("MATH", Direction::In) => "4",
        (
            "ARRAY_LENGTH" | "ARRAY_LENGTH_NNI" | "NUM_DIMS" | "DEGREE" | "COMM_SIZE" | "ALLOC_MEM_NUM_BYTES",
            Direction::In,
        ) => "1",
        ("COLOR" | "KEY" | "LOGICAL" | "KEY_INDEX" | "INDEX" | "DIMENSION", Direction::In) => "0",
        (
            "ARRAY_LENGTH" | "ARRAY_LENGTH_NNI" | "NUM_DIMS" | "DEGREE" | "COMM_SIZE" | "RANK" | "TAG" | "INDEX"
            | "KEY_INDEX" | "KEYVAL" | "COMM_COMPARISON" | "GROUP_COMPARISON" | "STRING_LENGTH" | "INFO_VALUE_LENGTH"
            | "TOPOLOGY_TYPE" | "VERSION" | "ERROR_CLASS" | "ERROR_CODE" | "THREAD_LEVEL",
            Direction::Out,
        ) => "&number",
        ("NUM_BYTES" | "XFER_NUM_ELEM", Direction::Out) => "&wide",
        ("XFER_NUM_ELEM", Direction::In) => "1",
        _ => return None,
    })
}

/// A callback that a procedure may be given.
fn function(procedure: &Procedure, parameter: &Parameter) -> Option<&'static str> {
    let is_copy = parameter.name.contains("copy");
    Some(match procedure.name.as_str() {
        "MPI_Comm_create_keyval" if is_copy => "MPI_COMM_NULL_COPY_FN",
        "MPI_Comm_create_keyval" => "MPI_COMM_NULL_DELETE_FN",
        "MPI_Type_create_keyval" if is_copy => "MPI_TYPE_NULL_COPY_FN",
        "MPI_Type_create_keyval" => "MPI_TYPE_NULL_DELETE_FN",
        "MPI_Win_create_keyval" if is_copy => "MPI_WIN_NULL_COPY_FN",
        "MPI_Win_create_keyval" => "MPI_WIN_NULL_DELETE_FN",
        "MPI_Keyval_create" if is_copy => "MPI_NULL_COPY_FN",
        "MPI_Keyval_create" => "MPI_NULL_DELETE_FN",
        "MPI_Comm_create_errhandler" => "on_comm",
        "MPI_Win_create_errhandler" => "on_win",
        _ => return None,
    })
}

/// A right value for a parameter that is an array.
pub(super) fn right_array(parameter: &Parameter) -> Option<&'static str> {
    Some(match (parameter.kind.as_str(), parameter.direction) {
        ("RANK", Direction::In) if parameter.lengths.len() == 2 => "ranges",
        ("DIMENSION" | "INDEX" | "DEGREE" | "WEIGHT", Direction::In) => "ones",
        ("RANK" | "RANK_NNI" | "COORDINATE" | "LOGICAL", Direction::In) => "zeros",
        ("DIMENSION", Direction::InOut) => "dims",
        ("COORDINATE" | "DIMENSION" | "LOGICAL" | "RANK" | "RANK_NNI" | "WEIGHT" | "INDEX", Direction::Out) => {
            "numbers"
        }
        ("DISPLACEMENT", Direction::In) => "zeros_a",
        _ => return None,
    })
}

/// The wrong handles of a kind: the null handle, and the handle of a freed object.
fn no_object(class: &'static str, null: &'static str, freed: &'static str) -> Vec<Wrong> {
    vec![wrong_here(class, null), wrong_here(class, freed)]
}

/// The wrong values for a handle that the call changes: the null handle, and no place at all.
fn in_place_of_handle(class: &'static str, null: &'static str) -> Vec<Wrong> {
    vec![wrong_here(class, null), wrong_here("MPI_ERR_ARG", "NULL")]
}

/// The wrong values for a parameter that is no array.
pub(super) fn wrongs(procedure: &Procedure, parameter: &Parameter) -> Vec<Wrong> {
    let name = procedure.name.as_str();
    let one = |class, value| vec![wrong_here(class, value)];
    match (parameter.kind.as_str(), parameter.direction) {
        // The null handles have names too (§7.8).
        ("WINDOW", Direction::In) if name.ends_with("_get_name") => one("MPI_ERR_WIN", "freed_win"),
        ("WINDOW", Direction::In) => no_object("MPI_ERR_WIN", "MPI_WIN_NULL", "freed_win"),
        ("WINDOW", Direction::InOut) => in_place_of_handle("MPI_ERR_WIN", "&null_win"),
        ("WINDOW_SIZE" | "WIN_ATTACH_SIZE", Direction::In) => {
            vec![wrong_here("MPI_ERR_SIZE", "-1"), wrong_here("MPI_ERR_SIZE", "INT64_MAX")]
        }
        ("ALLOC_MEM_NUM_BYTES", Direction::In) => {
            vec![wrong_here("MPI_ERR_ARG", "-1"), wrong_here("MPI_ERR_NO_MEM", "INT64_MAX")]
        }
        ("STRING_LENGTH" | "INFO_VALUE_LENGTH", Direction::InOut) => {
            vec![wrong_here("MPI_ERR_ARG", "NULL"), wrong_here("MPI_ERR_ARG", "&no_room")]
        }
        ("POLYRMA_DISPLACEMENT", Direction::In) => {
            vec![wrong_here("MPI_ERR_DISP", "0"), wrong_here("MPI_ERR_DISP", "-1")]
        }
        ("RMA_DISPLACEMENT_NNI", Direction::In) => vec![
            wrong_here("MPI_ERR_DISP", "-1"),
            wrong_here("MPI_ERR_RMA_RANGE", "100000"),
            wrong_here("MPI_ERR_RMA_RANGE", "INT64_MAX"),
        ],
        ("RANK_NNI", Direction::In) => vec![
            wrong_here("MPI_ERR_RANK", "1"),
            wrong_here("MPI_ERR_RANK", "-9"),
            wrong_here("MPI_ERR_RANK", "INT_MAX"),
        ],
        ("ASSERT", Direction::In) => {
            vec![wrong_here("MPI_ERR_ASSERT", "-1"), wrong_here("MPI_ERR_ASSERT", "1 << 30")]
        }
        ("LOCK_TYPE", Direction::In) => one("MPI_ERR_LOCKTYPE", "-77"),
        ("GROUP", Direction::In) => no_object("MPI_ERR_GROUP", "MPI_GROUP_NULL", "freed_group"),
        ("GROUP", Direction::InOut) => in_place_of_handle("MPI_ERR_GROUP", "&null_group"),
        ("COMMUNICATOR", Direction::InOut) => in_place_of_handle("MPI_ERR_COMM", "&null_comm"),
        ("INFO", Direction::InOut) => in_place_of_handle("MPI_ERR_INFO", "&null_info"),
        ("ERRHANDLER", Direction::In) => no_object("MPI_ERR_ERRHANDLER", "MPI_ERRHANDLER_NULL", "freed_handler"),
        ("ERRHANDLER", Direction::InOut) => in_place_of_handle("MPI_ERR_ERRHANDLER", "&null_handler"),
        ("SESSION", Direction::In) => no_object("MPI_ERR_SESSION", "MPI_SESSION_NULL", "freed_session"),
        ("SESSION", Direction::InOut) => in_place_of_handle("MPI_ERR_SESSION", "&null_session"),
        ("REQUEST", Direction::In) if name.contains("complete") => one("MPI_ERR_REQUEST", "MPI_REQUEST_NULL"),
        ("KEYVAL", Direction::In) => no_object("MPI_ERR_KEYVAL", "MPI_KEYVAL_INVALID", "freed_keyval"),
        ("KEYVAL", Direction::InOut) => in_place_of_handle("MPI_ERR_KEYVAL", "&null_keyval"),
        ("COLOR", Direction::In) => one("MPI_ERR_ARG", "-5"),
        ("SPLIT_TYPE" | "TYPECLASS", Direction::In) => one("MPI_ERR_ARG", "-77"),
        ("STATUS", Direction::InOut) => one("MPI_ERR_ARG", "NULL"),
        ("NUM_DIMS", Direction::In) => one("MPI_ERR_DIMS", "-1"),
        ("COMM_SIZE", Direction::In) if name == "MPI_Dims_create" => one("MPI_ERR_DIMS", "-1"),
        (
            "ARRAY_LENGTH" | "ARRAY_LENGTH_NNI" | "COMM_SIZE" | "KEY_INDEX" | "DEGREE" | "TYPECLASS_SIZE"
            | "INFO_VALUE_LENGTH" | "INDEX",
            Direction::In,
        ) => one("MPI_ERR_ARG", "-1"),
        ("ERROR_CODE" | "ERROR_CLASS", Direction::In) if name.contains("_error_") || name.contains("Error_") => {
            vec![wrong_here("MPI_ERR_ARG", "-1"), wrong_here("MPI_ERR_ARG", "INT_MAX")]
        }
        ("MATH", Direction::In) => vec![wrong_here("MPI_ERR_ARG", "99999"), wrong_here("MPI_ERR_ARG", "-3")],
        ("FUNCTION", Direction::In) if name.ends_with("create_errhandler") => one("MPI_ERR_ARG", "NULL"),
        ("STRING", Direction::In) if name.contains("external") => Vec::new(),
        ("STRING", Direction::In) if parameter.name == "key" => {
            vec![wrong_here("MPI_ERR_ARG", "NULL"), wrong_here("MPI_ERR_INFO_KEY", "long_text")]
        }
        ("STRING", Direction::In) if parameter.name == "value" => {
            vec![wrong_here("MPI_ERR_ARG", "NULL"), wrong_here("MPI_ERR_INFO_VALUE", "long_text")]
        }
        ("STRING", Direction::In) => one("MPI_ERR_ARG", "NULL"),
        _ => Vec::new(),
    }
}

/// The wrong values for a parameter that is an array.
pub(super) fn wrong_arrays(parameter: &Parameter) -> Vec<Wrong> {
    let missing = || wrong_here("MPI_ERR_ARG", "NULL");
    match (parameter.kind.as_str(), parameter.direction) {
        // Weights may be left out by a constant of their own, or be empty.
        ("WEIGHT", _) => Vec::new(),
        ("RANK", Direction::In) if parameter.lengths.len() == 2 => {
            vec![missing(), wrong_here("MPI_ERR_RANK", "far_ranges")]
        }
        // Edges are nodes of a graph, which need not be ranks of the communicator.
        ("RANK", Direction::In) if parameter.name == "edges" => vec![missing(), wrong_here("MPI_ERR_ARG", "far")],
        ("RANK" | "RANK_NNI", Direction::In) => vec![missing(), wrong_here("MPI_ERR_RANK", "far")],
        ("DIMENSION", Direction::In | Direction::InOut) => vec![missing(), wrong_here("MPI_ERR_DIMS", "negative")],
        ("DEGREE", Direction::In) => vec![missing(), wrong_here("MPI_ERR_ARG", "negative")],
        _ => vec![missing()],
    }
}
