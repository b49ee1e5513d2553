//! The `weft` command.
#![forbid(unsafe_code)]
fn main() {}
