//! Every target survives its seeds, the inputs that once broke it, and some thousand inputs made from them,
//! always the same.

use std::path::Path;

use weft_fuzz::mutate::{Random, mutate};
use weft_fuzz::targets;

/// The number of inputs for each target; `WEFT_SCALE` multiplies it.
const INPUTS: u64 = 4000;
/// The number of times that an input is changed for the worse, again and again.
const GENERATIONS: u64 = 16;

#[test]
fn every_target_bears_what_is_made_of_its_seeds() {
    let scale = std::env::var("WEFT_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    for target in targets() {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        seeds.iter().for_each(|seed| (target.run)(seed));
        let mut input = Vec::new();
        for number in 0..INPUTS * scale {
            let mut random = Random::new(number);
            if number % GENERATIONS == 0 {
                input.clone_from(random.pick(&seeds));
            }
            let other = random.pick(&seeds).clone();
            mutate(&mut input, &other, &mut random);
            let outcome = std::panic::catch_unwind(|| (target.run)(&input));
            if outcome.is_err() {
                let path = std::env::temp_dir().join(format!("weft-fuzz-{}-{number}", target.name));
                std::fs::write(&path, &input).unwrap();
                let command = format!("cargo run -p weft-fuzz --bin targets run {} {}", target.name, path.display());
                panic!("{} breaks at input {number}; once more: {command}", target.name);
            }
        }
    }
}

#[test]
fn what_broke_a_target_once_does_not_break_it_again() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    for target in targets() {
        for entry in std::fs::read_dir(found.join(target.name)).into_iter().flatten() {
            let path = entry.unwrap().path();
            (target.run)(&std::fs::read(&path).unwrap());
        }
    }
}
