//! The constants: `mpif.h`, and the module that `mpi` and `mpi_f08` share.

use std::fmt::Write as _;

use super::super::spec::{Constant, Spec};
use super::{HANDLES, HEAD};

/// The kinds of integers (MPI-5.0 §2.5.6, §20.3.5), which are their sizes in bytes.
const KINDS: [(&str, i64); 4] =
    [("MPI_INTEGER_KIND", 4), ("MPI_ADDRESS_KIND", 8), ("MPI_COUNT_KIND", 8), ("MPI_OFFSET_KIND", 8)];

/// Constants that are recognised by their address, with the type and the shape they have in Fortran. Each is
/// alone in the common block MPIFORT_ and the rest of its name.
const ADDRESSES: &[(&str, &str, &str)] = &[
    ("MPI_BOTTOM", "INTEGER", ""),
    ("MPI_IN_PLACE", "INTEGER", ""),
    ("MPI_BUFFER_AUTOMATIC", "INTEGER", ""),
    ("MPI_UNWEIGHTED", "INTEGER", "(1)"),
    ("MPI_WEIGHTS_EMPTY", "INTEGER", "(1)"),
    ("MPI_ERRCODES_IGNORE", "INTEGER", "(1)"),
    ("MPI_ARGV_NULL", "CHARACTER(LEN=1)", "(1)"),
    ("MPI_ARGVS_NULL", "CHARACTER(LEN=1)", "(1,1)"),
];

/// The statuses that stand for none: arrays of integers, or of TYPE(MPI_Status).
const STATUSES: &[(&str, &str)] =
    &[("MPI_STATUS_IGNORE", "(MPI_STATUS_SIZE)"), ("MPI_STATUSES_IGNORE", "(MPI_STATUS_SIZE,1)")];

/// The datatypes of REAL and of DOUBLE PRECISION, whose kinds compilers change by options; with the datatypes
/// that they are where the kind is 4, 8, or 16.
const REALS: &[(&str, &str, [&str; 3])] = &[
    ("MPI_REAL", "REAL", ["MPI_REAL", "MPI_REAL8", "MPI_REAL16"]),
    ("MPI_COMPLEX", "REAL", ["MPI_COMPLEX", "MPI_COMPLEX16", "MPI_COMPLEX32"]),
    ("MPI_2REAL", "REAL", ["MPI_2REAL", "MPI_2DOUBLE_PRECISION", "MPI_DATATYPE_NULL"]),
    ("MPI_DOUBLE_PRECISION", "DOUBLE", ["MPI_REAL4", "MPI_DOUBLE_PRECISION", "MPI_REAL16"]),
    ("MPI_DOUBLE_COMPLEX", "DOUBLE", ["MPI_COMPLEX8", "MPI_DOUBLE_COMPLEX", "MPI_COMPLEX32"]),
    ("MPI_2DOUBLE_PRECISION", "DOUBLE", ["MPI_2REAL", "MPI_2DOUBLE_PRECISION", "MPI_DATATYPE_NULL"]),
];
const REAL_KINDS: [i64; 3] = [4, 8, 16];

/// The values of a datatype for each of [`REAL_KINDS`], and the word for its type.
fn values_by_kind(spec: &Spec, name: &str) -> Option<(&'static str, [i64; 3])> {
    let (_, word, names) = REALS.iter().find(|(of, _, _)| *of == name)?;
    let value = |name: &str| handles(spec).find(|(constant, _)| constant.name == name).map(|(found, _)| found.value);
    Some((word, names.map(|name| value(name).expect("a datatype of the tables"))))
}

/// The value of a predefined handle in a module. The compiler, with the options of the modules, says the
/// kind.
fn value(spec: &Spec, constant: &Constant) -> String {
    let Some((word, [short, long, longest])) = values_by_kind(spec, &constant.name) else {
        return constant.value.to_string();
    };
    let one = if word == "REAL" { "1.0" } else { "1d0" };
    format!("merge({short}, merge({long}, {longest}, kind({one}) == 8), kind({one}) == 4)")
}

/// The values of the same datatypes for `fortran-modules.sh`, which writes mpif.h for options.
pub(super) fn kinds(spec: &Spec) -> String {
    let mut out = format!("# {HEAD}\n# A datatype, a type of Fortran, a kind of it: the value.\n");
    for (name, ..) in REALS {
        let (word, values) = values_by_kind(spec, name).expect("a row of the table");
        for (kind, value) in REAL_KINDS.iter().zip(values) {
            let _ = writeln!(out, "{name} {word} {kind} {value}");
        }
    }
    out
}

/// Procedures that a program gives to others.
pub(super) const FUNCTIONS: &[&str] = &[
    "MPI_COMM_DUP_FN",
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_WIN_DUP_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_DUP_FN",
    "MPI_NULL_COPY_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_CONVERSION_FN_NULL",
    "MPI_CONVERSION_FN_NULL_C",
];

/// MPI_SIZEOF has an interface in `mpif.h` too: only a descriptor says the size of a variable.
const SIZEOF: &str = r"      INTERFACE
      SUBROUTINE MPI_SIZEOF(X,S,I)BIND(C,NAME='mpi_sizeof_f08ts_')
      TYPE(*),DIMENSION(..)::X
      INTEGER S,I
      END SUBROUTINE
      SUBROUTINE PMPI_SIZEOF(X,S,I)BIND(C,NAME='pmpi_sizeof_f08ts_')
      TYPE(*),DIMENSION(..)::X
      INTEGER S,I
      END SUBROUTINE
      END INTERFACE
";

fn block(name: &str) -> String {
    name.replacen("MPI_", "MPIFORT_", 1)
}

fn constants(spec: &Spec) -> impl Iterator<Item = &Constant> {
    let all = spec.standard_categories().flat_map(|category| &category.constants);
    // Of the tool information interface, Fortran has the error classes alone.
    let is_for_tools = |name: &str| name.starts_with("MPI_T_") && !name.starts_with("MPI_T_ERR_");
    all.filter(move |constant| !is_for_tools(&constant.name) && !constant.name.starts_with("MPI_F_"))
}

/// The constants of type INTEGER, and their values in Fortran: strings have no end mark there, so their
/// greatest lengths are one less (MPI-5.0 §19.3.9).
fn integers(spec: &Spec) -> impl Iterator<Item = (&str, i64)> {
    let numbers = constants(spec).filter(|constant| constant.c_type == "int");
    numbers.filter(|constant| constant.name != "MPI_DISPLACEMENT_CURRENT").map(|constant| {
        let is_length = constant.name.starts_with("MPI_MAX_");
        (constant.name.as_str(), constant.value - i64::from(is_length))
    })
}

/// The predefined handles, with their types.
fn handles(spec: &Spec) -> impl Iterator<Item = (&Constant, &'static str)> {
    constants(spec).filter_map(|constant| {
        let (_, _, c_type) = HANDLES.iter().find(|(_, _, c_type)| *c_type == constant.c_type)?;
        Some((constant, *c_type))
    })
}

/// Constants that are not in the tables, because C has them otherwise.
fn own_integers() -> [(&'static str, i64); 4] {
    [("MPI_STATUS_SIZE", 8), ("MPI_SOURCE", 1), ("MPI_TAG", 2), ("MPI_ERROR", 3)]
}

/// `mpif.h`, valid in fixed and in free form: statements begin in column 7 and end before column 73.
pub(super) fn mpif(spec: &Spec) -> String {
    let mut out = format!("! mpif.h of MPI 5.0 with the standard ABI.\n! {HEAD}\n! Valid in fixed and in free form.\n");
    let integer = |out: &mut String, name: &str, value: i64| {
        let _ = writeln!(out, "      INTEGER {name}\n      PARAMETER ({name}={value})");
    };
    for (kind, size) in KINDS {
        integer(&mut out, kind, size);
    }
    for (name, value) in own_integers().into_iter().chain(integers(spec)) {
        integer(&mut out, name, value);
    }
    for (constant, _) in handles(spec) {
        integer(&mut out, &constant.name, constant.value);
    }
    out.push_str("      INTEGER(KIND=MPI_OFFSET_KIND) MPI_DISPLACEMENT_CURRENT\n");
    out.push_str("      PARAMETER (MPI_DISPLACEMENT_CURRENT=-1)\n");
    for name in ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"] {
        let _ = writeln!(out, "      LOGICAL {name}\n      PARAMETER ({name}=.FALSE.)");
    }
    for (name, kind, shape) in ADDRESSES {
        let _ = writeln!(out, "      {kind} {name}{shape}\n      COMMON /{}/ {name}", block(name));
    }
    for (name, shape) in STATUSES {
        let _ = writeln!(out, "      INTEGER {name}{shape}\n      COMMON /{}/ {name}", block(name));
    }
    for name in FUNCTIONS {
        let _ = writeln!(out, "      EXTERNAL {name}");
    }
    out.push_str(SIZEOF);
    let results = [
        ("DOUBLE PRECISION", ["MPI_WTIME", "MPI_WTICK"]),
        ("INTEGER(KIND=MPI_ADDRESS_KIND)", ["MPI_AINT_ADD", "MPI_AINT_DIFF"]),
    ];
    for (kind, name) in results.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name))) {
        for name in [(*name).to_owned(), format!("P{name}")] {
            let _ = writeln!(out, "      {kind} {name}\n      EXTERNAL {name}");
        }
    }
    out
}

/// The module `weft_mpi_base`: what `mpi` and `mpi_f08` share.
pub(super) fn base(spec: &Spec) -> String {
    let mut out = format!(
        "! What the modules mpi and mpi_f08 share.\n! {HEAD}\nmodule weft_mpi_base\n  implicit none\n  public\n"
    );
    for (kind, size) in KINDS {
        let _ = writeln!(out, "  integer, parameter :: {kind} = {size}");
    }
    for (name, value) in own_integers().into_iter().chain(integers(spec)) {
        let _ = writeln!(out, "  integer, parameter :: {name} = {value}");
    }
    out.push_str("  integer(MPI_OFFSET_KIND), parameter :: MPI_DISPLACEMENT_CURRENT = -1\n");
    for (name, kind, shape) in ADDRESSES {
        // Programs compare the address of a buffer that was detached with it (MPI-5.0 §3.6).
        let target = if *name == "MPI_BUFFER_AUTOMATIC" { ", target" } else { "" };
        let _ = writeln!(out, "  {}{target} :: {name}{shape}", kind.to_lowercase());
        let _ = writeln!(out, "  common /{}/ {name}", block(name).to_lowercase());
    }
    out.push_str("\n  type, bind(C) :: MPI_Status\n    integer :: MPI_SOURCE\n    integer :: MPI_TAG\n");
    out.push_str("    integer :: MPI_ERROR\n    integer :: MPI_internal(5)\n  end type MPI_Status\n");
    for (_, _, name) in HANDLES {
        let _ = writeln!(out, "  type, bind(C) :: {name}\n    integer :: MPI_VAL\n  end type {name}");
    }
    for (operator, word) in [("==", "equal"), ("/=", "differ")] {
        let _ = writeln!(out, "  interface operator({operator})");
        for (_, _, name) in HANDLES {
            let _ = writeln!(out, "    module procedure {name}_{word}");
        }
        let _ = writeln!(out, "  end interface");
    }
    out.push_str("\ncontains\n");
    for (operator, word) in [("==", "equal"), ("/=", "differ")] {
        for (_, _, name) in HANDLES {
            let _ = writeln!(
                out,
                "  elemental logical function {name}_{word}(a, b)\n    type({name}), intent(in) :: a, b\n    \
                 {name}_{word} = a%MPI_VAL {operator} b%MPI_VAL\n  end function {name}_{word}"
            );
        }
    }
    out.push_str("end module weft_mpi_base\n");
    out
}

/// The constants of the module `mpi` that mpi_f08 has with other types.
pub(super) fn of_mpi(spec: &Spec) -> String {
    let mut out = String::new();
    for (constant, _) in handles(spec) {
        let _ = writeln!(out, "  integer, parameter :: {} = {}", constant.name, value(spec, constant));
    }
    for (name, shape) in STATUSES {
        let _ = writeln!(out, "  integer :: {name}{shape}\n  common /{}/ {name}", block(name).to_lowercase());
    }
    out.push_str(&supported(false));
    for name in FUNCTIONS {
        let _ = writeln!(out, "  external :: {name}");
    }
    out
}

/// The constants of the module mpi_f08 that mpi has with other types.
pub(super) fn of_mpi_f08(spec: &Spec) -> String {
    let mut out = String::new();
    for (constant, kind) in handles(spec) {
        let _ = writeln!(out, "  type({kind}), parameter :: {} = {kind}({})", constant.name, value(spec, constant));
    }
    out.push_str("  type(MPI_Status) :: MPI_STATUS_IGNORE\n  common /mpifort_status_ignore/ MPI_STATUS_IGNORE\n");
    out.push_str("  type(MPI_Status) :: MPI_STATUSES_IGNORE(1)\n");
    out.push_str("  common /mpifort_statuses_ignore/ MPI_STATUSES_IGNORE\n");
    out.push_str(&supported(true));
    out
}

fn supported(is: bool) -> String {
    let names = ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"];
    names.map(|name| format!("  logical, parameter :: {name} = .{is}.\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpif_is_valid_in_fixed_and_in_free_form() {
        let spec = Spec::read(&super::super::super::project_root().join("spec")).expect("the tables are there");
        for line in mpif(&spec).lines() {
            let is_comment = line.starts_with('!');
            assert!(line.len() <= 72 && (is_comment || line.starts_with("      ")), "{line}");
            assert!(!line.contains('&') && !line.trim_start().starts_with('!') || is_comment, "{line}");
        }
    }

    #[test]
    fn strings_are_one_shorter_than_in_c() {
        let spec = Spec::read(&super::super::super::project_root().join("spec")).expect("the tables are there");
        let found: Vec<_> = integers(&spec).filter(|(name, _)| *name == "MPI_MAX_PROCESSOR_NAME").collect();
        assert_eq!(found, [("MPI_MAX_PROCESSOR_NAME", 255)]);
    }
}
