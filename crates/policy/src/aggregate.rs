//! The decisions of grouping: what the step before the exchange is worth, and what is taken then.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// Groups of a table that is filled before the exchange: more would leave the caches.
const GROUPS_MAX: usize = 1 << 17;
/// After a table that was of no use, so many times its rows are passed on before the next is tried.
const PASSED_TABLES: usize = 16;

/// What an instance does next with its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on filling it.
    Fill,
    /// It hands the table's groups on, and begins a new one.
    HandOn,
    /// The same, but passes the next rows, this many, on as they come: grouping them would cost
    /// more than it saves behind the exchange.
    PassOn(usize),
}

/// What follows when so many rows have made so many groups, which have so many bytes.
pub fn next(rows: usize, groups: usize, bytes: usize, share_bytes: usize) -> Next {
    assert!(groups <= rows, "{groups} groups of {rows} rows");
    if groups < GROUPS_MAX && !table_is_full(bytes, share_bytes, 1) {
        return Next::Fill;
    }
    match groups > rows / 4 * 3 {
        true => Next::PassOn(rows * PASSED_TABLES),
        false => Next::HandOn,
    }
}

/// A table is handed on as one batch, whose text may have 2 GiB a column.
const TABLE_BYTES_MAX: usize = 1 << 30;

/// Whether one of so many tables that an instance fills has its part of the share: as much again
/// is needed while it is handed on.
pub fn table_is_full(bytes: usize, share_bytes: usize, tables: usize) -> bool {
    bytes > (share_bytes / 4 / tables.max(1)).min(TABLE_BYTES_MAX)
}

/// Bytes that are worth being taken apart from others.
const TAKE_BYTES: usize = 1 << 20;

/// What is taken at once, given the bytes of all parts: one part, or several small ones that lie
/// side by side. The largest come first, so that none is left alone at the end.
pub fn takes(part_bytes: &[usize]) -> Vec<Range<usize>> {
    let mut takes: Vec<(usize, Range<usize>)> = Vec::new();
    for (part, bytes) in part_bytes.iter().copied().enumerate().filter(|(_, bytes)| *bytes > 0) {
        match takes.last_mut() {
            Some((sum, range)) if *sum + bytes <= TAKE_BYTES => {
                *sum += bytes;
                range.end = part + 1;
            }
            _ => takes.push((bytes, part..part + 1)),
        }
    }
    takes.sort_by_key(|(bytes, _)| Reverse(*bytes));
    takes.into_iter().map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_that_do_not_group_are_passed_on_and_tried_again() {
        let share = 1 << 30;
        assert_eq!(next(GROUPS_MAX - 1, GROUPS_MAX - 1, 0, share), Next::Fill);
        assert_eq!(next(GROUPS_MAX * 4, GROUPS_MAX, 0, share), Next::HandOn);
        let rows = GROUPS_MAX + 10;
        assert_eq!(next(rows, GROUPS_MAX, 0, share), Next::PassOn(rows * PASSED_TABLES));
        assert_eq!(next(100, 10, share, share), Next::HandOn);
        assert_eq!(next(100, 10, TABLE_BYTES_MAX + 1, usize::MAX), Next::HandOn);
    }

    proptest! {
        /// More groups of as many rows are never a reason to group them rather than pass them on.
        #[test]
        fn the_less_is_gained_the_less_is_tried(
            rows in 1usize..1 << 22, one in 0usize..1 << 22, other in 0usize..1 << 22,
        ) {
            let (fewer, more) = (one.min(other).min(rows), one.max(other).min(rows));
            let eager = |groups| match next(rows, groups, 0, 1 << 30) {
                Next::Fill => 0,
                Next::HandOn => 1,
                Next::PassOn(passed) => { assert!(passed >= rows); 2 }
            };
            prop_assert!(eager(fewer) <= eager(more));
        }

        #[test]
        fn every_part_with_rows_is_taken_once(
            parts in prop::collection::vec(0usize..TAKE_BYTES * 2, 0..70),
        ) {
            let takes = takes(&parts);
            let bytes = |range: &Range<usize>| parts[range.clone()].iter().sum::<usize>();
            prop_assert!(takes.is_sorted_by_key(|range| Reverse(bytes(range))));
            for range in &takes {
                prop_assert!(bytes(range) <= TAKE_BYTES || parts[range.start] == bytes(range));
            }
            for (part, bytes) in parts.iter().enumerate() {
                let times = takes.iter().filter(|range| range.contains(&part)).count();
                prop_assert!(times <= 1 && (times == 1 || *bytes == 0));
            }
        }
    }
}
