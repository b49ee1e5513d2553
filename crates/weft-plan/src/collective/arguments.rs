//! The arguments of the functions in [`collective`](super): the part of an operation that one rank knows.

/// The properties of a datatype that an algorithm needs (MPI-5.0 §5.1.6–5.1.8). All in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElementShape {
    /// Distance from one item to the next; may be negative or zero.
    pub extent: i64,
    /// Lowest byte that holds data, relative to the item's base.
    pub true_lb: i64,
    /// Bytes from there to one past the last byte that holds data.
    pub true_extent: i64,
    /// Packed bytes of one item.
    pub size: u64,
    /// The packed bytes of any number of consecutive items are one run of memory, in the same order, that
    /// starts at `true_lb` of the first.
    pub contiguous: bool,
}

impl Items {
    /// The packed bytes of all items together.
    pub const fn bytes(&self) -> u64 {
        self.count * self.shape.size
    }
}

impl Gather {
    /// Packed bytes of one block as every rank knows them, where the root gathers.
    pub fn gathered_bytes(&self) -> u64 {
        if self.rank == self.root { self.receive.bytes() } else { self.send.bytes() }
    }

    /// Packed bytes of one block as every rank knows them, where the root scatters.
    pub fn scattered_bytes(&self) -> u64 {
        if self.rank == self.root { self.send.bytes() } else { self.receive.bytes() }
    }
}

impl ElementShape {
    /// A plain element of `size` bytes without holes, such as `MPI_INT`.
    pub const fn plain(size: u64) -> Self {
        Self { extent: size as i64, true_lb: 0, true_extent: size as i64, size, contiguous: true }
    }
}

/// `count` consecutive items of a datatype, as in `(sendcount, sendtype)`. Where the standard calls the
/// arguments not significant, `Items::default()` will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Items {
    /// Number of items.
    pub count: u64,
    /// Datatype of the items.
    pub shape: ElementShape,
}

/// Blocks of one datatype, one per rank, as in `(recvcounts, displs, recvtype)`. Where the standard calls the
/// arguments not significant, `Blocks::default()` will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks<'a> {
    /// Items of each block, by rank.
    pub counts: &'a [u64],
    /// Bytes (displs × extent) from the buffer's base to each block, by rank.
    pub displacements: &'a [i64],
    /// Packed bytes of one item.
    pub item_size: u64,
}

/// Blocks of `alltoallw`, one per rank, each with its own datatype.
#[derive(Clone, Copy, Debug, Default)]
pub struct TypedBlocks<'a> {
    /// Items of each block, by rank.
    pub counts: &'a [u64],
    /// Bytes from the buffer's base to each block, by rank.
    pub displacements: &'a [i64],
    /// Packed bytes of one item of each block, by rank.
    pub item_sizes: &'a [u64],
}

/// Arguments of [`barrier`](super::barrier()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
}

/// Arguments of [`bcast`](super::bcast()). The buffer is [`Buffer::Receive`](super::Buffer::Receive)
/// everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bcast {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Rank that has the data.
    pub root: u32,
    /// The content of the buffer.
    pub items: Items,
}

/// Arguments of [`reduce`](super::reduce()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Rank that gets the result.
    pub root: u32,
    /// The contribution of every rank.
    pub items: Items,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
    /// `MPI_IN_PLACE` at this rank; it may be so at the root only.
    pub in_place: bool,
}

/// Arguments of [`allreduce_between`](super::allreduce_between).
#[derive(Clone, Copy, Debug)]
pub struct AllreduceBetween {
    /// Rank of this process in its own group.
    pub rank: u32,
    /// Processes in its own group.
    pub size: u32,
    /// Processes in the other group.
    pub remote_size: u32,
    /// The own group of this process is the first of the two.
    pub is_first: bool,
    /// The contribution of every process; as many bytes in both groups.
    pub items: Items,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
}

/// The blocks of an exchange with neighbours, or with the other group, as the operations give them.
#[derive(Clone, Copy, Debug)]
pub enum Parts<'a> {
    /// The same items for each.
    Same(Items),
    /// A block for each, one after the other.
    Consecutive(Items),
    /// Blocks of one datatype anywhere.
    Listed(Blocks<'a>),
    /// Blocks of their own datatypes. Their kinds are [`Kind::SendOf`](super::Kind::SendOf) and
    /// [`Kind::ReceiveOf`](super::Kind::ReceiveOf) with the place of the block.
    Typed(TypedBlocks<'a>),
}

/// Arguments of [`neighbour_exchange`](super::neighbour_exchange).
#[derive(Clone, Copy, Debug)]
pub struct NeighbourExchange<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// The ranks that blocks come from, in the order of the blocks: `None` where a grid ends. A rank may
    /// stand there several times, and so may this process.
    pub sources: &'a [Option<u32>],
    /// The ranks that blocks go to, in the order of the blocks: `None` where a grid ends. A rank may stand
    /// there several times, and so may this process.
    pub destinations: &'a [Option<u32>],
    /// The topology is a grid: for each dimension a neighbour below, and one above.
    pub is_grid: bool,
    /// Blocks to send, one for each destination.
    pub send: Parts<'a>,
    /// Blocks to receive, one for each source.
    pub receive: Parts<'a>,
}

/// Arguments of [`exchange_between`](super::exchange_between).
#[derive(Clone, Copy, Debug)]
pub struct ExchangeBetween<'a> {
    /// Rank of this process in its own group.
    pub rank: u32,
    /// Processes in its own group.
    pub size: u32,
    /// Processes in the other group.
    pub remote_size: u32,
    /// The own group of this process is the first of the two.
    pub is_first: bool,
    /// Blocks to send, one for each process of the other group.
    pub send: Parts<'a>,
    /// Blocks to receive, one for each process of the other group.
    pub receive: Parts<'a>,
}

/// Arguments of [`reduce_between`](super::reduce_between).
#[derive(Clone, Copy, Debug)]
pub struct ReduceBetween {
    /// Rank of this process: 0 for the root; the others of the group that reduces come after it.
    pub rank: u32,
    /// Processes that reduce, and the root.
    pub size: u32,
    /// The contribution of each process, and the result at the root.
    pub items: Items,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
}

/// Arguments of [`reduce_scatter_between`](super::reduce_scatter_between).
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatterBetween<'a> {
    /// Rank of this process in its own group.
    pub rank: u32,
    /// Processes in its own group.
    pub size: u32,
    /// Processes in the other group.
    pub remote_size: u32,
    /// The own group of this process is the first of the two.
    pub is_first: bool,
    /// Items of the other group's result for each process of the own group; as many items together in both
    /// groups.
    pub counts: &'a [u64],
    /// The datatype.
    pub shape: ElementShape,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
}

/// Arguments of [`allreduce`](super::allreduce()), [`scan`](super::scan()) and [`exscan`](super::exscan).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allreduce {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// The contribution of every rank.
    pub items: Items,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
    /// `MPI_IN_PLACE`: the contribution is in the receive buffer. Ranks may differ in this.
    pub in_place: bool,
}

/// Arguments of [`gather`](super::gather()) and [`scatter`](super::scatter()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Rank that gathers or scatters.
    pub root: u32,
    /// `sendcount` and `sendtype`. Gather: not significant at the root with `in_place`. Scatter: at the root
    /// only.
    pub send: Items,
    /// `recvcount` (of one block) and `recvtype`. Gather: at the root only. Scatter: not at the root with
    /// `in_place`.
    pub receive: Items,
    /// `MPI_IN_PLACE` at this rank; it may be so at the root only.
    pub in_place: bool,
}

/// Arguments of [`gatherv`](super::gatherv).
#[derive(Clone, Copy, Debug)]
pub struct Gatherv<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Rank that gathers.
    pub root: u32,
    /// `sendcount` and `sendtype`; not significant at the root with `in_place`.
    pub send: Items,
    /// Blocks to receive; significant at the root only.
    pub receive: Blocks<'a>,
    /// `MPI_IN_PLACE` at the root.
    pub in_place: bool,
}

/// Arguments of [`scatterv`](super::scatterv).
#[derive(Clone, Copy, Debug)]
pub struct Scatterv<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Rank that scatters.
    pub root: u32,
    /// Blocks to send; significant at the root only.
    pub send: Blocks<'a>,
    /// `recvcount` and `recvtype`; not significant at the root with `in_place`.
    pub receive: Items,
    /// `MPI_IN_PLACE` at the root.
    pub in_place: bool,
}

/// Arguments of [`allgather`](super::allgather()) and [`alltoall`](super::alltoall()). Counts are of one
/// block; block `i` is based at `i × count × extent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allgather {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// `sendcount` and `sendtype`; not significant with `in_place`.
    pub send: Items,
    /// `recvcount` and `recvtype`.
    pub receive: Items,
    /// `MPI_IN_PLACE`. Allgather: ranks may differ in this. Alltoall: all ranks alike.
    pub in_place: bool,
}

/// Arguments of [`allgatherv`](super::allgatherv).
#[derive(Clone, Copy, Debug)]
pub struct Allgatherv<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// `sendcount` and `sendtype`; not significant with `in_place`.
    pub send: Items,
    /// Blocks to receive.
    pub receive: Blocks<'a>,
    /// `MPI_IN_PLACE`: this rank's block is in its place already.
    pub in_place: bool,
}

/// Arguments of [`alltoallv`](super::alltoallv).
#[derive(Clone, Copy, Debug)]
pub struct Alltoallv<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Blocks to send; not significant with `in_place`.
    pub send: Blocks<'a>,
    /// Blocks to receive.
    pub receive: Blocks<'a>,
    /// `MPI_IN_PLACE` at all ranks.
    pub in_place: bool,
}

/// Arguments of [`alltoallw`](super::alltoallw). The kinds of slices are
/// [`Kind::SendOf`](super::Kind::SendOf) and [`Kind::ReceiveOf`](super::Kind::ReceiveOf) with the peer's
/// rank.
#[derive(Clone, Copy, Debug)]
pub struct Alltoallw<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// Blocks to send; not significant with `in_place`.
    pub send: TypedBlocks<'a>,
    /// Blocks to receive.
    pub receive: TypedBlocks<'a>,
    /// `MPI_IN_PLACE` at all ranks.
    pub in_place: bool,
}

/// Arguments of [`reduce_scatter_block`](super::reduce_scatter_block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceScatterBlock {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// `recvcount` (of one block) and the datatype; the contribution is `size` such blocks.
    pub items: Items,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
    /// `MPI_IN_PLACE`: the contribution is in the receive buffer, the result goes to its start.
    pub in_place: bool,
}

/// Arguments of [`reduce_scatter`](super::reduce_scatter()).
#[derive(Clone, Copy, Debug)]
pub struct ReduceScatter<'a> {
    /// Rank of this process in the group.
    pub rank: u32,
    /// Processes in the group.
    pub size: u32,
    /// `recvcounts`, the same at every rank.
    pub counts: &'a [u64],
    /// The datatype.
    pub shape: ElementShape,
    /// The operation commutes; otherwise operands are kept in the order of ranks.
    pub commutative: bool,
    /// `MPI_IN_PLACE`: the contribution is in the receive buffer, the result goes to its start.
    pub in_place: bool,
}
