//! The operation that a call waits for, as others can see it.
//!
//! It is determined only when the call goes to sleep. Calls that wait give it to `process/waiting.rs`;
//! `live/view.rs` and `process/finalizing.rs` read it.

/// The most handles of an array that are noted.
const HANDLES_MAX: usize = 256;

/// The operation that a call waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Awaited {
    /// The call does not say.
    #[default]
    Unknown,
    /// A request.
    One(usize),
    /// The request of an access to a file. The call may have work of its own to do for it.
    Access(usize),
    /// Two requests.
    Both([usize; 2]),
    /// A call that waits for all of these requests.
    All(Vec<usize>),
    /// A call that waits for any of these requests.
    Any(Vec<usize>),
    /// A message that a probe looks for: with the handle of its communicator, source and tag as the program
    /// gave them.
    Message {
        /// Handle of the communicator.
        communicator: usize,
        /// Rank, or `MPI_ANY_SOURCE`.
        source: i32,
        /// Tag, or `MPI_ANY_TAG`.
        tag: i32,
    },
}

impl Awaited {
    /// A wait for all of `handles` that are not null.
    pub fn all(handles: impl Iterator<Item = usize>) -> Self {
        Self::All(handles.filter(|handle| *handle != crate::constants::MPI_REQUEST_NULL).take(HANDLES_MAX).collect())
    }

    /// The requests of which the call waits for one or for all. `None`: it waits for something else, or for
    /// more requests than are noted here.
    pub(crate) fn handles(&self) -> Option<&[usize]> {
        match self {
            Self::Unknown | Self::Access(_) | Self::Message { .. } => None,
            Self::One(request) => Some(std::slice::from_ref(request)),
            Self::Both(requests) => Some(requests),
            // A call that waits for all is woken when these are complete, and then says which are left.
            Self::All(requests) => Some(requests),
            Self::Any(requests) => Some(requests).filter(|requests| requests.len() < HANDLES_MAX).map(Vec::as_slice),
        }
    }

    /// The requests without which the call does not return.
    pub fn requests(&self) -> Vec<usize> {
        match self {
            Self::One(request) | Self::Access(request) => vec![*request],
            Self::Both(requests) => requests.to_vec(),
            Self::All(requests) => requests.clone(),
            Self::Unknown | Self::Any(_) | Self::Message { .. } => Vec::new(),
        }
    }

    /// The same wait with other requests in the places of these.
    pub(crate) fn map(self, other: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::One(request) => Self::One(other(request)),
            Self::Access(request) => Self::Access(other(request)),
            Self::Both(requests) => Self::Both(requests.map(other)),
            Self::All(requests) => Self::All(requests.into_iter().map(other).collect()),
            Self::Any(requests) => Self::Any(requests.into_iter().map(other).collect()),
            Self::Unknown | Self::Message { .. } => self,
        }
    }

    /// A wait for any of `handles` that are not null.
    pub fn any(handles: impl Iterator<Item = usize>) -> Self {
        Self::Any(handles.filter(|handle| *handle != crate::constants::MPI_REQUEST_NULL).take(HANDLES_MAX).collect())
    }
}
