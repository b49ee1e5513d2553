//! The kinds of values of a setting: a switch, a number, or the path of a file.

use super::table::Setting;

/// The most bytes of a file that a setting names: a table for collectives, or costs.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the file at `path`, which is the value of `setting`, with `parse`.
pub(super) fn users_file<T>(
    setting: &Setting,
    path: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    let says = |what: String| format!("{}={path}: {what}", setting.name);
    let file = std::fs::File::open(path).map_err(|error| says(error.to_string()))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, FILE_BYTES_MAX), &mut text)
        .map_err(|error| says(error.to_string()))?;
    parse(&text).map_err(says)
}

pub(super) fn switch(setting: &Setting, variable: &dyn Fn(&str) -> Option<String>) -> Result<bool, String> {
    let value = setting.value(variable).unwrap_or_default();
    match value.as_str() {
        "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err(setting.says(&value, "is neither on nor off")),
    }
}

pub(super) fn number(setting: &Setting, variable: &dyn Fn(&str) -> Option<String>, max: u64) -> Result<u64, String> {
    let value = setting.value(variable).unwrap_or_default();
    match value.parse::<u64>() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(setting.says(&value, "is not such a whole number")),
    }
}

/// Reads the number of a setting that may also be `auto`: then `None`.
pub(super) fn number_or_auto(
    setting: &Setting,
    variable: &dyn Fn(&str) -> Option<String>,
    max: u64,
) -> Result<Option<u64>, String> {
    match setting.value(variable).as_deref() {
        None | Some("auto") => Ok(None),
        Some(_) => number(setting, variable, max).map(Some),
    }
}
