//! Decodes a row group into record batches.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Fields, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::{BATCH_ROWS_MAX, Error, Result, split_batch};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;

pub(super) mod coded_columns;
mod flat_column;
mod flat_layout;
mod flat_values;
mod hybrid_decoder;
pub(super) mod matching_rows;
mod page_bounds;
mod page_dictionary;
mod page_values;
mod stride_tests;
mod strings;

use self::flat_column::FlatColumn;
use self::page_values::Selection;
use super::batch_rows::{longest_string, rows_of_longest, rows_together};
use super::column_reader::{PAGE_BY_PAGE, window_bytes};
use super::errors::damaged;
use super::memory_budget::Allowance;
use super::row_group::RowGroup;
use crate::columns_by_name::ColumnsByName;
use crate::format::guarded;
use crate::stream::SplitBatches;

/// The batches of a row group, projected to the columns of `wanted`; of these rows among those that
/// are read, if some are selected.
pub fn read(
    mut group: RowGroup,
    wanted: &SchemaRef,
    rows: Option<RowSelection>,
) -> Result<SplitBatches> {
    let left = rows.as_ref().map_or(group.rows().len(), RowSelection::row_count);
    if left == 0 {
        return Ok(Box::new(std::iter::empty()));
    }
    if wanted.fields().is_empty() {
        return Ok(count_only(left, wanted.clone()));
    }
    let leaves = Leaves::of(&group, wanted)?;
    group.window_bytes = match group.rows().start {
        0 => window_bytes(&group.blob, leaves.all.len(), &group.allowance),
        _ => PAGE_BY_PAGE,
    };
    let mut step = rows_together(&group, &leaves.all)?;
    let (mut sources, mut others) = (vec![], vec![]);
    for root in &leaves.roots {
        // The crate alone leaves out ranges of rows of nested columns, in step with flat ones.
        let flat = if rows.is_none() { leaves.flat_column(&group, *root)? } else { None };
        sources.push(match flat {
            Some(mut column) => {
                step = rows_of_longest(step, column.longest_string()?);
                column.pass_over(group.rows().start);
                ColumnSource::Flat(Box::new(column))
            }
            None => {
                others.push(*root);
                for leaf in leaves.of_root(*root) {
                    step = rows_of_longest(step, longest_string(&group, leaf, step)?);
                }
                ColumnSource::Crate(group.file.field(*root).name().clone())
            }
        });
    }
    let reader = match others.is_empty() {
        true => None,
        false => Some(crate_reader(&group, &others, step, selection(&group, rows))?),
    };
    let has_end = !group.has_rows_behind();
    let (wanted, allowance) = (wanted.clone(), group.allowance);
    let mut decoded = RowGroupBatches { sources, reader, wanted, step, left, has_end, allowance };
    Ok(batches_until_end(move || decoded.decode()))
}

/// The selection of all rows of the row group, given that of the rows that are read.
fn selection(group: &RowGroup, rows: Option<RowSelection>) -> Option<RowSelection> {
    if group.is_whole() {
        return rows;
    }
    let Range { start, end } = group.rows();
    let read = RowSelection::from(vec![RowSelector::skip(start), RowSelector::select(end - start)]);
    Some(rows.map_or(read.clone(), |rows| read.and_then(&rows)))
}

/// The batches that a decoder of untrusted bytes returns until it returns `None` or fails, none of
/// them too large.
fn batches_until_end(
    mut decode: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
) -> SplitBatches {
    let mut is_over = false;
    let batches = std::iter::from_fn(move || {
        let batch = if is_over { Ok(None) } else { guarded(&mut decode) };
        is_over = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    });
    Box::new(batches.flat_map(|batch| match batch {
        Ok(batch) => Box::new(split_batch(batch).map(Ok)) as SplitBatches,
        Err(error) => Box::new(std::iter::once(Err(error))),
    }))
}

/// The columns of a row group that are read.
struct Leaves {
    /// For each column that is wanted, its position in the file's schema.
    roots: Vec<usize>,
    /// The leaf columns below them, ascending.
    all: Vec<usize>,
    /// The root of each leaf column in the file.
    root_of: Vec<usize>,
}

impl Leaves {
    fn of(group: &RowGroup, wanted: &SchemaRef) -> Result<Leaves> {
        let roots = ColumnsByName::new(&group.file).of_all(wanted)?;
        let descr = group.metadata.file_metadata().schema_descr();
        let root_of: Vec<usize> =
            (0..descr.num_columns()).map(|leaf| descr.get_column_root_idx(leaf)).collect();
        let all = (0..root_of.len()).filter(|leaf| roots.contains(&root_of[*leaf])).collect();
        Ok(Leaves { roots, all, root_of })
    }

    /// The leaves of a column.
    fn of_root(&self, root: usize) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().copied().filter(move |leaf| self.root_of[*leaf] == root)
    }

    /// A cursor over a column that is decoded here; `None` if the crate decodes it.
    fn flat_column(&self, group: &RowGroup, root: usize) -> Result<Option<FlatColumn>> {
        let leaf = self.of_root(root).next();
        let leaf = leaf.ok_or_else(|| Error::corrupt("a column without leaves"))?;
        FlatColumn::open(group, leaf, group.file.field(root).data_type())
    }
}

/// The crate's reader of some columns, in their order in the file.
fn crate_reader(
    group: &RowGroup,
    roots: &[usize],
    step: usize,
    rows: Option<RowSelection>,
) -> Result<ParquetRecordBatchReader> {
    let descr = group.metadata.file_metadata().schema_descr();
    let mask = ProjectionMask::roots(descr, roots.iter().copied());
    let types: Fields = group.file.fields().iter().map(without_codes).collect();
    let levels = parquet_to_arrow_field_levels(descr, mask, Some(&types));
    let levels = levels.map_err(damaged)?;
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, group, step, rows).map_err(damaged)
}

/// The field without a dictionary, which the crate makes of strings of any length alone.
fn without_codes(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Dictionary(_, values) if !is_variable(values) => {
            Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone()))
        }
        _ => field.clone(),
    }
}

fn is_variable(data_type: &DataType) -> bool {
    data_type.is_string() || matches!(data_type, DataType::Binary | DataType::LargeBinary)
}

/// Batches that have rows but no columns.
fn count_only(rows: usize, schema: SchemaRef) -> SplitBatches {
    Box::new((0..rows).step_by(BATCH_ROWS_MAX).map(move |from| {
        let options = rows_only(BATCH_ROWS_MAX.min(rows - from));
        Ok(RecordBatch::try_new_with_options(schema.clone(), vec![], &options)?)
    }))
}

/// Where a column comes from.
enum ColumnSource {
    Flat(Box<FlatColumn>),
    /// The column of this name in the batches of the crate.
    Crate(String),
}

/// Decodes the columns of a row group in step.
struct RowGroupBatches {
    /// One for each column of `wanted`.
    sources: Vec<ColumnSource>,
    /// The crate's reader of the columns that it decodes; `None` if there are none.
    reader: Option<ParquetRecordBatchReader>,
    wanted: SchemaRef,
    /// Number of rows of a batch.
    step: usize,
    /// Number of rows yet to be decoded.
    left: usize,
    /// Whether the columns end behind these rows.
    has_end: bool,
    allowance: Arc<Allowance>,
}

impl RowGroupBatches {
    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        let by_crate = match &mut self.reader {
            Some(reader) => {
                let own = |error| self.allowance.fault().unwrap_or_else(|| cause(error));
                reader.next().transpose().map_err(own)?
            }
            None => None,
        };
        let expected = self.step.min(self.left);
        let rows = match (&by_crate, &self.reader) {
            (Some(batch), _) => batch.num_rows(),
            (None, Some(_)) => 0,
            (None, None) => expected,
        };
        if rows > self.left {
            return Err(Error::corrupt("a row group has too many rows"));
        }
        if rows == 0 {
            return self.end().map(|()| None);
        }
        self.left -= rows;
        let fields = self.wanted.fields().iter();
        let columns = self.sources.iter_mut().zip(fields).map(|(source, field)| match source {
            ColumnSource::Flat(column) => {
                column.append(Selection::All(rows))?;
                column.finish()
            }
            ColumnSource::Crate(name) => {
                let column = by_crate.as_ref().and_then(|batch| batch.column_by_name(name));
                let column = column.ok_or_else(|| Error::corrupt("a column is missing"))?;
                match field.data_type() {
                    DataType::Dictionary(..) => Ok(cast(column, field.data_type())?),
                    _ => Ok(column.clone()),
                }
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch =
            RecordBatch::try_new_with_options(self.wanted.clone(), columns, &rows_only(rows));
        batch.map(Some).map_err(Error::corrupt)
    }

    /// A corruption error if the columns have fewer or more rows than the row group.
    fn end(&mut self) -> Result<()> {
        if self.left > 0 {
            return Err(Error::corrupt(format!("{} rows of a row group are missing", self.left)));
        }
        self.sources.iter_mut().try_for_each(|source| match source {
            ColumnSource::Flat(column) if self.has_end => column.check_end(),
            _ => Ok(()),
        })
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
