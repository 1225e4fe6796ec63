//! Estimates in bounded memory.
//!
//! The number of distinct values is estimated from the smallest of their hashes (Bar-Yossef et al.,
//! 2002): if the k-th smallest of evenly spread hashes lies at a fraction *f* of their range, there
//! are about (k − 1) / *f* of them. Up to k values the number is exact.
//!
//! Quantiles are estimated by t-digests (Dunning, 2019).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, LargeListArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion_functions_aggregate_common::tdigest::{Centroid, TDigest};
use euphrates_flow::Result;

use super::state::AggregateState;
use crate::decimal_floats::cast_nearest;
use crate::partitioning::hashing::hash_rows;

/// The hashes that are kept. The standard error is one by its root: 1.6 %.
const HASHES_MAX: usize = 4096;
/// The centroids of a digest.
const CENTROIDS: usize = 200;
/// Values that are buffered before they are merged into a digest.
const BUFFERED_VALUES: usize = 1024;

/// The type of the state of an estimated number of distinct values.
pub(super) fn hashes_type() -> DataType {
    DataType::LargeList(item(DataType::UInt64))
}

/// The type of the state of an estimated quantile: a digest as numbers.
pub(super) fn digest_type() -> DataType {
    DataType::LargeList(item(DataType::Float64))
}

fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type, true))
}

fn lists(values: ArrayRef, lengths: Vec<usize>) -> Result<ArrayRef> {
    let item = item(values.data_type().clone());
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(LargeListArray::try_new(item, offsets, values, None)?))
}

/// The smallest hashes of the values of each group: sorted ones, then new ones.
#[derive(Default)]
pub(crate) struct DistinctSketch {
    groups: Vec<SmallestHashes>,
    held: usize,
}

#[derive(Clone, Default)]
struct SmallestHashes {
    hashes: Vec<u64>,
    /// How many of them are sorted and distinct.
    sorted: usize,
}

impl SmallestHashes {
    /// Adds a hash, unless it is certainly too large to count.
    fn add(&mut self, hash: u64) {
        if self.sorted == HASHES_MAX && hash > self.hashes[HASHES_MAX - 1] {
            return;
        }
        self.hashes.push(hash);
        if self.hashes.len() >= 2 * self.sorted.max(8) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self.hashes.truncate(HASHES_MAX);
        self.sorted = self.hashes.len();
    }

    fn estimate(mut self) -> i64 {
        self.settle();
        match self.hashes.get(HASHES_MAX - 1) {
            Some(last) => {
                ((HASHES_MAX - 1) as f64 / (*last as f64 / u64::MAX as f64)).round() as i64
            }
            None => self.hashes.len() as i64,
        }
    }
}

impl DistinctSketch {
    fn push(&mut self, group: u32, hash: u64) {
        let group = &mut self.groups[group as usize];
        let before = group.hashes.len();
        group.add(hash);
        self.held = self.held + group.hashes.len() - before;
    }
}

impl AggregateState for DistinctSketch {
    fn grow(&mut self, groups: usize) {
        self.groups.resize(groups, SmallestHashes::default());
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = values.expect("it is of something");
        let hashes = hash_rows(std::slice::from_ref(values))?;
        let nulls = values.logical_nulls();
        for (row, (group, hash)) in groups.iter().zip(hashes).enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                self.push(*group, hash);
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let lists = states[0].as_list::<i64>();
        let hashes = lists.values().as_primitive::<UInt64Type>().values();
        for (group, ends) in groups.iter().zip(lists.value_offsets().windows(2)) {
            let hashes = &hashes[ends[0] as usize..ends[1] as usize];
            hashes.iter().for_each(|hash| self.push(*group, *hash));
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        self.held = 0;
        let mut groups = std::mem::take(&mut self.groups);
        groups.iter_mut().for_each(SmallestHashes::settle);
        let lengths = groups.iter().map(|group| group.hashes.len()).collect();
        let hashes = groups.iter().flat_map(|group| group.hashes.iter().copied());
        Ok(vec![lists(Arc::new(UInt64Array::from_iter_values(hashes)), lengths)?])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.held = 0;
        let groups = std::mem::take(&mut self.groups).into_iter();
        Ok(Arc::new(Int64Array::from_iter_values(groups.map(SmallestHashes::estimate))))
    }

    fn bytes(&self) -> usize {
        self.groups.len() * size_of::<SmallestHashes>() + self.held * size_of::<u64>()
    }
}

/// The digests of all groups.
pub(crate) struct QuantileSketch {
    fraction: f64,
    groups: Vec<BufferedDigest>,
    held: usize,
}

#[derive(Clone, Default)]
struct BufferedDigest {
    digest: Option<TDigest>,
    buffered: Vec<f64>,
}

impl BufferedDigest {
    fn settle(&mut self) {
        if self.buffered.is_empty() {
            return;
        }
        let mut values = std::mem::take(&mut self.buffered);
        values.sort_unstable_by(f64::total_cmp);
        let digest = self.digest.take().unwrap_or_else(|| TDigest::new(CENTROIDS));
        self.digest = Some(digest.merge_sorted_f64(&values));
    }
}

impl QuantileSketch {
    pub(crate) fn new(fraction: f64) -> QuantileSketch {
        QuantileSketch { fraction, groups: vec![], held: 0 }
    }
}

impl AggregateState for QuantileSketch {
    fn grow(&mut self, groups: usize) {
        self.groups.resize(groups, BufferedDigest::default());
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = cast_nearest(values.expect("it is of something"), &DataType::Float64)?;
        for (group, value) in groups.iter().zip(values.as_primitive::<Float64Type>()) {
            let Some(value) = value.filter(|value| !value.is_nan()) else { continue };
            let group = &mut self.groups[*group as usize];
            group.buffered.push(value);
            self.held += 1;
            if group.buffered.len() >= BUFFERED_VALUES {
                let before = group.buffered.len();
                group.settle();
                self.held = self.held + CENTROIDS - before.min(self.held);
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let lists = states[0].as_list::<i64>();
        let numbers = lists.values().as_primitive::<Float64Type>().values();
        for (group, ends) in groups.iter().zip(lists.value_offsets().windows(2)) {
            let numbers = &numbers[ends[0] as usize..ends[1] as usize];
            let Some(other) = digest_of(numbers) else { continue };
            let group = &mut self.groups[*group as usize];
            group.settle();
            self.held += CENTROIDS;
            group.digest = Some(match group.digest.take() {
                Some(digest) => TDigest::merge_digests([&digest, &other]),
                None => other,
            });
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        self.held = 0;
        let (mut numbers, mut lengths) = (vec![], vec![]);
        for mut group in std::mem::take(&mut self.groups) {
            group.settle();
            let before = numbers.len();
            if let Some(digest) = &group.digest {
                numbers.extend([digest.sum(), digest.count(), digest.max(), digest.min()]);
                let centroids = digest.centroids().iter();
                numbers.extend(centroids.flat_map(|one| [one.mean(), one.weight()]));
            }
            lengths.push(numbers.len() - before);
        }
        Ok(vec![lists(Arc::new(Float64Array::from(numbers)), lengths)?])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.held = 0;
        let fraction = self.fraction;
        let estimate = |mut group: BufferedDigest| {
            group.settle();
            Some(group.digest?.estimate_quantile(fraction))
        };
        let groups = std::mem::take(&mut self.groups).into_iter();
        Ok(Arc::new(groups.map(estimate).collect::<Float64Array>()))
    }

    fn bytes(&self) -> usize {
        self.groups.len() * size_of::<BufferedDigest>() + self.held * 2 * size_of::<f64>()
    }
}

/// The digest that these numbers describe; `None` of no values.
fn digest_of(numbers: &[f64]) -> Option<TDigest> {
    let ([sum, count, max, min], centroids) = numbers.split_first_chunk()?;
    let centroids = centroids.chunks_exact(2).map(|one| Centroid::new(one[0], one[1])).collect();
    TDigest::try_from_parts(CENTROIDS, *sum, *count, *max, *min, centroids).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(of: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(of))
    }

    /// The result of values that are added to two states, which are merged.
    fn merged(start: impl Fn() -> Box<dyn AggregateState>, values: i64) -> ArrayRef {
        let mut whole = start();
        whole.grow(2);
        for part in [numbers(0..values), numbers(values / 2..values * 3 / 2)] {
            let mut state = start();
            state.grow(1);
            state.add(Some(&part), &vec![0; part.len()]).unwrap();
            whole.merge(&state.take().unwrap(), &[1]).unwrap();
        }
        whole.finish().unwrap()
    }

    #[test]
    fn few_distinct_values_are_counted_exactly() {
        let counts = merged(|| Box::new(DistinctSketch::default()), 1000);
        assert_eq!(counts.as_ref(), &Int64Array::from(vec![0, 1500]));
    }

    #[test]
    fn many_distinct_values_are_estimated_within_five_percent() {
        let counts = merged(|| Box::new(DistinctSketch::default()), 200_000);
        let count = counts.as_primitive::<arrow::datatypes::Int64Type>().value(1);
        assert!((285_000..315_000).contains(&count), "{count}");
    }

    #[test]
    fn quantiles_are_estimated_within_two_percent() {
        let found = merged(|| Box::new(QuantileSketch::new(0.9)), 100_000);
        let found = found.as_primitive::<Float64Type>();
        assert!(found.is_null(0));
        // The values of 50,000 to 100,000 come twice.
        assert!((found.value(1) - 130_000.0).abs() < 3_000.0, "{}", found.value(1));
    }
}
