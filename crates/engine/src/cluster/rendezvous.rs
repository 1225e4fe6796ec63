//! Workers that join by themselves, started by `ssh`, `srun`, `mpirun`, a unit file.
//!
//! A worker connects to a known address and reports its own; it is a member as long as that
//! connection lasts. The process at that address is either the master of one program, or a keeper
//! (`euphrates cluster`), which sends the list of its members to every master.

pub mod draining;
pub mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Kind, Result};
use euphrates_wire::{Address, Connection, Frame, Lane, Listener, Secret, Security, dial};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::control;
use super::driver::{Driver, OnLost};
use super::identity::{MASTER, check_name, greeting};
use super::sender::ControlSender;
use super::static_driver::Losses;
use crate::run::placement::WorkerProperties;

/// How long one call may take.
const CALL_WAIT: Duration = Duration::from_secs(5);
/// The purposes of connections: of a worker that joins, of a master that requests the members, and
/// of a caller that wants a worker to drain.
const JOIN: &str = "join";
const ASK: &str = "members";
const DRAIN: &str = "drain";

/// A worker that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The name and properties of the worker.
    pub member: WorkerProperties,
    /// The address at which the worker listens.
    pub address: Address,
}

/// What a worker reports to its keeper.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "notice")]
enum MemberNotice {
    Joined(Joined),
    /// Programs that come from now on do not get this worker.
    Draining,
}

/// What a keeper requests of a worker.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request")]
enum KeeperRequest {
    /// The worker is to drain.
    Drain,
}

/// Accepts workers that join, and lists them.
pub struct Rendezvous {
    listener: Listener,
    book: Arc<Book>,
}

#[derive(Default)]
struct Book {
    state: Mutex<State>,
    changed: Condvar,
    losses: Losses,
    /// The limit on a worker's silence, if not the default.
    lost_after: Option<Duration>,
}

#[derive(Default)]
struct State {
    joined: BTreeMap<String, Joined>,
    /// Those of them that drain.
    draining: BTreeSet<String>,
    /// The connections of the workers.
    lanes: BTreeMap<String, Lane>,
}

/// The state of a joining worker's connection. It changes only while the book is locked, so that a
/// join and a loss are ordered, whichever is noticed first.
#[derive(Default)]
enum JoinStanding {
    /// Not in the book yet.
    #[default]
    Called,
    /// Not in the book yet, and it drains.
    Draining,
    /// In the book under this name.
    Entered(String),
    Gone,
}

impl Rendezvous {
    /// Listens for workers that join, and for masters that request the list of members.
    pub fn open(
        address: &Address,
        secret: &Secret,
        security: Security,
        lost_after: Option<Duration>,
    ) -> Result<Rendezvous> {
        let book = Arc::new(Book { lost_after, ..Book::default() });
        let (known, called) = (secret.clone(), book.clone());
        let keys = Arc::new(move |flow: u64| (flow == 0).then(|| known.clone()));
        let me = greeting(MASTER, JOIN, (0, 0)).silent_for(lost_after);
        let on_call = move |connection: Connection| {
            // A caller that fails gets no answer.
            drop(match connection.peer.purpose.as_str() {
                JOIN => called.welcome(connection),
                DRAIN => called.drain(connection),
                _ => called.list(connection),
            });
        };
        let listener = Listener::bind(address, me, keys, security, on_call)?;
        Ok(Rendezvous { listener, book })
    }

    /// The address at which it listens.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Lines to log about refused callers; see `Refusals::lines`.
    pub fn refusals(&self) -> Vec<String> {
        self.listener.lines()
    }

    /// The workers that have joined, by name.
    pub fn joined(&self) -> Vec<Joined> {
        self.book.state.lock().joined.values().cloned().collect()
    }

    /// The names of the workers that drain.
    pub fn draining(&self) -> Vec<String> {
        self.book.state.lock().draining.iter().cloned().collect()
    }

    /// Waits until this many workers have joined, without those that drain.
    fn wait_for(&self, workers: usize, within: Duration) -> Result<Vec<Joined>> {
        let deadline = Instant::now() + within;
        let mut state = self.book.state.lock();
        while state.available().count() < workers {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let came = state.available().count();
                let refused = self.listener.refusals().pop();
                let why = refused.map_or(String::new(), |error| format!("; refused: {error}"));
                let message = format!("{came} of {workers} workers have joined{why}");
                let start = format!("euphrates worker --join {} --token-file …", self.address());
                return Err(Error::resource(message).remedy(format!("start the others: `{start}`")));
            }
            self.book.changed.wait_for(&mut state, left);
        }
        Ok(state.available().cloned().collect())
    }
}

impl State {
    /// The workers that do not drain.
    fn available(&self) -> impl Iterator<Item = &Joined> {
        let joined = self.joined.iter();
        joined.filter(|(name, _)| !self.draining.contains(*name)).map(|(_, joined)| joined)
    }
}

impl Book {
    /// Accepts a worker, which reports its properties and keeps the connection.
    fn welcome(self: &Arc<Self>, connection: Connection) -> Result<()> {
        let (sender, received) = channel();
        let (book, standing) = (self.clone(), Arc::<Mutex<JoinStanding>>::default());
        let (known, draining) = (self.clone(), standing.clone());
        let on_frame = move |frame: Frame| {
            // Only the first introduction counts.
            match control::read(&frame.meta) {
                Ok(MemberNotice::Draining) => known.on_draining(&draining),
                Ok(MemberNotice::Joined(joined)) => drop(sender.send(Ok(joined))),
                Err(error) => drop(sender.send(Err(error))),
            }
        };
        let gone = standing.clone();
        let on_end = move |result: Result<()>| {
            let left = || Error::resource("it has ended");
            book.leave(&gone, result.err().unwrap_or_else(left));
        };
        let lane = Lane::start_within(self.lost_after, connection, "join", on_frame, on_end)?;
        let silent = |_| Error::resource("it did not say what it is");
        let joined = received.recv_timeout(CALL_WAIT).map_err(silent)??;
        self.enter(joined, lane, &standing)
    }

    /// Registers a worker under its name, with a number added if the name is in use; fails if the
    /// worker has disconnected.
    fn enter(&self, joined: Joined, lane: Lane, standing: &Mutex<JoinStanding>) -> Result<()> {
        check_name(&joined.member.name)?;
        let mut state = self.state.lock();
        let mut standing = standing.lock();
        if let JoinStanding::Gone = *standing {
            return Err(Error::resource("it has gone again"));
        }
        let known = joined.member.name.clone();
        let mut names = (1..).map(|n| if n == 1 { known.clone() } else { format!("{known}-{n}") });
        let free = names.find(|name| !state.joined.contains_key(name)).expect("numbers do not end");
        if let JoinStanding::Draining = *standing {
            state.draining.insert(free.clone());
        }
        *standing = JoinStanding::Entered(free.clone());
        let member = WorkerProperties { name: free.clone(), ..joined.member };
        state.joined.insert(free.clone(), Joined { member, ..joined });
        state.lanes.insert(free, lane);
        self.changed.notify_all();
        Ok(())
    }

    fn leave(&self, standing: &Mutex<JoinStanding>, error: Error) {
        let mut state = self.state.lock();
        let mut standing = standing.lock();
        let JoinStanding::Entered(name) = std::mem::replace(&mut *standing, JoinStanding::Gone)
        else {
            return;
        };
        state.lanes.remove(&name);
        state.draining.remove(&name);
        self.changed.notify_all();
        if state.joined.remove(&name).is_some() {
            self.losses.lose(&name, error);
        }
    }

    /// A worker drains.
    fn on_draining(&self, standing: &Mutex<JoinStanding>) {
        let mut state = self.state.lock();
        let mut standing = standing.lock();
        match &*standing {
            JoinStanding::Entered(name) => drop(state.draining.insert(name.clone())),
            JoinStanding::Called => *standing = JoinStanding::Draining,
            JoinStanding::Draining | JoinStanding::Gone => {}
        }
    }

    /// Lists the members to a master, without those that drain.
    fn list(&self, connection: Connection) -> Result<()> {
        let joined: Vec<Joined> = self.state.lock().available().cloned().collect();
        let (ended, end) = channel();
        let on_end = move |_| {
            // The receiver may be gone.
            let _ = ended.send(());
        };
        let lane = Lane::start_within(None, connection, "members", |_| (), on_end)?;
        ControlSender::of_cluster(&lane).send(&joined, vec![]);
        lane.close();
        // The master closes the connection when it has the list.
        let _ = end.recv_timeout(CALL_WAIT);
        Ok(())
    }
}

/// The connection that a worker keeps while it is a member.
pub struct MemberLine {
    lane: Lane,
}

impl MemberLine {
    /// Reports that this worker drains.
    pub fn drain(&self) {
        ControlSender::of_cluster(&self.lane).send(&MemberNotice::Draining, vec![]);
    }
}

/// Joins: reports this worker's properties and address. `on_drain` is called when the keeper
/// requests a drain, `on_end` when the connection ends.
pub fn join(
    address: &Address,
    joined: &Joined,
    secret: &Secret,
    security: Security,
    lost_after: Option<Duration>,
    (on_drain, on_end): (
        impl Fn() + Send + Sync + 'static,
        impl FnOnce(Result<()>) + Send + 'static,
    ),
) -> Result<MemberLine> {
    check_name(&joined.member.name)?;
    let me = greeting(&joined.member.name, JOIN, (0, 0)).silent_for(lost_after);
    let connection = dial(address, &me, secret, security, CALL_WAIT)?;
    let on_frame = move |frame: Frame| {
        if let Ok(KeeperRequest::Drain) = control::read(&frame.meta) {
            on_drain();
        }
    };
    let lane = Lane::start_within(lost_after, connection, "join", on_frame, on_end)?;
    ControlSender::of_cluster(&lane).send(&MemberNotice::Joined(joined.clone()), vec![]);
    Ok(MemberLine { lane })
}

/// The members of a keeper.
pub fn members(address: &Address, secret: &Secret, security: Security) -> Result<Vec<Joined>> {
    let me = greeting(MASTER, ASK, (0, 0));
    let connection = dial(address, &me, secret, security, CALL_WAIT)?;
    let (sender, received) = channel();
    let on_frame = move |frame: Frame| {
        // Only the first message counts.
        let _ = sender.send(control::read(&frame.meta));
    };
    let lane = Lane::start_within(None, connection, "members", on_frame, |_| ())?;
    let silent = |_| Error::resource(format!("{address} does not say who is there"));
    let joined = received.recv_timeout(CALL_WAIT).map_err(silent)?;
    lane.close();
    joined
}

/// The address of this machine on the route to `towards`.
pub fn own_host(towards: &Address) -> Result<String> {
    let Address::Tcp(host_port) = towards else { return Ok("127.0.0.1".into()) };
    let unreached = |error: std::io::Error| {
        Error::new(Kind::Resource, format!("no way to {host_port}: {error}"))
            .remedy("check the address, or say where to listen: `--listen HOST:0`")
    };
    let found = host_port.to_socket_addrs().map_err(unreached)?.next();
    let found = found.ok_or_else(|| Error::usage(format!("{towards} is no machine's address")))?;
    let any = if found.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // Sends nothing: only the route is looked up.
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(found).map(|()| socket));
    let host = socket.and_then(|socket| socket.local_addr()).map_err(unreached)?.ip();
    Ok(if host.is_ipv6() { format!("[{host}]") } else { host.to_string() })
}

/// A driver for workers that join this program.
pub struct JoinDriver {
    rendezvous: Rendezvous,
    workers: usize,
    within: Duration,
}

impl JoinDriver {
    /// Waits for this many workers, at most `within`.
    pub fn new(rendezvous: Rendezvous, workers: usize, within: Duration) -> JoinDriver {
        JoinDriver { rendezvous, workers, within }
    }
}

impl Driver for JoinDriver {
    fn workers(&self) -> Result<Vec<String>> {
        let joined = self.rendezvous.wait_for(self.workers, self.within)?;
        Ok(joined.into_iter().map(|joined| joined.member.name).collect())
    }

    fn newcomers(&self, known: &[String]) -> Result<Vec<String>> {
        let state = self.rendezvous.book.state.lock();
        let names = state.available().map(|joined| joined.member.name.clone());
        Ok(names.filter(|name| !known.contains(name)).collect())
    }

    /// A worker that joins again has been restarted by its own supervisor.
    fn restart(&self, worker: &str) -> Result<bool> {
        Ok(self.rendezvous.book.state.lock().joined.contains_key(worker))
    }

    fn address(&self, worker: &str) -> Result<Option<Address>> {
        let state = self.rendezvous.book.state.lock();
        let gone = || Error::resource("it has left again");
        state.joined.get(worker).map(|joined| Some(joined.address.clone())).ok_or_else(gone)
    }

    fn on_lost(&self, on_lost: OnLost) {
        self.rendezvous.book.losses.listen(on_lost);
    }

    fn stop(&self) {
        // The workers exit when their connections end.
        let lanes = std::mem::take(&mut self.rendezvous.book.state.lock().lanes);
        lanes.values().for_each(Lane::close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A rendezvous, and its token.
    fn rendezvous() -> (Rendezvous, Secret, TempDir) {
        let (folder, secret) = (TempDir::new().unwrap(), Secret::random().unwrap());
        let address = Address::Unix(folder.path().join("keeper"));
        (Rendezvous::open(&address, &secret, Security::Token, None).unwrap(), secret, folder)
    }

    fn worker(name: &str, address: &Address) -> Joined {
        Joined { member: WorkerProperties::named(name.into()), address: address.clone() }
    }

    #[test]
    fn worker_that_disconnects_before_it_is_entered_is_no_member() {
        let (rendezvous, secret, _folder) = rendezvous();
        let (book, address) = (&rendezvous.book, rendezvous.address());
        let line = || {
            let me = greeting("w0", JOIN, (0, 0));
            let connection = dial(address, &me, &secret, Security::Token, CALL_WAIT).unwrap();
            Lane::start_within(None, connection, "join", |_| (), |_| ()).unwrap()
        };
        let dead = Mutex::<JoinStanding>::default();
        book.leave(&dead, Error::resource("it was killed"));
        let error = book.enter(worker("w0", address), line(), &dead).unwrap_err();
        assert!(error.to_string().contains("gone again"), "{error}");
        assert_eq!(rendezvous.joined(), []);
        let living = Mutex::<JoinStanding>::default();
        book.enter(worker("w0", address), line(), &living).unwrap();
        assert_eq!(rendezvous.joined(), [worker("w0", address)]);
        book.leave(&living, Error::resource("it was killed"));
        assert_eq!(rendezvous.joined(), []);
    }

    #[test]
    fn worker_with_the_name_of_masters_cannot_join() {
        let (rendezvous, secret, _folder) = rendezvous();
        let joined = worker(MASTER, rendezvous.address());
        let refused =
            join(rendezvous.address(), &joined, &secret, Security::Token, None, (|| (), |_| ()));
        let error = refused.err().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.advice().unwrap().contains("--name"), "{error}");
        // Nor does a worker that skips the check.
        let me = greeting("w0", JOIN, (0, 0));
        let line = dial(rendezvous.address(), &me, &secret, Security::Token, CALL_WAIT).unwrap();
        let lane = Lane::start_within(None, line, "join", |_| (), |_| ()).unwrap();
        let error = rendezvous.book.enter(joined, lane, &Mutex::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert_eq!(rendezvous.joined(), []);
    }
}
