//! How long the other end of a lane may say nothing.

use std::time::{Duration, Instant};

use euphrates_policy::suspicion::Suspicion;

use super::PATIENCE;
use crate::silence;

/// What comes, as signs of life.
pub(super) struct Signs {
    began: Instant,
    suspicion: Suspicion,
    /// What this lane bears of any end.
    least: Duration,
    patience: Duration,
}

impl Signs {
    /// Of an end that is waited for so long at least, and as long as it said it may be silent.
    pub fn new(least: Duration, told: Duration) -> Signs {
        let patience = least.max(silence::believed(told));
        let suspicion = Suspicion::new(patience, PATIENCE, Duration::ZERO);
        Signs { began: Instant::now(), suspicion, least, patience }
    }

    /// How long the other end may say nothing.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The same from now on, if that has changed: something has come, and it may have told anew how
    /// long it may be silent.
    pub fn on_frame(&mut self, told: Option<Duration>) -> Option<Duration> {
        if let Some(told) = told {
            self.suspicion.expect(self.least.max(silence::believed(told)));
        }
        self.suspicion.on_sign(self.began.elapsed());
        let patience = self.suspicion.patience();
        (std::mem::replace(&mut self.patience, patience) != patience).then_some(patience)
    }
}
