//! The file of one copy of a segment, while it is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_device::disk::{Disk, DiskFile, Load, WriteBehind, at_once};
use euphrates_flow::{Error, Result};

use super::toc_path;

/// A file of a staged segment; invisible until a manifest lists it.
pub(crate) struct FileCopy {
    pub disk: Disk,
    pub path: PathBuf,
    file: Arc<DiskFile>,
    behind: WriteBehind,
}

impl FileCopy {
    /// Creates the file; fails if there is one of this name.
    pub fn create(disk: &Disk, path: PathBuf, load: Option<Load>) -> Result<FileCopy> {
        let file = disk.create(&path)?;
        let behind = WriteBehind::new(disk, &file, load);
        Ok(FileCopy { disk: disk.clone(), path, file, behind })
    }

    /// Queues the parts for writing at `offset`; a later `write` or `finish` may report the error.
    pub fn write(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        self.behind.write(offset, parts)
    }

    /// Returns when all bytes have been written, and with a table of contents, when the device has
    /// both.
    pub fn finish(&self, bytes: u64, toc: Option<&[u8]>) -> Result<()> {
        self.behind.wait()?;
        // A segment without one is scratch.
        let Some(toc) = toc else { return Ok(()) };
        let failed = |error: std::io::Error| Error::os("sync", &self.path, &error);
        self.file.publish().map_err(failed)?;
        let length = self.file.bytes().map_err(failed)?;
        if length != bytes {
            let message = format!("{length} bytes are on disk where {bytes} were written");
            return Err(Error::corrupt(message).at(self.path.display()));
        }
        at_once([true, false], |is_toc| match is_toc {
            true => write_synced(&toc_path(&self.path), toc),
            false => self.file.sync().map_err(failed),
        })
    }

    /// Removes the file and its table of contents; the removal of the staging folder takes what
    /// stays.
    pub fn abandon(&self) {
        let _ = self.disk.remove(&self.path);
        let _ = self.disk.remove(&toc_path(&self.path));
    }
}

pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = std::fs::File::create(path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    write().map_err(|error| Error::os(format!("write {} bytes of", bytes.len()), path, &error))
}
