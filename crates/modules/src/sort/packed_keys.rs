//! A list of sort keys, of 8 bytes each if these tell them apart, otherwise of 16.
//!
//! A sort moves and compares its keys several times, so keys of half the size take about half the
//! time. A list is narrow as long as all its keys agree in what is left out: the bits above the
//! lowest 64, which are those of nulls if a value has 64 bits or, with its row id, 64; and row ids,
//! if the columns can be decoded from key bits, so that no row is looked up.

use arrow::datatypes::Schema;
use arrow::row::Rows;

use super::distribution_sort::distribution_sort;
use super::key_sorting::{Presorted, sort_keys};
use super::keys::key_encoder::KeyEncoder;
#[cfg(target_arch = "x86_64")]
use super::vector_sort::VectorSort;

/// Keys of one encoder.
pub(crate) struct PackedKeys {
    keys: Words,
    /// How many of a key's lowest bits narrow keys leave out; `None` if keys cannot be narrow.
    left_out: Option<u32>,
    /// Whether all columns can be decoded from key bits.
    has_columns: bool,
}

enum Words {
    /// The lowest 64 bits of keys that have the same bits above.
    Narrow {
        above: u64,
        lowest: Vec<u64>,
    },
    Wide(Vec<u128>),
}

impl PackedKeys {
    /// No keys, of records with this schema.
    pub(crate) fn new(encoder: &KeyEncoder, schema: &Schema) -> PackedKeys {
        let has_columns = encoder.is_exact() && encoder.has_all(schema);
        let left_out = if has_columns { encoder.id_bits() } else { 0 };
        PackedKeys::with(encoder.is_exact().then_some(left_out), has_columns)
    }

    fn with(left_out: Option<u32>, has_columns: bool) -> PackedKeys {
        let keys = match left_out {
            Some(_) => Words::Narrow { above: 0, lowest: vec![] },
            None => Words::Wide(vec![]),
        };
        PackedKeys { keys, left_out, has_columns }
    }

    /// Takes all keys, and leaves none.
    pub(crate) fn take(&mut self) -> PackedKeys {
        let fresh = PackedKeys::with(self.left_out, self.has_columns);
        std::mem::replace(self, fresh)
    }

    /// Whether all columns of the records can be decoded from the keys.
    pub(crate) fn has_columns(&self) -> bool {
        self.has_columns
    }

    pub(crate) fn len(&self) -> usize {
        match &self.keys {
            Words::Narrow { lowest, .. } => lowest.len(),
            Words::Wide(keys) => keys.len(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.keys {
            Words::Narrow { lowest, .. } => size_of_val(&lowest[..]),
            Words::Wide(keys) => size_of_val(&keys[..]),
        }
    }

    pub(crate) fn reserve_exact(&mut self, keys: usize) {
        match &mut self.keys {
            Words::Narrow { lowest, .. } => lowest.reserve_exact(keys),
            Words::Wide(keys_) => keys_.reserve_exact(keys),
        }
    }

    /// The key at a position; its row id is 0 if narrow keys leave it out.
    pub(crate) fn get(&self, at: usize) -> u128 {
        match &self.keys {
            Words::Narrow { above, lowest } => wide(*above, lowest[at], self.shift()),
            Words::Wide(keys) => keys[at],
        }
    }

    /// The keys of a range, as `get` returns them.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Vec<u128> {
        match &self.keys {
            Words::Narrow { above, lowest } => {
                let shift = self.shift();
                lowest[range].iter().map(|key| wide(*above, *key, shift)).collect()
            }
            Words::Wide(keys) => keys[range].to_vec(),
        }
    }

    /// The first position whose key does not satisfy a condition that a prefix of the keys does.
    pub(crate) fn partition_point(&self, is_before: impl Fn(u128) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(self.get(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    pub(crate) fn truncate(&mut self, keys: usize) {
        match &mut self.keys {
            Words::Narrow { lowest, .. } => lowest.truncate(keys),
            Words::Wide(all) => all.truncate(keys),
        }
    }

    /// Adds keys behind the others.
    pub(crate) fn extend(&mut self, keys: &[u128]) {
        let shift = self.shift();
        if let Words::Narrow { above, lowest } = &mut self.keys {
            let Some(first) = keys.first() else { return };
            if lowest.is_empty() {
                *above = above_of(*first, shift);
            }
            // In one pass: all bits in which any differs.
            let differing = keys.iter().fold(0, |all, key| all | (above_of(*key, shift) ^ *above));
            if differing == 0 {
                return lowest.extend(keys.iter().map(|key| (*key >> shift) as u64));
            }
        }
        self.widened().extend_from_slice(keys);
    }

    /// Adds a range of the keys of another list behind the others, their batch numbers increased.
    pub(crate) fn extend_from(
        &mut self,
        other: &PackedKeys,
        range: std::ops::Range<usize>,
        encoder: &KeyEncoder,
        batches: usize,
    ) {
        if range.is_empty() {
            return;
        }
        let added = encoder.renumber(0, batches);
        match (&mut self.keys, &other.keys) {
            (Words::Narrow { above, lowest }, Words::Narrow { above: its, lowest: others })
                if lowest.is_empty() || above == its =>
            {
                *above = *its;
                // Row ids that are left out have no batch numbers.
                let added = if self.left_out == Some(0) { added as u64 } else { 0 };
                lowest.extend(others[range].iter().map(|key| key + added));
            }
            (_, Words::Wide(others)) => {
                let others = others[range].iter().map(|key| key + added);
                self.widened().extend(others);
            }
            _ => {
                let others = other.slice(range).into_iter().map(|key| key + added);
                self.widened().extend(others);
            }
        }
    }

    /// Sorts the keys; equal ones by row id. `rows` returns the row encodings of a batch.
    pub(crate) fn sort<'a>(
        &mut self,
        encoder: &KeyEncoder,
        rows: impl Fn(usize) -> Option<&'a Rows> + Copy,
        presorted: Presorted,
    ) {
        match &mut self.keys {
            // Keys are exact.
            Words::Narrow { lowest, .. } => sort_narrow(lowest),
            Words::Wide(keys) => sort_keys(encoder, keys, rows, presorted),
        }
    }

    /// How many bits narrow keys leave out.
    fn shift(&self) -> u32 {
        self.left_out.unwrap_or(0)
    }

    /// The keys, wide from now on.
    fn widened(&mut self) -> &mut Vec<u128> {
        if let Words::Narrow { .. } = self.keys {
            self.keys = Words::Wide(self.slice(0..self.len()));
        }
        match &mut self.keys {
            Words::Wide(keys) => keys,
            Words::Narrow { .. } => unreachable!("they have just been widened"),
        }
    }
}

/// Sorts keys of 64 bits, with vectors where the processor has them.
fn sort_narrow(keys: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(vectors) = VectorSort::of_this_processor() {
        return vectors.sort(keys);
    }
    distribution_sort(keys, |key| key);
}

/// The bits above the lowest 64 and those left out below.
fn above_of(key: u128, left_out: u32) -> u64 {
    // A key has 128 bits, so that none is lost.
    (key >> left_out >> u64::BITS) as u64
}

fn wide(above: u64, lowest: u64, left_out: u32) -> u128 {
    (u128::from(above) << u64::BITS | u128::from(lowest)) << left_out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, Int64Array};
    use arrow::record_batch::RecordBatch;
    use proptest::prelude::*;

    use super::super::keys::key_layout::KeyColumn;
    use super::*;

    /// Batches of values; only some have nulls, and not the first.
    fn batches() -> impl Strategy<Value = Vec<Vec<Option<i64>>>> {
        let value = prop_oneof![any::<i64>(), -3..3i64];
        let with_nulls = prop::collection::vec(prop::option::weighted(0.9, value.clone()), 1..50);
        let without = prop::collection::vec(value.prop_map(Some), 1..50);
        let others = prop::collection::vec(prop_oneof![without.clone(), with_nulls], 0..5);
        (without, others).prop_map(|(first, others)| [vec![first], others].concat())
    }

    proptest! {
        #[test]
        fn narrow_keys_have_the_order_and_the_rows_of_wide_ones(
            batches in batches(),
            has_payload in any::<bool>(),
            is_short in any::<bool>(),
            descending in any::<bool>(),
            cut in 0usize..50,
        ) {
            let table = |values: &Vec<Option<i64>>| {
                let short = || values.iter().map(|value| value.map(|value| value as i32));
                let column: ArrayRef = match is_short {
                    true => Arc::new(short().collect::<Int32Array>()),
                    false => Arc::new(Int64Array::from(values.clone())),
                };
                let columns = [("key", column.clone()), ("payload", column)];
                let columns = columns.into_iter().take(1 + usize::from(has_payload));
                RecordBatch::try_from_iter_with_nullable(
                    columns.map(|(name, column)| (name, column, true)),
                )
                .unwrap()
            };
            let schema = table(&batches[0]).schema();
            let key = KeyColumn { column: 0, descending, nulls_first: false };
            let encoder = KeyEncoder::new(&schema, vec![key]).unwrap();
            let (mut first, mut wide) = (PackedKeys::new(&encoder, &schema), vec![]);
            for (number, batch) in batches.iter().enumerate() {
                let keys = encoder.encode(&table(batch), number).unwrap().packed;
                first.extend(&keys);
                wide.extend(keys.iter().map(|key| encoder.renumber(*key, 7)));
            }
            // As ranges are merged: parts of sorted chunks, renumbered.
            first.sort(&encoder, |_| None, Presorted::No);
            let mut all = PackedKeys::new(&encoder, &schema);
            let cut = cut.min(first.len());
            all.extend_from(&first, cut..first.len(), &encoder, 7);
            all.extend_from(&first, 0..cut, &encoder, 7);
            all.sort(&encoder, |_| None, Presorted::Runs);
            wide.sort();
            let has_nulls = batches.iter().flatten().any(Option::is_none);
            if !has_nulls && (!has_payload || is_short) {
                prop_assert_eq!(all.bytes(), wide.len() * size_of::<u64>());
            }
            // Row ids do not matter where all columns are decoded.
            let seen = |key: u128| if has_payload { key } else { encoder.bits(key) };
            let found: Vec<u128> = all.slice(0..all.len()).into_iter().map(seen).collect();
            let wide: Vec<u128> = wide.into_iter().map(seen).collect();
            prop_assert_eq!(&found, &wide);
            let bound = wide[wide.len() / 2];
            let before = |key: u128| seen(key) < bound;
            prop_assert_eq!(all.partition_point(before), wide.partition_point(|key| *key < bound));
        }
    }
}
