//! The pages for man(1), in the language of roff's macros man(7).

use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use weft_launch::mpiexec::{self, ManualRow};
use weft_mpi::settings::{Reader, TABLE};

/// The name of the manual, at the top of each page.
const MANUAL: &str = "Weft's manual";

/// The pages of `weft` and of each of its commands.
pub(super) fn of_weft(command: &Command) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, "weft", &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
    // The version is said at the bottom of a page, and by `weft --version` with everything else.
    let version = env!("CARGO_PKG_VERSION");
    let shown =
        command.clone().name(name.to_owned()).display_name(name.to_owned()).version(version).long_version(version);
    let mut text = Vec::new();
    Man::new(shown).source(source()).manual(MANUAL).render(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    pages.push((format!("man/man1/{name}.1").into(), without_date(&text).into_bytes()));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn source() -> String {
    format!("Weft {}", env!("CARGO_PKG_VERSION"))
}

/// Marks that a page has no date. roff's writer leaves an empty word out, and the next one would count as the
/// date. With a date a page would differ from build to build.
fn without_date(page: &str) -> String {
    page.replacen("  \"Weft", " \"\" \"Weft", 1)
}

/// A page with its title and the section NAME.
fn begun(name: &str, section: &str, what: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, section, "", source().as_str(), MANUAL]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {what}"))]);
    page
}

/// The page of `mpiexec`.
pub(super) fn of_mpiexec() -> String {
    let manual = mpiexec::manual();
    let mut page = begun("mpiexec", "1", "starts the ranks of an MPI job, on this host or on several");
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold("mpiexec"), roman(" [options] "), italic("program"), roman(" [arguments] [: [options] …]")]);
    page.control("SH", ["DESCRIPTION"]);
    for line in manual.introduction.lines() {
        match line.strip_prefix("  ") {
            Some(example) => {
                page.control("RS", []).control("nf", []).text([roman(example)]).control("fi", []).control("RE", [])
            }
            None if line.is_empty() => page.control("PP", []),
            None => page.text([roman(line)]),
        };
    }
    for section in &manual.sections {
        page.control("SH", [section.title.to_uppercase().as_str()]);
        section.rows.iter().for_each(|row| add(&mut page, row));
        if !section.remark.is_empty() {
            page.control("PP", []).text([roman(section.remark)]);
        }
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("weft"), roman("(1), "), bold("weft.conf"), roman("(5)")]);
    without_date(&page.to_roff())
}

fn add(page: &mut Roff, row: &ManualRow) {
    let mut names = Vec::new();
    for name in &row.names {
        if !names.is_empty() {
            names.push(roman(", "));
        }
        names.push(bold(*name));
    }
    names.push(italic(row.value.as_str()));
    page.control("TP", []).text(names).text([roman(row.text)]);
}

/// The page of the settings and their files.
pub(super) fn of_settings() -> String {
    let mut page = begun("weft.conf", "5", "settings of Weft for a system or a user");
    page.control("SH", ["SYNOPSIS"]);
    page.text([italic("/etc/weft.conf")]).control("br", []).text([italic("~/.config/weft.conf")]);
    page.control("SH", ["DESCRIPTION"]);
    let about = [
        "Each line sets a setting of Weft, as NAME = VALUE. The value ends with the line; blanks around it do not \
         count. Empty lines, and lines that begin with #, say nothing.",
        "The environment counts more than the user's file, and that more than the system's. The user's file is in \
         $XDG_CONFIG_HOME, if that is set.",
        "mpiexec reads both files where it is called, and hands what they say to all ranks. Under other launchers \
         each rank reads those of its host. weft info shows each setting with its value and where that comes from.",
        "A line that makes no sense, or a value that a setting may not have, stops the job with one sentence. A \
         setting that this version does not know is named in a note.",
    ];
    for (number, paragraph) in about.into_iter().enumerate() {
        if number > 0 {
            page.control("PP", []);
        }
        page.text([roman(paragraph)]);
    }
    page.control("SH", ["EXAMPLE"]).control("nf", []);
    page.text([roman("# /etc/weft.conf: the second network is for storage")]);
    page.text([roman("WEFT_INTERFACE = !10.2.0.0/16")]).control("fi", []);
    for (title, reader) in [("SETTINGS OF THE LIBRARY", Reader::Library), ("SETTINGS OF MPIEXEC", Reader::Mpiexec)] {
        page.control("SH", [title]);
        for setting in TABLE.iter().filter(|setting| setting.reader == reader) {
            let default = if setting.default.is_empty() { "none" } else { setting.default };
            page.control("TP", []).text([bold(setting.name)]);
            page.text([roman(format!(
                "{}. It may say {}; the default is {default}.",
                setting.meaning, setting.allowed
            ))]);
        }
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("mpiexec"), roman("(1), "), bold("weft-info"), roman("(1)")]);
    without_date(&page.to_roff())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// roff writes a hyphen that can be copied as `\-`.
    fn plain(page: &str) -> String {
        page.replace("\\-", "-").replace("\\&", "").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
    }

    /// Expect: no option and no setting is missing.
    #[test]
    fn every_option_and_every_setting_has_its_place() {
        let page = plain(&of_mpiexec());
        for name in mpiexec::manual().sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.names) {
            assert!(page.contains(name), "mpiexec(1) lacks {name}");
        }
        let page = plain(&of_settings());
        assert!(TABLE.iter().all(|setting| page.contains(setting.name) && page.contains(setting.allowed)));
    }

    /// Expect: each command has a page, and what is hidden has none.
    #[test]
    fn commands_have_pages() {
        let command = Command::new("weft")
            .subcommand(Command::new("info").about("a").subcommand(Command::new("deep").about("b")))
            .subcommand(Command::new("secret").hide(true));
        let pages = of_weft(&command).unwrap();
        let names: Vec<_> = pages.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        assert_eq!(names, ["man/man1/weft.1", "man/man1/weft-info.1", "man/man1/weft-info-deep.1"]);
    }
}
