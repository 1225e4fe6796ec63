//! Memory pressure: how much of its memory a cache returns when the machine has little left.

/// The part of the memory, as a divisor, that a cache leaves to others.
const RESERVE: u64 = 16;

/// Memory of a machine or of a control group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLevel {
    /// All there is.
    pub total: u64,
    /// What can still be used, reclaimable pages included.
    pub available: u64,
}

/// How many of `used` bytes a cache releases now: as many as bring what is available to twice its
/// reserve once it is less than the reserve, a sixteenth of the memory.
///
/// ```
/// use euphrates_policy::caching::pressure::{MemoryLevel, release_bytes};
///
/// let level = |available| MemoryLevel { total: 1600, available };
/// assert_eq!(release_bytes(level(100), 500), 0, "as much as the reserve is left");
/// assert_eq!(release_bytes(level(99), 500), 101);
/// assert_eq!(release_bytes(level(0), 50), 50, "all there is");
/// ```
pub fn release_bytes(memory: MemoryLevel, used: u64) -> u64 {
    let reserve = memory.total / RESERVE;
    match memory.available < reserve {
        true => (2 * reserve - memory.available).min(used),
        false => 0,
    }
}

/// How many bytes a cache may admit now, so that it would not release them at once.
///
/// ```
/// use euphrates_policy::caching::pressure::{MemoryLevel, admissible_bytes};
///
/// let level = |available| MemoryLevel { total: 1600, available };
/// assert_eq!(admissible_bytes(level(250)), 50);
/// assert_eq!(admissible_bytes(level(150)), 0);
/// ```
pub fn admissible_bytes(memory: MemoryLevel) -> u64 {
    memory.available.saturating_sub(2 * (memory.total / RESERVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_released_may_not_come_back_at_once() {
        for available in 0..2000 {
            let memory = MemoryLevel { total: 16_000, available };
            let released = release_bytes(memory, 10_000);
            let after = MemoryLevel { available: available + released, ..memory };
            assert_eq!(release_bytes(after, 10_000 - released), 0);
            assert!(released == 0 || admissible_bytes(after) == 0, "{available}");
        }
    }
}
