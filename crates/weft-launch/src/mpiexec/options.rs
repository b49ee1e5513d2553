//! Reads the command line, in both families of options that people's scripts use.

use super::environment::{Base, Variables};
use super::settings::{Block, Loudness, RANKS_MAX, Settings, number};
use super::tree::Width;
use super::{binding, run, stats, table};
use crate::control::InputTo;
use crate::defaults::Defaults;
use crate::hosts::{self, Host, Order};
use crate::spawn::ERROR_HANDLER;
use crate::{heartbeat, reach, words};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;
use table::{Action, Global, Local, Takes};

mod borrowed;

/// The longest time that an option may give, in seconds (a year).
const SECONDS_MAX: f64 = 366.0 * 86400.0;
/// The setting that names a host's interfaces.
const INTERFACE: &str = "WEFT_INTERFACE";

/// The variable with the command that reaches a host.
const AGENT: &str = "WEFT_AGENT";
/// The variable that says how many agents each host starts.
const TREE_WIDTH: &str = "WEFT_TREE_WIDTH";
/// The variable that asks for heartbeats.
const HEARTBEAT: &str = "WEFT_HEARTBEAT";

/// The task of `mpiexec`.
#[derive(Debug)]
pub(crate) enum Request {
    Run(Box<Settings>),
    Help,
    Version,
    /// Serve as the agent of a host.
    Agent,
    /// Run a spawned job, which comes over this descriptor.
    Spawned(i32),
    /// Serve a singleton that spawns: its connection, and the number of its process.
    Singleton(i32, i32),
}

/// Reads the command line (without the program's own name). `variable` looks into the environment.
///
/// # Errors
/// One sentence about the word that is wrong.
pub(crate) fn parse(arguments: Vec<OsString>, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Request, String> {
    let mut parser = Parser::new(variable);
    let mut words = VecDeque::from(arguments);
    let mut is_file_read = false;
    while let Some(word) = words.pop_front() {
        if word == table::AGENT_OPTION {
            return Ok(Request::Agent);
        }
        if let Some(request) = hidden(&word) {
            return request;
        }
        let mut rest = std::iter::from_fn(|| words.pop_front());
        let Some(option) = is_option(&word) else {
            parser.program(word, &mut rest)?;
            continue;
        };
        match parser.option(&option, &mut rest)? {
            Next::Word => {}
            Next::Answer(request) => return Ok(request),
            Next::File(file) => {
                let name = file.to_string_lossy().into_owned();
                if let Some(word) = words.front() {
                    let word = word.to_string_lossy();
                    return Err(format!("{option} {name} must come last: `{word}` behind it would not be read"));
                }
                if std::mem::replace(&mut is_file_read, true) {
                    return Err(format!(
                        "the file {name} is named in a file of programs, which may not name another one"
                    ));
                }
                let text = std::fs::read_to_string(&file)
                    .map_err(|error| format!("the file {name} of programs cannot be read: {error}"))?;
                words = words_of_programs(&text).map_err(|why| format!("the file {name} of programs: {why}"))?;
            }
        }
    }
    parser.finish().map(|settings| Request::Run(Box::new(settings)))
}

/// Reads the options by which `mpiexec` and the library start this program; `None`: it is another word.
fn hidden(word: &OsStr) -> Option<Result<Request, String>> {
    let text = word.to_str()?;
    let (name, value) = text.split_once('=')?;
    let number = |text: &str| text.parse().map_err(|_| format!("{name} needs a number, not `{text}`"));
    let both = || {
        let (descriptor, pid) = value.split_once(':').ok_or_else(|| format!("{name} needs two numbers"))?;
        Ok(Request::Singleton(number(descriptor)?, number(pid)?))
    };
    match name {
        table::SPAWNED_OPTION => Some(number(value).map(Request::Spawned)),
        table::SINGLETON_OPTION => Some(both()),
        _ => None,
    }
}

/// The next thing to read after an option.
enum Next {
    /// The next word.
    Word,
    Answer(Request),
    /// The words of this file.
    File(OsString),
}

/// Splits the text of a file that has a program and its options in each line into words, as they would be on
/// a command line (MPI-5.0 §11.5), with `:` between programs. A line that begins with `#` is a comment. A
/// line that ends with a backslash goes on in the next.
fn words_of_programs(text: &str) -> Result<VecDeque<OsString>, String> {
    let joined = text.replace("\\\n", " ");
    let mut words: VecDeque<OsString> = VecDeque::new();
    for line in joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let line = line.strip_suffix(':').filter(|rest| rest.ends_with(char::is_whitespace)).unwrap_or(line);
        if !words.is_empty() {
            words.push_back(":".into());
        }
        words.extend(
            words::split(line).map_err(|why| format!("{why} in the line `{line}`"))?.into_iter().map(OsString::from),
        );
    }
    if words.is_empty() { Err("it names no program".into()) } else { Ok(words) }
}

/// Returns the text of an option; `None` when it is a program's name.
fn is_option(argument: &OsStr) -> Option<String> {
    let text = argument.to_string_lossy();
    (text.starts_with('-') && text.len() > 1).then(|| text.into_owned())
}

/// The state of the reading.
struct Parser<'a> {
    settings: Settings,
    /// The block that is being read.
    block: Block,
    /// The numbers of ranks that would do for the block.
    soft: Option<String>,
    base: Base,
    set: Variables,
    /// The part of the environment for this block, if it was given for it.
    own_base: Option<Base>,
    /// Another program must follow: the last word was `:`.
    more: bool,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl<'a> Parser<'a> {
    fn new(variable: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        let settings = Settings::new();
        let (block, base, set) = (Block::new(), Base::All, Vec::new());
        Self { settings, block, soft: None, base, set, own_base: None, more: false, variable }
    }

    /// Reads one option with its values.
    fn option(&mut self, option: &str, arguments: &mut dyn Iterator<Item = OsString>) -> Result<Next, String> {
        let (name, attached) = match option.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (option, None),
        };
        let Some(entry) = table::find(name) else { return Err(table::unknown(name)) };
        let mut value = |attached: Option<OsString>| {
            attached.or_else(|| arguments.next()).ok_or_else(|| format!("the option {name} needs a value"))
        };
        let mut values = Vec::new();
        match entry.takes {
            Takes::Nothing if attached.is_some() => return Err(format!("the option {name} takes no value")),
            Takes::Nothing => {}
            Takes::Maybe => values.extend(attached),
            Takes::One => values.push(value(attached)?),
            Takes::Two => values.extend([value(attached)?, value(None)?]),
            Takes::Pair => {
                let first = value(attached)?;
                match split_assignment(&first) {
                    Some((key, text)) => values.extend([key, text]),
                    None => values.extend([first, value(None)?]),
                }
            }
        }
        match entry.action {
            Action::Help => return Ok(Next::Answer(Request::Help)),
            Action::Version => return Ok(Next::Answer(Request::Version)),
            Action::ConfigFile => return Ok(Next::File(values.remove(0))),
            Action::Instead => return Err(format!("there is no option {name} here: {}", entry.text)),
            Action::Global(global) => self.global(global, name, &values)?,
            Action::Local(local) => self.local(local, name, &values)?,
            Action::Ignored(loudness) => {
                let words: Vec<_> = values.iter().map(|value| value.to_string_lossy().into_owned()).collect();
                let text = format!("{name} {}", words.join(" "));
                let note = format!("`{}` has no effect here: {}", text.trim_end(), entry.text);
                self.settings.notes.push((loudness, note));
            }
        }
        Ok(Next::Word)
    }

    fn global(&mut self, option: Global, name: &str, values: &[OsString]) -> Result<(), String> {
        let first = || values.first().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
        let settings = &mut self.settings;
        let explain = |why: String| format!("{name}: {why}");
        match option {
            Global::Hosts => add_all(&mut settings.hosts, hosts::parse_list(&first()).map_err(explain)?),
            Global::HostFile => read_host_file(settings, &first())?,
            Global::HostScript => {
                let text = run::output(&[first()])?;
                add_host_file(settings, &format!("the hosts that {} prints", first()), &text)?;
            }
            Global::RanksPerHost => settings.ranks_per_host = Some(number(name, &first())?),
            Global::OnePerHost => settings.ranks_per_host = Some(1),
            Global::MapBy => binding::map_by(settings, name, &first())?,
            Global::BindTo => binding::bind_to(settings, name, &first())?,
            Global::BindToFixed(word) => binding::bind_to(settings, name, word)?,
            Global::MapByFixed(word) => binding::map_by(settings, name, word)?,
            Global::ProcessorsPerRank => binding::each(settings, name, &first())?,
            Global::PrintRankMap => settings.print_rank_map = true,
            Global::ReportBindings => settings.binding.report = true,
            Global::ByHost => settings.order = Order::ByHost,
            Global::Oversubscribe => settings.oversubscribe = true,
            Global::NoOversubscribe => settings.oversubscribe = false,
            Global::Faces(faces) => settings.faces = faces,
            Global::Labels => settings.labels = true,
            Global::Merge => settings.merge = true,
            Global::Display => display(settings, name, &first()),
            Global::Output => output(settings, name, &first())?,
            Global::KeepOthers => settings.keep_others = true,
            Global::OnFailure => settings.keep_others = continues(&first())?,
            Global::Launcher => settings.remote_shell.program = launcher(name, &first())?,
            Global::LauncherProgram => settings.remote_shell.program = Some(launcher_program(name, &first())?),
            Global::LauncherArguments => settings.remote_shell.arguments = Some(shell_words(name, &first())?),
            Global::Prefix => settings.agent_program = Some(format!("{}/bin/mpiexec", first().trim_end_matches('/'))),
            Global::Input => settings.input = input_to(name, &first())?,
            Global::TimeLimit => settings.time_limit = Some(seconds(name, &first())?),
            Global::Agent => settings.agent = Some(template(name, &first())?),
            Global::AgentProgram => settings.agent_program = Some(first()),
            Global::HostTimeout if first() == "0" => settings.host_timeout = None,
            Global::HostTimeout => settings.host_timeout = Some(seconds(name, &first())?),
            Global::Heartbeat => settings.heartbeat = Some(heartbeat(name, &first())?),
            Global::AgentTimeout => settings.agent_timeout = seconds(name, &first())?,
            Global::TreeWidth => settings.tree_width = tree_width(name, &first())?,
            Global::Stats => settings.stats = Some(stats_format(&first())?),
            Global::Universe => settings.universe = Some(number(name, &first())?),
            Global::Verbose => settings.verbose = true,
            Global::Quiet => settings.quiet = true,
            Global::Interface => self.set.push((INTERFACE.into(), values[0].clone())),
            Global::Set => self.set.push((values[0].clone(), values[1].clone())),
            Global::Export => self.export(&values[0]),
            Global::BaseAll => self.base = Base::All,
            Global::BaseNone => self.base = Base::None,
            Global::BaseList => self.base = Base::List(names(&first())),
        }
        Ok(())
    }

    fn local(&mut self, option: Local, name: &str, values: &[OsString]) -> Result<(), String> {
        let first = || values.first().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
        match option {
            Local::Count => self.block.count = Some(number(name, &first())?),
            Local::Soft => self.soft = Some(first()),
            Local::Directory => self.block.directory = Some(values[0].clone()),
            Local::SearchPath => self.block.search_path = Some(values[0].clone()),
            Local::Architecture => architecture(name, &first())?,
            Local::Host => {
                let listed = hosts::parse_list(&first()).map_err(|why| format!("{name}: {why}"))?;
                add_all(&mut self.block.hosts, listed);
            }
            Local::Set => self.block.environment.set.push((values[0].clone(), values[1].clone())),
            Local::ErrorHandler => self.block.environment.set.push((ERROR_HANDLER.into(), values[0].clone())),
            Local::BaseAll => self.own_base = Some(Base::All),
            Local::BaseNone => self.own_base = Some(Base::None),
            Local::BaseList => self.own_base = Some(Base::List(names(&first()))),
        }
        Ok(())
    }

    /// `-x NAME` or `-x NAME=value`.
    fn export(&mut self, word: &OsStr) {
        if let Some((name, value)) = split_assignment(word) {
            return self.set.push((name, value));
        }
        let name = word.to_string_lossy();
        match (self.variable)(&name) {
            Some(value) => self.set.push((word.to_os_string(), value)),
            None => {
                let note = format!("-x {name}: there is no variable of that name here");
                self.settings.notes.push((Loudness::Everybody, note));
            }
        }
    }

    /// Reads a program and its arguments up to a `:` or the end.
    fn program(&mut self, name: OsString, arguments: &mut dyn Iterator<Item = OsString>) -> Result<(), String> {
        let mut block = std::mem::replace(&mut self.block, Block::new());
        block.environment.base = self.own_base.take().unwrap_or(Base::All);
        if let Some(soft) = self.soft.take() {
            block.count = Some(largest("-soft", &soft, block.count.unwrap_or(RANKS_MAX))?);
        }
        if name == ":" {
            return Err("a program is missing before `:`".into());
        }
        if name.is_empty() {
            return Err("the name of a program is empty; is a variable of your script not set?".into());
        }
        block.words.push(name);
        self.more = false;
        block.words.extend(arguments.take_while(|word| {
            self.more = word == ":";
            !self.more
        }));
        self.settings.blocks.push(block);
        Ok(())
    }

    fn finish(mut self) -> Result<Settings, String> {
        if self.settings.blocks.is_empty() {
            return Err("no program is named; `mpiexec --help` tells more".into());
        }
        if self.more || self.block.count.is_some() || self.block.directory.is_some() || !self.block.hosts.is_empty() {
            return Err("a program is missing after the last `:`".into());
        }
        for block in &mut self.settings.blocks {
            if block.environment.base == Base::All {
                block.environment.base = self.base.clone();
            }
            // An option for one program counts more than an option for all.
            let own = std::mem::take(&mut block.environment.set);
            block.environment.set = self.set.iter().cloned().chain(own).collect();
        }
        if self.settings.time_limit.is_none()
            && let Some(value) = (self.variable)("MPIEXEC_TIMEOUT")
        {
            self.settings.time_limit = Some(seconds("MPIEXEC_TIMEOUT", &value.to_string_lossy())?);
        }
        if self.settings.agent.is_none()
            && let Some(value) = (self.variable)(AGENT)
        {
            self.settings.agent = Some(template(AGENT, &value.to_string_lossy())?);
        }
        if self.settings.tree_width == Width::Auto
            && let Some(value) = (self.variable)(TREE_WIDTH)
        {
            self.settings.tree_width = tree_width(TREE_WIDTH, &value.to_string_lossy())?;
        }
        if self.settings.heartbeat.is_none()
            && let Some(value) = (self.variable)(HEARTBEAT)
        {
            self.settings.heartbeat = Some(heartbeat(HEARTBEAT, &value.to_string_lossy())?);
        }
        self.settings.heartbeat = self.settings.heartbeat.filter(|limit| !limit.is_zero());
        self.borrow()?;
        Ok(self.settings)
    }
}

/// What the files of defaults say, with the settings of `mpiexec` checked.
///
/// # Errors
/// One sentence about the file, the line, and what is wrong with it.
pub(super) fn defaults() -> Result<Defaults, String> {
    let defaults = Defaults::of_host()?;
    for line in defaults.lines().iter().filter(|line| !line.value.is_empty()) {
        let checked = match line.name.as_str() {
            AGENT => template(AGENT, &line.value).map(drop),
            TREE_WIDTH => tree_width(TREE_WIDTH, &line.value).map(drop),
            HEARTBEAT => heartbeat(HEARTBEAT, &line.value).map(drop),
            _ => Ok(()),
        };
        checked.map_err(|why| format!("{}: {why}: correct the line, or remove it", line.place()))?;
    }
    Ok(defaults)
}

/// Reads the limit of heartbeats; 0: none are wanted.
fn heartbeat(name: &str, text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let limit = seconds(name, text)?;
    let least = heartbeat::LIMIT_MIN;
    match limit < least {
        true => Err(format!("{name} needs at least {} s, not `{text}`, or 0 for no heartbeats", least.as_secs_f64())),
        false => Ok(limit),
    }
}

fn tree_width(name: &str, word: &str) -> Result<Width, String> {
    Width::parse(word).ok_or_else(|| format!("{name} is auto, none or a number of hosts, not `{word}`"))
}

fn read_host_file(settings: &mut Settings, path: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("the hostfile {path} cannot be read: {error}"))?;
    add_host_file(settings, &format!("the hostfile {path}"), &text)
}

/// Adds the hosts in the text of a hostfile, which messages call `name`.
fn add_host_file(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    let (listed, notes) = hosts::parse_file(text).map_err(|why| format!("{name}: {why}"))?;
    settings.notes.extend(notes.into_iter().map(|note| (Loudness::Everybody, format!("{name}: {note}"))));
    add_all(&mut settings.hosts, listed);
    Ok(())
}

/// Returns the largest number of triplets `a:b:c` (from a to b in steps of c, MPI-5.0 §11.8.4) that is not
/// above `limit`. Messages call them `name`.
pub(crate) fn largest(name: &str, triplets: &str, limit: u32) -> Result<u32, String> {
    let wrong = || format!("{name} needs numbers such as 2:8:2 or 1,4, not `{triplets}`");
    let limit = i64::from(limit);
    let mut best = 0;
    for triplet in triplets.split(',') {
        let numbers: Result<Vec<i32>, _> = triplet.split(':').map(|number| number.trim().parse()).collect();
        let (first, last, step) = match numbers.map_err(|_| wrong())?[..] {
            [only] => (only, only, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(wrong()),
        };
        let (first, last, step) = (i64::from(first), i64::from(last), i64::from(step));
        // The two ends of the numbers that are not above the limit.
        let (low, high) = if step > 0 { (first, last.min(limit)) } else { (last, first) };
        if low > high {
            continue;
        }
        let found = if step > 0 {
            first + (high - first) / step * step
        } else {
            first + ((first - limit).max(0) + -step - 1) / -step * step
        };
        if (low..=high).contains(&found) {
            best = best.max(found);
        }
    }
    let found = u32::try_from(best).ok().filter(|&number| number > 0);
    found.ok_or_else(|| format!("{name} {triplets}: none of these numbers is between 1 and {limit}"))
}

/// Checks that `text` names this host's architecture: ranks run only on processors like those of this host.
pub(super) fn architecture(name: &str, text: &str) -> Result<(), String> {
    let own = std::env::consts::ARCH;
    let asked = match text.to_ascii_lowercase().as_str() {
        "amd64" | "x86-64" | "x64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        other => other.to_owned(),
    };
    if asked == own { Ok(()) } else { Err(format!("{name} {text}: hosts have processors like this one's, {own}")) }
}

/// `--display map,bind`.
fn display(settings: &mut Settings, name: &str, text: &str) {
    for word in text.split(',') {
        match word {
            "map" | "map-devel" | "allocation" => settings.print_rank_map = true,
            "bind" | "bindings" => settings.binding.report = true,
            _ => settings.notes.push((Loudness::Everybody, format!("`{word}` of `{name} {text}` has no effect here"))),
        }
    }
}

/// `--output tag,merge`.
fn output(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    for word in text.split(',') {
        match word {
            "tag" | "rank" | "tag-detailed" | "tag-fullname" => settings.labels = true,
            "merge" | "merge-stderr-to-stdout" => settings.merge = true,
            _ => {
                return Err(format!("{name} says tag or merge here, not `{word}`; redirect standard output to a file"));
            }
        }
    }
    Ok(())
}

/// The remote shell for a launcher in Hydra's words; `None`: the usual one.
fn launcher(name: &str, text: &str) -> Result<Option<String>, String> {
    match text {
        "ssh" | "rsh" => Ok(Some(text.to_owned())),
        // This host needs no command.
        "fork" => Ok(None),
        "slurm" | "srun" => Ok(Some(reach::SLURM_TEMPLATE.into())),
        _ => Err(format!(
            "{name} says ssh, rsh or slurm here, not `{text}`; --agent 'COMMAND {{host}}' says any other way"
        )),
    }
}

fn launcher_program(name: &str, text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains('\'') {
        return Err(format!("{name} needs the name of a program, not `{text}`; --agent says a whole command"));
    }
    Ok(format!("'{text}'"))
}

fn add_all(list: &mut Vec<Host>, more: Vec<Host>) {
    for host in more {
        hosts::add(list, host);
    }
}

fn split_assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|&byte| byte == b'=')?;
    Some((OsString::from_vec(bytes[..at].to_vec()), OsString::from_vec(bytes[at + 1..].to_vec())))
}

fn names(text: &str) -> Vec<String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect()
}

fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("{name} needs a time in seconds, not `{text}`")),
    }
}

fn input_to(name: &str, text: &str) -> Result<InputTo, String> {
    match text {
        "all" => Ok(InputTo::Everybody),
        "none" => Ok(InputTo::Nobody),
        _ => match text.parse() {
            Ok(rank) if rank < RANKS_MAX => Ok(InputTo::Rank(rank)),
            _ => Err(format!("{name} needs a rank, `all` or `none`, not `{text}`")),
        },
    }
}

fn template(name: &str, text: &str) -> Result<String, String> {
    match words::split(text) {
        Ok(words) if words.is_empty() => Err(format!("{name} is empty; it is a command like `{}`", reach::TEMPLATE)),
        Ok(_) => Ok(text.to_string()),
        Err(why) => Err(format!("{name} is no command: {why}")),
    }
}

/// Checks that a shell could split the text into words.
fn shell_words(name: &str, text: &str) -> Result<String, String> {
    words::split(text).map_err(|why| format!("{name}={text}: {why}"))?;
    Ok(text.to_owned())
}

/// Returns whether the other ranks go on when a rank fails.
fn continues(text: &str) -> Result<bool, String> {
    match text {
        "end" => Ok(false),
        "continue" => Ok(true),
        _ => Err(format!("--on-failure says end or continue, not `{text}`")),
    }
}

fn stats_format(text: &str) -> Result<stats::Format, String> {
    match text {
        "" | "text" => Ok(stats::Format::Text),
        "json" => Ok(stats::Format::Json),
        _ => Err(format!("--stats prints text or json, not `{text}`")),
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
