//! The first step of every creation of a communicator: its processes compare their calls, and say whether
//! they have what they need.

use super::highest_by;
use crate::collective::CollectiveScope;
use crate::constants::MPI_ERR_OTHER;
use crate::context::Proposal;
use crate::error::{Error, ErrorClass, Result};
use crate::process::with;

/// The count of numbers that a caller may add to an agreement.
pub(super) const NOTES: usize = 3;
/// Numbers of a caller, of which an agreement finds the highest beside its own.
pub type Notes = [i64; NOTES];

/// The count of numbers that the first step of a creation compares: a proposal of a context, the call twice,
/// a refusal, and the notes.
pub(super) const OPENING: usize = Proposal::NUMBERS + 3 + NOTES;
/// The width of the rank of a process in one of these numbers: its lowest bits.
const RANK_BITS: u32 = 32;

/// The call that makes a new communicator. All its processes must make the same call (MPI-5.0 §7.4.2); they
/// check this before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has the name of its call")]
pub enum Creation {
    Duplicate,
    Create,
    CreateGroup,
    Split,
    SplitType,
    Cartesian,
    CartesianSub,
    Graph,
    DistributedGraph,
    DistributedGraphAdjacent,
    Intercommunicator,
    Merge,
    Meeting,
    FromGroup,
    FromGroups,
    Window,
    File,
}

impl Creation {
    const ALL: [Self; 17] = [
        Self::Duplicate,
        Self::Create,
        Self::CreateGroup,
        Self::Split,
        Self::SplitType,
        Self::Cartesian,
        Self::CartesianSub,
        Self::Graph,
        Self::DistributedGraph,
        Self::DistributedGraphAdjacent,
        Self::Intercommunicator,
        Self::Merge,
        Self::Meeting,
        Self::FromGroup,
        Self::FromGroups,
        Self::Window,
        Self::File,
    ];

    /// The name of the call. Forms that differ in hints, or in whether they wait, count as the same.
    fn name(self) -> &'static str {
        match self {
            Self::Duplicate => "MPI_Comm_dup",
            Self::Create => "MPI_Comm_create",
            Self::CreateGroup => "MPI_Comm_create_group",
            Self::Split => "MPI_Comm_split",
            Self::SplitType => "MPI_Comm_split_type",
            Self::Cartesian => "MPI_Cart_create",
            Self::CartesianSub => "MPI_Cart_sub",
            Self::Graph => "MPI_Graph_create",
            Self::DistributedGraph => "MPI_Dist_graph_create",
            Self::DistributedGraphAdjacent => "MPI_Dist_graph_create_adjacent",
            Self::Intercommunicator => "MPI_Intercomm_create",
            Self::Merge => "MPI_Intercomm_merge",
            Self::Meeting => "MPI_Comm_accept, MPI_Comm_spawn or one of their relatives",
            Self::FromGroup => "MPI_Comm_create_from_group",
            Self::FromGroups => "MPI_Intercomm_create_from_groups",
            Self::Window => "MPI_Win_create or one of its relatives",
            Self::File => "MPI_File_open",
        }
    }

    /// The numbers that each process brings to the first step of a creation; the processes find the highest
    /// of each. `proposal`: that of a context. `refusal`: the error by which this process's part has failed.
    /// `notes`: those of the caller.
    pub(super) fn opening(
        self,
        proposal: [i64; Proposal::NUMBERS],
        rank: u32,
        refusal: Option<&Error>,
        notes: Notes,
    ) -> [i64; OPENING] {
        let told = |error: &Error| i64::from(ErrorClass::to_wire(Some(error.class))) << RANK_BITS | i64::from(rank);
        let refusal = refusal.map_or(0, told);
        let ([offer, opposite, answer], [one, two, three]) = (proposal, notes);
        [offer, opposite, answer, self as i64, -(self as i64), refusal, one, two, three]
    }

    /// Checks the numbers of all processes: all must have come to the same call, and none may have failed.
    pub(super) fn compare(opening: &[i64]) -> Result<()> {
        let [_, _, _, highest, opposite, refusal, ..] = *opening else { return Ok(()) };
        let lowest = -opposite;
        let name = |code: i64| Self::ALL.get(code as usize).map_or("another call", |creation| creation.name());
        if highest == lowest {
            if refusal == 0 {
                return Ok(());
            }
            let (class, rank) = (ErrorClass::from_wire((refusal >> RANK_BITS) as u32), refusal as u32);
            let message = format!(
                "rank {rank} cannot do its part of {}, as its own call says, and so no process has anything of it",
                name(highest)
            );
            return Err(Error::consequence(class.unwrap_or(MPI_ERR_OTHER), message));
        }
        let (one, other) = (name(lowest), name(highest));
        let message = format!("processes of the communicator are in {one} while others are in {other}");
        Err(Error::new(MPI_ERR_OTHER, message))
    }
}

/// Checks that all processes of `scope` are in this call and have everything that they need for it; returns
/// what this process needs.
///
/// Creations that do not begin with an agreement begin with this. So all creations begin alike, and a process
/// in a wrong call gets an error and does not wait for ever.
///
/// # Errors
/// A process is in another call, or lacks something that it needs; a process is gone.
pub fn open_creation<T>(scope: CollectiveScope, creation: Creation, needed: Result<T>) -> Result<T> {
    let mut opening = creation.opening([i64::MIN; Proposal::NUMBERS], scope.rank, needed.as_ref().err(), [0; NOTES]);
    let layout = with(|process| process.agreement_layout(&scope));
    let met = highest_by(scope, &mut opening, layout.as_ref());
    let needed = needed?;
    met?;
    Creation::compare(&opening).map(|()| needed)
}
