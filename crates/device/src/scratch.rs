//! Scratch: temporary files of one run, which no other run reads.
//!
//! Each run has a folder of its own in each scratch folder, created with its first file. The
//! process holds a lock on a file next to that folder as long as it lives. So the next start
//! recognises the folders of dead processes, and removes them. Memory that other workers lend is a
//! place like a scratch folder; its lender removes the files when this process ends.

mod folders;
mod locked;
mod places;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Kind, Result, Setup};

use crate::disk::Disk;
use crate::folder::DiskFolder;
pub use folders::take_excluded;
pub(crate) use locked::{AbandonedRun, abandoned};
pub use locked::{LockedFolder, hold, is_held, reclaim, reclaim_after, share};
use places::{HeldPlace, SpillPlace};

/// The places for spilled files of one module of one run.
pub struct Scratch {
    run_id: String,
    places: Mutex<Vec<PlaceInUse>>,
    files: AtomicUsize,
}

/// A place, as one module of one run uses it.
struct PlaceInUse {
    place: SpillPlace,
    held: Option<HeldPlace>,
}

/// Why a file has not been written.
pub enum Unwritten {
    /// The disk refused it; another disk may take it.
    Disk(Error),
    /// Any error that does not depend on the disk.
    Other(Error),
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Unwritten {
        Unwritten::Other(error)
    }
}

impl Scratch {
    /// The scratch of a module in this run; creates nothing yet.
    pub fn new(setup: &Setup) -> Scratch {
        let folders = setup.scratch.iter().cloned().map(SpillPlace::Folder);
        let lent = folders::borrowed(&setup.run_id).into_iter().map(SpillPlace::Lent);
        Scratch::over(&setup.run_id, folders.chain(lent))
    }

    fn over(run_id: &str, places: impl Iterator<Item = SpillPlace>) -> Scratch {
        let places = places.map(|place| PlaceInUse { place, held: None });
        Scratch {
            run_id: run_id.to_string(),
            places: Mutex::new(places.collect()),
            files: AtomicUsize::new(0),
        }
    }

    /// Writes a new file of about `bytes` bytes, to the place that is expected to have written it
    /// first. Where one is full, or fails, the file is written again from its beginning to another,
    /// and the failed folder is avoided by the run as long as there are others. Fails if none
    /// accepts it, with the reason of each.
    pub fn write<T>(
        &self,
        kind: &str,
        bytes: usize,
        write: impl Fn(&Disk, &Path) -> Result<T, Unwritten>,
    ) -> Result<T> {
        let number = self.files.fetch_add(1, Relaxed);
        let places: Vec<SpillPlace> =
            self.places.lock().iter().map(|used| used.place.clone()).collect();
        let (mut tried, mut refused) = (BTreeSet::new(), vec![]);
        while let Some((at, _in_flight)) =
            folders::choose(&self.run_id, &places, bytes as u64, |at| !tried.contains(&at))
        {
            tried.insert(at);
            let written = match self.file(at, &format!("{kind}-{number}")) {
                Ok((disk, path)) => write(&disk, &path),
                Err(error) => Err(Unwritten::Disk(error)),
            };
            match written {
                Ok(written) => return Ok(written),
                Err(Unwritten::Disk(error)) if error.kind() != Kind::Interrupted => {
                    folders::on_refused(&self.run_id, &places[at], error.message());
                    refused.push(error);
                }
                Err(Unwritten::Disk(error) | Unwritten::Other(error)) => return Err(error),
            }
        }
        Err(all_refused(refused))
    }

    /// The disk and the path of a new file in one of the places.
    fn file(&self, at: usize, name: &str) -> Result<(Disk, PathBuf)> {
        let place = {
            let used = &self.places.lock()[at];
            if let Some(held) = &used.held {
                return held.file(name);
            }
            used.place.clone()
        };
        // Without the lock, since a lender may take long to answer.
        let held = place.hold(&format!("{}-{at:x}", self.name()))?;
        folders::on_held(&self.run_id, &place);
        let mut places = self.places.lock();
        let used = &mut places[at].held;
        if used.is_none() {
            return used.insert(held).file(name);
        }
        let file = used.as_ref().expect("another thread has made it").file(name);
        drop(places);
        held.remove();
        file
    }

    /// A name that no other scratch of this process has.
    fn name(&self) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        format!("{}-{:x}", self.run_id, NUMBER.fetch_add(1, Relaxed))
    }
}

fn all_refused(mut refused: Vec<Error>) -> Error {
    if refused.len() < 2 {
        return refused.pop().unwrap_or_else(|| Error::usage("there is no scratch folder"));
    }
    let told: Vec<&str> = refused.iter().map(Error::message).collect();
    Error::resource(format!("no scratch folder can take what does not fit: {}", told.join("; ")))
        .remedy("free space there, or name other folders in EUPHRATES_SCRATCH")
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let places = std::mem::take(&mut *self.places.lock());
        places.into_iter().filter_map(|used| used.held).for_each(HeldPlace::remove);
    }
}

/// Lets the modules of a run spill to folders of memory that other workers lend, until the run is
/// forgotten.
pub fn borrow_memory(run_id: &str, lent: Vec<Arc<dyn DiskFolder>>) {
    folders::borrow(run_id, lent);
}

/// Removes the folders of a run of this process from these scratch folders, and from the memory
/// that it has borrowed. No reader needs them any more, though other processes may still share
/// their locks.
pub fn forget(parents: &[PathBuf], run_id: &str) {
    let entries = parents.iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    // A run whose name extends this one's leaves more than the two numbers.
    let is_its = |name: &str| {
        let numbers = name.strip_prefix(run_id).and_then(|rest| rest.strip_prefix('-'));
        numbers.is_some_and(|numbers| numbers.split('-').count() == 2)
    };
    for lent in folders::give_back(run_id) {
        // A lender out of reach removes them when it misses this process.
        let entries = lent.list(Path::new("")).unwrap_or_default();
        for entry in entries.iter().filter(|entry| is_its(&entry.name)) {
            let _ = lent.remove_folder(Path::new(&entry.name));
        }
    }
    let its = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_its));
    let (folders, locks): (Vec<PathBuf>, Vec<PathBuf>) =
        its.map(|entry| entry.path()).partition(|path| path.is_dir());
    // The next start, which searches for locks, reclaims what cannot be removed now.
    let left = folders.iter().filter(|folder| fs::remove_dir_all(folder).is_err()).count();
    if left == 0 {
        locks.iter().for_each(|lock| drop(fs::remove_file(lock)));
    }
}

#[cfg(test)]
mod tests {
    use euphrates_policy::caching::pressure::MemoryLevel;
    use euphrates_policy::io_path::IoPath;

    use super::*;
    use crate::lent_memory::{LendOptions, LentMemory};

    #[test]
    fn forget_removes_only_the_folders_of_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let mine = hold(parent.path(), "run-w1-0-3-0").unwrap();
        fs::write(mine.folder.join("sort-0"), "x").unwrap();
        let others = ["run-w10-0-3-0", "run-w1-1-3-0", "run-w1-0-0-3-0"];
        let others = others.map(|name| hold(parent.path(), name).unwrap());
        forget(&[parent.path().into(), parent.path().join("nowhere")], "run-w1-0");
        assert!(!mine.folder.exists() && !mine.lock_path().exists());
        assert!(others.iter().all(|other| other.folder.exists() && other.lock_path().exists()));
    }

    fn of(parents: &[PathBuf]) -> Scratch {
        Scratch::over("run", parents.iter().cloned().map(SpillPlace::Folder))
    }

    #[test]
    fn failed_scratch_folder_is_replaced_until_all_fail() {
        let parent = tempfile::tempdir().unwrap();
        let parents = ["a", "b"].map(|name| parent.path().join(name));
        fs::write(&parents[0], "no folder").unwrap();
        let scratch = of(&parents);
        let mut written = vec![];
        for _ in 0..3 {
            let path = scratch.write("run", 1, |_, path| {
                fs::write(path, "x").map_err(|error| Unwritten::Disk(Error::failed(error)))?;
                Ok(path.to_path_buf())
            });
            written.push(path.unwrap());
        }
        assert!(written.iter().all(|path| path.starts_with(&parents[1]) && path.exists()));
        let full = |_: &Disk, path: &Path| -> Result<(), Unwritten> {
            Err(Unwritten::Disk(Error::resource(format!("{} is full", path.display()))))
        };
        let error = scratch.write("run", 1, full).unwrap_err();
        assert_eq!(error.kind(), Kind::Resource);
        for folder in parents {
            assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
        }
        let error =
            scratch.write::<()>("run", 1, |_, _| Err(Error::corrupt("bad").into())).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "it is not the disk's fault");
        assert!(scratch.write("run", 1, |_, path| Ok(path.to_path_buf())).is_ok());
        let told = take_excluded("run");
        assert!(told.len() == 2 && told[1].contains("is full"), "{told:?}");
        assert!(take_excluded("run").is_empty());
    }

    #[test]
    fn full_lent_memory_is_passed_over_and_its_folders_end_with_the_run() {
        let parent = tempfile::tempdir().unwrap();
        let options = LendOptions {
            bytes_max: 4 << 20,
            scratch: parent.path().join("lender"),
            run_id: "lender".into(),
        };
        let level = MemoryLevel { total: 1 << 40, available: 1 << 40 };
        let lent = LentMemory::with_level(options, move || level).unwrap();
        borrow_memory("run-w0-0", vec![Arc::new(lent.clone())]);
        let folders = [parent.path().join("disk")].map(SpillPlace::Folder).into_iter();
        let borrowed = folders::borrowed("run-w0-0").into_iter().map(SpillPlace::Lent);
        let scratch = Scratch::over("run-w0-0", folders.chain(borrowed));
        let mut places = BTreeSet::new();
        for _ in 0..16 {
            let block = vec![1; 3 << 20];
            let write = |disk: &Disk, path: &Path| {
                let file = disk.create(path).map_err(Unwritten::Disk)?;
                if let Err(error) = file.write(IoPath::Buffered, 0, &block) {
                    // As the writer of a segment does.
                    disk.remove(path).unwrap();
                    return Err(Unwritten::Disk(Error::os("write", path, &error)));
                }
                Ok(disk.name() == "memory of /memory")
            };
            places.insert(scratch.write("run", 3 << 20, write).unwrap());
        }
        assert_eq!(places.len(), 2, "one file of 3 MiB fits the memory, and others the disk");
        assert_eq!(lent.used_bytes(), 3 << 20);
        assert!(take_excluded("run-w0-0").is_empty(), "memory that is full is no failure");
        forget(&[], "run-w0-0");
        assert_eq!(lent.used_bytes(), 0);
        assert!(folders::borrowed("run-w0-0").is_empty());
    }
}
