//! Whole jobs in virtual time: engines (`weft-engine`) on simulated carriers, programs drawn from a seed, and
//! oracles for what comes of them.
//!
//! | module | what it holds |
//! |---|---|
//! | `program`, `draw`, `shrink` | what each thread calls; by chance; made smaller |
//! | `moments`, `platform`, `node`, `network` | clock and turns; the carriers: frames and posted receives of a node, packets |
//! | `machine`, `construct` | what a job runs on; how engines are put together |
//! | `process` | threads that call, wait and sleep; each call; what must hold always and at the end |
//! | `collectives`, `windows` | what they do, and an oracle of what may come of it |
//! | `shape`, `wild` | what must be where; who may have got what |
//! | `play` | turns, until everything is over |

mod collectives;
mod construct;
mod draw;
mod machine;
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

/// Plays the program of a seed; with `trace` it says what happens.
///
/// # Errors
/// What does not hold.
pub fn play_seed(seed: u64, draw_options: DrawOptions, trace: bool) -> Result<Played, String> {
    play::play(&draw::program(seed, draw_options), trace)
}

/// What runs, on what, and what goes wrong, for people.
pub fn describe(seed: u64, draw_options: DrawOptions) -> String {
    text(&draw::program(seed, draw_options))
}

/// The smallest program that still fails like that of a seed, and why; none if that does not fail.
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
