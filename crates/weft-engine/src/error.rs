//! What an operation returns when it cannot do what was asked: an MPI error class and one sentence.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

mod class;

pub use class::ErrorClass;

impl ErrorClass {
    /// What a message between processes says of an error, if there is one. All processes of a job run the
    /// same Weft.
    pub fn to_wire(class: Option<Self>) -> u32 {
        class.map_or(0, |class| class as u32 + 1)
    }

    /// The class that a message tells; `None`: there is no error. Numbers that no Weft sends stand for the
    /// class that explains nothing.
    pub fn from_wire(number: u32) -> Option<Self> {
        let index = number.checked_sub(1)?;
        Some(Self::ALL.get(index as usize).copied().unwrap_or(Self::Other))
    }
}

/// An MPI error: the class that the program sees (MPI-5.0 §9.4) and a sentence that says what, where and why.
///
/// One pointer, so that results and requests, which seldom carry one, stay small.
#[derive(Clone, Debug)]
pub struct Error(Box<Details>);

/// What an error says.
#[derive(Clone, Debug)]
pub struct Details {
    /// What kind of error it is.
    pub class: ErrorClass,
    /// What the program gets in place of a code of that class: a function of its own returned it.
    pub code: Option<i32>,
    /// What was wrong: names the argument and its value; the boundary adds the function and the rank.
    pub message: Cow<'static, str>,
    /// Handle of the communicator whose error handler must hear of it, where the call itself names none.
    pub communicator: Option<usize>,
    /// The number of the process that has called MPI_Finalize, if nothing comes for that reason.
    pub finalized: Option<u32>,
}

impl Details {
    fn other(message: Cow<'static, str>) -> Self {
        Self { class: ErrorClass::Other, code: None, message, communicator: None, finalized: None }
    }
}

impl Error {
    /// An error of `class` explained by `message`.
    #[cold]
    pub fn new(class: ErrorClass, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { class, ..Details::other(message.into()) }))
    }

    /// Nothing comes of an operation because the process of this number has called MPI_Finalize.
    #[cold]
    pub fn finalized(number: u32) -> Self {
        let message =
            format!("rank {number} of MPI_COMM_WORLD has called MPI_Finalize, and never sends what is waited for");
        Self(Box::new(Details { finalized: Some(number), ..Details::other(message.into()) }))
    }

    /// A function of the program returned `code`, which says nothing to us but that it failed: any integer,
    /// passed on as it is.
    #[cold]
    pub fn returned(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { code: Some(code), ..Details::other(message.into()) }))
    }

    /// The same, with the name of the procedure before the sentence.
    pub fn in_procedure(mut self, name: &str) -> Self {
        self.0.message = format!("{name}: {}", self.message).into();
        self
    }

    /// What others need to know of it.
    pub(crate) fn cause(&self) -> Cause {
        Cause { class: self.class, finalized: self.finalized }
    }

    /// The same, for the error handler of `communicator`.
    pub fn on(mut self, communicator: usize) -> Self {
        self.0.communicator = Some(communicator);
        self
    }
}

/// Why something has failed, as others are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The class of the error.
    pub class: ErrorClass,
    /// As in [`Details`].
    pub finalized: Option<u32>,
}

impl Deref for Error {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The result of an operation inside Weft.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of ours, not of the program.
pub fn internal(what: &str) -> Error {
    Error::new(ErrorClass::Intern, format!("internal error of Weft: {what}; please report it"))
}
