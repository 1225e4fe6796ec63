//! How long this end may say nothing though it lives: who has a tenth of a processor waits ten
//! times as long for its turn. It is told in the greeting, and with every sign of life, since what
//! a control group allows may change.

mod quota;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use euphrates_policy::suspicion::ASKED_MOST;

use crate::lane::{PATIENCE, SUSPICION};

/// How often what control groups allow is read: that takes longer than to give a sign of life.
const LOOK: Duration = Duration::from_secs(1);

/// How long this end may say nothing, as of now.
pub fn of_this_end() -> Duration {
    static LAST: Mutex<Option<(Instant, Duration)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = last.filter(|(read, _)| read.elapsed() < LOOK);
    last.insert(fresh.unwrap_or_else(|| (Instant::now(), of(processors())))).1
}

/// The same, of one who has so much of the processors.
fn of(processors: f64) -> Duration {
    SUSPICION.div_f64(processors.clamp(0.01, 1.0)).min(PATIENCE)
}

/// Processors this process may use; a control group may give less than a whole one.
fn processors() -> f64 {
    let cores = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    quota::processors(Path::new("/")).map_or(cores, |quota| quota.min(cores))
}

/// Caps the silence that the other end announces.
pub(crate) fn believed(told: Duration) -> Duration {
    told.min(ASKED_MOST)
}

/// As it travels with a sign of life.
pub(crate) fn encode(silence: Duration) -> [u8; 4] {
    (silence.as_millis() as u32).to_le_bytes()
}

/// What came with a sign of life, if something did.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Duration>> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(told) => Ok(Some(Duration::from_millis(u32::from_le_bytes(told).into()))),
        Err(_) if bytes.is_empty() => Ok(None),
        Err(_) => Err(Error::corrupt("a sign of life that cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_part_of_a_processor_is_waited_for_longer() {
        let seconds = |processors| of(processors).as_secs_f64();
        assert_eq!([64.0, 1.0, 0.5, 0.1, 0.001].map(seconds), [2.0, 2.0, 4.0, 20.0, 30.0]);
    }

    #[test]
    fn what_is_told_arrives_and_nothing_else_is_believed() {
        let told = Duration::from_millis(4500);
        assert_eq!(decode(&encode(told)).unwrap(), Some(told));
        assert_eq!(decode(&[]).unwrap(), None);
        assert!(decode(&[1, 2, 3]).is_err() && decode(&[0; 5]).is_err());
    }
}
