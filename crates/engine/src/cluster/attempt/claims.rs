//! The claims of units in an attempt, for a flow that may go on with other workers.

use std::sync::Arc;

use super::Attempt;
use crate::cluster::control_connection::WorkerHandle;

impl Attempt {
    /// Whether a worker takes part. One that was restarted is another worker.
    pub fn has_worker(&self, handle: &Arc<WorkerHandle>) -> bool {
        self.handles.iter().any(|own| Arc::ptr_eq(own, handle))
    }

    /// The cores of each worker that takes part and may claim.
    pub fn cores(&self) -> Vec<usize> {
        let claiming = self.handles.iter().filter(|own| own.lost().is_none() && !own.is_draining());
        claiming.map(|own| own.member().cores).collect()
    }

    /// How many units have been claimed by this counter; more than there are, if none is left.
    pub fn claimed_units(&self, counter: &str) -> u64 {
        self.observed.table.load(counter)
    }

    /// Ends the claims by a counter: no unit is left for the next claim.
    pub fn end_claims(&self, counter: &str) {
        self.observed.table.exhaust(counter);
    }
}
