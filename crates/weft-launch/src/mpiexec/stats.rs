//! Makes one table of the statistics that ranks report at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The most kinds of packets, or of changes, that are told apart: ranks of another version may report others.
const CAUSES_MAX: usize = 32;

/// The format of the printed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    messages: u64,
    bytes: u64,
    resends: u64,
}

/// The traffic over one of several rails between two ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rail {
    packets: u64,
    bytes: u64,
    failures: u64,
    state: String,
}

/// The number of packets, or messages, of each kind.
type Packets = BTreeMap<String, u64>;

/// Counts of every pair and link, and of every rail by the interface of the sender.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pairs: BTreeMap<(u32, u32, String), Counts>,
    rails: BTreeMap<(u32, u32, String), Rail>,
    /// Messages to processes of other jobs, by link.
    other_jobs: Packets,
    /// Packets that arrived and were dropped, by cause.
    dropped: Packets,
    /// Packets of multicast groups, by kind.
    multicast: Packets,
    /// The number of times that packets became smaller or larger because a path's MTU had changed.
    path_mtu: Packets,
    /// The number of lines that could not be read.
    unreadable: u64,
}

impl Stats {
    /// Adds lines of statistics. Lines of the same pair and link, and of the same kind of packets, add up.
    /// The lines:
    ///
    /// - `from to link messages bytes resends`
    /// - `rank other-jobs link messages`
    /// - `rank dropped cause packets`
    /// - `rank multicast what packets`
    /// - `rank path-mtu how times`
    /// - `rail from to interface packets bytes failures state`
    pub(crate) fn add(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some((name, rail)) = line.strip_prefix("rail ").and_then(parse_rail) {
                self.rails.insert(name, rail);
                continue;
            }
            match parse(line) {
                Some((pair, more)) => {
                    let counts = self.pairs.entry(pair).or_default();
                    counts.messages = counts.messages.saturating_add(more.messages);
                    counts.bytes = counts.bytes.saturating_add(more.bytes);
                    counts.resends = counts.resends.saturating_add(more.resends);
                }
                None if self.add_packets(line).is_some() => {}
                None => self.unreadable += 1,
            }
        }
    }

    /// Adds a line about packets; `None` when it is no such line, or there are too many kinds.
    fn add_packets(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rank, list, kind, packets] = words[..] else { return None };
        rank.parse::<u32>().ok()?;
        let packets: u64 = packets.parse().ok().filter(|_| is_name(kind))?;
        let list = match list {
            "other-jobs" => &mut self.other_jobs,
            "dropped" => &mut self.dropped,
            "multicast" => &mut self.multicast,
            "path-mtu" => &mut self.path_mtu,
            _ => return None,
        };
        if list.len() >= CAUSES_MAX && !list.contains_key(kind) {
            return None;
        }
        let count = list.entry(kind.to_owned()).or_default();
        *count = count.saturating_add(packets);
        Some(())
    }

    /// The table, its lines sorted by pair.
    pub(crate) fn print(&self, format: Format) -> String {
        match format {
            Format::Text => self.print_text(),
            Format::Json => self.print_json(),
        }
    }

    fn print_text(&self) -> String {
        let head = ["from", "to", "link", "messages", "bytes", "resends"].map(String::from);
        let row = |((from, to, link), counts): (&(u32, u32, String), &Counts)| {
            let numbers = [counts.messages, counts.bytes, counts.resends].map(|number| number.to_string());
            let [messages, bytes, resends] = numbers;
            [from.to_string(), to.to_string(), link.clone(), messages, bytes, resends]
        };
        let mut text = String::new();
        if self.pairs.is_empty() && self.other_jobs.is_empty() {
            text += "no statistics: no rank has sent a message and come to MPI_Finalize\n";
        } else if !self.pairs.is_empty() {
            text += &table(&[head].into_iter().chain(self.pairs.iter().map(row)).collect::<Vec<_>>());
        }
        if !self.rails.is_empty() {
            let head = ["from", "to", "interface", "packets", "bytes", "failures", "state"].map(String::from);
            let row = |((from, to, name), rail): (&(u32, u32, String), &Rail)| {
                let [packets, bytes, failures] = [rail.packets, rail.bytes, rail.failures].map(|n| n.to_string());
                [from.to_string(), to.to_string(), name.clone(), packets, bytes, failures, rail.state.clone()]
            };
            text += "\n";
            text += &table(&[head].into_iter().chain(self.rails.iter().map(row)).collect::<Vec<_>>());
        }
        let lists = [
            ("messages to other jobs", &self.other_jobs),
            ("changes of a path's MTU", &self.path_mtu),
            ("packets multicast", &self.multicast),
            ("packets dropped on arrival", &self.dropped),
        ];
        for (what, packets) in lists {
            if !packets.is_empty() {
                let kinds: Vec<String> = packets.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
                let _ = writeln!(text, "{what}: {}", kinds.join(", "));
            }
        }
        if self.unreadable > 0 {
            let lines = if self.unreadable == 1 { "line" } else { "lines" };
            let _ = writeln!(text, "({} unreadable {lines} of statistics)", self.unreadable);
        }
        text
    }

    fn print_json(&self) -> String {
        let pairs = self.pairs.iter().map(|((from, to, link), counts)| {
            let Counts { messages, bytes, resends } = counts;
            format!(
                "\n  {{\"from\": {from}, \"to\": {to}, \"link\": \"{link}\", \"messages\": {messages}, \
                 \"bytes\": {bytes}, \"resends\": {resends}}}"
            )
        });
        let rails = self.rails.iter().map(|((from, to, interface), rail)| {
            let Rail { packets, bytes, failures, state } = rail;
            format!(
                "\n  {{\"from\": {from}, \"to\": {to}, \"interface\": \"{interface}\", \"packets\": {packets}, \
                 \"bytes\": {bytes}, \"failures\": {failures}, \"state\": \"{state}\"}}"
            )
        });
        let lists = [
            ("other-jobs", &self.other_jobs),
            ("path-mtu", &self.path_mtu),
            ("multicast", &self.multicast),
            ("dropped", &self.dropped),
        ];
        let packets = lists.into_iter().filter_map(|(what, list)| {
            let kinds = list.iter().map(|(kind, count)| format!("\"{kind}\": {count}")).collect::<Vec<_>>().join(", ");
            (!kinds.is_empty()).then(|| format!("\n  {{\"{what}\": {{{kinds}}}}}"))
        });
        format!("[{}\n]\n", pairs.chain(rails).chain(packets).collect::<Vec<_>>().join(","))
    }
}

/// Formats rows of cells, each as wide as its column.
fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| format!("{cell:>width$}", width = widths[column]);
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(text, "{}", cells.join("  "));
    }
    text
}

/// Returns whether a name goes into JSON unescaped.
fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+/".contains(&byte))
}

fn parse_rail(line: &str) -> Option<((u32, u32, String), Rail)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [from, to, name, packets, bytes, failures, state @ ("up" | "down")] = words[..] else { return None };
    if !is_name(name) {
        return None;
    }
    let [packets, bytes, failures] = [packets.parse().ok()?, bytes.parse().ok()?, failures.parse().ok()?];
    let rail = Rail { packets, bytes, failures, state: state.to_owned() };
    Some(((from.parse().ok()?, to.parse().ok()?, name.to_owned()), rail))
}

fn parse(line: &str) -> Option<((u32, u32, String), Counts)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [from, to, link, messages, bytes, resends] = words[..] else { return None };
    if !is_name(link) {
        return None;
    }
    let counts =
        Counts { messages: messages.parse().ok()?, bytes: bytes.parse().ok()?, resends: resends.parse().ok()? };
    Some(((from.parse().ok()?, to.parse().ok()?, link.to_string()), counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_pair_add_up_and_are_sorted() {
        let mut stats = Stats::default();
        stats.add("1 0 udp 10 1000 2\n0 1 shared 5 50 0\n");
        stats.add("1 0 udp 1 1 1\n\nnonsense\n0 1 \"x\" 1 1 1\n");
        let expected = "from  to    link  messages  bytes  resends\n   0   1  shared         5     50        0\n   1   0     udp        11   1001        3\n(2 unreadable lines of statistics)\n";
        assert_eq!(stats.print(Format::Text), expected);
        let json = stats.print(Format::Json);
        assert!(json.contains(r#"{"from": 1, "to": 0, "link": "udp", "messages": 11, "bytes": 1001, "resends": 3}"#));
        assert_eq!(json.matches("\"from\"").count(), 2);
        assert_eq!(Stats::default().print(Format::Json), "[\n]\n");
        let nothing = Stats::default().print(Format::Text);
        assert!(nothing.starts_with("no statistics: ") && nothing.lines().count() == 1, "{nothing}");
    }

    #[test]
    fn messages_to_other_jobs_add_up_by_link() {
        let mut stats = Stats::default();
        stats.add("0 1 shared 3 24 0\n0 other-jobs shared 7\n1 other-jobs udp 2\n1 other-jobs shared 1\n");
        assert!(stats.print(Format::Text).contains("messages to other jobs: 8 shared, 2 udp\n"));
        assert!(stats.print(Format::Json).contains(r#"{"other-jobs": {"shared": 8, "udp": 2}}"#));
    }

    #[test]
    fn what_was_dropped_adds_up_by_cause_and_is_not_said_when_there_is_nothing() {
        let mut stats = Stats::default();
        stats.add(
            "0 dropped forged 3\n1 dropped forged 4\n1 dropped foreign 1\n1 dropped \"x\" 1\n1 dropped forged -1\n",
        );
        stats.add("0 path-mtu smaller 1\n3 path-mtu smaller 2\n3 path-mtu larger 1\n");
        assert!(stats.print(Format::Text).contains("changes of a path's MTU: 1 larger, 3 smaller\n"));
        assert!(stats.print(Format::Json).contains(r#"{"path-mtu": {"larger": 1, "smaller": 3}}"#));
        stats.add("0 multicast data 9\n2 multicast data 1\n2 multicast probes 4\n");
        assert!(stats.print(Format::Text).contains("packets multicast: 10 data, 4 probes\n"));
        assert!(stats.print(Format::Json).contains(r#"{"multicast": {"data": 10, "probes": 4}}"#));
        assert!(stats.print(Format::Text).contains("packets dropped on arrival: 1 foreign, 7 forged\n"));
        assert!(stats.print(Format::Json).contains(r#"{"dropped": {"foreign": 1, "forged": 7}}"#));
        assert_eq!(stats.unreadable, 2);
        (0..2 * CAUSES_MAX).for_each(|i| stats.add(&format!("0 dropped cause-{i} 1")));
        assert_eq!(stats.dropped.len(), CAUSES_MAX);
        assert!(!Stats::default().print(Format::Text).contains("dropped"));
    }

    #[test]
    fn rails_have_a_table_of_their_own() {
        let mut stats = Stats::default();
        stats.add("0 1 ethernet+udp 1 9 0\nrail 0 1 e1 7 900 1 down\nrail 0 1 e0 8 1000 0 up\nrail 0 1 e2 1 1 1 ill\n");
        let text = stats.print(Format::Text);
        let expected = "\nfrom  to  interface  packets  bytes  failures  state\n   0   1         e0        8   1000         0     up\n   0   1         e1        7    900         1   down\n(1 unreadable line of statistics)\n";
        assert!(text.ends_with(expected), "{text}");
        let json = stats.print(Format::Json);
        assert!(json.contains(
            r#"{"from": 0, "to": 1, "interface": "e1", "packets": 7, "bytes": 900, "failures": 1, "state": "down"}"#
        ));
    }
}
