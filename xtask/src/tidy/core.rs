//! Checks that weft-core builds without std.
//!
//! A toolchain for a bare target is not always installed, so the compiler at hand makes the proof. It builds
//! a small `no_std` program with its own allocator and its own panic handler, which depends on weft-core. If
//! weft-core, or a crate that it uses, pulls std in, then there are two panic handlers and the compiler
//! refuses the program.

use super::Findings;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = r#"[package]
name = "core-without-std"
version = "0.0.0"
edition = "2024"

[lib]
path = "lib.rs"
crate-type = ["staticlib"]

[dependencies]
weft-core = { path = "CORE" }

[profile.dev]
panic = "abort"

[workspace]
"#;

const PROGRAM: &str = r#"#![no_std]
extern crate alloc;
extern crate weft_core;

use core::alloc::{GlobalAlloc, Layout};

struct Nothing;

unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
    let directory = target.join("core-without-std");
    std::fs::create_dir_all(&directory)?;
    let core = root.join("crates/weft-core").canonicalize()?;
    let core = core.to_str().context("the project's path is not text")?;
    write(&directory.join("Cargo.toml"), &MANIFEST.replace("CORE", core))?;
    write(&directory.join("lib.rs"), PROGRAM)?;
    // The lock file gives the same versions as in the workspace. Cargo drops the entries that are not needed,
    // and downloads crates that a new machine does not have yet.
    std::fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["check", "--quiet"]).current_dir(&directory);
    command.env("CARGO_TARGET_DIR", directory.join("target"));
    let output = command.output().context("cannot run cargo check")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().filter(|line| line.starts_with("error")).take(3).collect::<Vec<_>>().join("; ");
        findings.broken.push(format!("weft-core does not build without std: {first}"));
    }
    Ok(())
}

/// Writes a file only when its text differs, so that cargo sees no change.
fn write(path: &Path, text: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
