//! Tests of `mpiexec` over ssh: hosts that are reached, and hosts that are not and are named with what to do.
//! Kubernetes' MPI Operator and the means of batch systems are here too.

mod allocations;
mod kubernetes;
mod site;
mod tree;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Finished, Run, until};
use super::{Case, Outcome};
use site::{Lazy, Server, Site};

const BEHAVE: &str = "tests/launcher/behave.c";
const RING: &str = "examples/ring.c";
const SURVIVE: &str = "examples/survive.c";
const READY: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(30);
/// The needs of all cases with real servers.
const NEEDS: [Need; 2] = [Need::Sshd, Need::Networks];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let site = Lazy::new("few", 16);
    let mut cases = reached(&site);
    cases.extend(unreached(&site));
    cases.extend(ended(&site));
    cases.extend(tree::cases(&site));
    cases.extend(kubernetes::cases());
    cases.extend(allocations::cases());
    cases
}

/// What takes long: many hosts.
pub(crate) fn all_cases(context: &Context) -> Vec<Case> {
    let mut cases = cases(context);
    let site = Lazy::new("many", 63);
    cases.push(on(&site, "63 hosts", |context, site| {
        let run = site.mpiexec(context, &Site::names(63), 63).arg(context.compile(RING)?);
        Ok((Expected::code(0).says("63 ranks").says("(right)"), run.limit(300).finish()?))
    }));
    cases.push(on(&site, "63 hosts in a tree", |context, site| {
        let run = site.mpiexec(context, &Site::names(63), 63).args(["--tree-width", "8"]).arg(context.compile(RING)?);
        Ok((Expected::code(0).says("63 ranks").says("(right)"), run.limit(300).finish()?))
    }));
    cases.push(on(&site, "63 hosts behind one that all connections pass", |context, site| {
        let mut names = vec!["h1".to_owned()];
        for host in 2..=63 {
            let name = format!("far{host}");
            site.know(&name, &format!("HostName {}\nProxyJump h1", Site::address(host)))?;
            names.push(name);
        }
        let run = site.mpiexec(context, &names.join(","), 63).args(["--agent-timeout", "120"]);
        let run = run.arg(context.compile(RING)?).limit(300);
        Ok((Expected::code(0).says("63 ranks").says("(right)"), run.finish()?))
    }));
    cases.push(on(&site, "of 63 hosts one hangs, and all others are ended", |context, site| {
        site.add(&Server { name: "hangs", configuration: "ForceCommand exec cat >/dev/null", before: "" })?;
        let hosts = format!("{},hangs", Site::names(62));
        let run = site.mpiexec(context, &hosts, 63).args(["--agent-timeout", "30"]).arg(context.compile(RING)?);
        let expected = Expected::failure().says("the host hangs cannot be reached").says("within 30 s");
        Ok((expected, run.limit(200).finish()?))
    }));
    cases
}

/// A case on a site: a run, and what is expected of it.
fn on(
    site: &Rc<Lazy>,
    name: impl Into<String>,
    run: impl Fn(&Context, &Site) -> anyhow::Result<(Expected, Finished)> + 'static,
) -> Case {
    let site = Rc::clone(site);
    let case = Case::new(name, move |context: &Context| -> anyhow::Result<Outcome> {
        let site = site.get(context)?;
        let (expected, finished) = run(context, site)?;
        Ok(site.judge(&expected, Ok(finished)))
    });
    case.needs(&NEEDS)
}

/// Makes a program of a shell.
fn script(path: PathBuf, text: &str) -> anyhow::Result<PathBuf> {
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn right(ranks: &'static str) -> Expected {
    Expected::code(0).says(ranks).says("(right)")
}

/// A short comparison on these hosts.
fn compare(context: &Context, site: &Site, hosts: &str) -> Run {
    let agent = format!("ssh -o BatchMode=yes -F '{}' {{host}}", site.file("config").display());
    let words = ["compare", "pingpong", "--library", "weft", "--no-carriers", "--rounds", "1", "--sizes", "8"];
    let run =
        site.on(0).arg(context.bin("weft")).args(words).args(["--samples", "1", "--seconds", "0.001", "--on", hosts]);
    run.env("WEFT_AGENT", agent).env("XDG_CACHE_HOME", site.file("cache"))
}

fn reached(site: &Rc<Lazy>) -> Vec<Case> {
    vec![
        on(site, "two hosts, with a file of ssh's own options", |context, site| {
            let run = site.mpiexec(context, "h1,h2", 4).arg(context.compile(RING)?);
            Ok((right("4 ranks"), run.finish()?))
        }),
        on(site, "16 hosts", |context, site| {
            let run = site.mpiexec(context, &Site::names(16), 16).arg(context.compile(RING)?);
            Ok((right("16 ranks"), run.limit(120).finish()?))
        }),
        on(site, "a jump host, and behind it one that lets nobody else in", |context, site| {
            let configuration = format!("AllowUsers *@{}", Site::address(1));
            site.add(&Server { name: "inner", configuration: &configuration, before: "" })?;
            let entry = std::fs::read_to_string(site.file("config"))?;
            let port = entry.split("Host inner\n").nth(1).and_then(|rest| rest.lines().nth(1)).unwrap_or_default();
            site.know("jumped", &format!("HostName {}\n{port}\nProxyJump h1", Site::address(16)))?;
            let direct = site.mpiexec(context, "h2,inner", 2).arg("true").finish()?;
            anyhow::ensure!(direct.output.contains("Permission denied"), "it lets us in:\n{}", direct.report());
            let run = site.mpiexec(context, "h2,jumped", 4).arg(context.compile(RING)?);
            Ok((right("4 ranks"), run.finish()?))
        }),
        on(site, "a jump host that turns away all but two at a time", |context, site| {
            site.add(&Server { name: "gate", configuration: "MaxStartups 2", before: "" })?;
            let mut names = Vec::new();
            for host in 2..=9 {
                let name = format!("gated{host}");
                site.know(&name, &format!("HostName {}\nProxyJump gate", Site::address(host)))?;
                names.push(name);
            }
            let run = site.mpiexec(context, &names.join(","), 8).arg(context.compile(RING)?);
            Ok((right("8 ranks"), run.finish()?))
        }),
        on(site, "a program in the place of ssh, and arguments of it", |context, site| {
            let text = format!("exec ssh -F '{}' \"$@\"", site.file("config").display());
            let program = script(site.file("my ssh"), &text)?;
            let run = site.on(0).arg(context.bin("mpiexec")).args(["-n", "4", "--hosts", "h1,h2", "-launcher-exec"]);
            let run = run.arg(program).args(["--launcher-args", "-o Compression=no"]).arg(context.compile(RING)?);
            Ok((right("4 ranks"), run.finish()?))
        }),
        on(site, "users of hosts: user@host, and user= in a hostfile", |context, site| {
            let file = site.file("hostfile");
            std::fs::write(&file, "root@h1 slots=2 max_slots=2\nh2 user=root slots=1 # the other\n")?;
            let run = site.on(0).arg(context.bin("mpiexec")).args(["-v", "-n", "4", "-f"]).arg(file);
            let config = format!("-F '{}'", site.file("config").display());
            let run = run.args(["--launcher-args", &config]).arg(context.compile(RING)?);
            let expected = right("4 ranks").says("on root@h1: ranks 0-1").says("on h2: ranks 2-3").says("root@h2");
            Ok((expected, run.finish()?))
        }),
        on(site, "a shell that prints before the agent answers, and a host that is slow", |context, site| {
            let noise = "ForceCommand echo welcome to this host; echo and mind the step >&2; sleep 1; \
                         exec sh -c \"$SSH_ORIGINAL_COMMAND\"";
            site.add(&Server { name: "noisy", configuration: noise, before: "" })?;
            let run = site.mpiexec(context, "h1,noisy", 4).arg(context.compile(RING)?);
            Ok((right("4 ranks").never_says("welcome"), run.finish()?))
        }),
        on(site, "output of 1 MB, and standard input", |context, site| {
            let program = "cat; i=0; while [ $i -lt 16384 ]; do echo \"$PMI_RANK: 64 bytes with the newline \
                           make one MB in 16384 lines\"; i=$((i+1)); done";
            let run = site.mpiexec(context, "h1,h2", 2).args(["sh", "-c", program]).input("warp and weft\n");
            let finished = run.finish()?;
            let lines = |rank: &str| finished.output.lines().filter(|line| line.starts_with(rank)).count();
            anyhow::ensure!((lines("0:"), lines("1:")) == (16384, 16384), "lines are missing:\n{}", finished.report());
            Ok((Expected::code(0).says("warp and weft"), finished))
        }),
        on(site, "the numbers of a rank, under all launchers' names", |context, site| {
            let all = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $OMPI_COMM_WORLD_RANK/\
                       $OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE \
                       $OMPI_COMM_WORLD_NODE_RANK $PMIX_RANK on $WEFT_WAY";
            let run = site.mpiexec(context, "h1:2,h2:1", 3).args(["-x", "WEFT_WAY=ssh", "sh", "-c", all]);
            let expected = Expected::code(0).says("0/3 0/2 0/3 0/2 0 0 on ssh").says("1/3 1/2 1/3 1/2 1 1 on ssh");
            Ok((expected.says("2/3 0/1 2/3 0/1 0 2 on ssh"), run.finish()?))
        }),
        on(site, "weft doctor", |context, site| {
            let agent = format!("ssh -o BatchMode=yes -F '{}' {{host}}", site.file("config").display());
            let run = site.on(0).arg(context.bin("weft")).args(["doctor", "--json", "--agent", &agent, "h1", "h2"]);
            Ok((Expected::code(0).says("\"h1\"").says("\"h2\"").never_says("host-unreachable"), run.finish()?))
        }),
        on(site, "weft tune", |context, site| {
            let options = ["tune", "-n", "2", "--operation", "bcast", "--sizes", "8", "--seconds", "0.01", "-o"];
            let run = site.on(0).arg(context.bin("weft")).args(options).arg(site.file("table")).arg("--");
            let config = format!("-F '{}'", site.file("config").display());
            let run = run.args(["--launcher-args", &config, "--hosts", "h1,h2"]);
            let finished = run.finish()?;
            anyhow::ensure!(site.file("table").exists(), "no table is written:\n{}", finished.report());
            Ok((Expected::code(0), finished))
        }),
        on(site, "weft compare", |context, site| {
            let file = site.file("compared.jsonl");
            let run = compare(context, site, "h1,h2").args(["--json", "-o"]).arg(&file);
            let finished = run.limit(60).finish()?;
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            anyhow::ensure!(text.contains("2-hosts-2-ranks-by-name"), "no run file:\n{}", finished.report());
            Ok((Expected::code(0).says("\"median\"").never_says("did not cross the wire"), finished))
        }),
        on(site, "weft compare, and a host that does not see the programs", |context, site| {
            let before = format!("mount -t tmpfs tmpfs '{}'", site.file("cache").display());
            std::fs::create_dir_all(site.file("cache"))?;
            site.add(&Server { name: "apart", configuration: "", before: &before })?;
            let expected = Expected::failure().says("the host apart does not see").says("XDG_CACHE_HOME");
            let run = compare(context, site, "h1,apart").arg("-o").arg(site.file("apart.jsonl"));
            Ok((expected, run.finish()?))
        }),
        on(site, "no room in /dev/shm and /tmp of one host", |context, site| {
            let before = "for place in /dev/shm /tmp; do mount -t tmpfs -o size=64k tmpfs $place; \
                          head -c 64k /dev/zero >$place/full || true; done";
            site.add(&Server { name: "stuffed", configuration: "", before })?;
            let run = site.mpiexec(context, "h1:2,stuffed:2", 4).arg(context.compile(RING)?);
            Ok((
                Expected::failure().says("rank 2 on stuffed").says("No space left").says("WEFT_SHM_DIR"),
                run.finish()?,
            ))
        }),
        on(site, "no room in /dev/shm of one host", |context, site| {
            let before = "mount -t tmpfs -o size=64k tmpfs /dev/shm; head -c 64k /dev/zero >/dev/shm/full || true";
            site.add(&Server { name: "full", configuration: "", before })?;
            let run = site.mpiexec(context, "h1:2,full:2", 4).arg(context.compile(RING)?);
            Ok((right("4 ranks").says("/dev/shm"), run.finish()?))
        }),
    ]
}

/// A host on which no agent answers. A command that hangs there ends with its standard input: no server ends
/// it for itself.
struct Broken {
    what: &'static str,
    /// The host's name.
    name: &'static str,
    configuration: &'static str,
    /// Commands that prepare the host. `$mpiexec` is the path of `mpiexec`, `$dir` the directory of the site.
    before: &'static str,
    says: [&'static str; 2],
}

fn unreached(site: &Rc<Lazy>) -> Vec<Case> {
    let table = [
        Broken {
            what: "it asks for a password",
            name: "password",
            configuration: "PubkeyAuthentication no\nPasswordAuthentication yes",
            before: "",
            says: ["Permission denied (password", "ssh-copy-id password"],
        },
        Broken {
            what: "it has no Weft",
            name: "bare",
            configuration: "",
            before: "mkdir -p \"$dir/empty\"; mount --bind \"$dir/empty\" \"${mpiexec%/*}\"",
            says: ["No such file or directory", "bin/mpiexec: install it at this path"],
        },
        Broken {
            what: "it has another Weft",
            name: "older",
            configuration: "",
            before: "printf '#!/bin/sh\\necho WEFT-AGENT 4 machine\\nexec cat >/dev/null\\n' >\"$dir/older\"; \
                     chmod +x \"$dir/older\"; mount --bind \"$dir/older\" \"$mpiexec\"",
            says: ["the host older cannot be used", "it speaks version 4"],
        },
        Broken {
            what: "it has processors of another kind",
            name: "foreign",
            configuration: "",
            // The machine of an ELF file is in its bytes 18 and 19; 183 is AArch64.
            before: "cp \"$mpiexec\" \"$dir/foreign\"; printf '\\267\\000' | dd of=\"$dir/foreign\" bs=1 seek=18 \
                     conv=notrunc 2>/dev/null; mount --bind \"$dir/foreign\" \"$mpiexec\"",
            says: ["xec format error", "is for another kind of processor"],
        },
        Broken {
            what: "it may not execute Weft",
            name: "forbidden",
            configuration: "",
            before: "cp \"$mpiexec\" \"$dir/forbidden\"; chmod 644 \"$dir/forbidden\"; \
                     mount --bind \"$dir/forbidden\" \"$mpiexec\"",
            says: ["ermission denied", "let users execute"],
        },
        Broken {
            what: "something else answers",
            name: "else",
            configuration: "ForceCommand yes welcome",
            before: "",
            says: ["the host else cannot be used", "something else than mpiexec answers there"],
        },
        Broken {
            what: "it hangs after the login",
            name: "hangs",
            configuration: "ForceCommand exec cat >/dev/null",
            before: "",
            says: ["did not answer within 3 s", "try `ssh hangs true`"],
        },
    ];
    let mut cases: Vec<Case> = table
        .into_iter()
        .map(|broken| {
            on(site, format!("a host is named: {}", broken.what), move |context, site| {
                let before = format!(
                    "mpiexec='{}'; dir='{}'; {}",
                    context.bin("mpiexec").display(),
                    site.directory.display(),
                    broken.before
                );
                site.add(&Server { name: broken.name, configuration: broken.configuration, before: &before })?;
                let [one, other] = broken.says;
                Ok((Expected::failure().says(broken.name).says(one).says(other), refused(context, site, broken.name)?))
            })
        })
        .collect();
    let named = |what: &str, name: &'static str, lines: &'static str, says: [&'static str; 2]| {
        on(site, format!("a host is named: {what}"), move |context, site| {
            if !lines.is_empty() {
                site.know(name, lines)?;
            }
            Ok((Expected::failure().says(name).says(says[0]).says(says[1]), refused(context, site, name)?))
        })
    };
    cases.push(named(
        "it refuses the connection",
        "closed",
        "HostName 198.18.0.3\nPort 2999",
        ["Connection refused", "no ssh server listens there"],
    ));
    cases.push(named(
        "its key is another one",
        "stranger",
        "HostName 198.18.0.3\nHostKeyAlias never-seen",
        ["Host key verification failed", "its key is not known here: `ssh stranger`"],
    ));
    cases.push(named("nobody knows it", "nowhere.invalid", "", ["Could not resolve hostname", "list of hosts"]));
    cases.push(on(site, "a host is named: its server is stopped", |context, site| {
        site.add(&Server { name: "stopped", configuration: "", before: "" })?;
        let config = site.file("sshd_config-stopped").display().to_string();
        // The server listens before its command says so.
        let find = || listeners().into_iter().find(|(_, command)| command.contains(&config));
        let Some((listener, _)) = until(END, find) else { anyhow::bail!("no server is found") };
        kill_process(listener, Signal::STOP)?;
        let finished = refused(context, site, "stopped");
        kill_process(listener, Signal::CONT)?;
        Ok((Expected::failure().says("the host stopped cannot be reached").says("within 3 s"), finished?))
    }));
    cases.push(on(site, "a question of ssh does not stop it, although there is a terminal", |context, site| {
        let configuration = "PubkeyAuthentication no\nPasswordAuthentication yes";
        site.add(&Server { name: "password", configuration, before: "" })?;
        let line = format!(
            "'{}' --launcher-args '-o BatchMode=no -F {}' --hosts h1,password -n 2 true",
            context.bin("mpiexec").display(),
            site.file("config").display()
        );
        let run = site.on(0).args(["script", "-qec", &line, "/dev/null"]).limit(END.as_secs());
        Ok((Expected::failure().says("Permission denied (password").says("ssh-copy-id password"), run.finish()?))
    }));
    cases.push(on(site, "two hosts that hang are both named", |context, site| {
        for name in ["hangs", "hangs-too"] {
            site.add(&Server { name, configuration: "ForceCommand exec cat >/dev/null", before: "" })?;
        }
        let expected = Expected::failure().says("the host hangs cannot be reached").says("nor did hangs-too answer");
        Ok((expected, refused(context, site, "hangs,hangs-too")?))
    }));
    cases
}

/// Runs a job on a host that will not do and two good ones. The first is the first whose time is over.
fn refused(context: &Context, site: &Site, name: &str) -> anyhow::Result<Finished> {
    let run = site.mpiexec(context, &format!("{name},h1,h2"), 6).args(["--agent-timeout", "3"]);
    run.arg(context.compile(BEHAVE)?).arg("hang").limit(END.as_secs()).finish()
}

/// The ssh servers of this machine.
fn listeners() -> Vec<(Pid, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some((Pid::from_raw(pid).filter(|_| command.contains("[listener]"))?, command))
    })
    .collect()
}

/// Jobs that end early: nothing is left on any host.
fn ended(site: &Rc<Lazy>) -> Vec<Case> {
    let hang = |context: &Context, site: &Site| -> anyhow::Result<Run> {
        Ok(site.mpiexec(context, "h1,h2,h3", 6).arg(context.compile(BEHAVE)?).arg("hang"))
    };
    let told = move |name: &str, signal: Signal, whole_group: bool, code: i32| {
        on(site, name, move |context, site| {
            let mut running = hang(context, site)?.start()?;
            anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
            match (signal, whole_group) {
                (Signal::KILL, _) => running.kill()?,
                (_, true) => kill_process_group(running.pid(), signal)?,
                (_, false) => kill_process(running.pid(), signal)?,
            }
            Ok((Expected::code(code), running.finish(END)?))
        })
    };
    vec![
        told("mpiexec is killed (SIGKILL)", Signal::KILL, false, 137),
        told("mpiexec is told to end (SIGTERM)", Signal::TERM, false, 143),
        told("the user types Ctrl-C", Signal::INT, true, 130),
        on(site, "a rank dies on one host", |context, site| {
            let run = site.mpiexec(context, "h1,h2,h3", 6).arg(context.compile(BEHAVE)?).args(["signal", "3", "11"]);
            Ok((Expected::code(139).says("rank 3 on h2").says("SIGSEGV"), run.finish()?))
        }),
        on(site, "the connection to one host is cut", move |context, site| {
            let finished = without(site, &hang(context, site)?, |command| command.contains("@notty"))?;
            Ok((Expected::failure().says("the agent on h"), finished))
        }),
        on(site, "all networks of a host are cut: with heartbeats it ends by itself, and the others go on", cut_off),
        on(site, "the agent of one host is killed", move |context, site| {
            let is_agent = |command: &str| command.contains("--weft-agent") && !command.starts_with("ssh ");
            let finished = without(site, &hang(context, site)?, is_agent)?;
            Ok((Expected::failure().says("the agent on h").says("ending the other 4 ranks"), finished))
        }),
    ]
}

/// Runs the example on two hosts of which the second is cut off in the middle, also from `mpiexec`. Its ranks
/// end while it is cut off, although nobody can tell them to.
fn cut_off(context: &Context, site: &Site) -> anyhow::Result<(Expected, Finished)> {
    let go = site.file("go");
    let _ = std::fs::remove_file(&go);
    let run = site.mpiexec(context, "h1,h2", 4).args(["--on-failure", "continue", "--heartbeat", "1"]);
    let run = run.arg(context.compile(SURVIVE)?).args(["--hold", &format!("500@{}", go.display())]);
    let running = run.start()?;
    for rank in 0..4 {
        let waits = format!("rank {rank} waits before step 500");
        anyhow::ensure!(running.says(&waits, READY), "no hold:\n{}", running.output());
    }
    let link = |state: &str| site.on(2).args(["ip", "link", "set", "e0", state]).finish();
    link("down")?;
    std::fs::write(&go, "")?;
    let is_ours = |command: &str| command.contains("--weft-agent") || command.contains("survive");
    let deadline = Instant::now() + END;
    while site.processes_on(2).iter().any(|(_, command)| is_ours(command)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = site.processes_on(2).into_iter().filter(|(_, command)| is_ours(command)).count();
    let finished = running.finish(END);
    link("up")?;
    anyhow::ensure!(left == 0, "{left} processes stay on the host that was cut off");
    let expected = Expected::code(1).says("2 ranks have computed 1000 steps: the result is right");
    Ok((expected.says("the others go on"), finished?))
}

/// Runs a job, and kills the first process on a host that is the one to kill.
fn without(site: &Site, run: &Run, is_it: impl Fn(&str) -> bool) -> anyhow::Result<Finished> {
    let running = run.start()?;
    anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
    let processes = site.processes();
    let found = processes.iter().find(|(_, command)| is_it(command)).and_then(|(pid, _)| Pid::from_raw(*pid));
    let Some(found) = found else { anyhow::bail!("it is not there: {processes:?}") };
    kill_process(found, Signal::KILL)?;
    running.finish(END)
}
