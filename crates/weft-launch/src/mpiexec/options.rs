//! The command line, in both families of options that people's scripts use.

use super::environment::{Base, Variables, Wish};
use super::hosts::{self, Host, Order};
use super::{binding, stats, table};
use crate::control::InputTo;
use crate::{reach, words};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;
use table::{Action, Global, Local, Takes};

/// Most ranks of a job.
pub(crate) const RANKS_MAX: u32 = 1 << 16;
/// Longest time that an option may say, in seconds (a year).
const SECONDS_MAX: f64 = 366.0 * 86400.0;
/// How long an agent may take to answer when the user does not say.
const AGENT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(reach::ANSWER_SECONDS);

/// How long a host may be silent once its ranks run when the user does not say.
const HOST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// What `mpiexec` is asked to do.
#[derive(Debug)]
pub(crate) enum Request {
    Run(Box<Settings>),
    Help,
    Version,
    /// Be the agent of a host.
    Agent,
}

/// One program of the command line.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) count: Option<u32>,
    pub(crate) words: Vec<OsString>,
    pub(crate) wish: Wish,
    pub(crate) directory: Option<OsString>,
    /// Hosts of this program alone.
    pub(crate) hosts: Vec<Host>,
}

/// Everything the command line says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) blocks: Vec<Block>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) ranks_per_host: Option<u32>,
    pub(crate) order: Order,
    pub(crate) binding: binding::Wish,
    pub(crate) oversubscribe: bool,
    pub(crate) labels: bool,
    pub(crate) merge: bool,
    pub(crate) input: InputTo,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) agent: Option<String>,
    pub(crate) agent_program: Option<String>,
    pub(crate) agent_timeout: Duration,
    /// How long a host may be silent once its ranks run; `None`: for ever.
    pub(crate) host_timeout: Option<Duration>,
    /// Whether it is said which ranks are on which host.
    pub(crate) print_rank_map: bool,
    pub(crate) stats: Option<stats::Format>,
    pub(crate) universe: Option<u32>,
    pub(crate) verbose: bool,
    pub(crate) quiet: bool,
    /// Options that change nothing here: said always, or only to who wants to know.
    pub(crate) notes: Vec<(Loudness, String)>,
}

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    Everybody,
    Verbose,
}

/// Reads the command line (without the program's own name). `variable` looks into the environment.
///
/// # Errors
/// One sentence.
pub(crate) fn parse(arguments: Vec<OsString>, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Request, String> {
    let mut parser = Parser::new(variable);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == table::AGENT_OPTION {
            return Ok(Request::Agent);
        }
        if let Some(option) = is_option(&argument) {
            match parser.option(&option, &mut arguments)? {
                Some(request) => return Ok(request),
                None => continue,
            }
        }
        parser.program(argument, &mut arguments)?;
    }
    parser.finish().map(|settings| Request::Run(Box::new(settings)))
}

/// The text of an option; `None`: a program's name.
fn is_option(argument: &OsStr) -> Option<String> {
    let text = argument.to_string_lossy();
    (text.starts_with('-') && text.len() > 1).then(|| text.into_owned())
}

/// What was read so far.
struct Parser<'a> {
    settings: Settings,
    /// The block that is being read.
    block: Block,
    base: Base,
    set: Variables,
    /// Whether the block that is being read sees the environment its own way.
    own_base: Option<Base>,
    /// Whether another program must follow: the last word was `:`.
    more: bool,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

fn new_block() -> Block {
    let wish = Wish { base: Base::All, set: Vec::new() };
    Block { count: None, words: Vec::new(), wish, directory: None, hosts: Vec::new() }
}

impl<'a> Parser<'a> {
    fn new(variable: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        let settings = Settings {
            blocks: Vec::new(),
            hosts: Vec::new(),
            ranks_per_host: None,
            order: Order::BySlot,
            binding: binding::Wish::default(),
            oversubscribe: true,
            labels: false,
            merge: false,
            input: InputTo::Rank(0),
            time_limit: None,
            agent: None,
            agent_program: None,
            agent_timeout: AGENT_TIMEOUT_DEFAULT,
            host_timeout: Some(HOST_TIMEOUT_DEFAULT),
            print_rank_map: false,
            stats: None,
            universe: None,
            verbose: false,
            quiet: false,
            notes: Vec::new(),
        };
        Self { settings, block: new_block(), base: Base::All, set: Vec::new(), own_base: None, more: false, variable }
    }

    /// Reads one option with its values.
    fn option(
        &mut self,
        option: &str,
        arguments: &mut dyn Iterator<Item = OsString>,
    ) -> Result<Option<Request>, String> {
        let (name, attached) = match option.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (option, None),
        };
        let Some((entry, _)) = table::find(name) else { return Err(table::unknown(name)) };
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
            Action::Help => return Ok(Some(Request::Help)),
            Action::Version => return Ok(Some(Request::Version)),
            Action::Global(global) => self.global(global, name, &values)?,
            Action::Local(local) => self.local(local, name, &values)?,
            Action::Ignored(loudness) => {
                let words: Vec<_> = values.iter().map(|value| value.to_string_lossy().into_owned()).collect();
                let text = format!("{name} {}", words.join(" "));
                self.settings.notes.push((loudness, format!("`{}` has no effect here", text.trim_end())));
            }
        }
        Ok(None)
    }

    fn global(&mut self, option: Global, name: &str, values: &[OsString]) -> Result<(), String> {
        let first = || values.first().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
        let settings = &mut self.settings;
        let explain = |why: String| format!("{name}: {why}");
        match option {
            Global::Hosts => add_all(&mut settings.hosts, hosts::parse_list(&first()).map_err(explain)?),
            Global::HostFile => {
                let text = std::fs::read_to_string(&values[0])
                    .map_err(|error| format!("the hostfile {} cannot be read: {error}", first()))?;
                let listed = hosts::parse_file(&text).map_err(|why| format!("the hostfile {}: {why}", first()))?;
                add_all(&mut settings.hosts, listed);
            }
            Global::RanksPerHost => settings.ranks_per_host = Some(number(name, &first())?),
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
            Global::Labels => settings.labels = true,
            Global::Merge => settings.merge = true,
            Global::Input => settings.input = input_to(name, &first())?,
            Global::TimeLimit => settings.time_limit = Some(seconds(name, &first())?),
            Global::Agent => settings.agent = Some(template(name, &first())?),
            Global::AgentProgram => settings.agent_program = Some(first()),
            Global::HostTimeout if first() == "0" => settings.host_timeout = None,
            Global::HostTimeout => settings.host_timeout = Some(seconds(name, &first())?),
            Global::AgentTimeout => settings.agent_timeout = seconds(name, &first())?,
            Global::Stats => settings.stats = Some(stats_format(&first())?),
            Global::Universe => settings.universe = Some(number(name, &first())?),
            Global::Verbose => settings.verbose = true,
            Global::Quiet => settings.quiet = true,
            Global::Interface => self.set.push(("WEFT_INTERFACE".into(), values[0].clone())),
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
            Local::Directory => self.block.directory = Some(values[0].clone()),
            Local::Host => {
                let listed = hosts::parse_list(&first()).map_err(|why| format!("{name}: {why}"))?;
                add_all(&mut self.block.hosts, listed);
            }
            Local::Set => self.block.wish.set.push((values[0].clone(), values[1].clone())),
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
        let mut block = std::mem::replace(&mut self.block, new_block());
        block.wish.base = self.own_base.take().unwrap_or(Base::All);
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
            if block.wish.base == Base::All {
                block.wish.base = self.base.clone();
            }
            // What is said for one program counts more than what is said for all.
            let own = std::mem::take(&mut block.wish.set);
            block.wish.set = self.set.iter().cloned().chain(own).collect();
        }
        if self.settings.time_limit.is_none()
            && let Some(value) = (self.variable)("MPIEXEC_TIMEOUT")
        {
            self.settings.time_limit = Some(seconds("MPIEXEC_TIMEOUT", &value.to_string_lossy())?);
        }
        if self.settings.agent.is_none()
            && let Some(value) = (self.variable)("WEFT_AGENT")
        {
            self.settings.agent = Some(template("WEFT_AGENT", &value.to_string_lossy())?);
        }
        Ok(self.settings)
    }
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

pub(super) fn number(name: &str, text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=RANKS_MAX).contains(&number) => Ok(number),
        _ => Err(format!("{name} needs a number between 1 and {RANKS_MAX}, not `{text}`")),
    }
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
