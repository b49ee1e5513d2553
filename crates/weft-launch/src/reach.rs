//! The command that runs a program on another host. `mpiexec` and `weft doctor` both use it.

use crate::hosts;
use crate::words;
use std::ffi::OsStr;
use std::path::Path;

/// The command template unless the user gives another (`--agent`, `WEFT_AGENT`). The program to run is
/// appended.
pub const TEMPLATE: &str = "ssh -o BatchMode=yes {host}";
/// The command template for hosts of an allocation of Slurm. An agent may share processors and memory with
/// other steps, and has all of the job's on its host. What the user wishes for steps of programs does not
/// count. Nothing of what passes between agent and `mpiexec` is changed, or kept back until a line ends.
pub const SLURM_TEMPLATE: &str = "env -u SLURM_LABELIO srun --quiet --nodes=1 --ntasks=1 --ntasks-per-node=1 \
     --nodelist={host} --overlap --cpu-bind=none --mem=0 --mpi=none --kill-on-bad-exit=0 --export=ALL --input=all \
     --output=all --error=all --unbuffered";
/// The longest time for a program on another host to answer for the first time, in seconds, unless the user
/// gives another.
pub const ANSWER_SECONDS: u64 = 20;
/// The names of this host that every host has.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The words of the command that runs `program` with `arguments` on `host`.
///
/// # Errors
/// Half a sentence: the template cannot be split into words, or has no words.
pub fn command(host: &str, template: &str, program: &str, arguments: &[&str]) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = words::split(template)?.iter().map(|word| word.replace("{host}", host)).collect();
    let Some(first) = words.first() else {
        return Err(format!("the command that reaches a host is empty; it is one like `{TEMPLATE}`"));
    };
    let name = Path::new(OsStr::new(first)).file_name().unwrap_or_default();
    // These commands pass their words to a shell on the other host.
    let through_shell = name == "ssh" || name == "rsh" || name == "remsh";
    let told = |word: &str| if through_shell { words::quote(word) } else { word.to_string() };
    words.push(told(program));
    words.extend(arguments.iter().map(|word| told(word)));
    Ok(words)
}

/// Words in the form in which a shell reads them back, for messages.
pub fn shown(words: &[String]) -> String {
    words.iter().map(|word| words::quote(word)).collect::<Vec<_>>().join(" ")
}

/// The hosts of a `--hosts` list, without their slots.
///
/// # Errors
/// One sentence about the word that is no host name.
pub fn hosts(list: &str) -> Result<Vec<String>, String> {
    Ok(hosts::parse_list(list)?.into_iter().map(|host| host.name).collect())
}

/// The name of this host, as the kernel has it.
pub fn own_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim();
    if name.is_empty() { "localhost".to_string() } else { name.to_string() }
}

/// Returns whether a name stands for this host, whose name is `own`. No name service is asked.
pub fn is_local(name: &str, own: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or("").to_string();
    LOCAL_NAMES.contains(&name) || name == own || (short(own) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_follows_the_template() {
        let words = |template, program| command("h1", template, program, &["--agent"]).expect("a template").join("|");
        assert_eq!(words("ip netns exec {host}", "/a b/mpiexec"), "ip|netns|exec|h1|/a b/mpiexec|--agent");
        assert_eq!(words("ssh -p 22 me@{host}", "/a b/mpiexec"), "ssh|-p|22|me@h1|'/a b/mpiexec'|--agent");
        assert_eq!(words("env WEFT_NODE={host}", "m"), "env|WEFT_NODE=h1|m|--agent");
        assert!(command("h1", "  ", "m", &[]).is_err());
        assert!(command("h1", "'", "m", &[]).is_err());
    }

    #[test]
    fn hosts_are_named_as_for_mpiexec() {
        assert_eq!(hosts("h0:2,h1"), Ok(vec!["h0".to_string(), "h1".to_string()]));
        assert!(hosts("-oProxyCommand=x").is_err());
        assert!(
            is_local("localhost", "a.b") && is_local("a", "a.b") && is_local("a.b", "a.b") && !is_local("b", "a.b")
        );
    }
}
