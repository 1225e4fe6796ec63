//! Which of several processes has which disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use euphrates_flow::{Exchange, NoExchange};

/// The processes that have instances of a module, and the disks of theirs.
#[derive(Clone, Debug)]
pub struct Owners {
    exchange: Arc<dyn Exchange>,
    /// In order.
    processes: Vec<usize>,
    /// By the name of a disk: the process that uses it, for all. Any other disk is used by whoever
    /// needs it.
    disks: BTreeMap<String, usize>,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners::new(Arc::new(NoExchange), &BTreeMap::new())
    }
}

impl Owners {
    /// Those of one exchange; `workers` says whose a disk is, by its name.
    pub fn new(exchange: Arc<dyn Exchange>, workers: &BTreeMap<String, String>) -> Owners {
        let mut processes = exchange.others();
        processes.push(exchange.me());
        processes.sort_unstable();
        let process =
            |worker: &str| processes.iter().copied().find(|at| exchange.name(*at) == worker);
        let owned = workers.iter();
        let disks = owned.filter_map(|(disk, worker)| Some((disk.clone(), process(worker)?)));
        Owners { disks: disks.collect(), processes, exchange }
    }

    /// How they are told something.
    pub fn exchange(&self) -> &Arc<dyn Exchange> {
        &self.exchange
    }

    /// This process.
    pub fn me(&self) -> usize {
        self.exchange.me()
    }

    /// The process that has a disk, if one has.
    pub fn owner(&self, disk: &str) -> Option<usize> {
        self.disks.get(disk).copied()
    }

    /// The process that uses a disk, if it is another.
    pub fn elsewhere(&self, disk: &str) -> Option<usize> {
        self.owner(disk).filter(|owner| *owner != self.me())
    }

    /// Whether this process uses a disk, for others, too.
    pub fn owns(&self, disk: &str) -> bool {
        self.owner(disk) == Some(self.me())
    }

    /// Of the things nobody has, dealt in turn: the process that the one of this number goes to.
    pub fn in_turn(&self, number: usize) -> usize {
        self.processes[number % self.processes.len()]
    }

    /// Whether there are others.
    pub fn are_several(&self) -> bool {
        self.processes.len() > 1
    }
}
