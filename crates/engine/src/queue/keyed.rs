//! A keyed queue: its consumers take whole partitions, in the order of their numbers, each when it
//! is free. What the producers have taken in stays with them until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{
    Batches, Error, Parcel, Partition, Placed, Result, RunIndex, Setup, Taken, batch_bytes,
};
use parking_lot::Mutex;

use crate::queue::network::{Location, are_here};

/// The queue, as one process has it.
pub struct KeyedQueue {
    producer: Arc<dyn Placed>,
    /// The producer's, here.
    setup: Arc<Setup>,
    /// What its partitions are dealt by, wherever the consumers are.
    name: String,
    dealing: Dealing,
    count: Mutex<Option<u64>>,
}

/// Who gets which partition.
#[derive(Clone, Copy, Debug)]
enum Dealing {
    /// Divided among so many consumers, to show what that costs.
    InAdvance(u64),
    /// Whoever is free takes the next one.
    Late {
        /// Whether some of the consumers are in other processes.
        is_shared: bool,
    },
}

impl KeyedQueue {
    /// Behind a producer that keeps partitions, with consumers at these places.
    pub fn new(
        producer: Arc<dyn Placed>,
        setup: Arc<Setup>,
        name: String,
        consumers: &[Location<()>],
    ) -> Arc<KeyedQueue> {
        let dealing = match setup.is_divided {
            true => Dealing::InAdvance(consumers.len() as u64),
            false => Dealing::Late { is_shared: !are_here(consumers) },
        };
        Arc::new(KeyedQueue { producer, setup, name, dealing, count: Mutex::default() })
    }

    /// The end of a producer, who hands nothing over.
    pub fn producer(&self) -> Box<dyn Producer> {
        Box::new(Keeps)
    }

    /// The end of a consumer.
    pub fn consumer(self: &Arc<Self>, instance: usize) -> Box<dyn Consumer> {
        let (queue, own) = (self.clone(), instance as u64);
        Box::new(KeyedConsumer { queue, own, current: None, given: None, asked: None })
    }

    /// How many partitions there are; waits until that is known.
    fn count(&self) -> Result<u64> {
        if let Some(count) = *self.count.lock() {
            return Ok(count);
        }
        let partitions = self.producer.partitioned().expect("checked: its output is keyed");
        let count = partitions.count(&self.setup)?;
        Ok(*self.count.lock().insert(count))
    }

    /// Has another thread, if there can be one, wait until the number of partitions is known, or
    /// why it cannot be; then wakes this one, and says so.
    fn ask(self: &Arc<Self>) -> Option<Arc<AtomicBool>> {
        let answered = Arc::new(AtomicBool::new(false));
        let (queue, told, asker) = (self.clone(), answered.clone(), thread::current());
        let wait = move || {
            // Whoever takes finds out why.
            let _ = queue.count();
            told.store(true, SeqCst);
            asker.unpark();
        };
        thread::Builder::new().name("partitions".into()).spawn(wait).ok()?;
        Some(answered)
    }

    fn next(&self, own: &mut u64) -> Result<Option<Partition>> {
        self.setup.cancel.check()?;
        let count = self.count()?;
        let is_left = || Ok(self.setup.commons.given(&self.name)? < count);
        let number = match self.dealing {
            Dealing::InAdvance(consumers) => std::mem::replace(own, *own + consumers),
            Dealing::Late { is_shared } if self.setup.may_take(is_shared, is_left)? => {
                self.setup.commons.next(&self.name)?
            }
            Dealing::Late { .. } => return Ok(None),
        };
        let partition = || Partition::new(self.producer.clone(), self.setup.clone(), number);
        Ok((number < count).then(partition))
    }
}

struct KeyedConsumer {
    queue: Arc<KeyedQueue>,
    /// If divided in advance: the number of the next partition that is this consumer's.
    own: u64,
    current: Option<(RunIndex, Batches)>,
    /// One that has been waited for, and not been begun.
    given: Option<Partition>,
    /// Whether what it has asked is answered.
    asked: Option<Arc<AtomicBool>>,
}

impl KeyedConsumer {
    /// Whether it can take without waiting for the producers. Nobody tells when the partitions are
    /// there, so who may not wait has somebody wait.
    fn need_not_wait(&mut self) -> bool {
        let has_one = self.current.is_some() || self.given.is_some();
        if has_one || self.queue.count.lock().is_some() {
            return true;
        }
        if self.asked.is_none() {
            self.asked = self.queue.ask();
        }
        // With no other thread, it waits itself.
        self.asked.as_ref().is_none_or(|asked| asked.load(SeqCst))
    }
}

impl Consumer for KeyedConsumer {
    /// For modules that do not ask for partitions: one after the other, as runs. Only the wait for
    /// a partition counts as waiting; computing its records counts as busy time.
    fn take(&mut self, wait: bool) -> Result<Taken> {
        if self.current.is_none() {
            if !wait && !self.need_not_wait() {
                return Ok(Taken::Empty);
            }
            let given = match self.given.take() {
                Some(partition) => Some(partition),
                None => self.next_partition()?,
            };
            let Some(partition) = given else { return Ok(Taken::End) };
            if wait {
                self.given = Some(partition);
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

/// The end of a producer, who keeps what it has taken in.
struct Keeps;

impl Producer for Keeps {
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

    use arrow::datatypes::{Schema, SchemaRef};
    use arrow::record_batch::{RecordBatch, RecordBatchOptions};
    use euphrates_flow::{Module, NoExchange, Partitioned};

    use super::*;
    use crate::run::coordination::Here;

    /// A producer of one partition, that knows whether it was computed.
    #[derive(Default)]
    struct One(AtomicBool);

    impl Placed for One {
        fn schemas(&self, _: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
            Ok(vec![])
        }

        fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
            Err(Error::failed("it does not run"))
        }

        fn partitioned(&self) -> Option<&dyn Partitioned> {
            Some(self)
        }
    }

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
        Setup {
            module: "one".into(),
            worker: "w0".into(),
            instance: 0,
            instances: 1,
            is_divided: false,
            memory_bytes: 0,
            budget_bytes: 0,
            row_bytes_max: usize::MAX,
            scratch: vec![],
            home: std::env::temp_dir(),
            run_id: "test".into(),
            decision: None,
            commons: Arc::new(Here::new(Arc::default(), cancel.clone())),
            exchange: Arc::new(NoExchange),
            is_whole: true,
            instances_here: 1,
            cancel,
        }
    }

    #[test]
    fn a_partition_is_not_computed_while_its_consumer_counts_as_waiting() {
        let one = Arc::new(One::default());
        let (producer, setup) = (one.clone() as Arc<dyn Placed>, Arc::new(setup()));
        let here = [Location::Here(())];
        let mut end = KeyedQueue::new(producer, setup, "one".into(), &here).consumer(0);
        assert!(matches!(end.take(true).unwrap(), Taken::Empty));
        assert!(!one.0.load(SeqCst), "it was computed under the name of waiting");
        let Taken::Batch(parcel) = end.take(false).unwrap() else { panic!("it has been given") };
        assert_eq!((parcel.batch.num_rows(), parcel.run), (3, Some(0)));
        assert!(matches!(end.take(false).unwrap(), Taken::RunEnd(0)));
        assert!(matches!(end.take(true).unwrap(), Taken::End));
    }
}
