//! Collective accesses to a simulated file by chance, a fixed selection of seeds.

use weft_sim::files::{Played, play_seed};

/// The seeds that are played.
const ACCESSES: u64 = 3000;

/// Expect: no access does anything wrong, and the selection has accesses of every kind.
#[test]
fn accesses_to_files_by_chance_end_as_they_must() {
    let mut sum = Played::default();
    for seed in 0..ACCESSES {
        match play_seed(seed) {
            Ok(played) => sum.add(&played),
            Err(what) => panic!("{what}\nreplay: cargo run -p weft-sim -- file --seed {seed:#x}"),
        }
    }
    assert!(sum.together > ACCESSES / 4 && sum.alone > ACCESSES / 10, "{sum}");
    assert!(sum.rounds > 10 * sum.together && sum.messages > 10 * sum.together, "{sum}");
    assert!(sum.transfers > 10 * ACCESSES && sum.failed > ACCESSES / 20, "{sum}");
}

#[test]
fn a_seed_plays_the_same_access_each_time() {
    for seed in 0..50 {
        assert_eq!(play_seed(seed), play_seed(seed), "seed {seed}");
    }
}
