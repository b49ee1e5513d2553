//! Ordered maps, sets and sorts that take little room in a library, whatever they hold.
//!
//! Rust compiles a container anew for each type in it. A `BTreeMap` with insertion and removal takes 7 KB for
//! each pair of types, and a sort 5 KB. Those of this crate take some hundred bytes, and are as quick where
//! Weft uses them: not in what each small message passes.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod map;
mod set;
mod sort;

pub use map::{Entry, Map, Range};
pub use set::Set;
pub use sort::{sort, sort_by, sort_by_key};
