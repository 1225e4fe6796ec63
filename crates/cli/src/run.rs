//! Drives a flow from the command line: progress, Ctrl-C, report.

use std::path::Path;
use std::time::Duration;

use euphrates_engine::queue::policies::named;
use euphrates_engine::{Options, Report, start_unless};
use euphrates_flow::{Document, Registry, Result};
use euphrates_server::child::{self, Drive};
use euphrates_server::record::Record;

use crate::arguments::{Log, Resources, Run};
use crate::progress::Teller;
use crate::signals::Signals;
use crate::{ClusterOptions, Host};

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
    let mut running = start_unless(document, registry, options, &|| signals.heard())?;
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

/// Runs the flow of a record, which tells of it, too.
pub fn for_studio(folder: &Path, command: &Run, host: &dyn Host) -> Result<u8> {
    let signals = Signals::listen();
    child::drive(Drive {
        record: Record::at(folder),
        registry: &host.registry(),
        options: &|| options(&command.resources, host),
        ends_with: command.ends_with,
        is_interrupted: &|| signals.heard(),
    })?;
    Ok(0)
}

/// The engine's options for these resources.
pub fn options(resources: &Resources, host: &dyn Host) -> Result<Options> {
    let cluster = ClusterOptions {
        worker_command: host.worker_command(),
        worker_environment: host.worker_environment(),
        token_file: resources.token_file.clone(),
        workers: resources.workers,
        within: None,
        on: vec![],
        security: resources.channel_security,
        lost_after: resources.lost_after,
    };
    let way = if resources.divide { Some("static") } else { resources.queues.as_deref() };
    Ok(Options {
        memory_bytes: resources.memory,
        cores: resources.threads,
        scratch: resources.scratch.clone(),
        workers: resources.workers.filter(|_| resources.cluster.is_none()),
        cluster: resources
            .cluster
            .as_deref()
            .map(|words| host.open_cluster(words, &cluster))
            .transpose()?,
        queue_policy: way.map(named).transpose()?,
        resume: resources.resume,
        ..Options::default()
    })
}
