//! Strings of a flat column: those collected from pages, and those of a dictionary page.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use euphrates_flow::{Error, Result};

/// Bytes of the length before a string in a page.
const LENGTH_BYTES: usize = size_of::<u32>();

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
    /// Appends a string. A resource error if offsets of 32 bits do not suffice.
    pub fn push(&mut self, string: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(string);
        let end = i32::try_from(self.bytes.len()).map_err(|_| {
            Error::resource("the strings of a batch take more than 2 GiB")
                .remedy("write the file with smaller row groups")
        })?;
        self.offsets.push(end);
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

/// Whether a string type, or the values of a dictionary, must be UTF-8.
pub fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

/// The strings of a dictionary page, which remain there: an array of them is made when as many have
/// been looked up as there are, so that a few rows cost no copy of all strings.
pub struct StringDictionary {
    page: Bytes,
    /// Where each string begins in the page, behind its length.
    begins: Vec<u32>,
    longest: usize,
    /// The type of the array.
    data_type: DataType,
    looked_up: Cell<usize>,
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
        let (mut begins, mut longest) = (Vec::with_capacity(count), 0);
        for _ in 0..count {
            let string = cursor.next().ok_or_else(short)?;
            longest = longest.max(string.len());
            begins.push((page.len() - cursor.rest.len() - string.len()) as u32);
        }
        let (looked_up, array) = (Cell::new(0), OnceCell::new());
        Ok(StringDictionary { page, begins, longest, data_type, looked_up, array })
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.begins.len()
    }

    /// Length of the longest string in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The string of a code, which the dictionary has.
    fn get(&self, code: u32) -> &[u8] {
        let begin = self.begins[code as usize] as usize;
        let length = self.page[begin - LENGTH_BYTES..begin].try_into().expect("four bytes");
        &self.page[begin..begin + u32::from_le_bytes(length) as usize]
    }

    /// Appends the strings of these codes, each of which it has.
    pub fn append(&self, codes: &[u32], out: &mut StringValues) -> Result<()> {
        out.offsets.reserve(codes.len());
        codes.iter().try_for_each(|code| out.push(self.get(*code)))
    }

    /// The strings of these codes, each of which it has; `None` if `array` is there, or pays.
    pub fn few(&self, codes: &[u32]) -> Result<Option<StringValues>> {
        self.looked_up.set(self.looked_up.get().saturating_add(codes.len()));
        if self.array.get().is_some() || self.looked_up.get() > self.len() {
            return Ok(None);
        }
        let mut strings = StringValues::default();
        self.append(codes, &mut strings)?;
        Ok(Some(strings))
    }

    /// All strings, in the order of their codes. A corruption error if text is not UTF-8.
    pub fn array(&self) -> Result<ArrayRef> {
        if let Some(array) = self.array.get() {
            return Ok(array.clone());
        }
        let mut all = StringValues::default();
        all.offsets.reserve(self.len());
        all.bytes.reserve_exact(self.page.len() - self.len() * LENGTH_BYTES);
        (0..self.len()).try_for_each(|code| all.push(self.get(code as u32)))?;
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
