//! Decodes `\u` surrogate pairs of JSON before Arrow's decoder reads them.
//!
//! Arrow's decoder combines a surrogate pair with `|` instead of `+`, so code points in every other
//! Unicode plane decode wrongly. arrow-json 59.3.2 does so (`char_from_surrogate_pair` in
//! `reader/tape.rs`); remove this module when arrow-json adds them.

use euphrates_flow::{Error, Result};
use memchr::memchr;
use memchr::memmem;

/// Bytes of a pair, as in `\ud842\udfb7`.
pub const PAIR_BYTES: usize = 12;

/// The first piece of a text, cut so that no escape crosses the cut.
pub enum TextPiece {
    /// This many bytes have no surrogate escape.
    Plain(usize),
    /// A surrogate pair: its character, and the bytes of its escape.
    Pair(char, usize),
    /// The text ends within an escape, so more bytes are needed.
    Open,
}

/// The first piece of a text, which must not begin within an escape. Fails at half a pair.
pub fn first_piece(text: &[u8]) -> Result<TextPiece> {
    match next_escape(text) {
        None => Ok(TextPiece::Plain(text.len())),
        Some(0) => surrogates(text),
        Some(at) => Ok(TextPiece::Plain(at)),
    }
}

/// Index of the next escape of a surrogate, or of an escape that the text ends in.
fn next_escape(text: &[u8]) -> Option<usize> {
    // One search of a text without escapes instead of two.
    let first = memchr(b'\\', text)?;
    let ends_open = text[text.len().saturating_sub(2)..].contains(&b'\\');
    let some = || [b"\\ud", b"\\uD"].iter().any(|begin| memmem::find(text, *begin).is_some());
    if !ends_open && !some() {
        return None;
    }
    let mut at = first;
    while let Some(found) = memchr(b'\\', &text[at..]) {
        at += found;
        match (text.get(at + 1), text.get(at + 2), text.get(at + 3)) {
            (None, ..) | (Some(b'u'), None, _) | (Some(b'u'), Some(b'd' | b'D'), None) => {
                return Some(at);
            }
            // Surrogates begin at d800; d000 to d7ff are Korean characters.
            (Some(b'u'), Some(b'd' | b'D'), Some(b'0'..=b'7')) => at += 2,
            (Some(b'u'), Some(b'd' | b'D'), Some(_)) => return Some(at),
            _ => at += 2,
        }
    }
    None
}

/// The character at the beginning of a text that begins with a surrogate escape.
fn surrogates(text: &[u8]) -> Result<TextPiece> {
    let Some(high) = unit(text) else {
        return if text.len() < PAIR_BYTES / 2 {
            Ok(TextPiece::Open)
        } else {
            Ok(TextPiece::Plain(2))
        };
    };
    let behind = &text[PAIR_BYTES / 2..];
    let low = match unit(behind) {
        None if b"\\u".starts_with(&behind[..behind.len().min(2)]) && behind.len() < 6 => {
            return Ok(TextPiece::Open);
        }
        low => low,
    };
    match (high, low) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            let character = char::from_u32(code).expect("two surrogates are a character");
            Ok(TextPiece::Pair(character, PAIR_BYTES))
        }
        _ => Err(Error::corrupt(format!("`\\u{high:04x}` is half a character, without the other"))
            .remedy("write both surrogates, high before low, or the character itself")),
    }
}

/// The code unit of the escape at the beginning of a text; `None` if it is incomplete.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
    digits.into_iter().try_fold(0, |number, digit| Some(number * 16 + digit?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Replaces surrogates, `step` bytes at a time.
    fn replaced(text: &[u8], step: usize) -> Result<Vec<u8>> {
        let (mut out, mut open) = (vec![], vec![]);
        for part in text.chunks(step) {
            open.extend_from_slice(part);
            let mut at = 0;
            while at < open.len() {
                match first_piece(&open[at..])? {
                    TextPiece::Plain(bytes) => {
                        out.extend_from_slice(&open[at..at + bytes]);
                        at += bytes;
                    }
                    TextPiece::Pair(character, bytes) => {
                        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        at += bytes;
                    }
                    TextPiece::Open => break,
                }
            }
            open.drain(..at);
        }
        out.extend(open);
        Ok(out)
    }

    proptest! {
        #[test]
        fn surrogate_pairs_decode_as_in_another_reader(
            text: String,
            planes in prop::collection::vec(0x1_0000u32..0x11_0000, 0..5),
            step in 1usize..20,
        ) {
            let far = planes.into_iter().filter_map(char::from_u32);
            let text: String = text.chars().chain(far).chain("\\ud842\\".chars()).collect();
            let escaped = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
            let escaped = escaped.collect::<String>();
            let escaped = format!("\"\\\\{escaped}\"");
            let made = replaced(escaped.as_bytes(), step).unwrap();
            let made: String = serde_json::from_slice(&made).unwrap();
            prop_assert_eq!(made, format!("\\{text}"));
        }
    }

    #[test]
    fn half_a_pair_is_refused_and_lookalikes_are_not() {
        for text in [r#""\ud842""#, r#""\udfb7\ud842""#, r#""\ud842\n""#, r#""\uD842\ud842\udfb7""#]
        {
            for step in 1..15 {
                assert!(replaced(text.as_bytes(), step).is_err(), "{text} by {step}");
            }
        }
        for text in [r#""\\ud842""#, r#""\ud7a3\n""#, r#""\\\\""#, r#"{"a":"\u00e4\ud"#] {
            assert_eq!(replaced(text.as_bytes(), 3).unwrap(), text.as_bytes());
        }
    }
}
