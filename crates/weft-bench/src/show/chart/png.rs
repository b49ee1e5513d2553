//! The drawing as a PNG file, twice as large as its SVG, for screens and papers.

use anyhow::Context;
use tiny_skia::{Color, FillRule, LineJoin, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::OutlineBuilder;

use super::canvas::{Anchor, Canvas, Ink, Shape, Text};
use super::font;

const SCALE: f32 = 2.0;

pub(super) fn write(canvas: &Canvas) -> anyhow::Result<Vec<u8>> {
    let (width, height) = (canvas.width as f32 * SCALE, canvas.height as f32 * SCALE);
    let mut pixels = Pixmap::new(width as u32, height as u32).context("a chart has a size")?;
    pixels.fill(Color::WHITE);
    let view = Transform::from_scale(SCALE, SCALE);
    for shape in &canvas.shapes {
        draw(&mut pixels, view, shape);
    }
    pixels.encode_png().context("cannot write a chart as PNG")
}

fn draw(pixels: &mut Pixmap, view: Transform, shape: &Shape) {
    match shape {
        Shape::Line { points, ink, width, dashes } => {
            let dashes: Vec<f32> = dashes.iter().map(|length| *length as f32).collect();
            let dash = StrokeDash::new(dashes, 0.0);
            let stroke = Stroke { width: *width as f32, dash, line_join: LineJoin::Round, ..Stroke::default() };
            if let Some(path) = path(points, false) {
                pixels.stroke_path(&path, &paint(*ink, 1.0), &stroke, view, None);
            }
        }
        Shape::Area { points, ink, opacity } => fill(pixels, view, points, &paint(*ink, *opacity)),
        Shape::Marker { points, ink, hollow } => {
            if !hollow {
                return fill(pixels, view, points, &paint(*ink, 1.0));
            }
            let mut white = Paint::default();
            white.set_color(Color::WHITE);
            fill(pixels, view, points, &white);
            let stroke = Stroke { width: 1.5, ..Stroke::default() };
            if let Some(path) = path(points, true) {
                pixels.stroke_path(&path, &paint(*ink, 1.0), &stroke, view, None);
            }
        }
        Shape::Text(text) => draw_text(pixels, view, text),
    }
}

fn fill(pixels: &mut Pixmap, view: Transform, points: &[(f64, f64)], paint: &Paint) {
    if let Some(path) = path(points, true) {
        pixels.fill_path(&path, paint, FillRule::Winding, view, None);
    }
}

fn path(points: &[(f64, f64)], closed: bool) -> Option<tiny_skia::Path> {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn paint(ink: Ink, opacity: f64) -> Paint<'static> {
    let number = u32::from_str_radix(ink.light().trim_start_matches('#'), 16).unwrap_or(0);
    let [_, red, green, blue] = number.to_be_bytes();
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, (opacity * 255.0) as u8);
    paint
}

fn draw_text(pixels: &mut Pixmap, view: Transform, text: &Text) {
    let width = font::width(&text.text, text.size, text.bold);
    let before = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    };
    let turn = if text.turned { Transform::from_rotate(-90.0) } else { Transform::identity() };
    let transform =
        view.pre_translate(text.x as f32, text.y as f32).pre_concat(turn).pre_translate(-before as f32, 0.0);
    let scale = font::scale(text.size, text.bold) as f32;
    let paint = paint(text.ink, 1.0);
    font::outline(&text.text, text.size, text.bold, |outline, pen| {
        let mut glyph = Glyph(PathBuilder::new());
        outline(&mut glyph);
        // Font units go up, pixels go down.
        let transform = transform.pre_translate(pen as f32, 0.0).pre_scale(scale, -scale);
        if let Some(path) = glyph.0.finish() {
            pixels.fill_path(&path, &paint, FillRule::Winding, transform, None);
        }
    });
}

struct Glyph(PathBuilder);

impl OutlineBuilder for Glyph {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.0.close();
    }
}
