//! Decides whether a quantity grows: a robust slope through noisy figures, with its certainty.

/// The bound below which a standard normal value lies with a probability of 99.5 %: the bounds of a slope
/// hold it with 99 %.
const Z: f64 = 2.576;

/// The slope through points, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    pub(crate) high: f64,
}

impl Slope {
    /// The median of the slopes between all pairs of points (H. Theil 1950), with the bounds that Kendall's
    /// test gives for it (P. K. Sen 1968): up to a quarter of the points may lie anywhere. `None` where there
    /// are too few points.
    pub(crate) fn through(points: &[(f64, f64)]) -> Option<Slope> {
        let mut slopes: Vec<f64> = Vec::with_capacity(points.len() * points.len() / 2);
        for (at, (x, y)) in points.iter().enumerate() {
            slopes.extend(
                points[at + 1..].iter().filter(|(other, _)| other != x).map(|(other, high)| (high - y) / (other - x)),
            );
        }
        slopes.sort_unstable_by(f64::total_cmp);
        let n = points.len() as f64;
        let spread = Z * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        let pairs = slopes.len() as f64;
        let (low, high) = (((pairs - spread) / 2.0).floor(), ((pairs + spread) / 2.0).ceil());
        if low < 0.0 || high >= pairs {
            return None;
        }
        Some(Slope { low: slopes[low as usize], middle: slopes[slopes.len() / 2], high: slopes[high as usize] })
    }
}

/// The middle of the sorted values.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The growth of a quantity between its first and its last point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) median: f64,
    pub(crate) slope: Slope,
    /// The distance between the first and the last point.
    pub(crate) span: f64,
}

impl Growth {
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<Growth> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let median = median(points.iter().map(|(_, y)| *y));
        Some(Growth { median, slope: Slope::through(points)?, span: last - first })
    }

    /// Returns whether the growth is certainly more than `tolerance`.
    pub(crate) fn exceeds(&self, tolerance: f64) -> bool {
        self.slope.low * self.span > tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random.
    fn noise(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
        })
    }

    /// Makes `count` points around 1000 that grow by `slope` each, with noise of `amplitude`; every eighth
    /// lies anywhere above.
    fn points(count: usize, slope: f64, amplitude: f64, seed: u64) -> Vec<(f64, f64)> {
        let outlier = |at: usize| if at % 8 == 3 { 5000.0 } else { 0.0 };
        let value =
            |(at, noise): (usize, f64)| (at as f64, 1000.0 + slope * at as f64 + amplitude * noise + outlier(at));
        noise(seed).take(count).enumerate().map(value).collect()
    }

    #[test]
    fn what_is_flat_does_not_grow_however_noisy() {
        for seed in 1..=200 {
            let growth = Growth::of(&points(60, 0.0, 300.0, seed)).expect("enough points");
            assert!(!growth.exceeds(100.0), "seed {seed}: {growth:?}");
            assert!((growth.median - 1000.0).abs() < 300.0);
        }
    }

    #[test]
    fn what_grows_is_found_in_noise_and_by_how_much() {
        for seed in 1..=200 {
            let growth = Growth::of(&points(60, 10.0, 100.0, seed)).expect("enough points");
            assert!(growth.exceeds(200.0), "seed {seed}: {growth:?}");
            assert!((growth.slope.middle - 10.0).abs() < 5.0, "seed {seed}: {growth:?}");
            assert!(growth.slope.low <= growth.slope.middle && growth.slope.middle <= growth.slope.high);
        }
    }

    #[test]
    fn a_count_that_grows_seldom_is_found() {
        let steps: Vec<(f64, f64)> = (0..60).map(|at| (f64::from(at), f64::from(at / 10))).collect();
        assert!(Growth::of(&steps).expect("enough points").exceeds(0.9));
        let once: Vec<(f64, f64)> = (0..60).map(|at| (f64::from(at), f64::from(u8::from(at > 30)))).collect();
        assert!(!Growth::of(&once).expect("enough points").exceeds(0.9), "one more is no slope");
    }

    #[test]
    fn few_points_say_nothing() {
        assert_eq!(Slope::through(&points(4, 10.0, 0.0, 1)), None);
        assert_eq!(Slope::through(&[]), None);
    }
}
