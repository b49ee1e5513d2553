//! Processes that a program starts while it runs (`MPI_Comm_spawn`, MPI-5.0 §11.8), and the text of such a
//! request in PMI-1.1, for both sides.
//!
//! Each program is a request of several lines, from `mcmd=spawn` to `endcmd`. The process manager answers the
//! last one. MPICH's clients write keys and values as they are; Weft's clients escape them for Weft's
//! `mpiexec`, and say so.

use crate::LaunchError;
use crate::wire;
use std::fmt::Write as _;
use weft_ordered::Map;

/// The variable that names the error handler with which a program begins. The library reads it.
pub(crate) const ERROR_HANDLER: &str = "WEFT_INITIAL_ERRHANDLER";
/// The info key that names it for spawned programs (MPI-5.0 §9.3), as [`normal_key`] writes it.
pub(crate) const ERROR_HANDLER_KEY: &str = "mpi-initial-errhandler";

/// A program of a spawn (MPI-5.0 §11.8.2, §11.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnProgram {
    /// The name of the program.
    pub command: String,
    /// The arguments that follow the name.
    pub arguments: Vec<String>,
    /// The number of processes that are wanted, at least one.
    pub processes: u32,
    /// The info keys and their values. A process manager leaves out keys that it does not know.
    pub info: Vec<(String, String)>,
}

/// What has become of a spawn that the process manager has carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// The number of the spawned job, for [`spawned_end`](crate::ProcessManager::spawned_end).
    pub number: u32,
    /// For each process that was wanted, in the order of the programs: it runs, or half a sentence with the
    /// reason why it does not. Either all processes run, or none. With the info key `soft` the last processes
    /// of a program may be left out while the others run.
    pub outcomes: Vec<Result<(), String>>,
}

/// A request to start a new job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spawn {
    pub(crate) programs: Vec<SpawnProgram>,
    /// Keys and values that the processes of the new job find.
    pub(crate) values: Vec<(String, String)>,
    /// The working directory of the process that spawns; empty: not known.
    pub(crate) directory: String,
}

impl Spawn {
    /// The number of processes that are wanted.
    pub(crate) fn processes(&self) -> usize {
        self.programs.iter().map(|program| program.processes as usize).sum()
    }
}

/// The key under which the processes of a spawned job find the port of the job that has spawned them, as
/// MPICH has it.
pub(crate) const PARENT_PORT_KEY: &str = "PARENT_ROOT_PORT_NAME";
/// The most programs of a request.
const PROGRAMS_MAX: usize = 1024;
/// The most processes of a request.
pub(crate) const PROCESSES_MAX: u32 = 1 << 16;
/// The longest reason of a process that does not run, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 400;
/// The most bytes of a request.
const BYTES_MAX: usize = 1024 * 1024;
/// The first line of each program, and the last.
const BEGIN: &str = "mcmd=spawn";
const END: &str = "endcmd";

/// The text of a request, behind its first line, for a process manager that reads escaped text or not. `port`
/// is what the new processes shall find.
///
/// # Errors
/// The request is too long, or has a line break where it cannot be escaped.
pub(crate) fn text(spawn: &Spawn, is_escaped: bool) -> Result<String, LaunchError> {
    let mut out = String::new();
    let total = spawn.programs.len();
    for (index, program) in spawn.programs.iter().enumerate() {
        if index > 0 {
            out.push_str(BEGIN);
            out.push('\n');
        }
        let mut line = |key: &str, value: &str| {
            let value = if is_escaped { wire::escape(value) } else { value.to_owned() };
            if value.contains(['\n', '\0']) {
                let reason = format!("a line break in `{}` cannot be passed on", value.trim_end());
                return Err(LaunchError::Refused { request: "spawn", reason });
            }
            // Writing to a string does not fail.
            let _ = writeln!(out, "{key}={value}");
            Ok(())
        };
        line("nprocs", &program.processes.to_string())?;
        line("execname", &program.command)?;
        line("totspawns", &total.to_string())?;
        line("spawnssofar", &(index + 1).to_string())?;
        for (number, argument) in (1..).zip(&program.arguments) {
            line(&format!("arg{number}"), argument)?;
        }
        line("argcnt", &program.arguments.len().to_string())?;
        line("preput_num", &spawn.values.len().to_string())?;
        for (number, (key, value)) in spawn.values.iter().enumerate() {
            line(&format!("preput_key_{number}"), key)?;
            line(&format!("preput_val_{number}"), value)?;
        }
        line("info_num", &program.info.len().to_string())?;
        for (number, (key, value)) in program.info.iter().enumerate() {
            line(&format!("info_key_{number}"), key)?;
            line(&format!("info_val_{number}"), value)?;
        }
        if is_escaped {
            line("weft_directory", &spawn.directory)?;
        }
        out.push_str(END);
        out.push('\n');
    }
    if out.len() > BYTES_MAX {
        return Err(LaunchError::TooLong { what: "the request to spawn", length: out.len(), limit: BYTES_MAX });
    }
    Ok(out)
}

/// The beginning of a reason, short enough that those of all processes fit into one message.
pub(crate) fn short(reason: &str) -> String {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|&end| reason.is_char_boundary(end));
    reason[..end.unwrap_or(0)].to_owned()
}

/// The name of an info key, in which `_` and `-` are the same.
pub(crate) fn normal_key(key: &str) -> String {
    key.replace('_', "-")
}

/// Returns whether this line begins a program.
pub(crate) fn begins(line: &str) -> bool {
    line.trim_end() == BEGIN
}

/// A request as it is read, line by line.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    spawn: Spawn,
    /// The keys and values of the program that is being read.
    lines: Map<String, String>,
    /// A program is being read.
    is_open: bool,
    bytes: usize,
    pub(crate) is_escaped: bool,
}

impl Reading {
    /// Notes that a program begins.
    pub(crate) fn begin(&mut self) {
        self.is_open = true;
        self.lines.clear();
    }

    /// Returns whether a program is being read.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes a line. Returns the request once it is whole.
    ///
    /// # Errors
    /// Half a sentence: the request makes no sense, or is too long.
    pub(crate) fn take(&mut self, line: &str) -> Result<Option<Spawn>, String> {
        self.bytes += line.len() + 1;
        if self.bytes > BYTES_MAX {
            return Err(format!("a request to spawn of more than {BYTES_MAX} bytes"));
        }
        if line != END {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            self.lines.insert(key.to_owned(), value.to_owned());
            return Ok(None);
        }
        self.is_open = false;
        self.end_program()
    }

    fn end_program(&mut self) -> Result<Option<Spawn>, String> {
        self.is_escaped = self.lines.contains_key("weft_directory");
        let program = SpawnProgram {
            command: self.text("execname")?,
            arguments: (1..=self.number("argcnt")?).map(|n| self.text(&format!("arg{n}"))).collect::<Result<_, _>>()?,
            processes: self.number("nprocs")?,
            info: self.pairs("info")?,
        };
        if program.processes == 0 || program.command.is_empty() {
            return Err("a spawn of no program or no processes".into());
        }
        self.spawn.programs.push(program);
        let processes = self.spawn.programs.iter().map(|program| u64::from(program.processes)).sum::<u64>();
        if processes > u64::from(PROCESSES_MAX) || self.spawn.programs.len() > PROGRAMS_MAX {
            return Err(format!("a spawn of more than {PROCESSES_MAX} processes or {PROGRAMS_MAX} programs"));
        }
        let total = if self.lines.contains_key("totspawns") { self.number("totspawns")? } else { 1 };
        if self.spawn.programs.len() < total as usize {
            return Ok(None);
        }
        self.spawn.values = self.pairs("preput")?;
        if self.spawn.values.iter().any(|(key, value)| key.contains('\n') || value.contains('\n')) {
            return Err("a request to spawn with a value of several lines".into());
        }
        if self.is_escaped {
            self.spawn.directory = self.text("weft_directory")?;
        }
        self.bytes = 0;
        Ok(Some(std::mem::take(&mut self.spawn)))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        let value = self.lines.get(key).ok_or_else(|| format!("a request to spawn without {key}"))?;
        let text = if self.is_escaped { wire::unescape(value) } else { Some(value.clone()) };
        // A program cannot be given a zero byte.
        text.filter(|text| !text.contains('\0')).ok_or_else(|| format!("a request to spawn with a broken {key}"))
    }

    /// A number, 0 where there is none.
    fn number(&self, key: &str) -> Result<u32, String> {
        let Some(value) = self.lines.get(key) else { return Ok(0) };
        value.trim().parse().map_err(|_| format!("a request to spawn whose {key} is no number"))
    }

    fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        let text = |part: &str, number: u32| self.text(&format!("{name}_{part}_{number}"));
        (0..self.number(&format!("{name}_num"))?).map(|n| Ok((text("key", n)?, text("val", n)?))).collect()
    }
}

/// Writes a request as a client of Weft does, and reads it again; `None` when it would be too long.
pub(crate) fn reread(spawn: &Spawn) -> Option<Spawn> {
    let text = format!("{BEGIN}\n{}", text(spawn, true).ok()?);
    let mut reading = Reading::default();
    for line in text.lines() {
        if begins(line) {
            reading.begin();
        } else if let Some(again) = reading.take(line).ok()? {
            return Some(again);
        }
    }
    None
}

/// The answer to a request: the line, and the bytes that follow it. Clients of Weft get a reason for each
/// process.
pub(crate) fn answer(spawned: &Spawned, is_escaped: bool) -> String {
    let failed = spawned.outcomes.iter().find_map(|outcome| outcome.as_ref().err());
    if is_escaped {
        let reason =
            |outcome: &Result<(), String>| outcome.as_ref().err().map_or(String::new(), |why| wire::escape(why));
        let body: String = spawned.outcomes.iter().map(|outcome| reason(outcome) + "\n").collect();
        return format!("cmd=spawn_result rc=0 number={} bytes={}\n{body}", spawned.number, body.len());
    }
    let runs = spawned.outcomes.iter().any(Result::is_ok);
    match failed.filter(|_| !runs) {
        Some(why) => refusal(why),
        None => {
            let codes: Vec<&str> =
                spawned.outcomes.iter().map(|outcome| if outcome.is_ok() { "0" } else { "1" }).collect();
            format!("cmd=spawn_result rc=0 errcodes={}\n", codes.join(","))
        }
    }
}

/// The answer to a request that cannot be carried out.
pub(crate) fn refusal(why: &str) -> String {
    format!("cmd=spawn_result rc=-1 msg={}\n", why.replace([' ', '\n'], "_"))
}

/// The outcomes in the bytes that follow an answer of Weft's `mpiexec`; `None` where they are none.
pub(crate) fn outcomes(body: &str, wanted: usize) -> Option<Vec<Result<(), String>>> {
    let outcome = |line: &str| Some(if line.is_empty() { Ok(()) } else { Err(wire::unescape(line)?) });
    let outcomes = body.split_terminator('\n').map(outcome).collect::<Option<Vec<_>>>()?;
    (outcomes.len() == wanted).then_some(outcomes)
}

/// The outcomes in the list of error codes of a process manager with PMI-1.1, which may give none.
pub(crate) fn outcomes_of_codes(codes: Option<&str>, wanted: usize) -> Option<Vec<Result<(), String>>> {
    let Some(codes) = codes.filter(|codes| !codes.is_empty()) else { return Some(vec![Ok(()); wanted]) };
    let outcome = |code: &str| match code.trim() {
        "0" => Ok(()),
        code => Err(format!("the launcher gives the error code {}", wire::escape(code))),
    };
    let outcomes: Vec<_> = codes.split(',').map(outcome).collect();
    (outcomes.len() == wanted).then_some(outcomes)
}

/// The longest body of an answer for so many processes, in bytes.
pub(crate) fn answer_bytes_max(processes: usize) -> usize {
    processes.saturating_mul(wire::LINE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Spawn {
        let program = |command: &str, arguments: &[&str], processes, info: &[(&str, &str)]| SpawnProgram {
            command: command.into(),
            arguments: arguments.iter().map(|&text| text.into()).collect(),
            processes,
            info: info.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
        };
        Spawn {
            programs: vec![
                program("./a", &["", "-x", "a b=c", ":", "two\nlines"], 3, &[("wdir", "/tmp"), ("env", "A=1\nB=2")]),
                program("b", &[], 1, &[]),
            ],
            values: vec![(PARENT_PORT_KEY.into(), "a port=1".into())],
            directory: "/home/é".into(),
        }
    }

    fn read(text: &str) -> (Reading, Result<Option<Spawn>, String>) {
        let mut reading = Reading::default();
        let mut result = Ok(None);
        for line in text.lines() {
            if begins(line) {
                reading.begin();
                continue;
            }
            assert!(reading.is_open());
            result = reading.take(line);
            if !matches!(result, Ok(None)) {
                break;
            }
        }
        (reading, result)
    }

    #[test]
    fn a_request_comes_back() {
        let spawn = example();
        assert_eq!(reread(&spawn), Some(spawn));
    }

    /// What `PMI_Spawn_multiple` of MPICH writes.
    #[test]
    fn a_request_of_mpich_is_read() {
        let text = "mcmd=spawn\nnprocs=2\nexecname=./a\ntotspawns=1\nspawnssofar=1\narg1=one two\nargcnt=1\npreput_num=1\n\
                    preput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$port\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/\nendcmd\n";
        let (reading, spawn) = read(text);
        let spawn = spawn.expect("sense").expect("whole");
        assert_eq!((reading.is_escaped, spawn.processes()), (false, 2));
        assert_eq!(spawn.programs[0].arguments, ["one two"]);
        assert_eq!(spawn.values, [(PARENT_PORT_KEY.to_owned(), "tag#0$port".to_owned())]);
        let own = Spawn { directory: String::new(), ..spawn };
        assert_eq!(super::text(&own, false).expect("short").lines().count(), text.lines().count() - 1);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "mcmd=spawn\nendcmd\n",
            "mcmd=spawn\nexecname=a\nnprocs=0\nendcmd\n",
            "mcmd=spawn\nexecname=a\nnprocs=x\nendcmd\n",
            "mcmd=spawn\nexecname=a\nnprocs=1\nargcnt=1\nendcmd\n",
            "mcmd=spawn\nexecname=a\nnprocs=4000000000\nendcmd\n",
            "mcmd=spawn\nexecname=a%00\nnprocs=1\nweft_directory=\nendcmd\n",
        ] {
            assert!(read(text).1.is_err(), "{text}");
        }
        let endless = "mcmd=spawn\n".to_owned() + &"a=b\n".repeat(BYTES_MAX / 4 + 1);
        assert!(read(&endless).1.is_err());
        assert!(matches!(text(&example(), false), Err(LaunchError::Refused { .. })), "a line break");
    }

    #[test]
    fn outcomes_come_back() {
        let spawned = Spawned { number: 7, outcomes: vec![Ok(()), Err("no program a\nhere".into())] };
        let line = answer(&spawned, true);
        let (head, body) = line.split_once('\n').expect("a line");
        assert_eq!(head, format!("cmd=spawn_result rc=0 number=7 bytes={}", body.len()));
        assert_eq!(outcomes(body, 2), Some(spawned.outcomes));
        assert_eq!((outcomes(body, 3), outcomes("%\n", 1)), (None, None));
        assert_eq!(outcomes_of_codes(None, 2), Some(vec![Ok(()), Ok(())]));
        assert!(outcomes_of_codes(Some("0,5"), 2).expect("two")[1].is_err());
        assert_eq!(outcomes_of_codes(Some("0"), 2), None);
        assert_eq!((short("why").as_str(), short(&"é".repeat(REASON_BYTES_MAX)).len()), ("why", REASON_BYTES_MAX));
        let none = Spawned { number: 1, outcomes: vec![Err("no program".into()); 2] };
        assert_eq!(answer(&none, false), "cmd=spawn_result rc=-1 msg=no_program\n");
        let all = Spawned { number: 1, outcomes: vec![Ok(()); 2] };
        assert_eq!(answer(&all, false), "cmd=spawn_result rc=0 errcodes=0,0\n");
    }
}
