//! Converts Arrow values to Python values, for programs without an Arrow library. It creates one
//! object for each value.

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::util::display::array_value_to_string;
use euphrates_flow::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors::OrRaise;

/// Appends the values of a column to a list. Types without a Python counterpart become text.
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
        DataType::List(_) => lists(py, array.as_list::<i32>(), values),
        DataType::LargeList(_) => lists(py, array.as_list::<i64>(), values),
        DataType::Struct(_) => structs(py, array, values),
        DataType::Date32 => parsed(py, array, ("datetime", "date", "fromisoformat"), values),
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Nanosecond => {
            let plain = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let array = cast(array, &plain).map_err(Error::from).or_raise(py)?;
            timestamps(py, &array, values)
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            parsed(py, array, ("decimal", "Decimal", ""), values)
        }
        _ => texts(array, |text| values.append(text)),
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

/// Appends values that a Python constructor parses from text; `method` is empty for the class
/// itself.
fn parsed(
    py: Python<'_>,
    array: &ArrayRef,
    (module, class, method): (&str, &str, &str),
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    let class = py.import(module)?.getattr(class)?;
    let make = if method.is_empty() { class } else { class.getattr(method)? };
    texts(array, |text| match text {
        Some(text) => values.append(make.call1((text,))?),
        None => values.append(py.None()),
    })
}

/// Appends microseconds since 1970 as `datetime`, with a time zone if the type has one.
fn timestamps(py: Python<'_>, array: &ArrayRef, values: &Bound<'_, PyList>) -> PyResult<()> {
    let datetime = py.import("datetime")?;
    let utc = datetime.getattr("timezone")?.getattr("utc")?;
    let (delta, class) = (datetime.getattr("timedelta")?, datetime.getattr("datetime")?);
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(zone)) => Some(zone.clone()),
        _ => None,
    };
    let named = |zone: &str| py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((zone,));
    let zone = zone.map(|zone| named(&zone).unwrap_or_else(|_| utc.clone()));
    let start = class.call1((1970, 1, 1))?;
    for value in array.as_primitive::<TimestampMicrosecondType>().iter() {
        let Some(micros) = value else {
            values.append(py.None())?;
            continue;
        };
        let moment = start.call_method1("__add__", (delta.call1((0, 0, micros))?,))?;
        let Some(zone) = &zone else {
            values.append(moment)?;
            continue;
        };
        let kwargs = PyDict::new(py);
        kwargs.set_item("tzinfo", &utc)?;
        let moment = moment.call_method("replace", (), Some(&kwargs))?;
        values.append(moment.call_method1("astimezone", (zone,))?)?;
    }
    Ok(())
}

fn lists<O: OffsetSizeTrait>(
    py: Python<'_>,
    array: &GenericListArray<O>,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    array.iter().try_for_each(|item| match item {
        Some(item) => {
            let inner = PyList::empty(py);
            append_values(py, &item, &inner)?;
            values.append(inner)
        }
        None => values.append(py.None()),
    })
}

fn structs(py: Python<'_>, array: &ArrayRef, values: &Bound<'_, PyList>) -> PyResult<()> {
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
