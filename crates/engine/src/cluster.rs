//! A cluster of worker processes, as a master uses it.
//!
//! A *driver* obtains machines, starts workers and detects their death; the rest of the engine does
//! not depend on the kind of driver. A worker (`server.rs`) listens; a master connects to it, and
//! sends it its part of a flow (`part.rs`, `control.rs`). Workers exchange batches over separate
//! connections, which are opened for one attempt at one flow (`attempt.rs`) and closed with it.

pub mod attempt;
pub(crate) mod control;
mod control_connection;
pub mod driver;
pub(crate) mod identity;
pub mod launch;
pub mod open;
pub mod options;
mod part;
pub(crate) mod placed_flow;
mod process_driver;
pub mod process_list;
pub mod rendezvous;
mod roster;
mod sender;
mod server;
pub mod sockets;
pub(crate) mod start;
pub mod static_driver;
mod worker_context;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Owner, Result};
use parking_lot::Mutex;

use self::control_connection::WorkerHandle;
use self::identity::check_name;
use self::roster::Roster;

pub use self::driver::Driver;
pub use self::identity::PROGRAM;
pub use self::rendezvous::served;
pub use self::server::WorkerServer;
pub use self::worker_context::WorkerSettings;
pub use crate::run::placement::WorkerProperties;
pub use euphrates_policy::drain::{Leave, WorkerDrain};
pub use euphrates_wire::{Address, Secret, Security};

/// How long a worker may take to answer after its start.
const START_WAIT: Duration = Duration::from_secs(30);
/// How long a worker that has joined may take to answer, while a flow waits for it.
const CALL_WAIT: Duration = Duration::from_secs(2);
/// Stands for the keeper among names of workers, of which none is empty.
const KEEPER: &str = "";
/// How long a keeper or a worker that has not answered is not asked again.
const UNANSWERED_WAIT: Duration = Duration::from_secs(30);
/// The limit for a restart, while a flow waits for it.
const RESTART_WAIT: Duration = Duration::from_secs(10);

/// Connections of a master to its workers, shared by all its flows. When dropped, stops the workers
/// that the driver started.
pub struct Cluster {
    pub(crate) roster: Arc<Roster>,
    driver: Box<dyn Driver>,
    secret: Secret,
    pub(crate) security: Security,
    pub(crate) lost_after: Option<Duration>,
    flows: AtomicU64,
    /// The workers that have joined, but could not be called, and `KEEPER` if the driver could not
    /// list its workers; and when. It is locked while they are called, so each enters once.
    unanswered: Mutex<BTreeMap<String, Instant>>,
    owner: Owner,
}

impl Cluster {
    /// Makes the driver start its workers, and connects to them. Fails, and stops them, if one
    /// cannot be reached. `lost_after` limits the silence of workers and this program, if given.
    pub fn open_within(
        lost_after: Option<Duration>,
        driver: Box<dyn Driver>,
        secret: &Secret,
        security: Security,
    ) -> Result<Cluster> {
        let opened = call_all(driver.as_ref(), secret, security, lost_after);
        let roster = Arc::new(Roster::new(opened.inspect_err(|_| driver.stop())?));
        let known = Arc::downgrade(&roster);
        driver.on_lost(Box::new(move |name, error| {
            if let Some(roster) = known.upgrade() {
                roster.lose(name, &error);
            }
        }));
        // Flow numbers start at random, so masters of one worker do not collide, and are odd, so
        // none is 0.
        let digits = Secret::random()?.to_text();
        let first = u64::from_str_radix(&digits[..16], 16).expect("hexadecimal digits");
        let (secret, flows) = (secret.clone(), AtomicU64::new(first | 1));
        let owner = Owner::here();
        let unanswered = Mutex::default();
        Ok(Cluster { roster, driver, secret, security, lost_after, flows, unanswered, owner })
    }

    /// The workers that are not lost.
    pub fn members(&self) -> Vec<WorkerProperties> {
        self.roster.living().iter().map(|handle| handle.member().clone()).collect()
    }

    /// Bytes sent and received on all control connections.
    pub fn control_bytes(&self) -> u64 {
        self.roster.all().iter().map(|handle| handle.bytes()).sum()
    }

    /// Connects to workers that have joined since, for flows that start from now on; returns their
    /// names. A keeper or a worker that does not answer is not asked again for a while.
    pub(crate) fn admit_newcomers(&self) -> Vec<String> {
        let mut unanswered = self.unanswered.lock();
        unanswered.retain(|_, at| at.elapsed() < UNANSWERED_WAIT);
        if unanswered.contains_key(KEEPER) {
            return vec![];
        }
        let known = self.roster.names();
        let Ok(mut names) = self.driver.newcomers(&known) else {
            unanswered.insert(KEEPER.into(), Instant::now());
            return vec![];
        };
        names.retain(|name| check_name(name).is_ok() && !unanswered.contains_key(name));
        names.retain(|name| {
            let handle = self.call(name, CALL_WAIT);
            match handle {
                Ok(handle) => self.roster.enter(handle),
                Err(_) => drop(unanswered.insert(name.clone(), Instant::now())),
            }
            !unanswered.contains_key(name)
        });
        names
    }

    /// Restarts lost workers, as far as the driver can; returns their names.
    pub(crate) fn revive(&self) -> Vec<String> {
        self.roster.revive(|name| match self.driver.restart(name) {
            Ok(true) => self.call(name, RESTART_WAIT).ok(),
            // The worker stays lost.
            Ok(false) | Err(_) => None,
        })
    }

    fn call(&self, name: &str, wait: Duration) -> Result<Arc<WorkerHandle>> {
        let within = (Instant::now() + wait, self.lost_after);
        let driver = self.driver.as_ref();
        control_connection::call(driver, name, &self.secret, self.security, within)
    }

    pub(crate) fn next_flow(&self) -> u64 {
        self.flows.fetch_add(2, Relaxed)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.roster.all().iter().for_each(|handle| handle.close());
            self.driver.stop();
        }
    }
}

fn call_all(
    driver: &dyn Driver,
    secret: &Secret,
    security: Security,
    lost_after: Option<Duration>,
) -> Result<Vec<Arc<WorkerHandle>>> {
    let names = driver.workers()?;
    if names.is_empty() {
        return Err(Error::usage("the cluster has no workers").remedy("ask for at least one"));
    }
    names.iter().try_for_each(|name| check_name(name))?;
    names.iter().try_for_each(|name| {
        driver.start(name).map_err(|error| error.at(format!("worker {name}")))
    })?;
    let deadline = Instant::now() + START_WAIT;
    let call = |name: &String| {
        let handle =
            control_connection::call(driver, name, secret, security, (deadline, lost_after));
        handle.map_err(|error| error.at(format!("worker {name}")))
    };
    std::thread::scope(|scope| {
        let calls: Vec<_> = names.iter().map(|name| scope.spawn(|| call(name))).collect();
        let joined = calls.into_iter().map(|call| call.join());
        joined
            .map(|handle| handle.unwrap_or_else(|_| Err(Error::failed("calling it failed"))))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use euphrates_flow::{Kind, Registry};

    use super::identity::{MASTER, check_path};
    use super::static_driver::StaticDriver;
    use super::*;

    #[test]
    fn worker_with_the_name_of_masters_is_refused() {
        let address: Address = "unix:/never/listened/at".parse().unwrap();
        let secret = Secret::random().unwrap();
        let (driver, _) = StaticDriver::new(vec![(MASTER.into(), address.clone())]);
        let called =
            Cluster::open_within(None, Box::new(driver), &secret, Security::Token).map(drop);
        let setting = WorkerSettings {
            member: WorkerProperties::named(MASTER.into()),
            listen: address,
            secret,
            security: Security::Token,
            lost_after: None,
            scratch: vec![],
        };
        let started = WorkerServer::start(setting, Registry::default(), || ()).map(drop);
        for refused in [called, started] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{error}");
            assert!(error.advice().unwrap().contains("--name"), "{error}");
        }
    }

    #[test]
    fn path_that_is_not_utf8_is_refused_with_a_remedy() {
        check_path(Path::new("/data/\u{e9}")).unwrap();
        let error = check_path(Path::new(OsStr::from_bytes(b"/data/\xff"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains(r"/data/\xFF"), "{error}");
        assert!(error.advice().unwrap().contains("link"), "{error}");
    }
}
