//! States of `min` and `max` of primitive values.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray,
    downcast_primitive,
};
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::state::{AggregateState, SeenGroups};

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
        let add = |held: &mut [T::Native], group: u32, value: T::Native| {
            let best = &mut held[group as usize];
            if value.compare(*best) == is_better {
                *best = value;
            }
        };
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None if held.len() == 1 => {
                let better = |best: T::Native, value: &T::Native| match value.compare(best) {
                    order if order == is_better => *value,
                    _ => best,
                };
                held[0] = values.values().iter().fold(held[0], better);
                self.seen.all(groups);
            }
            None => {
                let rows = groups.iter().zip(values.values().iter());
                rows.for_each(|(group, value)| add(held, *group, *value));
                self.seen.all(groups);
            }
            Some(nulls) => {
                let rows = nulls.valid_indices();
                rows.for_each(|row| add(held, groups[row], values.values()[row]));
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
