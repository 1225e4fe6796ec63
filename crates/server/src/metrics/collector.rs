//! Keeps the latest totals of a flow for scrapes, which then never wait for the flow.

use std::sync::Arc;

use euphrates_engine::observe::observer::{FlowEvent, FlowObserver};
use euphrates_engine::observe::totals::FlowTotals;
use euphrates_flow::Result;
use parking_lot::Mutex;

use super::server::MetricsServer;
use super::table::{FlowReading, FlowState};
use super::text::exposition;

/// The latest totals of one flow; an observer of it.
#[derive(Default)]
pub struct FlowCollector {
    latest: Mutex<Option<FlowReading>>,
}

impl FlowCollector {
    /// A collector that knows no flow yet.
    pub fn new() -> Arc<FlowCollector> {
        Arc::default()
    }

    /// The flow, once it has started.
    pub fn readings(&self) -> Vec<FlowReading> {
        self.latest.lock().iter().cloned().collect()
    }
}

/// An observer that serves the metrics of its flow as long as it exists.
pub struct ServedMetrics {
    collector: Arc<FlowCollector>,
    /// The server of the metrics.
    pub server: MetricsServer,
}

impl ServedMetrics {
    /// Listens at an address, as `MetricsServer::start` takes it.
    pub fn start(address: &str) -> Result<Arc<ServedMetrics>> {
        let collector = FlowCollector::new();
        let read = collector.clone();
        let source = Arc::new(move || exposition(&read.readings(), &[]));
        let server = MetricsServer::start(address, source)?;
        Ok(Arc::new(ServedMetrics { collector, server }))
    }
}

impl FlowObserver for ServedMetrics {
    fn on_event(&self, event: &FlowEvent<'_>) {
        self.collector.on_event(event);
    }
}

/// The metrics of the parts of flows that a worker of this name runs.
pub fn of_parts(totals: Vec<FlowTotals>, worker: &str) -> String {
    let reading = |totals| FlowReading { totals, is_part: true, ..FlowReading::default() };
    let readings: Vec<FlowReading> = totals.into_iter().map(reading).collect();
    exposition(&readings, &[("worker", worker)])
}

impl FlowObserver for FlowCollector {
    fn on_event(&self, event: &FlowEvent<'_>) {
        let mut latest = self.latest.lock();
        if let FlowEvent::Started { totals, .. } = event {
            let (totals, slow_episodes) = ((*totals).clone(), Some(0));
            *latest = Some(FlowReading { totals, slow_episodes, ..FlowReading::default() });
        }
        let Some(latest) = latest.as_mut() else { return };
        match event {
            FlowEvent::Progress { totals, .. } => latest.totals = (*totals).clone(),
            FlowEvent::Restarted { cost, .. } => latest.totals.restarts = *cost,
            FlowEvent::SlowBegan(_) => {
                latest.slow_episodes = latest.slow_episodes.map(|episodes| episodes + 1);
            }
            FlowEvent::Finished(report) => {
                latest.state = FlowState::Done;
                latest.totals.seconds = report.seconds;
            }
            FlowEvent::Failed(_) => latest.state = FlowState::Failed,
            _ => {}
        }
    }
}
