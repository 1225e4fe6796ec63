//! Test helpers: both ends of a connection over every carrier, and the frames they exchange.
#![allow(dead_code)]

pub mod active;
pub mod proxy;
pub mod random;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use euphrates_flow::Result;
use euphrates_wire::{
    Address, Caps, Connection, Frame, FrameKind, Greeting, Header, Lane, Listener, Secret,
    Security, dial, shared_memory,
};

/// A time-out for tests: longer than any step takes on a crowded machine.
pub const LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Unix,
    /// A unix socket, with large bodies in shared memory.
    Shared,
    Tcp,
    Tls,
}

pub const CARRIERS: [Carrier; 4] = [Carrier::Unix, Carrier::Shared, Carrier::Tcp, Carrier::Tls];

impl Carrier {
    pub fn security(self) -> Security {
        if self == Carrier::Tls { Security::Tls } else { Security::Token }
    }

    /// A greeting with the abilities of an end of this carrier.
    pub fn of(self, mut greeting: Greeting) -> Greeting {
        if self == Carrier::Shared {
            greeting.abilities.extend(shared_memory::abilities());
        }
        greeting
    }
}

/// Runs a test over all carriers at the same time, where the test itself takes seconds.
pub fn at_each(test: impl Fn(Carrier) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for carrier in CARRIERS {
            scope.spawn(move || test(carrier));
        }
    });
}

pub fn greeting(name: &str) -> Greeting {
    Greeting {
        name: name.into(),
        purpose: "batches".into(),
        flow: 7,
        epoch: 1,
        lane: 0,
        program: "0.1.0".into(),
        silence_ms: 0,
        caps: Caps::KNOWN,
        abilities: vec!["a".into()],
    }
}

/// A listener named `w1`, and the connections it has accepted.
pub struct Answerer {
    pub listener: Listener,
    pub secret: Secret,
    pub carrier: Carrier,
    connections: Receiver<Connection>,
    _folder: tempfile::TempDir,
}

pub fn answerer(carrier: Carrier) -> Answerer {
    answerer_as(carrier, greeting("w1"))
}

pub fn answerer_as(carrier: Carrier, me: Greeting) -> Answerer {
    let folder = tempfile::tempdir().unwrap();
    let address = match carrier {
        Carrier::Unix | Carrier::Shared => Address::Unix(folder.path().join("socket")),
        Carrier::Tcp | Carrier::Tls => "127.0.0.1:0".parse().unwrap(),
    };
    let secret = Secret::random().unwrap();
    let (sender, connections) = mpsc::channel();
    let known = secret.clone();
    let keys = Arc::new(move |flow| (flow == 7).then(|| known.clone()));
    let on = move |connection| sender.send(connection).unwrap_or(());
    let listener = Listener::bind(&address, carrier.of(me), keys, carrier.security(), on).unwrap();
    Answerer { listener, secret, carrier, connections, _folder: folder }
}

impl Answerer {
    pub fn called(&self) -> Connection {
        self.connections.recv_timeout(LONG).expect("a caller")
    }

    /// Whether no caller has been authenticated so far.
    pub fn has_no_caller(&self) -> bool {
        self.connections.try_recv().is_err()
    }

    pub fn dial(&self, me: &Greeting) -> Result<Connection> {
        self.dial_at(self.listener.address(), me)
    }

    pub fn dial_at(&self, address: &Address, me: &Greeting) -> Result<Connection> {
        dial(address, &self.carrier.of(me.clone()), &self.secret, self.carrier.security(), LONG)
    }

    /// Both ends of a connection, the caller's (`w2`) first.
    pub fn pair(&self) -> (Connection, Connection) {
        let calling = self.dial(&greeting("w2")).unwrap();
        (calling, self.called())
    }

    /// Waits for the first refusals of the listener and returns their text.
    pub fn refusals(&self) -> String {
        for _ in 0..60_000 {
            let refusals = self.listener.refusals();
            if !refusals.is_empty() {
                return refusals.iter().map(|error| format!("{error}\n")).collect();
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("nobody was refused");
    }
}

/// A lane, and the frames and end that it has delivered.
pub struct Endpoint {
    pub lane: Lane,
    frames: Receiver<Frame>,
    end: Receiver<Result<()>>,
}

pub fn listen(connection: Connection) -> Endpoint {
    let (frame_sender, frames) = mpsc::channel();
    let (end_sender, end) = mpsc::channel();
    let lane = Lane::start_within(
        None,
        connection,
        "test",
        move |frame| frame_sender.send(frame).unwrap_or(()),
        move |ended| end_sender.send(ended).unwrap_or(()),
    );
    Endpoint { lane: lane.unwrap(), frames, end }
}

impl Endpoint {
    pub fn frame(&self) -> Frame {
        self.frames.recv_timeout(LONG).expect("a frame")
    }

    pub fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        std::iter::from_fn(|| self.frames.recv_timeout(LONG).ok())
    }

    pub fn end(&self) -> Result<()> {
        self.end.recv_timeout(LONG).expect("an end")
    }

    /// The reason why the lane ended without Bye.
    pub fn why(&self) -> String {
        self.end().expect_err("no Bye").to_string()
    }

    pub fn send(&self, queue: u32, meta: &[u8]) {
        let header = Header { queue, flow: 7, ..Header::of(FrameKind::Message) };
        self.lane.send(header, meta.to_vec(), vec![]);
    }
}
