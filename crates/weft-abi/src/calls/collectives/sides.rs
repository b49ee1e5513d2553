//! The sides of an exchange with several processes, in the forms of the different operations: the data that
//! is sent to the processes, or received from them.

use super::buffers::{OwnedBlocks, OwnedTypedBlocks, Partners, address, check_apart};
use super::plan::{Plan, refuse_in_place};
use crate::arguments::*;
use std::mem::take;
use std::sync::Arc;
use weft_mpi::algorithms::{self as plan, Items, Schedule};
use weft_mpi::collective::{Arguments, SharedDatatype};
use weft_mpi::error::Result;
use weft_mpi::memory::Footprint;
use weft_mpi::object::Description;
use weft_mpi::process::Process;

/// The role of a process in a rooted operation. `root` is MPI_ROOT at the root, MPI_PROC_NULL at the others
/// of its group, and the root's rank at all processes of the other group.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Root,
    Absent,
    /// A process of the group that the root is not in.
    Member(u32),
}

/// The arguments of one side.
#[derive(Clone, Copy)]
pub(super) enum Side<'call> {
    /// No data: this process only sends, or only receives.
    Nothing,
    /// The same data for each partner.
    Same(Part),
    /// A part for each partner, one after the other.
    Consecutive(Part),
    /// Parts with counts and displacements.
    Listed(Parts<'call>),
    /// Parts with counts, displacements and datatypes.
    Typed(TypedParts<'call>),
}

/// A side whose arguments have been checked.
pub(super) struct DescribedSide {
    buffer: Buffer,
    blocks: Described,
    datatype: Option<Arc<Description>>,
}

enum Described {
    Same(Items, Option<Footprint>),
    Consecutive(Items, Option<Footprint>),
    Listed(OwnedBlocks),
    Typed(OwnedTypedBlocks),
}

impl Side<'_> {
    fn buffer(&self) -> Buffer {
        match self {
            Self::Nothing => Buffer::NULL,
            Self::Same(part) | Self::Consecutive(part) => part.buffer,
            Self::Listed(parts) => parts.buffer,
            Self::Typed(parts) => parts.buffer,
        }
    }

    /// Describes and checks the side for `partners`; `names` are those of the buffer and of the counts.
    fn describe(&self, process: &Process, partners: Partners, names: [&str; 2]) -> Result<DescribedSide> {
        let [buffer_name, counts_name] = names;
        let buffer = self.buffer();
        refuse_in_place(buffer, buffer_name)?;
        let part_of = |part: &Part, blocks: u32| -> Result<_> {
            let (items, description) = part.describe(process, blocks)?;
            let footprint = part.footprint(blocks, &description.layout);
            Ok((items, Some(footprint), Some(description)))
        };
        let (blocks, datatype) = match self {
            Self::Nothing => (Described::Same(Items::default(), None), None),
            Self::Same(part) => {
                let (items, footprint, datatype) = part_of(part, 1)?;
                (Described::Same(items, footprint), datatype)
            }
            Self::Consecutive(part) => {
                let (items, footprint, datatype) = part_of(part, partners.count() as u32)?;
                (Described::Consecutive(items, footprint), datatype)
            }
            Self::Listed(parts) => {
                let (blocks, datatype) = parts.describe(process, partners, counts_name)?;
                (Described::Listed(blocks), Some(datatype))
            }
            Self::Typed(parts) => (Described::Typed(parts.describe(process, partners, counts_name)?), None),
        };
        Ok(DescribedSide { buffer, blocks, datatype })
    }
}

impl DescribedSide {
    fn view(&self) -> plan::Parts<'_> {
        match &self.blocks {
            Described::Same(items, _) => plan::Parts::Same(*items),
            Described::Consecutive(items, _) => plan::Parts::Consecutive(*items),
            Described::Listed(blocks) => plan::Parts::Listed(blocks.view()),
            Described::Typed(blocks) => plan::Parts::Typed(blocks.view()),
        }
    }

    /// The memory of the block with this index, or of all blocks where they are one piece.
    fn footprint(&self, index: usize) -> Option<Footprint> {
        match (&self.blocks, &self.datatype) {
            (Described::Same(_, footprint) | Described::Consecutive(_, footprint), _) => *footprint,
            (Described::Listed(blocks), Some(datatype)) => Some(blocks.footprint(self.buffer, index, &datatype.layout)),
            (Described::Typed(blocks), _) => blocks.footprint(self.buffer, index),
            (Described::Listed(_), None) => None,
        }
    }

    fn take_types(&mut self) -> Vec<SharedDatatype> {
        match &mut self.blocks {
            Described::Typed(blocks) => take(&mut blocks.types),
            _ => Vec::new(),
        }
    }
}

/// The plan of an exchange of these sides with the partners of each.
pub(super) fn plan_exchange(
    process: &Process,
    (send, destinations): (Side, Partners),
    (receive, sources): (Side, Partners),
    algorithm: impl FnOnce(plan::Parts<'_>, plan::Parts<'_>) -> Schedule,
) -> Result<Plan> {
    let (mut sent, mut received) = {
        let received = receive.describe(process, sources, ["recvbuf", "recvcounts"])?;
        (send.describe(process, destinations, ["sendbuf", "sendcounts"])?, received)
    };
    for index in 0..sources.count().min(destinations.count()) {
        check_apart(sent.footprint(index), received.footprint(index))?;
    }
    let schedule = algorithm(sent.view(), received.view());
    let shared = |datatype: Option<Arc<Description>>| datatype.map(|datatype| datatype as SharedDatatype);
    let arguments = Arguments {
        send: address(sent.buffer),
        receive: address(received.buffer),
        send_types: sent.take_types(),
        receive_types: received.take_types(),
        send_type: shared(sent.datatype),
        receive_type: shared(received.datatype),
        ..Arguments::none()
    };
    Ok((schedule.into(), arguments))
}
