//! Strings of a flat column: those collected from pages, and those of a dictionary page.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use euphrates_device::buffer::copy_freely;
use euphrates_flow::{Error, Result};

/// Bytes of the length before a string in a page.
const LENGTH_BYTES: usize = size_of::<u32>();
/// A string of a page that is no longer is copied with the bytes behind it, which takes a few
/// instructions instead of a call.
const SHORT_BYTES: usize = 16;
/// Longer strings are copied by calls anyway, and need no bytes to be there before.
const COPIED_FREELY_MAX: usize = 64;

/// Strings of any length, one behind the other.
pub struct StringValues {
    /// Where each string begins and the last one ends.
    pub offsets: Vec<i32>,
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
}

impl Default for StringValues {
    fn default() -> StringValues {
        StringValues { offsets: vec![0], bytes: vec![] }
    }
}

impl StringValues {
    /// Appends the next string of a page. A corruption error if there is none, a resource error if
    /// offsets of 32 bits do not suffice.
    pub fn push_next(&mut self, strings: &mut StringCursor<'_>) -> Result<()> {
        let page = strings.rest;
        let string = strings.next().ok_or_else(short)?;
        let end = self.bytes.len() + string.len();
        match page[LENGTH_BYTES..].first_chunk::<SHORT_BYTES>() {
            Some(short) if string.len() <= SHORT_BYTES => {
                self.bytes.extend_from_slice(short);
                self.bytes.truncate(end);
            }
            _ => self.bytes.extend_from_slice(string),
        }
        self.offsets.push(offset(end)?);
        Ok(())
    }

    /// The array of these strings. A corruption error if text is not UTF-8.
    pub fn into_array(self, nulls: Option<&NullBuffer>, is_text: bool) -> Result<ArrayRef> {
        let (offsets, bytes, nulls) = self.into_parts(nulls);
        Ok(match is_text {
            true => Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(|_| not_utf8())?),
            false => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
        })
    }

    /// The array of these strings, looked up in a dictionary that `is_valid`.
    pub fn into_valid_array(self, nulls: Option<&NullBuffer>, is_text: bool) -> Result<ArrayRef> {
        if !is_text {
            return self.into_array(nulls, is_text);
        }
        let (offsets, bytes, nulls) = self.into_parts(nulls);
        // SAFETY: each string is a copy of one that `StringDictionary::is_valid` has checked, and
        // there is an offset for each row.
        Ok(Arc::new(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) }))
    }

    fn into_parts(
        self,
        nulls: Option<&NullBuffer>,
    ) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let offsets = match nulls {
            None => self.offsets,
            Some(nulls) => spread_offsets(&self.offsets, nulls),
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        (offsets, Buffer::from_vec(self.bytes), nulls.cloned())
    }
}

fn not_utf8() -> Error {
    Error::corrupt("a text is not UTF-8")
}

/// An offset of 32 bits.
fn offset(bytes: usize) -> Result<i32> {
    i32::try_from(bytes).map_err(|_| {
        Error::resource("the strings of a batch take more than 2 GiB")
            .remedy("write the file with smaller row groups")
    })
}

/// Whether a string type, or the values of a dictionary, must be UTF-8.
pub fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

/// The strings of a dictionary page, which remain there.
pub struct StringDictionary {
    page: Bytes,
    /// Where each string begins in the page, behind its length, and where one behind them would.
    begins: Vec<u32>,
    longest: usize,
    /// The type of the array.
    data_type: DataType,
    /// Strings looked up so far.
    looked_up: Cell<usize>,
    /// Whether all strings have been checked to be UTF-8 where they are text.
    is_valid: Cell<bool>,
    /// All strings as the values of codes.
    array: OnceCell<ArrayRef>,
}

impl StringDictionary {
    /// The `count` strings of a plain page. A corruption error if it has fewer.
    pub fn new(page: Bytes, count: usize, data_type: &DataType) -> Result<StringDictionary> {
        let data_type = match data_type {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        let mut cursor = StringCursor::new(&page);
        let (mut begins, mut longest) = (Vec::with_capacity(count + 1), 0);
        let begin = |rest: &[u8]| (page.len() - rest.len() + LENGTH_BYTES) as u32;
        for _ in 0..count {
            begins.push(begin(cursor.rest));
            longest = longest.max(cursor.next().ok_or_else(short)?.len());
        }
        begins.push(begin(cursor.rest));
        let (looked_up, is_valid, array) = (Cell::new(0), Cell::new(false), OnceCell::new());
        Ok(StringDictionary { page, begins, longest, data_type, looked_up, is_valid, array })
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.begins.len() - 1
    }

    /// Length of the longest string in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Where the string of a code begins in the page, and its length.
    #[inline(always)]
    fn place(&self, code: usize) -> (usize, usize) {
        let (begin, next) = (self.begins[code] as usize, self.begins[code + 1] as usize);
        (begin, next - LENGTH_BYTES - begin)
    }

    /// Whether all strings are known to be UTF-8 where they are text, before `count` more are
    /// looked up. They are checked once, when more are looked up than there are: to check each copy
    /// takes longer. A corruption error if one is not.
    pub fn is_valid(&self, count: usize) -> Result<bool> {
        self.looked_up.set(self.looked_up.get().saturating_add(count));
        if self.is_valid.get() || self.looked_up.get() <= self.len() {
            return Ok(self.is_valid.get());
        }
        let strings = (0..self.len()).map(|code| self.place(code));
        let mut strings = strings.map(|(begin, length)| &self.page[begin..begin + length]);
        if is_text(&self.data_type) && !strings.all(|string| str::from_utf8(string).is_ok()) {
            return Err(not_utf8());
        }
        self.is_valid.set(true);
        Ok(true)
    }

    /// Appends the strings of these codes, each of which it has. A resource error if offsets of 32
    /// bits do not suffice.
    pub fn append(
        &self,
        codes: impl Iterator<Item = usize> + Clone,
        out: &mut StringValues,
    ) -> Result<()> {
        let (mut at, mut end) = (out.bytes.len(), out.bytes.len());
        out.offsets.extend(codes.clone().map(|code| {
            end += self.place(code).1;
            end as i32
        }));
        offset(end)?;
        if self.longest > COPIED_FREELY_MAX {
            out.bytes.reserve(end - at);
            codes.map(|code| self.place(code)).for_each(|(begin, length)| {
                out.bytes.extend_from_slice(&self.page[begin..begin + length]);
            });
            return Ok(());
        }
        out.bytes.resize(end, 0);
        for code in codes {
            let (begin, length) = self.place(code);
            copy_freely(&self.page, begin, &mut out.bytes, at, length);
            at += length;
        }
        Ok(())
    }

    /// All strings, in the order of their codes. A corruption error if text is not UTF-8.
    pub fn array(&self) -> Result<ArrayRef> {
        if let Some(array) = self.array.get() {
            return Ok(array.clone());
        }
        let mut all = StringValues::default();
        self.append(0..self.len(), &mut all)?;
        let strings = all.into_array(None, is_text(&self.data_type))?;
        let array = cast(&strings, &self.data_type)?;
        Ok(self.array.get_or_init(|| array).clone())
    }
}

/// Walks over the strings of a plain page, each of which follows its length.
pub struct StringCursor<'a> {
    /// The page behind the strings walked over.
    pub rest: &'a [u8],
}

impl<'a> StringCursor<'a> {
    pub fn new(page: &'a [u8]) -> StringCursor<'a> {
        StringCursor { rest: page }
    }
}

impl<'a> Iterator for StringCursor<'a> {
    type Item = &'a [u8];

    /// The next string; `None` if the page has no further one that is whole.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, behind) = self.rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (string, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = behind;
        Some(string)
    }
}

/// The error of a page with fewer values than its header says.
pub fn short() -> Error {
    Error::corrupt("a page has fewer values than its header says")
}

/// Offsets with one more for each row that is null, whose string is empty.
fn spread_offsets(offsets: &[i32], nulls: &NullBuffer) -> Vec<i32> {
    let mut at = 0;
    let mut rows = Vec::with_capacity(nulls.len() + 1);
    rows.push(0);
    rows.extend(nulls.iter().map(|is_valid| {
        at += usize::from(is_valid);
        offsets[at]
    }));
    rows
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    fn dictionary(strings: &[&[u8]], data_type: DataType) -> StringDictionary {
        let mut page = vec![];
        for string in strings {
            page.extend_from_slice(&(string.len() as u32).to_le_bytes());
            page.extend_from_slice(string);
        }
        StringDictionary::new(page.into(), strings.len(), &data_type).unwrap()
    }

    #[test]
    fn strings_of_any_length_are_copied_whole() {
        for count in [12, 60, 90] {
            let texts: Vec<String> = (0..count).map(|length| "x".repeat(length) + "é").collect();
            let strings: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let of = dictionary(&strings, DataType::Utf8);
            let codes = (0..count).rev().chain([0, count - 1, 7]);
            let mut copied = StringValues::default();
            of.append(codes.clone(), &mut copied).unwrap();
            of.append([3].into_iter(), &mut copied).unwrap();
            let copied = copied.into_array(None, true).unwrap();
            let wanted: Vec<&str> = codes.chain([3]).map(|code| texts[code].as_str()).collect();
            assert_eq!(copied.as_string::<i32>(), &StringArray::from(wanted), "{count}");
        }
    }

    #[test]
    fn all_texts_are_checked_when_more_are_looked_up_than_there_are() {
        let strings: [&[u8]; 3] = [b"a", "\u{fc}".as_bytes(), b"\xff"];
        let of = dictionary(&strings, DataType::Utf8);
        assert!(!of.is_valid(3).unwrap(), "as many as there are");
        assert!(of.is_valid(1).unwrap_err().to_string().contains("UTF-8"));
        let bytes = dictionary(&strings, DataType::Binary);
        assert!(bytes.is_valid(4).unwrap());
        let valid = dictionary(&strings[..2], DataType::Utf8);
        assert!(valid.is_valid(3).unwrap() && valid.is_valid(0).unwrap());
    }
}
