//! States of `min` and `max`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, LargeBinaryBuilder,
    PrimitiveArray, downcast_primitive,
};
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::state::{AggregateState, SeenGroups};
use crate::batches::byte_strings::order;

/// The minimum or maximum of primitive values.
pub(crate) struct Extreme<T: ArrowPrimitiveType> {
    data_type: DataType,
    is_max: bool,
    values: Vec<T::Native>,
    seen: SeenGroups,
    /// The value that any other replaces, for groups without values.
    worst: T::Native,
}

/// The minimum or maximum of values of this primitive type.
pub(crate) fn extreme_of(data_type: &DataType, is_max: bool) -> Box<dyn AggregateState> {
    macro_rules! start {
        ($type:ty) => {
            Box::new(Extreme::<$type> {
                data_type: data_type.clone(),
                is_max,
                values: vec![],
                seen: SeenGroups::default(),
                worst: match is_max {
                    true => <$type as ArrowPrimitiveType>::Native::MIN_TOTAL_ORDER,
                    false => <$type as ArrowPrimitiveType>::Native::MAX_TOTAL_ORDER,
                },
            })
        };
    }
    downcast_primitive! {
        data_type => (start),
        other => unreachable!("checked: {other} is primitive"),
    }
}

impl<T: ArrowPrimitiveType> Extreme<T> {
    #[inline(always)]
    fn add_all(&mut self, values: &PrimitiveArray<T>, groups: &[u32], is_better: Ordering) {
        let held = &mut self.values;
        let mut add = |group: u32, value: T::Native| {
            let best = &mut held[group as usize];
            if value.compare(*best) == is_better {
                *best = value;
            }
        };
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                let rows = groups.iter().zip(values.values().iter());
                rows.for_each(|(group, value)| add(*group, *value));
                self.seen.all(groups);
            }
            Some(nulls) => {
                nulls.valid_indices().for_each(|row| add(groups[row], values.values()[row]));
                self.seen.some(nulls.valid_indices().map(|row| groups[row]));
            }
        }
    }
}

impl<T: ArrowPrimitiveType> AggregateState for Extreme<T> {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, self.worst);
        self.seen.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = values.expect("an extreme is of something").as_primitive::<T>();
        match self.is_max {
            true => self.add_all(values, groups, Ordering::Greater),
            false => self.add_all(values, groups, Ordering::Less),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let values = std::mem::take(&mut self.values).into();
        let values = PrimitiveArray::<T>::new(values, self.seen.take());
        Ok(Arc::new(values.with_data_type(self.data_type.clone())))
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<T::Native>() + self.seen.bytes()
    }
}

/// The minimum or maximum of text and bytes, in byte order.
pub(crate) struct BytesExtreme {
    is_better: Ordering,
    values: Vec<Option<Box<[u8]>>>,
    bytes: usize,
}

impl BytesExtreme {
    /// The maximum if `is_max`, else the minimum.
    pub(crate) fn new(is_max: bool) -> BytesExtreme {
        let is_better = if is_max { Ordering::Greater } else { Ordering::Less };
        BytesExtreme { is_better, values: vec![], bytes: 0 }
    }
}

impl AggregateState for BytesExtreme {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, None);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = values.expect("an extreme is of something").as_binary::<i64>();
        for (group, value) in groups.iter().zip(values) {
            let Some(value) = value else { continue };
            let best = &mut self.values[*group as usize];
            match best {
                Some(held) if order(value, held) != self.is_better => {}
                // A replacement usually has about the same length.
                Some(held) if held.len() == value.len() => held.copy_from_slice(value),
                _ => {
                    self.bytes += value.len();
                    self.bytes -= best.as_ref().map_or(0, |held| held.len());
                    *best = Some(value.into());
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let mut out = LargeBinaryBuilder::with_capacity(self.values.len(), self.bytes);
        std::mem::take(&mut self.values).iter().for_each(|value| out.append_option(value.as_ref()));
        self.bytes = 0;
        Ok(Arc::new(out.finish()))
    }

    fn bytes(&self) -> usize {
        // The size of an entry, and the overhead of an allocation.
        self.bytes + self.values.len() * 40
    }
}
