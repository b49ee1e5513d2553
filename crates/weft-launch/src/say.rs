//! Sentences on standard error, whole: a process may be ended at any moment, and 600 of them may speak at
//! once. And text on standard output, whose reader may be gone (`… | head`).

use std::io::Write;

/// Writes `sentence` and the end of its line in one system call. What cannot be written has nobody to be
/// told.
pub fn say(sentence: &str) {
    let mut line = String::with_capacity(sentence.len() + 1);
    line.push_str(sentence);
    line.push('\n');
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Writes `text` to standard output; who has stopped reading misses nothing.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
