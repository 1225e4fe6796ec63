//! The places of spilled files: scratch folders of this machine, and memory that others lend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_flow::Result;

use super::locked::{LockedFolder, hold};
use crate::disk::Disk;
use crate::folder::{DiskFolder, HeldFolder};

/// A place for spilled files.
#[derive(Clone, Debug)]
pub(super) enum SpillPlace {
    /// A scratch folder.
    Folder(PathBuf),
    /// Memory that another worker lends.
    Lent(Arc<dyn DiskFolder>),
}

impl SpillPlace {
    /// What identifies it: its path, or the name of the worker and of what it lends.
    pub fn path(&self) -> &Path {
        match self {
            SpillPlace::Folder(parent) => parent,
            SpillPlace::Lent(folder) => folder.place(),
        }
    }

    /// Makes a folder there, of this process alone.
    pub fn hold(&self, name: &str) -> Result<HeldPlace> {
        Ok(match self {
            SpillPlace::Folder(parent) => HeldPlace::Folder(hold(parent, name)?),
            SpillPlace::Lent(folder) => {
                let disk = Disk::at_worker(&device_name(folder.place()), folder.clone())?;
                HeldPlace::Lent(disk, folder.hold(Path::new(""), name)?)
            }
        })
    }
}

/// The name of lent memory among the devices of this process: `memory of w1`, of `w1:/memory`.
pub(super) fn device_name(place: &Path) -> String {
    let place = place.display().to_string();
    format!("memory of {}", place.split_once(":/").map_or(place.as_str(), |(worker, _)| worker))
}

/// A folder that this process holds in a place.
#[derive(Debug)]
pub(super) enum HeldPlace {
    Folder(LockedFolder),
    Lent(Disk, Box<dyn HeldFolder>),
}

impl HeldPlace {
    /// The disk and the path of a new file.
    pub fn file(&self, name: &str) -> Result<(Disk, PathBuf)> {
        match self {
            HeldPlace::Folder(held) => {
                let path = held.folder.join(name);
                Disk::of(&path).map(|disk| (disk, path))
            }
            HeldPlace::Lent(disk, held) => Ok((disk.clone(), held.path().join(name))),
        }
    }

    /// Removes it with its files.
    pub fn remove(self) {
        match self {
            HeldPlace::Folder(held) => held.remove(),
            HeldPlace::Lent(_, held) => held.remove(),
        }
    }
}
