//! `weft report`: shows the measurements of `weft compare`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::show::chart::{self, Chart};
use crate::show::summarize::summarize;
use crate::show::summary::{Standing, Summary};
use crate::show::terminal::Look;
use crate::show::{export, history, html, markdown, read, terminal, words};

/// The arguments of `weft report`.
#[derive(Args, Default)]
pub struct Options {
    /// Run files; each is shown by itself
    #[arg(required_unless_present = "history", value_name = "RUN.jsonl")]
    runs: Vec<PathBuf>,
    /// Add what the runs reached to this performance record, a JSON object in a line
    #[arg(long, value_name = "FILE", requires = "commit")]
    record: Option<PathBuf>,
    /// With --record: the commit that was measured
    #[arg(long, value_name = "COMMIT", requires = "record")]
    commit: Option<String>,
    /// With --record: keep the counts of this file, too, which `cargo xtask instructions --save` has written
    #[arg(long, value_name = "FILE", requires = "record")]
    counts: Option<PathBuf>,
    /// Show this performance record over time, as a Markdown document of the same name beside it with charts
    /// as SVG
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "output", "charts", "markdown"])]
    history: Option<PathBuf>,
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
    /// Fail if the first library is behind another one in a row, by more than 5 % (2 points)
    #[arg(long)]
    bar: bool,
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
        Options { runs: vec![path.into()], json, csv, ..Options::default() }
    }
}

/// Runs `weft report`; the code is 1 when a file cannot be read or written, or a library is behind and
/// `--bar` asks for that.
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
    if let (Some(path), Some(commit)) = (&options.record, &options.commit) {
        record(path, commit, options.counts.as_deref(), &summaries)?;
    }
    if let Some(path) = &options.history {
        return write_history(path);
    }
    let mut out = io::stdout().lock();
    if options.json {
        export::json(&mut out, &summaries)?;
    } else if options.csv {
        export::csv(&mut out, &summaries)?;
    } else if options.output.is_none()
        && options.charts.is_none()
        && options.markdown.is_none()
        && options.record.is_none()
    {
        for summary in &summaries {
            terminal::write(&mut out, summary, Look::of_stdout())?;
        }
    }
    out.flush()?;
    write_files(options, &summaries)?;
    if options.bar { keeps_up(&summaries) } else { Ok(()) }
}

/// Checks that the first library of each run keeps up with the others.
///
/// # Errors
/// The rows in which it is behind, one a line; or nothing was compared.
pub(crate) fn keeps_up(summaries: &[Summary]) -> anyhow::Result<()> {
    let verdicts: Vec<_> = summaries.iter().flat_map(words::verdicts).collect();
    anyhow::ensure!(!verdicts.is_empty(), "no row compares two libraries");
    let behind = verdicts.iter().filter(|verdict| verdict.standing == Standing::Behind);
    let rows: Vec<String> = behind.map(|verdict| format!("\n  {}: {}", verdict.subject, verdict.figures)).collect();
    anyhow::ensure!(
        rows.is_empty(),
        "{} of {} rows are behind the best other library:{}",
        rows.len(),
        verdicts.len(),
        rows.concat()
    );
    Ok(())
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

/// Adds the runs to a performance record.
fn record(path: &Path, commit: &str, counts: Option<&Path>, summaries: &[Summary]) -> anyhow::Result<()> {
    let text = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let counts = counts.map(text).transpose()?;
    let line = history::entry(summaries, commit, counts.as_deref())?.line()?;
    // What is there must be a record: a line after something else would be lost.
    if path.exists() {
        history::parse(&text(path)?, &path.display().to_string())?;
    }
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    crate::out::say!("added {commit} to {}", path.display());
    Ok(())
}

/// Writes the page of a performance record, and its charts.
fn write_history(path: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let entries = history::parse(&text, &path.display().to_string())?;
    let folder = path.file_stem().context("--history needs the name of a file")?.to_string_lossy().into_owned();
    let (page, charts) = history::page(&entries, &folder);
    if !charts.is_empty() {
        let directory = path.with_file_name(&folder);
        make_directory(&directory)?;
        for (name, svg) in &charts {
            write(&directory.join(format!("{name}.svg")), svg.as_bytes())?;
        }
    }
    let document = path.with_extension("md");
    write(&document, page.as_bytes())?;
    crate::out::say!("wrote {} and {} charts", document.display(), charts.len());
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
