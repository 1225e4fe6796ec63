//! `report`: the report of an event log, or how far its flow came.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use euphrates_engine::observe::format::{bytes_of, count, seconds};
use euphrates_engine::observe::totals::FlowTotals;
use euphrates_flow::{Error, Result};
use euphrates_server::event_log::read_events;
use serde_json::Value;

use crate::terminal::print;

/// Arguments of `euphrates report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A file that --event-log has written
    #[arg(value_name = "LOG")]
    pub event_log: PathBuf,
}

/// Prints the report of the last flow in the log.
pub fn run(command: &ReportArguments) -> Result<()> {
    let events = read_events(&command.event_log)?;
    let last = events.iter().rposition(|event| event["kind"] == "started");
    let last = last.ok_or_else(|| {
        Error::usage(format!("{} has no flow that has started", command.event_log.display()))
            .remedy("name a file that --event-log has written")
    })?;
    print(&page(&events[last..]))
}

/// The page about one flow: its report, or its failure and its last totals.
fn page(events: &[Value]) -> String {
    let last = |kind: &str| events.iter().rfind(|event| event["kind"] == kind);
    if let Some(page) = last("finished").and_then(|event| event["page"].as_str()) {
        return format!("{page}\n");
    }
    let mut totals = events
        .iter()
        .filter_map(|event| event.get("totals"))
        .filter_map(|totals| serde_json::from_value::<FlowTotals>(totals.clone()).ok());
    let mut text = totals.next_back().map_or_else(String::new, |totals| how_far(&totals));
    for event in events.iter().filter(|event| event["kind"] == "restarted") {
        let _ = writeln!(text, "{}", event["cause"].as_str().unwrap_or_default());
    }
    match last("failed").map(|event| &event["error"]) {
        Some(error) => {
            let of = |name: &str| error[name].as_str().filter(|text| !text.is_empty());
            let place = of("at").map(|at| format!("{at}: ")).unwrap_or_default();
            let _ = writeln!(text, "failed: {place}{}", of("message").unwrap_or_default());
            if let Some(remedy) = of("remedy") {
                let _ = writeln!(text, "  remedy: {remedy}");
            }
        }
        None => text.push_str("the log ends before the flow: it runs, or its process was killed\n"),
    }
    text
}

/// The totals as a table.
fn how_far(totals: &FlowTotals) -> String {
    let mut text = format!("flow `{}` after {}\n\n", totals.flow, seconds(totals.seconds));
    let width = totals.modules.iter().map(|one| one.id.chars().count()).max().unwrap_or(0).max(6);
    let _ = writeln!(
        text,
        "{:width$}  {:>2}  {:>5}  {:>13}  {:>13}  {:>10}",
        "module", "×", "ended", "rows in", "rows out", "bytes out"
    );
    for module in &totals.modules {
        let _ = writeln!(
            text,
            "{:width$}  {:>2}  {:>5}  {:>13}  {:>13}  {:>10}",
            module.id,
            module.count,
            module.ended,
            count(module.counters.rows_in),
            count(module.counters.rows_out),
            bytes_of(module.counters.bytes_out as f64)
        );
    }
    text.push('\n');
    text
}
