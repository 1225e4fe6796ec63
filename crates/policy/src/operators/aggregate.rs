//! Aggregation: whether partial aggregation pays off, and how many parts a partition combines.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem::take;
use core::ops::Range;

use super::hash_partitions::must_spill;

/// Groups of a partial table, at most: a larger table would not fit the caches.
const GROUPS_MAX: usize = 1 << 17;
/// Entries of a partial table of numbers, at most.
const NUMBERED_MAX: usize = 1 << 20;
/// After this number of rows, a table of numbers must have saved some; after four times as many, a
/// quarter.
const NUMBERED_TRIAL: usize = 1 << 16;
/// The same for a hash table of pairs.
const HASHED_TRIAL: usize = 1 << 15;
/// After this number of groups, a hash table must have saved some rows: until then its slots and
/// states fit the cache of a core.
const GROUPS_TRIAL: usize = 1 << 15;
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

/// The rows that a partial table has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialTableRows {
    /// The number of rows.
    pub rows: usize,
    /// The number of runs of neighbouring rows of one group. Such a run becomes one state without
    /// a table, so a table saves only what it has less groups than runs.
    pub runs: usize,
}

/// Decides after rows have formed `groups` groups of `bytes` in all, of at most `bytes_max`. A
/// table that saves nothing while it fits the cache is given up early.
///
/// ```
/// use euphrates_policy::aggregate::{PartialTableStep, PartialTableRows, next};
///
/// let bytes_max = 1 << 30;
/// let random = |rows| PartialTableRows { rows, runs: rows };
/// assert_eq!(next(random(1_000_000), 10, 1000, bytes_max), PartialTableStep::Fill);
/// assert_eq!(next(random(1_000_000), 200_000, 1000, bytes_max), PartialTableStep::Flush);
/// let step = next(random(40_000), 39_000, 1000, bytes_max);
/// assert_eq!(step, PartialTableStep::FlushThenPassThrough(640_000));
/// let sorted = PartialTableRows { rows: 160_000, runs: 40_000 };
/// let step = next(sorted, 40_000, 1000, bytes_max);
/// assert_eq!(step, PartialTableStep::FlushThenPassThrough(2_560_000));
/// ```
pub fn next(
    taken: PartialTableRows,
    groups: usize,
    bytes: usize,
    bytes_max: usize,
) -> PartialTableStep {
    assert!(groups <= taken.runs, "{groups} groups of {} runs", taken.runs);
    if groups < GROUPS_MAX && bytes <= bytes_max && !saves_little(taken, groups) {
        return PartialTableStep::Fill;
    }
    flush(taken, groups)
}

/// Whether so few groups have recurred that the cost of the table exceeds what it saves. A smaller
/// table says little about the rows that follow.
fn saves_little(taken: PartialTableRows, groups: usize) -> bool {
    groups >= GROUPS_TRIAL && groups > taken.runs / 8 * 7
}

/// Like [`next`], for distinct pairs of group and value, which are sent as they are: they are given
/// up as soon as hardly a pair recurs. If each is a few small numbers, more pairs fit the caches.
/// `pairs` may include some duplicates.
///
/// ```
/// use euphrates_policy::aggregate::{PartialTableStep, next_of_pairs};
///
/// let numbered = |rows, pairs| next_of_pairs(rows, pairs, 1000, 1 << 30, true);
/// assert_eq!(numbered(1_000_000, 500_000), PartialTableStep::Fill);
/// assert_eq!(numbered(3_000_000, 1_100_000), PartialTableStep::Flush);
/// assert!(matches!(numbered(300_000, 290_000), PartialTableStep::FlushThenPassThrough(_)));
/// let hashed = |rows, pairs| next_of_pairs(rows, pairs, 1000, 1 << 30, false);
/// assert_eq!(hashed(1_000_000, 500_000), PartialTableStep::Flush);
/// assert!(matches!(hashed(40_000, 39_000), PartialTableStep::FlushThenPassThrough(_)));
/// ```
pub fn next_of_pairs(
    rows: usize,
    pairs: usize,
    bytes: usize,
    bytes_max: usize,
    is_numbered: bool,
) -> PartialTableStep {
    assert!(pairs <= rows, "{pairs} pairs of {rows} rows");
    let (pairs_max, trial_rows) = match is_numbered {
        true => (NUMBERED_MAX, NUMBERED_TRIAL),
        false => (GROUPS_MAX, HASHED_TRIAL),
    };
    let saves_nothing = rows >= trial_rows && pairs > rows / 16 * 15;
    let saves_little = saves_nothing || rows >= trial_rows * 4 && pairs > rows / 4 * 3;
    match pairs < pairs_max && bytes <= bytes_max && !saves_little {
        true => PartialTableStep::Fill,
        false => flush(PartialTableRows { rows, runs: rows }, pairs),
    }
}

/// How to go on after a table with `groups` groups that is sent: never [`PartialTableStep::Fill`].
pub fn flush(taken: PartialTableRows, groups: usize) -> PartialTableStep {
    match groups > taken.runs / 4 * 3 {
        true => PartialTableStep::FlushThenPassThrough(taken.rows * PASSED_TABLES),
        false => PartialTableStep::Flush,
    }
}

/// A full partial table that adds rows to the groups that it has, and lets others pass. Its groups
/// never leave it, so it saves what a larger table would have saved for them, and all of it where
/// few keys have most rows.
///
/// ```
/// use euphrates_policy::aggregate::{FrozenTable, PartialTableRows};
///
/// let random = |rows| PartialTableRows { rows, runs: rows };
/// assert!(FrozenTable::after(random(1_000_000), 1000).is_none(), "a new table saves as much");
/// let mut table = FrozenTable::after(random(80_000), 60_000).unwrap();
/// assert!(table.stays_after(50_000, 20_000), "it passes on less than while it was filled");
/// assert!(!table.stays_after(50_000, 40_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrozenTable {
    /// Rows and groups of the table when it was full.
    filled: (usize, usize),
    /// Rows since the last decision, and those of them without a group here.
    rows: usize,
    missed: usize,
}

impl FrozenTable {
    /// A table that is full with `groups` groups; `None` if it has saved so much
    /// that a new one is better, since rows of other groups may follow, or almost nothing.
    pub fn after(taken: PartialTableRows, groups: usize) -> Option<FrozenTable> {
        let rows = taken.rows;
        assert!(groups <= rows, "{groups} groups of {rows} rows");
        let is_worth = groups > rows / FROZEN_ROWS_PER_GROUP && !saves_little(taken, groups);
        is_worth.then_some(FrozenTable { filled: (rows, groups), rows: 0, missed: 0 })
    }

    /// Whether it stays after `rows` more rows, of which `missed` have no group here: as long as it
    /// passes on a smaller part of its rows than when it was filled, and than three quarters.
    pub fn stays_after(&mut self, rows: usize, missed: usize) -> bool {
        assert!(missed <= rows, "{missed} of {rows} rows");
        self.rows += rows;
        self.missed += missed;
        let (filled_rows, groups) = self.filled;
        if self.rows < filled_rows / FROZEN_TRIAL {
            return true;
        }
        let (rows, missed) = (take(&mut self.rows), take(&mut self.missed));
        let is_part =
            |part: usize, of: usize| missed as u128 * of as u128 <= part as u128 * rows as u128;
        is_part(groups, filled_rows) && is_part(3, 4)
    }
}

/// A table with more rows for each group is flushed at once.
const FROZEN_ROWS_PER_GROUP: usize = 4;
/// A frozen table is judged after this part of the rows that filled it.
const FROZEN_TRIAL: usize = 4;

/// Whether parts balance the instances that count the distinct values of groups, given how many
/// rows of a sample are in each of equal parts of the hashes of groups, or of values: no part has
/// more than half of what an instance would have. If neither balance, one group has most of the
/// rows, and its values had better spread over all parts.
///
/// ```
/// use euphrates_policy::aggregate::parts_balance;
///
/// assert!(parts_balance(&[100; 64], 2));
/// let skewed = [100, 100, 100, 1000];
/// assert!(!parts_balance(&skewed, 2), "one part has 1000 of 1300 rows");
/// assert!(!parts_balance(&[100; 64], 50), "64 parts do not balance 50 instances");
/// ```
pub fn parts_balance(part_rows: &[usize], instances: usize) -> bool {
    let (largest, rows) = (part_rows.iter().max(), part_rows.iter().sum::<usize>());
    largest.is_some_and(|largest| *largest > 0 && largest * instances * 2 <= rows)
}

/// Whether there are few groups for their distinct values, given that the hashes of a sample are in
/// `used` of `parts` parts. Then these values are partitioned by value: a part has all groups and
/// few values, which a small bitmap holds, and the counts of each part are few.
///
/// ```
/// use euphrates_policy::aggregate::groups_are_few;
///
/// assert!(groups_are_few(100, 1024, 50_000));
/// assert!(!groups_are_few(100, 1024, 1_000), "the counts of parts would be as many");
/// assert!(!groups_are_few(900, 1024, 50_000), "most parts are used: there may be any number");
/// ```
pub fn groups_are_few(used: usize, parts: usize, rows: usize) -> bool {
    used * 2 <= parts && used * ROWS_PER_FEW_GROUPS <= rows
}

/// With fewer distinct values for each group, groups are not few.
const ROWS_PER_FEW_GROUPS: usize = 64;

/// The bytes of each of `tables` partial tables of an instance, at most, while it stores
/// `stored_bytes` of states beside them: three quarters of its share, or what is stored leaves of
/// that, but at least a quarter. A table that has all groups of the input saves the most, so it may
/// take more than its states could when it is sent: some of those are spilled then.
///
/// ```
/// use euphrates_policy::aggregate::partial_table_bytes_max;
///
/// assert_eq!(partial_table_bytes_max(1000, 0, 1), 750);
/// assert_eq!(partial_table_bytes_max(1000, 200, 1), 550);
/// assert_eq!(partial_table_bytes_max(1000, 600, 2), 125, "a quarter, divided by two tables");
/// ```
pub fn partial_table_bytes_max(share_bytes: usize, stored_bytes: usize, tables: usize) -> usize {
    let left_bytes = (share_bytes / 4 * 3).saturating_sub(stored_bytes).max(share_bytes / 4);
    (left_bytes / tables.max(1)).min(TABLE_BYTES_MAX)
}

/// The bytes of each of `tables` frozen tables of an instance, at most. It is more than a table may
/// have while it is filled, since the last rows of that may add many groups; a table that is larger
/// is flushed, also when the share has shrunk.
///
/// ```
/// use euphrates_policy::aggregate::frozen_table_bytes_max;
///
/// assert_eq!(frozen_table_bytes_max(1000, 1), 875);
/// ```
pub fn frozen_table_bytes_max(share_bytes: usize, tables: usize) -> usize {
    (share_bytes / 8 * 7 / tables.max(1)).min(TABLE_BYTES_MAX)
}

/// The memory for partial tables of `bytes`, and for what they are made of and send.
pub fn partial_table_memory_bytes(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 3)
}

/// Whether a process must spill states before it accepts more, given those that it stores, and all
/// that it holds beside them and with them. It may store part of `memory_bytes`, and hold
/// `intake_bytes` before its first output.
///
/// ```
/// use euphrates_policy::aggregate::must_spill_states;
///
/// assert!(must_spill_states(700, 700, 1000, 2000));
/// assert!(must_spill_states(400, 2001, 1000, 2000), "the tables leave less");
/// assert!(!must_spill_states(100, 2001, 1000, 2000), "a small spill frees too little");
/// ```
pub fn must_spill_states(
    stored_bytes: usize,
    held_bytes: usize,
    memory_bytes: usize,
    intake_bytes: usize,
) -> bool {
    let is_large = stored_bytes > memory_bytes / 8;
    must_spill(stored_bytes, memory_bytes) || (is_large && held_bytes > intake_bytes)
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
mod tests;
