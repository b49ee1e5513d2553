//! The failure of one process in a collective operation on a file, as all processes hear of it (MPI-5.0
//! §14.7): its class, and what it could not do with which bytes.

use std::io;
use std::path::Path;

use weft_net::files::{self, Action, Place};

use crate::error::{Error, ErrorClass};

/// The words in which a process tells of its failure.
pub(super) const WORDS: usize = 4;

/// The error of one process.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The error, as the process itself reports it.
    pub(crate) error: Error,
    words: [i64; WORDS],
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let class = i64::from(ErrorClass::to_wire(Some(error.class)));
        Self { error, words: [class, 0, 0, 0] }
    }
}

impl From<files::Error> for Failure {
    fn from(error: files::Error) -> Self {
        let class = i64::from(ErrorClass::to_wire(Some(error.class())));
        let errno = i64::from(error.cause.raw_os_error().unwrap_or(0));
        let (offset, bytes) = error.place.map_or((-1, 0), |place| (place.offset as i64, place.bytes as i64));
        let words = [class, errno << 8 | error.action as i64, offset, bytes];
        Self { error: Error::new(error.class(), error.to_string()), words }
    }
}

/// The words of a process for what it did: zeros for success.
pub(super) fn words<T>(outcome: &Result<T, Failure>) -> [i64; WORDS] {
    outcome.as_ref().err().map_or([0; WORDS], |failure| failure.words)
}

/// The failure of the process `rank` that the words tell of, with the file `path`; `None` for success.
pub(super) fn told(words: &[i64], rank: usize, path: &Path) -> Option<Error> {
    let [class, action, offset, bytes] = *words.first_chunk::<WORDS>()?;
    let class = ErrorClass::from_wire(class as u32)?;
    let known = Action::ALL.iter().find(|known| **known as i64 == action & 0xff && action >> 8 != 0);
    let Some(action) = known.copied() else {
        let message = format!("rank {rank} could not do its part with {}, as its own error says", path.display());
        return Some(Error::consequence(class, message));
    };
    let place = (offset >= 0).then_some(Place { offset: offset as u64, bytes: bytes as u64 });
    let cause = io::Error::from_raw_os_error((words[1] >> 8) as i32);
    let failure = files::Error { action, path: path.to_owned(), place, cause };
    Some(Error::new(class, format!("rank {rank} {failure}")))
}

/// The first failure in the words of all processes, `each` of them with as many as that.
pub(super) fn first(all: &[i64], each: usize, path: &Path) -> Option<Error> {
    all.chunks_exact(each).enumerate().find_map(|(rank, words)| told(words, rank, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure with a place, one without, and an error that is not of a file.   Expect: the others get the
    /// class and the same sentence behind the rank.
    #[test]
    fn all_hear_what_one_could_not_do() {
        let path = Path::new("/data/file");
        let full = |place| files::Error {
            action: Action::Write,
            path: path.to_owned(),
            place,
            cause: io::Error::from_raw_os_error(28),
        };
        for place in [None, Some(Place { offset: 1 << 40, bytes: 4096 })] {
            let failure = Failure::from(full(place));
            let told = told(&words::<()>(&Err(failure.clone())), 3, path).unwrap();
            assert_eq!(
                (told.class, told.message.to_string()),
                (ErrorClass::NoSpace, format!("rank 3 {}", failure.error))
            );
        }
        let plain = Failure::from(Error::new(ErrorClass::Amode, "wrong"));
        let all = [words::<()>(&Ok(())), words::<()>(&Err(plain))].concat();
        assert_eq!(first(&all, WORDS, path).unwrap().class, ErrorClass::Amode);
        assert!(first(&all[..WORDS], WORDS, path).is_none());
    }
}
