//! The facts about procedures that the standard's text has and the published JSON files lack.

use anyhow::{Context, Result};

/// The chapter number under which types of callbacks are listed; the standard has no chapter of this number.
pub(super) const CALLBACKS: usize = 99;

/// The chapters of MPI-5.0: number, module of the generated code, title.
const CHAPTERS: &[(usize, &str, &str)] = &[
    (3, "point_to_point", "Point-to-Point Communication"),
    (4, "partitioned", "Partitioned Point-to-Point Communication"),
    (5, "datatypes", "Datatypes"),
    (6, "collectives", "Collective Communication"),
    (7, "communicators", "Groups, Contexts, Communicators, and Caching"),
    (8, "topologies", "Virtual Topologies for MPI Processes"),
    (9, "environment", "MPI Environmental Management"),
    (10, "info", "The Info Object"),
    (11, "processes", "Process Initialization, Creation, and Management"),
    (12, "one_sided", "One-Sided Communications"),
    (13, "external", "External Interfaces"),
    (14, "files", "I/O"),
    (15, "tools", "Tool Support"),
    (16, "deprecated", "Deprecated Interfaces"),
    (19, "fortran", "Language Bindings"),
    (20, "abi", "Application Binary Interface"),
    (CALLBACKS, "callbacks", "Types of callbacks"),
];

pub(super) fn chapter_title(number: usize) -> Result<(&'static str, &'static str)> {
    let found = CHAPTERS.iter().find(|chapter| chapter.0 == number);
    found.map(|&(_, module, title)| (module, title)).context("unknown chapter")
}

/// Returns whether a procedure needs MPI_Fint or a Fortran status: the C ABI has no such type (MPI-5.0 §20).
pub(super) fn outside_abi(name: &str) -> bool {
    ["_c2f", "_f2c", "_c2f08", "_f082c", "_f082f", "_f2f08"].iter().any(|end| name.ends_with(end))
}

/// Returns whether a procedure takes MPI_Count in the standard's data and yet has a large-count form in the
/// ABI's stubs. That is so for two procedures: both names exist.
pub(super) fn large_without_poly(name: &str) -> bool {
    matches!(name, "MPI_Psend_init" | "MPI_Precv_init")
}

/// The name without `_x`: the `_x` procedures are older names of large-count forms.
pub(super) fn same_as_large(name: &str) -> Option<&str> {
    name.strip_suffix("_x")
}

/// Returns whether a procedure may be called before initialisation and after finalisation (MPI-5.0 §11.4.1),
/// or touches no object at all.
pub(super) fn anytime(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "MPI_Initialized",
        "MPI_Finalized",
        "MPI_Get_version",
        "MPI_Get_library_version",
        "MPI_Init",
        "MPI_Init_thread",
        "MPI_Error_string",
        "MPI_Error_class",
        "MPI_Errhandler_free",
        "MPI_Session_init",
        "MPI_Session_create_errhandler",
        "MPI_Session_call_errhandler",
        "MPI_Aint_add",
        "MPI_Aint_diff",
        "MPI_Wtime",
        "MPI_Wtick",
        "MPI_Pcontrol",
    ];
    const PREFIXES: &[&str] = &["MPI_T_", "MPI_Info_", "MPI_Abi_", "MPI_Add_error_", "MPI_Remove_error_"];
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.ends_with("_toint")
        || name.ends_with("_fromint")
}

/// Returns whether a procedure is deprecated (MPI-5.0 §16).
pub(super) fn deprecated(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "MPI_Attr_delete",
        "MPI_Attr_get",
        "MPI_Attr_put",
        "MPI_Keyval_create",
        "MPI_Keyval_free",
        "MPI_Info_get",
        "MPI_Info_get_valuelen",
    ];
    NAMES.contains(&name) || name.ends_with("_x")
}

/// The function type of an MPI_T callback: the kinds of these callbacks do not name it.
pub(super) fn callback_of_kind(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "EVENT_CB_FUNCTION" => "MPI_T_event_cb_function",
        "EVENT_DROP_CB_FUNCTION" => "MPI_T_event_dropped_cb_function",
        "EVENT_FREE_CB_FUNCTION" => "MPI_T_event_free_cb_function",
        _ => return None,
    })
}

/// The chapter of a procedure; the first rule that fits decides.
pub(super) fn chapter(name: &str) -> Result<usize> {
    if deprecated(name) {
        return Ok(16);
    }
    let short = name.strip_prefix("MPI_").context("a name without MPI_")?;
    let exact = EXACT.iter().find(|(_, names)| names.split_whitespace().any(|n| n == short));
    if let Some(&(chapter, _)) = exact {
        return Ok(chapter);
    }
    let prefix = PREFIXES.iter().find(|(_, prefixes)| prefixes.split_whitespace().any(|p| short.starts_with(p)));
    prefix.map(|&(chapter, _)| chapter).with_context(|| format!("no chapter for {name}"))
}

const EXACT: &[(usize, &str)] = &[
    (
        3,
        "Bsend Bsend_init Buffer_attach Buffer_detach Buffer_flush Buffer_iflush Comm_attach_buffer Comm_detach_buffer \
         Comm_flush_buffer Comm_iflush_buffer Session_attach_buffer Session_detach_buffer Session_flush_buffer \
         Session_iflush_buffer Cancel Get_count Ibsend Improbe Imrecv Iprobe Irecv Irsend Isend Isendrecv \
         Isendrecv_replace Issend Mprobe Mrecv Probe Recv Recv_init Request_free Request_get_status \
         Request_get_status_all Request_get_status_any Request_get_status_some Rsend Rsend_init Send Send_init Sendrecv \
         Sendrecv_replace Ssend Ssend_init Start Startall Status_get_error Status_get_source Status_get_tag Test \
         Test_cancelled Testall Testany Testsome Wait Waitall Waitany Waitsome",
    ),
    (5, "Get_address Get_elements Aint_add Aint_diff"),
    (
        7,
        "Type_create_keyval Type_delete_attr Type_free_keyval Type_get_attr Type_set_attr Type_get_name Type_set_name \
         Win_create_keyval Win_delete_attr Win_free_keyval Win_get_attr Win_set_attr Win_get_name Win_set_name \
         Intercomm_create Intercomm_create_from_groups Intercomm_merge",
    ),
    (
        9,
        "Add_error_class Add_error_code Add_error_string Remove_error_class Remove_error_code Remove_error_string \
         Alloc_mem Free_mem Comm_call_errhandler Comm_create_errhandler Comm_get_errhandler Comm_set_errhandler \
         File_call_errhandler File_create_errhandler File_get_errhandler File_set_errhandler Win_call_errhandler \
         Win_create_errhandler Win_get_errhandler Win_set_errhandler Session_call_errhandler Session_create_errhandler \
         Session_get_errhandler Session_set_errhandler Errhandler_free Error_class Error_string Get_library_version \
         Get_processor_name Get_version Get_hw_resource_info Wtick Wtime",
    ),
    (
        11,
        "Abort Close_port Comm_accept Comm_connect Comm_disconnect Comm_get_parent Comm_join Comm_spawn \
         Comm_spawn_multiple Finalize Finalized Init Init_thread Initialized Is_thread_main Lookup_name Open_port \
         Publish_name Query_thread Unpublish_name Session_finalize Session_get_info Session_get_nth_pset \
         Session_get_num_psets Session_get_pset_info Session_init",
    ),
    (12, "Accumulate Compare_and_swap Fetch_and_op Get Get_accumulate Put Raccumulate Rget Rget_accumulate Rput"),
    (13, "Status_set_cancelled Status_set_elements Status_set_error Status_set_source Status_set_tag"),
    (15, "Pcontrol"),
    (19, "Type_create_f90_complex Type_create_f90_integer Type_create_f90_real Type_match_size"),
    (
        20,
        "Comm_fromint Comm_toint Errhandler_fromint Errhandler_toint File_fromint File_toint Group_fromint Group_toint \
         Info_fromint Info_toint Message_fromint Message_toint Op_fromint Op_toint Request_fromint Request_toint \
         Session_fromint Session_toint Type_fromint Type_toint Win_fromint Win_toint",
    ),
];

const PREFIXES: &[(usize, &str)] = &[
    (4, "Psend_ Precv_ Pready Parrived"),
    (5, "Type_ Pack Unpack"),
    (8, "Cart Graph Dist_graph Dims_ Topo_ Neighbor_ Ineighbor_"),
    (13, "Grequest_"),
    (15, "T_"),
    (
        6,
        "Allgather Allreduce Alltoall Barrier Bcast Exscan Gather Iallgather Iallreduce Ialltoall Ibarrier Ibcast Iexscan \
         Igather Ireduce Iscan Iscatter Op_ Reduce Scan Scatter",
    ),
    (7, "Comm_ Group_"),
    (10, "Info_"),
    (12, "Win_"),
    (14, "File_ Register_datarep"),
    (20, "Abi_"),
];

/// The order of the categories of constants in `spec/constants.txt` and in `mpi.h`.
pub(super) const CATEGORIES: &[&str] = &[
    "C_PREPROCESSOR_CONSTANTS_FORTRAN_PARAMETERS",
    "ERROR_CLASSES",
    "BUFFER_ADDR_CONSTANTS",
    "ASSORTED_CONSTANTS",
    "EMPTY_IGNORE_INPUT_CONSTANTS",
    "FORTRAN_STATUS_ARRAY_SIZE_AND_INDEX_C",
    "MAX_STR_SIZE_CONSTANTS",
    "RESERVED_COMMUNICATORS",
    "GROUP_HANDLES",
    "COLLECTIVE_OPS",
    "PREDEFINED_DATATYPES",
    "REDUCTION_FUNC_DATATYPES_C",
    "REDUCTION_FUNC_DATATYPES_FORTRAN",
    "OPT_DATATYPES_FORTRAN",
    "OTHER_HANDLES",
    "MSG_HANDLES",
    "ERROR_SPECIFIERS",
    "ENV_INQ_INFO_KEY",
    "THREADS_CONSTANTS",
    "ENV_INQ_AND_ATTR_KEYS",
    "COMMUNICATOR_GROUP_COMP_RESULTS",
    "COMMUNICATOR_SPLIT_TYPE",
    "TOPOLOGIES",
    "DATATYPE_DECODING_CONSTANTS",
    "F90_DATATYPE_MATCHING_CONSTANTS",
    "FILE_OPERATIONS_CONSTANTS",
    "MODE_CONSTANTS",
    "FILE_POS_CONSTANTS",
    "FILE_OP_CONSTANTS",
    "WINDOW_LOCK_TYPE_CONSTANTS",
    "WINDOW_CREATE_FLAVORS",
    "WINDOW_MODELS",
    "FUNCTIONS",
    "DEPRECATED_FUNCS",
    "TOOL_INFO_IFACE_HANDLES",
    "TOOL_INFO_IFACE_VERBOSITY_LEVELS",
    "TOOL_INFO_IFACE_VAR_ASSOCIATIONS",
    "TOOL_INFO_IFACE_VAR_SCOPES",
    "TOOL_INFO_IFACE_PVAR_CLASSES",
    "TOOL_INFO_IFACE_SOURCE_ORDERINGS",
    "TOOL_INFO_IFACE_CB_SAFETY_REQ_LEVELS",
];
