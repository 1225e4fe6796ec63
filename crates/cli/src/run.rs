//! Drives a flow from the command line: progress, Ctrl-C, report.

use std::time::Duration;

use euphrates_engine::division::named;
use euphrates_engine::{Options, Report, start};
use euphrates_flow::{Document, Registry, Result};

use crate::arguments::{Log, Resources};
use crate::progress::Teller;
use crate::signals::Signals;

/// How often progress is looked at, and Ctrl-C heard.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a flow to its end and tells about it on standard error.
pub fn run(
    document: &Document,
    registry: &Registry,
    options: &Options,
    log: Log,
) -> Result<Report> {
    let signals = Signals::listen();
    let mut running = start(document, registry, options)?;
    let mut teller = Teller::new(log);
    while !running.wait_for(LOOK) {
        if signals.heard() {
            running.cancel();
        }
        teller.tell(&running.progress());
    }
    let outcome = running.finish();
    teller.end(outcome.as_ref().ok());
    outcome
}

/// The engine's options for these resources.
pub fn options(resources: &Resources) -> Result<Options> {
    let way = if resources.divide { Some("static") } else { resources.queues.as_deref() };
    Ok(Options {
        memory_bytes: resources.memory,
        cores: resources.threads,
        scratch: resources.scratch.clone(),
        workers: resources.workers,
        division: way.map(named).transpose()?,
        ..Options::default()
    })
}
