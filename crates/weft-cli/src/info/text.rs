//! `weft info` as text for people: sections of `name  value` lines.

use std::fmt::Write;
use std::io::IsTerminal;

use super::Info;
use super::amounts::bytes;
use super::links::Address;
use super::travel::{ProtocolCost, Stretch};

/// The style of the text: with colour, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Coloured,
}

impl Style {
    /// The style of standard output: colour only on a terminal, and unless the user has declined it
    /// (`NO_COLOR`).
    pub(crate) fn of_output() -> Style {
        let wanted =
            std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted { Style::Coloured } else { Style::Plain }
    }

    /// `text` in the terminal's colour number `code` (SGR).
    pub(crate) fn paint(self, code: u8, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

pub(crate) const BOLD: u8 = 1;
pub(crate) const RED: u8 = 31;
pub(crate) const GREEN: u8 = 32;
pub(crate) const YELLOW: u8 = 33;
pub(crate) const GREY: u8 = 90;

/// The width of the names before the values, in letters.
const NAME_LETTERS: usize = 20;
/// The width of the longest line, in letters.
const LINE_LETTERS: usize = 118;
/// The width of the sizes of messages, in letters.
const SIZE_LETTERS: usize = 16;
/// The width of a cost, in letters.
const COST_LETTERS: usize = 19;

struct Page {
    text: String,
    style: Style,
}

impl Page {
    // Writing to a string cannot fail.
    fn section(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let title = self.style.paint(BOLD, title);
        let _ = writeln!(self.text, "{gap}{title}");
    }

    fn line(&mut self, name: &str, value: &str) {
        self.put(&format!("  {name:NAME_LETTERS$} "), None, value);
    }

    fn remark(&mut self, text: &str) {
        self.put(&format!("  {:NAME_LETTERS$} ", ""), Some(GREY), text);
    }

    fn fault(&mut self, text: &str) {
        self.put(&format!("  {:NAME_LETTERS$} ", ""), Some(RED), text);
    }

    fn choice(&mut self, name: &str, chosen: bool, text: &str) {
        let (code, word) = if chosen { (GREEN, "used") } else { (GREY, "not used") };
        let word = self.style.paint(code, &format!("{word:8}"));
        let _ = writeln!(self.text, "  {name:NAME_LETTERS$} {word}  {text}");
    }

    /// Writes `text` behind `front`, in lines of bounded length; further lines begin in the same column as
    /// the first. Blanks at the beginning of `text` count.
    fn put(&mut self, front: &str, code: Option<u8>, text: &str) {
        let own = text.len() - text.trim_start().len();
        let column = front.chars().count() + own;
        for (at, line) in wrapped(&text[own..], LINE_LETTERS - column).iter().enumerate() {
            let line = format!("{:own$}{line}", "");
            let line = code.map_or_else(|| line.clone(), |code| self.style.paint(code, &line));
            let front = if at == 0 { front } else { &format!("{:width$}", "", width = column - own) };
            let _ = writeln!(self.text, "{front}{line}");
        }
    }
}

/// Breaks `text` into lines of at most `letters` letters; only a longer word makes a longer line. Blanks
/// within a line stay. The codes of colours count as letters.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("one at least");
        let is_full = line.chars().count() + 1 + word.chars().count() > letters;
        if line.is_empty() {
            line.push_str(word);
        } else if is_full && !word.is_empty() {
            line.truncate(line.trim_end().len());
            lines.push(word.to_owned());
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

/// The whole page.
pub(crate) fn page(info: &Info, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    weft(&mut page, info);
    machine(&mut page, info);
    links(&mut page, info);
    memory(&mut page, info);
    messages(&mut page, info);
    protocols(&mut page, info);
    collectives(&mut page, info);
    settings(&mut page, info);
    page.text
}

fn weft(page: &mut Page, info: &Info) {
    page.section("Weft");
    page.line("version", &format!("{}, commit {}", info.weft.version, info.weft.commit));
    page.line("standard", &format!("MPI {}, standard ABI {}", info.weft.mpi_standard, info.weft.abi));
    page.line("command", &info.weft.command);
    let library = &info.library;
    match &library.path {
        Some(path) => page.line("library", &format!("{} (by {})", path.display(), library.found_by)),
        None => page.line("library", "none"),
    }
    match (&library.fault, &library.version) {
        (Some(fault), _) => page.fault(fault),
        (None, Some(version)) => page.remark(&format!("version {version}, the same as this command")),
        (None, None) => {}
    }
}

fn machine(page: &mut Page, info: &Info) {
    let machine = &info.machine;
    page.section("Machine");
    page.line("host", &machine.host);
    page.line("kernel", &machine.kernel);
    page.line("processor", &machine.processor);
    let (usable, all) = (machine.processors_usable, machine.processors);
    page.line("processors", &format!("{usable} usable of {all} (affinity and control groups)"));
    if let Some(set) = &machine.bound_to {
        page.line("bound to", set);
    }
    page.line("memory", &bytes(machine.memory_bytes));
    let shm = &machine.shared_memory;
    let size = match (shm.bytes_free, shm.bytes) {
        (Some(free), Some(all)) => format!("{} free of {}", bytes(free), bytes(all)),
        _ => "it is not there".to_owned(),
    };
    page.line(&shm.path.display().to_string(), &size);
    let copying = &machine.single_copy;
    let scope = copying.ptrace_scope.map_or(String::new(), |scope| format!(" (kernel.yama.ptrace_scope is {scope})"));
    let allowed = if copying.allowed { format!("allowed{scope}") } else { format!("not allowed: {}", copying.why) };
    page.line("single copy", &allowed);
    let reserved = format!("{} of {} reserved", machine.huge_pages_reserved, bytes(machine.huge_page_bytes));
    let transparent = match machine.huge_pages_transparent.as_str() {
        "" => "no transparent ones",
        said => &format!("transparent: {said}"),
    };
    page.line("huge pages", &format!("{reserved}; {transparent}"));
}

fn links(page: &mut Page, info: &Info) {
    page.section("Links");
    for link in &info.links {
        page.choice(link.name, link.used, link.what);
        page.remark(&link.why);
    }
    page.section("Addresses");
    if let Some(fault) = &info.addresses.fault {
        page.fault(fault);
    }
    for address in &info.addresses.list {
        let why = if address.why.is_empty() { used(address) } else { address.why.clone() };
        page.choice(&address.interface, address.offered, &format!("{:22} {why}", address.address));
    }
    page.line("node", &format!("{}: ranks with the same number share memory", info.addresses.node));
}

fn collectives(page: &mut Page, info: &Info) {
    page.section("Algorithms of collectives, among 8 processes on 8 nodes");
    let mut operation = "";
    for choice in &info.collectives {
        let name = if choice.operation == operation { "" } else { choice.operation };
        operation = choice.operation;
        let source = if choice.source == "built in" { String::new() } else { format!("  ({})", choice.source) };
        page.line(name, &format!("{:22} {}{source}", choice.sizes(), choice.algorithm));
    }
    page.remark("weft info --collectives prints the table that is built in");
}

fn memory(page: &mut Page, info: &Info) {
    page.section("Memory for messages");
    for row in &info.memory.shared {
        let when = if row.on_first_use { ", each taken when it is first used" } else { "" };
        let (ring, all) = (bytes(row.ring_bytes as u64), bytes(row.segment_bytes as u64));
        page.line(&format!("{} ranks here", row.ranks), &format!("{all}: a ring of {ring} from each to each{when}"));
    }
    let peer = &info.memory.remote_peer;
    let sum = bytes(peer.queue_bytes + peer.ahead_bytes + peer.unexpected_bytes);
    page.line("a peer elsewhere", &format!("at most {sum} in each rank that talks to it"));
    let [queue, ahead, unexpected] = [peer.queue_bytes, peer.ahead_bytes, peer.unexpected_bytes].map(bytes);
    page.remark(&format!("{queue} on their way, {ahead} behind a lost packet, {unexpected} that no receive asked for"));
}

fn messages(page: &mut Page, info: &Info) {
    page.section("How messages travel");
    let mut peer = "";
    for journey in &info.messages {
        let name = if journey.peer == peer { "" } else { journey.peer };
        peer = journey.peer;
        page.line(name, &page.style.paint(BOLD, &journey.situations.join("; or ")));
        for Stretch { bytes_max, protocol, carrier, reason, .. } in &journey.sizes {
            let size = match bytes_max {
                None if journey.sizes.len() == 1 => "any size".to_owned(),
                None => "larger".to_owned(),
                Some(most) => up_to(*most),
            };
            page.line("", &format!("  {size:SIZE_LETTERS$} {protocol}: {carrier}"));
            page.remark(&format!("  {:SIZE_LETTERS$} {reason}", ""));
        }
    }
}

fn protocols(page: &mut Page, info: &Info) {
    let protocols = &info.protocols;
    page.section("Protocols, and what they cost");
    for row in &protocols.rows {
        page.line(row.name, row.when);
        for ProtocolCost { fixed_ps, per_byte_ps, peer, situations } in &row.costs {
            let cost = cost(*fixed_ps, *per_byte_ps);
            page.line("", &format!("  {cost:COST_LETTERS$} {peer}: {}", situations.join("; or ")));
        }
    }
    page.line("costs", &protocols.origin);
    let smallest =
        |bytes: Option<u64>| bytes.map_or_else(|| "never".to_owned(), |least| format!("from {}", size(least)));
    let thresholds = &protocols.thresholds;
    page.remark(&format!(
        "sent eagerly {} where nothing says another limit; copied by the kernel {}, by both sides {}",
        up_to(thresholds.eager_limit),
        smallest(thresholds.single_copy_bytes_min),
        smallest(thresholds.cooperative_bytes_min),
    ));
    page.remark("weft info --costs prints what each part costs");
}

/// A cost in words: a fixed part, and a part for each byte.
fn cost(fixed_ps: u64, per_byte_ps: u64) -> String {
    let fixed = format!("{:.2} us", fixed_ps as f64 / 1e6);
    let each = format!("{per_byte_ps} ps/B");
    match (fixed_ps, per_byte_ps) {
        (0, 0) => "nothing".to_owned(),
        (0, _) => each,
        (_, 0) => fixed,
        _ => format!("{fixed} + {each}"),
    }
}

/// Returns whether a number of bytes is a small whole number of KiB or MiB.
fn is_round(count: u64) -> bool {
    const UNITS: [u64; 2] = [1 << 10, 1 << 20];
    UNITS.iter().any(|unit| count.is_multiple_of(*unit) && count / unit < 1024)
}

/// A number of bytes in words, as a round number where that is exact.
fn size(count: u64) -> String {
    if is_round(count) { bytes(count) } else { format!("{count} bytes") }
}

/// The words for all sizes up to `most` bytes, as a round number where that is exact.
fn up_to(most: u64) -> String {
    match most {
        _ if is_round(most) => format!("up to {}", bytes(most)),
        _ if is_round(most + 1) => format!("below {}", bytes(most + 1)),
        _ => format!("up to {most} bytes"),
    }
}

fn settings(page: &mut Page, info: &Info) {
    page.section("Settings");
    if let Some(wrong) = &info.wrong_setting {
        page.fault(&format!("programs stop in MPI_Init: {wrong}"));
    }
    for row in &info.settings {
        let value = if row.value.is_empty() { "(none)" } else { row.value.as_str() };
        if row.source != "default" {
            let shown = page.style.paint(YELLOW, value);
            let default = if row.default.is_empty() { "none" } else { row.default };
            let from = row.place.as_deref().unwrap_or("the environment");
            page.line(row.name, &format!("{shown}  (from {from}; the default is {default})"));
        } else {
            page.line(row.name, &format!("{value}  (default)"));
        }
        page.remark(&format!("{}; it may say {} [{}]", row.meaning, row.allowed, row.reader));
    }
    for unknown in &info.unknown_variables {
        page.fault(unknown);
    }
}

/// The words for the traffic that an interface in use would carry.
fn used(address: &Address) -> String {
    let speed = if address.speed == 0 { String::new() } else { format!(", {} Mb/s", address.speed) };
    let share = if address.rail == Some(0) { "messages and large data" } else { "large data; messages if others fail" };
    format!("MTU {}{speed}: {share}", address.mtu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_sizes_are_exact() {
        let limits = [0, 16_383, 65_536, 10_000, 1 << 20];
        let said = ["up to 0 bytes", "below 16 KiB", "up to 64 KiB", "up to 10000 bytes", "up to 1 MiB"];
        assert_eq!(limits.map(up_to), said);
        // Other sizes would be rounded.
        assert_eq!([67_072, 1025 << 10].map(up_to), ["up to 67072 bytes", "up to 1049600 bytes"]);
    }

    #[test]
    fn no_line_is_too_long() {
        let mut page = Page { text: String::new(), style: Style::Plain };
        let many = vec!["udp on eth0 (datagrams)"; 300].join(", ");
        page.line("fabric", &many);
        page.remark(&format!("  {many}"));
        page.fault("short");
        let lines: Vec<&str> = page.text.lines().collect();
        assert!(lines.len() > 100 && lines.iter().all(|line| line.chars().count() <= LINE_LETTERS), "{}", page.text);
        assert!(lines[0].starts_with("  fabric               udp") && lines[1].starts_with("                       "));
        assert_eq!(page.text.matches("eth0").count(), 600);
        assert_eq!(lines.last(), Some(&"                       short"));
        assert_eq!(wrapped("a  b", 10), ["a  b"]);
        assert_eq!(wrapped("", 10), [""]);
    }
}
