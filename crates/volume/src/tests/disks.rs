//! Volumes on folders: remounts, leases, lost disks, the cleaner.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use euphrates_flow::Kind;
use parking_lot::Mutex;

use crate::{InodeKind, NewInode, ROOT, Volume, VolumeOptions};

const FILE: u32 = 0o100_644;

/// A home with disks.
struct DiskHome {
    folder: tempfile::TempDir,
    messages: Arc<Mutex<Vec<String>>>,
}

impl DiskHome {
    fn new(disks: usize) -> DiskHome {
        let folder = tempfile::tempdir().unwrap();
        let entry = |n| format!("{{\"name\":\"d{n}\",\"folder\":\"disks/{n}\"}}");
        let list: Vec<String> = (0..disks).map(entry).collect();
        fs::write(folder.path().join("disks.json"), format!("[{}]", list.join(","))).unwrap();
        DiskHome { folder, messages: Arc::default() }
    }

    fn open(&self, read_only: bool) -> euphrates_flow::Result<Volume> {
        let messages = self.messages.clone();
        Volume::open(VolumeOptions {
            home: self.folder.path().to_path_buf(),
            name: "code".into(),
            data: 2,
            parity: 1,
            disks: vec![],
            read_only,
            say: Arc::new(move |text| messages.lock().push(text.to_string())),
        })
    }

    /// Bytes of segments on all disks.
    fn stored_bytes(&self) -> u64 {
        fn below(folder: &Path) -> u64 {
            let entries = fs::read_dir(folder).unwrap().flatten();
            entries
                .map(|entry| match entry.file_type().unwrap().is_dir() {
                    true => below(&entry.path()),
                    false => entry.metadata().unwrap().len(),
                })
                .sum()
        }
        below(&self.folder.path().join("disks"))
    }

    fn disk(&self, number: usize) -> std::path::PathBuf {
        self.folder.path().join("disks").join(number.to_string())
    }
}

fn make(volume: &Volume, name: &str) -> u64 {
    let (name, owner) = (name.as_bytes(), (0, 0));
    let new = NewInode { name, mode: FILE, owner, device: 0, target: b"" };
    volume.create(ROOT, new).unwrap().number
}

fn content(volume: &Volume, name: &str) -> Vec<u8> {
    let found = volume.look_up(ROOT, name.as_bytes()).unwrap();
    let mut bytes = vec![0; found.bytes as usize];
    assert_eq!(volume.read(found.number, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31) ^ (at >> 9) ^ (seed * 77)) as u8).collect()
}

#[test]
fn synced_operations_are_there_without_a_close() {
    let home = DiskHome::new(4);
    let volume = home.open(false).unwrap();
    for round in 0..6 {
        let file = make(&volume, &format!("f{round}"));
        volume.write(file, Some(0), &pattern(round, 300_000 * round + 5)).unwrap();
        volume.write(file, None, b"end").unwrap();
    }
    volume.remove(ROOT, b"f0", false).unwrap();
    volume.sync().unwrap();
    drop(volume);
    let volume = home.open(false).unwrap();
    assert!(volume.look_up(ROOT, b"f0").is_err());
    for round in 1..6 {
        let expected = [pattern(round, 300_000 * round + 5), b"end".to_vec()].concat();
        assert!(content(&volume, &format!("f{round}")) == expected, "f{round}");
    }
    volume.close().unwrap();
    drop(volume);
    let volume = home.open(true).unwrap();
    assert_eq!(volume.list(ROOT).unwrap().len(), 5 + 2);
    assert!(volume.write(2, Some(0), b"x").is_err(), "it is read only");
}

#[test]
fn second_writer_is_refused_with_the_process_that_has_the_lease() {
    let home = DiskHome::new(3);
    let volume = home.open(false).unwrap();
    let error = home.open(false).err().unwrap();
    let pid = std::process::id();
    assert!(error.to_string().contains(&format!("process {pid} on host")), "{error}");
    assert!(error.advice().unwrap().contains("--read-only"));
    assert!(home.open(true).is_ok());
    drop(volume);
    home.open(false).unwrap().close().unwrap();
}

#[test]
fn reader_sees_the_last_checkpoint_and_no_unknown_volume() {
    let home = DiskHome::new(3);
    let error = home.open(true).err().unwrap();
    assert_eq!((error.kind(), error.message()), (Kind::Usage, "there is no volume `code`"));
    let volume = home.open(false).unwrap();
    let file = make(&volume, "a");
    volume.write(file, Some(0), b"first").unwrap();
    volume.checkpoint().unwrap();
    volume.write(file, Some(0), b"later").unwrap();
    volume.sync().unwrap();
    assert_eq!(content(&home.open(true).unwrap(), "a"), b"first", "the writer lives");
    let reader = home.open(true).unwrap();
    for round in 0..3 {
        volume.write(file, Some(0), &pattern(round, 100_000)).unwrap();
        volume.checkpoint().unwrap();
    }
    assert_eq!(content(&reader, "a"), b"first", "its segments are removed, and still open");
}

#[test]
fn loss_of_any_disk_loses_nothing_and_cleaning_restores_redundancy() {
    for lost in 0..4 {
        let home = DiskHome::new(4);
        let volume = home.open(false).unwrap();
        for round in 0..5 {
            let file = make(&volume, &format!("f{round}"));
            volume.write(file, Some(0), &pattern(round, 1 << (14 + round))).unwrap();
            volume.sync().unwrap();
        }
        volume.checkpoint().unwrap();
        let file = make(&volume, "behind");
        volume.write(file, Some(0), &pattern(9, 200_000)).unwrap();
        volume.sync().unwrap();
        drop(volume);
        fs::remove_dir_all(home.disk(lost)).unwrap();
        let whole = |volume: &Volume| {
            for round in 0..5 {
                assert!(content(volume, &format!("f{round}")) == pattern(round, 1 << (14 + round)));
            }
            assert!(content(volume, "behind") == pattern(9, 200_000));
        };
        let volume = home.open(false).unwrap();
        assert!(home.messages.lock().iter().any(|text| text.contains(&format!("d{lost}"))));
        whole(&volume);
        volume.checkpoint().unwrap();
        volume.close().unwrap();
        drop(volume);
        // The rest has been rewritten to the other three disks: another of them may be lost.
        fs::remove_dir_all(home.disk((lost + 1) % 4)).unwrap();
        whole(&home.open(true).unwrap());
        let error = home.open(false).err().unwrap();
        assert!(error.to_string().contains("needs 3 disks, and 2 are there"), "{error}");
    }
}

#[test]
fn a_disk_that_fails_while_it_is_mounted_is_replaced_by_the_others() {
    let home = DiskHome::new(4);
    let volume = home.open(false).unwrap();
    let file = make(&volume, "before");
    volume.write(file, Some(0), &pattern(1, 2_000_000)).unwrap();
    volume.sync().unwrap();
    fs::remove_dir_all(home.disk(1)).unwrap();
    // The next segments cannot be created there.
    volume.checkpoint().unwrap();
    let file = make(&volume, "after");
    for at in 0..8 {
        volume.write(file, Some(at * 500_000), &pattern(2, 500_000)).unwrap();
        volume.sync().unwrap();
    }
    volume.checkpoint().unwrap();
    volume.close().unwrap();
    drop(volume);
    fs::remove_dir_all(home.disk(2)).unwrap();
    let volume = home.open(true).unwrap();
    assert!(content(&volume, "before") == pattern(1, 2_000_000));
    assert!(content(&volume, "after") == pattern(2, 500_000).repeat(8));
}

#[test]
fn too_few_disks_end_writing_and_lose_nothing_that_was_synced() {
    let home = DiskHome::new(3);
    let volume = home.open(false).unwrap();
    let file = make(&volume, "a");
    volume.write(file, Some(0), &pattern(3, 500_000)).unwrap();
    volume.sync().unwrap();
    fs::remove_dir_all(home.disk(0)).unwrap();
    // The cleaner cannot write to a third disk what was on the lost one.
    assert!(volume.checkpoint().is_err());
    assert!(volume.write(file, Some(0), b"more").is_err());
    assert!(home.messages.lock().iter().any(|text| text.contains("disk d0")));
    drop(volume);
    let error = home.open(false).err().unwrap();
    assert!(error.to_string().contains("needs 3 disks, and 2 are there; missing: d0"), "{error}");
    assert!(content(&home.open(true).unwrap(), "a") == pattern(3, 500_000));
}

#[test]
fn space_of_overwritten_data_comes_back() {
    const BYTES: usize = 1 << 20;
    let home = DiskHome::new(3);
    let volume = home.open(false).unwrap();
    let files: Vec<u64> = (0..8).map(|n| make(&volume, &format!("f{n}"))).collect();
    for round in 0..12 {
        for (n, file) in files.iter().enumerate() {
            // One file in eight is never overwritten, and pins its segments.
            if n > 0 || round == 0 {
                volume.write(*file, Some(0), &pattern(n + round, BYTES)).unwrap();
            }
        }
    }
    let written = 3 * (12 * 7 + 1) * BYTES as u64 / 2;
    volume.sync().unwrap();
    assert!(home.stored_bytes() > written * 9 / 10, "nothing is removed before a checkpoint");
    volume.checkpoint().unwrap();
    volume.checkpoint().unwrap();
    let (live, stored) = (3 * 8 * BYTES as u64 / 2, home.stored_bytes());
    assert!(stored < 2 * live + (4 << 20), "{stored} bytes are stored for {live}");
    for n in 0..8 {
        let round = if n == 0 { 0 } else { 11 };
        assert!(content(&volume, &format!("f{n}")) == pattern(n + round, BYTES), "f{n}");
    }
    volume.close().unwrap();
    drop(volume);
    let volume = home.open(false).unwrap();
    assert!(content(&volume, "f3") == pattern(14, BYTES));
}

#[test]
fn damaged_durable_chunk_is_named_with_what_can_be_read() {
    let home = DiskHome::new(3);
    let volume = home.open(false).unwrap();
    let file = make(&volume, "a");
    for n in 0..4 {
        volume.write(file, Some(n), b"x").unwrap();
        volume.sync().unwrap();
    }
    drop(volume);
    let mut damaged = 0;
    for disk in 0..3 {
        for folder in fs::read_dir(home.disk(disk).join("@volumes")).unwrap().flatten() {
            for file in fs::read_dir(folder.path()).unwrap().flatten() {
                let mut bytes = fs::read(file.path()).unwrap();
                // The first block of the log, if it is not that of a checkpoint.
                let header = crate::log::BlockHeader::decode(&bytes).unwrap();
                if header.epoch == 1 && header.chunk <= 1 {
                    bytes[crate::log::HEADER_BYTES] ^= 1;
                    fs::write(file.path(), bytes).unwrap();
                    damaged += 1;
                }
            }
        }
    }
    assert!(damaged > 1);
    let error = home.open(false).err().unwrap();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("of the log is damaged"), "{error}");
    assert!(error.advice().unwrap().contains("--read-only"), "{error}");
    assert!(home.open(true).is_ok());
    assert!(home.messages.lock().iter().any(|text| text.contains("the last checkpoint is shown")));
}

#[test]
fn an_open_file_without_a_name_is_read_until_it_is_forgotten() {
    let home = DiskHome::new(3);
    let volume = home.open(false).unwrap();
    let file = make(&volume, "a");
    volume.write(file, Some(0), b"content").unwrap();
    volume.remove(ROOT, b"a", false).unwrap();
    volume.checkpoint().unwrap();
    let mut bytes = [0; 7];
    volume.read(file, 0, &mut bytes).unwrap();
    assert_eq!((&bytes, volume.attributes(file).unwrap().links), (b"content", 0));
    volume.forget(file, 1);
    assert!(volume.attributes(file).is_err());
}

#[test]
fn setgid_folders_give_their_group_and_kinds_are_kept() {
    let home = DiskHome::new(3);
    let volume = home.open(false).unwrap();
    let new = |name, mode, target| NewInode { name, mode, owner: (7, 8), device: 5, target };
    let folder = volume.create(ROOT, new(b"shared", 0o042_775, b"")).unwrap();
    let within = NewInode { owner: (1, 2), ..new(b"in", 0o040_755, b"") };
    let within = volume.create(folder.number, within).unwrap();
    assert_eq!((within.uid, within.gid, within.permissions), (1, 8, 0o2755));
    volume.create(ROOT, new(b"fifo", 0o010_600, b"")).unwrap();
    volume.create(ROOT, new(b"link", 0o120_777, b"to/there")).unwrap();
    volume.sync().unwrap();
    drop(volume);
    let volume = home.open(false).unwrap();
    let kind = |name: &[u8]| volume.look_up(ROOT, name).unwrap();
    assert_eq!((kind(b"fifo").kind, kind(b"link").kind), (InodeKind::Fifo, InodeKind::Symlink));
    assert_eq!(volume.target(kind(b"link").number).unwrap(), b"to/there");
    assert_eq!(kind(b"shared").links, 3);
}
