//! Structs of the fields of others: `struct_concat(s, t)`, and `struct_update(s, a := 1)`, which is
//! a call of `_struct_updated`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::plan_err;

use super::super::row_functions::ArgumentKind::Any;
use super::super::row_functions::{Computed, ResultKind, RowFunction};

pub(crate) const FUNCTIONS: [RowFunction; 4] = [
    RowFunction {
        names: &["struct_concat"],
        takes: &[Any; 8],
        optional: 7,
        returns: ResultKind::Made(|types| {
            let places = concatenated(types)?;
            Ok(DataType::Struct(places.into_iter().map(|(_, field)| field).collect()))
        }),
        compute: |args| chosen(args, &concatenated(&types_of(args))?),
    },
    RowFunction {
        names: &["_struct_updated"],
        takes: &[Any, Any],
        optional: 0,
        returns: ResultKind::Made(|types| {
            let places = updated(types)?;
            Ok(DataType::Struct(places.into_iter().map(|(_, field)| field).collect()))
        }),
        compute: |args| chosen(args, &updated(&types_of(args))?),
    },
    RowFunction {
        names: &["struct_keys"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Texts,
        compute: |args| {
            let fields = fields(args[0].data_type())?;
            let names = fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
            let names: ArrayRef = Arc::new(StringArray::from(names.repeat(args[0].len())));
            let offsets = OffsetBuffer::from_lengths(vec![fields.len(); args[0].len()]);
            let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
            Ok(Arc::new(ListArray::try_new(item, offsets, names, args[0].logical_nulls())?))
        },
    },
    RowFunction {
        names: &["struct_values"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Made(|types| Ok(DataType::Struct(numbered(&types[0])?))),
        compute: |args| {
            let of = args[0].as_struct();
            let (fields, columns) = (numbered(of.data_type())?, of.columns().to_vec());
            let nulls = of.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, of.len())?))
        },
    },
];

/// A field of a struct, and where it comes from: the argument, and the place in it.
type FieldPlace = ((usize, usize), FieldRef);

fn types_of(args: &[ArrayRef]) -> Vec<DataType> {
    args.iter().map(|arg| arg.data_type().clone()).collect()
}

fn fields(of: &DataType) -> Computed<&Fields> {
    match of {
        DataType::Struct(fields) => Ok(fields),
        other => plan_err!("a struct is needed, not {other}"),
    }
}

fn places(types: &[DataType], argument: usize) -> Computed<Vec<FieldPlace>> {
    let fields = fields(&types[argument])?.iter().enumerate();
    // A struct that is null has fields that are.
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    Ok(fields.map(|(at, field)| ((argument, at), nullable(field))).collect())
}

/// The fields of all structs, whose names must differ.
fn concatenated(types: &[DataType]) -> Computed<Vec<FieldPlace>> {
    let mut found: Vec<FieldPlace> = vec![];
    for argument in 0..types.len() {
        for place in places(types, argument)? {
            let name = place.1.name();
            if found.iter().any(|(_, known)| known.name().eq_ignore_ascii_case(name)) {
                return plan_err!("struct_concat: two structs have a field `{name}`");
            }
            found.push(place);
        }
    }
    Ok(found)
}

/// The fields of the first struct, of which those of the second take the places, and its others.
fn updated(types: &[DataType]) -> Computed<Vec<FieldPlace>> {
    let mut found = places(types, 0)?;
    for place in places(types, 1)? {
        let name = place.1.name();
        match found.iter_mut().find(|(_, known)| known.name().eq_ignore_ascii_case(name)) {
            Some(known) => {
                let name = known.1.name().clone();
                *known = (place.0, Arc::new(place.1.as_ref().clone().with_name(name)));
            }
            None => found.push(place),
        }
    }
    Ok(found)
}

/// The struct of these fields.
fn chosen(args: &[ArrayRef], places: &[FieldPlace]) -> Computed<ArrayRef> {
    let column = |((argument, at), _): &FieldPlace| {
        let of = args[*argument].as_struct();
        let column = of.column(*at);
        match of.nulls() {
            Some(nulls) => nullif(column, &(!nulls.inner()).into()).map_err(Into::into),
            None => Ok(column.clone()),
        }
    };
    let columns = places.iter().map(column).collect::<Computed<Vec<_>>>()?;
    let fields = places.iter().map(|(_, field)| field.clone()).collect();
    let rows = args[0].len();
    let nulls: Option<NullBuffer> = None;
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, rows)?))
}

/// The fields with the names of an unnamed row.
fn numbered(of: &DataType) -> Computed<Fields> {
    let fields = fields(of)?.iter().enumerate();
    let named = |(at, field): (usize, &FieldRef)| {
        Field::new(format!("element{}", at + 1), field.data_type().clone(), true)
    };
    Ok(fields.map(named).collect())
}
