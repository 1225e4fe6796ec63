//! Holds back the claims of a module in one process, which drains.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::Result;

/// How long a claim waits before its module checks whether work is left at all.
const CLAIM_RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// How long a waiting claim needs to notice that its flow is cancelled, at most.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Whether the instances of a module in this process may claim shared work: work units, partitions,
/// runs and batches. Other processes claim it while they may not.
///
/// ```
/// use euphrates_flow::ClaimGate;
///
/// let gate = ClaimGate::default();
/// assert!(gate.pass(|| Ok(()))?);
/// gate.hold(true);
/// assert!(gate.is_held() && !gate.pass(|| Ok(()))?);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ClaimGate {
    is_held: Mutex<bool>,
    changed: Condvar,
}

impl ClaimGate {
    /// Holds claims back from now on, or no longer.
    pub fn hold(&self, is_held: bool) {
        *self.is_held.lock() = is_held;
        self.changed.notify_all();
    }

    /// Whether claims are held back.
    pub fn is_held(&self) -> bool {
        *self.is_held.lock()
    }

    /// Whether an instance may claim; waits at most a retry interval until it may. Fails if `check`
    /// does, which fails if the flow is cancelled.
    pub fn pass(&self, check: impl Fn() -> Result<()>) -> Result<bool> {
        let mut is_held = self.is_held.lock();
        let mut waited = Duration::ZERO;
        while *is_held {
            if waited >= CLAIM_RETRY_INTERVAL {
                return Ok(false);
            }
            check()?;
            self.changed.wait_for(&mut is_held, CHECK_INTERVAL);
            waited += CHECK_INTERVAL;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Cancel, Kind};

    #[test]
    fn held_claim_waits_until_it_is_released_or_the_flow_is_cancelled() {
        let (gate, cancel) = (ClaimGate::default(), Cancel::default());
        gate.hold(true);
        thread::scope(|scope| {
            let claiming = scope.spawn(|| while !gate.pass(|| cancel.check()).unwrap() {});
            gate.hold(false);
            claiming.join().unwrap();
        });
        gate.hold(true);
        cancel.cancel();
        assert_eq!(gate.pass(|| cancel.check()).unwrap_err().kind(), Kind::Interrupted);
    }
}
