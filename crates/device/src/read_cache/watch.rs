//! Returns the memory of the cache when the machine or the control group has little left.

use std::time::Duration;

use euphrates_flow::spawn_named;
use euphrates_policy::caching::pressure::{admissible_bytes, release_bytes};

use super::extents::cache;
use crate::memory_level::memory_level;

/// How often the memory is looked at while something is kept.
const INTERVAL: Duration = Duration::from_millis(200);

/// Starts the thread that looks at the memory, unless it runs; it ends when nothing is kept.
pub(super) fn start() {
    {
        let mut state = cache().lock();
        if state.is_watched {
            return;
        }
        state.is_watched = true;
        state.admissible_bytes = admissible_bytes(memory_level());
    }
    let watch = || {
        while look() {
            std::thread::sleep(INTERVAL);
        }
    };
    if spawn_named("cache", watch).is_err() {
        // Without the thread, nothing would be returned in time.
        let mut state = cache().lock();
        state.is_watched = false;
        state.clear();
    }
}

/// Whether anything is left to watch.
fn look() -> bool {
    let memory = memory_level();
    let mut state = cache().lock();
    let bytes = release_bytes(memory, state.used_bytes());
    if bytes > 0 {
        state.release(bytes);
    }
    state.admissible_bytes = admissible_bytes(memory);
    state.is_watched = state.used_bytes() > 0;
    state.is_watched
}
