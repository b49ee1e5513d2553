//! Medians, quartiles, and ratios taken round by round.

use std::collections::BTreeMap;

/// A valid value and its round.
pub(crate) type Observation = (u32, f64);

/// The description of the values of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// The quartiles.
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) samples: usize,
    /// The number of rounds that have a valid sample.
    pub(crate) rounds: usize,
}

/// The quantile `q` in 0..=1 of sorted values, interpolated; the values are not empty.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median of finite values; None when there is none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values = sorted(values);
    (!values.is_empty()).then(|| quantile(&values, 0.5))
}

pub(crate) fn figure(observations: &[Observation]) -> Option<Figure> {
    let values = sorted(observations.iter().map(|(_, value)| *value));
    let (min, max) = (*values.first()?, *values.last()?);
    let [low, median, high] = [0.25, 0.5, 0.75].map(|q| quantile(&values, q));
    Some(Figure { median, low, high, min, max, samples: values.len(), rounds: by_round(observations).len() })
}

fn by_round(observations: &[Observation]) -> BTreeMap<u32, f64> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (round, value) in observations {
        rounds.entry(*round).or_default().push(*value);
    }
    rounds.into_iter().filter_map(|(round, values)| Some((round, median(values.into_iter())?))).collect()
}

/// Compares `ours` with `theirs` in each round that has both, by their medians there, and describes the
/// results: drift of the machine affects both values of a round alike. `samples` and `rounds` count rounds.
pub(crate) fn paired(
    ours: &[Observation],
    theirs: &[Observation],
    compare: impl Fn(f64, f64) -> f64,
) -> Option<Figure> {
    let theirs = by_round(theirs);
    let pairs =
        by_round(ours).into_iter().filter_map(|(round, mine)| Some((round, compare(mine, *theirs.get(&round)?))));
    figure(&pairs.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let values: Vec<Observation> = (1..=4).map(|i| (0, f64::from(i))).collect();
        let figure = figure(&values).unwrap();
        assert_eq!((figure.low, figure.median, figure.high), (1.75, 2.5, 3.25));
        assert_eq!((figure.min, figure.max, figure.samples, figure.rounds), (1.0, 4.0, 4, 1));
    }

    #[test]
    fn nothing_has_no_figure_and_infinity_is_nothing() {
        assert_eq!(figure(&[]), None);
        assert_eq!(figure(&[(0, f64::NAN), (1, f64::INFINITY)]), None);
        assert_eq!(median([f64::NAN, 3.0].into_iter()), Some(3.0));
    }

    /// Values in any order give the same figure: values from a small set, shuffled.
    #[test]
    fn order_does_not_matter() {
        let mut numbers = weft_random::Random::new(1);
        for _ in 0..500 {
            let mut random = || numbers.next();
            let length = 1 + random() % 12;
            let mut values: Vec<Observation> =
                (0..length).map(|_| ((random() % 4) as u32, (random() % 50) as f64)).collect();
            let (before, ratio) = (figure(&values), paired(&values, &values, |a, b| a - b));
            for i in (1..values.len()).rev() {
                values.swap(i, random() as usize % (i + 1));
            }
            assert_eq!(figure(&values), before, "{values:?}");
            assert_eq!(paired(&values, &values, |a, b| a - b), ratio);
            let figure = before.unwrap();
            assert!(figure.min <= figure.low && figure.low <= figure.median);
            assert!(figure.median <= figure.high && figure.high <= figure.max);
        }
    }

    /// The machine is twice as slow in the second round: the ratio of medians would say 1, the pairs say 2.
    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let ours = [(0, 2.0), (1, 4.0), (2, 8.0)];
        let theirs = [(1, 2.0), (2, 4.0), (3, 100.0), (0, 1.0)];
        let ratio = paired(&ours, &theirs, |mine, other| mine / other).unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high, ratio.rounds), (2.0, 2.0, 2.0, 3));
        assert_eq!(paired(&ours, &[(9, 1.0)], |a, b| a / b), None);
    }
}
