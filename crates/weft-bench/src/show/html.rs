//! The report as one page that needs no other file, on light and dark screens and on paper.

use std::fmt::Write;

use super::chart::{self, Chart, Style, escape};
use super::summary::{Row, Standing, Summary, Table};
use super::terminal::{cell_text, columns_compared};
use super::{units, words};
use crate::record::Role;

/// The most rows listed in the head where the subject is ahead, and where it is behind; the rest unfolds.
const VERDICTS_MAX: usize = 10;

/// Makes the whole page for these runs. All text of a run file is escaped.
pub(crate) fn page(summaries: &[Summary]) -> String {
    let subject = summaries.iter().find_map(|summary| Some(summary.library(summary.subject()?).title.clone()));
    let title = match subject {
        Some(subject) => format!("{subject}, measured beside other MPI libraries"),
        None => "MPI libraries, measured".to_owned(),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
        escape(&title),
        style(),
        escape(&title)
    );
    for (index, summary) in summaries.iter().enumerate() {
        run(&mut page, summary, index, summaries.len());
    }
    page.push_str("<section id=\"method\">\n<h2>How it was measured</h2>\n");
    for paragraph in words::METHOD {
        let _ = writeln!(page, "<p>{}</p>", escape(paragraph));
    }
    page.push_str("</section>\n</main>\n</body>\n</html>\n");
    page
}

fn run(page: &mut String, summary: &Summary, index: usize, runs: usize) {
    let heading =
        if runs > 1 { format!("Run {} of {runs}: {}", index + 1, summary.source) } else { "In short".to_owned() };
    let _ = writeln!(page, "<section class=\"run\">\n<h2>{}</h2>", escape(&heading));
    verdicts(page, summary);
    if !summary.warnings.is_empty() {
        page.push_str("<div class=\"warnings\"><h3>Warnings</h3>\n");
        items(page, &summary.warnings);
        page.push_str("</div>\n");
    }
    facts(page, summary);
    let charts = chart::all(summary);
    for (i, place) in summary.places.iter().enumerate() {
        let tables: Vec<&Table> = summary.tables.iter().filter(|table| table.place.id == place.id).collect();
        if tables.is_empty() {
            continue;
        }
        let _ = writeln!(page, "<h2 id=\"place-{index}-{i}\">{}</h2>", escape(&capital(&words::place(place))));
        for table in tables {
            let mine = charts.iter().filter(|chart| chart.measurement == table.measurement && chart.place == place.id);
            measured(page, summary, table, &mine.collect::<Vec<_>>());
        }
    }
    commands(page, summary);
    page.push_str("</section>\n");
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn items(page: &mut String, items: &[String]) {
    page.push_str("<ul>\n");
    for item in items {
        let _ = writeln!(page, "<li>{}</li>", escape(item));
    }
    page.push_str("</ul>\n");
}

fn verdicts(page: &mut String, summary: &Summary) {
    let verdicts = words::verdicts(summary);
    let _ = writeln!(page, "<p class=\"verdict\">{}</p>", escape(&words::tally(summary, &verdicts)));
    page.push_str("<div class=\"verdicts\">\n");
    for (standing, class, heading) in [(Standing::Ahead, "ahead", "Leads"), (Standing::Behind, "behind", "Behind")] {
        let some: Vec<_> = verdicts.iter().filter(|verdict| verdict.standing == standing).collect();
        if some.is_empty() {
            continue;
        }
        let lines: Vec<String> =
            some.iter().map(|verdict| format!("{}: {}", verdict.subject, verdict.figures)).collect();
        let (first, rest) = lines.split_at(lines.len().min(VERDICTS_MAX));
        let _ = writeln!(page, "<div class=\"{class}\"><h3>{heading} in {}</h3>", lines.len());
        items(page, first);
        if !rest.is_empty() {
            let _ = writeln!(page, "<details><summary>and {} more</summary>", rest.len());
            items(page, rest);
            page.push_str("</details>\n");
        }
        page.push_str("</div>\n");
    }
    page.push_str("</div>\n");
}

fn facts(page: &mut String, summary: &Summary) {
    let mut facts: Vec<(String, String)> = vec![
        ("started".to_owned(), units::date(summary.run.started)),
        ("rounds".to_owned(), summary.run.rounds.to_string()),
        ("command".to_owned(), shell(&summary.run.command)),
        ("tool".to_owned(), format!("weft {}", summary.run.version)),
        ("run file".to_owned(), summary.source.clone()),
    ];
    if let Some(seconds) = summary.seconds {
        facts.insert(1, ("took".to_owned(), units::duration(seconds)));
    }
    facts.extend(summary.run.machine.iter().cloned());
    for place in &summary.places {
        let mut processors = format!("{}; {} processors for the ranks", words::place(place), place.processors);
        if let Some(note) = &place.note {
            processors += &format!("; {note}");
        }
        facts.push((format!("place {}", place.id), processors));
    }
    page.push_str(
        "<details open><summary>Machine, versions, places</summary>\n<div class=\"wide\"><table class=\"facts\">\n",
    );
    for (name, value) in facts {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(&name), escape(&value));
    }
    for library in &summary.libraries {
        let variables: Vec<String> =
            library.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut parts = vec![words::version(library)];
        parts.extend(library.prefix.clone());
        parts.extend((!variables.is_empty()).then(|| variables.join(" ")));
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() {
            parts.push(words::of_role(library.role).to_owned());
        }
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(&library.title), escape(&parts.join("; ")));
    }
    page.push_str("</table></div></details>\n");
}

fn measured(page: &mut String, summary: &Summary, table: &Table, charts: &[&Chart]) {
    let _ = writeln!(page, "<section class=\"measurement\">\n<h3>{}</h3>", escape(&words::title(&table.measurement)));
    let what = words::what(&table.measurement);
    let what = if what.is_empty() { String::new() } else { format!("{}; ", capital(what)) };
    let _ = writeln!(page, "<p>{}</p>", escape(&format!("{what}{}{}.", words::caption(table), words::factors(table))));
    let compared = columns_compared(table);
    let _ = write!(page, "<div class=\"wide\"><table>\n<thead><tr><th>{}</th>", escape(words::row_heading(table)));
    for library in &table.columns {
        let class = if summary.library(*library).role == Role::Subject { " class=\"ours\"" } else { "" };
        let _ = write!(page, "<th{class}>{}</th>", escape(&summary.library(*library).title));
    }
    if compared.peer {
        page.push_str(if units::is_share(&table.unit) {
            "<th>to best peer, points</th>"
        } else {
            "<th>× best peer</th>"
        });
    }
    if compared.carrier {
        page.push_str("<th>× carrier</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        row_of(page, summary, table, row);
    }
    page.push_str("</tbody></table></div>\n");
    if !table.footnotes.is_empty() {
        page.push_str("<ol class=\"footnotes\">\n");
        for footnote in &table.footnotes {
            let _ = writeln!(page, "<li>{}</li>", escape(footnote));
        }
        page.push_str("</ol>\n");
    }
    page.push_str("<div class=\"charts\">\n");
    for chart in charts {
        let _ = writeln!(page, "<figure data-chart=\"{}\">{}</figure>", escape(&chart.id), chart.inline());
    }
    page.push_str("</div>\n</section>\n");
}

fn row_of(page: &mut String, summary: &Summary, table: &Table, row: &Row) {
    let compared = columns_compared(table);
    let _ = write!(page, "<tr><th>{}</th>", escape(&words::row_title(row)));
    for (library, cell) in table.columns.iter().zip(&row.cells) {
        let standing = row.best_peer.filter(|_| summary.subject() == Some(*library)).map(|one| one.standing());
        let class = match (cell.figure, standing) {
            (None, _) => " class=\"missing\"",
            (_, Some(Standing::Ahead)) => " class=\"ahead\"",
            (_, Some(Standing::Behind)) => " class=\"behind\"",
            _ if summary.subject() == Some(*library) => " class=\"ours\"",
            _ => "",
        };
        let more = cell.figure.map_or(String::new(), |figure| {
            let [min, max] = [figure.min, figure.max].map(|value| units::with_unit(value, &table.unit));
            let (samples, rounds) = (figure.samples, figure.rounds);
            format!(" title=\"{}\"", escape(&format!("{min} to {max}; {samples} samples in {rounds} rounds")))
        });
        let _ = write!(page, "<td{class}{more}>{}</td>", escape(&cell_text(cell, &table.unit)));
    }
    for (shown, comparison) in [(compared.peer, row.best_peer), (compared.carrier, row.carrier)] {
        if shown {
            let _ = write!(page, "<td>{}</td>", escape(&words::comparison(summary, comparison, row.size)));
        }
    }
    page.push_str("</tr>\n");
}

fn commands(page: &mut String, summary: &Summary) {
    if summary.commands.is_empty() {
        return;
    }
    page.push_str("<details><summary>Every command</summary>\n<div class=\"wide\"><table class=\"facts\">\n");
    for job in &summary.commands {
        let place = format!("{}, {}, {}", job.measurement, job.place, job.library);
        let _ = writeln!(
            page,
            "<tr><th>{}</th><td><code>{}</code></td></tr>",
            escape(&place),
            escape(&shell(&job.command))
        );
    }
    page.push_str("</table></div></details>\n");
}

/// A command as it can be typed.
pub(super) fn shell(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    let word = |word: &String| match word.as_str() {
        "" => "''".to_owned(),
        word if word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn style() -> String {
    let (light, dark, rules) = (Style::variables(false), Style::variables(true), Style::rules());
    format!(
        ":root{{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--quiet:#525a63;--line:#d8dce1;--soft:#f4f6f8;\
         --good:#11733b;--bad:#b3261e;--warn:#8a5a00;{light}}}\
         @media screen and (prefers-color-scheme:dark){{:root{{--ground:#14181d;--text:#e6e9ed;--quiet:#a9b2bc;--line:#333940;\
         --soft:#1d2329;--good:#56cc86;--bad:#ff8a80;--warn:#e6b65c;{dark}}}}}\n{CSS}\n{rules}"
    )
}

const CSS: &str = "\
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);font:15px/1.5 system-ui,'DejaVu Sans',sans-serif}
main{max-width:1180px;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem;line-height:1.25}
h2{margin-top:2.5rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
h3{margin:1.5rem 0 .3rem}
p{max-width:75ch}
li,td,th,p{overflow-wrap:anywhere}
td,thead th{overflow-wrap:normal}
.verdict{font-size:1.15rem;font-weight:600}
.verdicts{display:grid;align-items:start;grid-template-columns:repeat(auto-fit,minmax(min(28rem,100%),1fr));gap:1rem}
.verdicts h3,.warnings h3{margin-top:.2rem}
.verdicts>div,.warnings{background:var(--soft);border-left:4px solid var(--quiet);padding:.6rem 1rem}
.verdicts ul,.warnings ul{margin:0;padding-left:1.1rem}
.verdicts .ahead{border-color:var(--good)}
.verdicts .behind{border-color:var(--bad)}
.warnings{border-color:var(--warn);margin:1rem 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child{text-align:left}
.facts th,.facts td{text-align:left;white-space:normal;vertical-align:top}
.facts th{min-width:12rem}
.ours{font-weight:600}
td.ahead{color:var(--good);font-weight:600}
td.behind{color:var(--bad);font-weight:600}
.missing{color:var(--warn);font-style:italic}
.footnotes{color:var(--quiet);font-size:.9rem;margin-top:.2rem;padding-left:1.8rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(34rem,100%),1fr));gap:1rem;align-items:start}
figure{margin:0;min-width:0;max-width:48rem}
.chart{width:100%;height:auto;display:block}
details{margin:1rem 0}
summary{cursor:pointer;font-weight:600}
code{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.85em}
@media print{main{max-width:none;padding:0}figure,tr{break-inside:avoid}h2,h3{break-after:avoid}}";
