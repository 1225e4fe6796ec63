//! Names of striped files for paths: names have letters, digits, `_`, `-` and `.` only.
//!
//! Any other byte is written as `-.` and two hexadecimal digits, so that paths like `.zarray` and
//! `year=2024/x` are kept. A part that would begin so has a `_` before.

const ESCAPE: &str = "-.";
const ESCAPED: &str = "_-.";

/// The name for a path.
///
/// ```
/// use euphrates_store::striped::name_of_path;
///
/// assert_eq!(name_of_path(b"runs/year=2024/.zarray"), "runs/year-.3D2024/_-.2Ezarray");
/// ```
pub fn name_of_path(path: &[u8]) -> String {
    let parts: Vec<String> = path.split(|&byte| byte == b'/').map(encoded).collect();
    parts.join("/")
}

/// The path of a name.
///
/// ```
/// use euphrates_store::striped::path_of_name;
///
/// assert_eq!(path_of_name("runs/year-.3D2024/_-.2Ezarray"), b"runs/year=2024/.zarray");
/// ```
pub fn path_of_name(name: &str) -> Vec<u8> {
    let part = |part| decoded(part).unwrap_or_else(|| part.as_bytes().to_vec());
    name.split('/').map(part).collect::<Vec<_>>().join(&b'/')
}

fn encoded(part: &[u8]) -> String {
    let mut text = String::new();
    for (at, &byte) in part.iter().enumerate() {
        let is_allowed = byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let begins = at == 0 && b".-".contains(&byte);
        let looks_escaped = part[at..].starts_with(ESCAPE.as_bytes());
        match is_allowed && !begins && !looks_escaped {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("{ESCAPE}{byte:02X}")),
        }
    }
    if text.starts_with(ESCAPED) {
        // A `_` before an escape is not part of the path, so one that is gets an escape itself.
        text.replace_range(..1, "-.5F");
    }
    if text.starts_with(ESCAPE) { format!("_{text}") } else { text }
}

/// The part of a path; `None` if the name was not made from one.
fn decoded(part: &str) -> Option<Vec<u8>> {
    let part = if part.starts_with(ESCAPED) { &part[1..] } else { part };
    let mut pieces = part.split(ESCAPE);
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.as_bytes().split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|two| !two.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::check_name;

    #[test]
    fn every_path_has_a_name_of_its_own_and_is_found_by_it() {
        let paths = [
            "a",
            ".a",
            "_.a",
            "-a",
            "-.a",
            "_-.2E",
            "-.2E",
            "a-.2E",
            "a.b/c-d_e",
            "a b",
            "\u{e9}",
            "_\u{e9}",
            "__\u{e9}",
            "_",
            "__",
            "-_.z",
            "x=1/y",
            "--",
        ];
        let names: Vec<String> = paths.iter().map(|path| name_of_path(path.as_bytes())).collect();
        for (path, name) in paths.iter().zip(&names) {
            check_name(name).unwrap();
            assert_eq!(path_of_name(name), path.as_bytes(), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1);
        }
        assert_eq!(path_of_name("a-."), b"a-.", "no path has this name");
    }
}
