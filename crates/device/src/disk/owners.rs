//! Disk ownership: which process of an exchange reads and writes which disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use euphrates_flow::{Exchange, NoExchange};

/// The processes that run instances of a module, and the disks that they own.
///
/// ```
/// use euphrates_device::disk::Owners;
///
/// let alone = Owners::default();
/// assert!(!alone.are_several());
/// assert_eq!(alone.owner("d1"), None, "every process uses the disk directly");
/// assert_eq!([0, 1, 2].map(|number| alone.in_turn(number)), [0; 3]);
/// ```
#[derive(Clone, Debug)]
pub struct Owners {
    exchange: Arc<dyn Exchange>,
    /// Their numbers in the exchange, in ascending order.
    processes: Vec<usize>,
    /// By the name of a disk: the process that uses it for all others. A disk that is not listed is
    /// used directly by every process that needs it.
    disks: BTreeMap<String, usize>,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners::new(Arc::new(NoExchange), &BTreeMap::new())
    }
}

impl Owners {
    /// The owners among the processes of an exchange; `workers` maps a disk's name to its worker.
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

    /// The exchange over which these processes send messages to each other.
    pub fn exchange(&self) -> &Arc<dyn Exchange> {
        &self.exchange
    }

    /// The number of this process.
    pub fn me(&self) -> usize {
        self.exchange.me()
    }

    /// The process that owns a disk; `None` if none of these does.
    pub fn owner(&self, disk: &str) -> Option<usize> {
        self.disks.get(disk).copied()
    }

    /// The owner of a disk, if it is another process.
    pub fn elsewhere(&self, disk: &str) -> Option<usize> {
        self.owner(disk).filter(|owner| *owner != self.me())
    }

    /// Whether this process owns a disk, and so uses it for the others, too.
    pub fn owns(&self, disk: &str) -> bool {
        self.owner(disk) == Some(self.me())
    }

    /// Round-robin assignment of things without an owner: the process that gets the one of this
    /// number.
    pub fn in_turn(&self, number: usize) -> usize {
        self.processes[number % self.processes.len()]
    }

    /// Whether the exchange has more than one process.
    pub fn are_several(&self) -> bool {
        self.processes.len() > 1
    }
}
