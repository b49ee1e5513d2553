//! Several jobs that come, meet, go and lose processes, in virtual time and from one seed.
//!
//! Each simulated process has a whole engine on the simulated network. Around the engine the process runs
//! the library's own code:
//!
//! - the rounds of a meeting: [`weft_plan::meeting`];
//! - contexts: [`weft_plan::contexts`];
//! - agreements: [`weft_plan::agreement`];
//! - the bytes of a contact: [`weft_core::meeting`];
//! - farewells: the engine.
//!
//! Ports, sockets, segments, the launcher and the program are simulated.
//!
//! A program is one list of acts. Each process does those in which it takes part, in the order of the list.
//! So nobody waits for ever unless something fails, and then only as long as Weft promises.
//!
//! | module | what it holds |
//! |---|---|
//! | `plan` | the program and what goes wrong, drawn from a seed |
//! | `world` | what the processes share: ports, contacts, segments, what has become of meetings |
//! | `process` | a process: its engine, its communicators, and the operations that wait |
//! | `meet` | how a process takes part in a meeting |
//! | `acts` | the other acts of a program |
//! | `play` | turns, deaths, and the checks |

mod acts;
mod meet;
mod plan;
mod play;
mod process;
mod world;

pub use play::Played;

/// Plays the program of a seed; with `trace` it prints what happens.
///
/// # Errors
/// The first promise that was broken.
pub fn play_seed(seed: u64, trace: bool) -> Result<Played, String> {
    play::play(&plan::draw(seed), trace)
}

/// Describes the program of a seed for people.
pub fn describe(seed: u64) -> String {
    plan::draw(seed).to_string()
}
