//! Hostile bytes: bytes that others might send, made from bytes that they do send.
//!
//! Each piece of code that reads foreign bytes is a [`Target`]: a function that must neither panic, nor hang,
//! nor keep more memory than its limits allow, for any input. `cargo test` gives each target some thousand
//! inputs made from its seeds by chance, always the same; `make fuzz` lets libFuzzer look for worse ones.
#![forbid(unsafe_code)]

mod multicast;
pub mod mutate;
mod network;
mod one_sided;
mod texts;

/// A function that reads foreign bytes.
pub struct Target {
    /// The target's name.
    pub name: &'static str,
    /// The function that reads.
    pub run: fn(&[u8]),
    /// Valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub fn targets() -> &'static [Target] {
    &[
        Target { name: "packet", run: network::packet, seeds: network::packet_seeds },
        Target { name: "flow", run: network::flow, seeds: network::flow_seeds },
        Target { name: "multicast", run: multicast::stream, seeds: multicast::stream_seeds },
        Target { name: "reach", run: network::reach, seeds: network::reach_seeds },
        Target { name: "messages", run: network::messages, seeds: network::messages_seeds },
        Target { name: "one-sided", run: one_sided::batch, seeds: one_sided::batch_seeds },
        Target { name: "tcp", run: weft_net::tcp::take_foreign_apart, seeds: weft_net::tcp::foreign_seeds },
        Target { name: "cards", run: texts::cards, seeds: texts::card_seeds },
        Target { name: "address-card", run: texts::address_card, seeds: texts::address_card_seeds },
        Target { name: "port", run: texts::port, seeds: texts::port_seeds },
        Target { name: "meeting", run: texts::meeting, seeds: texts::meeting_seeds },
        Target { name: "netd", run: texts::netd, seeds: texts::netd_seeds },
        Target { name: "settings", run: texts::settings, seeds: texts::settings_seeds },
        Target { name: "run-file", run: weft_bench::foreign::run_file, seeds: texts::run_file_seeds },
        Target { name: "control", run: weft_launch::foreign::control, seeds: weft_launch::foreign::control_seeds },
        Target { name: "pmi", run: weft_launch::foreign::pmi, seeds: texts::pmi_seeds },
        Target { name: "step", run: weft_launch::foreign::step, seeds: weft_launch::foreign::step_seeds },
        Target { name: "lines", run: weft_launch::foreign::lines, seeds: texts::line_seeds },
        Target { name: "texts", run: weft_launch::foreign::texts, seeds: texts::launcher_seeds },
    ]
}

/// Cuts bytes into pieces, each with its length in two bytes in front; the rest is the last piece.
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        bytes = rest;
        Some(piece)
    })
}

/// The inverse of [`pieces`].
fn join(pieces: &[Vec<u8>]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| [&(piece.len() as u16).to_le_bytes()[..], piece].concat()).collect()
}
