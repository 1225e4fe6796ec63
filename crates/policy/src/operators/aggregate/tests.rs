//! Tests of partial aggregation: tables, frozen tables, memory, claims.

use super::*;
use proptest::prelude::*;

/// Rows whose neighbours are of other groups.
fn random(rows: usize) -> PartialTableRows {
    PartialTableRows { rows, runs: rows }
}

#[test]
fn sorted_rows_are_passed_on_as_runs() {
    let sorted = PartialTableRows { rows: GROUPS_TRIAL * 100, runs: GROUPS_TRIAL };
    let step = next(sorted, GROUPS_TRIAL, 0, 1 << 30);
    assert_eq!(step, PartialTableStep::FlushThenPassThrough(sorted.rows * PASSED_TABLES));
    // The groups of several sorted inputs recur.
    let merged = PartialTableRows { rows: GROUPS_TRIAL * 100, runs: GROUPS_TRIAL * 4 };
    assert_eq!(next(merged, GROUPS_TRIAL, 0, 1 << 30), PartialTableStep::Fill);
}

#[test]
fn ungroupable_rows_are_passed_on_for_a_while() {
    let share = 1 << 30;
    let fills = GROUPS_MAX - 1;
    assert_eq!(next(random(fills * 4 / 3), fills, 0, share), PartialTableStep::Fill);
    assert_eq!(next(random(GROUPS_MAX * 4), GROUPS_MAX, 0, share), PartialTableStep::Flush);
    for groups in [GROUPS_TRIAL, GROUPS_MAX] {
        let rows = groups + 10;
        let step = next(random(rows), groups, 0, share);
        assert_eq!(step, PartialTableStep::FlushThenPassThrough(rows * PASSED_TABLES));
    }
    let fills = GROUPS_TRIAL - 1;
    assert_eq!(next(random(fills), fills, 0, share), PartialTableStep::Fill);
    assert_eq!(next(random(100), 10, share + 1, share), PartialTableStep::Flush);
    assert_eq!(partial_table_bytes_max(usize::MAX, 0, 1), TABLE_BYTES_MAX);
}

/// Share of rows that a table of `capacity` groups passes on, of uniform keys, if they are
/// handled for `rows` rows as the policies say. The generator is that of Numerical Recipes.
fn passed_part(keys: usize, capacity: usize, rows: usize) -> f64 {
    let (mut table, mut taken) = (alloc::collections::BTreeSet::new(), 0);
    let (mut frozen, mut passing, mut passed): (Option<FrozenTable>, _, _) = (None, 0, 0);
    let mut state: u64 = 1;
    for _ in 0..rows {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = (state >> 33) as usize % keys;
        if passing > 0 {
            (passing, passed) = (passing - 1, passed + 1);
            continue;
        }
        let is_flushed = match &mut frozen {
            Some(state) => {
                let missed = usize::from(!table.contains(&key));
                passed += missed;
                !state.stays_after(1, missed)
            }
            None => {
                taken += 1;
                table.insert(key);
                let step = next(random(taken), table.len(), table.len(), capacity - 1);
                if step != PartialTableStep::Fill {
                    frozen = FrozenTable::after(random(taken), table.len());
                }
                step != PartialTableStep::Fill && frozen.is_none()
            }
        };
        if is_flushed {
            (frozen, passed) = (None, passed + table.len());
            let step = flush(random(taken), table.len());
            if let PartialTableStep::FlushThenPassThrough(rows) = step {
                passing = rows;
            }
            taken = 0;
            table.clear();
        }
    }
    (passed + table.len()) as f64 / rows as f64
}

#[test]
fn table_that_holds_most_keys_passes_on_the_rows_of_the_others() {
    let part = passed_part(1000, 800, 100_000);
    assert!((0.2..0.25).contains(&part), "{part}");
    let part = passed_part(1000, 400, 100_000);
    assert!((0.58..0.65).contains(&part), "{part}");
    assert!(passed_part(100_000, 500, 100_000) > 0.97);
}

proptest! {
    #[test]
    fn more_groups_never_lead_to_more_grouping(
        rows in 1usize..1 << 22, one in 0usize..1 << 22, other in 0usize..1 << 22,
    ) {
        let (fewer, more) = (one.min(other).min(rows), one.max(other).min(rows));
        let eager = |groups| match next(random(rows), groups, 0, 1 << 30) {
            PartialTableStep::Fill => 0,
            PartialTableStep::Flush => 1,
            PartialTableStep::FlushThenPassThrough(passed) => { assert!(passed >= rows); 2 }
        };
        prop_assert!(eager(fewer) <= eager(more));
    }

    #[test]
    fn frozen_table_stays_only_while_it_saves_more_than_a_new_one(
        filled in 1usize..1 << 20, groups in 1usize..1 << 20,
        steps in prop::collection::vec((0usize..5000, 0usize..5000), 1..200),
    ) {
        let groups = groups.min(filled);
        let Some(mut table) = FrozenTable::after(random(filled), groups) else {
            prop_assert!(groups * 4 <= filled + 3 || saves_little(random(filled), groups));
            return Ok(());
        };
        let (mut rows, mut missed) = (0, 0);
        for (more, of_these) in steps {
            (rows, missed) = (rows + more, missed + of_these.min(more));
            let is_judged = rows >= filled / 4;
            let stays = table.stays_after(more, of_these.min(more));
            let saves = missed * filled <= groups * rows && missed * 4 <= rows * 3;
            prop_assert_eq!(stays, !is_judged || saves);
            if is_judged {
                (rows, missed) = (0, 0);
            }
        }
    }

    #[test]
    fn tables_and_stored_states_stay_within_a_share(
        share in 8usize..1 << 40, stored in 0usize..1 << 40, tables in 1usize..5,
    ) {
        let table_bytes = partial_table_bytes_max(share, stored, tables);
        let may_store = !must_spill_states(stored, stored + table_bytes * tables, share, share);
        if may_store {
            prop_assert!(stored + table_bytes * tables <= share + 8);
        }
        // A frozen table stays while other states are stored.
        let table_bytes = frozen_table_bytes_max(share, 1);
        let held = stored + partial_table_memory_bytes(table_bytes);
        if !must_spill_states(stored, held, share, share) {
            prop_assert!(stored + table_bytes <= share + 8);
        }
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
