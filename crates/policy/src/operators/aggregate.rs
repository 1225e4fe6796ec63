//! Aggregation: whether partial aggregation pays, and how partitions are claimed.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// Groups of a partial table, at most: a larger table would not fit the caches.
const GROUPS_MAX: usize = 1 << 17;
/// After a table that saved little, this many times its rows are passed on before the next attempt.
const PASSED_TABLES: usize = 16;

/// The next step of an instance with its partial table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialTableStep {
    /// Keep filling the table.
    Fill,
    /// Send the table's groups, and begin a new table.
    Flush,
    /// Send the table's groups, then pass on this many rows ungrouped: grouping them would cost
    /// more than it saves after the exchange.
    FlushThenPassThrough(usize),
}

/// Decides after `rows` rows have formed `groups` groups of `bytes` in all. `share_bytes` is the
/// memory of the instance.
///
/// ```
/// use euphrates_policy::aggregate::{PartialTableStep, next};
///
/// let share_bytes = 1 << 30;
/// assert_eq!(next(1_000_000, 10, 1000, share_bytes), PartialTableStep::Fill);
/// assert_eq!(next(1_000_000, 200_000, 1000, share_bytes), PartialTableStep::Flush);
/// let step = next(200_000, 200_000, 1000, share_bytes);
/// assert!(matches!(step, PartialTableStep::FlushThenPassThrough(_)));
/// ```
pub fn next(rows: usize, groups: usize, bytes: usize, share_bytes: usize) -> PartialTableStep {
    assert!(groups <= rows, "{groups} groups of {rows} rows");
    if groups < GROUPS_MAX && !table_is_full(bytes, share_bytes, 1) {
        return PartialTableStep::Fill;
    }
    match groups > rows / 4 * 3 {
        true => PartialTableStep::FlushThenPassThrough(rows * PASSED_TABLES),
        false => PartialTableStep::Flush,
    }
}

/// The largest table. It is sent as one batch, whose text columns may have 2 GiB each.
const TABLE_BYTES_MAX: usize = 1 << 30;

/// Whether one of `tables` tables of an instance has exceeded its part of `share_bytes`: a quarter,
/// since its input and what it sends need the rest.
///
/// ```
/// use euphrates_policy::aggregate::table_is_full;
///
/// assert!(!table_is_full(250, 1000, 1), "a quarter of the share");
/// assert!(table_is_full(250, 1000, 2), "the tables of an instance divide that quarter");
/// ```
pub fn table_is_full(bytes: usize, share_bytes: usize, tables: usize) -> bool {
    bytes > (share_bytes / TABLE_MEMORY / tables.max(1)).min(TABLE_BYTES_MAX)
}

/// The memory for a table of `bytes`, its input and what it sends.
///
/// ```
/// use euphrates_policy::aggregate::{table_is_full, table_memory_bytes};
///
/// assert!(!table_is_full(250, table_memory_bytes(250), 1), "a table may fill its reservation");
/// ```
pub fn table_memory_bytes(bytes: usize) -> usize {
    bytes.saturating_mul(TABLE_MEMORY)
}

/// A table fills one in this many bytes of its memory.
const TABLE_MEMORY: usize = 4;

/// Parts are claimed together up to this size: smaller claims are not worth their overhead.
const CLAIM_BYTES: usize = 1 << 20;

/// The units to claim, given the bytes of all parts: one part each, or several adjacent small ones.
/// The largest come first, so that the last claim is small.
///
/// ```
/// use euphrates_policy::aggregate::claim_units;
///
/// assert_eq!(claim_units(&[100, 0, 200, 5_000_000]), [3..4, 0..3]);
/// ```
pub fn claim_units(part_bytes: &[usize]) -> Vec<Range<usize>> {
    let mut claims: Vec<(usize, Range<usize>)> = Vec::new();
    for (part, bytes) in part_bytes.iter().copied().enumerate().filter(|(_, bytes)| *bytes > 0) {
        match claims.last_mut() {
            Some((sum, range)) if *sum + bytes <= CLAIM_BYTES => {
                *sum += bytes;
                range.end = part + 1;
            }
            _ => claims.push((bytes, part..part + 1)),
        }
    }
    claims.sort_by_key(|(bytes, _)| Reverse(*bytes));
    claims.into_iter().map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ungroupable_rows_are_passed_on_for_a_while() {
        let share = 1 << 30;
        assert_eq!(next(GROUPS_MAX - 1, GROUPS_MAX - 1, 0, share), PartialTableStep::Fill);
        assert_eq!(next(GROUPS_MAX * 4, GROUPS_MAX, 0, share), PartialTableStep::Flush);
        let rows = GROUPS_MAX + 10;
        assert_eq!(
            next(rows, GROUPS_MAX, 0, share),
            PartialTableStep::FlushThenPassThrough(rows * PASSED_TABLES)
        );
        assert_eq!(next(100, 10, share, share), PartialTableStep::Flush);
        assert_eq!(next(100, 10, TABLE_BYTES_MAX + 1, usize::MAX), PartialTableStep::Flush);
    }

    proptest! {
        #[test]
        fn more_groups_never_lead_to_more_grouping(
            rows in 1usize..1 << 22, one in 0usize..1 << 22, other in 0usize..1 << 22,
        ) {
            let (fewer, more) = (one.min(other).min(rows), one.max(other).min(rows));
            let eager = |groups| match next(rows, groups, 0, 1 << 30) {
                PartialTableStep::Fill => 0,
                PartialTableStep::Flush => 1,
                PartialTableStep::FlushThenPassThrough(passed) => { assert!(passed >= rows); 2 }
            };
            prop_assert!(eager(fewer) <= eager(more));
        }

        #[test]
        fn every_nonempty_part_is_claimed_once(
            parts in prop::collection::vec(0usize..CLAIM_BYTES * 2, 0..70),
        ) {
            let takes = claim_units(&parts);
            let bytes = |range: &Range<usize>| parts[range.clone()].iter().sum::<usize>();
            prop_assert!(takes.is_sorted_by_key(|range| Reverse(bytes(range))));
            for range in &takes {
                prop_assert!(bytes(range) <= CLAIM_BYTES || parts[range.start] == bytes(range));
            }
            for (part, bytes) in parts.iter().enumerate() {
                let times = takes.iter().filter(|range| range.contains(&part)).count();
                prop_assert!(times <= 1 && (times == 1 || *bytes == 0));
            }
        }
    }
}
