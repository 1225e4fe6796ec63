//! Repairs footers that some writers got wrong, in the way other readers interpret them.

use std::sync::Arc;

use euphrates_flow::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::parquet::column_reader::ColumnReader;
use crate::parquet::errors::damaged;
use crate::parquet::thrift::{
    BINARY, DEPTH_MAX, DICTIONARY_PAGE, I32, I64, LIST, STRUCT, ThriftCursor, put_field, put_list,
};
use euphrates_device::blob::Blob;

/// The expected type of each known field of a Thrift structure, by field id.
struct ThriftShape(&'static [(i16, u8, Option<&'static ThriftShape>)]);

static FILE: ThriftShape = ThriftShape(&[(4, LIST, Some(&ROW_GROUP))]);
static ROW_GROUP: ThriftShape =
    ThriftShape(&[(1, LIST, Some(&CHUNK)), (5, I64, None), (6, I64, None)]);
static CHUNK: ThriftShape = ThriftShape(&[(1, BINARY, None), (3, STRUCT, Some(&COLUMN))]);
static COLUMN: ThriftShape = ThriftShape(&[
    (DICTIONARY_OFFSET, I64, None),
    (12, STRUCT, None),
    (13, LIST, None),
    (14, I64, None),
    (15, I32, None),
    (16, STRUCT, None),
    (17, STRUCT, None),
]);

/// Field id of the dictionary page offset in a column's metadata; some writers store 0 where there
/// is no dictionary.
const DICTIONARY_OFFSET: i16 = 11;

/// Removes optional fields of an unexpected type from a footer, and dictionary offsets of 0, which
/// is where the magic is. Thrift requires readers to skip such fields; the crate misinterprets
/// their bytes. `None` if the footer is malformed.
pub fn without_mistyped_fields(footer: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(footer.len());
    copy_struct(&mut ThriftCursor::new(footer), &FILE, &mut out)?;
    Some(out)
}

fn copy_struct(input: &mut ThriftCursor, shape: &ThriftShape, out: &mut Vec<u8>) -> Option<()> {
    let mut last = 0;
    input.fields(|input, id, kind| {
        let known = shape.0.iter().find(|(known, ..)| *known == id);
        let begin = input.at();
        input.skip(kind, DEPTH_MAX)?;
        let value = input.since(begin);
        let is_strange = known.is_some_and(|(_, right, _)| *right != kind);
        if is_strange || (shape.is_column() && id == DICTIONARY_OFFSET && value == [0]) {
            return Some(());
        }
        put_field(out, std::mem::replace(&mut last, id), id, kind);
        let inner = &mut ThriftCursor::new(value);
        match known.and_then(|(.., inner)| *inner) {
            None => out.extend_from_slice(value),
            Some(shape) if kind == STRUCT => copy_struct(inner, shape, out)?,
            Some(shape) => {
                let (size, kind) = inner.list()?;
                put_list(out, size, kind);
                (size == 0 || kind == STRUCT).then_some(())?;
                (0..size).try_for_each(|_| copy_struct(inner, shape, out))?;
            }
        }
        Some(())
    })?;
    out.push(0);
    Some(())
}

impl ThriftShape {
    fn is_column(&self) -> bool {
        std::ptr::eq(self, &COLUMN)
    }
}

/// Corrects the lengths of column chunks by parquet-mr up to 1.2.8, which left out the header of
/// the dictionary page (PARQUET-816).
pub fn with_dictionary_headers(
    blob: &Arc<Blob>,
    metadata: ParquetMetaData,
    footer: u64,
) -> Result<ParquetMetaData> {
    if !lacks_dictionary_headers(&metadata) {
        return Ok(metadata);
    }
    let mut builder = metadata.into_builder();
    for group in builder.take_row_groups() {
        let mut group = group.into_builder();
        let columns = group.take_columns().into_iter();
        let columns = columns.map(|column| with_header(blob, column, footer));
        let group = group.set_column_metadata(columns.collect::<Result<_>>()?).build();
        builder = builder.add_row_group(group.map_err(damaged)?);
    }
    Ok(builder.build())
}

/// Whether lengths have to be corrected by what the file has at the chunks.
pub fn lacks_dictionary_headers(metadata: &ParquetMetaData) -> bool {
    metadata.file_metadata().created_by().is_some_and(forgets_headers)
}

fn with_header(
    blob: &Arc<Blob>,
    column: ColumnChunkMetaData,
    footer: u64,
) -> Result<ColumnChunkMetaData> {
    let (begin, length) = column.byte_range();
    let Ok(page) = ColumnReader::header_alone(blob, &column, begin) else {
        return Ok(column);
    };
    let header = page.header_bytes as u64;
    if page.kind != DICTIONARY_PAGE || begin + length + header > footer {
        return Ok(column);
    }
    let (packed, unpacked) = (column.compressed_size(), column.uncompressed_size());
    let column = column.into_builder().set_total_compressed_size(packed + header as i64);
    column.set_total_uncompressed_size(unpacked + header as i64).build().map_err(damaged)
}

fn forgets_headers(created_by: &str) -> bool {
    let Some(rest) = created_by.strip_prefix("parquet-mr") else { return false };
    let version = rest.trim_start().strip_prefix("version ").unwrap_or_default();
    let mut numbers = version.split(['.', '-', ' ']).map(|part| part.parse().unwrap_or(0u32));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next()) < (1, 2, 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_versions_of_parquet_mr_leave_out_headers() {
        for (created_by, forgets) in [
            ("parquet-mr", true),
            ("parquet-mr version 1.2.8", true),
            ("parquet-mr version 1.2.9 (build x)", false),
            ("parquet-mr version 1.12.0-2018", false),
            ("parquet-rs version 0.3.0", false),
        ] {
            assert_eq!(forgets_headers(created_by), forgets, "{created_by}");
        }
    }

    /// A footer with one column that has these fields, each an id and a one-byte value.
    fn footer(fields: &[(i16, u8, u8)]) -> Vec<u8> {
        let mut out = vec![];
        put_field(&mut out, 0, 1, I32);
        out.push(2);
        put_field(&mut out, 1, 4, LIST);
        put_list(&mut out, 1, STRUCT);
        put_field(&mut out, 0, 1, LIST);
        put_list(&mut out, 1, STRUCT);
        put_field(&mut out, 0, 3, STRUCT);
        let mut last = 0;
        for (id, kind, byte) in fields {
            put_field(&mut out, last, *id, *kind);
            out.push(*byte);
            last = *id;
        }
        out.extend([0, 0, 0, 0]);
        out
    }

    #[test]
    fn fields_of_another_type_and_dictionaries_at_zero_are_removed() {
        let right = footer(&[(5, I64, 8), (11, I64, 8), (14, I64, 2), (15, I32, 2), (40, I64, 0)]);
        assert_eq!(without_mistyped_fields(&right).unwrap(), right);
        // An empty list where a number belongs.
        let wrong = footer(&[(5, I64, 8), (11, I64, 0), (15, LIST, STRUCT), (40, I64, 0)]);
        let put_right = footer(&[(5, I64, 8), (40, I64, 0)]);
        assert_eq!(without_mistyped_fields(&wrong).unwrap(), put_right);
        for end in 0..wrong.len() {
            assert_eq!(without_mistyped_fields(&wrong[..end]), None);
        }
    }
}
