//! Tests of the processors that ranks get.

use super::*;
use crate::processors::registry_tests::TestRegistry;
use crate::processors::topology_tests::two_sockets;

fn binding(to: BindTo, by: MapBy, each: u32) -> Binding {
    Binding { to, by, each, report: false, machine_ranks: 0 }
}

fn sets(bindings: &Bindings) -> Vec<String> {
    bindings.ranks.iter().map(|rank| rank.set.as_ref().map_or("-".into(), Set::to_string)).collect()
}

fn loads(bindings: &Bindings) -> Vec<String> {
    bindings.ranks.iter().map(|rank| rank.load.to_string()).collect()
}

/// Two sockets of two cores with two threads: cores are 0,4 1,5 and 2,6 3,7.
fn on_two_sockets(registry: &TestRegistry, binding: &Binding, ranks: usize) -> Bindings {
    let topology = two_sockets(2);
    decide(binding, ranks, &Host { topology: &topology, usable: 8, registry: &registry.0 })
}

#[test]
fn ranks_are_dealt_to_cores_threads_sockets_and_nodes() {
    let registry = TestRegistry::new("deal");
    let dealt = |to, by, each, ranks| sets(&on_two_sockets(&registry, &binding(to, by, each), ranks));
    assert_eq!(dealt(BindTo::Core, MapBy::Slot, 1, 3), ["0,4", "1,5", "2,6"]);
    assert_eq!(dealt(BindTo::Core, MapBy::Socket, 1, 3), ["0,4", "2,6", "1,5"]);
    assert_eq!(dealt(BindTo::Core, MapBy::Numa, 1, 4), ["0,4", "2,6", "1,5", "3,7"]);
    assert_eq!(dealt(BindTo::Core, MapBy::Slot, 2, 2), ["0-1,4-5", "2-3,6-7"]);
    assert_eq!(dealt(BindTo::Core, MapBy::Socket, 2, 2), ["0-1,4-5", "2-3,6-7"]);
    assert_eq!(dealt(BindTo::Core, MapBy::Socket, 3, 1), ["0-2,4-6"]);
    assert_eq!(dealt(BindTo::Thread, MapBy::Slot, 1, 3), ["0", "4", "1"]);
    assert_eq!(dealt(BindTo::Socket, MapBy::Slot, 1, 3), ["0-1,4-5", "0-1,4-5", "2-3,6-7"]);
    assert_eq!(dealt(BindTo::Numa, MapBy::Numa, 1, 2), ["0-1,4-5", "2-3,6-7"]);
    assert_eq!(dealt(BindTo::None, MapBy::Slot, 1, 2), ["-", "-"]);
}

#[test]
fn two_jobs_never_get_the_same_processor() {
    let registry = TestRegistry::new("jobs");
    let core = binding(BindTo::Core, MapBy::Slot, 1);
    let first = on_two_sockets(&registry, &core, 2);
    let second = on_two_sockets(&registry, &core, 2);
    assert_eq!((sets(&first), sets(&second)), (vec!["0,4".into(), "1,5".into()], vec!["2,6".into(), "3,7".into()]));
    // No core is left. Expect: no rank is bound, and the note says so.
    let third = on_two_sockets(&registry, &core, 1);
    assert_eq!(sets(&third), ["-"]);
    let note = third.note.as_ref().expect("the user wanted it");
    assert_eq!(note, "ranks are not bound: other jobs have taken 4 of 4 cores, this one wants 1");
    assert!(third.ranks[0].words.contains("not bound (other jobs have taken 4 of 4 cores"), "{}", third.ranks[0].words);
    // Expect: ranks bound to sockets get what others have left of them.
    drop(first);
    let socket = on_two_sockets(&registry, &binding(BindTo::Socket, MapBy::Socket, 1), 2);
    assert_eq!(sets(&socket), ["0-1,4-5", "0-1,4-5"]);
    drop((second, third, socket));
    assert_eq!(sets(&on_two_sockets(&registry, &core, 4)), ["0,4", "1,5", "2,6", "3,7"]);
}

#[test]
fn all_ranks_of_a_host_are_bound_or_none() {
    let registry = TestRegistry::new("all");
    let core = binding(BindTo::Core, MapBy::Slot, 1);
    let many = on_two_sockets(&registry, &core, 5);
    assert_eq!(sets(&many), ["-"; 5]);
    assert!(many.note.expect("wanted").contains("5 cores are wanted on this machine, there are 4"));
    // Virtual hosts share the machine, so the ranks of the others count.
    let part = Binding { machine_ranks: 6, ..core };
    assert_eq!(sets(&on_two_sockets(&registry, &part, 3)), ["-"; 3]);
    let topology = two_sockets(2);
    let little = decide(&core, 3, &Host { topology: &topology, usable: 2, registry: &registry.0 });
    assert!(little.note.expect("wanted").contains("the time quota allows for 2 processors"));
}

#[test]
fn virtual_hosts_of_one_machine_share_its_processors() {
    let registry = TestRegistry::new("virtual");
    let core = Binding { machine_ranks: 4, ..binding(BindTo::Core, MapBy::Slot, 1) };
    let (first, second) = (on_two_sockets(&registry, &core, 2), on_two_sockets(&registry, &core, 2));
    assert_eq!((sets(&first), sets(&second)), (vec!["0,4".into(), "1,5".into()], vec!["2,6".into(), "3,7".into()]));
    assert_eq!(loads(&second), ["1/2", "1/2"]);
}

#[test]
fn the_load_counts_all_jobs() {
    let registry = TestRegistry::new("load");
    let none = binding(BindTo::None, MapBy::Slot, 1);
    let first = on_two_sockets(&registry, &none, 6);
    assert_eq!(loads(&first)[0], "6/8");
    let second = on_two_sockets(&registry, &none, 4);
    assert_eq!(loads(&second)[0], "10/8", "two jobs together are more than there are processors");
    drop(first);
    // Ranks that are not bound keep their processors; a bound rank chooses where the fewest ranks are.
    let bound = on_two_sockets(&registry, &binding(BindTo::Core, MapBy::Slot, 1), 1);
    assert_eq!((sets(&bound), loads(&bound)), (vec!["0,4".to_string()], vec!["2/2".to_string()]));
    // Ranks of virtual hosts whose agents have not looked yet count, too.
    drop((second, bound));
    let part = Binding { machine_ranks: 12, ..none };
    assert_eq!(loads(&on_two_sockets(&registry, &part, 3))[0], "12/8");
}

#[test]
fn a_bound_rank_says_where_it_is() {
    let registry = TestRegistry::new("words");
    let bound = on_two_sockets(&registry, &binding(BindTo::Core, MapBy::Slot, 1), 3);
    assert_eq!(bound.ranks[2].words, "bound to processors 2,6: 1 core, socket 1, memory node 1");
    let free = on_two_sockets(&registry, &binding(BindTo::None, MapBy::Slot, 1), 1);
    assert_eq!(free.ranks[0].words, "not bound, may run on processors 0-7");
    assert_eq!(free.note, None);
}
