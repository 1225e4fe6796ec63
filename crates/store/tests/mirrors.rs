//! Mirrored collections: a reader replaces a damaged copy by another one; data without a good copy
//! is a typed error; a repair restores all data that has a good copy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_flow::{Cancel, Kind, Result};
use euphrates_store::append::AppendTurn;
use euphrates_store::catalog::{Catalog, CopyLayout};
use euphrates_store::collection::*;
use euphrates_store::declustering::MirrorPolicy;
use euphrates_store::segment::{Segment, toc_path};
use proptest::prelude::*;

const ROWS: i64 = 20;
const WAYS: [&str; 8] =
    ["graduated", "shares", "laggard", "arrival", "alternate", "random", "fastest", "primary"];

/// A home with a disk for each rate, each disk of a worker of its own.
fn home_of(rates: &[Option<u64>]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let disks = rates.iter().enumerate().map(|(at, &rate)| NamedDisk {
        name: format!("d{at}"),
        folder: home.path().join(format!("disk{at}")),
        mode: Default::default(),
        rate,
        worker: format!("w{at}"),
    });
    save_named_disks(home.path(), &disks.collect::<Vec<_>>()).unwrap();
    home
}

fn options(disks: usize, copies: usize, layout: Option<CopyLayout>) -> CreateOptions {
    let disks = (0..disks).map(|at| format!("d{at}")).collect();
    CreateOptions { disks, copies, layout, run_id: "run".into(), ..CreateOptions::default() }
}

fn numbers(from: i64, rows: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

/// Writes blocks of ascending numbers from several writers; a stream has three blocks to a run.
fn write(home: &Path, blocks: u64, is_stream: bool, options: CreateOptions) -> Result<()> {
    let new = NewCollection::create(home, "c", &numbers(0, 0).schema(), options)?;
    let segments = new.begin_segments()?;
    let cancel = Cancel::default();
    let writers = 3;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (segments, cancel) = (&segments, &cancel);
            scope.spawn(move || {
                let mut encoder = segments.encoder().unwrap();
                for run in (writer..blocks.div_ceil(3)).step_by(writers as usize) {
                    for block in run * 3..blocks.min(run * 3 + 3) {
                        let encoded = encoder.encode(&numbers(block as i64 * ROWS, ROWS)).unwrap();
                        let turn = is_stream.then_some(AppendTurn { run, last: false });
                        segments.append(turn, &encoded, cancel).unwrap();
                    }
                    if is_stream {
                        segments.end_run(run, cancel).unwrap();
                    }
                }
            });
        }
    });
    new.add(segments)?;
    new.commit(is_stream.then(Vec::new))
}

/// All numbers, read by `readers` threads; those of a run stay together.
fn read(home: &Path, is_stream: bool, mirrors: &str, readers: usize) -> Result<Vec<i64>> {
    let collection = Collection::open(home, "c")?;
    let mirrors = MirrorPolicy::parse(mirrors).unwrap();
    let reading = collection.reading(CollectionReadOptions {
        is_stream,
        mirrors,
        ..CollectionReadOptions::default()
    })?;
    let cancel = Arc::new(Cancel::default());
    let read_one = || -> Result<Vec<(u64, i64)>> {
        let mut reader = reading.reader(&cancel, reading.numbers());
        let mut all = vec![];
        while let Some(block) = reader.next_block()? {
            let values = block.batch.column(0).as_primitive::<Int64Type>().values();
            all.extend(values.iter().map(|value| (block.run, *value)));
        }
        Ok(all)
    };
    let read: Vec<Result<Vec<(u64, i64)>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read_one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all: Vec<(u64, i64)> = read.into_iter().collect::<Result<Vec<_>>>()?.concat();
    match is_stream {
        true => all.sort_by_key(|(run, _)| *run),
        false => all.sort_by_key(|(_, value)| *value),
    }
    Ok(all.into_iter().map(|(_, value)| value).collect())
}

#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip(usize),
    Truncate,
    LoseFile,
    LoseToc,
    LoseDisk,
    /// The device refuses to read the file.
    Refuse,
}

fn harms() -> impl Strategy<Value = Harm> {
    prop_oneof![
        6 => (0..40usize).prop_map(Harm::Flip),
        1 => Just(Harm::Truncate),
        1 => Just(Harm::LoseFile),
        1 => Just(Harm::LoseToc),
        1 => Just(Harm::LoseDisk),
        1 => Just(Harm::Refuse),
    ]
}

/// The parts of a collection that are damaged.
#[derive(Default)]
struct Harmed {
    blocks: BTreeSet<(usize, usize, usize)>,
    files: BTreeSet<(usize, usize)>,
    tocs: BTreeSet<(usize, usize)>,
    refused: BTreeSet<(usize, usize)>,
}

impl Harmed {
    /// The paths of each segment's copies.
    fn files(home: &Path) -> Vec<Vec<PathBuf>> {
        let manifest = Catalog::of(home).unwrap().newest_readable("c").unwrap();
        let file = |copy: euphrates_store::catalog::CopyEntry| {
            home.join(copy.disk.replace('d', "disk")).join(copy.path)
        };
        let files = manifest.segments.iter().map(|entry| entry.copies().into_iter().map(file));
        files.map(Iterator::collect).collect()
    }

    fn harm(&mut self, home: &Path, at: usize, harm: Harm, segments: &[Arc<Segment>]) {
        let files = Harmed::files(home);
        let copies = files[0].len();
        let (segment, copy) = (at / copies % files.len(), at % copies);
        let path = &files[segment][copy];
        match harm {
            Harm::Flip(block) => {
                let blocks = segments[segment].blocks();
                let (Ok(mut bytes), false) = (fs::read(path), blocks.is_empty()) else { return };
                let block = block % blocks.len();
                let Some(byte) = bytes.get_mut(blocks[block].offset as usize + 8) else { return };
                *byte ^= 1;
                // A second flip of the same bit would undo the first.
                if self.blocks.insert((segment, copy, block)) {
                    fs::write(path, bytes).unwrap();
                }
            }
            Harm::Truncate => {
                let blocks = segments[segment].blocks();
                let Some(last) = blocks.last().filter(|_| path.is_file()) else { return };
                let bytes = fs::metadata(path).unwrap().len().min(last.end() - 1);
                fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
                self.blocks.insert((segment, copy, blocks.len() - 1));
            }
            Harm::LoseFile => self.lose(path, segment, copy),
            Harm::Refuse => {
                // A folder can be opened, but not read.
                if fs::remove_file(path).is_ok() {
                    fs::create_dir(path).unwrap();
                    self.refused.insert((segment, copy));
                }
            }
            Harm::LoseToc => {
                self.tocs.insert((segment, copy));
                let _ = fs::remove_file(toc_path(path));
            }
            Harm::LoseDisk => {
                let disk = path.ancestors().find(|above| above.parent() == Some(home)).unwrap();
                for (segment, copies) in files.iter().enumerate() {
                    for (copy, path) in copies.iter().enumerate() {
                        if path.starts_with(disk) {
                            self.lose(path, segment, copy);
                        }
                    }
                }
                // An earlier step may have removed it.
                let _ = fs::remove_dir_all(disk);
            }
        }
    }

    fn lose(&mut self, path: &Path, segment: usize, copy: usize) {
        self.files.insert((segment, copy));
        self.tocs.insert((segment, copy));
        self.refused.remove(&(segment, copy));
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
    }

    fn can_read(&self, segment: usize, copy: usize) -> bool {
        !self.files.contains(&(segment, copy)) && !self.refused.contains(&(segment, copy))
    }

    fn is_whole(&self, segment: usize, copies: usize, blocks: usize) -> bool {
        let has_toc = (0..copies).any(|copy| !self.tocs.contains(&(segment, copy)));
        let good = |copy, block| {
            self.can_read(segment, copy) && !self.blocks.contains(&(segment, copy, block))
        };
        let has_file = (0..copies).any(|copy| !self.files.contains(&(segment, copy)));
        has_toc && has_file && (0..blocks).all(|block| (0..copies).any(|copy| good(copy, block)))
    }
}

fn layout() -> impl Strategy<Value = Option<CopyLayout>> {
    prop_oneof![Just(None), Just(Some(CopyLayout::Chained)), Just(Some(CopyLayout::Spread))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn data_with_one_good_copy_is_read_and_repaired(
        disks in 2..6usize,
        copies in 2..4usize,
        layout in layout(),
        blocks in 0..70u64,
        is_stream: bool,
        way in 0..WAYS.len(),
        readers in 1..4usize,
        harms in prop::collection::vec((0..1000usize, harms()), 0..6),
    ) {
        let copies = copies.min(disks);
        let home = home_of(&vec![None; disks]);
        let home = home.path();
        write(home, blocks, is_stream, options(disks, copies, layout)).unwrap();
        let expected: Vec<i64> = (0..blocks as i64 * ROWS).collect();
        prop_assert_eq!(&read(home, is_stream, WAYS[way], readers).unwrap(), &expected);
        let segments = Collection::open(home, "c").unwrap().segments().unwrap();
        let mut harmed = Harmed::default();
        harms.iter().for_each(|(at, harm)| harmed.harm(home, *at, *harm, &segments));
        let is_whole = segments.iter().enumerate().all(|(segment, one)| {
            harmed.is_whole(segment, copies, one.blocks().len())
        });
        match read(home, is_stream, WAYS[way], readers) {
            Ok(all) => {
                prop_assert!(is_whole, "a block that no copy has was read");
                prop_assert_eq!(&all, &expected);
            }
            Err(error) => {
                prop_assert!(!is_whole, "{}", error);
                prop_assert_eq!(error.kind(), Kind::Corrupt);
                prop_assert!(error.to_string().contains("disk"), "{}", error);
            }
        }
        let found = verify(home, "c").unwrap();
        let is_sound =
            harmed.blocks.is_empty() && harmed.tocs.is_empty() && harmed.refused.is_empty();
        // A segment without blocks has no data to read, but a head and a footer to repair.
        let is_whole = is_whole
            && (0..segments.len()).all(|at| (0..copies).any(|copy| harmed.can_read(at, copy)));
        prop_assert_eq!(found.damages.is_empty(), is_sound);
        let repaired = repair(home, "c", "mend").unwrap();
        prop_assert_eq!(repaired.lost.is_empty(), is_whole);
        prop_assert_eq!(repaired.rewritten.is_empty(), repaired.repaired_damages.is_empty());
        if is_whole {
            prop_assert_eq!(repaired.repaired_damages.is_empty(), is_sound);
            prop_assert_eq!(verify(home, "c").unwrap().damages, vec![]);
            prop_assert_eq!(&read(home, is_stream, WAYS[way], readers).unwrap(), &expected);
            let again = repair(home, "c", "mend").unwrap();
            prop_assert!(again.rewritten.is_empty() && again.lost.is_empty());
        }
    }
}

#[test]
fn copies_have_equal_bytes_on_disks_of_different_workers() {
    let home = home_of(&[None; 4]);
    write(home.path(), 40, true, options(4, 2, None)).unwrap();
    let manifest = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap();
    assert_eq!(
        (manifest.layout, manifest.interleaved, manifest.copies()),
        (CopyLayout::Chained, true, 2)
    );
    assert_eq!(manifest.disks().len(), 4);
    for copies in Harmed::files(home.path()) {
        let bytes: Vec<_> = copies.iter().map(|path| fs::read(path).unwrap()).collect();
        assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]));
    }
    let blocks: Vec<u64> = manifest.segments.iter().map(|segment| segment.blocks).collect();
    assert_eq!(blocks, [10; 4], "disks that keep up get the same");
    for at in 0..4 {
        let staging = home.path().join(format!("disk{at}/.staging"));
        assert_eq!(fs::read_dir(staging).unwrap().count(), 0);
    }
    remove(home.path(), "c", "run").unwrap();
    assert!(!home.path().join("disk0/c").exists());
}

#[test]
fn manifests_without_mirrors_have_no_mirror_fields() {
    let home = home_of(&[None]);
    write(home.path(), 3, false, options(1, 1, None)).unwrap();
    let manifest = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap();
    let text = String::from_utf8(manifest.encode()).unwrap();
    assert!(text.contains("\"layout\":\"plain\""), "{text}");
    assert!(!text.contains("mirrors") && !text.contains("interleaved"), "{text}");
}

#[test]
fn repair_does_not_rewrite_good_copies() {
    let home = home_of(&[None; 3]);
    write(home.path(), 30, false, options(3, 3, None)).unwrap();
    let files = Harmed::files(home.path());
    let mut bytes = fs::read(&files[1][2]).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&files[1][2], bytes).unwrap();
    let changed = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let before: Vec<_> = files.concat().iter().map(changed).collect();
    let repaired = repair(home.path(), "c", "mend").unwrap();
    assert_eq!((repaired.copies, repaired.rewritten.len(), repaired.lost.len()), (9, 1, 0));
    assert!(!files[1][2].exists(), "the damaged file is gone");
    let now = Harmed::files(home.path());
    assert_eq!(now[1][..2], files[1][..2]);
    let mut kept = files.concat().into_iter().zip(before).filter(|(path, _)| path.exists());
    assert!(kept.all(|(path, before)| changed(&path) == before));
    assert_eq!(Catalog::of(home.path()).unwrap().newest_readable("c").unwrap().version, 2);
}

#[test]
fn infeasible_copies_are_usage_errors_with_both_numbers() {
    let home = home_of(&[None; 2]);
    let cases = [
        (options(2, 3, None), "3 copies need 3 disks, and 2 are named"),
        (options(0, 2, None), "2 copies need 2 disks, and 1 is named"),
        (options(3, 2, None), "no disk named `d2`"),
        (options(2, 0, None), "at least one copy"),
        (options(2, 1, Some(CopyLayout::Spread)), "there are none"),
        (options(2, 2, Some(CopyLayout::Plain)), "one copy, not 2"),
        (CreateOptions { disks: vec!["d1".into(); 2], ..options(0, 1, None) }, "there twice"),
    ];
    for (options, told) in cases {
        let error = write(home.path(), 1, false, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn cancelling_the_flow_ends_a_waiting_reader() {
    let home = home_of(&[None; 2]);
    write(home.path(), 40, false, options(2, 2, None)).unwrap();
    let slow = |at| NamedDisk {
        name: format!("d{at}"),
        folder: home.path().join(format!("disk{at}")),
        mode: Default::default(),
        rate: Some(1),
        worker: "w".into(),
    };
    save_named_disks(home.path(), &[slow(0), slow(1)]).unwrap();
    let collection = Collection::open(home.path(), "c").unwrap();
    let reading = collection.reading(CollectionReadOptions::default()).unwrap();
    let cancel = Arc::new(Cancel::default());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<()> {
            cancel.register_thread();
            let mut reader = reading.reader(&cancel, reading.numbers());
            tell.send(()).unwrap();
            // At one byte per second, the first block takes long.
            reader.next_block().map(drop)
        });
        told.recv().unwrap();
        cancel.cancel();
        assert_eq!(reader.join().unwrap().unwrap_err().kind(), Kind::Interrupted);
    });
}

#[test]
fn static_division_gives_each_reader_only_its_own_segments() {
    let home = home_of(&[None; 3]);
    write(home.path(), 30, false, options(3, 1, None)).unwrap();
    let reading = Collection::open(home.path(), "c")
        .unwrap()
        .reading(CollectionReadOptions::default())
        .unwrap();
    let cancel = Arc::new(Cancel::default());
    // The readers run one after the other: a reader waits neither for one that has not begun, nor
    // for one without a segment.
    let blocks = |_| {
        let mut reader = reading.divided_reader(&cancel, 4, reading.numbers());
        std::iter::from_fn(|| reader.next_block().unwrap()).count()
    };
    let all: Vec<usize> = (0..4).map(blocks).collect();
    assert!(all[..3].iter().all(|&blocks| blocks > 0), "{all:?}");
    assert_eq!((all.iter().sum::<usize>(), all[3]), (30, 0));
}

#[test]
fn disk_failure_during_reading_is_tolerated() {
    for way in ["primary", "graduated", "arrival"] {
        let home = home_of(&[None; 2]);
        write(home.path(), 60, true, options(2, 2, None)).unwrap();
        let disk = |at: usize, rate| NamedDisk {
            name: format!("d{at}"),
            folder: home.path().join(format!("disk{at}")),
            mode: Default::default(),
            rate,
            worker: "w".into(),
        };
        save_named_disks(home.path(), &[disk(0, Some(50_000)), disk(1, Some(100_000))]).unwrap();
        let collection = Collection::open(home.path(), "c").unwrap();
        let mirrors = MirrorPolicy::parse(way).unwrap();
        let how =
            CollectionReadOptions { is_stream: true, mirrors, ..CollectionReadOptions::default() };
        let reading = collection.reading(how).unwrap();
        let mut reader = reading.reader(&Arc::new(Cancel::default()), reading.numbers());
        let mut numbers: Vec<i64> = vec![];
        while let Some(block) = reader.next_block().unwrap() {
            numbers.extend(block.batch.column(0).as_primitive::<Int64Type>().values());
            if numbers.len() == 3 * ROWS as usize {
                let files = Harmed::files(home.path()).concat();
                let here = files.iter().filter(|path| path.starts_with(home.path().join("disk0")));
                for path in here {
                    fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
                }
            }
        }
        assert!(numbers.into_iter().eq(0..60 * ROWS), "{way}");
    }
}
