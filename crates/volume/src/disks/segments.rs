//! The files of a volume's segments: one on each disk, made when the first block goes there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use euphrates_device::disk::Disks;
use euphrates_device::durable::{make_folder, sync_folder};
use euphrates_device::folder::FolderFacts;
use euphrates_flow::Result;

use super::root::{VOLUMES, VolumeRoot};

const SUFFIX: &str = ".log";

/// Space of the disks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// All bytes.
    pub all: u64,
    /// Free bytes of all disks.
    pub free: u64,
    /// Free bytes of the disk with the least.
    pub free_least: u64,
}

/// A disk of a volume.
#[derive(Clone, Debug)]
pub struct VolumeDisk {
    pub name: String,
    /// The folder of the volume on it; `None` if the disk is missing.
    pub folder: Option<PathBuf>,
}

/// The disks of a volume, in the order of its root.
#[derive(Clone, Debug)]
pub struct VolumeDisks(pub Vec<VolumeDisk>);

impl VolumeDisks {
    /// Finds the disks. Makes their folders if the volume is new; a folder that is missing later
    /// means that the disk is not mounted, and nothing must be written to the disk below.
    pub fn of(home: &Path, root: &VolumeRoot, is_new: bool) -> Result<VolumeDisks> {
        let disks = Disks::of(home)?;
        let mut found = vec![];
        for name in &root.disks {
            let base = disks.folder(name).and_then(|(_, folder)| folder.local());
            let folder = base
                .map(|base| base.join(VOLUMES).join(format!("{}-{:016x}", root.name, root.volume)));
            if let Some(folder) = folder.as_ref().filter(|_| is_new) {
                make_folder(folder)?;
            }
            let folder = folder.filter(|folder| folder.is_dir());
            found.push(VolumeDisk { name: name.clone(), folder });
        }
        Ok(VolumeDisks(found))
    }

    /// The names of the disks that are missing.
    pub fn missing(&self) -> Vec<&str> {
        let missing = self.0.iter().filter(|disk| disk.folder.is_none());
        missing.map(|disk| disk.name.as_str()).collect()
    }

    pub fn path(&self, disk: u32, segment: u64) -> Option<PathBuf> {
        let folder = self.0.get(disk as usize)?.folder.as_ref()?;
        Some(folder.join(format!("{segment:010}{SUFFIX}")))
    }

    /// Opens a segment's file for reading.
    pub fn open(&self, disk: u32, segment: u64) -> io::Result<File> {
        let path = self.path(disk, segment);
        File::open(path.ok_or(io::Error::from(ErrorKind::NotFound))?)
    }

    /// All segments, with the disks that have a file of each.
    pub fn list(&self) -> BTreeMap<u64, BTreeSet<u32>> {
        let mut found: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for (number, disk) in (0..).zip(&self.0) {
            let Some(folder) = &disk.folder else { continue };
            // A disk that cannot be listed is as one that is lost.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let segment = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
                if let Some(segment) = segment.and_then(|segment| segment.parse().ok()) {
                    found.entry(segment).or_default().insert(number);
                }
            }
        }
        found
    }

    /// Removes the segments that are not needed. Those that cannot be removed now stay for the next
    /// time.
    pub fn remove_except(&self, is_needed: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut removed = vec![];
        for (segment, disks) in self.list() {
            if is_needed(segment) {
                continue;
            }
            for path in disks.into_iter().filter_map(|disk| self.path(disk, segment)) {
                let _ = fs::remove_file(path);
            }
            removed.push(segment);
        }
        removed
    }

    pub fn space(&self) -> io::Result<DiskSpace> {
        let mut seen: Vec<FolderFacts> = vec![];
        let mut space = DiskSpace { free_least: u64::MAX, ..DiskSpace::default() };
        for folder in self.0.iter().filter_map(|disk| disk.folder.as_ref()) {
            use euphrates_device::folder::{DiskFolder, LocalFolder};
            let facts = LocalFolder::new(folder).facts()?;
            space.free_least = space.free_least.min(facts.bytes_free);
            if !seen.iter().any(|known| known.is_same_device(&facts)) {
                space.all += facts.bytes_all;
                space.free += facts.bytes_free;
                seen.push(facts);
            }
        }
        Ok(space)
    }
}

/// Creates a segment's file, durably.
pub fn create(path: &Path) -> io::Result<File> {
    let file = euphrates_device::private::options().write(true).create_new(true).open(path)?;
    let folder = path.parent().unwrap_or(path);
    sync_folder(folder).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(file)
}
