//! The named disks of a home folder, configured in `disks.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Disk, Mode};
use crate::durable;
use crate::folder::{DiskFolder, LocalFolder};
use crate::served::ServedHome;

/// The name of the disk that every home has.
pub const HOME: &str = "home";
/// The worker that owns the disks whose entries name none.
pub const LOCAL: &str = "local";

/// One entry of `disks.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedDisk {
    /// The name by which manifests refer to it.
    pub name: String,
    /// The folder of its segments; relative paths begin at the home folder.
    pub folder: PathBuf,
    /// Use of the page cache: `auto`, `direct` or `buffered`.
    #[serde(default)]
    pub mode: NamedMode,
    /// The rate limit in bytes per second, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// The worker that owns it: mirrors are placed on disks of different workers.
    #[serde(default = "local")]
    pub worker: String,
}

fn local() -> String {
    LOCAL.to_string()
}

/// [`Mode`] as it is written in `disks.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedMode {
    /// `euphrates_policy::io_path` decides for each request.
    #[default]
    Auto,
    /// Direct I/O, past the page cache.
    Direct,
    /// Buffered I/O, through the page cache.
    Buffered,
}

/// All disks of a home folder: those of `disks.json`, or of the workers that serve them, and `home`
/// itself in `data/`. The file is read once, and each disk opened at its first use, because a
/// collection has many segments.
///
/// ```
/// use euphrates_device::disk::{Disks, HOME};
///
/// let home = tempfile::tempdir()?;
/// let disks = Disks::of(home.path())?;
/// assert_eq!(disks.names(), [HOME], "without disks.json");
/// assert!(disks.owners().is_empty(), "no other worker owns it");
/// assert_eq!(disks.open(HOME)?.folder(), home.path().join("data"));
/// assert!(disks.open("hmoe").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Disks {
    home: PathBuf,
    named: Vec<NamedDisk>,
    folders: Vec<Arc<dyn DiskFolder>>,
    opened: Vec<OnceLock<Disk>>,
}

impl Disks {
    /// Reads the disks of a home. A malformed `disks.json` is a usage error.
    pub fn of(home: &Path) -> Result<Disks> {
        let mut folders: BTreeMap<String, Arc<dyn DiskFolder>> = BTreeMap::new();
        let mut named = match ServedHome::of(home)? {
            Some(served) => served_disks(&served, &mut folders)?,
            None => listed_disks(home)?,
        };
        if named.iter().all(|disk| disk.name != HOME) {
            let (name, folder) = (HOME.to_string(), PathBuf::from("data"));
            let (mode, rate, worker) = (NamedMode::Auto, None, local());
            named.insert(0, NamedDisk { name, folder, mode, rate, worker });
        }
        for disk in named.iter_mut().filter(|disk| !folders.contains_key(&disk.name)) {
            disk.folder = home.join(&disk.folder);
        }
        let folder = |disk: &NamedDisk| -> Arc<dyn DiskFolder> {
            let served = folders.get(&disk.name).cloned();
            served.unwrap_or_else(|| Arc::new(LocalFolder::new(&disk.folder)))
        };
        let folders = named.iter().map(folder).collect();
        let opened = named.iter().map(|_| OnceLock::new()).collect();
        Ok(Disks { home: home.into(), named, folders, opened })
    }

    /// The entries, with `home` among them.
    pub fn named(&self) -> &[NamedDisk] {
        &self.named
    }

    /// The entries and their folders.
    pub fn folders(&self) -> impl Iterator<Item = (&NamedDisk, &Arc<dyn DiskFolder>)> {
        self.named.iter().zip(&self.folders)
    }

    /// The entry of this name and its folder, if there is one.
    pub fn folder(&self, name: &str) -> Option<(&NamedDisk, &Arc<dyn DiskFolder>)> {
        self.folders().find(|(disk, _)| disk.name == name)
    }

    /// The names, in the order of the entries.
    pub fn names(&self) -> Vec<String> {
        self.named.iter().map(|disk| disk.name.clone()).collect()
    }

    /// Opens the disk of this name; its folder is created if it is missing. An unknown name is a
    /// usage error.
    pub fn open(&self, name: &str) -> Result<Disk> {
        let names = || self.named.iter().map(|disk| disk.name.as_str());
        let Some(at) = names().position(|known| known == name) else {
            let file = self.home.join("disks.json");
            return Err(unknown("disk", name, names()).at(file.display()));
        };
        if let Some(disk) = self.opened[at].get() {
            return Ok(disk.clone());
        }
        let disk = self.named[at].open(self.folders[at].clone())?;
        Ok(self.opened[at].get_or_init(|| disk).clone())
    }

    /// The workers that own disks, by the disk's name.
    pub fn owners(&self) -> BTreeMap<String, String> {
        let owned = self.named.iter().filter(|disk| disk.worker != LOCAL);
        owned.map(|disk| (disk.name.clone(), disk.worker.clone())).collect()
    }
}

/// The entries of `disks.json`, whose folders begin at the home.
fn listed_disks(home: &Path) -> Result<Vec<NamedDisk>> {
    let path = home.join("disks.json");
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| Error::usage(format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(vec![]),
        Err(error) => Err(Error::os("read", &path, &error)),
    }
}

/// Entries for served disks, and their folders by name.
fn served_disks(
    home: &ServedHome,
    folders: &mut BTreeMap<String, Arc<dyn DiskFolder>>,
) -> Result<Vec<NamedDisk>> {
    let mut named = vec![];
    for disk in &home.disks {
        let folder = home.disk_folder(disk)?;
        named.push(NamedDisk {
            name: disk.name.clone(),
            folder: folder.place().to_path_buf(),
            mode: NamedMode::Auto,
            rate: None,
            // The workers of a machine fail together.
            worker: disk.machine.clone(),
        });
        folders.insert(disk.name.clone(), folder);
    }
    Ok(named)
}

impl NamedDisk {
    fn open(&self, folder: Arc<dyn DiskFolder>) -> Result<Disk> {
        let mode = match self.mode {
            NamedMode::Auto => Mode::Auto,
            NamedMode::Direct => Mode::Direct,
            NamedMode::Buffered => Mode::Buffered,
        };
        let disk = Disk::in_folder(&self.name, folder, mode)?;
        Ok(self.rate.map(|rate| disk.with_rate(rate)).unwrap_or(disk))
    }
}

/// Replaces `disks.json` atomically: readers see the old entries or the new ones.
///
/// ```
/// use euphrates_device::disk::{Disks, NamedDisk, save_named_disks};
///
/// let home = tempfile::tempdir()?;
/// let disk: NamedDisk = serde_json::from_str(r#"{"name": "d1", "folder": "one"}"#)?;
/// save_named_disks(home.path(), &[disk])?;
/// assert!(Disks::of(home.path())?.names().contains(&"d1".to_string()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save_named_disks(home: &Path, disks: &[NamedDisk]) -> Result<()> {
    let text = serde_json::to_vec_pretty(disks).expect("strings and numbers");
    durable::write(&home.join("disks.json"), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_has_a_default_disk_and_accepts_named_ones() {
        let home = tempfile::tempdir().unwrap();
        let of_home = Disks::of(home.path()).unwrap();
        assert_eq!(of_home.open(HOME).unwrap().folder(), home.path().join("data"));
        let slow = NamedDisk {
            name: "slow".into(),
            folder: home.path().join("elsewhere"),
            mode: NamedMode::Direct,
            rate: Some(5_000_000),
            worker: "far".into(),
        };
        save_named_disks(home.path(), std::slice::from_ref(&slow)).unwrap();
        let disks = Disks::of(home.path()).unwrap();
        assert_eq!(disks.named()[1], slow);
        let disk = disks.open("slow").unwrap();
        assert_eq!((disk.name(), disk.rate()), ("slow", Some(5_000_000)));
        let error = disks.open("slwo").unwrap_err();
        assert!(error.to_string().contains("did you mean `slow`?"), "{error}");
    }

    #[test]
    fn disk_is_opened_once() {
        let home = tempfile::tempdir().unwrap();
        let disks = Disks::of(home.path()).unwrap();
        let folder = disks.open(HOME).unwrap().folder().to_path_buf();
        std::fs::remove_dir(&folder).unwrap();
        disks.open(HOME).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn malformed_disks_file_is_a_usage_error_with_its_place() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("disks.json"), "[{\"nam\": 1}]").unwrap();
        let error = Disks::of(home.path()).unwrap_err();
        assert!(error.to_string().contains("disks.json"), "{error}");
    }
}
