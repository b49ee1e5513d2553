//! Cartesian grids of processes (MPI-5.0 §8.5.1). Ranks are in row-major order: the last coordinate varies
//! fastest.

use alloc::vec;
use alloc::vec::Vec;

/// A dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Processes along it, at least 1.
    pub size: u32,
    /// The last process is a neighbour of the first.
    pub periodic: bool,
}

/// A grid of processes. A grid without dimensions has one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    size: u32,
}

impl Grid {
    /// The grid of these dimensions; `None` when a dimension is empty, or the processes are more than there
    /// can be ranks.
    pub fn new(dimensions: Vec<Dimension>) -> Option<Self> {
        let mut size = 1_u32;
        for dimension in &dimensions {
            size = size.checked_mul(dimension.size).filter(|size| (1..=i32::MAX as u32).contains(size))?;
        }
        Some(Self { dimensions, size })
    }

    /// The dimensions of the grid, the slowest first.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Coordinates of the process `rank`.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn coordinates(&self, rank: u32) -> Vec<u32> {
        assert!(rank < self.size, "rank {rank} in a grid of {}", self.size);
        let mut coordinates = vec![0; self.dimensions.len()];
        let mut rest = rank;
        for (coordinate, dimension) in coordinates.iter_mut().zip(&self.dimensions).rev() {
            *coordinate = rest % dimension.size;
            rest /= dimension.size;
        }
        coordinates
    }

    /// Rank of the process at `coordinates`, one for each dimension. Periodic dimensions take any number.
    ///
    /// # Errors
    /// The first dimension that is not periodic whose coordinate is out of range.
    pub fn rank(&self, coordinates: &[i32]) -> Result<u32, usize> {
        let mut rank = 0;
        for (index, (coordinate, dimension)) in coordinates.iter().zip(&self.dimensions).enumerate() {
            rank = rank * dimension.size + along(*dimension, i64::from(*coordinate)).ok_or(index)?;
        }
        Ok(rank)
    }

    /// The source and the destination of `rank` when all processes shift their data by `displacement` along
    /// `dimension` (MPI-5.0 §8.5.6); `None` where there is none.
    ///
    /// # Panics
    /// When there is no such rank or dimension.
    pub fn shift(&self, rank: u32, dimension: usize, displacement: i32) -> (Option<u32>, Option<u32>) {
        let displacement = i64::from(displacement);
        (self.neighbour(rank, dimension, -displacement), self.neighbour(rank, dimension, displacement))
    }

    fn neighbour(&self, rank: u32, dimension: usize, displacement: i64) -> Option<u32> {
        let stride: u32 = self.dimensions[dimension + 1..].iter().map(|dimension| dimension.size).product();
        let dimension = self.dimensions[dimension];
        let own = rank / stride % dimension.size;
        let other = along(dimension, i64::from(own) + displacement)?;
        Some(rank - own * stride + other * stride)
    }

    /// The subgrid of the dimensions that `remain` (MPI-5.0 §8.5.7), one flag for each.
    pub fn subgrid(&self, remain: &[bool]) -> Self {
        let kept = self.dimensions.iter().zip(remain).filter(|(_, remains)| **remains);
        let dimensions: Vec<Dimension> = kept.map(|(dimension, _)| *dimension).collect();
        let size = dimensions.iter().map(|dimension| dimension.size).product();
        Self { dimensions, size }
    }

    /// The ranks in this grid of all processes of the subgrid of `rank`, in its order.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn members_of_subgrid(&self, rank: u32, remain: &[bool]) -> Vec<u32> {
        let subgrid = self.subgrid(remain);
        let mut coordinates: Vec<i32> =
            self.coordinates(rank).into_iter().map(|coordinate| coordinate as i32).collect();
        let member = |vertex: u32| {
            let mut within = subgrid.coordinates(vertex).into_iter();
            for (coordinate, _) in coordinates.iter_mut().zip(remain).filter(|(_, remains)| **remains) {
                *coordinate = within.next().map_or(0, |coordinate| coordinate as i32);
            }
            self.rank(&coordinates).unwrap_or(rank)
        };
        (0..subgrid.size).map(member).collect()
    }

    /// All pairs of neighbours: from each process to the next one in each dimension.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32)> {
        let next = |rank: u32, dimension: usize| self.neighbour(rank, dimension, 1).map(|other| (rank, other));
        let of_rank = move |rank: u32| (0..self.dimensions.len()).filter_map(move |dimension| next(rank, dimension));
        (0..self.size).flat_map(of_rank)
    }
}

/// The place of a coordinate in a dimension, if it is within it.
fn along(dimension: Dimension, coordinate: i64) -> Option<u32> {
    let size = i64::from(dimension.size);
    let coordinate = if dimension.periodic { coordinate.rem_euclid(size) } else { coordinate };
    u32::try_from(coordinate).ok().filter(|coordinate| *coordinate < dimension.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dimensions: &[(u32, bool)]) -> Grid {
        let dimension = |(size, periodic): &(u32, bool)| Dimension { size: *size, periodic: *periodic };
        Grid::new(dimensions.iter().map(dimension).collect()).unwrap()
    }

    #[test]
    fn ranks_and_coordinates_are_the_inverse_of_each_other() {
        for shape in
            [&[][..], &[(1, false)], &[(7, true)], &[(3, false), (4, true)], &[(2, true), (3, true), (5, false)]]
        {
            let grid = grid(shape);
            let mut before = None;
            for rank in 0..grid.size() {
                let coordinates = grid.coordinates(rank);
                // Row-major: coordinates are in lexicographic order.
                assert!(before.is_none_or(|before| before < coordinates));
                let signed: Vec<i32> = coordinates.iter().map(|coordinate| *coordinate as i32).collect();
                assert_eq!(grid.rank(&signed), Ok(rank));
                before = Some(coordinates);
            }
        }
    }

    #[test]
    fn periodic_coordinates_wrap_and_others_end() {
        let grid = grid(&[(3, true), (4, false)]);
        assert_eq!(grid.rank(&[-1, 3]), Ok(11));
        assert_eq!(grid.rank(&[3, 0]), Ok(0));
        assert_eq!(grid.rank(&[i32::MIN, 0]), grid.rank(&[i32::MIN.rem_euclid(3), 0]));
        assert_eq!(grid.rank(&[0, 4]), Err(1));
        assert_eq!(grid.rank(&[7, -1]), Err(1));
    }

    #[test]
    fn a_shift_ends_at_the_border_or_wraps() {
        let grid = grid(&[(3, true), (4, false)]);
        // Rank 5 is at (1, 1).
        assert_eq!(grid.shift(5, 0, 1), (Some(1), Some(9)));
        assert_eq!(grid.shift(5, 0, -4), (Some(9), Some(1)));
        assert_eq!(grid.shift(5, 0, 3), (Some(5), Some(5)));
        assert_eq!(grid.shift(5, 1, 2), (None, Some(7)));
        assert_eq!(grid.shift(5, 1, 0), (Some(5), Some(5)));
        assert_eq!(grid.shift(5, 1, i32::MIN), (None, None));
        assert_eq!(grid.shift(5, 0, i32::MAX), (Some(1), Some(9)));
    }

    #[test]
    fn subgrids_split_all_processes() {
        let grid = grid(&[(2, false), (3, true), (4, false)]);
        for mask in 0..8 {
            let remain = [mask & 1 != 0, mask & 2 != 0, mask & 4 != 0];
            let mut seen = vec![0; grid.size() as usize];
            for rank in 0..grid.size() {
                let members = grid.members_of_subgrid(rank, &remain);
                assert_eq!(members.len() as u32, grid.subgrid(&remain).size());
                assert!(members.contains(&rank) && members.is_sorted());
                // All members see the same members.
                assert_eq!(grid.members_of_subgrid(members[0], &remain), members);
                members.iter().for_each(|member| seen[*member as usize] += 1);
            }
            assert!(seen.iter().all(|times| *times == grid.subgrid(&remain).size()));
        }
        assert_eq!(grid.subgrid(&[false, true, false]).dimensions(), &[Dimension { size: 3, periodic: true }]);
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let size = |size| Dimension { size, periodic: false };
        assert!(Grid::new(vec![size(3), size(0)]).is_none());
        assert!(Grid::new(vec![size(1 << 16), size(1 << 15)]).is_none());
        assert!(Grid::new(vec![size(1 << 16), size(1 << 16), size(0)]).is_none());
        assert_eq!(Grid::new(vec![]).map(|grid| grid.size()), Some(1));
    }
}
