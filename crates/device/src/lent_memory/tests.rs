//! Lent memory that is full, short, or open while it is moved.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use euphrates_policy::io_path::IoPath;

use super::*;

const MIB: u64 = 1 << 20;

/// Lends 8 MiB of a machine with 1600 MiB, of which some are available.
fn lending(scratch: &Path) -> (LentMemory, Arc<AtomicU64>) {
    let available = Arc::new(AtomicU64::new(1600));
    let known = available.clone();
    let level = move || MemoryLevel { total: 1600 * MIB, available: known.load(SeqCst) * MIB };
    let (scratch, run_id) = (scratch.to_path_buf(), "lender".to_string());
    let options = LendOptions { bytes_max: 8 * MIB, scratch, run_id };
    (LentMemory::with_level(options, level).unwrap(), available)
}

fn content(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31 + seed) % 251) as u8).collect()
}

fn all(file: &DiskFile) -> Vec<u8> {
    let mut buffer = vec![0; file.bytes().unwrap() as usize + 9];
    let read = file.read(IoPath::Buffered, 0, &mut buffer).unwrap();
    buffer.truncate(read);
    buffer
}

#[test]
fn file_is_read_as_it_was_written_in_any_order() {
    let scratch = tempfile::tempdir().unwrap();
    let (lent, _) = lending(scratch.path());
    let _held = lent.hold(Path::new(""), "run").unwrap();
    let file = lent.create(Path::new("run/a")).unwrap();
    let whole = content(1, 3_300_001);
    for part in [2, 0, 3, 1] {
        let from = part * 1_000_000;
        let to = (from + 1_000_000).min(whole.len());
        file.write(IoPath::Direct, from as u64, &whole[from..to]).unwrap();
    }
    assert!(all(&file) == whole);
    let mut middle = [0; 5000];
    let again = lent.open(Path::new("run/a")).unwrap();
    assert_eq!(again.read(IoPath::Direct, 1_048_000, &mut middle).unwrap(), 5000);
    assert_eq!(middle, whole[1_048_000..1_053_000]);
    assert_eq!(again.read(IoPath::Direct, 1 << 40, &mut middle).unwrap(), 0);
}

#[test]
fn full_memory_refuses_what_grows_until_files_are_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let (lent, _) = lending(scratch.path());
    let held = lent.hold(Path::new(""), "run").unwrap();
    let full = lent.create(Path::new("run/a")).unwrap();
    let block = content(2, MIB as usize);
    for at in 0..8 {
        full.write(IoPath::Direct, at * MIB, &block).unwrap();
    }
    let refused = |error: io::Error| error.kind() == ErrorKind::StorageFull;
    assert!(refused(full.write(IoPath::Direct, 8 * MIB, &block).unwrap_err()));
    assert!(refused(lent.create(Path::new("run/b")).unwrap_err()));
    assert_eq!((lent.facts().unwrap().bytes_free, lent.used_bytes()), (0, 8 * MIB));
    lent.remove_file(Path::new("run/a")).unwrap();
    assert_eq!(lent.used_bytes(), 8 * MIB, "a reader has it open");
    drop(full);
    assert_eq!((lent.facts().unwrap().bytes_free, lent.used_bytes()), (8 * MIB, 0));
    lent.create(Path::new("run/b")).unwrap().write(IoPath::Direct, 0, &block).unwrap();
    drop(held);
    assert_eq!(lent.used_bytes(), 0, "the borrower has gone");
    assert!(lent.open(Path::new("run/b")).is_err() && !lent.is_held(Path::new(""), "run"));
}

#[test]
fn oldest_files_go_to_disk_when_memory_is_short_and_no_reader_notices() {
    let scratch = tempfile::tempdir().unwrap();
    let (lent, available) = lending(scratch.path());
    let held = lent.hold(Path::new(""), "run").unwrap();
    let path = |at: usize| PathBuf::from(format!("run/{at}"));
    let contents: Vec<Vec<u8>> = (0..3).map(|at| content(at, 2_000_000)).collect();
    let files: Vec<DiskFile> = (0..3).map(|at| lent.create(&path(at)).unwrap()).collect();
    for (file, content) in files.iter().zip(&contents) {
        file.write(IoPath::Direct, 0, content).unwrap();
    }
    available.store(98, SeqCst);
    let on_disk = || {
        let folder = scratch.path().join("lender-lent-0");
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    };
    assert_eq!((lent.facts().unwrap().bytes_free, on_disk()), (0, 0), "until it looks");
    // The reserve is 100 MiB: as many as there are.
    lent.look();
    assert_eq!((lent.used_bytes(), on_disk()), (0, 3));
    let error = lent.create(&path(9)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    files[2].write(IoPath::Direct, 2_000_000, b"more").unwrap();
    for (at, content) in contents.iter().enumerate() {
        let longer = [content.as_slice(), if at == 2 { b"more" } else { b"" }].concat();
        assert!(all(&files[at]) == longer, "{at}");
        assert!(all(&lent.open(&path(at)).unwrap()) == longer, "{at}");
    }
    available.store(1600, SeqCst);
    let new = lent.create(&path(9)).unwrap();
    new.write(IoPath::Direct, 0, b"again in memory").unwrap();
    lent.look();
    assert_eq!((lent.used_bytes(), on_disk()), (MIB, 3));
    drop((files, held));
    assert_eq!(on_disk(), 0, "with their borrower");
    drop((new, lent));
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn no_path_leads_out_of_the_folders_of_borrowers() {
    let scratch = tempfile::tempdir().unwrap();
    let (lent, _) = lending(scratch.path());
    let _held = lent.hold(Path::new(""), "run").unwrap();
    for path in ["/etc/passwd", "../run/a", "run", "run/a/b", "other/a", ""] {
        assert!(lent.create(Path::new(path)).is_err(), "{path}");
    }
    assert!(lent.hold(Path::new(""), "run").is_err(), "it is another's");
    assert!(lent.hold(Path::new("run"), "b").is_err());
    assert!(lent.hold(Path::new(""), "../b").is_err());
    let (scratch, run_id) = (scratch.path().into(), String::new());
    let few = LentMemory::new(LendOptions { bytes_max: 1000, scratch, run_id }).unwrap_err();
    assert!(few.advice().unwrap().contains("at least"), "{few}");
}
