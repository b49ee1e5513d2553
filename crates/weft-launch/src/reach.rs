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
/// The programs that pass their words to a shell on another host.
const REMOTE_SHELLS: [&str; 3] = ["ssh", "rsh", "remsh"];
/// The remote shell unless the user names another.
const SHELL: &str = "ssh";
/// With this option ssh asks no question that nobody could answer.
const ASK_NOTHING: &str = "BatchMode";

/// A remote shell: a command that runs another command on a host, as ssh does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteShell {
    /// The program and arguments of its own, as a shell would read them, perhaps with `{host}` for the host;
    /// `None`: ssh.
    pub program: Option<String>,
    /// Arguments that stand behind those and before the host's name, as a shell would read them.
    pub arguments: Option<String>,
}

impl RemoteShell {
    /// The command template of this shell.
    pub fn template(&self) -> String {
        let program = self.program.as_deref().unwrap_or(SHELL);
        let arguments = self.arguments.as_deref().unwrap_or_default();
        let first = words::split(program).ok().and_then(|words| words.into_iter().next()).unwrap_or_default();
        let is_ssh = Path::new(&first).file_name() == Some(OsStr::new(SHELL));
        let is_said = format!("{program} {arguments}").contains(ASK_NOTHING);
        let quiet = if is_ssh && !is_said { format!("-o {ASK_NOTHING}=yes") } else { String::new() };
        let host = if program.contains("{host}") { "" } else { "{host}" };
        let words = [program, &quiet, arguments, host];
        words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The words of the command that runs `program` with `arguments` on `host`.
///
/// # Errors
/// Half a sentence: the template cannot be split into words, or has no words.
pub fn command(host: &str, template: &str, program: &str, arguments: &[&str]) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = words::split(template)?.iter().map(|word| word.replace("{host}", host)).collect();
    let Some(first) = words.first() else {
        return Err(format!("the command that reaches a host is empty; it is one like `{TEMPLATE}`"));
    };
    let through_shell = is_remote_shell(first);
    let told = |word: &str| if through_shell { words::quote(word) } else { word.to_string() };
    words.push(told(program));
    words.extend(arguments.iter().map(|word| told(word)));
    Ok(words)
}

/// Returns whether this program passes its words to a shell on another host, as ssh does.
fn is_remote_shell(program: &str) -> bool {
    let name = Path::new(program).file_name();
    REMOTE_SHELLS.iter().any(|shell| name == Some(OsStr::new(shell)))
}

/// Returns whether a template is the command of a remote shell, which reaches a host from any other host.
pub(crate) fn is_by_remote_shell(template: &str) -> bool {
    words::split(template).is_ok_and(|words| words.first().is_some_and(|first| is_remote_shell(first)))
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

/// The longest name of this host that the file of hosts, /etc/hosts, has for it; else the kernel's name. In a
/// pod of Kubernetes that is `pi-launcher.pi.default.svc.cluster.local`, where the kernel says `pi-launcher`.
pub fn full_name() -> String {
    let own = own_name();
    let table = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    longest_name(&table, &own).unwrap_or(own)
}

/// The longest name in `table` that begins with the name `own`.
fn longest_name(table: &str, own: &str) -> Option<String> {
    let lines = table.lines().map(|line| line.split('#').next().unwrap_or(""));
    let names = lines.flat_map(|line| line.split_whitespace().skip(1));
    names.filter(|name| is_local(own, name)).max_by_key(|name| name.len()).map(str::to_owned)
}

/// Returns whether a name stands for this host, whose longest name is `own`. A name without the last parts of
/// the domain is a name too. No name service is asked.
pub fn is_local(name: &str, own: &str) -> bool {
    let rest = own.strip_prefix(name).filter(|_| !name.is_empty());
    LOCAL_NAMES.contains(&name) || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
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
    fn a_remote_shell_makes_a_template() {
        let template = |program: Option<&str>, arguments: Option<&str>| {
            RemoteShell { program: program.map(str::to_owned), arguments: arguments.map(str::to_owned) }.template()
        };
        assert_eq!(template(None, None), TEMPLATE);
        assert_eq!(template(None, Some(" -F config -p 2222 ")), "ssh -o BatchMode=yes -F config -p 2222 {host}");
        assert_eq!(template(Some("/opt/bin/ssh -4"), None), "/opt/bin/ssh -4 -o BatchMode=yes {host}");
        assert_eq!(template(None, Some("-o BatchMode=no")), "ssh -o BatchMode=no {host}");
        assert_eq!(template(Some("rsh"), Some("-n")), "rsh -n {host}");
        assert_eq!(template(Some("'/a b/kubexec.sh'"), None), "'/a b/kubexec.sh' {host}");
    }

    #[test]
    fn the_file_of_hosts_knows_the_longest_name_of_this_host() {
        let pod = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n\
                   10.244.1.5\tpi-launcher.pi.default.svc.cluster.local\tpi-launcher\n";
        let own = longest_name(pod, "pi-launcher").expect("a name");
        assert_eq!(own, "pi-launcher.pi.default.svc.cluster.local");
        assert!(is_local("pi-launcher.pi.default.svc", &own) && is_local("pi-launcher", &own));
        assert!(!is_local("pi-launcher.pi.def", &own) && !is_local("pi", &own) && !is_local("", &own));
        assert!(!is_local("pi-launcher.other.default.svc", &own));
        assert_eq!(longest_name(pod, "pi-worker-0"), None);
        assert_eq!(longest_name("127.0.1.1 # node1.site node1\n", "node1"), None);
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
