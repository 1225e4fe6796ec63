//! The sink of a module: stages and publishes an output, which is a file, an object or a
//! collection.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Result;
use crate::setup::DecisionRef;

/// Publishes the output of a module in two phases.
///
/// After all instances of the flow have returned without error, the engine calls `sync`, `staged`
/// and `output`; each may fail, the last two because the name is taken. It then publishes the
/// outputs of all modules together, and calls `on_committed`. If this process will not learn
/// whether they are published, it calls `on_orphaned`; in any other case
/// `InstanceFactory::abandon`.
pub trait Sink: Send + Sync {
    /// A unique description of what is published.
    fn target(&self) -> String;

    /// The local folder in which the output's name is reserved and its file is staged.
    fn staging_folder(&self) -> Option<PathBuf>;

    /// The target of which parts can be kept for another attempt (`Configure::by_units`), if the
    /// input comes in runs.
    fn resumable_target(&self) -> Option<&Path> {
        None
    }

    /// Makes written data durable, but not visible.
    fn sync(&self) -> Result<()>;

    /// Reserves the name of the output if all of it is made in this process, and returns what this
    /// process has staged; null if it publishes nothing. Nothing is visible yet.
    fn staged(&self) -> Result<Value>;

    /// Combines what all processes have staged into one output (a
    /// `euphrates_store::commit::PreparedOutput`); null if there is none. Called in the process of
    /// the master. Reserves the output's name where `staged` could not.
    fn output(
        &self,
        staged: Vec<Value>,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Value> {
        let _ = (run_id, decision);
        Ok(staged.into_iter().find(|part| !part.is_null()).unwrap_or_default())
    }

    /// The data staged here has been published.
    fn on_committed(&self);

    /// This process will not learn whether its staged data is published; the decision record, if
    /// there is one, decides.
    fn on_orphaned(&self);

    /// A worker was lost: removes staged data of processes that no longer live, as far as it is
    /// reachable.
    fn reclaim(&self);
}
