//! A spawn in the words of PMIx: what each info key becomes.

use crate::SpawnProgram;
use crate::mpiexec::largest;
use crate::spawn::{ERROR_HANDLER, ERROR_HANDLER_KEY, normal_key};
use crate::sys::pmix::Program;

/// The variable in which the processes of a spawned job find the port of the job that has spawned them.
pub(super) const PARENT_PORT: &str = "WEFT_PARENT_PORT";
/// The prefix of the settings that a spawned job has from its parent.
const SETTINGS_PREFIX: &str = "WEFT_";

/// Info keys whose value is that of an attribute of the program.
const OF_PROGRAM: [(&str, &str); 5] = [
    ("host", "pmix.host"),
    ("hosts", "pmix.host"),
    ("hostfile", "pmix.hostfile"),
    ("add-host", "pmix.addhost"),
    ("add-hostfile", "pmix.addhostfile"),
];
/// Info keys whose value is that of an attribute of the job.
const OF_JOB: [(&str, &str); 2] = [("map-by", "pmix.mapby"), ("bind-to", "pmix.bindto")];

/// A job in the words of PMIx.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) programs: Vec<Program>,
}

/// The job of these programs. `own` has the variables of this process, `directory` is its own.
///
/// # Errors
/// The index of the program, and half a sentence about a key that makes no sense.
pub(super) fn job(
    programs: &[SpawnProgram],
    port: &str,
    own: &[(String, String)],
    directory: &str,
) -> Result<Job, (usize, String)> {
    let mut job = Job::default();
    for (index, program) in programs.iter().enumerate() {
        let settings = own.iter().filter(|(name, _)| name.starts_with(SETTINGS_PREFIX) && name != PARENT_PORT);
        let mut made = Program {
            words: [&program.command].into_iter().chain(&program.arguments).cloned().collect(),
            environment: settings.map(|(name, value)| format!("{name}={value}")).collect(),
            directory: directory.to_owned(),
            processes: program.processes,
            attributes: Vec::new(),
        };
        for (key, value) in &program.info {
            let key = normal_key(key);
            let named = |table: &[(&str, &'static str)]| table.iter().find(|row| row.0 == key).map(|row| row.1);
            if let Some(attribute) = named(&OF_PROGRAM) {
                made.attributes.push((attribute, value.clone()));
            } else if let Some(attribute) = named(&OF_JOB) {
                job.attributes.push((attribute, value.clone()));
            }
            match key.as_str() {
                "wdir" if value.starts_with('/') => made.directory.clone_from(value),
                "wdir" => made.directory = format!("{directory}/{value}"),
                "soft" => {
                    made.processes = largest("soft", value, program.processes).map_err(|why| (index, why))?;
                }
                "env" => made.environment.extend(value.lines().filter(|line| line.contains('=')).map(str::to_owned)),
                ERROR_HANDLER_KEY => made.environment.push(format!("{ERROR_HANDLER}={value}")),
                "path" => {
                    let path = own.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
                    made.environment.push(format!("PATH={value}:{path}"));
                }
                _ => {}
            }
        }
        made.environment.push(format!("{PARENT_PORT}={port}"));
        job.programs.push(made);
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_word_in_pmix() {
        let info = [
            ("host", "h0"),
            ("add_hostfile", "f"),
            ("map_by", "node"),
            ("wdir", "sub"),
            ("soft", "1,3"),
            ("env", "A=1\nB=2"),
            ("path", "/opt"),
            ("unknown", "x"),
        ];
        let info = info.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let program = SpawnProgram { command: "a".into(), arguments: vec!["x".into()], processes: 4, info };
        let own = [("WEFT_LINK", "udp"), ("PATH", "/bin"), ("HOME", "/"), (PARENT_PORT, "old")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let made = job(&[program], "a port", &own, "/here").expect("sense");
        assert_eq!(made.attributes, [("pmix.mapby", "node".to_owned())]);
        let program = &made.programs[0];
        assert_eq!((program.processes, program.directory.as_str()), (3, "/here/sub"));
        assert_eq!(program.environment, ["WEFT_LINK=udp", "A=1", "B=2", "PATH=/opt:/bin", "WEFT_PARENT_PORT=a port"]);
        let expected = [("pmix.host", "h0".to_owned()), ("pmix.addhostfile", "f".to_owned())];
        assert_eq!(program.attributes, expected);
        let wrong = SpawnProgram {
            command: "a".into(),
            arguments: vec![],
            processes: 1,
            info: vec![("soft".into(), "x".into())],
        };
        assert!(job(&[wrong], "", &[], "/").is_err_and(|(index, _)| index == 0));
    }
}
