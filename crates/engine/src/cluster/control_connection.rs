//! A master's control connection to one worker, shared by all its flows and launches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_launch::{LaunchRequest, Notice, Origin};
use euphrates_wire::{Address, Frame, FrameKind, Lane, Secret, Security, dial};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::control::{self, ControlEvent, MasterCommand, WorkerNotice};
use super::driver::Driver;
use super::identity::{MASTER, greeting};
use super::sender::ControlSender;
use crate::run::placement::WorkerProperties;

/// How often a starting worker is called.
const START_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How late the detection of a lost worker may be.
const LATE: Duration = Duration::from_millis(600);

/// How long one call may take.
const CALL_WAIT: Duration = Duration::from_secs(5);

/// An event of a worker, for one of the master's flows or launches.
pub enum WorkerEvent<T = ControlEvent> {
    /// A message of the worker, with its body.
    Message(T, Buffer),
    /// The worker drains; reported to flows only, at least once.
    Draining,
    /// The worker is lost.
    Lost(Error),
}

type Listen<T> = Arc<dyn Fn(WorkerEvent<T>) + Send + Sync>;

/// The control connection of one worker.
pub struct WorkerHandle {
    member: WorkerProperties,
    address: Address,
    lane: Lane,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    flows: Listeners<ControlEvent>,
    launches: Listeners<Notice>,
    lost: Mutex<Option<Error>>,
    is_draining: AtomicBool,
}

/// Calls a starting worker until it answers.
pub fn call(
    driver: &dyn Driver,
    name: &str,
    secret: &Secret,
    security: Security,
    (deadline, lost_after): (Instant, Option<Duration>),
) -> Result<Arc<WorkerHandle>> {
    let me = greeting(MASTER, "control", (0, 0)).silent_for(lost_after);
    let mut last = Error::resource("it has not said where it listens");
    loop {
        if let Some(address) = driver.address(name)? {
            match dial(&address, &me, secret, security, CALL_WAIT) {
                Ok(connection) => {
                    return WorkerHandle::new(connection, address, name, lost_after);
                }
                Err(error) if error.kind() != euphrates_flow::Kind::Resource => return Err(error),
                Err(error) => last = error,
            }
        }
        if Instant::now() > deadline {
            return Err(last);
        }
        thread::sleep(START_POLL_INTERVAL);
    }
}

/// How long it takes to detect the loss of any of these workers.
pub fn loss_detection_time(handles: &[Arc<WorkerHandle>]) -> Duration {
    let longest = handles.iter().map(|handle| handle.heartbeat_timeout()).max();
    longest.unwrap_or_default() + LATE
}

impl WorkerHandle {
    fn new(
        connection: euphrates_wire::Connection,
        address: Address,
        name: &str,
        lost_after: Option<Duration>,
    ) -> Result<Arc<WorkerHandle>> {
        let state = Arc::new(State::default());
        let (receiver, ended) = (state.clone(), state.clone());
        let (introduce, introduced) = channel();
        let on_frame = move |frame: Frame| {
            if frame.header.flow == 0 {
                match control::read(&frame.meta) {
                    Ok(WorkerNotice::Draining) => receiver.drain(),
                    Ok(WorkerNotice::Introduction(member)) => drop(introduce.send(Ok(member))),
                    Err(error) => drop(introduce.send(Err(error))),
                }
            } else {
                receiver.receive(frame);
            }
        };
        let worker = name.to_string();
        let on_end = move |result: Result<()>| {
            let ended_well = || Error::resource(format!("worker `{worker}` has ended"));
            ended.lose(&result.err().unwrap_or_else(ended_well));
        };
        let title = format!("control {name}");
        let lane = Lane::start_within(lost_after, connection, &title, on_frame, on_end)?;
        let member = introduced.recv_timeout(CALL_WAIT);
        let silent = |_| Error::resource("it did not say what it is");
        let member = WorkerProperties { name: name.to_string(), ..member.map_err(silent)?? };
        let handle = WorkerHandle { member, address, lane, state };
        handle.launch(0, &LaunchRequest::Introduce { origin: Origin::here() }, vec![]);
        Ok(Arc::new(handle))
    }

    /// The name and properties of the worker.
    pub fn member(&self) -> &WorkerProperties {
        &self.member
    }

    /// The address at which the worker listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a command about an attempt at a flow.
    pub fn command(&self, id: (u64, u32), command: &MasterCommand, body: Vec<Buffer>) {
        ControlSender::of_attempt(&self.lane, id).send(command, body);
    }

    /// Sends a request about a launch.
    pub fn launch(&self, number: u64, request: &LaunchRequest, body: Vec<Buffer>) {
        ControlSender::of_launch(&self.lane, number).send(request, body);
    }

    /// Calls `listen` with the events of a flow; at once, if the worker is lost or drains.
    pub fn listen(&self, flow: u64, listen: impl Fn(WorkerEvent) + Send + Sync + 'static) {
        let listen: Listen<ControlEvent> = Arc::new(listen);
        self.state.flows.add(flow, listen.clone(), &self.state.lost);
        if self.is_draining() {
            listen(WorkerEvent::Draining);
        }
    }

    /// Stops listening to a flow.
    pub fn forget(&self, flow: u64) {
        self.state.flows.remove(flow);
    }

    /// Calls `listen` with the events of a launch; at once, if the worker is lost.
    pub fn listen_to_launch(
        &self,
        number: u64,
        listen: impl Fn(WorkerEvent<Notice>) + Send + Sync + 'static,
    ) {
        self.state.launches.add(number, Arc::new(listen), &self.state.lost);
    }

    /// Stops listening to a launch.
    pub fn forget_launch(&self, number: u64) {
        self.state.launches.remove(number);
    }

    /// The limit on the worker's silence.
    pub fn heartbeat_timeout(&self) -> Duration {
        self.lane.base_timeout()
    }

    /// The reason why the worker is lost, if it is.
    pub fn lost(&self) -> Option<Error> {
        self.state.lost.lock().clone()
    }

    /// Whether the worker drains.
    pub fn is_draining(&self) -> bool {
        self.state.is_draining.load(SeqCst)
    }

    /// The worker's name, and the reason why it is lost, if it is.
    pub fn loss(&self) -> Option<(String, Error)> {
        Some((self.member.name.clone(), self.lost()?))
    }

    /// Marks the worker as lost.
    pub fn lose(&self, error: &Error) {
        self.state.lose(error);
        self.lane.cut();
    }

    /// Bytes sent and received.
    pub fn bytes(&self) -> u64 {
        self.lane.sent_bytes() + self.lane.received_bytes()
    }

    /// Ends the connection in order.
    pub fn close(&self) {
        self.lane.close();
    }
}

impl State {
    fn receive(&self, frame: Frame) {
        match frame.header.kind {
            FrameKind::Launch => self.launches.receive(frame),
            _ => self.flows.receive(frame),
        }
    }

    fn drain(&self) {
        self.is_draining.store(true, SeqCst);
        self.flows.all().iter().for_each(|listen| listen(WorkerEvent::Draining));
    }

    fn lose(&self, error: &Error) {
        {
            let mut lost = self.lost.lock();
            if lost.is_some() {
                return;
            }
            *lost = Some(error.clone());
        }
        self.flows.lose(error);
        self.launches.lose(error);
    }
}

/// The listeners, by number of the flow or launch.
struct Listeners<T>(Mutex<HashMap<u64, Listen<T>>>);

impl<T> Default for Listeners<T> {
    fn default() -> Listeners<T> {
        Listeners(Mutex::default())
    }
}

impl<T: DeserializeOwned> Listeners<T> {
    fn add(&self, number: u64, listen: Listen<T>, lost: &Mutex<Option<Error>>) {
        self.0.lock().insert(number, listen.clone());
        let lost = lost.lock().clone();
        if let Some(error) = lost {
            listen(WorkerEvent::Lost(error));
        }
    }

    fn remove(&self, number: u64) {
        self.0.lock().remove(&number);
    }

    fn receive(&self, frame: Frame) {
        let listen = self.0.lock().get(&frame.header.flow).cloned();
        let Some(listen) = listen else { return };
        match control::read::<T>(&frame.meta) {
            Ok(message) => listen(WorkerEvent::Message(message, frame.body)),
            Err(error) => listen(WorkerEvent::Lost(error)),
        }
    }

    fn lose(&self, error: &Error) {
        self.all().iter().for_each(|listen| listen(WorkerEvent::Lost(error.clone())));
    }

    fn all(&self) -> Vec<Listen<T>> {
        self.0.lock().values().cloned().collect()
    }
}
