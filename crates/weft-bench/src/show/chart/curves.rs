//! Curves that belong to no run: a name and some points each.

use super::axis::{Axis, Scale};
use super::canvas::{Canvas, PALETTE};
use super::plot::{Plot, Point, Series};
use super::png;

/// A curve: its title, and its points from left to right.
pub type Curve = (String, Vec<(f64, f64)>);

/// The texts around the curves.
pub struct Words<'a> {
    /// The title above the plot.
    pub title: &'a str,
    /// The smaller line below the title.
    pub subtitle: &'a str,
    /// The quantity on the axis to the right.
    pub x: &'a str,
    /// The quantity on the axis upwards.
    pub y: &'a str,
}

/// Draws curves over powers of two, with a logarithmic axis upwards, as an SVG file.
pub fn svg(words: &Words<'_>, curves: &[Curve]) -> String {
    draw(words, curves).file(words.title)
}

/// Draws curves as `svg` does, as an SVG and as a PNG file.
///
/// # Errors
/// There is no room for the picture.
pub fn files(words: &Words<'_>, curves: &[Curve]) -> anyhow::Result<(String, Vec<u8>)> {
    let canvas = draw(words, curves);
    Ok((canvas.file(words.title), png::write(&canvas)?))
}

/// Draws curves over steps that have these names, the first one at 1, with a logarithmic axis upwards, as an
/// SVG file.
pub(crate) fn over_steps(words: &Words<'_>, names: &[String], curves: &[Curve]) -> String {
    let ticks = (1..).zip(names).map(|(step, name)| (f64::from(step), name.clone())).collect();
    let x = Axis { scale: Scale::Linear, low: 0.5, high: names.len() as f64 + 0.5, ticks };
    plot(words, x, curves).draw().file(words.title)
}

fn draw(words: &Words<'_>, curves: &[Curve]) -> Canvas {
    let x = Axis::powers(curves.iter().flat_map(|(_, points)| points).map(|(x, _)| *x));
    plot(words, x, curves).draw()
}

fn plot(words: &Words<'_>, x: Axis, curves: &[Curve]) -> Plot {
    let points = || curves.iter().flat_map(|(_, points)| points);
    Plot {
        title: words.title.to_owned(),
        subtitle: words.subtitle.to_owned(),
        x_title: words.x.to_owned(),
        y_title: words.y.to_owned(),
        x,
        y: Axis::new(Scale::Log, points().map(|(_, y)| *y)),
        series: curves
            .iter()
            .enumerate()
            .map(|(number, (title, points))| Series {
                title: title.clone(),
                colour: number % PALETTE.len(),
                dashed: number >= PALETTE.len(),
                strong: false,
                points: points.iter().map(|&(x, y)| Point { x, y, low: y, high: y }).collect(),
            })
            .collect(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_and_every_word_is_drawn() {
        let words = Words { title: "barrier", subtitle: "leaf and spine", x: "ranks", y: "us" };
        let curves = [("8 B".to_owned(), vec![(2.0, 10.0), (4096.0, 100.0)]), ("1 MB".to_owned(), vec![(2.0, 1000.0)])];
        let svg = svg(&words, &curves);
        for text in ["barrier", "leaf and spine", "ranks", "8 B", "1 MB", "4096"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }
}
