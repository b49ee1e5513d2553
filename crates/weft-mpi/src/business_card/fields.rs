//! Named fields as text: a head, then `name:value`, joined by commas.
//!
//! A name ends with the version of its value's meaning, as in `udp/1`. A developer who changes the meaning
//! gives the field the next version, and may write the old version beside it as long as others read it. A
//! reader skips fields that it does not know.

use weft_launch::wire::CARD_MAX;

/// The beginning of the text.
const HEAD: &str = "weft-card";
/// The most fields of a text.
const FIELDS_MAX: usize = 64;

/// A writer of fields.
pub(super) struct Writer(String);

impl Writer {
    /// A text without fields.
    pub(super) fn new() -> Self {
        Self(HEAD.to_owned())
    }

    /// Adds a field. Neither the name nor the value has a comma.
    pub(super) fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::fmt::Write;
        let start = self.0.len();
        // Writing to a string cannot fail.
        let _ = write!(self.0, ",{name}:{value}");
        debug_assert!(!self.0[start + 1..].contains(','), "{name} has a comma");
    }

    /// Adds a field if there is a value.
    pub(super) fn put_some(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// The finished text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Fields that another process has written. Only what [`required`](Self::required) and
/// [`optional`](Self::optional) have read is trusted. Errors show no value, since a value may be a secret.
pub(super) struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    /// Splits a text.
    ///
    /// # Errors
    /// The text has another head, is too long, or has a field twice, too many fields, or a part that is no
    /// field.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        if text.len() > CARD_MAX {
            return Err(format!("{} bytes, of which {CARD_MAX} may be used", text.len()));
        }
        let mut parts = text.split(',');
        if parts.next() != Some(HEAD) {
            return Err("a text that does not begin as a card does".to_owned());
        }
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let field = part.split_once(':').filter(|(name, _)| is_name(name));
            let (name, value) = field.ok_or_else(|| format!("a field {} without a name", fields.len()))?;
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(format!("the field {name} twice"));
            }
            if fields.len() == FIELDS_MAX {
                return Err(format!("more than {FIELDS_MAX} fields"));
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    /// Reads the value of a field with `read`.
    ///
    /// # Errors
    /// The field is missing, or `read` rejects its value.
    pub(super) fn required<T>(&self, name: &str, read: impl FnOnce(&'a str) -> Option<T>) -> Result<T, String> {
        self.optional(name, read)?.ok_or_else(|| format!("no field {name}"))
    }

    /// Reads the value of a field that may be missing with `read`.
    ///
    /// # Errors
    /// `read` rejects the value.
    pub(super) fn optional<T>(&self, name: &str, read: impl FnOnce(&'a str) -> Option<T>) -> Result<Option<T>, String> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| format!("a field {name} with a value that makes no sense"))
    }
}

/// Returns whether a text is a name and a version.
fn is_name(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('/').is_some_and(|(word, version)| is_word(word) && is_number(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<u32> {
        text.parse().ok()
    }

    #[test]
    fn fields_are_found_by_name_and_version_and_others_are_skipped() {
        let mut writer = Writer::new();
        writer.put("size/1", 3);
        writer.put("size/2", "3 of 4:5");
        writer.put_some("absent/1", None::<u32>);
        let text = writer.finish();
        assert_eq!(text, "weft-card,size/1:3,size/2:3 of 4:5");
        let fields = Fields::parse(&text).expect("two fields");
        assert_eq!(fields.required("size/1", number), Ok(3));
        assert_eq!(fields.required("size/2", |text| Some(text.len())), Ok(8));
        assert_eq!(fields.optional("absent/1", number), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_value_is_shown() {
        let fields = Fields::parse("weft-card,size/1:sesame").expect("a field");
        for (result, said) in [
            (fields.required("size/1", number), "size/1 with a value"),
            (fields.required("size/2", number), "no field size/2"),
            (fields.optional("size/1", number).map(|_| 0), "size/1 with a value"),
        ] {
            let sentence = result.expect_err("wrong");
            assert!(sentence.contains(said) && !sentence.contains("sesame"), "{sentence}");
        }
        let many: String = (0..=FIELDS_MAX).map(|version| format!(",size/{version}:1")).collect();
        for (text, said) in [
            ("", "does not begin"),
            ("weft-cards,size/1:1", "does not begin"),
            ("9,1f,sesame", "does not begin"),
            ("weft-card,", "a field 0 without a name"),
            ("weft-card,size/1:1,sesame", "a field 1 without a name"),
            ("weft-card,size:sesame", "a field 0 without a name"),
            ("weft-card,size/x:sesame", "a field 0 without a name"),
            ("weft-card,size/1:1,size/1:2", "the field size/1 twice"),
            (&format!("weft-card{many}"), "more than 64 fields"),
            (&format!("weft-card,size/1:{}", "x".repeat(CARD_MAX)), "bytes"),
        ] {
            let sentence = Fields::parse(text).err().expect(text);
            assert!(sentence.contains(said) && !sentence.contains("sesame"), "{sentence}");
        }
    }
}
