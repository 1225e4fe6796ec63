//! The bounds of columns in row groups, from the statistics of the footer.
//!
//! Statistics count as absent where their order is not that of the column's type: those without a
//! column order, and the deprecated minimum and maximum, compare text and unsigned numbers by their
//! signed bytes in some writers. A NaN among them counts as absent. As statistics leave out NaN,
//! every column of floating point numbers may have some.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, Schema};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::footer::ColumnTypes;
use super::footer::uuid_texts::with_texts;
use crate::format::guarded;
use crate::predicate::{self, RowPredicate, StoredBounds};

/// For each of these row groups, whether any of its rows may pass a filter with this predicate.
pub fn may_pass_each(
    metadata: &ParquetMetaData,
    groups: Range<usize>,
    types: &ColumnTypes,
    predicate: &RowPredicate,
) -> Vec<bool> {
    let rows: Vec<u64> = metadata.row_groups()[groups.clone()].iter().map(rows).collect();
    let bounds = |name: &str| bounds(metadata, groups.clone(), types, name);
    predicate::may_pass_each(predicate, &rows, bounds)
}

/// The bounds of a column in each row group; `None` if it is nested, or its statistics are damaged.
pub fn bounds(
    metadata: &ParquetMetaData,
    groups: Range<usize>,
    types: &ColumnTypes,
    name: &str,
) -> Option<StoredBounds> {
    let statistics = guarded(|| Ok(FooterStatistics::read(metadata, groups, &types.decoded, name)));
    let FooterStatistics { least, greatest, nulls } = statistics.ok()?.ok()??;
    // The text of UUIDs has the order of their bytes.
    let shown = types.shown.field_with_name(name).ok()?.data_type();
    let (least, greatest) = match types.is_same(name) {
        true => (least, greatest),
        false => (with_texts(&least, shown).ok()?, with_texts(&greatest, shown).ok()?),
    };
    let may_be_nan = may_be_nan(&types.decoded, name);
    Some(StoredBounds { least, greatest, nulls, may_be_nan })
}

/// Whether a column may have NaN, which bounds leave out.
pub fn may_be_nan(schema: &Schema, name: &str) -> bool {
    let field = schema.field_with_name(name);
    field.is_ok_and(|field| plain(field.data_type()).is_floating())
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
        groups: Range<usize>,
        schema: &Schema,
        name: &str,
    ) -> Result<Option<FooterStatistics>, ParquetError> {
        let file = metadata.file_metadata();
        let converter = StatisticsConverter::try_new(name, schema, file.schema_descr())?
            .with_missing_null_counts_as_zero(false);
        let Some(leaf) = converter.parquet_column_index() else { return Ok(None) };
        let groups = || metadata.row_groups()[groups.clone()].iter();
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
pub fn is_ordered(metadata: &ParquetMetaData, leaf: usize) -> bool {
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
