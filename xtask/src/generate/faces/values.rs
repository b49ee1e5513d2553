//! The header of an ABI's values: `F_MPI_X` is the value of `MPI_X` in that ABI, and lists of names say which
//! constants both ABIs have.

use anyhow::{Context, Result};
use std::fmt::Write as _;

use super::super::spec::{Constant, Spec};
use super::HEAD;
use super::table::{Entry, Table};

/// The families of constants that are converted one by one: the name of the list, and how their names begin.
const FAMILIES: [(&str, &[&str]); 21] = [
    ("ERROR_CLASS", &["MPI_SUCCESS", "MPI_ERR_", "MPIX_ERR_"]),
    ("TOOL_ERROR", &["MPI_T_ERR_"]),
    ("THREAD", &["MPI_THREAD_"]),
    (
        "COMM_KEYVAL",
        &[
            "MPI_TAG_UB",
            "MPI_IO",
            "MPI_HOST",
            "MPI_WTIME_IS_GLOBAL",
            "MPI_APPNUM",
            "MPI_LASTUSEDCODE",
            "MPI_UNIVERSE_SIZE",
            "MPI_KEYVAL_INVALID",
        ],
    ),
    ("WIN_KEYVAL", &["MPI_WIN_BASE", "MPI_WIN_DISP_UNIT", "MPI_WIN_SIZE", "MPI_WIN_CREATE_FLAVOR", "MPI_WIN_MODEL"]),
    ("COMPARISON", &["MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL"]),
    ("SPLIT_TYPE", &["MPI_COMM_TYPE_"]),
    ("TOPOLOGY", &["MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH"]),
    ("COMBINER", &["MPI_COMBINER_"]),
    ("TYPECLASS", &["MPI_TYPECLASS_"]),
    ("ORDER", &["MPI_ORDER_"]),
    ("DISTRIBUTION", &["MPI_DISTRIBUTE_NONE", "MPI_DISTRIBUTE_BLOCK", "MPI_DISTRIBUTE_CYCLIC"]),
    ("WHENCE", &["MPI_SEEK_"]),
    ("LOCK", &["MPI_LOCK_"]),
    ("FLAVOR", &["MPI_WIN_FLAVOR_"]),
    ("MODEL", &["MPI_WIN_UNIFIED", "MPI_WIN_SEPARATE"]),
    ("VERBOSITY", &["MPI_T_VERBOSITY_"]),
    ("BIND", &["MPI_T_BIND_"]),
    ("SCOPE", &["MPI_T_SCOPE_"]),
    ("PVAR_CLASS", &["MPI_T_PVAR_CLASS_"]),
    ("SOURCE_ORDER", &["MPI_T_SOURCE_"]),
];

/// The families of bits.
const BITS: [(&str, &[&str]); 2] = [
    (
        "ACCESS_MODE",
        &[
            "MPI_MODE_APPEND",
            "MPI_MODE_CREATE",
            "MPI_MODE_DELETE_ON_CLOSE",
            "MPI_MODE_EXCL",
            "MPI_MODE_RDONLY",
            "MPI_MODE_RDWR",
            "MPI_MODE_SEQUENTIAL",
            "MPI_MODE_UNIQUE_OPEN",
            "MPI_MODE_WRONLY",
        ],
    ),
    ("ASSERT", &["MPI_MODE_NOCHECK", "MPI_MODE_NOPRECEDE", "MPI_MODE_NOPUT", "MPI_MODE_NOSTORE", "MPI_MODE_NOSUCCEED"]),
];

const CALLBACK_SAFETY: (&str, &[&str]) = ("CALLBACK_SAFETY", &["MPI_T_CB_REQUIRE_"]);

/// The types of handles with predefined values: the name of the list, and the type.
const HANDLES: [(&str, &str); 11] = [
    ("COMM", "MPI_Comm"),
    ("DATATYPE", "MPI_Datatype"),
    ("ERRHANDLER", "MPI_Errhandler"),
    ("FILE", "MPI_File"),
    ("GROUP", "MPI_Group"),
    ("INFO", "MPI_Info"),
    ("MESSAGE", "MPI_Message"),
    ("OP", "MPI_Op"),
    ("REQUEST", "MPI_Request"),
    ("SESSION", "MPI_Session"),
    ("WIN", "MPI_Win"),
];

/// Other names of constants, with the same value: a list has only one of them.
const SAME: [&str; 2] = ["MPI_LONG_LONG_INT", "MPI_C_COMPLEX"];

pub(super) fn is_handle(c_type: &str) -> bool {
    HANDLES.iter().any(|(_, of)| *of == c_type)
}

pub(super) fn header(spec: &Spec, table: &Table) -> Result<String> {
    let mut out = format!(
        "/* The values of an ABI, from its table in spec/faces. {HEAD} */\n#ifndef WEFT_FACE_VALUES_H\n#define WEFT_FACE_VALUES_H\n\n"
    );
    let constants = || spec.categories.iter().flat_map(|category| &category.constants);
    let known =
        |constant: &&Constant| table.entries.contains_key(&constant.name) && !SAME.contains(&constant.name.as_str());
    for constant in constants() {
        if let Some(Entry::Value(value)) = table.entries.get(&constant.name) {
            let value = if value.starts_with('-') { format!("({value})") } else { value.clone() };
            writeln!(out, "#define F_{} {value}", constant.name)?;
        }
    }
    for (list, beginnings) in FAMILIES.iter().chain(&BITS).chain([&CALLBACK_SAFETY]) {
        let names: Vec<&str> = constants()
            .filter(|constant| belongs(list, beginnings, &constant.name))
            .filter(known)
            .map(|constant| constant.name.as_str())
            .collect();
        write_list(&mut out, list, "X", names.iter().map(|name| format!("X({name})")))?;
    }
    for (list, c_type) in HANDLES {
        let of_type = || constants().filter(|constant| constant.c_type == c_type).filter(known);
        write_list(&mut out, list, "X", of_type().map(|constant| format!("X({}, {})", constant.name, constant.value)))?;
        let integers = of_type().filter_map(|constant| match table.entries.get(&constant.name) {
            Some(Entry::Address(variable)) => Some(format!("X({}, {})", constant.name, variable.integer?)),
            _ => None,
        });
        write_list(&mut out, &format!("{list}_INTEGERS"), "X", integers)?;
    }
    let variables = constants().filter(known).filter_map(|constant| match table.entries.get(&constant.name) {
        Some(Entry::Address(variable)) => {
            Some(format!("X({}, {}, {})", variable.symbol, variable.size_bytes, constant.value))
        }
        _ => None,
    });
    let null = constants().find(|constant| constant.name == "MPI_DATATYPE_NULL").context("no null")?.value;
    let others = table.others.iter().map(|variable| format!("X({}, {}, {null})", variable.symbol, variable.size_bytes));
    let number = |name: &str| {
        let found = constants().find(|constant| constant.name == name);
        found.map(|constant| constant.value).with_context(|| format!("the standard has no constant {name}"))
    };
    let (mut same_values, mut same_variables) = (Vec::new(), Vec::new());
    for (name, entry) in &table.others_of {
        match entry {
            Entry::Value(value) => same_values.push(format!("X({value}, {})", number(name)?)),
            Entry::Address(variable) => {
                same_variables.push(format!("X({}, {}, {})", variable.symbol, variable.size_bytes, number(name)?));
            }
        }
    }
    write_list(&mut out, "SAME_DATATYPE", "X", same_values.into_iter())?;
    write_list(&mut out, "OTHER_VARIABLES", "X", same_variables.into_iter().chain(others))?;
    write_list(&mut out, "VARIABLES", "X", variables)?;
    out.push_str("\n#endif\n");
    Ok(out)
}

/// Whether a constant belongs to a family. A beginning is a whole name unless it ends in `_`.
fn belongs(list: &str, beginnings: &[&str], name: &str) -> bool {
    let is_bound = list == "ERROR_CLASS" && name == "MPI_ERR_LASTCODE";
    !is_bound && beginnings.iter().any(|start| name == *start || start.ends_with('_') && name.starts_with(start))
}

fn write_list(out: &mut String, name: &str, argument: &str, items: impl Iterator<Item = String>) -> Result<()> {
    write!(out, "\n#define F_{name}_LIST({argument})")?;
    for item in items {
        write!(out, " \\\n    {item}")?;
    }
    out.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_whole_names_or_beginnings() {
        assert!(belongs("THREAD", &["MPI_THREAD_"], "MPI_THREAD_SINGLE"));
        assert!(belongs("TOPOLOGY", &["MPI_CART"], "MPI_CART") && !belongs("TOPOLOGY", &["MPI_CART"], "MPI_CARTX"));
        assert!(!belongs("ERROR_CLASS", &["MPI_ERR_"], "MPI_ERR_LASTCODE"));
    }

    /// Expect: every constant that has another value in an ABI is in a list, or is one that the sources name.
    #[test]
    fn no_constant_is_forgotten() {
        const NAMED: &[&str] = &[
            "MPI_ANY_SOURCE",
            "MPI_ANY_TAG",
            "MPI_PROC_NULL",
            "MPI_ROOT",
            "MPI_IN_PLACE",
            "MPI_BUFFER_AUTOMATIC",
            "MPI_STATUS_IGNORE",
            "MPI_STATUSES_IGNORE",
            "MPI_UNWEIGHTED",
            "MPI_WEIGHTS_EMPTY",
            "MPI_ERR_LASTCODE",
            "MPI_DISTRIBUTE_DFLT_DARG",
            "MPI_BSEND_OVERHEAD",
            "MPI_DISPLACEMENT_CURRENT",
            "MPI_T_PVAR_ALL_HANDLES",
        ];
        let root = crate::generate::project_root();
        let spec = Spec::read(&root.join("spec")).unwrap();
        for face in super::super::FACES {
            let table = super::super::read(&root, face).unwrap();
            let header = header(&spec, &table).unwrap();
            for constant in spec.categories.iter().flat_map(|category| &category.constants) {
                let name = &constant.name;
                let Some(Entry::Value(value)) = table.entries.get(name) else { continue };
                let is_size = name.starts_with("MPI_MAX_") || name.starts_with("MPI_F_");
                let is_same = *value == constant.value.to_string() || SAME.contains(&name.as_str());
                let is_listed = header.contains(&format!("X({name})")) || header.contains(&format!("X({name}, "));
                assert!(is_size || is_same || is_listed || NAMED.contains(&name.as_str()), "{face}: {name}");
            }
        }
    }
}
