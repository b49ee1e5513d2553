//! Checks that parts of the engine reach the rest of it only through `Link`.
//!
//! A part is a few files that own the state that they change. The compiler keeps the fields of `Link` from
//! them. But a file of a part could add a method to the engine or to point-to-point communication, and touch
//! their fields there. So no file of a part may name these two.

use super::Findings;
use super::circles::is_for_tests;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// The parts of the engine, each with its place: a file, and the folder beside it.
const PARTS: [(&str, &str); 3] = [
    ("OneSided", "crates/weft-engine/src/engine/windows"),
    ("Multicasts", "crates/weft-engine/src/engine/multicast"),
    ("NodeCollectives", "crates/weft-engine/src/engine/slots"),
];
/// The structures whose fields do not belong to the parts.
const OTHERS: [&str; 2] = ["Engine", "PointToPoint"];
/// The name of the only way out of a part.
const LINK: &str = "Link";

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    for (part, place) in PARTS {
        let own: Vec<&PathBuf> = files.iter().filter(|file| is_in(file, place)).collect();
        if own.is_empty() {
            findings.broken.push(format!("{place}.rs is not there: where is the part {part} of the engine?"));
        }
        for file in own {
            let text = std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
            let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
            for name in named(&parsed) {
                findings.broken.push(format!(
                    "{}: the part {part} of the engine names {name}: it reaches that through {LINK} only",
                    file.display()
                ));
            }
        }
    }
    Ok(())
}

/// Returns whether a file belongs to the part at `place`.
fn is_in(file: &Path, place: &str) -> bool {
    file.with_extension("") == Path::new(place) || file.starts_with(place)
}

/// The names of [`OTHERS`] that stand in a file, outside of its tests.
fn named(file: &syn::File) -> Vec<&'static str> {
    let mut reader = Reader { found: Vec::new() };
    reader.visit_file(file);
    reader.found
}

struct Reader {
    found: Vec<&'static str>,
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        let other = OTHERS.into_iter().find(|other| name == other);
        self.found.extend(other.filter(|other| !self.found.contains(other)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_names_the_engine_or_adds_methods_to_it_is_found() {
        let named = |text: &str| named(&syn::parse_file(text).expect("Rust"));
        assert_eq!(named("use super::Engine; impl<P> Engine<P> { fn a(&self) -> u32 { self.passes } }"), ["Engine"]);
        assert_eq!(named("fn a<P>(all: &mut super::PointToPoint<P>) { all.messages.notify(); }"), ["PointToPoint"]);
        assert_eq!(
            named(
                "use super::link::Link; /** What the [`Engine`] has. */ struct OneSided<'a, P> { link: Link<'a, P> } \
                 #[cfg(test)] mod tests { use super::super::Engine; }"
            ),
            [""; 0]
        );
    }

    #[test]
    fn a_part_has_a_file_and_the_folder_beside_it() {
        let place = "crates/weft-engine/src/engine/windows";
        let is_in = |file: &str| is_in(Path::new(file), place);
        assert!(is_in("crates/weft-engine/src/engine/windows.rs"));
        assert!(is_in("crates/weft-engine/src/engine/windows/origin.rs"));
        assert!(!is_in("crates/weft-engine/src/windows.rs"));
        assert!(!is_in("crates/weft-engine/src/engine/windows_other.rs"));
    }
}
