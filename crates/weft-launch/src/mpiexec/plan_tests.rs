//! Tests of the places of ranks, given a command line.

use super::super::options::{self, Request};
use super::*;

fn job(line: &str) -> Result<Job, String> {
    let arguments = line.split(' ').map(OsString::from).collect();
    match options::parse(arguments, &|_| None) {
        Ok(Request::Run(settings)) => make(*settings),
        other => panic!("{line}: {other:?}"),
    }
}

/// Hosts with their ranks.
fn placed(line: &str) -> Vec<(String, Vec<u32>)> {
    let job = job(line).expect(line);
    let ranks = |share: &Share| share.plan.ranks.iter().map(|&(rank, _)| rank).collect();
    job.shares.iter().map(|share| (share.host.clone(), ranks(share))).collect()
}

fn on(host: &str, ranks: &[u32]) -> (String, Vec<u32>) {
    (host.to_string(), ranks.to_vec())
}

#[test]
fn without_hosts_everything_is_here() {
    let job = job("-n 3 a").expect("a job");
    assert_eq!((job.shares.len(), job.size), (1, 3));
    assert!(!job.shares[0].remote);
    assert_eq!(job.shares[0].plan.mapping, "(vector,(0,1,3))");
}

#[test]
fn ranks_go_to_hosts_in_blocks_or_in_turn() {
    assert_eq!(placed("--hosts x0,x1 -n 4 a"), [on("x0", &[0, 1]), on("x1", &[2, 3])]);
    assert_eq!(placed("--hosts x0,x1 --map-by node -n 3 a"), [on("x0", &[0, 2]), on("x1", &[1])]);
    assert_eq!(placed("--hosts x0,x1 -ppn 2 a"), [on("x0", &[0, 1]), on("x1", &[2, 3])]);
    assert_eq!(placed("--hosts x0:3,x1 -n 4 a"), [on("x0", &[0, 1, 2]), on("x1", &[3])]);
    assert_eq!(placed("--hosts x0,x1,x2 -n 1 a"), [on("x0", &[0])]);
}

#[test]
fn without_a_number_ranks_fill_the_hosts() {
    assert_eq!(placed("--hosts x0:2,x1 a"), [on("x0", &[0, 1]), on("x1", &[2])]);
    assert_eq!(placed("--hosts x0,x1 a"), [on("x0", &[0]), on("x1", &[1])]);
    assert_eq!(placed("--host x0:2,x1 a"), [on("x0", &[0, 1]), on("x1", &[2])]);
    assert_eq!(placed("--hosts x0:2,x1:3 --pernode a"), [on("x0", &[0]), on("x1", &[1])]);
    assert_eq!(placed("--host x0:2 a : --host x1 -n 3 b"), [on("x0", &[0, 1]), on("x1", &[2, 3, 4])]);
    assert_eq!(placed("--hosts x0:4,x1 a : b"), [on("x0", &[0, 1])]);
    assert_eq!(job("a").expect("a job").size, 1);
}

#[test]
fn the_interface_of_a_host_is_for_its_ranks() {
    let file = std::env::temp_dir().join(format!("weft-hosts-{}", std::process::id()));
    std::fs::write(&file, "x0 ifname=eth1\nx1\n").expect("a temporary file");
    let job = job(&format!("-iface eth9 -f {} a", file.display())).expect("a job");
    let _ = std::fs::remove_file(&file);
    let interface = |share: &Share| {
        let variables = &share.plan.programs[0].variables;
        let found = variables.iter().filter(|(name, _)| name == b"WEFT_INTERFACE");
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(job.shares.iter().map(interface).collect::<Vec<_>>(), [["eth1"], ["eth9"]]);
}

#[test]
fn programs_share_hosts_or_have_their_own() {
    assert_eq!(placed("--hosts x0:2,x1:2 -n 1 a : -n 3 b"), [on("x0", &[0, 1]), on("x1", &[2, 3])]);
    assert_eq!(placed("--host x0 -n 2 a : --host x1 -n 1 b"), [on("x0", &[0, 1]), on("x1", &[2])]);
    let job = job("-n 2 a : -n 1 b c").expect("a job");
    assert_eq!(job.shares[0].plan.ranks, [(0, 0), (1, 0), (2, 1)]);
    assert_eq!(job.shares[0].plan.programs[1].words, [b"b".to_vec(), b"c".to_vec()]);
}

#[test]
fn this_host_needs_no_agent_command_unless_one_is_given() {
    let remote = |line| job(line).expect("a job").shares.iter().map(|share| share.remote).collect::<Vec<_>>();
    assert_eq!(remote("--hosts localhost,x1 -n 2 a"), [false, true]);
    assert_eq!(remote("--hosts localhost,127.0.0.1 -n 2 a"), [false]);
    assert_eq!(remote("--agent env --hosts localhost,x1 -n 2 a"), [true, true]);
    assert_eq!(remote("--agent env -n 2 a"), [false]);
}

#[test]
fn too_much_is_refused() {
    assert!(job("--no-oversubscribe --hosts x0:1,x1:1 -n 3 a").is_err());
    assert!(job("--no-oversubscribe --hosts x0:1,x1:2 -n 3 a").is_ok());
    assert!(job("-n 65536 a : -n 1 b").is_err());
    assert!(job("--stdin 2 -n 2 a").is_err());
}

#[test]
fn directories_are_absolute() {
    assert_eq!(absolute(b"/here", None), b"/here");
    assert_eq!(absolute(b"/here", Some(b"/there".to_vec())), b"/there");
    assert_eq!(absolute(b"/here", Some(b"sub".to_vec())), b"/here/sub");
}
