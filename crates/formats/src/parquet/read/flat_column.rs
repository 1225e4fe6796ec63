//! Decodes a flat column of a row group, all rows or those that a mask selects.
//!
//! The `parquet` crate decompresses pages and checks their headers. It also decodes values, but
//! leaves out rows in whole ranges only, and takes longer for bytes, truth values and decimals
//! (decision 0057). Pages without a selected row are not decompressed.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, NullBufferBuilder, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::filter;
use arrow::datatypes::DataType;
use bytes::Bytes;
use euphrates_flow::{Error, Result};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedPageReader;

use super::flat_layout::FlatLayout;
use super::flat_values::{FlatValues, coded};
use super::hybrid_decoder::HybridDecoder;
use super::page_dictionary::PageDictionary;
use super::page_values::{PageValues, Selection};
use crate::parquet::column_reader::ColumnReader;
use crate::parquet::errors::damaged;
use crate::parquet::memory_budget::Allowance;
use crate::parquet::row_group::RowGroup;

/// A cursor over the rows of a column, and the values collected since the last array.
pub struct FlatColumn {
    pages: SerializedPageReader<ColumnReader>,
    allowance: Arc<Allowance>,
    layout: FlatLayout,
    data_type: DataType,
    is_nullable: bool,
    dictionary: Option<PageDictionary>,
    /// Whether a data page has been read or passed over.
    has_begun: bool,
    /// Rows to pass over before the next one that is read.
    unread: usize,
    page: OpenPage,
    values: FlatValues,
    nulls: NullBufferBuilder,
    /// The values of the dictionary, if arrays have its codes instead of values.
    coded: Option<ArrayRef>,
}

/// Rows of a mask, which the footer may say to be any number.
pub const MASK_ROWS_MAX: usize = 1 << 22;

/// The most values of a dictionary whose codes are kept.
const CODED_VALUES_MAX: usize = 1 << 16;

/// The data page at the cursor.
struct OpenPage {
    rows_left: usize,
    /// One for each row, if rows may be null: whether it has a value.
    levels: Option<HybridDecoder>,
    values: PageValues,
}

impl OpenPage {
    fn none() -> OpenPage {
        OpenPage { rows_left: 0, levels: None, values: PageValues::Plain(Bytes::new()) }
    }
}

impl FlatColumn {
    /// A cursor before the first row of a leaf column, which is decoded to an Arrow type. `None` if
    /// the crate decodes it.
    pub fn open(group: &RowGroup, leaf: usize, data_type: &DataType) -> Result<Option<FlatColumn>> {
        let column = group.group().column(leaf);
        let Some(layout) = FlatLayout::of(column, data_type) else { return Ok(None) };
        Ok(Some(FlatColumn {
            pages: group.pages(leaf, &group.allowance).map_err(damaged)?,
            allowance: group.allowance.clone(),
            layout,
            data_type: data_type.clone(),
            is_nullable: column.column_descr().max_def_level() > 0,
            dictionary: None,
            has_begun: false,
            unread: 0,
            page: OpenPage::none(),
            values: match data_type {
                DataType::Dictionary(..) => FlatValues::Codes(vec![]),
                _ => FlatValues::new(layout),
            },
            nulls: NullBufferBuilder::new(0),
            coded: None,
        }))
    }

    /// Has arrays keep the codes of the column's dictionary as long as its pages have them, if it
    /// has few values. Called before any row is read.
    pub fn keep_codes(&mut self) -> Result<()> {
        self.next_is(|_| true)?;
        let dictionary = self.dictionary.as_ref().filter(|it| it.len() <= CODED_VALUES_MAX);
        if let Some(dictionary) = dictionary
            && !self.is_dictionary()
        {
            self.coded = Some(dictionary.array(&self.data_type)?);
            self.values = FlatValues::Codes(vec![]);
        }
        Ok(())
    }

    /// Has arrays have values from now on. Called when all collected rows have become an array.
    pub fn drop_codes(&mut self) {
        if !self.is_dictionary() && self.coded.take().is_some() {
            self.values = FlatValues::new(self.layout);
        }
    }

    /// Whether arrays have codes because of their type.
    fn is_dictionary(&self) -> bool {
        matches!(self.data_type, DataType::Dictionary(..))
    }

    /// Collects the selected rows of those that follow, and moves behind them all. A corruption
    /// error if the column has fewer rows. Reads nothing before the first selected row.
    pub fn append(&mut self, selection: Selection<'_>) -> Result<()> {
        if selection.count() == 0 {
            self.pass_over(selection.len());
            return Ok(());
        }
        self.pass_over_unread()?;
        self.append_next(selection)
    }

    /// Moves behind rows that are not selected; reads nothing before the next selected row.
    pub fn pass_over(&mut self, rows: usize) {
        self.unread += rows;
    }

    fn pass_over_unread(&mut self) -> Result<()> {
        while self.unread > 0 {
            let rows = self.unread.min(MASK_ROWS_MAX);
            self.unread -= rows;
            self.append_next(Selection::Masked(&BooleanBuffer::new_unset(rows)))?;
        }
        Ok(())
    }

    fn append_next(&mut self, selection: Selection<'_>) -> Result<()> {
        self.values.reserve(selection.count());
        let mut done = 0;
        while done < selection.len() {
            let left = selection.len() - done;
            if self.page.rows_left == 0 {
                let mask = match selection {
                    Selection::All(_) => None,
                    Selection::Masked(mask) => Some(mask.slice(done, left)),
                };
                done += self.next_page(mask.as_ref())?;
                continue;
            }
            let rows = self.page.rows_left.min(left);
            match selection {
                Selection::All(_) => self.append_of_page(Selection::All(rows))?,
                Selection::Masked(mask) => {
                    let mask = mask.slice(done, rows);
                    self.append_of_page(match mask.count_set_bits() == rows {
                        true => Selection::All(rows),
                        false => Selection::Masked(&mask),
                    })?;
                }
            }
            done += rows;
        }
        Ok(())
    }

    /// The array of the rows collected since the last one.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        let empty = match self.coded.is_some() || self.is_dictionary() {
            true => FlatValues::Codes(vec![]),
            false => FlatValues::new(self.layout),
        };
        let values = std::mem::replace(&mut self.values, empty);
        let nulls = self.nulls.finish();
        let values = match (values, self.values_of_codes()?) {
            (FlatValues::Codes(codes), Some(values)) => {
                return coded(codes, nulls.as_ref(), values);
            }
            (values, _) => values,
        };
        let dictionary = self.dictionary.as_ref().and_then(PageDictionary::strings);
        values.into_array(nulls.as_ref(), &self.data_type, dictionary)
    }

    /// The values of the dictionary, the same array each time, if arrays have its codes.
    fn values_of_codes(&mut self) -> Result<Option<ArrayRef>> {
        if let (None, DataType::Dictionary(_, values)) = (&self.coded, &self.data_type) {
            let Some(dictionary) = &self.dictionary else {
                // All rows so far are null.
                return Ok(Some(new_empty_array(values)));
            };
            self.coded = Some(dictionary.array(values)?);
        }
        Ok(self.coded.clone())
    }

    /// Length of the longest string in the dictionary; 0 without one. Called before any row is
    /// read.
    pub fn longest_string(&mut self) -> Result<usize> {
        if self.layout != FlatLayout::Strings {
            return Ok(0);
        }
        self.next_is(|_| true)?;
        Ok(self.dictionary.as_ref().map_or(0, PageDictionary::longest_string))
    }

    /// A corruption error if rows follow. Not checked if no row is read.
    pub fn check_end(&mut self) -> Result<()> {
        if !self.has_begun {
            return Ok(());
        }
        self.pass_over_unread()?;
        while self.page.rows_left == 0 {
            match self.next_is(|rows| rows == 0)? {
                None => return Ok(()),
                Some((_, true)) => {
                    self.pages.skip_next_page().map_err(|error| self.cause(error))?
                }
                Some((_, false)) => break,
            }
        }
        Err(Error::corrupt("a row group has too many rows"))
    }

    /// Opens the next data page, or passes over pages of which the mask selects no row, and returns
    /// their number of rows.
    fn next_page(&mut self, mask: Option<&BooleanBuffer>) -> Result<usize> {
        // Its bytes, before the next page takes some.
        self.page = OpenPage::none();
        let is_unselected = |rows: usize| {
            mask.is_some_and(|mask| rows <= mask.len() && mask.slice(0, rows).count_set_bits() == 0)
        };
        match self.next_is(is_unselected)? {
            None => Err(Error::corrupt("rows of a row group are missing")),
            Some((rows, true)) => {
                self.has_begun = true;
                self.pages.skip_next_page().map_err(|error| self.cause(error))?;
                Ok(rows)
            }
            Some((_, false)) => {
                let page = self.pages.get_next_page().map_err(|error| self.cause(error))?;
                let page = page.ok_or_else(|| Error::corrupt("a page is missing"))?;
                self.open_page(page)?;
                Ok(0)
            }
        }
    }

    /// The rows of the next data page, and whether the condition holds for their number; reads a
    /// dictionary before it. `None` after the last page.
    fn next_is(&mut self, condition: impl Fn(usize) -> bool) -> Result<Option<(usize, bool)>> {
        loop {
            let next = self.pages.peek_next_page().map_err(|error| self.cause(error))?;
            let Some(next) = next else { return Ok(None) };
            if !next.is_dict {
                // A row has one level.
                let rows = next.num_levels.or(next.num_rows).unwrap_or(0);
                return Ok(Some((rows, condition(rows))));
            }
            let page = self.pages.get_next_page().map_err(|error| self.cause(error))?;
            let (buf, num_values, encoding) = match page {
                Some(Page::DictionaryPage { buf, num_values, encoding, .. }) => {
                    (buf, num_values, encoding)
                }
                // The crate passes over an empty dictionary without pages behind it.
                None => return Ok(None),
                Some(_) => return Err(Error::corrupt("a dictionary page is missing")),
            };
            // Batches have as many rows as fit with the longest string that is known at first.
            if self.has_begun || self.dictionary.is_some() {
                return Err(Error::corrupt("a dictionary is not at the beginning of its column"));
            }
            if !is_plain(encoding) {
                let message = format!("a dictionary encoded as {encoding}");
                return Err(damaged(ParquetError::NYI(message)));
            }
            let count = num_values as usize;
            self.dictionary = Some(PageDictionary::new(buf, count, self.layout, &self.data_type)?);
        }
    }

    fn open_page(&mut self, page: Page) -> Result<()> {
        self.has_begun = true;
        let (rows, encoding, levels, values) = match page {
            Page::DataPage { mut buf, num_values, encoding, def_level_encoding, .. } => {
                let levels = match self.is_nullable {
                    true => Some(levels_of(&mut buf, num_values as usize, def_level_encoding)?),
                    false => None,
                };
                (num_values, encoding, levels, buf)
            }
            Page::DataPageV2 {
                mut buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                take(&mut buf, rep_levels_byte_len as usize)?;
                let levels = take(&mut buf, def_levels_byte_len as usize)?;
                let levels = self.is_nullable.then(|| HybridDecoder::new(levels, 1)).transpose()?;
                (num_values, encoding, levels, buf)
            }
            Page::DictionaryPage { .. } => return Err(Error::corrupt("a dictionary among pages")),
        };
        let values = self.values_of(values, encoding)?;
        self.page = OpenPage { rows_left: rows as usize, levels, values };
        Ok(())
    }

    fn values_of(&self, mut bytes: Bytes, encoding: Encoding) -> Result<PageValues> {
        let is_bits = self.layout == FlatLayout::Bits;
        Ok(match encoding {
            Encoding::PLAIN if is_bits => PageValues::Bits(HybridDecoder::over_plain_bits(bytes)),
            Encoding::PLAIN => PageValues::Plain(bytes),
            Encoding::RLE if is_bits => {
                PageValues::Bits(HybridDecoder::new(prefixed(&mut bytes)?, 1)?)
            }
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY if !is_bits => {
                // A page of nulls may lack the width of codes.
                let width = if bytes.is_empty() { 0 } else { take(&mut bytes, 1)?[0] };
                PageValues::Codes(HybridDecoder::new(bytes, width.into())?)
            }
            other => {
                let message = format!("a page is encoded as {other}, which its footer denies");
                return Err(Error::corrupt(message));
            }
        })
    }

    /// Replaces collected codes by their numbers, if the current page has numbers without codes.
    fn leave_codes(&mut self) -> Result<()> {
        if let (PageValues::Plain(_), FlatValues::Codes(codes)) = (&self.page.values, &self.values)
            && self.layout != FlatLayout::Strings
        {
            self.values = match &self.dictionary {
                Some(dictionary) => dictionary.numbers(codes)?,
                None => FlatValues::new(self.layout),
            };
        }
        Ok(())
    }

    /// Collects rows of the current page.
    fn append_of_page(&mut self, selection: Selection<'_>) -> Result<()> {
        self.leave_codes()?;
        let (page, rows) = (&mut self.page, selection.len());
        page.rows_left -= rows;
        let mut valid = None;
        if let Some(levels) = &mut page.levels {
            let mut bits = BooleanBufferBuilder::new(rows);
            levels.bits(rows, &mut bits)?;
            valid = Some(bits.finish()).filter(|bits| bits.count_set_bits() < rows);
        }
        let (values, dictionary) = (&mut self.values, self.dictionary.as_ref());
        match (valid, selection) {
            (None, selection) => {
                self.nulls.append_n_non_nulls(selection.count());
                page.values.append(selection, values, dictionary)
            }
            (Some(valid), Selection::All(_)) => {
                let count = valid.count_set_bits();
                self.nulls.append_buffer(&NullBuffer::new(valid));
                page.values.append(Selection::All(count), values, dictionary)
            }
            (Some(valid), Selection::Masked(mask)) => {
                self.nulls.append_buffer(&NullBuffer::new(filtered(&valid, mask)?));
                let selected = filtered(mask, &valid)?;
                page.values.append(Selection::Masked(&selected), values, dictionary)
            }
        }
    }

    /// The cause of an error of the crate, which turns errors of its source to text.
    fn cause(&self, error: ParquetError) -> Error {
        self.allowance.fault().unwrap_or_else(|| damaged(error))
    }
}

/// Whether a dictionary page of this encoding has plain values; old writers mark it as its codes.
fn is_plain(encoding: Encoding) -> bool {
    use Encoding::{PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY};
    matches!(encoding, PLAIN | PLAIN_DICTIONARY | RLE_DICTIONARY)
}

/// The bits at which `by` is set.
fn filtered(bits: &BooleanBuffer, by: &BooleanBuffer) -> Result<BooleanBuffer> {
    let [bits, by] = [bits, by].map(|bits| BooleanArray::new(bits.clone(), None));
    let kept = filter(&bits, &by)?;
    Ok(arrow::array::AsArray::as_boolean(&kept).values().clone())
}

/// Splits off the definition levels of a page of version 1.
fn levels_of(page: &mut Bytes, rows: usize, encoding: Encoding) -> Result<HybridDecoder> {
    #[expect(deprecated, reason = "old files have it")]
    let is_old = encoding == Encoding::BIT_PACKED;
    match is_old {
        true => Ok(HybridDecoder::over_old_levels(&take(page, rows.div_ceil(8))?)),
        false => HybridDecoder::new(prefixed(page)?, 1),
    }
}

/// Splits off bytes that stand behind their number.
fn prefixed(page: &mut Bytes) -> Result<Bytes> {
    let length = take(page, size_of::<u32>())?;
    let length = u32::from_le_bytes(length[..].try_into().expect("four bytes"));
    take(page, length as usize)
}

fn take(page: &mut Bytes, bytes: usize) -> Result<Bytes> {
    if bytes > page.len() {
        return Err(Error::corrupt("a page is shorter than its header says"));
    }
    Ok(page.split_to(bytes))
}
