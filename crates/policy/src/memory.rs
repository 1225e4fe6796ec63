//! Who may hold how much of the memory budget.

/// What a process needs before it has read a byte: code, stacks, allocator.
pub const BASE_BYTES: usize = 48 << 20;

/// The share of the budget for each of the instances that can use memory. Queues are bounded apart
/// and come off the top, up to half of the budget; nobody gets less than `SHARE_BYTES_MIN`.
pub fn share(budget: usize, queue_bytes: usize, hungry_instances: usize) -> usize {
    let fixed = (BASE_BYTES + queue_bytes).min(budget / 2);
    let share = (budget - fixed) / hungry_instances.max(1);
    share.max(SHARE_BYTES_MIN)
}

/// The least an instance gets: below this nothing that spills makes progress worth the name.
pub const SHARE_BYTES_MIN: usize = 4 << 20;

/// The default budget: 70 % of what the machine, or its control group, has.
pub fn default_budget(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / 10 * 7).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_less_than_the_budget() {
        for (budget, queues, hungry) in [(1 << 30, 32 << 20, 2), (1 << 30, 2 << 30, 4)] {
            assert!(share(budget, queues, hungry) * hungry <= budget);
        }
        assert_eq!(share(1 << 20, 0, 1), SHARE_BYTES_MIN);
    }
}
