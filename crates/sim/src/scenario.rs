//! Scenarios: the JSON description of a simulation, for files, tests and the command line.

use serde::{Deserialize, Serialize};

use crate::disks::MirrorsScenario;
use crate::queue::QueueScenario;
use crate::report::QueueReport;

/// The description of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scenario {
    /// A distributed queue between producers and consumers.
    Queue(QueueScenario),
    /// The reading of a mirrored collection.
    Mirrors(MirrorsScenario),
}

impl Scenario {
    /// Parses and checks a scenario; the error describes the first rule that it breaks.
    ///
    /// ```
    /// use euphrates_sim::Scenario;
    ///
    /// let text = std::fs::read_to_string("scenarios/mirrors.json")?;
    /// let scenario = Scenario::parse(&text)?;
    /// assert_eq!(Scenario::parse(&scenario.to_json())?, scenario);
    /// assert!(Scenario::parse(r#"{"kind": "mirror"}"#).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let scenario: Scenario = serde_json::from_str(text).map_err(|error| error.to_string())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks a scenario; the error describes the first rule that it breaks.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Scenario::Queue(queue) => queue.check(),
            Scenario::Mirrors(mirrors) => mirrors.check(),
        }
    }

    /// This scenario with `nodes` producers and consumers, or disks.
    ///
    /// ```
    /// use euphrates_sim::Scenario;
    ///
    /// let text = std::fs::read_to_string("scenarios/mirrors.json")?;
    /// let Scenario::Mirrors(mirrors) = Scenario::parse(&text)?.with_nodes(12) else { panic!() };
    /// assert_eq!(mirrors.disks, 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_nodes(mut self, nodes: u32) -> Scenario {
        match &mut self {
            Scenario::Queue(queue) => (queue.producers, queue.consumers) = (nodes, nodes),
            Scenario::Mirrors(mirrors) => mirrors.disks = nodes,
        }
        self
    }

    /// Formats the scenario as JSON, which `parse` reads.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a scenario is plain data")
    }
}

/// Runs a scenario that has been checked. Equal seeds give equal reports on every machine.
///
/// ```
/// use euphrates_sim::scenario::{Scenario, run};
///
/// let text = std::fs::read_to_string("scenarios/mirrors.json")?;
/// let scenario = Scenario::parse(&text)?;
/// // One seed gives one course of events.
/// let (one, other) = (run(&scenario, 7), run(&scenario, 7));
/// assert_eq!(format!("{one:?}"), format!("{other:?}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(scenario: &Scenario, seed: u64) -> QueueReport {
    match scenario {
        Scenario::Queue(queue) => crate::queue::run(queue, seed),
        Scenario::Mirrors(mirrors) => crate::disks::run_scenario(mirrors, seed),
    }
}

/// Like `run`, but returns the message of an assertion of a policy or the simulator that fails.
///
/// ```
/// use euphrates_sim::{Scenario, attempt};
///
/// let text = std::fs::read_to_string("scenarios/mirrors.json")?;
/// let report = attempt(&Scenario::parse(&text)?, 7)?;
/// assert!(report.fraction > 0.0 && report.fraction <= 1.0, "of the fluid bound");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attempt(scenario: &Scenario, seed: u64) -> Result<QueueReport, String> {
    std::panic::catch_unwind(|| run(scenario, seed)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        text.unwrap_or_else(|| "an invariant broke".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All scenarios in the folder `scenarios`, by path.
    fn shipped() -> Vec<(String, Scenario)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let files = std::fs::read_dir(folder).expect("the scenarios");
        let paths = files.map(|file| file.expect("a file").path());
        let json = paths.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
        let read = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(&path).expect("a text");
            let name = path.display().to_string();
            let scenario = Scenario::parse(&text).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            (name, scenario)
        };
        json.map(read).collect()
    }

    #[test]
    fn shipped_scenarios_roundtrip_and_run_deterministically() {
        let shipped = shipped();
        assert!(shipped.len() >= 5);
        for (name, scenario) in shipped {
            assert_eq!(Scenario::parse(&scenario.to_json()), Ok(scenario.clone()), "{name}");
            let mut small = scenario;
            match &mut small {
                Scenario::Queue(queue) => {
                    queue.producers = queue.producers.min(60);
                    queue.consumers = queue.consumers.min(60);
                    queue.batches = queue.batches.min(50);
                }
                Scenario::Mirrors(mirrors) => {
                    mirrors.disks = mirrors.disks.min(60);
                    mirrors.blocks = mirrors.blocks.min(50);
                }
            }
            assert_eq!(attempt(&small, 1), attempt(&small, 1), "{name}");
            assert!(attempt(&small, 1).is_ok(), "{name}: {:?}", attempt(&small, 1));
        }
    }

    #[test]
    fn invalid_scenarios_name_the_broken_rule() {
        let wrong = |text: &str| Scenario::parse(text).expect_err(text);
        assert!(wrong(r#"{"kind": "queue", "producers": 0}"#).contains("producers"));
        assert!(wrong(r#"{"kind": "queue", "speed": 1}"#).contains("speed"));
        assert!(wrong(r#"{"kind": "tea"}"#).contains("tea"));
        let all_die = r#"{"kind": "queue", "consumers": 1,
            "deaths": [{"side": "consumers", "node": 0, "at_ms": 1}]}"#;
        assert!(wrong(all_die).contains("must live"));
        let lost = r#"{"kind": "mirrors", "copies": 1, "deaths": [{"disk": 0, "at_ms": 1}]}"#;
        assert!(wrong(lost).contains("none left"));
        assert!(wrong(r#"{"kind": "mirrors", "disks": 3, "copies": 4}"#).contains("copies"));
    }
}
