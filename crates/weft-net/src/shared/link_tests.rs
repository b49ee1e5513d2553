use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

const LIMIT: Duration = Duration::from_secs(20);

fn key(name: &str) -> String {
    format!("link-{name}-{}", std::process::id())
}

/// Two links that have joined one segment.
fn joined(name: &str) -> [(SharedLink, u32); 2] {
    let key = key(name);
    [0, 1].map(|own| {
        let link = SharedLink::open().expect("a link");
        let segment = link.join(&key, own, 2, None).expect("a segment");
        (link, segment)
    })
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

fn received(link: &mut SharedLink) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    link.receive(&mut |arrival| all.extend(arrival.packets().map(<[u8]>::to_vec)), 64);
    all
}

fn files(name: &str) -> usize {
    let key = key(name);
    let directories = super::super::directories(&Settings::default());
    let names = directories.iter().flat_map(|directory| std::fs::read_dir(directory).into_iter().flatten());
    names.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(&key)).count()
}

#[test]
fn a_segment_has_no_name_once_both_are_there_and_goes_with_its_last_process() {
    let [(mut near, segment), (far, _)] = joined("name");
    assert_eq!(files("name"), 0);
    let to = near.reach(segment, 1, own_pid());
    assert!(matches!(near.send(&to, b"one"), Ok(Outcome::Sent)));
    near.let_go(&to);
    assert!(near.lock().segments.is_empty());
    assert!(near.send(&to, b"two").is_err(), "it has been let go");
    // What has been sent is there all the same.
    let mut far = far;
    assert_eq!(received(&mut far), [b"one"]);
    // A segment that reaches nobody goes, too.
    far.leave_unused(0);
    assert!(far.lock().segments.is_empty());
}

#[test]
fn many_segments_have_one_doorbell_and_are_looked_at_in_turns() {
    let mut hub = SharedLink::open().expect("a link");
    let mut others: Vec<(SharedLink, Address)> = (0..5)
        .map(|number| {
            let key = key(&format!("hub-{number}"));
            let segment = hub.join(&key, 0, 2, None).expect("a segment");
            let link = SharedLink::open().expect("a link");
            let there = link.join(&key, 1, 2, None).expect("a segment");
            hub.reach(segment, 1, own_pid());
            let to = link.reach(there, 0, own_pid());
            (link, to)
        })
        .collect();
    for round in 0..100_u8 {
        assert!(hub.prepare_sleep());
        for (number, (link, to)) in (0..).zip(&mut others) {
            assert!(matches!(link.send(to, &[round, number]), Ok(Outcome::Sent)));
        }
        assert!(!hub.prepare_sleep());
        let mut all = received(&mut hub);
        all.sort();
        assert_eq!(all, (0..5).map(|number| vec![round, number]).collect::<Vec<_>>());
    }
}

#[test]
fn a_process_that_has_ended_is_told_once_after_its_last_packet() {
    let [(mut near, segment), (mut far, there)] = joined("ended");
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("a process");
    let to = near.reach(segment, 1, child.id() as i32);
    let back = far.reach(there, 0, own_pid());
    assert!(near.prepare_sleep());
    assert_eq!(near.take_broken(), None);
    assert!(matches!(far.send(&back, b"last words"), Ok(Outcome::Sent)));
    child.kill().and_then(|()| child.wait()).expect("it ends");
    // Whoever sleeps is woken.
    let descriptor = near.attributes().descriptor.expect("a descriptor");
    let ready = crate::wait::wait(&[(descriptor, crate::wait::Interest::Read)], None).expect("no error");
    assert!(!ready.is_empty());
    assert_eq!(received(&mut near), [b"last words"]);
    let began = Instant::now();
    loop {
        assert!(received(&mut near).is_empty() && began.elapsed() < LIMIT);
        if let Some(broken) = near.take_broken() {
            assert_eq!(broken, to);
            break;
        }
    }
    (0..2 * LOOKS_PER_QUESTION).for_each(|_| assert!(received(&mut near).is_empty()));
    assert_eq!(near.take_broken(), None);
    // A process that has ended before it is reached is told as well.
    let [(mut near, segment), _] = joined("ended-before");
    let to = near.reach(segment, 1, child.id() as i32);
    assert!(!near.prepare_sleep() && received(&mut near).is_empty());
    assert_eq!(near.take_broken(), Some(to));
}
