//! The schemes of Liu, Mamidala and Panda ("Fast and Scalable MPI-Level Broadcast using InfiniBand's Hardware
//! Multicast Support", IPDPS 2004): who acknowledges to whom, how often, and whether the root waits.

use core::fmt;
use core::str::FromStr;

/// Most broadcasts that one acknowledgement may stand for.
pub const AGGREGATE_MAX: u32 = 1000;

/// A way to make multicast reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheme {
    /// The root's call ends when all have acknowledged; otherwise it ends when the root's buffer is free
    /// again.
    pub blocking: bool,
    /// Members that gather the acknowledgements of others and repair their losses; 0: the root does so for
    /// all.
    pub co_roots: u32,
    /// Broadcasts for which there is one acknowledgement; at least 1.
    pub aggregate: u32,
    /// Acknowledgements are written into slots that the root looks at, where the carrier writes to memory of
    /// peers by itself; they are no packets.
    pub written: bool,
}

impl Scheme {
    /// All members acknowledge each broadcast to the root, and the root waits for them.
    pub const BASIC: Self = Self { blocking: true, co_roots: 0, aggregate: 1, written: false };
    /// The root goes on while it has room in its window.
    pub const WINDOW: Self = Self { blocking: false, co_roots: 0, aggregate: 1, written: false };
    /// The root goes on while it has room in its window, and acknowledgements are written.
    pub const WRITTEN: Self = Self { written: true, ..Self::WINDOW };

    /// The scheme of a group of `members` without a setting. The acknowledgements of a large group would keep
    /// the root busy, so it has co-roots: as many as each co-root has members.
    pub fn for_members(members: u32) -> Self {
        let co_roots = if members > DIRECT_MEMBERS_MAX { members.isqrt() } else { 0 };
        Self { co_roots, aggregate: 10, ..Self::WINDOW }
    }
}

/// Members of a group that acknowledge to the root directly, unless a setting says otherwise.
const DIRECT_MEMBERS_MAX: u32 = 16;

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BASIC => f.write_str("basic"),
            Self::WINDOW => f.write_str("window"),
            Self { written: true, .. } => f.write_str("written"),
            Self { co_roots: 0, aggregate, .. } => write!(f, "aggregate-{aggregate}"),
            Self { co_roots, aggregate: 1, .. } => write!(f, "coroot-{co_roots}"),
            Self { co_roots, aggregate, .. } => write!(f, "coroot-{co_roots}+aggregate-{aggregate}"),
        }
    }
}

/// The error that a text names no scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownScheme;

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, UnknownScheme> {
        let number = |text: &str, most: u32| text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or(UnknownScheme);
        match name {
            "basic" => return Ok(Self::BASIC),
            "window" => return Ok(Self::WINDOW),
            "written" => return Ok(Self::WRITTEN),
            _ => {}
        }
        let mut scheme = Self::WINDOW;
        for part in name.split('+') {
            if let Some(co_roots) = part.strip_prefix("coroot-") {
                scheme.co_roots = number(co_roots, u32::MAX)?;
            } else if let Some(aggregate) = part.strip_prefix("aggregate-") {
                scheme.aggregate = number(aggregate, AGGREGATE_MAX)?;
            } else {
                return Err(UnknownScheme);
            }
        }
        Ok(scheme)
    }
}

/// The tree of acknowledgements in the stream of one root: members `0..members`, at most two levels below the
/// root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTree {
    /// Members of the group.
    pub members: u32,
    /// The member that sends.
    pub root: u32,
    /// The number of members that gather acknowledgements.
    pub co_roots: u32,
}

impl AckTree {
    /// The tree of a scheme.
    pub fn new(members: u32, root: u32, scheme: Scheme) -> Self {
        Self { members, root, co_roots: scheme.co_roots.min(members.saturating_sub(1)) }
    }

    /// The relative rank of a member: its distance behind the root, from 1; and the member of a relative
    /// rank.
    fn relative_rank(&self, member: u32) -> u32 {
        (member + self.members - self.root) % self.members
    }

    fn member(&self, relative: u32) -> u32 {
        ((u64::from(relative) + u64::from(self.root)) % u64::from(self.members)) as u32
    }

    /// First relative rank of the part of co-root `which`: its own.
    fn start(&self, which: u32) -> u32 {
        1 + (u64::from(which) * u64::from(self.members - 1) / u64::from(self.co_roots)) as u32
    }

    /// The part that a relative rank belongs to.
    fn part(&self, relative: u32) -> u32 {
        let guess = (u64::from(relative - 1) * u64::from(self.co_roots) / u64::from(self.members - 1)) as u32;
        (guess..self.co_roots).take_while(|which| self.start(*which) <= relative).last().unwrap_or(guess)
    }

    /// The member to which `member` acknowledges; none for the root.
    pub fn parent(&self, member: u32) -> Option<u32> {
        let relative = self.relative_rank(member);
        if relative == 0 {
            return None;
        }
        if self.co_roots == 0 {
            return Some(self.root);
        }
        let start = self.start(self.part(relative));
        Some(if relative == start { self.root } else { self.member(start) })
    }

    /// The members that acknowledge to `member`.
    pub fn children(&self, member: u32) -> impl Iterator<Item = u32> + '_ {
        let relative = self.relative_rank(member);
        let ends = |which: u32| if which + 1 == self.co_roots { self.members } else { self.start(which + 1) };
        let (members, parts) = match (relative, self.co_roots) {
            (0, 0) => (1..self.members, 0..0),
            (0, parts) => (0..0, 0..parts),
            (_, 0) => (0..0, 0..0),
            _ => {
                let part = self.part(relative);
                (if self.start(part) == relative { relative + 1..ends(part) } else { 0..0 }, 0..0)
            }
        };
        members.chain(parts.map(|which| self.start(which))).map(|relative| self.member(relative))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn names_of_schemes_are_read_as_they_are_written() {
        let coroot = Scheme { co_roots: 3, ..Scheme::WINDOW };
        let both = Scheme { aggregate: 10, ..coroot };
        for scheme in [
            Scheme::BASIC,
            Scheme::WINDOW,
            Scheme::WRITTEN,
            coroot,
            both,
            Scheme::for_members(8),
            Scheme::for_members(1024),
        ] {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
        for wrong in [
            "",
            "coroot",
            "coroot-0",
            "aggregate-",
            "aggregate-1001",
            "basic+window",
            "written+coroot-2",
            "aggregate-x",
            "tree",
        ] {
            assert_eq!(wrong.parse::<Scheme>(), Err(UnknownScheme), "{wrong}");
        }
    }

    #[test]
    fn everybody_but_the_root_acknowledges_once_and_over_one_co_root_at_most() {
        for members in 1..40 {
            for co_roots in 0..members + 2 {
                for root in [0, members / 2, members - 1] {
                    let tree = AckTree::new(members, root, Scheme { co_roots, ..Scheme::WINDOW });
                    let mut heard = vec![0; members as usize];
                    for member in 0..members {
                        for child in tree.children(member) {
                            heard[child as usize] += 1;
                            assert_eq!(tree.parent(child), Some(member));
                        }
                        let up = tree.parent(member).and_then(|parent| tree.parent(parent));
                        assert!(up.is_none_or(|up| up == root));
                    }
                    let expected: Vec<u32> = (0..members).map(|member| u32::from(member != root)).collect();
                    assert_eq!(heard, expected, "{tree:?}");
                    let direct = tree.children(root).count() as u32;
                    assert_eq!(direct, if tree.co_roots == 0 { members - 1 } else { tree.co_roots });
                }
            }
        }
    }
}
