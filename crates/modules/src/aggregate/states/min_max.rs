//! States of `min` and `max`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, LargeBinaryArray,
    LargeBinaryBuilder, PrimitiveArray, downcast_primitive,
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

/// The minimum or maximum of text and bytes, in byte order.
pub(crate) struct BytesExtreme {
    is_max: bool,
    /// The first eight bytes of the value of each group, which decide nearly all comparisons.
    prefixes: Vec<u64>,
    values: Vec<Option<Box<[u8]>>>,
    bytes: usize,
}

impl BytesExtreme {
    /// The maximum if `is_max`, else the minimum.
    pub(crate) fn new(is_max: bool) -> BytesExtreme {
        BytesExtreme { is_max, prefixes: vec![], values: vec![], bytes: 0 }
    }

    fn add_all<const IS_MAX: bool>(&mut self, values: &LargeBinaryArray, groups: &[u32]) {
        let is_better = if IS_MAX { Ordering::Greater } else { Ordering::Less };
        for (group, value) in groups.iter().zip(values) {
            let Some(value) = value else { continue };
            let (prefix, group) = (prefix(value), *group as usize);
            let known = &mut self.prefixes[group];
            if if IS_MAX { prefix < *known } else { prefix > *known } {
                continue;
            }
            let best = &mut self.values[group];
            match best {
                Some(held) if prefix == *known && order(value, held) != is_better => continue,
                // A replacement usually has about the same length.
                Some(held) if held.len() == value.len() => held.copy_from_slice(value),
                _ => {
                    self.bytes += value.len();
                    self.bytes -= best.as_ref().map_or(0, |held| held.len());
                    *best = Some(value.into());
                }
            }
            *known = prefix;
        }
    }
}

/// The first eight bytes, with zeros behind a shorter value, as a number: that of a greater value
/// is not less.
#[inline(always)]
fn prefix(value: &[u8]) -> u64 {
    match value.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => value.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}

impl AggregateState for BytesExtreme {
    fn grow(&mut self, groups: usize) {
        // Any value replaces none.
        self.prefixes.resize(groups, if self.is_max { 0 } else { u64::MAX });
        self.values.resize(groups, None);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = values.expect("an extreme is of something").as_binary::<i64>();
        match self.is_max {
            true => self.add_all::<true>(values, groups),
            false => self.add_all::<false>(values, groups),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let mut out = LargeBinaryBuilder::with_capacity(self.values.len(), self.bytes);
        std::mem::take(&mut self.values).iter().for_each(|value| out.append_option(value.as_ref()));
        self.prefixes.clear();
        self.bytes = 0;
        Ok(Arc::new(out.finish()))
    }

    fn bytes(&self) -> usize {
        // The size of an entry, and the overhead of an allocation.
        self.bytes + self.values.len() * 48
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("[\0ab\u{ff}]{0,10}")
    }

    proptest! {
        #[test]
        fn extremes_of_bytes_are_those_of_slices(
            rows in prop::collection::vec((0_u32..3, text()), 0..99), is_max: bool,
        ) {
            let mut state = BytesExtreme::new(is_max);
            state.grow(3);
            let (groups, texts): (Vec<u32>, Vec<Option<String>>) = rows.into_iter().unzip();
            let bytes = texts.iter().map(|text| text.as_ref().map(String::as_bytes));
            let values: ArrayRef = Arc::new(bytes.collect::<LargeBinaryArray>());
            state.add(Some(&values), &groups).unwrap();
            let found = state.finish().unwrap();
            for group in 0..3 {
                let of_group = groups.iter().zip(&texts).filter(|(of, _)| **of == group);
                let of_group = of_group.filter_map(|(_, text)| text.as_ref().map(String::as_bytes));
                let expected = if is_max { of_group.max() } else { of_group.min() };
                let found = found.as_binary::<i64>();
                let found = found.is_valid(group as usize).then(|| found.value(group as usize));
                prop_assert_eq!(found, expected);
            }
        }
    }
}
