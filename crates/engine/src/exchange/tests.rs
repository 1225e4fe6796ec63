//! Tests of fetches between processes, and of serving before claiming.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Batches, Exchange, ExchangeServer, Kind, Result};
use parking_lot::{Condvar, Mutex};

use super::{ExchangeHandle, ModuleExchange};
use crate::queue::network::channels;
use crate::queue::transport::Transport;

const PROCESSES: usize = 3;
const SLOW: usize = 2;

/// Delays all answers until it is open.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock() = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.changed.wait_while(&mut self.is_open.lock(), |is_open| !*is_open);
    }
}

/// A module that answers a request with as many batches as its number modulo four.
struct Source {
    me: usize,
    gate: Arc<Gate>,
}

fn batch(values: [i64; 3]) -> RecordBatch {
    let rows = Int64Array::from_iter_values(values);
    RecordBatch::try_from_iter([("n", Arc::new(rows) as _)]).unwrap()
}

impl ExchangeServer for Source {
    fn schema(&self) -> SchemaRef {
        batch([0; 3]).schema()
    }

    fn serve(&self, request: u64) -> Result<Batches> {
        self.gate.pass();
        let (me, request) = (self.me as i64, request as i64);
        Ok(Box::new((0..request % 4).map(move |number| Ok(batch([me, request, number])))))
    }
}

/// The exchanges of all processes, and the gates of their answers.
fn exchanges() -> Vec<(ExchangeHandle, Arc<Gate>)> {
    let connected = |(me, (network, cancel, mail)): (usize, (_, _, channels::Mail))| {
        let gate = Arc::new(Gate::default());
        let server = Arc::new(Source { me, gate: gate.clone() });
        let transport = Transport::new(network, 0, batch([0; 3]).schema());
        let others = (0..PROCESSES).filter(|other| *other != me).collect();
        let names = (0..PROCESSES).map(|at| format!("w{at}")).collect();
        let exchange = ModuleExchange::new(transport, server, (others, names), cancel);
        mail.deliver(&exchange, ModuleExchange::on_frame);
        (ExchangeHandle(exchange), gate)
    };
    channels::networks(PROCESSES).into_iter().enumerate().map(connected).collect()
}

/// The answer to a request: the process, and the number of its batch.
fn fetched(exchange: &ExchangeHandle, request: u64) -> Vec<(i64, i64)> {
    let batches = exchange.fetch(request).unwrap().into_iter().flatten();
    let value = |batch: Result<RecordBatch>| {
        let batch = batch.unwrap();
        let values = batch.column(0).as_primitive::<Int64Type>().values();
        assert_eq!(values[1] as u64, request);
        (values[0], values[2])
    };
    batches.map(value).collect()
}

#[test]
fn every_process_fetches_from_all_others_in_order() {
    let all = exchanges();
    all.iter().for_each(|(_, gate)| gate.open());
    thread::scope(|scope| {
        for (exchange, _) in &all {
            scope.spawn(move || {
                for request in 0..100 {
                    let others = exchange.others().into_iter();
                    let of = |other| (0..request % 4).map(move |n| (other as i64, n as i64));
                    assert_eq!(fetched(exchange, request), others.flat_map(of).collect::<Vec<_>>());
                }
            });
        }
    });
}

#[test]
fn process_with_blocked_requester_claims_nothing_before_it_has_served() {
    let all = exchanges();
    let others = all.iter().enumerate().filter(|(at, _)| *at != SLOW);
    others.for_each(|(_, (_, gate))| gate.open());
    let (slow, gate) = &all[SLOW];
    assert!(slow.may_take(false).unwrap());
    let has_served = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| fetched(&all[0].0, 3));
        while slow.0.served.lock().blocked.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        let taking = scope.spawn(|| {
            while !slow.may_take(false).unwrap() {}
            assert!(has_served.load(Relaxed), "it has not served yet");
        });
        // No requester waits for a process that has answered.
        assert!(all[1].0.may_take(false).unwrap());
        has_served.store(true, Relaxed);
        gate.open();
        assert_eq!(asking.join().unwrap(), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
        taking.join().unwrap();
    });
}

#[test]
fn cancelled_flow_ends_waiting_fetches_and_claims() {
    let all = exchanges();
    all[1].1.open();
    let (slow, gate) = &all[SLOW];
    thread::scope(|scope| {
        let asking = scope.spawn(|| all[0].0.fetch(3).unwrap().into_iter().flatten().last());
        while slow.0.served.lock().blocked.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        slow.0.cancel.cancel();
        assert_eq!(slow.may_take(false).unwrap_err().kind(), Kind::Interrupted);
        all[0].0.0.cancel.cancel();
        assert!(asking.join().unwrap().unwrap().is_err());
        gate.open();
    });
}
