//! The machine: its description, and its state around each job.

use std::fs;
use std::time::Instant;

use crate::record::Condition;

/// Takes the machine's state; remembers the processors' times from one look to the next.
pub(crate) struct Observer {
    began: Instant,
    times: (u64, u64),
}

impl Observer {
    pub(crate) fn new(began: Instant) -> Observer {
        Observer { began, times: processor_times(&read("/proc/stat")) }
    }

    /// The state now, between jobs: the only runnable process of ours is this one.
    pub(crate) fn look(&mut self) -> Condition {
        let (load, runnable) = load(&read("/proc/loadavg"));
        let (steal, all) = processor_times(&read("/proc/stat"));
        let (steal_before, all_before) = std::mem::replace(&mut self.times, (steal, all));
        let passed = all.saturating_sub(all_before);
        let stolen = steal.saturating_sub(steal_before);
        Condition {
            at: self.began.elapsed().as_secs_f64(),
            load,
            strangers: runnable.saturating_sub(1),
            megahertz: megahertz(&read("/proc/cpuinfo")),
            steal_percent: if passed == 0 { 0.0 } else { 100.0 * stolen as f64 / passed as f64 },
        }
    }
}

/// Facts about the machine, as far as it tells them.
pub(crate) fn machine() -> Vec<(String, String)> {
    let cpuinfo = read("/proc/cpuinfo");
    let memory = field(&read("/proc/meminfo"), "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let system = read("/etc/os-release");
    let system =
        system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"').into());
    let kernel = Some(read("/proc/sys/kernel/osrelease").trim().to_owned()).filter(|text| !text.is_empty());
    let facts = [
        ("processor", field(&cpuinfo, "model name")),
        ("processors", Some(super::place::processors().to_string())),
        ("memory", memory.map(|kib| format!("{:.1} GiB", kib as f64 / 1_048_576.0))),
        ("kernel", kernel.map(|kernel| format!("Linux {kernel}"))),
        ("system", system),
        (
            "virtual",
            field(&cpuinfo, "flags").map(|flags| if flags.contains("hypervisor") { "yes" } else { "no" }.into()),
        ),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value` that has this name.
fn field(text: &str, name: &str) -> Option<String> {
    let named = |line: &str| {
        Some((line.split_once(':')?.0.trim() == name).then_some(line.split_once(':')?.1.trim().to_owned()))
    };
    text.lines().find_map(|line| named(line).flatten())
}

fn megahertz(cpuinfo: &str) -> Vec<f64> {
    let lines = cpuinfo.lines().filter(|line| line.starts_with("cpu MHz"));
    lines.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()).collect()
}

/// The load of the last minute and the runnable processes: `0.61 0.53 0.42 2/345 6789`, proc_loadavg(5).
fn load(text: &str) -> (f64, u32) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let load = words.first().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let runnable = words.get(3).and_then(|word| word.split_once('/')?.0.parse().ok()).unwrap_or(0);
    (load, runnable)
}

/// Stolen and all ticks of the line `cpu user nice system idle iowait irq softirq steal …`, proc_stat(5).
fn processor_times(text: &str) -> (u64, u64) {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> =
        line.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    (ticks.get(7).copied().unwrap_or(0), ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_understood() {
        assert_eq!(load("0.61 0.53 0.42 3/345 6789\n"), (0.61, 3));
        assert_eq!(processor_times("cpu  10 0 20 60 0 0 0 10 0 0\ncpu0 1 1\n"), (10, 100));
        assert_eq!(megahertz("cpu MHz\t\t: 2500.5\nflags : x\ncpu MHz\t: 1000\n"), [2500.5, 1000.0]);
        assert_eq!(field("model name\t: A CPU\nflags\t: a b\n", "flags").as_deref(), Some("a b"));
        assert_eq!((load(""), processor_times("")), ((0.0, 0), (0, 0)));
    }

    #[test]
    fn this_machine_tells_something() {
        assert!(machine().iter().any(|(name, _)| name == "processors"));
        let condition = Observer::new(Instant::now()).look();
        assert!(condition.load >= 0.0 && (0.0..=100.0).contains(&condition.steal_percent));
    }
}
