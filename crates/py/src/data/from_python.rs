//! Converts Python values to Arrow arrays, for small tables in a program.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, NullArray,
    StringArray, TimestampMicrosecondArray,
};
use euphrates_flow::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use super::moments::UNIX_DAY;
use crate::interpreter::type_name;

/// The type of a column's values. Integers and floats together are floats.
#[derive(Clone, Copy, PartialEq)]
enum ValueKind {
    Nothing,
    Boolean,
    Integer,
    Float,
    Text,
    Bytes,
    Date,
    Moment,
}

/// The array of a list's values. The outer error is a Python exception, the inner one is about the
/// types of the values.
pub fn array_of(values: &Bound<'_, PyAny>) -> PyResult<Result<ArrayRef>> {
    let values: Vec<Bound<'_, PyAny>> = values.try_iter()?.collect::<PyResult<_>>()?;
    let mut kind = ValueKind::Nothing;
    for value in values.iter().filter(|value| !value.is_none()) {
        let Some(this) = kind_of(value)? else {
            let error = Error::usage(format!("no column can be made of {}", type_name(value)));
            return Ok(Err(error.remedy("make the table with pyarrow, Polars or pandas")));
        };
        kind = match (kind, this) {
            (ValueKind::Nothing, this) => this,
            (a, b) if a == b => a,
            (ValueKind::Integer, ValueKind::Float) | (ValueKind::Float, ValueKind::Integer) => {
                ValueKind::Float
            }
            _ => return Ok(Err(Error::usage("the values are of different types"))),
        };
    }
    array(&values, kind).map(Ok)
}

fn kind_of(value: &Bound<'_, PyAny>) -> PyResult<Option<ValueKind>> {
    let datetime = value.py().import("datetime")?;
    let kind = if value.is_instance_of::<PyBool>() {
        ValueKind::Boolean
    } else if value.is_instance_of::<PyInt>() {
        ValueKind::Integer
    } else if value.is_instance_of::<PyFloat>() {
        ValueKind::Float
    } else if value.is_instance_of::<PyString>() {
        ValueKind::Text
    } else if value.is_instance_of::<PyBytes>() {
        ValueKind::Bytes
    } else if value.is_instance(&datetime.getattr("datetime")?)? {
        // An Arrow column has one time zone for all values.
        if !value.getattr("tzinfo")?.is_none() {
            return Ok(None);
        }
        ValueKind::Moment
    } else if value.is_instance(&datetime.getattr("date")?)? {
        ValueKind::Date
    } else {
        return Ok(None);
    };
    Ok(Some(kind))
}

fn array(values: &[Bound<'_, PyAny>], kind: ValueKind) -> PyResult<ArrayRef> {
    Ok(match kind {
        ValueKind::Nothing => Arc::new(NullArray::new(values.len())),
        ValueKind::Boolean => Arc::new(BooleanArray::from(extracted::<bool>(values)?)),
        ValueKind::Integer => Arc::new(Int64Array::from(extracted::<i64>(values)?)),
        ValueKind::Float => Arc::new(Float64Array::from(extracted::<f64>(values)?)),
        ValueKind::Text => Arc::new(StringArray::from(extracted::<String>(values)?)),
        ValueKind::Bytes => {
            let bytes = extracted::<Vec<u8>>(values)?;
            Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
        ValueKind::Date => {
            let ordinal = |day: &Bound<'_, PyAny>| {
                day.call_method0("toordinal")?.extract::<i32>().map(|day| day - UNIX_DAY as i32)
            };
            Arc::new(Date32Array::from(each(values, ordinal)?))
        }
        ValueKind::Moment => Arc::new(TimestampMicrosecondArray::from(each(values, micros)?)),
    })
}

/// Microseconds from 1970-01-01 to a `datetime` without a time zone.
fn micros(moment: &Bound<'_, PyAny>) -> PyResult<i64> {
    let number = |name: &str| moment.getattr(name)?.extract::<i64>();
    let days = moment.call_method0("toordinal")?.extract::<i64>()? - UNIX_DAY;
    let seconds = ((days * 24 + number("hour")?) * 60 + number("minute")?) * 60;
    Ok((seconds + number("second")?) * 1_000_000 + number("microsecond")?)
}

fn extracted<T>(values: &[Bound<'_, PyAny>]) -> PyResult<Vec<Option<T>>>
where
    for<'a, 'py> T: FromPyObject<'a, 'py, Error = PyErr>,
{
    each(values, |value| value.extract())
}

fn each<T>(
    values: &[Bound<'_, PyAny>],
    make: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<Option<T>>> {
    values.iter().map(|v| if v.is_none() { Ok(None) } else { make(v).map(Some) }).collect()
}
