//! Damaged manifests: what is read in their place, and how a repair rewrites them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use euphrates_device::disk::{LOCAL, NamedDisk, save_named_disks};
use euphrates_flow::{Cancel, Kind};
use euphrates_store::catalog::Catalog;
use euphrates_store::collection::*;
use euphrates_store::segment::BlockReadOptions;

const DAMAGES: [&str; 4] = ["changed", "cut", "empty", "missing"];

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        let disks = ["d0", "d1"].map(|name| disk(name, Path::new(name)));
        save_named_disks(home.path(), &disks).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes consecutive numbers from `first` on, one row in each of two segments.
    fn write(&self, first: i64, copies: usize) {
        let disks = if copies > 1 { vec!["d0".into(), "d1".into()] } else { vec![] };
        let options = CreateOptions {
            disks,
            copies,
            overwrite: true,
            run_id: format!("run{first}"),
            ..CreateOptions::default()
        };
        let column: ArrayRef = Arc::new(Int64Array::from(vec![first]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let new = NewCollection::create(self.path(), "c", &batch.schema(), options).unwrap();
        let segments = new.begin_for_single_writer().unwrap();
        let block = segments.encoder().unwrap().encode(&batch).unwrap();
        segments.append(None, &block, &Cancel::default()).unwrap();
        new.add(segments).unwrap();
        new.commit(None).unwrap();
    }

    fn read(&self) -> Result<(Vec<i64>, Option<String>), Kind> {
        let opened = Collection::open(self.path(), "c").map_err(|error| error.kind())?;
        let batches = opened.read(BlockReadOptions::default()).unwrap().map(Result::unwrap);
        let values =
            |batch: RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        Ok((batches.flat_map(values).collect(), opened.warning().map(String::from)))
    }

    /// The path of a version's manifest in the catalog.
    fn manifest(&self, version: u64) -> PathBuf {
        self.path().join(format!("catalog/c/.v/{version:010}.json"))
    }

    /// The paths of its copies on disks.
    fn copies(&self) -> Vec<PathBuf> {
        let folders = ["d0", "d1"].map(|disk| self.path().join(disk).join("c/.v"));
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn data(&self) -> Vec<PathBuf> {
        ["data", "d0", "d1"].iter().flat_map(|disk| files(&self.path().join(disk))).collect()
    }
}

fn disk(name: &str, folder: &Path) -> NamedDisk {
    let (name, folder, worker) = (name.into(), folder.into(), LOCAL.into());
    NamedDisk { name, folder, mode: Default::default(), rate: None, worker }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn damage(path: &Path, how: &str) {
    let text = fs::read(path).unwrap();
    match how {
        "changed" => {
            let mut text = text;
            let at = text.len() / 2;
            text[at] ^= 1;
            fs::write(path, text).unwrap();
        }
        "cut" => fs::write(path, &text[..text.len() / 2]).unwrap(),
        "empty" => fs::write(path, "").unwrap(),
        _ => fs::remove_file(path).unwrap(),
    }
}

/// Runs the test with and without an older version, for every kind of damage.
fn for_all(copies: usize, test: impl Fn(&Home, u64, &str)) {
    for older in [false, true] {
        for how in DAMAGES {
            let home = Home::new();
            if older {
                home.write(1, copies);
            }
            home.write(2, copies);
            test(&home, 1 + u64::from(older), how);
        }
    }
}

#[test]
fn mirrored_collection_has_a_newest_manifest_copy_on_each_disk() {
    let home = Home::new();
    home.write(1, 2);
    home.write(2, 2);
    let copies = home.copies();
    assert_eq!(copies.len(), 2, "{copies:?}");
    for copy in copies {
        assert_eq!(fs::read(copy).unwrap(), fs::read(home.manifest(2)).unwrap());
    }
    remove(home.path(), "c", "run").unwrap();
    assert_eq!(home.data(), Vec::<PathBuf>::new());
    assert!(!home.path().join("d0/c").exists());
}

#[test]
fn damaged_manifest_is_read_from_its_copy_and_repaired() {
    for_all(2, |home, version, how| {
        let whole = fs::read(home.manifest(version)).unwrap();
        damage(&home.manifest(version), how);
        damage(&home.copies()[0], how);
        let (values, warning) = home.read().unwrap();
        assert_eq!(values, [2], "{how}");
        let warning = warning.unwrap();
        assert!(
            warning.contains("its copy on disk d") && warning.contains("repair c"),
            "{warning}"
        );
        assert_eq!(Catalog::of(home.path()).unwrap().list().unwrap().len(), 1);
        assert_eq!(verify(home.path(), "c").unwrap().damages.len(), 2, "{how}");
        let repaired = repair(home.path(), "c", "repair").unwrap();
        assert_eq!((repaired.repaired_damages.len(), repaired.lost.len()), (2, 0), "{how}");
        assert_eq!(fs::read(home.manifest(version)).unwrap(), whole);
        assert_eq!(home.copies().len(), 2);
        assert_eq!(home.read().unwrap(), (vec![2], None));
        assert_eq!(verify(home.path(), "c").unwrap().damages, vec![]);
    });
}

#[test]
fn damaged_manifest_copy_is_found_and_repaired() {
    for_all(2, |home, _, how| {
        damage(&home.copies()[1], how);
        assert_eq!(home.read().unwrap(), (vec![2], None));
        assert_eq!(verify(home.path(), "c").unwrap().damages.len(), 1, "{how}");
        assert_eq!(repair(home.path(), "c", "repair").unwrap().repaired_damages.len(), 1);
        assert_eq!(verify(home.path(), "c").unwrap().damages, vec![]);
    });
}

#[test]
fn damaged_manifest_without_a_copy_is_overwritten_without_leftovers() {
    for copies in [1, 2] {
        for_all(copies, |home, version, how| {
            damage(&home.manifest(version), how);
            home.copies().iter().for_each(|copy| damage(copy, how));
            if how != "missing" {
                assert_eq!(home.read().unwrap_err(), Kind::Corrupt, "{how}");
                assert_eq!(verify(home.path(), "c").unwrap_err().kind(), Kind::Corrupt);
                assert_eq!(repair(home.path(), "c", "repair").unwrap_err().kind(), Kind::Corrupt);
            }
            home.write(3, copies);
            assert_eq!(home.read().unwrap(), (vec![3], None), "{how}");
            let each = if copies == 1 { 2 } else { 2 * 2 * 2 + 2 };
            if how != "missing" {
                assert_eq!(home.data().len(), each, "{how}: {:?}", home.data());
            }
        });
    }
}

#[test]
fn damaged_collection_is_removed_without_leftovers() {
    for copies in [1, 2] {
        for_all(copies, |home, version, how| {
            if how == "missing" {
                return;
            }
            damage(&home.manifest(version), how);
            home.copies().iter().for_each(|copy| damage(copy, how));
            remove(home.path(), "c", "run").unwrap();
            assert_eq!(home.read().unwrap_err(), Kind::Usage);
            assert_eq!(home.data(), Vec::<PathBuf>::new(), "{how}");
            assert!(Catalog::of(home.path()).unwrap().list().unwrap().is_empty());
        });
    }
}

/// The state after a loss of power with a release that linked a manifest before it was synced.
#[test]
fn previous_version_substitutes_for_a_damaged_one_while_its_data_exists() {
    for how in DAMAGES {
        let home = Home::new();
        home.write(1, 1);
        let newer = home.manifest(2);
        fs::copy(home.manifest(1), &newer).unwrap();
        damage(&newer, how);
        let (values, warning) = home.read().unwrap();
        assert_eq!(values, [1], "{how}");
        if how == "missing" {
            continue;
        }
        let warning = warning.unwrap();
        assert!(warning.contains("version 1 is read in its place"), "{warning}");
        repair(home.path(), "c", "repair").unwrap();
        assert_eq!(home.read().unwrap(), (vec![1], None), "{how}");
        assert!(home.manifest(3).exists());
        home.write(4, 1);
        assert_eq!(home.read().unwrap(), (vec![4], None), "{how}");
        assert_eq!(home.data().len(), 2);
    }
}

#[test]
fn next_writer_rm_and_gc_remove_data_of_replaced_versions() {
    for copies in [1, 2] {
        for who in ["writer", "rm", "gc"] {
            let home = Home::new();
            home.write(1, copies);
            // The state if the process that replaced it had been killed before it removed the old
            // files.
            let kept = tempfile::tempdir().unwrap();
            let before = home.data();
            let copy = |path: &PathBuf| kept.path().join(path.strip_prefix(home.path()).unwrap());
            for path in &before {
                fs::create_dir_all(copy(path).parent().unwrap()).unwrap();
                fs::copy(path, copy(path)).unwrap();
            }
            home.write(2, copies);
            let whole = home.data().len();
            for path in &before {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::copy(copy(path), path).unwrap();
            }
            assert!(home.data().len() > whole);
            let left = match who {
                "writer" => {
                    home.write(3, copies);
                    whole
                }
                "rm" => {
                    remove(home.path(), "c", "run").unwrap();
                    0
                }
                _ => {
                    assert!(reclaim_superseded(home.path()).unwrap() > 0);
                    whole
                }
            };
            assert_eq!(home.data().len(), left, "{who}, {copies}: {:?}", home.data());
            assert_eq!(reclaim_superseded(home.path()).unwrap(), 0);
        }
    }
}

#[test]
fn staged_manifests_of_dead_writers_are_reclaimed() {
    let home = Home::new();
    home.write(1, 2);
    let versions = home.path().join("catalog/c/.v");
    fs::write(versions.join("0000000002.json#1"), "{").unwrap();
    fs::write(versions.join(".0000000002.json.1-1-1.euphrates-part"), "{").unwrap();
    fs::write(home.path().join("d0/c/.v/.2.1-1-1.euphrates-part"), "{").unwrap();
    let never = home.path().join("catalog/never/.v");
    fs::create_dir_all(&never).unwrap();
    fs::write(never.join(".0000000001.json.1-1-1.euphrates-part"), "{").unwrap();
    assert_eq!(reclaim_superseded(home.path()).unwrap(), 4);
    assert_eq!(fs::read_dir(versions).unwrap().count(), 1);
    assert!(!home.path().join("catalog/never").exists());
    assert_eq!(home.read().unwrap(), (vec![1], None));
}

#[test]
fn gc_writes_the_manifest_copies_that_a_killed_writer_left_out() {
    let home = Home::new();
    home.write(1, 2);
    home.copies().iter().for_each(|copy| fs::remove_file(copy).unwrap());
    reclaim_superseded(home.path()).unwrap();
    assert_eq!(home.copies().len(), 2);
}

#[test]
fn homes_that_share_a_disk_keep_their_manifests_apart() {
    let (one, other) = (Home::new(), Home::new());
    save_named_disks(other.path(), &["d0", "d1"].map(|name| disk(name, &one.path().join(name))))
        .unwrap();
    one.write(1, 2);
    other.write(2, 2);
    damage(&one.manifest(1), "empty");
    assert_eq!(one.read().unwrap().0, [1]);
    damage(&other.manifest(1), "missing");
    assert_eq!(other.read().unwrap().0, [2]);
    remove(other.path(), "c", "run").unwrap();
    assert_eq!(one.read().unwrap().0, [1]);
}
