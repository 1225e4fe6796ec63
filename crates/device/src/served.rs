//! Homes whose catalog and disks are served by the workers of a cluster.
//!
//! Such a home is a folder of the client with a description of the cluster, `cluster.json`. The
//! catalog and the disks are folders at workers, reached through the connector that the process has
//! installed: this crate knows no network.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::durable;
use crate::folder::DiskFolder;

const FILE: &str = "cluster.json";

/// The description of a home whose disks are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedHome {
    /// The folder of the home at the worker that has the catalog: on disks it identifies the home.
    pub home: PathBuf,
    /// Distinguishes this folder from those of other clients of the same cluster.
    pub client: String,
    /// The folder of the catalog.
    pub catalog: ServedFolderAddress,
    /// The disks.
    pub disks: Vec<ServedDisk>,
    /// How to reach the workers.
    pub access: WorkerAccess,
}

/// How a client authenticates itself to workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerAccess {
    /// The file with the cluster's token.
    pub token_file: PathBuf,
    /// Whether connections are encrypted; unix sockets never are.
    pub is_encrypted: bool,
    /// Milliseconds after which a worker that says nothing is lost; `None` for the default.
    pub lost_after_ms: Option<u64>,
}

/// A folder that a worker serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedFolderAddress {
    /// The name of the worker.
    pub worker: String,
    /// Where the worker listens.
    pub address: String,
    /// The name of the folder at the worker.
    pub folder: String,
}

/// A disk that a worker serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedDisk {
    /// The name of the disk.
    pub name: String,
    /// The machine of the worker.
    pub machine: String,
    /// Its folder.
    pub at: ServedFolderAddress,
}

/// Opens folders that workers serve.
pub trait Connector: Send + Sync {
    /// A folder; connects at its first use.
    fn folder(
        &self,
        at: &ServedFolderAddress,
        machine: &str,
        access: &WorkerAccess,
    ) -> Result<Arc<dyn DiskFolder>>;
}

static CONNECTOR: OnceLock<Box<dyn Connector>> = OnceLock::new();

/// Installs the connector of this process; the first one stays.
pub fn install(connector: Box<dyn Connector>) {
    let _ = CONNECTOR.set(connector);
}

impl ServedHome {
    /// The description in a home; `None` if its disks are not served.
    ///
    /// ```
    /// use euphrates_device::served::ServedHome;
    ///
    /// let home = tempfile::tempdir()?;
    /// assert!(ServedHome::of(home.path())?.is_none(), "a usual home");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(home: &Path) -> Result<Option<ServedHome>> {
        let path = home.join(FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| Error::usage(format!("{}: {error}", path.display()))),
            Err(error) if is_missing(error.kind()) => Ok(None),
            Err(error) => Err(Error::os("read", &path, &error)),
        }
    }

    /// Writes the description into a home, in place of any that is there.
    pub fn save(&self, home: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(Error::failed)?;
        durable::write(&home.join(FILE), &text)
    }

    /// The folder of the catalog.
    pub fn catalog_folder(&self) -> Result<Arc<dyn DiskFolder>> {
        connector()?.folder(&self.catalog, "", &self.access)
    }

    /// The folder of a disk.
    pub fn disk_folder(&self, disk: &ServedDisk) -> Result<Arc<dyn DiskFolder>> {
        connector()?.folder(&disk.at, &disk.machine, &self.access)
    }
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn connector() -> Result<&'static dyn Connector> {
    let none = || Error::failed("this program cannot reach served disks");
    CONNECTOR.get().map(|connector| &**connector).ok_or_else(none)
}
