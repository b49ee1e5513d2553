//! Runs a short program of another system for what it prints: which hosts there are.

use crate::reach;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The longest time for such a program.
const LIMIT: Duration = Duration::from_secs(20);
/// The most bytes that it may print.
const OUTPUT_MAX: u64 = 16 * 1024 * 1024;

/// Runs the program to its end, and returns what it prints.
///
/// # Errors
/// One sentence: it cannot be started, fails, takes too long, or prints no text.
pub fn output(words: &[String]) -> Result<String, String> {
    let shown = reach::shown(words);
    let Some((program, arguments)) = words.split_first() else { return Err("no program is named".into()) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{shown}` cannot be started: {error}"))?;
    let Some(pipe) = child.stdout.take() else { return Err(format!("`{shown}` has no output")) };
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the output, or stays where the time is over.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(OUTPUT_MAX).read_to_end(&mut bytes);
        // A receiver that is gone has given up.
        let _ = sender.send(read.map(|_| bytes));
    });
    let Ok(read) = receiver.recv_timeout(LIMIT) else {
        // Whoever else holds the pipe may hold it for long, so nobody waits for the thread.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("`{shown}` has not ended within {} s", LIMIT.as_secs()));
    };
    // The thread has said its last word.
    let _ = reader.join();
    let bytes = read.map_err(|error| format!("what `{shown}` prints cannot be read: {error}"))?;
    let status = child.wait().map_err(|error| format!("the end of `{shown}` is not known: {error}"))?;
    if !status.success() {
        return Err(format!("`{shown}` failed: {status}"));
    }
    String::from_utf8(bytes).map_err(|_| format!("`{shown}` prints no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<String, String> {
        output(&["sh".to_owned(), "-c".to_owned(), script.to_owned()])
    }

    #[test]
    fn output_is_returned_and_failures_are_named() {
        assert_eq!(shell("echo a; echo b").as_deref(), Ok("a\nb\n"));
        assert!(shell("exit 3").is_err_and(|why| why.contains("failed") && why.contains('3')));
        assert!(shell("printf '\\377'").is_err_and(|why| why.contains("no text")));
        assert!(output(&["/no/such/program".to_owned()]).is_err_and(|why| why.contains("/no/such/program")));
        assert!(output(&[]).is_err());
    }
}
