//! The types of structs, maps and lists that functions make of others.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use datafusion_common::{Result, plan_err};

pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// Whether the second argument of a function is a path in JSON.
pub(super) fn takes_json_path(name: &str) -> bool {
    let others = ["json_exists", "json_keys", "json_type", "json_value", "json_array_length"];
    name.starts_with("json_extract") || others.contains(&name)
}

/// The type of the next float: that of the arguments.
pub(super) fn next_float(types: &[DataType]) -> Result<DataType> {
    let is_single = |of: &DataType| *of == DataType::Float32;
    Ok(if types.iter().all(is_single) { DataType::Float32 } else { DataType::Float64 })
}

/// A map with these keys and values.
pub(crate) fn map_of(key: &DataType, value: &DataType) -> DataType {
    let fields =
        vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)];
    let entries = Field::new("entries", DataType::Struct(fields.into()), false);
    DataType::Map(Arc::new(entries), false)
}

fn fields(of: &DataType) -> Result<Vec<FieldRef>> {
    match of {
        DataType::Struct(fields) => {
            let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true).into();
            Ok(fields.iter().map(nullable).collect())
        }
        other => plan_err!("a struct is needed, not {other}"),
    }
}

/// The type of a field of a struct, or of a value of a map.
pub(super) fn field(of: &DataType, name: &str) -> Result<DataType> {
    if let Some((_, value)) = key_and_value(of) {
        return Ok(value.clone());
    }
    match fields(of)?.iter().find(|field| field.name() == name) {
        Some(field) => Ok(field.data_type().clone()),
        None => plan_err!("the struct has no field `{name}`"),
    }
}

/// A struct with the fields of all.
pub(super) fn concatenated(types: &[DataType]) -> Result<DataType> {
    let mut all: Vec<FieldRef> = vec![];
    for field in types.iter().map(fields).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        if all.iter().any(|known| known.name().eq_ignore_ascii_case(field.name())) {
            return plan_err!("struct_concat: two structs have a field `{}`", field.name());
        }
        all.push(field);
    }
    Ok(DataType::Struct(all.into()))
}

/// A struct with the fields of the first, of which those of the second take the places.
pub(super) fn updated(types: &[DataType]) -> Result<DataType> {
    let mut all = fields(&types[0])?;
    for field in fields(&types[1])? {
        let known = all.iter_mut().find(|known| known.name().eq_ignore_ascii_case(field.name()));
        match known {
            Some(known) => *known = field.as_ref().clone().with_name(known.name()).into(),
            None => all.push(field),
        }
    }
    Ok(DataType::Struct(all.into()))
}

/// The fields of a struct with the names of an unnamed row.
pub(super) fn numbered(types: &[DataType]) -> Result<DataType> {
    let fields = fields(&types[0])?.into_iter().enumerate();
    let named = |(at, field): (usize, FieldRef)| {
        Field::new(format!("element{}", at + 1), field.data_type().clone(), true)
    };
    Ok(DataType::Struct(fields.map(named).collect::<Fields>()))
}

fn key_and_value(map: &DataType) -> Option<(&DataType, &DataType)> {
    match map {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => Some((fields[0].data_type(), fields[1].data_type())),
            _ => None,
        },
        _ => None,
    }
}

/// The first of the types that is a map whose keys have a type.
pub(super) fn merged_map(types: &[DataType]) -> Result<DataType> {
    let maps: Vec<_> = types.iter().filter_map(key_and_value).collect();
    match maps.iter().find(|(key, _)| !key.is_null()).or(maps.first()) {
        Some((key, value)) => Ok(map_of(key, value)),
        None => plan_err!("map_concat: no argument is a map"),
    }
}

/// The map of a list of keys and a list of values.
pub(super) fn map_of_lists(types: &[DataType]) -> Result<DataType> {
    match (item_of(&types[0]), item_of(&types[1])) {
        (Some(key), Some(value)) => Ok(map_of(key, value)),
        _ => plan_err!("map takes a list of keys and one of values"),
    }
}

fn item_of(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// The map of a list of pairs.
pub(crate) fn map_of_pairs(types: &[DataType]) -> Result<DataType> {
    match &types[0] {
        DataType::List(item) => match item.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                Ok(map_of(fields[0].data_type(), fields[1].data_type()))
            }
            _ => plan_err!("map_from_entries: the items are no pairs"),
        },
        other => plan_err!("map_from_entries takes a list of pairs, not {other}"),
    }
}

/// A value of a map.
pub(super) fn value(types: &[DataType]) -> Result<DataType> {
    match key_and_value(&types[0]) {
        Some((_, value)) => Ok(value.clone()),
        None => plan_err!("a map is needed, not {}", types[0]),
    }
}

/// A list of the keys of a map.
pub(super) fn keys(types: &[DataType]) -> Result<DataType> {
    match key_and_value(&types[0]) {
        Some((key, _)) => Ok(list_of(key.clone())),
        None => plan_err!("a map is needed, not {}", types[0]),
    }
}

/// How often each item of a list comes.
pub(super) fn counts(types: &[DataType]) -> Result<DataType> {
    match &types[0] {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(map_of(item.data_type(), &DataType::Int64))
        }
        other => plan_err!("a list is needed, not {other}"),
    }
}

/// A list of boundaries between two values.
pub(super) fn boundaries(types: &[DataType]) -> Result<DataType> {
    let is_day = |of: &DataType| matches!(of, DataType::Date32 | DataType::Date64);
    let is_instant = |of: &DataType| is_day(of) || matches!(of, DataType::Timestamp(..));
    Ok(list_of(match &types[..2] {
        ends if ends.iter().all(is_day) => DataType::Date32,
        ends if ends.iter().all(is_instant) => DataType::Timestamp(TimeUnit::Microsecond, None),
        ends if ends.iter().all(DataType::is_integer) => DataType::Int64,
        _ => DataType::Float64,
    }))
}
