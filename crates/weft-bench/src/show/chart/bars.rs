//! Bars, for measurements at one size only.

use super::axis::LABEL_SIZE;
use super::canvas::{Anchor, Canvas, Ink};
use super::font;

const BARS_WIDTH: f64 = 420.0;
const BAR_HEIGHT: f64 = 20.0;
const PITCH: f64 = 30.0;
const GAP: f64 = 14.0;
const TITLE_SIZE: f64 = 15.0;
/// The room for quartiles, as a factor over the longest bar.
const ROOM_ABOVE: f64 = 1.25;

pub(super) struct Bar {
    pub(super) title: String,
    pub(super) colour: usize,
    pub(super) strong: bool,
    /// The median and the quartiles; None where there is no figure.
    pub(super) value: Option<(f64, f64, f64)>,
    /// The text beside the bar: the value with its unit, or the reason why there is none.
    pub(super) label: String,
}

pub(super) struct Bars {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) bars: Vec<Bar>,
}

impl Bars {
    pub(super) fn draw(&self) -> Canvas {
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let titles = widest(&mut self.bars.iter().map(|bar| font::width(&bar.title, LABEL_SIZE, bar.strong)));
        let labels = widest(&mut self.bars.iter().map(|bar| font::width(&bar.label, LABEL_SIZE, bar.strong)));
        let left = GAP + titles + 10.0;
        let top = GAP + TITLE_SIZE + 36.0;
        let subtitle = font::width(&self.subtitle, LABEL_SIZE, false).max(font::width(&self.title, TITLE_SIZE, true));
        let width = (left + BARS_WIDTH + 10.0 + labels + GAP).max(subtitle + 2.0 * GAP);
        let mut canvas = Canvas::new(width.ceil(), top + PITCH * self.bars.len() as f64 + GAP);
        let title = canvas.text(GAP, GAP + TITLE_SIZE - 2.0, Anchor::Start, &self.title);
        (title.size, title.bold, title.ink) = (TITLE_SIZE, true, Ink::Text);
        canvas.text(GAP, GAP + TITLE_SIZE + 16.0, Anchor::Start, &self.subtitle);
        // Quartiles that are far out end at the edge instead of flattening the bars.
        let largest =
            widest(&mut self.bars.iter().filter_map(|bar| bar.value).map(|(median, _, _)| median)) * ROOM_ABOVE;
        let scale = if largest > 0.0 { BARS_WIDTH / largest } else { 0.0 };
        for (i, bar) in self.bars.iter().enumerate() {
            draw_bar(&mut canvas, bar, left, top + i as f64 * PITCH, scale);
        }
        let bottom = top + PITCH * self.bars.len() as f64 - (PITCH - BAR_HEIGHT) / 2.0;
        canvas.line(&[(left, top - 5.0), (left, bottom)], Ink::Axis, 1.0, &[]);
        canvas
    }
}

fn draw_bar(canvas: &mut Canvas, bar: &Bar, left: f64, top: f64, scale: f64) {
    let middle = top + BAR_HEIGHT / 2.0;
    let text = canvas.text(left - 8.0, middle + 4.0, Anchor::End, &bar.title);
    (text.bold, text.ink) = (bar.strong, Ink::Text);
    let (mut end, ink) = (left, Ink::Series(bar.colour));
    if let Some((median, low, high)) = bar.value {
        let x = |value: f64| left + (value.max(0.0) * scale).min(BARS_WIDTH);
        end = x(median.max(high));
        let corners = [(left, top), (x(median), top), (x(median), top + BAR_HEIGHT), (left, top + BAR_HEIGHT)];
        canvas.area(&corners, ink, if bar.strong { 1.0 } else { 0.75 });
        if x(high) - x(low) > 2.0 {
            canvas.line(&[(x(low), middle), (x(high), middle)], Ink::Text, 1.5, &[]);
        }
    }
    let text = canvas.text(end + 8.0, middle + 4.0, Anchor::Start, &bar.label);
    text.bold = bar.strong;
    text.ink = if bar.value.is_some() { Ink::Text } else { Ink::Quiet };
}
