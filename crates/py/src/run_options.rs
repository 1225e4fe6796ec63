//! The options of a run: JSON from Python, and the engine options that it stands for.

use std::path::PathBuf;

use euphrates_engine::Options;
use euphrates_engine::queue::policies::named;
use euphrates_flow::{Error, Perturbation, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The options of a run, as Python passes them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunOptions {
    memory_bytes: Option<usize>,
    cores: Option<usize>,
    home: Option<PathBuf>,
    scratch: Vec<PathBuf>,
    workers: Option<usize>,
    queues: Option<String>,
    variables: Map<String, Value>,
    perturbations: Vec<Perturbation>,
    resume: bool,
}

impl RunOptions {
    /// Parses the JSON of the options into engine options.
    pub fn parse(json: &str) -> Result<Options> {
        let options: RunOptions = serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the options are malformed: {error}")))?;
        Ok(Options {
            memory_bytes: options.memory_bytes,
            cores: options.cores,
            home: options.home,
            scratch: options.scratch,
            workers: options.workers,
            cluster: None,
            queue_policy: options.queues.as_deref().map(named).transpose()?,
            variables: options.variables.into_iter().collect(),
            perturbations: options.perturbations,
            resume: options.resume,
        })
    }
}
