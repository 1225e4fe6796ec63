//! Maps of the entries of others, and of lists of entries.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, MapArray, StructArray, make_comparator};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, cast, concat, take};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion_common::plan_err;

use super::super::row_functions::ArgumentKind::{Any, List};
use super::super::row_functions::{Computed, ResultKind, RowFunction, wrong};

pub(crate) const FUNCTIONS: [RowFunction; 2] = [
    RowFunction {
        names: &["map_concat"],
        takes: &[Any; 8],
        optional: 6,
        returns: ResultKind::Made(|types| {
            match types.iter().find(|of| matches!(of, DataType::Map(..))) {
                Some(map) if types.iter().all(|of| of == map || is_cast(of, map)) => {
                    let (key, value) = key_and_value(map)?;
                    Ok(map_type(&key, &value))
                }
                Some(_) => plan_err!("map_concat: the maps have other types"),
                None => plan_err!("map_concat: no argument is a map"),
            }
        }),
        compute: concatenated,
    },
    RowFunction {
        names: &["map_from_entries"],
        takes: &[List],
        optional: 0,
        returns: ResultKind::Made(|types| match &types[0] {
            DataType::List(item) => match item.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    Ok(map_type(fields[0].data_type(), fields[1].data_type()))
                }
                _ => plan_err!("map_from_entries: the items are no pairs"),
            },
            _ => plan_err!("map_from_entries: no list of pairs"),
        }),
        compute: |args| {
            let lists = args[0].as_list::<i32>();
            let pairs = lists.values().as_struct();
            let rows = (0..lists.len()).map(|row| match lists.is_valid(row) {
                true => {
                    let offsets = lists.value_offsets();
                    Some((offsets[row] as usize..offsets[row + 1] as usize).collect())
                }
                false => None,
            });
            of_entries(pairs.column(0), pairs.column(1), &rows.collect::<Vec<_>>())
        },
    },
];

/// The type of maps with these keys and values.
pub(super) fn map_type(key: &DataType, value: &DataType) -> DataType {
    let entries = Field::new("entries", DataType::Struct(entry(key, value)), false);
    DataType::Map(Arc::new(entries), false)
}

fn entry(key: &DataType, value: &DataType) -> Fields {
    let key = Field::new("key", key.clone(), false);
    vec![key, Field::new("value", value.clone(), true)].into()
}

/// Whether an argument becomes a map of this type: null, an empty map, or one of other numbers.
fn is_cast(of: &DataType, map: &DataType) -> bool {
    let (Ok(from), Ok(to)) = (key_and_value(of), key_and_value(map)) else {
        return of.is_null();
    };
    let fits = |(from, to): (&DataType, &DataType)| {
        from == to || from.is_null() || from.is_numeric() && to.is_numeric()
    };
    fits((&from.0, &to.0)) && fits((&from.1, &to.1))
}

fn key_and_value(map: &DataType) -> Computed<(DataType, DataType)> {
    if let DataType::Map(entries, _) = map
        && let DataType::Struct(fields) = entries.data_type()
        && let [key, value] = &fields[..]
    {
        return Ok((key.data_type().clone(), value.data_type().clone()));
    }
    plan_err!("a map is needed, not {map}")
}

/// The map of the entries of some rows of two columns; null for rows without such a list. A key
/// that comes twice in a map is an error.
pub(super) fn of_entries(
    keys: &ArrayRef,
    values: &ArrayRef,
    rows: &[Option<Vec<usize>>],
) -> Computed<ArrayRef> {
    let places = rows.iter().flatten().flatten().map(|place| *place as i64);
    let places = Int64Array::from_iter_values(places);
    let (keys, values) = (take(keys, &places, None)?, take(values, &places, None)?);
    if keys.logical_null_count() > 0 {
        return wrong("a key of a map is null".into());
    }
    let compare = make_comparator(&keys, &keys, SortOptions::default())?;
    let mut start = 0;
    for row in rows.iter().flatten() {
        let mut sorted: Vec<usize> = (start..start + row.len()).collect();
        sorted.sort_by(|one, other| compare(*one, *other));
        if sorted.windows(2).any(|pair| compare(pair[0], pair[1]).is_eq()) {
            return wrong("a key comes twice in a map".into());
        }
        start += row.len();
    }
    let fields = entry(keys.data_type(), values.data_type());
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let offsets = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len));
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let offsets = OffsetBuffer::from_lengths(offsets);
    Ok(Arc::new(MapArray::try_new(field, offsets, entries, Some(nulls), false)?))
}

/// The entries of all maps of a row; a later value of a key takes the place of an earlier one.
fn concatenated(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let maps: Vec<&ArrayRef> = args.iter().filter(|arg| !arg.data_type().is_null()).collect();
    let known = maps.iter().find(|map| match key_and_value(map.data_type()) {
        Ok((key, _)) => !key.is_null(),
        Err(_) => false,
    });
    let Some(first) = known.or(maps.first()) else { return wrong("no argument is a map".into()) };
    let (key, value) = key_and_value(first.data_type())?;
    let cast_to = |column: &ArrayRef, to: &DataType| cast(column, to);
    let columns = maps.iter().map(|map| {
        let map = map.as_map();
        Ok((cast_to(map.keys(), &key)?, cast_to(map.values(), &value)?))
    });
    let columns = columns.collect::<Computed<Vec<_>>>()?;
    let keys: Vec<&dyn Array> = columns.iter().map(|(keys, _)| keys.as_ref()).collect();
    let values: Vec<&dyn Array> = columns.iter().map(|(_, values)| values.as_ref()).collect();
    let (keys, values) = (concat(&keys)?, concat(&values)?);
    let compare = make_comparator(&keys, &keys, SortOptions::default())?;
    let rows = (0..args[0].len()).map(|row| {
        let (mut found, mut start): (Option<Vec<usize>>, usize) = (None, 0);
        for map in &maps {
            let map = map.as_map();
            if map.is_valid(row) {
                let found = found.get_or_insert_default();
                let offsets = map.value_offsets();
                for place in offsets[row]..offsets[row + 1] {
                    let place = start + place as usize;
                    match found.iter().position(|known| compare(*known, place).is_eq()) {
                        Some(known) => found[known] = place,
                        None => found.push(place),
                    }
                }
            }
            start += map.keys().len();
        }
        found
    });
    of_entries(&keys, &values, &rows.collect::<Vec<_>>())
}
