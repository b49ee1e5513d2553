//! Builds, by cargo, the programs of this workspace that cases need and that an installation does not have.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::context::Context;

/// The executable that cargo makes by these arguments, such as `build --bin NAME` or
/// `test --test NAME --no-run`.
///
/// # Errors
/// The executable cannot be built.
pub(crate) fn by_cargo(context: &Context, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let what = arguments.join(" ");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).args(["--quiet", "--message-format", "json"]).current_dir(&context.root);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run cargo {what}"))?;
    anyhow::ensure!(output.status.success(), "cargo {what} fails");
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let path = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.with_context(|| format!("cargo {what} does not say what it has built"))
}
