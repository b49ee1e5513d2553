//! The parts of this crate that parse bytes from others, as plain functions for `weft-fuzz`. They panic only
//! where the code is wrong.

use crate::show::read;

/// The file that `weft compare` writes and `weft report` reads.
pub fn run_file(bytes: &[u8]) {
    if let Ok(file) = read::parse(bytes, "a file") {
        let _ = file.interrupted();
    }
}
