//! Finds the boundaries of JSON values in a text that does not have one value per line: the
//! elements of an array, or values over several lines.
//!
//! An array is read as the sequence of its elements: its brackets and the commas between elements
//! are overwritten with blanks in place, so no byte moves and line numbers stay. The record decoder
//! accepts any sequence of values.

use std::io::{self, BufRead, Read};

use euphrates_flow::{Error, Result};
use memchr::memchr2;

use crate::stream::{ByteInput, carried};

/// Bytes that are scanned per step.
const STEP_BYTES: usize = 64 << 10;

/// How records are laid out in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentLayout {
    /// One record on each line.
    Lines,
    /// In an array, or in sequence, over any number of lines.
    Documents,
}

/// Whether a byte is JSON whitespace.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether the first byte after whitespace opens an array.
pub fn is_array(text: &[u8]) -> bool {
    text.iter().find(|byte| !is_blank(**byte)) == Some(&b'[')
}

/// Finds the ends of documents by bracket depth. It validates nothing; the decoder does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scanner {
    state: ParseState,
    depth: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParseState {
    #[default]
    Between,
    /// Within an object or an array.
    Within,
    Quoted,
    Escaped,
    /// Within a number or a word that is a document by itself.
    Bare,
}

impl Scanner {
    /// The index after the document that `bytes` continue, or after the first in them; `None` if it
    /// does not end in them.
    pub fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                ParseState::Between => {
                    at += bytes[at..].iter().position(|byte| !is_blank(*byte))?;
                    self.state = ParseState::Bare;
                    if matches!(bytes[at], b'{' | b'[' | b'"') {
                        self.sign(bytes[at]);
                    }
                    at += 1;
                }
                ParseState::Bare => {
                    let is_end = |byte: &u8| {
                        is_blank(*byte) || matches!(byte, b',' | b'{' | b'}' | b'[' | b']' | b'"')
                    };
                    at += bytes[at..].iter().position(is_end)?;
                    self.state = ParseState::Between;
                    return Some(at);
                }
                ParseState::Within => {
                    let is_sign = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']');
                    at += bytes[at..].iter().position(is_sign)?;
                    self.sign(bytes[at]);
                    at += 1;
                }
                ParseState::Quoted => {
                    at += memchr2(b'"', b'\\', &bytes[at..])?;
                    self.state = match bytes[at] {
                        b'\\' => ParseState::Escaped,
                        _ if self.depth == 0 => ParseState::Between,
                        _ => ParseState::Within,
                    };
                    at += 1;
                }
                ParseState::Escaped => {
                    self.state = ParseState::Quoted;
                    at += 1;
                }
            }
            if self.state == ParseState::Between {
                return Some(at);
            }
        }
        None
    }

    fn sign(&mut self, byte: u8) {
        self.state = ParseState::Within;
        match byte {
            b'"' => self.state = ParseState::Quoted,
            b'{' | b'[' => self.depth += 1,
            _ => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.state = ParseState::Between;
                }
            }
        }
    }
}

/// Rewrites an array as the sequence of its elements; a sequence stays unchanged.
#[derive(Clone, Debug, Default)]
pub struct Unwrapper {
    position: ParsePosition,
    scanner: Scanner,
    lines: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParsePosition {
    #[default]
    Start,
    /// Outside of an array: nothing is changed.
    Sequence,
    /// Before the first element.
    First,
    Element,
    /// After an element: a comma or the closing bracket is next.
    Behind,
    /// After a comma: an element is next.
    Next,
    /// After the closing bracket: only whitespace may follow.
    After,
}

impl Unwrapper {
    /// Rewrites the next bytes in place. Fails where the array is malformed.
    pub fn unwrap(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut at = 0;
        while at < bytes.len() && self.position != ParsePosition::Sequence {
            if self.position == ParsePosition::Element {
                let Some(end) = self.scanner.end(&bytes[at..]) else { break };
                self.position = ParsePosition::Behind;
                at += end;
                continue;
            }
            let byte = bytes[at];
            if is_blank(byte) {
                at += 1;
                continue;
            }
            self.position = match (self.position, byte) {
                (ParsePosition::Start, b'[') => ParsePosition::First,
                (ParsePosition::Start, _) => ParsePosition::Sequence,
                (ParsePosition::First | ParsePosition::Behind, b']') => ParsePosition::After,
                (ParsePosition::Behind, b',') => ParsePosition::Next,
                (ParsePosition::First | ParsePosition::Next, byte)
                    if !matches!(byte, b',' | b']' | b'}') =>
                {
                    self.scanner = Scanner::default();
                    self.position = ParsePosition::Element;
                    continue;
                }
                (position, byte) => return Err(self.wrong(position, byte, &bytes[..at])),
            };
            if self.position != ParsePosition::Sequence {
                bytes[at] = b' ';
                at += 1;
            }
        }
        self.lines += memchr::memchr_iter(b'\n', bytes).count();
        Ok(())
    }

    /// Fails if the text ends within an array.
    pub fn finish(&self) -> Result<()> {
        match self.position {
            ParsePosition::Start | ParsePosition::Sequence | ParsePosition::After => Ok(()),
            _ => {
                let error = Error::corrupt("Not valid JSON: the array is not closed");
                Err(error.at(format!("line {}", self.lines + 1)).remedy("it may be cut short"))
            }
        }
    }

    fn wrong(&self, position: ParsePosition, byte: u8, before: &[u8]) -> Error {
        let what = match position {
            ParsePosition::After => "follows the array",
            ParsePosition::Behind => "stands where a comma or the end of the array must be",
            _ => "stands where an element of the array must be",
        };
        let line = self.lines + memchr::memchr_iter(b'\n', before).count() + 1;
        let message = format!("Not valid JSON: {:?} {what}", char::from(byte));
        Error::corrupt(message).at(format!("line {line}")).remedy("correct the line")
    }
}

/// An input in which an array reads as the sequence of its elements.
pub struct Unwrapped {
    input: ByteInput,
    unwrapper: Unwrapper,
    text: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Unwrapped {
    /// Wraps an input that is at its beginning.
    pub fn new(input: ByteInput) -> Unwrapped {
        Unwrapped { input, unwrapper: Unwrapper::default(), text: vec![], at: 0, ended: false }
    }
}

impl Read for Unwrapped {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Unwrapped {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.text.len() && !self.ended {
            let bytes = self.input.fill_buf()?;
            let bytes = &bytes[..bytes.len().min(STEP_BYTES)];
            self.at = 0;
            self.text.clear();
            self.text.extend_from_slice(bytes);
            self.ended = bytes.is_empty();
            let taken = bytes.len();
            self.input.consume(taken);
            self.unwrapper.unwrap(&mut self.text).map_err(carried)?;
            if self.ended {
                self.unwrapper.finish().map_err(carried)?;
                // A number that is a record ends only at a byte after it, so a line end is added.
                self.text.push(b'\n');
            }
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

    fn unwrapped(text: &str, buffer: usize) -> Result<String, String> {
        let input = BufReader::with_capacity(buffer, Cursor::new(text.as_bytes().to_vec()));
        let mut all = String::new();
        let read = Unwrapped::new(Box::new(input)).read_to_string(&mut all);
        read.map(|_| all).map_err(|error| error.to_string())
    }

    #[test]
    fn array_becomes_the_sequence_of_its_elements() {
        for (text, expected) in [
            ("[]", "  \n"),
            (
                " [{\"a\":\"],[\\\"\"} ,\n{\"a\":[1,{}]}]\n",
                "  {\"a\":\"],[\\\"\"}  \n{\"a\":[1,{}]} \n\n",
            ),
            ("[1,\"x\",null,[2]]", " 1 \"x\" null [2] \n"),
            ("{\"a\":1}\n{\"a\":2}", "{\"a\":1}\n{\"a\":2}\n"),
        ] {
            for buffer in 1..7 {
                assert_eq!(unwrapped(text, buffer).as_deref(), Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn malformed_array_is_refused_with_its_line() {
        for (text, expected) in [
            ("[1,\n]", "line 2: Not valid JSON: ']' stands where an element"),
            ("[,1]", "line 1: Not valid JSON: ',' stands where an element"),
            ("[1\n\n2]", "line 3: Not valid JSON: '2' stands where a comma"),
            ("[1]\n[2]", "line 2: Not valid JSON: '[' follows the array"),
            ("[1]]", "line 1: Not valid JSON: ']' follows the array"),
            ("[{\"a\":1}", "line 1: Not valid JSON: the array is not closed"),
            ("[\"x", "line 1: Not valid JSON: the array is not closed"),
            ("[1}", "line 1: Not valid JSON: '}' stands where a comma"),
        ] {
            for buffer in 1..7 {
                let error = unwrapped(text, buffer).unwrap_err();
                assert!(error.starts_with(expected), "{text}: {error}");
            }
        }
    }

    #[test]
    fn documents_end_at_their_closing_brackets() {
        let text = b" {\"a\":{\"}\":[]}}[1,2] \"x\\\"y\" 12 true\n";
        let (mut at, mut ends) = (0, vec![]);
        let mut scanner = Scanner::default();
        while let Some(end) = scanner.end(&text[at..]) {
            at += end;
            ends.push(at);
        }
        assert_eq!(ends, [15, 20, 27, 30, 35]);
    }
}
