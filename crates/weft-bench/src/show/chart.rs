//! Charts: the choice of charts (`gallery`), the layout of a plot (`plot`), and the drawing as SVG and PNG
//! (`canvas`, `png`).
//!
//! A chart is drawn once, into a list of lines, shapes and texts whose places and widths are known; SVG and
//! PNG are two ways to write that list down. So a test can tell whether two texts overlap.

mod axis;
mod bars;
mod canvas;
mod conceptual;
mod curves;
mod font;
mod gallery;
mod plot;
mod png;

pub(crate) use canvas::{Style, escape};
pub(crate) use curves::over_steps;
pub use curves::{Curve, Words, files as curve_files, svg as curves};
pub(crate) use gallery::{Chart, all, prefix};
