//! The heartbeat timeout that this process advertises to its peers, scaled by its CPU quota.
//!
//! A process with a tenth of a processor waits ten times as long to be scheduled, so with a shorter
//! timeout it would be declared dead. It advertises the timeout in its greeting and again in every
//! heartbeat, since the quota of a control group may change.

mod cpu_quota;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};
use euphrates_policy::failure_detector::{CONFIGURED_TIMEOUT_MAX, LOCAL_TIMEOUT};

/// The time without a frame after which an end sends a heartbeat.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// The largest timeout that irregular heartbeats or a small quota lead to, unless a longer one is
/// configured. It outlasts TCP on a congested link, which sends a packet again 25 seconds after it
/// was lost for the seventh time.
pub const ADAPTIVE_TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// How long a quota that was read is reused: reading it costs more than sending a heartbeat.
const QUOTA_AGE_MAX: Duration = Duration::from_secs(1);

/// The timeout that this process needs at present.
///
/// ```
/// use euphrates_wire::heartbeat::{ADAPTIVE_TIMEOUT_MAX, INTERVAL, advertised_timeout};
///
/// let timeout = advertised_timeout();
/// assert!(INTERVAL < timeout && timeout <= ADAPTIVE_TIMEOUT_MAX);
/// ```
pub fn advertised_timeout() -> Duration {
    static LAST: Mutex<Option<(Instant, Duration)>> = Mutex::new(None);
    let mut last = LAST.lock();
    let fresh = last.filter(|(read, _)| read.elapsed() < QUOTA_AGE_MAX);
    last.insert(fresh.unwrap_or_else(|| (Instant::now(), timeout_of(processors())))).1
}

/// The timeout for a number of processors: the default over the fraction of one processor.
fn timeout_of(processors: f64) -> Duration {
    LOCAL_TIMEOUT.div_f64(processors.clamp(0.01, 1.0)).min(ADAPTIVE_TIMEOUT_MAX)
}

/// Processors that this process may use; a control group may allow less than one.
fn processors() -> f64 {
    let cores = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    cpu_quota::processors(Path::new("/")).map_or(cores, |quota| quota.min(cores))
}

/// Caps the timeout that the other end advertises.
pub(crate) fn capped(advertised: Duration) -> Duration {
    advertised.min(CONFIGURED_TIMEOUT_MAX)
}

/// The content of a heartbeat: the timeout in milliseconds, little-endian.
pub(crate) fn encode(timeout: Duration) -> [u8; 4] {
    (timeout.as_millis() as u32).to_le_bytes()
}

/// The timeout in a heartbeat; `None` if the heartbeat has no content.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Duration>> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(timeout) => Ok(Some(Duration::from_millis(u32::from_le_bytes(timeout).into()))),
        Err(_) if bytes.is_empty() => Ok(None),
        Err(_) => Err(Error::corrupt("a heartbeat that cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_a_fraction_of_a_processor_gets_a_longer_timeout() {
        let seconds = |processors| timeout_of(processors).as_secs_f64();
        assert_eq!([64.0, 1.0, 0.5, 0.1, 0.001].map(seconds), [2.0, 2.0, 4.0, 20.0, 30.0]);
    }

    #[test]
    fn heartbeats_roundtrip_and_other_lengths_are_refused() {
        let timeout = Duration::from_millis(4500);
        assert_eq!(decode(&encode(timeout)).unwrap(), Some(timeout));
        assert_eq!(decode(&[]).unwrap(), None);
        assert!(decode(&[1, 2, 3]).is_err() && decode(&[0; 5]).is_err());
    }
}
