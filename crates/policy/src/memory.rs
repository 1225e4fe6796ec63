//! Who may hold how much of the memory budget.

/// What a process needs that nobody accounts for: code, stacks, an interpreter (35 MB before it has
/// read a byte), and what the allocator keeps between what is in use.
pub const BASE_BYTES: usize = 64 << 20;

/// The share of the budget for each of the instances that can use memory. Queues, used slabs and
/// what sinks encode are bounded apart and come off the top, up to three quarters of the budget;
/// nobody gets less than `SHARE_BYTES_MIN`.
pub fn share(budget: usize, queue_bytes: usize, hungry_instances: usize) -> usize {
    let apart = BASE_BYTES + queue_bytes + slabs_bytes_max(budget) + budget / 8;
    let share = (budget - apart.min(budget / 4 * 3)) / hungry_instances.max(1);
    share.max(SHARE_BYTES_MIN)
}

/// What is kept of slabs that nobody uses at the moment.
pub fn slabs_bytes_max(budget: usize) -> usize {
    (budget / 16).clamp(2 << 20, 128 << 20)
}

/// What a queue holds at most of which the flow says nothing: `usual`, or less where all of them
/// would have more than a quarter of the budget; but some batches always.
pub fn queue_bytes_max(budget: usize, queues: usize, usual: usize) -> usize {
    (budget / 4 / queues.max(1)).clamp(QUEUE_BYTES_MIN.min(usual), usual)
}

/// Below this a queue would hand over single batches, in turns.
const QUEUE_BYTES_MIN: usize = 1 << 20;

/// The size from which memory is taken from the system apart, and given back when it is free;
/// `None` where a budget has room for the holes in between. Each time costs page faults.
pub fn mapped_bytes_min(budget: usize) -> Option<usize> {
    (budget < SHORT_BYTES).then_some(256 << 10)
}

/// A budget below this is short: holes would be a good part of it.
const SHORT_BYTES: usize = 256 << 20;

/// What one of a sink's instances encodes before it writes; it holds it twice while it does.
pub fn chunk_bytes_max(budget: usize, instances: usize) -> usize {
    (budget / 16 / instances.max(1)).max(1 << 20)
}

/// How many of a process's instances read files at a time, each of which holds about so many bytes
/// (pages of all columns), and what each may hold at most. One alone may hold nearly all: there is
/// no other way to read the file.
pub fn readers(budget: usize, bytes_held: u64, instances: usize) -> (usize, usize) {
    let together = (budget / 4).max(BASE_BYTES);
    let held = usize::try_from(bytes_held).unwrap_or(usize::MAX).max(1);
    match (together / held).clamp(1, instances.max(1)) {
        1 => (1, budget / 8 * 7),
        readers => (readers, together / readers),
    }
}

/// The least an instance gets: below this nothing that spills makes progress worth the name.
pub const SHARE_BYTES_MIN: usize = 4 << 20;

/// The bytes a row may have where so many instances and queues may each hold one, and one of the
/// instances makes copies of its own.
pub fn row_bytes_max(budget: usize, holders: usize) -> usize {
    (budget / holders.max(HOLDERS_MIN)).max(ROW_BYTES_MIN)
}

/// Two readers, two writers, the queue between them, and a copy.
const HOLDERS_MIN: usize = 6;

/// The bytes a record of a text may have whose rows may have so many: escapes and columns that are
/// not wanted take room in the text alone.
pub fn record_bytes_max(row_bytes_max: usize) -> usize {
    row_bytes_max.saturating_mul(2)
}

/// The longest sample of a text, which is held twice, for a flow of this budget.
pub fn sample_bytes_max(budget: usize) -> usize {
    (budget / 4).max(ROW_BYTES_MIN)
}

/// A batch of short rows may have as much.
const ROW_BYTES_MIN: usize = 2 << 20;

/// Whether an instance waits for its turn before it works on a batch of `batch_bytes`, because the
/// copies made of it count beside its share. Other batches are no longer than twice the usual size.
pub fn takes_turns(batch_bytes: usize, share_bytes: usize) -> bool {
    batch_bytes > (share_bytes / 4).max(LONG_BYTES_MIN)
}

/// A batch that is cut into pieces of the usual size has fewer, unless a row has more.
const LONG_BYTES_MIN: usize = 3 << 20;

/// The default budget: 70 % of what the machine, or its control group, has.
pub fn default_budget(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / 10 * 7).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_read_at_a_time_where_each_holds_much() {
        assert_eq!(readers(128 << 20, 0, 4), (4, 16 << 20));
        assert_eq!(readers(128 << 20, 30 << 20, 4), (2, 32 << 20));
        assert_eq!(readers(128 << 20, 200 << 20, 4), (1, 112 << 20));
        assert_eq!(readers(1 << 30, u64::MAX, 0), (1, 896 << 20));
    }

    #[test]
    fn shares_add_up_to_less_than_the_budget() {
        for (budget, queues, hungry) in [(1 << 30, 32 << 20, 2), (1 << 30, 2 << 30, 4)] {
            assert!(share(budget, queues, hungry) * hungry <= budget);
        }
        assert_eq!(share(1 << 20, 0, 1), SHARE_BYTES_MIN);
    }

    #[test]
    fn queues_are_shorter_where_memory_is_short() {
        let usual = 8 << 20;
        assert_eq!(queue_bytes_max(1 << 30, 4, usual), usual);
        assert_eq!(queue_bytes_max(64 << 20, 4, usual), 4 << 20);
        assert_eq!(queue_bytes_max(24 << 20, 40, usual), QUEUE_BYTES_MIN);
        assert_eq!(queue_bytes_max(0, 0, 1000), 1000);
    }
}
