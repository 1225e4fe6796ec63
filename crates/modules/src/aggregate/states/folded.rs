//! States that fold each value into one: products, and integers combined bit by bit.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type, UInt64Type};
use euphrates_flow::Result;

use super::state::{AggregateState, SeenGroups};
use crate::aggregate::functions::BitOperation;
use crate::decimal_floats::cast_nearest;

/// The combined value of each group, of type `T`.
struct Folded<T: ArrowPrimitiveType> {
    /// The value of no values.
    start: T::Native,
    fold: fn(T::Native, T::Native) -> T::Native,
    output: DataType,
    values: Vec<T::Native>,
    seen: SeenGroups,
}

/// The state of a product.
pub(crate) fn product() -> Box<dyn AggregateState> {
    Box::new(Folded::<Float64Type>::new(1.0, |a, b| a * b, DataType::Float64))
}

/// The state of integers of this type, combined bit by bit.
pub(crate) fn bits(operation: BitOperation, output: DataType) -> Box<dyn AggregateState> {
    match output.is_unsigned_integer() {
        true => Box::new(match operation {
            BitOperation::And => Folded::<UInt64Type>::new(u64::MAX, |a, b| a & b, output),
            BitOperation::Or => Folded::new(0, |a, b| a | b, output),
            BitOperation::Xor => Folded::new(0, |a, b| a ^ b, output),
        }),
        false => Box::new(match operation {
            BitOperation::And => Folded::<Int64Type>::new(-1, |a, b| a & b, output),
            BitOperation::Or => Folded::new(0, |a, b| a | b, output),
            BitOperation::Xor => Folded::new(0, |a, b| a ^ b, output),
        }),
    }
}

impl<T: ArrowPrimitiveType> Folded<T> {
    fn new(
        start: T::Native,
        fold: fn(T::Native, T::Native) -> T::Native,
        output: DataType,
    ) -> Folded<T> {
        Folded { start, fold, output, values: vec![], seen: SeenGroups::default() }
    }
}

impl<T: ArrowPrimitiveType> AggregateState for Folded<T> {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, self.start);
        self.seen.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = cast_nearest(values.expect("it is of something"), &T::DATA_TYPE)?;
        let values = values.as_primitive::<T>();
        let valid = || (0..groups.len()).filter(|row| values.is_valid(*row));
        for row in valid() {
            let held = &mut self.values[groups[row] as usize];
            *held = (self.fold)(*held, values.value(row));
        }
        self.seen.some(valid().map(|row| groups[row]));
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let values = std::mem::take(&mut self.values).into();
        let values: ArrayRef = Arc::new(PrimitiveArray::<T>::new(values, self.seen.take()));
        Ok(cast(&values, &self.output)?)
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<T::Native>() + self.seen.bytes()
    }
}
