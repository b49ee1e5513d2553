//! Hosts that are joined in a tree: a host that has its agent starts the agents of others by ssh.

use std::rc::Rc;

use rustix::process::{Pid, Signal, kill_process};

use super::super::Case;
use super::super::context::{Context, Expected};
use super::super::process::Run;
use super::site::{Lazy, Server, Site};
use super::{BEHAVE, END, READY, RING, on, right};

/// `mpiexec` on these hosts, each of which starts the next `width`.
fn mpiexec(context: &Context, site: &Site, hosts: &str, ranks: usize, width: &str) -> Run {
    site.mpiexec(context, hosts, ranks).args(["--tree-width", width])
}

pub(super) fn cases(site: &Rc<Lazy>) -> Vec<Case> {
    let mut cases = vec![
        on(site, "16 hosts in a tree", |context, site| {
            let run = mpiexec(context, site, &Site::names(16), 16, "4").args(["-v"]).arg(context.compile(RING)?);
            let expected = right("16 ranks").says("on h5: ranks 4, agent on h1: ssh").never_says("cannot start");
            Ok((expected, run.limit(120).finish()?))
        }),
        on(site, "a tree, and a host that has no key for the others", |context, site| {
            let before = format!("mount --bind /dev/null '{}'", site.file("user_key").display());
            site.add(&Server { name: "keyless", configuration: "", before: &before })?;
            let run = mpiexec(context, site, "keyless,h1,h2", 3, "1").arg(context.compile(RING)?);
            let told = "the host keyless cannot start the agent on h1";
            Ok((right("3 ranks").says(told).says("Permission denied").says("--tree-width none"), run.finish()?))
        }),
        on(site, "a tree, and a host that has no Weft", |context, site| {
            let before = format!(
                "mpiexec='{}'; mkdir -p '{1}'; mount --bind '{1}' \"${{mpiexec%/*}}\"",
                context.bin("mpiexec").display(),
                site.file("empty").display()
            );
            site.add(&Server { name: "bare", configuration: "", before: &before })?;
            let run = mpiexec(context, site, "h1,bare,h2", 3, "1").arg("true");
            let expected = Expected::failure().says("the host h1 cannot start the agent on bare");
            Ok((expected.says("the host bare cannot be reached").says("install it at this path"), run.finish()?))
        }),
        on(site, "a tree, and a host that hangs after the login", |context, site| {
            let configuration = "ForceCommand exec cat >/dev/null";
            site.add(&Server { name: "hangs", configuration, before: "" })?;
            let run = mpiexec(context, site, "h1,hangs,h2", 3, "1").args(["--agent-timeout", "3"]).arg("true");
            let expected = Expected::failure().says("the host hangs cannot be reached").says("on h1 did not answer");
            Ok((expected.says("within 3 s").says("`ssh hangs true` on h1"), run.limit(END.as_secs()).finish()?))
        }),
    ];
    cases.extend((0..=3).map(|host| killed(site, host)));
    cases
}

/// What `mpiexec` says when the agent of this host is killed in the tree of [`killed`].
const LOST: [&str; 4] = ["", "the agent on h1 is lost", "the agent on h2 is lost", "the agent on h3 is lost"];

/// A job in a tree in which h1 starts h2, and h2 starts h3. The agent of this host is killed while the ranks
/// run, or `mpiexec`, which is on host 0.
fn killed(site: &Rc<Lazy>, host: usize) -> Case {
    let victim = if host == 0 { "mpiexec".to_owned() } else { format!("the agent of h{host}") };
    on(site, format!("a tree, and {victim} is killed"), move |context, site| {
        let run = mpiexec(context, site, "h1,h2,h3", 3, "1").arg(context.compile(BEHAVE)?).arg("hang");
        let mut running = run.start()?;
        anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
        if host == 0 {
            running.kill()?;
            return Ok((Expected::code(137), running.finish(END)?));
        }
        let processes = site.processes_on(host);
        let is_agent = |command: &str| command.contains("mpiexec --weft-agent") && !command.contains("ssh ");
        let found = processes.iter().find(|(_, command)| is_agent(command)).and_then(|(pid, _)| Pid::from_raw(*pid));
        let Some(found) = found else { anyhow::bail!("no agent is on h{host}: {processes:?}") };
        kill_process(found, Signal::KILL)?;
        Ok((Expected::failure().says(LOST[host]), running.finish(END)?))
    })
}
