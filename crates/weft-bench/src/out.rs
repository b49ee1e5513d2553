//! The output of commands on standard output and standard error.
//!
//! A reader may close the pipe early (`weft simulate … | head`): then the command ends as if it had written
//! everything, and the things that it has made are removed on the way.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

/// Writes a line to standard output, in the manner of `println!`.
#[macro_export]
#[doc(hidden)]
macro_rules! __print_line {
    ($($text:tt)*) => {
        $crate::out::write(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Writes a line to standard error, in the manner of `eprintln!`. A line that cannot be written is dropped:
/// there is no further place to report it.
#[macro_export]
#[doc(hidden)]
macro_rules! __say {
    ($($text:tt)*) => {
        $crate::out::tell(format_args!($($text)*))
    };
}

pub use crate::{__print_line as print_line, __say as say};

/// The payload of the unwinding that begins when the reader has gone.
struct ReaderGone;

/// Writes to standard output. Does not return when its reader has gone, or when the text cannot be written.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => resume_unwind(Box::new(ReaderGone)),
        Err(error) => {
            say!("weft: standard output cannot be written: {error}");
            resume_unwind(Box::new(ExitCode::FAILURE))
        }
    }
}

/// Writes a line to standard error.
pub fn tell(text: Arguments<'_>) {
    weft_launch::say(&text.to_string());
}

/// Runs a command to its end, or until the reader of its output has gone.
pub fn run(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let carried = match catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => return code,
        Err(carried) => carried,
    };
    if carried.is::<ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    match carried.downcast::<ExitCode>() {
        Ok(code) => *code,
        Err(panic) => resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stops_reading_ends_the_command_well() {
        assert_eq!(run(|| ExitCode::from(3)), ExitCode::from(3));
        assert_eq!(run(|| resume_unwind(Box::new(ReaderGone))), ExitCode::SUCCESS);
        assert_eq!(run(|| resume_unwind(Box::new(ExitCode::FAILURE))), ExitCode::FAILURE);
        assert!(catch_unwind(|| run(|| resume_unwind(Box::new("a defect")))).is_err());
    }
}
