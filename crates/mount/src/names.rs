//! Names of striped files for parts of paths: those of `python/euphrates/_files/names.py`.
//!
//! Names have letters, digits, `_`, `-` and `.` only. Any other byte is written as `-.` and two
//! hexadecimal digits. A part that would begin so has a `_` before.

const ESCAPE: &str = "-.";

/// The name for a part of a path.
///
/// ```
/// use euphrates_mount::names::{decoded, encoded};
///
/// assert_eq!(encoded(b"year=2024"), "year-.3D2024");
/// assert_eq!(encoded(b".zarray"), "_-.2Ezarray");
/// assert_eq!(decoded("_-.2Ezarray"), b".zarray");
/// ```
pub fn encoded(part: &[u8]) -> String {
    let mut text = String::new();
    for (at, &byte) in part.iter().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let begins_badly = at == 0 && (b".-".contains(&byte) || part.starts_with(b"_-."));
        match is_plain && !begins_badly && !part[at..].starts_with(b"-.") {
            true => text.push(char::from(byte)),
            false => text += &format!("{ESCAPE}{byte:02X}"),
        }
    }
    if text.starts_with(ESCAPE) { format!("_{text}") } else { text }
}

/// The part of a path for a name; the name itself if it is no such encoding.
pub fn decoded(name: &str) -> Vec<u8> {
    let text = name.strip_prefix('_').filter(|rest| rest.starts_with(ESCAPE)).unwrap_or(name);
    let mut pieces = text.split(ESCAPE);
    let mut part = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|two| two.bytes().all(|one| one.is_ascii_hexdigit()));
        let Some(byte) = digits.and_then(|two| u8::from_str_radix(two, 16).ok()) else {
            return name.as_bytes().to_vec();
        };
        part.push(byte);
        part.extend(&piece.as_bytes()[2..]);
    }
    part
}

#[cfg(test)]
mod tests {
    use euphrates_store::catalog::check_name;

    use super::*;

    #[test]
    fn every_part_has_a_valid_name_that_is_decoded_to_it() {
        let parts: [&[u8]; 10] =
            [b"a", b".a", b"-a", b"_-.41", b"a-.b", b"\xff\x00", b"a b", b"-.", b"_", b"x-"];
        for part in parts {
            let name = encoded(part);
            assert!(check_name(&name).is_ok(), "{name}");
            assert_eq!(decoded(&name), part, "{name}");
        }
        assert_eq!(decoded("a-.zz"), b"a-.zz");
    }
}
