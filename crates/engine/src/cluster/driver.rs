//! The seam between a cluster and what it runs on: six calls.

use euphrates_flow::{Error, Result};
use euphrates_wire::Address;

/// Hears that a worker is lost, and why.
pub type OnLost = Box<dyn Fn(&str, Error) + Send + Sync>;

/// Finds machines, starts workers and notices their death.
pub trait Driver: Send + Sync {
    /// The names of the workers there are to be; waits for them, if they come by themselves.
    fn workers(&self) -> Result<Vec<String>>;

    /// Starts a worker, unless somebody else does.
    fn start(&self, worker: &str) -> Result<()>;

    /// Restarts a lost worker, or finds out that it has been restarted elsewhere; returns whether
    /// it can be called again. Ends what is left of the lost process.
    fn restart(&self, worker: &str) -> Result<bool>;

    /// Where a worker listens, once it is known; asked again until it answers there.
    fn address(&self, worker: &str) -> Result<Option<Address>>;

    /// Has the loss of any worker told from now on; earlier ones at once. The driver's verdict is
    /// final.
    fn on_lost(&self, tell: OnLost);

    /// Ends what it has started, and waits for that.
    fn stop(&self);
}
