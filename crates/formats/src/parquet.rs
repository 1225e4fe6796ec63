//! Reads and writes Parquet: a row group is one split when reading and one [`EncodedChunk`] when
//! writing.
//!
//! Page headers and page bytes are handled here, so that lengths are checked before anything is
//! allocated, and so that pages carry checksums and have them verified (the `parquet` crate writes
//! none). Columns of the common types are encoded here (`column_encoder`), also within lists,
//! structs and maps; flat ones are decoded here (`read::flat_column`), both faster than the crate
//! does it. The crate has the others.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use euphrates_flow::Result;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use self::footer::ColumnTypes;
use self::footer::uuid_texts::{matcher_of_texts, with_uuid_texts};
use self::memory_budget::Allowance;
use self::read::coded_columns::has_codes;
use self::read::matching_rows::read_matching;
use self::read::read;
use self::row_group::RowGroup;
use crate::columns_by_name::ColumnsByName;
use crate::dataset::row_filter::RowMatcher;
use crate::format::{
    DivisibleRows, Format, FormatInfo, OpenedFile, SplitPart, SplitStatistics, Writer, guarded,
    open_again, some_column,
};
use crate::options::{ReadOptions, WriteOptions};
use crate::predicate::{RowPredicate, StoredBounds, has_equality};
use crate::stream::SplitBatches;
use crate::text::limits::ReadLimits;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

mod batch_rows;
mod bloom_filters;
mod column_encoder;
mod column_reader;
mod dictionary;
mod errors;
mod footer;
mod interner;
mod memory_budget;
mod page_codec;
mod plain;
mod read;
mod rle_bit_packing;
mod row_group;
mod row_group_bounds;
mod statistics;
mod stored_types;
mod thrift;
mod values;
mod write;

/// Parquet, as the registry lists it.
pub struct Parquet;

/// Page size in bytes of most writers.
const PAGE_BYTES_USUAL: i64 = 1 << 20;

impl Format for Parquet {
    fn about(&self) -> &'static FormatInfo {
        &FormatInfo {
            name: "parquet",
            extensions: &["parquet", "pq"],
            options: &["compression"],
            compresses_whole: false,
            infers_types: false,
            records_omit_columns: false,
            counts_rows: true,
            selects_rows: true,
        }
    }

    fn open(&self, file: &FileRef, blob: Blob, _: &ReadOptions) -> Result<Arc<dyn OpenedFile>> {
        let (bytes, blob) = (blob.bytes(), Arc::new(blob));
        let metadata = guarded(|| footer::read(&blob))?;
        let types = ColumnTypes::of(&metadata);
        Ok(Arc::new(ParquetFile { file: file.clone(), bytes, metadata, types }))
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        some_column(schema, self)?;
        Ok(Arc::new(write::ParquetWriter::new(schema, options)?))
    }
}

/// A file whose footer has been read.
struct ParquetFile {
    file: FileRef,
    bytes: u64,
    metadata: ArrowReaderMetadata,
    types: ColumnTypes,
}

impl OpenedFile for ParquetFile {
    fn schema(&self) -> &SchemaRef {
        &self.types.shown
    }

    fn splits(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn split_begin(&self, split: usize) -> u64 {
        let columns = self.metadata.metadata().row_group(split).columns().iter();
        let begin = |column: &ColumnChunkMetaData| {
            let pages = column.data_page_offset();
            column.dictionary_page_offset().map_or(pages, |dictionary| dictionary.min(pages))
        };
        columns.map(begin).min().map_or(0, |begin| begin.max(0) as u64)
    }

    /// Uncompressed bytes of all columns, from the footer.
    fn bytes(&self) -> Option<u64> {
        let groups = self.metadata.metadata().row_groups().iter();
        let places = ColumnsByName::new(&self.types.shown);
        let columns = groups.flat_map(|group| wanted(group, &places));
        Some(columns.map(|column| column.uncompressed_size().max(0) as u64).sum())
    }

    /// Approximate bytes of one page per column, and of the window in which the file is read.
    fn held_bytes(&self, schema: &Schema) -> u64 {
        let Some(group) = self.metadata.metadata().row_groups().first() else { return 0 };
        let places = ColumnsByName::new(schema);
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

    fn statistics(&self) -> Option<&dyn SplitStatistics> {
        Some(self)
    }

    fn read(
        &self,
        part: &SplitPart,
        schema: &SchemaRef,
        limits: &ReadLimits,
    ) -> Result<SplitBatches> {
        let decoded = self.types.to_decode(schema);
        let group = self.row_group(part, &decoded, limits)?;
        let batches = guarded(|| read(group, &decoded, None))?;
        Ok(shown(batches, &decoded, schema))
    }

    fn read_matching(
        &self,
        part: &SplitPart,
        schema: &SchemaRef,
        limits: &ReadLimits,
        matcher: RowMatcher,
    ) -> Result<SplitBatches> {
        let decoded = self.types.to_decode(schema);
        let matcher = matcher_of_texts(matcher, &self.types);
        let group = self.row_group(part, &decoded, limits)?;
        let batches = guarded(|| read_matching(group, &decoded, matcher))?;
        Ok(shown(batches, &decoded, schema))
    }

    fn has_dictionary(&self, field: &Field) -> bool {
        let own = self.types.shown.field_with_name(field.name());
        let is_leaf =
            |column: &&ColumnChunkMetaData| column.column_path().parts() == [field.name().as_str()];
        let groups = self.metadata.metadata().row_groups();
        let chunks: Option<Vec<&ColumnChunkMetaData>> =
            groups.iter().map(|group| group.columns().iter().find(is_leaf)).collect();
        own.is_ok_and(|own| own.data_type() == field.data_type())
            && self.types.is_same(field.name())
            && chunks.is_some_and(|chunks| has_codes(chunks.into_iter(), field.data_type()))
    }
}

impl SplitStatistics for ParquetFile {
    /// Rows of flat columns; whether a row of a nested one begins in a page is only known when its
    /// levels are decoded.
    fn divisible_rows(&self, split: usize) -> Option<DivisibleRows> {
        let group = self.metadata.metadata().row_group(split);
        let columns = group.columns();
        let is_flat = |column: &ColumnChunkMetaData| column.column_path().parts().len() == 1;
        let bytes = columns.iter().map(|column| column.uncompressed_size().max(0) as u64);
        let column_bytes = bytes.sum::<u64>() / columns.len().max(1) as u64;
        let rows = usize::try_from(group.num_rows()).ok()?;
        columns.iter().all(is_flat).then_some(DivisibleRows { rows, column_bytes })
    }

    fn may_pass(&self, splits: Range<usize>, predicate: &RowPredicate) -> Vec<bool> {
        let metadata = self.metadata.metadata();
        row_group_bounds::may_pass_each(metadata, splits, &self.types, predicate)
    }

    fn bounds(&self, splits: Range<usize>, column: &str) -> Option<StoredBounds> {
        row_group_bounds::bounds(self.metadata.metadata(), splits, &self.types, column)
    }

    fn may_pass_any(&self, split: usize, predicate: &RowPredicate) -> Result<bool> {
        let group = self.metadata.metadata().row_group(split);
        if !bloom_filters::has_some(group) || !has_equality(predicate) {
            return Ok(true);
        }
        let blob = Arc::new(open_again(&self.file, self.bytes)?);
        Ok(bloom_filters::may_pass_any(blob, group, &self.types.shown, predicate))
    }
}

impl ParquetFile {
    /// Opens a row group to be decoded to the types of this schema.
    fn row_group(
        &self,
        part: &SplitPart,
        schema: &Schema,
        limits: &ReadLimits,
    ) -> Result<RowGroup> {
        let blob = open_again(&self.file, self.bytes)?;
        let metadata = self.metadata.metadata().clone();
        let allowance = Arc::new(Allowance::new(limits.held_bytes_max));
        let types = with_dictionaries(&self.types.decoded, schema);
        let group = RowGroup::new(metadata, types, part.split, Arc::new(blob), allowance);
        Ok(match &part.rows {
            Some(rows) => group.of_rows(rows.clone()),
            None => group,
        })
    }
}

/// Batches as readers see them: of decoded columns, with UUIDs as text.
fn shown(batches: SplitBatches, decoded: &SchemaRef, wanted: &SchemaRef) -> SplitBatches {
    match Arc::ptr_eq(decoded, wanted) {
        true => batches,
        false => with_uuid_texts(batches, wanted.clone()),
    }
}

/// The column chunks of a row group that belong to one of these columns.
fn wanted<'a>(
    group: &'a RowGroupMetaData,
    places: &ColumnsByName<'_>,
) -> impl Iterator<Item = &'a ColumnChunkMetaData> {
    group.columns().iter().filter(|column| {
        column.column_path().parts().first().is_some_and(|top| places.get(top).is_some())
    })
}

/// The schema of a file, with the dictionaries of the columns that are wanted so.
fn with_dictionaries(file: &SchemaRef, wanted: &Schema) -> SchemaRef {
    let is_dictionary = |field: &&FieldRef| matches!(field.data_type(), DataType::Dictionary(..));
    let mut fields = wanted.fields().iter().filter(is_dictionary).peekable();
    if fields.peek().is_none() {
        return file.clone();
    }
    let mut types = file.fields().to_vec();
    for field in fields {
        if let Ok(at) = file.index_of(field.name()) {
            types[at] =
                Arc::new(types[at].as_ref().clone().with_data_type(field.data_type().clone()));
        }
    }
    Arc::new(Schema::new_with_metadata(types, file.metadata().clone()))
}
