//! Maps Arrow types to the types that Parquet stores.
//!
//! The logical type of a column says what its numbers mean. Parquet has none for seconds, for dates
//! in milliseconds, and for some of Arrow's layouts; the crate writes these as plain integers, or
//! not at all. So they are cast to the nearest type that Parquet has and that holds every value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, TimeUnit};
use arrow::util::display::FormatOptions;
use euphrates_flow::depth::any_within;
use euphrates_flow::{Error, Result};

/// The schema to store these columns with; a usage error that names a column Parquet cannot store.
pub fn stored_schema(schema: &Schema) -> Result<Schema> {
    let fields = schema.fields().iter().map(|field| {
        stored_field(field).map_err(|what| {
            Error::usage(format!("Parquet cannot hold {what}"))
                .at(format!("column `{}`", field.name()))
                .remedy("cast the column, leave it out, or save as arrow")
        })
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn stored_field(field: &FieldRef) -> Result<FieldRef, String> {
    let data_type = stored_type(field.data_type())?;
    if &data_type == field.data_type() {
        return Ok(field.clone());
    }
    Ok(Arc::new(field.as_ref().clone().with_data_type(data_type)))
}

fn stored_type(data_type: &DataType) -> Result<DataType, String> {
    use DataType::*;
    Ok(match data_type {
        Timestamp(TimeUnit::Second, zone) => Timestamp(TimeUnit::Millisecond, zone.clone()),
        Time32(TimeUnit::Second) => Time32(TimeUnit::Millisecond),
        Date64 => Date32,
        // The crate stores a precision of 1 in 64 bits, and cannot widen 32 bits to these.
        Decimal32(1, scale) => Decimal64(1, *scale),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale)
            if *scale < 0 =>
        {
            return Err(format!("decimals with a negative scale ({data_type})"));
        }
        Interval(IntervalUnit::MonthDayNano) => {
            return Err("intervals of months, days and nanoseconds".into());
        }
        FixedSizeBinary(width) if *width < 1 => return Err("values of no bytes".into()),
        FixedSizeList(_, size) if *size < 1 => return Err("lists of no elements".into()),
        List(field) => List(stored_field(field)?),
        LargeList(field) => LargeList(stored_field(field)?),
        FixedSizeList(field, size) => FixedSizeList(stored_field(field)?, *size),
        ListView(field) => List(stored_field(field)?),
        LargeListView(field) => LargeList(stored_field(field)?),
        Map(entries, sorted) => Map(stored_field(entries)?, *sorted),
        Struct(fields) if fields.is_empty() => return Err("structs without fields".into()),
        Struct(fields) => {
            let fields = fields.iter().map(stored_field);
            Struct(fields.collect::<Result<Vec<_>, _>>()?.into())
        }
        // The crate writes no dictionaries of views.
        Dictionary(keys, values) if **values == Utf8View => Dictionary(keys.clone(), Utf8.into()),
        Dictionary(keys, values) if **values == BinaryView => {
            Dictionary(keys.clone(), Binary.into())
        }
        Dictionary(_, values) => match stored_type(values)? {
            same if same == **values && !same.is_nested() => data_type.clone(),
            plain => plain,
        },
        RunEndEncoded(_, values) => stored_type(values.data_type())?,
        Union(..) => return Err("unions".into()),
        same => same.clone(),
    })
}

/// Casts a column to its stored type. Fails if the cast would lose part of a value.
pub fn stored_column(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if column.data_type() == field.data_type() {
        return Ok(column.clone());
    }
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    let place = |error: Error| error.at(format!("column `{}`", field.name()));
    let stored = cast_with_options(column, field.data_type(), &options);
    let stored = stored.map_err(|error| place(Error::failed(error)))?;
    if any_within(column.data_type(), &|one| *one == DataType::Date64) {
        let days = with_date64(field.data_type());
        let as_days = |array: &ArrayRef| cast_with_options(array, &days, &options);
        if as_days(&stored)?.as_ref() != as_days(column)?.as_ref() {
            let error = Error::failed("a date64 is not at midnight, and Parquet has whole days");
            return Err(place(error.remedy("cast the column to a timestamp")));
        }
    }
    Ok(stored)
}

/// The stored type with all dates in milliseconds, to check that they are whole days.
fn with_date64(data_type: &DataType) -> DataType {
    use DataType::*;
    let inside = |field: &FieldRef| {
        let data_type = with_date64(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    match data_type {
        Date32 => Date64,
        List(field) => List(inside(field)),
        LargeList(field) => LargeList(inside(field)),
        FixedSizeList(field, size) => FixedSizeList(inside(field), *size),
        Map(entries, sorted) => Map(inside(entries), *sorted),
        Struct(fields) => Struct(fields.iter().map(inside).collect()),
        same => same.clone(),
    }
}
