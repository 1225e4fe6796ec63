//! Memory that a worker lends, through its file service: spilled segments, revocation while they
//! are read, and either end that goes.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use euphrates_device::disk::Disk;
use euphrates_device::folder::DiskFolder;
use euphrates_device::lent_memory::{LendOptions, LentMemory};
use euphrates_flow::{Cause, Kind};
use euphrates_policy::caching::pressure::MemoryLevel;
use euphrates_policy::striping::RequestOrder;
use euphrates_store::segment::{Segment, SegmentOptions, SegmentWriter};
use euphrates_wire::served::{FILES, FileServer, lent_by};
use euphrates_wire::{Connection, Greeting, Listener, Secret, Security};

const MIB: u64 = 1 << 20;
const WITHIN: Duration = Duration::from_secs(30);

/// A worker that lends 16 MiB of a machine with 1600 MiB.
struct Lender {
    memory: LentMemory,
    available_mib: Arc<AtomicU64>,
    server: Arc<FileServer>,
    listener: Listener,
    secret: Secret,
    _scratch: tempfile::TempDir,
}

impl Lender {
    fn new() -> Lender {
        let scratch = tempfile::tempdir().unwrap();
        let available_mib = Arc::new(AtomicU64::new(1600));
        let known = available_mib.clone();
        let level = move || MemoryLevel { total: 1600 * MIB, available: known.load(SeqCst) * MIB };
        let (folder, run_id) = (scratch.path().to_path_buf(), "lender".to_string());
        let options = LendOptions { bytes_max: 16 * MIB, scratch: folder, run_id };
        let memory = LentMemory::with_level(options, level).unwrap();
        let none = FileServer::new("", Path::new(""), vec![], &RequestOrder::Granted, None);
        let server = Arc::new(none.lending(Arc::new(memory.clone())));
        let secret = Secret::random().unwrap();
        let (known, called) = (secret.clone(), server.clone());
        let keys = Arc::new(move |flow: u64| (flow == 0).then(|| known.clone()));
        let on_call = move |connection: Connection| {
            drop(match connection.peer.purpose.as_str() {
                FILES => called.serve_session(connection),
                _ => called.serve_requests(connection),
            });
        };
        let program = env!("CARGO_PKG_VERSION").into();
        let me = Greeting { purpose: "worker".into(), flow: 0, program, ..common::greeting("w1") };
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address, me, keys, Security::Token, on_call).unwrap();
        Lender { memory, available_mib, server, listener, secret, _scratch: scratch }
    }

    fn folder(&self) -> Arc<dyn DiskFolder> {
        let access = (&self.secret, Security::Token);
        lent_by("w0", "w1", self.listener.address(), access, None).unwrap()
    }
}

fn batches(count: i64) -> Vec<RecordBatch> {
    let column = |batch: i64| {
        let values = (0..100_000).map(|row: i64| (row * 7919 + batch) % 1_000_003);
        Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
    };
    (0..count).map(|batch| RecordBatch::try_from_iter([("n", column(batch))]).unwrap()).collect()
}

fn spilled(disk: &Disk, path: &str, batches: &[RecordBatch]) -> euphrates_flow::Result<Segment> {
    let options = SegmentOptions { compression: None, scratch: true };
    let mut writer =
        SegmentWriter::create(disk, Path::new(path), batches[0].schema_ref(), options)?;
    batches.iter().try_for_each(|batch| writer.append(batch).map(drop))?;
    writer.finish()
}

#[test]
fn segment_is_read_back_while_its_memory_is_revoked() {
    let lender = Lender::new();
    let folder = lender.folder();
    let held = folder.hold(Path::new(""), "run-w0-0-1-1").unwrap();
    let disk = Disk::at_worker("memory of w1", folder.clone()).unwrap();
    let batches = batches(8);
    let segment = Arc::new(spilled(&disk, "run-w0-0-1-1/part-0", &batches).unwrap());
    assert!(lender.memory.used_bytes() >= segment.bytes());
    let facts = folder.facts().unwrap();
    assert_eq!(facts.bytes_all - facts.bytes_free, lender.memory.used_bytes());
    let mut reader = segment.read(0..8);
    for (at, batch) in batches.iter().enumerate() {
        if at == 3 {
            lender.available_mib.store(10, SeqCst);
            lender.memory.look();
            assert_eq!(lender.memory.used_bytes(), 0, "moved to disk");
        }
        assert_eq!(&reader.next_block().unwrap().unwrap().batch, batch, "{at}");
    }
    let mut again = segment.read(2..3);
    assert_eq!(again.next_block().unwrap().unwrap().batch, batches[2], "opened after that");
    let refused = spilled(&disk, "run-w0-0-1-1/part-1", &batches).unwrap_err();
    assert_eq!(refused.kind(), Kind::Resource, "{refused}");
    lender.available_mib.store(1600, SeqCst);
    spilled(&disk, "run-w0-0-1-1/part-2", &batches).unwrap();
    // The dropped segment has removed its file; the lender answers before it lets go of it.
    wait_until(|| lender.memory.used_bytes() == 0);
    held.remove();
}

#[test]
fn segment_beyond_the_quota_is_refused_and_leaves_nothing() {
    let lender = Lender::new();
    let folder = lender.folder();
    let held = folder.hold(Path::new(""), "run-w0-0-2-1").unwrap();
    let disk = Disk::at_worker("memory of w1", folder).unwrap();
    let refused = spilled(&disk, "run-w0-0-2-1/part-0", &batches(40)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Resource);
    assert!(refused.to_string().contains("w1:/memory"), "{refused}");
    wait_until(|| lender.memory.used_bytes() == 0);
    held.remove();
}

#[test]
fn memory_is_free_again_when_its_borrower_has_gone() {
    let lender = Lender::new();
    let folder = lender.folder();
    let held = folder.hold(Path::new(""), "run-w0-0-3-1").unwrap();
    let disk = Disk::at_worker("memory of w1", folder).unwrap();
    let segment = spilled(&disk, "run-w0-0-3-1/part-0", &batches(4)).unwrap();
    assert!(lender.memory.used_bytes() > 0);
    // As if the borrower had died: its session ends.
    lender.server.close();
    wait_until(|| lender.memory.used_bytes() == 0);
    let error = segment_read(Arc::new(segment)).unwrap_err();
    assert_eq!(error.kind(), Kind::Resource, "{error}");
    assert!(error.to_string().contains("w1"), "{error}");
    assert_eq!(error.cause(), Some(&Cause::link("w0", "w1", false)), "the flow can begin again");
    held.remove();
}

fn segment_read(segment: Arc<Segment>) -> euphrates_flow::Result<()> {
    segment.read(0..1).next_block().map(drop)
}

fn wait_until(happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < WITHIN, "not in time");
        std::thread::yield_now();
    }
}
