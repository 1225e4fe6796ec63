//! Keyed queues: whole partitions, each assigned to the next free consumer.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use crate::error::Result;
use crate::ports::parcel::RunIndex;
use crate::setup::{Batches, Setup};

/// Records kept in partitions, by a module whose output is keyed. There are many more partitions
/// than consumers, and each is assigned when a consumer is free, which balances unequal machines
/// (River, 4.2, assigns a partition to an instance in advance).
pub trait Partitioned: Send + Sync {
    /// The number of partitions, which are assigned in the order of their numbers. Blocks until all
    /// input has been taken, in all processes. `setup` is the module's setup in this process.
    fn count(&self, setup: &Setup) -> Result<u64>;

    /// The records of a partition, from all processes.
    fn records(&self, partition: u64, setup: &Setup) -> Result<Batches>;

    /// Drops all records. Called when every consumer has ended, if all are in this process.
    fn release(&self) {}
}

/// A partition assigned to a consumer.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::Partition;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
/// let partition = Partition::of_batch(RecordBatch::try_from_iter([("n", column)])?, 5);
/// assert_eq!(partition.run(), 5);
/// let fetched = || partition.records().map(|batches| batches.count());
/// assert_eq!([fetched()?, fetched()?], [1, 1], "it can be fetched again");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Partition {
    records: Box<dyn Fn() -> Result<Batches> + Send + Sync>,
    number: u64,
}

impl Partition {
    /// Partition `number` of a module with this setup in this process.
    pub fn new(producer: Arc<dyn Partitioned>, setup: Arc<Setup>, number: u64) -> Partition {
        Partition::fetched_by(number, move || producer.records(number, &setup))
    }

    /// A partition whose records `records` fetches, each time it is called.
    pub fn fetched_by(
        number: u64,
        records: impl Fn() -> Result<Batches> + Send + Sync + 'static,
    ) -> Partition {
        Partition { records: Box::new(records), number }
    }

    /// A partition whose records have all been fetched.
    pub fn of_batch(whole: RecordBatch, number: u64) -> Partition {
        Partition::fetched_by(number, move || Ok(Box::new(std::iter::once(Ok(whole.clone())))))
    }

    /// The number of the partition, which is that of its run.
    pub fn run(&self) -> RunIndex {
        self.number
    }

    /// Fetches the records of the partition.
    pub fn records(&self) -> Result<Batches> {
        (self.records)()
    }
}
