//! `cargo xtask size [LIBRARY]`: how large the library is without its symbols, and which part takes how much.
//!
//! Functions are counted for the crate whose name their own begins with, so a generic function counts for the
//! crate that it is written in. What is no function counts for its section.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const USAGE: &str = "usage: cargo xtask size [LIBRARY]";
/// The library of `packaging/build.sh`, whose symbols are still there.
const LIBRARY: &str = "build/packages/build/target/release/libmpi_abi.so";
/// The parts, and the beginnings of the names in them; the first one that fits counts.
const PARTS: [(&str, &[&str]); 12] = [
    ("the functions of the interface (weft-abi)", &["MPI_", "PMPI_", "MPIX_", "PMPIX_", "weft_abi"]),
    ("objects of MPI, settings, start (weft-mpi)", &["weft_mpi"]),
    ("engine (weft-engine)", &["weft_engine"]),
    (
        "protocol (weft-core, weft-hash, aes, siphasher)",
        &["weft_core", "weft_hash", "aes", "polyval", "siphasher", "ghash"],
    ),
    ("plans of collectives, topologies and files (weft-plan)", &["weft_plan"]),
    ("carriers (weft-net, rustix)", &["weft_net", "rustix", "libc"]),
    ("reductions (weft-reduce)", &["weft_reduce"]),
    ("joining a job (weft-launch)", &["weft_launch"]),
    (
        "traces of panics (gimli, addr2line, miniz_oxide)",
        &["gimli", "addr2line", "miniz_oxide", "rustc_demangle", "object", "std::backtrace"],
    ),
    ("Rust's standard library", &["std", "core", "alloc", "hashbrown"]),
    ("maps and sorts (weft-ordered)", &["weft_ordered"]),
    ("other functions", &[""]),
];
/// Sections that hold functions.
const CODE: [&str; 1] = [".text"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let root = crate::generate::project_root();
    let library = match arguments {
        [] => root.join(LIBRARY),
        [library] if !library.starts_with('-') => library.into(),
        _ => bail!("{USAGE}"),
    };
    let symbols = said("nm", &["--defined-only", "--print-size", "--radix=d", "--demangle"], &library)?;
    let sections = said("readelf", &["--wide", "--section-headers"], &library)?;
    print!("{}", report(&symbols, &sections)?);
    Ok(())
}

/// What a program says of a file.
fn said(program: &str, options: &[&str], file: &Path) -> Result<String> {
    let output =
        Command::new(program).args(options).arg(file).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The table: parts of the code first, then the other sections that are loaded.
fn report(symbols: &str, sections: &str) -> Result<String> {
    let loaded = loaded(sections);
    let code: u64 = loaded.iter().filter(|(name, _)| CODE.contains(&name.as_str())).map(|(_, size)| size).sum();
    if code == 0 {
        bail!("the library has no functions");
    }
    let mut parts: BTreeMap<usize, u64> = BTreeMap::new();
    // Names of one address are names of one function.
    let mut counted = std::collections::HashSet::new();
    for line in symbols.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(address), Some(size), Some(kind), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Ok(size), true) = (size.parse::<u64>(), matches!(kind, "t" | "T" | "w" | "W")) else { continue };
        if counted.insert(address.to_owned()) {
            *parts.entry(part(name)).or_default() += size;
        }
    }
    if parts.is_empty() {
        bail!("the library has no symbols: it is stripped");
    }
    let mut out = String::new();
    let mut row = |name: &str, size: u64| out += &format!("{:8.3} MB  {name}\n", size as f64 / 1e6);
    for (index, (name, _)) in PARTS.iter().enumerate() {
        row(name, parts.get(&index).copied().unwrap_or(0));
    }
    let named: u64 = parts.values().sum();
    row("between functions", code.saturating_sub(named));
    for (name, size) in loaded.iter().filter(|(name, _)| !CODE.contains(&name.as_str())) {
        if *size > 10_000 {
            row(name, *size);
        }
    }
    row("together, without symbols", loaded.iter().map(|(_, size)| size).sum());
    Ok(out)
}

/// The part of a function.
fn part(name: &str) -> usize {
    // `<weft_core::flow::Flow as core::fmt::Debug>::fmt` and `<&mut weft_core::…>` are weft-core's.
    let own = name.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '_');
    let own = ["mut ", "dyn ", "const "].iter().fold(own, |own, word| own.strip_prefix(word).unwrap_or(own));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits =
        |start: &str| own.strip_prefix(start).is_some_and(|rest| start.ends_with('_') || !rest.starts_with(is_word));
    let of = |starts: &[&str]| starts == [""] || starts.iter().any(|start| fits(start));
    PARTS.iter().position(|(_, starts)| of(starts)).unwrap_or(PARTS.len() - 1)
}

/// The sections that are loaded, with their sizes in the file.
fn loaded(sections: &str) -> Vec<(String, u64)> {
    let row = |line: &str| {
        let (_, rest) = line.split_once(']')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [name, kind, _, _, size, _, flags, ..] = words[..] else { return None };
        let is_loaded = flags.contains('A') && kind != "NOBITS";
        is_loaded.then_some((name.to_owned(), u64::from_str_radix(size, 16).ok()?))
    };
    sections.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_belongs_to_the_crate_of_its_name() {
        let named = |name| PARTS[part(name)].0;
        assert_eq!(named("MPI_Send"), PARTS[0].0);
        assert_eq!(named("weft_abi::calls::send"), PARTS[0].0);
        assert_eq!(named("<weft_core::flow::Flow as core::fmt::Debug>::fmt"), PARTS[3].0);
        assert_eq!(named("<&mut weft_net::shared::Ring as core::fmt::Debug>::fmt"), PARTS[5].0);
        assert_eq!(named("core::fmt::write"), PARTS[9].0);
        assert_eq!(named("memcpy"), PARTS[11].0);
    }

    #[test]
    fn names_of_one_function_count_once_and_sections_without_bytes_do_not_count() {
        let symbols = "0000000000001000 0000000000000100 T MPI_Send\n0000000000001000 0000000000000100 T PMPI_Send\n\
                       0000000000001100 0000000000000050 t weft_core::flow\n0000000000002000 0000000000000008 b counter\n";
        let sections = "  [ 1] .text PROGBITS 0000000000001000 001000 0000c8 00  AX  0   0 16\n  \
                        [ 2] .rodata PROGBITS 0000000000002000 002000 004e20 00   A  0   0 16\n  \
                        [ 3] .bss NOBITS 0000000000003000 003000 100000 00  WA  0   0 16\n  \
                        [ 4] .symtab SYMTAB 0000000000000000 003000 100000 24     5   1  8\n";
        let report = report(symbols, sections).expect("a table");
        assert!(report.contains("   0.000 MB  the functions of the interface"), "{report}");
        assert!(report.contains("   0.020 MB  .rodata"), "{report}");
        assert!(report.ends_with("   0.020 MB  together, without symbols\n"), "{report}");
    }
}
