//! Bins of values: their boundaries, and how many values each has. `histogram(x, bins)` of a query
//! is `_histogram_bins(histogram(_bin_of(x, bins)), bins)`, and `approx_top_k(x, n)` is
//! `_top_keys(histogram(x), n)`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt32Array, make_comparator};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, cast, concat, interleave, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion_common::{ScalarValue, plan_err};

use super::super::row_functions::ArgumentKind::{Any, Integer, List};
use super::super::row_functions::{Computed, ResultKind, RowFunction, each, wrong};
use super::maps::{map_type, of_entries};

pub(crate) const FUNCTIONS: [RowFunction; 4] = [
    RowFunction {
        names: &["_bin_of"],
        takes: &[Any, List],
        optional: 0,
        returns: ResultKind::Same,
        compute: |args| binned(args, false),
    },
    RowFunction {
        names: &["_exact_bin_of"],
        takes: &[Any, List],
        optional: 0,
        returns: ResultKind::Same,
        compute: |args| binned(args, true),
    },
    RowFunction {
        names: &["_histogram_bins"],
        takes: &[Any, List],
        optional: 0,
        returns: ResultKind::Made(|types| match &types[0] {
            DataType::Map(..) => Ok(types[0].clone()),
            other => plan_err!("a map is needed, not {other}"),
        }),
        compute: with_all_bins,
    },
    RowFunction {
        names: &["_top_keys"],
        takes: &[Any, Integer],
        optional: 0,
        returns: ResultKind::Made(|types| Ok(list_of(&key_type(&types[0])?))),
        compute: top_keys,
    },
];

pub(super) fn list_of(item: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item.clone(), true)))
}

fn key_type(map: &DataType) -> Computed<DataType> {
    if let DataType::Map(entries, _) = map
        && let DataType::Struct(fields) = entries.data_type()
    {
        return Ok(fields[0].data_type().clone());
    }
    plan_err!("a map is needed, not {map}")
}

/// The boundaries of each row, in the type of the values.
struct Boundaries {
    lists: ListArray,
    items: ArrayRef,
}

impl Boundaries {
    fn new(bins: &ArrayRef, of: &DataType) -> Computed<Boundaries> {
        let lists = bins.as_list::<i32>().clone();
        let items = cast(lists.values(), of)?;
        Ok(Boundaries { lists, items })
    }

    /// The places of a row's boundaries, sorted, each value once.
    fn sorted(&self, row: usize) -> Computed<Vec<usize>> {
        let offsets = self.lists.value_offsets();
        let mut places: Vec<usize> = (offsets[row] as usize..offsets[row + 1] as usize).collect();
        if self.lists.is_null(row) || places.iter().any(|place| self.items.is_null(*place)) {
            return wrong("a boundary of a bin is null".into());
        }
        let compare = make_comparator(&self.items, &self.items, SortOptions::default())?;
        places.sort_by(|one, other| compare(*one, *other));
        places.dedup_by(|one, other| compare(*one, *other).is_eq());
        Ok(places)
    }

    /// Whether a row's boundaries are those of the row before it.
    fn are_as_before(&self, row: usize) -> bool {
        row > 0 && {
            let (offsets, items) = (self.lists.value_offsets(), &self.items);
            let length = |row: usize| (offsets[row + 1] - offsets[row]) as usize;
            let part = |row: usize| items.slice(offsets[row] as usize, length(row));
            let is_valid = self.lists.is_valid(row) && self.lists.is_valid(row - 1);
            is_valid
                && length(row) == length(row - 1)
                && part(row).as_ref() == part(row - 1).as_ref()
        }
    }
}

/// The least boundary that is not below each value, or the one that it equals; else the greatest
/// value of the type, which stands for all others.
fn binned(args: &[ArrayRef], is_exact: bool) -> Computed<ArrayRef> {
    let values = &args[0];
    let bins = Boundaries::new(&args[1], values.data_type())?;
    let others = beyond(values.data_type())?;
    let compare = make_comparator(&bins.items, values, SortOptions::default())?;
    let mut sorted = vec![];
    let mut places = vec![];
    for row in 0..values.len() {
        if values.is_null(row) {
            places.push((2, 0));
            continue;
        }
        if sorted.is_empty() || !bins.are_as_before(row) {
            sorted = bins.sorted(row)?;
        }
        let at = sorted.partition_point(|place| compare(*place, row) == Ordering::Less);
        let found = sorted.get(at).filter(|place| !is_exact || compare(**place, row).is_eq());
        places.push(found.map_or((1, 0), |place| (0, *place)));
    }
    let null = arrow::array::new_null_array(values.data_type(), 1);
    Ok(interleave(&[bins.items.as_ref(), others.as_ref(), null.as_ref()], &places)?)
}

/// The greatest value of a type, as an array of one.
fn beyond(of: &DataType) -> Computed<ArrayRef> {
    use DataType::*;
    let greatest = match of {
        Int8 => ScalarValue::from(i8::MAX),
        Int16 => ScalarValue::from(i16::MAX),
        Int32 => ScalarValue::from(i32::MAX),
        Int64 => ScalarValue::from(i64::MAX),
        UInt8 => ScalarValue::from(u8::MAX),
        UInt16 => ScalarValue::from(u16::MAX),
        UInt32 => ScalarValue::from(u32::MAX),
        UInt64 => ScalarValue::from(u64::MAX),
        Float32 => ScalarValue::from(f32::INFINITY),
        Float64 => ScalarValue::from(f64::INFINITY),
        Decimal128(digits, scale) => {
            ScalarValue::Decimal128(Some(10_i128.pow((*digits).into()) - 1), *digits, *scale)
        }
        Boolean => ScalarValue::from(true),
        Date32 | Date64 | Timestamp(..) => ScalarValue::from("9999-12-31").cast_to(of)?,
        _ => ScalarValue::from("").cast_to(of)?,
    };
    greatest.to_array()
}

/// A histogram with an entry for each bin, in their order, those of 0 values too; then that of the
/// values beyond them, if there are any.
fn with_all_bins(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let maps = args[0].as_map();
    let bins = Boundaries::new(&args[1], maps.keys().data_type())?;
    let keys = concat(&[maps.keys().as_ref(), bins.items.as_ref()])?;
    let none = Int64Array::from(vec![0; bins.items.len()]);
    let values = concat(&[cast(maps.values(), &DataType::Int64)?.as_ref(), &none])?;
    let compare = make_comparator(&keys, &keys, SortOptions::default())?;
    let behind = maps.keys().len();
    let offsets = maps.value_offsets();
    let rows = (0..maps.len()).map(|row| {
        if maps.is_null(row) {
            return Ok(None);
        }
        let mut left: Vec<usize> = (offsets[row] as usize..offsets[row + 1] as usize).collect();
        let mut found = vec![];
        for place in bins.sorted(row)? {
            let known = left.iter().position(|entry| compare(*entry, behind + place).is_eq());
            found.push(known.map_or(behind + place, |known| left.swap_remove(known)));
        }
        found.extend(left);
        Ok(Some(found))
    });
    of_entries(&keys, &values, &rows.collect::<Computed<Vec<_>>>()?)
}

/// The keys of the greatest counts of a histogram, of equal counts the lesser key first.
fn top_keys(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let maps = args[0].as_map();
    let counts = cast(maps.values(), &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let offsets = maps.value_offsets();
    let found = each(args, |row| {
        let count = args[1].as_primitive::<Int64Type>().value(row);
        if count <= 0 {
            return wrong(format!("approx_top_k of {count} values"));
        }
        let mut places: Vec<u32> = (offsets[row] as u32..offsets[row + 1] as u32).collect();
        // The sort is stable, and the keys of a histogram are sorted.
        places.sort_by_key(|place| std::cmp::Reverse(counts.value(*place as usize)));
        places.truncate(count as usize);
        Ok(Some(places))
    })?;
    let places = UInt32Array::from_iter_values(found.iter().flatten().flatten().copied());
    let items = take(maps.keys(), &places, None)?;
    listed(items, &found)
}

/// Lists of some items each, one behind the other.
pub(super) fn listed<T>(items: ArrayRef, of: &[Option<Vec<T>>]) -> Computed<ArrayRef> {
    let lengths = of.iter().map(|list| list.as_ref().map_or(0, Vec::len));
    let nulls: NullBuffer = of.iter().map(Option::is_some).collect();
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, items, Some(nulls))?))
}

/// The type of histograms of values.
pub(crate) fn histogram_type(of: &DataType) -> DataType {
    map_type(of, &DataType::Int64)
}
