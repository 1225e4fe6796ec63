//! Measures the speed of writing and reading segments: `segment_speed FOLDER MEGABYTES [rows per
//! block]`.
//!
//! Each line is one measurement; `bench/results` keeps dated runs.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::buffer::Buffer;
use euphrates_device::buffer::pool;
use euphrates_device::disk::{Completion, DeviceRequest, Disk, Mode, Op};
use euphrates_flow::{Cancel, Result};
use euphrates_policy::io_path::IoPath;
use euphrates_store::segment::{
    BlockEncoder, BlockReadOptions, Segment, SegmentOptions, SegmentWriter, SharedSegment, toc_path,
};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = Path::new(arguments.get(1).map_or("/tmp", String::as_str));
    let number = |at: usize, default: usize| {
        arguments.get(at).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let (bytes, rows) = (number(2, 2048) << 20, number(3, 10_000));
    write_raw(folder, bytes)?;
    let table = table(rows);
    compare_statistics(folder, &table, bytes)?;
    for (name, batch) in [("gensort", gensort(rows)), ("mixed", mixed(rows)), ("table", table)] {
        for mode in [Mode::Buffered, Mode::Direct] {
            let disk = Disk::new("speed", folder, mode)?;
            measure(name, &disk, mode, &batch, bytes)?;
        }
    }
    Ok(())
}

/// The speed of encoding blocks on one thread, and of writing them, without and with the statistics
/// of a segment.
fn compare_statistics(folder: &Path, batch: &RecordBatch, bytes: usize) -> Result<()> {
    let path = folder.join("statistics");
    let disk = Disk::new("statistics", folder, Mode::Auto)?;
    let encoder = |segment: &SharedSegment, has_statistics: bool| match has_statistics {
        true => segment.encoder(),
        false => BlockEncoder::new(batch.schema(), None),
    };
    for has_statistics in [false, true, false, true] {
        let what = if has_statistics { "with statistics" } else { "without" };
        let options = SegmentOptions::default();
        let segment = SharedSegment::create(&disk, &path, batch.schema_ref(), options)?;
        let mut blocks = encoder(&segment, has_statistics)?;
        let (began, mut encoded) = (Instant::now(), 0);
        while encoded < bytes {
            encoded += blocks.encode(batch)?.block.bytes as usize;
        }
        say(&format!("encode {what}"), bytes, began);
        let began = Instant::now();
        while segment.bytes() < bytes as u64 {
            segment.append(None, &blocks.encode(batch)?, &Cancel::default())?;
        }
        drop(segment.finish()?);
        say(&format!("write {what} and sync"), bytes, began);
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_file(toc_path(&path));
    }
    Ok(())
}

fn measure(name: &str, disk: &Disk, mode: Mode, batch: &RecordBatch, bytes: usize) -> Result<()> {
    let path = disk.folder().join("speed.arrow");
    let began = Instant::now();
    let mut writer =
        SegmentWriter::create(disk, &path, batch.schema_ref(), SegmentOptions::default())?;
    while writer.bytes() < bytes as u64 {
        writer.append(batch)?;
    }
    say(&format!("{name} {mode:?} write"), bytes, began);
    drop(writer.finish()?);
    say(&format!("{name} {mode:?} write and sync"), bytes, began);
    let segment = Arc::new(Segment::open(disk, &path)?);
    for request_bytes_max in [256 << 10, 1 << 20, 4 << 20, 8 << 20] {
        forget(&path);
        let began = Instant::now();
        let options = BlockReadOptions { request_bytes_max, ..BlockReadOptions::default() };
        let rows: usize = read(&segment, 0..segment.blocks().len(), options)?;
        assert_eq!(rows as u64, segment.rows());
        say(&format!("{name} {mode:?} read cold by {request_bytes_max}"), bytes, began);
    }
    let warm = Disk::new("speed", disk.folder(), Mode::Buffered)?;
    let segment = Arc::new(Segment::open(&warm, &path)?);
    for _ in 0..2 {
        let began = Instant::now();
        read(&segment, 0..segment.blocks().len(), BlockReadOptions::default())?;
        say(&format!("{name} read warm, 1 thread"), bytes, began);
    }
    let began = Instant::now();
    let half = segment.blocks().len() / 2;
    std::thread::scope(|scope| -> Result<()> {
        let other = scope.spawn(|| read(&segment, 0..half, BlockReadOptions::default()));
        read(&segment, half..segment.blocks().len(), BlockReadOptions::default())?;
        other.join().expect("no panic").map(drop)
    })?;
    say(&format!("{name} read warm, 2 threads"), bytes, began);
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(path.with_extension("arrow.toc"));
    Ok(())
}

/// The speed of the bare device: 4 MiB requests, four in flight, through the cache and past it.
fn write_raw(folder: &Path, bytes: usize) -> Result<()> {
    let disk = Disk::new("raw", folder, Mode::Auto)?;
    let path = folder.join("raw");
    for way in [IoPath::Buffered, IoPath::Direct] {
        let file = disk.create(&path)?;
        let began = Instant::now();
        let (done, completions) = std::sync::mpsc::channel::<Completion>();
        let source = vec![7u8; 4 << 20];
        for tag in 0..(bytes >> 22) as u64 {
            if tag >= 4 {
                completions.recv().expect("a completion").done.expect("written");
            }
            let mut buffer = pool().take(4 << 20)?;
            buffer.copy_from_slice(&source);
            let (op, file, offset) = (Op::Write, file.clone(), tag << 22);
            disk.submit(DeviceRequest { op, file, offset, buffer, path: way, tag }, &done);
        }
        completions.iter().take(4).for_each(|end| assert_eq!(end.done.expect("written"), 4 << 20));
        say(&format!("raw {way:?} write"), bytes, began);
        file.sync().expect("a sync");
        say(&format!("raw {way:?} write and sync"), bytes, began);
        let _ = std::fs::remove_file(&path);
    }
    Ok(())
}

fn read(
    segment: &Arc<Segment>,
    blocks: std::ops::Range<usize>,
    options: BlockReadOptions,
) -> Result<usize> {
    let mut rows = 0;
    for batch in segment.read_with(blocks, options) {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// Syncs the file and drops its pages from the cache.
fn forget(path: &Path) {
    let file = std::fs::File::open(path).expect("it was just written");
    file.sync_all().expect("a sync");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
}

fn gensort(rows: usize) -> RecordBatch {
    let column = |width: usize| {
        let bytes: Vec<u8> = (0..rows * width).map(|at| ((at * 7919) >> 3) as u8).collect();
        let array = FixedSizeBinaryArray::new(width as i32, Buffer::from_vec(bytes), None);
        Arc::new(array) as ArrayRef
    };
    RecordBatch::try_from_iter([("key", column(10)), ("payload", column(90))]).expect("columns")
}

fn mixed(rows: usize) -> RecordBatch {
    let numbers = |step: i64| {
        Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|at| at * step))) as ArrayRef
    };
    let words = (0..rows).map(|at| Some(format!("a text of some length {at}")));
    let text = Arc::new(words.collect::<StringArray>()) as ArrayRef;
    let columns = (1..9).map(|step| (format!("n{step}"), numbers(step)));
    RecordBatch::try_from_iter(columns.chain([("text".to_string(), text)])).expect("columns")
}

/// Two numbers and a text of twenty bytes, in no order.
fn table(rows: usize) -> RecordBatch {
    let mixed = |at: usize, factor: u64| (at as u64).wrapping_mul(factor) as i64;
    let numbers = |factor: u64| {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|at| mixed(at, factor)))) as ArrayRef
    };
    let words =
        (0..rows).map(|at| Some(format!("{:020}", mixed(at, 0x9e37_79b9_7f4a_7c15) as u64)));
    let text = Arc::new(words.collect::<StringArray>()) as ArrayRef;
    let (one, other) = (numbers(0x9e37_79b9_7f4a_7c15), numbers(0xc2b2_ae3d_27d4_eb4f));
    RecordBatch::try_from_iter([("one", one), ("other", other), ("text", text)]).expect("columns")
}

fn say(what: &str, bytes: usize, began: Instant) {
    let rate = bytes as f64 / 1e9 / began.elapsed().as_secs_f64();
    let _ = writeln!(std::io::stdout(), "{what}: {rate:.2} GB/s");
}
