//! PMI-1.1 as text: lines of `key=value` words, one request, one reply.
//!
//! Both sides use this module: [`crate::ProcessManager`] inside a rank, and the server inside the agent that
//! started it. Values that a client stores are escaped so that they contain no blank, `=`, `;` or newline,
//! because not every process manager copes with these.

use std::fmt::Write as _;

/// The longest key that is stored, in bytes (PMI-1.1 process managers offer 64).
pub const KEY_MAX: usize = 64;
/// The longest stored value, in bytes (PMI-1.1 process managers offer 1024).
pub const VALUE_MAX: usize = 1024;
/// The longest name of a key-value space, in bytes.
pub const NAME_MAX: usize = 256;
/// The longest value of one rank in an exchange through Weft's own `mpiexec`, in bytes, after escaping.
pub const CARD_MAX: usize = 16 * 1024;
/// The longest line that either side accepts, in bytes.
pub const LINE_MAX: usize = 64 * 1024;
/// The most bytes of statistics that one rank may report.
pub const STATS_MAX: usize = 1024 * 1024;
/// The most words of a line that are looked at.
pub const WORDS_MAX: usize = 64;

const _: () = assert!(VALUE_MAX + KEY_MAX + NAME_MAX < LINE_MAX);
const _: () = assert!(CARD_MAX + KEY_MAX + NAME_MAX < LINE_MAX);

/// A parsed line: its words in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    /// Splits a line (without its newline) into words. A word without `=` has an empty value.
    ///
    /// The value of a key named `value`, `msg` or `message` at the end of a line extends to the end of the
    /// line: process managers store values with blanks (`PMI_process_mapping` has none, but others do).
    pub fn parse(text: &'a str) -> Line<'a> {
        let mut words = Vec::new();
        let mut rest = text.trim_start_matches(' ');
        while !rest.is_empty() && words.len() < WORDS_MAX {
            let end = rest.find(' ').unwrap_or(rest.len());
            let word = &rest[..end];
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            words.push((key, value));
            rest = rest[end..].trim_start_matches(' ');
        }
        Line { words }
    }

    /// The command: the value of `cmd` (or of `mcmd`, which opens a request of several lines).
    pub fn command(&self) -> &'a str {
        match self.words.first() {
            Some(&("cmd" | "mcmd", value)) => value,
            _ => "",
        }
    }

    /// Returns whether the line opens a request of several lines, which ends with `endcmd`.
    pub fn opens_many(&self) -> bool {
        matches!(self.words.first(), Some(("mcmd", _)))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// The value of `key` as a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

/// The text after `message=` or another last key whose value may hold blanks.
pub fn tail<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let needle = format!(" {key}=");
    text.find(&needle).map(|at| &text[at + needle.len()..])
}

/// Returns whether a byte may stand in a stored value as it is.
fn plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'=' | b';' | b'%')
}

/// Escapes `text`: every byte that a process manager might not cope with becomes `%XX`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Reverses [`escape`]; `None` when `text` is not the result of it.
pub fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

/// Returns a command's name for messages, if it is one. Other texts are not shown, since pieces of lines may
/// hold secrets.
pub fn harmless(command: &str) -> &str {
    const NAME_LENGTH_MAX: usize = 32;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_harmless = command.len() <= NAME_LENGTH_MAX && !command.is_empty() && command.bytes().all(is_name);
    if is_harmless { command } else { "something that is no command" }
}

/// The bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Formats ranks as a short list of ranges, e.g. `0-3,8`.
pub fn format_ranks(ranks: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = ranks;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|&(&rank, expected)| rank == expected).count();
        if !text.is_empty() {
            text.push(',');
        }
        let last = rest[run - 1];
        let _ = if run == 1 { write!(text, "{first}") } else { write!(text, "{first}-{last}") };
        rest = &rest[run..];
    }
    text
}

/// Reads the ranks of a list made by [`format_ranks`], each below `size`.
pub fn parse_ranks(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut ranks = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= size {
            return None;
        }
        ranks.extend(first..=last);
    }
    Some(ranks)
}

/// Formats the node of every rank as MPICH's `PMI_process_mapping`:
/// `(vector,(first node,nodes,ranks per node),…)`.
pub fn format_mapping(node_of_rank: &[u32]) -> String {
    let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
    let mut rest = node_of_rank;
    while let Some(&node) = rest.first() {
        let run = rest.iter().take_while(|&&other| other == node).count();
        let ranks = u32::try_from(run).expect("fewer ranks than 2^32");
        match blocks.last_mut() {
            Some((first, nodes, each)) if *each == ranks && *first + *nodes == node => *nodes += 1,
            _ => blocks.push((node, 1, ranks)),
        }
        rest = &rest[run..];
    }
    let mut text = String::from("(vector");
    for (first, nodes, each) in blocks {
        let _ = write!(text, ",({first},{nodes},{each})");
    }
    text.push(')');
    text
}

/// Reads the node of every rank from [`format_mapping`]'s text, repeated until `size` ranks are covered.
pub fn parse_mapping(text: &str, size: u32) -> Option<Vec<u32>> {
    let body = text.strip_prefix("(vector")?.strip_suffix(')')?;
    let size = size as usize;
    let mut nodes = Vec::new();
    let mut blocks = Vec::new();
    for block in body.split(",(").filter(|block| !block.is_empty()) {
        let mut numbers = block.strip_suffix(')')?.split(',').map(|number| number.parse::<u32>().ok());
        blocks.push((numbers.next()??, numbers.next()??, numbers.next()??));
    }
    if blocks.iter().all(|&(_, count, each)| count == 0 || each == 0) {
        return None;
    }
    while nodes.len() < size {
        for &(first, count, each) in &blocks {
            let block = (first..first.checked_add(count)?).flat_map(|node| std::iter::repeat_n(node, each as usize));
            let missing = size - nodes.len();
            nodes.extend(block.take(missing));
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_words_in_order() {
        let line = Line::parse("cmd=put kvsname=weft key=a value=b=c");
        assert_eq!(line.command(), "put");
        assert_eq!(line.get("key"), Some("a"));
        assert_eq!(line.get("value"), Some("b=c"));
        assert_eq!(line.get("missing"), None);
        assert!(Line::parse("mcmd=spawn").opens_many());
        assert_eq!(Line::parse("").command(), "");
        assert_eq!(tail("cmd=abort exitcode=3 message=went all wrong", "message"), Some("went all wrong"));
    }

    #[test]
    fn what_is_escaped_comes_back() {
        for text in ["", "plain", "a b=c;d%\n\té€", "%41"] {
            let escaped = escape(text);
            assert!(escaped.bytes().all(plain_or_percent), "{escaped}");
            assert_eq!(unescape(&escaped).as_deref(), Some(text));
        }
        assert_eq!(unescape("%4"), None);
        assert_eq!(unescape("%zz"), None);
        assert_eq!(unescape("%ff"), None, "not UTF-8");
    }

    fn plain_or_percent(byte: u8) -> bool {
        plain(byte) || byte == b'%'
    }

    #[test]
    fn ranks_are_ranges() {
        for ranks in [vec![], vec![0], vec![0, 1, 2, 3, 8], vec![5, 4, 3], vec![1, 3, 5, 6]] {
            assert_eq!(parse_ranks(&format_ranks(&ranks), 9), Some(ranks));
        }
        assert_eq!(format_ranks(&[0, 1, 2, 8]), "0-2,8");
        assert_eq!(parse_ranks("0-9", 9), None);
        assert_eq!(parse_ranks("3-1", 9), None);
    }

    #[test]
    fn a_mapping_comes_back() {
        assert_eq!(format_mapping(&[0, 0, 1, 1]), "(vector,(0,2,2))");
        for nodes in [vec![0], vec![0, 0, 0, 1], vec![0, 1, 0, 1], vec![1, 1, 0], vec![0, 0, 1, 1, 0, 0, 1, 1]] {
            let size = u32::try_from(nodes.len()).expect("small");
            assert_eq!(parse_mapping(&format_mapping(&nodes), size), Some(nodes));
        }
        // Hydra writes one block, which wraps around.
        assert_eq!(parse_mapping("(vector,(0,2,1))", 4), Some(vec![0, 1, 0, 1]));
        assert_eq!(parse_mapping("(vector,(0,0,1))", 4), None);
        assert_eq!(parse_mapping("nonsense", 4), None);
    }
}
