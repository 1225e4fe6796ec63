//! A driver for workers that are started elsewhere, at known addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use euphrates_flow::{Error, Result};
use euphrates_wire::Address;
use parking_lot::Mutex;

use super::driver::{Driver, OnLost};

/// Workers at known addresses: members of a keeper, or processes of another system that reports
/// their death.
pub struct StaticDriver {
    joined: Mutex<BTreeMap<String, Address>>,
    /// The names, in the order given.
    names: Vec<String>,
    losses: Arc<Losses>,
    restart: Option<Restart>,
    members: Option<Members>,
}

/// Restarts a worker, or finds one restarted elsewhere; returns its address.
pub type Restart = Box<dyn Fn(&str) -> Result<Option<Address>> + Send + Sync>;

/// Lists the workers that there are now, with their addresses.
pub type Members = Box<dyn Fn() -> Result<Vec<(String, Address)>> + Send + Sync>;

/// Losses of workers that the owner of a driver reports.
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
    /// Reports to `on_lost` from now on, and what was reported before at once.
    pub(super) fn listen(&self, on_lost: OnLost) {
        let mut state = self.state.lock();
        state.early.drain(..).for_each(|(name, error)| on_lost(&name, error));
        state.on_lost = Some(on_lost);
    }

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
    /// A driver for these workers, and the losses that its owner reports.
    pub fn new(joined: Vec<(String, Address)>) -> (StaticDriver, Arc<Losses>) {
        let losses = Arc::<Losses>::default();
        let names = joined.iter().map(|(name, _)| name.clone()).collect();
        let joined = Mutex::new(joined.into_iter().collect());
        (
            StaticDriver { joined, names, losses: losses.clone(), restart: None, members: None },
            losses,
        )
    }

    /// Adds a way to restart lost workers.
    pub fn restarted_by(self, restart: Restart) -> StaticDriver {
        StaticDriver { restart: Some(restart), ..self }
    }

    /// Adds a way to find workers that have joined since.
    pub fn joined_by(self, members: Members) -> StaticDriver {
        StaticDriver { members: Some(members), ..self }
    }
}

impl Driver for StaticDriver {
    fn workers(&self) -> Result<Vec<String>> {
        Ok(self.names.clone())
    }

    fn newcomers(&self, known: &[String]) -> Result<Vec<String>> {
        let Some(members) = &self.members else { return Ok(vec![]) };
        let mut members = members()?;
        members.retain(|(name, _)| !known.contains(name));
        let names = members.iter().map(|(name, _)| name.clone()).collect();
        self.joined.lock().extend(members);
        Ok(names)
    }

    fn restart(&self, worker: &str) -> Result<bool> {
        let Some(restart) = &self.restart else { return Ok(false) };
        let Some(address) = restart(worker)? else { return Ok(false) };
        self.joined.lock().insert(worker.to_string(), address);
        Ok(true)
    }

    fn address(&self, worker: &str) -> Result<Option<Address>> {
        Ok(self.joined.lock().get(worker).cloned())
    }

    fn on_lost(&self, on_lost: OnLost) {
        self.losses.listen(on_lost);
    }
}
