//! Feeds truncated and damaged files to every format: the result is an error or data, never a
//! panic, an abort, a hang, or memory beyond what the file is worth.
//!
//! Every prefix and every flipped bit of small files of each format is tried.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::record_batch::RecordBatch;
use euphrates_flow::Kind;
use euphrates_formats::{Compression, ReadOptions, WriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::{WriterProperties, WriterVersion};
use support::*;

/// An allocator that counts allocated bytes and records the peak.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(live, Relaxed);
        // SAFETY: passed on to the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on to the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory limit for decoding a file of a few kilobytes: a few batches of their target size.
const MEMORY_BYTES_MAX: usize = 64 << 20;

struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    expected: RecordBatch,
}

/// Reads a damaged file: `None` if it is refused, else whether the data is unchanged.
fn attempt(path: &std::path::Path, damaged: &[u8], case: &Case, what: &str) -> Option<bool> {
    // Each attempt creates a new file: some file systems wait for the disk when one is overwritten.
    let _ = std::fs::remove_file(path);
    std::fs::write(path, damaged).unwrap();
    let before = LIVE.load(Relaxed);
    MOST.store(before, Relaxed);
    let read = catch_unwind(AssertUnwindSafe(|| decoded(path, &ReadOptions::default())));
    let most = MOST.load(Relaxed).saturating_sub(before);
    assert!(most < MEMORY_BYTES_MAX, "{} {what}: {most} bytes", case.name);
    match read {
        Err(_) => panic!("{} {what}: a panic came through", case.name),
        Ok(Ok(batch)) => Some(batch == case.expected),
        Ok(Err(error)) => {
            let known = [Kind::Corrupt, Kind::Usage, Kind::Failed].contains(&error.kind());
            assert!(known, "{} {what}: {error:?}", case.name);
            None
        }
    }
}

fn case(name: &'static str, batch: &RecordBatch, options: &WriteOptions) -> Case {
    let bytes = encoded(name, std::slice::from_ref(batch), 1, options).unwrap();
    whole(name, bytes)
}

fn whole(name: &'static str, bytes: Vec<u8>) -> Case {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, &bytes).unwrap();
    let expected = decoded(&path, &ReadOptions::default()).unwrap();
    Case { name, bytes, expected }
}

/// A Parquet file as other writers produce it: other encodings, pages of version 2, no checksums.
fn of_others(batch: &RecordBatch) -> Case {
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_dictionary_enabled(false)
        .set_column_encoding("int".into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_column_encoding("fixed".into(), Encoding::BYTE_STREAM_SPLIT)
        .build();
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    whole("others.parquet", bytes)
}

fn cases() -> Vec<Case> {
    let plain_write = WriteOptions::default();
    let packed =
        |compression| WriteOptions { compression: Some(compression), ..Default::default() };
    let some = motley(9);
    let [few, nested] = [some.project(&[0, 3, 4]).unwrap(), some.project(&[9, 10, 11]).unwrap()];
    vec![
        case("a.parquet", &few, &plain_write),
        case("b.parquet", &nested, &plain_write),
        case("c.parquet", &few, &packed(Compression::Zstd)),
        case("d.parquet", &few, &packed(Compression::Snappy)),
        of_others(&few),
        case("a.arrow", &few, &plain_write),
        case("b.arrow", &nested, &plain_write),
        case("c.arrow", &few, &packed(Compression::Lz4)),
        case("d.arrow", &few, &packed(Compression::Zstd)),
        dictionaries("e.arrow", &nested, false),
        dictionaries("f.arrows", &nested, true),
        case("a.csv", &plain(5), &plain_write),
        case("a.jsonl", &plain(5), &plain_write),
        case("a.records", &records(3), &plain_write),
        case("a.txt", &lines(9), &plain_write),
    ]
}

/// An Arrow file or stream as other writers produce it, with dictionaries.
fn dictionaries(name: &'static str, batch: &RecordBatch, stream: bool) -> Case {
    use arrow::ipc::writer::{FileWriter, StreamWriter};
    let mut bytes = vec![];
    if stream {
        let mut writer = StreamWriter::try_new(&mut bytes, batch.schema_ref()).unwrap();
        writer.write(batch).and_then(|()| writer.finish()).unwrap();
    } else {
        let mut writer = FileWriter::try_new(&mut bytes, batch.schema_ref()).unwrap();
        writer.write(batch).and_then(|()| writer.finish()).unwrap();
    }
    whole(name, bytes)
}

/// Whether a byte of a Parquet file of ours is under a checksum, or locates one.
fn is_guarded(case: &Case, byte: usize) -> bool {
    let length = case.bytes.len();
    let footer = u32::from_le_bytes(case.bytes[length - 8..length - 4].try_into().unwrap());
    let is_ours = case.name.ends_with(".parquet") && !case.name.starts_with("others");
    is_ours && byte < length - 8 - footer as usize
}

#[test]
fn damage_is_an_error_or_data_and_nothing_worse() {
    // The decoders' panics are expected, so only this test's own are printed.
    std::panic::set_hook(Box::new(|panic| {
        if panic.location().is_some_and(|place| place.file().ends_with("damage.rs")) {
            eprintln!("{panic}");
        }
    }));
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        let path = folder.path().join(case.name);
        let (mut refused, mut same, mut different) = (0, 0, 0);
        let mut note = |found: Option<bool>| match found {
            None => refused += 1,
            Some(true) => same += 1,
            Some(false) => different += 1,
        };
        for end in 0..case.bytes.len() {
            note(attempt(&path, &case.bytes[..end], &case, &format!("cut at {end}")));
        }
        for bit in 0..case.bytes.len() * 8 {
            let mut damaged = case.bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = attempt(&path, &damaged, &case, &format!("bit {bit}"));
            let is_silent = found == Some(false) && is_guarded(&case, bit / 8);
            assert!(!is_silent, "{} bit {bit}: other data without a word", case.name);
            note(found);
        }
        let (name, bytes) = (case.name, case.bytes.len());
        eprintln!("{name} of {bytes} bytes: {refused} refused, {same} same, {different} different");
    }
}
