//! Cuts a rank's output into whole lines, so that lines of different ranks never mix.

use crate::control::FRAME_MAX;

/// The longest line, in bytes. A longer line is passed on in pieces of this size, and other ranks' lines may
/// come between the pieces. A line up to this size goes to `mpiexec` as one message, which `mpiexec` writes
/// whole before any other.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message holds a line, its label, and the complete lines that were read before it.
const _: () = assert!(LINE_BYTES_MAX * 2 < FRAME_MAX);

/// Collects bytes and gives out whole lines, each with its label in front.
pub(crate) struct Lines {
    label: Vec<u8>,
    /// Bytes are passed on as they come: there are no other ranks whose lines they could tear.
    alone: bool,
    partial: Vec<u8>,
    /// The last byte that was given out ended a line.
    at_start: bool,
}

impl Lines {
    /// Makes a collector for a stream whose lines begin with `label`. With `alone` and no label nothing is
    /// held back.
    pub(crate) fn new(label: &str, alone: bool) -> Self {
        Self { label: label.as_bytes().to_vec(), alone: alone && label.is_empty(), partial: Vec::new(), at_start: true }
    }

    /// Takes what the rank wrote, and appends to `out` what may be printed.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.alone {
            out.extend_from_slice(bytes);
            return;
        }
        let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1) else {
            return self.hold(bytes, out);
        };
        let (lines, rest) = bytes.split_at(end);
        if self.label.is_empty() {
            out.append(&mut self.partial);
            out.extend_from_slice(lines);
            self.at_start = true;
        } else {
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                self.begin(out);
                out.append(&mut self.partial);
                out.extend_from_slice(line);
                self.at_start = true;
            }
        }
        self.hold(rest, out);
    }

    /// Keeps the beginning of a line, as long as it is not too long.
    fn hold(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.partial.extend_from_slice(bytes);
        if self.partial.len() >= LINE_BYTES_MAX {
            self.begin(out);
            out.append(&mut self.partial);
            self.at_start = false;
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.at_start {
            out.extend_from_slice(&self.label);
        }
    }

    /// Ends the stream: gives out a last line that has no newline. The line gets one where other ranks print
    /// too.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.begin(out);
            out.append(&mut self.partial);
            self.at_start = false;
        }
        if !self.at_start && !self.alone {
            out.push(b'\n');
        }
        self.at_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &mut Lines, pieces: &[&str]) -> Vec<String> {
        let mut given = Vec::new();
        for piece in pieces {
            let mut out = Vec::new();
            lines.push(piece.as_bytes(), &mut out);
            given.push(String::from_utf8(out).expect("text"));
        }
        let mut out = Vec::new();
        lines.finish(&mut out);
        given.push(String::from_utf8(out).expect("text"));
        given
    }

    #[test]
    fn only_whole_lines_leave() {
        let mut lines = Lines::new("", false);
        assert_eq!(run(&mut lines, &["a", "b\nc", "\n", "d\ne\nf"]), ["", "ab\n", "c\n", "d\ne\n", "f\n"]);
    }

    #[test]
    fn every_line_has_one_label() {
        let mut lines = Lines::new("[3] ", false);
        assert_eq!(run(&mut lines, &["a\n\nb", "c\n", "d"]), ["[3] a\n[3] \n", "[3] bc\n", "", "[3] d\n"]);
    }

    #[test]
    fn a_single_rank_is_not_held_back() {
        let mut lines = Lines::new("", true);
        assert_eq!(run(&mut lines, &["name? ", "ok"]), ["name? ", "ok", ""]);
        let mut lines = Lines::new("[0] ", true);
        assert_eq!(run(&mut lines, &["name? "]), ["", "[0] name? \n"]);
    }

    #[test]
    fn a_long_line_leaves_whole() {
        let mut lines = Lines::new("[0] ", false);
        let piece = "x".repeat(64 * 1024);
        let mut pieces = vec![piece.as_str(); 100];
        pieces.push("\n");
        let given = run(&mut lines, &pieces);
        let whole = format!("[0] {}\n", piece.repeat(100));
        assert_eq!(given.iter().filter(|text| !text.is_empty()).collect::<Vec<_>>(), [&whole]);
    }

    #[test]
    fn an_endless_line_is_passed_in_pieces() {
        let mut lines = Lines::new("[0] ", false);
        let long = "x".repeat(LINE_BYTES_MAX);
        let given = run(&mut lines, &[&long, "y", "z\nnext\n"]);
        assert_eq!(given, [format!("[0] {long}"), String::new(), "yz\n[0] next\n".into(), String::new()]);
    }
}
