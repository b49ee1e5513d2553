//! Recognizes handles of other binary interfaces than the standard's (MPI-5.0 §20), and so the `mpi.h` that a
//! program was compiled with. The errors of wrong handles use it.

use crate::constants::*;
use crate::error::ErrorClass;

/// The kinds of MPICH's handles. In MPICH's own interface, which its derivatives share, a handle is an
/// integer of 32 bits, and bits 26 to 29 name its kind. Weft's handles are below 4096 or need more than 32
/// bits, so none of them looks like one of MPICH's.
const MPICH_KINDS: [(ErrorClass, usize); 10] = [
    (MPI_ERR_COMM, 1),
    (MPI_ERR_GROUP, 2),
    (MPI_ERR_TYPE, 3),
    (MPI_ERR_FILE, 4),
    (MPI_ERR_ERRHANDLER, 5),
    (MPI_ERR_OP, 6),
    (MPI_ERR_INFO, 7),
    (MPI_ERR_WIN, 8),
    (MPI_ERR_KEYVAL, 9),
    (MPI_ERR_REQUEST, 11),
];
const MPICH_KIND_SHIFT: u32 = 26;

/// Parts of the names of libraries that are in every process with Open MPI.
const OPEN_MPI_LIBRARIES: [&str; 2] = ["/libmpi.so.40", "/libopen-pal.so"];

/// A sentence about a handle of another library's interface. `class` is the error of an invalid handle where
/// it was passed. `None` when the handle is of no known interface.
#[cold]
pub(crate) fn explain(handle: usize, class: ErrorClass) -> Option<String> {
    let of = |whose: &str, how: &str| {
        format!(
            "{handle:#x} is {how}: the program was compiled with {whose}, whose handles differ from those of the standard's ABI \
             (MPI-5.0 §20): compile it again with Weft's mpicc"
        )
    };
    if is_of_mpich(handle, class) {
        return Some(of("the mpi.h of MPICH or of a library derived from it", "a handle of MPICH's own ABI"));
    }
    if is_address(handle) && is_open_mpi_here(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()) {
        return Some(of("the mpi.h of Open MPI", "an address, as the handles of Open MPI are"));
    }
    None
}

fn is_of_mpich(handle: usize, class: ErrorClass) -> bool {
    let is_one = |(of, kind): &(ErrorClass, usize)| *of == class && handle >> MPICH_KIND_SHIFT & 0xf == *kind;
    u32::try_from(handle).is_ok() && MPICH_KINDS.iter().any(is_one)
}

fn is_address(handle: usize) -> bool {
    handle > 0xffff && handle.is_multiple_of(size_of::<usize>())
}

fn is_open_mpi_here(maps: &str) -> bool {
    maps.lines().any(|line| OPEN_MPI_LIBRARIES.iter().any(|library| line.contains(library)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{Kind, Slab};

    #[test]
    fn predefined_handles_of_mpich_are_known_each_by_its_kind() {
        let handles = [
            (MPI_ERR_COMM, 0x4400_0000),
            (MPI_ERR_COMM, 0x4400_0001),
            (MPI_ERR_COMM, 0x8400_0002),
            (MPI_ERR_COMM, 0x0400_0000),
            (MPI_ERR_GROUP, 0x4800_0000),
            (MPI_ERR_TYPE, 0x4c00_0405),
            (MPI_ERR_TYPE, 0x8c00_0000),
            (MPI_ERR_ERRHANDLER, 0x5400_0001),
            (MPI_ERR_OP, 0x5800_0003),
            (MPI_ERR_INFO, 0x1c00_0000),
            (MPI_ERR_WIN, 0x2000_0000),
            (MPI_ERR_KEYVAL, 0x6440_0001),
            (MPI_ERR_REQUEST, 0x2c00_0000),
        ];
        for (class, handle) in handles {
            let said = explain(handle, class).unwrap_or_default();
            assert!(said.contains("MPICH's own ABI") && said.contains("compile it again"), "{handle:#x}: {said}");
            let of_another_kind = if class == MPI_ERR_COMM { MPI_ERR_GROUP } else { MPI_ERR_COMM };
            assert!(!is_of_mpich(handle, of_another_kind), "{handle:#x}");
        }
    }

    #[test]
    fn none_of_our_handles_looks_like_one_of_others() {
        let mut slab = Slab::new(Kind::Communicator);
        for _ in 0..1000 {
            let handle = slab.insert(()).unwrap();
            assert!(!is_of_mpich(handle, MPI_ERR_COMM) && !is_address(handle));
            slab.remove(handle);
        }
        for handle in 0..4096 {
            assert!(MPICH_KINDS.iter().all(|(class, _)| !is_of_mpich(handle, *class)) && !is_address(handle));
        }
    }

    #[test]
    fn addresses_say_nothing_without_the_library_that_has_them() {
        assert!(is_address(0x7f12_3456_7890) && !is_address(8));
        assert!(is_open_mpi_here("7f00-7f10 r-xp 0 08:01 1 /usr/lib/libmpi.so.40.30.4\n"));
        assert!(!is_open_mpi_here("7f00-7f10 r-xp 0 08:01 1 /usr/lib/libmpi_abi.so.1\n"));
        assert_eq!(explain(0x7f12_3456_7890, MPI_ERR_COMM), None);
    }
}
