//! Names of folders that hold a column's value for all rows of the files below (`city=Ur/`), as
//! Hive and Spark write them.
//!
//! Characters that have a meaning in paths are written as their bytes in hexadecimal, `%2F`. The
//! set is that of Hive's `FileUtils.escapePathName`, which DuckDB and Arrow read too.

use std::borrow::Cow;

/// The value of a folder whose column is null.
pub const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The name of the folder for a value of a column; null for `None`.
///
/// ```
/// use euphrates_formats::dataset::hive::folder_name;
///
/// assert_eq!(folder_name("city", Some("Ur")), "city=Ur");
/// assert_eq!(folder_name("a=b", Some("1/2 %")), "a%3Db=1%2F2 %25");
/// assert_eq!(folder_name("n", None), "n=__HIVE_DEFAULT_PARTITION__");
/// ```
pub fn folder_name(column: &str, value: Option<&str>) -> String {
    let mut name = String::new();
    // Folders that begin with a dot are hidden.
    match column.strip_prefix('.') {
        Some(rest) => {
            name.push_str("%2E");
            escape(rest, &mut name);
        }
        None => escape(column, &mut name),
    }
    name.push('=');
    match value {
        None => name.push_str(NULL),
        Some(NULL) => {
            name.push_str("%5F");
            name.push_str(&NULL[1..]);
        }
        Some(value) => escape(value, &mut name),
    }
    name
}

/// The column and the value that a folder's name holds, the value `None` for null. `None` if it
/// holds none.
///
/// ```
/// use euphrates_formats::dataset::hive::{folder_name, parse_folder};
///
/// let found = parse_folder("a%3Db=1%2F2 %25");
/// assert_eq!(found, Some(("a=b".into(), Some("1/2 %".into()))));
/// let text = Some("__HIVE_DEFAULT_PARTITION__");
/// assert_eq!(parse_folder(&folder_name("n", text)).unwrap().1.as_deref(), text, "no null");
/// assert_eq!(parse_folder("2024"), None);
/// ```
pub fn parse_folder(name: &str) -> Option<(String, Option<String>)> {
    let (column, value) = name.split_once('=')?;
    let value = (value != NULL).then(|| unescaped(value).into_owned());
    (!column.is_empty()).then(|| (unescaped(column).into_owned(), value))
}

fn escape(text: &str, to: &mut String) {
    for letter in text.chars() {
        match is_special(letter) {
            true => to.push_str(&format!("%{:02X}", u32::from(letter))),
            false => to.push(letter),
        }
    }
}

fn is_special(letter: char) -> bool {
    letter < ' '
        || matches!(letter, '\x7f' | '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=')
        || matches!(letter, '?' | '\\' | '{' | '[' | ']' | '^')
}

/// The text with each `%` and two hexadecimal digits replaced by their byte; the text itself where
/// that is not valid.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), vec![], 0);
    while at < bytes.len() {
        let digits = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        match digits.filter(is_hex).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).map_or(text.into(), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_one_folder_and_comes_back() {
        let special: String = (0..=0x7fu8).map(char::from).collect();
        for value in ["", ".", "..", "a b", "é–ß", "%", "%zz", "%2", "100%25", NULL, &special] {
            for column in ["c", ".c", "_c", "a=b", "a/b"] {
                let name = folder_name(column, Some(value));
                assert!(!name.contains(['/', '\0']) && !name.starts_with('.'), "{name}");
                assert_eq!(parse_folder(&name), Some((column.into(), Some(value.into()))));
            }
        }
        assert_eq!(parse_folder(&folder_name("c", None)), Some(("c".into(), None)));
    }

    #[test]
    fn folders_without_a_column_are_none() {
        for name in ["", "2024", "=1"] {
            assert_eq!(parse_folder(name), None, "{name}");
        }
        // Nothing is lost of a name that another program has escaped in its own way.
        assert_eq!(parse_folder("a=%ff"), Some(("a".into(), Some("%ff".into()))));
    }
}
