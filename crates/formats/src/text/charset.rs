//! Detects the encoding of text that is not UTF-8, and transcodes it to UTF-8 during reading.
//!
//! Names have the meaning of Python and IANA's list, not that of browsers: `latin-1` is not
//! windows-1252, and a byte that an encoding does not define is an error.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use crate::stream::{self, ByteInput, carried};

/// Bytes that are decoded per step.
const STEP_BYTES: usize = 64 << 10;

/// Encodings that the error of an unknown name suggests.
const KNOWN: [&str; 12] = [
    "utf-8",
    "utf-16",
    "utf-16le",
    "utf-16be",
    "latin-1",
    "iso-8859-15",
    "windows-1252",
    "windows-1251",
    "koi8-r",
    "shift_jis",
    "gb18030",
    "euc-kr",
];

/// A character encoding and its decoding tables.
#[derive(Clone, Debug)]
pub enum Charset {
    /// UTF-8, which needs no transcoding.
    Utf8,
    /// UTF-16 in the byte order of its mark; little-endian without one.
    Utf16,
    /// A single-byte encoding: its name, and the character of each byte that is defined.
    Single(Arc<str>, Arc<[Option<char>; 256]>),
    /// Any other encoding, decoded by `encoding_rs`.
    Other(&'static Encoding),
}

impl Charset {
    /// The encoding with this name, in any case, with `-` or `_`; a usage error if there is none.
    pub fn named(name: &str) -> Result<Charset> {
        let label = name.trim().to_lowercase().replace([' ', '_'], "-");
        let bare = label.replace('-', "");
        match bare.as_str() {
            "utf8" | "utf8sig" | "u8" => return Ok(Charset::Utf8),
            "utf16" | "u16" | "ucs2" => return Ok(Charset::Utf16),
            "utf16le" => return Ok(Charset::Other(UTF_16LE)),
            "utf16be" => return Ok(Charset::Other(UTF_16BE)),
            "ascii" | "usascii" | "646" => return Ok(Charset::single(name, |byte| byte < 0x80)),
            "latin1" | "latin" | "l1" | "iso88591" | "88591" | "cp819" => {
                return Ok(Charset::single(name, |_| true));
            }
            _ => {}
        }
        let windows = bare.strip_prefix("cp").filter(|page| page.starts_with("125"));
        let windows = windows.map(|page| format!("windows-{page}"));
        let latin = bare.strip_prefix("iso8859").map(|part| format!("iso-8859-{part}"));
        let labels = [Some(label.clone()), Some(bare), windows, latin];
        let found = labels.iter().flatten().find_map(|label| Encoding::for_label(label.as_bytes()));
        let found = found.filter(|found| found.output_encoding() == *found || is_utf16(found));
        match found {
            Some(found) if found == UTF_8 => Ok(Charset::Utf8),
            Some(found) if found.is_single_byte() => Ok(Charset::table(name, &label, found)),
            Some(found) => Ok(Charset::Other(found)),
            None => Err(unknown("encoding", name, KNOWN.into_iter())),
        }
    }

    /// The encoding that a byte order mark declares; `None` for UTF-8 or without a mark.
    pub fn of_mark(begin: &[u8]) -> Option<Charset> {
        match begin {
            [0xff, 0xfe, ..] => Some(Charset::Other(UTF_16LE)),
            [0xfe, 0xff, ..] => Some(Charset::Other(UTF_16BE)),
            _ => None,
        }
    }

    /// Whether bytes need no transcoding.
    pub fn is_utf8(&self) -> bool {
        matches!(self, Charset::Utf8)
    }

    /// The encoding's name in errors.
    fn name(&self) -> &str {
        match self {
            Charset::Utf8 => "UTF-8",
            Charset::Utf16 => "UTF-16",
            Charset::Single(name, _) => name,
            Charset::Other(encoding) => encoding.name(),
        }
    }

    /// A single-byte encoding whose defined bytes equal their code points.
    fn single(name: &str, defined: impl Fn(u8) -> bool) -> Charset {
        let table = std::array::from_fn(|byte| {
            let byte = byte as u8;
            defined(byte).then(|| char::from(byte))
        });
        Charset::Single(name.into(), Arc::new(table))
    }

    /// The table of a single-byte encoding from the browsers' one, corrected where browsers
    /// substitute another.
    fn table(name: &str, label: &str, encoding: &'static Encoding) -> Charset {
        // ISO encodings have control characters there; browsers decode them as the Windows ones
        // (8859-9, -11).
        let is_iso = label.contains("8859") || matches!(label, "latin5" | "latin-5" | "l5");
        let table = std::array::from_fn(|byte| {
            let byte = byte as u8;
            let is_control = (0x80..0xa0).contains(&byte);
            if is_iso && is_control {
                return Some(char::from(byte));
            }
            let (text, _) = encoding.decode_without_bom_handling(std::slice::from_ref(&byte));
            let character = text.chars().next().filter(|found| *found != '\u{fffd}');
            // Browsers map bytes that Windows leaves undefined to control characters.
            character.filter(|found| !is_control || !found.is_control())
        });
        Charset::Single(name.into(), Arc::new(table))
    }
}

fn is_utf16(encoding: &'static Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

/// An input transcoded to UTF-8.
pub struct TranscodedInput {
    input: ByteInput,
    charset: Charset,
    /// The decoder of an encoding without a table.
    decoder: Option<Decoder>,
    text: Vec<u8>,
    at: usize,
    /// Bytes decoded so far, and line ends among them.
    offset: u64,
    lines: u64,
    ended: bool,
}

impl TranscodedInput {
    /// Wraps an input that is at its beginning; skips a byte order mark.
    pub fn new(charset: Charset, mut input: ByteInput) -> Result<TranscodedInput> {
        let encoding = match &charset {
            Charset::Other(encoding) => Some(*encoding),
            Charset::Utf16 => {
                let mark = stream::up_to(&mut input, 2)?;
                let is_big = mark == [0xfe, 0xff];
                input = stream::prepend(mark, input);
                Some(if is_big { UTF_16BE } else { UTF_16LE })
            }
            Charset::Utf8 | Charset::Single(..) => None,
        };
        let decoder = encoding.map(Encoding::new_decoder_with_bom_removal);
        let (text, at, offset, lines, ended) = (vec![], 0, 0, 0, false);
        Ok(TranscodedInput { input, charset, decoder, text, at, offset, lines, ended })
    }

    /// Decodes more of the input; at its end, appends nothing.
    fn more(&mut self) -> io::Result<()> {
        self.text.clear();
        self.at = 0;
        while self.text.is_empty() && !self.ended {
            let bytes = self.input.fill_buf()?;
            let bytes = &bytes[..bytes.len().min(STEP_BYTES)];
            self.ended = bytes.is_empty();
            let (taken, bad) = match (&self.charset, &mut self.decoder) {
                (Charset::Single(_, table), _) => by_table(table, bytes, &mut self.text),
                (_, Some(decoder)) => by_decoder(decoder, bytes, &mut self.text),
                (_, None) => {
                    self.text.extend_from_slice(bytes);
                    (bytes.len(), None)
                }
            };
            self.offset += taken as u64;
            self.lines += memchr::memchr_iter(b'\n', &self.text).count() as u64;
            if let Some(bad) = bad {
                self.ended = true;
                return Err(self.malformed(bad));
            }
            self.input.consume(taken);
        }
        Ok(())
    }

    /// The error of a malformed sequence that ends `behind` bytes before the end of the bytes
    /// taken.
    fn malformed(&self, behind: u8) -> io::Error {
        let at = self.offset.saturating_sub(u64::from(behind));
        let message = format!("what ends at byte {at} is not {}", self.charset.name());
        let error = Error::corrupt(message).at(format!("line {}", self.lines + 1));
        carried(error.remedy("name the encoding that the text has, like `encoding=\"latin-1\"`"))
    }
}

/// Decodes bytes up to the first that is undefined.
fn by_table(table: &[Option<char>; 256], bytes: &[u8], text: &mut Vec<u8>) -> (usize, Option<u8>) {
    text.reserve(bytes.len() * 2);
    for (at, &byte) in bytes.iter().enumerate() {
        match table[usize::from(byte)] {
            Some(found) if found.is_ascii() => text.push(found as u8),
            Some(found) => text.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes()),
            None => return (at + 1, Some(0)),
        }
    }
    (bytes.len(), None)
}

/// Decodes bytes up to the first malformed sequence; no bytes mean the end of the input.
fn by_decoder(decoder: &mut Decoder, bytes: &[u8], text: &mut Vec<u8>) -> (usize, Option<u8>) {
    let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
    text.resize(room.unwrap_or(bytes.len() * 4 + 16), 0);
    let last = bytes.is_empty();
    let (result, taken, written) = decoder.decode_to_utf8_without_replacement(bytes, text, last);
    text.truncate(written);
    match result {
        DecoderResult::Malformed(_, behind) => (taken, Some(behind)),
        DecoderResult::InputEmpty | DecoderResult::OutputFull => (taken, None),
    }
}

impl Read for TranscodedInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for TranscodedInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.text.len() {
            self.more()?;
        }
        Ok(&self.text[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn decoded(name: &str, bytes: &[u8], buffer: usize) -> io::Result<String> {
        let input = BufReader::with_capacity(buffer, Cursor::new(bytes.to_vec()));
        let mut text = String::new();
        let charset = Charset::named(name).unwrap();
        TranscodedInput::new(charset, Box::new(input)).unwrap().read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn names_have_the_meaning_of_python() {
        let cases: [(&str, &[u8], &str); 15] = [
            ("utf-8", "ä€".as_bytes(), "ä€"),
            ("UTF_16", b"\xff\xfea\0\x3d\xd8\x00\xde", "a😀"),
            ("utf-16", b"\xfe\xff\0a\xd8\x3d\xde\x00", "a😀"),
            ("utf16", b"a\0", "a"),
            ("utf-16le", b"\xac\x20", "€"),
            ("utf_16_be", b"\x20\xac", "€"),
            ("latin-1", b"\xe9\x80", "é\u{80}"),
            ("ISO-8859-1", b"\xa4", "¤"),
            ("iso8859_15", b"\xa4", "€"),
            ("iso-8859-9", b"\xfd\x80", "ı\u{80}"),
            ("windows-1252", b"\x80\xe9", "€é"),
            ("cp1251", b"\xcf", "П"),
            ("koi8-r", b"\xc1", "а"),
            ("Shift_JIS", b"\x83\x65", "テ"),
            ("ascii", b"a", "a"),
        ];
        for (name, bytes, expected) in cases {
            for buffer in [1, 2, 3, 100] {
                assert_eq!(decoded(name, bytes, buffer).unwrap(), expected, "{name}");
            }
        }
        assert!(Charset::named("utf-9").unwrap_err().to_string().contains("utf-8"));
    }

    #[test]
    fn undefined_bytes_are_an_error_with_their_line() {
        let cases: [(&str, &[u8]); 5] = [
            ("utf-16le", b"a\0\n\0\x00\xd8a\0"),
            ("utf-16le", b"a\0\n\0b"),
            ("windows-1252", b"a\n\x81"),
            ("ascii", b"a\n\xe9"),
            ("shift_jis", b"a\n\x83"),
        ];
        for (name, bytes) in cases {
            let error = stream::failed("read", &decoded(name, bytes, 3).unwrap_err());
            assert_eq!(error.kind(), euphrates_flow::Kind::Corrupt);
            assert!(error.to_string().starts_with("line 2: what ends at byte "), "{error}");
        }
    }
}
