//! `cargo xtask rdma`: virtual machines in which MPI runs over RDMA devices that the kernel plays: `siw`
//! (iWARP) or `rdma_rxe` (RoCE).
//!
//! A guest boots the image that `tests/rdma/image.sh` made. The guest's root is the host's own, read-only:
//! files that the guest writes stay in the guest's memory. A directory is shared with it: commands and exit
//! codes go through there. Guests are joined by a network of their own, and reach each other by a remote
//! shell ([`shell`]), so that `mpiexec` in the first guest starts ranks in all.

mod inside;
mod machine;
mod shell;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::process::{self, Finished, MARK, Run};
pub(crate) use machine::Machine;
use machine::{EMULATOR, Place};

const HOW: &str = "usage: cargo xtask rdma [--guests N] [--device siw|rxe] [--interfaces N] [--ipv6] [--large-segments] [--memory MIB] [--limit SECONDS] [--instructions] [--console] -- PROGRAM [ARGUMENT …]
  boots N guests (2), each with a device of RDMA in software (siw) on each of its interfaces (1), with addresses of IPv4 or of IPv6 only, and runs PROGRAM in the first of them, in this directory and with the
  variables of this environment that concern MPI; --large-segments: siw hands on segments of up to 64 KB, which the kernel cuts, as TCP does; --instructions: their clocks go on by a nanosecond with each instruction, and by the time that passes while they
  are idle; WEFT_HOSTS and WEFT_AGENT lead to all guests:
  cargo xtask rdma -- sh -c 'mpiexec --hosts $WEFT_HOSTS -n 2 ./program'";
/// The script that makes kernel and initramfs.
const IMAGE: &str = "tests/rdma/image.sh";
/// The script that a guest runs first.
const GUEST: &str = "tests/rdma/guest.sh";
/// The beginning of the names of directories that are shared with guests; the process that has booted them
/// follows, and a number.
const SHARE: &str = "share-";
/// The time limit of making the image, seconds: half a minute, and the time to fetch 300 MB.
const IMAGE_LIMIT_SECONDS: u64 = 1200;
/// The time limit of booting: two guests are up in ten seconds where nothing else runs.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// The time that a guest may take to end a command that it was told to kill, and to look for processes that
/// are left.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const GUESTS_MAX: u32 = 8;
const LIMIT_SECONDS: u64 = 600;
/// The lines of a guest's console that are shown when it fails.
const CONSOLE_LINES: usize = 25;
/// The variables that a command in the guests gets from here, by the beginnings of their names or by their
/// whole names.
const PASSED: &[&str] = &["WEFT_", "FI_", "MPI", "RDMAV_", "IBV_", "UCX_", "LD_LIBRARY_PATH", "PYTHON", "STRICT"];

static BOOTED: AtomicU32 = AtomicU32::new(0);

/// The software that plays an RDMA device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Device {
    /// iWARP: RDMA over TCP.
    Siw,
    /// RoCE: RDMA over UDP.
    Rxe,
}

impl Device {
    /// The name of the device in `rdma link add … type`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Device::Siw => "siw",
            Device::Rxe => "rxe",
        }
    }

    fn parse(name: &str) -> anyhow::Result<Device> {
        match name {
            "siw" => Ok(Device::Siw),
            "rxe" => Ok(Device::Rxe),
            _ => anyhow::bail!("--device is siw (iWARP) or rxe (RoCE), not {name}"),
        }
    }
}

/// The reason why there can be no guests: a program that they need beside Weft is missing.
pub(crate) fn missing() -> Option<String> {
    let has = |name: &str| {
        let path = process::search_path();
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    };
    let absent = [EMULATOR, "apt-get"].into_iter().find(|name| !has(name))?;
    Some(format!("no {absent}; on Debian tools/setup.sh rdma installs what guests take"))
}

/// Some guests on one network, until dropped.
pub(crate) struct Guests {
    share: PathBuf,
    count: u32,
    /// The machines; None: turned off.
    machines: RefCell<Vec<Option<Child>>>,
    device: Device,
    machine: Machine,
    /// The program that serves in the guests: this one.
    xtask: PathBuf,
    commands: AtomicU32,
}

impl Guests {
    /// Makes the image, unless it exists, and boots this number of guests.
    ///
    /// # Errors
    /// A program or file that a guest needs is missing, or a guest does not come up.
    pub(crate) fn boot(root: &Path, count: u32, device: Device, machine: Machine) -> anyhow::Result<Guests> {
        let made = Run::new(root.join(IMAGE)).limit(IMAGE_LIMIT_SECONDS).finish()?;
        anyhow::ensure!(made.code == Some(0), "{}", made.report());
        let number = BOOTED.fetch_add(1, Ordering::Relaxed);
        let home = root.join("build/rdma");
        remove_stale(&home)?;
        let share = home.join(format!("{SHARE}{}-{number}", std::process::id()));
        fs::create_dir_all(&share)?;
        // The guests get a copy: another build of this program meanwhile does not touch it.
        let xtask = share.join("xtask");
        fs::copy("/proc/self/exe", &xtask).context("this program cannot be copied")?;
        fs::copy(root.join(GUEST), share.join("guest.sh"))?;
        let Machine { interfaces, is_v6, .. } = machine;
        let family = if is_v6 { 6 } else { 4 };
        let setting = format!(
            "guests={count}\ndevice={}\ninterfaces={interfaces}\nfamily={family}\nxtask='{}'\n",
            device.name(),
            xtask.display()
        );
        fs::write(share.join("setting"), setting)?;
        let guests =
            Guests { share, count, machines: RefCell::default(), device, machine, xtask, commands: AtomicU32::new(0) };
        for node in 1..=count {
            fs::create_dir(guests.directory(node))?;
            let place = Place { home: &home, share: &guests.share, number };
            let started = machine.start(&place, node, &guests.console(node))?;
            guests.machines.borrow_mut().push(Some(started));
        }
        guests.wait_until_ready()?;
        Ok(guests)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    pub(crate) fn machine(&self) -> Machine {
        self.machine
    }

    /// Starts a command in guest `node` (from 1 on), in this directory, with these variables.
    pub(crate) fn start<T: AsRef<OsStr>>(
        &self,
        node: u32,
        directory: &Path,
        variables: &[(String, String)],
        words: impl IntoIterator<Item = T>,
    ) -> anyhow::Result<Session<'_>> {
        anyhow::ensure!((1..=self.count()).contains(&node), "there is no guest node{node}");
        let name = format!("{}", self.commands.fetch_add(1, Ordering::Relaxed));
        let mark = format!("{}-{name}", std::process::id());
        let hosts: Vec<String> = (1..=self.count()).map(|node| format!("node{node}")).collect();
        let agent = format!("{} guest shell {{host}}", self.xtask.display());
        let own = [(MARK, mark.as_str()), ("WEFT_HOSTS", &hosts.join(",")), ("WEFT_AGENT", &agent)];
        let mut script = format!("cd {} || exit 126\n", quoted(&directory.to_string_lossy()));
        let passed = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (variable, value) in passed.chain(own) {
            script += &format!("export {variable}={}\n", quoted(value));
        }
        let words: Vec<String> = words.into_iter().map(|word| quoted(&word.as_ref().to_string_lossy())).collect();
        script += &format!("exec {}\n", words.join(" "));
        let path = self.directory(node).join(&name);
        fs::write(path.with_extension("new"), script)?;
        fs::rename(path.with_extension("new"), path.with_extension("run"))?;
        Ok(Session { guests: self, path, name, mark, began: Instant::now() })
    }

    /// The last lines of all consoles: the output of the kernels and of the first processes.
    pub(crate) fn consoles(&self) -> String {
        let shown = (1..=self.count()).map(|node| {
            let text = fs::read(self.console(node)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(CONSOLE_LINES);
            format!("console of node{node}:\n{}\n", lines[from..].join("\n"))
        });
        shown.collect()
    }

    /// Returns whether every machine still runs.
    pub(crate) fn are_up(&self) -> bool {
        (1..=self.count).all(|node| self.is_up(node))
    }

    fn is_up(&self, node: u32) -> bool {
        let mut machines = self.machines.borrow_mut();
        let machine = machines.get_mut(node as usize - 1).and_then(Option::as_mut);
        machine.is_some_and(|machine| matches!(machine.try_wait(), Ok(None)))
    }

    /// Turns a guest off, as if it lost its power.
    pub(crate) fn turn_off(&self, node: u32) -> anyhow::Result<()> {
        let machine = self.machines.borrow_mut().get_mut(node as usize - 1).and_then(Option::take);
        let mut machine = machine.with_context(|| format!("node{node} is off"))?;
        machine.kill()?;
        machine.wait()?;
        Ok(())
    }

    fn directory(&self, node: u32) -> PathBuf {
        self.share.join(format!("node{node}"))
    }

    fn console(&self, node: u32) -> PathBuf {
        self.share.join(format!("console{node}"))
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + BOOT_LIMIT;
        for node in 1..=self.count() {
            while !self.directory(node).join("ready").exists() {
                if !self.are_up() || Instant::now() > deadline || process::is_interrupted() {
                    let said = fs::read_to_string(self.share.join(format!("emulator{node}"))).unwrap_or_default();
                    let why = match (process::is_interrupted(), self.are_up()) {
                        (true, _) => "was interrupted while it booted",
                        (false, true) => "is not up in time",
                        (false, false) => "ended while it booted",
                    };
                    anyhow::bail!("guest node{node} {why}\n{said}{}", self.consoles());
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for machine in self.machines.borrow_mut().iter_mut().flatten() {
            let _ = machine.kill();
            let _ = machine.wait();
        }
        let _ = fs::remove_dir_all(&self.share);
    }
}

/// A command in a guest.
pub(crate) struct Session<'guests> {
    guests: &'guests Guests,
    path: PathBuf,
    name: String,
    mark: String,
    began: Instant,
}

impl Session<'_> {
    /// The command's output so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path.with_extension("out")).unwrap_or_default()).into_owned()
    }

    /// Waits until the output holds `text`. Returns false when `text` has not come within `limit`, or before
    /// the command ended.
    pub(crate) fn says(&self, text: &str, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let has_ended = self.code().is_some();
            if self.output().contains(text) {
                return true;
            }
            if has_ended || Instant::now() > deadline || process::is_interrupted() {
                return false;
            }
            std::thread::sleep(POLL);
        }
    }

    /// The command's exit code, once it has ended.
    fn code(&self) -> Option<i32> {
        fs::read_to_string(self.path.with_extension("code")).ok()?.trim().parse().ok()
    }

    /// Runs the command to its end, or to the limit; kills and names the processes that it leaves in any of
    /// the guests.
    ///
    /// # Errors
    /// A guest answers no longer.
    pub(crate) fn finish(self, limit: Duration) -> anyhow::Result<Finished> {
        self.finish_telling(limit, |_| ())
    }

    /// Runs the command as [`Session::finish`] does, without a look at the processes that it leaves.
    pub(crate) fn finish_alone(self, limit: Duration) -> anyhow::Result<Finished> {
        let (code, elapsed) = self.wait(limit, |_| ())?;
        Ok(Finished { code, output: self.output(), elapsed, leftovers: Vec::new() })
    }

    /// Runs the command as [`Session::finish`] does; `tell` is given the command's output as it comes.
    fn finish_telling(self, limit: Duration, tell: impl FnMut(&[u8])) -> anyhow::Result<Finished> {
        let (code, elapsed) = self.wait(limit, tell)?;
        Ok(Finished { code, output: self.output(), elapsed, leftovers: self.sweep(code.is_some())? })
    }

    /// Waits until the command has ended or been ended. Returns its exit code, if it ended in time, and its
    /// duration.
    fn wait(&self, limit: Duration, mut tell: impl FnMut(&[u8])) -> anyhow::Result<(Option<i32>, Duration)> {
        let mut told = 0;
        let mut tell_news = || {
            let mut news = Vec::new();
            let read = fs::File::open(self.path.with_extension("out")).and_then(|mut file| {
                file.seek(SeekFrom::Start(told))?;
                file.read_to_end(&mut news)
            });
            told += u64::try_from(read.unwrap_or(0)).unwrap_or(0);
            tell(&news);
        };
        let mut code = None;
        while code.is_none() && self.began.elapsed() < limit && !process::is_interrupted() {
            std::thread::sleep(POLL);
            code = self.code();
            tell_news();
        }
        let elapsed = self.began.elapsed();
        if code.is_none() {
            fs::write(self.path.with_extension("kill"), "")?;
            self.wait_for("code", &self.path)?;
            tell_news();
        }
        Ok((code, elapsed))
    }

    /// Ends the processes of this command in all guests that are up, and returns their names. Processes of a
    /// command that was killed are expected, and not returned.
    fn sweep(&self, is_over: bool) -> anyhow::Result<Vec<String>> {
        let nodes = (1..=self.guests.count()).filter(|node| self.guests.is_up(*node));
        let path = |node| self.guests.directory(node).join(&self.name);
        for node in nodes.clone() {
            fs::write(path(node).with_extension("new"), &self.mark)?;
            fs::rename(path(node).with_extension("new"), path(node).with_extension("sweep"))?;
        }
        let mut left = Vec::new();
        for node in nodes {
            self.wait_for("left", &path(node))?;
            let lines = fs::read_to_string(path(node).with_extension("left"))?;
            left.extend(lines.lines().filter(|_| is_over).map(|line| format!("on node{node}: {line}")));
        }
        Ok(left)
    }

    /// Waits for a file that a guest makes.
    fn wait_for(&self, extension: &str, path: &Path) -> anyhow::Result<()> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while !path.with_extension(extension).exists() {
            let what = "a guest answers no longer";
            anyhow::ensure!(Instant::now() < deadline, "{what}\n{}\n{}", self.output(), self.guests.consoles());
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Removes the directories that killed runs have left.
fn remove_stale(home: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(home)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(SHARE).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another run may remove the same directory.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The variables of this environment that concern MPI, and the path of programs.
fn passed() -> Vec<(String, String)> {
    let concerns = |name: &str| name == "PATH" || PASSED.iter().any(|begin| name.starts_with(begin));
    std::env::vars().filter(|(name, _)| concerns(name)).collect()
}

/// Runs `cargo xtask rdma`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (mut count, mut device, mut machine, mut limit) = (2, Device::Siw, Machine::default(), LIMIT_SECONDS);
    let mut shows_console = false;
    let mut rest = arguments.iter();
    let words: Vec<&String> = loop {
        let Some(argument) = rest.next() else { break Vec::new() };
        let mut value = || rest.next().with_context(|| format!("{argument} needs a value\n{HOW}"));
        match argument.as_str() {
            "--guests" => count = value()?.parse().context("--guests needs a number")?,
            "--device" => device = Device::parse(value()?)?,
            "--interfaces" => machine.interfaces = value()?.parse().context("--interfaces needs a number")?,
            "--ipv6" => machine.is_v6 = true,
            "--large-segments" => machine.has_large_segments = true,
            "--memory" => machine.memory_mib = value()?.parse().context("--memory needs a number of MiB")?,
            "--limit" => limit = value()?.parse().context("--limit needs a number of seconds")?,
            "--instructions" => machine.counts = true,
            "--console" => shows_console = true,
            "--" => break rest.collect(),
            other => anyhow::bail!("{other} is no option\n{HOW}"),
        }
    };
    anyhow::ensure!(!words.is_empty(), "what shall run in the guests?\n{HOW}");
    anyhow::ensure!((1..=GUESTS_MAX).contains(&count), "--guests is 1 to {GUESTS_MAX}, not {count}");
    let most = machine::INTERFACES_MAX;
    anyhow::ensure!(
        (1..=most).contains(&machine.interfaces),
        "--interfaces is 1 to {most}, not {}",
        machine.interfaces
    );
    process::catch_interrupts()?;
    let began = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the project")?;
    let guests = Guests::boot(root, count, device, machine)?;
    eprintln!("rdma: {count} guests with {} are up after {:.1} s", device.name(), began.elapsed().as_secs_f64());
    let session = guests.start(1, &std::env::current_dir()?, &passed(), words)?;
    let finished = session.finish_telling(Duration::from_secs(limit), |bytes| {
        let mut output = std::io::stdout();
        let _ = output.write_all(bytes).and_then(|()| output.flush());
    })?;
    if process::is_interrupted() {
        drop(guests);
        std::process::exit(process::EXIT_INTERRUPTED);
    }
    if shows_console || finished.code.is_none() {
        eprint!("{}", guests.consoles());
    }
    drop(guests);
    finished.leftovers.iter().for_each(|line| eprintln!("rdma: left behind {line}"));
    match finished.code {
        Some(0) => Ok(()),
        Some(code) => std::process::exit(code),
        None => anyhow::bail!("it did not end in {limit} s (--limit)"),
    }
}

/// Runs `xtask guest`, the command that runs in the guests.
pub(crate) fn run_inside(arguments: &[String]) -> anyhow::Result<()> {
    match arguments {
        [word, directory] if word == "serve" => inside::serve(Path::new(directory)),
        [word, host, words @ ..] if word == "shell" && !words.is_empty() => shell::run(host, words),
        _ => anyhow::bail!("`xtask guest` is what runs in the guests of `cargo xtask rdma`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_quotes_stay_words() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
