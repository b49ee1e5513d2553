//! The output of a simulation. A reader may close the pipe early (`… | head`): then the process ends without
//! an error.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard output. Ends the process when the line cannot be written.
pub fn line(text: Arguments<'_>) {
    if writeln!(std::io::stdout().lock(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Writes a line to standard error. A line that cannot be written is dropped: there is no further place to
/// report it.
pub fn remark(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
