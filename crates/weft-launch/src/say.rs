//! Prints whole sentences on standard error: a process may be ended at any moment, and 600 processes may
//! print at once. Also prints text on standard output, whose reader may be gone (`… | head`).

use std::io::Write;

/// Writes `sentence` and the end of its line in one system call. If that fails, there is no one to tell.
pub fn say(sentence: &str) {
    let mut line = String::with_capacity(sentence.len() + 1);
    line.push_str(sentence);
    line.push('\n');
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Writes `text` to standard output. A reader that has gone misses nothing.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
