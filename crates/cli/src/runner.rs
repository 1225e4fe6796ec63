//! Runs a flow for a command: reports progress, cancels on Ctrl-C, prints the report.

use std::sync::Arc;
use std::time::Duration;

use euphrates_engine::cluster::options::ClusterOptions;
use euphrates_engine::observe::observer::FlowObserver;
use euphrates_engine::queue::policies::named;
use euphrates_engine::run::check::check_flow;
use euphrates_engine::{Options, Report, start_unless};
use euphrates_flow::{Document, Registry, Result};
use euphrates_server::event_log::EventLog;
use euphrates_server::metrics::collector::ServedMetrics;

use crate::host::Host;
use crate::options::files::FileOptions;
use crate::options::{Log, ResourceOptions};
use crate::progress::ProgressReporter;
use crate::signals::Signals;
use crate::table::table;
use crate::terminal::{print, say};

/// Poll interval of progress and of signals.
const PROGRESS_POLL: Duration = Duration::from_millis(50);

/// Runs a flow to its end; writes progress and the report to standard error.
pub fn run(
    document: &Document,
    registry: &Registry,
    options: &Options,
    log: Log,
) -> Result<Report> {
    let signals = Signals::listen();
    let mut running = start_unless(document, registry, options, &|| signals.received())?;
    let mut reporter = ProgressReporter::new(log);
    while !running.wait_for(PROGRESS_POLL) {
        if signals.received() {
            running.cancel();
        }
        reporter.update(&running.progress());
    }
    let outcome = running.finish();
    reporter.finish(outcome.as_ref().ok());
    outcome
}

/// Runs a flow, and prints the rows that its `collect` modules kept.
pub fn run_and_print_rows(
    document: &Document,
    registry: &Registry,
    options: &Options,
    log: Log,
) -> Result<()> {
    let report = run(document, registry, options, log)?;
    report.collected.iter().try_for_each(|(id, collected)| print(&table(id, collected)?))
}

/// Runs the flow, or prints its checked document if `--print` was given.
pub fn run_or_print(
    flow: &Document,
    files: &FileOptions,
    resources: &ResourceOptions,
    log: Log,
    host: &dyn Host,
) -> Result<()> {
    let options = options(resources, host)?;
    if !files.print {
        return run(flow, &host.registry(), &options, log).map(drop);
    }
    let checked = check_flow(flow, &host.registry(), &options)?;
    print(&format!("{}\n", checked.document.to_json()))
}

/// The engine options for these resources; opens the cluster if one is named.
pub fn options(resources: &ResourceOptions, host: &dyn Host) -> Result<Options> {
    let cluster = ClusterOptions {
        worker_command: host.worker_command(),
        worker_environment: host.worker_environment(),
        token_file: resources.token_file.clone(),
        workers: resources.workers,
        security: resources.channel_security,
        lost_after: resources.lost_after,
        ..ClusterOptions::default()
    };
    let policy = if resources.divide { Some("static") } else { resources.queues.as_deref() };
    let open = |words| host.open_cluster(words, &cluster);
    Ok(Options {
        memory_bytes: resources.memory,
        cache_bytes: resources.cache,
        cores: resources.cores.or(resources.threads),
        scratch: resources.scratch.clone(),
        workers: resources.workers.filter(|_| resources.cluster.is_none()),
        cluster: resources.cluster.as_deref().map(open).transpose()?,
        queue_policy: policy.map(named).transpose()?,
        resume: resources.resume,
        observers: observers(resources)?,
        ..Options::default()
    })
}

/// The observers that the options ask for, which fail before the flow starts.
fn observers(resources: &ResourceOptions) -> Result<Vec<Arc<dyn FlowObserver>>> {
    let mut all: Vec<Arc<dyn FlowObserver>> = vec![];
    if let Some(path) = &resources.event_log {
        all.push(Arc::new(EventLog::create(path)?));
    }
    if let Some(address) = &resources.metrics {
        let served = ServedMetrics::start(address)?;
        say(&format!("metrics at http://{}/metrics", served.server.address));
        all.push(served);
    }
    Ok(all)
}
