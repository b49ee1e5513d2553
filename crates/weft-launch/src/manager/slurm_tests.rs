//! A step whose tasks are threads, with credentials that everybody can read.

use super::*;
use crate::manager::tests::keeps_its_promises;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Instant;

/// The limit for all tasks to come, in tests where all come.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

/// The tasks of a step of this size on one node, with a port that is free.
fn steps(size: u32) -> Vec<Step> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let step = |rank| Step {
        name: "12.0".into(),
        rank,
        size,
        neighbours: Some((0..size).collect()),
        first_node: "n0".into(),
        node: 0,
        local: rank,
        one_node: true,
        launcher: None,
        ports: vec![free.as_ref().expect("a port").port()],
    };
    (0..size).map(step).collect()
}

/// The manager of a task. The credential is the content itself.
fn join(step: &Step, limit: Duration) -> Result<Slurm, LaunchError> {
    let ending = Ending::default();
    let near = match step.local {
        0 => {
            let secret = JobSecret::new([7; 16]);
            let credential = greeting::content(&step.name, &secret);
            let listener = server::listen(step)?;
            server::start(step, listener, (secret, credential), limit, ending.clone()).expect("a thread")
        }
        _ => client::connect(step, &|content| Ok((content.to_owned(), sys::user())), limit, ending.clone())?,
    };
    Slurm::meet(near, step, ending)
}

/// Runs `rank` for each task in its own thread.
fn in_a_step(steps: Vec<Step>, limit: Duration, rank: fn(&mut Slurm)) {
    let threads = steps.into_iter().map(|step| thread::spawn(move || rank(&mut join(&step, limit).expect("a step"))));
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("the promises are kept");
    }
}

#[test]
fn tasks_keep_the_promises_of_a_process_manager() {
    in_a_step(steps(2), LONG, |manager| {
        keeps_its_promises(manager);
        assert!(manager.can_come_back() && manager.observer().is_none() && manager.names().is_some());
        assert_eq!(
            (manager.secret(), manager.appnum(), manager.universe_size()),
            (Some(JobSecret::new([7; 16])), Some(0), Some(2))
        );
        manager.come_back().expect("it still listens");
        // Larger than a frame, and than what a socket holds.
        let card = |rank: u32| format!("{rank}").repeat(16_000);
        for _ in 0..20 {
            assert_eq!(manager.exchange(&card(manager.rank())).expect("all are here"), [card(0), card(1)]);
        }
        manager.fence().expect("all are here");
    });
}

#[test]
fn a_task_that_ends_is_missed_by_those_that_wait() {
    in_a_step(steps(3), LONG, |manager| {
        manager.fence().expect("all are here");
        if manager.rank() == 1 {
            return;
        }
        let error = manager.exchange("a card").expect_err("rank 1 has ended");
        assert!(error.to_string().contains("rank 1 of 3 has ended"), "{error}");
        assert_eq!(manager.fence(), Err(error), "it stays so");
        assert!(!manager.can_come_back());
        manager.finalize().expect("nobody needs the goodbye");
    });
}

#[test]
fn a_first_task_that_ends_is_said() {
    in_a_step(steps(2), LONG, |manager| {
        manager.fence().expect("all are here");
        if manager.rank() == 0 {
            // The thread of the service is in this process: only its task goes.
            manager.near.shutdown(std::net::Shutdown::Both).expect("open");
            return;
        }
        let error = manager.fence().expect_err("rank 0 has ended");
        assert!(error.to_string().contains("rank 0 of 2 has ended"), "{error}");
    });
}

#[test]
fn a_task_that_never_comes_is_named() {
    let mut steps = steps(3);
    steps.truncate(1);
    in_a_step(steps, SHORT, |manager| {
        let error = manager.fence().expect_err("two tasks are missing");
        assert!(error.to_string().contains("the ranks 1-2 have not called MPI_Init"), "{error}");
    });
}

#[test]
fn a_first_task_that_never_comes_is_said_with_what_to_do() {
    let error = join(&steps(2)[1], SHORT).expect_err("nobody listens").to_string();
    assert!(error.contains("the first task of step 12.0") && error.contains("--mpi=pmi2"), "{error}");
}

#[test]
fn ports_that_others_have_are_left_out() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    // Whoever connects there is never answered, or by another program.
    let other = taken.try_clone().expect("a descriptor");
    thread::spawn(move || {
        for mut stream in other.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
        }
    });
    let mut steps = steps(2);
    for step in &mut steps {
        step.ports.insert(0, taken.local_addr().expect("bound").port());
    }
    in_a_step(steps, LONG, |manager| manager.fence().expect("they meet at the next port"));
}

#[test]
fn without_a_free_port_the_first_task_says_so() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let mut step = steps(2).remove(0);
    step.ports = vec![taken.local_addr().expect("bound").port()];
    let error = join(&step, LONG).expect_err("no port").to_string();
    assert!(error.contains(&step.ports[0].to_string()) && error.contains("--mpi=pmi2"), "{error}");
}

#[test]
fn strangers_cannot_take_part_and_do_no_harm() {
    let steps = steps(2);
    let address = (Ipv4Addr::LOCALHOST, steps[0].ports[0]);
    let first = steps[0].clone();
    let task = thread::spawn(move || {
        let mut manager = join(&first, LONG).expect("a port");
        manager.fence().expect("the other task comes");
        manager.size()
    });
    let deadline = Instant::now() + LONG;
    let connect = || loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    let hello = greeting::hello("12.0", 1, &[1; 16]);
    let wrong = |stream: &mut TcpStream| {
        // A proof with another secret.
        let mut sealed = sealed::Sealed::new(&JobSecret::new([9; 16]), sealed::Side::Task, &[1; 16], &[2; 16]);
        let mut bytes = hello.clone().into_bytes();
        sealed.seal(sealed::Kind::Proof, b"", &mut bytes);
        let _ = stream.write_all(&bytes);
    };
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], greeting::hello("12.0", 2, &[1; 16]).as_bytes()] {
        let mut stream = connect();
        let _ = stream.write_all(words);
        let mut said = Vec::new();
        // The service ends the connection.
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty(), "{words:?}");
    }
    let mut stream = connect();
    wrong(&mut stream);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    // One line: the challenge and the credential, which only the user can read; and nothing behind it.
    assert_eq!(said.iter().filter(|&&byte| byte == b'\n').count(), 1);
    assert_eq!(said.last(), Some(&b'\n'));
    // Silent ones stay a while, and the true task is admitted beside them.
    let silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    join(&steps[1], LONG).expect("a step").fence().expect("all are here");
    assert_eq!(task.join().expect("no panic"), 2);
    drop(silent);
}

#[test]
fn a_server_that_is_of_another_user_or_step_is_passed_by() {
    let steps = steps(2);
    let first = steps[0].clone();
    thread::spawn(move || join(&first, LONG).expect("a port").fence());
    for decode in [
        (|content: &str| Ok((content.to_owned(), sys::user() + 1))) as fn(&str) -> Result<(String, u32), MungeError>,
        |content| Ok((content.replace("12.0", "13.0"), sys::user())),
        |_| Err(MungeError::Refused("unauthorized credential".into())),
        // Whoever repeats a recorded credential does not know its secret.
        |content| Ok((content.replace("07", "09"), sys::user())),
    ] {
        let error = client::connect(&steps[1], &decode, SHORT, Ending::default()).expect_err("a stranger");
        assert!(error.to_string().contains("was not found"), "{error}");
    }
    let absent = client::connect(&steps[1], &|_| Err(MungeError::Absent("no daemon".into())), LONG, Ending::default());
    let error = absent.expect_err("no MUNGE").to_string();
    assert!(error.contains("MUNGE") && error.contains("no daemon") && error.contains("--mpi=pmi2"), "{error}");
}

#[test]
fn the_socket_of_munge_is_the_one_that_slurm_uses() {
    for (text, expected) in [
        ("", None),
        ("AuthType=auth/munge\n", None),
        ("AuthInfo=socket=/run/m.socket\n", Some("/run/m.socket")),
        ("# AuthInfo=socket=/no\n authinfo = \"ttl=3,socket=/run/a\" # why\n", Some("/run/a")),
        ("AuthInfo=ttl=300\n", None),
    ] {
        assert_eq!(socket_in(text).as_deref(), expected, "{text:?}");
    }
}
