//! What an operation returns when it cannot do what was asked: an MPI error class and one sentence.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// The classes of what goes wrong in the engine (MPI-5.0 §9.4, with the values of §20).
pub const BUFFER: i32 = 1;
/// As above.
pub const COUNT: i32 = 2;
/// As above.
pub const TRUNCATED: i32 = 15;
/// As above.
pub const OTHER: i32 = 16;
/// As above.
pub const INTERNAL: i32 = 17;
/// As above.
pub const NO_MEMORY: i32 = 39;
/// As above.
pub const RMA_RANGE: i32 = 48;
/// As above.
pub const PEER_GONE: i32 = 58;

/// An MPI error: the class that the program sees (MPI-5.0 §9.4) and a sentence that says what, where and why.
///
/// One pointer, so that results and requests, which seldom carry one, stay small.
#[derive(Clone, Debug)]
pub struct Error(Box<Details>);

/// What an error says.
#[derive(Clone, Debug)]
pub struct Details {
    /// One of the `MPI_ERR_*` classes, or a code the program added itself (MPI-5.0 §9.5).
    pub class: i32,
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
        Self { class: OTHER, code: None, message, communicator: None, finalized: None }
    }
}

impl Error {
    /// An error of `class` explained by `message`.
    #[cold]
    pub fn new(class: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { class, ..Details::other(message.into()) }))
    }

    /// Nothing comes of an operation because the process of this number has called MPI_Finalize.
    #[cold]
    pub fn finalized(number: u32) -> Self {
        let message =
            format!("rank {number} of MPI_COMM_WORLD has called MPI_Finalize, and never sends what is waited for");
        Self(Box::new(Details { finalized: Some(number), ..Details::other(message.into()) }))
    }

    /// A function of the program returned `code`, which says nothing to us but that it failed: any integer, passed on as it is.
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
    pub class: i32,
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
    Error::new(INTERNAL, format!("internal error of Weft: {what}; please report it"))
}
