//! A plot with two axes, some series, and a legend to its right.

use super::axis::{Axis, LABEL_SIZE};
use super::canvas::{Anchor, Canvas, Ink};
use super::font;

const PLOT_WIDTH: f64 = 560.0;
const PLOT_HEIGHT: f64 = 320.0;
const GAP: f64 = 14.0;
const TITLE_SIZE: f64 = 15.0;
const LINE_HEIGHT: f64 = 20.0;
const MARKER: f64 = 4.5;
/// The distance between the quartiles of libraries at the same size, which are drawn beside each other.
const WHISKERS_APART: f64 = 3.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The quartiles.
    pub(super) low: f64,
    pub(super) high: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) title: String,
    /// The index of the colour in the palette; the marker follows from it.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    pub(super) strong: bool,
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// The lines below the plot.
    pub(super) notes: Vec<String>,
}

/// The place of the plot in the drawing: left, top, width, height.
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.at(value).clamp(0.0, 1.0) * self.width
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.top + (1.0 - axis.at(value).clamp(0.0, 1.0)) * self.height
    }
}

impl Plot {
    pub(super) fn draw(&self) -> Canvas {
        let legend =
            self.series.iter().map(|series| font::width(&series.title, LABEL_SIZE, series.strong)).fold(0.0, f64::max);
        let (mut canvas, area) = self.frame(legend + 34.0);
        // The strongest series lies on top.
        let (strong, others): (Vec<&Series>, Vec<&Series>) = self.series.iter().partition(|series| series.strong);
        for series in others.into_iter().chain(strong) {
            let index = self.series.iter().position(|one| std::ptr::eq(one, series)).unwrap_or(0);
            let middle = (self.series.len() as f64 - 1.0) / 2.0;
            self.draw_series(&mut canvas, &area, series, (index as f64 - middle) * WHISKERS_APART);
        }
        for (i, series) in self.series.iter().enumerate() {
            let (x, y) = (area.left + area.width + GAP, area.top + 10.0 + i as f64 * LINE_HEIGHT);
            let ink = Ink::Series(series.colour);
            canvas.line(&[(x, y), (x + 26.0, y)], ink, if series.strong { 3.0 } else { 1.75 }, dashes(series));
            marker(&mut canvas, x + 13.0, y, series.colour, false);
            let text = canvas.text(x + 32.0, y + 4.0, Anchor::Start, &series.title);
            (text.bold, text.ink) = (series.strong, Ink::Text);
        }
        canvas
    }

    /// Draws titles, axes, grid and notes, with `right` pixels left free beside the plot.
    pub(super) fn frame(&self, right: f64) -> (Canvas, Area) {
        let left = GAP + LABEL_SIZE + 8.0 + self.y.label_width() + 8.0;
        let top = GAP + TITLE_SIZE + LINE_HEIGHT + 12.0;
        let area = Area { left, top, width: PLOT_WIDTH, height: PLOT_HEIGHT };
        let below = top + PLOT_HEIGHT + LINE_HEIGHT * (2.0 + self.notes.len() as f64) + GAP;
        let mut width = left + PLOT_WIDTH + GAP + right + GAP;
        let lines = [(&self.title, TITLE_SIZE, true), (&self.subtitle, LABEL_SIZE, false)].into_iter();
        for (line, size, bold) in lines.chain(self.notes.iter().map(|note| (note, LABEL_SIZE, false))) {
            width = width.max(font::width(line, size, bold) + 2.0 * GAP);
        }
        let mut canvas = Canvas::new(width.ceil(), below.ceil());
        let title = canvas.text(GAP, GAP + TITLE_SIZE - 2.0, Anchor::Start, &self.title);
        (title.size, title.bold, title.ink) = (TITLE_SIZE, true, Ink::Text);
        canvas.text(GAP, GAP + TITLE_SIZE + LINE_HEIGHT - 4.0, Anchor::Start, &self.subtitle);
        self.axes(&mut canvas, &area);
        for (i, note) in self.notes.iter().enumerate() {
            let y = area.top + area.height + LINE_HEIGHT * (3.0 + i as f64);
            canvas.text(GAP, y, Anchor::Start, note);
        }
        (canvas, area)
    }

    fn axes(&self, canvas: &mut Canvas, area: &Area) {
        let (right, bottom) = (area.left + area.width, area.top + area.height);
        for (value, label) in self.x.thinned(area.width) {
            let x = area.x(&self.x, value);
            canvas.line(&[(x, area.top), (x, bottom)], Ink::Grid, 1.0, &[]);
            if !label.is_empty() {
                canvas.text(x, bottom + 17.0, Anchor::Middle, label);
            }
        }
        for (value, label) in &self.y.ticks {
            let y = area.y(&self.y, *value);
            canvas.line(&[(area.left, y), (right, y)], Ink::Grid, 1.0, &[]);
            canvas.text(area.left - 7.0, y + 4.0, Anchor::End, label);
        }
        if self.y.low < 0.0 && self.y.high > 0.0 {
            let zero = area.y(&self.y, 0.0);
            canvas.line(&[(area.left, zero), (right, zero)], Ink::Axis, 1.0, &[]);
        }
        canvas.line(&[(area.left, area.top), (area.left, bottom), (right, bottom)], Ink::Axis, 1.0, &[]);
        canvas.text(area.left + area.width / 2.0, bottom + 36.0, Anchor::Middle, &self.x_title);
        let title = canvas.text(GAP + LABEL_SIZE - 2.0, area.top + area.height / 2.0, Anchor::Middle, &self.y_title);
        title.turned = true;
    }

    fn draw_series(&self, canvas: &mut Canvas, area: &Area, series: &Series, aside: f64) {
        let ink = Ink::Series(series.colour);
        let position = |point: &Point| (area.x(&self.x, point.x), area.y(&self.y, point.y));
        let line: Vec<(f64, f64)> = series.points.iter().map(position).collect();
        for point in &series.points {
            let (x, _) = position(point);
            let (low, high) = (area.y(&self.y, point.low), area.y(&self.y, point.high));
            if low - high > 2.0 * MARKER {
                canvas.line(&[(x + aside, low), (x + aside, high)], ink, 1.0, &[]);
            }
        }
        canvas.line(&line, ink, if series.strong { 3.0 } else { 1.75 }, dashes(series));
        for point in &series.points {
            let (x, y) = position(point);
            let outside = !(0.0..=1.0).contains(&self.y.at(point.y));
            marker(canvas, x, y, series.colour, outside);
        }
    }
}

fn dashes(series: &Series) -> &'static [f64] {
    if series.dashed { &[5.0, 4.0] } else { &[] }
}

/// Draws a marker, whose shape follows from the colour, so that a print in grey can be read. Hollow: the
/// value is beyond the edge.
pub(super) fn marker(canvas: &mut Canvas, x: f64, y: f64, colour: usize, hollow: bool) {
    let polygon = |corners: usize, turn: f64, size: f64| -> Vec<(f64, f64)> {
        let angle = |i: usize| std::f64::consts::TAU * (i as f64 / corners as f64 + turn);
        (0..corners).map(|i| (x + size * angle(i).cos(), y + size * angle(i).sin())).collect()
    };
    let points = match colour {
        0 => polygon(20, 0.0, MARKER + 0.5),
        1 => polygon(4, 0.125, MARKER + 1.0),
        2 => polygon(3, -0.25, MARKER + 1.5),
        3 => polygon(4, 0.0, MARKER + 1.5),
        4 => polygon(3, 0.25, MARKER + 1.5),
        5 => polygon(5, -0.25, MARKER + 1.0),
        6 => polygon(6, 0.0, MARKER + 1.0),
        7 => cross(x, y, 0.125),
        8 => cross(x, y, 0.0),
        _ => hourglass(x, y),
    };
    canvas.shapes.push(super::canvas::Shape::Marker { points, ink: Ink::Series(colour), hollow });
}

/// Two triangles that meet in a point.
fn hourglass(x: f64, y: f64) -> Vec<(f64, f64)> {
    let (wide, high) = (MARKER, MARKER + 1.0);
    vec![(x - wide, y - high), (x + wide, y - high), (x - wide, y + high), (x + wide, y + high)]
}

/// A plus, or a cross when turned by an eighth of a circle.
fn cross(x: f64, y: f64, turn: f64) -> Vec<(f64, f64)> {
    let (long, thin) = (MARKER + 1.5, 1.2);
    let corners = [
        (long, thin),
        (thin, thin),
        (thin, long),
        (-thin, long),
        (-thin, thin),
        (-long, thin),
        (-long, -thin),
        (-thin, -thin),
        (-thin, -long),
        (thin, -long),
        (thin, -thin),
        (long, -thin),
    ];
    let (sin, cos) = (std::f64::consts::TAU * turn).sin_cos();
    corners.map(|(a, b)| (x + a * cos - b * sin, y + a * sin + b * cos)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{CARRIER_COLOURS, PALETTE, Shape};
    use super::*;

    #[test]
    fn every_series_has_a_marker_of_its_own_and_carriers_differ_in_grey_too() {
        let outlines: Vec<Vec<(f64, f64)>> = (0..PALETTE.len())
            .map(|colour| {
                let mut canvas = Canvas::new(10.0, 10.0);
                marker(&mut canvas, 5.0, 5.0, colour, false);
                match canvas.shapes.pop() {
                    Some(Shape::Marker { points, .. }) => points,
                    _ => Vec::new(),
                }
            })
            .collect();
        for (index, outline) in outlines.iter().enumerate() {
            assert!(!outline.is_empty() && !outlines[..index].contains(outline), "the marker of colour {index}");
        }
        // The luma of a print in grey, of 255.
        let luma = |colour: &str| {
            let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal"));
            0.299 * part(1) + 0.587 * part(3) + 0.114 * part(5)
        };
        let mut greys: Vec<f64> = PALETTE[CARRIER_COLOURS].iter().map(|(light, _)| luma(light)).collect();
        greys.sort_by(f64::total_cmp);
        assert!(greys.windows(2).all(|pair| pair[1] - pair[0] > 25.0), "{greys:?}");
    }
}
