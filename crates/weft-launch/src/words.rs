//! Words of a command template, split as a shell would. The commands that reach other hosts are split here.

/// Splits `text` into words: blanks separate, quotes and backslashes protect.
///
/// # Errors
/// Half a sentence: a quote is not closed, or nothing follows the last backslash.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err("a single quote is not closed".into()),
                    }
                }
            }
            '"' => double_quoted(&mut letters, word.get_or_insert_default())?,
            '\\' => match letters.next() {
                Some(letter) => word.get_or_insert_default().push(letter),
                None => return Err("nothing follows the last backslash".into()),
            },
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads to the closing double quote. Inside it a backslash protects only characters that would be special
/// there.
fn double_quoted(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    let unclosed = || "a double quote is not closed".to_string();
    loop {
        match letters.next().ok_or_else(unclosed)? {
            '"' => return Ok(()),
            '\\' => {
                let letter = letters.next().ok_or_else(unclosed)?;
                if !matches!(letter, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(letter);
            }
            letter => word.push(letter),
        }
    }
}

/// Quotes `word` so that a shell reads it back unchanged.
pub(crate) fn quote(word: &str) -> String {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(harmless) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let cases = [
            ("", vec![]),
            ("  ssh -o  BatchMode=yes {host} ", vec!["ssh", "-o", "BatchMode=yes", "{host}"]),
            (r#"a 'b  c' "d e" f\ g"#, vec!["a", "b  c", "d e", "f g"]),
            (r#"'' "" x''y"#, vec!["", "", "xy"]),
            (r#""a\"b\n\\""#, vec![r#"a"b\n\"#]),
        ];
        for (text, words) in cases {
            assert_eq!(split(text), Ok(words.iter().map(|word| word.to_string()).collect()), "{text}");
        }
        for text in ["'a", "\"a", "a\\"] {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_quoted_is_split_back() {
        for word in ["plain/path", "two words", "it's", "", "$HOME", "a;b"] {
            assert_eq!(split(&quote(word)), Ok(vec![word.to_string()]));
        }
        assert_eq!(quote("/usr/bin/mpiexec"), "/usr/bin/mpiexec");
    }
}
