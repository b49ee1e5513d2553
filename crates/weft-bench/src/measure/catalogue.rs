//! The list of measurements.

/// The pace of a job: rounds repeat it, so one job takes few samples.
const SHORT: &[&str] = &["--samples", "2", "--seconds", "0.02"];
/// The pace of an availability sweep, which has about fifty points.
const SWEEP: &[&str] = &["--samples", "1", "--seconds", "0.004"];
/// The pace of files: an iteration moves megabytes.
const FILES: &[&str] = &["--samples", "2", "--seconds", "0.05"];
/// The pace of one-sided operations at a target that computes for a second in each sample.
const COMPUTING: &[&str] = &["--samples", "2"];
const NAS: &[&str] = &["--samples", "1", "--class", "W"];
const WAIT: &[&str] = &["--samples", "1", "--seconds", "0.5"];

/// The way in which a figure is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The program prints samples.
    Printed,
    /// The time from the start of `mpiexec` to its end is measured; the program only starts and ends.
    Launch,
}

/// The description of a measurement.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    /// The file in bench/programs, without `.c`.
    pub(crate) program: &'static str,
    /// The default options; the user's options come later and win.
    pub(crate) arguments: &'static [&'static str],
    /// The least number of ranks with which the measurement makes sense.
    pub(crate) ranks_min: u32,
    pub(crate) unit: &'static str,
    pub(crate) has_sizes: bool,
    pub(crate) method: Method,
}

const fn sized(name: &'static str, unit: &'static str) -> Measurement {
    Measurement { name, program: name, arguments: SHORT, ranks_min: 2, unit, has_sizes: true, method: Method::Printed }
}

const fn unsized_(name: &'static str, unit: &'static str, arguments: &'static [&'static str]) -> Measurement {
    Measurement { name, program: name, arguments, ranks_min: 2, unit, has_sizes: false, method: Method::Printed }
}

/// All measurements, in the order of explanations.
pub(crate) const MEASUREMENTS: &[Measurement] = &[
    sized("pingpong", "us"),
    sized("bandwidth", "MB/s"),
    sized("bibandwidth", "MB/s"),
    sized("rate", "messages/s"),
    sized("rate_threads", "messages/s"),
    sized("sendrecv", "MB/s"),
    sized("exchange", "MB/s"),
    sized("halo", "us"),
    sized("exchange_threads", "us"),
    unsized_("barrier", "us", SHORT),
    sized("bcast", "us"),
    sized("bcast_throughput", "us"),
    sized("bcast_skew", "us"),
    sized("allreduce", "us"),
    sized("allgather", "us"),
    sized("alltoall", "us"),
    sized("reduce", "us"),
    sized("reducescatter", "us"),
    Measurement { ranks_min: 1, ..sized("reduce_local", "MB/s") },
    sized("put_latency", "us"),
    sized("get_latency", "us"),
    sized("fetch_latency", "us"),
    Measurement { arguments: COMPUTING, ..sized("get_computing", "us") },
    sized("put_bandwidth", "MB/s"),
    sized("get_bandwidth", "MB/s"),
    sized("put_rate", "messages/s"),
    Measurement { ranks_min: 1, ..unsized_("startup", "ms", &[]) },
    Measurement { program: "startup", ranks_min: 1, method: Method::Launch, ..unsized_("launch", "ms", &[]) },
    Measurement { ranks_min: 1, ..unsized_("spawn", "us", SHORT) },
    unsized_("connect", "us", SHORT),
    Measurement { arguments: FILES, ranks_min: 1, ..sized("file_write", "MB/s") },
    Measurement { arguments: FILES, ranks_min: 1, ..sized("file_read", "MB/s") },
    Measurement { arguments: FILES, ranks_min: 1, ..sized("file_write_all", "MB/s") },
    Measurement { arguments: FILES, ranks_min: 1, ..sized("file_read_all", "MB/s") },
    Measurement { arguments: FILES, ranks_min: 1, ..sized("file_availability", "percent") },
    Measurement { ranks_min: 1, ..unsized_("file_open", "us", SHORT) },
    unsized_("waitcpu", "s", WAIT),
    Measurement { ranks_min: 1, ..unsized_("memory", "MiB", &[]) },
    Measurement { arguments: SWEEP, ..sized("availability", "percent") },
    Measurement { ranks_min: 1, ..unsized_("nas_is", "Mop/s", NAS) },
    Measurement { ranks_min: 1, ..unsized_("nas_cg", "Mop/s", NAS) },
];

/// The measurement of that name, or a sentence with the nearest name and all names.
pub(crate) fn find(name: &str) -> Result<&'static Measurement, String> {
    if let Some(found) = MEASUREMENTS.iter().find(|known| known.name == name) {
        return Ok(found);
    }
    let near = MEASUREMENTS.iter().max_by(|a, b| strsim::jaro(a.name, name).total_cmp(&strsim::jaro(b.name, name)));
    let near = near.filter(|near| strsim::jaro(near.name, name) > 0.7);
    let near = near.map(|near| format!(" (did you mean {}?)", near.name)).unwrap_or_default();
    let all: Vec<&str> = MEASUREMENTS.iter().map(|known| known.name).collect();
    Err(format!("no measurement is called {name:?}{near}; there are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_told_the_nearest() {
        assert_eq!(find("barrier").unwrap().program, "barrier");
        let near = find("pinpong").unwrap_err();
        assert!(
            near.starts_with("no measurement is called \"pinpong\" (did you mean pingpong?); there are "),
            "{near}"
        );
        let strange = find("xyzzy").unwrap_err();
        assert!(!strange.contains("did you mean") && strange.contains("nas_cg"));
    }
}
