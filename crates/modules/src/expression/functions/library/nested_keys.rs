//! `nested_key(x)`: bytes that compare as lists and structs do, so that rows can be grouped and
//! ordered by them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::compute::SortOptions;
use arrow::row::{RowConverter, SortField};

use super::row_functions::ArgumentKind::Any;
use super::row_functions::{ResultKind, RowFunction, each};
use crate::canonical_floats::canonical_floats;

/// As `order by` sorts: a null within a list is greater than a value.
const NULLS_LAST: SortOptions = SortOptions { descending: false, nulls_first: false };

pub(super) static FUNCTIONS: [RowFunction; 1] = [RowFunction {
    names: &["nested_key"],
    takes: &[Any],
    optional: 0,
    returns: ResultKind::Bytes,
    compute: |args| {
        let values = canonical_floats(&args[0]);
        let of = values.data_type().clone();
        let converter = RowConverter::new(vec![SortField::new_with_options(of, NULLS_LAST)])?;
        let rows = converter.convert_columns(&[values])?;
        let found = each(args, |row| Ok(Some(rows.row(row).data().to_vec())))?;
        let found: ArrayRef = Arc::new(found.into_iter().collect::<BinaryArray>());
        Ok(found)
    },
}];
