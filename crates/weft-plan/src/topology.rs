//! Virtual topologies (MPI-5.0 §8) as pure functions: grids and their shapes, and which process takes which
//! vertex of a grid or graph.

pub mod dimensions;
pub mod grid;
mod grid_orders;
pub mod placement;

pub use dimensions::balanced;
pub use grid::{Dimension, Grid};
pub use placement::Neighbourhood;
