//! The progress of measurements, as the user sees it.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal, plain lines elsewhere, or nothing. Everything goes to standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    is_quiet: bool,
}

impl Progress {
    pub(crate) fn new(jobs: usize, is_quiet: bool) -> Progress {
        let template = "{bar:24} {pos}/{len} · {eta} left · {msg}";
        let bar = (!is_quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(jobs as u64);
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { bar, is_quiet }
    }

    /// Notes that a job begins.
    pub(crate) fn begin(&self, job: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(job.to_owned());
            bar.tick();
        }
    }

    /// Notes that a job has ended; `trouble` is the reason why it gave no figure.
    pub(crate) fn end(&self, job: &str, took: Duration, trouble: Option<&str>) {
        match (&self.bar, trouble) {
            (Some(bar), trouble) => {
                if let Some(why) = trouble {
                    bar.println(format!("{job}: {why}"));
                }
                bar.inc(1);
            }
            (None, Some(why)) if !self.is_quiet => crate::out::say!("{job}: {why}"),
            (None, None) if !self.is_quiet => crate::out::say!("{job}: {:.1} s", took.as_secs_f64()),
            (None, _) => {}
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
