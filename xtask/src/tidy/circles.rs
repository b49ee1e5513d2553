//! Checks that there are no circles among the modules of a crate.
//!
//! An import is a place where the source of a module names an item of another module: in `use` or in a path,
//! by `crate::…`, `super::…`, `self::…` or an imported name. Code that is compiled for tests only does not
//! count. A name that a module only passes on (`use` of any visibility) belongs to the module that defines
//! it.
//!
//! An import counts at the nearest common parent of the two modules. There it counts as an import between two
//! children of that parent: from the child that contains the importing module, to the child that contains the
//! imported module. Each child with everything below it is a *room*. For example, `engine.rs` with the folder
//! `engine/` is one room of its crate, and `engine/outgoing.rs` with the modules below it is one room of
//! `engine`. A module and the modules inside it may import each other. The rooms of one parent must not be in
//! a circle.
//!
//! Items that the compiler finds without a path are not seen: methods, traits in scope, macros in textual
//! order.

mod source;

use super::{Findings, arrows};
use anyhow::{Context, Result, bail};
use source::Tree;
pub(super) use source::is_for_tests;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// The rooms of one parent, with their imports and the places of the imports.
#[derive(Default)]
struct Rooms {
    imports: BTreeMap<(String, String), BTreeSet<(String, usize)>>,
}

impl Rooms {
    fn importers(&self, room: &str) -> impl Iterator<Item = &str> {
        self.imports.keys().filter(move |(_, to)| to == room).map(|(from, _)| from.as_str())
    }

    fn imported(&self, room: &str) -> impl Iterator<Item = &str> {
        self.imports.keys().filter(move |(from, _)| from == room).map(|(_, to)| to.as_str())
    }

    /// The places where one room imports another, as `file:line`.
    fn sites(&self, from: &str, to: &str) -> Vec<String> {
        let key = (from.to_owned(), to.to_owned());
        self.imports.get(&key).into_iter().flatten().map(|(file, line)| format!("{file}:{line}")).collect()
    }

    /// The sets of more than one room in which every room imports every other, directly or through others.
    fn knots(&self) -> Vec<BTreeSet<&str>> {
        let mut left: BTreeSet<&str> = self.imports.keys().map(|(from, _)| from.as_str()).collect();
        let mut knots = Vec::new();
        while let Some(room) = left.first().copied() {
            let downwards = reached(room, |room| self.imported(room).collect());
            let upwards = reached(room, |room| self.importers(room).collect());
            let knot: BTreeSet<&str> = downwards.intersection(&upwards).copied().collect();
            left.remove(room);
            left.retain(|other| !knot.contains(other));
            if knot.len() > 1 {
                knots.push(knot);
            }
        }
        knots
    }

    /// The shortest circle in a knot; its first room is not repeated at the end.
    fn circle<'a>(&'a self, knot: &BTreeSet<&'a str>) -> Vec<&'a str> {
        let circles = knot.iter().filter_map(|room| self.shortest(room));
        circles.min_by_key(Vec::len).expect("every room of a knot is in a circle")
    }

    /// The shortest circle through a room.
    fn shortest<'a>(&'a self, start: &'a str) -> Option<Vec<&'a str>> {
        let mut came_from = BTreeMap::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(room) = waiting.pop_front() {
            for next in self.imported(room) {
                if next == start {
                    let mut circle = vec![room];
                    while let Some(before) = came_from.get(circle[circle.len() - 1]) {
                        circle.push(*before);
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if !came_from.contains_key(next) {
                    came_from.insert(next, room);
                    waiting.push_back(next);
                }
            }
        }
        None
    }
}

/// The rooms that can be reached from a room, itself among them.
fn reached<'a>(room: &'a str, next: impl Fn(&'a str) -> Vec<&'a str>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::from([room]);
    let mut waiting = vec![room];
    while let Some(room) = waiting.pop() {
        waiting.extend(next(room).into_iter().filter(|other| seen.insert(other)));
    }
    seen
}

/// The rooms of every module that has some, by the parent's path; the crate has the empty path.
fn rooms(tree: &Tree) -> BTreeMap<String, Rooms> {
    let mut levels: BTreeMap<String, Rooms> = BTreeMap::new();
    for import in tree.imports() {
        let common = import.from.iter().zip(&import.to).take_while(|(from, to)| from == to).count();
        // One module lies within the other.
        let (Some(from), Some(to)) = (import.from.get(common), import.to.get(common)) else { continue };
        let rooms = levels.entry(import.from[..common].join("::")).or_default();
        rooms.imports.entry((from.clone(), to.clone())).or_default().insert((import.file, import.line));
    }
    levels
}

pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<()> {
    for (name, package) in &arrows::packages(root)? {
        for start in &package.roots {
            findings.broken.extend(circles(name, &rooms(&Tree::read(root, start)?)));
        }
    }
    Ok(())
}

/// The shortest circle of each knot, with a place for each import.
fn circles(name: &str, levels: &BTreeMap<String, Rooms>) -> Vec<String> {
    let mut found = Vec::new();
    for (parent, rooms) in levels {
        for knot in rooms.knots() {
            let circle = describe(rooms, &rooms.circle(&knot));
            found.push(format!("{}: {circle}", title(name, parent)));
        }
    }
    found
}

fn title(name: &str, parent: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{name}, within {parent}") }
}

/// Describes a circle: `a → b → a is a circle of imports`, and a line with a place for each import.
fn describe(rooms: &Rooms, circle: &[&str]) -> String {
    let mut text = format!("{} → {} is a circle of imports", circle.join(" → "), circle[0]);
    for (from, to) in circle.iter().zip(circle.iter().cycle().skip(1)) {
        text.push_str(&format!("\n  {}", line(rooms, from, to)));
    }
    text
}

/// The line of one import: its first place, and the number of further places.
fn line(rooms: &Rooms, from: &str, to: &str) -> String {
    let sites = rooms.sites(from, to);
    let more = if sites.len() > 1 { format!(" and {} more", sites.len() - 1) } else { String::new() };
    format!("{from} → {to}: {}{more}", sites[0])
}

/// Runs `--circles CRATE`: prints the knots of a crate on all levels; with two rooms, every place where the
/// first imports the second.
pub(super) fn show(root: &Path, arguments: &[String]) -> Result<()> {
    let (name, pair) = match arguments {
        [name] => (name, None),
        [name, from, to] => (name, Some((from, to))),
        _ => bail!("usage: cargo xtask tidy --circles CRATE [ROOM ROOM]"),
    };
    let packages = arrows::packages(root)?;
    let package = packages.get(name).with_context(|| format!("{name} is not a crate of the workspace"))?;
    for start in &package.roots {
        let levels = rooms(&Tree::read(root, start)?);
        match pair {
            Some((from, to)) => print!("{}", every_place(name, &levels, from, to)),
            None => print!("{}: {}", start.display(), everything(name, &levels)),
        }
    }
    Ok(())
}

fn every_place(name: &str, levels: &BTreeMap<String, Rooms>, from: &str, to: &str) -> String {
    let mut text = String::new();
    for (parent, rooms) in levels {
        for site in rooms.sites(from, to) {
            text.push_str(&format!("{}: {from} → {to}: {site}\n", title(name, parent)));
        }
    }
    text
}

fn everything(name: &str, levels: &BTreeMap<String, Rooms>) -> String {
    let mut text = String::new();
    for (parent, rooms) in levels {
        for knot in rooms.knots() {
            let list: Vec<&str> = knot.iter().copied().collect();
            let title = title(name, parent);
            text.push_str(&format!("\n{title}: {} rooms import each other: {}\n", knot.len(), list.join(", ")));
            text.push_str(&format!("the shortest: {}\n", describe(rooms, &rooms.circle(&knot))));
            text.push_str("all imports among them, those with the fewest places first:\n");
            let inside = |(from, to): &&(String, String)| knot.contains(from.as_str()) && knot.contains(to.as_str());
            let mut edges: Vec<_> = rooms.imports.keys().filter(inside).collect();
            edges.sort_by_key(|edge| rooms.imports[*edge].len());
            edges.iter().for_each(|(from, to)| text.push_str(&format!("  {}\n", line(rooms, from, to))));
        }
    }
    if text.is_empty() { "no circles\n".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
