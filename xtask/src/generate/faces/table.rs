//! Reads the table of an ABI in `spec/faces`.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;

/// A constant of an ABI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// The value as it is written in the table.
    Value(String),
    /// A handle that is the address of a variable.
    Address(Variable),
}

/// A variable whose address is a handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) symbol: String,
    pub(super) size_bytes: u32,
    /// The handle in Fortran.
    pub(super) integer: Option<i32>,
}

/// The values of an ABI.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The constants that the standard's ABI has, too, by their names.
    pub(super) entries: BTreeMap<String, Entry>,
    /// Other handles with the same meaning: the name of the constant, and the handle.
    pub(super) others_of: Vec<(String, Entry)>,
    /// Variables for which the standard's ABI has no constant.
    pub(super) others: Vec<Variable>,
}

impl Table {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut table = Self::default();
        for row in text.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with('#')) {
            let (name, entry) = parse_row(row).with_context(|| row.to_owned())?;
            match entry {
                entry if name.starts_with('~') => table.others_of.push((name[1..].to_owned(), entry)),
                Entry::Address(variable) if name == "-" => table.others.push(variable),
                entry => {
                    ensure!(table.entries.insert(name.to_owned(), entry).is_none(), "{name} twice");
                }
            }
        }
        Ok(table)
    }
}

fn parse_row(row: &str) -> Result<(&str, Entry)> {
    match row.split_whitespace().collect::<Vec<_>>()[..] {
        [name, value] => {
            let digits = value.trim_start_matches("0x").trim_start_matches('-');
            ensure!(u64::from_str_radix(digits, 16).is_ok(), "{value} is no number");
            Ok((name, Entry::Value(value.to_owned())))
        }
        [name, symbol, size, integer] => {
            let integer = if integer == "-" { None } else { Some(integer.parse()?) };
            let variable = Variable { symbol: symbol.to_owned(), size_bytes: size.parse()?, integer };
            Ok((name, Entry::Address(variable)))
        }
        _ => bail!("the row has neither two columns nor four"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_values_and_variables() {
        let table = Table::parse("# head\nA -3\nB 0x44000000\n\nC c_symbol 512 7\n- other 256 -\n~B 0x45\n").unwrap();
        assert_eq!(table.entries["A"], Entry::Value("-3".to_owned()));
        assert_eq!(table.entries["B"], Entry::Value("0x44000000".to_owned()));
        let variable = Variable { symbol: "c_symbol".to_owned(), size_bytes: 512, integer: Some(7) };
        assert_eq!(table.entries["C"], Entry::Address(variable));
        assert_eq!(table.others[0].integer, None);
        assert_eq!(table.others_of, [("B".to_owned(), Entry::Value("0x45".to_owned()))]);
        for wrong in ["A", "A x", "A 1 2", "A s many -", "A 1\nA 2"] {
            assert!(Table::parse(wrong).is_err(), "{wrong}");
        }
    }
}
