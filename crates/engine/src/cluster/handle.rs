//! A master's hold on one worker: a control connection that all its flows share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_wire::{Address, Frame, Kind, Lane, Secret, Security, dial};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::control::{self, Ask, Tell};
use super::driver::Driver;
use super::launch::{self, Origin};
use super::sender::ControlSender;
use super::{MASTER, greeting};
use crate::run::placement::Member;

/// How often a worker that is being started is looked for.
const LOOK: Duration = Duration::from_millis(2);
/// How long one call may take.
const CALL_WAIT: Duration = Duration::from_secs(5);

/// What a worker tells one of the master's flows, or one of its launches.
pub enum Event<T = Tell> {
    /// This, with what came beside it.
    Told(T, Buffer),
    /// That it is no more.
    Lost(Error),
}

type Listen<T> = Arc<dyn Fn(Event<T>) + Send + Sync>;

/// A worker, as its master holds it.
pub struct WorkerHandle {
    member: Member,
    address: Address,
    lane: Lane,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    flows: Listeners<Tell>,
    launches: Listeners<launch::Tell>,
    lost: Mutex<Option<Error>>,
}

/// Calls a worker that is being started, until it answers.
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
        thread::sleep(LOOK);
    }
}

impl WorkerHandle {
    fn new(
        connection: euphrates_wire::Connection,
        address: Address,
        name: &str,
        lost_after: Option<Duration>,
    ) -> Result<Arc<WorkerHandle>> {
        let state = Arc::new(State::default());
        let (heard, ended) = (state.clone(), state.clone());
        let (introduce, introduced) = channel();
        let on_frame = move |frame: Frame| {
            if frame.header.flow == 0 {
                // It says who it is, once.
                let _ = introduce.send(control::read::<Member>(&frame.meta));
            } else {
                heard.hear(frame);
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
        let member = Member { name: name.to_string(), ..member.map_err(silent)?? };
        let handle = WorkerHandle { member, address, lane, state };
        handle.launch(0, &launch::Ask::Introduce { origin: Origin::here() }, vec![]);
        Ok(Arc::new(handle))
    }

    /// What it is.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Asks for something in an attempt at a flow.
    pub fn ask(&self, id: (u64, u32), ask: &Ask, body: Vec<Buffer>) {
        ControlSender::of_attempt(&self.lane, id).send(ask, body);
    }

    /// Asks for something in a launch.
    pub fn launch(&self, number: u64, ask: &launch::Ask, body: Vec<Buffer>) {
        ControlSender::of_launch(&self.lane, number).send(ask, body);
    }

    /// Has all that it tells of a flow heard; at once, if it is lost.
    pub fn listen(&self, flow: u64, listen: impl Fn(Event) + Send + Sync + 'static) {
        self.state.flows.add(flow, Arc::new(listen), &self.state.lost);
    }

    /// Nobody listens to a flow any more.
    pub fn forget(&self, flow: u64) {
        self.state.flows.remove(flow);
    }

    /// Has all that it tells of a launch heard; at once, if it is lost.
    pub fn listen_to_launch(
        &self,
        number: u64,
        listen: impl Fn(Event<launch::Tell>) + Send + Sync + 'static,
    ) {
        self.state.launches.add(number, Arc::new(listen), &self.state.lost);
    }

    /// Nobody listens to a launch any more.
    pub fn forget_launch(&self, number: u64) {
        self.state.launches.remove(number);
    }

    /// The limit on its silence.
    pub fn silence(&self) -> Duration {
        self.lane.borne()
    }

    /// Why it is lost, if it is.
    pub fn lost(&self) -> Option<Error> {
        self.state.lost.lock().clone()
    }

    /// Its name, and why it is lost, if it is.
    pub fn loss(&self) -> Option<(String, Error)> {
        Some((self.member.name.clone(), self.lost()?))
    }

    /// It is lost.
    pub fn lose(&self, error: &Error) {
        self.state.lose(error);
        self.lane.cut();
    }

    /// Bytes that went to and fro.
    pub fn bytes(&self) -> u64 {
        self.lane.sent_bytes() + self.lane.received_bytes()
    }

    /// Says Bye.
    pub fn close(&self) {
        self.lane.close();
    }
}

impl State {
    fn hear(&self, frame: Frame) {
        match frame.header.kind {
            Kind::Launch => self.launches.hear(frame),
            _ => self.flows.hear(frame),
        }
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

/// Who listens to what, by the number of the flow or the launch.
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
            listen(Event::Lost(error));
        }
    }

    fn remove(&self, number: u64) {
        self.0.lock().remove(&number);
    }

    fn hear(&self, frame: Frame) {
        let listen = self.0.lock().get(&frame.header.flow).cloned();
        let Some(listen) = listen else { return };
        match control::read::<T>(&frame.meta) {
            Ok(tell) => listen(Event::Told(tell, frame.body)),
            Err(error) => listen(Event::Lost(error)),
        }
    }

    fn lose(&self, error: &Error) {
        let listeners: Vec<Listen<T>> = self.0.lock().values().cloned().collect();
        listeners.iter().for_each(|listen| listen(Event::Lost(error.clone())));
    }
}
