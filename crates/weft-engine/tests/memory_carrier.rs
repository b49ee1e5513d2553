//! The example of a carrier (docs/carriers.md) does what it says: all messages arrive, whatever is lost.

#[path = "../examples/memory_carrier.rs"]
#[allow(dead_code, reason = "its main is for people")]
mod memory_carrier;

use memory_carrier::run;

#[test]
fn nothing_is_sent_again_where_nothing_is_lost() {
    for counters in run(0, 1) {
        assert_eq!((counters.resent(), counters.duplicates), (0, 0));
        assert!(counters.data_packets_sent > 700, "more than a million bytes in packets of 1500");
    }
}

#[test]
fn what_is_lost_is_sent_again_until_every_byte_is_there() {
    for seed in 0..4 {
        for counters in run(10, seed) {
            assert!(counters.resent() > 0, "one packet of ten was lost, of more than 700");
            assert_eq!((counters.forged, counters.malformed, counters.out_of_window), (0, 0, 0));
        }
    }
}

#[test]
fn one_seed_is_one_run() {
    let [once, again] = [run(30, 5), run(30, 5)].map(|counters| counters.map(|one| one.values()));
    assert_eq!(once, again);
    assert_ne!(once, run(30, 6).map(|one| one.values()));
}

#[test]
fn the_page_shows_lines_that_are_there_in_their_order() {
    let (page, mut rest) = (include_str!("../../../docs/carriers.md"), include_str!("../examples/memory_carrier.rs"));
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
