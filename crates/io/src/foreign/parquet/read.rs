//! A row group as batches.

use std::sync::Arc;

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_ROWS_MAX, Error, Result, split_batch};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::super::places::Places;
use super::allowance::Allowance;
use super::column::{Column, window_bytes};
use super::rows::rows_together;
use super::thrift::PageHeader;
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
    allowance: Arc<Allowance>,
    /// How much of a column is read at a time.
    window_bytes: u64,
}

impl RowGroup {
    /// A row group of a file.
    pub fn new(
        metadata: Arc<ParquetMetaData>,
        file: SchemaRef,
        index: usize,
        blob: Arc<Blob>,
        allowance: Arc<Allowance>,
    ) -> RowGroup {
        RowGroup { metadata, index, blob, file, allowance, window_bytes: 0 }
    }

    /// Its footer entry.
    pub fn group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }

    /// The pages of a column chunk, by the number of the leaf, held to an allowance.
    pub fn pages(
        &self,
        leaf: usize,
        allowance: &Arc<Allowance>,
    ) -> Result<SerializedPageReader<Column>, ParquetError> {
        let metadata = self.group().column(leaf);
        let (blob, window) = (self.blob.clone(), self.window_bytes);
        let column = Arc::new(Column::new(blob, metadata, window, allowance.clone()));
        SerializedPageReader::new(column, metadata, self.group().num_rows() as usize, None)
    }

    /// The header of a page of a column chunk.
    pub fn header(&self, leaf: usize, offset: u64) -> Result<PageHeader> {
        Column::header_alone(&self.blob, self.group().column(leaf), offset)
    }

    /// The most that pages, or a row, may take in memory.
    pub fn bytes_max(&self) -> u64 {
        self.allowance.bytes_max()
    }

    /// Its batches, with the columns of `wanted`.
    pub fn read(mut self, wanted: &SchemaRef) -> Result<Batches> {
        let roots = root_indices(&self.file, wanted)?;
        let rows = self.group().num_rows() as usize;
        if roots.is_empty() {
            return Ok(count_only(rows, wanted.clone()));
        }
        let descr = self.metadata.file_metadata().schema_descr();
        let is_wanted = |leaf: &usize| roots.contains(&descr.get_column_root_idx(*leaf));
        let leaves: Vec<usize> = (0..descr.num_columns()).filter(is_wanted).collect();
        self.window_bytes = window_bytes(&self.blob, leaves.len(), &self.allowance);
        let step = rows_together(&self, &leaves)?;
        let mask = ProjectionMask::roots(descr, roots.iter().copied());
        let levels = parquet_to_arrow_field_levels(descr, mask, Some(self.file.fields()));
        let levels = levels.map_err(damaged)?;
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &self, step, None);
        let reader = reader.map_err(damaged)?;
        let own = reader.schema();
        let order = Places::new(&own).of_all(wanted)?;
        let (wanted, allowance) = (wanted.clone(), self.allowance);
        let decoded = Decoded { reader: Some(reader), order, wanted, left: rows, allowance };
        Ok(Box::new(decoded.flat_map(|batch| match batch {
            Ok(batch) => Box::new(split_batch(batch).map(Ok)) as Batches,
            Err(error) => Box::new(std::iter::once(Err(error))),
        })))
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
    allowance: Arc<Allowance>,
}

impl Iterator for Decoded {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut reader = self.reader.take()?;
        let batch = guarded(|| match reader.next() {
            Some(batch) => {
                let own = |error| self.allowance.fault().unwrap_or_else(|| cause(error));
                self.conform(&batch.map_err(own)?).map(Some)
            }
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
fn cause(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<ParquetError>() {
            Ok(error) => damaged(*error),
            Err(other) => match other.downcast::<Error>() {
                Ok(error) => *error,
                Err(other) => Error::corrupt(other),
            },
        },
        ArrowError::ParquetError(message) => {
            Error::corrupt(message.trim_start_matches("Parquet error: "))
        }
        other => Error::corrupt(other),
    }
}

impl RowGroups for RowGroup {
    fn num_rows(&self) -> usize {
        self.group().num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let pages = self.pages(leaf, &self.allowance);
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
