//! Judges a job by its exit status and its output.

use serde_json::{Map, Value};

use super::process::{Ending, Finished};
use crate::record::Outcome;

/// The exit status by which the programs of bench/carriers say that something is missing here.
const EXIT_MISSING: i32 = 77;
/// The longest reason: one sentence, not a page.
const WHY_CHARACTERS_MAX: usize = 240;

/// A job's samples and its verdict.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) samples: Vec<Map<String, Value>>,
    pub(crate) outcome: Outcome,
    pub(crate) why: Option<String>,
}

/// Judges a job that had `limit_seconds`.
pub(crate) fn judge(finished: &Finished, limit_seconds: f64) -> Verdict {
    let mut samples = Vec::new();
    let mut stray = None;
    for line in &finished.lines {
        match sample(line) {
            Some(sample) => samples.push(sample),
            None => stray = stray.or(Some(line)),
        }
    }
    let (outcome, why) = match finished.ending {
        Ending::Interrupted => (Outcome::Interrupted, Some("the run was interrupted".to_owned())),
        Ending::TimedOut => (Outcome::TimedOut, Some(format!("it did not end in {limit_seconds} s"))),
        Ending::Code(code) => ended(code, &samples, stray, &finished.complaints),
    };
    Verdict { samples, outcome, why: why.map(|why| shortened(&why)) }
}

impl Verdict {
    /// Requires that the measured bytes crossed the wire: virtual hosts are one machine, and a library that
    /// finds out takes a shorter way. `sent_bytes`: the bytes that all hosts have sent during the job.
    pub(crate) fn require_wire(&mut self, sent_bytes: u64) {
        let number = |sample: &Map<String, Value>, name: &str| sample.get(name).and_then(Value::as_u64).unwrap_or(0);
        let carried = |sample: &Map<String, Value>| number(sample, "size").saturating_mul(number(sample, "iterations"));
        // The limit is half of the bytes: a reduction may send less than the size by which it is named.
        let expected = self.samples.iter().map(carried).fold(0, u64::saturating_add) / 2;
        if sent_bytes >= expected {
            return;
        }
        let why =
            format!("its messages did not cross the wire: {sent_bytes} bytes did, where {expected} are the least");
        for sample in &mut self.samples {
            sample.insert("valid".into(), false.into());
            sample.insert("why".into(), why.clone().into());
        }
        if self.outcome == Outcome::Succeeded {
            self.outcome = Outcome::Failed;
            self.why = Some(why);
        }
    }
}

fn ended(
    code: i32,
    samples: &[Map<String, Value>],
    stray: Option<&String>,
    complaints: &[String],
) -> (Outcome, Option<String>) {
    let invalid = samples.iter().find(|sample| sample["valid"] != true);
    let reason =
        invalid.map(|sample| sample.get("why").and_then(Value::as_str).unwrap_or("a sample is not valid").to_owned());
    let has_figure = samples.iter().any(|sample| sample["value"].is_number());
    let last_word = || useful(complaints).map_or_else(|| format!("it ended with {code}"), str::to_owned);
    match (code, reason) {
        (EXIT_MISSING, _) => (Outcome::Unsupported, Some(last_word())),
        // The programs themselves report a library or a number of ranks that does not suit them.
        (_, Some(reason)) if !has_figure && (code == 0 || reason.starts_with("needs ")) => {
            (Outcome::Unsupported, Some(reason))
        }
        (_, Some(reason)) => (Outcome::Failed, Some(reason)),
        (0, None) => match stray {
            Some(line) => (Outcome::Failed, Some(format!("it printed what is no sample: {line}"))),
            None if samples.is_empty() => (Outcome::Failed, Some("it printed no sample".into())),
            None => (Outcome::Succeeded, None),
        },
        (_, None) => (Outcome::Failed, Some(last_word())),
    }
}

fn sample(line: &str) -> Option<Map<String, Value>> {
    let sample: Map<String, Value> = serde_json::from_str(line).ok()?;
    let is_whole =
        ["measurement", "size", "ranks", "unit", "value", "valid"].iter().all(|field| sample.contains_key(*field));
    is_whole.then_some(sample)
}

/// The most useful line of a complaint: the first that names an error, else the last that is no ornament.
pub(crate) fn useful(complaints: &[String]) -> Option<&str> {
    const SIGNS: [&str; 8] = ["error", "cannot", "fail", "unable", "no such", "refused", "not found", "abort"];
    let says = |line: &&str| line.chars().filter(|c| c.is_alphanumeric()).count() > 3;
    let lines = || complaints.iter().map(|line| line.trim()).filter(says);
    lines().find(|line| SIGNS.iter().any(|sign| line.to_lowercase().contains(sign))).or(lines().next_back())
}

fn shortened(why: &str) -> String {
    match why.char_indices().nth(WHY_CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", &why[..at]),
        None => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn verdict(ending: Ending, lines: &[&str], complaints: &[&str]) -> (Outcome, String, usize) {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let finished =
            Finished { ending, lines: owned(lines), complaints: owned(complaints), elapsed: Duration::from_secs(1) };
        let verdict = judge(&finished, 60.0);
        (verdict.outcome, verdict.why.unwrap_or_default(), verdict.samples.len())
    }

    const GOOD: &str = r#"{"measurement":"rate","size":8,"ranks":2,"unit":"us","value":1.5,"valid":true}"#;
    const WRONG: &str =
        r#"{"measurement":"rate","size":8,"ranks":2,"unit":"us","value":1.5,"valid":false,"why":"byte 3 is 4"}"#;
    const LACKS: &str = r#"{"measurement":"rate","size":8,"ranks":2,"unit":"us","value":null,"valid":false,"why":"needs at least 2 ranks"}"#;

    #[test]
    fn every_end_has_a_verdict() {
        assert_eq!(verdict(Ending::Code(0), &[GOOD, GOOD], &["noise"]), (Outcome::Succeeded, String::new(), 2));
        assert_eq!(verdict(Ending::Code(1), &[GOOD, WRONG], &[]), (Outcome::Failed, "byte 3 is 4".into(), 2));
        assert_eq!(verdict(Ending::Code(1), &[LACKS], &[]), (Outcome::Unsupported, "needs at least 2 ranks".into(), 1));
        assert_eq!(verdict(Ending::Code(77), &[], &["carrier: no right"]).0, Outcome::Unsupported);
        assert_eq!(verdict(Ending::Code(0), &[], &[]), (Outcome::Failed, "it printed no sample".into(), 0));
        assert!(verdict(Ending::Code(0), &[GOOD, "hello"], &[]).1.contains("no sample: hello"));
        assert_eq!(verdict(Ending::TimedOut, &[GOOD], &[]), (Outcome::TimedOut, "it did not end in 60 s".into(), 1));
        assert_eq!(verdict(Ending::Interrupted, &[GOOD], &[]).0, Outcome::Interrupted);
        assert_eq!(verdict(Ending::Code(9), &[], &[]).1, "it ended with 9");
    }

    #[test]
    fn what_takes_a_shorter_way_does_not_count() {
        let line =
            r#"{"measurement":"bandwidth","size":1000,"ranks":2,"unit":"MB/s","value":9,"valid":true,"iterations":10}"#;
        let lines = vec![line.to_owned()];
        let finished = Finished { ending: Ending::Code(0), lines, complaints: vec![], elapsed: Duration::from_secs(1) };
        let mut verdict = judge(&finished, 60.0);
        verdict.require_wire(5000);
        assert_eq!(verdict.outcome, Outcome::Succeeded);
        verdict.require_wire(4999);
        assert_eq!((verdict.outcome, &verdict.samples[0]["valid"]), (Outcome::Failed, &Value::Bool(false)));
        assert!(verdict.why.unwrap().contains("did not cross the wire"));
    }

    #[test]
    fn the_useful_line_of_a_complaint_is_found() {
        let lines = ["-----", "libfoo.so.1: cannot open shared object file", "then more", "====="].map(str::to_owned);
        assert_eq!(useful(&lines), Some(lines[1].as_str()));
        assert_eq!(useful(&["nothing special".to_owned(), "***".into()]), Some("nothing special"));
        assert_eq!(useful(&[]), None);
    }
}
