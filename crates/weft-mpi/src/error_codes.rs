//! Error classes, codes and strings, the program's own among them (MPI-5.0 §9.4, §9.5).

use std::collections::BTreeMap;

use crate::constants::{ERROR_CLASS_NAMES, MPI_ERR_ARG, MPI_ERR_LASTCODE, MPI_MAX_ERROR_STRING, MPI_SUCCESS};
use crate::error::{Error, Result};

struct Added {
    class: i32,
    text: String,
}

/// What the program added.
pub struct ErrorCodes {
    added: BTreeMap<i32, Added>,
    last: i32,
}

impl ErrorCodes {
    /// Nothing added.
    pub const fn new() -> Self {
        Self { added: BTreeMap::new(), last: MPI_ERR_LASTCODE }
    }

    /// `MPI_LASTUSEDCODE`.
    pub fn last(&self) -> i32 {
        self.last
    }

    /// A new class.
    pub fn add_class(&mut self) -> i32 {
        self.last += 1;
        self.added.insert(self.last, Added { class: self.last, text: String::new() });
        self.last
    }

    /// A new code of `class`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when `class` is none.
    pub fn add_code(&mut self, class: i32) -> Result<i32> {
        if self.class_of(class)? != class {
            return Err(Error::new(MPI_ERR_ARG, format!("{class} is an error code, not an error class")));
        }
        self.last += 1;
        self.added.insert(self.last, Added { class, text: String::new() });
        Ok(self.last)
    }

    /// The text of an added class or code.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when the program did not add `code`, or the text is too long.
    pub fn set_text(&mut self, code: i32, text: &str) -> Result<()> {
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
    pub fn remove_text(&mut self, code: i32) -> Result<()> {
        self.set_text(code, "")
    }

    /// Removes an added code.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it is none, or it still has a text.
    pub fn remove_code(&mut self, code: i32) -> Result<()> {
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
    /// `MPI_ERR_ARG` when it is none, codes of it exist, or it still has a text.
    pub fn remove_class(&mut self, class: i32) -> Result<()> {
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
    /// `MPI_ERR_ARG` when it is none.
    pub fn class_of(&self, code: i32) -> Result<i32> {
        if code == MPI_SUCCESS || standard(code).is_some() {
            return Ok(code);
        }
        let added = self.added.get(&code).map(|added| added.class);
        added.ok_or_else(|| Error::new(MPI_ERR_ARG, format!("{code} is no error code")))
    }

    /// The text of `code`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when it is none.
    pub fn text(&self, code: i32) -> Result<String> {
        if let Some(added) = self.added.get(&code) {
            return Ok(added.text.clone());
        }
        match standard(code) {
            Some((name, text)) => Ok(format!("{name}: {text}")),
            None => Err(Error::new(MPI_ERR_ARG, format!("{code} is no error code"))),
        }
    }
}

impl Default for ErrorCodes {
    fn default() -> Self {
        Self::new()
    }
}

fn standard(class: i32) -> Option<(&'static str, &'static str)> {
    ERROR_CLASS_NAMES.iter().find(|(known, ..)| *known == class).map(|(_, name, text)| (*name, *text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::MPI_ERR_OTHER;

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
        assert!(codes.remove_class(MPI_ERR_OTHER).is_err() && codes.remove_code(0).is_err());
    }
}
