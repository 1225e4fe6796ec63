//! Collections appear atomically, survive their writers, and can be removed.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use euphrates_device::disk::{LOCAL, NamedDisk, save_named_disks};
use euphrates_flow::{Cancel, Kind};
use euphrates_store::catalog::Catalog;
use euphrates_store::collection::*;
use euphrates_store::segment::BlockReadOptions;

fn numbers(from: i64, rows: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

fn options(overwrite: bool) -> CreateOptions {
    CreateOptions { overwrite, run_id: "run".into(), ..CreateOptions::default() }
}

fn staged(home: &Path, name: &str, first: i64, overwrite: bool) -> NewCollection {
    let schema = numbers(0, 0).schema();
    let new = NewCollection::create(home, name, &schema, options(overwrite)).unwrap();
    for part in 0..2 {
        let segment = new.begin_segment().unwrap();
        let mut encoder = segment.encoder().unwrap();
        for block in 0..20 {
            let batch = numbers(first + part * 2000 + block * 100, 100);
            let encoded = encoder.encode(&batch).unwrap();
            segment.append(None, &encoded, &Cancel::default()).unwrap();
        }
        new.add(segment).unwrap();
    }
    new
}

fn values(collection: &Collection) -> Vec<i64> {
    let batches = collection.read(BlockReadOptions::default()).unwrap().map(Result::unwrap);
    batches
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

/// The paths of all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found.sort();
    found
}

#[test]
fn collection_is_invisible_before_the_commit_and_complete_after() {
    let home = tempfile::tempdir().unwrap();
    let new = staged(home.path(), "a/b", 0, false);
    assert_eq!(Collection::open(home.path(), "a/b").unwrap_err().kind(), Kind::Usage);
    new.commit(Some(vec![])).unwrap();
    drop(new);
    let collection = Collection::open(home.path(), "a/b").unwrap();
    assert!(values(&collection).into_iter().eq(0..4000));
    assert_eq!(collection.manifest().rows, 4000);
    assert!(collection.manifest().ordered);
    assert!(files(&home.path().join("data/.staging")).is_empty());
    let verified = verify(home.path(), "a/b").unwrap();
    assert_eq!((verified.segments, verified.blocks_good), (2, 40));
    assert_eq!(verified.damages, vec![]);
}

#[test]
fn readers_share_pieces_and_a_stream_numbers_its_runs() {
    let home = tempfile::tempdir().unwrap();
    staged(home.path(), "c", 0, false).commit(None).unwrap();
    let collection = Collection::open(home.path(), "c").unwrap();
    for as_stream in [false, true] {
        let claims = collection.claims(as_stream).unwrap();
        let mut readers: Vec<_> =
            (0..3).map(|_| claims.reader(BlockReadOptions::default(), claims.numbers())).collect();
        let (mut read, mut runs) = (vec![], vec![]);
        let mut at = 0;
        while !readers.is_empty() {
            at = (at + 1) % readers.len();
            let Some(block) = readers[at].next_block().unwrap() else {
                readers.remove(at);
                continue;
            };
            read.extend(block.batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            if block.last {
                runs.push(block.run);
            }
        }
        read.sort_unstable();
        runs.sort_unstable();
        assert!(read.into_iter().eq(0..4000));
        assert!(runs.iter().copied().eq(0..if as_stream { 6 } else { 2 }), "{runs:?}");
    }
}

#[test]
fn abandoned_collection_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let new = staged(home.path(), "a", 0, false);
    new.abandon();
    new.commit(None).unwrap();
    drop(staged(home.path(), "b", 0, false));
    assert!(files(home.path()).is_empty(), "{:?}", files(home.path()));
}

#[test]
fn collection_is_replaced_only_with_overwrite() {
    let home = tempfile::tempdir().unwrap();
    staged(home.path(), "a", 0, false).commit(None).unwrap();
    let schema = numbers(0, 0).schema();
    let error = NewCollection::create(home.path(), "a", &schema, options(false)).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let old = Collection::open(home.path(), "a").unwrap();
    staged(home.path(), "a", 10_000, true).commit(None).unwrap();
    assert_eq!(values(&old)[0], 0, "who has it open reads on");
    let new = Collection::open(home.path(), "a").unwrap();
    assert_eq!((values(&new)[0], new.manifest().version), (10_000, 2));
    assert_eq!(files(&home.path().join("data")).len(), 4, "the old files are gone");
}

#[test]
fn second_of_two_writers_gets_an_error() {
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (staged(home.path(), "a", 0, false), staged(home.path(), "a", 9, false));
    one.commit(None).unwrap();
    let error = other.commit(None).unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    assert!(error.to_string().contains("another writer"), "{error}");
    drop((one, other));
    assert_eq!(values(&Collection::open(home.path(), "a").unwrap())[0], 0);
    assert_eq!(files(&home.path().join("data")).len(), 4);
}

#[test]
fn removed_collection_is_gone_and_its_name_is_free() {
    let home = tempfile::tempdir().unwrap();
    staged(home.path(), "a/b", 0, false).commit(None).unwrap();
    remove(home.path(), "a/b", "run").unwrap();
    assert!(Collection::open(home.path(), "a/b").is_err());
    assert!(Catalog::of(home.path()).unwrap().list().unwrap().is_empty());
    assert!(files(&home.path().join("data")).is_empty());
    assert!(!home.path().join("data/a").exists());
    staged(home.path(), "a/b", 5, false).commit(None).unwrap();
    assert_eq!(Collection::open(home.path(), "a/b").unwrap().manifest().version, 3);
}

#[test]
fn leftovers_are_reclaimed_for_every_point_of_death() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    // Killed while writing, after the note, after the rename, and after the manifest.
    for stage in 0..4 {
        let name = format!("c{stage}");
        let new = staged(home.path(), &name, 0, false);
        let staging = std::fs::read_dir(data.join(".staging")).unwrap().flatten();
        let staging = staging.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
        let run = staging.file_name().unwrap().to_str().unwrap().to_string();
        let place = format!("{name}/@{run}");
        let note = serde_json::json!({"home": home.path(), "name": name, "place": place});
        let copy = data.join(format!("kept-{stage}"));
        std::fs::create_dir_all(copy.join("segments")).unwrap();
        for file in files(&staging) {
            let file = Path::new(&file);
            std::fs::copy(file, copy.join("segments").join(file.file_name().unwrap())).unwrap();
        }
        if stage == 3 {
            new.commit(None).unwrap();
            std::fs::remove_dir_all(copy.join("segments")).unwrap();
        }
        drop(new);
        if stage >= 1 {
            std::fs::write(copy.join("commit.json"), note.to_string()).unwrap();
        }
        if stage == 2 {
            std::fs::create_dir_all(data.join(&name)).unwrap();
            std::fs::rename(copy.join("segments"), data.join(&place)).unwrap();
        }
        std::fs::rename(&copy, data.join(".staging").join(&run)).unwrap();
        std::fs::write(data.join(".staging").join(format!("{run}.lock")), "").unwrap();
        assert_eq!(reclaim(home.path()).unwrap(), 1, "stage {stage}");
        assert_eq!(Collection::open(home.path(), &name).is_ok(), stage == 3);
    }
    assert!(files(&data.join(".staging")).is_empty());
    assert_eq!(files(&data).len(), 4, "only what was committed is left");
    let living = staged(home.path(), "living", 0, false);
    assert_eq!(reclaim(home.path()).unwrap(), 0);
    living.commit(None).unwrap();
}

#[test]
fn collection_can_lie_on_a_named_disk_and_its_loss_is_corrupt() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = NamedDisk {
        name: "fast".into(),
        folder: elsewhere.path().into(),
        mode: Default::default(),
        rate: None,
        worker: LOCAL.into(),
    };
    save_named_disks(home.path(), &[disk]).unwrap();
    let on_fast = CreateOptions { disks: vec!["fast".into()], ..options(false) };
    let schema = numbers(0, 0).schema();
    NewCollection::create(home.path(), "empty", &schema, on_fast.clone())
        .unwrap()
        .commit(Some(vec![]))
        .unwrap();
    assert!(values(&Collection::open(home.path(), "empty").unwrap()).is_empty());
    let new = NewCollection::create(home.path(), "a", &schema, on_fast).unwrap();
    new.add(new.begin_segment().unwrap()).unwrap();
    new.commit(Some(vec![])).unwrap();
    assert_eq!(files(elsewhere.path()).len(), 2);
    std::fs::remove_dir_all(elsewhere.path().join("a")).unwrap();
    let error = Collection::open(home.path(), "a").unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("disk `fast`"), "{error}");
}

#[test]
fn dictionaries_are_stored_as_values() {
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let batch = RecordBatch::try_from_iter([("w", Arc::new(words) as ArrayRef)]).unwrap();
    let schema = plain_schema(&batch.schema());
    assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
    let plain = plain_batch(batch, &schema).unwrap();
    assert_eq!(plain.column(0).as_string::<i32>(), &StringArray::from(vec!["a", "b", "a"]));
}
