//! Complete files of a dataset that a later attempt at the same flow adopts.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;
use euphrates_policy::unit_ledger::UnitRows;
use euphrates_store::dataset::{
    DatasetTarget, SaveMode, StagedPart, adopt_files, discard_all_files, discard_files,
};
use euphrates_store::output::reclaim;

const KEY: &str = "4f1d";

fn target(above: &Path, name: &str) -> DatasetTarget {
    let path = above.join(name);
    DatasetTarget::check(&path.display().to_string(), SaveMode::Error).unwrap()
}

/// A unit of five rows, which ends.
fn whole(unit: u64) -> UnitRows {
    UnitRows { unit, first: 0, rows: 5, is_last: true }
}

/// A part with one complete file for each unit, and one that is not complete.
fn part(target: &DatasetTarget, run_id: &str, units: &[u64]) -> StagedPart {
    let part = StagedPart::create(target, run_id, Some(KEY)).unwrap();
    for &unit in units {
        let file = part.file(Path::new(""), &format!("{unit}.csv")).unwrap();
        file.append(&[Buffer::from(b"five rows")]).unwrap();
        part.add_units(Some(file), unit, vec![whole(unit)]).unwrap();
    }
    let unfinished = part.file(Path::new(""), "unfinished.csv").unwrap();
    unfinished.append(&[Buffer::from(b"some")]).unwrap();
    part
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn complete_files_of_all_dead_processes_are_adopted_and_others_removed() {
    let above = tempfile::tempdir().unwrap();
    let target = target(above.path(), "out");
    let first = part(&target, "6f-1-0", &[0, 3]);
    let second = part(&target, "6f-1-0-host.example-1", &[1]);
    [&first, &second].into_iter().for_each(StagedPart::abandon);
    assert_eq!(reclaim(above.path()), 0, "other flows spare them");
    let kept = adopt_files(&target.path, KEY, 5).unwrap();
    assert_eq!((kept.files, kept.ledger.rows(), kept.next_number), (3, 15, 4));
    assert_eq!(kept.ledger.left(), [2..3, 4..5]);
    let mut folders: Vec<PathBuf> = kept.folders.clone();
    folders.sort_by_key(|folder| entries(folder));
    assert_eq!(
        folders.iter().map(|it| entries(it)).collect::<Vec<_>>(),
        [vec!["0.csv", "3.csv"], vec!["1.csv"],]
    );
    assert_eq!(adopt_files(&target.path, KEY, 5).unwrap().files, 0, "they are locked meanwhile");
    drop(kept);
    assert_eq!(adopt_files(&target.path, KEY, 5).unwrap().files, 3);
}

#[test]
fn files_of_live_processes_and_of_other_targets_are_not_touched() {
    let above = tempfile::tempdir().unwrap();
    let (out, other) = (target(above.path(), "out"), target(above.path(), "out.6f-2"));
    let live = part(&out, "6f-1-0", &[0]);
    let dead = part(&other, "6f-1-1", &[0]);
    dead.abandon();
    let before = entries(above.path());
    assert_eq!(adopt_files(&out.path, KEY, 5).unwrap().files, 0);
    discard_files(&out.path);
    assert_eq!(entries(above.path()), before);
    assert_eq!(discard_all_files(above.path()), 1, "the dead one");
    live.abandon();
    assert_eq!(discard_all_files(above.path()), 1);
    assert!(entries(above.path()).is_empty());
}

#[test]
fn files_with_another_key_are_removed() {
    let above = tempfile::tempdir().unwrap();
    let target = target(above.path(), "out");
    part(&target, "6f-1-0", &[0]).abandon();
    assert_eq!(adopt_files(&target.path, "another", 5).unwrap().files, 0);
    assert!(entries(above.path()).is_empty());
}

#[test]
fn part_without_complete_files_leaves_nothing() {
    let above = tempfile::tempdir().unwrap();
    let target = target(above.path(), "out");
    part(&target, "6f-1-0", &[]).abandon();
    assert!(entries(above.path()).is_empty());
}

#[test]
fn abandoned_part_adds_no_files_and_a_second_abandon_removes_none() {
    let above = tempfile::tempdir().unwrap();
    let target = target(above.path(), "out");
    let part = part(&target, "6f-1-0", &[0]);
    let late = part.file(Path::new(""), "late.csv").unwrap();
    part.abandon();
    assert!(part.add_units(Some(late), 7, vec![whole(1)]).is_err());
    part.abandon();
    let kept = adopt_files(&target.path, KEY, 5).unwrap();
    let left: Vec<u64> = kept.ledger.left().into_iter().flatten().collect();
    assert_eq!((kept.files, left), (1, vec![1, 2, 3, 4]));
}

#[test]
fn units_without_rows_need_no_file() {
    let above = tempfile::tempdir().unwrap();
    let target = target(above.path(), "out");
    let part = part(&target, "6f-1-0", &[0]);
    let empty = UnitRows { unit: 1, first: 0, rows: 0, is_last: true };
    part.add_units(None, 0, vec![empty]).unwrap();
    part.abandon();
    assert_eq!(adopt_files(&target.path, KEY, 2).unwrap().ledger.left(), []);
}
