//! Lists of some items of a list.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;

use super::super::row_functions::ArgumentKind::List;
use super::super::row_functions::{Computed, ResultKind, RowFunction, each, wrong};

pub(crate) const FUNCTIONS: [RowFunction; 1] = [RowFunction {
    names: &["list_where", "array_where"],
    takes: &[List, List],
    optional: 0,
    returns: ResultKind::Same,
    compute: chosen,
}];

/// The items for which the second list is true; null for those that the first one does not have.
fn chosen(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let (lists, masks) = (args[0].as_list::<i32>(), args[1].as_list::<i32>());
    let truths = cast(masks.values(), &DataType::Boolean)?;
    let truths = truths.as_boolean();
    let mut places: Vec<Option<i64>> = vec![];
    let found = each(args, |row| {
        let (from, to) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
        let (first, last) = (masks.value_offsets()[row], masks.value_offsets()[row + 1]);
        let before = places.len();
        for (at, mask) in (first..last).map(|mask| mask as usize).enumerate() {
            if truths.is_null(mask) {
                return wrong("the second list of list_where has a null".into());
            }
            if truths.value(mask) {
                let place = i64::from(from) + at as i64;
                places.push((place < i64::from(to)).then_some(place));
            }
        }
        Ok(Some(places.len() - before))
    })?;
    let items = take(lists.values(), &Int64Array::from(places), None)?;
    let lengths = found.iter().map(|length| length.unwrap_or(0));
    let nulls = found.iter().map(Option::is_some).collect();
    let DataType::List(field) = lists.data_type() else { return Ok(args[0].clone()) };
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field.clone(), offsets, items, Some(nulls))?))
}
