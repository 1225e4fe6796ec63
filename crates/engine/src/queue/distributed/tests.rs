//! Tests that every record arrives once, whichever consumers leave.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Cancel, Kind, Parcel, Taken, batch_bytes};
use euphrates_policy::distributed::{Policy, late_binding, push::PushChoice};

use super::DistributedQueue;
use super::messages::Pieces;
use super::messages::{ConsumerMessage, ProducerState};
use crate::queue::endpoint_queue_consumer::EndpointQueueConsumer;
use crate::queue::network::{Location, channels};
use crate::queue::protocol::EndpointAddress;
use crate::queue::transport::Transport;

const ROWS: i64 = 100;

fn parcel(number: i64) -> Parcel {
    let rows = Int64Array::from_iter_values(number * ROWS..(number + 1) * ROWS);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(rows) as _)]).unwrap();
    Parcel { bytes: batch_bytes(&batch), batch, run: None }
}

fn numbers(parcel: &Parcel) -> Vec<i64> {
    parcel.batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn policies() -> [Policy; 6] {
    [
        Policy::LateBinding(late_binding::Limits::default()),
        Policy::Sparrow { reservations: 2, slots_max: 2 },
        Policy::Push(PushChoice::Credit { credit_max: 2 }),
        Policy::Push(PushChoice::Static { credit_max: 2 }),
        Policy::Push(PushChoice::RoundRobin { credit_max: 2 }),
        Policy::Push(PushChoice::ShortestOf { k: 2, credit_max: 2 }),
    ]
}

fn queue(policy: Policy, producers: usize, consumers: usize) -> Arc<DistributedQueue> {
    let bytes_max = 4 * producers * parcel(0).bytes;
    DistributedQueue::new(policy, bytes_max, producers, consumers, Arc::default())
}

/// One queue in this many processes, connected by channels; ends are assigned to them in turn.
fn spread(
    policy: Policy,
    workers: usize,
    producers: usize,
    consumers: usize,
) -> Vec<Arc<DistributedQueue>> {
    let bytes_max = 4 * producers * parcel(0).bytes;
    let queues = channels::networks(workers).into_iter().enumerate();
    let between = |(me, (network, cancel, mail)): (usize, (_, _, channels::Mail))| {
        let locations = |ends: usize| -> Vec<Location<()>> {
            let location = |end| {
                if end % workers == me {
                    Location::Here(())
                } else {
                    Location::There(end % workers)
                }
            };
            (0..ends).map(location).collect()
        };
        let transport = Transport::new(network, 0, parcel(0).batch.schema());
        let (producers, consumers) = (locations(producers), locations(consumers));
        let queue = DistributedQueue::between(
            policy,
            bytes_max,
            producers,
            consumers,
            Some(transport),
            cancel,
        );
        mail.deliver(&queue, DistributedQueue::on_frame);
        queue
    };
    queues.map(between).collect()
}

#[test]
fn every_record_arrives_once_between_processes() {
    for policy in policies() {
        for (workers, producers, consumers) in [(2, 1, 1), (2, 3, 4), (3, 8, 2), (4, 2, 8)] {
            let queues = spread(policy, workers, producers, consumers);
            let at = |end: usize| &queues[end % workers];
            let ends: Vec<_> = (0..consumers).map(|me| at(me).consumer(me)).collect();
            for me in 0..producers {
                produce_one(at(me), me, 100);
            }
            let threads: Vec<_> =
                ends.into_iter().map(|end| std::thread::spawn(|| drain(end))).collect();
            let got = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            assert_all_once(got, producers as i64 * 100);
        }
    }
}

#[test]
fn remote_consumers_may_leave_and_the_last_closes_the_queue() {
    for policy in policies() {
        let queues = spread(policy, 3, 2, 3);
        let mut ends: Vec<_> = (0..3).map(|me| queues[me].consumer(me)).collect();
        let mut early = ends.remove(1);
        (0..2).for_each(|me| produce_one(&queues[me], me, 100));
        let Taken::Batch(first) = early.take(true).unwrap() else { panic!("there is enough") };
        drop(early);
        let threads: Vec<_> =
            ends.into_iter().map(|end| std::thread::spawn(|| drain(end))).collect();
        let rest = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        assert_all_once(numbers(&first).into_iter().chain(rest).collect(), 200);
    }
    let queues = spread(policies()[0], 2, 1, 2);
    let ends: Vec<_> = (0..2).map(|me| queues[me].consumer(me)).collect();
    let mut producer = queues[0].producer(0);
    let producing = std::thread::spawn(move || {
        (0..1000).find_map(|number| producer.put(parcel(number), true).err())
    });
    drop(ends);
    assert_eq!(producing.join().unwrap().expect("the queue is closed").kind(), Kind::Closed);
}

#[test]
fn draining_process_requests_batches_only_if_it_is_released() {
    for near in [0, 1] {
        let queues = spread(policies()[0], 2, 2, 2);
        let mut ends: Vec<_> = (0..2).map(|me| queues[me].consumer(me)).collect();
        let (held, other) = (ends.pop().unwrap(), ends.pop().unwrap());
        queues[1].transport().unwrap().hold_consumers(true);
        // The producer is in the draining process, or in the other.
        drop(queues[1 - near].producer(1 - near));
        produce_one(&queues[near], near, 400);
        let threads = [held, other].map(|end| std::thread::spawn(|| drain(end)));
        let [held, other] = threads.map(|thread| thread.join().unwrap());
        // It may have waited at one producer before.
        assert!(held.len() as i64 <= 2 * ROWS, "{} rows", held.len());
        let numbers = held.into_iter().chain(other).map(|n| n - near as i64 * 400 * ROWS);
        assert_all_once(numbers.collect(), 400);
    }
    let queues = spread(policies()[0], 2, 1, 2);
    let (leaves, stays) = (queues[0].consumer(0), queues[1].consumer(1));
    let transport = queues[1].transport().unwrap();
    transport.hold_consumers(true);
    produce_one(&queues[0], 0, 100);
    let drained = std::thread::spawn(|| drain(stays));
    drop(leaves);
    transport.hold_consumers(false);
    assert_all_once(drained.join().unwrap(), 100);
}

fn drain(mut end: EndpointQueueConsumer<Pieces>) -> Vec<i64> {
    let mut all = vec![];
    loop {
        match end.take(true).unwrap() {
            Taken::Batch(parcel) => all.extend(numbers(&parcel)),
            Taken::End => return all,
            other => panic!("{other:?}"),
        }
    }
}

/// Each producer puts `each` parcels in a thread of its own.
fn produce(queue: &Arc<DistributedQueue>, producers: usize, each: i64) {
    (0..producers).for_each(|producer| produce_one(queue, producer, each));
}

fn produce_one(queue: &Arc<DistributedQueue>, producer: usize, each: i64) {
    let mut end = queue.producer(producer);
    std::thread::spawn(move || {
        for number in 0..each {
            let refused = end.put(parcel(producer as i64 * each + number), true).unwrap();
            assert!(refused.is_none());
        }
    });
}

fn assert_all_once(mut got: Vec<i64>, parcels: i64) {
    got.sort_unstable();
    assert!(got.into_iter().eq(0..parcels * ROWS), "every record once");
}

#[test]
fn every_record_arrives_once_by_every_policy() {
    for policy in policies() {
        for (producers, consumers) in [(1, 1), (3, 4), (8, 2), (2, 8)] {
            let queue = queue(policy, producers, consumers);
            let ends: Vec<_> = (0..consumers).map(|me| queue.consumer(me)).collect();
            produce(&queue, producers, 200);
            let threads: Vec<_> =
                ends.into_iter().map(|end| std::thread::spawn(|| drain(end))).collect();
            let got = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            assert_all_once(got, producers as i64 * 200);
            assert_eq!(queue.fill().0, 0);
        }
    }
}

#[test]
fn stalled_consumer_withholds_one_batch() {
    let queue = queue(policies()[0], 2, 3);
    let mut stuck = queue.consumer(0);
    let others: Vec<_> = (1..3).map(|me| queue.consumer(me)).collect();
    produce(&queue, 2, 100);
    let Taken::Batch(first) = stuck.take(true).unwrap() else { panic!("there is enough") };
    let threads: Vec<_> = others.into_iter().map(|end| std::thread::spawn(|| drain(end))).collect();
    let mut got: Vec<i64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    assert!(matches!(stuck.take(true).unwrap(), Taken::End), "the others have taken the rest");
    got.extend(numbers(&first));
    assert_all_once(got, 200);
}

#[test]
fn batches_of_a_consumer_that_leaves_go_to_others() {
    for policy in policies() {
        // Under the static policy, the batches of a consumer that leaves go to the next.
        let queue = queue(policy, 2, 3);
        let mut ends: Vec<_> = (0..3).map(|me| queue.consumer(me)).collect();
        let mut early = ends.remove(1);
        produce(&queue, 2, 100);
        let Taken::Batch(first) = early.take(true).unwrap() else { panic!("there is enough") };
        drop(early);
        let threads: Vec<_> =
            ends.into_iter().map(|end| std::thread::spawn(|| drain(end))).collect();
        let rest = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        assert_all_once(numbers(&first).into_iter().chain(rest).collect(), 200);
    }
}

#[test]
fn queue_without_consumers_is_closed() {
    let queue = queue(policies()[0], 1, 2);
    let ends = [queue.consumer(0), queue.consumer(1)];
    let mut producer = queue.producer(0);
    let together = Arc::new(Barrier::new(2));
    let thread = std::thread::spawn({
        let together = together.clone();
        move || {
            together.wait();
            (0..1000).find_map(|number| producer.put(parcel(number), true).err())
        }
    });
    together.wait();
    drop(ends);
    assert_eq!(thread.join().unwrap().expect("the queue is closed").kind(), Kind::Closed);
}

#[test]
fn full_queue_refuses_until_a_batch_is_taken() {
    let queue = queue(policies()[0], 1, 1);
    let (mut producer, mut consumer) = (queue.producer(0), queue.consumer(0));
    let put = (0..100).take_while(|n| producer.put(parcel(*n), false).unwrap().is_none()).count();
    assert!((1..100).contains(&put), "bounded: {put}");
    assert!(!consumer.ready(false) || put > 0);
    let Taken::Batch(first) = consumer.take(false).unwrap() else { panic!("it was given one") };
    assert_eq!(numbers(&first)[0] % ROWS, 0);
    let Taken::Batch(_) = consumer.take(true).unwrap() else { panic!("and there is more") };
    assert!(producer.put(parcel(1000), false).unwrap().is_none(), "there is room again");
}

#[test]
fn cancelled_flow_wakes_both_ends() {
    let cancel = Arc::new(Cancel::default());
    let queue = DistributedQueue::new(policies()[0], 1, 2, 1, cancel.clone());
    let (mut consumer, _idle) = (queue.consumer(0), queue.producer(1));
    let mut producer = queue.producer(0);
    // Fewer than all of its batches are taken, so the producer waits in the end.
    let producing = std::thread::spawn({
        let cancel = cancel.clone();
        move || {
            cancel.register_thread();
            (0..1000).find_map(|number| producer.put(parcel(number), true).err())
        }
    });
    let taken: BTreeSet<i64> = (0..10)
        .map(|_| match consumer.take(true).unwrap() {
            Taken::Batch(parcel) => numbers(&parcel)[0],
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(taken.len(), 10);
    cancel.cancel();
    assert_eq!(producing.join().unwrap().expect("it ends").kind(), Kind::Interrupted);
    // Batches that have arrived may still be taken; then the error is returned.
    let end = (0..1000).find_map(|_| consumer.take(true).err()).expect("it ends");
    assert_eq!(end.kind(), Kind::Interrupted);
}

#[test]
fn waiting_thread_is_woken_when_another_thread_reads_its_messages() {
    let queue = queue(policies()[0], 1, 1);
    let mut consumer = queue.consumer(0);
    assert!(!consumer.ready(true));
    // The message is stored, and read by another thread before this one parks.
    queue.consumer_mailbox(0).put(0, ConsumerMessage::Producer(ProducerState::Drained));
    queue.ring(EndpointAddress::Consumer(0));
    let since = Instant::now();
    std::thread::park_timeout(Duration::from_secs(60));
    assert!(since.elapsed() < Duration::from_secs(50), "it was not woken");
    assert!(matches!(consumer.take(false), Ok(Taken::End)));
}
