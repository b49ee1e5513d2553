use super::*;

/// The levels of a crate with these files; the first is its root.
fn levels(files: &[(&str, &str)]) -> BTreeMap<String, Rooms> {
    let mut read = |wanted: &Path| {
        let file = files.iter().find(|(name, _)| Path::new(name) == wanted);
        file.map(|(_, text)| (*text).to_owned()).context("no such file")
    };
    rooms(&Tree::parse(Path::new(files[0].0), &mut read).expect("good sources"))
}

/// The descriptions of a crate's circles.
fn told(files: &[(&str, &str)]) -> Vec<String> {
    circles("crate", &levels(files))
}

/// The imports, each as `parent: from → to`.
fn imports(files: &[(&str, &str)]) -> Vec<String> {
    let levels = levels(files);
    let of = |(parent, rooms): (&String, &Rooms)| -> Vec<String> {
        rooms.imports.keys().map(|(from, to)| format!("{parent}: {from} → {to}")).collect()
    };
    levels.iter().flat_map(of).collect()
}

/// The imports of a module `a` with this text, beside modules `b` (with a child `deep`) and `c`.
fn of_a(text: &str) -> Vec<String> {
    let lib = "mod a; mod b; mod c; pub use b::Passed; use c as renamed;";
    let b = "pub mod deep; pub struct Passed; pub fn call() {}";
    imports(&[("lib.rs", lib), ("a.rs", text), ("b.rs", b), ("b/deep.rs", "pub struct Thing;"), ("c.rs", "")])
}

#[test]
fn imports_are_found_however_they_are_written() {
    let ways = [
        "use crate::b;",
        "use crate::b::deep::Thing;",
        "use crate::{b::{self as other}};",
        "use super::b::*;",
        "use crate::Passed;",
        "use super::*; fn f(_: Passed) {}",
        "use super::*; fn f() { b::call() }",
        "use super as above; fn f() { above::b::call() }",
        "fn f() { use crate::b::call; call() }",
        "fn f() -> crate::b::Passed { loop {} }",
        "fn f(x: Vec<crate::b::Passed>) {}",
        "fn f() { println!(\"{}\", crate::b::call()) }",
        "macro_rules! m { () => { $crate::b::call() } }",
        "mod inner { use super::super::b; }",
        "#[cfg(not(test))] use crate::b;",
        "#[cfg(any(test, unix))] use crate::b;",
        "struct S { #[cfg(unix)] x: crate::b::Passed }",
    ];
    for way in ways {
        assert_eq!(of_a(way), [": a → b"], "{way}");
    }
}

#[test]
fn what_is_no_import_is_not_counted() {
    let ways = [
        "use std::b::Thing;",
        "use ::b::Thing;",
        "//! [`crate::b`]\n/// [`crate::b`]\nfn f() { let b = 1; }",
        "#[cfg(test)] mod tests { use crate::b; }",
        "#[cfg(test)] use crate::b;",
        "#[cfg(all(test, not(loom)))] fn f() { crate::b::call() }",
        "struct S; impl S { #[cfg(test)] fn f() { crate::b::call() } }",
        "struct S { #[cfg(test)] x: crate::b::Passed }",
        "fn f() { #[cfg(test)] let x = crate::b::call(); }",
        "pub(in crate::b) fn f() {}",
        "fn f() { println!(\"crate::b\") }",
        "use crate::a::f; use self::f as g; fn f() {}",
    ];
    for way in ways {
        assert_eq!(of_a(way), [""; 0], "{way}");
    }
}

#[test]
fn a_name_that_is_passed_on_belongs_to_who_defines_it() {
    assert_eq!(of_a("fn f() { crate::renamed::call() }"), [": a → c"]);
    // Expect: neither the parent that passes a name on, nor the parent that defines one, is in a circle with
    // its children.
    let parent = "mod one; mod two; pub use one::One; pub struct Own;";
    let (one, two) = ("use super::Own; pub struct One;", "use super::{One, Own};");
    let files = [("lib.rs", "mod p;"), ("p.rs", parent), ("p/one.rs", one), ("p/two.rs", two)];
    assert_eq!(imports(&files), ["p: two → one"]);
}

#[test]
fn an_import_is_seen_from_the_nearest_common_parent() {
    let files = [
        ("src/main.rs", "mod a; mod b; fn main() { a::f() }"),
        ("src/a.rs", "mod x; mod y; pub fn f() { x::f() }"),
        ("src/a/x.rs", "use super::y; pub fn f() { crate::main() }"),
        ("src/a/y.rs", "use crate::b::z;"),
        ("src/b/mod.rs", "#[path = \"other.rs\"] pub mod z;"),
        ("src/b/other.rs", "use crate::a; use super::super::b;"),
    ];
    assert_eq!(imports(&files), [": a → b", ": b → a", "a: x → y"]);
}

#[test]
fn a_circle_is_told_with_a_place_for_each_import() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use crate::b;\nuse crate::b::B;"),
        ("b.rs", "\nuse crate::c::{\n    C,\n};"),
        ("c.rs", "use crate::a; use crate::d;"),
        ("d.rs", ""),
    ];
    let found = told(&files);
    let expected = "crate: a → b → c → a is a circle of imports\n  \
        a → b: a.rs:1 and 1 more\n  b → c: b.rs:3\n  c → a: c.rs:1";
    assert_eq!(found, [expected]);
    assert_eq!(every_place("crate", &levels(&files), "a", "b"), "crate: a → b: a.rs:1\ncrate: a → b: a.rs:2\n");
    assert!(everything("crate", &levels(&files)).contains("3 rooms import each other: a, b, c\n"));
}

#[test]
fn circles_deeper_down_count() {
    let files = [
        ("lib.rs", "mod p;"),
        ("p.rs", "mod one; mod two;"),
        ("p/one.rs", "use super::two;"),
        ("p/two.rs", "use super::one;"),
    ];
    let found = told(&files);
    assert!(found.len() == 1 && found[0].starts_with("crate, within p: one → two → one is"), "{found:?}");
}

#[test]
fn separate_knots_are_told_apart_and_the_shortest_circle_is_shown() {
    let mut rooms = Rooms::default();
    for edge in ["ab", "bc", "ca", "cb", "cd", "de", "ed"] {
        let sites = [("x.rs".to_owned(), 1)].into();
        rooms.imports.insert((edge[..1].to_owned(), edge[1..].to_owned()), sites);
    }
    let knots = rooms.knots();
    assert_eq!(knots, [["a", "b", "c"].into(), ["d", "e"].into()]);
    assert_eq!(rooms.circle(&knots[0]), ["b", "c"]);
}

#[test]
fn a_module_without_a_file_is_an_error() {
    let mut read = |file: &Path| match file.to_str() {
        Some("lib.rs") => Ok("mod gone;".to_owned()),
        _ => bail!("no such file"),
    };
    assert!(Tree::parse(Path::new("lib.rs"), &mut read).is_err());
}
