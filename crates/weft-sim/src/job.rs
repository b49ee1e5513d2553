//! Whole jobs in virtual time: engines (`weft-engine`) on simulated carriers, programs drawn from a seed, and
//! oracles for their results.
//!
//! | module | what it holds |
//! |---|---|
//! | `program`, `draw`, `shrink` | the calls of each thread; drawn by chance; made smaller |
//! | `moments`, `platform` | clock and turns |
//! | `node`, `network` | the carriers: frames and posted receives of a node, packets |
//! | `machine`, `construct` | the hardware of a job; how engines are put together |
//! | `process` | threads that call, wait and sleep; each call; checks during the run and at its end |
//! | `collectives`, `windows` | the operations, and an oracle of their possible results |
//! | `shape`, `wild` | where bytes must be; which receive may have which message |
//! | `play` | turns, until everything is over |

mod collectives;
mod construct;
mod draw;
mod machine;
pub mod meetings;
mod moments;
mod network;
mod node;
mod platform;
mod play;
mod process;
mod program;
mod shape;
mod shrink;
mod wild;
mod windows;

pub use draw::DrawOptions;
pub use play::Played;

/// Plays the program of a seed; with `trace` it prints each event.
///
/// # Errors
/// The first check that failed.
pub fn play_seed(seed: u64, draw_options: DrawOptions, trace: bool) -> Result<Played, String> {
    play::play(&draw::program(seed, draw_options), trace)
}

/// Describes the program of a seed for people: its calls, its machine and its nuisances.
pub fn describe(seed: u64, draw_options: DrawOptions) -> String {
    text(&draw::program(seed, draw_options))
}

/// The smallest program that still fails as the program of a seed does, and its failure. `None` if the
/// program of the seed does not fail.
pub fn shrink_seed(seed: u64, draw_options: DrawOptions) -> Option<String> {
    let program = draw::program(seed, draw_options);
    let first = play::play(&program, false).err()?;
    let (smallest, tries) = shrink::shrink(&program, &mut |candidate| play::play(candidate, false).is_err());
    let why = play::play(&smallest, true).err().unwrap_or_else(|| "it does not fail twice".into());
    Some(format!("{first}\nafter {tries} tries:\n{}\n{why}", text(&smallest)))
}

fn text(program: &program::Program) -> String {
    let program::Program { machine, pace, death, roles, .. } = program;
    let mut text = format!("{machine:?}\n{pace:?}\ndeath: {death:?}\n");
    for (number, role) in roles.iter().enumerate() {
        text += &format!("role {number}, {} operations, communicators {:?}\n", role.size(), role.comms);
        for block in &role.blocks {
            text += &format!("  {block:?}\n");
        }
    }
    text
}
