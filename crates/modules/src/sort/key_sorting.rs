//! Sorts keys: by their bits, and keys whose bits tie by the rest of their row encodings.
//!
//! Comparing two encodings reads two rows, each a cache miss, and a sort compares each key some
//! twenty times. Instead, sixteen bytes of every tied row are copied beside its key once, and the
//! copies are sorted; keys that tie again are refined by the bytes behind their common prefix
//! (multikey sorting: Bentley and Sedgewick, "Fast Algorithms for Sorting and Searching Strings",
//! SODA 1997).

use arrow::row::Rows;

use super::distribution_sort::distribution_sort;
use super::keys::key_encoder::KeyEncoder;
use super::keys::owned_keys::common_bytes;

/// Fewer tied keys are sorted by comparing their encodings.
const REFINED_MIN: usize = 12;
/// Bytes of an encoding that are copied at a time.
const WINDOW_BYTES: usize = size_of::<u128>();

/// Whether keys consist of a few sorted runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presorted {
    /// They do. Tied keys are sorted by a stable sort, which detects the runs; if keys are not
    /// exact, the first pass compares key bits without row ids, to keep the order within a run.
    Runs,
    /// They do not, or it is not known.
    No,
}

/// Sorts keys; equal ones by row id. `rows` returns the row encodings of a batch.
pub(crate) fn sort_keys<'a>(
    encoder: &KeyEncoder,
    keys: &mut [u128],
    rows: impl Fn(usize) -> Option<&'a Rows> + Copy,
    presorted: Presorted,
) {
    match presorted {
        // Tied keys of a run are in the order of their encodings, not of row ids.
        Presorted::Runs if !encoder.is_exact() => {
            distribution_sort(keys, |key| encoder.bits(key));
        }
        _ => distribution_sort(keys, |key| key),
    }
    if !encoder.is_exact() {
        sort_tied(encoder, keys, rows, presorted);
    }
}

/// Sorts each stretch of consecutive tied keys by their encodings, equal ones by row id.
/// No encoding may be a proper prefix of another.
fn sort_tied<'a>(
    encoder: &KeyEncoder,
    keys: &mut [u128],
    rows: impl Fn(usize) -> Option<&'a Rows> + Copy,
    presorted: Presorted,
) {
    let row = |key: u128| encoder.whole(key, rows);
    for tied in keys.chunk_by_mut(|a, b| encoder.bits(*a) == encoder.bits(*b)) {
        if tied.len() > 1 && encoder.is_tied(encoder.bits(tied[0])) {
            refine(tied, row, presorted);
        }
    }
}

/// Keys with a common prefix, by position in the slice, and the length of that prefix.
type Group = (std::ops::Range<usize>, usize);

fn refine<'a>(keys: &mut [u128], row: impl Fn(u128) -> &'a [u8] + Copy, presorted: Presorted) {
    // A list instead of recursion, whose depth would be that of the longest chain of prefixes.
    let mut groups: Vec<Group> = vec![(0..keys.len(), 0)];
    let mut windows: Vec<(u128, u128)> = vec![];
    while let Some((range, prefix)) = groups.pop() {
        let tied = &mut keys[range.clone()];
        if tied.len() < REFINED_MIN {
            tied.sort_unstable_by(|a, b| row(*a)[prefix..].cmp(&row(*b)[prefix..]).then(a.cmp(b)));
            continue;
        }
        let prefix = prefix + common_prefix(tied, prefix, row);
        if prefix == row(tied[0]).len() {
            // No encoding is a proper prefix of another, so all are equal.
            tied.sort();
            continue;
        }
        windows.clear();
        windows.extend(tied.iter().map(|key| (window(row(*key), prefix), *key)));
        match presorted {
            Presorted::Runs => windows.sort(),
            Presorted::No => windows.sort_unstable(),
        }
        let mut at = range.start;
        for group in windows.chunk_by(|a, b| a.0 == b.0) {
            let end = at + group.len();
            keys[at..end].iter_mut().zip(group).for_each(|(key, (_, sorted))| *key = *sorted);
            // If one encoding ends within the window, all of the group do, and are equal.
            if group.len() > 1 && row(group[0].1).len() > prefix + WINDOW_BYTES {
                groups.push((at..end, prefix + WINDOW_BYTES));
            }
            at = end;
        }
    }
}

/// The length of the common prefix of these keys' encodings after the first `from` bytes; 0 if it
/// is shorter than a window, which is not worth skipping.
fn common_prefix<'a>(keys: &[u128], from: usize, row: impl Fn(u128) -> &'a [u8]) -> usize {
    let first = &row(keys[0])[from..];
    let mut common = first.len();
    for key in &keys[1..] {
        common = common_bytes(&first[..common], &row(*key)[from..]);
        if common < WINDOW_BYTES {
            return 0;
        }
    }
    common
}

/// The bytes of an encoding from `at` on, as a number; zeros stand behind its end.
fn window(row: &[u8], at: usize) -> u128 {
    let rest = &row[at.min(row.len())..];
    match rest.first_chunk::<WINDOW_BYTES>() {
        Some(bytes) => u128::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; WINDOW_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            u128::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::record_batch::RecordBatch;
    use proptest::prelude::*;

    use super::super::keys::key_layout::KeyColumn;
    use super::*;

    /// Texts with common prefixes of several lengths, many of them equal.
    fn texts() -> impl Strategy<Value = Vec<String>> {
        let repeated = prop_oneof![Just(0usize), Just(11), Just(40), Just(300)];
        let text = (repeated, "[ab]{0,3}", 0usize..40);
        let text = text.prop_map(|(prefix, middle, end)| {
            "x".repeat(prefix) + &middle + &"y".repeat(end / 8 * 8)
        });
        prop::collection::vec(text, 0..300)
    }

    proptest! {
        #[test]
        fn refined_order_is_that_of_whole_keys(texts in texts(), runs in 1usize..4) {
            let schema = Schema::new(vec![Field::new("text", DataType::Utf8, false)]);
            let key = KeyColumn { column: 0, descending: false, nulls_first: false };
            let encoder = KeyEncoder::new(&schema, vec![key]).unwrap();
            let column: ArrayRef = Arc::new(StringArray::from(texts.clone()));
            let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
            let encoded = encoder.encode(&batch, 0).unwrap();
            let all = encoded.rows.unwrap();
            let mut wanted: Vec<(&String, usize)> =
                texts.iter().enumerate().map(|(at, text)| (text, at)).collect();
            wanted.sort();

            let ids = |keys: &[u128]| -> Vec<usize> {
                keys.iter().map(|key| encoder.id(*key) as usize).collect()
            };
            let wanted: Vec<usize> = wanted.into_iter().map(|(_, at)| at).collect();
            let mut keys = encoded.packed.clone();
            sort_keys(&encoder, &mut keys, |_| Some(&all), Presorted::No);
            prop_assert_eq!(ids(&keys), wanted.clone());

            let mut keys = encoded.packed;
            let run = keys.len().div_ceil(runs).max(1);
            keys.chunks_mut(run).for_each(|run| {
                sort_keys(&encoder, run, |_| Some(&all), Presorted::No);
            });
            sort_keys(&encoder, &mut keys, |_| Some(&all), Presorted::Runs);
            prop_assert_eq!(ids(&keys), wanted);
        }
    }
}
