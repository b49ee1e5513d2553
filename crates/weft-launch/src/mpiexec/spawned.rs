//! From a spawn to the settings of a job: what the new job has from the one that spawns, and what info keys
//! change (MPI-5.0 §11.8.4). No key and no number decides anything elsewhere.

use super::binding;
use super::options::{architecture, largest};
use super::plan::Job;
use super::settings::{Block, RANKS_MAX, Settings, number};
use crate::control::InputTo;
use crate::hosts::{self, Host};
use crate::spawn::{ERROR_HANDLER, ERROR_HANDLER_KEY, Spawn, SpawnProgram, normal_key, short};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The meaning of an info key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The hosts of the program, in a list or a hostfile.
    Hosts,
    HostFile,
    /// Hosts beside those of the job that spawns.
    AddHosts,
    AddHostFile,
    Directory,
    SearchPath,
    /// The numbers of processes that would do.
    Soft,
    /// A file with more keys: `key=value` in each line.
    File,
    /// Variables, `NAME=value` in each line.
    Environment,
    /// The error handler that the program begins with.
    ErrorHandler,
    Architecture,
    RanksPerHost,
    OnePerHost,
    MapBy,
    BindTo,
}

/// The names of the keys: those of the standard, then those of MPICH and of Open MPI. Other keys change
/// nothing. `_` and `-` are the same in a name.
const KEYS: [(&str, Key); 18] = [
    ("host", Key::Hosts),
    ("arch", Key::Architecture),
    ("wdir", Key::Directory),
    ("path", Key::SearchPath),
    ("file", Key::File),
    ("soft", Key::Soft),
    (ERROR_HANDLER_KEY, Key::ErrorHandler),
    ("hosts", Key::Hosts),
    ("hostfile", Key::HostFile),
    ("machinefile", Key::HostFile),
    ("env", Key::Environment),
    ("add-host", Key::AddHosts),
    ("add-hostfile", Key::AddHostFile),
    ("npernode", Key::RanksPerHost),
    ("ppn", Key::RanksPerHost),
    ("pernode", Key::OnePerHost),
    ("map-by", Key::MapBy),
    ("bind-to", Key::BindTo),
];

/// The reason why a spawn cannot be tried, in half a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The index of the program that is to blame; `None`: no single one.
    pub(crate) program: Option<usize>,
    pub(crate) reason: String,
}

/// The settings that a job hands over to those that it spawns: all but what belongs to one start. `rank` is
/// the rank that spawns; its program is the only one, and the model for those of the new job.
pub(crate) fn inherited(job: &Job, rank: Option<u32>) -> Settings {
    let settings = &job.settings;
    let program = rank.and_then(|rank| {
        let share = &job.shares[*job.share_of_rank.get(rank as usize)?];
        share.plan.ranks.iter().find(|(other, _)| *other == rank).map(|(_, program)| *program as usize)
    });
    let model = settings.blocks.get(program.unwrap_or(0)).cloned().unwrap_or_else(Block::new);
    let universe = settings.universe.or(Some(job.size)).filter(|&size| size > 0);
    Settings {
        blocks: vec![Block { count: None, words: Vec::new(), hosts: Vec::new(), ..model }],
        hosts: job.hosts.clone(),
        input: InputTo::Nobody,
        time_limit: None,
        print_rank_map: false,
        universe,
        values: Vec::new(),
        notes: Vec::new(),
        ..settings.clone()
    }
}

/// Reads a file of this host as text. An error is half a sentence.
type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The settings of the spawned job with this number. `parent` is what [`inherited`] has made.
///
/// # Errors
/// A key makes no sense, or a file cannot be read.
pub(crate) fn settings(number: u32, parent: Settings, spawn: &Spawn, read: ReadFile<'_>) -> Result<Settings, Refusal> {
    let mut settings = Settings { spawned: number, values: spawn.values.clone(), ..parent };
    let model = settings.blocks.pop().unwrap_or_else(Block::new);
    settings.blocks.clear();
    if !spawn.directory.is_empty() {
        settings.directory = Some(spawn.directory.clone().into());
    } else if model.directory.is_some() {
        settings.directory.clone_from(&model.directory);
    }
    for (index, program) in spawn.programs.iter().enumerate() {
        let mut block = Block { directory: None, search_path: None, ..model.clone() };
        block.count = Some(program.processes);
        block.words = [&program.command].into_iter().chain(&program.arguments).map(OsString::from).collect();
        let taken = take_keys(&mut settings, &mut block, program, read);
        taken.map_err(|reason| Refusal { program: Some(index), reason })?;
        settings.blocks.push(block);
    }
    Ok(settings)
}

/// Changes the settings as the info keys of a program say.
fn take_keys(
    settings: &mut Settings,
    block: &mut Block,
    program: &SpawnProgram,
    read: ReadFile<'_>,
) -> Result<(), String> {
    let mut info = program.info.clone();
    if let Some((_, file)) = info.iter().find(|(key, _)| find(key) == Some(Key::File)) {
        let text = read(&place(settings, file)).map_err(|why| format!("the file {file} {why}"))?;
        let listed = pairs(&text, '#').map(|(key, value)| (key.to_owned(), value.to_owned()));
        // What the program says itself counts more than the file.
        info = listed.chain(info).collect();
    }
    let listed = |file: &str| {
        let text = read(&place(settings, file)).map_err(|why| format!("the hostfile {file} {why}"))?;
        let (listed, _) = hosts::parse_file(&text).map_err(|why| format!("the hostfile {file}: {why}"))?;
        Ok::<_, String>(listed)
    };
    let mut added = Vec::new();
    for (name, value) in &info {
        match find(name) {
            Some(Key::Hosts) => block.hosts = hosts::parse_list(value).map_err(|why| format!("{name}: {why}"))?,
            Some(Key::HostFile) => block.hosts = listed(value)?,
            Some(Key::AddHosts) => added.extend(hosts::parse_list(value).map_err(|why| format!("{name}: {why}"))?),
            Some(Key::AddHostFile) => added.extend(listed(value)?),
            _ => {}
        }
    }
    if !added.is_empty() && settings.hosts.is_empty() {
        settings.hosts.push(Host::new(crate::reach::own_name(), None));
    }
    for host in added {
        // A second program may name the same host again.
        if !settings.hosts.contains(&host) {
            hosts::add(&mut settings.hosts, host);
        }
    }
    for (name, value) in &info {
        match find(name) {
            Some(Key::Directory) => block.directory = Some(value.into()),
            Some(Key::SearchPath) => block.search_path = Some(value.into()),
            Some(Key::Soft) => block.count = Some(largest(name, value, program.processes)?),
            Some(Key::Environment) => {
                let variables = pairs(value, '\0').map(|(name, value)| (name.into(), value.into()));
                block.environment.set.extend(variables);
            }
            Some(Key::ErrorHandler) => block.environment.set.push((ERROR_HANDLER.into(), value.into())),
            Some(Key::Architecture) => architecture(name, value)?,
            Some(Key::RanksPerHost) => settings.ranks_per_host = Some(number(name, value)?),
            Some(Key::OnePerHost) if value != "false" && value != "0" => settings.ranks_per_host = Some(1),
            Some(Key::MapBy) => binding::map_by(settings, name, value)?,
            Some(Key::BindTo) => binding::bind_to(settings, name, value)?,
            _ => {}
        }
    }
    if block.count.is_some_and(|count| count > RANKS_MAX) {
        return Err(format!("{} processes are more than {RANKS_MAX}", program.processes));
    }
    Ok(())
}

fn find(name: &str) -> Option<Key> {
    let name = normal_key(name);
    KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
}

/// The lines `name=value` of a text. Other lines, and those that begin with `comment`, say nothing.
fn pairs(text: &str, comment: char) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(move |line| !line.starts_with(comment));
    lines.filter_map(|line| line.split_once('=')).filter(|(name, _)| !name.is_empty())
}

/// A file that a program names, relative to where the program is.
fn place(settings: &Settings, file: &str) -> String {
    match &settings.directory {
        Some(directory) => std::path::Path::new(directory).join(file).to_string_lossy().into_owned(),
        None => file.to_owned(),
    }
}

/// What has become of each wanted process. `counts`: the number of processes of each program that were to be
/// started. `given_up`: the reason why none of them runs. `failures`: the reasons of single ranks.
pub(crate) fn outcomes(
    spawn: &Spawn,
    counts: &[u32],
    given_up: Option<&str>,
    failures: &BTreeMap<u32, String>,
) -> Vec<Result<(), String>> {
    let mut outcomes = Vec::with_capacity(spawn.processes());
    let mut rank = 0;
    for (program, &count) in spawn.programs.iter().zip(counts) {
        for process in 0..program.processes {
            let is_wanted = process < count;
            let own = failures.get(&rank).filter(|_| is_wanted);
            outcomes.push(match (own, given_up) {
                (Some(why), _) => Err(short(why)),
                (None, Some(why)) => Err(short(&format!("the spawn is given up because {why}"))),
                (None, None) if is_wanted => Ok(()),
                (None, None) => Err(format!("the info key soft asks for {count} of {} processes", program.processes)),
            });
            rank += u32::from(is_wanted);
        }
    }
    outcomes
}

/// What has become of each process of a spawn that cannot be tried.
pub(crate) fn refused(spawn: &Spawn, refusal: &Refusal) -> Vec<Result<(), String>> {
    let Refusal { program, reason } = refusal;
    let of = |(index, wanted): (usize, &SpawnProgram)| {
        let why = match program {
            Some(blamed) if *blamed != index => {
                format!("the spawn is given up because {} cannot be started: {reason}", spawn.programs[*blamed].command)
            }
            _ => reason.clone(),
        };
        vec![Err(short(&why)); wanted.processes as usize]
    };
    spawn.programs.iter().enumerate().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::BindTo;
    use crate::hosts::Order;

    fn program(command: &str, processes: u32, info: &[(&str, &str)]) -> SpawnProgram {
        let info = info.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        SpawnProgram { command: command.into(), arguments: vec!["x".into()], processes, info }
    }

    fn made(programs: Vec<SpawnProgram>) -> Result<Settings, Refusal> {
        let mut parent = Settings::new();
        let mut model = Block::new();
        model.environment.set.push(("A".into(), "1".into()));
        model.directory = Some("/parent".into());
        (parent.blocks, parent.hosts) = (vec![model], hosts::parse_list("h0,h1").expect("hosts"));
        let spawn = Spawn { programs, values: vec![("k".into(), "v".into())], directory: "/here".into() };
        let read = |file: &str| match file {
            "/here/hosts" => Ok("h7 slots=2\n".to_owned()),
            "/here/keys" => Ok("# more\nwdir=/file\nenv=FROM=file\nhost = none\n".to_owned()),
            _ => Err(format!("is not there: {file}")),
        };
        settings(4, parent, &spawn, &read)
    }

    fn one(info: &[(&str, &str)]) -> Result<Settings, String> {
        made(vec![program("a", 4, info)]).map_err(|refusal| refusal.reason)
    }

    fn names(hosts: &[Host]) -> Vec<&str> {
        hosts.iter().map(|host| host.name.as_str()).collect()
    }

    #[test]
    fn a_spawned_job_has_what_the_job_has_that_spawns() {
        let settings = made(vec![program("a", 3, &[("unknown", "key")]), program("b", 1, &[])]).expect("sense");
        assert_eq!((settings.spawned, settings.values.len(), settings.order), (4, 1, Order::BySlot));
        assert_eq!(names(&settings.hosts), ["h0", "h1"]);
        assert_eq!(settings.directory, Some("/here".into()));
        let [a, b] = &settings.blocks[..] else { panic!("two programs") };
        assert_eq!((a.count, b.count, &a.words[..]), (Some(3), Some(1), &["a".into(), "x".into()][..]));
        assert_eq!((&a.directory, a.environment.set.len(), a.hosts.len()), (&None, 1, 0));
    }

    #[test]
    fn each_key_has_its_effect() {
        let block = |info: &[(&str, &str)]| one(info).expect("sense").blocks.remove(0);
        assert_eq!(names(&block(&[("host", "h5:2,h6")]).hosts), ["h5", "h6"]);
        assert_eq!(names(&block(&[("hostfile", "hosts")]).hosts), ["h7"]);
        assert_eq!(names(&one(&[("add-host", "h8")]).expect("sense").hosts), ["h0", "h1", "h8"]);
        assert_eq!(names(&one(&[("add_hostfile", "hosts")]).expect("sense").hosts), ["h0", "h1", "h7"]);
        assert_eq!(block(&[("wdir", "/tmp")]).directory, Some("/tmp".into()));
        assert_eq!(block(&[("path", "/opt/bin:/srv")]).search_path, Some("/opt/bin:/srv".into()));
        assert_eq!(block(&[("soft", "1,3,9")]).count, Some(3));
        let variables: Vec<_> = block(&[("env", "B=2\nC=a=b\nnothing")]).environment.set;
        assert_eq!(variables[1..], [("B".into(), "2".into()), ("C".into(), "a=b".into())]);
        let begins = block(&[("mpi_initial_errhandler", "mpi_errors_return")]).environment.set;
        assert_eq!(begins.last(), Some(&(ERROR_HANDLER.into(), "mpi_errors_return".into())));
        // The program's own word counts more than that of a file.
        let block = block(&[("wdir", "/own"), ("file", "keys")]);
        assert_eq!((block.directory, block.environment.set.len()), (Some("/own".into()), 2));
        let settings = one(&[("npernode", "2"), ("bind_to", "core"), ("arch", std::env::consts::ARCH)]).expect("sense");
        assert_eq!((settings.ranks_per_host, settings.binding.to()), (Some(2), BindTo::Core));
        assert_eq!(one(&[("pernode", "true")]).expect("sense").ranks_per_host, Some(1));
    }

    #[test]
    fn keys_that_make_no_sense_are_named_with_their_program() {
        for (key, value) in [
            ("host", "-x"),
            ("hostfile", "gone"),
            ("soft", "9"),
            ("soft", "x"),
            ("arch", "vax"),
            ("npernode", "0"),
            ("file", "gone"),
            ("add-host", ""),
        ] {
            let refusal = made(vec![program("a", 2, &[]), program("b", 4, &[(key, value)])]).expect_err(key);
            assert_eq!(refusal.program, Some(1), "{key}");
            let spawn = Spawn { programs: vec![program("a", 2, &[]), program("b", 4, &[])], ..Spawn::default() };
            let outcomes = refused(&spawn, &refusal);
            assert_eq!(outcomes.len(), 6);
            assert!(outcomes[0].as_ref().is_err_and(|why| why.contains("given up because b cannot be started")));
            assert_eq!(outcomes[5], Err(refusal.reason));
        }
    }

    #[test]
    fn every_wanted_process_has_an_outcome() {
        let spawn = Spawn { programs: vec![program("a", 2, &[]), program("b", 3, &[])], ..Spawn::default() };
        let none = BTreeMap::new();
        assert!(outcomes(&spawn, &[2, 3], None, &none).iter().all(Result::is_ok));
        let soft = outcomes(&spawn, &[1, 3], None, &none);
        assert_eq!(soft.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true, true]);
        let failures = BTreeMap::from([(1, "no program b".to_owned())]);
        let failed = outcomes(&spawn, &[1, 3], Some("rank 1 was not started"), &failures);
        assert_eq!(failed[2], Err("no program b".into()));
        assert!(
            failed
                .iter()
                .enumerate()
                .all(|(index, outcome)| index == 2 || outcome.as_ref().is_err_and(|why| why.contains("given up")))
        );
    }
}
