//! The tree in which agents are started on hosts: which of them `mpiexec` starts, and which a host starts
//! that has its agent already (docs/design/launch.md).

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Decide by the number of hosts.
    Auto,
    /// `mpiexec` starts all agents itself.
    Direct,
    /// `mpiexec`, and each host, starts at most so many.
    Of(usize),
}

/// The most hosts for which a tree does not pay, because opening all connections takes `mpiexec` little
/// longer than the second level of a tree would.
const DIRECT_MAX: usize = 100;
/// The widest tree that is chosen: as many commands as `mpiexec` itself has on their way at a time.
const WIDTH_MAX: usize = 32;

impl Width {
    /// Reads the value of an option or variable; `None`: it is none.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            // Hydra's word for a tree of one level.
            "none" | "-1" => Some(Self::Direct),
            number => number.parse().ok().filter(|&width| width > 0).map(Self::Of),
        }
    }

    /// The most agents that `mpiexec`, and each host, starts; `None`: `mpiexec` starts all. Hosts can reach
    /// each other as they are reached from here only where a remote shell does it (`by_shell`).
    fn choose(self, hosts: usize, by_shell: bool) -> Option<usize> {
        match self {
            Self::Direct => None,
            Self::Auto if hosts <= DIRECT_MAX || !by_shell => None,
            Self::Auto => Some(square(hosts)),
            Self::Of(width) => Some(width),
        }
        .filter(|&width| width < hosts)
    }
}

/// The smallest width with which a tree of two levels has so many hosts, or the widest.
fn square(hosts: usize) -> usize {
    (1..WIDTH_MAX).find(|width| width * (width + 1) >= hosts).unwrap_or(WIDTH_MAX)
}

/// For each host the host that starts its agent, which comes before it; `None`: `mpiexec` does.
pub(crate) fn starters(hosts: usize, width: Width, by_shell: bool) -> Vec<Option<usize>> {
    let Some(width) = width.choose(hosts, by_shell) else { return vec![None; hosts] };
    let mut starters = vec![None; width];
    // The hosts of the level above, each of which starts as many of the next level as the others, or one
    // more.
    let mut above = 0..width;
    while starters.len() < hosts {
        let first = starters.len();
        let count = above.len().saturating_mul(width).min(hosts - first);
        starters.extend((0..count).map(|index| Some(above.start + index % above.len())));
        above = first..first + count;
    }
    starters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        assert_eq!(
            ["auto", "none", "-1", "1", "16", "0", "-2", "", "wide"].map(Width::parse),
            [
                Some(Width::Auto),
                Some(Width::Direct),
                Some(Width::Direct),
                Some(Width::Of(1)),
                Some(Width::Of(16)),
                None,
                None,
                None,
                None
            ]
        );
    }

    #[test]
    fn small_trees_are_as_drawn() {
        let tree = |hosts, width| starters(hosts, Width::Of(width), false);
        assert_eq!(tree(0, 2), []);
        assert_eq!(tree(2, 2), [None, None]);
        assert_eq!(tree(3, 1), [None, Some(0), Some(1)]);
        assert_eq!(tree(5, 2), [None, None, Some(0), Some(1), Some(0)]);
        assert_eq!(tree(8, 2), [None, None, Some(0), Some(1), Some(0), Some(1), Some(2), Some(3)]);
    }

    /// Expect for all sizes: every host but those of `mpiexec` has a starter before it, nobody starts more
    /// than the width, and starters of one level start equally many.
    #[test]
    fn every_tree_reaches_every_host() {
        for hosts in 0..=300 {
            for width in 1..=33 {
                let tree = starters(hosts, Width::Of(width), false);
                assert_eq!(tree.len(), hosts);
                let mut started = vec![0; hosts];
                for (host, starter) in tree.iter().enumerate() {
                    if let Some(starter) = starter {
                        assert!(*starter < host, "{hosts} {width}");
                        started[*starter] += 1;
                    }
                }
                let own = tree.iter().filter(|starter| starter.is_none()).count();
                assert_eq!(own, width.min(hosts), "{hosts} {width}");
                assert!(started.iter().all(|&count| count <= width), "{hosts} {width}");
                let first = &started[..own];
                assert!(first.iter().max() <= first.iter().min().map(|least| least + 1).as_ref(), "{hosts} {width}");
            }
        }
    }

    #[test]
    fn a_tree_is_chosen_where_it_pays() {
        let own =
            |hosts, by_shell| starters(hosts, Width::Auto, by_shell).iter().filter(|starter| starter.is_none()).count();
        for (hosts, width) in
            [(1, 1), (64, 64), (100, 100), (101, 10), (256, 16), (1024, 32), (1056, 32), (1057, 32), (65536, 32)]
        {
            assert_eq!(own(hosts, true), width, "{hosts}");
            assert_eq!(own(hosts, false), hosts, "{hosts}");
        }
        // Expect: up to 1056 hosts no host is further than two commands away.
        let depth = |hosts| {
            let tree = starters(hosts, Width::Auto, true);
            let mut host = tree.len() - 1;
            std::iter::from_fn(|| tree[host].inspect(|&starter| host = starter)).count() + 1
        };
        assert_eq!([100, 101, 1056, 1057, 65536].map(depth), [1, 2, 2, 3, 4]);
        assert!(starters(1000, Width::Direct, true).iter().all(Option::is_none));
    }
}
