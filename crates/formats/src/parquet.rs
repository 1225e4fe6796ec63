//! Reads and writes Parquet: a split is a row group, and so is a chunk.
//!
//! The `parquet` crate decodes the contents of pages; page headers and page bytes are handled here,
//! so that lengths are checked before anything is allocated, and so that pages carry checksums and
//! have them verified (the crate writes none). Flat columns of the common types are encoded here
//! (`chunk`), several times faster than the crate does; the crate encodes nested and rare types.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use euphrates_flow::Result;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use self::allowance::Allowance;
use self::read::read;
use self::row_group::RowGroup;
use crate::column_index::Places;
use crate::format::{About, Format, Opened, Writer, guarded, open_again, some_column};
use crate::options::{ReadOptions, WriteOptions};
use crate::stream::Batches;
use crate::text::limits::ReadLimits;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

mod allowance;
mod arrow_schema;
mod chunk;
mod column;
mod dictionary;
mod errors;
mod footer;
mod hybrid;
mod interner;
mod page_codec;
mod plain;
mod read;
mod repair;
mod row_group;
mod rows;
mod statistics;
mod stored;
mod thrift;
mod values;
mod write;

/// Parquet, as the registry lists it.
pub struct Parquet;

/// Page size in bytes of most writers.
const PAGE_BYTES_USUAL: i64 = 1 << 20;

impl Format for Parquet {
    fn about(&self) -> &'static About {
        &About {
            name: "parquet",
            extensions: &["parquet", "pq"],
            options: &["compression"],
            is_plain: false,
            infers: false,
        }
    }

    fn open(&self, file: &FileRef, blob: Blob, _: &ReadOptions) -> Result<Arc<dyn Opened>> {
        let (bytes, blob) = (blob.bytes(), Arc::new(blob));
        let metadata = guarded(|| footer::read(&blob))?;
        let schema = with_far_timestamps(&metadata);
        Ok(Arc::new(File { file: file.clone(), bytes, metadata, schema }))
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

    /// Bytes of the projected columns.
    fn bytes(&self) -> Option<u64> {
        let groups = self.metadata.metadata().row_groups().iter();
        let places = Places::new(&self.schema);
        let columns = groups.flat_map(|group| wanted(group, &places));
        Some(columns.map(|column| column.uncompressed_size().max(0) as u64).sum())
    }

    /// Approximate bytes of one page per column, and of the window in which the file is read.
    fn bytes_held(&self, schema: &Schema) -> u64 {
        let Some(group) = self.metadata.metadata().row_groups().first() else { return 0 };
        let places = Places::new(schema);
        // A page has at least one value, which is copied into a batch.
        let held = wanted(group, &places).map(|column| {
            let value = column.uncompressed_size() / column.num_values().max(1);
            let page = |bytes: i64| match value > PAGE_BYTES_USUAL {
                true => 2 * value,
                false => bytes.clamp(0, PAGE_BYTES_USUAL),
            };
            match column.compression() {
                Compression::UNCOMPRESSED => page(column.uncompressed_size()),
                _ => page(column.uncompressed_size()) + page(column.compressed_size()),
            }
        });
        held.sum::<i64>() as u64
    }

    fn read(&self, split: usize, schema: &SchemaRef, limits: &ReadLimits) -> Result<Batches> {
        let blob = open_again(&self.file, self.bytes)?;
        let metadata = self.metadata.metadata().clone();
        let allowance = Arc::new(Allowance::new(limits.held_bytes_max));
        let group = RowGroup::new(metadata, self.schema.clone(), split, Arc::new(blob), allowance);
        guarded(|| read(group, schema))
    }
}

/// The column chunks of a row group that belong to one of these columns.
fn wanted<'a>(
    group: &'a RowGroupMetaData,
    places: &Places<'_>,
) -> impl Iterator<Item = &'a ColumnChunkMetaData> {
    group.columns().iter().filter(|column| {
        column.column_path().parts().first().is_some_and(|top| places.get(top).is_some())
    })
}

/// The Arrow schema, with 96-bit timestamps as microseconds. Files store these in nanoseconds, of
/// which 64 bits hold the years 1677 to 2262 alone; and the year 9999 often stands for never.
fn with_far_timestamps(metadata: &ArrowReaderMetadata) -> SchemaRef {
    let schema = metadata.schema();
    let columns = metadata.metadata().file_metadata().schema_descr().columns();
    let mut leaves = columns.iter().map(|column| column.physical_type());
    let fields: Fields = schema.fields().iter().map(|field| far(field, &mut leaves)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Converts a field, and takes its leaves from the front of `leaves`.
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
