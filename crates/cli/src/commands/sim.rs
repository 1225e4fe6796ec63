//! `sim`: simulates a cluster that runs the scheduling policies of this version.

use std::path::PathBuf;

use clap::Args;
use euphrates_flow::{Error, Kind, Result};
use euphrates_sim::{QueueReport, Scenario, attempt, shrink};
use serde_json::json;

use crate::terminal::print;

/// Arguments of `euphrates sim`.
#[derive(Debug, Args)]
pub struct Sim {
    /// A scenario (JSON), like those in crates/sim/scenarios
    pub scenario: PathBuf,
    /// Nodes on each side, instead of those of the scenario
    #[arg(long)]
    pub nodes: Option<u32>,
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds to run, one after the other
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// Fail below this part of the bound, and print a smaller scenario that fails as well
    #[arg(long, default_value_t = 0.0, value_name = "FRACTION")]
    pub at_least: f64,
    /// As JSON, an object a line
    #[arg(long)]
    pub json: bool,
}

/// Simulates the scenario with each seed, and prints a report for each.
pub fn run(command: Sim) -> Result<()> {
    let name = &command.scenario;
    let text = std::fs::read_to_string(name).map_err(|error| {
        let kind = if error.kind() == std::io::ErrorKind::NotFound {
            Error::usage(format!("there is no {name:?}"))
        } else {
            Error::os("read", name, &error)
        };
        kind.remedy("name a file like crates/sim/scenarios/one-slow.json")
    })?;
    let wrong = |text: String| Error::usage(text).at(name.display());
    let mut scenario = Scenario::parse(&text).map_err(wrong)?;
    if let Some(nodes) = command.nodes {
        scenario = scenario.with_nodes(nodes);
        scenario.check().map_err(wrong)?;
    }
    // A violated invariant is reported as an error with its seed, without a panic message.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in command.seed..command.seed.saturating_add(command.seeds) {
        match simulate(&scenario, seed, command.at_least) {
            Ok(report) if command.json => print(&(json!(report).to_string() + "\n"))?,
            Ok(report) => print(&page(&report))?,
            Err(failure) => return Err(shrunk(&scenario, seed, command.at_least, failure)?),
        }
    }
    Ok(())
}

/// Simulates one seed. Fails if an invariant is violated, or if throughput is below `at_least` of
/// the bound.
fn simulate(
    scenario: &Scenario,
    seed: u64,
    at_least: f64,
) -> std::result::Result<QueueReport, String> {
    let report = attempt(scenario, seed)?;
    if report.fraction < at_least {
        return Err(format!("{:.3} of the bound, not {at_least}", report.fraction));
    }
    Ok(report)
}

/// Shrinks a failing scenario and prints it. Returns the error with the remedy to replay it.
fn shrunk(scenario: &Scenario, seed: u64, at_least: f64, failure: String) -> Result<Error> {
    let small = shrink(scenario, |scenario| simulate(scenario, seed, at_least).is_err());
    print(&(small.to_json() + "\n"))?;
    Ok(Error::new(Kind::Failed, format!("seed {seed}: {failure}"))
        .remedy(format!("save the scenario printed, and replay it with --seed {seed}")))
}

fn page(report: &QueueReport) -> String {
    let mut text = format!("seed            {}\n", report.seed);
    text += &format!("completed       {:.1} ms\n", report.completed_ms);
    text += &format!("bound           {:.1} ms\n", report.bound_ms);
    text += &format!("fraction        {:.3}\n", report.fraction);
    text += &format!("idle            {:.1} %\n", report.idle * 100.0);
    text += &format!("tail            {:.1} ms\n", report.tail_ms);
    text += &format!("batches         {} in {} pieces\n", report.batches, report.pieces);
    text += &format!("messages        {:.2} a batch\n", report.messages_per_batch);
    let (pieces, bytes) = (report.held_pieces_max, report.held_bytes_max);
    text += &format!("held at most    {pieces} pieces, {bytes} bytes\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_below_the_limit_fails() {
        let scenario = r#"{"kind": "queue", "producers": 4, "consumers": 4, "batches": 20}"#;
        let scenario = Scenario::parse(scenario).unwrap();
        let report = simulate(&scenario, 1, 0.5).unwrap();
        assert!(page(&report).contains("80 in"));
        assert!(simulate(&scenario, 1, 1.0).unwrap_err().contains("of the bound"));
        let error = shrunk(&scenario, 1, 1.0, "slow".into()).unwrap();
        assert!(error.message().contains("seed 1"));
    }
}
