//! What shells complete: the options of `weft` and `mpiexec`, and the values of some.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;
use weft_launch::mpiexec::{self, ManualRow};

/// The shells, and the file for each program below `share`, where distributions look for it.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/NAME"),
    (Shell::Zsh, "zsh/site-functions/_NAME"),
    (Shell::Fish, "fish/vendor_completions.d/NAME.fish"),
];

/// The files for all shells. `weft` is its command line.
pub(super) fn all(weft: Command) -> Vec<(PathBuf, Vec<u8>)> {
    let programs = [("weft", weft), ("mpiexec", of_mpiexec("mpiexec")), ("mpirun", of_mpiexec("mpirun"))];
    let mut files = Vec::new();
    for (name, command) in programs {
        for (shell, path) in SHELLS {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command.clone(), name, &mut text);
            files.push((path.replace("NAME", name).into(), text));
        }
    }
    files
}

/// The command line of `mpiexec`, as far as completion needs it: the options that have an effect, each with
/// all its names, and a program.
fn of_mpiexec(name: &'static str) -> Command {
    let options = mpiexec::manual().sections.into_iter().flat_map(|section| section.rows).filter(|row| row.works);
    Command::new(name)
        .disable_help_flag(true)
        .args(options.map(|row| option(&row)))
        .arg(Arg::new("program").value_hint(ValueHint::CommandWithArguments).num_args(1..).trailing_var_arg(true))
}

/// An option. One dash or two may stand before a name of several letters; shells are offered two.
fn option(row: &ManualRow) -> Arg {
    let bare = |name: &&'static str| name.trim_start_matches('-');
    let letter = |name: &'static str| Some(name.chars().next()?).filter(|_| name.chars().count() == 1);
    let mut long = row.names.iter().map(bare).filter(|name| letter(name).is_none());
    // Shells would take `-?` for a pattern.
    let mut short = row.names.iter().map(bare).filter_map(letter).filter(char::is_ascii_alphabetic);
    let mut argument = Arg::new(row.names[0]).help(row.text);
    if let Some(name) = long.next() {
        argument = argument.long(name).visible_aliases(long);
    }
    if let Some(name) = short.next() {
        argument = argument.short(name).visible_short_aliases(short);
    }
    match row.value.trim_start_matches([' ', '[', '=']).trim_end_matches(']') {
        "" => argument.action(ArgAction::SetTrue),
        value => argument.action(ArgAction::Append).value_hint(hint(value)).num_args(match row.value.as_bytes()[0] {
            b'[' => 0..=1,
            _ => 1..=value.split(' ').count(),
        }),
    }
}

/// What a value is, by its name in `--help`.
fn hint(value: &str) -> ValueHint {
    match value {
        "FILE" => ValueHint::FilePath,
        "DIR" | "DIRECTORY" => ValueHint::DirPath,
        "HOST" | "HOSTS" => ValueHint::Hostname,
        _ => ValueHint::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expect: the shells know each option of `mpiexec` that has an effect, by each of its names.
    #[test]
    fn every_option_of_mpiexec_is_completed() {
        of_mpiexec("mpiexec").debug_assert();
        let files = all(Command::new("weft"));
        let bash = files.iter().find(|(path, _)| path.ends_with("completions/mpiexec")).unwrap();
        let bash = String::from_utf8(bash.1.clone()).unwrap();
        let offered: Vec<&str> = bash.split(|letter: char| letter == '"' || letter.is_whitespace()).collect();
        for row in mpiexec::manual().sections.iter().flat_map(|section| &section.rows).filter(|row| row.works) {
            for name in &row.names {
                let bare = name.trim_start_matches('-');
                let dashes = if bare.chars().count() == 1 { "-" } else { "--" };
                let is_offered = offered.contains(&format!("{dashes}{bare}").as_str());
                assert!(is_offered || bare == "?", "{name} is not completed");
            }
        }
        assert_eq!(files.len(), 9);
    }
}
