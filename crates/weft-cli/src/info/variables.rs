//! The settings, each with its value and the source of the value.

use serde::Serialize;
use weft_mpi::settings::{Reader, TABLE};

/// A setting.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) default: &'static str,
    /// The source of the value: `environment` or `default`.
    pub(crate) source: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) allowed: &'static str,
    /// The program that reads the setting: `library` or `mpiexec`.
    pub(crate) reader: &'static str,
}

/// The table of settings with the values that `variable` returns. An empty variable counts as not set, as for
/// the library.
pub(crate) fn rows(variable: impl Fn(&str) -> Option<String>) -> Vec<Row> {
    let row = |setting: &'static weft_mpi::settings::Setting| {
        let said = variable(setting.name).filter(|value| !value.is_empty());
        Row {
            name: setting.name,
            source: if said.is_some() { "environment" } else { "default" },
            value: said.unwrap_or_else(|| setting.default.to_owned()),
            default: setting.default,
            meaning: setting.meaning,
            allowed: setting.allowed,
            reader: match setting.reader {
                Reader::Library => "library",
                Reader::Mpiexec => "mpiexec",
            },
        }
    };
    TABLE.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_says_is_told_from_defaults() {
        let rows = rows(|name| match name {
            "WEFT_EAGER_LIMIT" => Some("0".into()),
            "WEFT_LINK" => Some(String::new()),
            _ => None,
        });
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!((row("WEFT_EAGER_LIMIT").value.as_str(), row("WEFT_EAGER_LIMIT").source), ("0", "environment"));
        assert_eq!((row("WEFT_LINK").value.as_str(), row("WEFT_LINK").source), ("auto", "default"));
        assert_eq!(row("WEFT_AGENT").reader, "mpiexec");
    }
}
