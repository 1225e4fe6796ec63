//! Datasets: what is visible when, and what is left after failures and deaths.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;
use euphrates_flow::{Kind, Result};
use euphrates_policy::commit::OutputState;
use euphrates_store::commit::reservation::{ReservationMark, ReservedName};
use euphrates_store::dataset::{
    Assembly, DatasetTarget, FolderOutput, SaveMode, StagedPart, assemble,
};
use euphrates_store::output::reclaim;

/// All files below a folder, with their texts.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let mut found = vec![];
    let mut left = vec![folder.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn names(folder: &Path) -> Vec<String> {
    texts(folder).into_iter().map(|(name, _)| name).collect()
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn target(path: &Path, mode: SaveMode) -> DatasetTarget {
    DatasetTarget::check(&path.display().to_string(), mode).unwrap()
}

/// A part with files, each of its own name as text.
fn part(target: &DatasetTarget, run_id: &str, files: &[(&str, &str)]) -> StagedPart {
    let part = StagedPart::create(target, run_id, None).unwrap();
    for (folder, name) in files {
        let file = part.file(folder.as_ref(), name).unwrap();
        file.append(&[Buffer::from(run_id.as_bytes())]).unwrap();
        part.add(file).unwrap();
    }
    part.sync().unwrap();
    part
}

fn assembled(
    target: &DatasetTarget,
    parts: &[&StagedPart],
) -> Result<(FolderOutput, ReservedName)> {
    let write_empty = |folder: &Path| -> Result<()> {
        fs::write(folder.join("empty.csv"), "").unwrap();
        Ok(())
    };
    let parts: Vec<PathBuf> = parts.iter().map(|part| part.folder().to_path_buf()).collect();
    let is_data = |name: &str| name.ends_with(".csv");
    let assembly = Assembly { target, parts, is_data: &is_data, write_empty: &write_empty };
    let mark = ReservationMark { run_id: "run".into(), staged: None, decision: None };
    assemble(&assembly, mark)
}

#[test]
fn folder_appears_with_the_files_of_all_processes() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("out");
    let target = target(&path, SaveMode::Error);
    let one = part(&target, "one", &[("a=1", "0.csv"), ("a=2", "1.csv")]);
    let other = part(&target, "other", &[("a=1", "2.csv"), ("", "3.csv")]);
    let (output, _reserved) = assembled(&target, &[&one, &other]).unwrap();
    assert!(!path.exists());
    assert_eq!(output.state(), Some(OutputState::Ready));
    output.publish().unwrap();
    output.clean();
    assert_eq!(output.state(), Some(OutputState::Published));
    assert_eq!(names(&path), ["3.csv", "a=1/0.csv", "a=1/2.csv", "a=2/1.csv"]);
    // What is published stays, whatever is repeated.
    output.publish().unwrap();
    output.withdraw();
    [&one, &other].into_iter().for_each(StagedPart::abandon);
    assert_eq!(entries(above.path()), ["out"]);
    assert_eq!(names(&path).len(), 4);
}

#[test]
fn modes_keep_or_replace_files() {
    let files = [("a=1", "new.csv")];
    let kept = [".x/old.csv", "_log/old.csv", "notes.txt"];
    for (mode, stay) in [
        (SaveMode::Append, &["a=1/old.csv", "a=2/old.csv", "old.csv"][..]),
        (SaveMode::Overwrite, &[]),
        (SaveMode::OverwritePartitions, &["a=2/old.csv", "old.csv"]),
    ] {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("out");
        for name in ["a=1/old.csv", "a=2/old.csv", "old.csv"].iter().chain(&kept) {
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), "old").unwrap();
        }
        let before = texts(&path);
        let target = target(&path, mode);
        let part = part(&target, "run", &files);
        let (output, _reserved) = assembled(&target, &[&part]).unwrap();
        assert_eq!(texts(&path), before, "nothing is visible yet");
        output.publish().unwrap();
        output.clean();
        let mut expected = [&kept[..], stay, &["a=1/new.csv"]].concat();
        expected.sort();
        assert_eq!(names(&path), expected, "{mode:?}");
        assert_eq!(entries(above.path()), ["out"]);
    }
}

#[test]
fn dataset_without_rows_has_one_file_unless_others_stay() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("out");
    for (mode, expected) in [(SaveMode::Error, 1), (SaveMode::Append, 1), (SaveMode::Overwrite, 1)]
    {
        let target = target(&path, mode);
        let part = part(&target, "run", &[]);
        let (output, _reserved) = assembled(&target, &[&part]).unwrap();
        output.publish().unwrap();
        output.clean();
        assert_eq!(names(&path).len(), expected);
    }
}

#[test]
fn folder_that_others_change_meanwhile_is_not_replaced() {
    for mode in [SaveMode::Append, SaveMode::Overwrite] {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("out");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("old.csv"), "old").unwrap();
        let target = target(&path, mode);
        let part = part(&target, "run", &[("", "new.csv")]);
        let (output, _reserved) = assembled(&target, &[&part]).unwrap();
        fs::write(path.join("other.csv"), "other").unwrap();
        assert_eq!(output.state(), Some(OutputState::Refused));
        assert_eq!(output.publish().unwrap_err().kind(), Kind::Failed);
        output.withdraw();
        part.abandon();
        assert_eq!(names(&path), ["old.csv", "other.csv"]);
        assert_eq!(entries(above.path()), ["out"]);
    }
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("out");
    let target = target(&path, SaveMode::Error);
    let part = part(&target, "run", &[("", "new.csv")]);
    let (output, _reserved) = assembled(&target, &[&part]).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("other.csv"), "other").unwrap();
    assert_eq!(output.publish().unwrap_err().kind(), Kind::Failed);
    assert_eq!(names(&path), ["other.csv"]);
}

#[test]
fn file_of_a_name_that_stays_is_refused() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("out");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("new.csv"), "old").unwrap();
    let target = target(&path, SaveMode::Append);
    let part = part(&target, "run", &[("", "new.csv")]);
    let error = assembled(&target, &[&part]).err().unwrap();
    assert!(error.advice().is_some_and(|remedy| remedy.contains("{run}")));
    part.abandon();
    assert_eq!((entries(above.path()), texts(&path).len()), (vec!["out".into()], 1));
}

#[test]
fn two_flows_do_not_prepare_the_same_folder() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("out");
    let target = target(&path, SaveMode::Error);
    let [one, other] = ["one", "other"].map(|run| part(&target, run, &[("", "new.csv")]));
    let (output, _reserved) = assembled(&target, &[&one]).unwrap();
    assert_eq!(assembled(&target, &[&other]).err().unwrap().kind(), Kind::Failed);
    other.abandon();
    output.publish().unwrap();
    assert_eq!(names(&path), ["new.csv"]);
}

#[test]
fn what_dead_processes_have_staged_is_removed_and_what_live_ones_have_stays() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("out");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("old.csv"), "old").unwrap();
    let target = target(&path, SaveMode::Append);
    let part_of = |run: &str| part(&target, run, &[("a=1", "new.csv")]);
    let alive = part_of("alive");
    drop(part_of("dead"));
    let prepared = part_of("prepared");
    let (output, reserved) = assembled(&target, &[&prepared]).unwrap();
    drop((prepared, reserved));
    assert_eq!(entries(above.path()).len(), 5);
    reclaim(above.path());
    assert_eq!(entries(above.path()), [".out.alive.euphrates-part", "out"]);
    assert_eq!(output.state(), None);
    assert_eq!(texts(&path), [("old.csv".into(), "old".into())]);

    // The process dies after the exchange: what was replaced is removed.
    let (output, reserved) = assembled(&target, &[&alive]).unwrap();
    output.publish().unwrap();
    drop((alive, reserved));
    reclaim(above.path());
    assert_eq!(entries(above.path()), ["out"]);
    assert_eq!(names(&path), ["a=1/new.csv", "old.csv"]);
}
