//! The dialect of a CSV file: delimiter, quote, escape and comment bytes, header, and the texts
//! that stand for a null.

use std::sync::Arc;

use euphrates_flow::{Error, Result};

use crate::csv::quotes::Quoting;
use crate::options::{ReadOptions, WriteOptions};
use crate::text::splits::sample_end;

/// How a CSV file is delimited, quoted, escaped and commented.
#[derive(Clone)]
pub struct Dialect {
    /// The byte between fields.
    pub delimiter: u8,
    /// The quote byte around fields that may hold any byte; `None` if fields are never quoted.
    pub quote: Option<u8>,
    /// The byte that makes the next byte literal; `None` if there are no escapes.
    pub escape: Option<u8>,
    /// The byte that begins a comment; `None` if there are no comments.
    pub comment: Option<u8>,
    /// Whether the first record holds the column names.
    pub header: bool,
    /// Unquoted texts that stand for a null.
    pub nulls: Arc<[String]>,
}

impl Dialect {
    /// The dialect to read with; `usual` is the delimiter unless the options set one.
    pub fn to_read(options: &ReadOptions, usual: Option<char>) -> Result<Dialect> {
        let nulls = options.null_values.clone().unwrap_or_else(|| vec![String::new()]);
        let dialect = Dialect {
            delimiter: delimiter_byte(options.delimiter.or(usual))?,
            quote: quote_byte(options.quote.as_deref())?,
            escape: options.escape.map(|byte| special_byte("escape", byte)).transpose()?,
            comment: options.comment.map(|byte| special_byte("comment", byte)).transpose()?,
            header: options.header.unwrap_or(true),
            nulls: nulls.into(),
        };
        dialect.checked()
    }

    /// The dialect to write with. A usage error if its bytes clash or its null would need quotes.
    pub fn to_write(options: &WriteOptions) -> Result<Dialect> {
        let dialect = Dialect {
            delimiter: delimiter_byte(options.delimiter)?,
            quote: quote_byte(options.quote.as_deref())?,
            escape: options.escape.map(|byte| special_byte("escape", byte)).transpose()?,
            comment: None,
            header: options.header.unwrap_or(true),
            nulls: Arc::new([options.null_value.clone().unwrap_or_default()]),
        };
        match dialect.nulls[0].bytes().find(|&byte| dialect.is_special(byte)) {
            Some(byte) if dialect.escape != Some(byte) => {
                let message = format!("`null_value` has {:?} in it", char::from(byte));
                Err(Error::usage(message).remedy("a null cannot be quoted; use other characters"))
            }
            _ => dialect.checked(),
        }
    }

    /// The quoting state machine of this dialect, which finds record ends if it is simple.
    pub fn quoting(&self) -> Quoting {
        Quoting { delimiter: self.delimiter, quote: self.quote }
    }

    /// The end of a sample that has a record besides the header; `None` if it has none.
    pub fn sample_end(&self, bytes: &[u8]) -> Option<usize> {
        sample_end(self.quoting(), bytes, 1 + usize::from(self.header))
    }

    /// Whether the quoting state alone determines record ends, so that a file can be split
    /// anywhere.
    pub fn quotes_determine_record_ends(&self) -> bool {
        self.escape.is_none() && self.comment.is_none()
    }

    /// The bytes that are special in an unquoted field, some of them twice.
    pub fn special_bytes(&self) -> [u8; 6] {
        let or_delimiter = |byte: Option<u8>| byte.unwrap_or(self.delimiter);
        let (quote, escape) = (or_delimiter(self.quote), or_delimiter(self.escape));
        [self.delimiter, b'\n', b'\r', quote, escape, or_delimiter(self.comment)]
    }

    /// Whether a byte is special in an unquoted field.
    pub fn is_special(&self, byte: u8) -> bool {
        self.special_bytes().contains(&byte)
    }

    fn checked(self) -> Result<Dialect> {
        // An escape equal to the quote asks for doubled quotes, which is the default.
        let escape = self.escape.filter(|escape| Some(*escape) != self.quote);
        let dialect = Dialect { escape, ..self };
        let all = [Some(dialect.delimiter), dialect.quote, dialect.escape, dialect.comment];
        let given: Vec<u8> = all.into_iter().flatten().collect();
        match given.iter().enumerate().find(|(at, byte)| given[..*at].contains(byte)) {
            None => Ok(dialect),
            Some((_, byte)) => {
                let message = format!("{:?} has two meanings", char::from(*byte));
                let remedy = "delimiter, quote, escape and comment must differ";
                Err(Error::usage(message).remedy(remedy))
            }
        }
    }
}

fn delimiter_byte(delimiter: Option<char>) -> Result<u8> {
    let delimiter = delimiter.unwrap_or(',');
    match delimiter.is_ascii() && !matches!(delimiter, '\n' | '\r') {
        true => Ok(delimiter as u8),
        false => Err(Error::usage(format!("{delimiter:?} cannot stand between fields"))
            .remedy("use one ASCII character, not a line end")),
    }
}

fn quote_byte(quote: Option<&str>) -> Result<Option<u8>> {
    let mut characters = quote.unwrap_or("\"").chars();
    match (characters.next(), characters.next()) {
        (None, _) => Ok(None),
        (Some(quote), None) => special_byte("quote", quote).map(Some),
        _ => Err(Error::usage("`quote` is more than one character")
            .remedy("use one, or an empty text for none")),
    }
}

fn special_byte(option: &str, character: char) -> Result<u8> {
    match character.is_ascii() && !matches!(character, '\n' | '\r') {
        true => Ok(character as u8),
        false => Err(Error::usage(format!("{character:?} cannot be the `{option}`"))
            .remedy("use one ASCII character, not a line end")),
    }
}
