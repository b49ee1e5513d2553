//! The time that a cache line takes between the processors, and the states of a machine that it reveals.
//!
//! The host of virtual processors moves them about. At one time two virtual processors share a core or a
//! cache, at another time they do not, and the same program runs at another pace. The measured programs
//! print, before and after each sample, the time that a line took (`bench/programs/lines.h`). No figure is
//! expected: the states are found in the figures of the run itself.

/// The ratio above which two figures belong to different states when no figure lies between them.
pub(crate) const CHANGE_RATIO: f64 = 1.4;
/// Samples of one size that a program may take again in a job, because the lines changed while they were
/// taken.
pub(crate) const REPEATS_MAX: u32 = 3;
/// The ratio below which two figures count as the same.
const SAME_RATIO: f64 = 1.15;
/// The share of all figures that a figure must have near it, itself included, to make a state. A figure with
/// fewer was taken while something else ran, or while the state changed.
const SHARE_MIN: f64 = 0.02;

/// With this relation a figure is near to one state at most.
const _: () = assert!(SAME_RATIO * SAME_RATIO < CHANGE_RATIO);

/// Figures that belong together, in nanoseconds that a line takes one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) low_ns: f64,
    pub(crate) median_ns: f64,
    pub(crate) high_ns: f64,
}

impl State {
    fn holds(&self, ns: f64) -> bool {
        (self.low_ns / SAME_RATIO..=self.high_ns * SAME_RATIO).contains(&ns)
    }
}

/// The state in which a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The sample was taken in this state, before and after.
    State(usize),
    /// The states before and after differ, or one of the figures belongs to no state.
    Changed,
    /// The line could not be measured before, or after: another program had a processor.
    Unknown,
}

/// The states of a run from all its figures, the nearest first: a cut wherever two neighbours are further
/// apart than `CHANGE_RATIO`. Figures that are not positive and finite are no figures.
pub(crate) fn states(figures: &[f64]) -> Vec<State> {
    let mut sorted: Vec<f64> = figures.iter().copied().filter(|ns| ns.is_finite() && *ns > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let least = (sorted.len() as f64 * SHARE_MIN).ceil() as usize;
    let near = |ns: f64| {
        let below = sorted.partition_point(|other| *other < ns / SAME_RATIO);
        sorted.partition_point(|other| *other <= ns * SAME_RATIO) - below
    };
    let kept: Vec<f64> = sorted.iter().copied().filter(|ns| near(*ns) >= least).collect();
    let groups = kept.chunk_by(|low, high| *high <= *low * CHANGE_RATIO);
    groups
        .map(|group| State { low_ns: group[0], median_ns: group[group.len() / 2], high_ns: group[group.len() - 1] })
        .collect()
}

/// The state of a sample, from the figures before and after it.
pub(crate) fn classify(before: Option<f64>, after: Option<f64>, states: &[State]) -> Class {
    let (Some(before), Some(after)) = (before, after) else { return Class::Unknown };
    let state = |ns: f64| states.iter().position(|state| state.holds(ns));
    match (state(before), state(after)) {
        (Some(first), Some(second)) if first == second => Class::State(first),
        _ => Class::Changed,
    }
}

/// The name of a state among `count` states: `near` and `far` are the ends.
pub(crate) fn name(state: usize, count: usize) -> String {
    match state {
        0 => "near".to_owned(),
        last if last + 1 == count => "far".to_owned(),
        1 if count == 3 => "between".to_owned(),
        other => format!("between-{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures, and the states that they make as (low, median, high).
    type Row = (&'static str, &'static [f64], &'static [(f64, f64, f64)]);

    const STATES: &[Row] = &[
        ("nothing measured", &[], &[]),
        ("one figure", &[32.0], &[(32.0, 32.0, 32.0)]),
        ("a quiet machine", &[31.0, 33.0, 32.0, 34.0], &[(31.0, 33.0, 34.0)]),
        ("two states", &[157.0, 33.0, 31.0, 166.0, 32.0], &[(31.0, 32.0, 33.0), (157.0, 166.0, 166.0)]),
        (
            "one core, one cache, two caches",
            &[15.0, 14.0, 32.0, 160.0],
            &[(14.0, 15.0, 15.0), (32.0, 32.0, 32.0), (160.0, 160.0, 160.0)],
        ),
        ("no clear gap", &[30.0, 40.0, 50.0, 60.0, 75.0, 90.0], &[(30.0, 60.0, 90.0)]),
        ("what is no figure", &[f64::NAN, 0.0, -1.0, f64::INFINITY, 32.0], &[(32.0, 32.0, 32.0)]),
    ];

    #[test]
    fn states_are_found_in_the_figures() {
        for (what, figures, expected) in STATES {
            let found: Vec<_> = states(figures).iter().map(|s| (s.low_ns, s.median_ns, s.high_ns)).collect();
            assert_eq!(found, *expected, "{what}");
        }
    }

    /// A hundred figures of each of two states, and a few between them that would join the two.
    #[test]
    fn stray_figures_do_not_join_two_states() {
        let mut figures: Vec<f64> =
            (0..100).flat_map(|i| [32.0 + f64::from(i % 3), 155.0 + f64::from(i % 9)]).collect();
        figures.extend([42.0, 55.0, 70.0, 90.0, 118.0]);
        let found = states(&figures);
        assert_eq!(
            found.iter().map(|state| (state.low_ns, state.high_ns)).collect::<Vec<_>>(),
            [(32.0, 34.0), (155.0, 163.0)]
        );
        assert_eq!(classify(Some(32.0), Some(70.0), &found), Class::Changed);
    }

    #[test]
    fn a_sample_is_of_one_state_only_if_both_figures_are() {
        let two = states(&[32.0, 34.0, 155.0, 160.0]);
        let table: &[(Option<f64>, Option<f64>, Class)] = &[
            (Some(32.0), Some(34.0), Class::State(0)),
            (Some(160.0), Some(155.0), Class::State(1)),
            (Some(29.0), Some(38.0), Class::State(0)),
            (Some(170.0), Some(140.0), Class::State(1)),
            (Some(32.0), Some(155.0), Class::Changed),
            (Some(155.0), Some(34.0), Class::Changed),
            (Some(32.0), Some(75.0), Class::Changed),
            (Some(75.0), Some(75.0), Class::Changed),
            (None, Some(32.0), Class::Unknown),
            (Some(32.0), None, Class::Unknown),
            (None, None, Class::Unknown),
        ];
        for (before, after, expected) in table {
            assert_eq!(classify(*before, *after, &two), *expected, "{before:?} {after:?}");
        }
        assert_eq!(classify(Some(1.0), Some(1.0), &[]), Class::Changed);
    }

    #[test]
    fn states_have_names() {
        assert_eq!([name(0, 2), name(1, 2)], ["near", "far"]);
        assert_eq!([name(0, 3), name(1, 3), name(2, 3)], ["near", "between", "far"]);
        assert_eq!([name(1, 4), name(2, 4), name(3, 4)], ["between-1", "between-2", "far"]);
    }
}
