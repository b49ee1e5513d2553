//! The access mode of a file (MPI-5.0 §14.2.1).

use weft_net::files::Access;

use crate::constants::*;
use crate::error::{Error, Result};

/// An access mode that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(i32);

/// The bits of an access mode.
const ALL: [(i32, &str); 9] = [
    (MPI_MODE_RDONLY, "MPI_MODE_RDONLY"),
    (MPI_MODE_RDWR, "MPI_MODE_RDWR"),
    (MPI_MODE_WRONLY, "MPI_MODE_WRONLY"),
    (MPI_MODE_CREATE, "MPI_MODE_CREATE"),
    (MPI_MODE_EXCL, "MPI_MODE_EXCL"),
    (MPI_MODE_DELETE_ON_CLOSE, "MPI_MODE_DELETE_ON_CLOSE"),
    (MPI_MODE_UNIQUE_OPEN, "MPI_MODE_UNIQUE_OPEN"),
    (MPI_MODE_SEQUENTIAL, "MPI_MODE_SEQUENTIAL"),
    (MPI_MODE_APPEND, "MPI_MODE_APPEND"),
];

impl Mode {
    /// The access mode with these bits.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE`: it has unknown bits, not exactly one of the three directions, or two bits that
    /// exclude each other.
    pub fn new(bits: i32) -> Result<Self> {
        let wrong = |why: &str| Err(Error::new(MPI_ERR_AMODE, format!("amode is {bits}: {why}")));
        let known = ALL.iter().fold(0, |known, (bit, _)| known | bit);
        let has = |bit| bits & bit != 0;
        if bits & !known != 0 {
            return wrong("it has bits that are no MPI_MODE_ of a file");
        }
        match [MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY].iter().filter(|bit| has(**bit)).count() {
            1 => {}
            _ => return wrong("exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY must be set"),
        }
        if has(MPI_MODE_RDONLY) && (has(MPI_MODE_CREATE) || has(MPI_MODE_EXCL)) {
            return wrong("MPI_MODE_CREATE and MPI_MODE_EXCL cannot be combined with MPI_MODE_RDONLY");
        }
        if has(MPI_MODE_RDWR) && has(MPI_MODE_SEQUENTIAL) {
            return wrong("MPI_MODE_RDWR cannot be combined with MPI_MODE_SEQUENTIAL");
        }
        Ok(Self(bits))
    }

    /// The bits, as `MPI_File_get_amode` tells them.
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// Returns whether the file may be read.
    pub const fn reads(self) -> bool {
        self.0 & MPI_MODE_WRONLY == 0
    }

    /// Returns whether the file may be written.
    pub const fn writes(self) -> bool {
        self.0 & MPI_MODE_RDONLY == 0
    }

    /// Returns whether only the shared file pointer may be used.
    pub const fn is_sequential(self) -> bool {
        self.0 & MPI_MODE_SEQUENTIAL != 0
    }

    /// Returns whether all file pointers begin at the end of the file.
    pub const fn appends(self) -> bool {
        self.0 & MPI_MODE_APPEND != 0
    }

    /// Returns whether the file is removed when it is closed.
    pub const fn is_deleted_on_close(self) -> bool {
        self.0 & MPI_MODE_DELETE_ON_CLOSE != 0
    }

    /// The mode in words: the constants without their common prefix.
    pub fn words(self) -> String {
        const NAMES: [(i32, &str); 9] = [
            (MPI_MODE_RDONLY, "RDONLY"),
            (MPI_MODE_RDWR, "RDWR"),
            (MPI_MODE_WRONLY, "WRONLY"),
            (MPI_MODE_CREATE, "CREATE"),
            (MPI_MODE_EXCL, "EXCL"),
            (MPI_MODE_APPEND, "APPEND"),
            (MPI_MODE_SEQUENTIAL, "SEQUENTIAL"),
            (MPI_MODE_DELETE_ON_CLOSE, "DELETE_ON_CLOSE"),
            (MPI_MODE_UNIQUE_OPEN, "UNIQUE_OPEN"),
        ];
        let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name).collect();
        format!("amode {}", names.join("|"))
    }

    /// Returns whether the file must not be there yet.
    pub fn is_exclusive(self) -> bool {
        self.0 & MPI_MODE_EXCL != 0
    }

    /// The way in which the process that opens the file first opens it.
    pub const fn first_access(self, permissions: u32) -> Access {
        Access {
            reads: self.reads(),
            writes: self.writes(),
            creates: self.0 & MPI_MODE_CREATE != 0,
            exclusive: self.0 & MPI_MODE_EXCL != 0,
            permissions,
        }
    }

    /// The way in which all others open it: it is there by then.
    pub const fn later_access(self) -> Access {
        Access { reads: self.reads(), writes: self.writes(), creates: false, exclusive: false, permissions: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All combinations of the nine bits, and a tenth one.   Expect: exactly those that §14.2.1 allows.
    #[test]
    fn modes_are_those_of_the_standard() {
        for bits in 0..1024 {
            let has = |bit| bits & bit != 0;
            let directions = [MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY].map(|bit| u32::from(has(bit)));
            let allowed = directions.iter().sum::<u32>() == 1
                && !(has(MPI_MODE_RDONLY) && (has(MPI_MODE_CREATE) || has(MPI_MODE_EXCL)))
                && !(has(MPI_MODE_RDWR) && has(MPI_MODE_SEQUENTIAL))
                && bits < 512;
            match Mode::new(bits) {
                Ok(mode) => {
                    assert!(allowed, "{bits}");
                    assert_eq!(mode.words().split(['|', ' ']).count() as u32, 1 + (bits as u32).count_ones());
                    assert_eq!((mode.bits(), mode.reads()), (bits, !has(MPI_MODE_WRONLY)));
                    assert_eq!(mode.writes(), !has(MPI_MODE_RDONLY));
                    assert!(mode.later_access().reads == mode.reads() && !mode.later_access().creates);
                }
                Err(error) => assert!(!allowed && error.class == MPI_ERR_AMODE, "{bits}"),
            }
        }
    }
}
