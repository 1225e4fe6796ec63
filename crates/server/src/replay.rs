//! Replays an event log as a run of the project: its record is written at the pace of the log, so
//! that the page shows what it would have shown then.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use euphrates_engine::machine;
use euphrates_flow::{Error, Result, spawn_named};
use serde_json::{Value, json};

use crate::event_log::read_events;
use crate::runs::record::{DOCUMENT, END, HISTORY, ORDER, PROGRESS, RunRecord, TOTALS};
use crate::server::Server;
use crate::studio::Studio;

/// The longest pause between two events: a flow that stood still is not waited for.
const PAUSE_MAX: Duration = Duration::from_secs(2);

impl Server {
    /// Starts to replay a log; returns the id of the run that shows it.
    pub fn replay(&self, log: &Path) -> Result<String> {
        let studio = self.studio.clone();
        let events = read_events(log)?;
        let started = events.iter().find(|event| event["kind"] == "started").ok_or_else(|| {
            let message = format!("{} has no event `started`", log.display());
            Error::usage(message).remedy("name a file that `--event-log` has written")
        })?;
        let id = machine::run_id();
        let record =
            studio.runs.create_record(&id).map_err(|error| Error::failed(error.message))?;
        let order = json!({
            "id": id,
            "name": format!("{} (replay)", started["totals"]["flow"].as_str().unwrap_or("flow")),
            "started": started["time"],
            "cluster": "",
            "variables": {},
        });
        record.write(DOCUMENT, &started["document"])?;
        record.write(ORDER, &order)?;
        let held = record.hold()?;
        studio.events.follow(&id);
        let replayed = id.clone();
        spawn_named("replay", move || {
            let _held = held;
            // The page shows the end of the log if the record cannot be written.
            let _ = replay(&record, &replayed, &events, &studio);
        })?;
        Ok(id)
    }
}

fn replay(record: &RunRecord, id: &str, events: &[Value], studio: &Arc<Studio>) -> Result<()> {
    let (mut last, mut seconds, mut end) = (None, json!(0.0), None);
    for event in events {
        let at = event["time"].as_f64().unwrap_or_default();
        let pause = at - last.replace(at).unwrap_or(at);
        let pause = Duration::try_from_secs_f64(pause.max(0.0)).unwrap_or_default();
        std::thread::sleep(pause.min(PAUSE_MAX));
        match event["kind"].as_str() {
            Some("progress") => {
                let mut live = event["live"].clone();
                live["run"] = json!(id);
                live["at"] = json!(at);
                live["perturbed"] = json!([]);
                live[TOTALS] = event["totals"].clone();
                seconds = live["seconds"].clone();
                record.write(PROGRESS, &live)?;
            }
            Some("finished") => {
                let report = &event["report"];
                record.write(HISTORY, &report["history"])?;
                end = Some(json!({
                    "state": "done",
                    "seconds": report["seconds"],
                    "report": report,
                    "collected": {},
                }));
            }
            Some("failed") => {
                let is_stopped = event["error"]["kind"] == "interrupted";
                let state = if is_stopped { "stopped" } else { "failed" };
                end = Some(json!({"state": state, "seconds": seconds, "error": event["error"]}));
            }
            _ => {}
        }
    }
    let killed = || {
        let error = json!({
            "kind": "failed",
            "message": "the log ends before the flow: its process was killed",
            "at": "",
        });
        json!({"state": "failed", "seconds": seconds, "error": error})
    };
    record.write(END, &end.unwrap_or_else(killed))?;
    studio.events.publish("runs", "", &json!({}));
    Ok(())
}
