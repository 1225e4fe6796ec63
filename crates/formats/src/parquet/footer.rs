//! The footer of a file: checked before the crate decodes it, decoded, and checked against the
//! file.

use std::sync::Arc;

use euphrates_flow::depth::{DEPTH_MAX, too_deep};
use euphrates_flow::{Error, Result};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use super::arrow_schema;
use super::errors::damaged;
use super::repair::{with_dictionary_headers, without_strangers};
use super::thrift::{DEPTH_MAX as THRIFT_DEPTH_MAX, I32, Input, LIST, struct_bytes};
use euphrates_device::blob::Blob;

/// The first and the last bytes of a file.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// What is read of the end of a file at first: most footers are smaller.
const END_BYTES: u64 = 64 << 10;

/// Reads and checks the footer.
pub fn read(blob: &Arc<Blob>) -> Result<ArrowReaderMetadata> {
    let cut = || Error::corrupt("the end is missing: this Parquet file is cut short, or is none");
    let from = blob.bytes().saturating_sub(END_BYTES);
    let mut end = blob.read_at(from, (blob.bytes() - from) as usize)?;
    let tail = end.len().checked_sub(8).ok_or_else(cut)?;
    if &end[tail + 4..] == b"PARE" {
        return Err(encrypted("the file is"));
    }
    if &end[tail + 4..] != MAGIC {
        return Err(cut());
    }
    let length = u32::from_le_bytes(end[tail..tail + 4].try_into().expect("four bytes"));
    let offset = (blob.bytes() - 8).checked_sub(length.into()).ok_or_else(cut)?;
    if offset < from {
        end = blob.read_at(offset, length as usize + 8)?;
    }
    let footer = &end[end.len() - 8 - length as usize..end.len() - 8];
    let outline = Outline::of(footer).ok_or_else(|| Error::corrupt("the footer is damaged"))?;
    outline.check()?;
    let footer =
        without_strangers(footer).ok_or_else(|| Error::corrupt("the footer is damaged"))?;
    let metadata = ParquetMetaDataReader::decode_metadata(&footer).map_err(damaged)?;
    check_metadata(&metadata, offset)?;
    arrow_schema::check(&metadata)?;
    let metadata = with_dictionary_headers(blob, metadata, offset)?;
    let options = ArrowReaderOptions::new();
    ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(damaged)
}

/// What has to be known of a footer before the crate decodes it, which recurses once per level of
/// the schema and takes no encrypted columns.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outline {
    levels: usize,
    is_encrypted: bool,
}

/// A level of a column is up to two of the file's schema: a list is a group with a repeated group
/// in it. The root is one more.
const SCHEMA_LEVELS_MAX: usize = DEPTH_MAX * 2 + 1;

/// Fields of the footer's structure, by their numbers.
const SCHEMA: i16 = 2;
const ENCRYPTION_ALGORITHM: i16 = 8;
/// The field of a schema's element that says how many of the next ones are its children.
const CHILDREN: i16 = 5;

impl Outline {
    /// `None` if the bytes are not sound.
    fn of(footer: &[u8]) -> Option<Outline> {
        struct_bytes(footer)?;
        let mut outline = Outline::default();
        Input::new(footer).fields(|input, id, kind| match (id, kind) {
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

/// The levels of a schema: its elements are listed parents first, each with the number of its
/// children. `None` if they do not add up to one tree.
fn levels(input: &mut Input) -> Option<usize> {
    // By level, from the root on: the elements still to come.
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

/// Column chunks lie between the magic and the footer, and row counts agree. Only the number of
/// rows of the whole file is believed of nobody: there are writers that leave it 0.
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

/// LZO has no library under a licence that others could use: no reader takes it.
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

    /// A footer with a schema of these numbers of children, and nothing else.
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
    fn levels_of_a_schema_are_counted_without_recursion() {
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
    fn a_schema_that_is_no_tree_is_damaged() {
        for children in [vec![1], vec![0, 0], vec![-1], vec![i32::MAX >> 1, 0]] {
            assert_eq!(Outline::of(&footer(&children)), None, "{children:?}");
        }
    }
}
