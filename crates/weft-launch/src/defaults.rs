//! The files of defaults: `/etc/weft.conf`, which the administrator writes, and the user's `weft.conf`.
//!
//! Ranks of one job must agree, and the file of the host where a job is started may differ from those of its
//! other hosts. So `mpiexec` reads the files, and hands what they say to all ranks as one variable
//! ([`VARIABLE`]); a rank that has the variable opens no file. Other launchers hand on no such variable. Each
//! rank then reads the files of its host; ranks that would choose different algorithms are told at the start,
//! as they are when their environments differ.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// The variable in which `mpiexec` hands the defaults to ranks; users do not write it.
pub const VARIABLE: &str = "WEFT_DEFAULTS";
/// The system's file.
const SYSTEM: &str = "/etc/weft.conf";
/// The name of the user's file, in `$XDG_CONFIG_HOME` or in `~/.config`.
const USERS: &str = "weft.conf";
/// The most bytes of a file.
const FILE_BYTES_MAX: usize = 16 << 10;
/// The most bytes of a file's path, as it is shown.
const PATH_BYTES_MAX: usize = 4 << 10;
/// The beginning of every name.
const PREFIX: &str = "WEFT_";
/// What stands before the path of a file in [`VARIABLE`].
const FILE: &str = "file ";
/// The kernel's limit for a variable, bytes (MAX_ARG_STRLEN). A line of a file needs less than twice its
/// bytes in the variable: a number is shorter than the shortest line.
const VARIABLE_BYTES_MAX: usize = 128 << 10;
const _: () = assert!(2 * (FILE.len() + PATH_BYTES_MAX + 2 * FILE_BYTES_MAX) < VARIABLE_BYTES_MAX);

/// A line of a file that sets a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The name, `WEFT_…`, which need not be one that this version knows.
    pub name: String,
    /// The value, without blanks around it.
    pub value: String,
    /// The path of the file.
    pub file: String,
    /// The number of the line, from 1.
    pub number: u32,
}

impl Line {
    /// The place of the line, in the words of a message.
    pub fn place(&self) -> String {
        format!("{}, line {}", self.file, self.number)
    }
}

/// What the files of defaults say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The user's lines, then the system's.
    lines: Vec<Line>,
}

impl Defaults {
    /// The defaults for this process: those that `mpiexec` has handed on, else those in the files of this
    /// host.
    ///
    /// # Errors
    /// One sentence about the file that cannot be read, or the line that makes no sense.
    pub fn of_process() -> Result<Self, String> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::from_variable(&text),
            Err(_) => Self::of_host(),
        }
    }

    /// The defaults in the files of this host. A file that is not there says nothing.
    ///
    /// # Errors
    /// One sentence about the file that cannot be read, or the line that makes no sense.
    pub fn of_host() -> Result<Self, String> {
        let mut lines = Vec::new();
        for path in users_file(|name| std::env::var_os(name).map(PathBuf::from)).into_iter().chain([SYSTEM.into()]) {
            if let Some(text) = read(&path)? {
                lines.extend(parse(&shown(&path), &text)?);
            }
        }
        Ok(Self { lines })
    }

    /// The line that counts for this setting.
    pub fn find(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name && !line.value.is_empty())
    }

    /// All lines, the user's before the system's.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The text for [`VARIABLE`].
    pub fn to_variable(&self) -> String {
        let (mut text, mut file) = (String::new(), "");
        for line in &self.lines {
            if line.file != file {
                file = &line.file;
                text.push_str(&format!("{FILE}{file}\n"));
            }
            text.push_str(&format!("{} {}={}\n", line.number, line.name, line.value));
        }
        text
    }

    /// The defaults in the text of [`VARIABLE`].
    ///
    /// # Errors
    /// One sentence: the text is none that `mpiexec` writes.
    pub fn from_variable(text: &str) -> Result<Self, String> {
        let (mut lines, mut file) = (Vec::new(), None);
        for row in text.lines() {
            if let Some(path) = row.strip_prefix(FILE) {
                file = Some(path);
                continue;
            }
            let parts =
                row.split_once(' ').and_then(|(number, rest)| Some((number.parse().ok()?, rest.split_once('=')?)));
            let (Some((number, (name, value))), Some(file)) = (parts, file) else {
                return Err(format!(
                    "{VARIABLE} has `{row}` in it, which mpiexec does not write: leave the variable unset"
                ));
            };
            lines.push(Line { name: name.into(), value: value.into(), file: file.into(), number });
        }
        Ok(Self { lines })
    }
}

/// The path of the user's file. `variable` looks into the environment. Paths that depend on where a process
/// runs do not count (XDG Base Directory Specification).
fn users_file(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let configuration = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let below_home = || variable("HOME").filter(|path| path.is_absolute()).map(|home| home.join(".config"));
    configuration.or_else(below_home).map(|directory| directory.join(USERS))
}

/// The path as messages and [`VARIABLE`] show it.
fn shown(path: &std::path::Path) -> String {
    let text: String =
        path.to_string_lossy().chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    let end = (0..=text.len().min(PATH_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].to_owned()
}

/// Returns whether a file cannot be opened because there is none, as far as this user can see. Directories of
/// another user, whose HOME this process has, may be closed.
fn is_absent(path: &std::path::Path, error: &std::io::Error) -> bool {
    let is_missing = matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory);
    is_missing || (error.kind() == std::io::ErrorKind::PermissionDenied && path.symlink_metadata().is_err())
}

/// The text of a file; `None` where there is no file.
fn read(path: &std::path::Path) -> Result<Option<String>, String> {
    let says = |what: String| format!("the file of settings {} {what}", shown(path));
    // Opening a pipe would wait for its writer.
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file: File = match opened {
        Ok(file) => file,
        Err(error) if is_absent(path, &error) => return Ok(None),
        Err(error) => return Err(says(format!("cannot be read: {error}: mend that, or remove the file"))),
    };
    let mut bytes = Vec::new();
    let length = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    let length = length.map_err(|error| says(format!("cannot be read: {error}: mend that, or remove the file")))?;
    if length > FILE_BYTES_MAX {
        return Err(says(format!("has more than {FILE_BYTES_MAX} bytes: shorten it")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| says("is no text in UTF-8: mend that".to_owned()))
}

/// The lines of a file's text that set something. `file` is its path.
fn parse(file: &str, text: &str) -> Result<Vec<Line>, String> {
    let mut lines: Vec<Line> = Vec::new();
    for (number, whole) in (1..).zip(text.lines()) {
        let row = whole.trim();
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| Err(format!("{file}, line {number}: `{}` {why}", row.escape_debug()));
        let Some((name, value)) = row.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            return wrong("sets nothing: write NAME = VALUE, or # before a remark");
        };
        if !is_name(name) {
            return wrong("has no name of a setting before the =: names are capitals, and begin with WEFT_");
        }
        if value.contains(char::is_control) {
            return wrong("has a control character in its value: remove that");
        }
        if value.starts_with(['"', '\'']) {
            return wrong("has quotation marks, which would be a part of the value: write the value without them");
        }
        if let Some(first) = lines.iter().find(|line| line.name == name) {
            return wrong(&format!("sets {name} again, which line {} does already: keep one of them", first.number));
        }
        lines.push(Line { name: name.into(), value: value.into(), file: file.into(), number });
    }
    Ok(lines)
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == b'_';
    name.len() > PREFIX.len() && name.starts_with(PREFIX) && name.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, value: &str, file: &str, number: u32) -> Line {
        Line { name: name.into(), value: value.into(), file: file.into(), number }
    }

    #[test]
    fn lines_set_settings_and_remarks_do_not() {
        let text = "# a site's\n\n  WEFT_LINK = shared,tcp \nWEFT_FAULTS=drop=5%,seed=7 # is no remark\n\t# is one\nWEFT_NODE=\n";
        let lines = parse("f", text).unwrap();
        let wanted = [
            line("WEFT_LINK", "shared,tcp", "f", 3),
            line("WEFT_FAULTS", "drop=5%,seed=7 # is no remark", "f", 4),
            line("WEFT_NODE", "", "f", 6),
        ];
        assert_eq!(lines, wanted);
        let defaults = Defaults { lines };
        assert_eq!(defaults.find("WEFT_LINK").map(Line::place).as_deref(), Some("f, line 3"));
        // As in the environment, an empty value asks for nothing.
        assert_eq!((defaults.find("WEFT_NODE"), defaults.find("WEFT_ACK")), (None, None));
    }

    #[test]
    fn a_bad_line_gets_its_place_the_reason_and_the_remedy() {
        for (row, why, remedy) in [
            ("WEFT_LINK udp", "sets nothing", "write NAME = VALUE"),
            ("PATH=/bin", "no name of a setting", "begin with WEFT_"),
            ("WEFT_=1", "no name of a setting", "begin with WEFT_"),
            ("weft_link=udp", "no name of a setting", "capitals"),
            ("export WEFT_LINK=udp", "no name of a setting", "capitals"),
            ("WEFT_LINK=\"udp\"", "quotation marks", "without them"),
            ("WEFT_LINK=u\u{7}dp", "control character", "remove"),
            ("WEFT_ACK=immediate", "again, which line 1 does already", "keep one"),
        ] {
            let said = parse("/etc/weft.conf", &format!("WEFT_ACK=deferred\n{row}\n")).unwrap_err();
            assert!(said.starts_with("/etc/weft.conf, line 2: `"), "{said}");
            assert!(said.contains(why) && said.contains(remedy) && !said.contains(char::is_control), "{said}");
        }
    }

    #[test]
    fn what_mpiexec_hands_on_is_what_it_has_read() {
        let lines = vec![
            line("WEFT_LINK", "auto,xdp", "/home/u ser/.config/weft.conf", 2),
            line("WEFT_AGENT", "ssh -o 'A=b c' {host}", "/home/u ser/.config/weft.conf", 9),
            line("WEFT_LINK", "", "/etc/weft.conf", 1),
        ];
        for defaults in [Defaults { lines }, Defaults::default()] {
            assert_eq!(Defaults::from_variable(&defaults.to_variable()), Ok(defaults));
        }
        for wrong in ["1 WEFT_LINK=udp", "file f\nWEFT_LINK=udp", "file f\n1 WEFT_LINK", "yes"] {
            assert!(
                Defaults::from_variable(wrong).is_err_and(|why| why.contains("leave the variable unset")),
                "{wrong}"
            );
        }
    }

    /// The longest variable is that of two files full of the shortest lines.
    #[test]
    fn two_full_files_fit_into_a_variable() {
        let row = |number: u32| format!("WEFT_{number:04X}=\n");
        let text: String = (0..).map(row).take(FILE_BYTES_MAX / row(0).len()).collect();
        let path = "p".repeat(PATH_BYTES_MAX);
        let mut lines = parse(&path, &text).unwrap();
        lines.extend(parse(&format!("q{}", &path[1..]), &text).unwrap());
        assert!(Defaults { lines }.to_variable().len() < VARIABLE_BYTES_MAX);
    }

    #[test]
    fn the_users_file_is_where_configuration_is() {
        let with = |pairs: &[(&str, &str)]| {
            users_file(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, path)| PathBuf::from(path)))
        };
        assert_eq!(with(&[("HOME", "/home/u")]), Some("/home/u/.config/weft.conf".into()));
        assert_eq!(with(&[("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/c")]), Some("/c/weft.conf".into()));
        assert_eq!(with(&[("HOME", "/home/u"), ("XDG_CONFIG_HOME", "c")]), Some("/home/u/.config/weft.conf".into()));
        assert_eq!((with(&[]), with(&[("HOME", "")])), (None, None));
    }

    #[test]
    fn only_a_file_of_bounded_size_is_read() {
        let directory = std::env::temp_dir().join(format!("weft-defaults-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("weft.conf");
        assert_eq!(read(&path), Ok(None));
        std::fs::write(&path, "#".repeat(FILE_BYTES_MAX)).unwrap();
        assert!(read(&path).is_ok_and(|text| text.is_some_and(|text| text.len() == FILE_BYTES_MAX)));
        std::fs::write(&path, "#".repeat(FILE_BYTES_MAX + 1)).unwrap();
        assert!(read(&path).is_err_and(|why| why.contains("shorten")));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read(&path).is_err_and(|why| why.contains("UTF-8")));
        assert!(read(&directory).is_err_and(|why| why.contains("cannot be read")));
        assert_eq!(read(&path.join("below")), Ok(None));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
