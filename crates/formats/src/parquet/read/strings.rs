//! Strings of a flat column: those collected from pages, and those of a dictionary page.

use std::cell::OnceCell;
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
        let offsets = match nulls {
            None => self.offsets,
            Some(nulls) => spread_offsets(&self.offsets, nulls),
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let (bytes, nulls) = (Buffer::from_vec(self.bytes), nulls.cloned());
        Ok(match is_text {
            true => Arc::new(
                StringArray::try_new(offsets, bytes, nulls)
                    .map_err(|_| Error::corrupt("a text is not UTF-8"))?,
            ),
            false => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
        })
    }
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
        Ok(StringDictionary { page, begins, longest, data_type, array: OnceCell::new() })
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
