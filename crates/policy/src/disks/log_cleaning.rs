//! Which segments of a volume's log to rewrite, so that the space of overwritten bytes is free
//! again.

use alloc::vec::Vec;

/// A segment that is no longer written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its number.
    pub number: u64,
    /// Bytes that were written to it, parity left out.
    pub bytes: u64,
    /// Bytes of them that files contain.
    pub live: u64,
    /// Whether blocks of it are missing: rewriting it restores redundancy.
    pub is_degraded: bool,
}

/// Bytes that one pass moves, at most, beyond its first segment.
pub const PASS_BYTES_MAX: u64 = 64 << 20;
/// Segments below this length are small.
const SMALL_BYTES: u64 = 4 << 20;
/// Small segments that may exist, each of which costs a file on each disk.
const SMALL_MAX: usize = 32;

/// The segments to rewrite now: degraded ones, then those of which less than half is live, the
/// emptiest first; and small ones if there are many. Segments without live bytes need no rewriting.
pub fn choose(segments: &[SegmentUse]) -> Vec<u64> {
    let small = |one: &&SegmentUse| one.live > 0 && one.bytes < SMALL_BYTES;
    let has_many_small = segments.iter().filter(small).count() > SMALL_MAX;
    let is_worth = |one: &&SegmentUse| {
        let is_empty_enough = one.live * 2 < one.bytes;
        one.live > 0
            && (one.is_degraded || is_empty_enough || has_many_small && one.bytes < SMALL_BYTES)
    };
    let mut worth: Vec<&SegmentUse> = segments.iter().filter(is_worth).collect();
    // Live shares as cross products: a/b < c/d if ad < cb.
    worth.sort_by(|a, b| {
        let shares = (u128::from(a.live) * u128::from(b.bytes))
            .cmp(&(u128::from(b.live) * u128::from(a.bytes)));
        b.is_degraded.cmp(&a.is_degraded).then(shares).then(a.number.cmp(&b.number))
    });
    let mut moved = 0;
    let fits = |one: &&SegmentUse| {
        let is_first = moved == 0;
        moved += one.live;
        is_first || moved <= PASS_BYTES_MAX
    };
    worth.into_iter().take_while(fits).map(|one| one.number).collect()
}

/// Whether a checkpoint is due: after this many bytes of log, which a replay has to read; or after
/// a time of changes, which grows with what the last checkpoint took.
pub fn is_checkpoint_due(log_bytes: u64, since_ns: u64, took_ns: u64) -> bool {
    const LOG_BYTES_MAX: u64 = 256 << 20;
    const INTERVAL_NS: u64 = 30_000_000_000;
    log_bytes >= LOG_BYTES_MAX
        || log_bytes > 0 && since_ns >= INTERVAL_NS.max(took_ns.saturating_mul(20))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn segment(number: u64, bytes: u64, live: u64) -> SegmentUse {
        SegmentUse { number, bytes, live, is_degraded: false }
    }

    #[test]
    fn emptiest_segments_are_rewritten_first_and_full_ones_not() {
        let mb = 1 << 20;
        let mut segments = [
            segment(1, 64 * mb, 60 * mb),
            segment(2, 64 * mb, 20 * mb),
            segment(3, 64 * mb, 0),
            segment(4, 64 * mb, 10 * mb),
        ];
        assert_eq!(choose(&segments), [4, 2]);
        segments[0].is_degraded = true;
        assert_eq!(choose(&segments), [1], "the others wait for the next pass");
    }

    #[test]
    fn checkpoint_waits_for_changes_and_for_twenty_times_its_duration() {
        assert!(!is_checkpoint_due(0, u64::MAX, 0));
        assert!(!is_checkpoint_due(1, 29_000_000_000, 0));
        assert!(is_checkpoint_due(1, 30_000_000_000, 0));
        assert!(!is_checkpoint_due(1, 60_000_000_000, 4_000_000_000));
        assert!(is_checkpoint_due(256 << 20, 0, 4_000_000_000));
    }

    proptest! {
        /// Rewriting packs the live bytes; passes end, and then at most twice the live bytes and
        /// the small segments are stored.
        #[test]
        fn passes_end_with_little_garbage(
            uses in prop::collection::vec((1_u64..80 << 20, 0.0..1.0_f64), 0..80),
        ) {
            let live_of = |bytes: u64, share: f64| (bytes as f64 * share) as u64;
            let numbered = (0..).zip(uses).map(|(number, (bytes, share))| {
                (number, segment(number, bytes, live_of(bytes, share)))
            });
            let mut segments: BTreeMap<u64, SegmentUse> = numbered.collect();
            let live: u64 = segments.values().map(|one| one.live).sum();
            for next in 1000..2000 {
                segments.retain(|_, one| one.live > 0);
                let all: Vec<SegmentUse> = segments.values().copied().collect();
                let chosen = choose(&all);
                if chosen.is_empty() {
                    break;
                }
                let taken = chosen.iter().map(|number| segments.remove(number).unwrap().live);
                let moved: u64 = taken.sum();
                segments.insert(next, segment(next, moved, moved));
            }
            let all: Vec<SegmentUse> = segments.values().copied().collect();
            prop_assert!(choose(&all).is_empty());
            prop_assert_eq!(all.iter().map(|one| one.live).sum::<u64>(), live);
            prop_assert!(all.iter().map(|one| one.bytes).sum::<u64>() <= 2 * live);
        }
    }
}
