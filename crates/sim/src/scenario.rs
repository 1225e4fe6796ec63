//! What is simulated: data, read from JSON, the same for files, tests and the command line.

use serde::{Deserialize, Serialize};

use crate::queue::QueueScenario;
use crate::report::Report;

/// A scenario, by its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scenario {
    /// A distributed queue between producers and consumers.
    Queue(QueueScenario),
}

impl Scenario {
    /// Reads a scenario; says what is wrong with it, if anything.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let scenario: Scenario = serde_json::from_str(text).map_err(|error| error.to_string())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Scenario::Queue(queue) => queue.check(),
        }
    }

    /// The same with so many nodes on each side.
    pub fn with_nodes(mut self, nodes: u32) -> Scenario {
        match &mut self {
            Scenario::Queue(queue) => (queue.producers, queue.consumers) = (nodes, nodes),
        }
        self
    }

    /// The same in JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a scenario is plain data")
    }
}

/// Runs a scenario that has been checked. The same seed gives the same report, everywhere.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    match scenario {
        Scenario::Queue(queue) => crate::queue::run(queue, seed),
    }
}
