//! `weft report`: shows the measurements of `weft compare`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::show::chart::{self, Chart};
use crate::show::summarize::summarize;
use crate::show::summary::Summary;
use crate::show::terminal::Look;
use crate::show::{export, html, markdown, read, terminal};

/// The arguments of `weft report`.
#[derive(Args)]
pub struct Options {
    /// Run files; each is shown by itself
    #[arg(required = true, value_name = "RUN.jsonl")]
    runs: Vec<PathBuf>,
    /// Write one HTML page that needs nothing else
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write every chart into this directory, as SVG and PNG
    #[arg(long, value_name = "DIRECTORY")]
    charts: Option<PathBuf>,
    /// Write the figures as a Markdown document, with the charts as SVG in a directory of the same name
    /// beside it
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print the figures as one JSON object instead of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the figures as CSV, a row for each cell, instead of tables
    #[arg(long)]
    csv: bool,
}

impl Options {
    /// The options that show a run that was measured just now: as tables, or in a form for programs.
    pub(crate) fn of_run(path: &Path, json: bool, csv: bool) -> Options {
        Options { runs: vec![path.into()], output: None, charts: None, markdown: None, json, csv }
    }
}

/// Runs `weft report`; the code is 1 when a file cannot be read or written.
pub fn run(options: &Options) -> ExitCode {
    match report(options) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe: `weft report … | head`.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            crate::out::say!("weft report: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn report(options: &Options) -> anyhow::Result<()> {
    let mut summaries = Vec::new();
    for path in &options.runs {
        summaries.push(summarize(read::read(path)?));
    }
    let mut out = io::stdout().lock();
    if options.json {
        export::json(&mut out, &summaries)?;
    } else if options.csv {
        export::csv(&mut out, &summaries)?;
    } else if options.output.is_none() && options.charts.is_none() && options.markdown.is_none() {
        for summary in &summaries {
            terminal::write(&mut out, summary, Look::of_stdout())?;
        }
    }
    out.flush()?;
    write_files(options, &summaries)
}

/// Writes the files. Each file is named on standard error: standard output may be JSON.
fn write_files(options: &Options, summaries: &[Summary]) -> anyhow::Result<()> {
    if let Some(path) = &options.output {
        write(path, html::page(summaries).as_bytes())?;
        crate::out::say!("wrote {}", path.display());
    }
    if let Some(directory) = &options.charts {
        let charts = all_charts(summaries);
        make_directory(directory)?;
        for (name, chart) in &charts {
            write(&directory.join(format!("{name}.svg")), chart.svg().as_bytes())?;
            write(&directory.join(format!("{name}.png")), &chart.png()?)?;
        }
        crate::out::say!("wrote {} charts into {}", charts.len(), directory.display());
    }
    if let Some(path) = &options.markdown {
        let folder = path.file_stem().context("--markdown needs the name of a file")?.to_string_lossy().into_owned();
        let directory = path.with_file_name(&folder);
        make_directory(&directory)?;
        for (name, chart) in all_charts(summaries) {
            write(&directory.join(format!("{name}.svg")), chart.svg().as_bytes())?;
        }
        write(path, markdown::document(summaries, Some(&folder)).as_bytes())?;
        crate::out::say!("wrote {} and its charts", path.display());
    }
    Ok(())
}

/// The charts of all runs by the names of their files: with several runs, the run's number comes first.
fn all_charts(summaries: &[Summary]) -> Vec<(String, Chart)> {
    let mut charts = Vec::new();
    for (index, summary) in summaries.iter().enumerate() {
        let prefix = chart::prefix(index, summaries.len());
        charts.extend(chart::all(summary).into_iter().map(|chart| (format!("{prefix}{}", chart.id), chart)));
    }
    charts
}

fn make_directory(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {}", directory.display()))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
