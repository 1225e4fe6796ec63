//! Tests of runs whose owner leaves, and of runs begun twice.

use std::sync::Arc;

use arrow::array::Int64Array;
use arrow::record_batch::RecordBatch;
use euphrates_flow::check::QueueUnit;
use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Cancel, Kind, Parcel, RunIndex, Taken, batch_bytes};

use super::{LocalConsumer, LocalProducer, LocalQueue};

fn parcel(run: RunIndex) -> Parcel {
    let rows = Int64Array::from_iter_values([run as i64]);
    let batch = RecordBatch::try_from_iter([("run", Arc::new(rows) as _)]).unwrap();
    Parcel { bytes: batch_bytes(&batch), batch, run: Some(run) }
}

/// A queue with room for one batch.
fn queue(producers: usize, consumers: usize) -> Arc<LocalQueue> {
    let bytes_max = parcel(0).bytes;
    LocalQueue::new(QueueUnit::Run, bytes_max, producers, consumers, Arc::new(Cancel::default()))
}

/// Whether there was room for a batch of this run.
fn put(end: &mut LocalProducer, run: RunIndex) -> bool {
    end.put(parcel(run), false).unwrap().is_none()
}

/// The item taken, as text.
fn take(end: &mut LocalConsumer) -> String {
    match end.take(false).unwrap() {
        Taken::Batch(parcel) => format!("batch of {}", parcel.run.unwrap()),
        Taken::RunEnd(run) => format!("end of {run}"),
        Taken::Empty => "nothing".into(),
        Taken::End => "end".into(),
    }
}

#[test]
fn run_of_a_departed_owner_blocks_no_other() {
    let queue = queue(1, 2);
    let (mut leaves, mut stays) = (queue.consumer(), queue.consumer());
    let mut producer = queue.producer();
    producer.begin_run(0).unwrap();
    assert!(put(&mut producer, 0));
    assert_eq!(take(&mut leaves), "batch of 0");
    assert!(put(&mut producer, 0));
    assert!(!put(&mut producer, 0), "the queue is full");
    drop(leaves);
    assert!(put(&mut producer, 0), "it will not be taken");
    assert!(put(&mut producer, 0), "nor the next");
    assert_eq!(queue.fill().0, 0);
    producer.end_run(0).unwrap();
    producer.begin_run(1).unwrap();
    assert!(put(&mut producer, 1));
    producer.end_run(1).unwrap();
    drop(producer);
    assert_eq!(take(&mut stays), "batch of 1");
    assert_eq!(take(&mut stays), "end of 1");
    assert_eq!(take(&mut stays), "end");
}

#[test]
fn run_begun_twice_fails_at_the_second() {
    let queue = queue(2, 1);
    let _consumer = queue.consumer();
    let (mut first, mut second) = (queue.producer(), queue.producer());
    first.begin_run(0).unwrap();
    let error = second.begin_run(0).expect_err("it is the first one's");
    assert!(error.to_string().contains("run 0 was begun twice"), "{error}");
}

#[test]
fn producer_of_a_cancelled_flow_neither_ends_nor_cuts_its_stream() {
    for unit in [QueueUnit::Run, QueueUnit::Batch] {
        let cancel = Arc::new(Cancel::default());
        let queue = LocalQueue::new(unit, 1 << 20, 1, 1, cancel.clone());
        let (mut producer, mut consumer) = (queue.producer(), queue.consumer());
        producer.begin_run(0).unwrap();
        assert!(put(&mut producer, 0));
        cancel.cancel();
        drop(producer);
        assert!(matches!(consumer.take(true), Ok(Taken::Batch(_))));
        // The failure that cancelled the flow is the one to report.
        assert_eq!(consumer.take(true).err().unwrap().kind(), Kind::Interrupted);
    }
}
