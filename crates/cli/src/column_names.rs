//! Parses lists of column names on the command line, like `id, "a, b" desc, day=date`.

/// Splits at a character, except between double quotes. The parts are trimmed.
pub fn split(text: &str, at: char) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = text.split(move |c| {
        is_quoted ^= c == '"';
        c == at && !is_quoted
    });
    parts.map(str::trim).collect()
}

/// Splits at the first occurrence of a character outside of double quotes.
pub fn split_once(text: &str, at: char) -> Option<(&str, &str)> {
    let first = split(text, at)[0];
    let behind = text.trim_start()[first.len()..].trim_start();
    behind.strip_prefix(at).map(|rest| (first, rest.trim()))
}

/// Removes the double quotes around a name, which a comma or an equals sign needs.
pub fn unquoted(name: &str) -> &str {
    let inner = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_separators_do_not_split() {
        assert_eq!(split(r#"id , "a, b" desc,x"#, ','), ["id", r#""a, b" desc"#, "x"]);
        assert_eq!(split("", ','), [""]);
        assert_eq!(split(r#"a,"b,c"#, ','), ["a", r#""b,c"#]);
        assert_eq!(split_once(" n = sum(a=b) ", '='), Some(("n", "sum(a=b)")));
        assert_eq!(split_once(r#""a=b"=c"#, '='), Some((r#""a=b""#, "c")));
        assert_eq!(split_once("=c", '='), Some(("", "c")));
        assert_eq!(split_once(r#""a=b""#, '='), None);
    }

    #[test]
    fn only_enclosing_quotes_are_removed() {
        for (name, bare) in [(r#""a, b""#, "a, b"), ("a", "a"), (r#"""#, r#"""#), (r#""""#, "")] {
            assert_eq!(unquoted(name), bare);
        }
        assert_eq!(unquoted(r#""a" x "b""#), r#""a" x "b""#);
    }
}
