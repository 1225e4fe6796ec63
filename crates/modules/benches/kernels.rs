//! Benchmarks of inner loops, each next to its theoretical limit in the same run; `make bench`
//! stores the output.
//!
//! Prints one JSON object a line, so that runs can be compared.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use euphrates_engine::queue::distributed::DistributedQueue;
use euphrates_engine::queue::local::LocalQueue;
use euphrates_engine::queue::policies::late_binding;
use euphrates_engine::{Options, Report, go};
use euphrates_flow::check::QueueUnit;
use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Document, Parcel, Taken, batch_bytes};
use euphrates_modules::benchmark::RunBuilder;
use euphrates_modules::registry;
use serde_json::{Value, json};

fn main() {
    let rounds = 5;
    // Runs the named benchmarks, or all.
    let named: Vec<String> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    if wanted("run_generation") {
        run_generation(4_000_000, rounds);
    }
    if wanted("queue_hop") {
        queue_hop(rounds);
    }
    if wanted("distributed_queue") {
        distributed_queue(rounds);
    }
    if wanted("pass_through") {
        pass_through(rounds);
    }
    if wanted("start_up") {
        start_up(rounds * 20);
    }
}

fn flow(steps: &[(&str, Value, usize)]) -> Report {
    let mut document = Document::new("bench");
    let place = |(module, config, count): &(&str, Value, usize)| {
        document.place(module, config.clone(), Some(*count))
    };
    let ids: Vec<String> = steps.iter().map(place).collect();
    ids.windows(2).for_each(|pair| {
        document.attach(&pair[0], &pair[1]);
    });
    go(&document, &registry(), &Options::default()).expect("the flow runs")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sorts records in memory on one core, and copies them once for comparison.
fn run_generation(rows: u64, rounds: usize) {
    let what = json!({"what": "records", "rows": rows});
    let report = flow(&[("generate", what, 2), ("collect", json!({}), 1)]);
    let batches = &report.collected.values().next().expect("a collect").batches;
    let schema = batches[0].schema();
    let bytes: usize = batches.iter().map(batch_bytes).sum();
    let (mut phases, mut copies) = (vec![], vec![]);
    for _ in 0..rounds {
        copies.push(bytes as f64 / copy(batches) / 1e6);
        let mut runs = RunBuilder::new(schema.clone()).expect("a key");
        let began = cpu_seconds();
        batches.iter().for_each(|batch| runs.push(batch.clone()).expect("a batch"));
        let taken = cpu_seconds() - began;
        let ranges = runs.cut();
        let cut = cpu_seconds() - began;
        let (mut merging, mut gathering) = (0.0, 0.0);
        for range in 0..ranges.count() {
            let start = cpu_seconds();
            let merged = ranges.merge(range).expect("a range");
            merging += cpu_seconds() - start;
            let start = cpu_seconds();
            let rows: usize = merged.batches().map(|batch| batch.expect("rows").num_rows()).sum();
            gathering += cpu_seconds() - start;
            assert!(rows > 0);
        }
        phases.push((cpu_seconds() - began, taken, cut - taken, merging, gathering));
    }
    let rate = |pick: fn(&(f64, f64, f64, f64, f64)) -> f64| {
        let seconds = median(phases.iter().map(pick).collect());
        (bytes as f64 / seconds / 1e6).round()
    };
    println!(
        "{}",
        json!({"bench": "run_generation", "rows": rows, "mb_per_s": rate(|p| p.0),
               "extract_and_sort_mb_per_s": rate(|p| p.1), "merge_mb_per_s": rate(|p| p.3),
               "gather_mb_per_s": rate(|p| p.4), "copy_mb_per_s": median(copies).round()})
    );
}

/// Processor time of this thread in seconds; excludes other work on the machine.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn copy(batches: &[RecordBatch]) -> f64 {
    let began = cpu_seconds();
    for column in batches.iter().flat_map(|batch| batch.columns()) {
        std::hint::black_box(column.to_data().buffers()[0].as_slice().to_vec());
    }
    cpu_seconds() - began
}

/// The producers and consumers of a queue.
type Ends = (Vec<Box<dyn Producer>>, Vec<Box<dyn Consumer>>);

fn local(producers: usize, consumers: usize, bytes_max: usize) -> Ends {
    let queue = LocalQueue::new(QueueUnit::Batch, bytes_max, producers, consumers, Arc::default());
    let put = (0..producers).map(|_| Box::new(queue.producer()) as _).collect();
    (put, (0..consumers).map(|_| Box::new(queue.consumer()) as _).collect())
}

fn distributed(producers: usize, consumers: usize, bytes_max: usize) -> Ends {
    let cancel = Arc::default();
    let queue = DistributedQueue::new(late_binding(), bytes_max, producers, consumers, cancel);
    let put = (0..producers).map(|at| Box::new(queue.producer(at)) as _).collect();
    (put, (0..consumers).map(|at| Box::new(queue.consumer(at)) as _).collect())
}

/// Seconds to send `batches` batches from each producer through a queue; consumers read every byte
/// `reads` times.
fn through(ends: Ends, batch: &RecordBatch, batches: usize, reads: usize) -> f64 {
    let (producers, consumers) = ends;
    let bytes = batch_bytes(batch);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for mut end in producers {
            scope.spawn(move || {
                for _ in 0..batches {
                    let parcel = Parcel { batch: batch.clone(), bytes, run: None };
                    end.put(parcel, true).expect("room");
                }
            });
        }
        for mut end in consumers {
            scope.spawn(move || {
                while let Taken::Batch(parcel) = end.take(true).expect("a batch") {
                    (0..reads).for_each(|_| {
                        black_box(sum(&parcel.batch));
                    });
                }
            });
        }
    });
    began.elapsed().as_secs_f64()
}

fn sum(batch: &RecordBatch) -> i64 {
    let column = batch.column(0).as_primitive::<Int64Type>();
    column.values().iter().fold(0, |sum, n| sum ^ n.wrapping_mul(31))
}

fn integers(rows: usize) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    RecordBatch::try_from_iter([("n", numbers)]).expect("one column")
}

/// Queues with batches so small that only the hop costs time.
fn queue_hop(rounds: usize) {
    let batches = 1_000_000;
    let batch = integers(1);
    let hop = |ends| through(ends, &batch, batches, 0) / batches as f64 * 1e9;
    let ns = median((0..rounds).map(|_| hop(local(1, 1, 64 << 10))).collect());
    println!("{}", json!({"bench": "queue_hop", "ns_per_batch": ns.round()}));
    let ns = median((0..rounds).map(|_| hop(distributed(1, 1, 64 << 10))).collect());
    println!("{}", json!({"bench": "distributed_hop", "ns_per_batch": ns.round()}));
}

/// A distributed queue compared with a shared one, with equally busy consumers.
fn distributed_queue(rounds: usize) {
    let (batch, batches) = (integers((1 << 20) / 8), 1000);
    let (mut shared, mut spread) = (vec![], vec![]);
    for _ in 0..rounds {
        shared.push(through(local(4, 4, 32 << 20), &batch, batches, 4));
        spread.push(through(distributed(4, 4, 32 << 20), &batch, batches, 4));
    }
    let ratio = median(shared) / median(spread);
    println!("{}", json!({"bench": "distributed_queue", "throughput_of_shared_queue": ratio}));
}

/// Ten modules that pass batches on, compared with none.
fn pass_through(rounds: usize) {
    let source = ("generate", json!({"what": "records", "rows": 10_000_000}), 1);
    let sink = ("count", json!({}), 1);
    let end = ("collect", json!({}), 1);
    let seconds = |hops: usize| {
        let mut steps = vec![source.clone()];
        steps.extend((0..hops).map(|_| ("union", json!({}), 1)));
        steps.extend([sink.clone(), end.clone()]);
        flow(&steps).seconds
    };
    let (mut bare, mut long) = (vec![], vec![]);
    for _ in 0..rounds {
        bare.push(seconds(0));
        long.push(seconds(10));
    }
    let ratio = median(bare) / median(long);
    println!("{}", json!({"bench": "ten_pass_through", "throughput_kept": ratio}));
}

/// An embedded flow of two modules, from start to end.
fn start_up(rounds: usize) {
    let once = || {
        let began = Instant::now();
        flow(&[("generate", json!({"what": "integers", "rows": 1}), 1), ("collect", json!({}), 1)]);
        began.elapsed().as_secs_f64() * 1e3
    };
    let ms = median((0..rounds).map(|_| once()).collect());
    println!("{}", json!({"bench": "start_up", "ms": ms}));
}
