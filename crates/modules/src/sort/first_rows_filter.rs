//! The rows that come first so far, as a filter for the source of a `sort` before a `limit`: from
//! then on, a source decodes other columns only of rows that come before the last of them (dynamic
//! filters of a top *n*).

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Scalar, new_null_array};
use arrow::compute::kernels::cmp::{gt, gt_eq, lt, lt_eq};
use arrow::compute::{cast, concat, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_flow::module::{KeyFilter, KeyFilterSlot};
use parking_lot::Mutex;

use super::keys::key_encoder::KeyEncoder;
use super::keys::key_layout::KeyColumn;
use super::keys::owned_keys::OwnedKey;
use crate::canonical_floats::canonical_floats;

/// The key of the last row to keep, of all instances in this process.
pub(crate) struct FirstRowsFilter {
    /// The key columns alone.
    schema: SchemaRef,
    keys: Vec<KeyColumn>,
    last: Mutex<Option<LastRow>>,
}

/// The key of a row, and what encodes others to compare them.
#[derive(Clone)]
struct LastRow {
    key: OwnedKey,
    encoder: Arc<KeyEncoder>,
    /// Its value of the first key column.
    first: ArrayRef,
}

impl FirstRowsFilter {
    /// A filter that has all rows, of a sort by these columns of its input. It is left for the
    /// source, unless the slot has other columns. `None` if nulls may come first: a row that the
    /// source leaves out may turn into one with nulls in an outer join.
    pub(crate) fn publish(
        slot: &KeyFilterSlot,
        input: &SchemaRef,
        by: &[KeyColumn],
    ) -> Option<Arc<FirstRowsFilter>> {
        let fields: Vec<FieldRef> =
            by.iter().map(|key| input.fields()[key.column].clone()).collect();
        let has_columns = fields.iter().map(|field| field.name()).eq(slot.columns());
        (has_columns && by.iter().all(|key| !key.nulls_first)).then_some(())?;
        let nullable = |field: FieldRef| field.as_ref().clone().with_nullable(true);
        let of_key = |(column, key): (usize, &KeyColumn)| KeyColumn { column, ..*key };
        let filter = Arc::new(FirstRowsFilter {
            schema: Arc::new(Schema::new(fields.into_iter().map(nullable).collect::<Vec<_>>())),
            keys: by.iter().enumerate().map(of_key).collect(),
            last: Mutex::default(),
        });
        slot.publish(Some(filter.clone()));
        Some(filter)
    }

    /// Leaves out rows from now on that do not come before this key, encoded by an encoder of the
    /// same keys in other columns; `first` is the row's value of the first of them.
    pub(super) fn tighten(
        &self,
        key: &OwnedKey,
        first: ArrayRef,
        encoder: &KeyEncoder,
    ) -> Result<()> {
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(|last| *key < last.key) {
            let encoder = match &*last {
                Some(last) => last.encoder.clone(),
                None => Arc::new(encoder.with_columns(&self.schema, self.keys.clone())?),
            };
            *last = Some(LastRow { key: key.clone(), encoder, first });
        }
        Ok(())
    }
}

impl KeyFilter for FirstRowsFilter {
    fn matches(&self, keys: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = keys.first().map_or(0, |column| column.len());
        let Some(LastRow { key: last, encoder, .. }) = self.last.lock().clone() else {
            return Ok(BooleanArray::from(vec![true; rows]));
        };
        let column = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() {
            same if same == field.data_type() => Ok(column.clone()),
            _ => cast(column, field.data_type()),
        };
        let columns = keys.iter().zip(self.schema.fields()).map(column);
        let batch = RecordBatch::try_new(
            self.schema.clone(),
            columns.collect::<std::result::Result<_, _>>()?,
        )?;
        let encoded = encoder.encode(&batch, 0)?;
        let row = |_| encoded.rows.as_ref();
        let is_before = |key: &u128| encoder.compare_owned(*key, &last, row) == Ordering::Less;
        Ok(encoded.packed.iter().map(|key| Some(is_before(key))).collect())
    }

    fn ranges(&self) -> Vec<Option<ArrayRef>> {
        let mut ranges = vec![None; self.keys.len()];
        if let Some(LastRow { first, .. }) = &*self.last.lock() {
            let none = new_null_array(first.data_type(), 1);
            let (least, greatest) = match self.keys[0].descending {
                true => (first, &none),
                false => (&none, first),
            };
            ranges[0] = concat(&[least.as_ref(), greatest.as_ref()]).ok();
        }
        ranges
    }

    fn may_match_first(&self, first: &ArrayRef) -> Result<Option<BooleanArray>> {
        let Some(LastRow { first: last, .. }) = self.last.lock().clone() else { return Ok(None) };
        may_come_before(first, &last, &self.keys[0], self.keys.len() == 1)
    }

    fn excludes_bounds(&self) -> bool {
        self.keys.len() == 1
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn tightens(&self) -> bool {
        true
    }
}

/// Whether rows with these values of the first key may come before a row with the value `last` of
/// it, without nulls; `None` if it cannot be told by the first key alone, or nulls come first. Rows
/// with the same value may, unless it `is_only` key.
pub(super) fn may_come_before(
    first: &ArrayRef,
    last: &ArrayRef,
    key: &KeyColumn,
    is_only: bool,
) -> Result<Option<BooleanArray>> {
    // Intervals of equal length may differ in months and days.
    let has_own_order =
        last.data_type().is_nested() || matches!(last.data_type(), DataType::Interval(_));
    if key.nulls_first || last.is_null(0) || has_own_order {
        return Ok(None);
    }
    let first = match first.data_type() {
        same if same == last.data_type() => first.clone(),
        DataType::Dictionary(_, values) if **values == *last.data_type() => first.clone(),
        _ => cast(first, last.data_type())?,
    };
    let (first, last) = (canonical_floats(&first), Scalar::new(canonical_floats(last)));
    let may_come = match (key.descending, is_only) {
        (true, true) => gt(&first, &last)?,
        (true, false) => gt_eq(&first, &last)?,
        (false, true) => lt(&first, &last)?,
        (false, false) => lt_eq(&first, &last)?,
    };
    Ok(Some(match may_come.null_count() {
        0 => may_come,
        _ => prep_null_mask_filter(&may_come),
    }))
}

/// The values of codes.
pub(super) fn without_codes(column: ArrayRef) -> Result<ArrayRef> {
    match column.as_any_dictionary_opt() {
        Some(coded) => Ok(take(coded.values(), coded.keys(), None)?),
        None => Ok(column),
    }
}
