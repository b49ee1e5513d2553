//! The example of a carrier (docs/carriers.md) keeps its promises: all messages arrive, whatever is lost.

#[path = "../examples/memory_carrier/main.rs"]
#[allow(dead_code, reason = "its main is for people")]
mod memory_carrier;

use std::sync::Arc;

use memory_carrier::carrier::MemoryCarrier;
use memory_carrier::{address, run};
use weft_carrier_test::{Kit, Pair, check};

#[test]
fn where_nothing_is_lost_large_messages_are_written_to_memory() {
    for (counters, writes) in run(0, 1) {
        assert_eq!((counters.resent(), counters.duplicates), (0, 0));
        assert!(writes >= 3, "messages of 20 KB, 100 KB and 1 MB, and {writes} writes");
        assert!(counters.packets_sent < 100, "{} packets for the others", counters.packets_sent);
    }
}

#[test]
fn it_keeps_what_carriers_promise() {
    let never = |_, _| panic!("there is nothing to sleep on");
    for (loss_percent, promises) in [(0, 10), (10, 7)] {
        let pair = || {
            let wire = Arc::default();
            let [near, far] = [0, 1].map(|own| (MemoryCarrier::new(own, &wire, loss_percent, 1), address(own)));
            Pair::new(near, far)
        };
        let kit = Kit::new(pair, never);
        let kept = check(if loss_percent > 0 { kit.that_loses() } else { kit });
        assert_eq!(kept.len(), promises, "{kept:?}");
        assert!(kept.iter().any(|promise| promise.starts_with("what is sent to a group")), "{kept:?}");
    }
}

#[test]
fn it_is_short_enough_to_be_read() {
    assert!(include_str!("../examples/memory_carrier/carrier.rs").lines().count() <= 200);
}

#[test]
fn what_is_lost_is_sent_again_until_every_byte_is_there() {
    for seed in 0..4 {
        for (counters, writes) in run(10, seed) {
            assert_eq!(writes, 0, "who loses packets writes nothing");
            assert!(counters.resent() > 0, "one packet of ten was lost, of more than 700");
            assert_eq!((counters.forged, counters.malformed, counters.out_of_window), (0, 0, 0));
        }
    }
}

#[test]
fn one_seed_is_one_run() {
    let [once, again] = [run(30, 5), run(30, 5)].map(|ends| ends.map(|(one, _)| one.values()));
    assert_eq!(once, again);
    assert_ne!(once, run(30, 6).map(|(one, _)| one.values()));
}

#[test]
fn the_page_shows_lines_that_are_there_in_their_order() {
    let page = include_str!("../../../docs/carriers.md");
    let files =
        [include_str!("../examples/memory_carrier/carrier.rs"), include_str!("../examples/memory_carrier/main.rs")];
    let all = files.concat();
    let mut rest = &all[..];
    let table = page.split("## ").find(|part| part.starts_with("The example, line by line")).expect("the section");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let mut count = 0;
    for (shown, _) in rows {
        let at = rest.find(shown).unwrap_or_else(|| panic!("the example has no {shown:?} behind the lines before it"));
        rest = &rest[at + shown.len()..];
        count += 1;
    }
    assert!(count > 10, "{count} rows");
}
