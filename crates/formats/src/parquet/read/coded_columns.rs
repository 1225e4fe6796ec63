//! Which columns are read as codes of their dictionaries, by what the footer tells.
//!
//! Codes spare readers that group by a column the hashing and comparing of its values, but the
//! values of each row group's dictionary are looked up once. If the footer is wrong, reading takes
//! longer.

use arrow::datatypes::DataType;
use parquet::basic::{Encoding, EncodingMask};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

use super::flat_layout::FlatLayout;

/// The fewest rows of a column for each value of its dictionaries.
const ROWS_PER_VALUE_MIN: i64 = 4;
/// Integers of four bytes that are closer together remain values: to compute an address from one
/// takes less time than to number the values of each dictionary.
const ADDRESSED_SPAN: u32 = 1 << 16;

/// Whether a column, of which these are the chunks, is read as codes if a reader takes them: each
/// chunk has codes alone, of dictionaries that together have few values for the rows, which are no
/// integers of four bytes close to each other.
pub fn has_codes<'a>(
    chunks: impl Iterator<Item = &'a ColumnChunkMetaData>,
    data_type: &DataType,
) -> bool {
    let chunks: Vec<&ColumnChunkMetaData> = chunks.collect();
    // Of decimals no addresses are computed.
    if !data_type.is_decimal() && span(&chunks).is_some_and(|span| span < ADDRESSED_SPAN) {
        return false;
    }
    let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(data_type.clone()));
    let (mut rows, mut values) = (0, 0);
    for chunk in chunks.iter().copied() {
        if !is_all_codes(chunk) || FlatLayout::of(chunk, &coded).is_none() {
            return false;
        }
        rows += chunk.num_values();
        values = dictionary_values(chunk).saturating_add(values);
    }
    values.saturating_mul(ROWS_PER_VALUE_MIN) <= rows
}

/// The distance of the least integer of a column from the largest, as the statistics tell; `None`
/// if its values have not four bytes, and if statistics are missing.
fn span(chunks: &[&ColumnChunkMetaData]) -> Option<u32> {
    let bounds = |chunk: &&ColumnChunkMetaData| match chunk.statistics()? {
        Statistics::Int32(of) => Some((*of.min_opt()?, *of.max_opt()?)),
        _ => None,
    };
    let bounds: Option<Vec<(i32, i32)>> = chunks.iter().map(bounds).collect();
    let bounds = bounds?;
    let least = bounds.iter().map(|(least, _)| *least).min()?;
    let most = bounds.iter().map(|(_, most)| *most).max()?;
    Some(most.abs_diff(least))
}

/// Whether all pages of a column chunk have codes.
fn is_all_codes(chunk: &ColumnChunkMetaData) -> bool {
    let is_codes = |pages: &EncodingMask| {
        pages.is_only(Encoding::RLE_DICTIONARY) || pages.is_only(Encoding::PLAIN_DICTIONARY)
    };
    // Without statistics of pages: the dictionary itself is usually plain, and so may be pages; but
    // a plain value takes four bytes and more.
    let may_be_plain = || {
        chunk.encodings().any(|of| of == Encoding::PLAIN)
            && chunk.uncompressed_size() / size_of::<u32>() as i64 >= chunk.num_values()
    };
    chunk.dictionary_page_offset().is_some()
        && chunk.page_encoding_stats_mask().map_or_else(|| !may_be_plain(), is_codes)
}

/// The most values that the dictionary of a column chunk can have, if it is compressed as the rest:
/// each takes some bytes there, and codes have as many bits as tell them apart, or are fewer for
/// runs of rows.
fn dictionary_values(chunk: &ColumnChunkMetaData) -> i64 {
    let Some(offset) = chunk.dictionary_page_offset() else { return i64::MAX };
    // The footer may say anything.
    let stored = chunk.data_page_offset().saturating_sub(offset).max(0) as f64;
    let whole = chunk.uncompressed_size() as f64;
    let dictionary_bytes = stored * whole / chunk.compressed_size().max(1) as f64;
    let bits_per_code = (whole - dictionary_bytes) * 8.0 / chunk.num_values().max(1) as f64;
    let by_codes = bits_per_code.max(0.0).exp2();
    by_codes.min(dictionary_bytes / size_of::<u32>() as f64) as i64
}
