//! The font of the charts: DejaVu Sans, part of this program, so that pictures are the same on machines
//! without fonts.

use std::sync::LazyLock;

use ttf_parser::{Face, OutlineBuilder};

/// The fonts that browsers are asked for. DejaVu's letters are as wide as the letters of any of them, so text
/// that is measured here fits in a browser, too.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

static REGULAR: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(dejavu::sans::regular(), 0).ok());
static BOLD: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(dejavu::sans::bold(), 0).ok());

fn face(bold: bool) -> Option<&'static Face<'static>> {
    if bold { BOLD.as_ref() } else { REGULAR.as_ref() }
}

/// The width of `text` in pixels at a letter height of `size` pixels.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let Some(face) = face(bold) else { return 0.6 * size * text.chars().count() as f64 };
    let advance = |c: char| {
        let glyph = face.glyph_index(c).unwrap_or_default();
        f64::from(face.glyph_hor_advance(glyph).unwrap_or(0))
    };
    text.chars().map(advance).sum::<f64>() * size / f64::from(face.units_per_em())
}

/// Gives the outline of each letter of `text` to `builder`, with the pen's position and the scale from font
/// units to pixels.
pub(super) fn outline(
    text: &str,
    size: f64,
    bold: bool,
    mut glyph: impl FnMut(&mut dyn FnMut(&mut dyn OutlineBuilder), f64),
) {
    let Some(face) = face(bold) else { return };
    let scale = size / f64::from(face.units_per_em());
    let mut pen = 0.0;
    for c in text.chars() {
        let id = face.glyph_index(c).unwrap_or_default();
        glyph(
            &mut |builder| {
                face.outline_glyph(id, builder);
            },
            pen,
        );
        pen += f64::from(face.glyph_hor_advance(id).unwrap_or(0)) * scale;
    }
}

pub(super) fn scale(size: f64, bold: bool) -> f64 {
    face(bold).map_or(0.0, |face| size / f64::from(face.units_per_em()))
}
