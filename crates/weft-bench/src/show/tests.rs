//! The run file of `tests/report`, shown in every way, and run files that are wrong.

use serde_json::Value;

use super::summarize::summarize;
use super::summary::{Missing, Standing, Summary};
use super::terminal::Look;
use super::{chart, export, history, html, markdown, read, terminal, words};
use crate::record::Role;

const FIXTURE: &str = include_str!("../../../../tests/report/run.jsonl");

/// The overlap that is allowed: boxes of texts may touch, and the measures are those of one font.
const OVERLAP_PIXELS: f64 = 0.5;

fn fixture() -> Summary {
    summary(FIXTURE)
}

fn summary(text: &str) -> Summary {
    summarize(read::parse(text.as_bytes(), "run.jsonl").unwrap())
}

fn terminal(summary: &Summary, colour: bool) -> String {
    let mut out = Vec::new();
    terminal::write(&mut out, summary, Look { colour, width: Some(200) }).unwrap();
    String::from_utf8(out).unwrap()
}

const HEAD: &str = r#"{"record":"run","format":1,"started":0,"command":["weft","compare"],"version":"0","rounds":5,"machine":[]}
{"record":"place","id":"p","hosts":1,"ranks":2,"rate":null,"loss_percent":null,"processors":2}
{"record":"library","id":"weft","role":"subject","title":"Weft","version":"","prefix":null,"environment":{}}
{"record":"library","id":"other","role":"peer","title":"Other","version":"","prefix":null,"environment":{}}
"#;

/// Makes a run file of samples that are written as `measurement unit size library round value …`.
fn run_of(samples: &str, more: &str) -> Summary {
    let mut text = HEAD.to_owned() + more;
    for line in samples.lines().filter(|line| !line.trim().is_empty()) {
        let [measurement, unit, size, library, round, value] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("not a sample: {line}")
        };
        text += &format!(
            "{{\"record\":\"sample\",\"place\":\"p\",\"library\":\"{library}\",\"round\":{round},\"measurement\":\"{measurement}\",\
             \"size\":{size},\"unit\":\"{unit}\",\"value\":{value},\"valid\":true}}\n"
        );
    }
    summary(&(text + "{\"record\":\"end\",\"at\":1.0,\"interrupted\":false}\n"))
}

#[test]
fn a_line_that_was_cut_off_is_left_out_and_said() {
    let whole = summary(FIXTURE);
    let cut = FIXTURE.trim_end().len() - 10;
    let shorter = summary(&FIXTURE[..cut]);
    assert_eq!(whole.tables.len(), shorter.tables.len());
    assert!(shorter.warnings.iter().any(|warning| warning.contains("cut off")), "{:?}", shorter.warnings);
    assert!(shorter.warnings.iter().any(|warning| warning.contains("did not come to its end")));
    assert!(!whole.interrupted && shorter.interrupted);
}

/// A run file that ends anywhere is read as a run file, or refused with one sentence.
#[test]
fn a_file_may_end_anywhere() {
    let text = &FIXTURE[..FIXTURE.len().min(6000)];
    let head = text.find('\n').unwrap();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        match read::parse(&text.as_bytes()[..end], "run.jsonl") {
            Ok(file) => drop(summarize(file)),
            Err(why) => assert!(end < head, "{end}: {why}"),
        }
    }
}

#[test]
fn what_is_no_run_file_is_refused_in_a_sentence() {
    let refused = |text: &str| read::parse(text.as_bytes(), "x.jsonl").unwrap_err().to_string();
    assert!(refused("").starts_with("x.jsonl is empty"));
    assert!(refused("hello\n").contains("is not a run file"));
    assert!(refused("{\"record\":\"job\"}\n").contains("is not a run file"));
    assert!(
        refused(&HEAD.replace("\"format\":1", "\"format\":7"))
            .contains("has format 7, and this program reads format 1")
    );
    assert!(refused(&(HEAD.to_owned() + "nonsense\n{}\n")).contains("line 5 is no record"));
}

#[test]
fn ratios_say_who_is_better_whichever_way_the_unit_runs() {
    let summary = run_of(
        "pingpong us 8 weft 0 2\n pingpong us 8 other 0 4\n pingpong us 8 weft 1 20\n pingpong us 8 other 1 40
         bandwidth MB/s 8 weft 0 100\n bandwidth MB/s 8 other 0 200\n bandwidth MB/s 8 weft 1 100\n bandwidth MB/s 8 other 1 200
         availability percent 8 weft 0 90\n availability percent 8 other 0 -30",
        "",
    );
    let found: Vec<(String, Standing)> = (summary.tables.iter())
        .filter_map(|table| table.rows[0].best_peer)
        .map(|comparison| (words::advantage(&comparison), comparison.standing()))
        .collect();
    let expected = [("2.00×", Standing::Ahead), ("0.500×", Standing::Behind), ("+120.0", Standing::Ahead)];
    assert_eq!(found, expected.map(|(text, standing)| (text.to_owned(), standing)));
}

/// Overheads of which some are below zero: they are differences of two times.   Expect: who has the lower one
/// is ahead, and two of that kind are level.
#[test]
fn an_overhead_below_zero_is_less_than_one_above() {
    for (ours, theirs, standing) in [
        ("-0.3", "27.9", Standing::Ahead),
        ("7.0", "-4.5", Standing::Behind),
        ("-0.1", "-0.4", Standing::Level),
        ("0.2", "0.4", Standing::Ahead),
    ] {
        let summary = run_of(&format!("overhead us 8 weft 0 {ours}\n overhead us 8 other 0 {theirs}"), "");
        assert_eq!(summary.tables[0].rows[0].best_peer.unwrap().standing(), standing, "{ours} {theirs}");
    }
}

/// Samples of writing that tell the speed of plain calls beside them.   Expect: a table of the shares, in
/// which no library is compared with another.
#[test]
fn shares_of_plain_calls_are_shown_and_not_compared() {
    let sample = |library: &str, value: u32, percent: u32| {
        format!(
            "{{\"record\":\"sample\",\"place\":\"p\",\"library\":\"{library}\",\"round\":0,\"measurement\":\"file_write\",\
             \"size\":1024,\"unit\":\"MB/s\",\"value\":{value},\"percent_of_plain\":{percent},\"valid\":true}}\n"
        )
    };
    let shown = run_of("", &(sample("weft", 200, 98) + &sample("other", 100, 300)));
    let [speed, share] = &shown.tables[..] else { panic!("{} tables", shown.tables.len()) };
    assert_eq!((speed.measurement.as_str(), share.measurement.as_str()), ("file_write", "file_write_plain"));
    assert_eq!((speed.unit.as_str(), share.unit.as_str()), ("MB/s", "percent"));
    assert!(speed.rows[0].best_peer.is_some() && share.rows[0].best_peer.is_none());
    let shares: Vec<f64> = share.rows[0].cells.iter().map(|cell| cell.figure.unwrap().median).collect();
    assert_eq!(shares, [98.0, 300.0]);
}

#[test]
fn a_lead_that_the_rounds_do_not_agree_on_is_level() {
    let samples = "pingpong us 8 weft 0 1\n pingpong us 8 other 0 2\n pingpong us 8 weft 1 1\n pingpong us 8 other 1 2
                   pingpong us 8 weft 2 2\n pingpong us 8 other 2 1\n pingpong us 8 weft 3 2\n pingpong us 8 other 3 1.5";
    let comparison = run_of(samples, "").tables[0].rows[0].best_peer.unwrap();
    assert_eq!(comparison.standing(), Standing::Level);
}

#[test]
fn the_carrier_that_fits_is_taken() {
    let carriers = r#"{"record":"library","id":"carrier-udp","role":"carrier","title":"UDP","version":"","prefix":null,"environment":{}}
"#;
    let summary = run_of(
        "pingpong us 8 weft 0 4\n pingpong us 4096 weft 0 9\n pingpong us 64 carrier-udp 0 2
         bandwidth MB/s 8 weft 0 10\n bandwidth MB/s 1048576 weft 0 900\n bandwidth MB/s 1448 carrier-udp 0 1000",
        carriers,
    );
    let beside = |table: usize, row: usize| words::comparison(&summary, summary.tables[table].rows[row].carrier, None);
    assert_eq!(summary.tables[0].rows.len(), 2, "a carrier's size makes no row");
    assert_eq!([beside(0, 0), beside(0, 1)], ["0.500× udp", "–"]);
    assert_eq!([beside(1, 0), beside(1, 1)], ["–", "0.900× udp"]);
}

#[test]
fn the_lines_of_a_version_are_kept_apart() {
    let library = r#"{"record":"library","id":"mpich","role":"peer","title":"MPICH","version":"MPICH Version:  5.0.2\nMPICH ABI:  17:3:5\n","prefix":null,"environment":{}}
"#;
    let summaries = [run_of("pingpong us 8 weft 0 4\n pingpong us 8 mpich 0 5", library)];
    assert!(html::page(&summaries).contains("MPICH Version:  5.0.2; MPICH ABI:  17:3:5<"));
    assert!(markdown::document(&summaries, None).contains("MPICH Version:  5.0.2; MPICH ABI:  17:3:5 |"));
}

#[test]
fn what_failed_stays_in_the_table_with_its_reason() {
    let job = |round: u32, outcome: &str, why: &str| {
        format!(
            "{{\"record\":\"job\",\"measurement\":\"pingpong\",\"place\":\"p\",\"library\":\"other\",\"round\":{round},\"command\":[],\
             \"outcome\":\"{outcome}\",\"why\":\"{why}\",\"seconds\":1.0}}\n"
        )
    };
    let all = job(0, "timed_out", "it did not end in 60 s") + &job(1, "timed_out", "it did not end in 60 s");
    let summary = run_of("pingpong us 8 weft 0 1\n pingpong us 8 weft 1 1", &all);
    let cell = &summary.tables[0].rows[0].cells[1];
    assert_eq!(cell.missing, Some(Missing::TimedOut));
    assert_eq!(summary.tables[0].footnotes, ["Other timed out: it did not end in 60 s."]);
    let text = terminal(&summary, false);
    assert!(text.contains("timed out [1]") && text.contains("  [1] Other timed out"), "{text}");
    // One round of two failed: there is a figure, and the footnote.
    let some = job(0, "failed", "signal 11") + &job(1, "succeeded", "");
    let summary = run_of("pingpong us 8 weft 0 1\n pingpong us 8 other 1 1", &some);
    assert_eq!(summary.tables[0].footnotes, ["Other failed in round 1 of 2: signal 11."]);
    assert!(summary.tables[0].rows[0].cells[1].figure.is_some());
    // No library has a sample: the table is there all the same.
    let summary = run_of("", &all);
    assert!(terminal(&summary, false).contains("timed out [2]"));
    assert!(summary.tables[0].footnotes.iter().any(|note| note == "Weft was not run here."));
}

/// A program that cannot start prints one sample without a size; other programs print samples with sizes.
#[test]
fn a_refusal_stands_beside_the_sizes_of_others() {
    let refusal = r#"{"record":"sample","place":"p","library":"weft","round":0,"measurement":"put_latency","size":0,"unit":"us","value":null,"valid":false,"why":"no windows"}
{"record":"job","measurement":"put_latency","place":"p","library":"weft","round":0,"command":[],"outcome":"unsupported","why":"no windows","seconds":1.0}
"#;
    let summary = run_of("put_latency us 8 other 0 5\n put_latency us 64 other 0 6", refusal);
    let table = &summary.tables[0];
    assert_eq!(table.rows.iter().map(|row| row.size).collect::<Vec<_>>(), [Some(8), Some(64)]);
    assert!(table.rows.iter().all(|row| row.cells[0].missing == Some(Missing::Unsupported)));
    assert_eq!(table.footnotes, ["Weft does not support this: no windows."]);
}

#[test]
fn samples_that_did_not_validate_do_not_count() {
    let bad = r#"{"record":"sample","place":"p","library":"weft","round":0,"measurement":"pingpong","size":8,"unit":"us","value":0.1,"valid":false,"why":"byte 3 is 7"}
"#;
    let summary = run_of("pingpong us 8 weft 1 5", bad);
    let cell = &summary.tables[0].rows[0].cells[0];
    assert_eq!(cell.figure.unwrap().median, 5.0);
    assert_eq!(
        summary.tables[0].footnotes[0],
        "Weft: 1 of 2 samples did not validate and are not counted: byte 3 is 7."
    );
    assert_eq!(run_of("", bad).tables[0].rows[0].cells[0].missing, Some(Missing::Invalid));
}

#[test]
fn what_may_have_spoilt_a_run_is_said() {
    let more = r#"{"record":"place","id":"crowded","hosts":1,"ranks":8,"rate":null,"loss_percent":null,"processors":2}
{"record":"condition","at":0,"load":3.0,"strangers":0,"megahertz":[2000.0],"steal_percent":0}
{"record":"condition","at":1,"load":3.0,"strangers":4,"megahertz":[3000.0],"steal_percent":9}
"#;
    let wide = "pingpong us 8 weft 0 1\n pingpong us 8 weft 1 2\n pingpong us 8 weft 2 3\n pingpong us 8 weft 3 4";
    let said = run_of(wide, more).warnings.join("\n");
    for part in [
        "8 ranks share 2 processors",
        "not idle",
        "at 1 of 2 looks",
        "between 2000 and 3000 MHz",
        "up to 9 %",
        "1 of 1 figures",
    ] {
        assert!(said.contains(part), "no {part:?} in:\n{said}");
    }
    let calm = "pingpong us 8 weft 0 1\n pingpong us 8 weft 1 1\n pingpong us 8 other 2 1\n pingpong us 8 other 3 1";
    assert_eq!(run_of(calm, "").warnings, Vec::<String>::new());
}

/// Titles, reasons and names come from unknown programs.
#[test]
fn markup_in_a_run_file_stays_text() {
    let text = FIXTURE
        .replace("\"title\":\"MPICH 5.0.2\"", "\"title\":\"<script>alert(1)</script>\"")
        .replace("\"why\":\"its launcher", "\"why\":\"<img src=x onerror=alert(2)> its launcher");
    assert_ne!(text, FIXTURE);
    let summary = summary(&text);
    let page = html::page(std::slice::from_ref(&summary));
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("&lt;img src=x"));
    assert!(!page.contains("<script") && !page.contains("<img"));
    let document = markdown::document(std::slice::from_ref(&summary), None);
    assert!(!document.contains("<script") && !document.contains("<img"));
    for chart in chart::all(&summary) {
        assert!(!chart.svg().contains("<script"));
    }
}

/// Carriers have no version and no place where they are installed; their row says what they are.
#[test]
fn every_row_about_the_machine_and_what_was_measured_says_something() {
    let carrier = r#"{"record":"library","id":"carrier-udp","role":"carrier","title":"UDP","version":"","prefix":null,"environment":{}}"#;
    let summary = run_of("latency us 8 weft 1 10\nlatency us 8 carrier-udp 1 9", &format!("{carrier}\n"));
    assert!(summary.libraries.iter().any(|library| library.role == Role::Carrier));
    let page = html::page(std::slice::from_ref(&summary));
    let document = markdown::document(std::slice::from_ref(&summary), None);
    let facts = page.split("Machine, versions, places").nth(1).and_then(|rest| rest.split("</table>").next()).unwrap();
    assert!(!facts.contains("<td></td>"), "{facts}");
    let facts = document.split("### Machine and versions").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(!facts.contains("|  |"), "{facts}");
    for library in &summary.libraries {
        assert!(page.contains(&format!("<tr><th>{}</th><td>", library.title)), "{}", library.title);
    }
}

/// A reader who meets "0.107×" learns in the head of that table whether less or more is better, not at the
/// end of the page.
#[test]
fn what_factors_mean_stands_at_the_head_of_each_table_that_has_some() {
    let summary = fixture();
    let page = html::page(std::slice::from_ref(&summary));
    let document = markdown::document(std::slice::from_ref(&summary), None);
    let mut with_factors = 0;
    for (text, tables) in [(&page, "<section class=\"measurement\">"), (&document, "\n### ")] {
        for section in text.split(tables).skip(1).filter(|section| section.contains("× best peer")) {
            with_factors += 1;
            let table = section.find("× best peer").unwrap();
            assert!(section[..table].contains("above 1×: Weft"), "{section}");
        }
    }
    assert!(with_factors > 0);
}

#[test]
fn the_page_needs_nothing_else() {
    let page = html::page(&[fixture()]);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for opening in ["<section", "<table", "<figure", "<svg", "<details", "<div", "<ul", "<ol"] {
        let closing = opening.replace('<', "</") + ">";
        assert_eq!(page.matches(opening).count(), page.matches(&closing).count(), "{opening}");
    }
    assert_eq!(page.matches("<figure").count(), chart::all(&fixture()).len());
}

#[test]
fn no_two_texts_of_a_chart_overlap_and_none_leaves_it() {
    let summary = fixture();
    let charts = chart::all(&summary);
    assert!(charts.len() >= 15, "{}", charts.len());
    for chart in &charts {
        let (texts, [_, _, width, height]) = chart.texts();
        assert!(texts.len() > 4, "{}", chart.id);
        for (i, (text, [left, top, right, bottom])) in texts.iter().enumerate() {
            let inside = *left >= 0.0 && *top >= 0.0 && *right <= width && *bottom <= height;
            assert!(inside, "{}: {text:?} leaves the picture", chart.id);
            for (other, [l, t, r, b]) in &texts[i + 1..] {
                let across = right.min(*r) - left.max(*l);
                let down = bottom.min(*b) - top.max(*t);
                let overlap = across > OVERLAP_PIXELS && down > OVERLAP_PIXELS;
                assert!(!overlap, "{}: {text:?} and {other:?}", chart.id);
            }
        }
    }
}

#[test]
fn a_chart_is_a_whole_svg_and_a_png_of_twice_its_size() {
    let summary = fixture();
    let charts = chart::all(&summary);
    let mut names: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), charts.len());
    let chart = &charts[0];
    let svg = chart.svg();
    assert!(
        svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf")
    );
    let png = chart.png().unwrap();
    assert_eq!(&png[1..4], b"PNG");
    let (_, [_, _, width, _]) = chart.texts();
    assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), width as u32 * 2);
}

#[test]
fn json_and_csv_hold_every_cell() {
    let summaries = [fixture()];
    let mut json = Vec::new();
    export::json(&mut json, &summaries).unwrap();
    let value: Value = serde_json::from_slice(&json).unwrap();
    let tables = value["runs"][0]["tables"].as_array().unwrap();
    let cells = |table: &Value| {
        table["rows"].as_array().unwrap().iter().map(|row| row["cells"].as_array().unwrap().len()).sum::<usize>()
    };
    let carriers = |table: &Value| table["carriers"].as_array().unwrap().len();
    let expected: usize = tables.iter().map(|table| cells(table) + carriers(table)).sum();
    let mut csv = Vec::new();
    export::csv(&mut csv, &summaries).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), expected + 1);
    assert_eq!(value["shape"], 1);
    assert!(tables.iter().any(|table| table["measurement"] == "overhead"));
    assert!(csv.starts_with("source,measurement,place,variant,size,unit,better,library,role,median,"));
}

#[test]
fn the_terminal_is_coloured_only_when_asked() {
    let summary = fixture();
    assert!(!terminal(&summary, false).contains('\x1b'));
    assert!(terminal(&summary, true).contains("\x1b[1m"));
    for table in &summary.tables {
        assert!(terminal(&summary, false).contains(&words::title(&table.measurement)));
    }
}

#[test]
fn the_document_says_where_the_subject_is_behind_first() {
    let samples =
        "pingpong us 8 weft 0 3\n pingpong us 8 other 0 1\n pingpong us 64 weft 0 9\n pingpong us 64 other 0 1
                   rate messages/s 8 weft 0 2000\n rate messages/s 8 other 0 1000";
    let document = markdown::document(&[run_of(samples, "")], Some("performance"));
    let at = |part: &str| document.find(part).unwrap_or_else(|| panic!("no {part:?} in:\n{document}"));
    assert!(at("Weft leads the best peer in 1 of 3 rows, is level in 0 and behind in 2.") < at("### Behind"));
    assert!(
        at("Ping-pong latency, 64 B, 1 host, 2 ranks: 0.111×") < at("Ping-pong latency, 8 B, 1 host, 2 ranks: 0.333×")
    );
    assert!(at("### Behind") < at("### Ahead"));
    at("![Ping-pong latency, 1 host, 2 ranks](performance/pingpong-p.svg)");
    at("| 8 | **2.00 k** | 1.00 k | 2.00× other |");
}

/// Makes a run file of samples with the times of a cache line:
/// `measurement unit size library round value before after …`; `-` is null.
fn run_with_lines(samples: &str, more: &str) -> Summary {
    let mut text = HEAD.to_owned() + more;
    for line in samples.lines().map(|line| line.replace(" -", " null")).filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [measurement, unit, size, library, round, value, before, after] = words[..] else { panic!("{line}") };
        text += &format!(
            "{{\"record\":\"sample\",\"place\":\"p\",\"library\":\"{library}\",\"round\":{round},\
             \"measurement\":\"{measurement}\",\"size\":{size},\"unit\":\"{unit}\",\"value\":{value},\"valid\":true,\
             \"line_ns_before\":{before},\"line_ns_after\":{after}}}\n"
        );
    }
    summary(&(text + "{\"record\":\"end\",\"at\":1.0,\"interrupted\":false}\n"))
}

const TWO_STATES: &str = "pingpong us 8 weft 0 1 32 33\n pingpong us 8 other 0 2 33 32\n pingpong us 8 weft 1 1 31 31
    pingpong us 8 other 1 9 155 150\n pingpong us 8 weft 2 3 152 160\n pingpong us 8 other 2 9 161 155
    pingpong us 8 weft 3 50 32 155\n pingpong us 8 other 3 60 - 32";

#[test]
fn what_lines_cost_makes_tables_of_their_own() {
    let summary = run_with_lines(TWO_STATES, "");
    let places: Vec<&str> = summary.tables.iter().map(|table| table.place.id.as_str()).collect();
    assert_eq!(places, ["p-lines-near", "p-lines-far"]);
    let medians = |table: usize| -> Vec<f64> {
        summary.tables[table].rows[0].cells.iter().map(|cell| cell.figure.unwrap().median).collect()
    };
    assert_eq!([medians(0), medians(1)], [[1.0, 2.0], [3.0, 9.0]]);
    // In rounds 1 and 3 no pair can be compared: one library was near and the other far, or the state
    // changed.
    let ratio = |table: usize| summary.tables[table].rows[0].best_peer.unwrap().advantage;
    assert_eq!([ratio(0).median, ratio(1).median], [2.0, 3.0]);
    assert_eq!([ratio(0).rounds, ratio(1).rounds], [1, 1]);
    let said = summary.warnings.join("\n");
    for part in ["lines near, 32 ns (3 samples); lines far, 155 ns (3 samples)", "1 sample in which", "1 sample around"]
    {
        assert!(said.contains(part), "no {part:?} in:\n{said}");
    }
    let text = terminal(&summary, false);
    for part in [
        "Ping-pong latency, 1 host, 2 ranks, lines near, 32 ns (µs, lower is better; 3 samples)",
        "Ping-pong latency, 1 host, 2 ranks, lines far, 155 ns (µs, lower is better; 3 samples)",
        "Few samples while lines were near: at some size there are samples of only 2 (Weft), 1 (Other) of 5 rounds; some ratio is \
         of 1 only.",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let mut ids: Vec<String> = chart::all(&summary).into_iter().map(|chart| chart.id).collect();
    ids.dedup();
    assert!(ids.iter().any(|id| id.contains("near")) && ids.iter().any(|id| id.contains("far")), "{ids:?}");
    let mut json = Vec::new();
    export::json(&mut json, std::slice::from_ref(&summary)).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["runs"][0]["places"][1]["lines"]["name"], "far");
    assert_eq!(json["runs"][0]["tables"][1]["place"], "p-lines-far");
}

#[test]
fn what_has_no_lines_stays_in_one_table() {
    let more = r#"{"record":"sample","place":"p","library":"weft","round":0,"measurement":"startup","size":0,"unit":"ms","value":5,"valid":true}
{"record":"library","id":"carrier-memcpy","role":"carrier","title":"memcpy","version":"","prefix":null,"environment":{}}
{"record":"sample","place":"p","library":"carrier-memcpy","round":0,"measurement":"pingpong","size":8,"unit":"us","value":0.5,"valid":true}
{"record":"sample","place":"p","library":"carrier-memcpy","round":2,"measurement":"pingpong","size":8,"unit":"us","value":0.5,"valid":true}
"#;
    let summary = run_with_lines(TWO_STATES, more);
    let places = |id: &str| -> Vec<&str> {
        summary.tables.iter().filter(|table| table.measurement == id).map(|table| table.place.id.as_str()).collect()
    };
    assert_eq!(places("startup"), ["p"]);
    assert_eq!(places("pingpong"), ["p-lines-near", "p-lines-far"]);
    // A program of one process has no lines to wait for: it is the floor of both states.
    assert!(summary.tables.iter().filter(|t| t.measurement == "pingpong").all(|t| t.rows[0].carrier.is_some()));
}

/// A floor in a state that no library met is shown alone, without columns of missing figures.
#[test]
fn a_state_that_only_a_carrier_met_has_no_empty_columns() {
    let job = r#"{"record":"job","measurement":"pingpong","place":"p","library":"weft","round":0,"command":[],"outcome":"succeeded","why":null,"seconds":1.0}
{"record":"library","id":"carrier-udp","role":"carrier","title":"UDP","version":"","prefix":null,"environment":{}}
"#;
    let summary = run_with_lines("pingpong us 8 weft 0 1 32 33\n pingpong us 8 carrier-udp 0 2 155 155", job);
    let columns: Vec<usize> = summary.tables.iter().map(|table| table.columns.len()).collect();
    assert_eq!(columns, [2, 1]);
    assert_eq!(summary.tables[0].footnotes[0], "Other was not run here.");
    assert!(summary.tables[1].footnotes.iter().all(|note| !note.contains("Weft")), "{:?}", summary.tables[1].footnotes);
}

#[test]
fn one_state_has_the_tables_it_had() {
    let samples = "pingpong us 8 weft 0 1 32 33\n pingpong us 8 other 0 2 33 32\n pingpong us 8 weft 1 1 - 31";
    let summary = run_with_lines(samples, "");
    assert_eq!(summary.tables.len(), 1);
    assert_eq!(summary.tables[0].rows[0].cells[0].figure.unwrap().samples, 2);
    assert!(terminal(&summary, false).contains("1 host, 2 ranks, lines 32 ns (µs, lower is better)\n"));
    assert!(!summary.warnings.join(" ").contains("cache line"), "{:?}", summary.warnings);
}

/// The points of a sweep come before the line that tells its state.
#[test]
fn a_sweep_is_shown_with_its_state() {
    let point = |library: &str, number: u32| {
        format!(
            "{{\"record\":\"sample\",\"place\":\"p\",\"library\":\"{library}\",\"round\":0,\"measurement\":\"availability_sample\",\
             \"direction\":\"send\",\"size\":8,\"unit\":\"us\",\"value\":2,\"valid\":true,\"point\":{number},\"work_us\":{number},\
             \"iteration_us\":2}}\n"
        )
    };
    let result = |library: &str, ns: f64| {
        format!(
            "{{\"record\":\"sample\",\"place\":\"p\",\"library\":\"{library}\",\"round\":0,\"measurement\":\"availability\",\
             \"direction\":\"send\",\"size\":8,\"unit\":\"percent\",\"value\":90,\"valid\":true,\"overhead_us\":1,\"transfer_us\":2,\
             \"line_ns_before\":{ns},\"line_ns_after\":{ns}}}\n"
        )
    };
    let sweep = |library: &str, ns: f64| (0..4).map(|i| point(library, i)).collect::<String>() + &result(library, ns);
    // The second library's first sweep is broken off: its points belong to no sweep.
    let summary =
        run_of("", &(sweep("weft", 32.0) + &point("other", 0) + &sweep("weft", 155.0) + &sweep("other", 155.0)));
    let found: Vec<(&str, usize, usize)> =
        summary.sweeps.iter().map(|sweep| (sweep.place.id.as_str(), sweep.library, sweep.points.len())).collect();
    assert_eq!(found, [("p-lines-near", 0, 4), ("p-lines-far", 0, 4), ("p-lines-far", 1, 4)]);
}

/// Two measurements of one machine and one of another, in which Weft is 2 times as quick as its peer, then
/// half as quick.   Expect: a line each, which is read as it was written; a page that keeps the machines
/// apart, marks the latest standing, and draws what has a course. A record is never appended to something
/// else.
#[test]
fn a_record_tells_the_course_of_each_row_and_each_machine() {
    let run = |weft: u32| {
        let samples: String = (0..5)
            .map(|round| format!("pingpong us 8 weft {round} {weft}\npingpong us 8 other {round} 10\n"))
            .collect();
        run_of(&samples, "")
    };
    let of = |weft, processor: &str| {
        let mut summary = run(weft);
        summary.run.machine = vec![("processor".into(), processor.into()), ("processors".into(), "2".into())];
        summary
    };
    let counts = r#"{"architecture":"x","counts":[{"place":"one node","mode":"blocking","side":"sender","instructions":361.4,"system_calls":0.0}]}"#;
    let mut text = String::new();
    for (commit, weft, processor) in
        [("aaaaaaaaaaaa", 5, "AMD"), ("bbbbbbbbbbbb", 20, "AMD"), ("cccccccccccc", 10, "Intel")]
    {
        text += &history::entry(&[of(weft, processor)], commit, Some(counts)).unwrap().line().unwrap();
    }
    assert_eq!(text.lines().count(), 3);
    let entries = history::parse(&text, "record.jsonl").unwrap();
    let lines: String = entries.iter().map(|entry| entry.line().unwrap()).collect();
    assert_eq!(lines, text);
    let (page, charts) = history::page(&entries, "record");
    for said in [
        "## AMD, 2 processors",
        "## Intel, 2 processors",
        "| aaaaaaaa | bbbbbbbb | latest |",
        "| 8 | 2.00× | 0.500× |",
        "behind |",
        "level |",
        "behind in 1.",
        "| one node | blocking | sender | 361 | 0.00 |",
    ] {
        assert!(page.contains(said), "{said} is not in\n{page}");
    }
    let [(name, svg)] = &charts[..] else { panic!("only the AMD has a course: {charts:?}") };
    assert!(page.contains(&format!("(record/{name}.svg)")) && svg.contains("bbbbbbbb"));
    let mixed = history::entry(&[of(5, "AMD"), of(5, "Intel")], "d", None).unwrap_err().to_string();
    assert!(mixed.contains("two machines"), "{mixed}");
    for (wrong, said) in [
        ("", "has no entry"),
        ("hello\n", "line 1 is no entry"),
        (&text.replacen("\"format\":1", "\"format\":9", 1), "line 1 has format 9"),
    ] {
        let error = history::parse(wrong, "record.jsonl").unwrap_err().to_string();
        assert!(error.starts_with("record.jsonl") && error.contains(said), "{error}");
    }
    let alone = history::entry(&[run_of("pingpong us 8 weft 0 5", "")], "d", None).unwrap_err().to_string();
    assert!(alone.contains("no row of these runs"), "{alone}");
}

/// Weft takes as long as another library, then twice as long, then is measured alone.   Expect: only the
/// first passes the bar. The sentence names the row.
#[test]
fn a_bar_is_missed_where_a_row_is_behind() {
    let of = |weft: u32| {
        let samples =
            (0..5).map(|round| format!("pingpong us 8 weft {round} {weft}\npingpong us 8 other {round} 10\n"));
        run_of(&samples.collect::<String>(), "")
    };
    assert!(crate::report::keeps_up(&[of(10)]).is_ok());
    let said = crate::report::keeps_up(&[of(10), of(20)]).expect_err("twice as long").to_string();
    assert!(said.starts_with("1 of 2 rows are behind") && said.contains("8 B"), "{said}");
    let said = crate::report::keeps_up(&[run_of("pingpong us 8 weft 0 5", "")]).expect_err("alone").to_string();
    assert!(said.contains("no row"), "{said}");
}
