//! `sim`: what a cluster would do, asked of the policies that would run it.

use euphrates_flow::{Error, Kind, Result};
use euphrates_sim::{Report, Scenario, attempt, shrink};
use serde_json::json;

use crate::arguments::Sim;
use crate::print;

/// `euphrates sim`
pub fn run(command: Sim) -> Result<u8> {
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
    // A broken invariant is told as an error, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in command.seed..command.seed.saturating_add(command.seeds) {
        match judged(&scenario, seed, command.at_least) {
            Ok(report) if command.json => print(&(json!(report).to_string() + "\n"))?,
            Ok(report) => print(&page(&report))?,
            Err(complaint) => return Err(smaller(&scenario, seed, command.at_least, complaint)?),
        }
    }
    Ok(0)
}

/// The report, or what is wrong with it.
fn judged(scenario: &Scenario, seed: u64, at_least: f64) -> std::result::Result<Report, String> {
    let report = attempt(scenario, seed)?;
    if report.fraction < at_least {
        return Err(format!("{:.3} of the bound, not {at_least}", report.fraction));
    }
    Ok(report)
}

/// Prints the smallest scenario that fails as well, and says how to run it.
fn smaller(scenario: &Scenario, seed: u64, at_least: f64, complaint: String) -> Result<Error> {
    let small = shrink(scenario, |scenario| judged(scenario, seed, at_least).is_err());
    print(&(small.to_json() + "\n"))?;
    Ok(Error::new(Kind::Failed, format!("seed {seed}: {complaint}"))
        .remedy(format!("save the scenario printed, and replay it with --seed {seed}")))
}

fn page(report: &Report) -> String {
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
    fn a_run_that_is_too_slow_is_no_success() {
        let scenario = r#"{"kind": "queue", "producers": 4, "consumers": 4, "batches": 20}"#;
        let scenario = Scenario::parse(scenario).unwrap();
        let report = judged(&scenario, 1, 0.5).unwrap();
        assert!(page(&report).contains("80 in"));
        assert!(judged(&scenario, 1, 1.0).unwrap_err().contains("of the bound"));
        let error = smaller(&scenario, 1, 1.0, "slow".into()).unwrap();
        assert!(error.message().contains("seed 1"));
    }
}
