//! The pace at which one copy serves one reader, as the reader measures it.

/// Smoothed service times of one copy.
#[derive(Clone, Debug, Default)]
pub(in crate::disks) struct ServiceTimes {
    gap_ns: Option<u64>,
    service_ns: Option<u64>,
    mark_ns: u64,
}

impl ServiceTimes {
    /// The times of a disk that is known to read a block in `block_ns`.
    pub fn expected(block_ns: u64) -> ServiceTimes {
        ServiceTimes { gap_ns: Some(block_ns), service_ns: Some(block_ns), mark_ns: 0 }
    }

    /// A claim is sent to a copy without waiting claims.
    pub fn on_wait(&mut self, now_ns: u64) {
        self.mark_ns = now_ns;
    }

    /// The disk has begun a block of this reader.
    pub fn on_begun(&mut self, now_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.mark_ns);
        self.gap_ns = Some(smooth(self.gap_ns, gap_ns));
        self.mark_ns = now_ns;
    }

    /// A block has arrived that was begun at `begun_ns`.
    pub fn on_done(&mut self, begun_ns: u64, now_ns: u64) {
        let service_ns = now_ns.saturating_sub(begun_ns);
        self.service_ns = Some(smooth(self.service_ns, service_ns));
    }

    /// The time between the beginnings of two blocks while claims wait.
    pub fn gap_ns(&self) -> Option<u64> {
        self.gap_ns
    }

    /// The same, raised to the time that has passed for the current block.
    pub fn gap_now_ns(&self, now_ns: u64) -> u64 {
        self.gap_ns.unwrap_or(0).max(self.passed_ns(now_ns))
    }

    /// The time since the disk last began a block of this reader, or since a first claim waits.
    pub fn passed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.mark_ns)
    }

    /// The time from the beginning of a block to its arrival.
    pub fn service_ns(&self) -> Option<u64> {
        self.service_ns
    }
}

/// A moving average with equal weights, since disks change quickly.
fn smooth(old: Option<u64>, new: u64) -> u64 {
    old.map_or(new, |old| old / 2 + new / 2)
}
