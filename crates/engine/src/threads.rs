//! Starts named threads.

use std::thread;

use euphrates_flow::{Error, Result};

/// Runs a function on a thread of this name, which is not joined.
pub fn spawn_detached(name: String, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name).spawn(run);
    let failed = |error| Error::resource(format!("cannot start a thread: {error}"));
    spawned.map(drop).map_err(failed)
}
