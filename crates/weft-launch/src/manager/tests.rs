//! The promises of every process manager, tested with each: one list of promises for all.

use super::link::Link;
use super::pmi1::{Conversation, Pmi1};
use super::singleton::Singleton;
use super::weft::Weft;
use super::{Observer, ProcessManager};
use crate::agent::server::{Action, Server};
use crate::service_names::ServiceNames;
use crate::{LaunchError, foreign};
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
                Action::Gathered { gathered, .. } => server.handle_gathered(gathered),
                Action::Name { local_rank, request } => {
                    let (command, answer) = names.serve(request);
                    server.handle_name(local_rank, command, &answer);
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
