//! The bounds of columns in row groups, from the statistics of the footer.
//!
//! Statistics count as absent where their order is not that of the column's type: those without a
//! column order, and the deprecated minimum and maximum, compare text and unsigned numbers by their
//! signed bytes in some writers. A NaN among them counts as absent. As statistics leave out NaN,
//! every column of floating point numbers may have some.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, Schema};
use euphrates_policy::predicate::{Bounds, Facts, Predicate};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::format::guarded;
use crate::predicate::{ComparedColumn, ComparedValue, RowPredicate, may_pass, values_in};

/// For each row group, whether any of its rows may pass a filter with this predicate.
pub fn may_pass_each(
    metadata: &ParquetMetaData,
    schema: &Schema,
    predicate: &RowPredicate,
) -> Vec<bool> {
    let mut columns = vec![];
    collect(predicate, &mut columns);
    let bounds = |column| Some((column, bounds(metadata, schema, column)?));
    let known: Vec<_> = columns.into_iter().filter_map(bounds).collect();
    let facts = |group| RowGroupFacts { group, known: &known };
    (0..metadata.num_row_groups()).map(|group| may_pass(predicate, &facts(group))).collect()
}

struct RowGroupFacts<'a> {
    group: usize,
    /// The bounds of columns, by row group.
    known: &'a [(&'a ComparedColumn, Vec<Bounds<ComparedValue>>)],
}

impl Facts<ComparedColumn, ComparedValue> for RowGroupFacts<'_> {
    fn bounds(&self, column: &ComparedColumn) -> Option<&Bounds<ComparedValue>> {
        let known = self.known.iter().find(|(known, _)| *known == column);
        known.map(|(_, groups)| &groups[self.group])
    }
}

/// Adds the columns of a predicate, each once.
fn collect<'a>(predicate: &'a RowPredicate, columns: &mut Vec<&'a ComparedColumn>) {
    match predicate {
        Predicate::Compare(column, ..) | Predicate::IsNull(column) => {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Predicate::Not(inner) | Predicate::IsNotFalse(inner) => collect(inner, columns),
        Predicate::All(terms) | Predicate::Any(terms) => {
            terms.iter().for_each(|term| collect(term, columns));
        }
        Predicate::Unknown => {}
    }
}

/// The bounds of a column in each row group; `None` if it is nested, or its statistics are damaged.
fn bounds(
    metadata: &ParquetMetaData,
    schema: &Schema,
    column: &ComparedColumn,
) -> Option<Vec<Bounds<ComparedValue>>> {
    let statistics = guarded(|| Ok(FooterStatistics::read(metadata, schema, &column.name)));
    let FooterStatistics { least, greatest, nulls } = statistics.ok()?.ok()??;
    let (least, greatest) =
        (values_in(&least, &column.data_type), values_in(&greatest, &column.data_type));
    let groups = metadata.row_groups().iter().zip(least.into_iter().zip(greatest)).enumerate();
    let may_be_nan = schema.field_with_name(&column.name).ok()?.data_type();
    let may_be_nan = plain(may_be_nan).is_floating();
    let bounds = groups.map(|(at, (group, (least, greatest)))| {
        let rows = rows(group);
        let nulls = (!nulls.is_null(at)).then(|| nulls.value(at)).filter(|nulls| *nulls <= rows);
        Bounds { least, greatest, may_be_nan, nulls, rows }
    });
    Some(bounds.collect())
}

/// The statistics of a column in the column's type, by row group.
struct FooterStatistics {
    least: ArrayRef,
    greatest: ArrayRef,
    nulls: UInt64Array,
}

impl FooterStatistics {
    /// `None` for a nested column, and for one that the file lacks.
    fn read(
        metadata: &ParquetMetaData,
        schema: &Schema,
        name: &str,
    ) -> Result<Option<FooterStatistics>, ParquetError> {
        let file = metadata.file_metadata();
        let converter = StatisticsConverter::try_new(name, schema, file.schema_descr())?
            .with_missing_null_counts_as_zero(false);
        let Some(leaf) = converter.parquet_column_index() else { return Ok(None) };
        let groups = || metadata.row_groups().iter();
        let nulls = converter.row_group_null_counts(groups())?;
        let is_ordered = is_ordered(metadata, leaf);
        let none = |field: &DataType| arrow::array::new_null_array(field, groups().len());
        if !is_ordered {
            let none = none(converter.arrow_field().data_type());
            return Ok(Some(FooterStatistics { least: none.clone(), greatest: none, nulls }));
        }
        let least = converter.row_group_mins(groups())?;
        let greatest = converter.row_group_maxes(groups())?;
        Ok(Some(FooterStatistics { least, greatest, nulls }))
    }
}

/// Whether minimum and maximum are in the order of the column's type, in all row groups.
fn is_ordered(metadata: &ParquetMetaData, leaf: usize) -> bool {
    let file = metadata.file_metadata();
    let own = file.schema_descr().column(leaf).sort_order();
    let is_defined = file
        .column_orders()
        .is_some_and(|orders| orders.get(leaf) == Some(&ColumnOrder::TYPE_DEFINED_ORDER(own)));
    let is_deprecated = |group: &RowGroupMetaData| {
        let known = group.column(leaf).statistics();
        // FooterStatistics without bounds count as deprecated as well.
        known.is_some_and(|known| {
            let bounds = known.min_bytes_opt().or(known.max_bytes_opt());
            known.is_min_max_deprecated() && bounds.is_some()
        })
    };
    is_defined && own != SortOrder::UNDEFINED && !metadata.row_groups().iter().any(is_deprecated)
}

fn rows(group: &RowGroupMetaData) -> u64 {
    group.num_rows().max(0) as u64
}

/// The value type of dictionaries.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        other => other,
    }
}
