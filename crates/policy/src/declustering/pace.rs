//! How fast one copy serves one reader, as the reader sees it.

/// Smoothed times of one copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    gap_ns: Option<u64>,
    service_ns: Option<u64>,
    mark_ns: u64,
}

impl Pace {
    /// A claim was sent to a copy at which none waited.
    pub fn on_wait(&mut self, now_ns: u64) {
        self.mark_ns = now_ns;
    }

    /// The disk began a block of ours.
    pub fn on_begun(&mut self, now_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.mark_ns);
        self.gap_ns = Some(smooth(self.gap_ns, gap_ns));
        self.mark_ns = now_ns;
    }

    /// A block arrived that was begun then.
    pub fn on_done(&mut self, begun_ns: u64, now_ns: u64) {
        let service_ns = now_ns.saturating_sub(begun_ns);
        self.service_ns = Some(smooth(self.service_ns, service_ns));
    }

    /// From the beginning of one block to that of the next, while claims wait.
    pub fn gap_ns(&self) -> Option<u64> {
        self.gap_ns
    }

    /// The same, but no less than what the next one has taken already.
    pub fn gap_now_ns(&self, now_ns: u64) -> u64 {
        self.gap_ns.unwrap_or(0).max(self.passed_ns(now_ns))
    }

    /// Since the disk began a block of ours, or the first claim waited.
    pub fn passed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.mark_ns)
    }

    /// From the beginning of a block to its arrival.
    pub fn service_ns(&self) -> Option<u64> {
        self.service_ns
    }
}

/// Half the old, half the new: disks change quickly.
fn smooth(old: Option<u64>, new: u64) -> u64 {
    old.map_or(new, |old| old / 2 + new / 2)
}
