//! Several processes as one cluster: who they are, how a master speaks to them, what runs there.
//!
//! A *driver* finds machines, starts workers and notices their death; nothing else knows which one
//! it is. A worker (`server.rs`) listens; a master calls it, and asks it for its part of a flow
//! (`part.rs`, `control.rs`). Batches go from worker to worker over connections of their own, which
//! are made for one attempt at one flow (`attempt.rs`) and end with it.

pub mod attempt;
mod calls;
pub mod control;
pub mod driver;
mod handle;
pub mod join;
pub mod launch;
pub mod launching;
pub mod listing;
pub mod open;
mod part;
pub mod processes;
mod roster;
mod sender;
pub mod server;
pub mod sockets;
pub mod start;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use euphrates_flow::{Cause, Error, Kind, Owner, Result};
use euphrates_wire::lane::PATIENCE;
use euphrates_wire::{Caps, Greeting, silence};

pub use crate::run::placement::Member;
pub use driver::Driver;
pub use euphrates_wire::{Address, Secret, Security};
use handle::WorkerHandle;
use roster::Roster;
pub use server::{Server, Setting};

/// The version that workers and masters must share.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// A worker that does not answer for so long after its start is not coming.
const START_WAIT: Duration = Duration::from_secs(30);
/// The limit for a restart, while a flow waits for it.
const REVIVE_WAIT: Duration = Duration::from_secs(10);
/// The name under which a master calls.
pub(crate) const MASTER: &str = "master";

/// Workers that a master has called, and keeps for any number of flows. They end with it, as far as
/// the driver has started them.
pub struct Cluster {
    roster: Arc<Roster>,
    driver: Box<dyn Driver>,
    secret: Secret,
    security: Security,
    lost_after: Option<Duration>,
    flows: AtomicU64,
    owner: Owner,
}

impl Cluster {
    /// Has the driver start its workers, and calls them. Fails, and stops them, if one cannot be
    /// reached.
    pub fn open(driver: Box<dyn Driver>, secret: &Secret, security: Security) -> Result<Cluster> {
        Cluster::open_within(None, driver, secret, security)
    }

    /// Like `open`, with another limit on silence for workers and this program.
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
        // No two masters of one worker have flows of one number.
        let digits = Secret::random()?.to_text();
        let first = u64::from_str_radix(&digits[..16], 16).expect("hexadecimal digits");
        let (secret, flows) = (secret.clone(), AtomicU64::new(first | 1));
        let owner = Owner::here();
        Ok(Cluster { roster, driver, secret, security, lost_after, flows, owner })
    }

    /// The workers that are there.
    pub fn members(&self) -> Vec<Member> {
        self.living().iter().map(|handle| handle.member().clone()).collect()
    }

    /// Bytes that all control connections have carried.
    pub fn control_bytes(&self) -> u64 {
        self.roster.all().iter().map(|handle| handle.bytes()).sum()
    }

    pub(crate) fn living(&self) -> Vec<Arc<WorkerHandle>> {
        self.roster.living()
    }

    /// The workers a flow can use, and the names of those excluded because they cannot connect to
    /// all others.
    pub(crate) fn usable(&self) -> (Vec<Arc<WorkerHandle>>, Vec<String>) {
        self.roster.usable()
    }

    /// The connection between two processes of a flow failed.
    pub(crate) fn on_link_lost(&self, one: &str, other: &str, are_parted: bool) {
        self.roster.on_link_lost(one, other, are_parted);
    }

    /// Restarts lost workers, as far as the driver can; returns their names.
    pub(crate) fn revive(&self) -> Vec<String> {
        let call = |name: &str| {
            let deadline = Instant::now() + REVIVE_WAIT;
            let (driver, lost_after) = (self.driver.as_ref(), self.lost_after);
            handle::call(driver, name, &self.secret, self.security, (deadline, lost_after))
        };
        self.roster.revive(|name| match self.driver.restart(name) {
            Ok(true) => call(name).ok(),
            // The worker stays lost.
            Ok(false) | Err(_) => None,
        })
    }

    pub(crate) fn lost_after(&self) -> Option<Duration> {
        self.lost_after
    }

    pub(crate) fn security(&self) -> Security {
        self.security
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
        let handle = handle::call(driver, name, secret, security, (deadline, lost_after));
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

/// Refuses a worker the name under which masters call: a flow would take one for the other.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name != MASTER {
        return Ok(());
    }
    let message =
        format!("a worker cannot be called `{MASTER}`, as the program that runs flows is");
    Err(Error::usage(message).remedy("call it something else: `euphrates worker --name NAME`"))
}

/// Refuses a path that workers cannot be told: what a master says is text.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    if path.to_str().is_some() {
        return Ok(());
    }
    let message = format!("workers cannot be told of {path:?}: its name is not UTF-8");
    Err(Error::usage(message).remedy("rename it, or make a link to it with a name that is UTF-8"))
}

/// Marks an error as caused by two processes that cannot connect.
pub(crate) fn parted(one: &str, other: &str, error: Error) -> Error {
    let error = error.at(format!("worker {other}"));
    // Other kinds (another version, another token) are refusals, not network faults.
    let is_parted = error.kind() == Kind::Resource;
    if is_parted { error.because(Cause::link(one, other, true)) } else { error }
}

/// The limit on silence of connections for batches: on a congested link, beats are delayed and
/// lost with the other frames.
pub(crate) fn patience(lost_after: Option<Duration>) -> Duration {
    lost_after.map_or(PATIENCE, |lost_after| lost_after.max(PATIENCE))
}

/// What an end says of itself.
pub(crate) fn greeting(name: &str, purpose: &str, (flow, epoch): (u64, u32)) -> Greeting {
    Greeting {
        name: name.to_string(),
        purpose: purpose.to_string(),
        flow,
        epoch,
        lane: 0,
        program: PROGRAM.to_string(),
        silence_ms: silence::of_this_end().as_millis() as u32,
        caps: Caps::KNOWN,
        abilities: vec![],
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use euphrates_flow::Registry;

    use super::join::StaticDriver;
    use super::*;

    #[test]
    fn a_worker_called_as_masters_are_is_refused_where_it_starts_and_where_it_is_called() {
        let address: Address = "unix:/never/listened/at".parse().unwrap();
        let secret = Secret::random().unwrap();
        let (driver, _) = StaticDriver::new(vec![(MASTER.into(), address.clone())]);
        let called = Cluster::open(Box::new(driver), &secret, Security::Token).map(drop);
        let setting = Setting {
            member: Member::called(MASTER.into()),
            listen: address,
            secret,
            security: Security::Token,
            lost_after: None,
            scratch: vec![],
        };
        let started = Server::start(setting, Registry::default(), || ()).map(drop);
        for refused in [called, started] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{error}");
            assert!(error.advice().unwrap().contains("--name"), "{error}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_is_refused_with_a_way_out() {
        check_path(Path::new("/data/\u{e9}")).unwrap();
        let error = check_path(Path::new(OsStr::from_bytes(b"/data/\xff"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains(r"/data/\xFF"), "{error}");
        assert!(error.advice().unwrap().contains("link"), "{error}");
    }
}
