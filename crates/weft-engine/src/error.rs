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
    /// What was wrong: names the argument and its value; the boundary adds the function and the rank.
    pub message: Cow<'static, str>,
    /// Handle of the communicator whose error handler must hear of it, where the call itself names none.
    pub communicator: Option<usize>,
}

impl Error {
    /// An error of `class` explained by `message`.
    #[cold]
    pub fn new(class: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { class, message: message.into(), communicator: None }))
    }

    /// The same, for the error handler of `communicator`.
    pub fn on(mut self, communicator: usize) -> Self {
        self.0.communicator = Some(communicator);
        self
    }
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
