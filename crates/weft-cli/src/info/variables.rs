//! The settings, each with its value and the source of the value.

use serde::Serialize;
use weft_mpi::settings::{Origin, Reader, Setting, TABLE};

/// A setting.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) default: &'static str,
    /// The source of the value: `environment`, `file` or `default`.
    pub(crate) source: &'static str,
    /// The file and the line, where a file is the source.
    pub(crate) place: Option<String>,
    pub(crate) meaning: &'static str,
    pub(crate) allowed: &'static str,
    /// The program that reads the setting: `library` or `mpiexec`.
    pub(crate) reader: &'static str,
}

/// The table of settings with the values that `said` returns, and their sources.
pub(crate) fn rows(said: impl Fn(&Setting) -> (String, Origin)) -> Vec<Row> {
    let row = |setting: &'static Setting| {
        let (value, origin) = said(setting);
        let (source, place) = match origin {
            Origin::Environment => ("environment", None),
            Origin::File(place) => ("file", Some(place)),
            Origin::Default => ("default", None),
        };
        Row {
            name: setting.name,
            value,
            default: setting.default,
            source,
            place,
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
    fn what_the_environment_and_files_say_is_told_from_defaults() {
        let rows = rows(|setting| match setting.name {
            "WEFT_EAGER_LIMIT" => ("0".into(), Origin::Environment),
            "WEFT_ACK" => ("deferred".into(), Origin::File("/etc/weft.conf, line 3".into())),
            _ => (setting.default.to_owned(), Origin::Default),
        });
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        let seen = |name: &str| (row(name).value.as_str(), row(name).source, row(name).place.as_deref());
        assert_eq!(seen("WEFT_EAGER_LIMIT"), ("0", "environment", None));
        assert_eq!(seen("WEFT_ACK"), ("deferred", "file", Some("/etc/weft.conf, line 3")));
        assert_eq!(seen("WEFT_LINK"), ("auto", "default", None));
        assert_eq!(row("WEFT_AGENT").reader, "mpiexec");
    }
}
