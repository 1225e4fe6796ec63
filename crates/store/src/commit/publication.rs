//! Publication of prepared outputs: makes them visible, withdraws them, or tells their state.

use euphrates_device::durable::Durability;
use euphrates_flow::Result;
use euphrates_policy::commit::OutputState;

use super::decision::DecidedOutput;
use super::prepared::PreparedOutput;

impl PreparedOutput {
    /// Makes the output visible. May be repeated. After an error a file is not visible; an object
    /// or a collection may be: [`PreparedOutput::state`] tells.
    pub fn publish(&self) -> Result<Durability> {
        match self {
            PreparedOutput::File(file) => file.publish(),
            PreparedOutput::Folder(folder) => folder.publish(),
            PreparedOutput::Object(object) => object.publish(),
            PreparedOutput::Collection(version) => version.publish(),
        }
    }

    /// Its state in the commit; `None` if this process finds no trace of it.
    pub fn state(&self) -> Option<OutputState> {
        match self {
            PreparedOutput::File(file) => file.state(),
            PreparedOutput::Folder(folder) => folder.state(),
            PreparedOutput::Object(object) => Some(object.state()),
            PreparedOutput::Collection(version) => Some(version.state()),
        }
    }

    /// Removes what was prepared. The caller must know that the output is not published: the files
    /// of a published collection would be removed.
    pub fn withdraw(&self) {
        match self {
            PreparedOutput::File(file) => file.withdraw(),
            PreparedOutput::Folder(folder) => folder.withdraw(),
            PreparedOutput::Object(object) => object.withdraw(),
            PreparedOutput::Collection(version) => version.withdraw(),
        }
    }

    /// Removes what it has replaced, once all outputs of the flow are visible.
    pub fn clean(&self) {
        match self {
            PreparedOutput::Collection(version) => version.clean(),
            PreparedOutput::Folder(folder) => folder.clean(),
            PreparedOutput::File(_) | PreparedOutput::Object(_) => {}
        }
    }

    /// Whether it exists as published, and has not changed since. Always false for an object.
    pub fn is_published_unchanged(&self) -> bool {
        match self {
            PreparedOutput::File(file) => file.is_published(),
            PreparedOutput::Folder(folder) => folder.is_published_unchanged(),
            // A store does not record which upload made an object.
            PreparedOutput::Object(_) => false,
            PreparedOutput::Collection(version) => version.is_newest(),
        }
    }
}

impl DecidedOutput {
    /// Its state in the commit. If no worker is named and no trace of the output is left, nothing
    /// is left to publish.
    pub fn state(&self) -> OutputState {
        match (self.output.state(), &self.at) {
            _ if self.is_published => OutputState::Published,
            (Some(state), _) => state,
            (None, Some(_)) => OutputState::OutOfReach,
            (None, None) => OutputState::Published,
        }
    }
}
