//! Reads `spec/`: the tables of kinds, procedures, constants and error texts.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// The tables of `spec/`.
pub(super) struct Spec {
    pub(super) kinds: BTreeMap<String, Kind>,
    pub(super) chapters: Vec<Chapter>,
    pub(super) categories: Vec<Category>,
    /// The error classes, each with its name and its sentence.
    pub(super) errors: Vec<(String, String)>,
}

pub(super) struct Kind {
    pub(super) c_type: String,
    /// The C type in the large-count form, where it differs.
    pub(super) large: Option<String>,
    pub(super) check: Option<String>,
}

pub(super) struct Chapter {
    pub(super) number: String,
    pub(super) module: String,
    pub(super) title: String,
    pub(super) procedures: Vec<Procedure>,
    pub(super) standing: Standing,
}

/// The relation of a chapter or category to this version of the standard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It is part of it.
    Standard,
    /// It has been removed: the procedures are exported, but declared only when a program asks for them.
    Removed,
    /// It goes beyond it: `mpi-ext.h` declares it, and there is no Fortran binding.
    Extension,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    In,
    Out,
    InOut,
}

#[derive(Clone)]
pub(super) struct Parameter {
    pub(super) direction: Direction,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) lengths: Vec<String>,
    /// The type of the callback, for kinds that are pointers to functions.
    pub(super) function: Option<String>,
    pub(super) constant: bool,
    pub(super) value: bool,
    pub(super) pointer: bool,
    pub(super) large_only: bool,
    pub(super) root: bool,
}

#[derive(Clone)]
pub(super) struct Procedure {
    pub(super) name: String,
    pub(super) parameters: Vec<Parameter>,
    /// The kind of the returned value; `None`: an error code.
    pub(super) returns: Option<String>,
    pub(super) large: bool,
    pub(super) callback: bool,
    pub(super) anytime: bool,
    pub(super) deprecated: bool,
    /// The procedure and the form of which this is another name.
    pub(super) same_as: Option<(String, Form)>,
}

/// The two C bindings of a procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Small,
    Large,
}

pub(super) struct Category {
    pub(super) title: String,
    pub(super) constants: Vec<Constant>,
    pub(super) standing: Standing,
}

pub(super) struct Constant {
    pub(super) name: String,
    pub(super) value: i64,
    pub(super) c_type: String,
}

impl Procedure {
    pub(super) fn forms(&self) -> &'static [Form] {
        if self.large { &[Form::Small, Form::Large] } else { &[Form::Small] }
    }

    /// The symbol of one form: `MPI_Send`, `MPI_Send_c`.
    pub(super) fn symbol(&self, form: Form) -> String {
        match form {
            Form::Small => self.name.clone(),
            Form::Large => format!("{}_c", self.name),
        }
    }
}

impl Parameter {
    /// Returns whether the type depends on the form.
    pub(super) fn is_poly(&self) -> bool {
        self.kind.starts_with("POLY")
    }

    pub(super) fn in_form(&self, form: Form) -> bool {
        form == Form::Large || !self.large_only
    }
}

impl Spec {
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = directory.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let mut spec = Self {
            kinds: parse_kinds(&read("kinds.txt")?)?,
            chapters: parse_procedures(&read("procedures.txt")?, Standing::Standard)?,
            categories: parse_constants(&read("constants.txt")?)?,
            errors: parse_errors(&read("errors.txt")?)?,
        };
        spec.chapters.extend(parse_procedures(&read("removed.txt")?, Standing::Removed)?);
        let (constants, procedures) = parse_extensions(&read("extensions.txt")?)?;
        spec.categories.push(constants);
        spec.chapters.extend(parse_procedures(&procedures, Standing::Extension)?);
        spec.check()?;
        Ok(spec)
    }

    /// The categories of the standard's constants.
    pub(super) fn standard_categories(&self) -> impl Iterator<Item = &Category> {
        self.categories.iter().filter(|category| category.standing == Standing::Standard)
    }

    pub(super) fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.chapters.iter().flat_map(|chapter| &chapter.procedures).filter(|procedure| !procedure.callback)
    }

    pub(super) fn procedure(&self, name: &str) -> Result<&Procedure> {
        self.procedures().find(|procedure| procedure.name == name).with_context(|| format!("no procedure {name}"))
    }

    pub(super) fn c_type(&self, parameter: &Parameter, form: Form) -> &str {
        let kind = &self.kinds[&parameter.kind];
        match (&kind.large, form) {
            (Some(large), Form::Large) => large,
            _ => &kind.c_type,
        }
    }

    /// Checks that the tables agree with each other.
    fn check(&self) -> Result<()> {
        for procedure in self.chapters.iter().flat_map(|chapter| &chapter.procedures) {
            let kinds = procedure.parameters.iter().map(|parameter| &parameter.kind).chain(&procedure.returns);
            for kind in kinds {
                ensure!(self.kinds.contains_key(kind), "{}: kind {kind} is not in spec/kinds.txt", procedure.name);
            }
            if let Some((base, form)) = &procedure.same_as {
                let base = self.procedure(base)?;
                ensure!(
                    base.forms().contains(form) && base.parameters.len() == procedure.parameters.len(),
                    "{}",
                    procedure.name
                );
            }
        }
        let classes = self.categories.iter().flat_map(|category| &category.constants);
        for constant in classes.filter(|constant| constant.name.contains("_ERR_") || constant.name == "MPI_SUCCESS") {
            ensure!(
                self.errors.iter().any(|(name, _)| *name == constant.name),
                "{} has no sentence in spec/errors.txt",
                constant.name
            );
        }
        Ok(())
    }
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn parse_kinds(text: &str) -> Result<BTreeMap<String, Kind>> {
    let optional = |word: &str| (word != "-").then(|| word.to_owned());
    let mut kinds = BTreeMap::new();
    for row in rows(text) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [name, c_type, large, check] = words[..] else { bail!("spec/kinds.txt: {row:?} has not four columns") };
        let kind = Kind { c_type: c_type.to_owned(), large: optional(large), check: optional(check) };
        ensure!(kinds.insert(name.to_owned(), kind).is_none(), "spec/kinds.txt: {name} twice");
    }
    Ok(kinds)
}

fn parse_procedures(text: &str, standing: Standing) -> Result<Vec<Chapter>> {
    let mut chapters: Vec<Chapter> = Vec::new();
    for row in rows(text) {
        if let Some(rest) = row.strip_prefix("chapter ") {
            let mut words = rest.splitn(3, ' ').map(str::to_owned);
            let mut next = || words.next().with_context(|| format!("incomplete chapter: {row}"));
            let (number, module, title) = (next()?, next()?, next()?);
            chapters.push(Chapter { number, module, title, procedures: Vec::new(), standing });
        } else {
            let procedure = parse_procedure(row).with_context(|| format!("spec/procedures.txt: {row}"))?;
            chapters.last_mut().context("a procedure before any chapter")?.procedures.push(procedure);
        }
    }
    Ok(chapters)
}

fn parse_procedure(row: &str) -> Result<Procedure> {
    let (name, rest) = row.split_once('(').context("no (")?;
    let (parameters, rest) = rest.rsplit_once(')').context("no )")?;
    let mut procedure = Procedure {
        name: name.to_owned(),
        parameters: Vec::new(),
        returns: None,
        large: false,
        callback: false,
        anytime: false,
        deprecated: false,
        same_as: None,
    };
    for parameter in parameters.split(", ").filter(|text| !text.is_empty()) {
        procedure.parameters.push(parse_parameter(parameter)?);
    }
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "->" => procedure.returns = Some(words.next().context("no kind after ->")?.to_owned()),
            "as" => procedure.same_as = Some((words.next().context("no name after as")?.to_owned(), Form::Large)),
            "is" => procedure.same_as = Some((words.next().context("no name after is")?.to_owned(), Form::Small)),
            "large" => procedure.large = true,
            "callback" => procedure.callback = true,
            "anytime" => procedure.anytime = true,
            "deprecated" => procedure.deprecated = true,
            _ => bail!("unknown attribute {word:?}"),
        }
    }
    Ok(procedure)
}

fn parse_parameter(text: &str) -> Result<Parameter> {
    let mut words = text.split_whitespace();
    let mut next = || words.next().with_context(|| format!("incomplete parameter {text:?}"));
    let direction = match next()? {
        "in" => Direction::In,
        "out" => Direction::Out,
        "inout" => Direction::InOut,
        other => bail!("unknown direction {other:?}"),
    };
    let name = next()?.trim_end_matches(':').to_owned();
    let mut kind = next()?;
    let mut lengths = Vec::new();
    if let Some((head, tail)) = kind.split_once('[') {
        kind = head;
        lengths.extend(tail.trim_end_matches(']').split("][").map(str::to_owned));
    }
    let mut parameter = Parameter {
        direction,
        name,
        kind: kind.to_owned(),
        lengths,
        function: None,
        constant: false,
        value: false,
        pointer: false,
        large_only: false,
        root: false,
    };
    for word in words {
        match word {
            "const" => parameter.constant = true,
            "value" => parameter.value = true,
            "pointer" => parameter.pointer = true,
            "large" => parameter.large_only = true,
            "root" => parameter.root = true,
            function if function.starts_with("MPI_") => parameter.function = Some(function.to_owned()),
            _ => bail!("unknown flag {word:?} of {text:?}"),
        }
    }
    Ok(parameter)
}

fn parse_constants(text: &str) -> Result<Vec<Category>> {
    let mut categories: Vec<Category> = Vec::new();
    for row in rows(text) {
        if let Some(rest) = row.strip_prefix("category ") {
            let (_, title) = rest.split_once(' ').context("a category without a title")?;
            categories.push(Category { title: title.to_owned(), constants: Vec::new(), standing: Standing::Standard });
            continue;
        }
        let mut words = row.split_whitespace();
        let mut next = || words.next().with_context(|| format!("spec/constants.txt: {row}"));
        let constant = Constant { name: next()?.to_owned(), value: next()?.parse()?, c_type: next()?.to_owned() };
        categories.last_mut().context("a constant before any category")?.constants.push(constant);
    }
    Ok(categories)
}

/// Reads `extensions.txt`: its constants, and the rows of its procedures.
fn parse_extensions(text: &str) -> Result<(Category, String)> {
    let mut constants = Vec::new();
    let mut procedures = String::new();
    for row in rows(text) {
        let Some(constant) = row.strip_prefix("constant ") else {
            procedures.push_str(row);
            procedures.push('\n');
            continue;
        };
        let (name, value) = constant.split_once(' ').with_context(|| format!("spec/extensions.txt: {row}"))?;
        constants.push(Constant { name: name.to_owned(), value: value.trim().parse()?, c_type: "int".to_owned() });
    }
    let title = "Error classes beyond the standard".to_owned();
    Ok((Category { title, constants, standing: Standing::Extension }, procedures))
}

fn parse_errors(text: &str) -> Result<Vec<(String, String)>> {
    rows(text)
        .map(|row| {
            let (name, sentence) = row.split_once(' ').with_context(|| format!("spec/errors.txt: {row}"))?;
            Ok((name.to_owned(), sentence.trim().to_owned()))
        })
        .collect()
}
