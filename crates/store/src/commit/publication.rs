//! Publication of prepared outputs: makes them visible, withdraws them, or tells their state.

use euphrates_device::durable::Durability;
use euphrates_flow::Result;
use euphrates_policy::commit::State;

use super::decision::DecidedOutput;
use super::prepared::Output;

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

impl DecidedOutput {
    /// Its state in the commit. If no worker is named and no trace of the output is left, nothing
    /// is left to publish.
    pub fn state(&self) -> State {
        match (self.output.state(), &self.at) {
            _ if self.is_published => State::Published,
            (Some(state), _) => state,
            (None, Some(_)) => State::OutOfReach,
            (None, None) => State::Published,
        }
    }
}
