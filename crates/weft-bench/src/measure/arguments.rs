//! The arguments that `weft compare`, `weft bench` and `weft availability` share.

use std::path::PathBuf;

use clap::Args;

use super::catalogue::{self, Measurement};
use super::library::Specs;
use super::place::{HOSTS_MAX, PlannedPlace, RANKS_MAX};
use super::reached::Reached;
use crate::hosts::loss::Loss;

const ROUNDS_MAX: i64 = 1000;
/// Seconds that one job may take, unless told otherwise.
const LIMIT_SECONDS: u32 = 60;
const LIMIT_SECONDS_MAX: i64 = 24 * 3600;

#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Libraries: NAME, NAME=PREFIX or NAME:VARIABLE=VALUE,…; names that need no prefix are weft, mpich,
    /// openmpi and impi
    #[arg(long, value_name = "LIBRARY,…")]
    pub(crate) library: Vec<Specs>,
    /// The number of hosts: 1 is this machine as it is, 2 to 8 are virtual hosts; several numbers make
    /// several places [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub(crate) hosts: Vec<u32>,
    /// Hosts to measure on, reached by ssh, in the place of virtual ones; `allocation`: those of a batch
    /// system. All must see the directory of built programs
    #[arg(long, value_delimiter = ',', value_name = "HOST,…", conflicts_with_all = ["hosts", "rate", "loss"])]
    pub(crate) on: Vec<String>,
    /// Ranks in all [default: 2, or one on each host]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub(crate) ranks: Vec<u32>,
    /// The rate at which each virtual host may send, as `tc` calls it; `none` is as quick as the machine
    #[arg(long, value_delimiter = ',', value_name = "10gbit,…")]
    pub(crate) rate: Vec<String>,
    /// Share of frames that each virtual host drops on arrival; `none` is none
    #[arg(long, value_delimiter = ',', value_name = "1%,…")]
    pub(crate) loss: Vec<String>,
    /// Seconds that one job may take
    #[arg(long, default_value_t = LIMIT_SECONDS, value_parser = clap::value_parser!(u32).range(1..=LIMIT_SECONDS_MAX), value_name = "SECONDS")]
    pub(crate) limit: u32,
    /// Message sizes in bytes (k, m: 1024, 1048576)
    #[arg(long, value_name = "A,B,…")]
    pub(crate) sizes: Option<String>,
    /// Samples of each size in a job
    #[arg(long)]
    pub(crate) samples: Option<u32>,
    /// Aimed length of a sample
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Write the run file here
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Say nothing but the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print the result as CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Options for the measured programs, after `--`
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) program_options: Vec<String>,
}

/// The number of repetitions.
#[derive(Args, Clone, Debug)]
pub(crate) struct Rounds {
    /// Rounds; in each, all libraries take their turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    pub(crate) rounds: u32,
}

/// The request that a session carries out.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) measurements: Vec<&'static Measurement>,
    pub(crate) places: Vec<PlannedPlace>,
    pub(crate) rounds: u32,
    pub(crate) carriers: bool,
    pub(crate) limit_seconds: u32,
    /// Options that all programs understand, and the sizes for programs that have sizes.
    pub(crate) options: Vec<String>,
    pub(crate) sizes: Option<String>,
    pub(crate) is_quiet: bool,
}

impl Common {
    /// The request that the arguments make, or a sentence that says which argument makes no sense.
    pub(crate) fn request(&self, names: &[String], rounds: u32, carriers: bool) -> Result<Request, String> {
        let mut measurements: Vec<&Measurement> = Vec::new();
        for name in names {
            let found = catalogue::find(name)?;
            if !measurements.iter().any(|known| known.name == found.name) {
                measurements.push(found);
            }
        }
        let mut options = Vec::new();
        if let Some(samples) = self.samples {
            options.extend(["--samples".to_owned(), samples.to_string()]);
        }
        if let Some(seconds) = self.seconds {
            options.extend(["--seconds".to_owned(), seconds.to_string()]);
        }
        options.extend(self.program_options.clone());
        Ok(Request {
            measurements,
            places: self.places()?,
            rounds,
            carriers,
            limit_seconds: self.limit,
            options,
            sizes: self.sizes.clone(),
            is_quiet: self.quiet,
        })
    }

    /// All places, each once.
    fn places(&self) -> Result<Vec<PlannedPlace>, String> {
        if !self.on.is_empty() {
            return self.places_by_name();
        }
        let rates = alternatives(&self.rate, |rate| Ok(rate.to_owned()))?;
        let hosts = if self.hosts.is_empty() { &[1][..] } else { &self.hosts };
        let losses =
            alternatives(&self.loss, |loss| loss.parse::<Loss>().map_err(|why| format!("--loss {loss}: {why}")))?;
        if (!self.rate.is_empty() || !self.loss.is_empty()) && hosts.iter().all(|hosts| *hosts == 1) {
            return Err("--rate and --loss shape the wires between virtual hosts; say --hosts 2".into());
        }
        let mut places: Vec<PlannedPlace> = Vec::new();
        for &hosts in hosts {
            if !(1..=HOSTS_MAX).contains(&hosts) {
                return Err(format!("--hosts {hosts}: this machine, or from 2 to {HOSTS_MAX} virtual hosts"));
            }
            let ranks = if self.ranks.is_empty() { vec![hosts.max(2)] } else { self.ranks.clone() };
            for ranks in ranks {
                if !(hosts..=RANKS_MAX).contains(&ranks) {
                    return Err(format!("--ranks {ranks}: {hosts} hosts have from {hosts} to {RANKS_MAX} ranks"));
                }
                for (rate, loss) in rates.iter().flat_map(|rate| losses.iter().map(move |loss| (rate, loss))) {
                    let (rate, loss) = if hosts == 1 { (None, None) } else { (rate.clone(), *loss) };
                    let place = PlannedPlace { hosts, ranks, reached: None, rate, loss };
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
            }
        }
        Ok(places)
    }

    /// The places on hosts that exist already.
    fn places_by_name(&self) -> Result<Vec<PlannedPlace>, String> {
        let reached = Reached::of(&self.on)?;
        let hosts = reached.names.len() as u32;
        let most = RANKS_MAX.max(hosts);
        let mut all = if self.ranks.is_empty() { vec![hosts] } else { self.ranks.clone() };
        all.dedup();
        if let Some(ranks) = all.iter().find(|ranks| !(hosts..=most).contains(ranks)) {
            return Err(format!("--ranks {ranks}: {hosts} hosts have from {hosts} to {most} ranks"));
        }
        let place = |ranks| PlannedPlace { hosts, ranks, reached: Some(reached.clone()), rate: None, loss: None };
        Ok(all.into_iter().map(place).collect())
    }
}

/// Parses a list of values that may contain `none`; an empty list is the same as `none`.
fn alternatives<T>(words: &[String], parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<Option<T>>, String> {
    if words.is_empty() {
        return Ok(vec![None]);
    }
    words.iter().map(|word| if word == "none" { Ok(None) } else { parse(word).map(Some) }).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        common: Common,
    }

    fn request(line: &str) -> Result<Request, String> {
        let words = ["compare"].into_iter().chain(line.split_whitespace());
        let common = Line::try_parse_from(words).map_err(|error| error.to_string())?.common;
        common.request(&["pingpong".into(), "barrier".into(), "pingpong".into()], 5, true)
    }

    fn places(line: &str) -> Vec<String> {
        request(line).unwrap().places.iter().map(PlannedPlace::id).collect()
    }

    #[test]
    fn places_are_combined_and_each_is_there_once() {
        assert_eq!(places(""), ["1-host-2-ranks"]);
        assert_eq!(places("--hosts 1,4"), ["1-host-2-ranks", "4-hosts-4-ranks"]);
        assert_eq!(
            places("--hosts 1,2 --rate none,10gbit"),
            ["1-host-2-ranks", "2-hosts-2-ranks", "2-hosts-2-ranks-10gbit"]
        );
        assert_eq!(places("--on a,b --ranks 2,4"), ["2-hosts-2-ranks-by-name", "2-hosts-4-ranks-by-name"]);
        assert_eq!(places("--hosts 2 --ranks 2,8 --loss 1%"), ["2-hosts-2-ranks-loss-1%", "2-hosts-8-ranks-loss-1%"]);
    }

    #[test]
    fn nonsense_is_one_sentence() {
        for (line, word) in [
            ("--hosts 9", "2 to 8"),
            ("--hosts 0", "--hosts 0"),
            ("--hosts 4 --ranks 3", "from 4"),
            ("--rate 10gbit", "--hosts 2"),
            ("--on a", "from 2"),
            ("--on a,b --hosts 2", "cannot be used with"),
            ("--on a,b --ranks 1", "from 2 to"),
            ("--hosts 2 --loss all", "--loss all"),
            ("--library a=", "names no library"),
            ("--limit 0", "1..=86400"),
            ("--json --csv", "cannot be used with"),
        ] {
            let why = request(line).unwrap_err();
            assert!(why.contains(word), "{line:?} says {why:?}");
        }
    }

    #[test]
    fn options_reach_the_programs() {
        let request = request("--samples 3 --seconds 0.5 --sizes 8,1k -- --window 4").unwrap();
        assert_eq!(request.options.join(" "), "--samples 3 --seconds 0.5 --window 4");
        assert_eq!(request.sizes.as_deref(), Some("8,1k"));
        assert_eq!(request.measurements.len(), 2);
    }
}
