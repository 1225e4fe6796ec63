//! `hash`: 64 bits of values, the same on every machine and in every release.
//! They are not those of DuckDB.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::row_functions::ArgumentKind::Any;
use super::row_functions::{Computed, ResultKind, RowFunction, wrong};

/// The hash of null.
const OF_NULL: u64 = 13_787_848_793_156_543_929;

/// The start and the prime of FNV-1a (Fowler, Noll, Vo).
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

pub(super) const FUNCTIONS: [RowFunction; 1] = [RowFunction {
    names: &["hash"],
    takes: &[Any; 8],
    optional: 7,
    returns: ResultKind::Unsigned,
    compute: |args| {
        let mut columns = args.iter().map(hashes);
        let Some(first) = columns.next() else { return wrong("hash is of something".into()) };
        let mut all: Vec<u64> = first?;
        for column in columns {
            let both = all.into_iter().zip(column?);
            all = both.map(|(known, other)| mixed(known).rotate_left(1) ^ other).collect();
        }
        Ok(Arc::new(UInt64Array::from(all)))
    },
}];

fn hashes(values: &ArrayRef) -> Computed<Vec<u64>> {
    use DataType::{Boolean, Duration, Float16, Float32, Float64, UInt64};
    let nulls = values.logical_nulls();
    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let each = |of: &dyn Fn(usize) -> u64| {
        (0..values.len()).map(|row| if is_null(row) { OF_NULL } else { of(row) }).collect()
    };
    let of = values.data_type();
    if of.is_nested() {
        return wrong("hash takes no lists, structs and maps: hash their parts".into());
    }
    if matches!(of, Float16 | Float32 | Float64) {
        let numbers = cast(values, &Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        return Ok(each(&|row| {
            let number = numbers.value(row);
            // Equal numbers have equal hashes.
            let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
            mixed(number.to_bits())
        }));
    }
    if *of == UInt64 {
        let numbers = values.as_primitive::<arrow::datatypes::UInt64Type>();
        return Ok(each(&|row| mixed(numbers.value(row))));
    }
    if of.is_integer() || *of == Boolean || of.is_temporal() && !matches!(of, Duration(_)) {
        let numbers = match of {
            DataType::Date32 | DataType::Time32(_) => {
                cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?
            }
            _ => cast(values, &DataType::Int64)?,
        };
        let numbers = numbers.as_primitive::<Int64Type>();
        return Ok(each(&|row| mixed(numbers.value(row) as u64)));
    }
    let is_bytes = matches!(
        of,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    );
    let bytes = match is_bytes {
        true => cast(values, &DataType::LargeBinary)?,
        false => cast(&cast(values, &DataType::LargeUtf8)?, &DataType::LargeBinary)?,
    };
    let bytes = bytes.as_binary::<i64>();
    Ok(each(&|row| {
        let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        mixed(bytes.value(row).iter().fold(FNV_START, add))
    }))
}

/// All bits of a number depend on all bits of another.
fn mixed(number: u64) -> u64 {
    const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
    let number = (number ^ (number >> 32)).wrapping_mul(FACTOR);
    let number = (number ^ (number >> 32)).wrapping_mul(FACTOR);
    number ^ (number >> 32)
}
