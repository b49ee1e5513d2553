//! Command lines of both families.

use super::*;

fn read(line: &str) -> Result<Request, String> {
    read_with(&[("HERE", "yes")], line)
}

fn read_with(variables: &[(&str, &str)], line: &str) -> Result<Request, String> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let words = words::split(line).expect("words");
    parse(words.into_iter().map(OsString::from).collect(), &variable)
}

fn settings(line: &str) -> Settings {
    match read(line) {
        Ok(Request::Run(settings)) => *settings,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str) -> String {
    read(line).expect_err(line)
}

#[test]
fn the_two_families_say_the_same() {
    let one = settings("-n 4 -ppn 2 -hosts a,b -l -genv K v ./prog -n x");
    let other = settings("--np 4 -N 2 --hosts=a,b --tag-output -x K=v ./prog -n x");
    for settings in [&one, &other] {
        assert_eq!(settings.blocks.len(), 1);
        assert_eq!(settings.blocks[0].count, Some(4));
        assert_eq!(settings.blocks[0].words, ["./prog", "-n", "x"]);
        assert_eq!(settings.blocks[0].environment.set, [("K".into(), "v".into())]);
        assert_eq!(settings.ranks_per_host, Some(2));
        assert_eq!(settings.hosts.len(), 2);
        assert!(settings.labels);
    }
}

#[test]
fn several_programs_have_options_of_their_own() {
    let line = "-genv A 1 -n 2 -env B 2 -wdir /tmp a x : -n 1 --host h:3 -envnone b : c";
    let settings = settings(line);
    let [a, b, c] = &settings.blocks[..] else { panic!("three programs") };
    assert_eq!(a.words, ["a", "x"]);
    assert_eq!(a.directory.as_deref(), Some(OsStr::new("/tmp")));
    assert_eq!(a.environment.set, [("A".into(), "1".into()), ("B".into(), "2".into())]);
    assert_eq!((b.count, b.directory.as_ref(), b.hosts.len()), (Some(1), None, 1));
    assert_eq!((&b.environment.base, &a.environment.base), (&Base::None, &Base::All));
    assert_eq!((c.count, c.environment.set.len()), (None, 1));
}

#[test]
fn the_environment_is_asked_for_in_many_ways() {
    let one = settings("-x HERE -x NOWHERE -genvlist P,Q -env X=1 a");
    assert_eq!(one.blocks[0].environment.set, [("HERE".into(), "yes".into()), ("X".into(), "1".into())]);
    assert_eq!(one.blocks[0].environment.base, Base::List(vec!["P".into(), "Q".into()]));
    assert!(matches!(&one.notes[..], [(Loudness::Everybody, note)] if note.contains("NOWHERE")));
    assert_eq!(settings("-iface eth1 a").blocks[0].environment.set, [("WEFT_INTERFACE".into(), "eth1".into())]);
}

#[test]
fn options_without_effect_are_noted() {
    let settings = settings("--mca btl self,tcp --rank-by core --allow-run-as-root -n 1 a");
    let loud: Vec<_> = settings.notes.iter().filter(|(loudness, _)| *loudness == Loudness::Everybody).collect();
    assert!(matches!(&loud[..], [(_, note)] if note.contains("--mca btl self,tcp")));
    assert_eq!(settings.notes.len(), 3);
}

#[test]
fn where_ranks_go_can_be_said() {
    assert_eq!(settings("--map-by node a").order, Order::ByHost);
    assert_eq!(settings("--map-by ppr:3:node a").ranks_per_host, Some(3));
    assert!(!settings("--map-by slot:nooversubscribe a").oversubscribe);
    assert_eq!(settings("-rr a").order, Order::ByHost);
    assert_eq!(settings("--stdin all a").input, InputTo::Everybody);
    assert_eq!(settings("--timeout 1.5 a").time_limit, Some(Duration::from_millis(1500)));
    assert_eq!(settings("--stats a").stats, Some(stats::Format::Text));
    assert_eq!(settings("--stats=json a").stats, Some(stats::Format::Json));
    assert_eq!(settings("--agent 'ip netns exec {host}' a").agent.as_deref(), Some("ip netns exec {host}"));
}

/// Reads every option by each of its names, with values that make sense. Expect: it is accepted and has an
/// effect, or is refused by its own sentence.
#[test]
fn every_option_is_read() {
    for entry in table::OPTIONS {
        let values = match (entry.takes, entry.action) {
            (Takes::Nothing | Takes::Maybe, _) => "",
            (Takes::Two, _) => "a b",
            (Takes::Pair, _) => "A=b",
            (Takes::One, Action::ConfigFile) => "/no/such/file",
            (Takes::One, Action::Global(Global::HostFile)) => "/dev/null",
            (Takes::One, Action::Global(Global::HostScript)) => "true",
            (Takes::One, Action::Global(Global::BindTo)) => "core",
            (Takes::One, Action::Global(Global::Launcher)) => "ssh",
            (Takes::One, Action::Global(Global::Output)) => "tag",
            (Takes::One, Action::Global(Global::OnFailure)) => "continue",
            (Takes::One, Action::Local(Local::Architecture)) => std::env::consts::ARCH,
            (Takes::One, _) => "1",
        };
        for name in entry.names {
            let program = if entry.action == Action::ConfigFile { "" } else { "a" };
            let line = format!("{name} {values} {program}");
            match (entry.action, read(&line)) {
                (Action::Help, Ok(Request::Help)) | (Action::Version, Ok(Request::Version)) => {}
                (Action::ConfigFile, Err(why)) => assert!(why.contains("cannot be read"), "{why}"),
                (Action::Global(Global::HostFile | Global::HostScript), Err(why)) => {
                    assert!(why.contains("names no host"), "{why}")
                }
                (Action::Instead, Err(why)) => assert!(why.contains(name) && why.ends_with(entry.text), "{why}"),
                (Action::Ignored(loudness), Ok(Request::Run(settings))) => {
                    let noted =
                        matches!(&settings.notes[..], [(loud, note)] if *loud == loudness && note.contains(name));
                    assert!(noted, "{:?}", settings.notes);
                }
                (Action::Global(_) | Action::Local(_), Ok(Request::Run(settings))) => {
                    assert_eq!(settings.blocks[0].words, ["a"], "{line}");
                }
                (_, other) => panic!("{line}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_file_names_programs() {
    let file = std::env::temp_dir().join(format!("weft-programs-{}", std::process::id()));
    std::fs::write(&file, "# two\n-n 2 ./a 'x y' :\n\n-n 1 -env B 2 \\\n  ./b\n").expect("a temporary file");
    let name = file.to_str().expect("text");
    let read_file = settings(&format!("-l -configfile {name}"));
    assert!(read_file.labels);
    let [a, b] = &read_file.blocks[..] else { panic!("two programs") };
    assert_eq!((a.count, &a.words[..]), (Some(2), &["./a".into(), OsString::from("x y")][..]));
    assert_eq!((b.count, &b.words[..], b.environment.set.len()), (Some(1), &[OsString::from("./b")][..], 1));
    assert!(refused(&format!("--app {name} ./c")).contains("must come last"));
    std::fs::write(&file, format!("-configfile {name}\n")).expect("a temporary file");
    assert!(refused(&format!("-configfile {name}")).contains("may not name another one"));
    std::fs::write(&file, "# nothing\n").expect("a temporary file");
    assert!(refused(&format!("-configfile {name}")).contains("names no program"));
    let _ = std::fs::remove_file(&file);
}

#[test]
fn numbers_of_ranks_may_be_soft() {
    for (line, count) in [
        ("-n 7 -soft 2:8:2", 6),
        ("-soft 1,4 -n 4", 4),
        ("-soft 1,4 -n 3", 1),
        ("-soft 3:5", 5),
        ("-n 6 -soft 9:1:-4", 5),
        ("-n 4 -soft 9:1:-2,2", 3),
    ] {
        assert_eq!(settings(&format!("{line} a")).blocks[0].count, Some(count), "{line}");
    }
    for line in ["-n 2 -soft 3:5 a", "-soft 1:2:0 a", "-soft x a", "-soft 1:2:3:4 a"] {
        assert!(refused(line).contains("-soft"), "{line}");
    }
}

#[test]
fn what_other_launchers_say_is_understood() {
    assert_eq!(settings("--pernode a").ranks_per_host, Some(1));
    assert_eq!(settings("--prefix /opt/weft/ a").agent_program.as_deref(), Some("/opt/weft/bin/mpiexec"));
    let template = |line: &str| settings(line).remote_shell.template();
    assert_eq!(template("-launcher rsh a"), "rsh {host}");
    assert_eq!(template("-bootstrap ssh a"), reach::TEMPLATE);
    assert_eq!(template("-bootstrap slurm a"), reach::SLURM_TEMPLATE);
    assert_eq!(settings("-bootstrap fork a").remote_shell, reach::RemoteShell::default());
    assert_eq!(template("-bootstrap-exec /usr/bin/ssh a"), "'/usr/bin/ssh' -o BatchMode=yes {host}");
    assert_eq!(template("--launcher-args '-F c -p 22' a"), "ssh -o BatchMode=yes -F c -p 22 {host}");
    assert_eq!(settings("-path /a:/b a").blocks[0].search_path.as_deref(), Some(OsStr::new("/a:/b")));
    let shown = settings("--display map,bind a");
    assert!(shown.print_rank_map && shown.binding.report);
    let output = settings("--output tag,merge a");
    assert!(output.labels && output.merge);
    assert!(settings("-disable-auto-cleanup a").keep_others);
    assert!(settings("--on-failure continue a").keep_others);
    assert!(!settings("--enable-recovery --on-failure end a").keep_others);
}

/// Expect: variables of other launchers count where no option says the same, and a note says where each came
/// from.
#[test]
fn variables_of_other_launchers_count_after_options() {
    let file = std::env::temp_dir().join(format!("weft-borrowed-{}", std::process::id()));
    std::fs::write(&file, "pi-worker-0.pi.default.svc slots=2\npi-worker-1.pi.default.svc\n").expect("a file");
    let path = file.to_str().expect("text");
    let variables = [
        ("OMPI_MCA_orte_default_hostfile", path),
        ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
        ("OMPI_MCA_orte_set_default_slots", "3"),
        ("I_MPI_PERHOST", "4"),
        ("HYDRA_IFACE", "eth5"),
    ];
    let with = |line: &str| match read_with(&variables, line) {
        Ok(Request::Run(settings)) => settings,
        other => panic!("{line}: {other:?}"),
    };
    let all = with("./a");
    let hosts: Vec<_> = all.hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect();
    assert_eq!(hosts, [("pi-worker-0.pi.default.svc", Some(2)), ("pi-worker-1.pi.default.svc", Some(3))]);
    assert_eq!(all.remote_shell.template(), "ssh -o BatchMode=yes -o ConnectionAttempts=10 {host}");
    assert_eq!((all.ranks_per_host, all.notes.len()), (Some(4), 5));
    assert_eq!(all.blocks[0].environment.set, [("WEFT_INTERFACE".into(), "eth5".into())]);
    let own = with("--hosts x -ppn 1 --launcher-args -4 -iface eth0 ./a");
    assert_eq!((own.hosts.len(), own.ranks_per_host), (1, Some(1)));
    assert_eq!(own.remote_shell.template(), "ssh -o BatchMode=yes -4 {host}");
    assert_eq!(own.blocks[0].environment.set, [("WEFT_INTERFACE".into(), "eth0".into())]);
    let _ = std::fs::remove_file(&file);
    let gone = read_with(&[("HYDRA_HOST_FILE", path)], "./a").expect_err("no file");
    assert!(gone.contains("HYDRA_HOST_FILE") && gone.contains(path), "{gone}");
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    for (line, part) in [
        ("", "no program"),
        ("-n 2", "no program"),
        ("-n 0 a", "between 1 and"),
        ("-n x a", "`x`"),
        ("-n", "needs a value"),
        ("a : : b", "before `:`"),
        ("a : -n 2", "after the last `:`"),
        ("--timeout soon a", "`soon`"),
        ("--hosts a,-b c", "`-b` is no host name"),
        ("--hostfile /no/such/file a", "/no/such/file"),
        ("--agent '\"x' a", "quote"),
        ("--stats=xml a", "xml"),
        ("--labels=1 a", "not known"),
        ("-l=1 a", "takes no value"),
        ("--stdin some a", "`some`"),
        ("--launcher-args '\"x' a", "double quote"),
        ("--host-discovery-script /no/such/script a", "/no/such/script"),
        ("-arch mips a", "hosts have processors like"),
        ("-launcher lsf a", "--agent"),
        ("--output dir=x a", "tag or merge"),
        ("--output-filename x a", "sh -c"),
        ("--rankfile x a", "--hosts"),
        ("-gdb a", "weft attach"),
    ] {
        let text = refused(line);
        assert!(text.contains(part), "{line}: {text}");
    }
    assert!(matches!(read("--help"), Ok(Request::Help)));
    assert!(matches!(read("-n 2 --version a"), Ok(Request::Version)));
    assert!(matches!(read("--weft-agent"), Ok(Request::Agent)));
}
