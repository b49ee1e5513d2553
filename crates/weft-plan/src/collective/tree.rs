//! Trees of nodes 0 … n − 1 with node 0 as the root.
//!
//! The free functions are those of the binomial tree: node `v` has the subtree
//! `v .. v + lowest set bit of v`, cut at `size`. The methods of [`Tree`] serve all kinds of trees.

use alloc::vec::Vec;

use super::select::Tree;

/// A single tree of `size` nodes, out of a [`Tree`]. A double tree has two, each of which carries half of the
/// data.
#[derive(Clone, Copy)]
pub(super) struct OneTree {
    pub(super) tree: Tree,
    pub(super) second: bool,
    pub(super) size: u32,
}

impl Tree {
    /// The single trees that the tree is made of.
    pub(super) fn each(self, size: u32) -> impl Iterator<Item = OneTree> + Clone {
        let trees = if self == Self::DoubleBinary { 2 } else { 1 };
        (0..trees).map(move |number| OneTree { tree: self, second: number == 1, size })
    }

    /// Returns whether each subtree is adjacent nodes, and children follow their parent and each other in
    /// order. Then operands that come up can be combined in the order of nodes.
    pub(super) fn is_ordered(self) -> bool {
        !matches!(self, Self::KAry { .. } | Self::DoubleBinary)
    }

    /// Most children that a node has.
    pub(super) fn fan_out(self, size: u32) -> u64 {
        match self {
            Self::Linear => size.saturating_sub(1) as u64,
            Self::Chain => 1,
            Self::KNomial { radix } => (radix.max(2) as u64 - 1) * (size.max(2).ilog(radix.max(2)) as u64 + 1),
            Self::KAry { arity } => arity.max(1) as u64,
            Self::DoubleBinary => 2,
        }
    }
}

impl OneTree {
    /// Node `v`'s parent; the root has none.
    pub(super) fn parent(self, v: u32) -> Option<u32> {
        if v == 0 {
            return None;
        }
        Some(match self.tree {
            Tree::Linear => 0,
            Tree::Chain => v - 1,
            Tree::KNomial { radix } => {
                v - v / lowest_digit_weight(v, radix.max(2)) % radix.max(2) * lowest_digit_weight(v, radix.max(2))
            }
            Tree::KAry { arity } => (v - 1) / arity.max(1),
            Tree::DoubleBinary => {
                let here = self.position(v);
                let bit = here & here.wrapping_neg();
                let up = (here ^ bit) as u64 | (bit as u64) << 1;
                self.node_at(if up < self.size as u64 { up as u32 } else { here ^ bit })
            }
        })
    }

    /// The children of `v`; where subtrees differ, the child with the smallest subtree comes first.
    pub(super) fn children(self, v: u32) -> Vec<u32> {
        let size = self.size as u64;
        let (here, of) = (v as u64, |numbers: &mut dyn Iterator<Item = u64>| {
            numbers.filter(|&child| child < size).map(|child| child as u32).collect::<Vec<_>>()
        });
        match self.tree {
            Tree::Linear => of(&mut (1..if v == 0 { size } else { 0 })),
            Tree::Chain => of(&mut [here + 1].into_iter()),
            Tree::KNomial { radix } => {
                let radix = radix.max(2) as u64;
                let end = if v == 0 { size } else { lowest_digit_weight(v, radix as u32) as u64 };
                let weights =
                    core::iter::successors(Some(1), |weight| Some(weight * radix)).take_while(|&weight| weight < end);
                of(&mut weights.flat_map(|weight| (1..radix).map(move |digit| here + digit * weight)))
            }
            Tree::KAry { arity } => {
                let arity = arity.max(1) as u64;
                of(&mut (arity * here + 1..=arity * here + arity))
            }
            Tree::DoubleBinary => self.binary_children(v),
        }
    }

    /// Number of nodes in the subtree of `v` of a k-nomial tree, `v` included. They are the nodes from `v`
    /// on.
    pub(super) fn subtree(self, v: u32) -> u32 {
        let Tree::KNomial { radix } = self.tree else {
            unreachable!("only subtrees of k-nomial trees are runs of known length")
        };
        if v == 0 { self.size } else { lowest_digit_weight(v, radix.max(2)).min(self.size - v) }
    }

    fn binary_children(self, v: u32) -> Vec<u32> {
        if self.size < 2 {
            return Vec::new();
        }
        if v == 0 {
            return alloc::vec![self.node_at(1 << (self.size - 1).ilog2())];
        }
        let here = self.position(v);
        let half = (here & here.wrapping_neg()) >> 1;
        let left = (half > 0).then(|| here - half);
        // The right subtree may be cut off at the top.
        let right = core::iter::successors(Some(half), |half| Some(half >> 1))
            .take_while(|&half| half > 0)
            .map(|half| here + half)
            .find(|&right| right < self.size);
        left.into_iter().chain(right).map(|position| self.node_at(position)).collect()
    }

    /// The position of a node in the tree whose inner nodes are the even ones. The second tree of a double
    /// one has the other nodes as inner nodes. It is the first tree reversed, or shifted by one if reversing
    /// would leave odd nodes odd.
    fn position(self, v: u32) -> u32 {
        let nodes = self.size - 1;
        match (v == 0 || !self.second, nodes.is_multiple_of(2)) {
            (true, _) => v,
            (false, true) => nodes + 1 - v,
            (false, false) => {
                if v == 1 {
                    nodes
                } else {
                    v - 1
                }
            }
        }
    }

    /// The node at a position.
    fn node_at(self, position: u32) -> u32 {
        let nodes = self.size - 1;
        match (position == 0 || !self.second, nodes.is_multiple_of(2)) {
            (true, _) => position,
            (false, true) => nodes + 1 - position,
            (false, false) => {
                if position == nodes {
                    1
                } else {
                    position + 1
                }
            }
        }
    }
}

/// The k-nomial tree of `size` nodes.
pub(super) fn k_nomial(radix: u32, size: u32) -> OneTree {
    OneTree { tree: Tree::KNomial { radix }, second: false, size }
}

/// The weight of the lowest digit of `v` that is not 0; `v` is not 0.
fn lowest_digit_weight(v: u32, radix: u32) -> u32 {
    let mut weight = 1;
    while (v / weight).is_multiple_of(radix) {
        weight *= radix;
    }
    weight
}

/// Node `v`'s parent; the root has none.
pub(super) fn parent(v: u32) -> Option<u32> {
    (v != 0).then(|| v & (v - 1))
}

/// Number of nodes in the subtree of `v`, itself included.
pub(super) fn subtree(v: u32, size: u32) -> u32 {
    if v == 0 { size } else { (1 << v.trailing_zeros()).min(size - v) }
}

/// The children of `v`, the child with the smallest subtree first.
pub(super) fn children(v: u32, size: u32) -> impl DoubleEndedIterator<Item = u32> + Clone {
    let limit = if v == 0 { u32::BITS - size.leading_zeros() } else { v.trailing_zeros() };
    (0..limit).map(move |bit| v + (1 << bit)).filter(move |&child| child < size)
}

/// The node of a rank: nodes are ranks counted from the root.
pub(super) fn node(rank: u32, root: u32, size: u32) -> u32 {
    if rank >= root { rank - root } else { rank + (size - root) }
}

/// The rank of a node.
pub(super) fn rank(node: u32, root: u32, size: u32) -> u32 {
    cyclic(root as u64 + node as u64, size)
}

/// Wraps a number into the ranks `0..size`.
pub(super) fn cyclic(number: u64, size: u32) -> u32 {
    (number % size as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREES: [Tree; 7] = [
        Tree::Linear,
        Tree::Chain,
        Tree::KNomial { radix: 2 },
        Tree::KNomial { radix: 3 },
        Tree::KNomial { radix: 8 },
        Tree::KAry { arity: 2 },
        Tree::DoubleBinary,
    ];

    /// Nodes in the order of a walk in which parents come before their children.
    fn walk(tree: OneTree, from: u32, into: &mut Vec<u32>) {
        into.push(from);
        assert!(into.len() <= tree.size as usize, "{:?} of {} goes round", tree.tree, tree.size);
        tree.children(from).into_iter().for_each(|child| walk(tree, child, into));
    }

    #[test]
    fn parents_and_children_agree_and_every_node_is_there_once() {
        for (size, tree) in (1..140).flat_map(|size| TREES.map(|tree| (size, tree))) {
            for one in tree.each(size) {
                for v in 0..size {
                    let children = one.children(v);
                    assert!(children.len() as u64 <= tree.fan_out(size), "{tree:?} of {size}");
                    assert!(
                        children.into_iter().all(|child| one.parent(child) == Some(v)),
                        "{tree:?} of {size} at {v}"
                    );
                }
                let mut nodes = Vec::new();
                walk(one, 0, &mut nodes);
                assert!(!tree.is_ordered() || nodes.is_sorted(), "{tree:?} of {size}: {nodes:?}");
                nodes.sort_unstable();
                assert!(nodes.into_iter().eq(0..size), "{tree:?} of {size}");
            }
        }
    }

    #[test]
    fn the_binomial_tree_is_the_one_of_radix_two() {
        for size in 1..70 {
            let one = OneTree { tree: Tree::KNomial { radix: 2 }, second: false, size };
            for v in 0..size {
                assert_eq!(one.parent(v), parent(v));
                assert!(one.children(v).into_iter().eq(children(v, size)));
            }
        }
    }

    /// A node is an inner one once, so each sends about as much as it receives.
    #[test]
    fn of_a_double_tree_each_node_is_an_inner_one_once() {
        for size in 1..200 {
            for v in 1..size {
                let inner = Tree::DoubleBinary.each(size).filter(|one| !one.children(v).is_empty()).count();
                assert!(inner <= 1, "node {v} of {size}");
            }
        }
    }
}
