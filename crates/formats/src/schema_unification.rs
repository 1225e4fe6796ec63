//! Unifies the schemas of several files that are read as one table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use euphrates_flow::{Error, Result};

use crate::columns_by_name::ColumnsByName;

/// Unifies columns of the same name, and widens numbers; for formats that store their types. What
/// becomes of columns that `one` lacks is said by `union_by_name`, see
/// [`ReadOptions`](crate::ReadOptions).
pub fn alike(one: &Schema, other: &Schema, union_by_name: Option<bool>) -> Result<Schema> {
    let both = |one: &DataType, other: &DataType| {
        crate::type_unification::alike(one, other).or_else(|| wider_number(one, other))
    };
    merge(one, other, &both, union_by_name)
}

/// Like `alike`, but widens types inferred from samples to hold both.
pub fn widening(one: &Schema, other: &Schema, union_by_name: Option<bool>) -> Result<Schema> {
    merge(one, other, &widened, union_by_name)
}

/// Merges the columns of both and widens types; for formats whose records may omit columns.
pub fn union(one: &Schema, other: &Schema) -> Result<Schema> {
    union_fields(one.fields(), other.fields())
        .map(Schema::new)
        .map_err(|(field, first)| different_types(field.name(), field.data_type(), &first))
}

/// The type that holds the values of both, if there is one.
pub fn widened(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    match (a, b) {
        (a, b) if a == b => Some(a.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (Float64, whole) | (whole, Float64) if is_whole(whole) => Some(Float64),
        // No 64-bit integer holds both.
        (one, other) if is_whole(one) && is_whole(other) => Some(Decimal128(20, 0)),
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) => {
            Some(Timestamp(*unit, None))
        }
        (Timestamp(one, zone), Timestamp(other, same)) if zone == same => {
            Some(Timestamp(*one.max(other), zone.clone()))
        }
        (Time64(one), Time64(other)) => Some(Time64(*one.max(other))),
        (List(a), List(b)) => {
            let inner = widened(a.data_type(), b.data_type())?;
            Some(List(Arc::new(Field::new(a.name(), inner, true))))
        }
        (Struct(a), Struct(b)) => union_fields(a, b).ok().map(Struct),
        (a, b) if !a.is_nested() && !b.is_nested() => Some(Utf8),
        _ => None,
    }
}

/// The number type that holds both, as DuckDB's `union_by_name` has it: an integer and a floating
/// point number are a `Float64`.
fn wider_number(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::*;
    let is_number = |of: &DataType| of.is_integer() || of.is_floating();
    (is_number(one) && is_number(other)).then_some(())?;
    let width = |of: &DataType| of.primitive_width().unwrap_or(0);
    let wider = if width(one) >= width(other) { one } else { other };
    if one.is_floating() || other.is_floating() {
        let is_exact = one.is_floating() && other.is_floating();
        return Some(if is_exact { wider.clone() } else { Float64 });
    }
    if one.is_signed_integer() == other.is_signed_integer() {
        return Some(wider.clone());
    }
    let (signed, unsigned) = if one.is_signed_integer() { (one, other) } else { (other, one) };
    Some(match width(unsigned).saturating_mul(2).max(width(signed)) {
        2 => Int16,
        4 => Int32,
        8 => Int64,
        // No 64-bit integer holds both.
        _ => Decimal128(20, 0),
    })
}

/// Whether the type is an integer type that inference yields.
fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(20, 0))
}

/// The schema with every `Null` type replaced by string: a column without values in the sample must
/// be able to hold one.
pub fn concrete(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(concrete_field).collect::<Vec<_>>())
}

fn concrete_field(field: &Arc<Field>) -> Arc<Field> {
    let data_type = concrete_type(field.data_type());
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn concrete_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Null => DataType::Utf8,
        DataType::List(field) => DataType::List(concrete_field(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(concrete_field).collect()),
        other => other.clone(),
    }
}

/// The merged fields, or else a field of `other` and its incompatible type in `one`.
fn union_fields(one: &Fields, other: &Fields) -> Result<Fields, (FieldRef, DataType)> {
    let mut fields: Vec<Arc<Field>> = one.to_vec();
    let positions = ColumnsByName::of(one);
    for field in other {
        match positions.get(field.name()).map(|position| &mut fields[position]) {
            None => fields.push(Arc::new(field.as_ref().clone().with_nullable(true))),
            Some(known) => {
                let both = widened(known.data_type(), field.data_type())
                    .ok_or_else(|| (field.clone(), known.data_type().clone()))?;
                *known = Arc::new(Field::new(known.name(), both, true));
            }
        }
    }
    Ok(fields.into())
}

fn merge(
    one: &Schema,
    other: &Schema,
    both: &dyn Fn(&DataType, &DataType) -> Option<DataType>,
    union_by_name: Option<bool>,
) -> Result<Schema> {
    let (ones, others) = (ColumnsByName::new(one), ColumnsByName::new(other));
    let more = other.fields().iter().filter(|field| ones.get(field.name()).is_none());
    let more: Vec<&FieldRef> = match union_by_name {
        Some(true) => more.collect(),
        Some(false) => vec![],
        None => match more.into_iter().next() {
            None => vec![],
            Some(field) => return Err(not_in_first(field.name())),
        },
    };
    let merged = one.fields().iter().map(|field| {
        let name = field.name();
        let Some(twin) = others.field(name) else {
            return Ok(field.as_ref().clone().with_nullable(true));
        };
        let Some(data_type) = both(field.data_type(), twin.data_type()) else {
            return Err(different_types(name, twin.data_type(), field.data_type()));
        };
        let may_be_null = |field: &Field| field.is_nullable() || field.data_type().is_null();
        let is_nullable = may_be_null(field) || may_be_null(twin);
        Ok(field.as_ref().clone().with_data_type(data_type).with_nullable(is_nullable))
    });
    let more = more.into_iter().map(|field| Ok(field.as_ref().clone().with_nullable(true)));
    Ok(Schema::new(merged.chain(more).collect::<Result<Vec<Field>>>()?))
}

fn different_types(column: &str, data_type: &DataType, first: &DataType) -> Error {
    Error::usage(format!("column `{column}` is {data_type}, and {first} in the first file"))
        .remedy("read the files apart, or give the columns they have in common")
}

fn not_in_first(column: &str) -> Error {
    Error::usage(format!("column `{column}` is not in the first file")).remedy(
        "union_by_name=True reads the columns of all files, and False those of the first alone; or \
         name `columns`",
    )
}
