//! `include/mpi.h`.

use super::spec::Spec;
use anyhow::Result;

pub(super) fn header(_spec: &Spec) -> Result<String> {
    Ok(format!("/* {} from spec/; do not edit. */\n", super::MARKER))
}
