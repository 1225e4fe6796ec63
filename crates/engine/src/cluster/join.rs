//! Workers that come by themselves, started by anything: `ssh`, `srun`, `mpirun`, a unit file.
//!
//! They call one address and say where they listen; as long as that line holds, they are there.
//! Behind the address is either the master of one program, or a keeper (`euphrates cluster`) that
//! tells every master who asks.

use std::collections::BTreeMap;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Kind, Result};
use euphrates_wire::{Address, Connection, Frame, Lane, Listener, Secret, Security, dial};
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::control;
use super::driver::{Driver, OnLost};
use super::sender::ControlSender;
use super::{MASTER, check_name, greeting};
use crate::run::placement::Member;

/// How long one call may take.
const CALL_WAIT: Duration = Duration::from_secs(5);
/// What a worker says when it joins, and a keeper when it is asked.
const JOIN: &str = "join";
const ASK: &str = "members";

/// A worker that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// What it is.
    pub member: Member,
    /// Where it listens.
    pub address: Address,
}

/// Where workers join.
pub struct Rendezvous {
    listener: Listener,
    book: Arc<Book>,
}

#[derive(Default)]
struct Book {
    state: Mutex<State>,
    changed: Condvar,
    /// The limit on a worker's silence, if not the default.
    lost_after: Option<Duration>,
}

#[derive(Default)]
struct State {
    joined: BTreeMap<String, Joined>,
    /// The lines they hold.
    lanes: BTreeMap<String, Lane>,
    lost: Vec<(String, Error)>,
    on_lost: Option<OnLost>,
}

/// How a worker's line stands. It changes only while the book is locked: whoever is entered and
/// whoever has gone are told apart, in whichever order that is noticed.
#[derive(Default)]
enum Standing {
    /// It has not been entered.
    #[default]
    Called,
    /// It is in the book under this name.
    Entered(String),
    Gone,
}

impl Rendezvous {
    /// Listens for workers, and for masters that ask who has come.
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
            // A caller that fails has only itself to tell.
            drop(match connection.peer.purpose.as_str() {
                JOIN => called.welcome(connection),
                _ => called.tell(connection),
            });
        };
        let listener = Listener::bind(address, me, keys, security, on_call)?;
        Ok(Rendezvous { listener, book })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// What to log now of callers that were refused; see `Refusals::lines`.
    pub fn refusals(&self) -> Vec<String> {
        self.listener.lines()
    }

    /// Who has come, by name.
    pub fn joined(&self) -> Vec<Joined> {
        self.book.state.lock().joined.values().cloned().collect()
    }

    /// Waits until so many have come.
    fn wait_for(&self, workers: usize, within: Duration) -> Result<Vec<Joined>> {
        let deadline = Instant::now() + within;
        let mut state = self.book.state.lock();
        while state.joined.len() < workers {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let came = state.joined.len();
                let refused = self.listener.refusals().pop();
                let why = refused.map_or(String::new(), |error| format!("; refused: {error}"));
                let message = format!("{came} of {workers} workers have joined{why}");
                let start = format!("euphrates worker --join {} --token-file …", self.address());
                return Err(Error::resource(message).remedy(format!("start the others: `{start}`")));
            }
            self.book.changed.wait_for(&mut state, left);
        }
        Ok(state.joined.values().cloned().collect())
    }
}

impl Book {
    /// A worker comes; it says what it is, and stays on the line.
    fn welcome(self: &Arc<Self>, connection: Connection) -> Result<()> {
        let (tell, told) = channel();
        let (book, standing) = (self.clone(), Arc::<Mutex<Standing>>::default());
        let on_frame = move |frame: Frame| {
            // It says so once; what comes later is for nobody.
            let _ = tell.send(control::read::<Joined>(&frame.meta));
        };
        let gone = standing.clone();
        let on_end = move |result: Result<()>| {
            let left = || Error::resource("it has ended");
            book.leave(&gone, result.err().unwrap_or_else(left));
        };
        let lane = Lane::start_within(self.lost_after, connection, "join", on_frame, on_end)?;
        let silent = |_| Error::resource("it did not say what it is");
        let joined = told.recv_timeout(CALL_WAIT).map_err(silent)??;
        self.enter(joined, lane, &standing)
    }

    /// From now on it is there, unless it has gone meanwhile.
    fn enter(&self, joined: Joined, lane: Lane, standing: &Mutex<Standing>) -> Result<()> {
        check_name(&joined.member.name)?;
        let mut state = self.state.lock();
        let mut standing = standing.lock();
        if let Standing::Gone = *standing {
            return Err(Error::resource("it has gone again"));
        }
        let known = joined.member.name.clone();
        let mut names = (1..).map(|n| if n == 1 { known.clone() } else { format!("{known}-{n}") });
        let free = names.find(|name| !state.joined.contains_key(name)).expect("numbers do not end");
        *standing = Standing::Entered(free.clone());
        let member = Member { name: free.clone(), ..joined.member };
        state.joined.insert(free.clone(), Joined { member, ..joined });
        state.lanes.insert(free, lane);
        self.changed.notify_all();
        Ok(())
    }

    fn leave(&self, standing: &Mutex<Standing>, error: Error) {
        let mut state = self.state.lock();
        let mut standing = standing.lock();
        let Standing::Entered(name) = std::mem::replace(&mut *standing, Standing::Gone) else {
            return;
        };
        state.lanes.remove(&name);
        if state.joined.remove(&name).is_some() {
            match &state.on_lost {
                Some(tell) => tell(&name, error),
                None => state.lost.push((name, error)),
            }
        }
    }

    /// A master asks who is there.
    fn tell(&self, connection: Connection) -> Result<()> {
        let joined: Vec<Joined> = self.state.lock().joined.values().cloned().collect();
        let (ended, end) = channel();
        let on_end = move |_| {
            // Nobody may be waiting any more.
            let _ = ended.send(());
        };
        let lane = Lane::start(connection, "members", |_| (), on_end)?;
        ControlSender::of_cluster(&lane).send(&joined, vec![]);
        lane.close();
        // Whoever asked says Bye when it has heard.
        let _ = end.recv_timeout(CALL_WAIT);
        Ok(())
    }
}

/// The line a worker holds as long as it is there.
pub struct Line {
    _lane: Lane,
}

/// Joins: says what this worker is and where it listens. `on_end` is called when the other end has
/// gone.
pub fn join(
    address: &Address,
    joined: &Joined,
    secret: &Secret,
    security: Security,
    lost_after: Option<Duration>,
    on_end: impl FnOnce(Result<()>) + Send + 'static,
) -> Result<Line> {
    check_name(&joined.member.name)?;
    let me = greeting(&joined.member.name, JOIN, (0, 0)).silent_for(lost_after);
    let connection = dial(address, &me, secret, security, CALL_WAIT)?;
    let lane = Lane::start_within(lost_after, connection, "join", |_| (), on_end)?;
    ControlSender::of_cluster(&lane).send(joined, vec![]);
    Ok(Line { _lane: lane })
}

/// Who has joined a keeper.
pub fn members(address: &Address, secret: &Secret, security: Security) -> Result<Vec<Joined>> {
    let me = greeting(MASTER, ASK, (0, 0));
    let connection = dial(address, &me, secret, security, CALL_WAIT)?;
    let (tell, told) = channel();
    let on_frame = move |frame: Frame| {
        // Once is enough.
        let _ = tell.send(control::read(&frame.meta));
    };
    let lane = Lane::start(connection, "members", on_frame, |_| ())?;
    let silent = |_| Error::resource(format!("{address} does not say who is there"));
    let joined = told.recv_timeout(CALL_WAIT).map_err(silent)?;
    lane.close();
    joined
}

/// The address under which others reach this machine, if they reach it as `towards` is reached.
pub fn own_host(towards: &Address) -> Result<String> {
    let Address::Tcp(place) = towards else { return Ok("127.0.0.1".into()) };
    let unreached = |error: std::io::Error| {
        Error::new(Kind::Resource, format!("no way to {place}: {error}"))
            .remedy("check the address, or say where to listen: `--listen HOST:0`")
    };
    let place = place.to_socket_addrs().map_err(unreached)?.next();
    let place = place.ok_or_else(|| Error::usage(format!("{towards} is no machine's address")))?;
    let any = if place.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // Nothing is sent: the system is only asked for its way.
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(place).map(|()| socket));
    let host = socket.and_then(|socket| socket.local_addr()).map_err(unreached)?.ip();
    Ok(if host.is_ipv6() { format!("[{host}]") } else { host.to_string() })
}

/// Workers that join this program.
pub struct Join {
    rendezvous: Rendezvous,
    workers: usize,
    within: Duration,
}

impl Join {
    /// Waits for so many workers, at most so long.
    pub fn new(rendezvous: Rendezvous, workers: usize, within: Duration) -> Join {
        Join { rendezvous, workers, within }
    }
}

impl Driver for Join {
    fn workers(&self) -> Result<Vec<String>> {
        let joined = self.rendezvous.wait_for(self.workers, self.within)?;
        Ok(joined.into_iter().map(|joined| joined.member.name).collect())
    }

    fn start(&self, _: &str) -> Result<()> {
        Ok(())
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

    fn on_lost(&self, tell: OnLost) {
        let mut state = self.rendezvous.book.state.lock();
        state.lost.drain(..).for_each(|(name, error)| tell(&name, error));
        state.on_lost = Some(tell);
    }

    fn stop(&self) {
        // They see the line end, and end.
        let lanes = std::mem::take(&mut self.rendezvous.book.state.lock().lanes);
        lanes.values().for_each(Lane::close);
    }
}

/// Workers whose addresses are known: a keeper's, or those of another system that has started them
/// and hears of their death.
pub struct StaticDriver {
    joined: Mutex<BTreeMap<String, Address>>,
    /// In the order in which they were given.
    names: Vec<String>,
    losses: Arc<Losses>,
    restart: Option<Restart>,
}

/// Restarts a worker, or finds one restarted elsewhere; returns its address.
pub type Restart = Box<dyn Fn(&str) -> Result<Option<Address>> + Send + Sync>;

/// Losses of workers that the owner of a [`StaticDriver`] reports.
#[derive(Default)]
pub struct Losses {
    state: Mutex<LossesState>,
}

#[derive(Default)]
struct LossesState {
    on_lost: Option<OnLost>,
    /// Reported before the cluster has registered its callback.
    early: Vec<(String, Error)>,
}

impl Losses {
    /// Reports that a worker is lost.
    pub fn lose(&self, worker: &str, error: Error) {
        let mut state = self.state.lock();
        match &state.on_lost {
            Some(on_lost) => on_lost(worker, error),
            None => state.early.push((worker.to_string(), error)),
        }
    }
}

impl StaticDriver {
    /// These; whoever hears of the loss of one tells it to the second.
    pub fn new(joined: Vec<(String, Address)>) -> (StaticDriver, Arc<Losses>) {
        let losses = Arc::<Losses>::default();
        let names = joined.iter().map(|(name, _)| name.clone()).collect();
        let joined = Mutex::new(joined.into_iter().collect());
        (StaticDriver { joined, names, losses: losses.clone(), restart: None }, losses)
    }

    /// Adds a way to restart lost workers.
    pub fn restarted_by(self, restart: Restart) -> StaticDriver {
        StaticDriver { restart: Some(restart), ..self }
    }

    fn joined(&self) -> MutexGuard<'_, BTreeMap<String, Address>> {
        self.joined.lock()
    }
}

impl Driver for StaticDriver {
    fn workers(&self) -> Result<Vec<String>> {
        Ok(self.names.clone())
    }

    fn start(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn restart(&self, worker: &str) -> Result<bool> {
        let Some(restart) = &self.restart else { return Ok(false) };
        let Some(address) = restart(worker)? else { return Ok(false) };
        self.joined().insert(worker.to_string(), address);
        Ok(true)
    }

    fn address(&self, worker: &str) -> Result<Option<Address>> {
        Ok(self.joined().get(worker).cloned())
    }

    fn on_lost(&self, tell: OnLost) {
        let mut state = self.losses.state.lock();
        state.early.drain(..).for_each(|(name, error)| tell(&name, error));
        state.on_lost = Some(tell);
    }

    fn stop(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A place to join, and what it is called with.
    fn rendezvous() -> (Rendezvous, Secret, TempDir) {
        let (folder, secret) = (TempDir::new().unwrap(), Secret::random().unwrap());
        let address = Address::Unix(folder.path().join("keeper"));
        (Rendezvous::open(&address, &secret, Security::Token, None).unwrap(), secret, folder)
    }

    fn worker(name: &str, address: &Address) -> Joined {
        Joined { member: Member::called(name.into()), address: address.clone() }
    }

    #[test]
    fn a_worker_whose_line_has_ended_before_it_is_entered_is_not_there() {
        let (rendezvous, secret, _folder) = rendezvous();
        let (book, address) = (&rendezvous.book, rendezvous.address());
        let line = || {
            let me = greeting("w0", JOIN, (0, 0));
            let connection = dial(address, &me, &secret, Security::Token, CALL_WAIT).unwrap();
            Lane::start(connection, "join", |_| (), |_| ()).unwrap()
        };
        let dead = Mutex::<Standing>::default();
        book.leave(&dead, Error::resource("it was killed"));
        let error = book.enter(worker("w0", address), line(), &dead).unwrap_err();
        assert!(error.to_string().contains("gone again"), "{error}");
        assert_eq!(rendezvous.joined(), []);
        let living = Mutex::<Standing>::default();
        book.enter(worker("w0", address), line(), &living).unwrap();
        assert_eq!(rendezvous.joined(), [worker("w0", address)]);
        book.leave(&living, Error::resource("it was killed"));
        assert_eq!(rendezvous.joined(), []);
    }

    #[test]
    fn no_worker_joins_under_the_name_of_masters() {
        let (rendezvous, secret, _folder) = rendezvous();
        let joined = worker(MASTER, rendezvous.address());
        let refused = join(rendezvous.address(), &joined, &secret, Security::Token, None, |_| ());
        let error = refused.err().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.advice().unwrap().contains("--name"), "{error}");
        // Nor one that has not looked.
        let me = greeting("w0", JOIN, (0, 0));
        let line = dial(rendezvous.address(), &me, &secret, Security::Token, CALL_WAIT).unwrap();
        let lane = Lane::start(line, "join", |_| (), |_| ()).unwrap();
        let error = rendezvous.book.enter(joined, lane, &Mutex::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert_eq!(rendezvous.joined(), []);
    }
}
