//! Prints values as the text that CSV and JSON hold, where their encoders fail or alter them.
//!
//! Those are dates and times beyond the years of Arrow's calendar, durations, bytes, and values in
//! a dictionary or run-end encoding, some of which may be null.
//!
//! A value without a text form is an error that shows its row.

use std::sync::Arc;

use arrow::array::builder::LargeStringBuilder;
use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    StringArray, StructArray, UInt32Array, downcast_run_array, new_null_array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use arrow::temporal_conversions::timestamp_s_to_datetime;
use chrono::{Offset, TimeZone};
use euphrates_flow::{Error, Result, Row, new_batch};

use crate::values::iso8601::{
    per_second, write_date, write_duration, write_moment, write_offset, write_time,
};

/// The format to print for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintFormat {
    /// All values but numbers become text, at every depth.
    Json,
    /// Nulls become text, too, but dates and timestamps stay, which its encoder writes.
    Csv,
}

/// The batch, with columns as text that Arrow would not write unchanged.
pub fn printed(batch: &RecordBatch, form: PrintFormat) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    if !schema.fields().iter().any(|field| changes(field.data_type(), form)) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let place = |error: Error| error.at(format!("column `{}`", field.name()));
        text(column, form).map_err(|error| at_row(error, batch, column, form)).map_err(place)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let typed = |(field, column): (&FieldRef, &ArrayRef)| {
        field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true)
    };
    let fields: Vec<Field> = schema.fields().iter().zip(&columns).map(typed).collect();
    Ok(new_batch(Arc::new(Schema::new(fields)), columns, batch.num_rows())?)
}

/// Adds the first row that fails by itself to an error.
fn at_row(error: Error, batch: &RecordBatch, column: &ArrayRef, form: PrintFormat) -> Error {
    let fails = |row: &usize| text(&column.slice(*row, 1), form).is_err();
    match (0..batch.num_rows()).find(fails) {
        Some(row) => error.in_row(|| Row::of(batch, row, format!("row {row} of its batch"))),
        None => error,
    }
}

/// Whether values of this type, or nested in it, become another type.
fn changes(data_type: &DataType, form: PrintFormat) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(..) | RunEndEncoded(..) | ListView(_) | LargeListView(_) => true,
        Null => form == PrintFormat::Csv,
        Date32 | Timestamp(_, None) => form == PrintFormat::Json,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
        List(field) | LargeList(field) | FixedSizeList(field, _) | Map(field, _) => {
            changes(field.data_type(), form)
        }
        Struct(fields) => fields.iter().any(|field| changes(field.data_type(), form)),
        _ => false,
    }
}

fn text(column: &ArrayRef, form: PrintFormat) -> Result<ArrayRef> {
    use DataType::*;
    if !changes(column.data_type(), form) {
        return Ok(column.clone());
    }
    match column.data_type() {
        Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            text(&take(dictionary.values(), dictionary.keys(), None)?, form)
        }
        RunEndEncoded(..) => text(&expanded_runs(column)?, form),
        ListView(field) => text(&cast(column, &List(field.clone()))?, form),
        LargeListView(field) => text(&cast(column, &LargeList(field.clone()))?, form),
        List(_) => list(column.as_list::<i32>(), form),
        LargeList(_) => list(column.as_list::<i64>(), form),
        FixedSizeList(field, size) => {
            let list = column.as_fixed_size_list();
            let values = text(list.values(), form)?;
            let (field, nulls) = (like(field, &values), list.nulls().cloned());
            Ok(Arc::new(FixedSizeListArray::try_new(field, *size, values, nulls)?))
        }
        Map(field, is_sorted) => {
            let map = column.as_map();
            let (first, end) = (map.offsets()[0] as usize, map.offsets()[map.len()] as usize);
            let entries: ArrayRef = Arc::new(map.entries().slice(first, end - first));
            let entries = text(&entries, form)?;
            let offsets = OffsetBuffer::from_lengths(map.offsets().lengths());
            let (field, entries) = (like(field, &entries), entries.as_struct().clone());
            let nulls = map.nulls().cloned();
            Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, *is_sorted)?))
        }
        Struct(fields) => {
            let all = column.as_struct();
            let columns = all.columns().iter().map(|column| text(column, form));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| like(field, column));
            let (fields, nulls) = (fields.collect::<Fields>(), all.nulls().cloned());
            let all = StructArray::try_new_with_length(fields, columns, nulls, all.len())?;
            Ok(Arc::new(all))
        }
        Null => Ok(new_null_array(&Utf8, column.len())),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => bytes(column),
        _ => leaf(column),
    }
}

/// The field of values that became text. It is nullable: a value that no row refers to may be null
/// whatever the field says (in a dictionary, or between list views), which Arrow's constructors
/// reject.
fn like(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    let nullable = field.is_nullable() || values.is_nullable();
    let field = field.as_ref().clone().with_data_type(values.data_type().clone());
    Arc::new(field.with_nullable(nullable))
}

fn list<O: OffsetSizeTrait>(list: &GenericListArray<O>, form: PrintFormat) -> Result<ArrayRef> {
    let offsets = list.offsets();
    let (first, end) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    let values = text(&list.values().slice(first, end - first), form)?;
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err(Error::failed("a list that is none"));
    };
    let (field, nulls) = (like(field, &values), list.nulls().cloned());
    let offsets = OffsetBuffer::<O>::from_lengths(offsets.lengths());
    Ok(Arc::new(GenericListArray::try_new(field, offsets, values, nulls)?))
}

fn expanded_runs(column: &ArrayRef) -> Result<ArrayRef> {
    let column = column.as_ref();
    downcast_run_array!(
        column => {
            let index = |row| column.get_physical_index(row) as u32;
            let indexes = UInt32Array::from_iter_values((0..column.len()).map(index));
            Ok(take(column.values(), &indexes, None)?)
        },
        other => Err(Error::failed(format!("{other} has no runs")))
    )
}

/// Prints bytes as the UTF-8 text they are; hexadecimal digits would not be read back as the same
/// bytes.
fn bytes(column: &ArrayRef) -> Result<ArrayRef> {
    let wide = cast(column, &DataType::LargeBinary)?;
    let mut texts = LargeStringBuilder::new();
    for bytes in wide.as_binary::<i64>() {
        let text = bytes.map(std::str::from_utf8).transpose().map_err(|_| {
            Error::failed("not all of these bytes are text, which is all that CSV and JSON hold")
                .remedy("save as parquet, or leave the column out")
        })?;
        texts.append_option(text);
    }
    Ok(Arc::new(texts.finish()))
}

fn leaf(column: &ArrayRef) -> Result<ArrayRef> {
    use DataType::*;
    match column.data_type() {
        Date32 => each::<Date32Type>(column, |value, out| {
            write_date(i64::from(value), out);
            Some(())
        }),
        Date64 => each::<Date64Type>(column, |value, out| {
            write_moment(value, TimeUnit::Millisecond, 0, out);
            Some(())
        }),
        Time32(TimeUnit::Second) => each::<Time32SecondType>(column, |value, out| {
            write_time(i64::from(value), TimeUnit::Second, out)
        }),
        Time32(unit) => each::<Time32MillisecondType>(column, |value, out| {
            write_time(i64::from(value), *unit, out)
        }),
        Time64(_) | Timestamp(..) | Duration(_) => of_64_bits(column),
        other => Err(Error::failed(format!("no text for {other}"))),
    }
}

/// Prints times of day, timestamps and durations of any unit.
fn of_64_bits(column: &ArrayRef) -> Result<ArrayRef> {
    let (data, shown) = (column.to_data(), column.data_type());
    let numbers = data.into_builder().data_type(DataType::Int64).build()?;
    let numbers = arrow::array::make_array(numbers);
    type Write<'a> = Box<dyn Fn(i64, &mut Vec<u8>) -> Option<()> + 'a>;
    let written: Write<'_> = match shown {
        DataType::Time64(unit) => Box::new(|value, out| write_time(value, *unit, out)),
        DataType::Duration(unit) => Box::new(|value, out| {
            write_duration(value, *unit, out);
            Some(())
        }),
        DataType::Timestamp(unit, None) => Box::new(|value, out| {
            write_moment(value, *unit, 0, out);
            Some(())
        }),
        DataType::Timestamp(unit, Some(zone)) => {
            let zone = zone_named(zone)?;
            Box::new(move |value, out| {
                write_zoned(value, *unit, zone, out);
                Some(())
            })
        }
        other => return Err(Error::failed(format!("no text for {other}"))),
    };
    let texts = each::<Int64Type>(&numbers, |value, out| written(value, out));
    texts.map_err(|_| no_time(shown))
}

/// Prints a timestamp as local time of the zone, if its offset is whole minutes, as the format
/// requires, else in UTC; before standard time offsets had seconds.
fn write_zoned(value: i64, unit: TimeUnit, zone: Tz, out: &mut Vec<u8>) {
    let seconds = value.div_euclid(per_second(unit));
    let ahead = timestamp_s_to_datetime(seconds)
        .map(|at| zone.offset_from_utc_datetime(&at).fix().local_minus_utc())
        .filter(|ahead| ahead % 60 == 0)
        .unwrap_or(0);
    write_moment(value, unit, ahead, out);
    match ahead {
        0 => out.push(b'Z'),
        ahead => write_offset(ahead / 60, out),
    }
}

/// The zone with this name, or offset like `+02:00`; a usage error if there is none.
pub fn zone_named(zone: &str) -> Result<Tz> {
    let offset = if zone.eq_ignore_ascii_case("utc") { "+00:00" } else { zone };
    offset
        .parse()
        .map_err(|_| Error::usage(format!("no zone named `{zone}`")).remedy("like UTC or +02:00"))
}

fn no_time(data_type: &DataType) -> Error {
    Error::failed(format!("a value of {data_type} is no time of day"))
        .remedy("filter it out, or save as parquet")
}

fn each<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    write: impl Fn(T::Native, &mut Vec<u8>) -> Option<()>,
) -> Result<ArrayRef> {
    let values = column.as_primitive::<T>();
    let mut texts = Vec::with_capacity(values.len() * 20);
    let mut offsets = Vec::with_capacity(values.len() + 1);
    offsets.push(0);
    for value in values {
        if let Some(value) = value {
            write(value, &mut texts).ok_or_else(|| no_time(column.data_type()))?;
        }
        offsets.push(i32::try_from(texts.len()).map_err(Error::failed)?);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let nulls = column.nulls().cloned();
    Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(texts), nulls)?))
}
