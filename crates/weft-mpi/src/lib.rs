//! MPI objects and their meaning.
pub mod error;
