//! The handle of a worker's part of an attempt: passes commands and connections to the thread that
//! runs it (`part/runner.rs`).

mod connecting;
pub(super) mod lending;
mod remote_coordination;
mod row_samples;
pub(super) mod runner;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error, Result};
use euphrates_wire::{Connection, Frame, Lane, Secret};
use parking_lot::Mutex;

use super::control::{AttemptPlan, MasterCommand};
use super::identity::batch_lane_timeout;
use crate::observe::totals::FlowTotals;
use crate::queue::dispatch::Dispatch;
use crate::queue::network::Network;
use crate::run::running_part::Ended;

/// The handle of a part, which runs on a thread of its own.
pub struct Part {
    events: Sender<PartEvent>,
    secret: Secret,
    cancel: Arc<Cancel>,
    network: Arc<Network>,
    dispatch: Arc<Dispatch>,
    names: Vec<String>,
    /// The limit on silence of other workers.
    batch_lane_timeout: Duration,
    /// CPU time of the instances here, in nanoseconds.
    pub cpu: Arc<AtomicU64>,
    /// The totals at the last status report.
    pub totals: Mutex<Option<FlowTotals>>,
}

pub(super) enum PartEvent {
    Command(MasterCommand, Buffer),
    Ended(Ended),
    /// A connection to another worker was made, or was lost.
    Connected,
    Lost(String, Error),
    /// The connection to the master has ended.
    MasterGone,
}

impl Part {
    /// A part of this attempt, and the events for the thread that is to run it.
    pub fn new(
        attempt: (u64, u32),
        plan: &AttemptPlan,
    ) -> Result<(Arc<Part>, Receiver<PartEvent>)> {
        let (events, received) = channel();
        let cancel = Arc::new(Cancel::default());
        let processes = (plan.names.len(), plan.lanes);
        let network = Network::new(attempt, plan.placement.me, processes, cancel.clone());
        let part = Part {
            events,
            secret: Secret::parse(&plan.secret)?,
            cancel,
            dispatch: Dispatch::new(network.clone()),
            network,
            names: plan.names.clone(),
            batch_lane_timeout: batch_lane_timeout(plan.lost_after),
            cpu: Arc::default(),
            totals: Mutex::default(),
        };
        Ok((Arc::new(part), received))
    }

    /// The flow's secret, for its own connections.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Handles a command of the master. Hold, cancel and close take effect at once, whatever the
    /// part is waiting for.
    pub fn command(&self, command: MasterCommand, body: Buffer) {
        if let MasterCommand::Hold { modules } = &command {
            self.network.claim_gates().hold(modules);
            // A consumer that was held may wait for any of several queues.
            return self.cancel.unpark_threads();
        }
        if matches!(command, MasterCommand::Cancel | MasterCommand::Close(_)) {
            self.cancel.cancel();
        }
        self.post(PartEvent::Command(command, body));
    }

    /// Ends the part: the connection to the master has ended.
    pub fn lose(&self) {
        self.cancel.cancel();
        self.post(PartEvent::MasterGone);
    }

    /// Accepts a connection for batches from another worker or the master, which has named itself.
    pub fn on_call(self: &Arc<Self>, connection: Connection) -> Result<()> {
        let name = &connection.peer.name;
        let found = self.names.iter().position(|known| known == name);
        let worker = found.ok_or_else(|| Error::usage(format!("`{name}` is not in this flow")))?;
        self.welcome(worker, connection.peer.lane as usize, connection)
    }

    /// Uses a connection to another worker from now on, whatever name it gave.
    fn welcome(self: &Arc<Self>, worker: usize, lane: usize, connection: Connection) -> Result<()> {
        let name = self.names[worker].clone();
        let (dispatch, part) = (self.dispatch.clone(), Arc::downgrade(self));
        let (me, from) = (self.names[self.network.me()].clone(), name.clone());
        let on_frame = move |frame: Frame| dispatch.on_frame(&frame, &me, &from);
        let peer = name.clone();
        let on_end = move |result: Result<()>| {
            if let (Some(part), Err(error)) = (part.upgrade(), result) {
                part.post(PartEvent::Lost(peer, error));
            }
        };
        let called = format!("batches {name}");
        let carrier =
            Lane::start_patient(self.batch_lane_timeout, connection, &called, on_frame, on_end)?;
        self.network.connect(worker, lane, Arc::new(carrier));
        self.post(PartEvent::Connected);
        Ok(())
    }

    fn post(&self, event: PartEvent) {
        // A part that has ended receives nothing.
        let _ = self.events.send(event);
    }
}
