//! Decodes a row group into record batches.

use std::sync::Arc;

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::{BATCH_ROWS_MAX, Error, Result, split_batch};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;

pub(super) mod matching_rows;

use super::batch_rows::rows_together;
use super::column_reader::window_bytes;
use super::errors::damaged;
use super::memory_budget::Allowance;
use super::row_group::RowGroup;
use crate::columns_by_name::ColumnsByName;
use crate::format::guarded;
use crate::stream::SplitBatches;

/// The batches of a row group, projected to the columns of `wanted`; of these rows, if some are
/// selected.
pub fn read(
    mut group: RowGroup,
    wanted: &SchemaRef,
    rows: Option<RowSelection>,
) -> Result<SplitBatches> {
    let roots = ColumnsByName::new(&group.file).of_all(wanted)?;
    let left = rows.as_ref().map_or(group.group().num_rows() as usize, RowSelection::row_count);
    if left == 0 {
        return Ok(Box::new(std::iter::empty()));
    }
    if roots.is_empty() {
        return Ok(count_only(left, wanted.clone()));
    }
    let descr = group.metadata.file_metadata().schema_descr();
    let is_wanted = |leaf: &usize| roots.contains(&descr.get_column_root_idx(*leaf));
    let leaves: Vec<usize> = (0..descr.num_columns()).filter(is_wanted).collect();
    group.window_bytes = window_bytes(&group.blob, leaves.len(), &group.allowance);
    let step = rows_together(&group, &leaves)?;
    let mask = ProjectionMask::roots(descr, roots.iter().copied());
    let levels = parquet_to_arrow_field_levels(descr, mask, Some(group.file.fields()));
    let levels = levels.map_err(damaged)?;
    let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, step, rows);
    let reader = reader.map_err(damaged)?;
    let own = reader.schema();
    let order = ColumnsByName::new(&own).of_all(wanted)?;
    let (wanted, allowance) = (wanted.clone(), group.allowance);
    let decoded = ReorderedBatches { reader: Some(reader), order, wanted, left, allowance };
    Ok(Box::new(decoded.flat_map(|batch| match batch {
        Ok(batch) => Box::new(split_batch(batch).map(Ok)) as SplitBatches,
        Err(error) => Box::new(std::iter::once(Err(error))),
    })))
}

/// Batches that have rows but no columns.
fn count_only(rows: usize, schema: SchemaRef) -> SplitBatches {
    Box::new((0..rows).step_by(BATCH_ROWS_MAX).map(move |from| {
        let options = rows_only(BATCH_ROWS_MAX.min(rows - from));
        Ok(RecordBatch::try_new_with_options(schema.clone(), vec![], &options)?)
    }))
}

/// Decodes with the crate, and reorders columns to the projection's order.
struct ReorderedBatches {
    /// The crate's reader; `None` after an error.
    reader: Option<ParquetRecordBatchReader>,
    order: Vec<usize>,
    wanted: SchemaRef,
    /// Number of rows yet to be decoded.
    left: usize,
    allowance: Arc<Allowance>,
}

impl Iterator for ReorderedBatches {
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

impl ReorderedBatches {
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

/// The cause of an Arrow error, in which the crate wraps errors of its source.
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

fn rows_only(rows: usize) -> RecordBatchOptions {
    RecordBatchOptions::new().with_row_count(Some(rows))
}
