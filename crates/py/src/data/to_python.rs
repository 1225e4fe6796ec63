//! Converts Arrow values to Python values, for programs without an Arrow library. It creates one
//! object for each value.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::util::display::array_value_to_string;
use euphrates_flow::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use super::moments::{append_dates, append_durations, append_times, append_timestamps};
use crate::errors::OrRaise;

/// Appends the values of a column to a list: instances of Python's own classes. Nanoseconds are
/// rounded down to microseconds; intervals and unions, which have no such class, become text.
pub fn append_values(py: Python<'_>, array: &ArrayRef, values: &Bound<'_, PyList>) -> PyResult<()> {
    macro_rules! numbers {
        ($kind:ty) => {
            array.as_primitive::<$kind>().iter().try_for_each(|value| values.append(value))
        };
    }
    match array.data_type() {
        DataType::Null => (0..array.len()).try_for_each(|_| values.append(py.None())),
        DataType::Boolean => array.as_boolean().iter().try_for_each(|value| values.append(value)),
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Float16 => append_cast(py, array, &DataType::Float32, values),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Utf8 => {
            array.as_string::<i32>().iter().try_for_each(|value| values.append(value))
        }
        DataType::LargeUtf8 | DataType::Utf8View => append_cast(py, array, &DataType::Utf8, values),
        DataType::Binary => array
            .as_binary::<i32>()
            .iter()
            .try_for_each(|value| values.append(value.map(|bytes| PyBytes::new(py, bytes)))),
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            append_cast(py, array, &DataType::Binary, values)
        }
        DataType::Dictionary(_, kind) => append_cast(py, array, kind, values),
        DataType::RunEndEncoded(_, of) => append_cast(py, array, of.data_type(), values),
        DataType::List(_) => append_lists(py, array.as_list::<i32>().iter(), values),
        DataType::LargeList(_) => append_lists(py, array.as_list::<i64>().iter(), values),
        DataType::ListView(_) => append_lists(py, array.as_list_view::<i32>().iter(), values),
        DataType::LargeListView(_) => append_lists(py, array.as_list_view::<i64>().iter(), values),
        DataType::FixedSizeList(..) => append_lists(py, array.as_fixed_size_list().iter(), values),
        DataType::Map(..) => append_maps(py, array, values),
        DataType::Struct(_) => append_structs(py, array, values),
        DataType::Date32 | DataType::Date64 => append_dates(py, array, values),
        DataType::Timestamp(unit, zone) => {
            append_timestamps(py, array, *unit, zone.as_deref(), values)
        }
        DataType::Time32(unit) | DataType::Time64(unit) => append_times(py, array, *unit, values),
        DataType::Duration(unit) => append_durations(py, array, *unit, values),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let class = py.import("decimal")?.getattr("Decimal")?;
            texts(array, |text| values.append(text.map(|text| class.call1((text,))).transpose()?))
        }
        DataType::Interval(_) | DataType::Union(..) => texts(array, |text| values.append(text)),
    }
}

/// Appends the values after a cast to another type.
fn append_cast(
    py: Python<'_>,
    array: &ArrayRef,
    kind: &DataType,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    let array = cast(array, kind).map_err(Error::from).or_raise(py)?;
    append_values(py, &array, values)
}

/// Calls `each` with the text of every value.
fn texts(array: &ArrayRef, mut each: impl FnMut(Option<String>) -> PyResult<()>) -> PyResult<()> {
    (0..array.len()).try_for_each(|row| match array.is_null(row) {
        true => each(None),
        false => each(Some(array_value_to_string(array, row).unwrap_or_default())),
    })
}

fn append_lists(
    py: Python<'_>,
    mut lists: impl Iterator<Item = Option<ArrayRef>>,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    lists.try_for_each(|items| match items {
        Some(items) => {
            let inner = PyList::empty(py);
            append_values(py, &items, &inner)?;
            values.append(inner)
        }
        None => values.append(py.None()),
    })
}

/// Appends maps as dicts. Where keys are lists, structs or maps, which no dict can have as keys,
/// each map is a list of pairs.
fn append_maps(py: Python<'_>, array: &ArrayRef, values: &Bound<'_, PyList>) -> PyResult<()> {
    let maps = array.as_map();
    for row in 0..maps.len() {
        if maps.is_null(row) {
            values.append(py.None())?;
            continue;
        }
        let entries = maps.value(row);
        let (keys, items) = (PyList::empty(py), PyList::empty(py));
        append_values(py, entries.column(0), &keys)?;
        append_values(py, entries.column(1), &items)?;
        let pairs = keys.iter().zip(items.iter());
        if maps.key_type().is_nested() {
            let pairs = pairs.map(|(key, item)| PyTuple::new(py, [key, item]));
            values.append(PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?)?;
            continue;
        }
        let entry = PyDict::new(py);
        pairs.into_iter().try_for_each(|(key, item)| entry.set_item(key, item))?;
        values.append(entry)?;
    }
    Ok(())
}

fn append_structs(py: Python<'_>, array: &ArrayRef, values: &Bound<'_, PyList>) -> PyResult<()> {
    let parts = array.as_struct();
    let mut columns = Vec::new();
    for part in parts.columns() {
        let inner = PyList::empty(py);
        append_values(py, part, &inner)?;
        columns.push(inner);
    }
    for row in 0..array.len() {
        if array.is_null(row) {
            values.append(py.None())?;
            continue;
        }
        let entry = PyDict::new(py);
        for (field, inner) in parts.fields().iter().zip(&columns) {
            entry.set_item(field.name(), inner.get_item(row)?)?;
        }
        values.append(entry)?;
    }
    Ok(())
}
