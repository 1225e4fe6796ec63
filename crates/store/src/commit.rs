//! Atomic publication of a flow's outputs: two-phase commit with presumed abort.
//!
//! *Prepare*: what is staged is synced, and the output's name reserved (`reservation.rs`), so that
//! everything that can refuse an output does so while nothing is visible. *Decide*: one record in
//! the home folder names all outputs and how each is published (`decision.rs`). *Publish*: file by
//! file, object by object, manifest by manifest; each step can be repeated. A process that finds
//! the record of a dead flow completes it, or without a record removes what was prepared
//! (`resolve.rs`). `policy::commit` decides which.
//!
//! A flow with one output needs no record: the step that publishes it decides.

pub mod decision;
pub mod reservation;
mod resolve;

use euphrates_flow::Result;
use euphrates_policy::commit::State;
use serde::{Deserialize, Serialize};

use crate::collection::NewVersion;
use crate::output::{FileOutput, ObjectOutput};
pub use decision::{Decision, Promise};
pub use euphrates_device::durable::Durability;
pub use resolve::{
    Resolution, is_promised, keep_promises, mark_kept, out_of_reach, resolve, resolve_run,
};

/// A prepared output: what any process that can reach it needs to publish it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// A file, staged in the folder of its target.
    File(FileOutput),
    /// An upload that is to be completed.
    Object(ObjectOutput),
    /// The next version of a collection.
    Collection(Box<NewVersion>),
}

impl Output {
    /// Makes it visible. May be repeated; an error means that it is not visible.
    pub fn publish(&self) -> Result<Durability> {
        match self {
            Output::File(file) => file.publish(),
            Output::Object(object) => object.publish(),
            Output::Collection(version) => version.publish(),
        }
    }

    /// Its state in the commit; `None` if this process finds no trace of it.
    pub fn state(&self) -> Option<State> {
        match self {
            Output::File(file) => file.state(),
            Output::Object(object) => Some(object.state()),
            Output::Collection(version) => Some(version.state()),
        }
    }

    /// Removes what was prepared and not published.
    pub fn withdraw(&self) {
        match self {
            Output::File(file) => file.withdraw(),
            Output::Object(object) => object.withdraw(),
            Output::Collection(version) => version.withdraw(),
        }
    }

    /// Removes what it has replaced, once all outputs of the flow are visible.
    pub fn clean(&self) {
        if let Output::Collection(version) = self {
            version.clean();
        }
    }

    /// Whether it may replace anything that has its name, so that publishing cannot be refused.
    pub fn replaces(&self) -> bool {
        match self {
            Output::File(file) => file.replaces,
            Output::Object(object) => object.replaces,
            // Another writer may have committed this version.
            Output::Collection(_) => false,
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Output::File(file) => file.target.display().to_string(),
            Output::Object(object) => object.url.clone(),
            Output::Collection(version) => format!("collection `{}`", version.manifest.name),
        }
    }

    /// Whether it exists as published, and has not changed since.
    pub fn is_there(&self) -> bool {
        match self {
            Output::File(file) => file.is_published(),
            // A store does not record which upload made an object.
            Output::Object(_) => false,
            Output::Collection(version) => version.is_newest(),
        }
    }
}
