//! Finds the program that a rank shall run, or says why it cannot be run.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Exit status for a program that does not exist, as shells have it.
pub(crate) const STATUS_MISSING: i32 = 127;
/// Exit status for a program that exists but cannot be executed.
pub(crate) const STATUS_UNUSABLE: i32 = 126;
/// The directories for programs when the environment has no PATH.
pub(crate) const PATH_DEFAULT: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The reason why a program cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    /// The exit status that `mpiexec` shall end with.
    pub(crate) status: i32,
    /// The reason, half a sentence.
    pub(crate) reason: String,
}

/// Finds the file that `word` names for a process in `directory` with this `PATH`.
pub(crate) fn find(word: &[u8], path: Option<&[u8]>, directory: &Path) -> Result<PathBuf, Unusable> {
    let name = Path::new(OsStr::from_bytes(word));
    if word.contains(&b'/') {
        let file = directory.join(name);
        return check(&file).map(|()| file);
    }
    let mut unusable = None;
    for entry in path.unwrap_or(PATH_DEFAULT).split(|&byte| byte == b':') {
        let file = directory.join(OsStr::from_bytes(entry)).join(name);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(why) if why.status == STATUS_UNUSABLE && !file.is_dir() => unusable = unusable.or(Some(why)),
            Err(_) => {}
        }
    }
    let here = directory.join(name);
    let hint = if check(&here).is_ok() {
        format!("; type ./{0} for {1}", name.display(), here.display())
    } else {
        String::new()
    };
    let reason = format!("there is no program {} in PATH{hint}", name.display());
    Err(unusable.unwrap_or(Unusable { status: STATUS_MISSING, reason }))
}

fn check(file: &Path) -> Result<(), Unusable> {
    let unusable = |reason| Err(Unusable { status: STATUS_UNUSABLE, reason });
    match std::fs::metadata(file) {
        Ok(data) if data.is_dir() => unusable(format!("{} is a directory", file.display())),
        Ok(data) if data.permissions().mode() & 0o111 == 0 => unusable(format!("{} is not executable", file.display())),
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Unusable { status: STATUS_MISSING, reason: format!("there is no file {}", file.display()) })
        }
        Err(error) => unusable(format!("{} cannot be used ({error})", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path_or_named() {
        let root = Path::new("/");
        assert_eq!(find(b"sh", Some(b"/nowhere:/bin"), root), Ok("/bin/sh".into()));
        assert_eq!(find(b"bin/sh", None, root), Ok("/bin/sh".into()));
        assert_eq!(find(b"/bin/sh", None, Path::new("/nowhere")), Ok("/bin/sh".into()));
        assert!(find(b"sh", None, root).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let root = Path::new("/");
        let missing = find(b"/no/such/program", None, root).expect_err("missing");
        assert_eq!((missing.status, missing.reason.as_str()), (127, "there is no file /no/such/program"));
        assert_eq!(find(b"no-such-program", None, root).expect_err("missing").status, 127);
        let unusable = find(b"/etc/passwd", None, root).expect_err("not executable");
        assert_eq!((unusable.status, unusable.reason.as_str()), (126, "/etc/passwd is not executable"));
        assert_eq!(find(b"/etc", None, root).expect_err("a directory").status, 126);
        assert_eq!(find(b"passwd", Some(b"/etc"), root).expect_err("not executable").status, 126);
        let hint = find(b"sh", Some(b"/nowhere"), Path::new("/bin")).expect_err("not in PATH");
        assert!(hint.reason.contains("type ./sh"), "{}", hint.reason);
    }
}
