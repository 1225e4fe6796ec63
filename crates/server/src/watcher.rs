//! Watches run records and open files on a thread, and publishes their changes as events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use euphrates_flow::{Result, spawn_named};
use serde_json::json;

use crate::events::Events;
use crate::runs::record::{PROGRESS, RunRecord};
use crate::studio::Studio;

/// Poll interval of run records; files are polled at every fourth poll.
const RECORD_POLL: Duration = Duration::from_millis(250);

/// Starts the thread, which ends with the server.
pub fn start(studio: &Arc<Studio>) -> Result<()> {
    for id in studio.runs.ids() {
        if let Ok(record) = studio.runs.record(&id)
            && studio.runs.is_running(&id, &record)
        {
            studio.events.follow(&id);
        }
    }
    let studio = Arc::downgrade(studio);
    let watch = move || {
        let mut polls = 0_u64;
        while let Some(studio) = studio.upgrade() {
            publish_runs(&studio);
            if polls.is_multiple_of(4) {
                studio.runs.reap();
                for path in studio.watched.changed(&studio.folder) {
                    studio.events.publish("file", &path, &json!({"path": path}));
                }
            }
            polls += 1;
            drop(studio);
            std::thread::sleep(RECORD_POLL);
        }
    };
    spawn_named("events", watch).map(drop)
}

/// Publishes the progress and the outcome of runs.
fn publish_runs(studio: &Studio) {
    let events = &studio.events;
    let mut ended = BTreeSet::new();
    for (id, published) in events.live() {
        let Ok(record) = studio.runs.record(&id) else {
            ended.insert(id);
            continue;
        };
        let end = studio.runs.end(&id, &record);
        publish_progress(events, &id, &record, published);
        let Some(end) = end else { continue };
        let mut outcome = json!({"run": id, "state": end["state"]});
        if let Some(error) = end.get("error") {
            outcome["error"] = error.clone();
        }
        events.remove("progress", &id);
        events.publish("ended", &id, &outcome);
        if let Some(report) = end.get("report").filter(|report| !report.is_null()) {
            events.publish("report", &id, &json!({"run": id, "report": report}));
        }
        events.publish("runs", "", &json!({}));
        ended.insert(id);
    }
    events.unfollow(&ended);
}

fn publish_progress(events: &Events, id: &str, record: &RunRecord, published: Option<SystemTime>) {
    let written = record.written(PROGRESS);
    if written.is_none() || written == published {
        return;
    }
    // Parsed and serialised again, because an event must be one line of JSON.
    if let Some(progress) = record.read(PROGRESS) {
        events.set_published(id, written);
        events.publish("progress", id, &progress);
    }
}
