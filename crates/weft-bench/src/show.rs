//! The forms in which a run file is shown: tables in the terminal, JSON, CSV, charts, a page, a Markdown
//! file.
//!
//! ```text
//! run file ─ read ─ summarize ─ summary ─┬─ terminal · export (JSON, CSV)
//!                                        ├─ chart (SVG) ─ png
//!                                        ├─ html · markdown
//!                                        └─ history
//! ```
//!
//! In `summarize` samples become figures; the modules after it only lay them out.

pub(crate) mod chart;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod html;
mod lines;
pub(crate) mod markdown;
pub(crate) mod read;
mod statistics;
pub(crate) mod summarize;
pub(crate) mod summary;
pub(crate) mod terminal;
mod units;
mod warnings;
pub(crate) mod words;

#[cfg(test)]
mod tests;
