//! Recognises texts with one record a line although some lines are malformed. By brackets alone, a
//! line that is cut short would be one record with all that follow it.

use memchr::memrchr;
use serde::de::IgnoredAny;

use crate::json::inference::sample_end;
use crate::json::value_boundaries::is_array;

/// As `sample_end`, for a text whose bad records are passed over, also the first one.
pub fn sample_end_of_lines(text: &[u8], all: bool) -> Option<usize> {
    match memrchr(b'\n', text).filter(|_| !all && has_record_lines(text)) {
        Some(end) => Some(end + 1),
        None => sample_end(text, all),
    }
}

/// Whether a text with bad records has one record a line: at least half of its lines are JSON.
pub fn has_record_lines(text: &[u8]) -> bool {
    let lines = || text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    !is_array(text) && 2 * lines().filter(|line| is_json(line)).count() >= lines().count()
}

/// The lines that are JSON.
pub fn readable_lines(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| is_json(line)).flatten().copied().collect()
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_few_malformed_lines_have_record_lines() {
        for (text, expected) in [
            ("", true),
            ("{\"a\":\n{\"a\":1}\n{\"a\":2}\n", true),
            ("{\"a\":1}\n\n{\"a\"\n", true),
            ("{\n\"a\":1\n}\n{\n\"a\":2\n}\n", false),
            ("[{\"a\":1},\n{\"a\":2}]", false),
            ("[1,2]\n", false),
        ] {
            assert_eq!(has_record_lines(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(readable_lines(b"{\"a\":\n{\"a\":1}\n1"), b"{\"a\":1}\n1");
    }
}
