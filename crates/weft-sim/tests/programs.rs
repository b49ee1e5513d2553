//! Programs by chance on whole engines, a fixed selection of seeds.

use weft_sim::job::{DrawOptions, Played, play_seed};

/// Seeds of each of these tests; the tests run at the same time.
const PROGRAMS: u64 = 250;

fn play(seeds: std::ops::Range<u64>, ranks: Option<usize>) -> Played {
    let mut sum = Played::default();
    for seed in seeds {
        match play_seed(seed, DrawOptions { ranks }, false) {
            Ok(played) => sum.add(&played),
            Err(what) => {
                let ranks = ranks.map_or_else(String::new, |ranks| format!(" --ranks {ranks}"));
                panic!("{what}\nreplay: cargo run -p weft-sim -- program --seed {seed:#x}{ranks}");
            }
        }
    }
    sum
}

#[test]
fn programs_by_chance_end_as_they_must() {
    let sum = play(0..PROGRAMS, None);
    // Messages have taken every way that there is.
    assert!(sum.packets > sum.connected && sum.connected > 0, "{sum}");
    assert!(sum.placed > 0 && sum.anew > 0 && sum.long > 0, "{sum}");
    assert!(sum.frames > 0 && sum.copies > 0 && sum.written > 0, "{sum}");
}

#[test]
fn programs_of_two_processes_end_as_they_must() {
    play(0x10_000..0x10_000 + PROGRAMS, Some(2));
}

#[test]
fn programs_of_four_processes_end_as_they_must() {
    play(0x20_000..0x20_000 + PROGRAMS, Some(4));
}

/// Rare programs. In the first three, a thread that waited for room in a collective slot woke the sleeping
/// thread of its process all the time. In the next one, a FIN came after the program had freed the window of
/// the message. In the fifth, a window was closed behind a batch of operations whose sender had died. In the
/// sixth, a message is relocated. In the seventh, an eager write does not arrive, and comes out of its copy.
/// Then the connection of a long path stands still while a message waits for it. In the next one, the FIN of
/// an eager write is the last thing that comes. In the last one, a receiver copies a message of a window when
/// no process is in a call any more.
#[test]
fn rare_programs_that_have_failed_once_end_as_they_must() {
    for seed in [0xb96, 0xc4c, 0x40_0b51, 0x7_7ade, 0xb7_2f94, 0x97, 0x7_c173, 0x30_244e, 0x530_2701, 0xb00_08fd] {
        play(seed..seed + 1, None);
    }
}

#[test]
fn a_seed_plays_the_same_program_each_time() {
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| play_seed(seed, DrawOptions::default(), false));
        assert_eq!(format!("{first:?}"), format!("{second:?}"), "seed {seed}");
    }
}
