//! Striped files: every byte is readable with any `m` disks lost, every flipped bit is detected and
//! repaired, and a version is visible as a whole or not at all.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_flow::Kind;
use euphrates_store::catalog::Catalog;
use euphrates_store::collection::{Collection, reclaim, reclaim_superseded};
use euphrates_store::striped::{
    StripedOptions, StripedReader, StripedWriter, remove_file, rename_file, repair_file,
    verify_file,
};

/// A home with this number of disks, `d0` and on.
fn home(disks: usize) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let disk = |number| NamedDisk {
        name: format!("d{number}"),
        folder: home.path().join(format!("d{number}")),
        mode: Default::default(),
        rate: None,
        worker: "local".into(),
    };
    save_named_disks(home.path(), &(0..disks).map(disk).collect::<Vec<_>>()).unwrap();
    home
}

fn options(data: usize, parity: usize) -> StripedOptions {
    StripedOptions { data, parity, block_bytes: 5000, ..StripedOptions::default() }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

fn put(home: &Path, name: &str, options: StripedOptions, content: &[u8]) {
    let mut writer = StripedWriter::create(home, name, options).unwrap();
    for (number, part) in content.chunks(7001).enumerate() {
        writer.write_at(number as u64 * 7001, part).unwrap();
    }
    writer.commit().unwrap();
}

fn read_all(home: &Path, name: &str) -> Vec<u8> {
    let reader = StripedReader::open(home, name).unwrap();
    let mut content = vec![1; reader.bytes() as usize];
    let count = reader.read_at(0, &mut content).unwrap();
    assert_eq!(count as u64, reader.bytes());
    content
}

/// The files of a disk, but not the one with its name.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files = vec![];
    for path in entries {
        match path.is_dir() {
            true => files.extend(files_of(&path)),
            false if path.file_name().unwrap().to_string_lossy().starts_with(".disk.") => {}
            false => files.push(path),
        }
    }
    files
}

#[test]
fn files_of_any_length_are_read_as_they_were_written() {
    let home = home(4);
    let mut random = Random(7);
    for bytes in [0, 1, 2, 4999, 5000, 10_000, 10_001, 123_456] {
        let content = random.bytes(bytes);
        put(home.path(), "f", options(2, 1), &content);
        assert_eq!(read_all(home.path(), "f"), content, "{bytes}");
        let reader = StripedReader::open(home.path(), "f").unwrap();
        for _ in 0..20 {
            let (at, len) = (random.below(bytes as u64 + 10), random.below(30_000) as usize);
            let mut part = vec![0; len];
            let count = reader.read_at(at, &mut part).unwrap();
            let from = (at as usize).min(bytes);
            assert_eq!(part[..count], content[from..(from + len).min(bytes)]);
        }
    }
    let files = Catalog::of(home.path()).unwrap().list_files().unwrap();
    assert_eq!((files.len(), files[0].version), (1, 8));
    assert!(Catalog::of(home.path()).unwrap().list().unwrap().is_empty(), "it is no collection");
    // One version is left, on each disk a segment, a map and a manifest; in no stripe of 3 blocks.
    let left: usize = (0..4).map(|at| files_of(&home.path().join(format!("d{at}"))).len()).sum();
    assert_eq!(left, 12);
    remove_file(home.path(), "f", "r").unwrap();
    let left: usize = (0..4).map(|at| files_of(&home.path().join(format!("d{at}"))).len()).sum();
    assert_eq!(left, 0, "all files are removed");
}

#[test]
fn every_byte_is_readable_with_any_two_disks_lost() {
    let home = home(6);
    let content = Random(11).bytes(200_000);
    put(home.path(), "f", options(3, 2), &content);
    for (one, two) in (0..6).flat_map(|one| (0..one).map(move |two| (one, two))) {
        let moved = [one, two].map(|disk| {
            let folder = home.path().join(format!("d{disk}"));
            let away = home.path().join(format!("away{disk}"));
            fs::rename(&folder, &away).unwrap();
            (folder, away)
        });
        assert_eq!(read_all(home.path(), "f"), content, "{one} {two}");
        let reader = StripedReader::open(home.path(), "f").unwrap();
        let mut some = [0; 100];
        for at in (0..199_900).step_by(9999) {
            reader.read_at(at as u64, &mut some).unwrap();
            assert_eq!(some, content[at..at + 100], "a single block");
        }
        assert!(!reader.damages().is_empty());
        moved.into_iter().for_each(|(folder, away)| fs::rename(away, folder).unwrap());
    }
}

#[test]
fn file_with_too_few_disks_left_names_stripe_and_disks() {
    let home = home(4);
    let content = Random(3).bytes(100_000);
    put(home.path(), "f", options(3, 1), &content);
    for disk in ["d1", "d2"] {
        fs::remove_dir_all(home.path().join(disk)).unwrap();
    }
    let reader = StripedReader::open(home.path(), "f").unwrap();
    let error = reader.read_at(0, &mut [0; 100_000]).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let error = error.to_string();
    assert!(error.contains("stripe 0") && error.contains("d1") && error.contains("`f`"), "{error}");
    // One of the two lost blocks may be the parity; the data blocks that are left can be read.
    let mut unreadable = 0;
    for at in [0, 5000, 10_000] {
        let mut some = [0; 10];
        match reader.read_at(at, &mut some) {
            Ok(_) => assert_eq!(some, content[at as usize..at as usize + 10]),
            Err(_) => unreadable += 1,
        }
    }
    assert!(unreadable >= 1);
    let verified = verify_file(home.path(), "f").unwrap();
    assert_eq!(verified.lost_stripes, 7);
    let repaired = repair_file(home.path(), "f", &[], "repair").unwrap();
    assert_eq!((repaired.restored, repaired.lost.len()), (0, 14));
}

#[test]
fn flipped_bits_are_detected_everywhere_and_repaired() {
    let home = home(4);
    let content = Random(5).bytes(60_000);
    let mut random = Random(99);
    for _ in 0..30 {
        put(home.path(), "f", options(2, 1), &content);
        let folders = (0..4).map(|at| format!("d{at}")).chain(["catalog".to_string()]);
        let files = folders.flat_map(|folder| files_of(&home.path().join(folder)));
        // The versions before the newest describe nothing that is left.
        let newest = Catalog::of(home.path()).unwrap().find_file("f").unwrap().version;
        let is_newest = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            !name.ends_with(".json") || name.starts_with(&format!("{newest:010}"))
        };
        let files: Vec<PathBuf> = files.filter(is_newest).collect();
        let path = &files[random.below(files.len() as u64) as usize];
        let file = File::options().read(true).write(true).open(path).unwrap();
        let at = random.below(file.metadata().unwrap().len());
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        // Blocks begin at multiples of 4096, so there are gaps without content.
        let is_gap = path.ends_with("0.blocks") && at % 8192 >= 5000;
        file.write_all_at(&[byte[0] ^ 1 << random.below(8)], at).unwrap();
        let verified = verify_file(home.path(), "f").unwrap();
        assert!(is_gap || !verified.damages.is_empty(), "{path:?} {at}");
        assert_eq!(read_all(home.path(), "f"), content, "{path:?} {at}");
        let repaired = repair_file(home.path(), "f", &[], "repair").unwrap();
        assert!(repaired.lost.is_empty());
        let verified = verify_file(home.path(), "f").unwrap();
        assert!(verified.damages.is_empty(), "{:?}", verified.damages);
    }
    fs::remove_dir_all(home.path().join("d3")).unwrap();
    assert_eq!(read_all(home.path(), "f"), content, "it has its redundancy again");
}

#[test]
fn every_bit_of_the_blocks_of_a_file_is_protected() {
    let home = home(3);
    let content = Random(8).bytes(24);
    put(home.path(), "f", options(2, 1), &content);
    let is_segment = |path: &PathBuf| path.ends_with("0.blocks");
    let segments = || {
        let files = (0..3).flat_map(|at| files_of(&home.path().join(format!("d{at}"))));
        files.filter(is_segment).collect::<Vec<PathBuf>>()
    };
    for bit in 0..3 * 12 * 8 {
        let paths = segments();
        assert!(paths.len() == 3 && paths.iter().all(|path| path.metadata().unwrap().len() == 12));
        let mut bytes = fs::read(&paths[bit % 3]).unwrap();
        bytes[bit / 3 / 8] ^= 1 << (bit / 3 % 8);
        fs::write(&paths[bit % 3], &bytes).unwrap();
        assert_eq!(verify_file(home.path(), "f").unwrap().damages.len(), 1, "bit {bit}");
        assert_eq!(read_all(home.path(), "f"), content, "bit {bit}");
        // A repair syncs, so most bits are set right by hand.
        if bit % 29 == 0 {
            assert_eq!(repair_file(home.path(), "f", &[], "repair").unwrap().restored, 1);
        } else {
            bytes[bit / 3 / 8] ^= 1 << (bit / 3 % 8);
            fs::write(&paths[bit % 3], &bytes).unwrap();
        }
        assert!(verify_file(home.path(), "f").unwrap().damages.is_empty(), "bit {bit}");
    }
}

#[test]
fn repair_restores_a_lost_disk_and_then_any_other_may_be_lost() {
    let home = home(5);
    let content = Random(6).bytes(300_000);
    put(home.path(), "f", options(3, 1), &content);
    for lost in ["d0", "d3", "d4"] {
        fs::remove_dir_all(home.path().join(lost)).unwrap();
        let repaired = repair_file(home.path(), "f", &[], "repair").unwrap();
        assert!(repaired.restored > 0 && repaired.lost.is_empty(), "{lost}");
        assert!(verify_file(home.path(), "f").unwrap().damages.is_empty());
        assert_eq!(read_all(home.path(), "f"), content);
    }
}

#[test]
fn random_changes_and_cuts_are_those_of_a_plain_file() {
    let home = home(5);
    for seed in 1..=4 {
        let mut random = Random(seed * 1000 + 7);
        let mut expected = random.bytes(80_000);
        put(home.path(), "f", options(3, 1), &expected);
        for _ in 0..4 {
            let old = expected.clone();
            let before = StripedReader::open(home.path(), "f").unwrap();
            let mut writer = StripedWriter::update(home.path(), "f", "change").unwrap();
            for _ in 0..25 {
                match random.below(10) {
                    0 => {
                        let bytes = random.below(200_000) as usize;
                        writer.truncate(bytes as u64).unwrap();
                        expected.resize(bytes, 0);
                    }
                    1..=6 => {
                        let at = random.below(expected.len() as u64 + 20_000) as usize;
                        let most = [100, 40_000][random.below(2) as usize];
                        let count = 1 + random.below(most);
                        let part = random.bytes(count as usize);
                        writer.write_at(at as u64, &part).unwrap();
                        expected.resize(expected.len().max(at + part.len()), 0);
                        expected[at..at + part.len()].copy_from_slice(&part);
                    }
                    _ => {
                        let at = random.below(expected.len() as u64 + 1) as usize;
                        let mut part = vec![0; random.below(40_000) as usize];
                        let count = writer.read_at(at as u64, &mut part).unwrap();
                        let end = (at + part.len()).min(expected.len());
                        assert_eq!(part[..count], expected[at..end], "seed {seed}");
                    }
                }
                assert_eq!(writer.bytes(), expected.len() as u64);
            }
            assert_eq!(read_all(home.path(), "f"), old, "nothing is visible before the commit");
            if random.below(4) == 0 {
                drop(writer);
                expected = old;
            } else {
                writer.commit().unwrap();
                let mut still = vec![0; before.bytes() as usize];
                before.read_at(0, &mut still).unwrap();
                assert_eq!(still, old, "an open version stays readable");
            }
            assert_eq!(read_all(home.path(), "f"), expected, "seed {seed}");
            assert!(verify_file(home.path(), "f").unwrap().damages.is_empty());
        }
    }
    let staged = (0..5).map(|at| files_of(&home.path().join(format!("d{at}/.staging"))).len());
    assert_eq!(staged.sum::<usize>(), 0);
    assert_eq!(reclaim(home.path()).unwrap() + reclaim_superseded(home.path()).unwrap(), 0);
}

#[test]
fn layout_that_the_disks_cannot_hold_is_a_usage_error() {
    let home = home(3);
    for (data, parity) in [(3, 1), (0, 1), (300, 1)] {
        let error = StripedWriter::create(home.path(), "f", options(data, parity)).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
    }
    let named = |disks: &[&str]| StripedOptions {
        disks: disks.iter().map(|disk| disk.to_string()).collect(),
        ..options(1, 1)
    };
    for disks in [&["d0"][..], &["d0", "d0"], &["d0", "d9"]] {
        let error = StripedWriter::create(home.path(), "f", named(disks)).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
    }
    assert!(StripedWriter::create(home.path(), "f", options(2, 1)).unwrap().needs_every_disk());
    assert!(!StripedWriter::create(home.path(), "f", options(1, 1)).unwrap().needs_every_disk());
    for name in ["", "../f", "a b"] {
        assert!(StripedWriter::create(home.path(), name, options(1, 1)).is_err(), "{name:?}");
    }
}

#[test]
fn one_of_two_writers_of_a_file_wins_and_names_are_shared_with_collections() {
    let home = home(3);
    put(home.path(), "f", options(1, 1), b"first");
    let mut one = StripedWriter::update(home.path(), "f", "one").unwrap();
    let mut two = StripedWriter::update(home.path(), "f", "two").unwrap();
    one.write_at(0, b"from one").unwrap();
    two.write_at(0, b"from two, later").unwrap();
    one.commit().unwrap();
    let error = two.commit().unwrap_err();
    assert!(error.to_string().contains("another writer"), "{error}");
    assert_eq!(read_all(home.path(), "f"), b"from one");
    let taken = StripedOptions { overwrite: false, ..options(1, 1) };
    let error = StripedWriter::create(home.path(), "f", taken).unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    let error = Collection::open(home.path(), "f").unwrap_err();
    assert!(error.to_string().contains("is a striped file"), "{error}");
    let error = StripedReader::open(home.path(), "g").unwrap_err();
    assert_eq!(error.message(), "no striped file named `g`");
}

#[test]
fn renamed_file_shares_no_segment_and_replaces_the_target_whole() {
    let home = home(4);
    let (one, two) = (Random(1).bytes(60_000), Random(2).bytes(30_000));
    put(home.path(), "from/a", options(2, 1), &one);
    let mut writer = StripedWriter::update(home.path(), "from/a", "run").unwrap();
    writer.write_at(100, b"changed").unwrap();
    writer.commit().unwrap();
    let changed = read_all(home.path(), "from/a");
    put(home.path(), "to", options(2, 1), &two);
    let reader = StripedReader::open(home.path(), "to").unwrap();
    let taken = rename_file(home.path(), "from/a", "to", false, "run").unwrap_err();
    assert_eq!(taken.kind(), Kind::Usage);
    rename_file(home.path(), "from/a", "to", true, "run").unwrap();
    assert_eq!(read_all(home.path(), "to"), changed);
    let mut before = vec![0; two.len()];
    reader.read_at(0, &mut before).unwrap();
    assert_eq!(before, two, "a reader keeps the version that was replaced");
    assert!(StripedReader::open(home.path(), "from/a").is_err());
    assert!(verify_file(home.path(), "to").unwrap().damages.is_empty());
    reclaim(home.path()).unwrap();
    reclaim_superseded(home.path()).unwrap();
    assert_eq!(read_all(home.path(), "to"), changed, "no link was removed with the old name");
    fs::rename(home.path().join("d1"), home.path().join("elsewhere")).unwrap();
    let error = rename_file(home.path(), "to", "other", false, "run").unwrap_err();
    assert!(error.to_string().contains("disk `d1` is missing"), "{error}");
    assert_eq!(read_all(home.path(), "to"), changed);
    assert!(StripedReader::open(home.path(), "other").is_err());
    remove_file(home.path(), "to", "run").unwrap();
    let left: Vec<PathBuf> =
        ["d0", "d2", "d3"].iter().flat_map(|disk| files_of(&home.path().join(disk))).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn file_on_a_folder_with_two_disk_names_is_a_usage_error_that_names_both() {
    let home = home(2);
    fs::create_dir(home.path().join("d0")).unwrap();
    std::os::unix::fs::symlink("d0", home.path().join("d1")).unwrap();
    let error = StripedWriter::create(home.path(), "f", options(1, 1)).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let text = error.to_string();
    assert!(text.contains("`d0`") && text.contains("`d1`"), "{text}");
}

#[test]
fn length_beyond_any_map_is_a_usage_error_and_the_session_goes_on() {
    let home = home(2);
    let mut writer = StripedWriter::create(home.path(), "f", options(1, 1)).unwrap();
    for offset in [1 << 50, 1 << 60, u64::MAX] {
        assert_eq!(writer.write_at(offset, b"x").unwrap_err().kind(), Kind::Usage);
        assert_eq!(writer.truncate(offset).unwrap_err().kind(), Kind::Usage);
    }
    writer.write_at(0, b"content").unwrap();
    writer.commit().unwrap();
    assert_eq!(read_all(home.path(), "f"), b"content");
}

#[test]
fn unusable_disk_stops_a_file_only_if_too_few_others_are_left() {
    let home = home(4);
    fs::write(home.path().join("d2"), "no folder").unwrap();
    put(home.path(), "f", options(2, 1), b"content");
    assert_eq!(read_all(home.path(), "f"), b"content");
    assert_eq!(reclaim(home.path()).unwrap(), 0);
    let error = StripedWriter::create(home.path(), "g", options(3, 1)).unwrap_err();
    assert!(error.to_string().contains("d2"), "{error}");
}

#[test]
fn missing_folder_of_a_disk_with_files_is_not_made_anew() {
    let home = home(4);
    put(home.path(), "f", options(3, 1), &Random(9).bytes(100_000));
    let unmounted = home.path().join("d1");
    fs::remove_dir_all(&unmounted).unwrap();
    put(home.path(), "g", options(2, 1), b"content");
    let mut writer = StripedWriter::update(home.path(), "g", "run").unwrap();
    writer.write_at(0, b"C").unwrap();
    writer.commit().unwrap();
    reclaim(home.path()).unwrap();
    let error = StripedWriter::create(home.path(), "h", options(3, 1)).unwrap_err();
    assert!(error.to_string().contains("`d1`, which has files, is missing"), "{error}");
    assert!(!unmounted.exists());
    // A new disk in its folder is used.
    fs::create_dir(&unmounted).unwrap();
    put(home.path(), "h", options(3, 1), b"content");
}

#[test]
fn spellings_of_a_home_are_one_home() {
    let (home, other) = (home(3), tempfile::tempdir().unwrap());
    let link = other.path().join("link");
    std::os::unix::fs::symlink(home.path(), &link).unwrap();
    put(&link, "f", options(2, 1), b"content");
    for spelling in [home.path().join(""), home.path().join("d0/.."), link] {
        assert_eq!(verify_file(&spelling, "f").unwrap().damages, [], "{spelling:?}");
    }
}
