//! Converts Arrow's dates, times and durations to instances of Python's module `datetime`, which
//! has microseconds and the years 1 to 9999.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use arrow::util::display::array_value_to_string;
use euphrates_flow::Error;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{OrRaise, to_exception};

/// The ordinal of 1970-01-01 in Python.
pub(super) const UNIX_DAY: i64 = 719_163;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Appends days since 1970 (`Date32`), or milliseconds (`Date64`), as `date`.
pub(super) fn append_dates(
    py: Python<'_>,
    array: &ArrayRef,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    let class = py.import("datetime")?.getattr("date")?;
    let is_in_days = *array.data_type() == DataType::Date32;
    append_numbers(py, array, values, |number| {
        let days = if is_in_days { number } else { number.div_euclid(MILLIS_PER_DAY) };
        class.call_method1("fromordinal", (days + UNIX_DAY,))
    })
}

/// Appends moments as `datetime`, with a time zone if the type has one: UTC if Python does not know
/// that zone.
pub(super) fn append_timestamps(
    py: Python<'_>,
    array: &ArrayRef,
    unit: TimeUnit,
    zone: Option<&str>,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    let datetime = py.import("datetime")?;
    let (delta, class) = (datetime.getattr("timedelta")?, datetime.getattr("datetime")?);
    let start = class.call1((1970, 1, 1))?;
    let zones = zone.map(|name| Zones::new(py, name)).transpose()?;
    append_numbers(py, array, values, |number| {
        let (seconds, micros) = seconds_and_micros(number, unit);
        let moment = start.call_method1("__add__", (delta.call1((0, seconds, micros))?,))?;
        zones.as_ref().map_or(Ok(moment.clone()), |zones| zones.place(&moment))
    })
}

/// The time zones of a column: that of its numbers, and that of its values.
struct Zones<'py> {
    utc: Bound<'py, PyAny>,
    own: Bound<'py, PyAny>,
}

impl<'py> Zones<'py> {
    fn new(py: Python<'py>, name: &str) -> PyResult<Zones<'py>> {
        let utc = py.import("datetime")?.getattr("timezone")?.getattr("utc")?;
        let named = py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,));
        Ok(Zones { own: named.unwrap_or_else(|_| utc.clone()), utc })
    }

    /// A moment in UTC, which does not say so, in the column's zone.
    fn place(&self, moment: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let kwargs = PyDict::new(moment.py());
        kwargs.set_item("tzinfo", &self.utc)?;
        let moment = moment.call_method("replace", (), Some(&kwargs))?;
        moment.call_method1("astimezone", (&self.own,))
    }
}

/// Appends times of the day as `time`.
pub(super) fn append_times(
    py: Python<'_>,
    array: &ArrayRef,
    unit: TimeUnit,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    let class = py.import("datetime")?.getattr("time")?;
    append_numbers(py, array, values, |number| {
        let (seconds, micros) = seconds_and_micros(number, unit);
        class.call1((seconds / 3600, seconds / 60 % 60, seconds % 60, micros))
    })
}

/// Appends durations as `timedelta`.
pub(super) fn append_durations(
    py: Python<'_>,
    array: &ArrayRef,
    unit: TimeUnit,
    values: &Bound<'_, PyList>,
) -> PyResult<()> {
    let class = py.import("datetime")?.getattr("timedelta")?;
    append_numbers(py, array, values, |number| {
        let (seconds, micros) = seconds_and_micros(number, unit);
        class.call1((0, seconds, micros))
    })
}

/// Whole seconds, and the microseconds beyond them.
fn seconds_and_micros(number: i64, unit: TimeUnit) -> (i64, i64) {
    let per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let rest = number.rem_euclid(per_second);
    let micros = match unit {
        TimeUnit::Nanosecond => rest / 1_000,
        _ => rest * (1_000_000 / per_second),
    };
    (number.div_euclid(per_second), micros)
}

/// Appends what `make` returns for the number behind each value. A usage error if that is beyond
/// what Python's class holds.
fn append_numbers<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    values: &Bound<'py, PyList>,
    make: impl Fn(i64) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let numbers = match array.data_type() {
        // Arrow casts 32 bits to 64 by way of the type's own 32.
        DataType::Date32 | DataType::Time32(_) => {
            cast(array, &DataType::Int32).and_then(|numbers| cast(&numbers, &DataType::Int64))
        }
        _ => cast(array, &DataType::Int64),
    };
    let numbers = numbers.map_err(Error::from).or_raise(py)?;
    for (row, number) in numbers.as_primitive::<Int64Type>().iter().enumerate() {
        let made = number.map(&make).transpose();
        values.append(made.map_err(|cause| out_of_range(py, array, row, cause))?)?;
    }
    Ok(())
}

/// The exception for a value that Python's class does not hold; the cause itself if it is another.
fn out_of_range(py: Python<'_>, array: &ArrayRef, row: usize, cause: PyErr) -> PyErr {
    if !cause.is_instance_of::<PyOverflowError>(py) && !cause.is_instance_of::<PyValueError>(py) {
        return cause;
    }
    let (text, kind) = (array_value_to_string(array, row).unwrap_or_default(), array.data_type());
    let error = Error::usage(format!("Python's `datetime` does not hold {text} of type {kind}"))
        .remedy("cast the column to text, or take the rows as Arrow data with `to_pyarrow()`");
    to_exception(py, &error, Some(cause))
}
