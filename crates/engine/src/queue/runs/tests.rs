//! Tests that every run arrives whole and in order at one consumer, in one process and between
//! several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Error, Kind, Parcel, RunIndex, Taken, batch_bytes};

use super::RunQueue;
use super::messages::RunProtocol;
use crate::queue::endpoint_queue_consumer::EndpointQueueConsumer;
use crate::queue::network::{Location, channels};
use crate::queue::transport::Transport;

const BATCHES: i64 = 7;
/// The time a consumer takes for a run.
const WORK: Duration = Duration::from_micros(100);

fn parcel(run: RunIndex, number: i64) -> Parcel {
    let rows = Int64Array::from_iter_values([run as i64, number]);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(rows) as _)]).unwrap();
    Parcel { bytes: batch_bytes(&batch), batch, run: Some(run) }
}

/// One queue in this many processes; ends are assigned to them in turn.
fn spread(
    bytes_max: usize,
    workers: usize,
    producers: usize,
    consumers: usize,
) -> Vec<Arc<RunQueue>> {
    let between = |(me, (network, cancel, mail)): (usize, (_, _, channels::Mail))| {
        let locations = |ends: usize| -> Vec<Location<()>> {
            let worker = |end: usize| end % workers;
            let location = |end| match worker(end) {
                at if at == me => Location::Here(()),
                at => Location::There(at),
            };
            (0..ends).map(location).collect()
        };
        let transport = Transport::new(network, 0, parcel(0, 0).batch.schema());
        let queue = RunQueue::new(
            bytes_max,
            &locations(producers),
            &locations(consumers),
            Some(transport),
            cancel,
        );
        mail.deliver(&queue, RunQueue::on_frame);
        queue
    };
    channels::networks(workers).into_iter().enumerate().map(between).collect()
}

fn produce(queue: &Arc<RunQueue>, me: usize, runs: Vec<RunIndex>) {
    let mut end = queue.producer(me);
    std::thread::spawn(move || {
        for run in runs {
            end.begin_run(run).unwrap();
            // Some runs are empty.
            let batches = if run % 5 == 4 { 0 } else { BATCHES };
            for number in 0..batches {
                assert!(end.put(parcel(run, number), true).unwrap().is_none());
            }
            end.end_run(run).unwrap();
        }
    });
}

/// The numbers received, by run.
fn drain(mut end: EndpointQueueConsumer<RunProtocol>) -> BTreeMap<RunIndex, Vec<i64>> {
    let (mut all, mut current) = (BTreeMap::<RunIndex, Vec<i64>>::new(), None);
    let mut last = None;
    loop {
        match end.take(true).unwrap() {
            Taken::Batch(parcel) => {
                let values = parcel.batch.column(0).as_primitive::<Int64Type>().values();
                let (run, number) = (values[0] as RunIndex, values[1]);
                assert!(current.is_none_or(|current| current == run), "one run after the other");
                current = Some(run);
                all.entry(run).or_default().push(number);
            }
            Taken::RunEnd(run) => {
                // The last runs are assigned after all producers have ended.
                std::thread::sleep(WORK);
                assert!(last < Some(run), "in order");
                (last, current) = (Some(run), None);
                all.entry(run).or_default();
            }
            Taken::End => return all,
            Taken::Empty => panic!("asked to wait"),
        }
    }
}

#[test]
fn every_run_arrives_whole_and_in_order_at_one_consumer() {
    for (workers, producers, consumers) in [(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 5, 6), (3, 6, 4)] {
        // Each producer has the last run in some of the cases.
        for runs in 30..30 + 4 * producers as u64 {
            // Producers wait for room, or end long before their last run is assigned.
            let bytes_max = if runs % 2 == 0 { 200 } else { 20_000 };
            let queues = spread(bytes_max, workers, producers, consumers);
            let all = transfer(&queues, producers, consumers, runs);
            assert!(all.keys().copied().eq(0..runs));
            for (run, numbers) in all {
                let batches = if run % 5 == 4 { 0 } else { BATCHES };
                assert!(numbers.into_iter().eq(0..batches), "run {run}");
            }
        }
    }
}

/// The numbers received by all consumers, by run.
fn transfer(
    queues: &[Arc<RunQueue>],
    producers: usize,
    consumers: usize,
    runs: u64,
) -> BTreeMap<RunIndex, Vec<i64>> {
    let at = |end: usize| &queues[end % queues.len()];
    let ends: Vec<_> = (0..consumers).map(|me| at(me).consumer(me)).collect();
    for me in 0..producers {
        let own = (0..runs).filter(|run| run % producers as u64 == me as u64);
        produce(at(me), me, own.collect());
    }
    let threads: Vec<_> = ends.into_iter().map(|end| std::thread::spawn(|| drain(end))).collect();
    let mut all = BTreeMap::new();
    for thread in threads {
        for (run, numbers) in thread.join().unwrap() {
            assert!(all.insert(run, numbers).is_none(), "run {run} came twice");
        }
    }
    all
}

#[test]
fn gap_fails_and_queue_without_consumers_is_closed() {
    let queues = spread(200, 2, 1, 2);
    let (mut idle, other) = (queues[0].consumer(0), queues[1].consumer(1));
    produce(&queues[0], 0, vec![4]);
    let error = failure(&mut idle);
    assert!(error.to_string().contains("before run 4 never came"), "{error}");
    drop((idle, other));

    let queues = spread(200, 2, 1, 2);
    let ends = [queues[0].consumer(0), queues[1].consumer(1)];
    let mut producer = queues[0].producer(0);
    let producing = std::thread::spawn(move || {
        let begun = producer.begin_run(0).err();
        begun.or_else(|| (0..1000).find_map(|number| producer.put(parcel(0, number), true).err()))
    });
    drop(ends);
    assert_eq!(producing.join().unwrap().expect("the queue is closed").kind(), Kind::Closed);
}

/// The error that a consumer receives in the end.
fn failure(end: &mut EndpointQueueConsumer<RunProtocol>) -> Error {
    loop {
        match end.take(true) {
            Ok(Taken::End) => panic!("the end, and no error"),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

#[test]
fn run_begun_twice_or_cut_short_fails_without_hanging() {
    for workers in [1, 2] {
        let queues = spread(200, workers, 2, 1);
        let mut consumer = queues[0].consumer(0);
        (0..2).for_each(|me| produce(&queues[me % workers], me, vec![0]));
        let error = failure(&mut consumer);
        assert!(error.to_string().contains("run 0 was begun twice"), "{error}");

        let queues = spread(200, workers, 1, 1);
        let mut consumer = queues[0].consumer(0);
        let mut producer = queues[0].producer(0);
        producer.begin_run(0).unwrap();
        assert!(producer.put(parcel(0, 0), true).unwrap().is_none());
        drop(producer);
        let error = failure(&mut consumer);
        assert!(error.to_string().contains("run 0 never ended"), "{error}");
    }
}

/// Puts one run of one batch.
fn produce_run(end: &mut impl Producer, run: RunIndex) {
    end.begin_run(run).unwrap();
    assert!(end.put(parcel(run, 0), true).unwrap().is_none());
    end.end_run(run).unwrap();
}

/// The kind of the next item, and its run.
fn next(end: &mut EndpointQueueConsumer<RunProtocol>) -> (&'static str, Option<RunIndex>) {
    match end.take(true).unwrap() {
        Taken::Batch(parcel) => ("batch", parcel.run),
        Taken::RunEnd(run) => ("end of run", Some(run)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn owner_of_an_unfinished_run_is_not_assigned_the_next() {
    for workers in [1, 2] {
        let queues = spread(200, workers, workers, 1);
        let mut consumer = queues[0].consumer(0);
        let last = workers - 1;
        (0..last).for_each(|me| drop(queues[me].producer(me)));
        let mut producer = queues[last].producer(last);
        producer.begin_run(0).unwrap();
        // A run is assigned to another process once its producer has no room for more of it.
        let put = (0..).take_while(|at| producer.put(parcel(0, *at), false).unwrap().is_none());
        for _ in 0..put.count() {
            assert_eq!(next(&mut consumer), ("batch", Some(0)));
        }
        assert!(!consumer.ready(false), "there is no more of it yet");
        producer.end_run(0).unwrap();
        produce_run(&mut producer, 1);
        assert_eq!(next(&mut consumer), ("end of run", Some(0)));
        assert_eq!(next(&mut consumer), ("batch", Some(1)));
        assert_eq!(next(&mut consumer), ("end of run", Some(1)));
    }
}

#[test]
fn straggler_leaves_runs_to_other_processes() {
    const RUNS: u64 = 200;
    let become_straggler = |queue: &RunQueue| {
        let backlog = queue.transport().unwrap().fetch_backlog();
        backlog.on_requester_blocked();
        while !backlog.is_straggler() {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // With room for one batch, each run may go to the other process as soon as it is begun.
    let shared = |is_straggler: bool| {
        let queues = spread(200, 2, 1, 2);
        let ends = [queues[0].consumer(0), queues[1].consumer(1)];
        if is_straggler {
            become_straggler(&queues[1]);
        }
        produce(&queues[0], 0, (0..RUNS).collect());
        let drained = ends.map(|end| std::thread::spawn(|| drain(end)));
        drained.map(|thread| thread.join().unwrap().len() as u64)
    };
    let [here, there] = shared(false);
    assert!(there > 0 && here + there == RUNS, "{here} and {there}");
    // The straggler receives the end, too.
    assert_eq!(shared(true), [RUNS, 0]);
    // If all consumers are in one process, runs cannot be left to others.
    let queues = spread(200, 2, 2, 1);
    become_straggler(&queues[0]);
    assert!(queues[0].may_request(&mut None));
}

#[test]
fn consumer_that_leaves_between_runs_is_not_assigned_the_second() {
    let queues = spread(20_000, 1, 1, 2);
    let (mut leaves, stays) = (queues[0].consumer(0), queues[0].consumer(1));
    assert!(matches!(leaves.take(false), Ok(Taken::Empty)));
    let mut producer = queues[0].producer(0);
    produce_run(&mut producer, 0);
    assert_eq!(next(&mut leaves), ("batch", Some(0)));
    assert_eq!(next(&mut leaves), ("end of run", Some(0)));
    produce_run(&mut producer, 1);
    drop(leaves);
    drop(producer);
    assert!(drain(stays).keys().copied().eq([1]));
}

#[test]
fn draining_process_takes_runs_only_if_it_is_released() {
    const RUNS: u64 = 200;
    // With room for one batch, each run may go to the other process as soon as it is begun.
    let queues = spread(200, 2, 1, 2);
    let ends = [queues[0].consumer(0), queues[1].consumer(1)];
    queues[1].transport().unwrap().hold_consumers(true);
    produce(&queues[0], 0, (0..RUNS).collect());
    let drained = ends.map(|end| std::thread::spawn(|| drain(end).len() as u64));
    assert_eq!(drained.map(|thread| thread.join().unwrap()), [RUNS, 0]);

    let queues = spread(200, 2, 1, 2);
    let (leaves, stays) = (queues[0].consumer(0), queues[1].consumer(1));
    let transport = queues[1].transport().unwrap();
    transport.hold_consumers(true);
    produce(&queues[0], 0, (0..RUNS).collect());
    let drained = std::thread::spawn(|| drain(stays).len() as u64);
    drop(leaves);
    transport.hold_consumers(false);
    assert_eq!(drained.join().unwrap(), RUNS);
}
