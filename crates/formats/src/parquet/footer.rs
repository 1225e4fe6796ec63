//! Reads the footer of a file: validates it, has the `parquet` crate decode it, and checks the
//! result against the file.

use std::sync::Arc;

use euphrates_flow::depth::{DEPTH_MAX, too_deep};
use euphrates_flow::{Error, Result};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use super::errors::damaged;
use super::thrift::{DEPTH_MAX as THRIFT_DEPTH_MAX, I32, LIST, ThriftCursor, struct_bytes};
use crate::text::contents::other_than;
use euphrates_device::blob::Blob;

use self::repair::{lacks_dictionary_headers, with_dictionary_headers, without_mistyped_fields};

pub use self::column_types::ColumnTypes;

mod arrow_schema;
mod column_types;
mod known_footers;
mod repair;
pub(super) mod uuid_texts;

/// The magic that begins and ends a file.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// Bytes at the beginning that tell the format of a file which is not Parquet.
const BEGIN_BYTES: u64 = 64;

/// Bytes of the first read at the end of a file: most footers are smaller.
const END_BYTES: u64 = 64 << 10;

/// Reads and validates the footer. Damage is a corruption error, an unsupported feature a usage
/// error.
pub fn read(blob: &Arc<Blob>) -> Result<ArrowReaderMetadata> {
    let cut = || Error::corrupt("the end is missing: this Parquet file is cut short, or is none");
    let from = blob.bytes().saturating_sub(END_BYTES);
    let mut end = blob.read_at(from, (blob.bytes() - from) as usize)?;
    let tail = end.len().checked_sub(8);
    let tail = tail.ok_or_else(|| other_than("parquet", &end).unwrap_or_else(cut))?;
    if &end[tail + 4..] == b"PARE" {
        return Err(encrypted("the file is"));
    }
    if &end[tail + 4..] != MAGIC {
        let begin = blob.read_at(0, blob.bytes().min(BEGIN_BYTES) as usize)?;
        return Err(other_than("parquet", &begin).unwrap_or_else(cut));
    }
    let length = u32::from_le_bytes(end[tail..tail + 4].try_into().expect("four bytes"));
    let offset = (blob.bytes() - 8).checked_sub(length.into()).ok_or_else(cut)?;
    if offset < from {
        end = blob.read_at(offset, length as usize + 8)?;
    }
    let footer = &end[end.len() - 8 - length as usize..end.len() - 8];
    if let Some(known) = known_footers::find(footer, offset) {
        return Ok(known);
    }
    let outline = Outline::of(footer).ok_or_else(|| Error::corrupt("the footer is damaged"))?;
    outline.check()?;
    let mended =
        without_mistyped_fields(footer).ok_or_else(|| Error::corrupt("the footer is damaged"))?;
    let metadata = ParquetMetaDataReader::decode_metadata(&mended).map_err(damaged)?;
    check_metadata(&metadata, offset)?;
    arrow_schema::check(&metadata)?;
    let is_by_itself = !lacks_dictionary_headers(&metadata);
    let metadata = with_dictionary_headers(blob, metadata, offset)?;
    let options = ArrowReaderOptions::new();
    let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(damaged)?;
    if is_by_itself {
        known_footers::keep(footer, offset, &metadata);
    }
    Ok(metadata)
}

/// Properties of an encoded footer to check before the crate decodes it: the crate recurses once
/// per schema level and does not support encrypted columns.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outline {
    levels: usize,
    is_encrypted: bool,
}

/// A column level takes up to two levels of the file's schema (a list is a group with a repeated
/// group in it), and the root is one more.
const SCHEMA_LEVELS_MAX: usize = DEPTH_MAX * 2 + 1;

/// Field ids of the Thrift structure `FileMetaData`.
const SCHEMA: i16 = 2;
const ENCRYPTION_ALGORITHM: i16 = 8;
/// Field id of the number of children in a schema element.
const CHILDREN: i16 = 5;

impl Outline {
    /// Scans an encoded footer; `None` if it is malformed.
    fn of(footer: &[u8]) -> Option<Outline> {
        struct_bytes(footer)?;
        let mut outline = Outline::default();
        ThriftCursor::new(footer).fields(|input, id, kind| match (id, kind) {
            (SCHEMA, LIST) => {
                outline.levels = levels(input)?;
                Some(())
            }
            _ => {
                outline.is_encrypted |= id == ENCRYPTION_ALGORITHM;
                input.skip(kind, THRIFT_DEPTH_MAX)
            }
        })?;
        Some(outline)
    }

    fn check(&self) -> Result<()> {
        if self.levels > SCHEMA_LEVELS_MAX {
            return Err(too_deep("the schema"));
        }
        if self.is_encrypted { Err(encrypted("columns of the file are")) } else { Ok(()) }
    }
}

/// The depth of a schema, whose elements are listed depth first, each with its number of children;
/// `None` if they do not form one tree.
fn levels(input: &mut ThriftCursor) -> Option<usize> {
    // The number of pending elements on each level, from the root on.
    let mut open: Vec<i32> = vec![1];
    let mut deepest = 0;
    input.structs(|input| {
        while open.last() == Some(&0) {
            open.pop();
        }
        *open.last_mut()? -= 1;
        deepest = deepest.max(open.len());
        let mut children = 0;
        input.fields(|input, id, kind| match (id, kind) {
            (CHILDREN, I32) => {
                children = input.i32()?;
                Some(())
            }
            _ => input.skip(kind, THRIFT_DEPTH_MAX),
        })?;
        (children >= 0).then(|| open.push(children))
    })?;
    open.iter().all(|left| *left == 0).then_some(deepest)
}

fn encrypted(what: &str) -> Error {
    Error::usage(format!("{what} encrypted"))
        .remedy("decrypt the file first: write it without keys")
}

/// Checks that column chunks lie between the magic and the footer, and that row counts agree. The
/// row count of the whole file is not checked: some writers leave it 0.
fn check_metadata(metadata: &ParquetMetaData, footer: u64) -> Result<()> {
    let wrong = |what: &str| Err(Error::corrupt(format!("the footer is damaged: {what}")));
    let mut rows: i64 = 0;
    for group in metadata.row_groups() {
        let sum = (group.num_rows() >= 0).then(|| rows.checked_add(group.num_rows())).flatten();
        let Some(sum) = sum else { return wrong("an impossible number of rows") };
        rows = sum;
        for column in group.columns() {
            let sizes = [
                Some(column.data_page_offset()),
                column.dictionary_page_offset(),
                Some(column.compressed_size()),
                Some(column.uncompressed_size()),
                Some(column.num_values()),
            ];
            if sizes.into_iter().flatten().any(|size| size < 0) {
                return wrong("a column has a negative length");
            }
            let (begin, length) = column.byte_range();
            if begin.checked_add(length).is_none_or(|end| end > footer) {
                return wrong("a column lies outside the file");
            }
            if column.column_descr().max_rep_level() == 0 && column.num_values() != group.num_rows()
            {
                return wrong("a column and its row group disagree about the number of rows");
            }
            check_codec(column)?;
            if column.file_path().is_some() {
                let error = Error::usage("the columns of this file are in other files");
                return Err(error.remedy("write it as one file"));
            }
        }
    }
    Ok(())
}

/// A usage error for LZO: no library of it has a licence that others could use, so no reader
/// supports it.
fn check_codec(column: &ColumnChunkMetaData) -> Result<()> {
    match column.compression() {
        Compression::LZO => Err(Error::usage("lzo compression is not supported")
            .remedy("write the file with zstd, lz4 or snappy")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer that holds nothing but a schema with these numbers of children.
    fn footer(children: &[i32]) -> Vec<u8> {
        let mut bytes = vec![2 << 4 | LIST, 0xf0 | 12];
        super::super::thrift::put_varint(&mut bytes, children.len() as u32);
        for count in children {
            bytes.push(5 << 4 | I32);
            super::super::thrift::put_varint(&mut bytes, (count << 1) as u32);
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn schema_levels_are_counted_without_recursion() {
        for (children, levels) in
            [(vec![0], 1), (vec![2, 0, 0], 2), (vec![2, 1, 1, 0, 0], 4), (vec![2, 0, 1, 1, 0], 4)]
        {
            assert_eq!(Outline::of(&footer(&children)).unwrap().levels, levels, "{children:?}");
        }
        let mut chain = vec![1; 1_000_000];
        chain.push(0);
        let error = Outline::of(&footer(&chain)).unwrap().check().unwrap_err().to_string();
        assert!(error.contains("the schema is nested more than"), "{error}");
    }

    #[test]
    fn schema_that_is_no_tree_is_damaged() {
        for children in [vec![1], vec![0, 0], vec![-1], vec![i32::MAX >> 1, 0]] {
            assert_eq!(Outline::of(&footer(&children)), None, "{children:?}");
        }
    }
}
