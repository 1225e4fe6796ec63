//! Cuts CSV into records and fields, and keeps which fields were quoted: `""` is an empty text,
//! nothing is a null.
//!
//! Records end with `\n`, `\r` or both. A quote begins a quoted field where a field begins, and is
//! a character like any other elsewhere; what follows a closing quote belongs to the field.
//! `csv_quotes` tells the same of the ends of records, for whoever needs no fields.

use std::borrow::Cow;

use memchr::memchr;

/// Where a field lies in the text, and how it is written.
#[derive(Clone, Copy, Debug)]
struct Field {
    begin: u32,
    end: u32,
    form: Form,
}

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Without quotes.
    Bare,
    /// Between quotes, which are not part of it.
    Quoted,
    /// The same, with quotes in it or text behind it; from behind the first quote.
    Odd,
}

/// Where the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Where a field begins.
    Begin,
    /// Within a field without quotes, or behind one with.
    Bare,
    /// Within quotes.
    Quoted,
    /// Behind a quote that ends the field, unless another quote follows.
    Closed,
}

/// Records, cut into fields.
pub struct Records {
    delimiter: u8,
    /// Which bytes end a field that is not quoted.
    ending: [bool; 256],
    /// Lines without anything are records of one field, not nothing.
    keep_blank: bool,
    text: Vec<u8>,
    fields: Vec<Field>,
    /// The number of fields up to the end of each record.
    ends: Vec<usize>,
    /// The field being read.
    begin: usize,
    form: Form,
    state: State,
    /// The last byte was `\r`, so that a `\n` ends nothing.
    returned: bool,
}

impl Records {
    /// None yet.
    pub fn new(delimiter: u8, keep_blank: bool) -> Records {
        let mut ending = [false; 256];
        [delimiter, b'\n', b'\r'].iter().for_each(|&byte| ending[usize::from(byte)] = true);
        Records {
            delimiter,
            ending,
            keep_blank,
            text: vec![],
            fields: vec![],
            ends: vec![],
            begin: 0,
            form: Form::Bare,
            state: State::Begin,
            returned: false,
        }
    }

    /// From now on, lines without anything are records.
    pub fn keep_blank(&mut self, keep: bool) {
        self.keep_blank = keep;
    }

    /// The number of whole records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the last record is whole.
    pub fn is_whole(&self) -> bool {
        self.state == State::Begin && self.fields.len() == self.ends.last().copied().unwrap_or(0)
    }

    /// The bytes of all records.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// How many fields a record has.
    pub fn width(&self, record: usize) -> usize {
        self.ends[record] - self.first(record)
    }

    /// A field, and whether it was quoted.
    pub fn field(&self, record: usize, column: usize) -> (Cow<'_, [u8]>, bool) {
        self.shown(&self.fields[self.first(record) + column])
    }

    /// The fields of a column, if every record has `width` fields.
    pub fn column(
        &self,
        column: usize,
        width: usize,
    ) -> impl Iterator<Item = (Cow<'_, [u8]>, bool)> {
        self.fields.iter().skip(column).step_by(width).map(|field| self.shown(field))
    }

    #[inline]
    fn shown(&self, field: &Field) -> (Cow<'_, [u8]>, bool) {
        let bytes = &self.text[field.begin as usize..field.end as usize];
        match field.form {
            Form::Bare => (bytes.into(), false),
            Form::Quoted => (bytes.into(), true),
            Form::Odd => (unquoted(bytes).into(), true),
        }
    }

    /// Forgets all whole records; there is none that is not whole.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.ends.clear();
        self.begin = 0;
    }

    /// Takes in bytes up to the end of a record that makes `full` true; says how many.
    pub fn take(&mut self, bytes: &[u8], full: impl Fn(&Records) -> bool) -> usize {
        let before = self.text.len();
        self.text.extend_from_slice(bytes);
        let mut at = before;
        while at < self.text.len() {
            let byte = self.text[at];
            if std::mem::take(&mut self.returned) && byte == b'\n' {
                at += 1;
                self.begin = at;
                continue;
            }
            match self.state {
                State::Begin if byte == b'"' => {
                    (self.state, self.form, self.begin) = (State::Quoted, Form::Quoted, at + 1);
                    at += 1;
                }
                State::Begin | State::Bare => {
                    let ends = |byte: &u8| self.ending[usize::from(*byte)];
                    match self.text[at..].iter().position(ends) {
                        Some(found) => at += found,
                        None => {
                            self.state = State::Bare;
                            break;
                        }
                    }
                    if self.end(at, at) && full(self) {
                        self.text.truncate(at + 1);
                        return at + 1 - before;
                    }
                    at += 1;
                }
                State::Quoted => match memchr(b'"', &self.text[at..]) {
                    Some(found) => {
                        self.state = State::Closed;
                        at += found + 1;
                    }
                    None => break,
                },
                State::Closed if byte == self.delimiter || matches!(byte, b'\n' | b'\r') => {
                    let end = if self.form == Form::Quoted { at - 1 } else { at };
                    if self.end(at, end) && full(self) {
                        self.text.truncate(at + 1);
                        return at + 1 - before;
                    }
                    at += 1;
                }
                State::Closed => {
                    self.form = Form::Odd;
                    self.state = if byte == b'"' { State::Quoted } else { State::Bare };
                    at += 1;
                }
            }
        }
        bytes.len()
    }

    /// Ends the last record, which need not end with a line end; fails within quotes.
    pub fn finish(&mut self) -> Result<(), Unclosed> {
        let end = self.text.len();
        match self.state {
            State::Quoted => return Err(Unclosed),
            State::Begin if self.is_whole() => {}
            State::Closed if self.form == Form::Quoted => self.push(end - 1),
            _ => self.push(end),
        }
        if self.fields.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.fields.len());
        }
        self.state = State::Begin;
        Ok(())
    }

    fn first(&self, record: usize) -> usize {
        if record == 0 { 0 } else { self.ends[record - 1] }
    }

    /// The byte at `at` ends a field; says whether it ends a record as well.
    #[inline]
    fn end(&mut self, at: usize, end: usize) -> bool {
        self.push(end);
        self.begin = at + 1;
        self.state = State::Begin;
        let byte = self.text[at];
        if byte == self.delimiter {
            return false;
        }
        self.returned = byte == b'\r';
        let last = self.fields[self.fields.len() - 1];
        let single = self.fields.len() - self.ends.last().copied().unwrap_or(0) == 1;
        if single && last.form == Form::Bare && last.begin == last.end && !self.keep_blank {
            self.fields.pop();
            return false;
        }
        self.ends.push(self.fields.len());
        true
    }

    #[inline]
    fn push(&mut self, end: usize) {
        // A batch is a few megabytes, and a record at most one gigabyte (`text`).
        let (begin, end) = (self.begin as u32, end as u32);
        self.fields.push(Field { begin, end, form: self.form });
        self.form = Form::Bare;
    }
}

/// The text ends within quotes.
#[derive(Debug)]
pub struct Unclosed;

/// What stands between quotes: two of them are one, and a single one is where they end.
fn unquoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(quote) = memchr(b'"', rest) {
        text.extend_from_slice(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.split_first() {
            Some((b'"', after)) => {
                text.push(b'"');
                rest = after;
            }
            _ => break,
        }
    }
    text.extend_from_slice(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::super::csv_quotes::{Quoting, State as QuoteState};
    use super::*;
    use proptest::prelude::*;

    fn records(text: &str, step: usize, keep_blank: bool) -> Result<Vec<Vec<String>>, Unclosed> {
        let mut records = Records::new(b',', keep_blank);
        let mut all = vec![];
        let drain = |records: &mut Records, all: &mut Vec<Vec<String>>| {
            for record in 0..records.len() {
                let fields = (0..records.width(record)).map(|column| {
                    let (bytes, quoted) = records.field(record, column);
                    let text = String::from_utf8(bytes.into_owned()).unwrap();
                    if quoted { format!("<{text}>") } else { text }
                });
                all.push(fields.collect());
            }
            records.clear();
        };
        for part in text.as_bytes().chunks(step) {
            let mut at = 0;
            while at < part.len() {
                at += records.take(&part[at..], |records| records.len() == 2);
                if records.len() == 2 {
                    drain(&mut records, &mut all);
                }
            }
        }
        records.finish()?;
        drain(&mut records, &mut all);
        Ok(all)
    }

    #[test]
    fn fields_are_cut_and_freed_of_quotes() {
        let cases: [(&str, &[&[&str]]); 14] = [
            ("", &[]),
            ("a,b\nc,d", &[&["a", "b"], &["c", "d"]]),
            ("a,b\r\nc,d\r", &[&["a", "b"], &["c", "d"]]),
            ("a\rb\r\r\nc\n", &[&["a"], &["b"], &["c"]]),
            ("\n\na,\n\n", &[&["a", ""]]),
            ("\"\"\n\"\",x", &[&["<>"], &["<>", "x"]]),
            ("\"a\nb\",\"c,d\"\ne", &[&["<a\nb>", "<c,d>"], &["e"]]),
            ("\"a\"\"b\"\n", &[&["<a\"b>"]]),
            ("\"\"\"\"", &[&["<\">"]]),
            ("\"a\"b\"c\",d", &[&["<ab\"c\">", "d"]]),
            ("a\"b\",c", &[&["a\"b\"", "c"]]),
            ("a,", &[&["a", ""]]),
            (",\n", &[&["", ""]]),
            ("x\n\"y\"", &[&["x"], &["<y>"]]),
        ];
        for (text, expected) in cases {
            for step in 1..5 {
                assert_eq!(records(text, step, false).unwrap(), expected, "{text:?} by {step}");
            }
        }
        assert_eq!(records("a\n\nb\n\n", 3, true).unwrap(), [["a"], [""], ["b"], [""]]);
        assert_eq!(records("a\r\n\r\nb", 1, true).unwrap(), [["a"], [""], ["b"]]);
        assert!(records("a,b\n1,\"open\n2,y\n", 4, false).is_err());
    }

    proptest! {
        #[test]
        fn records_end_where_the_cuts_of_splits_say(
            text in proptest::collection::vec(prop_oneof![Just('"'), Just(','), Just('\n'),
                Just('a')], 0..60),
            step in 1usize..9,
        ) {
            let text: String = text.into_iter().collect();
            let quoting = Quoting { delimiter: b',' };
            let (mut at, mut ends) = (0, 0);
            while let Ok(end) = quoting.record_end(QuoteState::Out, b'\n', &text.as_bytes()[at..]) {
                at += end;
                ends += 1;
            }
            let left = usize::from(at < text.len());
            match records(&text, step, true) {
                Ok(records) => prop_assert_eq!(records.len(), ends + left),
                Err(Unclosed) => prop_assert_eq!(left, 1),
            }
        }
    }
}
