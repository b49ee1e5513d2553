//! The binomial tree. Node 0 is the root; node `v` has the subtree `v .. v + lowest set bit of v`, cut at `size`.

/// Node `v`'s parent; the root has none.
pub(super) fn parent(v: u32) -> Option<u32> {
    (v != 0).then(|| v & (v - 1))
}

/// Number of nodes in the subtree of `v`, itself included.
pub(super) fn subtree(v: u32, size: u32) -> u32 {
    if v == 0 { size } else { (1 << v.trailing_zeros()).min(size - v) }
}

/// The children of `v`, that with the smallest subtree first.
pub(super) fn children(v: u32, size: u32) -> impl DoubleEndedIterator<Item = u32> + Clone {
    let limit = if v == 0 { u32::BITS - size.leading_zeros() } else { v.trailing_zeros() };
    (0..limit).map(move |bit| v + (1 << bit)).filter(move |&child| child < size)
}

/// Nodes are ranks counted from the root: the node of a rank.
pub(super) fn node(rank: u32, root: u32, size: u32) -> u32 {
    if rank >= root { rank - root } else { rank + (size - root) }
}

/// The rank of a node.
pub(super) fn rank(node: u32, root: u32, size: u32) -> u32 {
    cyclic(root as u64 + node as u64, size)
}

/// A number of a rank, wrapped into `0..size`.
pub(super) fn cyclic(number: u64, size: u32) -> u32 {
    (number % size as u64) as u32
}
