//! The journeys of ARCHITECTURE.md: lists of functions in the order of the call, each with its file.
//!
//! A journey is a block of text between fences. Each line has a function, its file from `crates/` on, and a
//! remark. A function calls those that are indented below it. Every file must be there, and have a function
//! of that name. Calls only go downwards: to functions of the same crate, or of a crate that this one may
//! use. The one exception is a trait of [`TRAITS`]: a crate above implements it, so a call of its method goes
//! up to that crate.

use super::Findings;
use super::arrows;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The heading of the section with the journeys.
const HEADING: &str = "## Three journeys";
/// The folder of the traits that crates above implement.
const TRAITS: &str = "weft-engine/src/transport/";

/// A function of a journey.
#[derive(Debug, PartialEq)]
struct Step {
    depth: usize,
    function: String,
    /// The path of the file, from `crates/` on.
    file: String,
}

impl Step {
    fn package(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }
}

pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<()> {
    let Ok(document) = std::fs::read_to_string(root.join(DOCUMENT)) else { return Ok(()) };
    let journeys = parse(&document);
    if journeys.is_empty() {
        findings.broken.push(format!("{DOCUMENT}: no journeys under {HEADING:?}"));
    }
    let uses: BTreeMap<String, BTreeSet<String>> =
        arrows::packages(root)?.into_iter().map(|(name, package)| (name, package.uses)).collect();
    let mut functions = BTreeMap::new();
    for step in journeys.iter().flatten() {
        let known =
            functions.entry(step.file.clone()).or_insert_with(|| functions_of(&root.join("crates").join(&step.file)));
        if !known.contains(&step.function) {
            findings.broken.push(format!("{DOCUMENT}: crates/{} has no function {}", step.file, step.function));
        }
    }
    let climbs = journeys.iter().flat_map(|journey| climbs(journey, &uses));
    findings.broken.extend(climbs.map(|climb| format!("{DOCUMENT}: {climb}")));
    Ok(())
}

/// The journeys of a document.
fn parse(document: &str) -> Vec<Vec<Step>> {
    let Some((_, section)) = document.split_once(&format!("{HEADING}\n")) else { return Vec::new() };
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```").skip(1).step_by(2);
    let step = |line: &str| {
        let mut words = line.split_whitespace();
        let (function, file) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Step { depth: line.len() - line.trim_start().len(), function, file })
    };
    blocks.map(|block| block.lines().filter_map(step).collect()).collect()
}

/// The names of all functions in a file, including functions of traits and functions that a macro exports;
/// empty if there is no such file.
fn functions_of(file: &Path) -> BTreeSet<String> {
    let mut reader = Reader { found: BTreeSet::new() };
    if let Ok(parsed) = std::fs::read_to_string(file).map(|text| syn::parse_file(&text))
        && let Ok(parsed) = parsed
    {
        reader.visit_file(&parsed);
    }
    reader.found
}

struct Reader {
    found: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.found.insert(signature.ident.to_string());
        visit::visit_signature(self, signature);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let tokens: Vec<String> = item.mac.tokens.clone().into_iter().map(|token| token.to_string()).collect();
        // The input of `entry! { MPI_Send PMPI_Send(…) … }`, and traits in a macro's input.
        self.found.extend(tokens.first().cloned());
        self.found.extend(named_in(item.mac.tokens.clone()));
    }
}

/// The names behind each `fn` in a macro's input.
fn named_in(tokens: proc_macro2::TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = String::new();
    for token in tokens {
        if let proc_macro2::TokenTree::Group(group) = &token {
            found.extend(named_in(group.stream()));
        }
        let text = token.to_string();
        if before == "fn" {
            found.push(text.clone());
        }
        before = text;
    }
    found
}

/// The calls that go upwards, or to which nothing leads.
fn climbs(journey: &[Step], uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let may_use = |from: &str, to: &str| below(from, uses).contains(to);
    let mut callers: Vec<&Step> = Vec::new();
    let mut found = Vec::new();
    for step in journey {
        callers.retain(|caller| caller.depth < step.depth);
        if let Some(caller) = callers.last() {
            let (from, to) = (caller.package(), step.package());
            let is_done_there = caller.file.starts_with(TRAITS) && may_use(to, from);
            if from != to && !may_use(from, to) && !is_done_there {
                found.push(format!(
                    "{} of {from} calls {} of {to}, which it may not use",
                    caller.function, step.function
                ));
            }
        }
        callers.push(step);
    }
    found
}

/// The crates that a crate may use, directly or because another crate hands them on.
fn below<'a>(package: &'a str, uses: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![package];
    while let Some(next) = left.pop() {
        let Some(used) = uses.get(next) else { continue };
        left.extend(used.iter().map(String::as_str).filter(|used| found.insert(*used)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A
## Three journeys
One:
```
MPI_Send         abi/src/generated.rs   the symbol
  call           abi/src/boundary.rs
    send_now     engine/src/engine.rs   at once
      poll       weft-engine/src/transport/node.rs
        poll     net/src/shared.rs
  signal         mpi/src/process.rs
```
## Other
```
not one
```
";

    fn uses() -> BTreeMap<String, BTreeSet<String>> {
        [("abi", vec!["mpi"]), ("mpi", vec!["engine"]), ("engine", vec!["weft-engine"]), ("net", vec!["weft-engine"])]
            .into_iter()
            .map(|(name, uses)| (name.to_owned(), uses.into_iter().map(str::to_owned).collect()))
            .collect()
    }

    #[test]
    fn a_journey_is_read_with_what_each_function_calls() {
        let journeys = parse(TEXT);
        assert_eq!(journeys.len(), 1);
        let step = |depth, function: &str, file: &str| Step { depth, function: function.into(), file: file.into() };
        assert_eq!(journeys[0][1], step(2, "call", "abi/src/boundary.rs"));
        assert_eq!((journeys[0].len(), journeys[0][4].depth), (6, 8));
    }

    #[test]
    fn calls_go_downwards_or_to_whoever_does_what_a_trait_says() {
        let mut journeys = parse(TEXT);
        assert_eq!(climbs(&journeys[0], &uses()), [""; 0]);
        journeys[0][2].file = "net/src/shared.rs".into();
        assert_eq!(climbs(&journeys[0], &uses()), ["call of abi calls send_now of net, which it may not use"]);
    }

    #[test]
    fn functions_of_traits_and_macros_are_found() {
        let text = "entry! { MPI_Send PMPI_Send(buf: u8) -> c_int { call() } } trait A { fn one(&self); } \
                    part! { trait B { fn two(&self); } } impl A for C { fn three(&self) {} } fn four() {}";
        let mut reader = Reader { found: BTreeSet::new() };
        reader.visit_file(&syn::parse_file(text).expect("Rust"));
        for name in ["MPI_Send", "one", "two", "three", "four"] {
            assert!(reader.found.contains(name), "{name}");
        }
        assert!(!reader.found.contains("call"));
    }
}
