//! Estimates how many rows of a row group to decode together: about a batch, and never many
//! batches.
//!
//! The footer states the size of values in the file, which may be a thousandth of their size in
//! memory: all may be one dictionary entry.

use std::sync::Arc;

use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result, batch_rows};
use parquet::basic::Type;
use parquet::column::page::{Page, PageReader};

use super::errors::damaged;
use super::memory_budget::Allowance;
use super::row_group::RowGroup;

/// The least memory that a string takes in bytes; it takes less in the file.
const TEXT_BYTES: i64 = 24;

/// A dictionary of fewer bytes in the file is assumed to have no long values, because reading its
/// header costs a read.
const DICTIONARY_BYTES_MIN: i64 = 256;

/// The most bytes that the strings of a column may take if all equal the longest in its dictionary.
const LONGEST_BYTES_MAX: u64 = 16 * BATCH_BYTES_TARGET as u64;

/// How many rows to decode together if these leaves are decoded, by the average bytes of a row. A
/// resource error if one row exceeds the memory.
pub fn rows_together(group: &RowGroup, leaves: &[usize]) -> Result<usize> {
    let mut row_bytes = 0;
    for leaf in leaves {
        let bytes = value_bytes(group, *leaf)?;
        // A value is held twice: in its page and in the batch.
        if 2 * bytes > group.bytes_max() {
            let column = group.group().column(*leaf).column_path().string();
            let message = format!("a row of column `{column}` takes {bytes} bytes on average");
            return Err(Error::resource(message).remedy("give the flow more memory"));
        }
        row_bytes += bytes;
    }
    Ok(batch_rows(row_bytes as usize))
}

/// Limits `rows` so that they fit even if all have a string of this many bytes.
pub fn rows_of_longest(rows: usize, longest_bytes: usize) -> usize {
    let fitting = LONGEST_BYTES_MAX / longest_bytes.max(1) as u64;
    rows.min(fitting.max(1) as usize)
}

/// Average bytes per row of a column, by the footer and the dictionary's header.
fn value_bytes(group: &RowGroup, leaf: usize) -> Result<u64> {
    let column = group.group().column(leaf);
    let rows = group.group().num_rows().max(1);
    let each = match column.column_type() {
        Type::BYTE_ARRAY => text_bytes(group, leaf)?.max(TEXT_BYTES),
        Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().into(),
        _ => 8,
    };
    let all = each.saturating_mul(column.num_values()).max(column.uncompressed_size());
    Ok((all / rows).max(1) as u64)
}

/// Average bytes of a string in a column.
fn text_bytes(group: &RowGroup, leaf: usize) -> Result<i64> {
    let column = group.group().column(leaf);
    if let Some(bytes) = column.unencoded_byte_array_data_bytes() {
        return Ok(bytes / column.num_values().max(1));
    }
    let Some(offset) = column.dictionary_page_offset() else { return Ok(0) };
    if column.data_page_offset() - offset < DICTIONARY_BYTES_MIN {
        return Ok(0);
    }
    let page = group.header(leaf, offset as u64)?;
    Ok(i64::from(page.unpacked_bytes) / i64::from(page.values.max(1)))
}

/// Length of the longest string in the dictionary of a leaf, or more if all of `rows` fit then.
pub fn longest_string(group: &RowGroup, leaf: usize, rows: usize) -> Result<usize> {
    let column = group.group().column(leaf);
    let is_text = column.column_type() == Type::BYTE_ARRAY;
    let Some(offset) = column.dictionary_page_offset().filter(|_| is_text) else { return Ok(0) };
    let page = group.header(leaf, offset as u64)?;
    if page.unpacked_bytes as u64 * rows as u64 <= LONGEST_BYTES_MAX {
        return Ok(page.unpacked_bytes as usize);
    }
    let allowance = Arc::new(Allowance::new(group.bytes_max() as usize));
    let mut pages = group.pages(leaf, &allowance).map_err(damaged)?;
    match pages.get_next_page() {
        Ok(Some(Page::DictionaryPage { buf, .. })) => Ok(longest(&buf)),
        Ok(_) => Ok(0),
        Err(error) => Err(allowance.fault().unwrap_or_else(|| damaged(error))),
    }
}

/// Length of the longest string in a plain page, where each follows its length.
fn longest(mut texts: &[u8]) -> usize {
    let mut longest = 0;
    while let Some((length, rest)) = texts.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        longest = longest.max(length);
        texts = rest.get(length..).unwrap_or_default();
    }
    longest
}
