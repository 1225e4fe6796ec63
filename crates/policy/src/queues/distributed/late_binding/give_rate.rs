//! The rate at which a producer gives its pieces, as a moving average.

/// The window of the average, in gives: at least this many, at most twice as many.
const GIVES: u32 = 8;

/// The average over the latest 8 to 16 gives, which follows changes and forgets outliers.
#[derive(Clone, Copy, Debug, Default)]
pub struct GiveRate {
    first_ns: u64,
    old: GiveMark,
    new: GiveMark,
    bytes: u64,
    gives: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct GiveMark {
    at_ns: u64,
    bytes: u64,
    gives: u32,
}

impl GiveRate {
    /// A piece of `bytes` is given.
    pub fn on_give(&mut self, now_ns: u64, bytes: u64) {
        if self.gives == 0 {
            // The first piece is no evidence: it may have been ready for any time.
            let first = GiveMark { at_ns: now_ns, bytes: 0, gives: 1 };
            (self.first_ns, self.old, self.new, self.gives) = (now_ns, first, first, 1);
            return;
        }
        self.bytes += bytes;
        self.gives += 1;
        if self.gives - self.new.gives >= GIVES {
            self.old = self.new;
            self.new = GiveMark { at_ns: now_ns, bytes: self.bytes, gives: self.gives };
        }
    }

    /// The time to give `bytes` at the recent rate, in nanoseconds; `None` if it is unknown.
    pub fn time_to_give(&self, now_ns: u64, bytes: u64) -> Option<u64> {
        let given = self.bytes - self.old.bytes;
        let lasted = now_ns.saturating_sub(self.old.at_ns);
        if given == 0 || lasted == 0 {
            return None;
        }
        u64::try_from(u128::from(bytes) * u128::from(lasted) / u128::from(given)).ok()
    }

    /// The time to give `bytes` at the mean rate since the first give, in nanoseconds.
    pub fn time_in_the_mean(&self, now_ns: u64, bytes: u64) -> Option<u64> {
        let lasted = u128::from(now_ns.saturating_sub(self.first_ns));
        u64::try_from((u128::from(bytes) * lasted).checked_div(u128::from(self.bytes))?).ok()
    }

    /// The bytes given in `lasts_ns` at the mean rate since the first give.
    pub fn bytes_in_the_mean(&self, lasts_ns: u64, now_ns: u64) -> u64 {
        let lasted = u128::from(now_ns.saturating_sub(self.first_ns).max(1));
        let bytes = u128::from(self.bytes) * u128::from(lasts_ns) / lasted;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The recent time between two gives, in nanoseconds; `None` if it is unknown.
    pub fn gap_ns(&self, now_ns: u64) -> Option<u64> {
        let gives = u64::from(self.gives - self.old.gives.min(self.gives));
        let lasted = now_ns.saturating_sub(self.old.at_ns);
        (gives > 0).then(|| lasted / gives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_follows_the_latest_gives() {
        let mut pace = GiveRate::default();
        assert_eq!(pace.time_to_give(5, 100), None);
        (0..40).for_each(|i| pace.on_give(i * 10, 5));
        assert_eq!(pace.time_to_give(390, 100), Some(200));
        assert_eq!(pace.gap_ns(390), Some(10));
        (0..40).for_each(|i| pace.on_give(400 + i * 100, 5));
        assert_eq!(pace.time_to_give(4300, 100), Some(2000));
        assert_eq!(pace.time_in_the_mean(4345, 100), Some(1100), "395 bytes in 4345 ns");
    }
}
