//! Tests the page that `weft report` makes of a run file, in a browser.

use std::path::PathBuf;

use super::context::{Context, Expected};
use super::process::Run;
use super::{Case, Outcome};

/// The names of the browser in Debian and elsewhere.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// The time limit for two windows: a browser takes seconds to start, and may wait for a processor.
const LIMIT_SECONDS: u64 = 240;

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("every chart is there, no label over another, nothing wider than the window", in_browser),
        Case::new("what is no run file is refused in a sentence", |context| {
            let run = Run::new(context.bin("weft")).arg("report").arg(context.root.join("Cargo.toml"));
            Expected::code(1).says("is not a run file").judge(run.finish())
        }),
    ]
}

fn in_browser(context: &Context) -> Outcome {
    let Some(browser) = browser() else {
        return Outcome::Skipped("no chromium here; as root, tools/setup.sh tests installs it".to_owned());
    };
    let run = Run::new(context.root.join("tests/report/check.py")).arg(context.bin("weft")).arg(browser);
    Expected::code(0).says("the report is well").judge(run.limit(LIMIT_SECONDS).finish())
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|file| file.is_file())
}
