//! Several jobs that meet, part, end and die, a fixed selection of seeds.

use weft_sim::job::meetings::{Played, play_seed};

#[test]
fn jobs_meet_and_part_whoever_dies_when() {
    let mut sum = Played::default();
    for seed in 0..400 {
        match play_seed(seed, false) {
            Ok(played) => sum.add(&played),
            Err(what) => panic!("{what}\nreplay: cargo run -p weft-sim -- jobs --seed {seed:#x} --trace"),
        }
    }
    // Everything has happened that can.
    assert!(sum.deaths > 200 && sum.met > 1000 && sum.failed > 300, "{sum}");
    assert!(sum.decisions > 1000 && sum.farewells > 1000 && sum.segments > 100, "{sum}");
}

#[test]
fn a_seed_plays_the_same_jobs_each_time() {
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| play_seed(seed, false));
        assert_eq!(format!("{first:?}"), format!("{second:?}"), "seed {seed}");
    }
}
