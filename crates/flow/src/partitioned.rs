//! What a keyed queue gives its consumers: whole partitions, each to whoever is free.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

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
    source: Source,
    number: u64,
}

enum Source {
    /// The module that keeps it, and how that is set up here.
    Kept(Arc<dyn Placed>, Arc<Setup>),
    /// All its records.
    Whole(RecordBatch),
}

impl Partition {
    /// One of those that a module, which is set up so here, keeps.
    pub fn new(of: Arc<dyn Placed>, setup: Arc<Setup>, number: u64) -> Partition {
        Partition { source: Source::Kept(of, setup), number }
    }

    /// A partition whose records have all been fetched.
    pub fn of_batch(whole: RecordBatch, number: u64) -> Partition {
        Partition { source: Source::Whole(whole), number }
    }

    /// Its number, which is that of its run.
    pub fn run(&self) -> RunIndex {
        self.number
    }

    /// Its records.
    pub fn records(&self) -> Result<Batches> {
        match &self.source {
            Source::Kept(of, setup) => {
                of.partitioned().expect("its producer keeps partitions").records(self.number, setup)
            }
            Source::Whole(whole) => Ok(Box::new(std::iter::once(Ok(whole.clone())))),
        }
    }
}
