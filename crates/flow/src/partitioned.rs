//! What a keyed queue gives its consumers: whole partitions, each to whoever is free.

use std::sync::Arc;

use crate::error::Result;
use crate::module::Placed;
use crate::ports::RunIndex;
use crate::setup::{Batches, Setup};

/// Records kept in partitions, by a module whose output is keyed. There are many more of them than
/// consumers, and they are bound to one when it is free: that balances unequal machines where the
/// key says who gets what (River, 4.2: a partition to an instance, fixed in advance).
pub trait Partitioned: Send + Sync {
    /// How many there are, numbered from 0 in the order in which they are to be taken. Waits until
    /// everything has been taken in, wherever that is. `setup` is the module's own, here.
    fn count(&self, setup: &Setup) -> Result<u64>;

    /// The records of one, of all processes.
    fn records(&self, partition: u64, setup: &Setup) -> Result<Batches>;
}

/// A partition that a consumer has been given.
pub struct Partition {
    of: Arc<dyn Placed>,
    setup: Arc<Setup>,
    number: u64,
}

impl Partition {
    /// One of those that a module, which is set up so here, keeps.
    pub fn new(of: Arc<dyn Placed>, setup: Arc<Setup>, number: u64) -> Partition {
        Partition { of, setup, number }
    }

    /// Its number, which is that of its run.
    pub fn run(&self) -> RunIndex {
        self.number
    }

    /// Its records.
    pub fn records(&self) -> Result<Batches> {
        self.of.partitioned().expect("who has given it").records(self.number, &self.setup)
    }
}
