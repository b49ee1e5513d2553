//! The error of an operation that cannot do what was asked: an MPI error class and one sentence.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

mod class;

pub use class::ErrorClass;

impl ErrorClass {
    /// The number for an error class, or none, in messages between processes. All processes of a job run the
    /// same Weft.
    pub fn to_wire(class: Option<Self>) -> u32 {
        class.map_or(0, |class| class as u32 + 1)
    }

    /// The class for a number in a message; `None`: there is no error. A number that no Weft sends stands for
    /// [`ErrorClass::Other`].
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

/// The contents of an error.
#[derive(Clone, Debug)]
pub struct Details {
    /// The class of the error.
    pub class: ErrorClass,
    /// The code that the program gets in place of a code of that class: a function of its own returned it.
    pub code: Option<i32>,
    /// The sentence: it names the argument and its value; the boundary adds the function and the rank.
    pub message: Cow<'static, str>,
    /// Handle of the communicator whose error handler must be called, where the call itself names none.
    pub communicator: Option<usize>,
    /// The number of the process that has called MPI_Finalize, if the operation cannot complete for that
    /// reason.
    pub finalized: Option<u32>,
    /// The operation has failed here because it failed at another process, and the error of that process says
    /// why.
    pub is_consequence: bool,
}

impl Details {
    fn other(message: Cow<'static, str>) -> Self {
        Self {
            class: ErrorClass::Other,
            code: None,
            message,
            communicator: None,
            finalized: None,
            is_consequence: false,
        }
    }
}

impl Error {
    /// An error of `class` explained by `message`.
    #[cold]
    pub fn new(class: ErrorClass, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { class, ..Details::other(message.into()) }))
    }

    /// The error of an operation that has failed at another process, which knows the cause and reports it.
    #[cold]
    pub fn consequence(class: ErrorClass, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { class, is_consequence: true, ..Details::other(message.into()) }))
    }

    /// The error of an operation that cannot complete because the process of this number has called
    /// MPI_Finalize.
    #[cold]
    pub fn finalized(number: u32) -> Self {
        let message =
            format!("rank {number} of MPI_COMM_WORLD has called MPI_Finalize, and never sends what is waited for");
        Self(Box::new(Details { finalized: Some(number), ..Details::other(message.into()) }))
    }

    /// The error of an operation on a communicator, window or file that has been revoked.
    #[cold]
    pub fn revoked() -> Self {
        let message = "the object has been revoked: only MPIX_Comm_agree, MPIX_Comm_shrink and local calls work on it";
        Self::new(ErrorClass::Revoked, message)
    }

    /// The error of a function of the program that returned `code`: any integer, passed on as it is, since
    /// Weft does not know its meaning.
    #[cold]
    pub fn returned(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { code: Some(code), ..Details::other(message.into()) }))
    }

    /// Puts the name of the procedure before the sentence.
    pub fn in_procedure(mut self, name: &str) -> Self {
        self.0.message = format!("{name}: {}", self.message).into();
        self
    }

    /// The part of the error that other processes need to know.
    pub(crate) fn cause(&self) -> Cause {
        Cause { class: self.class, finalized: self.finalized }
    }

    /// Leaves it to the call whose error handler is to be called: what the error names is an object of the
    /// library's own.
    pub fn of_the_call(mut self) -> Self {
        self.0.communicator = None;
        self
    }

    /// Names the communicator whose error handler is to be called.
    pub fn on(mut self, communicator: usize) -> Self {
        self.0.communicator = Some(communicator);
        self
    }
}

/// The reason of a failure, as other processes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The class of the error.
    pub class: ErrorClass,
    /// The finalized process, as in [`Details`].
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

/// An error of Weft, not of the program.
pub fn internal(what: &str) -> Error {
    Error::new(ErrorClass::Intern, format!("internal error of Weft: {what}; please report it"))
}
