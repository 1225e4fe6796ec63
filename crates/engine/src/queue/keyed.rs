//! The keyed queue (a pull-based shuffle): a free consumer claims the next whole partition. The
//! producers hold the records until they are fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{
    Batches, ClaimGate, Error, Parcel, Partition, Partitioned, Result, RunIndex, Setup, Taken,
    batch_bytes,
};
use parking_lot::Mutex;

use crate::queue::network::{Location, are_here};

/// A keyed queue in one process.
pub struct KeyedQueue {
    producer: Arc<dyn Partitioned>,
    /// The setup of the producer in this process.
    setup: Arc<Setup>,
    /// Holds back the claims of the consumers in this process.
    claims: Arc<ClaimGate>,
    /// The shared counter that assigns partitions, the same in all processes.
    name: String,
    assignment: PartitionAssignment,
    count: Mutex<Option<u64>>,
    /// Consumers in all processes, less those here that have ended. It reaches zero only if all
    /// consumers are here: other processes may still fetch the records.
    consumers_left: AtomicUsize,
}

/// How partitions are assigned to consumers.
#[derive(Clone, Copy, Debug)]
enum PartitionAssignment {
    /// In advance, in turn to this many consumers: for comparison.
    InAdvance(u64),
    /// Each to the next free consumer.
    Late {
        /// Whether some of the consumers are in other processes.
        is_shared: bool,
    },
}

impl KeyedQueue {
    /// A queue after a producer that holds partitions, with consumers at these locations, those
    /// here with this gate.
    pub fn new(
        producer: Arc<dyn Partitioned>,
        setup: Arc<Setup>,
        name: String,
        (consumers, claims): (&[Location<()>], Arc<ClaimGate>),
    ) -> Arc<KeyedQueue> {
        let assignment = match setup.is_statically_divided {
            true => PartitionAssignment::InAdvance(consumers.len() as u64),
            false => PartitionAssignment::Late { is_shared: !are_here(consumers) },
        };
        let (count, consumers_left) = (Mutex::default(), AtomicUsize::new(consumers.len()));
        Arc::new(KeyedQueue { producer, setup, claims, name, assignment, count, consumers_left })
    }

    /// The end of a producer, which puts no batches.
    pub fn producer(&self) -> Box<dyn Producer> {
        Box::new(KeyedProducer)
    }

    /// The end of the consumer with this number.
    pub fn consumer(self: &Arc<Self>, instance: usize) -> Box<dyn Consumer> {
        let (queue, own) = (self.clone(), instance as u64);
        Box::new(KeyedConsumer { queue, own, current: None, assigned: None, asked: None })
    }

    /// The number of partitions; waits until it is known.
    fn count(&self) -> Result<u64> {
        if let Some(count) = *self.count.lock() {
            return Ok(count);
        }
        let count = self.producer.count(&self.setup)?;
        Ok(*self.count.lock().insert(count))
    }

    /// Starts a thread that waits until the number of partitions is known, sets the returned flag,
    /// and unparks the calling thread. Returns none if no thread can be started.
    fn await_count(self: &Arc<Self>) -> Option<Arc<AtomicBool>> {
        let answered = Arc::new(AtomicBool::new(false));
        let (queue, finished, caller) = (self.clone(), answered.clone(), thread::current());
        let wait = move || {
            // `next` returns the error.
            let _ = queue.count();
            finished.store(true, SeqCst);
            caller.unpark();
        };
        thread::Builder::new().name("partitions".into()).spawn(wait).ok()?;
        Some(answered)
    }

    fn next(&self, own: &mut u64) -> Result<Option<Partition>> {
        self.setup.cancel.check()?;
        let count = self.count()?;
        let is_left = || Ok(self.setup.coordination.load(&self.name)? < count);
        let number = match self.assignment {
            PartitionAssignment::InAdvance(consumers) => std::mem::replace(own, *own + consumers),
            PartitionAssignment::Late { is_shared }
                if self.setup.may_take_for(&self.claims, is_shared, is_left)? =>
            {
                self.setup.coordination.fetch_add(&self.name)?
            }
            PartitionAssignment::Late { .. } => return Ok(None),
        };
        let partition = || Partition::new(self.producer.clone(), self.setup.clone(), number);
        Ok((number < count).then(partition))
    }
}

struct KeyedConsumer {
    queue: Arc<KeyedQueue>,
    /// The next partition of this consumer, if assigned in advance.
    own: u64,
    current: Option<(RunIndex, Batches)>,
    /// Assigned and not begun.
    assigned: Option<Partition>,
    /// The flag that is set when the number of partitions is known, by the thread that waits for
    /// it; absent until that thread is started.
    asked: Option<Arc<AtomicBool>>,
}

impl KeyedConsumer {
    /// Whether it can take without waiting for the producers. Nothing signals that the partitions
    /// are complete, so another thread waits for that.
    fn need_not_wait(&mut self) -> bool {
        let has_one = self.current.is_some() || self.assigned.is_some();
        if has_one || self.queue.count.lock().is_some() {
            return true;
        }
        if self.asked.is_none() {
            self.asked = self.queue.await_count();
        }
        // Without another thread, the caller waits.
        self.asked.as_ref().is_none_or(|asked| asked.load(SeqCst))
    }
}

impl Consumer for KeyedConsumer {
    /// Returns partitions one after the other, as runs, for modules that do not use them. Only the
    /// wait for a partition counts as waiting; computing its records counts as busy time.
    fn take(&mut self, wait: bool) -> Result<Taken> {
        if self.current.is_none() {
            if !wait && !self.need_not_wait() {
                return Ok(Taken::Empty);
            }
            let assigned = match self.assigned.take() {
                Some(partition) => Some(partition),
                None => self.next_partition()?,
            };
            let Some(partition) = assigned else { return Ok(Taken::End) };
            if wait {
                self.assigned = Some(partition);
                return Ok(Taken::Empty);
            }
            self.current = Some((partition.run(), partition.records()?));
        }
        let (run, batches) = self.current.as_mut().expect("it has just been set");
        let run = *run;
        match batches.next().transpose()? {
            Some(batch) => {
                let bytes = batch_bytes(&batch);
                Ok(Taken::Batch(Parcel { batch, bytes, run: Some(run) }))
            }
            None => {
                self.current = None;
                Ok(Taken::RunEnd(run))
            }
        }
    }

    fn ready(&mut self, _: bool) -> bool {
        self.need_not_wait()
    }

    fn is_keyed(&self) -> bool {
        true
    }

    fn next_partition(&mut self) -> Result<Option<Partition>> {
        self.queue.next(&mut self.own)
    }
}

impl Drop for KeyedConsumer {
    fn drop(&mut self) {
        // Consumers in other processes are never counted down.
        if self.queue.consumers_left.fetch_sub(1, SeqCst) == 1 {
            self.queue.producer.release();
        }
    }
}

/// The end of a producer, which holds its records.
struct KeyedProducer;

impl Producer for KeyedProducer {
    fn put(&mut self, _: Parcel, _: bool) -> Result<Option<Parcel>> {
        Err(Error::failed("a module whose output is keyed has put a batch"))
    }

    fn has_room(&mut self, _: &Parcel) -> bool {
        true
    }

    fn begin_run(&mut self, _: RunIndex) -> Result<()> {
        Ok(())
    }

    fn end_run(&mut self, _: RunIndex) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use arrow::datatypes::Schema;
    use arrow::record_batch::{RecordBatch, RecordBatchOptions};

    use super::*;
    use crate::run::coordination::LocalCoordination;

    /// A producer of one partition that records whether it was computed.
    #[derive(Default)]
    struct One(AtomicBool);

    impl Partitioned for One {
        fn count(&self, _: &Setup) -> Result<u64> {
            Ok(1)
        }

        fn records(&self, _: u64, _: &Setup) -> Result<Batches> {
            self.0.store(true, SeqCst);
            let rows = RecordBatchOptions::new().with_row_count(Some(3));
            let schema = Arc::new(Schema::empty());
            let batch = RecordBatch::try_new_with_options(schema, vec![], &rows)?;
            Ok(Box::new(iter::once(Ok(batch))))
        }
    }

    fn setup() -> Setup {
        let cancel: Arc<euphrates_flow::Cancel> = Arc::default();
        let coordination = LocalCoordination::new(Arc::default(), cancel.clone());
        Setup { module: "one".into(), ..Setup::alone(Arc::new(coordination), cancel) }
    }

    #[test]
    fn partition_is_not_computed_while_its_consumer_counts_as_waiting() {
        let one = Arc::new(One::default());
        let (producer, setup) = (one.clone() as Arc<dyn Partitioned>, Arc::new(setup()));
        let here = [Location::Here(())];
        let mut end =
            KeyedQueue::new(producer, setup, "one".into(), (&here, Arc::default())).consumer(0);
        assert!(matches!(end.take(true).unwrap(), Taken::Empty));
        assert!(!one.0.load(SeqCst), "it was computed under the name of waiting");
        let Taken::Batch(parcel) = end.take(false).unwrap() else { panic!("it has been given") };
        assert_eq!((parcel.batch.num_rows(), parcel.run), (3, Some(0)));
        assert!(matches!(end.take(false).unwrap(), Taken::RunEnd(0)));
        assert!(matches!(end.take(true).unwrap(), Taken::End));
    }

    #[test]
    fn consumers_of_a_draining_process_leave_partitions_to_others() {
        let one = Arc::new(One::default());
        let (producer, setup) = (one.clone() as Arc<dyn Partitioned>, Arc::new(setup()));
        let (ends, claims) =
            ([Location::Here(()), Location::There(1)], Arc::<ClaimGate>::default());
        let consumers = (ends.as_slice(), claims.clone());
        let queue = KeyedQueue::new(producer, setup.clone(), "one".into(), consumers);
        claims.hold(true);
        thread::scope(|scope| {
            let held = scope.spawn(|| queue.consumer(0).next_partition().unwrap().is_none());
            assert_eq!(
                setup.coordination.fetch_add("one").unwrap(),
                0,
                "another process claims it"
            );
            assert!(held.join().unwrap(), "nothing is left");
        });
    }
}
