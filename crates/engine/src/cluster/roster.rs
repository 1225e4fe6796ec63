//! The workers of a cluster over its lifetime: lost and restarted workers, and pairs that cannot be
//! used in one flow because they cannot connect to each other.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::Error;
use euphrates_policy::network_partitions::{Candidate, FailedConnections};
use euphrates_policy::restarts::Restarts;
use parking_lot::Mutex;

use super::control_connection::WorkerHandle;
use super::identity::MASTER;

/// All workers of a cluster, including lost ones; the latest handle of each name.
pub(crate) struct Roster {
    began: Instant,
    state: Mutex<State>,
    /// Held while workers are restarted, so that flows starting at the same time restart each
    /// worker once.
    reviving: Mutex<HashMap<String, Restarts>>,
}

struct State {
    handles: Vec<Arc<WorkerHandle>>,
    /// Workers that have joined, but cannot take part in flows.
    excluded: BTreeSet<String>,
    reach: FailedConnections,
}

impl Roster {
    pub fn new(handles: Vec<Arc<WorkerHandle>>) -> Roster {
        let state = Mutex::new(State {
            handles,
            excluded: BTreeSet::new(),
            reach: FailedConnections::default(),
        });
        Roster { began: Instant::now(), state, reviving: Mutex::default() }
    }

    pub fn all(&self) -> Vec<Arc<WorkerHandle>> {
        self.state.lock().handles.clone()
    }

    pub fn living(&self) -> Vec<Arc<WorkerHandle>> {
        let mut all = self.all();
        all.retain(|handle| handle.lost().is_none());
        all
    }

    /// The living workers that do not drain, for flows and programs that start now.
    pub fn available(&self) -> Vec<Arc<WorkerHandle>> {
        let mut living = self.living();
        let state = self.state.lock();
        let is_excluded = |handle: &WorkerHandle| state.excluded.contains(&handle.member().name);
        living.retain(|handle| !handle.is_draining() && !is_excluded(handle));
        living
    }

    /// The error if there are no available workers.
    pub fn none_available(&self) -> Error {
        match self.living().is_empty() {
            true => Error::resource("all workers of the cluster are lost").remedy("open it again"),
            false => Error::resource("all workers of the cluster drain")
                .remedy("start other workers, and open the cluster again"),
        }
    }

    /// The available workers that can connect to each other, and the names of those excluded.
    pub fn usable(&self) -> (Vec<Arc<WorkerHandle>>, Vec<String>) {
        let available = self.available();
        let candidates: Vec<Candidate> = available
            .iter()
            .map(|handle| Candidate { name: &handle.member().name, cores: handle.member().cores })
            .collect();
        let out = self.state.lock().reach.left_out(MASTER, &candidates, self.now());
        let names = out.iter().map(|at| candidates[*at].name.to_string()).collect();
        let numbered = available.iter().enumerate();
        let usable = numbered.filter(|(at, _)| !out.contains(at)).map(|(_, one)| one.clone());
        (usable.collect(), names)
    }

    /// The driver reports a lost worker.
    pub fn lose(&self, name: &str, error: &Error) {
        let mut all = self.all();
        all.retain(|handle| handle.member().name == name);
        all.iter().for_each(|handle| handle.lose(error));
    }

    pub fn on_link_lost(&self, one: &str, other: &str, are_parted: bool) {
        self.state.lock().reach.on_lost(one, other, are_parted, self.now());
    }

    /// The names of all workers that there have been.
    pub fn names(&self) -> Vec<String> {
        self.all().iter().map(|handle| handle.member().name.clone()).collect()
    }

    /// A worker has joined.
    pub fn enter(&self, handle: Arc<WorkerHandle>) {
        self.state.lock().handles.push(handle);
    }

    /// Uses these workers for no further flow.
    pub fn exclude(&self, names: &[String]) {
        self.state.lock().excluded.extend(names.iter().cloned());
    }

    /// Restarts lost workers within the limits of policy; returns the names of those restarted.
    pub fn revive(&self, start: impl Fn(&str) -> Option<Arc<WorkerHandle>>) -> Vec<String> {
        let mut restarts = self.reviving.lock();
        let mut revived = vec![];
        for (at, lost) in self.all().iter().enumerate() {
            let name = &lost.member().name;
            let restarts = restarts.entry(name.clone()).or_default();
            if lost.lost().is_none() || !restarts.wait(self.now()).is_zero() {
                continue;
            }
            restarts.on_restart(self.now());
            if let Some(handle) = start(name) {
                let mut state = self.state.lock();
                state.handles[at] = handle;
                state.reach.on_restarted(name);
                revived.push(name.clone());
            }
        }
        revived
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
