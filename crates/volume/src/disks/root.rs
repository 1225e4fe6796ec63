//! Root documents: where the newest checkpoint of a volume is, and which process
//! writes its log.
//!
//! Each is a file of the catalog that is put only if it is absent, so of two processes that take
//! the lease at once, or publish a checkpoint, one fails.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use euphrates_device::durable::DurableFile;
use euphrates_flow::{Error, Result};
use euphrates_store::catalog::{Catalog, check_name};
use serde::{Deserialize, Serialize};

use crate::log::crc;

/// The folder of all volumes, in the catalog and on disks. No collection has such a name.
pub const VOLUMES: &str = "@volumes";
/// Root documents of a volume that stay: a reader may be about to open the one before.
const ROOTS_MAX: u64 = 2;

/// The state of a volume at a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRoot {
    /// From 1, without gaps.
    pub version: u64,
    pub name: String,
    /// A random number, which each block has, too.
    pub volume: u64,
    /// Data and parity blocks of a chunk.
    pub data: usize,
    pub parity: usize,
    /// The disks by name; places refer to them by number.
    pub disks: Vec<String>,
    /// The number of the mount that writes the log behind the checkpoint.
    pub epoch: u64,
    pub checkpoint: Option<CheckpointPlace>,
    /// The first chunk behind the checkpoint, and the first segment that may have it.
    pub next_chunk: u64,
    pub log_segment: u64,
    /// Seconds since 1970.
    pub written: u64,
    /// The holder of the lease.
    pub writer: Option<WriterName>,
}

/// Where the tree of a checkpoint is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointPlace {
    pub segment: u64,
    pub chunks: u64,
    /// The epoch of its blocks.
    pub epoch: u64,
}

/// A process that writes a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriterName {
    pub host: String,
    pub pid: u32,
    /// The machine since its last start.
    pub machine: String,
}

/// The root documents of a volume.
#[derive(Clone, Debug)]
pub struct Roots {
    pub name: String,
    pub folder: PathBuf,
}

impl WriterName {
    /// This process.
    pub fn here() -> WriterName {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let machine = format!("{host} {}", boot.trim());
        WriterName { host, pid: std::process::id(), machine }
    }
}

impl Roots {
    /// Those of a volume in the catalog of a home.
    pub fn of(home: &Path, name: &str) -> Result<Roots> {
        if check_name(name).is_err() || name.contains('/') {
            let error = Error::usage(format!("`{name}` cannot be the name of a volume"));
            return Err(error.remedy("use letters, digits, `_`, `-` and `.`"));
        }
        let catalog = Catalog::of(home)?;
        let Some(folder) = catalog.folder() else {
            let error = Error::usage("a volume needs a catalog in a folder of this machine");
            return Err(error.remedy("use a home without EUPHRATES_CATALOG and without --cluster"));
        };
        Ok(Roots { name: name.to_string(), folder: folder.join(VOLUMES).join(name) })
    }

    /// The newest root document, if there is a volume.
    pub fn newest(&self) -> Result<Option<VolumeRoot>> {
        loop {
            let Some(version) = self.versions()?.into_iter().max() else { return Ok(None) };
            let path = self.path(version);
            match fs::read(&path) {
                Ok(text) => return decode(&text, &path).map(Some),
                // A newer one has been published meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Error::os("read", &path, &error)),
            }
        }
    }

    /// Publishes a root document as the newest. Fails if another process was faster.
    pub fn publish(&self, root: &VolumeRoot) -> Result<()> {
        let path = self.path(root.version);
        let durability = DurableFile::write(&path, &encode(root))?.publish()?;
        let lost = || {
            let error = format!("another process has the lease of volume `{}`", self.name);
            Error::failed(error).remedy("see that one process mounts it for writing, then mount it")
        };
        durability.ok_or_else(lost)?.durable(&format!("the root of volume `{}`", self.name))?;
        let versions = self.versions()?;
        if versions.iter().any(|version| *version > root.version) {
            return Err(lost());
        }
        for old in versions.into_iter().filter(|old| old + ROOTS_MAX <= root.version) {
            let _ = fs::remove_file(self.path(old));
        }
        Ok(())
    }

    fn versions(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            entries => entries.map_err(|error| Error::os("list", &self.folder, &error))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect())
    }

    fn path(&self, version: u64) -> PathBuf {
        self.folder.join(format!("{version:010}.json"))
    }
}

fn encode(root: &VolumeRoot) -> Vec<u8> {
    let body = serde_json::to_string(root).expect("a root has no maps");
    format!("{:08x}\n{body}\n", crc(body.as_bytes())).into_bytes()
}

fn decode(text: &[u8], path: &Path) -> Result<VolumeRoot> {
    let root = std::str::from_utf8(text).ok().and_then(|text| {
        let (sum, body) = text.split_once('\n')?;
        let body = body.strip_suffix('\n')?;
        (u32::from_str_radix(sum, 16) == Ok(crc(body.as_bytes()))).then_some(())?;
        serde_json::from_str(body).ok()
    });
    root.ok_or_else(|| {
        let error = Error::corrupt("the root document of the volume is damaged").at(path.display());
        let before = "remove it to go back to the checkpoint before, whose number is one less";
        error.remedy(format!("restore the catalog from a backup; or {before}"))
    })
}
