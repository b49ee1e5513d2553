//! The resources of this machine for the ranks that run on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::StatVfsMountFlags;
use serde::{Deserialize, Serialize};

/// The time that the process that tries a copy may take.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);
/// The hidden option by which this command asks a child of its own to try a copy.
pub(crate) const COPY_OPTION: &str = "--copy-from";

/// Facts about the machine, as far as it tells them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) processor: String,
    /// Processors of the machine.
    pub(crate) processors: usize,
    /// The processors that this process may use, by its affinity and the quota of its control groups.
    pub(crate) processors_usable: usize,
    /// The processors to which the launcher has bound this process, in words; None if it may run on all.
    pub(crate) bound_to: Option<String>,
    pub(crate) memory_bytes: u64,
    /// The first directory for shared memory.
    pub(crate) shared_memory: Directory,
    /// The result of a trial whether two processes of this user may copy from each other's memory.
    pub(crate) single_copy: Copying,
    /// The kernel's setting of transparent huge pages, such as `always [madvise] never`.
    pub(crate) huge_pages_transparent: String,
    /// The huge pages set aside: their number, and the bytes of each.
    pub(crate) huge_pages_reserved: u64,
    pub(crate) huge_page_bytes: u64,
}

/// A directory that may hold shared memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// The bytes of the directory's file system; None if the directory does not exist.
    pub(crate) bytes: Option<u64>,
    pub(crate) bytes_free: Option<u64>,
    /// Says whether the directory is mounted so that no file in it can be executed.
    pub(crate) no_exec: bool,
    pub(crate) writable: bool,
}

/// The answer whether a process may copy from the memory of another process that is not its ancestor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Copying {
    pub(crate) allowed: bool,
    /// The reason why not, as far as it can be found.
    pub(crate) why: String,
    /// The value of `kernel.yama.ptrace_scope`; None where there is no Yama.
    pub(crate) ptrace_scope: Option<u32>,
}

impl Machine {
    /// The facts of this machine; `shm_dir` is the value of `WEFT_SHM_DIR`.
    pub(crate) fn here(shm_dir: Option<&Path>) -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let models = ["model name", "Model", "cpu model"];
        let processor = models.iter().find_map(|name| field(&cpuinfo, name)).unwrap_or(std::env::consts::ARCH);
        let meminfo = read("/proc/meminfo");
        let kilobytes = |name: &str| number(field(&meminfo, name).unwrap_or_default()) * 1024;
        Machine {
            host: read("/proc/sys/kernel/hostname"),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease")),
            processor: processor.to_owned(),
            processors: count_list(&read("/sys/devices/system/cpu/online")).unwrap_or(1),
            processors_usable: weft_launch::usable_processors(),
            bound_to: weft_launch::binding_of(std::process::id()),
            memory_bytes: kilobytes("MemTotal"),
            shared_memory: Directory::at(shm_dir.unwrap_or(Path::new("/dev/shm"))),
            single_copy: Copying::tried(),
            huge_pages_transparent: read("/sys/kernel/mm/transparent_hugepage/enabled"),
            huge_pages_reserved: number(field(&meminfo, "HugePages_Total").unwrap_or_default()),
            huge_page_bytes: kilobytes("Hugepagesize"),
        }
    }
}

impl Directory {
    pub(crate) fn at(path: &Path) -> Directory {
        let stat = rustix::fs::statvfs(path).ok();
        let stat = stat.as_ref();
        let block = stat.map_or(1, |stat| stat.f_frsize);
        Directory {
            path: path.to_owned(),
            bytes: stat.map(|stat| stat.f_blocks.saturating_mul(block)),
            bytes_free: stat.map(|stat| stat.f_bavail.saturating_mul(block)),
            no_exec: stat.is_some_and(|stat| stat.f_flag.contains(StatVfsMountFlags::NOEXEC)),
            writable: rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok(),
        }
    }
}

impl Copying {
    /// Lets a child copy from this process, as ranks do: neither is the other's ancestor, as far as Yama
    /// counts.
    fn tried() -> Copying {
        let ptrace_scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
        let ptrace_scope = ptrace_scope.and_then(|text| text.trim().parse().ok());
        weft_net::single_copy::permit();
        let outcome = ask_child();
        let why = match (&outcome, ptrace_scope) {
            (Ok(true), _) => String::new(),
            (Ok(false), Some(scope)) if scope >= 2 => format!("kernel.yama.ptrace_scope is {scope}"),
            (Ok(false), _) => "the kernel refuses process_vm_readv (a container's seccomp filter does that)".to_owned(),
            (Err(why), _) => why.clone(),
        };
        Copying { allowed: outcome == Ok(true), why, ptrace_scope }
    }
}

/// Runs as the child of [`Copying::tried`]: the exit code says whether this process may copy from process
/// `pid`.
pub(crate) fn copy_from(pid: i32) -> u8 {
    if weft_net::single_copy::available(pid) { COPY_ALLOWED } else { COPY_REFUSED }
}

/// The exit codes of that child; no other failure gives these codes.
const COPY_ALLOWED: u8 = 40;
const COPY_REFUSED: u8 = 41;

fn ask_child() -> Result<bool, String> {
    let unknown = |error: std::io::Error| format!("it could not be tried: {error}");
    let own = std::env::current_exe().map_err(unknown)?;
    let pid = std::process::id().to_string();
    let mut child = Command::new(own)
        .args(["info", COPY_OPTION, &pid])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(unknown)?;
    let deadline = Instant::now() + COPY_TIMEOUT;
    loop {
        match child.try_wait().map_err(unknown)?.map(|status| status.code()) {
            Some(Some(code)) if code == i32::from(COPY_ALLOWED) => return Ok(true),
            Some(Some(code)) if code == i32::from(COPY_REFUSED) => return Ok(false),
            Some(_) => return Err("it could not be tried: the process that should try it ended early".into()),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("it could not be tried: the process that should try it hung".into());
            }
            None => std::thread::sleep(POLL),
        }
    }
}

/// The content of a file with one value; empty when the file does not exist.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The value behind `name … :`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The number with which a text begins; 0 if there is none.
fn number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The count of numbers in a list like `0-3,5`.
fn count_list(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then(|| last - first + 1)
    };
    list.split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read_as_it_writes_them() {
        assert_eq!(count_list("0-3,5"), Some(5));
        assert_eq!(count_list("0"), Some(1));
        assert_eq!(count_list(""), None);
        assert_eq!(field("model name\t: A\nflags : b", "model name"), Some("A"));
        assert_eq!(number("  12"), 0);
        assert_eq!(number("2048 kB"), 2048);
    }

    #[test]
    fn a_directory_that_is_not_there_has_no_size() {
        let missing = Directory::at(Path::new("/no/such/directory"));
        assert_eq!((missing.bytes, missing.writable), (None, false));
        assert!(Directory::at(Path::new("/tmp")).bytes.is_some());
    }
}
