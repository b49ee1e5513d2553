//! The hosts of a Flux instance: `flux resource R` prints them as a resource set (Flux RFC 20).
//!
//! A host is reached by the rank of its broker. Only the lists of ranks, cores and hosts are read.

use super::{HOSTS_MAX, Surroundings, expand};
use crate::hosts::{self, Host};

/// The hosts of the instance that the variable FLUX_URI leads to, each with as many slots as cores.
pub(super) fn hosts(surroundings: &Surroundings<'_>) -> Result<Option<Vec<Host>>, String> {
    if (surroundings.variable)("FLUX_URI").is_none() {
        return Ok(None);
    }
    let text = (surroundings.run)(&["flux", "resource", "R"])?;
    of_resources(&text).map(Some)
}

/// Reads the hosts of a resource set.
fn of_resources(text: &str) -> Result<Vec<Host>, String> {
    let list = |name: &str| {
        let behind = text.split_once(&format!("\"{name}\""))?.1.trim_start().strip_prefix(':')?;
        bracketed(behind.trim_start())
    };
    let missing = |name: &str| format!("`flux resource R` says no {name}");
    let lists: Vec<String> = strings(list("nodelist").ok_or_else(|| missing("nodelist"))?).collect();
    let names = expand(&lists.join(","))?;
    // The ranks in the order of their numbers, each with its cores.
    let mut brokers: Vec<(u32, u32)> = Vec::new();
    for entry in list("R_lite").ok_or_else(|| missing("R_lite"))?.split("\"rank\"").skip(1) {
        let ranks = numbers(&strings(entry).next().ok_or_else(|| missing("rank"))?)?;
        let cores = entry.split_once("\"core\"").and_then(|(_, behind)| strings(behind).next());
        let cores = cores.map_or(Ok(1), |cores| numbers(&cores).map(|cores| cores.len()))?;
        let cores = hosts::parse_slots(&cores.to_string())?;
        brokers.extend(ranks.into_iter().map(|rank| (rank, cores)));
        if brokers.len() > HOSTS_MAX {
            return Err(format!("more than {HOSTS_MAX} hosts"));
        }
    }
    brokers.sort_unstable();
    if brokers.is_empty() || brokers.len() != names.len() {
        return Err(format!("`flux resource R` says {} ranks and {} hosts", brokers.len(), names.len()));
    }
    let mut list = Vec::new();
    for (name, (rank, cores)) in names.iter().zip(brokers) {
        let named = hosts::parse_list(name)?.remove(0);
        let before = list.iter().any(|host: &Host| host.name == named.name);
        // Of several brokers of one host the first starts its agent.
        let reached_as = (!before).then(|| rank.to_string());
        hosts::add(&mut list, Host { slots: Some(cores), reached_as, ..named });
    }
    Ok(list)
}

/// The text up to the bracket that closes the first one.
fn bracketed(text: &str) -> Option<&str> {
    let (mut depth, mut in_string) = (0_u32, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => in_string = !in_string,
            '[' if !in_string => depth += 1,
            ']' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(&text[..at]);
                }
            }
            _ => {}
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

/// The strings in the text. Names of hosts and numbers hold no quotes.
fn strings(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('"').skip(1).step_by(2).map(str::to_owned)
}

/// The numbers of a set such as `0-3,7`.
fn numbers(set: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("`{set}` is no set of numbers");
    let mut all = Vec::new();
    for item in set.trim_matches(['[', ']']).split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if last < first || (last - first) as usize >= HOSTS_MAX {
            return Err(wrong());
        }
        all.extend(first..=last);
        if all.len() > HOSTS_MAX {
            return Err(wrong());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Vec<String>, String> {
        let show = |host: Host| {
            format!("{}:{} by {}", host.name, host.slots.unwrap_or(0), host.reached_as.unwrap_or_default())
        };
        Ok(of_resources(text)?.into_iter().map(show).collect())
    }

    #[test]
    fn resource_sets_say_hosts_and_cores() {
        let even = r#"{"version": 1, "execution": {"R_lite": [{"rank": "0-2", "children": {"core": "0-3", "gpu": "0"}}],
                       "starttime": 0.0, "expiration": 0.0, "nodelist": ["n[08-10]"]}}"#;
        assert_eq!(found(even).expect("hosts"), ["n08:4 by 0", "n09:4 by 1", "n10:4 by 2"]);
        let uneven = r#"{"execution":{"nodelist":["a","b[1,3]"],"R_lite":[{"rank":"2","children":{"core":"0,4-6"}},
                         {"rank":"[0-1]","children":{"core":"0-7"}}]},"version":1}"#;
        assert_eq!(found(uneven).expect("hosts"), ["a:8 by 0", "b1:8 by 1", "b3:4 by 2"]);
        let same = r#"{"R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}], "nodelist": ["a", "a"]}"#;
        assert_eq!(found(same).expect("hosts"), ["a:4 by 0"]);
    }

    #[test]
    fn what_is_no_resource_set_is_said() {
        for text in [
            "",
            "{}",
            r#"{"R_lite": [], "nodelist": []}"#,
            r#"{"R_lite": [{"rank": "0"}], "nodelist": ["a", "b"]}"#,
            r#"{"R_lite": [{"rank": "x"}], "nodelist": ["a"]}"#,
            r#"{"R_lite": [{"rank": "0-99999999"}], "nodelist": ["a"]}"#,
            r#"{"R_lite": [{"rank": "3-1"}], "nodelist": ["a"]}"#,
            r#"{"R_lite": [{"rank": "0"}], "nodelist": ["a"#,
            r#"{"R_lite": 5, "nodelist": ["a"]}"#,
            r#"{"R_lite": [{"rank": "0"}], "nodelist": ["-x"]}"#,
        ] {
            assert!(found(text).is_err(), "{text}");
        }
    }
}
