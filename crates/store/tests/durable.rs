//! Atomic publication of small files, and reclaim of those that dead processes have staged.

use std::fs;
use std::path::Path;

use euphrates_device::durable::{Durability, DurableFile, STAGED_SUFFIX, write};
use euphrates_store::output::reclaim;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn pending_file_is_hidden_until_it_is_published() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("a/b/file");
    let pending = DurableFile::write(&target, b"one").unwrap();
    assert!(!target.exists());
    assert_eq!(reclaim(target.parent().unwrap()), 0, "its process lives");
    assert!(matches!(pending.publish().unwrap(), Some(Durability::Durable)));
    assert_eq!(fs::read(&target).unwrap(), b"one");
    assert!(DurableFile::write(&target, b"two").unwrap().publish().unwrap().is_none());
    assert_eq!(fs::read(&target).unwrap(), b"one");
    write(&target, b"three").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"three");
    drop(DurableFile::write(&target, b"four").unwrap());
    assert_eq!(names(target.parent().unwrap()), ["file"]);
}

#[test]
fn staged_file_of_a_dead_process_is_reclaimed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(format!(".file.1-2-3.{STAGED_SUFFIX}")), "x").unwrap();
    assert_eq!(reclaim(root.path()), 1);
    assert_eq!(names(root.path()), Vec::<String>::new());
}
