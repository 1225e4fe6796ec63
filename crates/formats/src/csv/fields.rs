//! Tokenizes CSV into records and fields, and records which fields were quoted: `""` is an empty
//! text, an empty unquoted field a null.
//!
//! Records end with `\n`, `\r` or both. A quote opens a quoted field only at the beginning of a
//! field and is an ordinary character elsewhere; text after a closing quote belongs to the field,
//! which `Cell::is_torn` says.
//! An escape makes the next byte literal, within quotes and outside. A comment begins outside of
//! quotes and ends with its line; a line with nothing else is no record. `quotes` finds the same
//! record ends for callers that need no fields.

use std::ops::{ControlFlow, Range};

use euphrates_flow::BLOCK_BYTES;
use memchr::{memchr, memchr2};

use crate::csv::cell::{Cell, unescaped, unquoted};
use crate::csv::dialect::Dialect;
use crate::csv::special_bytes::SpecialBytes;
use crate::text::limits::HELD_TEXT_BYTES_MAX;

/// Offsets of a field in the text, and how it is written.
#[derive(Clone, Copy, Debug)]
struct Field {
    begin: u32,
    end: u32,
    form: FieldForm,
}

/// How a field is written, which determines how it is unescaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldForm {
    /// Unquoted, without escapes; the range is the text.
    Bare,
    /// Quoted, without quotes or escapes inside; the quotes are not part of the range.
    Quoted,
    /// Quoted, with quotes or escapes inside or text after the closing quote; the range begins
    /// after the opening quote.
    Odd,
    /// Unquoted, with escapes in the range.
    Escaped,
}

/// State of the tokenizer before the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenizerState {
    /// At the beginning of a field.
    Begin,
    /// Within an unquoted field, or in text after a closing quote.
    Bare,
    /// Inside a quoted field.
    Quoted,
    /// After a quote that closes the field, unless another quote follows.
    Closed,
    /// After an escape within quotes.
    QuotedEscape,
    /// After an escape outside quotes.
    BareEscape,
    /// In a comment that follows fields.
    Comment,
    /// In a comment that fills its line.
    CommentLine,
}

/// Tokenized records: their text, and the ranges of their fields.
pub struct Tokenizer {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    comment: Option<u8>,
    /// Whether the tokenizer stops at this byte in an unquoted field: delimiter, line end, escape
    /// or comment, not the quote.
    stops: [bool; 256],
    /// Finds the same bytes and quotes, in a dialect without escapes and comments.
    blocks: Option<SpecialBytes>,
    /// Whether a blank line is a record of one field rather than skipped.
    keep_blank: bool,
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Number of fields up to the end of each record.
    ends: Vec<usize>,
    /// Offset at which the current field begins.
    begin: usize,
    form: FieldForm,
    state: TokenizerState,
    /// Whether the last byte was `\r`, so that a `\n` ends no further record.
    returned: bool,
}

impl Tokenizer {
    /// An empty tokenizer for this dialect.
    pub fn new(dialect: &Dialect, keep_blank: bool) -> Tokenizer {
        let Dialect { delimiter, quote, escape, comment, .. } = *dialect;
        let mut ending = [false; 256];
        let bytes = [Some(delimiter), Some(b'\n'), Some(b'\r'), escape, comment];
        bytes.iter().flatten().for_each(|&byte| ending[usize::from(byte)] = true);
        let is_simple = escape.is_none() && comment.is_none();
        Tokenizer {
            delimiter,
            quote,
            escape,
            comment,
            stops: ending,
            blocks: is_simple.then(|| SpecialBytes::new(delimiter, quote)),
            keep_blank,
            text: vec![],
            fields: vec![],
            ends: vec![],
            begin: 0,
            form: FieldForm::Bare,
            state: TokenizerState::Begin,
            returned: false,
        }
    }

    /// Sets whether blank lines are records from now on.
    pub fn keep_blank(&mut self, keep: bool) {
        self.keep_blank = keep;
    }

    /// Number of complete records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the text ends at the end of a record.
    pub fn is_whole(&self) -> bool {
        self.state == TokenizerState::Begin
            && self.fields.len() == self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes of all records, complete or not.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The text of all records.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The range of a field in the text, without quotes around it, and whether it has some; given
    /// that every record has `width` fields.
    #[inline(always)]
    pub fn written(&self, record: usize, column: usize, width: usize) -> (Range<usize>, bool) {
        let field = &self.fields[record * width + column];
        let is_quoted = !matches!(field.form, FieldForm::Bare | FieldForm::Escaped);
        (field.begin as usize..field.end as usize, is_quoted)
    }

    /// The text of all records, if it is UTF-8.
    pub fn utf8(&self) -> Option<&str> {
        std::str::from_utf8(&self.text).ok()
    }

    /// Whether the fields of a column are their ranges in the text, as in [`Tokenizer::written`].
    pub fn is_as_written(&self, column: usize, width: usize) -> bool {
        let mut fields = self.fields.iter().skip(column).step_by(width);
        fields.all(|field| matches!(field.form, FieldForm::Bare | FieldForm::Quoted))
    }

    /// Number of fields of a record.
    pub fn width(&self, record: usize) -> usize {
        self.ends[record] - self.first(record)
    }

    /// The field at a record and column, both counted from 0.
    pub fn field(&self, record: usize, column: usize) -> Cell<'_> {
        self.shown(&self.fields[self.first(record) + column])
    }

    /// The fields of a column, given that every record has `width` fields.
    pub fn column(&self, column: usize, width: usize) -> impl Iterator<Item = Cell<'_>> {
        self.fields.iter().skip(column).step_by(width).map(|field| self.shown(field))
    }

    #[inline]
    fn shown(&self, field: &Field) -> Cell<'_> {
        let written = &self.text[field.begin as usize..field.end as usize];
        let (text, quoted, is_torn) = match field.form {
            FieldForm::Bare => (written.into(), false, false),
            FieldForm::Quoted => (written.into(), true, false),
            FieldForm::Odd => {
                let (text, is_torn) = unquoted(written, self.quote, self.escape);
                (text.into(), true, is_torn)
            }
            FieldForm::Escaped => (unescaped(written, self.escape).into(), false, false),
        };
        Cell { text, quoted, written, is_torn }
    }

    /// Drops all records; the last one must be complete.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(HELD_TEXT_BYTES_MAX);
        self.fields.clear();
        self.ends.clear();
        self.begin = 0;
    }

    /// Takes in bytes up to the end of the record for which `full` becomes true; returns how many.
    pub fn take(&mut self, bytes: &[u8], full: impl Fn(&Tokenizer) -> bool) -> usize {
        let before = self.text.len();
        self.text.extend_from_slice(bytes);
        let mut at = before;
        while at < self.text.len() {
            if matches!(self.state, TokenizerState::Begin | TokenizerState::Bare)
                && let Some(blocks) = self.blocks
            {
                match self.take_bare(at, blocks, &full) {
                    ControlFlow::Continue(end) => at = end,
                    ControlFlow::Break(end) => {
                        self.text.truncate(end);
                        return end - before;
                    }
                }
                continue;
            }
            let byte = self.text[at];
            if std::mem::take(&mut self.returned) && byte == b'\n' {
                at += 1;
                self.begin = at;
                continue;
            }
            let ended = match self.state {
                TokenizerState::Begin if Some(byte) == self.quote => {
                    (self.state, self.form, self.begin) =
                        (TokenizerState::Quoted, FieldForm::Quoted, at + 1);
                    false
                }
                TokenizerState::Begin | TokenizerState::Bare => {
                    let ends = |byte: &u8| self.stops[usize::from(*byte)];
                    match self.text[at..].iter().position(ends) {
                        Some(found) => at += found,
                        None => {
                            self.state = TokenizerState::Bare;
                            break;
                        }
                    }
                    self.special(at)
                }
                TokenizerState::Quoted => match self.quoted_end(at) {
                    Some(found) => {
                        at = found;
                        false
                    }
                    None => break,
                },
                TokenizerState::Closed
                    if byte == self.delimiter || matches!(byte, b'\n' | b'\r') =>
                {
                    self.end(at, self.closed_end(at))
                }
                TokenizerState::Closed if Some(byte) == self.comment => {
                    self.begin_comment(self.closed_end(at));
                    false
                }
                TokenizerState::Closed => {
                    self.form = FieldForm::Odd;
                    self.state = match byte {
                        _ if Some(byte) == self.quote => TokenizerState::Quoted,
                        _ if Some(byte) == self.escape => TokenizerState::BareEscape,
                        _ => TokenizerState::Bare,
                    };
                    false
                }
                TokenizerState::QuotedEscape => {
                    self.state = TokenizerState::Quoted;
                    false
                }
                TokenizerState::BareEscape => {
                    self.state = TokenizerState::Bare;
                    false
                }
                TokenizerState::Comment | TokenizerState::CommentLine => {
                    match memchr2(b'\n', b'\r', &self.text[at..]) {
                        Some(found) => at += found,
                        None => break,
                    }
                    self.end_comment(at)
                }
            };
            at += 1;
            if ended && full(self) {
                self.text.truncate(at);
                return at - before;
            }
        }
        bytes.len()
    }

    /// Takes unquoted fields, and returns where it stopped: behind the opening quote of another
    /// field, at the end of the text, or, with `Break`, after the record for which `full` becomes
    /// true.
    fn take_bare(
        &mut self,
        from: usize,
        blocks: SpecialBytes,
        full: impl Fn(&Tokenizer) -> bool,
    ) -> ControlFlow<usize, usize> {
        for base in (from..self.text.len()).step_by(BLOCK_BYTES) {
            let mut mask = blocks.mask(&self.text[base..]);
            while mask > 0 {
                let at = base + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let byte = self.text[at];
                if std::mem::take(&mut self.returned) && byte == b'\n' && at == self.begin {
                    self.begin = at + 1;
                } else if Some(byte) == self.quote {
                    if at == self.begin {
                        self.begin = at + 1;
                        (self.state, self.form) = (TokenizerState::Quoted, FieldForm::Quoted);
                        return ControlFlow::Continue(at + 1);
                    }
                } else if self.end(at, at) && full(self) {
                    return ControlFlow::Break(at + 1);
                }
            }
        }
        let end = self.text.len();
        if self.begin < end {
            (self.state, self.returned) = (TokenizerState::Bare, false);
        }
        ControlFlow::Continue(end)
    }

    /// Steps over a special byte in an unquoted field or after a closing quote; returns whether it
    /// ends a record.
    #[inline]
    fn special(&mut self, at: usize) -> bool {
        let byte = self.text[at];
        if Some(byte) == self.escape {
            self.state = TokenizerState::BareEscape;
            if self.form == FieldForm::Bare {
                self.form = FieldForm::Escaped;
            }
            return false;
        }
        if Some(byte) == self.comment {
            let written = &self.text[self.begin..at];
            let spaces = written.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t'));
            let end = at - spaces.count();
            let single = self.fields.len() == self.ends.last().copied().unwrap_or(0);
            if single && end == self.begin && self.form == FieldForm::Bare {
                self.state = TokenizerState::CommentLine;
            } else {
                self.begin_comment(end);
            }
            return false;
        }
        self.end(at, at)
    }

    /// Index of the next quote or escape within quotes, and the state after it.
    #[inline]
    fn quoted_end(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        let quote = self.quote?;
        let found = match self.escape {
            Some(escape) => memchr2(quote, escape, rest)?,
            None => memchr(quote, rest)?,
        };
        if rest[found] == quote {
            self.state = TokenizerState::Closed;
        } else {
            (self.state, self.form) = (TokenizerState::QuotedEscape, FieldForm::Odd);
        }
        Some(at + found)
    }

    /// End of the field whose closing quote is right before `at`.
    fn closed_end(&self, at: usize) -> usize {
        if self.form == FieldForm::Quoted { at - 1 } else { at }
    }

    fn begin_comment(&mut self, end: usize) {
        self.push(end);
        self.state = TokenizerState::Comment;
    }

    /// Ends a comment with the line end at `at`; returns whether a record ends too.
    fn end_comment(&mut self, at: usize) -> bool {
        let record = self.state == TokenizerState::Comment;
        self.begin = at + 1;
        self.state = TokenizerState::Begin;
        self.returned = self.text[at] == b'\r';
        if record {
            self.ends.push(self.fields.len());
        }
        record
    }

    /// Ends the last record, which need not have a line end; fails within quotes.
    pub fn finish(&mut self) -> Result<(), Unclosed> {
        let end = self.text.len();
        match self.state {
            TokenizerState::Quoted | TokenizerState::QuotedEscape => return Err(Unclosed),
            TokenizerState::Begin if self.is_whole() => {}
            TokenizerState::Comment => {}
            TokenizerState::CommentLine => self.begin = end,
            TokenizerState::Closed => self.push(self.closed_end(end)),
            _ => self.push(end),
        }
        if self.fields.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.fields.len());
        }
        self.state = TokenizerState::Begin;
        Ok(())
    }

    fn first(&self, record: usize) -> usize {
        if record == 0 { 0 } else { self.ends[record - 1] }
    }

    /// Ends a field with the byte at `at`; returns whether a record ends too.
    #[inline]
    fn end(&mut self, at: usize, end: usize) -> bool {
        self.push(end);
        self.begin = at + 1;
        self.state = TokenizerState::Begin;
        let byte = self.text[at];
        if byte == self.delimiter {
            return false;
        }
        self.returned = byte == b'\r';
        let last = self.fields[self.fields.len() - 1];
        let single = self.fields.len() - self.ends.last().copied().unwrap_or(0) == 1;
        if single && last.form == FieldForm::Bare && last.begin == last.end && !self.keep_blank {
            self.fields.pop();
            return false;
        }
        self.ends.push(self.fields.len());
        true
    }

    #[inline]
    fn push(&mut self, end: usize) {
        // The offsets fit 32 bits: a batch is a few megabytes, and a record at most one gigabyte
        // (`text`).
        let (begin, end) = (self.begin as u32, end as u32);
        self.fields.push(Field { begin, end, form: self.form });
        self.form = FieldForm::Bare;
    }
}

/// The error of a text that ends within quotes.
#[derive(Debug)]
pub struct Unclosed;

#[cfg(test)]
mod tests;
