//! What a simulation says. Whoever reads it may have seen enough (`… | head`): then there is nothing left to
//! do.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line on standard output. Ends the process when it cannot be written.
pub fn line(text: Arguments<'_>) {
    if writeln!(std::io::stdout().lock(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Says a line on standard error. What cannot be written has nobody to be told.
pub fn remark(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
