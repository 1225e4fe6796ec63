//! Corruption on disk: a read returns the written data or a typed error; never a panic, a wrong
//! result, or an allocation larger than the file can justify.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use euphrates_device::disk::{Disk, Mode};
use euphrates_flow::{Kind, Result};
use euphrates_store::catalog::Catalog;
use euphrates_store::collection::{self, Collection, CreateOptions, NewCollection};
use euphrates_store::segment::{
    BlockCompression, BlockReadOptions, Segment, SegmentOptions, SegmentWriter, toc_path,
};

/// The size of the largest single allocation since the last reset to zero.
static LARGEST: AtomicUsize = AtomicUsize::new(0);
/// Serialises the tests, so that the measurement is that of one file.
static ALONE: Mutex<()> = Mutex::new(());

struct Measuring;

// SAFETY: all calls go to the system allocator unchanged.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        LARGEST.fetch_max(bytes, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

/// Allowance for paths, messages and `/proc/meminfo`.
const SMALL_BYTES: usize = 16 << 10;

fn batches() -> Vec<RecordBatch> {
    let batch = |from: i32| {
        let numbers = Arc::new(Int32Array::from_iter((from..from + 9).map(Some))) as ArrayRef;
        let words = (from..from + 9).map(|n| (n % 4 != 0).then(|| format!("word {n}")));
        let words = Arc::new(words.collect::<StringArray>()) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("w", words, true)])
    };
    vec![batch(0).unwrap(), batch(9).unwrap()]
}

/// Runs `look` with every single bit of the file flipped, then with the file cut at every byte, and
/// with a byte appended. The flag is true if the length is the original one.
fn for_all_damages(path: &Path, mut look: impl FnMut(&str, bool)) {
    let whole = std::fs::read(path).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut look = |what: String, same_length: bool| {
        LARGEST.store(0, Relaxed);
        look(&what, same_length);
        let largest = LARGEST.load(Relaxed);
        assert!(largest <= whole.len() + SMALL_BYTES, "{what}: {largest} bytes at once");
    };
    for at in 0..whole.len() {
        for bit in 0..8 {
            file.write_all_at(&[whole[at] ^ (1 << bit)], at as u64).unwrap();
            look(format!("byte {at} bit {bit}"), true);
        }
        file.write_all_at(&whole[at..=at], at as u64).unwrap();
    }
    for length in (0..whole.len()).rev() {
        file.set_len(length as u64).unwrap();
        look(format!("cut at {length}"), false);
    }
    std::fs::write(path, [&whole[..], b"x"].concat()).unwrap();
    look("lengthened".into(), false);
    std::fs::write(path, whole).unwrap();
}

fn read(disk: &Disk, path: &Path) -> Result<Vec<RecordBatch>> {
    let segment = Arc::new(Segment::open(disk, path)?);
    let options = BlockReadOptions { request_bytes_max: 1000, ..BlockReadOptions::default() };
    segment.read_with(0..segment.blocks().len(), options).collect()
}

fn segment(folder: &Path, compression: Option<BlockCompression>) -> (Disk, PathBuf) {
    let disk = Disk::new("test", folder, Mode::Auto).unwrap();
    let path = folder.join("segment.arrow");
    let _ = std::fs::remove_file(&path);
    let options = SegmentOptions { compression, scratch: false };
    let mut writer =
        SegmentWriter::create(&disk, &path, batches()[0].schema_ref(), options).unwrap();
    for batch in batches() {
        writer.append(&batch).unwrap();
    }
    drop(writer.finish().unwrap());
    (disk, path)
}

#[test]
fn damaged_segment_returns_its_data_or_is_corrupt() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    for compression in [None, Some(BlockCompression::Lz4)] {
        let (disk, path) = segment(folder.path(), compression);
        let whole = batches();
        for_all_damages(&path, |what, same_length| match read(&disk, &path) {
            Ok(read) => {
                assert_eq!(read, whole, "{what}");
                assert!(same_length, "{what}");
                let segment = Segment::open(&disk, &path).unwrap();
                assert_eq!(segment.verify().unwrap().len(), 1, "{what} must not go unseen");
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
                assert!(error.to_string().contains("segment.arrow"), "{error}");
                assert!(error.advice().is_some(), "{error}");
            }
        });
        assert_eq!(read(&disk, &path).unwrap(), whole);
    }
}

#[test]
fn damaged_table_of_contents_is_corrupt() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let (disk, path) = segment(folder.path(), None);
    for_all_damages(&toc_path(&path), |what, _| {
        let error = read(&disk, &path).expect_err(what);
        assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
        assert!(error.to_string().contains("segment.arrow.toc"), "{error}");
    });
}

#[test]
fn damaged_manifest_is_corrupt() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let home = tempfile::tempdir().unwrap();
    let schema = batches()[0].schema();
    let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
    let new = NewCollection::create(home.path(), "c", &schema, options).unwrap();
    new.add(new.begin_segment().unwrap()).unwrap();
    new.commit(None).unwrap();
    let manifest = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap();
    let path = home.path().join("catalog/c/.v/0000000001.json");
    for_all_damages(&path, |what, _| {
        let error = Collection::open(home.path(), "c").expect_err(what);
        assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
        assert!(error.to_string().contains("c/.v/0000000001.json"), "{error}");
    });
    assert_eq!(Catalog::of(home.path()).unwrap().newest_readable("c").unwrap(), manifest);
}

#[test]
fn verification_finds_a_damaged_block_and_others_stay_readable() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let home = tempfile::tempdir().unwrap();
    let schema = batches()[0].schema();
    let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
    let new = NewCollection::create(home.path(), "c", &schema, options).unwrap();
    let part = new.begin_segment().unwrap();
    let mut encoder = part.encoder().unwrap();
    for batch in batches() {
        let block = encoder.encode(&batch).unwrap();
        part.append(None, &block, &euphrates_flow::Cancel::default()).unwrap();
    }
    new.add(part).unwrap();
    new.commit(None).unwrap();
    let collection = Collection::open(home.path(), "c").unwrap();
    let segment = &collection.segments().unwrap()[0];
    let at = segment.blocks()[1].offset + segment.blocks()[1].bytes / 2;
    let file = File::options().write(true).open(segment.path()).unwrap();
    file.write_all_at(b"damage", at).unwrap();
    let found = collection::verify(home.path(), "c").unwrap();
    assert_eq!((found.blocks_good, found.damages.len()), (1, 1));
    assert_eq!(found.damages[0].block, Some(1));
    assert_eq!(segment.read(0..1).next().unwrap().unwrap(), batches()[0]);
    let mut reader = segment.read(0..2);
    assert!(reader.next().unwrap().is_ok());
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("block 1"), "{error}");
    assert!(reader.next().is_none(), "after an error a reader ends");
    std::fs::remove_file(toc_path(segment.path())).unwrap();
    assert_eq!(collection::verify(home.path(), "c").unwrap().damages.len(), 1);
}
