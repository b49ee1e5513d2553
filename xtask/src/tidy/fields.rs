//! Lists the fields of a structure that each file touches: `self.field` in its methods, in whatever file they
//! stand.
//!
//! A structure whose files all touch all fields is one large room. A field that only one file touches can
//! become a part that owns its state. Methods that the compiler finds without a path, such as those of a
//! field, are not followed.

use super::circles::is_for_tests;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// The usual structure: the engine.
pub(super) const USUAL: [&str; 2] = ["crates/weft-engine/src", "Engine"];

/// The number of times that each file touches each field.
type Touched = BTreeMap<String, BTreeMap<String, usize>>;

/// Runs `--fields [FOLDER STRUCTURE]`.
pub(super) fn show(root: &Path, files: &[PathBuf], folder: &str, structure: &str) -> Result<()> {
    let sources =
        files.iter().filter(|file| file.starts_with(folder) && file.extension().is_some_and(|end| end == "rs"));
    let mut parsed = Vec::new();
    for file in sources {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(folder).unwrap_or(file).display().to_string();
        parsed.push((name, syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?));
    }
    let fields = fields(&parsed, structure);
    ensure!(!fields.is_empty(), "no structure {structure} with named fields in {folder}");
    print!("{}", describe(structure, &fields, &touched(&parsed, structure, &fields)));
    Ok(())
}

/// The fields of the structure of this name.
fn fields(parsed: &[(String, syn::File)], structure: &str) -> BTreeSet<String> {
    let items = parsed.iter().flat_map(|(_, file)| &file.items);
    let found = items.filter_map(|item| match item {
        syn::Item::Struct(item) if item.ident == structure && !is_for_tests(&item.attrs) => Some(item),
        _ => None,
    });
    found.flat_map(|item| &item.fields).filter_map(|field| Some(field.ident.as_ref()?.to_string())).collect()
}

fn touched(parsed: &[(String, syn::File)], structure: &str, fields: &BTreeSet<String>) -> Touched {
    let mut touched = Touched::new();
    for (name, file) in parsed.iter().filter(|(_, file)| !is_for_tests(&file.attrs)) {
        let mut reader = Reader { structure, fields, is_within: false, found: BTreeMap::new() };
        reader.visit_file(file);
        if !reader.found.is_empty() {
            touched.insert(name.clone(), reader.found);
        }
    }
    touched
}

/// Describes the files with their fields, those that touch most first; then the fields, each with the number
/// of files that touch it.
fn describe(structure: &str, fields: &BTreeSet<String>, touched: &Touched) -> String {
    let mut text = format!("{structure} has {} fields, and methods in {} files.\n\n", fields.len(), touched.len());
    let mut files: Vec<_> = touched.iter().collect();
    files.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
    for (file, found) in files {
        let list: Vec<String> = found.iter().map(|(field, times)| format!("{field} {times}")).collect();
        text.push_str(&format!("{file}: {} fields: {}\n", found.len(), list.join(", ")));
    }
    text.push('\n');
    for field in fields {
        let by: Vec<&str> =
            touched.iter().filter(|(_, found)| found.contains_key(field)).map(|(file, _)| file.as_str()).collect();
        text.push_str(&format!("{field}: {} files: {}\n", by.len(), by.join(", ")));
    }
    text
}

/// Walks through one file.
struct Reader<'a> {
    structure: &'a str,
    fields: &'a BTreeSet<String>,
    /// Says whether the reader is in a method of the structure.
    is_within: bool,
    found: BTreeMap<String, usize>,
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let is_of_it = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == self.structure),
            _ => false,
        };
        let before = std::mem::replace(&mut self.is_within, is_of_it && !is_for_tests(&item.attrs));
        visit::visit_item_impl(self, item);
        self.is_within = before;
    }

    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        if let (true, syn::Expr::Path(base), syn::Member::Named(name)) = (self.is_within, &*field.base, &field.member)
            && base.path.is_ident("self")
            && self.fields.contains(&name.to_string())
        {
            *self.found.entry(name.to_string()).or_default() += 1;
        }
        visit::visit_expr_field(self, field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_methods_of_the_structure_touch_is_counted_and_nothing_else() {
        let parse = |name: &str, text: &str| (name.to_owned(), syn::parse_file(text).expect("Rust"));
        let parsed = [
            parse(
                "engine.rs",
                "struct Engine { peers: u32, windows: u32 } impl Engine { fn a(&mut self) { self.peers += self.peers; } }",
            ),
            parse("windows.rs", "impl super::Engine { fn b(&self) -> u32 { self.windows.count_ones() + self.other } }"),
            parse(
                "other.rs",
                "impl Other { fn c(&self) -> u32 { self.peers } } #[cfg(test)] mod tests { impl Engine { fn d(&self) { self.peers; } } }",
            ),
        ];
        let fields = fields(&parsed, "Engine");
        let touched = touched(&parsed, "Engine", &fields);
        let text = describe("Engine", &fields, &touched);
        assert!(text.starts_with("Engine has 2 fields, and methods in 2 files.\n"), "{text}");
        assert!(
            text.contains("engine.rs: 1 fields: peers 2\n") && text.contains("peers: 1 files: engine.rs\n"),
            "{text}"
        );
        assert!(text.contains("windows: 1 files: windows.rs\n"), "{text}");
    }
}
