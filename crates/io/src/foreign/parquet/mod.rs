//! Parquet: a split is a row group, and so is a chunk.
//!
//! The `parquet` crate reads whatever is in pages; headers and bytes of pages are handled here, so
//! that lengths are checked before anything is allocated, and so that pages carry checksums and
//! have them verified (the crate writes none). Flat columns of the common types are encoded here
//! (`chunk`), several times faster than the crate does; it writes nested, rare and compressed ones.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatchOptions;
use euphrates_flow::{Error, Result};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use super::{Batches, Format, Opened, ReadOptions, WriteOptions, Writer, guarded, some_column};
use crate::blob::Blob;
use crate::location::FileRef;

mod chunk;
mod column;
mod dictionary;
mod hybrid;
mod interner;
mod levels;
mod plain;
mod read;
mod statistics;
mod thrift;
mod values;
mod write;

/// The format.
pub struct Parquet;

const MAGIC: &[u8; 4] = b"PAR1";

/// What is read of the end of a file at first: most footers are smaller.
const END_BYTES: u64 = 64 << 10;

impl Format for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["parquet", "pq"]
    }

    fn options(&self) -> &'static [&'static str] {
        &["compression"]
    }

    fn open(&self, file: &FileRef, blob: Blob, _: &ReadOptions) -> Result<Arc<dyn Opened>> {
        let metadata = guarded(|| read_metadata(&blob))?;
        let schema = with_far_timestamps(&metadata);
        Ok(Arc::new(File { file: file.clone(), bytes: blob.bytes(), metadata, schema }))
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        Ok(Arc::new(write::ParquetWriter::new(schema, options)?))
    }
}

/// A file whose footer has been read.
struct File {
    file: FileRef,
    bytes: u64,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
}

impl Opened for File {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn splits(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Of the columns that are wanted.
    fn bytes(&self) -> Option<u64> {
        let groups = self.metadata.metadata().row_groups().iter();
        let columns = groups.flat_map(|group| group.columns());
        let is_wanted = |column: &&ColumnChunkMetaData| {
            let top = column.column_path().parts().first();
            top.is_some_and(|top| self.schema.field_with_name(top).is_ok())
        };
        let bytes = |column: &ColumnChunkMetaData| column.uncompressed_size().max(0) as u64;
        Some(columns.filter(is_wanted).map(bytes).sum())
    }

    fn read(self: Arc<Self>, split: usize, schema: &SchemaRef) -> Result<Batches> {
        let blob = self.file.open()?;
        if blob.bytes() != self.bytes {
            let message = "the file changed between being opened and being read";
            return Err(Error::corrupt(message).remedy("run again"));
        }
        let metadata = self.metadata.metadata().clone();
        let group = read::RowGroup::new(metadata, self.schema.clone(), split, Arc::new(blob));
        guarded(|| group.read(schema))
    }
}

/// Reads and checks the footer.
fn read_metadata(blob: &Blob) -> Result<ArrowReaderMetadata> {
    let cut = || Error::corrupt("the end is missing: this Parquet file is cut short, or is none");
    let from = blob.bytes().saturating_sub(END_BYTES);
    let mut end = blob.read_at(from, (blob.bytes() - from) as usize)?;
    let tail = end.len().checked_sub(8).ok_or_else(cut)?;
    if &end[tail + 4..] == b"PARE" {
        return Err(Error::usage("the file is encrypted").remedy("decrypt it first"));
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
    if thrift::struct_bytes(footer).is_none() {
        return Err(Error::corrupt("the footer is damaged"));
    }
    let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(damaged)?;
    check_metadata(&metadata, offset)?;
    let options = ArrowReaderOptions::new();
    match ArrowReaderMetadata::try_new(Arc::new(metadata), options) {
        Ok(metadata) => Ok(metadata),
        Err(error) => Err(damaged(error)),
    }
}

/// Column chunks lie between the magic and the footer, and row counts agree.
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
    match rows == metadata.file_metadata().num_rows() {
        true => Ok(()),
        false => wrong("the row groups do not add up to the number of rows"),
    }
}

fn check_codec(column: &ColumnChunkMetaData) -> Result<()> {
    use parquet::basic::Compression::{BROTLI, GZIP, LZO};
    match column.compression() {
        codec @ (GZIP(_) | BROTLI(_) | LZO) => {
            let codec = format!("{codec:?}").to_lowercase();
            let name = codec.split('(').next().unwrap_or_default();
            Err(Error::usage(format!("{name} compression is not supported"))
                .remedy("write the file with zstd, lz4 or snappy"))
        }
        _ => Ok(()),
    }
}

/// The schema with timestamps of 96 bits in microseconds. They are written in nanoseconds, of which
/// 64 bits hold the years 1677 to 2262 alone; and the year 9999 often stands for never.
fn with_far_timestamps(metadata: &ArrowReaderMetadata) -> SchemaRef {
    let schema = metadata.schema();
    let columns = metadata.metadata().file_metadata().schema_descr().columns();
    let mut leaves = columns.iter().map(|column| column.physical_type());
    let fields: Fields = schema.fields().iter().map(|field| far(field, &mut leaves)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A field whose leaves come next.
fn far(field: &FieldRef, leaves: &mut dyn Iterator<Item = Type>) -> FieldRef {
    use DataType::*;
    let data_type = match field.data_type() {
        Struct(fields) => Struct(fields.iter().map(|field| far(field, leaves)).collect()),
        List(field) => List(far(field, leaves)),
        LargeList(field) => LargeList(far(field, leaves)),
        FixedSizeList(field, size) => FixedSizeList(far(field, leaves), *size),
        Map(field, sorted) => Map(far(field, leaves), *sorted),
        leaf => match (leaves.next(), leaf) {
            (Some(Type::INT96), Timestamp(_, zone)) => {
                Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => leaf.clone(),
        },
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn root_indices(file: &Schema, wanted: &Schema) -> Result<Vec<usize>> {
    wanted.fields().iter().map(|field| Ok(file.index_of(field.name())?)).collect()
}

fn rows_only(rows: usize) -> RecordBatchOptions {
    RecordBatchOptions::new().with_row_count(Some(rows))
}

fn damaged(error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) if error.is::<Error>() => {
            *error.downcast::<Error>().expect("just asked")
        }
        ParquetError::NYI(what) => Error::usage(format!("not supported in Parquet files: {what}"))
            .remedy("write the file with common encodings"),
        error => Error::corrupt(error),
    }
}
