//! A mirrored collection that two processes read, over a network that damages blocks in flight: the
//! reader takes the other copy, and data without a good copy is a typed error.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::Int64Type;
use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_flow::{Batches, Cancel, Exchange, Kind, Result};
use euphrates_store::collection::*;
use euphrates_store::declustering::MirrorPolicy;

const ROWS: i64 = 20;
const BLOCKS: i64 = 24;
const WORKERS: [&str; 2] = ["w0", "w1"];

/// One of two processes. Every block that it sends arrives with a flipped bit.
struct Between {
    me: usize,
    other: OnceLock<Weak<CollectionScan>>,
    flipped: AtomicUsize,
}

/// The exchange of one process with the other.
struct Peer(Arc<Between>);

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.0.me)
    }
}

impl Exchange for Peer {
    fn others(&self) -> Vec<usize> {
        vec![1 - self.0.me]
    }

    fn me(&self) -> usize {
        self.0.me
    }

    fn name(&self, process: usize) -> &str {
        WORKERS[process]
    }

    fn send(&self, _: usize, letter: &[u8], body: Vec<Buffer>) {
        let Some(other) = self.0.other.get().and_then(Weak::upgrade) else { return };
        let mut body: Vec<u8> = body.iter().flat_map(|part| part.to_vec()).collect();
        if let Some(byte) = body.get_mut(8) {
            *byte ^= 4;
            self.0.flipped.fetch_add(1, Relaxed);
        }
        other.on_message(self.0.me, letter, &Buffer::from(body)).unwrap();
    }

    fn fetch(&self, _: u64) -> Result<Vec<Batches>> {
        unreachable!("nothing is fetched")
    }

    fn may_take(&self, _: bool) -> Result<bool> {
        unreachable!("nothing is taken")
    }
}

/// Writes a collection on a disk of each worker, with copies on both.
fn write(home: &Path) -> Result<()> {
    let disks = WORKERS.map(|worker| NamedDisk {
        name: format!("disk-of-{worker}"),
        folder: home.join(worker),
        mode: Default::default(),
        rate: None,
        worker: worker.into(),
    });
    save_named_disks(home, &disks)?;
    let numbers = |from: i64| {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + ROWS));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    let disks = disks.map(|disk| disk.name).to_vec();
    let options = CreateOptions { disks, copies: 2, ..CreateOptions::default() };
    let options = CreateOptions { run_id: "run".into(), ..options };
    let new = NewCollection::create(home, "c", &numbers(0).schema(), options)?;
    let segments = new.begin_segments()?;
    let mut encoder = segments.encoder()?;
    for block in 0..BLOCKS {
        segments.append(None, &encoder.encode(&numbers(block * ROWS))?, &Cancel::default())?;
    }
    new.add(segments)?;
    new.commit(None)
}

/// All numbers, the remarks of both processes, and the number of blocks damaged in flight.
fn read(home: &Path, mirrors: MirrorPolicy) -> Result<(Vec<i64>, String, usize)> {
    let workers = WORKERS.map(|worker| (format!("disk-of-{worker}"), worker.to_string())).into();
    let between = [0, 1]
        .map(|me| Arc::new(Between { me, other: OnceLock::new(), flipped: AtomicUsize::new(0) }));
    let readings = [0, 1].map(|me: usize| {
        let exchange: Arc<dyn Exchange> = Arc::new(Peer(between[me].clone()));
        let exchange = Some((exchange, std::collections::BTreeMap::clone(&workers)));
        let how = CollectionReadOptions { mirrors, exchange, ..CollectionReadOptions::default() };
        Collection::open(home, "c").unwrap().reading(how).unwrap()
    });
    for me in 0..2 {
        between[me].other.set(Arc::downgrade(&readings[1 - me])).unwrap();
    }
    let read_one = |reading: &Arc<CollectionScan>| -> Result<Vec<i64>> {
        let mut reader = reading.reader(&Arc::new(Cancel::default()), reading.numbers());
        let mut all = vec![];
        while let Some(block) = reader.next_block()? {
            all.extend(block.batch.column(0).as_primitive::<Int64Type>().values());
        }
        Ok(all)
    };
    let read: Vec<Result<Vec<i64>>> = std::thread::scope(|scope| {
        let threads = readings.each_ref().map(|reading| scope.spawn(|| read_one(reading)));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let mut all = read.into_iter().collect::<Result<Vec<_>>>()?.concat();
    all.sort_unstable();
    let remarks = readings.iter().filter_map(|reading| reading.remark()).collect::<Vec<_>>();
    let flipped = between.iter().map(|one| one.flipped.load(Relaxed)).sum();
    Ok((all, remarks.join("\n"), flipped))
}

#[test]
fn block_damaged_in_flight_is_read_from_the_other_copy() {
    let home = tempfile::tempdir().unwrap();
    write(home.path()).unwrap();
    let alternate = MirrorPolicy::parse("alternate").unwrap();
    let (all, remarks, flipped) = read(home.path(), alternate).unwrap();
    assert!(all.into_iter().eq(0..BLOCKS * ROWS));
    assert!(flipped > 0 && remarks.contains("read from mirrors: disk disk-of-w"), "{remarks}");
    // Damages the copy of the process that reads the first segment, too.
    let segment = &Collection::open(home.path(), "c").unwrap().segments().unwrap()[0];
    let (path, at) = (segment.path().to_path_buf(), segment.blocks()[0].offset as usize + 8);
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = read(home.path(), alternate).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let text = error.to_string();
    for named in ["block 0 of c/", "disk-of-w0", "disk-of-w1"] {
        assert!(text.contains(named), "{named}: {text}");
    }
}
