//! Canonical form of floating point numbers: zeros have no sign, and every NaN is one value, the
//! greatest, as in SQL; also within lists, structs, maps and dictionaries.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, GenericListArray,
    OffsetSizeTrait, make_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use euphrates_flow::batch::rebuilt;

type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

/// A column in which equal floats have equal bytes.
pub(crate) fn canonical_floats(column: &ArrayRef) -> ArrayRef {
    with_floats(column, true)
}

/// A column in which every NaN is one value.
pub(crate) fn with_one_nan(column: &ArrayRef) -> ArrayRef {
    with_floats(column, false)
}

/// The column with one NaN, and with one zero if `zeros`.
fn with_floats(column: &ArrayRef, zeros: bool) -> ArrayRef {
    match column.data_type() {
        DataType::Float16 => map::<Float16Type>(column, zeros, canonical16),
        DataType::Float32 => map::<Float32Type>(column, zeros, canonical32),
        DataType::Float64 => map::<Float64Type>(column, zeros, canonical64),
        other if !has_floats(other) => column.clone(),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            dictionary.with_values(with_floats(dictionary.values(), zeros))
        }
        DataType::List(_) => list(column.as_list::<i32>(), zeros),
        DataType::LargeList(_) => list(column.as_list::<i64>(), zeros),
        _ => {
            let data = column.to_data();
            let child = |of: &ArrayData| with_floats(&make_array(of.clone()), zeros).to_data();
            let children = data.child_data().iter().map(child).collect();
            // SAFETY: the children's types, lengths and nulls are those of a valid column's.
            unsafe { rebuilt(data.into_builder().child_data(children)) }
        }
    }
}

/// Whether values of this type contain floating point numbers.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => has_floats(values),
        RunEndEncoded(_, field) | Map(field, _) => has_floats(field.data_type()),
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => {
            has_floats(field.data_type())
        }
        FixedSizeList(field, _) => has_floats(field.data_type()),
        Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        other => other.is_floating(),
    }
}

/// Copies only the values within the slice.
fn list<O: OffsetSizeTrait>(of: &GenericListArray<O>, zeros: bool) -> ArrayRef {
    let (first, last) = (of.value_offsets()[0], of.value_offsets()[of.len()]);
    let values = of.values().slice(first.as_usize(), (last - first).as_usize());
    let ends =
        OffsetBuffer::<O>::from_lengths((0..of.len()).map(|row| of.value_length(row).as_usize()));
    let data = ArrayData::builder(of.data_type().clone()).len(of.len()).nulls(of.nulls().cloned());
    let values = with_floats(&values, zeros).to_data();
    let data = data.add_buffer(ends.into_inner().into_inner()).add_child_data(values);
    // SAFETY: as above, and the offsets end where the values do.
    unsafe { rebuilt(data) }
}

/// The canonical one of all values equal to this.
pub(crate) fn canonical32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

/// The canonical one of all values equal to this.
pub(crate) fn canonical64(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

fn canonical16(value: HalfFloat) -> HalfFloat {
    match value.to_f32() {
        wide if wide.is_nan() => HalfFloat::NAN,
        wide => HalfFloat::from_f32(wide + 0.0),
    }
}

/// The column itself if nothing changes.
fn map<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    zeros: bool,
    equal: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    let values = column.as_primitive::<T>();
    let is_nan = |x: T::Native| x.partial_cmp(&x).is_none();
    let equal = |x: T::Native| if zeros || is_nan(x) { equal(x) } else { x };
    // Without a branch, so that the loop is vectorized; `is_ne` compares bits.
    let changes = values.values().iter().fold(false, |any, x| any | x.is_ne(equal(*x)));
    if changes { Arc::new(values.unary::<_, T>(equal)) } else { column.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DictionaryArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array,
        MapArray, StructArray,
    };
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Int8Type};

    #[test]
    fn zeros_and_nan_are_canonical_within_nested_values() {
        let odd: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN, 0.0, f64::NAN]));
        let field = Arc::new(Field::new("item", DataType::Float64, true));
        let whole = |values: ArrayRef| -> Vec<ArrayRef> {
            let ends = OffsetBuffer::<i32>::from_lengths([2, 2]);
            let list = GenericListArray::new(field.clone(), ends, values.clone(), None);
            let codes = Int8Array::from(vec![0, 1, 2, 3]);
            let coded = DictionaryArray::<Int8Type>::new(codes, values.clone());
            let both = StructArray::new(vec![field.clone()].into(), vec![values.clone()], None);
            let pairs = FixedSizeListArray::new(field.clone(), 2, values, None);
            vec![Arc::new(list), Arc::new(coded), Arc::new(both), Arc::new(pairs)]
        };
        for (column, wanted) in whole(odd.clone()).iter().zip(whole(canonical_floats(&odd))) {
            let equal = canonical_floats(column);
            assert_eq!(equal.data_type(), column.data_type());
            let text = |of: &ArrayRef| format!("{of:?}");
            assert_eq!(text(&equal), text(&wanted));
            assert_eq!(text(&canonical_floats(&column.slice(1, 1))), text(&wanted.slice(1, 1)));
        }
    }

    #[test]
    fn unused_nulls_stay() {
        // Code 1 stands for a null, and no row has it.
        let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), None]));
        let codes = Int8Array::from(vec![0, 0]);
        let coded: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(codes, values));
        let field = Arc::new(Field::new("item", coded.data_type().clone(), false));
        let list = |of: DataType, buffers: &[&[i32]]| {
            let mut data = ArrayData::builder(of).len(2).add_child_data(coded.to_data());
            for buffer in buffers {
                data = data.add_buffer(buffer.to_vec().into());
            }
            // SAFETY: lengths and offsets fit the two values.
            unsafe { rebuilt(data) }
        };
        let columns = [
            list(DataType::List(field.clone()), &[&[0, 1, 2]]),
            list(DataType::ListView(field.clone()), &[&[0, 1], &[1, 1]]),
            list(DataType::Struct(vec![field.clone()].into()), &[]),
            list(DataType::FixedSizeList(field, 1), &[]),
        ];
        for column in columns {
            let equal = canonical_floats(&column);
            assert_eq!(equal.data_type(), column.data_type());
            let shown = format!("{equal:?}");
            assert!(!shown.contains("-0.0") && shown.contains("0.0"), "{shown}");
        }
    }

    #[test]
    fn maps_are_changed_within() {
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
        let values: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 3.0]));
        let field = |name: &str| Field::new(name, DataType::Float64, name == "value");
        let fields = vec![field("key"), field("value")];
        let entries = StructArray::new(fields.clone().into(), vec![keys, values], None);
        let of = Arc::new(Field::new("entries", DataType::Struct(fields.into()), false));
        let ends = OffsetBuffer::<i32>::from_lengths([1, 1]);
        let map: ArrayRef = Arc::new(MapArray::new(of, ends, entries, None, false));
        let equal = canonical_floats(&map.slice(0, 1));
        assert!(!format!("{equal:?}").contains("-0.0"), "{equal:?}");
    }

    #[test]
    fn zeros_and_nan_are_canonical_in_every_width() {
        let odd = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::NEG_INFINITY];
        let wide: ArrayRef = Arc::new(Float64Array::from(odd.to_vec()));
        let narrow: ArrayRef = Arc::new(Float32Array::from(odd.map(|v| v as f32).to_vec()));
        let half: ArrayRef = Arc::new(Float16Array::from(odd.map(HalfFloat::from_f64).to_vec()));
        for column in [wide, narrow, half] {
            let plain = canonical_floats(&column);
            let data = plain.to_data();
            let width = column.data_type().primitive_width().unwrap();
            let bytes: Vec<&[u8]> = data.buffers()[0].chunks(width).collect();
            assert_eq!((bytes[0], bytes[2]), (bytes[1], bytes[3]), "{}", column.data_type());
            let shown = cast(&plain, &DataType::Float64).unwrap();
            let shown = shown.as_primitive::<Float64Type>();
            assert_eq!((shown.value(4), shown.value(5)), (1.5, f64::NEG_INFINITY));
            assert!(shown.value(2).is_nan());
        }
    }
}
