//! The options of a run: JSON from Python, and the engine options that it stands for.

use std::path::PathBuf;
use std::sync::Arc;

use euphrates_engine::Options;
use euphrates_engine::observe::observer::FlowObserver;
use euphrates_engine::queue::policies::named;
use euphrates_flow::{Error, Perturbation, Result};
use euphrates_server::event_log::EventLog;
use euphrates_server::metrics::collector::ServedMetrics;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The options of a run, as Python passes them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunOptions {
    memory_bytes: Option<usize>,
    cache_bytes: Option<usize>,
    cores: Option<usize>,
    home: Option<PathBuf>,
    scratch: Vec<PathBuf>,
    workers: Option<usize>,
    queues: Option<String>,
    variables: Map<String, Value>,
    perturbations: Vec<Perturbation>,
    resume: bool,
    metrics: Option<String>,
    event_log: Option<PathBuf>,
}

impl RunOptions {
    /// Parses the JSON of the options into engine options.
    pub fn parse(json: &str) -> Result<Options> {
        let options: RunOptions = serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the options are malformed: {error}")))?;
        let mut observers: Vec<Arc<dyn FlowObserver>> = vec![];
        if let Some(path) = &options.event_log {
            observers.push(Arc::new(EventLog::create(path)?));
        }
        if let Some(address) = &options.metrics {
            observers.push(ServedMetrics::start(address)?);
        }
        Ok(Options {
            memory_bytes: options.memory_bytes,
            cache_bytes: options.cache_bytes,
            cores: options.cores,
            home: options.home,
            scratch: options.scratch,
            workers: options.workers,
            cluster: None,
            queue_policy: options.queues.as_deref().map(named).transpose()?,
            variables: options.variables.into_iter().collect(),
            perturbations: options.perturbations,
            resume: options.resume,
            observers,
        })
    }
}
