//! Division of the memory budget between instances, queues, sinks and readers.

/// Memory of a process that nothing accounts for: code, stacks, an interpreter (35 MB before it has
/// read a byte), and fragmentation of the allocator.
pub(crate) const BASE_BYTES: usize = 64 << 20;

/// The part of the budget that modules divide ([`crate::memory_arbiter`]). Queues, cached slabs and
/// the buffers of sinks have bounds of their own and are subtracted first, as far as that leaves a
/// quarter of the budget and 12 MiB (8 MiB below 64, and at most half): they seldom reach their
/// bounds all at once, while a table of groups that just does not fit costs a multiple of the time.
///
/// ```
/// use euphrates_policy::memory::modules_bytes;
///
/// let budget = 1 << 30;
/// assert_eq!(modules_bytes(budget, 64 << 20), budget - (64 + 64 + 64 + 128 << 20));
/// assert_eq!(modules_bytes(budget, 2 << 30), (256 + 12) << 20, "the least");
/// assert_eq!(modules_bytes(128 << 20, 32 << 20), (32 + 12) << 20);
/// assert_eq!(modules_bytes(48 << 20, 12 << 20), (12 + 8) << 20);
/// assert_eq!(modules_bytes(24 << 20, 10 << 20), 12 << 20, "half of a small budget");
/// ```
pub fn modules_bytes(budget: usize, queue_bytes: usize) -> usize {
    let apart = BASE_BYTES + queue_bytes + slabs_bytes_max(budget) + budget / 8;
    let more = if budget < SCARCE_BYTES { MODULES_BYTES_MORE_SCARCE } else { MODULES_BYTES_MORE };
    let least = (budget / 2).min(budget / 4 + more).max(SHARE_BYTES_MIN);
    budget.saturating_sub(apart).max(least)
}

/// What modules get beyond a quarter of a budget of which the rest would have nothing else.
const MODULES_BYTES_MORE: usize = 12 << 20;

/// The same for a budget below [`SCARCE_BYTES`]: batches of long texts in queues and readers take
/// more than their part of it.
const MODULES_BYTES_MORE_SCARCE: usize = 8 << 20;

/// The budget below which it has no room beside modules.
const SCARCE_BYTES: usize = 64 << 20;

/// Bytes of unused slabs that the pool keeps, at most.
///
/// ```
/// use euphrates_policy::memory::slabs_bytes_max;
///
/// assert_eq!(slabs_bytes_max(2 << 30), 128 << 20);
/// assert_eq!(slabs_bytes_max(128 << 20), 16 << 20, "an eighth of a small budget");
/// assert_eq!([0, 1 << 40].map(slabs_bytes_max), [2 << 20, 128 << 20], "the bounds");
/// ```
pub fn slabs_bytes_max(budget: usize) -> usize {
    // Blocks of spilled parts have sizes of their own: where the pool has no room for some of each,
    // every block that is read is mapped and unmapped, which interrupts the other processors.
    (budget / 8).min(SLABS_BYTES_SMALL).max(budget / 16).clamp(2 << 20, 128 << 20)
}

/// The most free slabs for budgets from 8 to 16 times this size; smaller budgets keep an eighth,
/// larger ones a sixteenth.
const SLABS_BYTES_SMALL: usize = 16 << 20;

/// The default bound of a queue: `usual`, or less where all queues together would exceed a quarter
/// of the budget.
///
/// ```
/// use euphrates_policy::memory::queue_bytes_max;
///
/// let usual = 8 << 20;
/// assert_eq!(queue_bytes_max(4 << 30, 10, usual), usual);
/// assert_eq!(queue_bytes_max(64 << 20, 8, usual), 2 << 20, "a quarter of the budget in all");
/// assert_eq!(queue_bytes_max(64 << 20, 1000, usual), 1 << 20, "the smallest");
/// ```
pub fn queue_bytes_max(budget: usize, queues: usize, usual: usize) -> usize {
    (budget / 4 / queues.max(1)).clamp(QUEUE_BYTES_MIN.min(usual), usual)
}

/// The smallest default bound of a queue; below it a queue would hold single batches.
const QUEUE_BYTES_MIN: usize = 1 << 20;

/// The size in bytes from which allocations are mapped, and returned to the system when freed:
/// small where the budget has no room for fragmentation, since each mapping costs page faults.
///
/// ```
/// use euphrates_policy::memory::mapped_bytes_min;
///
/// assert_eq!(mapped_bytes_min(128 << 20), 512 << 10);
/// assert_eq!(mapped_bytes_min(1 << 30), 32 << 20);
/// ```
pub fn mapped_bytes_min(budget: usize) -> usize {
    if is_short(budget) { MAPPED_BYTES_SHORT } else { MAPPED_BYTES_MAX }
}

/// Whether fragmentation would be a considerable part of a budget.
fn is_short(budget: usize) -> bool {
    budget < SHORT_BYTES
}

/// The most heaps of the allocator on this number of cores; `None` if it had better choose. Each
/// heap keeps free memory of its own. Two for each core suffice for threads that seldom wait for
/// each other; the C library's default is eight.
///
/// ```
/// use euphrates_policy::memory::heaps_max;
///
/// assert_eq!(heaps_max(128 << 20, 2), Some(4));
/// assert_eq!(heaps_max(1 << 30, 2), None, "threads had better not share");
/// ```
pub fn heaps_max(budget: usize, cores: usize) -> Option<usize> {
    is_short(budget).then_some(2 * cores.max(1))
}

/// The threshold of a budget below [`SHORT_BYTES`]: most columns of batches are smaller, which
/// would be mapped, touched and unmapped. Values of 900 kB in heaps would leave holes of 30 MB.
const MAPPED_BYTES_SHORT: usize = 512 << 10;

/// The largest threshold that the C library's allocator accepts.
const MAPPED_BYTES_MAX: usize = 32 << 20;

/// The budget below which fragmentation would be a considerable part of it: a join, an aggregate
/// and a sort that hold 165 MB between them fragment another 120 MB.
const SHORT_BYTES: usize = 384 << 20;

/// Bytes that an instance of a sink encodes before it writes; it holds them twice meanwhile.
///
/// ```
/// use euphrates_policy::memory::chunk_bytes_max;
///
/// assert_eq!(chunk_bytes_max(1 << 30, 4), 16 << 20, "a sixteenth of the budget, divided by four");
/// assert_eq!(chunk_bytes_max(1 << 30, 1000), 1 << 20, "the smallest");
/// ```
pub fn chunk_bytes_max(budget: usize, instances: usize) -> usize {
    (budget / 16 / instances.max(1)).max(1 << 20)
}

/// When the rows that an instance of a sink encodes together become a row group of a file.
///
/// ```
/// use euphrates_policy::memory::RowGroupSize;
///
/// let usual = RowGroupSize::USUAL;
/// assert!(usual.is_reached(8 << 20, 300_000), "short rows");
/// assert!(!usual.is_reached(8 << 20, 10_000) && usual.is_reached(32 << 20, 10_000), "long rows");
/// assert!(RowGroupSize::of_bytes(1000).is_reached(1000, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGroupSize {
    /// The most bytes.
    pub bytes_max: usize,
    /// The bytes that suffice from a number of rows on, and that number.
    enough: Option<(usize, usize)>,
}

impl RowGroupSize {
    /// Small groups let the disk begin early and end soon after the last row, take less memory,
    /// and are the units in which many readers share a file. With fewer rows than other engines
    /// put into one, dictionaries and statistics would cost too much.
    pub const USUAL: RowGroupSize =
        RowGroupSize { bytes_max: 32 << 20, enough: Some((8 << 20, 1 << 18)) };

    /// Groups of this many bytes.
    pub const fn of_bytes(bytes: usize) -> RowGroupSize {
        RowGroupSize { bytes_max: if bytes == 0 { 1 } else { bytes }, enough: None }
    }

    /// The same of at most `affordable` bytes.
    pub fn within(self, affordable: usize) -> RowGroupSize {
        RowGroupSize { bytes_max: self.bytes_max.min(affordable), ..self }
    }

    /// Whether rows of this many bytes are a group.
    pub fn is_reached(self, bytes: usize, rows: usize) -> bool {
        let is_enough = |(bytes_min, rows_min)| bytes >= bytes_min && rows >= rows_min;
        bytes >= self.bytes_max || self.enough.is_some_and(is_enough)
    }
}

/// How many instances of a process read files at a time, and how many bytes each may hold, if each
/// needs about `bytes_held` (pages of all columns). A single reader may hold nearly the whole
/// budget, since there is no other way to read the file.
///
/// ```
/// use euphrates_policy::memory::readers;
///
/// let budget = 1 << 30;
/// assert_eq!(readers(budget, 64 << 20, 8), (4, 64 << 20), "a quarter of the budget");
/// assert_eq!(readers(budget, 2 << 30, 8), (1, budget / 8 * 7), "a single reader gets more");
/// ```
pub fn readers(budget: usize, bytes_held: u64, instances: usize) -> (usize, usize) {
    let together = (budget / 4).max(BASE_BYTES);
    let held = usize::try_from(bytes_held).unwrap_or(usize::MAX).max(1);
    match (together / held).clamp(1, instances.max(1)) {
        1 => (1, budget / 8 * 7),
        readers => (readers, together / readers),
    }
}

/// The smallest budget of a flow: the smallest share of one instance.
pub const BUDGET_BYTES_MIN: usize = SHARE_BYTES_MIN;

/// The smallest share of an instance; with less, spilling makes no useful progress.
pub(crate) const SHARE_BYTES_MIN: usize = 4 << 20;

/// The largest row, in bytes, where `holders` instances and queues may each hold one.
///
/// ```
/// use euphrates_policy::memory::row_bytes_max;
///
/// assert_eq!(row_bytes_max(640 << 20, 10), 64 << 20);
/// assert_eq!(row_bytes_max(64 << 20, 1000), 2 << 20, "never less than 2 MiB");
/// ```
pub fn row_bytes_max(budget: usize, holders: usize) -> usize {
    (budget / holders.max(HOLDERS_MIN)).max(ROW_BYTES_MIN)
}

/// Holders of the smallest flow: two readers, two writers, the queue between them, and a copy.
const HOLDERS_MIN: usize = 6;

/// The largest record of a text file, in bytes: escapes and unread columns make it longer than its
/// row.
pub fn record_bytes_max(row_bytes_max: usize) -> usize {
    row_bytes_max.saturating_mul(2)
}

/// The budget's bound on a sample of a text file, in bytes; it is held twice. Samples have at most
/// 64 MiB in any budget.
///
/// ```
/// use euphrates_policy::memory::sample_budget_bytes;
///
/// assert_eq!([0, 1 << 30].map(sample_budget_bytes), [2 << 20, 256 << 20]);
/// ```
pub fn sample_budget_bytes(budget: usize) -> usize {
    (budget / 4).max(ROW_BYTES_MIN)
}

/// The smallest bound of a row: as much as a batch of short rows may have.
const ROW_BYTES_MIN: usize = 2 << 20;

/// Whether instances take turns with a batch of `batch_bytes`, because its copies are large beside
/// their shares.
///
/// ```
/// use euphrates_policy::memory::takes_turns;
///
/// assert!(takes_turns(20 << 20, 64 << 20), "more than a quarter of the share");
/// assert!(!takes_turns(2 << 20, 4 << 20), "batches of short rows never take turns");
/// ```
pub fn takes_turns(batch_bytes: usize, share_bytes: usize) -> bool {
    batch_bytes > (share_bytes / 4).max(LONG_BYTES_MIN)
}

/// The size up to which instances never take turns; only a batch with a long row is larger.
const LONG_BYTES_MIN: usize = 3 << 20;

/// The default budget: 70 % of the memory of the machine or its control group.
///
/// ```
/// use euphrates_policy::memory::default_budget;
///
/// assert_eq!(default_budget(10 << 30), 7 << 30);
/// ```
pub fn default_budget(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / 10 * 7).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_decrease_with_the_bytes_that_each_holds() {
        assert_eq!(readers(128 << 20, 0, 4), (4, 16 << 20));
        assert_eq!(readers(128 << 20, 30 << 20, 4), (2, 32 << 20));
        assert_eq!(readers(128 << 20, 200 << 20, 4), (1, 112 << 20));
        assert_eq!(readers(1 << 30, u64::MAX, 0), (1, 896 << 20));
    }

    #[test]
    fn queue_bounds_shrink_with_the_budget() {
        let usual = 8 << 20;
        assert_eq!(queue_bytes_max(1 << 30, 4, usual), usual);
        assert_eq!(queue_bytes_max(64 << 20, 4, usual), 4 << 20);
        assert_eq!(queue_bytes_max(24 << 20, 40, usual), QUEUE_BYTES_MIN);
        assert_eq!(queue_bytes_max(0, 0, 1000), 1000);
    }
}
