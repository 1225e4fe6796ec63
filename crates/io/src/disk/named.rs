//! The disks a user has named, in `disks.json` of the home folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Disk, Mode};

/// The disk every home has.
pub const HOME: &str = "home";
/// The worker disks belong to that name none.
pub const LOCAL: &str = "local";

/// One entry of `disks.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedDisk {
    /// The name collections know it by.
    pub name: String,
    /// Where its segments are; relative paths begin at the home folder.
    pub folder: PathBuf,
    /// `auto`, `direct` or `buffered`.
    #[serde(default)]
    pub mode: NamedMode,
    /// Bytes per second it is held to, if at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// The worker that owns it: mirrors are kept on disks of different workers.
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
    /// Decide by the facts.
    #[default]
    Auto,
    /// Past the cache.
    Direct,
    /// Through the cache.
    Buffered,
}

/// All disks of a home folder: those of `disks.json`, and `home` itself in `data/`.
pub fn named_disks(home: &Path) -> Result<Vec<NamedDisk>> {
    let path = home.join("disks.json");
    let mut disks: Vec<NamedDisk> = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => vec![],
        Err(error) => return Err(Error::os("read", &path, &error)),
    };
    if disks.iter().all(|disk| disk.name != HOME) {
        let (name, folder) = (HOME.to_string(), PathBuf::from("data"));
        let (mode, rate, worker) = (NamedMode::Auto, None, local());
        disks.insert(0, NamedDisk { name, folder, mode, rate, worker });
    }
    for disk in &mut disks {
        disk.folder = home.join(&disk.folder);
    }
    Ok(disks)
}

/// The disk of this name; `None` is the one in the home folder.
pub fn named_disk(home: &Path, name: Option<&str>) -> Result<Disk> {
    let disks = named_disks(home)?;
    let name = name.unwrap_or(HOME);
    let Some(found) = disks.iter().find(|disk| disk.name == name) else {
        return Err(unknown("disk", name, disks.iter().map(|disk| disk.name.as_str()))
            .at(home.join("disks.json").display()));
    };
    let mode = match found.mode {
        NamedMode::Auto => Mode::Auto,
        NamedMode::Direct => Mode::Direct,
        NamedMode::Buffered => Mode::Buffered,
    };
    let disk = Disk::new(&found.name, &found.folder, mode)?;
    Ok(match found.rate {
        Some(rate) => disk.with_rate(rate),
        None => disk,
    })
}

/// The workers that own disks, by the disk's name.
pub fn owners(home: &Path) -> Result<BTreeMap<String, String>> {
    let owned = named_disks(home)?.into_iter().filter(|disk| disk.worker != LOCAL);
    Ok(owned.map(|disk| (disk.name, disk.worker)).collect())
}

/// Writes `disks.json`, whole or not at all.
pub fn save_named_disks(home: &Path, disks: &[NamedDisk]) -> Result<()> {
    let path = home.join("disks.json");
    let staged = home.join(".disks.json.new");
    let text = serde_json::to_vec_pretty(disks).expect("strings and numbers");
    std::fs::create_dir_all(home)
        .and_then(|()| std::fs::write(&staged, text))
        .and_then(|()| std::fs::rename(&staged, &path))
        .map_err(|error| Error::os("write", &path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_has_a_disk_and_more_can_be_named() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(named_disk(home.path(), None).unwrap().folder(), home.path().join("data"));
        let slow = NamedDisk {
            name: "slow".into(),
            folder: home.path().join("elsewhere"),
            mode: NamedMode::Direct,
            rate: Some(5_000_000),
            worker: "far".into(),
        };
        save_named_disks(home.path(), std::slice::from_ref(&slow)).unwrap();
        assert_eq!(named_disks(home.path()).unwrap()[1], slow);
        let disk = named_disk(home.path(), Some("slow")).unwrap();
        assert_eq!((disk.name(), disk.rate()), ("slow", Some(5_000_000)));
        let error = named_disk(home.path(), Some("slwo")).unwrap_err();
        assert!(error.to_string().contains("did you mean `slow`?"), "{error}");
    }

    #[test]
    fn a_wrong_file_is_the_users_mistake_and_says_where() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("disks.json"), "[{\"nam\": 1}]").unwrap();
        let error = named_disks(home.path()).unwrap_err();
        assert!(error.to_string().contains("disks.json"), "{error}");
    }
}
