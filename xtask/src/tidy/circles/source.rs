//! The modules of a crate and the names in them, read from the sources by `syn`.

use anyhow::{Context, Result};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// The most names in a row that may stand for others; more are taken for a circle of `use`, which the
/// compiler refuses.
const ALIASES_MAX: usize = 16;

/// The modules of a crate, read from one of its roots.
pub(super) struct Tree {
    /// The modules; the first is the crate.
    modules: Vec<Module>,
}

/// The names that one search has looked for behind `use …::*`, by module, and their targets; `None` as well
/// while the search is under way. So modules that take all of each other's names are searched once, and not
/// along each path between them.
type Seen = BTreeMap<(usize, String), Option<Target>>;

/// An import: module `from` names an item that module `to` defines.
pub(super) struct Import {
    pub(super) from: Vec<String>,
    pub(super) to: Vec<String>,
    pub(super) file: String,
    pub(super) line: usize,
}

#[derive(Default)]
struct Module {
    /// The names from the crate's root to the module.
    path: Vec<String>,
    parent: usize,
    file: PathBuf,
    /// The directory where the files of the children lie.
    directory: PathBuf,
    children: BTreeMap<String, usize>,
    defines: BTreeSet<String>,
    /// The paths that `use` made known in this module, by name.
    aliases: BTreeMap<String, Vec<String>>,
    /// The paths of `use …::*` in this module.
    globs: Vec<Vec<String>>,
    named: Vec<Named>,
}

struct Named {
    path: Vec<String>,
    line: usize,
    is_use: bool,
}

/// The target of a path.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item that is no module, defined in this module.
    Within(usize),
}

impl Tree {
    /// Reads a crate. `start` is the file of its root, below `root`, the project's directory.
    pub(super) fn read(root: &Path, start: &Path) -> Result<Self> {
        let mut read = |file: &Path| {
            let text = std::fs::read_to_string(root.join(file));
            text.with_context(|| format!("cannot read {}", file.display()))
        };
        Self::parse(start, &mut read)
    }

    /// Parses a crate whose files may come from anywhere: `read` gives the text of a file, or an error when
    /// there is none.
    pub(super) fn parse(start: &Path, read: &mut dyn FnMut(&Path) -> Result<String>) -> Result<Self> {
        let directory = start.parent().unwrap_or(Path::new("")).to_owned();
        let mut tree = Self { modules: vec![Module { file: start.to_owned(), directory, ..Module::default() }] };
        let mut waiting = vec![0];
        while let Some(here) = waiting.pop() {
            let file = tree.modules[here].file.clone();
            let parsed = syn::parse_file(&read(&file)?).with_context(|| format!("cannot parse {}", file.display()))?;
            if is_for_tests(&parsed.attrs) {
                continue;
            }
            let mut reader = Reader { tree: &mut tree, here, elsewhere: Vec::new() };
            reader.visit_file(&parsed);
            for (module, candidates) in reader.elsewhere {
                let found = candidates.iter().find(|candidate| read(candidate).is_ok());
                let found = found.with_context(|| format!("{}: a module has no file", file.display()))?;
                tree.modules[module].file.clone_from(found);
                waiting.push(module);
            }
        }
        Ok(tree)
    }

    /// The imports of all modules, in no particular order.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for (here, module) in self.modules.iter().enumerate() {
            for named in &module.named {
                let Some(to) = self.imported(here, named) else { continue };
                let (from, to) = (module.path.clone(), self.modules[to].path.clone());
                if from != to {
                    imports.push(Import { from, to, file: module.file.display().to_string(), line: named.line });
                }
            }
        }
        imports
    }

    fn imported(&self, here: usize, named: &Named) -> Option<usize> {
        let first = named.path.first()?;
        let is_anchored = matches!(first.as_str(), "crate" | "self" | "super");
        if !is_anchored && !named.is_use {
            // A name that `use` brought here was counted there, unless it is a module, from which the path
            // goes on.
            let module = &self.modules[here];
            let is_own = module.defines.contains(first) || module.aliases.contains_key(first);
            match self.find(here, first, 0, &mut Seen::new())? {
                Target::Module(_) if named.path.len() == 1 => return None,
                Target::Within(_) if is_own => return None,
                _ => {}
            }
        }
        match self.resolve(here, &named.path, 0, &mut Seen::new())? {
            Target::Module(module) | Target::Within(module) => Some(module),
        }
    }

    /// The target of a path in a module; `None` when the path leads out of the crate, or is a local name.
    fn resolve(&self, here: usize, path: &[String], depth: usize, seen: &mut Seen) -> Option<Target> {
        if depth > ALIASES_MAX {
            return None;
        }
        let mut at = match path.first()?.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(here),
            "super" => Target::Module(self.modules[here].parent),
            first => self.find(here, first, depth, seen)?,
        };
        for segment in &path[1..] {
            let Target::Module(module) = at else { return Some(at) };
            at = match segment.as_str() {
                "super" => Target::Module(self.modules[module].parent),
                segment => self.find(module, segment, depth, seen).unwrap_or(Target::Within(module)),
            };
        }
        Some(at)
    }

    /// The target of a name in a module: a child, an item defined there, or the target of a `use`.
    fn find(&self, module: usize, name: &str, depth: usize, seen: &mut Seen) -> Option<Target> {
        if depth > ALIASES_MAX {
            return None;
        }
        let here = &self.modules[module];
        if let Some(child) = here.children.get(name) {
            return Some(Target::Module(*child));
        }
        if here.defines.contains(name) {
            return Some(Target::Within(module));
        }
        if let Some(path) = here.aliases.get(name) {
            return self.resolve(module, path, depth + 1, seen);
        }
        if here.globs.is_empty() {
            return None;
        }
        let place = (module, name.to_owned());
        if let Some(found) = seen.get(&place) {
            return *found;
        }
        seen.insert(place.clone(), None);
        let found = here.globs.iter().find_map(|path| match self.resolve(module, path, depth + 1, seen)? {
            Target::Module(other) if other != module => self.find(other, name, depth + 1, seen),
            _ => None,
        });
        seen.insert(place, found);
        found
    }
}

/// Returns whether an item with these attributes is compiled for tests only.
pub(in crate::tidy) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => needs_test(list.tokens.clone()),
        _ => false,
    })
}

/// Returns whether `test`, or `all(…, test, …)`, stands in a condition.
fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.iter().enumerate().any(|(index, token)| match (token, tokens.get(index + 1)) {
        (TokenTree::Ident(word), Some(TokenTree::Group(group))) if word == "all" => needs_test(group.stream()),
        (TokenTree::Ident(word), _) => word == "test",
        _ => false,
    })
}

/// Walks through one file.
struct Reader<'a> {
    tree: &'a mut Tree,
    /// The module that is being read: the file's module, or one written within it.
    here: usize,
    /// The modules in other files, each with the files that may contain it.
    elsewhere: Vec<(usize, Vec<PathBuf>)>,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        &mut self.tree.modules[self.here]
    }

    fn name(&mut self, path: Vec<String>, line: usize, is_use: bool) {
        self.module().named.push(Named { path, line, is_use });
    }

    fn read_use(&mut self, before: &[String], tree: &syn::UseTree) {
        let joined = |name: &syn::Ident| {
            let name = name.to_string();
            let last = (name != "self" || before.is_empty()).then_some(name);
            before.iter().cloned().chain(last).collect::<Vec<String>>()
        };
        match tree {
            syn::UseTree::Path(tree) => self.read_use(&joined(&tree.ident), &tree.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.read_use(before, tree)),
            syn::UseTree::Name(tree) => {
                let path = joined(&tree.ident);
                let alias = path.last().cloned().unwrap_or_default();
                self.read_leaf(path, alias, tree.ident.span().start().line);
            }
            syn::UseTree::Rename(tree) => {
                self.read_leaf(joined(&tree.ident), tree.rename.to_string(), tree.ident.span().start().line);
            }
            syn::UseTree::Glob(tree) => {
                self.module().globs.push(before.to_vec());
                self.name(before.to_vec(), tree.star_token.spans[0].start().line, true);
            }
        }
    }

    fn read_leaf(&mut self, path: Vec<String>, alias: String, line: usize) {
        if alias != "_" {
            self.module().aliases.insert(alias, path.clone());
        }
        self.name(path, line, true);
    }

    /// Reads the paths in a macro's input, which has no grammar: names joined by `::`.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for token in &tokens {
            match token {
                TokenTree::Ident(name) if path.is_empty() && colons == 0 => {
                    line = name.span().start().line;
                    path.push(name.to_string());
                }
                TokenTree::Ident(name) if !path.is_empty() && colons == 2 => path.push(name.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    // A single colon ends a path; the first of two is joined to the second.
                    if colons > 2 || (colons == 1 && mark.spacing() == Spacing::Alone) {
                        self.end_of_path(&mut path, line);
                        colons = 0;
                    }
                    continue;
                }
                other => {
                    self.end_of_path(&mut path, line);
                    if let TokenTree::Ident(name) = other {
                        line = name.span().start().line;
                        path.push(name.to_string());
                    }
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
            colons = 0;
        }
        self.end_of_path(&mut path, line);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.name(path, line, false);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::ForeignMod(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Mod(item) => (&item.attrs, None),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            self.module().defines.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        let parent = self.module();
        let mut path = parent.path.clone();
        path.push(name.clone());
        let (file, above) = (parent.file.clone(), parent.directory.clone());
        let directory = above.join(&name);
        let child = self.tree.modules.len();
        self.module().children.insert(name.clone(), child);
        let module = Module { path, parent: self.here, file: file.clone(), directory, ..Module::default() };
        self.tree.modules.push(module);
        if item.content.is_some() {
            let parent = std::mem::replace(&mut self.here, child);
            visit::visit_item_mod(self, item);
            self.here = parent;
            return;
        }
        let written = item.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        });
        let candidates = match written {
            Some(written) => vec![file.parent().unwrap_or(Path::new("")).join(written)],
            None => vec![above.join(format!("{name}.rs")), above.join(&name).join("mod.rs")],
        };
        self.elsewhere.push((child, candidates));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.read_use(&[], &item.tree);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        use syn::ImplItem;
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (&path.leading_colon, path.segments.first()) {
            let line = first.ident.span().start().line;
            self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect(), line, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.read_tokens(call.tokens.clone());
    }

    /// A visibility such as `pub(in crate::engine)` is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    /// Documentation, lints and derives name no module of this crate.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
