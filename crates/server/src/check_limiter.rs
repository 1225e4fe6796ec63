//! Limits the checks that run at once, and the time that a caller waits for one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use euphrates_flow::{Error, spawn_named};
use parking_lot::Mutex;

use crate::http::error::{ApiError, Result};

/// Checks that run at once, without those that have timed out.
const CHECKS_MAX: usize = 4;
/// Checks that have timed out and not ended: each holds a thread that waits for a file system.
const TIMED_OUT_MAX: usize = 64;

/// The running checks. A check that has timed out no longer counts against `CHECKS_MAX`, so a file
/// system that does not respond delays checks of other flows by at most one timeout.
#[derive(Clone, Default)]
pub struct CheckLimiter(Arc<Mutex<RunningChecks>>);

#[derive(Default)]
struct RunningChecks {
    next: u64,
    /// By number, whether the check has timed out.
    checks: BTreeMap<u64, bool>,
}

/// A running check. Dropping this ends it, also after a panic.
struct RunningCheck {
    number: u64,
    of: CheckLimiter,
}

impl CheckLimiter {
    /// Runs `work` on a thread and returns its result, or an error after `timeout`. The thread then
    /// continues, because a wait for a file system cannot be cancelled.
    pub fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let check = self.begin()?;
        let number = check.number;
        let (sender, receiver) = channel();
        spawn_named("check", move || {
            let answer = work();
            drop(check);
            // The caller may have timed out.
            let _ = sender.send(answer);
        })?;
        receiver.recv_timeout(timeout).map_err(|error| {
            if error == RecvTimeoutError::Disconnected {
                return Error::failed("the check has failed; the terminal says more").into();
            }
            if let Some(is_timed_out) = self.0.lock().checks.get_mut(&number) {
                *is_timed_out = true;
            }
            let error = Error::resource("the check takes too long");
            ApiError::from(error.remedy("look whether the files it names can be read"))
        })
    }

    fn begin(&self) -> Result<RunningCheck> {
        let mut running = self.0.lock();
        let timed_out = running.checks.values().filter(|is_timed_out| **is_timed_out).count();
        if running.checks.len() - timed_out == CHECKS_MAX {
            return Err(ApiError::too_many("too many checks at once").remedy("try again"));
        }
        if timed_out == TIMED_OUT_MAX {
            let message = format!("{timed_out} checks wait for files that cannot be read");
            let remedy = "look whether a share of the network answers, or start the studio again";
            return Err(ApiError::too_many(message).remedy(remedy));
        }
        running.next += 1;
        let number = running.next;
        running.checks.insert(number, false);
        Ok(RunningCheck { number, of: self.clone() })
    }
}

impl Drop for RunningCheck {
    fn drop(&mut self) {
        self.of.0.lock().checks.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[test]
    fn hanging_checks_do_not_block_others_and_are_limited() {
        let checks = CheckLimiter::default();
        let (end, ended) = channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let hang = || {
            let ended = ended.clone();
            checks.run(Duration::ZERO, move || ended.lock().recv().is_ok()).unwrap_err()
        };
        for _ in 0..TIMED_OUT_MAX - 1 {
            assert_eq!(hang().message, "the check takes too long");
            assert_eq!(checks.run(TIMEOUT, || 7).unwrap(), 7);
        }
        assert_eq!(hang().message, "the check takes too long");
        let error = checks.run(TIMEOUT, || 7).unwrap_err();
        assert!(error.message.contains("64 checks wait for files"), "{error:?}");
        // The file system responds again.
        drop(end);
        while !checks.0.lock().checks.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(checks.run(TIMEOUT, || 7).unwrap(), 7);
        let broken: Result<()> = checks.run(TIMEOUT, || panic!("a bug"));
        assert!(broken.is_err());
        assert_eq!(checks.run(TIMEOUT, || 7).unwrap(), 7);
    }
}
