//! Flows over links that corrupt a byte, or that do not connect two of the workers: the output is
//! correct, and the report names the fault.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use arrow::array::{Int64Array, cast::AsArray};
use arrow::datatypes::Int64Type;
use euphrates_engine::cluster::static_driver::StaticDriver;
use euphrates_engine::cluster::{
    Address, Cluster, Secret, Security, WorkerProperties, WorkerServer, WorkerSettings,
};
use euphrates_engine::{Options, Report, go};
use euphrates_flow::Document;
use euphrates_modules::registry;
use serde_json::json;
use tempfile::TempDir;

/// Only batches are larger than this.
const BATCH_BYTES: usize = 16 << 10;
const ROWS: i64 = 600_000;

/// Faults of the links of a cluster.
#[derive(Default)]
struct Tricks {
    /// Whether the next piece of a batch is damaged.
    flips: AtomicBool,
    /// For each worker, how many more connections it accepts.
    calls_left: [AtomicUsize; 3],
}

/// Starts a proxy in front of a worker; returns its port.
fn link(to: u16, worker: usize, tricks: &Arc<Tricks>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tricks = tricks.clone();
    thread::spawn(move || {
        for (number, caller) in listener.incoming().flatten().enumerate() {
            // The master calls first; what it is sent may be as long as a batch.
            let has_batches = number > 0;
            let left = &tricks.calls_left[worker];
            if left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
                continue;
            }
            let Ok(callee) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (from, to) in [(&caller, &callee), (&callee, &caller)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let tricks = tricks.clone();
                thread::spawn(move || carry(from, to, has_batches, &tricks));
            }
        }
    });
    port
}

fn carry(mut from: TcpStream, mut to: TcpStream, has_batches: bool, tricks: &Tricks) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if has_batches && read >= BATCH_BYTES && tricks.flips.swap(false, SeqCst) {
            bytes[read / 2] ^= 1;
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

struct Linked {
    cluster: Arc<Cluster>,
    tricks: Arc<Tricks>,
    home: TempDir,
    _servers: Vec<WorkerServer>,
}

fn linked(workers: usize) -> Linked {
    let (home, secret) = (TempDir::new().unwrap(), Secret::random().unwrap());
    let tricks = Arc::<Tricks>::default();
    tricks.calls_left.iter().for_each(|left| left.store(usize::MAX, SeqCst));
    let server = |number: usize| {
        let setting = WorkerSettings {
            member: WorkerProperties { cores: 1, ..WorkerProperties::named(format!("w{number}")) },
            listen: "127.0.0.1:0".parse().unwrap(),
            secret: secret.clone(),
            security: Security::Token,
            lost_after: None,
            scratch: vec![home.path().join(format!("scratch{number}"))],
        };
        WorkerServer::start(setting, registry(), || ()).unwrap()
    };
    let servers: Vec<WorkerServer> = (0..workers).map(server).collect();
    let address = |(number, server): (usize, &WorkerServer)| {
        let Address::Tcp(address) = server.address() else { unreachable!() };
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        let through = format!("127.0.0.1:{}", link(port, number, &tricks));
        (format!("w{number}"), through.parse().unwrap())
    };
    let (driver, _) = StaticDriver::new(servers.iter().enumerate().map(address).collect());
    let cluster = Cluster::open_within(None, Box::new(driver), &secret, Security::Token).unwrap();
    Linked { cluster: Arc::new(cluster), tricks, home, _servers: servers }
}

impl Linked {
    fn options(&self) -> Options {
        Options {
            cluster: Some(self.cluster.clone()),
            home: Some(self.home.path().into()),
            ..Options::default()
        }
    }

    /// Sorts integers in descending order on the workers, into a collection.
    fn sorted(&self) -> Report {
        let mut document = Document::new("sorted");
        let source = document.place("generate", json!({"what": "integers", "rows": ROWS}), None);
        let by = json!({"by": [{"column": "n", "descending": true}]});
        let sort = document.place("sort", by, None);
        let write = json!({"collection": "out", "overwrite": true});
        let sink = document.place("write", write, None);
        document.attach(&source, &sort);
        document.attach(&sort, &sink);
        go(&document, &registry(), &self.options()).unwrap()
    }

    fn assert_is_sorted(&self) {
        let mut document = Document::new("read");
        let read = document.place("read", json!({"collection": "out", "order": true}), None);
        let sink = document.place("collect", json!({}), None);
        document.attach(&read, &sink);
        let options = Options { cluster: None, ..self.options() };
        let report = go(&document, &registry(), &options).unwrap();
        let batches = &report.collected.values().next().unwrap().batches;
        let numbers = batches.iter().flat_map(|batch| {
            let column: &Int64Array = batch.column(0).as_primitive::<Int64Type>();
            column.values().to_vec()
        });
        assert!(numbers.eq((0..ROWS).rev()));
    }
}

#[test]
fn a_flipped_bit_between_workers_is_retried() {
    let linked = linked(2);
    linked.tricks.flips.store(true, SeqCst);
    let report = linked.sorted();
    linked.assert_is_sorted();
    let report = report.to_string();
    assert!(!linked.tricks.flips.load(SeqCst), "nothing has been damaged");
    assert!(
        report.contains("the connection between") && report.contains("began again"),
        "{report}"
    );
    assert_eq!(linked.cluster.members().len(), 2, "nobody has died of it");
    let report = linked.sorted().to_string();
    assert!(!report.contains("the connection between"), "{report}");
}

#[test]
fn disconnected_workers_are_not_used_in_one_flow() {
    let linked = linked(3);
    // The master has connected; the last of the three workers, which connects to the others,
    // cannot.
    linked.tricks.calls_left[1].store(0, SeqCst);
    let report = linked.sorted().to_string();
    linked.assert_is_sorted();
    assert!(
        report.contains("cannot connect to all other workers; the flow runs without it"),
        "{report}"
    );
    // The next flow avoids the broken pair.
    let report = linked.sorted().to_string();
    assert!(
        report.contains("cannot connect to all other workers; the flow runs without it"),
        "{report}"
    );
    assert!(!report.contains("the flow began again"), "{report}");
    assert_eq!(linked.cluster.members().len(), 3, "all are there");
}
