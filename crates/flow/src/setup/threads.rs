//! Starts threads with names, which `top`, `perf` and debuggers show.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// Starts a thread with a name. A thread whose handle is dropped goes on by itself.
///
/// ```
/// let thread = euphrates_flow::spawn_named("reaper", || {
///     std::thread::current().name().map(String::from)
/// })?;
/// assert_eq!(thread.join().unwrap().as_deref(), Some("reaper"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn spawn_named<T: Send + 'static>(
    name: impl Into<String>,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let spawned = Builder::new().name(name.into()).spawn(run);
    spawned.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))
}
