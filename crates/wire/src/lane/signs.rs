//! How long the other end of a lane may say nothing.

use std::time::{Duration, Instant};

use euphrates_policy::suspicion::Suspicion;

use super::PATIENCE;

/// What comes, as signs of life.
pub(super) struct Signs {
    began: Instant,
    suspicion: Suspicion,
    patience: Duration,
}

impl Signs {
    /// Of an end that is waited for so long.
    pub fn new(patience: Duration) -> Signs {
        let suspicion = Suspicion::new(patience, PATIENCE, Duration::ZERO);
        Signs { began: Instant::now(), suspicion, patience }
    }

    /// How long the other end may say nothing from now on, if that has changed.
    pub fn on_frame(&mut self) -> Option<Duration> {
        self.suspicion.on_sign(self.began.elapsed());
        let patience = self.suspicion.patience();
        (std::mem::replace(&mut self.patience, patience) != patience).then_some(patience)
    }
}
