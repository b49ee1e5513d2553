//! The chart that explains how overhead and availability are measured (Doerfler and Brightwell, 2006), drawn
//! from one measured sweep.

use super::super::summary::Sweep;
use super::super::units;
use super::axis::{Axis, LABEL_SIZE, Scale};
use super::canvas::{Anchor, Canvas, Ink};
use super::font;
use super::plot::{Plot, Point, Series, marker};

/// The least distance of the lines of labels beside the plot.
const LABEL_PITCH: f64 = 17.0;

/// The number of transfer times above which an iteration is drawn at the edge: it was disturbed.
const SWEEP_TIMES_MAX: f64 = 3.0;

/// Draws the times of the iteration and of the work against the work, with the thresholds between which the
/// sweep runs.
pub(super) fn draw(sweep: &Sweep, title: &str, subtitle: &str, colour: usize) -> Canvas {
    let transfer = sweep.transfer_us;
    let (base, stop) = (transfer * sweep.base_threshold, transfer * sweep.stop_threshold);
    let last = sweep.points.last().copied().unwrap_or_default();
    let works = sweep.points.iter().map(|(work, _)| *work);
    let times = sweep.points.iter().map(|(_, time)| *time);
    let points = sweep.points.iter().map(|(work, time)| Point { x: *work, y: *time, low: *time, high: *time });
    let points: Vec<Point> = points.collect();
    let overhead = format!("overhead {}", units::with_unit(last.1 - last.0, "us"));
    let share = (1.0 - (last.1 - last.0) / transfer) * 100.0;
    let plot = Plot {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x_title: "work, µs".to_owned(),
        y_title: "time, µs".to_owned(),
        x: Axis::new(Scale::Linear, works.clone()),
        y: Axis::new(Scale::Linear, times.chain([stop])),
        series: Vec::new(),
        notes: vec![format!(
            "availability = 1 − overhead / transfer time = 1 − {} / {} = {} %",
            units::digits(last.1 - last.0),
            units::digits(transfer),
            units::value(share, "percent")
        )],
    };
    let stop_text = format!("{} × transfer time: ends", units::digits(sweep.stop_threshold));
    let base_text = format!("{} × transfer time", units::digits(sweep.base_threshold));
    let texts = [stop_text.as_str(), base_text.as_str(), "iteration", "work alone", overhead.as_str()];
    let right = texts.iter().map(|text| font::width(text, LABEL_SIZE, true)).fold(0.0, f64::max);
    let (mut canvas, area) = plot.frame(right + 8.0);
    let (x, y) = (|value: f64| area.x(&plot.x, value), |value: f64| area.y(&plot.y, value));
    let edge = area.left + area.width;
    for level in [base, stop] {
        canvas.line(&[(area.left, y(level)), (edge, y(level))], Ink::Quiet, 1.25, &[6.0, 4.0]);
    }
    // The first point above the base threshold: from here on the work shows in the iteration's time.
    if let Some((work, time)) = sweep.points.iter().find(|(_, time)| *time > base) {
        canvas.line(&[(x(*work), y(*time)), (x(*work), area.top + area.height)], Ink::Quiet, 1.25, &[2.0, 3.0]);
        let room = x(*work) - area.left > font::width("knee", LABEL_SIZE, false) + 12.0;
        let (aside, anchor) = if room { (-6.0, Anchor::End) } else { (6.0, Anchor::Start) };
        let text = canvas.text(x(*work) + aside, (y(*time) + area.top + area.height) / 2.0, anchor, "knee");
        text.ink = Ink::Text;
    }
    canvas.line(&[(x(0.0), y(0.0)), (x(last.0), y(last.0))], Ink::Axis, 1.75, &[]);
    canvas.line(&[(x(last.0), y(last.0)), (x(last.0), y(last.1))], Ink::Text, 2.5, &[]);
    let line: Vec<(f64, f64)> = points.iter().map(|point| (x(point.x), y(point.y))).collect();
    canvas.line(&line, Ink::Series(colour), 3.0, &[]);
    for (px, py) in &line {
        marker(&mut canvas, *px, *py, colour, false);
    }
    let mut labels = vec![
        (y(stop), stop_text.as_str(), Ink::Quiet, false),
        (y(base), base_text.as_str(), Ink::Quiet, false),
        (y(last.1), "iteration", Ink::Series(colour), true),
        (y((last.0 + last.1) / 2.0), overhead.as_str(), Ink::Text, true),
        (y(last.0), "work alone", Ink::Text, false),
    ];
    spread(&mut labels, area.top, area.top + area.height);
    for (at, text, ink, bold) in labels {
        let text = canvas.text(edge + 10.0, at + 4.0, Anchor::Start, text);
        (text.ink, text.bold) = (ink, bold);
    }
    canvas
}

/// Moves labels, in order from above, until none touches the next.
fn spread(labels: &mut [(f64, &str, Ink, bool)], top: f64, bottom: f64) {
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = top;
    for label in labels.iter_mut() {
        label.0 = label.0.max(least);
        least = label.0 + LABEL_PITCH;
    }
    let mut most = bottom;
    for label in labels.iter_mut().rev() {
        label.0 = label.0.min(most);
        most = label.0 - LABEL_PITCH;
    }
}

/// Draws the sweeps of several libraries over each other, in units of each library's transfer time.
pub(super) fn sweeps(sweeps: &[(&Sweep, Series)], title: String, subtitle: String) -> Canvas {
    let scaled = |sweep: &Sweep| -> Vec<Point> {
        let scale = |(work, time): &(f64, f64)| (work / sweep.transfer_us, time / sweep.transfer_us);
        sweep.points.iter().map(scale).map(|(x, y)| Point { x, y, low: y, high: y }).collect()
    };
    let mut series: Vec<Series> =
        sweeps.iter().map(|(sweep, series)| Series { points: scaled(sweep), ..series.clone() }).collect();
    let all: Vec<Point> = series.iter().flat_map(|series| series.points.clone()).collect();
    let most = all.iter().map(|point| point.x).fold(0.0, f64::max);
    let end = |x: f64| Point { x, y: x, low: x, high: x };
    let points = vec![end(0.0), end(most)];
    series.push(Series { title: "work alone".to_owned(), colour: 7, dashed: true, strong: false, points });
    Plot {
        title,
        subtitle,
        x_title: "work / transfer time".to_owned(),
        y_title: "iteration / transfer time".to_owned(),
        x: Axis::new(Scale::Linear, all.iter().map(|point| point.x)),
        y: Axis::new(Scale::Linear, all.iter().map(|point| point.y.min(SWEEP_TIMES_MAX))),
        series,
        notes: vec![
            "The nearer to the dashed line a sweep ends, the less the transfer took from the application.".to_owned(),
        ],
    }
    .draw()
}
