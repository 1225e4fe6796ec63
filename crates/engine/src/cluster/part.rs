//! A worker's part of one attempt at a flow: it is asked for one step after the other, and tells
//! its master how it goes.

mod connecting;
mod runner;
mod showing;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error, Result};
use euphrates_wire::{Connection, Frame, Lane, Secret};

use self::runner::Runner;
use super::control::{Ask, Plan};
use super::patience;
use super::sender::ControlSender;
use super::server::{WorkerState, beside};
use crate::queue::dispatch::Dispatch;
use crate::queue::network::Network;
use crate::run::worker::Ended;

/// The handle to a part, which runs on a thread of its own.
pub struct Part {
    events: Sender<Event>,
    secret: Secret,
    cancel: Arc<Cancel>,
    network: Arc<Network>,
    dispatch: Arc<Dispatch>,
    names: Vec<String>,
    /// The limit on silence of other workers.
    patience: Duration,
    /// What the instances here have computed, in nanoseconds.
    pub cpu: Arc<AtomicU64>,
}

enum Event {
    Asked(Ask, Buffer),
    Ended(Ended),
    /// A connection is there, or was lost.
    Connected,
    Lost(String, Error),
    /// The master is gone.
    Alone,
}

impl Part {
    /// Begins: checks the flow and prepares what is here of it, then says so. Whoever hears that
    /// may call, so the part is known before.
    pub fn start(
        state: &Arc<WorkerState>,
        attempt: (u64, u32),
        plan: Plan,
        master: Lane,
    ) -> Result<Arc<Part>> {
        let (events, heard) = channel();
        let cancel = Arc::new(Cancel::default());
        let me = plan.placement.me;
        let processes = (plan.names.len(), plan.lanes);
        let network = Network::new(attempt, me, processes, cancel.clone());
        let part = Arc::new(Part {
            events,
            secret: Secret::parse(&plan.secret)?,
            cancel,
            dispatch: Dispatch::new(network.clone()),
            network,
            names: plan.names.clone(),
            patience: patience(plan.lost_after),
            cpu: Arc::default(),
        });
        let sender = ControlSender::of_attempt(&master, attempt);
        let name = format!("flow {}", plan.document.name);
        let (state, given) = (state.clone(), part.clone());
        state.know(attempt.0, &part);
        let at_work = state.busy.begin();
        beside(name, move || {
            Runner::new(&state, plan, sender, given).live(&heard);
            drop(at_work);
        })?;
        Ok(part)
    }

    /// What the flow's own connections are made with.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The master wants something. What is to end ends at once, whatever the part is waiting for.
    pub fn ask(&self, ask: Ask, body: Buffer) {
        if matches!(ask, Ask::Cancel | Ask::Close(_)) {
            self.cancel.cancel();
        }
        self.tell(Event::Asked(ask, body));
    }

    /// The master is gone.
    pub fn lose(&self) {
        self.cancel.cancel();
        self.tell(Event::Alone);
    }

    /// Another worker has called; it says which one it is.
    pub fn on_call(self: &Arc<Self>, connection: Connection) -> Result<()> {
        let name = &connection.peer.name;
        let found = self.names.iter().position(|known| known == name);
        let worker = found.ok_or_else(|| Error::usage(format!("`{name}` is not in this flow")))?;
        self.welcome(worker, connection.peer.lane as usize, connection)
    }

    /// There is a connection to another worker, whatever that calls itself.
    fn welcome(self: &Arc<Self>, worker: usize, lane: usize, connection: Connection) -> Result<()> {
        let name = self.names[worker].clone();
        let (dispatch, part) = (self.dispatch.clone(), Arc::downgrade(self));
        let (me, from) = (self.names[self.network.me()].clone(), name.clone());
        let on_frame = move |frame: Frame| dispatch.on_frame(&frame, &me, &from);
        let peer = name.clone();
        let on_end = move |result: Result<()>| {
            if let (Some(part), Err(error)) = (part.upgrade(), result) {
                part.tell(Event::Lost(peer, error));
            }
        };
        let called = format!("batches {name}");
        let carrier = Lane::start_patient(self.patience, connection, &called, on_frame, on_end)?;
        self.network.connect(worker, lane, Arc::new(carrier));
        self.tell(Event::Connected);
        Ok(())
    }

    fn tell(&self, event: Event) {
        // Whoever has ended needs to hear nothing.
        let _ = self.events.send(event);
    }
}
