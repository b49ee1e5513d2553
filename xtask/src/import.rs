//! `cargo xtask import DIR`: makes `spec/procedures.txt` and `spec/constants.txt` from the two JSON files
//! that the MPI Forum publishes with the standard (`mpi-standard-5.0-apis.json`,
//! `mpi-standard-5.0-abi.json`).
//!
//! The command is needed only when the standard changes: everything else reads `spec/`. Three facts are not
//! in the JSON files and come from `classify.rs`: the chapter of a procedure, the calls that work before
//! initialisation, and the deprecated calls.

mod classify;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [directory] = arguments else { bail!("usage: cargo xtask import DIR") };
    let read = |name: &str| -> Result<Value> {
        let path = Path::new(directory).join(name);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    };
    let procedures = procedures_table(&read("mpi-standard-5.0-apis.json")?)?;
    let constants = constants_table(&read("mpi-standard-5.0-abi.json")?)?;
    let spec = crate::generate::project_root().join("spec");
    std::fs::write(spec.join("procedures.txt"), procedures)?;
    std::fs::write(spec.join("constants.txt"), constants)?;
    println!("wrote spec/procedures.txt and spec/constants.txt");
    Ok(())
}

/// The text of a JSON field that must be there.
fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("no text field {field:?} in {value}"))
}

const PROCEDURES_HEAD: &str = "\
# The procedures of MPI 5.0 that have a C binding. Made by `cargo xtask import`; do not edit.
#
# chapter NUMBER MODULE TITLE
# NAME(DIRECTION name: KIND FLAGS, ...) [-> KIND] ATTRIBUTES
#
# FLAGS: [length] an array (length: a parameter, a number, or * when it follows from something else); const; value: not
#   a pointer whatever the direction says; pointer: a pointer whatever the direction says; large: only in the
#   large-count form; root: significant only at the root.
# Without `-> KIND` the procedure returns an error code.
# ATTRIBUTES: large: there is a large-count form NAME_c; anytime: may be called before initialisation and after
#   finalisation (MPI-5.0 §11.4.1); deprecated; callback: the type of a user's function, not a procedure;
#   as NAME: the same as the large-count form of NAME.
";

fn procedures_table(api: &Value) -> Result<String> {
    let api = api.as_object().context("the API file is not an object")?;
    let mut chapters: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for procedure in api.values() {
        let attributes = &procedure["attributes"];
        let callback = attributes["callback"] == true;
        let name = text(procedure, "name")?;
        if attributes["c_expressible"] != true
            || !attributes["predefined_function"].is_null()
            || classify::outside_abi(name)
        {
            continue;
        }
        let chapter = if callback { classify::CALLBACKS } else { classify::chapter(name)? };
        chapters.entry(chapter).or_default().push(procedure_line(procedure, callback)?);
    }
    let mut out = PROCEDURES_HEAD.to_owned();
    for (number, mut lines) in chapters {
        let (module, title) = classify::chapter_title(number)?;
        writeln!(out, "\nchapter {number} {module} {title}")?;
        lines.sort_by_key(|line| line.to_lowercase());
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(out)
}

fn procedure_line(procedure: &Value, callback: bool) -> Result<String> {
    let name = text(procedure, "name")?;
    let mut parameters = Vec::new();
    let mut large = false;
    for parameter in procedure["parameters"].as_array().context("no parameters")? {
        if text(parameter, "suppress")?.contains("c_parameter") {
            continue;
        }
        large |= text(parameter, "kind")?.starts_with("POLY");
        parameters.push(parameter_text(parameter).with_context(|| name.to_owned())?);
    }
    let mut line = format!("{name}({})", parameters.join(", "));
    let return_kind = text(procedure, "return_kind")?;
    if return_kind != "ERROR_CODE" {
        write!(line, " -> {return_kind}")?;
    }
    if large || classify::large_without_poly(name) {
        line.push_str(" large");
    }
    if callback {
        line.push_str(" callback");
    }
    if classify::anytime(name) {
        line.push_str(" anytime");
    }
    if !callback && classify::deprecated(name) {
        line.push_str(" deprecated");
    }
    if let Some(base) = classify::same_as_large(name) {
        write!(line, " as {base}")?;
    }
    Ok(line)
}

fn parameter_text(parameter: &Value) -> Result<String> {
    let kind = text(parameter, "kind")?;
    let function = text(parameter, "func_type")?;
    let mut out = format!("{} {}: {kind}", text(parameter, "param_direction")?, text(parameter, "name")?);
    match &parameter["length"] {
        Value::Null => {}
        // The length of a string needs no mark: the type is `char *` already.
        _ if kind == "STRING" => {}
        Value::String(length) if length.is_empty() => out.push_str("[*]"),
        Value::String(length) => write!(out, "[{length}]")?,
        Value::Array(lengths) => {
            for length in lengths {
                write!(out, "[{}]", length.as_str().context("length")?)?;
            }
        }
        other => bail!("length {other}"),
    }
    if !function.is_empty() {
        write!(out, " {function}")?;
    } else if let Some(function) = classify::callback_of_kind(kind) {
        write!(out, " {function}")?;
    }
    // The file has both `true` and `"true"`.
    if parameter["constant"] == true || parameter["constant"] == "true" {
        out.push_str(" const");
    }
    match parameter["pointer"].as_bool() {
        Some(true) => out.push_str(" pointer"),
        Some(false) => out.push_str(" value"),
        None => {}
    }
    if parameter["large_only"] == true {
        out.push_str(" large");
    }
    if parameter["root_only"] == true {
        out.push_str(" root");
    }
    Ok(out)
}

const CONSTANTS_HEAD: &str = "\
# The constants of MPI 5.0 with their values in the standard ABI (MPI-5.0 §20). Made by `cargo xtask import`; do not edit.
#
# category NAME TITLE
# NAME VALUE TYPE [C type that a predefined datatype stands for]
";

fn constants_table(abi: &Value) -> Result<String> {
    let constants = abi["constants"].as_object().context("no constants")?;
    let categories = abi["categories"].as_object().context("no categories")?;
    let mut members: BTreeMap<String, Vec<(i64, String, String)>> = BTreeMap::new();
    for constant in constants.values() {
        let name = text(constant, "name")?;
        let Some(c_type) = constant["handle_types"]["c"]["type"].as_str() else { continue };
        let value = constant["abi_value"].as_i64().with_context(|| format!("{name} has no value"))?;
        let mut line = format!("{name} {value} {}", c_type.replace(' ', ""));
        if let Some(of) = constant["datatypes"]["c"]["type"].as_str().filter(|of| !of.starts_with('(')) {
            write!(line, " {of}")?;
        }
        members.entry(text(constant, "category")?.to_owned()).or_default().push((value, name.to_owned(), line));
    }
    let mut out = CONSTANTS_HEAD.to_owned();
    for name in classify::CATEGORIES {
        let Some(mut list) = members.remove(*name) else { bail!("category {name} is empty") };
        let title = categories.values().find(|c| c["name"] == *name).context("unknown category")?;
        let title = text(title, "name_tex")?.replace("\\MPI/", "MPI");
        writeln!(out, "\ncategory {name} {title}")?;
        list.sort();
        for (_, _, line) in list {
            writeln!(out, "{line}")?;
        }
    }
    ensure!(members.is_empty(), "categories without a place: {:?}", members.keys());
    Ok(out)
}
