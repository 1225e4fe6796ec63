//! `GET /metrics`: the metrics of the project's runs, for programs with the server's token.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use euphrates_engine::observe::totals::FlowTotals;

use crate::http::error::{ApiError, Result};
use crate::http::response::response;
use crate::metrics::table::{FlowReading, FlowState};
use crate::metrics::text::{CONTENT_TYPE, exposition};
use crate::runs::record::{END, PROGRESS, RunRecord, TOTALS};
use crate::runs::{ProjectRuns, RECORDS_MAX};
use crate::studio::Studio;

/// How long the metrics of a run are shown after its end, so that a scrape sees the last ones.
const SHOWN_AFTER_END: Duration = Duration::from_secs(300);

/// `GET /metrics`: the runs that are running, or have ended lately.
pub async fn scrape(studio: Arc<Studio>) -> Result<Response> {
    // Records are read from a disk, which must not block other connections of this thread.
    let text = tokio::task::spawn_blocking(move || text(&studio.runs)).await;
    let text = text.map_err(|_| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the server has a bug")
    })?;
    Ok(response(StatusCode::OK, CONTENT_TYPE, text.into()))
}

fn text(runs: &ProjectRuns) -> String {
    let ids = runs.ids().into_iter().take(RECORDS_MAX);
    let records = ids.filter_map(|id| Some((runs.record(&id).ok()?, id)));
    let readings: Vec<FlowReading> =
        records.filter_map(|(record, id)| reading(runs, &id, &record)).collect();
    exposition(&readings, &[])
}

fn reading(runs: &ProjectRuns, id: &str, record: &RunRecord) -> Option<FlowReading> {
    let is_running = runs.is_running(id, record);
    let ended = record.written(END).and_then(|written| written.elapsed().ok());
    if !is_running && ended.is_none_or(|since| since > SHOWN_AFTER_END) {
        return None;
    }
    let mut totals: FlowTotals =
        serde_json::from_value(record.read(PROGRESS)?.get(TOTALS)?.clone()).ok()?;
    totals.run = id.to_string();
    let is_done = || record.read(END).is_some_and(|end| end["state"] == "done");
    let state = match is_running {
        true => FlowState::Running,
        false if is_done() => FlowState::Done,
        false => FlowState::Failed,
    };
    // The process of a run counts no episodes; those that last are shown by their factors.
    Some(FlowReading { totals, state, ..FlowReading::default() })
}
