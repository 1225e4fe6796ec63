//! Lists of some items of a list.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;

use super::super::row_functions::ArgumentKind::List;
use super::super::row_functions::{Computed, ResultKind, RowFunction, each, wrong};
use super::keys;

pub(crate) const FUNCTIONS: [RowFunction; 3] = [
    RowFunction {
        names: &["list_where", "array_where"],
        takes: &[List, List],
        optional: 0,
        returns: ResultKind::Same,
        compute: chosen,
    },
    RowFunction {
        names: &["_least_item"],
        takes: &[List],
        optional: 0,
        returns: ResultKind::Item,
        compute: |args| extreme(args, Ordering::is_lt),
    },
    RowFunction {
        names: &["_greatest_item"],
        takes: &[List],
        optional: 0,
        returns: ResultKind::Item,
        compute: |args| extreme(args, Ordering::is_gt),
    },
];

/// The item of each list that compares so with all others, of items that are nested. Nulls do not
/// count; a null within an item is greater than a value.
fn extreme(args: &[ArrayRef], is_before: fn(Ordering) -> bool) -> Computed<ArrayRef> {
    let lists = args[0].as_list::<i32>();
    let items = lists.values();
    let keys = keys::bytes_of(items)?;
    let nulls = items.logical_nulls();
    let is_known = |at: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
    let found = each(args, |row| {
        let (from, to) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
        let known = (from as usize..to as usize).filter(is_known);
        let best = known.reduce(|best, at| match is_before(keys.row(at).cmp(&keys.row(best))) {
            true => at,
            false => best,
        });
        Ok(best.map(|at| at as i64))
    })?;
    Ok(take(items, &Int64Array::from(found), None)?)
}

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
