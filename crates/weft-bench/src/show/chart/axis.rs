//! The axes of a chart: the pixel of a value, and the places of the tick marks.

use super::super::units;
use super::font;

/// The least distance between labels of an axis.
const LABELS_APART: f64 = 10.0;
pub(super) const LABEL_SIZE: f64 = 12.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// Powers of ten, with 2 and 5 where there are few.
    Log,
    /// Message sizes: powers of two.
    Sizes,
}

#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Makes an axis that has room for all values; a linear axis includes zero. Values without a logarithm
    /// are left out of a logarithmic axis.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let values: Vec<f64> = values.filter(|v| v.is_finite() && (scale == Scale::Linear || *v > 0.0)).collect();
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        if values.is_empty() {
            return Axis { scale, low: 1.0, high: 10.0, ticks: Vec::new() };
        }
        match scale {
            Scale::Linear => linear(low.min(0.0), high.max(0.0)),
            Scale::Log => log(low, high),
            Scale::Sizes => sizes(values, low, high),
        }
    }

    /// Makes an axis of powers of two, each with its number, from the lowest value to the highest.
    pub(super) fn powers(values: impl Iterator<Item = f64>) -> Axis {
        let bits: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log2).collect();
        let low = bits.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = bits.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        if !low.is_finite() {
            return Axis { scale: Scale::Sizes, low: 1.0, high: 2.0, ticks: Vec::new() };
        }
        let ticks = (low as i32..=high as i32).map(|bit| 2_f64.powi(bit)).map(|value| (value, value.to_string()));
        Axis { scale: Scale::Sizes, low: low.exp2(), high: high.exp2(), ticks: ticks.collect() }
    }

    /// The place of a value, 0 at the low end and 1 at the high end; values outside lie outside.
    pub(super) fn at(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.scale == Scale::Linear { value } else { value.max(f64::MIN_POSITIVE).log2() };
        let (low, high) = (scaled(self.low), scaled(self.high));
        if high > low { (scaled(value) - low) / (high - low) } else { 0.5 }
    }

    /// Leaves out the labels that would touch another label along `length` pixels; the marks of the axis
    /// stay.
    pub(super) fn thinned(&self, length: f64) -> Vec<(f64, &str)> {
        let mut end = f64::NEG_INFINITY;
        let mut kept = Vec::new();
        for (value, label) in &self.ticks {
            let (at, half) = (self.at(*value) * length, font::width(label, LABEL_SIZE, false) / 2.0);
            if at - half >= end + LABELS_APART {
                kept.push((*value, label.as_str()));
                end = at + half;
            } else {
                kept.push((*value, ""));
            }
        }
        kept
    }

    pub(super) fn label_width(&self) -> f64 {
        self.ticks.iter().map(|(_, label)| font::width(label, LABEL_SIZE, false)).fold(0.0, f64::max)
    }
}

/// The distance of ticks: 1, 2 or 5 times a power of ten, so that about `count` ticks fill `span`.
fn step(span: f64, count: f64) -> f64 {
    let rough = span / count;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(rough)
}

fn linear(low: f64, high: f64) -> Axis {
    let span = if high > low { high - low } else { 1.0 };
    let step = step(span, 5.0);
    let (first, last) = ((low / step).floor() as i64, ((low + span) / step).ceil() as i64);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let label = |value: f64| match value {
        value if high.abs() >= 1e6 => units::digits(value / 1e6) + " M",
        value => format!("{value:.decimals$}").replace('-', "−"),
    };
    let ticks = (first..=last).map(|i| i as f64 * step).map(|value| (value, label(value))).collect();
    Axis { scale: Scale::Linear, low: first as f64 * step, high: last as f64 * step, ticks }
}

fn log(low: f64, high: f64) -> Axis {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil().max(low.log10().floor() + 1.0) as i32);
    let steps: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
    let all: Vec<f64> = all.collect();
    let bottom = all.iter().copied().filter(|v| *v <= low * 1.000_001).fold(10_f64.powi(first), f64::max);
    let top = all.iter().copied().filter(|v| *v >= high * 0.999_999).fold(10_f64.powi(last), f64::min);
    let top = if top > bottom { top } else { bottom * 10.0 };
    let ticks = all.into_iter().filter(|v| *v >= bottom * 0.99 && *v <= top * 1.01).map(|v| (v, plain(v))).collect();
    Axis { scale: Scale::Log, low: bottom, high: top, ticks }
}

/// The label of a mark on a logarithmic axis: `0.5`, `20`, `1000`.
fn plain(value: f64) -> String {
    let decimals = (-value.log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

fn sizes(mut values: Vec<f64>, low: f64, high: f64) -> Axis {
    values.sort_by(f64::total_cmp);
    values.dedup();
    let ticks = values.iter().map(|v| (*v, units::size(*v as u64))).collect();
    // Half a power of two of free space on both sides keeps markers off the edges.
    Axis { scale: Scale::Sizes, low: low / 1.5, high: high * 1.5, ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        Axis::new(scale, values.iter().copied()).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!(labels(Scale::Linear, &[3.0, 97.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(Scale::Linear, &[-58.0, 99.0]), ["−100", "−50", "0", "50", "100"]);
        assert_eq!(labels(Scale::Log, &[0.3, 4.0]), ["0.2", "0.5", "1", "2", "5"]);
        assert_eq!(labels(Scale::Log, &[0.3, 9000.0]), ["0.1", "1", "10", "100", "1000", "10000"]);
        assert_eq!(labels(Scale::Sizes, &[65536.0, 8.0, 8.0]), ["8", "64 KB"]);
        assert_eq!(labels(Scale::Log, &[f64::NAN, 0.0]), Vec::<String>::new());
    }

    #[test]
    fn every_value_is_inside() {
        for scale in [Scale::Linear, Scale::Log, Scale::Sizes] {
            for values in [vec![5.0], vec![0.1, 0.2], vec![1.0, 1e9], vec![999.0, 1001.0], vec![0.0004, 0.02]] {
                let axis = Axis::new(scale, values.iter().copied());
                for value in &values {
                    assert!((0.0..=1.0).contains(&axis.at(*value)), "{scale:?} {values:?} {axis:?}");
                }
                assert!(axis.ticks.len() <= 14, "{scale:?} {values:?}");
            }
        }
    }
}
