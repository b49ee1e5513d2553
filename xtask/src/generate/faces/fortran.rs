//! Fortran's libraries of the faces: the sources of `fortran/library`, compiled for another ABI. What they
//! take beside the files that are written by hand: the prototypes of the face in C, and the handles of the
//! modules.

use anyhow::Result;
use std::fmt::Write as _;

use super::super::header;
use super::super::spec::Spec;
use super::HEAD;
use super::table::{Entry, Table};

/// The prototypes of the functions that the sources call, for the types of any ABI.
pub(super) fn prototypes(spec: &Spec) -> Result<String> {
    let mut out = format!("/* The functions of a face that Fortran's sources call. {HEAD} */\n");
    header::called_by_fortran(&mut out, spec)?;
    Ok(out)
}

/// The list of predefined handles, with their integers in Fortran.
pub(super) fn handles(spec: &Spec, table: &Table) -> Result<String> {
    let mut out = format!("/* The predefined handles in Fortran. {HEAD} */\n#define HANDLES(X)");
    let constants = spec.categories.iter().flat_map(|category| &category.constants);
    for constant in constants.filter(|constant| super::values::is_handle(&constant.c_type)) {
        let integer = match table.entries.get(&constant.name) {
            // Files are pointers in C in every ABI, and the only predefined one is the null handle.
            Some(Entry::Value(_)) if constant.c_type == "MPI_File" => "0".to_owned(),
            Some(Entry::Value(value)) => value.clone(),
            // A handle without an integer is unknown to Fortran.
            Some(Entry::Address(variable)) => match variable.integer {
                Some(integer) => integer.to_string(),
                None => continue,
            },
            None => continue,
        };
        write!(out, " \\\n    X({}, {integer})", constant.name.to_ascii_lowercase())?;
    }
    out.push('\n');
    Ok(out)
}
