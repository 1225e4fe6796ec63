//! A row group as batches.

use std::sync::Arc;

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_ROWS_MAX, Error, Result, batch_rows, split_batch};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::column::Column;
use super::{damaged, root_indices, rows_only};
use crate::blob::Blob;
use crate::foreign::{Batches, guarded};

/// A row group of an opened file.
#[derive(Clone)]
pub struct RowGroup {
    metadata: Arc<ParquetMetaData>,
    index: usize,
    blob: Arc<Blob>,
    /// The columns of the whole file, with the types they are to have.
    file: SchemaRef,
}

impl RowGroup {
    /// A row group of a file.
    pub fn new(
        metadata: Arc<ParquetMetaData>,
        file: SchemaRef,
        index: usize,
        blob: Arc<Blob>,
    ) -> RowGroup {
        RowGroup { metadata, index, blob, file }
    }

    /// Its footer entry.
    pub fn group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }

    /// A column chunk, by the number of the leaf.
    pub fn column(&self, leaf: usize) -> Column {
        Column::new(self.blob.clone(), self.group().column(leaf))
    }

    /// Its batches, with the columns of `wanted`.
    pub fn read(self, wanted: &SchemaRef) -> Result<Batches> {
        let roots = root_indices(&self.file, wanted)?;
        let rows = self.group().num_rows() as usize;
        if roots.is_empty() {
            return Ok(count_only(rows, wanted.clone()));
        }
        let step = batch_rows(self.row_bytes(&roots)?);
        let descr = self.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::roots(descr, roots.iter().copied());
        let levels = parquet_to_arrow_field_levels(descr, mask, Some(self.file.fields()));
        let levels = levels.map_err(damaged)?;
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &self, step, None);
        let reader = reader.map_err(damaged)?;
        let order =
            wanted.fields().iter().map(|field| Ok(reader.schema().index_of(field.name())?));
        let order = order.collect::<Result<Vec<usize>>>()?;
        let decoded = Decoded { reader: Some(reader), order, wanted: wanted.clone(), left: rows };
        Ok(Box::new(decoded.flat_map(|batch| match batch {
            Ok(batch) => Box::new(split_batch(batch).map(Ok)) as Batches,
            Err(error) => Box::new(std::iter::once(Err(error))),
        })))
    }
}

/// What texts of a dictionary take in memory, at least: more than in the file.
const TEXT_BYTES: i64 = 24;

/// A dictionary of fewer bytes in the file is taken to have no long values: looking costs a read.
const DICTIONARY_BYTES_MIN: i64 = 256;

impl RowGroup {
    /// The average size of a row in memory, as far as the footer tells, and the dictionaries do.
    fn row_bytes(&self, roots: &[usize]) -> Result<usize> {
        let descr = self.group().schema_descr();
        let wanted = |leaf: &usize| roots.contains(&descr.get_column_root_idx(*leaf));
        let mut sum = 0;
        for leaf in (0..self.group().num_columns()).filter(wanted) {
            let column = self.group().column(leaf);
            let least = match column.column_type() {
                Type::BYTE_ARRAY => self.text_bytes(leaf)?.max(TEXT_BYTES),
                Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().into(),
                _ => 8,
            };
            sum += (column.uncompressed_size() / self.group().num_rows().max(1)).max(least);
        }
        Ok(sum.max(1) as usize)
    }

    /// What the texts of a column take in a row. In a file they may all be one entry of a
    /// dictionary.
    fn text_bytes(&self, leaf: usize) -> Result<i64> {
        let column = self.group().column(leaf);
        let rows = self.group().num_rows().max(1);
        if let Some(bytes) = column.unencoded_byte_array_data_bytes() {
            return Ok(bytes / rows);
        }
        let Some(offset) = column.dictionary_page_offset() else { return Ok(0) };
        if column.data_page_offset() - offset < DICTIONARY_BYTES_MIN {
            return Ok(0);
        }
        let page = self.column(leaf).header_alone(offset as u64)?;
        let mean = i64::from(page.unpacked_bytes) / i64::from(page.values.max(1));
        Ok(mean.saturating_mul(column.num_values()) / rows)
    }
}

/// Batches without columns.
fn count_only(rows: usize, schema: SchemaRef) -> Batches {
    Box::new((0..rows).step_by(BATCH_ROWS_MAX).map(move |from| {
        let options = rows_only(BATCH_ROWS_MAX.min(rows - from));
        Ok(RecordBatch::try_new_with_options(schema.clone(), vec![], &options)?)
    }))
}

/// What the crate decodes, with columns in the order that is wanted.
struct Decoded {
    /// `None` once it has failed.
    reader: Option<ParquetRecordBatchReader>,
    order: Vec<usize>,
    wanted: SchemaRef,
    /// Rows that are still to come.
    left: usize,
}

impl Iterator for Decoded {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut reader = self.reader.take()?;
        let batch = guarded(|| match reader.next() {
            Some(batch) => self.conform(&batch.map_err(cause)?).map(Some),
            None if self.left > 0 => {
                let message = format!("{} rows of a row group are missing", self.left);
                Err(Error::corrupt(message))
            }
            None => Ok(None),
        });
        if matches!(batch, Ok(Some(_))) {
            self.reader = Some(reader);
        }
        batch.transpose()
    }
}

impl Decoded {
    fn conform(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let left = self.left.checked_sub(rows);
        self.left = left.ok_or_else(|| Error::corrupt("a row group has too many rows"))?;
        let columns = self.order.iter().map(|&column| batch.column(column).clone()).collect();
        let wanted = self.wanted.clone();
        let batch = RecordBatch::try_new_with_options(wanted, columns, &rows_only(rows));
        batch.map_err(Error::corrupt)
    }
}

/// The crate wraps errors of its source in Arrow's.
fn cause(error: arrow::error::ArrowError) -> Error {
    use arrow::error::ArrowError::ExternalError;
    match error {
        ExternalError(inner) => match inner.downcast::<ParquetError>() {
            Ok(error) => damaged(*error),
            Err(other) => match other.downcast::<Error>() {
                Ok(error) => *error,
                Err(other) => Error::corrupt(other),
            },
        },
        other => Error::corrupt(other),
    }
}

impl RowGroups for RowGroup {
    fn num_rows(&self) -> usize {
        self.group().num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let rows = RowGroups::num_rows(self);
        let metadata = self.group().column(leaf);
        let pages = SerializedPageReader::new(Arc::new(self.column(leaf)), metadata, rows, None);
        Ok(Box::new(OneChunk(Some(pages.map(|pages| Box::new(pages) as Box<dyn PageReader>)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of a column chunk.
struct OneChunk(Option<Result<Box<dyn PageReader>, ParquetError>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for OneChunk {}
