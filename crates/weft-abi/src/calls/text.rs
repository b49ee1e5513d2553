//! Names of objects.

use crate::arguments::InString;
use crate::constants::MPI_MAX_OBJECT_NAME;

/// The name of an object, cut to MPI_MAX_OBJECT_NAME (MPI-5.0 §7.8).
pub(crate) fn object_name(text: InString) -> String {
    let mut name = text.to_string();
    let mut end = name.len().min(MPI_MAX_OBJECT_NAME as usize - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}
