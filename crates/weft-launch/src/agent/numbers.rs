//! The numbers of a rank in its environment, under the names that scripts of each launcher read.

/// What a rank is within its job and its host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// The rank among those of its host.
    pub(super) local_rank: u32,
    /// The ranks of its host.
    pub(super) local_size: u32,
}

/// A number of a rank.
type Number = fn(&Numbers) -> u32;

const RANK: Number = |numbers| numbers.rank;
const SIZE: Number = |numbers| numbers.size;
const LOCAL_RANK: Number = |numbers| numbers.local_rank;
const LOCAL_SIZE: Number = |numbers| numbers.local_size;

/// The variables of MPICH and Intel, then those of Open MPI. Weft itself reads `PMI_RANK` and `PMI_SIZE`,
/// beside `PMI_FD`. There is no `PMIX_NAMESPACE` beside `PMIX_RANK`, so nobody takes this for a PMIx
/// launcher.
pub(super) const VARIABLES: [(&str, Number); 10] = [
    ("PMI_RANK", RANK),
    ("PMI_SIZE", SIZE),
    ("MPI_LOCALRANKID", LOCAL_RANK),
    ("MPI_LOCALNRANKS", LOCAL_SIZE),
    ("OMPI_COMM_WORLD_RANK", RANK),
    ("OMPI_COMM_WORLD_SIZE", SIZE),
    ("OMPI_COMM_WORLD_LOCAL_RANK", LOCAL_RANK),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", LOCAL_SIZE),
    ("OMPI_COMM_WORLD_NODE_RANK", LOCAL_RANK),
    ("PMIX_RANK", RANK),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_has_its_number() {
        let numbers = Numbers { rank: 5, size: 8, local_rank: 1, local_size: 4 };
        let all: Vec<String> = VARIABLES.iter().map(|(name, number)| format!("{name}={}", number(&numbers))).collect();
        let expected = "PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 OMPI_COMM_WORLD_RANK=5 \
                        OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 \
                        OMPI_COMM_WORLD_NODE_RANK=1 PMIX_RANK=5";
        assert_eq!(all.join(" "), expected);
    }
}
