//! Checks citations of the standard: the cited sections exist, and a comment of the boundary about a
//! procedure cites the section where the standard has it. `spec/sections.txt` lists the sections.

use super::Findings;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const TABLE: &str = "spec/sections.txt";
const MARK: &str = "MPI-5.0 §";
/// The folder where every cited section is one of the standard.
const PROGRAMS: &str = "tests/c/";
/// The folder where comments begin with the procedures that a function implements.
const BOUNDARY: &str = "crates/weft-abi/src/calls/";

/// The sections and procedures that can be cited.
struct Standard {
    sections: BTreeSet<String>,
    /// The sections of each procedure.
    procedures: BTreeMap<String, Vec<String>>,
}

impl Standard {
    fn parse(table: &str) -> Self {
        let mut standard = Self { sections: BTreeSet::new(), procedures: BTreeMap::new() };
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let (section, procedures) = line.split_once(" | ").unwrap_or((line, ""));
            let section = section.split(' ').next().unwrap_or_default().to_owned();
            for procedure in procedures.split_whitespace() {
                standard.procedures.entry(procedure.to_owned()).or_default().push(section.clone());
            }
            standard.sections.insert(section);
        }
        standard
    }

    /// The faults in a line of a file.
    fn faults(&self, path: &str, line: &str) -> Vec<String> {
        let mut cited = citations(line, MARK);
        if path.starts_with(PROGRAMS) {
            cited.extend(citations(line, "§"));
            cited.extend(citations(line, "STORY(\""));
        }
        let strange = cited.iter().filter(|section| !self.sections.contains(**section));
        let mut faults: Vec<String> =
            strange.map(|section| format!("{path}: MPI-5.0 has no section {section} ({TABLE})")).collect();
        let Some((procedures, rest)) =
            line.trim_start().strip_prefix("/// MPI_").and_then(|line| line.split_once(" ("))
        else {
            return faults;
        };
        if path.starts_with(BOUNDARY) && rest.starts_with(MARK) {
            for procedure in procedures.split(", ").map(|name| format!("MPI_{}", name.trim_start_matches("MPI_"))) {
                let found = self.procedures.get(&procedure);
                if let Some(right) =
                    found.filter(|right| !right.iter().any(|section| cited.contains(&section.as_str())))
                {
                    faults
                        .push(format!("{path}: {procedure} is in section {} of MPI-5.0 ({TABLE})", right.join(" or ")));
                }
            }
        }
        faults
    }
}

/// The sections that follow a mark, one or several: `§3.4, §3.9`.
fn citations<'a>(line: &'a str, mark: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(mark) {
        let mut rest = &line[at + mark.len()..];
        loop {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let section = rest[..end].trim_end_matches('.');
            if section.is_empty() {
                break;
            }
            found.push(section);
            rest = &rest[end..];
            match [", §", " and §", " and "].iter().find_map(|between| rest.strip_prefix(between)) {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    found
}

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let standard = Standard::parse(&std::fs::read_to_string(root.join(TABLE)).context(TABLE)?);
    for file in files {
        let path = file.to_string_lossy();
        if ["rs", "c", "h", "md", "txt"].iter().any(|end| path.ends_with(&format!(".{end}"))) {
            let text = std::fs::read_to_string(root.join(file)).with_context(|| path.to_string())?;
            findings.broken.extend(text.lines().flat_map(|line| standard.faults(&path, line)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cited_must_be_there_and_procedures_where_they_are() {
        let table = "# a table\n3.2.1 Blocking Send | MPI_Send\n3.4 Modes | MPI_Ssend MPI_Rsend\n16.4 Deprecated\n";
        let standard = Standard::parse(table);
        let of = |path: &str, line: &str| standard.faults(path, line).len();
        assert_eq!(of("a.rs", "as it should (MPI-5.0 §3.2.1, §3.4), and RFC 9000 §99.9"), 0);
        assert_eq!(of("a.rs", "(MPI-5.0 §3.2.1, §3.5 and §16.4)"), 1);
        assert_eq!(of("tests/c/a.c", "STORY(\"3.4 one\"); /* §3.2.2. */"), 1);
        assert_eq!(of("tests/c/a.c", "    STORY(\"3.9 another\");"), 1);
        assert_eq!(of(&format!("{BOUNDARY}a.rs"), "/// MPI_Send, MPI_Ssend (MPI-5.0 §3.2.1, §3.4)."), 0);
        assert_eq!(of(&format!("{BOUNDARY}a.rs"), "/// MPI_Send, MPI_Ssend (MPI-5.0 §3.4)."), 1);
        assert_eq!(of(&format!("{BOUNDARY}a.rs"), "/// MPI_Own (MPI-5.0 §3.4)."), 0);
    }
}
