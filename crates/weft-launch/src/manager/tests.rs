//! The promises of every process manager, tested with each: one list of promises for all.

use super::link::Link;
use super::pmi1::{Conversation, Pmi1};
use super::singleton::Singleton;
use super::weft::Weft;
use super::{Observer, ProcessManager};
use crate::agent::server::{Action, Server};
use crate::control::{Answer, Request};
use crate::service_names::ServiceNames;
use crate::{LaunchError, SpawnProgram, Spawned, foreign};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

/// Ranks of the job whose process manager is [`Server`].
const SIZE: u32 = 2;
/// No descriptor: the ranks of a test do not note their calls for each other.
const NO_DESCRIPTOR: i32 = -1;

/// Answers the ranks at the other ends of `streams` until all have gone.
fn serve(streams: Vec<UnixStream>) {
    let mut server = Server::new(&foreign::plan(), NO_DESCRIPTOR);
    let (said, heard) = mpsc::channel();
    for (local_rank, stream) in streams.iter().enumerate() {
        let (mut stream, said) = (stream.try_clone().expect("a descriptor"), said.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                said.send((local_rank, bytes[..count].to_vec())).expect("the server listens until all have gone");
            }
        });
    }
    drop(said);
    let mut names = ServiceNames::default();
    for (local_rank, bytes) in heard {
        server.handle_bytes(local_rank, &bytes);
        while let Some(action) = server.poll_action() {
            match action {
                Action::Reply { local_rank, bytes } => {
                    (&streams[local_rank]).write_all(&bytes).expect("the rank listens")
                }
                Action::Gathered { gathered, .. } => server.handle_gathered(gathered, |_| None),
                Action::Request { local_rank, request } => {
                    let answer = match request {
                        Request::Name(request) => names.serve(request),
                        Request::Spawn(spawn) => {
                            let outcomes = vec![Err("two\nlines".into()); spawn.processes()];
                            Answer::Spawned(Spawned { number: 3, outcomes })
                        }
                        Request::SpawnedEnd(number) => Answer::SpawnedEnd((number == 3).then(|| "it is over".into())),
                    };
                    server.handle_answer(local_rank, &answer);
                }
                Action::Stats { text } => assert_eq!(text, "0 1 udp 5 100 0\n"),
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }
}

/// Runs `rank` for each rank in its own thread, with a process manager that `meet` has made.
fn in_a_job<M: ProcessManager + 'static>(meet: fn(Conversation, u32, u32) -> Result<M, LaunchError>, rank: fn(&mut M)) {
    let pairs = (0..SIZE).map(|_| UnixStream::pair().expect("a socket pair"));
    let (near, far): (Vec<UnixStream>, Vec<UnixStream>) = pairs.unzip();
    let server = thread::spawn(move || serve(far));
    let ranks = near.into_iter().zip(0..).map(|(stream, number)| {
        thread::spawn(move || {
            let link = Link::over(File::from(OwnedFd::from(stream)));
            let (talk, is_weft) = Conversation::begin(link).expect("an answer");
            assert!(is_weft);
            rank(&mut meet(talk, number, SIZE).expect("a welcome"));
        })
    });
    for rank in ranks.collect::<Vec<_>>() {
        rank.join().expect("the promises are kept");
    }
    server.join().expect("every request is one of PMI-1.1");
}

/// Checks what every process manager promises to each rank.
pub(super) fn keeps_its_promises(manager: &mut dyn ProcessManager) {
    let (rank, size) = (manager.rank(), manager.size());
    assert!(rank < size && !manager.job_name().is_empty());
    assert_eq!(manager.local_ranks(), Some((0..size).collect()));
    // Cards of any length and content come back in the order of ranks, again and again.
    for length in [0, 1, 2000] {
        let card = |rank: u32| format!("card of {rank}; x=1,é%{}", "y".repeat(length));
        assert_eq!(manager.exchange(&card(rank)).expect("all are here"), (0..size).map(card).collect::<Vec<_>>());
    }
    // A value that was put before a fence is there after it, and nothing else.
    manager.put(&format!("key-{rank}"), &format!("a value = {rank}")).expect("short enough");
    manager.fence().expect("all are here");
    for other in 0..size {
        let value = manager.get(&format!("key-{other}")).expect("an answer");
        assert_eq!(value, Some(format!("a value = {other}")));
    }
    assert_eq!(manager.get("nobody-put-this"), Ok(None));
    if let Some(names) = manager.names() {
        let service = format!("service of {rank}");
        assert_eq!(names.look_up(&service), Ok(None));
        names.publish(&service, "a port").expect("a new name");
        assert!(matches!(names.publish(&service, "another"), Err(LaunchError::Refused { .. })));
        assert_eq!(names.look_up(&service), Ok(Some("a port".to_string())));
        names.unpublish(&service).expect("a name");
        assert_eq!(names.look_up(&service), Ok(None));
    }
    if let Some(secret) = manager.secret() {
        assert!(!format!("{manager:?}").contains(&secret.expose_hex()), "Debug shows the secret");
    }
    // Goodbye, and coming back where that is possible.
    manager.finalize().expect("it listens");
    assert_eq!(manager.come_back().is_ok(), manager.can_come_back());
    manager.finalize().expect("a goodbye may be repeated");
}

#[test]
fn a_singleton_keeps_the_promises_by_itself() {
    let [mut one, other] = [(); 2].map(|()| Singleton::new().expect("random numbers"));
    keeps_its_promises(&mut one);
    assert!(one.can_come_back() && one.observer().is_none() && one.secret().is_some());
    assert!(one.job_name() != other.job_name() && one.secret() != other.secret());
}

#[test]
fn ranks_keep_the_promises_with_pmi1_alone() {
    in_a_job(Pmi1::meet, |manager| {
        keeps_its_promises(manager);
        assert!(!manager.can_come_back() && manager.observer().is_none() && manager.secret().is_none());
        assert_eq!((manager.appnum(), manager.universe_size()), (Some(0), Some(2)));
        // A process that has said goodbye waits for nobody.
        manager.fence().expect("nothing to wait for");
        assert_eq!(manager.exchange("a card"), Err(LaunchError::Gone));
    });
}

#[test]
fn ranks_keep_the_promises_with_wefts_mpiexec() {
    in_a_job(Weft::meet, |manager| {
        keeps_its_promises(manager);
        assert!(manager.can_come_back() && manager.secret().is_some());
        assert_eq!((manager.appnum(), manager.universe_size()), (Some(0), Some(2)));
        manager.come_back().expect("it still listens");
        let observer: &mut dyn Observer = manager.observer().expect("mpiexec observes");
        assert!(observer.wants_stats());
        observer.name_calls(&["MPI_Send"]);
        observer.report_stats("0 1 udp 5 100 0\n").expect("it wants them");
        assert!(matches!(observer.report_stats(&"x".repeat(2 << 20)), Err(LaunchError::TooLong { .. })));
    });
}

#[test]
fn ranks_ask_for_a_spawn_and_hear_what_has_become_of_it() {
    in_a_job(Weft::meet, |manager| {
        let info = vec![("env".to_owned(), "A=1\nB=2".to_owned())];
        let program =
            || SpawnProgram { command: "a".into(), arguments: vec![" ".into()], processes: 2, info: info.clone() };
        let spawned = manager.spawn(&[program(), program()], "a port").expect("an answer");
        assert_eq!(spawned, Spawned { number: 3, outcomes: vec![Err("two\nlines".into()); 4] });
        assert_eq!(manager.spawned_end(3), Ok(Some("it is over".into())));
        assert_eq!((manager.spawned_end(4), manager.parent_port()), (Ok(None), Ok(None)));
    });
    in_a_job(Pmi1::meet, |manager| {
        let program = SpawnProgram { command: "a".into(), arguments: vec![], processes: 1, info: vec![] };
        assert!(matches!(manager.spawn(&[program], "a port"), Err(LaunchError::Refused { .. })));
        assert_eq!((manager.spawned_end(3), manager.parent_port()), (Ok(None), Ok(None)));
    });
}

/// What rank 1 of two says to a process manager, and what that answers.
type Dialect = &'static [(&'static str, &'static str)];

/// Flux's shell: the lines of flux-core's `libpmi/simple_server.c`.
const FLUX: Dialect = &[
    ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"),
    ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024"),
    ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0"),
    ("cmd=get_universe_size", "cmd=universe_size rc=0 size=2"),
    ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=ƒ2mLXNqMf"),
    ("cmd=get kvsname=ƒ2mLXNqMf key=PMI_process_mapping", "cmd=get_result rc=0 value=(vector,(0,1,2))"),
    ("cmd=put kvsname=ƒ2mLXNqMf key=weft-1-1-0 value=1:of%201", "cmd=put_result rc=0"),
    ("cmd=barrier_in", "cmd=barrier_out rc=0"),
    ("cmd=get kvsname=ƒ2mLXNqMf key=weft-1-0-0", "cmd=get_result rc=0 value=1:of%200"),
    ("cmd=get kvsname=ƒ2mLXNqMf key=nobody", "cmd=get_result rc=5"),
    ("cmd=publish_name service=s port=p", "cmd=publish_result rc=-1 msg=command not implemented"),
    ("cmd=finalize", "cmd=finalize_ack rc=0"),
];

/// Plays the process manager's part at the other end of `stream`, and checks the rank's.
fn play(mut stream: UnixStream, dialect: Dialect) {
    for (request, reply) in dialect {
        let mut said = Vec::new();
        while said.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a whole line");
            said.extend(byte);
        }
        assert_eq!(String::from_utf8_lossy(&said), format!("{request}\n"));
        stream.write_all(format!("{reply}\n").as_bytes()).expect("the rank listens");
    }
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0, "the rank says no more than is recorded");
}

#[test]
fn ranks_understand_the_dialect_of_flux() {
    let (near, far) = UnixStream::pair().expect("a socket pair");
    let server = thread::spawn(move || play(far, FLUX));
    let link = Link::over(File::from(OwnedFd::from(near)));
    let (talk, is_weft) = Conversation::begin(link).expect("an answer");
    assert!(!is_weft);
    let mut manager = Pmi1::meet(talk, 1, 2).expect("a welcome");
    assert_eq!((manager.appnum(), manager.universe_size()), (Some(0), Some(2)));
    assert_eq!(manager.local_ranks(), Some(vec![0, 1]));
    assert_eq!(manager.exchange("of 1"), Ok(vec!["of 0".to_string(), "of 1".to_string()]));
    assert_eq!(manager.get("nobody"), Ok(None));
    let names = manager.names().expect("it can be asked");
    let refused = LaunchError::Refused { request: "publish_name", reason: "command not implemented".to_string() };
    assert_eq!(names.publish("s", "p"), Err(refused));
    manager.finalize().expect("it listens");
    drop(manager);
    server.join().expect("the conversation is as recorded");
}
