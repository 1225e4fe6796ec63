//! A full disk, or a file-size limit, gives a typed error, and leaves nothing behind.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_flow::{Cancel, Kind};
use euphrates_store::collection::{Collection, CreateOptions, NewCollection};
use euphrates_store::striped::{StripedOptions, StripedReader, StripedWriter, verify_file};

const HOME: &str = "EUPHRATES_TEST_HOME";

/// Runs the test below in a process of its own, within the limits that `limit` sets.
fn run_within(shell: &[&str], limit: &str, home: &Path) -> bool {
    run_test_within(shell, limit, home, "write_too_much")
}

fn run_test_within(shell: &[&str], limit: &str, home: &Path, name: &str) -> bool {
    let test = std::env::current_exe().unwrap();
    let script = format!("{limit} && exec \"$0\" --ignored --exact --nocapture {name}");
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-c", &script]).arg(test).env(HOME, home);
    command.status().is_ok_and(|status| status.success())
}

fn can_unshare() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

#[test]
fn file_size_limit_is_a_resource_error() {
    let home = tempfile::tempdir().unwrap();
    assert!(run_within(&["sh"], "trap '' XFSZ; ulimit -f 1000", home.path()));
}

#[test]
fn full_disk_is_a_resource_error() {
    if !can_unshare() {
        // The test needs the permission to mount.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {}", home.path().display());
    assert!(run_within(&["unshare", "--mount", "sh"], &mount, home.path()));
}

#[test]
#[ignore = "run by the tests above, in a process with limits"]
fn write_too_much() {
    let home = std::env::var(HOME).unwrap();
    let home = Path::new(&home);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50_000));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
    let new = NewCollection::create(home, "c", batch.schema_ref(), options).unwrap();
    let segment = new.begin_segment().unwrap();
    let block = segment.encoder().unwrap().encode(&batch).unwrap();
    let error = (0..100)
        .find_map(|_| segment.append(None, &block, &Cancel::default()).err())
        .expect("40 MB do not fit");
    assert_eq!(error.kind(), Kind::Resource);
    let text = error.to_string();
    assert!(text.contains("0.arrow") && text.contains(" bytes at "), "{text}");
    assert!(error.advice().is_some());
    drop((segment, new));
    assert_eq!(std::fs::read_dir(home.join("data/.staging")).unwrap().count(), 0);
    assert!(Collection::open(home, "c").is_err());
}

/// One of two copies is on a full disk.
#[test]
fn full_disk_of_a_mirrored_collection_leaves_nothing() {
    if !can_unshare() {
        // The test needs the permission to mount.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("small")).unwrap();
    let disk = |name: &str| NamedDisk {
        name: name.into(),
        folder: name.into(),
        mode: Default::default(),
        rate: None,
        worker: name.into(),
    };
    save_named_disks(home.path(), &[disk("large"), disk("small")]).unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {}/small", home.path().display());
    let test = "write_too_much_twice";
    assert!(run_test_within(&["unshare", "--mount", "sh"], &mount, home.path(), test));
}

#[test]
#[ignore = "run by the test above, in a process with limits"]
fn write_too_much_twice() {
    let home = std::env::var(HOME).unwrap();
    let home = Path::new(&home);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50_000));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let disks = vec!["large".into(), "small".into()];
    let options =
        CreateOptions { disks, copies: 2, run_id: "run".into(), ..CreateOptions::default() };
    let new = NewCollection::create(home, "c", batch.schema_ref(), options).unwrap();
    let segments = new.begin_segments().unwrap();
    let block = segments.encoder().unwrap().encode(&batch).unwrap();
    let error = (0..100)
        .find_map(|_| segments.append(None, &block, &Cancel::default()).err())
        .expect("40 MB do not fit");
    assert_eq!(error.kind(), Kind::Resource);
    assert!(error.to_string().contains("small"), "{error}");
    drop((segments, new));
    for disk in ["large", "small"] {
        assert_eq!(std::fs::read_dir(home.join(disk).join(".staging")).unwrap().count(), 0);
    }
    assert!(Collection::open(home, "c").is_err());
}

#[test]
fn stripes_go_elsewhere_while_a_disk_is_full() {
    if !can_unshare() {
        // The test needs the permission to mount.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("small")).unwrap();
    let disk = |name: &str| NamedDisk {
        name: name.into(),
        folder: name.into(),
        mode: Default::default(),
        rate: None,
        worker: "local".into(),
    };
    save_named_disks(home.path(), &["a", "small", "b", "c"].map(disk)).unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {}/small", home.path().display());
    let test = "write_stripes_beside_a_full_disk";
    assert!(run_test_within(&["unshare", "--mount", "sh"], &mount, home.path(), test));
}

#[test]
#[ignore = "run by the test above, in a process with limits"]
fn write_stripes_beside_a_full_disk() {
    let home = std::env::var(HOME).unwrap();
    let home = Path::new(&home);
    let options = StripedOptions { data: 2, block_bytes: 100_000, ..StripedOptions::default() };
    let content: Vec<u8> = (0..8_000_000u32).map(|at| (at / 7 % 253) as u8).collect();
    let mut writer = StripedWriter::create(home, "f", options).unwrap();
    writer.write_at(0, &content).unwrap();
    writer.commit().unwrap();
    let reader = StripedReader::open(home, "f").unwrap();
    let mut read = vec![0; content.len()];
    reader.read_at(0, &mut read).unwrap();
    assert!(read == content);
    assert!(reader.manifest().disks().contains("small"), "what was written before stays there");
    assert!(verify_file(home, "f").unwrap().damages.is_empty());
}
