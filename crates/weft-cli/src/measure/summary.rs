//! A plain summary of a run file: medians by measurement, place, size and library, and what gave no figure.

use std::collections::BTreeMap;
use std::path::Path;

use crate::record::{Outcome, Record};

/// Prints the summary of the run file at `path` to standard output.
pub(crate) fn print(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut figures: BTreeMap<(String, String, String, u64, String), Vec<f64>> = BTreeMap::new();
    let mut troubles: BTreeMap<(String, String, String), String> = BTreeMap::new();
    for record in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match record {
            Record::Sample(sample)
                if sample.line["valid"] == true && sample.line["measurement"] != "availability_sample" =>
            {
                let field =
                    |name: &str| sample.line.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
                let name = format!("{} {}", field("measurement"), field("direction"));
                let size = sample.line["size"].as_u64().unwrap_or(0);
                let key = (name, sample.place.clone(), field("unit"), size, sample.library.clone());
                figures.entry(key).or_default().extend(sample.line["value"].as_f64());
            }
            Record::Job(job) if job.outcome != Outcome::Succeeded => {
                let key = (job.measurement, job.place, job.library);
                troubles.entry(key).or_insert_with(|| format!("{:?}: {}", job.outcome, job.why.unwrap_or_default()));
            }
            _ => {}
        }
    }
    for ((measurement, place, unit, size, library), values) in &mut figures {
        values.sort_by(f64::total_cmp);
        let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
        println!("{measurement:16} {place:28} {size:>9} B  {library:24} {median:>12.2} {unit}");
    }
    for ((measurement, place, library), why) in troubles {
        println!("{measurement:16} {place:28} {library:24} {why}");
    }
    Ok(())
}
