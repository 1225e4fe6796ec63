//! The interface to the platform of a cluster: starts, restarts and stops workers.

use euphrates_flow::{Error, Result};
use euphrates_wire::Address;

/// Called with the name of a lost worker, and the reason.
pub type OnLost = Box<dyn Fn(&str, Error) + Send + Sync>;

/// Finds machines, starts workers and detects their death.
pub trait Driver: Send + Sync {
    /// The names of the workers; waits for workers that are started elsewhere.
    fn workers(&self) -> Result<Vec<String>>;

    /// The names of workers that have joined since, beside those that are known. Does not wait.
    fn newcomers(&self, _known: &[String]) -> Result<Vec<String>> {
        Ok(vec![])
    }

    /// Starts a worker, unless it is started elsewhere.
    fn start(&self, _worker: &str) -> Result<()> {
        Ok(())
    }

    /// Restarts a lost worker, or detects that it was restarted elsewhere; returns whether it can
    /// be called again. A driver that owns the process kills it first if it still runs.
    fn restart(&self, worker: &str) -> Result<bool>;

    /// The address of a worker, once it is known. Called repeatedly until the worker answers there.
    fn address(&self, worker: &str) -> Result<Option<Address>>;

    /// Reports the loss of any worker from now on, and earlier losses. A reported worker is lost
    /// until `restart` returns true for it.
    fn on_lost(&self, on_lost: OnLost);

    /// Stops the workers it has started, and waits for that.
    fn stop(&self) {}
}
