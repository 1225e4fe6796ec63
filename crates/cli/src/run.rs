//! Drives a flow from the command line: progress, Ctrl-C, report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use euphrates_engine::{Options, Report, start};
use euphrates_flow::{Document, Registry, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::{Log, Resources};
use crate::progress::Teller;

/// How often progress is looked at, and Ctrl-C heard.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a flow to its end and tells about it on standard error.
pub fn run(
    document: &Document,
    registry: &Registry,
    options: &Options,
    log: Log,
) -> Result<Report> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let handlers: Vec<_> = [SIGINT, SIGTERM]
        .into_iter()
        .filter_map(|signal| signal_hook::flag::register(signal, interrupted.clone()).ok())
        .collect();
    let outcome = watch(document, registry, options, log, &interrupted);
    handlers.into_iter().for_each(|handler| {
        signal_hook::low_level::unregister(handler);
    });
    outcome
}

fn watch(
    document: &Document,
    registry: &Registry,
    options: &Options,
    log: Log,
    interrupted: &AtomicBool,
) -> Result<Report> {
    let mut running = start(document, registry, options)?;
    let mut teller = Teller::new(log);
    while !running.wait_for(LOOK) {
        if interrupted.load(Relaxed) {
            running.cancel();
        }
        teller.tell(&running.progress());
    }
    let outcome = running.finish();
    teller.end(outcome.as_ref().ok());
    outcome
}

/// The engine's options for these resources.
pub fn options(resources: &Resources) -> Options {
    Options {
        memory_bytes: resources.memory,
        cores: resources.threads,
        scratch: resources.scratch.clone(),
        ..Options::default()
    }
}
