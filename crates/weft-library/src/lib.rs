//! `libmpi_abi.so.1`: the shared library that the C boundary (`weft_abi`) becomes.
//!
//! It is a package of its own for its level of optimisation. Link-time optimisation goes over everything with
//! the level of the last package, so loops are only made for wide registers if that is 3. The boundary itself
//! is optimised for size (`Cargo.toml`).

#![forbid(unsafe_code)]

use weft_abi as _;
