//! What equal values have in common: zeros have no sign, and all that is no number is one value,
//! the greatest, as in SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// A column in which equal floats have equal bytes.
pub fn with_equal_bytes(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float16 => map::<Float16Type>(column, equal16),
        DataType::Float32 => map::<Float32Type>(column, equal32),
        DataType::Float64 => map::<Float64Type>(column, equal64),
        _ => column.clone(),
    }
}

/// The one of all values that are equal to this.
pub fn equal32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

/// The one of all values that are equal to this.
pub fn equal64(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

fn equal16(value: Half) -> Half {
    match value.to_f32() {
        wide if wide.is_nan() => Half::NAN,
        wide => Half::from_f32(wide + 0.0),
    }
}

fn map<T: ArrowPrimitiveType>(column: &ArrayRef, equal: fn(T::Native) -> T::Native) -> ArrayRef {
    let equal: PrimitiveArray<T> = column.as_primitive::<T>().unary(equal);
    Arc::new(equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float16Array, Float32Array, Float64Array};
    use arrow::compute::cast;

    #[test]
    fn zeros_and_what_is_no_number_have_one_form_in_every_width() {
        let odd = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::NEG_INFINITY];
        let wide: ArrayRef = Arc::new(Float64Array::from(odd.to_vec()));
        let narrow: ArrayRef = Arc::new(Float32Array::from(odd.map(|v| v as f32).to_vec()));
        let half: ArrayRef = Arc::new(Float16Array::from(odd.map(Half::from_f64).to_vec()));
        for column in [wide, narrow, half] {
            let plain = with_equal_bytes(&column);
            let data = plain.to_data();
            let width = column.data_type().primitive_width().unwrap();
            let bytes: Vec<&[u8]> = data.buffers()[0].chunks(width).collect();
            assert_eq!((bytes[0], bytes[2]), (bytes[1], bytes[3]), "{}", column.data_type());
            let told = cast(&plain, &DataType::Float64).unwrap();
            let told = told.as_primitive::<Float64Type>();
            assert_eq!((told.value(4), told.value(5)), (1.5, f64::NEG_INFINITY));
            assert!(told.value(2).is_nan());
        }
    }
}
