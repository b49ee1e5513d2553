//! Error classes, codes and strings, the program's own among them (MPI-5.0 §9.4, §9.5).

use std::sync::{Mutex, PoisonError};
use weft_ordered::Map;

use crate::constants::{
    MPI_ERR_ARG, MPI_ERR_IN_STATUS, MPI_ERR_LASTCODE, MPI_ERR_PENDING, MPI_MAX_ERROR_STRING, MPI_SUCCESS,
};
use crate::constants::{MPI_ERR_PROC_ABORTED, MPIX_ERR_PROC_FAILED};
use crate::error_classes::{ERROR_CLASSES, SUCCESS};
use std::sync::atomic::Ordering;
use weft_mpi::error::{Error, ErrorClass, Result};
use weft_mpi::recovery::GOES_ON;

/// The bits of the class in the code of an error that has happened. These codes tell more than the class:
/// above the class is the number of a sentence, from 1 on. All of them are below `MPI_ERR_LASTCODE`, where
/// the program's own codes begin (MPI-5.0 §9.5).
const CLASS_BITS: u32 = 7;
const CLASS_MASK: i32 = (1 << CLASS_BITS) - 1;
/// The number of a sentence that is not there: of errors of which no sentence can be kept.
const NO_SENTENCE: i32 = MPI_ERR_LASTCODE >> CLASS_BITS;
/// The most sentences that are remembered. The class of a code is never lost.
const SENTENCES_MAX: usize = NO_SENTENCE as usize - 1;
const _: () = assert!(SENTENCES_MAX >= 64 && ((SENTENCES_MAX as i32) << CLASS_BITS) + CLASS_MASK <= MPI_ERR_LASTCODE);

/// An error that has happened.
struct Happened {
    class: i32,
    sentence: String,
}

struct Added {
    class: i32,
    text: String,
}

static CODES: Mutex<ErrorCodes> = Mutex::new(ErrorCodes::new());

/// Runs `body` with the error codes of this process.
pub(crate) fn with<R>(body: impl FnOnce(&mut ErrorCodes) -> R) -> R {
    body(&mut CODES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The number of a class in the ABI. A program that goes on after failures gets the class that is made for
/// it when a process is gone.
pub(crate) fn number(class: ErrorClass) -> i32 {
    let goes_on = class == MPI_ERR_PROC_ABORTED && GOES_ON.load(Ordering::Relaxed);
    let (_, number, ..) = ERROR_CLASSES[if goes_on { MPIX_ERR_PROC_FAILED } else { class } as usize];
    number
}

/// The code of an error of which no sentence can be kept. Bare classes have other numbers for the programs of
/// other ABIs (docs/design/faces.md), and codes have the same for all.
pub(crate) fn without_sentence(class: ErrorClass) -> i32 {
    NO_SENTENCE << CLASS_BITS | number(class)
}

/// The name of the class that has this number in the ABI, if the standard has one.
pub(crate) fn name(number: i32) -> Option<&'static str> {
    standard(number).map(|(name, _)| name)
}

/// The codes that the program has added, and the errors that have happened.
pub(crate) struct ErrorCodes {
    added: Map<i32, Added>,
    last: i32,
    /// The latest errors that have happened.
    happened: Vec<Happened>,
    /// The index of the error that the next one replaces, once the list is full.
    oldest: usize,
}

impl ErrorCodes {
    /// The state in which the program has added nothing.
    const fn new() -> Self {
        Self { added: Map::new(), last: MPI_ERR_LASTCODE, happened: Vec::new(), oldest: 0 }
    }

    /// Makes the code of an error of `class` that has happened. MPI_Error_string returns `sentence` for that
    /// code until many other errors have happened. Codes of the program stay as they are, and so do the
    /// classes that refer to other codes.
    pub(crate) fn note(&mut self, class: ErrorClass, sentence: &str) -> i32 {
        let speaks_of_others = matches!(class, MPI_ERR_IN_STATUS | MPI_ERR_PENDING);
        let class = number(class);
        if speaks_of_others || class > CLASS_MASK {
            return class;
        }
        let known = self.happened.iter().position(|error| error.class == class && error.sentence == sentence);
        let at = known.unwrap_or_else(|| {
            let happened = Happened { class, sentence: sentence.to_owned() };
            if self.happened.len() < SENTENCES_MAX {
                self.happened.push(happened);
                return self.happened.len() - 1;
            }
            let at = self.oldest;
            self.happened[at] = happened;
            self.oldest = (at + 1) % SENTENCES_MAX;
            at
        });
        (at as i32 + 1) << CLASS_BITS | class
    }

    /// `MPI_LASTUSEDCODE`.
    pub(crate) fn last(&self) -> i32 {
        self.last
    }

    /// Adds a class.
    pub(crate) fn add_class(&mut self) -> i32 {
        self.last += 1;
        self.added.insert(self.last, Added { class: self.last, text: String::new() });
        self.last
    }

    /// Adds a code of `class`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when `class` is no class.
    pub(crate) fn add_code(&mut self, class: i32) -> Result<i32> {
        if self.class_of(class)? != class {
            return Err(Error::new(MPI_ERR_ARG, format!("{class} is an error code, not an error class")));
        }
        self.last += 1;
        self.added.insert(self.last, Added { class, text: String::new() });
        Ok(self.last)
    }

    /// Sets the text of an added class or code.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when the program did not add `code`, or the text is too long.
    pub(crate) fn set_text(&mut self, code: i32, text: &str) -> Result<()> {
        if text.len() >= MPI_MAX_ERROR_STRING as usize {
            return Err(Error::new(MPI_ERR_ARG, format!("the text is longer than {} bytes", MPI_MAX_ERROR_STRING - 1)));
        }
        let added = self.added.get_mut(&code);
        let added = added.ok_or_else(|| Error::new(MPI_ERR_ARG, format!("{code} is no error code of the program")))?;
        text.clone_into(&mut added.text);
        Ok(())
    }

    /// Removes the text of an added class or code.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when the program did not add `code`.
    pub(crate) fn remove_text(&mut self, code: i32) -> Result<()> {
        self.set_text(code, "")
    }

    /// Removes an added code.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it is no code of the program, or still has a text.
    pub(crate) fn remove_code(&mut self, code: i32) -> Result<()> {
        match self.added.get(&code) {
            Some(added) if added.class != code => {
                self.check_text_removed(code)?;
                self.added.remove(&code);
                Ok(())
            }
            _ => Err(Error::new(MPI_ERR_ARG, format!("{code} is no error code of the program"))),
        }
    }

    fn check_text_removed(&self, code: i32) -> Result<()> {
        match self.added.get(&code) {
            Some(added) if !added.text.is_empty() => {
                Err(Error::new(MPI_ERR_ARG, format!("{code} still has a text: call MPI_Remove_error_string first")))
            }
            _ => Ok(()),
        }
    }

    /// Removes an added class.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it is no class of the program, codes of it exist, or it still has a text.
    pub(crate) fn remove_class(&mut self, class: i32) -> Result<()> {
        if self.added.get(&class).is_none_or(|added| added.class != class) {
            return Err(Error::new(MPI_ERR_ARG, format!("{class} is no error class of the program")));
        }
        if self.added.iter().any(|(code, added)| *code != class && added.class == class) {
            return Err(Error::new(MPI_ERR_ARG, format!("error class {class} still has error codes")));
        }
        self.check_text_removed(class)?;
        self.added.remove(&class);
        Ok(())
    }

    /// The class of `code`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it is no code.
    pub(crate) fn class_of(&self, code: i32) -> Result<i32> {
        if standard(code).is_some() {
            return Ok(code);
        }
        let added = self.added.get(&code).map(|added| added.class);
        added
            .or_else(|| self.class_within(code))
            .ok_or_else(|| Error::new(MPI_ERR_ARG, format!("{code} is no error code")))
    }

    /// The text of `code`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it is no code.
    pub(crate) fn text(&self, code: i32) -> Result<String> {
        if let Some(added) = self.added.get(&code) {
            return Ok(added.text.clone());
        }
        if let Some(happened) = self.sentence(code) {
            return Ok(happened.to_owned());
        }
        match standard(self.class_within(code).unwrap_or(code)) {
            Some((name, text)) => Ok(format!("{name}: {text}")),
            None => Err(Error::new(MPI_ERR_ARG, format!("{code} is no error code"))),
        }
    }
}

impl ErrorCodes {
    fn sentence(&self, code: i32) -> Option<&str> {
        let class = self.class_within(code)?;
        let error = self.happened.get(place_within(code)?).filter(|error| error.class == class)?;
        Some(&error.sentence)
    }

    /// The class in the code of an error that has happened. Other numbers have none, whatever their lowest
    /// bits are.
    fn class_within(&self, code: i32) -> Option<i32> {
        let class = code & CLASS_MASK;
        let is_given = place_within(code)? < self.happened.len() || code >> CLASS_BITS == NO_SENTENCE;
        (is_given && standard(class).is_some()).then_some(class)
    }
}

/// The index of the sentence of a code.
fn place_within(code: i32) -> Option<usize> {
    usize::try_from(code >> CLASS_BITS).ok()?.checked_sub(1)
}

/// The name and sentence of this number in the standard: of a class, or of no error.
fn standard(number: i32) -> Option<(&'static str, &'static str)> {
    if number == MPI_SUCCESS {
        return Some(SUCCESS);
    }
    ERROR_CLASSES.iter().find(|(_, known, ..)| *known == number).map(|(_, _, name, text)| (*name, *text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::MPI_ERR_OTHER;

    /// Expect: the table has each class at its index, a number of its own for each, and no success.
    #[test]
    fn every_class_has_its_number() {
        let classes: Vec<ErrorClass> = ERROR_CLASSES.iter().map(|(class, ..)| *class).collect();
        assert_eq!(classes, ErrorClass::ALL);
        assert!(classes.iter().enumerate().all(|(index, class)| *class as usize == index));
        let mut numbers: Vec<i32> = classes.iter().map(|class| number(*class)).collect();
        numbers.sort_unstable();
        assert!(numbers.is_sorted_by(|one, next| one < next) && numbers[0] > MPI_SUCCESS);
        assert!(classes.iter().all(|class| ErrorClass::from_wire(ErrorClass::to_wire(Some(*class))) == Some(*class)));
    }

    #[test]
    fn the_code_of_an_error_tells_its_sentence_and_for_ever_its_class() {
        let mut codes = ErrorCodes::new();
        let code = codes.note(MPI_ERR_OTHER, "the loom is jammed");
        assert!(code > CLASS_MASK && code <= MPI_ERR_LASTCODE);
        assert_eq!(
            (codes.class_of(code).unwrap(), codes.text(code).unwrap().as_str()),
            (number(MPI_ERR_OTHER), "the loom is jammed")
        );
        assert_eq!(codes.note(MPI_ERR_OTHER, "the loom is jammed"), code);
        assert_eq!(codes.text(MPI_SUCCESS).unwrap(), "MPI_SUCCESS: no error");
        for turn in 0..SENTENCES_MAX {
            let other = codes.note(MPI_ERR_ARG, &format!("number {turn}"));
            assert_eq!(codes.text(other).unwrap(), format!("number {turn}"));
        }
        assert_eq!(codes.happened.len(), SENTENCES_MAX);
        assert_eq!(codes.class_of(code).unwrap(), number(MPI_ERR_OTHER));
        assert!(codes.text(code).unwrap().starts_with("MPI_ERR_OTHER"));
        assert_eq!(codes.note(MPI_ERR_IN_STATUS, "two"), number(MPI_ERR_IN_STATUS));
        assert!(
            codes.set_text(code, "no").is_err() && codes.add_code(code).is_err() && codes.remove_code(code).is_err()
        );
        assert!(codes.class_of(CLASS_MASK).is_err() && codes.class_of(-code).is_err());
    }

    /// Expect: every code of an error is above all bare classes, which have other numbers in other ABIs.
    #[test]
    fn a_code_is_no_class_with_a_sentence_and_without() {
        let mut codes = ErrorCodes::new();
        for class in ErrorClass::ALL.iter().copied().filter(|class| number(*class) <= CLASS_MASK) {
            let code = without_sentence(class);
            assert!(code > CLASS_MASK && code <= MPI_ERR_LASTCODE);
            assert_eq!(codes.class_of(code).unwrap(), number(class));
            assert!(codes.text(code).unwrap().starts_with(name(number(class)).unwrap()));
            let refers_to_others = matches!(class, MPI_ERR_IN_STATUS | MPI_ERR_PENDING);
            assert!(refers_to_others || codes.note(class, "the loom is jammed") > CLASS_MASK);
        }
    }

    #[test]
    fn numbers_that_were_never_given_are_no_codes() {
        let mut codes = ErrorCodes::new();
        let given = codes.note(MPI_ERR_OTHER, "the loom is jammed");
        // The lowest bits of each of these numbers are MPI_ERR_OTHER or another class.
        for code in (given + 1..=MPI_ERR_LASTCODE).chain([-1, i32::MIN, i32::MAX]) {
            let is_known = codes.class_of(code).is_ok();
            let was_given = [1, NO_SENTENCE].contains(&(code >> CLASS_BITS)) && standard(code & CLASS_MASK).is_some();
            assert_eq!(is_known, was_given || standard(code).is_some(), "{code}");
            assert_eq!(codes.text(code).is_ok(), is_known, "{code}");
        }
    }

    #[test]
    fn texts_go_first_then_codes_then_classes() {
        let mut codes = ErrorCodes::new();
        let class = codes.add_class();
        let code = codes.add_code(class).unwrap();
        codes.set_text(class, "class").unwrap();
        codes.set_text(code, "code").unwrap();
        assert_eq!((codes.last(), codes.class_of(code).unwrap()), (code, class));
        assert!(codes.remove_class(class).is_err() && codes.remove_code(code).is_err());
        codes.remove_text(code).unwrap();
        codes.remove_code(code).unwrap();
        assert!(codes.remove_code(code).is_err() && codes.class_of(code).is_err());
        assert!(codes.remove_class(class).is_err());
        codes.remove_text(class).unwrap();
        codes.remove_class(class).unwrap();
        assert!(codes.remove_class(class).is_err() && codes.remove_text(class).is_err());
        assert!(codes.remove_class(number(MPI_ERR_OTHER)).is_err() && codes.remove_code(0).is_err());
    }
}
